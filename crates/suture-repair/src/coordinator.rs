//! The coordinator: the life of every repair, from the failure to the healthy stripe.
//!
//! Place: [failure noticed -> stripes affected -> queue -> plan -> admit -> dispatch -> ... ->
//! commit location -> stripe healthy]; the agents do what lies between.
//! `handle` takes one event and only records facts; then maintenance runs: expire, wake, plan,
//! admit. `poll` gives the effects, `next_deadline` says when to call `handle(now, Tick)` at the
//! latest, `status` only looks. `now` never goes backwards. The states of a chunk under repair:
//!
//! `queued -> planned -> Flowing -> Stored -> Committing -> gone`
//! - `Flowing` ends by `Stored` (the destination proved the chunk), or by a failure, a dead
//!   participant or a stall; then the stripe is queued again under a fresh repair id.
//! - `Committing` ends by `Committed`, or by `CommitRefused` with the truth, which decides. The
//!   chunks of one stripe commit one after the other.
//! - a stripe that is well again, removed, or whose chunk came back leaves any state.
//!
//! Invariants: at most one repair of a stripe at a time; a location changes only by a
//! compare-and-set that the truth acknowledged; a copy is ordered away only after the copy that
//! replaces it was read in full, and never by a coordinator that has been superseded.
//! Deliberately absent: metadata (the driver's, behind `Commit`), addresses, bytes, clocks. A
//! restart loses nothing that matters: stripes are reloaded, agents say what they hold.

mod attempt;
mod copies;
mod dispatch;
mod schedule;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::budget::Budget;
use crate::cluster::{Cluster, Node};
use crate::event::{Blocked, Command, Commit, Health, Input, Output, Report, Status, Timers};
use crate::health::HealthTable;
use crate::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp, StripeId};
use crate::message::{Failure, FromAgent, Heartbeat, Hello, Refusal, ToAgent};
use crate::plan::load::Load;
use crate::policy::Policy;
use crate::queue::Queue;
use crate::schedule::{Scheduler, Waiting};
use crate::stripe::{Stripe, StripeMap};
use crate::time::Time;
use attempt::{Attempt, State};

/// Attempts after which a stripe is shown as blocked; it is still tried, at the longest interval.
const ATTEMPTS_SHOWN: u32 = 5;

/// After so many attempts all nodes that disappointed get another chance.
const AVOID_RESET: u32 = 4;

/// Writing a finished chunk to disk may take this many times the stall limit.
const PUBLISH_PATIENCE: u64 = 8;

/// What a coordinator is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// One more than the last coordinator's; durable before anything is dispatched.
    pub epoch: u32,
    /// How silence and failure are timed.
    pub timers: Timers,
    /// How repairs are planned and run.
    pub policy: Policy,
    /// Seeds every random choice.
    pub seed: u64,
    /// The operator paused repairs.
    pub paused: bool,
    /// The operator declared these nodes failed.
    pub failed: Vec<NodeId>,
}

/// The state machine.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
    cluster: Cluster,
    stripes: StripeMap,
    health: HealthTable,
    /// Chunks that are of no use where the truth says they are.
    lost: BTreeMap<StripeId, BTreeSet<ChunkIndex>>,
    /// Copies known to be corrupt or missing, though a listing may show them.
    bad: BTreeSet<(NodeId, ChunkCopy)>,
    /// Copies ordered away: never to be adopted.
    deleting: BTreeSet<(NodeId, ChunkCopy)>,
    reserved_below: StripeId,
    writing: BTreeSet<StripeId>,
    queue: Queue,
    trouble: BTreeMap<StripeId, Trouble>,
    /// Plans that wait for admission.
    waiting: Waiting,
    schedule: Scheduler,
    /// When the schedule wants to be asked again.
    schedule_at: Option<Time>,
    /// Whether something happened after which a plan might fit, or be wanted, that did not before.
    may_admit: bool,
    running: BTreeMap<RepairId, Attempt>,
    repairing: BTreeMap<StripeId, RepairId>,
    budget: Budget,
    load: Load,
    next_sequence: u32,
    sweep_at: Time,
    repaired_chunks: u64,
    repaired_bytes: u64,
    outputs: VecDeque<Output>,
}

