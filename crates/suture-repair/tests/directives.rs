//! What a schedule wants of repairs that run, passed on: pauses, other plans, and when it is asked.

use crate::story::{Story, stripe};
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Command, Input, Output, Report};
use suture_repair::id::{ChunkIndex, NodeId, RepairId};
use suture_repair::message::{FromAgent, Heartbeat, Task, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::time::Span;

/// A chunk of one stripe is lost, and repaired from the nodes that hold the others.
fn one_repair(policy: &str) -> (Story, Task) {
    let mut story = Story::by(policy, 6, [stripe(0, [0, 1, 2, 3])]);
    (0..6).for_each(|node| story.join_with(node, Abilities::ALL));
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    (story, task)
}

fn destination(task: &Task) -> NodeId {
    task.plan.destinations[&ChunkIndex(0)]
}

/// One of the nodes that send, and only send.
fn leaf(task: &Task) -> NodeId {
    let edges = &task.plan.lanes[0].edges;
    let receives = |node: NodeId| edges.iter().any(|edge| edge.parent == node);
    let mut senders = edges.iter().map(|edge| edge.child);
    senders.find(|node| !receives(*node)).expect("somebody only sends")
}

/// A node's uplink has another rate.
fn uplink(story: &mut Story, node: NodeId, rate: f64) {
    let node_now = Node { uplink: Rate(rate), ..Node::new(format!("n{}", node.0), Rate(1e6)) };
    story.give(Input::NodeAdded { id: node, node: node_now, rack: None });
}

/// The destination reports how far it is.
fn progress(story: &mut Story, task: &Task, bytes: u64) {
    let running = vec![(task.repair, bytes)];
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, running, ..Heartbeat::default() };
    story.hear(destination(task).0, FromAgent::Heartbeat(beat));
}

fn holds(said: &[Output]) -> Vec<(NodeId, RepairId, bool)> {
    let hold = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Hold { repair, held } } => Some((*to, *repair, *held)),
        _ => None,
    };
    said.iter().filter_map(hold).collect()
}

#[test]
fn what_agents_declare_as_they_start_counts_at_once_and_not_on_average() {
    for slow in [4, 5] {
        let mut story = Story::by("split/flow/waves", 6, [stripe(0, [0, 1, 2, 3])]);
        // They are started again, and join before they speak.
        (0..6).for_each(|node| story.give(Input::AgentLost(NodeId(node))));
        uplink(&mut story, NodeId(3), 2e6);
        let node = Node::new(format!("n{slow}"), Rate(1e3));
        story.give(Input::NodeAdded { id: NodeId(slow), node, rack: None });
        (0..6).for_each(|node| story.join_with(node, Abilities::ALL));
        story.take();
        story.give(Input::Operator(Command::FailNode(NodeId(0))));
        let task = story.dispatched().remove(0);
        assert_eq!(destination(&task), NodeId(9 - slow), "n{slow} receives a thousandth");
    }
}

#[test]
fn a_late_repair_is_paused_at_its_destination_and_goes_on_when_nothing_else_runs() {
    let (mut story, task) = one_repair("star/random/phases:4");
    story.now = story.now + Span::from_millis(400);
    story.give(Input::Tick);
    assert_eq!(holds(&story.take()), [], "late is 0.4 s after the 8 ms that it takes");
    story.now = story.now + Span::from_millis(100);
    story.give(Input::Tick);
    story.give(Input::Tick);
    let (to, repair) = (destination(&task), task.repair);
    assert_eq!(holds(&story.take()), [(to, repair, true), (to, repair, false)]);
}

#[test]
fn a_schedule_is_asked_when_a_repair_may_be_late_and_never_at_every_moment() {
    let (story, _) = one_repair("star/random/phases:4");
    let asked = story.core.next_deadline().expect("something is to be done").since(story.now);
    assert!(asked > Span::from_millis(400) && asked < Span::from_millis(420), "{asked:?}");
    let (mut story, _) = one_repair("star/random/waves");
    story.now = story.now + Span::from_millis(2999);
    (1..6).for_each(|node| story.beat(node));
    let asked = story.core.next_deadline().expect("something is to be done").since(story.now);
    assert_eq!(asked, Span::from_millis(10), "three seconds would be in a moment");
}

#[test]
fn a_repair_that_leaves_a_slow_helper_is_replaced_by_one_that_goes_on_with_what_has_come() {
    for come in [0, 2048] {
        let (mut story, task) = one_repair("chain/greedy/waves");
        progress(&mut story, &task, come);
        story.take();
        uplink(&mut story, leaf(&task), 1e5);
        let said = story.take();
        let is_replaced = |output: &Output| match output {
            Output::Report(Report::Replaced { repair, .. }) => *repair == task.repair,
            _ => false,
        };
        assert!(said.iter().any(is_replaced), "{said:?}");
        let is_cancelled = |output: &Output| match output {
            Output::Send { message: ToAgent::Cancel(repair), .. } => *repair == task.repair,
            _ => false,
        };
        assert!(said.iter().any(is_cancelled), "{said:?}");
        let dispatched = said.iter().find_map(|output| match output {
            Output::Send { message: ToAgent::Dispatch(task), .. } => Some(task),
            _ => None,
        });
        let next = dispatched.expect("another repair");
        assert!(!next.plan.participants().contains(&leaf(&task)));
        assert_eq!(next.plan.range, task.plan.range, "its destination knows what it has");
        assert_eq!((next.continues, next.skips), (Some(task.repair), true));
        let line = &story.core.status().running[0];
        assert_eq!((line.repair, line.bytes_done), (next.repair, come), "nothing was lost");
    }
}

#[test]
fn agents_that_know_of_no_skipping_are_left_with_the_plan_that_they_have() {
    let (mut story, task) = one_repair("chain/greedy/waves");
    assert!(task.skips, "every agent does");
    story.join_with(5, Abilities { skips: false, ..Abilities::ALL });
    story.take();
    uplink(&mut story, leaf(&task), 1e5);
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().running[0].repair, task.repair);
}

#[test]
fn a_repair_whose_claim_is_not_answered_is_not_replaced() {
    let mut story = Story::that_claims(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    (1..4).for_each(|node| uplink(&mut story, NodeId(node), 1e5));
    assert!(story.dispatched().is_empty(), "nobody has said that it may begin");
}
