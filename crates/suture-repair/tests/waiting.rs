//! What makes waiting plans be made anew, blocked stripes be tried again, and old work end.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Blocked, Command, Health, Input, Liveness, NodeState, Output};
use suture_repair::id::{ChunkIndex, EdgeRef, NodeId, StripeId};
use suture_repair::message::{
    CopyFault, DiskState, Failure, FromAgent, Heartbeat, Hello, Refusal, Task, ToAgent,
};
use suture_repair::planner::Abilities;
use suture_repair::time::Span;

/// All nodes join again, with so much slice memory.
fn give_pools(story: &mut Story, nodes: u32, pool_bytes: u64) {
    for node in 0..nodes {
        let abilities = Abilities::PARTIAL;
        let hello = Hello {
            incarnation: 1,
            session: pool_bytes,
            abilities,
            pool_bytes,
            free_bytes: 1 << 30,
        };
        story.hear(node, FromAgent::Hello(hello));
    }
}

/// Six stripes lack a chunk, and memory suffices for a repair or two at a time. Gives those.
fn crowded(liveness: Liveness) -> (Story, Vec<Task>) {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::with("suture", liveness, 8, stripes);
    give_pools(&mut story, 8, 4096);
    match liveness {
        Liveness::Own => story.give(Input::Operator(Command::FailNode(NodeId(0)))),
        Liveness::Keeper => {
            story.give(Input::NodeState { node: NodeId(0), state: NodeState::Dead });
        }
    }
    let tasks = story.dispatched();
    assert!((1..=2).contains(&tasks.len()), "{} repairs at a time", tasks.len());
    (story, tasks)
}

/// The repairs that were dispatched, each once.
fn begun(said: &[Output]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for output in said {
        if let Output::Send { message: ToAgent::Dispatch(task), .. } = output
            && tasks.iter().all(|known| known.repair != task.repair)
        {
            tasks.push(Task::clone(task));
        }
    }
    tasks
}

/// Brings a repair to its end; gives those that begin then.
fn end(story: &mut Story, task: &Task) -> Vec<Task> {
    story.store_chunk(task, ChunkIndex(0));
    let mut said = story.take();
    let commit = said.iter().find_map(|output| match output {
        Output::Commit(commit) => Some(*commit),
        _ => None,
    });
    story.accept(commit.expect("a stored chunk is committed"));
    said.extend(story.take());
    begun(&said)
}

/// Brings these repairs to their end, and those that begin after them; gives the latter.
fn finish(story: &mut Story, mut tasks: Vec<Task>) -> Vec<Task> {
    let mut later = Vec::new();
    while let Some(task) = tasks.pop() {
        let next = end(story, &task);
        later.extend(next.clone());
        tasks.extend(next);
    }
    assert_eq!(story.core.status().lost_chunks, 0);
    later
}

#[test]
fn plans_that_wait_are_made_anew_when_a_node_falls_silent() {
    let (mut story, mut tasks) = crowded(Liveness::Own);
    story.give(Input::AgentLost(NodeId(3)));
    assert_eq!(story.core.health(NodeId(3)), Health::Suspect);
    tasks.extend(story.dispatched());
    tasks.retain(|task| story.core.running().any(|id| id == task.stripe.id));
    let later = finish(&mut story, tasks);
    assert!(later.len() >= 3);
    let asks = |task: &Task| task.plan.participants().contains(&NodeId(3));
    assert!(!later.iter().any(asks), "it would not answer");
}

#[test]
fn plans_that_wait_are_made_anew_when_a_node_is_to_be_emptied() {
    let (mut story, tasks) = crowded(Liveness::Keeper);
    for node in 4..7 {
        let state = NodeState::Decommissioning;
        story.give(Input::NodeState { node: NodeId(node), state });
    }
    let later = finish(&mut story, tasks);
    assert!(later.len() >= 4);
    let keeps = |task: &Task| task.plan.destinations[&ChunkIndex(0)];
    assert!(later.iter().all(|task| keeps(task) == NodeId(7)), "the only one that is not");
}

#[test]
fn plans_that_wait_are_made_anew_when_nodes_are_paused() {
    let (mut story, tasks) = crowded(Liveness::Own);
    for node in (4..7).map(NodeId) {
        let span = Span::from_secs(60);
        story.give(Input::Operator(Command::PauseNode { node, span }));
    }
    let later = finish(&mut story, tasks);
    assert!(later.len() >= 4);
    let keeps = |task: &Task| task.plan.destinations[&ChunkIndex(0)];
    assert!(later.iter().all(|task| keeps(task) == NodeId(7)), "the only one that is not");
}

