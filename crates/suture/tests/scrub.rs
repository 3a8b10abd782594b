//! `suture scrub` over real processes: damage that no client has read is found and mended.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use serde_json::Value;

use crate::daemons::{self, Cluster, Process, count, start_agent, start_coordinator};

/// Changes a byte of a file.
fn flip(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 1000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 1000).unwrap();
}

/// The files of this chunk of a stripe, on any agent.
fn files_of(cluster: &Cluster, chunk: u8) -> Vec<std::path::PathBuf> {
    let is_of = |path: &std::path::PathBuf| {
        path.file_name().unwrap().to_str().unwrap().contains(&format!(".{chunk:02x}."))
    };
    (0..cluster.agents.len()).flat_map(|agent| cluster.chunks(agent)).filter(is_of).collect()
}

#[test]
fn damaged_parity_that_nobody_reads_is_found_and_rebuilt_before_a_node_dies() {
    let mut cluster = Cluster::of(7);
    let how = ["--code", "rs(3,2)", "--chunk-size", "64KiB"];
    let content = cluster.put("x", 400_000, &how);
    let clean = cluster.json(&["scrub", "--wait"]);
    assert_eq!(
        (&clean["found_copies"], &clean["inconsistent"]),
        (&0.into(), &Value::Array(vec![]))
    );
    for _ in 0..5 {
        assert_eq!(cluster.json(&["scrub"])["stripes"], 3, "though it has ended by now");
    }
    assert!(cluster.ok(&["scrub", "--wait"]).contains("all are good"));

    let parity = [files_of(&cluster, 3), files_of(&cluster, 4)].concat();
    assert_eq!(parity.len(), 2 * 3, "three stripes");
    parity.iter().for_each(|path| flip(path));
    let found = cluster.run(&["scrub", "--wait", "--format", "json"]);
    assert_eq!(found.status, 1, "damage that can be repaired");
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["found_copies"], 6);
    let status = cluster.wait("all is rebuilt", |status| status["repaired_chunks"] == 6);
    assert_eq!(status["scrub"]["running"], false);
    assert_eq!(status["scrub"]["found_copies"], 6);
    assert!(status["scrub"]["last_ended"].as_u64() >= status["scrub"]["last_begun"].as_u64());
    let text = cluster.ok(&["status"]);
    assert!(text.contains("scrub: last ended 2") && text.contains("6 bad chunks found"), "{text}");

    // Each stripe of three data chunks could not have lost one of them before.
    cluster.agents[0].kill();
    cluster.assert_reads("x", &content);
}

