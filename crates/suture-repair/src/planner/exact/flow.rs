//! Flow: exact balancing by augmenting paths, and chunks cut into lanes where whole ones are
//! coarse.
//!
//! Place: `[plan]`, one of the exact planners: destinations, then helpers, then lanes. In a tree
//! every helper sends the chunk's length once, whatever the tree; what is received may lie anywhere
//! among the helpers and the destination, as any in-degrees that add up make a tree. So the batch
//! falls apart into three transport problems (`max_flow.rs`), solved one after the other, each with
//! a certificate that no less time is possible:
//!
//! 1. destinations (`flow/destination.rs`): which node keeps each chunk, fair to downlinks and
//!    disks;
//! 2. uploads: which survivors of each stripe send. First whole chunks, greedily and then by
//!    augmenting paths to the integral optimum; then, if the fractional optimum is clearly better,
//!    parts of chunks, which leaves most chunks whole and cuts a few;
//! 3. downloads: where the sums of each lane meet, in the same two steps, given the helpers.
//!
//! `flow/lanes.rs` cuts amounts into lanes with one helper set each (McNaughton's wrap-around) and
//! joins in-degrees to trees. Chunks that are not sums (several losses, codes with sub-chunks) are
//! gathered at their first destination.
//!
//! A chunk alone is split over many trees (`split.rs`), where all three steps are one.
//!
//! Where racks have links, stripes have several losses, or a processor is the limit,
//! `potential.rs` plans as well, and the better batch is taken: these are no transport problems. It
//! also tries small batches whose helpers cannot receive what they send, since the three steps
//! follow each other and do not look back far.
//!
//! What already runs counts as a base of every port. Nodes that cannot be relieved do not spoil the
//! balance of the others: these are balanced again among themselves.
//!
//! Source: for the walk along augmenting paths, RepairBoost (ATC'21) section 3.3 poses the problem
//! and swaps helpers greedily; the exact solution and the lanes are ours.

pub(super) mod destination;
mod lanes;

use crate::id::ChunkIndex;
use crate::max_flow::{Certificate, Rounding, Supply, Transport};
use crate::plan::Plan;
use crate::planner::exact::around;
use crate::planner::exact::instance::{AROUND_MAX, ExactRequest, Instance};
use crate::planner::exact::potential::{self, Kinds};
use crate::planner::exact::split;
use crate::planner::{Batch, Job, View};
use crate::random::Random;

use lanes::{PartPlan, SubRange};

/// How far above the fractional optimum whole chunks may stay: what is not worth more lanes.
const GAP_MAX: f64 = 0.002;

/// The most grains of a chunk. What a node ships is rounded to grains, so a few chunks on many
/// nodes need fine ones; a chunk has hardly more lanes for that.
const CUTS_MAX: u32 = 1024;

/// The shortest lane: one of the smallest slices.
const LANE_BYTES_MIN: f64 = 4096.0;

/// How often the nodes that are not the limit of the last level are balanced again.
const LEVELS_MAX: usize = 4;

/// Plans for all jobs that can be planned.
pub(in crate::planner) fn plan(jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let instance = Instance::new(jobs, view);
    let plans = plans(&instance, seed);
    Batch { plans, refused: instance.refused, ..Batch::default() }
}

/// Up to so many requests a second plan is worth its time when the first is not at its bound.
const SMALL_MAX: usize = 256;

/// Plans for all requests, in their order.
pub(in crate::planner) fn plans(instance: &Instance<'_>, seed: u64) -> Vec<Plan> {
    let mut random = Random::new(seed);
    let (exact, is_tight) = exact_plans(instance, &mut random);
    let count = instance.requests.len();
    // Around slow helpers more is won, so that larger batches are worth it too.
    let are_few = count <= SMALL_MAX;
    let may_gain = || {
        (are_few && !is_tight)
            || (count <= AROUND_MAX && around::is_slowed(instance, &exact, are_few))
            || instance.is_held_by_processor(&exact)
    };
    if !is_more_than_flow(instance) && !may_gain() {
        return exact;
    }
    let priced = potential::plans(instance, Kinds::Chunks, &mut random);
    if instance.peak_seconds(&priced) < instance.peak_seconds(&exact) { priced } else { exact }
}

