//! The demo from outside: it verifies every byte, and ends without a trace whatever happens.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::listed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Few enough bytes that a run takes seconds.
const DATA_BYTES: usize = 6_000_000;

struct Stage {
    /// Where the demo makes its folders.
    temporary: TempDir,
    data: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage { temporary: TempDir::new().unwrap(), data: TempDir::new().unwrap() };
        let mut random = suture_repair::random::Random::new(5);
        let mut bytes = vec![0; DATA_BYTES];
        random.fill(&mut bytes);
        fs::create_dir(stage.data.path().join("folder")).unwrap();
        fs::write(stage.data.path().join("folder/large"), &bytes).unwrap();
        fs::write(stage.data.path().join("small"), b"hello").unwrap();
        fs::write(stage.data.path().join("empty"), b"").unwrap();
        stage
    }

    fn demo(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
        command.env("TMPDIR", self.temporary.path()).args(["demo", "--chunk-size", "256KiB"]);
        command.args(["--link", "200Mbit", "--data"]).arg(self.data.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Nothing is left in the temporary folder, and no process that was started from it.
    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let left = processes_of(self.temporary.path());
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Command lines of living processes that name `folder`.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&folder))
        .collect()
}

#[test]
fn a_demo_repairs_verifies_and_leaves_nothing_behind() {
    let stage = Stage::new();
    let output = stage.demo().args(["--format", "json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    listed::JsonPage::read().check("suture demo", &report);
    assert_eq!(report["verified"], true);
    assert_eq!((&report["policy"], &report["code"]), (&"suture".into(), &"rs(6,3)".into()));
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"));
    assert!(number("lost_chunks") >= 1.0 && number("lost_bytes") > 0.0);
    assert!(number("detection_seconds") > 0.0);
    let percent = 100.0 * number("bound_seconds") / number("seconds");
    assert!((percent - number("percent_of_bound")).abs() < 1e-6);
    assert!(report["conventional"]["seconds"].as_f64().unwrap() > 0.0);
    stage.assert_clean();
}

#[test]
fn every_code_works_from_end_to_end() {
    for code in ["lrc(6,2,2)", "rs-vandermonde(4,2)", "butterfly(4)", "clay(4,2,5)"] {
        let stage = Stage::new();
        let output = stage.demo().args(["--code", code, "--format", "json"]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!((&report["verified"], &report["code"]), (&true.into(), &code.into()));
        stage.assert_clean();
    }
}

#[test]
fn published_policies_and_plans_of_many_lanes_repair_in_the_demo_too() {
    for (policy, has_racks) in [("car", true), ("flow", false)] {
        let stage = Stage::new();
        let output = stage.demo().args(["--policy", policy, "--format", "json"]).output().unwrap();
        let story = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{story}");
        assert_eq!(story.contains("4 with 3 agents each, since car"), has_racks, "{story}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!((&report["verified"], &report["policy"]), (&true.into(), &policy.into()));
        stage.assert_clean();
    }
}

/// An address that no process listens on, and that no connection has at its own end.
fn free_address() -> SocketAddr {
    let first = 12_000 + (std::process::id() % 4000) as u16;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (first..20_000).find(is_free).expect("some port is free");
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn a_demo_shows_its_page_where_it_is_asked_to() {
    let (stage, page) = (Stage::new(), free_address());
    let mut demo = stage.demo();
    let demo = demo.arg(format!("--web={page}")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut demo = demo.spawn().unwrap();
    let shown = loop {
        assert!(demo.try_wait().unwrap().is_none(), "it ended, and nobody has seen its page");
        sleep(Duration::from_millis(50));
        let Ok(mut stream) = TcpStream::connect(page) else { continue };
        let request = format!("GET /status.json HTTP/1.1\r\nHost: {page}\r\n\r\n");
        let mut answer = String::new();
        let asked = stream.write_all(request.as_bytes());
        if asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() {
            break answer;
        }
    };
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    demo.wait().unwrap();
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    let (_, status) = shown.split_once("\r\n\r\n").expect("a body");
    let status: Value = serde_json::from_str(status).expect("the status");
    assert!(status["nodes"].is_array(), "{status}");
    stage.assert_clean();
}

#[test]
fn an_interrupted_demo_leaves_no_process_and_no_folder() {
    let stage = Stage::new();
    for millis in [30, 400, 1500, 3500] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut demo = stage.demo().spawn().unwrap();
            sleep(Duration::from_millis(millis));
            kill_process(Pid::from_child(&demo), signal).unwrap();
            let status = demo.wait().unwrap();
            assert!(!status.success(), "interrupted after {millis} ms");
            stage.assert_clean();
        }
    }
}

#[test]
fn a_killed_demo_takes_its_processes_with_it() {
    let stage = Stage::new();
    let mut demo = stage.demo().spawn().unwrap();
    sleep(Duration::from_millis(2500));
    demo.kill().unwrap();
    demo.wait().unwrap();
    let mut left = processes_of(stage.temporary.path());
    for _ in 0..50 {
        if left.is_empty() {
            return;
        }
        sleep(Duration::from_millis(100));
        left = processes_of(stage.temporary.path());
    }
    panic!("{left:?}");
}

#[test]
fn impossible_wishes_are_refused_by_name() {
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
        let output = command.arg("demo").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--agents", "9"]).contains("at least 10"));
    assert!(refused(&["--code", "rs(0,3)"]).contains("rs(0,3)"));
    assert!(refused(&["--policy", "sutur"]).contains("suture"));
    assert!(refused(&["--policy", "trace/random/all"]).contains("use flow"));
    let unserved = refused(&["--code", "butterfly(4)", "--policy", "car"]);
    assert!(unserved.contains("use star or mix"), "{unserved}");
    assert!(refused(&["--chunk-size", "5000B"]).contains("4992B or 5056B"));
    assert!(refused(&["--data", "/no/such/folder"]).contains("/no/such/folder"));
    assert!(refused(&["--link", "0Mbit"]).contains("0Mbit"));
}
