//! `suture simulate` as scripts and people meet it: the binary, its output, its exit status.

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.arg("simulate").args(args.split_whitespace()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(args: &str) -> Value {
    serde_json::from_str(&stdout(&simulate(&format!("{args} --format json")))).unwrap()
}

/// The command must blame its input, with these words.
fn check_refused(output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

const GENERATED: &str = "--nodes 16 --stripes 180 --code rs(6,3) --failed n0";
const RACKED: &str = "--nodes 30 --racks 5 --oversubscription 5 --stripes 300 --code rs(6,3) \
                      --bandwidth uniform:200Mbit..1Gbit --failed n0";

#[test]
fn links_that_nobody_declares_make_a_repair_hardly_longer() {
    let uneven = format!("{GENERATED} --bandwidth uniform:100Mbit..500Mbit");
    let seconds = |more: &str| json(&format!("{uneven} {more}"))["seconds"].as_f64().unwrap();
    let (known, probed) = (seconds(""), seconds("--undeclared probed"));
    assert!(probed <= known / 0.95, "{probed} s, and {known} s where declared");
}

#[test]
fn the_json_document_has_the_fields_of_the_contract_in_their_order() {
    let text = stdout(&simulate(&format!("{GENERATED} --format json")));
    let fields = [
        "format",
        "policy",
        "code",
        "chunk_bytes",
        "lost_chunks",
        "bound_seconds",
        "own_bound_seconds",
        "max_load_seconds",
        "ratio",
        "planning_seconds",
        "cross_rack_bytes",
        "moved_bytes",
        "load",
        "unrepairable",
        "seconds",
        "percent_of_bound",
        "repaired_bytes_per_second",
        "chunk_seconds",
    ];
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document.as_object().unwrap().len(), fields.len());
    let positions = fields.map(|field| text.find(&format!("\"{field}\":")).expect(field));
    assert!(positions.is_sorted(), "{fields:?} stand at {positions:?}");

    let number = |field: &str| document[field].as_f64().unwrap();
    let (seconds, bound) = (number("seconds"), number("bound_seconds"));
    assert!(seconds >= number("max_load_seconds") * (1.0 - 1e-9));
    assert!((number("percent_of_bound") - 100.0 * bound / seconds).abs() < 1e-9);
    assert!(number("percent_of_bound") > 90.0);
    let bytes = number("lost_chunks") * number("chunk_bytes");
    assert!((number("repaired_bytes_per_second") - bytes / seconds).abs() < 1.0);
    // Traces move less than six chunks for each, and beat the bound of plans that do.
    assert!(number("moved_bytes") < 5.0 * bytes && seconds < bound);
    let chunk = |part: &str| document["chunk_seconds"][part].as_f64().unwrap();
    assert!(chunk("p50") <= chunk("p99") && chunk("p99") <= chunk("max"));
    assert!(chunk("max") <= seconds);
}

#[test]
fn it_measures_the_load_of_the_plans_that_plan_shows() {
    let args = format!("{GENERATED} --policy star/greedy/all");
    let simulated = json(&args);
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.args(["plan", "--no-plans", "--format", "json"]).args(args.split_whitespace());
    let planned: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    for field in ["bound_seconds", "lost_chunks", "moved_bytes", "code", "unrepairable"] {
        assert_eq!(simulated[field], planned[field], "{field}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let args =
        format!("{GENERATED} --chunk-size 8MiB --foreground ycsb-a:2 --uplink-trace model:tpch");
    let run = |seed: u32| {
        let mut document = json(&format!("{args} --seed {seed}"));
        document.as_object_mut().unwrap().remove("planning_seconds");
        document.to_string()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_comparison_shows_every_preset_and_why_some_cannot_serve() {
    let few = GENERATED.replace("--stripes 180", "--stripes 60");
    let output = simulate(&format!("{few} --compare --policy star/greedy/all --format json"));
    assert_eq!(output.status.code(), Some(0));
    let comparison: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(comparison["format"], "suture-compare-1");
    let results = comparison["results"].as_array().unwrap();
    let row = |name: &str| results.iter().find(|row| row["policy"] == name).expect(name);
    for schedule in ["all", "window", "slots", "adaptive", "phases:20", "waves"] {
        assert!(row(&format!("star/greedy/{schedule}"))["seconds"].is_number(), "{schedule}");
    }
    assert!(row("car")["refused"].as_str().unwrap().contains("needs racks"));
    let seconds = |name: &str| row(name)["seconds"].as_f64().unwrap();
    assert!(seconds("suture") < seconds("rp") && seconds("rp") < seconds("cr"));

    let few = RACKED.replace("--stripes 300", "--stripes 12");
    let text = stdout(&simulate(&format!("{few} --compare --foreground ycsb-a --throttle off")));
    for words in ["of the bound", "across racks", "interference", "car ", "The bound is"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn applications_are_measured_with_and_without_the_repair() {
    let greedy = "--foreground ycsb-a:4 --chunk-size 8MiB --throttle off";
    let document = json(&format!("{GENERATED} {greedy}"));
    let foreground = document["foreground"].as_object().unwrap();
    let fields = ["baseline_p50_ms", "baseline_p99_ms", "p50_ms", "p99_ms", "interference_degree"];
    assert!(foreground.keys().all(|key| fields.contains(&key.as_str())));
    let of = |field: &str| foreground[field].as_f64().unwrap();
    // 512 KiB at 1 Gbit/s.
    assert!(of("baseline_p50_ms") > 4.19 && of("baseline_p50_ms") < 10.0);
    assert!(of("p99_ms") > of("baseline_p99_ms") && of("interference_degree") > 0.1);
    let quiet = json(&format!("{GENERATED} --chunk-size 8MiB"));
    assert!(quiet["seconds"].as_f64() < document["seconds"].as_f64());
    assert_eq!(quiet.get("foreground"), None);
}

#[test]
fn a_repair_that_yields_is_hardly_felt_by_applications() {
    let document = json(&format!("{GENERATED} --foreground ycsb-a:4 --chunk-size 8MiB"));
    let of = |field: &str| document["foreground"][field].as_f64().unwrap();
    assert!(of("p99_ms") <= 1.1 * of("baseline_p99_ms"), "{document}");
    assert!(of("interference_degree") < 0.1, "{document}");
    // The cap begins within a second, so the repair has to be longer than that.
    let capped = json(&format!("{GENERATED} --throttle cap=100Mbit"));
    let quiet = json(GENERATED);
    let times = capped["seconds"].as_f64().unwrap() / quiet["seconds"].as_f64().unwrap();
    assert!((8.0..14.0).contains(&times), "a tenth of each link: {times} times as long");
}

#[test]
fn links_follow_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("half.csv");
    let row = vec!["500"; 16].join(",");
    std::fs::write(&path, format!("{row}\n")).unwrap();
    let path = path.display();
    let traced = json(&format!("{GENERATED} --uplink-trace {path} --downlink-trace {path}"));
    let full = json(GENERATED);
    let of = |document: &Value, field: &str| document[field].as_f64().unwrap();
    for field in ["seconds", "bound_seconds", "max_load_seconds"] {
        let factor = of(&traced, field) / of(&full, field);
        assert!((factor - 2.0).abs() < 0.01, "{field}: {factor} times");
    }
    let text = stdout(&simulate(&format!("{GENERATED} --uplink-trace model:swim")));
    assert!(text.contains("Links follow a trace"), "{text}");
}

#[test]
fn a_wrong_trace_is_blamed_by_line_and_column() {
    let dir = tempfile::tempdir().unwrap();
    let good = vec!["1000"; 16].join(",");
    let wide = format!("{good},1000");
    let negative = good.replacen("1000", "-5", 1);
    let none = vec!["0"; 16].join(",");
    for (name, text, words) in [
        ("narrow.csv", format!("{good}\n1,2,3\n"), &["line 2: 3 columns", "16 nodes"][..]),
        ("wide.csv", wide, &["line 1: 17 columns", "16 nodes"]),
        ("negative.csv", negative, &["line 1, column 1", "-5 Mbit/s"]),
        ("header.csv", good.replacen("1000", "n0", 1), &["'n0' is not a rate", "no header"]),
        ("empty.csv", String::new(), &["no row"]),
        ("nothing.csv", none, &["stands still"]),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = simulate(&format!("{GENERATED} --uplink-trace {}", path.display()));
        check_refused(&output, words);
    }
}

#[test]
fn a_wrong_command_line_says_what_to_do() {
    for (args, words) in [
        ("--policy sutre", &["did you mean 'suture'"][..]),
        ("--policy star/greedy/windwo", &["no schedule 'windwo'; did you mean 'window'"]),
        ("--policy trace/random/all", &["the shape 'trace'", "use flow", "--compare"]),
        ("--policy car", &["needs racks"]),
        ("--foreground ycsb-z", &["no workload 'ycsb-z'", "did you mean 'ycsb-"]),
        ("--foreground ycsb-a:0", &["'0' is not a number of clients", "ycsb-a:4"]),
        ("--uplink-trace missing.csv", &["cannot read missing.csv"]),
        ("--downlink-trace model:tpcc", &["no such model", "tpcds, tpch, swim"]),
    ] {
        check_refused(&simulate(&format!("{GENERATED} {args}")), words);
    }
}

#[test]
fn timelines_are_written_as_numbers_and_as_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("new/folder");
    let args = format!("{RACKED} --timeline {}", folder.display());
    let seconds = json(&args)["seconds"].as_f64().unwrap();
    let csv = std::fs::read_to_string(folder.join("timeline.csv")).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(header[..3], ["seconds", "n1 uplink", "n1 downlink"]);
    assert_eq!(header.len(), 1 + 2 * 29 + 2 * 5);
    let mut last = 0.0;
    for line in lines {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(cells.len(), header.len());
        assert!(cells[1..].iter().all(|part| (0.0..=1.0).contains(part)));
        last = cells[0];
    }
    assert!(last < seconds && last > 0.95 * seconds);
    let svg = std::fs::read_to_string(folder.join("timeline.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for words in ["suture: repaired in", "rack uplinks", ">n29<", "idle"] {
        assert!(svg.contains(words), "no {words:?}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("no bandwidth"));

    let few = args.replace("--stripes 300", "--stripes 12");
    let compared = simulate(&format!("{few} --compare"));
    let said = String::from_utf8(compared.stdout).unwrap();
    assert!(said.contains(&format!("timelines in {}: ", folder.display())), "{said}");
    let far = std::fs::read_to_string(folder.join("repairboost+cr.svg")).unwrap();
    assert!(far.contains(">bound<") && folder.join("car.csv").exists());
}

#[test]
fn what_cannot_be_repaired_is_listed_and_gives_status_3() {
    let output = simulate("--nodes 9 --stripes 3 --code rs(6,3) --failed n0");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("3 stripes (0, 1, 2): no node can take the chunk"));
    let output = simulate("--nodes 9 --stripes 3 --code rs(6,3) --failed n0,n1,n2,n3");
    assert_eq!(output.status.code(), Some(3));
    let text = stdout(&output);
    assert!(text.contains("4 chunks are lost, and rs(6,3) survives 3"), "{text}");
}

#[test]
fn what_the_operator_says_of_nodes_is_obeyed() {
    let node = |index: usize| {
        let own = match index {
            1 => "drained = true",
            2 => "excluded = true",
            3 | 4 => "free = \"130MiB\"",
            _ => "",
        };
        format!("[[node]]\nname = \"n{index}\"\n{own}\n")
    };
    let nodes: String = (0..10).map(node).collect();
    let cluster = format!("[defaults]\nuplink = \"1Gbit\"\ndownlink = \"1Gbit\"\n{nodes}");
    let stripes: String = (0..24)
        .map(|at| format!("0 {} {} {}\n", at % 9 + 1, (at + 2) % 9 + 1, (at + 5) % 9 + 1))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let [nodes, places] = ["cluster.toml", "placement.txt"].map(|name| dir.path().join(name));
    std::fs::write(&nodes, cluster).unwrap();
    std::fs::write(&places, stripes).unwrap();
    let files = format!("--cluster {} --placement {}", nodes.display(), places.display());
    for policy in ["suture", "rp", "flow"] {
        let document = json(&format!("{files} --code rs(2,2) --failed n0 --policy {policy}"));
        assert_eq!(document["unrepairable"].as_array().unwrap().len(), 0, "{policy}");
        let written: Vec<u64> = document["load"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["disk_write_bytes"].as_u64().unwrap() >> 20)
            .collect();
        assert_eq!((written[0], written[1], written[2]), (0, 0, 0), "{policy}");
        assert!(written[3] <= 128 && written[4] <= 128, "{policy}: {written:?}");
        assert_eq!(written.iter().sum::<u64>(), 24 * 64);
    }
}

#[test]
fn several_losses_of_a_stripe_and_every_kind_of_code_are_repaired() {
    for code in ["rs(6,3)", "lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)"] {
        let args = format!("--nodes 20 --stripes 60 --code {code} --failed n0,n1");
        let document = json(&args);
        assert_eq!(document["unrepairable"].as_array().unwrap().len(), 0, "{code}");
        assert!(document["percent_of_bound"].as_f64().unwrap() > 30.0, "{code}: {document}");
    }
}

#[test]
fn no_damage_is_no_work() {
    let output = simulate("--nodes 16 --stripes 0 --code rs(6,3) --failed n0");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("There is nothing to repair."));
}
