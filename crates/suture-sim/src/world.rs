//! The simulated cluster: the production state machines, real bytes, and a network that misbehaves.
//!
//! Place: it drives the whole life of a repair and decides nothing in it.
//! One heap of events ordered by (time, sequence); every random choice comes from the seed, so a
//! run can be repeated bit for bit. Agents' effects are performed on real bytes in memory.
//! Faults enter through `injection.rs`; `check.rs` looks on and remembers the first broken rule.
//!
//! What it promises like the real transport: what a process sent never comes once another one of
//! its name has begun. Everything else may be lost, doubled, late or out of order, words of former
//! sessions of the same two processes among them, which the real transport never brings.

mod asked;
mod host;
mod machines;
mod once;
mod recovery;
mod sleep;
mod stalls;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use suture_code::Code;
use suture_repair::agent::{self, Agent};
use suture_repair::chunk_store::ChunkStore;
use suture_repair::coordinator::Coordinator;
use suture_repair::event::{self, Claim, Commit, KnownFault, Liveness, Timers};
use suture_repair::grants::GrantTable;
use suture_repair::id::{ChunkCopy, CopyAt, NodeId, RepairId, StripeId};
use suture_repair::message::{FromAgent, ToAgent};
#[cfg(feature = "mutants")]
use suture_repair::mutant::Mutant;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::slice::SliceId;
use suture_repair::stripe::Stripe;
use suture_repair::throttle::ThrottleConfig;
use suture_repair::time::{Span, Time};

use crate::disk::{Disk, Safeguards};
use crate::fault::{Coverage, Fault, Kind, NetworkFaults};
use crate::metadata::Metadata;
use crate::party::Party;
use crate::rack::Racks;
use crate::record::Records;
use crate::violation::Violation;
use asked::Asked;
pub(crate) use host::Host;
pub(crate) use recovery::{ClusterBackup, Pause};
pub use recovery::{Impostor, Recovery};
use sleep::Asleep;
use stalls::Stalls;

/// What a world is made from.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of every random choice.
    pub seed: u64,
    /// Number of nodes, with one agent each.
    pub nodes: usize,
    /// The code of every stripe.
    pub code: Code,
    /// The policy of the coordinator.
    pub policy: Policy,
    /// Slice memory of each agent.
    pub pool_bytes: u64,
    /// Capacity of each disk.
    pub disk_bytes: u64,
    /// Whether faults may destroy more than can be repaired.
    pub losses: bool,
    /// Whether the coordinator claims stripes.
    pub claims: bool,
    /// How many racks the nodes are in; 0 where none is named.
    pub racks: u64,
    /// Whether no checksums of chunks are recorded, so that rebuilt ones are proven by
    /// fingerprints.
    pub unrecorded: bool,
    /// Whether stripes are odd: with short chunks, known zeros and units.
    pub odd: bool,
    /// What decides which nodes are dead.
    pub liveness: Liveness,
    /// Whether unread copies are searched for damage now and then.
    pub scrubs: bool,
    /// Whether chunks move to nodes that hold little.
    pub rebalances: bool,
    /// Which safeguards are in place.
    pub safeguards: Safeguards,
}

/// `start` is that of the coordinator that sends it or is to receive it.
pub(crate) enum Event {
    ToAgent {
        to: NodeId,
        start: u32,
        message: ToAgent,
    },
    ToCoordinator {
        from: NodeId,
        incarnation: u64,
        start: u32,
        message: FromAgent,
    },
    Grant {
        from: NodeId,
        to: NodeId,
        repair: RepairId,
        lane: u16,
        /// The first that is wanted at all, and one past the last that is granted.
        slices: (u32, u32),
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
        input: agent::AgentInput,
        read: Read,
    },
    Ask {
        start: u32,
        question: Question,
    },
    Answer {
        start: u32,
        input: event::Input,
    },
    AgentTick(NodeId),
    CoordinatorTick,
    Connect(NodeId),
    Lost {
        node: NodeId,
        start: u32,
    },
    Fault(Fault),
    Recovery(Recovery),
}

/// What the coordinator asks of the metadata.
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

