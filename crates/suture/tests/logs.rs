//! What the logs of daemons and commands say, and in which form, with real processes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemons::{Cluster, Finished, Process, TIMEOUT, count, finish, noise, suture};
use serde_json::Value;

/// Waits until a log is as it should be; gives it.
fn wait_for_log(log: &Path, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        if is_so(&text) {
            return text;
        }
        assert!(since.elapsed() < TIMEOUT, "not within a minute: {what}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The configuration of another agent, like that of the first.
fn another(cluster: &Cluster, name: &str) -> PathBuf {
    let config = cluster.path(&format!("{name}.toml"));
    let text = fs::read_to_string(cluster.path("n0.toml")).unwrap();
    let text = text.replace("'n0'", &format!("'{name}'")).replace("/n0'", &format!("/{name}'"));
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn an_agent_that_reports_too_rarely_is_in_the_log_once_and_in_the_status() {
    let mut cluster = Cluster::of(1);
    let config = another(&cluster, "n1");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("heartbeat = '200ms'", "heartbeat = '600ms'")).unwrap();
    cluster.agents.push(Process::start("agent", &config).0);
    let warning = "n1 reports every 600ms, and counts as silent after 1s: set heartbeat in \
                   [timers] of the agent to at most 333ms, or suspect in [timers] of the \
                   coordinator to at least 1800ms";
    let is_named = |text: &str| text.contains(warning);
    cluster.wait("the status names it", |status| is_named(&status["warnings"].to_string()));
    let log = cluster.path("coordinator.log");
    wait_for_log(&log, "the log names it", is_named);

    // Once is enough, however often it comes.
    cluster.agents[1].stop();
    cluster.wait("it is not there", |status| !is_named(&status["warnings"].to_string()));
    cluster.agents[1] = Process::start("agent", &config).0;
    cluster.wait("it is back", |status| is_named(&status["warnings"].to_string()));
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches(warning).count(), 1, "{text}");

    cluster.agents[1].stop();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("heartbeat = '600ms'", "heartbeat = '300ms'")).unwrap();
    cluster.agents[1] = Process::start("agent", &config).0;
    cluster.wait("it reports often enough", |status| {
        count(status, "up") == 2 && status["warnings"].as_array().is_some_and(Vec::is_empty)
    });
}

/// Chunks that a coordinator's log has lines of, and those that it only counts.
fn rebuilt(log: &str) -> (Vec<&str>, u64) {
    let own = log.lines().filter(|line| line.contains(" chunk rebuilt object="));
    let counted = log.lines().filter_map(|line| {
        let (_, counted) = line.split_once(" more chunks rebuilt")?;
        let number = counted.split_once(" chunks=")?.1.split(' ').next()?;
        number.parse::<u64>().ok()
    });
    (own.collect(), counted.sum())
}

