//! The testbed from outside: what it measures is whole, and nothing of it is left, however it ends.
//!
//! Network namespaces need root. Without it these tests say so loudly and do nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::listed;
use crate::networks::can_make_networks;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long the last of a testbed may take to go.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A scenario that takes seconds.
const SMALL: &str = "\
title = \"small\"
code = \"rs(2,1)\"
chunk_size = \"256KiB\"
stripes = 10
policies = [\"flow\", \"cr\"]
agent_memory = \"32MiB\"

[cluster]
nodes = 5
bandwidth = \"40Mbit\"

[failure]
nodes = [\"n1\"]
";

fn suture() -> Command {
    Command::new(env!("CARGO_BIN_EXE_suture"))
}

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn scenario(&self, text: &str) -> PathBuf {
        let path = self.path("scenario.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, text: &str) -> Command {
        let mut command = suture();
        command.args(["testbed", "run"]).arg(self.scenario(text));
        command.arg("-o").arg(self.path("report")).args(["--format", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The run id that a testbed names when it begins.
fn run_id(line: &str) -> String {
    let rest = line.split("testbed ").nth(1).unwrap_or_else(|| panic!("no run id in '{line}'"));
    rest.split(',').next().unwrap().to_string()
}

/// Namespaces, records and folders of a run.
fn left_of(run: &str) -> Vec<String> {
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let names = String::from_utf8_lossy(&namespaces.stdout).into_owned();
    let mine = format!("suture-{run}-");
    let mut left: Vec<String> =
        names.lines().filter(|line| line.starts_with(&mine)).map(str::to_string).collect();
    let others = ["/run/suture/testbed".to_string(), "/dev/shm".to_string()];
    for folder in others.iter().filter(|folder| Path::new(folder).exists()) {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        left.extend(names.filter(|name| name.contains(run)));
    }
    left
}

fn assert_nothing_is_left(run: &str) {
    let since = Instant::now();
    loop {
        let left = left_of(run);
        if left.is_empty() {
            return;
        }
        assert!(since.elapsed() < TIMEOUT, "left of {run}: {left:?}");
        sleep(Duration::from_millis(100));
    }
}

fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_scenario_is_measured_verified_and_leaves_nothing_behind() {
    if !can_make_networks() {
        return;
    }
    let bench = Bench::new();
    let output = bench.run(SMALL).output().unwrap();
    let found = report(&output);
    listed::JsonPage::read().check("suture testbed run", &found);
    assert_eq!((&found["format"], &found["nodes"]), (&"suture-testbed-1".into(), &5.into()));
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        let (run, medians) = (&result["runs"][0], &result["medians"]);
        assert_eq!(run["verified"], true, "{run}");
        let number = |key: &str| run[key].as_f64().unwrap_or_else(|| panic!("{key} in {run}"));
        assert!(number("lost_chunks") >= 1.0 && number("agent_processor_seconds") > 0.0);
        let percent = 100.0 * number("bound_seconds") / number("seconds");
        assert!((percent - number("percent_of_bound")).abs() < 1e-6);
        assert!(number("agent_peak_memory_bytes") > 1e6);
        // A link carries no more than it has, but for the tokens that it began with.
        assert!(run["busiest_link"]["part"].as_f64().unwrap() < 1.6, "{run}");
        assert_eq!(medians["repetitions"], 1);
    }
    assert_eq!(results[0]["runs"][0]["placement"], results[1]["runs"][0]["placement"]);
    let page = fs::read_to_string(bench.path("report/report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.matches("<svg").count() == 4, "{page}");
    let text = fs::read_to_string(bench.path("report/report.txt")).unwrap();
    assert!(text.contains("of the bound") && text.contains("machine: "), "{text}");
    assert_nothing_is_left(&run_id(&String::from_utf8_lossy(&output.stderr)));
    // What is there is not written over unasked.
    let again = bench.run(SMALL).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
}

#[test]
fn a_page_of_results_goes_where_a_link_leads() {
    if !can_make_networks() {
        return;
    }
    let bench = Bench::new();
    fs::write(bench.path("page.md"), "old").unwrap();
    symlink("page.md", bench.path("link.md")).unwrap();
    let scenario = bench.scenario(&SMALL.replace(", \"cr\"", ""));
    let mut results = suture();
    results.args(["testbed", "results"]).arg(scenario).arg("-o").arg(bench.path("link.md"));
    let output = results.args(["--format", "json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(fs::symlink_metadata(bench.path("link.md")).unwrap().is_symlink());
    let page = fs::read_to_string(bench.path("page.md")).unwrap();
    assert!(page.contains("## small"), "{page}");
    listed::JsonPage::read().check("suture testbed results", &report(&output));
    assert_nothing_is_left(&run_id(&errors));
}

#[test]
fn racks_and_links_that_change_are_kept_to() {
    if !can_make_networks() {
        return;
    }
    let bench = Bench::new();
    let text = SMALL.replace("nodes = 5", "nodes = 6\nracks = 3\noversubscription = 2");
    let text = text.replace("[\"flow\", \"cr\"]", "[\"flow\"]\ndeclared = false");
    let text = text.replace("[failure]", "[replay]\nuplinks = \"up.csv\"\n[failure]");
    fs::write(bench.path("up.csv"), "40,40,40,40,40,40\n8,16,8,0,40,8\n").unwrap();
    let found = report(&bench.run(&text).output().unwrap());
    assert_eq!((&found["racks"], &found["replayed"]), (&3.into(), &true.into()));
    assert_eq!(found["results"][0]["runs"][0]["verified"], true);
    let csv = fs::read_to_string(bench.path("report/uplinks.csv")).unwrap();
    assert_eq!(csv.lines().nth(1), Some("8.000,16.000,8.000,1.000,40.000,8.000"));
}

#[test]
fn nodes_answer_clients_in_a_closed_loop_before_a_repair_and_beside_it() {
    if !can_make_networks() {
        return;
    }
    let bench = Bench::new();
    let load = "[load]\nworkload = \"ycsb-a\"\nclosed = true\nclients = 2\nalone = \"1s\"\n";
    let text = SMALL.replace("stripes = 10", "stripes = 30").replace(", \"cr\"", "");
    let found = report(&bench.run(&format!("{text}{load}")).output().unwrap());
    let run = &found["results"][0]["runs"][0];
    assert_eq!(run["verified"], true, "{run}");
    for when in ["alone", "beside"] {
        let waits = &run["felt"][when];
        assert!(waits["requests"].as_u64().unwrap() > 0 && waits["errors"] == 0, "{run}");
        assert!(waits["p99_ms"].as_f64() >= waits["mean_ms"].as_f64(), "{run}");
    }
}

#[test]
fn a_testbed_goes_with_its_command_however_that_ends() {
    if !can_make_networks() {
        return;
    }
    for (signal, millis) in [(Signal::INT, 1500), (Signal::TERM, 100), (Signal::KILL, 3000)] {
        let bench = Bench::new();
        let mut child: Child = bench.run(SMALL).spawn().unwrap();
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        let run = run_id(&line);
        sleep(Duration::from_millis(millis));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success(), "ended by {signal:?}");
        assert_nothing_is_left(&run);
    }
}

#[test]
fn an_interrupted_run_reports_the_repairs_that_were_made() {
    if !can_make_networks() {
        return;
    }
    let bench = Bench::new();
    let mut child: Child = bench.run(SMALL).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let run = run_id(&lines.next().unwrap().unwrap());
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("flow"), "{first}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let last = lines.last().unwrap().unwrap();
    assert!(last.contains("1 of 2 repairs are in") && last.contains("interrupted"), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let found = fs::read_to_string(bench.path("report/report.json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    let runs = |policy: usize| found["results"][policy]["runs"].as_array().unwrap().len();
    assert_eq!((runs(0), runs(1), &found["repairs"]), (1, 0, &2.into()));
    let text = fs::read_to_string(bench.path("report/report.txt")).unwrap();
    assert!(text.contains("ENDED EARLY") && text.contains("not measured"), "{text}");
    assert_nothing_is_left(&run);
}

#[test]
fn what_is_made_by_hand_stays_until_it_is_taken_down() {
    if !can_make_networks() {
        return;
    }
    let made = suture()
        .args(["testbed", "up", "--nodes", "3", "--bandwidth", "8Mbit", "--racks", "3"])
        .args(["--oversubscription", "2", "--format", "json"])
        .output();
    let made = report(&made.unwrap());
    listed::JsonPage::read().check("suture testbed up", &made);
    let run = made["run"].as_str().unwrap();
    let (first, second) = (&made["nodes"][0], &made["nodes"][1]);
    let namespace = first["namespace"].as_str().unwrap();
    // No process listens there, and only a host that is reached can answer so.
    let connect = format!("</dev/tcp/{}/9", second["address"].as_str().unwrap());
    let refused = Command::new("ip")
        .args(["netns", "exec", namespace, "timeout", "5", "bash", "-c", &connect])
        .output();
    let refused = String::from_utf8_lossy(&refused.unwrap().stderr).into_owned();
    assert!(refused.contains("refused"), "{refused}");
    let limits =
        Command::new("tc").args(["-n", namespace, "class", "show", "dev", "eth0"]).output();
    let limits = String::from_utf8_lossy(&limits.unwrap().stdout).into_owned();
    assert!(limits.contains("rate 8Mbit") && limits.contains("burst 256Kb"), "{limits}");
    assert!(!left_of(run).is_empty());
    let down = suture().args(["testbed", "down", run, "--format", "json"]).output().unwrap();
    let down = report(&down);
    listed::JsonPage::read().check("suture testbed down", &down);
    assert_eq!(down["removed"][0]["run"], run);
    assert_nothing_is_left(run);
}
