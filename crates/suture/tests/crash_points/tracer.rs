//! A process whose system calls on one folder are asked about, one by one.
//!
//! Place: between a story and the fault that is to hit it. `tracer.c` stops the process at its
//! calls by seccomp and ptrace; here they are read, and what is to become of each is asked of the
//! [`Attack`]. Without a compiler, ptrace or a known machine it says loudly that it skips.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::attack::{Attack, Verdict};
use super::call::{self, Call};
use super::disk::folder;

/// How long the tracer may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The program that traces.
pub struct Tracer {
    folder: TempDir,
}

/// A process that runs under the tracer; it is killed with its value.
pub struct Traced {
    /// The tracer, which ends with the process.
    tracer: Child,
    /// The process itself.
    id: u32,
    judge: Option<JoinHandle<()>>,
}

/// What the tracer reports.
enum Report {
    Started { process: u32 },
    Call { thread: u64, number: u64, arguments: [u64; 6] },
    Return { thread: u64, result: i64 },
    Ended { status: i32 },
}

/// What the tracer is answered, as it is numbered there.
#[derive(Clone, Copy)]
enum Answer {
    Go = 0,
    GoAndTell = 1,
    Fail = 2,
    Shorten = 3,
    Kill = 4,
}

impl Tracer {
    /// Compiles it, and sees whether it may trace.
    pub fn build() -> Option<Tracer> {
        let compiler = std::env::var("CC").unwrap_or("cc".to_string());
        let skip = |why: &str| {
            eprintln!("SKIPPED: no point of a crash was tested: {why}");
            None
        };
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return skip("the tracer knows Linux on x86_64 only");
        }
        let folder = folder();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_points/tracer.c");
        let tracer = Tracer { folder };
        let mut compile = Command::new(&compiler);
        compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]).arg(source);
        match compile.arg("-o").arg(tracer.program()).output() {
            Err(error) => return skip(&format!("there is no {compiler}: {error}")),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "the tracer does not compile: {said}");
            }
        }
        let attack = Arc::new(Mutex::new(Attack::on(tracer.folder.path())));
        let mut probe = tracer.start(&Command::new("true"), &attack, |_| ())?;
        if probe.wait() {
            Some(tracer)
        } else {
            skip("this system does not let processes be traced")
        }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("tracer")
    }

    /// Starts a command under the tracer; `prepare` may change how it starts.
    pub fn start(
        &self,
        command: &Command,
        attack: &Arc<Mutex<Attack>>,
        prepare: impl FnOnce(&mut Command),
    ) -> Option<Traced> {
        let socket = folder();
        let path = socket.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut traced = Command::new(self.program());
        traced.arg(&path).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                traced.env(key, value);
            }
        }
        prepare(&mut traced);
        let mut tracer = traced.spawn().unwrap();
        let mut stream = accept(&listener, &mut tracer)?;
        let Some(Report::Started { process }) = read(&mut stream) else {
            let _ = tracer.kill();
            let _ = tracer.wait();
            return None;
        };
        let attack = attack.clone();
        let judge = thread::spawn(move || judge(stream, process, &attack));
        Some(Traced { tracer, id: process, judge: Some(judge) })
    }
}

impl Traced {
    /// What the process prints, where that was piped.
    pub fn tracer(&mut self) -> &mut Child {
        &mut self.tracer
    }

    /// Waits for the end; whether the tracer could do its work.
    pub fn wait(&mut self) -> bool {
        let status = self.tracer.wait().unwrap();
        if let Some(judge) = self.judge.take() {
            judge.join().expect("the judge of calls does not panic");
        }
        status.success()
    }

