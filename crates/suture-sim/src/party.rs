//! What sends and receives messages, and what a transcript is of.
//!
//! Place: beside the whole life of a repair: at both ends of every message.

use suture_repair::id::NodeId;

/// A sender or receiver of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The coordinator that is up, whichever it is.
    Coordinator,
    /// The agent of a node.
    Agent(NodeId),
}
