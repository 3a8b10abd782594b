//! Trees that add up within racks first, so that each rack sends one sum.
//!
//! Place: `[plan]`, a choice of the potential planner where racks have links of their own. Which
//! racks help, and with how many helpers each, is a small knapsack: a rack costs its uplink once,
//! its helpers cost theirs, the destination's rack is free. Sums of racks may meet in any rack that
//! helps, so the downlinks of racks share the work as those of nodes do.
//!
//! Source: CAR (DSN'16) for the minimum of racks and the sum within each; free destinations and the
//! tree of racks are ours.

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Edge};
use crate::planner::exact::potential::arborescence::ArborescenceSearch;
use crate::planner::exact::potential::option::{
    CODE_SETS_JOINED, CODE_SETS_MAX, PricedPart, Prices, RepairOption, code_sets,
};
use crate::planner::exact::potential::ports::{PRICE_MAX, PortGrowth, PortIndex, PricedPorts};

/// The racks that hold candidates, each with the places of its helpers, cheapest first.
fn by_rack(
    item: &PricedPart<'_>,
    ports: &PricedPorts<'_>,
    prices: &Prices,
) -> Vec<(u32, Vec<usize>)> {
    let mut places: Vec<usize> = (0..item.holders.len()).collect();
    let key = |place: &usize| (*place >= item.forced(), prices.whole(*place));
    places.sort_by(|a, b| key(a).partial_cmp(&key(b)).expect("prices are numbers"));
    let mut racks: Vec<(u32, Vec<usize>)> = Vec::new();
    for place in places {
        let rack = ports.rack(item.holders[place]);
        match racks.iter_mut().find(|(known, _)| *known == rack) {
            Some((_, places)) => places.push(place),
            None => racks.push((rack, vec![place])),
        }
    }
    racks
}

/// The racks in which a destination would leave least to cross, at most so many: those of helpers,
/// and that of a node which is cheap anyway.
pub(super) fn destination_racks(
    item: &PricedPart<'_>,
    other: u32,
    count: usize,
    ports: &PricedPorts<'_>,
) -> Vec<u32> {
    let mut held: Vec<(u32, usize)> = vec![(ports.rack(other), 0)];
    for rack in item.holders.iter().map(|node| ports.rack(*node)) {
        match held.iter_mut().find(|(known, _)| *known == rack) {
            Some((_, count)) => *count += 1,
            None => held.push((rack, 1)),
        }
    }
    let mut sizes: Vec<usize> = held.iter().map(|(_, count)| *count).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // How many other racks must help when so many helpers are at root_rack.
    let crossing = |at_root_rack: usize| {
        let mut missing = item.wanted().saturating_sub(at_root_rack);
        let mut is_root_rack_left = true;
        let mut used = 0;
        for &size in &sizes {
            if size == at_root_rack && is_root_rack_left {
                is_root_rack_left = false;
            } else if missing > 0 {
                missing = missing.saturating_sub(size);
                used += 1;
            }
        }
        used
    };
    held.sort_by_key(|(_, at_root_rack)| crossing(*at_root_rack));
    held.truncate(count);
    held.into_iter().map(|(rack, _)| rack).collect()
}

/// The cheapest tree into a destination, and its cost.
pub(super) fn cheapest(
    item: &PricedPart<'_>,
    root: u32,
    ports: &PricedPorts<'_>,
    prices: &mut Prices,
) -> (f64, RepairOption) {
    let root_rack = ports.rack(root);
    if item.part.any {
        let racks = by_rack(item, ports, prices);
        let chosen = choose_helpers(item, root_rack, &racks, ports, prices);
        return joined(item, root, &chosen, ports, prices);
    }
    let sets = code_helpers(item, root_rack, CODE_SETS_JOINED, ports, prices).into_iter();
    let trees = sets.map(|chosen| joined(item, root, &chosen, ports, prices));
    trees.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some helpers will do")
}

