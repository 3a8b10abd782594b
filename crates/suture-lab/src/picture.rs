//! Links over time as a picture: maps of heat in an SVG that needs nothing else.
//!
//! Place: beside `[slices flow]`: what links carried, drawn.
//! Dark is busy, pale is idle, so that a schedule that leaves gaps shows them at a glance. Cells of
//! one shade are one path, which keeps large clusters small. Nothing here knows repairs.

use std::fmt::Write as _;

use suture_edge::units::format_percent;

use crate::svg::{ACCENT, INK, MUTED, escape, nice_step, short};

/// What the timeline draws: ports, rows and their use over time.
pub struct Picture {
    /// The first line, in large letters.
    pub title: String,
    /// The line below it: what was simulated.
    pub subtitle: String,
    /// The length of the run.
    pub seconds: f64,
    /// How long each bucket of a row is.
    pub bucket_seconds: f64,
    /// Where the run could have ended.
    pub bound_seconds: f64,
    /// One below the other.
    pub panels: Vec<Panel>,
}

/// Links of one kind.
pub struct Panel {
    /// What is written above its rows.
    pub name: String,
    /// All of them together.
    pub average: Vec<Option<f64>>,
    /// From the top to the bottom.
    pub rows: Vec<PictureRow>,
}

/// A link, or several that share a row.
pub struct PictureRow {
    /// What is written beside it.
    pub name: String,
    /// For each bucket the part that was used; `None`: there was no bandwidth.
    pub used: Vec<Option<f64>>,
}

const LEFT: f64 = 136.0;
const WIDTH: f64 = 1000.0;
const RIGHT: f64 = 74.0;
const TOP: f64 = 92.0;
const AREA: f64 = 36.0;
const PANEL_GAP: f64 = 34.0;
const BOTTOM: f64 = 52.0;

/// Letters that fit beside a row.
const NAME_LETTERS: usize = 16;

/// Shades from idle to full.
const SHADES: usize = 24;

/// The ramp, at equal distances: lightness falls evenly, so it also prints in grey.
const RAMP: [[f64; 3]; 5] = [
    [239.0, 242.0, 245.0],
    [188.0, 217.0, 232.0],
    [111.0, 175.0, 212.0],
    [45.0, 122.0, 178.0],
    [12.0, 54.0, 98.0],
];

/// A link without bandwidth.
const NOTHING: &str = "#f0c7b4";

impl Picture {
    /// The picture as one SVG document.
    pub fn svg(&self) -> String {
        let panels: f64 = self.panels.iter().map(|panel| panel.height() + PANEL_GAP).sum();
        let (width, height) = (LEFT + WIDTH + RIGHT, TOP + panels + BOTTOM - PANEL_GAP / 2.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width} {height:.0}\" font-family=\"Inter, 'Helvetica Neue', Arial, \
             'DejaVu Sans', sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        text(&mut out, &Label { size: 19.0, weight: 600, ..Label::new(LEFT, 38.0, &*self.title) });
        let subtitle = Label::new(LEFT, 60.0, &*self.subtitle);
        text(&mut out, &Label { size: 13.0, color: MUTED, ..subtitle });
        self.legend(&mut out);
        let mut y = TOP;
        for panel in &self.panels {
            self.panel(&mut out, panel, y);
            y += panel.height() + PANEL_GAP;
        }
        self.axis(&mut out, y - PANEL_GAP + 6.0);
        out += "</svg>\n";
        out
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + WIDTH * (seconds / self.seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    fn bucket(&self, index: usize) -> f64 {
        self.x(index as f64 * self.bucket_seconds)
    }

    fn legend(&self, out: &mut String) {
        let (x, y, cell) = (LEFT + WIDTH - 168.0, 28.0, 7.0);
        for shade in 0..SHADES {
            let x = x + shade as f64 * cell;
            let fill = color(shade);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"10\" fill=\"{fill}\"/>",
                cell + 0.3
            );
        }
        let small = |x: f64, words: &str| Label {
            size: 11.0,
            color: MUTED,
            ..Label::new(x, y + 24.0, words)
        };
        text(out, &small(x, "idle"));
        text(out, &Label { anchor: "end", ..small(LEFT + WIDTH, "busy") });
        let rows = self.panels.iter().flat_map(|panel| &panel.rows);
        if rows.flat_map(|row| &row.used).any(Option::is_none) {
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{NOTHING}\"/>",
                x - 112.0
            );
            let label = small(x - 97.0, "no bandwidth");
            text(out, &Label { y: y + 9.0, ..label });
        }
    }

