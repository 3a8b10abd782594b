//! What an operator lets repair take reaches the agents, changes live, and says why.

use crate::story::{Story, stripe};
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Command, Input, Output, Report};
use suture_repair::id::NodeId;
use suture_repair::message::{
    FromAgent, Heartbeat, Hello, LinkReport, Moved, RepairLimit, SentTo, Task, ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::throttle::{Direction, Limited, Reason, ThrottleConfig};
use suture_repair::time::Span;

const NODES: u32 = 6;

/// The agent of `node` keeps to `limit`, and sends so much for others.
fn report(story: &mut Story, node: u32, limit: RepairLimit, others: u64) {
    let sent = Moved { repair: 0, others };
    let report = LinkReport {
        span: Span::from_secs(1),
        sent,
        limit,
        has_uplink: true,
        has_downlink: true,
        ..LinkReport::default()
    };
    let links = Some(Box::new(report));
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
    story.hear(node, FromAgent::Heartbeat(beat));
}

fn told(said: &[Output]) -> Vec<(NodeId, RepairLimit)> {
    let limit = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Limit(limit) } => Some((*to, *limit)),
        _ => None,
    };
    said.iter().filter_map(limit).collect()
}

fn throttle(story: &mut Story, config: &str) {
    let config: ThrottleConfig = config.parse().unwrap();
    story.give(Input::Throttle(Box::new(config)));
}

fn both(limit: u64) -> RepairLimit {
    RepairLimit { up: Some(limit), down: Some(limit) }
}

fn failures(said: &[Output]) -> usize {
    said.iter().filter(|output| matches!(output, Output::Report(Report::Failed { .. }))).count()
}

#[test]
fn what_stands_still_is_given_up_only_when_no_limit_explains_it() {
    // Whenever a sweep was last.
    for more in 0..8 {
        let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
        throttle(&mut story, "node 1");
        story.give(Input::Operator(Command::FailNode(NodeId(0))));
        assert_eq!(story.dispatched().len(), 1);
        story.take();
        story.wait(500 + 3 * more, 1..NODES);
        assert_eq!(failures(&story.take()), 0, "at a byte a second slices take longer than that");
        throttle(&mut story, "off");
        story.wait(14, 1..NODES);
        assert_eq!(failures(&story.take()), 0, "what is under way has just begun to move");
        story.wait(20, 1..NODES);
        assert!(failures(&story.take()) > 0, "nothing explains it any more");
    }
}

#[test]
fn a_cap_of_the_cluster_explains_nothing_of_directions_that_a_repair_does_not_use() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    throttle(&mut story, "total 1000000000");
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.dispatched().len(), 1);
    story.wait(300, 1..NODES);
    assert!(failures(&story.take()) > 0, "it may take eight times as long, and no hour");
}

#[test]
fn agents_are_told_of_a_cap_at_once_and_that_it_is_gone() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    (0..NODES).for_each(|node| report(&mut story, node, RepairLimit::default(), 0));
    assert_eq!(told(&story.take()), [], "nothing is throttled");
    throttle(&mut story, "node 1000000 nodes [\"n2\" 500000]");
    let said = told(&story.take());
    let limit = |node: u32| if node == 2 { both(500_000) } else { both(1_000_000) };
    let expected: Vec<_> = (0..NODES).map(|node| (NodeId(node), limit(node))).collect();
    assert_eq!(said, expected);
    (0..NODES).for_each(|node| report(&mut story, node, limit(node), 0));
    throttle(&mut story, "off");
    assert_eq!(told(&story.take()).len(), NODES as usize);
    let status = story.core.status();
    assert!(status.throttle.config.is_off() && status.throttle.tightest.is_none());
}

#[test]
fn what_applications_take_is_left_to_them_and_status_says_so() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let link = story.core.cluster().node(NodeId(4)).uplink.0 as u64;
    throttle(&mut story, "keep 10%");
    report(&mut story, 4, RepairLimit::default(), link / 2);
    story.wait(2, 0..NODES);
    let status = story.core.status();
    let limited = status.nodes[4].limits.up;
    let reason = Reason::Applications(link / 2);
    assert_eq!(limited, Some(Limited { limit: link - link / 10 - link / 2, reason }));
    let counted = story.core.cluster().node(NodeId(4)).uplink_free().0;
    assert!((counted / link as f64 - 0.4).abs() < 0.01, "planners count with what is left");
    assert_eq!(status.throttle.tightest.map(|link| link.node), Some(NodeId(4)));
}

