//! A backup of the metadata that is whole by itself, and how one takes their place.
//!
//! Place: beside the life of a repair: without the map of stripes, nothing can be repaired or read.
//! SQLite writes the backup from one moment's state while the coordinator goes on (`VACUUM INTO`);
//! its log is not needed, and it says so in itself. What was stored after that moment is not in it:
//! the agents keep such chunks, and a coordinator that starts on it reports how many there are.
//!
//! Metadata that a coordinator left when it was killed are two files: where the log lies beside
//! what is restored, it is folded in.
//!
//! Invariants: metadata that are replaced are renamed, never deleted; of damaged metadata no backup
//! is made that would take the place of a good one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use suture_edge::checksum::Crc32c;
use suture_edge::error::bad_input;
use suture_repair::id::StripeId;
use suture_repair::wire::ClusterId;

use super::schema::{self, Incomplete};
use super::sealed;
use super::store::MetadataError;
use super::store::stripes::find_damage;
use super::wal::{self, log_of};
use crate::data_dir;

/// Bytes that are read at a time.
const STEP: usize = 1 << 20;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// How often a coordinator had started on the metadata.
    pub epoch: u32,
    /// How many objects there are in it.
    pub objects: u64,
    /// How many stripes they have together.
    pub stripes: u64,
}

/// A backup that has no name any more: it goes with its handle.
#[derive(Debug)]
pub struct Backup {
    /// Open at its first byte.
    pub file: File,
    /// Its length, in bytes.
    pub bytes: u64,
    /// CRC32C of all its bytes.
    pub crc: u32,
    /// What it holds: objects, stripes, and of which epoch.
    pub contents: Contents,
}

/// Copies the metadata as they are now. They may change meanwhile. From the id `open` on there may
/// be stripes of puts that end after that: a coordinator that begins with the backup takes them for
/// stripes of another.
///
/// # Errors
/// [`MetadataError::Damaged`] when what is recorded is; otherwise when the database cannot be read,
/// or no backup be written beside it.
pub fn take(database: &Path, open: StripeId) -> Result<Backup> {
    let folder = database.parent().context("a database lies in a folder")?;
    let source = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // All of it as of one moment.
    let moment = source.unchecked_transaction()?;
    if let Some(what) = find_damage(&moment)? {
        return Err(MetadataError::Damaged(format!(
            "{what}: no backup is made, so that earlier ones stay; use one of those (suture metadata restore), or have `suture metadata rebuild` make again what is damaged"
        ))
        .into());
    }
    moment.finish()?;
    take_by(&source, folder, open).map_err(|error| explain_full(error, folder))
}

/// Says what is to be done where the backup finds no space: it is written beside the metadata
/// first, wherever it is to go.
fn explain_full(error: anyhow::Error, folder: &Path) -> anyhow::Error {
    let code = error.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    if code == Some(ErrorCode::DiskFull) || kind == Some(io::ErrorKind::StorageFull) {
        anyhow!(
            "the disk of '{}' has no space for a backup, which is written there first: free some, but leave the data_dir as it is",
            folder.display()
        )
    } else {
        error
    }
}

/// The same by a connection that there is, in the folder, also of what is damaged.
///
/// # Errors
/// When the database cannot be read, or no backup be written.
pub(super) fn take_by(source: &Connection, folder: &Path, open: StripeId) -> Result<Backup> {
    let part =
        tempfile::Builder::new().prefix(schema::BACKUP_PART).tempfile_in(folder)?.into_temp_path();
    let into = part.to_str().context("the data_dir's name is not text")?;
    source.execute("VACUUM INTO ?1", [into])?;
    let copy = Connection::open(&part)?;
    copy.execute("UPDATE cluster SET in_use = 0", [])?;
    leave_unfinished(&copy, open)?;
    let contents = contents(&copy)?;
    copy.close().map_err(|(_, error)| error)?;
    let mut file = File::open(&part)?;
    part.close()?;
    let (bytes, crc) = sum(&mut file)?;
    io::Seek::rewind(&mut file)?;
    Ok(Backup { file, bytes, crc, contents })
}

/// Marks the ids from `open` on that were given out and have no stripe in the backup: one that is
/// committed after the backup was made must not pass for the rest of a put that never ended.
fn leave_unfinished(copy: &Connection, open: StripeId) -> rusqlite::Result<()> {
    let next = copy.query_row("SELECT next_stripe FROM cluster", [], |row| row.get(0))?;
    let mut stripes = copy.prepare("SELECT id FROM stripe WHERE id >= ?1 ORDER BY id")?;
    let stripes = stripes.query_map([open.0], |row| row.get::<_, u64>(0))?;
    let mut from = open.0;
    for end in stripes.chain([Ok(next)]) {
        let end = end?;
        if from < end {
            sealed::leave(copy, from, end)?;
        }
        from = end + 1;
    }
    sealed::seal_unknown(copy)
}

