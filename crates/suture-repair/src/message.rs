//! What coordinator, agents and their drivers send each other.
//!
//! Place: around all of failure -> ... -> stripe healthy, between coordinator and agents.
//! Messages get lost, come twice and come late; so every message is either a fact that stays true
//! or names the repair or the copy that it is about, and an agent or coordinator that waits for one
//! asks again.
//! The encoding is the drivers' affair; `wire.rs` frames what agents send each other.

use std::fmt;
use std::sync::Arc;

use suture_code::layout::Layout;

use crate::id::{ChunkCopy, ChunkIndex, CopyAt, Digest, EdgeRef, ListedCopy, NodeId, RepairId};
use crate::label::Label;
use crate::plan::{Plan, StripeFacts};
use crate::planner::Abilities;
use crate::stripe::Stripe;
use crate::time::Span;

/// One repair as it is sent to every participant. Each derives its own role from the whole plan
/// (`role.rs`), so there is one message, not one for each kind of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The repair that it is part of.
    pub repair: RepairId,
    /// The stripe as the coordinator knows it.
    pub stripe: Stripe,
    /// The whole plan, of which each agent derives its role.
    pub plan: Plan,
    /// The transport unit of a lane over the whole range; shorter lanes have shorter slices.
    pub slice_bytes: u32,
    /// How many slices may be under way on one edge.
    pub window: u32,
    /// Every edge waits for its `Release`, and receivers keep what came until all of it is there:
    /// whole chunks move one by one, as schedules by time slots want them.
    pub gated: bool,
    /// The attempt whose temporary file the destination goes on with: the plan covers what that
    /// attempt left, and what lies before the plan's range is there already.
    pub continues: Option<RepairId>,
    /// What a destination has of a lane by then is not sent again, whatever the plan says: its
    /// grants state with which slice the lane begins, and nothing moves before. The destination
    /// keeps what it has when a helper is lost, until another task takes it over or the coordinator
    /// cancels it.
    pub skips: bool,
    /// What a destination keeps beside its chunk.
    pub label: Label,
}

impl Task {
    /// Every chunk that is not being rebuilt, with its location. A node that sends and has one of
    /// these is a helper, any other sender only relays.
    pub fn survivors(&self) -> Vec<(ChunkIndex, NodeId)> {
        let kept = self.stripe.indices().filter(|chunk| !self.plan.lost.contains(chunk));
        kept.filter_map(|chunk| Some((chunk, self.stripe.copy(chunk)?.node))).collect()
    }

    /// The stripe as the plan sees it.
    pub fn facts<'a>(&self, survivors: &'a [(ChunkIndex, NodeId)]) -> StripeFacts<'a> {
        StripeFacts {
            stripe: self.stripe.id,
            code: self.stripe.shortened(),
            chunk_bytes: self.stripe.chunk_bytes,
            survivors,
            source: match self.plan.lost[..] {
                [chunk] => self.stripe.copy(chunk).map(|at| at.node),
                _ => None,
            },
        }
    }
}

/// What the coordinator sends to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Take part in this repair: the same task for all that do. Answered by `Stored` (destination)
    /// or `Failed` (any participant).
    Dispatch(Arc<Task>),
    /// Drop the repair and everything of it.
    Cancel(RepairId),
    /// In a gated repair: the edge from `child` to this agent may flow. Sent again where it may
    /// have been lost; the agent answers when all has arrived, by `Heartbeat::arrived`. A decoder
    /// makes all results of a slice at once, so the edges that it sends on are released together.
    Release {
        /// The repair whose edge it is.
        repair: RepairId,
        /// The lane of its plan.
        lane: u16,
        /// The sender of the edge.
        child: NodeId,
    },
    /// Ask for no more slices of this repair, or go on asking. Sent to all that keep a chunk of it:
    /// without their grants the trees that end there come to rest.
    Hold {
        /// The repair that pauses or goes on.
        repair: RepairId,
        /// Whether it rests from now on.
        held: bool,
    },
    /// The outcome of this repair has been received; stop repeating it.
    Forget(RepairId),
    /// Read this copy in full against its checksums. Answered by `Verified` or `Bad`.
    Check(Check),
    /// Read this chunk in full and answer by its `Fingerprint`; of a copy that is of no use by
    /// `Bad`.
    Fingerprint(FingerprintRequest),
    /// The chunk of this repair that was `written` here is what it should be: publish it. Answered
    /// by `Stored` or `Failed`.
    Publish(RepairId),
    /// Remove this copy, unless a newer coordinator than `epoch` has spoken meanwhile or another
    /// session has begun: the coordinator keeps no record of deletes of earlier sessions, and the
    /// copy may be needed again. Answered by `Deleted`.
    Delete {
        /// The epoch of the coordinator that decided it.
        epoch: u32,
        /// The session by the agent's last `Hello`.
        session: u64,
        /// The copy that is to go.
        copy: ChunkCopy,
    },
    /// Report again what you hold. Answered by `Inventory`.
    List,
    /// Move no more for repairs than this from now on, in later sessions too. Answered by the next
    /// report of links, which states the limit that is kept to; sent again while that is another.
    Limit(RepairLimit),
}

