//! A cluster in memory: the same state machines as in production, real bytes, seeded trouble.
//!
//! Read `world` (the cluster and its clock), `effect` (what agents ask for), `disk` and `truth` (what survives), `fault` and
//! `trouble` (what goes wrong), `check` (what must hold), `swarm` (many seeds). It contains no
//! policy: everything that is decided is decided by suture-repair.
#![forbid(unsafe_code)]

pub mod check;
pub mod disk;
mod effect;
pub mod fault;
pub mod swarm;
pub mod trouble;
pub mod truth;
pub mod world;
