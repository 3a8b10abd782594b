//! The boxes of commands, run: all pages one after the other, in one shell, in the order of the
//! book.
//!
//! What a reader has is there before: a folder of photos. Each page has a folder of its own; the
//! cluster of `operating.md`, and where it is (`SUTURE_COORDINATOR`), stay until the end. Ports are
//! others than the page's, so that whatever listens on those is left alone.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::commands::{Help, inline, words};
use super::fences::{self, Fence};
use super::{page, pages};

/// How long all of it may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// So many boxes and commands are run at least: a page that loses its marks must not pass.
const BOXES_MIN: usize = 27;
const COMMANDS_MIN: usize = 88;

/// Where daemons of the pages listen: `127.0.0.1:74` and two digits.
const PORTS_IN_PAGES: &str = "127.0.0.1:74";

/// What every box may use: a wait until a command succeeds.
const PRELUDE: &str = r#"set -euo pipefail
until_() {
  for _ in $(seq 300); do if (export waits=1; eval "$1") >>"$said" 2>&1; then return; fi; sleep 0.2; done
  echo "not within a minute: $1"
  exit 1
}
"#;

/// A shell and all that it started, which end with this.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The beginning of addresses of which a hundred ports are free, below those that systems give out.
fn free_ports() -> String {
    let first = 200 + std::process::id() % 100;
    let mut prefixes = (first..320).chain(200..first);
    let is_free = |prefix: &u32| {
        let port = |last: u16| TcpListener::bind(("127.0.0.1", *prefix as u16 * 100 + last));
        (0..30).all(|last| port(last).is_ok())
    };
    format!("127.0.0.1:{}", prefixes.find(is_free).expect("some ports are free"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The boxes as one script; gives how many there are.
fn script(folder: &Path) -> (String, usize) {
    let (mut script, mut count, ports) = (PRELUDE.to_owned(), 0, free_ports());
    for name in pages() {
        let place = folder.join(name.trim_end_matches(".md"));
        fs::create_dir_all(&place).unwrap();
        let boxes = fences::of(&name, &page(&name)).into_iter().filter(|fence| fence.kind == "sh");
        for Fence { page, line, text, until, .. } in boxes {
            count += 1;
            let _ = writeln!(script, "cd {}\necho '== {page}:{line}'", place.display());
            let _ = until.map(|until| writeln!(script, "until_ {}", quoted(&until)));
            script += &text.replace(PORTS_IN_PAGES, &ports);
        }
    }
    (script, count)
}

/// A program `suture` that writes down what boxes ask of it, and is the one of this build.
fn witness(folder: &Path) {
    let path = folder.join("bin/suture");
    fs::create_dir(folder.join("bin")).unwrap();
    let log = folder.join("ran").display().to_string();
    let suture = env!("CARGO_BIN_EXE_suture");
    let note = format!("[ -n \"${{waits-}}\" ] || echo \"suture $*\" >> '{log}'");
    fs::write(&path, format!("#!/bin/sh\n{note}\nexec '{suture}' \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the script to its end.
fn run(folder: &Path, script: &str) {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    fs::write(folder.join("script"), script).unwrap();
    let said = folder.join("said");
    let log = fs::File::create(&said).unwrap();
    let mut command = Command::new("bash");
    command.arg(folder.join("script")).env("PATH", path).env("said", &said).process_group(0);
    for variable in
        ["COORDINATOR", "CREDENTIALS", "AUTHORITY", "CONFIG", "LOG", "CODE", "CHUNK_SIZE"]
    {
        command.env_remove(format!("SUTURE_{variable}"));
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut shell = Shell(command.spawn().expect("bash is there"));
    let since = Instant::now();
    let status = loop {
        match shell.0.try_wait().unwrap() {
            Some(status) => break status,
            None if since.elapsed() > TIMEOUT => panic!("it does not end:\n{}", last_of(&said)),
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    drop(shell);
    assert!(status.success(), "{status}:\n{}", last_of(&said));
}

/// What was printed since the box before the last one.
fn last_of(said: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned();
    let boxes: Vec<&str> = text.split("== ").collect();
    boxes[boxes.len().saturating_sub(2)..].join("== ")
}

#[test]
fn the_commands_in_boxes_work() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    witness(folder);
    let photos = folder.join("operating/photos");
    fs::create_dir_all(&photos).unwrap();
    let content: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    fs::write(photos.join("sea.jpg"), &content).unwrap();
    fs::write(photos.join("hill.jpg"), &content[..200_000]).unwrap();
    let (script, boxes) = script(folder);
    run(folder, &script);
    assert_eq!(fs::read(folder.join("operating/back/sea.jpg")).unwrap(), content);

    let ran = fs::read_to_string(folder.join("ran")).unwrap();
    let commands = ran.lines().count();
    eprintln!("{boxes} boxes with {commands} commands were run");
    assert!(boxes >= BOXES_MIN, "only {boxes} boxes were run");
    assert!(commands >= COMMANDS_MIN, "only {commands} commands were run");
    let mut help = Help::default();
    let mut chain = |line: &str| help.chain(&words(line)).unwrap().join(" ");
    let ran: BTreeSet<String> = ran.lines().map(&mut chain).collect();
    let mut missing = inline(&page("runbooks.md"));
    missing.retain(|line| !ran.contains(&chain(line)));
    assert!(missing.is_empty(), "runbooks.md has what no box runs: {missing:#?}");
}
