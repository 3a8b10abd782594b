//! The ledger of repairs: what waits, what runs, what memory is reserved, what load is charged.
//!
//! Place: ... plan -> [wait -> admit -> claim -> dispatch -> slices flow -> chunk durable -> commit
//! location] -> stripe healthy. Several accounts are kept of the same repairs, so each transition
//! is one method here that changes all of them; nothing else does:
//!
//! | transition    | waiting | running | memory | load     | schedule gets    |
//! |---------------|---------|---------|--------|----------|------------------|
//! | `wait`        | +       |         |        | +        |                  |
//! | `unplan`      | -       |         |        | -        |                  |
//! | `start`       | -       | +       | +      |          | started          |
//! | `supersede`   |         | + and - | + and -| + and -  | started, ended   |
//! | `adopt`       | -       | + and - | -      | -        | ended            |
//! | `chunk_done`  |         |         | - with the last chunk |  | ended with the last chunk |
//! | `settle`      |         | - with the last chunk | | - with the last chunk |  |
//! | `stop`        |         | -       | -      | -        | ended            |
//! | `stop` of a flow that left a durable chunk | | | -  |       | ended            |
//!
//! `claim` and `claimed` change none of them: a rebuild whose claim is not answered yet has all it
//! needs but the keeper's answer.
//!
//! Memory is reserved while slices flow; load is charged from the plan to the last commit.
//! Invariants: a stripe waits or runs, once; memory and load are those of what waits and runs,
//! exactly. Does not know health, copies or why a repair ends. How far what runs has come is in
//! `ledger/progress.rs`.

mod claims;
mod invariants;
mod links;
mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::{Adopt, Attempt, GoalState, Pending, Rebuild, SettledCommit};
use crate::budget::{Budget, NotAdmitted};
use crate::cluster::Cluster;
use crate::event::Commit;
use crate::id::{ChunkCopy, Generation, NodeId, RackId, RepairId, StripeId};
use crate::label::Label;
use crate::message::Task;
use crate::mutant::{Mistake, Mutant};
use crate::plan::Plan;
use crate::plan::load::Load;
use crate::policy::Policy;
use crate::queue::Margin;
use crate::schedule::{
    ActiveRepair, ActiveRepairs, EdgeSchedule, PlannedRepair, Quota, Sample, Scheduler, Snapshot,
    Waiting,
};
use crate::stripe::Stripe;
use crate::time::Time;

/// What schedules may look at beside the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub now: Time,
    /// How many nodes can be used.
    pub nodes: usize,
    /// How many stripes are ready to be planned.
    pub ready: usize,
    /// How many of them are more urgent than all plans that wait.
    pub urgent: usize,
    pub sample: Option<Sample>,
    /// Whether nodes share a cap of repair.
    pub shares_caps: bool,
}

/// A repair, or its flow, was ended.
#[derive(Clone, Debug)]
pub(super) struct Stopped {
    pub repair: RepairId,
    pub stripe: StripeId,
    /// All nodes of its plan.
    pub participants: Vec<NodeId>,
    /// The nodes that worked on it: they are sent its end.
    pub workers: Vec<NodeId>,
    /// The claim that has become void with it.
    pub claim: Option<RepairId>,
}

/// How much of a repair ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The transfer. Chunks that are durable keep the repair until their locations are settled.
    Transfer,
    /// All of it, durable chunks included: they are found and adopted later.
    Whole,
}

/// What waits and what runs.
#[derive(Debug)]
pub(super) struct Ledger {
    cluster: Cluster,
    epoch: u32,
    next_sequence: u32,
    running: BTreeMap<RepairId, Attempt>,
    repairing: BTreeMap<StripeId, RepairId>,
    /// Plans that wait for admission.
    waiting: Waiting,
    budget: Budget,
    load: Load,
    /// What flows of those that run: known from the start until no agent moves anything.
    active: ActiveRepairs,
    schedule: Scheduler,
    /// Which edges of active repairs flow, where they are released edge by edge.
    edges: Option<EdgeSchedule>,
    /// Whether something happened after which a plan might fit, or be wanted, that did not before.
    may_admit: bool,
    /// When each node last reported to have moved something, in whatever repair.
    moved_at: BTreeMap<NodeId, Time>,
    /// Repairs of which something changed since the invariants were last asserted.
    touched: Vec<RepairId>,
    pub mistake: Mistake,
}

