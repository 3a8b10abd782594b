//! What agents hold in memory while a node's chunks, very small and large ones, are rebuilt at
//! once.
//!
//! Place: slices flow; buffers come from a pool whose size the configuration says (`memory`).

mod daemons;

use std::fs;

use daemons::{Cluster, Process, noise};

/// As daemons of tests are told.
const MEMORY_KIB: u64 = 32 << 10;

/// For what is not of the pool: the maps of some hundred repairs, buffers of connections, and what
/// the allocator keeps.
const BESIDE_KIB: u64 = 16 << 10;

/// The most that a process had in memory, in KiB.
fn peak_kib(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn agents_keep_to_their_memory_while_small_and_large_chunks_are_rebuilt() {
    let mut cluster = Cluster::of(6);
    let before: Vec<u64> = cluster.agents.iter().map(peak_kib).collect();
    let many = cluster.path("many");
    fs::create_dir(&many).unwrap();
    let small = noise(3000);
    for number in 0..300 {
        fs::write(many.join(number.to_string()), &small).unwrap();
    }
    let how = ["--code", "rs(3,2)", "--chunk-size", "1KiB"];
    cluster.ok(&[&["put", many.to_str().unwrap(), "--name", "many"][..], &how].concat());
    let large = cluster.put("large", 96 << 20, &["--code", "rs(3,2)", "--chunk-size", "8MiB"]);
    cluster.agents[0].kill();
    let status = cluster.wait("all is rebuilt", |status| {
        status["state"] == "healthy" && status["repaired_chunks"].as_u64() > Some(0)
    });
    assert!(status["repaired_chunks"].as_u64() > Some(100), "{status}");
    for (agent, before) in cluster.agents.iter().zip(before).skip(1) {
        let grown = peak_kib(agent) - before;
        assert!(grown < MEMORY_KIB + BESIDE_KIB, "{grown} KiB more than at its start");
    }
    cluster.assert_reads("large", &large);
    cluster.assert_reads("many/7", &small);
}
