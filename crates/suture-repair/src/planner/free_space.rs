//! Free space: no node is given more chunks in one batch than it has space for.
//!
//! Place: `[plan]`, around every planner. Planners see to it that a destination has space for the
//! chunk at hand. Space for one chunk and not for all is rare, so a batch is first planned as if
//! there were no such node. Where one would be filled beyond that, as many stripes as it has space
//! for may still keep a chunk there, the others not, and all is planned anew: the choice of the
//! other destinations, and of helpers, is made in the light of it. Where that takes many rounds, or
//! leaves a stripe without a destination, each overfull node gets as many chunks as fit, and only
//! the rest is planned anew, with what was kept as load and with the space that is left.
//!
//! Those chunks keep their place that have the fewest other nodes to go to. That is no exact
//! assignment: when nearly everything is full, a chunk may be refused that another order could have
//! placed.
//!
//! Invariants: what a batch puts on a node fits into its free space. Each round rations a node
//! more, or settles a plan on each overfull node, so rounds end.

use std::cmp::Reverse;

use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::plan::Plan;
use crate::plan::load::Load;
use crate::planner::{Batch, Job, PlanError, View};

/// The most rounds in which all is planned anew.
pub(super) const ROUNDS_MAX: usize = 12;

/// Bytes that the lost chunks of all jobs take where they are kept.
pub(crate) fn batch_bytes(jobs: &[Job]) -> u64 {
    let bytes = |job: &Job| job.chunk_bytes.saturating_mul(job.lost.len() as u64);
    jobs.iter().map(bytes).fold(0, u64::saturating_add)
}