/// Trees that may be the cheapest at prices that do not grow: begun with the helpers that would be
/// cheapest if each rack sent one sum, and with those that are if racks do not matter; or of every
/// set of helpers that the code takes. Any of `relays` may add up.
pub(super) fn each(
    item: &PricedPart<'_>,
    root: u32,
    relays: &[u32],
    ports: &PricedPorts<'_>,
    prices: &Prices,
    mut take: impl FnMut(RepairOption),
) {
    let search = ArborescenceSearch { item, root, relays, ports, prices };
    let mut add = |chosen| take(search.cheapest(chosen));
    if !item.part.any {
        let sets = code_helpers(item, ports.rack(root), CODE_SETS_MAX, ports, prices);
        return sets.into_iter().for_each(add);
    }
    let racks = by_rack(item, ports, prices);
    add(choose_helpers(item, ports.rack(root), &racks, ports, prices));
    let mut free: Vec<usize> = (item.forced()..item.holders.len()).collect();
    free.sort_by(|a, b| prices.whole(*a).total_cmp(&prices.whole(*b)));
    add((0..item.forced()).chain(free.into_iter().take(item.part.count)).collect());
}

/// The tree of these helpers, and its cost.
pub(super) fn joined(
    item: &PricedPart<'_>,
    root: u32,
    chosen: &[usize],
    ports: &PricedPorts<'_>,
    prices: &Prices,
) -> (f64, RepairOption) {
    let root_rack = ports.rack(root);
    let mut cost: f64 = chosen.iter().map(|place| prices.whole(*place)).sum();
    if ports.have_disks() {
        cost += ports.cost(ports.write(root), item.length);
    }
    let mut points = PricedPoints::new(item, root, chosen, ports);
    let used = points.used_racks(root_rack);
    cost += points.spread(root_rack, &used);
    let links = used.iter().filter_map(|rack| ports.rack_up(*rack));
    cost += links.map(|port| ports.cost(port, item.length)).sum::<f64>();
    let helpers = chosen.iter().map(|place| *place as u8).collect();
    (cost, RepairOption::Racks { helpers, sums: points.sums, arrivals: points.arrivals })
}

/// Helpers that the code takes, where not any of them will do, by what they and their racks send.
fn code_helpers(
    item: &PricedPart<'_>,
    root_rack: u32,
    count: usize,
    ports: &PricedPorts<'_>,
    prices: &Prices,
) -> Vec<Vec<usize>> {
    let rack_of = |place: usize| ports.rack(item.holders[place]);
    let opening = |rack: u32| match ports.rack_up(rack) {
        Some(port) if rack != root_rack => ports.cost(port, item.length),
        _ => 0.0,
    };
    let cost = |places: &[usize]| {
        let mut racks: Vec<u32> = places.iter().map(|place| rack_of(*place)).collect();
        racks.sort_unstable();
        racks.dedup();
        racks.into_iter().map(opening).sum::<f64>()
            + places.iter().map(|place| prices.whole(*place)).sum::<f64>()
    };
    let price = |place: usize| prices.whole(place) + opening(rack_of(place));
    code_sets(item, count, price, cost)
}

/// As many helpers as are wanted, at the least cost: `best[n]` is that of n from the racks so far.
fn choose_helpers(
    item: &PricedPart<'_>,
    root_rack: u32,
    racks: &[(u32, Vec<usize>)],
    ports: &PricedPorts<'_>,
    prices: &Prices,
) -> Vec<usize> {
    let wanted = item.wanted();
    let mut best = vec![f64::INFINITY; wanted + 1];
    best[0] = 0.0;
    let mut taken: Vec<Vec<usize>> = Vec::with_capacity(racks.len());
    let arriving = racks.iter().filter_map(|(rack, _)| ports.rack_down(*rack));
    let arriving = arriving.map(|port| ports.cost(port, item.length)).fold(f64::INFINITY, f64::min);
    for (rack, places) in racks {
        let forced = places.iter().filter(|place| **place < item.forced()).count();
        let opening = match ports.rack_up(*rack) {
            Some(port) if *rack != root_rack => ports.cost(port, item.length) + arriving,
            _ => 0.0,
        };
        let mut next = vec![f64::INFINITY; wanted + 1];
        let mut from = vec![0; wanted + 1];
        let mut helping = 0.0;
        for count in 0..=places.len().min(wanted) {
            if count > 0 {
                helping += prices.whole(places[count - 1]);
            }
            if count < forced {
                continue;
            }
            let cost = helping + if count > 0 { opening } else { 0.0 };
            for before in 0..=wanted - count {
                if best[before] + cost < next[before + count] {
                    next[before + count] = best[before] + cost;
                    from[before + count] = count;
                }
            }
        }
        best = next;
        taken.push(from);
    }
    let mut left = wanted;
    let mut chosen = Vec::with_capacity(wanted);
    for ((_, places), from) in racks.iter().zip(&taken).rev() {
        let count = from[left];
        chosen.extend(&places[..count]);
        left -= count;
    }
    chosen
}

