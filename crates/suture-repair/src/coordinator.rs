//! The coordinator: the life of every repair, from the failure to the healthy stripe.
//!
//! Place: [failure detected -> stripes affected -> queue -> plan -> admit -> dispatch -> ... ->
//! commit location -> stripe healthy]; the agents do what lies between. This file holds the
//! lifecycle: which event moves a repair from which state to which. Beside it: what follows when a
//! node reports, falls silent or is declared failed (`reported.rs`), which copies count
//! (`copies.rs`), what is asked of the planner (`planning.rs`), what would be (`preview.rs`), what
//! is started and ended (`dispatch.rs`), how chunks without a recorded checksum are proven
//! (`proof.rs`), how durable ones become locations (`commit.rs`), what the schedule wants of what
//! runs (`orders.rs`), the accounts of all that waits and runs (`ledger.rs`), how far each attempt
//! has come (`attempt.rs`), how one goes on or ends that lost a node (`failed.rs`), or in which all
//! wait for one (`waits.rs`), what went wrong before (`failure_history.rs`), what is wrong with
//! copies (`faults.rs`), which whole chunks are to be elsewhere (`moves.rs`), or would lie better
//! there (`rebalance.rs`), what each node has to check and delete (`work_list.rs`), which ids
//! others gave out (`ranges.rs`), what a sleep of its own must not change (`sleep.rs`), what older
//! metadata must not destroy (`restored.rs`), which stripes one rack could take with it
//! (`racks.rs`), how idle copies are searched for damage (`scrub.rs`), what links carry and repair
//! may take of them (`throttle.rs`), what operators see (`status.rs`), how fast repairs could be at
//! best (`planned_jobs.rs`), and what must hold (`invariants.rs`).
//!
//! Invariant: a copy of a known stripe is ordered away only after the copy that replaces it was
//! read in full, and none is by a coordinator that has been superseded. Deliberately absent:
//! metadata (the driver's, behind `Commit`), addresses, bytes, clocks.

mod attempt;
mod commit;
mod copies;
mod dispatch;
mod failed;
mod failure_history;
mod faults;
mod invariants;
mod ledger;
mod moves;
mod orders;
mod planned_jobs;
mod planning;
mod preview;
mod proof;
mod racks;
mod ranges;
mod rebalance;
mod reported;
mod restored;
mod scrub;
mod sleep;
mod status;
mod throttle;
mod waits;
mod work_list;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cluster::{Cluster, Node};
use crate::event::{Command, Health, Input, Liveness, NodeState, Output, Report, Timers};
use crate::health::HealthTable;
use crate::id::{ChunkCopy, ChunkIndex, CopyAt, EdgeRef, NodeId, StripeId};
use crate::message::{FromAgent, Heartbeat, Hello, ToAgent};
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::queue::Queue;
use crate::rates::Rates;
use crate::schedule::{EdgeRelease, Sample};
use crate::stripe::{Stripe, StripeMap};
use crate::throttle::Throttle;
use crate::time::{Span, Time};
use failure_history::FailureHistory;
use faults::CopyFaults;
use ledger::{Ledger, Scene};
use planning::{GATHERED_FROM, NodeInTurn};
use racks::Crowded;
use ranges::StripeRanges;
use rebalance::Rebalance;
use scrub::Scrub;
use waits::Waits;
use work_list::WorkLists;

pub use planned_jobs::{PlannedJobs, RepairBound};
pub use preview::{Preview, PreviewJobs};
pub use scrub::ScrubConfig;
pub use status::Absence;
pub use work_list::IN_FLIGHT_MAX;

