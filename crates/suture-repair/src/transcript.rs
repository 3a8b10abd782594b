//! Transcripts: all that went into a state machine and came out of it, as text, and its replay.
//!
//! Place: beside the whole life of a repair. Coordinator and agent depend on nothing but their
//! configuration and their inputs with their times, so a file of these is enough to see again what
//! they did: a story that explains the protocol, an incident of production, a failure of the swarm.
//!
//! A transcript is a first line that names the version and the machine, a header that ends with the
//! line `start`, and then one line for each input, beginning with its time. What the input gave
//! follows, each output on a line of its own that begins with spaces. `#` begins a comment.
//! `docs/transcripts.md` shows the grammar by example.
//!
//! Inputs are written and read back; outputs are only written, and compared as lines. Bytes of
//! chunks never occur: the machines move handles. Labels do, and with them the names of objects.
//!
//! Invariant: replaying what was recorded gives the same outputs, or the machine has changed.

pub mod agent;
pub mod coordinator;
pub mod line;
mod links;
mod message;
mod plan;
mod throttle;
pub mod value;

use std::collections::VecDeque;
use std::fmt;

use crate::agent::Agent;
use crate::coordinator::Coordinator;
use crate::time::Time;
use line::{LineReader, LineWriter, TextError, Textual};

/// What a first line begins with: the version of the format.
pub const FORMAT: &str = "suture-transcript-2";

/// What transcripts of every version begin with.
pub const NAME: &str = "suture-transcript-";

/// What outputs are indented by.
const INDENT: &str = "  ";

/// What a transcript is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One coordinator, from its start to its end.
    Coordinator,
    /// One agent, from its start to its end.
    Agent,
    /// A simulated cluster: a scenario, which is run rather than replayed (suture-sim).
    Cluster,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Coordinator, Kind::Agent, Kind::Cluster];

    /// The word in the first line.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Coordinator => "coordinator",
            Kind::Agent => "agent",
            Kind::Cluster => "cluster",
        }
    }

    /// What a transcript with this first line is of.
    ///
    /// # Errors
    /// When it is no first line of a transcript in this version of the format.
    pub fn of(first_line: &str) -> Result<Kind, TextError> {
        let mut line = LineReader::new(first_line);
        line.expect(FORMAT)?;
        let kind = line.leaf("coordinator, agent or cluster", |word| {
            Kind::ALL.into_iter().find(|kind| kind.word() == word)
        })?;
        line.end()?;
        Ok(kind)
    }
}

/// The first line of a transcript, without its end.
pub fn first_line(kind: Kind) -> String {
    format!("{FORMAT} {}", kind.word())
}

/// The line of an input.
pub fn input_line(now: Time, input: &impl Textual) -> String {
    let mut line = LineWriter::default();
    line.value(&now).value(input);
    line.finish() + "\n"
}

/// The lines of outputs, as they follow their input's.
pub fn indented(outputs: &[String]) -> String {
    outputs.iter().map(|output| format!("{INDENT}{output}\n")).collect()
}

/// A machine as its transcript's header makes it.
#[derive(Debug)]
enum Machine {
    Coordinator(Box<Coordinator>),
    Agent(Box<Agent>),
}

/// Where a replay stands.
#[derive(Debug)]
enum Progress {
    /// No line was read yet.
    Empty,
    /// The header of a coordinator is being read.
    Coordinator(Box<coordinator::CoordinatorHeader>),
    /// The header of an agent is being read.
    Agent(agent::AgentHeader),
    /// Inputs are being given.
    Running(Machine),
}

/// Replays a transcript line by line.
#[derive(Debug)]
pub struct Replay {
    progress: Progress,
    /// Lines read so far.
    line: usize,
    /// The line of the last input.
    input_line: usize,
    /// The text of the last input.
    input: String,
    inputs: u64,
    now: Time,
    /// What the last input gave and was not yet compared.
    outputs: VecDeque<String>,
}

