//! What holds after every event, asserted: cheaply for what the event touched, and for everything.
//!
//! Place: beside the whole life of a repair; it only looks.
//! A broken invariant is a mistake in this crate, so it panics, with the ids. In production only
//! what an event touched is looked at; simulations and tests call `assert_all_invariants`.

use std::collections::BTreeSet;

use super::Coordinator;
use super::attempt::Attempt;
use super::work_list::Deletion;
use crate::event::{Input, Output};
use crate::id::{ChunkIndex, CopyAt, NodeId, StripeId};
use crate::message::{Check, FromAgent, ToAgent};
use crate::stripe::Stripe;

/// What an event reports as read in full and good: by which node, and what for.
pub(super) fn read_in_full(input: &Input) -> Option<(NodeId, Check)> {
    match input {
        Input::Agent { node, message: FromAgent::Verified(check) } => Some((*node, *check)),
        _ => None,
    }
}

impl Coordinator {
    /// What the last event touched.
    pub(super) fn assert_invariants(&mut self) {
        for stripe in std::mem::take(&mut self.touched) {
            self.assert_stripe(stripe);
        }
        self.ledger.assert_touched();
        self.faults.assert_due();
        let is_idle = !self.config.paused && !self.ledger.has_running();
        let waiting = if is_idle { self.ledger.waiting().len() } else { 0 };
        assert_eq!(waiting, 0, "schedule: plans that wait while nothing runs");
    }

    /// What went out in answer to an event in which a copy was read in full, or none: a copy is
    /// ordered away only after the copy that replaces it was read, and adopted only after it was
    /// read itself. `first` is the first output of the event.
    pub(super) fn assert_outputs(&mut self, first: usize, read: Option<(NodeId, Check)>) {
        let excess = read.and_then(|(_, check)| check.excess);
        let whole = read.map(|(node, check)| check.copy.at(node));
        for (node, Deletion { copy, replaced_by }) in self.work_lists.take_fresh() {
            let is_known = self.stripes.get(copy.stripe).is_some();
            let is_read = excess == Some(CopyAt { node, copy }) && replaced_by == whole;
            assert!(!is_known || is_read, "deletes: {copy} at {node}, for which nothing was read");
        }
        for output in self.outputs.range(first..) {
            match output {
                Output::Send { to, message: ToAgent::Delete { copy, .. } } => {
                    let stripe = self.stripes.get(copy.stripe);
                    let is_ours = !self.unknown.contains(copy.stripe);
                    let (is_known, read) =
                        (stripe.is_some(), self.work_lists.replaced_by(*to, *copy));
                    assert!(is_known || is_ours, "deletes: {copy}, whose stripe others gave out");
                    let location = stripe.and_then(|stripe| stripe.copy(copy.chunk));
                    let is_replaced = !is_known || (read.is_some() && location == read);
                    assert!(is_replaced, "deletes: {copy} at {to}, whose replacement was not read");
                }
                Output::Send { to, message: ToAgent::Publish(repair) } => {
                    self.assert_proven(*repair, *to);
                }
                Output::Commit(commit) => {
                    let (copy, node) = (commit.copy, commit.node);
                    // What was ordered away with its stripe may be asked for until the answer.
                    let is_known = self.stripes.get(copy.stripe).is_some();
                    let is_kept = !is_known || !self.deleting.contains(&CopyAt { node, copy });
                    assert!(is_kept, "commits: {copy} at {node}, which was ordered away");
                    let adopted = match self.ledger.get(commit.repair) {
                        Some(Attempt::Adopt(adopt)) if adopt.since == self.now => adopt,
                        _ => continue,
                    };
                    let copy = adopted.pending.commit.copy;
                    let is_read = whole == Some(copy.at(commit.node));
                    assert!(is_read, "adopts: {copy} at {}, which was not read", commit.node);
                }
                _ => {}
            }
        }
    }

