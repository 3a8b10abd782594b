//! All experiments, paper by paper, and how they are found by what people type.
//!
//! Place: before everything else of a reproduction: the closed list.

mod butterfly;
mod car;
mod chameleonec;
mod foreground;
mod pivotrepair;
mod repairboost;

use anyhow::Result;
use suture_code::code::edit_distance;
use suture_edge::error::{bad_input, quoted};

use super::experiment::{Paper, PaperExperiment};

/// What stands for all of them.
pub const ALL: &str = "all";

/// Every experiment, in the order of the papers and of their figures.
pub fn all() -> impl Iterator<Item = &'static PaperExperiment> {
    Paper::ALL.into_iter().flat_map(of)
}

/// Those of a paper.
fn of(paper: Paper) -> impl Iterator<Item = &'static PaperExperiment> {
    let (first, second): (&[PaperExperiment], &[PaperExperiment]) = match paper {
        Paper::RepairBoost => (repairboost::EXPERIMENTS, &[]),
        Paper::PivotRepair => (pivotrepair::EXPERIMENTS, &[]),
        Paper::Car => (car::EXPERIMENTS, &[]),
        Paper::ChameleonEc => (foreground::EXPERIMENTS, chameleonec::EXPERIMENTS),
        Paper::Butterfly => (butterfly::EXPERIMENTS, &[]),
    };
    first.iter().chain(second)
}

/// What `all`, `PAPER` or `PAPER/ID` names.
///
/// # Errors
/// Bad input for a paper or a figure that there is not, with the nearest that there is.
pub fn find(text: &str) -> Result<Vec<&'static PaperExperiment>> {
    if text == ALL {
        return Ok(all().collect());
    }
    let (name, id) = text.split_once('/').unwrap_or((text, ""));
    let Some(paper) = Paper::ALL.into_iter().find(|paper| paper.name() == name) else {
        let known = Paper::ALL.map(Paper::name);
        return Err(bad_input(format!(
            "there is no paper {}; did you mean '{}'? (one of {}, or {ALL})",
            quoted(name),
            nearest(name, known.into_iter().chain([ALL])),
            known.join(", "),
        )));
    };
    let found: Vec<&PaperExperiment> =
        of(paper).filter(|experiment| !text.contains('/') || experiment.id == id).collect();
    if found.is_empty() {
        return Err(bad_input(format!(
            "{paper} has no {}; did you mean '{paper}/{}'? (suture reproduce lists all)",
            quoted(id),
            nearest(id, of(paper).map(|experiment| experiment.id)),
        )));
    }
    Ok(found)
}

fn nearest(text: &str, known: impl Iterator<Item = &'static str>) -> &'static str {
    known.min_by_key(|known| edit_distance(known, text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use suture_repair::policy::Policy;

    use super::*;
    use crate::reproduce::metric::Means;

    #[test]
    fn every_policy_and_code_of_every_experiment_can_be_read() {
        for experiment in all() {
            for panel in experiment.panels {
                for point in panel.points {
                    point.setting.code().unwrap();
                    assert!(
                        point.setting.racks.is_empty()
                            || point.setting.nodes == point.setting.racks.iter().sum::<usize>()
                    );
                }
                let has_policy = !matches!(panel.metric.means(), Means::Links | Means::Formula);
                for series in panel.series.iter().filter(|_| has_policy) {
                    assert!(series.policy.parse::<Policy>().is_ok(), "{}", series.policy);
                }
            }
        }
    }

    #[test]
    fn every_chart_of_repairs_has_suture_in_it() {
        for experiment in all() {
            for panel in experiment.panels {
                let is_of_repairs = !matches!(panel.metric.means(), Means::Links | Means::Formula);
                let has_suture = panel.series.iter().any(|series| series.name == "suture");
                assert!(has_suture || !is_of_repairs, "{}", experiment.name());
            }
        }
    }

    #[test]
    fn every_claim_names_series_groups_and_panels_that_there_are() {
        for experiment in all() {
            let known: BTreeSet<&str> = experiment
                .panels
                .iter()
                .flat_map(|panel| {
                    let series = panel.series.iter().map(|series| series.name);
                    let points = panel.points.iter().map(|point| point.label);
                    series.chain(points).chain([panel.title])
                })
                .collect();
            for claim in experiment.claims {
                for word in claim.quantity.words() {
                    assert!(known.contains(word), "{}: {word}", experiment.name());
                }
            }
        }
    }

    #[test]
    fn names_are_told_apart_and_the_nearest_is_named() {
        let names: BTreeSet<String> = all().map(PaperExperiment::name).collect();
        assert_eq!(names.len(), all().count());
        assert_eq!(find("car/fig9").unwrap()[0].name(), "car/fig9");
        assert_eq!(find("all").unwrap().len(), all().count());
        let refused = |text| format!("{:#}", find(text).unwrap_err());
        assert!(refused("repairbost").contains("did you mean 'repairboost'?"));
        assert!(refused("car/fig99").contains("did you mean 'car/fig9'?"));
        assert!(refused("car/").contains("car has no ''"));
    }
}
