//! Rack: sums within racks, then one chunk from each rack to the destination. CAR.
//!
//! Place: `[plan]`, a shape of a published planner: a tree that is grown from racks. Links between
//! racks are scarcer than links within them. However many of its chunks help, a rack sends one sum
//! to the others; so what matters is how few racks help. Source: Z. Shen, P. P. C. Lee, J. Shu, W.
//! Guo, "Cross-Rack-Aware Single Failure Recovery for Clustered File Systems", TDSC: section 4.1
//! (Theorem 1) and section 4.2 (Algorithm 1, partial decoding).
//!
//! Theorem 1: with the racks in falling order of their surviving chunks, the first d that reach k
//! together with the destination's own rack are the fewest that do.
//!
//! Where we had to decide: which node of a rack forms the sum is left open; we take the one that
//! can do it fastest, and of equals the one that the balance likes best. As in the paper's figure 5
//! the destination's rack forms a sum too. Where the code chooses its helpers (LRC), it is asked
//! with the destination's rack first and then those with the most chunks; the fewest racks that
//! this gives are few, but not proven to be the fewest.

use crate::id::{NodeId, RackId};
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::request::RouteRequest;

/// The offered helpers with the destination's rack first, then rack by rack, those with the most of
/// them first; within a rack, and of equal racks, in the order in which they are offered.
pub(in crate::planner) fn by_rack(
    offered: &[Holder],
    destination_rack: Option<RackId>,
    view: &View<'_>,
) -> Vec<Holder> {
    let mut racks: Vec<(Option<RackId>, Vec<Holder>)> = Vec::new();
    for &helper in offered {
        let rack = view.cluster.node(helper.1).rack;
        match racks.iter_mut().find(|(known, _)| *known == rack) {
            Some((_, helpers)) => helpers.push(helper),
            None => racks.push((rack, vec![helper])),
        }
    }
    racks.sort_by_key(|(rack, helpers)| {
        (*rack != destination_rack, std::cmp::Reverse(helpers.len()))
    });
    racks.into_iter().flat_map(|(_, helpers)| helpers).collect()
}

/// The tree for a request: which of the offered help, by place, and the parent of each.
pub(in crate::planner) fn join(
    request: &RouteRequest<'_>,
    offered: &[Holder],
    destination: NodeId,
    view: &View<'_>,
) -> (Vec<Holder>, Vec<usize>) {
    let rack = |node: NodeId| view.cluster.node(node).rack;
    // Racks in this order, each but the last with all that it has: Theorem 1.
    let helpers = request.choose_helpers(by_rack(offered, rack(destination), view));
    let mut parents = vec![helpers.len(); helpers.len()];
    let mut from = 0;
    for mates in helpers.chunk_by(|a, b| rack(a.1) == rack(b.1)) {
        let places = from..from + mates.len();
        let children = (mates.len() - 1).max(1) as f64;
        let rate = |place: &usize| {
            let node = helpers[*place].1;
            view.up(node).min(view.down(node) / children)
        };
        let faster =
            |best: usize, place: usize| if rate(&place) > rate(&best) { place } else { best };
        let sums = places.clone().reduce(faster).expect("a rack of helpers has helpers");
        places.filter(|&place| place != sums).for_each(|place| parents[place] = sums);
        from += mates.len();
    }
    (helpers, parents)
}
