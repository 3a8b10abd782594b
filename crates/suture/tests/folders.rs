//! A folder goes into the store and comes out of it, whole or what there is of it.
//!
//! Place: put, get and rm over many objects, with a cluster of real processes behind them.

mod daemons;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use daemons::{Cluster, TIMEOUT, interruptible, noise};
use rustix::process::{Pid, Signal, kill_process};

/// A put of 4 MiB through links this slow takes more than two seconds, however busy the machine is.
const SLOW: &str = "uplink = '8Mbit'\ndownlink = '8Mbit'";

const CODE: [&str; 2] = ["--code", "rs(2,1)"];

fn compare(one: &Path, other: &Path) {
    let diff = std::process::Command::new("diff").arg("-r").args([one, other]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

fn names(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.json(&["ls"]);
    let objects = listed["objects"].as_array().unwrap().iter();
    objects.map(|object| object["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn an_interrupted_put_of_a_folder_goes_on_where_it_ended() {
    let cluster = Cluster::with(3, SLOW);
    let folder = cluster.path("many");
    for index in 0..24 {
        let inner = folder.join(format!("sub{}", index / 9));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(format!("{index}")), noise((128 << 10) + index)).unwrap();
    }
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("long"), noise(4 << 20)).unwrap();
    let source = folder.to_str().unwrap();
    let mut put = interruptible();
    put.args(["put", source]).args(CODE).env("SUTURE_COORDINATOR", &cluster.address);
    let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while names(&cluster).len() < 3 {
        assert!(since.elapsed() < TIMEOUT, "too little is stored within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&put), Signal::INT).unwrap();
    assert!(!put.wait().unwrap().success());

    let before = names(&cluster);
    assert!(before.len() < 26, "it was interrupted");
    let again = cluster.run(&[&["put", source], &CODE[..]].concat());
    let count = format!("{} of 26 names are taken", before.len());
    assert!(again.status == 2 && again.stderr.contains(&count), "{}", again.stderr);
    assert_eq!(names(&cluster), before, "nothing was stored");
    let rest = cluster.json(&[&["put", source, "--skip-existing"], &CODE[..]].concat());
    assert_eq!(rest["existing"].as_array().unwrap().len(), before.len());
    assert_eq!(rest["objects"].as_array().unwrap().len(), 26 - before.len());

    let back = cluster.path("back");
    cluster.ok(&["get", "--recursive", "many", "-o", back.to_str().unwrap()]);
    compare(&folder, &back);
    // As after a get that was interrupted: what is not there is read, and what differs in length.
    fs::remove_file(back.join("long")).unwrap();
    fs::write(back.join("empty"), "no more").unwrap();
    let target = back.to_str().unwrap();
    let rest = cluster.json(&["get", "-r", "many", "-o", target, "--skip-existing"]);
    let named = |key: &str| rest[key].as_array().unwrap().len();
    assert_eq!((named("existing"), named("objects"), named("failed")), (24, 2, 0));
    assert_eq!(rest["objects"][0]["name"], "many/empty", "in the order of names");
    compare(&folder, &back);
    let removed = cluster.ok(&["rm", "--recursive", "many"]);
    assert_eq!(removed.lines().count(), 26, "{removed}");
    assert_eq!(names(&cluster), [""; 0]);
}

#[test]
fn an_object_that_cannot_be_read_does_not_keep_the_others() {
    let cluster = Cluster::of(3);
    cluster.put("d/a", 100_000, &CODE);
    // Too few of its chunks are left, and nothing of the others is gone.
    for agent in 0..2 {
        cluster.chunks(agent).iter().for_each(|chunk| fs::remove_file(chunk).unwrap());
    }
    let other = cluster.put("d/b", 50_000, &CODE);
    let back = cluster.path("tree");
    let got = cluster.run(&["get", "-r", "d", "-o", back.to_str().unwrap()]);
    assert_eq!(got.status, 3, "{}", got.stderr);
    assert!(got.stderr.contains("cannot get 'd/a'"), "{}", got.stderr);
    assert!(got.stdout.contains("d/b (48.8 KiB)\n1 object: "), "{}", got.stdout);
    assert!(fs::read(back.join("b")).unwrap() == other);
    assert_eq!(fs::read_dir(&back).unwrap().count(), 1);
}
