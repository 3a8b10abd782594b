//! Chunks move to nodes that hold little, few at a time, and only while nothing else is wrong.

#[path = "common/story.rs"]
mod story;

use story::{Story, sent, stripe};
use suture_repair::coordinator::Config;
use suture_repair::event::{Command, Input, Liveness};
use suture_repair::id::NodeId;
use suture_repair::message::{Failure, FromAgent, Heartbeat, Task, ToAgent};
use suture_repair::random::Random;
use suture_repair::stripe::Stripe;
use suture_repair::time::Span;

const AFTER: Span = Span::from_secs(30);

fn story(nodes: u32, stripes: impl IntoIterator<Item = Stripe>) -> Story {
    let rebalances = |config| Config { rebalance_after: Some(AFTER), ..config };
    Story::configured(rebalances, ("suture", Liveness::Own), nodes, stripes)
}

/// So many stripes, all on the first of the nodes: each has a chunk on four of them.
fn stripes_on(first: u64, count: u64) -> Vec<Stripe> {
    let node = |stripe: u64, chunk: u64| ((stripe + chunk) % first) as u32;
    (0..count).map(|id| stripe(id, [0, 1, 2, 3].map(|chunk| node(id, chunk)))).collect()
}

/// Lets time pass in which everything that is dispatched succeeds; gives what was.
fn settle(story: &mut Story, seconds: u64, nodes: u32) -> Vec<Task> {
    let mut moved = Vec::new();
    for _ in 0..seconds {
        story.wait(1, 0..nodes);
        let tasks = story.dispatched();
        assert!(tasks.len() <= 4 * nodes as usize, "{} at a time", tasks.len());
        for task in &tasks {
            let commit = story.store(task);
            story.accept(commit);
        }
        moved.extend(tasks);
    }
    moved
}

/// How many chunks each node has.
fn counts(story: &Story, nodes: u32) -> Vec<usize> {
    (0..nodes).map(|node| story.core.stripes().count_on(NodeId(node))).collect()
}

#[test]
fn empty_nodes_get_their_share_and_then_nothing_moves() {
    let mut story = story(8, stripes_on(6, 60));
    assert_eq!(counts(&story, 8), [40, 40, 40, 40, 40, 40, 0, 0]);
    assert!(settle(&mut story, 29, 8).is_empty(), "nothing was calm for long enough");
    let moved = settle(&mut story, 60, 8);
    let counts = counts(&story, 8);
    assert!(counts[6..].iter().all(|count| (27..=30).contains(count)), "{counts:?}");
    assert!(counts[..6].iter().all(|count| *count >= 30), "{counts:?}");
    assert!(moved.len() <= 60, "{} moves", moved.len());
    for task in &moved {
        let survivors = task.survivors();
        let facts = task.facts(&survivors);
        assert!(task.plan.lanes.iter().any(|lane| lane.copies(&facts)), "{task:?}");
    }
    assert!(settle(&mut story, 100, 8).is_empty(), "it goes on");
    assert_eq!(story.core.status().rebalance.chunks, 0);
}

#[test]
fn few_chunks_move_at_a_time_and_status_says_what_is_left() {
    let mut story = story(5, stripes_on(4, 40));
    story.wait(32, 0..5);
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 4);
    let status = story.core.status();
    assert_eq!((status.rebalance.chunks, status.lost_chunks, status.leaving_chunks), (4, 0, 0));
    let chunk_bytes = stripe(0, [0, 1, 2, 3]).chunk_bytes;
    let left = 0.9 * 32.0 * chunk_bytes as f64;
    assert!((status.rebalance.bytes_left as f64 - left).abs() < chunk_bytes as f64);
    let destinations = tasks.iter().flat_map(|task| task.plan.destinations.values());
    assert!(destinations.into_iter().all(|node| *node == NodeId(4)));
}

