//! Which node makes repairs late, and how to go on without it.
//!
//! Place: ... slices flow -> [what running repairs do differently] -> ...
//! All edges of a streamed tree advance together, so a late repair does not say which of its nodes
//! is slow; but a slow node makes all of its repairs late. The one of whose repairs the largest
//! share is late is taken for the straggler.

use std::collections::BTreeMap;

use super::ActiveRepair;
use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range};

/// The straggler among the nodes of `late`: of all repairs (late and not) in which it takes part
/// the largest share is late; of equals the one with the most, then the lowest.
pub(super) fn find_straggler<'a>(
    late: impl Iterator<Item = &'a ActiveRepair>,
    all: impl Iterator<Item = &'a ActiveRepair>,
) -> Option<NodeId> {
    let mut parts: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
    for (node, _) in late.flat_map(|repair| &repair.work.link_loads) {
        parts.entry(*node).or_default().0 += 1;
    }
    if parts.is_empty() {
        return None;
    }
    for (node, _) in all.flat_map(|repair| &repair.work.link_loads) {
        if let Some(part) = parts.get_mut(node) {
            part.1 += 1;
        }
    }
    let share = |(late, all): (u32, u32)| f64::from(late) / f64::from(all.max(1));
    let worst = parts.into_iter().max_by(|(a, x), (b, y)| {
        share(*x).total_cmp(&share(*y)).then(x.0.cmp(&y.0)).then(b.cmp(a))
    });
    worst.map(|(node, _)| node)
}

/// The one streamed lane of sums of a plan that can go on in the middle of its chunk.
fn only_lane(plan: &Plan) -> Option<&Lane> {
    let [lane] = &plan.lanes[..] else { return None };
    let sums = lane.edges.iter().all(|edge| edge.carries == Carries::Partial);
    let is_simple = sums && lane.mode == Mode::Streamed && plan.period.is_none();
    is_simple.then_some(lane)
}

/// What a running repair has left, as a plan like the one that runs; `None` where the rest cannot
/// be planned by itself: several lanes, sub-chunks, or nothing left.
fn rest(active: &ActiveRepair) -> Option<Plan> {
    let plan = &active.work.plan;
    let lane = only_lane(plan)?;
    if active.work.job.code.sub_chunk_count() > 1 {
        return None;
    }
    let slice = u64::from(active.slice_bytes.max(1));
    let come = active.bytes_done / slice * slice;
    let range = Range { from: plan.range.from + come, to: plan.range.to };
    if range.bytes() == 0 {
        return None;
    }
    let edge = |edge: &Edge| Edge { bytes: range.bytes(), ..edge.clone() };
    let lane = Lane { range, edges: lane.edges.iter().map(edge).collect(), ..lane.clone() };
    Some(Plan { range, lanes: vec![lane], ..plan.clone() })
}

/// ChameleonEC's re-tuning: what the straggler would have received and summed goes to the
/// destination instead. Only where it receives anything.
pub(super) fn relieve(active: &ActiveRepair, straggler: NodeId) -> Option<Plan> {
    let mut plan = rest(active)?;
    let destination = *plan.destinations.values().next()?;
    let edges = &mut plan.lanes[0].edges;
    if straggler == destination || edges.iter().all(|edge| edge.parent != straggler) {
        return None;
    }
    for edge in edges.iter_mut().filter(|edge| edge.parent == straggler) {
        edge.parent = destination;
    }
    Some(plan)
}

/// The rest with `spare`, who holds a chunk that was not needed so far, in the straggler's place;
/// what the straggler received goes to its own parent, so that the spare one only sends.
pub(super) fn replace(active: &ActiveRepair, straggler: NodeId, spare: NodeId) -> Option<Plan> {
    let mut plan = rest(active)?;
    let edges = &mut plan.lanes[0].edges;
    let parent = edges.iter().find(|edge| edge.child == straggler)?.parent;
    for edge in edges.iter_mut() {
        if edge.child == straggler {
            edge.child = spare;
        } else if edge.parent == straggler {
            edge.parent = parent;
        }
    }
    Some(plan)
}

/// Who holds a chunk of the stripe that the plan does without and that can stand in for any other.
pub(super) fn spares(active: &ActiveRepair) -> Vec<NodeId> {
    let ActiveRepair { work, .. } = active;
    let participants = work.plan.participants();
    let survivors = work.job.survivors.iter();
    let free = survivors.filter(|(_, node)| !participants.contains(node));
    let free = free.filter(|(_, node)| !work.job.avoid.contains(node));
    free.map(|(_, node)| *node).collect()
}

/// Whether the code repairs the plan's chunk without `without` and with `with` instead.
pub(super) fn can_swap(active: &ActiveRepair, without: NodeId, with: NodeId) -> bool {
    let ActiveRepair { work, .. } = active;
    let Some(lane) = only_lane(&work.plan) else { return false };
    let job = &work.job;
    let chunk_on = |node: NodeId| job.survivors.iter().find(|(_, n)| *n == node).map(|(c, _)| *c);
    let mut helpers: Vec<ChunkIndex> = lane.helpers(&job.facts());
    let (Some(old), Some(new)) = (chunk_on(without), chunk_on(with)) else { return false };
    helpers.retain(|chunk| *chunk != old);
    helpers.push(new);
    job.code.repair_dag(&work.plan.lost, &helpers).is_ok()
}