#[test]
fn too_many_damaged_copies_on_nodes_that_are_up_do_not_make_status_ask_for_nodes() {
    let mut cluster = Cluster::of(5);
    cluster.put("x", 100_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    let damaged = [0, 1, 3].map(|chunk| files_of(&cluster, chunk)).concat();
    assert_eq!(damaged.len(), 3);
    damaged.iter().for_each(|path| flip(path));
    let told = cluster.run(&["scrub", "--wait"]);
    assert_eq!(told.status, 3, "{}{}", told.stdout, told.stderr);
    for said in ["3 bad chunks found; 1 stripe cannot be repaired", "blocked: 1 stripe of x: "] {
        assert!(told.stdout.contains(said), "{}", told.stdout);
    }
    let status = cluster.wait("it is beyond repair", |status| status["state"] == "unrepairable");
    assert_eq!((count(&status, "up"), &status["blocked"][0]["away"]), (5, &false.into()));
    let told = cluster.run(&["status"]);
    let line = told.stdout.lines().next().unwrap();
    let copies = "1 stripe cannot be repaired unless copies return: restore them, or store the";
    assert!(told.status == 3 && line.starts_with(copies), "{line}");
    // The copies return, and are read once more when their agents list them.
    damaged.iter().for_each(|path| flip(path));
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    for index in 0..5 {
        cluster.agents[index].stop();
        cluster.agents[index] = start_agent(&folder, &address, index, "");
    }
    cluster.wait_healthy();
}

#[test]
fn what_could_not_be_read_is_neither_good_nor_corrupt() {
    let cluster = Cluster::of(5);
    let content = cluster.put("x", 100_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    let parity = [files_of(&cluster, 3), files_of(&cluster, 4)].concat();
    let [pipe, folder] = &parity[..] else { panic!("one stripe: {parity:?}") };
    let kept = [cluster.path("kept-3"), cluster.path("kept-4")];
    fs::rename(pipe, &kept[0]).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, pipe, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    fs::rename(folder, &kept[1]).unwrap();
    fs::create_dir(folder).unwrap();

    let daemons::Finished { status, stdout, stderr } = cluster.run(&["scrub", "--wait"]);
    assert_eq!(status, 1, "{stdout}{stderr}");
    assert!(!stdout.contains("all are good"), "{stdout}");
    assert!(stdout.contains("2 chunks could not be read; all others are good"), "{stdout}");
    for chunk in [3, 4] {
        assert!(
            stdout.contains(&format!("could not be read: chunk {chunk} of stripe")),
            "{stdout}"
        );
    }
    assert!(stdout.contains("('x') on n"), "{stdout}");
    let found = cluster.json(&["scrub", "--wait"]);
    assert_eq!((&found["found_copies"], &found["lost_chunks"]), (&0.into(), &0.into()));
    assert_eq!((&found["unread_copies"], &found["unread"][1]["object"]), (&2.into(), &"x".into()));
    let status = cluster.json(&["status"]);
    assert_eq!((&status["repaired_chunks"], &status["lost_chunks"]), (&0.into(), &0.into()));
    let text = cluster.ok(&["status"]);
    assert!(text.contains("; 2 chunks cannot be read"), "{text}");
    assert!(text.contains(" of a stripe of 'x' on n"), "{text}");

    // They were whole all the time.
    fs::remove_file(pipe).unwrap();
    fs::rename(&kept[0], pipe).unwrap();
    fs::remove_dir(folder).unwrap();
    fs::rename(&kept[1], folder).unwrap();
    cluster.wait("they can be read", |status| status["scrub"]["unread_copies"] == 0);
    assert!(cluster.ok(&["scrub", "--wait"]).contains("all are good"));
    assert_eq!(cluster.json(&["status"])["repaired_chunks"], 0);
    cluster.assert_reads("x", &content);
}

#[test]
fn what_lies_on_a_node_that_is_away_is_not_called_good() {
    let mut cluster = Cluster::of(5);
    let content = cluster.put("x", 400_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    let held = cluster.chunks(1);
    assert_eq!(held.len(), 3, "three stripes of five chunks");
    cluster.ok(&["node", "pause", "n1", "--for", "1h"]);
    cluster.agents[1].kill();
    cluster.wait("it is silent", |status| count(status, "suspect") == 1);
    flip(&held[0]);
    let daemons::Finished { status, stdout, .. } = cluster.run(&["scrub", "--wait"]);
    assert_eq!(status, 1, "{stdout}");
    let said = "3 chunks were not read, since their nodes are paused or down; all others are good";
    assert!(stdout.contains(said), "{stdout}");
    let found = cluster.run(&["scrub", "--wait", "--format", "json"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&found["found_copies"], &found["left_out_copies"]), (&0.into(), &3.into()));
    let text = cluster.ok(&["status"]);
    assert!(text.contains("; 3 chunks were not read"), "{text}");
    assert_eq!(cluster.json(&["status"])["scrub"]["left_out_copies"], 3);
    cluster.assert_reads("x", &content);
}

#[test]
fn a_damaged_file_goes_with_its_object() {
    let mut cluster = Cluster::of(5);
    cluster.put("x", 100_000, &["--code", "rs(3,2)", "--chunk-size", "64KiB"]);
    let [damaged] = &cluster.chunks(0)[..] else { panic!("a stripe has a chunk on each node") };
    cluster.agents[0].kill();
    // Its footer is gone, and no coordinator can order it away while its agent is.
    let bytes = fs::metadata(damaged).unwrap().len();
    OpenOptions::new().write(true).open(damaged).unwrap().set_len(bytes - 1).unwrap();
    cluster.ok(&["rm", "x"]);
    cluster.agents[0] = daemons::start_agent(cluster.folder.path(), &cluster.address, 0, "");
    let is_gone = || (0..5).all(|agent| cluster.chunks(agent).is_empty());
    cluster.wait("nothing is left", |_| is_gone());
}

#[test]
fn a_restarted_coordinator_knows_of_the_last_scrub() {
    let mut cluster = Cluster::of(5);
    cluster.put("x", 100_000, &["--code", "rs(3,2)"]);
    cluster.ok(&["scrub", "--wait"]);
    let before = cluster.json(&["status"])["scrub"].clone();
    cluster.restart_coordinator();
    let after = cluster.json(&["status"])["scrub"].clone();
    for key in ["last_begun", "last_ended", "running"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    let weeks = |scrub: &Value| scrub["next_seconds"].as_f64().unwrap() / (7.0 * 24.0 * 3600.0);
    assert!(weeks(&after) > 3.9 && weeks(&after) <= 4.0, "{after}");
}

#[test]
fn what_a_scrub_found_is_said_after_a_restart_by_status_and_stat_alike() {
    let mut cluster = Cluster::of(5);
    let how = ["--code", "rs(3,2)", "--chunk-size", "64KiB"];
    ["x", "y"].into_iter().for_each(|name| drop(cluster.put(name, 400_000, &how)));
    cluster.coordinator.stop();
    let metadata = rusqlite::Connection::open(cluster.path("coordinator/metadata.db")).unwrap();
    metadata.execute("UPDATE stripe SET inconsistent = 1 WHERE id = 1", []).unwrap();
    drop(metadata);
    cluster.restart_coordinator();
    cluster.wait("all agents are up", |status| count(status, "up") == 5);
    for (args, said) in [
        (&["status"][..], "inconsistent: "),
        (&["stat", "x"], "inconsistent: the chunks of 1 stripe do not fit each other"),
    ] {
        let daemons::Finished { status, stdout, .. } = cluster.run(args);
        assert_eq!(status, 3, "{stdout}");
        assert!(stdout.contains(said), "{stdout}");
    }
    assert_eq!(cluster.json(&["stat", "y"])["inconsistent_stripes"], 0);
    cluster.ok(&["scrub", "--wait"]);
    cluster.ok(&["status"]);
    cluster.restart_coordinator();
    cluster.wait("all agents are up", |status| count(status, "up") == 5);
    cluster.ok(&["status"]);
    cluster.ok(&["stat", "x"]);
}

/// A scrub of weeks would find it again, and meanwhile a node would be failed that is needed.
#[test]
fn damaged_copies_are_known_after_a_restart() {
    let mut cluster = Cluster::of(6);
    let how = ["--code", "rs(3,2)", "--chunk-size", "64KiB"];
    cluster.put("x", 100_000, &how);
    cluster.ok(&["repair", "pause"]);
    let damaged = [0, 3].map(|chunk| files_of(&cluster, chunk)).concat();
    damaged.iter().for_each(|path| flip(path));
    assert_eq!(cluster.run(&["scrub", "--wait"]).status, 1);
    let known = |cluster: &Cluster| {
        let status = cluster.wait("all agents are up", |status| count(status, "up") == 6);
        assert_eq!(status["lost_chunks"], 2, "{status}");
        let stat = cluster.ok(&["stat", "x"]);
        assert!(stat.contains("degraded"), "{stat}");
    };
    known(&cluster);
    cluster.restart_coordinator();
    known(&cluster);
    // The stripe can lose no more: a node with the only other copies is not given up lightly.
    let holder = files_of(&cluster, 1)[0].clone();
    let holder = (0..6).find(|agent| cluster.chunks(*agent).contains(&holder)).unwrap();
    let refused = cluster.run(&["node", "fail", &format!("n{holder}")]);
    assert_eq!(refused.status, 1, "{}{}", refused.stdout, refused.stderr);
    cluster.ok(&["repair", "resume"]);
    cluster.wait_healthy();
    cluster.restart_coordinator();
    cluster.wait_healthy();
}

/// Starts the coordinator again where agents know it, with these keys in `[scrub]`.
fn restart_with(cluster: &mut Cluster, keys: &str) {
    cluster.coordinator.stop();
    let (config, data) = (cluster.path("coordinator.toml"), cluster.path("coordinator"));
    let (address, data) = (&cluster.address, data.display());
    let text = format!("listen = '{address}'\ndata_dir = '{data}'\n[scrub]\n{keys}\n");
    fs::write(&config, text).unwrap();
    (cluster.coordinator, _) = Process::start("coordinator", &config);
}

#[test]
fn a_scrub_keeps_to_its_rate_and_goes_on_after_a_restart() {
    let mut cluster = Cluster::of(4);
    cluster.put("x", 1_500_000, &["--code", "rs(2,2)", "--chunk-size", "64KiB"]);
    // Every node has 12 chunks of 64 KiB, which take it nearly eight seconds.
    restart_with(&mut cluster, "rate = '100kB'");
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let begun = cluster.json(&["scrub"]);
    assert_eq!((&begun["running"], &begun["stripes"]), (&true.into(), &12.into()));
    let status = cluster
        .wait("some of it is done", |status| status["scrub"]["stripes_done"].as_u64() >= Some(2));
    assert!(cluster.ok(&["status"]).contains("of 12 stripes"));
    restart_with(&mut cluster, "rate = 'off'");
    let before = status["scrub"]["last_ended"].as_u64();
    let ended = cluster.wait("the rest is done, and that is recorded", |status| {
        let scrub = &status["scrub"];
        scrub["running"] == false && scrub["last_ended"].as_u64() > before
    });
    assert_eq!(ended["scrub"]["last_begun"], status["scrub"]["last_begun"], "the same pass");
}

#[test]
fn damage_is_found_in_its_time_though_nobody_asks() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("x", 100_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    cluster.coordinator.stop();
    let folder = cluster.folder.path().to_path_buf();
    fs::write(folder.join("more.toml"), "[scrub]\nperiod = '2s'\n").unwrap();
    (cluster.coordinator, _) = start_coordinator(&folder, &cluster.address);
    let passes = |status: &Value| status["scrub"]["last_ended"].as_u64().unwrap_or(0);
    let begun = passes(&cluster.wait("a pass has ended", |status| passes(status) > 0));
    let parity = files_of(&cluster, 2);
    flip(&parity[0]);
    cluster.wait("what is bad is rebuilt", |status| status["repaired_chunks"] == 1);
    cluster.wait("others follow", |status| passes(status) > begun);
    let status = cluster.wait_healthy();
    assert_eq!(status["lost_chunks"], 0, "{status:#}");
    cluster.agents[0].kill();
    cluster.assert_reads("x", &content);
}
