//! What goes into the coordinator, what comes out of it, and what one may ask it.
//!
//! Place: the frame of `coordinator.rs`: failure -> ... -> stripe healthy.
//! A driver performs the outputs in any order, even twice; whatever matters is answered by an
//! input, and the coordinator asks again when no answer comes.

mod status;

use std::collections::BTreeMap;
use std::fmt;

use crate::cluster::Node;
use crate::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, StripeId};
use crate::label::Label;
use crate::message::{CopyFault, Failure, FromAgent, ToAgent};
use crate::plan::Plan;
use crate::planner::PlanError;
use crate::stripe::Stripe;
use crate::throttle::ThrottleConfig;
use crate::time::{Span, Time};

pub use status::*;

/// What the coordinator receives: from agents, keeper, operator and clock.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node was registered, or its rates or its rack changed.
    NodeAdded {
        /// Ids are given in order.
        id: NodeId,
        /// The node, but for its rack.
        node: Node,
        /// The name of its rack, if it names one; the core numbers racks.
        rack: Option<String>,
    },
    /// An agent sent a message.
    Agent {
        /// The node of the agent.
        node: NodeId,
        /// The message as it was sent.
        message: FromAgent,
    },
    /// The session with an agent broke.
    AgentLost(NodeId),
    /// Stripe ids below this have been given to puts; the listed ones are still being written.
    StripesReserved {
        /// One past the highest id ever given.
        below: StripeId,
        /// The stripes whose put has not ended.
        writing: Vec<StripeId>,
    },
    /// Stripes of these ids were given out by others, or may have been, since the keeper's map was
    /// restored from an older one: what is not in the map may well be wanted.
    StripesUnknown {
        /// The first of them.
        from: StripeId,
        /// One past the last.
        below: StripeId,
    },
    /// This coordinator's epoch is this one from now on: agents have followed the one that it
    /// began with under another coordinator.
    EpochRaised(u32),
    /// The keeper has a new stripe.
    StripeAdded(Stripe),
    /// The keeper has these new stripes, which are planned together.
    StripesAdded(Vec<Stripe>),
    /// The keeper has one stripe less.
    StripeRemoved(StripeId),
    /// A pass under the coordinator before found that the chunks of this stripe do not fit each
    /// other.
    Inconsistent(StripeId),
    /// The coordinator before knew what is wrong with a copy.
    Faulty {
        /// The node that holds it, as the keeper reports.
        node: NodeId,
        /// Which one it is.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: KnownFault,
    },
    /// The keeper reports the state of a node. Ignored unless liveness is the keeper's.
    NodeState {
        /// Which one it is.
        node: NodeId,
        /// How it is from now on.
        state: NodeState,
    },
    /// A reader found a copy to be of no use.
    ChunkSuspected {
        /// The node that holds it.
        node: NodeId,
        /// The copy that cannot be read.
        copy: ChunkCopy,
    },
    /// The location was committed; this is the stripe as the keeper now has it.
    Committed {
        /// The repair that asked for the commit.
        repair: RepairId,
        /// The stripe as the keeper has it now.
        stripe: Stripe,
    },
    /// The stripe's generation was another one; this is how it stands (`None`: the stripe is gone).
    CommitRefused {
        /// The repair that asked for the commit.
        repair: RepairId,
        /// The stripe as the keeper has it; `None` when it is gone.
        stripe: Option<Stripe>,
    },
    /// The keeper granted the claim of a repair, which may begin.
    Claimed {
        /// The repair that the claim is for.
        repair: RepairId,
        /// What is to be kept beside the chunks that it makes.
        label: Label,
    },
    /// The keeper refused the claim: another repair has it, or the generation is another one. This
    /// is how the stripe stands (`None`: it is gone).
    ClaimRefused {
        /// The repair that the claim was for.
        repair: RepairId,
        /// The stripe as the keeper has it; `None` when it is gone.
        stripe: Option<Stripe>,
        /// The node that may get no chunk of it, where that is why.
        because_of: Option<RefusedNode>,
    },
    /// The keeper does not have the claim any more that it had granted: it may have the same chunks
    /// built elsewhere, until it grants the claim again.
    ClaimLost(RepairId),
    /// A command of the operator.
    Operator(Command),
    /// Repair may take no more than this from now on.
    Throttle(Box<ThrottleConfig>),
    /// The window in which repairs run is closed until then; none: it is open.
    WindowClosed(Option<Time>),
    /// Nothing but that time passed.
    Tick,
}

