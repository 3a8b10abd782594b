//! `suture reproduce`: the published figures measured again, and which of their claims hold.

use std::env::current_exe;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;
use suture_edge::checksum::crc32c;
use suture_edge::units::format_seconds;
use suture_files::output::remove_temporaries;
use suture_lab::reproduce::experiment::{Extent, PaperExperiment};
use suture_lab::reproduce::folder::{
    CLAIMS, Configuration, Finished, FinishedEmulation, FinishedTables, Folder, Holdings, PAGE,
    REPORT,
};
use suture_lab::reproduce::report::{Reproduction, Tally, markdown, page};
use suture_lab::reproduce::runner::{IS_STOPPED, Runs};
use suture_lab::reproduce::traces::Traces;
use suture_lab::reproduce::{emulate, papers, report, starts};
use suture_lab::testbed::tools;
use suture_lab::testbed::usage::machine_name;
use suture_terminal::output::{Format, counted, print_json};

use crate::daemon;
use crate::outcome::Outcome;

/// How often everything is measured, as in the papers; and with --quick.
const REPETITIONS: u64 = 5;
const REPETITIONS_QUICK: u64 = 1;

/// How often each repair is made on the emulated network, while there is time.
const EMULATED_REPETITIONS: u64 = 3;

/// Measure the published figures again, and show which claims of the papers hold.
///
/// Of each figure: what the paper did, and what comes out here beside the bound.
///
/// Without an argument it lists all experiments. With one it writes a directory: report.md,
/// report.html, claims.md, and for each experiment its values as CSV, its settings and values as
/// JSON, and what was emulated of it as JSON. The report is of all that the directory has.
///
/// Exit status 1: it was interrupted, or something could not be measured on the testbed; --resume
/// continues with what is missing, and measures again what another build of this program did. A
/// second Ctrl-C ends it at once, without a report.
#[derive(clap::Args)]
pub struct Args {
    /// all, a paper (repairboost, pivotrepair, car, chameleonec, butterfly), or one of its figures,
    /// such as car/fig9 or butterfly/fig7
    #[arg(value_name = "PAPER[/ID]")]
    what: Option<String>,
    /// Directory of the report
    #[arg(short, long, value_name = "DIR", default_value = "reproduction")]
    output: PathBuf,
    /// Measure everything once instead of five times, each time with another seed; and where many
    /// requests of applications are under way, with a quarter of them and of the lost chunks
    #[arg(long, requires = "what")]
    quick: bool,
    /// The published link measurements instead of models of them: tpcds_upload.csv,
    /// tpcds_download.csv, and the same of tpch and swim; a row a second, 16 columns of Mbit/s
    #[arg(long, value_name = "DIR", requires = "what")]
    traces: Option<PathBuf>,
    /// Measure on the emulated network of `suture testbed` too, where that can be done (root)
    #[arg(long, value_enum, value_name = "WHERE", requires = "what")]
    on: Option<On>,
    /// Overwrite what the directory holds: what it has of any reproduction is removed first
    #[arg(long, conflicts_with = "resume", requires = "what")]
    force: bool,
    /// Continue an interrupted reproduction, or add to one: what is finished is kept
    #[arg(long, requires = "what")]
    resume: bool,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where experiments are measured beside the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// Processes in network namespaces, with links of known rates.
    Testbed,
}