impl Ledger {
    /// A ledger of these nodes in which nothing waits or runs.
    pub fn new(epoch: u32, policy: Policy, cluster: Cluster) -> Ledger {
        Ledger {
            load: Load::new(&cluster),
            cluster,
            epoch,
            next_sequence: 0,
            running: BTreeMap::new(),
            repairing: BTreeMap::new(),
            waiting: Waiting::default(),
            budget: Budget::default(),
            active: ActiveRepairs::new(),
            schedule: Scheduler::new(policy),
            edges: EdgeSchedule::of(policy.schedule),
            may_admit: true,
            moved_at: BTreeMap::new(),
            touched: Vec::new(),
            mistake: Mistake::default(),
        }
    }

    /// Makes the ledger commit this mistake from now on (tests).
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mistake: Mistake) {
        (self.mistake, self.budget.mistake) = (mistake, mistake);
        self.edges.iter_mut().for_each(|edges| edges.mutate(mistake));
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What waits and runs, all of it.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// What waits, and what running repairs have left, as last reported.
    pub fn load_left(&self) -> Load {
        let mut load = self.load.clone();
        for rebuild in self.running.values().filter_map(Attempt::rebuild) {
            let (planned, come) = (&rebuild.planned, rebuild.bytes_come());
            if come > 0 {
                let fraction = come as f64 / planned.plan.range.bytes().max(1) as f64;
                load.subtract_fraction(
                    &self.cluster,
                    &planned.plan,
                    &planned.job.facts(),
                    fraction,
                );
            }
        }
        load
    }

    /// The epoch of repairs that begin.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Repairs have ids of this epoch from now on.
    pub fn raise_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// The id of the next repair.
    pub fn next_id(&self) -> RepairId {
        RepairId::new(self.epoch, self.next_sequence)
    }

    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub fn running(&self) -> impl Iterator<Item = (RepairId, &Attempt)> {
        self.running.iter().map(|(id, attempt)| (*id, attempt))
    }

    pub fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether the stripe of any repair that waits or runs is urgent.
    pub fn is_any_urgent(&self, is_urgent: impl Fn(StripeId) -> bool) -> bool {
        let waiting = self.waiting.iter().map(|planned| planned.plan.stripe);
        self.repairing.keys().copied().chain(waiting).any(is_urgent)
    }

    pub fn get(&self, repair: RepairId) -> Option<&Attempt> {
        self.running.get(&repair)
    }

    /// The running repair of a stripe.
    pub fn repair_of(&self, stripe: StripeId) -> Option<(RepairId, &Attempt)> {
        let id = self.repairing.get(&stripe)?;
        Some((*id, &self.running[id]))
    }

    /// The plan of a stripe that waits or runs.
    pub fn plan_of(&self, stripe: StripeId) -> Option<&Plan> {
        let waiting = self.waiting.get(stripe);
        let running = || Some(&*self.repair_of(stripe)?.1.rebuild()?.planned);
        waiting.or_else(running).map(|planned| &planned.plan)
    }

    /// Whether the stripe is being repaired, or has a plan that waits.
    pub fn has(&self, stripe: StripeId) -> bool {
        self.repairing.contains_key(&stripe) || self.waiting.get(stripe).is_some()
    }
}

/// What happens to nodes.
impl Ledger {
    /// The agent's slice memory.
    pub fn set_pool(&mut self, node: NodeId, bytes: u64) {
        self.budget.set_pool(node, bytes);
        self.may_admit = true;
    }

    /// The number of a rack of this name.
    pub fn rack(&mut self, name: &str) -> RackId {
        self.cluster.rack(name)
    }

    /// The load of everything that waits and runs, counted anew.
    fn charged(&self) -> Load {
        let running = self.running.values().filter_map(Attempt::rebuild);
        let planned = running.map(|rebuild| &*rebuild.planned).chain(self.waiting.iter());
        Load::of(&self.cluster, planned.map(|planned| (&planned.plan, planned.job.facts())))
    }
}

