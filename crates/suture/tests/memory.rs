//! What agents hold in memory while a node's chunks, very small and large ones, are rebuilt at
//! once.
//!
//! Place: slices flow; buffers come from a pool whose size the configuration says (`memory`).
//! What an agent needs beside the pool is measured once it has taken puts and part in a repair, and
//! only memory of its own counts: pages of its executable come as its code is first run. Links are
//! slow enough that slices wait, and so fill the pool.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write;

use crate::daemons::{Cluster, Process, count, noise, start_agent};

/// Chunks that either coordinator rebuilds at least: few, since a status comes now and then.
const REPAIRED: u64 = 20;

/// Stripes of very small chunks.
const SMALL: usize = 600;

/// Stripes of chunks of 1 MiB: what is lost of them takes a pool of 12 MiB whole.
const LARGE: usize = 80;

/// What a process has of memory that is its own, in KiB.
fn own_kib(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Has everything that an agent does happen once, with next to nothing.
fn warm_up(cluster: &mut Cluster, keys: &str) {
    cluster.put("first", 9 * 4096, &["--code", "rs(3,2)", "--chunk-size", "4KiB"]);
    cluster.agents[5].kill();
    cluster.wait("it is given up", |status| count(status, "failed") == 1);
    cluster.wait_healthy();
    cluster.agents[5] = start_agent(cluster.folder.path(), &cluster.address, 5, keys);
    cluster.wait("it is back", |status| count(status, "up") == 6);
    cluster.wait_healthy();
}

/// Stores very many small chunks, and large ones; gives the content of the small ones.
fn fill(cluster: &Cluster) -> Vec<u8> {
    let small =
        cluster.put("small", SMALL * 3 * 4096, &["--code", "rs(3,2)", "--chunk-size", "4KiB"]);
    let (path, part) = (cluster.path("large"), noise(3 << 20));
    let mut file = File::create(&path).unwrap();
    (0..LARGE).for_each(|_| file.write_all(&part).unwrap());
    let how = ["--name", "large", "--code", "rs(3,2)", "--chunk-size", "1MiB"];
    cluster.ok(&[&["put", path.to_str().unwrap()], &how[..]].concat());
    fs::remove_file(path).unwrap();
    small
}

/// Rebuilds what one of six agents has held, by agents with so much memory, and by two coordinators
/// one after the other.
fn check(memory_mib: u64) {
    let keys = format!("memory = '{memory_mib}MiB'\nrepair_cap = '20MB'");
    let mut cluster = Cluster::with(6, &keys);
    warm_up(&mut cluster, &keys);
    let small = fill(&cluster);
    let before: Vec<u64> = cluster.agents.iter().map(own_kib).collect();
    let most = RefCell::new(before.clone());
    let look = |agents: &[Process]| {
        // The first one is dead.
        for (most, agent) in most.borrow_mut().iter_mut().zip(agents).skip(1) {
            *most = own_kib(agent).max(*most);
        }
    };
    cluster.agents[0].kill();
    cluster.wait("some of it is rebuilt", |status| {
        look(&cluster.agents);
        status["repaired_chunks"].as_u64() > Some(REPAIRED)
    });
    // What runs is given up, and what it held is given back.
    cluster.restart_coordinator();
    let status = cluster.wait("all is rebuilt", |status| {
        look(&cluster.agents);
        let is_over = count(status, "failed") == 1 && count(status, "up") == 5;
        status["state"] == "healthy" && is_over
    });
    assert!(status["repaired_chunks"].as_u64() > Some(REPAIRED), "{status}");
    let grown: Vec<u64> =
        most.borrow().iter().zip(&before).skip(1).map(|(most, before)| most - before).collect();
    // An eighth for the maps of hundreds of repairs, and for what the allocator keeps.
    let allowed = (memory_mib << 10) / 8 * 9;
    let is_kept = grown.iter().all(|grown| *grown < allowed);
    assert!(is_kept, "{grown:?} KiB more than {before:?}, with {memory_mib} MiB");
    cluster.assert_reads("small", &small);
    cluster.ok(&["get", "large", "-o", cluster.path("back").to_str().unwrap()]);
}

#[test]
fn agents_keep_to_a_small_memory_while_small_and_large_chunks_are_rebuilt() {
    check(16);
}

#[test]
fn agents_keep_to_their_memory_while_small_and_large_chunks_are_rebuilt() {
    check(32);
}