/// The length and CRC32C of what is still to be read.
fn sum(file: &mut File) -> io::Result<(u64, u32)> {
    let (mut bytes, mut crc) = (0, Crc32c::new());
    let mut step = vec![0; STEP];
    loop {
        match file.read(&mut step)? {
            0 => return Ok((bytes, crc.value())),
            read => {
                crc.update(&step[..read]);
                bytes += read as u64;
            }
        }
    }
}

fn contents(connection: &Connection) -> rusqlite::Result<Contents> {
    let query = "SELECT epoch, (SELECT count(*) FROM object), (SELECT count(*) FROM stripe)
                 FROM cluster";
    connection.query_row(query, [], |row| {
        Ok(Contents { epoch: row.get(0)?, objects: row.get(1)?, stripes: row.get(2)? })
    })
}

/// What a data_dir holds after [`restore`].
#[derive(Debug)]
pub struct Restored {
    /// What the backup holds: objects, stripes, and of which epoch.
    pub contents: Contents,
    /// The cluster of which the backup is.
    pub cluster: ClusterId,
    /// Where the metadata are that were there before.
    pub replaced: Option<PathBuf>,
    /// The cluster of which those are, where they can be read.
    pub replaced_cluster: Option<ClusterId>,
}

/// Puts a backup in the place of the metadata in `dir`, on which no coordinator may run. Those that
/// are there are renamed where that is wanted.
///
/// # Errors
/// Bad input for a file that is no backup of the metadata, not all of one, or a damaged one, and
/// for a `dir` that holds metadata which are not to be replaced; a failure when something cannot
/// be read or written, or a coordinator runs there.
pub fn restore(
    copy: &Path,
    dir: &Path,
    incomplete: Incomplete,
    is_replaced: bool,
) -> Result<Restored> {
    data_dir::open(dir).with_context(|| format!("cannot open '{}'", dir.display()))?;
    let _lock = schema::lock(dir)?;
    schema::tidy(dir).with_context(|| format!("cannot use '{}'", dir.display()))?;
    let path = dir.join("metadata.db");
    let part = dir.join(schema::PART);
    let is_there = path.try_exists()? || log_of(&path).try_exists()?;
    if is_there && !is_replaced {
        return Err(bad_input(format!(
            "'{}' is there already: give --replace to put the backup in its place; it is renamed then, not deleted",
            path.display()
        )));
    }
    let aside = is_there.then(|| free_name(dir));
    let written = write_part(copy, &part).and_then(|()| fold_log(copy, &part, dir));
    let restored = written.and_then(|()| {
        let (contents, cluster) = check(copy, &part, incomplete)?;
        let replaced_cluster = cluster_in(&path);
        put_in_place(&part, &path, aside.as_deref())?;
        Ok(Restored { contents, cluster, replaced: aside, replaced_cluster })
    });
    if restored.is_err() {
        for file in [&log_of(&part), &dir.join(format!("{}-shm", schema::PART)), &part] {
            let _ = fs::remove_file(file);
        }
    }
    restored
}

/// A copy of the backup, durable, on the disk of the metadata.
fn write_part(copy: &Path, part: &Path) -> Result<()> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => bad_input(format!("there is no '{}'", copy.display())),
        _ => bad_input(format!("cannot read '{}': {error}", copy.display())),
    };
    if copy.is_dir() {
        return Err(bad_input(format!("'{}' is a folder: name the file", copy.display())));
    }
    let mut from = File::open(copy).map_err(cannot)?;
    let mut into = data_dir::create_file(part)?;
    let written = io::copy(&mut from, &mut into).and_then(|_| into.sync_all());
    written.with_context(|| format!("cannot copy '{}' to '{}'", copy.display(), part.display()))
}

/// Folds in the log that belongs to the copy, where the copy lacks it and it lies beside it; no
/// coordinator may have either open.
fn fold_log(copy: &Path, part: &Path, dir: &Path) -> Result<()> {
    let log = log_of(copy);
    // What is wrong with the copy is found when it is checked.
    if !log.try_exists()? || !schema::lacks_log(part).unwrap_or(false) {
        return Ok(());
    }
    let beside = copy.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = fs::canonicalize(beside.unwrap_or(Path::new(".")))?;
    let is_here = fs::canonicalize(dir)? == beside;
    let _lock = if is_here { None } else { Some(schema::lock(&beside)?) };
    write_part(&log, &log_of(part))?;
    let connection = Connection::open(part)?;
    let version = schema::identify(&connection, copy)?;
    let mode = "PRAGMA journal_mode = DELETE";
    let mode: String = connection.query_row(mode, [], |row| row.get(0))?;
    ensure!(mode == "delete", "the log of '{}' cannot be folded in", copy.display());
    wal::leave_use(&connection, version)?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(File::open(part)?.sync_all()?)
}

