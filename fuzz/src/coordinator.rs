//! Sessions of agents: whatever an agent says that can be decoded, the coordinator survives with
//! all of its invariants.
//!
//! Place: [failure detected] -> ... -> commit, at a coordinator any of whose agents may say
//! anything at any time. An input is a byte that chooses the policy and how the coordinator is
//! configured, and a sequence of steps: what kind, which node, and what belongs to it. Metadata are
//! honest, and answer what they are asked; nodes say nothing but what the input says, or what the
//! steps "as it should" and "answers" have them say. Operators may want anything that a command can
//! say.

use std::collections::VecDeque;
use std::sync::Arc;

use prost::Message;
use suture_code::Fingerprint;
use suture_drivers::control::convert;
use suture_drivers::control::listing::Listing;
use suture_drivers::control::{proto, throttle};
use suture_drivers::maintenance_window::ThrottleIntent;
use suture_repair::cluster::{Cluster, Node, Rate};
use suture_repair::coordinator::{Config, Coordinator, ScrubConfig};
use suture_repair::event::{Command, Commit, Input, Liveness, NodeState, Output};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, EdgeRef, Generation, ListedCopy, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{
    CopyFault, DiskState, Failure, FromAgent, Heartbeat, Hello, LinkReport, RepairLimit, Task,
    ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
use suture_repair::throttle::{Keep, ThrottleConfig};
use suture_repair::time::{Span, Time};

use crate::cursor::{Cursor, piece};
use crate::timers::TIMERS;

const NODES: u32 = 8;
const POLICIES: [&str; 4] =
    ["suture", "chain/greedy/all", "star/random/window:2", "mix/flow/waves"];
/// More steps take seconds.
const STEPS_MAX: usize = 64;
/// Tasks that nodes keep in mind.
const TASKS_MAX: usize = 16;
/// Questions that a node does.
const ASKED_MAX: usize = 64;

/// In the first byte, above the policy: passes begin by themselves, chunks move to emptier nodes,
/// one node is emptied and one may be silent, repairs are paused, the keeper decides who lives, and
/// stripes are not claimed.
const SCRUBS: u8 = 4;
const REBALANCES: u8 = 8;
const INTENTS: u8 = 16;
const PAUSED: u8 = 32;
const KEEPER: u8 = 64;
const UNCLAIMED: u8 = 128;

/// The kinds of steps.
const SAYS: u8 = 0;
const LEAVES: u8 = 1;
const TIME: u8 = 2;
const COMMAND: u8 = 3;
const AS_IT_SHOULD: u8 = 4;
const JOINS: u8 = 5;
const SUSPECTED: u8 = 6;
const ANSWERS: u8 = 7;
const WANTED: u8 = 8;
const KEPT: u8 = 9;
const KINDS: u8 = 10;

/// Inputs to begin with: everybody joins, somebody is declared failed or falls silent, repairs go
/// well or badly.
pub fn valid() -> Vec<Vec<u8>> {
    let join = all(JOINS);
    let honest = all(AS_IT_SHOULD);
    let with = |policy: u8, steps: &[&[u8]]| [&[policy][..], &join, &steps.concat()].concat();
    let fail = [COMMAND, 0];
    let repair = RepairId::new(1, 1);
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(1), stamp: Stamp(0) };
    let own = ChunkCopy { stamp: Stamp::from(repair), chunk: ChunkIndex(0), ..copy };
    let beat = Heartbeat {
        incarnation: 1,
        free_bytes: 1 << 30,
        disk: DiskState::Good,
        running: vec![(repair, 100)],
        arrived: vec![EdgeRef { repair, lane: 0, peer: NodeId(1) }],
        written: vec![repair],
        waits: vec![EdgeRef { repair, lane: 0, peer: NodeId(u32::MAX) }],
        links: None,
    };
    let mut inputs: Vec<Vec<u8>> = (0..4)
        .map(|policy| with(policy, &[&fail, &honest, &honest, &[TIME, 30], &honest]))
        .collect();
    let words = [
        FromAgent::Heartbeat(beat),
        FromAgent::Stored { repair, copy: own },
        FromAgent::Failed { repair, why: Failure::PeerLost(NodeId(2)) },
        FromAgent::Failed { repair, why: Failure::Disk("it burns".into()) },
        FromAgent::Bad { copy, fault: CopyFault::Corrupt },
        FromAgent::Inventory(vec![copy.into(), own.into()]),
        FromAgent::Fingerprint { repair, copy, sums: [1, 2, 3, 4].into() },
        FromAgent::Deleted(copy),
    ];
    inputs.extend(words.map(|word| {
        let says = |node: u8| says(node, word.clone());
        with(0, &[&fail, &honest, &says(1), &says(2), &[TIME, 9], &says(3), &honest])
    }));
    inputs.push(with(0, &[&[LEAVES, 1, TIME, 50], &honest, &[JOINS, 1], &honest]));
    inputs.push(with(2, &[&[SUSPECTED, 1, 1, COMMAND, 0x20], &honest, &[COMMAND, 0x30], &honest]));
    inputs.extend(configured().iter().map(|(first, steps)| with(*first, &[steps])));
    inputs
}

