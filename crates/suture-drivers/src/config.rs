//! The configuration of coordinator and agents, from TOML.
//!
//! Place: the first step of a daemon's start.
//! The commented files in `config/` are the documentation, and a test keeps them equal to the
//! defaults below. An unknown key is refused with its line: a misspelt limit must not be a limit
//! that silently does not exist.

pub mod advice;
mod checks;
pub mod hdfs;
pub mod here;
pub mod rates;
pub mod reload;
pub mod shown;
mod spelling;
pub mod throttle;

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use suture_edge::bounded::read_text;
use suture_edge::error::{bad_input, brief};
use suture_repair::coordinator::ScrubConfig;
use suture_repair::event::Timers;
use suture_repair::policy::Policy;
use suture_repair::time::Span;

use crate::address::parse_address;
use crate::limit::Rates;
use crate::metadata::PassRecord;
pub use checks::{check_cores, check_memory, check_name, check_rate};
use checks::{check_every, check_path, check_timer};
use hdfs::{HdfsAgentSettings, HdfsSettings};
use rates::{PlannedLinks, RatesConfig};
pub use spelling::parse_duration;
use spelling::{
    address, dscp_or_off, duration, duration_or_off, policy, rate, rate_or_off, size, size_or_none,
    some_address,
};
use throttle::ThrottleSettings;

/// Where a coordinator listens by default.
pub const COORDINATOR_ADDRESS: &str = "127.0.0.1:7400";

/// The rate of a link that is not configured, in bytes per second: 1 Gbit/s.
const LINK_ASSUMED: f64 = 125e6;

/// No configuration is longer, whatever is in its comments.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longer lines are not shown.
const LINE_CHARS_MAX: usize = 500;

/// Names are for tables and plans: long enough for a host name.
const NAME_BYTES_MAX: usize = 128;

/// Shorter times are those of the network.
const TIMER_MIN: Duration = Duration::from_millis(100);

/// The longest timer, a year. A longer one is meant to last for ever, and is refused because it
/// would not.
const TIMER_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is done every so often is not done all the time.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// A disk may take that long for one write.
const STALL_MIN: Duration = Duration::from_secs(1);

/// More of them are load, fewer are silence.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
const HEARTBEAT_MAX: Duration = Duration::from_secs(60);

/// Rates of links, in bytes per second: from what a slice still passes to 100 Tbit/s.
const RATE_MIN: f64 = 1e3;
const RATE_MAX: f64 = 12.5e12;

/// What an agent works with at all: a few slices of each of a stripe's lanes.
const MEMORY_MIN: u64 = 1 << 20;

/// Threads for an agent's connections, each of which moves some 2 GB/s in and out.
const THREADS_MAX: usize = 64;

/// Cores that repair may have: parts of one, where a machine has many agents.
const CORES_MIN: f64 = 0.001;
const CORES_MAX: f64 = 4096.0;

/// As many as an agent takes unasked: 60 Gbit/s in and out.
const THREADS_UNASKED: usize = 4;

/// What the audit log is called in a data_dir.
const AUDIT_NAME: &str = "audit.jsonl";

/// A commit that is not answered within this is asked for again. The metadata thread answers
/// within milliseconds; longer means that the disk failed it.
const COMMIT_RETRY: Span = Span::from_secs(5);

/// A claim is prolonged this often: a third of the time that it lasts.
const CLAIM_PROLONG: Span = Span::from_secs(100);