/// Plans with `plan_batch`, as often as it takes.
pub(super) fn within(
    jobs: &[Job],
    view: &View<'_>,
    plan_batch: impl Fn(&[Job], &View<'_>) -> Batch,
) -> Batch {
    let batch = plan_batch(jobs, view);
    if !overfull(&batch, view.free_bytes).contains(&true) {
        return batch;
    }
    if let Some(rationed) = rationed(jobs, view, &batch, &plan_batch) {
        return rationed;
    }
    let mut settled = Settled::new(jobs, view);
    let mut left = settled.take(batch, (0..jobs.len()).collect());
    while !left.is_empty() {
        let again: Vec<Job> = left.iter().map(|&index| jobs[index].clone()).collect();
        let view = View { free_bytes: &settled.free_bytes, load: &settled.load, ..*view };
        let batch = plan_batch(&again, &view);
        left = settled.take(batch, left);
    }
    settled.batch()
}

/// Plans for all jobs, of which only so many may keep a chunk on a node as it has space for; none
/// if that would refuse more jobs than `unlimited`, planned without it, or takes too many rounds.
fn rationed(
    jobs: &[Job],
    view: &View<'_>,
    unlimited: &Batch,
    plan_batch: impl Fn(&[Job], &View<'_>) -> Batch,
) -> Option<Batch> {
    let mut rationed_jobs = jobs.to_vec();
    let mut batch = unlimited.clone();
    for _ in 0..ROUNDS_MAX {
        let overfull = overfull(&batch, view.free_bytes);
        if !overfull.contains(&true) {
            return Some(batch);
        }
        let spare = spare(view.free_bytes, &overfull);
        let full = (0..).map(NodeId).zip(&overfull).filter(|(_, is_over)| **is_over);
        let kept: Vec<(NodeId, Vec<usize>)> = full
            .map(|(node, _)| (node, kept_on(node, &batch, &rationed_jobs, view, &spare)))
            .collect();
        for (node, kept) in kept {
            for (index, job) in rationed_jobs.iter_mut().enumerate() {
                if kept.binary_search(&index).is_err() {
                    job.excluded.push(node);
                }
            }
        }
        batch = plan_batch(&rationed_jobs, view);
        if batch.refused.len() > unlimited.refused.len() {
            return None;
        }
    }
    None
}

/// Of the jobs that a batch gives `node` to keep, as many as it has space for: those with the
/// fewest other nodes to go to, in ascending order.
fn kept_on(
    node: NodeId,
    batch: &Batch,
    jobs: &[Job],
    view: &View<'_>,
    spare: &[bool],
) -> Vec<usize> {
    let keeps = |plan: &Plan| plan.destinations.values().any(|kept_by| *kept_by == node);
    let mut wanted: Vec<usize> =
        batch.planned_at(jobs).filter(|(_, plan)| keeps(plan)).map(|(index, _)| index).collect();
    wanted.sort_by_cached_key(|index| Reverse(blocked(&jobs[*index], spare)));
    let mut free_bytes = view.free_bytes[node.index()];
    wanted.retain(|index| match free_bytes.checked_sub(jobs[*index].chunk_bytes) {
        Some(left) => {
            free_bytes = left;
            true
        }
        None => false,
    });
    wanted.sort_unstable();
    wanted
}

/// The plans and refusals that stay.
struct Settled<'a> {
    jobs: &'a [Job],
    cluster: &'a Cluster,
    free_bytes: Vec<u64>,
    load: Load,
    plans: Vec<(usize, Plan)>,
    refused: Vec<(usize, PlanError)>,
}

impl<'a> Settled<'a> {
    fn new(jobs: &'a [Job], view: &View<'a>) -> Settled<'a> {
        Settled {
            jobs,
            cluster: view.cluster,
            free_bytes: view.free_bytes.to_vec(),
            load: view.load.clone(),
            plans: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Keeps what fits of a batch for the jobs of these `indices`, and returns those of the rest.
    fn take(&mut self, batch: Batch, indices: Vec<usize>) -> Vec<usize> {
        let overfull = overfull(&batch, &self.free_bytes);
        let mut refused = batch.refused.into_iter().peekable();
        let mut plans = batch.plans.into_iter();
        let mut contested = Vec::new();
        for (place, &index) in indices.iter().enumerate() {
            if let Some((_, error)) = refused.next_if(|(at, _)| *at == place) {
                self.refused.push((index, error));
                continue;
            }
            let plan =
                plans.next().expect("a batch has a plan for each job that it does not refuse");
            if plan.destinations.values().any(|node| overfull[node.index()]) {
                contested.push((index, plan))
            } else {
                self.settle(index, plan)
            }
        }
        let spare = spare(&self.free_bytes, &overfull);
        contested.sort_by_cached_key(|(index, _)| Reverse(blocked(&self.jobs[*index], &spare)));
        let mut left = Vec::new();
        for (index, plan) in contested {
            let bytes = self.jobs[index].chunk_bytes;
            if plan.destinations.values().all(|node| self.free_bytes[node.index()] >= bytes) {
                self.settle(index, plan)
            } else {
                left.push(index)
            }
        }
        left.sort_unstable();
        left
    }

    fn settle(&mut self, index: usize, plan: Plan) {
        for node in plan.destinations.values() {
            self.free_bytes[node.index()] -= plan.range.bytes();
        }
        self.load.add(self.cluster, &plan, &self.jobs[index].facts());
        self.plans.push((index, plan));
    }

    fn batch(mut self) -> Batch {
        self.plans.sort_by_key(|(index, _)| *index);
        self.refused.sort_by_key(|(index, _)| *index);
        let plans = self.plans.into_iter().map(|(_, plan)| plan).collect();
        Batch { plans, refused: self.refused, ..Batch::default() }
    }
}

/// For each node, whether it has space and is not overfull.
fn spare(free_bytes: &[u64], overfull: &[bool]) -> Vec<bool> {
    let nodes = free_bytes.iter().zip(overfull);
    nodes.map(|(free_bytes, is_over)| *free_bytes > 0 && !is_over).collect()
}

/// How many spare nodes cannot keep the chunks of a job: the others are its alternatives, racks
/// aside.
fn blocked(job: &Job, spare: &[bool]) -> usize {
    let mut taken: Vec<NodeId> = job.survivors.iter().map(|(_, node)| *node).collect();
    taken.extend(&job.excluded);
    taken.sort_unstable();
    taken.dedup();
    taken.iter().filter(|node| spare[node.index()]).count()
}

/// For each node, whether a batch brings it more than it has space for.
fn overfull(batch: &Batch, free_bytes: &[u64]) -> Vec<bool> {
    let mut left: Vec<Option<u64>> = free_bytes.iter().copied().map(Some).collect();
    for plan in &batch.plans {
        for node in plan.destinations.values().map(|node| node.index()) {
            left[node] = left[node].and_then(|left| left.checked_sub(plan.range.bytes()));
        }
    }
    left.iter().map(Option::is_none).collect()
}
