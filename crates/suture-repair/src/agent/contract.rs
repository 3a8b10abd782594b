//! What goes into an agent, what comes out of it, and what one may ask it.
//!
//! Place: the frame of `agent.rs`: dispatch -> [slices flow -> chunk proven and durable] -> commit.
//! The table at `Agent` says which input answers which output.

use std::sync::Arc;

use crate::id::{ChunkCopy, EdgeRef, ListedCopy, NodeId, RepairId};
use crate::label::Label;
use crate::message::{
    Check, CopyFault, DiskState, Failure, FingerprintRequest, FromAgent, LinkReport, RepairLimit,
    ToAgent,
};
use crate::planner::Abilities;
use crate::role::Role;
use crate::slice::SliceId;
use crate::time::Span;

/// What an agent is made from.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Which node it is.
    pub me: NodeId,
    /// The number of this start: different for each.
    pub incarnation: u64,
    /// What its driver can execute.
    pub abilities: Abilities,
    /// Slice memory that its tasks may hold together, in bytes.
    pub pool_bytes: u64,
    /// How often it reports.
    pub heartbeat_every: Span,
    /// A task in which nothing moves for so long without a coordinator is given up.
    pub stall_after: Span,
    /// How often it lists its copies unasked, so that a lost message costs only delay.
    pub inventory_every: Span,
}

/// What an agent receives: from its driver, from the coordinator, from peers. Slices come often and
/// messages seldom, so what is long stands behind a pointer.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// A session with the coordinator of this epoch began.
    Connected {
        /// The coordinator's epoch: orders of an older one count no more.
        epoch: u32,
    },
    /// The session with the coordinator ended.
    Disconnected,
    /// The coordinator sent a message.
    Message(Box<ToAgent>),
    /// `from` takes the slices of the lane from `first` on, below `below`.
    Granted {
        /// The parent, which takes the slices.
        from: NodeId,
        /// Which repair it is about.
        repair: RepairId,
        /// Which lane of its plan.
        lane: u16,
        /// The first slice that it wants at all.
        first: u32,
        /// One past the last granted slice.
        below: u32,
    },
    /// A wanted slice from a child is in memory.
    SliceArrived {
        /// The child, which sends the slices.
        from: NodeId,
        /// Its repair, lane and number.
        id: SliceId,
    },
    /// A slice that was to be read is in memory, checked, or cannot be had.
    SliceRead {
        /// Its repair, lane and number.
        id: SliceId,
        /// The fault, if any: the own copy's or the spool's.
        result: Result<(), Failure>,
    },
    /// A child's slice has left memory for the spool.
    SliceSpilled {
        /// The child, which sends the slices.
        from: NodeId,
        /// Its repair, lane and number.
        id: SliceId,
    },
    /// A result of a slice has left memory: sent, written or spooled (all of them at once).
    SliceLeft(SliceId),
    /// A write did not succeed.
    WriteFailed {
        /// Which repair it is about.
        repair: RepairId,
        /// Why it did not.
        why: Failure,
    },
    /// The temporary file for the chunk exists, or not.
    Prepared {
        /// Which repair it is about.
        repair: RepairId,
        /// What went wrong, if anything.
        result: Result<(), Failure>,
    },
    /// The chunk is proven and durable under its name, or not.
    Published {
        /// Which repair it is about.
        repair: RepairId,
        /// What went wrong, if anything.
        result: Result<(), Failure>,
    },
    /// A peer is out of reach.
    PeerLost(NodeId),
    /// All copies on disk, and the bytes that are free.
    Listed {
        /// Every copy, in ascending order.
        copies: Vec<ListedCopy>,
        /// Free bytes of the disk.
        free_bytes: u64,
    },
    /// The copies on disk cannot be listed in full, so they were not.
    NotListed,
    /// How many bytes of the disk are free now.
    FreeBytes(u64),
    /// How the disk is.
    Disk(DiskState),
    /// A copy was read in full.
    Checked {
        /// The check as it was asked for.
        check: Box<Check>,
        /// What is wrong with it, if anything.
        result: Result<(), CopyFault>,
    },
    /// A copy was removed, or could not be.
    Deleted(ChunkCopy),
    /// A chunk was read in full for its fingerprint, or cannot be: by [`Failure::Source`] where it
    /// is a published copy.
    Fingerprinted {
        /// The request that is answered.
        request: Box<FingerprintRequest>,
        /// The fingerprint, or what is wrong.
        result: Result<Arc<[u8]>, Failure>,
    },
    /// A reader of chunks found a copy to be of no use.
    Found {
        /// The copy that is of no use.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
    /// What links have carried since the last of these; the next heartbeat reports it.
    Measured(Box<LinkReport>),
    /// Nothing but that time passed.
    Tick,
}

