//! Performs experiments: every point under every policy, as often as it is repeated.
//!
//! Place: around the measuring of experiments. Runs are independent, so all cores take them in
//! turn; panels that show different metrics of the same runs share them, within an experiment and
//! among those of one reproduction. What comes out does not depend on the number of cores or on
//! what is shared, but for times of the processor.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

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
    key: TaskKey,
    wanted: Vec<(Metric, usize)>,
    values: OnceLock<Values>,
}

/// What decides what a task comes to.
#[derive(Clone, Debug, PartialEq)]
struct TaskKey {
    setting: FigureSetting,
    kind: RunKind,
    seed: u64,
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

/// The runs of all experiments of a reproduction, each done once, when the first that needs it is
/// performed.
pub struct Runs<'a> {
    tasks: Vec<Task>,
    extent: Extent,
    traces: &'a Traces,
}

impl<'a> Runs<'a> {
    /// What these experiments need; nothing of it is done yet.
    pub fn new(experiments: &[&PaperExperiment], extent: Extent, traces: &'a Traces) -> Runs<'a> {
        let mut tasks: Vec<Task> = Vec::new();
        for experiment in experiments {
            for (key, wanted) in wanted(experiment, extent) {
                match tasks.iter_mut().find(|task| task.key == key) {
                    Some(task) if task.wanted.contains(&wanted) => {}
                    Some(task) => task.wanted.push(wanted),
                    None => {
                        tasks.push(Task { key, wanted: vec![wanted], values: OnceLock::new() });
                    }
                }
            }
        }
        Runs { tasks, extent, traces }
    }

    /// Performs what is not done yet of an experiment, which is one of those that it was made for.
    ///
    /// # Errors
    /// When a setting is impossible, or it was interrupted.
    pub fn perform(&self, experiment: &PaperExperiment) -> Result<Table> {
        let keys: Vec<TaskKey> = wanted(experiment, self.extent).map(|(key, _)| key).collect();
        let is_due = |task: &&Task| task.values.get().is_none() && keys.contains(&task.key);
        let due: Vec<&Task> = self.tasks.iter().filter(is_due).collect();
        let next = AtomicUsize::new(0);
        let fault = Mutex::new(None);
        let worker = || {
            while !IS_STOPPED.load(Ordering::Relaxed) {
                let Some(task) = due.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                match task.run(self.traces) {
                    Ok(values) => task.values.set(values).expect("each task is taken once"),
                    Err(why) => {
                        next.store(due.len(), Ordering::Relaxed);
                        fault.lock().expect("no run panics with it").get_or_insert(why);
                    }
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..cores.min(due.len()) {
                scope.spawn(worker);
            }
        });
        if let Some(why) = fault.into_inner().expect("no run panics with it") {
            return Err(why);
        }
        // A signal that came with the last of them interrupts nothing.
        if due.iter().any(|task| task.values.get().is_none()) {
            bail!("interrupted");
        }
        let panels = experiment.panels.iter();
        let panels = panels.map(|panel| self.panel_table(experiment, panel));
        Ok(Table { panels: panels.collect() })
    }
}

/// Every run that some panel needs, and what of it; a run that several need comes several times.
fn wanted(
    experiment: &PaperExperiment,
    extent: Extent,
) -> impl Iterator<Item = (TaskKey, (Metric, usize))> {
    let points = experiment.panels.iter().flat_map(|panel| {
        panel.points.iter().enumerate().map(move |(index, point)| (panel, index, point))
    });
    points.flat_map(move |(panel, index, point)| {
        let setting = experiment.measured(point.setting, extent);
        let kinds = panel.series.iter().map(|series| kind_of(panel.metric, series.policy));
        let bound = panel.metric.bound_name().map(|_| RunKind::Bound);
        let kinds: Vec<RunKind> = kinds.chain(bound).collect();
        seeds(panel, extent.repetitions).flat_map(move |seed| {
            let key = move |kind| TaskKey { setting, kind, seed };
            kinds.clone().into_iter().map(move |kind| (key(kind), (panel.metric, index)))
        })
    })
}

/// What does not depend on chance is measured once; which requests applications make does.
fn seeds(panel: &PanelSpec, repetitions: u64) -> RangeInclusive<u64> {
    let is_drawn = matches!(panel.metric, Metric::Fluctuation(_) | Metric::MostFluctuation(_));
    let is_fixed = matches!(panel.metric.means(), Means::Links | Means::Formula) && !is_drawn;
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
        let TaskKey { setting, kind, seed } = &self.key;
        if let RunKind::Links(metric) = *kind {
            let value = links::seen(metric, setting, *seed, traces)?;
            return Ok(Ok(self.wanted.iter().map(|_| Some(value)).collect()));
        }
        let prepared = setting.prepare(traces, *seed)?;
        let RunKind::Policy(means, policy) = *kind else { return self.bounds(&prepared) };
        let policy: Policy = policy.parse()?;
        let measured = match means {
            Means::Simulation => {
                let has_links = self.wanted.iter().any(|(m, _)| matches!(m, Metric::Link(_)));
                prepared.simulate(setting, policy, has_links)
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
                Metric::P99 => prepared.alone_p99_ms(&self.key.setting, seconds)?,
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

impl Runs<'_> {
    fn panel_table(&self, experiment: &PaperExperiment, panel: &PanelSpec) -> PanelTable {
        let groups = panel.points.iter().enumerate();
        PanelTable {
            title: panel.title.to_string(),
            what: panel.metric.name().to_string(),
            unit: panel.metric.unit().to_string(),
            is_logarithmic: panel.metric.is_logarithmic(),
            bound_name: panel.metric.bound_name().map(str::to_string),
            groups: groups
                .map(|(index, point)| {
                    let setting = experiment.measured(point.setting, self.extent);
                    self.group(panel, point.label, index, setting)
                })
                .collect(),
        }
    }

    fn group(&self, panel: &PanelSpec, label: &str, index: usize, setting: FigureSetting) -> Group {
        // What a kind of run gave for this point, seed by seed; and why it gave nothing.
        let gather = |kind: &RunKind| {
            let mut values = Vec::new();
            let mut refused = None;
            for seed in seeds(panel, self.extent.repetitions) {
                let key = TaskKey { setting, kind: kind.clone(), seed };
                let found = self.tasks.iter().find(|task| task.key == key);
                let Some((task, given)) = found.and_then(|task| Some((task, task.values.get()?)))
                else {
                    continue;
                };
                let place = task.wanted.iter().position(|wanted| *wanted == (panel.metric, index));
                match given {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;

    const ONCE: Extent = Extent { repetitions: 1, is_quick: true };

    #[test]
    fn experiments_share_runs_and_come_to_what_they_come_to_alone() {
        let traces = Traces::read(None).unwrap();
        let of = |name: &str| papers::find(name).unwrap()[0];
        let both = [of("repairboost/fig12"), of("repairboost/fig13")];
        let shared = Runs::new(&both, ONCE, &traces);
        let apart = both.map(|experiment| Runs::new(&[experiment], ONCE, &traces));
        let counts = apart.each_ref().map(|runs| runs.tasks.len());
        assert!(shared.tasks.len() < counts[0] + counts[1], "{} {counts:?}", shared.tasks.len());
        for (experiment, alone) in both.iter().zip(&apart) {
            let table = shared.perform(experiment).unwrap();
            assert_eq!(table, alone.perform(experiment).unwrap(), "{}", experiment.name());
        }
    }
}
