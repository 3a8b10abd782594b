//! What an agent keeps when a task goes on another way, and what it asks for after that.

use crate::host::{
    self, CHUNK, HELPERS, Host, NEW, OLD, OTHER, SLICE, SLICES, beats, failures, relayed,
};
use suture_repair::agent::{AgentInput, AgentOutput};
use suture_repair::id::{EdgeRef, RepairId};
use suture_repair::message::{Failure, Refusal, Task, ToAgent};
use suture_repair::plan::Range;
use suture_repair::slice::SliceId;
use suture_repair::time::Span;

/// Far more than any of these tasks takes.
const POOL: u64 = 1 << 20;

/// Two helpers send to this node, which keeps what it has where it is asked to.
fn star(repair: RepairId) -> Task {
    Task { skips: true, ..host::star(repair, 0, CHUNK) }
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

/// Lane by lane, with which slice each grant states that it begins.
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
    let mut host = Host::new(POOL);
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
    let mut host = Host::new(POOL);
    let outputs = host.begin(star(OLD));
    host.flow(outputs, 7);
    let outputs = host.begin(goes_on(in_two_lanes(star(OLD))));
    assert_eq!(firsts(&outputs), [(0, 4), (1, 3)]);
}

#[test]
fn a_destination_keeps_what_it_has_when_a_helper_is_lost_and_says_so() {
    let mut host = Host::new(POOL);
    let outputs = host.begin(star(OLD));
    host.flow(outputs, 4);
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    let failed = [(OLD, Failure::PeerLost(HELPERS[0]))];
    assert_eq!(failures(&outputs), failed);
    assert!(!has(&outputs, |output| matches!(output, AgentOutput::Discard(_))));
    host.tell(ToAgent::Forget(OLD));
    assert_eq!(failures(&host.pass(Span::from_secs(1))), failed, "until it is told otherwise");
    let outputs = host.begin(goes_on(star(OLD)));
    assert!(has(&outputs, is_continued) && failures(&outputs).is_empty());
    assert_eq!(firsts(&outputs), [(0, 4)]);
    assert_eq!(failures(&host.pass(Span::from_secs(1))), [], "it has all that it needs");
}

#[test]
fn what_is_kept_ends_with_its_cancel_and_by_itself_when_nobody_answers() {
    let lost = || {
        let mut host = Host::new(POOL);
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
    let last = host.pass_alone(Span::from_secs(70));
    assert!(failures(&last).contains(&(OLD, Failure::Stalled)));
    assert!(host.agent.status().running.is_empty());
}

#[test]
fn helpers_keep_nothing_and_neither_does_who_was_not_asked_to() {
    let mut host = Host::new(POOL);
    host.dispatch(relayed(star(OLD)));
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    assert!(has(&outputs, |output| matches!(output, AgentOutput::Discard(OLD))));
    let mut host = Host::new(POOL);
    host.begin(Task { skips: false, ..star(OLD) });
    let outputs = host.handle(AgentInput::PeerLost(HELPERS[0]));
    assert!(has(&outputs, |output| matches!(output, AgentOutput::Discard(OLD))));
}

#[test]
fn where_nothing_is_there_a_task_that_skips_begins_anew() {
    let mut host = Host::new(POOL);
    let outputs = host.begin(goes_on(star(OLD)));
    assert!(has(&outputs, is_prepared));
    assert_eq!(firsts(&outputs), [(0, 0)]);
    let mut host = Host::new(POOL);
    host.dispatch(star(OLD));
    let outputs = host.dispatch(goes_on(star(OLD)));
    assert!(matches!(outputs[0], AgentOutput::Discard(OLD)), "it had no file yet: {outputs:?}");
    assert!(has(&outputs, is_prepared));
}

#[test]
fn what_is_handed_on_twice_in_a_row_is_still_there() {
    let last = RepairId::new(1, 3);
    let mut host = Host::new(POOL);
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
    let mut host = Host::new(POOL);
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
    let mut host = Host::new(POOL);
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
        let mut host = Host::new(POOL);
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
        assert_eq!(wanted, [6, 7], "nothing of what is there");
    }
}

/// The edges of which the last of these beats reports that they wait, if there is a beat.
fn waits(outputs: &[AgentOutput]) -> Option<Vec<EdgeRef>> {
    beats(outputs).last().map(|beat| beat.waits.clone())
}

#[test]
fn who_was_granted_slices_and_sends_none_is_named_before_the_next_beat_and_with_each() {
    let mut host = Host::new(POOL);
    let begun = host.begin(star(OLD));
    let granted = begun.iter().find_map(|output| match output {
        AgentOutput::Grant { to, below, .. } if *to == HELPERS[0] => Some(*below),
        _ => None,
    });
    let edge = |peer| EdgeRef { repair: OLD, lane: 0, peer };
    let look = |host: &mut Host| waits(&host.pass(Span::from_millis(250)));
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
    let mut host = Host::new(POOL);
    host.begin(star(OLD));
    host.now = host.now + Span::from_secs(9);
    assert_eq!(waits(&host.handle(AgentInput::Tick)), Some(vec![]));
}
