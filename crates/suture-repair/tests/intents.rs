//! What an operator wants of nodes: their chunks move, or they may be silent, while others fail.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::cluster::NodeIntent;
use suture_repair::coordinator::{Absence, Config};
use suture_repair::event::{Command, Health, Input, Liveness, Output, Report};
use suture_repair::id::{ChunkIndex, NodeId, Stamp, StripeId};
use suture_repair::message::{Check, CopyFault, Failure, FromAgent, Hello, Task, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::time::Span;

fn drain(story: &mut Story, node: u32) {
    story.give(Input::Operator(Command::DrainNode(NodeId(node))));
}

fn pause(story: &mut Story, node: u32, seconds: u64) {
    let (node, span) = (NodeId(node), Span::from_secs(seconds));
    story.give(Input::Operator(Command::PauseNode { node, span }));
}

/// Whether some part of what a task brings is copied from where the chunk is.
fn copies(task: &Task) -> bool {
    let survivors = task.survivors();
    task.plan.lanes.iter().any(|lane| lane.copies(&task.facts(&survivors)))
}

#[test]
fn a_drained_node_is_read_until_each_new_copy_was_read_in_full_and_then_it_is_empty() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3]), stripe(1, [1, 2, 3, 4])]);
    story.take();
    drain(&mut story, 0);
    let [task] = &story.dispatched()[..] else { panic!("one stripe has a chunk there") };
    assert!(copies(task), "{task:?}");
    let destination = task.plan.destinations[&ChunkIndex(0)];
    assert!([4, 5].contains(&destination.0), "another chunk of the stripe is on {destination}");
    assert!(story.core.status().lost_chunks == 0 && story.core.status().leaving_chunks == 1);
    let commit = story.store(task);
    story.accept(commit);
    let said = story.take();
    assert!(said.contains(&Output::Report(Report::Drained(NodeId(0)))), "{said:?}");
    // The old copy goes after the new one was read.
    let (old, new) = (copy(0, 0, 0), commit.copy);
    let check = Check { copy: new, digest: story.digest(new), excess: Some(old.at(NodeId(0))) };
    assert!(sent(&said, |to, message| to == destination && *message == ToAgent::Check(check)));
    let is_delete = |message: &ToAgent| matches!(message, ToAgent::Delete { .. });
    assert!(!sent(&said, |_, message| is_delete(message)), "{said:?}");
    story.hear(destination.0, FromAgent::Verified(check));
    let said = story.take();
    assert!(sent(&said, |to, message| to == NodeId(0) && is_delete(message)), "{said:?}");
    assert_eq!(story.core.status().nodes[0].intent, NodeIntent::Draining { chunks: 1 });
}

#[test]
fn a_new_copy_that_is_listed_before_it_is_said_to_be_stored_is_not_in_excess() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [task] = &story.dispatched()[..] else { panic!("it moves") };
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let new = copy(0, 0, Stamp::from(task.repair).0);
    // It is the location in a moment: the old copy, good as it is, must not have it ordered away.
    story.hear(destination.0, FromAgent::Inventory(vec![new.into()]));
    let said = story.take();
    let is_check = |message: &ToAgent| matches!(message, ToAgent::Check(_));
    assert!(!sent(&said, |_, message| is_check(message)), "{said:?}");
    let commit = story.store(task);
    assert_eq!((commit.node, commit.copy), (destination, new));
    story.accept(commit);
    let said = story.take();
    assert!(said.contains(&Output::Report(Report::Drained(NodeId(0)))), "{said:?}");
}

#[test]
fn other_copies_are_in_excess_while_one_is_made() {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [task] = &story.dispatched()[..] else { panic!("it moves") };
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let other = [4, 5, 6].into_iter().find(|node| *node != destination.0).expect("there are three");
    // An older copy where the new one is made, and one elsewhere that is called like the new one.
    let listed = [(destination.0, copy(0, 0, 9)), (other, copy(0, 0, Stamp::from(task.repair).0))];
    for (node, extra) in listed {
        story.hear(node, FromAgent::Inventory(vec![extra.into()]));
        let said = story.take();
        let is_asked = |message: &ToAgent| matches!(message, ToAgent::Check(check) if check.excess == Some(extra.at(NodeId(node))));
        assert!(sent(&said, |to, message| to == NodeId(0) && is_asked(message)), "{said:?}");
    }
}

