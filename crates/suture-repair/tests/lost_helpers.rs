//! What becomes of a repair when a helper is lost: it goes on without it, or begins anew.

use crate::story::{Story, copy, stripe};
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Command, Health, Input, Output, Report};
use suture_repair::id::{ChunkCopy, ChunkIndex, EdgeRef, NodeId, RepairId, Stamp, StripeId};
use suture_repair::message::{
    CopyFault, Failure, FromAgent, Heartbeat, Hello, Refusal, Task, ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::time::Span;

/// One chunk is lost, and is rebuilt from two of three others.
fn one_repair() -> (Story, Task) {
    one_repair_by("star/greedy/all")
}

fn one_repair_by(policy: &str) -> (Story, Task) {
    let mut story = Story::by(policy, 7, [stripe(0, [0, 1, 2, 3])]);
    (0..7).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    (story, task)
}

fn destination(task: &Task) -> NodeId {
    task.plan.destinations[&ChunkIndex(0)]
}

/// A node that takes part and does not keep the chunk.
fn helper(task: &Task) -> NodeId {
    let others = task.plan.participants().into_iter().filter(|node| *node != destination(task));
    others.min().expect("somebody helps")
}

/// The destination reports how far it is.
fn progress(story: &mut Story, task: &Task, bytes: u64) {
    let running = vec![(task.repair, bytes)];
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, running, ..Heartbeat::default() };
    story.hear(destination(task).0, FromAgent::Heartbeat(beat));
}

fn says(story: &mut Story, node: NodeId, repair: RepairId, why: Failure) {
    story.hear(node.0, FromAgent::Failed { repair, why });
}

/// The repair that goes on in the place of `task`, of which nothing is lost.
fn next(story: &mut Story, task: &Task) -> Task {
    let said = story.take();
    let is_replaced = |output: &Output| match output {
        Output::Report(Report::Replaced { repair, .. }) => *repair == task.repair,
        _ => false,
    };
    assert!(said.iter().any(is_replaced), "{said:?}");
    let keeps = destination(task);
    let is_dropped = |output: &Output| match output {
        Output::Send { to, message } => *to == keeps && *message == ToAgent::Cancel(task.repair),
        _ => false,
    };
    assert!(!said.iter().any(is_dropped), "its destination keeps what it has: {said:?}");
    story.said = said;
    let next = story.dispatched().remove(0);
    assert_eq!((next.continues, next.skips), (Some(task.repair), true));
    assert_eq!((destination(&next), next.plan.range), (keeps, task.plan.range));
    next
}

