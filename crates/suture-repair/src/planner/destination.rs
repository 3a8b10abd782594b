//! Where rebuilt chunks go: the least loaded of the nodes that may keep them.
//!
//! Place: inside of a balance. What "loaded" means is the balance's affair: it gives every node a
//! key and changes it as it dispatches.
//!
//! Invariants: a node that holds (or should hold) a chunk of the stripe, or accepts none, is never
//! chosen; one to be avoided only where there is no other.

use crate::id::NodeId;
use crate::planner::View;
use crate::planner::least::Least;
use crate::planner::task::Task;

/// All nodes by their keys.
#[derive(Debug)]
pub(super) struct Destinations<'a> {
    view: &'a View<'a>,
    ranked: Least,
    /// For each node, the last choice that it was barred from.
    barred: Vec<u64>,
    choice: u64,
}

impl<'a> Destinations<'a> {
    /// Ranks the nodes that accept chunks by `key`; of equals, the lower id comes first.
    pub fn new(view: &'a View<'a>, key: impl Fn(NodeId) -> f64) -> Destinations<'a> {
        let key = |node: NodeId| if view.accepts[node.index()] { key(node) } else { f64::INFINITY };
        let ranked = Least::new(view.cluster.ids().map(key).collect());
        Destinations { view, ranked, barred: vec![0; view.cluster.nodes.len()], choice: 0 }
    }

    /// Changes a node's key.
    pub fn set(&mut self, node: NodeId, key: f64) {
        if self.view.accepts[node.index()] {
            self.ranked.set(node.index(), key);
        }
    }

    /// As many nodes as the task rebuilds chunks, the least first.
    pub fn choose(&mut self, task: &Task<'_>) -> Vec<NodeId> {
        let (job, wanted) = (task.job, task.lost.len());
        let mut chosen = Vec::with_capacity(wanted);
        self.bar_holders(task);
        job.avoid.iter().for_each(|&node| self.bar(node));
        self.take(wanted, &mut chosen);
        if chosen.len() < wanted {
            self.bar_holders(task);
            chosen.iter().for_each(|&node| self.bar(node));
            self.take(wanted, &mut chosen);
        }
        chosen
    }

    /// Begins a choice, without those that have (or should have) a chunk of the stripe.
    fn bar_holders(&mut self, task: &Task<'_>) {
        self.choice += 1;
        task.job.survivors.iter().for_each(|(_, node)| self.bar(*node));
        task.job.excluded.iter().for_each(|&node| self.bar(node));
    }

    fn bar(&mut self, node: NodeId) {
        self.barred[node.index()] = self.choice;
    }

    fn take(&mut self, wanted: usize, chosen: &mut Vec<NodeId>) {
        while chosen.len() < wanted {
            let is_free = |index: usize| self.barred[index] != self.choice;
            let Some(index) = self.ranked.least_where(is_free) else { return };
            let node = NodeId(index as u32);
            self.bar(node);
            chosen.push(node);
        }
    }
}
