//! The audit log: who asked for which change, when, from where, and what came of it.
//!
//! Place: a change is asked for -> [it is written down] -> it is carried out -> [and how it went]
//! -> it is answered. A line of JSON for each, appended to a file that is kept in pieces; nothing
//! in it is ever changed. Where the first line cannot be written nothing is changed, so a full disk
//! stops changes that callers ask for; what repairs wait for, sessions of agents and reports of
//! readers, goes on. Refusals are written down as far as that goes, and only some of each caller's,
//! with the number of the others: a caller that is refused must not fill the disk.
//!
//! There are two files. What operators and admins do is kept apart from what agents, clients and
//! viewers do, so that no number of calls of the latter displaces it. An agent, client or viewer
//! whose changes fail over and over is refused further ones for some seconds.
//!
//! A line about a change is on the disk before what follows it: one call to the system for all that
//! were written meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde_json::json;
use suture_edge::error::brief;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tonic::Status;
use tracing::warn;

use super::access::{Call, Caller, Record};
use crate::identity::AccessRole;
use crate::net::refusals::RefusalLog;

/// A piece of the log is no longer than that.
const PIECE_BYTES_MAX: u64 = 64 << 20;

/// Pieces that are kept beside the one that is written: the newest is `audit.jsonl.1`.
const PIECES_KEPT: u32 = 15;

/// Of longer texts only the beginning is written down, and how long they were: a caller that
/// chooses names must not fill the log. No object has a longer name.
const SHOWN_CHARS: usize = 1024;

/// The part of the file's name for callers other than operators and admins.
const OTHERS: &str = "others";

/// The log of one coordinator.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Of operators, admins, and callers that do not have to prove who they are.
    runners: AuditLog,
    /// Of agents, clients and viewers.
    others: AuditLog,
    refusals: Arc<Mutex<BTreeMap<String, RefusalLog>>>,
    /// The changes that failed, of callers whose lines are among those of the others.
    failures: Arc<Mutex<BTreeMap<String, Failures>>>,
    /// Distinguishes the lines about one change from others; from 1 in each life of a coordinator.
    next: Arc<AtomicU64>,
}

/// One of its two files.
#[derive(Clone, Debug)]
struct AuditLog {
    pieces: Arc<AuditPieces>,
    /// Held by each change that has begun and not ended.
    open: Arc<()>,
}

/// Looks whether lines can be written, and counts for no change.
#[derive(Clone, Debug)]
pub struct AuditWatch {
    logs: [WatchedLog; 2],
}

#[derive(Clone, Debug)]
struct WatchedLog {
    pieces: Arc<AuditPieces>,
    open: Weak<()>,
}

#[derive(Debug)]
struct AuditPieces {
    /// What the newest of them is called.
    path: PathBuf,
    file: Mutex<AuditFile>,
    /// How many of its lines are on the disk for certain.
    synced: Mutex<u64>,
    /// Why no line could be written when that was last tried.
    fault: Mutex<Option<String>>,
    /// Held while it is looked whether one could be: on a disk that hangs by one thread, not many.
    probing: Arc<tokio::sync::Mutex<()>>,
}

/// A change that was written down, and is to be ended.
#[derive(Debug)]
pub struct Begun {
    number: u64,
    call: Call,
    caller: String,
    log: AuditLog,
}

#[derive(Debug)]
struct AuditFile {
    path: PathBuf,
    file: Arc<File>,
    piece_bytes_max: u64,
    /// Lines that were written since it was opened.
    lines: u64,
}

/// Longer than any line about how a change went.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// About as long as most lines are.
const LINE_BYTES_USUAL: u64 = 1 << 10;

/// How long a caller waits until it is known whether a line can be written.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// Changes that may fail at once.
const FAILURES_MAX: u64 = 60;

/// How many changes of a caller failed, less one for each second.
#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u64,
}

impl Failures {
    fn note_time(&mut self, now: Instant) {
        let seconds = now.duration_since(self.since).as_secs();
        if seconds > 0 {
            (self.since, self.count) = (now, self.count.saturating_sub(seconds));
        }
    }
}

