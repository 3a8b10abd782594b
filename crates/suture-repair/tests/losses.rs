//! Several chunks of a stripe are lost: which are rebuilt together, and what is reported where none
//! can be.

use crate::story::{Story, stripe};
use suture_repair::event::{Blocked, Command, Input};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::message::{FromAgent, Hello};
use suture_repair::planner::{Abilities, PlanError};

/// A stripe on the nodes 0 to 3 that lacks those of 0 and 1, beside nodes 4 and 5 without chunks,
/// of which the last has so much space, and all have such memory. Gives how many of the chunks are
/// rebuilt first.
fn rebuilt(free_bytes: u64, abilities: Abilities, pool_bytes: u64) -> Option<usize> {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    for node in 0..6 {
        let free_bytes = if node == 5 { free_bytes } else { 1 << 30 };
        let hello = Hello { incarnation: 1, session: 1 << 20, abilities, pool_bytes, free_bytes };
        story.hear(node, FromAgent::Hello(hello));
    }
    story.give(Input::Operator(Command::Pause));
    (0..2).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.give(Input::Operator(Command::Resume));
    story.wait(1, 2..6);
    story.dispatched().first().map(|task| task.plan.lost.len())
}

#[test]
fn two_chunks_are_rebuilt_together_where_two_other_nodes_have_room_and_agents_can() {
    let (all, pool) = (Abilities::ALL, 64 << 20);
    let cases = [
        (4097, all, 2),
        (4096, all, 1),
        (1 << 30, Abilities { combined: false, ..all }, 1),
        (1 << 30, Abilities { finished: false, ..all }, 1),
    ];
    for (free_bytes, abilities, count) in cases {
        assert_eq!(
            rebuilt(free_bytes, abilities, pool),
            Some(count),
            "{free_bytes}, {abilities:?}"
        );
    }
}

#[test]
fn chunks_whose_repair_fits_no_memory_together_are_rebuilt_one_after_the_other() {
    let with = |pool: u64| rebuilt(1 << 30, Abilities::ALL, pool);
    let pools = (1..128).map(|count| with(32 * count)).collect::<Vec<_>>();
    let first = |count| pools.iter().position(|found| *found == count);
    assert_eq!(first(None), Some(0), "nothing fits");
    assert!(first(Some(1)).is_some() && first(Some(1)) < first(Some(2)), "{pools:?}");
}

#[test]
fn a_stripe_beyond_repair_is_shown_with_the_chunks_that_are_left_silent_ones_too() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    (0..3).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.give(Input::AgentLost(NodeId(3)));
    story.give(Input::Operator(Command::Resume));
    let left = PlanError::NotEnoughChunks { needed: 2, available: 1 };
    let status = story.core.status();
    assert_eq!(status.blocked, [(StripeId(0), Blocked::Plan(left))]);
    assert_eq!((status.beyond, status.lost_chunks, status.stuck_chunks), (1, 0, 0));
}

#[test]
fn a_rack_counts_the_chunks_of_its_silent_nodes() {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::by("chain/greedy/all", 7, stripes);
    [1, 2, 4, 5].into_iter().for_each(|node| story.move_to(node, "a"));
    [3, 6].into_iter().for_each(|node| story.move_to(node, "b"));
    story.give(Input::AgentLost(NodeId(1)));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 6);
    for task in tasks {
        let nodes: Vec<NodeId> = task.plan.destinations.into_values().collect();
        assert_eq!(nodes, [NodeId(6)], "the rack has two chunks already");
    }
}

#[test]
fn where_nodes_are_repaired_one_after_the_other_the_first_has_its_turn_first() {
    let stripes = [stripe(0, [1, 2, 3, 4]), stripe(1, [0, 2, 3, 4])];
    let mut story = Story::by("ppr/greedy/slots:by-node", 8, stripes);
    story.give(Input::Operator(Command::Pause));
    (0..2).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.take();
    story.give(Input::Operator(Command::Resume));
    let begun: Vec<u64> = story.dispatched().iter().map(|task| task.stripe.id.0).collect();
    assert_eq!(begun, [1], "only stripe 1 has a chunk on node 0");
}