/// A step of each node.
fn all(kind: u8) -> Vec<u8> {
    (0..NODES as u8).flat_map(|node| [kind, node]).collect()
}

/// Some agent says something that is read.
fn says(node: u8, word: FromAgent) -> Vec<u8> {
    let bytes = convert::encode_from_agent(word).encode_to_vec();
    [&[SAYS, node][..], &piece(&bytes)].concat()
}

/// A limit that operators want.
fn limits(config: ThrottleConfig) -> Vec<u8> {
    let wanted = throttle::encode(&ThrottleIntent { config, window: None });
    [&[WANTED, 0x40][..], &piece(&wanted.encode_to_vec())].concat()
}

/// Configurations of a coordinator, with steps that need them: passes, moves, nodes that are
/// emptied or may be silent, limits of speed, racks, others who decide.
fn configured() -> Vec<(u8, Vec<u8>)> {
    let (honest, answers) = (all(AS_IT_SHOULD), all(ANSWERS));
    let links = LinkReport { span: Span::from_secs(1), ..LinkReport::default() };
    let beat = Heartbeat { links: Some(Box::new(links)), ..heartbeat(Vec::new()) };
    let tells = says(1, FromAgent::Heartbeat(beat));
    let with = |first: u8, steps: &[&[u8]]| (first, [&tells[..], &steps.concat()].concat());
    let cap = ThrottleConfig { node: Some(200_000), ..ThrottleConfig::default() };
    let racks = [("r1".to_owned(), 1), ("r2".to_owned(), 300_000)].into();
    let of_racks = ThrottleConfig {
        racks,
        total: Some(500_000),
        keep: Some(Keep::Percent(50)),
        ..ThrottleConfig::default()
    };
    let (cap, of_racks, off) = (limits(cap), limits(of_racks), limits(ThrottleConfig::default()));
    let in_racks: Vec<u8> = (0..NODES as u8).flat_map(|node| [WANTED, 0x60 | node, node]).collect();
    vec![
        with(SCRUBS, &[&[TIME, 60], &answers, &[TIME, 60], &answers, &[TIME, 1], &answers]),
        with(SCRUBS, &[&[COMMAND, 0x20, LEAVES, 5, TIME, 60], &answers, &[JOINS, 5], &answers]),
        with(REBALANCES, &[&honest, &[TIME, 30, TIME, 30], &honest, &answers, &[TIME, 30]]),
        with(REBALANCES | SCRUBS | UNCLAIMED, &[&honest, &[TIME, 9, TIME, 30], &honest, &answers]),
        with(INTENTS, &[&honest, &answers, &[COMMAND, 0x12, TIME, 99], &honest, &answers]),
        with(0, &[&[WANTED, 0x02], &honest, &[TIME, 9], &honest, &answers, &[COMMAND, 0x12]]),
        with(1, &[&[WANTED, 0x13, 50, LEAVES, 3, TIME, 40], &honest, &[TIME, 40], &honest]),
        with(0, &[&cap, &[COMMAND, 0], &honest, &[TIME, 11], &tells, &off, &[TIME, 11], &tells]),
        with(2, &[&[WANTED, 0x50, 50, COMMAND, 0, COMMAND, 4], &honest, &[TIME, 60], &honest]),
        with(3, &[&in_racks, &of_racks, &[COMMAND, 0, TIME, 11], &honest, &tells, &[TIME, 11]]),
        with(PAUSED, &[&[WANTED, 0x31, WANTED, 0x20, COMMAND, 0], &honest, &[COMMAND, 0x50]]),
        with(KEEPER, &[&[KEPT, 0x21, 1], &honest, &answers, &[KEPT, 0x21, 0, KEPT, 0x22, 2]]),
        with(0, &[&[KEPT, 0x12, KEPT, 9, KEPT, 0x01, COMMAND, 3], &honest, &answers, &[TIME, 9]]),
    ]
}

