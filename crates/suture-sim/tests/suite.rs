//! All integration tests of this crate in one program: one to link, and tests that wait do so
//! side by side. `cargo test -p suture-sim NAME` runs the file NAME.

mod common;
mod durability;
mod fluid;
mod gated;
mod going_on;
mod growth;
mod lanes;
mod links;
mod lone;
mod measured_links;
mod schedules;
mod shrink;
mod simulate;
mod swarm;
