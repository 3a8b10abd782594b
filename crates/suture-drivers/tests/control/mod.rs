//! A coordinator in this process, without a listener.
#![allow(dead_code, reason = "each test takes what it needs")]

use suture_drivers::config::CoordinatorConfig;
use suture_drivers::control::service::ControlService;
use suture_drivers::coordinator::{CoordinatorDriver, Handle, inbox};
use suture_drivers::metadata::{Metadata, MetadataStore};
use suture_drivers::put_key::PutKey;
use suture_drivers::record::RecordedCoordinator;
use suture_repair::cluster::Cluster;
use suture_repair::coordinator::{Config, Coordinator, IN_FLIGHT_MAX, ScrubConfig};
use suture_repair::event::Liveness;
use suture_repair::stripe::StripeMap;
use suture_repair::time::{Span, Time};
use tokio::sync::mpsc;

/// Runs a coordinator on the metadata; gives what answers calls.
pub fn coordinator(store: MetadataStore) -> ControlService {
    coordinator_of(store).0
}

/// The same, with its metadata and the driver.
pub fn coordinator_of(store: MetadataStore) -> (ControlService, Metadata, Handle) {
    let nodes = store.nodes().unwrap();
    let mut known = Cluster::default();
    known.nodes.extend(nodes.iter().map(|record| record.node.as_planned()));
    let core = Coordinator::new(Time::ZERO, config(&store), known, StripeMap::default());
    run(store, core)
}

/// How a coordinator of the metadata begins.
pub fn config(store: &MetadataStore) -> Config {
    let settings = CoordinatorConfig::default();
    Config {
        epoch: store.epoch(),
        timers: settings.timers(),
        policy: settings.repair.policy,
        seed: 1,
        paused: false,
        failed: Vec::new(),
        draining: Vec::new(),
        paused_nodes: Vec::new(),
        claims: false,
        liveness: Liveness::Own,
        deletes: true,
        in_flight_max: IN_FLIGHT_MAX,
        scrub: ScrubConfig::OFF,
        rebalance_after: None,
        gather: Span::ZERO,
    }
}

/// Runs a coordinator that knows something already, of the nodes in the metadata.
pub fn run(store: MetadataStore, core: Coordinator) -> (ControlService, Metadata, Handle) {
    let (nodes, cluster) = (store.nodes().unwrap(), store.cluster());
    let (changes, received) = mpsc::channel(16);
    let metadata = Metadata::start(store, changes);
    let (coordinator, inbox) = inbox(received);
    let core = RecordedCoordinator::new(core, None);
    tokio::spawn(CoordinatorDriver::new(core, metadata.clone(), nodes).run(inbox));
    let key = PutKey::random().unwrap();
    let service = ControlService::new(metadata.clone(), coordinator.clone(), cluster, key);
    (service, metadata, coordinator)
}