/// What a coordinator is configured with at its start.
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
    /// The operator empties these nodes.
    pub draining: Vec<NodeId>,
    /// The operator lets these nodes be silent for so much longer.
    pub paused_nodes: Vec<(NodeId, Span)>,
    /// Stripes are claimed from the keeper before their repair is dispatched: others might repair
    /// them too, and the answer has the label of the chunks that it makes.
    pub claims: bool,
    /// What decides which nodes are dead.
    pub liveness: Liveness,
    /// Copies in excess and orphans are ordered away; otherwise the system that owns the stores
    /// removes them.
    pub deletes: bool,
    /// The most checks, and the most deletes, that may be under way at a node.
    pub in_flight_max: usize,
    /// How unread copies are searched for damage.
    pub scrub: ScrubConfig,
    /// Chunks move to nodes that hold much less than others after so long without change; none:
    /// they stay where they are.
    pub rebalance_after: Option<Span>,
    /// After an operator's command that leaves much to plan, plans are made so much later: commands
    /// that come together are planned together, and who looks next sees at once what they did.
    pub gather: Span,
}

/// Decides what is repaired, how and when; a state machine without clock, IO and threads.
///
/// Methods are of four kinds. *Events in*: [`handle`](Coordinator::handle) takes one event and
/// only records facts; then maintenance runs: expire, wake, plan, admit. *Effects out*: after each
/// event [`poll`](Coordinator::poll) until it gives nothing. *Time*: call `handle(now, Tick)` at
/// [`next_deadline`](Coordinator::next_deadline) at the latest; `now` never goes backwards.
/// *Looking*: everything that takes `&self`.
///
/// Effects may be performed in any order, late, twice or not at all. What matters is answered by
/// an event, and asked for again while no answer comes:
///
/// | output | answered by | asked again |
/// |---|---|---|
/// | `Commit` | `Committed`, `CommitRefused` | every `commit_retry` |
/// | `Claim` | `Claimed`, `ClaimRefused` | every `commit_retry`; granted, every `claim_prolong` |
/// | `ReleaseClaim` | nothing | not: claims end by themselves |
/// | `Send`: `Dispatch` | `Stored` from each destination, or `Failed` from any participant | not: what stands still for `stall_after` is planned anew, under another id |
/// | `Send`: `Release` | a `Heartbeat` in which the edge has `arrived` | at each heartbeat of the receiver |
/// | `Send`: `Fingerprint` | `Fingerprint`, `Bad`, or `Failed` | at a heartbeat of the destination, after `stall_after` |
/// | `Send`: `Publish` | `Stored` or `Failed` | at each heartbeat in which the chunk is `written` |
/// | `Send`: `Check` | `Verified`, `Bad` | in the node's next session, or after `stall_after` |
/// | `Send`: `Delete` | `Deleted`, or an `Inventory` without the copy | likewise |
/// | `Send`: `Fingerprint`, of a pass | `Fingerprint` or `Bad` | likewise |
/// | `Send`: `List` | `Inventory` | not: agents list their copies now and then |
/// | `Send`: `Cancel`, `Forget` | nothing | when the agent next speaks of the repair |
/// | `Send`: `Hold` | nothing | not: what is held for too long is let go, what flows is done sooner |
/// | `Protect` | `StripesReserved`, `StripesUnknown` | when such a copy is next listed |
/// | `Send`: `Limit` | a `Heartbeat` whose links report that it is kept to | while it is not, every second |
/// | `Scrub`, `Report` | nothing | not |
///
/// The states of a chunk under repair:
///
/// `queued -> planned [-> Asked] -> Transferring -> Stored -> Committing -> gone`
/// - `Asked`, only where stripes are claimed, ends by `Claimed`, or by `ClaimRefused`, after which
///   the stripe waits. A claimed repair that ends without its commits is released.
/// - `Transferring` ends by `Stored` (the chunk was proven, by its recorded checksum at the
///   destination or by fingerprints), or by a failure, a dead participant or a stall. Then it goes
///   on without a helper that was lost, as `Transferring` under a fresh repair id, or the stripe is
///   queued again.
/// - `Committing` ends by `Committed`, or by `CommitRefused` with the stripe as it is, which
///   decides. The chunks of one stripe commit one after the other.
/// - a stripe that is well again, removed, or whose chunk came back leaves any state.
///
/// There is at most one repair of a stripe at a time, and a location changes only by a
/// compare-and-set that the metadata acknowledged. A restart loses nothing that matters: the
/// driver loads the stripes again and gives a higher epoch, agents report what they hold, and tasks
/// of the old epoch are cancelled when they are next reported. What running repairs had moved by
/// then is moved again, but for chunks that are durable: those are found and adopted.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
    stripes: StripeMap,
    health: HealthTable,
    /// Chunks whose recorded copies are of no use.
    lost: BTreeMap<StripeId, BTreeSet<ChunkIndex>>,
    /// Stripes that lack chunks, and that the operator wants repaired before all others.
    wanted: BTreeSet<StripeId>,
    /// What is wrong with copies, though a listing may show them.
    faults: CopyFaults,
    /// Copies ordered away: never to be adopted.
    deleting: BTreeSet<CopyAt>,
    /// Copies that nodes listed last and that are not a recorded location: looked at again when
    /// their stripe comes to lack something.
    found: BTreeMap<StripeId, BTreeSet<CopyAt>>,
    /// Copies that each node should hold and did not list last, also while it counts as failed;
    /// none: its agent began anew, and has not listed any yet.
    unlisted: BTreeMap<NodeId, Option<BTreeSet<ChunkCopy>>>,
    /// What nodes have to check and delete.
    work_lists: WorkLists,
    scrub: Scrub,
    rebalance: Rebalance,
    crowded: Crowded,
    reserved_below: StripeId,
    writing: BTreeSet<StripeId>,
    /// Ids that others have given out, or may have.
    unknown: StripeRanges,
    /// Copies of such stripes by the node that listed them last.
    unknown_copies: BTreeMap<NodeId, u64>,
    queue: Queue,
    in_turn: NodeInTurn,
    failures: BTreeMap<StripeId, FailureHistory>,
    /// When repairs do without nodes whose sessions broke, or that others wait for.
    leave_at: BTreeMap<NodeId, Time>,
    waits: Waits,
    ledger: Ledger,
    rates: Rates,
    throttle: Throttle,
    /// When the schedule is to be asked again.
    schedule_at: Option<Time>,
    /// When plans are made again after a command; none: at any time.
    plans_at: Option<Time>,
    sweep_at: Time,
    repaired_chunks: u64,
    repaired_bytes: u64,
    /// When the last event was.
    now: Time,
    /// Stripes of which something changed since the invariants were last asserted.
    touched: Vec<StripeId>,
    outputs: VecDeque<Output>,
}

