//! The folder in which a daemon keeps what is entrusted to it: chunks, or the metadata.
//!
//! Place: the first step of every daemon's start. Whoever can read the folder can read everybody's
//! data, so it and all that is made in it is its owner's alone. One that was made otherwise is used
//! as it is: its owner may have reasons, and is told.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tracing::warn;

/// The mode of files.
const FILE_MODE: u32 = 0o600;

/// The mode of folders.
const FOLDER_MODE: u32 = 0o700;

/// What groups and others may do.
const OTHERS: u32 = 0o077;

/// Makes the folder where there is none. One that others than its owner may enter is warned of.
///
/// # Errors
/// When it cannot be made, or is none.
pub fn open(dir: &Path) -> io::Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
    }
    create_folder(dir)?;
    let mode = fs::metadata(dir)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let dir = dir.display();
        warn!("others than its owner may enter '{dir}' (mode {mode:o}): chmod -R go-rwx '{dir}'");
    }
    Ok(())
}

/// Makes a folder, and those above it, where there are none.
///
/// # Errors
/// When it cannot be made, or is none.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Opens a file to be written, empty; makes it where there is none.
///
/// # Errors
/// When it cannot be made or written.
pub fn create_file(path: &Path) -> io::Result<File> {
    new_file().truncate(true).create(true).open(path)
}

/// How files are made here: to be read and written, by their owner.
pub fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}
