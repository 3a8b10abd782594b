//! `suture plan` as scripts and people meet it: the binary, its output, its exit status.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::plan::json::{read_document, write_plan};
use tempfile::TempDir;

const CLUSTER: &str = r#"
[defaults]
uplink = "1Gbit"
downlink = "1Gbit"
[[node]]
name = "alpha"
uplink = "200Mbit"
[[node]]
name = "beta"
disk_read = "500MB"
[[node]]
name = "gamma"
foreground_uplink = "500Mbit"
[[node]]
name = "delta"
[[node]]
name = "epsilon"
"#;

const PLACEMENT: &str = "0 1 2 3\n1 2 3 4\n4 3 2 1\n";

/// A folder with the input files of one test.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new(cluster: &str, placement: &str) -> Files {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cluster.toml"), cluster).unwrap();
        std::fs::write(dir.path().join("placement.txt"), placement).unwrap();
        Files { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn plan(&self, args: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
        command.args(["plan", "--code", "rs(2,2)"]);
        command.arg("--cluster").arg(self.path("cluster.toml"));
        command.arg("--placement").arg(self.path("placement.txt"));
        command.args(args.split_whitespace()).output().unwrap()
    }
}

fn plan(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.arg("plan").args(args.split_whitespace()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
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

#[test]
fn the_json_document_has_the_fields_of_the_contract_in_their_order() {
    let output = plan(&format!("{GENERATED} --policy flow --format json"));
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
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
        "plans",
    ];
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document.as_object().unwrap().len(), fields.len());
    let positions = fields.map(|field| text.find(&format!("\"{field}\":")).expect(field));
    assert!(positions.is_sorted(), "{fields:?} stand at {positions:?}");

    assert_eq!(document["format"], "suture-plan-1");
    assert_eq!(document["policy"], "flow");
    assert_eq!(document["own_bound_seconds"], document["bound_seconds"], "flow is of whole chunks");
    let lost = document["lost_chunks"].as_u64().unwrap();
    let chunk = document["chunk_bytes"].as_u64().unwrap();
    assert_eq!(chunk, 64 << 20);
    let plans = document["plans"].as_array().unwrap();
    assert_eq!(plans.len() as u64, lost);
    assert_eq!(document["moved_bytes"], 6 * lost * chunk);

    let load = document["load"].as_array().unwrap();
    let total = |field: &str| load.iter().map(|node| node[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(load.len(), 16);
    assert_eq!((total("up_bytes"), total("down_bytes")), (6 * lost * chunk, 6 * lost * chunk));
    assert_eq!(
        (total("disk_read_bytes"), total("disk_write_bytes")),
        (6 * lost * chunk, lost * chunk)
    );
    // What is said of the load follows from it: 1 Gbit/s is 125 MB/s.
    let busiest = load.iter().flat_map(|n| [&n["up_bytes"], &n["down_bytes"]]);
    let busiest = busiest.map(|bytes| bytes.as_u64().unwrap()).max().unwrap() as f64 / 125e6;
    assert!((document["max_load_seconds"].as_f64().unwrap() - busiest).abs() < 1e-9);
    let bound = (6 * lost * chunk) as f64 / 15.0 / 125e6;
    assert!((document["bound_seconds"].as_f64().unwrap() - bound).abs() < 1e-9);
    assert!((document["ratio"].as_f64().unwrap() - busiest / bound).abs() < 1e-9);
}

#[test]
fn a_plan_in_json_has_the_shape_of_the_contract() {
    let files = Files::new(CLUSTER, PLACEMENT);
    let output = files.plan("--failed alpha --policy rp --chunk-size 4KiB --format json");
    let document = json(&output);
    let plan = &document["plans"][0];
    assert_eq!(
        (&plan["stripe"], &plan["lost"], &plan["start"], &plan["range"], &plan["period"]),
        (&json!(0), &json!([0]), &Value::Null, &json!([0, 4096]), &Value::Null)
    );
    // Only epsilon holds nothing of the stripe.
    assert_eq!(plan["destinations"], json!({"0": "epsilon"}));
    let lane = &plan["lanes"][0];
    assert_eq!(
        (&lane["from"], &lane["to"], &lane["lost"], &lane["mode"], &lane["decoders"]),
        (&json!(0), &json!(4096), &json!([0]), &json!("streamed"), &json!([]))
    );
    let edges = lane["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 2);
    assert_eq!(edges[0][1], edges[1][0], "a chain");
    assert_eq!(
        edges[1].as_array().unwrap()[1..],
        [json!("epsilon"), json!(4096), json!("partial")]
    );
}

#[test]
fn the_library_reads_the_whole_document_back() {
    let args = "--nodes 14 --stripes 60 --code rs(4,3) --failed n0,n1 --format json";
    let cluster = Cluster::uniform(14, Rate(125e6));
    let text = stdout(&plan(args));
    let batch = read_document(&text, &cluster).unwrap();
    assert_eq!((batch.code.to_string().as_str(), batch.chunk_bytes), ("rs(4,3)", 64 << 20));
    let document: Value = serde_json::from_str(&text).unwrap();
    let again: Vec<Value> = batch
        .plans
        .iter()
        .map(|plan| serde_json::from_str(&write_plan(plan, &cluster)).unwrap())
        .collect();
    assert_eq!(document["plans"], Value::Array(again));

    for (from, to, message) in [
        ("suture-plan-1", "suture-plan-2", "format: expected \"suture-plan-1\""),
        ("\"ratio\"", "\"ration\"", "ration is no field of suture-plan-1"),
        ("\"rs(4,3)\"", "\"rs(4)\"", "code: expected"),
        ("\"mode\":\"streamed\"", "\"mode\":1", "plans[0].lanes[0].mode: expected one of"),
    ] {
        let error = read_document(&text.replacen(from, to, 1), &cluster).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn several_losses_of_a_stripe_are_read_once_and_forwarded() {
    let args = "--nodes 14 --stripes 60 --code rs(4,3) --failed n0,n1 --format json";
    let document = json(&plan(args));
    let plans = document["plans"].as_array().unwrap();
    let double = plans.iter().filter(|plan| plan["lost"].as_array().unwrap().len() == 2);
    let mut seen = 0;
    for plan in double {
        seen += 1;
        let lane = &plan["lanes"][0];
        let carries: Vec<&Value> =
            lane["edges"].as_array().unwrap().iter().map(|edge| &edge[3]).collect();
        // Four chunks are read; the decoder has its own, and finished ones go on.
        let combined = carries.iter().filter(|kind| **kind == "combined").count();
        let finished = carries.iter().filter(|kind| **kind == "finished").count();
        assert_eq!(combined + finished, 5, "{carries:?}");
        assert!((1..=2).contains(&finished) && combined + finished == carries.len());
        assert_eq!(lane["decoders"].as_array().unwrap().len(), 1);
    }
    assert!(seen > 3, "{seen}");
}

#[test]
fn the_bound_of_the_policys_own_traffic_stands_below_its_plans() {
    let racks = "--nodes 30 --racks 5 --oversubscription 5 --stripes 100 --code rs(6,3)";
    for (args, policy, is_known) in [
        (GENERATED, "suture", true),
        (GENERATED, "trace/flow/all", true),
        (GENERATED, "cr", true),
        (GENERATED, "rp", false),
        (GENERATED, "chameleon", false),
        (&format!("{racks} --failed n0"), "car", true),
        (&format!("{racks} --failed n0"), "suture", false),
        (&format!("{racks} --failed n0"), "flow", true),
    ] {
        let document = json(&plan(&format!("{args} --policy {policy} --format json --no-plans")));
        let own = document["own_bound_seconds"].as_f64();
        assert_eq!(own.is_some(), is_known, "{policy}");
        let peak = document["max_load_seconds"].as_f64().unwrap();
        if let Some(own) = own {
            assert!(own <= peak * (1.0 + 1e-9) && own > 0.5 * peak, "{policy}: {own} of {peak}");
        }
    }
    let text = stdout(&plan(&format!("{GENERATED} --policy cr")));
    assert!(text.contains("no plan that gathers each chunk in one place is faster"), "{text}");
    let text = stdout(&plan(GENERATED));
    assert!(text.contains("no plan of whole chunks and traces is faster"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let without_time = |seed: u32| {
        let args = format!("{GENERATED} --bandwidth uniform:100Mbit..1Gbit --seed {seed}");
        let mut document = json(&plan(&format!("{args} --format json")));
        document["planning_seconds"] = Value::Null;
        document.to_string()
    };
    assert_eq!(without_time(5), without_time(5));
    assert_ne!(without_time(5), without_time(6));
}

#[test]
fn without_plans_everything_else_stays() {
    let document = json(&plan(&format!("{GENERATED} --format json --no-plans")));
    assert!(document.get("plans").is_none());
    assert_eq!(document["load"].as_array().unwrap().len(), 16);
}

#[test]
fn text_tells_what_is_lost_where_it_is_tight_and_what_would_help() {
    let text = stdout(&plan(&format!("{GENERATED} --policy cr")));
    for words in [
        "Lost with n0: ",
        "rs(6,3), chunks of 64.0 MiB",
        "Policy cr = star/random/window",
        "no plan that reads whole chunks is faster",
        "above the bound",
        "6.00 chunks for each lost one",
        "busiest ports",
        "1.00 Gbit/s",
        "What would help: --policy suture",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
    let text = stdout(&plan(GENERATED));
    assert!(text.contains("Another plan hardly"), "{text}");
}

/// Nodes n0 to n9 of which some have a line of their own.
fn ten_nodes(own: &[(usize, &str)]) -> String {
    let node = |index: usize| {
        let own = own.iter().find(|(node, _)| *node == index).map_or("", |(_, line)| line);
        format!("[[node]]\nname = \"n{index}\"\n{own}\n")
    };
    let nodes: String = (0..10).map(node).collect();
    format!("[defaults]\nuplink = \"1Gbit\"\ndownlink = \"1Gbit\"\n{nodes}")
}

#[test]
fn drained_and_excluded_nodes_and_free_space_are_obeyed_by_every_policy() {
    let stripes: String = (0..12)
        .map(|at| {
            let others = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|node| (node + at) % 9 + 1);
            format!("0 {} {} {}\n", others[0], others[2], others[5])
        })
        .collect();
    let cluster = ten_nodes(&[
        (1, "drained = true"),
        (2, "excluded = true"),
        (3, "free = \"64MiB\""),
        (4, "free = \"130MiB\""),
        (5, "free = \"0B\""),
    ]);
    let files = Files::new(&cluster, &stripes);
    for policy in ["suture", "flow", "cr", "chameleon", "repairboost+rp", "pivot"] {
        let output = files.plan(&format!("--failed n0 --policy {policy} --format json"));
        assert_eq!(output.status.code(), Some(0), "{policy}");
        let document = json(&output);
        let load = document["load"].as_array().unwrap();
        let bytes = |node: usize, port: &str| load[node][port].as_u64().unwrap();
        let chunk = 64 << 20;
        assert_eq!(document["plans"].as_array().unwrap().len(), 12);
        assert_eq!((bytes(1, "disk_write_bytes"), bytes(5, "disk_write_bytes")), (0, 0));
        assert!(bytes(1, "up_bytes") > 0, "a drained node helps");
        for port in ["up_bytes", "down_bytes", "disk_read_bytes", "disk_write_bytes"] {
            assert_eq!(bytes(2, port), 0, "{policy}: {port}");
        }
        assert!(bytes(3, "disk_write_bytes") <= chunk, "{policy}");
        assert!(bytes(4, "disk_write_bytes") <= 2 * chunk, "{policy}");
    }

    let full: Vec<(usize, &str)> = (1..10).map(|node| (node, "free = \"63MiB\"")).collect();
    let files = Files::new(&ten_nodes(&full), "0 1 2 3\n");
    let output = files.plan("--failed n0");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("holds one of the stripe, is full, drained or excluded"));
    let gone = [(1, "excluded = true"), (2, "excluded = true")];
    let files = Files::new(&ten_nodes(&gone), "0 1 2 3\n");
    let output = files.plan("--failed n0");
    assert_eq!(output.status.code(), Some(3));
    let reason = "chunks lost: 1, on excluded nodes: 2; rs(2,2) does without 2";
    assert!(stdout(&output).contains(reason), "{}", stdout(&output));
}

#[test]
fn one_slow_link_is_named() {
    let files = Files::new(CLUSTER, "1 2 3 4\n");
    let cluster = CLUSTER.replace("name = \"delta\"", "name = \"delta\"\nuplink = \"1Mbit\"");
    std::fs::write(files.path("cluster.toml"), cluster).unwrap();
    // Of beta, gamma, delta and epsilon two are gone, so delta must help.
    let text = stdout(&files.plan("--failed beta,gamma"));
    assert!(text.contains("the uplink of delta sets the pace"), "{text}");
}

#[test]
fn racks_and_the_core_count() {
    let racks = "--nodes 30 --racks 5 --oversubscription 5 --stripes 100 --code rs(6,3)";
    let by = |policy: &str| {
        json(&plan(&format!("{racks} --failed n0 --policy {policy} --format json --no-plans")))
    };
    let document = by("rp");
    let crossing = document["cross_rack_bytes"].as_u64().unwrap();
    assert!(crossing > 0 && crossing <= document["moved_bytes"].as_u64().unwrap());
    // The nodes' links alone would be near the bound; the core is not.
    assert!(document["ratio"].as_f64().unwrap() > 2.0);
    let spread = by("suture");
    assert!(spread["ratio"].as_f64().unwrap() < 1.2);
    assert!(spread["cross_rack_bytes"].as_u64().unwrap() < crossing / 2);
    let text = stdout(&plan(&format!("{racks} --failed n0")));
    assert!(text.contains("rack ") && text.contains("across racks"), "{text}");
}

#[test]
fn a_comparison_shows_every_preset_and_why_some_cannot_serve() {
    let output = plan(&format!("{GENERATED} --compare --policy star/greedy/all --format json"));
    assert_eq!(output.status.code(), Some(0));
    let comparison = json(&output);
    assert_eq!(comparison["format"], "suture-compare-1");
    let results = comparison["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "cr",
            "ppr",
            "rp",
            "ppt",
            "pivot",
            "car",
            "chameleon",
            "repairboost+cr",
            "repairboost+ppr",
            "repairboost+rp",
            "flow",
            "suture",
            "star/greedy/all",
        ]
    );
    let row = |name: &str| results.iter().find(|row| row["policy"] == name).unwrap();
    assert_eq!(
        *row("car"),
        json!({
            "policy": "car",
            "refused": "'rack' needs racks, and the cluster has none; give its nodes racks"
        })
    );
    assert!(row("cr").get("plans").is_none());
    let ratio = |name: &str| row(name)["ratio"].as_f64().unwrap();
    assert!(ratio("suture") < ratio("rp") && ratio("rp") < ratio("cr"));
    assert!(ratio("suture") < 1.1);

    let text = stdout(&plan(&format!("{GENERATED} --compare")));
    assert!(text.contains("x bound") && text.contains("Refused:\n  car: "), "{text}");
}

#[test]
fn what_cannot_be_repaired_is_listed_and_gives_status_3() {
    let files = Files::new(CLUSTER, PLACEMENT);
    let output = files.plan("--failed beta,gamma,delta --format json");
    assert_eq!(output.status.code(), Some(3));
    let document = json(&output);
    assert_eq!(document["unrepairable"], json!([0, 1, 2]));
    assert_eq!((&document["lost_chunks"], &document["ratio"]), (&json!(9), &Value::Null));

    let output = files.plan("--failed beta,gamma,delta");
    assert_eq!(output.status.code(), Some(3));
    let text = stdout(&output);
    let reason = "3 stripes (0, 1, 2): 3 chunks are lost, and rs(2,2) survives 2.";
    assert!(text.contains(reason), "{text}");

    // Of stripe 1, beta's and gamma's chunks are lost, and only alpha is free to keep one of them.
    let output = files.plan("--failed beta,gamma");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("no node is free to take 1 of its lost chunks"));
    let output = files.plan("--failed beta,gamma --format json");
    assert_eq!(json(&output)["plans"][1]["lost"], json!([0]));

    let output = files.plan("--failed alpha,beta");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("(1, 2): no node can take the chunk"), "{}", stdout(&output));
}

#[test]
fn no_damage_is_no_work() {
    let files = Files::new(CLUSTER, "1 2 3 4\n");
    let output = files.plan("--failed alpha");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("There is nothing to repair."));
}

#[test]
fn slow_processors_lengthen_plans_and_the_bound_and_fast_ones_change_nothing() {
    let seconds = |cores: &str| {
        let output = plan(&format!(
            "--nodes 16 --stripes 60 --code rs(6,3) --failed n0 --no-plans --format json {cores}"
        ));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        ["bound_seconds", "max_load_seconds"].map(|key| value[key].as_f64().unwrap())
    };
    let [bound, peak] = seconds("");
    assert_eq!(seconds("--cores 8"), [bound, peak]);
    // A hundredth of a core relays a tenth of what a link carries.
    let [slow_bound, slow_peak] = seconds("--cores 0.01");
    assert!(slow_bound > 5.0 * bound, "{slow_bound} {bound}");
    assert!(slow_peak >= 0.999 * slow_bound && slow_peak > 5.0 * peak, "{slow_peak} {peak}");
}

#[test]
fn a_cluster_file_may_say_how_many_cores_a_node_has() {
    let peak = |text: &str| {
        let output = Files::new(text, PLACEMENT).plan("--failed beta --no-plans --format json");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["max_load_seconds"].as_f64().unwrap()
    };
    let all = |cores: &str| CLUSTER.replace("[defaults]", &format!("[defaults]\ncores = {cores}"));
    let bare = peak(CLUSTER);
    assert_eq!(peak(&all("4")), bare);
    assert!(peak(&all("0.001")) > 5.0 * bare);
    let own = all("0.001").replace("[[node]]", "[[node]]\ncores = 4");
    assert_eq!(peak(&own), bare);
}

#[test]
fn a_wrong_command_line_says_what_to_do() {
    check_refused(&plan("--code rs(6,3) --failed n0"), &["--cluster and --placement", "--nodes"]);
    check_refused(
        &plan("--nodes 8 --stripes 1 --code rs(6,3) --failed n0"),
        &["8 nodes are too few for rs(6,3)", "at least 9"],
    );
    check_refused(
        &plan("--nodes 16 --stripes 1 --code rs(6,3) --failed n0,n61"),
        &["--failed n61", "did you mean 'n1'"],
    );
    for (args, words) in [
        ("--code rx(6,3)", "did you mean rs"),
        ("--code rs(6,3) --policy sutre", "did you mean 'suture'"),
        ("--code rs(6,3) --policy chain/gredy/all", "no balance 'gredy'; did you mean 'greedy'"),
        ("--code rs(6,3) --policy rack/car:-1/all", "needs a whole number of iterations"),
        ("--code rs(6,3) --policy trace/random/all", "'random' does not decide; use flow"),
        ("--code rs(6,3) --policy tunable/random/all", "use chameleon"),
        ("--code rs(6,3) --bandwidth 0Mbit", "above zero"),
        ("--code rs(6,3) --bandwidth uniform:2Gbit..1Gbit", "swap them"),
        ("--code rs(6,3) --racks 17", "--racks 17 does not fit 16 nodes"),
        ("--code rs(6,3) --racks 4 --oversubscription 0", "above zero"),
        ("--code rs(6,3) --cores 0", "0 is not a number of cores: give one above zero"),
        ("--code rs(6,3) --cores two", "'two' is not a number of cores"),
        ("--code rs(6,3) --chunk-size 0B", "at least 1B"),
    ] {
        let output = plan(&format!("--nodes 16 --stripes 1 --failed n0 {args}"));
        check_refused(&output, &[words]);
    }
    for (args, words) in [
        ("--code rs(6,3) --policy car", "the cluster has none; give its nodes racks"),
        ("--code rs(11,4) --policy ppt", "128388624 with 11 of 14 survivors"),
        ("--code butterfly(4) --policy rp", "butterfly(4) does not have; use star or mix"),
    ] {
        let output = plan(&format!("--nodes 16 --stripes 40 --failed n0 {args}"));
        check_refused(&output, &[words]);
    }
}

#[test]
fn a_wrong_cluster_file_is_blamed_by_line_and_name() {
    for (from, to, words) in [
        ("uplink = \"200Mbit\"", "uplnk = \"200Mbit\"", &["toml:7:", "`uplnk`", "`uplink`"][..]),
        ("uplink = \"200Mbit\"", "uplink = \"200\"", &["toml:7:", "'200' is not a rate"]),
        ("uplink = \"200Mbit\"", "uplink = \"0Mbit\"", &["toml:7:", "above zero"]),
        ("uplink = \"200Mbit\"", "uplink = 200", &["toml:7:", "expected a string"]),
        ("uplink = \"200Mbit\"", "cores = 0", &["toml:7:", "0 is not a number of cores"]),
        ("name = \"delta\"", "name = \"beta\"", &["toml:15:", "two nodes 'beta'", "rename one"]),
        ("downlink = \"1Gbit\"\n", "", &["toml:5:", "'alpha' has no downlink", "[defaults]"]),
        ("500Mbit", "1Gbit", &["toml:12:", "'gamma'", "leaves nothing of its uplink, 1.00 Gbit/s"]),
        ("[[node]]\nname = \"alpha\"", "[core]\nrack_uplink = \"1Gbit\"", &["rack_downlink"]),
        ("name = \"delta\"", "", &["toml:14:", "missing field `name`"]),
        ("[defaults]", "[defaults", &["toml:2:"]),
        ("uplink = \"200Mbit\"", "uplink = \"-1Mbit\"", &["toml:7:", "-1Mbit"]),
        ("uplink = \"200Mbit\"", "uplink = \"NaNMbit\"", &["toml:7:", "NaNMbit"]),
        ("uplink = \"200Mbit\"", "uplink = \"1e400Mbit\"", &["toml:7:", "1e400Mbit"]),
        ("uplink = \"200Mbit\"", "free = \"much\"", &["toml:7:", "much"]),
        ("uplink = \"200Mbit\"", "drained = \"yes\"", &["toml:7:", "expected a boolean"]),
        ("uplink = \"200Mbit\"", "exclude = true", &["toml:7:", "`exclude`", "`excluded`"]),
        ("name = \"alpha\"", "name = \"\"", &["toml:6:", "'' is not a name"]),
        ("name = \"alpha\"", "name = \"a,b\"", &["toml:6:", "'a,b' is not a name", "comma"]),
    ] {
        assert!(CLUSTER.contains(from), "{from}");
        let files = Files::new(&CLUSTER.replacen(from, to, 1), PLACEMENT);
        check_refused(&files.plan("--failed alpha"), words);
    }
    let core = "[core]\nrack_uplink = \"1Gbit\"\nrack_downlink = \"1Gbit\"\n";
    let files = Files::new(&CLUSTER.replace("[defaults]", &format!("{core}[defaults]")), PLACEMENT);
    check_refused(&files.plan("--failed alpha"), &["toml:9:", "'alpha' needs a rack"]);
    let files = Files::new("", PLACEMENT);
    check_refused(&files.plan("--failed alpha"), &["toml:1:", "no node", "[[node]]"]);
    std::fs::remove_file(files.path("cluster.toml")).unwrap();
    check_refused(&files.plan("--failed alpha"), &["cannot read", "cluster.toml"]);
}

#[test]
fn a_wrong_placement_is_blamed_by_line_and_number() {
    for (line, words) in [
        ("0 1 2 5", &["txt:4:", "no node 5", "numbered 0 to 4"][..]),
        ("0 1 2", &["txt:4:", "3 node indices", "4 chunks"]),
        ("0 1 2 3 4", &["txt:4:", "5 node indices"]),
        ("0 1 2 1", &["txt:4:", "node 1 ('beta') holds chunk 1 and chunk 3"]),
        ("0 1 2 n3", &["txt:4:", "'n3' is not a node index"]),
        ("\n0 1 2 3", &["txt:4:", "0 node indices"]),
        ("0 1 2 -1", &["txt:4:", "'-1' is not a node index"]),
        ("0 1 2 99999999999999999999", &["txt:4:", "'99999999999999999999'"]),
        ("0 1 2 4294967295", &["txt:4:", "no node 4294967295"]),
        ("0 1 2 NaN", &["txt:4:", "'NaN' is not a node index"]),
    ] {
        let files = Files::new(CLUSTER, &format!("{PLACEMENT}{line}\n"));
        check_refused(&files.plan("--failed alpha"), words);
    }
}