    /// Looks at everything; for simulations and tests.
    ///
    /// # Panics
    /// An invariant is broken; the message names it.
    pub fn assert_all_invariants(&self) {
        self.health.assert_invariants();
        self.faults.assert_invariants();
        self.work_lists.assert_invariants(|node| self.health.is_up(node));
        let is_sent = self.next_work_deadline().is_none_or(|at| at >= self.now);
        assert!(is_sent, "work lists: what was not answered for long was not sent again");
        self.unknown.assert_invariants();
        self.rates.assert_invariants();
        self.scrub.assert_invariants();
        self.assert_rebalance();
        self.assert_crowded();
        self.throttle.assert_invariants(self.ledger.cluster());
        self.queue.assert_invariants();
        self.ledger.assert_invariants();
        let mut stripes: BTreeSet<StripeId> = self.stripes.iter().map(|stripe| stripe.id).collect();
        stripes.extend(self.lost.keys());
        stripes.extend(self.queue.iter());
        stripes.extend(self.ledger.waiting().iter().map(|planned| planned.plan.stripe));
        stripes.extend(self.running());
        stripes.into_iter().for_each(|stripe| self.assert_stripe(stripe));
        for at in &self.deleting {
            let stripe = self.stripes.get(at.copy.stripe);
            let location = stripe.and_then(|stripe| stripe.copy(at.copy.chunk));
            assert_ne!(location, Some(*at), "deleting: a copy that a stripe needs");
        }
        self.stripes.iter().for_each(assert_nodes);
    }

    /// A stripe that lacks chunks has one place, and no other stripe has one.
    fn assert_stripe(&self, id: StripeId) {
        let (stripe, lost) = (self.stripes.get(id), self.lost.get(&id));
        if let Some(stripe) = stripe {
            self.assert_lost(stripe);
        }
        if let Some(lost) = lost {
            assert!(!lost.is_empty(), "lost: {id} is listed and lacks nothing");
            assert!(stripe.is_some(), "lost: {id} is listed and not known");
        }
        let margin = self.urgency(id);
        let (queued, waits) = (self.queue.margin(id), self.ledger.waiting().get(id).is_some());
        let attempt = self.ledger.repair_of(id).map(|(_, attempt)| attempt);
        let places = usize::from(queued.is_some()) + usize::from(waits) + attempt.iter().count();
        assert!(places <= 1, "places: {id} has {places} among queue, waiting plans and repairs");
        assert!(margin.is_none() || places == 1, "places: {id} lacks chunks and has none");
        assert!(margin.is_some() || !waits, "places: {id} lacks nothing and has a plan");
        assert!(lost.is_none() || !self.only_moves(id), "moves: {id} lacks chunks and moves one");
        assert!(queued.is_none() || queued == margin, "queue: {id} at {queued:?}, not {margin:?}");
        let is_settled = attempt.is_none_or(|attempt| attempt.is_committing());
        assert!(stripe.is_some() || is_settled, "repairs: of {id}, which is not known");
    }

    /// Whatever is of no use where it is recorded counts as lost, and nothing that is known to be
    /// zero.
    fn assert_lost(&self, stripe: &Stripe) {
        let is_useless = |chunk: ChunkIndex| {
            let copy = stripe.copy(chunk);
            !stripe.record(chunk).is_known_zero()
                && copy.is_none_or(|at| self.health.is_failed(at.node) || self.faults.is_bad(at))
        };
        let missed = |&chunk: &ChunkIndex| is_useless(chunk) && !self.is_lost(stripe.id, chunk);
        let missed = stripe.indices().find(missed);
        assert_eq!(missed, None, "lost: a chunk of {} that is of no use is not listed", stripe.id);
        let zero = self.lost.get(&stripe.id).into_iter().flatten();
        let zero = zero.copied().find(|chunk| stripe.record(*chunk).is_known_zero());
        assert_eq!(zero, None, "lost: a chunk of {} that is known to be zero", stripe.id);
        let lost = self.lost.get(&stripe.id).map_or(0, BTreeSet::len);
        let is_away = |chunk: &ChunkIndex| {
            let copy = stripe.copy(*chunk);
            let is_away = copy.is_some_and(|at| self.health.is_away(at.node));
            is_away && !self.is_lost(stripe.id, *chunk)
        };
        let away = stripe.indices().filter(is_away).count();
        let is_at_risk = away > 0 && lost + away >= stripe.code.loss_tolerance();
        assert!(!is_at_risk, "pauses: {} could lose no more and waits for {away}", stripe.id);
    }
}

/// A stripe uses each node once.
fn assert_nodes(stripe: &Stripe) {
    let is_second = |&chunk: &ChunkIndex| {
        stripe.copy(chunk).is_some_and(|at| stripe.chunk_on(at.node) != Some(chunk))
    };
    let second = stripe.indices().find(is_second);
    assert_eq!(second, None, "nodes: {} has another chunk there", stripe.id);
}
