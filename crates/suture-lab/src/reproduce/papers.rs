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

/// The figures of the Butterfly paper, which shows in one of them what are two experiments here.
const BUTTERFLY_FIGURES: [(&str, &[&str]); 3] =
    [("fig5", &["throughput"]), ("fig6", &["cpu"]), ("fig7", &["network", "disk"])];

/// The experiments of the ChameleonEC paper, which numbers them beside its figures.
const CHAMELEON_EXPERIMENTS: [(&str, &[&str]); 13] = [
    ("exp1", &["fig12"]),
    ("exp2", &["fig13"]),
    ("exp3", &["fig14"]),
    ("exp4", &["fig15"]),
    ("exp5", &["fig16"]),
    ("exp6", &["fig17"]),
    ("exp7", &["fig18"]),
    ("exp8", &["fig19"]),
    ("exp9", &["fig20"]),
    ("exp10", &["fig21"]),
    ("exp11", &["fig22"]),
    ("exp12", &["fig23"]),
    ("exp13", &["fig24"]),
];

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

/// The names that experiments of a paper have beside their own, with the ids that they stand for.
fn other_names(paper: Paper) -> &'static [(&'static str, &'static [&'static str])] {
    match paper {
        Paper::Butterfly => &BUTTERFLY_FIGURES,
        Paper::ChameleonEc => &CHAMELEON_EXPERIMENTS,
        Paper::RepairBoost | Paper::PivotRepair | Paper::Car => &[],
    }
}

/// Those of a paper that have this id, or are what stands under it in the paper (`exp#1` is
/// `exp1`).
fn called(paper: Paper, id: &str) -> Vec<&'static PaperExperiment> {
    let id = &id.replace('#', "");
    let other = other_names(paper).iter().find(|(name, _)| *name == id);
    let ids = other.map_or(&[][..], |(_, ids)| *ids);
    of(paper).filter(|experiment| experiment.id == id || ids.contains(&experiment.id)).collect()
}

/// Every name that experiments of a paper have.
fn names(paper: Paper) -> impl Iterator<Item = &'static str> {
    let others = other_names(paper).iter().map(|(name, _)| *name);
    of(paper).map(|experiment| experiment.id).chain(others)
}

/// What `all`, `PAPER` or `PAPER/ID` names, in letters of any case.
///
/// # Errors
/// Bad input for a paper or a figure that there is not, with the nearest that there is.
pub fn find(text: &str) -> Result<Vec<&'static PaperExperiment>> {
    if text.to_lowercase() == ALL {
        return Ok(all().collect());
    }
    let (name, id) = match text.split_once('/') {
        Some((name, id)) => (name, Some(id)),
        None => (text, None),
    };
    let lower = name.to_lowercase();
    let Some(paper) = Paper::ALL.into_iter().find(|paper| paper.name() == lower) else {
        if lower == ALL {
            return Err(bad_input(format!(
                "'{ALL}' is everything and has no {}: name '{ALL}', or a figure with its paper",
                quoted(id.unwrap_or_default())
            )));
        }
        return Err(bad_input(format!("there is no paper {}{}", quoted(name), instead(&lower))));
    };
    let Some(id) = id else { return Ok(of(paper).collect()) };
    let lower = id.to_lowercase();
    let found = called(paper, &lower);
    if found.is_empty() {
        return Err(bad_input(format!(
            "{paper} has no {}; did you mean '{paper}/{}'? (suture reproduce lists all)",
            quoted(id),
            nearest(&lower, names(paper)),
        )));
    }
    Ok(found)
}

/// What to type instead of a paper that there is not; a figure, with each paper that has it.
fn instead(name: &str) -> String {
    let in_papers = |name: &str| -> String {
        let has_it = |paper: &Paper| !called(*paper, name).is_empty();
        let figures = Paper::ALL.into_iter().filter(has_it).map(|paper| format!("{paper}/{name}"));
        figures.collect::<Vec<_>>().join(", ")
    };
    let figures = in_papers(name);
    if !figures.is_empty() {
        return format!("; a figure is named with its paper: {figures}");
    }
    let known = Paper::ALL.map(Paper::name);
    let papers = known.into_iter().chain([ALL]);
    let nearest = nearest(name, papers.chain(Paper::ALL.into_iter().flat_map(names)));
    let figures = in_papers(nearest);
    if !figures.is_empty() {
        return format!("; did you mean one of {figures}? (suture reproduce lists all)");
    }
    format!("; did you mean '{nearest}'? (one of {}, or {ALL})", known.join(", "))
}

