//! The processes of a demo or a testbed: one coordinator and its agents, on loopback or each in a
//! network namespace of its own, and their folder.
//!
//! Place: around the whole life of a repair. They are real processes, started as an operator
//! would start them, and whatever happens to the demo they end with it: they hold the read end of
//! a pipe and stop when it closes, so that not even killing the demo leaves one behind.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The least of a core that an agent may be given.
const CORES_MIN: f64 = 0.001;

/// How often agents report.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// A process that has not reported where it listens after this is not going to.
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

/// Where a process runs, and where it listens there.
#[derive(Clone, Debug)]
pub struct Site {
    /// The network namespace; none: that of this process.
    pub namespace: Option<String>,
    /// The address that it is given.
    pub listen: SocketAddr,
    /// Where it exports what it counts, if anywhere.
    pub metrics: Option<SocketAddr>,
}

impl Site {
    /// A command that runs there.
    fn command(&self, program: &Path) -> Command {
        let Some(namespace) = &self.namespace else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        command
    }

    /// The lines of a configuration that say where to listen.
    fn config(&self) -> String {
        let is_open = !self.listen.ip().is_loopback();
        let insecure = if is_open { "insecure = true\n" } else { "" };
        let metrics = self.metrics.map(|address| format!("metrics = \"{address}\"\n"));
        format!("listen = \"{}\"\n{insecure}{}", self.listen, metrics.unwrap_or_default())
    }

    /// In the namespace of this process, on a free port of loopback.
    pub fn loopback() -> Site {
        Site { namespace: None, listen: SocketAddr::from(([127, 0, 0, 1], 0)), metrics: None }
    }
}

/// One agent as it is to be started.
#[derive(Clone, Debug)]
pub struct AgentSpec {
    /// The name of its node.
    pub name: String,
    /// The rack that it names, if any.
    pub rack: Option<String>,
    /// The link rates that it is configured with, and keeps; none: no limits.
    pub link: Option<LinkRates>,
    /// The most memory that it uses.
    pub memory: u64,
    /// What it may count with of this machine's cores.
    pub cores: f64,
    /// What it marks packets of repair with (`repair_dscp`), if with anything.
    pub mark: Option<&'static str>,
    /// The site that its process runs at.
    pub site: Site,
}

/// After how much silence a node is suspect, and counts as failed.
#[derive(Clone, Copy, Debug)]
pub struct SilenceTimers {
    /// After so long it is no longer used.
    pub suspect: Duration,
    /// Its chunks are lost.
    pub dead: Duration,
    /// As long after a start of the coordinator for those that have not reported since.
    pub start_grace: Duration,
}

/// The processes of a cluster and how its coordinator repairs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where the coordinator runs.
    pub coordinator: Site,
    /// In the order in which they are started.
    pub agents: Vec<AgentSpec>,
    /// The policy as it is written.
    pub policy: String,
    /// When silence means what.
    pub silence: SilenceTimers,
    /// Where the coordinator shows its page, if anywhere.
    pub web: Option<SocketAddr>,
}

/// So many alike agents for a cluster on loopback.
#[derive(Clone, Debug)]
pub struct AlikeAgents {
    /// How many, one process each: `node-01` and on.
    pub agents: usize,
    /// In how many racks they are; 0: in none.
    pub racks: usize,
    /// The links, agent by agent and then from the first again; none: no limits.
    pub links: Vec<LinkRates>,
    /// Memory of each agent.
    pub memory: u64,
    /// What each may count with of this machine's cores.
    pub cores: f64,
}

impl Setting {
    /// On loopback, with timers short enough to watch: a killed agent counts as failed after two
    /// seconds.
    pub fn on_loopback(alike: &AlikeAgents, policy: String) -> Setting {
        let agent = |(index, link): (usize, Option<LinkRates>)| {
            let rack = index * alike.racks / alike.agents + 1;
            AgentSpec {
                name: format!("node-{:02}", index + 1),
                rack: (alike.racks > 0).then(|| format!("rack-{rack}")),
                link,
                memory: alike.memory,
                cores: alike.cores,
                mark: None,
                site: Site::loopback(),
            }
        };
        let links = alike.links.iter().copied().map(Some).cycle();
        let links = links.chain(std::iter::repeat(None)).take(alike.agents);
        let (suspect, dead) = (Duration::from_millis(800), Duration::from_secs(2));
        Setting {
            coordinator: Site::loopback(),
            agents: links.enumerate().map(agent).collect(),
            policy,
            silence: SilenceTimers { suspect, dead, start_grace: Duration::from_secs(60) },
            web: None,
        }
    }

    /// The link of the agent that is called so, if it has limits.
    pub fn link_of(&self, name: &str) -> Option<LinkRates> {
        self.agents.iter().find(|agent| agent.name == name)?.link
    }
}

