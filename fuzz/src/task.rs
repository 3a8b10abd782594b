//! Tasks: whatever an agent is told to do it refuses, or does to the end; and a plan that it takes
//! for valid rebuilds what was lost.
//!
//! Place: [dispatch] -> slices flow -> chunk proven, at an agent whose coordinator may say
//! anything. An input is an encoded task. Every node of its plan gets it, and is answered as by an
//! honest driver until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::bytes::Bytes;
use suture_code::{Code, Program};
use suture_drivers::control::convert;
use suture_drivers::control::proto::coordinator_message::Message as Word;
use suture_repair::agent::{Agent, AgentConfig, AgentInput, AgentOutput};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{FromAgent, Task, ToAgent};
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::validate::validate;
use suture_repair::plan::{Plan, StripeFacts};
use suture_repair::planner::Abilities;
use suture_repair::random::Random;
use suture_repair::role::{Role, Sink};
use suture_repair::slice::{SliceId, preferred_slice};
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

/// Chunks and sub-chunks of stripes up to which plans are executed: larger ones take seconds.
const CHUNK_BYTES_MAX: u64 = 16 << 10;
const SUB_CHUNKS_MAX: usize = 128;
/// Participants that are tried, and what each of them may do.
const NODES_MAX: usize = 6;
const STEPS_MAX: usize = 400;
/// What the seeds are of.
const CODES: [&str; 7] = [
    "rs(2,1)",
    "rs(4,2)",
    "rs(6,3)",
    "rs-vandermonde(3,2)",
    "lrc(4,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
];
/// What every agent has for slices.
const POOL_BYTES: u64 = 64 << 20;

/// Inputs to begin with: arbitrary plans for stripes of many codes, streamed and stored, gated and
/// not.
pub fn valid() -> Vec<Vec<u8>> {
    let inputs = CODES.iter().enumerate().flat_map(|(index, code)| {
        (0..4).map(move |seed| encoded(task(code, 16 * index as u64 + seed)))
    });
    inputs.collect()
}

fn encoded(task: Task) -> Vec<u8> {
    match convert::encode_to_agent(ToAgent::Dispatch(task.into())) {
        Word::Dispatch(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A task for a stripe that has lost one chunk or two; of odd seeds, with short chunks.
fn task(code: &str, seed: u64) -> Task {
    let random = &mut Random::new(seed);
    let code: Code = code.parse().expect("it is a code");
    let chunk_bytes = code.alignment() as u64 * random.between(1, 8);
    let lost_count = code.loss_tolerance().min(1 + seed as usize % 2);
    let lost: Vec<u32> = (0..lost_count).map(|_| random.index(code.chunk_count()) as u32).collect();
    let chunk = |index: u32| ChunkRecord {
        node: (!lost.contains(&index)).then_some(NodeId(index)),
        stamp: Stamp(0),
        bytes: if index == 0 && seed % 4 == 3 { chunk_bytes / 2 } else { chunk_bytes },
        crc: Some(index),
    };
    let mut stripe = Stripe {
        id: StripeId(5),
        code,
        chunk_bytes,
        unit_bytes: chunk_bytes,
        generation: Generation(3),
        chunks: (0..code.chunk_count() as u32).map(chunk).collect(),
    };
    if stripe.check().is_err() {
        stripe.chunks[0].bytes = chunk_bytes;
    }
    let survivors: Vec<(ChunkIndex, NodeId)> =
        stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?.node))).collect();
    let facts = StripeFacts {
        stripe: stripe.id,
        code: stripe.shortened(),
        chunk_bytes,
        survivors: &survivors,
        source: None,
    };
    let plan = (0..64).map(|_| arbitrary_plan(random, &facts, code.chunk_count() + 3));
    let whole = |plan: &Plan| plan.range.from == 0 && plan.range.to == chunk_bytes;
    let plan = plan.into_iter().find(whole).expect("most plans are of whole chunks");
    let slice_bytes = preferred_slice(&plan, code.alignment() as u32);
    let slice_bytes = if seed % 4 == 2 { code.alignment() as u32 } else { slice_bytes };
    let (repair, gated) = (RepairId::new(7, seed as u32), seed.is_multiple_of(4));
    let label = Label::new(b"a label").expect("it is short");
    // It goes on with an attempt that is not here, so it begins anew.
    let skips = seed % 4 == 1;
    let continues = skips.then_some(RepairId::new(7, 0));
    Task { repair, stripe, plan, slice_bytes, window: 4, gated, continues, skips, label }
}

