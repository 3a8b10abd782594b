//! Chain: each helper adds its part to what the one before it sent. Repair pipelining, RP, ECPipe.
//!
//! Place: `[plan]`, a shape of a published planner: a tree of numbers, on the best path of links.
//! No link carries more than one chunk, so streamed in slices a chunk takes little longer than one
//! transfer: (slices + hops - 1) slice times. The slowest link on the path sets the rate, and the
//! tree is as deep as it can be. Source: R. Li, X. Li, P. P. C. Lee, Q. Huang, "Repair Pipelining
//! for Erasure-Coded Storage", USENIX ATC'17, section 3.2; and its weighted path selection for
//! unequal links: of all paths of k survivors to the requestor, one whose slowest link is fastest.
//!
//! Where we had to decide: the paper weighs pairs of nodes and searches; here a link is as fast as
//! the slower of the sender's uplink and the receiver's downlink, and then the best path is known:
//! all of its nodes but the first receive, so these are the k - 1 with the largest min(up, down),
//! and the first is, of the others, the one with the largest uplink. On equal links that is the
//! order in which the balance offers the survivors, so there `rp` is a random chain. A balance that
//! has chosen k itself, as LRU and CAR do, leaves only their order to the path; one that fills
//! places (RepairBoost, greedy) leaves nothing.

use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::request::RouteRequest;

/// The parent of a place of `helper_count` helpers: the next, and `helper_count` is the
/// destination.
pub(in crate::planner) fn parent(place: usize, _helper_count: usize) -> usize {
    place + 1
}

/// The helpers along the best path, the one that only sends first.
pub(in crate::planner) fn best_path(
    request: &RouteRequest<'_>,
    offered: Vec<Holder>,
    view: &View<'_>,
) -> Vec<Holder> {
    let relaying = |(_, node): &Holder| view.up(*node).min(view.down(*node));
    let sending = |(_, node): &Holder| view.up(*node);
    // Backwards, so that of equals those offered first come first on the path.
    let mut ranked = offered;
    ranked.reverse();
    ranked.sort_by(|a, b| relaying(b).total_cmp(&relaying(a)));
    if !request.takes_any() {
        ranked = request.choose_helpers(ranked);
    }
    let (relays, others) = ranked.split_at(request.helper_count(&ranked) - 1);
    let first = others.iter().max_by(|a, b| sending(a).total_cmp(&sending(b)));
    first.into_iter().chain(relays.iter().rev()).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Rate};
    use crate::id::{ChunkIndex, NodeId, StripeId};
    use crate::plan::load::Load;
    use crate::planner::{Abilities, Job};
    use crate::policy::Shape;
    use crate::random::Random;

    /// The rate of the slowest link of a path into a node that receives without limit.
    fn rate(path: &[Holder], view: &View<'_>) -> f64 {
        let relays = path[1..].iter().map(|(_, node)| view.up(*node).min(view.down(*node)));
        relays.fold(view.up(path[0].1), f64::min)
    }

    /// The best rate of any path through `count` of the helpers, by trying them all.
    fn best_rate(helpers: &[Holder], path: &mut Vec<Holder>, count: usize, view: &View<'_>) -> f64 {
        if path.len() == count {
            return rate(path, view);
        }
        let mut best = 0.0;
        for &helper in helpers {
            if !path.contains(&helper) {
                path.push(helper);
                best = f64::max(best, best_rate(helpers, path, count, view));
                path.pop();
            }
        }
        best
    }

    #[test]
    fn no_path_is_faster() {
        let mut random = Random::new(2);
        for _ in 0..200 {
            let mut cluster = Cluster::uniform(7, Rate(1.0));
            for node in &mut cluster.nodes {
                node.uplink = Rate(random.between(1, 9) as f64);
                node.downlink = Rate(random.between(1, 9) as f64);
            }
            let load = Load::new(&cluster);
            let abilities = Abilities::ALL;
            let view =
                View { cluster: &cluster, free_bytes: &[u64::MAX; 7], load: &load, abilities };
            let job = Job {
                stripe: StripeId(0),
                code: "rs(3,3)".parse::<suture_code::Code>().unwrap().into(),
                chunk_bytes: 1,
                lost: vec![ChunkIndex(0)],
                survivors: (1..6).map(|at| (ChunkIndex(at), NodeId(at.into()))).collect(),
                idle: Vec::new(),
                excluded: Vec::new(),
                keeper_places: Vec::new(),
                avoid: Vec::new(),
                source: None,
            };
            let request = Shape::Chain.request(&job, &view).unwrap();
            let path = best_path(&request, job.survivors.clone(), &view);
            assert_eq!(path.len(), 3);
            assert_eq!(rate(&path, &view), best_rate(&job.survivors, &mut Vec::new(), 3, &view));
        }
    }
}