#[test]
fn plans_that_wait_do_not_begin_once_the_window_has_closed() {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::by("chain/greedy/window:1", 8, stripes);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let [first] = &story.dispatched()[..] else { panic!("one at a time") };
    story.give(Input::WindowClosed(Some(story.now + Span::from_secs(60))));
    assert_eq!(end(&mut story, first), [], "what runs comes to its end, and nothing begins");
}

/// Stripes that lost a chunk with node 0, and one that can lose none once nodes 1 and 2 fail.
fn the_turn_of_a_node(schedule: &str, others: u64, is_closed_first: bool) {
    let stripes = (0..others).map(|id| stripe(id, [0, 3, 4, 5]));
    let stripes = stripes.chain([stripe(9, [1, 2, 6, 7])]);
    let mut story = Story::by(&format!("chain/greedy/{schedule}:by-node"), 9, stripes);
    story.take();
    let closes = Input::WindowClosed(Some(story.now + Span::from_secs(600)));
    let fails = |node| Input::Operator(Command::FailNode(NodeId(node)));
    let first = if is_closed_first { [closes, fails(0)] } else { [fails(0), closes] };
    first.into_iter().for_each(|input| story.give(input));
    let running = story.dispatched();
    assert_eq!(running.is_empty(), is_closed_first, "{schedule}");
    [1, 2].into_iter().for_each(|node| story.give(fails(node)));
    let mut next = story.dispatched();
    // Those whose destination has failed have ended.
    let is_left = |task: &&Task| task.plan.destinations[&ChunkIndex(0)].0 > 2;
    for task in running.iter().filter(is_left) {
        next.extend(end(&mut story, task));
    }
    let next: Vec<u64> = next.iter().map(|task| task.stripe.id.0).collect();
    assert!(!next.is_empty() && next.iter().all(|id| *id == 9), "{schedule}: {next:?}");
}

#[test]
fn outside_of_the_window_the_turn_of_a_node_keeps_nothing_without_margin() {
    for schedule in ["slots:1", "slots", "phases:20"] {
        for others in [1, 5] {
            the_turn_of_a_node(schedule, others, true);
            the_turn_of_a_node(schedule, others, false);
        }
    }
}

#[test]
fn what_waits_and_is_wanted_now_begins_before_all_others() {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::by("chain/greedy/window:1", 8, stripes);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let [first] = &story.dispatched()[..] else { panic!("one at a time") };
    story.give(Input::Operator(Command::RepairNow(StripeId(5))));
    let next: Vec<StripeId> = end(&mut story, first).iter().map(|task| task.stripe.id).collect();
    assert_eq!(next, [StripeId(5)]);
}

#[test]
fn what_comes_to_be_at_risk_begins_before_what_waits_and_can_lose_more() {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::by("chain/greedy/window:1", 8, stripes);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let [first] = &story.dispatched()[..] else { panic!("one at a time") };
    story.hear(1, bad(copy(4, 1, 0), CopyFault::Corrupt));
    let next = end(&mut story, first);
    assert_eq!(next.iter().map(|task| task.stripe.id).collect::<Vec<_>>(), [StripeId(4)]);
}

#[test]
fn what_is_wanted_now_does_not_wait_until_a_wave_has_begun() {
    let stripes = (0..1100).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::new(8, stripes);
    give_pools(&mut story, 8, 4096);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let begun = story.dispatched();
    story.give(Input::Operator(Command::RepairNow(StripeId(1099))));
    let next = end(&mut story, &begun[0]);
    assert_eq!(next.first().map(|task| task.stripe.id), Some(StripeId(1099)));
}

#[test]
fn plans_that_wait_are_made_anew_when_nodes_say_other_racks() {
    let stripes = (0..6).map(|id| stripe(id, [0, 1, 2, 3]));
    let mut story = Story::by("chain/greedy/window:1", 8, stripes);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let tasks = story.dispatched();
    // Two chunks of each stripe lie in this rack: a third would be one too many.
    [1, 2, 4, 5, 6].into_iter().for_each(|node| story.move_to(node, "a"));
    [3, 7].into_iter().for_each(|node| story.move_to(node, "b"));
    let later = finish(&mut story, tasks);
    assert_eq!(later.len(), 5);
    let keeps = |task: &Task| task.plan.destinations[&ChunkIndex(0)];
    assert!(later.iter().all(|task| keeps(task) == NodeId(7)), "the only one elsewhere");
}

