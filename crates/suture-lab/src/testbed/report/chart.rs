//! Bars as a picture: one for each policy, with a point for each run and a line for the bound.
//!
//! Place: in a testbed's page. An SVG that needs nothing else; nothing here knows repairs.

use std::fmt::Write as _;

use crate::svg::{ACCENT, INK, Lettering, MUTED, nice_step, text};

/// Bars over one axis.
pub struct BarChart {
    /// What is measured, and in what.
    pub title: String,
    /// The unit that stands behind each number.
    pub unit: &'static str,
    /// A value that all bars are to be held against, with its name.
    pub mark: Option<(f64, String)>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One of several values, and what it comes from.
pub struct Bar {
    /// Beside it on the left.
    pub name: String,
    /// Its length, in the chart's unit.
    pub value: f64,
    /// A part of it, from the left, in a darker shade.
    pub inner: Option<f64>,
    /// Single values, as points.
    pub points: Vec<f64>,
    /// Beside it on the right.
    pub note: String,
    /// Whether it is to be distinguished from the others.
    pub is_flagged: bool,
}

const LEFT: f64 = 150.0;
const WIDTH: f64 = 560.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 44.0;
const PITCH: f64 = 34.0;
const HEIGHT: f64 = 20.0;
const BOTTOM: f64 = 40.0;

const BAR: &str = "#6fafd4";
const INNER: &str = "#2d7ab2";
const FLAGGED: &str = "#e3b7a0";

impl BarChart {
    /// The picture as one SVG element.
    pub fn svg(&self) -> String {
        let (width, height) = (LEFT + WIDTH + RIGHT, TOP + PITCH * self.bars.len() as f64 + BOTTOM);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Inter, 'Helvetica Neue', Arial, \
             'DejaVu Sans', sans-serif\">\n"
        );
        text(&mut out, 0.0, 20.0, Lettering::start(15.0, INK), &self.title);
        let most = self.most();
        self.axis(&mut out, most);
        for (index, bar) in self.bars.iter().enumerate() {
            bar.draw(&mut out, TOP + PITCH * index as f64, WIDTH / most);
        }
        if let Some((value, name)) = &self.mark {
            let (x, from) = (LEFT + WIDTH * value / most, TOP - 6.0);
            let to = TOP + PITCH * self.bars.len() as f64;
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{to}\" stroke=\"{ACCENT}\" \
                 stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>"
            );
            text(&mut out, x, from - 4.0, Lettering::middle(11.0, ACCENT), name);
        }
        out + "</svg>\n"
    }

    /// The end of the axis.
    fn most(&self) -> f64 {
        let of = |bar: &Bar| bar.points.iter().copied().fold(bar.value, f64::max);
        let most = self.bars.iter().map(of).fold(0.0, f64::max);
        let mark = self.mark.as_ref().map_or(0.0, |(value, _)| *value);
        most.max(mark).max(f64::MIN_POSITIVE) * 1.04
    }

    fn axis(&self, out: &mut String, most: f64) {
        let y = TOP + PITCH * self.bars.len() as f64;
        let step = nice_step(most / 6.0);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        for tick in 0..=(most / step) as usize {
            let value = tick as f64 * step;
            let x = LEFT + WIDTH * value / most;
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#e4e7eb\"/>",
                TOP - 6.0
            );
            let words = format!("{value:.digits$} {}", self.unit);
            text(out, x, y + 18.0, Lettering::middle(11.0, MUTED), &words);
        }
    }
}

impl Bar {
    fn draw(&self, out: &mut String, y: f64, scale: f64) {
        let mut bar = |value: f64, fill: &str| {
            let _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\" rx=\"2\" \
                 fill=\"{fill}\"/>",
                (value * scale).max(0.5)
            );
        };
        bar(self.value, if self.is_flagged { FLAGGED } else { BAR });
        self.inner.into_iter().for_each(|inner| bar(inner, INNER));
        let middle = y + HEIGHT / 2.0;
        for point in &self.points {
            let x = LEFT + point * scale;
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3\" fill=\"#ffffff\" \
                 stroke=\"{INK}\" stroke-width=\"1.2\"/>"
            );
        }
        text(out, LEFT - 12.0, middle + 4.5, Lettering::end(13.0, INK), &self.name);
        text(out, LEFT + WIDTH + 14.0, middle + 4.5, Lettering::start(12.0, MUTED), &self.note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_a_picture() {
        let bar = Bar {
            name: "<b>&".into(),
            value: 2.0,
            inner: Some(1.0),
            points: vec![1.5, 2.5],
            note: String::new(),
            is_flagged: false,
        };
        let mark = Some((1.0, "bound".to_string()));
        let chart = BarChart { title: "time".into(), unit: "s", mark, bars: vec![bar] };
        let svg = chart.svg();
        assert!(svg.contains("&lt;b&gt;&amp;") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
