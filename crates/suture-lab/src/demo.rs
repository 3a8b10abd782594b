//! The demo: the product doing its job on one machine, with real processes and real bytes.
//!
//! Place: the whole life of a repair, for someone who has just found Suture.

pub mod processes;
pub mod run;
pub mod source;
pub mod stage;
