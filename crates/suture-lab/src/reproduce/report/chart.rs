//! Groups of bars as a picture: a group for each place of an axis, a bar for each policy, a hollow
//! mark where the paper's text prints a value, and the bound across the group.
//!
//! Place: in the page of a reproduction. An SVG that needs nothing else, as wide as a phone, so
//! that its words can be read there; several stand beside each other on a wide screen.

use std::fmt::Write as _;

use super::values::ShownPanel;
use crate::reproduce::table::{Cell, Group, PanelTable, shown};
use crate::svg::{ACCENT, INK, Lettering, MUTED, escape, short, text};

const WIDTH: f64 = 400.0;
const GROUP_HEAD: f64 = 22.0;
const PITCH: f64 = 17.0;
const HEIGHT: f64 = 13.0;
const GROUP_GAP: f64 = 8.0;

/// Where the first group begins; below a legend, so much further down.
const TOP: f64 = 56.0;
const LEGEND: f64 = 16.0;

/// What letters of names and of values take at most, and what is left beside bars for them.
const NAME_LETTER: f64 = 6.5;
const VALUE_LETTER: f64 = 6.8;
const LEFT_MIN: f64 = 118.0;
const RIGHT_MIN: f64 = 70.0;
const GAP: f64 = 10.0;

/// Letters that fit beside a bar.
const NAME_LETTERS: usize = 26;

/// How far the words reach that stand in place of a bar.
const NO_BAR: f64 = 70.0;

/// Half of a hollow mark.
const MARK: f64 = 4.5;

/// How many times as long as those of another group the longest bar of a group is at most in a
/// chart that is not logarithmic.
const UNSEEN: f64 = 100.0;

const SUTURE: &str = "#1d5f94";

/// The shades of published policies, in turn.
const SHADES: [&str; 6] = ["#9fb3c8", "#b9a3c9", "#a8c3a0", "#d8b48a", "#8fc1c7", "#c9a6a6"];

/// The picture of a panel as one SVG element.
pub fn svg(panel: &ShownPanel<'_>) -> String {
    let table = panel.table;
    let rows: usize = table.groups.iter().map(|group| group.cells.len()).sum();
    let groups = table.groups.len() as f64;
    let top = if panel.has_printed() { TOP + LEGEND } else { TOP };
    let height = top + rows as f64 * PITCH + groups * (GROUP_HEAD + GROUP_GAP);
    let what = panel.what();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         font-family=\"Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n\
         <title>{}: {}</title>\n",
        escape(&table.title),
        escape(&what),
    );
    text(&mut out, 0.0, 14.0, Lettering::start(13.0, INK), &table.title);
    let kind = if is_logarithmic(table) { ", logarithmic" } else { "" };
    text(&mut out, 0.0, 30.0, Lettering::start(11.0, MUTED), &format!("{what}{kind}"));
    text(&mut out, 0.0, 45.0, Lettering::start(11.0, MUTED), panel.means());
    if panel.has_printed() {
        mark(&mut out, MARK + 1.0, TOP);
        let words = "what the paper's text prints, also in parentheses";
        text(&mut out, 2.0 * MARK + 8.0, TOP + 4.0, Lettering::start(11.0, MUTED), words);
    }
    let scale = Scale::of(panel);
    let mut y = top;
    for group in &table.groups {
        y = draw(&mut out, panel, group, y, &scale) + GROUP_GAP;
    }
    out + "</svg>\n"
}

