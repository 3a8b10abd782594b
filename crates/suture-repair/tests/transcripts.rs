//! Transcripts read back as they were written, and the golden ones in `testdata` are what the
//! machines do today. `SUTURE_BLESS=1 cargo test -p suture-repair --test suite transcripts::golden` writes
//! their outputs anew; the difference is for a person to judge.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use suture_code::layout::Layout;
use suture_repair::agent;
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{self, Command, KnownFault, NodeState, RefusedNode};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, EdgeRef, Generation, ListedCopy, NodeId, RackId, RepairId,
    Stamp, StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{
    Check, CopyFault, DiskState, Failure, FingerprintRequest, FromAgent, Heartbeat, Hello,
    LinkReport, Moved, Refusal, RepairLimit, SentTo, Task, ToAgent,
};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, SchemeId, Start};
use suture_repair::planner::Abilities;
use suture_repair::processor::{Processor, ProcessorCosts};
use suture_repair::random::Random;
use suture_repair::slice::SliceId;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::throttle::{Keep, ThrottleConfig};
use suture_repair::time::{Span, Time};
use suture_repair::transcript::line::{LineReader, Textual};
use suture_repair::transcript::{ReplayError, bless, input_line, replay};

/// Random inputs of each machine that are written and read back.
const INPUTS: usize = 4000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn goldens() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the golden transcripts");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn golden_transcripts_are_what_the_machines_do() {
    for path in goldens() {
        let text = read(&path);
        if std::env::var_os("SUTURE_BLESS").is_some() {
            let blessed = bless(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            std::fs::write(&path, blessed).expect("the folder can be written");
        } else if let Err(why) = replay(&text) {
            panic!("{}: {why}\nSUTURE_BLESS=1 writes what is so now", path.display());
        }
    }
}

#[test]
fn a_changed_output_is_found_where_it_is() {
    let path = folder().join("coordinator-node-dies.txt");
    let text = read(&path);
    let at = text.lines().position(|line| line.starts_with("  commit")).expect("a commit");
    let change = |change: &dyn Fn(&str) -> Vec<String>| -> ReplayError {
        let lines = text.lines().enumerate();
        let changed =
            lines.flat_map(|(i, line)| if i == at { change(line) } else { vec![line.to_string()] });
        let changed: Vec<String> = changed.collect();
        replay(&(changed.join("\n") + "\n")).expect_err("it was changed")
    };
    let other = change(&|line| vec![line.replace("generation 1", "generation 9")]);
    let ReplayError::Different(other) = other else { panic!("{other}") };
    assert_eq!(other.line, at + 1);
    assert!(other.expected.expect("a line").contains("generation 9"));
    assert!(other.got.expect("a line").contains("generation 1"));
    let less = change(&|_| vec![]);
    assert!(matches!(less, ReplayError::Different(d) if d.got.is_some()));
    let more = change(&|line| vec![line.to_string(), "  forget everything".to_string()]);
    assert!(matches!(more, ReplayError::Different(d) if d.line == at + 2));
}

#[test]
fn a_file_that_was_cut_off_is_replayed_as_far_as_it_goes() {
    let text = read(&folder().join("agent-destination.txt"));
    let cut = &text[..text.trim_end().rfind('\n').expect("lines") + 1];
    assert!(replay(cut).is_err(), "an output is missing");
    for bytes in 1..40 {
        assert!(replay(&text[..text.len() - bytes]).is_ok(), "{bytes} bytes are missing");
    }
}

#[test]
fn what_is_no_transcript_is_refused_with_its_line() {
    let cases = [
        ("", 0),
        ("suture-transcript-2 agent\n", 1),
        ("suture-transcript-2 cluster\n", 1),
        ("suture-transcript-2 agent\nstart 0s\n", 2),
        ("suture-transcript-2 agent\nagent 3\n", 2),
        ("suture-transcript-2 coordinator\n# no more\n", 2),
    ];
    for (text, at) in cases {
        let why = replay(text).expect_err(text);
        assert!(
            matches!(&why, ReplayError::Malformed { line, .. } if *line == at),
            "{text}: {why}"
        );
    }
}

