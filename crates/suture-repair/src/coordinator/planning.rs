//! Asks the planner: what is to be rebuilt from what, and what that leaves unanswered.
//!
//! Place: ... stripes affected -> [queue -> plan] -> admit -> dispatch -> ...
//! Stripes are planned together so that their loads balance. The planner is asked only for what
//! every usable agent reports that it can execute.

use std::collections::BTreeSet;

use super::Coordinator;
use crate::cluster::Cluster;
use crate::event::{Blocked, Liveness, Report};
use crate::id::{ChunkIndex, NodeId, StripeId};
use crate::mutant::Mutant;
use crate::plan::load::Load;
use crate::planner::{self, Batch, Job, PlanError, View};
use crate::policy::{self, Balance, Policy, Schedule, Shape};
use crate::schedule::{PlannedRepair, Quota};
use crate::stripe::Stripe;
use crate::time::Time;

/// Stripes planned at a time: enough to balance thousands of nodes, few enough to stay quick.
pub(super) const BATCH_MAX: usize = 8192;

/// Stripes whose plans take so long that they wait for further commands: some 50 ms.
pub(super) const GATHERED_FROM: usize = 512;

/// How a stripe is planned whose usual plan takes more memory than some agent has: one chunk at a
/// time and one lane, which every code allows.
pub(super) const SINGLE_CHUNK: Policy =
    Policy { shape: Shape::Star, balance: Balance::Greedy, schedule: Schedule::All };

/// Questions that are planned together.
struct BatchPart {
    jobs: Vec<Job>,
    policy: Policy,
    /// Whether they only move what would lie better elsewhere.
    only_moves: bool,
}

/// Where nodes are repaired one after the other: what is planned or runs of the one whose turn it
/// is, while nothing more of it is ready.
#[derive(Debug, Default)]
pub(super) struct NodeInTurn {
    /// How often a stripe had become ready in the queue by then.
    arrivals: u64,
    in_progress: BTreeSet<StripeId>,
}

impl Coordinator {
    /// Whether it can matter how far running repairs have come: the schedule looks at it, or
    /// something is still to be planned, and plans go by what running repairs have left. Once it
    /// cannot, it stays so until more is lost or a repair fails.
    pub fn heeds_progress(&self) -> bool {
        let is_planned = |(stripe, lost): (&StripeId, &BTreeSet<ChunkIndex>)| {
            let plan = self.ledger.plan_of(*stripe);
            plan.is_some_and(|plan| lost.iter().all(|chunk| plan.lost.contains(chunk)))
        };
        self.ledger.heeds_progress() || !self.queue.is_empty() || !self.lost.iter().all(is_planned)
    }

    /// Plans as many of those that are ready as the schedule wants, most urgent first.
    pub(super) fn plan_ready(&mut self, now: Time) {
        if self.ready_now(now) == 0 {
            return;
        }
        let scene = self.scene(now);
        let quota = self.ledger.quota(scene);
        if quota.stripes == 0 || self.awaits_node_in_turn(now) {
            return;
        }
        let made = self.make_plans(now, quota);
        if made.is_empty() {
            return;
        }
        // Refusals have changed the queue.
        let made_for = made.iter().map(|planned| planned.plan.stripe);
        let margins = made_for.filter_map(|id| Some((id, self.queue.margin(id)?))).collect();
        let stripes = self.ledger.wait(self.scene(now), made, &margins);
        for stripe in stripes.iter().filter(|_| !self.ledger.mistake.is(Mutant::KeepQueued)) {
            self.queue.take(*stripe);
        }
        self.touched.extend(&stripes);
        let max_load_seconds = self.ledger.load().max_seconds(self.ledger.cluster());
        self.report(Report::Planned { repairs: stripes.len(), max_load_seconds });
    }

