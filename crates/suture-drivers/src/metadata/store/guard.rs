//! Whether the metadata can be changed: what the last change came to, and what can be seen without
//! one.
//!
//! Place: beside commit location, for `status`: a coordinator whose disk is full answers and
//! repairs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::ffi::SQLITE_CONSTRAINT_COMMITHOOK;
use rusqlite::hooks::Wal;
use suture_repair::id::StripeId;

use super::super::place::DatabaseFiles;
use super::{MetadataError, MetadataStore};

/// Has every commit fail while the files are not where they were opened.
///
/// # Errors
/// When the database fails.
pub(super) fn refuse_where_moved(
    connection: &mut Connection,
    place: DatabaseFiles,
) -> rusqlite::Result<()> {
    connection.commit_hook(Some(move || !place.is_kept()))
}

/// With so many pages in the log, a commit folds it in at once: SQLite's own measure, which does
/// not hold where commits are counted.
const LOG_PAGES_MAX: i32 = 1000;

/// Counts the commits that have written something to the log and made it durable. A change to what
/// is there already is none, nor one that was taken back.
///
/// # Errors
/// When the database fails.
pub(super) fn count_written(connection: &mut Connection) -> rusqlite::Result<Arc<AtomicU64>> {
    let written = Arc::new(AtomicU64::new(0));
    let count = written.clone();
    connection.wal_hook(Some(move |log: &mut Wal, pages: i32| {
        count.fetch_add(1, Ordering::Relaxed);
        if pages >= LOG_PAGES_MAX {
            // What cannot be folded in now stays in the log; the commit is durable.
            let _ = log.checkpoint();
        }
        Ok(())
    }))?;
    Ok(written)
}

impl MetadataStore {
    /// Does `operation`, and notes whether the metadata could be changed.
    pub(in super::super) fn noted<T>(
        &mut self,
        operation: impl FnOnce(&mut MetadataStore) -> Result<T, MetadataError>,
    ) -> Result<T, MetadataError> {
        let before = self.written.load(Ordering::Relaxed);
        let result = operation(self).map_err(|error| self.as_moved(error));
        match &result {
            Err(error @ (MetadataError::Database(_) | MetadataError::Moved(_))) => {
                self.set_fault(Some(error.to_string()));
            }
            Ok(_) if self.written.load(Ordering::Relaxed) > before => {
                self.set_fault(None);
                self.end_doubt();
            }
            _ => {}
        }
        result
    }

    /// The error of a commit that was refused, in words that help.
    fn as_moved(&self, error: MetadataError) -> MetadataError {
        let is_refused = |error: &rusqlite::Error| {
            let error = error.sqlite_error();
            error.is_some_and(|error| error.extended_code == SQLITE_CONSTRAINT_COMMITHOOK)
        };
        match error {
            MetadataError::Database(error) if is_refused(&error) => {
                MetadataError::Moved(self.path())
            }
            error => error,
        }
    }

    /// Probes, where the last change failed and none waits, whether the database can be written: by
    /// a row that differs from the last probe's, since SQLite skips a write that changes nothing.
    pub(in super::super) fn check_writable(&mut self) {
        let seen = self.place.fault();
        if seen.is_some() || self.fault.is_none() {
            return self.set_fault(seen);
        }
        let _ = self.noted(|store| {
            store.database.execute("UPDATE cluster SET in_use = in_use % 2 + 1", [])?;
            Ok(())
        });
    }

    fn set_fault(&mut self, fault: Option<String>) {
        self.is_faulty.store(fault.is_some(), Ordering::Relaxed);
        self.fault = fault;
    }

    /// Why the metadata cannot be changed, if that is known.
    pub fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    /// Whether they could not be changed when that was last tried, now and later.
    pub fn is_faulty(&self) -> Arc<AtomicBool> {
        self.is_faulty.clone()
    }

    /// Whether the next start finds what is written here.
    pub fn is_in_place(&self) -> bool {
        self.place.is_kept()
    }

    /// Has a copy made of metadata that have lost their name, which only this connection can read:
    /// `take` is given it, and the first stripe of a put that has not ended.
    ///
    /// # Errors
    /// Those of `take`, and when the database cannot be read.
    pub fn rescue<T>(
        &self,
        take: impl FnOnce(&Connection, StripeId) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        take(&self.database, self.first_open()?)
    }
}
