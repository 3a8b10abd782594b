//! The drivers: everything of Suture that touches sockets, disks, clocks and people.
//!
//! Place: around all of failure -> stripes -> queue -> plan -> admit -> dispatch -> slices flow ->
//! chunk durable -> commit. What is decided is decided in `suture-repair`; here it is performed.
//!
//! The data plane, in the order in which a slice meets it: a `store` keeps chunks and proves them,
//! an `agent` performs what the agent core asks for, `net` carries slices between agents within
//! the rates of `limit`, and `chunk_client` puts and gets chunks from outside.
//!
//! The control plane: `metadata` is the durable truth, `coordinator` drives the coordinator core,
//! `control` carries messages between them, agents and people; `object` puts and gets.
#![forbid(unsafe_code)]

pub mod checksum;
#[allow(missing_docs, reason = "every command is `Args` and `run`, as the head of `cmd` says")]
pub mod cmd;
pub mod input;
pub(crate) mod offline;
pub mod outcome;
pub mod output;
pub mod progress;
pub mod units;
