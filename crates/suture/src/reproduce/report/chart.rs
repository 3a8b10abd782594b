//! Groups of bars as a picture: a group for each place of an axis, a bar for each policy, and the
//! bound across the group.
//!
//! Place: in the page of a reproduction. An SVG that needs nothing else, as wide as a phone, so
//! that its words can be read there; several stand beside each other on a wide screen.

use std::fmt::Write as _;

use crate::reproduce::table::{Group, PanelTable, shown};
use crate::svg::{ACCENT, INK, MUTED, short, text};

const WIDTH: f64 = 400.0;
const LEFT: f64 = 118.0;
const BARS: f64 = 212.0;
const TOP: f64 = 40.0;
const GROUP_HEAD: f64 = 22.0;
const PITCH: f64 = 17.0;
const HEIGHT: f64 = 13.0;
const GROUP_GAP: f64 = 8.0;

/// Letters that fit beside a bar.
const NAME_LETTERS: usize = 18;

const SUTURE: &str = "#1d5f94";

/// The shades of published policies, in turn.
const SHADES: [&str; 6] = ["#9fb3c8", "#b9a3c9", "#a8c3a0", "#d8b48a", "#8fc1c7", "#c9a6a6"];

/// The picture of a panel as one SVG element.
pub fn svg(panel: &PanelTable) -> String {
    let rows: usize = panel.groups.iter().map(|group| group.cells.len()).sum();
    let groups = panel.groups.len() as f64;
    let height = TOP + rows as f64 * PITCH + groups * (GROUP_HEAD + GROUP_GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         font-family=\"Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n"
    );
    let unit = if panel.unit.is_empty() { String::new() } else { format!(", {}", panel.unit) };
    text(&mut out, (0.0, 14.0), (13.0, INK, "start"), &panel.title);
    let scale = Scale::of(panel);
    let kind = if panel.is_logarithmic { ", logarithmic" } else { "" };
    let what = format!("{}{unit}{kind}", panel.what);
    text(&mut out, (0.0, 30.0), (11.0, MUTED, "start"), &what);
    let mut y = TOP;
    for group in &panel.groups {
        y = draw(&mut out, panel, group, y, &scale) + GROUP_GAP;
    }
    out + "</svg>\n"
}

/// One group from `y` on; returns where it ends.
fn draw(out: &mut String, panel: &PanelTable, group: &Group, y: f64, scale: &Scale) -> f64 {
    text(out, (0.0, y + 14.0), (12.0, INK, "start"), &group.label);
    let top = y + GROUP_HEAD;
    let end = top + PITCH * group.cells.len() as f64;
    for (index, cell) in group.cells.iter().enumerate() {
        let row = top + PITCH * index as f64;
        let middle = row + HEIGHT / 2.0 + 4.0;
        let is_ours = cell.series == "suture";
        let ink = if is_ours { INK } else { MUTED };
        text(out, (LEFT - 8.0, middle), (11.0, ink, "end"), &short(&cell.series, NAME_LETTERS));
        let Some(mean) = cell.mean() else {
            text(out, (LEFT, middle), (10.0, MUTED, "start"), "not measured");
            continue;
        };
        let fill = if is_ours { SUTURE } else { SHADES[index % SHADES.len()] };
        let width = scale.width(mean).max(1.0);
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{row:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"1.5\" \
             fill=\"{fill}\"/>"
        );
        whisker(out, &cell.values, row + HEIGHT / 2.0, scale);
        let value = shown(mean);
        text(out, (LEFT + BARS + 8.0, middle), (11.0, ink, "start"), &value);
    }
    if let (Some(bound), Some(name)) = (group.bound, &panel.bound_name) {
        let x = LEFT + scale.width(bound);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{end:.1}\" stroke=\"{ACCENT}\" \
             stroke-width=\"1.4\" stroke-dasharray=\"4 3\"/>",
            top - 3.0
        );
        let words = format!("{name} {}", shown(bound));
        text(out, (WIDTH, y + 14.0), (11.0, ACCENT, "end"), &words);
    }
    end
}

/// From the least to the most of the repetitions.
fn whisker(out: &mut String, values: &[f64], y: f64, scale: &Scale) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let (from, to) = (LEFT + scale.width(least), LEFT + scale.width(most));
    if values.len() > 1 && to - from > 1.0 {
        let _ = writeln!(
            out,
            "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{INK}\" \
             stroke-opacity=\"0.55\"/>"
        );
    }
}

/// From values to lengths.
struct Scale {
    is_logarithmic: bool,
    least: f64,
    most: f64,
}

impl Scale {
    fn of(panel: &PanelTable) -> Scale {
        let values = panel.groups.iter().flat_map(|group| {
            let cells = group.cells.iter().flat_map(|cell| &cell.values).copied();
            cells.chain(group.bound)
        });
        let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Scale { is_logarithmic: panel.is_logarithmic, least: least.min(most) / 2.0, most }
    }

    fn width(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            value / self.most
        };
        BARS * part.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::table::Cell;

    #[test]
    fn every_value_is_a_bar_and_the_bound_a_line_and_names_cannot_break_it() {
        let cell = |series: &str, values: &[f64]| Cell {
            series: series.into(),
            policy: "cr".into(),
            values: values.to_vec(),
            refused: None,
        };
        let cells = vec![cell("<CR>", &[1.0, 3.0]), cell("suture", &[4.0]), cell("PPT", &[])];
        let panel = PanelTable {
            title: "a&b".into(),
            what: "time".into(),
            unit: "s".into(),
            is_logarithmic: false,
            bound_name: Some("bound".into()),
            groups: vec![Group { label: "here".into(), bound: Some(0.5), cells }],
        };
        let svg = svg(&panel);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(
            svg.contains("&lt;CR&gt;") && svg.contains("a&amp;b") && svg.contains("not measured")
        );
        assert!(svg.contains("bound 0.500") && svg.contains(&format!("width=\"{BARS:.1}\"")));
    }
}
