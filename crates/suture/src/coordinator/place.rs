//! Which nodes a new stripe goes to: the least filled ones, each at most once.
//!
//! Place: put -> [placement]; before anything can fail.
//! Equally filled nodes are taken in an order that differs from stripe to stripe. Taking them in
//! turn would give each node the same few neighbours, and when it dies only those could help;
//! mixed, everybody shares a little with everybody, and a repair draws on all.
//!
//! Fill is counted in chunks: what is stored, and what puts have been promised but not committed.

use std::collections::BTreeMap;

use suture_repair::event::{Health, Status};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::random::Random;

/// Remembers what is promised.
#[derive(Clone, Debug, Default)]
pub struct Placer {
    promised: BTreeMap<NodeId, u64>,
}

impl Placer {
    /// Chooses up to `width` nodes for each stripe: up, and with room for one more chunk beside
    /// those that they are promised.
    pub fn place(
        &mut self,
        status: &Status,
        stripes: &[StripeId],
        width: usize,
        chunk_bytes: u64,
    ) -> Vec<Vec<NodeId>> {
        stripes.iter().map(|id| self.place_one(status, *id, width, chunk_bytes)).collect()
    }

    /// Forgets promises: they are kept, and so counted as stored, or will not be.
    pub fn unplace(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            if let Some(count) = self.promised.get_mut(node) {
                *count = count.saturating_sub(1);
            }
        }
    }

    fn place_one(
        &mut self,
        status: &Status,
        stripe: StripeId,
        width: usize,
        chunk_bytes: u64,
    ) -> Vec<NodeId> {
        let mut order = Random::new(stripe.0);
        let mut candidates = Vec::new();
        for &(node, health, free_bytes, chunks) in &status.nodes {
            let promised = self.promised.get(&node).copied().unwrap_or(0);
            if health == Health::Up && free_bytes > chunk_bytes.saturating_mul(promised + 1) {
                candidates.push((chunks + promised, order.next_u64(), node));
            }
        }
        candidates.sort_unstable();
        let mut nodes: Vec<NodeId> = candidates.iter().take(width).map(|c| c.2).collect();
        // Which of them holds parity must not depend on how filled they are.
        order.shuffle(&mut nodes);
        nodes.iter().for_each(|node| *self.promised.entry(*node).or_default() += 1);
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 1000;

    fn cluster(nodes: u32) -> Status {
        let node = |id| (NodeId(id), Health::Up, 1_000_000, 0);
        Status { nodes: (0..nodes).map(node).collect(), ..Status::default() }
    }

    fn ids(count: u64) -> Vec<StripeId> {
        (0..count).map(StripeId).collect()
    }

    #[test]
    fn chunks_spread_evenly_over_nodes_and_over_pairs_of_nodes() {
        let placed = Placer::default().place(&cluster(12), &ids(400), 9, CHUNK);
        let mut count = [0; 12];
        let mut together = [0; 12];
        for nodes in &placed {
            nodes.iter().for_each(|node| count[node.index()] += 1);
            if nodes.contains(&NodeId(0)) {
                nodes.iter().for_each(|node| together[node.index()] += 1);
            }
        }
        assert!(count.iter().all(|c| *c == 300), "{count:?}");
        let others = &together[1..];
        assert!(others.iter().all(|c| (200..=240).contains(c)), "{others:?}");
    }

    #[test]
    fn a_stripe_uses_each_node_once_and_only_nodes_that_can_take_it() {
        let mut status = cluster(12);
        status.nodes[3].1 = Health::Suspect;
        status.nodes[4].2 = CHUNK;
        for nodes in Placer::default().place(&status, &ids(50), 9, CHUNK) {
            let mut distinct = nodes.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((nodes.len(), distinct.len()), (9, 9));
            assert!(!nodes.contains(&NodeId(3)) && !nodes.contains(&NodeId(4)));
        }
    }

    #[test]
    fn an_emptier_node_is_preferred_and_promises_count() {
        let mut status = cluster(4);
        status.nodes[0].3 = 5;
        let mut placer = Placer::default();
        let first = placer.place(&status, &ids(1), 3, CHUNK);
        assert!(!first[0].contains(&NodeId(0)));
        placer.place(&status, &ids(5), 3, CHUNK);
        placer.unplace(&first[0]);
        assert_eq!(placer.promised.values().sum::<u64>(), 15);
    }

    #[test]
    fn too_few_nodes_give_a_shorter_list() {
        assert_eq!(Placer::default().place(&cluster(5), &ids(1), 9, CHUNK)[0].len(), 5);
    }
}
