//! Metadata that were lost, made again from chunks, with real processes.
//!
//! Place: beside the life of a repair: without the map of stripes nothing can be repaired or read.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::daemons::{
    self, Cluster, Finished, count, noise, start_agent, start_coordinator, suture,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(3,2)", "--chunk-size", "16KiB"];
const AGENTS: usize = 6;

/// Objects of every kind, with their contents.
struct Stored(Vec<(&'static str, Vec<u8>)>);

impl Stored {
    fn put(cluster: &Cluster) -> Stored {
        let file = |name: &'static str, bytes, how: &[&str]| (name, cluster.put(name, bytes, how));
        let mut all = vec![
            file("one byte", 1, &CODE),
            file("a stripe and a bit/ä", 3 * 16384 + 1, &CODE),
            file("many", 400_000, &CODE),
            file("butterfly", 100_000, &["--code", "butterfly(4)", "--chunk-size", "16KiB"]),
            file("lrc", 60_000, &["--code", "lrc(2,2,1)", "--chunk-size", "8KiB"]),
        ];
        // Of a stream it is not known beforehand which stripe is the last.
        for (name, bytes) in [("stream", 100_000), ("whole stripes", 2 * 3 * 16384)] {
            let content = noise(bytes);
            let mut put = suture()
                .args(["put", "-", "--name", name, "--coordinator", &cluster.address])
                .args(CODE)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            put.stdin.take().unwrap().write_all(&content).unwrap();
            assert!(put.wait().unwrap().success());
            all.push((name, content));
        }
        Stored(all)
    }

    fn assert_read(&self, cluster: &Cluster) {
        self.0.iter().for_each(|(name, content)| cluster.assert_reads(name, content));
    }
}

fn rebuild(cluster: &Cluster, args: &[&str]) -> Finished {
    let path = cluster.path("coordinator.toml");
    let config = path.display().to_string();
    // Where the agents know the coordinator, instead of any port that is free.
    let text = fs::read_to_string(&path).unwrap().replace("127.0.0.1:0", &cluster.address);
    fs::write(&path, text).unwrap();
    let mut command = suture();
    command.args(["metadata", "rebuild", "--config", &config, "--format", "json"]).args(args);
    daemons::finish(&mut command)
}

/// Loses the metadata and makes them again; what the command said.
fn lose_and_rebuild(cluster: &mut Cluster, agents: usize, status: i32) -> Value {
    cluster.coordinator.stop();
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    let found = rebuild(cluster, &["--agents", &agents.to_string()]);
    assert_eq!(found.status, status, "{}", found.stderr);
    assert!(found.stderr.contains("is not found: objects of no bytes"), "{}", found.stderr);
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    serde_json::from_str(&found.stdout).unwrap()
}

#[test]
fn all_objects_come_back_without_their_metadata() {
    let mut cluster = Cluster::of(AGENTS);
    let stored = Stored::put(&cluster);
    let before = cluster.json(&["ls"]);
    let found = lose_and_rebuild(&mut cluster, AGENTS, 0);
    assert_eq!(found["objects"], stored.0.len(), "{found:#}");
    cluster.wait_healthy();
    stored.assert_read(&cluster);
    assert_eq!(cluster.json(&["ls"]), before);
    // It is a cluster like any other: what is removed is gone, what is put is new.
    let status = cluster.wait_healthy();
    assert_eq!(status["warnings"], Value::Array(vec![]), "{status:#}");
    let files = |cluster: &Cluster| (0..AGENTS).map(|a| cluster.chunks(a).len()).sum::<usize>();
    let before = files(&cluster);
    cluster.ok(&["rm", "many"]);
    // 400,000 bytes in stripes of 3 x 16 KiB.
    cluster.wait("its chunks are gone", |_| files(&cluster) == before - 9 * 5);
    let again = cluster.put("many", 50_000, &CODE);
    cluster.assert_reads("many", &again);
}

#[test]
fn with_a_third_of_the_agents_gone_too_all_is_read_and_repaired() {
    let mut cluster = Cluster::of(AGENTS);
    let stored = Stored::put(&cluster);
    for _ in 0..AGENTS / 3 {
        cluster.agents.pop().unwrap().kill();
    }
    let found = lose_and_rebuild(&mut cluster, AGENTS - AGENTS / 3, 0);
    assert_eq!(found["objects"], stored.0.len(), "{found:#}");
    stored.assert_read(&cluster);
    for agent in AGENTS..AGENTS + 2 {
        let started = start_agent(cluster.folder.path(), &cluster.address, agent, "");
        cluster.agents.push(started);
    }
    cluster.wait("all is repaired", |status| status["state"] == "healthy");
    stored.assert_read(&cluster);
}

#[test]
fn rebuilt_chunks_are_as_good_witnesses_as_the_first_ones() {
    const AGENTS: usize = 7;
    let mut cluster = Cluster::of(AGENTS);
    let stored = Stored::put(&cluster);
    // Every agent in turn is emptied, so that in the end no chunk is where the put wrote it.
    for agent in 0..AGENTS {
        let name = format!("n{agent}");
        cluster.agents[agent].kill();
        cluster.wait("it is known to be away", |status| count(status, "up") == AGENTS - 1);
        cluster.ok(&["node", "fail", &name]);
        cluster.wait("its chunks are elsewhere", |status| status["degraded_stripes"] == 0);
        for chunk in cluster.chunks(agent) {
            fs::remove_file(chunk).unwrap();
        }
        let folder = cluster.folder.path();
        cluster.agents[agent] = start_agent(folder, &cluster.address, agent, "");
        cluster.ok(&["node", "return", &name]);
        cluster.wait("it is back", |status| count(status, "up") == AGENTS);
    }
    cluster.wait_healthy();
    lose_and_rebuild(&mut cluster, AGENTS, 0);
    cluster.wait_healthy();
    stored.assert_read(&cluster);
}

#[test]
fn chunks_whose_agents_could_not_be_asked_are_no_rest_to_be_deleted() {
    let mut cluster = Cluster::of(AGENTS);
    let content = cluster.put("all there is", 100_000, &CODE);
    cluster.coordinator.stop();
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    // They list what they hold, and cannot be reached where they serve it.
    for agent in 0..AGENTS {
        cluster.agents[agent].stop();
        let (folder, key) =
            (cluster.folder.path(), format!("advertise = '127.0.0.{}:9'", agent + 1));
        cluster.agents[agent] = start_agent(folder, &cluster.address, agent, &key);
    }
    let files = |cluster: &Cluster| (0..AGENTS).map(|a| cluster.chunks(a).len()).sum::<usize>();
    let (stored, all) = (files(&cluster), AGENTS.to_string());
    let refused = rebuild(&cluster, &["--agents", &all, "--forget-rest"]);
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    for said in ["of 3 stripes no label could be read (", "at 127.0.0.", "nothing was changed"] {
        assert!(refused.stderr.contains(said), "{said} is not in {}", refused.stderr);
    }
    let found = rebuild(&cluster, &["--agents", &all]);
    assert_eq!(found.status, 3, "{}", found.stderr);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&found["unread_stripes"], &found["unlabelled_stripes"]), (&3.into(), &0.into()));
    assert_eq!(found["unasked"].as_array().unwrap().len(), AGENTS, "{found:#}");
    for agent in 0..AGENTS {
        cluster.agents[agent].stop();
        let folder = cluster.folder.path();
        cluster.agents[agent] = start_agent(folder, &cluster.address, agent, "");
    }
    assert_eq!(files(&cluster), stored);
    let found = rebuild(&cluster, &["--agents", &all, "--forget-rest"]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait_healthy();
    assert_eq!(files(&cluster), stored);
    cluster.assert_reads("all there is", &content);
}

#[test]
fn what_was_put_since_a_backup_is_found_beside_what_is_in_it() {
    let mut cluster = Cluster::of(AGENTS);
    let old = cluster.put("old", 100_000, &CODE);
    let renamed = cluster.put("twice", 20_000, &CODE);
    let backup = cluster.path("copy.db").display().to_string();
    cluster.ok(&["metadata", "backup", "-o", &backup]);
    let newer = cluster.put("newer", 300_000, &CODE);
    cluster.coordinator.stop();
    let config = cluster.path("coordinator.toml").display().to_string();
    let restore = ["metadata", "restore", &backup, "--replace", "--config", &config];
    assert_eq!(daemons::finish(suture().args(restore)).status, 0);

    let found = rebuild(&cluster, &["--agents", &AGENTS.to_string()]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&found["objects"], &found["renamed"]), (&1.into(), &Value::Array(vec![])));
    // A node that has not come may hold what no other has.
    let more = (AGENTS + 1).to_string();
    let refused = rebuild(&cluster, &["--agents", &more, "--wait", "1s", "--forget-rest"]);
    assert_ne!(refused.status, 0, "{}", refused.stdout);
    let all = format!("{AGENTS} agents of {more} have come");
    assert!(refused.stderr.contains(&all), "{}", refused.stderr);
    let refused = rebuild(&cluster, &["--forget-rest"]);
    assert!(refused.status == 2 && refused.stderr.contains("--agents"), "{}", refused.stderr);
    let again = rebuild(&cluster, &["--agents", &AGENTS.to_string(), "--forget-rest"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["objects"], 0, "{again:#}");
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    let status = cluster.wait_healthy();
    assert_eq!(status["warnings"], Value::Array(vec![]), "{status:#}");
    for (name, content) in [("old", &old), ("twice", &renamed), ("newer", &newer)] {
        cluster.assert_reads(name, content);
    }
}

#[test]
fn an_object_with_a_stripe_of_which_nothing_is_left_is_named_and_its_chunks_stay() {
    let mut cluster = Cluster::of(AGENTS);
    let whole = cluster.put("whole", 30_000, &CODE);
    cluster.put("half", 3 * 16384 * 3, &CODE);
    // Stripes are numbered in order: the second of "half" is the third.
    let third = "0000000000000002.";
    for agent in 0..AGENTS {
        let of_third = |path: &std::path::PathBuf| {
            path.file_name().unwrap().to_string_lossy().starts_with(third)
        };
        let chunks = cluster.chunks(agent);
        chunks.iter().filter(|path| of_third(path)).for_each(|path| fs::remove_file(path).unwrap());
    }
    let left: usize = (0..AGENTS).map(|agent| cluster.chunks(agent).len()).sum();
    let found = lose_and_rebuild(&mut cluster, AGENTS, 3);
    assert_eq!(found["objects"], 1, "{found:#}");
    assert_eq!(found["incomplete"][0]["object"], "half", "{found:#}");
    cluster.wait_healthy();
    cluster.assert_reads("whole", &whole);
    let now: usize = (0..AGENTS).map(|agent| cluster.chunks(agent).len()).sum();
    assert_eq!(now, left);
}

#[test]
fn without_agents_nothing_is_written() {
    let mut cluster = Cluster::of(3);
    cluster.coordinator.stop();
    while cluster.agents.pop().is_some() {}
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    let found = rebuild(&cluster, &["--wait", "1s"]);
    assert_eq!(found.status, 1, "{}", found.stderr);
    assert!(found.stderr.contains("no agent has come"), "{}", found.stderr);
    assert_eq!(fs::read_dir(cluster.path("coordinator")).unwrap().count(), 0);
}

/// Keeps `coordinator` as it is at one instant, as a snapshot of its disk does, or puts it back.
fn copy_metadata(cluster: &Cluster, from: &str, to: &str) {
    let (from, to) = (cluster.path(from), cluster.path(to));
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_name_that_was_used_again_is_that_of_the_newer_object() {
    const AGENTS: usize = 8;
    let mut cluster = Cluster::of(AGENTS);
    cluster.ok(&["repair", "pause"]);
    let old = cluster.put("a", 40_000, &CODE);
    // Its chunks on three nodes that are away stay, and are enough to read it.
    let holders: Vec<usize> = (0..AGENTS).filter(|a| !cluster.chunks(*a).is_empty()).collect();
    let away = &holders[..3];
    away.iter().for_each(|agent| cluster.agents[*agent].kill());
    cluster.wait("they are known to be away", |status| count(status, "up") == AGENTS - 3);
    cluster.ok(&["rm", "a"]);
    let others = || (0..AGENTS).filter(|a| !away.contains(a));
    cluster.wait("its other chunks are gone", |_| {
        others().all(|agent| cluster.chunks(agent).is_empty())
    });
    let new = cluster.put("a", 50_000, &CODE);
    cluster.coordinator.stop();
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    for &agent in away {
        let started = start_agent(cluster.folder.path(), &cluster.address, agent, "");
        cluster.agents[agent] = started;
    }
    let found = rebuild(&cluster, &["--agents", &AGENTS.to_string()]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait("all are there", |status| count(status, "up") == AGENTS);
    cluster.assert_reads("a", &new);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    cluster.assert_reads(found["renamed"][0]["is"].as_str().unwrap(), &old);
}

#[test]
fn an_object_that_was_being_put_in_a_snapshot_of_the_metadata_keeps_its_chunks() {
    let mut cluster = Cluster::of(AGENTS);
    cluster.put("before", 30_000, &CODE);
    let content = noise(300_000);
    let mut put = suture()
        .args(["put", "-", "--name", "b", "--coordinator", &cluster.address])
        .args(CODE)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = put.stdin.take().unwrap();
    input.write_all(&content[..200_000]).unwrap();
    let files = |cluster: &Cluster| (0..AGENTS).map(|a| cluster.chunks(a).len()).sum::<usize>();
    let before = files(&cluster);
    cluster.wait("it is under way", |_| files(&cluster) > before);
    let coordinator = Pid::from_child(&cluster.coordinator.0);
    kill_process(coordinator, Signal::STOP).unwrap();
    copy_metadata(&cluster, "coordinator", "snapshot");
    kill_process(coordinator, Signal::CONT).unwrap();
    input.write_all(&content[200_000..]).unwrap();
    drop(input);
    assert!(put.wait().unwrap().success());
    let told = |agent: usize| {
        let kept = fs::read_to_string(cluster.path(&format!("n{agent}/membership"))).unwrap();
        kept.contains("committed 2")
    };
    cluster.wait("agents know of it", |_| (0..AGENTS).all(told));
    let stored = files(&cluster);

    cluster.coordinator.stop();
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    copy_metadata(&cluster, "snapshot", "coordinator");
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    let status = cluster.wait("it is told", |status| {
        count(status, "up") == AGENTS && status["warnings"] != Value::Array(vec![])
    });
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("older than the chunks"), "{status:#}");
    // Longer than it took to delete them.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(files(&cluster), stored);
    cluster.coordinator.stop();
    let found = rebuild(&cluster, &["--agents", &AGENTS.to_string(), "--forget-rest"]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait_healthy();
    cluster.assert_reads("b", &content);
}

#[test]
fn a_bit_that_the_coordinators_disk_flipped_is_found_at_the_start_and_mended_from_labels() {
    let mut cluster = Cluster::of(AGENTS);
    let (one, two) = (cluster.put("one", 90_000, &CODE), cluster.put("two", 80_000, &CODE));
    cluster.coordinator.stop();
    let path = cluster.path("coordinator/metadata.db");
    let metadata = rusqlite::Connection::open(&path).unwrap();
    let sum = "SELECT checksum FROM object WHERE name = 'one'";
    let sum: i64 = metadata.query_row(sum, [], |row| row.get(0)).unwrap();
    drop(metadata);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|found| found == sum.to_be_bytes()).expect("it is there");
    bytes[at + 3] ^= 4;
    fs::write(&path, bytes).unwrap();

    let config = cluster.path("coordinator.toml");
    let refused = daemons::finish(suture().args(["coordinator", "--config"]).arg(&config));
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    for said in ["'one'", "suture metadata restore", "suture metadata rebuild"] {
        assert!(refused.stderr.contains(said), "{said} is not in {}", refused.stderr);
    }
    let found = rebuild(&cluster, &["--agents", &AGENTS.to_string()]);
    assert_eq!(found.status, 0, "{}{}", found.stdout, found.stderr);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&found["damaged_objects"], &found["objects"]), (&1.into(), &1.into()), "{found:#}");
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait_healthy();
    cluster.assert_reads("one", &one);
    cluster.assert_reads("two", &two);
}
