//! `suture replay`: of transcripts that are right, wrong, cut off or none, and of failing seeds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::run;
use crate::listed;

/// A golden transcript of the core.
fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suture-repair/testdata").join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_transcript_is_equal_different_cut_off_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("story.txt");
    let text = golden("coordinator-node-dies.txt");
    let replay = |text: &str| {
        fs::write(&path, text).unwrap();
        run(&["replay", "--format", "json"], &path)
    };
    let equal = replay(&text);
    assert_eq!((equal.status, &equal.json()["outcome"]), (0, &"equal".into()), "{equal:?}");
    assert_eq!(equal.json()["machine"], "coordinator");

    let different = replay(&text.replace("at generation 1", "at generation 3"));
    let report = different.json();
    assert_eq!((different.status, &report["outcome"]), (1, &"different".into()));
    assert!(report["expected"].as_str().unwrap().contains("generation 3"), "{report}");
    assert!(report["got"].as_str().unwrap().contains("generation 1"), "{report}");
    assert!(report["input"].as_str().unwrap().contains("stored repair 1.0"), "{report}");
    let line = report["line"].as_u64().unwrap() as usize;
    assert!(text.lines().nth(line - 1).unwrap().contains("commit"), "{report}");
    let shown = run(&["replay"], &path);
    assert!(shown.status == 1 && shown.stdout.contains("expected  commit"), "{shown:?}");

    let cut = replay(&text[..text.len() - 7]);
    assert_eq!((cut.status, &cut.json()["is_cut"]), (0, &true.into()), "{cut:?}");

    for none in ["", "no transcript\n", &text.replace("tick", "tack"), &text.replace("start", "go")]
    {
        let refused = replay(none);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.stderr.contains("is not a transcript"), "{refused:?}");
    }
    assert_eq!(run(&["replay"], Path::new("/nonexistent")).status, 2);
}

#[test]
fn an_input_that_the_machine_does_not_survive_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("story.txt");
    // No driver would speak of a node that was not added.
    let text = golden("coordinator-node-dies.txt") + "20.000s agent n99 holds []\n";
    fs::write(&path, &text).unwrap();
    let failed = run(&["replay", "--format", "json"], &path);
    let report = failed.json();
    assert_eq!((failed.status, &report["outcome"]), (1, &"assertion".into()), "{failed:?}");
    assert_eq!(report["input_line"].as_u64().unwrap() as usize, text.lines().count());
    assert_eq!(failed.stderr, "");
}

#[test]
fn a_failing_seed_is_made_smaller_and_its_file_shows_the_same_failure() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["swarm", "--seeds", "0..60", "--without", "checksums", "--format", "json"];
    let swarm = run(&[&args[..], &["--transcript"]].concat(), folder.path());
    assert_eq!(swarm.status, 1, "{swarm:?}");
    listed::JsonPage::read().check("suture swarm", &swarm.json());
    let first = &swarm.json()["failed"][0];
    let shrunk = &first["shrunk"];
    let size = |key: &str| shrunk[key].as_u64().unwrap();
    assert!(size("size") < size("size_before"), "{shrunk}");
    let file = folder.path().join(format!("swarm-{}.txt", first["seed"]));
    assert_eq!(shrunk["trial"], file.to_str().unwrap());
    let again = run(&["replay", "--format", "json"], &file);
    let report = again.json();
    listed::JsonPage::read().check("suture replay", &report);
    assert_eq!((again.status, &report["outcome"]), (1, &"broken".into()), "{again:?}");
    assert_eq!(
        (&report["rule"], &report["recorded"]),
        (&shrunk["violation"], &shrunk["violation"])
    );

    let machine = shrunk["machine"].as_str().expect("someone's doing");
    let machine = run(&["replay"], Path::new(machine));
    assert_eq!(machine.status, 0, "the machine did as it does: {machine:?}");

    // With its safeguard the same cluster comes to no harm.
    let text = fs::read_to_string(&file).unwrap().replace(" without-checksums", "");
    fs::write(&file, text).unwrap();
    let whole = run(&["replay", "--format", "json"], &file);
    assert_eq!((whole.status, &whole.json()["outcome"]), (0, &"whole".into()), "{whole:?}");
}

#[test]
fn a_daemon_that_ends_with_its_standard_input_has_recorded_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (config, recording) = (folder.path().join("config.toml"), folder.path().join("record.txt"));
    let settings = "listen = \"127.0.0.1:0\"\ndata_dir = \"DATA\"\n";
    let data = folder.path().join("data");
    fs::write(&config, settings.replace("DATA", data.to_str().unwrap())).unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_suture"))
        .args(["coordinator", "--until-stdin-closes", "--config", config.to_str().unwrap()])
        .args(["--record", recording.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    drop(daemon.stdin.take());
    assert!(daemon.wait().unwrap().success());
    let mode = fs::metadata(&recording).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it says what lies where");
    let replayed = run(&["replay", "--format", "json"], &recording);
    let report = replayed.json();
    assert_eq!((replayed.status, &report["is_cut"]), (0, &false.into()), "{replayed:?}");
    // What it was given before it listened has not waited a second for the file.
    assert!(report["inputs"].as_u64().unwrap() > 0, "{report}");
}
