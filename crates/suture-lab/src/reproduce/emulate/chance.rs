//! Within what a value lies by chance alone: few requests are measured of it.
//!
//! Place: behind an emulated repair and its simulation, before their difference is explained. A
//! percentile lies between two of the requests by the binomial distribution of how many take no
//! longer, which asks nothing of how long they take. A degree is a ratio of sums, whose error is
//! seen by leaving out one client after the other (the jackknife). Requests, or clients, count as
//! if they did not depend on each other.

use crate::reproduce::emulated::Within;

/// Of requests, the part that takes no longer than what is compared.
pub const SLOWEST: f64 = 0.99;

/// What is beyond each end of an interval of 95 %.
const TAIL: f64 = 0.025;

/// So many deviations of a normal distribution are to each end of it.
const DEVIATIONS: f64 = 1.96;

/// Between which of these times a percentile of all requests lies, in milliseconds.
pub fn percentile_within(ascending_seconds: &[f64], part: f64) -> Option<Within> {
    let (from, to) = ranks(ascending_seconds.len(), part)?;
    let ms = |rank: usize| 1e3 * ascending_seconds[rank - 1];
    Some(Within { least: ms(from), most: to.map(ms), of: ascending_seconds.len() as u64 })
}

/// Between the values of which ranks a percentile lies; no upper one where even the greatest value
/// may be below it.
fn ranks(count: usize, part: f64) -> Option<(usize, Option<usize>)> {
    let n = count as f64;
    // How likely it is that `rank` of all are below the percentile, and that so many or more are.
    let (mut ln_mass, mut tail) = (n * part.ln(), 0.0);
    let mut to = None;
    for rank in (1..=count).rev() {
        tail += ln_mass.exp();
        if tail <= TAIL {
            to = Some(rank);
        }
        if tail >= 1.0 - TAIL {
            return Some((rank, to));
        }
        let rank = rank as f64;
        ln_mass += (rank / (n - rank + 1.0) * (1.0 - part) / part).ln();
    }
    None
}

/// Within what the interference degree lies of clients of which each took this time beside a repair
/// and for the same requests without one, in percent; `None` of fewer than two clients.
pub fn degree_within(clients: &[(f64, f64)]) -> Option<Within> {
    let n = clients.len() as f64;
    let beside: f64 = clients.iter().map(|(beside, _)| beside).sum();
    let alone: f64 = clients.iter().map(|(_, alone)| alone).sum();
    let without = clients.iter().map(|client| ((beside - client.0) / (alone - client.1)).ln());
    let without: Vec<f64> = without.collect();
    if clients.len() < 2 || !without.iter().all(|degree| degree.is_finite()) {
        return None;
    }
    let mean = without.iter().sum::<f64>() / n;
    let squares: f64 = without.iter().map(|degree| (degree - mean).powi(2)).sum();
    let reach = DEVIATIONS * ((n - 1.0) / n * squares).sqrt();
    let (middle, percent) = ((beside / alone).ln(), |ln: f64| 100.0 * (ln.exp() - 1.0));
    let (least, most) = (percent(middle - reach), Some(percent(middle + reach)));
    Some(Within { least, most, of: clients.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_between_the_ranks_of_the_binomial_distribution() {
        // By exact sums of the distribution.
        assert_eq!(ranks(0, 0.99), None);
        assert_eq!(ranks(1, 0.99), Some((1, None)));
        assert_eq!(ranks(100, 0.99), Some((97, None)));
        assert_eq!(ranks(367, 0.99), Some((359, None)));
        assert_eq!(ranks(368, 0.99), Some((360, Some(368))));
        assert_eq!(ranks(1000, 0.99), Some((983, Some(997))));
        // Where the likelihood of all being below is no number any more.
        let (from, to) = ranks(1_000_000, 0.99).unwrap();
        let deviation = (1e6 * 0.99 * 0.01_f64).sqrt();
        assert!((from as f64 - (990_000.0 - 1.96 * deviation)).abs() < 3.0, "{from}");
        assert!((to.unwrap() as f64 - (990_000.0 + 1.96 * deviation)).abs() < 3.0, "{to:?}");
    }

    #[test]
    fn an_interval_is_of_the_values_at_its_ranks() {
        let seconds: Vec<f64> = (1..=1000).map(f64::from).collect();
        let expected = Within { least: 983e3, most: Some(997e3), of: 1000 };
        assert_eq!(percentile_within(&seconds, SLOWEST), Some(expected));
        let few = percentile_within(&seconds[..100], SLOWEST).unwrap();
        assert_eq!((few.least, few.most), (97e3, None));
        assert_eq!(percentile_within(&[], SLOWEST), None);
    }

    #[test]
    fn a_degree_is_as_sure_as_clients_are_alike() {
        let alike = degree_within(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]).unwrap();
        assert!((alike.least - 100.0).abs() < 1e-9 && (alike.most.unwrap() - 100.0).abs() < 1e-9);
        // Together 3 times as long; without the one 4, without the other 2.
        let apart = degree_within(&[(2.0, 1.0), (4.0, 1.0)]).unwrap();
        let reach = 1.96 * 2.0_f64.ln() / 2.0;
        let ends = [-reach, reach].map(|reach| 100.0 * (3.0 * reach.exp() - 1.0));
        assert!((apart.least - ends[0]).abs() < 1e-9, "{apart:?}");
        assert!((apart.most.unwrap() - ends[1]).abs() < 1e-9 && apart.of == 2, "{apart:?}");
        assert_eq!(degree_within(&[(2.0, 1.0)]), None);
        assert_eq!(degree_within(&[(2.0, 1.0), (0.0, 0.0)]), None);
    }
}
