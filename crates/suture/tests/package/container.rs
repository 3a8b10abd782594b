//! The image: its recipe is read, for what it copies has to be there, and its scripts are tried,
//! with a stand-in for the engine of containers.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::stand_ins::StandIns;
use super::{said, workspace};
use crate::daemons::Process;

/// What packaging/dist leaves, which no checkout has.
const BUILT: &str = "target/dist/suture";

fn read(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap()
}

/// The instructions of the recipe, each in a line.
fn instructions() -> Vec<String> {
    let text = read("packaging/Containerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// What the last instruction of a kind says.
fn last(kind: &str) -> String {
    let found = instructions().into_iter().rev();
    let mut found = found.filter_map(|line| Some(line.strip_prefix(kind)?.trim().to_owned()));
    found.next().unwrap_or_else(|| panic!("there is no {kind}"))
}

/// Entries of the folder of sources that no image is built from.
fn ignored() -> Vec<String> {
    let text = read(".containerignore");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn all_that_the_image_is_made_of_is_among_the_sources() {
    let ignored = ignored();
    let is_sent =
        |path: &str| !ignored.iter().any(|entry| path.split('/').next() == Some(entry.as_str()));
    let mut count = 0;
    for line in instructions().iter().filter_map(|line| line.strip_prefix("COPY ")) {
        let words: Vec<&str> = line.split_whitespace().filter(|w| !w.starts_with("--")).collect();
        let (_, sources) = words.split_last().expect("where to");
        for source in sources.iter().filter(|source| **source != ".") {
            let path = source.strip_prefix("/suture/").unwrap_or_else(|| panic!("{line}"));
            if path != BUILT {
                count += 1;
                assert!(workspace().join(path).is_file(), "{path} is not there");
                assert!(is_sent(path), "{path} is in .containerignore");
            }
        }
    }
    assert!(count > 4, "{count} files");
    for path in ["Cargo.toml", "Cargo.lock", "crates", "config", "packaging/dist"] {
        assert!(is_sent(path), "{path} is in .containerignore");
    }
    for path in ["target", ".git"] {
        assert!(!is_sent(path), "{path} is sent to whoever builds the image");
    }
    // Docker reads that name.
    assert_eq!(read(".dockerignore"), read(".containerignore"));
}

#[test]
fn the_image_runs_as_nobody_in_particular_and_ends_in_order() {
    assert_eq!(last("USER "), "7400:7400");
    assert!(last("RUN ").contains("--uid 7400 --gid 7400"), "{}", last("RUN "));
    assert_eq!(last("VOLUME "), "/var/lib/suture");
    assert_eq!(last("STOPSIGNAL "), "SIGTERM");
    // Without a shell between, signals reach the daemon.
    assert_eq!(last("ENTRYPOINT "), "[\"/usr/bin/suture\"]");
    let health = last("HEALTHCHECK ");
    assert!(health.ends_with("CMD [\"/usr/lib/suture/healthy\"]"), "{health}");
    assert!(instructions().iter().any(|line| line.ends_with(" /usr/lib/suture/healthy")));
}

#[test]
fn the_image_is_built_by_the_compiler_of_the_sources_on_the_debian_that_it_runs_on() {
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().unwrap();
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    let stages: Vec<String> =
        instructions().into_iter().filter(|line| line.starts_with("FROM ")).collect();
    let [build, run] = &stages[..] else { panic!("{stages:?}") };
    let (_, debian) = build.split_once(&format!("/rust:{channel}-")).expect("that compiler");
    let (debian, _) = debian.split_once(' ').expect("a name");
    assert!(run.contains(&format!("/debian:{debian}")), "{stages:?}");
    assert_eq!(last("ENV RUSTUP_TOOLCHAIN="), channel);
}

#[track_caller]
fn assert_answer(output: &Output, status: i32, text: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    assert!(said(output).contains(text), "{}", said(output));
}

#[test]
fn the_health_check_sees_whether_a_daemon_listens() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("coordinator.toml");
    let data = folder.path().join("data");
    let listen = |address: &str| {
        let keys = format!("listen = '{address}'\ndata_dir = '{}'\n", data.display());
        fs::write(&config, keys).unwrap();
    };
    let stand_ins = StandIns::of(&[]);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_suture"), stand_ins.path("suture")).unwrap();
    let ask = |process: u32| -> Output {
        let mut healthy = stand_ins.command(&workspace().join("packaging/healthy"));
        healthy.arg(process.to_string()).output().unwrap()
    };

    listen("127.0.0.1:0");
    let (mut coordinator, address) = Process::start("coordinator", &config);
    listen(&address);
    let id = coordinator.0.id();
    assert_answer(&ask(id), 0, &format!("the coordinator listens on {address}"));
    listen("127.0.0.1:1");
    assert_answer(&ask(id), 1, "nobody listens on 127.0.0.1:1");
    listen("nowhere");
    assert_ne!(ask(id).status.code(), Some(0), "it cannot be told");
    coordinator.stop();
    assert_answer(&ask(id), 1, &format!("there is no process {id}"));
    let other = Process(Command::new("sleep").arg("60").spawn().unwrap());
    assert_answer(&ask(other.0.id()), 0, "no daemon");
}

/// An engine that writes down what it is asked for.
const ENGINE: &str = r#"
echo "$*" >>"$CALLS"
case $* in
    *" -u") echo 7400 ;;
    inspect*) echo "$ENDED" ;;
esac
"#;

/// Builds the image with an engine whose containers end like that.
fn build_image(calls: &Path, ended: &str) -> Output {
    let engines = StandIns::of(&[("podman", ENGINE)]);
    let mut build = engines.command(&workspace().join("packaging/build-image"));
    build.arg("image").env("CALLS", calls).env("ENDED", ended).output().unwrap()
}

#[test]
fn an_image_is_built_tried_and_its_container_removed() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let output = build_image(&calls, "0");
    assert!(output.status.success(), "{}", said(&output));
    let asked = fs::read_to_string(&calls).unwrap();
    let sources = workspace().display().to_string();
    for call in [
        format!("build --file {sources}/packaging/Containerfile --tag image"),
        format!("--format docker {sources}\n"),
        "run --read-only --cap-drop all --security-opt no-new-privileges --rm image".into(),
        "/usr/lib/suture/healthy".into(),
        "stop -t 30 suture-try-".into(),
        "rm --force --volumes suture-try-".into(),
    ] {
        assert!(asked.contains(&call), "{call} is not in {asked}");
    }
    let killed = build_image(&calls, "137");
    assert_eq!(killed.status.code(), Some(1), "{}", said(&killed));
    assert!(said(&killed).contains("exit status 137"), "{}", said(&killed));
}

#[test]
fn without_an_engine_there_is_no_image_and_that_is_said() {
    let none = StandIns::of(&["podman", "docker", "buildah"].map(|name| (name, "exit 1")));
    let build = |args: &[&str]| {
        none.command(&workspace().join("packaging/build-image")).args(args).output().unwrap()
    };
    let why = "neither podman nor docker nor buildah works here";
    assert_answer(
        &build(&["--if-there"]),
        0,
        &format!("SKIPPED: packaging/build-image, because {why}"),
    );
    assert_answer(&build(&[]), 2, why);
}
