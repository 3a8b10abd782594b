//! Mix: the best of whole chunks and traces, for what is scarce here and what agents can do.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! Traces send a third less than whole chunks and read a third more, and cannot do without slow
//! helpers; so which is better depends on links and disks. Both are planned, and the batch whose
//! busiest port is done first is taken. Where a code has no traces, or some agent cannot execute
//! them, the flow planner is the whole answer.

use crate::cluster::{Node, Rate};
use crate::planner::potential::{self, Kinds};
use crate::planner::{Batch, Job, View, flow_over_racks, peak_seconds};

/// Whole chunks are taken unless traces are faster by this much: they are simpler.
const GAIN_MIN: f64 = 0.01;

/// Plans for all jobs that can be planned.
pub(super) fn plan(jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let chunks = flow_over_racks(jobs, view, seed);
    let abilities = view.abilities;
    let has_schemes = |job: &Job| !job.code.schemes().is_empty();
    if !(abilities.traces && abilities.finished && jobs.iter().any(has_schemes)) {
        return chunks;
    }
    let Some(traces) = potential::batch(jobs, view, Kinds::Traces, seed) else { return chunks };
    let (whole, mixed) = (peak(&chunks, jobs, view), peak(&traces, jobs, view));
    if mixed < whole * (1.0 - GAIN_MIN) { traces } else { chunks }
}

/// How long the busiest port needs for the batch and for what already runs. Where only links of
/// nodes are modelled, edges say it all.
fn peak(batch: &Batch, jobs: &[Job], view: &View<'_>) -> f64 {
    let cluster = view.cluster;
    let has_disk = |node: &Node| node.disk_read.is_some() || node.disk_write.is_some();
    if cluster.core.is_some() || cluster.nodes.iter().any(has_disk) {
        return peak_seconds(batch, jobs, view);
    }
    let running = view.load.nodes().iter();
    let mut bytes: Vec<[u64; 2]> = running.map(|load| [load.up_bytes, load.down_bytes]).collect();
    let lanes = batch.plans.iter().flat_map(|plan| &plan.lanes);
    for edge in lanes.flat_map(|lane| &lane.edges) {
        bytes[edge.child.index()][0] += edge.bytes;
        bytes[edge.parent.index()][1] += edge.bytes;
    }
    let seconds = |bytes: u64, rate: Rate| match bytes {
        0 => 0.0,
        bytes => bytes as f64 / rate.0.max(0.0),
    };
    let nodes = cluster.nodes.iter().zip(&bytes).map(|(node, [up, down])| {
        seconds(*up, node.uplink_free()).max(seconds(*down, node.downlink_free()))
    });
    nodes.fold(0.0, f64::max)
}
