//! A preview of very many repairs, beside which the coordinator goes on.
//!
//! Place: what an operator asks before repairs begin; nothing may wait for it.

use std::time::{Duration, Instant};

use crate::control;
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::{client, proto};
use suture_drivers::metadata::{Incomplete, MetadataStore, NewNode};
use suture_repair::cluster::Cluster;
use suture_repair::coordinator::{Config, Coordinator};
use suture_repair::event::{Command, Input, Timers};
use suture_repair::id::{ChunkCopy, Generation, ListedCopy, NodeId, Stamp, StripeId};
use suture_repair::message::{FromAgent, Hello};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
use suture_repair::time::{Span, Time};
use tokio::net::TcpListener;

const NODES: u32 = 9;

/// Every second stripe has a chunk on the node that fails, so that two whole batches are planned.
const LOST: u64 = 2 * 8192;

/// A stripe on four of the first eight nodes in turn.
fn stripe(id: u64) -> Stripe {
    let first = (id % 8) as u32;
    let record = |chunk: u32| ChunkRecord {
        node: Some(NodeId((first + chunk) % 8)),
        stamp: Stamp(0),
        bytes: 4096,
        crc: Some(7),
    };
    Stripe {
        id: StripeId(id),
        code: "rs(2,2)".parse().unwrap(),
        chunk_bytes: 4096,
        unit_bytes: 4096,
        generation: Generation(1),
        chunks: (0..4).map(record).collect(),
    }
}

/// Metadata of the nodes.
fn metadata(folder: &std::path::Path) -> MetadataStore {
    let mut store = MetadataStore::open(folder, Incomplete::Refuse).unwrap();
    for node in 0..NODES {
        let node = NewNode {
            name: format!("n{node}"),
            rack: None,
            address: "127.0.0.1:9".into(),
            uplink: 1e9,
            downlink: 1e9,
            store: None,
            processor: None,
        };
        store.join(&node).unwrap();
    }
    // The coordinator begins with them.
    store.take_changes();
    store
}

/// A coordinator that repairs nothing, all nodes of which are up but for the first, which failed.
fn coordinator(store: &MetadataStore) -> Coordinator {
    let config = control::config(store);
    // Long timers: no agent sends heartbeats any more.
    let hours = |hours: u64| Span::from_secs(hours * 3600);
    let timers = Timers { suspect_after: hours(1), dead_after: hours(2), ..config.timers };
    let mut cluster = Cluster::default();
    cluster.nodes.extend(store.nodes().unwrap().iter().map(|record| record.node.as_planned()));
    let stripes = StripeMap::new((0..2 * LOST).map(stripe));
    let config = Config { paused: true, timers, ..config };
    let mut core = Coordinator::new(Time::ZERO, config, cluster, stripes);
    for node in (0..NODES).map(NodeId) {
        let hello = Hello {
            incarnation: 1,
            session: 1,
            abilities: Abilities::ALL,
            pool_bytes: 64 << 20,
            free_bytes: 1 << 30,
        };
        let held = core.stripes().on_node(node).map(|stripe| {
            let chunk = stripe.chunk_on(node).expect("it is on the node");
            ListedCopy::from(ChunkCopy { stripe: stripe.id, chunk, stamp: Stamp(0) })
        });
        let held: Vec<ListedCopy> = held.collect();
        for message in [FromAgent::Hello(hello), FromAgent::Inventory(held)] {
            core.handle(Time::ZERO, Input::Agent { node, message });
        }
    }
    core.handle(Time::ZERO, Input::Operator(Command::FailNode(NodeId(0))));
    core
}

#[tokio::test]
async fn nothing_waits_for_a_preview_of_very_many_repairs() {
    let dir = tempfile::tempdir().unwrap();
    let store = metadata(dir.path());
    let core = coordinator(&store);
    let (service, _metadata, coordinator) = control::run(store, core);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(acceptor::serve(listener, service, ControlLimits::default(), None));
    let mut client = client::connect(&address, None).await.unwrap();
    client.status(proto::StatusRequest::default()).await.unwrap();

    let begun = Instant::now();
    let preview =
        tokio::spawn(async move { client.preview_repair(proto::PreviewRequest::default()).await });
    let mut longest = Duration::ZERO;
    while !preview.is_finished() {
        let asked = Instant::now();
        let stripes = coordinator.query(|driver| driver.core().stripes().len()).await;
        assert_eq!(stripes, Some(2 * LOST as usize));
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let whole = begun.elapsed();
    let planned = preview.await.unwrap().unwrap().into_inner();
    assert_eq!((planned.chunks, planned.blocked.len()), (LOST, 0));
    // If the coordinator's task planned, or one that serves calls, each of two batches would take
    // half.
    assert!(longest < whole / 4, "one question took {longest:?} of {whole:?}");
}
