//! Shapes: how the helpers of one task are joined to a tree.
//!
//! Place: `failure -> stripes -> queue -> [plan: shape] -> admit -> dispatch -> slices -> commit`.
//! Trees of numbers alone (`star`, `ppr`, `chain`, `tunable`) come first; then those that depend on
//! links (`chain::best_path`, `ppt`, `pivot`) and on racks (`rack`).

pub(in crate::planner) mod chain;
pub mod pivot;
pub(in crate::planner) mod ppr;
pub(in crate::planner) mod ppt;
pub(in crate::planner) mod rack;
pub(in crate::planner) mod star;
pub(in crate::planner) mod tunable;
