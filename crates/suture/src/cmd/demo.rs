//! `suture demo`: a node dies, its data comes back.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use suture_code::Code;
use suture_drivers::config;
use suture_edge::error::bad_input;
use suture_edge::units::{
    format_link_rate, format_percent, format_rate, format_seconds, format_size, parse_nonzero_size,
    parse_rate,
};
use suture_lab::demo::processes::{AlikeAgents, LinkRates, Processes, Setting, core_share};
use suture_lab::demo::run::{self, DemoResult, DemoScenario};
use suture_lab::demo::{source, stage};
use suture_lab::{executable, input};
use suture_repair::policy::Policy;
use suture_terminal::output::{Format, print_json, print_table, table};
use tempfile::TempDir;

use crate::outcome::Outcome;

/// How much is generated when no data is named.
const GENERATED_BYTES: u64 = 512 << 20;

/// Seeds the generated data.
const SEED: u64 = 1;

/// The policy that the closing table compares with.
const CONVENTIONAL: &str = "cr";

/// Space on the disk beside the stored chunks: rebuilt ones, metadata, logs.
const SPARE_BYTES: u64 = 64 << 20;

/// More processes are no demo of one machine.
const AGENTS_MAX: usize = 1000;

/// Store data on agents, kill one, watch its chunks come back, and compare every byte.
///
/// Coordinator and agents are processes of their own on loopback, their links limited so that
/// one machine plays a network-bound cluster. The closing table compares the repair with the
/// lower bound and with the conventional repair (cr) of the same failure in a second run.
#[derive(clap::Args)]
pub struct Args {
    /// The erasure code: rs(6,3) has 6 data chunks and 3 parity chunks, any 3 of which may be lost
    #[arg(long, value_name = "CODE", default_value = "rs(6,3)")]
    code: Code,
    /// How many agents; at least one more than the code has chunks
    #[arg(long, value_name = "N", default_value_t = 12)]
    agents: usize,
    /// A file or directory to store [default: 512MiB of generated random data]
    #[arg(long, value_name = "FILE|DIR")]
    data: Option<PathBuf>,
    /// Bytes of a chunk
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_nonzero_size)]
    chunk_size: u64,
    /// What each agent's link carries in each direction, per second
    #[arg(long, value_name = "RATE", default_value = "50Mbit", value_parser = parse_rate)]
    link: f64,
    /// The repair policy: a preset, or SHAPE/BALANCE/SCHEDULE
    #[arg(long, value_name = "P", default_value = "suture")]
    policy: Policy,
    /// The most memory that each agent uses
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_nonzero_size)]
    memory: u64,
    /// Show the progress on a web page too: open http://ADDR/ in a browser; ADDR is 127.0.0.1:7480
    /// if it is left out
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:7480"
    )]
    web: Option<SocketAddr>,
    /// Keep the demo's directory: configurations, logs, chunks, metadata
    #[arg(long)]
    keep: bool,
    /// What to print: the course and a table, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct DemoReport {
    format: &'static str,
    policy: String,
    code: String,
    lost_bytes: u64,
    lost_chunks: u64,
    detection_seconds: f64,
    seconds: f64,
    bytes_per_second: f64,
    bound_seconds: f64,
    percent_of_bound: f64,
    verified: bool,
    agent_peak_memory_bytes: Option<u64>,
    agent_memory_ceiling_bytes: u64,
    conventional: Option<Conventional>,
}

#[derive(Serialize)]
struct Conventional {
    seconds: f64,
    percent_of_bound: f64,
}

/// Prints the course of the runs, then the table.
///
/// # Errors
/// Bad input for arguments that do not fit together; a failure when a process ends early or an
/// object differs from its source.
pub fn run(args: Args) -> Result<Outcome> {
    check(&args)?;
    let (report, measured) = stage::perform("suture-demo-", args.keep, async |folder, stage| {
        both_runs(&args, folder, stage).await
    })?;
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print_text(&report, &measured),
    }
    Ok(Outcome::Done)
}

