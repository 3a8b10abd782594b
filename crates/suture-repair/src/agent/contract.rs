//! What goes into an agent, what comes out of it, and what one may ask it.
//!
//! Place: the frame of `agent.rs`: dispatch -> [slices flow -> chunk proven and durable] -> commit.
//! The table at `Agent` says which input answers which output.

use std::sync::Arc;

use crate::id::{ChunkCopy, NodeId, RepairId};
use crate::message::{Check, CopyFault, Failure, FromAgent, ToAgent};
use crate::planner::Abilities;
use crate::role::Role;
use crate::slice::SliceId;
use crate::time::Span;

/// What an agent is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which node it is.
    pub me: NodeId,
    /// Different for each start.
    pub incarnation: u64,
    /// What its driver can execute.
    pub abilities: Abilities,
    /// Memory for slices.
    pub pool_bytes: u64,
    /// How often it reports.
    pub heartbeat_every: Span,
    /// A task in which nothing moves for so long is given up.
    pub stall_after: Span,
    /// How often it lists its copies unasked, so that a lost message costs only delay.
    pub inventory_every: Span,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A session with the coordinator of this epoch began.
    Connected {
        /// The coordinator's epoch.
        epoch: u32,
    },
    /// The session ended.
    Disconnected,
    /// The coordinator said something.
    Message(ToAgent),
    /// `from` takes all slices of the lane below `upto`.
    Granted {
        /// The parent.
        from: NodeId,
        /// The repair.
        repair: RepairId,
        /// The lane.
        lane: u16,
        /// One past the last granted slice.
        upto: u32,
    },
    /// A wanted slice from a child is in memory.
    SliceArrived {
        /// The child.
        from: NodeId,
        /// Which slice.
        id: SliceId,
    },
    /// A slice that was to be read is in memory, checked, or cannot be had.
    SliceRead {
        /// Which slice.
        id: SliceId,
        /// The trouble, if any: the own copy's or the spool's.
        result: Result<(), Failure>,
    },
    /// A child's slice has left memory for the spool.
    SliceKept {
        /// The child.
        from: NodeId,
        /// Which slice.
        id: SliceId,
    },
    /// A result of a slice has left memory: sent, written or spooled (all of them at once).
    SliceLeft(SliceId),
    /// A write did not succeed.
    WriteFailed {
        /// The repair.
        repair: RepairId,
        /// Why.
        why: Failure,
    },
    /// The temporary file for the chunk exists, or not.
    Prepared {
        /// The repair.
        repair: RepairId,
        /// The trouble, if any.
        result: Result<(), Failure>,
    },
    /// The chunk is proven and durable under its name, or not.
    Published {
        /// The repair.
        repair: RepairId,
        /// The trouble, if any.
        result: Result<(), Failure>,
    },
    /// A peer is out of reach.
    PeerLost(NodeId),
    /// All copies on disk, and the room left.
    Listed {
        /// The copies.
        copies: Vec<ChunkCopy>,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A copy was read in full.
    Checked {
        /// What was asked.
        check: Check,
        /// What is wrong with it, if anything.
        result: Result<(), CopyFault>,
    },
    /// Someone who reads chunks found a copy to be of no use.
    Found {
        /// Which copy.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Tell the coordinator.
    Send(FromAgent),
    /// Tell a child that slices below `upto` may come.
    Grant {
        /// The child.
        to: NodeId,
        /// The repair.
        repair: RepairId,
        /// The lane.
        lane: u16,
        /// One past the last granted slice.
        upto: u32,
    },
    /// Make room on disk for the chunk to be rebuilt.
    Prepare {
        /// The repair.
        repair: RepairId,
        /// The chunk's length.
        bytes: u64,
    },
    /// The temporary file of `from`, which ends here, becomes that of this repair; everything else
    /// of `from` is dropped.
    Continue {
        /// The repair.
        repair: RepairId,
        /// The attempt that it goes on with.
        from: RepairId,
    },
    /// Read a slice, of the own copy or of what was spooled, and check it.
    Read {
        /// Which slice.
        id: SliceId,
        /// Which pieces of the copy; which part of the spool.
        role: Arc<Role>,
        /// Its spooled results; or, where sources are spooled, those of all children, and the own
        /// copy's pieces where there is one.
        spool: bool,
    },
    /// Combine the sources of the slice that are in memory, and hand each result to its sink. A
    /// slice of which the results were spooled is its results already.
    Deliver {
        /// Which slice.
        id: SliceId,
        /// What to combine, and the sinks.
        role: Arc<Role>,
    },
    /// Combine the sources of the slice that are in memory, and write the results to the spool.
    Spool {
        /// Which slice.
        id: SliceId,
        /// What to combine.
        role: Arc<Role>,
    },
    /// Write the slice of this child, which is in memory, to the spool as it is.
    Keep {
        /// Which slice.
        id: SliceId,
        /// The child.
        from: NodeId,
        /// Where to.
        role: Arc<Role>,
    },
    /// Prove the chunk by reading it back, make it durable, give it its name.
    Publish {
        /// The repair.
        repair: RepairId,
        /// The name.
        copy: ChunkCopy,
        /// The length.
        bytes: u64,
        /// What it must sum to.
        crc: u32,
    },
    /// Drop every slice and temporary of the repair.
    Discard(RepairId),
    /// List all copies.
    List,
    /// Read a copy in full.
    Check(Check),
    /// Remove a copy.
    Delete(ChunkCopy),
}

/// What a curious driver or checker may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Memory that running tasks may use.
    pub reserved_bytes: u64,
    /// Running tasks and their bytes done.
    pub running: Vec<(RepairId, u64)>,
    /// Edges of gated tasks that have arrived in full: repair, lane and who sent.
    pub arrived: Vec<(RepairId, u16, NodeId)>,
}

impl Input {
    /// The repair whose task it may begin, change or end as a whole. Grants and slices only move
    /// pumps.
    pub(super) fn task(&self) -> Option<RepairId> {
        match self {
            Input::Message(message) => match message {
                ToAgent::Dispatch(task) => Some(task.repair),
                ToAgent::Cancel(repair) | ToAgent::Forget(repair) => Some(*repair),
                ToAgent::Release { repair, .. } | ToAgent::Hold { repair, .. } => Some(*repair),
                ToAgent::Check(_) | ToAgent::Delete { .. } | ToAgent::List => None,
            },
            Input::WriteFailed { repair, .. }
            | Input::Prepared { repair, .. }
            | Input::Published { repair, .. } => Some(*repair),
            Input::SliceRead { id, result: Err(_) } => Some(id.repair),
            _ => None,
        }
    }
}
