//! A cluster of real processes with certificates, for tests: an authority made by `suture cert`, a
//! folder of credentials for everybody, and daemons on loopback that use them.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::{AccessRole, Principal};
use tempfile::TempDir;

use crate::daemons::{Finished, Process, TIMEOUT, count, finish, noise, suture};

/// Whose credentials lie in which folder, by the rest of a `suture cert` line.
const USERS: [(&str, &str); 4] =
    [("root", "admin"), ("ops", "operator"), ("guest", "viewer"), ("team", "client")];

pub struct Secured {
    // Ended in this order: agents, coordinator, folder.
    pub agents: Vec<Process>,
    pub coordinator: Process,
    pub address: String,
    pub folder: TempDir,
}

impl Secured {
    /// So many agents, all of them up.
    pub fn of(agents: usize) -> Secured {
        Secured::with(agents, "")
    }

    /// With further keys in the coordinator's configuration.
    pub fn with(agents: usize, keys: &str) -> Secured {
        let folder = tempfile::tempdir().unwrap();
        sign(folder.path(), agents);
        let config = folder.path().join("coordinator.toml");
        let (data, own) = (folder.path().join("coordinator"), folder.path().join("own/c"));
        let text = format!(
            "listen = '127.0.0.1:0'\ndata_dir = '{}'\ncredentials = '{}'\n{keys}\n[timers]\nsuspect = '1s'\ndead = '3s'\nstart_grace = '5s'\nretry_first = '200ms'\nretry_max = '1s'\n",
            data.display(),
            own.display(),
        );
        fs::write(&config, text).unwrap();
        let (coordinator, address) = Process::start("coordinator", &config);
        let start = |index| start_agent(folder.path(), &address, index);
        let processes = (0..agents).map(start).collect();
        let cluster = Secured { agents: processes, coordinator, address, folder };
        cluster.wait("all agents are up", |status| count(status, "up") == agents);
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder with the credentials of a principal.
    pub fn own(&self, name: &str) -> PathBuf {
        self.path("own").join(name)
    }

    /// The folders of all.
    pub fn all_own(&self) -> Vec<String> {
        let folders = fs::read_dir(self.path("own")).unwrap();
        folders.map(|entry| entry.unwrap().path().display().to_string()).collect()
    }

    pub fn log(&self, of: &str) -> String {
        fs::read_to_string(self.path(&format!("{of}.log"))).unwrap()
    }

    /// A command of the administrator.
    pub fn run(&self, args: &[&str]) -> Finished {
        self.run_as("root", args)
    }

    /// A command of a principal.
    pub fn run_as(&self, who: &str, args: &[&str]) -> Finished {
        finish(self.command(who).args(args))
    }

    pub fn command(&self, who: &str) -> Command {
        let mut command = suture();
        command.env("SUTURE_COORDINATOR", &self.address).env("SUTURE_CREDENTIALS", self.own(who));
        command.env("SUTURE_AUTHORITY", self.path("authority"));
        command
    }

    /// A command that is to succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let Finished { status, stdout, stderr } = self.run(args);
        assert_eq!(status, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    /// New credentials for everybody, of the authority that signs now.
    pub fn sign_anew(&self) {
        sign_all(self.folder.path(), self.agents.len());
    }

    /// A certificate of an agent that counts for so long.
    pub fn sign_for(&self, role: AccessRole, name: &str, lifetime: Duration) {
        let authority = Authority::open(&self.path("authority")).unwrap();
        let principal = Principal::new(role, name).unwrap();
        authority.issue(&principal, lifetime, &self.own(name), SystemTime::now()).unwrap();
    }

    pub fn put(&self, name: &str, bytes: usize) -> Vec<u8> {
        let (content, path) = (noise(bytes), self.path("source"));
        fs::write(&path, &content).unwrap();
        let how = ["--name", name, "--code", "rs(2,1)", "--chunk-size", "64KiB"];
        self.ok(&[&["put", path.to_str().unwrap()], &how[..]].concat());
        content
    }

    pub fn assert_reads(&self, name: &str, content: &[u8]) {
        let path = self.path("back");
        self.ok(&["get", name, "-o", path.to_str().unwrap()]);
        assert!(fs::read(&path).unwrap() == content, "'{name}' came back with other bytes");
    }

    /// Waits until the status is as it should be; gives it.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let asked = ["status", "--format", "json"];
        self.wait_for(what, || {
            let Finished { stdout, .. } = self.run(&asked);
            serde_json::from_str(&stdout).ok().filter(&is_so)
        })
    }

    /// Waits until there is something to give.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if since.elapsed() > TIMEOUT {
                panic!("not within a minute: {what}\n{}", self.log("coordinator"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Makes an authority and credentials for all.
fn sign(folder: &Path, agents: usize) {
    let made = finish(suture().args(["cert", "init", "--authority"]).arg(folder.join("authority")));
    assert_eq!(made.status, 0, "{}", made.stderr);
    fs::create_dir(folder.join("own")).unwrap();
    sign_all(folder, agents);
}

fn sign_all(folder: &Path, agents: usize) {
    let cert = |args: &[&str], name: &str| {
        let mut command = suture();
        command.args(["cert"]).args(args).arg(name).arg("--out").arg(folder.join("own").join(name));
        let made = finish(command.arg("--authority").arg(folder.join("authority")));
        assert_eq!(made.status, 0, "{name}: {}", made.stderr);
    };
    cert(&["node", "--coordinator"], "c");
    (0..agents).for_each(|index| cert(&["node"], &format!("n{index}")));
    USERS.iter().for_each(|(name, role)| cert(&["user", "--role", role], name));
}

pub fn start_agent(folder: &Path, coordinator: &str, index: usize) -> Process {
    let own = folder.join(format!("own/n{index}"));
    let keys = format!("credentials = '{}'", own.display());
    crate::daemons::start_agent(folder, coordinator, index, &keys)
}
