//! Every way in which a plan can be wrong, with the numbers that let the reader see why.
//!
//! Place: what `validate.rs` answers, whose head lists the rules. Invariant: a variant per rule,
//! never free text; the message names the lane and the nodes, what was expected and what was found.

use std::fmt;

use suture_code::{Code, CodeError};

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Range, SchemeId};

/// Why a plan is refused. Lanes and plans are counted from 0, as in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum PlanFault {
    /// A plan for no chunk.
    NothingLost,
    /// Lost chunks are listed ascending, each once.
    LostOrder { first: ChunkIndex, second: ChunkIndex },
    /// A chunk past the end of the stripe.
    NoSuchChunk { chunk: ChunkIndex, chunk_count: usize },
    /// A chunk that can be read needs no repair.
    LostSurvives { chunk: ChunkIndex },
    /// A lost chunk that is known to be zero.
    LostIsZero { chunk: ChunkIndex },
    /// A lost chunk that has no destination.
    DestinationMissing { chunk: ChunkIndex },
    /// A destination for a chunk that the plan does not rebuild.
    DestinationOfNothing { chunk: ChunkIndex, node: NodeId },
    /// A node past the end of the cluster.
    NoSuchNode { node: NodeId, node_count: usize },
    /// A stripe uses each node once.
    DestinationHoldsChunk { chunk: ChunkIndex, node: NodeId, held: ChunkIndex },
    /// A stripe uses each node once, also for what is rebuilt.
    DestinationShared { node: NodeId, first: ChunkIndex, second: ChunkIndex },
    /// The range is empty or leaves the chunk.
    BadRange { range: Range, chunk_bytes: u64 },
    /// The range ends at a place that not every sub-chunk has.
    CutsSubChunks { to: u64, sub_chunk_count: u32 },
    /// A bound that no slice can begin at.
    Misaligned { at: u64, alignment: u64 },
    /// A period of no bytes never ends.
    ZeroPeriod,
    /// Bytes that no lane rebuilds.
    Gap { chunk: ChunkIndex, range: Range },
    /// Bytes that two lanes rebuild.
    Overlap { chunk: ChunkIndex, range: Range },
    /// A lane that is wrong in itself.
    Lane { lane: usize, fault: LaneFault },
    /// A plan that waits for one that is not in the batch.
    StartUnknown { plan: usize, after: usize, plan_count: usize },
    /// A plan that waits for itself, perhaps through others.
    StartCycle { plan: usize },
}

