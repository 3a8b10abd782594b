//! How rebuilt chunks without a recorded checksum are proven: by fingerprints, and by which of
//! them.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::coordinator::Config;
use suture_repair::event::{Blocked, Command, Input, Liveness, NodeState, Output, Report};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{Check, CopyFault, Failure, FromAgent, Heartbeat, Task, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe};

/// A stripe of zeros without a recorded checksum, and whose chunk 0 is being rebuilt.
fn unrecorded(code: &str) -> (Story, Task) {
    unrecorded_without(code, 1)
}

/// A stripe without recorded checksums, chunk 0 on node 0.
fn without_checksums(code: &str) -> Stripe {
    let code: suture_code::Code = code.parse().unwrap();
    let record = |node: u32| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(0),
        bytes: 4096,
        crc: None,
    };
    let chunks = (0..code.chunk_count() as u32).map(record).collect();
    Stripe { code, chunks, ..stripe(0, [0; 4]) }
}

/// The same, without so many of its first chunks.
fn unrecorded_without(code: &str, lost: u32) -> (Story, Task) {
    let stripe = without_checksums(code);
    let count = stripe.chunks.len() as u32 + 3;
    let mut story = Story::new(count, [stripe]);
    (0..count).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::Pause));
    (0..lost).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().pop().expect("it can be rebuilt");
    (story, task)
}

/// The destination reports that the chunk is written; every holder answers, these chunks with sums
/// that are not those of zeros. Returns whose fingerprints were asked for, and all other outputs.
fn prove(story: &mut Story, task: &Task, wrong: &[u8]) -> (Vec<u8>, Vec<Output>) {
    let (mut asked, mut said) = (Vec::new(), Vec::new());
    let (chunk, destination) = task.plan.destinations.first_key_value().expect("a destination");
    let beat = Heartbeat {
        incarnation: 1,
        free_bytes: 1 << 30,
        running: vec![(task.repair, 4096)],
        written: vec![task.repair],
        ..Heartbeat::default()
    };
    story.hear(destination.0, FromAgent::Heartbeat(beat));
    loop {
        let mut requests = Vec::new();
        for output in story.take() {
            match output {
                Output::Send { to, message: ToAgent::Fingerprint(request) } => {
                    requests.push((to, request));
                }
                other => said.push(other),
            }
        }
        if requests.is_empty() {
            return (asked, said);
        }
        for (node, request) in requests {
            let is_made = (node, request.copy.stamp) == (*destination, Stamp::from(task.repair));
            assert_eq!(is_made, request.copy.chunk == *chunk);
            let sum = u8::from(wrong.contains(&request.copy.chunk.0));
            asked.push(request.copy.chunk.0);
            let (repair, copy) = (request.repair, request.copy);
            let sums = vec![sum; 16 << 10].into();
            story.hear(node.0, FromAgent::Fingerprint { repair, copy, sums });
        }
    }
}

#[test]
fn a_chunk_without_a_recorded_checksum_is_published_when_fingerprints_fit() {
    let (mut story, task) = unrecorded("rs(2,2)");
    let (mut asked, said) = prove(&mut story, &task, &[]);
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let publish =
        |to, message: &ToAgent| to == destination && *message == ToAgent::Publish(task.repair);
    assert!(sent(&said, publish), "{said:?}");
    asked.sort_unstable();
    let survivors = task.survivors();
    let helpers = task.plan.lanes[0].helpers(&task.facts(&survivors));
    let other = (1..4).find(|chunk| !helpers.contains(&ChunkIndex(*chunk))).expect("two help");
    assert!(asked.len() == 3 && asked.contains(&0) && asked.contains(&other), "{asked:?}");
    // It sends that again, in case that it was not received.
    let (asked, said) = prove(&mut story, &task, &[]);
    assert!(asked.is_empty() && sent(&said, publish));
    let commit = story.store(&task);
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 0);
}

