//! What an agent keeps when a task goes on another way, and what it asks for after that.

use std::collections::BTreeMap;
use std::sync::Arc;

use suture_repair::agent::{Agent, AgentConfig, AgentInput, AgentOutput};
use suture_repair::id::{ChunkIndex, EdgeRef, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{Failure, FromAgent, Refusal, Task, ToAgent};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use suture_repair::planner::Abilities;
use suture_repair::slice::SliceId;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};

const SLICE: u32 = 4096;
const SLICES: u32 = 10;
const CHUNK: u64 = SLICES as u64 * SLICE as u64;
const OLD: RepairId = RepairId((1 << 32) | 1);
const NEW: RepairId = RepairId((1 << 32) | 2);
const HELPERS: [NodeId; 2] = [NodeId(1), NodeId(2)];
const ME: NodeId = NodeId(3);
const OTHER: NodeId = NodeId(4);

/// An agent whose children send what they are granted, and the time.
struct Host {
    agent: Agent,
    now: Time,
}

impl Host {
    fn new() -> Host {
        let agent = Agent::new(AgentConfig {
            me: ME,
            incarnation: 1,
            abilities: Abilities::ALL,
            pool_bytes: 1 << 20,
            heartbeat_every: Span::from_secs(1),
            stall_after: Span::from_secs(60),
            inventory_every: Span::from_secs(3600),
        });
        let mut host = Host { agent, now: Time::ZERO };
        host.handle(AgentInput::Connected { epoch: 1 });
        host
    }

    fn handle(&mut self, input: AgentInput) -> Vec<AgentOutput> {
        self.agent.handle(self.now, input);
        self.agent.assert_all_invariants();
        std::iter::from_fn(|| self.agent.poll()).collect()
    }

    fn tell(&mut self, message: ToAgent) -> Vec<AgentOutput> {
        self.handle(AgentInput::Message(Box::new(message)))
    }

    fn dispatch(&mut self, task: Task) -> Vec<AgentOutput> {
        self.tell(ToAgent::Dispatch(Arc::new(task)))
    }

    /// Begins a task at this node, its destination.
    fn begin(&mut self, task: Task) -> Vec<AgentOutput> {
        let repair = task.repair;
        let mut outputs = self.dispatch(task);
        outputs.extend(self.handle(AgentInput::Prepared { repair, result: Ok(()) }));
        outputs
    }

