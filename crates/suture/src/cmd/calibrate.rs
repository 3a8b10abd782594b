//! `suture calibrate`: how far the simulator is from real agents.

use anyhow::{Context, Result};
use serde::Serialize;
use suture_code::Code;
use suture_edge::error::bad_input;
use suture_edge::units::{format_percent, format_seconds, format_size};
use suture_lab::calibrate::measure::measure;
use suture_lab::calibrate::predict::predict;
use suture_lab::calibrate::scenario::{ALL, CHUNK_BYTES, CalibrationScenario};
use suture_lab::demo::processes::{AlikeAgents, Processes, Setting};
use suture_lab::demo::run;
use suture_lab::demo::{source, stage};
use suture_repair::policy::Policy;
use suture_sim::scenario::Overheads;
use suture_terminal::output::{Format, counted, print_json, print_table, table};
use tempfile::TempDir;

use crate::outcome::Outcome;

/// Seeds the stored data.
const SEED: u64 = 1;

/// Memory of each agent, and what it may count with of cores: never what limits.
const MEMORY: u64 = 256 << 20;
const CORES: f64 = 64.0;

/// How far a prediction may be from what was measured.
const TOLERANCE: f64 = 0.1;

/// Compare the simulator with real agents: predicted over measured repair times.
///
/// Coordinator and agents run as processes on loopback, their links limited; nodes are killed, and
/// the same repair is simulated with the same placement, failures, links and choices. Takes some
/// minutes. Exit status 1: a prediction is more than 10 % off.
#[derive(clap::Args)]
pub struct Args {
    /// Only some of the scenarios, in about a minute
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// What to print: a table, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct CalibrationReport {
    format: &'static str,
    tolerance: f64,
    overheads: OverheadsReport,
    scenarios: Vec<CalibrationRow>,
    median_ratio: f64,
    worst_ratio: f64,
    worst: &'static str,
    within_tolerance: bool,
}

/// What the model adds to the time of bytes.
#[derive(Serialize)]
struct OverheadsReport {
    hop_seconds: f64,
    slice_seconds: f64,
}

#[derive(Serialize)]
struct CalibrationRow {
    name: &'static str,
    code: &'static str,
    policy: &'static str,
    links: &'static str,
    agents: usize,
    failed_nodes: usize,
    lost_chunks: u64,
    max_load_seconds: f64,
    predicted_seconds: f64,
    measured_seconds: f64,
    /// Predicted over measured seconds.
    ratio: f64,
}

/// Runs every scenario twice, in reality first, and compares.
///
/// # Errors
/// Bad input when no scenario is left by the arguments; a failure when a measured run fails.
pub fn run(args: Args) -> Result<Outcome> {
    let scenarios = chosen(&args)?;
    let overheads = Overheads::default();
    let rows = stage::perform("suture-calibrate-", false, async |folder, stage| {
        let mut rows = Vec::new();
        for (index, scenario) in scenarios.iter().enumerate() {
            errln!("{} of {}: {}", index + 1, scenarios.len(), title(scenario));
            let row = compare(scenario, overheads, folder, stage).await;
            let row = row.with_context(|| format!("scenario '{}'", scenario.name))?;
            errln!(
                "  predicted {}, measured {}, {:.3}",
                format_seconds(row.predicted_seconds),
                format_seconds(row.measured_seconds),
                row.ratio,
            );
            rows.push(row);
        }
        Ok(rows)
    })?;
    let report = report(rows, overheads);
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print_text(&report),
    }
    Ok(if report.within_tolerance { Outcome::Done } else { Outcome::Missed })
}

fn chosen(args: &Args) -> Result<Vec<&'static CalibrationScenario>> {
    let is_wanted = |scenario: &&CalibrationScenario| {
        let is_named = args.only.as_ref().is_none_or(|only| scenario.name.contains(only.as_str()));
        is_named && (scenario.is_quick || !args.quick)
    };
    let scenarios: Vec<&CalibrationScenario> = ALL.iter().filter(is_wanted).collect();
    match (&args.only, scenarios.is_empty()) {
        (Some(only), true) => {
            let of_those = |scenario: &&CalibrationScenario| scenario.is_quick || !args.quick;
            let names = ALL.iter().filter(of_those).map(|scenario| scenario.name);
            let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
            Err(bad_input(format!(
                "--only {only}: no scenario has this in its name; there are {}",
                names.join(", ")
            )))
        }
        _ => Ok(scenarios),
    }
}

