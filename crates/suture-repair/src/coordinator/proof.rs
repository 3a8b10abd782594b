//! The proof of rebuilt chunks of which no checksum was recorded: by fingerprints of their stripe.
//!
//! Place: ... slices flow -> [chunk proven] and durable -> commit ...
//! Each heartbeat of a destination reports that its chunk is written. The coordinator then asks for
//! the chunk's fingerprint and for those of chunks that determine it, and has it published when
//! they fit. One helper is left out where another chunk can stand in for it at no more reading, so
//! that the chunk is compared with another set than it was made of: a copy that is wrong although
//! its own checksums agree is noticed.
//!
//! Where they do not fit, all fingerprints that can be had are asked for. If the others agree once
//! one copy is left out, and only then, that copy is corrupt; otherwise the attempt has failed.
//!
//! Invariants: a chunk without a recorded checksum is published only after its fingerprint was
//! compared; none is whose repair has lost its claim. Deliberately absent: where fingerprints are
//! computed (`chunk_store/proof.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use suture_code::Shortened;
use suture_code::fingerprint::{self, Fingerprint};

use super::Coordinator;
use super::attempt::{AskedFingerprint, Goal, GoalState, Proof, Rebuild};
use crate::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, RepairId, Stamp};
use crate::message::{CopyFault, Failure, FingerprintRequest, ToAgent};
use crate::mutant::Mutant;
use crate::stripe::Stripe;
use crate::time::Time;

/// A chunk whose proof is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    repair: RepairId,
    chunk: ChunkIndex,
    destination: NodeId,
}

impl Coordinator {
    /// A destination has written a chunk of which no checksum was recorded, and waits.
    pub(super) fn written(&mut self, now: Time, node: NodeId, repair: RepairId) {
        let Some(rebuild) = self.rebuild(repair) else { return };
        let mut goals = rebuild.goals.iter().filter(|goal| goal.destination == node);
        let Some(goal) = goals.find(|goal| goal.state == GoalState::Transferring) else { return };
        let due = Due { repair, chunk: goal.chunk, destination: node };
        if self.ledger.mistake.is(Mutant::ProveUnread)
            && let Some(proof) = self.proof(repair)
        {
            proof.proven.insert(due.chunk, Vec::new());
        }
        self.prove(now, due);
    }

    /// A fingerprint that was asked for.
    pub(super) fn fingerprint(
        &mut self,
        now: Time,
        node: NodeId,
        repair: RepairId,
        copy: ChunkCopy,
        sums: Arc<[u8]>,
    ) {
        let Some(rebuild) = self.rebuild(repair) else { return };
        let Some(asked) = rebuild.proof.asked.get(&copy.chunk) else { return };
        let alpha = rebuild.planned.job.code.sub_chunk_count();
        let bytes = Fingerprint::layout(alpha).chunk_bytes();
        if !asked.is_of(node, copy) || sums.len() as u64 != bytes {
            return;
        }
        let due: Vec<Due> = rebuild.due(repair).collect();
        self.proof(repair).expect("looked up above").sums.insert(copy.chunk, sums);
        self.ledger.progressed(now, repair);
        due.into_iter().for_each(|due| self.prove(now, due));
    }

