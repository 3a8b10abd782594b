//! The folder of a reproduction: what was asked for, and each experiment as soon as it is done.
//!
//! Place: between experiments and their report. Files appear whole or not at all, so that whatever
//! ends the command leaves what was finished, and `--resume` goes on with the rest.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use suture_edge::error::bad_input;
use suture_files::directory::write_output;

use super::experiment::PaperExperiment;
use super::table::{Table, shown};

/// The file of what was asked for.
const CONFIGURATION: &str = "configuration.json";

/// What all experiments of a folder have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Of this file.
    pub format: String,
    /// Of the program.
    pub version: String,
    /// Whether everything is measured once only.
    pub quick: bool,
    /// Every policy is measured with seeds from 1 to this.
    pub seeds: u64,
    /// Where links that change are from.
    pub traces: String,
    /// Whether the emulated network was used beside the simulator.
    pub testbed: bool,
}

/// An experiment that was performed.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Which one.
    pub experiment: &'static PaperExperiment,
    /// What it came to.
    pub outcome: FinishedTables,
}

/// What is kept of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinishedTables {
    /// What was simulated or computed.
    pub table: Table,
    /// The same on the emulated network, where it was asked for and can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<Emulated>,
    /// How long it took.
    pub seconds: f64,
}

/// What was measured on the emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Emulated {
    /// How links and chunks were scaled down, in words.
    pub scale: String,
    /// Emulated and simulated beside each other.
    pub rows: Vec<EmulatedRow>,
}

/// One policy at one point, simulated with the numbers of the testbed and measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulatedRow {
    /// The point.
    pub label: String,
    /// The policy under the paper's name.
    pub series: String,
    /// Seconds in the simulator.
    pub simulated_seconds: f64,
    /// Seconds on the testbed, the median of its repetitions.
    pub measured_seconds: f64,
    /// The bound at goodput.
    pub bound_seconds: f64,
    /// What held it back: links, processor, both or neither.
    pub limit: String,
    /// What applications waited on the testbed, where there were any.
    #[serde(default)]
    pub felt: String,
    /// Why both differ, where they do by more than a tenth.
    pub why: String,
}

impl EmulatedRow {
    /// What is to be said of it beside its numbers.
    pub fn words(&self) -> String {
        let words = [self.felt.as_str(), self.why.as_str()];
        words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// A folder that may be written to.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder, if it is empty or may be written over or gone on with.
    ///
    /// # Errors
    /// Bad input when it holds something, or was begun in another way.
    pub fn open(
        path: &Path,
        configuration: &Configuration,
        (force, resume): (bool, bool),
    ) -> Result<Folder> {
        let folder = Folder { path: path.to_path_buf() };
        if !resume {
            folder.check_empty(force)?;
        } else if let Some(found) = folder.configuration()?
            && found != *configuration
        {
            return Err(bad_input(format!(
                "'{}' was begun with other options ({}); use the same with --resume, or write over \
                 it with --force",
                path.display(),
                found.describe(),
            )));
        }
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory '{}'", path.display()))?;
        folder.write(CONFIGURATION, &pretty(configuration)?)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept of an experiment, if it was finished.
    ///
    /// # Errors
    /// Bad input when its file is no such thing.
    pub fn finished(&self, experiment: &'static PaperExperiment) -> Result<Option<Finished>> {
        let path = self.path.join(format!("{}.json", experiment.name()));
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        let outcome = serde_json::from_str(&text).map_err(|why| {
            bad_input(format!("'{}' is not what was written there: {why}", path.display()))
        })?;
        Ok(Some(Finished { experiment, outcome }))
    }

    /// Keeps an experiment: its settings and values as JSON, its values as CSV.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep(&self, finished: &Finished, configuration: &Configuration) -> Result<()> {
        let Finished { experiment, outcome } = finished;
        let point = |point: &super::experiment::PanelPoint| json!({ "label": point.label, "setting": point.setting });
        let panel = |panel: &super::experiment::PanelSpec| {
            json!({
                "title": panel.title,
                "metric": panel.metric,
                "points": panel.points.iter().map(point).collect::<Vec<_>>(),
            })
        };
        let document = json!({
            "experiment": experiment.name(),
            "configuration": configuration,
            "panels": experiment.panels.iter().map(panel).collect::<Vec<_>>(),
            "seconds": outcome.seconds,
            "table": outcome.table,
            "emulated": outcome.emulated,
        });
        let name = experiment.name();
        self.write(&format!("{name}.csv"), &csv(&outcome.table))?;
        self.write(&format!("{name}.json"), &pretty(&document)?)
    }

    /// Writes a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.path.join(name);
        let above = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(above)
            .with_context(|| format!("cannot make the directory '{}'", above.display()))?;
        write_output(&path, content.as_bytes())
    }

    fn check_empty(&self, force: bool) -> Result<()> {
        let shown = self.path.display();
        let is_empty = match fs::read_dir(&self.path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                return Err(bad_input(format!("cannot read the directory '{shown}': {error}")));
            }
        };
        if is_empty || force {
            return Ok(());
        }
        Err(bad_input(format!(
            "'{shown}' holds something already: name another folder with -o, go on with an \
             interrupted reproduction by --resume, or write over it with --force"
        )))
    }

    fn configuration(&self) -> Result<Option<Configuration>> {
        let path = self.path.join(CONFIGURATION);
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        let found = serde_json::from_str(&text);
        found
            .map(Some)
            .map_err(|why| bad_input(format!("'{}' is of no reproduction: {why}", path.display())))
    }
}

impl Configuration {
    /// In words.
    pub fn describe(&self) -> String {
        format!(
            "version {}, {}seeds 1 to {}, {}{}",
            self.version,
            if self.quick { "--quick, " } else { "" },
            self.seeds,
            self.traces,
            if self.testbed { ", --on testbed" } else { "" },
        )
    }
}

fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Every value of every chart, a line each.
fn csv(table: &Table) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out =
        String::from("panel,place,series,policy,what,unit,mean,least,most,runs,bound,refused\n");
    for panel in &table.panels {
        for group in &panel.groups {
            for cell in &group.cells {
                let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
                let least = cell.values.iter().copied().min_by(f64::total_cmp);
                let most = cell.values.iter().copied().max_by(f64::total_cmp);
                out += &[
                    quoted(&panel.title),
                    quoted(&group.label),
                    quoted(&cell.series),
                    quoted(&cell.policy),
                    quoted(&panel.what),
                    quoted(&panel.unit),
                    number(cell.mean()),
                    number(least),
                    number(most),
                    cell.values.len().to_string(),
                    number(group.bound),
                    quoted(cell.refused.as_deref().unwrap_or("")),
                ]
                .join(",");
                out.push('\n');
            }
        }
    }
    out
}

/// A value with its unit, for tables; a dash where there is none.
pub fn cell_text(value: Option<f64>) -> String {
    value.map_or("-".to_string(), shown)
}
