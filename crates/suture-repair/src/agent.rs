//! The agent: the life of each task on one node, from dispatch to a proven, durable chunk.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! Four kinds of methods, as in a driver's loop: `handle` takes one event, `poll` gives effects
//! until there are none, `next_deadline` says when to call `handle(now, Tick)` at the latest,
//! `status` and `wants` only look. `now` never goes backwards. Every effect is answered:
//!
//! | output    | answered by                      | output    | answered by |
//! |-----------|----------------------------------|-----------|-------------|
//! | `Prepare`, `Continue` | `Prepared`           | `Publish` | `Published` |
//! | `Read`    | `SliceRead`                      | `Check`   | `Checked`   |
//! | `Deliver` | `SliceLeft` (or `PeerLost`, `WriteFailed`) for each sink | `List` | `Listed` |
//! | `Spool`   | `SliceLeft` (or `WriteFailed`)   | the rest  | nothing     |
//! | `Keep`    | `SliceKept` (or `WriteFailed`)   |           |             |
//!
//! A task is `Preparing -> Flowing -> Publishing -> gone`; a helper's is gone when its last slice
//! has left. Outcomes are repeated with every heartbeat until the coordinator says `Forget`.
//! A restart loses all tasks and nothing else: copies are listed anew, temporaries discarded.
//!
//! The coordinator's schedule has three words for running tasks. A gated one grants a child
//! nothing before that edge's `Release`, and answers with a heartbeat when all of it is kept. One
//! that is held grants nothing more, until told otherwise. One that continues another takes over
//! its temporary file. None of these waits is a stall: a task stalls where something was asked for
//! and does not come, so whoever is only not asked waits in peace, and ends when the coordinator
//! says so or, hearing of a repair that it does not know, cancels it.
//!
//! Invariant: the slices in memory fit `reserved_bytes`, and that fits `pool_bytes`; a task that
//! does not fit is refused at once, never queued, so agents cannot wait for each other.
//! Deliberately absent: bytes, addresses, retries (the coordinator re-plans), clocks.

mod contract;
mod early;
mod running;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::id::{ChunkCopy, NodeId, RepairId, Stamp};
use crate::message::{Failure, FromAgent, Heartbeat, Hello, Refusal, Task, ToAgent};
use crate::plan::Range;
use crate::plan::validate::validate;
use crate::pump::{Pump, Step, WINDOW_MAX};
use crate::role::Role;
use crate::slice::{PAYLOAD_BYTES_MAX, SliceId, memory};
use crate::time::Time;

pub use contract::{Config, Input, Output, Status};
use early::Early;
use running::{Phase, Running};

/// Slices of a chunk: their indices have 32 bits, and a periodic plan cuts some in two.
const SLICES_MAX: u64 = 1 << 31;

/// Ended repairs remembered so that a late or repeated dispatch cannot begin one again. Ids grow,
/// so everything below the oldest remembered one counts as ended too.
const ENDED_MAX: usize = 4096;

/// The state machine of one agent.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    epoch: u32,
    connected: bool,
    tasks: BTreeMap<RepairId, Running>,
    outcomes: BTreeMap<RepairId, FromAgent>,
    early: Early,
    ended: BTreeSet<RepairId>,
    ended_below: RepairId,
    reserved: u64,
    free_bytes: u64,
    next_beat: Time,
    next_inventory: Time,
    outputs: VecDeque<Output>,
}

