//! ChameleonEC as its published code dispatches, which is not what its text says.
//!
//! Place: `[plan]`, a balance of a published planner, which also decides which node receives how
//! often. For comparison only: figures that were measured with the published code come from this
//! rule. Source: github.com/shenzr/ChameleonEC, `LinesBuildGraph.cc`, `buildFlexibleGraph`, without
//! the end of a phase. What differs from the text (`chameleon`):
//!
//! * Survivors are listed with what their uplinks would need, and only the first k of the list are
//!   sorted. Those that do not relay are taken from the front: in effect always the same k chunks.
//! * A first download costs a survivor its downlink time and a fifth of its uplink time, instead of
//!   the longer of the two.
//! * What the next download would cost a node that got one is looked up under the node's place in
//!   the list instead of its number: as a rule the links of quite another node.
//!
//! Of equal costs the later in the list wins, as in its priority queue. Where places in the list go
//! beyond the cluster there is nothing to look up, and we take the node itself.

use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::balance::tally::Tally;
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::{Choice, Joiner, Route};

/// What the code calls alpha: how much an upload counts beside a download.
const UPLOAD_WEIGHT: f64 = 0.2;

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    view: &View<'_>,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut tally = Tally::new(view);
    let usual_bytes = requests.first().map_or(0, |request| request.job.chunk_bytes);
    let key = |tally: &Tally, node| tally.down(node).seconds_with(usual_bytes);
    let mut ranked = Destinations::new(view, |node| key(&tally, node));
    let route = |request: &RouteRequest<'_>| {
        let destinations = ranked.choose(request);
        let sources = list(request, &tally);
        let choice = match request.topology {
            Topology::Gather => Choice::Offered(sources),
            _ => dispatch(request, &sources, destinations[0], &tally),
        };
        let route = joiner.join(request, choice, destinations);
        route.each_load(request, |node, load: NodeLoad| {
            tally.add(node, &load);
            ranked.set(node, key(&tally, node));
        });
        route
    };
    requests.iter().map(route).collect()
}

/// The survivors, the first k of them by their uplinks.
fn list(request: &RouteRequest<'_>, tally: &Tally) -> Vec<Holder> {
    let mut sources = request.candidates.to_vec();
    if !request.takes_any() {
        sources = request.choose_helpers(sources);
    }
    let seconds = |(_, node): &Holder| tally.up(*node).seconds_with(request.job.chunk_bytes);
    let helper_count = request.helper_count(&sources);
    sources[..helper_count].sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    sources
}

fn dispatch(
    request: &RouteRequest<'_>,
    sources: &[Holder],
    destination: NodeId,
    tally: &Tally,
) -> Choice {
    let chunk_bytes = request.job.chunk_bytes;
    let node = |at: usize| sources.get(at).map_or(destination, |(_, node)| *node);
    let up = |node: NodeId| tally.up(node).seconds_with(chunk_bytes);
    let down =
        |node: NodeId, count: u32| tally.down(node).seconds_with(u64::from(count) * chunk_bytes);
    let mut receives = vec![0; sources.len()];
    receives.push(1);
    let first = |at: usize| UPLOAD_WEIGHT * up(node(at)) + down(node(at), 1);
    let mut costs: Vec<f64> = (0..sources.len()).map(first).collect();
    costs.push(down(destination, 2));
    for _ in 1..request.helper_count(sources) {
        let cheapest = (0..costs.len()).rev().min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        let cheapest = cheapest.expect("the destination is always there");
        receives[cheapest] += 1;
        let mistaken = NodeId(cheapest as u32);
        let looked_up = if cheapest < tally.node_count() { mistaken } else { node(cheapest) };
        costs[cheapest] = down(looked_up, receives[cheapest] + 1);
    }
    receives.pop();
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&at| receives[at] == 0);
    order.truncate(request.helper_count(sources));
    Choice::Tuned {
        helpers: order.iter().map(|&at| sources[at]).collect(),
        receives: order.iter().map(|&at| receives[at]).collect(),
    }
}
