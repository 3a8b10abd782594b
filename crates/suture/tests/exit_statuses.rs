//! What scripts and monitors go by: the exit status of commands on a cluster that is not well.
//!
//! Place: the last step of every command. Rows of the tables in docs/commands.md that no other test
//! holds are held here, with real processes.

use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::daemons::{Cluster, Finished, count, finish, suture};
use serde_json::Value;

/// Two of the four chunks of a stripe may be lost.
const HOW: [&str; 4] = ["--code", "rs(2,2)", "--chunk-size", "64KiB"];

/// Runs a command that is to end so; gives what it printed.
fn ends(cluster: &Cluster, args: &[&str], expected: i32) -> String {
    let Finished { status, stdout, stderr } = cluster.run(args);
    assert_eq!(status, expected, "{args:?}: {stdout}{stderr}");
    stdout
}

fn is_lost(status: &Value) -> bool {
    status["lost_chunks"].as_u64() > Some(0)
}

/// The name of a node that holds chunks.
fn holder(cluster: &Cluster) -> String {
    let holds = |agent: &usize| !cluster.chunks(*agent).is_empty();
    format!("n{}", (0..cluster.agents.len()).find(holds).unwrap())
}

/// A window that opens in about half a year.
fn far_window() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let month = (days % 365 / 31 + 6) % 12 + 1;
    format!("* * * {month} *;UTC")
}

/// Very many stripes are planned together, a moment after the command.
#[test]
fn a_start_of_very_many_repairs_knows_what_cannot_be_repaired() {
    let cluster = Cluster::of(4);
    let how = ["--code", "rs(2,2)", "--chunk-size", "4KiB"];
    cluster.put("x", 700 * (8 << 10), &how);
    ends(&cluster, &["repair", "pause"], 0);
    ends(&cluster, &["node", "fail", "n0", "n1", "n2", "--force"], 0);
    cluster.wait("chunks are lost", is_lost);
    let said = ends(&cluster, &["repair", "start"], 3);
    assert!(said.contains("beyond repair") || said.contains("cannot be repaired"), "{said}");
}

#[test]
fn what_an_operator_put_off_is_no_alarm_and_no_success() {
    let cluster = Cluster::of(5);
    let content = cluster.put("x", 600_000, &HOW);
    let node = holder(&cluster);
    ends(&cluster, &["repair", "pause"], 0);
    ends(&cluster, &["node", "fail", &node], 0);
    cluster.wait("chunks are lost", is_lost);
    for args in [&["status"][..], &["repair", "status"], &["stat", "x"], &["node", "list"]] {
        ends(&cluster, args, 0);
    }
    assert!(ends(&cluster, &["status"], 0).starts_with("paused: "));
    let left = ends(&cluster, &["repair", "status", "--watch"], 1);
    assert!(left.starts_with("paused: "), "it ends at once, and all is not well: {left}");
    ends(&cluster, &["repair", "status", "--watch", "--format", "json"], 1);

    // The same where repairs run, but not now.
    ends(&cluster, &["repair", "throttle", "--window", &far_window()], 0);
    let is_closed = |status: &Value| status["throttle"]["window_closed_seconds"].is_number();
    cluster.wait("the window is closed", is_closed);
    ends(&cluster, &["repair", "resume"], 0);
    let status = cluster.json(&["status"]);
    assert_eq!((&status["state"], is_lost(&status)), (&"waiting".into(), true));
    for args in [&["status"][..], &["repair", "status"]] {
        let shown = ends(&cluster, args, 0);
        assert!(shown.contains("the window opens in "), "{shown}");
    }
    // A command that watches waits for it.
    let mut watch = suture();
    watch.args(["repair", "status", "--watch"]).env("SUTURE_COORDINATOR", &cluster.address);
    let mut watch = watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(watch.try_wait().unwrap().is_none(), "nothing is left to wait for");
    ends(&cluster, &["repair", "throttle", "--off"], 0);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    cluster.wait_healthy();
    ends(&cluster, &["repair", "status", "--watch"], 0);
    cluster.assert_reads("x", &content);
}

#[test]
fn what_has_nowhere_to_go_is_an_alarm_and_orders_are_carried_out_all_the_same() {
    let cluster = Cluster::of(4);
    let content = cluster.put("x", 300_000, &HOW);
    ends(&cluster, &["node", "fail", "n0"], 0);
    cluster.wait("three nodes are too few", |status| status["state"] == "blocked");
    let commands: [&[&str]; 6] = [
        &["status"],
        &["repair", "status"],
        &["repair", "status", "--watch"],
        &["repair", "start"],
        &["repair", "start", "--dry-run"],
        &["repair", "start", "x", "--dry-run"],
    ];
    for args in commands {
        ends(&cluster, args, 3);
    }
    // All of it can be read.
    ends(&cluster, &["stat", "x"], 0);
    cluster.assert_reads("x", &content);
    for action in ["pause", "resume", "cancel", "resume", "throttle"] {
        ends(&cluster, &["repair", action], 0);
    }
    let refused = cluster.run(&["node", "fail", "n1", "n2"]);
    assert!(refused.status == 1 && refused.stderr.contains("(x) could not be read"));
    // Once it is taken back, both mean something.
    for order in [&["node", "drain", "n1", "n0"][..], &["node", "pause", "n0", "--for", "1h"]] {
        let refused = cluster.run(order);
        assert_eq!(refused.status, 1, "{order:?}: {}", refused.stdout);
        let why = "n0 counts as failed, and its chunks as lost: return it first";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    assert_eq!(cluster.json(&["status"])["leaving_chunks"], 0, "nothing was changed of n1");
    let twice = cluster.run(&["node", "fail", "n1", "n1"]);
    assert!(twice.status == 2 && twice.stderr.contains("is named twice"), "{}", twice.stderr);
    ends(&cluster, &["node", "return", "n0"], 0);
    cluster.wait_healthy();
    ends(&cluster, &["status"], 0);
}

#[test]
fn a_node_that_was_killed_a_moment_ago_is_waited_for() {
    let mut cluster = Cluster::of(5);
    let content = cluster.put("x", 600_000, &HOW);
    let node: usize = holder(&cluster)[1..].parse().unwrap();
    cluster.agents[node].kill();
    cluster.wait("it is silent", |status| count(status, "up") == 4);
    ends(&cluster, &["repair", "status", "--watch"], 0);
    let status = cluster.json(&["status"]);
    assert_eq!((&status["degraded_stripes"], &status["lost_chunks"]), (&0.into(), &0.into()));
    assert!(status["repaired_chunks"].as_u64() > Some(0), "{status:#}");
    cluster.assert_reads("x", &content);
    // A coordinator that does not answer is no answer.
    cluster.coordinator.stop();
    let address = cluster.address.clone();
    for args in [&["status"][..], &["repair", "status", "--watch"], &["df"], &["ls"]] {
        let asked = finish(suture().args(args).args(["--coordinator", &address]));
        assert_eq!(asked.status, 1, "{args:?}: {}", asked.stderr);
    }
}
