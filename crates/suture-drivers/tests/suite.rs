//! All integration tests of this crate in one program: one to link, and tests that wait do so
//! side by side. `cargo test -p suture-drivers NAME` runs the file NAME.

mod acceptor;
mod agents;
mod audit;
mod control;
mod hanging_disk;
mod hdfs;
mod join;
mod kept_status;
mod keys;
mod lost_listing;
mod map_store;
mod namenodes;
mod net;
mod plugins;
mod preview;
mod proven;
mod refusals;
mod relabelled;
mod renewals;
mod repair;
mod roles;
mod schedule;
mod scrub;
mod signed;
mod strangers;
mod words;