#[test]
fn every_rebuilt_chunk_has_a_line_or_is_counted_with_others() {
    let mut cluster = Cluster::of(6);
    // Forty stripes: a node has some twenty of their chunks.
    cluster.put("photos/sea", 40 * 2 * 4096, &["--code", "rs(2,1)", "--chunk-size", "4KiB"]);
    cluster.wait_healthy();
    let lost = cluster.chunks(0).len() as u64;
    assert!(lost > 0, "chunks are spread over all nodes");
    cluster.agents[0].kill();
    let status = cluster.wait("all is rebuilt", |status| {
        let is_failed = count(status, "failed") == 1 && status["state"] == "healthy";
        is_failed && status["repaired_chunks"].as_u64() >= Some(lost)
    });
    // A slow machine may have brought some before, which a put had not waited for.
    let all = status["repaired_chunks"].as_u64().unwrap();
    let is_all = |log: &str| {
        let (own, counted) = rebuilt(log);
        own.len() as u64 + counted == all
    };
    let log = wait_for_log(&cluster.path("coordinator.log"), "all are in the log", is_all);
    let (own, _) = rebuilt(&log);
    for line in &own {
        for part in [
            " INFO ",
            " object=\"photos/sea\" stripe=",
            " chunk=",
            " from=\"n",
            " to=\"n",
            " bytes=4096 ",
            " seconds=",
            " check=\"checksum\" ",
            " repair=repair ",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        let from = line.split(" from=\"").nth(1).unwrap().split('"').next().unwrap();
        let to = line.split(" to=\"").nth(1).unwrap().split('"').next().unwrap();
        let from: Vec<&str> = from.split(',').collect();
        assert!(from.len() == 2 && !from.contains(&to), "{line}");
    }
    assert!(!own.is_empty(), "the first of a second has a line");
}

/// The configuration of a coordinator that is alone.
fn lonely(folder: &Path) -> PathBuf {
    let (config, data) = (folder.join("lonely.toml"), folder.join("data"));
    let data = data.display();
    fs::write(&config, format!("listen = '127.0.0.1:0'\ndata_dir = '{data}'\n")).unwrap();
    config
}

/// What a coordinator that is alone logs with these options and variables while a client asks for
/// its status a few times.
fn log_of(options: &[&str], variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = suture();
    command.arg("coordinator").args(options).arg("--config").arg(lonely(folder.path()));
    command.envs(variables.iter().copied()).stderr(fs::File::create(&log).unwrap());
    let (mut coordinator, line) = Process::start_by(&mut command);
    let address = line.strip_prefix("listening on ").expect(&line).to_owned();
    for _ in 0..3 {
        let status = finish(suture().args(["status", "--coordinator", &address]));
        assert_eq!(status.status, 0, "{}", status.stderr);
    }
    coordinator.stop();
    fs::read_to_string(&log).unwrap()
}

/// The lines of a log, each one JSON object.
fn as_json(log: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str::<Value>(line);
    let lines = log.lines().map(|line| parse(line).unwrap_or_else(|why| panic!("{why}: {line}")));
    lines.collect()
}

#[test]
fn lines_are_json_where_that_is_asked_for_and_libraries_are_silent_unless_they_are_named() {
    let libraries = ["h2", "hyper", "tower", "tonic", "rustls"];
    let is_of_library = |line: &Value| {
        let target = line["target"].as_str().expect("it says which module logs");
        libraries.iter().any(|library| target.starts_with(library))
    };
    for (filter, has_frames) in [("debug", false), ("debug,h2=debug", true)] {
        let log = log_of(&[], &[("SUTURE_LOG", filter), ("SUTURE_LOG_FORMAT", "json")]);
        let lines = as_json(&log);
        let loaded = lines.iter().find(|line| line["message"] == "metadata loaded").expect(&log);
        assert_eq!((&loaded["level"], &loaded["fields"]["stripes"]), (&"info".into(), &0.into()));
        assert_eq!(loaded["target"], "suture::cmd::coordinator");
        assert!(loaded["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{loaded}");
        assert_eq!(lines.last().unwrap()["message"], "stopped");
        assert_eq!(lines.iter().any(is_of_library), has_frames, "{log}");
    }
}

#[test]
fn why_a_daemon_ended_is_json_too_and_a_form_that_there_is_not_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = lonely(folder.path());
    fs::write(folder.path().join("data"), "").unwrap();
    let start = |form: &str| {
        let mut command = suture();
        finish(
            command.args(["coordinator", "--config"]).arg(&config).env("SUTURE_LOG_FORMAT", form),
        )
    };
    let Finished { status, stderr, .. } = start("json");
    let last = as_json(&stderr).pop().expect("it says why");
    assert_eq!((status, &last["level"]), (1, &"error".into()));
    assert!(last["message"].as_str().unwrap().ends_with("it is not a directory"), "{last}");

    let Finished { status, stderr, .. } = start("xml");
    let flaw = "SUTURE_LOG_FORMAT counts for nothing: 'xml' is neither text nor json";
    assert!(status == 1 && stderr.contains(flaw), "{stderr}");
    assert!(stderr.lines().last().unwrap().starts_with("suture: "), "{stderr}");
}

/// What a command shows on a terminal; nothing where there is no program to make one.
fn on_terminal(cluster: &Cluster, args: &[&str]) -> Option<String> {
    let words = [&[env!("CARGO_BIN_EXE_suture")], args].concat();
    let line: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &line.join(" "), "/dev/null"]).stdin(Stdio::null());
    let Ok(output) = script.env("SUTURE_COORDINATOR", &cluster.address).output() else {
        // Past what keeps the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED: needs script (package bsdutils)");
        return None;
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {shown}");
    Some(shown)
}