/// The file of `suture coordinator --config`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoordinatorConfig {
    /// Address for agents and clients.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Where its metadata lives.
    pub data_dir: PathBuf,
    /// The folder with its certificate, key and trusted authorities; none: no end is authenticated.
    pub credentials: Option<PathBuf>,
    /// Whether it may listen beyond loopback without credentials.
    pub insecure: bool,
    /// Where changes that callers ask for are written down, if not in its data_dir.
    pub audit: Option<PathBuf>,
    /// Where monitoring asks for numbers, if anywhere.
    #[serde(deserialize_with = "some_address")]
    pub metrics: Option<SocketAddr>,
    /// Where browsers find its page, if anywhere.
    #[serde(deserialize_with = "some_address")]
    pub web: Option<SocketAddr>,
    /// When silence means what.
    pub timers: CoordinatorTimers,
    /// How it plans and schedules repairs.
    pub repair: RepairConfig,
    /// What repair may take, until an operator says otherwise.
    pub throttle: ThrottleSettings,
    /// How copies that no client reads are searched for damage.
    pub scrub: ScrubSettings,
    /// How often agents get a backup of the metadata.
    pub backup: BackupSettings,
    /// How it is joined to HDFS.
    pub hdfs: HdfsSettings,
}

/// The coordinator's table `[timers]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoordinatorTimers {
    /// Silence after which a node is no longer used.
    #[serde(deserialize_with = "duration")]
    pub suspect: Duration,
    /// Silence after which its chunks are lost.
    #[serde(deserialize_with = "duration")]
    pub dead: Duration,
    /// What nodes get to join after a start.
    #[serde(deserialize_with = "duration")]
    pub start_grace: Duration,
    /// A repair without progress for so long is planned anew.
    #[serde(deserialize_with = "duration")]
    pub stall: Duration,
    /// The wait after a first failed attempt.
    #[serde(deserialize_with = "duration")]
    pub retry_first: Duration,
    /// The longest such wait.
    #[serde(deserialize_with = "duration")]
    pub retry_max: Duration,
}

/// The coordinator's table `[repair]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepairConfig {
    /// How repairs are planned and run.
    #[serde(deserialize_with = "policy")]
    pub policy: Policy,
    /// Chunks move to nodes that hold much less than others after so long without change; none:
    /// they stay where they are.
    #[serde(deserialize_with = "duration_or_off")]
    pub rebalance_after: Option<Duration>,
}

/// The coordinator's table `[scrub]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScrubSettings {
    /// Every copy is read once in this time; none: only when an operator wants it.
    #[serde(deserialize_with = "duration_or_off")]
    pub period: Option<Duration>,
    /// Bytes per second that this reads of each node's disk at most.
    #[serde(deserialize_with = "rate_or_off")]
    pub rate: Option<f64>,
}

/// The coordinator's table `[backup]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackupSettings {
    /// One agent after the other gets a copy this often; none: never.
    #[serde(deserialize_with = "duration_or_off")]
    pub every: Option<Duration>,
}

/// The file of `suture agent --config`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// The node's name; the host's when there is none.
    pub name: Option<String>,
    /// The rack that it is in, if it has one.
    pub rack: Option<String>,
    /// Where the coordinator listens.
    pub coordinator: String,
    /// Where it listens itself.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// What others connect to, if that is another address.
    #[serde(deserialize_with = "some_address")]
    pub advertise: Option<SocketAddr>,
    /// Where its chunks live.
    pub data_dir: PathBuf,
    /// Bytes of its file system that are not for chunks, if not the usual part.
    #[serde(deserialize_with = "size_or_none")]
    pub keep_free: Option<u64>,
    /// The most memory for slices and buffers.
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// Threads for its connections, if not as many as suit the machine.
    pub threads: Option<usize>,
    /// Cores that repair may have, if not all of the machine's.
    pub cores: Option<f64>,
    /// Bytes per second that it may send.
    #[serde(deserialize_with = "rate")]
    pub uplink: Option<f64>,
    /// Bytes per second that it may receive.
    #[serde(deserialize_with = "rate")]
    pub downlink: Option<f64>,
    /// Bytes per second of repair in each direction.
    #[serde(deserialize_with = "rate")]
    pub repair_cap: Option<f64>,
    /// What packets of repair are marked with (DSCP); none: as all others.
    #[serde(deserialize_with = "dscp_or_off")]
    pub repair_dscp: Option<u8>,
    /// How it measures what its links carry.
    pub rates: RatesConfig,
    /// The folder with its certificate, key and trusted authorities; none: no end is authenticated.
    pub credentials: Option<PathBuf>,
    /// Whether it may listen beyond loopback without credentials.
    pub insecure: bool,
    /// Where monitoring asks for numbers, if anywhere.
    #[serde(deserialize_with = "some_address")]
    pub metrics: Option<SocketAddr>,
    /// When it does what.
    pub timers: AgentTimers,
    /// The DataNode whose blocks are its chunks.
    pub hdfs: HdfsAgentSettings,
}

