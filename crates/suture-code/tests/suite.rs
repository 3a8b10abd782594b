//! All integration tests of this crate in one program: one to link, and tests that wait do so
//! side by side. `cargo test -p suture-code NAME` runs the file NAME.

mod butterfly;
mod clay;
mod common;
mod execute;
mod fingerprint;
mod golden;
mod layout;
mod lrc;
mod names;
mod rs;
mod shortened;
mod split;
mod trace;