/// Whether the file can be read from its first to its last page, is all of the metadata, and each
/// row has its sum; gives what it holds, and of which cluster.
fn check(copy: &Path, part: &Path, incomplete: Incomplete) -> Result<(Contents, ClusterId)> {
    let connection = Connection::open(part)?;
    let version = schema::identify(&connection, copy).map_err(|error| {
        let code = error.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
        if code == Some(ErrorCode::NotADatabase) {
            bad_input(format!(
                "'{}' is not a database: name a backup that `suture metadata backup` made",
                copy.display()
            ))
        } else {
            error
        }
    })?;
    schema::check(&connection).with_context(|| format!("cannot use '{}'", copy.display()))?;
    if incomplete == Incomplete::Refuse && schema::is_in_use(&connection, version)? {
        return Err(bad_input(format!(
            "'{0}' was copied while a coordinator had it open: what was stored last may be missing. Use a backup that `suture metadata backup` made; if there is none, give --accept-copy",
            copy.display()
        )));
    }
    // Former schemas had no sums.
    let is_summed = incomplete == Incomplete::Refuse && version == schema::SCHEMA_VERSION;
    let damage = if is_summed { find_damage(&connection)? } else { None };
    if let Some(what) = damage {
        return Err(bad_input(format!(
            "'{}' is damaged: {what}: use another backup; if there is none, give --accept-copy, and run `suture metadata rebuild` before the coordinator starts",
            copy.display()
        )));
    }
    let (contents, cluster) = (contents(&connection)?, cluster_of(&connection)?);
    connection.close().map_err(|(_, error)| error)?;
    Ok((contents, cluster))
}

fn cluster_of(connection: &Connection) -> rusqlite::Result<ClusterId> {
    connection.query_row("SELECT id FROM cluster", [], |row| {
        Ok(ClusterId(row.get::<_, i64>(0)?.cast_unsigned()))
    })
}

/// The cluster of which metadata are, where there are some and they can be read.
pub(crate) fn cluster_in(path: &Path) -> Option<ClusterId> {
    let found = if log_of(path).exists() {
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?
    } else {
        schema::open_unchanged(path).ok()?
    };
    cluster_of(&found).ok()
}

/// A name for metadata that are replaced.
fn free_name(dir: &Path) -> PathBuf {
    let names = (1..).map(|number| dir.join(format!("{}{number}", schema::REPLACED)));
    let mut free = names.filter(|aside| !aside.exists() && !log_of(aside).exists());
    free.next().expect("there are names without end")
}

/// Has the backup take the place of the metadata, which are `aside` then, where there are some.
fn put_in_place(part: &Path, path: &Path, aside: Option<&Path>) -> Result<()> {
    let folder = path.parent().context("a database lies in a folder")?;
    let placed = aside.map_or(Ok(()), |aside| set_aside(path, aside));
    let placed = placed.and_then(|()| fs::rename(part, path)).with_context(|| {
        format!("cannot put '{}' in the place of '{}'", part.display(), path.display())
    });
    if let (Err(_), Some(aside)) = (&placed, aside) {
        schema::bring_back(path, aside);
    }
    placed
        .and(data_dir::sync(folder).with_context(|| format!("cannot sync '{}'", folder.display())))
}

/// Gives the metadata another name besides their own, so that there is a database under that at
/// every moment: a coordinator that finds none begins a new cluster. Their log is renamed: beside
/// the backup it would be taken for the backup's, and without it no coordinator takes the metadata
/// for all that there was.
fn set_aside(path: &Path, aside: &Path) -> io::Result<()> {
    if path.try_exists()? {
        // Where a file can have but one name, there is none in between.
        fs::hard_link(path, aside).or_else(|_| fs::rename(path, aside))?;
    }
    let log = log_of(path);
    if log.try_exists()? {
        fs::rename(&log, log_of(aside))?;
    }
    // Before another database can be beside a log that is not its own.
    data_dir::sync(path.parent().unwrap_or(path))?;
    let _ = fs::remove_file(path.with_extension("db-shm"));
    Ok(())
}
