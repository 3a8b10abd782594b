//! `suture simulate` for scripts: the fields of `plan`, and those of a run.
//!
//! Place: `failure -> ... -> stripe healthy`, as JSON.

use serde::Serialize;
use suture_repair::plan::json::{Document, FORMAT, load_rows};
use suture_sim::client::percentile;

use super::foreground::Interference;
use super::{Run, SimulationInput};

/// The output, in the order in which it is written.
#[derive(Serialize)]
pub struct SimulationDocument {
    #[serde(flatten)]
    plan: Document,
    seconds: f64,
    percent_of_bound: Option<f64>,
    repaired_bytes_per_second: f64,
    chunk_seconds: ChunkSeconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreground: Option<Interference>,
}

#[derive(Serialize)]
struct ChunkSeconds {
    p50: f64,
    p99: f64,
    max: f64,
}

pub fn document(question: &SimulationInput<'_>, evaluation: &Run) -> SimulationDocument {
    let (input, simulated) = (question.input, &evaluation.simulated);
    let plan = Document {
        format: FORMAT,
        policy: evaluation.policy.to_string(),
        code: input.code.to_string(),
        chunk_bytes: input.chunk_bytes,
        lost_chunks: question.damage.lost_chunks,
        bound_seconds: evaluation.bound_seconds,
        own_bound_seconds: None,
        max_load_seconds: evaluation.max_load_seconds,
        ratio: evaluation.ratio(),
        planning_seconds: evaluation.planning_seconds,
        cross_rack_bytes: simulated.load.cross_rack_bytes(),
        moved_bytes: simulated.load.moved_bytes(),
        load: load_rows(&simulated.load, &input.cluster),
        unrepairable: evaluation.unrepairable.iter().map(|(stripe, _)| stripe.0).collect(),
        plans: None,
    };
    let chunks = evaluation.chunk_seconds();
    SimulationDocument {
        plan,
        seconds: simulated.seconds,
        percent_of_bound: evaluation.percent_of_bound(),
        repaired_bytes_per_second: evaluation.repaired_bytes_per_second(),
        chunk_seconds: ChunkSeconds {
            p50: percentile(&chunks, 0.5),
            p99: percentile(&chunks, 0.99),
            max: percentile(&chunks, 1.0),
        },
        foreground: evaluation.clients.as_ref().map(Interference::of),
    }
}
