//! What one direction carries, measured by what it moved while it was used.
//!
//! Place: beside [slices flow]: what `rates.rs` counts with as soon as transfers have shown it.
//! What passes is a lower bound of what a direction carries, and says nothing more as long as less
//! was wanted of it. Where more was wanted than passed, it is what the direction carries. A planner
//! that uses it by an estimate that is too low never wants more: so a direction that carries about
//! what it is thought to, without being the limit, may carry more: twice as much more is tried each
//! time, from little where something is known of it, and given up again where it is of no use. How
//! far the estimate may be off shrinks with results that agree, and grows while there are none;
//! what nothing has shown for long is forgotten. Where repair has all that a limit leaves to it,
//! nothing shows either whether the direction carries more than it is thought to, and the limit
//! follows from that: so it is doubted sooner, and ever more seldom where the doubt was wrong. One
//! result alone does not bring down a sure
//! estimate by more than half: it may be wrong about which port was the limit.
//!
//! Invariant: no estimate is below what passed last. Does not know how it is decided what was the
//! limit (`limits.rs`), nor what was declared.

use crate::time::Span;

/// A result moves the estimate by such a part of the difference.
const GAIN: u64 = 2;

/// How far it may be off moves by such a part.
const DEVIATION_GAIN: u64 = 4;

/// A result that differs by more than such a factor is of another link: it replaces the estimate.
const OTHER_FACTOR: u64 = 2;

/// After a result of another link the estimate may be off by such a part.
const FIRST_DEVIATION: u64 = 4;

/// It is never off by more than such a part.
const DEVIATION_MOST: u64 = 2;

/// Whether there is more is tried in steps of such a part of the estimate at first, and in such as
/// have doubled so often at the most: then it is half of it.
const TRIED_DIVISOR: u64 = 64;
const TRIES_MOST: u32 = 5;

/// With each report in which nothing is shown, by such a part more.
const FADED_DIVISOR: u64 = 256;

/// And of what was only tried, such a part is given up.
const TRIAL_DIVISOR: u64 = 8;

/// After so long a time of them nothing is known any more.
const RESTS_MOST: Span = Span::from_secs(120);

/// After so long in which repair had all that it may; twice as long each time that was in vain, but
/// no more often than this.
const HELD_MOST: Span = Span::from_secs(30);
const DOUBTS_MOST: u32 = 5;

/// A direction that carries all but such a part of the estimate carries about that.
pub(super) const NEAR_DIVISOR: u64 = 8;

/// An estimate that may be off by no more than such a part is sure.
const SURE_DIVISOR: u64 = 4;

/// After so many results in a row another one is a change of the link, and no better knowledge.
const SETTLED_RESULTS: u32 = 8;

/// Whether a direction was what limited that which passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    /// More was wanted of it than it carried.
    Limit,
    /// All that was wanted of it passed, or what passed was limited elsewhere.
    Spare,
}

/// What passed a direction between two reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// In bytes per second, by all transfers together.
    pub rate: u64,
    /// Whether more was wanted.
    pub pressure: Pressure,
    /// Whether repair moved about all that a limit leaves to it.
    pub is_held: bool,
}

/// A rate and how far it may be off, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub mean: u64,
    pub deviation: u64,
}

impl Guess {
    /// Whether it may be off by little.
    pub fn is_sure(self) -> bool {
        self.deviation <= self.mean / SURE_DIVISOR
    }

    /// Whether so much is about all of it, or more.
    pub fn is_near(self, rate: u64) -> bool {
        rate >= self.mean - self.mean / NEAR_DIVISOR
    }

    /// A direction of which nothing is known, taken for this.
    pub fn unsure(mean: u64) -> Guess {
        Guess { mean, deviation: mean / DEVIATION_MOST }
    }

    /// The direction was the limit.
    fn limited(self, rate: u64) -> Guess {
        if is_other(rate, self.mean) && rate < self.mean && self.is_sure() {
            return Guess::unsure(self.mean / OTHER_FACTOR);
        }
        if is_other(rate, self.mean) {
            return Guess { mean: rate, deviation: rate / FIRST_DEVIATION };
        }
        let off = rate.abs_diff(self.mean);
        let mean = rate.max(self.mean) - if rate > self.mean { 0 } else { off / GAIN };
        let deviation = self.deviation - self.deviation / DEVIATION_GAIN + off / DEVIATION_GAIN;
        Guess { mean, deviation: deviation.min(mean / DEVIATION_MOST) }
    }