fn nearest(text: &str, known: impl Iterator<Item = &'static str>) -> &'static str {
    known.min_by_key(|known| edit_distance(known, text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use suture_repair::policy::Policy;

    use super::*;
    use crate::reproduce::experiment::Extent;
    use crate::reproduce::metric::Means;
    use crate::reproduce::setting::{FigureSetting, Lost};

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
    fn every_printed_value_is_of_a_bar_of_its_chart_and_of_no_other() {
        for experiment in all() {
            for panel in experiment.panels {
                let mut bars = BTreeSet::new();
                for printed in panel.printed {
                    let bar = (printed.label, printed.series);
                    let what = format!("{}, {}: {bar:?}", experiment.name(), panel.title);
                    assert!(panel.points.iter().any(|point| point.label == bar.0), "{what}");
                    assert!(panel.series.iter().any(|series| series.name == bar.1), "{what}");
                    assert!(bars.insert(bar), "{what} is there twice");
                    assert_eq!(panel.printed_value(bar.0, bar.1), Some(printed.value));
                }
            }
        }
    }

    #[test]
    fn every_claim_has_a_reason_for_when_it_does_not_hold() {
        for experiment in all() {
            for claim in experiment.claims {
                assert!(!claim.apart.is_empty(), "{}: {}", experiment.name(), claim.text);
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
    fn what_is_measured_quickly_beside_many_requests_is_smaller_in_all_of_its_settings() {
        let quick = Extent { repetitions: 1, is_quick: true };
        let whole = Extent { is_quick: false, ..quick };
        let mut crowded = 0;
        for experiment in all() {
            crowded += usize::from(experiment.is_crowded());
            for point in experiment.panels.iter().flat_map(|panel| panel.points) {
                let setting = point.setting;
                let measured = experiment.measured(setting, quick);
                assert_eq!(experiment.measured(setting, whole), setting);
                assert_eq!(measured == setting, !experiment.is_crowded() || is_small(&setting));
                // The starts of runs on traces are those of the paper's setting.
                assert!(measured == setting || setting.trace.is_none());
            }
        }
        assert!(crowded > 5, "{crowded} experiments are few");
        let fig4 = find("chameleonec/fig4").unwrap()[0];
        let measured = |label: &str| {
            let mut points = fig4.panels.iter().flat_map(|panel| panel.points);
            fig4.measured(points.find(|point| point.label == label).unwrap().setting, quick)
        };
        assert_eq!((measured("0 clients").lost, measured("0 clients").foreground), (FEW, None));
        assert_eq!(measured("4 clients").lost, FEW);
        assert_eq!(measured("4 clients").foreground, Some(("ycsb-a", 16)));
        assert_eq!(measured("1 client").foreground, Some(("ycsb-a", 4)));
    }

    /// A quarter of the 200 chunks of ChameleonEC.
    const FEW: Lost = Lost::Chunks(50);

    /// Whether a setting has nothing that there can be less of.
    fn is_small(setting: &FigureSetting) -> bool {
        let requests = setting.foreground.map_or(0, |(_, requests)| requests);
        setting.lost == Lost::Chunks(1) && requests <= 4
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
        assert!(refused("butterfly/figure5").contains("did you mean 'butterfly/fig5'?"));
    }

    #[test]
    fn a_figure_without_its_paper_is_named_with_each_paper_that_has_it() {
        let refused = |text| format!("{:#}", find(text).unwrap_err());
        let said = refused("fig9");
        assert!(said.contains("there is no paper 'fig9'"), "{said}");
        assert!(said.ends_with("with its paper: repairboost/fig9, car/fig9"), "{said}");
        assert!(refused("Fig7").ends_with(": pivotrepair/fig7, car/fig7, butterfly/fig7"));
        assert!(refused("fig24").ends_with("with its paper: chameleonec/fig24"));
        assert!(refused("fig99").contains("did you mean one of repairboost/fig9, car/fig9?"));
        assert!(refused("all/fig9").contains("'all' is everything and has no 'fig9'"));
    }

    #[test]
    fn names_are_found_in_letters_of_any_case_and_by_the_figures_of_the_paper() {
        let names = |text| find(text).unwrap().into_iter().map(PaperExperiment::name);
        assert_eq!(names("CAR/Fig9").collect::<Vec<_>>(), ["car/fig9"]);
        assert_eq!(names("ALL").count(), all().count());
        assert_eq!(names("butterfly/fig5").collect::<Vec<_>>(), ["butterfly/throughput"]);
        assert_eq!(names("butterfly/fig6").collect::<Vec<_>>(), ["butterfly/cpu"]);
        let figure7: Vec<String> = names("butterfly/fig7").collect();
        assert_eq!(figure7, ["butterfly/network", "butterfly/disk"]);
        assert_eq!(names("Butterfly").count(), 4);
        assert_eq!(names("chameleonec/Exp#1").collect::<Vec<_>>(), ["chameleonec/fig12"]);
        for (name, ids) in CHAMELEON_EXPERIMENTS {
            let found = find(&format!("chameleonec/{name}")).unwrap();
            let number = name.trim_start_matches("exp");
            assert!(found[0].title.starts_with(&format!("Exp#{number}, ")), "{name} is {ids:?}");
        }
    }
}