#[test]
fn what_was_blocked_for_want_of_a_node_is_tried_when_one_takes_chunks_again() {
    let mut story = Story::with("suture", Liveness::Keeper, 5, [stripe(0, [0, 1, 2, 3])]);
    let set = |story: &mut Story, node, state| {
        story.give(Input::NodeState { node: NodeId(node), state });
    };
    set(&mut story, 4, NodeState::Decommissioning);
    set(&mut story, 0, NodeState::Dead);
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().blocked.len(), 1);
    set(&mut story, 4, NodeState::Up);
    assert_eq!(story.dispatched().len(), 1);
}

/// The last of five nodes reports what is free there, and how its disk is.
fn tell(story: &mut Story, free_bytes: u64, disk: DiskState) {
    let beat = Heartbeat { incarnation: 1, free_bytes, disk, ..Heartbeat::default() };
    story.hear(4, FromAgent::Heartbeat(beat));
}

#[test]
fn what_waits_for_room_is_tried_as_soon_as_there_is_enough() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    tell(&mut story, 0, DiskState::ReadOnly);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(story.dispatched().is_empty());
    assert_eq!(story.core.status().blocked.len(), 1);
    tell(&mut story, 4095, DiskState::Good);
    assert!(story.dispatched().is_empty(), "a chunk has 4096 bytes");
    tell(&mut story, 4096, DiskState::Good);
    assert_eq!(story.dispatched().len(), 1);
    assert!(story.core.status().blocked.is_empty());
}

#[test]
fn what_repairs_have_waited_for_is_said_anew_once_an_operator_wants_them() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    tell(&mut story, 0, DiskState::Good);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let blocked = |story: &Story| story.core.status().blocked.len();
    assert_eq!(blocked(&story), 1, "no node has room");
    story.give(Input::Operator(Command::Resume));
    assert_eq!(blocked(&story), 1, "none has now either");
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::RepairNow(StripeId(0))));
    assert_eq!(blocked(&story), 0, "it has not been tried");
    story.give(Input::Operator(Command::Resume));
    assert_eq!(blocked(&story), 1);

    // There is room, and nothing is planned before the window opens.
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    tell(&mut story, 0, DiskState::Good);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.give(Input::WindowClosed(Some(story.now + Span::from_secs(60))));
    tell(&mut story, 1 << 30, DiskState::Good);
    assert_eq!(blocked(&story), 1);
    story.give(Input::Operator(Command::Resume));
    assert_eq!((story.dispatched().len(), blocked(&story)), (0, 0));
    story.give(Input::WindowClosed(None));
    assert_eq!(story.dispatched().len(), 1);
}

#[test]
fn what_failed_at_a_disk_is_tried_as_soon_as_that_is_good_again() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    for attempt in 0..5 {
        if attempt > 0 {
            story.wait(11, 1..5);
        }
        let [task] = &story.dispatched()[..] else { panic!("it is tried again") };
        story.hear(4, FromAgent::Failed { repair: task.repair, why: Failure::NoSpace });
    }
    tell(&mut story, 1 << 30, DiskState::Failing);
    assert!(story.dispatched().is_empty());
    let [(_, Blocked::Failing { .. })] = &story.core.status().blocked[..] else {
        panic!("it is shown")
    };
    tell(&mut story, 1 << 30, DiskState::Good);
    assert_eq!(story.dispatched().len(), 1);
}

#[test]
fn a_node_that_the_keeper_takes_back_is_asked_for_its_copies() {
    let mut story = Story::with("suture", Liveness::Keeper, 5, [stripe(0, [0, 1, 2, 3])]);
    let is_asked = |story: &mut Story, state| {
        story.take();
        story.give(Input::NodeState { node: NodeId(0), state });
        sent(&story.take(), |to, m| to == NodeId(0) && *m == ToAgent::List)
    };
    assert!(!is_asked(&mut story, NodeState::Dead));
    assert!(is_asked(&mut story, NodeState::Up));
}