/// Gives whether the task is one whose plan is valid.
///
/// # Panics
/// When a task is not read back as it was written, an agent breaks an invariant, or a valid plan
/// rebuilds other bytes.
pub fn check(bytes: &[u8]) -> bool {
    let word = Word::Dispatch(Bytes::copy_from_slice(bytes));
    let Ok(ToAgent::Dispatch(task)) = convert::decode_to_agent(word) else { return false };
    let again = convert::decode_to_agent(convert::encode_to_agent(ToAgent::Dispatch(task.clone())));
    assert_eq!(again, Ok(ToAgent::Dispatch(task.clone())));
    assert_eq!(task.stripe.check(), Ok(()), "only such stripes are read");
    if task.stripe.code.chunk_count() * task.stripe.code.sub_chunk_count() as usize > SUB_CHUNKS_MAX
    {
        return false;
    }
    for node in participants(&task).into_iter().take(NODES_MAX) {
        let is_begun = Runner::new(node).run(&task);
        // What is not begun may be no plan at all.
        assert!(!is_begun || Role::of(&task, node).is_ok_and(|roles| !roles.is_empty()));
    }
    let survivors = task.survivors();
    let facts = task.facts(&survivors);
    match validate(&task.plan, &facts, usize::MAX) {
        Ok(()) => {
            check_executed(&task);
            true
        }
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            false
        }
    }
}

fn participants(task: &Task) -> BTreeSet<NodeId> {
    let edges = task.plan.lanes.iter().flat_map(|lane| &lane.edges);
    let nodes = edges.flat_map(|edge| [edge.child, edge.parent]);
    nodes.chain(task.plan.destinations.values().copied()).collect()
}

/// Rebuilds bytes by the plan and compares them with what was lost.
fn check_executed(task: &Task) {
    let stripe = &task.stripe;
    if stripe.chunk_bytes > CHUNK_BYTES_MAX {
        return;
    }
    let survivors = task.survivors();
    let facts = task.facts(&survivors);
    let is_plain = stripe.chunks.iter().all(|chunk| chunk.bytes == stripe.chunk_bytes);
    // Of chunks of many lengths it is only asked that they are executed.
    let chunks = if is_plain { encode(task) } else { noise(task) };
    let held = |chunk: &ChunkIndex| survivors.iter().any(|(survivor, _)| survivor == chunk);
    let surviving: Chunks =
        chunks.iter().filter(|(chunk, _)| held(chunk)).map(|(c, b)| (*c, b.clone())).collect();
    let rebuilt = oracle::execute(&task.plan, &facts, &surviving);
    for (lost, bytes) in rebuilt.iter().filter(|_| is_plain) {
        let expected = oracle::expected(&chunks[lost], &facts, task.plan.range);
        assert!(*bytes == expected, "chunk {lost} comes out wrong: {task:?}");
    }
}

fn noise(task: &Task) -> Chunks {
    let bytes = |chunk: ChunkIndex| {
        let byte = |at: u64| (at * 31 + at / 251 + u64::from(chunk.0) * 17) as u8;
        (0..task.stripe.record(chunk).bytes).map(byte).collect()
    };
    task.stripe.indices().map(|chunk| (chunk, bytes(chunk))).collect()
}

/// Data of noise, and its parity.
fn encode(task: &Task) -> Chunks {
    let (code, mut chunks) = (task.stripe.code, noise(task));
    let (alpha, k) = (code.sub_chunk_count() as usize, code.data_chunks());
    let sub_chunk = task.stripe.chunk_bytes as usize / alpha;
    let mut parity = vec![vec![0; sub_chunk]; alpha * code.parity_chunks()];
    let data = chunks.values().take(k).flat_map(|chunk| chunk.chunks_exact(sub_chunk.max(1)));
    let data: Vec<&[u8]> = data.collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let program = Program::compile(&code.encode_dag()).expect("every code encodes");
    program.run(&data, &mut outputs).expect("the chunks are of equal lengths");
    for (index, parts) in parity.chunks(alpha).enumerate() {
        chunks.insert(ChunkIndex((k + index) as u8), parts.concat());
    }
    chunks
}