/// What a node says that does nothing but what it has written.
fn heartbeat(written: Vec<RepairId>) -> Heartbeat {
    Heartbeat {
        incarnation: 1,
        free_bytes: 1 << 30,
        disk: DiskState::Good,
        running: Vec::new(),
        arrived: Vec::new(),
        written,
        waits: Vec::new(),
        links: None,
    }
}

/// Gives whether any word of an agent reached the coordinator.
///
/// # Panics
/// When the coordinator breaks an invariant.
pub fn check(input: &[u8]) -> bool {
    let Some((&first, steps)) = input.split_first() else { return false };
    let mut world = World::new(first);
    let mut steps = Cursor(steps);
    let mut words = 0;
    for _ in 0..STEPS_MAX {
        let (Some(kind), Some(node)) = (steps.byte(), steps.byte()) else { break };
        words += usize::from(world.step(kind % KINDS, node, &mut steps));
    }
    words > 0
}

struct World {
    core: Coordinator,
    now: Time,
    /// As the metadata have them.
    stripes: Vec<Stripe>,
    reserved: StripeId,
    listings: Vec<Listing>,
    /// What was dispatched last, to everyone.
    tasks: VecDeque<Arc<Task>>,
    /// What each node was asked of copies.
    asked: Vec<Vec<ToAgent>>,
    /// No limit of a node may be above this.
    cap: Option<u64>,
    /// Whether somebody else decides which nodes live and are emptied.
    is_keeper: bool,
}

/// What the first byte of an input says.
fn config(first: u8) -> Config {
    let is = |flag: u8| first & flag != 0;
    let period = is(SCRUBS).then_some(Span::from_secs(5));
    // As in production: who decides which nodes live decides where chunks lie, and what goes.
    let is_own = !is(KEEPER);
    let is_intended = is(INTENTS) && is_own;
    Config {
        epoch: 1,
        timers: TIMERS,
        policy: POLICIES[usize::from(first) % POLICIES.len()].parse().expect("it is a policy"),
        seed: 1,
        paused: is(PAUSED),
        failed: Vec::new(),
        draining: is_intended.then_some(NodeId(2)).into_iter().collect(),
        paused_nodes: is_intended.then_some((NodeId(5), Span::from_secs(5))).into_iter().collect(),
        claims: !is(UNCLAIMED),
        liveness: if is_own { Liveness::Own } else { Liveness::Keeper },
        deletes: is_own,
        in_flight_max: 2,
        scrub: ScrubConfig { period, rate: period.map(|_| 1 << 20), ..ScrubConfig::OFF },
        rebalance_after: (is(REBALANCES) && is_own).then_some(Span::from_secs(2)),
        gather: Span::from_millis(if is(REBALANCES) { 50 } else { 0 }),
    }
}

impl World {
    fn new(first: u8) -> World {
        let config = config(first);
        let is_keeper = config.liveness == Liveness::Keeper;
        let stripes = vec![
            stripe(1, "rs(2,2)", [0, 1, 2, 3]),
            stripe(2, "rs(2,2)", [4, 5, 0, 7]),
            stripe(4, "clay(2,2,3)", [1, 3, 5, 0]),
        ];
        let cluster = Cluster::uniform(NODES as usize, Rate(1e6));
        let core = Coordinator::new(Time::ZERO, config, cluster, StripeMap::new(stripes.clone()));
        let listings = (0..NODES).map(|_| Listing::default()).collect();
        let (now, tasks, reserved) = (Time::ZERO, VecDeque::new(), StripeId(5));
        let (asked, cap) = (vec![Vec::new(); NODES as usize], None);
        World { core, now, stripes, reserved, listings, tasks, asked, cap, is_keeper }
    }

