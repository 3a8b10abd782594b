//! Random balance: helpers and destinations drawn uniformly from those that may serve.
//!
//! Place: `[plan]`, the balance of most published planners, which takes helpers in an order. What
//! CR, PPR and RP do in their papers, and the yardstick of all balancing: over a batch some ports
//! get far more than their share by mere chance. It knows no loads and no capacities.
//!
//! The exception is where a shape has a destination of its own: PivotRepair's (`Requestors`).

use crate::id::NodeId;
use crate::planner::View;
use crate::planner::keep::DestinationRule;
use crate::planner::route::balance::requestor::Requestors;
use crate::planner::route::request::RouteRequest;
use crate::planner::route::{Choice, Joiner, Route};
use crate::policy::Shape;
use crate::random::Random;

/// How often to draw a destination before listing all that qualify: with a stripe on a small part
/// of the cluster the first draws succeed, and the list is long.
const DRAWS_MAX: usize = 64;

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    view: &View<'_>,
    seed: u64,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut random = Random::new(seed);
    let mut requestors = Requestors::new(view);
    let accepting: Vec<NodeId> = view.cluster.ids().filter(|node| view.accepts(*node)).collect();
    let route = |request: &RouteRequest<'_>| {
        let mut candidates = request.candidates.to_vec();
        random.shuffle(&mut candidates);
        let destinations = match request.shape {
            Shape::Pivot => requestors.choose(request),
            _ => destinations(&mut random, request, &accepting, view),
        };
        joiner.join(request, Choice::Offered(candidates), destinations)
    };
    requests.iter().map(route).collect()
}

fn destinations(
    random: &mut Random,
    request: &RouteRequest<'_>,
    accepting: &[NodeId],
    view: &View<'_>,
) -> Vec<NodeId> {
    let (job, wanted) = (request.job, request.lost.len());
    let rule = DestinationRule::new(job, wanted, view);
    let mut chosen: Vec<NodeId> = Vec::with_capacity(wanted);
    for _ in 0..DRAWS_MAX {
        if chosen.len() == wanted {
            break;
        }
        let node = *random.choose(accepting);
        if !chosen.contains(&node) && rule.allows(node, job, view) {
            chosen.push(node);
        }
    }
    if chosen.len() < wanted {
        let qualifies = |node: &&NodeId| !chosen.contains(node) && rule.allows(**node, job, view);
        let mut rest: Vec<NodeId> = accepting.iter().filter(qualifies).copied().collect();
        random.shuffle(&mut rest);
        chosen.extend(rest.into_iter().take(wanted - chosen.len()));
    }
    chosen
}
