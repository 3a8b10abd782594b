//! Nodes by age: which are up, since when, and how likely each is to fail next.
//!
//! Place: before [failure detected]: which node fails next.
//! Sums over all nodes are closed forms where age does not matter, and loops where it does.

use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::lifetime::Lifetime;

/// All nodes. Times are seconds since the mission began.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    lifetime: Lifetime,
    born: Vec<f64>,
    is_up: Vec<bool>,
    up: usize,
}

impl Fleet {
    /// All new and up.
    pub fn new(lifetime: Lifetime, nodes: usize) -> Fleet {
        Fleet { lifetime, born: vec![0.0; nodes], is_up: vec![true; nodes], up: nodes }
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.is_up[node.index()]
    }

    pub fn up_count(&self) -> usize {
        self.up
    }

    pub fn fail(&mut self, node: NodeId) {
        self.is_up[node.index()] = false;
        self.up -= 1;
    }

    /// A new node takes its place.
    pub fn recover(&mut self, node: NodeId, now: f64) {
        self.is_up[node.index()] = true;
        self.born[node.index()] = now;
        self.up += 1;
    }

    /// Failures a second of one node that is up.
    pub fn hazard(&self, node: NodeId, now: f64) -> f64 {
        self.lifetime.hazard(now - self.born[node.index()])
    }

    /// Failures a second of all nodes.
    pub fn total_hazard(&self, now: f64) -> f64 {
        if self.lifetime.is_exponential() {
            return self.up as f64 / self.lifetime.mean();
        }
        self.ids_up().map(|node| self.hazard(node, now)).sum()
    }

    /// Failures that are expected from `from` to `to` if none happens.
    pub fn expected_failures(&self, from: f64, to: f64) -> f64 {
        if self.lifetime.is_exponential() {
            return self.up as f64 * (to - from) / self.lifetime.mean();
        }
        let of_node = |node: NodeId| {
            let born = self.born[node.index()];
            let hazard = |at: f64| self.lifetime.cumulative_hazard(at - born);
            hazard(to) - hazard(from)
        };
        self.ids_up().map(of_node).sum()
    }

    /// One of the nodes that are up, by hazard; `total` is that of all. There must be one.
    pub fn draw(&self, now: f64, total: f64, random: &mut Random) -> NodeId {
        if self.lifetime.is_exponential() {
            loop {
                let node = NodeId(random.index(self.born.len()) as u32);
                if self.is_up(node) {
                    return node;
                }
            }
        }
        let mut left = random.unit() * total;
        let passed = |node: &NodeId| {
            left -= self.hazard(*node, now);
            left < 0.0
        };
        let found = self.ids_up().find(passed);
        found.or_else(|| self.ids_up().next()).expect("one is up")
    }

    fn ids_up(&self) -> impl Iterator<Item = NodeId> {
        let ids = (0..self.born.len() as u32).map(NodeId);
        ids.filter(|node| self.is_up(*node))
    }
}
