//! Metadata that were restored from a backup, with real processes: nothing that was stored since
//! may be lost by that.
//!
//! Place: a coordinator's start on metadata that are older than the chunks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemons::{Cluster, count, start_coordinator};

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
    // what it takes for orphans before it reports that all is well.
    while_stopped(&mut cluster, |_| {});
    cluster.ok(&["rm", "again"]);
    cluster.wait("the chunks of what was removed are gone", |_| files(&cluster) == before);
    assert_eq!(warnings(&cluster.wait_healthy()), 1);

    while_stopped(&mut cluster, |dir| copy(&dir.join("newest"), &dir.join("coordinator")));
    cluster.wait_healthy();
    cluster.assert_reads("newer", &newer);
    cluster.assert_reads("old", &old);
}

/// What a command says to people, and its status, with the data_dir of the cluster's coordinator.
fn metadata(folder: &Path, args: &[&str]) -> (String, Option<i32>) {
    let config = folder.join("coordinator.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_suture"))
        .arg("metadata")
        .args(args)
        .args(["--config", config.to_str().unwrap()])
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8(said).unwrap(), output.status.code())
}

#[test]
fn a_backup_of_a_running_coordinator_takes_the_place_of_its_metadata_and_back() {
    let mut cluster = Cluster::of(6);
    let old = cluster.put("old", 100_000, &CODE);
    let backup = cluster.folder.path().join("copy.db").display().to_string();
    let said = cluster.ok(&["metadata", "backup", "-o", &backup, "--format", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["objects"], &said["stripes"]), (&1.into(), &3.into()), "{said:#}");
    assert_eq!(said["bytes"].as_u64().unwrap(), fs::metadata(&backup).unwrap().len());
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let newer = cluster.put("newer", 300_000, &CODE);
    let before = files(&cluster);

    let (said, status) = metadata(cluster.folder.path(), &["restore", &backup, "--replace"]);
    assert!(said.contains("in use by another coordinator") && status == Some(1), "{said}");
    while_stopped(&mut cluster, |dir| {
        let (said, status) = metadata(dir, &["restore", &backup]);
        assert!(said.contains("give --replace") && status == Some(2), "{said}");
        let (said, status) = metadata(dir, &["restore", &backup, "--replace"]);
        assert!(said.contains("1 object in 3 stripes") && status == Some(0), "{said}");
        assert!(said.contains("metadata.db.replaced-1"), "{said}");
    });
    cluster.wait("chunks of others are noticed", |status| warnings(status) == 1);
    cluster.assert_reads("old", &old);
    assert_eq!(files(&cluster), before);

    let other = Cluster::of(0);
    let foreign = other.path("foreign.db").display().to_string();
    other.ok(&["metadata", "backup", "-o", &foreign]);
    while_stopped(&mut cluster, |dir| {
        let (said, status) = metadata(dir, &["restore", &foreign, "--replace"]);
        assert!(said.contains("the metadata of another cluster") && status == Some(0), "{said}");
        let own = dir.join("coordinator/metadata.db.replaced-2").display().to_string();
        let (said, status) = metadata(dir, &["restore", &own, "--replace"]);
        assert!(said.contains("the metadata of another cluster") && status == Some(0), "{said}");
        let (said, status) = metadata(dir, &["restore", &own, "--replace"]);
        assert!(!said.contains("of another cluster") && status == Some(0), "{said}");
        let replaced = dir.join("coordinator/metadata.db.replaced-1").display().to_string();
        let (said, status) = metadata(dir, &["restore", &replaced, "--replace"]);
        assert!(status == Some(0), "{said}");
        // A log that SQLite makes as it looks would be taken for the one that belongs to a copy.
        let names = fs::read_dir(dir.join("coordinator")).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        let mut logs: Vec<String> = names.filter(|name| name.ends_with("-wal")).collect();
        logs.sort_unstable();
        // Those that a coordinator was using.
        let used = ["metadata.db.replaced-1-wal", "metadata.db.replaced-2-wal"];
        assert_eq!(logs, used);
    });
    cluster.wait_healthy();
    cluster.assert_reads("newer", &newer);
    cluster.assert_reads("old", &old);
}