#[test]
fn of_a_new_agent_the_throttle_knows_nothing_yet() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let link = story.core.cluster().node(NodeId(4)).uplink.0 as u64;
    throttle(&mut story, "keep 10%");
    report(&mut story, 4, RepairLimit::default(), link / 2);
    story.wait(2, 0..NODES);
    assert!(told(&story.take()).iter().any(|(node, _)| *node == NodeId(4)));
    let hello = Hello {
        incarnation: 2,
        session: 3,
        abilities: Abilities::PARTIAL,
        pool_bytes: 64 << 20,
        free_bytes: 1 << 30,
    };
    story.hear(4, FromAgent::Hello(hello));
    let limit = RepairLimit { up: Some(link / 10 * 4), down: Some(link / 10 * 9) };
    assert_eq!(told(&story.take()), [(NodeId(4), limit)], "what the one before it was to keep to");
    story.wait(2, 0..NODES);
    assert_eq!(told(&story.take()), [], "it has not reported any");
    let limited = story.core.status().nodes[4].limits.up;
    let reason = Reason::Applications(0);
    assert_eq!(limited, Some(Limited { limit: link - link / 10, reason }));
}

#[test]
fn outside_of_the_window_only_what_has_no_margin_left_is_repaired() {
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 2, 3, 4])];
    let mut story = Story::new(7, stripes);
    let opens = story.now + Span::from_secs(3);
    story.give(Input::WindowClosed(Some(opens)));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.dispatched(), [], "each can lose one more chunk: there is time");
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    let begun: Vec<u64> = story.dispatched().iter().map(|task| task.stripe.id.0).collect();
    assert_eq!(begun, [0], "this one can lose none");
    assert!(story.core.status().throttle.closed_for.is_some());
    story.wait(4, 2..7);
    assert!(story.core.status().throttle.closed_for.is_none());
    let begun: Vec<u64> = story.dispatched().iter().map(|task| task.stripe.id.0).collect();
    assert_eq!(begun, [1], "the window is open");
}

#[test]
fn once_a_window_opens_plans_are_made_for_the_links_of_an_open_one() {
    let mut story = Story::new(NODES, (0..12).map(|id| stripe(id, [0, 1, 2, 3])));
    let slow = Node { uplink: Rate(5e4), ..Node::new("n1", Rate(1e6)) };
    story.give(Input::NodeAdded { id: NodeId(1), node: slow, rack: None });
    let opens = story.now + Span::from_secs(1_000);
    story.give(Input::WindowClosed(Some(opens)));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(990, 1..NODES);
    assert_eq!(story.dispatched().len(), 0, "it is closed, and all links have as little");
    story.wait(20, 1..NODES);
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 12);
    let sends = |task: &Task| task.plan.lanes[0].edges.iter().any(|edge| edge.child == NodeId(1));
    assert!(!tasks.iter().any(sends), "nodes 2 and 3 suffice");
}

#[test]
fn what_can_lose_no_more_has_the_floor_whether_it_waits_or_runs() {
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 4, 2, 3])];
    let mut story = Story::new(7, stripes);
    throttle(&mut story, "keep 99% floor 300000");
    let reason = |story: &Story| story.core.status().nodes[5].limits.up.map(|l| l.reason);
    story.wait(2, 0..7);
    assert!(matches!(reason(&story), Some(Reason::Applications(_))));
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(2, 1..7);
    assert!(matches!(reason(&story), Some(Reason::Applications(_))), "each can lose another");
    story.give(Input::Operator(Command::Resume));
    story.wait(2, 1..7);
    assert_eq!(story.dispatched().len(), 2);
    assert!(matches!(reason(&story), Some(Reason::Applications(_))), "though they are repaired");
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    story.wait(2, 2..7);
    assert_eq!(reason(&story), Some(Reason::Floor), "one waits that can lose no more");
    story.give(Input::Operator(Command::Resume));
    story.wait(2, 2..7);
    assert!(story.core.status().queued == 0 && !story.core.status().running.is_empty());
    assert_eq!(reason(&story), Some(Reason::Floor), "it runs");
}