/// The agent's table `[timers]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTimers {
    /// How often it reports.
    #[serde(deserialize_with = "duration")]
    pub heartbeat: Duration,
    /// A task without progress for so long is given up.
    #[serde(deserialize_with = "duration")]
    pub stall: Duration,
    /// How often it lists its chunks unasked.
    #[serde(deserialize_with = "duration")]
    pub inventory: Duration,
    /// A disk of which a single call takes so long counts as one that hangs, and its node as
    /// silent: longer than a good disk ever takes, with all that it tries before it gives an error.
    #[serde(deserialize_with = "duration")]
    pub disk_hangs: Duration,
}

impl CoordinatorConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Bad input: the file cannot be read, has an unknown key or a value that makes no sense.
    pub fn read(path: &Path) -> Result<CoordinatorConfig> {
        let config: CoordinatorConfig = read(path)?;
        config.check().map_err(|what| bad_input(format!("{}: {what}", path.display())))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let timers = &self.timers;
        check_path("data_dir", &self.data_dir)?;
        for (key, path) in [("credentials", &self.credentials), ("audit", &self.audit)] {
            path.as_deref().map_or(Ok(()), |path| check_path(key, path))?;
        }
        check_timer("suspect", timers.suspect, TIMER_MIN..=TIMER_MAX)?;
        check_timer("dead", timers.dead, TIMER_MIN..=TIMER_MAX)?;
        check_timer("start_grace", timers.start_grace, TIMER_MIN..=TIMER_MAX)?;
        check_timer("stall", timers.stall, STALL_MIN..=TIMER_MAX)?;
        check_timer("retry_first", timers.retry_first, TIMER_MIN..=TIMER_MAX)?;
        check_timer("retry_max", timers.retry_max, TIMER_MIN..=TIMER_MAX)?;
        let after = self.repair.rebalance_after.unwrap_or(TIMER_MAX);
        check_timer("rebalance_after", after, TIMER_MIN..=TIMER_MAX)?;
        check_every("scrub: period", self.scrub.period)?;
        check_every("backup: every", self.backup.every)?;
        self.hdfs.check()?;
        self.throttle.intent()?;
        if timers.suspect >= timers.dead {
            return Err("timers: suspect must be shorter than dead".into());
        }
        if timers.retry_first > timers.retry_max {
            return Err("timers: retry_first must not be longer than retry_max".into());
        }
        Ok(())
    }

    /// Where changes that callers ask for are written down.
    pub fn audit(&self) -> PathBuf {
        self.audit.clone().unwrap_or_else(|| self.data_dir.join(AUDIT_NAME))
    }

    /// The timers as the core wants them.
    pub fn timers(&self) -> Timers {
        Timers {
            suspect_after: span(self.timers.suspect),
            dead_after: span(self.timers.dead),
            start_grace: span(self.timers.start_grace),
            stall_after: span(self.timers.stall),
            commit_retry: COMMIT_RETRY,
            claim_prolong: CLAIM_PROLONG,
            retry_first: span(self.timers.retry_first),
            retry_max: span(self.timers.retry_max),
        }
    }
}

impl ScrubSettings {
    /// As the core wants them, for a coordinator that starts `now`, in seconds since 1970.
    pub fn core(&self, now: u64, pass: PassRecord) -> ScrubConfig {
        // One that begins tomorrow was recorded by a clock that was wrong.
        let age = |begun: u64| now.checked_sub(begun).map(Span::from_secs);
        ScrubConfig {
            period: self.period.map(span),
            rate: self.rate.map(|rate| rate.max(1.0) as u64),
            begun_before: pass.begun.and_then(age),
            next: pass.next,
        }
    }
}