    /// Slices below this come as they are granted, and are written; gives all outputs of the way.
    fn flow(&mut self, mut outputs: Vec<AgentOutput>, below: u32) -> Vec<AgentOutput> {
        let mut at = 0;
        while at < outputs.len() {
            let inputs: Vec<AgentInput> = match outputs[at] {
                AgentOutput::Grant { to, repair, lane, .. } => {
                    let id = |slice| SliceId { repair, lane, slice };
                    let arrived = |slice| AgentInput::SliceArrived { from: to, id: id(slice) };
                    (0..below).map(arrived).collect()
                }
                AgentOutput::Deliver { id, .. } => vec![AgentInput::SliceLeft(id)],
                _ => Vec::new(),
            };
            for input in inputs {
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

/// Two helpers send to this node.
fn star(repair: RepairId) -> Task {
    let range = Range { from: 0, to: CHUNK };
    let edge = |child| Edge { child, parent: ME, bytes: CHUNK, carries: Carries::Partial };
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
        window: 4,
        gated: false,
        continues: None,
        skips: true,
        label: Label::default(),
    }
}

/// The same in two lanes, of four slices and of six.
fn in_two_lanes(mut task: Task) -> Task {
    let cut = 4 * u64::from(SLICE);
    let part = |from, to| {
        let mut lane = task.plan.lanes[0].clone();
        lane.range = Range { from, to };
        lane.edges.iter_mut().for_each(|edge| edge.bytes = to - from);
        lane
    };
    task.plan.lanes = vec![part(0, cut), part(cut, CHUNK)];
    task
}

fn goes_on(task: Task) -> Task {
    Task { repair: NEW, continues: Some(OLD), ..task }
}

/// Helper 1 sends by way of this node, and another one keeps the chunk.
fn relayed(mut task: Task) -> Task {
    let (bytes, carries) = (CHUNK, Carries::Partial);
    let edge = |(child, parent)| Edge { child, parent, bytes, carries };
    let edges = [(HELPERS[0], ME), (HELPERS[1], OTHER), (ME, OTHER)];
    task.plan.lanes[0].edges = edges.map(edge).to_vec();
    task.plan.destinations = BTreeMap::from([(ChunkIndex(0), OTHER)]);
    task
}

/// Lane by lane, with which slice each grant says that it begins.
fn firsts(outputs: &[AgentOutput]) -> Vec<(u16, u32)> {
    let grants = outputs.iter().filter_map(|output| match output {
        AgentOutput::Grant { lane, first, .. } => Some((*lane, *first)),
        _ => None,
    });
    let mut firsts: Vec<(u16, u32)> = grants.collect();
    firsts.sort_unstable();
    firsts.dedup();
    firsts
}

/// How many slices are combined.
fn deliveries(outputs: &[AgentOutput]) -> usize {
    outputs.iter().filter(|output| matches!(output, AgentOutput::Deliver { .. })).count()
}

fn failures(outputs: &[AgentOutput]) -> Vec<(RepairId, Failure)> {
    let failure = |output: &AgentOutput| match output {
        AgentOutput::Send(message) => match &**message {
            FromAgent::Failed { repair, why } => Some((*repair, why.clone())),
            _ => None,
        },
        _ => None,
    };
    outputs.iter().filter_map(failure).collect()
}

fn has(outputs: &[AgentOutput], is_it: impl Fn(&AgentOutput) -> bool) -> bool {
    outputs.iter().any(is_it)
}

fn is_continued(output: &AgentOutput) -> bool {
    matches!(output, AgentOutput::Continue { repair: NEW, from: OLD })
}

fn is_prepared(output: &AgentOutput) -> bool {
    matches!(output, AgentOutput::Prepare { repair: NEW, .. })
}

fn is_published(output: &AgentOutput) -> bool {
    matches!(output, AgentOutput::Publish { repair: NEW, bytes: CHUNK, .. })
}

#[test]
fn what_has_come_of_each_lane_is_not_asked_for_again() {
    let mut host = Host::new();
    let outputs = host.begin(in_two_lanes(star(OLD)));
    // All of the first lane, and three of the second.
    for lane in [0, 1] {
        let outputs = outputs.clone().into_iter();
        let is_its = |output: &AgentOutput| match output {
            AgentOutput::Grant { lane: of, .. } => *of == lane,
            _ => false,
        };
        let its = outputs.filter(is_its).collect();
        host.flow(its, if lane == 0 { 4 } else { 3 });
    }
    let come = 7 * u64::from(SLICE);
    assert_eq!(host.agent.status().running, [(OLD, come)]);
    let outputs = host.begin(goes_on(in_two_lanes(star(OLD))));
    assert!(has(&outputs, is_continued));
    assert_eq!(host.agent.status().running, [(NEW, come)]);
    assert_eq!(firsts(&outputs), [(0, 4), (1, 3)], "of a lane that is there, that is said");
    let outputs = host.flow(outputs, SLICES);
    assert_eq!(deliveries(&outputs), 3);
    assert!(has(&outputs, is_published));
}

#[test]
fn other_lanes_skip_what_lies_before_the_first_byte_that_is_missing() {
    let mut host = Host::new();
    let outputs = host.begin(star(OLD));
    host.flow(outputs, 7);
    let outputs = host.begin(goes_on(in_two_lanes(star(OLD))));
    assert_eq!(firsts(&outputs), [(0, 4), (1, 3)]);
}

#[test]
fn a_destination_keeps_what_it_has_when_a_helper_is_lost_and_says_so() {
    let mut host = Host::new();
    let outputs = host.begin(star(OLD));
    host.flow(outputs, 4);
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    let failed = [(OLD, Failure::PeerLost(HELPERS[0]))];
    assert_eq!(failures(&outputs), failed);
    assert!(!has(&outputs, |output| matches!(output, AgentOutput::Discard(_))));
    host.tell(ToAgent::Forget(OLD));
    host.now = host.now + Span::from_secs(1);
    assert_eq!(failures(&host.handle(AgentInput::Tick)), failed, "until it is told otherwise");
    let outputs = host.begin(goes_on(star(OLD)));
    assert!(has(&outputs, is_continued) && failures(&outputs).is_empty());
    assert_eq!(firsts(&outputs), [(0, 4)]);
    host.now = host.now + Span::from_secs(1);
    assert_eq!(failures(&host.handle(AgentInput::Tick)), [], "it has all that it needs");
}

#[test]
fn what_is_kept_ends_with_its_cancel_and_by_itself_when_nobody_answers() {
    let lost = || {
        let mut host = Host::new();
        let outputs = host.begin(star(OLD));
        host.flow(outputs, 4);
        host.handle(AgentInput::PeerLost(HELPERS[0]));
        host
    };
    let mut host = lost();
    let outputs = host.tell(ToAgent::Cancel(OLD));
    assert!(matches!(outputs[..], [AgentOutput::Discard(OLD)]), "{outputs:?}");
    assert_eq!(host.agent.status().reserved_bytes, 0);
    let mut host = lost();
    let mut last = Vec::new();
    for _ in 0..70 {
        host.now = host.now + Span::from_secs(1);
        last.extend(host.handle(AgentInput::Tick));
    }
    assert!(failures(&last).contains(&(OLD, Failure::Stalled)));
    assert!(host.agent.status().running.is_empty());
}

#[test]
fn helpers_keep_nothing_and_neither_does_who_was_not_asked_to() {
    let mut host = Host::new();
    host.dispatch(relayed(star(OLD)));
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    assert!(has(&outputs, |output| matches!(output, AgentOutput::Discard(OLD))));
    let mut host = Host::new();
    host.begin(Task { skips: false, ..star(OLD) });
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    assert!(has(&outputs, |output| matches!(output, AgentOutput::Discard(OLD))));
}

#[test]
fn where_nothing_is_there_a_task_that_skips_begins_anew() {
    let mut host = Host::new();
    let outputs = host.begin(goes_on(star(OLD)));
    assert!(has(&outputs, is_prepared));
    assert_eq!(firsts(&outputs), [(0, 0)]);
    let mut host = Host::new();
    host.dispatch(star(OLD));
    let outputs = host.dispatch(goes_on(star(OLD)));
    assert!(matches!(outputs[0], AgentOutput::Discard(OLD)), "it had no file yet: {outputs:?}");
    assert!(has(&outputs, is_prepared));
}

#[test]
fn what_is_handed_on_twice_in_a_row_is_still_there() {
    let last = RepairId::new(1, 3);
    let mut host = Host::new();
    let outputs = host.begin(star(OLD));
    host.flow(outputs, 4);
    host.dispatch(goes_on(star(OLD)));
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[1]));
    assert_eq!(failures(&outputs), [(NEW, Failure::PeerLost(HELPERS[1]))]);
    let task = Task { repair: last, continues: Some(NEW), ..star(OLD) };
    let outputs = host.dispatch(task);
    let is_continued = |output: &AgentOutput| match output {
        AgentOutput::Continue { repair, from } => (*repair, *from) == (last, NEW),
        _ => false,
    };
    assert!(has(&outputs, is_continued), "{outputs:?}");
    let late = host.handle(AgentInput::Prepared { repair: NEW, result: Ok(()) });
    assert!(matches!(late[..], [AgentOutput::Discard(NEW)]), "of which nothing is left: {late:?}");
    let outputs = host.handle(AgentInput::Prepared { repair: last, result: Ok(()) });
    assert_eq!(firsts(&outputs), [(0, 4)]);
}

#[test]
fn what_is_being_published_is_not_given_up_for_another_attempt() {
    let mut host = Host::new();
    let outputs = host.begin(star(OLD));
    host.flow(outputs, SLICES);
    let outputs = host.dispatch(goes_on(star(OLD)));
    let refused = Failure::Refused(Refusal::CannotContinue);
    assert_eq!(failures(&outputs), [(NEW, refused)]);
    assert_eq!(host.agent.status().running, [(OLD, CHUNK)]);
}

#[test]
fn what_waits_for_its_proof_goes_on_waiting_under_another_name() {
    let unrecorded = || {
        let mut task = star(OLD);
        task.stripe.chunks[0].crc = None;
        task
    };
    let mut host = Host::new();
    let outputs = host.begin(unrecorded());
    host.flow(outputs, SLICES);
    assert_eq!(host.agent.status().written, [OLD]);
    let outputs = host.begin(goes_on(unrecorded()));
    assert!(has(&outputs, is_continued));
    assert_eq!(firsts(&outputs), [(0, SLICES)], "helpers hear that nothing is wanted");
    assert_eq!(host.agent.status().written, [NEW]);
}

#[test]
fn a_relay_waits_to_hear_where_a_lane_begins_and_passes_that_on() {
    for comes_early in [false, true] {
        let mut host = Host::new();
        let granted =
            AgentInput::Granted { from: OTHER, repair: NEW, lane: 0, first: 6, below: SLICES };
        let mut outputs = Vec::new();
        if comes_early {
            outputs.extend(host.handle(granted.clone()));
        }
        outputs.extend(host.dispatch(goes_on(relayed(star(OLD)))));
        if !comes_early {
            assert!(outputs.is_empty(), "{outputs:?}");
            outputs.extend(host.handle(granted));
        }
        assert_eq!(firsts(&outputs), [(0, 6)]);
        let wanted: Vec<u32> = (0..SLICES)
            .filter(|slice| {
                let id = SliceId { repair: NEW, lane: 0, slice: *slice };
                host.agent.wants(HELPERS[0], id)
            })
            .collect();
        assert_eq!(wanted, [6, 7, 8, 9], "nothing of what is there");
    }
}

/// The edges of which the last of these beats says that they wait, if there is a beat.
fn waits(outputs: &[AgentOutput]) -> Option<Vec<EdgeRef>> {
    outputs.iter().rev().find_map(|output| match output {
        AgentOutput::Send(message) => match &**message {
            FromAgent::Heartbeat(beat) => Some(beat.waits.clone()),
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn who_was_granted_slices_and_sends_none_is_named_before_the_next_beat_and_with_each() {
    let mut host = Host::new();
    let begun = host.begin(star(OLD));
    let granted = begun.iter().find_map(|output| match output {
        AgentOutput::Grant { to, below, .. } if *to == HELPERS[0] => Some(*below),
        _ => None,
    });
    let edge = |peer| EdgeRef { repair: OLD, lane: 0, peer };
    let look = |host: &mut Host| {
        host.now = host.now + Span::from_millis(250);
        waits(&host.handle(AgentInput::Tick))
    };
    assert_eq!([look(&mut host), look(&mut host)], [None, None]);
    assert_eq!(look(&mut host), Some(HELPERS.map(edge).to_vec()), "half a beat after the first");
    for slice in 0..granted.expect("both were granted slices") {
        let id = SliceId { repair: OLD, lane: 0, slice };
        host.handle(AgentInput::SliceArrived { from: HELPERS[0], id });
    }
    let said: Vec<Vec<EdgeRef>> = (0..8).filter_map(|_| look(&mut host)).collect();
    assert_eq!(said, [vec![edge(HELPERS[1])], vec![edge(HELPERS[1])]]);
    host.tell(ToAgent::Cancel(OLD));
    let said: Vec<Vec<EdgeRef>> = (0..8).filter_map(|_| look(&mut host)).collect();
    assert_eq!(said, vec![Vec::new(); 2], "nothing runs any more");
}

#[test]
fn an_agent_that_did_not_run_itself_waits_for_nobody() {
    let mut host = Host::new();
    host.begin(star(OLD));
    host.now = host.now + Span::from_secs(9);
    assert_eq!(waits(&host.handle(AgentInput::Tick)), Some(vec![]));
}
