//! Chunks move to nodes that hold little, few at a time, and only while nothing else is wrong.

use crate::story::{Story, sent, stripe};
use suture_repair::coordinator::Config;
use suture_repair::event::{Command, Input, Liveness};
use suture_repair::id::NodeId;
use suture_repair::message::{DiskState, Failure, FromAgent, Heartbeat, Task, ToAgent};
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

/// A second passes in which each of the nodes reports that it has space for so many chunks more.
fn beat_with(story: &mut Story, space: &[(u64, DiskState)]) {
    for _ in 0..2 {
        story.now = story.now + Span::from_millis(500);
        for (node, &(chunks, disk)) in space.iter().enumerate() {
            let free_bytes = chunks * stripe(0, [0, 1, 2, 3]).chunk_bytes;
            let beat = Heartbeat { incarnation: 1, free_bytes, disk, ..Heartbeat::default() };
            story.hear(node as u32, FromAgent::Heartbeat(beat));
        }
        story.give(Input::Tick);
    }
}

/// Likewise, on disks that work, and everything that is dispatched succeeds.
fn settle_with(story: &mut Story, space: impl Fn(&Story) -> Vec<u64>, seconds: u64) -> Vec<Task> {
    let mut moved = Vec::new();
    for _ in 0..seconds {
        let space: Vec<_> = space(story).into_iter().map(|c| (c, DiskState::Good)).collect();
        beat_with(story, &space);
        for task in story.dispatched() {
            let commit = story.store(&task);
            story.accept(commit);
            moved.push(task);
        }
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
    let mut failed = 0;
    for _ in 0..20 {
        story.wait(2, 0..5);
        let tasks = story.dispatched();
        failed += tasks.len();
        for task in tasks {
            let why = Failure::Stalled;
            story.hear(4, FromAgent::Failed { repair: task.repair, why });
        }
        assert!(story.core.status().blocked.is_empty());
    }
    assert!((4..=8).contains(&failed), "{failed} in the ten seconds after the wait");
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
    // Every node has a chunk of every stripe, and one of them much space.
    let mut story = story(4, (0..40).map(|id| stripe(id, [0, 1, 2, 3])));
    let mut is_wanting = Vec::new();
    for _ in 0..95 {
        beat_with(&mut story, &[10, 10, 10, 1000].map(|chunks| (chunks, DiskState::Good)));
        assert!(story.dispatched().is_empty());
        is_wanting.push(story.core.status().rebalance.bytes_left > 0);
    }
    assert_eq!(is_wanting.iter().filter(|wanting| **wanting).count(), 0, "it rests at once");
    // More stripes than are looked at in a second take a few.
    let mut story = self::story(4, (0..3000).map(|id| stripe(id, [0, 1, 2, 3])));
    let mut is_wanting = Vec::new();
    for _ in 0..95 {
        beat_with(&mut story, &[10, 10, 10, 50_000].map(|chunks| (chunks, DiskState::Good)));
        is_wanting.push(story.core.status().rebalance.bytes_left > 0);
    }
    let wanting = is_wanting.iter().filter(|wanting| **wanting).count();
    assert!((2..=8).contains(&wanting), "{wanting} s of 95");
}

#[test]
fn small_nodes_come_to_rest() {
    let (mut random, mut all_moved) = (Random::new(7), 0);
    for round in 0..60 {
        // Six nodes, each with space for 24 chunks, of which some hold few.
        let holders = 4 + random.index(3) as u32;
        let stripes = (0..8 + random.index(4) as u64).map(|id| {
            let mut nodes: Vec<u32> = (0..holders).collect();
            random.shuffle(&mut nodes);
            stripe(id, [nodes[0], nodes[1], nodes[2], nodes[3]])
        });
        let stripes: Vec<Stripe> = stripes.collect();
        let mut story = story(6, stripes);
        let space = |story: &Story| counts(story, 6).iter().map(|held| 24 - *held as u64).collect();
        let moved = settle_with(&mut story, space, 300).len();
        all_moved += moved;
        assert!(moved <= 24, "round {round}: {moved} moves");
        assert!(settle_with(&mut story, space, 100).is_empty(), "round {round} goes on");
    }
    assert!(all_moved > 60, "{all_moved} moves in all");
}

#[test]
fn chunks_leave_the_fullest_node_first_and_none_more_than_it_has_to_spare() {
    let mut story = story(5, (0..40).map(|id| stripe(id, [0, 1, 2, 3])));
    let space = |story: &Story| {
        let held = counts(story, 5);
        let most = [55, 55, 40, 55, 195];
        most.iter().zip(held).map(|(most, held)| most - held as u64).collect()
    };
    let moved = settle_with(&mut story, space, 33);
    let from = |task: &Task| task.stripe.chunks[task.plan.lost[0].0 as usize].node;
    assert!(moved.len() >= 8, "{} moves", moved.len());
    assert!(moved[..8].iter().all(|task| from(task) == Some(NodeId(2))), "{moved:?}");
    settle_with(&mut story, space, 60);
    // It has a chunk of every stripe by then.
    let counts = counts(&story, 5);
    assert_eq!(counts[4], 40, "{counts:?}");
    assert!(counts[2] < 26 && [0, 1, 3].iter().all(|node| counts[*node] > 30), "{counts:?}");
}

#[test]
fn a_rack_that_is_full_of_a_stripe_gets_no_more_of_it_where_others_have_little_space() {
    // Node 5, with much space, is in the rack of chunks 0 and 1, and 4, with little, in one of its
    // own.
    let mut story = story(6, (0..40).map(|id| stripe(id, [0, 1, 2, 3])));
    for (node, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "a")] {
        story.move_to(node, rack);
    }
    let space = |story: &Story| {
        let held = counts(story, 6);
        let most = [400, 400, 40, 40, 12, 400];
        most.iter().zip(held).map(|(most, held)| most - held as u64).collect()
    };
    settle_with(&mut story, space, 120);
    for known in story.core.stripes().iter() {
        let in_a = [0, 1, 5].into_iter().filter(|node| known.chunk_on(NodeId(*node)).is_some());
        assert_eq!(in_a.count(), 2, "{known:?}");
    }
    assert!(counts(&story, 6)[4] > 0);
}

