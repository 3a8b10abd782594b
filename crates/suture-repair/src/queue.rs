//! Which stripe is repaired next: the one that can lose least, then the one that waits longest.
//!
//! Place: failure -> stripes affected -> [queue] -> plan -> admit -> ...
//! A stripe that has to wait (after a failed attempt, or until something changes) sleeps aside, so
//! that the others need not wait for it.
//! Invariant: a stripe is either ready or asleep, once. Does not know why a stripe is here.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::StripeId;
use crate::mutant::{Mistake, Mutant};
use crate::time::Time;

/// How many more chunks a stripe can lose; less is more urgent.
pub type Margin = u32;

/// The place of stripes that lack nothing, and of which a chunk is to move: behind all others.
pub const MARGIN_OF_MOVES: Margin = Margin::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    margin: Margin,
    ticket: i64,
}

/// Stripes that need repair.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    ready: BTreeSet<(Place, StripeId)>,
    asleep: BTreeSet<(Time, StripeId)>,
    index: BTreeMap<StripeId, (Place, Option<Time>)>,
    next_ticket: i64,
    /// What was put back last has this one, those before it greater ones.
    first_ticket: i64,
    /// How often a stripe became ready.
    arrivals: u64,
    pub(crate) mistake: Mistake,
}

impl Queue {
    /// Puts the stripe in its place by `margin`; it keeps its age if it was here already, and
    /// sleeps until `not_before` if that is given.
    pub fn put(&mut self, stripe: StripeId, margin: Margin, not_before: Option<Time>) {
        let ticket = match self.remove(stripe) {
            Some(place) => place.ticket,
            None => {
                self.next_ticket += 1;
                self.next_ticket
            }
        };
        self.enter(stripe, Place { margin, ticket }, not_before);
    }

    /// Puts a stripe before all others of its margin: it was taken out before them, for a plan that
    /// is not carried out.
    pub fn put_back(&mut self, stripe: StripeId, margin: Margin) {
        self.remove(stripe);
        self.first_ticket -= 1;
        self.enter(stripe, Place { margin, ticket: self.first_ticket }, None);
    }

    fn enter(&mut self, stripe: StripeId, place: Place, not_before: Option<Time>) {
        self.index.insert(stripe, (place, not_before));
        match not_before {
            Some(time) => self.asleep.insert((time, stripe)),
            None => {
                self.arrivals += 1;
                self.ready.insert((place, stripe))
            }
        };
    }

    /// Takes the stripe out. Returns whether it was here.
    pub fn take(&mut self, stripe: StripeId) -> bool {
        self.remove(stripe).is_some()
    }

    fn remove(&mut self, stripe: StripeId) -> Option<Place> {
        let (place, not_before) = self.index.remove(&stripe)?;
        match not_before {
            Some(time) => self.asleep.remove(&(time, stripe)),
            None => self.ready.remove(&(place, stripe)),
        };
        Some(place)
    }

    /// Wakes those whose time has come.
    pub fn wake(&mut self, now: Time) {
        while let Some(&(time, stripe)) = self.asleep.first()
            && time <= now
        {
            self.wake_one(stripe);
        }
    }

    /// Wakes all, whatever their time.
    pub fn wake_all(&mut self) {
        while let Some(&(_, stripe)) = self.asleep.first() {
            self.wake_one(stripe);
        }
    }

    fn wake_one(&mut self, stripe: StripeId) {
        let place = self.remove(stripe).expect("asleep, so indexed");
        let not_before = self.mistake.is(Mutant::KeepAsleep).then_some(Time::ZERO);
        self.index.insert(stripe, (place, not_before));
        self.arrivals += 1;
        self.ready.insert((place, stripe));
    }

    /// The ready stripes, most urgent first.
    pub fn ready(&self) -> impl Iterator<Item = StripeId> {
        self.ready.iter().map(|(_, stripe)| *stripe)
    }

