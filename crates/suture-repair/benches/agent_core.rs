//! What one event of a slice costs the agent core: at most a microsecond is the budget.
//!
//! A relay with its own chunk and one child passes 4096 slices on. Each costs four events: it
//! arrives, the own one is read, it has left, and a share of a grant. Effects are taken and thrown
//! away, as a driver would hand them on.

use std::collections::BTreeMap;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use suture_repair::agent::{Agent, AgentConfig, AgentInput, AgentOutput};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{Task, ToAgent};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

const SLICES: u32 = 4096;
const SLICE_BYTES: u32 = 256 * 1024;
const WINDOW: u32 = 16;
const REPAIR: RepairId = RepairId((1 << 32) | 1);
const CHILD: NodeId = NodeId(1);
const RELAY: NodeId = NodeId(2);
const PARENT: NodeId = NodeId(3);

/// The relay, its task begun.
fn relay() -> Agent {
    let mut agent = Agent::new(AgentConfig {
        me: RELAY,
        incarnation: 1,
        abilities: Abilities::PARTIAL,
        pool_bytes: 1 << 30,
        heartbeat_every: Span::from_secs(1),
        stall_after: Span::from_secs(60),
        inventory_every: Span::from_secs(60),
    });
    agent.handle(Time::ZERO, AgentInput::Connected { epoch: 1 });
    let dispatch = ToAgent::Dispatch(Arc::new(task()));
    agent.handle(Time::ZERO, AgentInput::Message(Box::new(dispatch)));
    agent
}

fn task() -> Task {
    let bytes = u64::from(SLICES) * u64::from(SLICE_BYTES);
    let range = Range { from: 0, to: bytes };
    let edge = |child, parent| Edge { child, parent, bytes, carries: Carries::Partial };
    let record = |node: u32| ChunkRecord {
        node: (node > 0).then_some(NodeId(node)),
        stamp: Stamp(0),
        bytes,
        crc: Some(0),
    };
    let lost = vec![ChunkIndex(0)];
    let lane = Lane {
        range,
        lost: lost.clone(),
        mode: Mode::Streamed,
        decoder: None,
        scheme: None,
        edges: vec![edge(CHILD, RELAY), edge(RELAY, PARENT)],
    };
    Task {
        repair: REPAIR,
        stripe: Stripe {
            id: StripeId(1),
            code: "rs(2,1)".parse().expect("a code"),
            chunk_bytes: bytes,
            unit_bytes: bytes,
            generation: Generation(0),
            chunks: (0..3).map(record).collect(),
        },
        plan: Plan {
            stripe: StripeId(1),
            lost,
            destinations: BTreeMap::from([(ChunkIndex(0), PARENT)]),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![lane],
        },
        slice_bytes: SLICE_BYTES,
        gated: false,
        continues: None,
        skips: false,
        label: Label::default(),
        window: WINDOW,
    }
}

/// Plays disk, child and parent until all slices have passed; gives the number of events.
fn pass_all(agent: &mut Agent) -> u64 {
    let (mut events, mut passed, mut arrived) = (0, 0, 0);
    let mut answers = Vec::new();
    agent.handle(
        Time::ZERO,
        AgentInput::Granted { from: PARENT, repair: REPAIR, lane: 0, first: 0, below: WINDOW },
    );
    while passed < SLICES {
        while let Some(output) = agent.poll() {
            match output {
                AgentOutput::Read { id, .. } => {
                    answers.push(AgentInput::SliceRead { id, result: Ok(()) })
                }
                AgentOutput::Grant { below, .. } => {
                    let ids = (arrived..below).map(|slice| suture_repair::slice::SliceId {
                        repair: REPAIR,
                        lane: 0,
                        slice,
                    });
                    answers.extend(ids.map(|id| AgentInput::SliceArrived { from: CHILD, id }));
                    arrived = below;
                }
                AgentOutput::Deliver { id, .. } => {
                    passed += 1;
                    answers.push(AgentInput::SliceLeft(id));
                    if passed % (WINDOW / 2) == 0 {
                        let below = passed + WINDOW;
                        let (from, repair, first) = (PARENT, REPAIR, 0);
                        answers.push(AgentInput::Granted { from, repair, lane: 0, first, below });
                    }
                }
                _ => {}
            }
        }
        for answer in answers.drain(..) {
            if let AgentInput::SliceArrived { from, id } = &answer {
                assert!(agent.wants(*from, *id));
            }
            agent.handle(Time::ZERO, answer);
            events += 1;
        }
    }
    events
}

fn bench(criterion: &mut Criterion) {
    let events = pass_all(&mut relay());
    let mut group = criterion.benchmark_group("agent core");
    group.throughput(Throughput::Elements(events));
    group.bench_function("slice events of a relay", |bencher| {
        bencher.iter_batched_ref(relay, pass_all, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