/// Lists the experiments, or performs those that are named.
///
/// # Errors
/// Bad input for a name, traces or a folder that cannot be used; a failure when it is interrupted
/// or the folder cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    let experiments = args.what.as_deref().map(papers::find).transpose()?;
    let traces = Traces::read(args.traces.as_deref())?;
    let Some(experiments) = experiments else { return list(args.format) };
    let configuration = Configuration {
        format: "suture-reproduce-1".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        program: program_checksum().context("cannot read this program's own file")?,
        quick: args.quick,
        seeds: if args.quick { REPETITIONS_QUICK } else { REPETITIONS },
        traces: traces.fingerprint(),
        testbed: args.on.is_some(),
    };
    if args.on.is_some() {
        tools::check()?;
    }
    let holdings = if args.force {
        Holdings::Removed
    } else if args.resume {
        Holdings::Kept
    } else {
        Holdings::Refused
    };
    let folder = Folder::open(&args.output, configuration, holdings)?;
    let mut finished = folder.all_finished()?;
    name_outdated(&args, &experiments, &folder, &finished);
    stop_on_signals()?;
    let ended = perform(&args, &experiments, &folder, &traces, &mut finished);
    let place = |found: &Finished| papers::all().position(|e| e.name() == found.experiment.name());
    finished.sort_by_key(place);
    let is_missing = |name: &String| finished.iter().all(|found| found.experiment.name() != *name);
    let missing = experiments.iter().map(|e| e.name()).filter(is_missing).count();
    let reproduction = Reproduction {
        configuration: folder.configuration(),
        planned: finished.len() + missing,
        finished: &finished,
        traces: &traces,
    };
    folder.write(REPORT, &markdown::report(&reproduction))?;
    folder.write(PAGE, &page::html(&reproduction))?;
    folder.write(CLAIMS, &markdown::claims(&reproduction))?;
    ended.with_context(|| {
        format!(
            "{} of {} experiments are in '{}': continue with --resume",
            finished.len(),
            reproduction.planned,
            folder.path().display()
        )
    })?;
    print(&reproduction, &folder, args.format)?;
    let is_asked =
        |found: &&Finished| experiments.iter().any(|e| e.name() == found.experiment.name());
    let is_missed = |found: &&Finished| args.on.is_some() && !is_whole(found);
    let missed = finished.iter().filter(is_asked).filter(is_missed).count();
    if missed > 0 {
        errln!(
            "of {} not everything could be measured on the testbed: --resume tries that again",
            counted(missed as u64, "experiment"),
        );
        return Ok(Outcome::Missed);
    }
    Ok(Outcome::Done)
}

/// Names what a folder that is gone on with lacks, and what of it counts no more.
fn name_outdated(
    args: &Args,
    experiments: &[&'static PaperExperiment],
    folder: &Folder,
    finished: &[Finished],
) {
    let outdated = folder.outdated(finished);
    if args.resume && finished.is_empty() && outdated.is_empty() {
        errln!("'{}' has nothing to resume: a new reproduction begins", folder.path().display());
    }
    for old in outdated {
        let is_asked = experiments.iter().any(|e| e.name() == old.name());
        let next = if is_asked { "it is measured again" } else { "it is left out of the report" };
        errln!("{}: of another build of this program, or of other settings: {next}", old.name());
    }
}

/// The checksum of the file of this program: what it measured counts as finished for it alone.
fn program_checksum() -> Result<String> {
    let mut file = File::open("/proc/self/exe").or_else(|_| File::open(current_exe()?))?;
    let (mut sum, mut block) = (0, vec![0; 1 << 20]);
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            return Ok(format!("{sum:08x}"));
        }
        // A checksum of all checksums so far and that of this block.
        let [before, own] = [sum, crc32c(&block[..length])].map(u32::to_be_bytes);
        sum = crc32c(&[before, own].concat());
    }
}

fn list(format: Format) -> Result<Outcome> {
    if format == Format::Json {
        let entry = |experiment: &PaperExperiment| json!({ "name": experiment.name(), "title": experiment.title, "claims": experiment.claims.len() });
        let experiments: Vec<_> = papers::all().map(entry).collect();
        print_json(&json!({ "format": "suture-reproduce-1", "experiments": experiments }))?;
        return Ok(Outcome::Done);
    }
    for experiment in papers::all() {
        outln!("{}  {}", experiment.name(), experiment.title);
    }
    Ok(Outcome::Done)
}

