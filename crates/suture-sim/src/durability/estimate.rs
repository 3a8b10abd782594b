//! From runs to numbers: probability and mean time of data loss, and how far to trust them.
//!
//! Place: after [stripe healthy], over many missions.
//! The chance of a loss in a mission is the expected number of fatal outages that begin in its calm
//! time (all nodes up, no loss yet): without error for any lifetimes. Each run takes the number of
//! outages from a plain mission, and how many of them are fatal from biased ones that begin at its
//! moments. Where plain missions meet enough losses these are counted instead: no weights needed.
//! The mean time to data loss is time at risk over losses. That is exact for exponential lifetimes
//! when losses are rare, or missions so long that all end in one; with ageing nodes it is that of
//! the mission's years, not beyond.

use suture_repair::random::Random;

use super::Model;
use super::branch;
use super::mission::{self, Mission};
use super::outage::Outage;

/// Standard errors on either side: 95 % of a normal distribution lie within.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// Counting so many losses errs by 10 %: from here on biased runs have nothing to add.
const COUNTED_MIN: usize = 100;

/// Spreads run numbers over seeds, so that runs of near seeds share nothing.
const RUN_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// How much to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// How many missions to simulate.
    pub runs: usize,
    /// Biased outages of each.
    pub outages_per_run: usize,
    /// Which of the two estimates to report.
    pub method: Method,
    /// Where everything random begins.
    pub seed: u64,
}

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Counting, where at least 100 missions lose data, else biasing.
    Auto,
    /// Missions that lost data, counted.
    Counting,
    /// Outages in which failures are frequent, weighted.
    Biasing,
}

/// A number and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate of the number itself.
    pub value: f64,
    /// At least, with confidence.
    pub low: f64,
    /// At most; may be infinite.
    pub high: f64,
}

impl Interval {
    /// Whether a number is within.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// An estimate of durability, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The chance that a mission loses data.
    pub loss_probability: Interval,
    /// Mean time to data loss, in seconds; infinite when no loss was found.
    pub mttdl_seconds: Interval,
    /// Half the interval of the chance over its value; infinite when no loss was found.
    pub relative_error: f64,
    /// The method that was used: counting or biasing.
    pub method: Method,
    /// Missions that were simulated.
    pub runs: usize,
    /// Missions that lost data.
    pub missions_lost: usize,
    /// Biased outages that were simulated.
    pub outages: usize,
    /// Of them, with a loss.
    pub outages_lost: usize,
    /// As many equal weights would say as much as those of the losses that were found.
    pub effective_samples: f64,
    /// The part of the time in which some node was failed.
    pub busy_share: f64,
}

/// What one run adds.
struct Sample {
    seconds: f64,
    calm_seconds: f64,
    is_lost: bool,
    /// Its unbiased guess at the chance of a loss.
    chance: f64,
}

/// Sums over weights of biased outages.
#[derive(Default)]
struct Weights {
    sum: f64,
    squares: f64,
    outages: usize,
    losses: usize,
}

/// Runs missions and outages. The same model and effort give the same estimate.
pub fn estimate(model: &Model, effort: &Effort) -> Estimate {
    let mut outage = Outage::new(model);
    let mut weights = Weights::default();
    let runs: Vec<Sample> = (0..effort.runs as u64)
        .map(|index| {
            let seed = effort.seed.wrapping_add(1).wrapping_mul(RUN_STRIDE).wrapping_add(index);
            run(model, &mut outage, effort, &mut Random::new(seed), &mut weights)
        })
        .collect();
    let lost = runs.iter().filter(|run| run.is_lost).count();
    let method = match effort.method {
        Method::Auto if lost >= COUNTED_MIN => Method::Counting,
        Method::Auto => Method::Biasing,
        method => method,
    };
    let (chance, mttdl) = match method {
        Method::Counting => counted(&runs, lost),
        _ => weighted(&runs),
    };
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let calm: f64 = runs.iter().map(|run| run.calm_seconds).sum();
    let effective = match method {
        Method::Counting => lost as f64,
        _ if weights.squares > 0.0 => weights.sum * weights.sum / weights.squares,
        _ => 0.0,
    };
    Estimate {
        loss_probability: chance,
        mttdl_seconds: mttdl,
        relative_error: (chance.high - chance.low) / 2.0 / chance.value,
        method,
        runs: runs.len(),
        missions_lost: lost,
        outages: weights.outages,
        outages_lost: weights.losses,
        effective_samples: effective,
        busy_share: 1.0 - calm / seconds,
    }
}

fn run(
    model: &Model,
    outage: &mut Outage<'_>,
    effort: &Effort,
    random: &mut Random,
    weights: &mut Weights,
) -> Sample {
    let moments = if effort.method == Method::Counting { 0 } else { effort.outages_per_run };
    let Mission { is_lost, seconds, calm_seconds, outages, moments } =
        mission::run(model, outage, moments, random);
    let mut chance = 0.0;
    let count = moments.len();
    for (at, fleet) in moments {
        let loss = branch::loss_chance(model, outage, at, fleet, random);
        let weight = loss * outages / count as f64;
        chance += weight;
        weights.sum += weight;
        weights.squares += weight * weight;
        weights.outages += 1;
        weights.losses += usize::from(weight > 0.0);
    }
    Sample { seconds, calm_seconds, is_lost, chance }
}

/// Wilson's interval for the chance; for the time that of a Poisson count.
fn counted(runs: &[Sample], lost: usize) -> (Interval, Interval) {
    let (count, z2) = (runs.len() as f64, NORMAL_95 * NORMAL_95);
    let share = lost as f64 / count;
    let middle = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let variance = share * (1.0 - share) / count + z2 / (4.0 * count * count);
    let half = NORMAL_95 * variance.sqrt() / (1.0 + z2 / count);
    let low = if lost == 0 { 0.0 } else { middle - half };
    let chance = Interval { value: share, low, high: (middle + half).min(1.0) };
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let factor = (NORMAL_95 / (lost as f64).sqrt()).exp();
    let mean = seconds / lost as f64;
    let mttdl = match lost {
        0 => Interval { value: f64::INFINITY, low: seconds / 3.0, high: f64::INFINITY },
        _ => Interval { value: mean, low: mean / factor, high: mean * factor },
    };
    (chance, mttdl)
}

/// Normal intervals of the runs' mean and of a ratio of means.
fn weighted(runs: &[Sample]) -> (Interval, Interval) {
    let count = runs.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| runs.iter().map(of).sum::<f64>() / count;
    let error = |of: &dyn Fn(&Sample) -> f64, mean: f64| {
        let squares: f64 = runs.iter().map(|run| (of(run) - mean).powi(2)).sum();
        NORMAL_95 * (squares / (count - 1.0).max(1.0) / count).sqrt()
    };
    let value = mean(&|run| run.chance);
    let seconds = mean(&|run| run.seconds);
    if value == 0.0 {
        return counted(runs, 0);
    }
    let half = error(&|run| run.chance, value);
    let chance = Interval { value, low: (value - half).max(0.0), high: (value + half).min(1.0) };
    let rate = value / seconds;
    // Losses of a run against what its time at risk makes expect: the two go together.
    let rate_half = error(&|run| run.chance - rate * run.seconds, 0.0) / seconds;
    let high = if rate > rate_half { 1.0 / (rate - rate_half) } else { f64::INFINITY };
    let mttdl = Interval { value: 1.0 / rate, low: 1.0 / (rate + rate_half), high };
    (chance, mttdl)
}
