//! Short stories of the coordinator alone: events in, effects out, by hand.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::event::{Command, Health, Input, Liveness, NodeState, Output, Report};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, Generation, ListedCopy, NodeId, RackId, RepairId, Stamp,
    StripeId,
};
use suture_repair::message::{
    Check, CopyFault, DiskState, Failure, FromAgent, Heartbeat, Hello, ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::Span;

#[test]
fn a_dead_node_is_noticed_and_its_chunk_gets_a_new_home() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.wait(2, 1..5);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    assert!(story.dispatched().is_empty(), "a silent node is not a dead one");
    story.wait(2, 1..5);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    let tasks = story.dispatched();
    let [task] = &tasks[..] else { panic!("one repair, not {tasks:?}") };
    assert_eq!(task.plan.lost, [ChunkIndex(0)]);
    assert_eq!(task.plan.destinations[&ChunkIndex(0)], NodeId(4), "the only node without a chunk");
    let commit = story.store(task);
    assert_eq!(commit.generation, Generation(1));
    assert_eq!(story.core.status().lost_chunks, 1, "not healthy before the keeper says so");
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 0);
    assert!(story.take().contains(&Output::Report(Report::Healthy(StripeId(0)))));
}

#[test]
fn a_corrupt_source_is_replaced_and_repaired_itself() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let first = story.dispatched().remove(0);
    let (chunk, node) = first.facts(&first.survivors()).survivors[0];
    let helper = first.plan.lanes[0].edges.iter().find(|edge| edge.child == node);
    let (chunk, node) = match helper {
        Some(_) => (chunk, node),
        None => first.survivors()[1],
    };
    let bad = copy(0, chunk.0, 0);
    let why = Failure::Source { copy: bad, fault: CopyFault::Corrupt };
    story.hear(node.0, FromAgent::Failed { repair: first.repair, why });
    let second = story.dispatched().remove(0);
    assert!(second.plan.lanes[0].edges.iter().all(|edge| edge.child != node), "not asked again");
    assert_eq!(story.core.status().lost_chunks, 2, "the corrupt chunk waits for its own repair");
    let commit = story.store(&second);
    story.accept(commit);
    let third = story.dispatched().remove(0);
    assert_eq!(third.plan.lost.len(), 1);
    let commit = story.store(&third);
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 0);
}

#[test]
fn what_is_beyond_repair_is_reported_and_holds_up_nothing() {
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 4, 5, 6])];
    let mut story = Story::new(8, stripes);
    for node in 0..3 {
        story.give(Input::Operator(Command::FailNode(NodeId(node))));
    }
    let tasks = story.dispatched();
    assert!(tasks.iter().any(|task| task.stripe.id == StripeId(1)), "the other one is repaired");
    let blocked = story.core.status().blocked;
    let [(id, why)] = &blocked[..] else { panic!("one is blocked, not {blocked:?}") };
    assert_eq!((*id, why.is_unrepairable()), (StripeId(0), true), "{why}");
    story.give(Input::Operator(Command::ReturnNode(NodeId(1))));
    story.join(1);
    assert!(story.dispatched().iter().any(|task| task.stripe.id == StripeId(0)), "now it can be");
}

#[test]
fn a_chunk_that_comes_back_ends_its_repair() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    story.join(0);
    let said = story.take();
    let cancelled = |_: NodeId, m: &ToAgent| *m == ToAgent::Cancel(task.repair);
    assert!(sent(&said, cancelled), "{said:?}");
    assert_eq!(story.core.status().lost_chunks, 0);
}

#[test]
fn a_copy_in_excess_goes_only_after_its_replacement_was_read() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    story.accept(commit);
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    story.take();
    let old = copy(0, 0, 0);
    story.hear(0, FromAgent::Inventory(vec![old.into()]));
    let digest = story.digest(commit.copy);
    let check = Check { copy: commit.copy, digest, excess: Some(old.at(NodeId(0))) };
    let said = story.take();
    assert!(sent(&said, |to, m| to == NodeId(4) && *m == ToAgent::Check(check)), "{said:?}");
    assert!(!sent(&said, |_, m| matches!(m, ToAgent::Delete { .. })));
    story.hear(4, FromAgent::Verified(check));
    let is_delete =
        |m: &ToAgent| matches!(m, ToAgent::Delete { epoch: 1, copy, .. } if *copy == old);
    assert!(sent(&story.take(), |to, m| to == NodeId(0) && is_delete(m)));
}