    /// Waits for the end, but not for ever: whether it came.
    pub fn wait_within(&mut self, limit: Duration) -> bool {
        let since = Instant::now();
        while self.tracer.try_wait().unwrap().is_none() {
            if since.elapsed() > limit {
                self.end();
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.wait()
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.tracer.try_wait().unwrap().is_some()
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let id = rustix::process::Pid::from_raw(self.id.cast_signed()).unwrap();
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }

    /// SIGKILL.
    pub fn end(&mut self) {
        // The process goes with its tracer.
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
        if let Some(judge) = self.judge.take() {
            let _ = judge.join();
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(listener: &UnixListener, tracer: &mut Child) -> Option<UnixStream> {
    let since = Instant::now();
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return Some(stream);
        }
        if tracer.try_wait().unwrap().is_some() || since.elapsed() > START_TIMEOUT {
            return None;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn read(stream: &mut UnixStream) -> Option<Report> {
    let mut bytes = [0; 9 * 8];
    stream.read_exact(&mut bytes).ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    Some(match word(0) {
        0 => Report::Started { process: word(1) as u32 },
        1 => {
            let arguments = std::array::from_fn(|at| word(3 + at));
            Report::Call { thread: word(1), number: word(2), arguments }
        }
        2 => Report::Return { thread: word(1), result: word(3).cast_signed() },
        _ => Report::Ended { status: word(2) as i32 },
    })
}

/// Answers the tracer until the process has ended.
fn judge(mut stream: UnixStream, process: u32, attack: &Mutex<Attack>) {
    let mut shortened = Vec::new();
    while let Some(report) = read(&mut stream) {
        let (answer, value) = match report {
            Report::Ended { status } => return attack.lock().unwrap().ended(status),
            Report::Started { .. } => continue,
            Report::Call { thread, number, arguments } => {
                match Call::of(process, number, arguments) {
                    None => (Answer::Go, 0),
                    Some(call) => {
                        let verdict = attack.lock().unwrap().before(thread, &call);
                        carry_out(verdict, process, (thread, &call), &mut shortened)
                    }
                }
            }
            Report::Return { thread, result } => {
                restore(&mut shortened, process, thread);
                match attack.lock().unwrap().after(thread, result) {
                    Verdict::Kill => (Answer::Kill, 0),
                    _ => (Answer::Go, 0),
                }
            }
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(answer as u64).to_ne_bytes());
        bytes[8..].copy_from_slice(&value.to_ne_bytes());
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// A length in the memory of the process that is put back after the call.
struct Shortened {
    thread: u64,
    at: u64,
    bytes: u64,
}

fn carry_out(
    verdict: Verdict,
    process: u32,
    (thread, call): (u64, &Call),
    shortened: &mut Vec<Shortened>,
) -> (Answer, u64) {
    match verdict {
        Verdict::Go => (Answer::Go, 0),
        Verdict::Tell => (Answer::GoAndTell, 0),
        Verdict::Fail(errno) => (Answer::Fail, errno),
        Verdict::Kill => (Answer::Kill, 0),
        Verdict::Shorten if !call.is_vectored() => {
            (Answer::Shorten, (call.arguments[2] / 2).max(1))
        }
        Verdict::Shorten => {
            // The longest of the parts, by half: what follows it is not reached.
            let memory = memory(process);
            let parts = 0..call.arguments[2].min(64);
            let parts = parts.map(|part| {
                let at = call.arguments[1] + 16 * part + 8;
                (call::word(&memory, at).unwrap_or(0), at)
            });
            let parts: Vec<(u64, u64)> = parts.collect();
            if let Some((bytes, at)) = parts.iter().copied().max() {
                memory.write_all_at(&(bytes / 2).max(1).to_ne_bytes(), at).unwrap();
                shortened.push(Shortened { thread, at, bytes });
                for (bytes, at) in parts.iter().copied().filter(|(_, part)| *part > at) {
                    memory.write_all_at(&0u64.to_ne_bytes(), at).unwrap();
                    shortened.push(Shortened { thread, at, bytes });
                }
            }
            (Answer::GoAndTell, 0)
        }
    }
}

fn restore(shortened: &mut Vec<Shortened>, process: u32, thread: u64) {
    for Shortened { at, bytes, .. } in shortened.extract_if(.., |entry| entry.thread == thread) {
        memory(process).write_all_at(&bytes.to_ne_bytes(), at).unwrap();
    }
}

fn memory(process: u32) -> File {
    let path = format!("/proc/{process}/mem");
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}
