//! What `-o` names is written, replaced or refused, and nothing is left of what was interrupted.
//!
//! Place: the last step of commands that write files, with a cluster of real processes behind them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemons::{Cluster, TIMEOUT, count, interruptible, suture};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

/// An upload of 2 MiB through a link this slow leaves time to interrupt it.
const SLOW: &str = "uplink = '4Mbit'";

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn get_writes_into_what_is_no_regular_file_and_never_replaces_it() {
    let cluster = Cluster::of(4);
    let content = cluster.put("it", 300_000, &["--code", "rs(2,1)"]);
    let get = |output: &str| {
        let path = cluster.path(output);
        cluster.run(&["get", "it", "-o", path.to_str().unwrap()])
    };

    let fifo = cluster.path("fifo");
    make_fifo(&fifo);
    let read = fs::File::create(cluster.path("read")).unwrap();
    let mut reader = Command::new("cat").arg(&fifo).stdout(read).spawn().unwrap();
    assert_eq!(get("fifo").status, 0);
    assert!(reader.wait().unwrap().success());
    assert!(fs::read(cluster.path("read")).unwrap() == content, "the FIFO's reader has it");
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());

    symlink("/dev/null", cluster.path("null")).unwrap();
    symlink("/dev/full", cluster.path("full")).unwrap();
    assert_eq!(get("null").status, 0);
    let full = get("full");
    assert_eq!(full.status, 1);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
    for (link, device) in [("null", "/dev/null"), ("full", "/dev/full")] {
        assert!(fs::symlink_metadata(cluster.path(link)).unwrap().is_symlink());
        assert!(fs::metadata(device).unwrap().file_type().is_char_device(), "{device}");
    }

    let _socket = UnixListener::bind(cluster.path("socket")).unwrap();
    symlink("nowhere", cluster.path("dangling")).unwrap();
    for (refused, why) in [("socket", "cannot write"), ("dangling", "a link to a file that is not")]
    {
        let got = get(refused);
        assert_eq!(got.status, 2, "{refused}: {}", got.stderr);
        assert!(got.stderr.contains(why), "{}", got.stderr);
    }
    assert!(fs::symlink_metadata(cluster.path("socket")).unwrap().file_type().is_socket());
    assert!(fs::symlink_metadata(cluster.path("dangling")).unwrap().is_symlink());

    fs::write(cluster.path("file"), "old").unwrap();
    symlink("file", cluster.path("link")).unwrap();
    assert_eq!(get("link").status, 0);
    assert!(fs::symlink_metadata(cluster.path("link")).unwrap().is_symlink());
    assert!(fs::read(cluster.path("file")).unwrap() == content);

    fs::create_dir(cluster.path("folder")).unwrap();
    make_fifo(&cluster.path("folder/it"));
    let reader = Command::new("cat").arg(cluster.path("folder/it")).stdout(Stdio::null()).spawn();
    assert_eq!(get("folder").status, 0);
    assert!(reader.unwrap().wait().unwrap().success());
    assert!(fs::metadata(cluster.path("folder/it")).unwrap().file_type().is_fifo());
}

#[test]
fn an_object_that_is_not_what_was_stored_names_the_stripe_that_is_wrong() {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 300_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    cluster.coordinator.stop();
    let metadata = rusqlite::Connection::open(cluster.path("coordinator/metadata.db")).unwrap();
    // As if other bytes had been stored; the sums of both rows are made anew at the start.
    for change in [
        "UPDATE object SET checksum = checksum + 1, sum = NULL",
        "UPDATE stripe SET checksum = checksum + 1, sum = NULL WHERE ordinal = 1",
    ] {
        assert_eq!(metadata.execute(change, []).unwrap(), 1, "{change}");
    }
    drop(metadata);
    cluster.restart_coordinator();
    cluster.wait("all agents are up", |status| count(status, "up") == 3);
    let file = cluster.path("file").display().to_string();
    for (output, what) in [("-", "what was given out is wrong"), (&*file, "nothing of it was kept")]
    {
        let got = cluster.run(&["get", "it", "-o", output]);
        let said = format!("(bytes 131072 to 262143); {what}");
        let is_said = got.stderr.contains("wrong is stripe ") && got.stderr.contains(&said);
        assert!(is_said && got.status == 3, "{}: {}", got.status, got.stderr);
    }
    assert!(!Path::new(&file).exists());
}

