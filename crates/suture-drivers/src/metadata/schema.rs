//! The database file: its lock, its version, and its tables.
//!
//! Place: the first step of a coordinator's start, before it takes connections.
//! The file's `application_id` says that it is Suture's, its `user_version` which schema it has.
//! An unknown one of either is refused: guessing at the last good map of chunks would lose them.
//! An older version becomes the present one, by one transaction that keeps everything.
//! The folder itself is locked, by the kernel and for as long as the process lives, so a crash
//! leaves nothing to clean up.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use suture_edge::error::bad_input;
use tracing::{info, warn};

use super::wal::IN_USE_SINCE;
use super::{former, wal};
use crate::data_dir;

/// "Sutr", as SQLite's header has it.
const APPLICATION_ID: u32 = 0x5375_7472;

/// The schema that this program reads and writes.
pub const SCHEMA_VERSION: u32 = STEPS.len() as u32;

/// What makes version n of the schema out of version n - 1, the first out of an empty file. A new
/// file takes all steps, an older one those that it lacks, so both end up the same. A step that was
/// released never changes.
const STEPS: [&str; 17] = [
    FIRST, RACKS, LENGTHS, IN_USE, REMOVED, UNKNOWN, STORES, SCRUB, CHECKSUMS, COMMITTED, INTENTS,
    THROTTLE, UNFIT, SUMS, SEALED, FAULTS, SET_BACK,
];

/// The name of the file.
pub(super) const DATABASE: &str = "metadata.db";

/// What the names of backups in the making begin with. What begins so is removed at a start, so it
/// is no name that an operator would choose for a backup.
pub(super) const BACKUP_PART: &str = ".suture-backup-";

/// What the names of metadata in the making begin with: new ones, or such that are being restored.
pub(super) const PART: &str = ".suture-metadata";

/// What the names of metadata begin with that a restored copy has replaced.
pub(super) const REPLACED: &str = "metadata.db.replaced-";

/// What the names of folders begin with in which metadata are made.
pub(super) const UNFINISHED: &str = ".suture-rebuild-";

/// Ids and enums are numbers, names and codes text, sums and stamps 64-bit patterns.
const FIRST: &str = "
CREATE TABLE cluster (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          INTEGER NOT NULL,   -- 64 random bits
    epoch       INTEGER NOT NULL,   -- coordinator starts so far
    next_stripe INTEGER NOT NULL,   -- never decreases, so stripe ids are never reused
    paused      INTEGER NOT NULL    -- the operator's intent
) STRICT;
CREATE TABLE node (
    id       INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL UNIQUE,
    address  TEXT    NOT NULL,      -- where its chunks were last served
    uplink   REAL    NOT NULL,      -- bytes per second
    downlink REAL    NOT NULL,
    failed   INTEGER NOT NULL       -- the operator's intent
) STRICT;
CREATE TABLE object (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    bytes       INTEGER NOT NULL,
    code        TEXT    NOT NULL,
    chunk_bytes INTEGER NOT NULL,
    checksum    INTEGER NOT NULL,   -- CRC-64/NVME
    created     INTEGER NOT NULL    -- seconds since 1970
) STRICT;
CREATE TABLE stripe (
    id          INTEGER PRIMARY KEY,
    object      INTEGER NOT NULL REFERENCES object ON DELETE CASCADE,
    ordinal     INTEGER NOT NULL,
    code        TEXT    NOT NULL,
    chunk_bytes INTEGER NOT NULL,
    data_bytes  INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    UNIQUE (object, ordinal)
) STRICT;
CREATE TABLE chunk (
    stripe INTEGER NOT NULL REFERENCES stripe ON DELETE CASCADE,
    idx    INTEGER NOT NULL,
    node   INTEGER REFERENCES node,  -- null: stored nowhere yet
    stamp  INTEGER NOT NULL,
    crc    INTEGER NOT NULL,
    PRIMARY KEY (stripe, idx)
) STRICT, WITHOUT ROWID;
";

/// Racks by name; null where none is known.
const RACKS: &str = "ALTER TABLE node ADD COLUMN rack TEXT";

/// Lengths of chunks and units where they are not the stripe's `chunk_bytes`, which null stands
/// for. From here on a `crc` of -1 says that none was recorded.
const LENGTHS: &str = "
ALTER TABLE stripe ADD COLUMN unit_bytes INTEGER;
ALTER TABLE chunk ADD COLUMN bytes INTEGER;
";