/// What waits: plans from the planner to their start.
impl Ledger {
    /// How many stripes may be planned now, and for which links.
    pub fn quota(&mut self, scene: Scene) -> Quota {
        self.consult(scene, |schedule, snapshot| schedule.quota(snapshot))
    }

    /// Plans that were just made wait by the margins of their stripes, else as the schedule
    /// arranges them; it may drop some, which are to be planned again later. Returns those that
    /// wait.
    pub fn wait(
        &mut self,
        scene: Scene,
        made: Vec<PlannedRepair>,
        margins: &BTreeMap<StripeId, Margin>,
    ) -> Vec<StripeId> {
        let kept = self.consult(scene, |schedule, snapshot| schedule.arrange(snapshot, made));
        let stripes = kept.iter().map(|planned| planned.plan.stripe).collect();
        for planned in kept {
            let margin = margins[&planned.plan.stripe];
            self.load.add(&self.cluster, &planned.plan, &planned.job.facts());
            if self.mistake.is(Mutant::ChargeTwice) {
                self.load.add(&self.cluster, &planned.plan, &planned.job.facts());
            }
            if self.mistake.is(Mutant::WaitTwice) {
                self.waiting.push(planned.clone(), margin);
            }
            self.waiting.push(planned, margin);
        }
        self.may_admit = true;
        stripes
    }

    /// Forgets the plan of a stripe. Returns whether there was one.
    pub fn unplan(&mut self, stripe: StripeId) -> bool {
        let Some(planned) = self.waiting.remove(stripe) else { return false };
        self.load.subtract(&self.cluster, &planned.plan, &planned.job.facts());
        true
    }

    /// Whether plans are to be admitted; asked once for each reason.
    pub fn take_may_admit(&mut self) -> bool {
        std::mem::take(&mut self.may_admit)
    }

    /// Has plans admitted at the next chance.
    pub fn let_admit(&mut self) {
        self.may_admit = true;
    }

    /// The plan to start next, other than those that were `passed` over just now for want of space.
    pub fn next(&mut self, scene: Scene, passed: &[StripeId]) -> Option<StripeId> {
        if self.mistake.is(Mutant::StartNothing) && !self.has_running() {
            return None;
        }
        self.consult(scene, |schedule, snapshot| schedule.next(snapshot, passed))
    }
}

/// What runs: repairs from their start to their end.
impl Ledger {
    /// Starts the plan that waits for `stripe`.
    ///
    /// # Errors
    /// Some participant lacks the slice memory, at the moment or for good; the plan goes on
    /// waiting.
    pub fn start(&mut self, scene: Scene, stripe: &Stripe) -> Result<Task, NotAdmitted> {
        let planned = self.waiting.get(stripe.id).expect("schedules choose among what waits");
        let alignment = planned.job.code.alignment() as u32;
        let fit = self.budget.admit(self.next_id(), &planned.plan, alignment)?;
        let planned = if self.mistake.is(Mutant::KeepWaiting) {
            planned.clone()
        } else {
            self.waiting.remove(stripe.id).expect("looked up above")
        };
        let rebuild = Rebuild::new(scene.now, Arc::new(planned), &fit);
        Ok(self.enter(scene, rebuild, stripe))
    }

    /// Puts another plan in the place of a repair of which no chunk is durable yet, for what that
    /// has left; where there is no memory for it everything stays as it is.
    pub fn supersede(
        &mut self,
        scene: Scene,
        old: RepairId,
        planned: PlannedRepair,
        stripe: &Stripe,
    ) -> Option<(Task, Stopped)> {
        let next = self.next_id();
        let before = self
            .running
            .get(&old)?
            .rebuild()
            .filter(|old| old.is_all_transferring() && !old.is_asked())?;
        let alignment = planned.job.code.alignment() as u32;
        let fit = self.budget.exchange(old, next, &planned.plan, alignment).ok()?;
        let (since, claim) = (before.since, before.claim.clone());
        let label = before.claim.label();
        let rebuild = Rebuild::new(scene.now, Arc::new(planned), &fit).going_on(before);
        // The claim goes on with the stripe.
        let stopped = Stopped { claim: None, ..self.close(old) };
        self.load.add(&self.cluster, &rebuild.planned.plan, &rebuild.planned.job.facts());
        let task = self.enter(scene, Rebuild { since, claim, ..rebuild }, stripe);
        Some((Task { continues: Some(old), label, ..task }, stopped))
    }

