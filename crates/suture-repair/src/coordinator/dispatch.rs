//! From the queue to running repairs: plan what is ready in one batch, admit what fits.
//!
//! Place: ... stripes affected -> queue -> [plan -> admit -> dispatch] -> slices flow -> ...
//! Stripes are planned together so that their loads balance, and admitted one by one as memory
//! and the schedule allow; one that does not fit now never stands in the way of one that does.
//! The planner is asked only for what every usable agent says that it can execute.

use std::collections::{BTreeSet, VecDeque};

use super::attempt::{Attempt, Goal, State};
use super::{Coordinator, Planned};
use crate::budget::Admission;
use crate::event::{Blocked, Output, Report};
use crate::id::{ChunkIndex, NodeId, RepairId, StripeId};
use crate::message::{Task, ToAgent};
use crate::plan::Plan;
use crate::planner::{self, Job, PlanError, View};
use crate::policy::Schedule;
use crate::stripe::Stripe;
use crate::time::Time;

/// Stripes planned at a time: enough to balance thousands of nodes, few enough to stay quick.
const BATCH_MAX: usize = 8192;

/// Plans that may be passed over in one go because they do not fit now: those behind them would
/// hardly fit either, and looking at all of them after each event would cost more than it gains.
const PASSED_OVER_MAX: usize = 64;

/// What an operator may learn before anything is done.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// What would be dispatched.
    pub plans: Vec<Plan>,
    /// What cannot be repaired, and why.
    pub refused: Vec<(StripeId, PlanError)>,
    /// What the fullest link or disk would need, in seconds.
    pub max_load_seconds: f64,
}

impl Coordinator {
    /// What would be done about everything that is lost now, without doing it.
    pub fn preview(&self) -> Preview {
        let waiting = self.lost.keys().filter(|id| !self.repairing.contains_key(id));
        let jobs: Vec<Job> = waiting.filter_map(|id| self.job(*id)).collect();
        let (accepts, load) = (self.accepts(&jobs), &self.load);
        let view = self.view(&accepts, load);
        let batch = planner::plan(self.config.policy, &jobs, &view, self.seed());
        let mut total = load.clone();
        for plan in &batch.plans {
            let job = jobs.iter().find(|job| job.stripe == plan.stripe).expect("planned a job");
            total.add(&self.cluster, plan, &job.facts());
        }
        Preview {
            plans: batch.plans,
            refused: batch.refused.into_iter().map(|(i, why)| (jobs[i].stripe, why)).collect(),
            max_load_seconds: total.max_seconds(&self.cluster),
        }
    }

    /// Plans everything that is ready, most urgent first.
    pub(super) fn plan_ready(&mut self, now: Time) {
        let ready: Vec<StripeId> = self.queue.ready().take(BATCH_MAX).collect();
        if ready.is_empty() {
            return;
        }
        let jobs: Vec<Job> = ready.iter().filter_map(|id| self.job(*id)).collect();
        let accepts = self.accepts(&jobs);
        let view = self.view(&accepts, &self.load);
        let batch = planner::plan(self.config.policy, &jobs, &view, self.seed());
        for (index, why) in batch.refused {
            self.refused(now, &jobs[index], why);
        }
        let chunks = batch.plans.len();
        let mut jobs = jobs.into_iter();
        for plan in batch.plans {
            let job = jobs.find(|job| job.stripe == plan.stripe).expect("plans follow their jobs");
            self.load.add(&self.cluster, &plan, &job.facts());
            self.queue.take(plan.stripe);
            self.planned_order.push_back(plan.stripe);
            self.planned.insert(plan.stripe, Planned { job, plan });
        }
        if chunks > 0 {
            let max_load_seconds = self.load.max_seconds(&self.cluster);
            self.report(Report::Planned { chunks, max_load_seconds });
        }
    }

