//! LRU balance: those that took part longest ago help next, and likewise for destinations.
//!
//! Place: `[plan]`, a balance of a published planner, which takes helpers in an order. A node's
//! turn is remembered, not what it had to do in it; so turns are spread evenly, and loads only as
//! far as turns are alike and links are equal. Source: R. Li, X. Li, P. P. C. Lee, Q. Huang,
//! "Repair Pipelining for Erasure-Coded Storage", USENIX ATC'17, full-node recovery: of a stripe's
//! survivors the k with the oldest timestamps help.
//!
//! Where we had to decide: the paper spreads requestors evenly and does not say how; here they take
//! turns by timestamps of their own, and having been one counts as having helped. All helpers of a
//! repair get the same timestamp, and of equals the lower node comes first. That is unfair to low
//! numbers, but what a list of timestamps does: with 16 equal nodes the busiest uplink of rs(6,3)
//! has a sixth more than it would with lots drawn.
//!
//! `lru:shared` is the LRU-based selection that RepairBoost is compared with: S. Lin, G. Gong, Z.
//! Shen, P. P. C. Lee, J. Shu, "Boosting Full-Node Repair in Erasure-Coded Storage", USENIX ATC'21,
//! section 5.1. A node has one timestamp there, of when it was last selected for whatever, and of
//! equals the lower node comes first. Destinations then are as uneven as helpers leave them.

use crate::planner::View;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::request::RouteRequest;
use crate::planner::route::{Choice, Joiner, Route};

/// By which timestamps destinations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::planner) enum Turns {
    /// Their own, in which having helped does not count.
    Apart,
    /// Those of helpers: a node has one.
    Shared,
}

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    turns: Turns,
    view: &View<'_>,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut last_turn = vec![0; view.cluster.nodes.len()];
    let mut destinations = Destinations::new(view, |_| 0.0);
    let route = |(turn, request): (usize, &RouteRequest<'_>)| {
        let chosen = destinations.choose(request);
        let mut candidates = request.candidates.to_vec();
        candidates.sort_by_key(|(_, node)| (last_turn[node.index()], *node));
        let helpers = request.choose_helpers(candidates);
        let route = joiner.join(request, Choice::Offered(helpers), chosen);
        for &node in &route.destinations {
            destinations.set(node, turn as f64);
            last_turn[node.index()] = turn;
        }
        for &(_, node) in &route.helpers {
            last_turn[node.index()] = turn;
            if turns == Turns::Shared {
                destinations.set(node, turn as f64);
            }
        }
        route
    };
    (1..).zip(requests).map(route).collect()
}