/// A node on which the keeper lets no chunk of a stripe lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedNode {
    /// Which one it is.
    pub node: NodeId,
    /// Why it may not, in the keeper's words.
    pub why: String,
}

/// What decides that a node is dead and its chunks are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// The coordinator, by silence against its timers.
    #[default]
    Own,
    /// The keeper. A silent node is not used, but its chunks are not lost. Such a keeper also says
    /// which nodes chunks may go to, and spreads those of a stripe evenly over racks (HDFS).
    Keeper,
}

/// How the keeper sees a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// The node lives; whether it can be used, its own agent reports.
    Up,
    /// The node is dead: its chunks are lost.
    Dead,
    /// Drained: its chunks can be read, and it is given no more.
    Decommissioning,
}

/// What an operator can command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Treat the node as dead until it is returned.
    FailNode(NodeId),
    /// Move the node's chunks elsewhere and give it no more, until it is returned.
    DrainNode(NodeId),
    /// Let the node be silent for the span: it is given no chunks, and what it holds is rebuilt
    /// only where a stripe could lose no more.
    PauseNode {
        /// The node that is worked on.
        node: NodeId,
        /// How long that may take.
        span: Span,
    },
    /// Return the node: ends its failed, draining or paused intent.
    ReturnNode(NodeId),
    /// Take every node for dead that is silent now and not paused.
    FailSilent,
    /// Repair a stripe before all others, and what silent nodes hold of it.
    RepairNow(StripeId),
    /// Read every copy now.
    Scrub,
    /// Begin no more repairs; running ones finish.
    Pause,
    /// Begin repairs again, and look again at blocked ones.
    Resume,
    /// Stop running repairs too, and pause.
    Cancel,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send an agent a message. Answered, if at all, by what the message's doc says.
    Send {
        /// The node of the agent that it is for.
        to: NodeId,
        /// The message to that agent.
        message: ToAgent,
    },
    /// Change the location of a chunk if the stripe still has this generation. Answered by
    /// `Committed` or `CommitRefused`.
    Commit(Commit),
    /// Claim a stripe for a repair before that is dispatched. Answered by `Claimed` or
    /// `ClaimRefused`.
    Claim(Claim),
    /// A repair that was claimed has ended, and not all of it was committed. Not answered: a claim
    /// also ends by itself.
    ReleaseClaim(RepairId),
    /// Agents hold copies of stripes whose ids were never given out: give out none below this one.
    /// Answered by `StripesReserved` and `StripesUnknown`, asked again with each listing.
    Protect(StripeId),
    /// How far scrubbing has come: for the keeper to remember, so that the next coordinator goes
    /// on. Not answered.
    Scrub(ScrubStep),
    /// What is wrong with a copy at a recorded location, or that it is good again: for the keeper
    /// to record, so that the next coordinator knows it. Not answered.
    Faulty {
        /// The node that holds it.
        node: NodeId,
        /// Which one it is; where the keeper points elsewhere by now, nothing is to be recorded.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: Option<KnownFault>,
    },
    /// Something worth a log line or a metric.
    Report(Report),
}

/// Why a copy is of no use, where its holder's listing does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFault {
    /// A checksum, a length or a header disagrees.
    Corrupt,
    /// It could not be read, time and again.
    Unreadable,
    /// Its stripe's other chunks show that it is wrong, whatever its own checksums say.
    Inconsistent,
}

impl KnownFault {
    /// All kinds of known faults, in the order of their numbers.
    pub const ALL: [KnownFault; 3] =
        [KnownFault::Corrupt, KnownFault::Unreadable, KnownFault::Inconsistent];

    /// The word for it in transcripts.
    pub fn name(self) -> &'static str {
        match self {
            KnownFault::Corrupt => "corrupt",
            KnownFault::Unreadable => "unreadable",
            KnownFault::Inconsistent => "inconsistent",
        }
    }
}

