//! What an experiment came to, as values: charts, groups, and a value for each repetition.
//!
//! Place: between measuring and judging. It is kept as JSON, so that a report can be written of
//! what was finished before.

use serde::{Deserialize, Serialize};

/// All charts of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// In the order of the experiment's panels.
    pub panels: Vec<PanelTable>,
}

/// The values of one chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PanelTable {
    /// What distinguishes it from the others of its experiment.
    pub title: String,
    /// What its values measure.
    pub what: String,
    /// The unit that stands behind each number.
    pub unit: String,
    /// Whether values are apart by orders of magnitude.
    pub is_logarithmic: bool,
    /// What the bound of each group is called; none: there is none.
    pub bound_name: Option<String>,
    /// In the order of the points.
    pub groups: Vec<Group>,
}

/// What stands at one place of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its place on the axis.
    pub label: String,
    /// What no policy can be better than, or what there is without a repair.
    pub bound: Option<f64>,
    /// In the order of the series.
    pub cells: Vec<Cell>,
}

/// The value of one bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The policy under the paper's name.
    pub series: String,
    /// The policy as typed.
    pub policy: String,
    /// A value for each repetition that came to one.
    pub values: Vec<f64>,
    /// Why there is none, where there is none.
    pub refused: Option<String>,
}

impl Cell {
    /// The mean of the repetitions; `None` where there are none.
    pub fn mean(&self) -> Option<f64> {
        mean(&self.values)
    }
}

/// The mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A number as reports show it: three digits that count.
pub fn shown(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_string(),
        0.0 => "0".to_string(),
        ..1e-3 | 1e6.. => format!("{value:.2e}"),
        ..0.1 => format!("{value:.4}"),
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