#[test]
fn what_is_lost_comes_before_what_only_moves() {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [mover] = &story.dispatched()[..] else { panic!("it moves") };
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    let said = story.take();
    let is_cancel = |message: &ToAgent| *message == ToAgent::Cancel(mover.repair);
    assert!(sent(&said, |_, message| is_cancel(message)), "{said:?}");
    story.said = said;
    let [task] = &story.dispatched()[..] else { panic!("it is repaired") };
    assert_eq!(task.plan.lost, [ChunkIndex(1)]);
    let commit = story.store(task);
    story.accept(commit);
    let [task] = &story.dispatched()[..] else { panic!("it moves again") };
    assert_eq!(task.plan.lost, [ChunkIndex(0)]);
}

#[test]
fn a_drained_node_that_dies_is_an_ordinary_failure() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    story.take();
    story.wait(4, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    let [task] = &story.dispatched()[..] else { panic!("it is rebuilt") };
    assert!(!copies(task) && task.plan.lost == [ChunkIndex(0)]);
    assert_eq!(story.core.status().lost_chunks, 1);
}

#[test]
fn a_node_that_is_taken_back_keeps_its_chunks_and_may_be_given_more() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [task] = &story.dispatched()[..] else { panic!("it moves") };
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    let said = story.take();
    assert!(sent(&said, |_, message| *message == ToAgent::Cancel(task.repair)), "{said:?}");
    assert_eq!(story.core.status().leaving_chunks, 0);
    assert!(story.core.status().nodes[0].serves());
}

#[test]
fn what_moves_to_a_node_that_is_drained_itself_goes_elsewhere() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [first] = &story.dispatched()[..] else { panic!("it moves") };
    let destination = first.plan.destinations[&ChunkIndex(0)];
    drain(&mut story, destination.0);
    let [second] = &story.dispatched()[..] else { panic!("it moves elsewhere") };
    assert_ne!(second.plan.destinations[&ChunkIndex(0)], destination);
}

#[test]
fn where_copying_fails_the_next_attempt_does_without() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    let [first] = &story.dispatched()[..] else { panic!("it moves") };
    assert!(copies(first));
    story.hear(0, FromAgent::Failed { repair: first.repair, why: Failure::Stalled });
    story.wait(1, 0..6);
    let [second] = &story.dispatched()[..] else { panic!("it is tried again") };
    assert!(!copies(second), "{second:?}");
}

#[test]
fn what_too_few_others_can_be_read_for_is_copied_whole() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.wait(2, [0, 1, 4, 5]);
    assert_eq!(story.core.health(NodeId(2)), Health::Suspect);
    drain(&mut story, 0);
    let [task] = &story.dispatched()[..] else { panic!("it moves") };
    assert!(copies(task) && task.plan.lanes.len() == 1, "{task:?}");
}

#[test]
fn a_paused_node_is_waited_for_while_its_stripes_can_lose_more() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    pause(&mut story, 0, 60);
    story.wait(20, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    assert!(story.dispatched().is_empty() && story.core.status().lost_chunks == 0);
    assert_eq!(story.core.status().degraded, 1, "it cannot be read meanwhile");
    // Two may be lost: with another one gone there is no margin left.
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    assert_eq!(story.core.status().lost_chunks, 2);
    let tasks = story.dispatched();
    assert!(tasks.iter().all(|task| !task.plan.destinations.values().any(|n| *n == NodeId(0))));
    assert!(!tasks.is_empty());
    // Once it is back and lists what it has, that counts.
    story.join(0);
    assert_eq!(story.core.status().lost_chunks, 1);
}

