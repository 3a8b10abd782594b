//! Rules that must hold at every moment, each with what breaks it.
//!
//! Place: beside the whole life of a repair. The checks are in `check.rs`, and beside each fault.

use std::fmt;

use suture_repair::event::Commit;
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, StripeId};

/// A rule that was broken, with what broke it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A chunk was published with bytes that are not the lost ones.
    WrongBytes {
        /// The node that published it.
        node: NodeId,
        /// The name it was published under.
        copy: ChunkCopy,
    },
    /// Beside a published chunk lies another label than the keeper's.
    WrongLabel {
        /// The node that published it.
        node: NodeId,
        /// The name it was published under.
        copy: ChunkCopy,
    },
    /// A copy was deleted although no other copy is at the chunk's location.
    LastCopyDeleted {
        /// The node that deleted it.
        node: NodeId,
        /// The copy that was deleted.
        copy: ChunkCopy,
    },
    /// A location was changed on a generation that was no longer there.
    StaleCommit {
        /// The commit that was applied.
        commit: Commit,
        /// The generation that the stripe had.
        generation: u64,
    },
    /// A location was changed to a copy that was never published there.
    PhantomCommit(Commit),
    /// Slices in memory exceed what was reserved for them, or that exceeds the pool.
    Memory {
        /// The node of the agent.
        node: NodeId,
        /// Bytes of slices in memory.
        held: u64,
        /// Bytes that its agent has reserved.
        reserved: u64,
        /// Bytes of its pool.
        pool: u64,
    },
    /// Two repairs of one stripe ran at once.
    TwoRepairs(StripeId),
    /// A copy was given up as missing that its node holds.
    NotMissing {
        /// The node that holds it.
        node: NodeId,
        /// The copy that was given up.
        copy: ChunkCopy,
    },
    /// A new stripe has more chunks in a rack than the racks make necessary.
    RackOverPlaced {
        /// Where its chunks were put.
        nodes: Vec<NodeId>,
    },
    /// A repair leaves a rack with more chunks of the stripe than may be lost, and need not.
    RackOverfull(StripeId),
    /// A node is sent a limit of repair above what the operator allows.
    AboveCap(NodeId),
    /// A coordinator does not know what the one before knew of a copy.
    Forgotten {
        /// The node that holds it.
        node: NodeId,
        /// The copy that is of no use.
        copy: ChunkCopy,
    },
    /// The coordinator's map has a stripe in a state that it never had in the metadata.
    Imagined(StripeId),
    /// The faults stopped, and this was not healthy in bounded time.
    NotHealthy {
        /// The stripe that is still damaged.
        stripe: StripeId,
        /// The chunks without a good copy.
        chunks: Vec<ChunkIndex>,
        /// What the coordinator reports of it.
        status: String,
    },
    /// A stripe beyond repair is not reported as such.
    NotReported(StripeId),
    /// A node that is emptied, or may be silent soon, is given another chunk.
    GivenMore(NodeId),
    /// A node was taken for dead that the operator lets be silent.
    NotWaitedFor(NodeId),
    /// The faults stopped, and a node that is emptied was not empty in bounded time.
    NotDrained {
        /// The node that is emptied.
        node: NodeId,
        /// A stripe that has a chunk there.
        stripe: StripeId,
        /// What the coordinator reports of it.
        status: String,
    },
    /// An unneeded copy was never collected.
    Orphan {
        /// The node that holds it.
        node: NodeId,
        /// The copy that no stripe needs.
        copy: ChunkCopy,
    },
    /// More is to be checked, or deleted, at a node than may be under way there.
    AskedTooMuch {
        /// The node that is asked.
        node: NodeId,
        /// Checks that it has not answered.
        checks: usize,
        /// Deletes that it has not answered.
        deletes: usize,
    },
    /// An agent lists, reads or deletes what it is listing, reading or deleting already.
    BegunTwice(NodeId),
    /// A node was taken for dead by a time in which nothing could be received: its messages waited,
    /// or the coordinator's clock leapt.
    Unheard(NodeId),
    /// An attempt was given up since nothing of it moved, and no fault had kept it from moving.
    StoodStill(RepairId),
    /// The coordinator takes stripes for others' that its own metadata gave out.
    Protected(StripeId),
    /// Coordinator, planner or agent panicked, most likely since an invariant of theirs is broken.
    Panic(String),
    /// Nothing runs, and memory is still reserved, or something is left in memory or on the disk.
    Leak {
        /// The node of the agent.
        node: NodeId,
        /// Bytes that are still reserved.
        reserved: u64,
        /// Slices, spools and unpublished chunks that are left.
        unfinished: usize,
    },
}