impl Audit {
    /// Goes on with the log in that file, or begins one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> io::Result<Audit> {
        Audit::in_pieces(path, PIECE_BYTES_MAX)
    }

    fn in_pieces(path: &Path, piece_bytes_max: u64) -> io::Result<Audit> {
        let runners = AuditLog::open(path.to_owned(), piece_bytes_max)?;
        // What is no file, such as a device, has no other beside it.
        let others = if fs::metadata(path)?.is_file() {
            AuditLog::open(others_path(path), piece_bytes_max)?
        } else {
            runners.clone()
        };
        let next = Arc::new(AtomicU64::new(1));
        Ok(Audit { runners, others, refusals: Arc::default(), failures: Arc::default(), next })
    }

    fn log_of(&self, caller: &Caller) -> &AuditLog {
        if runs_the_cluster(caller) { &self.runners } else { &self.others }
    }

    /// Writes down that the caller asks for a change of `what`.
    ///
    /// # Errors
    /// When it cannot be written down, or too many of the caller's changes failed just now: then
    /// nothing is to be changed.
    pub async fn begin(&self, caller: &Caller, call: Call, what: &str) -> Result<Begun, Status> {
        if call.rule().record == Record::First && self.fails_often(caller) {
            let why = "too many of your changes failed just now: try again in a minute";
            self.refuse(caller, call, what, why).await;
            return Err(Status::resource_exhausted(why));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let log = self.log_of(caller).clone();
        let begun = Begun { number, call, caller: caller.name(), log };
        let line = line(Some(number), caller, call, what, "asked");
        match begun.log.write(line, call.rule().record == Record::First).await {
            Err(why) if call.rule().record == Record::First => {
                let why = format!("nothing was changed: the audit log cannot be written: {why}");
                Err(Status::unavailable(why))
            }
            Err(why) => {
                warn!(
                    "'{}' is not in the audit log, which cannot be written: {why}",
                    call.rule().to
                );
                Ok(begun)
            }
            Ok(()) => Ok(begun),
        }
    }

    /// Writes down how it went, before that is answered.
    ///
    /// # Errors
    /// That it was done and is not written down.
    pub async fn end(&self, begun: Begun, outcome: Result<(), Status>) -> Result<(), Status> {
        let how = match outcome {
            Ok(()) => "done".to_owned(),
            Err(status) => {
                self.note_failure(&begun);
                format!("failed: {}", brief(status.message(), SHOWN_CHARS))
            }
        };
        let (time, rpc) = (now(), begun.call.rule().rpc);
        let line = json!({ "time": time, "number": begun.number, "call": rpc, "result": how });
        let is_first = begun.call.rule().record == Record::First;
        match begun.log.write_reserved(line.to_string(), is_first).await {
            Err(why) if is_first => {
                let why = format!("{how}, but the audit log cannot be written: {why}");
                Err(Status::unavailable(why))
            }
            _ => Ok(()),
        }
    }

    /// Writes down that a caller was refused, or counts it where many are.
    pub async fn refuse(&self, caller: &Caller, call: Call, what: &str, why: &str) {
        let allowed = {
            let (mut refusals, now) = (lock(&self.refusals), Instant::now());
            refusals.retain(|_, of| !of.is_rested(now));
            refusals.entry(caller.name()).or_default().allow(now)
        };
        let why = match allowed {
            None => return,
            Some(0) => why.to_owned(),
            Some(unlogged) => format!("{why} (and {unlogged} others before it)"),
        };
        warn!(from = %caller.from, "{why}");
        let line = line(None, caller, call, what, &format!("refused: {why}"));
        if let Err(why) = self.log_of(caller).write(line, false).await {
            warn!("a refusal is not in the audit log, which cannot be written: {why}");
        }
    }

    /// What looks whether lines can be written.
    pub fn watch(&self) -> AuditWatch {
        let watched = |log: &AuditLog| {
            let (pieces, open) = (log.pieces.clone(), Arc::downgrade(&log.open));
            WatchedLog { pieces, open }
        };
        AuditWatch { logs: [&self.runners, &self.others].map(watched) }
    }

    /// Whether so many of its changes failed that further ones would fill the log.
    fn fails_often(&self, caller: &Caller) -> bool {
        let (mut failures, now) = (lock(&self.failures), Instant::now());
        failures.retain(|_, of| {
            of.note_time(now);
            of.count > 0
        });
        failures.get(&caller.name()).is_some_and(|of| of.count >= FAILURES_MAX)
    }

    fn note_failure(&self, begun: &Begun) {
        if Arc::ptr_eq(&begun.log.pieces, &self.runners.pieces) {
            return;
        }
        let (mut failures, since) = (lock(&self.failures), Instant::now());
        let of = failures.entry(begun.caller.clone()).or_insert(Failures { since, count: 0 });
        of.count = (of.count + 1).min(2 * FAILURES_MAX);
    }
}