fn check(args: &Args) -> Result<()> {
    let needed = args.code.chunk_count() + 1;
    if args.agents < needed {
        return Err(bad_input(format!(
            "{} has {} chunks, each on an agent of its own, and a lost one needs another agent: \
             --agents must be at least {needed}",
            args.code,
            args.code.chunk_count(),
        )));
    }
    if args.agents > AGENTS_MAX {
        return Err(bad_input(format!(
            "--agents {} is too many: each is a process of its own, so at most {AGENTS_MAX}",
            args.agents
        )));
    }
    if let Some(address) = args.web.filter(|address| address.port() == 0) {
        let why = format!("--web {address}: name the port, so that you know where to look");
        return Err(bad_input(why));
    }
    input::check_many_chunks(args.chunk_size)?;
    input::check_stored_chunk_size(&args.code, args.chunk_size, "--chunk-size")?;
    config::check_rate("--link", args.link).map_err(bad_input)?;
    config::check_memory("--memory", args.memory).map_err(bad_input)?;
    args.policy.runnable().map_err(bad_input)?;
    // Otherwise the repair would wait for ever for another policy.
    executable::refusal(args.policy, &args.code).map_or(Ok(()), |why| Err(bad_input(why)))
}

/// Runs the scenario, and again with conventional repair.
async fn both_runs(
    args: &Args,
    folder: &TempDir,
    stage: &mut Option<Processes>,
) -> Result<(DemoReport, Vec<DemoResult>)> {
    let mut scenario = scenario(args, folder.path()).await?;
    scenario.print_line(&format!(
        "Suture demo: {}, {} agents, links of {} each way, chunks of {}",
        args.code,
        args.agents,
        format_link_rate(args.link),
        format_size(args.chunk_size),
    ));
    if let Some(address) = args.web {
        scenario.print_line(&format!("  page       http://{address}/"));
    }
    let racks = racks(args);
    if racks > 0 {
        scenario.print_line(&rack_line(args, racks));
    }
    let mut measured = vec![one_run(args, &scenario, folder.path(), stage).await?];
    if args.policy != CONVENTIONAL.parse().expect("a known preset") {
        scenario.setting.policy = CONVENTIONAL.into();
        scenario.print_line("the same failure again, repaired conventionally (cr):");
        measured.push(one_run(args, &scenario, folder.path(), stage).await?);
    }
    let report = report(args, &measured)?;
    Ok((report, measured))
}

async fn one_run(
    args: &Args,
    scenario: &DemoScenario,
    folder: &Path,
    stage: &mut Option<Processes>,
) -> Result<DemoResult> {
    let place = if args.keep { std::env::temp_dir() } else { folder.to_path_buf() };
    let place = tempfile::Builder::new().prefix("suture-demo-run-").tempdir_in(place)?;
    let measured = run::run(scenario, place, stage).await?;
    let processes = stage.take().expect("the run left its processes here");
    if let Some(kept) = processes.end(args.keep).await? {
        scenario.print_line(&format!("  kept       everything in {}", kept.display()));
    }
    Ok(measured)
}

async fn scenario(args: &Args, folder: &Path) -> Result<DemoScenario> {
    let bytes = match &args.data {
        Some(_) => 0,
        None => GENERATED_BYTES,
    };
    let sources = match &args.data {
        Some(path) => source::from_user(path)?,
        None => Vec::new(),
    };
    let stored = bytes + sources.iter().map(|source| source.bytes).sum::<u64>();
    let width = args.code.chunk_count() as u64;
    let needed = bytes + stored * width / args.code.data_chunks() as u64 * 2 + SPARE_BYTES;
    check_free_space(folder, needed)?;
    let sources = match &args.data {
        Some(_) => sources,
        None => {
            let folder = folder.to_path_buf();
            let generated = move || {
                source::generate(&folder, GENERATED_BYTES, source::GENERATED_FILE_BYTES, SEED)
            };
            tokio::task::spawn_blocking(generated).await??
        }
    };
    let alike = AlikeAgents {
        agents: args.agents,
        racks: racks(args),
        links: vec![LinkRates::equal(args.link)],
        memory: args.memory,
        cores: core_share(args.agents),
    };
    let mut setting = Setting::on_loopback(&alike, args.policy.to_string());
    setting.web = args.web;
    let (code, chunk_bytes) = (args.code, args.chunk_size);
    Ok(DemoScenario { code, chunk_bytes, sources, setting, format: args.format })
}

/// In how many racks the agents are: in none where the policy asks for none.
fn racks(args: &Args) -> usize {
    args.policy.needs_racks().map_or(0, |_| rack_count(&args.code, args.agents))
}