    /// Starts what fits.
    pub(super) fn admit_planned(&mut self, now: Time) {
        let window = self.window();
        let mut later = VecDeque::new();
        while later.len() < PASSED_OVER_MAX && self.running.len() < window {
            let Some(stripe) = self.planned_order.pop_front() else { break };
            let Some(planned) = self.planned.get(&stripe) else { continue };
            let repair = RepairId::new(self.config.epoch, self.next_sequence);
            let alignment = planned.job.code.alignment() as u32;
            match self.budget.admit(repair, &planned.plan, alignment) {
                Admission::Later => later.push_back(stripe),
                Admission::TooLarge { node, needed, pool } => {
                    self.unplan_stripe(stripe);
                    self.hold_back(now, stripe, Blocked::Pool { node, needed, pool });
                }
                Admission::Admitted(fit) => {
                    self.next_sequence += 1;
                    let planned = self.planned.remove(&stripe).expect("looked up above");
                    self.dispatch(now, repair, planned, (fit.slice_bytes, fit.window));
                }
            }
        }
        later.append(&mut self.planned_order);
        self.planned_order = later;
    }

    fn dispatch(&mut self, now: Time, repair: RepairId, planned: Planned, slices: (u32, u32)) {
        let plan = &planned.plan;
        let stripe = self.stripes.get(plan.stripe).expect("planned, so known").clone();
        let goals = plan.lost.iter().map(|&chunk| Goal {
            chunk,
            destination: plan.destinations[&chunk],
            bytes_done: 0,
            state: State::Flowing,
        });
        let entry = Attempt {
            stripe: plan.stripe,
            goals: goals.collect(),
            bytes: stripe.chunk_bytes,
            work: None,
            progressed_at: now,
            since: now,
        };
        let (slice_bytes, window) = slices;
        let task = Task { repair, stripe, plan: plan.clone(), slice_bytes, window };
        for to in plan.participants() {
            let message = ToAgent::Dispatch(Box::new(task.clone()));
            self.outputs.push_back(Output::Send { to, message });
        }
        self.report(Report::Started { repair, plan: plan.clone() });
        if let Some(trouble) = self.trouble.get_mut(&entry.stripe) {
            // It runs again: whatever it waited for, it waits no longer.
            trouble.blocked = None;
        }
        self.repairing.insert(entry.stripe, repair);
        self.running.insert(repair, Attempt { work: Some(planned), ..entry });
    }

    pub(super) fn next_repair(&mut self) -> RepairId {
        self.next_sequence += 1;
        RepairId::new(self.config.epoch, self.next_sequence - 1)
    }

    /// Forgets all plans that have not been dispatched; their stripes are ready again.
    pub(super) fn unplan(&mut self) {
        let stripes: Vec<StripeId> = self.planned.keys().copied().collect();
        stripes.into_iter().for_each(|stripe| self.unplan_stripe(stripe));
        self.planned_order.clear();
    }

    /// Forgets the plan of one stripe.
    pub(super) fn unplan_stripe(&mut self, stripe: StripeId) {
        if let Some(planned) = self.planned.remove(&stripe) {
            self.load.subtract(&self.cluster, &planned.plan, &planned.job.facts());
            self.enqueue(stripe, None);
        }
    }

    fn window(&self) -> usize {
        match self.config.policy.schedule.in_force() {
            Schedule::Window(Some(repairs)) => repairs as usize,
            Schedule::Window(None) => self.cluster.ids().filter(|n| self.health.is_up(*n)).count(),
            _ => usize::MAX,
        }
    }

    /// One seed for each batch, so that the next attempt chooses otherwise.
    fn seed(&self) -> u64 {
        self.config.seed ^ (u64::from(self.config.epoch) << 32 | u64::from(self.next_sequence))
    }

