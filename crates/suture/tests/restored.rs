//! Metadata that were restored from a backup, with real processes: nothing that was stored since
//! may be lost by that.
//!
//! Place: a coordinator's start on metadata that are older than the chunks.

mod daemons;

use std::fs;
use std::path::Path;

use daemons::{Cluster, count, start_coordinator};

const CODE: [&str; 4] = ["--code", "rs(3,2)", "--chunk-size", "16KiB"];

/// Stops the coordinator, does something to its data_dir, and starts it again.
fn while_stopped(cluster: &mut Cluster, act: impl FnOnce(&Path)) {
    cluster.coordinator.stop();
    act(cluster.folder.path());
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    let all = cluster.agents.len();
    cluster.wait("all agents are up", |status| count(status, "up") == all);
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn files(cluster: &Cluster) -> usize {
    (0..cluster.agents.len()).map(|agent| cluster.chunks(agent).len()).sum()
}

fn warnings(status: &serde_json::Value) -> usize {
    status["warnings"].as_array().unwrap().len()
}

#[test]
fn a_put_on_restored_metadata_leaves_the_newer_objects_their_chunks() {
    let mut cluster = Cluster::of(6);
    let old = cluster.put("old", 100_000, &CODE);
    while_stopped(&mut cluster, |dir| copy(&dir.join("coordinator"), &dir.join("backup")));
    let newer = cluster.put("newer", 300_000, &CODE);
    let before = files(&cluster);
    while_stopped(&mut cluster, |dir| {
        copy(&dir.join("coordinator"), &dir.join("newest"));
        copy(&dir.join("backup"), &dir.join("coordinator"));
    });
    let status = cluster.wait("chunks of others are noticed", |status| warnings(status) == 1);
    assert!(status["epoch"].as_u64() > Some(2), "{status:#}");
    cluster.assert_reads("old", &old);
    cluster.put("again", 200_000, &CODE);
    let all = files(&cluster);
    assert!(all > before);
    // Agents list all that they hold to a coordinator that has just started, and it would delete
    // what it takes for orphans before it says that all is well.
    while_stopped(&mut cluster, |_| {});
    cluster.ok(&["rm", "again"]);
    cluster.wait("the chunks of what was removed are gone", |_| files(&cluster) == before);
    assert_eq!(warnings(&cluster.wait_healthy()), 1);

    while_stopped(&mut cluster, |dir| copy(&dir.join("newest"), &dir.join("coordinator")));
    cluster.wait_healthy();
    cluster.assert_reads("newer", &newer);
    cluster.assert_reads("old", &old);
}
