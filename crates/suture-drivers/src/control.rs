//! The control plane: gRPC between coordinator, agents and clients. No chunk bytes pass here.
//!
//! Place: [failure detected] -> ... -> `[dispatch]` -> ... -> [commit location] -> stripe healthy.
//! * [`convert`] is the one place where the core's types become messages and come back, checked;
//! * [`acceptor`] takes the connections, [`rpc`] the calls; whether a caller may make a call is
//!   judged by [`access`], what is changed comes into the [`audit`] log ([`served`]; what operators
//!   command: [`command`]), and [`trust`] knows when certificates end; [`service`] answers clients
//!   and operators (of scrubs with [`scrub`]), [`session`] talks to one agent, [`put`] follows one
//!   put within a [`put_budget`] and across changes of certificates ([`put_renewal`]), [`backup`]
//!   sends the metadata: the coordinator's side;
//! * [`join`] is the agent's side of its session, of which [`membership`] is kept, [`client`] the
//!   side of all others, for which [`summary`] puts a status into one line; what an agent has is
//!   sent as a [`listing`].
//!
//! Invariant: a message with an impossible value ends the stream or the call that it came
//! on, with the reason; it never reaches the core.

pub mod acceptor;
pub mod access;
pub mod audit;
pub mod backup;
pub mod client;
mod command;
pub mod convert;
pub mod join;
mod kept_status;
pub mod listing;
pub mod membership;
pub mod node_command;
pub mod object_name;
pub mod put;
mod put_budget;
mod put_renewal;
pub mod rpc;
mod scrub;
pub mod served;
pub mod service;
pub mod session;
mod status;
pub mod summary;
pub mod throttle;
pub mod trust;

/// Messages and services, generated from `proto/suture.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    tonic::include_proto!("suture.v1");
}

/// The newest version of the control plane that this program speaks; it is raised where an old peer
/// would misread a new one. 10: a session is of the newest version that both sides speak.
/// 8: orders to delete name the session.
/// 7: agents report that they cannot list their copies,
/// and know puts by their stamps.
/// 6: tasks carry labels, copies are asked for theirs, agents are ordered to keep backups.
/// 5: agents announce which store they have, listings come in parts.
/// 4: agents answer when a copy is deleted.
/// 3: plans name nodes by number.
/// 2: a lane's slices are as long as it is itself,
/// tasks may be gated, held and continued.
/// 1: the first.
pub const PROTOCOL_VERSION: u32 = 10;

/// The oldest that it speaks: the newest of the release before, so that a cluster can be upgraded
/// machine by machine.
pub const PROTOCOL_OLDEST: u32 = 9;

/// The status of a put's commit that failed, and may be found carried out all the same when the
/// coordinator starts again.
pub(crate) const IN_DOUBT: tonic::Code = tonic::Code::DataLoss;

/// What a coordinator of any release answers to an agent whose version it does not speak.
const OTHER_PROTOCOL: &str = "the agent speaks protocol";

/// The version of the session that an agent asks for: the newest that both sides speak.
///
/// # Errors
/// What to do where there is none.
pub fn agreed_protocol(join: &proto::Join) -> Result<u32, String> {
    let newest = join.protocol;
    let oldest = if join.oldest_protocol == 0 { newest } else { join.oldest_protocol };
    let agreed = newest.min(PROTOCOL_VERSION);
    if oldest <= agreed && PROTOCOL_OLDEST <= agreed {
        return Ok(agreed);
    }
    let theirs = if oldest < newest { format!("{oldest} to {newest}") } else { newest.to_string() };
    Err(format!(
        "{OTHER_PROTOCOL} {theirs}, the coordinator {PROTOCOL_OLDEST} to {PROTOCOL_VERSION}: run the same suture on both, or releases that follow on each other"
    ))
}

/// The longest message that the coordinator takes: listings come in parts of 2.6 MB at most, and a
/// fingerprint of a code with 4096 sub-chunks has 2 MiB. Only agents can make it keep so much.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The longest message of any other call: names and numbers. A stripe of 255 chunks that was put
/// has some 7 KB. A caller of any role can make the coordinator keep so much for each of its calls.
pub const SHORT_REQUEST_BYTES_MAX: usize = 16 << 10;

/// The longest message that it sends: a status with two million blocked stripes has some 256 MB.
/// Clients accept replies up to this size from a coordinator.
pub const REPLY_BYTES_MAX: usize = 256 << 20;

/// Stripes to a message, where a stream of messages carries many: some 100 KB.
pub const STRIPES_PER_MESSAGE: u32 = 512;

/// How often either side of a quiet connection asks whether the other one is still there.
pub const KEEPALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(2);

/// How long it waits for the answer. A machine that lost its power is noticed no later than this;
/// a killed process at once.
pub const KEEPALIVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_of_the_newest_version_that_both_sides_speak() {
        let agreed = |protocol, oldest_protocol| {
            agreed_protocol(&proto::Join { protocol, oldest_protocol, ..proto::Join::default() })
        };
        let (newest, oldest) = (PROTOCOL_VERSION, PROTOCOL_OLDEST);
        assert_eq!(agreed(newest, oldest), Ok(newest));
        assert_eq!(agreed(oldest, 0), Ok(oldest), "the release before");
        assert_eq!(agreed(newest + 1, newest), Ok(newest), "the next release");
        for (protocol, least) in [(newest + 2, newest + 1), (oldest - 1, 0), (newest + 1, 0)] {
            assert!(agreed(protocol, least).is_err(), "{protocol}");
        }
        assert!(agreed(oldest, newest).is_err(), "nonsense");
        let why = agreed(newest + 2, newest + 1).unwrap_err();
        assert!(why.contains(&format!("{} to {}", newest + 1, newest + 2)), "{why}");
    }
}
