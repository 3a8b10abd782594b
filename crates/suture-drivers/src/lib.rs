//! The drivers: sockets, disks, clocks and SQLite around the machines of `suture-repair`.
//!
//! Place: around all of failure -> stripes -> queue -> plan -> admit -> dispatch -> slices flow ->
//! chunk durable -> commit. What is decided is decided in `suture-repair`; here it is performed.
//!
//! The data plane, in the order in which a slice meets it: a [`store`] keeps chunks and proves
//! them, an [`agent`] performs what the agent core asks for, [`net`] carries slices between agents
//! within the rates of [`limit`], counted by peers as [`sent`], and [`chunk_client`] puts and gets
//! chunks from outside. A slice in memory is a [`buffer`], computed on the way by a
//! [`combination`].
//!
//! The control plane: [`metadata`] is the durable map of stripes, [`coordinator`] drives the
//! coordinator core, [`control`] carries messages between them, agents and people; [`object`] puts
//! and gets, [`rebuild`] makes the map again from chunks. [`config`] reads the configuration of
//! daemons, [`address`] where a coordinator is, a [`data_dir`] keeps what they are given, a
//! [`label`] lies beside each chunk for the metadata that are lost, [`record`] writes down what
//! they did; a [`process`] ends by signal; [`identity`] has the principals at the ends of a
//! connection. [`metrics`] are the
//! numbers of a daemon for monitoring, and [`http`] serves them; what is logged of a rebuilt chunk
//! is known from its [`attempt`]. [`hdfs`] has a NameNode in place of the map, and DataNodes in
//! place of the store.
//!
//! Deliberately absent: arguments, printing and exit codes, which are the binary's.
#![forbid(unsafe_code)]

// A store keeps chunks and proves them; the agent performs what its core asks for.
pub mod agent;
pub mod store;
// Slices pass between agents, within rates.
pub mod buffer;
pub mod combination;
pub mod limit;
pub mod net;
pub mod sent;
// Chunks are put and got from outside.
pub mod chunk_client;

// The map of stripes, and the driver of the coordinator's core.
pub mod coordinator;
pub mod metadata;
// Messages between coordinator, agents and people.
pub mod control;
// Objects: what clients put and get.
pub mod object;
pub mod put_key;
// The map is made again from what lies beside chunks.
pub mod label;
pub mod rebuild;
// In place of the map and of the store.
pub mod hdfs;

// The principal at the other end of a connection.
pub mod identity;
// What daemons are configured with, and where they are.
pub mod address;
pub mod config;
pub mod data_dir;
pub mod maintenance_window;
// What they write down, count and show.
pub mod attempt;
pub mod http;
pub mod metrics;
pub mod record;
// How their processes begin and end.
pub mod process;
