//! Trace: every chunk from traces where a scheme allows it, whatever whole chunks would cost.
//!
//! Place: `[plan]`, one of the exact planners, on top of `potential.rs`. For comparison with `mix`,
//! which takes traces only where they are faster: on equal links they send a third less than k
//! chunks, but no slow helper can be spared. Which scheme, which nodes decode which range and which
//! keeps the chunk is chosen by prices (`potential.rs`): all survivors help, or all but one.
//!
//! Where we had to decide: a stripe that lost several chunks, or lacks more helpers than any scheme
//! can do without, is rebuilt from k whole chunks, as `mix` would; a code without any scheme is
//! refused, and so is a cluster with an agent that cannot execute traces.
//!
//! Source: the schemes are linear exact repair of Reed-Solomon codes, V. Guruswami, M. Wootters,
//! "Repairing Reed-Solomon Codes", STOC'16; ours are searched (`suture codes search`), and decoding
//! at any helper is ours.

use crate::plan::Carries;
use crate::planner::exact::instance::Instance;
use crate::planner::exact::potential::{self, Kinds};
use crate::planner::{Batch, Job, PlanError, View};
use crate::random::Random;

/// Plans for all jobs whose code has schemes.
pub(in crate::planner) fn plan(jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let abilities = view.abilities;
    let needed = [(abilities.traces, Carries::Traces), (abilities.finished, Carries::Finished)];
    if let Some((_, needed)) = needed.into_iter().find(|(can, _)| !can) {
        return Batch::refuse_all(jobs, &PlanError::Inability { needed });
    }
    let instance = Instance::of_those(jobs, view, |job| {
        if job.code.schemes().is_empty() {
            Err(PlanError::NoSchemes { code: job.code.code() })
        } else {
            Ok(())
        }
    });
    let plans = potential::plans(&instance, Kinds::TracesFirst, &mut Random::new(seed));
    Batch { plans, refused: instance.refused, ..Batch::default() }
}
