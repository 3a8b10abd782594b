//! Chunks that move to nodes which are new, or came back with nothing, with real processes.
//!
//! Place: [stripe healthy -> queue] -> plan -> ... -> stripe healthy: nothing is lost, and one node
//! holds much less than the others.

use std::fs;

use crate::daemons::{Cluster, count, start_agent, start_coordinator};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(2,1)", "--chunk-size", "16KiB"];

/// Whole stripes, so that all chunks are of one size. A fifth of the chunks is a little less than a
/// whole number of them, which the nodes that give keep: so they have enough to give.
const STRIPES: usize = 33;
const CHUNKS: u64 = 3 * STRIPES as u64;

/// What each of five nodes holds at least in the end. Its share is 19.8 chunks, of which a node is
/// given nine tenths, unless the space on the file system that all share changes meanwhile.
const HELD_MIN: u64 = 15;

/// A cluster whose chunks move after a second in which no node came or went.
fn start(agents: usize) -> Cluster {
    let mut cluster = Cluster::of(agents);
    cluster.coordinator.stop();
    fs::write(cluster.path("more.toml"), "[repair]\nrebalance_after = '1s'\n").unwrap();
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait("all agents are back", |status| count(status, "up") == agents);
    cluster
}

fn put(cluster: &Cluster) -> Vec<u8> {
    let content = cluster.put("x", STRIPES * 2 * (16 << 10), &CODE);
    cluster.wait_healthy();
    content
}

/// How many chunks each agent holds, by what the coordinator knows.
fn held(status: &Value) -> Vec<u64> {
    let nodes = status["nodes"].as_array().unwrap();
    let of = |agent: usize| {
        let name = format!("n{agent}");
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        node["chunks"].as_u64().unwrap()
    };
    (0..nodes.len()).map(of).collect()
}

/// How many chunk files all five agents have.
fn files(cluster: &Cluster) -> u64 {
    (0..5).map(|agent| cluster.chunks(agent).len() as u64).sum()
}

/// Waits until the last of five nodes, which holds nothing, has its share, and looks at every
/// chunk: none is lost or kept twice, and all that moved are what they were.
fn assert_fills(mut cluster: Cluster, content: &[u8]) {
    cluster.wait("its share is on its way", |status| status["rebalancing_bytes"] != 0);
    let status = cluster.wait("it has its share", |status| {
        assert_eq!(status["lost_chunks"], 0, "{status:#}");
        let is_over = status["rebalancing_chunks"] == 0 && status["rebalancing_bytes"] == 0;
        is_over && held(status)[4] >= HELD_MIN
    });
    let held = held(&status);
    assert_eq!((held.len(), held.iter().sum::<u64>()), (5, CHUNKS), "{held:?}");
    assert!(held.iter().all(|held| *held >= HELD_MIN), "{held:?}");
    let is_fifth = held[4] <= CHUNKS.div_ceil(5);
    assert!(is_fifth, "it is given no more than its share: {held:?}");

    cluster.wait("each chunk is kept once", |_| files(&cluster) == CHUNKS);
    assert_eq!(cluster.chunks(4).len() as u64, held[4]);
    let status = cluster.wait_healthy();
    assert_eq!((&status["lost_chunks"], &status["degraded_stripes"]), (&0.into(), &0.into()));
    assert_eq!(cluster.json(&["stat", "x"])["missing_chunks"], 0);
    cluster.assert_reads("x", content);
    // Without another node all stripes need those that moved.
    cluster.agents[0].kill();
    cluster.assert_reads("x", content);
}

#[test]
fn a_new_node_is_given_chunks_of_what_is_stored_already() {
    let mut cluster = start(4);
    let content = put(&cluster);
    let before = held(&cluster.json(&["status"]));
    assert_eq!((before.len(), before.iter().sum::<u64>()), (4, CHUNKS), "{before:?}");
    let new = start_agent(cluster.folder.path(), &cluster.address, 4, "");
    cluster.agents.push(new);
    assert_fills(cluster, &content);
}

#[test]
fn a_node_whose_chunks_were_rebuilt_elsewhere_is_filled_again_when_it_returns() {
    let mut cluster = start(5);
    let content = put(&cluster);
    cluster.agents[4].kill();
    cluster.wait("the node is given up", |status| count(status, "failed") == 1);
    let status = cluster.wait_healthy();
    assert_eq!(held(&status)[4], 0, "{status:#}");
    let returned = start_agent(cluster.folder.path(), &cluster.address, 4, "");
    cluster.agents[4] = returned;
    assert_fills(cluster, &content);
}