    /// Enters a repair whose memory is reserved and whose load is charged.
    fn enter(&mut self, scene: Scene, rebuild: Rebuild, stripe: &Stripe) -> Task {
        let (repair, planned) = (self.take_id(), rebuild.planned.clone());
        let Rebuild { slice_bytes, window, .. } = rebuild;
        let bytes_done = rebuild.bytes_come();
        if !self.mistake.is(Mutant::ForgetRepairing) {
            self.repairing.insert(stripe.id, repair);
        }
        self.running.insert(repair, Attempt::Rebuild(rebuild));
        let active = ActiveRepair::new(scene.now, planned.clone(), &self.cluster);
        self.active.insert(repair, ActiveRepair { bytes_done, ..active });
        self.edges.iter_mut().for_each(|edges| edges.started(repair, &planned.plan));
        self.consult(scene, |schedule, snapshot| schedule.started(snapshot, repair));
        Task {
            repair,
            stripe: stripe.clone(),
            plan: planned.plan.clone(),
            slice_bytes,
            window,
            gated: self.edges.is_some(),
            continues: None,
            skips: false,
            label: Label::default(),
        }
    }

    /// Makes a copy that was found the location of its chunk, in the place of whatever waits or
    /// runs for its stripe; no commit of that may be pending. Another chunk that is recorded on the
    /// node, if there is one, has no location after that.
    pub fn adopt(
        &mut self,
        now: Time,
        stripe: &Stripe,
        node: NodeId,
        copy: ChunkCopy,
    ) -> (Commit, Option<Stopped>) {
        let clears = stripe.chunk_on(node).filter(|chunk| *chunk != copy.chunk);
        let running = self.repair_of(stripe.id).map(|(id, _)| id);
        let stopped = running.map(|id| self.close(id));
        self.unplan(stripe.id);
        let repair = self.take_id();
        let commit = Commit { repair, copy, node, generation: stripe.generation, clears };
        let pending = Pending { commit, asked_at: now };
        let adopt = Adopt { pending, bytes: stripe.record(copy.chunk).bytes, since: now };
        self.repairing.insert(stripe.id, repair);
        self.running.insert(repair, Attempt::Adopt(adopt));
        (commit, stopped)
    }

    /// A destination has made its chunk durable. Returns whether the repair was to make this copy.
    pub fn chunk_done(&mut self, repair: RepairId, node: NodeId, copy: ChunkCopy) -> bool {
        let Some(Attempt::Rebuild(rebuild)) = self.running.get_mut(&repair) else { return false };
        if rebuild.planned.plan.stripe != copy.stripe {
            return false;
        }
        let mut goals = rebuild.goals.iter_mut();
        let goal = goals.find(|goal| (goal.destination, goal.chunk) == (node, copy.chunk));
        let Some(goal) = goal else { return false };
        if goal.state == GoalState::Transferring {
            self.touched.push(repair);
            goal.state = GoalState::Stored(copy);
            goal.bytes_done = rebuild.planned.job.chunk_bytes;
            if !rebuild.is_transferring() {
                self.transfer_ended(repair);
            }
        }
        true
    }

    /// Asks for the location of the next durable chunk, unless one is being asked for.
    pub fn commit_next(
        &mut self,
        now: Time,
        repair: RepairId,
        generation: Generation,
    ) -> Option<Commit> {
        let rebuild = self.running.get_mut(&repair)?.rebuild_mut()?;
        let goal = if self.mistake.is(Mutant::CommitAtOnce) {
            rebuild.goals.iter_mut().find(|goal| matches!(goal.state, GoalState::Stored(_)))?
        } else {
            rebuild.next_stored()?
        };
        self.touched.push(repair);
        let GoalState::Stored(copy) = goal.state else { return None };
        let commit = Commit { repair, copy, node: goal.destination, generation, clears: None };
        goal.state = GoalState::Committing(Pending { commit, asked_at: now });
        Some(commit)
    }

