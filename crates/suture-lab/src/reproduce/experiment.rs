//! What an experiment is made of, as data: panels of points, series of policies, claims.
//!
//! Place: before everything else of a reproduction. Nothing here runs anything.

use std::fmt;

use serde::Serialize;

use super::claim::Claim;
use super::metric::Metric;
use super::setting::{CALM_REQUESTS, FigureSetting};

/// Whose figures are measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// Lin et al., USENIX ATC 2021.
    RepairBoost,
    /// Yao et al., IEEE ICDCS 2022.
    PivotRepair,
    /// Shen, Lee, Shu and Guo, IEEE TDSC.
    Car,
    /// ChameleonEC, IEEE HPCA 2025.
    ChameleonEc,
    /// Pamies-Juarez et al., USENIX FAST 2016.
    Butterfly,
}

/// A figure or table of a paper, and how it is measured here.
#[derive(Clone, Copy, Debug)]
pub struct PaperExperiment {
    /// The paper that it is of.
    pub paper: Paper,
    /// Its name behind the paper's, such as `fig9`.
    pub id: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What the paper did: testbed and parameters.
    pub did: &'static str,
    /// What is run here, and what is left out.
    pub here: &'static str,
    /// What is measured, chart by chart.
    pub panels: &'static [PanelSpec],
    /// What the paper says of it.
    pub claims: &'static [Claim],
}

/// One chart: groups of bars.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PanelSpec {
    /// What is shown, unless the experiment has only this.
    pub title: &'static str,
    /// What is measured of every run.
    pub metric: Metric,
    /// The groups of bars, in order.
    pub points: &'static [PanelPoint],
    /// The bars of each group, in order.
    pub series: &'static [Series],
    /// The values that the paper's text prints, in the metric's unit.
    pub printed: &'static [PrintedValue],
}

/// What a paper's text says of one bar.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PrintedValue {
    /// The label of its group.
    pub label: &'static str,
    /// The name of its series.
    pub series: &'static str,
    /// In the unit of the panel's metric.
    pub value: f64,
}

/// One group of bars: the same failure under all policies.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PanelPoint {
    /// What stands beside it in the panel.
    pub label: &'static str,
    /// The cluster, and what fails there.
    pub setting: FigureSetting,
}

/// One policy, under the name that its paper gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The name in charts, tables and claims.
    pub name: &'static str,
    /// The policy as typed.
    pub policy: &'static str,
}

/// The default of Suture, which every panel of repairs ends with.
pub const SUTURE: Series = Series { name: "suture", policy: "suture" };

impl Paper {
    /// All, in the order of the reports.
    pub const ALL: [Paper; 5] =
        [Paper::RepairBoost, Paper::PivotRepair, Paper::Car, Paper::ChameleonEc, Paper::Butterfly];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Paper::RepairBoost => "repairboost",
            Paper::PivotRepair => "pivotrepair",
            Paper::Car => "car",
            Paper::ChameleonEc => "chameleonec",
            Paper::Butterfly => "butterfly",
        }
    }

    /// Where it was published.
    pub fn source(self) -> &'static str {
        match self {
            Paper::RepairBoost => {
                "RepairBoost: Boosting Full-Node Repair in Erasure-Coded Storage, USENIX ATC 2021"
            }
            Paper::PivotRepair => {
                "PivotRepair: Fast Pipelined Repair for Erasure-Coded Hot Storage, IEEE ICDCS 2022"
            }
            Paper::Car => {
                "Cross-Rack-Aware Single Failure Recovery for Clustered File Systems, IEEE TDSC"
            }
            Paper::ChameleonEc => {
                "ChameleonEC: Low-Interference Repair for Erasure-Coded Storage, IEEE HPCA 2025"
            }
            Paper::Butterfly => {
                "Opening the Chrysalis: On the Real Repair Performance of MSR Codes, USENIX FAST \
                 2016, as presented in slides"
            }
        }
    }
}

impl PanelSpec {
    /// What the paper's text prints of the bar of that series in that group.
    pub fn printed_value(&self, label: &str, series: &str) -> Option<f64> {
        let is_it = |printed: &&PrintedValue| printed.label == label && printed.series == series;
        self.printed.iter().find(is_it).map(|printed| printed.value)
    }
}

/// How much of an experiment is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How often each policy is measured.
    pub repetitions: u64,
    /// Whether it is to take minutes: with smaller settings where runs take long.
    pub is_quick: bool,
}

impl PaperExperiment {
    /// A setting of it as it is measured. Beside many requests of applications a run takes long:
    /// where some setting has them, all of its settings are smaller when it is to be quick, so that
    /// they can still be compared.
    pub fn measured(&self, setting: FigureSetting, extent: Extent) -> FigureSetting {
        if extent.is_quick && self.is_crowded() { setting.quarter() } else { setting }
    }

    /// Whether many requests of applications are under way in some setting of it.
    pub fn is_crowded(&self) -> bool {
        let points = self.panels.iter().flat_map(|panel| panel.points);
        let mut requests = points.filter_map(|point| point.setting.foreground);
        requests.any(|(_, requests)| requests > CALM_REQUESTS)
    }

    /// Its name on the command line, `PAPER/ID`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.paper.name(), self.id)
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
