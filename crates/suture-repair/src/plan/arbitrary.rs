//! Random valid plans, as strange as the format allows.
//!
//! Place: beside `[plan]`; property tests and the simulated cluster draw from it, so that executors
//! meet many lanes, odd trees, relays, sub-ranges and periods long before a planner makes them.
//!
//! Invariant: every plan passes `validate`. Nothing about it is sensible otherwise.

use std::collections::BTreeMap;

use suture_code::Scheme;

use crate::id::{ChunkIndex, NodeId};
use crate::plan::content::{Content, Contents};
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range, SchemeId, Start, StripeFacts};
use crate::random::Random;

/// The most ranges that a generated plan is cut into: several lanes, still quick to execute.
const SEGMENTS_MAX: u64 = 4;

/// The most relays without a chunk in one generated tree.
const RELAYS_MAX: usize = 3;

/// A random valid plan for some of the chunks that do not survive, on a cluster of `node_count`
/// nodes.
///
/// # Panics
/// When nothing is lost, the survivors are not enough, or fewer nodes are free than chunks lost.
pub fn arbitrary_plan(random: &mut Random, facts: &StripeFacts<'_>, node_count: usize) -> Plan {
    let lost = arbitrary_lost(random, facts);
    let free = free_nodes(facts, node_count);
    let destinations: BTreeMap<ChunkIndex, NodeId> =
        lost.iter().copied().zip(shuffled(random, &free)).collect();
    assert_eq!(destinations.len(), lost.len(), "every lost chunk needs a free node");
    let range = arbitrary_range(random, facts);
    with_lanes(random, facts, node_count, ArbitraryTask { lost, destinations, range })
}

/// A random valid plan for what lies from `from` on of the chunks of another plan, which bring them
/// to the same nodes. `from` is a bound.
pub fn arbitrary_rest(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    node_count: usize,
    begun: &Plan,
    from: u64,
) -> Plan {
    let range = Range { from, to: facts.chunk_bytes };
    let (lost, destinations) = (begun.lost.clone(), begun.destinations.clone());
    with_lanes(random, facts, node_count, ArbitraryTask { lost, destinations, range })
}

/// What a plan has to do.
struct ArbitraryTask {
    lost: Vec<ChunkIndex>,
    destinations: BTreeMap<ChunkIndex, NodeId>,
    range: Range,
}

fn with_lanes(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    node_count: usize,
    task: ArbitraryTask,
) -> Plan {
    let ArbitraryTask { lost, destinations, range } = task;
    let free = free_nodes(facts, node_count);
    let mut plan = Plan {
        stripe: facts.stripe,
        period: arbitrary_period(random, facts, range),
        range,
        lost,
        destinations,
        start: Start::Now,
        lanes: Vec::new(),
    };
    for segment in arbitrary_segments(random, facts, &plan) {
        add_lanes(random, facts, &free, segment, &mut plan);
    }
    random.shuffle(&mut plan.lanes);
    plan
}

/// Lanes for one range: a gather at one decoder, or a tree of sums or a gather of traces for each
/// lost chunk.
fn add_lanes(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    free: &[NodeId],
    segment: Range,
    plan: &mut Plan,
) {
    if facts.code.sub_chunk_count() > 1 || random.per_mille(300) {
        plan.lanes.push(gather(random, facts, free, segment, plan));
        return;
    }
    for &lost in &plan.lost.clone() {
        let chunk = LostPart { plan, lost, segment };
        let traces = traces(random, facts, free, chunk);
        let lane = traces.unwrap_or_else(|| tree(random, facts, free, chunk));
        plan.lanes.push(lane);
    }
}

/// A range of one lost chunk, which a lane of the plan is to bring to its destination.
#[derive(Clone, Copy)]
struct LostPart<'a> {
    plan: &'a Plan,
    lost: ChunkIndex,
    segment: Range,
}