    /// Does whatever comes next for the proof of a chunk.
    fn prove(&mut self, now: Time, due: Due) {
        let Some(rebuild) = self.rebuild(due.repair) else { return };
        // A stripe that is gone leaves a repair only until the answer to its pending commit.
        let Some(stripe) = self.stripes.get(rebuild.planned.plan.stripe) else { return };
        if rebuild.proof.proven.contains_key(&due.chunk) {
            // Without its claim the keeper may have the same chunk built by others.
            if !rebuild.claim.is_lost() || self.ledger.mistake.is(Mutant::PublishUnclaimed) {
                self.send(due.destination, ToAgent::Publish(due.repair));
            }
            return;
        }
        let mut copies = self.copies_that_can_be_read(stripe);
        // The copy that it takes the place of says nothing for it.
        copies.remove(&due.chunk);
        let helpers = if rebuild.proof.has_failed {
            Some(copies.keys().copied().collect())
        } else {
            rebuild.judges(due, copies.keys().copied().collect())
        };
        // Without enough of them at the moment the proof waits; in the end the repair stalls.
        let Some(helpers) = helpers else { return };
        let made =
            ChunkCopy { stripe: stripe.id, chunk: due.chunk, stamp: Stamp::from(due.repair) };
        let mut of = vec![made.at(due.destination)];
        of.extend(helpers.iter().map(|helper| copies[helper]));
        let (sums, asked) = (&rebuild.proof.sums, &rebuild.proof.asked);
        let retry = self.config.timers.stall_after;
        let is_missing = |at: &&CopyAt| !sums.contains_key(&at.copy.chunk);
        let is_due = |CopyAt { node, copy }: &&CopyAt| match asked.get(&copy.chunk) {
            Some(asked) => !asked.is_of(*node, *copy) || now.since(asked.asked_at) >= retry,
            None => true,
        };
        let missing: Vec<_> = of.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return self.judge(now, due, helpers);
        }
        let wanted: Vec<_> = missing.into_iter().filter(is_due).copied().collect();
        let requests = wanted.into_iter().map(|CopyAt { node, copy }| {
            let record = stripe.record(copy.chunk);
            let (bytes, crc, layout) = (record.bytes, record.crc, stripe.layout());
            let (repair, seed) = (due.repair, self.config.seed ^ due.repair.0);
            (node, FingerprintRequest { repair, copy, bytes, crc, seed, layout })
        });
        for (node, request) in requests.collect::<Vec<_>>() {
            let asked = &mut self.proof(due.repair).expect("looked up above").asked;
            let of = AskedFingerprint { node, copy: request.copy, asked_at: now };
            asked.insert(request.copy.chunk, of);
            self.send(node, ToAgent::Fingerprint(request));
        }
    }

    /// Every fingerprint that is needed has come: whether the chunk is what it should be.
    fn judge(&mut self, now: Time, due: Due, helpers: Vec<ChunkIndex>) {
        let Due { repair, chunk, .. } = due;
        let Some(rebuild) = self.rebuild(repair) else { return };
        let (code, proof) = (rebuild.planned.job.code, &rebuild.proof);
        if proof.has_failed {
            let odd = odd_one(&code, &proof.of(&helpers));
            return self.proof_failed(now, due, odd);
        }
        let fits = fits(&code, chunk, &proof.sums[&chunk], &proof.of(&helpers));
        let proof = self.proof(repair).expect("looked up above");
        if fits == Some(true) {
            proof.proven.insert(chunk, helpers);
        } else {
            proof.has_failed = true;
        }
        self.ledger.progressed(now, repair);
        self.prove(now, due);
    }

    /// Ends an attempt whose chunk does not fit: for its own fault, or for that of a copy.
    fn proof_failed(&mut self, now: Time, due: Due, odd: Option<ChunkIndex>) {
        let stripe = self.rebuild(due.repair).map(|rebuild| rebuild.planned.plan.stripe);
        let stripe = stripe.and_then(|stripe| self.stripes.get(stripe));
        let odd = odd.and_then(|odd| stripe?.copy(odd));
        let (node, why) = match odd {
            Some(at) => {
                self.faults.found_inconsistent(at);
                (at.node, Failure::Source { copy: at.copy, fault: CopyFault::Corrupt })
            }
            None => (due.destination, Failure::Inconsistent),
        };
        self.attempt_failed(now, due.repair, Some(node), why);
    }

    /// The stripe's chunks that are not lost and whose holders speak.
    fn copies_that_can_be_read(&self, stripe: &Stripe) -> BTreeMap<ChunkIndex, CopyAt> {
        let copies = stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?)));
        let can_be_read = |(chunk, at): &(ChunkIndex, CopyAt)| {
            self.health.is_up(at.node) && !self.is_lost(stripe.id, *chunk)
        };
        copies.filter(can_be_read).collect()
    }

    /// # Panics
    /// The chunk was compared with nothing, or its repair has lost its claim.
    pub(super) fn assert_proven(&self, repair: RepairId, node: NodeId) {
        let is_proven = |rebuild: &Rebuild| {
            let mut due = rebuild.due(repair).filter(|due| due.destination == node);
            due.all(|due| rebuild.proof.proven.get(&due.chunk).is_some_and(|with| !with.is_empty()))
        };
        // What has ended within the same event is cancelled.
        let is_proven = self.rebuild(repair).is_none_or(is_proven);
        assert!(is_proven, "proofs: {repair} is published at {node} and compared with nothing");
        let is_lost = self.rebuild(repair).is_some_and(|rebuild| rebuild.claim.is_lost());
        assert!(!is_lost, "claims: {repair} is published at {node} without its claim");
    }

    fn rebuild(&self, repair: RepairId) -> Option<&Rebuild> {
        self.ledger.get(repair)?.rebuild()
    }

    fn proof(&mut self, repair: RepairId) -> Option<&mut Proof> {
        self.ledger.proof_mut(repair)
    }
}

