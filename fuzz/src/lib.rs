//! What the fuzz targets do with their bytes.
//!
//! Place: in front of everything that reads what Suture did not write. Each body is also run by an
//! ordinary test of the crate that it examines, over random and mutated inputs and over the corpus
//! that fuzzing left (`ordinary.rs`, which only those tests have), so that it fails without a
//! fuzzer too; [`mutation`] makes the mutations. `docs/fuzzing.md` says which body examines what.

pub mod abi;
pub mod chunk_file;
pub mod client;
pub mod cluster_file;
pub mod code_name;
pub mod commands;
pub mod config;
pub mod control;
pub mod coordinator;
pub mod credentials;
pub mod cursor;
pub mod data_dir;
pub mod directory;
pub mod frame;
pub mod hdfs;
pub mod manifest;
pub mod metadata;
pub mod mutation;
pub mod plan_json;
pub mod records;
pub mod schemes;
pub mod scratch;
pub mod stripe_label;
pub mod task;
pub mod timers;
pub mod tls_peer;
pub mod transcript;
pub mod trial;
pub mod values;

/// A target: its name, inputs to begin with, and its body.
pub type Target = (&'static str, fn() -> Vec<Vec<u8>>, fn(&[u8]) -> bool);

/// All targets.
pub const TARGETS: &[Target] = &[
    ("abi", abi::valid, abi::check),
    ("chunk_file", chunk_file::valid, chunk_file::check),
    ("client", client::valid, client::check),
    ("cluster_file", cluster_file::valid, cluster_file::check),
    ("code_name", code_name::valid, code_name::check),
    ("commands", commands::valid, commands::check),
    ("config", config::valid, config::check),
    ("control", control::valid, control::check),
    ("coordinator", coordinator::valid, coordinator::check),
    ("credentials", credentials::valid, credentials::check),
    ("data_dir", data_dir::valid, data_dir::check),
    ("directory", directory::valid, directory::check),
    ("frame", frame::valid, frame::check),
    ("hdfs", hdfs::valid, hdfs::check),
    ("manifest", manifest::valid, manifest::check),
    ("metadata", metadata::valid, metadata::check),
    ("plan_json", plan_json::valid, plan_json::check),
    ("records", records::valid, records::check),
    ("schemes", schemes::valid, schemes::check),
    ("stripe_label", stripe_label::valid, stripe_label::check),
    ("task", task::valid, task::check),
    ("transcript", transcript::valid, transcript::check),
    ("trial", trial::valid, trial::check),
    ("values", values::valid, values::check),
];