/// The simulated cluster: machines, disks, network and clock.
pub struct World {
    /// What it was made from.
    pub options: Options,
    /// Simulated time since the start.
    pub now: Time,
    /// The metadata, and every original byte.
    pub metadata: Metadata,
    /// How often each kind of fault happened.
    pub coverage: Coverage,
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// A line for each thing that happened, when asked for.
    pub log: Option<Vec<String>>,
    /// The transcript of every machine, when asked for.
    pub records: Option<Records>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) coordinator: Option<Coordinator>,
    /// `None` while the coordinator is awake.
    pub(crate) asleep: Option<Asleep>,
    pub(crate) random: Random,
    pub(crate) network_faults: NetworkFaults,
    pub(crate) partitions: BTreeSet<(Party, Party)>,
    pub(crate) writing: BTreeSet<StripeId>,
    /// Stripes whose chunks are being written.
    pub(crate) unfinished: BTreeMap<StripeId, Stripe>,
    /// Chunks that were rebuilt, by where, and the version of the stripe that they are of.
    pub(crate) published: BTreeMap<CopyAt, u64>,
    /// Likewise, copies that a burst has left over.
    pub(crate) left_over: BTreeMap<CopyAt, u64>,
    /// What nodes are to check and delete.
    pub(crate) asked: Asked,
    pub(crate) paused: bool,
    pub(crate) declared: BTreeSet<NodeId>,
    /// What runs, and what faults have disturbed.
    pub(crate) stalls: Stalls,
    /// Nodes that the operator empties.
    pub(crate) draining: BTreeSet<NodeId>,
    /// Repairs that take the place of others just now.
    pub(crate) replacing: BTreeSet<RepairId>,
    /// Nodes that the operator lets be silent, and until when.
    pub(crate) paused_nodes: BTreeMap<NodeId, Pause>,
    /// How many coordinators have been started.
    pub(crate) starts: u32,
    /// The first of them that asks the metadata of now: what others have asked was lost with
    /// theirs.
    pub(crate) asked_since: u32,
    /// The last backup of the metadata.
    pub(crate) backup: Option<ClusterBackup>,
    /// The metadata that are lost and will be found.
    pub(crate) set_aside: Option<ClusterBackup>,
    pub(crate) racks: Racks,
    /// What the operator lets repair take, as the coordinator has received it.
    pub(crate) throttle: ThrottleConfig,
    /// When the last pass over all stripes began, by the clock of the day, and where it has come if
    /// it has not ended.
    pub(crate) pass: (Option<Time>, Option<StripeId>),
    /// What passes found that no repair can mend.
    pub(crate) inconsistent: BTreeSet<StripeId>,
    /// What the keeper has recorded of copies that are of no use.
    pub(crate) faulty: BTreeMap<CopyAt, KnownFault>,
    /// The mistake that all machines make.
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
    dispatched: BTreeSet<StripeId>,
    last_store: u64,
    /// By how much the coordinator's clock is ahead of the simulated time.
    pub(crate) ahead: Span,
    /// By how much the clock of the day is.
    pub(crate) day: Span,
    armed: Option<Time>,
    heap: BinaryHeap<Reverse<Timed>>,
    sequence: u64,
}

/// So few that the limit is met in clusters of a dozen chunks.
pub(crate) const IN_FLIGHT_MAX: usize = 2;

/// Chunks may move to emptier nodes after so long without change.
pub(crate) const REBALANCE_AFTER: Span = Span::from_millis(500);

/// A pass every now and then, and so slow that some take longer.
pub(crate) const SCRUB_PERIOD: Span = Span::from_millis(1500);
pub(crate) const SCRUB_RATE: u64 = 400_000;

/// The clock of the day at the start: it can be set back.
const FIRST_DAY: Span = Span::from_secs(1_000_000);

