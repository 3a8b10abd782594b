//! `suture config`: whether a daemon's configuration can be used, and what it comes to.
//!
//! Place: before a daemon's start, or before it reads its configuration anew.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use suture_drivers::config::shown::ShownKey;
use suture_drivers::config::{AgentConfig, CoordinatorConfig};

use crate::daemon::{self, ConfigArgs};
use crate::outcome::Outcome;
use crate::output::{Format, print_json};

/// Check a configuration, or show what it comes to with all defaults.
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
    /// Say whether it can be used; nothing is opened or changed
    Check(OfRole),
    /// Print every key with its value, as a configuration that means the same
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
    let (path, keys) = read(&of)?;
    let shown = path.as_ref().map(|path| path.display().to_string());
    match (of.format, is_check) {
        (Format::Json, true) => print_json(&json!({ "file": shown, "usable": true }))?,
        (Format::Json, false) => {
            let keys: serde_json::Map<String, serde_json::Value> =
                keys.iter().map(|key| (key.path(), json!(key.value))).collect();
            print_json(&json!({ "file": shown, "keys": keys }))?;
        }
        (Format::Text, true) => match shown {
            Some(path) => outln!("{path} can be used"),
            None => outln!("there is no file: every key has its default"),
        },
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

fn read(of: &OfRole) -> Result<(Option<PathBuf>, Vec<ShownKey>)> {
    match of.role {
        ConfigRole::Coordinator => {
            let path = of.config.path(daemon::COORDINATOR_CONFIG);
            let read = path.as_deref().map(CoordinatorConfig::read).transpose()?;
            Ok((path, read.unwrap_or_default().shown()))
        }
        ConfigRole::Agent => {
            let path = of.config.path(daemon::AGENT_CONFIG);
            let read = path.as_deref().map(AgentConfig::read).transpose()?;
            Ok((path, read.unwrap_or_default().shown()))
        }
    }
}