#[test]
fn a_chunk_whose_fingerprint_does_not_fit_is_rebuilt_again() {
    let (mut story, task) = unrecorded("rs(2,2)");
    let (_, said) = prove(&mut story, &task, &[0]);
    assert!(!sent(&said, |_, message| matches!(message, ToAgent::Publish(_))), "{said:?}");
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let why = Failure::Inconsistent;
    let failed = Report::Failed { repair: task.repair, node: Some(destination), why };
    assert!(said.contains(&Output::Report(failed)), "{said:?}");
    assert!(sent(&said, |to, m| to == destination && *m == ToAgent::Cancel(task.repair)));
    story.wait(1, 1..7);
    assert_eq!(story.dispatched().len(), 1, "another attempt");
}

#[test]
fn a_copy_that_is_wrong_though_it_can_be_read_is_found_and_rebuilt() {
    let (mut story, task) = unrecorded("rs(2,3)");
    let survivors = task.survivors();
    let helper = task.plan.lanes[0].helpers(&task.facts(&survivors))[0];
    let (asked, said) = prove(&mut story, &task, &[0, helper.0]);
    assert_eq!(asked.len(), 5, "in the end all of them");
    let (node, copy) = (NodeId(u32::from(helper.0)), copy(0, helper.0, 0));
    let lost = Report::ChunkLost { node, copy, fault: CopyFault::Corrupt };
    assert!(said.contains(&Output::Report(lost)), "{said:?}");
    assert_eq!(story.core.status().lost_chunks, 2);
}

#[test]
fn a_copy_that_the_keeper_counts_as_good_keeps_no_other_chunk_from_being_rebuilt() {
    let removes_copies = |config| Config { deletes: false, ..config };
    let stripe = without_checksums("rs(2,3)");
    let keeper = ("suture", Liveness::Keeper);
    let mut story = Story::configured(removes_copies, keeper, 8, [stripe]);
    (0..8).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::NodeState { node: NodeId(0), state: NodeState::Dead });
    let task = story.dispatched().pop().expect("it can be rebuilt");
    let survivors = task.survivors();
    let wrong = task.plan.lanes[0].helpers(&task.facts(&survivors))[0];
    let (_, said) = prove(&mut story, &task, &[0, wrong.0]);
    assert_eq!(story.core.status().lost_chunks, 2);
    // No claim would be granted for the chunk that is there.
    let again = said.into_iter().find_map(|output| match output {
        Output::Send { message: ToAgent::Dispatch(task), .. } => Some(task),
        _ => None,
    });
    let task = again.expect("another attempt, at once");
    assert_eq!(task.plan.lost, [ChunkIndex(0)]);
    assert!(!task.plan.participants().contains(&NodeId(u32::from(wrong.0))), "{:?}", task.plan);
    prove(&mut story, &task, &[]);
    let commit = story.store(&task);
    story.accept(commit);
    story.wait(1, 1..8);
    let blocked = story.core.status().blocked;
    let disputed = Blocked::Disputed { node: NodeId(u32::from(wrong.0)) };
    assert_eq!(blocked, [(StripeId(0), disputed)]);
    assert!(story.dispatched().is_empty());
    // Once the keeper counts it as lost it is rebuilt.
    let mut known = story.core.stripes().get(StripeId(0)).expect("it is known").clone();
    known.chunks[usize::from(wrong.0)].node = None;
    known.generation.0 += 1;
    story.give(Input::StripeAdded(known));
    let task = story.dispatched().pop().expect("nothing is against it");
    assert_eq!(task.plan.lost, [wrong]);
}

#[test]
fn what_is_proven_is_published_only_while_its_repair_has_its_claim() {
    let claiming = |config| Config { claims: true, ..config };
    let stripe = without_checksums("rs(2,2)");
    let mut story = Story::configured(claiming, ("suture", Liveness::Own), 7, [stripe]);
    (0..7).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let asked = story.take().into_iter().find_map(|output| match output {
        Output::Claim(claim) => Some(claim.repair),
        _ => None,
    });
    let (repair, label) = (asked.expect("it is claimed"), Label::default());
    story.give(Input::Claimed { repair, label: label.clone() });
    let task = story.dispatched().pop().expect("it may begin");
    let publishes =
        |said: &[Output]| sent(said, |_, message| matches!(message, ToAgent::Publish(_)));
    // Another keeper is asked now; or this one refuses to prolong it.
    for lost in
        [Input::ClaimLost(repair), Input::ClaimRefused { repair, stripe: None, because_of: None }]
    {
        story.give(lost);
        assert!(!publishes(&prove(&mut story, &task, &[]).1));
        story.give(Input::Claimed { repair, label: label.clone() });
        assert!(publishes(&prove(&mut story, &task, &[]).1), "it has it again");
    }
    assert_eq!(story.core.running().count(), 1);
}