/// What a node may move for repairs, in bytes of payload per second; none: as much as it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairLimit {
    /// What it may send; never zero.
    pub up: Option<u64>,
    /// What it may receive; never zero.
    pub down: Option<u64>,
}

/// What one direction of a node's links has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of payload for repairs.
    pub repair: u64,
    /// Bytes of everything else, as far as the node can measure.
    pub others: u64,
}

/// The most results of probes in a report.
pub const PROBED_MAX: usize = 64;

/// The most peers in a report to which something was sent; others are left out.
pub const SENT_TO_MAX: usize = 256;

/// What an agent has seen of its links since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// How long that was.
    pub span: Span,
    /// What it has sent.
    pub sent: Moved,
    /// What it has received.
    pub received: Moved,
    /// What all of the last hundred probes but one waited at the most; none where there was none
    /// since the last report.
    pub latency: Option<Span>,
    /// At how many bytes per second peers have sent when they were asked to send all they can.
    pub probed: Vec<(NodeId, u64)>,
    /// Peers that it has asked for a byte, and that answered.
    pub reached: Vec<NodeId>,
    /// Peers that it could not reach when it tried.
    pub unreached: Vec<NodeId>,
    /// Whether an operator declared the rate of its uplink; otherwise a default was taken for one.
    pub has_uplink: bool,
    /// Whether an operator declared the rate of its downlink.
    pub has_downlink: bool,
    /// The limit that it keeps to.
    pub limit: RepairLimit,
    /// What its own configuration lets repair move in each direction, in bytes per second.
    pub cap: Option<u64>,
    /// What it has sent for repairs, by peers; each is named once. Empty too where the agent does
    /// not report that.
    pub sent_to: Vec<SentTo>,
}

/// What an agent has sent to a peer for repairs since its last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTo {
    /// The node that receives it.
    pub peer: NodeId,
    /// Bytes of payload that have left.
    pub bytes: u64,
    /// How long there was more to send that did not leave: the links between both, or the peer,
    /// took no more.
    pub waited: Span,
}

impl LinkReport {
    /// Adds an earlier report that was not received.
    pub fn absorb(&mut self, before: LinkReport) {
        self.span.ns = self.span.ns.saturating_add(before.span.ns);
        for (moved, more) in [(&mut self.sent, before.sent), (&mut self.received, before.received)]
        {
            moved.repair = moved.repair.saturating_add(more.repair);
            moved.others = moved.others.saturating_add(more.others);
        }
        self.latency = self.latency.max(before.latency);
        self.probed.splice(0..0, before.probed);
        // A coordinator that has been away for long receives only the latest.
        let extra = self.probed.len().saturating_sub(PROBED_MAX);
        self.probed.drain(..extra);
        for (tried, before) in
            [(&mut self.reached, before.reached), (&mut self.unreached, before.unreached)]
        {
            tried.splice(0..0, before);
            let extra = tried.len().saturating_sub(PROBED_MAX);
            tried.drain(..extra);
        }
        for before in before.sent_to {
            match self.sent_to.iter().position(|sent| sent.peer == before.peer) {
                Some(at) => {
                    let sent = &mut self.sent_to[at];
                    sent.bytes = sent.bytes.saturating_add(before.bytes);
                    sent.waited.ns = sent.waited.ns.saturating_add(before.waited.ns);
                }
                None if self.sent_to.len() < SENT_TO_MAX => self.sent_to.push(before),
                None => {}
            }
        }
    }