#[test]
fn a_location_with_other_bytes_is_lost_however_often_it_is_listed() {
    for (bytes, crc) in [(0, 1), (1, 0)] {
        let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
        let right = story.digest(copy(0, 1, 0));
        let digest = Digest {
            bytes: right.bytes.map(|right| right - bytes),
            crc: right.crc.map(|right| right ^ crc),
        };
        let held = vec![ListedCopy { copy: copy(0, 1, 0), digest }];
        for _ in 0..2 {
            story.hear(1, FromAgent::Inventory(held.clone()));
            assert!(story.core.is_lost(StripeId(0), ChunkIndex(1)));
        }
        let task = story.dispatched().remove(0);
        assert!(task.plan.destinations.contains_key(&ChunkIndex(1)));
    }
}

/// The right copy, which a return brings back, is what is left of its chunk.
#[test]
fn the_right_copy_is_not_deleted_for_a_location_with_other_bytes() {
    let mut story = Story::new(5, [stripe(0, [4, 1, 2, 3])]);
    let (own, digest) = (copy(0, 0, 0), story.digest(copy(0, 0, 0)));
    let other = Digest { crc: digest.crc.map(|crc| !crc), ..digest };
    let list = |story: &mut Story, node, digest| {
        story.hear(node, FromAgent::Inventory(vec![ListedCopy { copy: own, digest }]));
    };
    list(&mut story, 4, other);
    assert!(story.core.is_lost(StripeId(0), ChunkIndex(0)));
    list(&mut story, 0, digest);
    let said = story.take();
    let at_right = |m: &ToAgent| matches!(m, ToAgent::Delete { copy, .. } if *copy == own);
    assert!(!sent(&said, |to, message| to == NodeId(0) && at_right(message)), "{said:?}");
    story.hear(0, FromAgent::Verified(Check { copy: own, digest, excess: None }));
    let said = story.take();
    let adopted = said.iter().filter_map(|output| match output {
        Output::Commit(commit) => Some((commit.node, commit.copy)),
        _ => None,
    });
    assert_eq!(adopted.collect::<Vec<_>>(), [(NodeId(0), own)], "{said:?}");
}

#[test]
fn a_copy_with_other_bytes_is_neither_adopted_nor_deleted() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    let (found, digest) = (copy(0, 0, 0), story.digest(copy(0, 0, 0)));
    let other = Digest { crc: digest.crc.map(|crc| !crc), ..digest };
    let held = |digest| FromAgent::Inventory(vec![ListedCopy { copy: found, digest }]);
    let is_about_it = |_: NodeId, message: &ToAgent| match message {
        ToAgent::Check(check) => check.copy == found || check.excess.is_some(),
        ToAgent::Delete { copy, .. } => *copy == found,
        _ => false,
    };
    // While its chunk has a location it would be in excess, and while it is lost it could be found.
    for is_lost in [false, true] {
        if is_lost {
            // What is listed last counts.
            story.hear(4, held(other));
            story.give(Input::Operator(Command::FailNode(NodeId(0))));
            assert!(!sent(&story.take(), is_about_it));
        }
        story.hear(4, held(other));
        let said = story.take();
        assert!(!sent(&said, is_about_it), "{said:?}");
        let report = Report::OtherBytes { node: NodeId(4), copy: found };
        assert!(said.contains(&Output::Report(report)), "{said:?}");
        story.hear(4, held(digest));
        assert!(sent(&story.take(), is_about_it), "the right bytes are what is looked for");
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_read_again_before_it_counts_as_lost() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    let (chunk, own) = (ChunkIndex(1), copy(0, 1, 0));
    let check = Check { copy: own, digest: story.digest(own), excess: None };
    let mut asked = 0;
    while !story.core.is_lost(StripeId(0), chunk) {
        story.hear(1, bad(own, CopyFault::Unreadable));
        story.take();
        for _ in 0..30 {
            story.wait(1, 0..5);
            if sent(&story.take(), |to, m| to == NodeId(1) && *m == ToAgent::Check(check)) {
                asked += 1;
                break;
            }
        }
        assert!(asked < 9, "it is asked for as often as one likes and never lost");
    }
    assert_eq!(asked, 4);
    // It could be read after all.
    story.hear(1, FromAgent::Verified(check));
    assert!(!story.core.is_lost(StripeId(0), chunk));
    story.hear(1, bad(own, CopyFault::Unreadable));
    assert!(!story.core.is_lost(StripeId(0), chunk), "and is given as much time the next time");
}