impl AgentConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Bad input: the file cannot be read, has an unknown key or a value that makes no sense.
    pub fn read(path: &Path) -> Result<AgentConfig> {
        let config: AgentConfig = read(path)?;
        config.check().map_err(|what| bad_input(format!("{}: {what}", path.display())))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        check_name("node", &self.name())?;
        self.rack.as_deref().map_or(Ok(()), |rack| check_name("rack", rack))?;
        check_path("data_dir", &self.data_dir)?;
        self.credentials.as_deref().map_or(Ok(()), |path| check_path("credentials", path))?;
        parse_address(&self.coordinator).map_err(|why| format!("coordinator: {why}"))?;
        let advertised = self.advertise.unwrap_or(self.listen).ip();
        if advertised.is_unspecified() {
            return Err(format!(
                "no other machine can connect to {advertised}: set advertise to an address that they reach"
            ));
        }
        if let Some(address) = self.advertise.filter(|address| address.port() == 0) {
            return Err(format!("advertise: nobody can connect to port 0 of {}", address.ip()));
        }
        check_timer("heartbeat", self.timers.heartbeat, HEARTBEAT_MIN..=HEARTBEAT_MAX)?;
        check_timer("stall", self.timers.stall, STALL_MIN..=TIMER_MAX)?;
        check_timer("inventory", self.timers.inventory, TIMER_MIN..=TIMER_MAX)?;
        check_timer("disk_hangs", self.timers.disk_hangs, TIMER_MIN..=TIMER_MAX)?;
        self.check_rates()?;
        if let Some(threads) = self.threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
            return Err(format!("threads: {threads} is not from 1 to {THREADS_MAX}"));
        }
        self.cores.map_or(Ok(()), |cores| check_cores("cores", cores))?;
        check_memory("memory", self.memory)
    }

    fn check_rates(&self) -> Result<(), String> {
        let rates =
            [("uplink", self.uplink), ("downlink", self.downlink), ("repair_cap", self.repair_cap)];
        for (key, rate) in rates {
            rate.map_or(Ok(()), |rate| check_rate(key, rate))?;
            if self.repair_cap > rate && rate.is_some() {
                return Err(format!("repair_cap must not be above {key}"));
            }
        }
        Ok(())
    }

    /// The name that is given, or the host's.
    pub fn name(&self) -> String {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.name.clone().unwrap_or_else(host)
    }

    /// What the links carry, for planning.
    pub fn links(&self) -> PlannedLinks {
        let rate = |given: Option<f64>| given.unwrap_or(LINK_ASSUMED);
        PlannedLinks { uplink: rate(self.uplink), downlink: rate(self.downlink) }
    }

    /// What traffic is limited to.
    pub fn rates(&self) -> Rates {
        let whole = |rate: Option<f64>| rate.map(|rate| rate.max(1.0) as u64);
        Rates {
            uplink: whole(self.uplink),
            downlink: whole(self.downlink),
            repair: whole(self.repair_cap),
        }
    }

    /// Threads for its connections: those asked for, or half of the machine's cores, of which it
    /// takes at most 4; the other half is for disks and for others.
    pub fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or((cores / 2).clamp(1, THREADS_UNASKED))
    }

    /// Cores that repair may have: those that are given, or all that this process may use.
    pub fn cores(&self) -> f64 {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        self.cores.unwrap_or(all as f64)
    }

    /// Memory for slices: what buffers of sockets, files and puts in progress leave of the whole.
    pub fn pool_bytes(&self) -> u64 {
        self.memory / 4 * 3
    }
}

impl Default for CoordinatorConfig {
    fn default() -> CoordinatorConfig {
        CoordinatorConfig {
            listen: COORDINATOR_ADDRESS.parse().expect("it is an address"),
            data_dir: "/var/lib/suture/coordinator".into(),
            credentials: None,
            insecure: false,
            audit: None,
            metrics: None,
            web: None,
            timers: CoordinatorTimers::default(),
            repair: RepairConfig::default(),
            throttle: ThrottleSettings::default(),
            scrub: ScrubSettings::default(),
            backup: BackupSettings::default(),
            hdfs: HdfsSettings::default(),
        }
    }
}

