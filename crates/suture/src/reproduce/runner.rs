//! Performs an experiment: every point under every policy, as often as it is repeated.
//!
//! Place: around the measuring of an experiment. Runs are independent, so all cores take them in
//! turn; panels that show different metrics of the same runs share them. What comes out does not
//! depend on the number of cores, but for times of the processor.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Result, bail};
use suture_repair::policy::Policy;

use super::experiment::{Extent, PanelSpec, PaperExperiment};
use super::kernels;
use super::links;
use super::measure::Measured;
use super::metric::{Means, Metric};
use super::setting::{FigureSetting, Prepared};
use super::table::{Cell, Group, PanelTable, Table, mean};
use super::traces::Traces;

/// Set when no further run is to be begun.
pub static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// One thing that a core does without any other, and what panels want of it: metrics, each with the
/// index of its point.
struct Task {
    setting: FigureSetting,
    kind: RunKind,
    seed: u64,
    wanted: Vec<(Metric, usize)>,
}

/// What is done with a setting.
#[derive(Clone, Debug, PartialEq)]
enum RunKind {
    Bound,
    Policy(Means, &'static str),
    Links(Metric),
}

/// What a task gives for what is wanted of it, or why the policy refused.
type Values = Result<Vec<Option<f64>>, String>;

/// Performs all runs of an experiment, every policy so many times, each with another seed.
///
/// # Errors
/// When a setting is impossible, or it was interrupted.
pub fn perform(experiment: &PaperExperiment, extent: Extent, traces: &Traces) -> Result<Table> {
    let tasks = tasks(experiment, extent);
    let results: Vec<Mutex<Option<Result<Values>>>> =
        tasks.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        while !IS_STOPPED.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(index) else { return };
            *results[index].lock().expect("no run panics with it") = Some(task.run(traces));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(tasks.len()) {
            scope.spawn(worker);
        }
    });
    let results = results.into_iter().map(|result| result.into_inner().ok().flatten());
    // A signal that came with the last of them interrupts nothing.
    let Some(results) = results.collect::<Option<Vec<Result<Values>>>>() else {
        bail!("interrupted");
    };
    let results = results.into_iter().collect::<Result<Vec<Values>>>()?;
    let results: Vec<(&Task, Values)> = tasks.iter().zip(results).collect();
    let panels = experiment.panels.iter();
    let panels = panels.map(|panel| panel_table((experiment, extent), panel, &results));
    Ok(Table { panels: panels.collect() })
}

/// Every run that some panel needs, each once.
fn tasks(experiment: &PaperExperiment, extent: Extent) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for panel in experiment.panels {
        for (index, point) in panel.points.iter().enumerate() {
            let setting = experiment.measured(point.setting, extent);
            for seed in seeds(panel, extent.repetitions) {
                let of_series =
                    panel.series.iter().map(|series| kind_of(panel.metric, series.policy));
                let bound = panel.metric.bound_name().map(|_| RunKind::Bound);
                for kind in of_series.chain(bound) {
                    let is_it =
                        |t: &&mut Task| t.setting == setting && t.seed == seed && t.kind == kind;
                    let wanted = (panel.metric, index);
                    match tasks.iter_mut().find(is_it) {
                        Some(task) => task.wanted.push(wanted),
                        None => tasks.push(Task { setting, kind, seed, wanted: vec![wanted] }),
                    }
                }
            }
        }
    }
    tasks
}

/// What does not depend on chance is measured once.
fn seeds(panel: &PanelSpec, repetitions: u64) -> RangeInclusive<u64> {
    let is_fixed = matches!(panel.metric.means(), Means::Links | Means::Formula);
    1..=if is_fixed { 1 } else { repetitions }
}

fn kind_of(metric: Metric, policy: &'static str) -> RunKind {
    match metric.means() {
        Means::Links | Means::Formula => RunKind::Links(metric),
        means => RunKind::Policy(means, policy),
    }
}