impl AuditLog {
    fn open(path: PathBuf, piece_bytes_max: u64) -> io::Result<AuditLog> {
        let pieces = AuditPieces {
            file: Mutex::new(AuditFile::open(path.clone(), piece_bytes_max)?),
            path,
            synced: Mutex::default(),
            fault: Mutex::default(),
            probing: Arc::default(),
        };
        Ok(AuditLog { pieces: Arc::new(pieces), open: Arc::default() })
    }

    /// Writes a line, if it leaves the space that all changes in progress need for their second
    /// one.
    async fn write(&self, line: String, is_synced: bool) -> io::Result<()> {
        let space = (Arc::strong_count(&self.open) as u64 - 1) * LINE_BYTES_MAX;
        let written = self.append(is_synced, move |log| log.append(&line, space)).await;
        self.pieces.note_fault(written.as_ref().err());
        written
    }

    /// Writes a second line, into the space that is kept for it: that it could be written says
    /// nothing of others.
    async fn write_reserved(&self, line: String, is_synced: bool) -> io::Result<()> {
        let written = self.append(is_synced, move |log| log.append_reserved(&line)).await;
        if let Err(why) = &written {
            self.pieces.note_fault(Some(why));
        }
        written
    }

    async fn append(
        &self,
        is_synced: bool,
        append: impl FnOnce(&mut AuditFile) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let pieces = self.pieces.clone();
        let write = move || {
            let number = {
                let mut file = lock(&pieces.file);
                append(&mut file)?;
                file.lines += 1;
                file.lines
            };
            if is_synced { pieces.sync(number) } else { Ok(()) }
        };
        spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

impl AuditPieces {
    /// Notes why a line could not be written, or that one could.
    fn note_fault(&self, why: Option<&io::Error>) {
        let fault = why.map(|why| format!("'{}': {why}", self.path.display()));
        *lock(&self.fault) = fault;
    }

    /// Looks whether so many bytes could be written, without any. Where that cannot be found out,
    /// all is as it was.
    fn probe(&self, bytes: u64) {
        let probed = lock(&self.file).probe(bytes);
        match probed {
            Ok(true) => self.note_fault(None),
            Ok(false) => {}
            Err(why) => self.note_fault(Some(&why)),
        }
    }

    /// Returns when that line is on the disk. A writer that waits for another's sync finds that it
    /// covered its own line too.
    fn sync(&self, number: u64) -> io::Result<()> {
        let mut synced = lock(&self.synced);
        if *synced >= number {
            return Ok(());
        }
        let (file, lines) = {
            let file = lock(&self.file);
            (file.file.clone(), file.lines)
        };
        sync(&file)?;
        *synced = lines;
        Ok(())
    }
}

impl AuditWatch {
    /// Why no line can be written now, so that changes are refused, where that is so: as it was
    /// when one was last tried, or as the disk reports without one.
    pub async fn fault(&self) -> Option<String> {
        let [runners, others] = &self.logs;
        match runners.fault().await {
            None => others.fault().await,
            fault => fault,
        }
    }
}

impl WatchedLog {
    async fn fault(&self) -> Option<String> {
        let (pieces, probing) = (self.pieces.clone(), self.pieces.probing.clone());
        // What a change needs that begins now: its line, and the second ones of all that are open.
        let changes = self.open.strong_count() as u64;
        let bytes = LINE_BYTES_USUAL + changes * LINE_BYTES_MAX;
        let probe = async move {
            let one = probing.lock_owned().await;
            let probe = move || {
                pieces.probe(bytes);
                drop(one);
            };
            // It has noted nothing if it panicked.
            let _ = spawn_blocking(probe).await;
        };
        // A disk that does not answer is taken to be as it was.
        let _ = timeout(PROBE_WAIT, probe).await;
        lock(&self.pieces.fault).clone()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What cannot be made durable, such as a device, is as it is.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Whether what it does is written down apart from what others do.
fn runs_the_cluster(caller: &Caller) -> bool {
    let role = caller.principal.as_ref().map(|who| who.role);
    matches!(role, None | Some(AccessRole::Operator | AccessRole::Admin))
}

/// `audit.jsonl` has `audit.others.jsonl` beside it.
fn others_path(path: &Path) -> PathBuf {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(format!("{OTHERS}.{extension}").trim_end_matches('.'))
}

/// A line about what a caller asks for.
fn line(number: Option<u64>, caller: &Caller, call: Call, what: &str, result: &str) -> String {
    let who = caller.principal.as_ref().map(ToString::to_string);
    json!({
        "time": now(),
        "number": number,
        "who": who,
        "from": caller.from.to_string(),
        "call": call.rule().rpc,
        "to": call.rule().to,
        "what": brief(what, SHOWN_CHARS),
        "result": brief(result, SHOWN_CHARS),
    })
    .to_string()
}

fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

impl AuditFile {
    fn open(path: PathBuf, piece_bytes_max: u64) -> io::Result<AuditFile> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        Ok(AuditFile { path, file: Arc::new(file), piece_bytes_max, lines: 0 })
    }

    /// Appends a line, whole or not at all as far as the system lets it, and keeps so much space
    /// behind it; to another piece if this one is full.
    fn append(&mut self, line: &str, space: u64) -> io::Result<()> {
        self.find()?;
        let (before, bytes) = (self.file.metadata()?.len(), line.len() as u64 + 1);
        if before > 0 && before + bytes > self.piece_bytes_max {
            self.begin_piece(bytes + space)?;
            return self.write_line(0, line);
        }
        self.reserve(before, bytes + space)?;
        self.write_line(before, line)
    }

    /// Appends a line for which space is kept, which may make this piece longer than others.
    fn append_reserved(&mut self, line: &str) -> io::Result<()> {
        self.find()?;
        let before = self.file.metadata()?.len();
        self.write_line(before, line)
    }

    /// Others may have moved it away, or cut it.
    fn find(&mut self) -> io::Result<()> {
        let of = |file: fs::Metadata| (file.dev(), file.ino());
        let is_it = fs::metadata(&self.path)
            .is_ok_and(|there| self.file.metadata().is_ok_and(|own| of(own) == of(there)));
        if !is_it {
            sync(&self.file)?;
            self.file = AuditFile::open(self.path.clone(), self.piece_bytes_max)?.file;
        }
        Ok(())
    }

    /// Keeps so much space behind what is written, where the file system can: a change whose first
    /// line fits must not be done before it is known that the second does, and those of all others
    /// that have begun.
    fn reserve(&self, before: u64, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, before, bytes) {
            Err(why @ (Errno::NOSPC | Errno::DQUOT)) => Err(why.into()),
            _ => Ok(()),
        }
    }

    /// Whether the disk has space for so many bytes; false where it does not report that.
    ///
    /// # Errors
    /// When it has not, or takes nothing.
    fn probe(&mut self, bytes: u64) -> io::Result<bool> {
        self.find()?;
        let before = self.file.metadata()?.len();
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, before, bytes) {
            Ok(()) => Ok(true),
            Err(why @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO)) => Err(why.into()),
            Err(_) => Ok(false),
        }
    }

