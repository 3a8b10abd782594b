//! Programs that stand in for others, so that scripts are tried without what those would take.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A folder of them, which is found before any other.
pub struct StandIns(TempDir);

impl StandIns {
    pub fn of(programs: &[(&str, &str)]) -> StandIns {
        let stand_ins = StandIns(tempfile::tempdir().unwrap());
        for (name, script) in programs {
            let path = stand_ins.path(name);
            fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        stand_ins
    }

    /// A file beside them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that takes them for the programs that it calls.
    pub fn command(&self, script: &Path) -> Command {
        let others = std::env::var("PATH").unwrap();
        let mut command = Command::new(script);
        command.env("PATH", format!("{}:{others}", self.0.path().display()));
        command
    }
}