#[test]
fn a_disk_that_does_not_work_as_it_should_is_given_nothing() {
    for disk in [DiskState::Failing, DiskState::ReadOnly, DiskState::Good] {
        let mut story = story(5, stripes_on(4, 40));
        let mut moved = 0;
        for _ in 0..60 {
            let good = DiskState::Good;
            beat_with(&mut story, &[(40, good), (40, good), (40, good), (40, good), (80, disk)]);
            moved += story.dispatched().len();
        }
        assert_eq!(moved > 0, disk == DiskState::Good, "{disk}: {moved} moves");
    }
}

#[test]
fn a_coordinator_that_slept_waits_as_after_a_start() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(20, 0..8);
    story.now = story.now + Span::from_secs(600);
    assert!(settle(&mut story, 29, 8).is_empty());
    assert!(!settle(&mut story, 5, 8).is_empty());
}

#[test]
fn what_is_wanted_otherwise_of_a_node_ends_all_moves() {
    let mut story = story(8, stripes_on(6, 60));
    story.wait(32, 0..8);
    assert_eq!(story.dispatched().len(), 8);
    story.give(Input::Operator(Command::DrainNode(NodeId(0))));
    assert_eq!(story.core.status().rebalance.chunks, 0);
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

/// Stripes on the nodes 0 to 3, of which so many have their last chunk on node 4, and nodes with
/// space for so many chunks in all. Chunks are chosen for some seconds before any may move. Gives
/// which nodes they leave, and how many bytes are left to move then.
fn chosen(on_last: u64, most: [u64; 5]) -> (Vec<NodeId>, u64) {
    let last = |id: u64| if id < on_last { 4 } else { 3 };
    let mut story = story(5, (0..13).map(|id| stripe(id, [0, 1, 2, last(id)])));
    story.give(Input::WindowClosed(Some(story.now + Span::from_secs(36))));
    let space = |story: &Story| {
        let held = counts(story, 5);
        most.iter().zip(held).map(|(most, held)| most - held as u64).collect()
    };
    assert!(settle_with(&mut story, space, 35).is_empty(), "the window is closed");
    let status = story.core.status().rebalance;
    let beats: Vec<_> = space(&story).into_iter().map(|c| (c, DiskState::Good)).collect();
    beat_with(&mut story, &beats);
    let tasks = story.dispatched();
    assert_eq!(tasks.len() as u64, status.chunks, "what was chosen begins");
    let from = |task: &Task| task.stripe.chunks[task.plan.lost[0].0 as usize].node;
    (tasks.iter().filter_map(from).collect(), status.bytes_left)
}

/// The cluster is a quarter full, so a share is a quarter of what a node could hold.
#[test]
fn a_node_is_given_what_it_lacks_of_its_share_and_no_more() {
    // Node 4 has some chunks and could hold others; node 0 has 8 to spare, and no other any.
    let cases = [
        (1, [20, 60, 60, 60, 8], 0, "it has just half of its share"),
        (1, [20, 60, 60, 59, 9], 1, "2.25 are its share"),
        (1, [20, 59, 59, 58, 12], 2, "just two"),
        (1, [20, 58, 58, 58, 14], 2, "it lacks two and a half"),
        (0, [20, 62, 61, 61, 4], 1, "just one"),
        (0, [20, 62, 62, 61, 3], 0, "less than one"),
    ];
    for (on_last, most, count, why) in cases {
        let (from, _) = chosen(on_last, most);
        assert_eq!(from, vec![NodeId(0); count], "{most:?}: {why}");
    }
    // 3.5 are its share, and nine tenths of it less the one that it has are left.
    let (_, left) = chosen(1, [20, 58, 58, 58, 14]);
    assert_eq!(left, (2.15 * 4096.0) as u64);
}

#[test]
fn a_node_keeps_its_share_without_what_is_to_leave_it() {
    // Each of the others has 13 chunks, and a share of more than 12, but node 0 at first.
    let cases = [(48, 50, 1, "13 less one is its share"), (49, 49, 0, "it is not")];
    for (first, second, count, why) in cases {
        let (from, _) = chosen(0, [first, second, 50, 50, 208 - 100 - first - second]);
        assert_eq!(from, vec![NodeId(0); count], "{first}: {why}");
    }
}

#[test]
fn what_moves_and_waits_for_the_metadata_is_not_moved_again() {
    let mut story = story(5, stripes_on(4, 4));
    let space = [4, 4, 4, 4, 100].map(|chunks| (chunks, DiskState::Good));
    (0..32).for_each(|_| beat_with(&mut story, &space));
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 4);
    let commits: Vec<_> = tasks.iter().map(|task| story.store(task)).collect();
    // A node goes and comes, which ends the other moves; the answers take long.
    story.give(Input::AgentLost(NodeId(3)));
    (0..35).for_each(|_| beat_with(&mut story, &space));
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().rebalance.chunks, 0);
    commits.into_iter().for_each(|commit| story.accept(commit));
    assert_eq!(counts(&story, 5)[4], 4);
}