impl Task {
    fn run(&self, traces: &Traces) -> Result<Values> {
        if let RunKind::Links(metric) = self.kind {
            let value = links::seen(metric, &self.setting, self.seed, traces)?;
            return Ok(Ok(self.wanted.iter().map(|_| Some(value)).collect()));
        }
        let prepared = self.setting.prepare(traces, self.seed)?;
        let RunKind::Policy(means, policy) = self.kind else { return self.bounds(&prepared) };
        let policy: Policy = policy.parse()?;
        let measured = match means {
            Means::Simulation => {
                let has_links = self.wanted.iter().any(|(m, _)| matches!(m, Metric::Link(_)));
                prepared.simulate(&self.setting, policy, has_links)
            }
            _ => prepared.plan(policy),
        };
        let measured = match measured {
            Ok(measured) => measured,
            Err(why) => return Ok(Err(format!("{why:#}"))),
        };
        if means == Means::Codes {
            return Ok(Ok(self.of_codes(&prepared, &measured)?));
        }
        let value = |(metric, index): &(Metric, usize)| metric.value(&prepared, &measured, *index);
        Ok(Ok(self.wanted.iter().map(value).collect()))
    }

    /// The bound of each metric; of applications, what they have beside no repair.
    fn bounds(&self, prepared: &Prepared) -> Result<Values> {
        let seconds = prepared.bound_seconds();
        let mut values = Vec::new();
        for (metric, _) in &self.wanted {
            values.push(match metric {
                Metric::P99 => prepared.alone_p99_ms(&self.setting, seconds)?,
                metric => metric.bound(prepared, seconds),
            });
        }
        Ok(Ok(values))
    }

    /// What the codes of the plans take.
    fn of_codes(&self, prepared: &Prepared, measured: &Measured) -> Result<Vec<Option<f64>>> {
        let seconds = kernels::seconds_per_byte(prepared, measured)?;
        let links = measured.load.max_seconds(&prepared.input.cluster) / measured.lost_bytes as f64;
        let value = |(metric, _): &(Metric, usize)| match metric {
            Metric::ComputePart => Some(100.0 * seconds / (links + seconds)),
            _ => Some(seconds * 1e9),
        };
        Ok(self.wanted.iter().map(value).collect())
    }
}

fn panel_table(
    (experiment, extent): (&PaperExperiment, Extent),
    panel: &PanelSpec,
    results: &[(&Task, Values)],
) -> PanelTable {
    let groups = panel.points.iter().enumerate();
    PanelTable {
        title: panel.title.to_string(),
        what: panel.metric.name().to_string(),
        unit: panel.metric.unit().to_string(),
        is_logarithmic: panel.metric.is_logarithmic(),
        bound_name: panel.metric.bound_name().map(str::to_string),
        groups: groups
            .map(|(index, point)| {
                let setting = experiment.measured(point.setting, extent);
                group(panel, point.label, (index, setting), extent.repetitions, results)
            })
            .collect(),
    }
}

fn group(
    panel: &PanelSpec,
    label: &str,
    (index, setting): (usize, FigureSetting),
    repetitions: u64,
    results: &[(&Task, Values)],
) -> Group {
    // What a kind of run gave for this point, seed by seed; and why it gave nothing.
    let gather = |kind: &RunKind| {
        let mut values = Vec::new();
        let mut refused = None;
        for seed in seeds(panel, repetitions) {
            let is_it = |t: &Task| t.setting == setting && t.seed == seed && t.kind == *kind;
            let Some((task, result)) = results.iter().find(|(task, _)| is_it(task)) else {
                continue;
            };
            let place = task.wanted.iter().position(|wanted| *wanted == (panel.metric, index));
            match result {
                Ok(given) => values.extend(place.and_then(|place| given[place])),
                Err(why) => refused = Some(why.clone()),
            }
        }
        (values, refused)
    };
    let cell = |series: &super::experiment::Series| {
        let (values, refused) = gather(&kind_of(panel.metric, series.policy));
        let (series, policy) = (series.name.to_string(), series.policy.to_string());
        Cell { series, policy, values, refused }
    };
    Group {
        label: label.to_string(),
        bound: mean(&gather(&RunKind::Bound).0),
        cells: panel.series.iter().map(cell).collect(),
    }
}
