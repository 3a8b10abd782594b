//! What one may ask the coordinator: what is at risk, what runs, how nodes are, how far a pass is.
//!
//! Place: beside the whole life of a repair; it only reports.

use super::{Blocked, Health};
use crate::cluster::NodeIntent;
use crate::id::{ChunkIndex, CopyAt, NodeId, RackId, RepairId, StripeId};
use crate::message::DiskState;
use crate::throttle::{Direction, Limited, NodeLimits, ThrottleConfig};
use crate::time::{Span, Time};

/// One line of `suture status` about a running repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRepair {
    /// The id of the repair.
    pub repair: RepairId,
    /// The stripe under repair.
    pub stripe: StripeId,
    /// The chunk that is rebuilt.
    pub chunk: ChunkIndex,
    /// The node that will keep it.
    pub destination: NodeId,
    /// Bytes of the rebuilt chunk so far, as last reported.
    pub bytes_done: u64,
    /// The chunk's length in bytes.
    pub bytes: u64,
    /// When it was dispatched.
    pub since: Time,
}

/// One line of `suture status` about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The number of the node.
    pub node: NodeId,
    /// What its health is.
    pub health: Health,
    /// What the operator wants of it.
    pub intent: NodeIntent,
    /// Free bytes on its disk, as last reported.
    pub free_bytes: u64,
    /// How its disk is, as last reported.
    pub disk: DiskState,
    /// Whether no other agent can reach it, though it speaks.
    pub is_cut_off: bool,
    /// How many chunks it should hold.
    pub chunks: u64,
    /// What repair may move there, and why no more.
    pub limits: NodeLimits,
    /// What its links carry as far as is known: sent, received.
    pub links: [LinkStatus; 2],
}

/// What one direction of a node's links carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// What plans count with, in bytes per second.
    pub capacity: u64,
    /// How far that may be off, in bytes per second; none: it was declared, or only taken for that.
    pub uncertainty: Option<u64>,
    /// Whether it was declared: then it is never taken for more.
    pub is_declared: bool,
    /// What applications take of it, in bytes per second.
    pub taken: u64,
    /// What repair has moved lately, in bytes per second.
    pub repair: u64,
}

impl NodeStatus {
    /// Whether it can be used, and may be given chunks.
    pub fn serves(&self) -> bool {
        self.health == Health::Up && self.intent == NodeIntent::Serving
    }
}

/// All that `suture status` says of repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether new repairs are begun.
    pub paused: bool,
    /// Every node, by id.
    pub nodes: Vec<NodeStatus>,
    /// Stripes by how many more chunks they can lose: index 0 is the most at risk.
    pub at_risk: Vec<u64>,
    /// Stripes among the first of `at_risk` of which too little is left to rebuild anything.
    pub beyond: u64,
    /// Stripes with chunks that are lost or to move, and wait for their turn.
    pub queued: u64,
    /// Stripes of which some chunk cannot be read now.
    pub degraded: u64,
    /// Degraded stripes whose data cannot be read now, since too many chunks are missing.
    pub unreadable: u64,
    /// Lost chunks, in all stripes that can be repaired.
    pub lost_chunks: u64,
    /// Bytes of the lost chunks.
    pub lost_bytes: u64,
    /// Lost chunks whose repair cannot begin until something changes.
    pub stuck_chunks: u64,
    /// Bytes of the chunks whose repair cannot begin.
    pub stuck_bytes: u64,
    /// Chunks that are whole and to move elsewhere.
    pub leaving_chunks: u64,
    /// Bytes of the chunks that are to move.
    pub leaving_bytes: u64,
    /// Chunks repaired since the coordinator's start.
    pub repaired_chunks: u64,
    /// Bytes of the repaired chunks.
    pub repaired_bytes: u64,
    /// The repairs that run, by id.
    pub running: Vec<RunningRepair>,
    /// What waits for something to change.
    pub blocked: Vec<(StripeId, Blocked)>,
    /// How far copies are searched for damage.
    pub scrub: ScrubStatus,
    /// What repair may take.
    pub throttle: ThrottleStatus,
    /// What moves to nodes that hold little.
    pub rebalance: RebalanceStatus,
    /// How many stripes could not be read without each rack that has any, though all of their
    /// chunks are there: more of them are in it than may be lost together. A stripe counts once.
    pub crowded: Vec<(RackId, u64)>,
}

/// Chunks that move so that no node holds much less than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebalanceStatus {
    /// How many are moving, or next.
    pub chunks: u64,
    /// Bytes that are still to move to nodes that are being filled.
    pub bytes_left: u64,
}

/// What an operator lets repair take, and what that comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrottleStatus {
    /// The configuration of the throttle, as an operator set it.
    pub config: ThrottleConfig,
    /// How long the window stays closed; none: it is open.
    pub closed_for: Option<Span>,
    /// What repairs move now, in bytes per second: the sum of what nodes send.
    pub moved: u64,
    /// The direction of a node that is left the smallest fraction of its link, of those that have
    /// anything to move; none where nothing is limited.
    pub tightest: Option<TightestLink>,
}

/// The limit that leaves repair the least of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TightestLink {
    /// The node at the link.
    pub node: NodeId,
    /// What of it is limited.
    pub direction: Direction,
    /// The limit, and why it is that.
    pub limited: Limited,
}

/// All that `suture status` says of scrubbing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// How many passes this coordinator has begun or gone on with.
    pub passes: u64,
    /// The one that runs.
    pub pass: Option<PassStatus>,
    /// When the next one begins; none: when an operator wants it.
    pub next_in: Option<Span>,
    /// Copies of no use that passes have found since the coordinator's start.
    pub found: u64,
    /// Copies that the pass that runs, or else the last one, has not read, since their nodes were
    /// paused or dead; since the coordinator's start.
    pub left_out: u64,
    /// Stripes whose chunks do not fit each other, though no copy can be called corrupt.
    pub inconsistent: Vec<StripeId>,
    /// Copies that could not be read at the last attempt, by any reader, and may be whole.
    pub unread: u64,
    /// The first few of these.
    pub unread_first: Vec<CopyAt>,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassStatus {
    /// Stripes that are done.
    pub stripes_done: u64,
    /// Stripes that there are.
    pub stripes: u64,
    /// What was asked to be read for it, since the coordinator's start.
    pub bytes_done: u64,
    /// Stripes that wait for a silent node.
    pub put_off: u64,
}

/// What can be read of a stripe now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeState {
    /// Chunks that cannot be read: lost, or on a node that is not up.
    pub missing: usize,
    /// Bytes of those that can.
    pub readable_bytes: u64,
    /// Whether these are enough for all of the data.
    pub is_readable: bool,
    /// Whether its chunks fit each other, as far as passes have found.
    pub is_consistent: bool,
}
