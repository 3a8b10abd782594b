//! Configurations that are read anew while daemons run.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::daemons::{self, Cluster, Process, TIMEOUT};

/// Puts lines in place of a line of a configuration.
fn edit(config: &Path, line: &str, lines: &str) {
    let text = fs::read_to_string(config).unwrap();
    assert!(text.contains(line), "{line} is not in\n{text}");
    fs::write(config, text.replacen(line, lines, 1)).unwrap();
}

/// Has a daemon read its configuration anew, and waits until its log says this.
fn reload(process: &Process, log: &Path, said: &str) {
    let before = fs::read_to_string(log).unwrap().len();
    kill_process(Pid::from_child(&process.0), Signal::HUP).unwrap();
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text[before..].contains(said) {
            return;
        }
        assert!(since.elapsed() < TIMEOUT, "not within a minute: {said}: {}", &text[before..]);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_can_change_holds_at_once_and_the_rest_is_said_to_take_a_restart() {
    let cluster = Cluster::of(3);
    let (config, log) = (cluster.path("coordinator.toml"), cluster.path("coordinator.log"));
    let read = |said: &str| reload(&cluster.coordinator, &log, said);
    let cap = || cluster.json(&["repair", "throttle"])["cap"].clone();
    read("the configuration was reloaded");
    let throttle = |cap: &str| format!("[throttle]\ncap = '{cap}'\n[timers]\n");
    edit(&config, "[timers]\n", &throttle("20Mbit"));
    read("the configuration was reloaded: throttle.cap changed");
    assert_eq!(cap(), json!(2_500_000));

    // What cannot be used changes nothing, and the daemon goes on.
    edit(&config, "20Mbit", "20 horses");
    read("the configuration stays as it was");
    edit(&config, "20 horses", "30Mbit");
    edit(&config, "dead = '", "dead = '1");
    read("changes of timers.dead take effect after a restart");
    assert_eq!(cap(), json!(3_750_000));

    // An operator's word holds until it is taken back.
    cluster.ok(&["repair", "throttle", "--cap", "5Mbit"]);
    edit(&config, "30Mbit", "40Mbit");
    read("throttle.cap changed");
    assert_eq!(cap(), json!(625_000));
    cluster.ok(&["repair", "throttle", "--reset"]);
    assert_eq!(cap(), json!(5_000_000));

    let (config, log) = (cluster.path("n1.toml"), cluster.path("n1.log"));
    edit(&config, "memory = '32MiB'", "memory = '64MiB'\nrepair_cap = '8Mbit'");
    reload(&cluster.agents[1], &log, "the configuration was reloaded: repair_cap changed");
    reload(&cluster.agents[1], &log, "changes of memory take effect after a restart");
    cluster.wait("the coordinator counts with it", |status| {
        let n1 = status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "n1");
        let uplink = &n1.unwrap()["uplink"];
        uplink["limit"] == 1_000_000 && uplink["why"] == "its agent's repair_cap"
    });
    fs::remove_file(&config).unwrap();
    reload(&cluster.agents[1], &log, "the configuration stays as it was");
    cluster.wait("all are up still", |status| daemons::count(status, "up") == 3);
    let content = cluster.put("x", 400_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    cluster.assert_reads("x", &content);
}
