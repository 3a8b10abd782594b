//! Where rebuilt chunks go: the least loaded of the nodes that may keep them.
//!
//! Place: inside of a balance. What "loaded" means is the balance's affair: it gives every node a
//! key and changes it as it dispatches.
//!
//! Invariants: a chosen node may keep the chunks (`keep.rs`): a rack that is full of the stripe, or
//! a node to be avoided, only where there is no other.

use crate::id::NodeId;
use crate::planner::View;
use crate::planner::keep::DestinationRule;
use crate::planner::least::Least;
use crate::planner::route::request::RouteRequest;

/// The nodes that accept chunks, ranked by a key.
#[derive(Debug)]
pub(in crate::planner) struct Destinations<'a> {
    view: &'a View<'a>,
    ranked: Least,
}

impl<'a> Destinations<'a> {
    /// Ranks the nodes that accept chunks by `key`; of equals, the lower id comes first.
    pub fn new(view: &'a View<'a>, key: impl Fn(NodeId) -> f64) -> Destinations<'a> {
        let key = |node: NodeId| if view.accepts(node) { key(node) } else { f64::INFINITY };
        Destinations { view, ranked: Least::new(view.cluster.ids().map(key).collect()) }
    }

    /// Changes a node's key.
    pub fn set(&mut self, node: NodeId, key: f64) {
        if self.view.accepts(node) {
            self.ranked.set(node.index(), key);
        }
    }

    /// Chooses as many nodes as the request rebuilds chunks, the least by its key first.
    pub fn choose(&self, request: &RouteRequest<'_>) -> Vec<NodeId> {
        let (job, wanted) = (request.job, request.lost.len());
        let rule = DestinationRule::new(job, wanted, self.view);
        let mut chosen: Vec<NodeId> = Vec::with_capacity(wanted);
        while chosen.len() < wanted {
            let serves = |index: usize| {
                let node = NodeId(index as u32);
                !chosen.contains(&node) && rule.allows(node, job, self.view)
            };
            let Some(index) = self.ranked.least_where(serves) else { break };
            chosen.push(NodeId(index as u32));
        }
        chosen
    }
}
