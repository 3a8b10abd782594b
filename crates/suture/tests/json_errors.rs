//! With `--format json` a command prints exactly one JSON object, also when it fails.
//!
//! Place: at the end of every command, before scripts.

use std::fs;

use crate::daemons::{Cluster, Finished, finish, noise, suture};
use serde_json::{Value, json};

/// The one JSON object that was printed, as the same command ended with it.
fn object(finished: &Finished, status: i32) -> Value {
    let Finished { stdout, stderr, .. } = finished;
    assert_eq!(finished.status, status, "{stdout}{stderr}");
    assert!(!stderr.is_empty(), "people are told as well");
    serde_json::from_str(stdout).unwrap_or_else(|why| panic!("{why}: '{stdout}'"))
}

fn assert_error(finished: &Finished, status: i32, error: &str) {
    let found = object(finished, status);
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["error", "format", "status"], "{found}");
    assert_eq!(found["status"], status, "{found}");
    let text = found["error"].as_str().unwrap();
    assert!(text.contains(error) && !text.contains('\n'), "{text}");
}

#[test]
fn a_command_line_that_fails_is_answered_in_json() {
    let nobody = "--coordinator=127.0.0.1:1";
    for (args, status, error) in [
        ("ls --format json --foo", 2, "unexpected argument '--foo'"),
        ("--format json ls", 2, "unexpected argument '--format'"),
        ("stauts --format=json", 2, "unrecognized subcommand 'stauts'"),
        ("get it --format json", 2, "required arguments were not provided: --output <FILE>"),
        ("get it -o - --format json", 2, "standard output cannot hold both"),
        ("put /nonexistent --format json", 2, "cannot read '/nonexistent'"),
        ("plan --nodes 3 --stripes 1 --code rs(6,3) --failed n0 --format json", 2, "too few"),
        ("verify /nonexistent --format json", 2, "/nonexistent"),
        (
            "encode /nonexistent --code rs(2,1) --chunk-size 64 -o d --format json",
            2,
            "/nonexistent",
        ),
        ("decode /nonexistent -o f --format json", 2, "/nonexistent"),
        ("decode /nonexistent -o - --format json", 2, "standard output cannot hold both"),
        ("rebuild /nonexistent --format json", 2, "/nonexistent"),
        ("rebuild /nonexistent --report json", 2, "/nonexistent"),
        ("demo --agents 3 --format json", 2, "--agents must be"),
        ("config check agent --config Cargo.toml --format json", 2, ": unknown field `bench`"),
        ("coordinator --format json", 2, "unexpected argument '--format'"),
    ] {
        assert_error(&finish(suture().args(args.split(' '))), status, error);
    }
    for command in ["status", "ls", "stat it", "rm it", "node list", "repair status", "scrub"] {
        let args = command.split(' ').chain([nobody, "--format=json"]);
        assert_error(&finish(suture().args(args)), 1, "start a coordinator");
    }
}

#[test]
fn what_became_of_an_encoded_file_is_one_object() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(1000)).unwrap();
    let done = |args: &str, status| {
        let args = args.split(' ').chain(["--format", "json"]);
        let finished = finish(suture().current_dir(folder.path()).args(args));
        assert_eq!(finished.status, status, "{}", finished.stderr);
        let found: Value = serde_json::from_str(&finished.stdout).expect("one object");
        assert_eq!(found["format"], "suture-1", "{found}");
        found
    };
    let encoded = done("encode file --code rs(2,1) --chunk-size 256 -o d", 0);
    assert_eq!((&encoded["file_bytes"], &encoded["stripe_count"]), (&1000.into(), &2.into()));
    assert_eq!(encoded["stored_bytes"], 2 * 3 * 256);
    fs::remove_file(folder.path().join("d/stripe.00001/chunk.00")).unwrap();
    let decoded = done("decode d -o back", 0);
    assert_eq!(decoded["bad"], json!([{ "stripe": 1, "chunk": 0, "state": "missing" }]));
    assert_eq!(decoded["is_written"], true);
    fs::remove_file(folder.path().join("d/stripe.00001/chunk.02")).unwrap();
    let lost = done("decode d -o never", 3);
    assert_eq!(
        (&lost["is_written"], &lost["unrepairable"][0]["stripe"]),
        (&false.into(), &1.into())
    );
    assert!(!folder.path().join("never").exists());
    assert_eq!(done("rebuild d", 3)["unrepairable"][0]["lost"], json!([0, 2]));
}

#[test]
fn who_asks_for_text_or_help_gets_no_json() {
    for (args, status) in [
        ("ls --foo", 2),
        ("ls --format text --foo", 2),
        ("ls --coordinator 127.0.0.1:1", 1),
        ("rm --coordinator=127.0.0.1:1 -- --format json", 1),
    ] {
        let finished = finish(suture().args(args.split(' ')));
        assert_eq!((finished.status, finished.stdout.as_str()), (status, ""), "{args}");
    }
    let help = finish(suture().args(["ls", "--format", "json", "--help"]));
    assert!(help.status == 0 && !help.stdout.contains("error"), "{}", help.stdout);
}

#[test]
fn a_command_on_several_things_lists_what_failed_in_its_own_object() {
    let cluster = Cluster::of(3);
    let folder = cluster.path("many");
    fs::create_dir(&folder).unwrap();
    ["a", "b", "b-not\n"].iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
    let folder = folder.to_str().unwrap();
    let run = |args: &[&str]| cluster.run(&[args, &["--format", "json"]].concat());
    let names = |list: &Value| {
        let names = list.as_array().unwrap().iter();
        names.map(|entry| entry["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };

    let code = ["--code", "rs(2,1)"];
    let put = object(&run(&[&["put", folder], &code[..]].concat()), 2);
    assert_eq!(names(&put["objects"]), ["many/a", "many/b"]);
    assert_eq!(put["failed"].as_array().unwrap().len(), 1, "{put}");
    assert_error(&run(&[&["put", folder], &code[..]].concat()), 2, "2 of 2 names are taken");
    let put = object(&run(&[&["put", folder, "--skip-existing"], &code[..]].concat()), 2);
    assert_eq!(put["existing"], json!(["many/a", "many/b"]));
    assert_eq!(names(&put["objects"]), [""; 0]);

    assert_error(&run(&["get", "nope", "-o", "/dev/null"]), 2, "there is no object 'nope'");
    assert_error(&run(&["stat", "nope"]), 2, "there is no object 'nope'");
    assert_error(&run(&["node", "fail", "nope"]), 2, "there is no node 'nope'");
    let target = cluster.path("back");
    let target = target.to_str().unwrap();
    assert_error(&run(&["get", "-r", "nope", "-o", target]), 2, "none begins with 'nope/'");
    fs::create_dir_all(cluster.path("back/a")).unwrap();
    let get = object(&run(&["get", "-r", "many", "-o", target]), 2);
    assert_eq!(
        (names(&get["objects"]), names(&get["failed"])),
        (vec!["many/b".into()], vec!["many/a".into()])
    );
    assert_eq!(fs::read(cluster.path("back/b")).unwrap(), b"b");

    let rm = object(&run(&["rm", "many/a", "nope"]), 2);
    assert_eq!(
        (names(&rm["removed"]), names(&rm["failed"])),
        (vec!["many/a".into()], vec!["nope".into()])
    );
    assert!(rm["failed"][0]["error"].as_str().unwrap().contains("there is no object 'nope'"));
    let rm = object(&run(&["rm", "-r", "nope", "many"]), 2);
    assert_eq!(
        (names(&rm["removed"]), names(&rm["failed"])),
        (vec!["many/b".into()], vec!["nope".into()])
    );
}
