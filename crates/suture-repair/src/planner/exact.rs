//! The exact planner: whole batches against the lower bound, with trees of several lanes and
//! traces.
//!
//! Place: `[plan]` by default, from requests to lanes. This is the default. Jobs are read and
//! scaled by `instance`; `flow` plans whole chunks by maximum flows, `split` a single chunk by
//! several trees, `potential` anything by prices of ports; `mix` takes the better of whole chunks
//! and traces, `trace` is traces alone; `around` plans again without slow helpers. Knows nothing of
//! balances, shapes and routes, which are the published planners' (`route`).

pub(in crate::planner) mod around;
pub(in crate::planner) mod flow;
pub(in crate::planner) mod instance;
mod join;
pub(in crate::planner) mod mix;
pub(in crate::planner) mod potential;
pub(in crate::planner) mod split;
pub(in crate::planner) mod trace;
