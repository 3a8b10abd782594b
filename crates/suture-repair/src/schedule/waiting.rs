//! Plans that were made and wait to be started, in the order in which they asked.
//!
//! Place: ... plan -> [wait] -> admit -> dispatch -> ...
//! Invariant: at most one plan of a stripe waits. Does not know why anything waits.

use std::collections::BTreeMap;

use super::PlannedRepair;
use crate::id::StripeId;

/// Plans that wait, in the order of the queue.
#[derive(Debug, Default)]
pub struct Waiting {
    works: BTreeMap<u64, PlannedRepair>,
    tickets: BTreeMap<StripeId, u64>,
    next_ticket: u64,
}

impl Waiting {
    /// Adds a plan behind all others.
    pub fn push(&mut self, work: PlannedRepair) {
        self.tickets.insert(work.plan.stripe, self.next_ticket);
        self.works.insert(self.next_ticket, work);
        self.next_ticket += 1;
    }

    /// Takes the plan of a stripe out.
    pub fn remove(&mut self, stripe: StripeId) -> Option<PlannedRepair> {
        let ticket = self.tickets.remove(&stripe)?;
        self.works.remove(&ticket)
    }

    /// The plan of a stripe.
    pub fn get(&self, stripe: StripeId) -> Option<&PlannedRepair> {
        self.works.get(self.tickets.get(&stripe)?)
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
        assert_eq!(self.tickets.len(), self.works.len(), "waiting: stripes, and plans");
        for (stripe, ticket) in &self.tickets {
            let planned = self.works.get(ticket).map(|work| work.plan.stripe);
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
