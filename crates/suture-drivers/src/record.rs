//! A recording: all that a daemon's machine is given and gives, in a file, to be replayed later.
//!
//! Place: around all of failure -> ... -> stripe healthy, in one process.
//! The driver's task writes whole entries, an input with its outputs, into memory; a thread brings
//! them to the file once a second and at the end, so nothing waits for a disk. A process that is
//! killed loses the last second. An input on which the machine panics is in the file, without
//! outputs.
//!
//! Invariant: a recording has no gap. When it reaches its limit, or the disk does not keep up, it
//! ends with a line in the log, and what was recorded until then replays.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use suture_repair::agent::{self, Agent};
use suture_repair::coordinator::Coordinator;
use suture_repair::event;
use suture_repair::time::Time;
use suture_repair::transcript;
use suture_repair::transcript::line::Textual;
use tracing::{error, info, warn};

use crate::data_dir;

/// How often what was recorded goes to the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Bytes that may wait for the file: beyond a few seconds of the busiest agent the disk is stuck.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Where to record, and how much.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// The file. A recording of that name becomes `FILE.old`; anything else stays, and is refused.
    pub path: PathBuf,
    /// The recording ends before it is larger.
    pub limit_bytes: u64,
}

/// A recording that goes on until it is dropped.
#[derive(Debug)]
pub struct Recording {
    shared: Arc<WriteQueue>,
    thread: Option<JoinHandle<()>>,
    /// An input, and soon its outputs.
    entry: String,
    /// What may still be recorded; `None` when the recording has ended before its time.
    left_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    text: String,
    /// The file cannot be written.
    has_failed: bool,
    is_over: bool,
}

impl RecordTo {
    /// Whether one can begin here, by what is there.
    ///
    /// # Errors
    /// When the file, or the one that it would become, is something else than a recording.
    pub fn check(&self) -> io::Result<()> {
        check_replaceable(&self.path)?;
        check_replaceable(&self.old())
    }

    /// Begins a recording with the header of its transcript.
    ///
    /// # Errors
    /// When the file cannot be made, or something else is there.
    pub fn begin(&self, header: &str) -> io::Result<Recording> {
        self.check()?;
        if self.path.exists() {
            fs::rename(&self.path, self.old())?;
        }
        // It says what lies where, as the data_dir does.
        let mut file = data_dir::new_file().create_new(true).open(&self.path)?;
        // At once: a process that is killed in its first second leaves a transcript, too.
        file.write_all(header.as_bytes())?;
        info!("recording to '{}'", self.path.display());
        let shared = Arc::new(WriteQueue::default());
        let (write, path) = (shared.clone(), self.path.clone());
        let thread = std::thread::Builder::new().name("record".into());
        let thread = thread.spawn(move || write.keep_writing(file, &path))?;
        let left_bytes = Some(self.limit_bytes.saturating_sub(header.len() as u64));
        Ok(Recording { shared, thread: Some(thread), entry: String::new(), left_bytes })
    }

    fn old(&self) -> PathBuf {
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        old.into()
    }
}

/// Refuses what is not a recording: a device, a folder, another file.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let named = |what: &str| {
        let said = format!("'{}' {what}: name another file", path.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, said))
    };
    if !found.is_file() {
        return named("is not a regular file");
    }
    let mut first = Vec::new();
    File::open(path)?.take(transcript::NAME.len() as u64).read_to_end(&mut first)?;
    // One whose process ended at once may have less of it.
    if transcript::NAME.as_bytes().starts_with(&first) {
        Ok(())
    } else {
        named("exists and is not a recording")
    }
}

impl Recording {
    fn input(&mut self, now: Time, input: &impl Textual) {
        self.entry.push_str(&transcript::input_line(now, input));
    }

    fn outputs(&mut self, lines: &[String]) {
        self.entry.push_str(&transcript::indented(lines));
        self.finish();
    }

    /// Hands the entry over, or ends the recording.
    fn finish(&mut self) {
        let entry = std::mem::take(&mut self.entry);
        let Some(left) = self.left_bytes else { return };
        self.left_bytes = left.checked_sub(entry.len() as u64);
        if self.left_bytes.is_none() {
            return warn!("the recording has reached its limit and ends here");
        }
        let mut waiting = self.shared.lock();
        if waiting.has_failed {
            self.left_bytes = None;
        } else if waiting.text.len() + entry.len() > WAITING_BYTES_MAX.max(entry.len()) {
            self.left_bytes = None;
            warn!("the disk does not keep up with the recording, which ends here");
        } else {
            waiting.text.push_str(&entry);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Of a panic in the machine: the input that it did not survive.
        self.finish();
        self.shared.lock().is_over = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to report but what it logged.
            let _ = thread.join();
        }
    }
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nobody panics while holding it")
    }

    fn keep_writing(&self, mut file: File, path: &Path) {
        let mut waiting = self.lock();
        loop {
            let is_over = waiting.is_over;
            let text = std::mem::take(&mut waiting.text);
            drop(waiting);
            if let Err(why) = file.write_all(text.as_bytes()) {
                error!("cannot record to '{}', the recording ends: {why}", path.display());
                self.lock().has_failed = true;
                return;
            }
            if is_over {
                return;
            }
            waiting = self.lock();
            if !waiting.is_over {
                let woken = self.ended.wait_timeout(waiting, FLUSH_EVERY);
                waiting = woken.expect("nobody panics while holding it").0;
            }
        }
    }
}

