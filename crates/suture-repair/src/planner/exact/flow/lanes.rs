//! From amounts to lanes: which node sends which bytes, and where they are added up.
//!
//! Place: `[plan]`, the last step of the flow planner. The transport decides how much of a chunk
//! each survivor sends, and then how much of it is received where; `join.rs` cuts the first into
//! lanes with one helper set each, and these into lanes of whole in-degrees or of one decoder.
//!
//! Invariant: a part plan's lanes tile its chunk, and each has as many helpers as the code asks
//! for.

use crate::id::{ChunkIndex, NodeId};
use crate::max_flow::{Link, Supply};
use crate::need::Part;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range};
use crate::planner::exact::flow::destination::Chosen;
use crate::planner::exact::instance::{ExactRequest, Instance};
use crate::planner::exact::join::{CoveredRange, tree, wrap_around};

/// Chunks of a request that are rebuilt together, and how.
pub(super) struct PartPlan<'a> {
    pub request: &'a ExactRequest<'a>,
    pub part: &'a Part,
    /// The length of a chunk.
    pub units: u32,
    alpha: u32,
    /// The node that keeps each lost chunk of the part. The first one decodes.
    pub destinations: Vec<NodeId>,
    /// Sub-ranges of the chunk, ascending.
    pub lanes: Vec<SubRange>,
}

/// A range of a chunk with one helper set.
#[derive(Clone, Debug)]
pub(super) struct SubRange {
    from: u32,
    to: u32,
    pub helpers: Vec<(ChunkIndex, NodeId)>,
    aggregation: Aggregation,
}

/// Where what the helpers of a sub-range send comes together.
#[derive(Clone, Debug)]
enum Aggregation {
    /// It is not chosen yet.
    Open,
    /// On a tree: how many others each helper adds to its own.
    Sums(Vec<u32>),
    /// At a decoder: a helper or the first destination.
    Decoder(NodeId),
}

impl SubRange {
    pub fn units(&self) -> u32 {
        self.to - self.from
    }
}

/// The power of times whose least sum balances helpers.
const BUSIEST_POWER: i32 = 8;

