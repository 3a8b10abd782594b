//! Configurations of daemons: whatever is accepted keeps its bounds, whatever is not is refused
//! with the name of the file.
//!
//! Place: the first step of a daemon's start. An input is a byte that chooses the daemon, and the
//! file.

use std::path::Path;
use std::time::Duration;

use anyhow::Error;
use suture_drivers::config::{AgentConfig, CoordinatorConfig};
use suture_drivers::metadata::PassRecord;

use crate::scratch;

/// Inputs to begin with: the commented files, and the other spellings.
pub fn valid() -> Vec<Vec<u8>> {
    let agent = include_str!("../../config/agent.toml");
    let coordinator = include_str!("../../config/coordinator.toml");
    let set = |text: &str| text.replace("\n# ", "\n").replace("\n#", "\n");
    let short = "listen = \"[::1]:1\"\ninsecure = true\n[timers]\nsuspect = \"100ms\"\n\
                 dead = \"4w\"\n[repair]\npolicy = \"chain/car/phases:7:by-risk\"\n\
                 [scrub]\nperiod = \"off\"\nrate = \"1.5MB\"\n[backup]\nevery = \"2h\"\n";
    let tiny = "name = \"n\"\nrack = \"r\"\nadvertise = \"10.0.0.1:7401\"\nmemory = \"1MiB\"\n\
                uplink = \"1Gbit\"\ndownlink = \"25MB/s\"\nrepair_cap = \"8kbit\"\n\
                coordinator = \"[::1]\"\n[timers]\nheartbeat = \"10ms\"\n";
    let inputs = [(0, coordinator), (0, short), (1, agent), (1, tiny)];
    let input = |daemon: u8, text: &str| [&[daemon], text.as_bytes()].concat();
    let set = [input(0, &set(coordinator)), input(1, &set(agent))];
    inputs.map(|(daemon, text)| input(daemon, text)).into_iter().chain(set).collect()
}

/// Gives whether the configuration is accepted.
///
/// # Panics
/// When an accepted one has a value that no daemon can work with, or a refusal does not name the
/// file.
pub fn check(input: &[u8]) -> bool {
    let Some((&daemon, text)) = input.split_first() else { return false };
    let path = &scratch::file("daemon.toml", text);
    let result = if daemon.is_multiple_of(2) {
        CoordinatorConfig::read(path).map(|config| check_coordinator(&config))
    } else {
        AgentConfig::read(path).map(|config| check_agent(&config))
    };
    result.map_err(|why| check_refusal(&why, path)).is_ok()
}

fn check_refusal(why: &Error, path: &Path) {
    let text = format!("{why:#}");
    assert!(text.contains(&path.display().to_string()), "{text}");
}

fn check_coordinator(config: &CoordinatorConfig) {
    let timers = config.timers();
    assert!(timers.suspect_after < timers.dead_after, "{timers:?}");
    assert!(timers.retry_first <= timers.retry_max && timers.stall_after.ns >= 1_000_000_000);
    let pass = PassRecord { begun: Some(u64::MAX), next: None, ended: None };
    let scrub = config.scrub.core(1_790_000_000, pass);
    assert!(scrub.rate.is_none_or(|rate| rate > 0), "{scrub:?}");
    assert!(config.backup.every.is_none_or(|every| every > Duration::ZERO));
    assert!(config.repair.policy.runnable().is_ok(), "{}", config.repair.policy);
    assert!(!config.data_dir.as_os_str().is_empty());
}

fn check_agent(config: &AgentConfig) {
    assert!((1..=128).contains(&config.name().len()), "{}", config.name());
    let links = config.links();
    assert!([links.uplink, links.downlink].iter().all(|rate| rate.is_finite() && *rate > 0.0));
    let rates = config.rates();
    for rate in [rates.uplink, rates.downlink] {
        assert!(rate.is_none_or(|rate| rate >= 1000 && rates.repair.is_none_or(|cap| cap <= rate)));
    }
    assert!(config.pool_bytes() >= 3 << 18 && config.pool_bytes() < config.memory);
    assert!(config.timers.heartbeat >= Duration::from_millis(10), "{:?}", config.timers);
}
