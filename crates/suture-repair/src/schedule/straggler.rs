//! Which node makes repairs late, and how to go on without it.
//!
//! Place: ... slices flow -> [what running repairs do differently] -> ...
//! All edges of a streamed tree advance together, so a late repair does not show which of its nodes
//! is slow; but a slow node makes all of its repairs late. The one of whose repairs the largest
//! share is late is taken for the straggler. Where that shows nothing, as of a repair that runs
//! alone, what participants report does: all that send to the same node may be ahead of the slowest
//! of them by the slices that are under way, and so may all that send to a slow one.

use std::collections::{BTreeMap, BTreeSet};

use super::{ActiveRepair, PlannedRepair};
use crate::id::NodeId;
use crate::plan::detour::{Detour, StandIn};
use crate::plan::{Lane, Plan};

/// Senders whose parts differ by less are as far as each other: two of the slices of a lane.
const AS_FAR: f64 = 1.0 / 32.0;

/// In how many repairs a node takes part.
#[derive(Clone, Copy, Debug, Default)]
struct Participation {
    late: u32,
    all: u32,
    /// Late ones in which it is furthest behind.
    behind: u32,
}

impl Participation {
    fn share_late(self) -> f64 {
        f64::from(self.late) / f64::from(self.all.max(1))
    }
}

/// The straggler among the nodes of `late`: of all repairs (late and not) in which it takes part
/// the largest share is late; of equals the one with the most, then the one that is furthest behind
/// in the most, then the lowest.
pub(super) fn find_straggler<'a>(
    late: impl Iterator<Item = &'a ActiveRepair>,
    all: impl Iterator<Item = &'a ActiveRepair>,
) -> Option<NodeId> {
    let mut parts: BTreeMap<NodeId, Participation> = BTreeMap::new();
    for repair in late {
        for (node, _) in &repair.planned.link_loads {
            parts.entry(*node).or_default().late += 1;
        }
        if let Some(node) = furthest_behind(repair) {
            parts.entry(node).or_default().behind += 1;
        }
    }
    if parts.is_empty() {
        return None;
    }
    for (node, _) in all.flat_map(|repair| &repair.planned.link_loads) {
        if let Some(part) = parts.get_mut(node) {
            part.all += 1;
        }
    }
    let worst = parts.into_iter().max_by(|(a, x), (b, y)| {
        let (late, behind) = (x.late.cmp(&y.late), x.behind.cmp(&y.behind));
        x.share_late().total_cmp(&y.share_late()).then(late).then(behind).then(b.cmp(a))
    });
    worst.map(|(node, _)| node)
}

/// The sender that has done the least of its part, as last reported by all: of several that are as
/// far, the one with the longest way to the end, since the others wait for it.
pub(crate) fn furthest_behind(repair: &ActiveRepair) -> Option<NodeId> {
    let plan = &repair.planned.plan;
    let keeps = |node: &NodeId| plan.destinations.values().any(|to| to == node);
    let edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
    let senders: BTreeSet<NodeId> =
        edges.map(|edge| edge.child).filter(|node| !keeps(node)).collect();
    let part = |node: NodeId| {
        let lanes = plan.lanes.iter().filter(|lane| lane.parent(node).is_some());
        let bytes: u64 = lanes.map(|lane| plan.lane_bytes(lane)).sum();
        let done = repair.reported.get(&node)?.saturating_sub(plan.range.from);
        Some((node, done as f64 / bytes.max(1) as f64))
    };
    let parts = senders.into_iter().map(part).collect::<Option<Vec<(NodeId, f64)>>>()?;
    let least = parts.iter().map(|(_, part)| *part).fold(f64::INFINITY, f64::min);
    let hops = |node: NodeId| plan.lanes.iter().map(|lane| hops(lane, node)).max();
    let behind = parts.into_iter().filter(|(_, part)| *part <= least + AS_FAR);
    behind.map(|(node, _)| node).max_by(|a, b| hops(*a).cmp(&hops(*b)).then(b.cmp(a)))
}

/// How many edges lie between a node and the end of its lane.
fn hops(lane: &Lane, from: NodeId) -> usize {
    let path = std::iter::successors(Some(from), |node| lane.parent(*node));
    path.take(lane.edges.len() + 1).count() - 1
}

/// ChameleonEC's re-tuning: what the straggler would have received, to sum or decode it, goes to a
/// destination instead. Only where it receives anything, and something is left.
pub(super) fn relieve(active: &ActiveRepair, straggler: NodeId) -> Option<Plan> {
    detour(active, &[])?.relieving(straggler)
}

/// The rest of a repair without the straggler: with chunks of these `helpers` in the place of its
/// own, the first that will do first, which do what `stand_in` says.
pub(super) fn leave(
    active: &ActiveRepair,
    straggler: NodeId,
    helpers: &[NodeId],
    stand_in: StandIn,
) -> Option<PlannedRepair> {
    let plan = detour(active, helpers)?.around(&[straggler], stand_in)?;
    Some(PlannedRepair::new(active.planned.job.clone(), plan))
}

/// The nodes that hold a chunk of the stripe and were no reason for an earlier attempt to fail.
pub(super) fn helpers(active: &ActiveRepair) -> Vec<NodeId> {
    let job = &active.planned.job;
    let holders = job.survivors.iter().map(|(_, node)| *node);
    holders.filter(|node| !job.avoid.contains(node)).collect()
}

fn detour<'a>(active: &'a ActiveRepair, helpers: &'a [NodeId]) -> Option<Detour<'a>> {
    let PlannedRepair { job, plan, .. } = &*active.planned;
    let detour = Detour { plan, facts: job.facts(), helpers };
    (active.fraction_left() > 0.0).then_some(detour)
}
