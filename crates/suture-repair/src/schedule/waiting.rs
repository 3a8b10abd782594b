//! Plans that were made and wait to be started: what can lose least first, then what asked first.
//!
//! Place: ... plan -> [wait] -> admit -> dispatch -> ...
//! Invariant: at most one plan of a stripe waits. Does not know why anything waits.

use std::collections::BTreeMap;

use super::PlannedRepair;
use crate::id::StripeId;
use crate::queue::Margin;

/// Plans that wait, in the order of the queue.
#[derive(Debug, Default)]
pub struct Waiting {
    works: BTreeMap<Place, PlannedRepair>,
    places: BTreeMap<StripeId, Place>,
    next_ticket: u64,
}

/// Where a plan stands: by how many more chunks its stripe can lose, then by when it asked.
type Place = (Margin, u64);

impl Waiting {
    /// Adds a plan behind all others of its margin.
    pub fn push(&mut self, work: PlannedRepair, margin: Margin) {
        let place = (margin, self.next_ticket);
        self.places.insert(work.plan.stripe, place);
        self.works.insert(place, work);
        self.next_ticket += 1;
    }

    /// The margin of the most urgent plan.
    pub fn first_margin(&self) -> Option<Margin> {
        self.works.first_key_value().map(|((margin, _), _)| *margin)
    }

    /// Takes the plan of a stripe out.
    pub fn remove(&mut self, stripe: StripeId) -> Option<PlannedRepair> {
        let place = self.places.remove(&stripe)?;
        self.works.remove(&place)
    }

    /// The plan of a stripe.
    pub fn get(&self, stripe: StripeId) -> Option<&PlannedRepair> {
        self.works.get(self.places.get(&stripe)?)
    }

    /// The stripe in the `n`-th place; cheap for small `n`.
    pub fn nth(&self, n: usize) -> Option<StripeId> {
        self.works.values().nth(n).map(|work| work.plan.stripe)
    }

    /// All plans, the first first.
    pub fn iter(&self) -> impl Iterator<Item = &PlannedRepair> {
        self.works.values()
    }

    /// # Panics
    /// A plan is without a place or has two.
    pub fn assert_invariants(&self) {
        assert_eq!(self.places.len(), self.works.len(), "waiting: stripes, and plans");
        for (stripe, place) in &self.places {
            let planned = self.works.get(place).map(|work| work.plan.stripe);
            assert_eq!(planned, Some(*stripe), "waiting: the plan of a stripe");
        }
    }

    /// How many plans wait.
    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Whether no plan waits.
    pub fn is_empty(&self) -> bool {
        self.works.is_empty()
    }
}
