//! The repair plan: a repair DAG placed on nodes, in the one format of every algorithm.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A plan repairs one or more lost chunks of one stripe. It says which node sends how much of what
//! to which; *what exactly* an edge carries follows from (code, lost, helper set, scheme), so a
//! plan holds no coefficients. A lane is one range of bytes with its own tree; CR, PPR, RP, PPT,
//! PivotRepair, CAR and ChameleonEC are one-lane plans.
//!
//! Invariants are those of `validate.rs`; `json.rs` reads and writes `suture-plan-1`.
//! A plan knows nothing of time: when it runs is decided by the schedule.

pub mod arbitrary;
pub(crate) mod content;
pub(crate) mod detour;
mod fault;
pub mod json;
pub mod load;
pub mod validate;

pub use fault::{LaneFault, PlanFault};

use std::collections::BTreeMap;
use std::fmt;

use suture_code::{Dag, Scheme, Shortened};

use crate::id::{ChunkIndex, NodeId, StripeId};

/// What to do about the lost chunks of one stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The stripe that lost them.
    pub stripe: StripeId,
    /// The chunks that it rebuilds, ascending.
    pub lost: Vec<ChunkIndex>,
    /// The node that keeps (or, for a degraded read, receives) each of them.
    pub destinations: BTreeMap<ChunkIndex, NodeId>,
    /// When it may start, relative to the other plans of its batch.
    pub start: Start,
    /// The bytes of the chunk that it covers; a chunk shorter than that reads as zeros past its
    /// end.
    pub range: Range,
    /// With a period, in bytes, lane bounds lie in `[0, period)`, count from the range's first byte
    /// and repeat over the range, so that the bytes of a degraded read finish in order.
    ///
    /// Reserved: agents execute it, but no planner makes one yet, since degraded reads are decoded
    /// by the client.
    pub period: Option<u64>,
    /// One tree for each part of the range.
    pub lanes: Vec<Lane>,
}

/// The stripe as it stands: what a plan is made for, judged against and executed on.
#[derive(Clone, Copy, Debug)]
pub struct StripeFacts<'a> {
    /// The stripe of the chunks.
    pub stripe: StripeId,
    /// Its code, and the chunks that are known to be zero.
    pub code: Shortened,
    /// The length of the longest chunk that a plan may cover.
    pub chunk_bytes: u64,
    /// The chunks that can be read and their nodes, ascending by chunk.
    pub survivors: &'a [(ChunkIndex, NodeId)],
    /// The node of the only chunk that is rebuilt, where it is there and only to move: it may be
    /// copied from there.
    pub source: Option<NodeId>,
}

impl StripeFacts<'_> {
    /// The surviving chunk that `node` holds. At most one: a stripe uses each node once.
    pub fn chunk_on(&self, node: NodeId) -> Option<ChunkIndex> {
        self.survivors.iter().find(|(_, holder)| *holder == node).map(|(chunk, _)| *chunk)
    }

    /// Whether `chunk` can be read somewhere.
    pub fn survives(&self, chunk: ChunkIndex) -> bool {
        self.survivors.iter().any(|(survivor, _)| *survivor == chunk)
    }
}

/// When a plan may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as it is admitted.
    Now,
    /// After the plans with these indices in the batch.
    ///
    /// Reserved, like `Slot` and `Wave`: the format `suture-plan-1` has them for plans that were
    /// scheduled elsewhere. Our schedules start plans while they run and give every plan `Now`.
    After(Vec<usize>),
    /// In this slot of a slotted schedule. Reserved, see `After`.
    Slot(u32),
    /// In this wave of a wave schedule. Reserved, see `After`.
    Wave(u32),
}

/// The bytes `[from, to)` of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first byte that it holds.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
}

impl Range {
    /// How many bytes it holds.
    pub fn bytes(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// What both ranges hold; empty (`from == to`) when they are apart.
    pub fn intersect(self, other: Range) -> Range {
        let from = self.from.max(other.from);
        Range { from, to: self.to.min(other.to).max(from) }
    }
}

/// One range of a plan with its own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The bytes (of one period, where the plan has one) that it carries.
    pub range: Range,
    /// The subset of the plan's lost chunks that it rebuilds, ascending.
    pub lost: Vec<ChunkIndex>,
    /// Whether relays pass slices on as they come.
    pub mode: Mode,
    /// The node that turns traces or combinations into finished bytes; none when only sums flow.
    pub decoder: Option<NodeId>,
    /// The trace scheme, where one is used.
    pub scheme: Option<SchemeId>,
    /// Which node sends to which; children need not precede parents.
    pub edges: Vec<Edge>,
}

/// Names a trace repair scheme of a code: by its [`Scheme::id`], a hash of what it is, so that two
/// ends which know different schemes never mean different ones by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemeId(pub u32);

