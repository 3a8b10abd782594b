//! Real processes on loopback: a coordinator, agents, and the commands that people type.
//!
//! No test sleeps in the hope that something has happened.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemons::{
    self, Cluster, Finished, Process, TIMEOUT, count, finish, noise, start_agent, suture,
};

#[test]
fn a_killed_agent_costs_no_byte_and_its_chunks_come_back_on_the_others() {
    let mut cluster = Cluster::of(10);
    let content = cluster.put("big", 3_000_001, &["--chunk-size", "64KiB"]);
    let small = cluster.put("small/one", 7, &[]);
    let listing = cluster.json(&["ls"]);
    assert_eq!(listing["objects"][0]["name"], "big");
    assert_eq!(listing["objects"][0]["bytes"], 3_000_001);
    assert_eq!(listing["objects"][1]["name"], "small/one");
    cluster.assert_reads("big", &content);

    let lost = cluster.chunks(3).len();
    assert!(lost > 0);
    cluster.agents[3].kill();
    cluster.assert_reads("big", &content);
    cluster.wait("the node is given up", |status| count(status, "failed") == 1);
    let status = cluster.wait_healthy();
    assert_eq!(status["repaired_chunks"], lost);
    cluster.assert_reads("big", &content);
    cluster.assert_reads("small/one", &small);
    let stat = cluster.json(&["stat", "big"]);
    assert_eq!((&stat["missing_chunks"], &stat["stripes"]), (&Value::from(0), &Value::from(8)));

    // Another one at once makes nine chunks impossible on eight nodes: blocked, but readable.
    cluster.agents[4].kill();
    let blocked = |status: &Value| status["state"] == "blocked";
    let status = cluster.wait("there are too few nodes left", blocked);
    assert_eq!(status["blocked"][0]["unrepairable"], false);
    cluster.assert_reads("big", &content);

    // The first comes back as it was: nothing is lost any more, nothing is kept twice.
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    cluster.agents[3] = start_agent(&folder, &address, 3, "");
    cluster.wait("all is repaired", |status| status["state"] == "healthy");
    cluster.assert_reads("big", &content);
}