impl Default for CoordinatorTimers {
    fn default() -> CoordinatorTimers {
        CoordinatorTimers {
            suspect: Duration::from_secs(5),
            dead: Duration::from_secs(60),
            start_grace: Duration::from_secs(120),
            stall: Duration::from_secs(30),
            retry_first: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
        }
    }
}

impl Default for RepairConfig {
    fn default() -> RepairConfig {
        RepairConfig {
            policy: "suture".parse().expect("it is a preset"),
            rebalance_after: Some(Duration::from_secs(300)),
        }
    }
}

impl Default for ScrubSettings {
    fn default() -> ScrubSettings {
        ScrubSettings { period: Some(Duration::from_secs(28 * 24 * 3600)), rate: Some(32e6) }
    }
}

impl Default for BackupSettings {
    fn default() -> BackupSettings {
        BackupSettings { every: Some(Duration::from_secs(3600)) }
    }
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        AgentConfig {
            name: None,
            rack: None,
            coordinator: COORDINATOR_ADDRESS.into(),
            listen: "127.0.0.1:7401".parse().expect("it is an address"),
            advertise: None,
            data_dir: "/var/lib/suture/agent".into(),
            keep_free: None,
            memory: 256 << 20,
            threads: None,
            cores: None,
            uplink: None,
            downlink: None,
            repair_cap: None,
            repair_dscp: None,
            rates: RatesConfig::default(),
            credentials: None,
            insecure: false,
            metrics: None,
            timers: AgentTimers::default(),
            hdfs: HdfsAgentSettings::default(),
        }
    }
}

impl Default for AgentTimers {
    fn default() -> AgentTimers {
        AgentTimers {
            heartbeat: Duration::from_secs(1),
            stall: Duration::from_secs(30),
            inventory: Duration::from_secs(600),
            disk_hangs: Duration::from_secs(60),
        }
    }
}

