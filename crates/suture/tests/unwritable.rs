//! A coordinator that cannot write its metadata says so, acknowledges nothing, and goes on when it
//! can. With real processes.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::daemons::{Cluster, Process, count, finish, start_agent, start_coordinator, suture};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(2,1)", "--chunk-size", "16KiB"];

#[test]
fn metadata_that_are_taken_away_take_no_puts_and_can_be_saved() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("before", 90_000, &CODE);
    for file in ["metadata.db", "metadata.db-wal", "metadata.db-shm"] {
        let _ = fs::remove_file(cluster.path("coordinator").join(file));
    }
    let file = cluster.path("file");
    fs::write(&file, &content).unwrap();
    let put = ["put", file.to_str().unwrap(), "--name", "after", "--code", "rs(2,1)"];
    let refused = cluster.run(&put);
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("suture metadata backup"), "{}", refused.stderr);
    let said = cluster.run(&["status"]);
    assert_eq!(said.status, 3, "{}", said.stdout);
    assert!(said.stdout.starts_with("unwritable: every chunk is where"), "{}", said.stdout);
    assert!(said.stdout.contains("was removed, renamed or replaced"), "{}", said.stdout);
    cluster.assert_reads("before", &content);

    let copy = cluster.path("copy.db");
    cluster.ok(&["metadata", "backup", "-o", copy.to_str().unwrap()]);
    cluster.coordinator.kill();
    let config = cluster.path("coordinator.toml");
    let mut restore = suture();
    restore.args(["metadata", "restore"]).arg(&copy).arg("--config").arg(&config);
    let restored = finish(&mut restore);
    assert_eq!(restored.status, 0, "{}", restored.stderr);
    (cluster.coordinator, _) = start_coordinator(cluster.folder.path(), &cluster.address);
    cluster.wait("all agents are back", |status| count(status, "up") == 4);
    cluster.assert_reads("before", &content);
    cluster.ok(&put);
}

/// A coordinator with a disk of 3 MiB, which is full from when `fill` is there until `drain` is.
fn start_on_small_disk(folder: &Path) -> Option<(Process, String)> {
    let (data, config) = (folder.join("coordinator"), folder.join("coordinator.toml"));
    fs::create_dir(&data).unwrap();
    let keys = "[backup]\nevery = '1s'\n[timers]\nsuspect = '500ms'\ndead = '2s'\n";
    let data_dir = data.display();
    let text = format!("listen = '127.0.0.1:0'\ndata_dir = '{data_dir}'\n{keys}");
    fs::write(&config, text).unwrap();
    let script = r#"mount -t tmpfs -o size=3m none "$1" || exit 1
        wait_for() { until [ -e "$1" ]; do [ -d "$2" ] || exit; sleep 0.1; done; }
        (wait_for "$2/fill" "$2"; cat /dev/zero > "$1/zeros"; wait_for "$2/drain" "$2"; rm "$1/zeros") 2> /dev/null &
        exec "$3" coordinator --config "$2/coordinator.toml""#;
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(&data).arg(folder);
    command.arg(env!("CARGO_BIN_EXE_suture")).stderr(Stdio::null());
    let (process, line) = Process::start_by(&mut command);
    Some((process, line.strip_prefix("listening on ")?.to_string()))
}

#[test]
fn a_full_disk_is_said_at_once_and_ends_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some((coordinator, address)) = start_on_small_disk(folder.path()) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: needs mount namespaces (unshare -rm)");
        return;
    };
    let agents = (0..4).map(|i| start_agent(folder.path(), &address, i, "")).collect();
    let cluster = Cluster { agents, coordinator, address, folder };
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let content = cluster.put("a", 90_000, &CODE);
    let is_kept = || (0..4).any(|i| cluster.path(&format!("n{i}/metadata-backup.db")).exists());
    cluster.wait("agents keep backups", |_| is_kept());

    fs::write(cluster.path("fill"), "").unwrap();
    let status = cluster.wait("it is said", |status| status["state"] == "unwritable");
    assert!(status["fault"].as_str().unwrap().contains("is full"), "{status:#}");
    assert_eq!(cluster.run(&["status"]).status, 3);
    // Some changes still find space in the log, so it must not be said that none is made.
    let said = status["warnings"].to_string();
    assert!(said.contains("fail, or soon will") && !said.contains("nothing is stored"), "{said}");
    cluster.assert_reads("a", &content);
    let copy = cluster.path("copy.db").display().to_string();
    let refused = cluster.run(&["metadata", "backup", "-o", &copy]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("has no space for a backup"), "{}", refused.stderr);
    let is_unsaved = |status: &Value| {
        let warnings = status["warnings"].to_string();
        warnings.contains("no agent has kept a backup of the metadata")
    };
    cluster.wait("no backup can be taken either", |status| is_unsaved(status));

    fs::write(cluster.path("drain"), "").unwrap();
    let status = cluster.wait("all is well again", |status| status["state"] == "healthy");
    assert_eq!(status["fault"], Value::Null);
    cluster.wait("copies too", |status| !is_unsaved(status));
    cluster.put("b", 90_000, &CODE);
    cluster.ok(&["rm", "a"]);
}

/// Has the system refuse a process whatever would make a file longer than `bytes`.
fn limit_files(process: &Process, bytes: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args([format!("--pid={}", process.0.id()), format!("--fsize={bytes}")]);
    assert!(prlimit.status().unwrap().success(), "prlimit is of util-linux");
}

#[test]
fn a_disk_that_refuses_writes_is_said_for_as_long_as_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("coordinator.toml");
    let data_dir = folder.path().join("coordinator");
    let keys = "[timers]\nsuspect = '500ms'\ndead = '2s'\n";
    let text = format!("listen = '127.0.0.1:0'\ndata_dir = '{}'\n{keys}", data_dir.display());
    fs::write(&config, text).unwrap();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=XFSZ", env!("CARGO_BIN_EXE_suture"), "coordinator", "--config"]);
    let log = fs::File::create(config.with_extension("log")).unwrap();
    let (coordinator, line) = Process::start_by(command.arg(&config).stderr(log));
    let address = line.strip_prefix("listening on ").unwrap().to_string();
    let agents = (0..4).map(|i| start_agent(folder.path(), &address, i, "")).collect();
    let mut cluster = Cluster { agents, coordinator, address, folder };
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let content = cluster.put("a", 90_000, &CODE);

    limit_files(&cluster.coordinator, "1:unlimited");
    cluster.agents[0].kill();
    cluster.wait("a repair cannot be committed", |status| !status["fault"].is_null());
    // Longer than it takes to try whether it goes again.
    for _ in 0..8 {
        let status = cluster.json(&["status"]);
        assert!(!status["fault"].is_null(), "{status:#}");
        std::thread::sleep(Duration::from_millis(500));
    }
    let said = cluster.run(&["status"]);
    assert!(said.status != 0 && said.stdout.contains("disk I/O error"), "{}", said.stdout);
    cluster.assert_reads("a", &content);

    limit_files(&cluster.coordinator, "unlimited:unlimited");
    cluster.wait("all is well again", |status| status["state"] == "healthy");
    cluster.put("b", 90_000, &CODE);
    assert_eq!(cluster.json(&["stat", "a"])["missing_chunks"], 0);
}