impl<'a> PartPlan<'a> {
    pub fn new(
        request: &'a ExactRequest<'a>,
        part: &'a Part,
        units: u32,
        alpha: u32,
        destinations: Vec<NodeId>,
    ) -> PartPlan<'a> {
        let helpers = part.forced.iter().map(|s| (s.chunk, request.holder(s.chunk))).collect();
        let whole = SubRange { from: 0, to: units, helpers, aggregation: Aggregation::Open };
        PartPlan { request, part, units, alpha, destinations, lanes: vec![whole] }
    }

    /// Units of so many sub-chunks.
    pub fn shares(&self, sub_chunks: u32) -> u32 {
        (u64::from(self.units) * u64::from(sub_chunks) / u64::from(self.alpha)) as u32
    }

    /// What nodes send and read whichever others help, in units.
    pub fn sent_anyway(&self, mut charge: impl FnMut(NodeId, f64, f64)) {
        for sender in &self.part.forced {
            let (sent, read) = (self.shares(sender.sent), self.shares(sender.read));
            charge(self.request.holder(sender.chunk), f64::from(sent), f64::from(read));
        }
    }

    /// What the decoder sends on, in units.
    pub fn forwarded(&self) -> u32 {
        self.part.forwards() as u32 * self.units
    }

    /// The nodes that may decode some of it, without more being sent than by any other.
    pub fn decoders(&self) -> impl Iterator<Item = NodeId> + '_ {
        let forced = self.part.forced.iter().map(|sender| sender.chunk);
        let holders = forced.chain(self.part.free.iter().copied());
        self.destinations.iter().copied().chain(holders.map(|chunk| self.request.holder(chunk)))
    }

    /// Where the parts of a lane may come together: its helpers, then destinations, the first one
    /// last.
    pub fn aggregation_points(&self, lane: &SubRange, may_forward: bool) -> Vec<NodeId> {
        let destinations = if self.part.is_sum { 1 } else { self.destinations.len() };
        let helpers = lane.helpers.iter().map(|(_, node)| *node);
        if self.part.is_sum || may_forward {
            helpers.chain(self.destinations[..destinations].iter().rev().copied()).collect()
        } else {
            vec![self.destinations[0]]
        }
    }

    /// What nodes receive wherever it comes together, in units: each destination its chunk.
    pub fn received_anyway(&self, mut charge: impl FnMut(NodeId, f64)) {
        self.destinations.iter().for_each(|node| charge(*node, f64::from(self.units)));
    }

    /// What is received in a sub-range beyond that, in units: all but one of the sums or chunks.
    pub fn received_besides(&self, sub_range: &SubRange) -> u32 {
        let alpha = u64::from(self.alpha);
        // Of whole chunks more may help than are needed.
        let sent = match alpha {
            1 => sub_range.helpers.len() as u64,
            _ => self.part.sent(),
        };
        (u64::from(sub_range.units()) * sent.saturating_sub(alpha) / alpha) as u32
    }

    /// Whether some sub-range has more helpers than its chunk needs.
    pub fn has_more_than_needed(&self) -> bool {
        let needed = self.part.forced.len() + self.part.count;
        self.lanes.iter().any(|sub_range| sub_range.helpers.len() > needed)
    }

    /// Takes the least busy helpers that the code accepts for a sub-range, in place of those that
    /// it had; no more of them than it needs, or, of whole chunks, rather more than busier ones.
    pub fn ask_the_code(&mut self, sub_range: usize, supplies: &mut [Supply], rather_more: bool) {
        let request = self.request;
        let share = self.lanes[sub_range].units() as f64 * f64::from(self.part.free_sent)
            / f64::from(self.alpha);
        let mut charge = |node: NodeId, units: f64| {
            supplies[node.index()].bases.iter_mut().for_each(|base| *base += units);
        };
        let forced = self.part.forced.len();
        let helpers = &mut self.lanes[sub_range].helpers;
        helpers.drain(forced..).for_each(|(_, node)| charge(node, -share));

        let seconds =
            |chunk: &ChunkIndex| supplies[request.holder(*chunk).index()].seconds_for(share);
        let chosen = if self.part.checks.is_empty() {
            let mut busiest = self.part.free.clone();
            busiest.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
            self.least_busy(&busiest, rather_more && self.alpha == 1)
        } else {
            self.least_busy_of_checks(rather_more, seconds)
        };
        for chunk in chosen {
            let node = request.holder(chunk);
            supplies[node.index()].bases.iter_mut().for_each(|base| *base += share);
            self.lanes[sub_range].helpers.push((chunk, node));
        }
    }

    /// As few of the free helpers as the repair needs, or rather more, without the busiest as far
    /// as that goes.
    fn least_busy(&self, busiest: &[ChunkIndex], rather_more: bool) -> Vec<ChunkIndex> {
        let (code, part) = (self.request.job.code, self.part);
        let ask = if rather_more { Part::taken } else { Part::accepted };
        let with_forced = |free: &[ChunkIndex]| -> Vec<ChunkIndex> {
            part.forced.iter().map(|sender| sender.chunk).chain(free.iter().copied()).collect()
        };
        let mut left: Vec<ChunkIndex> = busiest.iter().rev().copied().collect();
        let first = if rather_more { ask(part, code, &with_forced(&left)) } else { None };
        let mut helpers = first.unwrap_or_else(|| part.free_helpers(code, left.clone()));
        for chunk in busiest.iter().filter(|_| !part.any) {
            let others: Vec<ChunkIndex> = left.iter().copied().filter(|c| c != chunk).collect();
            if others.len() >= part.count
                && let Some(without) = ask(part, code, &with_forced(&others))
            {
                (left, helpers) = (others, without);
            }
        }
        helpers
    }

    /// The same, where the code's parity checks are known: those of the least sum of times, each to
    /// a power that makes the busiest count.
    fn least_busy_of_checks(
        &self,
        rather_more: bool,
        seconds: impl Fn(&ChunkIndex) -> f64,
    ) -> Vec<ChunkIndex> {
        let (code, part) = (self.request.job.code, self.part);
        let finite = part.free.iter().map(&seconds).filter(|seconds| seconds.is_finite());
        let longest = finite.fold(f64::MIN_POSITIVE, f64::max);
        let is_free = |chunk: &ChunkIndex| part.free.contains(chunk);
        let price = |chunk: ChunkIndex| {
            if is_free(&chunk) {
                (seconds(&chunk) / longest).min(2.0).powi(BUSIEST_POWER)
            } else {
                0.0
            }
        };
        let chosen = part.cheapest_sets(1, !rather_more, price).pop().expect("there are checks");
        part.taken(code, &chosen).unwrap_or_else(|| part.free_helpers(code, part.free.clone()))
    }

    /// Cuts the chunk into sub-ranges of that length, all with the helpers of the first.
    pub fn cut_evenly(&mut self, units: u32) {
        let whole = self.lanes[0].clone();
        let from = (0..self.units).step_by(units as usize);
        let sub_range =
            |from: u32| SubRange { from, to: (from + units).min(self.units), ..whole.clone() };
        self.lanes = from.map(sub_range).collect();
    }

    /// Joins sub-ranges that follow each other and have the same helpers.
    pub fn merge_equal(&mut self) {
        self.lanes.dedup_by(|next, sub_range| {
            let are_equal = next.helpers.len() == sub_range.helpers.len()
                && next.helpers.iter().all(|helper| sub_range.helpers.contains(helper));
            if are_equal {
                sub_range.to = next.to;
            }
            are_equal
        });
    }

    /// Cuts the chunk so that each of the free helpers sends what was shipped.
    pub fn cut_by_helpers(&mut self, shipped: &[Link]) {
        let forced = std::mem::take(&mut self.lanes[0].helpers);
        let arcs = self.arcs(shipped, self.shares(self.part.free_sent), self.part.count as u32);
        let place = |at: usize| (self.part.free[at], NodeId(shipped[at].node));
        let wrapped = wrap_around(&arcs, self.units);
        let sub_range = |CoveredRange { from, to, members }: CoveredRange| {
            let chosen = members.into_iter().map(place);
            let helpers = forced.iter().copied().chain(chosen).collect();
            SubRange { from, to, helpers, aggregation: Aggregation::Open }
        };
        self.lanes = wrapped.into_iter().map(sub_range).collect();
    }

    /// Cuts lanes so that each is decoded by one node, in the parts in which finished chunks are
    /// shipped. Nodes that do not help in a lane cannot decode it: the first destination does.
    pub fn cut_by_decoders(&mut self, shipped: &[Link]) {
        let forwards = (self.part.forwards() as u32).max(1);
        let budget = |link: &Link| (NodeId(link.node), link.units / forwards);
        let mut budgets: Vec<(NodeId, u32)> = shipped.iter().map(budget).collect();
        let mut cut = Vec::new();
        for mut lane in std::mem::take(&mut self.lanes) {
            while lane.units() > 0 {
                let points = self.aggregation_points(&lane, true);
                let able = budgets.iter_mut().filter(|(node, _)| points.contains(node));
                let (node, units) = match able.max_by_key(|(_, units)| *units) {
                    Some((node, units)) if *units > 0 => {
                        let decoded = lane.units().min(*units);
                        *units -= decoded;
                        (*node, decoded)
                    }
                    _ => (self.destinations[0], lane.units()),
                };
                let to = lane.from + units;
                cut.push(SubRange { to, aggregation: Aggregation::Decoder(node), ..lane.clone() });
                lane.from = to;
            }
        }
        self.lanes = cut;
    }

    /// Which of the points decodes a lane, as far as that was chosen.
    pub fn decoder_among(&self, lane: &SubRange, points: &[NodeId]) -> usize {
        let chosen = match lane.aggregation {
            Aggregation::Decoder(node) => points.iter().position(|point| *point == node),
            Aggregation::Sums(_) | Aggregation::Open => None,
        };
        chosen.unwrap_or(points.len() - 1)
    }

    /// Parts of the circle as long as the parts that are shipped of `limit`, `rounds` in all.
    fn arcs(&self, shipped: &[Link], limit: u32, rounds: u32) -> Vec<u32> {
        let arc = |link: &Link| {
            if limit == self.units {
                link.units
            } else {
                (u64::from(link.units) * u64::from(self.units) / u64::from(limit)) as u32
            }
        };
        let mut arcs: Vec<u32> = shipped.iter().map(arc).collect();
        // Rounding may have left a few units over.
        let mut missing = u64::from(rounds) * u64::from(self.units);
        missing -= arcs.iter().map(|arc| u64::from(*arc)).sum::<u64>();
        for arc in &mut arcs {
            let more = u64::from(self.units - *arc).min(missing);
            *arc += more as u32;
            missing -= more;
        }
        arcs
    }

    /// Cuts the lanes so that each helper receives what was shipped to it; what is left arrives at
    /// the destination. One list of links for each lane, the destination's last.
    pub fn cut_by_points<'b>(&mut self, shipped: impl Iterator<Item = &'b [Link]>) {
        let lanes = std::mem::take(&mut self.lanes);
        let cut = |(lane, links): (&SubRange, &'b [Link])| {
            if self.part.is_sum { sums_of(lane, links) } else { self.decoders_of(lane, links) }
        };
        self.lanes = lanes.iter().zip(shipped).flat_map(cut).collect();
    }

    /// Cuts a lane so that each part of it is decoded at one node.
    fn decoders_of(&self, lane: &SubRange, links: &[Link]) -> Vec<SubRange> {
        let besides = u64::from(self.received_besides(lane)).max(1);
        let units = u64::from(lane.units());
        let arc = |link: &Link| (u64::from(link.units) * units / besides) as u32;
        // What rounding leaves goes to the first destination, which stands last.
        let arcs: Vec<u32> = links[..links.len() - 1].iter().map(arc).collect();
        let sub_range = |CoveredRange { from, to, members }: CoveredRange| {
            let decoder =
                members.first().map_or(self.destinations[0], |&at| NodeId(links[at].node));
            let (from, to) = (lane.from + from, lane.from + to);
            SubRange {
                from,
                to,
                helpers: lane.helpers.clone(),
                aggregation: Aggregation::Decoder(decoder),
            }
        };
        wrap_around(&arcs, lane.units()).into_iter().map(sub_range).collect()
    }

    /// The lanes of the plan, empty ones left out.
    fn plan_lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        let sub_ranges = self.lanes.iter().map(|sub_range| (sub_range, self.bytes(sub_range)));
        sub_ranges.filter(|(_, range)| range.bytes() > 0).map(|(sub_range, range)| Lane {
            range,
            lost: self.part.lost.clone(),
            mode: Mode::Streamed,
            decoder: match sub_range.aggregation {
                Aggregation::Decoder(node) => Some(node),
                Aggregation::Sums(_) | Aggregation::Open => None,
            },
            scheme: None,
            edges: match &sub_range.aggregation {
                Aggregation::Decoder(node) => self.gather(sub_range, *node, range.bytes()),
                Aggregation::Sums(sums) => {
                    tree(&sub_range.helpers, sums, self.destinations[0], range.bytes())
                }
                Aggregation::Open => unreachable!("all lanes are joined before they become a plan"),
            },
        })
    }

    fn bytes(&self, sub_range: &SubRange) -> Range {
        let byte = |at| self.request.byte_at(at, self.units);
        Range { from: byte(sub_range.from), to: byte(sub_range.to) }
    }

    fn gather(&self, sub_range: &SubRange, decoder: NodeId, bytes: u64) -> Vec<Edge> {
        let sent = |chunk: ChunkIndex| {
            let forced = self.part.forced.iter().find(|sender| sender.chunk == chunk);
            u64::from(forced.map_or(self.part.free_sent, |sender| sender.sent))
        };
        let others = sub_range.helpers.iter().filter(|(_, node)| *node != decoder);
        let combined = others.map(|&(chunk, child)| {
            let bytes = sent(chunk) * bytes / u64::from(self.alpha);
            Edge { child, parent: decoder, bytes, carries: Carries::Combined }
        });
        let elsewhere = self.destinations.iter().filter(|node| **node != decoder);
        let finished = elsewhere.map(|&parent| Edge {
            child: decoder,
            parent,
            bytes,
            carries: Carries::Finished,
        });
        combined.chain(finished).collect()
    }
}

