//! One child of a gated lane: closed until it is released, and how much of it is spilled by then.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! What a child sends is written to the spool in whatever order it comes, so each child moves at
//! its own rate and none waits for another. The window counts from the first slice that is not on
//! disk yet; so there are never more of them in memory than were reserved.
//!
//! Arithmetic: each byte that arrives is written and read once more. Kept in memory instead, the
//! six chunks of 64 MiB that one destination waits for would be 384 MiB, for each repair.
//!
//! Invariants: a child is granted nothing before it is released; `kept <= credit_given <= kept +
//! window`.

use crate::mutant::{Mistake, Mutant};

/// Slice bookkeeping of one child whose slices are spilled.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    released: bool,
    /// The child was granted all slices below this.
    credit_given: u32,
    /// All slices below this are on disk.
    spilled: u32,
    /// Slices that have come: bit i is slice `spilled + i`.
    arrived: u32,
    /// Those of them that are on disk.
    written: u32,
}

impl Gate {
    /// The coordinator lets this child send. Once is enough; more does no harm.
    pub fn release(&mut self) {
        self.released = true;
    }

    /// The slices that the child is to be granted anew, if it is worth a message.
    pub fn grant(&mut self, window: u32, count: u32, mistake: Mistake) -> Option<u32> {
        let ahead = u32::from(mistake.is(Mutant::GateAhead));
        let horizon = (self.spilled + window + ahead).min(count);
        let more = horizon - self.credit_given;
        let is_worth = more > 0 && (more >= window.div_ceil(2) || horizon == count);
        let is_open = self.released || mistake.is(Mutant::GrantUnreleased);
        if !is_open || !is_worth {
            return None;
        }
        self.credit_given = horizon;
        Some(horizon)
    }

    /// The child was granted all slices below this.
    pub fn credit_given(&self) -> u32 {
        self.credit_given
    }

    /// Whether a slice was granted and has not come.
    pub fn wants(&self, slice: u32) -> bool {
        (self.spilled..self.credit_given).contains(&slice) && self.arrived & self.bit(slice) == 0
    }

    /// A slice is in memory. Must be wanted.
    pub fn on_arrived(&mut self, slice: u32) {
        self.arrived |= self.bit(slice);
    }

    /// A slice that arrived is on disk.
    pub fn on_spilled(&mut self, slice: u32) {
        assert!(slice >= self.spilled && self.arrived & self.bit(slice) != 0, "slice {slice}");
        self.written |= self.bit(slice);
        while self.written & 1 == 1 {
            self.written >>= 1;
            self.arrived >>= 1;
            self.spilled += 1;
        }
    }

    /// Whether slices are still to come.
    pub fn awaits(&self, count: u32) -> bool {
        self.spilled + self.arrived.trailing_ones() < count
    }

    /// How many slices have come.
    pub fn arrived(&self) -> u32 {
        self.spilled + self.arrived.count_ones()
    }

    /// Whether slices were granted that have not come.
    pub fn is_awaited(&self) -> bool {
        self.credit_given > self.arrived()
    }

    /// Whether every slice is on disk.
    pub fn is_full(&self, count: u32) -> bool {
        self.spilled == count
    }

    /// Whether a slice is on its way here, or to the disk.
    pub fn is_owed(&self) -> bool {
        self.credit_given > self.spilled
    }

    /// How many slices are on disk.
    pub fn spilled(&self) -> u32 {
        self.spilled + self.written.count_ones()
    }

    /// Whether the invariants hold, and only what was granted has come and only that is on disk.
    pub fn is_consistent(&self, window: u32) -> bool {
        if !self.released && self.credit_given > 0 {
            return false;
        }
        let in_memory = (self.spilled..=self.spilled + window).contains(&self.credit_given);
        let credit_given = self.credit_given.saturating_sub(self.spilled);
        in_memory
            && u64::from(self.arrived) >> credit_given == 0
            && self.written & !self.arrived == 0
    }

    fn bit(&self, slice: u32) -> u32 {
        1 << (slice - self.spilled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_grants_nothing_before_it_is_released_and_then_a_window() {
        let mut gate = Gate::default();
        assert_eq!(gate.grant(4, 10, Mistake::default()), None);
        assert!(!gate.wants(0) && !gate.is_owed() && gate.awaits(10));
        gate.release();
        gate.release();
        assert_eq!(
            (gate.grant(4, 10, Mistake::default()), gate.grant(4, 10, Mistake::default())),
            (Some(4), None)
        );
        assert!(gate.wants(3) && !gate.wants(4) && gate.is_owed());
    }

    #[test]
    fn slices_are_kept_in_any_order_and_never_more_than_a_window_is_in_memory() {
        for window in [1, 3, 32] {
            let (count, mut gate) = (100, Gate::default());
            gate.release();
            let (mut granted, mut spilled) = (0, 0);
            while !gate.is_full(count) {
                let below = gate
                    .grant(window, count, Mistake::default())
                    .expect("everything granted is kept");
                assert!(below <= spilled + window);
                // Backwards, and each of them twice.
                for slice in (granted..below).rev() {
                    assert!(gate.wants(slice));
                    gate.on_arrived(slice);
                    assert!(!gate.wants(slice));
                    assert!(gate.is_owed());
                    gate.on_spilled(slice);
                    spilled += 1;
                    assert_eq!(gate.spilled(), spilled);
                }
                granted = below;
            }
            assert!(!gate.awaits(count) && !gate.is_owed());
            assert_eq!(gate.grant(window, count, Mistake::default()), None);
        }
    }
}