#[test]
fn nothing_is_condemned_for_ever() {
    for fault in [CopyFault::Missing, CopyFault::Corrupt] {
        let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
        let (own, held) = (copy(0, 1, 0), copy(0, 1, 0).into());
        story.hear(1, bad(own, fault));
        assert!(story.core.is_lost(StripeId(0), ChunkIndex(1)));
        story.take();
        // A list without it changes nothing: it may have been in a folder that could not be read.
        story.hear(1, FromAgent::Inventory(Vec::new()));
        assert!(story.core.is_lost(StripeId(0), ChunkIndex(1)));
        story.hear(1, FromAgent::Inventory(vec![held]));
        let check = Check { copy: own, digest: story.digest(own), excess: None };
        let is_read = sent(&story.take(), |to, m| to == NodeId(1) && *m == ToAgent::Check(check));
        assert_eq!(is_read, fault == CopyFault::Corrupt, "a disk that was away is there again");
        if is_read {
            assert!(story.core.is_lost(StripeId(0), ChunkIndex(1)));
            story.hear(1, FromAgent::Verified(check));
        }
        assert!(!story.core.is_lost(StripeId(0), ChunkIndex(1)), "{fault}");
    }
}

#[test]
fn before_a_stripe_is_given_up_its_condemned_copies_are_read_again() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    for chunk in 0..3 {
        story.hear(u32::from(chunk), bad(copy(0, chunk, 0), CopyFault::Corrupt));
    }
    let said = story.take();
    for chunk in 0..3 {
        let own = copy(0, chunk, 0);
        let is_it = |to: NodeId, m: &ToAgent| {
            to == NodeId(chunk.into()) && matches!(m, ToAgent::Check(check) if check.copy == own)
        };
        assert!(sent(&said, is_it), "{own}: {said:?}");
    }
}

#[test]
fn a_helper_that_cannot_read_its_chunk_is_avoided_and_keeps_it() {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let helpers =
        [1, 2, 3].into_iter().filter(|node| task.plan.participants().contains(&NodeId(*node)));
    let helper = helpers.min().expect("somebody helps");
    let (own, fault) = (copy(0, helper as u8, 0), CopyFault::Unreadable);
    let why = Failure::Source { copy: own, fault };
    story.hear(helper, FromAgent::Failed { repair: task.repair, why });
    story.wait(1, 0..7);
    let next = story.dispatched().remove(0);
    assert!(!next.plan.participants().contains(&NodeId(helper)), "{:?}", next.plan);
    assert!(!story.core.is_lost(StripeId(0), own.chunk));
}

#[test]
fn words_about_chunks_and_nodes_that_there_are_not_change_nothing() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    let none = copy(0, 200, 0);
    story.give(Input::ChunkSuspected { node: NodeId(1), copy: none });
    story.hear(1, FromAgent::Bad { copy: none, fault: CopyFault::Corrupt });
    let excess = |copy| Check {
        copy,
        digest: Digest::default(),
        excess: Some(ChunkCopy { stamp: Stamp(9), ..copy }.at(NodeId(99))),
    };
    story.hear(1, FromAgent::Verified(excess(none)));
    story.hear(0, FromAgent::Verified(excess(copy(0, 0, 0))));
    story.hear(1, FromAgent::Inventory(vec![none.into(), copy(0, 1, 0).into()]));
    assert_eq!(story.core.status().lost_chunks, 0);
    assert!(!sent(&story.take(), |_, message| matches!(message, ToAgent::Delete { .. })));
}