/// Now and then, and where the survivors allow: all helpers of a scheme send their traces to any
/// node.
fn traces(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    free: &[NodeId],
    LostPart { plan, lost, segment }: LostPart<'_>,
) -> Option<Lane> {
    let serves = |scheme: &&Scheme| {
        let needed = |chunk: &ChunkIndex| *chunk != lost && !scheme.missing().contains(chunk);
        scheme.lost() == lost
            && facts
                .code
                .chunks()
                .filter(needed)
                .all(|c| facts.survives(c) || facts.code.is_zero(c))
    };
    let schemes: Vec<&Scheme> = facts.code.schemes().iter().filter(serves).collect();
    if schemes.is_empty() || random.per_mille(700) {
        return None;
    }
    let scheme = *random.choose(&schemes);
    let holders: Vec<NodeId> = facts.survivors.iter().map(|(_, node)| *node).collect();
    let parent = *random.choose(&[free, &holders].concat());
    let root = plan.destinations[&lost];
    let mut lane = empty_lane(random, segment, vec![lost]);
    (lane.decoder, lane.scheme) = (Some(parent), Some(SchemeId::of(scheme)));
    let content = Contents::default().of_lane(&lane, facts).expect("a scheme of this code");
    for sender in &content.senders {
        let holder = facts.survivors.iter().find(|(held, _)| *held == sender.chunk);
        let (_, child) = *holder.expect("the scheme's helpers survive");
        let bytes = plan.trace_bytes(&lane, sender.sent.into());
        lane.edges.push(Edge { child, parent, bytes, carries: Carries::Traces });
    }
    let bytes = plan.lane_bytes(&lane);
    lane.edges.push(Edge { child: parent, parent: root, bytes, carries: Carries::Finished });
    lane.edges.retain(|edge| edge.child != edge.parent);
    Some(lane)
}

/// Sums on a random tree: every helper, and some relays, sends to one that was placed before it.
fn tree(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    free: &[NodeId],
    LostPart { plan, lost, segment }: LostPart<'_>,
) -> Lane {
    let root = plan.destinations[&lost];
    let helpers = arbitrary_helpers(random, facts, &[lost]);
    let mut senders: Vec<NodeId> = helpers.into_iter().map(|(_, node)| node).collect();
    let relay_count = random.index(RELAYS_MAX + 1);
    let relays = shuffled(random, free).into_iter().filter(|node| *node != root);
    senders.extend(relays.take(relay_count));
    random.shuffle(&mut senders);

    let mut placed = vec![root];
    let mut parents: Vec<(NodeId, NodeId)> = Vec::new();
    for child in senders {
        parents.push((child, *random.choose(&placed)));
        placed.push(child);
    }
    // A relay without children has nothing to send; it may have been the only child of another.
    while let Some(idle) = parents.iter().position(|&(child, _)| {
        facts.chunk_on(child).is_none() && parents.iter().all(|&(_, parent)| parent != child)
    }) {
        parents.remove(idle);
    }
    let mut lane = empty_lane(random, segment, vec![lost]);
    let bytes = plan.lane_bytes(&lane);
    random.shuffle(&mut parents);
    let edges = parents.into_iter();
    lane.edges = edges
        .map(|(child, parent)| Edge { child, parent, bytes, carries: Carries::Partial })
        .collect();
    lane
}

/// All helpers send what the code asks of them to one decoder: a destination, a helper, or a node
/// that is neither.
fn gather(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    free: &[NodeId],
    segment: Range,
    plan: &Plan,
) -> Lane {
    let helpers = arbitrary_helpers(random, facts, &plan.lost);
    let mut candidates = free.to_vec();
    candidates.extend(helpers.iter().map(|(_, node)| *node));
    let decoder = *random.choose(&candidates);
    let mut lane = empty_lane(random, segment, plan.lost.clone());
    lane.decoder = Some(decoder);

    let mut chunks: Vec<ChunkIndex> = helpers.iter().map(|(chunk, _)| *chunk).collect();
    chunks.sort_unstable();
    let content = Content::of_repair(facts.code, &plan.lost, &chunks);
    let content = content.expect("the code chose these helpers");
    let lane_bytes = plan.lane_bytes(&lane);
    let alpha = u64::from(facts.code.sub_chunk_count());
    for (chunk, child) in helpers {
        let bytes = content.sent(chunk) * lane_bytes / alpha;
        lane.edges.push(Edge { child, parent: decoder, bytes, carries: Carries::Combined });
    }
    for &parent in plan.destinations.values() {
        lane.edges.push(Edge {
            child: decoder,
            parent,
            bytes: lane_bytes,
            carries: Carries::Finished,
        });
    }
    lane.edges.retain(|edge| edge.child != edge.parent);
    lane
}

