//! What the logs of daemons and commands say, and in which form, with real processes.

mod daemons;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use daemons::{Cluster, Process, TIMEOUT, count};

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

#[test]
fn an_agent_that_reports_too_rarely_is_in_the_log_once_and_in_the_status() {
    let mut cluster = Cluster::of(1);
    let config = cluster.path("n1.toml");
    let text = fs::read_to_string(cluster.path("n0.toml")).unwrap();
    let text = text.replace("'n0'", "'n1'").replace("/n0'", "/n1'");
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
