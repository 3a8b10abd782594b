//! Who keeps each rebuilt chunk.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, the
//! first step of the flow planner. A destination receives at least its chunk, and may receive all
//! of a star; so nodes get chunks in proportion to their downlinks, as if each brought its share
//! of everything that is received, and no faster than their disks write. Greedily, least loaded
//! first; on clusters so small that some stripes have few nodes to choose from, then exactly.
//!
//! Who may keep a chunk at all, racks included, is said by `keep.rs`.

use crate::id::NodeId;
use crate::max_flow::{Rounding, Supply, Transport, seconds_in_grains, seconds_to_ship};
use crate::planner::exact::flow::LEVELS_MAX;
use crate::planner::exact::frame::{CHUNK_UNITS, Frame};
use crate::planner::exact::intake::Order;
use crate::planner::keep::Rule;
use crate::planner::least::Least;
use crate::random::Random;

/// Up to so many pairs of an order and a node the choice is exact. Beyond, nearly every node may
/// keep nearly every chunk, and the greedy choice is as good.
const PAIRS_MAX: usize = 1 << 17;

/// The destinations of all orders.
pub(super) struct Chosen {
    first: Vec<u32>,
    nodes: Vec<NodeId>,
}

impl Chosen {
    /// The destinations of an order, in the order of its lost chunks.
    pub fn of(&self, order: usize) -> &[NodeId] {
        &self.nodes[self.first[order] as usize..self.first[order + 1] as usize]
    }
}

/// Chooses the destinations of all orders.
pub(super) fn choose(frame: &Frame<'_>, random: &mut Random) -> Chosen {
    let keeping = Keeping::new(frame);
    let orders = &frame.intake.orders;
    let mut sequence: Vec<usize> = (0..orders.len()).collect();
    random.shuffle(&mut sequence);
    let mut chosen = match orders.len() * frame.view.cluster.nodes.len() <= PAIRS_MAX {
        true => exactly(frame, &keeping, &sequence),
        false => Greedy::new(frame, keeping).choose(&sequence),
    };
    for (order, nodes) in orders.iter().zip(&mut chosen) {
        // The first destination decodes several losses: let it be the one that sends best.
        let sending =
            |node: &NodeId| frame.sending(*node).seconds_for(f64::from(frame.units(order)));
        nodes.sort_by(|a, b| sending(a).total_cmp(&sending(b)));
    }
    let mut first = vec![0];
    for nodes in &chosen {
        first.push(first[first.len() - 1] + nodes.len() as u32);
    }
    Chosen { first, nodes: chosen.concat() }
}

/// What nodes can keep.
struct Keeping {
    /// When each chunk brings its share of all that is received.
    fair: Vec<Supply>,
    /// The same, but no more than disks write while everything is sent and received.
    capped: Vec<Supply>,
}

impl Keeping {
    fn new(frame: &Frame<'_>) -> Keeping {
        let sent = frame.moved_units();
        let chunks = |order: &Order<'_>| order.lost.len() as f64 * f64::from(frame.units(order));
        let kept: f64 = frame.intake.orders.iter().map(chunks).sum();
        let share = if kept > 0.0 { sent / kept } else { 1.0 };
        let nodes = || frame.view.cluster.ids();
        let port = |at: usize, supply: Supply, scale: f64| Supply {
            rates: [supply.rates[at] / scale, f64::INFINITY],
            bases: [supply.bases[at] / scale, 0.0],
        };
        let fair: Vec<Supply> = nodes().map(|node| port(0, frame.receiving(node), share)).collect();
        let disks: Vec<Supply> = nodes().map(|node| port(1, frame.receiving(node), 1.0)).collect();
        let accepting = |supplies: &[Supply]| -> Vec<Supply> {
            let accepting = nodes().filter(|node| frame.view.accepts(*node));
            accepting.map(|node| supplies[node.index()]).collect()
        };
        let links: Vec<Supply> = nodes().map(|node| frame.sending(node)).collect();
        let written = seconds_in_grains(&accepting(&disks), kept as u64, CHUNK_UNITS);
        let seconds = written
            .max(seconds_to_ship(&accepting(&fair), kept))
            .max(seconds_to_ship(&links, sent));
        let chunk = f64::from(CHUNK_UNITS);
        let cap = |(fair, disk): (&Supply, &Supply)| match disk.rates[0].is_finite() {
            true => {
                // A port that never ships more than that.
                let chunks = (disk.units_in(seconds) / chunk + 1e-9).floor();
                let (rates, bases) = ([fair.rates[0], 0.0], [fair.bases[0], -chunks * chunk]);
                Supply { rates, bases }
            }
            false => *fair,
        };
        let capped = fair.iter().zip(&disks).map(cap).collect();
        Keeping { fair, capped }
    }
}

