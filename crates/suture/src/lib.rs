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

pub mod agent;
pub mod buffer;
pub mod calibrate;
pub mod checksum;
pub mod chunk_client;
#[allow(missing_docs, reason = "every command is `Args` and `run`, as the head of `cmd` says")]
pub mod cmd;
pub mod combination;
pub mod config;
pub mod control;
pub mod coordinator;
pub mod daemon;
pub mod demo;
pub mod input;
pub mod limit;
pub mod metadata;
pub mod moment;
pub mod net;
pub mod object;
pub(crate) mod offline;
pub mod outcome;
pub mod output;
pub mod progress;
pub mod store;
pub mod units;

/// Reads the text of an encoded directory's `manifest.json` and writes it anew, in the order and
/// with the checksum that `suture encode` gives it. For tools that keep manifests, and for fuzzing.
///
/// # Errors
/// Why the manifest is refused: it is not one, it contradicts itself, or it was damaged.
pub fn rewrite_manifest(text: &str) -> Result<String, String> {
    offline::manifest::Manifest::parse(text).map(|manifest| manifest.to_json())
}
