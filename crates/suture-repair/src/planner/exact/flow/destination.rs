//! Which node keeps each rebuilt chunk.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, the
//! first step of the flow planner. A destination must receive and write its chunk, and may receive
//! all of a star. So nodes get chunks in proportion to their downlinks, as if each brought its
//! share of everything that is received. Where disks are modelled, none gets more than it can
//! receive and write within the least time that the batch takes in any case: by what all links move
//! together, and by what the destinations must receive and write, whichever node keeps which chunk.
//! Greedily, least loaded first; on clusters so small that some stripes have few nodes to choose
//! from, then exactly.
//!
//! Which nodes may keep a chunk at all, racks included, is decided by `keep.rs`.

use crate::id::NodeId;
use crate::max_flow::{Rounding, Supply, Transport, seconds_in_grains, seconds_to_ship};
use crate::planner::exact::flow::LEVELS_MAX;
use crate::planner::exact::instance::{CHUNK_UNITS, ExactRequest, Instance};
use crate::planner::keep::DestinationRule;
use crate::planner::least::Least;
use crate::random::Random;

/// Up to so many pairs of a request and a node the choice is exact. Beyond, nearly every node may
/// keep nearly every chunk, and the greedy choice is as good.
const PAIRS_MAX: usize = 1 << 17;

/// The destinations of all requests.
pub(super) struct Chosen {
    first: Vec<u32>,
    nodes: Vec<NodeId>,
    /// No destinations have received and written all chunks earlier, in seconds; 0 if not known.
    pub least_seconds: f64,
    /// When the last of these has, if it does nothing else, in seconds.
    pub seconds: f64,
}

impl Chosen {
    /// The destinations of a request, in the order of its lost chunks.
    pub fn of(&self, request: usize) -> &[NodeId] {
        &self.nodes[self.first[request] as usize..self.first[request + 1] as usize]
    }
}

/// Chooses the destinations of all requests.
pub(super) fn choose(instance: &Instance<'_>, random: &mut Random) -> Chosen {
    let supply = DestinationSupply::new(instance);
    let requests = &instance.requests;
    let mut sequence: Vec<usize> = (0..requests.len()).collect();
    random.shuffle(&mut sequence);
    let (mut chosen, least_seconds) =
        if requests.len() * instance.view.cluster.nodes.len() <= PAIRS_MAX {
            exactly(instance, &supply, &sequence)
        } else {
            (Greedy::new(instance, &supply).choose(&sequence), 0.0)
        };
    for (request, nodes) in requests.iter().zip(&mut chosen) {
        // The first destination decodes several losses: let it be the one that sends best.
        let sending =
            |node: &NodeId| instance.sending(*node).seconds_for(f64::from(instance.units(request)));
        nodes.sort_by(|a, b| sending(a).total_cmp(&sending(b)));
    }
    let mut first = vec![0];
    for nodes in &chosen {
        first.push(first[first.len() - 1] + nodes.len() as u32);
    }
    let seconds = supply.seconds(instance, &chosen);
    Chosen { first, nodes: chosen.concat(), least_seconds, seconds }
}

/// What nodes can keep.
struct DestinationSupply {
    /// What each can receive when a chunk brings its share of all that is received.
    fair: Vec<Supply>,
    /// What each can receive and write of chunks alone. Empty where no disks are modelled.
    alone: Vec<Supply>,
    /// No plans are done earlier, as far as the sums over all nodes say, in seconds.
    least_seconds: f64,
}