#[test]
fn by_whosever_word_a_helper_is_lost_its_repair_goes_on_without_it() {
    let lost = |story: &mut Story, task: &Task, helper: NodeId| {
        says(story, destination(task), task.repair, Failure::PeerLost(helper));
    };
    let begun_anew = |story: &mut Story, _: &Task, helper: NodeId| {
        let (pool_bytes, free_bytes, abilities) = (64 << 20, 1 << 30, Abilities::ALL);
        let hello = Hello { incarnation: 2, session: 1000, abilities, pool_bytes, free_bytes };
        story.hear(helper.0, FromAgent::Hello(hello));
    };
    let silent = |story: &mut Story, _: &Task, helper: NodeId| {
        story.give(Input::AgentLost(helper));
        assert!(story.dispatched().is_empty(), "its session may only be made anew");
        story.wait(1, (1..7).filter(|node| *node != helper.0));
    };
    let unreadable = |story: &mut Story, task: &Task, helper: NodeId| {
        let chunk = helper.0 as u8;
        let why = Failure::Source { copy: copy(0, chunk, 0), fault: CopyFault::Unreadable };
        says(story, helper, task.repair, why);
    };
    let declared = |story: &mut Story, _: &Task, helper: NodeId| {
        story.give(Input::Operator(Command::FailNode(helper)));
    };
    type Loss<'a> = &'a dyn Fn(&mut Story, &Task, NodeId);
    let ways: [(&str, Loss<'_>); 5] = [
        ("a destination cannot reach it", &lost),
        ("it has begun anew", &begun_anew),
        ("it is silent", &silent),
        ("it cannot read its chunk", &unreadable),
        ("it is declared failed", &declared),
    ];
    for (name, lose) in ways {
        let (mut story, task) = one_repair();
        progress(&mut story, &task, 1024);
        story.take();
        let gone = helper(&task);
        lose(&mut story, &task, gone);
        let next = next(&mut story, &task);
        assert!(!next.plan.participants().contains(&gone), "{name}");
        let line = &story.core.status().running[0];
        assert_eq!((line.repair, line.bytes_done), (next.repair, 1024), "{name}");
        let commit = story.store(&next);
        story.accept(commit);
        assert_eq!(story.core.status().repaired_chunks, 1, "{name}");
    }
}

#[test]
fn a_corrupt_source_is_lost_and_the_repair_of_another_chunk_goes_on() {
    let (mut story, task) = one_repair();
    let gone = helper(&task);
    let copy = copy(0, gone.0 as u8, 0);
    says(&mut story, gone, task.repair, Failure::Source { copy, fault: CopyFault::Corrupt });
    assert!(story.core.is_lost(StripeId(0), copy.chunk));
    let next = next(&mut story, &task);
    let commit = story.store(&next);
    story.accept(commit);
    let after = story.dispatched().remove(0);
    assert_eq!(after.plan.lost, [copy.chunk], "then that is rebuilt as well");
}

#[test]
fn what_dies_after_it_was_left_ends_nothing_more() {
    let (mut story, task) = one_repair();
    let gone = helper(&task);
    story.give(Input::AgentLost(gone));
    let others = (1..7).filter(|node| *node != gone.0);
    story.wait(1, others.clone());
    let next = next(&mut story, &task);
    story.wait(4, others);
    assert_eq!(story.core.health(gone), Health::Failed);
    let running = story.core.status().running;
    assert_eq!(running.iter().map(|line| line.repair).collect::<Vec<_>>(), [next.repair]);
}

#[test]
fn without_a_destination_or_enough_helpers_a_repair_begins_anew() {
    let (mut story, task) = one_repair();
    story.give(Input::AgentLost(destination(&task)));
    assert!(story.dispatched().is_empty(), "it may speak again");
    says(&mut story, helper(&task), task.repair, Failure::PeerLost(destination(&task)));
    story.wait(1, (1..7).filter(|node| *node != destination(&task).0));
    let after = story.dispatched().remove(0);
    assert_eq!((after.continues, destination(&after) != destination(&task)), (None, true));

    let (mut story, task) = one_repair();
    let spare = (1..4).find(|node| !task.plan.participants().contains(&NodeId(*node)));
    story.give(Input::AgentLost(NodeId(spare.expect("two of three help"))));
    says(&mut story, destination(&task), task.repair, Failure::PeerLost(helper(&task)));
    let said = story.take();
    let is_cancelled = |output: &Output| match output {
        Output::Send { to, message } => {
            *to == destination(&task) && *message == ToAgent::Cancel(task.repair)
        }
        _ => false,
    };
    assert!(said.iter().any(is_cancelled), "one is left: {said:?}");
}

#[test]
fn what_a_destination_made_wrong_or_cannot_write_is_not_gone_on_with() {
    let whys = [
        Failure::ProofFailed { expected: 1, found: 2 },
        Failure::NoSpace,
        Failure::Stalled,
        Failure::Refused(Refusal::CannotContinue),
    ];
    for why in whys {
        let (mut story, task) = one_repair();
        says(&mut story, destination(&task), task.repair, why.clone());
        story.wait(1, 1..7);
        let after = story.dispatched().remove(0);
        assert_eq!(after.continues, None, "{why:?}");
    }
}

#[test]
fn what_has_come_in_full_is_not_begun_again_because_a_helper_is_silent() {
    let (mut story, task) = one_repair();
    progress(&mut story, &task, 4096);
    story.take();
    let gone = helper(&task);
    story.give(Input::AgentLost(gone));
    story.wait(2, (1..7).filter(|node| *node != gone.0));
    assert!(story.dispatched().is_empty());
    let commit = story.store(&task);
    story.accept(commit);
    assert_eq!(story.core.status().repaired_chunks, 1);
}

#[test]
fn a_session_that_is_made_anew_in_time_changes_nothing() {
    let (mut story, task) = one_repair();
    let gone = helper(&task);
    story.give(Input::AgentLost(gone));
    story.join_with(gone.0, Abilities::ALL);
    story.wait(3, 1..7);
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().running[0].repair, task.repair);
}

