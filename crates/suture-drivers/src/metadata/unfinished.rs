//! Metadata that take their place when they are finished, and not before.
//!
//! Place: beside the life of a repair, where the metadata are made again from nothing. A process
//! that ends in the middle leaves a folder that the next one removes, and no metadata: with half of
//! a map a coordinator would treat the chunks of the other half as orphans.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::schema;
use crate::data_dir;

/// A folder in the data_dir in which the metadata grow. It goes with its value.
#[derive(Debug)]
pub struct Unfinished {
    dir: PathBuf,
    folder: TempDir,
    _lock: File,
}

impl Unfinished {
    /// Begins them in `dir`, if it has none.
    ///
    /// # Errors
    /// When the folder cannot be made or written, or a coordinator runs there.
    pub fn begin(dir: &Path) -> Result<Option<Unfinished>> {
        let cannot = || format!("cannot write in '{}'", dir.display());
        data_dir::open(dir).with_context(cannot)?;
        let path = dir.join(schema::DATABASE);
        // What the disk does not report is not taken for absent.
        if path.try_exists()? || super::wal::log_of(&path).try_exists()? {
            return Ok(None);
        }
        let lock = schema::lock(dir)?;
        schema::tidy(dir).with_context(cannot)?;
        let folder = tempfile::Builder::new().prefix(schema::UNFINISHED).tempdir_in(dir);
        let folder = folder.with_context(cannot)?;
        Ok(Some(Unfinished { dir: dir.to_path_buf(), folder, _lock: lock }))
    }

    /// Where they are meanwhile.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Puts them in their place. They must be closed.
    ///
    /// # Errors
    /// When they cannot be renamed, or that cannot be made durable.
    pub fn finish(self) -> Result<()> {
        let path = self.dir.join(schema::DATABASE);
        let cannot = || format!("cannot write '{}'", path.display());
        fs::rename(self.folder.path().join(schema::DATABASE), &path).with_context(cannot)?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).with_context(cannot)
    }
}
