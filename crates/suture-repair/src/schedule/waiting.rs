//! Plans that were made and wait to be started, in the order in which they asked.
//!
//! Place: ... plan -> [wait] -> admit -> dispatch -> ...
//! Invariant: at most one plan of a stripe waits. Does not know why anything waits.

use std::collections::BTreeMap;

use super::Work;
use crate::id::StripeId;

/// Plans in order.
#[derive(Debug, Default)]
pub struct Waiting {
    by_ticket: BTreeMap<u64, StripeId>,
    works: BTreeMap<StripeId, (u64, Work)>,
    next_ticket: u64,
}

impl Waiting {
    /// Adds a plan behind all others.
    pub fn push(&mut self, work: Work) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.by_ticket.insert(ticket, work.plan.stripe);
        self.works.insert(work.plan.stripe, (ticket, work));
    }

    /// Takes the plan of a stripe out.
    pub fn remove(&mut self, stripe: StripeId) -> Option<Work> {
        let (ticket, work) = self.works.remove(&stripe)?;
        self.by_ticket.remove(&ticket);
        Some(work)
    }

    /// The plan of a stripe.
    pub fn get(&self, stripe: StripeId) -> Option<&Work> {
        self.works.get(&stripe).map(|(_, work)| work)
    }

    /// The stripe in the `n`-th place; cheap for small `n`.
    pub fn nth(&self, n: usize) -> Option<StripeId> {
        self.by_ticket.values().nth(n).copied()
    }

    /// All plans, the first first.
    pub fn iter(&self) -> impl Iterator<Item = &Work> {
        self.by_ticket.values().map(|stripe| &self.works[stripe].1)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.works.is_empty()
    }
}