#[test]
fn a_paused_node_that_is_drained_while_it_is_silent_has_the_usual_time_to_speak() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    pause(&mut story, 0, 60);
    story.wait(20, 1..6);
    story.give(Input::Operator(Command::DrainNode(NodeId(0))));
    story.wait(2, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    story.wait(1, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
}

#[test]
fn a_pause_ends_by_time_and_then_silence_counts_anew() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    pause(&mut story, 0, 10);
    story.wait(11, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    assert_eq!(story.core.status().nodes[0].intent, NodeIntent::Serving);
    story.wait(3, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    assert_eq!(story.core.status().lost_chunks, 1);
}

#[test]
fn a_paused_node_is_given_nothing_though_it_is_up() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    pause(&mut story, 4, 60);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(story.dispatched().is_empty());
    story.give(Input::Operator(Command::ReturnNode(NodeId(4))));
    assert_eq!(story.dispatched().len(), 1);
}

#[test]
fn what_silent_nodes_hold_is_repaired_at_once_when_the_operator_says_so() {
    let stripes = || [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 1, 2, 3])];
    let mut story = Story::new(6, stripes());
    story.wait(2, 1..6);
    story.take();
    story.give(Input::Operator(Command::FailSilent));
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    assert_eq!(story.dispatched().len(), 2);

    let mut story = Story::new(6, stripes());
    story.wait(2, 1..6);
    story.take();
    story.give(Input::Operator(Command::RepairNow(StripeId(1))));
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    let [task] = &story.dispatched()[..] else { panic!("one stripe is wanted") };
    assert_eq!(task.stripe.id, StripeId(1));
}

#[test]
fn it_is_known_before_what_could_not_be_read_or_moved() {
    let story = Story::new(5, [stripe(0, [0, 1, 2, 3]), stripe(1, [1, 2, 3, 4])]);
    let nodes = |ids: &[u32]| -> Vec<NodeId> { ids.iter().map(|id| NodeId(*id)).collect() };
    assert_eq!(story.core.unreadable_without(&nodes(&[0, 1]), &[], Absence::Failed), []);
    assert_eq!(
        story.core.unreadable_without(&nodes(&[0, 1, 2]), &[], Absence::Failed),
        [StripeId(0)]
    );
    assert_eq!(story.core.stuck_without(&nodes(&[0])), []);
    // A silent node may be back, or not.
    let mut silent = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    silent.give(Input::AgentLost(NodeId(0)));
    assert_eq!(silent.core.unreadable_without(&nodes(&[1]), &[], Absence::Failed), []);
    assert_eq!(
        silent.core.unreadable_without(&nodes(&[1, 2]), &[], Absence::Failed),
        [StripeId(0)]
    );
    // A store that goes for ever takes what could be read again once all that failed are back.
    let mut failed = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    for node in [0, 1, 2] {
        failed.give(Input::Operator(Command::FailNode(NodeId(node))));
    }
    assert_eq!(failed.core.unreadable_without(&nodes(&[0]), &[], Absence::Failed), []);
    assert_eq!(failed.core.unreadable_without(&nodes(&[0]), &[], Absence::Replaced), []);
    assert_eq!(failed.core.unreadable_without(&nodes(&[0, 1]), &[], Absence::Failed), []);
    assert_eq!(
        failed.core.unreadable_without(&nodes(&[0, 1]), &[], Absence::Replaced),
        [],
        "2 and 3 suffice"
    );
    assert_eq!(
        failed.core.unreadable_without(&nodes(&[0, 1, 2]), &[], Absence::Replaced),
        [StripeId(0)]
    );
    (1..4).for_each(|node| silent.give(Input::AgentLost(NodeId(node))));
    assert_eq!(silent.core.unreadable_without(&nodes(&[1, 2]), &[], Absence::Failed), []);
    assert_eq!(
        silent.core.unreadable_without(&nodes(&[1, 2, 3]), &[], Absence::Failed),
        [StripeId(0)]
    );
    let both = [StripeId(0), StripeId(1)];
    assert_eq!(story.core.stuck_without(&nodes(&[0, 1])), both);
}

#[test]
fn a_node_that_has_nothing_is_empty_as_soon_as_it_is_drained() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 5);
    assert!(story.take().contains(&Output::Report(Report::Drained(NodeId(5)))));
}

#[test]
fn a_coordinator_that_begins_while_a_node_is_emptied_knows_how_many_chunks_it_had() {
    let draining = |config| Config { draining: vec![NodeId(0)], ..config };
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 1, 2, 4]), stripe(2, [1, 2, 3, 4])];
    let mut story = Story::configured(draining, ("suture", Liveness::Own), 7, stripes);
    assert_eq!(story.core.status().nodes[0].intent, NodeIntent::Draining { chunks: 2 });
    assert_eq!(story.dispatched().len(), 2, "it goes on");
}