/// Whether a coordinator has the file open (`wal.rs`).
const IN_USE: &str = "ALTER TABLE cluster ADD COLUMN in_use INTEGER NOT NULL DEFAULT 0";

/// Whether an operator has removed a node. Its row stays, since nodes are numbered in order.
const REMOVED: &str = "ALTER TABLE node ADD COLUMN removed INTEGER NOT NULL DEFAULT 0";

/// Which store has a node's name, null where none was announced; and whether the name was given to
/// the next one (1), or another one has it by now and has not listed all that is recorded there
/// (2).
const STORES: &str = "
ALTER TABLE node ADD COLUMN store INTEGER;
ALTER TABLE node ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
";

/// What to do with a file that was copied while a coordinator had it open, without its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// Refuse it: what was stored last may be missing.
    Refuse,
    /// Take it: there is nothing better, or it was copied by SQLite's own means.
    Accept,
}

/// An open database that no other process has open.
pub struct Database {
    /// In WAL mode, synchronous.
    pub connection: Connection,
    /// Kept for as long as the connection.
    pub lock: File,
}

/// Ranges of stripe ids that this file never gave out, though agents hold copies of such stripes.
const UNKNOWN: &str = "
CREATE TABLE unknown (
    first INTEGER PRIMARY KEY,
    below INTEGER NOT NULL
) STRICT;
";

/// The last pass in which every copy was read: when it began, below which stripe it is done while
/// it runs, and when one last ended; in seconds since 1970.
const SCRUB: &str = "
ALTER TABLE cluster ADD COLUMN pass_begun INTEGER;
ALTER TABLE cluster ADD COLUMN pass_next INTEGER;
ALTER TABLE cluster ADD COLUMN pass_ended INTEGER;
";

/// CRC-64/NVME of each stripe's data, which is reported beside its chunks; null where none was
/// recorded.
const CHECKSUMS: &str = "ALTER TABLE stripe ADD COLUMN checksum INTEGER";

/// How many puts were committed so far: agents know it, which shows whether the metadata are older
/// than what an agent followed.
const COMMITTED: &str = "ALTER TABLE cluster ADD COLUMN committed INTEGER NOT NULL DEFAULT 0";

/// Whether the operator empties a node, and until when it may be silent: seconds since 1970, null
/// where it may not.
const INTENTS: &str = "
ALTER TABLE node ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN paused_until INTEGER;
";

/// What an operator lets repair take, and when: null where that is as configured; and the window,
/// null where it is always open.
const THROTTLE: &str = "
ALTER TABLE cluster ADD COLUMN throttle TEXT;
ALTER TABLE cluster ADD COLUMN throttle_window TEXT;
";

/// Whether a pass has found that the chunks of a stripe do not fit each other.
const UNFIT: &str = "ALTER TABLE stripe ADD COLUMN inconsistent INTEGER NOT NULL DEFAULT 0";

/// CRC32C over all that a row says, with a stripe's chunks (`store/sums.rs`); null until it is
/// known.
const SUMS: &str = "
ALTER TABLE object ADD COLUMN sum INTEGER;
ALTER TABLE stripe ADD COLUMN sum INTEGER;
";

/// CRC32C over what decides which copies are orphans (`sealed.rs`); null until it is known.
const SEALED: &str = "
ALTER TABLE cluster ADD COLUMN sum INTEGER;
ALTER TABLE unknown ADD COLUMN sum INTEGER;
";

/// Why the copy of a chunk is of no use (`store/scrub.rs`); null where nothing is known to be
/// wrong.
const FAULTS: &str = "ALTER TABLE chunk ADD COLUMN fault INTEGER";

/// Whether agents have known of more than there is here, and no rebuild has completed it since
/// (`store/restored.rs`).
const SET_BACK: &str = "ALTER TABLE cluster ADD COLUMN set_back INTEGER NOT NULL DEFAULT 0";

