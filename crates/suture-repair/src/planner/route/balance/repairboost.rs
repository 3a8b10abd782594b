//! RepairBoost balance: the vertices of all repair graphs are mapped to nodes, most demanding
//! first.
//!
//! Place: `[plan]`, a balance of a published planner, which fills the places of known trees. The
//! shape gives each lost chunk a graph (RDAG): k vertices that hold chunks and one that keeps the
//! rebuilt one. First all vertices that receive and send, of all graphs together, by falling
//! downloads, each to the least downloading node of its stripe that has no vertex of this graph
//! yet; then the roots, each to the least downloading node outside of its stripe; then the leaves,
//! each to the least uploading node that is left. Source: S. Lin, G. Gong, Z. Shen, P. P. C. Lee,
//! J. Shu, "Boosting Full-Node Repair in Erasure-Coded Storage", USENIX ATC'21, section 3.2 with
//! Algorithm 1; section 3.4 for unequal links, where what counts is the time that a node's link
//! needs for its bytes. The transmission schedule of section 3.3 is a schedule, not a plan.
//!
//! Where we had to decide: times are those after the vertex was mapped, which on equal links is the
//! same as before; of equal nodes the one that uploads least takes the vertex, as in the published
//! code. With unequal up- and downlinks a relay can land on a node with a slow uplink: the paper
//! looks at downloads only, and so do we. Codes that choose their own helpers are asked when the
//! graph is made, with the least uploading nodes first. A gather is a graph of leaves and a root.

use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::balance::tally::Tally;
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::{Choice, Joiner, Route};

/// A graph that is being mapped.
struct Graph {
    /// Nodes of the stripe that have no vertex yet.
    free: Vec<Holder>,
    /// What the vertex in each place receives, in bytes; the last is the root.
    received: Vec<u64>,
    /// The helper in each place.
    mapped: Vec<Option<Holder>>,
    destinations: Vec<NodeId>,
}

/// A vertex that receives: how much, of which request, and its place.
struct Vertex {
    bytes: u64,
    request: usize,
    place: usize,
}

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    view: &View<'_>,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut tally = Tally::new(view);
    let mut graphs = graphs(requests, view, joiner);
    map_relays(requests, &mut graphs, &mut tally);
    map_roots(requests, &mut graphs, &mut tally, view);
    for (request, graph) in requests.iter().zip(&mut graphs) {
        map_leaves(request, graph, &mut tally, joiner);
    }
    let route = |(request, graph): (&RouteRequest<'_>, Graph)| {
        let mapped = graph.mapped.into_iter();
        let helpers = mapped.map(|helper| helper.expect("every place is mapped")).collect();
        joiner.join(request, Choice::Placed(helpers), graph.destinations)
    };
    requests.iter().zip(graphs).map(route).collect()
}