    /// About all of the estimate passed, and the direction was not the limit; so often before.
    fn carried(self, rate: u64, tries: u32) -> Guess {
        let step = (self.mean / TRIED_DIVISOR).saturating_mul(1 << tries);
        let mean = rate.max(self.mean.saturating_add(step));
        let deviation = self.deviation.max(step).min(mean / DEVIATION_MOST);
        Guess { mean, deviation }
    }

    /// Less than that passed, of a direction that has carried so much.
    fn rested(self, confirmed: u64) -> Guess {
        let mean = self.mean - self.mean.saturating_sub(confirmed) / TRIAL_DIVISOR;
        let deviation = self.deviation.saturating_add(mean / FADED_DIVISOR);
        Guess { mean, deviation: deviation.min(mean / DEVIATION_MOST) }
    }
}

/// Whether two rates are too different to be of the same link.
fn is_other(rate: u64, than: u64) -> bool {
    rate > than.saturating_mul(OTHER_FACTOR) || rate.saturating_mul(OTHER_FACTOR) < than
}

/// The estimate of one direction: nothing, until something has been shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkEstimate {
    guess: Option<Guess>,
    /// What of it was not only tried.
    confirmed: u64,
    /// Results since it was last replaced.
    results: u32,
    /// How often in a row it was tried whether there is more.
    tries: u32,
    /// The time of reports in a row that have shown nothing; where repair is held, nothing but that
    /// there may be more.
    rests: Span,
    /// How often in a row it was forgotten because repair was held.
    doubts: u32,
}

impl LinkEstimate {
    /// What has been shown.
    pub fn guess(&self) -> Option<Guess> {
        self.guess
    }

    /// Whether it has agreed with itself for so long that what changes now is the link.
    pub fn is_settled(&self) -> bool {
        self.results >= SETTLED_RESULTS
    }

    /// So much passed, in a report of so long a time, of a direction that is taken for `before`
    /// until something is shown. Returns whether that has shown anything.
    pub fn feed(&mut self, before: Guess, passage: Passage, span: Span) -> bool {
        let Passage { rate, pressure, is_held } = passage;
        if is_held && self.is_doubted(span) {
            return false;
        }
        let known = self.guess.unwrap_or(before);
        match pressure {
            Pressure::Limit => {
                let is_replaced = is_other(rate, known.mean);
                self.results = if is_replaced { 1 } else { self.results.saturating_add(1) };
                let next = known.limited(rate);
                (self.guess, self.confirmed, self.tries) = (Some(next), next.mean, 0);
            }
            Pressure::Spare if is_held => {
                // The limit follows from the estimate: what it leaves says nothing of the rest,
                // however little that is.
                self.tries = 0;
                let at_least = |guess: Guess| Guess { mean: guess.mean.max(rate), ..guess };
                self.guess = self.guess.map(|guess| at_least(guess.rested(self.confirmed)));
                self.confirmed = self.confirmed.max(rate);
                return false;
            }
            Pressure::Spare if rate > 0 && known.is_near(rate) => {
                if self.guess.is_none() {
                    // Without an estimate, nothing shows that there is not much more.
                    (self.confirmed, self.tries) =
                        if known.is_sure() { (known.mean, 0) } else { (rate, TRIES_MOST) };
                }
                self.results = self.results.saturating_add(1);
                self.confirmed = self.confirmed.max(rate);
                self.guess = Some(known.carried(rate, self.tries));
                self.tries = (self.tries + 1).min(TRIES_MOST);
            }
            Pressure::Spare => {
                self.tries = 0;
                self.rests.ns += span.ns;
                self.guess = self.guess.map(|guess| guess.rested(self.confirmed));
                if self.rests > RESTS_MOST {
                    self.forget();
                }
                return false;
            }
        }
        if !is_held {
            self.rests = Span::ZERO;
        }
        let mean = self.guess.map_or(0, |guess| guess.mean);
        assert!(mean >= rate, "rates: {rate} passed where {mean} is the most");
        true
    }

    /// Counts a report in which repair was held. Returns whether there were so many in a row that
    /// nothing is known any more.
    fn is_doubted(&mut self, span: Span) -> bool {
        self.rests.ns += span.ns;
        if self.rests <= HELD_MOST.times(1 << self.doubts) {
            return false;
        }
        // What was forgotten before was not found again: there was more.
        let doubts = if self.guess.is_some() { (self.doubts + 1).min(DOUBTS_MOST) } else { 0 };
        *self = LinkEstimate { doubts, ..LinkEstimate::default() };
        true
    }

    /// What is newer says something else.
    pub fn forget(&mut self) {
        *self = LinkEstimate::default();
    }
}

#[cfg(test)]
mod tests;