/// A downlink, and what one more sum costs there.
struct PricedDownlink {
    rack: u32,
    next: f64,
    /// By what that grows with each.
    growth: f64,
}

impl PricedDownlink {
    /// A port that is not modelled costs nothing.
    fn new(
        rack: u32,
        port: Option<PortIndex>,
        length: f64,
        ports: &PricedPorts<'_>,
    ) -> PricedDownlink {
        let growth = port.map_or(PortGrowth::NONE, |port| ports.growth(port, length));
        PricedDownlink { rack, next: growth.cost(), growth: growth.factor }
    }

    /// Puts one more here, and returns what that costs.
    fn take(&mut self) -> f64 {
        let cost = self.next;
        self.next = (cost * self.growth).min(PRICE_MAX);
        cost
    }
}

/// The aggregation points of a tree, with their prices.
struct PricedPoints {
    /// The helpers, then the destination.
    nodes: Vec<PricedDownlink>,
    /// The racks of these, each once.
    racks: Vec<PricedDownlink>,
    /// How many sums come together at each helper.
    sums: Vec<u8>,
    at_root: usize,
    /// Sums that come from other racks, by rack.
    arrivals: Vec<(u32, u8)>,
}

impl PricedPoints {
    fn new(
        item: &PricedPart<'_>,
        root: u32,
        chosen: &[usize],
        ports: &PricedPorts<'_>,
    ) -> PricedPoints {
        let nodes = chosen.iter().map(|place| item.holders[*place]).chain([root]);
        let downlink = |node: u32| {
            PricedDownlink::new(ports.rack(node), Some(ports.down(node)), item.length, ports)
        };
        let nodes: Vec<PricedDownlink> = nodes.map(downlink).collect();
        let mut racks: Vec<PricedDownlink> = Vec::with_capacity(nodes.len());
        for PricedDownlink { rack, .. } in &nodes {
            if racks.iter().all(|known| known.rack != *rack) {
                racks.push(PricedDownlink::new(*rack, ports.rack_down(*rack), item.length, ports));
            }
        }
        PricedPoints { nodes, racks, sums: vec![0; chosen.len()], at_root: 0, arrivals: Vec::new() }
    }

    /// The racks of helpers but for the destination's.
    fn used_racks(&self, root_rack: u32) -> Vec<u32> {
        let racks = self.racks.iter().map(|downlink| downlink.rack);
        let mut racks: Vec<u32> = racks.filter(|rack| *rack != root_rack).collect();
        racks.sort_unstable();
        racks
    }

    /// Lets all sums come together where that is cheapest. Returns what it costs.
    fn spread(&mut self, root_rack: u32, used: &[u32]) -> f64 {
        let mut cost = 0.0;
        // The destination receives at least once: a helper's sum of its rack, or another rack's.
        for index in 0..self.helpers_in(root_rack) {
            cost += if index == 0 { self.join_at_root() } else { self.join_in(root_rack) };
        }
        for &rack in used {
            for _ in 1..self.helpers_in(rack) {
                cost += self.join_in(rack);
            }
        }
        for index in 0..used.len() {
            // The first must reach the destination's rack.
            let at = match index {
                0 => root_rack,
                _ => self.cheapest_rack(root_rack, used),
            };
            let link = self.racks.iter_mut().find(|downlink| downlink.rack == at);
            cost += link.map_or(0.0, PricedDownlink::take);
            match self.arrivals.iter_mut().find(|(rack, _)| *rack == at) {
                Some((_, count)) => *count += 1,
                None => self.arrivals.push((at, 1)),
            }
            cost += if at == root_rack && self.at_root == 0 {
                self.join_at_root()
            } else {
                self.join_in(at)
            };
        }
        cost
    }

    fn helpers_in(&self, rack: u32) -> usize {
        let helpers = &self.nodes[..self.sums.len()];
        helpers.iter().filter(|downlink| downlink.rack == rack).count()
    }

    fn cheapest_rack(&self, root_rack: u32, used: &[u32]) -> u32 {
        let cost = |rack: u32| {
            let link = self.racks.iter().find(|downlink| downlink.rack == rack);
            let node = self.cheapest_in(rack).map_or(f64::INFINITY, |at| self.nodes[at].next);
            link.map_or(0.0, |link| link.next) + node
        };
        let racks = used.iter().copied().chain([root_rack]).map(|rack| (cost(rack), rack));
        racks.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(root_rack, |(_, rack)| rack)
    }