/// In how many racks the agents of a demo are: as few as it takes for none to have more agents than
/// chunks may be lost. So a whole rack may be, before and after any repair.
fn rack_count(code: &Code, agents: usize) -> usize {
    agents.div_ceil(code.loss_tolerance().max(1))
}

fn rack_line(args: &Args, racks: usize) -> String {
    let least = args.agents / racks;
    let each = if args.agents.is_multiple_of(racks) {
        least.to_string()
    } else {
        format!("{least} or {}", least + 1)
    };
    format!(
        "  racks      {racks} with {each} agents each, since {} asks for racks; a whole one may be \
         lost without losing data",
        args.policy
    )
}

fn check_free_space(folder: &Path, needed: u64) -> Result<()> {
    let disk = rustix::fs::statvfs(folder).context("cannot read the free space of the disk")?;
    let free = disk.f_bavail * disk.f_frsize;
    if free < needed {
        return Err(bad_input(format!(
            "the demo needs {} in '{}', where {} are free: set TMPDIR to a larger disk, or name \
             smaller --data",
            format_size(needed),
            folder.display(),
            format_size(free),
        )));
    }
    Ok(())
}

fn report(args: &Args, measured: &[DemoResult]) -> Result<DemoReport> {
    let Some(first) = measured.first() else { bail!("nothing was measured") };
    let bound_seconds = bound(args, first);
    let percent = |run: &DemoResult| 100.0 * bound(args, run) / run.seconds;
    Ok(DemoReport {
        format: "suture-demo-1",
        policy: args.policy.to_string(),
        code: args.code.to_string(),
        lost_bytes: first.lost_bytes,
        lost_chunks: first.lost_chunks,
        detection_seconds: first.detection_seconds,
        seconds: first.seconds,
        bytes_per_second: first.lost_bytes as f64 / first.seconds,
        bound_seconds,
        percent_of_bound: percent(first),
        verified: measured.iter().all(|run| run.verified),
        agent_peak_memory_bytes: first.peak_memory,
        agent_memory_ceiling_bytes: args.memory,
        conventional: measured
            .get(1)
            .map(|run| Conventional { seconds: run.seconds, percent_of_bound: percent(run) }),
    })
}

/// k * lost bytes / (survivors * link): every survivor sends all the time.
fn bound(args: &Args, run: &DemoResult) -> f64 {
    let moved = args.code.data_chunks() as u64 * run.lost_bytes;
    moved as f64 / ((args.agents - 1) as f64 * args.link)
}

fn print_text(report: &DemoReport, measured: &[DemoResult]) {
    let policies = [report.policy.as_str(), CONVENTIONAL];
    let header = ["policy", "lost", "repaired in", "rebuilt", "bound", "of the bound"];
    let mut rows = table(header, &[1, 2, 3, 4, 5]);
    for (policy, run) in policies.iter().zip(measured) {
        let percent = match report.conventional.as_ref().filter(|_| *policy == CONVENTIONAL) {
            Some(conventional) => conventional.percent_of_bound,
            None => report.percent_of_bound,
        };
        rows.add_row([
            policy.to_string(),
            format_size(run.lost_bytes),
            format_seconds(run.seconds),
            format_rate(run.lost_bytes as f64 / run.seconds),
            format_seconds(run.seconds * percent / 100.0),
            format_percent(percent),
        ]);
    }
    outln!();
    print_table(&rows);
    outln!(
        "bound: k x lost bytes / (survivors x link); detected after {}; agents used at most {} of {}",
        format_seconds(report.detection_seconds),
        report.agent_peak_memory_bytes.map_or("unknown memory".into(), format_size),
        format_size(report.agent_memory_ceiling_bytes),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_rack_of_the_demo_may_be_lost() {
        for name in ["rs(6,3)", "rs(2,3)", "rs(4,1)", "lrc(6,2,2)", "butterfly(4)"] {
            let code: Code = name.parse().unwrap();
            for agents in code.chunk_count() + 1..60 {
                let racks = rack_count(&code, agents);
                let largest = agents.div_ceil(racks);
                assert!(racks >= 2 && largest <= code.loss_tolerance(), "{name}, {agents} agents");
            }
        }
    }
}
