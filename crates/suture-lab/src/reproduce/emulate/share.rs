//! What is simulated again for what requests have of links beside an emulated repair.
//!
//! Place: between an emulated repair with its simulation and the explanation of their difference.
//! On the testbed a full queue is shared by what each connection has in flight, and all bytes of a
//! request may be. What comes of that is measured there as the part of a full link that requests
//! have (`full_links.rs`), and so it is of a draw. That draw is simulated again with other shares
//! of requests, until they have the part that they have on the testbed. Where that cannot be
//! measured, it is simulated again with connections in place of lanes, which is a part of the same
//! thing and never counted besides.

use super::predict::{Draw, Predictor, SharedDraw};
use crate::testbed::full_links::FullShare;
use crate::testbed::requests::LoopLogs;

/// Parts of full links that differ by less, as a part of either, are the same.
const TOLERANCE: f64 = 0.02;

/// The least and the greatest factor of shares that is tried.
const FACTOR_MIN: f64 = 1.0 / 8.0;
const FACTOR_MAX: f64 = 32.0;

/// Factors that are tried, at most.
const TRIED_MAX: usize = 8;

/// A draw simulated again.
#[derive(Clone, Debug, PartialEq)]
pub enum Again {
    /// With what requests have of full links on the testbed.
    Shared(SharedAgain),
    /// What requests take, client by client, where lanes between two nodes share a connection.
    Connected(Vec<Vec<f64>>),
}

/// What requests have of full links on both sides, and a draw in which they have as much as on the
/// testbed, or as near to it as any.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedAgain {
    /// What they have on the testbed.
    pub measured: FullShare,
    /// What they have in the draw as it was.
    pub simulated: FullShare,
    /// So many times the share of a lane they have in the draw that follows.
    pub factor: f64,
    /// The draw with that share.
    pub draw: SharedDraw,
}

impl Again {
    /// A draw of a repair beside which requests took this on the testbed; `None` without
    /// applications.
    pub fn of(predictor: &Predictor<'_>, draw: &Draw, logs: Option<&LoopLogs>) -> Option<Again> {
        let shared = logs.and_then(|logs| SharedAgain::find(predictor, draw, logs));
        let connected = || predictor.by_connection(draw.seed).map(Again::Connected);
        shared.map(Again::Shared).or_else(connected)
    }
}

impl SharedAgain {
    /// Simulates until requests that were made in all runs have of full links what they had on the
    /// testbed; `None` where too few are on full links on either side.
    fn find(predictor: &Predictor<'_>, draw: &Draw, logs: &LoopLogs) -> Option<SharedAgain> {
        let requests = draw.requests.as_ref()?;
        let counts = requests.common_counts(logs);
        let measured = logs.links.full_share(&logs.beside.moved, &counts)?;
        let simulated = requests.links.full_share(&requests.moved, &counts)?;
        let (seconds, beside) = (draw.seconds, requests.beside.clone());
        let mut tried = vec![(1.0, SharedDraw { full_share: simulated, seconds, beside })];
        search(measured.part, simulated.part, |factor| {
            let again = predictor.with_share(draw.seed, factor, &counts)?;
            let part = again.full_share.part;
            tried.push((factor, again));
            Some(part)
        });
        let missed = |again: &SharedDraw| apart(again.full_share.part, measured.part).abs();
        let nearest = tried.into_iter().min_by(|a, b| missed(&a.1).total_cmp(&missed(&b.1)));
        nearest.map(|(factor, draw)| SharedAgain { measured, simulated, factor, draw })
    }
}

/// How much more one part is than another, as a logarithm.
fn apart(part: f64, wanted: f64) -> f64 {
    (part / wanted).ln()
}

/// A factor that was tried.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// Its natural logarithm, which is searched for.
    factor_ln: f64,
    /// How far the part that comes of it is from the wanted one.
    apart: f64,
}

impl Tried {
    fn is_near(self) -> bool {
        self.apart.abs() <= TOLERANCE
    }

    fn is_below(self) -> bool {
        self.apart < 0.0
    }

    /// Where nothing would be missing, if that shrank evenly from one factor to the other.
    fn crossing(self, other: Tried) -> f64 {
        let part = self.apart / (self.apart - other.apart);
        self.factor_ln + part * (other.factor_ln - self.factor_ln)
    }
}