/// What the schedule may look at, field by field, so that it can be asked at the same time.
macro_rules! world {
    ($self:ident, $now:expr) => {
        crate::schedule::World {
            now: $now,
            cluster: &$self.cluster,
            nodes: $self.health.up_count(),
            ready: $self.queue.ready_count(),
            attempts: $self.running.len(),
            sample: $self.lost.keys().next().and_then(|id| $self.stripes.get(*id)),
            waiting: &$self.waiting,
        }
    };
}
use world;

/// What went wrong with a stripe so far.
#[derive(Clone, Debug, Default)]
struct Trouble {
    attempts: u32,
    avoid: BTreeSet<NodeId>,
    /// The usual plan takes more memory than some agent has.
    is_frugal: bool,
    blocked: Option<Blocked>,
}

impl Coordinator {
    /// A coordinator that knows the truth and has heard from no agent.
    pub fn new(now: Time, config: Config, cluster: Cluster, stripes: StripeMap) -> Coordinator {
        let mut health = HealthTable::new(config.timers);
        cluster.ids().for_each(|node| health.add(now, config.failed.contains(&node)));
        let reserved_below = stripes.iter().last().map_or(StripeId(0), |s| StripeId(s.id.0 + 1));
        let mut coordinator = Coordinator {
            load: Load::new(&cluster),
            cluster,
            stripes: StripeMap::default(),
            health,
            lost: BTreeMap::new(),
            bad: BTreeSet::new(),
            deleting: BTreeSet::new(),
            reserved_below,
            writing: BTreeSet::new(),
            queue: Queue::default(),
            trouble: BTreeMap::new(),
            waiting: Waiting::default(),
            schedule: Scheduler::new(config.policy.schedule),
            schedule_at: None,
            config,
            may_admit: true,
            running: BTreeMap::new(),
            repairing: BTreeMap::new(),
            budget: Budget::default(),
            next_sequence: 0,
            sweep_at: now,
            repaired_chunks: 0,
            repaired_bytes: 0,
            outputs: VecDeque::new(),
        };
        stripes.iter().for_each(|stripe| coordinator.learn(stripe.clone()));
        coordinator
    }

