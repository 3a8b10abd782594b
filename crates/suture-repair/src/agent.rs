//! The agent: the life of each task on one node, from dispatch to a proven, durable chunk.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! The contract of the state machine stands on [`Agent`]; what it is asked and what it asks for in
//! `agent/contract.rs`.
//!
//! Invariant: the slices in memory fit `reserved_bytes`, and that fits `pool_bytes`; a task that
//! does not fit is refused at once, never queued, so agents cannot wait for each other.
//! Deliberately absent: bytes, addresses, retries (the coordinator re-plans), clocks.

mod begin;
mod contract;
mod copies;
mod early;
mod invariants;
mod links;
mod lost;
mod outcomes;
mod peer_watch;
mod running;
mod stalls;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::id::{ChunkCopy, EdgeRef, NodeId, RepairId};
use crate::message::{
    DiskState, Failure, FingerprintRequest, FromAgent, Heartbeat, Hello, Refusal, Task, ToAgent,
};
use crate::mutant::{Mistake, Mutant};
use crate::pump::{Pump, Step};
use crate::slice::SliceId;
use crate::stripe::ChunkRecord;
use crate::time::Time;

pub use contract::{AgentConfig, AgentInput, AgentOutput, AgentStatus};
use copies::CopyOperations;
use early::{Early, GrantedSlices};
use links::LinkState;
use outcomes::Outcomes;
use peer_watch::PeerWatch;
use running::{Running, TaskState};

/// Ended repairs remembered so that a late or repeated dispatch cannot begin one again. Ids grow,
/// so everything below the oldest remembered one counts as ended too.
const ENDED_MAX: usize = 4096;

/// Does one node's part of repairs, slice by slice; a state machine without clock, IO and threads.
///
/// Methods are of four kinds. *Events in*: [`handle`](Agent::handle) takes one. *Effects out*:
/// after each event [`poll`](Agent::poll) until it gives nothing. *Time*: call `handle(now, Tick)`
/// at [`next_deadline`](Agent::next_deadline) at the latest; `now` never goes backwards. *Looking*:
/// [`status`](Agent::status) and [`wants`](Agent::wants). Every effect is answered:
///
/// | output | answered by |
/// |---|---|
/// | `Prepare`, `Continue` | `Prepared` |
/// | `Read` | `SliceRead` |
/// | `Deliver` | `SliceLeft` (or `PeerLost`, `WriteFailed`) for each sink |
/// | `Spool` | `SliceLeft` (or `WriteFailed`) |
/// | `Spill` | `SliceSpilled` (or `WriteFailed`) |
/// | `Publish` | `Published` |
/// | `Check` | `Checked` |
/// | `Fingerprint` | `Fingerprinted` |
/// | `List` | `Listed` or `NotListed` |
/// | `Delete` | `Deleted` |
/// | `Send`, `Grant`, `Discard`, `Limit` | nothing |
///
/// A task is `Preparing -> Filling -> Publishing -> gone` at a destination; at a helper or relay it
/// is `Passing`, and gone when its last slice has left. A chunk without a recorded checksum is
/// `Proving` before it is published: each heartbeat reports that it is written, the coordinator
/// asks for its fingerprint and those of other chunks, and answers by `Publish` or `Cancel`. One
/// that skips keeps what it is `Filling` when a peer is lost, and reports that with every heartbeat
/// until another task takes it over or the coordinator sends `Cancel`. A peer that owes the next
/// message and sends nothing in any task is reported at once, and with every heartbeat. Outcomes
/// are repeated with every heartbeat until the coordinator sends `Forget`. A restart loses all
/// tasks and nothing else: copies are listed anew, temporaries discarded.
///
/// The coordinator's schedule has three words for running tasks. A gated one grants a child
/// nothing before that edge's `Release`, and answers with a heartbeat when all of it is spilled.
/// One that is held grants nothing more until the coordinator lets it go on. One that continues
/// another takes over its temporary file. None of these waits is a stall: a task stalls where
/// something was asked for and does not come; one that is only not asked waits, and ends when the
/// coordinator cancels it, as it does with a reported repair that it does not know.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    epoch: u32,
    connected: bool,
    /// The session that runs, or the last one; the first one of a start follows its incarnation.
    session: u64,
    tasks: BTreeMap<RepairId, Running>,
    outcomes: Outcomes,
    copy_operations: CopyOperations,
    early: Early,
    ended: BTreeSet<RepairId>,
    ended_below: RepairId,
    reserved: u64,
    free_bytes: u64,
    disk: DiskState,
    next_beat: Time,
    next_inventory: Time,
    links: LinkState,
    peer_watch: PeerWatch,
    /// When the last event was.
    now: Time,
    mistake: Mistake,
    outputs: VecDeque<AgentOutput>,
}

