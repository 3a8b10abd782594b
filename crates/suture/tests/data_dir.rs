//! The folders of daemons, as people and systems treat them; and how daemons are ended.
//!
//! Place: the first step of every daemon's start, and the last.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemons::{
    self, Cluster, Process, count, finish, start_agent, start_coordinator, suture,
};
use rustix::process::{Pid, Signal, kill_process};
use suture_edge::checksum::crc32c;

/// Restarts an agent that lists its chunks all the time.
fn restart_listing(cluster: &mut Cluster, agent: usize) {
    cluster.agents[agent].stop();
    let config = cluster.path(&format!("n{agent}.toml"));
    // The file ends with its timers.
    let mut file = OpenOptions::new().append(true).open(&config).unwrap();
    writeln!(file, "inventory = '100ms'").unwrap();
    cluster.agents[agent] = Process::start("agent", &config).0;
}

fn log_of(cluster: &Cluster, daemon: &str) -> String {
    fs::read_to_string(cluster.path(&format!("{daemon}.log"))).unwrap()
}

#[test]
fn what_is_no_chunk_is_said_once_and_the_chunks_beside_it_count() {
    let mut cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let held = cluster.chunks(0).len();
    let chunks = cluster.path("n0/chunks");
    fs::write(chunks.join("notes.txt"), "stray").unwrap();
    fs::write(chunks.join("00/notes.txt"), "stray").unwrap();
    symlink("loop", chunks.join("loop")).unwrap();
    restart_listing(&mut cluster, 0);
    cluster.wait_healthy();
    cluster.ok(&["repair", "pause"]);
    cluster.ok(&["node", "fail", "n0"]);
    cluster.wait("the node has failed", |status| count(status, "failed") == 1);
    cluster.ok(&["node", "return", "n0"]);
    // Repairs are paused: only a list can bring the chunks back.
    cluster.wait_healthy();
    assert_eq!(cluster.chunks(0).len(), held + 3, "nothing was rebuilt or deleted");
    cluster.assert_reads("it", &content);
    let log = log_of(&cluster, "n0");
    for stray in ["chunks/notes.txt", "chunks/00/notes.txt", "chunks/loop"] {
        assert_eq!(log.matches(stray).count(), 1, "{stray}: {log}");
    }
}

fn everything_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_path_buf()];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything_in(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found
}

#[test]
fn what_daemons_keep_is_for_their_owner_alone() {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    for daemon in ["coordinator", "n0", "n1", "n2"] {
        for path in everything_in(&cluster.path(daemon)) {
            // What was in the making may have its name by now.
            let Ok(found) = fs::metadata(&path) else { continue };
            let mode = found.permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        assert!(!log_of(&cluster, daemon).contains("chmod"), "{daemon}");
    }
    let wide = fs::Permissions::from_mode(0o755);
    fs::set_permissions(cluster.path("n0"), wide.clone()).unwrap();
    fs::set_permissions(cluster.path("coordinator"), wide).unwrap();
    cluster.agents[0].stop();
    cluster.agents[0] = start_agent(cluster.folder.path(), &cluster.address, 0, "");
    cluster.restart_coordinator();
    cluster.wait_healthy();
    for daemon in ["coordinator", "n0"] {
        let log = log_of(&cluster, daemon);
        let warning = format!("(mode 755): chmod -R go-rwx '{}'", cluster.path(daemon).display());
        assert_eq!(log.matches(&warning).count(), 1, "{daemon}: {log}");
    }
}

#[test]
fn a_daemon_outlives_its_terminal_and_reads_its_configuration_anew_unless_nohup_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("coordinator.toml"), folder.path().join("log"));
    let text = format!("listen = '127.0.0.1:0'\ndata_dir = '{}/data'\n", folder.path().display());
    // These tests may run under nohup themselves, which only `env` undoes.
    let plain = "exec env --default-signal=HUP \"$@\"";
    for (start, reads_anew) in [("trap '' HUP; exec \"$@\"", false), (plain, true)] {
        fs::write(&config, &text).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", start, "sh", env!("CARGO_BIN_EXE_suture"), "coordinator", "--config"]);
        command.arg(&config).stderr(fs::File::create(&log).unwrap());
        let (mut coordinator, _) = Process::start_by(&mut command);
        let id = Pid::from_child(&coordinator.0);
        kill_process(id, Signal::HUP).unwrap();
        let since = Instant::now();
        let has_read = || fs::read_to_string(&log).unwrap().contains("was reloaded");
        // Had the first signal ended it, it would have ended well, too.
        let enough = if reads_anew { daemons::TIMEOUT } else { Duration::from_millis(300) };
        while !has_read() && since.elapsed() < enough {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(has_read(), reads_anew);
        assert!(coordinator.0.try_wait().unwrap().is_none(), "it has ended");
        coordinator.stop();
    }
}

