//! Nodes that speak to the coordinator and that no other agent can reach.

use crate::story::{Story, sent, stripe};
use suture_repair::event::{Health, Input, Output, Report};
use suture_repair::id::NodeId;
use suture_repair::message::{FromAgent, Heartbeat, Hello, LinkReport, ToAgent};
use suture_repair::planner::Abilities;

const CUT_OFF: NodeId = NodeId(1);

/// A node speaks, and reports which nodes it has tried.
fn beat(story: &mut Story, node: u32, reached: &[u32], unreached: &[u32]) {
    let nodes = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect();
    let report = LinkReport {
        reached: nodes(reached),
        unreached: nodes(unreached),
        ..LinkReport::default()
    };
    let links = Some(Box::new(report));
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
    story.hear(node, FromAgent::Heartbeat(beat));
}

/// The process of a node ends and another begins, before the coordinator notices.
fn begin_anew(story: &mut Story, node: u32) {
    let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
    let abilities = Abilities::PARTIAL;
    let hello = Hello { incarnation: 2, session: 99, abilities, pool_bytes, free_bytes };
    story.hear(node, FromAgent::Hello(hello));
}

fn health(story: &Story) -> Health {
    story.core.status().nodes[CUT_OFF.index()].health
}

/// So many seconds in which all speak and each of these reports to have reached node 1, or not;
/// then all outputs.
fn pass(story: &mut Story, seconds: u64, reached: &[u32], unreached: &[u32]) -> Vec<Output> {
    story.take();
    for _ in 0..seconds {
        story.wait(1, [1]);
        let nodes = story.core.status().nodes.len() as u32;
        for node in (0..nodes).filter(|node| *node != CUT_OFF.0) {
            let tells = |who: &[u32]| if who.contains(&node) { vec![CUT_OFF.0] } else { vec![] };
            beat(story, node, &tells(reached), &tells(unreached));
        }
    }
    story.take()
}

fn said(outputs: &[Output], is_cut_off: bool) -> bool {
    outputs.contains(&Output::Report(Report::CutOff { node: CUT_OFF, is_cut_off }))
}

#[test]
fn a_node_that_nobody_reaches_is_silent_and_lost_and_comes_back_by_one_that_reaches_it() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let early = pass(&mut story, 10, &[], &[0, 2, 4]);
    assert!(!said(&early, true) && health(&story) == Health::Up);
    assert_eq!(story.core.status().degraded, 0);
    let late = pass(&mut story, 5, &[], &[0, 2, 4]);
    assert!(said(&late, true), "{late:?}");
    assert_ne!(health(&story), Health::Up, "whatever it says of itself");
    assert!(story.core.status().nodes[CUT_OFF.index()].is_cut_off);
    let lost = pass(&mut story, 60, &[], &[0, 2, 4]);
    assert_eq!(health(&story), Health::Failed, "as one that is silent");
    assert!(sent(&lost, |_, message| matches!(message, ToAgent::Dispatch(_))), "it is repaired");
    let back = pass(&mut story, 2, &[5], &[]);
    assert!(said(&back, false), "{back:?}");
    assert_eq!(health(&story), Health::Up);
}

#[test]
fn neither_one_alone_nor_some_beside_one_that_reaches_it_cut_a_node_off() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    pass(&mut story, 200, &[], &[2]);
    assert_eq!(health(&story), Health::Up, "of five, two say nothing");
    pass(&mut story, 200, &[5], &[0, 2, 3, 4]);
    assert_eq!(health(&story), Health::Up, "somebody reaches it");
    // Reports of nodes that are gone do not count.
    pass(&mut story, 8, &[], &[0, 2, 3]);
    story.give(Input::AgentLost(NodeId(0)));
    let left = pass(&mut story, 50, &[], &[]);
    assert!(!said(&left, true), "{left:?}");
}

#[test]
fn where_there_are_two_others_both_suffice() {
    let mut story = Story::new(3, []);
    assert!(!said(&pass(&mut story, 90, &[], &[2]), true), "one alone");
    assert!(said(&pass(&mut story, 90, &[], &[0, 2]), true));
}

#[test]
fn who_is_cut_off_stays_so_by_the_words_of_those_who_tried_later() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    assert!(said(&pass(&mut story, 15, &[], &[0, 2, 4]), true));
    pass(&mut story, 2, &[], &[3]);
    for gone in [0, 2, 4] {
        story.give(Input::AgentLost(NodeId(gone)));
    }
    let later = pass(&mut story, 5, &[], &[]);
    assert!(!said(&later, false), "{later:?}");
    assert_ne!(health(&story), Health::Up);
}

#[test]
fn what_a_former_process_told_counts_no_more() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    pass(&mut story, 8, &[], &[0, 2, 4]);
    begin_anew(&mut story, 0);
    for _ in 0..20 {
        story.wait(1, [1, 2, 3, 4, 5]);
        let beat = Heartbeat { incarnation: 2, free_bytes: 1 << 30, ..Heartbeat::default() };
        story.hear(0, FromAgent::Heartbeat(beat));
    }
    assert!(!said(&story.take(), true), "of three, one has begun anew");
}

#[test]
fn one_that_begins_anew_is_not_cut_off_until_somebody_tries_it() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    assert!(said(&pass(&mut story, 15, &[], &[0, 2, 4]), true));
    begin_anew(&mut story, CUT_OFF.0);
    let beat = Heartbeat { incarnation: 2, free_bytes: 1 << 30, ..Heartbeat::default() };
    story.hear(CUT_OFF.0, FromAgent::Heartbeat(beat));
    assert!(said(&story.take(), false));
    assert_eq!(health(&story), Health::Up);
}

#[test]
fn words_about_nodes_that_there_are_not_change_nothing() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    for node in [0, 2, 3] {
        beat(&mut story, node, &[77], &[4, u32::MAX]);
    }
    assert_eq!(story.core.status().nodes.len(), 4);
}
