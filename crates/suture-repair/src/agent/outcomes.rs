//! Outcomes of tasks: sent at once, and resent at each beat until `Forget` acknowledges them.
//!
//! Place: ... slices flow -> chunk durable -> [commit] ...
//! An agent may have more outcomes than the queue to the coordinator holds, where commits are slow
//! or the coordinator was away. So only a few are sent between two beats and not forgotten yet; the
//! next ones follow as they are, and each beat begins again where the last one ended.
//!
//! Invariants: at most [`SENT_MAX`] are sent and not forgotten between two beats; every outcome is
//! sent again and again while it is not forgotten.

use std::collections::{BTreeMap, BTreeSet};

use super::Agent;
use crate::id::RepairId;
use crate::message::FromAgent;

/// The most outcomes that may be in flight to the coordinator: a quarter of the queue there.
const SENT_MAX: usize = 256;

/// The outcomes that the coordinator has not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    of: BTreeMap<RepairId, FromAgent>,
    /// Sent since the last beat.
    sent: BTreeSet<RepairId>,
    /// Where to go on when not all can be sent at once.
    next: RepairId,
}

impl Outcomes {
    /// A new one; returned if it may be sent now.
    pub fn add(&mut self, repair: RepairId, outcome: FromAgent) -> Option<FromAgent> {
        let may_be_sent = self.sent.len() < SENT_MAX;
        self.of.insert(repair, outcome.clone());
        may_be_sent.then(|| self.sent.insert(repair)).map(|_| outcome)
    }

    /// The outcome is acknowledged or no longer needed: drops it. Returns the outcomes that may be
    /// sent instead.
    pub fn forget(&mut self, repair: RepairId) -> Vec<FromAgent> {
        self.of.remove(&repair);
        if self.sent.remove(&repair) { self.more() } else { Vec::new() }
    }

    /// A beat: what was sent before it, and not acknowledged, counts as lost.
    pub fn begin_beat(&mut self) {
        self.sent.clear();
    }

    /// What may be sent now, in the order of repairs from where it was left off.
    pub fn more(&mut self) -> Vec<FromAgent> {
        let free = SENT_MAX - self.sent.len();
        let unsent = self.of.len() - self.sent.len();
        let later = self.of.range(self.next..).chain(self.of.range(..self.next));
        let wanted = later.filter(|(repair, _)| !self.sent.contains(repair)).take(free.min(unsent));
        let more: Vec<(RepairId, FromAgent)> = wanted.map(|(id, of)| (*id, of.clone())).collect();
        self.next = match more.last() {
            Some((last, _)) if unsent > free => RepairId(last.0 + 1),
            _ => RepairId(0),
        };
        self.sent.extend(more.iter().map(|(repair, _)| *repair));
        more.into_iter().map(|(_, outcome)| outcome).collect()
    }

    pub fn contains(&self, repair: RepairId) -> bool {
        self.of.contains_key(&repair)
    }

    /// How many are to be sent in each beat.
    pub fn sent_each_beat(&self) -> usize {
        self.of.len().min(SENT_MAX)
    }

    pub fn repairs(&self) -> impl Iterator<Item = &RepairId> {
        self.of.keys()
    }

    /// # Panics
    /// More is under way than the queue holds, or what is not known.
    pub fn assert_invariants(&self) {
        assert!(self.sent.len() <= SENT_MAX, "outcomes: {} are under way", self.sent.len());
        let is_known = self.sent.iter().all(|repair| self.of.contains_key(repair));
        assert!(is_known, "outcomes: one is under way that was forgotten");
    }
}

impl Agent {
    /// Ends a task and sends its outcome at every beat until the coordinator acknowledges it.
    pub(super) fn conclude(&mut self, repair: RepairId, outcome: FromAgent) {
        self.drop_task(repair);
        self.end(repair);
        let sent = self.outcomes.add(repair, outcome);
        sent.into_iter().for_each(|outcome| self.send(outcome));
    }

    /// The outcome of a repair need not be repeated.
    pub(super) fn forget(&mut self, repair: RepairId) {
        let more = self.outcomes.forget(repair);
        more.into_iter().for_each(|outcome| self.send(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Failure;

    fn outcome(id: u64) -> FromAgent {
        FromAgent::Failed { repair: RepairId(id), why: Failure::Stalled }
    }

    fn id(outcome: &FromAgent) -> u64 {
        match outcome {
            FromAgent::Failed { repair, .. } => repair.0,
            _ => unreachable!("all of them failed"),
        }
    }

    #[test]
    fn all_are_said_in_turn_and_few_at_a_time() {
        let mut outcomes = Outcomes::default();
        let count = 3 * SENT_MAX as u64 + 10;
        let at_once = (0..count).filter_map(|n| outcomes.add(RepairId(n), outcome(n))).count();
        assert_eq!(at_once, SENT_MAX);
        assert!(outcomes.more().is_empty());
        // No `Forget` comes: each beat sends others, and in the end all were sent.
        let mut sent = BTreeSet::new();
        for _ in 0..4 {
            outcomes.begin_beat();
            let more = outcomes.more();
            assert_eq!(more.len(), SENT_MAX);
            sent.extend(more.iter().map(id));
            outcomes.assert_invariants();
        }
        assert_eq!(sent.len() as u64, count);
        // They are received: each that is forgotten makes room for one.
        for n in 0..count {
            assert!(outcomes.forget(RepairId(n)).len() <= 1);
            outcomes.assert_invariants();
        }
        assert_eq!(outcomes.repairs().count(), 0);
    }

    #[test]
    fn few_are_said_at_each_beat() {
        let mut outcomes = Outcomes::default();
        (0..3).for_each(|n| drop(outcomes.add(RepairId(n), outcome(n))));
        for _ in 0..2 {
            outcomes.begin_beat();
            assert_eq!(outcomes.more().iter().map(id).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(outcomes.more().is_empty());
        }
    }
}
