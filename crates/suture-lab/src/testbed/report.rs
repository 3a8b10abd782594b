//! What a campaign came to: text for people, JSON for scripts, a page with pictures.
//!
//! Place: the last step of a testbed's run. Every time has beside it the bound, the processor and
//! the memory, what was the limit, and the machine that it was measured on.

mod chart;
pub mod markdown;
pub mod page;
pub mod text;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use suture_edge::error::bad_input;
use suture_files::directory::write_output;
use suture_files::output::NewFile;
use suture_sim::bandwidth_trace::BandwidthTrace;

use super::campaign::{Campaign, RunRecord};
use super::expect::Expected;
use super::figures::{Medians, RepairFigures};
use super::scenario::{ChunkPlace, Declared};
use super::shaping::GOODPUT;
use super::usage::machine_name;

/// The report as JSON.
#[derive(Serialize)]
pub struct CampaignReport {
    format: &'static str,
    title: String,
    machine: String,
    cores: usize,
    code: String,
    chunk_bytes: u64,
    stripes: u64,
    nodes: usize,
    racks: usize,
    failed: Vec<String>,
    drained: bool,
    placement_seed: u64,
    declared: bool,
    declared_times: f64,
    marked: bool,
    replayed: bool,
    chunks: &'static str,
    goodput: f64,
    /// How many repairs the scenario has; there are fewer runs where it was interrupted.
    repairs: usize,
    results: Vec<PolicyReport>,
    faults: Vec<String>,
    expectations: Vec<Expected>,
}

#[derive(Serialize)]
struct PolicyReport {
    policy: String,
    medians: Option<Medians>,
    runs: Vec<RunReport>,
}

#[derive(Serialize)]
struct RunReport {
    repetition: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    figures: Option<RepairFigures>,
}

/// All of a campaign.
pub fn document(campaign: &Campaign) -> CampaignReport {
    let experiment = &campaign.experiment;
    let cluster = &experiment.cluster;
    let run = |run: &RunRecord| RunReport {
        repetition: run.repetition,
        error: run.result.as_ref().err().cloned(),
        figures: run.result.as_ref().ok().cloned(),
    };
    let policy = |policy| PolicyReport {
        policy: format!("{policy}"),
        medians: campaign.medians(policy),
        runs: campaign.runs.iter().filter(|run| run.policy == policy).map(run).collect(),
    };
    CampaignReport {
        format: "suture-testbed-1",
        title: experiment.title.clone(),
        machine: machine_name(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        code: experiment.code.to_string(),
        chunk_bytes: experiment.chunk_bytes,
        stripes: experiment.stripes,
        nodes: cluster.nodes.len(),
        racks: cluster.racks.len(),
        failed: experiment.failed.iter().map(|node| cluster.node(*node).name.clone()).collect(),
        drained: experiment.drains,
        placement_seed: experiment.placement_seed,
        declared: experiment.declared != Declared::Nothing,
        declared_times: experiment.declared_times,
        marked: experiment.is_marked,
        replayed: experiment.traces.is_some(),
        chunks: match experiment.chunks {
            ChunkPlace::Memory => "memory",
            ChunkPlace::Disk => "disk",
        },
        goodput: GOODPUT,
        repairs: campaign.planned(),
        results: experiment.policies.iter().copied().map(policy).collect(),
        faults: experiment.faults.iter().map(|fault| fault.describe(cluster)).collect(),
        expectations: campaign.verdicts(),
    }
}

/// Whether a report may go to a folder, before anything is measured.
///
/// # Errors
/// Bad input when it holds something and may not be written over, or cannot be read or written.
pub fn check_folder(folder: &Path, force: bool) -> Result<()> {
    let shown = folder.display();
    let mut entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return check_written(folder),
        entries => entries
            .map_err(|error| bad_input(format!("cannot read the directory '{shown}': {error}")))?,
    };
    match entries.next() {
        Some(_) if !force => Err(bad_input(format!(
            "'{shown}' holds something already: name another folder, or write over a former \
             report with --force"
        ))),
        _ => check_written(folder),
    }
}

/// Whether files can be made in a folder, or in what there is above one that is not there yet.
fn check_written(folder: &Path) -> Result<()> {
    let above = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let made = NewFile::beside(&above.join("report.txt"));
    made.map(drop).map_err(|why| bad_input(format!("cannot write '{}': {why}", folder.display())))
}

/// Writes `report.txt`, `report.json`, `report.html`, and the traces that links followed as CSV.
///
/// # Errors
/// When a file cannot be written.
pub fn write(campaign: &Campaign, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the directory '{}'", folder.display()))?;
    let document = document(campaign);
    let traces = &campaign.experiment.traces;
    let csv = |trace: &Option<BandwidthTrace>| trace.as_ref().map(|trace| trace.csv());
    let files = [
        ("report.txt", Some(text::report(campaign, &document))),
        ("report.json", Some(serde_json::to_string_pretty(&document)? + "\n")),
        ("report.html", Some(page::html(campaign, &document))),
        ("uplinks.csv", csv(&traces.uplinks)),
        ("downlinks.csv", csv(&traces.downlinks)),
    ];
    for (name, content) in files {
        if let Some(content) = content {
            write_output(&folder.join(name), content.as_bytes())?;
        }
    }
    Ok(())
}