    /// All stripes, ready or asleep.
    pub fn iter(&self) -> impl Iterator<Item = StripeId> {
        self.index.keys().copied()
    }

    /// The margin by which a stripe is queued, if it is.
    pub fn margin(&self, stripe: StripeId) -> Option<Margin> {
        self.index.get(&stripe).map(|(place, _)| place.margin)
    }

    /// How often a stripe has become ready so far: none has since this was the same.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// How many stripes are ready.
    pub fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// How many of them can lose at most so many more chunks.
    pub fn ready_within(&self, margin: Margin) -> usize {
        self.ready.iter().take_while(|(place, _)| place.margin <= margin).count()
    }

    /// When the next sleeper wakes.
    pub fn next_deadline(&self) -> Option<Time> {
        self.asleep.first().map(|(time, _)| *time)
    }

    /// How many stripes are here, ready or asleep.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no stripe is here.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// # Panics
    /// A stripe is not either ready or asleep, once.
    pub fn assert_invariants(&self) {
        let places = self.ready.len() + self.asleep.len();
        assert_eq!(places, self.index.len(), "queue: stripes ready and asleep, and all");
        for (stripe, (place, not_before)) in &self.index {
            let is_here = match not_before {
                Some(time) => self.asleep.contains(&(*time, *stripe)),
                None => self.ready.contains(&(*place, *stripe)),
            };
            assert!(is_here, "queue: {stripe} is neither ready nor asleep");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> StripeId = StripeId;

    #[test]
    fn the_most_endangered_comes_first_then_the_oldest() {
        let mut queue = Queue::default();
        queue.put(S(1), 2, None);
        queue.put(S(2), 0, None);
        queue.put(S(3), 2, None);
        queue.put(S(4), 1, None);
        assert_eq!(queue.ready().collect::<Vec<_>>(), [S(2), S(4), S(1), S(3)]);
    }

    #[test]
    fn a_stripe_keeps_its_age_when_its_margin_changes() {
        let mut queue = Queue::default();
        queue.put(S(1), 2, None);
        queue.put(S(2), 2, None);
        queue.put(S(1), 1, None);
        queue.put(S(1), 2, None);
        assert_eq!(queue.ready().collect::<Vec<_>>(), [S(1), S(2)]);
    }

    #[test]
    fn what_was_put_back_is_before_what_came_later() {
        let mut queue = Queue::default();
        (1..5).for_each(|stripe| queue.put(S(stripe), 2, None));
        [2, 1].into_iter().for_each(|stripe| assert!(queue.take(S(stripe))));
        let arrivals = queue.arrivals();
        [2, 1].into_iter().for_each(|stripe| queue.put_back(S(stripe), 2));
        queue.put(S(5), 1, None);
        assert_eq!(queue.ready().collect::<Vec<_>>(), [S(5), S(1), S(2), S(3), S(4)]);
        assert_eq!(queue.arrivals(), arrivals + 3);
        queue.assert_invariants();
    }

    #[test]
    fn sleepers_do_not_stand_in_the_way_and_wake_in_time() {
        let mut queue = Queue::default();
        queue.put(S(1), 0, Some(Time { ns: 50 }));
        assert_eq!((queue.len(), queue.ready_count(), queue.is_empty()), (1, 0, false));
        queue.put(S(2), 3, None);
        assert_eq!(queue.ready().collect::<Vec<_>>(), [S(2)]);
        assert_eq!(queue.next_deadline(), Some(Time { ns: 50 }));
        queue.wake(Time { ns: 49 });
        assert_eq!(queue.ready().count(), 1);
        queue.wake(Time { ns: 50 });
        assert_eq!(queue.ready().collect::<Vec<_>>(), [S(1), S(2)]);
        assert_eq!(queue.ready_count(), 2);
        assert!(queue.take(S(1)) && !queue.take(S(1)));
        assert_eq!(queue.len(), 1);
        assert!(queue.take(S(2)) && queue.is_empty());
    }
}
