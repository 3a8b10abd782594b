//! Which node makes repairs late, and how to go on without it.
//!
//! Place: ... slices flow -> [what running repairs do differently] -> ...
//! All edges of a streamed tree advance together, so a late repair does not say which of its nodes
//! is slow; but a slow node makes all of its repairs late. The one of whose repairs the largest
//! share is late is taken for the straggler.

use std::collections::BTreeMap;

use super::{ActiveRepair, PlannedRepair};
use crate::id::NodeId;
use crate::plan::Plan;
use crate::plan::detour::Detour;

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

/// ChameleonEC's re-tuning: what the straggler would have received, to sum or decode it, goes to a
/// destination instead. Only where it receives anything, and something is left.
pub(super) fn relieve(active: &ActiveRepair, straggler: NodeId) -> Option<Plan> {
    detour(active, &[])?.relieving(straggler)
}

/// The rest of a repair without the straggler: with chunks of these `helpers` in the place of its
/// own, the first that will do first.
pub(super) fn leave(active: &ActiveRepair, straggler: NodeId, helpers: &[NodeId]) -> Option<Plan> {
    detour(active, helpers)?.around(&[straggler])
}

/// Who holds a chunk of the stripe and was no reason for an earlier attempt to fail.
pub(super) fn helpers(active: &ActiveRepair) -> Vec<NodeId> {
    let job = &active.work.job;
    let holders = job.survivors.iter().map(|(_, node)| *node);
    holders.filter(|node| !job.avoid.contains(node)).collect()
}

fn detour<'a>(active: &'a ActiveRepair, helpers: &'a [NodeId]) -> Option<Detour<'a>> {
    let PlannedRepair { job, plan, .. } = &*active.work;
    let detour = Detour { plan, facts: job.facts(), helpers };
    (active.part_left() > 0.0).then_some(detour)
}
