//! Files for bodies whose subject reads files: in memory where the system has such a place.
//!
//! Place: under the targets that hand over a path.
#![allow(dead_code, reason = "each target uses its part")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    /// Goes with its thread, which is one test.
    static FOLDER: TempDir = make();
}

fn make() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder for scratch files")
}

/// The folder of this thread.
pub fn folder() -> PathBuf {
    FOLDER.with(|folder| folder.path().to_path_buf())
}

/// A file of that folder with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("a scratch file can be written");
    path
}
