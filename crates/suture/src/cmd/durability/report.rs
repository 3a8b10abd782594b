//! `suture durability` for scripts.
//!
//! Place: failure -> ... -> stripe healthy, for years, as JSON. A number that is infinite (no loss
//! was found) is null; probabilities are parts of one, never percent.

use serde::Serialize;
use suture_sim::durability::{self, Method, YEAR_SECONDS};

use super::{DurabilityInput, Prospect, text};

/// The `format` of one policy's answer.
const FORMAT: &str = "suture-durability-1";

/// The `format` of a comparison.
pub const COMPARE_FORMAT: &str = "suture-durability-compare-1";

/// The output, in the order in which it is written.
#[derive(Serialize)]
pub struct Document {
    format: &'static str,
    /// Null when the repair time was given.
    policy: Option<String>,
    code: String,
    nodes: usize,
    racks: usize,
    stripes: usize,
    node_bytes: f64,
    mission_years: f64,
    node_mttf_years: f64,
    weibull_shape: f64,
    rack_mttf_years: Option<f64>,
    detection_seconds: f64,
    repairs: Vec<Repair>,
    repairs_simulated: bool,
    equation_2: Equation2,
    estimate: Estimate,
    markov_chain: MarkovChain,
    /// Null where the chain's assumptions do not hold.
    estimate_as_chain: Option<Estimate>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Repair {
    nodes: usize,
    seconds: f64,
    min_seconds: f64,
    max_seconds: f64,
    simulated: usize,
}

#[derive(Serialize)]
struct Equation2 {
    window_seconds: f64,
    loss_probability: f64,
}

#[derive(Serialize)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct Estimate {
    loss_probability: Interval,
    mttdl_years: Interval,
    relative_error: f64,
    method: &'static str,
    runs: usize,
    missions_lost: usize,
    outages: usize,
    outages_lost: usize,
    effective_samples: f64,
    busy_share: f64,
}

#[derive(Serialize)]
struct MarkovChain {
    loss_probability: f64,
    mttdl_years: f64,
}

pub fn document(question: &DurabilityInput, evaluation: &Prospect) -> Document {
    let input = &question.input;
    let repair = |point: &super::repairs::Point| Repair {
        nodes: point.nodes,
        seconds: point.mean,
        min_seconds: point.min,
        max_seconds: point.max,
        simulated: point.repairs,
    };
    Document {
        format: FORMAT,
        policy: evaluation.policy.map(|policy| policy.to_string()),
        code: input.code.to_string(),
        nodes: input.cluster.nodes.len(),
        racks: input.cluster.racks.len(),
        stripes: input.placement.len() / input.code.chunk_count(),
        node_bytes: question.node_bytes,
        mission_years: question.mission_seconds / YEAR_SECONDS,
        node_mttf_years: question.lifetime.mean() / YEAR_SECONDS,
        weibull_shape: question.weibull.unwrap_or(1.0),
        rack_mttf_years: (!question.racks.is_empty())
            .then_some(question.rack_mttf_seconds / YEAR_SECONDS),
        detection_seconds: question.detection_seconds,
        repairs: evaluation.repaired.points.iter().map(repair).collect(),
        repairs_simulated: evaluation.repaired.is_simulated,
        equation_2: Equation2 {
            window_seconds: evaluation.repaired.points[0].mean,
            loss_probability: evaluation.equation_2,
        },
        estimate: estimate(&evaluation.estimate),
        markov_chain: MarkovChain {
            loss_probability: evaluation.chain.loss_probability(question.mission_seconds),
            mttdl_years: evaluation.chain.mttdl() / YEAR_SECONDS,
        },
        estimate_as_chain: evaluation.as_chain.as_ref().map(estimate),
        warnings: text::warnings(question, evaluation),
    }
}

fn estimate(estimate: &durability::Estimate) -> Estimate {
    let interval = |interval: durability::Interval, unit: f64| Interval {
        value: interval.value / unit,
        low: interval.low / unit,
        high: interval.high / unit,
    };
    Estimate {
        loss_probability: interval(estimate.loss_probability, 1.0),
        mttdl_years: interval(estimate.mttdl_seconds, YEAR_SECONDS),
        relative_error: estimate.relative_error,
        method: match estimate.method {
            Method::Counting => "counting",
            Method::Biasing | Method::Auto => "failure biasing",
        },
        runs: estimate.runs,
        missions_lost: estimate.missions_lost,
        outages: estimate.outages,
        outages_lost: estimate.outages_lost,
        effective_samples: estimate.effective_samples,
        busy_share: estimate.busy_share,
    }
}