    /// One event.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::NodeAdded { id, node, rack } => {
                let rack = rack.map(|name| self.cluster.rack(&name));
                self.add_node(now, id, Node { rack, ..node });
            }
            Input::Agent { node, message } => self.hear(now, node, message),
            Input::AgentLost(node) => {
                if self.health.session_lost(node) {
                    self.health_changed(now, node);
                }
            }
            Input::StripesReserved { below, writing } => {
                self.reserved_below = below;
                self.writing = writing.into_iter().collect();
            }
            Input::StripeAdded(stripe) => self.learn(stripe),
            Input::StripeRemoved(stripe) => self.remove_stripe(stripe),
            Input::ChunkSuspected { node, copy } => self.suspect(node, copy),
            Input::Committed { repair, stripe } => self.committed(now, repair, stripe),
            Input::CommitRefused { repair, stripe } => self.commit_refused(now, repair, stripe),
            Input::Operator(command) => self.obey(now, command),
            Input::Tick => {}
        }
        self.maintain(now);
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle(now, Tick)` at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let sweep = (!self.running.is_empty()).then_some(self.sweep_at);
        let (health, queue) = (self.health.next_deadline(), self.queue.next_deadline());
        [sweep, health, queue, self.schedule_at].into_iter().flatten().min()
    }

    /// The nodes.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The stripes as last learnt from the truth.
    pub fn stripes(&self) -> &StripeMap {
        &self.stripes
    }

    /// How a node is.
    pub fn health(&self, node: NodeId) -> Health {
        self.health.get(node).health
    }

    /// The stripes under repair, once for each repair.
    pub fn running(&self) -> impl Iterator<Item = StripeId> {
        self.running.values().map(|repair| repair.stripe)
    }

    /// What is at risk, what runs, what waits and why.
    pub fn status(&self) -> Status {
        let mut status = Status {
            paused: self.config.paused,
            queued: (self.queue.len() + self.waiting.len()) as u64,
            repaired_chunks: self.repaired_chunks,
            repaired_bytes: self.repaired_bytes,
            ..Status::default()
        };
        for (id, node) in self.health.iter() {
            let chunks = self.stripes.count_on(id) as u64;
            status.nodes.push((id, node.health, node.free_bytes, chunks));
        }
        for (stripe, lost) in &self.lost {
            let Some(stripe) = self.stripes.get(*stripe) else { continue };
            let margin = margin(stripe, lost.len()) as usize;
            status.at_risk.resize(status.at_risk.len().max(margin + 1), 0);
            status.at_risk[margin] += 1;
            let unrepairable = self.trouble.get(&stripe.id).and_then(|t| t.blocked.as_ref());
            if !unrepairable.is_some_and(Blocked::is_unrepairable) {
                status.lost_chunks += lost.len() as u64;
                status.lost_bytes += lost.len() as u64 * stripe.chunk_bytes;
            }
        }
        let blocked = self.trouble.iter();
        status.blocked = blocked.filter_map(|(s, t)| Some((*s, t.blocked.clone()?))).collect();
        status.running = self.running.iter().flat_map(|(id, attempt)| attempt.lines(*id)).collect();
        status
    }

    fn report(&mut self, report: Report) {
        self.outputs.push_back(Output::Report(report));
    }

    fn send(&mut self, to: NodeId, message: ToAgent) {
        self.outputs.push_back(Output::Send { to, message });
    }

    fn add_node(&mut self, now: Time, id: NodeId, node: Node) {
        if id.index() == self.cluster.nodes.len() {
            self.cluster.nodes.push(node);
            self.health.add(now, false);
        } else if self.cluster.node(id).rack != node.rack {
            return self.move_node(id, node);
        } else if *self.cluster.node(id) == node {
            return;
        } else {
            self.cluster.nodes[id.index()] = node;
            self.schedule.rates_changed(now, &self.cluster);
        }
        let mut load = Load::new(&self.cluster);
        load.add_load(&self.load);
        self.load = load;
    }

    /// A node is in another rack than before. What runs is charged again, because a plan crosses
    /// racks according to where its nodes are now, and must be taken off as it was put on.
    fn move_node(&mut self, id: NodeId, node: Node) {
        // Plans were made for another world, and what was blocked for want of racks may go now.
        self.unplan();
        self.look_again();
        self.cluster.nodes[id.index()] = node;
        let running = self.running.values().filter_map(|attempt| attempt.work.as_ref());
        let charged = running.map(|work| (&work.plan, work.job.facts()));
        self.load = Load::of(&self.cluster, charged);
    }

    fn hear(&mut self, now: Time, node: NodeId, message: FromAgent) {
        if let FromAgent::Hello(hello) = &message {
            self.greet(now, node, *hello);
        }
        let left = self.health.heard(now, node);
        if left.is_some() {
            self.health_changed(now, node);
        }
        if left == Some(Health::Failed) {
            // Its copies count again once it has listed them.
            self.send(node, ToAgent::List);
        }
        match message {
            FromAgent::Hello(_) => {}
            FromAgent::Inventory(copies) => self.inventory(node, &copies),
            FromAgent::Heartbeat(beat) => self.beat(now, node, &beat),
            FromAgent::Stored { repair, copy } => self.stored(now, node, repair, copy),
            FromAgent::Failed { repair, why } => self.failed(now, node, repair, why),
            FromAgent::Verified(check) => self.verified(now, node, check),
            FromAgent::Bad { copy, fault } => self.bad_copy(node, copy, fault),
        }
    }

    fn greet(&mut self, now: Time, node: NodeId, hello: Hello) {
        self.budget.set_pool(node, hello.pool_bytes);
        self.may_admit = true;
        if self.health.greeted(node, hello) {
            // A new incarnation has forgotten its tasks.
            self.end_repairs_with(now, node);
        }
    }

    fn beat(&mut self, now: Time, node: NodeId, beat: &Heartbeat) {
        if self.health.get(node).hello.is_none_or(|hello| hello.incarnation != beat.incarnation) {
            return;
        }
        self.health.free_bytes(node, beat.free_bytes);
        for &(id, lane, child) in &beat.arrived {
            if self.schedule.arrived(now, id, lane, (child, node))
                && let Some(attempt) = self.running.get_mut(&id)
            {
                attempt.progressed_at = now;
            }
        }
        for &(id, bytes_done) in &beat.running {
            let Some(attempt) = self.running.get_mut(&id) else {
                self.send(node, ToAgent::Cancel(id));
                continue;
            };
            if attempt.hear(node, bytes_done) {
                attempt.progressed_at = now;
                self.schedule.moved(now, id, attempt.bytes_come());
            }
        }
        self.release_again(node);
    }

    fn stored(&mut self, now: Time, node: NodeId, id: RepairId, copy: ChunkCopy) {
        let ours = copy.stamp == Stamp::from(id);
        let attempt =
            self.running.get_mut(&id).filter(|attempt| ours && attempt.stripe == copy.stripe);
        let bytes = attempt.as_ref().map_or(0, |attempt| attempt.bytes);
        let Some(goal) = attempt.and_then(|attempt| attempt.goal_at(node, copy.chunk)) else {
            self.send(node, ToAgent::Forget(id));
            return self.consider(node, copy);
        };
        if goal.state == State::Flowing {
            (goal.state, goal.bytes_done) = (State::Stored(copy), bytes);
            if !self.running[&id].is_flowing() {
                self.give_back(id);
            }
            self.commit_next(now, id);
        }
    }

    /// Asks for the location of the next durable chunk, unless one is being asked for.
    fn commit_next(&mut self, now: Time, id: RepairId) {
        let Some(attempt) = self.running.get_mut(&id).filter(|attempt| attempt.can_end()) else {
            return;
        };
        let Some(stripe) = self.stripes.get(attempt.stripe) else { return };
        for goal in &mut attempt.goals {
            if let State::Stored(copy) = goal.state {
                let (node, generation) = (goal.destination, stripe.generation);
                let commit = Commit { repair: id, copy, node, generation };
                goal.state = State::Committing { commit, asked_at: now };
                return self.outputs.push_back(Output::Commit(commit));
            }
        }
    }

    fn failed(&mut self, now: Time, node: NodeId, id: RepairId, why: Failure) {
        self.send(node, ToAgent::Forget(id));
        if self.running.get(&id).is_some_and(Attempt::is_flowing) {
            self.attempt_failed(now, id, Some(node), why);
        }
    }

    /// Ends an attempt and queues the stripe again, wiser by what went wrong. Chunks that are
    /// durable by now keep the attempt until their locations are settled.
    fn attempt_failed(&mut self, now: Time, id: RepairId, node: Option<NodeId>, why: Failure) {
        let Some(repair) = self.stop_flow(id) else { return };
        self.report(Report::Failed { repair: id, node, why: why.clone() });
        let trouble = self.trouble.entry(repair.stripe).or_default();
        trouble.attempts += 1;
        if trouble.attempts.is_multiple_of(AVOID_RESET) {
            trouble.avoid.clear();
        }
        match &why {
            Failure::PeerLost(peer) => trouble.avoid.extend([*peer]),
            Failure::ProofFailed { .. } => {
                // Some source lied past its checksums, or memory did: try other helpers.
                let work = repair.work.as_ref();
                trouble.avoid.extend(work.into_iter().flat_map(|w| w.plan.participants()));
            }
            // Nobody is to blame when an attempt had ended before another could go on with it.
            Failure::Source { .. } | Failure::Refused(Refusal::CannotContinue) => {}
            _ => trouble.avoid.extend(node),
        }
        if trouble.attempts >= ATTEMPTS_SHOWN {
            trouble.blocked =
                Some(Blocked::Failing { attempts: trouble.attempts, why: why.clone() });
        }
        let doublings = (trouble.attempts - 1).min(16);
        let timers = self.config.timers;
        let wait = timers.retry_first.times(1 << doublings).min(timers.retry_max);
        let not_before = match &why {
            Failure::Source { .. } | Failure::Refused(Refusal::CannotContinue) => None,
            _ => Some(now + wait),
        };
        if let (Failure::Source { copy, fault }, Some(node)) = (why, node) {
            self.bad_copy(node, copy, fault);
        }
        self.enqueue(repair.stripe, not_before);
    }

    /// Tells the participants of an attempt to drop it, and takes it out of the books unless some
    /// of its chunks are durable. Gives it as it was.
    fn stop_flow(&mut self, id: RepairId) -> Option<Attempt> {
        let attempt = self.running.get_mut(&id)?;
        let before = attempt.clone();
        attempt.goals.retain(|goal| goal.state != State::Flowing);
        let is_over = attempt.goals.is_empty();
        self.tell_to_drop(id, &before);
        if is_over {
            self.end(id);
        }
        Some(before)
    }

    /// Tells all that still work on an attempt to drop it. Destinations that have done their part
    /// are left alone: their copies are durable.
    fn tell_to_drop(&mut self, id: RepairId, attempt: &Attempt) {
        let Some(work) = attempt.work.as_ref().filter(|_| attempt.is_flowing()) else { return };
        self.give_back(id);
        let done = |node: &NodeId| {
            let mut goals = attempt.goals.iter();
            goals.any(|goal| goal.destination == *node && goal.state != State::Flowing)
        };
        for to in work.plan.participants().into_iter().filter(|node| !done(node)) {
            self.outputs.push_back(Output::Send { to, message: ToAgent::Cancel(id) });
        }
    }

    /// Takes an attempt out of the books, whatever its state.
    fn end(&mut self, id: RepairId) -> Option<Attempt> {
        let attempt = self.running.remove(&id)?;
        self.repairing.remove(&attempt.stripe);
        self.give_back(id);
        if let Some(work) = &attempt.work {
            self.load.subtract(&self.cluster, &work.plan, &work.job.facts());
        }
        self.tell_to_drop(id, &attempt);
        Some(attempt)
    }

    /// Gives back the memory of a repair that moves nothing any more.
    fn give_back(&mut self, id: RepairId) {
        self.budget.release(id);
        self.schedule.ended(id);
        self.may_admit = true;
    }

    /// Ends the running repair of a stripe, if it can still be ended without harm.
    fn end_repair_of(&mut self, stripe: StripeId) {
        if let Some(&id) = self.repairing.get(&stripe)
            && self.running[&id].can_end()
        {
            self.end(id);
        }
    }

    fn end_repairs_with(&mut self, now: Time, node: NodeId) {
        let takes_part = |attempt: &Attempt| attempt.is_flowing() && attempt.involves(node);
        let hit: Vec<RepairId> =
            self.running.iter().filter(|(_, a)| takes_part(a)).map(|(id, _)| *id).collect();
        for id in hit {
            self.attempt_failed(now, id, None, Failure::PeerLost(node));
        }
    }

    fn committed(&mut self, now: Time, id: RepairId, stripe: Stripe) {
        let asked = self.running.get(&id).and_then(Attempt::commit);
        let is_answer = |c: &Commit| stripe.copy(c.copy.chunk) == Some((c.node, c.copy));
        // Answers may come twice: one about another chunk of the stripe says nothing about this one.
        if !asked.is_some_and(|commit| is_answer(&commit)) {
            return;
        }
        let Some(commit) = self.end_commit(id) else { return };
        let Some(before) = self.stripes.get(stripe.id) else {
            // Removed meanwhile: its copies have become orphans.
            self.end(id);
            return self.consider(commit.node, commit.copy);
        };
        let before = before.copy(commit.copy.chunk);
        self.repaired_chunks += 1;
        self.repaired_bytes += stripe.chunk_bytes;
        let (copy, node, bytes) = (commit.copy, commit.node, stripe.chunk_bytes);
        self.report(Report::Committed { repair: id, copy, node, bytes });
        self.trouble.remove(&stripe.id);
        self.learn(stripe);
        self.commit_next(now, id);
        if !self.lost.contains_key(&copy.stripe) {
            self.report(Report::Healthy(copy.stripe));
        }
        if let Some((node, copy)) = before
            && self.health.is_up(node)
        {
            self.consider(node, copy);
        }
    }

    fn commit_refused(&mut self, now: Time, id: RepairId, truth: Option<Stripe>) {
        let Some(commit) = self.running.get(&id).and_then(Attempt::commit) else { return };
        if let Some(stripe) = &truth
            && stripe.copy(commit.copy.chunk) == Some((commit.node, commit.copy))
        {
            // The first answer was lost on its way.
            return self.committed(now, id, stripe.clone());
        }
        if truth.as_ref().is_some_and(|stripe| stripe.generation <= commit.generation) {
            // An old answer to another commit: this one may still succeed.
            return;
        }
        self.end_commit(id);
        match truth {
            Some(stripe) if self.stripes.get(stripe.id).is_some() => self.learn(stripe),
            Some(_) => {}
            None => self.remove_stripe(commit.copy.stripe),
        }
        self.consider(commit.node, commit.copy);
        self.commit_next(now, id);
    }

    /// Takes the chunk whose commit was answered out of the books, and its attempt when it was the
    /// last.
    fn end_commit(&mut self, id: RepairId) -> Option<Commit> {
        let attempt = self.running.get_mut(&id)?;
        let commit = attempt.commit()?;
        attempt.goals.retain(|goal| goal.chunk != commit.copy.chunk);
        if attempt.goals.is_empty() {
            self.end(id);
        }
        self.send(commit.node, ToAgent::Forget(id));
        Some(commit)
    }

    fn obey(&mut self, now: Time, command: Command) {
        match command {
            Command::FailNode(node) => {
                if self.health.declare(node) {
                    self.health_changed(now, node);
                }
            }
            Command::ReturnNode(node) => {
                if self.health.undeclare(now, node) {
                    self.send(node, ToAgent::List);
                }
            }
            Command::Pause => self.config.paused = true,
            Command::Resume => {
                self.config.paused = false;
                self.look_again();
            }
            Command::Cancel => {
                self.config.paused = true;
                let running: Vec<StripeId> = self.repairing.keys().copied().collect();
                for stripe in running {
                    self.end_repair_of(stripe);
                    self.enqueue(stripe, None);
                }
            }
        }
    }

    fn health_changed(&mut self, now: Time, node: NodeId) {
        let health = self.health(node);
        let mut chunks = 0;
        if health == Health::Failed {
            let stripes: Vec<StripeId> = self.stripes.on_node(node).map(|s| s.id).collect();
            chunks = stripes.len() as u64;
            for stripe in stripes {
                let chunk = self.stripes.get(stripe).and_then(|s| s.chunk_on(node));
                self.lose(stripe, chunk.expect("it is on the node"));
            }
            self.end_repairs_with(now, node);
        }
        self.report(Report::Node { node, health, chunks });
        // Plans were made for another world, and what was blocked may now be possible.
        self.unplan();
        self.look_again();
    }

    /// Wakes everything that waits: something changed.
    fn look_again(&mut self) {
        self.queue.wake_all();
    }

    /// The steps after every event: each cheap when there is nothing to do.
    fn maintain(&mut self, now: Time) {
        for (node, _) in self.health.expire(now) {
            self.health_changed(now, node);
        }
        if now >= self.sweep_at {
            self.sweep_at = now + crate::time::Span { ns: self.config.timers.stall_after.ns / 4 };
            self.sweep(now);
        }
        self.queue.wake(now);
        self.may_admit |= self.schedule_at.is_some_and(|at| at <= now);
        if !self.config.paused {
            self.plan_ready(now);
            self.admit_planned(now);
        }
        self.follow_orders(now);
        self.schedule_at = self.ask_schedule_at(now);
    }

    /// Looks for repairs that stand still and commits that were not answered.
    fn sweep(&mut self, now: Time) {
        let timers = self.config.timers;
        let mut stalled = Vec::new();
        let mut asked = Vec::new();
        for (id, attempt) in &mut self.running {
            let patience = if attempt.is_publishing() { PUBLISH_PATIENCE } else { 1 };
            let still = now.since(attempt.progressed_at) > timers.stall_after.times(patience);
            if still && attempt.is_flowing() && !self.schedule.is_resting(*id) {
                stalled.push(*id);
            }
            for goal in &mut attempt.goals {
                if let State::Committing { commit, asked_at } = &mut goal.state
                    && now.since(*asked_at) >= timers.commit_retry
                {
                    *asked_at = now;
                    asked.push(*commit);
                }
            }
        }
        self.outputs.extend(asked.into_iter().map(Output::Commit));
        for id in stalled {
            self.attempt_failed(now, id, None, Failure::Stalled);
        }
    }
}

/// How many more chunks the stripe can lose.
fn margin(stripe: &Stripe, lost: usize) -> u32 {
    stripe.code.loss_tolerance().saturating_sub(lost) as u32
}
