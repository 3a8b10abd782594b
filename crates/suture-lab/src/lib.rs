//! The laboratory: clusters that are read, drawn, simulated, emulated and put under load.
//!
//! Place: around the whole life of a repair, failure -> ... -> stripe healthy, which is brought
//! about on purpose and measured.
//!
//! A cluster to try something on is an [`input`]: a file, or generated; [`executable`] says which
//! policies agents can execute on it, [`cpu_time`] what planning takes of a processor. [`picture`]
//! and [`mod@svg`] draw what came of it.
//!
//! Real processes: the [`demo`] starts a cluster on one machine and repairs it before the eyes of
//! its user, [`calibrate`] compares such repairs with the simulator's, [`foreground`] is the load
//! of applications, and the [`testbed`] does all of that on an emulated network.
//!
//! [`reproduce`] is the papers' experiments, in the simulator and on that network.
//!
//! Deliberately absent: arguments and exit codes, which are the binary's.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

// First, for its macros.
#[macro_use]
extern crate suture_terminal;

// A cluster to try something on, and what came of it.
pub mod cpu_time;
pub mod executable;
pub mod input;
pub mod picture;
pub mod svg;

// Real processes, alone and on an emulated network.
pub mod calibrate;
pub mod demo;
pub mod foreground;
pub mod testbed;

// The papers' experiments.
pub mod reproduce;
