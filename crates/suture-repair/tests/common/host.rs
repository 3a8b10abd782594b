//! An agent alone, with children, parents and disk in memory, and tasks for it.
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use suture_repair::agent::{Agent, AgentConfig, AgentInput, AgentOutput};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{Failure, FromAgent, Heartbeat, Task, ToAgent};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use suture_repair::planner::Abilities;
use suture_repair::slice::SliceId;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

pub const SLICE: u32 = 4096;
pub const SLICES: u32 = 10;
pub const CHUNK: u64 = SLICES as u64 * SLICE as u64;
pub const WINDOW: u32 = 4;
pub const OLD: RepairId = RepairId((1 << 32) | 1);
pub const NEW: RepairId = RepairId((1 << 32) | 2);
pub const HELPERS: [NodeId; 2] = [NodeId(1), NodeId(2)];
pub const ME: NodeId = NodeId(3);
pub const OTHER: NodeId = NodeId(4);
pub const STALL: Span = Span::from_secs(60);

/// An agent and the time, which passes only when a test lets it.
pub struct Host {
    pub agent: Agent,
    pub now: Time,
}

impl Host {
    /// With so much memory for slices, in a session of epoch 1.
    pub fn new(pool_bytes: u64) -> Host {
        let agent = Agent::new(AgentConfig {
            me: ME,
            incarnation: 1,
            abilities: Abilities::ALL,
            pool_bytes,
            heartbeat_every: Span::from_secs(1),
            stall_after: STALL,
            inventory_every: Span::from_secs(3600),
        });
        let mut host = Host { agent, now: Time::ZERO };
        host.handle(AgentInput::Connected { epoch: 1 });
        host
    }

    pub fn handle(&mut self, input: AgentInput) -> Vec<AgentOutput> {
        self.agent.handle(self.now, input);
        self.agent.assert_all_invariants();
        std::iter::from_fn(|| self.agent.poll()).collect()
    }

    pub fn tell(&mut self, message: ToAgent) -> Vec<AgentOutput> {
        self.handle(AgentInput::Message(Box::new(message)))
    }

    pub fn dispatch(&mut self, task: Task) -> Vec<AgentOutput> {
        self.tell(ToAgent::Dispatch(Arc::new(task)))
    }

    /// Lets time pass, a second at a time.
    pub fn pass(&mut self, span: Span) -> Vec<AgentOutput> {
        let (until, mut outputs) = (self.now + span, Vec::new());
        while self.now < until {
            self.now = (self.now + Span::from_secs(1)).min(until);
            outputs.extend(self.handle(AgentInput::Tick));
        }
        outputs
    }

    /// Lets time pass without a coordinator, second by second; the outputs are those of the session
    /// that follows, too.
    pub fn pass_alone(&mut self, span: Span) -> Vec<AgentOutput> {
        let mut outputs = self.handle(AgentInput::Disconnected);
        outputs.extend(self.pass(span));
        outputs.extend(self.handle(AgentInput::Connected { epoch: 1 }));
        outputs
    }

    /// Begins a task at this node, its destination.
    pub fn begin(&mut self, task: Task) -> Vec<AgentOutput> {
        let repair = task.repair;
        let mut outputs = self.dispatch(task);
        outputs.extend(self.handle(AgentInput::Prepared { repair, result: Ok(()) }));
        outputs
    }

    /// Slices below this arrive as they are granted, and the disk does what it is asked; gives all
    /// outputs of the way.
    pub fn flow(&mut self, mut outputs: Vec<AgentOutput>, slices: u32) -> Vec<AgentOutput> {
        let mut at = 0;
        while at < outputs.len() {
            let inputs: Vec<AgentInput> = match outputs[at].clone() {
                AgentOutput::Grant { to, repair, lane, first, below } => {
                    let id = |slice| SliceId { repair, lane, slice };
                    let arrived = |slice| AgentInput::SliceArrived { from: to, id: id(slice) };
                    (first..below.min(slices)).map(arrived).collect()
                }
                AgentOutput::Spill { id, from, .. } => vec![AgentInput::SliceSpilled { from, id }],
                AgentOutput::Read { id, .. } => vec![AgentInput::SliceRead { id, result: Ok(()) }],
                AgentOutput::Deliver { id, .. } => vec![AgentInput::SliceLeft(id)],
                _ => Vec::new(),
            };
            for input in inputs {
                // A grant names what an earlier one has brought, too.
                let is_wanted = match &input {
                    AgentInput::SliceArrived { from, id } => self.agent.wants(*from, *id),
                    _ => true,
                };
                if is_wanted {
                    outputs.extend(self.handle(input));
                }
            }
            at += 1;
        }
        outputs
    }
}

/// Two helpers send these bytes of their chunks to this node.
pub fn star(repair: RepairId, from: u64, to: u64) -> Task {
    let range = Range { from, to };
    let edge = |child| Edge { child, parent: ME, bytes: to - from, carries: Carries::Partial };
    let record = |node: u32| ChunkRecord {
        node: (node > 0).then_some(NodeId(node)),
        stamp: Stamp(0),
        bytes: CHUNK,
        crc: Some(0),
    };
    let lost = vec![ChunkIndex(0)];
    let lane = Lane {
        range,
        lost: lost.clone(),
        mode: Mode::Streamed,
        decoder: None,
        scheme: None,
        edges: HELPERS.map(edge).to_vec(),
    };
    Task {
        repair,
        stripe: Stripe {
            id: StripeId(1),
            code: "rs(2,1)".parse().expect("a code"),
            chunk_bytes: CHUNK,
            unit_bytes: CHUNK,
            generation: Generation(0),
            chunks: (0..3).map(record).collect(),
        },
        plan: Plan {
            stripe: StripeId(1),
            lost,
            destinations: BTreeMap::from([(ChunkIndex(0), ME)]),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![lane],
        },
        slice_bytes: SLICE,
        window: WINDOW,
        gated: false,
        continues: None,
        skips: false,
        label: Label::default(),
    }
}

/// The same bytes, but helper 1 sends by way of this node, and another one keeps the chunk.
pub fn relayed(mut task: Task) -> Task {
    let Range { from, to } = task.plan.range;
    let edge =
        |(child, parent)| Edge { child, parent, bytes: to - from, carries: Carries::Partial };
    let edges = [(HELPERS[0], ME), (HELPERS[1], OTHER), (ME, OTHER)];
    task.plan.lanes[0].edges = edges.map(edge).to_vec();
    task.plan.destinations = BTreeMap::from([(ChunkIndex(0), OTHER)]);
    task
}

/// What is sent to the coordinator.
pub fn sent(outputs: &[AgentOutput]) -> impl Iterator<Item = &FromAgent> {
    outputs.iter().filter_map(|output| match output {
        AgentOutput::Send(message) => Some(&**message),
        _ => None,
    })
}

pub fn beats(outputs: &[AgentOutput]) -> Vec<&Heartbeat> {
    let beats = sent(outputs).filter_map(|message| match message {
        FromAgent::Heartbeat(beat) => Some(beat),
        _ => None,
    });
    beats.collect()
}

pub fn failures(outputs: &[AgentOutput]) -> Vec<(RepairId, Failure)> {
    let failures = sent(outputs).filter_map(|message| match message {
        FromAgent::Failed { repair, why } => Some((*repair, why.clone())),
        _ => None,
    });
    failures.collect()
}