#[test]
fn the_keeper_s_word_about_a_node_that_there_is_not_changes_nothing() {
    let mut story = Story::with("suture", Liveness::Keeper, 5, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.give(Input::NodeState { node: NodeId(5), state: NodeState::Dead });
    assert_eq!(story.take(), []);
}

/// One of the nodes that supply their chunks.
fn helper(task: &Task) -> NodeId {
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let mut nodes = task.plan.participants().into_iter();
    nodes.find(|node| *node != destination).expect("somebody helps")
}

fn one_repair() -> (Story, Task) {
    let mut story = Story::new(7, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    (story, task)
}

#[test]
fn an_agent_that_starts_again_has_forgotten_its_tasks_and_is_avoided() {
    let (mut story, task) = one_repair();
    let node = helper(&task);
    let (abilities, pool_bytes, free_bytes) = (Abilities::PARTIAL, 64 << 20, 1 << 30);
    let hello = Hello { incarnation: 2, session: 1 << 20, abilities, pool_bytes, free_bytes };
    story.hear(node.0, FromAgent::Hello(hello));
    let said = story.take();
    assert!(sent(&said, |_, m| *m == ToAgent::Cancel(task.repair)), "{said:?}");
    story.wait(1, (1..7).filter(|other| *other != node.0));
    let next = story.dispatched().remove(0);
    assert!(!next.plan.participants().contains(&node), "others can help as well");
}

#[test]
fn an_attempt_whose_proof_failed_is_followed_by_one_elsewhere() {
    for why in [Failure::ProofFailed { expected: 1, found: 2 }, Failure::PastEnd { offset: 7 }] {
        let (mut story, task) = one_repair();
        let destination = task.plan.destinations[&ChunkIndex(0)];
        story.hear(destination.0, FromAgent::Failed { repair: task.repair, why });
        story.wait(1, 1..7);
        let next = story.dispatched().remove(0);
        let third = (1..4).map(NodeId).find(|node| !task.plan.participants().contains(node));
        let third = third.expect("two of three help");
        assert!(next.plan.participants().contains(&third), "the one that was not asked");
        assert_ne!(next.plan.destinations[&ChunkIndex(0)], destination);
    }
}

#[test]
fn what_could_not_be_gone_on_with_is_tried_at_once_and_with_the_same_nodes() {
    let (mut story, task) = one_repair();
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let why = Failure::Refused(Refusal::CannotContinue);
    story.hear(destination.0, FromAgent::Failed { repair: task.repair, why });
    assert_eq!(story.dispatched().len(), 1, "nobody is to blame");
    let (mut story, task) = one_repair();
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let why = Failure::Refused(Refusal::Ability);
    story.hear(destination.0, FromAgent::Failed { repair: task.repair, why });
    assert!(story.dispatched().is_empty(), "not at once");
}

#[test]
fn a_stripe_that_fails_again_and_again_is_shown_and_tried_ever_more_rarely() {
    let (mut story, mut task) = one_repair();
    let mut waits = Vec::new();
    for attempt in 1..=8 {
        let (repair, why, by) = (task.repair, Failure::Stalled, helper(&task));
        story.hear(by.0, FromAgent::Failed { repair, why });
        let blocked = story.core.status().blocked;
        let expected =
            Blocked::Failing { attempts: attempt, node: Some(by), why: Failure::Stalled };
        let is_shown = blocked == [(StripeId(0), expected)];
        assert_eq!(is_shown, attempt >= 5, "{attempt}: {blocked:?}");
        assert_eq!(story.core.status().stuck_chunks, 0, "it is tried again by itself");
        let failed_at = story.now;
        let next = loop {
            story.now = story.now + Span::from_millis(100);
            (1..7).for_each(|node| story.beat(node));
            if let Some(next) = story.dispatched().pop() {
                break next;
            }
            assert!(story.now.since(failed_at) < Span::from_secs(20), "it is tried again");
        };
        waits.push(story.now.since(failed_at).ns / 100_000_000);
        task = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 100]);
}

#[test]
fn a_stripe_that_fits_no_pool_is_shown_with_what_it_needs() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    give_pools(&mut story, 6, 100);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.wait(3, 1..6);
    assert!(story.dispatched().is_empty());
    let blocked = story.core.status().blocked;
    let [(StripeId(0), Blocked::Pool { needed, pool: 100, .. })] = blocked[..] else {
        panic!("{blocked:?}")
    };
    assert!(needed > 100);
    give_pools(&mut story, 6, 1 << 20);
    story.wait(15, 1..6);
    assert_eq!(story.dispatched().len(), 1);
}