/// A duration as the core counts it.
pub fn span(duration: Duration) -> Span {
    Span { ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text =
        File::open(path).and_then(|file| read_text(file, FILE_BYTES_MAX)).map_err(|error| {
            bad_input(format!("cannot read the configuration '{}': {error}", path.display()))
        })?;
    toml::from_str(&text).map_err(|error| {
        let why = fault(&error, &text);
        bad_input(anyhow!("in the configuration '{}': {why}", path.display()))
    })
}

/// The parser's message, which shows the line and points at the key; without them where the line
/// is too long to be shown.
fn fault(error: &toml::de::Error, text: &str) -> String {
    let whole = error.to_string();
    if whole.lines().all(|line| line.len() <= LINE_CHARS_MAX) {
        return whole.trim_end().to_string();
    }
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("line {line}: {}", brief(error.message(), LINE_CHARS_MAX))
}

#[cfg(test)]
impl CoordinatorConfig {
    /// What a core in tests is begun with: of its first epoch, with nothing carried over.
    pub(crate) fn core(&self) -> suture_repair::coordinator::Config {
        suture_repair::coordinator::Config {
            epoch: 1,
            timers: self.timers(),
            policy: self.repair.policy,
            seed: 1,
            paused: false,
            failed: Vec::new(),
            draining: Vec::new(),
            paused_nodes: Vec::new(),
            claims: false,
            liveness: suture_repair::event::Liveness::Own,
            deletes: true,
            in_flight_max: suture_repair::coordinator::IN_FLIGHT_MAX,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
            gather: suture_repair::time::Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::spelling::parse_duration;
    use super::*;

    fn error_of<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read::<T>(file.path()).unwrap_err().to_string()
    }

    #[test]
    fn the_commented_files_are_the_defaults() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let coordinator = CoordinatorConfig::read(&folder.join("coordinator.toml")).unwrap();
        assert_eq!(coordinator, CoordinatorConfig::default());
        let agent = AgentConfig::read(&folder.join("agent.toml")).unwrap();
        assert_eq!(agent, AgentConfig::default());
    }

    #[test]
    fn a_pass_that_began_tomorrow_holds_up_none() {
        let settings = CoordinatorConfig::default().scrub;
        let begun = |begun: u64| {
            let pass = PassRecord { begun: Some(begun), ..PassRecord::default() };
            settings.core(1000, pass).begun_before
        };
        assert_eq!(begun(990), Some(Span::from_secs(10)));
        assert_eq!(begun(1001), None);
    }

    #[test]
    fn the_keys_that_are_commented_out_are_keys() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let text = fs::read_to_string(folder.join("agent.toml")).unwrap();
        let with = |line: &str| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = \"") => format!("{key}\n"),
            _ => format!("{line}\n"),
        };
        let agent: AgentConfig =
            toml::from_str(&text.lines().map(with).collect::<String>()).unwrap();
        assert!(agent.name.is_some() && agent.advertise.is_some() && agent.repair_cap.is_some());
        assert_eq!((agent.rack.as_deref(), agent.keep_free), (Some("r1"), Some(1 << 30)));
        assert_eq!(agent.links(), PlannedLinks { uplink: 125e6, downlink: 125e6 });
        assert!(agent.hdfs.socket.is_some() && agent.hdfs.user.is_some());
        assert!(agent.hdfs.pool.is_some() && agent.metrics.is_some());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_name_and_line() {
        let error = error_of::<AgentConfig>("name = \"a\"\n\nmemroy = \"1GiB\"\n");
        assert!(error.contains("memroy") && error.contains("line 3"), "{error}");
        let error = error_of::<CoordinatorConfig>("[timers]\ndaed = \"1min\"\n");
        assert!(error.contains("daed") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_with_its_line() {
        for (text, word) in [
            ("memory = \"lots\"", "lots"),
            ("uplink = \"200\"", "200Mbit"),
            ("[timers]\nheartbeat = \"0s\"", "above zero"),
            ("advertise = \"host:1\"", "127.0.0.1:7401"),
            ("listen = \"localhost\"", "listen"),
        ] {
            let error = error_of::<AgentConfig>(text);
            assert!(error.contains(word) && error.contains("line"), "{error}");
        }
        let error = error_of::<CoordinatorConfig>("[repair]\npolicy = \"sutur\"");
        assert!(error.contains("suture"), "{error}");
    }

    #[test]
    fn scrubbing_can_be_left_to_operators_and_to_the_disks() {
        let text = "[scrub]\nperiod = \"off\"\nrate = \"off\"";
        let config: CoordinatorConfig = toml::from_str(text).unwrap();
        assert_eq!(config.scrub.core(7, PassRecord::default()), ScrubConfig::OFF);
        let error = error_of::<CoordinatorConfig>("[scrub]\nperiod = \"never\"");
        assert!(error.contains("never") && error.contains("4w"), "{error}");
    }

    #[test]
    fn a_lease_outlives_lost_questions_and_ends_soon() {
        let check = |text: &str| toml::from_str::<CoordinatorConfig>(text).unwrap().check();
        assert_eq!(check("[hdfs]\nmode = \"repair\"\nlease = \"3s\""), Ok(()));
        for (text, word) in [("lease = \"2s\"", "3 times"), ("lease = \"2min\"", "at most")] {
            let error = check(&format!("[hdfs]\n{text}")).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let error = error_of::<CoordinatorConfig>("[hdfs]\nmode = \"on\"");
        assert!(error.contains("observe"), "{error}");
    }

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10min"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_duration("4w"), Ok(Duration::from_secs(4 * 7 * 24 * 3600)));
        for text in ["", "5", "s", "5 s", "5m", "-5s", "1.5h", "99999999999999999999h"] {
            assert!(parse_duration(text).unwrap_err().contains("500ms"), "{text}");
        }
    }
}
