//! Plans that may be printed or dispatched: each one valid, whatever the planner did.
//!
//! Place: `[plan]`, between a planner and the code that acts on its plans. A planner is a function
//! of its input, so one that makes an invalid plan or panics does so again for every attempt at the
//! same job. Here the job is refused instead, and the others go on: an invalid plan becomes
//! [`PlanError::Invalid`]; after a panic the batch is planned job by job, and the job that panics
//! becomes [`PlanError::Panicked`].
//!
//! Job by job a batch is not balanced as a whole, only against the plans before. That happens once
//! in a programmer's mistake; a repair that is not balanced is better than none. The batch reports
//! what the panic said, so that the mistake is seen.
//!
//! Invariant: every plan passes `validate`, and every job has a plan or a reason.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::plan::content::Contents;
use crate::plan::validate::validate_one_of;
use crate::planner::{Batch, Job, PlanError, View, moving};
use crate::policy::Policy;

/// Plans a batch as [`plan`](super::plan) does, and lets no invalid plan and no panic out. What it
/// costs besides is a few times what the published planners take, and a part of what the exact ones
/// take.
pub fn plan_checked(policy: Policy, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let batch = checked(jobs, view, |jobs, view| super::plan(policy, jobs, view, seed));
    if jobs.iter().any(|job| job.source.is_some()) && view.abilities.partial {
        copied(batch, jobs, view, moving::with_copies)
    } else {
        batch
    }
}

/// The batch with copies where these are sooner, and without where adding them panics.
fn copied(
    batch: Batch,
    jobs: &[Job],
    view: &View<'_>,
    add: impl Fn(Batch, &[Job], &View<'_>) -> Batch,
) -> Batch {
    let added = || validated(add(batch.clone(), jobs, view), jobs, view);
    let added = catch_unwind(AssertUnwindSafe(added));
    added.unwrap_or_else(|payload| Batch { panicked: Some(message(&*payload)), ..batch })
}

fn checked(jobs: &[Job], view: &View<'_>, planner: impl Fn(&[Job], &View<'_>) -> Batch) -> Batch {
    let batch = caught(jobs, view, &planner).unwrap_or_else(|message| Batch {
        panicked: Some(message),
        ..one_by_one(jobs, view, &planner)
    });
    validated(batch, jobs, view)
}

