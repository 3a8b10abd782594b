//! Numbers of how fast repairs are, and how fast they could be at best.
//!
//! Place: beside ... dispatch -> [slices flow] -> ..., where links are what is scarce.

use prometheus_client::metrics::family::Family;
use suture_repair::coordinator::RepairBound;

use super::{Labels, Level, OfDaemon};

/// The rate of repairs, and what bounds it.
#[derive(Debug)]
pub(super) struct RateLevels {
    rate: Level,
    // Where nothing runs there is no bound, and no series.
    bound_seconds: Family<Labels, Level>,
    bound_rate: Family<Labels, Level>,
}

impl RateLevels {
    pub(super) fn new(of: &mut OfDaemon) -> RateLevels {
        RateLevels {
            rate: of.new_one(
                "suture_repair_bytes_per_second",
                "Rebuilt bytes per second, of chunks under way too, smoothed",
            ),
            bound_seconds: of.new_one(
                "suture_repair_bound_seconds",
                "The least that repairs that run and are planned need as a whole; absent where unknown",
            ),
            bound_rate: of.new_one(
                "suture_repair_bound_bytes_per_second",
                "Rebuilt bytes per second of repairs that need that least; absent where unknown",
            ),
        }
    }

    /// Rebuilt bytes per second, and the bound where it is known.
    pub(super) fn set(&self, rate: f64, bound: Option<RepairBound>) {
        self.rate.set(rate);
        let values = bound.map(|bound| [bound.seconds, bound.bytes_per_second()]);
        for (level, at) in [(&self.bound_seconds, 0), (&self.bound_rate, 1)] {
            level.clear();
            if let Some(values) = values {
                level.get_or_create(&Labels::new()).set(values[at]);
            }
        }
    }
}
