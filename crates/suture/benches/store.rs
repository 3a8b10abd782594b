//! What a client of the native store gets, beside what the same disk gives without it.
//!
//! Place: source -> [every chunk durable] -> object visible -> [object read].
//! `cargo bench -p suture --bench store [small|status|large|slow]` starts a coordinator and its
//! agents, real processes on loopback (recorded, as in tests) that keep their chunks in the folder
//! for temporary files, and prints the median of each round's ratio. `TMPDIR` says which disk that
//! is; `large` takes some 10 GB of it.
//!
//! - `small`: files that agents make durable a second (one for each chunk of an object), against
//!   files of the same size that the disk creates and syncs without anything around it. At least
//!   half as many are wanted.
//! - `status`: the time of `suture status`, beginning and ending the process included, while a
//!   node's 10,000 chunks are rebuilt, against the 100 ms that it may take.
//! - `large`: 2 GiB stored and read, against a plain copy that is synced.
//! - `slow`: 100 MiB stored and read where one of ten nodes has 8 Mbit/s, against the same where
//!   none has. At most 1.3 times as long is wanted.

#[path = "../tests/daemons/mod.rs"]
mod daemons;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use daemons::{Cluster, noise};
use serde_json::Value;

const CODE: [&str; 2] = ["--code", "rs(6,3)"];
const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;

/// How long anything may take that is waited for.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The number that `statfs` gives a file system in memory, where syncing costs nothing.
const TMPFS: u32 = 0x0102_1994;

/// What is measured, and what it is compared with, in one round.
#[derive(Clone, Copy)]
struct Round {
    ours: f64,
    peer: f64,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    let folder = std::env::temp_dir();
    println!("chunks are kept in {}", folder.display());
    if rustix::fs::statfs(&folder).is_ok_and(|found| found.f_type as u32 == TMPFS) {
        println!("which is in memory: nothing below says anything of a disk; set TMPDIR");
    }
    let benches = [("small", small as fn()), ("status", status), ("large", large), ("slow", slow)];
    for (name, bench) in benches {
        if is_wanted(name) {
            bench();
        }
    }
}

/// Prints the medians of what was measured and of its ratios to the peer of the same round.
fn report(what: &str, unit: &str, peer: &str, rounds: &[Round]) {
    let median = |of: fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "{what}: {:.1} {unit}; {peer}: {:.1} {unit}; ratio {:.2} (medians of {})",
        median(|round| round.ours),
        median(|round| round.peer),
        median(|round| round.ours / round.peer),
        rounds.len()
    );
}

fn seconds(work: impl FnOnce()) -> f64 {
    let since = Instant::now();
    work();
    since.elapsed().as_secs_f64()
}

/// A command of the store that is to succeed.
fn timed(cluster: &Cluster, args: &[&str]) -> f64 {
    seconds(|| drop(cluster.ok(args)))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of this bench are text")
}

/// Waits until something is so, for longer than tests have.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < WAIT_MAX, "not within ten minutes: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Chunk files of all agents.
fn chunk_files(cluster: &Cluster) -> usize {
    (0..cluster.agents.len()).map(|agent| cluster.chunks(agent).len()).sum()
}

/// Objects of a page each: a file of an agent for each of their chunks.
fn small() {
    const OBJECTS: usize = 1000;
    let cluster = Cluster::of(9);
    let folder = folder_of(&cluster, OBJECTS);
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let (name, before) = (round.to_string(), chunk_files(&cluster));
        let took = timed(
            &cluster,
            &[&["put", text(&folder), "--name", name.as_str()][..], &CODE].concat(),
        );
        let files = chunk_files(&cluster) - before;
        let bytes = fs::metadata(&cluster.chunks(0)[0]).unwrap().len() as usize;
        let peer = created_and_synced(&cluster.path("plain"), bytes);
        rounds.push(Round { ours: files as f64 / took, peer });
        println!("{:.0} objects/s, {files} files of {bytes} bytes", OBJECTS as f64 / took);
    }
    report("small objects, durable chunks", "files/s", "the disk", &rounds);
}

/// A folder of files of a page each.
fn folder_of(cluster: &Cluster, files: usize) -> PathBuf {
    let folder = cluster.path("small");
    fs::create_dir(&folder).unwrap();
    let content = noise(4096);
    (0..files).for_each(|i| fs::write(folder.join(format!("{i:05}")), &content).unwrap());
    folder
}

/// One of ten nodes dies, which has a chunk of nine stripes in ten. Only the time counts in which
/// at least half of its chunks are still to be rebuilt.
fn status() {
    const OBJECTS: usize = 11_200;
    // Enough for many repairs at a time.
    let mut cluster = Cluster::with(10, "memory = '256MiB'");
    let folder = folder_of(&cluster, OBJECTS);
    cluster.ok(&[&["put", text(&folder)][..], &CODE].concat());
    cluster.ok(&["repair", "pause"]);
    cluster.agents[0].kill();
    let lost = |status: &Value| status["lost_chunks"].as_u64().unwrap();
    wait("its chunks are lost", || lost(&cluster.json(&["status"])) > 0);
    let all = lost(&cluster.json(&["status"]));
    cluster.ok(&["repair", "resume"]);
    let (begun, mut rounds, mut most_running) = (Instant::now(), Vec::new(), 0);
    loop {
        let took = timed(&cluster, &["status"]);
        let status = cluster.json(&["status"]);
        if lost(&status) < all / 2 {
            break;
        }
        rounds.push(Round { ours: 1e3 * took, peer: 100.0 });
        most_running = most_running.max(status["running"].as_array().unwrap().len());
        assert!(begun.elapsed() < WAIT_MAX, "not within ten minutes: half are rebuilt: {status:#}");
        thread::sleep(Duration::from_millis(50));
    }
    let took = begun.elapsed().as_secs_f64();
    println!("{all} chunks to rebuild, half in {took:.1} s, up to {most_running} at once");
    assert!(!rounds.is_empty(), "they were rebuilt before anybody asked");
    report("status while they are", "ms", "what it may take", &rounds);
    let slowest = rounds.iter().map(|round| round.ours).fold(0.0, f64::max);
    println!("the slowest took {slowest:.0} ms");
}