/// A machine, and what is written down of it. To look at, it is the machine.
#[derive(Debug)]
pub struct Recorded<Machine, Output> {
    machine: Machine,
    recording: Option<Recording>,
    /// Recorded and not yet polled: outputs belong to their input, whenever they are performed.
    outputs: VecDeque<Output>,
}

/// A coordinator that may be recorded.
pub type RecordedCoordinator = Recorded<Coordinator, event::Output>;

/// An agent that may be recorded.
pub type RecordedAgent = Recorded<Agent, agent::AgentOutput>;

impl<Machine, Output> Recorded<Machine, Output> {
    /// A machine that has been given nothing, with the recording that its header began.
    pub fn new(machine: Machine, recording: Option<Recording>) -> Recorded<Machine, Output> {
        Recorded { machine, recording, outputs: VecDeque::new() }
    }
}

impl<Machine, Output> Deref for Recorded<Machine, Output> {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl RecordedCoordinator {
    /// As [`Coordinator::handle`]; the input is recorded first.
    pub fn handle(&mut self, now: Time, input: event::Input) {
        let Some(recording) = &mut self.recording else { return self.machine.handle(now, input) };
        recording.input(now, &input);
        self.machine.handle(now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| self.machine.poll()).collect();
        recording.outputs(&transcript::coordinator::output_lines(&outputs));
        self.outputs.extend(outputs);
    }

    /// As [`Coordinator::poll`], once its outputs are recorded.
    pub fn poll(&mut self) -> Option<event::Output> {
        self.outputs.pop_front().or_else(|| self.machine.poll())
    }
}

impl RecordedAgent {
    /// As [`Agent::handle`]; the input is recorded first.
    pub fn handle(&mut self, now: Time, input: agent::AgentInput) {
        let Some(recording) = &mut self.recording else { return self.machine.handle(now, input) };
        recording.input(now, &input);
        self.machine.handle(now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| self.machine.poll()).collect();
        recording.outputs(&transcript::agent::output_lines(&outputs));
        self.outputs.extend(outputs);
    }

    /// As [`Agent::poll`], once its outputs are recorded.
    pub fn poll(&mut self) -> Option<agent::AgentOutput> {
        self.outputs.pop_front().or_else(|| self.machine.poll())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_repair::id::NodeId;
    use suture_repair::planner::Abilities;
    use suture_repair::time::Span;

    fn config() -> agent::AgentConfig {
        agent::AgentConfig {
            me: NodeId(3),
            incarnation: 7,
            abilities: Abilities::ALL,
            pool_bytes: 1 << 20,
            heartbeat_every: Span::from_secs(1),
            stall_after: Span::from_secs(60),
            inventory_every: Span::from_secs(60),
        }
    }

    /// So many heartbeats of an agent, recorded; the file's text.
    fn record(to: &RecordTo, beats: u64) -> String {
        let header = transcript::agent::header(&config());
        let recording = to.begin(&header).unwrap();
        let mut agent = RecordedAgent::new(Agent::new(config()), Some(recording));
        agent.handle(Time::ZERO, agent::AgentInput::Connected { epoch: 1 });
        for second in 1..=beats {
            agent.handle(Time::ZERO + Span::from_secs(second), agent::AgentInput::Tick);
        }
        // The first listing is never answered, so there is no other.
        assert_eq!(std::iter::from_fn(|| agent.poll()).count() as u64, 3 + beats);
        drop(agent);
        fs::read_to_string(&to.path).unwrap()
    }

    #[test]
    fn what_was_recorded_replays_and_the_file_before_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let to = RecordTo { path: folder.path().join("agent.txt"), limit_bytes: 1 << 20 };
        let first = record(&to, 10);
        assert_eq!(transcript::replay(&first).unwrap().inputs(), 11);
        record(&to, 5);
        assert_eq!(fs::read_to_string(folder.path().join("agent.txt.old")).unwrap(), first);
    }

    #[test]
    fn nothing_but_a_recording_makes_room_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let to = RecordTo { path: folder.path().join("agent.txt"), limit_bytes: 1 << 20 };
        let old = folder.path().join("agent.txt.old");
        for path in [&to.path, &old] {
            fs::write(path, "somebody's").unwrap();
            assert!(to.begin("").unwrap_err().to_string().contains("is not a recording"));
            assert_eq!(fs::read(path).unwrap(), b"somebody's");
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
            let said = to.begin("").unwrap_err().to_string();
            assert!(said.contains("not a regular file"), "{said}");
            fs::remove_dir(path).unwrap();
            std::os::unix::fs::symlink("/dev/full", path).unwrap();
            assert!(to.begin("").is_err());
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
            fs::remove_file(path).unwrap();
        }
        fs::write(&to.path, "").unwrap();
        record(&to, 1);
    }

    #[test]
    fn a_recording_ends_at_its_limit_with_a_whole_entry() {
        let folder = tempfile::tempdir().unwrap();
        let to = RecordTo { path: folder.path().join("agent.txt"), limit_bytes: 4000 };
        let text = record(&to, 1000);
        assert!((3000..=4000).contains(&text.len()), "{} bytes", text.len());
        assert!(transcript::replay(&text).unwrap().inputs() > 10);
    }
}