/// One group from `y` on; returns where it ends.
fn draw(out: &mut String, panel: &ShownPanel<'_>, group: &Group, y: f64, scale: &Scale) -> f64 {
    text(out, 0.0, y + 14.0, Lettering::start(12.0, INK), &group.label);
    let top = y + GROUP_HEAD;
    let end = top + PITCH * group.cells.len() as f64;
    for (index, cell) in group.cells.iter().enumerate() {
        let row = top + PITCH * index as f64;
        let is_ours = cell.series == "suture";
        let ink = if is_ours { INK } else { MUTED };
        let fill = if is_ours { SUTURE } else { SHADES[index % SHADES.len()] };
        let words = row + HEIGHT / 2.0 + 4.0;
        let name = short(&cell.series, NAME_LETTERS);
        text(out, scale.left - GAP, words, Lettering::end(11.0, ink), &name);
        let printed = panel.printed(group, cell).map(|value| scale.at(value));
        bar(out, cell, row, scale, (fill, printed));
        if let Some(at) = printed {
            mark(out, at, row + HEIGHT / 2.0);
        }
        if cell.mean().is_some() || printed.is_some() {
            let value = panel.value_text(group, cell);
            text(out, scale.left + scale.bars + GAP, words, Lettering::start(11.0, ink), &value);
        }
    }
    if let (Some(bound), Some(name)) = (group.bound, &panel.table.bound_name) {
        let x = scale.at(bound);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{end:.1}\" stroke=\"{ACCENT}\" \
             stroke-width=\"1.4\" stroke-dasharray=\"4 3\"/>",
            top - 3.0
        );
        let words = format!("{name} {}", shown(bound));
        text(out, WIDTH, y + 14.0, Lettering::end(11.0, ACCENT), &words);
    }
    end
}

/// The bar of a cell, or that it was not measured, clear of a mark.
fn bar(out: &mut String, cell: &Cell, row: f64, scale: &Scale, style: (&str, Option<f64>)) {
    let ((fill, printed), left) = (style, scale.left);
    let Some(mean) = cell.mean() else {
        let clear = printed.filter(|at| *at < left + NO_BAR).map_or(left, |at| at + MARK + 3.0);
        text(out, clear, row + HEIGHT / 2.0 + 4.0, Lettering::start(10.0, MUTED), "not measured");
        return;
    };
    let width = (scale.at(mean) - left).max(1.0);
    let _ = writeln!(
        out,
        "<rect x=\"{left:.1}\" y=\"{row:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"1.5\" \
         fill=\"{fill}\"/>"
    );
    whisker(out, &cell.values, row + HEIGHT / 2.0, scale);
}

/// From the least to the most of the repetitions.
fn whisker(out: &mut String, values: &[f64], y: f64, scale: &Scale) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let (from, to) = (scale.at(least), scale.at(most));
    if values.len() > 1 && to - from > 1.0 {
        let _ = writeln!(
            out,
            "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{INK}\" \
             stroke-opacity=\"0.55\"/>"
        );
    }
}

/// What the paper prints: a hollow diamond around a place.
fn mark(out: &mut String, x: f64, y: f64) {
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\" fill=\"#fff\" \
         stroke=\"{INK}\" stroke-width=\"1.2\"/>",
        x - MARK,
        y - MARK,
        x + MARK,
        y + MARK,
    );
}

/// Every cell, with its group.
fn cells(table: &PanelTable) -> impl Iterator<Item = (&Group, &Cell)> {
    table.groups.iter().flat_map(|group| group.cells.iter().map(move |cell| (group, cell)))
}

/// Whether bars are as long as the logarithm of their values: where these are apart by orders of
/// magnitude, or the longest bars of some groups would leave nothing to be seen of those of others.
fn is_logarithmic(table: &PanelTable) -> bool {
    let longest = |group: &Group| group.cells.iter().filter_map(Cell::mean).fold(0.0, f64::max);
    let longest = || table.groups.iter().map(longest).filter(|value| *value > 0.0);
    let least = longest().fold(f64::INFINITY, f64::min);
    table.is_logarithmic || longest().any(|value| value > UNSEEN * least)
}

/// Where bars begin, how long they may be, and from values to places.
struct Scale {
    left: f64,
    bars: f64,
    is_logarithmic: bool,
    least: f64,
    most: f64,
}