#[test]
fn a_rebuilt_chunk_that_is_under_way_to_a_node_that_is_drained_comes_there_first() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let [task] = &story.dispatched()[..] else { panic!("it is rebuilt") };
    drain(&mut story, task.plan.destinations[&ChunkIndex(0)].0);
    assert!(!sent(&story.take(), |_, message| matches!(message, ToAgent::Cancel(_))));
    let commit = story.store(task);
    story.accept(commit);
    let [task] = &story.dispatched()[..] else { panic!("then it moves") };
    assert!(copies(task));
}

#[test]
fn what_is_claimed_for_others_goes_on_when_a_node_is_drained() {
    let stripes = (0..4).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::that_claims(8, stripes);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let claimed = |output: Output| match output {
        Output::Claim(claim) => Some((claim.repair, *claim.destinations.first_key_value()?.1)),
        _ => None,
    };
    let claims: Vec<_> = story.take().into_iter().filter_map(claimed).collect();
    let drained = claims.first().expect("they are claimed").1;
    let ended = claims.iter().filter(|(_, to)| *to == drained);
    let ended: Vec<_> = ended.map(|(repair, _)| *repair).collect();
    assert!(ended.len() < claims.len(), "their destinations differ");
    drain(&mut story, drained.0);
    let released = |output: Output| match output {
        Output::ReleaseClaim(repair) => Some(repair),
        _ => None,
    };
    let released: Vec<_> = story.take().into_iter().filter_map(released).collect();
    assert_eq!(released, ended);
}

#[test]
fn what_waits_for_a_paused_node_goes_on_as_soon_as_the_pause_ends() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    pause(&mut story, 4, 3);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(2, 1..5);
    assert!(story.dispatched().is_empty());
    story.wait(2, 1..5);
    assert_eq!(story.dispatched().len(), 1, "and not after the longest wait, of ten seconds");
}

#[test]
fn what_cannot_be_moved_is_no_trouble_once_the_node_is_taken_back() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    drain(&mut story, 0);
    assert_eq!(story.core.status().blocked.len(), 1, "there is no other node");
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    assert!(story.core.status().blocked.is_empty());
}

#[test]
fn a_node_that_was_silent_and_lacks_nothing_is_not_asked_for_a_list() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.wait(2, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    story.take();
    story.beat(0);
    assert_eq!(story.core.health(NodeId(0)), Health::Up);
    assert!(!sent(&story.take(), |_, message| *message == ToAgent::List));
}

#[test]
fn what_a_paused_node_holds_of_a_stripe_that_comes_and_could_lose_no_more_is_lost() {
    let mut story = Story::new(7, []);
    pause(&mut story, 0, 60);
    story.wait(2, 1..7);
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    story.take();
    story.give(Input::StripeAdded(stripe(0, [0, 1, 2, 3])));
    assert_eq!(story.core.status().lost_chunks, 2);
    story.give(Input::StripeAdded(stripe(1, [0, 4, 2, 3])));
    assert_eq!(story.core.status().lost_chunks, 2, "this one could lose another");
}

#[test]
fn what_was_wanted_now_is_a_stripe_like_others_once_it_is_repaired() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 1, 2, 3])]);
    story.take();
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.give(Input::Operator(Command::RepairNow(StripeId(1))));
    story.give(Input::Operator(Command::Resume));
    let tasks = story.dispatched();
    assert_eq!(tasks.iter().map(|t| t.stripe.id.0).collect::<Vec<_>>(), [1, 0], "it comes first");
    for task in &tasks {
        let commit = story.store(task);
        story.accept(commit);
    }
    story.take();
    story.give(Input::WindowClosed(Some(story.now + Span::from_secs(60))));
    let copy = story.core.stripes().get(StripeId(1)).and_then(|s| s.copy(ChunkIndex(2)));
    story.hear(2, bad(copy.expect("it is there").copy, CopyFault::Corrupt));
    assert_eq!(story.core.status().lost_chunks, 1);
    assert!(story.dispatched().is_empty(), "the window is closed for it too");
}

