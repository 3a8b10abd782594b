//! A folder goes into the store and comes out of it, whole or what there is of it.
//!
//! Place: put, get and rm over many objects, with a cluster of real processes behind them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::daemons::{Cluster, TIMEOUT, interruptible, noise};
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

/// An edit that keeps the length is no reason to take a file for stored, or for read.
#[test]
fn what_is_there_with_other_bytes_of_the_same_length_is_not_left_out() {
    let cluster = Cluster::of(3);
    let folder = cluster.path("d");
    fs::create_dir(&folder).unwrap();
    for name in ["a", "b"] {
        fs::write(folder.join(name), noise(50_000)).unwrap();
    }
    let source = folder.to_str().unwrap();
    cluster.ok(&[&["put", source], &CODE[..]].concat());
    let before = fs::read(folder.join("b")).unwrap();
    let mut edited = before.clone();
    edited[7] ^= 1;
    fs::write(folder.join("b"), &edited).unwrap();
    let put = |how| cluster.run(&[&["put", source, how], &CODE[..]].concat());
    let refused = put("--skip-existing");
    let is_said = refused.stderr.contains("an object 'd/b' already, with other bytes: --overwrite");
    assert!(is_said && refused.status == 2, "{}", refused.stderr);
    assert!(refused.stdout.contains("1 was there already"), "{}", refused.stdout);
    cluster.assert_reads("d/b", &before);

    let back = cluster.path("folder");
    let get = || {
        let got =
            cluster.json(&["get", "-r", "d", "-o", back.to_str().unwrap(), "--skip-existing"]);
        ["existing", "objects"].map(|key| got[key].as_array().unwrap().len())
    };
    assert_eq!(get(), [0, 2]);
    fs::write(back.join("b"), &edited).unwrap();
    assert_eq!(get(), [1, 1]);
    assert_eq!(fs::read(back.join("b")).unwrap(), before);
    assert_eq!(get(), [2, 0]);
}

#[test]
fn nothing_is_written_through_links_in_a_folder_nor_into_what_is_no_file() {
    let cluster = Cluster::of(3);
    for name in ["d/link/x", "d/file", "d/pipe", "d/plain"] {
        cluster.put(name, 20_000, &CODE);
    }
    let (back, elsewhere) = (cluster.path("folder"), cluster.path("elsewhere"));
    [&back, &elsewhere].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    fs::write(elsewhere.join("kept"), "kept").unwrap();
    std::os::unix::fs::symlink(&elsewhere, back.join("link")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("kept"), back.join("file")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(back.join("pipe")).status().unwrap().success()
    );
    let got = cluster.run(&["get", "-r", "d", "-o", back.to_str().unwrap()]);
    assert_eq!(got.status, 2, "{}", got.stderr);
    for said in ["link' is a link", "file' is a link", "pipe' is neither a file nor a folder"] {
        assert!(got.stderr.contains(said), "{}", got.stderr);
    }
    assert_eq!(fs::read(elsewhere.join("kept")).unwrap(), b"kept");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    assert_eq!(fs::metadata(back.join("plain")).unwrap().len(), 20_000);
    // The folder itself may be a link: it was named.
    let link = cluster.path("by-link");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    cluster.ok(&["get", "-r", "d", "-o", link.to_str().unwrap()]);
    assert_eq!(fs::metadata(elsewhere.join("link/x")).unwrap().len(), 20_000);
}