fn graphs(requests: &[RouteRequest<'_>], view: &View<'_>, joiner: &mut Joiner<'_>) -> Vec<Graph> {
    let mut uploads = Tally::new(view);
    // Repairs with few helpers are local and leave the code no choice: they are counted first.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&index| requests[index].usual_count);
    let mut free: Vec<Vec<Holder>> = vec![Vec::new(); requests.len()];
    for index in order {
        free[index] = free_nodes(&requests[index], &mut uploads, joiner);
    }
    requests.iter().zip(free).map(|(request, free)| Graph::new(request, free)).collect()
}

impl Graph {
    fn new(request: &RouteRequest<'_>, free: Vec<Holder>) -> Graph {
        let helper_count = request.helper_count(&free);
        let times = request.receives(helper_count).into_iter();
        let mut received: Vec<u64> = times.map(|times| times * request.job.chunk_bytes).collect();
        if let Topology::Gather = request.topology {
            received[helper_count] = request.gathered_total(helper_count);
        }
        Graph { free, received, mapped: vec![None; helper_count], destinations: Vec::new() }
    }

    /// What the root receives.
    fn received_by_root(&self) -> u64 {
        self.received[self.mapped.len()]
    }
}

/// The nodes that vertices may go to: the stripe's, or those that the code chooses.
fn free_nodes(
    request: &RouteRequest<'_>,
    uploads: &mut Tally,
    joiner: &mut Joiner<'_>,
) -> Vec<Holder> {
    if request.takes_any() {
        return request.candidates.to_vec();
    }
    let mut candidates = request.candidates.to_vec();
    sort_by_uploads(&mut candidates, uploads, request.job.chunk_bytes);
    let helpers = request.choose_helpers(candidates);
    for (helper, up_bytes) in helpers.iter().zip(joiner.gathered_bytes(request, &helpers)) {
        uploads.add(helper.1, &NodeLoad { up_bytes, ..NodeLoad::default() });
    }
    helpers
}

fn map_relays(requests: &[RouteRequest<'_>], graphs: &mut [Graph], tally: &mut Tally) {
    let mut relays: Vec<Vertex> = Vec::new();
    for (request, graph) in graphs.iter().enumerate() {
        let vertex = |place: usize| Vertex { bytes: graph.received[place], request, place };
        relays.extend((0..graph.mapped.len()).map(vertex).filter(|vertex| vertex.bytes > 0));
    }
    relays.sort_by_key(|vertex| std::cmp::Reverse(vertex.bytes));
    for Vertex { bytes, request, place } in relays {
        let up_bytes = requests[request].job.chunk_bytes;
        let graph = &mut graphs[request];
        let seconds = |(_, node): &Holder| {
            (tally.down(*node).seconds_with(bytes), tally.up(*node).seconds_with(up_bytes))
        };
        let least = least_by(&graph.free, seconds);
        let helper = graph.free.remove(least);
        tally.add(helper.1, &NodeLoad { up_bytes, down_bytes: bytes, ..NodeLoad::default() });
        graph.mapped[place] = Some(helper);
    }
}

fn map_roots(
    requests: &[RouteRequest<'_>],
    graphs: &mut [Graph],
    tally: &mut Tally,
    view: &View<'_>,
) {
    let mut roots: Vec<usize> = (0..requests.len()).collect();
    roots.sort_by_key(|&request| std::cmp::Reverse(graphs[request].received_by_root()));
    // Nodes stay ranked from one root to the next, so they are as if each brought the usual.
    let median = roots.get(roots.len() / 2);
    let usual_bytes = median.map_or(0, |&request| graphs[request].received_by_root());
    let key = |tally: &Tally, node| tally.down(node).seconds_with(usual_bytes);
    let mut ranked = Destinations::new(view, |node| key(tally, node));
    for request in roots {
        let (request, graph) = (&requests[request], &mut graphs[request]);
        let bytes = graph.received_by_root();
        graph.destinations = ranked.choose(request);
        for (at, &node) in graph.destinations.iter().enumerate() {
            let down_bytes = if at == 0 { bytes } else { request.job.chunk_bytes };
            let up_bytes = if at == 0 { request.forwarded_bytes() } else { 0 };
            tally.add(node, &NodeLoad { up_bytes, down_bytes, ..NodeLoad::default() });
            ranked.set(node, key(tally, node));
        }
    }
}

fn map_leaves(
    request: &RouteRequest<'_>,
    graph: &mut Graph,
    tally: &mut Tally,
    joiner: &mut Joiner<'_>,
) {
    sort_by_uploads(&mut graph.free, tally, request.job.chunk_bytes);
    let unmapped = graph.mapped.iter_mut().filter(|place| place.is_none());
    let leaf_count = unmapped.zip(&graph.free).map(|(place, leaf)| *place = Some(*leaf)).count();
    let leaves = &graph.free[..leaf_count];
    let gathered_bytes = match request.topology {
        Topology::Gather => joiner.gathered_bytes(request, leaves),
        _ => Vec::new(),
    };
    for (at, (_, node)) in leaves.iter().enumerate() {
        let up_bytes = gathered_bytes.get(at).copied().unwrap_or(request.job.chunk_bytes);
        tally.add(*node, &NodeLoad { up_bytes, ..NodeLoad::default() });
    }
}

/// Those that would be done first with so much more come first.
fn sort_by_uploads(helpers: &mut [Holder], tally: &Tally, more_bytes: u64) {
    let seconds = |(_, node): &Holder| tally.up(*node).seconds_with(more_bytes);
    helpers.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
}

/// The index of the helper with the least key; of equals the first.
fn least_by(helpers: &[Holder], key: impl Fn(&Holder) -> (f64, f64)) -> usize {
    let keys = helpers.iter().map(key).enumerate();
    let least = keys.reduce(|best, next| if next.1 < best.1 { next } else { best });
    least.expect("a graph has no more vertices than its stripe has nodes").0
}
