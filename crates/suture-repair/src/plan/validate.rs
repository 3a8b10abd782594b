//! What makes a plan a plan: every rule of `suture-plan-1`, checked one by one.
//!
//! Place: between `[plan]` and `[admit]`, and once more at every agent that gets a plan. Planners
//! are many and will be more; executors, simulator and agents rely on this one file instead of on
//! each of them. Plans also come from outside, as JSON.
//!
//! The rules, in the order of the checks: the lost chunks exist and cannot be read; each has a
//! destination of its own that holds no surviving chunk; the lanes tile the range (or the period)
//! for each lost chunk, at bounds that every code can be cut at; each lane is a tree of sums into
//! its destination, or a gather at one decoder (of combinations, or of the traces of one scheme)
//! that sends finished bytes on, or a copy straight from where the chunk is; the code takes the
//! helper set; and the bytes of each edge are
//! those that follow from its content.
//!
//! A node without a surviving chunk may relay sums. It says nothing about speed or balance.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{ChunkIndex, NodeId};
use crate::plan::content::{Content, Contents};
use crate::plan::{
    Carries, Edge, Lane, LaneFault, Plan, PlanFault, Range, SchemeId, Start, StripeFacts,
};

/// Checks `plan` against its stripe and a cluster of `node_count` nodes.
///
/// # Errors
/// The first fault found, in the order of the file head.
pub fn validate(plan: &Plan, facts: &StripeFacts<'_>, node_count: usize) -> Result<(), PlanFault> {
    validate_one_of(plan, facts, node_count, &mut Contents::default())
}

/// Checks a plan as [`validate`] does, one of a batch of which many repair the same chunks from the
/// same helpers: `contents` keeps what these send.
///
/// # Errors
/// The first fault found, in the order of the file head.
pub(crate) fn validate_one_of(
    plan: &Plan,
    facts: &StripeFacts<'_>,
    node_count: usize,
    contents: &mut Contents,
) -> Result<(), PlanFault> {
    validate_lost(plan, facts)?;
    validate_destinations(plan, facts, node_count)?;
    validate_range(plan, facts)?;
    each_lane(plan, |lane| validate_bounds(plan, facts, lane))?;
    plan.lost.iter().try_for_each(|&lost| validate_tiling(plan, lost))?;
    each_lane(plan, |lane| LaneCheck { plan, facts, lane }.run(node_count, contents))
}

/// Checks that every `start` of a batch names other plans of it, and that none waits for itself.
///
/// # Errors
/// The first fault found.
pub fn validate_starts(plans: &[Plan]) -> Result<(), PlanFault> {
    let after = |plan: usize| match &plans[plan].start {
        Start::After(others) => &others[..],
        Start::Now | Start::Slot(_) | Start::Wave(_) => &[],
    };
    let mut waits_for = vec![0usize; plans.len()];
    let mut followers = vec![Vec::new(); plans.len()];
    for (plan, waits) in waits_for.iter_mut().enumerate() {
        *waits = after(plan).len();
        for &other in after(plan) {
            let plan_count = plans.len();
            let known = followers.get_mut(other);
            known.ok_or(PlanFault::StartUnknown { plan, after: other, plan_count })?.push(plan);
        }
    }
    // Start whatever waits for nothing, until nothing more can start.
    let mut ready: Vec<usize> = (0..plans.len()).filter(|&plan| waits_for[plan] == 0).collect();
    while let Some(done) = ready.pop() {
        for &follower in &followers[done] {
            waits_for[follower] -= 1;
            if waits_for[follower] == 0 {
                ready.push(follower);
            }
        }
    }
    match waits_for.iter().position(|&waits| waits > 0) {
        Some(plan) => Err(PlanFault::StartCycle { plan }),
        None => Ok(()),
    }
}

fn each_lane(
    plan: &Plan,
    mut check: impl FnMut(&Lane) -> Result<(), LaneFault>,
) -> Result<(), PlanFault> {
    for (lane, content) in plan.lanes.iter().enumerate() {
        check(content).map_err(|fault| PlanFault::Lane { lane, fault })?;
    }
    Ok(())
}

