//! A chart as rows of text, and what is to be read with it: the same in both reports.
//!
//! Place: the last step of a reproduction. Beside each measured value stands the one that the
//! paper's text prints, where it prints any.

use crate::reproduce::experiment::PanelSpec;
use crate::reproduce::folder::{Finished, cell_text};
use crate::reproduce::metric::{Means, Metric};
use crate::reproduce::table::{Cell, Group, PanelTable, shown};

/// What the values in parentheses are.
const PRINTED: &str = "In parentheses: what the paper's text prints.";

/// A chart: what was to be measured, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct ShownPanel<'a> {
    /// The first of both.
    pub spec: &'static PanelSpec,
    /// What came of it.
    pub table: &'a PanelTable,
}

/// The values of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRows {
    /// Above the columns: series, and the bound where there is one.
    pub heads: Vec<String>,
    /// A row for each group.
    pub rows: Vec<ValueRow>,
}

/// The values of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRow {
    /// What stands before them.
    pub label: String,
    /// One for each column.
    pub values: Vec<String>,
}

impl Finished {
    /// Its charts, in order.
    pub fn shown_panels(&self) -> impl Iterator<Item = ShownPanel<'_>> {
        let panels = self.experiment.panels.iter().zip(&self.outcome.table.panels);
        panels.map(|(spec, table)| ShownPanel { spec, table })
    }
}

impl ShownPanel<'_> {
    /// What is measured, in which unit.
    pub fn what(&self) -> String {
        let PanelTable { what, unit, .. } = self.table;
        if unit.is_empty() { what.clone() } else { format!("{what}, {unit}") }
    }

    /// How its values came about.
    pub fn means(&self) -> &'static str {
        let metric = self.spec.metric;
        match (metric, metric.means()) {
            (Metric::PlanSeconds, _) => "planned, and timed on this machine",
            (Metric::CoordinatorSeconds, _) => "simulated; the coordinator timed on this machine",
            (Metric::WholeSeconds, _) => "simulated, with planning timed on this machine",
            (Metric::Fluctuation(_) | Metric::MostFluctuation(_), _) => {
                "simulated applications without a repair"
            }
            (_, Means::Plans) => "planned, not run",
            (_, Means::Simulation) => "simulated",
            (_, Means::Codes) => "timed on this machine",
            (_, Means::Links) => "from link traces",
            (_, Means::Formula) => "computed by a formula",
        }
    }

    /// What the paper's text prints of a bar.
    pub fn printed(&self, group: &Group, cell: &Cell) -> Option<f64> {
        self.spec.printed_value(&group.label, &cell.series)
    }

    /// Whether the paper's text prints anything of it.
    pub fn has_printed(&self) -> bool {
        let has = |group: &Group| group.cells.iter().any(|c| self.printed(group, c).is_some());
        self.table.groups.iter().any(has)
    }

    /// A measured value, and in parentheses the printed one.
    pub fn value_text(&self, group: &Group, cell: &Cell) -> String {
        let measured = cell_text(cell.mean());
        match self.printed(group, cell) {
            Some(printed) => format!("{measured} ({})", shown(printed)),
            None => measured,
        }
    }

    /// All values of the panel, by row.
    pub fn rows(&self) -> ValueRows {
        let bound_name = &self.table.bound_name;
        let series = self.table.groups.first().into_iter().flat_map(|group| &group.cells);
        let heads = series.map(|cell| cell.series.clone()).chain(bound_name.clone()).collect();
        let row = |group: &Group| {
            let values = group.cells.iter().map(|cell| self.value_text(group, cell));
            let bound = bound_name.as_ref().map(|_| cell_text(group.bound));
            ValueRow { label: group.label.clone(), values: values.chain(bound).collect() }
        };
        ValueRows { heads, rows: self.table.groups.iter().map(row).collect() }
    }

    /// What is to be said below it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.has_printed() {
            notes.push(PRINTED.to_string());
        }
        let why = self.spec.metric.unbounded();
        notes.extend(why.map(|why| format!("No bound: {why}.")));
        let with = |is_partly: bool| {
            let of_group = |group: &Group| {
                let cells = group.cells.iter().filter(|cell| cell.values.is_empty() != is_partly);
                let why = |cell: &Cell| {
                    let why = cell.refused.as_ref()?;
                    Some(format!("{} at {}: {why}", cell.series, group.label))
                };
                cells.filter_map(why).collect::<Vec<_>>()
            };
            self.table.groups.iter().flat_map(of_group).collect::<Vec<_>>()
        };
        for (is_partly, what) in [(false, "Not measured"), (true, "Not measured with some seeds")] {
            let refused = with(is_partly);
            if !refused.is_empty() {
                notes.push(format!("{what}: {}.", refused.join("; ")));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::tests::{SIMULATED, TIMED, panel};

    #[test]
    fn what_the_paper_prints_stands_in_parentheses_beside_the_measured_value() {
        let table = panel();
        let rows = ShownPanel { spec: &SIMULATED, table: &table }.rows();
        assert_eq!(rows.heads, ["CR", "PPT", "suture", "bound"]);
        assert_eq!(rows.rows[0].label, "here");
        assert_eq!(rows.rows[0].values, ["1.75 (1.64)", "- (13100)", "4.00", "0.500"]);
        let rows = ShownPanel { spec: &TIMED, table: &table }.rows();
        assert_eq!(rows.rows[0].values, ["1.75", "-", "4.00", "0.500"]);
    }

    #[test]
    fn below_a_chart_stands_what_parentheses_are_what_refused_and_why_there_is_no_bound() {
        let table = panel();
        let notes = ShownPanel { spec: &SIMULATED, table: &table }.notes();
        let refused = "Not measured: PPT at here: it would try <26 million> trees.";
        assert_eq!(notes, ["In parentheses: what the paper's text prints.", refused]);
        let mut partly = table.clone();
        partly.groups[0].cells[1].values.push(1.0);
        let notes = ShownPanel { spec: &SIMULATED, table: &partly }.notes();
        assert_eq!(notes[1], refused.replace("measured", "measured with some seeds"));
        let notes = ShownPanel { spec: &TIMED, table: &table }.notes();
        let why = Metric::PlanSeconds.unbounded().unwrap();
        assert_eq!(notes, [format!("No bound: {why}."), refused.to_string()]);
    }

    #[test]
    fn how_values_came_about_is_said_of_each_chart() {
        let table = panel();
        assert_eq!(ShownPanel { spec: &SIMULATED, table: &table }.means(), "simulated");
        assert_eq!(
            ShownPanel { spec: &TIMED, table: &table }.means(),
            "planned, and timed on this machine"
        );
    }
}
