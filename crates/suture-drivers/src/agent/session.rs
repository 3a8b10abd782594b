//! The seam between an agent's data plane and the session with its coordinator.
//!
//! Place: ... admit -> `[dispatch]` -> slices flow -> chunk durable -> `[commit]` ...
//! The control plane feeds events in and carries messages out; it may lose, repeat and delay
//! messages, as `message.rs` allows, and it never makes the agent wait: a full outbox drops the
//! message, which the core repeats by time.

use suture_repair::id::NodeId;
use suture_repair::message::{FromAgent, ToAgent};
use tokio::sync::mpsc;

use crate::address::AgentAddress;
use crate::put_key::PutKey;

/// Messages that may wait in either direction. Heartbeats are seconds apart and a dispatch is the
/// most frequent message, so this is minutes of talk; more only hides a coordinator that hangs.
pub const SESSION_QUEUE: usize = 1024;

/// What the control plane sends to the agent.
#[derive(Debug)]
pub enum SessionEvent {
    /// A session with the coordinator of this epoch began.
    Connected {
        /// Grows with each start of a coordinator.
        epoch: u32,
    },
    /// By which the stamps of puts are known.
    PutKey(PutKey),
    /// The session ended; messages are dropped until the next one.
    Disconnected,
    /// The coordinator sent a message.
    Message(ToAgent),
    /// Where each node takes slices, or that it is out of reach; replaces what was known before.
    /// Frames for a node that is left out wait until something is known of it.
    Peers(Vec<(NodeId, Option<AgentAddress>)>),
}

/// The agent's end of the seam.
#[derive(Debug)]
pub struct Session {
    /// What the control plane sends; when it is closed the agent stops.
    pub events: mpsc::Receiver<SessionEvent>,
    /// What the agent sends.
    pub outbox: mpsc::Sender<FromAgent>,
}

/// The control plane's end of the seam.
#[derive(Debug)]
pub struct SessionFeed {
    /// Where sessions and messages of the coordinator go in.
    pub events: mpsc::Sender<SessionEvent>,
    /// What the agent wants sent.
    pub outbox: mpsc::Receiver<FromAgent>,
}

/// Both ends of a new seam.
pub fn session() -> (Session, SessionFeed) {
    let (events, agent_events) = mpsc::channel(SESSION_QUEUE);
    let (agent_outbox, outbox) = mpsc::channel(SESSION_QUEUE);
    (Session { events: agent_events, outbox: agent_outbox }, SessionFeed { events, outbox })
}
