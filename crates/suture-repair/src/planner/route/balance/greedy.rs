//! Greedy balance: the least loaded nodes serve, and every choice is made again until none helps.
//!
//! Place: `[plan]`, a balance for published shapes, which fills the places of known trees. A node's
//! load is the time that its busiest port would need, so slow links weigh more and what already
//! runs counts. One pass in random order leaves the last requests with the worst choices; therefore
//! requests are then taken out and put back, one by one, against the load of all the others, for as
//! long as the peak falls. Coordinate descent: no proof of optimality, but on equal nodes it ends
//! within a few per cent of the bound.
//!
//! Per request: rank the survivors (those that may have to relay by their worse port, the rest by
//! their uplink), give the places that receive most to the freest downlinks, and take the
//! destination with the least load. The cost is O(helpers + log nodes).
//!
//! It knows nothing of racks: a batch that is bound by the core needs another balance.

use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::balance::tally::Tally;
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::{Choice, Joiner, Route};
use crate::random::Random;

/// The most times that every choice is made again. On equal nodes three sweeps are usual; very
/// unequal ones keep improving by fractions of a per cent.
const SWEEPS_MAX: usize = 8;

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    view: &View<'_>,
    seed: u64,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut random = Random::new(seed);
    let mut loads = Loads::new(requests, view);
    let mut order: Vec<usize> = (0..requests.len()).collect();
    let mut routes: Vec<Option<Route>> = vec![None; requests.len()];
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..=SWEEPS_MAX {
        random.shuffle(&mut order);
        for &index in &order {
            let request = &requests[index];
            if let Some(route) = &routes[index] {
                loads.subtract(request, route);
            }
            let route = loads.choose(request, &mut random, joiner);
            loads.add(request, &route);
            routes[index] = Some(route);
        }
        let peak = loads.tally.peak_seconds();
        if peak >= best.0 {
            break;
        }
        best = (peak, routes.iter().flatten().cloned().collect());
    }
    best.1
}

/// The loads so far and the destinations ranked by them.
struct Loads<'a> {
    tally: Tally,
    destinations: Destinations<'a>,
    /// What a typical destination receives; destinations are ranked as if each request brought it.
    lump_bytes: u64,
}

impl<'a> Loads<'a> {
    fn new(requests: &[RouteRequest<'_>], view: &'a View<'a>) -> Loads<'a> {
        let lump = |request: &RouteRequest<'_>| {
            request.receives(request.usual_count)[request.usual_count] * request.job.chunk_bytes
        };
        let lump_bytes = requests.iter().map(lump).sum::<u64>() / requests.len().max(1) as u64;
        let tally = Tally::new(view);
        let destinations =
            Destinations::new(view, |node| destination_seconds(&tally, node, lump_bytes));
        Loads { tally, destinations, lump_bytes }
    }

    fn choose(
        &mut self,
        request: &RouteRequest<'_>,
        random: &mut Random,
        joiner: &mut Joiner<'_>,
    ) -> Route {
        let destinations = self.destinations.choose(request);
        let helpers = self.choose_helpers(request, random);
        let choice = match request.topology {
            Topology::Tree(_) | Topology::Gather => Choice::Placed(helpers),
            Topology::Grown | Topology::Tuned => Choice::Offered(helpers),
        };
        joiner.join(request, choice, destinations)
    }

    fn choose_helpers(&self, request: &RouteRequest<'_>, random: &mut Random) -> Vec<Holder> {
        let bytes = request.job.chunk_bytes;
        let usual = request.receives(request.usual_count);
        let relay_count = usual[..request.usual_count].iter().filter(|count| **count > 0).count();

        let tally = &self.tally;
        let sending = |node: NodeId| {
            tally.up(node).seconds_with(bytes).max(tally.read(node).seconds_with(bytes))
        };
        let receiving = |node: NodeId| tally.down(node).seconds_with(bytes);
        let both = |node: NodeId| sending(node).max(receiving(node));
        let mut ranked = request.candidates.to_vec();
        random.shuffle(&mut ranked);
        if relay_count > 0 {
            sort_by_seconds(&mut ranked, both);
        }
        sort_by_seconds(&mut ranked[relay_count..], sending);
        let mut chosen = request.choose_helpers(ranked);
        if relay_count > 0 {
            sort_by_seconds(&mut chosen, receiving);
        }

        let receives = request.receives(chosen.len());
        let mut places: Vec<usize> = (0..chosen.len()).collect();
        places.sort_by_key(|&place| std::cmp::Reverse(receives[place]));
        let mut helpers = chosen.clone();
        for (place, helper) in places.into_iter().zip(chosen) {
            helpers[place] = helper;
        }
        helpers
    }

    fn add(&mut self, request: &RouteRequest<'_>, route: &Route) {
        self.charge(request, route, Tally::add);
    }

    fn subtract(&mut self, request: &RouteRequest<'_>, route: &Route) {
        self.charge(request, route, Tally::subtract);
    }

    fn charge(
        &mut self,
        request: &RouteRequest<'_>,
        route: &Route,
        apply: fn(&mut Tally, NodeId, &NodeLoad),
    ) {
        route.each_load(request, |node, load| {
            apply(&mut self.tally, node, &load);
            self.destinations.set(node, destination_seconds(&self.tally, node, self.lump_bytes));
        });
    }
}

/// When a destination would be done that receives so much more.
fn destination_seconds(tally: &Tally, node: NodeId, more_bytes: u64) -> f64 {
    tally.down(node).seconds_with(more_bytes).max(tally.write(node).seconds_with(0))
}

/// The least first; of equals, in the order in which they stand.
fn sort_by_seconds(helpers: &mut [Holder], seconds: impl Fn(NodeId) -> f64) {
    helpers.sort_by(|(_, a), (_, b)| seconds(*a).total_cmp(&seconds(*b)));
}