impl Coordinator {
    /// A coordinator that knows the stripes and has received nothing from any agent.
    pub fn new(now: Time, config: Config, cluster: Cluster, stripes: StripeMap) -> Coordinator {
        let mut health = HealthTable::new(config.timers, config.liveness);
        cluster.ids().for_each(|node| health.add(now, config.failed.contains(&node)));
        let reserved_below = stripes.iter().last().map_or(StripeId(0), |s| StripeId(s.id.0 + 1));
        let mut rates = Rates::default();
        cluster.ids().for_each(|id| rates.declare(id, cluster.node(id).clone()));
        let mut coordinator = Coordinator {
            ledger: Ledger::new(config.epoch, config.policy, cluster),
            stripes: StripeMap::default(),
            health,
            lost: BTreeMap::new(),
            wanted: BTreeSet::new(),
            faults: CopyFaults::default(),
            deleting: BTreeSet::new(),
            found: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            work_lists: WorkLists::new(config.in_flight_max),
            scrub: Scrub::new(now, config.scrub, stripes.iter().map(|stripe| stripe.id)),
            rebalance: Rebalance::new(now),
            crowded: Crowded::default(),
            reserved_below,
            writing: BTreeSet::new(),
            unknown: StripeRanges::default(),
            unknown_copies: BTreeMap::new(),
            queue: Queue::default(),
            in_turn: NodeInTurn::default(),
            failures: BTreeMap::new(),
            leave_at: BTreeMap::new(),
            waits: Waits::default(),
            rates,
            throttle: Throttle::default(),
            schedule_at: None,
            plans_at: None,
            config,
            sweep_at: now,
            repaired_chunks: 0,
            repaired_bytes: 0,
            now,
            touched: Vec::new(),
            outputs: VecDeque::new(),
        };
        coordinator.intend(now);
        stripes.iter().for_each(|stripe| coordinator.apply_stripe(stripe.clone()));
        coordinator.count_leaving();
        coordinator
    }

