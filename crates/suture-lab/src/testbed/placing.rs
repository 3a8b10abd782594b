//! Where the coordinator of a testbed puts what is stored first.
//!
//! Place: before anything of a testbed is stored. A coordinator numbers nodes in the order in which
//! they join, and places by these numbers and by the stripe's own. So the seed of that order
//! decides where everything lies, and where the first stripe will lie can be asked before there is
//! any process: a scenario with a single stripe has to name a node that holds a chunk of it.

use suture_code::Code;
use suture_repair::cluster::{Cluster, NodeIntent};
use suture_repair::event::{Health, NodeStatus};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::message::DiskState;
use suture_repair::placement::{Placer, Wanted};
use suture_repair::random::Random;

/// The first stripe that a new coordinator gives out.
const FIRST: StripeId = StripeId(0);

/// The nodes in the order in which they join.
pub fn join_order(cluster: &Cluster, placement_seed: u64) -> Vec<NodeId> {
    let mut order: Vec<NodeId> = cluster.ids().collect();
    Random::new(placement_seed).shuffle(&mut order);
    order
}

/// The node of each chunk of the stripe that is stored first.
pub fn first_stripe(cluster: &Cluster, code: Code, placement_seed: u64) -> Vec<NodeId> {
    let order = join_order(cluster, placement_seed);
    let numbered = Cluster {
        nodes: order.iter().map(|id| cluster.node(*id).clone()).collect(),
        ..cluster.clone()
    };
    let empty = |node| NodeStatus {
        node,
        health: Health::Up,
        intent: NodeIntent::Serving,
        free_bytes: u64::MAX,
        disk: DiskState::Good,
        is_cut_off: false,
        chunks: 0,
        limits: Default::default(),
        links: Default::default(),
    };
    let nodes: Vec<NodeStatus> = numbered.ids().map(empty).collect();
    let wanted = Wanted { stripes: &[FIRST], width: code.chunk_count(), ..Wanted::default() };
    let placed = Placer::default().place(&numbered, &nodes, &wanted);
    placed.into_iter().flatten().map(|number| order[number.index()]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use suture_repair::cluster::Rate;

    use super::*;

    #[test]
    fn the_first_stripe_has_nodes_of_its_own_and_follows_the_order_in_which_they_join() {
        let cluster = Cluster::uniform(16, Rate(1e6));
        let code: Code = "rs(4,2)".parse().unwrap();
        let found = first_stripe(&cluster, code, 1);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 6, "{found:?}");
        // The numbers are the same under every seed; which nodes have them is not.
        let number = |seed, node: &NodeId| {
            join_order(&cluster, seed).iter().position(|other| other == node).unwrap()
        };
        let numbers = |seed| -> Vec<usize> {
            first_stripe(&cluster, code, seed).iter().map(|node| number(seed, node)).collect()
        };
        assert_eq!(numbers(1), numbers(2));
        assert_ne!(found, first_stripe(&cluster, code, 2));
    }
}