#[test]
fn a_preview_counts_what_would_be_moved() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    assert_eq!(story.preview().max_load_seconds(), 0.0);
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(story.preview().max_load_seconds() > 0.001);
}

#[test]
fn how_far_repairs_are_matters_while_something_is_to_be_planned() {
    let mut story = Story::by("star/lru/all", 6, [stripe(0, [0, 1, 2, 3])]);
    assert!(!story.core.heeds_progress());
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(story.core.heeds_progress(), "it waits to be planned");
    story.give(Input::Operator(Command::Resume));
    assert!(!story.core.heeds_progress(), "all is planned");
    story.give(Input::Operator(Command::FailNode(NodeId(1))));
    let running: Vec<Vec<ChunkIndex>> =
        story.dispatched().into_iter().map(|task| task.plan.lost).collect();
    let all = running.last().is_some_and(|lost| lost.len() == 2);
    assert_eq!(story.core.heeds_progress(), !all, "{running:?}");
}

#[test]
fn a_delete_that_is_not_answered_is_asked_again_after_the_stall_limit() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::StripesReserved { below: StripeId(9), writing: Vec::new() });
    story.take();
    let orphan = copy(7, 0, 5);
    story.hear(4, FromAgent::Inventory(vec![orphan.into()]));
    let is_delete = |story: &mut Story| {
        let is_it = |m: &ToAgent| matches!(m, ToAgent::Delete { copy, .. } if *copy == orphan);
        sent(&story.take(), |to, m| to == NodeId(4) && is_it(m))
    };
    assert!(is_delete(&mut story));
    story.wait(19, 0..6);
    assert!(!is_delete(&mut story));
    story.wait(2, 0..6);
    assert!(is_delete(&mut story));
}

/// The edges that were released: to which node, and from which it may receive.
fn released(said: &[Output]) -> Vec<(NodeId, NodeId)> {
    let release = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Release { child, .. } } => Some((*to, *child)),
        _ => None,
    };
    said.iter().filter_map(release).collect()
}

#[test]
fn what_was_released_and_has_not_arrived_is_released_again() {
    let mut story = Story::by("star/lru/slots", 6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let said = story.take();
    let task = begun(&said).remove(0);
    let [(parent, child)] = released(&said)[..] else { panic!("one chunk a slot: {said:?}") };
    story.beat(parent.0);
    assert_eq!(released(&story.take()), [(parent, child)], "the first may be lost");
    let arrived = vec![EdgeRef { repair: task.repair, lane: 0, peer: child }];
    let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, arrived, ..Heartbeat::default() };
    story.hear(parent.0, FromAgent::Heartbeat(beat));
    let next = released(&story.take());
    assert!(!next.is_empty() && !next.contains(&(parent, child)), "another chunk: {next:?}");
}

#[test]
fn what_is_on_its_way_to_a_node_is_counted_when_another_one_is_added() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 1, 2, 3])]);
    let wait = |story: &mut Story, seconds: u64| {
        for _ in 0..seconds * 2 {
            story.now = story.now + Span::from_millis(500);
            // Node 4 has space for one chunk, and the others have a chunk of each stripe.
            for node in 1..5 {
                let beat = Heartbeat { incarnation: 1, free_bytes: 6000, ..Heartbeat::default() };
                story.hear(node, FromAgent::Heartbeat(beat));
            }
        }
    };
    wait(&mut story, 1);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let tasks = story.dispatched();
    assert_eq!(tasks.len(), 1);
    let status = story.core.status();
    let is_of_plan = |(_, why): &(StripeId, Blocked)| matches!(why, Blocked::Plan(_));
    assert!(status.blocked.len() == 1 && status.blocked.iter().all(is_of_plan), "{status:?}");
    assert_eq!((status.lost_chunks, status.stuck_chunks, status.stuck_bytes), (2, 1, 4096));
    let node = Node::new("n5", Rate(1e6));
    story.give(Input::NodeAdded { id: NodeId(5), node, rack: None });
    wait(&mut story, 15);
    assert!(story.dispatched().is_empty(), "the space is taken");
    let commit = story.store(&tasks[0]);
    story.accept(commit);
    assert_eq!(story.core.status().lost_chunks, 1);
}
