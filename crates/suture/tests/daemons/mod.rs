//! A cluster of real processes on loopback, for tests.
//!
//! Each is one of its own on ports that the system chooses. Timers are short; whatever has to
//! happen is waited for, up to a minute. Every daemon is recorded.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that does not outlive its test.
pub struct Process(pub Child);

impl Process {
    /// Starts a daemon; gives it and where it listens.
    pub fn start(role: &str, config: &Path) -> (Process, String) {
        let log = fs::File::create(config.with_extension("log")).unwrap();
        let mut command = suture();
        command.args([role, "--config"]).arg(config).arg("--record");
        command.arg(config.with_extension("transcript")).stderr(log);
        let (process, line) = Process::start_by(&mut command);
        let address = line.strip_prefix("listening on ");
        let log = || fs::read_to_string(config.with_extension("log")).unwrap();
        let address = address.unwrap_or_else(|| panic!("{role} said '{line}': {}", log()));
        (process, address.to_string())
    }

    /// Starts a command; gives it and the first line that it prints.
    pub fn start_by(command: &mut Command) -> (Process, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        let process = Process(child);
        BufReader::new(stdout).read_line(&mut line).unwrap();
        (process, line.trim().to_string())
    }

    /// SIGKILL: it gets no chance to say goodbye.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Process {
    /// SIGTERM, and waits until it has cleaned up.
    pub fn stop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Cluster {
    // Ended in this order: agents, coordinator, folder.
    pub agents: Vec<Process>,
    pub coordinator: Process,
    pub address: String,
    pub folder: TempDir,
}

pub struct Finished {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Cluster {
    pub fn of(agents: usize) -> Cluster {
        Cluster::with(agents, "")
    }

    /// So many agents, with further keys in their configuration.
    pub fn with(agents: usize, keys: &str) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let (coordinator, address) = start_coordinator(folder.path(), "127.0.0.1:0");
        let agents = (0..agents).map(|i| start_agent(folder.path(), &address, i, keys)).collect();
        let cluster = Cluster { agents, coordinator, address, folder };
        let all = cluster.agents.len();
        cluster.wait("all agents are up", |status| count(status, "up") == all);
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn restart_coordinator(&mut self) {
        self.coordinator.kill();
        (self.coordinator, _) = start_coordinator(self.folder.path(), &self.address);
    }

    /// Starts the coordinator, which has stopped, so patient that no silent node is given up.
    pub fn start_patient(&mut self) {
        let config = self.path("coordinator.toml");
        let text = fs::read_to_string(&config).unwrap();
        let text = text.replace("127.0.0.1:0", &self.address);
        let patient = text.replace("dead = '2s'", "dead = '1h'");
        let patient = patient.replace("start_grace = '5s'", "start_grace = '1h'");
        assert_eq!(patient.matches("'1h'").count(), 2, "{text}");
        fs::write(&config, patient).unwrap();
        (self.coordinator, _) = Process::start("coordinator", &config);
    }

    pub fn run(&self, args: &[&str]) -> Finished {
        finish(suture().args(args).env("SUTURE_COORDINATOR", &self.address))
    }

    /// Runs a command that is to succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let Finished { status, stdout, stderr } = self.run(args);
        assert_eq!(status, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let Finished { stdout, stderr, .. } = self.run(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&stdout).unwrap_or_else(|why| panic!("{args:?}: {why}: {stderr}"))
    }

    /// Stores bytes without a pattern; gives them.
    pub fn put(&self, name: &str, bytes: usize, how: &[&str]) -> Vec<u8> {
        let content = noise(bytes);
        let path = self.path("source");
        fs::write(&path, &content).unwrap();
        self.ok(&[&["put", path.to_str().unwrap(), "--name", name], how].concat());
        content
    }

    pub fn assert_reads(&self, name: &str, content: &[u8]) {
        let path = self.path("back");
        self.ok(&["get", name, "-o", path.to_str().unwrap()]);
        assert!(fs::read(&path).unwrap() == content, "'{name}' came back with other bytes");
    }

    /// Waits until the status is as it should be; gives it.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.json(&["status"]);
            if is_so(&status) {
                return status;
            }
            if since.elapsed() > TIMEOUT {
                let log = fs::read_to_string(self.path("coordinator.log")).unwrap();
                panic!("not within a minute: {what}: {status:#}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_healthy(&self) -> Value {
        self.wait("all is repaired", |status| {
            let silent = count(status, "suspect") + count(status, "unknown");
            status["state"] == "healthy" && silent == 0
        })
    }

    /// The chunk files of one agent.
    pub fn chunks(&self, agent: usize) -> Vec<PathBuf> {
        chunk_files(&self.path(&format!("n{agent}")))
    }
}

/// The chunk files in an agent's data_dir.
pub fn chunk_files(data_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![data_dir.join("chunks")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path())
            } else {
                found.push(entry.path())
            }
        }
    }
    found.sort();
    found
}

pub fn suture() -> Command {
    Command::new(env!("CARGO_BIN_EXE_suture"))
}

/// The same as a terminal would start it: where these tests run in the background or under nohup,
/// signals are ignored, which only `env` undoes.
pub fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT", env!("CARGO_BIN_EXE_suture")]);
    command
}

pub fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        status: output.status.code().expect("not killed by a signal"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn start_coordinator(folder: &Path, listen: &str) -> (Process, String) {
    let config = folder.join("coordinator.toml");
    let data = folder.join("coordinator");
    let first = fs::read_to_string(folder.join("first.toml")).unwrap_or_default();
    let text = format!(
        "{first}listen = '{listen}'\ndata_dir = '{}'\n[timers]\nsuspect = '1s'\ndead = '2s'\nstart_grace = '5s'\nretry_first = '200ms'\nretry_max = '1s'\n",
        data.display()
    );
    let more = fs::read_to_string(folder.join("more.toml")).unwrap_or_default();
    fs::write(&config, text + &more).unwrap();
    Process::start("coordinator", &config)
}

pub fn start_agent(folder: &Path, coordinator: &str, index: usize, keys: &str) -> Process {
    let config = folder.join(format!("n{index}.toml"));
    let data = folder.join(format!("n{index}"));
    let memory = if keys.contains("memory =") { "" } else { "memory = '32MiB'" };
    let text = format!(
        "name = 'n{index}'\ncoordinator = '{coordinator}'\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\n{memory}\n{keys}\n[timers]\nheartbeat = '200ms'\n",
        data.display()
    );
    fs::write(&config, text).unwrap();
    Process::start("agent", &config).0
}

pub fn count(status: &Value, health: &str) -> usize {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().filter(|node| node["health"] == health).count()
}

/// Bytes without a pattern, the same every time.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = bytes as u64 | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Where a daemon with that log says that `what` is.
pub fn address_in_log(log: &Path, what: &str) -> SocketAddr {
    let text = fs::read_to_string(log).unwrap();
    let after = text.split(what).nth(1).expect("it says so");
    after.split('/').next().unwrap().parse().unwrap()
}

/// What the listener answers to these bytes; all of it, to the end of the connection.
pub fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    // A client that is refused early cannot send everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// What it answers to a request for that path, with more headers.
pub fn get(address: SocketAddr, path: &str, more: &str) -> String {
    exchange(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").as_bytes())
}