#[test]
fn what_is_lost_where_a_node_is_up_is_not_counted_on_once_silent_nodes_are_back() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    story.hear(2, bad(copy(0, 2, 0), CopyFault::Corrupt));
    story.wait(2, [0, 2]);
    assert_eq!([1, 3].map(|node| story.core.health(NodeId(node))), [Health::Suspect; 2]);
    // Of the two that are silent one has to come back.
    assert_eq!(story.core.unreadable_without(&[NodeId(1)], &[], Absence::Failed), []);
    assert_eq!(
        story.core.unreadable_without(&[NodeId(1), NodeId(3)], &[], Absence::Failed),
        [StripeId(0)]
    );
}

/// Stripes that could not be read without these nodes and all that is away besides.
fn without(story: &Story, nodes: &[u32], given_away: &[u32], absence: Absence) -> Vec<StripeId> {
    let [nodes, given_away] = [nodes, given_away]
        .map(|ids| -> Vec<NodeId> { ids.iter().map(|id| NodeId(*id)).collect() });
    story.core.unreadable_without(&nodes, &given_away, absence)
}

#[test]
fn what_is_paused_one_by_one_is_away_together() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    for node in [0, 1] {
        assert_eq!(without(&story, &[node], &[], Absence::Paused), []);
        pause(&mut story, node, 3600);
    }
    // Both are up still, and may go at any moment; then it is the same.
    for is_gone in [false, true] {
        if is_gone {
            story.wait(2, 2..6);
        }
        for absence in [Absence::Failed, Absence::Paused] {
            let refused = without(&story, &[2], &[], absence);
            assert_eq!(refused, [StripeId(0)], "{absence:?}, {is_gone}");
            assert_eq!(without(&story, &[4], &[], absence), [], "it holds nothing");
        }
        assert_eq!(without(&story, &[1], &[], Absence::Paused), [], "it may stay so for longer");
    }
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    story.join(0);
    assert_eq!(without(&story, &[2], &[], Absence::Paused), []);
}

#[test]
fn what_fell_silent_while_it_was_emptied_is_away_and_what_is_up_is_not() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    drain(&mut story, 0);
    drain(&mut story, 1);
    assert_eq!(without(&story, &[2], &[], Absence::Paused), []);
    story.wait(2, 3..6);
    // Too few are up for it now, and once node 2 is back node 3 is needed.
    assert_eq!(without(&story, &[3], &[], Absence::Paused), [StripeId(0)]);
    assert_eq!(without(&story, &[3], &[], Absence::Failed), []);
}

#[test]
fn stores_that_are_given_up_one_by_one_do_not_come_back_for_each_other() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    for node in [0, 1, 2] {
        story.give(Input::Operator(Command::FailNode(NodeId(node))));
    }
    let replaced =
        |story: &Story, given_away: &[u32]| without(story, &[2], given_away, Absence::Replaced);
    assert_eq!(replaced(&story, &[0]), [], "node 1 has its chunk still");
    assert_eq!(replaced(&story, &[0, 1]), [StripeId(0)]);
    // Their new stores have joined and hold nothing, though both count as failed still.
    story.hear(0, FromAgent::Inventory(vec![]));
    assert_eq!(replaced(&story, &[]), []);
    story.hear(1, FromAgent::Inventory(vec![]));
    assert_eq!(replaced(&story, &[]), [StripeId(0)]);
    story.hear(1, FromAgent::Inventory(vec![copy(0, 1, 0).into()]));
    assert_eq!(replaced(&story, &[]), [], "its disk is back");
}

/// The node's agent has started again.
fn begin_anew(story: &mut Story, node: u32) {
    let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
    let abilities = Abilities::PARTIAL;
    let hello = Hello { incarnation: 2, session: 1, abilities, pool_bytes, free_bytes };
    story.hear(node, FromAgent::Hello(hello));
    assert_eq!(story.core.incarnation(NodeId(node)), Some(2));
}

#[test]
fn what_is_known_to_be_gone_at_a_failed_node_does_not_come_back_with_it() {
    let lost_after = |befalls: &dyn Fn(&mut Story)| {
        let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
        befalls(&mut story);
        for node in [0, 1, 2] {
            story.give(Input::Operator(Command::FailNode(NodeId(node))));
        }
        without(&story, &[1, 2], &[], Absence::Replaced)
    };
    assert_eq!(lost_after(&|_| {}), [], "0 and 3 suffice");
    let corrupt = |story: &mut Story| story.hear(0, bad(copy(0, 0, 0), CopyFault::Corrupt));
    assert_eq!(lost_after(&corrupt), [StripeId(0)]);
    assert_eq!(lost_after(&|story| begin_anew(story, 0)), [StripeId(0)], "another store");
}