/// Leaves nothing of the metadata but `metadata.db`, as a copy of that file has it.
fn keep_only_the_database(cluster: &Cluster) {
    let folder = cluster.path("coordinator");
    let database = fs::read(folder.join("metadata.db")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("metadata.db"), database).unwrap();
}

#[test]
fn metadata_db_is_whole_after_a_stop_and_never_served_as_less_than_it_was() {
    let mut cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    cluster.coordinator.stop();
    keep_only_the_database(&cluster);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    cluster.coordinator = start_coordinator(&folder, &address).0;
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);

    cluster.put("late", 1000, &["--code", "rs(2,1)"]);
    cluster.coordinator.kill();
    keep_only_the_database(&cluster);
    let config = cluster.path("coordinator.toml");
    let start = |option: &[&str]| {
        finish(suture().args(["coordinator", "--config"]).arg(&config).args(option))
    };
    let refused = start(&[]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("metadata.db-wal"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--accept-copy"), "{}", refused.stderr);

    let database = cluster.path("coordinator/metadata.db");
    let copy = fs::read(&database).unwrap();
    fs::write(&database, []).unwrap();
    let refused = start(&[]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("is empty"), "{}", refused.stderr);

    // An operator who knows what is missing may go on with it.
    fs::write(&database, copy).unwrap();
    let mut command = suture();
    command.args(["coordinator", "--accept-copy", "--config"]).arg(&config).stderr(Stdio::null());
    cluster.coordinator = Process::start_by(&mut command).0;
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);
}

/// Starts an agent that is to refuse its work; gives what it says.
fn refused_agent(cluster: &Cluster, agent: usize) -> String {
    refused_agent_with(cluster, agent, &[])
}

fn refused_agent_with(cluster: &Cluster, agent: usize, options: &[&str]) -> String {
    let config = cluster.path(&format!("n{agent}.toml"));
    let ended = finish(suture().args(["agent", "--config"]).arg(config).args(options));
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    ended.stderr
}

#[test]
fn an_agent_whose_data_dir_is_of_no_use_is_not_registered() {
    let cluster = Cluster::of(1);
    let config = cluster.path("n9.toml");
    for data_dir in ["/proc/nowhere", "/dev/null"] {
        let text = format!(
            "name = 'n9'\ncoordinator = '{}'\nlisten = '127.0.0.1:0'\ndata_dir = '{data_dir}'\n",
            cluster.address
        );
        fs::write(&config, text).unwrap();
        let ended = finish(suture().args(["agent", "--config"]).arg(&config));
        assert_eq!(ended.status, 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(data_dir), "{}", ended.stderr);
    }
    let nodes = cluster.json(&["node", "list"]);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1, "{nodes}");
}