/// The name of the coordinator among the processes: no node has it.
pub const COORDINATOR: &str = "coordinator";

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
        self.address = self.start(COORDINATOR, "coordinator", &setting.coordinator, &text).await?;
        Ok(())
    }

    /// Starts one more agent.
    ///
    /// # Errors
    /// When the process cannot be started or does not listen within 20 seconds.
    pub async fn start_agent(&mut self, agent: &AgentSpec) -> Result<()> {
        let text = agent_config(&self.path(&agent.name), &self.address, agent);
        self.start(&agent.name, "agent", &agent.site, &text).await?;
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

    /// The process number of what is called so, if it runs.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.children.iter().find(|(agent, _)| agent == name).and_then(|(_, child)| child.id())
    }

    /// Sends a signal to an agent.
    ///
    /// # Errors
    /// When no agent has the name, or it has ended.
    pub fn signal(&self, name: &str, signal: rustix::process::Signal) -> Result<()> {
        let process = self.id(name).and_then(|id| rustix::process::Pid::from_raw(id as i32));
        let process = process.with_context(|| format!("{name} does not run"))?;
        rustix::process::kill_process(process, signal)
            .with_context(|| format!("cannot signal {name}"))
    }

    /// Kills the coordinator without warning, and forgets it: it may be started again.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill_coordinator(&mut self) -> Result<()> {
        let at = self.children.iter().position(|(name, _)| name == COORDINATOR);
        let at = at.context("there is no coordinator")?;
        let (_, mut child) = self.children.remove(at);
        child.kill().await.context("cannot kill the coordinator")
    }

    /// Kills all processes without warning, and forgets them: each may be started again, with what
    /// it has stored.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub async fn kill_all(&mut self) -> Result<()> {
        for (_, child) in &mut self.children {
            // It may have ended by itself.
            let _ = child.start_kill();
        }
        for (_, mut child) in self.children.drain(..) {
            child.wait().await.context("cannot wait for a process")?;
        }
        Ok(())
    }

    /// Where an agent keeps its chunks.
    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.path(name).join("data")
    }

    /// The most memory that any living agent has had at a time, in bytes.
    pub fn peak_memory(&self) -> Option<u64> {
        self.agents().into_iter().filter_map(peak_memory).max()
    }

    /// The process numbers of the living agents.
    pub fn agents(&self) -> Vec<u32> {
        let agents = self.children.iter().filter(|(name, _)| name != COORDINATOR);
        agents.filter_map(|(_, child)| child.id()).collect()
    }

    /// The process number of the coordinator, if it runs.
    pub fn coordinator(&self) -> Option<u32> {
        self.id(COORDINATOR)
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
        self.kill_all().await?;
        if keep {
            return Ok(Some(self.folder.keep()));
        }
        self.folder.close().context("cannot remove the demo's directory")?;
        Ok(None)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts `suture COMMAND` and waits until it reports where it listens.
    async fn start(
        &mut self,
        name: &str,
        command: &str,
        site: &Site,
        config: &str,
    ) -> Result<String> {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).context("cannot make a directory for the demo")?;
        let (config_file, log) = (folder.join("config.toml"), folder.join("log"));
        std::fs::write(&config_file, config).context("cannot write a configuration")?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut child = site
            .command(&program)
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

/// The share of this machine's cores that each of so many agents on it has.
pub fn core_share(agents: usize) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores as f64 / agents.max(1) as f64).max(CORES_MIN)
}

fn coordinator_config(folder: &Path, setting: &Setting) -> String {
    let SilenceTimers { suspect, dead, start_grace } = setting.silence;
    let web = setting.web.map(|address| format!("web = \"{address}\"\n")).unwrap_or_default();
    format!(
        "{}{web}data_dir = {}\n\n[timers]\nsuspect = \"{}ms\"\ndead = \"{}ms\"\n\
         start_grace = \"{}ms\"\nstall = \"15s\"\nretry_first = \"200ms\"\nretry_max = \"5s\"\n\n\
         [repair]\npolicy = {}\nrebalance_after = \"off\"\n",
        setting.coordinator.config(),
        quoted(&folder.join("data")),
        suspect.as_millis(),
        dead.as_millis(),
        start_grace.as_millis(),
        toml::Value::String(setting.policy.clone()),
    )
}

fn agent_config(folder: &Path, coordinator: &str, agent: &AgentSpec) -> String {
    let text = |text: &str| toml::Value::String(text.to_string());
    let rate = |key: &str, rate: f64| format!("{key} = \"{}B\"\n", rate.round());
    let rack = agent.rack.as_deref().map(|rack| format!("rack = {}\n", text(rack)));
    let link = agent.link.map(|link| rate("uplink", link.up) + &rate("downlink", link.down));
    let mark = agent.mark.map(|mark| format!("repair_dscp = \"{mark}\"\n"));
    format!(
        "{}{}{}name = {}\ncoordinator = \"{coordinator}\"\n{}\
         data_dir = {}\nmemory = \"{}B\"\ncores = {}\n\n\
         [timers]\nheartbeat = \"{}ms\"\nstall = \"20s\"\n",
        rack.unwrap_or_default(),
        link.unwrap_or_default(),
        mark.unwrap_or_default(),
        text(&agent.name),
        agent.site.config(),
        quoted(&folder.join("data")),
        agent.memory,
        agent.cores,
        HEARTBEAT.as_millis(),
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