fn validate_lost(plan: &Plan, facts: &StripeFacts<'_>) -> Result<(), PlanFault> {
    if plan.lost.is_empty() {
        return Err(PlanFault::NothingLost);
    }
    if let Some(pair) = plan.lost.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(PlanFault::LostOrder { first: pair[0], second: pair[1] });
    }
    let chunk_count = facts.code.chunk_count();
    for &chunk in &plan.lost {
        if usize::from(chunk.0) >= chunk_count {
            return Err(PlanFault::NoSuchChunk { chunk, chunk_count });
        }
        if facts.survives(chunk) {
            return Err(PlanFault::LostSurvives { chunk });
        }
        if facts.code.is_zero(chunk) {
            return Err(PlanFault::LostIsZero { chunk });
        }
    }
    Ok(())
}

fn validate_destinations(
    plan: &Plan,
    facts: &StripeFacts<'_>,
    node_count: usize,
) -> Result<(), PlanFault> {
    if let Some(&chunk) = plan.lost.iter().find(|chunk| !plan.destinations.contains_key(chunk)) {
        return Err(PlanFault::DestinationMissing { chunk });
    }
    let mut taken: BTreeMap<NodeId, ChunkIndex> = BTreeMap::new();
    for (&chunk, &node) in &plan.destinations {
        if !plan.lost.contains(&chunk) {
            return Err(PlanFault::DestinationOfNothing { chunk, node });
        }
        if node.index() >= node_count {
            return Err(PlanFault::NoSuchNode { node, node_count });
        }
        if let Some(held) = facts.chunk_on(node) {
            return Err(PlanFault::DestinationHoldsChunk { chunk, node, held });
        }
        if let Some(first) = taken.insert(node, chunk) {
            return Err(PlanFault::DestinationShared { node, first, second: chunk });
        }
    }
    Ok(())
}

fn validate_range(plan: &Plan, facts: &StripeFacts<'_>) -> Result<(), PlanFault> {
    let Range { from, to } = plan.range;
    let (chunk_bytes, sub_chunk_count) = (facts.chunk_bytes, facts.code.sub_chunk_count());
    if from >= to || to > chunk_bytes {
        return Err(PlanFault::BadRange { range: plan.range, chunk_bytes });
    }
    if !to.is_multiple_of(u64::from(sub_chunk_count)) {
        return Err(PlanFault::CutsSubChunks { to, sub_chunk_count });
    }
    if plan.period == Some(0) {
        return Err(PlanFault::ZeroPeriod);
    }
    let alignment = facts.code.alignment() as u64;
    let bounds = [Some(from), plan.period].into_iter().flatten();
    match bounds.into_iter().find(|at| !at.is_multiple_of(alignment)) {
        Some(at) => Err(PlanFault::Misaligned { at, alignment }),
        None => Ok(()),
    }
}

fn validate_bounds(plan: &Plan, facts: &StripeFacts<'_>, lane: &Lane) -> Result<(), LaneFault> {
    let within = tiled(plan);
    let Range { from, to } = lane.range;
    if from >= to || from < within.from || to > within.to || plan.lane_bytes(lane) == 0 {
        return Err(LaneFault::BadRange { range: lane.range, within });
    }
    let alignment = facts.code.alignment() as u64;
    let is_misaligned = |at: &u64| !at.is_multiple_of(alignment) && *at != within.to;
    if let Some(at) = [from, to].into_iter().find(is_misaligned) {
        return Err(LaneFault::Misaligned { at, alignment });
    }
    if lane.lost.is_empty() || lane.lost.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(LaneFault::LostOrder);
    }
    match lane.lost.iter().find(|chunk| !plan.lost.contains(chunk)) {
        Some(&chunk) => Err(LaneFault::LostForeign { chunk }),
        None => Ok(()),
    }
}

/// The lanes that rebuild `lost`, in order of their first byte, must follow on each other.
fn validate_tiling(plan: &Plan, lost: ChunkIndex) -> Result<(), PlanFault> {
    let lanes = plan.lanes.iter().filter(|lane| lane.lost.contains(&lost));
    let mut ranges: Vec<Range> = lanes.map(|lane| lane.range).collect();
    ranges.sort_unstable();
    let within = tiled(plan);
    let mut at = within.from;
    for Range { from, to } in ranges {
        if from > at {
            return Err(PlanFault::Gap { chunk: lost, range: Range { from: at, to: from } });
        }
        if from < at {
            return Err(PlanFault::Overlap { chunk: lost, range: Range { from, to: at.min(to) } });
        }
        at = to;
    }
    if at < within.to {
        return Err(PlanFault::Gap { chunk: lost, range: Range { from: at, to: within.to } });
    }
    Ok(())
}