#[test]
fn nothing_is_due_while_nothing_may_move() {
    let due = |paused| {
        let rebalances = |config| Config { rebalance_after: Some(AFTER), paused, ..config };
        let stripes = [stripe(0, [0, 1, 2, 3])];
        let mut story = Story::configured(rebalances, ("suture", Liveness::Keeper), 5, stripes);
        // All are silent, and their keeper has not given them up.
        story.wait(2, []);
        story.core.next_deadline()
    };
    assert_eq!((due(true), due(false).is_some()), (None, true));
}

/// Chunks are on the first four of five nodes in these racks, which have space for so many in all;
/// beside them are others without space. Gives how many each has after a minute.
fn moved_in(racks: [&str; 5], code: &str, others: &[&str], most: [u64; 5]) -> Vec<usize> {
    let nodes = 5 + others.len() as u32;
    let stripes =
        (0..40).map(|id| Stripe { code: code.parse().unwrap(), ..stripe(id, [0, 1, 2, 3]) });
    let mut story = story(nodes, stripes);
    let named = (0..).zip(racks.iter().chain(others)).filter(|(_, rack)| !rack.is_empty());
    named.for_each(|(node, rack)| story.move_to(node, rack));
    let space = |story: &Story| {
        let free = most.iter().zip(counts(story, 5)).map(|(most, held)| most - held as u64);
        free.chain(others.iter().map(|_| 0)).collect()
    };
    settle_with(&mut story, space, 60);
    counts(&story, nodes)
}

#[test]
fn a_rack_may_have_as_many_chunks_of_a_stripe_as_may_be_lost() {
    // Node 4 is in the rack of chunk 3, and only node 0 has any to spare.
    let most = [40, 120, 120, 120, 120];
    let counts = moved_in(["a", "b", "c", "d", "d"], "rs(2,2)", &["e"], most);
    assert!(counts[0] < 30 && counts[4] > 10, "{counts:?}");
}

#[test]
fn a_rack_that_has_too_many_chunks_of_a_stripe_may_keep_as_many() {
    // The other rack could have one more of each stripe, and has no node without one.
    let most = [60, 60, 60, 60, 120];
    let counts = moved_in(["a", "a", "a", "b", "a"], "rs(2,2)", &[], most);
    assert!(counts[4] > 10 && counts[3] == 40, "{counts:?}");
}

#[test]
fn a_single_rack_is_none_where_other_nodes_are_in_no_rack() {
    let counts = moved_in(["a"; 5], "rs(2,2)", &[""], [60, 60, 60, 60, 120]);
    assert!(counts[4] > 10, "{counts:?}");
}