/// Why a lane is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum LaneFault {
    /// It is empty or leaves what is to be tiled.
    BadRange { range: Range, within: Range },
    /// A bound that no slice can begin at.
    Misaligned { at: u64, alignment: u64 },
    /// It rebuilds at least one chunk; they are listed ascending, each once.
    LostOrder,
    /// It rebuilds what the plan does not.
    LostForeign { chunk: ChunkIndex },
    /// A node past the end of the cluster.
    NoSuchNode { node: NodeId, node_count: usize },
    /// The code has no trace scheme of that id.
    NoScheme { scheme: SchemeId, code: Code },
    /// Traces mean something only by their scheme.
    NoTraces { child: NodeId, code: Code },
    /// A scheme rebuilds one chunk, and no other.
    SchemeForOther { scheme: SchemeId, chunk: ChunkIndex },
    /// Traces are narrower than what they rebuild: one node needs them all.
    TracesWithoutDecoder,
    /// A helper that the scheme does without.
    TracesUnwanted { child: NodeId, scheme: SchemeId },
    /// A helper that the scheme needs.
    TracesMissing { chunk: ChunkIndex, scheme: SchemeId },
    /// A decoder takes traces where the lane has a scheme, and combinations where it has none.
    GatheredOther { child: NodeId, carries: Carries, gathered: Carries },
    /// One sum cannot be two chunks.
    SumOfSeveral { lost_count: usize },
    /// Only sums can flow without a decoder.
    NeedsDecoder { child: NodeId, carries: Carries },
    /// The destination is where the tree ends.
    RootSends { root: NodeId, parent: NodeId },
    /// A child has one parent.
    TwoParents { child: NodeId, first: NodeId, second: NodeId },
    /// A leaf that holds no surviving chunk.
    NothingToSend { node: NodeId },
    /// A path that ends elsewhere.
    DeadEnd { node: NodeId, root: NodeId },
    /// A path that never ends.
    Cycle { node: NodeId },
    /// A decoder takes combinations or traces; sums belong to lanes without one.
    SumIntoDecoder { child: NodeId },
    /// Combinations and traces go straight from a helper to the decoder.
    CombinedDetour { child: NodeId, parent: NodeId, decoder: NodeId },
    /// Finished bytes go once from the decoder to each destination that it is not itself.
    FinishedDetour { child: NodeId, parent: NodeId, decoder: NodeId },
    /// The decoder keeps what a destination waits for.
    NotDelivered { chunk: ChunkIndex, destination: NodeId },
    /// The code does not take the helper set.
    Helpers(CodeError),
    /// The code cannot rebuild this as one sum over whole chunks.
    NotASum { code: Code },
    /// An edge that moves more or less than its content.
    Bytes { child: NodeId, parent: NodeId, expected: u64, found: u64 },
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlanFault::*;
        match self {
            NothingLost => write!(f, "the plan rebuilds nothing"),
            LostOrder { first, second } => {
                write!(f, "lost chunks must ascend, each once, but {second} follows {first}")
            }
            NoSuchChunk { chunk, chunk_count } => {
                write!(f, "there is no chunk {chunk}: a stripe has {chunk_count}, counted from 0")
            }
            LostSurvives { chunk } => write!(f, "chunk {chunk} is listed as lost but can be read"),
            LostIsZero { chunk } => write!(f, "chunk {chunk} is known to be zero, so never lost"),
            DestinationMissing { chunk } => write!(f, "lost chunk {chunk} has no destination"),
            DestinationOfNothing { chunk, node } => {
                write!(f, "{node} is the destination of chunk {chunk}, which is not rebuilt")
            }
            NoSuchNode { node, node_count } => no_such_node(f, *node, *node_count),
            DestinationHoldsChunk { chunk, node, held } => write!(
                f,
                "{node} is the destination of chunk {chunk} but holds chunk {held} of the stripe"
            ),
            DestinationShared { node, first, second } => {
                write!(f, "{node} is the destination of both chunk {first} and chunk {second}")
            }
            BadRange { range, chunk_bytes } => {
                write!(f, "the range {range} is empty or leaves the chunk of {chunk_bytes} bytes")
            }
            CutsSubChunks { to, sub_chunk_count } => write!(
                f,
                "the range ends at {to}, which is no multiple of {sub_chunk_count} sub-chunks"
            ),
            Misaligned { at, alignment } => misaligned(f, *at, *alignment),
            ZeroPeriod => write!(f, "the period is 0 bytes"),
            Gap { chunk, range } => write!(f, "no lane rebuilds bytes {range} of chunk {chunk}"),
            Overlap { chunk, range } => {
                write!(f, "two lanes rebuild bytes {range} of chunk {chunk}")
            }
            Lane { lane, fault } => write!(f, "lane {lane}: {fault}"),
            StartUnknown { plan, after, plan_count } => {
                write!(f, "plan {plan} starts after plan {after}, but there are {plan_count}")
            }
            StartCycle { plan } => write!(f, "plan {plan} waits for itself"),
        }
    }
}

