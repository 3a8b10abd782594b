//! Who sends and receives messages, and what a transcript is of.
//!
//! Place: beside the whole life of a repair.

use suture_repair::id::NodeId;

/// One party of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The coordinator.
    Coordinator,
    /// An agent.
    Agent(NodeId),
}