#[test]
fn copies_of_stripes_that_were_never_given_out_are_left_alone() {
    let mut story = Story::new(5, [stripe(3, [0, 1, 2, 3])]);
    let (writing, below) = (vec![StripeId(5)], StripeId(7));
    story.give(Input::StripesReserved { below, writing });
    story.take();
    let held = vec![copy(3, 0, 0), copy(5, 0, 0), copy(6, 0, 0), copy(9, 0, 0)];
    story.hear(0, FromAgent::Inventory(held.into_iter().map(ListedCopy::from).collect()));
    let said = story.take();
    let deleted: Vec<&ChunkCopy> = said
        .iter()
        .filter_map(|output| match output {
            Output::Send { message: ToAgent::Delete { copy, .. }, .. } => Some(copy),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, [&copy(6, 0, 0)], "an aborted put; 5 is being written, 9 is not ours");
}

#[test]
fn a_paused_coordinator_begins_nothing_and_a_cancelled_one_stops() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(story.dispatched().is_empty());
    assert_eq!(story.preview().chunks, 1, "a preview says what would be done");
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().remove(0);
    story.give(Input::Operator(Command::Cancel));
    assert!(sent(&story.take(), |_, m| *m == ToAgent::Cancel(task.repair)));
    assert_eq!(story.core.status().running, []);
    assert_eq!(story.core.status().queued, 1);
}

#[test]
fn a_repair_that_stands_still_is_tried_another_way() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let first = story.dispatched().remove(0);
    story.wait(30, 1..6);
    let second = story.dispatched().remove(0);
    assert!(second.repair > first.repair);
    assert_eq!(second.stripe.id, first.stripe.id);
}

#[test]
fn the_answer_to_a_lost_commit_is_asked_for_again() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    story.wait(12, 1..5);
    assert!(story.take().contains(&Output::Commit(commit)), "asked again");
    // The first one had been applied: the keeper refuses, and shows our own copy.
    let mut current = stripe(0, [4, 1, 2, 3]);
    (current.chunks[0].stamp, current.generation) = (commit.copy.stamp, Generation(2));
    story.give(Input::CommitRefused { repair: commit.repair, stripe: Some(current) });
    assert_eq!(story.core.status().lost_chunks, 0);
    assert_eq!(story.core.status().repaired_chunks, 1);
}

#[test]
fn a_stripe_removed_during_its_repair_leaves_nothing_behind() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    story.give(Input::StripeRemoved(StripeId(0)));
    let said = story.take();
    let deletes =
        |node: u32| sent(&said, |to, m| to == NodeId(node) && matches!(m, ToAgent::Delete { .. }));
    assert!((1..4).all(deletes), "its chunks go");
    story.give(Input::CommitRefused { repair: commit.repair, stripe: None });
    let is_delete =
        |m: &ToAgent| matches!(m, ToAgent::Delete { epoch: 1, copy, .. } if *copy == commit.copy);
    assert!(sent(&story.take(), |to, m| to == commit.node && is_delete(m)), "the new one too");
    assert_eq!(story.core.running().count(), 0);
}

#[test]
fn of_several_chunks_nothing_is_left_when_their_stripe_is_removed_while_one_commits() {
    let mut story = Story::new(8, [stripe(0, [0, 1, 2, 3])]);
    (0..8).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::Pause));
    (0..2).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().remove(0);
    assert_eq!(task.plan.lost.len(), 2, "both in one go");
    let commit = story.store(&task);
    story.give(Input::StripeRemoved(StripeId(0)));
    // Another coordinator had changed the stripe before it was removed.
    let mut current = stripe(0, [6, 7, 2, 3]);
    current.generation = Generation(3);
    story.give(Input::CommitRefused { repair: commit.repair, stripe: Some(current) });
    assert_eq!(story.core.running().count(), 0);
    assert!(sent(&story.take(), |_, m| *m == ToAgent::Cancel(task.repair)));
}

