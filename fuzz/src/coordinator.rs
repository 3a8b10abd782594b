//! Sessions of agents: whatever an agent says that can be decoded, the coordinator survives with
//! all of its invariants.
//!
//! Place: [failure noticed] -> ... -> commit, at a coordinator any of whose agents may say anything
//! at any time. An input is a byte that chooses the policy, and a sequence of steps: what kind,
//! which node, and what belongs to it. Metadata are honest, and answer what they are asked; nodes
//! say nothing but what the input says, or what the step "as it should" has them say.

use std::collections::VecDeque;
use std::sync::Arc;

use prost::Message;
use suture_drivers::control::convert;
use suture_drivers::control::listing::Listing;
use suture_drivers::control::proto;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::coordinator::{Config, Coordinator, ScrubConfig};
use suture_repair::event::{Command, Commit, Input, Liveness, Output};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Generation, ListedCopy, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{
    CopyFault, DiskState, Failure, FromAgent, Heartbeat, Hello, Task, ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
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

/// The kinds of steps.
const SAYS: u8 = 0;
const LEAVES: u8 = 1;
const TIME: u8 = 2;
const COMMAND: u8 = 3;
const AS_IT_SHOULD: u8 = 4;
const JOINS: u8 = 5;
const SUSPECTED: u8 = 6;
const KINDS: u8 = 7;

/// Inputs to begin with: everybody joins, somebody is declared failed or falls silent, repairs go
/// well or badly.
pub fn valid() -> Vec<Vec<u8>> {
    let join: Vec<u8> = (0..NODES as u8).flat_map(|node| [JOINS, node]).collect();
    let honest: Vec<u8> = (0..NODES as u8).flat_map(|node| [AS_IT_SHOULD, node]).collect();
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
        arrived: vec![(repair, 0, NodeId(1))],
        written: vec![repair],
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
        let bytes = convert::encode_from_agent(word).encode_to_vec();
        let says = |node: u8| [&[SAYS, node][..], &piece(&bytes)].concat();
        with(0, &[&fail, &honest, &says(1), &says(2), &[TIME, 9], &says(3), &honest])
    }));
    inputs.push(with(0, &[&[LEAVES, 1, TIME, 50], &honest, &[JOINS, 1], &honest]));
    inputs.push(with(2, &[&[SUSPECTED, 1, 1, COMMAND, 0x20], &honest, &[COMMAND, 0x30], &honest]));
    inputs
}

/// Gives whether any word of an agent reached the coordinator.
///
/// # Panics
/// When the coordinator breaks an invariant.
pub fn check(input: &[u8]) -> bool {
    let Some((&policy, steps)) = input.split_first() else { return false };
    let mut world = World::new(POLICIES[usize::from(policy) % POLICIES.len()]);
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
}

impl World {
    fn new(policy: &str) -> World {
        let config = Config {
            epoch: 1,
            timers: TIMERS,
            policy: policy.parse().expect("it is a policy"),
            seed: 1,
            paused: false,
            failed: Vec::new(),
            draining: Vec::new(),
            resting: Vec::new(),
            claims: true,
            liveness: Liveness::Own,
            deletes: true,
            in_flight_max: 2,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
        };
        let stripes = vec![
            stripe(1, "rs(2,2)", [0, 1, 2, 3]),
            stripe(2, "rs(2,2)", [4, 5, 0, 7]),
            stripe(4, "clay(2,2,3)", [1, 3, 5, 0]),
        ];
        let cluster = Cluster::uniform(NODES as usize, Rate(1e6));
        let core = Coordinator::new(Time::ZERO, config, cluster, StripeMap::new(stripes.clone()));
        let listings = (0..NODES).map(|_| Listing::default()).collect();
        let (now, tasks, reserved) = (Time::ZERO, VecDeque::new(), StripeId(5));
        World { core, now, stripes, reserved, listings, tasks }
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
            let (_, copy) = stripe.copy(stripe.chunk_on(node)?)?;
            Some(ListedCopy { copy, digest: stripe.record(copy.chunk).digest() })
        });
        let message = FromAgent::Inventory(held.collect());
        self.give(Input::Agent { node, message });
    }

    /// The node says that the part of it in the newest task is done.
    fn as_it_should(&mut self, node: NodeId) {
        let beat = Heartbeat {
            incarnation: 1,
            free_bytes: 1 << 30,
            disk: DiskState::Good,
            running: Vec::new(),
            arrived: Vec::new(),
            written: Vec::new(),
            links: None,
        };
        self.give(Input::Agent { node, message: FromAgent::Heartbeat(beat) });
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
                if let ToAgent::Dispatch(task) = message
                    && self.tasks.back().is_none_or(|last| last.repair != task.repair)
                {
                    self.tasks.push_back(task);
                    if self.tasks.len() > TASKS_MAX {
                        self.tasks.pop_front();
                    }
                }
            }
            Output::Release(_) | Output::Scrub(_) | Output::Faulty { .. } | Output::Report(_) => (),
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
        assert!(stripe.chunk_on(commit.node).is_none_or(|chunk| chunk == commit.copy.chunk));
        stripe.generation = Generation(stripe.generation.0 + 1);
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        Input::Committed { repair, stripe: stripe.clone() }
    }
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
