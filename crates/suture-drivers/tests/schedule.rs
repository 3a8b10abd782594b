//! Real agents over loopback under a schedule: edges that wait, repairs that rest, attempts that go
//! on where another stopped.

use crate::agents::{Cluster, Tree, chain, star, stripe, task};
use suture_drivers::agent::session::SessionEvent;
use suture_drivers::limit::Rates;
use suture_repair::id::{EdgeRef, NodeId, RepairId};
use suture_repair::message::{Failure, FromAgent, Heartbeat, Refusal, Task, ToAgent};
use suture_repair::plan::Mode;

const FAST: Rates = Rates { uplink: None, downlink: None, repair: None };

/// So slow that a test can send something in the middle of a repair.
const SLOW: Rates = Rates { uplink: Some(4_000_000), ..FAST };

const DESTINATION: u32 = 7;

async fn tell(cluster: &Cluster, node: NodeId, message: ToAgent) {
    cluster.node(node).tell(SessionEvent::Message(message)).await;
}

/// The next heartbeat of a node. No agent may give up a repair meanwhile.
async fn beat(cluster: &mut Cluster, wanted: NodeId) -> Heartbeat {
    loop {
        match cluster.next().await {
            (node, FromAgent::Heartbeat(beat)) if node == wanted => return beat,
            (node, FromAgent::Failed { repair, why }) => panic!("{repair} at {node}: {why}"),
            _ => {}
        }
    }
}

/// Waits until the destination has this much of the chunk.
async fn progress(cluster: &mut Cluster, repair: RepairId, bytes: u64) -> u64 {
    loop {
        let beat = beat(cluster, NodeId(DESTINATION)).await;
        let done = beat.running.iter().find(|(id, _)| *id == repair).map_or(0, |(_, done)| *done);
        if done >= bytes {
            return done;
        }
    }
}

