//! The folder of a reproduction: what was asked for, and each experiment as soon as it is done.
//!
//! Place: between experiments and their report. Files appear whole or not at all, so that whatever
//! ends the command leaves what was finished, and `--resume` goes on with the rest. What was
//! simulated is kept before it is emulated, in a file of its own.
//!
//! Invariant: what counts as finished was measured by this program, with this configuration and
//! these settings.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use suture_edge::error::bad_input;
use suture_files::directory::write_output;
use suture_files::output::file_place;

use super::experiment::{Extent, PanelSpec, PaperExperiment};
use super::papers;
use super::starts::TraceStart;
use super::table::{Cell, Table, shown};

pub use super::emulated::Emulated;

/// The file of what was asked for.
const CONFIGURATION: &str = "configuration.json";

/// The report, for readers of text.
pub const REPORT: &str = "report.md";

/// The report as a page.
pub const PAGE: &str = "report.html";

/// The list of claims alone.
pub const CLAIMS: &str = "claims.md";

/// What all experiments of a folder have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The format of this file.
    pub format: String,
    /// The version of the program.
    pub version: String,
    /// The checksum of the program, which is another one for each change of it.
    #[serde(default)]
    pub program: String,
    /// Whether everything is measured once only, and what takes long in smaller settings.
    pub quick: bool,
    /// Every policy is measured with seeds from 1 to this.
    pub seeds: u64,
    /// Where links that change are from.
    pub traces: String,
    /// Whether the emulated network was used beside the simulator.
    pub testbed: bool,
}

/// What becomes of what a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holdings {
    /// There may be nothing.
    Refused,
    /// What is of a reproduction is removed, and the rest is left.
    Removed,
    /// What is finished is kept, if it is of the same reproduction.
    Kept,
}

/// An experiment that was performed.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The experiment that was finished.
    pub experiment: &'static PaperExperiment,
    /// What it came to.
    pub outcome: FinishedTables,
    /// The same on the emulated network, where it was asked for and can be done.
    pub emulation: Option<FinishedEmulation>,
}

/// What was simulated or computed, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinishedTables {
    /// All values that were measured.
    pub table: Table,
    /// Where runs on links that change began.
    pub starts: Vec<TraceStart>,
    /// How long it took.
    pub seconds: f64,
    /// The machine that it took so long on.
    pub machine: String,
}

/// What was emulated of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinishedEmulation {
    /// The checksum of the program that measured it.
    #[serde(default)]
    pub program: String,
    /// What it came to.
    pub emulated: Emulated,
    /// How long it took.
    pub seconds: f64,
}

/// A folder that may be written to.
pub struct Folder {
    path: PathBuf,
    configuration: Configuration,
}

impl Folder {
    /// The folder, if it is empty or may be written over or gone on with. What is emulated may come
    /// to what was begun without.
    ///
    /// # Errors
    /// Bad input when it holds something that it may not, or was begun in another way.
    pub fn open(path: &Path, configuration: Configuration, holdings: Holdings) -> Result<Folder> {
        let mut folder = Folder { path: path.to_path_buf(), configuration };
        let found: Option<Configuration> = match holdings {
            Holdings::Kept => folder.read(CONFIGURATION)?,
            Holdings::Refused | Holdings::Removed => None,
        };
        match (found, holdings) {
            (Some(found), _) if found.may_become(&folder.configuration) => {
                folder.configuration.testbed |= found.testbed;
            }
            (Some(found), _) => {
                let (shown, begun) = (path.display(), found.describe());
                return Err(bad_input(if found.version == folder.configuration.version {
                    format!(
                        "'{shown}' was begun with other options ({begun}); use the same with \
                         --resume, or write over it with --force"
                    )
                } else {
                    format!(
                        "'{shown}' was begun by another version ({begun}): name another directory \
                         with -o, or write over it with --force"
                    )
                }));
            }
            (None, Holdings::Removed) => folder.clear()?,
            (None, Holdings::Refused | Holdings::Kept) => folder.check_empty(holdings)?,
        }
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory '{}'", path.display()))?;
        folder.write(CONFIGURATION, &pretty(&folder.configuration)?)?;
        Ok(folder)
    }

    /// What all of its experiments have in common.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every experiment that was finished, in the order of the papers.
    ///
    /// # Errors
    /// Bad input when a file of one cannot be read, or is no such thing.
    pub fn all_finished(&self) -> Result<Vec<Finished>> {
        let mut all = Vec::new();
        for experiment in papers::all() {
            all.extend(self.finished(experiment)?);
        }
        Ok(all)
    }