impl Agent {
    /// An agent that holds no tasks.
    pub fn new(config: AgentConfig) -> Agent {
        Agent {
            session: config.incarnation,
            config,
            epoch: 0,
            connected: false,
            tasks: BTreeMap::new(),
            outcomes: Outcomes::default(),
            copy_operations: CopyOperations::default(),
            early: Early::default(),
            ended: BTreeSet::new(),
            ended_below: RepairId(0),
            reserved: 0,
            free_bytes: 0,
            disk: DiskState::Good,
            next_beat: Time::ZERO,
            next_inventory: Time::ZERO,
            links: LinkState::default(),
            peer_watch: PeerWatch::default(),
            now: Time::ZERO,
            mistake: Mistake::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Handles one event.
    ///
    /// # Panics
    /// `now` is before that of the last event, or an invariant is broken.
    pub fn handle(&mut self, now: Time, input: AgentInput) {
        assert!(self.now <= now, "time: from {} back to {now}", self.now);
        self.now = now;
        match input {
            AgentInput::Granted { from, repair, lane, first, below } => {
                let edge = EdgeRef { repair, lane, peer: from };
                self.granted(now, edge, GrantedSlices { first, below })
            }
            AgentInput::SliceArrived { from, id } => {
                self.pump(now, id.repair, id.lane, |pump| pump.on_arrived(from, id.slice));
            }
            AgentInput::SliceRead { id, result: Ok(()) } => {
                self.pump(now, id.repair, id.lane, |pump| pump.on_read(id.slice));
            }
            AgentInput::SliceSpilled { from, id } => self.spilled(now, from, id),
            AgentInput::SliceLeft(id) => {
                self.pump(now, id.repair, id.lane, |pump| pump.on_left(id.slice));
            }
            _ => return self.handle_other(now, input),
        }
        // These variants own no heap memory; `forget` saves the drop check, which would run for
        // each slice.
        std::mem::forget(input);
        self.beat(now);
    }

    /// An event that is not of a slice under way. They come seldom, so they are out of line.
    #[inline(never)]
    fn handle_other(&mut self, now: Time, input: AgentInput) {
        let subject = input.task();
        match input {
            AgentInput::Granted { .. }
            | AgentInput::SliceArrived { .. }
            | AgentInput::SliceRead { result: Ok(()), .. }
            | AgentInput::SliceSpilled { .. }
            | AgentInput::SliceLeft(_) => unreachable!("a slice is under way"),
            AgentInput::Connected { epoch } => self.connected(now, epoch),
            AgentInput::Disconnected => self.disconnected(now),
            AgentInput::Message(message) => self.message(now, *message),
            AgentInput::SliceRead { id, result: Err(why) } => self.fail(id.repair, why),
            AgentInput::WriteFailed { repair, .. } if self.mistake.is(Mutant::DropSilently) => {
                self.remove(repair);
            }
            AgentInput::WriteFailed { repair, why } => self.fail(repair, why),
            AgentInput::Prepared { repair, result } => self.prepared(now, repair, result),
            AgentInput::Published { repair, result } => self.published(repair, result),
            AgentInput::PeerLost(peer) => self.peer_lost(peer),
            AgentInput::FreeBytes(bytes) => self.free_bytes = bytes,
            AgentInput::Disk(disk) => self.disk = disk,
            AgentInput::Listed { copies, free_bytes } => self.listed(now, copies, free_bytes),
            AgentInput::NotListed if self.mistake.is(Mutant::KeepListing) => {}
            AgentInput::NotListed => self.not_listed(),
            AgentInput::Checked { check, result } => self.checked(*check, result),
            AgentInput::Deleted(copy) => self.deleted(copy),
            AgentInput::Fingerprinted { request, result } => self.fingerprinted(*request, result),
            AgentInput::Found { copy, fault } => self.send(FromAgent::Bad { copy, fault }),
            AgentInput::Measured(report) => self.links.measured(report),
            AgentInput::Tick => {}
        }
        self.beat(now);
        self.assert_invariants(subject);
    }

    /// Makes the agent commit this mistake from now on (tests).
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        self.mistake = Mistake::of(mutant);
    }

    /// The next effect, in the order in which they came about; `None` when all were taken.
    pub fn poll(&mut self) -> Option<AgentOutput> {
        self.outputs.pop_front()
    }

    /// When to call `handle(now, Tick)` at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let inspection = self.next_inspection();
        Some(inspection.map_or(self.next_beat, |at| at.min(self.next_beat)))
    }

