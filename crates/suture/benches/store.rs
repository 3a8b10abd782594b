//! What a client of the native store gets, beside what the same disk gives without it.
//!
//! Place: source -> [every chunk durable] -> object visible -> [object read].
//! `cargo bench -p suture --bench store [small|status|large|slow]` starts a coordinator and its agents, real
//! processes on loopback (recorded, as in tests) that keep their chunks in the folder for temporary files, and prints the
//! median of each round's ratio:
//!
//! - `small`: files that agents make durable a second (nine for each object), against files of the
//!   same size that the disk creates and syncs without anything around it.
//! - `large`: 2 GiB stored and read, against a plain copy that is synced.
//! - `status`: the time of `suture status`, beginning and ending the process included, while a node's
//!   10,000 chunks are rebuilt, against the 100 ms that it may take.
//! - `slow`: 100 MiB stored and read where one of ten nodes has 8 Mbit/s, against the same where none
//!   has.

#[path = "../tests/daemons/mod.rs"]
mod daemons;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use daemons::{Cluster, noise};
use serde_json::Value;

const CODE: [&str; 2] = ["--code", "rs(6,3)"];
const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    let benches = [("small", small as fn()), ("status", status), ("large", large), ("slow", slow)];
    for (name, bench) in benches {
        if is_wanted(name) {
            bench();
        }
    }
}

/// Prints the medians of what was measured and of its ratios to the peer of the same round.
fn report(what: &str, unit: &str, peer: &str, rounds: &[(f64, f64)]) {
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "{what}: {:.1} {unit}; {peer}: {:.1} {unit}; ratio {:.2} (medians of {})",
        median(|round| round.0),
        median(|round| round.1),
        median(|round| round.0 / round.1),
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

/// Objects of a page each: nine files of an agent for each.
fn small() {
    const OBJECTS: usize = 1000;
    let cluster = Cluster::of(9);
    let folder = folder_of(&cluster, OBJECTS);
    let rounds = (0..ROUNDS).map(|round| {
        let name = round.to_string();
        let args = [&["put", text(&folder), "--name", &name][..], &CODE].concat();
        let ours = (9 * OBJECTS) as f64 / timed(&cluster, &args);
        let bytes = fs::metadata(&cluster.chunks(0)[0]).unwrap().len();
        (ours, created_and_synced(&cluster.path("plain"), bytes as usize))
    });
    report("small objects, durable chunks", "files/s", "the disk", &rounds.collect::<Vec<_>>());
}

/// A folder of files of a page each.
fn folder_of(cluster: &Cluster, files: usize) -> PathBuf {
    let folder = cluster.path("small");
    fs::create_dir(&folder).unwrap();
    let content = noise(4096);
    (0..files).for_each(|i| fs::write(folder.join(format!("{i:05}")), &content).unwrap());
    folder
}

/// One of ten nodes dies, which has a chunk of nine stripes in ten.
fn status() {
    const OBJECTS: usize = 11_200;
    let mut cluster = Cluster::of(10);
    let folder = folder_of(&cluster, OBJECTS);
    cluster.ok(&[&["put", text(&folder)][..], &CODE].concat());
    cluster.agents[0].kill();
    cluster.wait("chunks are lost", |status| status["lost_chunks"] != 0);
    let (mut times, mut most, mut running) = (Vec::new(), 0, 0);
    loop {
        let mut status = Value::Null;
        times.push((1e3 * seconds(|| status = cluster.json(&["status"])), 100.0));
        most = most.max(status["lost_chunks"].as_u64().unwrap());
        running = running.max(status["running"].as_array().unwrap().len());
        if status["lost_chunks"] == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    println!("{most} chunks were to be rebuilt, up to {running} at once");
    report("status while they are", "ms", "what it may take", &times);
    let slowest = times.iter().map(|time| time.0).fold(0.0, f64::max);
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
        let took = seconds(|| {
            thread::scope(|scope| {
                (0..threads).for_each(|thread| drop(scope.spawn(move || write(thread))));
            });
        });
        fs::remove_dir_all(folder).unwrap();
        FILES as f64 / took
    };
    [1, 4, 12].into_iter().map(rate).fold(0.0, f64::max)
}

/// One object of many stripes on twelve agents.
fn large() {
    const BYTES: usize = 2048 * MIB;
    let cluster = Cluster::of(12);
    let (source, back, copy) = (cluster.path("large"), cluster.path("back"), cluster.path("copy"));
    fs::write(&source, noise(BYTES)).unwrap();
    let rate = |took: f64| BYTES as f64 / took / 1e6;
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let plain = rate(seconds(|| {
            fs::copy(&source, &copy).unwrap();
            fs::File::open(&copy).unwrap().sync_all().unwrap();
        }));
        fs::remove_file(&copy).unwrap();
        let name = round.to_string();
        let put = [&["put", text(&source), "--name", &name][..], &CODE].concat();
        puts.push((rate(timed(&cluster, &put)), plain));
        gets.push((rate(timed(&cluster, &["get", &name, "-o", text(&back)])), plain));
        fs::remove_file(&back).unwrap();
        cluster.ok(&["rm", &name]);
    }
    report("2 GiB stored", "MB/s", "a synced copy", &puts);
    report("2 GiB read", "MB/s", "a synced copy", &gets);
}

/// Two clusters of ten agents, one of which has a slow link in the second. Each command is a process
/// of its own, which knows of no node that it is slow.
fn slow() {
    let fast = Cluster::of(10);
    let mut slow = Cluster::of(9);
    let keys = "uplink = '8Mbit'\ndownlink = '8Mbit'";
    slow.agents.push(daemons::start_agent(slow.folder.path(), &slow.address, 9, keys));
    slow.wait("the slow one is up", |status| daemons::count(status, "up") == 10);
    let source = fast.path("source");
    fs::write(&source, noise(100 * MIB)).unwrap();
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let name = round.to_string();
        let put = [&["put", text(&source), "--name", &name][..], &CODE].concat();
        puts.push((timed(&slow, &put), timed(&fast, &put)));
        let back = [slow.path("back"), fast.path("back")];
        let get = |cluster, back| timed(cluster, &["get", &name, "-o", text(back)]);
        gets.push((get(&slow, &back[0]), get(&fast, &back[1])));
        back.iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    report("100 MiB stored, a slow node of ten", "s", "no slow node", &puts);
    report("100 MiB read, a slow node of ten", "s", "no slow node", &gets);
}
