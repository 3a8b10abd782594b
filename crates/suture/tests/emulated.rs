//! `suture reproduce --on testbed` from outside: what is emulated stands beside what is simulated,
//! each point is kept as a scenario, and an interruption leaves points that are tried again.
//!
//! Network namespaces need root. Without it these tests say so loudly and do nothing.

mod networks;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use networks::can_make_networks;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

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

#[test]
fn traffic_on_links_is_measured_beside_the_simulated_and_each_point_can_be_run_again() {
    if !can_make_networks() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let args = ["reproduce", "butterfly/network", "--quick", "--on", "testbed", "-o", "out"];
    succeed(&folder, &args);
    let kept = json(&folder, "out/butterfly/network-emulated.json");
    let rows = kept["emulated"]["rows"].as_array().unwrap();
    // Four points, two policies, and both traffic and time of each.
    assert_eq!(rows.len(), 16, "{kept}");
    let traffic = |label: &str, key: &str| {
        let is_it = |row: &&Value| {
            (row["label"].as_str(), row["series"].as_str(), row["what"].as_str())
                == (Some(label), Some("conventional"), Some("traffic"))
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {label} in {kept}"));
        row[key]["value"].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
    };
    for label in ["RS, k=5", "Butterfly, k=5", "RS, k=7", "Butterfly, k=7"] {
        let (simulated, emulated) = (traffic(label, "simulated"), traffic(label, "emulated"));
        let apart = emulated / simulated;
        assert!((0.95..1.3).contains(&apart), "{label}: {emulated} for {simulated}");
    }
    assert!(traffic("Butterfly, k=7", "emulated") < traffic("RS, k=7", "emulated"));
    let report = read(&folder, "out/report.md");
    assert!(report.contains("network traffic per lost byte"), "{report}");
    assert_eq!(read(&folder, "out/butterfly/network-emulated.csv").lines().count(), 17);
    // What was run can be run again, and what is finished is not.
    let scenario = "out/butterfly/network-emulated/traffic-rs-k-5.toml";
    let policy = "star/random/all";
    succeed(&folder, &["testbed", "run", scenario, "-o", "again", "--policies", policy]);
    assert!(read(&folder, "again/report.txt").contains(policy));
    let resumed = succeed(&folder, &[&args[..], &["--resume"]].concat());
    let errors = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(errors.contains("butterfly/network: finished before"), "{errors}");
}

#[test]
fn an_interrupted_emulation_keeps_what_was_simulated_and_names_what_is_missing() {
    if !can_make_networks() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let args = ["reproduce", "chameleonec/fig18", "--quick", "--on", "testbed", "-o", "out"];
    let mut running = suture(&folder, &args).spawn().unwrap();
    let mut run = None;
    for line in BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if let Some((_, id)) = line.split_once(": testbed ") {
            run = Some(id.to_string());
            kill_process(Pid::from_child(&running), Signal::INT).unwrap();
        }
    }
    assert_eq!(running.wait().unwrap().code(), Some(1));
    let run = run.expect("the testbed is named");
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let namespaces = String::from_utf8_lossy(&namespaces.stdout).into_owned();
    assert!(!namespaces.contains(&format!("suture-{run}-")), "{namespaces}");
    assert!(json(&folder, "out/chameleonec/fig18.json")["table"]["panels"].is_array());
    let kept = json(&folder, "out/chameleonec/fig18-emulated.json");
    let failed = &kept["emulated"]["failed"][0];
    assert_eq!(failed["label"], "1 Gb/s", "{kept}");
    assert!(failed["why"].as_str().unwrap().contains("interrupted"), "{failed}");
    let report = read(&folder, "out/report.md");
    assert!(report.contains("Not measured: 1 Gb/s of 'throughput': interrupted"), "{report}");
}
