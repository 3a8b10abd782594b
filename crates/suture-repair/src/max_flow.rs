//! The transportation problem, as a maximum flow: how much each node ships of each demand, so that
//! the busiest node is done earliest.
//!
//! Place: beside `[plan]`; the lower bound and the flow planner ask the same question. A demand (a
//! stripe's chunks to send, a lane's sums to receive) may be shipped by some nodes, up to a limit
//! by each; a node ships at its rate, after what it has to do anyway. The least time T is a
//! parametric maximum flow, solved by Newton's method on the cut: try a T; if it does not suffice,
//! the nodes that overload reaches are a set whose demand exceeds its capacity, and the T at which
//! that set suffices is the next to try. Each such T is a lower bound by itself, and the last set
//! is the certificate of the optimum. Two to ten rounds are usual.
//!
//! Within a round all demand is always shipped, by nodes that may be overloaded; overload flows
//! along alternating paths (x ships less and y more of one demand) to nodes that have capacity
//! left, shortest paths first, all of one length at a time (Dinic). So a good first guess, such as
//! the greedy one, is nearly all of the work, and the answer stays close to it.
//!
//! Capacities are rounded down to whole *grains*: with grains of a chunk the optimum is that of
//! whole chunks. Rounded up to single units, the least time is that of the fractional problem but
//! for a millionth of a chunk, and is not above it.
//!
//! Source: L. Ford and D. Fulkerson (1962) for the flow, T. Radzik (1993) for Newton's method on
//! parametric cuts.

mod paths;
mod supply;

use std::ops::Range;

use paths::AlternatingPaths;
use supply::rounded;
pub(crate) use supply::{Rounding, Supply, seconds_in_grains, seconds_to_ship};

/// What a node may ship of a demand, and ships.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub node: u32,
    pub units: u32,
}

/// A least time and its proof: `nodes` have to ship more than they can in any less time. Without
/// nodes it is the floor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Certificate {
    pub seconds: f64,
    pub nodes: Vec<u32>,
}

/// A link as its node has it. Its demand stands beside it, since searches ask for that first.
#[derive(Clone, Copy, Debug, Default)]
struct NodeLink {
    link: u32,
    demand: u32,
}

/// Demands, nodes, and which node ships what.
#[derive(Debug)]
pub(crate) struct Transport {
    supplies: Vec<Supply>,
    /// Demand `d` has the links `first[d]..first[d + 1]`.
    first: Vec<u32>,
    links: Vec<Link>,
    /// The most that one node ships of each demand.
    limits: Vec<u32>,
    /// The demand of each link.
    demand_of: Vec<u32>,
    /// Node `n` has the links `at[at_first[n]..at_first[n + 1]]`. Empty until it is searched.
    at_first: Vec<u32>,
    at: Vec<NodeLink>,
    /// What each node ships.
    loads: Vec<u64>,
    /// Nodes that stay as they are.
    is_fixed: Vec<bool>,
    /// Nothing is gained by being done earlier than this.
    floor_seconds: f64,
    /// The nodes that were the limit last time: probably they are again, so Newton begins there.
    suspects: Vec<u32>,
    /// Room for the keys of a demand's links.
    keys: Vec<(f64, usize)>,
}