impl Rebuild {
    /// The chunks that are written, as far as is known.
    fn due(&self, repair: RepairId) -> impl Iterator<Item = Due> {
        let is_due = |goal: &&Goal| {
            goal.state == GoalState::Transferring && self.proof.asked.contains_key(&goal.chunk)
        };
        let goals = self.goals.iter().filter(is_due);
        goals.map(move |goal| Due { repair, chunk: goal.chunk, destination: goal.destination })
    }

    /// The chunks whose fingerprints say what that of a rebuilt chunk must be; `None` when they
    /// cannot be had at the moment.
    fn judges(&self, due: Due, available: Vec<ChunkIndex>) -> Option<Vec<ChunkIndex>> {
        let (code, lost) = (self.planned.job.code, [due.chunk]);
        let facts = self.planned.job.facts();
        let lanes = self.planned.plan.lanes.iter();
        let mut used: Vec<ChunkIndex> = lanes.flat_map(|lane| lane.helpers(&facts)).collect();
        used.sort_unstable();
        used.dedup();
        // Another one for each attempt, so that no helper is always left out.
        let left_out = used.get(due.repair.0 as usize % used.len().max(1)).copied();
        let others = available.iter().copied().filter(|chunk| Some(*chunk) != left_out);
        let others = code.helpers_for(&lost, &others.collect::<Vec<_>>()).ok();
        match others.filter(|others| others.len() <= used.len()) {
            Some(others) => Some(others),
            None => code.helpers_for(&lost, &available).ok(),
        }
    }
}

/// Whether a fingerprint is what those of `helpers` make it; `None` when they do not determine it.
fn fits(
    code: &Shortened,
    chunk: ChunkIndex,
    found: &[u8],
    helpers: &[(ChunkIndex, &[u8])],
) -> Option<bool> {
    let repaired = fingerprint::repaired(code, chunk, helpers).ok()?;
    Some(repaired == found)
}

/// Whether these fingerprints are of one codeword; `None` when none of them follows from others.
pub(super) fn agree(code: &Shortened, sums: &[(ChunkIndex, &[u8])]) -> Option<bool> {
    let mut is_compared = false;
    for (chunk, found) in sums {
        let others = sums.iter().map(|(other, _)| *other).filter(|other| other != chunk);
        let Ok(helpers) = code.helpers_for(&[*chunk], &others.collect::<Vec<_>>()) else {
            continue;
        };
        let is_helper = |(chunk, _): &&(ChunkIndex, &[u8])| helpers.contains(chunk);
        let helpers: Vec<_> = sums.iter().filter(is_helper).copied().collect();
        match fits(code, *chunk, found, &helpers) {
            Some(true) => is_compared = true,
            Some(false) => return Some(false),
            None => {}
        }
    }
    is_compared.then_some(true)
}

/// The only chunk without which the others agree, if they do not agree with it.
pub(super) fn odd_one(code: &Shortened, sums: &[(ChunkIndex, &[u8])]) -> Option<ChunkIndex> {
    if agree(code, sums) != Some(false) {
        return None;
    }
    let agrees_without = |odd: &ChunkIndex| {
        let others = sums.iter().filter(|(chunk, _)| chunk != odd);
        agree(code, &others.copied().collect::<Vec<_>>()) == Some(true)
    };
    let mut odd = sums.iter().map(|(chunk, _)| *chunk).filter(agrees_without);
    let first = odd.next();
    first.filter(|_| odd.next().is_none())
}
