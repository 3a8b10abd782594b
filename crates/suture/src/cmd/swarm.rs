//! `suture swarm`: many simulated clusters under faults; prints what was exercised and what broke.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use suture_edge::error::bad_input;
use suture_edge::units::format_seconds;
use suture_files::directory::write_output;
use suture_sim::disk::Safeguards;
use suture_sim::fault::{Coverage, Kind};
use suture_sim::party::Party;
use suture_sim::shrink::{Shrunk, shrink};
use suture_sim::swarm::{self, Verdict, Watch};
use suture_sim::trial::{Trial, one_line};
use suture_terminal::output::{Format, counted, print_json, print_table, table};
use suture_terminal::progress::Progress;

use crate::outcome::Outcome;
use crate::quiet::without_panic_messages;

/// Ten years.
const MINUTES_MAX: u64 = 10 * 365 * 24 * 60;

/// Seeds tried when neither `--seeds` nor `--minutes` is given.
const SEEDS_DEFAULT: u64 = 1000;

/// Failing seeds shown; one is enough to begin with.
const FAILURES_SHOWN: usize = 10;

/// Run simulated clusters under seeded faults and check that nothing is ever lost.
///
/// Each seed is a cluster with its own code, policy, memory and faults. While faults strike,
/// independent checkers watch every published byte, deletion and commit; then all faults end and
/// everything that can be repaired must be whole in bounded time. Exits with 1 if any seed fails.
/// The first failing seed is made smaller while it breaks the same rule, and written down for
/// `suture replay`.
#[derive(clap::Args)]
pub struct Args {
    /// Seeds to run, from A up to but not including B [default: 0..1000, or from 0 on for as long
    /// as --minutes says]
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// Run for so many minutes, from the first seed on
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: Option<u64>,
    /// Print every message and fault of each seed, for one seed or a few
    #[arg(long, alias = "trace")]
    log: bool,
    /// Remove a safeguard to see that the checkers notice: seeds must then fail
    #[arg(long, value_enum, value_name = "SAFEGUARD")]
    without: Option<Safeguard>,
    /// Where the transcript of the first failing seed is written, made as small as it can be
    #[arg(long, value_name = "DIR", default_value = ".")]
    transcript: PathBuf,
    /// Show a failing seed as it is, and write no transcript
    #[arg(long)]
    no_shrink: bool,
    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Safeguard {
    /// Reads and rebuilt chunks are not compared with their checksums
    Checksums,
    /// Commits do not compare the stripe's generation
    CompareAndSet,
    /// Failed attempts are not tried again
    Requeue,
}

#[derive(Serialize)]
struct SwarmReport {
    format: &'static str,
    seeds: u64,
    failed: Vec<Failed>,
    repaired_chunks: u64,
    slowest_recovery_seconds: f64,
    coverage: Vec<CoverageRow>,
}

#[derive(Serialize)]
struct Failed {
    seed: u64,
    violation: String,
    replay: String,
    shrunk: Option<Written>,
}

/// A failure as files: made smaller, and the doing of the machine concerned.
#[derive(Serialize)]
struct Written {
    trial: PathBuf,
    machine: Option<PathBuf>,
    /// What is in it, before and after: nodes, stripes, faults.
    size_before: u64,
    size: u64,
    runs: usize,
    violation: String,
}

#[derive(Serialize)]
struct CoverageRow {
    fault: String,
    count: u64,
    seeds: u64,
}

#[derive(Default)]
struct Total {
    seeds: u64,
    repaired: u64,
    slowest: f64,
    coverage: Coverage,
    seeds_with: std::collections::BTreeMap<Kind, u64>,
    failed: Vec<Verdict>,
}

/// Runs the seeds and reports.
///
/// # Errors
/// When the transcripts of a failing seed cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    let (from, to) = match (args.seeds, args.minutes) {
        (Some(seeds), _) => seeds,
        (None, Some(_)) => (0, u64::MAX),
        (None, None) => (0, SEEDS_DEFAULT),
    };
    let total = run_seeds(&args, from, to);
    if args.log {
        total.failed.iter().flat_map(|verdict| &verdict.log).for_each(|line| errln!("{line}"));
    }
    let failed = !total.failed.is_empty();
    let mut report = report(&args, total);
    if let Some(first) = report.failed.first_mut().filter(|_| !args.no_shrink) {
        first.shrunk = Some(write_shrunk(&args, first.seed)?);
    }
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print_text(&report),
    }
    anyhow::ensure!(!failed, "the swarm found {} failing seeds", report.failed.len());
    Ok(Outcome::Done)
}