/// Timers short enough that a run of seconds sees all of them fire.
pub(crate) const TIMERS: Timers = Timers {
    suspect_after: Span::from_millis(350),
    dead_after: Span::from_millis(900),
    start_grace: Span::from_millis(1200),
    stall_after: Span::from_millis(2000),
    commit_retry: Span::from_millis(400),
    claim_prolong: Span::from_millis(250),
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
            disk: Disk::new(options.disk_bytes, options.safeguards),
            has_bad_memory: false,
            hangs_until: None,
            link_back: None,
            has_vanished: false,
            writers: BTreeMap::new(),
            spools: BTreeMap::new(),
            gone: false,
            store: 0,
            is_new: true,
            followed: 0,
            disk_of_node: None,
            grants: GrantTable::default(),
            buffers: BTreeMap::new(),
            ahead: Span::ZERO,
            armed: None,
        };
        let mut world = World {
            now: Time::ZERO,
            metadata: Metadata::new(options.safeguards, options.odd, !options.unrecorded),
            coverage: Coverage::default(),
            violation: None,
            log: None,
            records,
            hosts: (0..options.nodes).map(host).collect(),
            coordinator: None,
            asleep: None,
            random: Random::new(options.seed),
            network_faults: NetworkFaults::NONE,
            partitions: BTreeSet::new(),
            writing: BTreeSet::new(),
            unfinished: BTreeMap::new(),
            published: BTreeMap::new(),
            left_over: BTreeMap::new(),
            asked: Asked::default(),
            stalls: Stalls::default(),
            paused: false,
            declared: BTreeSet::new(),
            draining: BTreeSet::new(),
            replacing: BTreeSet::new(),
            paused_nodes: BTreeMap::new(),
            starts: 0,
            asked_since: 0,
            backup: None,
            set_aside: None,
            last_store: 0,
            ahead: Span::ZERO,
            day: FIRST_DAY,
            racks: Racks::new(options.seed, options.nodes, options.racks),
            throttle: ThrottleConfig::default(),
            pass: (None, None),
            inconsistent: BTreeSet::new(),
            faulty: BTreeMap::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
            dispatched: BTreeSet::new(),
            armed: None,
            heap: BinaryHeap::new(),
            sequence: 0,
            options,
        };
        (0..world.hosts.len()).for_each(|i| world.hosts[i].store = world.new_store());
        (0..world.hosts.len()).for_each(|i| world.start_agent(NodeId(i as u32)));
        world
    }

    /// The ids of all nodes, gone ones too.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.hosts.len() as u32).map(NodeId)
    }

    /// The coordinator, unless it is down.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.coordinator.as_ref()
    }

    /// Gives an agent a message as if a coordinator had sent it: for tests of agents alone.
    pub fn notify(&mut self, node: NodeId, message: ToAgent) {
        self.agent_input(node, agent::AgentInput::Message(Box::new(message)));
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
        if let Some(log) = &mut self.log {
            log.push(format!("{} {}", self.now, line()));
        }
    }

    fn perform(&mut self, event: Event) {
        if let Some(back) = self.held_until(&event) {
            return self.later(back.since(self.now), event);
        }
        match event {
            Event::ToAgent { to, start, message } => {
                let current = self.coordinator.is_some() && self.starts == start;
                if current && self.can_receive(Party::Coordinator, Party::Agent(to)) {
                    self.agent_input(to, agent::AgentInput::Message(Box::new(message)));
                }
            }
            Event::ToCoordinator { from, incarnation, start, message } => {
                let current = self.starts == start && self.host(from).incarnation == incarnation;
                if current && self.can_receive(Party::Agent(from), Party::Coordinator) {
                    self.coordinator_input(event::Input::Agent { node: from, message });
                }
            }
            Event::Grant { from, to, repair, lane, slices: (first, below) } => {
                if self.can_receive(Party::Agent(from), Party::Agent(to)) {
                    let granted = agent::AgentInput::Granted { from, repair, lane, first, below };
                    self.agent_input(to, granted);
                }
            }
            Event::Slice { from, to, id, bytes } => {
                if self.can_receive(Party::Agent(from), Party::Agent(to)) {
                    self.slice(from, to, id, bytes);
                }
            }
            Event::Done { node, incarnation, input, read } => {
                self.done(node, incarnation, input, read);
            }
            Event::Ask { start, question } => self.ask(start, question),
            Event::Answer { start, input } => {
                if self.starts == start {
                    self.coordinator_input(input);
                }
            }
            Event::AgentTick(node) => {
                self.hosts[node.index()].armed = None;
                self.measure(node);
                self.agent_input(node, agent::AgentInput::Tick);
            }
            Event::CoordinatorTick => {
                self.armed = None;
                self.coordinator_input(event::Input::Tick);
            }
            Event::Connect(node) => self.connect(node),
            Event::Lost { node, start } => {
                if self.starts == start {
                    self.coordinator_input(event::Input::AgentLost(node));
                }
            }
            Event::Fault(fault) => self.inject(fault),
            Event::Recovery(recovery) => self.recover(recovery),
        }
    }

    /// The id of a store that was not there before.
    pub(crate) fn new_store(&mut self) -> u64 {
        self.last_store += 1;
        self.last_store
    }

    pub(crate) fn host(&self, node: NodeId) -> &Host {
        &self.hosts[node.index()]
    }

    pub(crate) fn can_receive(&self, from: Party, to: Party) -> bool {
        let alive = match to {
            Party::Coordinator => self.coordinator.is_some(),
            Party::Agent(node) => self.host(node).agent.is_some(),
        };
        alive && !self.partitions.contains(&(from.min(to), from.max(to)))
    }

    /// Puts a message on the network, with whatever happens to it there.
    pub(crate) fn transmit(&mut self, event: impl Fn() -> Event) {
        let network_faults = self.network_faults;
        if self.random.per_mille(network_faults.drop) {
            self.coverage.count(Kind::Drop);
            return;
        }
        let twice = self.random.per_mille(network_faults.duplicate);
        if twice {
            self.coverage.count(Kind::Duplicate);
        }
        for _ in 0..=usize::from(twice) {
            let mut after = Span { ns: self.random.between(50_000, 400_000) };
            if network_faults != NetworkFaults::NONE && self.random.per_mille(200) {
                self.coverage.count(Kind::Reorder);
                after.ns += self.random.below(5_000_000);
            }
            if self.random.per_mille(network_faults.delay) {
                self.coverage.count(Kind::Delay);
                after.ns += self.random.below(network_faults.delay_max.ns);
            }
            self.later(after, event());
        }
    }

    /// Adds what disks have counted to the coverage.
    pub(crate) fn count_failed_calls(&mut self) {
        let failed = self.hosts.iter().map(|host| host.disk.coverage());
        failed.for_each(|failed| self.coverage.add(&failed));
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
    pub fn status(&self, node: NodeId) -> agent::AgentStatus {
        self.host(node).agent.as_ref().map(Agent::status).unwrap_or_default()
    }

    /// Slices in memory, spools, and unpublished chunks at a node.
    pub fn unfinished_count(&self, node: NodeId) -> usize {
        let host = self.host(node);
        host.buffers.len() + host.spools.len() + host.disk.unfinished_count()
    }

    pub(crate) fn fail(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.note(|| format!("VIOLATION {violation}"));
            self.violation = Some(violation);
        }
    }
}