impl SchemeId {
    /// The name of a scheme. [`Code::scheme`](suture_code::Code::scheme) finds it again.
    pub fn of(scheme: &Scheme) -> SchemeId {
        SchemeId(scheme.id())
    }
}

/// How a relay treats what passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Downstream starts with the first slice.
    Streamed,
    /// Downstream starts when all of it is there.
    Stored,
}

/// One transfer of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node that sends.
    pub child: NodeId,
    /// The node that receives.
    pub parent: NodeId,
    /// How much in all (over all periods).
    pub bytes: u64,
    /// What kind of content.
    pub carries: Carries,
}

/// What an edge carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carries {
    /// A full-width sum over GF(2^8).
    Partial,
    /// Linear combinations of the child's sub-chunks; plain selection is the special case.
    Combined,
    /// Bit planes of trace repair.
    Traces,
    /// Rebuilt bytes from a decoder on their way to the destination.
    Finished,
}

/// A piece of a lane small enough to move at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRange {
    /// Its first byte within the chunk.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.from, self.to)
    }
}

impl Carries {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Carries; 4] =
        [Carries::Partial, Carries::Combined, Carries::Traces, Carries::Finished];

    /// The word in JSON and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Carries::Partial => "partial",
            Carries::Combined => "combined",
            Carries::Traces => "traces",
            Carries::Finished => "finished",
        }
    }
}

impl fmt::Display for Carries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Plan {
    /// The bytes of the chunk that `lane` covers, as ascending disjoint ranges: one, or one for
    /// each period.
    pub fn pieces(&self, lane: &Lane) -> impl Iterator<Item = Range> {
        let lane = lane.range;
        (0..self.piece_count(lane)).map(move |index| self.piece(lane, index))
    }

    /// How many bytes of the chunk `lane` covers in all.
    pub fn lane_bytes(&self, lane: &Lane) -> u64 {
        self.sum(lane, Range::bytes)
    }

    /// How many bytes traces of so many bits for each byte take for all of `lane`: bit planes, 64
    /// symbols at a time, each piece by itself.
    pub fn trace_bytes(&self, lane: &Lane, bits: u64) -> u64 {
        self.sum(lane, |piece| bits * 8 * piece.bytes().div_ceil(64))
    }

    /// How many slices `lane` has: its pieces cut at multiples of `slice_bytes` from each piece's
    /// start. A plan from outside may want more than there can be.
    pub fn slice_count(&self, lane: &Lane, slice_bytes: u32) -> u64 {
        let (range, count) = (lane.range, self.piece_count(lane.range));
        let Some(last) = count.checked_sub(1) else { return 0 };
        let slices = |piece: Range| piece.bytes().div_ceil(u64::from(slice_bytes));
        let before = last.saturating_mul(slices(self.piece(range, 0)));
        before.saturating_add(slices(self.piece(range, last)))
    }

    /// The slices of `lane`. Every participant derives the same list, so a slice's index names it
    /// on the wire.
    pub fn slice_ranges(&self, lane: &Lane, slice_bytes: u32) -> SliceRanges {
        assert!(slice_bytes > 0, "a slice has at least one byte");
        let (range, pieces) = (lane.range, self.piece_count(lane.range));
        let Some(last) = pieces.checked_sub(1) else {
            let first = Range { from: 0, to: 0 };
            return SliceRanges { first, step: 0, end: 0, slice_bytes, count: 0 };
        };
        let (first, end) = (self.piece(range, 0), self.piece(range, last).to);
        let count = u32::try_from(self.slice_count(lane, slice_bytes));
        let count = count.expect("validated: fewer than 2^32 slices a lane");
        SliceRanges { first, step: self.period.unwrap_or(0), end, slice_bytes, count }
    }

    /// In how many periods a lane has bytes. Counted, not walked through: there may be billions.
    fn piece_count(&self, lane: Range) -> u64 {
        let has_bytes = |range: Range| u64::from(range.bytes() > 0);
        match self.period {
            None => has_bytes(lane.intersect(self.range)),
            Some(period) => {
                let (whole, rest) = self.periods(period);
                whole * has_bytes(lane) + has_bytes(lane.intersect(rest))
            }
        }
    }

    /// What a lane has in one period.
    fn piece(&self, lane: Range, index: u64) -> Range {
        let at = self.period.map_or(0, |period| self.range.from + index * period);
        // A period may be longer than any chunk.
        let (from, to) = (lane.from.saturating_add(at), lane.to.saturating_add(at));
        Range { from, to }.intersect(self.range)
    }

    /// The sum over all pieces of a lane.
    fn sum(&self, lane: &Lane, measure: impl Fn(Range) -> u64) -> u64 {
        match self.period {
            None => measure(lane.range.intersect(self.range)),
            Some(period) => {
                let (whole, rest) = self.periods(period);
                whole.saturating_mul(measure(lane.range)) + measure(lane.range.intersect(rest))
            }
        }
    }

