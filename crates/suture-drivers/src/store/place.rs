//! Whether the directory of a store is still where it was opened.
//!
//! Place: beneath every call of the chunk store that goes by a path. Where a directory is
//! unmounted, renamed or replaced while its store is open, none of its files can be found: all
//! would be missing copies, all would be rebuilt elsewhere, and what is written would go to another
//! disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A chunk gets its name by a link to where it was made, which no other file system can have: a
/// disk that is mounted within the directory would take no chunk, and one that is not mounted would
/// look like a store that has lost all of them.
///
/// # Errors
/// When both folders are not on one file system, or cannot be looked at.
pub(super) fn check_together(tmp: &Path, chunks: &Path) -> io::Result<()> {
    if fs::metadata(tmp)?.dev() == fs::metadata(chunks)?.dev() {
        return Ok(());
    }
    let tmp = tmp.display();
    Err(io::Error::other(format!(
        "it is not on the file system of '{tmp}': mount the disk where the data_dir is, not within it"
    )))
}

/// A directory, by its path and by what it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenDir {
    dir: PathBuf,
    /// Its device and inode.
    id: (u64, u64),
}

impl OpenDir {
    /// That of a directory which is open.
    ///
    /// # Errors
    /// When the system does not report what is open.
    pub fn of(dir: PathBuf, open: &File) -> io::Result<OpenDir> {
        let found = open.metadata()?;
        Ok(OpenDir { dir, id: (found.dev(), found.ino()) })
    }

    /// # Errors
    /// When the directory is there no more, or another one is.
    pub fn check(&self) -> io::Result<()> {
        let found = fs::metadata(&self.dir).ok().map(|found| (found.dev(), found.ino()));
        if found == Some(self.id) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "'{}' was unmounted, renamed or replaced while this agent uses it: put it back, or restart the agent where it is now",
            self.dir.display()
        )))
    }
}