/// Whether something may be scarce that the flows do not see: links of racks, which many helpers
/// share, uplinks of nodes that decode several losses, and places of racks for several chunks.
fn is_more_than_flow(instance: &Instance<'_>) -> bool {
    let cluster = instance.view.cluster;
    let decodes =
        |request: &ExactRequest<'_>| instance.parts(request).iter().any(|part| part.forwards() > 0);
    let share_racks =
        |request: &ExactRequest<'_>| cluster.racks.len() > 1 && request.lost.len() > 1;
    let is_more = |request: &ExactRequest<'_>| decodes(request) || share_racks(request);
    cluster.has_rack_links() || instance.requests.iter().any(is_more)
}

/// Plans by three flows, and whether they are done about when everything must have been sent,
/// received and written at the earliest.
fn exact_plans(instance: &Instance<'_>, random: &mut Random) -> (Vec<Plan>, bool) {
    let destinations = destination::choose(instance, random);
    if let [request] = &instance.requests[..] {
        let others = destination::candidates(instance, request);
        if let Some(split) = split::plan(instance, request, destinations.of(0), &others) {
            return (vec![split], true);
        }
    }
    let mut order: Vec<usize> = (0..part_plans(instance, &destinations).len()).collect();
    random.shuffle(&mut order);
    let assignment = Assignment::new(instance, &destinations, &order, None);
    let least_seconds = assignment.sent_seconds.max(destinations.least_seconds);
    let assignment = assignment.improved(instance, &destinations, &order);
    let seconds = assignment.seconds().max(destinations.seconds);
    // What the code is asked for is chosen in turn, which may be far from the best; and what a
    // decoder sends on is not charged.
    let is_exact = assignment.part_plans.iter().all(|plan| plan.part.any && plan.part.is_sum);
    let is_tight = is_exact && seconds <= least_seconds * (1.0 + GAP_MAX);
    (lanes::plans(instance, &destinations, &assignment.part_plans), is_tight)
}

/// Helpers and aggregation points for all requests.
struct Assignment<'a> {
    part_plans: Vec<PartPlan<'a>>,
    /// When all is sent.
    sent_seconds: f64,
    /// When all is received, and by which node at last.
    received: Certificate,
}

/// Nodes that should rather not help, because they receive too slowly to add anything up, as long
/// as the others have sent within `seconds`.
struct Spare {
    nodes: Vec<bool>,
    seconds: f64,
}

/// How often helpers are chosen again for the sake of those that receive.
const IMPROVEMENTS_MAX: usize = 4;

impl<'a> Assignment<'a> {
    fn new(
        instance: &'a Instance<'a>,
        destinations: &destination::Chosen,
        order: &[usize],
        spare: Option<&Spare>,
    ) -> Assignment<'a> {
        let mut part_plans = part_plans(instance, destinations);
        let sent_seconds = choose_helpers(instance, &mut part_plans, order, spare);
        let received = choose_points(instance, &mut part_plans, order, sent_seconds);
        Assignment { part_plans, sent_seconds, received }
    }

    fn seconds(&self) -> f64 {
        self.sent_seconds.max(self.received.seconds)
    }

    /// Helpers are chosen by what they send. Where few nodes may keep a chunk and links differ
    /// much, that may leave only slow receivers: then others help, as far as they can send.
    fn improved(
        self,
        instance: &'a Instance<'a>,
        destinations: &destination::Chosen,
        order: &[usize],
    ) -> Assignment<'a> {
        let mut best = self;
        let mut nodes = vec![false; instance.view.cluster.nodes.len()];
        let mut sent_seconds = best.sent_seconds;
        for _ in 0..IMPROVEMENTS_MAX {
            if best.received.seconds <= sent_seconds * (1.0 + GAP_MAX) {
                break;
            }
            best.received.nodes.iter().for_each(|node| nodes[*node as usize] = true);
            let spare = Spare { nodes: nodes.clone(), seconds: sent_seconds };
            let next = Assignment::new(instance, destinations, order, Some(&spare));
            if next.seconds() < best.seconds() {
                best = next;
            } else {
                // Sending may take longer, as long as receiving takes longer still.
                sent_seconds = (sent_seconds * best.received.seconds).sqrt();
            }
        }
        best
    }
}