#[test]
fn what_hardly_changes_a_link_is_not_told_to_planners() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let free = |story: &Story| story.core.cluster().node(NodeId(4)).uplink_free().0;
    for (cap, counted) in [(500_000, 500_000.0), (480_000, 500_000.0), (450_000, 450_000.0)] {
        throttle(&mut story, &format!("node {cap}"));
        story.wait(2, 0..NODES);
        assert_eq!(free(&story), counted, "with a cap of {cap}");
    }
}

#[test]
fn the_tightest_limit_is_that_of_the_link_of_which_repair_is_left_the_least() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let tightest = |story: &Story| {
        let link = story.core.status().throttle.tightest.expect("limited");
        (link.node, link.direction, link.limited.limit)
    };
    // As long as nothing moves any link may be it.
    throttle(&mut story, "node 500000 nodes [\"n2\" 400000, \"n5\" 100000]");
    story.wait(2, 0..NODES);
    assert_eq!(tightest(&story), (NodeId(5), Direction::Up, 100_000));
    // Then one over which something is to move.
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(1, 1..NODES);
    let [task] = &story.dispatched()[..] else { panic!("it is repaired") };
    let moves = task.plan.participants();
    assert!(moves.contains(&NodeId(2)) || moves.contains(&NodeId(1)), "{moves:?}");
    let least = if moves.contains(&NodeId(5)) {
        (NodeId(5), 100_000)
    } else if moves.contains(&NodeId(2)) {
        (NodeId(2), 400_000)
    } else {
        (tightest(&story).0, 500_000)
    };
    assert_eq!((tightest(&story).0, tightest(&story).2), least);
}

#[test]
fn what_probes_show_of_links_reaches_planners_though_nothing_is_throttled() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let probed = |from: u32, rate| LinkReport {
        span: Span::from_secs(1),
        probed: vec![(NodeId(from), rate)],
        ..LinkReport::default()
    };
    for (node, from) in [(1, 0), (0, 1)] {
        let links = Some(Box::new(probed(from, 500_000)));
        let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(beat));
    }
    let known = story.core.cluster().node(NodeId(1));
    assert_eq!((known.uplink.0, known.downlink.0), (500_000.0, 500_000.0));
}

#[test]
fn what_transfers_show_of_links_reaches_planners_and_is_shown_with_how_sure_it_is() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let span = Span::from_secs(1);
    let sent_to = [2, 3].map(|peer| SentTo { peer: NodeId(peer), bytes: 10_000, waited: span });
    let report = LinkReport {
        span,
        sent: Moved { repair: 20_000, others: 5_000 },
        sent_to: sent_to.to_vec(),
        ..LinkReport::default()
    };
    let links = Some(Box::new(report));
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
    story.hear(1, FromAgent::Heartbeat(beat));
    assert_eq!(story.core.cluster().node(NodeId(1)).uplink, Rate(25_000.0));
    let shown = story.core.status().nodes[1].links[0];
    assert_eq!((shown.capacity, shown.uncertainty), (25_000, Some(6_250)));
}

#[test]
fn what_transfers_show_of_the_links_of_racks_reaches_planners() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    for node in 0..NODES {
        let known = Node::new(format!("n{node}"), Rate(1e6));
        let rack = Some(format!("r{}", node % 3));
        story.give(Input::NodeAdded { id: NodeId(node), node: known, rack });
    }
    let span = Span::from_secs(1);
    let mut say = |node: u32, to: &[(u32, bool)], received: u64| {
        let bytes = 50_000;
        let sent_to = |&(peer, waits): &(u32, bool)| SentTo {
            peer: NodeId(peer),
            bytes,
            waited: if waits { span } else { Span::ZERO },
        };
        let moved = |repair| Moved { repair, others: 0 };
        let report = LinkReport {
            span,
            sent: moved(bytes * to.len() as u64),
            received: moved(received),
            sent_to: to.iter().map(sent_to).collect(),
            ..LinkReport::default()
        };
        let links = Some(Box::new(report));
        let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(beat));
    };
    for _ in 0..2 {
        // Nodes 0 and 3 are in a rack, and send to both others and to each other.
        say(0, &[(3, false), (1, true)], 50_000);
        say(3, &[(0, false), (2, true)], 50_000);
        [1, 2].into_iter().for_each(|node| say(node, &[], 50_000));
        [4, 5].into_iter().for_each(|node| say(node, &[], 0));
    }
    let cluster = story.core.cluster();
    let rack = cluster.node(NodeId(0)).rack.expect("it has one");
    let links = cluster.rack_links(rack).expect("they are known");
    assert_eq!((links.rack_uplink, links.rack_downlink), (Rate(100_000.0), Rate(2e6)));
    let other = cluster.node(NodeId(1)).rack.expect("it has one");
    let links = cluster.rack_links(other).expect("what its nodes have together");
    assert_eq!(links.rack_uplink, Rate(2e6));
    let shown = story.core.rack_links(rack)[0].expect("it is shown");
    assert_eq!((shown.capacity, shown.uncertainty), (100_000, Some(25_000)));
}