#[test]
fn chunks_that_are_nobodys_are_kept_and_can_be_claimed() {
    let mut cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    cluster.agents[0].stop();
    let held = cluster.chunks(0);
    let identity = fs::read(cluster.path("n0/identity")).unwrap();
    fs::remove_file(cluster.path("n0/identity")).unwrap();
    let said = refused_agent(&cluster, 0);
    assert!(said.contains("'identity' is missing"), "{said}");
    assert_eq!(cluster.chunks(0), held);

    // What it says to type is right, but for the two words in it.
    let (_, command) = said.split_once("printf").unwrap();
    let (command, _) = command.split_once(';').unwrap();
    let status = cluster.json(&["status"]);
    let command = command.replace("CLUSTER", status["cluster"].as_str().unwrap());
    let command = format!("printf{}", command.replace("NAME", "n0"));
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    assert_eq!(fs::read(cluster.path("n0/identity")).unwrap(), identity);
    cluster.agents[0] = start_agent(cluster.folder.path(), &cluster.address, 0, "");
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);
    assert_eq!(cluster.chunks(0), held);
}

#[test]
fn an_empty_directory_does_not_pass_for_one_that_is_not_mounted() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let holder = (0..4).find(|agent| !cluster.chunks(*agent).is_empty()).unwrap();
    let (data_dir, elsewhere) = (cluster.path(&format!("n{holder}")), cluster.path("unmounted"));
    cluster.ok(&["repair", "pause"]);
    cluster.agents[holder].stop();
    fs::rename(&data_dir, &elsewhere).unwrap();
    let name = format!("n{holder}");
    let said = refused_agent(&cluster, holder);
    let command = format!("suture node replace {name}");
    assert!(said.contains(&command) && said.contains("mount its disk"), "{said}");

    fs::remove_dir_all(&data_dir).unwrap();
    fs::rename(&elsewhere, &data_dir).unwrap();
    let start =
        |cluster: &Cluster| start_agent(cluster.folder.path(), &cluster.address, holder, "");
    cluster.agents[holder] = start(&cluster);
    cluster.wait_healthy();
    let running = cluster.run(&["node", "replace", &name]);
    assert_eq!(running.status, 1, "{}", running.stderr);
    assert!(running.stderr.contains("is running: stop it first"), "{}", running.stderr);

    cluster.agents[holder].stop();
    cluster.wait("it is gone", |status| count(status, "up") == 3);
    fs::remove_dir_all(&data_dir).unwrap();
    cluster.ok(&["node", "replace", &name]);
    let warnings = cluster.json(&["status"])["warnings"].to_string();
    assert!(warnings.contains(&format!("'{name}' is to be replaced")), "{warnings}");
    cluster.agents[holder] = start(&cluster);
    cluster.wait("its chunks are missed", |status| status["lost_chunks"].as_u64() > Some(0));
    assert_eq!(cluster.json(&["status"])["warnings"].as_array().unwrap().len(), 0);
    cluster.ok(&["repair", "resume"]);
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);
    cluster.agents[holder].stop();
    cluster.agents[holder] = start(&cluster);
    cluster.wait_healthy();
}

#[test]
fn a_new_directory_takes_a_name_when_it_is_said_to_be_new() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let holder = (0..4).find(|agent| !cluster.chunks(*agent).is_empty()).unwrap();
    let data_dir = cluster.path(&format!("n{holder}"));
    let held = cluster.chunks(holder);
    cluster.agents[holder].stop();
    cluster.wait("it is gone", |status| count(status, "up") == 3);
    let said = refused_agent_with(&cluster, holder, &["--new"]);
    assert!(said.contains("start without --new"), "{said}");
    assert_eq!(cluster.chunks(holder), held, "nothing is deleted");

    fs::remove_dir_all(&data_dir).unwrap();
    let said = refused_agent(&cluster, holder);
    assert!(said.contains("--new") && said.contains("suture node replace"), "{said}");
    let config = cluster.path(&format!("n{holder}.toml"));
    let mut command = suture();
    command.args(["agent", "--new", "--config"]).arg(&config).stderr(Stdio::null());
    cluster.agents[holder] = Process::start_by(&mut command).0;
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);
    cluster.agents[holder].stop();
    cluster.agents[holder] = start_agent(cluster.folder.path(), &cluster.address, holder, "");
    cluster.wait_healthy();
}