impl Transport {
    pub fn new(supplies: Vec<Supply>) -> Transport {
        let node_count = supplies.len();
        Transport {
            supplies,
            first: vec![0],
            links: Vec::new(),
            limits: Vec::new(),
            demand_of: Vec::new(),
            at_first: Vec::new(),
            at: Vec::new(),
            loads: vec![0; node_count],
            is_fixed: vec![false; node_count],
            floor_seconds: 0.0,
            suspects: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Adds a demand that `nodes`, each named once, may ship, up to `limit` units each; no node
    /// ships it yet.
    pub fn add(&mut self, limit: u32, nodes: impl IntoIterator<Item = u32>) -> usize {
        let demand = self.limits.len();
        self.links.extend(nodes.into_iter().map(|node| Link { node, units: 0 }));
        self.demand_of.resize(self.links.len(), demand as u32);
        self.first.push(self.links.len() as u32);
        self.limits.push(limit);
        demand
    }

    /// Ships `count` times `units` of a demand, each from the node that would then be done first;
    /// of equals, from the one that was named first.
    pub fn ship_greedily(&mut self, demand: usize, count: usize, units: u32) {
        self.ship_by(demand, count, units, |_, seconds| seconds);
    }

    /// Ships `count` times `units` of a demand, each from the node with the least key, given the
    /// node and when it would then be done.
    pub fn ship_by(
        &mut self,
        demand: usize,
        count: usize,
        units: u32,
        key: impl Fn(u32, f64) -> f64,
    ) {
        let limit = self.limits[demand];
        let mut keys = std::mem::take(&mut self.keys);
        keys.extend(self.range(demand).map(|link| (self.key_of(link, units, &key), link)));
        for _ in 0..count {
            let free = (0..keys.len()).filter(|&at| self.links[keys[at].1].units + units <= limit);
            let best =
                free.reduce(|best, next| if keys[next].0 < keys[best].0 { next } else { best });
            let best = best.expect("a demand is no more than its nodes may ship");
            // Only its own key is another one now.
            let link = keys[best].1;
            self.ship(link, units);
            keys[best].0 = self.key_of(link, units, &key);
        }
        keys.clear();
        self.keys = keys;
    }

    /// The key of a link's node when it ships so much more.
    fn key_of(&self, link: usize, units: u32, key: impl Fn(u32, f64) -> f64) -> f64 {
        let node = self.links[link].node;
        let load = self.loads[node as usize] + u64::from(units);
        key(node, self.supplies[node as usize].seconds_for(load as f64))
    }

    /// Ships so much of a demand from the node that was named as the `at`-th.
    pub fn ship_from(&mut self, demand: usize, at: usize, units: u32) {
        let link = self.range(demand).start + at;
        self.ship(link, units);
    }

    fn ship(&mut self, link: usize, units: u32) {
        let Link { node, units: shipped } = &mut self.links[link];
        *shipped += units;
        self.loads[*node as usize] += u64::from(units);
    }

    fn range(&self, demand: usize) -> Range<usize> {
        self.first[demand] as usize..self.first[demand + 1] as usize
    }

    fn links_at(&self, node: usize) -> &[NodeLink] {
        &self.at[self.at_first[node] as usize..self.at_first[node + 1] as usize]
    }

    /// The nodes that ship a demand, and how much each.
    pub fn shipped(&self, demand: usize) -> &[Link] {
        &self.links[self.range(demand)]
    }

    /// Declares that nothing is gained by being done earlier than that.
    pub fn set_floor(&mut self, seconds: f64) {
        self.floor_seconds = seconds;
    }

    /// When the busiest node is done.
    pub fn peak_seconds(&self) -> f64 {
        let nodes = self.supplies.iter().zip(&self.loads);
        nodes.map(|(supply, load)| supply.seconds_for(*load as f64)).fold(0.0, f64::max)
    }

    /// When `nodes` could be done if what they ship could be cut anywhere: the least time of the
    /// fractional problem, if they cannot be relieved.
    pub fn fractional_seconds(&self, nodes: &[u32]) -> f64 {
        self.seconds_of(nodes, Rounding::Up)
    }

    /// What a node ships on average, of those that ship.
    pub fn mean_load(&self) -> f64 {
        let busy = self.loads.iter().filter(|load| **load > 0).count();
        self.loads.iter().sum::<u64>() as f64 / busy.max(1) as f64
    }

    /// Ships as early as possible. A node that is done at that time at best stays as it is, and
    /// the others again as early as possible, and so on, at most `levels` times. Returns the least
    /// time of all: the first level's.
    pub fn balance(&mut self, rounding: Rounding, levels: usize) -> Certificate {
        let mut worst = None;
        for _ in 0..levels.max(1) {
            let level = self.least_time(rounding);
            level.nodes.iter().for_each(|&node| self.is_fixed[node as usize] = true);
            let was_last = level.nodes.is_empty() || level.seconds == f64::INFINITY;
            worst.get_or_insert(level);
            if was_last {
                break;
            }
        }
        self.is_fixed.fill(false);
        let worst = worst.expect("there is a first level");
        self.suspects.clone_from(&worst.nodes);
        worst
    }

    /// The least time of the nodes that are not fixed. Without any of them it is nothing.
    fn least_time(&mut self, rounding: Rounding) -> Certificate {
        self.index_nodes();
        let nodes: Vec<u32> =
            (0..self.loads.len() as u32).filter(|&node| !self.is_fixed[node as usize]).collect();
        let mut best = Certificate { seconds: self.seconds_of(&nodes, rounding), nodes };
        let suspects = std::mem::take(&mut self.suspects);
        let seconds = self.seconds_of(&suspects, rounding);
        if seconds > best.seconds {
            best = Certificate { seconds, nodes: suspects };
        }
        if self.floor_seconds > best.seconds {
            best = Certificate { seconds: self.floor_seconds, nodes: Vec::new() };
        }
        let mut search = AlternatingPaths::new(self);
        for _ in 0..ROUNDS_MAX {
            if !best.seconds.is_finite() {
                break;
            }
            let capacities = self.capacities(best.seconds, rounding);
            let Err(nodes) = search.fit(self, &capacities) else { break };
            let seconds = self.seconds_of(&nodes, rounding);
            // A small increase may be rounding alone: then the set is as good as the one before.
            let is_later = seconds > best.seconds * (1.0 + 1e-13);
            best = Certificate { seconds: seconds.max(best.seconds), nodes };
            if !is_later {
                break;
            }
        }
        best
    }

    /// Sorts the links by node, once.
    fn index_nodes(&mut self) {
        if !self.at_first.is_empty() {
            return;
        }
        let mut first = vec![0u32; self.loads.len() + 1];
        self.links.iter().for_each(|link| first[link.node as usize + 1] += 1);
        for node in 1..first.len() {
            first[node] += first[node - 1];
        }
        let mut next = first.clone();
        self.at = vec![NodeLink::default(); self.links.len()];
        for (index, link) in self.links.iter().enumerate() {
            let place = &mut next[link.node as usize];
            let demand = self.demand_of[index];
            self.at[*place as usize] = NodeLink { link: index as u32, demand };
            *place += 1;
        }
        self.at_first = first;
    }

    fn capacities(&self, seconds: f64, rounding: Rounding) -> Vec<u64> {
        let capacity = |(node, supply): (usize, &Supply)| {
            if self.is_fixed[node] {
                self.loads[node]
            } else {
                rounded(supply.units_in(seconds), rounding)
            }
        };
        self.supplies.iter().enumerate().map(capacity).collect()
    }

    /// The time at which the capacities of `nodes` add up to what they ship now.
    fn seconds_of(&self, nodes: &[u32], rounding: Rounding) -> f64 {
        let units: u64 = nodes.iter().map(|&node| self.loads[node as usize]).sum();
        if units == 0 {
            return 0.0;
        }
        let supplies: Vec<Supply> =
            nodes.iter().map(|&node| self.supplies[node as usize]).collect();
        match rounding {
            Rounding::Up => seconds_to_ship(&supplies, units as f64),
            Rounding::Down(grain) => seconds_in_grains(&supplies, units, grain),
        }
    }
}

/// The most rounds of Newton's method. Two to ten are usual; whatever is found by then is a lower
/// bound still, and what is shipped is shipped in whole.
const ROUNDS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A few demands of two or three chunks each, on a few nodes.
    fn arbitrary(random: &mut Random, chunk: u32, most_base: u64) -> (Transport, Vec<u64>) {
        let node_count = random.between(2, 7) as usize;
        let supply = |random: &mut Random| Supply {
            rates: [random.between(1, 9), random.between(4, 9)].map(|rate| rate as f64),
            bases: [0; 2].map(|_| random.between(0, most_base * u64::from(chunk)) as f64),
        };
        let supplies = (0..node_count).map(|_| supply(random)).collect();
        let mut transport = Transport::new(supplies);
        let mut counts = Vec::new();
        for _ in 0..random.between(1, 8) {
            let mut nodes: Vec<u32> = (0..node_count as u32).collect();
            random.shuffle(&mut nodes);
            nodes.truncate(random.between(1, node_count as u64) as usize);
            let count = random.between(1, nodes.len() as u64);
            let demand = transport.add(chunk, nodes);
            transport.ship_greedily(demand, count as usize, chunk);
            counts.push(count);
        }
        (transport, counts)
    }

    /// What the nodes outside of a set leave to it.
    fn left_to(transport: &Transport, counts: &[u64], set: u32) -> u64 {
        let left = |(demand, &count): (usize, &u64)| {
            let outside =
                transport.shipped(demand).iter().filter(|link| set >> link.node & 1 == 0).count();
            count.saturating_sub(outside as u64) * u64::from(transport.limits[demand])
        };
        counts.iter().enumerate().map(left).sum()
    }

    fn members(node_count: usize, set: u32) -> Vec<u32> {
        (0..node_count as u32).filter(|node| set >> node & 1 == 1).collect()
    }

    /// The greatest least time over all sets of nodes.
    fn least_time_by_sets(transport: &Transport, counts: &[u64], rounding: Rounding) -> f64 {
        let node_count = transport.loads.len();
        let seconds = (1..1u32 << node_count).map(|set| {
            let units = left_to(transport, counts, set);
            let of = |node: u32| transport.supplies[node as usize];
            let supplies: Vec<Supply> = members(node_count, set).into_iter().map(of).collect();
            match rounding {
                Rounding::Up => seconds_to_ship(&supplies, units as f64),
                Rounding::Down(grain) if units > 0 => seconds_in_grains(&supplies, units, grain),
                Rounding::Down(_) => 0.0,
            }
        });
        seconds.fold(0.0, f64::max)
    }

    fn check(chunk: u32, most_base: u64, rounding: Rounding, tolerance: f64) {
        let mut random = Random::new(u64::from(chunk) + most_base);
        for _ in 0..300 {
            let (mut transport, counts) = arbitrary(&mut random, chunk, most_base);
            let expected = least_time_by_sets(&transport, &counts, rounding);
            let found = transport.balance(rounding, 1);
            assert!((found.seconds - expected).abs() <= tolerance * expected, "{found:?}");
            for (demand, count) in counts.iter().enumerate() {
                let links = transport.shipped(demand);
                let units: u64 = links.iter().map(|link| u64::from(link.units)).sum();
                assert_eq!(units, count * u64::from(chunk));
                assert!(links.iter().all(|link| link.units <= chunk));
            }
            let busy = (0..transport.loads.len()).filter(|&node| transport.loads[node] > 0);
            let done =
                busy.map(|node| transport.supplies[node].seconds_for(transport.loads[node] as f64));
            let peak = done.fold(0.0, f64::max);
            // A unit more than its share takes the slowest node a second.
            let unit = if rounding == Rounding::Up { 1.0 } else { 1e-6 };
            assert!(peak <= found.seconds + unit, "{peak}");
        }
    }

    #[test]
    fn the_least_time_is_that_of_the_worst_set_of_nodes() {
        check(1 << 20, 0, Rounding::Up, 1e-6);
        check(1 << 20, 3, Rounding::Up, 1e-6);
    }

    #[test]
    fn whole_chunks_are_shipped_as_early_as_whole_chunks_can_be() {
        check(1 << 20, 0, Rounding::Down(1 << 20), 1e-9);
        check(1 << 20, 3, Rounding::Down(1 << 20), 1e-9);
        check(1 << 20, 2, Rounding::Down(1 << 17), 1e-9);
    }

    #[test]
    fn nodes_that_are_not_to_blame_are_balanced_among_themselves() {
        // Node 0 alone ships five chunks; the other two could share the rest, but all is on node 1.
        let mut transport = Transport::new(vec![Supply::of_rate(1.0); 3]);
        for _ in 0..5 {
            let forced = transport.add(1, [0]);
            transport.ship_greedily(forced, 1, 1);
            let shared = transport.add(1, [1, 2]);
            let only = transport.range(shared).start;
            transport.ship(only, 1);
        }
        let worst = transport.balance(Rounding::Down(1), 3);
        assert_eq!(worst, Certificate { seconds: 5.0, nodes: vec![0] });
        assert_eq!(transport.loads, [5, 3, 2]);
    }

    #[test]
    fn a_node_without_a_rate_is_never_done() {
        let mut transport = Transport::new([0.0, 1.0].map(Supply::of_rate).to_vec());
        let demand = transport.add(1, [0, 1]);
        transport.ship_greedily(demand, 2, 1);
        assert_eq!(transport.balance(Rounding::Up, 2).seconds, f64::INFINITY);
    }
}