impl DestinationSupply {
    fn new(instance: &Instance<'_>) -> DestinationSupply {
        let sent = instance.moved_units();
        let chunks = |request: &ExactRequest<'_>| {
            request.lost.len() as f64 * f64::from(instance.units(request))
        };
        let kept: f64 = instance.requests.iter().map(chunks).sum();
        let share = if kept > 0.0 { sent / kept } else { 1.0 };
        let nodes = || instance.view.cluster.ids();
        let fair = |node: NodeId| {
            let Supply { rates, bases } = instance.link_down(node);
            let (rate, base) = (rates[0] / share, bases[0] / share);
            Supply { rates: [rate, f64::INFINITY], bases: [base, 0.0] }
        };
        let fair: Vec<Supply> = nodes().map(fair).collect();
        let alone: Vec<Supply> = nodes().map(|node| instance.receiving(node)).collect();
        if alone.iter().all(|supply| supply.rates[1].is_infinite()) {
            return DestinationSupply { fair, alone: Vec::new(), least_seconds: 0.0 };
        }
        let accepting = |supplies: &[Supply]| -> Vec<Supply> {
            let accepting = nodes().filter(|node| instance.view.accepts(*node));
            accepting.map(|node| supplies[node.index()]).collect()
        };
        let links: Vec<Supply> = nodes().map(|node| instance.sending(node)).collect();
        let least_seconds = seconds_in_grains(&accepting(&alone), kept as u64, CHUNK_UNITS)
            .max(seconds_to_ship(&accepting(&fair), kept))
            .max(seconds_to_ship(&links, sent));
        DestinationSupply { fair, alone, least_seconds }
    }

    /// What each may keep, so that it has received and written all of it within that time.
    fn capped(&self, seconds: f64) -> Vec<Supply> {
        let cap = |(fair, alone): (&Supply, &Supply)| {
            let chunk = f64::from(CHUNK_UNITS);
            let chunks = (alone.units_in(seconds) / chunk + 1e-9).floor();
            // A port that never ships more than that.
            Supply { rates: [fair.rates[0], 0.0], bases: [fair.bases[0], -chunks * chunk] }
        };
        self.fair.iter().zip(&self.alone).map(cap).collect()
    }

    /// When the last destination has received and written its chunks.
    fn seconds(&self, instance: &Instance<'_>, chosen: &[Vec<NodeId>]) -> f64 {
        let mut units = vec![0.0; self.alone.len()];
        if units.is_empty() {
            return 0.0;
        }
        for (request, nodes) in instance.requests.iter().zip(chosen) {
            nodes.iter().for_each(|node| units[node.index()] += f64::from(instance.units(request)));
        }
        let nodes = self.alone.iter().zip(&units).filter(|(_, units)| **units > 0.0);
        nodes.map(|(supply, units)| supply.seconds_for(*units)).fold(0.0, f64::max)
    }
}

/// The nodes that should keep a chunk of the request.
pub(super) fn candidates(instance: &Instance<'_>, request: &ExactRequest<'_>) -> Vec<NodeId> {
    let rule = DestinationRule::new(request.job, request.lost.len(), instance.view);
    let nodes = instance.view.cluster.ids();
    nodes.filter(|node| rule.allows(*node, request.job, instance.view)).collect()
}

/// The best destinations of all requests, and the least time that any need.
fn exactly(
    instance: &Instance<'_>,
    supply: &DestinationSupply,
    sequence: &[usize],
) -> (Vec<Vec<NodeId>>, f64) {
    let requests = &instance.requests;
    let are_equal = requests.iter().all(|request| instance.units(request) == CHUNK_UNITS);
    let open: Vec<Vec<NodeId>> =
        requests.iter().map(|request| candidates(instance, request)).collect();
    let balanced = |supplies: Vec<Supply>, levels: usize| {
        let mut transport = Transport::new(supplies);
        for (request, open) in requests.iter().zip(&open) {
            transport.add(instance.units(request), open.iter().map(|node| node.0));
        }
        for &index in sequence {
            transport.ship_greedily(
                index,
                requests[index].lost.len(),
                instance.units(&requests[index]),
            );
        }
        let seconds = if are_equal {
            transport.balance(Rounding::Down(CHUNK_UNITS), levels).seconds
        } else {
            transport.peak_seconds()
        };
        (transport, seconds)
    };
    let destinations = |transport: &Transport, demand: usize| {
        let links = transport.shipped(demand).iter().filter(|link| link.units > 0);
        links.map(|link| NodeId(link.node)).collect()
    };
    let chosen =
        |transport: Transport| (0..requests.len()).map(|at| destinations(&transport, at)).collect();
    if supply.alone.is_empty() {
        return (chosen(balanced(supply.fair.clone(), LEVELS_MAX).0), 0.0);
    }
    let (alone, needed) = balanced(supply.alone.clone(), 1);
    let capped = supply.capped(supply.least_seconds.max(needed));
    let (fair, seconds) = balanced(capped, LEVELS_MAX);
    // Chunks of many lengths are chosen greedily, and may fit no more.
    let best = if seconds.is_finite() { fair } else { alone };
    (chosen(best), if are_equal { needed } else { 0.0 })
}