#[test]
fn of_a_stripe_beyond_repair_what_local_groups_can_repair_is_repaired_also_one_by_one() {
    let record =
        |node| ChunkRecord { node: Some(NodeId(node)), stamp: Stamp(0), bytes: 4096, crc: Some(7) };
    let (code, chunks) = ("lrc(4,2,2)".parse().unwrap(), (0..8).map(record).collect());
    let mut story = Story::new(16, [Stripe { code, chunks, ..stripe(0, [0; 4]) }]);
    let hello = |story: &mut Story, pool_bytes: u64| {
        let (abilities, free_bytes, session) = (Abilities::ALL, 1 << 30, pool_bytes);
        let hello = Hello { incarnation: 1, session, abilities, pool_bytes, free_bytes };
        (0..16).for_each(|node| story.hear(node, FromAgent::Hello(hello)));
    };
    let fail = |story: &mut Story, nodes: &[u32]| {
        for node in nodes {
            story.give(Input::Operator(Command::FailNode(NodeId(*node))));
        }
    };
    // What one repair needs is more than there is, so chunks are repaired one by one.
    hello(&mut story, 100);
    fail(&mut story, &[0]);
    assert!(story.dispatched().is_empty());
    story.give(Input::Operator(Command::Pause));
    hello(&mut story, 64 << 20);
    fail(&mut story, &[1, 4, 5, 6, 7]);
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().remove(0);
    assert_eq!(task.plan.lost, [ChunkIndex(5)], "chunks 2, 3 and 5 are a group");
}

#[test]
fn of_a_stripe_beyond_repair_local_groups_are_repaired_where_nodes_take_turns() {
    let record =
        |node| ChunkRecord { node: Some(NodeId(node)), stamp: Stamp(0), bytes: 4096, crc: Some(7) };
    let (code, chunks) = ("lrc(4,2,2)".parse().unwrap(), (0..8).map(record).collect());
    let stripe = Stripe { code, chunks, ..stripe(0, [0; 4]) };
    let mut story = Story::by("ppr/greedy/slots:by-node", 16, [stripe]);
    story.give(Input::Operator(Command::Pause));
    for node in [0, 1, 4, 5, 6, 7] {
        story.give(Input::Operator(Command::FailNode(NodeId(node))));
    }
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().remove(0);
    assert_eq!(task.plan.lost, [ChunkIndex(5)], "chunks 2, 3 and 5 are a group");
}

#[test]
fn racks_are_numbered_in_the_order_in_which_nodes_say_them() {
    let mut story = Story::new(3, []);
    for (node, rack) in [(1, "b"), (0, "a"), (2, "b"), (3, "c")] {
        story.move_to(node, rack);
    }
    let cluster = story.core.cluster();
    assert_eq!(cluster.racks, ["b", "a", "c"]);
    let racks: Vec<_> = cluster.nodes.iter().map(|node| node.rack).collect();
    assert_eq!(racks, [1, 0, 0, 2].map(|rack| Some(RackId(rack))));
    assert_eq!(cluster.core, None, "what runs between racks is not known");
}

#[test]
fn a_node_may_change_its_rack_while_repairs_run_and_wait() {
    let mut story =
        Story::by("mix/greedy/window:1", 6, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 2, 3, 4])]);
    (0..6).for_each(|node| story.move_to(node, "a"));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let first = story.dispatched().remove(0);
    // What crossed no rack when it began crosses racks when it ends, and the other way round.
    (1..6).for_each(|node| story.move_to(node, if node % 2 == 0 { "b" } else { "c" }));
    let commit = story.store(&first);
    story.accept(commit);
    let second = story.dispatched().remove(0);
    (1..6).for_each(|node| story.move_to(node, "a"));
    let commit = story.store(&second);
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 0);
    assert_eq!(story.preview().max_load_seconds(), 0.0, "nothing is left in the books");
}

