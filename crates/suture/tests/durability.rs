//! `suture durability` as scripts and people meet it: the binary, its output, its exit status.

use crate::common::{Finished, run_plain};
use serde_json::Value;

const SMALL: &str = "--nodes 16 --stripes 60 --code rs(4,2) --node-data 8TB --runs 300";

fn durability(args: &str) -> Finished {
    let mut all = vec!["durability"];
    all.extend(args.split_whitespace());
    run_plain(&all)
}

fn json(args: &str) -> Value {
    let finished = durability(&format!("{args} --format json"));
    assert_eq!((finished.status, finished.stderr.as_str()), (0, ""), "{args}");
    finished.json()
}

/// The command must blame its input, with these words.
fn check_refused(args: &str, words: &[&str]) {
    let finished = durability(args);
    assert_eq!(finished.status, 2, "{args}: {finished:?}");
    assert!(finished.stdout.is_empty(), "{args}");
    for word in words {
        assert!(finished.stderr.contains(word), "{args}: no {word:?} in: {}", finished.stderr);
    }
}

#[test]
fn the_json_document_has_its_fields_in_their_order() {
    let finished = durability(&format!("{SMALL} --format json"));
    let fields = [
        "format",
        "policy",
        "code",
        "nodes",
        "racks",
        "stripes",
        "node_bytes",
        "mission_years",
        "node_mttf_years",
        "weibull_shape",
        "rack_mttf_years",
        "detection_seconds",
        "repairs",
        "repairs_simulated",
        "equation_2",
        "estimate",
        "markov_chain",
        "estimate_as_chain",
        "warnings",
    ];
    let positions = fields.map(|field| finished.stdout.find(&format!("\n  \"{field}\": ")));
    assert!(positions.iter().all(Option::is_some), "{}", finished.stdout);
    assert!(positions.is_sorted(), "{}", finished.stdout);
    let document = finished.json();
    assert_eq!(document["format"], "suture-durability-1");
    assert_eq!(document["estimate"]["method"], "failure biasing");
    assert_eq!(document["repairs"][0]["nodes"], 1);
}

#[test]
fn the_same_seed_prints_the_same() {
    let first = durability(SMALL);
    assert_eq!(first.stdout, durability(SMALL).stdout);
    assert_ne!(first.stdout, durability(&format!("{SMALL} --seed 2")).stdout);
}

#[test]
fn the_chain_lies_in_the_interval_of_the_estimate_under_its_assumptions() {
    for input in [
        "--nodes 6 --stripes 1 --code rs(4,2) --repair-time 12h",
        "--nodes 9 --stripes 1 --code rs(6,3) --repair-time 1d --mttf 4y",
        "--nodes 16 --stripes 60 --code rs(4,2) --node-data 8TB",
    ] {
        let document = json(input);
        let chain = &document["markov_chain"];
        let estimate = &document["estimate_as_chain"];
        for name in ["loss_probability", "mttdl_years"] {
            let bound = |side: &str| estimate[name][side].as_f64().unwrap();
            let value = chain[name].as_f64().unwrap();
            assert!((bound("low")..=bound("high")).contains(&value), "{input}: {document:#}");
        }
    }
}

#[test]
fn equation_2_is_that_of_the_paper() {
    // 96 TB at 1 GB/s take 96,000 s.
    let document = json("--nodes 14 --stripes 1 --code rs(10,4) --repair-time 96000s --runs 10");
    let chance = document["equation_2"]["loss_probability"].as_f64().unwrap();
    assert!((chance / 6.10e-12 - 1.0).abs() < 0.01, "{chance:e}");
}

#[test]
fn faster_repairs_lose_less() {
    let comparison = json(&format!("{SMALL} --compare"));
    assert_eq!(comparison["format"], "suture-durability-compare-1");
    let results = comparison["results"].as_array().unwrap();
    let result = |policy: &str| results.iter().find(|result| result["policy"] == policy).unwrap();
    let chance = |policy| result(policy)["estimate"]["loss_probability"]["value"].as_f64().unwrap();
    let seconds = |policy| result(policy)["repairs"][0]["seconds"].as_f64().unwrap();
    assert!(seconds("suture") < seconds("cr") && chance("suture") < chance("cr"));
    assert!(result("car")["refused"].as_str().unwrap().contains("racks"));
}

#[test]
fn people_read_what_was_assumed_and_what_to_doubt() {
    let text = durability(&format!("{SMALL} --weibull 1.5 --racks 4 --rack-mttf 100y")).stdout;
    for words in [
        "16 nodes in 4 racks",
        "Weibull of shape 1.5",
        "a rack 100 years",
        "within 10 years",
        "Equation 2",
        "leave ageing out",
        "leave racks out",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
    let text = durability(&format!("{SMALL} --mttf 5d")).stdout;
    assert!(text.contains("of the time; outages run into each other"), "{text}");
    let table = durability(&format!("{SMALL} --compare")).stdout;
    assert!(table.contains("node repaired in") && table.contains("Refused:"), "{table}");
}

#[test]
fn input_that_makes_no_sense_is_refused_with_what_to_do() {
    for (args, words) in [
        ("--mttf 0y", &["'0y'", "above zero"][..]),
        ("--mttf 10", &["'10'", "write it like 30s, 90min, 12h, 3d or 10y"]),
        ("--years -1", &["--years -1", "above zero"]),
        ("--weibull 0", &["--weibull 0", "from 0.5 to 10"]),
        ("--rack-mttf 10y", &["needs racks"]),
        ("--policy sutur", &["did you mean 'suture'?"]),
        ("--policy car", &["--policy car", "needs racks", "--compare"]),
        ("--runs 0", &["'0'", "from 10"]),
        ("--runs -5", &["'-5'", "from 10"]),
        ("--node-data 8T", &["'8T' is not a size"]),
        ("--repair-time 1h --policy cr", &["--repair-time", "--policy"]),
        ("--failed n0", &["unexpected argument '--failed'"]),
    ] {
        check_refused(&format!("--nodes 16 --stripes 60 --code rs(4,2) {args}"), words);
    }
    check_refused("--code rs(4,2)", &["--nodes and --stripes"]);
    check_refused("--nodes 16 --stripes 0 --code rs(4,2)", &["no stripes"]);
    let tight = "--nodes 6 --stripes 60 --code rs(4,2)";
    check_refused(tight, &["no node is free", "at least 7 nodes", "--repair-time"]);
}
