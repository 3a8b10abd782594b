//! What an agent sends to a coordinator.

use suture_drivers::control::{PROTOCOL_VERSION, proto};

/// An address where no process listens, another one for each name.
fn address(name: &str) -> String {
    let number =
        name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let [_, a, b, c] = number.to_be_bytes();
    format!("127.{a}.{b}.{c}:9")
}

/// What an agent of that name sends first.
pub fn join(name: &str) -> proto::AgentMessage {
    let join = proto::Join {
        protocol: PROTOCOL_VERSION,
        name: name.into(),
        data_address: address(name),
        uplink: 1e9,
        downlink: 1e9,
        ..Default::default()
    };
    proto::AgentMessage { message: Some(proto::agent_message::Message::Join(join)) }
}
