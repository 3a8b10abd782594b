//! The foreground: what applications ask of the native store, made as they would ask it.
//!
//! Place: beside the whole life of a repair. `suture load` runs it against a cluster that stands.
//! The loop is open: requests come when they come, whether or not the ones before are answered, and
//! what one waits counts from the moment when it was to begin; so a store that stands still for a
//! second is seen by every request of that second. `arrivals.rs` says when, the workload (of
//! `suture-sim`) what, `keyspace.rs` on which objects, `drive.rs` performs it, and `latency.rs`
//! counts.

pub mod arrivals;
pub mod drive;
pub mod keyspace;
pub mod latency;

/// Requests in flight at a time: more would be a load on the client itself.
pub const CLIENTS_MAX: usize = 512;

/// Objects of a keyspace.
pub const OBJECTS_MAX: usize = 1_000_000;
