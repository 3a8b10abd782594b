//! `suture calibrate` from outside: its report, its refusals, and that nothing is left behind.
//! How good the predictions are is not asserted: that is what the command itself is for, on a
//! machine that has nothing else to do.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::listed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn calibrate(temporary: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.env("TMPDIR", temporary.path()).arg("calibrate");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn assert_clean(temporary: &TempDir) {
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_calibration_reports_what_it_predicted_and_measured() {
    let temporary = TempDir::new().unwrap();
    let mut command = calibrate(&temporary);
    let output = command.args(["--only", "half of each", "--format", "json"]).output().unwrap();
    let story = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
        panic!("one JSON object: {why}; {story}");
    });
    assert_eq!(report["format"], "suture-calibrate-1");
    listed::JsonPage::read().check("suture calibrate", &report);
    assert!(story.contains("1 of 1: sub-chunks, half of each: butterfly(4)"), "{story}");
    let rows = report["scenarios"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    let number = |key: &str| rows[0][key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"));
    let (predicted, measured) = (number("predicted_seconds"), number("measured_seconds"));
    assert!(predicted >= number("max_load_seconds") * (1.0 - 1e-6) && measured > 0.0, "{report}");
    assert!((number("ratio") - predicted / measured).abs() < 1e-9);
    assert!(number("lost_chunks") >= 1.0);
    assert_eq!((&report["worst"], &report["median_ratio"]), (&rows[0]["name"], &rows[0]["ratio"]));
    assert_eq!(report["overheads"]["hop_seconds"], 0.0);
    let is_within = (number("ratio") - 1.0).abs() <= report["tolerance"].as_f64().unwrap();
    assert_eq!(report["within_tolerance"], is_within);
    assert_eq!(output.status.code(), Some(i32::from(!is_within)));
    assert_clean(&temporary);
}

#[test]
fn an_interrupted_calibration_leaves_nothing_behind() {
    let temporary = TempDir::new().unwrap();
    let mut running = calibrate(&temporary).arg("--quick").spawn().unwrap();
    sleep(Duration::from_millis(1500));
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert_clean(&temporary);
}

#[test]
fn a_scenario_that_does_not_exist_is_refused_with_those_that_do() {
    let temporary = TempDir::new().unwrap();
    let output = calibrate(&temporary).args(["--only", "nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("nonsense") && why.contains("'two nodes fail'"), "{why}");
    let output = calibrate(&temporary).args(["--format", "yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_clean(&temporary);
}
