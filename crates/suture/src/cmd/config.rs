//! `suture config`: whether a daemon's configuration can be used, and what it comes to.
//!
//! Place: before a daemon's start, or before it reads its configuration anew.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use suture_drivers::config::hdfs::HdfsMode;
use suture_drivers::config::here::FoundHere;
use suture_drivers::config::shown::ShownKey;
use suture_drivers::config::{AgentConfig, CoordinatorConfig};
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::net;
use suture_edge::error::bad_input;
use suture_terminal::output::{Format, alarm, print_json};

use crate::cmd::agent::check_own;
use crate::daemon::{self, ConfigArgs};
use crate::outcome::Outcome;

/// Check a configuration, or show it with all defaults.
///
/// It is the file that the daemon of that role would read: --config, else SUTURE_CONFIG, else
/// /etc/suture/coordinator.toml or agent.toml, else none and every key at its default.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: ConfigSubcommand,
}

#[derive(clap::Subcommand)]
enum ConfigSubcommand {
    /// Check whether it can be used, and what in it is hardly meant; nothing is opened or changed
    Check(OfRole),
    /// Print every key with its value, as a configuration file
    Show(OfRole),
}

#[derive(clap::Args)]
struct OfRole {
    /// Whose configuration it is
    #[arg(value_enum)]
    role: ConfigRole,
    #[command(flatten)]
    config: ConfigArgs,
    /// What to print: text, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Whose configuration a file is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ConfigRole {
    /// Of `suture coordinator`
    Coordinator,
    /// Of `suture agent`
    Agent,
}

/// Checks or shows it.
///
/// # Errors
/// Bad input when it cannot be used.
pub fn run(args: Args) -> Result<Outcome> {
    let (is_check, of) = match args.command {
        ConfigSubcommand::Check(of) => (true, of),
        ConfigSubcommand::Show(of) => (false, of),
    };
    let ReadConfig { path, keys, advice } = read(&of, is_check)?;
    let shown = path.as_ref().map(|path| path.display().to_string());
    match (of.format, is_check) {
        (Format::Json, true) => {
            print_json(&json!({ "file": shown, "usable": true, "warnings": advice }))?;
        }
        (Format::Json, false) => {
            let keys: serde_json::Map<String, serde_json::Value> =
                keys.iter().map(|key| (key.path(), json!(key.value))).collect();
            print_json(&json!({ "file": shown, "keys": keys }))?;
        }
        (Format::Text, true) => {
            match shown {
                Some(path) => outln!("{path} can be used"),
                None => outln!("there is no file: every key has its default"),
            }
            advice.iter().for_each(|advice| alarm(format_args!("warning: {advice}")));
        }
        (Format::Text, false) => {
            match shown {
                Some(path) => outln!("# from {path}"),
                None => outln!("# no file: the defaults"),
            }
            outln!("{}", suture_drivers::config::shown::to_toml(&keys).trim_end());
        }
    }
    Ok(Outcome::Done)
}

/// What a daemon would read.
struct ReadConfig {
    path: Option<PathBuf>,
    keys: Vec<ShownKey>,
    /// What in it is hardly meant.
    advice: Vec<String>,
}

fn read(of: &OfRole, is_check: bool) -> Result<ReadConfig> {
    match of.role {
        ConfigRole::Coordinator => {
            let path = of.config.path(daemon::COORDINATOR_CONFIG);
            let read = path.as_deref().map(CoordinatorConfig::read).transpose()?;
            let config = read.unwrap_or_default();
            let mut advice = config.advice();
            if is_check {
                advice.extend(usable(path.as_deref(), config.found_here())?);
                let hdfs = (config.hdfs.mode != HdfsMode::Off).then_some(config.hdfs.listen);
                Listens {
                    at: vec![
                        ("listen", Some(config.listen)),
                        ("metrics", config.metrics),
                        ("web", config.web),
                        ("hdfs.listen", hdfs),
                    ],
                    is_insecure: config.insecure,
                    credentials: config.credentials.as_deref(),
                    role: AccessRole::Coordinator,
                }
                .check()?;
            }
            Ok(ReadConfig { path, keys: config.shown(), advice })
        }
        ConfigRole::Agent => {
            let path = of.config.path(daemon::AGENT_CONFIG);
            let read = path.as_deref().map(AgentConfig::read).transpose()?;
            let config = read.unwrap_or_default();
            let mut advice = config.advice();
            if is_check {
                advice.extend(usable(path.as_deref(), config.found_here())?);
                let credentials = Listens {
                    at: vec![("listen", Some(config.listen)), ("metrics", config.metrics)],
                    is_insecure: config.insecure,
                    credentials: config.credentials.as_deref(),
                    role: AccessRole::Agent,
                }
                .check()?;
                // In HDFS the DataNode gives the name, once it runs.
                if config.hdfs.socket.is_none() || config.name.is_some() {
                    check_own(&config, credentials.as_deref())?;
                }
            }
            Ok(ReadConfig { path, keys: config.shown(), advice })
        }
    }
}

/// What is hardly meant, of a configuration that a daemon would start with on this machine.
fn usable(path: Option<&Path>, found: FoundHere) -> Result<Vec<String>> {
    let FoundHere { faults, advice } = found;
    if faults.is_empty() {
        return Ok(advice);
    }
    let shown = path.map_or("the defaults".to_owned(), |path| path.display().to_string());
    Err(bad_input(format!("{shown}: of no use on this machine: {}", faults.join("; "))))
}

/// Where a daemon listens, by the keys that say so, and what lets others in there.
struct Listens<'a> {
    at: Vec<(&'static str, Option<SocketAddr>)>,
    is_insecure: bool,
    credentials: Option<&'a Path>,
    role: AccessRole,
}

impl Listens<'_> {
    /// What a daemon would refuse at its start, as far as that can be found out without listening.
    fn check(&self) -> Result<Option<Arc<Kept>>> {
        self.credentials.map_or(Ok(()), daemon::check_owner)?;
        let credentials = daemon::open_credentials(self.credentials, self.role)?;
        let is_open = self.is_insecure || credentials.is_some();
        let given: Vec<(&str, SocketAddr)> =
            self.at.iter().filter_map(|(key, at)| Some((*key, (*at)?))).collect();
        for (index, (key, at)) in given.iter().enumerate() {
            net::check_exposure(*at, is_open).map_err(|why| bad_input(format!("{key}: {why}")))?;
            if let Some((other, _)) = given[..index].iter().find(|(_, other)| collide(*at, *other))
            {
                return Err(bad_input(format!("{key} and {other} are both port {}", at.port())));
            }
        }
        Ok(credentials)
    }
}

/// Whether not both can be listened to.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (first, second) = (one.ip(), other.ip());
    let is_any = first.is_unspecified() || second.is_unspecified();
    let is_same = first == second || (is_any && first.is_ipv4() == second.is_ipv4());
    is_same && one.port() == other.port() && one.port() != 0
}
