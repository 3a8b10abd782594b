//! The metadata of the simulated cluster: the stripe map, generations, and the original bytes.
//!
//! Place: ... chunk proven and durable -> [commit location] -> stripe healthy.
//! It stands for the SQLite metadata of production: a commit is a compare-and-set on the stripe's
//! generation. It also remembers every chunk's original bytes, which no state machine ever sees.

use std::collections::BTreeMap;

use suture_code::Code;
use suture_repair::event::{Claim, Commit, Input, NodeState};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::keeper::claims::Claims;
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::label::Label;
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

use crate::cut::Cut;
use crate::disk::{Safeguards, checksum};

/// The map of stripes as a keeper has it, and every chunk's original bytes.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Stripes that are visible to the coordinator.
    pub stripes: BTreeMap<StripeId, Stripe>,
    /// The bytes of every chunk of every stripe there ever was.
    originals: BTreeMap<(StripeId, ChunkIndex), Vec<u8>>,
    /// The next stripe's id.
    pub next_stripe: u64,
    /// The last coordinator's epoch.
    pub epoch: u32,
    /// Who works on what.
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
            next_stripe: 0,
            epoch: 0,
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
        let cut = match self.has_odd_stripes {
            true => Cut::odd(&mut Random::new(id.0 ^ 0x5407_7d5e), code, bytes),
            false => Cut::plain(code, bytes),
        };
        cut.encode(code, &mut chunks);
        let record = |(node, bytes): (&NodeId, &Vec<u8>)| ChunkRecord {
            node: (!bytes.is_empty()).then_some(*node),
            stamp: Stamp(0),
            bytes: bytes.len() as u64,
            crc: self.records_checksums.then(|| checksum(bytes)),
        };
        let records = on.iter().zip(&chunks).map(record).collect();
        for (index, bytes) in chunks.into_iter().enumerate() {
            self.originals.insert((id, ChunkIndex(index as u8)), bytes);
        }
        let (chunk_bytes, unit_bytes, generation) = (bytes, cut.unit_bytes, Generation(1));
        let stripe = Stripe { id, code, chunk_bytes, unit_bytes, generation, chunks: records };
        stripe.check().expect("a stripe that there can be");
        stripe
    }

    /// What the chunk must contain.
    pub fn original(&self, stripe: StripeId, chunk: ChunkIndex) -> &[u8] {
        &self.originals[&(stripe, chunk)]
    }

    /// Compare-and-set of one location. `Ok` is the stripe as it is now, `Err` as it was.
    fn set_location(&mut self, commit: &Commit) -> Result<Stripe, Option<Stripe>> {
        let Some(stripe) = self.stripes.get_mut(&commit.copy.stripe) else { return Err(None) };
        if commit.repair.epoch() < self.epoch {
            // Its coordinator has been superseded, and the new one has read the map already.
            return Err(Some(stripe.clone()));
        }
        if self.safeguards.compare_and_set && stripe.generation != commit.generation {
            return Err(Some(stripe.clone()));
        }
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation.0 += 1;
        self.claims.committed(commit.copy);
        Ok(stripe.clone())
    }

    /// Refuses a claim, because somebody else is at work on the stripe.
    pub fn refuse(&mut self, claim: &Claim) {
        let stripe = self.stripes.get(&claim.stripe).cloned();
        self.changes.push(Input::ClaimRefused { repair: claim.repair, stripe });
    }

    /// The keeper learns how a node is; so does the coordinator, as a change.
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

    /// Removes a stripe; the coordinator learns of it as a change.
    pub fn remove(&mut self, id: StripeId) {
        self.stripes.remove(&id);
        self.changes.push(Input::StripeRemoved(id));
    }
}

/// What is kept beside the chunks of a stripe: enough to tell a wrong one.
pub fn label_of(stripe: StripeId) -> Label {
    Label::new(&stripe.0.to_le_bytes()).expect("eight bytes")
}

impl Keeper for Metadata {
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError> {
        let told = |(&node, &state): (&NodeId, &NodeState)| Input::NodeState { node, state };
        self.changes.extend(self.node_states.iter().map(told));
        Ok(self.stripes.values().cloned().collect())
    }

    fn changes(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.changes)
    }

    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError> {
        let (repair, stripe) = (claim.repair, self.stripes.get(&claim.stripe).cloned());
        let is_current = stripe.as_ref().is_some_and(|s| s.generation == claim.generation);
        let is_granted = is_current && repair.epoch() >= self.epoch && self.claims.take(now, claim);
        self.changes.push(match is_granted {
            true => Input::Claimed { repair, label: label_of(claim.stripe) },
            false => Input::ClaimRefused { repair, stripe },
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
            self.epoch += 1;
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
