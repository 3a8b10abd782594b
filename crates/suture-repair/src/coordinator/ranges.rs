//! A set of stripe ids, kept as ranges: what others gave out comes by the range.
//!
//! Place: beside the stripes of a coordinator.
//! Invariant: ranges neither overlap nor touch.

use std::collections::BTreeMap;

use crate::id::{StripeId, StripeRange};
use crate::mutant::{Mistake, Mutant};

/// A set of stripe ids, as ranges.
#[derive(Debug, Default)]
pub struct StripeRanges {
    /// One past the last of each range, by its first.
    below: BTreeMap<StripeId, StripeId>,
    pub(crate) mistake: Mistake,
}

impl StripeRanges {
    /// Adds the ids from one on, up to but without another.
    pub fn insert(&mut self, mut from: StripeId, mut below: StripeId) {
        if from >= below {
            return;
        }
        while let Some(last) = self.last_from(below).filter(|last| last.below >= from) {
            self.below.remove(&last.from);
            (from, below) = (from.min(last.from), below.max(last.below));
        }
        if self.mistake.is(Mutant::SplitRanges) && below.0 - from.0 > 1 {
            self.below.insert(from, StripeId(from.0 + 1));
            from = StripeId(from.0 + 1);
        }
        self.below.insert(from, below);
    }

    /// Takes an id out.
    pub fn remove(&mut self, id: StripeId) {
        if let Some(range) = self.last_from(id).filter(|range| range.contains(id)) {
            self.below.remove(&range.from);
            self.insert(range.from, id);
            self.insert(StripeId(id.0 + 1), range.below);
        }
    }

    /// Whether the id is in it.
    pub fn contains(&self, id: StripeId) -> bool {
        self.last_from(id).is_some_and(|range| range.contains(id))
    }

    /// # Panics
    /// A range is empty, or touches or overlaps the next one.
    pub fn assert_invariants(&self) {
        let mut end: Option<&StripeId> = None;
        for (from, below) in &self.below {
            assert!(from < below, "ranges: none of the ids from {from} to {below} is in one");
            let is_apart = end.is_none_or(|end| end < from);
            assert!(is_apart, "ranges: one begins with {from}, where the one before it ends");
            end = Some(below);
        }
    }

    /// The last range that begins no later than this id.
    fn last_from(&self, id: StripeId) -> Option<StripeRange> {
        let last = self.below.range(..=id).next_back();
        last.map(|(&from, &below)| StripeRange { from, below })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;

    #[test]
    fn ranges_hold_what_a_set_of_ids_holds() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let (mut ranges, mut set) = (StripeRanges::default(), BTreeSet::new());
            for _ in 0..40 {
                let (from, length) = (random.below(60), random.below(6));
                if random.below(3) == 0 {
                    ranges.remove(StripeId(from));
                    set.remove(&from);
                } else {
                    ranges.insert(StripeId(from), StripeId(from + length));
                    set.extend(from..from + length);
                }
                let ids = (0..70).filter(|id| ranges.contains(StripeId(*id)));
                assert!(ids.eq(set.iter().copied()), "{ranges:?}");
                ranges.assert_invariants();
            }
        }
    }
}
