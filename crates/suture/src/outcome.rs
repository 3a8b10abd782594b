//! How a command ends: 0 done, 1 failed, 2 bad usage or input, 3 something cannot be repaired.
//!
//! Place: the last step of every command. Scripts rely on these numbers.

use std::fmt;
use std::process::ExitCode;

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

/// The user's input is at fault, not the system: status 2.
#[derive(Debug)]
pub struct BadInput(String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error that blames the input. The message names the thing and says what to do.
pub fn bad_input(message: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(message.to_string()))
}

/// Prints what went wrong, once and for all commands, and gives the exit status.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Damaged | Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Unrepairable) => ExitCode::from(3),
        Err(error) => {
            eprintln!("suture: {error:#}");
            let bad_input = error.chain().any(|cause| cause.is::<BadInput>());
            ExitCode::from(if bad_input || error.downcast_ref::<BadInput>().is_some() {
                2
            } else {
                1
            })
        }
    }
}