/// Two agents are stopped of three that hold an object, of which each two are needed.
fn without_two_of_three() -> Cluster {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    cluster.ok(&["repair", "pause"]);
    for agent in [0, 1] {
        cluster.agents[agent].stop();
    }
    cluster.wait("two are gone", |status| count(status, "up") == 1);
    cluster
}

#[test]
fn names_of_stores_that_are_needed_are_not_given_away_one_by_one() {
    let cluster = without_two_of_three();
    cluster.ok(&["node", "replace", "n0"]);
    let refused = cluster.run(&["node", "replace", "n1"]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("(it) could not be read"), "{}", refused.stderr);
    fs::remove_dir_all(cluster.path("n1")).unwrap();
    let said = refused_agent_with(&cluster, 1, &["--new"]);
    assert!(said.contains("suture node replace n1 --force"), "{said}");
    cluster.ok(&["node", "replace", "n1", "--force"]);
}

#[test]
fn what_a_name_had_before_it_was_given_away_is_not_counted_on_after_a_restart_either() {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    cluster.ok(&["repair", "pause"]);
    cluster.agents[0].stop();
    cluster.wait("it is gone", |status| count(status, "up") == 2);
    fs::remove_dir_all(cluster.path("n0")).unwrap();
    cluster.ok(&["node", "replace", "n0"]);
    cluster.agents[0] = start_agent(cluster.folder.path(), &cluster.address, 0, "");
    cluster.wait("its chunks are missed", |status| status["lost_chunks"].as_u64() > Some(0));
    // The new store is away, and no coordinator has received what it holds.
    cluster.agents.iter_mut().for_each(|agent| agent.stop());
    cluster.restart_coordinator();
    let refused = cluster.run(&["node", "replace", "n1"]);
    assert_eq!(refused.status, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("(it) could not be read"), "{}", refused.stderr);
    cluster.ok(&["node", "replace", "n0"]);
}