    /// The rate at which `bytes` pass in the report's span, in bytes per second.
    pub fn rate(&self, bytes: u64) -> u64 {
        let ns = u128::from(self.span.ns.max(1));
        u64::try_from(u128::from(bytes) * 1_000_000_000 / ns).unwrap_or(u64::MAX)
    }
}

/// A request to verify a copy, with the reason to delete another once it is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The copy that is read in full.
    pub copy: ChunkCopy,
    /// What it must be, or it is corrupt.
    pub digest: Digest,
    /// A copy elsewhere that is in excess if this one is good.
    pub excess: Option<CopyAt>,
}

/// A request for the fingerprint of a chunk: a published copy, or what a repair has written and may
/// not publish before it is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FingerprintRequest {
    /// The repair whose proof it is for, or an id of its own where a pass compares a stripe.
    pub repair: RepairId,
    /// The copy, or the one that the repair is making.
    pub copy: ChunkCopy,
    /// The length that it must have.
    pub bytes: u64,
    /// What a copy must sum to, or it is corrupt; none where it is not recorded.
    pub crc: Option<u32>,
    /// The seed of the combinations: the same for all fingerprints of a proof.
    pub seed: u64,
    /// The layout of the longest chunk of the stripe.
    pub layout: Layout,
}

/// What an agent sends to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// The first message of every session.
    Hello(Hello),
    /// Every copy that the agent holds.
    Inventory(Vec<ListedCopy>),
    /// The copies of the agent cannot be listed: which of them are there is not known.
    NotListed,
    /// Alive; what runs here.
    Heartbeat(Heartbeat),
    /// The rebuilt chunk is proven and durable here. Repeated until `Forget`.
    Stored {
        /// The repair that made it.
        repair: RepairId,
        /// The copy that is durable.
        copy: ChunkCopy,
    },
    /// This agent cannot do its part. Repeated until `Forget`; or, where its task skips and it has
    /// lost a peer but not what has come, until another task takes that over or `Cancel`.
    Failed {
        /// The repair that did not succeed.
        repair: RepairId,
        /// Why it did not.
        why: Failure,
    },
    /// The copy was read in full and is good.
    Verified(Check),
    /// The fingerprint that was asked for.
    Fingerprint {
        /// The repair whose proof it is for.
        repair: RepairId,
        /// The copy that was read.
        copy: ChunkCopy,
        /// Its bytes, as `suture_code::fingerprint` lays them out.
        sums: Arc<[u8]>,
    },
    /// The order to remove the copy was carried out. If it could not be, the next listing shows it.
    Deleted(ChunkCopy),
    /// The copy is missing or corrupt.
    Bad {
        /// The copy that is of no use.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
}

/// Which node an agent is and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Different for each start of the agent: a new one means that all its tasks are gone.
    pub incarnation: u64,
    /// Which session of all its starts this is: greater than those before of the same start.
    pub session: u64,
    /// What it can execute.
    pub abilities: Abilities,
    /// Slice memory that its tasks may hold together, in bytes.
    pub pool_bytes: u64,
    /// Free bytes on its disk.
    pub free_bytes: u64,
}

/// What an agent repeats at every beat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The start of the agent that sends this.
    pub incarnation: u64,
    /// Free bytes on its disk.
    pub free_bytes: u64,
    /// How its disk is. A beat that reports that it hangs is no sign of life: such a node counts as
    /// silent although its heartbeats arrive.
    pub disk: DiskState,
    /// What runs here, with the bytes done so far, from the chunk's first one on: summed over the
    /// lanes, at a destination over those that bring the chunk. Where children's slices are kept
    /// first, both moves of a byte count together as one.
    pub running: Vec<(RepairId, u64)>,
    /// Edges of gated repairs that have arrived here in full, by sender.
    pub arrived: Vec<EdgeRef>,
    /// Repairs whose chunk is written here in full and has no recorded checksum: it waits for its
    /// proof by fingerprints, and then for `Publish`.
    pub written: Vec<RepairId>,
    /// Edges on which it is the peer's turn (it was granted slices, or sent all that it takes),
    /// where nothing has come of that peer in any repair for half a beat.
    pub waits: Vec<EdgeRef>,
    /// What its links have carried, where it measures that and has something new.
    pub links: Option<Box<LinkReport>>,
}

