//! Alternating paths: what overloads a node moves to others, shortest paths first (Dinic).
//!
//! Place: beneath `max_flow.rs`, one round of its search for the least time. A path is x ships less
//! and y more of one demand, y less and z more of another, until a node has capacity left.

use crate::max_flow::{NodeLink, Transport};

/// Not reached from any overloaded node.
const UNSEEN: u32 = u32::MAX;

/// Stays as it is, and is not to be reached.
const FIXED: u32 = u32::MAX - 1;

/// One round of shortest alternating paths.
pub(super) struct AlternatingPaths {
    /// How many demands away from an overloaded node each node is; of a demand, the level of the
    /// node that it was reached from.
    node_levels: Vec<u32>,
    demand_levels: Vec<u32>,
    /// The link to be tried next.
    node_next: Vec<u32>,
    demand_next: Vec<u32>,
    /// Nodes in the order in which they were reached.
    reached: Vec<u32>,
    /// Demands on the current path: less by the first link, more by the second.
    path: Vec<(u32, u32)>,
}

impl AlternatingPaths {
    pub fn new(transport: &Transport) -> AlternatingPaths {
        let (node_count, demand_count) = (transport.loads.len(), transport.limits.len());
        AlternatingPaths {
            node_levels: vec![UNSEEN; node_count],
            demand_levels: vec![UNSEEN; demand_count],
            node_next: vec![0; node_count],
            demand_next: vec![0; demand_count],
            reached: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Moves what overloads nodes to others, until none is overloaded.
    ///
    /// # Errors
    /// Nodes that are overloaded together, ascending: those that still are, and the full ones that
    /// they reach.
    pub fn fit(&mut self, transport: &mut Transport, capacities: &[u64]) -> Result<(), Vec<u32>> {
        // Each time the shortest path is longer, and none visits a node twice.
        for _ in 0..=capacities.len() {
            let found = self.label(transport, capacities);
            if self.reached.is_empty() {
                return Ok(());
            }
            if !found {
                let mut nodes = std::mem::take(&mut self.reached);
                nodes.sort_unstable();
                return Err(nodes);
            }
            let (nodes, demands) = (self.node_next.len(), self.demand_next.len());
            self.node_next.copy_from_slice(&transport.at_first[..nodes]);
            self.demand_next.copy_from_slice(&transport.first[..demands]);
            for at in 0..self.reached.len() {
                let node = self.reached[at];
                if self.node_levels[node as usize] > 0 {
                    break;
                }
                self.relieve(transport, capacities, node);
            }
        }
        Err(Vec::new())
    }

    /// Numbers nodes by their distance, as far as the nearest that are not full. Whether there are
    /// any.
    fn label(&mut self, transport: &Transport, capacities: &[u64]) -> bool {
        let AlternatingPaths { node_levels, demand_levels, reached, .. } = self;
        let Transport { links, limits, first, loads, is_fixed, .. } = transport;
        demand_levels.fill(UNSEEN);
        reached.clear();
        for (node, &capacity) in capacities.iter().enumerate() {
            node_levels[node] = if is_fixed[node] { FIXED } else { UNSEEN };
            if loads[node] > capacity {
                node_levels[node] = 0;
                reached.push(node as u32);
            }
        }
        let (mut at, mut last_level) = (0, UNSEEN);
        while at < reached.len() {
            let node = reached[at] as usize;
            let level = node_levels[node];
            if level >= last_level {
                break;
            }
            for &NodeLink { link, demand } in transport.links_at(node) {
                let demand = demand as usize;
                if demand_levels[demand] != UNSEEN || links[link as usize].units == 0 {
                    continue;
                }
                demand_levels[demand] = level;
                let limit = limits[demand];
                for other in &links[first[demand] as usize..first[demand + 1] as usize] {
                    let node = other.node as usize;
                    if other.units < limit && node_levels[node] == UNSEEN {
                        node_levels[node] = level + 1;
                        reached.push(other.node);
                        if loads[node] < capacities[node] {
                            last_level = level + 1;
                        }
                    }
                }
            }
            at += 1;
        }
        last_level != UNSEEN
    }

    /// Pushes the overload of `origin` down the levels, as far as it goes.
    fn relieve(&mut self, transport: &mut Transport, capacities: &[u64], origin: u32) {
        self.path.clear();
        let mut node = origin as usize;
        loop {
            let overload = transport.loads[origin as usize] - capacities[origin as usize];
            if overload == 0 {
                return;
            }
            if !self.path.is_empty() && transport.loads[node] < capacities[node] {
                let spare = capacities[node] - transport.loads[node];
                self.push(transport, overload.min(spare));
                self.path.clear();
                node = origin as usize;
            } else if let Some(step) = self.step(transport, node) {
                self.path.push(step);
                node = transport.links[step.1 as usize].node as usize;
            } else if let Some((less, more)) = self.path.pop() {
                // Nothing further from here: do not come back by this link.
                self.demand_next[transport.demand_of[more as usize] as usize] += 1;
                node = transport.links[less as usize].node as usize;
            } else {
                return;
            }
        }
    }

    /// The next demand of which `node` could ship less and a node one level further more.
    fn step(&mut self, transport: &Transport, node: usize) -> Option<(u32, u32)> {
        let Transport { links, limits, first, .. } = transport;
        let level = self.node_levels[node];
        let next = &mut self.node_next[node];
        while *next < transport.at_first[node + 1] {
            let NodeLink { link: less, demand } = transport.at[*next as usize];
            let demand = demand as usize;
            if self.demand_levels[demand] == level && links[less as usize].units > 0 {
                let (limit, end) = (limits[demand], first[demand + 1]);
                let from = self.demand_next[demand];
                let is_next = |more: &u32| {
                    let link = links[*more as usize];
                    self.node_levels[link.node as usize] == level + 1 && link.units < limit
                };
                let found = (from..end).find(is_next);
                self.demand_next[demand] = found.unwrap_or(end.max(from));
                if let Some(more) = found {
                    return Some((less, more));
                }
            }
            *next += 1;
        }
        None
    }

    /// Ships as much as possible along the path, `units_max` at most.
    fn push(&self, transport: &mut Transport, units_max: u64) {
        let movable = |&(less, more): &(u32, u32)| {
            let limit = transport.limits[transport.demand_of[more as usize] as usize];
            let (less, more) = (transport.links[less as usize], transport.links[more as usize]);
            u64::from(less.units.min(limit - more.units))
        };
        let units = self.path.iter().map(movable).fold(units_max, u64::min) as u32;
        for &(less, more) in &self.path {
            let link = &mut transport.links[less as usize];
            link.units -= units;
            transport.loads[link.node as usize] -= u64::from(units);
            transport.ship(more as usize, units);
        }
    }
}
