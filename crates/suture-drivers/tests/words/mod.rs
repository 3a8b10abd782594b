//! What an agent says to a coordinator.

use suture_drivers::control::{PROTOCOL_VERSION, proto};

/// What an agent of that name says first.
pub fn join(name: &str) -> proto::AgentMessage {
    let join = proto::Join {
        protocol: PROTOCOL_VERSION,
        name: name.into(),
        data_address: "127.0.0.1:9".into(),
        uplink: 1e9,
        downlink: 1e9,
        ..Default::default()
    };
    proto::AgentMessage { message: Some(proto::agent_message::Message::Join(join)) }
}
