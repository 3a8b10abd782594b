//! Balances: which nodes help and which receive, over all requests of a batch.
//!
//! Place: `[plan]` by a published planner, before the shape. Each file is one published balance;
//! `tally` is what a balance counts as it goes, `destination` the order in which destinations are
//! taken, `requestor` PivotRepair's order.

pub mod car;
pub(in crate::planner) mod chameleon;
pub(in crate::planner) mod chameleon_artifact;
mod destination;
pub(in crate::planner) mod greedy;
pub(in crate::planner) mod lru;
pub(in crate::planner) mod random;
pub(in crate::planner) mod repairboost;
mod requestor;
mod tally;