/// What a pass over all stripes has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubStep {
    /// A pass begins, with the first stripe.
    Begun,
    /// The stripes below this one are done.
    Reached(StripeId),
    /// The pass has ended: all stripes are done.
    Ended,
    /// The chunks of this one do not fit each other, though no copy can be called corrupt.
    Inconsistent(StripeId),
    /// The chunks of this stripe, which did not fit each other, do by now.
    Consistent(StripeId),
}

/// A compare-and-set of one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The repair that asks for it.
    pub repair: RepairId,
    /// The copy that becomes the location.
    pub copy: ChunkCopy,
    /// The node that holds the copy.
    pub node: NodeId,
    /// The generation that the stripe must still have.
    pub generation: crate::id::Generation,
    /// Another chunk of the stripe that is recorded on this node and is missing there: it has no
    /// location any more. Without this a commit onto a node that has another chunk is refused.
    pub clears: Option<ChunkIndex>,
}

/// A claim on a stripe for a repair that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The repair that claims it.
    pub repair: RepairId,
    /// The stripe that it repairs.
    pub stripe: StripeId,
    /// The generation that the stripe must still have.
    pub generation: crate::id::Generation,
    /// The chunks that it makes, each with the node that is to hold it.
    pub destinations: BTreeMap<ChunkIndex, NodeId>,
}

/// The story of repairs, for logs, metrics and progress bars.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A node's health changed.
    Node {
        /// The node that changed its health.
        node: NodeId,
        /// What its health is now.
        health: Health,
        /// How many chunks are lost with it, when it failed.
        chunks: u64,
    },
    /// A node that is being emptied has nothing left to move.
    Drained(NodeId),
    /// A chunk is of no use where it lies.
    ChunkLost {
        /// The node that should hold it.
        node: NodeId,
        /// The copy that counts no more.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
    /// A batch was planned.
    Planned {
        /// How many repairs it has: one for each stripe.
        repairs: usize,
        /// What the fullest link or disk needs for it.
        max_load_seconds: f64,
    },
    /// A planner panicked: a mistake in it. Its jobs were planned one by one.
    PlannerPanicked {
        /// What the panic said.
        message: String,
    },
    /// A repair was dispatched.
    Started {
        /// The repair that was dispatched.
        repair: RepairId,
        /// The plan that its agents execute.
        plan: Plan,
    },
    /// Another attempt goes on with what this one has left.
    Replaced {
        /// The repair that ends.
        repair: RepairId,
        /// The repair that takes its place.
        by: RepairId,
        /// Nodes that take part in the one and not in the other.
        without: Vec<NodeId>,
    },
    /// The rebuilt chunk is the stripe's chunk now.
    Committed {
        /// The repair that rebuilt it.
        repair: RepairId,
        /// The copy that is its location now.
        copy: ChunkCopy,
        /// The node that holds it.
        node: NodeId,
        /// The chunk's length in bytes.
        bytes: u64,
    },
    /// An attempt failed; another will be made.
    Failed {
        /// The repair that did not succeed.
        repair: RepairId,
        /// The node that reported that, if any did.
        node: Option<NodeId>,
        /// Why it did not.
        why: Failure,
    },
    /// A stripe waits for something to change.
    Blocked {
        /// The stripe that waits.
        stripe: StripeId,
        /// What it waits for.
        why: Blocked,
    },
    /// All of a stripe is well again.
    Healthy(StripeId),
    /// A pass begins in which every copy is read.
    PassBegun,
    /// A pass has ended: every chunk that is not lost was read at its location.
    PassEnded {
        /// How many stripes it had.
        stripes: u64,
        /// What was asked to be read for it, since the coordinator's start.
        bytes: u64,
    },
    /// The chunks of a stripe do not fit each other, though all that can be read have their own
    /// checksums, and no repair can mend that.
    Inconsistent {
        /// The stripe that does not fit.
        stripe: StripeId,
        /// The chunk without which the others fit, if there is one: it was written wrong.
        odd: Option<ChunkIndex>,
    },
    /// A copy has another length or checksum than its stripe's record says, and is no location: it
    /// is left alone, since it may be the only copy of something else.
    OtherBytes {
        /// The node that holds it.
        node: NodeId,
        /// What the copy is called.
        copy: ChunkCopy,
    },
    /// A node speaks and no other node can reach it, or one can again.
    CutOff {
        /// The node that speaks.
        node: NodeId,
        /// Whether no other node can reach it.
        is_cut_off: bool,
    },
    /// A copy that no stripe needs was ordered away.
    Excess {
        /// The node that held it.
        node: NodeId,
        /// The copy that was ordered away.
        copy: ChunkCopy,
    },
}