/// The batch, or what the planner's panic said.
fn caught(
    jobs: &[Job],
    view: &View<'_>,
    planner: impl Fn(&[Job], &View<'_>) -> Batch,
) -> Result<Batch, String> {
    // Nothing of a planner outlives its panic: it takes its input by shared reference.
    let batch = catch_unwind(AssertUnwindSafe(|| {
        let batch = planner(jobs, view);
        assert_eq!(batch.plans.len() + batch.refused.len(), jobs.len(), "a job has no answer");
        batch
    }));
    batch.map_err(|payload| message(&*payload))
}

/// Plans each job by itself, against the space and the load that the plans before leave.
fn one_by_one(
    jobs: &[Job],
    view: &View<'_>,
    planner: impl Fn(&[Job], &View<'_>) -> Batch,
) -> Batch {
    let cluster = view.cluster;
    let (mut free_bytes, mut load) = (view.free_bytes.to_vec(), view.load.clone());
    let mut all = Batch::default();
    for (index, job) in jobs.iter().enumerate() {
        let view = View { free_bytes: &free_bytes, load: &load, ..*view };
        let alone = std::slice::from_ref(job);
        let batch = match caught(alone, &view, &planner) {
            Ok(batch) => validated(batch, alone, &view),
            Err(message) => Batch::refuse_all(alone, &PlanError::Panicked { message }),
        };
        all.refused.extend(batch.refused.into_iter().map(|(_, why)| (index, why)));
        for plan in batch.plans {
            for node in plan.destinations.values() {
                let free = &mut free_bytes[node.index()];
                *free = free.saturating_sub(plan.range.bytes());
            }
            load.add(cluster, &plan, &job.facts());
            all.plans.push(plan);
        }
    }
    all
}

/// The batch without the plans that are not valid: their jobs are refused.
pub fn validated(mut batch: Batch, jobs: &[Job], view: &View<'_>) -> Batch {
    let node_count = view.cluster.nodes.len();
    let mut contents = Contents::default();
    let checked = batch.planned_at(jobs).map(|(index, plan)| {
        let facts = jobs[index].facts();
        let fault = validate_one_of(plan, &facts, node_count, &mut contents).err();
        (index, fault)
    });
    let faults: Vec<_> = checked.collect();
    if faults.iter().all(|(_, fault)| fault.is_none()) {
        return batch;
    }
    let mut is_valid = faults.iter().map(|(_, fault)| fault.is_none());
    batch.plans.retain(|_| is_valid.next().expect("each plan was checked"));
    let invalid = faults.into_iter().filter_map(|(index, fault)| Some((index, fault?)));
    batch.refused.extend(invalid.map(|(index, fault)| (index, PlanError::Invalid(fault))));
    batch.refused.sort_by_key(|(index, _)| *index);
    batch
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Rate};
    use crate::id::{ChunkIndex, NodeId, StripeId};
    use crate::plan::load::Load;
    use crate::plan::{LaneFault, PlanFault};
    use crate::planner::Abilities;

    fn job(stripe: u64) -> Job {
        Job {
            stripe: StripeId(stripe),
            code: "rs(2,1)".parse::<suture_code::Code>().unwrap().into(),
            chunk_bytes: 64,
            lost: vec![ChunkIndex(0)],
            survivors: vec![(ChunkIndex(1), NodeId(1)), (ChunkIndex(2), NodeId(2))],
            idle: Vec::new(),
            excluded: vec![NodeId(0), NodeId(1), NodeId(2)],
            keeper_places: Vec::new(),
            avoid: Vec::new(),
            source: None,
        }
    }

    /// Plans five stripes with what `cr` makes, after `spoil` had its way with it.
    fn planned(room: [u64; 5], spoil: impl Fn(&[Job], &mut Batch)) -> Batch {
        let cluster = Cluster::uniform(5, Rate(1.0));
        let (load, abilities) = (Load::new(&cluster), Abilities::ALL);
        let view = View { cluster: &cluster, free_bytes: &room, load: &load, abilities };
        let jobs: Vec<Job> = (0..5).map(job).collect();
        checked(&jobs, &view, |jobs, view| {
            let mut batch = crate::planner::plan("cr".parse().unwrap(), jobs, view, 1);
            spoil(jobs, &mut batch);
            batch
        })
    }

    fn stripes(batch: &Batch) -> Vec<u64> {
        batch.plans.iter().map(|plan| plan.stripe.0).collect()
    }

    const ROOM: [u64; 5] = [0, 0, 0, u64::MAX, u64::MAX];

    #[test]
    fn copies_that_cannot_be_added_cost_no_plan() {
        let cluster = Cluster::uniform(5, Rate(1.0));
        let (load, abilities) = (Load::new(&cluster), Abilities::ALL);
        let view = View { cluster: &cluster, free_bytes: &ROOM, load: &load, abilities };
        let jobs: Vec<Job> = (0..5).map(job).collect();
        let batch = planned(ROOM, |_, _| {});
        let found = copied(batch.clone(), &jobs, &view, |_, _, _| panic!("no copies today"));
        assert_eq!((found.plans, found.refused), (batch.plans, batch.refused));
        assert_eq!(found.panicked.as_deref(), Some("no copies today"));
    }

    #[test]
    fn an_invalid_plan_is_refused_with_its_fault_and_the_others_stay() {
        let batch = planned(ROOM, |_, batch| {
            let lane = &mut batch.plans[3].lanes[0];
            lane.edges[1].bytes += 1;
            batch.plans[1].lanes.clear();
        });
        assert_eq!(stripes(&batch), [0, 2, 4]);
        let [(1, PlanError::Invalid(first)), (3, PlanError::Invalid(second))] = &batch.refused[..]
        else {
            panic!("{:?}", batch.refused)
        };
        assert!(matches!(first, PlanFault::Gap { .. }), "{first}");
        let PlanFault::Lane { lane: 0, fault } = second else { panic!("{second}") };
        assert!(matches!(fault, LaneFault::Bytes { expected: 64, found: 65, .. }), "{fault}");
        assert_eq!(batch.panicked, None);
    }

    #[test]
    fn a_job_that_makes_the_planner_panic_is_refused_alone() {
        let batch = planned(ROOM, |jobs, _| {
            assert!(jobs.iter().all(|job| job.stripe != StripeId(2)), "odd stripe");
        });
        assert_eq!(stripes(&batch), [0, 1, 3, 4]);
        let message = "odd stripe".to_string();
        assert_eq!(batch.panicked.as_ref(), Some(&message));
        assert_eq!(batch.refused, [(2, PlanError::Panicked { message })]);
    }

    #[test]
    fn a_planner_that_forgets_a_job_has_panicked() {
        let batch = planned(ROOM, |_, batch| {
            batch.plans.retain(|plan| plan.stripe != StripeId(4));
        });
        assert_eq!(stripes(&batch), [0, 1, 2, 3]);
        assert!(matches!(&batch.refused[..], [(4, PlanError::Panicked { .. })]));
    }

    #[test]
    fn jobs_that_are_planned_one_by_one_share_the_room() {
        let batch = planned([0, 0, 0, 128, 64], |jobs, _| assert_eq!(jobs.len(), 1, "several"));
        assert_eq!(stripes(&batch), [0, 1, 2]);
        let refused = batch.refused.iter().map(|(_, why)| why);
        assert!(refused.eq([&PlanError::NoDestination; 2]));
    }
}
