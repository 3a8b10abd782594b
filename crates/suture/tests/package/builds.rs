//! What is built to be shipped: with no folder of the machine in it, twice the same, and the
//! release before. Compilers are stood in for; what they are given is looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::stand_ins::StandIns;
use super::{is_here, ok, said, skipped, workspace};

/// Builds a script that is good enough for a package, with what the compiler was given in it if
/// `TELL` asks for that, and with the folder that it was built in if `LEAK` does.
const CARGO: &str = r##"
while [ $# -gt 1 ]; do
    [ "$1" != --target-dir ] || target=$2
    shift
done
mkdir -p "$target/dist"
{
    echo '#!/bin/sh'
    echo 'case $1 in --version) echo suture 0.0.1 ;; man) : >"$2/suture.1" ;; *) echo "$2" ;; esac'
    [ -z "${LEAK-}" ] || echo "# $PWD"
    [ -z "${TELL-}" ] || echo "# $RUSTFLAGS; $CFLAGS; at $SOURCE_DATE_EPOCH${CARGO_ENCODED_RUSTFLAGS-}"
} >"$target/dist/suture"
chmod 0755 "$target/dist/suture"
"##;

const RUSTC: &str = r#"
case $* in *sysroot*) echo /toolchain ;; *) echo commit-hash: 0123 ;; esac
"#;

/// Builds a program of the version that the sources have.
const CARGO_OF_SOURCES: &str = r#"
case " $* " in *" --locked "*) ;; *) exit 1 ;; esac
while [ $# -gt 1 ]; do
    [ "$1" != --manifest-path ] || manifest=$2
    shift
done
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$manifest" | head -n 1)
mkdir -p "$CARGO_TARGET_DIR/debug"
printf '#!/bin/sh\necho suture %s\n' "$version" >"$CARGO_TARGET_DIR/debug/suture"
chmod 0755 "$CARGO_TARGET_DIR/debug/suture"
"#;

/// The script of dist, in a folder of sources.
fn dist_in(sources: &Path) -> PathBuf {
    let dist = sources.join("packaging/dist");
    fs::create_dir_all(sources.join("packaging")).unwrap();
    fs::copy(workspace().join("packaging/dist"), &dist).unwrap();
    dist
}

#[test]
fn compilers_are_told_to_name_no_folder_of_the_machine() {
    let stand_ins = StandIns::of(&[("cargo", CARGO), ("rustc", RUSTC)]);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let sources = folder.join("sources");
    let dist = dist_in(&sources);
    for target in [sources.join("target"), folder.join("elsewhere")] {
        let mut build = stand_ins.command(&dist);
        build.env("CARGO_HOME", "/registry").env("CARGO_TARGET_DIR", &target).env("TELL", "1");
        build.env("RUSTFLAGS", "--cfg given").env("CARGO_ENCODED_RUSTFLAGS", "nothing of this");
        ok(build.env("SOURCE_DATE_EPOCH", "1700000000"));
        let told = fs::read_to_string(target.join("dist/suture")).unwrap();
        for flag in ["--remap-path-prefix", "-ffile-prefix-map"] {
            let at = |from: &str, to: &str| {
                let found = told.find(&format!("{flag}={from}={to} "));
                found.unwrap_or_else(|| panic!("{flag} of {from} is not in {told}"))
            };
            let first = at(sources.to_str().unwrap(), "/suture");
            at("/registry", "/cargo");
            at("/toolchain/lib/rustlib/src/rust", "/rustc/0123");
            // The last that fits holds, and this one may lie within the first.
            assert!(first < at(target.to_str().unwrap(), "/target"), "{told}");
        }
        assert!(told.contains("--cfg given;"), "{told}");
        assert!(told.contains("at 1700000000\n"), "{told}");
    }
}

#[test]
fn a_folder_that_compilers_cannot_be_told_of_is_refused() {
    let stand_ins = StandIns::of(&[("cargo", CARGO), ("rustc", RUSTC)]);
    let folder = tempfile::tempdir().unwrap();
    let dist = dist_in(&folder.path().join("with space"));
    let output = stand_ins.command(&dist).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("cannot name folders with spaces"), "{}", said(&output));
}

/// Whether this is a checkout, with programs that pack what is built from it.
fn can_be_packed() -> bool {
    if !is_here("dpkg-deb") || !is_here("git") {
        return false;
    }
    let mut head = Command::new("git");
    head.arg("-C").arg(workspace()).args(["rev-parse", "--verify", "HEAD"]);
    let is_checkout = head.output().unwrap().status.success();
    if !is_checkout {
        skipped("SKIPPED: this is no checkout of git, so nothing is built from its commits");
    }
    is_checkout
}

#[test]
fn two_builds_are_compared_byte_for_byte() {
    if !can_be_packed() {
        return;
    }
    let stand_ins = StandIns::of(&[("cargo", CARGO), ("rustc", RUSTC), ("strip", "")]);
    let folder = tempfile::tempdir().unwrap();
    let compare = |leak: &str| -> Output {
        let mut command = stand_ins.command(&workspace().join("packaging/reproducible"));
        command.arg(folder.path()).env("LEAK", leak).output().unwrap()
    };
    let left = || fs::read_dir(folder.path()).unwrap().count();
    let same = compare("");
    assert!(same.status.success(), "{}", said(&same));
    for what in ["the same: binary", "the same: package"] {
        assert!(said(&same).contains(what), "{}", said(&same));
    }
    assert_eq!(left(), 0, "nothing is left");
    let other = compare("1");
    assert_eq!(other.status.code(), Some(1), "{}", said(&other));
    assert!(said(&other).contains("they differ; both are in"), "{}", said(&other));
    assert_eq!(left(), 1, "both can be looked at");
}

#[test]
fn the_release_before_is_built_from_its_commit() {
    if !is_here("git") {
        return;
    }
    let stand_ins = StandIns::of(&[("cargo", CARGO_OF_SOURCES)]);
    let folder = tempfile::tempdir().unwrap();
    let mut previous = stand_ins.command(&workspace().join(".ci/previous"));
    let output = previous.arg(folder.path()).output().unwrap();
    if said(&output).contains("this clone lacks commit") {
        return skipped("SKIPPED: this clone has not the release before");
    }
    assert!(output.status.success(), "{}", said(&output));
    let program = folder.path().join("debug/suture");
    let version = ok(Command::new(&program).arg("--version"));
    assert!(said(&output).contains(&format!("{}: {version}", program.display())), "{version}");
    assert_ne!(version.trim(), concat!("suture ", env!("CARGO_PKG_VERSION")));
}