#[test]
fn a_chunk_that_was_stored_by_the_attempt_before_is_found() {
    let (mut story, task) = one_repair();
    says(&mut story, helper(&task), task.repair, Failure::PeerLost(helper_beside(&task)));
    next(&mut story, &task);
    // The word crossed the other plan on its way.
    let copy =
        ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(0), stamp: Stamp::from(task.repair) };
    story.hear(destination(&task).0, FromAgent::Stored { repair: task.repair, copy });
    let is_read = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Check(check) } => {
            (*to, check.copy) == (destination(&task), copy)
        }
        _ => false,
    };
    let said = story.take();
    assert!(said.iter().any(is_read), "it is read before it counts: {said:?}");
}

/// Another helper than the first.
fn helper_beside(task: &Task) -> NodeId {
    let others = task.plan.participants().into_iter();
    let mut others = others.filter(|node| ![destination(task), helper(task)].contains(node));
    others.next().expect("two help")
}

#[test]
fn a_stripe_that_loses_helper_after_helper_waits_in_the_end() {
    let (mut story, mut task) = one_repair();
    let mut went_on = 0;
    for _ in 0..4 {
        says(&mut story, destination(&task), task.repair, Failure::PeerLost(helper(&task)));
        match story.dispatched().pop() {
            Some(next) if next.continues == Some(task.repair) => {
                (went_on, task) = (went_on + 1, next)
            }
            _ => break,
        }
    }
    assert!((1..4).contains(&went_on), "{went_on}");
    story.wait(3, 1..7);
    let after = story.dispatched().pop().expect("it is tried again");
    assert_eq!(after.continues, None);
}

/// A node reports that it is the turn of another one, of which nothing comes.
fn waits(story: &mut Story, by: NodeId, task: &Task, peer: NodeId) {
    let waits = vec![EdgeRef { repair: task.repair, lane: 0, peer }];
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, waits, ..Heartbeat::default() };
    story.hear(by.0, FromAgent::Heartbeat(beat));
}

/// A fifth of the time passes after which a silent node is suspect; all but these speak, and wait
/// for no other node.
fn pass(story: &mut Story, others: &[NodeId]) {
    story.now = story.now + Span::from_millis(200);
    let speaking = (1..7).filter(|node| !others.contains(&NodeId(*node)));
    speaking.for_each(|node| story.beat(node));
}

#[test]
fn a_helper_that_vanishes_is_left_soon_after_others_wait_for_it_and_is_not_declared_dead() {
    let (mut story, task) = one_repair();
    progress(&mut story, &task, 1024);
    let gone = helper(&task);
    pass(&mut story, &[gone]);
    story.take();
    waits(&mut story, destination(&task), &task, gone);
    assert!(story.dispatched().is_empty(), "it may speak at the next moment");
    pass(&mut story, &[gone]);
    let next = next(&mut story, &task);
    assert!(!next.plan.participants().contains(&gone));
    assert_eq!(story.core.status().running[0].bytes_done, 1024);
    assert_eq!(story.core.health(gone), Health::Up, "silence is judged as ever");
}

#[test]
fn who_speaks_is_waited_for_longer_and_less_where_only_the_last_slices_lack() {
    for (come, words) in [(1024, 5), (3840, 2)] {
        let (mut story, task) = one_repair();
        progress(&mut story, &task, come);
        let slow = helper(&task);
        for word in 1..=words {
            pass(&mut story, &[destination(&task)]);
            story.take();
            waits(&mut story, destination(&task), &task, slow);
            let is_left = story.said.iter().any(|output| match output {
                Output::Report(Report::Replaced { without, .. }) => without.contains(&slow),
                _ => false,
            });
            assert_eq!(is_left, word == words, "{come} bytes have come, word {word}");
        }
        next(&mut story, &task);
    }
}

/// A node's downlink has another rate.
fn downlink(story: &mut Story, node: NodeId, rate: f64) {
    let node_now = Node { downlink: Rate(rate), ..Node::new(format!("n{}", node.0), Rate(1e6)) };
    story.give(Input::NodeAdded { id: node, node: node_now, rack: None });
}