#[test]
fn quiet_leaves_out_progress_and_verbose_adds_what_is_done_and_no_result_changes() {
    let cluster = Cluster::of(4);
    let (source, back) = (cluster.path("source"), cluster.path("back"));
    fs::write(&source, noise(3_000_000)).unwrap();
    let [source, back] = [&source, &back].map(|path| path.to_str().unwrap());
    let put = |name: &'static str| ["put", source, "--name", name, "--code", "rs(2,1)"];
    let get = |name: &'static str| ["get", name, "-o", back];
    for (options, name) in
        [(&["-q"][..], "quiet"), (&[], "usual"), (&["-v"], "more"), (&["-vv"], "all")]
    {
        let (put, get) = (put(name), get(name));
        for (command, result, done) in [
            (&put[..], ": 2.86 MiB as rs(2,1), ", " DEBUG stripe is durable stripe="),
            (&get, ": 2.86 MiB read and checked", " DEBUG reading object="),
            (&["repair", "start"], "healthy: every chunk", " DEBUG connected to the coordinator"),
            (&["status"], "healthy: every chunk", " DEBUG connected to the coordinator"),
        ] {
            // On a slow machine a put leaves a chunk to repair.
            cluster.wait_healthy();
            let Finished { status, stdout, stderr } = cluster.run(&[options, command].concat());
            assert_eq!(status, 0, "{options:?} {command:?}: {stderr}");
            assert!(stdout.contains(result) && !stdout.contains("DEBUG"), "{command:?}: {stdout}");
            if ["quiet", "usual"].contains(&name) {
                assert_eq!(stderr, "", "{options:?} {command:?}");
            } else {
                assert!(stderr.contains(done), "{options:?} {command:?}: {stderr}");
            }
            let has_all = command[0] == "put" || command[0] == "get";
            assert_eq!(stderr.contains(" TRACE "), has_all && name == "all", "{stderr}");
        }
        let refused = cluster.run(&[options, &["stat", "nope"]].concat());
        assert_eq!(refused.status, 2);
        assert!(refused.stderr.contains("suture: there is no object 'nope'"), "{}", refused.stderr);
    }
    // Where somebody looks on, there is progress, unless it is to be quiet.
    for (command, bar) in [(&put("bar")[..], "storing ["), (&get("bar"), "reading [")] {
        let Some(shown) = on_terminal(&cluster, command) else { break };
        assert!(shown.contains(bar), "{shown}");
    }
    for (command, bar) in [(&put("none")[..], "storing ["), (&get("none"), "reading [")] {
        let Some(shown) = on_terminal(&cluster, &[&["-q"], command].concat()) else { break };
        assert!(!shown.contains(bar) && shown.contains("none: 2.86 MiB"), "{shown}");
    }
}

#[test]
fn a_daemon_is_as_quiet_or_verbose_as_it_is_told_to_be() {
    let cluster = Cluster::of(1);
    let (config, log) = (another(&cluster, "n1"), cluster.path("n1.log"));
    for (options, has_info, has_debug) in
        [(&["-q"][..], false, false), (&[], true, false), (&["-v"], true, true)]
    {
        let mut command = suture();
        command.args(options).args(["agent", "--config"]).arg(&config);
        let (mut agent, _) = Process::start_by(command.stderr(fs::File::create(&log).unwrap()));
        cluster.wait("it is there", |status| count(status, "up") == 2);
        agent.stop();
        cluster.wait("it is gone", |status| count(status, "up") == 1);
        let text = fs::read_to_string(&log).unwrap();
        let has = [" INFO ", " DEBUG "].map(|level| text.contains(level));
        assert_eq!(has, [has_info, has_debug], "{options:?}: {text}");
    }
}
