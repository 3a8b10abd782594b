//! The metadata of the simulated cluster: the stripe map, generations, and the original bytes.
//!
//! Place: ... chunk proven and durable -> [commit location] -> stripe healthy.
//! It stands for the SQLite metadata of production: a commit is a compare-and-set on the stripe's
//! generation. It also remembers every chunk's original bytes, which no state machine ever sees.

mod restored;

use std::collections::{BTreeMap, BTreeSet};

use suture_code::Code;
use suture_repair::event::{Claim, Commit, Input, NodeState};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId, StripeRange,
};
use suture_repair::keeper::claims::Claims;
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::label::Label;
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

use crate::cut::Cut;
use crate::disk::{Safeguards, checksum};

pub use restored::Backup;

/// The map of stripes as a keeper has it, and every chunk's original bytes.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Stripes that are visible to the coordinator.
    pub stripes: BTreeMap<StripeId, Stripe>,
    /// The bytes of every chunk of every stripe there ever was, of each version.
    originals: BTreeMap<(StripeId, ChunkIndex), Vec<Vec<u8>>>,
    /// Which version of a stripe is meant, where it is not the first.
    versions: BTreeMap<StripeId, u64>,
    /// Stripes that were acknowledged to a client as stored, and that were not removed.
    acknowledged: BTreeSet<(StripeId, u64)>,
    /// The next stripe's id.
    pub next_stripe: u64,
    /// The last coordinator's epoch.
    pub epoch: u32,
    /// The epoch in which it began.
    begun: u32,
    /// Nodes that have joined since.
    joined: BTreeSet<NodeId>,
    /// Which store each node has.
    stores: BTreeMap<NodeId, u64>,
    /// Nodes whose name goes to the next store.
    replaced: BTreeSet<NodeId>,
    /// Ranges of ids that others have given out.
    unknown: BTreeSet<StripeRange>,
    /// Whether they are or were older than the chunks.
    pub is_restored: bool,
    /// Which repair works on which stripe.
    pub claims: Claims,
    /// New stripes have short chunks, known zeros and units.
    has_odd_stripes: bool,
    records_checksums: bool,
    /// Nodes that are not up.
    node_states: BTreeMap<NodeId, NodeState>,
    changes: Vec<Input>,
    safeguards: Safeguards,
}

/// Long enough for a claim to be prolonged, short enough to see those of the dead end.
const CLAIM_LIFETIME: Span = Span::from_secs(3);

impl Metadata {
    /// Metadata without a stripe; those to come are odd, or plain, with recorded checksums or
    /// without.
    pub fn new(safeguards: Safeguards, has_odd_stripes: bool, records_checksums: bool) -> Metadata {
        Metadata {
            stripes: BTreeMap::new(),
            originals: BTreeMap::new(),
            versions: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            next_stripe: 0,
            epoch: 0,
            begun: 0,
            joined: BTreeSet::new(),
            stores: BTreeMap::new(),
            replaced: BTreeSet::new(),
            unknown: BTreeSet::new(),
            is_restored: false,
            claims: Claims::new(CLAIM_LIFETIME),
            has_odd_stripes,
            records_checksums,
            node_states: BTreeMap::new(),
            changes: Vec::new(),
            safeguards,
        }
    }

    /// Makes a stripe of random bytes for the given nodes; it is not visible yet.
    pub fn write(&mut self, random: &mut Random, code: Code, bytes: u64, on: &[NodeId]) -> Stripe {
        let id = StripeId(self.next_stripe);
        self.next_stripe += 1;
        let mut chunks = vec![vec![0; bytes as usize]; code.chunk_count()];
        let data = &mut chunks[..code.data_chunks()];
        data.iter_mut().for_each(|chunk| random.fill(chunk));
        let cut = if self.has_odd_stripes {
            Cut::odd(&mut Random::new(id.0 ^ 0x5407_7d5e), code, bytes)
        } else {
            Cut::plain(code, bytes)
        };
        cut.encode(code, &mut chunks);
        let stamp = self.begin_version(id);
        let record = |(node, bytes): (&NodeId, &Vec<u8>)| ChunkRecord {
            node: (!bytes.is_empty()).then_some(*node),
            stamp,
            bytes: bytes.len() as u64,
            crc: self.records_checksums.then(|| checksum(bytes)),
        };
        let records = on.iter().zip(&chunks).map(record).collect();
        for (index, bytes) in chunks.into_iter().enumerate() {
            self.originals.entry((id, ChunkIndex(index as u8))).or_default().push(bytes);
        }
        let (chunk_bytes, unit_bytes, generation) = (bytes, cut.unit_bytes, Generation(1));
        let stripe = Stripe { id, code, chunk_bytes, unit_bytes, generation, chunks: records };
        stripe.check().expect("a stripe that there can be");
        stripe
    }