    /// What is kept of an experiment, if it was finished with the settings that it has now.
    fn finished(&self, experiment: &'static PaperExperiment) -> Result<Option<Finished>> {
        let [_, tables, emulation] = file_names(experiment);
        let Some(document) = self.read::<Value>(&tables)? else { return Ok(None) };
        let is_of_this = document["configuration"]["program"] == *self.configuration.program;
        let settings = as_read(&as_measured(experiment, self.configuration.extent())?)?;
        if !is_of_this || document["panels"] != settings {
            return Ok(None);
        }
        let path = self.path.join(&tables);
        let outcome: FinishedTables =
            serde_json::from_value(document).map_err(|why| foreign(&path, &why))?;
        if !is_of(&outcome.table, experiment) {
            return Err(foreign(&path, &"its table has not the values of its panels"));
        }
        let emulation = self.read(&emulation)?;
        let is_of_this =
            |emulation: &FinishedEmulation| emulation.program == self.configuration.program;
        Ok(Some(Finished { experiment, outcome, emulation: emulation.filter(is_of_this) }))
    }

    /// The experiments of which something is kept that does not count as finished: another program
    /// measured it, or it had other settings.
    pub fn outdated(&self, finished: &[Finished]) -> Vec<&'static PaperExperiment> {
        let is_kept = |experiment: &PaperExperiment| {
            let [_, tables, _] = file_names(experiment);
            self.path.join(tables).exists()
        };
        let is_finished = |experiment: &PaperExperiment| {
            finished.iter().any(|found| found.experiment.name() == experiment.name())
        };
        papers::all().filter(|experiment| is_kept(experiment) && !is_finished(experiment)).collect()
    }

    /// Keeps an experiment: its settings and values as JSON, its values as CSV. What was kept of it
    /// with other settings is removed.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep(&self, finished: &Finished) -> Result<()> {
        let Finished { experiment, outcome, .. } = finished;
        let document = json!({
            "experiment": experiment.name(),
            "configuration": self.configuration,
            "panels": as_measured(experiment, self.configuration.extent())?,
            "starts": outcome.starts,
            "seconds": outcome.seconds,
            "machine": outcome.machine,
            "table": outcome.table,
        });
        self.remove_experiment(experiment)?;
        self.keep_values(finished)?;
        let [_, tables, _] = file_names(experiment);
        self.write(&tables, &pretty(&document)?)
    }

    /// Writes the values of an experiment as CSV, of what is kept of it as JSON.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep_values(&self, finished: &Finished) -> Result<()> {
        let Finished { experiment, outcome, emulation } = finished;
        let [values, ..] = file_names(experiment);
        self.write(&values, &csv(experiment.panels, &outcome.table))?;
        emulation.iter().try_for_each(|emulation| self.keep_emulated_values(experiment, emulation))
    }

    /// Keeps what was emulated of an experiment: as JSON, its values as CSV, and each point as a
    /// scenario of the testbed.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep_emulation(
        &self,
        experiment: &PaperExperiment,
        emulation: &FinishedEmulation,
    ) -> Result<()> {
        self.keep_emulated_values(experiment, emulation)?;
        let [.., name] = file_names(experiment);
        self.write(&name, &pretty(emulation)?)
    }

    fn keep_emulated_values(
        &self,
        experiment: &PaperExperiment,
        emulation: &FinishedEmulation,
    ) -> Result<()> {
        let files = emulation.emulated.files();
        let name = experiment.name();
        files.iter().try_for_each(|(end, text)| self.write(&format!("{name}{end}"), text))
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

    fn is_empty(&self) -> Result<bool> {
        match fs::read_dir(&self.path) {
            Ok(mut entries) => Ok(entries.next().is_none()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(bad_input(format!(
                "cannot read the directory '{}': {error}",
                self.path.display()
            ))),
        }
    }

    fn check_empty(&self, holdings: Holdings) -> Result<()> {
        if self.is_empty()? {
            return Ok(());
        }
        let shown = self.path.display();
        Err(bad_input(match holdings {
            Holdings::Kept => format!(
                "'{shown}' holds something already and has no {CONFIGURATION}, so it is no \
                 reproduction to go on with: name another directory with -o, or write over it with \
                 --force"
            ),
            Holdings::Refused | Holdings::Removed => format!(
                "'{shown}' holds something already: name another directory with -o, go on with an \
                 interrupted reproduction by --resume, or write over it with --force"
            ),
        }))
    }

    /// Removes what is of a reproduction. The configuration goes first: without it nothing of the
    /// rest counts as finished, whatever ends the command meanwhile.
    fn clear(&self) -> Result<()> {
        if self.is_empty()? {
            return Ok(());
        }
        for name in [CONFIGURATION, REPORT, PAGE, CLAIMS] {
            self.remove(name)?;
        }
        papers::all().try_for_each(|experiment| self.remove_experiment(experiment))
    }

    /// Removes what is kept of an experiment, with all files of its emulation. What else lies there
    /// is left, also in the directory of its scenarios.
    fn remove_experiment(&self, experiment: &PaperExperiment) -> Result<()> {
        for name in file_names(experiment) {
            self.remove(&name)?;
        }
        let emulated = experiment.name() + "-emulated";
        self.remove(&format!("{emulated}.csv"))?;
        let scenarios = self.path.join(&emulated);
        if scenarios.is_symlink() {
            // What it leads to is not of this folder.
            return self.remove(&emulated);
        }
        let cannot = || format!("cannot remove '{}'", scenarios.display());
        let entries = match fs::read_dir(&scenarios) {
            Err(error) if is_missing(&error) => return Ok(()),
            entries => entries.with_context(cannot)?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".toml") || name.ends_with(".csv") {
                self.remove(&format!("{emulated}/{name}"))?;
            }
        }
        match fs::remove_dir(&scenarios) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed.with_context(cannot),
        }
    }

    /// Removes a file or a link, if it is there, and refuses what is neither. A new file under a
    /// name that is free never has another name, not even for the moment in which a signal would
    /// have to remove it.
    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        let cannot = || format!("cannot remove '{}'", path.display());
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() || found.is_symlink() => {
                fs::remove_file(&path).with_context(cannot)
            }
            Ok(_) => file_place(&path).map(drop),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error).with_context(cannot),
        }
    }

    /// What a file of the folder says, if it is there.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path.join(name);
        let shown = path.display();
        // Before opening: to open a pipe is to wait for its other end.
        let text = match fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(bad_input(format!("cannot read '{shown}': it is not a regular file")));
            }
            Ok(_) => fs::read_to_string(&path),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error),
        };
        let text = text.map_err(|error| bad_input(format!("cannot read '{shown}': {error}")))?;
        serde_json::from_str(&text).map(Some).map_err(|why| foreign(&path, &why))
    }
}

