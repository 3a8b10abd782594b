//! Simulated metadata that are older than what agents know, and which agents may join.
//!
//! Place: around all of failure -> ... -> stripe healthy, at a coordinator's start.
//! It does what the metadata of production do: names belong to stores, epochs and stripe ids that
//! others have used are left to them. What becomes of an agent that joins is decided by the same
//! functions (`suture_repair::keeper::admission`).

use std::collections::{BTreeMap, BTreeSet};

use suture_repair::id::{NodeId, StripeId, StripeRange};
use suture_repair::keeper::admission::{Joining, Known, Refused, outranking};
use suture_repair::stripe::Stripe;

use super::Metadata;

/// No coordinator gives out as many stripe ids.
const STARTS_APART: u64 = 1 << 20;

/// The metadata as they were at one moment.
#[derive(Clone, Debug, Default)]
pub struct Backup {
    stripes: BTreeMap<StripeId, Stripe>,
    versions: BTreeMap<StripeId, u64>,
    next_stripe: u64,
    epoch: u32,
    unknown: BTreeSet<StripeRange>,
    stores: BTreeMap<NodeId, u64>,
}

impl Metadata {
    /// The metadata as they are now. Stripes that are being written may be acknowledged later, so a
    /// start with this backup takes them for stripes of others.
    pub fn backup(&self, writing: &BTreeSet<StripeId>) -> Backup {
        let alone = |&id: &StripeId| StripeRange { from: id, below: StripeId(id.0 + 1) };
        let written_by_others = writing.iter().map(alone);
        Backup {
            stripes: self.stripes.clone(),
            versions: self.versions.clone(),
            next_stripe: self.next_stripe,
            epoch: self.epoch,
            unknown: self.unknown.iter().copied().chain(written_by_others).collect(),
            stores: self.stores.clone(),
        }
    }

    /// The metadata are as they were then: stripes that were acknowledged since are unknown, those
    /// that were removed since are back.
    pub fn restore(&mut self, backup: Backup) {
        let Backup { stripes, versions, next_stripe, epoch, unknown, stores } = backup;
        (self.stripes, self.versions, self.next_stripe) = (stripes, versions, next_stripe);
        (self.epoch, self.unknown, self.stores) = (epoch, unknown, stores);
        self.is_restored = true;
        self.replaced.clear();
        self.changes.clear();
        let ids: Vec<StripeId> = self.stripes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.acknowledge(id));
    }

    /// The `start`-th coordinator begins: its epoch. Ids from which another start gives out are
    /// passed over: where that of production takes a random number, no two may be the same here.
    pub fn begin_epoch(&mut self, start: u64) -> u32 {
        self.protect(StripeId(start * STARTS_APART));
        self.epoch += 1;
        self.begun = self.epoch;
        self.joined.clear();
        self.epoch
    }

    /// The agent may be the node, and is from now on, or may not.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit(&mut self, node: NodeId, joining: Joining) -> Result<(), Refused> {
        let known = Known {
            chunks: self.stripes.values().filter(|s| s.chunk_on(node).is_some()).count() as u64,
            store: self.stores.get(&node).copied(),
            is_removed: false,
            is_replaced: self.replaced.contains(&node),
        };
        known.admit(joining)?;
        self.replaced.remove(&node);
        self.stores.extend(joining.store.map(|store| (node, store)));
        Ok(())
    }

    /// Which store the node has, if it has joined and its name was not given away since.
    pub fn store(&self, node: NodeId) -> Option<u64> {
        self.stores.get(&node).copied().filter(|_| !self.replaced.contains(&node))
    }

    /// The operator gives the node's name to the next store that joins.
    pub fn replace_node(&mut self, node: NodeId) {
        self.replaced.insert(node);
    }

    /// An agent that has followed this epoch joins. The epoch that the coordinator goes on in,
    /// where it is another one by that.
    pub fn outrank(&mut self, node: NodeId, followed: u32) -> Option<u32> {
        let raised = outranking(self.epoch, followed, self.joined.contains(&node));
        self.epoch = raised.unwrap_or(self.epoch);
        self.joined.insert(node);
        raised
    }

    /// Whether an agent of the node has joined since the coordinator began.
    pub fn has_joined(&self, node: NodeId) -> bool {
        self.joined.contains(&node)
    }

    /// Gives out no stripe id below this one from now on.
    pub fn protect(&mut self, below: StripeId) {
        let from = StripeId(self.next_stripe);
        if from < below {
            self.unknown.insert(StripeRange { from, below });
            self.next_stripe = below.0;
        }
    }

    /// Ids of stripes that others have given out, as ranges.
    pub fn unknown(&self) -> Vec<StripeRange> {
        self.unknown.iter().copied().collect()
    }

    /// Whether others have given out the id.
    pub fn is_unknown(&self, id: StripeId) -> bool {
        self.unknown.iter().any(|range| range.contains(id))
    }

    /// Whether the id was ever given out.
    pub fn is_given_out(&self, id: StripeId) -> bool {
        self.version_count(id) > 0
    }

    /// Makes a stripe visible: it is acknowledged to the client as stored.
    pub fn publish(&mut self, stripe: Stripe) {
        let id = stripe.id;
        self.stripes.insert(id, stripe);
        self.acknowledge(id);
    }

    /// Whether this version of a stripe was acknowledged to a client as stored, and was not
    /// removed, but the metadata of now do not have it, and can know that: a stripe of theirs that
    /// had the same id and was removed leaves copies behind that nothing distinguishes from those
    /// of the other.
    pub fn is_forgotten(&self, id: StripeId, version: u64) -> bool {
        let is_known = self.stripes.contains_key(&id);
        let is_here = is_known && self.version(id) == version;
        let is_distinct = is_known || self.version_count(id) == 1;
        !is_here && is_distinct && self.acknowledged.contains(&(id, version))
    }

    /// Which of the stripes that were given this id is meant. They are several where older metadata
    /// have given it out again.
    pub(super) fn version(&self, id: StripeId) -> u64 {
        self.versions.get(&id).copied().unwrap_or(0)
    }

    fn acknowledge(&mut self, id: StripeId) {
        self.acknowledged.insert((id, self.version(id)));
    }
}
