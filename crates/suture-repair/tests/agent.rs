//! What an agent sends and does when a schedule gates, holds or continues its tasks.

use crate::host::{
    CHUNK, HELPERS, Host, NEW, OLD, OTHER, SLICE, STALL, WINDOW, beats, failures, relayed, star,
};
use suture_repair::agent::{AgentInput, AgentOutput};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, EdgeRef, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::message::{
    Check, CopyFault, DiskState, Failure, FromAgent, LinkReport, Moved, Refusal, RepairLimit,
    SentTo, Task, ToAgent,
};
use suture_repair::pump::WINDOW_MAX;
use suture_repair::slice::{PAYLOAD_BYTES_MAX, SliceId};
use suture_repair::time::Span;

/// For one task and no more.
const POOL: u64 = 2 * (WINDOW * SLICE) as u64;

fn gated() -> Task {
    Task { gated: true, ..star(OLD, 0, CHUNK) }
}

fn release(child: NodeId) -> ToAgent {
    ToAgent::Release { repair: OLD, lane: 0, child }
}

fn has_grant(outputs: &[AgentOutput]) -> bool {
    outputs.iter().any(|output| matches!(output, AgentOutput::Grant { .. }))
}

#[test]
fn an_edge_that_has_arrived_is_said_at_once_and_in_every_beat() {
    let mut host = Host::new(POOL);
    let mut outputs = host.begin(gated());
    assert!(!has_grant(&outputs), "nothing is released");
    outputs = host.tell(release(HELPERS[1]));
    outputs = host.flow(outputs, 10);
    let first = [EdgeRef { repair: OLD, lane: 0, peer: HELPERS[1] }];
    let [beat] = beats(&outputs)[..] else { panic!("one beat: {outputs:?}") };
    assert_eq!(beat.arrived, first);
    assert_eq!(beat.running, [(OLD, CHUNK / 3 / u64::from(SLICE) * u64::from(SLICE))]);
    let later = host.pass(Span::from_secs(3));
    assert!(beats(&later).iter().all(|beat| beat.arrived == first) && beats(&later).len() == 3);
    let again = host.tell(release(HELPERS[1]));
    assert!(again.is_empty(), "it came long ago: {again:?}");
    // The session breaks; the next one begins with all that is known.
    host.handle(AgentInput::Disconnected);
    let outputs = host.handle(AgentInput::Connected { epoch: 1 });
    assert_eq!(beats(&outputs)[0].arrived, first);
    let outputs = host.tell(release(HELPERS[0]));
    let outputs = host.flow(outputs, 10);
    assert_eq!(beats(&outputs)[0].arrived.len(), 2);
    assert!(outputs.iter().any(|output| matches!(output, AgentOutput::Publish { .. })));
}

#[test]
fn releases_that_come_before_the_task_are_remembered_unless_it_is_over() {
    let mut host = Host::new(POOL);
    host.tell(release(HELPERS[0]));
    let outputs = host.begin(gated());
    assert!(has_grant(&outputs));
    host.tell(ToAgent::Cancel(OLD));
    host.tell(release(HELPERS[0]));
    assert!(host.begin(gated()).iter().all(|output| matches!(output, AgentOutput::Discard(_))));
}

#[test]
fn without_a_coordinator_who_waits_for_a_release_or_is_held_does_not_stall_and_others_do() {
    let long = Span { ns: 3 * STALL.ns };
    let stalled = [(OLD, Failure::Stalled)];
    let mut host = Host::new(POOL);
    host.begin(gated());
    assert!(failures(&host.pass_alone(long)).is_empty(), "it waits for a release");
    host.tell(release(HELPERS[0]));
    assert!(failures(&host.pass(long)).is_empty(), "a coordinator decides by itself");
    assert!(failures(&host.pass_alone(STALL)).is_empty(), "the clock began anew");
    assert_eq!(failures(&host.pass_alone(long))[..1], stalled);

    let mut host = Host::new(POOL);
    host.begin(star(OLD, 0, CHUNK));
    host.tell(ToAgent::Hold { repair: OLD, held: true });
    assert!(failures(&host.pass_alone(long)).is_empty(), "it is held");
    host.tell(ToAgent::Hold { repair: OLD, held: false });
    assert_eq!(failures(&host.pass_alone(long))[..1], stalled);
}