/// Choosing the least loaded destination first.
struct Greedy<'a, 'b> {
    instance: &'b Instance<'a>,
    /// What nodes should keep, and what they do where that is not enough.
    wanted: Vec<Supply>,
    most: &'b [Supply],
    loads: Vec<f64>,
    ranking: Least,
}

impl<'a, 'b> Greedy<'a, 'b> {
    fn new(instance: &'b Instance<'a>, supply: &'b DestinationSupply) -> Greedy<'a, 'b> {
        let node_count = supply.fair.len();
        let (wanted, most) = if supply.alone.is_empty() {
            (supply.fair.clone(), &supply.fair)
        } else {
            (supply.capped(supply.least_seconds), &supply.alone)
        };
        let ranking = Least::new(Vec::new());
        let mut greedy = Greedy { instance, wanted, most, loads: vec![0.0; node_count], ranking };
        let keys = (0..node_count as u32).map(|node| greedy.key(NodeId(node)));
        greedy.ranking = Least::new(keys.collect());
        greedy
    }

    fn key(&self, node: NodeId) -> f64 {
        if self.instance.view.accepts(node) {
            self.seconds(&self.wanted, node)
        } else {
            f64::INFINITY
        }
    }

    /// When the node is done with one chunk more.
    fn seconds(&self, supplies: &[Supply], node: NodeId) -> f64 {
        supplies[node.index()].seconds_for(self.loads[node.index()] + f64::from(CHUNK_UNITS))
    }

    fn choose(mut self, sequence: &[usize]) -> Vec<Vec<NodeId>> {
        let mut chosen = vec![Vec::new(); sequence.len()];
        for &index in sequence {
            chosen[index] = self.choose_one(&self.instance.requests[index]);
        }
        chosen
    }

    fn choose_one(&mut self, request: &ExactRequest<'_>) -> Vec<NodeId> {
        let rule = DestinationRule::new(request.job, request.lost.len(), self.instance.view);
        let is_good = |node: NodeId| rule.allows(node, request.job, self.instance.view);
        let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
        while chosen.len() < request.lost.len()
            && let Some(node) = self.ranking.least_where(|_| true).map(|index| NodeId(index as u32))
        {
            self.ranking.set(node.index(), f64::INFINITY);
            if is_good(node) { chosen.push(node) } else { skipped.push(node) }
        }
        if chosen.len() < request.lost.len() {
            // No node is left that could keep it in time.
            let nodes = candidates(self.instance, request);
            let mut ranked: Vec<(f64, NodeId)> =
                nodes.into_iter().map(|node| (self.seconds(self.most, node), node)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            chosen = ranked.iter().take(request.lost.len()).map(|(_, node)| *node).collect();
        }
        for &node in &chosen {
            self.loads[node.index()] += f64::from(self.instance.units(request));
        }
        for &node in skipped.iter().chain(&chosen) {
            self.ranking.set(node.index(), self.key(node));
        }
        chosen
    }
}
