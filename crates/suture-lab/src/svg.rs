//! What pictures have in common: colors, words that cannot break them, and steps of an axis.
//!
//! Place: under timelines and charts. Nothing here knows repairs.

use std::fmt::Write as _;

/// The color of words, and of points.
pub const INK: &str = "#1f2933";
/// The color of words that matter less.
pub const MUTED: &str = "#6b7785";
/// The color of bounds and marks.
pub const ACCENT: &str = "#c8553d";

/// Text as it may stand in a page or a picture.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How words look, and which of their sides is at their place.
#[derive(Clone, Copy)]
pub struct Lettering<'a> {
    size: f64,
    color: &'a str,
    anchor: &'static str,
}

impl<'a> Lettering<'a> {
    /// They begin at their place.
    pub fn start(size: f64, color: &'a str) -> Lettering<'a> {
        Lettering { size, color, anchor: "start" }
    }

    /// They stand around their place.
    pub fn middle(size: f64, color: &'a str) -> Lettering<'a> {
        Lettering { size, color, anchor: "middle" }
    }

    /// They end at their place.
    pub fn end(size: f64, color: &'a str) -> Lettering<'a> {
        Lettering { size, color, anchor: "end" }
    }
}

/// Words at a place.
pub fn text(out: &mut String, x: f64, y: f64, lettering: Lettering<'_>, words: &str) {
    let (Lettering { size, color, anchor }, words) = (lettering, escape(words));
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{color}\" \
         text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// A name of no more than so many letters.
pub fn short(name: &str, letters_max: usize) -> String {
    if name.chars().count() <= letters_max {
        name.to_string()
    } else {
        name.chars().take(letters_max - 1).chain(['\u{2026}']).collect()
    }
}

/// The least of 1, 2, 5, 10, 20, ... that is not below.
pub fn nice_step(least: f64) -> f64 {
    let scale = 10f64.powf(least.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * scale >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_a_picture_and_steps_are_those_that_people_count_in() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        assert_eq!([short("abcd", 4), short("abcde", 4)], ["abcd", "abc\u{2026}"]);
        assert_eq!([0.3, 1.0, 2.1, 70.0].map(nice_step), [0.5, 1.0, 5.0, 100.0]);
    }
}