fn run_seeds(args: &Args, from: u64, to: u64) -> Total {
    let safeguards = safeguards(args.without);
    let deadline = args.minutes.map(|m| Instant::now() + Duration::from_secs(60 * m));
    let seeds = Mutex::new(from..to);
    let next = || seeds.lock().expect("no thread panics with it").next();
    let stop = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = Progress::seeds(args.format, (to != u64::MAX).then_some(to - from));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if late || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let verdict = swarm::run(seed, safeguards, args.log);
                    progress.add(1);
                    if let Some(violation) = &verdict.violation {
                        // The others may take hours.
                        errln!("seed {seed}: {violation}");
                    }
                    let mut total = total.lock().expect("no thread panics with it");
                    if total.take(verdict) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    drop(progress);
    total.into_inner().expect("all threads have ended")
}

impl Total {
    /// Adds a verdict; true when enough seeds have failed.
    fn take(&mut self, verdict: Verdict) -> bool {
        self.seeds += 1;
        self.repaired += verdict.repaired;
        self.slowest = self.slowest.max(verdict.healed_after.as_secs_f64());
        self.coverage.add(&verdict.coverage);
        for kind in Kind::ALL {
            *self.seeds_with.entry(kind).or_default() += u64::from(verdict.coverage.of(kind) > 0);
        }
        if verdict.violation.is_some() {
            self.failed.push(verdict);
        }
        self.failed.len() >= FAILURES_SHOWN
    }
}

fn safeguards(without: Option<Safeguard>) -> Safeguards {
    Safeguards {
        checksums: without != Some(Safeguard::Checksums),
        compare_and_set: without != Some(Safeguard::CompareAndSet),
        requeue: without != Some(Safeguard::Requeue),
    }
}

fn report(args: &Args, mut total: Total) -> SwarmReport {
    total.failed.sort_by_key(|verdict| verdict.seed);
    let without = args.without.and_then(|safeguard| safeguard.to_possible_value());
    let without =
        without.map_or(String::new(), |safeguard| format!(" --without {}", safeguard.get_name()));
    let failed = total.failed.iter().map(|verdict| Failed {
        seed: verdict.seed,
        violation: verdict.violation.as_ref().expect("it failed").to_string(),
        replay: format!(
            "suture swarm --seeds {}..{} --log{without}",
            verdict.seed,
            verdict.seed + 1
        ),
        shrunk: None,
    });
    let coverage = Kind::ALL.map(|kind| CoverageRow {
        fault: kind.to_string(),
        count: total.coverage.of(kind),
        seeds: total.seeds_with.get(&kind).copied().unwrap_or(0),
    });
    SwarmReport {
        format: "suture-swarm-1",
        seeds: total.seeds,
        failed: failed.collect(),
        repaired_chunks: total.repaired,
        slowest_recovery_seconds: total.slowest,
        coverage: coverage.into(),
    }
}