#[test]
fn clusters_that_are_even_enough_are_left_alone() {
    // Chance has given some nodes a third less than others.
    let mut stripes = stripes_on(6, 30);
    stripes.extend((30..36).map(|id| stripe(id, [0, 1, 2, 3])));
    let mut story = story(6, stripes);
    assert!(settle(&mut story, 120, 6).is_empty());
    // Of so few chunks none belongs on the other nodes.
    let mut story = self::story(12, [stripe(0, [0, 1, 2, 3])]);
    assert!(settle(&mut story, 120, 12).is_empty());
}

#[test]
fn nothing_moves_where_nobody_wants_it() {
    let mut story = Story::new(8, stripes_on(6, 60));
    assert!(settle(&mut story, 200, 8).is_empty());
}

#[test]
fn what_is_lost_ends_all_moves_and_they_begin_after_another_while() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(32, 0..8);
    let moves = story.dispatched();
    assert_eq!(moves.len(), 8);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.core.status().rebalance.chunks, 0);
    let said = story.take();
    for task in &moves {
        let is_cancel = |message: &ToAgent| *message == ToAgent::Cancel(task.repair);
        assert!(sent(&said, |_, message| is_cancel(message)), "{} goes on", task.repair);
    }
    story.said = said;
    let repaired = story.dispatched();
    assert_eq!(repaired.len(), 40);
    for task in &repaired {
        let commit = story.store(task);
        story.accept(commit);
    }
    assert!(settle(&mut story, 29, 8).is_empty());
}

#[test]
fn a_node_that_comes_or_goes_makes_all_others_wait() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(20, 0..8);
    // It is silent for a moment.
    story.wait(2, 0..7);
    story.wait(20, 0..8);
    assert!(story.dispatched().is_empty());
    assert!(!settle(&mut story, 15, 8).is_empty());
}

#[test]
fn paused_repairs_are_paused_moves() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(32, 0..8);
    assert_eq!(story.dispatched().len(), 8);
    story.give(Input::Operator(Command::Cancel));
    assert_eq!(story.core.status().rebalance.chunks, 0);
    assert!(settle(&mut story, 60, 8).is_empty());
    story.give(Input::Operator(Command::Resume));
    assert!(settle(&mut story, 29, 8).is_empty());
    assert!(!settle(&mut story, 5, 8).is_empty());
}

#[test]
fn nodes_that_are_drained_failed_or_paused_are_given_nothing() {
    let mut story = story(8, stripes_on(6, 60));
    story.give(Input::Operator(Command::DrainNode(NodeId(6))));
    story.give(Input::Operator(Command::FailNode(NodeId(7))));
    assert!(settle(&mut story, 120, 8).is_empty());
    assert_eq!(counts(&story, 8)[6..], [0, 0]);
}

#[test]
fn a_rack_gets_no_more_of_a_stripe_than_may_be_lost() {
    // Chunks 0 and 1 of all stripes are in one rack, and the empty node is there too.
    let stripes = (0..40).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = story(5, stripes);
    for (node, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "a")] {
        story.move_to(node, rack);
    }
    settle(&mut story, 60, 5);
    for known in story.core.stripes().iter() {
        let in_a = [0, 1, 4].into_iter().filter(|node| known.chunk_on(NodeId(*node)).is_some());
        assert_eq!(in_a.count(), 2, "{known:?}");
    }
    assert!(counts(&story, 5)[4] > 0);
}

#[test]
fn a_move_that_fails_is_no_trouble_of_its_stripe() {
    let mut story = story(5, stripes_on(4, 40));
    for _ in 0..20 {
        story.wait(2, 0..5);
        for task in story.dispatched() {
            let why = Failure::Stalled;
            story.hear(4, FromAgent::Failed { repair: task.repair, why });
        }
        assert!(story.core.status().blocked.is_empty());
    }
    assert_eq!(counts(&story, 5)[4], 0);
    assert!(!settle(&mut story, 60, 5).is_empty());
}