/// The nodes that should keep a chunk of the order.
fn candidates(frame: &Frame<'_>, order: &Order<'_>) -> Vec<NodeId> {
    let rule = Rule::new(order.job, order.lost.len(), frame.view);
    let nodes = frame.view.cluster.ids();
    nodes.filter(|node| rule.allows(*node, order.job, frame.view)).collect()
}

fn exactly(frame: &Frame<'_>, keeping: &Keeping, sequence: &[usize]) -> Vec<Vec<NodeId>> {
    let orders = &frame.intake.orders;
    let are_equal = orders.iter().all(|order| frame.units(order) == CHUNK_UNITS);
    let balanced = |supplies: &[Supply]| {
        let mut transport = Transport::new(supplies.to_vec());
        for order in orders {
            transport.add(frame.units(order), candidates(frame, order).iter().map(|node| node.0));
        }
        for &index in sequence {
            transport.ship_greedily(index, orders[index].lost.len(), frame.units(&orders[index]));
        }
        let worst = are_equal.then(|| transport.balance(Rounding::Down(CHUNK_UNITS), LEVELS_MAX));
        (worst.is_none_or(|worst| worst.seconds.is_finite()), transport)
    };
    // Disks may be too slow where only few nodes may keep a chunk.
    let (fits, mut transport) = balanced(&keeping.capped);
    if !fits {
        (_, transport) = balanced(&keeping.fair);
    }
    let keepers = |demand: usize| {
        let links = transport.shipped(demand).iter().filter(|link| link.units > 0);
        links.map(|link| NodeId(link.node)).collect()
    };
    (0..orders.len()).map(keepers).collect()
}

/// Least loaded first.
struct Greedy<'a, 'b> {
    frame: &'b Frame<'a>,
    keeping: Keeping,
    loads: Vec<f64>,
    ranking: Least,
}

impl<'a, 'b> Greedy<'a, 'b> {
    fn new(frame: &'b Frame<'a>, keeping: Keeping) -> Greedy<'a, 'b> {
        let node_count = keeping.fair.len();
        let ranking = Least::new(Vec::new());
        let mut greedy = Greedy { frame, keeping, loads: vec![0.0; node_count], ranking };
        let keys = (0..node_count as u32).map(|node| greedy.key(NodeId(node)));
        greedy.ranking = Least::new(keys.collect());
        greedy
    }

    fn key(&self, node: NodeId) -> f64 {
        match self.frame.view.accepts(node) {
            true => self.seconds(&self.keeping.capped, node),
            false => f64::INFINITY,
        }
    }

    /// When the node is done with one chunk more.
    fn seconds(&self, supplies: &[Supply], node: NodeId) -> f64 {
        supplies[node.index()].seconds_for(self.loads[node.index()] + f64::from(CHUNK_UNITS))
    }

    fn choose(mut self, sequence: &[usize]) -> Vec<Vec<NodeId>> {
        let mut chosen = vec![Vec::new(); sequence.len()];
        for &index in sequence {
            chosen[index] = self.choose_one(&self.frame.intake.orders[index]);
        }
        chosen
    }

    fn choose_one(&mut self, order: &Order<'_>) -> Vec<NodeId> {
        let rule = Rule::new(order.job, order.lost.len(), self.frame.view);
        let is_good = |node: NodeId| rule.allows(node, order.job, self.frame.view);
        let (mut chosen, mut passed_over) = (Vec::new(), Vec::new());
        while chosen.len() < order.lost.len()
            && let Some(node) = self.ranking.least_where(|_| true).map(|index| NodeId(index as u32))
        {
            self.ranking.set(node.index(), f64::INFINITY);
            if is_good(node) { chosen.push(node) } else { passed_over.push(node) }
        }
        if chosen.len() < order.lost.len() {
            // Disks are too slow, or only few nodes may keep it.
            let nodes = candidates(self.frame, order);
            let mut ranked: Vec<(f64, NodeId)> = nodes
                .into_iter()
                .map(|node| (self.seconds(&self.keeping.fair, node), node))
                .collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            chosen = ranked.iter().take(order.lost.len()).map(|(_, node)| *node).collect();
        }
        for &node in &chosen {
            self.loads[node.index()] += f64::from(self.frame.units(order));
        }
        for &node in passed_over.iter().chain(&chosen) {
            self.ranking.set(node.index(), self.key(node));
        }
        chosen
    }
}