/// Why a stripe is not being repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The planner has no plan for it.
    Plan(PlanError),
    /// Enough chunks exist, but some of their holders are silent at the moment.
    Silent {
        /// How many chunks the code needs.
        needed: usize,
        /// How many are on nodes that are up.
        up: usize,
    },
    /// Even the smallest slices do not fit the slice memory of a node.
    Pool {
        /// The node with too little memory.
        node: NodeId,
        /// What one repair needs there at least.
        needed: u64,
        /// Slice memory that its agent has, in bytes.
        pool: u64,
    },
    /// The keeper has granted its claim to another repair.
    Claimed,
    /// A copy is of no use, and counts as good for the keeper, which has nobody build its chunk.
    Disputed {
        /// The node that has it.
        node: NodeId,
    },
    /// The next attempt waits, since earlier ones failed; with the last failure.
    Failing {
        /// How many attempts failed in a row.
        attempts: u32,
        /// The node that reported that the last one failed; `None` where none did.
        node: Option<NodeId>,
        /// Why the last one failed.
        why: Failure,
    },
}

impl Blocked {
    /// Whether nothing but returning chunks can help.
    pub fn is_unrepairable(&self) -> bool {
        matches!(self, Blocked::Plan(why) if why.is_beyond_repair())
    }

    /// Whether its repair begins again by itself, without anything that changes.
    pub fn ends_by_itself(&self) -> bool {
        matches!(self, Blocked::Claimed | Blocked::Failing { .. })
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Registered or returned, and nothing was received from it since.
    Unknown,
    /// Usable: it has sent its Hello, and goes on reporting.
    Up,
    /// Silent for a while: not used, but its chunks are not lost yet.
    Suspect,
    /// Silent for too long, or declared so: its chunks are lost.
    Failed,
}

/// Timers and limits. No defaults here: the driver's configuration knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Silence after which a node is no longer used.
    pub suspect_after: Span,
    /// Silence after which its chunks are lost.
    pub dead_after: Span,
    /// How long after the coordinator's start a node may stay silent without being declared dead.
    pub start_grace: Span,
    /// A repair that makes no progress for so long is given up and planned anew.
    pub stall_after: Span,
    /// How long a commit may stay unanswered before it is asked again.
    pub commit_retry: Span,
    /// How often a claim that was granted is asked for again, which prolongs it.
    pub claim_prolong: Span,
    /// The wait after a stripe's first failed attempt; it doubles with each further one.
    pub retry_first: Span,
    /// The longest such wait, and how often blocked stripes are looked at again.
    pub retry_max: Span,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Health::Unknown => "unknown",
            Health::Up => "up",
            Health::Suspect => "suspect",
            Health::Failed => "failed",
        })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Plan(error) => error.fmt(f),
            Blocked::Silent { needed, up } => {
                write!(
                    f,
                    "{up} chunks are on nodes that are up, {needed} are needed; waiting for silent \
                     nodes"
                )
            }
            Blocked::Pool { node, needed, pool } => {
                write!(f, "{node} has {pool} bytes of slice memory, one repair needs {needed}")
            }
            Blocked::Claimed => write!(f, "another repair has claimed it"),
            Blocked::Disputed { node } => {
                write!(f, "its copy at {node} is of no use, and counts as good for the keeper")
            }
            Blocked::Failing { attempts, node: Some(node), why } => {
                write!(f, "{attempts} attempts failed; last at {node}: {why}")
            }
            Blocked::Failing { attempts, node: None, why } => {
                write!(f, "{attempts} attempts failed; last: {why}")
            }
        }
    }
}
