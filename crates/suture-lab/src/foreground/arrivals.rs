//! When requests come.
//!
//! Place: before each request of the foreground. Users who know nothing of each other come at
//! random (a Poisson process); ETC's times between requests are published.

use std::time::Duration;

use suture_repair::random::Random;
use suture_sim::workload::Workload;

/// ETC's times between requests: the shape of a generalised Pareto distribution.
const ETC_SHAPE: f64 = 0.154971;

/// A sequence of moments, as they are drawn.
pub struct Arrivals {
    random: Random,
    rate: f64,
    is_etc: bool,
    at: f64,
}

impl Arrivals {
    /// So many a second, on average.
    pub fn new(workload: Workload, rate: f64, seed: u64) -> Arrivals {
        Arrivals { random: Random::new(seed), rate, is_etc: workload == Workload::Etc, at: 0.0 }
    }

    /// When the next one comes, from the beginning on.
    pub fn next_at(&mut self) -> Duration {
        let unit = 1.0 - self.random.unit();
        let gap = if self.is_etc {
            // Scaled so that its mean, scale / (1 - shape), is that of the rate.
            (1.0 - ETC_SHAPE) * (unit.powf(-ETC_SHAPE) - 1.0) / ETC_SHAPE
        } else {
            -unit.ln()
        };
        self.at += gap / self.rate;
        // Of a rate near zero none comes in any time that there is.
        Duration::try_from_secs_f64(self.at).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_rate_near_zero_no_request_comes() {
        let mut arrivals = Arrivals::new(Workload::YcsbA, 1e-300, 1);
        assert_eq!(arrivals.next_at(), Duration::MAX);
    }

    #[test]
    fn requests_come_as_often_as_was_asked() {
        for workload in [Workload::YcsbA, Workload::Etc] {
            let mut arrivals = Arrivals::new(workload, 50.0, 1);
            let last = (0..50_000).map(|_| arrivals.next_at()).last().unwrap();
            assert!((last.as_secs_f64() / 1000.0 - 1.0).abs() < 0.03, "{workload}: {last:?}");
        }
    }
}