/// What the lanes tile: one period where there is one, otherwise the range.
fn tiled(plan: &Plan) -> Range {
    plan.period.map_or(plan.range, |period| Range { from: 0, to: period })
}

/// One lane under examination.
struct LaneCheck<'a> {
    plan: &'a Plan,
    facts: &'a StripeFacts<'a>,
    lane: &'a Lane,
}

impl LaneCheck<'_> {
    fn run(&self, node_count: usize, contents: &mut Contents) -> Result<(), LaneFault> {
        let nodes = self.lane.edges.iter().flat_map(|edge| [edge.child, edge.parent]);
        let mut nodes = nodes.chain(self.lane.decoder);
        if let Some(node) = nodes.find(|node| node.index() >= node_count) {
            return Err(LaneFault::NoSuchNode { node, node_count });
        }
        if let Some(scheme) = self.lane.scheme {
            return self.traces(scheme, contents);
        }
        if self.lane.copies(self.facts) {
            return self.copy_arrives();
        }
        if let Some(edge) = self.lane.edges.iter().find(|edge| edge.carries == Carries::Traces) {
            let code = self.facts.code.code();
            return Err(LaneFault::NoTraces { child: edge.child, code });
        }
        match self.lane.decoder {
            None => self.sums_reach_destination()?,
            Some(decoder) => self.decoder_gathers_and_delivers(decoder, Carries::Combined)?,
        }
        let content = contents.of_lane(self.lane, self.facts)?;
        if self.lane.decoder.is_none() && !content.is_sum {
            return Err(LaneFault::NotASum { code: self.facts.code.code() });
        }
        self.lane.edges.iter().try_for_each(|edge| self.bytes(edge, &content))
    }

    /// A gather of traces: every helper of the scheme sends its own, no other node sends any.
    fn traces(&self, id: SchemeId, contents: &mut Contents) -> Result<(), LaneFault> {
        let (code, lost) = (self.facts.code, &self.lane.lost);
        let scheme = code.scheme(id.0);
        let scheme = scheme.ok_or(LaneFault::NoScheme { scheme: id, code: code.code() })?;
        if lost[..] != [scheme.lost()] {
            return Err(LaneFault::SchemeForOther { scheme: id, chunk: scheme.lost() });
        }
        let decoder = self.lane.decoder.ok_or(LaneFault::TracesWithoutDecoder)?;
        self.decoder_gathers_and_delivers(decoder, Carries::Traces)?;
        let content = contents.of_lane(self.lane, self.facts)?;
        let senders = self.lane.edges.iter().filter(|edge| edge.carries == Carries::Traces);
        let senders: Vec<NodeId> = senders.map(|edge| edge.child).collect();
        for &child in &senders {
            let chunk = self.facts.chunk_on(child);
            if !content.senders.iter().any(|helper| Some(helper.chunk) == chunk) {
                return Err(LaneFault::TracesUnwanted { child, scheme: id });
            }
        }
        let arrives = |chunk: ChunkIndex| {
            self.facts.chunk_on(decoder) == Some(chunk)
                || senders.iter().any(|node| self.facts.chunk_on(*node) == Some(chunk))
        };
        if let Some(missing) = content.senders.iter().find(|helper| !arrives(helper.chunk)) {
            return Err(LaneFault::TracesMissing { chunk: missing.chunk, scheme: id });
        }
        self.lane.edges.iter().try_for_each(|edge| self.bytes(edge, &content))
    }

    /// A copy goes straight from the chunk's holder to its destination.
    fn copy_arrives(&self) -> Result<(), LaneFault> {
        let [Edge { child, parent, bytes: found, carries }] = self.lane.edges[..] else {
            unreachable!("a copy is one edge")
        };
        let [lost] = self.lane.lost[..] else {
            return Err(LaneFault::SumOfSeveral { lost_count: self.lane.lost.len() });
        };
        let root = self.plan.destinations[&lost];
        if carries != Carries::Partial {
            return Err(LaneFault::NeedsDecoder { child, carries });
        }
        if child == root {
            return Err(LaneFault::RootSends { root, parent });
        }
        if parent != root {
            return Err(LaneFault::DeadEnd { node: parent, root });
        }
        match self.plan.lane_bytes(self.lane) {
            expected if expected == found => Ok(()),
            expected => Err(LaneFault::Bytes { child, parent, expected, found }),
        }
    }

    /// A tree of partial sums: one parent for each child, every path ends at the destination.
    fn sums_reach_destination(&self) -> Result<(), LaneFault> {
        let [lost] = self.lane.lost[..] else {
            return Err(LaneFault::SumOfSeveral { lost_count: self.lane.lost.len() });
        };
        let root = self.plan.destinations[&lost];
        let mut parents: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for &Edge { child, parent, carries, .. } in &self.lane.edges {
            if carries != Carries::Partial {
                return Err(LaneFault::NeedsDecoder { child, carries });
            }
            if child == root {
                return Err(LaneFault::RootSends { root, parent });
            }
            if let Some(first) = parents.insert(child, parent) {
                return Err(LaneFault::TwoParents { child, first, second: parent });
            }
        }
        let receivers: BTreeSet<NodeId> = parents.values().copied().collect();
        for &child in parents.keys() {
            if !receivers.contains(&child) && self.facts.chunk_on(child).is_none() {
                return Err(LaneFault::NothingToSend { node: child });
            }
            self.climb(&parents, child, root)?;
        }
        Ok(())
    }

    fn climb(
        &self,
        parents: &BTreeMap<NodeId, NodeId>,
        child: NodeId,
        root: NodeId,
    ) -> Result<(), LaneFault> {
        let mut node = child;
        for _ in 0..=parents.len() {
            node = *parents.get(&node).ok_or(LaneFault::DeadEnd { node, root })?;
            if node == root {
                return Ok(());
            }
        }
        Err(LaneFault::Cycle { node: child })
    }

    /// A gather: what helpers send goes straight to the decoder, finished bytes straight from it.
    fn decoder_gathers_and_delivers(
        &self,
        decoder: NodeId,
        gathered: Carries,
    ) -> Result<(), LaneFault> {
        let mut senders = BTreeSet::new();
        let mut served = BTreeSet::new();
        for &Edge { child, parent, carries, .. } in &self.lane.edges {
            match carries {
                Carries::Partial => return Err(LaneFault::SumIntoDecoder { child }),
                Carries::Combined | Carries::Traces => {
                    if carries != gathered {
                        return Err(LaneFault::GatheredOther { child, carries, gathered });
                    }
                    if parent != decoder || child == decoder {
                        return Err(LaneFault::CombinedDetour { child, parent, decoder });
                    }
                    if self.facts.chunk_on(child).is_none() {
                        return Err(LaneFault::NothingToSend { node: child });
                    }
                    if !senders.insert(child) {
                        return Err(LaneFault::TwoParents { child, first: parent, second: parent });
                    }
                }
                Carries::Finished => {
                    let wanted = |lost: &&ChunkIndex| self.plan.destinations[lost] == parent;
                    let is_wanted = self.lane.lost.iter().any(|lost| wanted(&lost));
                    if child != decoder || parent == decoder || !is_wanted || !served.insert(parent)
                    {
                        return Err(LaneFault::FinishedDetour { child, parent, decoder });
                    }
                }
            }
        }
        let destination = |lost: &ChunkIndex| self.plan.destinations[lost];
        let arrives = |node: NodeId| node == decoder || served.contains(&node);
        match self.lane.lost.iter().find(|lost| !arrives(destination(lost))) {
            Some(&chunk) => {
                Err(LaneFault::NotDelivered { chunk, destination: destination(&chunk) })
            }
            None => Ok(()),
        }
    }

    fn bytes(&self, edge: &Edge, content: &Content) -> Result<(), LaneFault> {
        let expected = edge_bytes(self.plan, self.lane, edge, self.facts, content);
        if edge.bytes == expected {
            return Ok(());
        }
        let Edge { child, parent, bytes: found, .. } = *edge;
        Err(LaneFault::Bytes { child, parent, expected, found })
    }
}

/// The bytes that an edge moves for all of a lane, all periods together.
fn edge_bytes(
    plan: &Plan,
    lane: &Lane,
    edge: &Edge,
    facts: &StripeFacts<'_>,
    content: &Content,
) -> u64 {
    let sent = || facts.chunk_on(edge.child).map_or(0, |chunk| content.sent(chunk));
    match edge.carries {
        Carries::Partial | Carries::Finished => plan.lane_bytes(lane),
        Carries::Combined => {
            sent() * plan.lane_bytes(lane) / u64::from(facts.code.sub_chunk_count())
        }
        Carries::Traces => plan.trace_bytes(lane, sent()),
    }
}