#[test]
fn an_object_is_overwritten_whole_or_stays_as_it_was() {
    let cluster = Cluster::of(3);
    let (first, second) = (noise(300_000), noise(200_001));
    let source = cluster.path("source").display().to_string();
    let put = |content: &[u8], how: &[&str]| {
        fs::write(&source, content).unwrap();
        cluster.run(&[&["put", &source, "--name", "x"], how, &CODE[..]].concat())
    };
    let new = put(&first, &["--overwrite"]);
    assert_eq!(new.status, 0, "nothing needs to have the name: {}", new.stderr);
    let refused = put(&second, &[]);
    let is_said =
        refused.stderr.contains("an object 'x' already: --overwrite puts this one in its");
    assert!(is_said && refused.status == 2, "{}", refused.stderr);
    cluster.assert_reads("x", &first);

    let chunks = || (0..3).map(|agent| cluster.chunks(agent).len()).sum::<usize>();
    let done = put(&second, &["--overwrite"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(names(&cluster), ["x"]);
    let audited = fs::read_to_string(cluster.path("coordinator/audit.jsonl")).unwrap();
    let asked = |to: &str| audited.matches(&format!("\"to\":\"{to}\"")).count();
    assert_eq!((asked("put objects"), asked("overwrite objects")), (1, 2));
    cluster.assert_reads("x", &second);
    cluster.wait("the former one's chunks go", |_| chunks() == 3);
    cluster.assert_reads("x", &second);

    // Killed when part of it is stored.
    let mut killed = interruptible();
    killed.args(["put", "-", "--name", "x", "--overwrite", "--chunk-size", "64KiB"]).args(CODE);
    killed.env("SUTURE_COORDINATOR", &cluster.address).stdin(Stdio::piped());
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    killed.stdin.as_mut().unwrap().write_all(&noise(400_000)).unwrap();
    cluster.wait("some of it is stored", |_| chunks() > 3);
    kill_process(Pid::from_child(&killed), Signal::KILL).unwrap();
    killed.wait().unwrap();
    cluster.wait_healthy();
    cluster.assert_reads("x", &second);
}

#[test]
fn a_file_that_exists_is_kept_where_that_is_wanted() {
    let cluster = Cluster::of(3);
    let content = cluster.put("many/a", 1000, &CODE);
    cluster.put("many/b", 2000, &CODE);
    let back = cluster.path("back");
    fs::create_dir(&back).unwrap();
    fs::write(back.join("a"), "mine").unwrap();
    let into = back.display().to_string();
    let one = cluster.run(&["get", "many/a", "-o", &into, "--no-clobber"]);
    let is_said = one.stderr.contains("is there already, and is to be kept");
    assert!(is_said && one.status == 2, "{}", one.stderr);
    let all = cluster.run(&["get", "-r", "many", "-o", &into, "--no-clobber"]);
    assert!(all.status == 2 && all.stderr.contains("back/a' is there already"), "{}", all.stderr);
    assert_eq!(fs::read(back.join("a")).unwrap(), b"mine");
    assert_eq!(fs::metadata(back.join("b")).unwrap().len(), 2000, "it keeps no other");
    cluster.ok(&["get", "many/a", "-o", &into]);
    assert_eq!(fs::read(back.join("a")).unwrap(), content);
}

#[test]
fn what_would_be_removed_is_said_and_stays() {
    let cluster = Cluster::of(3);
    ["many/a", "many/b", "one"].iter().for_each(|name| drop(cluster.put(name, 2048, &CODE)));
    let said = cluster.ok(&["rm", "-r", "many", "--dry-run"]);
    assert!(said.contains("many/a: would be removed, 2.00 KiB"), "{said}");
    assert!(said.contains("2 objects of 4.00 KiB in all would be removed, nothing is"), "{said}");
    let twice = cluster.ok(&["rm", "-r", "many", "many/a", "--dry-run"]);
    assert!(twice.contains("2 objects of 4.00 KiB in all would be removed"), "once each: {twice}");
    let said = cluster.run(&["rm", "one", "nope", "--dry-run", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&listed["would_remove"][0]["name"], said.status), (&"one".into(), 2));
    assert_eq!(listed["failed"][0]["name"], "nope");
    assert_eq!(names(&cluster), ["many/a", "many/b", "one"]);
    // There is no question where no operator could answer.
    cluster.ok(&["rm", "-r", "many", "many/a"]);
    assert_eq!(names(&cluster), ["one"]);
}