    /// Plans the next stripes in one batch, and puts aside those that have no plan.
    fn make_plans(&mut self, now: Time, quota: Quota) -> Vec<PlannedRepair> {
        let jobs = self.next_jobs(now, quota.stripes.min(BATCH_MAX));
        let (mut load, mut left) = (self.ledger.load().clone(), self.ledger.load_left());
        let mut batches: Vec<(Vec<Job>, Batch)> = Vec::new();
        for part in self.parts(jobs).into_iter().filter(|part| !part.jobs.is_empty()) {
            if let Some((jobs, batch)) = batches.last() {
                // Neither space nor links are given away twice.
                let cluster = self.ledger.cluster();
                let plans = || batch.planned(jobs).map(|(job, plan)| (plan, job.facts()));
                load.add_all(cluster, plans());
                left.add_all(cluster, plans());
            }
            let batch = self.plan_part(&part, &quota, &load, &left);
            batches.push((part.jobs, batch));
        }
        let mut made: Vec<PlannedRepair> = Vec::new();
        for (jobs, batch) in batches {
            if let Some(message) = batch.panicked {
                self.report(Report::PlannerPanicked { message });
            }
            for (index, why) in batch.refused {
                self.refused(now, &jobs[index], why);
            }
            let mut jobs = jobs.into_iter();
            made.extend(batch.plans.into_iter().map(|plan| {
                let job = jobs.find(|job| job.stripe == plan.stripe);
                PlannedRepair::new(job.expect("plans follow their jobs"), plan)
            }));
        }
        made
    }

