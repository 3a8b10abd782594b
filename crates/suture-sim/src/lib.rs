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

pub mod bandwidth_trace;
pub mod capacity;
pub mod check;
pub mod client;
mod cut;
pub mod disk;
pub mod durability;
mod effect;
pub mod fault;
pub mod fluid;
pub mod fluid_agents;
pub mod injection;
mod link_meter;
pub mod lone;
pub mod metadata;
pub mod monitor;
pub mod party;
pub mod ports;
mod rack;
pub mod record;
pub mod scenario;
pub mod shrink;
pub mod simulate;
pub mod swarm;
pub mod timeline;
pub mod trial;
pub mod violation;
pub mod workload;
pub mod world;