    /// Handles one event.
    ///
    /// # Panics
    /// `now` is before that of the last event, or an invariant is broken.
    pub fn handle(&mut self, now: Time, input: Input) {
        assert!(self.now <= now, "time: from {} back to {now}", self.now);
        self.excuse_sleep(now);
        self.now = now;
        let (first, read) = (self.outputs.len(), invariants::read_in_full(&input));
        match input {
            Input::NodeAdded { id, node, rack } => {
                let known = self.ledger.cluster().nodes.get(id.index());
                // A keeper that only names another rack, as HDFS does, declares no processors.
                let processor = node.processor.or(known.and_then(|known| known.processor));
                let rack = match known.filter(|_| self.ledger.mistake.is(Mutant::KeepRack)) {
                    Some(known) => known.rack,
                    None => rack.map(|name| self.ledger.rack(&name)),
                };
                self.set_node(now, id, Node { rack, processor, ..node });
            }
            Input::Agent { node, message } => self.receive(now, node, message),
            Input::AgentLost(node) => {
                if self.health.session_lost(node) {
                    self.health_changed(now, node);
                }
            }
            Input::StripesReserved { below, writing } => {
                self.reserved_below = below;
                self.writing = writing.into_iter().collect();
            }
            Input::StripesUnknown { from, below } => self.unknown.insert(from, below),
            Input::EpochRaised(epoch) => self.raise_epoch(epoch),
            Input::StripeAdded(stripe) => self.apply_stripe(stripe),
            Input::StripesAdded(all) => {
                all.into_iter().for_each(|stripe| self.apply_stripe(stripe))
            }
            Input::StripeRemoved(stripe) => self.remove_stripe(stripe),
            Input::Inconsistent(stripe) => self.recall_inconsistent(stripe),
            Input::Faulty { node, copy, fault } => self.recall_fault(node, copy, fault),
            Input::NodeState { node, state } => self.node_state(now, node, state),
            Input::ChunkSuspected { node, copy } => self.suspect(node, copy),
            Input::Committed { repair, stripe } => self.committed(now, repair, stripe),
            Input::CommitRefused { repair, stripe } => self.commit_refused(now, repair, stripe),
            Input::Claimed { repair, label } => self.claimed(now, repair, label),
            Input::ClaimRefused { repair, stripe, because_of } => {
                self.claim_refused(now, repair, stripe, because_of);
            }
            Input::ClaimLost(repair) => self.claim_lost(repair),
            Input::Operator(command) => {
                self.apply(now, command);
                if self.queue.ready_count() >= GATHERED_FROM {
                    self.plans_at.get_or_insert(now + self.config.gather);
                }
            }
            Input::Throttle(config) => self.configure_throttle(*config),
            Input::WindowClosed(until) => self.close_window(now, until),
            Input::Tick => {}
        }
        self.maintain(now);
        self.record_faults();
        self.assert_invariants();
        self.assert_outputs(first, read);
    }

