//! What daemons notify systemd of: over a socket of our own in place of its.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::daemons::{self, Process, suture};

/// All that was received so far.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    /// Listens at this path for as long as the test runs.
    fn listen(path: &Path) -> Said {
        let (said, socket) = (Said::default(), UnixDatagram::bind(path).unwrap());
        let all = said.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes) = socket.recv(&mut buffer) {
                all.0.lock().unwrap().push_str(std::str::from_utf8(&buffer[..bytes]).unwrap());
            }
        });
        said
    }

    fn count(&self, word: &str) -> usize {
        self.0.lock().unwrap().matches(word).count()
    }

    /// Waits until a word was received so often.
    fn wait(&self, word: &str, times: usize) {
        let since = Instant::now();
        while self.count(word) < times {
            assert!(since.elapsed() < daemons::TIMEOUT, "no {word}: {}", self.0.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Starts a daemon that is to notify `socket` of how it does, every half second.
fn start(role: &str, folder: &Path, socket: &str, keys: &str) -> (Process, String) {
    let config = folder.join(format!("{role}.toml"));
    let data = folder.join(role);
    let text = format!("listen = '127.0.0.1:0'\ndata_dir = '{}'\n{keys}", data.display());
    fs::write(&config, text).unwrap();
    let mut command = suture();
    command.arg(role).env("SUTURE_CONFIG", &config).stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", "1000000");
    Process::start_by(&mut command)
}

#[test]
fn daemons_say_that_they_are_ready_that_they_live_and_that_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let said = Said::listen(&path);
    let (mut coordinator, line) = start("coordinator", folder.path(), path.to_str().unwrap(), "");
    let address = line.strip_prefix("listening on ").expect("it listens").to_string();
    said.wait("EXTEND_TIMEOUT_USEC=120000000\nSTATUS=reads the metadata\n", 1);
    said.wait(&format!("READY=1\nSTATUS=listening on {address}"), 1);
    said.wait("WATCHDOG=1", 3);

    let keys = format!("name = 'n1'\ncoordinator = '{address}'\n");
    let (mut agent, line) = start("agent", folder.path(), path.to_str().unwrap(), &keys);
    assert!(line.starts_with("listening on "), "{line}");
    said.wait("READY=1", 2);
    agent.stop();
    said.wait("STOPPING=1", 1);
    coordinator.stop();
    said.wait("STOPPING=1", 2);
}

#[test]
fn a_socket_that_is_none_keeps_no_daemon_from_its_work() {
    let folder = tempfile::tempdir().unwrap();
    for socket in ["", "@", "/nonexistent/notify", "relative", "@suture-nobody-listens"] {
        let (mut coordinator, line) = start("coordinator", folder.path(), socket, "");
        assert!(line.starts_with("listening on "), "{socket}: {line}");
        coordinator.stop();
    }
}