#[test]
fn a_node_that_cannot_list_is_counted_on_again() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    [0, 1].into_iter().for_each(|node| begin_anew(&mut story, node));
    assert_eq!(without(&story, &[2], &[], Absence::Failed), [StripeId(0)]);
    story.hear(0, FromAgent::NotListed);
    assert_eq!(without(&story, &[2], &[], Absence::Failed), [], "each copy of it is looked at");
}

#[test]
fn what_a_node_does_not_list_is_not_counted_on_before_it_was_looked_for() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.hear(0, FromAgent::Inventory(vec![]));
    assert_eq!(story.core.status().lost_chunks, 0);
    assert_eq!(without(&story, &[2], &[], Absence::Failed), []);
    assert!(story.core.has_listed(NodeId(0)) && !story.core.holds_all(NodeId(0)));
    assert!(story.core.has_listed(NodeId(1)) && story.core.holds_all(NodeId(1)));
    story.hear(1, FromAgent::Inventory(vec![]));
    assert!(!story.core.holds_all(NodeId(1)));
    assert_eq!(without(&story, &[2], &[], Absence::Failed), [StripeId(0)]);
    let found = copy(0, 1, 0);
    let check = Check { copy: found, digest: story.digest(found), excess: None };
    story.hear(1, FromAgent::Verified(check));
    assert_eq!(without(&story, &[2], &[], Absence::Failed), [], "it is there all the same");
    assert!(story.core.holds_all(NodeId(1)), "it was found");
    // Both begin anew, and may have other stores.
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    for node in [0, 1] {
        begin_anew(&mut story, node);
    }
    assert_eq!(without(&story, &[2], &[], Absence::Failed), [StripeId(0)]);
    assert!(!story.core.has_listed(NodeId(0)), "not this incarnation");
    story.hear(0, FromAgent::Inventory(vec![copy(0, 0, 0).into()]));
    assert_eq!(without(&story, &[2], &[], Absence::Failed), []);
    assert!(story.core.has_listed(NodeId(0)) && story.core.holds_all(NodeId(0)));
    // The name of a silent node is given away: what it held does not come back.
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.wait(2, [4]);
    assert_eq!(without(&story, &[2], &[1], Absence::Replaced), []);
    assert_eq!(without(&story, &[2], &[0, 1], Absence::Replaced), [StripeId(0)]);
}

#[test]
fn commands_that_come_together_are_seen_at_once_and_planned_together() {
    let gathers = |config| Config { gather: Span::from_millis(400), ..config };
    let nodes = |id: u64| if id.is_multiple_of(2) { [0, 1, 2, 3] } else { [1, 4, 5, 6] };
    let stripes = (0..1200).map(|id| stripe(id, nodes(id)));
    let mut story = Story::configured(gathers, ("star/lru/all", Liveness::Own), 8, stripes);
    story.take();
    for (node, lost) in [(0, 600), (1, 1200)] {
        story.give(Input::Operator(Command::FailNode(NodeId(node))));
        assert_eq!(story.core.status().queued, lost, "what it did is seen");
        assert!(story.core.next_deadline().unwrap() <= story.now + Span::from_millis(400));
    }
    story.wait(1, 2..8);
    let said = story.take();
    let planned = said.iter().find_map(|output| match output {
        Output::Report(Report::Planned { repairs, .. }) => Some(*repairs),
        _ => None,
    });
    assert_eq!(planned, Some(1200));
}

#[test]
fn what_is_planned_begins_while_commands_are_gathered() {
    let gathers = |config| Config { gather: Span::from_millis(400), ..config };
    let stripes = (0..2000).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::configured(gathers, ("suture", Liveness::Own), 8, stripes);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(1, 1..8);
    assert!(!story.dispatched().is_empty());
    story.give(Input::Operator(Command::Cancel));
    assert_eq!(story.core.running().count(), 0);
    story.take();
    story.give(Input::Operator(Command::Resume));
    assert!(story.core.running().count() > 0, "what waits needs no other plan");
}
