//! The published figures, measured again: what each paper did, what is run here, which of its
//! claims hold.
//!
//! Place: the whole life of a repair, once for each bar of each figure. `experiment.rs` says what
//! an experiment is made of and `papers/*` lists all of them; `setting.rs` makes clusters and
//! failures of them, `traces.rs` the links that change; `measure.rs` simulates, `kernels.rs` times
//! real codes, `links.rs` shows links without repairs, `emulate.rs` runs processes on an emulated
//! network, of which `emulated.rs` is what they came to; `runner.rs` performs an experiment,
//! `starts.rs` finds where in traces its runs began, `claim.rs` judges what its paper says of it,
//! `folder.rs` keeps what is finished, and `report.rs` shows it.

pub mod claim;
pub mod emulate;
pub mod emulated;
pub mod experiment;
pub mod folder;
pub mod kernels;
pub mod links;
pub mod measure;
pub mod metric;
pub mod papers;
pub mod report;
pub mod runner;
pub mod setting;
pub mod starts;
pub mod table;
pub mod traces;

#[cfg(test)]
mod tests;