    fn send(&mut self, message: FromAgent) {
        if self.connected {
            self.outputs.push_back(AgentOutput::Send(Box::new(message)));
        }
    }

    fn connected(&mut self, now: Time, epoch: u32) {
        self.epoch = self.epoch.max(epoch);
        self.connected = true;
        self.session = self.session.wrapping_add(1);
        self.send(FromAgent::Hello(Hello {
            incarnation: self.config.incarnation,
            session: self.session,
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
            ToAgent::Release { repair, lane, child } => {
                self.released(now, EdgeRef { repair, lane, peer: child })
            }
            ToAgent::Hold { repair, held } => self.hold(now, repair, held),
            ToAgent::Forget(repair) => self.forget(repair),
            ToAgent::Check(check) => self.check(check),
            ToAgent::Fingerprint(request) => self.fingerprint(Box::new(request)),
            ToAgent::Publish(repair) => {
                let state = self.tasks.get(&repair).map(|task| task.state);
                if let Some(TaskState::Proving(copy)) = state {
                    self.publish(now, repair, copy);
                }
            }
            ToAgent::Delete { epoch, session, copy } => self.delete(epoch, session, copy),
            ToAgent::List => self.list(),
            ToAgent::Limit(limit) => {
                self.links.limit = limit;
                self.outputs.push_back(AgentOutput::Limit(limit));
            }
        }
    }

    fn dispatch(&mut self, now: Time, task: Arc<Task>) {
        let repair = task.repair;
        let is_over = self.is_ended(repair) && !self.mistake.is(Mutant::BeginAgain);
        if self.tasks.contains_key(&repair) || is_over {
            return;
        }
        if repair.epoch() < self.epoch {
            let why = Failure::Refused(Refusal::StaleEpoch);
            return self.conclude(repair, FromAgent::Failed { repair, why });
        }
        match self.begin(now, task) {
            Ok(running) => self.enter(now, repair, running),
            Err(why) => self.conclude(repair, FromAgent::Failed { repair, why }),
        }
    }

    fn enter(&mut self, now: Time, repair: RepairId, running: Running) {
        if !self.mistake.is(Mutant::UncountedMemory) {
            self.reserved += running.reserved;
        }
        let (state, takes_over) = (running.state, running.takes_over);
        let before = running.task.continues;
        let made = running.state.copy();
        let bytes = made.map_or(0, |copy| running.task.stripe.record(copy.chunk).bytes);
        self.tasks.insert(repair, running);
        if self.mistake.is(Mutant::OpenEarly) {
            self.open(now, repair);
        }
        if let Some(from) = takes_over {
            // Its file goes on, so nothing is discarded.
            self.remove(from);
            return self.outputs.push_back(AgentOutput::Continue { repair, from });
        }
        before.into_iter().for_each(|before| self.cancel(before));
        match state {
            TaskState::Passing => self.open(now, repair),
            _ => self.outputs.push_back(AgentOutput::Prepare { repair, bytes }),
        }
    }

    fn prepared(&mut self, now: Time, repair: RepairId, result: Result<(), Failure>) {
        match (self.tasks.get_mut(&repair), result) {
            (Some(task), Ok(())) => {
                if let TaskState::Preparing(copy) = task.state {
                    task.state = TaskState::Filling(copy);
                    self.open(now, repair);
                }
            }
            (Some(_), Err(why)) => self.fail(repair, why),
            // Cancelled meanwhile: the temporary may have come after the discard.
            (None, Ok(())) => self.outputs.push_back(AgentOutput::Discard(repair)),
            (None, Err(_)) => {}
        }
    }

    /// Lets the slices of a task flow, with the grants and releases that came early.
    fn open(&mut self, now: Time, repair: RepairId) {
        let task = self.tasks.get_mut(&repair).expect("opened tasks run");
        for (lane, pump) in &mut task.lanes {
            let parents: Vec<NodeId> = pump.role().parents().collect();
            for from in parents {
                let edge = EdgeRef { repair, lane: *lane, peer: from };
                if let Some(slices) = self.early.granted(edge) {
                    pump.on_granted(from, slices.first, slices.below);
                }
            }
            let children: Vec<NodeId> = pump.role().children.iter().map(|c| c.node).collect();
            for child in children {
                if self.early.released(EdgeRef { repair, lane: *lane, peer: child }) {
                    pump.on_released(child);
                }
            }
            pump.open();
            collect(pump, repair, *lane, &mut self.outputs);
        }
        self.go_on(now, repair);
    }

    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(task) = self.tasks.get_mut(&repair) else { return };
        task.hold(held);
        for (lane, pump) in &mut task.lanes {
            collect(pump, repair, *lane, &mut self.outputs);
        }
        self.go_on(now, repair);
    }

    /// A child's slice is in the spool. The coordinator waits for the last one.
    fn spilled(&mut self, now: Time, from: NodeId, id: SliceId) {
        let is_last = |pump: &mut Pump| {
            pump.on_spilled(from, id.slice);
            pump.spilled().any(|child| child == from)
        };
        if self.pump(now, id.repair, id.lane, is_last) == Some(true) {
            self.next_beat = now;
        }
    }

    /// Notifies a pump of what happened, if its task still runs, and does what it wants.
    fn pump<T>(
        &mut self,
        now: Time,
        repair: RepairId,
        lane: u16,
        event: impl FnOnce(&mut Pump) -> T,
    ) -> Option<T> {
        let task = self.tasks.get_mut(&repair)?;
        let pump = task.pump_mut(lane)?;
        let before = pump.progress();
        let answer = event(pump);
        collect(pump, repair, lane, &mut self.outputs);
        if pump.progress() != before {
            let is_done = pump.is_done();
            task.progressed_at = now;
            if is_done {
                self.go_on(now, repair);
            }
        }
        Some(answer)
    }

    /// Moves a task on when all of its slices have left.
    fn go_on(&mut self, now: Time, repair: RepairId) {
        let is_early = self.mistake.is(Mutant::PublishEarly);
        let is_done = |task: &Running| is_early || task.is_done();
        if self.tasks.get(&repair).is_some_and(|t| t.state.is_transferring() && is_done(t)) {
            self.received_all(now, repair);
        }
    }

    /// All slices of a task have left.
    fn received_all(&mut self, now: Time, repair: RepairId) {
        let task = self.tasks.get_mut(&repair).expect("its last slice came");
        let Some(copy) = task.state.copy() else { return self.drop_task(repair) };
        let is_recorded = task.task.stripe.record(copy.chunk).crc.is_some()
            && !self.mistake.is(Mutant::ProveRecorded);
        if is_recorded || self.mistake.is(Mutant::PublishUnproven) {
            return self.publish(now, repair, copy);
        }
        task.state = TaskState::Proving(copy);
        // It is reported to the coordinator at once.
        self.next_beat = now;
    }

    fn publish(&mut self, now: Time, repair: RepairId, copy: ChunkCopy) {
        let task = self.tasks.get_mut(&repair).expect("its chunk is written");
        task.state = TaskState::Publishing(copy);
        task.progressed_at = now;
        let ChunkRecord { bytes, crc, .. } = *task.task.stripe.record(copy.chunk);
        let label = task.task.label.clone();
        self.outputs.push_back(AgentOutput::Publish { repair, copy, bytes, crc, label });
    }

    /// A chunk that is being made here is read when it is complete, any other as a copy.
    fn fingerprint(&mut self, request: Box<FingerprintRequest>) {
        let state = self.tasks.get(&request.repair).map(|task| task.state);
        let made = state.and_then(|state| Some((state, state.copy()?)));
        let is_written = match made.filter(|(_, copy)| *copy == request.copy) {
            Some((TaskState::Proving(_), _)) => true,
            Some(_) => return,
            None => false,
        };
        if self.copy_operations.fingerprints.insert((request.repair, request.copy)) {
            self.outputs.push_back(AgentOutput::Fingerprint { request, is_written });
        }
    }

    fn fingerprinted(
        &mut self,
        FingerprintRequest { repair, copy, .. }: FingerprintRequest,
        result: Result<Arc<[u8]>, Failure>,
    ) {
        self.copy_operations.fingerprints.remove(&(repair, copy));
        match result {
            Ok(sums) => self.send(FromAgent::Fingerprint { repair, copy, sums }),
            Err(Failure::Source { copy, fault }) => self.send(FromAgent::Bad { copy, fault }),
            Err(why) => self.fail(repair, why),
        }
    }

    fn published(&mut self, repair: RepairId, result: Result<(), Failure>) {
        let copy = self.tasks.get(&repair).and_then(|task| task.state.copy());
        match (copy, result) {
            (Some(copy), Ok(())) => self.conclude(repair, FromAgent::Stored { repair, copy }),
            (Some(copy), Err(_)) if self.mistake.is(Mutant::AssumeStored) => {
                self.conclude(repair, FromAgent::Stored { repair, copy });
            }
            (Some(_), Err(why)) => self.fail(repair, why),
            // Cancelled meanwhile: the copy shows in the next inventory, and the coordinator,
            // which knows whether the chunk still lacks a location, adopts or deletes it.
            (None, Ok(())) => self.list(),
            (None, Err(_)) => {}
        }
    }

    fn cancel(&mut self, repair: RepairId) {
        self.forget(repair);
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

    fn drop_task(&mut self, repair: RepairId) {
        if self.remove(repair) {
            self.outputs.push_back(AgentOutput::Discard(repair));
        }
    }

    /// Ends a task without reporting what it has in memory and on disk. False where there is none.
    fn remove(&mut self, repair: RepairId) -> bool {
        let Some(task) = self.tasks.remove(&repair) else { return false };
        if !self.mistake.is(Mutant::KeepTaskMemory) {
            self.reserved -= task.reserved;
        }
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
        if now >= self.peer_watch.inspect_at && !self.tasks.is_empty() {
            self.watch_peers(now);
        }
        if now >= self.next_beat {
            self.report(now);
        }
    }

    /// Reports everything to the coordinator, or gives up what stalls without one.
    #[inline(never)]
    fn report(&mut self, now: Time) {
        self.excuse_sleep(now);
        self.next_beat = now + self.config.heartbeat_every;
        let first = self.outputs.len();
        // What ends in this beat is sent by that; only what ended before is repeated.
        if !self.mistake.is(Mutant::SendOnce) {
            self.outcomes.begin_beat();
        }
        let idle = self.tasks.values_mut().filter(|task| task.is_idle());
        idle.for_each(|task| task.progressed_at = now);
        if !self.connected {
            return self.give_up_stalled(now);
        }
        let (incarnation, free_bytes, disk) = (self.config.incarnation, self.free_bytes, self.disk);
        let AgentStatus { running, arrived, written, .. } = self.status();
        let (links, waits) = (self.links.take(), self.waits());
        self.send(FromAgent::Heartbeat(Heartbeat {
            incarnation,
            free_bytes,
            disk,
            running,
            arrived,
            written,
            waits,
            links,
        }));
        self.outcomes.more().into_iter().for_each(|outcome| self.send(outcome));
        self.assert_sent(first);
        self.repeat_lost();
        if now >= self.next_inventory && !self.copy_operations.is_listing() {
            self.next_inventory = now + self.config.inventory_every;
            self.list();
        }
    }
}

/// Turns what a pump wants into effects. Pumps without a step are not checked: whatever a pump asks
/// for or consumes is a step.
fn collect(pump: &mut Pump, repair: RepairId, lane: u16, outputs: &mut VecDeque<AgentOutput>) {
    let Some(first) = pump.poll() else { return };
    pump.assert_positions(repair, lane);
    outputs.push_back(effect(first, pump, repair, lane));
    while let Some(step) = pump.poll() {
        outputs.push_back(effect(step, pump, repair, lane));
    }
}

fn effect(step: Step, pump: &Pump, repair: RepairId, lane: u16) -> AgentOutput {
    let (role, id) = (|| pump.role().clone(), |slice| SliceId { repair, lane, slice });
    match step {
        Step::ReadOwn(slice) => AgentOutput::Read { id: id(slice), role: role(), spool: false },
        Step::ReadSpool(slice) => AgentOutput::Read { id: id(slice), role: role(), spool: true },
        Step::Deliver(slice) => AgentOutput::Deliver { id: id(slice), role: role() },
        Step::Spool(slice) => AgentOutput::Spool { id: id(slice), role: role() },
        Step::Spill(from, slice) => AgentOutput::Spill { id: id(slice), from, role: role() },
        Step::Grant(to, below) => {
            let first = pump.first().unwrap_or(0);
            AgentOutput::Grant { to, repair, lane, first, below }
        }
    }
}
