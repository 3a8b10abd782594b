//! What every repair of a scenario begins with, and how what it left is read back.
//!
//! Place: before [failure detected], and after the last commit. The data are stored once and copied
//! for each repair: putting them anew would take longer than most repairs, and would give each its
//! own idea of the links. Agents keep to the rates that they are configured with, so while data are
//! stored and read back they have none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use suture_drivers::control::client::Client;
use tokio::task::spawn_blocking;

use crate::demo::processes::Processes;
use crate::demo::run::{self, DemoScenario};

/// The folders of processes that have stored the data and ended.
#[derive(Clone, Debug)]
pub struct StoredCluster {
    folder: PathBuf,
}

impl StoredCluster {
    /// Ends processes that have stored all data, and keeps what they have.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub async fn of(processes: Processes) -> Result<StoredCluster> {
        let folder = processes.end(true).await?.expect("it is kept");
        Ok(StoredCluster { folder })
    }

    /// Copies all of it into a folder where the processes may be started again: nothing that they
    /// saw of links meanwhile counts.
    ///
    /// # Errors
    /// When something cannot be copied.
    pub async fn copy(&self, into: &Path) -> Result<()> {
        let (from, into) = (self.folder.clone(), into.to_path_buf());
        spawn_blocking(move || {
            copy_folder(&from, &into)?;
            // Nothing is to be written back while a repair is measured.
            rustix::fs::syncfs(fs::File::open(&into)?)?;
            Ok(())
        })
        .await
        .expect("copying does not panic")
    }
}

/// Starts all but the failed nodes again without limits: through links of the rates that they were
/// configured with, reading everything back takes longer than the repair.
///
/// # Errors
/// When a process cannot be started or does not join.
pub async fn start_unlimited(
    scenario: &DemoScenario,
    failed: &[&str],
    processes: &mut Processes,
) -> Result<Client> {
    let mut left = without_limits(scenario.clone());
    left.setting.agents.retain(|agent| !failed.contains(&agent.name.as_str()));
    processes.kill_all().await?;
    processes.start_coordinator(&left.setting).await?;
    run::start_agents(&left, processes).await
}

/// The same with agents that are configured with no limits.
pub fn without_limits(mut scenario: DemoScenario) -> DemoScenario {
    scenario.setting.agents.iter_mut().for_each(|agent| agent.link = None);
    scenario
}

/// Copies the files and folders below one folder into another.
fn copy_folder(from: &Path, into: &Path) -> Result<()> {
    let failed = || format!("cannot copy '{}'", from.display());
    fs::create_dir_all(into).with_context(failed)?;
    for entry in fs::read_dir(from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let (path, copy) = (entry.path(), into.join(entry.file_name()));
        let kind = entry.file_type().with_context(failed)?;
        if kind.is_dir() {
            copy_folder(&path, &copy)?;
        } else if kind.is_file() {
            fs::copy(&path, &copy).with_context(|| format!("cannot copy '{}'", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_file_and_nothing_that_is_changed_in_it_reaches_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("stored");
        fs::create_dir_all(from.join("n0/data/empty")).unwrap();
        fs::write(from.join("n0/data/chunk"), b"seven").unwrap();
        fs::write(from.join("config.toml"), b"").unwrap();
        let into = folder.path().join("run");
        copy_folder(&from, &into).unwrap();
        assert_eq!(fs::read(into.join("n0/data/chunk")).unwrap(), b"seven");
        assert!(into.join("n0/data/empty").is_dir() && into.join("config.toml").is_file());
        fs::write(into.join("n0/data/chunk"), b"eight").unwrap();
        assert_eq!(fs::read(from.join("n0/data/chunk")).unwrap(), b"seven");
        let missing = copy_folder(&folder.path().join("none"), &into).unwrap_err();
        assert!(format!("{missing:#}").contains("cannot copy '"), "{missing:#}");
    }
}
