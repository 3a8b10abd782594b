//! Cutting amounts to ranges, and joining helpers to trees.
//!
//! Place: `[plan]`, at the end of exact planners that first decide how much each node sends and
//! adds up. Any amounts, none above the chunk and k chunks in all, can be cut into ranges of k
//! helpers each: lay them end to end around a circle as long as the chunk (McNaughton's
//! wrap-around, 1959). And any in-degrees that add up to the number of helpers, with at least one
//! at the root, make a tree: attach helpers breadth-first, those with the most children first,
//! which also keeps the tree flat.

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Edge};

/// A range of a circle, and the arcs that cover it.
#[derive(Clone, Debug)]
pub(in crate::planner) struct CoveredRange {
    pub from: u32,
    pub to: u32,
    /// The places of the arcs, ascending.
    pub members: Vec<usize>,
}

/// Lays arcs end to end around a circle of `length`, none longer than that, and cuts it where one
/// begins or ends. Every range has as many members, or, if the arcs do not fill whole rounds, one
/// more or less.
pub(in crate::planner) fn wrap_around(arcs: &[u32], length: u32) -> Vec<CoveredRange> {
    let mut cuts = vec![0, length];
    let mut at = 0;
    let mut placed = Vec::with_capacity(arcs.len());
    for &arc in arcs {
        let end = (u64::from(at) + u64::from(arc)) % u64::from(length);
        placed.push((at, arc));
        at = end as u32;
        cuts.push(at);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let covers = |(from, arc): (u32, u32), point: u32| {
        let distance = if point >= from { point - from } else { length - from + point };
        distance < arc
    };
    let ranges = cuts.windows(2).map(|pair| {
        let members = (0..arcs.len()).filter(|&arc| covers(placed[arc], pair[0]));
        CoveredRange { from: pair[0], to: pair[1], members: members.collect() }
    });
    ranges.collect()
}

/// Joins helpers to a tree: breadth-first, those that add up most first.
pub(in crate::planner) fn tree(
    helpers: &[(ChunkIndex, NodeId)],
    sums: &[u32],
    root: NodeId,
    bytes: u64,
) -> Vec<Edge> {
    let mut order: Vec<usize> = (0..helpers.len()).collect();
    order.sort_by_key(|&helper| std::cmp::Reverse(sums[helper]));
    let at_root = helpers.len() as u32 - sums.iter().sum::<u32>();
    // Parents in the order in which they take children, with the places that they have left.
    let mut parents = vec![(root, at_root)];
    let mut next = 0;
    let mut edges = Vec::with_capacity(helpers.len());
    for helper in order {
        while parents[next].1 == 0 {
            next += 1;
        }
        parents[next].1 -= 1;
        let child = helpers[helper].1;
        edges.push(Edge { child, parent: parents[next].0, bytes, carries: Carries::Partial });
        parents.push((child, sums[helper]));
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn arcs_around_a_circle_cover_each_point_equally_often() {
        let mut random = Random::new(1);
        for _ in 0..500 {
            let length = random.between(1, 30) as u32;
            let mut arcs: Vec<u32> = (0..random.between(1, 9))
                .map(|_| random.between(0, length.into()) as u32)
                .collect();
            let total: u32 = arcs.iter().sum();
            arcs.push(total.next_multiple_of(length) - total);
            let rounds = arcs.iter().sum::<u32>() / length;
            let ranges = wrap_around(&arcs, length);
            assert!(ranges.iter().all(|range| range.members.len() as u32 == rounds));
            for (arc, units) in arcs.iter().enumerate() {
                let held = ranges.iter().filter(|range| range.members.contains(&arc));
                assert_eq!(held.map(|range| range.to - range.from).sum::<u32>(), *units);
            }
        }
    }

    #[test]
    fn any_sums_make_a_tree() {
        let mut random = Random::new(2);
        for _ in 0..500 {
            let helper_count = random.between(1, 12) as u32;
            let mut sums = vec![0; helper_count as usize];
            for _ in 0..random.below(u64::from(helper_count)) {
                sums[random.index(helper_count as usize)] += 1;
            }
            let helpers: Vec<(ChunkIndex, NodeId)> =
                (0..helper_count).map(|at| (ChunkIndex(at as u8), NodeId(at))).collect();
            let root = NodeId(99);
            let edges = tree(&helpers, &sums, root, 1);
            assert_eq!(edges.len(), sums.len());
            for edge in &edges {
                let mut node = edge.child;
                let parent = |node| edges.iter().find(|e| e.child == node).map(|e| e.parent);
                let steps = (0..=helper_count).take_while(|_| {
                    parent(node).is_some_and(|up| {
                        node = up;
                        true
                    })
                });
                assert!(steps.count() <= helper_count as usize && node == root);
            }
            for (helper, sum) in sums.iter().enumerate() {
                let children = edges.iter().filter(|edge| edge.parent == NodeId(helper as u32));
                assert_eq!(children.count() as u32, *sum);
            }
        }
    }
}