#[test]
fn who_sends_to_a_slow_link_is_waited_for_as_long_as_that_takes() {
    let (mut story, task) = one_repair();
    downlink(&mut story, destination(&task), 1e3);
    progress(&mut story, &task, 1024);
    for _ in 0..20 {
        pass(&mut story, &[destination(&task)]);
        waits(&mut story, destination(&task), &task, helper(&task));
    }
    let is_left = |output: &Output| matches!(output, Output::Report(Report::Replaced { .. }));
    assert!(!story.said.iter().any(is_left), "seconds for a slice");
}

#[test]
fn who_stands_in_takes_over_what_came_there_where_its_link_carries_that() {
    for (rate, into_destination) in [(1e6, 1), (1e3, 2)] {
        let (mut story, task) = one_repair_by("chain/greedy/all");
        let to = destination(&task);
        let lane = &task.plan.lanes[0];
        let last = lane.edges.iter().find(|edge| edge.parent == to).expect("a chain ends").child;
        let spare = (1..4).map(NodeId).find(|node| !task.plan.participants().contains(node));
        downlink(&mut story, spare.expect("two of three help"), rate);
        story.take();
        says(&mut story, to, task.repair, Failure::PeerLost(last));
        let next = next(&mut story, &task);
        let into = next.plan.lanes[0].edges.iter().filter(|edge| edge.parent == to);
        assert_eq!(into.count(), into_destination, "{:?}", next.plan.lanes[0].edges);
    }
}

#[test]
fn who_moves_something_elsewhere_is_left_for_the_last_slices_only() {
    for (come, is_left) in [(1024, false), (3840, true)] {
        let (mut story, task) = one_repair();
        progress(&mut story, &task, come);
        let busy = helper(&task);
        for word in 1..=8 {
            pass(&mut story, &[destination(&task)]);
            let running = vec![(task.repair, 100 * word)];
            let beat =
                Heartbeat { incarnation: 1, free_bytes: 1 << 30, running, ..Heartbeat::default() };
            story.hear(busy.0, FromAgent::Heartbeat(beat));
            waits(&mut story, destination(&task), &task, busy);
        }
        assert_eq!(!story.dispatched().is_empty(), is_left, "{come} bytes have come");
    }
}

#[test]
fn of_those_who_wait_for_each_other_the_last_is_left() {
    let (mut story, task) = one_repair_by("chain/greedy/all");
    let (one, other) = (helper(&task), helper_beside(&task));
    let sends_on = |node| task.plan.lanes[0].parent(node) == Some(destination(&task));
    let (waiting, slow) = if sends_on(one) { (one, other) } else { (other, one) };
    for _ in 0..5 {
        pass(&mut story, &[waiting, destination(&task)]);
        story.take();
        waits(&mut story, waiting, &task, slow);
        waits(&mut story, destination(&task), &task, waiting);
    }
    let participants = next(&mut story, &task).plan.participants();
    assert!(participants.contains(&waiting) && !participants.contains(&slow));
}

#[test]
fn who_is_granted_nothing_has_nobody_left() {
    let (mut story, task) = one_repair_by("chain/greedy/all");
    let (one, other) = (helper(&task), helper_beside(&task));
    for (waiting, parent) in [(one, other), (other, one), (one, destination(&task))] {
        if task.plan.lanes[0].parent(waiting) != Some(parent) {
            continue;
        }
        for _ in 0..6 {
            pass(&mut story, &[waiting]);
            waits(&mut story, waiting, &task, parent);
        }
    }
    let is_left = |output: &Output| matches!(output, Output::Report(Report::Replaced { .. }));
    assert!(!story.said.iter().any(is_left), "a receiver would say so");
}

#[test]
fn a_helper_in_whose_place_nobody_can_stand_is_waited_for() {
    let (mut story, task) = one_repair();
    let spare = (1..4).find(|node| !task.plan.participants().contains(&NodeId(*node)));
    story.give(Input::AgentLost(NodeId(spare.expect("two of three help"))));
    let gone = helper(&task);
    for _ in 0..4 {
        story.now = story.now + Span::from_millis(200);
        waits(&mut story, destination(&task), &task, gone);
    }
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().running[0].repair, task.repair);
}
