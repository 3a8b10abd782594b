//! Time as the core sees it: a number handed in, never read from a clock.
//!
//! Place: everywhere from `failure` to `stripe healthy`; each `handle(now, ..)` carries one.
//! The core must run the same in a simulator and in production, so it owns no clock. Precondition:
//! drivers pass a `now` that never decreases (asserted).

use std::fmt;
use std::ops::{Add, Sub};

/// A moment, in nanoseconds since an origin that the driver chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Nanoseconds since the driver's origin.
    pub ns: u64,
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Nanoseconds since the driver's origin.
    pub ns: u64,
}

impl Time {
    /// The driver's origin, from which time counts.
    pub const ZERO: Time = Time { ns: 0 };

    /// Time passed since `earlier`; zero when `earlier` lies in the future.
    pub fn since(self, earlier: Time) -> Span {
        Span { ns: self.ns.saturating_sub(earlier.ns) }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span { ns: 0 };

    /// A span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span { ns: ms * 1_000_000 }
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span { ns: s * 1_000_000_000 }
    }

    /// The span in seconds, for people and ratios only: decisions stay on integers.
    pub fn as_secs_f64(self) -> f64 {
        self.ns as f64 / 1e9
    }

    /// `self * factor`, saturating.
    pub const fn times(self, factor: u64) -> Span {
        Span { ns: self.ns.saturating_mul(factor) }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time { ns: self.ns.saturating_add(span.ns) }
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time { ns: self.ns.saturating_sub(span.ns) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.ns / 1_000_000_000, self.ns / 1_000_000 % 1000)
    }
}
