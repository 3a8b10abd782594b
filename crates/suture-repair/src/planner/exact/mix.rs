//! Mix: the best of whole chunks and traces, for what is scarce here and what agents can do.
//!
//! Place: `[plan]`, the exact planner of the preset `suture`, on top of `flow.rs` and
//! `potential.rs`. Traces send a third less than whole chunks and read a third more, and cannot do
//! without slow helpers; and they cost processors about half as much again. So which is better
//! depends on links, disks and processors. Both are planned, and the batch whose busiest port is
//! done first is taken. Where a code has no traces, or some agent cannot execute them, the flow
//! planner is the whole answer.

use crate::plan::Plan;
use crate::planner::exact::flow;
use crate::planner::exact::instance::Instance;
use crate::planner::exact::potential::{self, Kinds};
use crate::planner::{Batch, Job, View};
use crate::random::Random;

/// Whole chunks are taken unless traces are faster by this much: they are simpler.
const GAIN_MIN: f64 = 0.01;

/// Plans for all jobs that can be planned.
pub(in crate::planner) fn plan(jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let instance = Instance::new(jobs, view);
    let plans = match mixed(&instance, jobs, seed) {
        None => flow::plans(&instance, seed),
        Some(mixed) => {
            let worth = instance.peak_seconds(&mixed) / (1.0 - GAIN_MIN);
            // Often no whole chunks could be that fast, and need not be planned.
            if worth < instance.least_seconds() {
                mixed
            } else {
                let whole = flow::plans(&instance, seed);
                if worth < instance.peak_seconds(&whole) { mixed } else { whole }
            }
        }
    };
    Batch { plans, refused: instance.refused, ..Batch::default() }
}

/// Plans with traces, where there are any and agents can execute them.
fn mixed(instance: &Instance<'_>, jobs: &[Job], seed: u64) -> Option<Vec<Plan>> {
    let abilities = instance.view.abilities;
    let has_schemes = |job: &Job| !job.code.schemes().is_empty();
    let can_trace = abilities.traces && abilities.finished && jobs.iter().any(has_schemes);
    can_trace.then(|| potential::plans(instance, Kinds::Traces, &mut Random::new(seed)))
}