/// Cuts a lane so that each helper adds up the same number of sums in each part of it.
fn sums_of(lane: &SubRange, links: &[Link]) -> Vec<SubRange> {
    let units = lane.units();
    let received: Vec<u32> = links[..lane.helpers.len()].iter().map(|link| link.units).collect();
    let rests: Vec<u32> = received.iter().map(|received| received % units).collect();
    let sub_range = |CoveredRange { from, to, members }: CoveredRange| {
        let mut sums: Vec<u32> = received.iter().map(|received| received / units).collect();
        members.into_iter().for_each(|helper| sums[helper] += 1);
        let (from, to) = (lane.from + from, lane.from + to);
        SubRange { from, to, helpers: lane.helpers.clone(), aggregation: Aggregation::Sums(sums) }
    };
    wrap_around(&rests, units).into_iter().map(sub_range).collect()
}

/// The plans of all requests. The part plans of a request follow each other.
pub(super) fn plans(
    instance: &Instance<'_>,
    destinations: &Chosen,
    part_plans: &[PartPlan<'_>],
) -> Vec<Plan> {
    let mut part_plans = part_plans.iter().peekable();
    let requests = instance.requests.iter().enumerate();
    let plan = |(index, request): (usize, &ExactRequest<'_>)| {
        let mut lanes = Vec::new();
        while let Some(part_plan) =
            part_plans.next_if(|part_plan| std::ptr::eq(part_plan.request, request))
        {
            lanes.extend(part_plan.plan_lanes());
        }
        request.plan(destinations.of(index), lanes)
    };
    requests.map(plan).collect()
}
