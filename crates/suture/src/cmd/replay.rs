//! `suture replay`: does again what a transcript says, and reports whether it comes out the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use suture_edge::bounded::{read_line, read_text};
use suture_edge::error::bad_input;
use suture_edge::units::format_seconds;
use suture_repair::transcript::{Difference, Kind, Replay, ReplayError};
use suture_sim::swarm::{Watch, panic_message, run_trial};
use suture_sim::trial::{Recorded, one_line};
use suture_terminal::output::{Format, counted, line, print_json};

use crate::outcome::Outcome;
use crate::quiet::without_panic_messages;

/// The first line of a transcript has two words.
const FIRST_BYTES_MAX: u64 = 1 << 10;

/// The longest line lists the copies of an agent, some millions at most.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// A trial has some hundred lines.
const TRIAL_BYTES_MAX: u64 = 16 << 20;

/// Replay a transcript and compare what comes out with what was recorded.
///
/// A transcript is one coordinator or one agent (recorded with --record), or a simulated cluster
/// (written by `suture swarm` when a seed fails). Exits with 0 if every output is as recorded and
/// no rule is broken, with 1 otherwise, and with 2 if FILE is no transcript.
#[derive(clap::Args)]
pub struct Args {
    /// The transcript
    file: PathBuf,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct ReplayReport {
    format: &'static str,
    machine: &'static str,
    inputs: u64,
    seconds: f64,
    /// The file ends in the middle of a line.
    is_cut: bool,
    #[serde(flatten)]
    finding: Finding,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum Finding {
    /// Every output is as it was recorded.
    Equal,
    /// The first one that is not.
    Different {
        line: usize,
        input_line: usize,
        input: String,
        expected: Option<String>,
        got: Option<String>,
    },
    /// The machine does not survive an input.
    Assertion { input_line: usize, input: String, message: String },
    /// A simulated cluster broke a rule; the one that was recorded, if any was.
    Broken { rule: String, recorded: Option<String> },
    /// A simulated cluster broke no rule, though one was recorded.
    Whole { recorded: Option<String> },
}

/// Replays a transcript and compares what the machine does.
///
/// # Errors
/// Bad input for a file that is no transcript; a failure when it cannot be read to its end.
pub fn run(args: Args) -> Result<Outcome> {
    let path = &args.file;
    let file = File::open(path).map_err(|why| bad_input(format!("'{}': {why}", path.display())))?;
    let mut file = BufReader::new(file);
    let mut first = Vec::new();
    next_line(path, &mut file, &mut first, FIRST_BYTES_MAX)?;
    let kind = Kind::of(&String::from_utf8_lossy(&first));
    let kind = kind.map_err(|why| malformed(path, format!("line 1: {why}")))?;
    let report = match kind {
        Kind::Cluster => without_panic_messages(|| cluster(path, first, file))?,
        Kind::Coordinator | Kind::Agent => {
            without_panic_messages(|| machine(path, kind, first, file))?
        }
    };
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print_text(path, &report),
    }
    Ok(match report.finding {
        Finding::Equal | Finding::Whole { .. } => Outcome::Done,
        _ => Outcome::Missed,
    })
}

/// Appends the next line, if there is one.
fn next_line(
    path: &Path,
    file: &mut impl BufRead,
    line: &mut Vec<u8>,
    bytes_max: u64,
) -> Result<()> {
    match read_line(file, line, bytes_max) {
        Err(why) if why.kind() == io::ErrorKind::InvalidData => Err(malformed(path, why)),
        Err(why) if why.kind() == io::ErrorKind::IsADirectory => {
            Err(malformed(path, "it is a directory"))
        }
        read => read.map(|_| ()).with_context(|| format!("'{}'", path.display())),
    }
}

fn malformed(path: &Path, why: impl std::fmt::Display) -> anyhow::Error {
    bad_input(format!("'{}' is not a transcript: {why}", path.display()))
}

/// Replays one machine, line by line, whatever the length of the file.
fn machine(
    path: &Path,
    kind: Kind,
    first: Vec<u8>,
    mut file: impl BufRead,
) -> Result<ReplayReport> {
    let mut replay = Replay::new();
    let (mut text, mut is_cut) = (first, false);
    let mut ended = Ok(Ok(()));
    while !text.is_empty() {
        is_cut = !text.ends_with(b"\n");
        if is_cut {
            break;
        }
        let line = String::from_utf8_lossy(&text);
        ended = catch_unwind(AssertUnwindSafe(|| replay.feed(line.trim_end())));
        if !matches!(ended, Ok(Ok(()))) {
            break;
        }
        text.clear();
        next_line(path, &mut file, &mut text, LINE_BYTES_MAX)?;
    }
    if matches!(ended, Ok(Ok(()))) {
        ended = Ok(replay.end(is_cut));
    }
    let (input_line, input) = replay.input();
    let finding = match ended {
        Ok(Ok(())) => Finding::Equal,
        Ok(Err(ReplayError::Different(difference))) => {
            let Difference { input_line, line, expected, got } = difference;
            Finding::Different { line, input_line, input: input.to_string(), expected, got }
        }
        Ok(Err(why)) => return Err(malformed(path, why)),
        Err(panic) => {
            let message = panic_message(&*panic);
            Finding::Assertion { input_line, input: input.to_string(), message }
        }
    };
    let (inputs, seconds) = (replay.inputs(), replay.now().ns as f64 / 1e9);
    Ok(ReplayReport { format: FORMAT, machine: kind.word(), inputs, seconds, is_cut, finding })
}

/// Runs a trial again.
fn cluster(path: &Path, first: Vec<u8>, rest: impl Read) -> Result<ReplayReport> {
    let text = match read_text(first.chain(rest), TRIAL_BYTES_MAX) {
        Err(why) if why.kind() == io::ErrorKind::InvalidData => return Err(malformed(path, why)),
        text => text.with_context(|| format!("'{}'", path.display()))?,
    };
    let Recorded { trial, broken } = Recorded::read(&text).map_err(|why| malformed(path, why))?;
    let finding = match run_trial(&trial, Watch::Rules).violation {
        Some(violation) => Finding::Broken { rule: one_line(&violation), recorded: broken },
        None => Finding::Whole { recorded: broken },
    };
    Ok(ReplayReport {
        format: FORMAT,
        machine: Kind::Cluster.word(),
        inputs: trial.faults.len() as u64,
        seconds: trial.lasts.as_secs_f64(),
        is_cut: false,
        finding,
    })
}

const FORMAT: &str = "suture-replay-1";

fn print_text(path: &Path, report: &ReplayReport) {
    let ReplayReport { machine, inputs, seconds, .. } = report;
    let what = if *machine == Kind::Cluster.word() { "fault" } else { "input" };
    let of = format!("{machine}, {}, {}", counted(*inputs, what), format_seconds(*seconds));
    line(format!("{}: {of}", path.display()));
    if report.is_cut {
        line("the file ends in the middle of a line, which was left out");
    }
    let shown = |output: &Option<String>| output.clone().unwrap_or("nothing more".into());
    match &report.finding {
        Finding::Equal => line("every output is as recorded"),
        Finding::Different { line: at, input_line, input, expected, got } => {
            line(format!("DIFFERENT at line {at}, after the input of line {input_line}:"));
            line(format!("  input     {input}"));
            line(format!("  expected  {}", shown(expected)));
            line(format!("  got       {}", shown(got)));
        }
        Finding::Assertion { input_line, input, message } => {
            line(format!("AN ASSERTION FAILS at the input of line {input_line}:"));
            line(format!("  input     {input}"));
            line(format!("  message   {message}"));
        }
        Finding::Broken { rule, recorded } if recorded.as_ref() == Some(rule) => {
            line(format!("BROKEN, as recorded: {rule}"));
        }
        Finding::Broken { rule, recorded } => {
            line(format!("BROKEN: {rule}"));
            recorded.iter().for_each(|rule| line(format!("  recorded: {rule}")));
        }
        Finding::Whole { recorded } => {
            line("no rule is broken");
            recorded.iter().for_each(|rule| line(format!("  recorded: {rule}")));
        }
    }
}
