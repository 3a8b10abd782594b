//! How fast the repairs that run could be at best, as operators see it beside their rate.

use crate::story::{Story, stripe};
use suture_repair::coordinator::RepairBound;
use suture_repair::event::{Command, Input};
use suture_repair::id::NodeId;
use suture_repair::stripe::Stripe;

const NODES: u32 = 9;

/// Stripes on eight of nine nodes in turn.
fn stripes(count: u64) -> impl Iterator<Item = Stripe> {
    (0..count).map(|id| {
        let first = (id % 8) as u32;
        stripe(id, [first, (first + 1) % 8, (first + 2) % 8, (first + 3) % 8])
    })
}

/// A paused coordinator of which a node has failed that held eight chunks.
fn paused() -> Story {
    let mut story = Story::new(NODES, stripes(16));
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story
}

fn found(story: &Story) -> Option<RepairBound> {
    story.core.planned_jobs().and_then(|jobs| jobs.bound())
}

#[track_caller]
fn assert_near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
}

#[test]
fn it_is_that_of_a_preview_and_no_more_than_the_plans_need_and_ends_with_the_repairs() {
    let mut story = paused();
    assert_eq!(found(&story), None, "nothing runs yet");
    let preview = story.preview();
    story.take();
    story.give(Input::Operator(Command::Resume));
    let bound = found(&story).unwrap();
    assert_near(bound.seconds, preview.bound_seconds().unwrap());
    assert!(bound.seconds <= preview.max_load_seconds(), "{bound:?}");
    assert_eq!(bound.bytes, preview.bytes);
    // Two helpers for each chunk, and eight uplinks of 1 MB/s.
    assert!(bound.bytes_per_second() <= 8.0 * 1e6 / 2.0 + 1.0, "{bound:?}");
    for _ in 0..8 {
        for task in story.dispatched() {
            let commit = story.store(&task);
            story.accept(commit);
            if let Some(left) = found(&story) {
                assert!(left.bytes < bound.bytes, "{left:?}");
                assert!(left.seconds <= 1.000_001 * bound.seconds);
            }
        }
    }
    assert_eq!(story.core.status().lost_chunks, 0);
    assert_eq!(found(&story), None, "nothing is to be rebuilt");
}

#[test]
fn it_counts_with_links_as_limits_leave_them() {
    let mut story = paused();
    story.give(Input::Operator(Command::Resume));
    let before = found(&story).unwrap();
    // Half of each link.
    story.give(Input::Throttle(Box::new("node 500000".parse().unwrap())));
    let after = found(&story).unwrap();
    assert_eq!(after.bytes, before.bytes);
    assert_near(after.seconds, 2.0 * before.seconds);
    assert_near(after.bytes_per_second(), before.bytes_per_second() / 2.0);
}

#[test]
fn of_chunks_that_only_move_there_is_none() {
    let mut story = Story::new(NODES, stripes(16));
    story.give(Input::Operator(Command::DrainNode(NodeId(3))));
    assert!(!story.core.status().running.is_empty(), "they move");
    assert_eq!(found(&story), None);
}