#[test]
fn a_task_that_continues_takes_the_file_and_the_memory_of_the_one_before() {
    let mut host = Host::new(POOL);
    let outputs = host.begin(star(OLD, 0, CHUNK));
    host.flow(outputs, 4);
    let half = 4 * u64::from(SLICE);
    assert_eq!(host.agent.status().running, [(OLD, half)]);
    let next = Task { continues: Some(OLD), ..star(NEW, half, CHUNK) };
    let outputs = host.dispatch(next.clone());
    let [AgentOutput::Continue { repair: NEW, from: OLD }] = outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(host.agent.status().running, [(NEW, half)]);
    let outputs = host.handle(AgentInput::Prepared { repair: NEW, result: Ok(()) });
    assert!(host.tell(ToAgent::Cancel(OLD)).is_empty());
    assert!(host.dispatch(next).is_empty());
    let outputs = host.flow(outputs, 6);
    let publishes = |output: &AgentOutput| {
        matches!(output, AgentOutput::Publish { repair: NEW, bytes: CHUNK, copy, .. }
            if copy.stamp == Stamp::from(NEW))
    };
    assert!(outputs.iter().any(publishes));
    assert_eq!(host.agent.status().running, [(NEW, CHUNK)]);
}

#[test]
fn a_task_that_does_not_fit_is_refused_at_once_and_does_not_wait() {
    let mut host = Host::new(POOL);
    host.begin(star(OLD, 0, CHUNK));
    let outputs = host.dispatch(star(NEW, 0, CHUNK));
    let needed = 2 * u64::from(WINDOW * SLICE);
    assert_eq!(failures(&outputs), [(NEW, Failure::NoBuffers { needed, free: 0 })]);
    host.tell(ToAgent::Cancel(OLD));
    assert_eq!(host.agent.status().running, [], "it is not begun once there is memory");
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_and_stays_as_it_was() {
    let half = 4 * u64::from(SLICE);
    let refusal = |host: &mut Host, task: Task| {
        let outputs = host.dispatch(task);
        match &failures(&outputs)[..] {
            [(_, Failure::Refused(refusal))] => *refusal,
            other => panic!("{other:?}"),
        }
    };
    let go_on = |sequence: u32, from| {
        let repair = RepairId::new(1, sequence);
        Task { continues: Some(OLD), ..star(repair, from, CHUNK) }
    };
    let mut host = Host::new(POOL);
    assert_eq!(refusal(&mut host, go_on(10, half)), Refusal::CannotContinue, "not here");
    host.dispatch(star(OLD, 0, CHUNK));
    assert_eq!(refusal(&mut host, go_on(11, 0)), Refusal::CannotContinue, "no file yet");
    let outputs = host.handle(AgentInput::Prepared { repair: OLD, result: Ok(()) });
    host.flow(outputs, 3);
    assert_eq!(refusal(&mut host, go_on(12, half)), Refusal::CannotContinue, "not far enough");
    let mut other = go_on(13, 0);
    other.stripe.id = StripeId(2);
    other.plan.stripe = StripeId(2);
    assert_eq!(refusal(&mut host, other), Refusal::CannotContinue, "another stripe");
    let part = Task { continues: Some(OLD), ..star(RepairId::new(1, 14), 0, half) };
    assert_eq!(refusal(&mut host, part), Refusal::Ability, "it leaves something out");
    let alone = Task { continues: None, ..go_on(15, half) };
    assert_eq!(refusal(&mut host, alone), Refusal::Ability, "nobody did the rest");
    let itself = Task { continues: Some(NEW), ..star(NEW, half, CHUNK) };
    assert_eq!(refusal(&mut host, itself), Refusal::InvalidPlan, "it continues itself");
    assert_eq!(host.agent.status().running, [(OLD, 3 * u64::from(SLICE))]);

    let mut host = Host::new(POOL);
    let outputs = host.begin(star(OLD, 0, CHUNK));
    host.flow(outputs, 10);
    assert_eq!(refusal(&mut host, go_on(16, half)), Refusal::CannotContinue, "it is publishing");
}

#[test]
fn helpers_end_the_attempt_that_is_gone_on_with_and_need_no_room_for_both() {
    let mut host = Host::new(POOL);
    // Here this node is the only relay of a chain and another one keeps the chunk.
    host.dispatch(relayed(star(OLD, 0, CHUNK)));
    let next = Task { continues: Some(OLD), ..relayed(star(NEW, u64::from(SLICE), CHUNK)) };
    let outputs = host.dispatch(next);
    assert!(matches!(outputs[0], AgentOutput::Discard(OLD)) && has_grant(&outputs), "{outputs:?}");
    assert!(host.tell(ToAgent::Cancel(OLD)).is_empty());
    assert_eq!(host.agent.status().running.len(), 1);
}

fn grant(repair: RepairId, below: u32) -> AgentInput {
    AgentInput::Granted { from: OTHER, repair, lane: 0, first: 0, below }
}

fn has_delivery(outputs: &[AgentOutput]) -> bool {
    outputs.iter().any(|output| matches!(output, AgentOutput::Deliver { .. }))
}

#[test]
fn a_grant_that_comes_before_the_task_is_remembered() {
    for comes_early in [false, true] {
        let mut host = Host::new(POOL);
        if comes_early {
            assert!(host.handle(grant(OLD, 1)).is_empty());
        }
        let outputs = host.dispatch(relayed(star(OLD, 0, CHUNK)));
        let outputs = host.flow(outputs, 1);
        assert_eq!(has_delivery(&outputs), comes_early, "{outputs:?}");
    }
}

#[test]
fn a_task_whose_last_slice_has_left_is_not_begun_again() {
    let mut host = Host::new(POOL);
    host.handle(grant(OLD, 10));
    let outputs = host.dispatch(relayed(star(OLD, 0, CHUNK)));
    host.flow(outputs, 10);
    assert!(host.agent.status().running.is_empty());
    assert!(host.dispatch(relayed(star(OLD, 0, CHUNK))).is_empty());
    assert!(host.agent.status().running.is_empty());
}

#[test]
fn a_task_that_was_cancelled_before_it_came_is_not_begun() {
    let mut host = Host::new(POOL);
    host.tell(ToAgent::Cancel(OLD));
    assert!(host.dispatch(star(OLD, 0, CHUNK)).is_empty());
    assert!(host.agent.status().running.is_empty());
}

#[test]
fn what_ended_long_ago_is_not_begun_again_though_few_ends_are_remembered() {
    let mut host = Host::new(POOL);
    (0..=4096).for_each(|sequence| drop(host.tell(ToAgent::Cancel(RepairId::new(1, sequence)))));
    for sequence in [0, 1, 4096] {
        let task = star(RepairId::new(1, sequence), 0, CHUNK);
        assert!(host.dispatch(task).is_empty(), "{sequence}");
    }
    let task = star(RepairId::new(1, 4097), 0, CHUNK);
    assert!(!host.dispatch(task).is_empty());
}

#[test]
fn a_failure_is_repeated_until_the_coordinator_cancels_the_repair() {
    let mut host = Host::new(POOL);
    host.begin(star(OLD, 0, CHUNK));
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    let failed = [(OLD, Failure::PeerLost(HELPERS[0]))];
    assert_eq!(failures(&outputs), failed);
    assert_eq!(failures(&host.pass(Span::from_secs(1))), failed);
    host.tell(ToAgent::Cancel(OLD));
    assert_eq!(failures(&host.pass(Span::from_secs(3))), []);
}

#[test]
fn a_grant_of_a_parent_that_is_gone_is_not_kept_for_another_attempt() {
    let mut host = Host::new(POOL);
    host.handle(grant(OLD, 5));
    let outputs = host.dispatch(relayed(star(NEW, 0, CHUNK)));
    assert!(!has_delivery(&host.flow(outputs, 1)), "it was for another repair");
}

#[test]
fn time_in_which_the_agent_slept_is_no_standstill() {
    let mut host = Host::new(POOL);
    host.begin(star(OLD, 0, CHUNK));
    let runs = |host: &Host| !host.agent.status().running.is_empty();
    host.handle(AgentInput::Disconnected);
    host.pass(Span::from_secs(50));
    host.now = host.now + Span::from_secs(30);
    host.handle(AgentInput::Tick);
    host.pass(Span::from_secs(9));
    assert!(runs(&host), "nobody was there to take slices");
    host.pass(Span::from_secs(3));
    assert!(!runs(&host));
}

#[test]
fn a_beat_that_is_a_little_late_excuses_nothing() {
    let mut host = Host::new(POOL);
    host.begin(star(OLD, 0, CHUNK));
    host.handle(AgentInput::Disconnected);
    for _ in 0..7 {
        host.now = host.now + Span::from_secs(10);
        host.handle(AgentInput::Tick);
    }
    let outputs = host.handle(AgentInput::Connected { epoch: 1 });
    assert_eq!(failures(&outputs)[..1], [(OLD, Failure::Stalled)]);
}

#[test]
fn a_task_that_makes_no_sense_is_refused() {
    let refused = |change: &dyn Fn(&mut Task)| {
        let (mut host, mut task) = (Host::new(POOL), star(OLD, 0, CHUNK));
        change(&mut task);
        let outputs = host.dispatch(task);
        failures(&outputs).into_iter().map(|(_, why)| why).next()
    };
    let invalid = Some(Failure::Refused(Refusal::InvalidPlan));
    assert_eq!(refused(&|_| ()), None);
    assert_eq!(refused(&|task| task.window = 0), invalid);
    assert_eq!(refused(&|task| task.window = WINDOW_MAX + 1), invalid);
    assert_ne!(refused(&|task| task.window = WINDOW_MAX), invalid);
    assert_eq!(refused(&|task| task.slice_bytes = 0), invalid);
    assert_eq!(refused(&|task| task.slice_bytes = PAYLOAD_BYTES_MAX + 64), invalid);
    assert_eq!(refused(&|task| task.slice_bytes = 100), invalid, "kernels take multiples of 64");
    assert_eq!(refused(&|task| task.stripe.chunk_bytes = 0), invalid);
}

#[test]
fn a_chunk_that_is_being_published_is_not_published_again() {
    let mut host = Host::new(POOL);
    let outputs = host.begin(star(OLD, 0, CHUNK));
    let is_publish = |output: &AgentOutput| matches!(output, AgentOutput::Publish { .. });
    assert!(host.flow(outputs, 10).iter().any(is_publish));
    for held in [true, false] {
        assert!(!host.tell(ToAgent::Hold { repair: OLD, held }).iter().any(is_publish));
    }
}

#[test]
fn few_outcomes_are_under_way_and_each_that_is_forgotten_lets_one_follow() {
    let mut host = Host::new(POOL);
    let mut count = 0;
    for sequence in 1..=300 {
        // Of an epoch that has passed.
        let task = star(RepairId::new(0, sequence), 0, CHUNK);
        let failed = failures(&host.dispatch(task));
        let is_refused = |(_, why): &_| *why == Failure::Refused(Refusal::StaleEpoch);
        assert!(failed.iter().all(is_refused), "{failed:?}");
        count += failed.len();
    }
    assert_eq!(count, 256);
    let forget = |host: &mut Host, sequence| {
        let outputs = host.tell(ToAgent::Forget(RepairId::new(0, sequence)));
        failures(&outputs).into_iter().map(|(repair, _)| repair).collect::<Vec<_>>()
    };
    assert_eq!(forget(&mut host, 1), [RepairId::new(0, 257)]);
    assert_eq!(forget(&mut host, 2), [RepairId::new(0, 258)]);
    assert_eq!(forget(&mut host, 2), [], "it was forgotten before");
}

#[test]
fn a_peer_that_is_lost_after_its_last_slice_came_is_not_missed() {
    for is_gated in [false, true] {
        let mut host = Host::new(POOL);
        let mut outputs = host.begin(Task { gated: is_gated, ..star(OLD, 0, CHUNK) });
        if is_gated {
            outputs = host.tell(release(HELPERS[0]));
        }
        host.flow(outputs, 6);
        for slice in 6..10 {
            let id = SliceId { repair: OLD, lane: 0, slice };
            assert!(host.agent.wants(HELPERS[0], id), "{slice}");
            host.handle(AgentInput::SliceArrived { from: HELPERS[0], id });
        }
        assert_eq!(failures(&host.handle(AgentInput::PeerLost(HELPERS[0]))), []);
        let lost = Failure::PeerLost(HELPERS[1]);
        assert_eq!(failures(&host.handle(AgentInput::PeerLost(HELPERS[1]))), [(OLD, lost)]);
    }
}

#[test]
fn what_links_carried_between_two_heartbeats_is_told_once_and_together() {
    let mut host = Host::new(POOL);
    let sent_to = |bytes, ms| SentTo { peer: HELPERS[0], bytes, waited: Span::from_millis(ms) };
    let measured = |repair| {
        let sent = Moved { repair, others: 1 };
        let sent_to = vec![sent_to(repair, 100), SentTo { peer: HELPERS[1], ..sent_to(repair, 0) }];
        let span = Span::from_secs(1);
        Box::new(LinkReport { span, sent, sent_to, ..LinkReport::default() })
    };
    host.pass(Span::from_secs(1));
    host.handle(AgentInput::Measured(measured(5)));
    host.handle(AgentInput::Measured(measured(7)));
    let limit = RepairLimit { up: Some(9), down: None };
    let [AgentOutput::Limit(kept)] = host.tell(ToAgent::Limit(limit))[..] else {
        panic!("its driver keeps to it")
    };
    assert_eq!(kept, limit);
    let told = |outputs: Vec<AgentOutput>| {
        let links = |output| match output {
            AgentOutput::Send(message) => match *message {
                FromAgent::Heartbeat(beat) => beat.links,
                _ => None,
            },
            _ => None,
        };
        outputs.into_iter().filter_map(links).map(|links| *links).collect::<Vec<LinkReport>>()
    };
    let sent = Moved { repair: 12, others: 2 };
    let both = LinkReport {
        span: Span::from_secs(2),
        sent,
        limit,
        sent_to: vec![sent_to(12, 200), SentTo { peer: HELPERS[1], ..sent_to(12, 0) }],
        ..LinkReport::default()
    };
    assert_eq!(told(host.pass(Span::from_secs(1))), [both]);
    assert_eq!(told(host.pass(Span::from_secs(2))), [], "nothing was measured since");
}

fn copy_here(stamp: u64) -> ChunkCopy {
    ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(0), stamp: Stamp(stamp) }
}