    /// What is planned in a batch of its own: what is rebuilt and what only moves, and what of
    /// either is done a chunk at a time.
    fn parts(&self, jobs: Vec<Job>) -> [BatchPart; 4] {
        let is_move = |job: &Job| self.rebalance.of(job.stripe).is_some();
        let (mut moves, jobs): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_move);
        for job in &mut moves {
            job.excluded.extend(self.barred_from_move(job.stripe));
        }
        let is_single = |job: &Job| self.is_single_chunk(job.stripe);
        let (single, jobs) = jobs.into_iter().partition(is_single);
        let (single_moves, moves) = moves.into_iter().partition(is_single);
        let usual = self.config.policy;
        [
            BatchPart { jobs: single, policy: SINGLE_CHUNK, only_moves: false },
            BatchPart { jobs, policy: usual, only_moves: false },
            BatchPart { jobs: single_moves, policy: SINGLE_CHUNK, only_moves: true },
            BatchPart { jobs: moves, policy: usual, only_moves: true },
        ]
    }

    /// Plans one batch beside `load`, of which `left` is still to come.
    fn plan_part(&self, part: &BatchPart, quota: &Quota, load: &Load, left: &Load) -> Batch {
        let free_bytes = free_beside(load, &self.takes());
        let free_bytes =
            if part.only_moves { self.free_for_moves(&free_bytes) } else { free_bytes };
        let cluster = quota.cluster.as_ref().unwrap_or(self.ledger.cluster());
        let mistaken = self.mistaken(cluster, &free_bytes);
        let (cluster, seen) = mistaken.as_ref().map_or((cluster, &free_bytes), |(c, f)| (c, f));
        let abilities = self.health.abilities();
        let view = View { cluster, free_bytes: seen, load: left, abilities };
        let mut batch = planner::plan_checked(part.policy, &part.jobs, &view, self.seed());
        if self.ledger.mistake.is(Mutant::LosePlan) {
            batch.plans.pop();
        }
        assert_batch(&part.jobs, &batch, &free_bytes);
        batch
    }

    /// A mistake on purpose: the cluster and what is free, as a planner gets them.
    fn mistaken(&self, cluster: &Cluster, free_bytes: &[u64]) -> Option<(Cluster, Vec<u64>)> {
        let without_racks = self.ledger.mistake.is(Mutant::PlanAnywhere);
        if !without_racks && !self.ledger.mistake.is(Mutant::PlanBeyondSpace) {
            return None;
        }
        let (mut cluster, mut free_bytes) = (cluster.clone(), free_bytes.to_vec());
        if without_racks {
            cluster.nodes.iter_mut().for_each(|node| node.rack = None);
            cluster.racks.clear();
        } else {
            let nodes = free_bytes.iter_mut().zip((0..).map(NodeId));
            let takes = nodes.filter(|(_, node)| self.health.takes_chunks(*node));
            takes.for_each(|(free, _)| *free = u64::MAX);
        }
        Some((cluster, free_bytes))
    }

    /// The next questions for the planner, in the order of the queue; where nodes are repaired one
    /// after the other, all about the same node. While the window is closed, neither what is ready
    /// nor what waits with a margin left keeps what has none.
    fn next_jobs(&mut self, now: Time, quota: usize) -> Vec<Job> {
        let ready = || self.queue.ready().take(self.ready_now(now));
        if self.config.policy.schedule.order() != policy::Order::Node {
            let next = ready().take(quota).collect();
            return self.jobs_of(now, next);
        }
        let may_begin = |id: &StripeId| !self.throttle.is_closed(now) || self.is_urgent(*id);
        let in_progress = || {
            let waiting = self.ledger.waiting().iter().map(|planned| planned.plan.stripe);
            waiting.filter(may_begin).chain(self.running())
        };
        let locations = in_progress().chain(ready()).flat_map(|id| self.lost_locations(id));
        let Some(turn) = locations.map(|(_, node)| node).min() else {
            let next = ready().take(quota).collect();
            return self.jobs_of(now, next);
        };
        let jobs = ready().filter_map(|id| {
            let mut locations = self.lost_locations(id).into_iter();
            let (chunk, _) = locations.find(|(_, node)| *node == turn)?;
            self.job_for(self.stripes.get(id)?, self.lost.get(&id)?, Some(chunk))
        });
        let jobs: Vec<Job> = jobs.take(quota).collect();
        if jobs.is_empty() {
            let is_its = |id: &StripeId| self.lost_locations(*id).iter().any(|(_, n)| *n == turn);
            let in_progress = in_progress().filter(is_its).collect();
            self.in_turn = NodeInTurn { arrivals: self.queue.arrivals(), in_progress };
        }
        jobs
    }

    /// The questions about these stripes; those of which nothing may be rebuilt are put aside.
    fn jobs_of(&mut self, now: Time, stripes: Vec<StripeId>) -> Vec<Job> {
        let mut jobs = Vec::with_capacity(stripes.len());
        for id in stripes {
            match self.disputed(id) {
                Some(node) => self.hold_back(now, id, Blocked::Disputed { node }),
                None => jobs.extend(self.job(id)),
            }
        }
        jobs
    }

    /// The node of a copy because of which nothing of a stripe that lacks chunks may be rebuilt.
    fn disputed(&self, id: StripeId) -> Option<NodeId> {
        let (stripe, lost) = (self.stripes.get(id)?, self.lost.get(&id)?);
        let first = lost.first().filter(|_| self.to_rebuild(stripe, lost).is_empty())?;
        stripe.copy(*first).map(|at| at.node)
    }

    /// Those of a stripe's lost chunks that may be rebuilt. A keeper that removes copies itself
    /// (HDFS) decides which are there: of one that has right checksums it grants no claim, whatever
    /// its bytes. Such a copy is read no more, and rebuilt once the keeper counts it as lost.
    pub(super) fn to_rebuild(
        &self,
        stripe: &Stripe,
        lost: &BTreeSet<ChunkIndex>,
    ) -> BTreeSet<ChunkIndex> {
        let decides = self.config.liveness == Liveness::Keeper && !self.config.deletes;
        let is_there = |chunk: &ChunkIndex| {
            decides && stripe.copy(*chunk).is_some_and(|at| !self.health.is_failed(at.node))
        };
        lost.iter().copied().filter(|chunk| !is_there(chunk)).collect()
    }

    /// Whether nothing has become ready since nothing was of the node whose turn it is, and some of
    /// it is still in progress. Looking at all that is ready after each event would take as long as
    /// there are stripes, for each of them.
    fn awaits_node_in_turn(&mut self, now: Time) -> bool {
        if self.in_turn.arrivals != self.queue.arrivals() || self.throttle.is_closed(now) {
            return false;
        }
        let in_progress = &mut self.in_turn.in_progress;
        while in_progress.first().is_some_and(|id| !self.ledger.has(*id)) {
            in_progress.pop_first();
        }
        !in_progress.is_empty()
    }

    /// The lost chunks of a stripe that are to be rebuilt, and the nodes that keep them by the
    /// keeper's map.
    fn lost_locations(&self, id: StripeId) -> Vec<(ChunkIndex, NodeId)> {
        let (Some(stripe), Some(lost)) = (self.stripes.get(id), self.lost.get(&id)) else {
            return Vec::new();
        };
        let location = |chunk: ChunkIndex| Some((chunk, stripe.copy(chunk)?.node));
        let known: Vec<ChunkIndex> = self.survivors(stripe, lost).map(|(chunk, _)| chunk).collect();
        let lost = self.to_rebuild(stripe, lost);
        repairable(stripe, &lost, &known).into_iter().filter_map(location).collect()
    }

    /// The chunks of a stripe that can be read, and where.
    pub(super) fn survivors<'a>(
        &'a self,
        stripe: &'a Stripe,
        lost: &'a BTreeSet<ChunkIndex>,
    ) -> impl Iterator<Item = (ChunkIndex, NodeId)> + 'a {
        stripe.indices().filter_map(move |chunk| {
            let node = stripe.copy(chunk)?.node;
            (self.health.is_up(node) && !lost.contains(&chunk)).then_some((chunk, node))
        })
    }

    /// Forgets all plans that have not been dispatched; their stripes are ready again.
    pub(super) fn unplan_all(&mut self) {
        let waiting = self.ledger.waiting().iter().map(|planned| planned.plan.stripe);
        let stripes: Vec<StripeId> = waiting.collect();
        stripes.into_iter().rev().for_each(|stripe| self.unplan(stripe));
    }

    /// Forgets the plan of one stripe, which is before all others of its margin then.
    pub(super) fn unplan(&mut self, stripe: StripeId) {
        if self.ledger.unplan(stripe) {
            self.touched.push(stripe);
            if let Some(margin) = self.urgency(stripe) {
                self.queue.put_back(stripe, margin);
            }
        }
    }

    /// Whether only one chunk of the stripe is rebuilt at a time.
    pub(super) fn is_single_chunk(&self, id: StripeId) -> bool {
        self.failures.get(&id).is_some_and(|history| history.is_single_chunk)
    }

    /// One seed for each batch, so that the next attempt chooses otherwise.
    pub(super) fn seed(&self) -> u64 {
        self.config.seed ^ self.ledger.next_id().0
    }

    /// What is free at each node, in bytes; nothing where no chunks may go.
    pub(super) fn takes(&self) -> Vec<u64> {
        let takes = |id: NodeId| {
            if self.health.takes_chunks(id) { self.health.get(id).free_bytes } else { 0 }
        };
        self.ledger.cluster().ids().map(takes).collect()
    }

    /// The question for the planner.
    pub(super) fn job(&self, id: StripeId) -> Option<Job> {
        let stripe = self.stripes.get(id)?;
        match self.lost.get(&id) {
            Some(lost) => self.job_without(stripe, lost),
            None => self.move_job(stripe),
        }
    }

    /// The question about a stripe that has lost these chunks, at least one.
    pub(super) fn job_without(&self, stripe: &Stripe, lost: &BTreeSet<ChunkIndex>) -> Option<Job> {
        let job = self.job_for(stripe, lost, None)?;
        match job.lost[..] {
            // Not the first that is lost: that may be beyond repair, and another one not.
            [first, _, ..] if self.is_single_chunk(stripe.id) => {
                self.job_for(stripe, lost, Some(first))
            }
            _ => Some(job),
        }
    }

    /// The question about only one of the lost chunks, or about all that go together.
    fn job_for(
        &self,
        stripe: &Stripe,
        all_lost: &BTreeSet<ChunkIndex>,
        only: Option<ChunkIndex>,
    ) -> Option<Job> {
        let id = stripe.id;
        let survivors: Vec<(ChunkIndex, NodeId)> = self.survivors(stripe, all_lost).collect();
        let gone = self.to_rebuild(stripe, all_lost);
        let lost = match only {
            Some(chunk) => vec![chunk],
            None => self.lost_together(stripe, &gone, &survivors),
        };
        let is_idle = |chunk: &ChunkIndex| {
            !all_lost.contains(chunk) && survivors.iter().all(|(survivor, _)| survivor != chunk)
        };
        let idle = stripe.indices().filter(is_idle).filter_map(|chunk| stripe.copy(chunk));
        let idle: Vec<NodeId> = idle.map(|at| at.node).collect();
        let is_target = |chunk: &ChunkIndex| lost.len() == 1 && lost.contains(chunk);
        let others = stripe.indices().filter(|chunk| !is_target(chunk));
        Some(Job {
            stripe: id,
            code: stripe.shortened(),
            chunk_bytes: stripe.reach(&lost),
            survivors,
            idle,
            excluded: if self.ledger.mistake.is(Mutant::ShareNode) {
                Vec::new()
            } else {
                others.filter_map(|chunk| Some(stripe.copy(chunk)?.node)).collect()
            },
            keeper_places: self.even_places(stripe, &gone, lost.len()),
            avoid: self.avoided(id),
            lost,
            source: None,
        })
    }

    /// How many chunks of a stripe each rack may still take by an even spread over all racks, where
    /// the keeper of the stripes places chunks by that rule and refuses others (HDFS does); empty
    /// where racks have too few such places for what is `wanted` of it and of all that is ready, or
    /// an attempt failed there. Chunks that are `gone` count nowhere.
    pub(super) fn even_places(
        &self,
        stripe: &Stripe,
        gone: &BTreeSet<ChunkIndex>,
        wanted: usize,
    ) -> Vec<usize> {
        let cluster = self.ledger.cluster();
        if self.config.liveness != Liveness::Keeper || cluster.racks.len() < 2 {
            return Vec::new();
        }
        let live = cluster.count_by_rack(cluster.ids().filter(|node| self.health.is_up(*node)));
        let racks = live.iter().filter(|nodes| **nodes > 0).count();
        let chunks = stripe.chunks.iter().filter(|record| record.bytes > 0).count();
        let there = stripe.indices().filter(|chunk| !gone.contains(chunk));
        let holders = there.filter_map(|chunk| Some(stripe.copy(chunk)?.node));
        let (held, most) = (cluster.count_by_rack(holders), chunks.div_ceil(racks.max(1)));
        let avoided = self.avoided(stripe.id);
        let free = free_beside(self.ledger.load(), &self.takes());
        // Nodes of each rack that may keep a chunk of it, and chunks that they have space for.
        let (mut nodes, mut space) = (vec![0; held.len()], vec![0u64; held.len()]);
        for node in cluster.ids().filter(|node| !avoided.contains(node)) {
            let chunks = free[node.index()] / stripe.chunk_bytes.max(1);
            let Some(rack) = cluster.rack_of(node).filter(|_| chunks > 0) else { continue };
            if stripe.chunk_on(node).is_none() {
                let rack = rack.0 as usize;
                nodes[rack] += 1;
                space[rack] = space[rack].saturating_add(chunks);
            }
        }
        let even: Vec<usize> = held.iter().map(|held| most.saturating_sub(*held)).collect();
        let places: usize = even.iter().zip(&nodes).map(|(even, nodes)| even.min(nodes)).sum();
        let stripes = self.queue.ready_count() as u64 + 1;
        let taken =
            even.iter().zip(&space).map(|(even, space)| (stripes * *even as u64).min(*space));
        let is_enough = places >= wanted && taken.sum::<u64>() >= stripes * wanted as u64;
        if is_enough { even } else { Vec::new() }
    }

    /// Nodes because of which an earlier attempt at a stripe failed.
    pub(super) fn avoided(&self, id: StripeId) -> Vec<NodeId> {
        let history = self.failures.get(&id);
        history.map(|history| history.avoid.iter().copied().collect()).unwrap_or_default()
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
        let known: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
        let mut lost = repairable(stripe, lost, &known);
        if lost.len() == 1 {
            return lost;
        }
        let has_space = |node: &NodeId| {
            let free_bytes = self.health.get(*node).free_bytes;
            self.health.takes_chunks(*node) && free_bytes > stripe.reach(&lost)
        };
        let is_free = |node: &NodeId| has_space(node) && stripe.chunk_on(*node).is_none();
        let abilities = self.health.abilities();
        let together = abilities.combined
            && abilities.finished
            && self.ledger.cluster().ids().filter(is_free).nth(lost.len() - 1).is_some();
        if !together {
            lost.truncate(1);
        }
        lost
    }

    fn refused(&mut self, now: Time, job: &Job, why: PlanError) {
        let stripe = self.stripes.get(job.stripe).expect("it was queued");
        let left = self.chunks_left(stripe);
        let code = stripe.shortened();
        let from_left = |&lost: &ChunkIndex| code.helpers_for(&[lost], &left);
        let is_whole = !self.lost.contains_key(&stripe.id);
        let why = if !why.is_beyond_repair() {
            Blocked::Plan(why)
        } else if is_whole || self.lost[&stripe.id].iter().any(|lost| from_left(lost).is_ok()) {
            // Some holders are only silent: they may speak again, or be declared dead.
            Blocked::Silent { needed: code.data_chunks(), up: job.survivors.len() }
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

    /// Puts a stripe to sleep until something changes, or for the longest wait, and reports why.
    pub(super) fn hold_back(&mut self, now: Time, id: StripeId, why: Blocked) {
        if self.give_up_move(id) {
            return;
        }
        self.enqueue(id, Some(now + self.config.timers.retry_max));
        self.block(id, why);
    }

    /// Chunks that are not known to be lost, on nodes up or silent.
    fn chunks_left(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let is_left = |chunk: &ChunkIndex| {
            !self.is_lost(stripe.id, *chunk) && !stripe.record(*chunk).is_known_zero()
        };
        stripe.indices().filter(is_left).collect()
    }
}

/// # Panics
/// A job has neither a plan nor a reason, or a node is given more than it has space for.
fn assert_batch(jobs: &[Job], batch: &planner::Batch, free_bytes: &[u64]) {
    let answers = batch.plans.len() + batch.refused.len();
    assert_eq!(answers, jobs.len(), "plans: made or refused, and asked for");
    let mut left = free_bytes.to_vec();
    for plan in &batch.plans {
        for node in plan.destinations.values() {
            let bytes = left[node.index()].checked_sub(plan.range.bytes());
            assert!(bytes.is_some(), "plans: {node} has no space for a chunk of {}", plan.stripe);
            left[node.index()] = bytes.unwrap_or(0);
        }
    }
}

/// What each node can take beside what `load` writes to it.
pub(super) fn free_beside(load: &Load, takes: &[u64]) -> Vec<u64> {
    let nodes = load.nodes().iter().zip(takes);
    nodes.map(|(node, bytes)| bytes.saturating_sub(node.disk_write_bytes)).collect()
}

/// Those of a stripe's lost chunks that are to be rebuilt from what is known: all of them; or,
/// where local groups repair some and the rest of the stripe is beyond repair, these.
fn repairable(
    stripe: &Stripe,
    lost: &BTreeSet<ChunkIndex>,
    known: &[ChunkIndex],
) -> Vec<ChunkIndex> {
    let mut lost: Vec<ChunkIndex> = lost.iter().copied().collect();
    let code = stripe.shortened();
    let can_repair = |lost: &[ChunkIndex]| code.helpers_for(lost, known).is_ok();
    let is_some = |lost: &[ChunkIndex]| lost.iter().any(|&chunk| can_repair(&[chunk]));
    if lost.len() > 1 && !can_repair(&lost) && is_some(&lost) {
        lost.retain(|&chunk| can_repair(&[chunk]));
    }
    lost
}