/// Why a replay ends early. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// The text is no transcript of a machine.
    Malformed {
        /// The line, counted from 1.
        line: usize,
        /// What stands there, and what should.
        error: TextError,
    },
    /// The time of an input is before that of the one before.
    Backwards {
        /// The line, counted from 1.
        line: usize,
        /// The time of this input.
        at: Time,
        /// The time of the input before.
        after: Time,
    },
    /// The machine does something else than what was recorded.
    Different(Difference),
}

/// The first output that is not as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the input, from 1.
    pub input_line: usize,
    /// The line at which they differ, from 1.
    pub line: usize,
    /// What was recorded there, if anything more was.
    pub expected: Option<String>,
    /// What the machine gives, if anything more.
    pub got: Option<String>,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay::new()
    }
}

impl Replay {
    /// A replay of nothing yet.
    pub fn new() -> Replay {
        Replay {
            progress: Progress::Empty,
            line: 0,
            input_line: 0,
            input: String::new(),
            inputs: 0,
            now: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Lines read so far: the last of them is the one that was being read when a machine panicked.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Inputs given so far.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// The time of the last input.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The last input and its line, from 1.
    pub fn input(&self) -> (usize, &str) {
        (self.input_line, &self.input)
    }

    /// Takes the next line: a part of the header, an input, which the machine is given, or an
    /// output, which is compared with what it gave.
    ///
    /// # Errors
    /// When the line is none of these, or the machine's outputs are not those of the transcript.
    ///
    /// # Panics
    /// When an assertion of the machine fails, or the transcript gives it what no driver would.
    pub fn feed(&mut self, line: &str) -> Result<(), ReplayError> {
        self.line += 1;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(' ') {
            return self.compare(text);
        }
        self.settle()?;
        self.input_line = self.line;
        self.input.clear();
        self.input.push_str(text);
        match self.progress {
            Progress::Running(_) => self.give(text),
            _ => self.header(text).map_err(|error| self.malformed(error)),
        }
    }

    /// The transcript ends here. Of a file that was cut off, the last outputs may be missing.
    ///
    /// # Errors
    /// When outputs are missing, or there never was an input.
    pub fn end(&mut self, is_cut: bool) -> Result<(), ReplayError> {
        if !matches!(self.progress, Progress::Running(_)) {
            return Err(self.malformed(LineReader::new("").error("the line 'start'")));
        }
        if is_cut { Ok(()) } else { self.settle() }
    }

    /// What the last input gave and was not compared with a line.
    pub fn take_outputs(&mut self) -> Vec<String> {
        self.outputs.drain(..).collect()
    }
}

impl Replay {
    fn malformed(&self, error: TextError) -> ReplayError {
        ReplayError::Malformed { line: self.line, error }
    }

    fn header(&mut self, text: &str) -> Result<(), TextError> {
        let mut line = LineReader::new(text);
        let is_last = line.take("start");
        let now = if is_last { line.value()? } else { Time::ZERO };
        match &mut self.progress {
            Progress::Empty => {
                self.progress = match Kind::of(text)? {
                    Kind::Coordinator => Progress::Coordinator(Box::default()),
                    Kind::Agent => Progress::Agent(agent::AgentHeader::default()),
                    Kind::Cluster => return Err(line.error("the transcript of a machine")),
                };
                return Ok(());
            }
            Progress::Coordinator(beginning) if !is_last => beginning.read(&mut line)?,
            Progress::Agent(beginning) if !is_last => beginning.read(&mut line)?,
            _ => {}
        }
        line.end()?;
        if is_last { self.start(now) } else { Ok(()) }
    }

    /// Makes the machine of a complete header.
    fn start(&mut self, now: Time) -> Result<(), TextError> {
        let machine = match std::mem::replace(&mut self.progress, Progress::Empty) {
            Progress::Coordinator(beginning) => {
                beginning.start(now).map(|core| Machine::Coordinator(Box::new(core)))
            }
            Progress::Agent(beginning) => {
                beginning.start().map(|core| Machine::Agent(Box::new(core)))
            }
            Progress::Empty | Progress::Running(_) => None,
        };
        let machine = machine.ok_or_else(|| LineReader::new("start").error("a configuration"))?;
        self.now = now;
        self.progress = Progress::Running(machine);
        Ok(())
    }

    fn give(&mut self, text: &str) -> Result<(), ReplayError> {
        let mut line = LineReader::new(text);
        let at = line.value().map_err(|error| self.malformed(error))?;
        if at < self.now {
            return Err(ReplayError::Backwards { line: self.line, at, after: self.now });
        }
        self.now = at;
        self.inputs += 1;
        let Progress::Running(machine) = &mut self.progress else { return Ok(()) };
        let outputs = machine.give(at, line).map_err(|error| self.malformed(error))?;
        self.outputs = outputs.into();
        Ok(())
    }

    /// Compares a recorded output with the next of what the machine gave.
    fn compare(&mut self, expected: &str) -> Result<(), ReplayError> {
        let got = self.outputs.pop_front();
        if got.as_deref() == Some(expected) {
            return Ok(());
        }
        Err(self.different(Some(expected.to_string()), got))
    }

    /// All that the last input gave must have been compared by now.
    fn settle(&mut self) -> Result<(), ReplayError> {
        match self.outputs.pop_front() {
            None => Ok(()),
            got => Err(self.different(None, got)),
        }
    }

    fn different(&self, expected: Option<String>, got: Option<String>) -> ReplayError {
        let (input_line, line) = (self.input_line, self.line);
        ReplayError::Different(Difference { input_line, line, expected, got })
    }
}

impl Machine {
    /// Gives the machine the input of a line; the lines of what it gives.
    fn give(&mut self, now: Time, mut line: LineReader<'_>) -> Result<Vec<String>, TextError> {
        match self {
            Machine::Coordinator(core) => {
                let input = line.value()?;
                line.end()?;
                core.handle(now, input);
                let outputs: Vec<_> = std::iter::from_fn(|| core.poll()).collect();
                Ok(coordinator::output_lines(&outputs))
            }
            Machine::Agent(core) => {
                let input = line.value()?;
                line.end()?;
                core.handle(now, input);
                let outputs: Vec<_> = std::iter::from_fn(|| core.poll()).collect();
                Ok(agent::output_lines(&outputs))
            }
        }
    }
}

/// The transcript with the outputs that its inputs give now; comments stay where they are.
///
/// # Errors
/// When it is no transcript of a machine.
pub fn bless(text: &str) -> Result<String, ReplayError> {
    let mut replay = Replay::new();
    let mut blessed = String::new();
    for line in text.lines() {
        if line.starts_with(' ') {
            replay.line += 1;
            continue;
        }
        replay.feed(line)?;
        blessed += line;
        blessed.push('\n');
        blessed += &indented(&replay.take_outputs());
    }
    replay.end(false).map(|()| blessed)
}

/// Replays a whole transcript. A last line without an end is left out: the file was cut off there.
///
/// # Errors
/// The first difference, or what is no transcript in it.
pub fn replay(text: &str) -> Result<Replay, ReplayError> {
    let mut replay = Replay::new();
    let is_cut = !text.is_empty() && !text.ends_with('\n');
    let whole = if is_cut { text.rsplit_once('\n').map_or("", |(whole, _)| whole) } else { text };
    whole.lines().try_for_each(|line| replay.feed(line))?;
    replay.end(is_cut)?;
    Ok(replay)
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Malformed { line, error } => write!(f, "line {line}: {error}"),
            ReplayError::Backwards { line, at, after } => {
                write!(f, "line {line}: time goes back from {after} to {at}")
            }
            ReplayError::Different(difference) => difference.fmt(f),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { input_line, line, expected, got } = self;
        let shown = |output: &Option<String>| match output {
            Some(output) => output.clone(),
            None => "nothing more".to_string(),
        };
        writeln!(f, "line {line}, after the input of line {input_line}:")?;
        writeln!(f, "  expected  {}", shown(expected))?;
        write!(f, "  got       {}", shown(got))
    }
}

impl std::error::Error for ReplayError {}