    /// The pending commit was refused: as `settle`, but the chunk has no new location.
    pub fn give_up(&mut self, repair: RepairId) -> Option<SettledCommit> {
        if let Some(rebuild) = self.running.get_mut(&repair)?.rebuild_mut() {
            rebuild.is_partly_given_up = true;
        }
        self.settle(repair)
    }

    /// The pending commit was answered: its chunk is done with, and its repair if it was the last.
    pub fn settle(&mut self, repair: RepairId) -> Option<SettledCommit> {
        let attempt = self.running.get_mut(&repair)?;
        let commit = attempt.commit()?;
        self.touched.push(repair);
        let is_last = match attempt {
            Attempt::Rebuild(rebuild) => {
                rebuild.goals.retain(|goal| goal.chunk != commit.copy.chunk);
                rebuild.goals.is_empty()
            }
            Attempt::Adopt(_) => true,
        };
        let stopped = is_last.then(|| self.close(repair));
        Some(SettledCommit { commit, void_claim: stopped.and_then(|stopped| stopped.claim) })
    }

    /// Ends a repair, or what flows of it.
    pub fn stop(&mut self, repair: RepairId, what: Stop) -> Option<Stopped> {
        let attempt = self.running.get_mut(&repair)?;
        let before = stopped(repair, attempt);
        match attempt {
            Attempt::Rebuild(rebuild)
                if what == Stop::Transfer && !rebuild.is_all_transferring() =>
            {
                rebuild.goals.retain(|goal| goal.state != GoalState::Transferring);
                rebuild.is_partly_given_up = true;
                self.transfer_ended(repair);
                return Some(Stopped { claim: None, ..before });
            }
            Attempt::Rebuild(_) | Attempt::Adopt(_) => drop(self.close(repair)),
        }
        Some(before)
    }

    /// Takes a repair out.
    fn close(&mut self, repair: RepairId) -> Stopped {
        let attempt = self.running.remove(&repair).expect("only running repairs are closed");
        let stripe = attempt.stripe();
        self.repairing.remove(&stripe);
        if let Attempt::Rebuild(Rebuild { planned, .. }) = &attempt
            && !self.mistake.is(Mutant::KeepLoad)
        {
            self.load.subtract(&self.cluster, &planned.plan, &planned.job.facts());
        }
        self.transfer_ended(repair);
        stopped(repair, &attempt)
    }

    /// No agent moves anything for the repair any more, if any did.
    fn transfer_ended(&mut self, repair: RepairId) {
        self.touched.push(repair);
        if !self.mistake.is(Mutant::KeepMemory) {
            self.budget.release(repair);
        }
        self.may_admit = true;
        if self.mistake.is(Mutant::KeepScheduled) {
            return;
        }
        if let Some(was) = self.active.remove(&repair) {
            self.schedule.ended(repair, &was);
            self.edges.iter_mut().for_each(|edges| edges.ended(repair));
        }
    }

    /// An id that nothing else has.
    pub fn take_id(&mut self) -> RepairId {
        let id = self.next_id();
        self.next_sequence += 1;
        self.touched.push(id);
        id
    }

    /// Notifies the schedule of something, or asks it.
    fn consult<T>(
        &mut self,
        Scene { now, nodes, ready, urgent, sample, shares_caps }: Scene,
        what: impl FnOnce(&mut Scheduler, Snapshot<'_>) -> T,
    ) -> T {
        let snapshot = Snapshot {
            now,
            cluster: &self.cluster,
            nodes,
            ready,
            urgent,
            attempts: self.running.len(),
            sample,
            shares_caps,
            waiting: &self.waiting,
            active: &self.active,
            edges: self.edges.as_ref(),
        };
        what(&mut self.schedule, snapshot)
    }
}

fn stopped(repair: RepairId, attempt: &Attempt) -> Stopped {
    let rebuild = attempt.rebuild();
    Stopped {
        repair,
        stripe: attempt.stripe(),
        participants: rebuild
            .map(|rebuild| rebuild.planned.plan.participants())
            .unwrap_or_default(),
        workers: rebuild.map(Rebuild::workers).unwrap_or_default(),
        claim: rebuild.and_then(Rebuild::claim_left),
    }
}