/// The copies of the inventory that is sent, if one is.
fn inventory(outputs: &[AgentOutput]) -> Option<Vec<ChunkCopy>> {
    outputs.iter().find_map(|output| match output {
        AgentOutput::Send(message) => match &**message {
            FromAgent::Inventory(copies) => Some(copies.iter().map(|listed| listed.copy).collect()),
            _ => None,
        },
        _ => None,
    })
}

fn has_sent(outputs: &[AgentOutput], wanted: &FromAgent) -> bool {
    outputs.iter().any(|output| matches!(output, AgentOutput::Send(sent) if **sent == *wanted))
}

#[test]
fn an_order_of_another_session_removes_nothing() {
    let mut host = Host::new(POOL);
    let copy = copy_here(1);
    let delete = |session| ToAgent::Delete { epoch: 1, session, copy };
    let removes = |said: &[AgentOutput]| {
        said.iter().any(|output| matches!(output, AgentOutput::Delete(gone) if *gone == copy))
    };
    let said = host.handle(AgentInput::Connected { epoch: 1 });
    let session = said.iter().find_map(|output| match output {
        AgentOutput::Send(message) => match **message {
            FromAgent::Hello(hello) => Some(hello.session),
            _ => None,
        },
        _ => None,
    });
    let session = session.expect("it introduces itself in each session");
    for other in [0, session - 1, session + 1] {
        assert!(!removes(&host.tell(delete(other))), "{other}, not {session}");
    }
    assert!(removes(&host.tell(delete(session))));
}

