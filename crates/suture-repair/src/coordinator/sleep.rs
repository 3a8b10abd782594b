//! Time in which the coordinator itself did not run, which must not count as silence or stall.
//!
//! Place: [failure detected] -> stripes affected -> queue -> plan -> ...
//! A process that was stopped, swapped out or moved with its machine, or that planned for long, has
//! messages of agents waiting that it has not taken yet. Judged by the clock alone, the first event
//! after the pause would declare all nodes dead and all repairs stalled. The sleep is detected
//! because drivers call by `next_deadline`, and none did. Then every silence goes on from where it
//! stood: only time counts in which messages could be received.
//! Invariant: a sleep longer than the timers of some node is detected by the first event after it.

use super::Coordinator;
use crate::mutant::Mutant;
use crate::time::{Span, Time};

/// A driver may be late by `suspect_after` divided by this. Less would take a busy machine for a
/// sleeping one, and each time put off that a silent node is noticed; more would let a sleep count
/// in which nodes become suspect.
const LATE_DIVISOR: u64 = 4;

impl Coordinator {
    /// Moves every silence by the time since the last event, if the driver slept and received
    /// nothing.
    pub(super) fn excuse_sleep(&mut self, now: Time) {
        let gap = now.since(self.now);
        let late_max = Span { ns: self.config.timers.suspect_after.ns / LATE_DIVISOR };
        if gap <= late_max || self.ledger.mistake.is(Mutant::CountSleep) {
            return;
        }
        // Asked for only now: it looks at every node.
        let Some(due) = self.next_deadline() else { return };
        if now.since(due.max(self.now)) > late_max {
            self.health.slept(now, gap);
            self.ledger.slept(now, gap);
            self.rebalance.slept(now);
            self.waits.slept(now, gap);
            self.leave_at.values_mut().for_each(|at| *at = *at + gap);
        }
    }
}