/// Performs what is not finished yet; `finished` has what is by then, however it ends.
fn perform(
    args: &Args,
    experiments: &[&'static PaperExperiment],
    folder: &Folder,
    traces: &Traces,
    finished: &mut Vec<Finished>,
) -> Result<()> {
    let is_missing =
        |e: &&&PaperExperiment| finished.iter().all(|found| found.experiment.name() != e.name());
    let missing: Vec<&PaperExperiment> = experiments.iter().filter(is_missing).copied().collect();
    let configuration = folder.configuration();
    let runs = Runs::new(&missing, configuration.extent(), traces);
    for (index, experiment) in experiments.iter().copied().enumerate() {
        let place = format!("[{}/{}] {}", index + 1, experiments.len(), experiment.name());
        let started = Instant::now();
        let is_it = |found: &Finished| found.experiment.name() == experiment.name();
        let found = finished.iter().position(is_it);
        let at = match found {
            Some(at) => at,
            None => {
                let outcome = perform_in_simulator(experiment, &runs, configuration, traces)?;
                let simulated = Finished { experiment, outcome, emulation: None };
                folder.keep(&simulated)?;
                finished.push(simulated);
                finished.len() - 1
            }
        };
        let mut is_new = found.is_none();
        if args.on == Some(On::Testbed) && !is_whole(&finished[at]) {
            let extent = Extent {
                repetitions: if args.quick { 1 } else { EMULATED_REPETITIONS },
                ..configuration.extent()
            };
            let program = &configuration.program;
            finished[at].emulation =
                perform_on_testbed(experiment, extent, traces, finished, program)?;
            if let Some(emulation) = &finished[at].emulation {
                folder.keep_emulation(experiment, emulation)?;
            }
            if !is_whole(&finished[at]) && IS_STOPPED.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            is_new = true;
        }
        if is_new {
            let tally = Tally::of(finished[at].judged().iter());
            let seconds = started.elapsed().as_secs_f64();
            errln!("{place}: {}. {}", format_seconds(seconds), tally.describe());
        } else {
            folder.keep_values(&finished[at])?;
            errln!("{place}: finished before");
        }
    }
    Ok(())
}

/// An experiment in the simulator, with the time that it took: less where others had runs of it.
fn perform_in_simulator(
    experiment: &PaperExperiment,
    runs: &Runs<'_>,
    configuration: &Configuration,
    traces: &Traces,
) -> Result<FinishedTables> {
    let started = Instant::now();
    let table = runs.perform(experiment)?;
    let seconds = started.elapsed().as_secs_f64();
    let starts = starts::of(experiment, configuration.seeds, traces)?;
    Ok(FinishedTables { table, starts, seconds, machine: machine_name() })
}

/// Whether all that can be emulated of an experiment is.
fn is_whole(finished: &Finished) -> bool {
    let emulated = finished.emulation.as_ref().map(|emulation| &emulation.emulated);
    emulate::is_whole(finished.experiment, emulated)
}

/// What can be emulated of an experiment, with the time that it took; what is finished may have
/// some of it.
fn perform_on_testbed(
    experiment: &PaperExperiment,
    extent: Extent,
    traces: &Traces,
    finished: &[Finished],
    program: &str,
) -> Result<Option<FinishedEmulation>> {
    if IS_STOPPED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let started = Instant::now();
    let known = finished.iter().filter_map(|f| Some((f.experiment, f.emulation.as_ref()?)));
    let before = known.clone().filter(|(other, _)| other.name() == experiment.name());
    let before: f64 = before.map(|(_, emulation)| emulation.seconds).sum();
    let known: Vec<_> = known.map(|(other, emulation)| (other, &emulation.emulated)).collect();
    let emulated = emulate::perform(experiment, extent, traces, &known)?;
    let seconds = before + started.elapsed().as_secs_f64();
    let program = program.to_string();
    Ok(emulated.map(|emulated| FinishedEmulation { program, emulated, seconds }))
}

fn print(reproduction: &Reproduction<'_>, folder: &Folder, format: Format) -> Result<()> {
    let judged = reproduction.judged();
    let tally = Tally::of(judged.iter().map(|(_, judged)| judged));
    if format == Format::Json {
        let claim = |(finished, judged): &(&Finished, suture_lab::reproduce::claim::Judged)| {
            json!({
                "experiment": finished.experiment.name(),
                "claim": judged.claim.text,
                "paper": judged.claim.said.describe(),
                "measured": judged.measured,
                "verdict": judged.verdict,
            })
        };
        return print_json(&json!({
            "format": "suture-reproduce-1",
            "configuration": reproduction.configuration,
            "folder": folder.path().display().to_string(),
            "experiments": reproduction.finished.len(),
            "claims": judged.iter().map(claim).collect::<Vec<_>>(),
        }));
    }
    for (finished, judged) in &judged {
        outln!(
            "{:18} {}: {} ({} in the paper, {} here)",
            judged.verdict.name(),
            finished.experiment.name(),
            judged.claim.text,
            judged.claim.said.describe(),
            report::measured(judged),
        );
    }
    outln!("{}", tally.describe());
    outln!("{} has report.html and report.md", folder.path().display());
    Ok(())
}

/// From this call on a signal lets the runs that go on end, and begins no other; a second one ends
/// the process at once, with the exit status that shells show for one that a signal ended.
fn stop_on_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        daemon::stop_signals()?
    };
    std::thread::spawn(move || {
        runtime.block_on(signals.received());
        IS_STOPPED.store(true, Ordering::Relaxed);
        errln!("suture: stopping; what is finished is kept. A second signal ends it at once");
        let second = runtime.block_on(signals.received());
        remove_temporaries();
        std::process::exit(128 + second.as_raw_value());
    });
    Ok(())
}