impl Configuration {
    /// How much of each experiment is measured.
    pub fn extent(&self) -> Extent {
        Extent { repetitions: self.seeds, is_quick: self.quick }
    }

    /// Whether what it was used for is what another would be, but for what is emulated.
    fn may_become(&self, other: &Configuration) -> bool {
        let options = |of: &Configuration| Configuration {
            testbed: false,
            program: String::new(),
            ..of.clone()
        };
        options(self) == options(other)
    }

    /// The configuration in words, for people.
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

/// The files of an experiment: its values as CSV, its settings and values as JSON, and what was
/// emulated of it.
fn file_names(experiment: &PaperExperiment) -> [String; 3] {
    [".csv", ".json", "-emulated.json"].map(|ending| experiment.name() + ending)
}

/// Whether a table has the charts, groups and series of the experiment.
fn is_of(table: &Table, experiment: &PaperExperiment) -> bool {
    let panels = table.panels.iter().zip(experiment.panels);
    table.panels.len() == experiment.panels.len()
        && panels.into_iter().all(|(kept, spec)| {
            let labels = kept.groups.iter().map(|group| group.label.as_str());
            let names = |cells: &[Cell]| {
                let kept = cells.iter().map(|cell| cell.series.as_str());
                kept.eq(spec.series.iter().map(|series| series.name))
            };
            kept.title == spec.title
                && labels.eq(spec.points.iter().map(|point| point.label))
                && kept.groups.iter().all(|group| names(&group.cells))
        })
}

/// Says of a file that it is another's.
fn foreign(path: &Path, why: &dyn std::fmt::Display) -> anyhow::Error {
    let shown = path.display();
    bad_input(format!("'{shown}' is not what a reproduction writes there: {why}"))
}

/// Whether there is nothing of that name, nor can be.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The panels of an experiment, with their settings as they are measured.
fn as_measured(experiment: &PaperExperiment, extent: Extent) -> Result<Value> {
    let mut panels = serde_json::to_value(experiment.panels)?;
    for (index, panel) in experiment.panels.iter().enumerate() {
        for (place, point) in panel.points.iter().enumerate() {
            let measured = serde_json::to_value(experiment.measured(point.setting, extent))?;
            panels[index]["points"][place]["setting"] = measured;
        }
    }
    Ok(panels)
}

/// Settings as they are read from a file: numbers that went through text.
fn as_read(panels: &Value) -> Result<Value> {
    Ok(serde_json::from_str(&serde_json::to_string(panels)?)?)
}

/// Every value of every chart, a line each; `paper` is what the paper's text prints of it.
fn csv(panels: &[PanelSpec], table: &Table) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let mut out = String::from(
        "panel,place,series,policy,what,unit,mean,least,most,runs,paper,bound,refused\n",
    );
    for (spec, panel) in panels.iter().zip(&table.panels) {
        for group in &panel.groups {
            for cell in &group.cells {
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
                    number(spec.printed_value(&group.label, &cell.series)),
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

#[cfg(test)]
mod tests;
