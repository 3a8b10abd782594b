//! `suture load` against a cluster of real processes.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::daemons::{Cluster, suture};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(2,1)", "--objects", "20"];

fn load(cluster: &Cluster, args: &[&str]) -> Value {
    cluster.json(&[&["load"], &CODE[..], args].concat())
}

fn objects(cluster: &Cluster) -> usize {
    cluster.json(&["ls"])["objects"].as_array().unwrap().len()
}

#[test]
fn every_workload_is_served_and_leaves_nothing() {
    let cluster = Cluster::of(4);
    for workload in ["ycsb-a", "ycsb-b", "ycsb-c", "etc", "twitter", "ibm"] {
        let args = ["--workload", workload, "--rate", "20", "--duration", "2s"];
        let more = ["--warm-up", "200ms", "--clients", "8", "--value-max", "1MiB"];
        let found = load(&cluster, &[args, more].concat());
        assert_eq!(
            (&found["format"], &found["errors"]),
            (&"suture-load-1".into(), &Value::Array(vec![]))
        );
        let operations = found["operations"].as_array().unwrap();
        let counts = operations.iter().map(|operation| operation["count"].as_u64().unwrap());
        assert_eq!(Some(counts.sum()), found["offered"].as_u64(), "{workload}: {found}");
        for operation in operations {
            let ms = |key: &str| operation[key].as_f64().unwrap();
            assert!(ms("p50_ms") <= ms("p99_ms") && ms("p99_ms") <= ms("max_ms"), "{operation}");
        }
        assert_eq!(objects(&cluster), 0, "{workload}");
    }
}

#[test]
fn what_a_store_cannot_do_shows_in_latencies_and_errors() {
    let mut cluster = Cluster::of(4);
    // One client at a time: what is due meanwhile waits, and that wait counts.
    let args = ["--rate", "400", "--duration", "2s", "--warm-up", "100ms", "--clients", "1"];
    let found = load(&cluster, &args);
    assert_eq!(found["keeps_up"], false, "{found}");
    // Those that are answered while nothing comes any more are not its rate.
    let figures =
        ["answered_per_second", "offered", "seconds"].map(|of| found[of].as_f64().unwrap());
    let [rate, offered, seconds] = figures;
    assert!(rate > 0.0 && rate < 0.9 * offered / seconds, "{found}");
    let read = &found["operations"][0];
    assert!(read["p99_ms"].as_f64().unwrap() > 500.0, "{read}");
    cluster.agents.iter_mut().take(3).for_each(|agent| agent.kill());
    let failed = cluster.run(&[&["load", "--format", "json"], &CODE[..]].concat());
    assert_eq!(failed.status, 1, "{}{}", failed.stdout, failed.stderr);
}

#[test]
fn an_interrupted_load_prints_what_there_is() {
    let cluster = Cluster::of(4);
    let mut child = suture()
        .arg("load")
        .args(CODE)
        .args(["--rate", "300", "--duration", "60s", "--warm-up", "100ms", "--format", "json"])
        .env("SUTURE_COORDINATOR", &cluster.address)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while objects(&cluster) < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
        sleep(Duration::from_millis(100));
    }
    sleep(Duration::from_secs(2));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["interrupted"], true, "{found}");
    assert!(found["offered"].as_u64().unwrap() > 5 && found["seconds"].as_f64().unwrap() < 30.0);
    assert_eq!(objects(&cluster), 0);
}

#[test]
fn what_was_there_before_is_left_whatever_it_is_called() {
    let cluster = Cluster::of(4);
    let mine: Vec<(String, Vec<u8>)> = (0..4)
        .map(|key| {
            let name = format!("load/{key}.{key}");
            let content = cluster.put(&name, 3_000, &CODE[..2]);
            (name, content)
        })
        .collect();
    let requests = ["--rate", "20", "--duration", "1s", "--warm-up", "100ms"];
    let found = load(&cluster, &requests);
    assert_eq!(found["errors"], Value::Array(vec![]), "{found}");
    assert_eq!(objects(&cluster), mine.len());
    mine.iter().for_each(|(name, content)| cluster.assert_reads(name, content));
    // What is kept is in a folder of that run.
    let kept = load(&cluster, &[&requests[..], &["--keep"]].concat());
    let folder = kept["prefix"].as_str().unwrap();
    assert!(folder.starts_with("load/") && folder.ends_with('/'), "{kept}");
    assert_eq!(objects(&cluster), mine.len() + 20);
    cluster.ok(&["rm", "-r", folder.trim_end_matches('/'), "--yes"]);
    assert_eq!(objects(&cluster), mine.len());
}
