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
