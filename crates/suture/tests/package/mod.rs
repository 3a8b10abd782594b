//! The package: built from this binary, unpacked in a root of its own, looked at with the tools
//! that would install it, and tried; and what else is shipped: units, an image, the same bytes
//! again. What cannot be tried here is skipped, loudly.
#![forbid(unsafe_code)]

mod builds;
mod container;
mod stand_ins;
mod units;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn is_here(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("SKIPPED: {tool} is not here"));
    }
    found
}

/// Past what keeps the output of tests that pass.
fn skipped(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[track_caller]
fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// Builds the package; twice, since it is to come out the same.
fn build(folder: &Path) -> PathBuf {
    let debs = ["first.deb", "second.deb"].map(|name| folder.join(name));
    for deb in &debs {
        let mut build = Command::new(workspace().join("packaging/build-deb"));
        build.arg(env!("CARGO_BIN_EXE_suture")).arg(deb).arg("none");
        ok(build.env("SOURCE_DATE_EPOCH", "1700000000"));
    }
    let [first, second] = debs;
    let told = |deb| ok(Command::new("dpkg-deb").arg("--info").arg(deb));
    let same = fs::read(&first).unwrap() == fs::read(&second).unwrap();
    assert!(same, "the packages differ: {} and {}", told(&first), told(&second));
    first
}

#[test]
fn the_package_has_what_a_machine_needs_and_its_binary_runs() {
    if !is_here("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let deb = build(folder.path());
    let root = folder.path().join("root");
    ok(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root));
    let binary = root.join("usr/bin/suture");
    for file in [
        "etc/suture/agent.toml",
        "etc/suture/coordinator.toml",
        "usr/lib/systemd/system/suture-agent.service",
        "usr/lib/systemd/system/suture-coordinator.service",
        "usr/share/man/man1/suture.1.gz",
        "usr/share/man/man1/suture-repair-start.1.gz",
        "usr/share/bash-completion/completions/suture",
        "usr/share/zsh/vendor-completions/_suture",
        "usr/share/fish/vendor_completions.d/suture.fish",
        "usr/share/doc/suture/runbooks.md",
        "usr/share/doc/suture/prometheus/suture-rules.yml",
        "usr/share/doc/suture/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file} is not in the package");
    }
    let field = |name| ok(Command::new("dpkg-deb").arg("-f").arg(&deb).arg(name));
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    let conffiles = ok(Command::new("dpkg-deb").arg("-I").arg(&deb).arg("conffiles"));
    assert!(conffiles.contains("/etc/suture/agent.toml"), "{conffiles}");
    assert_roots_own(&deb);
    assert_asks_for_its_library(&binary, &field("Depends"));

    let run = |args: &[&str]| ok(Command::new(&binary).args(args).current_dir(folder.path()));
    assert_eq!(run(&["--version"]).trim(), concat!("suture ", env!("CARGO_PKG_VERSION")));
    assert!(run(&["codes"]).contains("rs(6,3)"));
    for role in ["coordinator", "agent"] {
        let config = root.join(format!("etc/suture/{role}.toml"));
        let checked = run(&["config", "check", role, "--config", config.to_str().unwrap()]);
        assert!(checked.contains("can be used"), "{checked}");
    }
    fs::write(folder.path().join("data"), vec![7; 300_000]).unwrap();
    let how = ["--agents", "6", "--code", "rs(3,2)", "--chunk-size", "64KiB", "--link", "50Mbit"];
    let shown = run(&[&["demo", "--data", "data", "--policy", "cr"], &how[..]].concat());
    assert!(shown.contains("repaired"), "{shown}");
    is_installed_as_units_say(&root);
}

/// All that is packed is root's, for all users to read and for no other to change.
fn assert_roots_own(deb: &Path) {
    let listed = ok(Command::new("dpkg-deb").arg("-c").arg(deb));
    for line in listed.lines() {
        let mut words = line.split_whitespace();
        let (mode, owner) = (words.next().unwrap(), words.next().unwrap());
        let wanted = if mode.starts_with('d') {
            "drwxr-xr-x"
        } else if line.ends_with("/usr/bin/suture") {
            "-rwxr-xr-x"
        } else {
            "-rw-r--r--"
        };
        assert_eq!((mode, owner), (wanted, "root/root"), "{line}");
    }
}

/// The C library that the package depends on is the oldest that the binary runs with.
fn assert_asks_for_its_library(binary: &Path, depends: &str) {
    if !is_here("readelf") {
        return;
    }
    let needs = ok(Command::new("readelf").arg("--version-info").arg(binary));
    let minor = |rest: &str| {
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|text| text.parse::<u32>().ok())
    };
    let newest = needs.split("GLIBC_2.").skip(1).filter_map(minor).max().expect("a C library");
    assert!(depends.contains(&format!("libc6 (>= 2.{newest})")), "2.{newest}: {depends}");
}

/// The user, the folders and the units, made and verified in the root.
fn is_installed_as_units_say(root: &Path) {
    if is_here("systemd-sysusers") {
        ok(Command::new("systemd-sysusers").arg("--root").arg(root).arg("suture.conf"));
        let users = fs::read_to_string(root.join("etc/passwd")).unwrap();
        assert!(users.lines().any(|line| line.starts_with("suture:")), "{users}");
    }
    if is_here("systemd-tmpfiles") {
        let mut make = Command::new("systemd-tmpfiles");
        let output = make.arg("--root").arg(root).args(["--create", "suture.conf"]).output();
        // A user other than root may give nothing to another user.
        let output = output.unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert!(output.status.success() || !is_root, "{}", said(&output));
    }
    if is_here("systemd-analyze") {
        // What comes before and after these units is the machine's own.
        let units = root.join("usr/lib/systemd/system");
        for entry in fs::read_dir("/usr/lib/systemd/system").into_iter().flatten().flatten() {
            let name = entry.file_name();
            if [".target", ".slice"].iter().any(|kind| name.to_string_lossy().ends_with(kind)) {
                // Some are links to others.
                let _ = fs::copy(entry.path(), units.join(name));
            }
        }
        // So is the program that sends signals.
        let kill = root.join("bin/kill");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy("/bin/kill", kill).expect("procps or util-linux is here");
        for unit in ["suture-coordinator.service", "suture-agent.service"] {
            let mut verify = Command::new("systemd-analyze");
            verify.arg("--root").arg(root).arg("verify").arg("--man=no");
            let output = verify.arg(format!("/usr/lib/systemd/system/{unit}")).output().unwrap();
            let said = said(&output);
            assert!(output.status.success() && !said.contains(unit), "{unit}: {said}");
        }
    }
}

#[test]
fn the_package_is_installed_used_upgraded_removed_and_purged_in_a_root_of_its_own() {
    let check = workspace().join("packaging/check");
    let tried = ok(Command::new(check).arg("--if-there").arg(env!("CARGO_BIN_EXE_suture")));
    tried.lines().filter(|line| line.contains("SKIPPED")).for_each(skipped);
}

#[test]
fn a_package_of_nothing_is_refused() {
    let build = workspace().join("packaging/build-deb");
    for (args, why) in [
        (&["/nonexistent", "x.deb"][..], "/nonexistent is not a program: build it first"),
        (&[], "usage: packaging/build-deb BINARY OUT.deb"),
    ] {
        let output = Command::new(&build).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}