#[test]
fn what_is_no_whole_backup_leaves_the_metadata_as_they_are() {
    let mut cluster = Cluster::of(5);
    let old = cluster.put("old", 100_000, &CODE);
    let folder = cluster.folder.path().to_path_buf();
    let backup = folder.join("copy.db").display().to_string();
    cluster.ok(&["metadata", "backup", "-o", &backup]);
    let live = folder.join("live.db");
    fs::copy(folder.join("coordinator/metadata.db"), &live).unwrap();
    let bytes = fs::read(&backup).unwrap();
    let mut damaged = bytes.clone();
    damaged[4096..8192].fill(0x5a);
    let cases: [(&str, &[u8], &str); 4] = [
        ("cut", &bytes[..bytes.len() / 2], ""),
        ("damaged", &damaged, ""),
        ("empty", b"", "is empty"),
        (
            "noise",
            b"this is no database at all, but long enough to be read as one",
            "is not a database: name a backup",
        ),
    ];
    while_stopped(&mut cluster, |dir| {
        let all = fs::read(dir.join("coordinator/metadata.db")).unwrap();
        for (name, content, expected) in cases {
            let path = dir.join(name);
            fs::write(&path, content).unwrap();
            let (said, status) = metadata(dir, &["restore", path.to_str().unwrap(), "--replace"]);
            assert!(said.contains(expected) && matches!(status, Some(1 | 2)), "{name}: {said}");
        }
        let (said, status) = metadata(dir, &["restore", live.to_str().unwrap(), "--replace"]);
        assert!(said.contains("while a coordinator had it open") && status == Some(2), "{said}");
        let (said, status) = metadata(dir, &["restore", "/nowhere", "--replace"]);
        assert!(said.contains("there is no '/nowhere'") && status == Some(2), "{said}");
        assert_eq!(fs::read(dir.join("coordinator/metadata.db")).unwrap(), all);
        let others = fs::read_dir(dir.join("coordinator")).unwrap();
        let others = others.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let others: Vec<String> =
            others.filter(|name| name.contains("suture") || name.contains("replaced")).collect();
        assert_eq!(others, Vec::<String>::new());
    });
    cluster.assert_reads("old", &old);
}

#[test]
fn what_an_operator_keeps_beside_the_metadata_stays_and_can_be_restored() {
    let mut cluster = Cluster::of(5);
    let object = cluster.put("object", 100_000, &CODE);
    let own = ["metadata.backup-2026-07-01.db", "metadata.part", "metadata.rebuild-notes"];
    let own = own.map(|name| cluster.path("coordinator").join(name).display().to_string());
    for copy in &own {
        cluster.ok(&["metadata", "backup", "-o", copy]);
    }
    let left = [".suture-backup-a1", ".suture-metadata-journal"];
    let left = left.map(|name| cluster.path("coordinator").join(name));
    while_stopped(&mut cluster, |_| {
        left.iter().for_each(|path| fs::write(path, "by a process that ended").unwrap());
    });
    while_stopped(&mut cluster, |dir| {
        assert!(left.iter().all(|path| !path.exists()), "what was begun is left");
        for copy in &own {
            fs::write(dir.join("coordinator/metadata.db"), "noise").unwrap();
            let (said, status) = metadata(dir, &["restore", copy, "--replace"]);
            assert!(said.contains("1 object in 3 stripes") && status == Some(0), "{copy}: {said}");
        }
        assert!(own.iter().all(|copy| Path::new(copy).is_file()));
    });
    cluster.wait_healthy();
    cluster.assert_reads("object", &object);
}

#[test]
fn no_copy_of_damaged_metadata_takes_the_place_of_a_good_one() {
    let mut cluster = Cluster::of(5);
    cluster.put("one", 100_000, &CODE);
    let two = cluster.put("two", 50_000, &CODE);
    while_stopped(&mut cluster, |dir| {
        fs::write(dir.join("more.toml"), "[backup]\nevery = '1s'\n").unwrap();
    });
    let folder = cluster.folder.path().to_path_buf();
    let kept = |agent: usize| folder.join(format!("n{agent}/metadata-backup.db"));
    let all_kept = || (0..5).map(|agent| fs::read(kept(agent)).unwrap()).collect::<Vec<_>>();
    cluster.wait("every agent has had its turn", |_| (0..5).all(|agent| kept(agent).exists()));
    let metadata_db = rusqlite::Connection::open(folder.join("coordinator/metadata.db")).unwrap();
    metadata_db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let flip = "UPDATE object SET created = created + 1 WHERE name = 'one'";
    assert_eq!(metadata_db.execute(flip, []).unwrap(), 1);
    drop(metadata_db);
    cluster.wait("it is noticed", |status| {
        status["warnings"]
            .to_string()
            .contains("the metadata are damaged: what is recorded of 'one'")
    });
    let before = all_kept();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(all_kept() == before, "a copy was replaced");
    let backup = folder.join("copy.db").display().to_string();
    let refused = cluster.run(&["metadata", "backup", "-o", &backup]);
    let is_said = refused.stderr.contains("'one' has another sum");
    assert!(is_said && refused.status == 1, "{}", refused.stderr);
    let good = kept(2).display().to_string();
    while_stopped(&mut cluster, |dir| {
        let (said, status) = metadata(dir, &["restore", &good, "--replace"]);
        assert!(said.contains("2 objects in 5 stripes") && status == Some(0), "{said}");
    });
    let status = cluster.wait_healthy();
    assert_eq!(warnings(&status), 0, "{status:#}");
    cluster.assert_reads("two", &two);
}

