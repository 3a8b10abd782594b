//! What the edges share: the libraries that touch disks and sockets, and the command line.
//!
//! Place: around all of failure -> stripes -> queue -> plan -> admit -> dispatch -> slices flow ->
//! chunk durable -> commit, wherever bytes are checked or people are answered.
//! * [`checksum`] is CRC32C, the one checksum of chunks, blocks and slices;
//! * [`units`] reads and writes sizes, rates and times;
//! * [`error`] distinguishes errors of the input from failures of the system;
//! * [`bounded`] reads what may have no end;
//! * [`progress`] is what a long job reports while it runs.
//!
//! Deliberately absent: codes, nodes, files and sockets. Nothing here prints.
#![forbid(unsafe_code)]

pub mod bounded;
pub mod checksum;
pub mod error;
pub mod progress;
pub mod units;