    /// One more stripe has this id: the stamp of its put.
    fn begin_version(&mut self, id: StripeId) -> Stamp {
        match self.version_count(id) {
            0 => Stamp(0),
            version => {
                self.versions.insert(id, version);
                Stamp::of_put(version)
            }
        }
    }

    /// How many stripes have been given this id.
    fn version_count(&self, id: StripeId) -> u64 {
        self.originals.get(&(id, ChunkIndex(0))).map_or(0, Vec::len) as u64
    }

    /// Ids that were given out and stand for no stripe: of puts that were given up, and of stripes
    /// that were removed.
    pub fn gone(&self) -> Vec<StripeId> {
        let stripes = self.originals.keys().filter(|(_, chunk)| chunk.0 == 0).map(|(id, _)| *id);
        let is_ours = |id: &StripeId| id.0 < self.next_stripe && !self.is_unknown(*id);
        stripes.filter(|id| is_ours(id) && !self.stripes.contains_key(id)).collect()
    }

    /// What the chunk must contain.
    pub fn original(&self, stripe: StripeId, chunk: ChunkIndex) -> &[u8] {
        &self.originals[&(stripe, chunk)][self.version(stripe) as usize]
    }

    /// The version of the stripe of which these are the chunk's bytes.
    pub fn version_with(&self, stripe: StripeId, chunk: ChunkIndex, bytes: &[u8]) -> Option<u64> {
        let versions = self.originals.get(&(stripe, chunk))?;
        versions.iter().position(|original| original == bytes).map(|version| version as u64)
    }

    /// Whether the copy, if it is of this version of its stripe, is what it must be in the stripe
    /// of now.
    pub fn is_of_version(&self, copy: ChunkCopy, version: u64) -> bool {
        let versions = &self.originals[&(copy.stripe, copy.chunk)];
        versions[version as usize] == self.original(copy.stripe, copy.chunk)
    }

    /// Whether the repair's coordinator has been superseded.
    pub fn is_superseded(&self, repair: RepairId) -> bool {
        repair.epoch() < self.begun
    }

    /// Whether the copy is what the put of some stripe has written: of which version of it.
    pub fn version_put(&self, copy: ChunkCopy) -> Option<u64> {
        let stamp = |version| if version == 0 { Stamp(0) } else { Stamp::of_put(version) };
        (0..self.version_count(copy.stripe)).find(|version| stamp(*version) == copy.stamp)
    }

    /// Compare-and-set of one location. `Ok` is the stripe as it is now, `Err` as it was.
    fn set_location(&mut self, commit: &Commit) -> Result<Stripe, Option<Stripe>> {
        let is_superseded = self.is_superseded(commit.repair);
        let Some(stripe) = self.stripes.get_mut(&commit.copy.stripe) else { return Err(None) };
        if is_superseded {
            // Its coordinator has been superseded, and the new one has read the map already.
            return Err(Some(stripe.clone()));
        }
        if self.safeguards.compare_and_set && stripe.generation != commit.generation {
            return Err(Some(stripe.clone()));
        }
        let other = stripe.chunk_on(commit.node).filter(|chunk| *chunk != commit.copy.chunk);
        if other != commit.clears {
            return Err(Some(stripe.clone()));
        }
        if let Some(chunk) = commit.clears {
            stripe.chunks[usize::from(chunk.0)].node = None;
        }
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation.0 += 1;
        self.claims.committed(commit.copy);
        Ok(stripe.clone())
    }