    /// One step; whether an agent's word reached the coordinator.
    fn step(&mut self, kind: u8, argument: u8, rest: &mut Cursor<'_>) -> bool {
        let node = NodeId(u32::from(argument) % NODES);
        match kind {
            SAYS => return self.says(node, rest.piece().unwrap_or_default()),
            LEAVES => self.give(Input::AgentLost(node)),
            TIME => {
                self.now = self.now + Span::from_millis(100 * u64::from(argument));
                self.give(Input::Tick);
            }
            COMMAND => self.command(argument),
            AS_IT_SHOULD => self.as_it_should(node),
            JOINS => self.joins(node),
            ANSWERS => self.answers(node),
            WANTED => self.wanted(argument, rest),
            KEPT => self.kept(argument, rest),
            // SUSPECTED.
            _ => {
                let stripe = &self.stripes[usize::from(argument >> 4) % self.stripes.len()];
                let chunk = ChunkIndex(rest.byte().unwrap_or_default());
                let stamp = Stamp(u64::from(argument & 8));
                let copy = ChunkCopy { stripe: stripe.id, chunk, stamp };
                self.give(Input::ChunkSuspected { node, copy });
            }
        }
        false
    }

    /// What a session does with a message.
    fn says(&mut self, node: NodeId, bytes: &[u8]) -> bool {
        let listing = &mut self.listings[node.index()];
        let message = proto::AgentMessage::decode(bytes).ok();
        let whole = message.map(|message| listing.whole(message));
        let word = match whole {
            Some(Ok(Some(message))) => convert::decode_from_agent(message).ok(),
            Some(Ok(None)) => return false,
            Some(Err(_)) | None => None,
        };
        match word {
            Some(message) => {
                self.give(Input::Agent { node, message });
                true
            }
            None => {
                self.listings[node.index()] = Listing::default();
                self.give(Input::AgentLost(node));
                false
            }
        }
    }

    fn command(&mut self, argument: u8) {
        let node = NodeId(u32::from(argument) % NODES);
        self.give(Input::Operator(match argument >> 4 {
            0 => Command::FailNode(node),
            1 => Command::ReturnNode(node),
            2 => Command::Scrub,
            3 => Command::Pause,
            4 => Command::Cancel,
            _ => Command::Resume,
        }));
    }

    fn joins(&mut self, node: NodeId) {
        self.listings[node.index()] = Listing::default();
        let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
        let hello =
            Hello { incarnation: 1, session: 1, abilities: Abilities::ALL, pool_bytes, free_bytes };
        self.give(Input::Agent { node, message: FromAgent::Hello(hello) });
        let held = self.stripes.iter().filter_map(|stripe| {
            let copy = stripe.copy(stripe.chunk_on(node)?)?.copy;
            Some(ListedCopy { copy, digest: stripe.record(copy.chunk).digest() })
        });
        let message = FromAgent::Inventory(held.collect());
        self.give(Input::Agent { node, message });
    }

    /// What operators want beside: of nodes, of stripes, and of what repairs may take.
    fn wanted(&mut self, argument: u8, rest: &mut Cursor<'_>) {
        let node = NodeId(u32::from(argument) % NODES);
        let command = match argument >> 4 {
            // Whoever decides who lives is not asked here.
            0 | 1 if self.is_keeper => Command::ReturnNode(node),
            0 => Command::DrainNode(node),
            1 => Command::PauseNode { node, span: span(rest.byte()) },
            2 => Command::FailSilent,
            3 => Command::RepairNow(self.stripes[self.stripe_index(argument)].id),
            4 => return self.limit(rest.piece().unwrap_or_default()),
            5 => {
                let closed = span(rest.byte());
                let until = (closed > Span::ZERO).then(|| self.now + closed);
                return self.give(Input::WindowClosed(until));
            }
            6 => return self.place(node, rest.byte().unwrap_or_default()),
            _ => Command::ReturnNode(node),
        };
        self.give(Input::Operator(command));
    }

