//! `suture reproduce --on testbed` from outside: what is emulated stands beside what is simulated,
//! each point is kept as a scenario, and an interruption leaves points that are tried again.
//!
//! Network namespaces need root. Without it these tests say so loudly and do nothing. A machine
//! that is full of work may lose heartbeats of agents that live, whose repairs are then made again:
//! traffic is measured anew where there was too much of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::networks::can_make_networks;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How often traffic is measured until it is what it should be.
const ATTEMPTS: usize = 3;

/// The points that are measured with --quick.
const LABELS: [&str; 2] = ["RS, k=5", "Butterfly, k=5"];

/// What nodes may send for each simulated byte, without what they send at rest: framing and
/// acknowledgements are a tenth of it.
const SENT: std::ops::Range<f64> = 0.95..1.3;

/// What is measured is to have the machine for itself, as far as this file goes.
fn take_turns() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn suture(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.args(args).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn succeed(folder: &TempDir, args: &[&str]) -> Output {
    let output = suture(folder, args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn read(folder: &TempDir, name: &str) -> String {
    let path = folder.path().join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn json(folder: &TempDir, name: &str) -> Value {
    serde_json::from_str(&read(folder, name)).unwrap()
}

/// What is kept of the traffic of conventional repair at a point.
fn row<'a>(kept: &'a Value, label: &str) -> Result<&'a Value, String> {
    let is_it = |row: &&Value| {
        (row["label"].as_str(), row["series"].as_str(), row["what"].as_str())
            == (Some(label), Some("conventional"), Some("traffic"))
    };
    let rows = kept["emulated"]["rows"].as_array();
    rows.and_then(|rows| rows.iter().find(is_it)).ok_or_else(|| format!("no {label} in {kept}"))
}

/// The traffic of conventional repair at a point: what nodes sent for it, and what they send in the
/// simulator; why there is none, otherwise.
fn traffic(kept: &Value, label: &str) -> Result<(f64, f64), String> {
    let row = row(kept, label)?;
    let number = |key: &str| {
        let found = row["facts"][key].as_f64();
        found.ok_or_else(|| format!("no {key} of {label} in {kept}"))
    };
    Ok((number("sent_bytes")? - number("idle_sent_bytes")?, number("simulated_sent_bytes")?))
}

/// What is wrong with what nodes sent, if anything is.
fn fault(kept: &Value) -> Option<String> {
    LABELS.iter().find_map(|label| match traffic(kept, label) {
        Ok((sent, simulated)) if SENT.contains(&(sent / simulated)) => None,
        Ok((sent, simulated)) => Some(format!("{label}: {sent} for {simulated} in {kept}")),
        Err(why) => Some(why),
    })
}

#[test]
fn traffic_on_links_is_measured_beside_the_simulated_and_each_point_can_be_run_again() {
    if !can_make_networks() {
        return;
    }
    let _turn = take_turns();
    let folder = TempDir::new().unwrap();
    let args = ["reproduce", "butterfly/network", "--quick", "--on", "testbed", "-o"];
    let mut faults = Vec::new();
    let out = loop {
        assert!(faults.len() < ATTEMPTS, "{faults:#?}");
        let out = format!("out{}", faults.len());
        succeed(&folder, &[&args[..], &[out.as_str()]].concat());
        let kept = json(&folder, &format!("{out}/butterfly/network-emulated.json"));
        match fault(&kept) {
            None => break out,
            Some(fault) => faults.push(fault),
        }
    };
    let kept = json(&folder, &format!("{out}/butterfly/network-emulated.json"));
    // Two points, two policies, and both traffic and time of each.
    assert_eq!(kept["emulated"]["rows"].as_array().unwrap().len(), 8, "{kept}");
    assert!(kept["emulated"]["scale"].as_str().unwrap().contains("--quick"), "{kept}");
    // How many chunks are lost differs from run to run, so each byte of them counts.
    let per_lost = |label| row(&kept, label).unwrap()["emulated"]["value"].as_f64().unwrap();
    let [rs, butterfly] = LABELS.map(per_lost);
    assert!(butterfly < rs, "{butterfly} {rs}");
    let report = read(&folder, &format!("{out}/report.md"));
    assert!(report.contains("network traffic per lost byte"), "{report}");
    let values = read(&folder, &format!("{out}/butterfly/network-emulated.csv"));
    assert_eq!(values.lines().count(), 9, "{values}");
    // What was run can be run again, and what is finished is not.
    let scenario = format!("{out}/butterfly/network-emulated/traffic-rs-k-5.toml");
    let policy = "star/random/all";
    succeed(&folder, &["testbed", "run", scenario.as_str(), "-o", "again", "--policies", policy]);
    assert!(read(&folder, "again/report.txt").contains(policy));
    let resumed = succeed(&folder, &[&args[..], &[out.as_str(), "--resume"]].concat());
    let errors = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(errors.contains("butterfly/network: finished before"), "{errors}");
}

#[test]
fn an_interrupted_emulation_keeps_what_was_simulated_and_names_what_is_missing() {
    if !can_make_networks() {
        return;
    }
    let _turn = take_turns();
    let folder = TempDir::new().unwrap();
    let args = ["reproduce", "butterfly/network", "--quick", "--on", "testbed", "-o", "out"];
    let mut running = suture(&folder, &args).spawn().unwrap();
    let (mut run, mut repairs) = (None, 0);
    // While the data are made, before anything of the testbed waits for signals itself.
    for line in BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if let Some((_, id)) = line.split_once(": testbed ") {
            run = Some(id.to_string());
            kill_process(Pid::from_child(&running), Signal::INT).unwrap();
        }
        repairs += usize::from(line.contains(" of the bound, "));
    }
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert_eq!(repairs, 0, "repairs were made after the signal");
    let run = run.expect("the testbed is named");
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let namespaces = String::from_utf8_lossy(&namespaces.stdout).into_owned();
    assert!(!namespaces.contains(&format!("suture-{run}-")), "{namespaces}");
    assert!(json(&folder, "out/butterfly/network.json")["table"]["panels"].is_array());
    let kept = json(&folder, "out/butterfly/network-emulated.json");
    let failed = &kept["emulated"]["failed"][0];
    assert_eq!(failed["label"], LABELS[0], "{kept}");
    assert!(failed["why"].as_str().unwrap().contains("interrupted"), "{failed}");
    let report = read(&folder, "out/report.md");
    assert!(report.contains("Not measured: RS, k=5 of 'traffic': interrupted"), "{report}");
}