/// Opens or creates the database in `dir`.
///
/// # Errors
/// Bad input when the file is no database of this program, of a later version, not all of it, or in
/// use; a failure when it cannot be read or is damaged.
pub fn open(dir: &Path, incomplete: Incomplete) -> Result<Database> {
    let cannot = || format!("cannot open the metadata in '{}'", dir.display());
    data_dir::open(dir).with_context(cannot)?;
    let lock = lock(dir)?;
    tidy(dir).with_context(cannot)?;
    let path = dir.join(DATABASE);
    // What the disk does not report is not taken for absent: a new database would take its place.
    let has_log = wal::log_of(&path).try_exists().with_context(cannot)?;
    match path.try_exists().with_context(cannot)? {
        false if has_log => {
            return Err(bad_input(format!(
                "'{0}' is missing beside '{0}-wal': both together are the metadata, copy both",
                path.display()
            )));
        }
        false => create(dir, &path).with_context(cannot)?,
        true => {}
    }
    if !has_log && lacks_log(&path)? && incomplete == Incomplete::Refuse {
        return Err(bad_input(format!(
            "'{0}' was copied while a coordinator had it open, without '{0}-wal': what was stored last may be missing. Stop that coordinator and copy '{0}' again, or copy both; if there is no better copy, start once with --accept-copy",
            path.display()
        )));
    }
    let mut connection = Connection::open(&path).with_context(cannot)?;
    // Before anything can fail: the log stays as long as the file says that it is in use.
    wal::keep_log(&connection).with_context(cannot)?;
    let version = identify(&connection, &path)?;
    check(&connection).with_context(cannot)?;
    if version < SCHEMA_VERSION {
        let kept = former::keep(&connection, dir, version, BACKUP_PART)?;
        advance(&mut connection, version).with_context(cannot)?;
        warn!(
            "the metadata were of schema {version}, and are of schema {SCHEMA_VERSION} from now on: a suture that wrote the former cannot read them. As they were they are in '{}'; remove it when this suture is to stay",
            kept.display()
        );
    }
    // FULL rather than WAL's default NORMAL, which may lose the last commits when power fails.
    connection.pragma_update(None, "journal_mode", "WAL").with_context(cannot)?;
    connection.pragma_update(None, "synchronous", "FULL").with_context(cannot)?;
    connection.pragma_update(None, "foreign_keys", true).with_context(cannot)?;
    Ok(Database { connection, lock })
}

/// A new database appears under its name with all of its tables, so that one without any is a part
/// of one.
fn create(dir: &Path, path: &Path) -> Result<()> {
    let part = dir.join(PART);
    // SQLite gives its other files the mode of this one.
    data_dir::create_file(&part)?;
    let mut connection = Connection::open(&part)?;
    advance(&mut connection, 0)?;
    connection.close().map_err(|(_, error)| error)?;
    fs::rename(&part, path)?;
    Ok(File::open(dir)?.sync_all()?)
}

/// The database as its file is, without its log. SQLite would make an empty log beside it, and the
/// next start would take that for the one that should be there: so the file is read as one that no
/// process changes.
///
/// # Errors
/// When the file cannot be opened.
pub(super) fn open_unchanged(path: &Path) -> Result<Connection> {
    let cannot = || format!("cannot open '{}'", path.display());
    let text =
        path.to_str().with_context(|| format!("the name '{}' is not text", path.display()))?;
    let name = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags);
    connection.with_context(cannot)
}

/// Whether the file has a log that should be beside it.
pub(super) fn lacks_log(path: &Path) -> Result<bool> {
    let cannot = || format!("cannot open '{}'", path.display());
    let connection = open_unchanged(path)?;
    match identify(&connection, path)? {
        IN_USE_SINCE.. => wal::is_in_use(&connection).with_context(cannot),
        // Coordinators of that time never closed the file. SQLite reports here how it reads it now.
        _ => is_with_log(path).with_context(cannot),
    }
}

/// Whether the file's header says that it has a log.
fn is_with_log(path: &Path) -> io::Result<bool> {
    let mut version = [0];
    File::open(path)?.read_exact_at(&mut version, 18)?;
    Ok(version == [2])
}

/// Whether a coordinator had the file open when it was last written.
pub(super) fn is_in_use(connection: &Connection, version: u32) -> Result<bool> {
    if version >= IN_USE_SINCE {
        return Ok(wal::is_in_use(connection)?);
    }
    // Coordinators of that time never closed the file: its log was always beside it.
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok(mode == "wal")
}

