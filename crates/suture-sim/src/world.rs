//! The simulated cluster: the production state machines, real bytes, and a network that misbehaves.
//!
//! Place: it drives the whole life of a repair and decides nothing in it.
//! One heap of events ordered by (time, sequence); every random choice comes from the seed, so a
//! run can be repeated bit for bit. Agents' effects are performed on real bytes in memory.
//! Trouble enters through `trouble.rs`; `check.rs` looks on and remembers the first broken rule.
//!
//! What it promises like the real transport: a message never reaches a process that has begun a
//! newer session with its sender. Everything else may be lost, doubled, late or out of order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use suture_code::Code;
use suture_repair::agent::{self, Agent};
use suture_repair::chunk_store::{ChunkStore, ChunkWriter, Spool};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::coordinator::{self, Coordinator};
use suture_repair::event::{self, Claim, Commit, Timers};
use suture_repair::id::{ChunkCopy, NodeId, RepairId, StripeId};
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::message::{FromAgent, ToAgent};
#[cfg(feature = "mutants")]
use suture_repair::mutant::Mutant;
use suture_repair::planner::Abilities;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::slice::{SLICE_BYTES_MIN, SliceId};
use suture_repair::stripe::{Stripe, StripeMap};
use suture_repair::time::{Span, Time};
use suture_repair::transcript;

use crate::check::Violation;
use crate::disk::{Disk, Nets};
use crate::fault::{Coverage, Fault, Kind, Weather};
use crate::party::Party;
use crate::record::Records;
use crate::truth::Truth;

/// What a world is made from.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds everything.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// The code of every stripe.
    pub code: Code,
    /// The policy of the coordinator.
    pub policy: Policy,
    /// Slice memory of each agent.
    pub pool_bytes: u64,
    /// Room on each disk.
    pub disk_bytes: u64,
    /// Whether faults may destroy more than can be repaired.
    pub losses: bool,
    /// Whether the coordinator claims stripes.
    pub claims: bool,
    /// The safety nets.
    pub nets: Nets,
}

pub(crate) enum Event {
    ToAgent {
        to: NodeId,
        epoch: u32,
        message: ToAgent,
    },
    ToCoordinator {
        from: NodeId,
        incarnation: u64,
        epoch: u32,
        message: FromAgent,
    },
    Grant {
        from: NodeId,
        to: NodeId,
        repair: RepairId,
        lane: u16,
        upto: u32,
    },
    Slice {
        from: NodeId,
        to: NodeId,
        id: SliceId,
        bytes: Vec<u8>,
    },
    /// An agent's effect is done; the bytes it read come along.
    Done {
        node: NodeId,
        incarnation: u64,
        input: agent::Input,
        read: Read,
    },
    Ask(Question),
    Answer {
        epoch: u32,
        input: event::Input,
    },
    AgentTick(NodeId),
    CoordinatorTick,
    Connect(NodeId),
    Lost {
        node: NodeId,
        epoch: u32,
    },
    Trouble(Fault),
    Relief(crate::trouble::Relief),
}

/// What the coordinator asks of the truth.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Commit(Commit),
    Claim(Claim),
    Release(RepairId),
}

/// Sources of a slice: by the child that they came from, or the own ones.
pub(crate) type Sources = Vec<(Option<NodeId>, Vec<u8>)>;

/// What a read brought into memory, if anything.
pub(crate) type Read = Option<(SliceId, Sources)>;

struct Timed {
    at: Time,
    sequence: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

pub(crate) struct Host {
    /// `None` while it is down.
    pub(crate) agent: Option<Agent>,
    pub(crate) incarnation: u64,
    pub(crate) disk: Disk,
    /// Chunks in the making, each by the repair that it is for.
    pub(crate) writers: BTreeMap<RepairId, Arc<dyn ChunkWriter>>,
    /// Spools of running repairs, one a lane.
    pub(crate) spools: BTreeMap<(RepairId, u16), Arc<dyn Spool>>,
    pub(crate) gone: bool,
    /// Slices in memory: by id and the child they came from (`None`: read here).
    pub(crate) buffers: BTreeMap<(SliceId, Option<NodeId>), Vec<u8>>,
    armed: Option<Time>,
}

impl Host {
    /// The spool of a slice's lane.
    pub(crate) fn spool(&mut self, id: SliceId) -> Arc<dyn Spool> {
        let spool = self.spools.entry((id.repair, id.lane));
        spool.or_insert_with(|| self.disk.spool().expect("memory is there")).clone()
    }

