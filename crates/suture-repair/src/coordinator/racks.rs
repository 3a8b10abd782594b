//! Where nodes are, and which stripes a single rack could take with it.
//!
//! Place: beside the whole life of a repair; what it counts is nothing to repair.
//! New chunks and rebuilt ones go where no rack has more of a stripe than its code can lose, as far
//! as nodes allow it (`placement.rs`, `planner/keep.rs`). Racks that are set over data that are
//! there, and racks that are too few for a code, leave stripes of which one has more: nothing of
//! them is lost, and without that rack they could not be read. They are counted as stripes change
//! and nodes move, so that no query has to visit all stripes.
//! Invariant: what is counted is what a look at every stripe would count.

use std::collections::BTreeMap;

use super::Coordinator;
use crate::cluster::{Cluster, Node};
use crate::event::Health;
use crate::id::{ChunkIndex, NodeId, RackId, StripeId};
use crate::mutant::Mutant;
use crate::planner::crowded_racks;
use crate::stripe::Stripe;
use crate::time::Time;

/// Stripes that could not be read without one of the racks.
#[derive(Debug, Default)]
pub(super) struct Crowded {
    /// Of each that rack, and of several the fullest.
    racks: BTreeMap<StripeId, RackId>,
    /// How many stripes each of these racks has.
    counts: BTreeMap<RackId, u64>,
}

impl Crowded {
    /// Notes which rack the stripe could not be read without, if there is one.
    fn note(&mut self, stripe: StripeId, rack: Option<RackId>) {
        let before = match rack {
            Some(rack) => self.racks.insert(stripe, rack),
            None => self.racks.remove(&stripe),
        };
        if before == rack {
            return;
        }
        if let Some(before) = before
            && let Some(count) = self.counts.get_mut(&before)
        {
            *count -= 1;
        }
        if let Some(rack) = rack {
            *self.counts.entry(rack).or_default() += 1;
        }
        self.counts.retain(|_, count| *count > 0);
    }
}

/// The rack without which a stripe could not be read, if there is one; of several the fullest.
fn crowded_rack(stripe: &Stripe, cluster: &Cluster) -> Option<RackId> {
    if cluster.racks.is_empty() {
        return None;
    }
    let racks = crowded_racks(cluster, stripe.nodes(), stripe.code.loss_tolerance());
    // A code with local groups may outlive more than it does in any case.
    racks.into_iter().find(|rack| !outlives(stripe, cluster, *rack))
}

/// Whether the chunks of a stripe that are not in the rack are enough for its data.
fn outlives(stripe: &Stripe, cluster: &Cluster, rack: RackId) -> bool {
    let is_left = |chunk: &ChunkIndex| {
        let record = stripe.record(*chunk);
        let is_elsewhere = |node: NodeId| cluster.rack_of(node) != Some(rack);
        record.is_known_zero() || record.node.is_some_and(is_elsewhere)
    };
    let left: Vec<ChunkIndex> = stripe.indices().filter(is_left).collect();
    stripe.code.decodable(&left)
}

impl Coordinator {
    /// A node is new, or its links or its rack are declared anew.
    pub(super) fn set_node(&mut self, now: Time, id: NodeId, node: Node) {
        self.rates.declare(id, node.clone());
        let node = self.counted(id, node.rack);
        let has_moved = match self.ledger.cluster().nodes.get(id.index()) {
            None => {
                self.health.add(now, false);
                true
            }
            Some(known) if *known == node => return,
            Some(known) if known.rack != node.rack => {
                // Plans were made for other racks, and what was blocked for want of them may go.
                self.throttle.racks_changed();
                self.unplan_all();
                self.queue.wake_all();
                true
            }
            Some(_) => false,
        };
        if self.health.is_up(id) {
            self.ledger.set_node(now, id, node);
        } else {
            // Its links are unused since its agent began anew: what was declared before counts no
            // more, not even on average.
            self.ledger.set_measured(now, id, node);
        }
        if has_moved {
            let stripes: Vec<StripeId> = self.stripes.on_node(id).map(|stripe| stripe.id).collect();
            stripes.into_iter().for_each(|stripe| self.count_crowded(stripe));
        }
    }

