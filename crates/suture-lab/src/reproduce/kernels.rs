//! What the arithmetic of a repair takes: the codes of its plans, run on buffers and timed.
//!
//! Place: beside [slices flow]. The same programs and kernels as in agents; nothing is sent, and
//! the bytes are noise. A node of a tree adds up what it holds and what it receives: it is timed
//! by the number of its terms. Decoders of traces and sub-chunks run the repair DAG of their code.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use suture_code::dag::{BYTE_WIDTH, Term};
use suture_code::{ChunkIndex, Code, Dag, Join, Program, Scratch, Source};
use suture_repair::id::NodeId;
use suture_repair::plan::Lane;
use suture_repair::planner::Job;
use suture_repair::random::Random;

use super::measure::Measured;
use super::setting::Prepared;
use crate::cpu_time::cpu_ns;

/// Bytes of the buffers that a program is timed on, like the slices of agents.
const SLICE_BYTES: usize = 256 << 10;

/// How often it runs for one time, and how many times are taken: the least of them counts.
const RUNS: usize = 16;
const TIMES: usize = 5;

/// CPU seconds of the codes in all of these plans, per rebuilt byte; `jobs` are theirs.
///
/// # Errors
/// When a plan's code cannot be run.
pub fn seconds_per_byte(prepared: &Prepared, measured: &Measured) -> Result<f64> {
    let damage = prepared.input.damage();
    let mut timed = Timed::default();
    let mut seconds = 0.0;
    for (job, plan) in measured.batch.planned(&damage.jobs) {
        for lane in &plan.lanes {
            seconds += timed.lane(job, lane)? * plan.lane_bytes(lane) as f64;
        }
    }
    Ok(seconds / measured.lost_bytes as f64)
}

/// What is lost, which nodes help, and by which scheme.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RepairKey {
    lost: Vec<ChunkIndex>,
    helpers: Vec<ChunkIndex>,
    scheme: Option<u32>,
}

/// Programs that were timed, so that none is timed twice.
#[derive(Default)]
struct Timed {
    sums: BTreeMap<usize, f64>,
    repairs: BTreeMap<RepairKey, f64>,
}

impl Timed {
    /// Seconds for each byte of the lane.
    fn lane(&mut self, job: &Job, lane: &Lane) -> Result<f64> {
        let (code, helpers) = (job.code.code(), lane.helpers(&job.facts()));
        if lane.decoder.is_some() {
            let scheme = lane.scheme.map(|scheme| scheme.0);
            let key = RepairKey { lost: lane.lost.clone(), helpers, scheme };
            if let Some(&seconds) = self.repairs.get(&key) {
                return Ok(seconds);
            }
            let seconds = time(&decoder_dag(&code, &key)?)?;
            self.repairs.insert(key, seconds);
            return Ok(seconds);
        }
        let mut terms: BTreeMap<NodeId, usize> = BTreeMap::new();
        for edge in &lane.edges {
            *terms.entry(edge.parent).or_default() += 1;
        }
        let holds = |node: &NodeId| {
            let chunk = job.survivors.iter().find(|(_, holder)| holder == node);
            chunk.is_some_and(|(chunk, _)| helpers.contains(chunk))
        };
        let mut seconds = 0.0;
        for (node, received) in terms {
            let count = received + usize::from(holds(&node));
            seconds += match self.sums.get(&count) {
                Some(&seconds) => seconds,
                None => {
                    let timed = time(&sum(count))?;
                    self.sums.insert(count, timed);
                    timed
                }
            };
        }
        Ok(seconds)
    }
}

fn decoder_dag(code: &Code, repair: &RepairKey) -> Result<Dag> {
    Ok(match repair.scheme {
        Some(id) => {
            let scheme = code.scheme(id).context("a known scheme")?;
            code.trace_dag(scheme)?
        }
        None => code.repair_dag(&repair.lost, &repair.helpers)?,
    })
}

/// The sum of so many chunks, each times a constant.
fn sum(terms: usize) -> Dag {
    let mut dag = Dag::new(1);
    let term = |chunk: usize| Source { chunk: ChunkIndex(chunk as u8), sub_chunk: 0 };
    let values: Vec<_> = (0..terms).map(|chunk| dag.add_source(term(chunk), BYTE_WIDTH)).collect();
    let terms = values.iter().zip(2..).map(|(&value, factor)| Term::times(factor, value));
    let value = dag.add_sum(BYTE_WIDTH, Join::Anywhere, terms.collect());
    dag.add_output(ChunkIndex(255), 0, value);
    dag
}

/// CPU seconds of the whole DAG for each byte of a chunk.
fn time(dag: &Dag) -> Result<f64> {
    let program = Program::compile(dag)?;
    let symbols = (SLICE_BYTES / dag.sub_chunk_count() as usize).next_multiple_of(64);
    let mut random = Random::new(1);
    let mut noise = || {
        let mut bytes = vec![0; symbols];
        random.fill(&mut bytes);
        bytes
    };
    let sources: Vec<Vec<u8>> = program.sources().map(|_| noise()).collect();
    let mut outputs: Vec<Vec<u8>> = program.outputs().map(|_| noise()).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut scratch = Scratch::default();
    let mut least_ns = u64::MAX;
    for _ in 0..TIMES {
        let started = cpu_ns();
        for _ in 0..RUNS {
            program.run_with(&mut scratch, &sources, &mut outputs)?;
        }
        least_ns = least_ns.min(cpu_ns() - started);
    }
    let bytes = (RUNS * symbols * dag.sub_chunk_count() as usize) as f64;
    Ok(least_ns as f64 / 1e9 / bytes)
}
