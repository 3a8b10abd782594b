//! How a command ends: 0 done, 1 failed, 2 bad usage or input, 3 something cannot be repaired.
//!
//! Place: the last step of every command. Scripts rely on these numbers.

use std::process::ExitCode;

use suture_edge::error::{ErrorKind, kind};

use crate::output;

/// A command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is done.
    Done,
    /// It is finished, and found damage that can be repaired.
    Damaged,
    /// It is finished, and what it was to show did not hold.
    Missed,
    /// It is finished, but something cannot be repaired.
    Unrepairable,
}

/// Prints what went wrong, once and for all commands, and gives the exit status.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) if output::is_complete() => ExitCode::SUCCESS,
        Ok(Outcome::Done) => ExitCode::from(1),
        Ok(Outcome::Damaged | Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Unrepairable) => ExitCode::from(3),
        Err(error) => {
            errln!("suture: {error:#}");
            ExitCode::from(match kind(&error) {
                ErrorKind::BadInput => 2,
                ErrorKind::Failure => 1,
            })
        }
    }
}
