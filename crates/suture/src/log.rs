//! The log of a process: lines to stderr, which hold up nothing that a daemon does.
//!
//! Place: the edge of everything. Where a log goes is out of our hands: a pipe whose reader hangs
//! takes no more, and a daemon that waited for it would be silent to its cluster. So daemons hand
//! lines to a thread of their own, and those that it cannot take are left out and counted.
//! `SUTURE_LOG` says how much is logged, `SUTURE_LOG_FORMAT` whether it is text or JSON.

mod json;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use suture_edge::error::quoted;
use suture_terminal::verbosity::Verbosity;
use tracing::warn;
use tracing_subscriber::EnvFilter;

use self::json::JsonLines;

/// Levels of what is logged, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What libraries log of each frame and connection says nothing of repairs.
const QUIET: &str = "h2=warn,hyper=warn,hyper_util=warn,tower=warn,tonic=warn,rustls=warn";

/// What SUTURE_LOG_FORMAT says where lines are to be JSON.
const JSON: &str = "json";

/// Whether the lines of this process are.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;

/// How long the end of a process waits for what is still to be written.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// Begins to log what is at least this important, where neither SUTURE_LOG nor -v nor -q say
/// otherwise. A process that logs already goes on.
pub fn begin(level: &'static str) {
    let level = Verbosity::current().log_level(level);
    let (wanted, filter_flaw) = usable("SUTURE_LOG", check);
    let (form, form_flaw) = usable("SUTURE_LOG_FORMAT", check_form);
    let wanted = wanted.as_deref().unwrap_or(level);
    let filter = match wanted.trim().to_ascii_lowercase().as_str() {
        "off" | "error" => wanted.to_owned(),
        _ => format!("{QUIET},{wanted}"),
    };
    let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| Lines)
        // A log that cannot be written is no reason to end, and the fallback would panic.
        .log_internal_errors(false);
    let is_json = form.as_deref() == Some(JSON);
    // It fails only where it has begun before, by the same rule.
    let begun = if is_json {
        lines.event_format(JsonLines).try_init()
    } else {
        lines.with_ansi(io::stderr().is_terminal() && !is_plain).with_target(false).try_init()
    };
    if begun.is_ok() {
        IS_JSON.store(is_json, Ordering::Relaxed);
        filter_flaw.into_iter().chain(form_flaw).for_each(|why| warn!("{why}"));
    }
}

/// What a variable says, where it is set and can be used; or else why it cannot.
fn usable(
    name: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> (Option<String>, Option<String>) {
    let set = env::var(name).ok().filter(|value| !value.is_empty());
    match set.as_deref().map(check) {
        None | Some(Ok(())) => (set, None),
        Some(Err(why)) => (None, Some(format!("{name} counts for nothing: {why}"))),
    }
}

/// Refuses a form that lines do not have.
fn check_form(form: &str) -> Result<(), String> {
    match form {
        "text" | JSON => Ok(()),
        other => Err(format!("{} is neither text nor {JSON}", quoted(other))),
    }
}

/// Writes why the process ends as the last line of its log, where its lines are JSON; gives whether
/// they are.
pub fn fail_in_json(why: &str) -> bool {
    let is_json = IS_JSON.load(Ordering::Relaxed);
    if is_json {
        // There is nowhere left to say that nothing can be said.
        let _ = writeln!(io::stderr().lock(), "{}", json::line("error", module_path!(), why));
    }
    is_json
}

/// What a filter says that is none: a level, or a module with a level.
fn check(filter: &str) -> Result<(), String> {
    let is_level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        if !is_level(level) {
            return Err(format!(
                "{} is none of {}, alone or after a module as in suture_drivers=debug",
                quoted(level),
                LEVELS.join(", ")
            ));
        }
    }
    Ok(())
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
            let what = format!("{left_out} lines of this log were left out: it took none");
            let is_json = IS_JSON.load(Ordering::Relaxed);
            let line = if is_json { json::line("warn", module_path!(), &what) } else { what };
            let _ = writeln!(stderr, "{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_alone_or_of_modules() {
        for filter in ["info", "DEBUG", "suture_drivers=debug", "warn,suture=trace", "a::b=off", ""]
        {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
        for filter in ["nonsense", "suture=foo", "info,loud", "suture_drivers", "=", "debug=", "5x"]
        {
            assert!(check(filter).is_err(), "{filter}");
        }
        assert!(check("loud").unwrap_err().starts_with("'loud' is none of off, error, warn"));
    }

    #[test]
    fn lines_are_text_or_json_and_nothing_else() {
        assert_eq!((check_form("text"), check_form("json")), (Ok(()), Ok(())));
        for form in ["JSON", "xml", " json"] {
            let why = check_form(form).unwrap_err();
            assert_eq!(why, format!("'{form}' is neither text nor json"));
        }
    }
}
