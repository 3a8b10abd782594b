//! What nodes can ship, and when some of them are done together: time against units.
//!
//! Place: beneath `max_flow.rs`, which chooses the node that ships each part. Between the moments
//! at which a port becomes the slower one, what is shipped grows along straight lines, so a time is
//! found exactly; in grains, from one moment at which some node has one more grain to the next.

use std::collections::BinaryHeap;

/// What a node can do: each of two ports (a link and the disk behind it) has a rate, in units per
/// second, and units that it has to move anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    pub rates: [f64; 2],
    pub bases: [f64; 2],
}

impl Supply {
    /// The supply of one port that has nothing else to do.
    pub fn of_rate(rate: f64) -> Supply {
        Supply { rates: [rate, f64::INFINITY], bases: [0.0; 2] }
    }

    /// What it can ship within that time: at the rate of its slower port.
    pub fn units_in(&self, seconds: f64) -> f64 {
        let port = |at: usize| seconds * self.rates[at] - self.bases[at];
        // A port that is not modelled has an infinite rate, and keeps up even with no time at all.
        if self.rates[1].is_infinite() { port(0) } else { port(0).min(port(1)) }.max(0.0)
    }

    /// When it is done with so many units.
    pub fn seconds_for(&self, units: f64) -> f64 {
        let port = |at: usize| {
            let all = self.bases[at] + units;
            if all > 0.0 { all / self.rates[at] } else { 0.0 }
        };
        port(0).max(port(1))
    }
}

/// How capacities are rounded to what can be shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Up to units: the fractional problem.
    Up,
    /// Down to multiples of so many units.
    Down(u32),
}

/// Later than anything is worth waiting for: a unit over a dead link.
const SECONDS_MAX: f64 = 1e30;

/// More than all demands together: what a node can ship while others wait for a dead link.
const UNITS_MAX: f64 = 1e14;

pub(super) fn rounded(units: f64, rounding: Rounding) -> u64 {
    match rounding {
        Rounding::Up => units.min(UNITS_MAX).ceil() as u64,
        // A grain that is missing a billionth is whole.
        Rounding::Down(grain) => {
            (units.min(UNITS_MAX) / f64::from(grain) + 1e-9).floor() as u64 * u64::from(grain)
        }
    }
}

/// When `supplies` can have shipped `units` together, in whatever parts; infinity if never.
pub(crate) fn seconds_to_ship(supplies: &[Supply], units: f64) -> f64 {
    let rates: f64 = supplies.iter().map(|supply| supply.rates[0].min(supply.rates[1])).sum();
    if units <= 0.0 || rates == f64::INFINITY {
        return 0.0;
    }
    if supplies.iter().all(|supply| supply.bases == [0.0; 2]) {
        return units / rates;
    }
    let mut high = 1.0;
    while LinePiece::at(supplies, high).units < units {
        high *= 4.0;
        if high > SECONDS_MAX {
            return f64::INFINITY;
        }
    }
    let (mut low, mut piece) = (0.0, LinePiece::at(supplies, high));
    for _ in 0..HALVINGS_MAX {
        // Newton's step: exact once the piece is the right one.
        let met = piece.meets(units);
        let next = if low < met && met < high { met } else { 0.5 * (low + high) };
        piece = LinePiece::at(supplies, next);
        if (piece.units - units).abs() <= units * EXACT {
            break;
        }
        if piece.units < units { low = next } else { high = next }
    }
    if piece.rate > 0.0 { piece.meets(units) } else { high }
}

/// Halvings after which a time is exact, where Newton's steps do not find it earlier.
const HALVINGS_MAX: usize = 80;

/// The part of what is shipped by which sums of numbers may differ.
const EXACT: f64 = 1e-13;

/// What is shipped together grows along pieces of straight lines; one of them.
struct LinePiece {
    /// What is shipped at the moment that was looked at.
    units: f64,
    rate: f64,
    base: f64,
}

impl LinePiece {
    fn at(supplies: &[Supply], seconds: f64) -> LinePiece {
        let mut piece = LinePiece { units: 0.0, rate: 0.0, base: 0.0 };
        for Supply { rates, bases } in supplies {
            let port = |at: usize| seconds * rates[at] - bases[at];
            let slower = usize::from(rates[1].is_finite() && port(1) < port(0));
            if port(slower) > 0.0 {
                piece.units += port(slower);
                piece.rate += rates[slower];
                piece.base += bases[slower];
            }
        }
        piece
    }

    /// When so many units are shipped along the line that this piece is of.
    fn meets(&self, units: f64) -> f64 {
        (units + self.base) / self.rate
    }
}

/// When capacities rounded down to grains suffice.
pub(crate) fn seconds_in_grains(supplies: &[Supply], units: u64, grain: u32) -> f64 {
    let least = seconds_to_ship(supplies, units as f64);
    if !least.is_finite() || least == 0.0 {
        return least;
    }
    let mut grains: Vec<u64> = supplies
        .iter()
        .map(|supply| rounded(supply.units_in(least), Rounding::Down(grain)) / u64::from(grain))
        .collect();
    let mut missing = units.div_ceil(u64::from(grain)).saturating_sub(grains.iter().sum());
    let when =
        |supply: &Supply, grains: u64| supply.seconds_for(((grains + 1) * u64::from(grain)) as f64);
    // Time flows to the next moment at which some node has one more grain, until all are there.
    let mut next: BinaryHeap<Moment> = supplies
        .iter()
        .enumerate()
        .map(|(at, supply)| Moment { seconds: when(supply, grains[at]), at })
        .collect();
    let mut seconds = least;
    while missing > 0
        && seconds.is_finite()
        && let Some(moment) = next.pop()
    {
        seconds = seconds.max(moment.seconds);
        grains[moment.at] += 1;
        missing -= 1;
        let later = when(&supplies[moment.at], grains[moment.at]);
        next.push(Moment { seconds: later, ..moment });
    }
    if missing > 0 { f64::INFINITY } else { seconds }
}

/// When a node has one more grain. The greatest is the earliest, then the first node.
#[derive(PartialEq)]
struct Moment {
    seconds: f64,
    at: usize,
}

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> std::cmp::Ordering {
        other.seconds.total_cmp(&self.seconds).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