/// How a node's disk is, as its agent sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskState {
    /// Its latest operations succeeded.
    #[default]
    Good,
    /// Chunks can be read and none can be written.
    ReadOnly,
    /// The medium or the system failed some of its latest operations.
    Failing,
    /// An operation has not returned for so long that no other can be expected to return.
    Hanging,
}

impl fmt::Display for DiskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskState::Good => "good",
            DiskState::ReadOnly => "read-only",
            DiskState::Failing => "failing",
            DiskState::Hanging => "hanging",
        })
    }
}

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyFault {
    /// There is no such file.
    Missing,
    /// A checksum, a length or a header disagrees.
    Corrupt,
    /// The medium or the system failed: the copy may be whole, and be read another time.
    Unreadable,
}

/// Why an agent cannot do its part of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its own source chunk is of no use.
    Source {
        /// The copy that could not be read.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
    /// A node that it exchanges slices with is out of reach.
    PeerLost(NodeId),
    /// Its disk is full.
    NoSpace,
    /// Its slice memory does not hold this task.
    NoBuffers {
        /// What the task needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// All slices came, but the chunk does not have its recorded checksum.
    ProofFailed {
        /// Recorded when the chunk was first written.
        expected: u32,
        /// The checksum of what was rebuilt.
        found: u32,
    },
    /// All slices came, but the chunk's fingerprint is not what those of its stripe's other chunks
    /// make it. Only the coordinator finds that.
    Inconsistent,
    /// What was rebuilt goes on past the chunk's end, where it must be zeros.
    PastEnd {
        /// Where a byte is not zero.
        offset: u64,
    },
    /// Nothing moved for too long.
    Stalled,
    /// The task makes no sense here: wrong version, not this agent's copy, not executable.
    Refused(Refusal),
    /// Its disk failed in another way.
    Disk(String),
}

/// Why an agent will not begin a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot execute this kind of edge.
    Ability,
    /// The plan breaks a rule of plans.
    InvalidPlan,
    /// The plan gives it no part.
    NotAParticipant,
    /// A newer coordinator has spoken.
    StaleEpoch,
    /// The attempt to go on with is not here, or has not come as far as the plan takes for granted.
    CannotContinue,
}

impl FromAgent {
    /// What kind of message it is, for people: a listing written out may have a hundred megabytes.
    pub fn kind(&self) -> &'static str {
        match self {
            FromAgent::Hello(_) => "hello",
            FromAgent::Inventory(_) => "a listing",
            FromAgent::NotListed => "that there is no listing",
            FromAgent::Heartbeat(_) => "a heartbeat",
            FromAgent::Stored { .. } => "that a chunk is stored",
            FromAgent::Failed { .. } => "that a repair failed",
            FromAgent::Verified(_) => "that a copy is good",
            FromAgent::Fingerprint { .. } => "a fingerprint",
            FromAgent::Deleted(_) => "that a copy was deleted",
            FromAgent::Bad { .. } => "that a copy is of no use",
        }
    }
}

impl fmt::Display for CopyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyFault::Missing => "missing",
            CopyFault::Corrupt => "corrupt",
            CopyFault::Unreadable => "unreadable",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Source { copy, fault } => write!(f, "source {copy} is {fault}"),
            Failure::PeerLost(node) => write!(f, "{node} is out of reach"),
            Failure::NoSpace => write!(f, "the disk is full"),
            Failure::NoBuffers { needed, free } => {
                write!(f, "slice memory: {needed} bytes needed, {free} free")
            }
            Failure::ProofFailed { expected, found } => {
                write!(f, "rebuilt chunk has checksum {found:08x}, recorded {expected:08x}")
            }
            Failure::Inconsistent => {
                write!(
                    f,
                    "the fingerprint of the rebuilt chunk does not fit those of the other chunks"
                )
            }
            Failure::PastEnd { offset } => {
                write!(f, "rebuilt chunk is not zero at byte {offset}, past its end")
            }
            Failure::Stalled => write!(f, "no slice moved for too long"),
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::Disk(detail) => write!(f, "disk: {detail}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Ability => "this agent cannot execute the plan's edges",
            Refusal::InvalidPlan => "the plan is not valid",
            Refusal::NotAParticipant => "the plan has no part for this agent",
            Refusal::StaleEpoch => "a newer coordinator has taken over",
            Refusal::CannotContinue => "there is no attempt here that the plan could go on with",
        })
    }
}