#[test]
fn a_policy_for_racks_waits_until_every_node_is_in_one() {
    let mut story = Story::by("car", 5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let why = |story: &Story| story.core.status().blocked[0].1.to_string();
    assert!(why(&story).contains("needs racks"), "{}", why(&story));
    (0..4).for_each(|node| story.move_to(node, ["a", "b"][node as usize % 2]));
    assert!(why(&story).contains("'n4' is in none"), "{}", why(&story));
    assert!(story.dispatched().is_empty());
    story.move_to(4, "a");
    assert_eq!(story.dispatched().len(), 1, "at once");
}

#[test]
fn ids_grow_over_restarts() {
    assert!(RepairId::new(2, 0) > RepairId::new(1, u32::MAX));
    assert_eq!(RepairId::new(7, 9).epoch(), 7);
}

#[test]
fn where_the_keeper_decides_silence_loses_no_chunk() {
    let stripes = [stripe(0, [0, 1, 2, 3])];
    let mut story = Story::with("suture", Liveness::Keeper, 6, stripes);
    let says = |story: &mut Story, node, state| {
        story.give(Input::NodeState { node: NodeId(node), state });
    };
    story.wait(60, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    assert_eq!(story.core.status().lost_chunks, 0, "nobody has said that it is dead");
    says(&mut story, 4, NodeState::Decommissioning);
    says(&mut story, 0, NodeState::Dead);
    let task = story.dispatched().remove(0);
    assert_eq!(task.plan.destinations[&ChunkIndex(0)], NodeId(5), "the other is being emptied");
    story.wait(5, 0..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed, "it is dead, whatever it says");
    says(&mut story, 0, NodeState::Up);
    story.join(0);
    assert_eq!(story.core.health(NodeId(0)), Health::Up);
    assert_eq!(story.core.status().lost_chunks, 0, "its copy is there");
    // One that is being emptied still helps.
    says(&mut story, 1, NodeState::Decommissioning);
    says(&mut story, 0, NodeState::Dead);
    says(&mut story, 2, NodeState::Dead);
    let task = story.dispatched().pop().expect("two helpers are left");
    assert!(task.plan.participants().contains(&NodeId(1)), "{:?}", task.plan);
}

#[test]
fn where_the_keeper_places_chunks_each_rack_is_given_as_few_as_an_even_spread_gives() {
    let racks = ["a", "b", "c", "d", "b", "c", "d", "e"];
    let destinations = |gone: &[u32]| {
        let stripes = (0..3).map(|id| stripe(id, [0, 1, 2, 3]));
        let mut story = Story::with("suture", Liveness::Keeper, 8, stripes);
        (0..).zip(racks).for_each(|(node, rack)| story.move_to(node, rack));
        for node in gone.iter().chain(&[0]) {
            let state = if *node == 0 { NodeState::Dead } else { NodeState::Decommissioning };
            story.give(Input::NodeState { node: NodeId(*node), state });
        }
        let tasks = story.dispatched();
        let to = |task: &suture_repair::message::Task| task.plan.destinations[&ChunkIndex(0)].0;
        tasks.iter().map(to).collect::<Vec<u32>>()
    };
    assert_eq!(destinations(&[]), [7, 7, 7], "four chunks in four racks that are left");
    let others = destinations(&[7]);
    assert!(others.len() == 3 && others.iter().all(|to| (4..7).contains(to)), "{others:?}");
}

#[test]
fn chunks_that_are_rebuilt_together_are_spread_evenly_too() {
    for policy in ["suture", "flow", "repairboost+ppr", "chameleon", "car"] {
        let stripes = (0..4).map(|id| stripe(id, [0, 1, 2, 3]));
        let mut story = Story::with(policy, Liveness::Keeper, 8, stripes);
        (0..8).for_each(|node| story.join_with(node, Abilities::ALL));
        let racks = (0..).zip(["a", "b", "c", "d", "e", "e", "f", "f"]);
        racks.for_each(|(node, rack)| story.move_to(node, rack));
        story.give(Input::Operator(Command::Pause));
        for node in [0, 1].map(NodeId) {
            story.give(Input::NodeState { node, state: NodeState::Dead });
        }
        story.take();
        story.give(Input::Operator(Command::Resume));
        // Four racks are left for four chunks, and two of them have one already.
        let tasks = story.dispatched();
        assert!(!tasks.is_empty(), "{policy}");
        for task in tasks {
            let to: Vec<NodeId> = task.plan.destinations.values().copied().collect();
            let racks: Vec<u32> = to.iter().map(|node| node.0 / 2).collect();
            assert!(matches!(racks[..], [2, 3] | [3, 2]), "{policy}: {to:?}");
        }
    }
}

#[test]
fn by_its_own_timers_the_coordinator_heeds_no_keeper() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::NodeState { node: NodeId(0), state: NodeState::Dead });
    assert_eq!((story.core.health(NodeId(0)), story.core.status().lost_chunks), (Health::Up, 0));
}