#[test]
fn lines_of_any_bytes_are_refused_or_understood_but_never_panic() {
    let mut random = Random::new(5);
    let lines: Vec<String> = goldens()
        .iter()
        .flat_map(|path| read(path).lines().map(str::to_string).collect::<Vec<_>>())
        .collect();
    for _ in 0..20_000 {
        let mut line = random.choose(&lines).clone().into_bytes();
        for _ in 0..random.between(1, 3) {
            let at = random.index(line.len() + 1);
            match random.below(3) {
                0 => line.insert(at, *random.choose(b"[],\"\\@#.:/> 09nxs")),
                1 if at < line.len() => drop(line.remove(at)),
                _ => line.truncate(at),
            }
        }
        let line = String::from_utf8_lossy(&line);
        let _ = LineReader::new(&line).value::<Time>();
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        let _ = LineReader::new(rest).value::<event::Input>();
        let _ = LineReader::new(rest).value::<agent::AgentInput>();
        let _ = LineReader::new(rest).value::<Stripe>();
    }
}

/// Writes an input with its time, reads it back, and compares all of it.
fn assert_reads_back<T: Textual + Debug>(random: &mut Random, input: &T) {
    let now = Time { ns: random.next_u64() >> random.below(60) };
    let text = input_line(now, input);
    let mut line = LineReader::new(&text);
    let (at, read): (Time, T) = line
        .value()
        .and_then(|at| Ok((at, line.value()?)))
        .unwrap_or_else(|why| panic!("{why} in {text}"));
    line.end().unwrap_or_else(|why| panic!("{why} in {text}"));
    assert_eq!((at, format!("{read:?}")), (now, format!("{input:?}")), "{text}");
    assert_eq!(text.matches('\n').count(), 1, "{text}");
}