    /// What repairs may take, as far as a coordinator takes it.
    fn limit(&mut self, bytes: &[u8]) {
        let Ok(wanted) = proto::Throttle::decode(bytes) else { return };
        let Ok(ThrottleIntent { config, .. }) = throttle::decode(wanted) else { return };
        if throttle::check_names(&config, &ThrottleConfig::default(), self.core.cluster()).is_err()
        {
            return;
        }
        // Single nodes may be given more than all.
        let caps = [config.node, config.total].into_iter().flatten();
        self.cap = caps.min().filter(|_| config.nodes.is_empty());
        self.give(Input::Throttle(Box::new(config)));
    }

    /// The node says another rack, or none, and other rates.
    fn place(&mut self, node: NodeId, byte: u8) {
        let (rack, times) = (byte % 4, 1 + byte / 4);
        let rack = (rack > 0).then(|| format!("r{rack}"));
        let told = Node::new(format!("n{}", node.0), Rate(1e6 * f64::from(times)));
        self.give(Input::NodeAdded { id: node, node: told, rack });
    }

    /// The metadata have one stripe more or less, or the keeper has news of a node.
    fn kept(&mut self, argument: u8, rest: &mut Cursor<'_>) {
        match argument >> 4 {
            0 => {
                let (id, first) = (self.reserved, u32::from(argument & 7));
                let code = if argument & 8 == 0 { "rs(2,2)" } else { "clay(2,2,3)" };
                let added = stripe(id.0, code, [0, 1, 2, 3].map(|index| (first + index) % NODES));
                self.stripes.push(added.clone());
                self.reserved = StripeId(id.0 + 1);
                let (below, writing) = (self.reserved, Vec::new());
                self.give(Input::StripesReserved { below, writing });
                self.give(Input::StripeAdded(added));
            }
            1 if self.stripes.len() > 1 => {
                let index = self.stripe_index(argument);
                let removed = self.stripes.remove(index);
                self.give(Input::StripeRemoved(removed.id));
            }
            2 => {
                let node = NodeId(u32::from(argument) % NODES);
                let states = [NodeState::Up, NodeState::Dead, NodeState::Decommissioning];
                let state = states[usize::from(rest.byte().unwrap_or_default()) % states.len()];
                self.give(Input::NodeState { node, state });
            }
            _ => {}
        }
    }

    fn stripe_index(&self, argument: u8) -> usize {
        usize::from(argument & 15) % self.stripes.len()
    }

    /// The node answers what it was asked of copies, and says what it has written.
    fn answers(&mut self, node: NodeId) {
        for message in std::mem::take(&mut self.asked[node.index()]) {
            let message = match message {
                ToAgent::Check(check) => FromAgent::Verified(check),
                ToAgent::Delete { copy, .. } => FromAgent::Deleted(copy),
                ToAgent::Fingerprint(request) => {
                    // Of zeros, which fit each other.
                    let sums = Fingerprint::new(request.seed, request.layout).bytes().into();
                    FromAgent::Fingerprint { repair: request.repair, copy: request.copy, sums }
                }
                _ => continue,
            };
            self.give(Input::Agent { node, message });
        }
        let is_here = |task: &&Arc<Task>| task.plan.destinations.values().any(|to| *to == node);
        let written = self.tasks.iter().filter(is_here).map(|task| task.repair).collect();
        let message = FromAgent::Heartbeat(heartbeat(written));
        self.give(Input::Agent { node, message });
    }

    /// The node says that the part of it in the newest task is done.
    fn as_it_should(&mut self, node: NodeId) {
        let message = FromAgent::Heartbeat(heartbeat(Vec::new()));
        self.give(Input::Agent { node, message });
        let tasks: Vec<_> = self.tasks.iter().cloned().collect();
        for task in tasks {
            let mut mine = task.plan.destinations.iter().filter(|(_, to)| **to == node);
            let Some((&chunk, _)) = mine.next() else { continue };
            let (repair, stripe) = (task.repair, task.stripe.id);
            let copy = ChunkCopy { stripe, chunk, stamp: Stamp::from(repair) };
            self.give(Input::Agent { node, message: FromAgent::Stored { repair, copy } });
        }
    }

