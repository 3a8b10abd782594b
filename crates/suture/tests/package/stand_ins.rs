//! Programs that stand in for others, so that scripts are tried without what those would take.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A folder of them, which is found before any other.
pub struct StandIns(TempDir);

impl StandIns {
    pub fn of(programs: &[(&str, &str)]) -> StandIns {
        let stand_ins = StandIns(tempfile::tempdir().unwrap());
        for (name, script) in programs {
            let text = stand_ins.path(&format!("{name}.text"));
            fs::write(&text, format!("#!/bin/sh\n{script}")).unwrap();
            // What this process has open for writing, a child that another test starts just then
            // has open as well, and it cannot be run.
            let mut install = Command::new("install");
            install.args(["-m", "755"]).arg(text).arg(stand_ins.path(name));
            assert!(install.status().unwrap().success());
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
        let is_of_bash = fs::read_to_string(script).unwrap().starts_with("#!/usr/bin/env bash");
        let mut command = Command::new(if is_of_bash { "bash" } else { "sh" });
        command.arg(script).env("PATH", format!("{}:{others}", self.0.path().display()));
        command
    }
}