impl fmt::Display for LaneFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LaneFault::*;
        match self {
            BadRange { range, within } => {
                write!(f, "its bytes {range} are empty or leave {within}")
            }
            Misaligned { at, alignment } => misaligned(f, *at, *alignment),
            LostOrder => write!(f, "its lost chunks must be at least one, ascending, each once"),
            LostForeign { chunk } => {
                write!(f, "it rebuilds chunk {chunk}, which the plan does not")
            }
            NoSuchNode { node, node_count } => no_such_node(f, *node, *node_count),
            NoScheme { .. }
            | NoTraces { .. }
            | SchemeForOther { .. }
            | TracesWithoutDecoder
            | TracesUnwanted { .. }
            | TracesMissing { .. }
            | GatheredOther { .. } => self.fmt_traces(f),
            SumOfSeveral { lost_count } => write!(
                f,
                "it rebuilds {lost_count} chunks without a decoder, but one sum is one chunk"
            ),
            NeedsDecoder { child, carries } => {
                write!(f, "{child} sends {carries}, but the lane has no decoder")
            }
            RootSends { root, parent } => write!(f, "the destination, {root}, sends to {parent}"),
            TwoParents { child, first, second } => {
                write!(f, "{child} sends twice: to {first} and to {second}")
            }
            NothingToSend { node } => {
                write!(f, "{node} sends but neither holds a chunk of the stripe nor receives")
            }
            DeadEnd { node, root } => {
                write!(f, "a path ends at {node} instead of at the destination, {root}")
            }
            Cycle { node } => write!(f, "what {node} sends never arrives: its path is a cycle"),
            SumIntoDecoder { child } => {
                write!(f, "{child} sends a partial sum in a lane with a decoder")
            }
            CombinedDetour { child, parent, decoder } => write!(
                f,
                "what {child} sends goes to {parent} instead of to the decoder, {decoder}"
            ),
            FinishedDetour { child, parent, decoder } => write!(
                f,
                "finished bytes go from {child} to {parent}, but they go once from the decoder, \
                 {decoder}, to each other destination of the lane"
            ),
            NotDelivered { chunk, destination } => {
                write!(f, "chunk {chunk} never reaches its destination, {destination}")
            }
            Helpers(error) => write!(f, "the code refuses its helpers: {error}"),
            NotASum { code } => write!(
                f,
                "{code} does not rebuild this chunk as one sum of whole chunks; it needs a decoder"
            ),
            Bytes { child, parent, expected, found } => {
                write!(f, "the edge {child} -> {parent} says {found} bytes but moves {expected}")
            }
        }
    }
}

impl LaneFault {
    /// What is wrong with traces and their scheme.
    fn fmt_traces(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LaneFault::*;
        match self {
            NoScheme { scheme, code } => write!(f, "{code} has no trace scheme {}", scheme.0),
            NoTraces { child, code } => {
                write!(f, "{child} sends traces, but the lane names no trace scheme of {code}")
            }
            SchemeForOther { scheme, chunk } => {
                write!(f, "trace scheme {} rebuilds chunk {chunk}, and nothing else", scheme.0)
            }
            TracesWithoutDecoder => write!(f, "it has a trace scheme but no decoder"),
            TracesUnwanted { child, scheme } => {
                write!(f, "{child} sends traces, but scheme {} does without its chunk", scheme.0)
            }
            TracesMissing { chunk, scheme } => {
                write!(
                    f,
                    "scheme {} needs the traces of chunk {chunk}, which nobody sends",
                    scheme.0
                )
            }
            GatheredOther { child, carries, gathered } => {
                write!(f, "{child} sends {carries} to a decoder of {gathered}")
            }
            _ => unreachable!("the others are not about traces"),
        }
    }
}

fn no_such_node(f: &mut fmt::Formatter<'_>, node: NodeId, node_count: usize) -> fmt::Result {
    write!(f, "there is no {node}: the cluster has {node_count}, counted from 0")
}

fn misaligned(f: &mut fmt::Formatter<'_>, at: u64, alignment: u64) -> fmt::Result {
    write!(f, "the bound {at} is neither a multiple of {alignment} nor the end")
}

impl std::error::Error for PlanFault {}
impl std::error::Error for LaneFault {}
