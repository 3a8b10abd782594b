//! Stripes that a single rack could take with it: which these are, counted as things change.

use crate::story::{Story, stripe};
use suture_repair::event::{Command, Input};
use suture_repair::id::{NodeId, RackId, StripeId};

/// How many stripes could not be read without each rack. Two of four chunks may be lost.
fn crowded(story: &Story) -> Vec<(u32, u64)> {
    story.core.status().crowded.iter().map(|(rack, stripes)| (rack.0, *stripes)).collect()
}

#[test]
fn racks_that_are_set_over_data_are_counted_as_nodes_move() {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 4, 5, 6])]);
    assert_eq!(crowded(&story), []);
    story.move_to(0, "a");
    story.move_to(1, "a");
    assert_eq!(crowded(&story), [], "two may be lost");
    story.move_to(2, "a");
    assert_eq!(crowded(&story), [(0, 1)], "the others are in no rack, and so each alone");
    assert_eq!(story.core.status().lost_chunks, 0);
    (3..7).for_each(|node| story.move_to(node, "a"));
    assert_eq!(crowded(&story), [], "there is nowhere else");
    story.move_to(3, "b");
    assert_eq!(crowded(&story), [(0, 2)]);
    story.give(Input::StripeRemoved(StripeId(1)));
    assert_eq!(crowded(&story), [(0, 1)]);
    story.give(Input::StripeAdded(stripe(2, [0, 4, 5, 6])));
    assert_eq!(crowded(&story), [(0, 2)]);
    // Of two racks the other one is too full by now.
    (4..7).for_each(|node| story.move_to(node, "b"));
    assert_eq!(crowded(&story), [(0, 1), (1, 1)]);
    story.move_to(2, "b");
    assert_eq!(crowded(&story), [(1, 1)]);
}

#[test]
fn a_rack_that_keeps_fewer_chunks_than_may_be_lost_is_what_draining_makes() {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3])]);
    let racks = ["a", "a", "a", "b", "c", "d", "a"];
    (0..).zip(racks).for_each(|(node, rack)| story.move_to(node, rack));
    assert_eq!(crowded(&story), [(0, 1)]);
    story.take();
    story.give(Input::Operator(Command::DrainNode(NodeId(0))));
    let task = story.dispatched().pop().expect("its chunk moves");
    let (_, destination) = task.plan.destinations.first_key_value().unwrap();
    let rack = story.core.cluster().rack_of(*destination);
    assert!(rack.is_some_and(|rack| rack != RackId(0)), "{destination} has no place for it");
    assert_eq!(crowded(&story), [(0, 1)], "it is there still");
    let commit = story.store(&task);
    story.accept(commit);
    assert_eq!(crowded(&story), []);
}