/// Reads the whole file, as every start does anyway, and refuses one that hangs together wrongly,
/// or whose indexes do not find what its tables hold. What is in the rows their sums prove.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    ensure!(
        found == "ok",
        "the database is damaged: {found}; use a backup (suture metadata restore), or move it away and have `suture metadata rebuild` make it again"
    );
    Ok(())
}

/// Removes what a process left that ended while it made a copy, and takes a restore back that ended
/// before the copy was in place: then the metadata have a second name.
pub(super) fn tidy(dir: &Path) -> io::Result<()> {
    let path = dir.join(DATABASE);
    let current = fs::metadata(&path).ok().map(|found| found.ino());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_current = || entry.metadata().is_ok_and(|found| Some(found.ino()) == current);
        let removed = |result: io::Result<()>| {
            result.map(|()| info!("removed '{}', which was begun and not finished", name))
        };
        if [BACKUP_PART, PART].iter().any(|part| name.starts_with(part)) {
            removed(fs::remove_file(entry.path()))?;
        } else if name.starts_with(REPLACED) && is_current() {
            bring_back(&path, &entry.path());
        } else if name.starts_with(UNFINISHED) {
            removed(fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}

/// Gives metadata that were to be replaced their name and their log back, as far as they lack them.
pub(super) fn bring_back(path: &Path, aside: &Path) {
    // What the disk refuses is still there, under the other name.
    let _ = fs::rename(wal::log_of(aside), wal::log_of(path));
    let _ = if path.exists() { fs::remove_file(aside) } else { fs::rename(aside, path) };
}

/// Locks the folder itself: a lock file could be removed, and with it what it keeps apart.
pub(super) fn lock(dir: &Path) -> Result<File> {
    let cannot = || format!("cannot lock '{}'", dir.display());
    let folder = File::open(dir).with_context(cannot)?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::WouldBlock) => bail!(
            "'{}' is in use by another coordinator: stop that one first, or give this one a data_dir of its own",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

/// Makes sure that the file is ours and no newer than this program; gives its version.
pub(super) fn identify(connection: &Connection, path: &Path) -> Result<u32> {
    let dir = path.parent().unwrap_or(path);
    let path = path.display();
    let unreadable = || format!("'{path}' is not a database that can be read");
    let pragma = |connection: &Connection, name| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        value.with_context(unreadable)
    };
    let (application, version) =
        (pragma(connection, "application_id")?, pragma(connection, "user_version")?);
    if application == APPLICATION_ID && (1..=SCHEMA_VERSION).contains(&version) {
        return Ok(version);
    }
    if application == APPLICATION_ID {
        let kept = Some(former::path_of(dir, SCHEMA_VERSION));
        let former_copy = kept.filter(|kept| kept.exists()).map(|kept| {
            format!(
                ", or return to the copy of before the upgrade: suture metadata restore '{}' --replace. What was stored since is not in it, and found by suture metadata rebuild",
                kept.display()
            )
        });
        return Err(bad_input(format!(
            "'{path}' has schema version {version}, this build reads version {SCHEMA_VERSION}: run the suture that wrote it{}",
            former_copy.unwrap_or_default()
        )));
    }
    let first_table = "SELECT name FROM sqlite_schema LIMIT 1";
    let table = connection.query_row(first_table, [], |row| row.get::<_, String>(0)).optional();
    let table = table.with_context(unreadable)?;
    if table.is_some() || application != 0 || version != 0 {
        return Err(bad_input(format!(
            "'{path}' is a database of another program; give another data_dir"
        )));
    }
    Err(bad_input(format!(
        "'{path}' is empty: if it was copied, all that it held is in the '{path}-wal' that was not, so copy both; if nothing was ever stored, remove it"
    )))
}

/// Takes the steps that a file of this version lacks, all or none.
fn advance(connection: &mut Connection, version: u32) -> Result<()> {
    let changed = connection.transaction()?;
    STEPS[version as usize..].iter().try_for_each(|step| changed.execute_batch(step))?;
    changed.pragma_update(None, "application_id", APPLICATION_ID)?;
    changed.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    Ok(changed.commit()?)
}

/// A database as version 1 made it, without the steps since.
#[cfg(test)]
pub(super) fn create_first(dir: &Path) -> Connection {
    let connection = Connection::open(dir.join("metadata.db")).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> Result<Database> {
        super::open(dir, Incomplete::Refuse)
    }

    fn set_version(dir: &Path, version: u32) {
        let connection = Connection::open(dir.join("metadata.db")).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
    }

    #[test]
    fn a_schema_of_another_version_is_refused_in_both_directions() {
        for version in [0, SCHEMA_VERSION + 1] {
            let dir = tempfile::tempdir().unwrap();
            drop(open(dir.path()).unwrap());
            set_version(dir.path(), version);
            let error = open(dir.path()).err().unwrap().to_string();
            assert!(error.contains(&format!("schema version {version},")), "{error}");
            assert!(
                error.contains(&format!("this build reads version {SCHEMA_VERSION}")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_older_file_takes_the_steps_that_it_lacks() {
        let columns = |connection: &Connection| {
            let of = |table: &str| {
                let query = "SELECT name FROM pragma_table_info(?1)";
                let mut query = connection.prepare(query).unwrap();
                let names = query.query_map([table], |row| row.get::<_, String>(0)).unwrap();
                names.map(Result::unwrap).collect::<Vec<_>>()
            };
            ["cluster", "node", "object", "stripe", "chunk"].map(of)
        };
        let dir = tempfile::tempdir().unwrap();
        create_first(dir.path());
        let old = open(dir.path()).unwrap();
        let new_dir = tempfile::tempdir().unwrap();
        let new = open(new_dir.path()).unwrap();
        assert_eq!(columns(&old.connection), columns(&new.connection));
        drop(old);
        open(dir.path()).unwrap();
    }

    #[test]
    fn what_is_brought_up_to_date_stays_beside_it_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let kept = former::path_of(dir.path(), 1);
        let first = create_first(dir.path());
        first.execute("INSERT INTO node VALUES (0, 'n0', 'here', 1, 1, 0)", []).unwrap();
        drop(first);
        // Without the copy nothing is changed.
        fs::create_dir(&kept).unwrap();
        let error = format!("{:#}", open(dir.path()).err().unwrap());
        assert!(error.contains("cannot keep the metadata of schema 1 as"), "{error}");
        let version = |path: &Path| identify(&Connection::open(path).unwrap(), path).unwrap();
        assert_eq!(version(&dir.path().join(DATABASE)), 1);
        fs::remove_dir(&kept).unwrap();

        drop(open(dir.path()).unwrap());
        assert_eq!((version(&dir.path().join(DATABASE)), version(&kept)), (SCHEMA_VERSION, 1));
        let copy = Connection::open(&kept).unwrap();
        let names: String = copy.query_row("SELECT name FROM node", [], |row| row.get(0)).unwrap();
        assert_eq!((names.as_str(), fs::metadata(&kept).unwrap().mode() & 0o777), ("n0", 0o600));
        let when = fs::metadata(&kept).unwrap().modified().unwrap();
        drop(open(dir.path()).unwrap());
        assert_eq!(fs::metadata(&kept).unwrap().modified().unwrap(), when, "once");
        let parts = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!parts.into_iter().any(|it| it.to_string_lossy().starts_with(BACKUP_PART)));
    }

    #[test]
    fn who_returns_to_a_former_program_is_told_of_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        set_version(dir.path(), SCHEMA_VERSION + 1);
        fs::write(former::path_of(dir.path(), SCHEMA_VERSION), "").unwrap();
        let error = open(dir.path()).err().unwrap().to_string();
        let former_copy = format!("metadata.db.schema-{SCHEMA_VERSION}' --replace");
        assert!(error.contains(&former_copy), "{error}");
    }

    #[test]
    fn a_foreign_database_or_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metadata.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        let error = open(dir.path()).err().unwrap().to_string();
        assert!(error.contains("another program"), "{error}");

        fs::write(&path, "not a database, but long enough to be looked at".repeat(20)).unwrap();
        let error = format!("{:#}", open(dir.path()).err().unwrap());
        assert!(error.contains("not a database"), "{error}");
    }

    #[test]
    fn two_coordinators_cannot_share_a_database() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path()).unwrap();
        let error = open(dir.path()).err().unwrap().to_string();
        assert!(error.contains("another coordinator"), "{error}");
        drop(first);
        open(dir.path()).unwrap();
    }
}
