//! Everything that decides about a repair, and nothing that performs it.
//!
//! Read the modules in the order of the life of a repair: a node fails (`health`), its stripes
//! are looked up (`stripe`), queued by risk (`queue`), planned (`planner`, giving a `plan`),
//! admitted (`budget`) and dispatched (`coordinator`); agents take their `role`, move slices
//! (`slice`, `agent`, with one `pump` a lane), prove and publish the chunk, and the coordinator
//! commits its location. Behind two interfaces stand the record of where chunks lie (`keeper`) and
//! the stores that keep them (`chunk_store`).
//!
//! Where a new stripe goes is decided in `placement`.
//! What went in and came out can be written down and replayed (`transcript`).
//!
//! No clock, no IO, no threads, no log, no ambient randomness: time and seeds are parameters,
//! effects are values. The same code runs in the simulator and in production.
#![forbid(unsafe_code)]

// A node fails.
pub mod health;
mod reach;
// Its stripes are looked up.
pub mod stripe;
// They are queued by risk.
pub mod queue;
// They are planned.
mod master;
mod max_flow;
mod need;
pub mod planner;
pub mod policy;
// What a plan is, and what none can beat.
pub mod bound;
pub mod plan;
// The plan is scheduled and admitted.
pub mod schedule;
// Its slice memory is reserved at every participant.
pub mod budget;
// It is dispatched, and its chunk is committed.
pub mod coordinator;
// It takes no more of links than applications can spare.
mod rates;
pub mod throttle;
// Agents take their roles in it.
pub mod role;
// Slices flow.
pub mod slice;
// Agents move them, prove the chunk and publish it.
pub mod agent;
// One lane's slices at one agent, and which of them may come in.
pub mod grants;
pub mod pump;

// Behind two interfaces: the record of where chunks lie, and the stores that keep them.
pub mod chunk_store;
pub mod keeper;
// What the keeper wants kept beside each chunk.
pub mod label;

// Where new stripes go.
pub mod placement;

// What goes in and out of the machines, and between them.
pub mod estimate;
pub mod event;
pub mod message;
pub mod transcript;
pub mod wire;

// What serves all of it.
pub mod cluster;
pub mod id;
pub mod processor;
pub mod random;
pub mod time;

// For tests: deliberate bugs (mutants), and the naive executor of plans (oracle).
pub mod mutant;
pub mod oracle;