    /// A stripe is new, has changed or is gone, or a node of it has moved.
    pub(super) fn count_crowded(&mut self, id: StripeId) {
        if self.ledger.mistake.is(Mutant::MissCrowded) {
            return;
        }
        let stripe = self.stripes.get(id);
        let rack = stripe.and_then(|stripe| crowded_rack(stripe, self.ledger.cluster()));
        self.crowded.note(id, rack);
    }

    /// How many stripes could not be read without each rack. None, where all nodes that have not
    /// failed are in one: then chunks have nowhere else to go.
    pub(super) fn crowded(&self) -> Vec<(RackId, u64)> {
        let cluster = self.ledger.cluster();
        let standing = self.health.iter().filter(|(_, known)| known.health != Health::Failed);
        let mut racks = standing.map(|(node, _)| cluster.rack_of(node));
        let first = racks.next().flatten();
        if first.is_some() && racks.all(|rack| rack == first) {
            return Vec::new();
        }
        self.crowded.counts.iter().map(|(rack, count)| (*rack, *count)).collect()
    }

    /// # Panics
    /// Something else is counted than is so.
    pub(super) fn assert_crowded(&self) {
        let cluster = self.ledger.cluster();
        let crowded = self.stripes.iter().filter_map(|s| Some((s.id, crowded_rack(s, cluster)?)));
        let crowded: BTreeMap<StripeId, RackId> = crowded.collect();
        assert_eq!(self.crowded.racks, crowded, "racks: stripes that one could take with it");
        let mut counts: BTreeMap<RackId, u64> = BTreeMap::new();
        crowded.values().for_each(|rack| *counts.entry(*rack).or_default() += 1);
        assert_eq!(self.crowded.counts, counts, "racks: how many stripes each could take with it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Rate;
    use crate::id::{Generation, Stamp};
    use crate::stripe::ChunkRecord;

    /// The rack without which a stripe of this code could not be read, whose chunks are on nodes of
    /// their own, and these in one rack; those without bytes are `zero`.
    fn rack_of_all(code: &str, inside: &[u32], zero: &[u8]) -> Option<RackId> {
        let code: suture_code::Code = code.parse().unwrap();
        let count = code.chunk_count() as u32;
        let mut cluster = Cluster::uniform(count as usize, Rate(1e6));
        let rack = cluster.rack("r");
        inside.iter().for_each(|node| cluster.nodes[*node as usize].rack = Some(rack));
        let record = |node: u32| {
            let is_zero = zero.iter().any(|chunk| u32::from(*chunk) == node);
            ChunkRecord {
                node: (!is_zero).then_some(NodeId(node)),
                stamp: Stamp(0),
                bytes: if is_zero { 0 } else { 64 },
                crc: None,
            }
        };
        let stripe = Stripe {
            id: StripeId(1),
            code,
            chunk_bytes: 64,
            unit_bytes: 64,
            generation: Generation(1),
            chunks: (0..count).map(record).collect(),
        };
        crowded_rack(&stripe, &cluster)
    }

    #[test]
    fn what_is_left_without_a_rack_has_to_be_enough() {
        assert_eq!(rack_of_all("rs(3,2)", &[0, 4], &[]), None);
        assert_eq!(rack_of_all("rs(3,2)", &[0, 1, 4], &[]), Some(RackId(0)));
        // What is known to be zero is on no node, and never lacks.
        assert_eq!(rack_of_all("rs(3,2)", &[0, 1, 4], &[1]), None);
        // A local group lacks one chunk each, or all of one.
        assert_eq!(rack_of_all("lrc(4,2,1)", &[0, 2, 6], &[]), None);
        assert_eq!(rack_of_all("lrc(4,2,1)", &[0, 1, 4], &[]), Some(RackId(0)));
    }

    #[test]
    fn a_stripe_counts_for_one_rack_at_a_time() {
        let mut crowded = Crowded::default();
        for (stripe, rack) in [(1, Some(0)), (2, Some(0)), (1, Some(3)), (1, Some(3)), (7, None)] {
            crowded.note(StripeId(stripe), rack.map(RackId));
        }
        let counts: Vec<(u32, u64)> = crowded.counts.iter().map(|(r, n)| (r.0, *n)).collect();
        assert_eq!(counts, [(0, 1), (3, 1)]);
        crowded.note(StripeId(1), None);
        crowded.note(StripeId(2), None);
        assert!(crowded.counts.is_empty() && crowded.racks.is_empty());
    }
}
