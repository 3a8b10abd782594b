//! What commands print with `--format json` is what `docs/json.md` lists, field by field.
//!
//! Place: at the end of every command, before scripts. What takes long or needs root is compared in
//! the tests of its command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::daemons::{Cluster, Finished, count, finish, noise, start_agent, suture};
use crate::listed::JsonPage;
use crate::subcommands;
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(2,2)", "--chunk-size", "16KiB"];

/// So many commands at least print JSON.
const COMMANDS_MIN: usize = 40;

fn is_space(c: char) -> bool {
    c.is_whitespace() || ",[]".contains(c)
}

/// The words of all commands below this one that have `--format`, and its own if it has.
fn collect_with_json(chain: &[String], found: &mut Vec<String>) {
    let help = finish(suture().args(chain).arg("--help")).stdout;
    if help.split(is_space).any(|word| word == "--format") {
        found.push(chain.join(" "));
    }
    for name in subcommands::listed(&help).into_iter().filter(|name| name != "help") {
        collect_with_json(&[chain, &[name]].concat(), found);
    }
}

#[test]
fn every_command_that_prints_json_has_a_section() {
    let (page, mut commands) = (JsonPage::read(), Vec::new());
    collect_with_json(&[], &mut commands);
    assert!(commands.len() >= COMMANDS_MIN, "{commands:?}");
    for command in commands {
        assert!(page.has(&format!("suture {command}")), "docs/json.md lacks 'suture {command}'");
    }
}

/// All sources of the crates, one after the other.
fn read_sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            *into += &fs::read_to_string(&path).unwrap();
        }
    }
}

#[test]
fn every_listed_field_is_a_word_of_the_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut code = String::new();
    for name in ["suture", "suture-lab", "suture-drivers", "suture-files", "suture-repair"] {
        read_sources(&crates.join(name).join("src"), &mut code);
    }
    for name in JsonPage::read().names() {
        let is_there = code.contains(&format!("\"{name}\"")) || code.contains(&format!("{name}:"));
        assert!(is_there, "docs/json.md lists '{name}', which no code has");
    }
}

/// Runs a command in a folder, and compares what it prints with the section.
fn check_in(folder: &Path, page: &JsonPage, section: &str, args: &[&str]) {
    let command = args.iter().chain(&["--format", "json"]);
    let Finished { stdout, stderr, .. } = finish(suture().current_dir(folder).args(command));
    let printed: Value = serde_json::from_str(&stdout)
        .unwrap_or_else(|why| panic!("{args:?}: {why}: '{stdout}', {stderr}"));
    page.check(section, &printed);
}