/// What is to be rebuilt together, of each request one after the other.
fn part_plans<'a>(
    instance: &'a Instance<'a>,
    destinations: &destination::Chosen,
) -> Vec<PartPlan<'a>> {
    let mut part_plans = Vec::with_capacity(instance.requests.len());
    for (index, request) in instance.requests.iter().enumerate() {
        let units = instance.units(request);
        for part in instance.parts(request) {
            let lost = |chunk: &ChunkIndex| request.lost.iter().position(|lost| lost == chunk);
            let destinations =
                part.lost.iter().filter_map(lost).map(|at| destinations.of(index)[at]);
            let alpha = request.job.code.sub_chunk_count();
            part_plans.push(PartPlan::new(request, part, units, alpha, destinations.collect()));
        }
    }
    part_plans
}

/// Chooses the senders, and cuts part plans into lanes with one helper set each. Returns when the
/// busiest has sent, in seconds.
fn choose_helpers(
    instance: &Instance<'_>,
    part_plans: &mut [PartPlan<'_>],
    order: &[usize],
    spare: Option<&Spare>,
) -> f64 {
    let mut supplies: Vec<Supply> =
        instance.view.cluster.ids().map(|node| instance.sending(node)).collect();
    for part_plan in part_plans.iter() {
        part_plan.sent_anyway(|node, sent, read| {
            supplies[node.index()].bases[0] += sent;
            supplies[node.index()].bases[1] += read;
        });
    }
    ask_the_codes(&mut supplies, part_plans);
    let mut transport = Transport::new(supplies);
    let mut lengths = Lengths::default();
    let demands: Vec<SentDemands> = part_plans
        .iter()
        .map(|part_plan| SentDemands::new(part_plan, &mut transport, &mut lengths))
        .collect();
    for &index in order {
        demands[index].ship_forwards(&part_plans[index], &mut transport);
    }
    for &index in order {
        demands[index].ship_shares(&part_plans[index], &mut transport, spare);
    }
    transport.set_floor(spare.map_or(0.0, |spare| spare.seconds));
    balance(&mut transport, &lengths, instance);
    for (part_plan, demands) in part_plans.iter_mut().zip(&demands) {
        if let Some(demand) = demands.shares {
            part_plan.cut_by_helpers(transport.shipped(demand));
        }
        if let Some(demand) = demands.forwards {
            part_plan.cut_by_decoders(transport.shipped(demand));
        }
    }
    transport.peak_seconds()
}

/// What a part plan asks of senders, as demands of the transport: shares of helpers that are not
/// forced, and finished chunks that a decoder sends on, which may be the best sender.
struct SentDemands {
    shares: Option<usize>,
    forwards: Option<usize>,
}

impl SentDemands {
    fn new(
        part_plan: &PartPlan<'_>,
        transport: &mut Transport,
        lengths: &mut Lengths,
    ) -> SentDemands {
        let (part, share) = (part_plan.part, part_plan.shares(part_plan.part.free_sent));
        let shares = (part.any && part.count > 0).then(|| {
            lengths.add(share);
            transport.add(share, part.free.iter().map(|chunk| part_plan.request.holder(*chunk).0))
        });
        let forwards = (part.forwards() > 0).then(|| {
            lengths.differ = true;
            transport.add(part_plan.forwarded(), part_plan.decoders().map(|node| node.0))
        });
        SentDemands { shares, forwards }
    }

    fn ship_forwards(&self, part_plan: &PartPlan<'_>, transport: &mut Transport) {
        if let Some(demand) = self.forwards {
            transport.ship_greedily(demand, 1, part_plan.forwarded());
        }
    }

    fn ship_shares(
        &self,
        part_plan: &PartPlan<'_>,
        transport: &mut Transport,
        spare: Option<&Spare>,
    ) {
        let Some(demand) = self.shares else { return };
        let (count, share) = (part_plan.part.count, part_plan.shares(part_plan.part.free_sent));
        match spare {
            None => transport.ship_greedily(demand, count, share),
            Some(spare) => transport.ship_by(demand, count, share, |node, seconds| {
                if spare.nodes[node as usize] || seconds > spare.seconds {
                    spare.seconds + seconds
                } else {
                    seconds
                }
            }),
        }
    }
}

/// How often the helpers of part plans that the code must be asked for are chosen again.
const ASKED_MAX: usize = 4;

/// How many sub-ranges such a part plan is cut into when that lowers the peak.
const ASKED_CUTS: u32 = 8;

/// Helpers of part plans of which not any set will do. Where the least busy ones are more than a
/// repair needs, the fewest are tried as well, and the lower peak wins.
fn ask_the_codes(supplies: &mut Vec<Supply>, part_plans: &mut [PartPlan<'_>]) {
    let mut asked: Vec<&mut PartPlan<'_>> =
        part_plans.iter_mut().filter(|part_plan| !part_plan.part.any).collect();
    if asked.is_empty() {
        return;
    }
    let none = (lanes_of(&asked), supplies.clone());
    ask_until_even(supplies, &mut asked, true);
    if asked.iter().any(|part_plan| part_plan.has_more_than_needed()) {
        let more = (lanes_of(&asked), std::mem::replace(supplies, none.1));
        asked.iter_mut().zip(none.0).for_each(|(part_plan, lanes)| part_plan.lanes = lanes);
        ask_until_even(supplies, &mut asked, false);
        if peak_seconds(&more.1) < peak_seconds(supplies) {
            *supplies = more.1;
            asked.iter_mut().zip(more.0).for_each(|(part_plan, lanes)| part_plan.lanes = lanes);
        }
    }
    asked.iter_mut().for_each(|part_plan| part_plan.merge_equal());
}

/// Each part plan in turn takes the least busy helpers that the code accepts, given what all others
/// took, until nothing changes; in whole, then in sub-ranges.
fn ask_until_even(supplies: &mut Vec<Supply>, asked: &mut [&mut PartPlan<'_>], rather_more: bool) {
    let ask_all = |asked: &mut [&mut PartPlan<'_>], supplies: &mut [Supply]| {
        for _ in 0..ASKED_MAX {
            for part_plan in asked.iter_mut() {
                let sub_ranges = 0..part_plan.lanes.len();
                sub_ranges
                    .for_each(|sub_range| part_plan.ask_the_code(sub_range, supplies, rather_more));
            }
        }
    };
    ask_all(asked, supplies);
    let whole = lanes_of(asked);
    let (before, peak_before) = (supplies.clone(), peak_seconds(supplies));
    asked
        .iter_mut()
        .for_each(|part_plan| part_plan.cut_evenly(part_plan.units.div_ceil(ASKED_CUTS)));
    ask_all(asked, supplies);
    if peak_seconds(supplies) > peak_before * (1.0 - GAP_MAX) {
        *supplies = before;
        asked.iter_mut().zip(whole).for_each(|(part_plan, lanes)| part_plan.lanes = lanes);
    }
}

fn lanes_of(part_plans: &[&mut PartPlan<'_>]) -> Vec<Vec<SubRange>> {
    part_plans.iter().map(|part_plan| part_plan.lanes.clone()).collect()
}

/// When the busiest port is done with its base.
fn peak_seconds(supplies: &[Supply]) -> f64 {
    supplies.iter().map(|supply| supply.seconds_for(0.0)).fold(0.0, f64::max)
}

/// Chooses where what is sent comes together, given the senders: sums at any helper or at the
/// destination, what must be decoded at one of these. What is received before the last is sent is
/// early enough: a decoder that is a helper may have to send more than if it were none.
fn choose_points(
    instance: &Instance<'_>,
    part_plans: &mut [PartPlan<'_>],
    order: &[usize],
    sent_seconds: f64,
) -> Certificate {
    let mut supplies: Vec<Supply> =
        instance.view.cluster.ids().map(|node| instance.link_down(node)).collect();
    for part_plan in part_plans.iter() {
        part_plan.received_anyway(|node, units| supplies[node.index()].bases[0] += units);
    }
    let mut transport = Transport::new(supplies);
    transport.set_floor(sent_seconds);
    let mut lengths = Lengths::default();
    let mut first = vec![0];
    let may_forward = instance.view.abilities.finished;
    for part_plan in part_plans.iter() {
        for lane in &part_plan.lanes {
            let points = part_plan.aggregation_points(lane, may_forward);
            let besides = part_plan.received_besides(lane);
            transport.add(besides, points.iter().map(|node| node.0));
            lengths.add(if part_plan.part.is_sum { lane.units() } else { besides });
        }
        first.push(first[first.len() - 1] + part_plan.lanes.len());
    }
    for &index in order {
        let part_plan = &part_plans[index];
        for (demand, lane) in (first[index]..).zip(&part_plan.lanes) {
            if part_plan.part.is_sum {
                transport.ship_greedily(demand, lane.helpers.len() - 1, lane.units());
            } else {
                let points = part_plan.aggregation_points(lane, may_forward);
                let decoder = part_plan.decoder_among(lane, &points);
                transport.ship_from(demand, decoder, part_plan.received_besides(lane));
            }
        }
    }
    let received = balance(&mut transport, &lengths, instance);
    for (index, part_plan) in part_plans.iter_mut().enumerate() {
        let shipped = (first[index]..first[index + 1]).map(|demand| transport.shipped(demand));
        part_plan.cut_by_points(shipped);
    }
    received
}

/// The lengths of what is shipped whole.
#[derive(Default)]
struct Lengths {
    longest: u32,
    differ: bool,
}

impl Lengths {
    fn add(&mut self, units: u32) {
        self.differ |= self.longest != 0 && self.longest != units;
        self.longest = self.longest.max(units);
    }
}

/// Whole chunks first, where they are equally long; then parts of chunks, if that gains enough.
fn balance(transport: &mut Transport, lengths: &Lengths, instance: &Instance<'_>) -> Certificate {
    let whole = lengths.longest.max(1);
    let mut grain = grain(transport, whole, instance);
    if lengths.differ && grain == whole {
        // Short chunks of many lengths: the greedy choice has to do.
        return Certificate { seconds: transport.peak_seconds(), nodes: Vec::new() };
    }
    if !lengths.differ {
        let worst = transport.balance(Rounding::Down(whole), 1);
        let least = transport.fractional_seconds(&worst.nodes);
        if worst.nodes.is_empty() || worst.seconds <= least * (1.0 + GAP_MAX) {
            grain = whole;
        }
    }
    transport.balance(Rounding::Down(grain), LEVELS_MAX)
}

/// Parts so small that a node's rounding is about [`GAP_MAX`] of what it ships, but no smaller than
/// is worth a lane.
fn grain(transport: &Transport, whole: u32, instance: &Instance<'_>) -> u32 {
    let mean = transport.mean_load() * GAP_MAX;
    let least = f64::from(whole / CUTS_MAX).max(LANE_BYTES_MIN / instance.unit_bytes);
    let mut grain = whole;
    while f64::from(grain) > mean && f64::from(grain) >= 2.0 * least && grain > 1 {
        grain = grain.div_ceil(2);
    }
    grain
}