#[test]
fn every_input_of_a_coordinator_reads_back_as_it_was_written() {
    let (mut random, mut seen) = (Random::new(1), [0; 22]);
    for _ in 0..INPUTS {
        let input = coordinator_input(&mut random);
        seen[coordinator_variant(&input)] += 1;
        assert_reads_back(&mut random, &input);
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn every_input_of_an_agent_reads_back_as_it_was_written() {
    let (mut random, mut seen) = (Random::new(2), [0; 22]);
    for _ in 0..INPUTS {
        let input = agent_input(&mut random);
        seen[agent_variant(&input)] += 1;
        assert_reads_back(&mut random, &input);
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// A new variant has to be counted here, and then made below.
fn coordinator_variant(input: &event::Input) -> usize {
    match input {
        event::Input::NodeAdded { .. } => 0,
        event::Input::Agent { .. } => 1,
        event::Input::AgentLost(_) => 2,
        event::Input::StripesReserved { .. } => 3,
        event::Input::StripeAdded(_) => 4,
        event::Input::StripeRemoved(_) => 5,
        event::Input::ChunkSuspected { .. } => 6,
        event::Input::Committed { .. } => 7,
        event::Input::CommitRefused { .. } => 8,
        event::Input::Operator(_) => 9,
        event::Input::Claimed { .. } => 10,
        event::Input::ClaimRefused { .. } => 11,
        event::Input::NodeState { .. } => 12,
        event::Input::Tick => 13,
        event::Input::StripesUnknown { .. } => 14,
        event::Input::EpochRaised(_) => 15,
        event::Input::StripesAdded(_) => 16,
        event::Input::Throttle(_) => 17,
        event::Input::WindowClosed(_) => 18,
        event::Input::Inconsistent(_) => 19,
        event::Input::Faulty { .. } => 20,
        event::Input::ClaimLost(_) => 21,
    }
}

/// Likewise.
fn agent_variant(input: &agent::AgentInput) -> usize {
    match input {
        agent::AgentInput::Connected { .. } => 0,
        agent::AgentInput::Disconnected => 1,
        agent::AgentInput::Message(_) => 2,
        agent::AgentInput::Granted { .. } => 3,
        agent::AgentInput::SliceArrived { .. } => 4,
        agent::AgentInput::SliceRead { .. } => 5,
        agent::AgentInput::SliceSpilled { .. } => 6,
        agent::AgentInput::SliceLeft(_) => 7,
        agent::AgentInput::WriteFailed { .. } => 8,
        agent::AgentInput::Prepared { .. } => 9,
        agent::AgentInput::Published { .. } => 10,
        agent::AgentInput::PeerLost(_) => 11,
        agent::AgentInput::Listed { .. } => 12,
        agent::AgentInput::Checked { .. } => 13,
        agent::AgentInput::Found { .. } => 14,
        agent::AgentInput::Tick => 15,
        agent::AgentInput::Fingerprinted { .. } => 16,
        agent::AgentInput::FreeBytes(_) => 17,
        agent::AgentInput::NotListed => 18,
        agent::AgentInput::Deleted(_) => 19,
        agent::AgentInput::Measured(_) => 20,
        agent::AgentInput::Disk(_) => 21,
    }
}

fn coordinator_input(random: &mut Random) -> event::Input {
    use event::Input;
    match random.below(22) {
        0 => Input::NodeAdded {
            id: node(random),
            node: cluster_node(random),
            rack: maybe(random, text),
        },
        1 => Input::Agent { node: node(random), message: from_agent(random) },
        2 => Input::AgentLost(node(random)),
        3 => Input::StripesReserved {
            below: StripeId(number(random)),
            writing: some(random, stripe_id),
        },
        4 => Input::StripeAdded(stripe(random)),
        5 => Input::StripeRemoved(stripe_id(random)),
        6 => Input::ChunkSuspected { node: node(random), copy: copy(random) },
        7 => Input::Committed { repair: repair(random), stripe: stripe(random) },
        8 => Input::CommitRefused { repair: repair(random), stripe: maybe(random, stripe) },
        9 => Input::Operator(match random.below(10) {
            0 => Command::FailNode(node(random)),
            1 => Command::ReturnNode(node(random)),
            5 => Command::DrainNode(node(random)),
            6 => Command::PauseNode {
                node: node(random),
                span: Span { ns: random.next_u64() >> 20 },
            },
            7 => Command::FailSilent,
            8 => Command::RepairNow(stripe_id(random)),
            2 => Command::Pause,
            3 => Command::Resume,
            4 => Command::Scrub,
            _ => Command::Cancel,
        }),
        10 => Input::Claimed { repair: repair(random), label: label(random) },
        11 => Input::ClaimRefused {
            repair: repair(random),
            stripe: maybe(random, stripe),
            because_of: maybe(random, |random| RefusedNode {
                node: node(random),
                why: text(random),
            }),
        },
        12 => {
            let states = [NodeState::Up, NodeState::Dead, NodeState::Decommissioning];
            Input::NodeState { node: node(random), state: *random.choose(&states) }
        }
        13 => Input::StripesUnknown { from: stripe_id(random), below: stripe_id(random) },
        14 => Input::EpochRaised(random.next_u64() as u32),
        15 => Input::StripesAdded(some(random, stripe)),
        16 => Input::Throttle(Box::new(throttle_config(random))),
        18 => Input::Inconsistent(stripe_id(random)),
        19 => Input::Faulty {
            node: node(random),
            copy: copy(random),
            fault: *random.choose(&KnownFault::ALL),
        },
        20 => Input::ClaimLost(repair(random)),
        17 => {
            Input::WindowClosed(maybe(random, |r| Time { ns: number(r) / 1_000_000 * 1_000_000 }))
        }
        _ => Input::Tick,
    }
}

fn agent_input(random: &mut Random) -> agent::AgentInput {
    use agent::AgentInput;
    let (from, repair) = (node(random), repair(random));
    match random.below(22) {
        0 => AgentInput::Connected { epoch: random.next_u64() as u32 },
        1 => AgentInput::Disconnected,
        2 => AgentInput::Message(Box::new(to_agent(random))),
        3 => AgentInput::Granted {
            from,
            repair,
            lane: lane_number(random),
            first: if random.per_mille(500) { 0 } else { random.next_u64() as u32 },
            below: random.next_u64() as u32,
        },
        4 => AgentInput::SliceArrived { from, id: slice(random) },
        5 => AgentInput::SliceRead { id: slice(random), result: result(random, failure) },
        6 => AgentInput::SliceSpilled { from, id: slice(random) },
        7 => AgentInput::SliceLeft(slice(random)),
        8 => AgentInput::WriteFailed { repair, why: failure(random) },
        9 => AgentInput::Prepared { repair, result: result(random, failure) },
        10 => AgentInput::Published { repair, result: result(random, failure) },
        11 => AgentInput::PeerLost(from),
        12 => AgentInput::Listed { copies: some(random, listed), free_bytes: number(random) },
        13 => AgentInput::Checked {
            check: Box::new(check(random)),
            result: result(random, copy_fault),
        },
        15 => AgentInput::Fingerprinted {
            request: Box::new(request(random)),
            result: if random.per_mille(500) { Ok(sums(random)) } else { Err(failure(random)) },
        },
        14 => AgentInput::Found { copy: copy(random), fault: copy_fault(random) },
        17 => AgentInput::FreeBytes(number(random)),
        18 => AgentInput::NotListed,
        19 => AgentInput::Deleted(copy(random)),
        20 => AgentInput::Measured(Box::new(link_report(random))),
        21 => AgentInput::Disk(disk(random)),
        _ => AgentInput::Tick,
    }
}

fn disk(random: &mut Random) -> DiskState {
    *random.choose(&[DiskState::Good, DiskState::ReadOnly, DiskState::Failing, DiskState::Hanging])
}

fn to_agent(random: &mut Random) -> ToAgent {
    let repair = repair(random);
    match random.below(11) {
        0 => ToAgent::Dispatch(Arc::new(task(random))),
        1 => ToAgent::Cancel(repair),
        2 => ToAgent::Release { repair, lane: lane_number(random), child: node(random) },
        3 => ToAgent::Hold { repair, held: random.per_mille(500) },
        4 => ToAgent::Forget(repair),
        5 => ToAgent::Check(check(random)),
        7 => ToAgent::Fingerprint(request(random)),
        8 => ToAgent::Publish(repair),
        9 => ToAgent::Limit(repair_limit(random)),
        6 => ToAgent::Delete {
            epoch: random.next_u64() as u32,
            session: random.next_u64(),
            copy: copy(random),
        },
        _ => ToAgent::List,
    }
}

fn repair_limit(random: &mut Random) -> RepairLimit {
    RepairLimit { up: maybe(random, number), down: maybe(random, number) }
}

fn link_report(random: &mut Random) -> LinkReport {
    let moved = |random: &mut Random| Moved { repair: number(random), others: number(random) };
    LinkReport {
        span: Span { ns: number(random) },
        sent: moved(random),
        received: moved(random),
        latency: maybe(random, |r| Span { ns: number(r) }),
        probed: some(random, |r| (node(r), number(r))),
        reached: some(random, node),
        unreached: some(random, node),
        has_uplink: random.per_mille(500),
        has_downlink: random.per_mille(500),
        limit: repair_limit(random),
        cap: maybe(random, number),
        sent_to: some(random, |r| SentTo {
            peer: node(r),
            bytes: number(r),
            waited: Span { ns: number(r) },
        }),
    }
}

fn throttle_config(random: &mut Random) -> ThrottleConfig {
    let caps = |random: &mut Random| some(random, |r| (text(r), number(r))).into_iter().collect();
    ThrottleConfig {
        node: maybe(random, number),
        nodes: caps(random),
        racks: caps(random),
        total: maybe(random, number),
        keep: maybe(random, |r| {
            if r.per_mille(500) { Keep::Percent(r.below(100) as u8) } else { Keep::Rate(number(r)) }
        }),
        p99: maybe(random, |r| Span { ns: number(r) }),
        floor: maybe(random, number),
    }
}

fn from_agent(random: &mut Random) -> FromAgent {
    let repair = repair(random);
    match random.below(9) {
        0 => FromAgent::Hello(Hello {
            incarnation: random.next_u64(),
            session: random.next_u64(),
            abilities: abilities(random),
            pool_bytes: number(random),
            free_bytes: number(random),
        }),
        1 => FromAgent::Inventory(some(random, listed)),
        2 => FromAgent::Heartbeat(Heartbeat {
            incarnation: random.next_u64(),
            free_bytes: number(random),
            disk: disk(random),
            running: some(random, |r| (self::repair(r), number(r))),
            arrived: some(random, |r| EdgeRef {
                repair: self::repair(r),
                lane: lane_number(r),
                peer: node(r),
            }),
            written: some(random, self::repair),
            waits: some(random, |r| EdgeRef {
                repair: self::repair(r),
                lane: lane_number(r),
                peer: node(r),
            }),
            links: maybe(random, |r| Box::new(link_report(r))),
        }),
        3 => FromAgent::Stored { repair, copy: copy(random) },
        4 => FromAgent::Failed { repair, why: failure(random) },
        5 => FromAgent::Verified(check(random)),
        6 => FromAgent::Fingerprint { repair, copy: copy(random), sums: sums(random) },
        7 => FromAgent::Deleted(copy(random)),
        _ => FromAgent::Bad { copy: copy(random), fault: copy_fault(random) },
    }
}

fn failure(random: &mut Random) -> Failure {
    const REFUSALS: [Refusal; 5] = [
        Refusal::Ability,
        Refusal::InvalidPlan,
        Refusal::NotAParticipant,
        Refusal::StaleEpoch,
        Refusal::CannotContinue,
    ];
    match random.below(10) {
        0 => Failure::Source { copy: copy(random), fault: copy_fault(random) },
        1 => Failure::PeerLost(node(random)),
        2 => Failure::NoSpace,
        3 => Failure::NoBuffers { needed: number(random), free: number(random) },
        4 => Failure::ProofFailed { expected: crc(random), found: crc(random) },
        5 => Failure::Stalled,
        6 => Failure::Refused(*random.choose(&REFUSALS)),
        8 => Failure::Inconsistent,
        7 => Failure::PastEnd { offset: number(random) },
        _ => Failure::Disk(text(random)),
    }
}

fn label(random: &mut Random) -> Label {
    let mut bytes = vec![0; random.index(20)];
    random.fill(&mut bytes);
    Label::new(&bytes).unwrap()
}

fn task(random: &mut Random) -> Task {
    Task {
        repair: repair(random),
        stripe: stripe(random),
        plan: plan(random),
        slice_bytes: random.next_u64() as u32,
        window: random.next_u64() as u32,
        gated: random.per_mille(500),
        continues: maybe(random, repair),
        skips: random.per_mille(500),
        label: label(random),
    }
}

fn plan(random: &mut Random) -> Plan {
    Plan {
        stripe: stripe_id(random),
        lost: some(random, chunk),
        destinations: some(random, |r| (chunk(r), node(r))).into_iter().collect::<BTreeMap<_, _>>(),
        start: match random.below(4) {
            0 => Start::After(some(random, |r| r.index(9))),
            1 => Start::Slot(random.next_u64() as u32),
            2 => Start::Wave(random.next_u64() as u32),
            _ => Start::Now,
        },
        range: range(random),
        period: maybe(random, number),
        lanes: some(random, |r| Lane {
            range: range(r),
            lost: some(r, chunk),
            mode: *r.choose(&[Mode::Streamed, Mode::Stored]),
            decoder: maybe(r, node),
            scheme: maybe(r, |r| SchemeId(r.next_u64() as u32)),
            edges: some(r, |r| Edge {
                child: node(r),
                parent: node(r),
                bytes: number(r),
                carries: *r.choose(&Carries::ALL),
            }),
        }),
    }
}

fn stripe(random: &mut Random) -> Stripe {
    let codes = ["rs(2,1)", "rs(10,4)", "lrc(4,2,2)", "clay(4,2,5)", "butterfly(3)"];
    Stripe {
        id: stripe_id(random),
        code: random.choose(&codes).parse().expect("a code"),
        chunk_bytes: number(random),
        unit_bytes: number(random),
        generation: Generation(number(random)),
        chunks: some(random, |r| ChunkRecord {
            node: maybe(r, node),
            stamp: stamp(r),
            bytes: number(r),
            crc: maybe(r, crc),
        }),
    }
}

fn cluster_node(random: &mut Random) -> Node {
    Node {
        rack: maybe(random, |r| RackId(r.below(9) as u32)),
        downlink: rate(random),
        disk_read: maybe(random, rate),
        disk_write: maybe(random, rate),
        processor: maybe(random, processor),
        foreground_uplink: rate(random),
        foreground_downlink: rate(random),
        ..Node::new(text(random), rate(random))
    }
}

fn processor(random: &mut Random) -> Processor {
    let costs = std::array::from_fn(|_| random.unit());
    let costs = ProcessorCosts::from_all(costs);
    Processor::new(0.1 + 8.0 * random.unit(), costs).expect("a processor that can be")
}

fn rate(random: &mut Random) -> Rate {
    let odd = [0.0, 1e-9, 1.25e8, f64::INFINITY, 0.1, f64::MAX];
    Rate(if random.per_mille(500) { *random.choose(&odd) } else { random.unit() * 1e9 })
}

fn abilities(random: &mut Random) -> Abilities {
    Abilities {
        partial: random.per_mille(500),
        combined: random.per_mille(500),
        traces: random.per_mille(500),
        finished: random.per_mille(500),
        skips: random.per_mille(500),
    }
}

fn text(random: &mut Random) -> String {
    let letters = ['a', ' ', '"', '\\', '\n', '[', ']', ',', '\u{1f}', 'é', '漢', '#', '/', '\''];
    (0..random.below(8)).map(|_| *random.choose(&letters)).collect()
}

fn check(random: &mut Random) -> Check {
    let excess = maybe(random, |r| {
        let node = node(r);
        copy(r).at(node)
    });
    Check { copy: copy(random), digest: digest(random), excess }
}

fn digest(random: &mut Random) -> Digest {
    Digest { bytes: maybe(random, number), crc: maybe(random, |r| number(r) as u32) }
}

fn listed(random: &mut Random) -> ListedCopy {
    ListedCopy { copy: copy(random), digest: digest(random) }
}

fn request(random: &mut Random) -> FingerprintRequest {
    let (alpha, units) = (1 << random.below(4), random.between(1, 9));
    let chunk_bytes = units * u64::from(alpha);
    let unit_bytes = random.between(1, 5) * u64::from(alpha);
    let layout = Layout::checked(chunk_bytes, unit_bytes, alpha).expect("a layout");
    let (repair, copy) = (repair(random), copy(random));
    let (bytes, crc) = (number(random), maybe(random, |random| random.next_u64() as u32));
    FingerprintRequest { repair, copy, bytes, crc, seed: random.next_u64(), layout }
}

fn sums(random: &mut Random) -> Arc<[u8]> {
    let runs = (0..random.below(4)).map(|_| {
        let longest = *random.choose(&[1, 3, 20, 16 << 10]);
        vec![random.next_u64() as u8; random.between(0, longest) as usize]
    });
    runs.collect::<Vec<_>>().concat().into()
}

fn copy(random: &mut Random) -> ChunkCopy {
    ChunkCopy { stripe: stripe_id(random), chunk: chunk(random), stamp: stamp(random) }
}

fn copy_fault(random: &mut Random) -> CopyFault {
    *random.choose(&[CopyFault::Missing, CopyFault::Corrupt])
}

fn stamp(random: &mut Random) -> Stamp {
    Stamp(maybe(random, repair).map_or(0, |repair| repair.0))
}

fn slice(random: &mut Random) -> SliceId {
    SliceId { repair: repair(random), lane: lane_number(random), slice: random.next_u64() as u32 }
}

fn lane_number(random: &mut Random) -> u16 {
    random.next_u64() as u16
}

fn crc(random: &mut Random) -> u32 {
    random.next_u64() as u32
}

fn range(random: &mut Random) -> Range {
    Range { from: number(random), to: number(random) }
}

fn node(random: &mut Random) -> NodeId {
    NodeId(random.next_u64() as u32)
}

fn chunk(random: &mut Random) -> ChunkIndex {
    ChunkIndex(random.next_u64() as u8)
}

fn stripe_id(random: &mut Random) -> StripeId {
    StripeId(number(random))
}

fn repair(random: &mut Random) -> RepairId {
    RepairId(number(random))
}

/// Small, large, and everything between.
fn number(random: &mut Random) -> u64 {
    random.next_u64() >> random.below(64)
}

fn maybe<T>(random: &mut Random, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
    random.per_mille(500).then(|| make(random))
}

fn some<T>(random: &mut Random, make: impl Fn(&mut Random) -> T) -> Vec<T> {
    (0..random.below(4)).map(|_| make(random)).collect()
}

fn result<E>(random: &mut Random, make: impl FnOnce(&mut Random) -> E) -> Result<(), E> {
    maybe(random, make).map_or(Ok(()), Err)
}
