//! Where the metadata lie: whether the file that is open is still the one that the next start
//! opens.
//!
//! Place: before every commit. A `metadata.db` that was removed, renamed or replaced while it is
//! open takes commits as ever, into a file without a name: such commits would be acknowledged and
//! lost. SQLite looks for that before it makes a rollback journal, and not with a log.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::wal;

/// Less than this is taken for a full disk: SQLite may need a page for each of its tables.
const FULL_BELOW: u64 = 1 << 20;

/// The database and its log, as the next start will look for them.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFiles {
    /// The database first, then its log where there is one.
    files: Vec<(PathBuf, FileId)>,
}

/// Which file it is, whatever its name: device and inode.
type FileId = (u64, u64);

impl DatabaseFiles {
    /// Of an open database. Where the disk did not let SQLite make a log, it goes on without one.
    ///
    /// # Errors
    /// When the database cannot be found.
    pub fn of(database: &Path) -> io::Result<DatabaseFiles> {
        let log = wal::log_of(database);
        let log = id_of(&log).ok().map(|id| (log, id));
        let database = (database.to_path_buf(), id_of(database)?);
        Ok(DatabaseFiles { files: [database].into_iter().chain(log).collect() })
    }

    /// Whether both files are still what their names say.
    pub fn is_kept(&self) -> bool {
        self.files.iter().all(|(path, id)| id_of(path).is_ok_and(|found| found == *id))
    }

    /// Why nothing can be written, as far as that can be seen without writing.
    pub fn fault(&self) -> Option<String> {
        let database = &self.files[0].0;
        if !self.is_kept() {
            return Some(moved(database));
        }
        let free = rustix::fs::statvfs(database).ok()?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        (free < FULL_BELOW).then(|| {
            let folder = database.parent().unwrap_or(database);
            format!("the disk of '{}' is full: {free} bytes are free", folder.display())
        })
    }
}

/// What to know of metadata that were taken away.
pub(super) fn moved(database: &Path) -> String {
    format!(
        "'{}' or its log was removed, renamed or replaced while this coordinator has it open, and what is written now would be lost: put both back as they were, or keep what there is (suture metadata backup), stop this coordinator, and put that in its place (suture metadata restore)",
        database.display()
    )
}

fn id_of(path: &Path) -> io::Result<FileId> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
