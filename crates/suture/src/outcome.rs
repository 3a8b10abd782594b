//! How a command ends: 0 done, 1 failed, 2 bad usage or input, 3 something cannot be repaired.
//!
//! Place: the last step of every command. Scripts rely on these numbers. Of several things that a
//! command is to do, one that fails does not keep the others: it is named at once, and counts at
//! the end.

pub mod usage;

use std::process::ExitCode;

use anyhow::Error;
use serde_json::{Value, json};
use suture_edge::error::{ErrorKind, kind};
use suture_terminal::output;

use crate::log;

/// A command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is done.
    Done,
    /// It is finished, and found damage that can be repaired.
    Damaged,
    /// It is finished, and what it was to show did not hold, or some of it failed.
    Missed,
    /// It is finished, but some of what was asked for cannot be done as it was asked.
    Refused,
    /// It is finished, but something cannot be repaired.
    Unrepairable,
}

impl Outcome {
    /// That some of it is missing, unless there is worse.
    pub fn or_missed(self) -> Outcome {
        match self {
            Outcome::Done => Outcome::Missed,
            other => other,
        }
    }
}

/// Prints what went wrong, once and for all commands, and gives the exit status.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    let status = match result {
        Ok(Outcome::Done) if output::is_complete() => 0,
        Ok(Outcome::Done | Outcome::Damaged | Outcome::Missed) => 1,
        Ok(Outcome::Refused) => 2,
        Ok(Outcome::Unrepairable) => 3,
        Err(error) => {
            let status = match kind(&error) {
                ErrorKind::BadInput => 2,
                ErrorKind::Failure => 1,
                ErrorKind::Unreadable => 3,
            };
            let why = format!("{error:#}");
            if !log::fail_in_json(&why) {
                errln!("suture: {why}");
            }
            output::print_json_error(&why, status);
            status
        }
    };
    ExitCode::from(status)
}

/// What failed of several things.
#[derive(Default)]
pub struct Failures {
    entries: Vec<(String, Error)>,
}

impl Failures {
    /// Names on stderr what could not be done, and why.
    pub fn add(&mut self, name: impl Into<String>, error: Error) {
        errln!("suture: {error:#}");
        self.entries.push((name.into(), error));
    }

    /// Whether nothing has failed so far.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What failed, for scripts.
    pub fn describe(&self) -> Vec<Value> {
        let describe = |(name, error): &(String, Error)| {
            let error = output::one_line(&format!("{error:#}"));
            json!({ "name": name, "error": error })
        };
        self.entries.iter().map(describe).collect()
    }

    /// How the command ends: only where nothing but the input is at fault, it is the input's; and
    /// where some of it fails for another reason than the data, it may succeed another time.
    pub fn outcome(&self) -> Outcome {
        let kinds = || self.entries.iter().map(|(_, error)| kind(error));
        if self.is_empty() {
            Outcome::Done
        } else if kinds().all(|kind| kind == ErrorKind::BadInput) {
            Outcome::Refused
        } else if kinds().all(|kind| kind != ErrorKind::Failure) {
            Outcome::Unrepairable
        } else {
            Outcome::Missed
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use suture_edge::error::{bad_input, unreadable};

    use super::*;

    #[test]
    fn input_is_at_fault_only_where_nothing_else_is() {
        let mut failures = Failures::default();
        assert_eq!(failures.outcome(), Outcome::Done);
        failures.add("a", bad_input("there is no object 'a'"));
        assert_eq!(failures.outcome(), Outcome::Refused);
        failures.add("c", unreadable("two chunks are left"));
        assert_eq!(failures.outcome(), Outcome::Unrepairable);
        failures.add("b", anyhow!("the disk is full"));
        assert_eq!(failures.outcome(), Outcome::Missed);
        let described = json!([
            { "name": "a", "error": "there is no object 'a'" },
            { "name": "c", "error": "two chunks are left" },
            { "name": "b", "error": "the disk is full" },
        ]);
        assert_eq!(Value::Array(failures.describe()), described);
    }
}