#[test]
fn a_link_that_is_known_for_slow_is_spared_at_once_though_others_are_averaged() {
    let mut story = Story::new(NODES, (0..12).map(|id| stripe(id, [0, 1, 2, 3])));
    let node = Node { uplink: Rate(9e5), ..Node::new("n5", Rate(1e6)) };
    story.give(Input::NodeAdded { id: NodeId(5), node, rack: None });
    story.wait(10, 0..NODES);
    // Node 1 declares no uplink, and node 2 finds that it has little.
    for (node, has_uplink, probed) in [(1, false, vec![]), (2, true, vec![(NodeId(1), 50_000)])] {
        let span = Span::from_secs(1);
        let has_downlink = true;
        let report = LinkReport { span, probed, has_uplink, has_downlink, ..LinkReport::default() };
        let links = Some(Box::new(report));
        let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, links, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(beat));
    }
    let known = story.core.cluster().node(NodeId(1));
    assert_eq!((known.uplink, known.downlink), (Rate(5e4), Rate(1e6)));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 12);
    let sends = |task: &Task| task.plan.lanes[0].edges.iter().any(|edge| edge.child == NodeId(1));
    assert!(!tasks.iter().any(sends), "nodes 2 and 3 suffice");
}

#[test]
fn an_agents_own_cap_is_counted_with_and_shown_and_nobody_is_told_of_it() {
    let mut story = Story::new(NODES, [stripe(0, [0, 1, 2, 3])]);
    let capped = |story: &mut Story, node: u32, incarnation, cap| {
        let report = LinkReport { span: Span::from_secs(1), cap, ..LinkReport::default() };
        let links = Some(Box::new(report));
        let beat = Heartbeat { incarnation, free_bytes: 1 << 30, links, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(beat));
    };
    (0..NODES).for_each(|node| capped(&mut story, node, 1, None));
    let free = |story: &Story, node: u32| story.core.cluster().node(NodeId(node)).uplink_free();
    let all = free(&story, 1);
    capped(&mut story, 1, 1, Some(700_000));
    assert_eq!((free(&story, 1), free(&story, 2)), (Rate(700_000.0), all), "planners know");
    let shown = story.core.status().nodes[1].limits;
    let own = Limited { limit: 700_000, reason: Reason::Agent };
    assert_eq!((shown.up, shown.down), (Some(own), Some(own)));
    assert_eq!(told(&story.take()), [], "it keeps to it by itself");

    // A cap of the operator holds where it is tighter.
    throttle(&mut story, "node 500000");
    assert_eq!(free(&story, 1), Rate(500_000.0));
    throttle(&mut story, "node 900000");
    assert_eq!((free(&story, 1), free(&story, 2)), (Rate(700_000.0), Rate(900_000.0)));
    let said = told(&story.take());
    assert!(said.iter().all(|(_, limit)| *limit != both(700_000)), "{said:?}");
    // It outlives the agent until the next one reports its own.
    let hello = Hello {
        incarnation: 2,
        session: 3,
        abilities: Abilities::ALL,
        pool_bytes: 64 << 20,
        free_bytes: 1 << 30,
    };
    story.hear(1, FromAgent::Hello(hello));
    assert_eq!(free(&story, 1), Rate(700_000.0));
    throttle(&mut story, "off");
    capped(&mut story, 1, 2, None);
    assert_eq!(free(&story, 1), all);
}
