//! From a durable chunk to the stripe's new location: one compare-and-set after the other.
//!
//! Place: ... chunk proven and durable -> [commit location -> stripe healthy].
//! A destination reports that a chunk is stored; its location is asked for, one of a stripe at a
//! time, since each gives the stripe a new generation. What the metadata answer decides: their
//! stripe is taken for what it is, also where it is not what was asked for.

use super::Coordinator;
use super::attempt::{Attempt, SettledCommit};
use crate::event::{Commit, Output, Report};
use crate::id::{ChunkCopy, CopyAt, NodeId, RepairId, Stamp};
use crate::message::ToAgent;
use crate::mutant::Mutant;
use crate::stripe::Stripe;
use crate::time::Time;

impl Coordinator {
    pub(super) fn stored(&mut self, now: Time, node: NodeId, id: RepairId, copy: ChunkCopy) {
        if copy.stamp == Stamp::from(id) && self.ledger.chunk_done(id, node, copy) {
            return self.commit_next(now, id);
        }
        self.send(node, ToAgent::Forget(id));
        if id.epoch() == self.ledger.epoch() {
            self.reconcile(node, copy);
        } else {
            // Perhaps of other metadata, which gave the same ids to something else: a listing shows
            // whether the copy is what its name says.
            self.send(node, ToAgent::List);
        }
    }

    /// Asks for the location of the next durable chunk, unless one is being asked for.
    pub(super) fn commit_next(&mut self, now: Time, id: RepairId) {
        let stripe = self.ledger.get(id).and_then(|attempt| self.stripes.get(attempt.stripe()));
        let Some(generation) = stripe.map(|stripe| stripe.generation) else { return };
        let commit = self.ledger.commit_next(now, id, generation);
        if self.ledger.mistake.is(Mutant::AssumeCommit) {
            commit.iter().for_each(|commit| self.assume(commit));
        }
        self.outputs.extend(commit.map(Output::Commit));
    }

    /// A mistake on purpose.
    fn assume(&mut self, commit: &Commit) {
        let Some(mut stripe) = self.stripes.get(commit.copy.stripe).cloned() else { return };
        stripe.chunks[usize::from(commit.copy.chunk.0)].node = Some(commit.node);
        self.stripes.put(stripe);
        self.count_crowded(commit.copy.stripe);
    }

    pub(super) fn committed(&mut self, now: Time, id: RepairId, stripe: Stripe) {
        let asked = self.ledger.get(id).and_then(Attempt::commit);
        let is_answer = |c: &Commit| stripe.copy(c.copy.chunk) == Some(c.copy.at(c.node));
        // Answers may come twice: one about another chunk of the stripe is none about this one.
        if !asked.is_some_and(|commit| is_answer(&commit)) {
            return;
        }
        let settled = self.ledger.settle(id);
        let Some(commit) = self.forget(id, settled) else { return };
        let Some(before) = self.stripes.get(stripe.id) else {
            // Removed meanwhile: its copies have become orphans.
            self.end_repair_of(stripe.id);
            return self.reconcile(commit.node, commit.copy);
        };
        let is_past = before.generation > stripe.generation;
        let before = before.copy(commit.copy.chunk);
        self.repaired_chunks += 1;
        let (copy, node, bytes) =
            (commit.copy, commit.node, stripe.record(commit.copy.chunk).bytes);
        self.repaired_bytes += bytes;
        self.report(Report::Committed { repair: id, copy, node, bytes });
        self.failures.remove(&stripe.id);
        self.take_answer(stripe);
        if !self.ledger.mistake.is(Mutant::ForgetNext) {
            self.commit_next(now, id);
        }
        if !self.lost.contains_key(&copy.stripe) {
            self.report(Report::Healthy(copy.stripe));
        }
        if is_past {
            // It has another location since: a good copy all the same, or one in excess.
            return self.reconcile(node, copy);
        }
        if let Some(CopyAt { node, copy }) = before {
            self.report_drained(node);
            if self.health.is_up(node) {
                self.reconcile(node, copy);
            }
        }
    }

    pub(super) fn commit_refused(&mut self, now: Time, id: RepairId, current: Option<Stripe>) {
        let Some(commit) = self.ledger.get(id).and_then(Attempt::commit) else { return };
        if let Some(stripe) = &current
            && stripe.copy(commit.copy.chunk) == Some(commit.copy.at(commit.node))
        {
            // The first answer was lost on its way.
            return self.committed(now, id, stripe.clone());
        }
        let known = self.stripes.get(commit.copy.stripe).map(|stripe| stripe.generation);
        // Where it was removed and named again, the generation that the commit has is of before.
        let is_named_again = known.is_some_and(|known| known < commit.generation);
        let is_old = |stripe: &Stripe| stripe.generation <= commit.generation;
        if current.as_ref().is_some_and(is_old) && !is_named_again {
            // An old answer to another commit: this one may still succeed.
            return;
        }
        let settled = self.ledger.give_up(id);
        self.forget(id, settled);
        match current {
            Some(stripe) if known.is_some() => self.take_answer(stripe),
            // Removed, here or there: what is left of its repair has nowhere to go.
            Some(_) | None => self.remove_stripe(commit.copy.stripe),
        }
        self.reconcile(commit.node, commit.copy);
        self.commit_next(now, id);
    }

    /// Takes the stripe of an answer for what it is. Where that is older than what is known, the
    /// stripe takes its place by the latter: what decided it until then has ended.
    fn take_answer(&mut self, stripe: Stripe) {
        let id = stripe.id;
        if self.stripes.get(id).is_some_and(|known| known.generation > stripe.generation) {
            let lost = self.lost.get(&id).cloned().unwrap_or_default();
            self.set_lost(id, lost);
        } else {
            self.apply_stripe(stripe);
        }
    }

    /// The pending commit of a repair was answered, and perhaps its claim is void by that.
    fn forget(&mut self, id: RepairId, settled: Option<SettledCommit>) -> Option<Commit> {
        let SettledCommit { commit, void_claim } = settled?;
        self.touched.push(commit.copy.stripe);
        self.send(commit.node, ToAgent::Forget(id));
        self.outputs.extend(void_claim.map(Output::ReleaseClaim));
        Some(commit)
    }
}
