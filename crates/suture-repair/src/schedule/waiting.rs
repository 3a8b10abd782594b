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
    planned: BTreeMap<Turn, PlannedRepair>,
    turns: BTreeMap<StripeId, Turn>,
    next_ticket: u64,
}

/// Where a plan stands: by how many more chunks its stripe can lose, then by when it asked.
type Turn = (Margin, u64);

impl Waiting {
    /// Adds a plan behind all others of its margin.
    pub fn push(&mut self, planned: PlannedRepair, margin: Margin) {
        let turn = (margin, self.next_ticket);
        self.turns.insert(planned.plan.stripe, turn);
        self.planned.insert(turn, planned);
        self.next_ticket += 1;
    }

    /// The margin of the most urgent plan.
    pub fn first_margin(&self) -> Option<Margin> {
        self.planned.first_key_value().map(|((margin, _), _)| *margin)
    }

    /// Takes the plan of a stripe out.
    pub fn remove(&mut self, stripe: StripeId) -> Option<PlannedRepair> {
        let turn = self.turns.remove(&stripe)?;
        self.planned.remove(&turn)
    }

    /// The plan of a stripe.
    pub fn get(&self, stripe: StripeId) -> Option<&PlannedRepair> {
        self.planned.get(self.turns.get(&stripe)?)
    }

    /// The stripe in the `n`-th place; cheap for small `n`.
    pub fn nth(&self, n: usize) -> Option<StripeId> {
        self.planned.values().nth(n).map(|planned| planned.plan.stripe)
    }

    /// All plans, the first first.
    pub fn iter(&self) -> impl Iterator<Item = &PlannedRepair> {
        self.planned.values()
    }

    /// # Panics
    /// A plan is without a place or has two.
    pub fn assert_invariants(&self) {
        assert_eq!(self.turns.len(), self.planned.len(), "waiting: stripes, and plans");
        for (stripe, turn) in &self.turns {
            let planned = self.planned.get(turn).map(|planned| planned.plan.stripe);
            assert_eq!(planned, Some(*stripe), "waiting: the plan of a stripe");
        }
    }

    /// How many plans wait.
    pub fn len(&self) -> usize {
        self.planned.len()
    }

    /// Whether no plan waits.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }
}