impl Agent {
    /// An agent that holds no tasks.
    pub fn new(config: Config) -> Agent {
        Agent {
            config,
            epoch: 0,
            connected: false,
            tasks: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            early: Early::default(),
            ended: BTreeSet::new(),
            ended_below: RepairId(0),
            reserved: 0,
            free_bytes: 0,
            next_beat: Time::ZERO,
            next_inventory: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// One event.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Connected { epoch } => self.connected(now, epoch),
            Input::Disconnected => self.connected = false,
            Input::Message(message) => self.message(now, message),
            Input::Granted { from, repair, lane, upto } => {
                self.granted(now, from, (repair, lane), upto)
            }
            Input::SliceArrived { from, id } => {
                self.pump(now, id, |pump| pump.on_arrived(from, id.slice))
            }
            Input::SliceRead { id, result: Ok(()) } => {
                self.pump(now, id, |pump| pump.on_read(id.slice))
            }
            Input::SliceRead { id, result: Err(why) } => self.fail(id.repair, why),
            Input::SliceKept { from, id } => self.kept(now, from, id),
            Input::SliceLeft(id) => self.pump(now, id, |pump| pump.on_left(id.slice)),
            Input::WriteFailed { repair, why } => self.fail(repair, why),
            Input::Prepared { repair, result } => self.prepared(now, repair, result),
            Input::Published { repair, result } => self.published(repair, result),
            Input::PeerLost(peer) => self.peer_lost(peer),
            Input::Listed { copies, free_bytes } => {
                self.free_bytes = free_bytes;
                self.send(FromAgent::Inventory(copies));
                // The coordinator gives no chunk to a node whose room it does not know.
                self.next_beat = now;
            }
            Input::Checked { check, result: Ok(()) } => self.send(FromAgent::Verified(check)),
            Input::Checked { check, result: Err(fault) } => {
                self.send(FromAgent::Bad { copy: check.copy, fault });
            }
            Input::Found { copy, fault } => self.send(FromAgent::Bad { copy, fault }),
            Input::Tick => {}
        }
        self.beat(now);
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle(now, Tick)` at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        Some(self.next_beat)
    }

    /// What runs and what it may use.
    pub fn status(&self) -> Status {
        let running = self.tasks.iter().map(|(id, t)| (*id, t.bytes_done())).collect();
        let of_task = |(id, task): (&RepairId, &Running)| {
            let id = *id;
            task.arrived().map(|(lane, child)| (id, lane, child)).collect::<Vec<_>>()
        };
        let arrived = self.tasks.iter().flat_map(of_task).collect();
        Status { reserved_bytes: self.reserved, running, arrived }
    }

    /// Whether a slice from `from` has a place here; one that has none is dropped unread.
    pub fn wants(&self, from: NodeId, id: SliceId) -> bool {
        let pump = self.tasks.get(&id.repair).and_then(|task| task.pump(id.lane));
        pump.is_some_and(|pump| pump.wants(from, id.slice))
    }

    fn send(&mut self, message: FromAgent) {
        if self.connected {
            self.outputs.push_back(Output::Send(message));
        }
    }

    fn connected(&mut self, now: Time, epoch: u32) {
        self.epoch = self.epoch.max(epoch);
        self.connected = true;
        self.send(FromAgent::Hello(Hello {
            incarnation: self.config.incarnation,
            abilities: self.config.abilities,
            pool_bytes: self.config.pool_bytes,
            free_bytes: self.free_bytes,
        }));
        self.next_beat = now;
        self.next_inventory = now;
    }

    fn message(&mut self, now: Time, message: ToAgent) {
        match message {
            ToAgent::Dispatch(task) => self.dispatch(now, task),
            ToAgent::Cancel(repair) => self.cancel(repair),
            ToAgent::Release { repair, lane, child } => self.released(now, (repair, lane, child)),
            ToAgent::Hold { repair, held } => self.hold(now, repair, held),
            ToAgent::Forget(repair) => drop(self.outcomes.remove(&repair)),
            ToAgent::Check(check) => self.outputs.push_back(Output::Check(check)),
            ToAgent::Delete { epoch, copy } if epoch >= self.epoch => {
                self.outputs.push_back(Output::Delete(copy));
            }
            ToAgent::Delete { .. } => {}
            ToAgent::List => self.outputs.push_back(Output::List),
        }
    }

    fn dispatch(&mut self, now: Time, task: Box<Task>) {
        let repair = task.repair;
        let known = self.tasks.contains_key(&repair) || self.is_ended(repair);
        if known || repair.epoch() < self.epoch {
            return;
        }
        match self.begin(now, task) {
            Ok(running) => {
                self.reserved += running.reserved;
                let (publishes, continues) = (running.publishes, running.task.continues);
                let bytes = running.task.stripe.chunk_bytes;
                self.tasks.insert(repair, running);
                match (publishes, continues) {
                    (Some(_), None) => self.outputs.push_back(Output::Prepare { repair, bytes }),
                    (Some(_), Some(from)) => {
                        // Its file goes on, so nothing is discarded.
                        self.remove(from);
                        self.outputs.push_back(Output::Continue { repair, from });
                    }
                    (None, from) => {
                        from.into_iter().for_each(|from| self.cancel(from));
                        self.open(now, repair);
                    }
                }
            }
            Err(why) => self.conclude(repair, FromAgent::Failed { repair, why }),
        }
    }

    fn begin(&self, now: Time, task: Box<Task>) -> Result<Running, Failure> {
        let alignment = task.stripe.code.alignment() as u64;
        let slices_fit = (1..=PAYLOAD_BYTES_MAX).contains(&task.slice_bytes)
            && u64::from(task.slice_bytes).is_multiple_of(alignment)
            && task.plan.range.bytes() / u64::from(task.slice_bytes) < SLICES_MAX;
        let is_later = task.continues.is_none_or(|old| old < task.repair);
        if task.window == 0 || task.window > WINDOW_MAX || !slices_fit || !is_later {
            return Err(Failure::Refused(Refusal::InvalidPlan));
        }
        let survivors = task.survivors();
        validate(&task.plan, &task.facts(&survivors), usize::MAX)
            .map_err(|_| Failure::Refused(Refusal::InvalidPlan))?;
        let from = if task.continues.is_some() { task.plan.range.from } else { 0 };
        if task.plan.range != (Range { from, to: task.stripe.chunk_bytes }) {
            // Part of a chunk has no checksum to prove it by; a requestor may want one, no store.
            return Err(Failure::Refused(Refusal::Ability));
        }
        let roles = Role::of(&task, self.config.me).map_err(Failure::Refused)?;
        if roles.is_empty() {
            return Err(Failure::Refused(Refusal::NotAParticipant));
        }
        let needs = memory(&task.plan, task.slice_bytes, alignment as u32).into_iter();
        let mine = needs.filter(|(node, _)| *node == self.config.me).map(|(_, bytes)| bytes);
        let needed = mine.sum::<u64>() * u64::from(task.window);
        let old = task.continues.and_then(|old| self.tasks.get(&old));
        let free = self.config.pool_bytes - self.reserved + old.map_or(0, |old| old.reserved);
        if needed > free {
            return Err(Failure::NoBuffers { needed, free });
        }
        let mine = task.plan.destinations.iter().find(|(_, node)| **node == self.config.me);
        let stamp = Stamp::from(task.repair);
        let publishes = mine.map(|(&chunk, _)| ChunkCopy { stripe: task.stripe.id, chunk, stamp });
        if let (Some(copy), Some(_)) = (publishes, task.continues)
            && !old.is_some_and(|old| old.leaves(copy, task.plan.range.from))
        {
            return Err(Failure::Refused(Refusal::CannotContinue));
        }
        let lanes = roles.into_iter().map(|(i, role)| (i, Pump::new(role, task.window))).collect();
        let phase = if publishes.is_some() { Phase::Preparing } else { Phase::Flowing };
        Ok(Running {
            task,
            lanes,
            publishes,
            phase,
            held: false,
            reserved: needed,
            progress: 0,
            progressed_at: now,
        })
    }

    fn prepared(&mut self, now: Time, repair: RepairId, result: Result<(), Failure>) {
        match (self.tasks.get_mut(&repair), result) {
            (Some(task), Ok(())) if task.phase == Phase::Preparing => {
                task.phase = Phase::Flowing;
                self.open(now, repair);
            }
            (Some(_), Err(why)) => self.fail(repair, why),
            // Cancelled meanwhile: the temporary may have come after the discard.
            (None, Ok(())) => self.outputs.push_back(Output::Discard(repair)),
            _ => {}
        }
    }

    /// Lets the slices of a task flow, with the grants and releases that came early.
    fn open(&mut self, now: Time, repair: RepairId) {
        let task = self.tasks.get_mut(&repair).expect("opened tasks run");
        for (lane, pump) in &mut task.lanes {
            let parents: Vec<NodeId> = pump.role().parents().collect();
            for from in parents {
                if let Some(upto) = self.early.granted((repair, *lane, from)) {
                    pump.on_granted(from, upto);
                }
            }
            let children: Vec<NodeId> = pump.role().children.iter().map(|c| c.node).collect();
            for child in children {
                if self.early.released((repair, *lane, child)) {
                    pump.on_released(child);
                }
            }
            pump.open();
        }
        self.collect(now, repair);
    }

    fn granted(&mut self, now: Time, from: NodeId, (repair, lane): (RepairId, u16), upto: u32) {
        let may_come = self.may_come(repair);
        match self.tasks.get_mut(&repair) {
            Some(task) => {
                let Some(pump) = task.pump_mut(lane).filter(|pump| pump.feeds(from)) else {
                    return;
                };
                pump.on_granted(from, upto);
                self.collect(now, repair);
            }
            None if may_come => self.early.grant((repair, lane, from), upto),
            None => {}
        }
    }

    /// The coordinator lets a child send.
    fn released(&mut self, now: Time, (repair, lane, child): (RepairId, u16, NodeId)) {
        let may_come = self.may_come(repair);
        match self.tasks.get_mut(&repair) {
            Some(task) => {
                let Some(pump) = task.pump_mut(lane) else { return };
                pump.on_released(child);
                self.collect(now, repair);
            }
            None if may_come => self.early.release((repair, lane, child)),
            None => {}
        }
    }

    /// Whether a task that is not here may still be dispatched.
    fn may_come(&self, repair: RepairId) -> bool {
        repair.epoch() >= self.epoch && !self.is_ended(repair)
    }

    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(task) = self.tasks.get_mut(&repair) else { return };
        task.hold(held);
        self.collect(now, repair);
    }

    /// A child's slice is in the spool. The coordinator waits for the last one.
    fn kept(&mut self, now: Time, from: NodeId, id: SliceId) {
        let Some(task) = self.tasks.get_mut(&id.repair) else { return };
        let Some(pump) = task.pump_mut(id.lane) else { return };
        pump.on_kept(from, id.slice);
        if pump.kept().any(|child| child == from) {
            self.next_beat = now;
        }
        self.collect(now, id.repair);
    }

    /// Tells a pump what happened, if its task still runs.
    fn pump(&mut self, now: Time, id: SliceId, event: impl FnOnce(&mut Pump)) {
        let Some(task) = self.tasks.get_mut(&id.repair) else { return };
        let Some(pump) = task.pump_mut(id.lane) else { return };
        event(pump);
        self.collect(now, id.repair);
    }

    /// Turns what the pumps want into effects, and moves the task on when they are done.
    fn collect(&mut self, now: Time, repair: RepairId) {
        let task = self.tasks.get_mut(&repair).expect("collected tasks run");
        for (lane, pump) in &mut task.lanes {
            while let Some(step) = pump.poll() {
                let role = pump.role();
                let id = |slice| SliceId { repair, lane: *lane, slice };
                self.outputs.push_back(effect(step, id, role, repair, *lane));
            }
        }
        let progress = task.lanes.iter().map(|(_, pump)| pump.progress()).sum();
        if progress != task.progress {
            (task.progress, task.progressed_at) = (progress, now);
        }
        if task.phase == Phase::Flowing && task.lanes.iter().all(|(_, pump)| pump.is_done()) {
            self.flowed(now, repair);
        }
    }

    fn flowed(&mut self, now: Time, repair: RepairId) {
        let task = self.tasks.get_mut(&repair).expect("it flowed a moment ago");
        let Some(copy) = task.publishes else { return self.drop_task(repair) };
        task.phase = Phase::Publishing;
        task.progressed_at = now;
        let stripe = &task.task.stripe;
        let crc = stripe.chunks[usize::from(copy.chunk.0)].crc;
        self.outputs.push_back(Output::Publish { repair, copy, bytes: stripe.chunk_bytes, crc });
    }

    fn published(&mut self, repair: RepairId, result: Result<(), Failure>) {
        let copy = self.tasks.get(&repair).and_then(|task| task.publishes);
        match (copy, result) {
            (Some(copy), Ok(())) => self.conclude(repair, FromAgent::Stored { repair, copy }),
            (Some(_), Err(why)) => self.fail(repair, why),
            // Cancelled meanwhile: the copy shows in the next inventory, and the coordinator,
            // who knows whether the chunk still lacks a home, adopts or deletes it.
            (None, Ok(())) => self.outputs.push_back(Output::List),
            (None, Err(_)) => {}
        }
    }

    fn peer_lost(&mut self, peer: NodeId) {
        let hit = |task: &Running| {
            task.lanes.iter().any(|(_, pump)| pump.awaits(peer) || pump.feeds(peer))
        };
        let lost: Vec<RepairId> =
            self.tasks.iter().filter(|(_, t)| hit(t)).map(|(id, _)| *id).collect();
        for repair in lost {
            self.fail(repair, Failure::PeerLost(peer));
        }
    }

    fn cancel(&mut self, repair: RepairId) {
        self.outcomes.remove(&repair);
        self.early.forget(repair);
        self.drop_task(repair);
        // The dispatch may still be on its way.
        self.end(repair);
    }

    fn fail(&mut self, repair: RepairId, why: Failure) {
        if self.tasks.contains_key(&repair) {
            self.conclude(repair, FromAgent::Failed { repair, why });
        }
    }

    /// The task is over: says so, and goes on saying so until it is heard.
    fn conclude(&mut self, repair: RepairId, outcome: FromAgent) {
        self.drop_task(repair);
        self.end(repair);
        self.outcomes.insert(repair, outcome.clone());
        self.send(outcome);
    }

    fn drop_task(&mut self, repair: RepairId) {
        if self.remove(repair) {
            self.outputs.push_back(Output::Discard(repair));
        }
    }

    /// Ends a task without a word about what it has in memory and on disk. False where there is
    /// none.
    fn remove(&mut self, repair: RepairId) -> bool {
        let Some(task) = self.tasks.remove(&repair) else { return false };
        self.reserved -= task.reserved;
        self.end(repair);
        true
    }

    fn end(&mut self, repair: RepairId) {
        self.ended.insert(repair);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_first()
        {
            self.ended_below = oldest;
        }
    }

    fn is_ended(&self, repair: RepairId) -> bool {
        repair <= self.ended_below || self.ended.contains(&repair)
    }

    fn beat(&mut self, now: Time) {
        if now < self.next_beat {
            return;
        }
        self.next_beat = now + self.config.heartbeat_every;
        let idle = self.tasks.values_mut().filter(|task| task.is_idle());
        idle.for_each(|task| task.progressed_at = now);
        let limit = self.config.stall_after;
        let is_stalled =
            |t: &Running| t.phase != Phase::Publishing && now.since(t.progressed_at) > limit;
        let stalled: Vec<RepairId> =
            self.tasks.iter().filter(|(_, t)| is_stalled(t)).map(|(id, _)| *id).collect();
        stalled.into_iter().for_each(|repair| self.fail(repair, Failure::Stalled));
        if !self.connected {
            return;
        }
        let (incarnation, free_bytes) = (self.config.incarnation, self.free_bytes);
        let Status { running, arrived, .. } = self.status();
        self.send(FromAgent::Heartbeat(Heartbeat { incarnation, free_bytes, running, arrived }));
        let outcomes: Vec<FromAgent> = self.outcomes.values().cloned().collect();
        outcomes.into_iter().for_each(|outcome| self.send(outcome));
        if now >= self.next_inventory {
            self.next_inventory = now + self.config.inventory_every;
            self.outputs.push_back(Output::List);
        }
    }
}

fn effect(
    step: Step,
    id: impl Fn(u32) -> SliceId,
    role: &Arc<Role>,
    repair: RepairId,
    lane: u16,
) -> Output {
    let role = role.clone();
    match step {
        Step::ReadOwn(slice) => Output::Read { id: id(slice), role, spool: false },
        Step::ReadSpool(slice) => Output::Read { id: id(slice), role, spool: true },
        Step::Deliver(slice) => Output::Deliver { id: id(slice), role },
        Step::Spool(slice) => Output::Spool { id: id(slice), role },
        Step::Keep(from, slice) => Output::Keep { id: id(slice), from, role },
        Step::Grant(to, upto) => Output::Grant { to, repair, lane, upto },
    }
}