/// An agent with an honest driver and honest peers.
struct Runner {
    agent: Agent,
    inputs: Vec<AgentInput>,
    /// Of each lane, what each child was granted.
    granted: BTreeMap<(RepairId, u16, NodeId), u32>,
    is_begun: bool,
}

impl Runner {
    fn new(me: NodeId) -> Runner {
        let agent = Agent::new(AgentConfig {
            me,
            incarnation: 9,
            abilities: Abilities::ALL,
            pool_bytes: POOL_BYTES,
            heartbeat_every: Span::from_secs(1),
            stall_after: Span::from_secs(30),
            inventory_every: Span::from_secs(600),
        });
        Runner { agent, inputs: Vec::new(), granted: BTreeMap::new(), is_begun: false }
    }

    /// Gives whether the task was begun.
    fn run(mut self, task: &Arc<Task>) -> bool {
        self.handle(AgentInput::Connected { epoch: task.repair.epoch() });
        self.handle(AgentInput::Message(Box::new(ToAgent::Dispatch(task.clone()))));
        for _ in 0..STEPS_MAX {
            let Some(input) = self.inputs.pop() else { break };
            self.handle(input);
        }
        self.handle(AgentInput::Message(Box::new(ToAgent::Cancel(task.repair))));
        assert_eq!(self.agent.status().reserved_bytes, 0, "all memory is given back");
        self.is_begun
    }

    fn handle(&mut self, input: AgentInput) {
        self.agent.handle(Time::ZERO, input);
        let me = self.agent.status();
        assert!(me.reserved_bytes <= POOL_BYTES, "{me:?}");
        while let Some(output) = self.agent.poll() {
            self.is_begun |= !matches!(output, AgentOutput::Send(_) | AgentOutput::List);
            if let AgentOutput::Send(message) = &output
                && let FromAgent::Failed { why, .. } = &**message
            {
                assert!(!why.to_string().is_empty());
            }
            self.answer(output);
        }
    }

    fn answer(&mut self, output: AgentOutput) {
        let result = Ok(());
        match output {
            AgentOutput::Prepare { repair, .. } => {
                self.inputs.push(AgentInput::Prepared { repair, result });
            }
            AgentOutput::Publish { repair, .. } => {
                self.inputs.push(AgentInput::Published { repair, result });
            }
            AgentOutput::Read { id, role, .. } => {
                self.walk(&role, id);
                self.inputs.push(AgentInput::SliceRead { id, result });
            }
            AgentOutput::Grant { to, repair, lane, first, below } => {
                let slice = |slice| SliceId { repair, lane, slice };
                let before = self.granted.insert((repair, lane, to), below);
                let from = before.unwrap_or(first);
                let arrived = |at| AgentInput::SliceArrived { from: to, id: slice(at) };
                self.inputs.extend((from..below).map(arrived));
            }
            AgentOutput::Spill { id, from, role } => {
                self.walk(&role, id);
                assert!(role.spilled_piece(from, id.slice).is_some());
                self.inputs.push(AgentInput::SliceSpilled { from, id });
            }
            AgentOutput::Deliver { id, role } | AgentOutput::Spool { id, role } => {
                self.walk(&role, id);
                for parent in role.parents() {
                    let (repair, lane, below) = (id.repair, id.lane, id.slice.saturating_add(9));
                    let first = 0;
                    let from = parent;
                    self.inputs.push(AgentInput::Granted { from, repair, lane, first, below });
                }
                self.inputs.push(AgentInput::SliceLeft(id));
            }
            _ => (),
        }
    }

    /// What every driver asks of a role before it moves a slice.
    fn walk(&self, role: &Role, id: SliceId) {
        let slice = id.slice;
        assert!(slice < role.slice_ranges.count(), "{id:?}");
        let longest = role.layout.chunk_bytes();
        let own: usize = role.own_pieces(slice).map(|piece| piece.bytes).sum();
        assert_eq!(own, role.own_bytes(slice));
        assert!(role.own_pieces(slice).all(|piece| piece.offset < longest));
        for piece in role.chunk_pieces(slice).filter(|_| role.sinks.contains(&Sink::Store)) {
            assert!(piece.offset + piece.bytes as u64 <= longest, "{piece:?} of {longest}");
        }
        assert!(role.spool_pieces(slice).count() == role.sinks.len());
        assert!(role.children.iter().all(|c| role.child_bytes(c.node, slice).is_some()));
    }
}