#[test]
fn a_copy_that_is_deleted_while_it_is_read_is_missing() {
    let check = Check { copy: copy_here(1), digest: Digest::default(), excess: None };
    let read = |host: &mut Host| {
        host.handle(AgentInput::Checked { check: Box::new(check), result: Ok(()) })
    };
    let is_asked = |said: &[AgentOutput]| {
        said.iter().any(|output| matches!(output, AgentOutput::Check(asked) if **asked == check))
    };
    let missing = FromAgent::Bad { copy: check.copy, fault: CopyFault::Missing };
    let verified = FromAgent::Verified(check);

    // It is read to its end before it is gone.
    let mut host = Host::new(POOL);
    host.tell(ToAgent::Check(check));
    host.tell(ToAgent::Delete { epoch: 1, session: 2, copy: check.copy });
    let said = read(&mut host);
    assert!(has_sent(&said, &missing) && !has_sent(&said, &verified), "{said:?}");

    // It is gone before, and asked for again: what the first read found counts for nothing.
    let mut host = Host::new(POOL);
    host.tell(ToAgent::Check(check));
    host.tell(ToAgent::Delete { epoch: 1, session: 2, copy: check.copy });
    assert!(has_sent(&host.handle(AgentInput::Deleted(check.copy)), &missing));
    assert!(!is_asked(&host.tell(ToAgent::Check(check))), "it is being read");
    let said = read(&mut host);
    assert!(is_asked(&said) && !has_sent(&said, &verified), "{said:?}");
    assert!(has_sent(&read(&mut host), &verified));

    // Without another request nothing is sent.
    host.tell(ToAgent::Check(check));
    host.tell(ToAgent::Delete { epoch: 1, session: 2, copy: check.copy });
    host.handle(AgentInput::Deleted(check.copy));
    assert!(read(&mut host).is_empty());
}

