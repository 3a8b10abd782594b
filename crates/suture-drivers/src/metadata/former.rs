//! Metadata of a former schema, kept as they were before this program changes them.
//!
//! Place: in a coordinator's start, after the file was found whole and before the first step that
//! makes the present schema of it. Steps go one way: an operator who has to return to the former
//! program needs the file that it can read.
//!
//! Invariant: the copy is whole and durable under its name before anything is changed.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rusqlite::Connection;

use super::wal::IN_USE_SINCE;
use crate::data_dir;

/// What the names of such copies begin with; the number of their schema follows.
const FORMER: &str = "metadata.db.schema-";

/// Where the copy of that schema is, or would be.
pub(super) fn path_of(dir: &Path, version: u32) -> PathBuf {
    dir.join(format!("{FORMER}{version}"))
}

/// Copies the metadata, which are of that schema; the copy is made under a name that begins with
/// `part`. A copy of the same schema that there is gives way: it is of an upgrade before, which was
/// taken back since.
///
/// # Errors
/// When the database cannot be read, or there is no space for the copy.
pub(super) fn keep(database: &Connection, dir: &Path, version: u32, part: &str) -> Result<PathBuf> {
    let path = path_of(dir, version);
    let cannot = || {
        format!(
            "cannot keep the metadata of schema {version} as '{}' before they change: make space for as many bytes as they have",
            path.display()
        )
    };
    write(database, dir, version, part)
        .and_then(|part| {
            part.persist(&path)?;
            Ok(data_dir::sync(dir)?)
        })
        .with_context(cannot)?;
    Ok(path)
}

/// The copy under a name that a start removes.
fn write(
    database: &Connection,
    dir: &Path,
    version: u32,
    part: &str,
) -> Result<tempfile::TempPath> {
    let part = tempfile::Builder::new().prefix(part).tempfile_in(dir)?.into_temp_path();
    let into = part.to_str().context("the data_dir's name is not text")?;
    database.execute("VACUUM INTO ?1", [into])?;
    if version >= IN_USE_SINCE {
        let copy = Connection::open(&part)?;
        copy.execute("UPDATE cluster SET in_use = 0", [])?;
        copy.close().map_err(|(_, error)| error)?;
    }
    File::open(&part)?.sync_all()?;
    Ok(part)
}
