//! Everything that decides about a repair, and nothing that performs it.
//!
//! Read the modules in the order of the life of a repair: a node fails (`health`), its stripes
//! are looked up (`stripe`), queued by risk (`queue`), planned (`planner`, giving a `plan`),
//! admitted (`budget`) and dispatched (`coordinator`); agents take their `role`, move slices
//! (`slice`, `agent`, with one `pump` a lane), prove and publish the chunk, and the coordinator
//! commits its location. Behind two interfaces stand whoever knows where chunks lie (`keeper`) and
//! whoever keeps them (`chunk_store`).
//!
//! Where a new stripe goes is decided in `placement`.
//! What went in and came out can be written down and replayed (`transcript`).
//!
//! No clock, no IO, no threads, no log, no ambient randomness: time and seeds are parameters,
//! effects are values. The same code runs in the simulator and in production.
#![forbid(unsafe_code)]

pub mod agent;
pub mod bound;
pub mod budget;
pub mod chunk_store;
pub mod cluster;
pub mod coordinator;
pub mod event;
pub mod health;
pub mod id;
pub mod keeper;
mod max_flow;
pub mod message;
pub mod mutant;
mod need;
pub mod oracle;
pub mod placement;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod pump;
pub mod queue;
pub mod random;
pub mod role;
pub mod schedule;
pub mod slice;
pub mod stripe;
pub mod time;
pub mod transcript;
pub mod wire;