/// Tries factors of shares until the part of full links that comes of one is the `wanted` one; of
/// a factor of 1 comes the `plain` one. The greater a factor, the greater is its part. Where no
/// factor reaches what is wanted, the last of them is tried and no other.
fn search(wanted: f64, plain: f64, mut part_with: impl FnMut(f64) -> Option<f64>) {
    let mut attempt = |factor_ln: f64| {
        let part = part_with(factor_ln.exp())?;
        Some(Tried { factor_ln, apart: apart(part, wanted) })
    };
    let mut one = Tried { factor_ln: 0.0, apart: apart(plain, wanted) };
    if one.is_near() {
        return;
    }
    let end = if one.is_below() { FACTOR_MAX } else { FACTOR_MIN };
    let Some(mut other) = attempt(end.ln()) else { return };
    if other.is_near() || other.is_below() == one.is_below() {
        return;
    }
    for step in 1..TRIED_MAX {
        // In turns, so that neither noise nor a bend keeps an end where it is.
        let between = match step % 2 {
            1 => one.crossing(other),
            _ => f64::midpoint(one.factor_ln, other.factor_ln),
        };
        let Some(found) = attempt(between) else { return };
        if found.is_near() {
            return;
        }
        if found.is_below() == one.is_below() {
            one = found;
        } else {
            other = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::predict::tests::{bed, logs_with_share, predictor, stripes};
    use super::*;

    const LOAD: &str = "[load]\nworkload = \"ycsb-a\"\nclients = 6\nclosed = true\n";

    /// The factors that are tried where a request competes with four lanes.
    fn tried(wanted: f64) -> Vec<f64> {
        let mut tried = Vec::new();
        search(wanted, 0.2, |factor| {
            tried.push(factor);
            Some(factor / (factor + 4.0))
        });
        tried
    }

    #[test]
    fn a_factor_is_found_from_the_part_that_comes_of_it() {
        for factor in [0.2, 0.5, 1.5, 3.0, 10.0, 25.0] {
            let found = tried(factor / (factor + 4.0));
            let last = found[found.len() - 1];
            assert!(found.len() <= TRIED_MAX, "{found:?}");
            let part = (last / (last + 4.0)) / (factor / (factor + 4.0));
            assert!(part.ln().abs() <= TOLERANCE, "{factor}: {found:?}");
        }
        // What is there already is not looked for, and what cannot be only at the end.
        assert!(tried(0.201).is_empty());
        let (most, least) = (tried(0.95), tried(0.01));
        assert!(most.len() == 1 && (most[0] / FACTOR_MAX - 1.0).abs() < 1e-9, "{most:?}");
        assert!(least.len() == 1 && (least[0] / FACTOR_MIN - 1.0).abs() < 1e-9, "{least:?}");
    }

    #[test]
    fn a_search_ends_where_nothing_can_be_measured() {
        let mut count = 0;
        search(0.5, 0.2, |_| {
            count += 1;
            (count < 2).then_some(0.9)
        });
        assert_eq!(count, 2);
    }

    #[test]
    fn a_factor_that_was_put_into_a_simulation_is_found_again() {
        let (bed, stripes) = (bed(LOAD), stripes(40));
        let predictor = predictor(&bed, None, &stripes);
        let draw = &predictor.draws().unwrap()[0];
        let logs = logs_with_share(&predictor, draw.seed, 3.0);
        let Some(Again::Shared(found)) = Again::of(&predictor, draw, Some(&logs)) else {
            panic!("nothing was measured of {draw:?}")
        };
        let counts = draw.requests.as_ref().unwrap().common_counts(&logs);
        assert!(counts.iter().sum::<usize>() < logs.beside.count(), "{counts:?}");
        let measured = logs.links.full_share(&logs.beside.moved, &counts).unwrap();
        assert_eq!(found.measured, measured);
        assert!(found.simulated.part < 0.9 * measured.part, "{found:?}");
        let reached = found.draw.full_share.part / measured.part;
        assert!((reached - 1.0).abs() < 0.05 && (2.0..4.5).contains(&found.factor), "{found:?}");
        // Requests take less time with it, and the repair more.
        let mean = |clients: &[Vec<f64>]| {
            let all = clients.concat();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let plain = &draw.requests.as_ref().unwrap().beside;
        assert!(mean(&found.draw.beside) < mean(plain), "{found:?}");
        assert!(found.draw.seconds > draw.seconds, "{} s", found.draw.seconds);
    }

    #[test]
    fn connections_take_the_place_of_what_was_not_measured() {
        let (bed, stripes) = (bed(LOAD), stripes(12));
        let predictor = predictor(&bed, None, &stripes);
        let draw = &predictor.draws().unwrap()[0];
        let again = Again::of(&predictor, draw, None);
        assert!(matches!(&again, Some(Again::Connected(clients)) if clients.len() == 6));
        let quiet = self::bed("");
        let predictor = self::predictor(&quiet, None, &stripes);
        assert_eq!(Again::of(&predictor, draw, None), None);
    }
}