fn empty_lane(random: &mut Random, range: Range, lost: Vec<ChunkIndex>) -> Lane {
    let mode = *random.choose(&[Mode::Streamed, Mode::Streamed, Mode::Stored]);
    Lane { range, lost, mode, decoder: None, scheme: None, edges: Vec::new() }
}

/// A random non-empty subset of what does not survive, ascending.
fn arbitrary_lost(random: &mut Random, facts: &StripeFacts<'_>) -> Vec<ChunkIndex> {
    let mut lost: Vec<ChunkIndex> =
        facts.code.chunks().filter(|c| !facts.survives(*c) && !facts.code.is_zero(*c)).collect();
    assert!(!lost.is_empty(), "a plan rebuilds something");
    random.shuffle(&mut lost);
    lost.truncate(random.between(1, lost.len() as u64) as usize);
    lost.sort_unstable();
    lost
}

/// A random helper set that the code accepts, with the nodes.
fn arbitrary_helpers(
    random: &mut Random,
    facts: &StripeFacts<'_>,
    lost: &[ChunkIndex],
) -> Vec<(ChunkIndex, NodeId)> {
    let mut survivors = facts.survivors.to_vec();
    random.shuffle(&mut survivors);
    let available: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
    let helpers = facts.code.helpers_for(lost, &available).expect("the survivors are enough");
    survivors.retain(|(chunk, _)| helpers.contains(chunk));
    survivors
}

fn free_nodes(facts: &StripeFacts<'_>, node_count: usize) -> Vec<NodeId> {
    let nodes = (0..node_count as u32).map(NodeId);
    nodes.filter(|&node| facts.chunk_on(node).is_none()).collect()
}

fn shuffled(random: &mut Random, nodes: &[NodeId]) -> Vec<NodeId> {
    let mut nodes = nodes.to_vec();
    random.shuffle(&mut nodes);
    nodes
}

/// The whole chunk, or a part of it that begins at a bound.
fn arbitrary_range(random: &mut Random, facts: &StripeFacts<'_>) -> Range {
    let units = facts.chunk_bytes.div_ceil(facts.code.alignment() as u64);
    let whole = Range { from: 0, to: facts.chunk_bytes };
    if random.per_mille(500) {
        return whole;
    }
    let from = random.below(units);
    let to = random.between(from + 1, units);
    let alignment = facts.code.alignment() as u64;
    Range { from: from * alignment, to: to * alignment }.intersect(whole)
}

fn arbitrary_period(random: &mut Random, facts: &StripeFacts<'_>, range: Range) -> Option<u64> {
    let alignment = facts.code.alignment() as u64;
    let units_max = range.bytes() / alignment;
    let is_periodic = units_max > 0 && random.per_mille(400);
    is_periodic.then(|| random.between(1, units_max) * alignment)
}

/// What the lanes tile, cut at random bounds.
fn arbitrary_segments(random: &mut Random, facts: &StripeFacts<'_>, plan: &Plan) -> Vec<Range> {
    let whole = plan.period.map_or(plan.range, |period| Range { from: 0, to: period });
    let alignment = facts.code.alignment() as u64;
    let (first, last) = (whole.from / alignment, whole.to.div_ceil(alignment));
    let mut cuts: Vec<u64> = (1..random.between(1, SEGMENTS_MAX))
        .map(|_| random.between(first, last) * alignment)
        .filter(|cut| whole.from < *cut && *cut < whole.to)
        .collect();
    cuts.extend([whole.from, whole.to]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| Range { from: pair[0], to: pair[1] }).collect()
}