fn print_text(report: &SwarmReport) {
    let mut rows = table(["fault", "times", "seeds"], &[1, 2]);
    for row in &report.coverage {
        rows.add_row([&row.fault, &row.count.to_string(), &row.seeds.to_string()]);
    }
    print_table(&rows);
    outln!();
    outln!(
        "{}, {} rebuilt; the slowest cluster was healthy {} (simulated) after its last fault",
        counted(report.seeds, "seed"),
        counted(report.repaired_chunks, "chunk"),
        format_seconds(report.slowest_recovery_seconds)
    );
    for failed in &report.failed {
        outln!("seed {} FAILED: {}", failed.seed, failed.violation);
        outln!("  replay: {}", failed.replay);
        failed.shrunk.iter().for_each(print_shrunk);
    }
    if report.failed.is_empty() {
        outln!("no rule was broken");
    }
}

/// Makes a failing seed smaller and writes it down.
fn write_shrunk(args: &Args, seed: u64) -> Result<Written> {
    let trial = Trial::of(seed, safeguards(args.without));
    let before = trial.clone();
    let small = without_panic_messages(|| {
        let broken = swarm::run_trial(&trial, Watch::Rules).violation;
        broken.map(|broken| shrink(trial, broken))
    });
    let small = small.context("a seed that failed does not fail again")?;
    let again = without_panic_messages(|| swarm::run_trial(&small.trial, Watch::Machines));
    fs::create_dir_all(&args.transcript)
        .with_context(|| format!("cannot make '{}'", args.transcript.display()))?;
    let stem = free_stem(&args.transcript, seed);
    let file = |suffix: &str| args.transcript.join(format!("{stem}{suffix}.txt"));
    let Shrunk { trial, broken, runs } = small;
    let (size_before, size) = (before.size(), trial.size());
    let story = [
        format!("Seed {seed} of the swarm broke a rule: {}", one_line(&broken)),
        format!("Made smaller in {runs} runs: from {} to {}.", inside(&before), inside(&trial)),
    ];
    let path = file("");
    write_output(&path, trial.text(Some(&broken), &story).as_bytes())?;
    let machine = again.concerned().map(|(party, text)| {
        let path = match party {
            Party::Coordinator => file("-coordinator"),
            Party::Agent(node) => file(&format!("-n{}", node.0)),
        };
        write_output(&path, text.as_bytes()).map(|()| path)
    });
    let (machine, violation) = (machine.transpose()?, one_line(&broken));
    Ok(Written { trial: path, machine, size_before, size, runs, violation })
}

/// What the transcripts of a seed are called: those of former runs stay.
fn free_stem(folder: &Path, seed: u64) -> String {
    let stem = |number: u32| match number {
        1 => format!("swarm-{seed}"),
        number => format!("swarm-{seed}.{number}"),
    };
    let is_free = |stem: &String| folder.join(format!("{stem}.txt")).symlink_metadata().is_err();
    (1..).map(stem).find(is_free).expect("no folder has so many")
}

/// What there is in a trial.
fn inside(trial: &Trial) -> String {
    let (nodes, stripes) = (trial.options.nodes, trial.stripes);
    format!("{nodes} nodes, {stripes} stripes and {} faults", trial.faults.len())
}

fn print_shrunk(shrunk: &Written) {
    outln!(
        "  made smaller ({} parts, then {}): {}",
        shrunk.size_before,
        shrunk.size,
        shrunk.violation
    );
    outln!("  suture replay {}", shrunk.trial.display());
    if let Some(machine) = &shrunk.machine {
        outln!("  what the machine concerned did: {}", machine.display());
    }
}

fn parse_seeds(text: &str) -> Result<(u64, u64)> {
    let wrong = || bad_input(format!("'{text}' is not a range of seeds; write it like 0..1000"));
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from >= to {
        return Err(bad_input(format!("'{text}' holds no seed; the first number is the smaller")));
    }
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_of_former_runs_stay() {
        let folder = tempfile::tempdir().unwrap();
        for stem in ["swarm-7", "swarm-7.2", "swarm-7.3"] {
            assert_eq!(free_stem(folder.path(), 7), stem);
            fs::write(folder.path().join(format!("{stem}.txt")), "").unwrap();
        }
    }
}