/// Files a second that the disk creates and syncs, by as many threads as it likes best.
fn created_and_synced(folder: &Path, bytes: usize) -> f64 {
    const FILES: usize = 2400;
    let content = noise(bytes);
    let rate = |threads: usize| {
        fs::create_dir(folder).unwrap();
        let write = |thread: usize| {
            for i in 0..FILES / threads {
                let mut file = fs::File::create(folder.join(format!("{thread}.{i}"))).unwrap();
                file.write_all(&content).unwrap();
                file.sync_all().unwrap();
            }
        };
        let write = &write;
        let took = seconds(|| {
            thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || write(thread));
                }
            });
        });
        fs::remove_dir_all(folder).unwrap();
        FILES as f64 / took
    };
    [1, 4, 12].into_iter().map(rate).fold(0.0, f64::max)
}

/// A file of so many bytes, made of pieces so that it need not fit the memory.
fn write_noise(path: &Path, bytes: usize) {
    let mut file = fs::File::create(path).unwrap();
    let piece = noise(bytes.min(64 * MIB));
    for at in (0..bytes).step_by(piece.len()) {
        file.write_all(&piece[..piece.len().min(bytes - at)]).unwrap();
    }
    file.sync_all().unwrap();
}

/// Copies byte by byte, which no file system does by a note that both are the same.
fn copy_and_sync(from: &Path, to: &Path) {
    let (mut from, mut to) = (fs::File::open(from).unwrap(), fs::File::create(to).unwrap());
    let mut piece = vec![0; MIB];
    loop {
        let read = from.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        to.write_all(&piece[..read]).unwrap();
    }
    to.sync_all().unwrap();
}

/// One object of many stripes on twelve agents.
fn large() {
    const BYTES: usize = 2048 * MIB;
    let cluster = Cluster::of(12);
    let (source, back, copy) = (cluster.path("large"), cluster.path("back"), cluster.path("copy"));
    write_noise(&source, BYTES);
    let rate = |took: f64| BYTES as f64 / took / 1e6;
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let peer = rate(seconds(|| copy_and_sync(&source, &copy)));
        fs::remove_file(&copy).unwrap();
        let name = round.to_string();
        let put = [&["put", text(&source), "--name", name.as_str()][..], &CODE].concat();
        puts.push(Round { ours: rate(timed(&cluster, &put)), peer });
        let get = ["get", name.as_str(), "-o", text(&back)];
        gets.push(Round { ours: rate(timed(&cluster, &get)), peer });
        fs::remove_file(&back).unwrap();
        cluster.ok(&["rm", &name]);
        wait("the chunks are deleted", || chunk_files(&cluster) == 0);
    }
    report("2 GiB stored", "MB/s", "a synced copy", &puts);
    report("2 GiB read", "MB/s", "a synced copy", &gets);
}

/// Two clusters of ten agents, one of which has a slow link in the second. Each command is a
/// process of its own, which knows of no node that it is slow. What a put has left to repair is
/// rebuilt before the next command, and which cluster is first changes with the rounds.
fn slow() {
    let fast = Cluster::of(10);
    let mut slow = Cluster::of(9);
    let keys = "uplink = '8Mbit'\ndownlink = '8Mbit'";
    slow.agents.push(daemons::start_agent(slow.folder.path(), &slow.address, 9, keys));
    slow.wait("the slow one is up", |status| daemons::count(status, "up") == 10);
    let (source, back) = (fast.path("source"), fast.path("back"));
    write_noise(&source, 100 * MIB);
    let command = |cluster: &Cluster, args: &[&str]| {
        let took = timed(cluster, args);
        wait("it is healthy", || cluster.json(&["status"])["state"] == "healthy");
        took
    };
    let both = |round: usize, args: &[&str]| {
        if round.is_multiple_of(2) {
            let ours = command(&slow, args);
            Round { ours, peer: command(&fast, args) }
        } else {
            let peer = command(&fast, args);
            Round { ours: command(&slow, args), peer }
        }
    };
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let name = round.to_string();
        let put = [&["put", text(&source), "--name", name.as_str()][..], &CODE].concat();
        puts.push(both(round, &put));
        // The second one overwrites what the first one has read.
        gets.push(both(round, &["get", name.as_str(), "-o", text(&back)]));
        both(round, &["rm", &name]);
    }
    report("100 MiB stored, a slow node of ten", "s", "no slow node", &puts);
    report("100 MiB read, a slow node of ten", "s", "no slow node", &gets);
}
