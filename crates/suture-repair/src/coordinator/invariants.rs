//! What holds after every event, asserted: cheaply for what the event touched, and for everything.
//!
//! Place: beside the whole life of a repair; it only looks.
//! A broken invariant is a mistake in this crate, so it panics, with the ids. In production only
//! what an event touched is looked at; simulations and tests call `assert_all_invariants`.

use std::collections::BTreeSet;

use super::{Coordinator, margin};
use crate::id::{ChunkIndex, StripeId};
use crate::stripe::Stripe;

impl Coordinator {
    /// What the last event touched.
    pub(super) fn assert_invariants(&mut self) {
        for stripe in std::mem::take(&mut self.touched) {
            self.assert_stripe(stripe);
        }
        self.ledger.assert_touched();
    }

    /// Looks at everything; for simulations and tests.
    ///
    /// # Panics
    /// An invariant is broken; the message names it.
    pub fn assert_all_invariants(&self) {
        self.health.assert_invariants();
        self.queue.assert_invariants();
        self.ledger.assert_invariants();
        let mut stripes: BTreeSet<StripeId> = self.stripes.iter().map(|stripe| stripe.id).collect();
        stripes.extend(self.lost.keys());
        stripes.extend(self.queue.iter());
        stripes.extend(self.ledger.waiting().iter().map(|work| work.plan.stripe));
        stripes.extend(self.running());
        stripes.into_iter().for_each(|stripe| self.assert_stripe(stripe));
        for &(node, copy) in &self.deleting {
            let stripe = self.stripes.get(copy.stripe);
            let location = stripe.and_then(|stripe| stripe.copy(copy.chunk));
            assert_ne!(location, Some((node, copy)), "deleting: a copy that a stripe needs");
        }
    }

    /// A stripe that lacks chunks has one place, and no other stripe has one.
    fn assert_stripe(&self, id: StripeId) {
        let (stripe, lost) = (self.stripes.get(id), self.lost.get(&id));
        if let Some(stripe) = stripe {
            self.assert_lost(stripe);
        }
        let margin = lost.map(|lost| {
            assert!(!lost.is_empty(), "lost: {id} is listed and lacks nothing");
            let stripe = stripe.unwrap_or_else(|| panic!("lost: {id} is listed and not known"));
            margin(stripe, lost.len())
        });
        let (queued, waits) = (self.queue.margin(id), self.ledger.waiting().get(id).is_some());
        let attempt = self.ledger.repair_of(id).map(|(_, attempt)| attempt);
        let places = usize::from(queued.is_some()) + usize::from(waits) + attempt.iter().count();
        assert!(places <= 1, "places: {id} has {places} among queue, waiting plans and repairs");
        assert!(margin.is_none() || places == 1, "places: {id} lacks chunks and has none");
        assert!(margin.is_some() || !waits, "places: {id} lacks nothing and has a plan");
        assert!(queued.is_none() || queued == margin, "queue: {id} at {queued:?}, not {margin:?}");
        let is_settled = attempt.is_none_or(|attempt| attempt.is_committing());
        assert!(stripe.is_some() || is_settled, "repairs: of {id}, which is not known");
    }

    /// Whatever is of no use where it is recorded counts as lost.
    fn assert_lost(&self, stripe: &Stripe) {
        let is_useless = |chunk: ChunkIndex| {
            let copy = stripe.copy(chunk);
            copy.is_none_or(|(node, copy)| {
                self.health.is_failed(node) || self.bad.contains(&(node, copy))
            })
        };
        let missed = |&chunk: &ChunkIndex| is_useless(chunk) && !self.is_lost(stripe.id, chunk);
        let missed = stripe.indices().find(missed);
        assert_eq!(missed, None, "lost: a chunk of {} that is of no use is not listed", stripe.id);
    }
}