#[test]
fn nothing_is_proven_of_a_stripe_that_is_removed_while_another_chunk_commits() {
    let (mut story, task) = unrecorded_without("rs(2,2)", 2);
    assert_eq!(task.plan.lost.len(), 2, "both in one go");
    let commit = story.store(&task);
    story.give(Input::StripeRemoved(StripeId(0)));
    story.take();
    let (asked, said) = prove(&mut story, &task, &[]);
    assert!(asked.is_empty() && said.is_empty(), "{asked:?} {said:?}");
    let other = task.plan.destinations[&ChunkIndex(1)].0;
    let beat = Heartbeat { incarnation: 1, written: vec![task.repair], ..Heartbeat::default() };
    story.hear(other, FromAgent::Heartbeat(beat));
    assert!(story.take().is_empty());
    story.give(Input::CommitRefused { repair: commit.repair, stripe: None });
    assert_eq!(story.core.running().count(), 0);
    assert!(sent(&story.take(), |_, m| *m == ToAgent::Cancel(task.repair)));
}

#[test]
fn fingerprints_that_nobody_asked_for_prove_nothing() {
    let (mut story, task) = unrecorded("rs(2,2)");
    let repair = task.repair;
    for chunk in 0..4 {
        let sums = vec![0; 16 << 10].into();
        let copy = copy(0, chunk, 0);
        story.hear(u32::from(chunk), FromAgent::Fingerprint { repair, copy, sums });
    }
    assert!(story.take().is_empty());
    let destination = task.plan.destinations[&ChunkIndex(0)].0;
    let beat = Heartbeat { incarnation: 1, written: vec![repair], ..Heartbeat::default() };
    story.hear(destination, FromAgent::Heartbeat(beat));
    let requests: Vec<Output> = story.take();
    for output in requests {
        let Output::Send { to, message: ToAgent::Fingerprint(request) } = output else { continue };
        // Too short, or from another node.
        let message = |bytes: usize| FromAgent::Fingerprint {
            repair,
            copy: request.copy,
            sums: vec![0; bytes].into(),
        };
        story.hear(to.0, message(100));
        story.hear((to.0 + 1) % 7, message(16 << 10));
    }
    assert!(!sent(&story.take(), |_, message| matches!(message, ToAgent::Publish(_))));
}

/// What the destination of chunk 0 reports at a beat: it has written the chunk.
fn written(task: &Task) -> (u32, FromAgent) {
    let beat = Heartbeat {
        incarnation: 1,
        free_bytes: 1 << 30,
        running: vec![(task.repair, 4096)],
        written: vec![task.repair],
        ..Heartbeat::default()
    };
    (task.plan.destinations[&ChunkIndex(0)].0, FromAgent::Heartbeat(beat))
}

/// The fingerprints that were asked for: of which node, and of which chunk.
fn requests(said: &[Output]) -> Vec<(u32, u8)> {
    let request = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Fingerprint(request) } => {
            Some((to.0, request.copy.chunk.0))
        }
        _ => None,
    };
    said.iter().filter_map(request).collect()
}

/// A stripe of which one copy is known to be wrong, though it has its own checksums.
fn with_inconsistent() -> (Story, NodeId, ChunkCopy) {
    let (mut story, task) = unrecorded("rs(2,3)");
    let survivors = task.survivors();
    let helper = task.plan.lanes[0].helpers(&task.facts(&survivors))[0];
    prove(&mut story, &task, &[0, helper.0]);
    (story, NodeId(u32::from(helper.0)), copy(0, helper.0, 0))
}