#[test]
fn names_of_stores_that_are_needed_are_not_taken_at_once_by_several_new_ones() {
    let cluster = without_two_of_three();
    let begun = [0, 1].map(|agent| {
        fs::remove_dir_all(cluster.path(&format!("n{agent}"))).unwrap();
        let config = cluster.path(&format!("n{agent}.toml"));
        let mut command = suture();
        command.args(["agent", "--new", "--config"]).arg(config);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    cluster.wait("one of them is there", |status| count(status, "up") == 2);
    let mut ended = begun.map(|mut agent| {
        // The other one has been refused by now, or is about to be.
        for _ in 0..50 {
            if agent.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_refused = agent.try_wait().unwrap().is_some();
        agent.kill().unwrap();
        let said = agent.wait_with_output().unwrap().stderr;
        (is_refused, String::from_utf8(said).unwrap())
    });
    ended.sort();
    assert!(!ended[0].0 && ended[1].0, "{ended:?}");
    assert!(ended[1].1.contains("--force gives the name away anyway"), "{ended:?}");
}

#[test]
fn a_copied_name_does_not_take_the_place_of_a_store_that_is_away() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let holder = (0..4).find(|agent| !cluster.chunks(*agent).is_empty()).unwrap();
    let name = format!("n{holder}");
    let held = cluster.chunks(holder);
    cluster.ok(&["repair", "pause"]);
    cluster.agents[holder].stop();
    cluster.wait("the owner is away", |status| count(status, "up") == 3);

    // A host that got a copy of the owner's configuration, and has a directory of its own.
    let (config, data_dir) = (cluster.path("copied.toml"), cluster.path("copied"));
    let text = fs::read_to_string(cluster.path(&format!("{name}.toml"))).unwrap();
    let own = cluster.path(&name).display().to_string();
    fs::write(&config, text.replace(&own, &data_dir.display().to_string())).unwrap();
    let refused = finish(suture().args(["agent", "--config"]).arg(&config));
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    let command = format!("suture node replace {name}");
    assert!(refused.stderr.contains(&command), "{}", refused.stderr);
    assert_eq!(cluster.json(&["status"])["lost_chunks"], 0);

    // The name goes with the store even where nothing is stored on it.
    cluster.ok(&["node", "replace", &name]);
    let (mut copied, _) = Process::start("agent", &config);
    cluster.wait("the new store is missing what the old one has", |status| {
        count(status, "up") == 4 && status["lost_chunks"].as_u64() > Some(0)
    });
    let owner = refused_agent(&cluster, holder);
    assert!(owner.contains("is the name of another store"), "{owner}");
    assert!(owner.contains(&command), "{owner}");
    assert_eq!(cluster.chunks(holder), held, "nothing is deleted");
    cluster.restart_coordinator();
    cluster.wait("the new store is back", |status| count(status, "up") == 4);
    refused_agent(&cluster, holder);

    // And back again: what it still has counts at once.
    copied.stop();
    cluster.wait("the new store is away", |status| count(status, "up") == 3);
    cluster.ok(&["node", "replace", &name]);
    cluster.agents[holder] = start_agent(cluster.folder.path(), &cluster.address, holder, "");
    cluster.wait_healthy();
    assert_eq!(cluster.chunks(holder), held);
    cluster.assert_reads("it", &content);
}

#[test]
fn what_is_free_on_a_file_system_counts_once_for_all_agents_on_it() {
    let mut cluster = Cluster::of(0);
    let (folder, address) = (cluster.folder.path().to_path_buf(), cluster.address.clone());
    let start = |index: usize| {
        let rack = format!("rack = '{}'", ["left", "right"][index / 2]);
        start_agent(&folder, &address, index, &rack)
    };
    cluster.agents = (0..3).map(start).collect();
    let check = |cluster: &Cluster| {
        cluster.wait("all are up", |status| count(status, "up") == 3);
        let df = cluster.json(&["df"]);
        let free = |of: &serde_json::Value| of["free_bytes"].as_u64().unwrap();
        let most_of = |nodes: std::ops::Range<usize>| {
            nodes.map(|node| free(&df["nodes"][node])).max().unwrap()
        };
        assert_eq!(free(&df["total"]), most_of(0..3), "{df:#}");
        let racks = [("left", most_of(0..2)), ("right", most_of(2..3))];
        for ((name, expected), rack) in racks.iter().zip(df["racks"].as_array().unwrap()) {
            assert_eq!((rack["name"].as_str().unwrap(), free(rack)), (*name, *expected));
        }
        assert!(df["nodes"][0]["file_system"].is_string(), "{df:#}");
        let table = cluster.ok(&["df"]);
        let said = "n0, n1, n2 share a file system: what is free there counts once";
        assert_eq!(table.lines().last().unwrap(), said);
    };
    check(&cluster);
    // Agents announce it to every coordinator.
    cluster.restart_coordinator();
    check(&cluster);
}

#[test]
fn a_node_that_holds_nothing_can_be_removed_and_is_one_again_when_it_joins() {
    let mut cluster = Cluster::of(4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let names = |cluster: &Cluster| {
        let list = cluster.json(&["node", "list"]);
        let nodes = list["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let refused = |cluster: &Cluster, why: &str| {
        let removed = cluster.run(&["node", "remove", "n1"]);
        assert_eq!(removed.status, 1, "{}", removed.stderr);
        assert!(removed.stderr.contains(why), "{}", removed.stderr);
    };
    refused(&cluster, "is running");
    cluster.agents[1].stop();
    // Its session may end a moment after it.
    cluster.wait("it is gone", |status| count(status, "up") == 3);
    refused(&cluster, "suture node fail");
    cluster.ok(&["node", "fail", "n1"]);
    cluster.wait_healthy();
    // All that are named, or none.
    for (other, status) in [("n2", 1), ("n9", 2)] {
        let several = cluster.run(&["node", "remove", "n1", other]);
        assert_eq!(several.status, status, "{}", several.stderr);
        let is_said = several.stderr.contains("nothing was changed of the others");
        assert!(is_said && several.stderr.contains(other), "{}", several.stderr);
        assert_eq!(names(&cluster).len(), 4);
    }
    cluster.ok(&["node", "remove", "n1"]);
    assert_eq!(names(&cluster), ["n0", "n2", "n3"]);
    cluster.restart_coordinator();
    let status = cluster.wait_healthy();
    let preview = cluster.json(&["repair", "start", "--dry-run"]);
    assert!(!preview.to_string().contains("n1"), "{preview}");
    assert_eq!(names(&cluster), ["n0", "n2", "n3"]);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    cluster.assert_reads("it", &content);

    cluster.agents[1] = start_agent(cluster.folder.path(), &cluster.address, 1, "");
    cluster.wait("it is up again", |status| count(status, "up") == 4);
    assert_eq!(names(&cluster), ["n0", "n1", "n2", "n3"]);
    cluster.wait_healthy();
}

/// Whether a test can mount what only its own processes see; says so where it cannot.
fn can_mount() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["-rm", "true"]);
    let can = probe.status().is_ok_and(|status| status.success());
    if !can {
        let _ = writeln!(std::io::stderr(), "SKIPPED: needs mount namespaces (unshare -rm)");
    }
    can
}

#[test]
fn a_disk_that_became_read_only_is_read_and_given_nothing() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::of(4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    cluster.agents[0].stop();
    let held = cluster.chunks(0);
    let mut command = Command::new("unshare");
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(cluster.path("n0"));
    command.args([env!("CARGO_BIN_EXE_suture"), "agent", "--config"]).arg(cluster.path("n0.toml"));
    let log = fs::File::create(cluster.path("n0.log")).unwrap();
    cluster.agents[0] = Process::start_by(command.stderr(log)).0;
    let status = cluster.wait_healthy();
    assert_eq!(count(&status, "up"), 4);
    let nodes = status["nodes"].as_array().unwrap();
    let read_only = nodes.iter().find(|node| node["name"] == "n0").unwrap();
    assert_eq!(read_only["free_bytes"], 0);
    assert!(log_of(&cluster, "n0").contains("is read-only"));
    let put = cluster.put("more", 50_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    assert_eq!(cluster.chunks(0), held);
    // Its chunks are needed now.
    cluster.ok(&["repair", "pause"]);
    cluster.agents[1].kill();
    cluster.assert_reads("it", &content);
    cluster.assert_reads("more", &put);
}

/// An agent `n3` whose `data_dir` is a file system of its own, which only it sees.
fn start_on_tmpfs(cluster: &Cluster) -> Process {
    let (config, data_dir) = (cluster.path("n3.toml"), cluster.path("n3"));
    fs::create_dir(&data_dir).unwrap();
    let text = format!(
        "name = 'n3'\ncoordinator = '{}'\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\n[timers]\nheartbeat = '200ms'\n",
        cluster.address,
        data_dir.display()
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=64m tmpfs \"$1\" && shift && exec \"$@\"";
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(data_dir);
    command.args([env!("CARGO_BIN_EXE_suture"), "agent", "--config"]).arg(config);
    let log = fs::File::create(cluster.path("n3.log")).unwrap();
    Process::start_by(command.stderr(log)).0
}

/// Mounts its `data_dir` anew, while it runs there: `how` is `ro` or `rw`.
fn remount(cluster: &Cluster, agent: &Process, how: &str) {
    let (since, id, options) =
        (Instant::now(), agent.0.id().to_string(), format!("remount,bind,{how}"));
    loop {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--mount", "--preserve-credentials", "--target"]);
        command.args([&*id, "mount", "-o", &*options]);
        let done = finish(command.arg(cluster.path("n3")));
        if done.status == 0 {
            return;
        }
        // It is busy as long as a file is being written.
        assert!(since.elapsed() < daemons::TIMEOUT, "{}", done.stderr);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `node list` has that word for the disk of `n3`; gives what else it says of it.
fn wait_for_disk(cluster: &Cluster, word: &str) -> serde_json::Value {
    let since = Instant::now();
    loop {
        let list = cluster.json(&["node", "list"]);
        let nodes = list["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == "n3").expect("it has joined");
        if node["disk"] == word {
            return node.clone();
        }
        assert!(since.elapsed() < Duration::from_secs(20), "not '{word}': {node}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_disk_that_becomes_read_only_under_its_agent_is_called_so_until_it_is_not() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::of(3);
    let agent = start_on_tmpfs(&cluster);
    cluster.agents.push(agent);
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,2)", "--chunk-size", "4KiB"]);
    assert_ne!(wait_for_disk(&cluster, "good")["free_bytes"], 0);
    assert_eq!(cluster.chunks(3), Vec::<PathBuf>::new(), "it has a file system of its own");

    remount(&cluster, &cluster.agents[3], "ro");
    let node = wait_for_disk(&cluster, "read-only");
    assert_eq!((&node["health"], &node["free_bytes"]), (&"up".into(), &0.into()), "{node}");
    let told = cluster.ok(&["node", "list"]);
    assert!(told.contains("disk read-only"), "{told}");
    assert!(log_of(&cluster, "n3").contains("the disk is read-only"));
    // It is read from, and given nothing.
    cluster.assert_reads("it", &content);
    let refused = cluster.path("source").display().to_string();
    let how = ["--name", "more", "--code", "rs(2,2)", "--chunk-size", "4KiB"];
    cluster.ok(&[&["put", &*refused], &how[..]].concat());
    let stat = cluster.json(&["stat", "more"]);
    assert_eq!(stat["missing_chunks"], stat["stripes"], "one of each stripe has no place");

    remount(&cluster, &cluster.agents[3], "rw");
    assert_ne!(wait_for_disk(&cluster, "good")["free_bytes"], 0);
    cluster.wait_healthy();
    assert_eq!(cluster.json(&["stat", "more"])["missing_chunks"], 0);
}

/// Writes another version into the footer of a chunk file, as the build of that version would.
fn set_version(path: &Path, version: u32) {
    let mut bytes = fs::read(path).unwrap();
    let footer = bytes.len() - 64;
    bytes[footer + 8..footer + 12].copy_from_slice(&version.to_le_bytes());
    let check = crc32c(&bytes[footer..footer + 60]).to_le_bytes();
    bytes[footer + 60..].copy_from_slice(&check);
    fs::write(path, bytes).unwrap();
}

#[test]
fn chunks_of_a_newer_build_are_not_condemned_by_an_older_one() {
    let cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    let held = cluster.chunks(0);
    let before: Vec<_> = held.iter().map(|path| fs::read(path).unwrap()).collect();
    held.iter().for_each(|path| set_version(path, 3));
    cluster.assert_reads("it", &content);
    let told = "chunk file version 3, this build reads up to 2: run the suture that wrote it";
    assert!(log_of(&cluster, "n0").contains(told), "{}", log_of(&cluster, "n0"));
    // There is no fourth node to rebuild them on, so nothing but these files can help.
    held.iter().for_each(|path| set_version(path, 2));
    cluster.wait_healthy();
    cluster.assert_reads("it", &content);
    assert_eq!(cluster.chunks(0), held);
    assert!(held.iter().zip(&before).all(|(path, bytes)| fs::read(path).unwrap() == *bytes));
}