    fn panel(&self, out: &mut String, panel: &Panel, y: f64) {
        let name = Label::new(LEFT - 12.0, y + 14.0, &*panel.name);
        text(out, &Label { size: 13.0, weight: 600, anchor: "end", ..name });
        let average = Label::new(LEFT - 12.0, y + 30.0, "on average");
        text(out, &Label { size: 11.0, color: MUTED, anchor: "end", ..average });
        self.average(out, panel, y);
        let mean = Label::new(LEFT + WIDTH + 10.0, y + 24.0, percent(&panel.average));
        text(out, &Label { size: 12.0, weight: 600, ..mean });

        let (top, pitch) = (y + AREA + 6.0, panel.pitch());
        let cell = pitch - if pitch > 8.0 { 2.0 } else { 1.0 };
        let mut paths = vec![String::new(); SHADES + 1];
        for (index, row) in panel.rows.iter().enumerate() {
            self.row(&mut paths, row, top + index as f64 * pitch, cell);
        }
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let fill = if shade == SHADES { NOTHING.to_string() } else { color(shade) };
            let _ = writeln!(out, "<path fill=\"{fill}\" d=\"{path}\"/>");
        }
        let every = (10.0 / pitch).ceil() as usize;
        for (index, row) in panel.rows.iter().enumerate().step_by(every) {
            let baseline = top + index as f64 * pitch + cell / 2.0 + 3.5;
            let small = |x: f64, words: String| Label {
                size: 10.5,
                color: MUTED,
                ..Label::new(x, baseline, words)
            };
            text(
                out,
                &Label { anchor: "end", ..small(LEFT - 12.0, short(&row.name, NAME_LETTERS)) },
            );
            text(out, &small(LEFT + WIDTH + 10.0, percent(&row.used)));
        }
        self.bound(out, y, y + panel.height());
    }

    /// All links of the panel together, as an area.
    fn average(&self, out: &mut String, panel: &Panel, y: f64) {
        let base = y + AREA;
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{AREA}\" fill=\"#f7f8fa\"/>"
        );
        let mut path = format!("M{LEFT} {base:.1}");
        for (index, used) in panel.average.iter().enumerate() {
            let height = base - AREA * used.unwrap_or(0.0);
            let (from, to) = (self.bucket(index), self.bucket(index + 1));
            let _ = write!(path, "L{from:.1} {height:.1}L{to:.1} {height:.1}");
        }
        let end = self.bucket(panel.average.len());
        let _ = writeln!(
            out,
            "<path d=\"{path}L{end:.1} {base:.1}Z\" fill=\"{}\" fill-opacity=\"0.75\"/>",
            color(SHADES * 3 / 4)
        );
    }

    /// Adds the cells of a row to the paths of their shades; equal neighbours are one cell.
    fn row(&self, paths: &mut [String], row: &PictureRow, y: f64, height: f64) {
        let shade = |used: &Option<f64>| match used {
            Some(part) => ((part * SHADES as f64) as usize).min(SHADES - 1),
            None => SHADES,
        };
        let mut from = 0;
        while from < row.used.len() {
            let here = shade(&row.used[from]);
            let same = row.used[from..].iter().take_while(|used| shade(used) == here).count();
            let (left, right) = (self.bucket(from), self.bucket(from + same));
            let width = right - left;
            let _ = write!(paths[here], "M{left:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
            from += same;
        }
    }

    /// Where the run could have ended, unless it did.
    fn bound(&self, out: &mut String, from: f64, to: f64) {
        if self.bound_seconds < 0.995 * self.seconds {
            let x = self.x(self.bound_seconds);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from:.1}\" y2=\"{to:.1}\" \
                 stroke=\"{ACCENT}\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>"
            );
        }
    }

    fn axis(&self, out: &mut String, y: f64) {
        let step = nice_step(self.seconds / 9.0);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#cbd2d9\"/>",
            LEFT + WIDTH
        );
        let bound_x = self.x(self.bound_seconds);
        let has_bound = self.bound_seconds < 0.995 * self.seconds;
        for tick in 0..=(self.seconds / step) as usize {
            let x = self.x(tick as f64 * step);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\" stroke=\"#cbd2d9\"/>",
                y + 5.0
            );
            let words = format!("{:.digits$} s", tick as f64 * step);
            let label = Label { size: 11.0, color: MUTED, ..Label::new(x, y + 19.0, words) };
            if !has_bound || (x - bound_x).abs() > 44.0 {
                text(out, &Label { anchor: "middle", ..label });
            }
        }
        if has_bound {
            let label = Label::new(bound_x, y + 19.0, "bound");
            text(out, &Label { size: 11.0, weight: 600, color: ACCENT, anchor: "middle", ..label });
        }
    }
}

impl Panel {
    /// From row to row: fewer rows are taller.
    fn pitch(&self) -> f64 {
        match self.rows.len() {
            0..=20 => 15.0,
            21..=40 => 11.0,
            _ => 7.0,
        }
    }

    fn height(&self) -> f64 {
        AREA + 6.0 + self.pitch() * self.rows.len() as f64
    }
}

/// Words at a place.
struct Label {
    x: f64,
    y: f64,
    words: String,
    size: f64,
    weight: u32,
    color: &'static str,
    anchor: &'static str,
}

impl Label {
    fn new(x: f64, y: f64, words: impl Into<String>) -> Label {
        Label { x, y, words: words.into(), size: 12.0, weight: 400, color: INK, anchor: "start" }
    }
}

fn text(out: &mut String, label: &Label) {
    let words = escape(&label.words);
    let Label { x, y, size, weight, color, anchor, .. } = label;
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" \
         fill=\"{color}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// The color of a shade.
fn color(shade: usize) -> String {
    let at = shade as f64 / (SHADES - 1) as f64 * (RAMP.len() - 1) as f64;
    let from = (at as usize).min(RAMP.len() - 2);
    let part = at - from as f64;
    let mix = |channel: usize| {
        let (low, high) = (RAMP[from][channel], RAMP[from + 1][channel]);
        (low + part * (high - low)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The average over time of those buckets that had bandwidth.
fn percent(used: &[Option<f64>]) -> String {
    let (sum, count) = used.iter().flatten().fold((0.0, 0u32), |(s, n), part| (s + part, n + 1));
    if count == 0 { "-".to_string() } else { format_percent(100.0 * sum / f64::from(count)) }
}