/// Releases an edge and waits until all of it has arrived.
async fn pass(cluster: &mut Cluster, repair: RepairId, (child, parent): (u32, u32)) {
    let (child, parent) = (NodeId(child), NodeId(parent));
    tell(cluster, parent, ToAgent::Release { repair, lane: 0, child }).await;
    let edge = EdgeRef { repair, lane: 0, peer: child };
    while !beat(cluster, parent).await.arrived.contains(&edge) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn gated_trees_move_one_chunk_after_the_other() {
    let mut cluster = Cluster::start(8, FAST).await;
    let helpers = [1, 2, 3, 4];
    let pairs: Tree = vec![(1, 2), (3, 4), (2, 4), (4, DESTINATION)];
    let trees = [star(&helpers, DESTINATION), chain(&helpers, DESTINATION), pairs];
    for (sequence, tree) in (1..).zip(trees) {
        for bytes in [640, 300_000] {
            let id = 2 * sequence + u64::from(bytes == 640);
            let (stripe, chunks) = stripe("rs(4,2)", id, bytes);
            let repair = RepairId::new(1, id as u32);
            cluster.store(&stripe, &chunks).await;
            let trees = [tree.clone()];
            let task = task(repair, &stripe, (&trees, Mode::Streamed), DESTINATION);
            cluster.dispatch(&Task { gated: true, ..task }).await;
            for edge in &tree {
                pass(&mut cluster, repair, *edge).await;
            }
            let copy = cluster.outcome(repair).await.unwrap();
            let found = cluster.read(NodeId(DESTINATION), copy, bytes as u64).await;
            assert_eq!(found, chunks[0]);
        }
    }
    for node in &cluster.nodes {
        node.swept().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_repair_that_is_cancelled_leaves_no_files() {
    let mut cluster = Cluster::start(8, FAST).await;
    let (stripe, chunks) = stripe("rs(4,2)", 1, 300_000);
    cluster.store(&stripe, &chunks).await;
    let (repair, trees) = (RepairId::new(1, 1), [chain(&[1, 2, 3, 4], DESTINATION)]);
    let task = task(repair, &stripe, (&trees, Mode::Streamed), DESTINATION);
    cluster.dispatch(&Task { gated: true, ..task.clone() }).await;
    pass(&mut cluster, repair, (1, 2)).await;
    for node in task.plan.participants() {
        tell(&cluster, node, ToAgent::Cancel(repair)).await;
    }
    for node in &cluster.nodes {
        node.swept().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_that_is_held_rests_until_it_may_go_on() {
    let mut cluster = Cluster::start(8, SLOW).await;
    let (stripe, chunks) = stripe("rs(4,2)", 1, 2_000_000);
    cluster.store(&stripe, &chunks).await;
    let (repair, trees) = (RepairId::new(1, 1), [chain(&[1, 2, 3, 4], DESTINATION)]);
    let task = task(repair, &stripe, (&trees, Mode::Streamed), DESTINATION);
    cluster.dispatch(&task).await;
    progress(&mut cluster, repair, 200_000).await;
    tell(&cluster, NodeId(DESTINATION), ToAgent::Hold { repair, held: true }).await;
    // What was granted arrives; after a few beats nothing moves any more.
    for _ in 0..5 {
        progress(&mut cluster, repair, 0).await;
    }
    let at_rest = progress(&mut cluster, repair, 0).await;
    for _ in 0..5 {
        assert_eq!(progress(&mut cluster, repair, 0).await, at_rest);
    }
    tell(&cluster, NodeId(DESTINATION), ToAgent::Hold { repair, held: false }).await;
    let copy = cluster.outcome(repair).await.unwrap();
    assert_eq!(cluster.read(NodeId(DESTINATION), copy, 2_000_000).await, chunks[0]);
}

/// What is left of a task of one lane from a byte on, as a task that continues another.
fn rest(mut task: Task, continues: RepairId, from: u64) -> Task {
    task.continues = Some(continues);
    task.plan.range.from = from;
    let lane = &mut task.plan.lanes[0];
    lane.range.from = from;
    lane.edges.iter_mut().for_each(|edge| edge.bytes = lane.range.bytes());
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tree_goes_on_with_the_rest_of_a_chunk() {
    let mut cluster = Cluster::start(8, SLOW).await;
    let (stripe, chunks) = stripe("rs(4,2)", 1, 3_000_000);
    cluster.store(&stripe, &chunks).await;
    let id = |sequence| RepairId::new(1, sequence);
    let make =
        |sequence, tree: Tree| task(id(sequence), &stripe, (&[tree], Mode::Streamed), DESTINATION);
    let mut before = make(1, chain(&[1, 2, 3, 4], DESTINATION));
    cluster.dispatch(&before).await;
    let trees = [chain(&[5, 4, 2, 1], DESTINATION), chain(&[2, 3, 5, 1], DESTINATION)];
    for (sequence, tree) in (2..).zip(trees) {
        let done =
            progress(&mut cluster, id(sequence - 1), u64::from(sequence - 1) * 700_000).await;
        let next = rest(make(sequence, tree), before.repair, done / 64 * 64);
        cluster.dispatch(&next).await;
        for node in before.plan.participants() {
            tell(&cluster, node, ToAgent::Cancel(before.repair)).await;
        }
        before = next;
    }
    let copy = cluster.outcome(before.repair).await.unwrap();
    assert_eq!(cluster.read(NodeId(DESTINATION), copy, 3_000_000).await, chunks[0]);
    // What is over cannot be gone on with.
    let late = rest(make(9, star(&[1, 2, 3, 4], DESTINATION)), before.repair, 64_000);
    cluster.dispatch(&late).await;
    let refused = Failure::Refused(Refusal::CannotContinue);
    assert_eq!(cluster.outcome(id(9)).await, Err((NodeId(DESTINATION), refused)));
    for node in late.plan.participants() {
        tell(&cluster, node, ToAgent::Cancel(id(9))).await;
    }
    for node in &cluster.nodes {
        node.swept().await;
    }
}

/// What the destination has of a chunk, by its first word about the repair.
async fn first_word(cluster: &mut Cluster, repair: RepairId) -> u64 {
    loop {
        let (node, message) = cluster.next().await;
        if let FromAgent::Heartbeat(beat) = message
            && node == NodeId(DESTINATION)
            && let Some((_, bytes)) = beat.running.iter().find(|(id, _)| *id == repair)
        {
            return *bytes;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lanes_go_on_where_they_are_without_a_helper_that_was_killed() {
    let mut cluster = Cluster::start(8, SLOW).await;
    let (stripe, chunks) = stripe("rs(4,2)", 1, 3_000_000);
    cluster.store(&stripe, &chunks).await;
    let make = |sequence, trees: [Tree; 2]| {
        let repair = RepairId::new(1, sequence);
        let task = task(repair, &stripe, (&trees, Mode::Streamed), DESTINATION);
        Task { skips: true, ..task }
    };
    let trees = [chain(&[1, 2, 3, 4], DESTINATION), star(&[2, 3, 4, 5], DESTINATION)];
    let before = make(1, trees);
    cluster.dispatch(&before).await;
    let come = progress(&mut cluster, before.repair, 700_000).await;
    cluster.kill(NodeId(2)).await;
    let lost = loop {
        match cluster.next().await {
            (node, FromAgent::Failed { why, .. }) if node == NodeId(DESTINATION) => break why,
            _ => {}
        }
    };
    assert_eq!(lost, Failure::PeerLost(NodeId(2)));
    let trees = [chain(&[1, 5, 3, 4], DESTINATION), star(&[1, 3, 4, 5], DESTINATION)];
    let next = Task { continues: Some(before.repair), ..make(2, trees) };
    cluster.dispatch(&next).await;
    assert!(first_word(&mut cluster, next.repair).await >= come, "it keeps what it has");
    let copy = cluster.outcome(next.repair).await.unwrap();
    assert_eq!(cluster.read(NodeId(DESTINATION), copy, 3_000_000).await, chunks[0]);
    for node in cluster.nodes.iter().filter(|node| node.id != NodeId(2)) {
        node.swept().await;
    }
}
