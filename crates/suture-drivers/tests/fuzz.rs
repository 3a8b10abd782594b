//! All that agents, coordinator and clients read, under random and mutated bytes and those that
//! fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/chunk_file.rs"]
mod chunk_file;
#[path = "../../../fuzz/src/client.rs"]
mod client;
#[path = "../../../fuzz/src/commands.rs"]
mod commands;
#[path = "../../../fuzz/src/config.rs"]
mod config;
#[path = "../../../fuzz/src/control.rs"]
mod control;
#[path = "../../../fuzz/src/coordinator.rs"]
mod coordinator;
#[path = "../../../fuzz/src/credentials.rs"]
mod credentials;
#[path = "../../../fuzz/src/cursor.rs"]
mod cursor;
#[path = "../../../fuzz/src/data_dir.rs"]
mod data_dir;
#[path = "../../../fuzz/src/frame.rs"]
mod frame;
#[path = "../../../fuzz/src/hdfs.rs"]
mod hdfs;
#[path = "../../../fuzz/src/metadata.rs"]
mod metadata;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;
#[path = "../../../fuzz/src/records.rs"]
mod records;
#[path = "../../../fuzz/src/scratch.rs"]
mod scratch;
#[path = "../../../fuzz/src/stripe_label.rs"]
mod stripe_label;
#[path = "../../../fuzz/src/task.rs"]
mod task;
#[path = "../../../fuzz/src/timers.rs"]
mod timers;
#[path = "../../../fuzz/src/tls_peer.rs"]
mod tls_peer;

#[test]
fn whatever_lies_on_a_disk_is_read_as_written_or_refused() {
    ordinary::run("chunk_file", &chunk_file::valid(), chunk_file::check, (4000, 200));
}

#[test]
fn whatever_clients_say_is_written_and_read_back() {
    ordinary::run("client", &client::valid(), client::check, (20_000, 500));
}

#[test]
fn whatever_operators_command_keeps_its_bounds() {
    ordinary::run("commands", &commands::valid(), commands::check, (10_000, 500));
}

#[test]
fn whatever_configuration_is_accepted_keeps_its_bounds() {
    ordinary::run("config", &config::valid(), config::check, (2000, 100));
}

#[test]
fn whatever_sessions_say_is_written_and_read_back() {
    ordinary::run("control", &control::valid(), control::check, (20_000, 500));
}

#[test]
fn whatever_agents_say_the_coordinator_survives() {
    ordinary::run("coordinator", &coordinator::valid(), coordinator::check, (200, 50));
}

#[test]
fn whoever_credentials_name_can_be_or_they_are_refused() {
    ordinary::run("credentials", &credentials::valid(), credentials::check, (300, 20));
}

#[test]
fn whatever_a_data_directory_holds_is_read_or_refused() {
    ordinary::run("data_dir", &data_dir::valid(), data_dir::check, (300, 20));
}

#[test]
fn whatever_frame_is_read_is_written_and_read_back() {
    ordinary::run("frame", &frame::valid(), frame::check, (20_000, 500));
}

#[test]
fn whatever_a_namenode_says_makes_stripes_that_can_be() {
    ordinary::run("hdfs", &hdfs::valid(), hdfs::check, (20_000, 500));
}

#[test]
fn whatever_metadata_are_restored_begin_or_are_refused() {
    ordinary::run("metadata", &metadata::valid(), metadata::check, (60, 10));
}

#[test]
fn whatever_the_other_side_of_an_encrypted_connection_sends_comes_out_as_it_was_sealed() {
    ordinary::run("records", &records::valid(), records::check, (200, 50));
}

#[test]
fn whatever_labels_say_makes_objects_that_can_be() {
    ordinary::run("stripe_label", &stripe_label::valid(), stripe_label::check, (10_000, 500));
}

#[test]
fn whatever_an_agent_is_told_it_refuses_or_does() {
    ordinary::run("task", &task::valid(), task::check, (1000, 50));
}
