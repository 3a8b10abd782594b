//! How commands print: text for people, JSON for scripts, and how far they have come.
//!
//! Place: around all of failure -> stripes -> queue -> plan -> admit -> dispatch -> slices flow ->
//! chunk durable -> commit, wherever a command or a trial is watched.
//! * [`output`] prints results to stdout and remarks to stderr;
//! * [`progress`] draws the bars of what takes long;
//! * [`verbosity`] is how much of that is asked for.
//!
//! Deliberately absent: what is printed, and exit codes.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

// First, for its macros.
#[macro_use]
pub mod output;

pub mod progress;
pub mod verbosity;
