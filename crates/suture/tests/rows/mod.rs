//! Tables of what people type wrongly: each row is a line for the shell, what stderr contains and
//! the exit status.
//!
//! Whatever a row says, nothing may panic, no terminal may be sent control characters, and no error
//! is said twice.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::daemons::{Finished, finish};

/// Input, what stderr contains, exit status.
pub type Row = (&'static str, &'static str, i32);

/// In the second place of a row: stderr has nothing.
pub const SILENT: &str = "(silent)";

/// Runs a line in the folder.
pub fn run(line: &str, folder: &Path, variables: &[(&str, &str)]) -> Finished {
    let binary = Path::new(env!("CARGO_BIN_EXE_suture")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    // A process with all capabilities may read every file.
    let drops = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
    let may_drop = rustix::process::getuid().is_root();
    command.arg("300").args(drops.iter().filter(|_| may_drop)).args(["bash", "-c", line]);
    command.current_dir(folder).env("PATH", path);
    for variable in ["COORDINATOR", "CODE", "CHUNK_SIZE"] {
        command.env_remove(format!("SUTURE_{variable}"));
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    finish(&mut command)
}

/// Whether a row is as it says, and nothing is as it must never be.
pub fn fault(finished: &Finished, (_, expected, status): &Row) -> Option<String> {
    let Finished { stderr, .. } = finished;
    let is_expected = match *expected {
        SILENT => stderr.is_empty(),
        expected => stderr.contains(expected),
    };
    let harmless = stderr.chars().all(|c| c == '\n' || !c.is_control());
    let is_said_once = stderr.lines().all(|line| line.matches("(os error").count() < 2);
    let is_sane = !stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE");
    let is_short = stderr.lines().all(|line| line.len() < 2000);
    let as_it_should = is_expected && harmless && is_said_once && is_sane && is_short;
    (!as_it_should || finished.status != *status)
        .then(|| format!("status {}: {}{stderr}", finished.status, finished.stdout))
}

/// Runs all rows, and shows all that are not as they say.
pub fn check(rows: &[Row], folder: &Path, variables: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let fault = fault(&run(row.0, folder, variables), row)?;
            Some(format!("{}\n  expected {}: {}\n  found {fault}", row.0, row.2, row.1))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