#[test]
fn racks_that_are_too_few_for_the_rule_get_no_more_than_they_had() {
    // Two racks hold two chunks each of what may lose one.
    let stripes =
        (0..40).map(|id| Stripe { code: "rs(3,1)".parse().unwrap(), ..stripe(id, [0, 1, 2, 3]) });
    let mut story = story(5, stripes);
    for (node, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "b")] {
        story.move_to(node, rack);
    }
    settle(&mut story, 60, 5);
    for known in story.core.stripes().iter() {
        let in_b = [2, 3, 4].into_iter().filter(|node| known.chunk_on(NodeId(*node)).is_some());
        assert_eq!(in_b.count(), 2, "{known:?}");
    }
    assert!(counts(&story, 5)[4] > 0);
    // And one rack is none.
    let mut story = self::story(5, stripes_on(4, 40));
    (0..5).for_each(|node| story.move_to(node, "a"));
    settle(&mut story, 60, 5);
    assert!(counts(&story, 5)[4] > 20);
}

#[test]
fn what_cannot_move_is_not_tried_all_the_time() {
    // A chunk of every stripe is on each node of rack a already, one of which is as good as empty.
    let stripes = (0..40).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = story(4, stripes);
    let chunk_bytes = stripe(0, [0, 1, 2, 3]).chunk_bytes;
    for _ in 0..90 {
        story.now = story.now + Span::from_secs(1);
        for node in 0..4 {
            let free_bytes = chunk_bytes * if node == 3 { 1000 } else { 10 };
            let beat = Heartbeat { incarnation: 1, free_bytes, ..Heartbeat::default() };
            story.hear(node, FromAgent::Heartbeat(beat));
        }
        story.give(Input::Tick);
        assert!(story.dispatched().is_empty());
    }
    let status = story.core.status().rebalance;
    assert_eq!((status.chunks, status.bytes_left), (0, 0));
}

#[test]
fn small_nodes_come_to_rest() {
    let mut random = Random::new(7);
    for round in 0..60 {
        // Six nodes, each with space for 24 chunks, of which some hold few.
        let holders = 4 + random.index(3) as u64;
        let stripes = (0..8 + random.index(4) as u64).map(|id| {
            let mut nodes: Vec<u32> = (0..holders as u32).collect();
            random.shuffle(&mut nodes);
            stripe(id, [nodes[0], nodes[1], nodes[2], nodes[3]])
        });
        let stripes: Vec<Stripe> = stripes.collect();
        let chunk_bytes = stripes[0].chunk_bytes;
        let mut story = story(6, stripes);
        let mut moved = 0;
        let mut at_last = 0;
        for second in 0..400 {
            story.now = story.now + Span::from_secs(1);
            for node in 0..6 {
                let held = story.core.stripes().count_on(NodeId(node)) as u64;
                let free_bytes = (24 - held) * chunk_bytes;
                let beat = Heartbeat { incarnation: 1, free_bytes, ..Heartbeat::default() };
                story.hear(node, FromAgent::Heartbeat(beat));
            }
            story.give(Input::Tick);
            for task in story.dispatched() {
                (moved, at_last) = (moved + 1, second);
                let commit = story.store(&task);
                story.accept(commit);
            }
        }
        assert!(
            moved <= 24 && at_last < 300,
            "round {round}: {moved} moves, one after {at_last} s"
        );
    }
}

#[test]
fn moves_that_run_end_when_repairs_are_paused_and_no_other_begins() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(32, 0..8);
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 8);
    story.give(Input::Operator(Command::Pause));
    assert_eq!(story.core.status().rebalance.chunks, 8);
    let commits: Vec<_> = tasks.iter().map(|task| story.store(task)).collect();
    commits.into_iter().for_each(|commit| story.accept(commit));
    assert!(settle(&mut story, 60, 8).is_empty());
    assert_eq!(counts(&story, 8)[6..].iter().sum::<usize>(), 8);
}
