//! `suture reproduce`: the published figures measured again, and which of their claims hold.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use suture_edge::units::format_seconds;

use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, print_json};
use crate::reproduce::experiment::PaperExperiment;
use crate::reproduce::folder::{Configuration, Finished, FinishedTables, Folder};
use crate::reproduce::report::{Reproduction, Tally, markdown, page};
use crate::reproduce::runner::{self, IS_STOPPED};
use crate::reproduce::traces::Traces;
use crate::reproduce::{emulate, papers, report};
use crate::testbed::tools;

/// How often everything is measured, as in the papers; and with --quick.
const REPETITIONS: u64 = 5;
const REPETITIONS_QUICK: u64 = 1;

/// How often each repair is made on the emulated network.
const EMULATED_REPETITIONS: usize = 3;

/// Measure the published figures again: what each paper did, what comes out here beside the bound,
/// and which of its claims hold.
///
/// Without an argument it lists all experiments. With one it writes a directory: report.md,
/// report.html, claims.md, and for each experiment its values as CSV, its settings and values as
/// JSON.
///
/// Exit status 1: it was interrupted; --resume continues with what is missing.
#[derive(clap::Args)]
pub struct Args {
    /// all, a paper (repairboost, pivotrepair, car, chameleonec, butterfly), or one of its figures,
    /// such as car/fig9
    #[arg(value_name = "PAPER[/ID]")]
    what: Option<String>,
    /// Directory of the report
    #[arg(short, long, value_name = "DIR", default_value = "reproduction")]
    output: PathBuf,
    /// Measure everything once instead of five times, each time with another seed
    #[arg(long)]
    quick: bool,
    /// The published link measurements instead of models of them: tpcds_upload.csv,
    /// tpcds_download.csv, and the same of tpch and swim; a row a second, 16 columns of Mbit/s
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Measure on the emulated network of `suture testbed` too, where that can be done (root)
    #[arg(long, value_enum, value_name = "WHERE")]
    on: Option<On>,
    /// Overwrite what the directory holds
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Continue an interrupted reproduction: what is finished is kept
    #[arg(long)]
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
    let Some(what) = &args.what else { return list(args.format) };
    let experiments = papers::find(what)?;
    let traces = Traces::read(args.traces.as_deref())?;
    let configuration = Configuration {
        format: "suture-reproduce-1".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        quick: args.quick,
        seeds: if args.quick { REPETITIONS_QUICK } else { REPETITIONS },
        traces: traces.describe(),
        testbed: args.on.is_some(),
    };
    if args.on.is_some() {
        tools::check()?;
    }
    let folder = Folder::open(&args.output, &configuration, (args.force, args.resume))?;
    stop_on_signals()?;
    let (finished, ended) = perform(&args, &experiments, &folder, &configuration, &traces);
    let reproduction = Reproduction {
        configuration: &configuration,
        planned: experiments.len(),
        finished: &finished,
        traces: &traces,
    };
    folder.write("report.md", &markdown::report(&reproduction))?;
    folder.write("report.html", &page::html(&reproduction))?;
    folder.write("claims.md", &markdown::claims(&reproduction))?;
    ended.with_context(|| {
        format!(
            "{} of {} experiments are in '{}': continue with --resume",
            finished.len(),
            experiments.len(),
            folder.path().display()
        )
    })?;
    print(&reproduction, &folder, args.format)?;
    Ok(Outcome::Done)
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

/// Performs what is not finished yet; what is by then is given, however it ends.
fn perform(
    args: &Args,
    experiments: &[&'static PaperExperiment],
    folder: &Folder,
    configuration: &Configuration,
    traces: &Traces,
) -> (Vec<Finished>, Result<()>) {
    let mut all = Vec::new();
    for (index, experiment) in experiments.iter().copied().enumerate() {
        let place = format!("[{}/{}] {}", index + 1, experiments.len(), experiment.name());
        let one = || -> Result<Finished> {
            if args.resume
                && let Some(finished) = folder.finished(experiment)?
            {
                errln!("{place}: finished before");
                return Ok(finished);
            }
            let started = Instant::now();
            let table = runner::perform(experiment, configuration.seeds, traces)?;
            let repetitions = if args.quick { 1 } else { EMULATED_REPETITIONS };
            let emulated = match args.on {
                Some(On::Testbed) => emulate::perform(experiment, repetitions, traces)?,
                None => None,
            };
            let seconds = started.elapsed().as_secs_f64();
            let outcome = FinishedTables { table, emulated, seconds };
            let finished = Finished { experiment, outcome };
            folder.keep(&finished, configuration)?;
            let tally = Tally::of(finished.judged().iter());
            errln!("{place}: {}. {}", format_seconds(seconds), tally.describe());
            Ok(finished)
        };
        match one() {
            Ok(finished) => all.push(finished),
            Err(error) => return (all, Err(error)),
        }
    }
    (all, Ok(()))
}

fn print(reproduction: &Reproduction<'_>, folder: &Folder, format: Format) -> Result<()> {
    let judged = reproduction.judged();
    let tally = Tally::of(judged.iter().map(|(_, judged)| judged));
    if format == Format::Json {
        let claim = |(finished, judged): &(&Finished, crate::reproduce::claim::Judged)| {
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
            "folder": folder.path(),
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

/// From this call on a signal lets the runs that go on end, and begins no other.
fn stop_on_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        daemon::stop_signals()?
    };
    std::thread::spawn(move || {
        runtime.block_on(signals.received());
        errln!("suture: stopping; what is finished is kept");
        IS_STOPPED.store(true, Ordering::Relaxed);
    });
    Ok(())
}