    /// Drops all that a repair has here.
    pub(crate) fn discard(&mut self, repair: RepairId) {
        self.writers.remove(&repair);
        self.spools.retain(|(of, _), _| *of != repair);
        self.buffers.retain(|(id, _), _| id.repair != repair);
    }

    /// What is left when its process ends without a word.
    fn crash(&mut self) {
        self.buffers.clear();
        self.disk.crash();
        self.writers.clear();
        self.spools.clear();
    }
}

/// The whole cluster.
pub struct World {
    /// What it was made from.
    pub options: Options,
    /// The clock.
    pub now: Time,
    /// The durable truth.
    pub truth: Truth,
    /// How often each trouble happened.
    pub coverage: Coverage,
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// A line for each thing that happened, when asked for.
    pub trace: Option<Vec<String>>,
    /// The transcript of every machine, when asked for.
    pub records: Option<Records>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) coordinator: Option<Coordinator>,
    pub(crate) random: Random,
    pub(crate) weather: Weather,
    pub(crate) partitions: BTreeSet<(Party, Party)>,
    pub(crate) writing: BTreeSet<StripeId>,
    /// Stripes whose chunks are being written.
    pub(crate) unfinished: BTreeMap<StripeId, Stripe>,
    pub(crate) published: BTreeSet<(NodeId, ChunkCopy)>,
    pub(crate) paused: bool,
    pub(crate) declared: BTreeSet<NodeId>,
    /// The mistake that everyone makes.
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
    dispatched: BTreeSet<StripeId>,
    armed: Option<Time>,
    heap: BinaryHeap<Reverse<Timed>>,
    sequence: u64,
}

/// Timers short enough that a run of seconds sees all of them fire.
pub(crate) const TIMERS: Timers = Timers {
    suspect_after: Span::from_millis(350),
    dead_after: Span::from_millis(900),
    start_grace: Span::from_millis(1200),
    stall_after: Span::from_millis(2000),
    commit_retry: Span::from_millis(400),
    retry_first: Span::from_millis(50),
    retry_max: Span::from_millis(1500),
};

impl World {
    /// A cluster whose nodes and coordinator have just been started.
    pub fn new(options: Options) -> World {
        World::recorded(options, None)
    }

    /// Likewise, with every machine recorded if there are records.
    pub(crate) fn recorded(options: Options, records: Option<Records>) -> World {
        let host = |_| Host {
            agent: None,
            incarnation: 0,
            disk: Disk::new(options.disk_bytes, options.nets),
            writers: BTreeMap::new(),
            spools: BTreeMap::new(),
            gone: false,
            buffers: BTreeMap::new(),
            armed: None,
        };
        let mut world = World {
            now: Time::ZERO,
            truth: Truth::new(options.nets),
            coverage: Coverage::default(),
            violation: None,
            trace: None,
            records,
            hosts: (0..options.nodes).map(host).collect(),
            coordinator: None,
            random: Random::new(options.seed),
            weather: Weather::CALM,
            partitions: BTreeSet::new(),
            writing: BTreeSet::new(),
            unfinished: BTreeMap::new(),
            published: BTreeSet::new(),
            paused: false,
            declared: BTreeSet::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
            dispatched: BTreeSet::new(),
            armed: None,
            heap: BinaryHeap::new(),
            sequence: 0,
            options,
        };
        (0..world.hosts.len()).for_each(|i| world.start_agent(NodeId(i as u32)));
        world
    }

    /// From now on everyone makes this mistake.
    #[cfg(feature = "mutants")]
    pub(crate) fn mutate(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        self.make_mistakes();
    }

