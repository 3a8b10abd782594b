//! The write-ahead log: what SQLite has made durable and `metadata.db` does not have yet.
//!
//! Place: between every commit and the one file that people copy.
//! The log is folded into `metadata.db` at the start, whenever nothing has been asked for a moment,
//! now and then if that never comes, and at a clean stop; after that the file alone is whole.
//! While a coordinator has it open the file says so (`cluster.in_use`), in itself and not only in
//! the log. So a file that says so and has no log beside it was copied without, and what was stored
//! last may be missing. SQLite itself never leaves such a pair, as it is configured to keep the
//! log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// The schema from which on the file says whether it is in use.
pub(super) const IN_USE_SINCE: u32 = 4;

/// Without work for this long, the log is folded in.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// With work all the time, the log is folded in so often.
const INTERVAL: Duration = Duration::from_secs(30);

/// Where SQLite keeps the log of a database.
pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Has a close leave the log where it is: a process that ends without [`end_use`] leaves both
/// files.
///
/// # Errors
/// When the database fails.
pub(super) fn keep_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Says in the file itself that it is in use: from here on its log belongs to it.
///
/// # Errors
/// When the database cannot be written, or another program is reading it.
pub(super) fn begin_use(connection: &mut Connection) -> Result<()> {
    connection.execute("UPDATE cluster SET in_use = 1", [])?;
    fold(connection)
}

/// Makes the file whole without its log, and says so in it. If that fails, nothing is lost: the
/// log is still part of it, and the file says so.
///
/// # Errors
/// When the database cannot be written, or another program is reading it.
pub(super) fn end_use(connection: &mut Connection) -> Result<()> {
    fold(connection)?;
    connection.execute("UPDATE cluster SET in_use = 0", [])?;
    fold(connection)
}

/// Says in a file of that schema that no log belongs to it: all is folded in.
///
/// # Errors
/// When the database cannot be written.
pub(super) fn leave_use(connection: &Connection, version: u32) -> rusqlite::Result<()> {
    if version >= IN_USE_SINCE {
        connection.execute("UPDATE cluster SET in_use = 0", [])?;
    }
    Ok(())
}

/// Whether a coordinator had the database open when this was last written.
///
/// # Errors
/// When the database fails.
pub(super) fn is_in_use(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM cluster WHERE in_use)";
    connection.query_row(query, [], |row| row.get(0))
}

/// Folds all of the log in, and empties it.
fn fold(connection: &Connection) -> Result<()> {
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    ensure!(!is_busy, "another program has metadata.db open: close it");
    Ok(())
}

/// When the log of a working database is folded in.
#[derive(Debug)]
pub(super) struct Folding {
    folded_at: Instant,
    /// Rows that had been changed by then.
    folded_changes: u64,
}

impl Folding {
    /// From now on; the log is empty.
    pub fn begin(connection: &Connection) -> Folding {
        Folding { folded_at: Instant::now(), folded_changes: connection.total_changes() }
    }

    /// Folds the log in if the time has come: when there is nothing else to do, or it was long ago.
    /// Does not wait: what another program reads just now is folded in later.
    ///
    /// # Errors
    /// When the database fails. It is tried again after [`INTERVAL`].
    pub fn fold_if_due(&mut self, connection: &Connection, is_idle: bool) -> rusqlite::Result<()> {
        let changes = connection.total_changes();
        let is_due = is_idle || self.folded_at.elapsed() >= INTERVAL;
        if changes == self.folded_changes || !is_due {
            return Ok(());
        }
        (self.folded_at, self.folded_changes) = (Instant::now(), changes);
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}