    /// The cheapest node of a rack for one more sum, of equals the destination.
    fn cheapest_in(&self, rack: u32) -> Option<usize> {
        let root = self.sums.len();
        let nodes = [root].into_iter().chain(0..root).filter(|at| self.nodes[*at].rack == rack);
        nodes.min_by(|a, b| self.nodes[*a].next.total_cmp(&self.nodes[*b].next))
    }

    fn join_at_root(&mut self) -> f64 {
        self.at_root += 1;
        self.nodes[self.sums.len()].take()
    }

    fn join_in(&mut self, rack: u32) -> f64 {
        let at = self.cheapest_in(rack).expect("a rack that is used has a node");
        if at == self.sums.len() {
            return self.join_at_root();
        }
        self.sums[at] += 1;
        self.nodes[at].take()
    }
}

/// The links between racks that such a tree takes.
pub(super) fn each_crossing(
    item: &PricedPart<'_>,
    helpers: &[u8],
    arrivals: &[(u32, u8)],
    root: u32,
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    let root_rack = ports.rack(root);
    let racks = helpers.iter().map(|place| ports.rack(item.holders[usize::from(*place)]));
    let mut racks: Vec<u32> = racks.filter(|rack| *rack != root_rack).collect();
    racks.sort_unstable();
    racks.dedup();
    racks.iter().filter_map(|rack| ports.rack_up(*rack)).for_each(|p| charge(p, item.length));
    for (rack, count) in arrivals {
        if let Some(port) = ports.rack_down(*rack) {
            charge(port, f64::from(*count) * item.length);
        }
    }
}

/// A rack's part of the tree that is being built.
struct Branch {
    rack: u32,
    /// The node that sends the rack's sum on.
    relay: NodeId,
    /// Nodes that wait for sums of other racks, one entry for each.
    open: Vec<NodeId>,
}

/// The edges of such a tree.
pub(super) fn edges(
    helpers: &[(ChunkIndex, NodeId)],
    sums: &[u8],
    root: NodeId,
    bytes: u64,
    rack_of: impl Fn(NodeId) -> u32,
) -> Vec<Edge> {
    let edge = |child, parent| Edge { child, parent, bytes, carries: Carries::Partial };
    let mut edges = Vec::with_capacity(helpers.len());
    let root_rack = rack_of(root);
    let at_root = helpers.len() - sums.iter().map(|sums| usize::from(*sums)).sum::<usize>();
    let mut racks: Vec<u32> = helpers.iter().map(|(_, node)| rack_of(*node)).collect();
    racks.push(root_rack);
    racks.sort_unstable();
    racks.dedup();
    let mut branches: Vec<Branch> = Vec::with_capacity(racks.len());
    for rack in racks {
        let mut members: Vec<(usize, NodeId)> = helpers
            .iter()
            .zip(sums)
            .filter(|((_, node), _)| rack_of(*node) == rack)
            .map(|((_, node), sums)| (usize::from(*sums), *node))
            .collect();
        members.sort_by_key(|(sums, _)| std::cmp::Reverse(*sums));
        if rack == root_rack {
            members.insert(0, (at_root, root));
        }
        // Members in turn take the next place that is open, those with most places first.
        let mut open: std::collections::VecDeque<NodeId> = Default::default();
        for (index, &(places, node)) in members.iter().enumerate() {
            if index > 0 {
                let parent = open.pop_front().expect("enough sums for a tree within the rack");
                edges.push(edge(node, parent));
            }
            open.extend(std::iter::repeat_n(node, places));
        }
        branches.push(Branch { rack, relay: members[0].1, open: open.into() });
    }
    // The same, one level up: the destination's rack first, then those that wait for most.
    branches.sort_by_key(|branch| (branch.rack != root_rack, std::cmp::Reverse(branch.open.len())));
    let mut open: std::collections::VecDeque<NodeId> = Default::default();
    for (index, branch) in branches.iter().enumerate() {
        if index > 0 {
            let parent = open.pop_front().expect("enough sums for a tree of racks");
            edges.push(edge(branch.relay, parent));
        }
        open.extend(&branch.open);
    }
    edges
}