impl Scale {
    fn of(panel: &ShownPanel<'_>) -> Scale {
        let table = panel.table;
        let letters = |text: String| text.chars().count();
        let names = cells(table).map(|(_, cell)| letters(short(&cell.series, NAME_LETTERS)));
        let texts = cells(table).map(|(group, cell)| letters(panel.value_text(group, cell)));
        let (name, value) = (names.max().unwrap_or(0), texts.max().unwrap_or(0));
        let left = LEFT_MIN.max(name as f64 * NAME_LETTER + GAP);
        let right = RIGHT_MIN.max(value as f64 * VALUE_LETTER + GAP);
        let measured = cells(table).flat_map(|(_, cell)| cell.values.iter().copied());
        let printed = cells(table).filter_map(|(group, cell)| panel.printed(group, cell));
        let bounds = table.groups.iter().filter_map(|group| group.bound);
        let values = measured.chain(printed).chain(bounds).filter(|value| *value > 0.0);
        let values: Vec<f64> = values.collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Scale {
            left,
            bars: WIDTH - left - right,
            is_logarithmic: is_logarithmic(table),
            least: least.min(most) / 2.0,
            most,
        }
    }

    /// The place of a value.
    fn at(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            value / self.most
        };
        self.left + self.bars * part.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::tests::{SIMULATED, TIMED, panel};

    #[test]
    fn every_value_is_a_bar_and_the_bound_a_line_and_names_cannot_break_it() {
        let table = panel();
        let svg = svg(&ShownPanel { spec: &TIMED, table: &table });
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("a&amp;b") && svg.contains("not measured"), "{svg}");
        assert!(svg.contains("<title>a&amp;b: time, s</title>"), "{svg}");
        assert!(
            svg.contains("bound 0.500") && svg.contains(">planned, and timed on this machine<")
        );
        assert_eq!(svg.matches("<path").count(), 0, "the paper prints nothing of it");
        // The longest bar is as long as may be: what names and values leave.
        let longest = WIDTH - LEFT_MIN - RIGHT_MIN;
        assert!(svg.contains(&format!("width=\"{longest:.1}\"")), "{svg}");
    }

    #[test]
    fn what_the_paper_prints_is_a_mark_beside_its_bar_with_a_legend_and_its_number() {
        let table = panel();
        let panel = ShownPanel { spec: &SIMULATED, table: &table };
        let svg = svg(&panel);
        assert_eq!(svg.matches("<path").count(), 3, "two of values and one of the legend: {svg}");
        assert!(svg.contains(">1.75 (1.64)<") && svg.contains(">- (13100)<"), "{svg}");
        assert!(svg.contains("what the paper's text prints"), "{svg}");
        // The scale reaches to what is printed, and bars leave its number all it needs.
        let scale = Scale::of(&panel);
        assert_eq!(scale.most, 13100.0);
        let letters = "1.75 (1.64)".len() as f64;
        assert!(scale.at(13100.0) + GAP + letters * VALUE_LETTER < WIDTH + 0.1);
    }

    #[test]
    fn groups_that_could_not_be_seen_beside_others_make_a_chart_logarithmic() {
        let mut table = panel();
        let other = |times: f64| {
            let mut group = panel().groups.remove(0);
            let values = group.cells.iter_mut().flat_map(|cell| &mut cell.values);
            values.for_each(|value| *value *= times);
            group
        };
        table.groups.push(other(90.0));
        assert!(!is_logarithmic(&table));
        table.groups.push(other(0.5));
        assert!(is_logarithmic(&table), "the longest is 180 times as long as another");
        let svg = svg(&ShownPanel { spec: &TIMED, table: &table });
        assert!(svg.contains(", logarithmic<"), "{svg}");
    }

    #[test]
    fn a_long_name_is_not_cut_and_bars_make_place_for_it() {
        let mut table = panel();
        table.groups[0].cells[0].series = "PivotRepair, no adaptive".into();
        let panel = ShownPanel { spec: &TIMED, table: &table };
        assert!(svg(&panel).contains(">PivotRepair, no adaptive<"));
        let scale = Scale::of(&panel);
        assert!(scale.left > 24.0 * NAME_LETTER && scale.bars > 120.0);
    }
}
