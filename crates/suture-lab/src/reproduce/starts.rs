//! In which second of its trace each run began.
//!
//! Place: beside [slices flow]: kept with what an experiment came to, so that a single run can be
//! made again. A run has the trace turned round, from its start on, and not the start itself; that
//! is the second from which on the trace says the same.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;

use super::experiment::PaperExperiment;
use super::metric::Means;
use super::setting::{FigureSetting, Prepared};
use super::traces::{LinkTrace, NODES, Traces};

/// Rates below this, in bytes per second, are all alike: none of zero is announced to a
/// coordinator.
const NOTHING: f64 = 1e3;

/// Where one run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// The title of its panel.
    pub panel: String,
    /// The label of its group.
    pub label: String,
    /// The seed, which all policies share.
    pub seed: u64,
    /// The second of the trace.
    pub second: u64,
}

/// The starts of all runs of an experiment on links that change, seed by seed.
///
/// # Errors
/// When a setting is impossible.
pub fn of(experiment: &PaperExperiment, seeds: u64, traces: &Traces) -> Result<Vec<TraceStart>> {
    let mut starts = Vec::new();
    // Panels that show the same runs share their starts.
    let mut known: Vec<((FigureSetting, u64), Option<u64>)> = Vec::new();
    for panel in experiment.panels {
        if matches!(panel.metric.means(), Means::Links | Means::Formula) {
            continue;
        }
        for point in panel.points.iter().filter(|point| point.setting.trace.is_some()) {
            for seed in 1..=seeds {
                let run = (point.setting, seed);
                let found = known.iter().find(|(other, _)| *other == run);
                let second = match found {
                    Some((_, second)) => *second,
                    None => {
                        let prepared = point.setting.prepare(traces, seed)?;
                        let second = start_second(&point.setting, &prepared, traces);
                        known.push((run, second));
                        second
                    }
                };
                starts.extend(second.map(|second| TraceStart {
                    panel: panel.title.to_string(),
                    label: point.label.to_string(),
                    seed,
                    second,
                }));
            }
        }
    }
    Ok(starts)
}

/// The second from which on the trace has what the links of this run have.
fn start_second(setting: &FigureSetting, prepared: &Prepared, traces: &Traces) -> Option<u64> {
    let LinkTrace { up, down } = traces.of(setting.trace?.0);
    let is_alike = |rate: Rate, declared: Rate| rate.0.max(NOTHING) == declared.0.max(NOTHING);
    let begins_at = |start: &u64| {
        (0..up.seconds()).all(|after| {
            (0..NODES).all(|node| {
                let declared = prepared.capacities.declared(NodeId(node as u32), after as f64);
                is_alike(up.rate(node, start + after), declared.uplink)
                    && is_alike(down.rate(node, start + after), declared.downlink)
            })
        })
    };
    (0..up.seconds()).find(begins_at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::reproduce::papers;

    #[test]
    fn a_run_on_a_trace_begins_in_the_second_that_is_kept() {
        let traces = Traces::read(None).unwrap();
        let experiment = papers::find("pivotrepair/fig7").unwrap()[0];
        let starts = of(experiment, 2, &traces).unwrap();
        let panels = experiment.panels;
        let points: usize = panels.iter().map(|panel| panel.points.len()).sum();
        assert_eq!(starts.len(), 2 * points, "every point of every panel, with two seeds");
        let different: BTreeSet<u64> = starts.iter().map(|start| start.second).collect();
        assert!(different.len() > 1, "{different:?}");
        let (panel, point) = (panels[0], panels[0].points[0]);
        let is_it = |start: &&TraceStart| start.panel == panel.title && start.label == point.label;
        let seconds: Vec<u64> = starts.iter().filter(is_it).map(|start| start.second).collect();
        assert_eq!(seconds.len(), 2);
        let up = &traces.of(point.setting.trace.unwrap().0).up;
        for (seed, second) in [1, 2].into_iter().zip(seconds) {
            let prepared = point.setting.prepare(&traces, seed).unwrap();
            let turned = up.starting_at(second);
            for after in [0, 17, 5999] {
                let declared = prepared.capacities.declared(NodeId(3), after as f64);
                assert!((declared.uplink.0 - turned.rate(3, after).0).abs() <= 1.0);
            }
        }
    }

    #[test]
    fn what_has_no_trace_has_no_start() {
        let traces = Traces::read(None).unwrap();
        let experiment = papers::find("car/fig8").unwrap()[0];
        assert!(of(experiment, 1, &traces).unwrap().is_empty());
    }
}
