//! Greedy balance: the least loaded nodes serve, and every choice is made again until none helps.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A node's load is the time that its busiest port would need, so slow links weigh more and what
//! already runs counts. One pass in random order leaves the last requests with the worst choices;
//! therefore requests are then taken out and put back, one by one, against the load of all the
//! others, for as long as the peak falls. Coordinate descent: no proof of optimality, but on equal
//! nodes it ends within a few per cent of the bound.
//!
//! Per request: rank the survivors (those that may have to relay by their worse port, the rest by
//! their uplink), give the places that receive most to the freest downlinks, and take the
//! destination with the least load. The cost is O(helpers + log nodes).
//!
//! It knows nothing of racks: a batch that is bound by the core needs another balance.

use crate::cluster::{DEAD_LINK, Rate};
use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::request::Helper;
use crate::planner::route::balance::destination::Destinations;
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
    let mut state = State::new(requests, view);
    let mut order: Vec<usize> = (0..requests.len()).collect();
    let mut routes: Vec<Option<Route>> = vec![None; requests.len()];
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..=SWEEPS_MAX {
        random.shuffle(&mut order);
        for &index in &order {
            let request = &requests[index];
            if let Some(route) = &routes[index] {
                state.subtract(request, route);
            }
            let route = state.choose(request, &mut random, joiner);
            state.add(request, &route);
            routes[index] = Some(route);
        }
        let peak = state.peak_seconds();
        if peak >= best.0 {
            break;
        }
        best = (peak, routes.iter().flatten().cloned().collect());
    }
    best.1
}

/// Seconds per byte of each port of a node.
#[derive(Clone, Copy, Debug)]
struct Pace {
    up: f64,
    down: f64,
    disk_read: f64,
    disk_write: f64,
}

impl Pace {
    /// What `load` takes to send, with the disk behind it.
    fn sending(&self, load: &NodeLoad, more_bytes: u64) -> f64 {
        let up = (load.up_bytes + more_bytes) as f64 * self.up;
        up.max((load.disk_read_bytes + more_bytes) as f64 * self.disk_read)
    }

    /// What `load` takes to receive.
    fn receiving(&self, load: &NodeLoad, more_bytes: u64) -> f64 {
        (load.down_bytes + more_bytes) as f64 * self.down
    }
}

/// The loads so far and the destinations ranked by them.
struct State<'a> {
    paces: Vec<Pace>,
    loads: Vec<NodeLoad>,
    destinations: Destinations<'a>,
    /// What a typical destination receives; destinations are ranked as if each request brought it.
    lump_bytes: u64,
}

impl<'a> State<'a> {
    fn new(requests: &[RouteRequest<'_>], view: &'a View<'a>) -> State<'a> {
        let lump = |request: &RouteRequest<'_>| {
            request.receives(request.usual_count)[request.usual_count] * request.job.chunk_bytes
        };
        let lump_bytes = requests.iter().map(lump).sum::<u64>() / requests.len().max(1) as u64;
        let pace = |rate: Rate| 1.0 / rate.0.max(DEAD_LINK.0);
        let nodes = view.cluster.nodes.iter();
        let paces = nodes.map(|node| Pace {
            up: pace(node.uplink_free()),
            down: pace(node.downlink_free()),
            disk_read: node.disk_read.map_or(0.0, pace),
            disk_write: node.disk_write.map_or(0.0, pace),
        });
        let mut state = State {
            paces: paces.collect(),
            loads: view.load.nodes().to_vec(),
            destinations: Destinations::new(view, |_| 0.0),
            lump_bytes,
        };
        view.cluster.ids().for_each(|node| state.rank(node));
        state
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

    fn choose_helpers(&self, request: &RouteRequest<'_>, random: &mut Random) -> Vec<Helper> {
        let bytes = request.job.chunk_bytes;
        let usual = request.receives(request.usual_count);
        let relay_count = usual[..request.usual_count].iter().filter(|count| **count > 0).count();

        let sending = |node: NodeId| self.paces[node.index()].sending(self.load(node), bytes);
        let receiving = |node: NodeId| self.paces[node.index()].receiving(self.load(node), bytes);
        let both = |node: NodeId| sending(node).max(receiving(node));
        let mut ranked = request.candidates.clone();
        random.shuffle(&mut ranked);
        if relay_count > 0 {
            sort_by_seconds(&mut ranked, both);
        }
        sort_by_seconds(&mut ranked[relay_count..], sending);
        let mut chosen = request.choose_helpers(&ranked);
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

    fn destination_key(&self, node: NodeId) -> f64 {
        let (pace, load) = (&self.paces[node.index()], &self.loads[node.index()]);
        let writing = load.disk_write_bytes as f64 * pace.disk_write;
        pace.receiving(load, self.lump_bytes).max(writing)
    }

    fn add(&mut self, request: &RouteRequest<'_>, route: &Route) {
        self.charge(request, route, |total, bytes| *total += bytes);
    }

    fn subtract(&mut self, request: &RouteRequest<'_>, route: &Route) {
        self.charge(request, route, |total, bytes| *total -= bytes);
    }

    fn charge(&mut self, request: &RouteRequest<'_>, route: &Route, apply: impl Fn(&mut u64, u64)) {
        route.each_load(request, |node, change| {
            let load = &mut self.loads[node.index()];
            apply(&mut load.up_bytes, change.up_bytes);
            apply(&mut load.down_bytes, change.down_bytes);
            apply(&mut load.disk_read_bytes, change.disk_read_bytes);
            apply(&mut load.disk_write_bytes, change.disk_write_bytes);
            self.rank(node);
        });
    }

    fn rank(&mut self, node: NodeId) {
        self.destinations.set(node, self.destination_key(node));
    }

    fn load(&self, node: NodeId) -> &NodeLoad {
        &self.loads[node.index()]
    }

    fn peak_seconds(&self) -> f64 {
        let nodes = self.paces.iter().zip(&self.loads);
        let busiest = nodes.map(|(pace, load)| {
            let writing = load.disk_write_bytes as f64 * pace.disk_write;
            pace.sending(load, 0).max(pace.receiving(load, 0)).max(writing)
        });
        busiest.fold(0.0, f64::max)
    }
}

/// The least first; of equals, in the order in which they stand.
fn sort_by_seconds(helpers: &mut [Helper], seconds: impl Fn(NodeId) -> f64) {
    helpers.sort_by(|(_, a), (_, b)| seconds(*a).total_cmp(&seconds(*b)));
}
