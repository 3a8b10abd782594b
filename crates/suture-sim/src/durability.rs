//! How likely data is lost in years of failures and repairs: what fast repair is for.
//!
//! Place: failure detected -> ... -> stripe healthy, for years, with the repair's length as
//! measured by `simulate.rs`.
//! Three answers, from rough to fine: `equation.rs` (ChameleonEC's Equation 2: one repair, the
//! failures that overtake it), `chain.rs` (the closed Markov chain), and the estimate, event by
//! event: lifetimes (`lifetime.rs`), racks that fail whole, a placement (`placement.rs`), repairs
//! of the stripes at the greatest risk first (`backlog.rs`). Losses are rare, so most missions
//! (`mission.rs`) see none; each also records when its nodes were all up, and from such moments
//! outages are drawn in which failures are frequent, weighted so that nothing is falsified
//! (`branch.rs`). With the repairs of the chain (`nodes.rs`) the estimate meets the chain. Pure:
//! seconds are simulated, randomness comes from a seed, and the number of runs ends it.

mod backlog;
mod branch;
pub mod chain;
pub mod equation;
mod estimate;
mod fatal;
mod fleet;
pub mod lifetime;
mod mission;
mod nodes;
mod outage;
pub mod placement;
pub mod repair_times;

use suture_repair::id::NodeId;

use self::lifetime::Lifetime;
use self::placement::Placement;
use self::repair_times::RepairTimes;

pub use self::estimate::{Effort, Estimate, Interval, Method, estimate};

/// A year of 365.25 days, in seconds.
pub const YEAR_SECONDS: f64 = 365.25 * 86400.0;

/// A cluster that lives on: what fails how often, and how fast it is repaired.
#[derive(Clone, Debug)]
pub struct Model {
    /// Which chunk is where. Repaired nodes get their old chunks back.
    pub placement: Placement,
    /// How long a node lives. All are new in the beginning, and after a repair.
    pub lifetime: Lifetime,
    /// The nodes that fail together, for good, each such group as often as `rack_mttf_seconds`
    /// says; empty if racks do not fail.
    pub racks: Vec<Vec<NodeId>>,
    /// Mean time between two failures of a rack, in seconds; exponential.
    pub rack_mttf_seconds: f64,
    /// How long repairs take.
    pub repair: RepairTimes,
    /// From a failure to the beginning of its repair, in seconds.
    pub detection_seconds: f64,
    /// In which order, and as what.
    pub repairs: Repairs,
    /// For how long data has to be kept, in seconds.
    pub mission_seconds: f64,
}

/// What comes back when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// Stripes one by one, those that can lose least more first, at the measured rate.
    ByStripe,
    /// Whole nodes after exponential times, as in the Markov chain; for comparison with it.
    ByNode,
}

impl Model {
    /// Nodes that come back a second when so many are failed, on average.
    pub fn repair_rate(&self, failed: usize) -> f64 {
        failed as f64 / (self.repair.seconds(failed) + self.detection_seconds)
    }

    /// Failures of racks a second.
    fn racks_rate(&self) -> f64 {
        self.racks.len() as f64 / self.rack_mttf_seconds
    }
}