impl Violation {
    /// Whether the other one breaks the same rule, whatever the nodes, stripes and numbers.
    pub fn is_same_rule(&self, other: &Violation) -> bool {
        let words = |text: &str| -> String { text.chars().filter(|c| c.is_alphabetic()).collect() };
        match (self, other) {
            (Violation::Panic(one), Violation::Panic(two)) => words(one) == words(two),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::WrongBytes { node, copy } => {
                write!(f, "{node} published wrong bytes as {copy}")
            }
            Violation::WrongLabel { node, copy } => {
                write!(f, "{node} published {copy} with another label than the keeper's")
            }
            Violation::LastCopyDeleted { node, copy } => {
                write!(f, "{node} deleted {copy}, and no other copy is at the chunk's location")
            }
            Violation::StaleCommit { commit, generation } => write!(
                f,
                "{} of {} was applied at generation {generation}, it was meant for {}",
                commit.repair, commit.copy, commit.generation.0
            ),
            Violation::PhantomCommit(Commit { copy, node, .. }) => {
                write!(f, "{copy} was committed to {node}, which never published it")
            }
            Violation::Memory { node, held, reserved, pool } => {
                write!(f, "{node} holds {held} bytes of slices, reserved {reserved}, pool {pool}")
            }
            Violation::TwoRepairs(stripe) => write!(f, "two repairs of {stripe} at once"),
            Violation::NotMissing { node, copy } => {
                write!(f, "{copy} was given up as missing, and {node} holds it")
            }
            Violation::RackOverPlaced { nodes } => {
                write!(f, "a stripe was put on {nodes:?}, too many of which are in one rack")
            }
            Violation::RackOverfull(stripe) => {
                write!(f, "a repair of {stripe} leaves a rack with more than may be lost")
            }
            Violation::AboveCap(node) => write!(f, "{node} may repair with more than its cap"),
            Violation::Forgotten { node, copy } => {
                write!(f, "{copy} on {node} was known to be of no use, and counts again")
            }
            Violation::Imagined(stripe) => {
                write!(f, "the coordinator has {stripe} as the metadata never had it")
            }
            Violation::NotHealthy { stripe, chunks, status } => {
                let chunks: Vec<u8> = chunks.iter().map(|chunk| chunk.0).collect();
                write!(f, "{stripe} lacks chunks {chunks:?} though it could be repaired: {status}")
            }
            Violation::NotReported(id) => write!(f, "{id} is beyond repair, not reported as such"),
            Violation::GivenMore(node) => write!(f, "{node} is given a chunk it may not have"),
            Violation::NotWaitedFor(node) => write!(f, "{node} was taken for dead in its pause"),
            Violation::NotDrained { node, stripe, status } => {
                write!(f, "{node} is emptied and keeps a chunk of {stripe}: {status}")
            }
            Violation::Orphan { node, copy } => write!(f, "{node} still holds {copy}"),
            Violation::AskedTooMuch { node, checks, deletes } => {
                write!(f, "{node} is to do {checks} checks and {deletes} deletes at a time")
            }
            Violation::BegunTwice(node) => write!(f, "{node} begins what it is doing already"),
            Violation::Unheard(node) => {
                write!(f, "{node} was taken for dead by a time in which nobody could be heard")
            }
            Violation::StoodStill(repair) => write!(f, "{repair} stood still without a cause"),
            Violation::Protected(below) => {
                write!(f, "stripes below {below} were taken for others', and are not")
            }
            Violation::Panic(message) => write!(f, "panic: {message}"),
            Violation::Leak { node, reserved, unfinished } => write!(
                f,
                "{node} still reserves {reserved} bytes, and has {unfinished} slices, spools and \
                 chunks in the making"
            ),
        }
    }
}