    /// Whoever was just started makes the mistake of this world, if it has one.
    fn make_mistakes(&mut self) {
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            let agents = self.hosts.iter_mut().filter_map(|host| host.agent.as_mut());
            agents.for_each(|agent| agent.mutate(mutant));
            self.coordinator.iter_mut().for_each(|coordinator| coordinator.mutate(mutant));
        }
    }

    /// All node ids.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.hosts.len() as u32).map(NodeId)
    }

    /// The coordinator, unless it is down.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.coordinator.as_ref()
    }

    /// Tells an agent something as if a coordinator had said it: for tests of agents alone.
    pub fn tell(&mut self, node: NodeId, message: ToAgent) {
        self.agent_input(node, agent::Input::Message(message));
    }

    /// Runs until `until`, or until a rule is broken.
    pub fn run(&mut self, until: Time) {
        while self.violation.is_none()
            && let Some(Reverse(next)) = self.heap.peek()
            && next.at <= until
        {
            let Some(Reverse(timed)) = self.heap.pop() else { break };
            self.now = timed.at;
            self.perform(timed.event);
        }
        self.now = self.now.max(until);
    }

    pub(crate) fn later(&mut self, after: Span, event: Event) {
        self.sequence += 1;
        let timed = Timed { at: self.now + after, sequence: self.sequence, event };
        self.heap.push(Reverse(timed));
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} {}", self.now, line()));
        }
    }

    fn perform(&mut self, event: Event) {
        match event {
            Event::ToAgent { to, epoch, message } => {
                let current = self.coordinator.is_some() && self.truth.epoch == epoch;
                if current && self.hears(Party::Coordinator, Party::Agent(to)) {
                    self.agent_input(to, agent::Input::Message(message));
                }
            }
            Event::ToCoordinator { from, incarnation, epoch, message } => {
                let current =
                    self.truth.epoch == epoch && self.host(from).incarnation == incarnation;
                if current && self.hears(Party::Agent(from), Party::Coordinator) {
                    self.coordinator_input(event::Input::Agent { node: from, message });
                }
            }
            Event::Grant { from, to, repair, lane, upto } => {
                if self.hears(Party::Agent(from), Party::Agent(to)) {
                    self.agent_input(to, agent::Input::Granted { from, repair, lane, upto });
                }
            }
            Event::Slice { from, to, id, bytes } => {
                if self.hears(Party::Agent(from), Party::Agent(to)) {
                    self.slice(from, to, id, bytes);
                }
            }
            Event::Done { node, incarnation, input, read } => {
                self.done(node, incarnation, input, read);
            }
            Event::Ask(question) => self.ask(question),
            Event::Answer { epoch, input } => {
                if self.truth.epoch == epoch {
                    self.coordinator_input(input);
                }
            }
            Event::AgentTick(node) => {
                self.hosts[node.index()].armed = None;
                self.agent_input(node, agent::Input::Tick);
            }
            Event::CoordinatorTick => {
                self.armed = None;
                self.coordinator_input(event::Input::Tick);
            }
            Event::Connect(node) => self.connect(node),
            Event::Lost { node, epoch } => {
                if self.truth.epoch == epoch {
                    self.coordinator_input(event::Input::AgentLost(node));
                }
            }
            Event::Trouble(fault) => self.inject(fault),
            Event::Relief(relief) => self.relieve(relief),
        }
    }

    pub(crate) fn host(&self, node: NodeId) -> &Host {
        &self.hosts[node.index()]
    }

    pub(crate) fn hears(&self, from: Party, to: Party) -> bool {
        let alive = match to {
            Party::Coordinator => self.coordinator.is_some(),
            Party::Agent(node) => self.host(node).agent.is_some(),
        };
        alive && !self.partitions.contains(&(from.min(to), from.max(to)))
    }

    /// Puts a message on the network, with whatever happens to it there.
    pub(crate) fn transmit(&mut self, event: impl Fn() -> Event) {
        let weather = self.weather;
        if self.random.per_mille(weather.drop) {
            self.coverage.count(Kind::Drop);
            return;
        }
        let twice = self.random.per_mille(weather.duplicate);
        if twice {
            self.coverage.count(Kind::Duplicate);
        }
        for _ in 0..=usize::from(twice) {
            let mut after = Span { ns: self.random.between(50_000, 400_000) };
            if weather != Weather::CALM && self.random.per_mille(200) {
                self.coverage.count(Kind::Reorder);
                after.ns += self.random.below(5_000_000);
            }
            if self.random.per_mille(weather.delay) {
                self.coverage.count(Kind::Delay);
                after.ns += self.random.below(weather.delay_max.ns);
            }
            self.later(after, event());
        }
    }

    pub(crate) fn start_agent(&mut self, node: NodeId) {
        let incarnation = self.random.next_u64();
        let config = agent::Config {
            me: node,
            incarnation,
            abilities: Abilities::ALL,
            pool_bytes: self.options.pool_bytes,
            heartbeat_every: Span::from_millis(100),
            stall_after: Span::from_millis(4000),
            inventory_every: Span::from_millis(2500),
        };
        if let Some(records) = &mut self.records {
            records.start(Party::Agent(node), transcript::agent::header(&config));
        }
        let host = &mut self.hosts[node.index()];
        host.incarnation = incarnation;
        host.agent = Some(Agent::new(config));
        host.crash();
        host.armed = None;
        self.make_mistakes();
        self.connect_soon(node);
    }

    pub(crate) fn connect_soon(&mut self, node: NodeId) {
        let after = Span { ns: self.random.between(1_000_000, 60_000_000) };
        self.later(after, Event::Connect(node));
    }

    fn connect(&mut self, node: NodeId) {
        if self.host(node).agent.is_none() {
            return;
        }
        let reachable = self.hears(Party::Agent(node), Party::Coordinator);
        if reachable {
            let epoch = self.truth.epoch;
            self.agent_input(node, agent::Input::Connected { epoch });
        } else {
            // It goes on trying, as the driver does.
            self.connect_soon(node);
        }
    }

    /// Starts a coordinator on the truth as it is.
    pub fn start_coordinator(&mut self) {
        self.truth.epoch += 1;
        let config = coordinator::Config {
            epoch: self.truth.epoch,
            timers: TIMERS,
            policy: self.options.policy,
            seed: self.options.seed,
            paused: self.paused,
            failed: self.declared.iter().copied().collect(),
            claims: self.options.claims,
        };
        let cluster = Cluster::uniform(self.hosts.len(), Rate(1e8));
        let stripes = StripeMap::new(self.truth.stripes.values().cloned());
        if let Some(records) = &mut self.records {
            let header = transcript::coordinator::header(self.now, &config, &cluster, &stripes);
            records.start(Party::Coordinator, header);
        }
        // A put that was under way dies with its coordinator.
        self.writing.clear();
        self.coordinator = Some(Coordinator::new(self.now, config, cluster, stripes));
        self.make_mistakes();
        self.armed = None;
        self.announce_reserved();
        for node in self.nodes() {
            self.connect_soon(node);
        }
    }

    pub(crate) fn announce_reserved(&mut self) {
        let below = StripeId(self.truth.next_stripe);
        let writing = self.writing.iter().copied().collect();
        self.coordinator_input(event::Input::StripesReserved { below, writing });
    }

    /// The time that state machines are told.
    fn clock(&self) -> Time {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::TimeBack) && self.sequence.is_multiple_of(100) {
            return Time { ns: self.now.ns.saturating_sub(1_000_000) };
        }
        self.now
    }

    pub(crate) fn coordinator_input(&mut self, input: event::Input) {
        let now = self.clock();
        let Some(coordinator) = &mut self.coordinator else { return };
        if let Some(records) = &mut self.records {
            records.input(now, Party::Coordinator, &input);
        }
        coordinator.handle(now, input);
        let outputs: Vec<event::Output> = std::iter::from_fn(|| coordinator.poll()).collect();
        if let Some(records) = &mut self.records {
            records.coordinator_outputs(&outputs);
        }
        outputs.into_iter().for_each(|output| self.coordinator_output(output));
        self.check_coordinator();
        let deadline = self.coordinator.as_ref().and_then(Coordinator::next_deadline);
        if let Some(deadline) = deadline
            && self.armed.is_none_or(|armed| armed > deadline)
        {
            self.armed = Some(deadline);
            self.later(deadline.since(now).max(Span { ns: 1 }), Event::CoordinatorTick);
        }
    }

    fn coordinator_output(&mut self, output: event::Output) {
        let epoch = self.truth.epoch;
        match output {
            event::Output::Send { to, message } => {
                if let ToAgent::Dispatch(task) = &message
                    && !self.options.nets.requeue
                    && self.dispatched.contains(&task.stripe.id)
                {
                    return;
                }
                self.note(|| format!("coordinator -> {to}: {message:?}"));
                self.transmit(|| Event::ToAgent { to, epoch, message: message.clone() });
            }
            event::Output::Commit(commit) => {
                self.note(|| format!("commit {commit:?}"));
                self.transmit(|| Event::Ask(Question::Commit(commit)));
            }
            event::Output::Claim(claim) => {
                self.note(|| format!("claim {claim:?}"));
                self.transmit(|| Event::Ask(Question::Claim(claim.clone())));
            }
            event::Output::Release(repair) => {
                self.note(|| format!("release {repair}"));
                self.transmit(|| Event::Ask(Question::Release(repair)));
            }
            event::Output::Report(report) => {
                if let event::Report::Started { plan, .. } = &report {
                    self.dispatched.insert(plan.stripe);
                }
                self.note(|| format!("report {report:?}"));
            }
        }
    }

    fn ask(&mut self, question: Question) {
        let answered = match &question {
            Question::Commit(commit) => {
                self.check_commit(commit);
                self.truth.commit(commit)
            }
            Question::Claim(claim) => self.claim(claim),
            Question::Release(repair) => self.truth.release(*repair),
        };
        answered.expect("the truth is in memory");
        let epoch = match question {
            Question::Commit(Commit { repair, .. })
            | Question::Claim(Claim { repair, .. })
            | Question::Release(repair) => repair.epoch(),
        };
        for input in self.truth.changes() {
            self.note(|| format!("truth {input:?}"));
            self.transmit(|| Event::Answer { epoch, input: input.clone() });
        }
    }

    /// Now and then somebody else is at work on the stripe.
    fn claim(&mut self, claim: &Claim) -> Result<(), KeeperError> {
        let ended = self.truth.claims.expire(self.now);
        (0..ended).for_each(|_| self.coverage.count(Kind::ClaimExpired));
        if self.weather != Weather::CALM && self.random.per_mille(100) {
            self.coverage.count(Kind::ClaimRefused);
            self.truth.refuse(claim);
            return Ok(());
        }
        self.truth.claim(self.now, claim)
    }

    pub(crate) fn agent_input(&mut self, node: NodeId, input: agent::Input) {
        let now = self.clock();
        let host = &mut self.hosts[node.index()];
        let Some(agent) = &mut host.agent else { return };
        if let Some(records) = &mut self.records {
            records.input(now, Party::Agent(node), &input);
        }
        agent.handle(now, input);
        let outputs: Vec<agent::Output> = std::iter::from_fn(|| agent.poll()).collect();
        if let Some(records) = &mut self.records {
            records.agent_outputs(&outputs);
        }
        outputs.into_iter().for_each(|output| self.agent_output(node, output));
        self.check_agent(node);
        let host = &mut self.hosts[node.index()];
        let deadline = host.agent.as_ref().and_then(Agent::next_deadline);
        if let Some(deadline) = deadline
            && host.armed.is_none_or(|armed| armed > deadline)
        {
            host.armed = Some(deadline);
            self.later(deadline.since(now).max(Span { ns: 1 }), Event::AgentTick(node));
        }
    }

    /// Bytes of slices in memory at a node.
    pub(crate) fn held_bytes(&self, node: NodeId) -> u64 {
        self.host(node).buffers.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Chunks rebuilt and published so far.
    pub fn published_count(&self) -> u64 {
        self.published.len() as u64
    }

    /// Whether a node's disk holds a good copy.
    pub fn holds(&self, node: NodeId, copy: ChunkCopy) -> bool {
        self.host(node).disk.check(copy).is_ok()
    }

    /// What a node's agent does; nothing while it is down.
    pub fn status(&self, node: NodeId) -> agent::Status {
        self.host(node).agent.as_ref().map(Agent::status).unwrap_or_default()
    }

    /// Slices in memory and files in the making at a node.
    pub fn unfinished_count(&self, node: NodeId) -> usize {
        self.host(node).buffers.len() + self.host(node).disk.unfinished_count()
    }

    /// The smallest slice memory with which any one repair of `code` can run.
    pub fn smallest_pool(code: Code) -> u64 {
        // A decoder takes k slices from its helpers at most, and has one of its own and a result
        // for each lost chunk.
        let slices = code.data_chunks() + 1 + code.parity_chunks();
        slices as u64 * u64::from(SLICE_BYTES_MIN).max(code.alignment() as u64)
    }

    pub(crate) fn fail(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.note(|| format!("VIOLATION {violation}"));
            self.violation = Some(violation);
        }
    }
}