    fn view<'a>(&'a self, accepts: &'a [bool], load: &'a crate::plan::load::Load) -> View<'a> {
        View { cluster: &self.cluster, accepts, load, abilities: self.health.abilities() }
    }

    /// Which nodes can take a chunk: usable, with room for the largest chunk of the batch.
    fn accepts(&self, jobs: &[Job]) -> Vec<bool> {
        let room = jobs.iter().map(|job| job.chunk_bytes).max().unwrap_or(0);
        let accepts = |id: NodeId| self.health.is_up(id) && self.health.get(id).free_bytes > room;
        self.cluster.ids().map(accepts).collect()
    }

    /// The question for the planner.
    fn job(&self, id: StripeId) -> Option<Job> {
        let (stripe, all_lost) = (self.stripes.get(id)?, self.lost.get(&id)?);
        let usable = |chunk: ChunkIndex| {
            let (node, _) = stripe.copy(chunk)?;
            (self.health.is_up(node) && !all_lost.contains(&chunk)).then_some((chunk, node))
        };
        let survivors: Vec<(ChunkIndex, NodeId)> = stripe.indices().filter_map(usable).collect();
        let lost = self.lost_together(stripe, all_lost, &survivors);
        let is_target = |chunk: &ChunkIndex| lost.len() == 1 && lost.contains(chunk);
        let homes = stripe.indices().filter(|chunk| !is_target(chunk));
        let trouble = self.trouble.get(&id);
        Some(Job {
            stripe: id,
            code: stripe.code,
            chunk_bytes: stripe.chunk_bytes,
            survivors,
            excluded: homes.filter_map(|chunk| stripe.copy(chunk)).map(|(node, _)| node).collect(),
            avoid: trouble.map(|t| t.avoid.iter().copied().collect()).unwrap_or_default(),
            lost,
        })
    }

    /// Which of a stripe's lost chunks are rebuilt in one go: all that can be, so that the
    /// survivors are read once, if enough nodes that the stripe does not touch can keep them.
    /// Otherwise the first, which may return to where it was: a node keeps its place in the stripe
    /// until its chunk has another, so several chunks could stand in each other's way.
    fn lost_together(
        &self,
        stripe: &Stripe,
        lost: &BTreeSet<ChunkIndex>,
        survivors: &[(ChunkIndex, NodeId)],
    ) -> Vec<ChunkIndex> {
        let mut lost: Vec<ChunkIndex> = lost.iter().copied().collect();
        if lost.len() == 1 {
            return lost;
        }
        let known: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
        let can_repair = |lost: &[ChunkIndex]| stripe.code.helpers_for(lost, &known).is_ok();
        if !can_repair(&lost) && lost.iter().any(|&chunk| can_repair(&[chunk])) {
            // Local groups repair what the rest of the stripe cannot.
            lost.retain(|&chunk| can_repair(&[chunk]));
        }
        let has_room = |node: &NodeId| {
            let free_bytes = self.health.get(*node).free_bytes;
            self.health.is_up(*node) && free_bytes > stripe.chunk_bytes
        };
        let is_free = |node: &NodeId| has_room(node) && stripe.chunk_on(*node).is_none();
        let abilities = self.health.abilities();
        let together = abilities.combined
            && abilities.finished
            && self.cluster.ids().filter(is_free).nth(lost.len() - 1).is_some();
        if !together {
            lost.truncate(1);
        }
        lost
    }

    fn refused(&mut self, now: Time, job: &Job, why: PlanError) {
        let stripe = self.stripes.get(job.stripe).expect("it was queued");
        let left = self.chunks_left(stripe);
        let from_left = |&lost: &ChunkIndex| stripe.code.helpers_for(&[lost], &left);
        let why = if !why.is_beyond_repair() {
            Blocked::Plan(why)
        } else if self.lost[&stripe.id].iter().any(|lost| from_left(lost).is_ok()) {
            // Some holders are only silent: they may speak again, or be declared dead.
            Blocked::Silent { needed: stripe.code.data_chunks(), up: job.survivors.len() }
        } else {
            Blocked::Plan(match why {
                PlanError::NotEnoughChunks { needed, .. } => {
                    PlanError::NotEnoughChunks { needed, available: left.len() }
                }
                other => other,
            })
        };
        self.hold_back(now, job.stripe, why);
    }

    /// Puts a stripe to sleep until something changes, or for the longest wait, and says why.
    fn hold_back(&mut self, now: Time, id: StripeId, why: Blocked) {
        self.enqueue(id, Some(now + self.config.timers.retry_max));
        self.block(id, why);
    }

    /// Chunks that are not known to be lost, on nodes up or silent.
    fn chunks_left(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let lost = &self.lost[&stripe.id];
        stripe.indices().filter(|chunk| !lost.contains(chunk)).collect()
    }
}