#[test]
fn what_is_printed_of_files_is_listed() {
    let (page, folder) = (JsonPage::read(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    fs::write(folder.join("file"), noise(3000)).unwrap();
    let check = |section: &str, args: &str| {
        check_in(folder, &page, section, &args.split(' ').collect::<Vec<_>>());
    };
    check("suture encode", "encode file --code rs(2,1) --chunk-size 256 -o d");
    check("suture verify", "verify d");
    let stripe = |number: usize, name: &str| folder.join(format!("d/stripe.{number:05}/{name}"));
    fs::remove_file(stripe(0, "chunk.00.crc")).unwrap();
    fs::remove_file(stripe(1, "chunk.01")).unwrap();
    fs::write(folder.join("d/extra"), "").unwrap();
    check("suture verify", "verify d");
    check("suture decode", "decode d -o back");
    for chunk in ["chunk.00", "chunk.02"] {
        fs::remove_file(stripe(2, chunk)).unwrap();
    }
    check("suture decode", "decode d -o never");
    check("suture verify", "verify d");
    check("suture rebuild", "rebuild d");
    check("suture rebuild", "rebuild d --lost 1 --method trace");
    check("An error", "verify /nonexistent");
    check("An error", "ls --foo");
    check("suture codes", "codes rs(3,2) lrc(4,2,1)");
    check("suture codes search", "codes search rs(3,2) --seconds 0.1");
}

#[test]
fn what_is_printed_of_plans_and_simulations_is_listed() {
    let (page, folder) = (JsonPage::read(), tempfile::tempdir().unwrap());
    let check = |section: &str, args: &str| {
        check_in(folder.path(), &page, section, &args.split(' ').collect::<Vec<_>>());
    };
    let input = "--nodes 8 --stripes 20 --code rs(2,2) --failed n0 --chunk-size 1MiB";
    check("suture plan", &format!("plan {input} --racks 4"));
    check("suture plan", &format!("plan {input} --no-plans --policy repairboost+cr"));
    check("suture plan", "plan --nodes 5 --stripes 0 --code rs(2,2) --failed n0");
    check("suture plan --compare", &format!("plan {input} --compare"));
    check("suture simulate", &format!("simulate {input} --foreground ycsb-a:1"));
    check("suture simulate --compare", &format!("simulate {input} --compare"));
    let chances = "--nodes 8 --stripes 10 --code rs(2,2) --runs 10";
    check("suture durability", &format!("durability {chances} --racks 4 --rack-mttf 10y"));
    check("suture durability", &format!("durability {chances} --repair-time 12h"));
    check("suture durability --compare", &format!("durability {chances} --compare"));
    check("suture swarm", "swarm --seeds 0..1");
    check("suture reproduce", "reproduce");
}

#[test]
fn what_is_printed_of_configurations_and_credentials_is_listed() {
    let (page, folder) = (JsonPage::read(), tempfile::tempdir().unwrap());
    let check = |section: &str, args: &[&str]| check_in(folder.path(), &page, section, args);
    fs::write(folder.path().join("n.toml"), "name = 'n1'\ndata_dir = 'data'\n").unwrap();
    check("suture config check", &["config", "check", "agent", "--config", "n.toml"]);
    check("suture config show", &["config", "show", "agent", "--config", "n.toml"]);
    fs::write(folder.path().join("c.toml"), "[throttle]\nnodes = { n3 = '50Mbit' }\n").unwrap();
    check("suture config show", &["config", "show", "coordinator", "--config", "c.toml"]);
    check("suture cert init", &["cert", "init"]);
    let host = ["--coordinator", "--host", "localhost"];
    check("suture cert node", &[&["cert", "node", "c1"], &host[..]].concat());
    check("suture cert node", &["cert", "node", "n1"]);
    check("suture cert user", &["cert", "user", "team", "--role", "client"]);
    check("suture cert show", &["cert", "show", "n1"]);
    check("suture cert show", &["cert", "show", "team"]);
    check("suture cert revoke", &["cert", "revoke", "client team", "n1"]);
    check("suture cert rotate", &["cert", "rotate", "n1"]);
    check("suture cert rotate", &["cert", "rotate", "--finish", "--force", "n1"]);
}

/// Runs a command on the cluster, and compares what it prints with the section.
fn check_on(cluster: &Cluster, page: &JsonPage, section: &str, args: &[&str]) {
    page.check(section, &cluster.json(args));
}

#[test]
fn what_is_printed_of_a_cluster_with_a_dead_node_is_listed() {
    let page = JsonPage::read();
    let mut cluster = Cluster::of(0);
    for index in 0..4 {
        // Three of the four chunks of a stripe lie in one rack, and two may be lost.
        let rack = format!("rack = 'r{}'", index / 3);
        let agent = start_agent(cluster.folder.path(), &cluster.address, index, &rack);
        cluster.agents.push(agent);
    }
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    check_objects(&cluster, &page);
    assert!(cluster.json(&["status"])["crowded_stripes"].as_u64() > Some(0));
    let check = |cluster: &Cluster, section: &str, args: &[&str]| {
        check_on(cluster, &page, section, args);
    };
    check(&cluster, "suture scrub --wait", &["scrub", "--wait"]);
    check(&cluster, "suture scrub", &["scrub"]);
    cluster.agents[3].kill();
    // Each stripe has a chunk on each node, and no other node is there for what is lost.
    let status = cluster.wait("a node is lost", |status| status["state"] == "blocked");
    page.check("suture status", &status);
    check(&cluster, "suture df", &["df"]);
    check(&cluster, "suture stat", &["stat", "it"]);
    check(&cluster, "suture repair start --dry-run", &["repair", "start", "--dry-run"]);
    check(&cluster, "suture repair start --dry-run", &["repair", "start", "it", "--dry-run"]);
    check(&cluster, "suture repair start", &["repair", "start"]);
    for action in ["status", "pause", "resume", "cancel", "resume"] {
        check(&cluster, &format!("suture repair {action}"), &["repair", action]);
    }
    check_throttle(&cluster, &page);
    check_nodes(&cluster, &page);
}

/// What is stored and read while all is well.
fn check_objects(cluster: &Cluster, page: &JsonPage) {
    let check = |section: &str, args: &[&str]| check_on(cluster, page, section, args);
    let many = cluster.path("many");
    fs::create_dir(&many).unwrap();
    ["a", "b"].iter().for_each(|name| fs::write(many.join(name), name).unwrap());
    symlink("nowhere", many.join("link")).unwrap();
    let (many, back) = (many.display().to_string(), cluster.path("all").display().to_string());
    check("suture put", &[&["put", &*many], &CODE[..]].concat());
    check("suture put", &[&["put", &*many, "--skip-existing"], &CODE[..]].concat());
    check("An error", &[&["put", &*many], &CODE[..]].concat());
    cluster.put("it", 40_000, &CODE);
    let file = cluster.path("file").display().to_string();
    check("suture get", &["get", "it", "-o", &file]);
    check("An error", &["get", "nope", "-o", &file]);
    check("suture get --recursive", &["get", "-r", "many", "-o", &back]);
    check("suture get --recursive", &["get", "-r", "many", "-o", &back, "--skip-existing"]);
    check("suture ls", &["ls"]);
    check("suture stat", &["stat", "it"]);
    check("suture status", &["status"]);
    check("suture df", &["df"]);
    check("suture node list", &["node", "list"]);
    let requests = ["--objects", "4", "--rate", "20", "--duration", "1s", "--warm-up", "100ms"];
    let load = ["load", "--code", "rs(2,2)", "--clients", "2", "--value-max", "64KiB"];
    check("suture load", &[&load[..], &requests[..]].concat());
}

/// Everything that repair may be limited by.
fn check_throttle(cluster: &Cluster, page: &JsonPage) {
    let check = |args: &[&str]| {
        check_on(
            cluster,
            page,
            "suture repair throttle",
            &[&["repair", "throttle"], args].concat(),
        );
    };
    let caps = ["--cap", "200Mbit", "--node", "n1=50Mbit", "--rack", "r1=100Mbit"];
    check(&caps);
    check(&["--total", "1Gbit", "--keep", "30%", "--p99", "20ms", "--floor", "10Mbit"]);
    check(&["--window", "* * * * *;UTC", "--keep", "100Mbit"]);
    check_on(cluster, page, "suture node list", &["node", "list"]);
    check(&["--reset"]);
}

/// What is done with nodes and objects in the end.
fn check_nodes(cluster: &Cluster, page: &JsonPage) {
    let check = |section: &str, args: &[&str]| check_on(cluster, page, section, args);
    check("suture node pause", &["node", "pause", "n1", "--for", "1h"]);
    check("suture node list", &["node", "list"]);
    check("suture node return", &["node", "return", "n1"]);
    check("suture node drain", &["node", "drain", "n1", "--force"]);
    check("suture status", &["status"]);
    check("suture node return", &["node", "return", "n1"]);
    check("suture node fail", &["node", "fail", "n3"]);
    check("suture node replace", &["node", "replace", "n3", "--force"]);
    check("An error", &["node", "fail", "nope"]);
    check("suture rm --dry-run", &["rm", "-r", "--dry-run", "many", "nope"]);
    check("suture rm", &["rm", "it", "nope"]);
    check("suture rm", &["rm", "-r", "many"]);
    check("suture node remove", &["node", "remove", "n3"]);
    check("suture status", &["status"]);
}

#[test]
fn what_is_printed_of_metadata_is_listed() {
    let page = JsonPage::read();
    let mut cluster = Cluster::of(3);
    cluster.put("it", 40_000, &["--code", "rs(2,1)", "--chunk-size", "16KiB"]);
    let copy = cluster.path("copy.db").display().to_string();
    check_on(&cluster, &page, "suture metadata backup", &["metadata", "backup", "-o", &copy]);
    cluster.coordinator.stop();
    let path = cluster.path("coordinator.toml");
    // Where the agents know the coordinator, instead of any port that is free.
    let text = fs::read_to_string(&path).unwrap().replace("127.0.0.1:0", &cluster.address);
    fs::write(&path, text).unwrap();
    let config = path.display().to_string();
    let check = |section: &str, args: &[&str]| {
        let args = [&["metadata"], args, &["--config", &*config]].concat();
        check_in(cluster.folder.path(), &page, section, &args);
    };
    check("suture metadata restore", &["restore", &copy, "--replace"]);
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    check("suture metadata restore", &["restore", &copy]);
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    check("suture metadata rebuild", &["rebuild", "--agents", "3"]);
}

#[test]
fn what_is_printed_of_transcripts_is_listed() {
    let (page, folder) = (JsonPage::read(), tempfile::tempdir().unwrap());
    let golden = "../suture-repair/testdata/coordinator-node-dies.txt";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).unwrap();
    let other = text.replace("at generation 1", "at generation 3");
    for text in [&text[..], &other, &text[..text.len() - 7]] {
        fs::write(folder.path().join("story.txt"), text).unwrap();
        check_in(folder.path(), &page, "suture replay", &["replay", "story.txt"]);
    }
}
