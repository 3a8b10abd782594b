//! Where results and logs go may be full or gone: nothing panics, and no daemon ends.
//!
//! Place: the edge of everything; a full disk of logs must not take a cluster down.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn suture() -> Command {
    Command::new(env!("CARGO_BIN_EXE_suture"))
}

/// Where every write fails with "no space left".
fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("Linux has it").into()
}

/// Where every write fails with "broken pipe".
fn closed() -> Stdio {
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.take().unwrap();
    child.wait().unwrap();
    pipe.into()
}

/// Commands that print in ways of their own.
const PRINTING: [&str; 8] = [
    "codes",
    "--help",
    "completions bash",
    "plan --code rs(3,2) --nodes 8 --stripes 20 --failed n0",
    "plan --code rs(3,2) --nodes 8 --stripes 20 --failed n0 --format json",
    "plan --code rs(3,2) --nodes 8 --stripes 20 --failed n0 --compare",
    "simulate --code rs(3,2) --nodes 8 --stripes 20 --failed n0",
    "durability --code rs(3,2) --nodes 8 --stripes 20 --runs 20",
];

#[test]
fn whatever_prints_says_that_it_could_not_and_not_that_nobody_reads_on() {
    for command in PRINTING {
        let mut suture = suture();
        let suture = suture.args(command.split(' ')).stderr(Stdio::piped());
        let output = suture.stdout(full()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = "suture: cannot print the result: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), stderr.as_str()), (Some(1), expected), "{command}");
        let output = suture.stdout(closed()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{command}");
    }
}

#[test]
fn errors_that_cannot_be_printed_leave_the_exit_status() {
    for sink in [full(), closed()] {
        let status = suture().args(["decode", "/nonexistent", "-o", "x"]).stderr(sink).status();
        assert_eq!(status.unwrap().code(), Some(2));
    }
}

/// How lines of logs are written.
const FORMS: [&str; 2] = ["text", "json"];

/// A coordinator whose log goes there, and its address.
fn coordinator(folder: &Path, log: Stdio, [level, form]: [&str; 2]) -> (Child, String) {
    let (config, data) = (folder.join("coordinator.toml"), folder.join("data"));
    std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\ndata_dir = {data:?}\n")).unwrap();
    let mut coordinator = suture()
        .args(["coordinator", "--until-stdin-closes", "--config"])
        .arg(&config)
        .env("SUTURE_LOG", level)
        .env("SUTURE_LOG_FORMAT", form)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(coordinator.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("listening on ").expect(&first).to_string();
    (coordinator, address)
}

/// It answers so many times, and ends as it should.
fn goes_on(mut coordinator: Child, address: &str, times: usize) {
    for _ in 0..times {
        let status = suture().args(["status", "--coordinator", address]).output().unwrap();
        assert_eq!(status.status.code(), Some(0), "{status:?}");
    }
    drop(coordinator.stdin.take());
    assert_eq!(coordinator.wait().unwrap().code(), Some(0));
}

#[test]
fn a_coordinator_whose_log_cannot_be_written_goes_on() {
    for (sink, form) in FORMS.into_iter().flat_map(|form| [(full(), form), (closed(), form)]) {
        let folder = tempfile::tempdir().unwrap();
        let (coordinator, address) = coordinator(folder.path(), sink, ["info", form]);
        goes_on(coordinator, &address, 1);
    }
}

#[test]
fn a_coordinator_whose_log_nobody_reads_goes_on() {
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        // It is held open, and takes what fits into a pipe.
        let (coordinator, address) = coordinator(folder.path(), Stdio::piped(), ["trace", form]);
        goes_on(coordinator, &address, 30);
    }
}

#[test]
fn a_daemon_may_open_as_many_files_as_the_system_lets_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("coordinator.toml");
    let data = folder.path().join("data");
    std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\ndata_dir = {data:?}\n")).unwrap();
    let command = "ulimit -Sn 100 && ulimit -Hn 2000 && exec \"$0\" \"$@\"";
    let mut coordinator = Command::new("sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_suture")])
        .args(["coordinator", "--until-stdin-closes", "--config"])
        .arg(&config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(coordinator.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", coordinator.id())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limit: Vec<&str> = limit.split_whitespace().skip(3).take(2).collect();
    drop(coordinator.stdin.take());
    let output = coordinator.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(limit, ["2000", "2000"], "{stderr}");
    assert!(stderr.contains("raise its hard limit (LimitNOFILE="), "{stderr}");
}

#[test]
fn a_daemon_that_may_open_too_few_files_to_serve_anybody_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for daemon in ["coordinator", "agent"] {
        let config = folder.path().join(daemon);
        std::fs::write(&config, "").unwrap();
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 16 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_suture")])
            .args([daemon, "--config"])
            .arg(&config)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("may have 16 files and sockets open, and needs at least 64"));
    }
}
