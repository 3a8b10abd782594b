//! Repairs that an operator starts while a node is silent, with real processes.
//!
//! Place: failure -> [repair start] -> plan -> ... -> stripe healthy, long before the timer by
//! which a silent node counts as failed.

use crate::daemons::{Cluster, Process, count};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(4,2)", "--chunk-size", "16KiB"];

/// One more than a stripe has chunks, so that there is one other node for each that is lost.
const AGENTS: usize = 7;

/// Stores an object of so many whole stripes, so that each of its chunks has bytes; gives those.
fn put_stripes(cluster: &Cluster, name: &str, stripes: usize) -> Vec<u8> {
    cluster.put(name, stripes * 4 * (16 << 10), &CODE)
}

/// Kills the first agent and waits until its node is silent, which it stays; gives that status.
fn silence(cluster: &mut Cluster) -> Value {
    cluster.coordinator.stop();
    cluster.start_patient();
    cluster.wait("all agents are back", |status| count(status, "up") == AGENTS);
    cluster.wait_healthy();
    cluster.agents[0].kill();
    let status = cluster.wait("it is silent", |status| count(status, "suspect") == 1);
    assert_eq!((&status["state"], &status["lost_chunks"]), (&"degraded".into(), &0.into()));
    status
}

/// How many chunks were repaired since the coordinator started.
fn repaired(status: &Value) -> u64 {
    status["repaired_chunks"].as_u64().unwrap()
}

fn missing(cluster: &Cluster, name: &str) -> u64 {
    cluster.json(&["stat", name])["missing_chunks"].as_u64().unwrap()
}

/// The chunk files of all agents but the first.
fn files_of_others(cluster: &Cluster) -> u64 {
    (1..AGENTS).map(|agent| cluster.chunks(agent).len() as u64).sum()
}

/// Reads an object without the first three nodes. If nothing was rebuilt, that is one too many.
fn assert_reads_without_two_more(cluster: &mut Cluster, name: &str, content: &[u8]) {
    cluster.agents[1..3].iter_mut().for_each(Process::kill);
    cluster.wait("they are silent", |status| count(status, "up") == AGENTS - 3);
    cluster.assert_reads(name, content);
}

#[test]
fn a_start_of_repairs_rebuilds_what_a_silent_node_holds_without_its_timer() {
    let mut cluster = Cluster::of(AGENTS);
    let content = put_stripes(&cluster, "x", 6);
    let before = silence(&mut cluster);
    let (gone, files) = (cluster.chunks(0).len() as u64, files_of_others(&cluster));
    assert!(gone > 0 && gone == missing(&cluster, "x"));
    let preview = cluster.json(&["repair", "start", "--dry-run"]);
    assert_eq!(preview["chunks"], gone, "{preview:#}");

    cluster.ok(&["repair", "start"]);
    let status = cluster.wait_healthy();
    assert_eq!(repaired(&status), repaired(&before) + gone);
    assert_eq!((count(&status, "up"), count(&status, "failed")), (AGENTS - 1, 1));
    cluster.wait("they are elsewhere", |_| files_of_others(&cluster) == files + gone);
    assert_eq!(missing(&cluster, "x"), 0);
    assert_reads_without_two_more(&mut cluster, "x", &content);
}

#[test]
fn a_start_of_the_repair_of_one_object_rebuilds_no_other_and_fails_no_node() {
    let mut cluster = Cluster::of(AGENTS);
    let other = put_stripes(&cluster, "other", 6);
    let wanted = put_stripes(&cluster, "wanted", 5);
    let before = silence(&mut cluster);
    let files = files_of_others(&cluster);
    let [of_other, of_wanted] = ["other", "wanted"].map(|name| missing(&cluster, name));
    assert!(of_other > 0 && of_wanted > 0, "{of_other}, {of_wanted}");
    assert_eq!(of_other + of_wanted, cluster.chunks(0).len() as u64);

    cluster.ok(&["repair", "start", "wanted"]);
    let is_done = |status: &Value| repaired(status) == repaired(&before) + of_wanted;
    let status = cluster.wait("what it lacks is rebuilt", is_done);
    assert_eq!(missing(&cluster, "wanted"), 0);
    // Nothing of the other is lost, waits or runs, and so nothing of it is rebuilt later either.
    assert_eq!((&status["lost_chunks"], &status["queued_stripes"]), (&0.into(), &0.into()));
    assert_eq!(
        (&status["state"], &status["degraded_stripes"]),
        (&"degraded".into(), &of_other.into())
    );
    assert_eq!((count(&status, "suspect"), count(&status, "failed")), (1, 0));
    assert_eq!(missing(&cluster, "other"), of_other);
    let is_there = |_: &Value| files_of_others(&cluster) == files + of_wanted;
    cluster.wait("they are elsewhere", is_there);
    cluster.assert_reads("other", &other);
    assert_reads_without_two_more(&mut cluster, "wanted", &wanted);
}
