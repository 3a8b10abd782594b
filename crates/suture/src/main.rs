//! The one binary: reads the command line, runs one command, turns its outcome into a status.
//!
//! Place: the edge of everything. Commands live in `cmd/`, one file each; this file only routes.
#![forbid(unsafe_code)]
// The status in JSON is one expression of a macro that expands to as many as it has fields.
#![recursion_limit = "256"]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use suture_terminal::verbosity::{Verbosity, VerbosityArgs};

// First, for its macros.
#[macro_use]
extern crate suture_terminal;

mod address;
mod cmd;
mod daemon;
mod help;
mod in_flight;
mod listing;
mod log;
mod outcome;
mod quiet;
mod same;
mod service_manager;
mod standard;
mod status;
mod timestamp;
mod web;

/// Rebuilds lost erasure-coded data as fast as the network allows, and proves every byte.
#[derive(Parser)]
#[command(name = "suture", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    Encode(cmd::encode::Args),
    Decode(cmd::decode::Args),
    Rebuild(cmd::rebuild::Args),
    Verify(cmd::verify::Args),
    Codes(cmd::codes::Args),
    Coordinator(cmd::coordinator::Args),
    Agent(cmd::agent::Args),
    Put(cmd::put::Args),
    Get(cmd::get::Args),
    Load(cmd::load::Args),
    Ls(cmd::ls::Args),
    Stat(cmd::stat::Args),
    Rm(cmd::rm::Args),
    Status(cmd::status::Args),
    Df(cmd::df::Args),
    Node(cmd::node::Args),
    Repair(cmd::repair::Args),
    Scrub(cmd::scrub::Args),
    Metadata(cmd::metadata::Args),
    Cert(cmd::cert::Args),
    Swarm(cmd::swarm::Args),
    Replay(cmd::replay::Args),
    Plan(cmd::plan::Args),
    Simulate(cmd::simulate::Args),
    Calibrate(cmd::calibrate::Args),
    Durability(cmd::durability::Args),
    Reproduce(cmd::reproduce::Args),
    Testbed(cmd::testbed::Args),
    Config(cmd::config::Args),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return outcome::usage::report(error, Cli::command),
    };
    cli.verbosity.apply();
    if Verbosity::current() > Verbosity::Normal {
        log::begin("error");
    }
    suture_files::output::before_first_temporary(daemon::remove_temporaries_on_signals);
    let outcome = run(cli.command);
    log::flush();
    outcome::report(outcome)
}

/// What the command line of this process says.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = help::grouped(Cli::command());
    let mut found = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut found).map_err(|error| error.format(&mut command))
}

fn run(command: Command) -> anyhow::Result<outcome::Outcome> {
    match command {
        Command::Demo(args) => cmd::demo::run(args),
        Command::Encode(args) => cmd::encode::run(args),
        Command::Decode(args) => cmd::decode::run(args),
        Command::Rebuild(args) => cmd::rebuild::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::Codes(args) => cmd::codes::run(args),
        Command::Coordinator(args) => cmd::coordinator::run(args),
        Command::Agent(args) => cmd::agent::run(args),
        Command::Put(args) => cmd::put::run(args),
        Command::Get(args) => cmd::get::run(args),
        Command::Load(args) => cmd::load::run(args),
        Command::Ls(args) => cmd::ls::run(args),
        Command::Stat(args) => cmd::stat::run(args),
        Command::Rm(args) => cmd::rm::run(args),
        Command::Status(args) => cmd::status::run(args),
        Command::Df(args) => cmd::df::run(args),
        Command::Node(args) => cmd::node::run(args),
        Command::Repair(args) => cmd::repair::run(args),
        Command::Scrub(args) => cmd::scrub::run(args),
        Command::Metadata(args) => cmd::metadata::run(args),
        Command::Cert(args) => cmd::cert::run(args),
        Command::Swarm(args) => cmd::swarm::run(args),
        Command::Replay(args) => cmd::replay::run(args),
        Command::Plan(args) => cmd::plan::run(args),
        Command::Simulate(args) => cmd::simulate::run(args),
        Command::Calibrate(args) => cmd::calibrate::run(args),
        Command::Durability(args) => cmd::durability::run(args),
        Command::Reproduce(args) => cmd::reproduce::run(args),
        Command::Testbed(args) => cmd::testbed::run(args),
        Command::Config(args) => cmd::config::run(args),
        Command::Completions(args) => cmd::completions::run(args, Cli::command()),
        Command::Man(args) => cmd::man::run(args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help_and_no_other() {
        let names = help::GROUPS.into_iter().flat_map(|(_, names)| names.iter().copied());
        let mut grouped: Vec<&str> = names.collect();
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        let mut all: Vec<&str> = shown.map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn no_command_writes_of_itself_what_a_template_would_replace() {
        for below in Cli::command().get_subcommands() {
            let about = below.get_about().expect("it says what it does").to_string();
            assert!(!about.contains(['{', '}', '\n']), "{about}");
        }
    }
}
