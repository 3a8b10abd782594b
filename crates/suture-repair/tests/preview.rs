//! What `repair start --dry-run` says before anything is done.

use std::collections::BTreeMap;

use crate::story::{Story, stripe};
use suture_repair::event::{Command, Health, Input};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::message::{FromAgent, Heartbeat};
use suture_repair::planner::PlanError;
use suture_repair::stripe::Stripe;
use suture_repair::time::Span;

/// Stripes on eight of nine nodes in turn.
fn stripes(count: u64) -> impl Iterator<Item = Stripe> {
    (0..count).map(|id| {
        let first = (id % 8) as u32;
        stripe(id, [first, (first + 1) % 8, (first + 2) % 8, (first + 3) % 8])
    })
}

/// A paused coordinator of which a node has failed.
fn paused(count: u64) -> Story {
    let mut story = Story::new(9, stripes(count));
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story
}

#[test]
fn it_says_what_is_then_done() {
    let mut story = paused(16);
    let preview = story.preview();
    assert_eq!((preview.chunks, preview.bytes), (8, 8 * 4096));
    assert_eq!(preview.load.moved_bytes(), 16 * 4096, "two helpers for each of eight chunks");
    assert!(preview.refused.is_empty());
    let (bound, peak) = (preview.bound_seconds().unwrap(), preview.max_load_seconds());
    assert!(bound > 0.0 && bound <= peak && peak < 1.2 * bound, "{peak} s, bound {bound} s");
    let mut rebuilt_at: BTreeMap<NodeId, u64> = BTreeMap::new();
    story.take();
    story.give(Input::Operator(Command::Resume));
    let mut moved_bytes = 0;
    for _ in 0..8 {
        for task in story.dispatched() {
            let plan = &task.plan;
            *rebuilt_at.entry(plan.destinations[&plan.lost[0]]).or_default() += 1;
            let edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
            moved_bytes += edges.map(|edge| edge.bytes).sum::<u64>();
            let commit = story.store(&task);
            story.accept(commit);
        }
    }
    assert_eq!(rebuilt_at.values().sum::<u64>(), 8);
    assert_eq!(preview.rebuilt_at.iter().sum::<u64>(), 8);
    assert_eq!(preview.rebuilt_at[0], 0, "it has failed");
    assert_eq!(moved_bytes, preview.load.moved_bytes());
    assert_eq!(story.preview().chunks, 0, "nothing is left to do");
}

#[test]
fn batches_leave_each_other_less_space() {
    // Twenty thousand chunks are lost; there is space for nine thousand.
    let mut story = paused(40_000);
    for node in 1..9 {
        let free_bytes = if node == 8 { 9000 * 4096 } else { 0 };
        let beat = Heartbeat { incarnation: 1, free_bytes, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(beat));
    }
    let mut preview = story.core.preview();
    let mut batches = Vec::new();
    loop {
        let stripes = preview.take_stripes();
        if stripes.is_empty() {
            break;
        }
        batches.push(stripes.len());
        preview.plan(&story.core.preview_jobs(&stripes));
    }
    assert_eq!(batches, [8192, 8192, 3616]);
    assert_eq!(preview.chunks + preview.refused.len() as u64, 20_000);
    assert!((8990..=9000).contains(&preview.chunks), "{} chunks", preview.chunks);
    let is_full = |(_, why): &(StripeId, PlanError)| matches!(why, PlanError::NoDestination);
    assert!(preview.refused.iter().all(is_full), "{:?}", preview.refused.first());
}

#[test]
fn what_is_repaired_meanwhile_is_not_planned() {
    let mut story = paused(16);
    let mut preview = story.core.preview();
    let stripes = preview.take_stripes();
    assert_eq!(stripes.len(), 8);
    story.take();
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().remove(0);
    let under_way = story.core.status().running.len() as u64;
    assert!(under_way > 0 && stripes.contains(&task.stripe.id));
    preview.plan(&story.core.preview_jobs(&stripes));
    assert_eq!(preview.chunks, 8 - under_way);
}

#[test]
fn it_says_what_is_done_about_silent_nodes_when_repairs_are_begun() {
    let mut story = Story::new(9, stripes(16));
    assert_eq!(story.preview().chunks, 0);
    let others: Vec<u32> = (1..9).collect();
    while story.core.status().nodes[0].health == Health::Up {
        story.wait(1, others.clone());
    }
    assert_eq!(story.core.status().lost_chunks, 0, "it may come back");
    let preview = story.preview();
    assert_eq!((preview.chunks, preview.rebuilt_at[0]), (8, 0));
    story.take();
    story.give(Input::Operator(Command::FailSilent));
    assert_eq!(story.core.status().lost_chunks, 8);
    // A node that is expected back is not given up by that command, and so not here.
    let mut story = Story::new(9, stripes(16));
    let span = Span::from_secs(3600);
    story.give(Input::Operator(Command::PauseNode { node: NodeId(0), span }));
    story.wait(20, others);
    assert_eq!(story.core.status().nodes[0].health, Health::Suspect);
    assert_eq!(story.preview().chunks, 0);
    // What silent nodes hold may be too much.
    let mut story = Story::new(9, stripes(16));
    story.wait(20, 3..9);
    assert!(!story.preview().refused.is_empty());
}

#[test]
fn of_some_stripes_it_says_what_is_done_once_they_are_wanted_now() {
    let mut story = Story::new(9, stripes(16));
    let others: Vec<u32> = (1..9).collect();
    while story.core.status().nodes[0].health == Health::Up {
        story.wait(1, others.clone());
    }
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::DrainNode(NodeId(3))));
    // The second has a chunk that only has to move; of the last nothing is known.
    let wanted = [5, 1, 6, 99].map(StripeId);
    let preview = story.preview_of(&wanted);
    assert_eq!((preview.chunks, preview.bytes), (2, 2 * 4096));
    assert_eq!(preview.load.moved_bytes(), 4 * 4096, "two helpers for each of two chunks");
    assert!(preview.refused.is_empty());
    assert_eq!(story.preview_of(&[StripeId(1), StripeId(2)]).chunks, 0, "they lack nothing");
    assert!(story.preview().chunks > 2, "all that is silent or moves");
    assert_eq!(story.core.status().lost_chunks, 0, "nothing was changed");
    wanted.into_iter().for_each(|id| story.give(Input::Operator(Command::RepairNow(id))));
    assert_eq!(story.core.status().lost_chunks, preview.chunks);
    let later = story.preview_of(&wanted);
    assert_eq!((later.chunks, later.bytes), (preview.chunks, preview.bytes), "they are paused");
    story.take();
    story.give(Input::Operator(Command::Resume));
    let begun: Vec<u64> = story.dispatched().iter().map(|task| task.stripe.id.0).collect();
    assert!(begun.contains(&5) && begun.contains(&6), "{begun:?}");
    assert_eq!(story.preview_of(&wanted).chunks, 0, "they are under repair");
}
