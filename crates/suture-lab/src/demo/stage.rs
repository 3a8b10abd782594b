//! Whatever happens on a stage, its processes end and its folders go.
//!
//! Place: around the whole life of a repair, for commands that start a cluster of their own.

use std::path::Path;

use anyhow::{Context, Result, bail};
use suture_drivers::process;
use tempfile::TempDir;

use super::processes::Processes;

/// Runs `work` as [`perform_in`] does, with a folder among the system's temporary ones.
///
/// # Errors
/// As [`perform_in`].
pub fn perform<T>(
    prefix: &str,
    keep: bool,
    work: impl AsyncFnOnce(&TempDir, &mut Option<Processes>) -> Result<T>,
) -> Result<T> {
    perform_in(&std::env::temp_dir(), prefix, keep, work)
}

/// Runs `work` with a folder in `place` and a place for its processes. At its end, its failure or
/// Ctrl-C, the processes that are left there end and the folder goes; of the processes' own folder
/// `keep` decides. Folders are called `prefix` and something.
///
/// # Errors
/// Those of `work`, or that it was interrupted; but that a process ended by itself is a better
/// reason than what followed from it.
pub fn perform_in<T>(
    place: &Path,
    prefix: &str,
    keep: bool,
    work: impl AsyncFnOnce(&TempDir, &mut Option<Processes>) -> Result<T>,
) -> Result<T> {
    process::block_on(async {
        let mut stop = process::stop_signals()?;
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place);
        // Dropping it removes it, too.
        let folder = folder.context("cannot make a temporary directory")?;
        let mut stage = None;
        let done = tokio::select! {
            done = work(&folder, &mut stage) => Some(done),
            _ = stop.received() => None,
        };
        let ended = stage.as_mut().map_or(Ok(()), Processes::check);
        if let Some(processes) = stage
            && let Some(kept) = processes.end(keep).await?
        {
            errln!("suture: everything is kept in {}", kept.display());
        }
        folder.close().context("cannot remove the temporary directory")?;
        match done {
            Some(done) => done.or_else(|error| ended.and(Err(error))),
            None => bail!("interrupted; every process is ended and the directory is gone"),
        }
    })
}
