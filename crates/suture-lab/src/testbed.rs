//! The testbed: a cluster of real processes on an emulated network, of which every link is known.
//!
//! Place: the whole life of a repair, on real sockets. Measures how long plans take on links of
//! known rates, beside the planned times. `scenario.rs` says what is to be measured, `network.rs`
//! makes the network and `record.rs` remembers it until all of it is gone; `shaping.rs` gives links
//! their rates and `replay.rs` changes them; `measure.rs` performs one repair, `campaign.rs` all of
//! them, and `usage.rs` looks at what that took of the machine; `details.rs` and `exported.rs` are
//! what explains it; `applications.rs` and `requests.rs` are what else uses links, and
//! `full_links.rs` what it has of them; `placing.rs` says where stripes will lie, and `report.rs`
//! what came of it.

pub mod applications;
pub mod campaign;
pub mod cluster;
pub mod details;
pub mod expect;
pub mod exported;
pub mod faults;
pub mod figures;
pub mod full_links;
pub mod measure;
pub mod network;
pub mod placing;
pub mod record;
pub mod replay;
pub mod report;
pub mod requests;
pub mod scenario;
pub mod shaping;
pub mod stored;
pub mod tools;
pub mod usage;
pub mod watch;