    /// Makes the coordinator commit this mistake from now on (tests).
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        let mistake = crate::mutant::Mistake::of(mutant);
        self.ledger.mutate(mistake);
        (self.queue.mistake, self.health.mistake) = (mistake, mistake);
        (self.faults.mistake, self.work_lists.mistake) = (mistake, mistake);
        (self.scrub.mistake, self.throttle.mistake) = (mistake, mistake);
        self.unknown.mistake = mistake;
    }

    /// The next effect, in the order in which they came about; `None` when all were taken.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle(now, Tick)` at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let sweep = self.ledger.has_running().then_some(self.sweep_at);
        let (health, queue) = (self.health.next_deadline(), self.queue.next_deadline());
        let (faults, work) = (self.faults.next_deadline(), self.next_work_deadline());
        let (scrub, schedule) = (self.next_scrub_deadline(), self.schedule_at);
        let (window, rebalance) = (self.throttle.opens_at(), self.next_rebalance_deadline());
        let plans = self.plans_at;
        let deadlines =
            [sweep, health, queue, faults, work, scrub, schedule, window, rebalance, plans];
        deadlines.into_iter().flatten().min()
    }

    /// All nodes ever added, with their racks and rates as last declared.
    pub fn cluster(&self) -> &Cluster {
        self.ledger.cluster()
    }

    /// The stripes as the keeper last gave them.
    pub fn stripes(&self) -> &StripeMap {
        &self.stripes
    }

    /// How a node is.
    pub fn health(&self, node: NodeId) -> Health {
        self.health.get(node).health
    }

    /// The stripes under repair, once for each repair.
    pub fn running(&self) -> impl Iterator<Item = StripeId> {
        self.ledger.running().map(|(_, attempt)| attempt.stripe())
    }

    fn report(&mut self, report: Report) {
        self.outputs.push_back(Output::Report(report));
    }

    fn send(&mut self, to: NodeId, message: ToAgent) {
        self.outputs.push_back(Output::Send { to, message });
    }

    /// What schedules may look at.
    fn scene(&self, now: Time) -> Scene {
        let sample = self.lost.keys().next().and_then(|id| self.stripes.get(*id));
        Scene {
            now,
            nodes: self.health.up_count(),
            ready: self.ready_now(now),
            urgent: match self.ledger.waiting().first_margin() {
                Some(least @ 1..) => self.queue.ready_within(least - 1),
                Some(0) | None => 0,
            },
            sample: sample.map(|s| Sample { code: s.code, chunk_bytes: s.chunk_bytes }),
            shares_caps: self.throttle.shares_caps(),
        }
    }

    fn receive(&mut self, now: Time, node: NodeId, message: FromAgent) {
        let is_new_session = match &message {
            FromAgent::Hello(hello) => self.join(now, node, *hello),
            _ => false,
        };
        let was_up = self.health.is_up(node);
        self.reported(now, node, &message);
        match message {
            // A `Hello` that came twice, or late, begins no session.
            FromAgent::Hello(_) if !is_new_session => {}
            FromAgent::Hello(_) => {
                // A delete of an earlier session has been done, is still running (a check of the
                // copy then answers `Missing`), or will never run: agents ignore deletes of an
                // earlier session. So none is outstanding.
                if !self.ledger.mistake.is(Mutant::TrustDelete) {
                    self.deleting.retain(|at| at.node != node);
                }
                self.send_again(node);
                self.ask_fingerprints_again(node);
            }
            FromAgent::Inventory(copies) => self.inventory(node, &copies),
            FromAgent::NotListed => self.not_listed(node),
            FromAgent::Heartbeat(beat) => self.beat(now, node, &beat),
            FromAgent::Stored { repair, copy } => self.stored(now, node, repair, copy),
            FromAgent::Failed { repair, why } => self.failed(now, node, repair, why),
            FromAgent::Verified(check) => self.verified(now, node, check),
            FromAgent::Fingerprint { repair, copy, sums } => {
                if !self.scrubbed(node, repair, copy, &sums) {
                    self.fingerprint(now, node, repair, copy, sums);
                }
            }
            FromAgent::Deleted(copy) => self.work_lists.end_delete(node, copy),
            FromAgent::Bad { copy, fault } => {
                self.work_lists.end_checks_of(node, copy);
                self.bad_copy(node, copy, fault);
                self.scrub_found(node, copy, fault);
            }
        }
        if !was_up && !is_new_session {
            // A session may have begun while the node could not be used, and what it was asked in
            // the one before is lost.
            self.send_again(node);
        }
        self.send_work(node);
    }

    /// The keeper reports how a node is.
    fn node_state(&mut self, now: Time, node: NodeId, state: NodeState) {
        if self.config.liveness == Liveness::Own || self.health.len() <= node.index() {
            return;
        }
        if self.health.set_state(now, node, state) {
            self.health_changed(now, node);
            if state == NodeState::Up {
                // Its copies count again once it has listed them.
                self.send(node, ToAgent::List);
            }
        } else {
            // Where chunks may go has changed, though not where they are.
            self.unplan_all();
            self.queue.wake_all();
        }
    }

    /// An agent introduces itself. Returns whether that begins a session.
    fn join(&mut self, now: Time, node: NodeId, hello: Hello) -> bool {
        if !self.health.is_new_session(node, hello) {
            return false;
        }
        self.ledger.set_pool(node, hello.pool_bytes);
        self.await_listing(node, hello);
        if self.health.joined(node, hello) {
            // A new incarnation has forgotten its tasks, and its limit.
            self.throttle.forget(node);
            self.waits.forget(node);
            self.end_repairs_with(now, node);
            // Before anything is dispatched to it.
            if let Some(limit) = self.throttle.limit_at_first(node) {
                self.send(node, ToAgent::Limit(limit));
            }
        }
        true
    }

    fn beat(&mut self, now: Time, node: NodeId, beat: &Heartbeat) {
        if self.health.get(node).hello.is_none_or(|hello| hello.incarnation != beat.incarnation) {
            return;
        }
        let before = self.health.get(node).free_bytes;
        self.health.free_bytes(node, beat.free_bytes);
        self.wake_for_space(node, before);
        if let Some(report) = &beat.links {
            self.links(now, node, report);
        }
        for &EdgeRef { repair, lane, peer: child } in &beat.arrived {
            self.ledger.arrived(now, EdgeRelease { repair, lane, child, parent: node });
        }
        for &(id, bytes_done) in &beat.running {
            if !self.ledger.reported(now, id, node, bytes_done) {
                self.send(node, ToAgent::Cancel(id));
            }
        }
        beat.written.iter().for_each(|repair| self.written(now, node, *repair));
        self.waited(now, node, &beat.waits);
        self.release_again(node);
    }

    fn apply(&mut self, now: Time, command: Command) {
        match command {
            Command::FailNode(node) => {
                if self.health.declare(node) {
                    self.health_changed(now, node);
                }
            }
            Command::DrainNode(node) => self.drain(now, node),
            Command::PauseNode { node, span } => self.pause_node(now, node, span),
            Command::ReturnNode(node) => self.take_back(now, node),
            Command::FailSilent => self.give_up_silent(now),
            Command::RepairNow(stripe) => self.repair_now(stripe),
            Command::Scrub => self.begin_pass(now),
            Command::Pause => self.config.paused = true,
            Command::Resume => {
                self.config.paused = false;
                self.try_again();
            }
            Command::Cancel => {
                self.config.paused = true;
                let running: BTreeSet<StripeId> = self.running().collect();
                for stripe in running {
                    self.end_repair_of(stripe);
                    self.enqueue(stripe, None);
                }
            }
        }
    }

    /// The steps after every event: each cheap when there is nothing to do.
    fn maintain(&mut self, now: Time) {
        for node in self.health.end_pauses(now) {
            self.intent_changed(node);
        }
        for (node, _) in self.health.expire(now) {
            self.health_changed(now, node);
        }
        self.leave_silent(now);
        if now >= self.sweep_at {
            self.sweep_at = now + Span { ns: self.config.timers.stall_after.ns / 4 };
            self.sweep(now);
        }
        self.read_again(now);
        self.send_overdue(now);
        self.queue.wake(now);
        if self.schedule_at.is_some_and(|at| at <= now) {
            self.ledger.let_admit();
        }
        if self.throttle.opens_at().is_some_and(|at| at <= now) {
            self.throttle.close(None);
        }
        self.adjust_throttle(now);
        self.rebalance(now);
        if self.plans_at.is_some_and(|at| at <= now) {
            self.plans_at = None;
        }
        if !self.config.paused {
            if self.plans_at.is_none() {
                self.plan_ready(now);
            }
            self.admit_planned(now);
        }
        self.scrub(now);
        self.follow_schedule(now);
        self.schedule_at = self.ask_schedule_at(now);
    }
}

/// How many more chunks the stripe can lose.
fn margin(stripe: &Stripe, lost: usize) -> u32 {
    stripe.code.loss_tolerance().saturating_sub(lost) as u32
}
