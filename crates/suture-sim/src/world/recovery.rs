//! How what was broken comes back: faults that end, and what was kept of the metadata.
//!
//! Place: around all of failure -> ... -> stripe healthy. Faults are injected in `injection`; what
//! ends them is an event of the world like any other.

use std::collections::{BTreeMap, BTreeSet};

use suture_repair::id::{NodeId, StripeId};
use suture_repair::time::Time;

use crate::metadata;
use crate::party::Party;

/// The end of a fault that lasts a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// An agent starts again.
    Agent(NodeId),
    /// A coordinator starts again.
    Coordinator,
    /// The coordinator takes in what was sent to it while it slept.
    Awake,
    /// Two parties receive each other's messages again.
    Heal(Party, Party),
    /// What a node computes is right again.
    Memory(NodeId),
    /// The node's disk can be read again.
    Reads(NodeId),
    /// The node's disk gives no errors any more.
    Errors(NodeId),
    /// The node's disk answers again.
    Answers(NodeId),
    /// The node's agent can open files again.
    Descriptors(NodeId),
    /// A disk has its capacity again.
    Capacity(NodeId),
    /// The operator takes a node back.
    Return(NodeId),
    /// Repairs may begin again.
    Resume,
    /// A put ends: its stripe becomes visible, or it was aborted.
    PutEnds(StripeId),
    /// The keeper takes a node for dead if the process of this incarnation is still the last.
    Watch(NodeId, u64),
    /// The keeper no longer empties a node.
    Recommission(NodeId),
    /// The lost metadata are found.
    Found,
    /// The operator gives a node's name to the store that it has now.
    Replace(NodeId),
    /// The operator no longer empties a node.
    Keep(NodeId),
    /// An agent under another one's name tries again.
    Impostor(Impostor),
}

/// What a coordinator keeps, as it was at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBackup {
    pub metadata: metadata::Backup,
    pub paused: bool,
    pub declared: BTreeSet<NodeId>,
    pub draining: BTreeSet<NodeId>,
    pub paused_nodes: BTreeMap<NodeId, Pause>,
    /// By the clock of the day.
    pub pass: (Option<Time>, Option<StripeId>),
}

/// Until when a node may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// By the coordinator that runs.
    pub until: Time,
    /// By the clock of the day: what the metadata keep for the next coordinator.
    pub day: Time,
}

/// An agent under another one's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impostor {
    /// The node that it claims to be.
    pub node: NodeId,
    /// Its store; none of its own where it has a copy of the node's disk.
    pub store: Option<u64>,
    /// It goes on trying until then.
    pub until: Time,
}
