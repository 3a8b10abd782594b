//! The control plane: gRPC between coordinator, agents and clients. No chunk bytes pass here.
//!
//! Place: [failure noticed] -> ... -> `[dispatch]` -> ... -> [commit location] -> stripe healthy.
//! * [`convert`] is the one place where the core's types become messages and come back, checked;
//! * [`rpc`] takes the calls; [`service`] answers clients and operators, [`session`] talks to one
//!   agent, [`put`] follows one put: the coordinator's side;
//! * [`join`] is the agent's side of its session, [`client`] everybody else's.
//!
//! Invariant: a message that says something impossible ends the stream or the call that it came
//! on, with the reason; it never reaches the core.

pub mod client;
pub mod convert;
pub mod join;
pub mod membership;
pub mod put;
pub mod rpc;
pub mod service;
pub mod session;

/// Messages and services, generated from `proto/suture.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    tonic::include_proto!("suture.v1");
}

/// Raised when an old peer would misread a new one. 3: plans name nodes by number.
/// 2: a lane's slices are as long as it is itself,
/// tasks may be gated, held and continued.
/// 1: the first.
pub const PROTOCOL_VERSION: u32 = 3;

/// The longest message: an inventory of ten million copies has some 200 MB. gRPC's own limit of
/// 4 MiB would cut off an agent with a few hundred thousand.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Stripes to a message, where a stream of messages carries many: some 100 KB.
pub const STRIPES_PER_MESSAGE: u32 = 512;

/// How often either side of a quiet connection asks whether the other one is still there.
pub const KEEPALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(2);

/// How long it waits for the answer. A machine that lost its power is noticed no later than this;
/// a killed process at once.
pub const KEEPALIVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