#[test]
fn nodes_are_emptied_while_everything_can_be_read_and_none_is_failed_that_is_needed() {
    let mut cluster = Cluster::of(10);
    let content = cluster.put("x", 3_000_001, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    let held = cluster.chunks(1).len() + cluster.chunks(2).len();
    assert!(held > 0);
    cluster.ok(&["node", "drain", "n1", "n2"]);
    cluster.assert_reads("x", &content);
    let is_drained = |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().filter(|node| node["intent"] == "drained").count() == 2
    };
    let status = cluster.wait("both are empty", is_drained);
    assert_eq!((&status["lost_chunks"], &status["leaving_chunks"]), (&0.into(), &0.into()));
    cluster.assert_reads("x", &content);
    let paused = cluster.run(&["node", "pause", "n1", "--for", "1h"]);
    assert_eq!(paused.status, 1, "{}", paused.stdout);
    assert!(paused.stderr.contains("n1 is being drained: return it first"), "{}", paused.stderr);
    // It is kept, and the copies that were left go.
    cluster.restart_coordinator();
    cluster.wait("both are empty still", |status| is_drained(status) && count(status, "up") == 10);
    let since = Instant::now();
    while !cluster.chunks(1).is_empty() || !cluster.chunks(2).is_empty() {
        assert!(since.elapsed() < TIMEOUT, "copies stay on drained nodes");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Eight are left, so each of the stripes of six lies on some of any five.
    let refused = cluster.run(&["node", "fail", "n0", "n3", "n4", "n5", "n6"]);
    assert_eq!(refused.status, 1, "it may be possible later: {}", refused.stdout);
    assert!(refused.stderr.contains("(x) could not be read"), "{}", refused.stderr);
    let stuck = cluster.run(&["node", "drain", "n0", "n3", "n4", "n5", "n6"]);
    assert!(stuck.status == 1 && stuck.stderr.contains("nowhere to go"), "{}", stuck.stderr);
    cluster.ok(&["node", "return", "n1", "n2"]);
    cluster.wait_healthy();
}

#[test]
fn a_paused_node_is_waited_for_until_the_operator_takes_it_back() {
    let mut cluster = Cluster::of(8);
    let content = cluster.put("x", 1_000_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    cluster.ok(&["node", "pause", "n1", "--for", "1h"]);
    cluster.agents[1].kill();
    cluster.wait("it is silent", |status| count(status, "suspect") == 1);
    cluster.assert_reads("x", &content);
    let status = cluster.json(&["status"]);
    let node = status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "n1");
    assert_eq!(node.unwrap()["intent"], "paused");
    cluster.ok(&["node", "return", "n1"]);
    cluster.wait("it is dead", |status| count(status, "failed") == 1);
    cluster.wait_healthy();
    cluster.assert_reads("x", &content);
}

#[test]
fn what_daemons_recorded_of_a_repair_comes_out_the_same_when_it_is_replayed() {
    let mut cluster = Cluster::of(7);
    let how = ["--code", "rs(4,2)", "--chunk-size", "64KiB"];
    let content = cluster.put("x", 2_000_000, &how);
    cluster.agents[1].kill();
    cluster.wait("the node is given up", |status| count(status, "failed") == 1);
    let status = cluster.wait_healthy();
    cluster.assert_reads("x", &content);
    let others = cluster.agents.iter_mut().enumerate().filter(|(index, _)| *index != 1);
    others.for_each(|(_, agent)| agent.stop());
    cluster.coordinator.stop();

    let agents = (0..7).map(|index| format!("n{index}.transcript"));
    for name in agents.chain(["coordinator.transcript".to_string()]) {
        let path = cluster.path(&name);
        let replayed = cluster.run(&["replay", path.to_str().unwrap()]);
        assert_eq!(replayed.status, 0, "{name}: {}{}", replayed.stdout, replayed.stderr);
    }
    let transcript = fs::read_to_string(cluster.path("coordinator.transcript")).unwrap();
    let repaired = transcript.matches("  report committed repair").count() as u64;
    assert!(repaired > 0);
    assert_eq!(status["repaired_chunks"], repaired);
}

#[test]
fn flipped_bytes_never_reach_a_reader_and_are_repaired_where_they_lie() {
    let cluster = Cluster::of(6);
    let content = cluster.put("x", 1_000_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    let victim = cluster.chunks(2).pop().expect("every node has a chunk");
    let file = fs::File::options().write(true).open(victim).unwrap();
    file.write_all_at(b"flipped", 3000).unwrap();
    // Whether it is data or parity: all chunks of all data are read, so at the latest repair reads
    // it.
    cluster.assert_reads("x", &content);
    cluster.ok(&["node", "fail", "n0"]);
    cluster.assert_reads("x", &content);
    cluster.ok(&["node", "return", "n0"]);
    cluster.wait_healthy();
    cluster.assert_reads("x", &content);
}

#[test]
fn a_coordinator_that_dies_in_the_middle_of_a_repair_finishes_it_after_its_return() {
    let mut cluster = Cluster::with(8, "uplink = '20Mbit'\ndownlink = '20Mbit'");
    let how = ["--code", "rs(4,2)", "--chunk-size", "256KiB"];
    let content = cluster.put("x", 6_000_000, &how);
    cluster.agents[1].kill();
    cluster.wait("a repair runs", |status| !status["running"].as_array().unwrap().is_empty());
    cluster.restart_coordinator();
    let status = cluster.wait("all is repaired", |status| {
        status["state"] == "healthy" && count(status, "failed") == 1
    });
    assert_eq!(status["epoch"], 2);
    cluster.assert_reads("x", &content);
}

#[test]
fn an_agent_killed_in_the_middle_of_a_repair_is_replaced_by_another() {
    let mut cluster = Cluster::with(9, "uplink = '5Mbit'\ndownlink = '5Mbit'");
    let how = ["--code", "rs(4,2)", "--chunk-size", "256KiB"];
    let content = cluster.put("x", 8_000_000, &how);
    cluster.agents[1].kill();
    let moving = |repair: &Value| repair["bytes_done"].as_u64().unwrap() > 0;
    let is_moving = |status: &Value| status["running"].as_array().unwrap().iter().any(moving);
    let status = cluster.wait("slices flow", is_moving);
    let busy = status["running"].as_array().unwrap().iter().find(|repair| moving(repair));
    let destination = busy.unwrap()["destination"].as_str().unwrap();
    let index: usize = destination.strip_prefix('n').unwrap().parse().unwrap();
    cluster.agents[index].kill();
    let status = cluster.wait("all is repaired", |status| {
        status["state"] == "healthy" && count(status, "failed") == 2
    });
    assert_eq!(status["blocked"], Value::Array(vec![]));
    cluster.assert_reads("x", &content);
}

#[test]
fn what_cannot_be_repaired_is_said_and_the_rest_is_repaired() {
    let mut cluster = Cluster::of(8);
    let how = ["--code", "rs(2,1)", "--chunk-size", "64KiB"];
    let content = cluster.put("x", 3_000_000, &how);
    let fine = cluster.put("y", 100_000, &["--code", "rs(3,3)"]);
    cluster.agents[0].kill();
    cluster.agents[1].kill();
    cluster.wait("both are given up", |status| count(status, "failed") == 2);
    let only_hopeless = |status: &Value| {
        let blocked = status["blocked"].as_array().unwrap();
        let hopeless = blocked.iter().filter(|entry| entry["unrepairable"] == true).count();
        let at_risk = status["at_risk"].as_array().unwrap().iter().filter_map(Value::as_u64);
        hopeless > 0 && at_risk.sum::<u64>() == hopeless as u64
    };
    cluster.wait("only hopeless stripes are left", only_hopeless);
    let told = cluster.run(&["status"]);
    assert_eq!(told.status, 3);
    assert!(told.stdout.contains("cannot be repaired unless nodes return"), "{}", told.stdout);
    assert_eq!(cluster.run(&["repair", "start"]).status, 3);
    assert_eq!(cluster.run(&["stat", "x"]).status, 3);
    let path = cluster.path("back");
    let Finished { status, stderr, .. } = cluster.run(&["get", "x", "-o", path.to_str().unwrap()]);
    assert!(status == 3 && stderr.contains("cannot be read now"), "{status}: {stderr}");
    assert!(!path.exists());
    cluster.assert_reads("y", &fine);

    // The nodes return with their disks: what was hopeless is whole again.
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    for index in [0, 1] {
        cluster.agents[index] = start_agent(&folder, &address, index, "");
    }
    cluster.wait_healthy();
    cluster.assert_reads("x", &content);
    assert_eq!(cluster.run(&["status"]).status, 0);
}

#[test]
fn a_removed_object_leaves_no_chunk_behind() {
    let cluster = Cluster::of(6);
    cluster.put("x", 500_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    let chunks = || (0..6).map(|agent| cluster.chunks(agent).len()).sum::<usize>();
    assert!(chunks() > 0);
    cluster.ok(&["rm", "x"]);
    assert_eq!(cluster.run(&["get", "x", "-o", "/dev/null"]).status, 2);
    let since = Instant::now();
    while chunks() > 0 {
        assert!(since.elapsed() < TIMEOUT, "{} chunks are left", chunks());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_object_can_be_removed_while_its_chunks_are_being_repaired() {
    let mut cluster = Cluster::with(7, "uplink = '10Mbit'\ndownlink = '10Mbit'");
    let how = ["--code", "rs(4,2)", "--chunk-size", "256KiB"];
    cluster.put("x", 3_000_000, &how);
    let kept = cluster.put("y", 300_000, &how);
    cluster.agents[1].kill();
    cluster.wait("a repair runs", |status| !status["running"].as_array().unwrap().is_empty());
    cluster.ok(&["rm", "x"]);
    cluster.wait("nothing runs any more", |status| {
        status["state"] == "healthy" && status["running"].as_array().unwrap().is_empty()
    });
    cluster.assert_reads("y", &kept);
    let since = Instant::now();
    let left =
        || (0..7).filter(|agent| *agent != 1).map(|a| cluster.chunks(a).len()).sum::<usize>();
    while left() > 6 {
        assert!(since.elapsed() < TIMEOUT, "{} chunks are left of one stripe of six", left());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_put_with_too_few_nodes_names_both_numbers_and_leaves_nothing() {
    let cluster = Cluster::of(3);
    let path = cluster.path("source");
    fs::write(&path, "some bytes").unwrap();
    let put = cluster.run(&["put", path.to_str().unwrap()]);
    assert_eq!(put.status, 1);
    assert!(
        put.stderr.contains("needs 9 nodes") && put.stderr.contains("3 are up"),
        "{}",
        put.stderr
    );
    assert_eq!(cluster.json(&["ls"])["objects"], Value::Array(vec![]));
    cluster.ok(&["put", path.to_str().unwrap(), "--code", "rs(2,1)", "--name", "x"]);
    let again = cluster.run(&["put", path.to_str().unwrap(), "--code", "rs(2,1)", "--name", "x"]);
    assert!(again.status == 2 && again.stderr.contains("already"), "{}", again.stderr);
}

#[test]
fn a_put_onto_full_disks_says_how_many_are_up_and_what_they_lack() {
    let cluster = Cluster::with(3, "keep_free = '1EiB'");
    let path = cluster.path("source");
    fs::write(&path, noise(1000)).unwrap();
    let put = cluster.run(&["put", path.to_str().unwrap(), "--code", "rs(2,1)", "--name", "x"]);
    let says = "free for a chunk, 0 of the 3 that are up have that beside their keep_free";
    assert!(put.status == 1 && put.stderr.contains(says), "{}: {}", put.status, put.stderr);
    assert_eq!(cluster.json(&["ls"])["objects"], Value::Array(vec![]));
}

#[test]
fn an_interrupted_put_leaves_no_chunk_behind() {
    let cluster = Cluster::of(4);
    let mut put = suture();
    put.args(["put", "-", "--name", "x", "--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    put.env("SUTURE_COORDINATOR", &cluster.address).stdin(Stdio::piped());
    let mut put = put.stderr(Stdio::null()).spawn().unwrap();
    put.stdin.as_mut().unwrap().write_all(&noise(1_000_000)).unwrap();
    let held = || (0..4).map(|agent| cluster.chunks(agent).len()).sum::<usize>();
    cluster.wait("some of it is stored", |_| held() > 0);
    put.kill().unwrap();
    put.wait().unwrap();
    // Agents list what they hold by themselves after ten minutes.
    cluster.wait("nothing of it is left", |_| held() == 0);
    let path = cluster.path("source");
    fs::write(&path, "some bytes").unwrap();
    cluster.ok(&["put", path.to_str().unwrap(), "--code", "rs(2,1)", "--name", "x"]);
    cluster.assert_reads("x", b"some bytes");
}

#[test]
fn a_put_that_loses_nodes_says_so_and_repair_brings_the_rest() {
    let mut cluster = Cluster::of(8);
    let path = cluster.path("source");
    let content = noise(400_000);
    fs::write(&path, &content).unwrap();
    cluster.agents[5].kill();
    let put = cluster.json(&[
        "put",
        path.to_str().unwrap(),
        "--code",
        "rs(4,3)",
        "--chunk-size",
        "64KiB",
        "--name",
        "x",
    ]);
    assert_eq!(put["objects"][0]["bytes"], 400_000);
    cluster.assert_reads("x", &content);
    cluster.wait("the node is given up", |status| count(status, "failed") == 1);
    cluster.wait_healthy();
    assert_eq!(cluster.json(&["stat", "x"])["missing_chunks"], 0);
    cluster.assert_reads("x", &content);
}

#[test]
fn a_put_needs_one_node_more_than_hold_the_data_and_the_others_get_their_chunks_later() {
    let mut cluster = Cluster::of(6);
    let path = cluster.path("source");
    let content = noise(400_000);
    fs::write(&path, &content).unwrap();
    let put = |name: &'static str| {
        let source = path.to_str().unwrap().to_owned();
        move |cluster: &Cluster| {
            cluster.run(&[
                "put",
                &source,
                "--code",
                "rs(4,2)",
                "--chunk-size",
                "64KiB",
                "--name",
                name,
            ])
        }
    };
    cluster.agents[5].kill();
    cluster.wait("one node is given up", |status| count(status, "failed") == 1);
    let stored = put("x")(&cluster);
    assert_eq!(stored.status, 0, "{}", stored.stderr);
    assert!(stored.stdout.contains("2 chunks left to repair"), "{}", stored.stdout);
    cluster.assert_reads("x", &content);
    let status = cluster.wait("what waits is shown", |status| status["state"] == "blocked");
    assert_eq!((&status["lost_chunks"], &status["at_risk"][1]), (&2.into(), &2.into()));
    // One node less than that, and a stripe could lose no more.
    cluster.agents[4].kill();
    cluster.wait("two nodes are silent", |status| count(status, "up") == 4);
    let refused = put("y")(&cluster);
    let why = "rs(4,2) needs at least 5 of 6 nodes, 4 of 6 are up and take chunks";
    assert!(refused.status == 1 && refused.stderr.contains(why), "{}", refused.stderr);

    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    (4..6).for_each(|agent| cluster.agents[agent] = start_agent(&folder, &address, agent, ""));
    cluster.wait_healthy();
    assert_eq!(cluster.json(&["stat", "x"])["missing_chunks"], 0);
    // A node that is on its way out takes no chunks; what it would have had waits for it, too.
    cluster.ok(&["node", "drain", "n0", "--force"]);
    let stored = put("z")(&cluster);
    assert!(stored.status == 0 && stored.stdout.contains("left to repair"), "{}", stored.stderr);
    cluster.assert_reads("z", &content);
    cluster.ok(&["node", "return", "n0"]);
    cluster.wait_healthy();
    (0..2).for_each(|agent| cluster.agents[agent].kill());
    cluster.assert_reads("x", &content);
}

#[test]
fn an_object_that_lacks_chunks_comes_in_order_to_a_pipe() {
    let cluster = Cluster::of(5);
    let content = cluster.put("x", 9_000_000, &["--code", "rs(3,2)", "--chunk-size", "1MiB"]);
    cluster.ok(&["repair", "pause"]);
    cluster.ok(&["node", "fail", "n0"]);
    let mut get = suture();
    get.args(["get", "x", "-o", "-"]).env("SUTURE_COORDINATOR", &cluster.address);
    let got = get.output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(got.stdout == content, "it came back with other bytes");
}

#[test]
fn a_put_does_not_wait_for_one_node_that_lags_far_behind_the_others() {
    let mut cluster = Cluster::of(0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    // Not so slow that it is passed over from the start.
    let keys = |index: usize| match index {
        0 => "uplink = '8Mbit'\ndownlink = '8Mbit'",
        _ => "uplink = '80Mbit'\ndownlink = '80Mbit'",
    };
    let start = |index: usize| start_agent(&folder, &address, index, keys(index));
    cluster.agents = (0..5).map(start).collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 5);
    let how = ["--code", "rs(3,2)", "--chunk-size", "2MiB"];
    // No other node can have its chunks: it is without most of them, and repair brings them.
    let first = cluster.put("first", 30_000_000, &how);
    let missing = cluster.json(&["stat", "first"])["missing_chunks"].as_u64().unwrap();
    assert!((3..=5).contains(&missing), "{missing} of 5 chunks are missing");
    cluster.assert_reads("first", &first);
    // Another node can.
    cluster.agents.push(start(5));
    cluster.wait("six agents are up", |status| count(status, "up") == 6);
    let second = cluster.put("second", 30_000_000, &how);
    assert_eq!(cluster.json(&["stat", "second"])["missing_chunks"], 0);
    cluster.assert_reads("second", &second);
    cluster.wait_healthy();
    assert_eq!(cluster.json(&["stat", "first"])["missing_chunks"], 0);
}

#[test]
fn a_put_passes_over_a_node_whose_link_is_known_to_be_far_slower() {
    let mut cluster = Cluster::of(0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    // Others are found to be slow where a machine is busy, though not so slow.
    let keys = |index: usize| if index == 0 { "uplink = '8Mbit'\ndownlink = '1Mbit'" } else { "" };
    cluster.agents =
        (0..6).map(|index| start_agent(&folder, &address, index, keys(index))).collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 6);
    // Five others are enough.
    let beside = cluster.put("beside", 3_000_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    assert_eq!(cluster.json(&["stat", "beside"])["missing_chunks"], 0);
    assert_eq!(cluster.chunks(0).len(), 0, "it has a chunk");
    // Five others are not.
    let all = cluster.put("all", 300_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    cluster.wait_healthy();
    assert!(!cluster.chunks(0).is_empty(), "it has no chunk");
    cluster.assert_reads("beside", &beside);
    cluster.assert_reads("all", &all);
}

#[test]
fn a_get_does_not_wait_for_one_node_that_sends_far_slower_than_the_others() {
    let mut cluster = Cluster::of(0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    // What it is sent it takes at once, so that it has a chunk of each stripe.
    let keys = |index: usize| if index == 0 { "uplink = '1Mbit'" } else { "" };
    let start = |index: usize| start_agent(&folder, &address, index, keys(index));
    cluster.agents = (0..5).map(start).collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 5);
    let how = ["--code", "rs(3,2)", "--chunk-size", "256KiB"];
    let content = cluster.put("x", 20 * 3 * (256 << 10), &how);
    cluster.wait_healthy();
    assert!(cluster.chunks(0).len() >= 20, "a chunk of each stripe, most of them of data");
    // Nothing is missing: what is decoded is so because a node was not waited for.
    let back = cluster.path("back");
    let read = cluster.json(&["get", "x", "-o", back.to_str().unwrap()]);
    assert!(read["decoded_bytes"].as_u64() > Some(0), "{read}");
    assert!(fs::read(&back).unwrap() == content, "it came back with other bytes");
    // Neither is it waited for where bytes are wanted in their order.
    let mut get = suture();
    get.args(["-v", "get", "x", "-o", "-"]).env("SUTURE_COORDINATOR", &cluster.address);
    let got = get.output().unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(got.status.success() && said.contains("decoded from other chunks"), "{said}");
    assert!(got.stdout == content, "it came back with other bytes");
}

#[test]
fn an_operator_can_pause_preview_and_resume() {
    let cluster = Cluster::of(8);
    let how = ["--code", "rs(4,2)", "--chunk-size", "64KiB"];
    let content = cluster.put("x", 2_000_000, &how);
    cluster.put("y", 2_000_000, &how);
    let lost = cluster.chunks(6).len();
    cluster.ok(&["repair", "pause"]);
    cluster.ok(&["node", "fail", "n6"]);
    let preview = cluster.json(&["repair", "start", "--dry-run"]);
    assert_eq!((&preview["chunks"], &preview["object"]), (&lost.into(), &Value::Null));
    let of_each = ["x", "y"].map(|name| {
        let preview = cluster.json(&["repair", "start", name, "--dry-run"]);
        assert_eq!(preview["object"], name);
        assert_eq!(preview["chunks"], cluster.json(&["stat", name])["missing_chunks"]);
        preview["chunks"].as_u64().unwrap()
    });
    assert!(of_each.iter().sum::<u64>() == lost as u64 && of_each[0] > 0, "{of_each:?}");
    let text = cluster.ok(&["repair", "start", "x", "--dry-run"]);
    assert!(text.starts_with("would rebuild ") && text.contains(" of 'x' by moving "), "{text}");
    let status = cluster.json(&["status"]);
    assert_eq!((&status["state"], &status["repaired_chunks"]), (&"paused".into(), &0.into()));
    cluster.ok(&["repair", "resume"]);
    let status = cluster.wait_healthy();
    assert_eq!(status["repaired_chunks"], lost);
    let text = cluster.ok(&["repair", "start", "x", "--dry-run"]);
    assert!(text.starts_with("nothing more to start of 'x'; healthy"), "{text}");
    cluster.assert_reads("x", &content);
    let unknown = cluster.run(&["node", "fail", "n77"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("n77"), "{}", unknown.stderr);
}

#[test]
fn racks_that_are_set_over_what_is_stored_do_not_pass_for_safe() {
    let mut cluster = Cluster::of(5);
    // Each of both stripes has a chunk on each node, and can lose two.
    cluster.put("x", 300_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    assert_eq!(cluster.json(&["status"])["crowded_stripes"], 0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    let mut wait_for = |racks: [&str; 5]| {
        for (index, rack) in racks.into_iter().enumerate() {
            cluster.agents[index].stop();
            cluster.agents[index] =
                start_agent(&folder, &address, index, &format!("rack = '{rack}'"));
        }
        let is_there = |node: &Value| {
            let index: usize = node["name"].as_str().unwrap()[1..].parse().unwrap();
            node["rack"] == racks[index] && node["health"] == "up"
        };
        let are_all = |status: &Value| status["nodes"].as_array().unwrap().iter().all(is_there);
        let what = format!("all are in {racks:?}");
        let is_well = |status: &Value| are_all(status) && status["state"] == "healthy";
        (cluster.wait(&what, is_well), cluster.ok(&["status"]))
    };
    let (status, text) = wait_for(["left", "left", "left", "right", "right"]);
    let expected = serde_json::json!([{ "rack": "left", "stripes": 2 }]);
    assert_eq!((&status["crowded_stripes"], &status["crowded_racks"]), (&2.into(), &expected));
    let said = "2 stripes could not be read without a single rack";
    assert!(text.starts_with(&format!("healthy, but for {}", &said[..9])), "{text}");
    assert!(text.contains(&format!("warning: {said}, 'left' (2): ")), "{text}");
    let (status, text) = wait_for(["left", "left", "middle", "right", "right"]);
    assert_eq!(status["crowded_stripes"], 0);
    assert!(text.starts_with("healthy: ") && !text.contains(said), "{text}");
}

#[test]
fn a_whole_rack_may_be_lost_and_racks_outlive_the_coordinator() {
    let mut cluster = Cluster::of(0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    let start = |index: usize, keys: &str| start_agent(&folder, &address, index, keys);
    let rack = |index: usize| format!("rack = '{}'", ["left", "right"][index / 3]);
    cluster.agents = (0..6).map(|index| start(index, &rack(index))).collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 6);
    let racks = |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        let mut racks: Vec<(String, Value)> = nodes
            .iter()
            .map(|node| (node["name"].as_str().unwrap().to_string(), node["rack"].clone()))
            .collect();
        racks.sort_by(|a, b| a.0.cmp(&b.0));
        racks.into_iter().map(|(_, rack)| rack).collect::<Vec<_>>()
    };
    let expected = ["left", "left", "left", "right", "right", "right"];
    assert_eq!(racks(&cluster.json(&["node", "list"])), expected);
    let table = cluster.ok(&["node", "list"]);
    let headings = table.lines().next().unwrap();
    assert!(headings.contains("rack") && table.contains("right"), "{table}");

    let content = cluster.put("x", 1_000_000, &["--code", "rs(2,2)", "--chunk-size", "64KiB"]);
    cluster.agents[..3].iter_mut().for_each(Process::kill);
    cluster.assert_reads("x", &content);
    cluster.restart_coordinator();
    assert_eq!(racks(&cluster.json(&["status"])), expected, "as the metadata has it");
    // They return, one of them without a rack.
    cluster.agents[0] = start(0, "");
    (1..3).for_each(|index| cluster.agents[index] = start(index, &rack(index)));
    let status = cluster.wait_healthy();
    assert_eq!((&racks(&status)[0], &racks(&status)[1]), (&Value::Null, &"left".into()));

    let config = cluster.path("odd.toml");
    let text = format!(
        "name = 'odd'\ncoordinator = '{}'\nlisten = '127.0.0.1:0'\nrack = 'r 1'\ndata_dir = '{}'\n",
        cluster.address,
        cluster.path("odd").display()
    );
    fs::write(&config, text).unwrap();
    let odd = finish(suture().args(["agent", "--config"]).arg(&config));
    assert!(
        odd.status == 2 && odd.stderr.contains("'r 1' is not a valid rack name"),
        "{}",
        odd.stderr
    );
}

#[test]
fn two_coordinators_never_share_an_address_or_a_database() {
    let cluster = Cluster::of(0);
    let second = |name: &str, listen: &str, data: &Path| {
        let config = cluster.path(name);
        let text = format!("listen = '{listen}'\ndata_dir = '{}'\n", data.display());
        fs::write(&config, text).unwrap();
        finish(suture().args(["coordinator", "--config"]).arg(config))
    };
    let in_use = second("a.toml", &cluster.address, &cluster.path("elsewhere"));
    assert_ne!(in_use.status, 0);
    assert!(in_use.stderr.contains(&cluster.address), "{}", in_use.stderr);
    assert!(!cluster.path("elsewhere").exists(), "it took possession before it could listen");
    let locked = second("b.toml", "127.0.0.1:0", &cluster.path("coordinator"));
    assert!(
        locked.status == 1 && locked.stderr.contains("another coordinator"),
        "{}",
        locked.stderr
    );
    let open = second("c.toml", "0.0.0.0:0", &cluster.path("elsewhere"));
    assert!(open.status == 2 && open.stderr.contains("insecure"), "{}", open.stderr);
}

#[test]
fn an_agent_never_brings_the_chunks_of_one_cluster_into_another() {
    let mut ours = Cluster::of(1);
    let theirs = Cluster::of(1);
    ours.agents[0].kill();
    let config = ours.path("moved.toml");
    let write = |name: &str, coordinator: &str| {
        let data = ours.path("n0");
        let text = format!(
            "name = '{name}'\ncoordinator = '{coordinator}'\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\n",
            data.display()
        );
        fs::write(&config, text).unwrap();
    };
    // The coordinator of its own cluster may be there tomorrow, so it goes on asking.
    write("n0", &theirs.address);
    let (mut moved, _) = Process::start("agent", &config);
    let refused = |status: &Value| status["refused_agents"][0]["why"].to_string();
    let status = theirs.wait("it is refused", |status| status["refused_agents"][0].is_object());
    assert!(refused(&status).contains("belong to cluster"), "{status:#}");
    assert!(moved.0.try_wait().unwrap().is_none());
    moved.kill();
    assert_eq!(theirs.json(&["node", "list"])["nodes"].as_array().unwrap().len(), 1);
    write("n1", &ours.address);
    let renamed = finish(suture().args(["agent", "--config"]).arg(&config));
    assert!(renamed.status == 2 && renamed.stderr.contains("node 'n0'"), "{}", renamed.stderr);
}

#[test]
fn without_a_coordinator_a_command_says_what_to_do() {
    let status = finish(suture().args(["status", "--coordinator", "127.0.0.1:1"]));
    assert_eq!(status.status, 1);
    assert!(status.stderr.contains("127.0.0.1:1") && status.stderr.contains("suture coordinator"));
}

#[test]
fn a_node_that_is_silent_is_named_at_once_and_long_before_it_is_given_up() {
    let mut cluster = Cluster::of(6);
    let content = cluster.put("x", 600_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    let stripes = cluster.json(&["stat", "x"])["stripes"].as_u64().unwrap();
    cluster.coordinator.stop();
    cluster.start_patient();
    cluster.wait("all agents are back", |status| count(status, "up") == 6);
    cluster.wait_healthy();
    let signal = |cluster: &Cluster, agents: std::ops::Range<usize>, signal| {
        for agent in &cluster.agents[agents] {
            let id = rustix::process::Pid::from_child(&agent.0);
            rustix::process::kill_process(id, signal).unwrap();
        }
    };
    // Each stripe has a chunk on each node. A stopped agent closes no connection.
    for (stopped, silent, said, exit) in
        [(0..1, "n0", "all can be read", 0), (1..3, "n0, n1, n2", "cannot be read now", 3)]
    {
        let (since, all) = (Instant::now(), stopped.end);
        signal(&cluster, stopped, rustix::process::Signal::STOP);
        let status = cluster.wait("they are silent", |status| count(status, "suspect") == all);
        assert!(since.elapsed() < Duration::from_secs(10), "after {:?}", since.elapsed());
        let state = if exit == 0 { "degraded" } else { "unreadable" };
        assert_eq!((&status["state"], &status["lost_chunks"]), (&state.into(), &0.into()));
        assert_eq!(status["degraded_stripes"], stripes);
        let told = cluster.run(&["status"]);
        assert_eq!(told.status, exit, "{}", told.stdout);
        let silent = format!("{said}; silent: {silent}\n");
        assert!(told.stdout.contains(&silent), "{}", told.stdout);
        let stat = cluster.run(&["stat", "x"]);
        assert_eq!(stat.status, exit, "{}", stat.stdout);
    }
    signal(&cluster, 0..3, rustix::process::Signal::CONT);
    cluster.wait_healthy();
    assert_eq!(cluster.run(&["status"]).status, 0);
    cluster.assert_reads("x", &content);
}

#[test]
fn status_and_stat_say_at_once_what_can_be_read() {
    let mut cluster = Cluster::of(7);
    let content = cluster.put("x", 600_000, &["--code", "rs(4,2)", "--chunk-size", "64KiB"]);
    let stripes = cluster.json(&["stat", "x"])["stripes"].as_u64().unwrap();
    let (chunks, missing) = (6 * stripes, |stat: &Value| stat["missing_chunks"].as_u64().unwrap());
    assert_eq!(cluster.json(&["status"])["state"], "healthy");

    // A new coordinator gives silent nodes some seconds before it takes them for dead: what they
    // hold cannot be read all the same.
    cluster.coordinator.stop();
    let gone = cluster.chunks(0).len() as u64;
    cluster.agents[0].kill();
    cluster.start_patient();
    let status = cluster.wait("the others are back", |status| count(status, "up") == 6);
    assert!(gone > 0 && gone < chunks);
    assert_eq!(count(&status, "unknown"), 1);
    assert_eq!((&status["state"], &status["degraded_stripes"]), (&"degraded".into(), &gone.into()));
    let Finished { status, stdout, .. } = cluster.run(&["status"]);
    assert_eq!(status, 0, "all can be read: {stdout}");
    assert!(stdout.contains("all can be read; silent: n0"), "{stdout}");
    let Finished { status, stdout, .. } = cluster.run(&["stat", "x"]);
    assert!(status == 0 && stdout.contains("the data can"), "{stdout}");
    cluster.assert_reads("x", &content);
    cluster.coordinator.stop();
    (cluster.coordinator, _) = daemons::start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait_healthy();

    // Copies that are gone are not there, whatever node they are recorded on.
    for agent in 1..7 {
        cluster.chunks(agent).iter().take(2).for_each(|chunk| fs::remove_file(chunk).unwrap());
    }
    cluster.agents[1..4].iter_mut().for_each(Process::kill);
    cluster.wait("some data cannot be read", |status| status["unreadable_stripes"] != 0);
    for command in [&["status"][..], &["stat", "x"]] {
        let Finished { status, stdout, .. } = cluster.run(command);
        assert_eq!(status, 3, "{command:?}: {stdout}");
        assert!(!stdout.contains("healthy"), "{stdout}");
    }
    let stat = cluster.json(&["stat", "x"]);
    assert!(missing(&stat) > 0 && stat["unreadable_stripes"] != 0, "{stat:#}");
}

#[test]
fn parity_of_an_input_that_changes_is_not_taken_for_that_of_what_is_stored() {
    let cluster = Cluster::of(6);
    let path = cluster.path("input");
    fs::write(&path, noise(8 << 20)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let put = std::thread::scope(|scope| {
        // As a program does that has the file mapped: its time does not change.
        scope.spawn(|| {
            let mut offset = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                offset = (offset + 7_654_321) % (8 << 20);
                file.write_all_at(&[7; 1], offset).unwrap();
                file.set_modified(before).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let input = path.display().to_string();
        let how = ["--name", "input", "--code", "butterfly(4)", "--chunk-size", "2MiB"];
        let put = cluster.run(&[&["put", &input], &how[..]].concat());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        put
    });
    assert_eq!(put.status, 1, "{}", put.stdout);
    assert!(put.stderr.contains("the input changed while it was stored"), "{}", put.stderr);
    assert_eq!(cluster.json(&["ls"])["objects"], serde_json::json!([]));
    // What lies still is stored.
    let content = cluster.put("still", 8 << 20, &["--code", "butterfly(4)"]);
    cluster.assert_reads("still", &content);
}