    /// How many whole periods the range has, and what it has of another one.
    fn periods(&self, period: u64) -> (u64, Range) {
        (self.range.bytes() / period, Range { from: 0, to: self.range.bytes() % period })
    }

    /// Every node that sends or receives, ascending.
    pub fn participants(&self) -> Vec<NodeId> {
        let edges = self.lanes.iter().flat_map(|l| &l.edges);
        let mut nodes: Vec<NodeId> = edges.flat_map(|e| [e.child, e.parent]).collect();
        nodes.extend(self.destinations.values());
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// The slices of one lane, by arithmetic rather than as a list: a lane may have millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRanges {
    first: Range,
    step: u64,
    end: u64,
    slice_bytes: u32,
    count: u32,
}

impl SliceRanges {
    /// How many slices there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The `slice`-th of them.
    pub fn get(&self, slice: u32) -> SliceRange {
        assert!(slice < self.count, "slice {slice} of {}", self.count);
        let slice_bytes = u64::from(self.slice_bytes);
        let per_piece = self.first.bytes().div_ceil(slice_bytes);
        let (piece, within) = (u64::from(slice) / per_piece, u64::from(slice) % per_piece);
        let start = self.first.from + piece * self.step;
        let offset = start + within * slice_bytes;
        let to = (start + self.first.bytes()).min(self.end).min(offset + slice_bytes);
        SliceRange { offset, bytes: (to - offset) as u32 }
    }

    /// How many bytes all slices before the `slice`-th have.
    pub fn bytes_below(&self, slice: u32) -> u64 {
        let Some(last) = slice.checked_sub(1) else { return 0 };
        let slice_bytes = u64::from(self.slice_bytes);
        let per_piece = self.first.bytes().div_ceil(slice_bytes);
        let (piece, within) = (u64::from(last) / per_piece, u64::from(last) % per_piece);
        piece * self.first.bytes() + within * slice_bytes + u64::from(self.get(last).bytes)
    }

    /// How many of the first slices end at `offset` or before, where they follow on each other: in
    /// a plan without a period.
    pub fn count_until(&self, offset: u64) -> u32 {
        if offset >= self.end {
            return self.count;
        }
        let bytes = offset.saturating_sub(self.first.from);
        u32::try_from(bytes / u64::from(self.slice_bytes)).map_or(self.count, |n| n.min(self.count))
    }

    /// The length of all of them but the last of each piece.
    pub fn slice_bytes(&self) -> u32 {
        self.slice_bytes
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = SliceRange> + use<> {
        let slice_ranges = *self;
        (0..self.count).map(move |slice| slice_ranges.get(slice))
    }
}

impl Lane {
    /// The helper set, ascending: every child that holds a surviving chunk, and the decoder if it
    /// holds one. What the edges carry follows from it; in a lane of traces it follows from the
    /// scheme, and a decoder whose chunk the scheme does without is no helper.
    pub fn helpers(&self, facts: &StripeFacts<'_>) -> Vec<ChunkIndex> {
        let nodes = self.edges.iter().map(|edge| edge.child).chain(self.decoder);
        let mut helpers: Vec<ChunkIndex> = nodes.filter_map(|node| facts.chunk_on(node)).collect();
        helpers.sort_unstable();
        helpers.dedup();
        if let Some(scheme) = self.scheme.and_then(|scheme| facts.code.scheme(scheme.0)) {
            helpers.retain(|chunk| !scheme.missing().contains(chunk));
        }
        helpers
    }

    /// Whether the chunk that it brings is copied from where it is: by one edge, from its holder to
    /// its destination. Such a lane has no helpers and no DAG.
    pub fn copies(&self, facts: &StripeFacts<'_>) -> bool {
        let from = |edge: &Edge| Some(edge.child) == facts.source;
        self.decoder.is_none() && matches!(&self.edges[..], [edge] if from(edge))
    }

    /// What the lane computes, whole: the repair of its lost chunks from its helper set, or by its
    /// trace scheme.
    ///
    /// # Errors
    /// When the code does not repair from these helpers, or has no such scheme.
    pub fn dag(&self, facts: &StripeFacts<'_>) -> Result<Dag, LaneFault> {
        let code = facts.code;
        let Some(id) = self.scheme else {
            let helpers = self.helpers(facts);
            return code.repair_dag(&self.lost, &helpers).map_err(LaneFault::Helpers);
        };
        let scheme = code.scheme(id.0);
        let scheme = scheme.ok_or(LaneFault::NoScheme { scheme: id, code: code.code() })?;
        code.trace_dag(scheme).map_err(LaneFault::Helpers)
    }

    /// The nodes that send to `node`, in the order of the edges.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.edges.iter().filter(move |e| e.parent == node).map(|e| e.child)
    }

    /// The edge on which `node` sends what it summed, if it sends.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.edges.iter().find(|e| e.child == node).map(|e| e.parent)
    }
}