#[test]
fn agents_keep_copies_of_the_metadata_from_which_a_lost_coordinator_comes_back() {
    let mut cluster = Cluster::of(5);
    let object = cluster.put("object", 100_000, &CODE);
    let none = cluster.path("none").display().to_string();
    fs::write(&none, "").unwrap();
    cluster.ok(&[&["put", &none, "--name", "empty"], &CODE[..]].concat());
    while_stopped(&mut cluster, |dir| {
        fs::write(dir.join("more.toml"), "[backup]\nevery = '1s'\n").unwrap();
    });
    let kept = |agent: usize| cluster.path(&format!("n{agent}")).join("metadata-backup.db");
    cluster.wait("every agent has had its turn", |_| (0..5).all(|agent| kept(agent).exists()));
    let copy = kept(3).display().to_string();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    while_stopped(&mut cluster, |dir| {
        fs::remove_dir_all(dir.join("coordinator")).unwrap();
        let (said, status) = metadata(dir, &["restore", &copy]);
        assert!(said.contains("2 objects in 3 stripes") && status == Some(0), "{said}");
    });
    cluster.wait_healthy();
    cluster.assert_reads("object", &object);
    cluster.assert_reads("empty", b"");
}

/// What agents keep of the metadata, and of those that may be older.
const KEPT: &str = "metadata-backup.db";
const OLDER: &str = "metadata-backup-older.db";

/// Where an agent keeps that.
fn kept_at(cluster: &Cluster, agent: usize, name: &str) -> PathBuf {
    cluster.path(&format!("n{agent}")).join(name)
}

fn all_kept(cluster: &Cluster) -> Vec<Vec<u8>> {
    let agents = 0..cluster.agents.len();
    agents.map(|agent| fs::read(kept_at(cluster, agent, KEPT)).unwrap()).collect()
}

fn all_keep(cluster: &Cluster, name: &str) -> bool {
    (0..cluster.agents.len()).all(|agent| kept_at(cluster, agent, name).exists())
}

/// Waits until each agent keeps a backup of the metadata, then sets these back to `backup`, of one
/// object: agents keep backups of those beside the former ones. Gives the status then.
fn set_back(cluster: &mut Cluster, backup: &str) -> serde_json::Value {
    while_stopped(cluster, |dir| {
        fs::write(dir.join("more.toml"), "[backup]\nevery = '1s'\n").unwrap();
    });
    cluster.wait("every agent has a copy", |_| all_keep(cluster, KEPT));
    restore(cluster, backup, "1 object in");
    let before = all_kept(cluster);
    let status = cluster.wait("every agent has one of these", |_| all_keep(cluster, OLDER));
    assert!(all_kept(cluster) == before, "a copy that knows more was replaced");
    status
}

/// Puts a copy in the place of the metadata.
fn restore(cluster: &mut Cluster, copy: &str, says: &str) {
    while_stopped(cluster, |dir| {
        let (said, status) = metadata(dir, &["restore", copy, "--replace"]);
        assert!(said.contains(says) && status == Some(0), "{said}");
    });
}

#[test]
fn copies_of_metadata_that_were_set_back_leave_those_that_know_more() {
    let mut cluster = Cluster::of(5);
    cluster.put("old", 100_000, &CODE);
    let backup = cluster.path("copy.db").display().to_string();
    let said = cluster.run(&["metadata", "backup", "-o", &backup]);
    assert!(said.status == 0 && said.stderr.is_empty(), "nothing is newer: {}", said.stderr);
    let newer = cluster.put("newer", 100_000, &CODE);
    set_back(&mut cluster, &backup);
    let out = cluster.path("now.db");
    let said = cluster.run(&["metadata", "backup", "-o", out.to_str().unwrap()]);
    assert!(said.stderr.contains("keep backups from before as well"), "{}", said.stderr);
    let copy = kept_at(&cluster, 3, KEPT).display().to_string();
    restore(&mut cluster, &copy, "2 objects in");
    cluster.wait_healthy();
    cluster.assert_reads("newer", &newer);
    let are_gone = |_: &_| (0..5).all(|agent| !kept_at(&cluster, agent, OLDER).exists());
    cluster.wait("they know all again", are_gone);
}

#[test]
fn copies_that_know_of_an_object_without_bytes_stay_too() {
    let mut cluster = Cluster::of(5);
    cluster.put("old", 100_000, &CODE);
    let backup = cluster.path("copy.db").display().to_string();
    cluster.ok(&["metadata", "backup", "-o", &backup]);
    let none = cluster.path("none").display().to_string();
    fs::write(&none, "").unwrap();
    cluster.ok(&[&["put", &none, "--name", "empty"], &CODE[..]].concat());
    let warned = set_back(&mut cluster, &backup)["warnings"].to_string();
    assert!(warned.contains("what was put without bytes"), "{warned}");
    // No restart ends that.
    let before = all_kept(&cluster);
    while_stopped(&mut cluster, |dir| {
        let older = (0..5).map(|agent| dir.join(format!("n{agent}")).join(OLDER));
        older.for_each(|older| fs::remove_file(older).unwrap());
    });
    cluster.wait("every agent has one of these again", |_| all_keep(&cluster, OLDER));
    assert!(all_kept(&cluster) == before, "a copy that knows more was replaced");
    let copy = kept_at(&cluster, 2, KEPT).display().to_string();
    restore(&mut cluster, &copy, "2 objects in");
    cluster.wait_healthy();
    cluster.assert_reads("empty", b"");
}
