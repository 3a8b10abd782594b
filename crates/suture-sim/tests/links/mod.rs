//! Clusters of equal links, of which node 0 fails.

#![allow(dead_code, reason = "each test file uses its part")]

use suture_code::Code;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_sim::capacity::Capacities;
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Overheads, Scenario};
use suture_sim::simulate::{Outcome, simulate};

/// Length of a chunk, in bytes.
pub const CHUNK: u64 = 1 << 20;

/// Seconds that a chunk needs on one link.
pub const CHUNK_SECONDS: f64 = CHUNK as f64 / LINK;

/// Every link, in bytes per second.
pub const LINK: f64 = 1e6;

/// A stripe of a code on these nodes, in chunk order.
pub fn stripe(id: u64, code: Code, on: &[NodeId]) -> Stripe {
    let record = |&node: &NodeId| ChunkRecord {
        node: Some(node),
        stamp: Stamp(0),
        bytes: CHUNK,
        crc: Some(0),
    };
    Stripe {
        id: StripeId(id),
        code,
        chunk_bytes: CHUNK,
        unit_bytes: CHUNK,
        generation: Generation(0),
        chunks: on.iter().map(record).collect(),
    }
}

/// Node 0 fails; each of `stripes` lost its chunk there.
pub fn scenario(policy: &str, nodes: usize, stripes: usize, code: &str) -> Scenario {
    let code: Code = code.parse().unwrap();
    let random = &mut Random::new(7);
    let mut others: Vec<NodeId> = (1..nodes as u32).map(NodeId).collect();
    let stripes = (0..stripes as u64).map(|id| {
        random.shuffle(&mut others);
        let rest = &others[..code.chunk_count() - 1];
        stripe(id, code, &[&[NodeId(0)], rest].concat())
    });
    let stripes = stripes.collect();
    let cluster = Cluster::uniform(nodes, Rate(LINK));
    Scenario {
        capacities: Capacities::new(cluster, None, None, Vec::new()),
        stripes,
        failed: vec![NodeId(0)],
        silent: Vec::new(),
        free_bytes: Vec::new(),
        policy: policy.parse().unwrap(),
        seed: 1,
        overheads: Overheads::default(),
        throttle: None,
        foreground: None,
        timeline_buckets: None,
        exact_entries: EXACT_ENTRIES,
    }
}

/// Simulates what can be repaired in full.
pub fn run(scenario: &Scenario) -> Outcome {
    let outcome = simulate(scenario, &mut || 0);
    assert!(
        outcome.given_up.is_none() && outcome.unrepaired.is_empty(),
        "{:?}",
        outcome.unrepaired
    );
    outcome
}
