//! The processes of a demo: one coordinator and its agents on loopback, and their folder.
//!
//! Place: around the whole life of a repair. They are real processes, started as anybody would
//! start them, and whatever happens to the demo they end with it: they hold the read end of a pipe
//! and stop when it closes, so that not even killing the demo leaves one behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A process that has not said where it listens after this is not going to.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Lines of a log that are shown when its process has failed.
const LOG_LINES_SHOWN: usize = 12;

/// What a link carries, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRates {
    /// What its node sends.
    pub up: f64,
    /// What its node receives.
    pub down: f64,
}

impl LinkRates {
    /// The same both ways.
    pub fn equal(rate: f64) -> LinkRates {
        LinkRates { up: rate, down: rate }
    }
}

/// What the agents of a demo are limited to and how the coordinator repairs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Agents to start, one process each.
    pub agents: usize,
    /// In how many racks they are; 0: in none.
    pub racks: usize,
    /// The links, agent by agent and then from the first again; none: no limits.
    pub links: Vec<LinkRates>,
    /// Memory of each agent.
    pub memory: u64,
    /// The policy as it is written.
    pub policy: String,
}

impl Setting {
    /// The link of the agent that is called so, if it has limits.
    pub fn link_of(&self, name: &str) -> Option<LinkRates> {
        let number: usize = name.strip_prefix(AGENT_PREFIX)?.parse().ok()?;
        self.links.iter().cycle().nth(number.checked_sub(1)?).copied()
    }
}

/// Before the number of an agent among the processes.
const AGENT_PREFIX: &str = "node-";

/// The name of the coordinator among the processes.
const COORDINATOR: &str = "coordinator";

/// Running processes in a folder of their own.
pub struct Processes {
    folder: TempDir,
    /// Each from the moment it was started, so that none is forgotten whatever comes.
    children: Vec<(String, Child)>,
    /// The agents that were killed on purpose.
    killed: Vec<String>,
    /// Where the coordinator listens.
    pub address: String,
}

impl Processes {
    /// No processes yet; their files go below `folder`.
    pub fn new(folder: TempDir) -> Processes {
        Processes { folder, children: Vec::new(), killed: Vec::new(), address: String::new() }
    }

    /// Starts the coordinator and waits until it listens.
    ///
    /// # Errors
    /// When the process cannot be started or does not listen within 20 seconds.
    pub async fn start_coordinator(&mut self, setting: &Setting) -> Result<()> {
        let text = coordinator_config(&self.path(COORDINATOR), setting);
        self.address = self.start(COORDINATOR, "coordinator", &text).await?;
        Ok(())
    }

    /// Starts one more agent; the first is `node-01`.
    ///
    /// # Errors
    /// When the process cannot be started or does not listen within 20 seconds.
    pub async fn start_agent(&mut self, setting: &Setting) -> Result<()> {
        let number = self.children.len();
        let name = format!("{AGENT_PREFIX}{number:02}");
        let rack = (number - 1) * setting.racks / setting.agents + 1;
        let mut text = agent_config(&name, &self.path(&name), &self.address, setting);
        if let Some(link) = setting.link_of(&name) {
            let (up, down) = (link.up.round(), link.down.round());
            text.insert_str(0, &format!("uplink = \"{up}B\"\ndownlink = \"{down}B\"\n"));
        }
        if setting.racks > 0 {
            text.insert_str(0, &format!("rack = \"rack-{rack}\"\n"));
        }
        self.start(&name, "agent", &text).await?;
        Ok(())
    }

    /// Kills an agent without warning: SIGKILL.
    ///
    /// # Errors
    /// When no agent has the name, or it has ended already.
    pub async fn kill(&mut self, name: &str) -> Result<u32> {
        let agent = self.children.iter_mut().find(|(agent, _)| agent == name);
        let (_, child) = agent.with_context(|| format!("no agent is called {name}"))?;
        let id = child.id().with_context(|| format!("{name} has already ended"))?;
        child.kill().await.with_context(|| format!("cannot kill {name}"))?;
        self.killed.push(name.to_string());
        Ok(id)
    }

    /// The most memory that any living agent has had at a time, in bytes.
    pub fn peak_memory(&self) -> Option<u64> {
        let agents = self.children.iter().filter(|(name, _)| name != COORDINATOR);
        agents.filter_map(|(_, child)| peak_memory(child.id()?)).max()
    }

    /// Checks that no process has ended, but for those that were killed.
    ///
    /// # Errors
    /// When one has; with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        for (name, child) in &mut self.children {
            if !self.killed.contains(name)
                && let Some(status) = child.try_wait()?
            {
                let log = self.folder.path().join(&*name).join("log");
                bail!("{name} ended with {status}; the end of its log:\n{}", last_lines(&log));
            }
        }
        Ok(())
    }

    /// Ends every process, waits until they are gone, and removes the folder unless it is kept.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub async fn end(mut self, keep: bool) -> Result<Option<PathBuf>> {
        for (_, child) in &mut self.children {
            // It may have ended by itself.
            let _ = child.start_kill();
        }
        for (_, child) in &mut self.children {
            child.wait().await.context("cannot wait for a process")?;
        }
        if keep {
            return Ok(Some(self.folder.keep()));
        }
        self.folder.close().context("cannot remove the demo's folder")?;
        Ok(None)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts `suture COMMAND` and waits until it says where it listens.
    async fn start(&mut self, name: &str, command: &str, config: &str) -> Result<String> {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).context("cannot make a folder for the demo")?;
        let (config_file, log) = (folder.join("config.toml"), folder.join("log"));
        std::fs::write(&config_file, config).context("cannot write a configuration")?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut child = Command::new(program)
            .args([command, "--until-stdin-closes", "--config"])
            .arg(&config_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).context("cannot write a log")?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().expect("it is piped");
        self.children.push((name.to_string(), child));
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(START_TIMEOUT, lines.next_line()).await;
        let line = first.ok().and_then(Result::ok).flatten().unwrap_or_default();
        match line.strip_prefix("listening on ") {
            Some(address) => Ok(address.trim().to_string()),
            None => bail!("{name} did not start; the end of its log:\n{}", last_lines(&log)),
        }
    }
}

/// Timers short enough to watch: a killed agent counts as failed after two seconds.
fn coordinator_config(folder: &Path, setting: &Setting) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\ndata_dir = {}\n\n[timers]\nsuspect = \"800ms\"\ndead = \"2s\"\n\
         start_grace = \"1min\"\nstall = \"15s\"\nretry_first = \"200ms\"\nretry_max = \"5s\"\n\n\
         [repair]\npolicy = {}\n",
        quoted(&folder.join("data")),
        toml::Value::String(setting.policy.clone()),
    )
}

fn agent_config(name: &str, folder: &Path, coordinator: &str, setting: &Setting) -> String {
    format!(
        "name = \"{name}\"\ncoordinator = \"{coordinator}\"\nlisten = \"127.0.0.1:0\"\n\
         data_dir = {}\nmemory = \"{}B\"\n\n[timers]\nheartbeat = \"200ms\"\nstall = \"20s\"\n",
        quoted(&folder.join("data")),
        setting.memory,
    )
}

fn quoted(path: &Path) -> toml::Value {
    toml::Value::String(path.to_string_lossy().into_owned())
}

fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}