#[test]
fn a_copy_that_does_not_fit_the_others_is_not_good_by_its_own_checksums() {
    let (mut story, node, copy) = with_inconsistent();
    // It is listed, and so are others.
    story.join(node.0 % 4 + 1);
    story.join(node.0);
    let check = Check { copy, digest: story.digest(copy), excess: None };
    story.hear(node.0, FromAgent::Verified(check));
    assert!(story.core.is_lost(copy.stripe, copy.chunk));
    assert_eq!(story.core.status().lost_chunks, 2);
}

#[test]
fn what_is_known_of_a_copy_that_does_not_fit_goes_with_it() {
    let (mut story, ..) = with_inconsistent();
    story.give(Input::StripeRemoved(StripeId(0)));
    assert_eq!(story.core.status().lost_chunks, 0);
    let (mut story, node, copy) = with_inconsistent();
    story.give(Input::Operator(Command::Cancel));
    // The keeper has the chunk elsewhere by now, and the node does not list the copy.
    let mut moved = story.core.stripes().get(StripeId(0)).expect("known").clone();
    moved.chunks[usize::from(copy.chunk.0)].node = Some(NodeId(7));
    moved.generation.0 += 1;
    story.give(Input::StripeAdded(moved));
    story.hear(node.0, FromAgent::Inventory(Vec::new()));
    assert!(!story.core.is_lost(copy.stripe, copy.chunk));
}

#[test]
fn a_copy_that_waits_to_be_read_again_may_turn_out_not_to_fit() {
    let (mut story, task) = unrecorded("rs(2,3)");
    let survivors = task.survivors();
    let helper = task.plan.lanes[0].helpers(&task.facts(&survivors))[0];
    story.hear(u32::from(helper.0), bad(copy(0, helper.0, 0), CopyFault::Unreadable));
    assert_eq!(story.core.status().lost_chunks, 1);
    prove(&mut story, &task, &[0, helper.0]);
    assert_eq!(story.core.status().lost_chunks, 2);
}

#[test]
fn a_fingerprint_of_another_node_or_length_is_not_taken() {
    for (length, other) in [(100, 0), (16 << 10, 1)] {
        let (mut story, task) = unrecorded("rs(2,2)");
        let (node, beat) = written(&task);
        story.hear(node, beat);
        for output in story.take() {
            let Output::Send { to, message: ToAgent::Fingerprint(request) } = output else {
                continue;
            };
            let (repair, copy) = (request.repair, request.copy);
            let sums = vec![0; length].into();
            let from = (to.0 + other) % 7;
            story.hear(from, FromAgent::Fingerprint { repair, copy, sums });
        }
        assert_eq!(story.take(), [], "{length} bytes of node {other} further");
    }
}

#[test]
fn a_fingerprint_is_asked_for_again_after_the_stall_limit_and_not_before() {
    let (mut story, task) = unrecorded("rs(2,2)");
    let (node, beat) = written(&task);
    story.hear(node, beat.clone());
    let first = requests(&story.take());
    assert_eq!(first.len(), 3);
    story.wait(19, 1..7);
    story.hear(node, beat.clone());
    assert_eq!(requests(&story.take()), [], "it may take its time");
    story.wait(1, 1..7);
    story.hear(node, beat);
    assert_eq!(requests(&story.take()), first);
}

fn has_failed(said: &[Output]) -> bool {
    said.iter().any(|output| matches!(output, Output::Report(Report::Failed { .. })))
}

#[test]
fn what_is_written_may_take_eight_stall_limits_and_each_fingerprint_begins_them_anew() {
    let (mut story, task) = unrecorded("rs(2,2)");
    let (node, beat) = written(&task);
    story.hear(node, beat);
    let asked = story.take();
    story.wait(150, 1..7);
    assert!(!has_failed(&story.take()), "all slices are there");
    let request = asked.into_iter().find_map(|output| match output {
        Output::Send { to, message: ToAgent::Fingerprint(request) } => Some((to, request)),
        _ => None,
    });
    let (from, request) = request.expect("asked for");
    let (repair, copy) = (request.repair, request.copy);
    let sums = vec![0; 16 << 10].into();
    story.hear(from.0, FromAgent::Fingerprint { repair, copy, sums });
    story.wait(150, 1..7);
    assert!(!has_failed(&story.take()), "one has come");
    story.wait(20, 1..7);
    assert!(has_failed(&story.take()), "and then none");
}