#[test]
fn a_listing_that_runs_says_nothing_of_what_has_gone_meanwhile() {
    let mut host = Host::new(POOL);
    host.pass(Span::from_secs(1));
    let listed = |stamps: [u64; 3]| {
        let copies = stamps.map(|stamp| copy_here(stamp).into()).to_vec();
        AgentInput::Listed { copies, free_bytes: 1 }
    };
    let check = Check { copy: copy_here(2), digest: Digest::default(), excess: None };
    host.tell(ToAgent::Check(check));
    let result = Err(CopyFault::Missing);
    host.handle(AgentInput::Checked { check: Box::new(check), result });
    let said = host.handle(listed([1, 2, 3]));
    assert_eq!(inventory(&said), Some(vec![copy_here(1), copy_here(3)]));
    // The next one begins later than all of that.
    host.tell(ToAgent::List);
    assert_eq!(inventory(&host.handle(listed([1, 2, 3]))).map(|copies| copies.len()), Some(3));
    // A listing that failed shows nothing, and neither does what went while it ran.
    host.tell(ToAgent::List);
    host.tell(ToAgent::Check(check));
    host.handle(AgentInput::Checked { check: Box::new(check), result });
    assert!(has_sent(&host.handle(AgentInput::NotListed), &FromAgent::NotListed));
    host.tell(ToAgent::List);
    assert_eq!(inventory(&host.handle(listed([1, 2, 3]))).map(|copies| copies.len()), Some(3));
    // What a check has read while it ran is there.
    host.tell(ToAgent::List);
    host.tell(ToAgent::Check(check));
    host.handle(AgentInput::Checked { check: Box::new(check), result: Ok(()) });
    assert_eq!(inventory(&host.handle(listed([1, 2, 3]))).map(|copies| copies.len()), Some(3));
    // Where no listing runs, nothing needs to be remembered.
    host.handle(AgentInput::Checked { check: Box::new(check), result });
    host.tell(ToAgent::List);
    assert_eq!(inventory(&host.handle(listed([1, 2, 3]))).map(|copies| copies.len()), Some(3));
}

