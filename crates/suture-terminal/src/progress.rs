//! How far a command has come, on stderr.
//!
//! Place: beside every command that takes long. stdout belongs to results; a bar is drawn only for
//! a person: not when the command was asked for JSON, and not when it is to be quiet. Where
//! stderr is no terminal, what takes long prints a line now and then.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use suture_edge::progress::Step;
use suture_edge::units::{format_estimate, format_rate, format_size};

use crate::output::{Format, counted, visible};
use crate::verbosity::Verbosity;

/// How often a line is printed where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What a bar counts.
#[derive(Clone, Copy, Debug)]
enum Measure {
    Bytes,
    Stripes,
}

impl Measure {
    /// So much of so much.
    fn describe(self, done: u64, all: u64) -> String {
        match self {
            Measure::Bytes => format!("{} of {}", format_size(done), format_size(all)),
            Measure::Stripes => format!("{done} of {}", counted(all, "stripe")),
        }
    }
}

/// A bar of bytes: done, total, rate, time left. Threads may share it.
pub struct Progress {
    bar: ProgressBar,
    measure: Measure,
    /// When the last line was printed, where lines are.
    printed_at: Option<Mutex<Instant>>,
}

impl Progress {
    /// A bar over `bytes`, with a word for what is done to them.
    pub fn bytes(format: Format, what: &'static str, bytes: u64) -> Progress {
        let is_shown = format == Format::Text && Verbosity::current() > Verbosity::Quiet;
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let is_plain = is_shown && !io::stderr().is_terminal();
        let printed_at = is_plain.then(|| Mutex::new(Instant::now()));
        let style = style("{msg} [{wide_bar}] {bytes_done}, {bytes_per_second}, {rest}");
        let bar =
            ProgressBar::with_draw_target(Some(bytes), target).with_style(style).with_message(what);
        Progress { bar, measure: Measure::Bytes, printed_at }
    }

    /// A bar whose state, rate and time left are measured elsewhere, and set by [`Progress::set`].
    /// The words have a line of their own: beside the bar they would need 125 columns.
    pub fn reported(format: Format, what: &'static str) -> Progress {
        Progress::measured(format, what, "{prefix} [{wide_bar}] {bytes_done}\n{wide_msg}")
    }

    /// A bar of stripes, whose state is measured elsewhere and set by [`Progress::set`].
    pub fn stripes(format: Format, what: &'static str) -> Progress {
        let template = "{prefix} [{bar:32}] {pos} of {len} stripes, {msg}, {rest}";
        let mut progress = Progress::measured(format, what, template);
        progress.measure = Measure::Stripes;
        progress
    }

    /// Words on what is waited for.
    pub fn waiting(format: Format) -> Progress {
        Progress::measured(format, "", "{spinner} {msg}")
    }

    /// What is waited for now.
    pub fn note(&self, words: String) {
        self.bar.set_message(visible(&words).into_owned());
        self.bar.tick();
    }

    fn measured(format: Format, what: &'static str, template: &str) -> Progress {
        let progress = Progress::bytes(format, what, 0);
        progress.bar.set_style(style(template));
        progress.bar.set_prefix(what);
        progress
    }

    /// A bar of simulated clusters; without a number it only counts.
    pub fn seeds(format: Format, seeds: Option<u64>) -> Progress {
        let progress = Progress::bytes(format, "running", seeds.unwrap_or(0));
        let template = match seeds {
            Some(_) => "{msg} [{bar:32}] {pos} of {len} seeds, {per_second}, {rest}",
            None => "{msg} {spinner} {pos} seeds, {per_second}",
        };
        progress.bar.set_style(style(template));
        progress
    }

    /// So much is done of so much, with words on the rest. While there is nothing to do, the bar is
    /// empty and not full: it is waited for.
    pub fn set(&self, done: u64, total: u64, words: String) {
        if total > 0 {
            self.bar.set_length(total)
        } else {
            self.bar.unset_length()
        }
        self.bar.set_position(done);
        self.bar.set_message(visible(&words).into_owned());
        self.bar.tick();
        self.print(&words);
    }

    /// Prints the words now and then where no bar is seen, as in a log.
    fn print(&self, words: &str) {
        let Some(printed_at) = &self.printed_at else { return };
        let mut printed_at = printed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if printed_at.elapsed() >= LINE_EVERY {
            *printed_at = Instant::now();
            let (prefix, done) = (self.bar.prefix(), self.bar.position());
            match self.bar.length() {
                Some(all) if all > 0 => {
                    errln!("{prefix} {}, {words}", self.measure.describe(done, all));
                }
                _ => errln!("{prefix} {words}"),
            }
        }
    }

    /// So many bytes more are done.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// What a library is to call at every step.
    pub fn listener(&self) -> impl Fn(Step) + Send + Sync + use<> {
        let bar = self.bar.clone();
        move |step| match step {
            Step::Done(bytes) => bar.inc(bytes),
            Step::Added(bytes) => bar.inc_length(bytes),
        }
    }

    /// Prints a line of the result, on stdout, without tearing the bar.
    pub fn line(&self, line: impl std::fmt::Display) {
        self.bar.suspend(|| outln!("{line}"));
    }

    /// Lets `print` write above the bar without tearing it.
    pub fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

/// A template whose numbers are written as all others are.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    // A bar that cannot be drawn is not drawn.
    style
        .progress_chars("=> ")
        .with_key("bytes_done", |state: &ProgressState, out: &mut dyn Write| {
            let _ = match state.len() {
                Some(all) => write!(out, "{}", Measure::Bytes.describe(state.pos(), all)),
                None => write!(out, "nothing yet"),
            };
        })
        .with_key("bytes_per_second", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}", format_rate(state.per_sec()));
        })
        .with_key("per_second", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        })
        .with_key("rest", |state: &ProgressState, out: &mut dyn Write| {
            // Unknown before the first step.
            let _ = match state.eta().as_secs_f64() {
                left if left > 0.0 => write!(out, "about {} left", format_estimate(left)),
                _ => write!(out, "time left unknown"),
            };
        })
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_of_nothing_is_not_full() {
        let progress = Progress::reported(Format::Json, "repairing");
        progress.set(0, 0, "n1 is silent".into());
        assert_eq!(progress.bar.length(), None);
        progress.set(1, 4, "it counts as failed".into());
        assert_eq!((progress.bar.position(), progress.bar.length()), (1, Some(4)));
    }

    #[test]
    fn lines_beside_a_log_have_numbers_as_people_read_them() {
        assert_eq!(Measure::Bytes.describe(12_582_912, 3 << 30), "12.0 MiB of 3.00 GiB");
        assert_eq!(Measure::Stripes.describe(0, 1), "0 of 1 stripe");
        assert_eq!(Measure::Stripes.describe(3, 12), "3 of 12 stripes");
    }
}