#[test]
fn a_small_object_that_standard_output_does_not_take_is_a_failure() {
    let cluster = Cluster::of(3);
    cluster.put("small", 7, &["--code", "rs(2,1)"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut get = suture();
    get.args(["get", "small", "-o", "-"]).env("SUTURE_COORDINATOR", &cluster.address);
    let got = get.stdout(full).output().unwrap();
    assert_eq!(got.status.code(), Some(1), "{got:?}");
}

/// The reader of a pipe is slow, and meanwhile the object goes, or another one gets its name.
#[test]
fn an_object_that_is_removed_or_replaced_while_it_is_read_is_said_to_be_so() {
    let cluster = Cluster::of(3);
    for (is_replaced, status, why) in [
        (false, 2, "it was removed while it was read"),
        (true, 1, "another object has got this name"),
    ] {
        cluster.put("it", 48 << 20, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
        let mut command = suture();
        command.args(["get", "it", "-o", "-", "--coordinator", &cluster.address]);
        let mut get = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = get.stdout.take().unwrap();
        output.read_exact(&mut [0; 1 << 16]).unwrap();
        cluster.ok(&["rm", "it"]);
        if is_replaced {
            cluster.put("it", 100, &["--code", "rs(2,1)"]);
        }
        let is_gone = || (0..3).all(|agent| cluster.chunks(agent).len() <= 1);
        wait(is_gone);
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        let ended = get.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(status), "{said}");
        assert!(said.contains("cannot get 'it'") && said.contains(why), "{said}");
        if is_replaced {
            cluster.ok(&["rm", "it"]);
        }
    }
}

#[test]
fn an_interrupted_get_leaves_nothing_however_it_ends() {
    let cluster = Cluster::with(3, SLOW);
    cluster.put("it", 2 << 20, &["--code", "rs(2,1)"]);
    let folder = cluster.path("to");
    fs::create_dir(&folder).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut get = interruptible();
        get.args(["get", "it", "-o", "to/it"]).current_dir(cluster.folder.path());
        let mut get = start(&cluster, get);
        wait_until_it_writes(&get, &folder);
        kill_process(Pid::from_child(&get), signal).unwrap();
        assert!(!get.wait().unwrap().success());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{signal:?} left something");
    }
}

/// Without `/proc` a file cannot get its name later, so it has one from the start.
#[test]
fn where_files_need_a_name_signals_remove_it_and_the_next_process_what_a_crash_left() {
    let cluster = Cluster::with(3, SLOW);
    let content = cluster.put("it", 2 << 20, &["--code", "rs(2,1)"]);
    let folder = cluster.path("to");
    fs::create_dir(&folder).unwrap();
    let without_proc = || {
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs none /proc && exec env --default-signal=INT \"$@\"";
        command.args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_suture")]);
        command.args(["get", "it", "-o", "to/it"]).current_dir(cluster.folder.path());
        command
    };
    let mut probe = Command::new("unshare");
    probe.args(["-rm", "sh", "-c", "mount -t tmpfs none /proc"]);
    if !probe.status().is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: needs mount namespaces (unshare -rm)");
        return;
    }
    let entries = || fs::read_dir(&folder).unwrap().count();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut get = start(&cluster, without_proc());
        wait(|| entries() == 1);
        kill_process(Pid::from_child(&get), signal).unwrap();
        assert!(!get.wait().unwrap().success());
        assert_eq!(entries(), usize::from(signal == Signal::KILL), "{signal:?}");
    }
    assert!(start(&cluster, without_proc()).wait().unwrap().success());
    assert_eq!(entries(), 1, "what the killed one left is gone");
    assert!(fs::read(folder.join("it")).unwrap() == content);
}

#[test]
fn an_interrupted_decode_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // It takes a while: the signal comes when the output has begun.
    fs::write(at("source"), vec![7; 128 << 20]).unwrap();
    let mut encode = suture();
    encode.args(["encode", "source", "--code", "rs(2,1)", "--chunk-size", "8MiB", "-o", "e"]);
    assert!(encode.current_dir(folder.path()).output().unwrap().status.success());
    fs::create_dir(at("to")).unwrap();
    for signal in [Signal::INT, Signal::KILL] {
        let mut decode = interruptible();
        decode.args(["decode", "e", "-o", "to/it"]).current_dir(folder.path());
        let mut decode = decode.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until_it_writes(&decode, &at("to"));
        kill_process(Pid::from_child(&decode), signal).unwrap();
        assert!(!decode.wait().unwrap().success());
        assert_eq!(fs::read_dir(at("to")).unwrap().count(), 0, "{signal:?} left something");
    }
}

fn start(cluster: &Cluster, mut command: Command) -> Child {
    let command = command.env("SUTURE_COORDINATOR", &cluster.address);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the process has a file open in the folder, whether it has a name or not.
fn wait_until_it_writes(child: &Child, folder: &Path) {
    let folder = fs::canonicalize(folder).unwrap();
    wait(|| {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let mut targets = open.flat_map(|entry| fs::read_link(entry.path()));
        targets.any(|target| target.starts_with(&folder))
    });
}

fn wait(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < TIMEOUT, "not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}