#[test]
fn beats_say_how_the_disk_is() {
    let mut host = Host::new(POOL);
    let says = |said: &[AgentOutput]| {
        said.iter().rev().find_map(|output| match output {
            AgentOutput::Send(message) => match &**message {
                FromAgent::Heartbeat(beat) => Some(beat.disk),
                _ => None,
            },
            _ => None,
        })
    };
    assert_eq!(says(&host.pass(Span::from_secs(2))), Some(DiskState::Good));
    host.handle(AgentInput::Disk(DiskState::Hanging));
    assert_eq!(says(&host.pass(Span::from_secs(2))), Some(DiskState::Hanging));
    host.handle(AgentInput::Disk(DiskState::Good));
    assert_eq!(says(&host.pass(Span::from_secs(2))), Some(DiskState::Good));
}

#[test]
fn a_disk_that_is_listed_for_long_rests_as_long() {
    let mut host = Host::new(POOL);
    let is_list = |output: &AgentOutput| matches!(output, AgentOutput::List);
    // The first of its session, for three hours, while one an hour is wanted.
    assert!(!host.pass(Span::from_secs(10_800)).iter().any(is_list), "one runs");
    let listed = || AgentInput::Listed { copies: Vec::new(), free_bytes: 1 << 30 };
    assert!(!host.handle(listed()).iter().any(is_list));
    assert!(!host.pass(Span::from_secs(10_700)).iter().any(is_list), "it rests");
    assert!(host.pass(Span::from_secs(200)).iter().any(is_list));
    // A short one does not move the next.
    host.handle(listed());
    assert!(!host.pass(Span::from_secs(3400)).iter().any(is_list));
    assert!(host.pass(Span::from_secs(300)).iter().any(is_list));
}