    /// Refuses a claim, because another repair is at work on the stripe.
    pub fn refuse(&mut self, claim: &Claim) {
        let stripe = self.stripes.get(&claim.stripe).cloned();
        let (repair, because_of) = (claim.repair, None);
        self.changes.push(Input::ClaimRefused { repair, stripe, because_of });
    }

    /// The keeper is notified how a node is; so is the coordinator, by a change.
    pub fn set_node(&mut self, node: NodeId, state: NodeState) {
        match state {
            NodeState::Up => self.node_states.remove(&node),
            state => self.node_states.insert(node, state),
        };
        self.changes.push(Input::NodeState { node, state });
    }

    /// How the keeper sees a node.
    pub fn node_state(&self, node: NodeId) -> NodeState {
        self.node_states.get(&node).copied().unwrap_or(NodeState::Up)
    }

    /// Removes a stripe; the coordinator is notified by a change.
    pub fn remove(&mut self, id: StripeId) {
        self.stripes.remove(&id);
        self.acknowledged.remove(&(id, self.version(id)));
        self.changes.push(Input::StripeRemoved(id));
    }
}

/// What is kept beside the chunks of a stripe: enough to recognise a wrong one.
pub fn label_of(stripe: StripeId) -> Label {
    Label::new(&stripe.0.to_le_bytes()).expect("eight bytes")
}

impl Keeper for Metadata {
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError> {
        let notification =
            |(&node, &state): (&NodeId, &NodeState)| Input::NodeState { node, state };
        self.changes.extend(self.node_states.iter().map(notification));
        Ok(self.stripes.values().cloned().collect())
    }

    fn changes(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.changes)
    }

    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError> {
        let (repair, stripe) = (claim.repair, self.stripes.get(&claim.stripe).cloned());
        let is_current = stripe.as_ref().is_some_and(|s| s.generation == claim.generation);
        let is_granted = is_current && !self.is_superseded(repair) && self.claims.take(now, claim);
        self.changes.push(if is_granted {
            Input::Claimed { repair, label: label_of(claim.stripe) }
        } else {
            Input::ClaimRefused { repair, stripe, because_of: None }
        });
        Ok(())
    }

    fn release(&mut self, repair: RepairId) -> Result<(), KeeperError> {
        self.claims.release(repair);
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), KeeperError> {
        let repair = commit.repair;
        let answer = match self.set_location(commit) {
            Ok(stripe) => Input::Committed { repair, stripe },
            Err(stripe) => Input::CommitRefused { repair, stripe },
        };
        self.changes.push(answer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_repair::keeper::conformance::{self, Kept};

    impl Kept for Metadata {
        fn keeper(&mut self) -> &mut dyn Keeper {
            self
        }

        fn remove(&mut self, stripe: StripeId) {
            Metadata::remove(self, stripe);
        }

        fn restart(&mut self) {
            let start = u64::from(self.begun) + 1;
            self.begin_epoch(start);
        }

        fn set_node(&mut self, node: NodeId, state: NodeState) -> bool {
            Metadata::set_node(self, node, state);
            true
        }

        fn claim_lifetime(&self) -> Span {
            CLAIM_LIFETIME
        }
    }

    fn with_one_stripe(safeguards: Safeguards) -> Metadata {
        let mut metadata = Metadata::new(safeguards, false, true);
        let code = "rs(2,1)".parse().expect("a code");
        let stripe = metadata.write(&mut Random::new(1), code, 64, &[0, 1, 2].map(NodeId));
        metadata.stripes.insert(stripe.id, stripe);
        metadata
    }

    #[test]
    fn the_simulated_metadata_keeps_every_promise_of_a_keeper() {
        conformance::check(|| with_one_stripe(Safeguards::ALL));
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn metadata_without_compare_and_set_does_not() {
        conformance::check(|| {
            with_one_stripe(Safeguards { compare_and_set: false, ..Safeguards::ALL })
        });
    }
}