/// What is to be done; short, like [`AgentInput`].
#[derive(Clone, Debug)]
pub enum AgentOutput {
    /// Send the coordinator a message.
    Send(Box<FromAgent>),
    /// Notify a child that slices from `first` on, below `below`, may come.
    Grant {
        /// The child, which sends the slices.
        to: NodeId,
        /// Which repair it is about.
        repair: RepairId,
        /// Which lane of its plan.
        lane: u16,
        /// The first slice that is wanted at all: the same in all grants of the lane.
        first: u32,
        /// One past the last granted slice.
        below: u32,
    },
    /// Make a temporary file on disk for the chunk to be rebuilt.
    Prepare {
        /// Which repair it is about.
        repair: RepairId,
        /// The chunk's length; results go on past it where another chunk of the plan is longer.
        bytes: u64,
    },
    /// The temporary file of `from`, which ends here, becomes that of this repair; everything else
    /// of `from` is dropped.
    Continue {
        /// Which repair it is about.
        repair: RepairId,
        /// The attempt that it goes on with.
        from: RepairId,
    },
    /// Read a slice, of the own copy or of what was spooled, and check it.
    Read {
        /// Its repair, lane and number.
        id: SliceId,
        /// Which pieces of the copy; which part of the spool.
        role: Arc<Role>,
        /// Its spooled results; or, where sources are spooled, those of all children, and the own
        /// copy's pieces where there is one.
        spool: bool,
    },
    /// Combine the sources of the slice that are in memory, and hand each result to its sink. Where
    /// results were spooled, what was read of the spool is the results, and nothing is combined.
    Deliver {
        /// Its repair, lane and number.
        id: SliceId,
        /// What to combine, and the sinks.
        role: Arc<Role>,
    },
    /// Combine the sources of the slice that are in memory, and write the results to the spool.
    Spool {
        /// Its repair, lane and number.
        id: SliceId,
        /// What to combine, and where it goes.
        role: Arc<Role>,
    },
    /// Write the slice of this child, which is in memory, to the spool as it is.
    Spill {
        /// Its repair, lane and number.
        id: SliceId,
        /// The child, which sends the slices.
        from: NodeId,
        /// Where in the spool it goes.
        role: Arc<Role>,
    },
    /// Prove the chunk by reading it back, unless its fingerprint proved it before; make it
    /// durable, give it its name.
    Publish {
        /// Which repair it is about.
        repair: RepairId,
        /// The name that it is given.
        copy: ChunkCopy,
        /// The length that it must have.
        bytes: u64,
        /// What it must sum to; none where its fingerprint was asked for.
        crc: Option<u32>,
        /// What is kept beside it.
        label: Label,
    },
    /// Drop every slice and temporary of the repair.
    Discard(RepairId),
    /// List all copies on the disk, and its free bytes.
    List,
    /// Read a copy in full.
    Check(Box<Check>),
    /// Read a chunk in full for its fingerprint.
    Fingerprint {
        /// Which chunk, and how.
        request: Box<FingerprintRequest>,
        /// Whether it is what the repair is making here, not a published copy.
        is_written: bool,
    },
    /// Remove a copy from the disk.
    Delete(ChunkCopy),
    /// Move no more for repairs than this from now on.
    Limit(RepairLimit),
}

/// What runs at an agent, for drivers and checkers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentStatus {
    /// Memory that running tasks may use.
    pub reserved_bytes: u64,
    /// Running tasks and their bytes done.
    pub running: Vec<(RepairId, u64)>,
    /// Edges of gated tasks that have arrived in full, by sender.
    pub arrived: Vec<EdgeRef>,
    /// Tasks whose chunk waits for its proof by fingerprints.
    pub written: Vec<RepairId>,
}

impl AgentInput {
    /// The repair whose task it may begin, change or end as a whole. Grants and slices only move
    /// pumps.
    pub(super) fn task(&self) -> Option<RepairId> {
        match self {
            AgentInput::Message(message) => match &**message {
                ToAgent::Dispatch(task) => Some(task.repair),
                ToAgent::Cancel(repair) | ToAgent::Forget(repair) | ToAgent::Publish(repair) => {
                    Some(*repair)
                }
                ToAgent::Release { repair, .. } | ToAgent::Hold { repair, .. } => Some(*repair),
                ToAgent::Check(_)
                | ToAgent::Fingerprint(_)
                | ToAgent::Delete { .. }
                | ToAgent::List
                | ToAgent::Limit(_) => None,
            },
            AgentInput::WriteFailed { repair, .. }
            | AgentInput::Prepared { repair, .. }
            | AgentInput::Published { repair, .. } => Some(*repair),
            AgentInput::Fingerprinted { request, .. } => Some(request.repair),
            AgentInput::SliceRead { id, result: Err(_) } => Some(id.repair),
            _ => None,
        }
    }
}