#[test]
fn chunks_that_are_known_to_be_zero_are_not_lost_and_take_no_place() {
    let mut short = stripe(0, [0, 1, 2, 3]);
    (short.chunks[1].node, short.chunks[1].bytes) = (None, 0);
    let mut story = Story::new(5, [short]);
    assert_eq!(story.core.status().lost_chunks, 0);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.core.status().at_risk, [0, 1], "the zero chunk counts as present");
    let task = story.dispatched().remove(0);
    let [lane] = &task.plan.lanes[..] else { panic!("one lane, not {:?}", task.plan.lanes) };
    assert_eq!(lane.edges.len(), 1, "the one helper that there has to be: {lane:?}");
    let commit = story.store(&task);
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 0);
}

#[test]
fn a_short_sleep_of_the_coordinator_is_nobody_s_silence() {
    // It ends by the clock, or by what a node has sent meanwhile.
    for is_told in [false, true] {
        let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
        story.wait(2, 0..6);
        story.take();
        story.now = story.now + Span::from_millis(3500);
        if is_told {
            story.beat(0);
        }
        story.give(Input::Tick);
        let is_node = |output: &Output| matches!(output, Output::Report(Report::Node { .. }));
        assert!(!story.take().iter().any(is_node), "nobody was there to receive");
    }
}

/// Its agent lives and can do nothing, so what it holds is as far away as that of a dead node.
#[test]
fn a_node_whose_disk_hangs_is_silent_whatever_its_agent_says() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    let beat =
        |disk| Heartbeat { incarnation: 1, free_bytes: 1 << 30, disk, ..Heartbeat::default() };
    let hanging = FromAgent::Heartbeat(beat(DiskState::Hanging));
    let speak = |story: &mut Story, seconds| {
        for _ in 0..seconds {
            story.hear(0, hanging.clone());
            story.hear(0, FromAgent::Failed { repair: RepairId(7), why: Failure::Stalled });
            story.wait(1, 1..6);
        }
    };
    speak(&mut story, 1);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    let status = story.core.status();
    assert_eq!((status.nodes[0].disk, status.degraded), (DiskState::Hanging, 1));
    speak(&mut story, 2);
    assert_eq!(
        (story.core.health(NodeId(0)), story.core.status().lost_chunks),
        (Health::Failed, 1)
    );
    // A session that is made anew changes nothing, and it comes back with its disk.
    story.join(0);
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    // What another start of it reports of its disk does not hold for this one.
    let other = Heartbeat { incarnation: 2, ..beat(DiskState::Good) };
    story.hear(0, FromAgent::Heartbeat(other));
    assert_eq!(story.core.health(NodeId(0)), Health::Failed);
    story.take();
    story.beat(0);
    assert_eq!(story.core.health(NodeId(0)), Health::Up);
    let is_asked = sent(&story.take(), |to, m| to == NodeId(0) && matches!(m, ToAgent::List));
    assert!(is_asked, "its copies count again once it has listed them");
}

#[test]
fn an_agent_that_was_started_again_says_itself_whether_its_disk_hangs() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let disk = DiskState::Hanging;
    let beat = Heartbeat { incarnation: 1, disk, ..Heartbeat::default() };
    story.hear(0, FromAgent::Heartbeat(beat));
    story.wait(2, 1..6);
    assert_eq!(story.core.health(NodeId(0)), Health::Suspect);
    let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
    let hello =
        Hello { incarnation: 2, session: 3, abilities: Abilities::PARTIAL, pool_bytes, free_bytes };
    story.hear(0, FromAgent::Hello(hello));
    assert_eq!(story.core.health(NodeId(0)), Health::Up);
}
