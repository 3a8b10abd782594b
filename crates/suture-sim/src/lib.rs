//! Two worlds in which the coordinator of production works, both of them in memory and seeded.
//!
//! *Is it right?* A cluster of the same state machines with real bytes and faults: read `world`
//! (the cluster and its clock), `effect` (what agents ask for), `disk` and `metadata` (what
//! survives), `fault` and `injection` (what goes wrong), `check` (what must hold), `trial` and
//! `swarm` (many seeds), `lone` (one fault among slices), `shrink` and `record` (what a failure is
//! shown by).
//!
//! *How fast is it?* A network without bytes: read `fluid` (flows share ports), `ports` (plans as
//! flows), `fluid_agents` (what agents would answer), `capacity` and `bandwidth_trace` (links over
//! time), `workload`, `client` and `monitor` (applications), `timeline` (what one sees), `scenario`
//! (what is asked for), `simulate` (all together).
//!
//! *What is it worth?* Years of failures and repairs: read `durability`.
//!
//! It contains no policy: everything that is decided is decided by suture-repair.
#![forbid(unsafe_code)]

// Is it right? The cluster, its clock and what agents ask for.
mod effect;
pub mod party;
mod rack;
pub mod world;
// What survives a crash.
mod cut;
pub mod disk;
pub mod metadata;
// What goes wrong.
pub mod fault;
pub mod injection;
// What must hold.
pub mod check;
pub mod violation;
// Many seeds, and one fault among slices.
pub mod lone;
pub mod swarm;
pub mod trial;
// What a failure is shown by.
pub mod record;
pub mod shrink;

// How fast is it? Flows share ports, and plans are flows.
pub mod fluid;
pub mod ports;
// What agents would answer.
pub mod fluid_agents;
mod link_meter;
// Links over time.
pub mod bandwidth_trace;
pub mod capacity;
// Applications.
pub mod client;
pub mod monitor;
pub mod workload;
// What is asked for, and all together.
pub mod scenario;
pub mod simulate;
pub mod timeline;

// What is it worth?
pub mod durability;