fn title(scenario: &CalibrationScenario) -> String {
    let fail = match scenario.failures {
        1 => "one fails".to_string(),
        failures => format!("{failures} fail"),
    };
    format!(
        "{}: {} by {}, {} with {} links, of which {fail}",
        scenario.name,
        scenario.code,
        scenario.policy,
        counted(scenario.agents as u64, "agent"),
        scenario.links.name(),
    )
}

/// Measures and predicts one scenario.
async fn compare(
    scenario: &CalibrationScenario,
    overheads: Overheads,
    folder: &TempDir,
    stage: &mut Option<Processes>,
) -> Result<CalibrationRow> {
    let policy: Policy = scenario.policy.parse().map_err(bad_input)?;
    let code: Code = scenario.code.parse().map_err(bad_input)?;
    let place = tempfile::Builder::new().prefix("run-").tempdir_in(folder)?;
    let bytes = scenario.stripes as u64 * code.data_chunks() as u64 * CHUNK_BYTES;
    let data = tempfile::Builder::new().prefix("data-").tempdir_in(folder)?;
    let sources = {
        let path = data.path().to_path_buf();
        tokio::task::spawn_blocking(move || {
            source::generate(&path, bytes, source::GENERATED_FILE_BYTES, SEED)
        })
        .await??
    };
    let alike = AlikeAgents {
        agents: scenario.agents,
        racks: 0,
        links: scenario.links.rates(),
        memory: MEMORY,
        // What is predicted knows of no processors.
        cores: CORES,
    };
    let setting = Setting::on_loopback(&alike, policy.to_string());
    // Beside a report, the story goes to stderr.
    let real = run::DemoScenario {
        code,
        chunk_bytes: CHUNK_BYTES,
        sources,
        setting,
        format: Format::Json,
    };
    let measured = measure(&real, scenario.failures, place, stage).await?;
    let processes = stage.take().context("the run left its processes here")?;
    processes.end(false).await?;
    let predicted = predict(&measured, policy, overheads)?;
    Ok(CalibrationRow {
        name: scenario.name,
        code: scenario.code,
        policy: scenario.policy,
        links: scenario.links.name(),
        agents: scenario.agents,
        failed_nodes: scenario.failures,
        lost_chunks: measured.chunks,
        max_load_seconds: measured.planned_seconds,
        predicted_seconds: predicted,
        measured_seconds: measured.seconds,
        ratio: predicted / measured.seconds,
    })
}

fn report(scenarios: Vec<CalibrationRow>, overheads: Overheads) -> CalibrationReport {
    let mut ratios: Vec<f64> = scenarios.iter().map(|row| row.ratio).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let off = |row: &&CalibrationRow| row.ratio.ln().abs();
    let worst = scenarios.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
    let (worst, worst_ratio) = worst.map_or(("", 1.0), |row| (row.name, row.ratio));
    CalibrationReport {
        format: "suture-calibrate-1",
        tolerance: TOLERANCE,
        overheads: OverheadsReport {
            hop_seconds: overheads.hop_seconds,
            slice_seconds: overheads.slice_seconds,
        },
        median_ratio: (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0,
        worst_ratio,
        worst,
        within_tolerance: scenarios.iter().all(is_within),
        scenarios,
    }
}

fn is_within(row: &CalibrationRow) -> bool {
    (row.ratio - 1.0).abs() <= TOLERANCE
}

fn print_text(report: &CalibrationReport) {
    let header = ["scenario", "code", "policy", "links", "lost", "predicted", "measured", "ratio"];
    let mut rows = table(header, &[4, 5, 6, 7]);
    for row in &report.scenarios {
        rows.add_row([
            row.name.to_string(),
            row.code.to_string(),
            row.policy.to_string(),
            row.links.to_string(),
            row.lost_chunks.to_string(),
            format_seconds(row.predicted_seconds),
            format_seconds(row.measured_seconds),
            format!("{:.3}", row.ratio),
        ]);
    }
    print_table(&rows);
    outln!();
    outln!(
        "predicted over measured: median {:.3}, worst {:.3} ({})",
        report.median_ratio,
        report.worst_ratio,
        report.worst
    );
    outln!("chunks of {}; from the first dispatch to the last commit", format_size(CHUNK_BYTES));
    let off: Vec<&str> =
        report.scenarios.iter().filter(|row| !is_within(row)).map(|row| row.name).collect();
    if !off.is_empty() {
        outln!("more than {} off: {}", format_percent(100.0 * TOLERANCE), off.join("; "));
    }
}
