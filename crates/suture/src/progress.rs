//! How far a command has come, on stderr.
//!
//! Place: beside every command that takes long. stdout belongs to results; a bar is drawn only for
//! a person: not when the command was asked for JSON, and not when it is to be quiet. Where
//! stderr is no terminal, what takes long prints a line now and then.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use suture_edge::progress::Step;

use crate::output::{Format, visible};
use crate::verbosity::Verbosity;

/// How often a line is printed where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A bar of bytes: done, total, rate, time left. Threads may share it.
pub struct Progress {
    bar: ProgressBar,
    /// When the last line was printed, where lines are.
    printed_at: Option<Mutex<Instant>>,
}

impl Progress {
    /// A bar over `bytes`, with a word for what is done to them.
    pub fn bytes(format: Format, what: &'static str, bytes: u64) -> Progress {
        let is_told = format == Format::Text && Verbosity::current() > Verbosity::Quiet;
        let target =
            if is_told { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let is_plain = is_told && !io::stderr().is_terminal();
        let printed_at = is_plain.then(|| Mutex::new(Instant::now()));
        let template = "{msg} [{wide_bar}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template)
            .expect("the template is valid")
            .progress_chars("=> ");
        let bar =
            ProgressBar::with_draw_target(Some(bytes), target).with_style(style).with_message(what);
        Progress { bar, printed_at }
    }

    /// A bar whose state, rate and time left are measured elsewhere, and set by [`Progress::set`].
    /// The words have a line of their own: beside the bar they would need 125 columns.
    pub fn reported(format: Format, what: &'static str) -> Progress {
        let template = "{prefix} [{wide_bar}] {binary_bytes} of {binary_total_bytes}\n{wide_msg}";
        Progress::measured(format, what, template)
    }

    /// A bar of stripes, whose state is measured elsewhere and set by [`Progress::set`].
    pub fn stripes(format: Format, what: &'static str) -> Progress {
        let template = "{prefix} [{bar:32}] {pos} of {len} stripes, {msg}, {eta} left";
        Progress::measured(format, what, template)
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
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        progress.bar.set_style(style.progress_chars("=> "));
        progress.bar.set_prefix(what);
        progress
    }

    /// A bar of simulated clusters; without a number it only counts.
    pub fn seeds(format: Format, seeds: Option<u64>) -> Progress {
        let progress = Progress::bytes(format, "running", seeds.unwrap_or(0));
        let template = match seeds {
            Some(_) => "{msg} [{bar:32}] {pos} of {len} seeds, {per_sec}, {eta} left",
            None => "{msg} {spinner} {pos} seeds, {per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        progress.bar.set_style(style.progress_chars("=> "));
        progress
    }

    /// So much is done of so much, with words on the rest.
    pub fn set(&self, done: u64, total: u64, words: String) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(visible(&words).into_owned());
        self.bar.tick();
        self.print(&words);
    }

    /// Prints the words now and then where nobody sees a bar, as in a log.
    fn print(&self, words: &str) {
        let Some(printed_at) = &self.printed_at else { return };
        let mut printed_at = printed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if printed_at.elapsed() >= LINE_EVERY {
            *printed_at = Instant::now();
            let (prefix, done) = (self.bar.prefix(), self.bar.position());
            match self.bar.length() {
                Some(all) if all > 0 => errln!("{prefix} {done} of {all}, {words}"),
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