    /// One event, and all that follows from it.
    fn give(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.core.handle(self.now, input);
            self.core.assert_all_invariants();
            while let Some(output) = self.core.poll() {
                self.perform(output, &mut inputs);
            }
        }
        let _ = self.core.status();
    }

    fn perform(&mut self, output: Output, inputs: &mut VecDeque<Input>) {
        match output {
            Output::Claim(claim) => {
                let label = Label::new(b"a label").expect("it is short");
                inputs.push_back(Input::Claimed { repair: claim.repair, label });
            }
            Output::Commit(commit) => inputs.push_back(self.commit(&commit)),
            Output::Protect(below) => {
                if below > self.reserved {
                    inputs.push_back(Input::StripesUnknown { from: self.reserved, below });
                    self.reserved = below;
                }
                let (below, writing) = (self.reserved, Vec::new());
                inputs.push_back(Input::StripesReserved { below, writing });
            }
            Output::Send { to, message } => {
                assert!(to.0 < NODES, "{to}");
                let _ = convert::encode_to_agent(message.clone());
                self.asked_of(to, &message);
                if let ToAgent::Dispatch(task) = message
                    && self.tasks.back().is_none_or(|last| last.repair != task.repair)
                {
                    self.tasks.push_back(task);
                    if self.tasks.len() > TASKS_MAX {
                        self.tasks.pop_front();
                    }
                }
            }
            Output::ReleaseClaim(_)
            | Output::Scrub(_)
            | Output::Faulty { .. }
            | Output::Report(_) => (),
        }
    }

    /// What the node is to answer is kept in mind; no limit of it is above the cap.
    fn asked_of(&mut self, node: NodeId, message: &ToAgent) {
        match message {
            ToAgent::Check(_) | ToAgent::Delete { .. } | ToAgent::Fingerprint(_) => {
                let asked = &mut self.asked[node.index()];
                if asked.len() < ASKED_MAX {
                    asked.push(message.clone());
                }
            }
            ToAgent::Limit(RepairLimit { up, down }) => {
                let Some(cap) = self.cap else { return };
                let is_within = |limit: &Option<u64>| limit.is_some_and(|limit| limit <= cap);
                assert!(is_within(up) && is_within(down), "{node}: {message:?} above {cap}");
            }
            _ => {}
        }
    }

    /// A compare-and-set, as the metadata do it.
    fn commit(&mut self, commit: &Commit) -> Input {
        let repair = commit.repair;
        let mut stripes = self.stripes.iter_mut();
        let Some(stripe) = stripes.find(|stripe| stripe.id == commit.copy.stripe) else {
            return Input::CommitRefused { repair, stripe: None };
        };
        if stripe.generation != commit.generation {
            return Input::CommitRefused { repair, stripe: Some(stripe.clone()) };
        }
        let other = stripe.chunk_on(commit.node).filter(|chunk| *chunk != commit.copy.chunk);
        assert_eq!(other, commit.clears, "{commit:?}");
        if let Some(chunk) = other {
            stripe.chunks[usize::from(chunk.0)].node = None;
        }
        stripe.generation = Generation(stripe.generation.0 + 1);
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        Input::Committed { repair, stripe: stripe.clone() }
    }
}

/// How long a step says.
fn span(tenths: Option<u8>) -> Span {
    Span::from_millis(100 * u64::from(tenths.unwrap_or_default()))
}

fn stripe(id: u64, code: &str, nodes: [u32; 4]) -> Stripe {
    let code: suture_code::Code = code.parse().expect("it is a code");
    let chunk_bytes = 4096u64.next_multiple_of(code.alignment() as u64);
    // One of a stripe's chunks has no recorded checksum.
    let record = |(index, node): (u32, u32)| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(0),
        bytes: chunk_bytes,
        crc: (index != 2).then_some(7),
    };
    Stripe {
        id: StripeId(id),
        code,
        chunk_bytes,
        unit_bytes: chunk_bytes,
        generation: Generation(1),
        chunks: (0..).zip(nodes).map(record).collect(),
    }
}
