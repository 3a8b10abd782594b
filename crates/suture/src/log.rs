//! The log of a process: lines to stderr, which hold up nothing that a daemon does.
//!
//! Place: the edge of everything. Where a log goes is somebody else's: a pipe whose reader hangs
//! takes no more, and a daemon that waited for it would be silent to its cluster. So daemons hand
//! lines to a thread of their own, and those that it cannot take are left out and counted.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use crate::verbosity::Verbosity;

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;

/// How long the end of a process waits for what is still to be written.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// Begins to log what is at least this important, where neither SUTURE_LOG nor -v nor -q say
/// otherwise. Who logs already goes on.
pub fn begin(level: &'static str) {
    let level = Verbosity::current().log_level(level);
    let filter = EnvFilter::try_from_env("SUTURE_LOG");
    // It fails only where it has begun before, by the same rule.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(level)))
        .with_writer(|| Lines)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // A log that cannot be written is no reason to end, and the fallback would panic.
        .log_internal_errors(false)
        .try_init();
}

/// The same for a daemon, which waits for no line that it logs.
pub fn begin_of_daemon() {
    QUEUE.get_or_init(|| {
        let (lines, queued) = sync_channel(LINES_MAX);
        thread::spawn(move || write_all(&queued));
        Queue { lines, left_out: AtomicU64::new(0) }
    });
    begin("info");
}

/// Waits until what was logged so far is written, but not for long.
pub fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let (done, flushed) = sync_channel(1);
    if queue.lines.try_send(Queued::Flush(done)).is_ok() {
        let _ = flushed.recv_timeout(FLUSHED_WITHIN);
    }
}

/// What a daemon has logged and its thread has not written.
struct Queue {
    lines: SyncSender<Queued>,
    left_out: AtomicU64,
}

enum Queued {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Where the log writes each of its lines in one call.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(queue) = QUEUE.get() else { return io::stderr().write(line) };
        if queue.lines.try_send(Queued::Line(line.to_vec())).is_err() {
            queue.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines as they come; one that cannot be written is lost.
fn write_all(queued: &Receiver<Queued>) {
    let mut stderr = io::stderr();
    for next in queued {
        match next {
            Queued::Line(line) => drop(stderr.write_all(&line)),
            Queued::Flush(done) => drop(done.try_send(())),
        }
        let queue = QUEUE.get();
        let left_out = queue.map_or(0, |queue| queue.left_out.swap(0, Ordering::Relaxed));
        if left_out > 0 {
            let _ = writeln!(stderr, "{left_out} lines of this log were left out: it took none");
        }
    }
}