    fn write_line(&mut self, before: u64, line: &str) -> io::Result<()> {
        (&*self.file).write_all(format!("{line}\n").as_bytes()).inspect_err(|_| {
            // Half a line is removed: a reader of the log finds whole ones only.
            let _ = self.file.set_len(before);
        })
    }

    /// The file is the newest of the pieces that are kept, and another one is begun, in which so
    /// many bytes fit. Nothing is moved before that can be done.
    fn begin_piece(&mut self, space: u64) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let next = AuditFile::open(name.into(), self.piece_bytes_max)?;
        next.reserve(0, space)?;
        let piece = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..PIECES_KEPT).rev() {
            if piece(number).exists() {
                fs::rename(piece(number), piece(number + 1))?;
            }
        }
        sync(&self.file)?;
        fs::rename(&self.path, piece(1))?;
        fs::rename(&next.path, &self.path)?;
        self.file = next.file;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller::unproven("127.0.0.1:9".parse().unwrap())
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_change_has_two_lines_and_a_refusal_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        let begun = audit.begin(&caller(), Call::Remove, "a/b").await.unwrap();
        assert_eq!(lines(&path).len(), 1, "before it is carried out");
        audit.end(begun, Ok(())).await.unwrap();
        audit.refuse(&caller(), Call::Put, "b", "not yours").await;
        let lines = lines(&path);
        let results: Vec<_> = lines.iter().map(|line| line["result"].as_str().unwrap()).collect();
        assert_eq!(results, ["asked", "done", "refused: not yours"]);
        assert_eq!((&lines[0]["what"], &lines[2]["what"]), (&"a/b".into(), &"b".into()));
        assert_eq!(lines[0]["number"], lines[1]["number"]);
    }

    #[tokio::test]
    async fn a_log_that_was_moved_away_is_left_for_the_file_that_is_there_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        let moved = dir.path().join("audit.moved");
        for (object, creates) in [("a", false), ("b", true), ("c", false)] {
            audit.begin(&caller(), Call::Remove, object).await.unwrap();
            assert_eq!(lines(&path).last().unwrap()["what"], object);
            fs::rename(&path, &moved).unwrap();
            if creates {
                fs::write(&path, "").unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_is_cut_says_so_and_how_long_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        let longest = "n".repeat(1024);
        audit.begin(&caller(), Call::Put, &longest).await.unwrap();
        let begun = audit.begin(&caller(), Call::Remove, &"ä".repeat(9000)).await.unwrap();
        audit.end(begun, Err(Status::not_found("x".repeat(9000)))).await.unwrap();
        let lines = lines(&path);
        assert_eq!(lines[0]["what"], longest.as_str(), "objects can have such names");
        let cut = format!("{}... (18000 bytes)", "ä".repeat(1024));
        assert_eq!(lines[1]["what"], cut.as_str());
        let result = lines[2]["result"].as_str().unwrap();
        assert!(result.starts_with("failed: xxx") && result.ends_with("... (9000 bytes)"));
    }

    #[tokio::test]
    async fn the_log_is_kept_in_pieces_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::in_pieces(&path, 300).unwrap();
        for number in 0..60 {
            audit.begin(&caller(), Call::Put, &format!("object-{number}")).await.unwrap();
        }
        let names = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
        let is_piece = |name: &std::ffi::OsString| !name.to_string_lossy().contains(OTHERS);
        let files = names.filter(is_piece).count() as u32;
        assert_eq!(files, PIECES_KEPT + 1);
        assert_eq!(lines(&path).last().unwrap()["what"], "object-59");
        for entry in fs::read_dir(dir.path()).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() <= 300);
        }
    }

    #[tokio::test]
    async fn a_second_line_stays_in_the_piece_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::in_pieces(&path, 300).unwrap();
        let begun = audit.begin(&caller(), Call::Remove, "a").await.unwrap();
        audit.end(begun, Err(Status::not_found("x".repeat(900)))).await.unwrap();
        assert_eq!(lines(&path).len(), 2, "its space is there");
        audit.begin(&caller(), Call::Remove, "b").await.unwrap();
        assert_eq!(lines(&path).len(), 1);
    }

    /// What of the file system is taken by the file beyond its length.
    fn reserved(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let file = fs::metadata(path).unwrap();
        (file.blocks() * 512).saturating_sub(file.len())
    }

    #[tokio::test]
    async fn every_change_that_has_begun_has_space_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        let mut open = Vec::new();
        for number in 1..=8 {
            open.push(audit.begin(&caller(), Call::Put, "a").await.unwrap());
            assert!(reserved(&path) >= number * LINE_BYTES_MAX);
        }
        assert_eq!(Arc::strong_count(&audit.runners.open), 9);
        for begun in open {
            audit.end(begun, Ok(())).await.unwrap();
        }
        assert_eq!(Arc::strong_count(&audit.runners.open), 1, "those that ended need no more");
    }

    #[tokio::test]
    async fn nothing_is_begun_that_cannot_be_written_down() {
        let audit = Audit::open(Path::new("/dev/full")).unwrap();
        let error = audit.begin(&caller(), Call::Remove, "a").await.unwrap_err();
        assert!(error.message().starts_with("nothing was changed: the audit log"), "{error}");
        audit.refuse(&caller(), Call::Remove, "a", "it is refused all the same").await;
    }

    #[tokio::test]
    async fn that_no_line_can_be_written_is_known_until_one_can() {
        let audit = Audit::open(Path::new("/dev/full")).unwrap();
        let watch = audit.watch();
        assert_eq!(watch.fault().await, None, "nobody has tried");
        audit.begin(&caller(), Call::Remove, "a").await.unwrap_err();
        let fault = watch.fault().await.unwrap();
        assert!(fault.starts_with("'/dev/full': No space left"), "{fault}");

        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(&dir.path().join("audit.jsonl")).unwrap();
        let watch = audit.watch();
        assert_eq!(watch.fault().await, None);
        fs::remove_dir_all(dir.path()).unwrap();
        let fault = watch.fault().await.unwrap();
        assert!(fault.contains("audit.jsonl': No such file"), "before anybody tries: {fault}");
        fs::create_dir(dir.path()).unwrap();
        assert_eq!(watch.fault().await, None, "before anybody tries again");
        audit.begin(&caller(), Call::Remove, "a").await.unwrap();
        assert_eq!(Arc::strong_count(&audit.runners.open), 1, "who looks on is no change");
    }

    #[tokio::test]
    async fn whoever_is_refused_over_and_over_does_not_fill_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        for _ in 0..200 {
            audit.refuse(&caller(), Call::Status, "", "no").await;
        }
        assert!(lines(&path).len() < 100);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_without_a_line_are_counted_in_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        for _ in 0..200 {
            audit.refuse(&caller(), Call::Put, "a", "no").await;
        }
        let said = lines(&path).len();
        tokio::time::advance(std::time::Duration::from_secs(10)).await;
        audit.refuse(&caller(), Call::Put, "b", "no").await;
        let last = lines(&path).pop().unwrap();
        let expected = format!("refused: no (and {} others before it)", 200 - said);
        assert_eq!((&last["what"], &last["result"]), (&"b".into(), &expected.into()));
    }

    #[test]
    fn lines_are_synced_once_for_all_that_wait() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::open(dir.path().join("audit.jsonl"), PIECE_BYTES_MAX).unwrap();
        for text in ["a", "b", "c"] {
            let mut file = lock(&log.pieces.file);
            file.append(text, 0).unwrap();
            file.lines += 1;
        }
        log.pieces.sync(1).unwrap();
        assert_eq!(*lock(&log.pieces.synced), 3, "those that came meanwhile are on the disk too");
        log.pieces.sync(2).unwrap();
    }

    #[test]
    fn the_others_have_a_file_beside_the_first() {
        assert_eq!(others_path(Path::new("a/audit.jsonl")), Path::new("a/audit.others.jsonl"));
        assert_eq!(others_path(Path::new("audit")), Path::new("audit.others"));
    }
}
