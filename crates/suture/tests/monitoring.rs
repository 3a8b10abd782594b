//! Metrics over real processes: what Prometheus reads, what the dashboard and the alerts name, and
//! what strangers can do to the listener.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::daemons::{self, Cluster, TIMEOUT, exchange, get, start_agent, start_coordinator};

/// So many connections that send nothing, or too little.
const STRANGERS: usize = 1000;

fn deploy(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// A cluster whose daemons all serve metrics, on links slow enough to see a repair.
fn monitored(agents: usize) -> Cluster {
    monitored_with(agents, "", "")
}

/// The same, with further keys and tables in the coordinator's configuration.
fn monitored_with(agents: usize, keys: &str, tables: &str) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let first = format!("metrics = '127.0.0.1:0'\n{keys}");
    fs::write(folder.path().join("first.toml"), first).unwrap();
    fs::write(folder.path().join("more.toml"), tables).unwrap();
    let (coordinator, address) = start_coordinator(folder.path(), "127.0.0.1:0");
    let keys = "metrics = '127.0.0.1:0'\nuplink = '2Mbit'\ndownlink = '2Mbit'";
    let agents = (0..agents).map(|i| start_agent(folder.path(), &address, i, keys)).collect();
    let cluster = Cluster { agents, coordinator, address, folder };
    let all = cluster.agents.len();
    cluster.wait("all agents are up", |status| daemons::count(status, "up") == all);
    cluster
}

/// Where the daemon with that log serves its metrics.
fn address_in(log: &Path) -> SocketAddr {
    daemons::address_in_log(log, "metrics are at ")
}

fn coordinator_of(cluster: &Cluster) -> SocketAddr {
    address_in(&cluster.path("coordinator.log"))
}

/// The text of the metrics.
fn scrape(address: SocketAddr) -> String {
    let answer = get(address, "/metrics", "");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_string()
}

/// The value of a sample that is written exactly so.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{sample} is not in\n{text}")).parse().unwrap()
}

/// The names of all samples.
fn names(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_string()).collect()
}

/// Every metric of Suture, and every one of processes, that an expression names.
fn named_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    let is_metric = |word: &&str| word.starts_with("suture_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_string).collect()
}

fn expressions_of_rules() -> Vec<String> {
    let rules = deploy("prometheus/suture-rules.yml");
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    expressions.map(str::to_string).collect()
}

fn expressions_of_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&deploy("grafana/suture.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_string()).collect()
}

/// `promtool`, where it is: in PATH, or where SUTURE_PROMTOOL says.
fn promtool() -> Option<PathBuf> {
    let found = std::env::var_os("SUTURE_PROMTOOL").map_or("promtool".into(), PathBuf::from);
    let is_there = Command::new(&found).arg("--version").output().is_ok();
    if !is_there {
        // Past what keeps the output of tests that pass.
        let why = "SKIPPED: promtool is not here (package prometheus); set SUTURE_PROMTOOL";
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    is_there.then_some(found)
}

#[test]
fn what_a_repair_does_is_counted_and_all_that_dashboard_and_alerts_name_is_there() {
    let mut cluster = monitored(7);
    let how = ["--code", "rs(3,2)", "--chunk-size", "256KiB"];
    cluster.put("x", 6_000_000, &how);
    let (df, stat) = (cluster.json(&["df"]), cluster.json(&["stat", "x"]));
    assert_eq!(df["total"]["used_bytes"], stat["stored_bytes"], "{df:#} {stat:#}");
    assert_eq!(df["nodes"].as_array().unwrap().len(), 7);
    assert!(cluster.ok(&["df"]).contains("total"), "a table ends with all");
    let coordinator = coordinator_of(&cluster);
    let before = scrape(coordinator);
    assert_eq!(value(&before, "suture_nodes{health=\"up\"}"), 7.0);
    assert_eq!(value(&before, "suture_stripes"), 8.0);
    assert_eq!(value(&before, "suture_rebuilt_bytes_total"), 0.0);
    assert!(value(&before, "suture_put_memory_limit_bytes") > 0.0);
    assert_eq!(value(&before, "suture_put_memory_reserved_bytes"), 0.0, "no put is under way");

    cluster.agents[0].kill();
    cluster.agents[1].kill();
    let is_known = |text: &str| {
        text.contains("\nsuture_repair_eta_seconds{")
            && text.contains("\nsuture_repair_bound_seconds ")
            && value(text, "suture_repair_bytes_per_second") > 0.0
    };
    let during = scrape_until(coordinator, "the time left and the bound are known", is_known);
    // Each rebuilt chunk takes one at least that is sent, by six agents with 2 Mbit/s.
    let bound = value(&during, "suture_repair_bound_bytes_per_second");
    assert!(bound > 0.0 && bound <= 6.0 * 250e3, "{bound}");
    let mut exported = names(&during);
    let status = cluster.wait("all is repaired", |status| status["state"] == "healthy");
    let after = scrape_until(coordinator, "nothing is lost", |text| {
        value(text, "suture_lost_bytes") == 0.0
    });
    let rebuilt = value(&after, "suture_rebuilt_bytes_total");
    assert_eq!(rebuilt, status["repaired_bytes"].as_f64().unwrap());
    assert_eq!(value(&after, "suture_nodes{health=\"failed\"}"), 2.0);
    assert!(value(&after, "suture_commit_seconds_count") >= 8.0);
    assert!(value(&after, "suture_repair_seconds_count") >= 1.0);
    assert!(value(&after, "suture_planned_seconds_total") > 0.0);
    assert!(value(&after, "suture_repairing_seconds_total") > 0.0);
    assert!(!after.contains("\nsuture_repair_bound_"), "nothing is to be rebuilt: {after}");

    // What agents moved for repairs came from somewhere.
    let of_agents: Vec<String> =
        (2..7).map(|i| scrape(address_in(&cluster.path(&format!("n{i}.log"))))).collect();
    let sum = |sample: &str| of_agents.iter().map(|text| value(text, sample)).sum::<f64>();
    let moved = |direction: &str, purpose: &str| {
        let labels = format!("{{direction=\"{direction}\",purpose=\"{purpose}\"}}");
        sum(&format!("suture_agent_moved_bytes_total{labels}"))
    };
    // What was on its way when an attempt ended was sent, and not received.
    let (sent, received) = (moved("sent", "repair"), moved("received", "repair"));
    assert!(received > 0.8 * sent && sent > 0.8 * received, "{sent} {received}");
    assert!(moved("received", "repair") >= rebuilt, "each rebuilt chunk takes at least one");
    assert!(moved("received", "client") > 0.0);
    assert!(sum("suture_agent_disk_seconds_count{operation=\"publish\"}") > 0.0);
    assert_eq!(sum("suture_agent_connected"), 5.0);

    exported.extend(names(&after));
    of_agents.iter().for_each(|text| exported.extend(names(text)));
    // Without credentials nothing expires.
    exported.insert("suture_certificate_expiry_timestamp_seconds".into());
    // And without a throttle nothing is limited.
    exported.insert("suture_node_repair_limit_bytes_per_second".into());
    exported.extend(names_of_hdfs());
    check_listed(&exported);
    let expressions = [expressions_of_rules(), expressions_of_dashboard()].concat();
    assert!(expressions.len() > 40, "{}", expressions.len());
    for expression in expressions {
        for name in named_in(&expression) {
            assert!(exported.contains(&name), "{name} of '{expression}' is not exported");
        }
    }
    check_with_promtool(&[&[after], &of_agents[..1]].concat());
}

/// Compares what is exported with docs/monitoring.md, which has histograms by their names alone.
fn check_listed(exported: &BTreeSet<String>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring.md");
    let listed = named_in(&fs::read_to_string(page).unwrap());
    for name in exported {
        let endings = ["_bucket", "_sum", "_count"];
        let histogram = endings.into_iter().find_map(|ending| name.strip_suffix(ending));
        let of_histogram = histogram.is_some_and(|name| listed.contains(name));
        assert!(listed.contains(name) || of_histogram, "docs/monitoring.md does not list {name}");
    }
}

/// What a coordinator of HDFS exports of that, without any NameNode.
fn names_of_hdfs() -> BTreeSet<String> {
    let hdfs = "[hdfs]\nmode = 'observe'\nlisten = '127.0.0.1:0'\n";
    let cluster = monitored_with(0, "", hdfs);
    let is_there = |text: &str| text.contains("\nsuture_hdfs_connected 0.0\n");
    let text = scrape_until(coordinator_of(&cluster), "HDFS is in the metrics", is_there);
    names(&text).into_iter().filter(|name| name.starts_with("suture_hdfs_")).collect()
}

#[test]
fn the_dashboard_shows_what_repairs_may_take_and_why() {
    let cluster = monitored_with(1, "", "[throttle]\ncap = '1Mbit'\n");
    let limit = "suture_node_repair_limit_bytes_per_second";
    let is_there = |text: &str| {
        text.contains(&format!("\n{limit}{{")) && text.contains("\"node\"} 125000.0\n")
    };
    let text = scrape_until(coordinator_of(&cluster), "the cap holds", is_there);
    let shown = named_in(&expressions_of_dashboard().join(" "));
    for name in [limit, "suture_node_link_bytes_per_second"] {
        assert!(names(&text).contains(name) && shown.contains(name), "{name}: {text}");
    }
}

#[test]
fn the_dashboard_shows_all_that_is_exported_of_hdfs() {
    let exported = names_of_hdfs();
    assert!(exported.len() >= 5, "{exported:?}");
    let shown = named_in(&expressions_of_dashboard().join(" "));
    for name in exported {
        assert!(shown.contains(&name), "{name} is in no panel");
    }
}

/// Waits until a daemon's log says this; gives all that it says.
fn wait_for_log(log: &Path, said: &str) -> String {
    let began = std::time::Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text.contains(said) {
            return text;
        }
        assert!(began.elapsed() < daemons::TIMEOUT, "not within a minute: {said}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn scrubs_that_cannot_keep_to_their_period_are_in_the_metrics_the_status_and_the_log() {
    let mut cluster = monitored_with(3, "", "[scrub]\nperiod = '1s'\nrate = '1kB'\n");
    // Every node has some 150 kB of it, which take it some 150 s.
    cluster.put("x", 300_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    scrape_until(coordinator_of(&cluster), "scrubs are late", |text| {
        let period = value(text, "suture_scrub_period_seconds");
        assert_eq!(period, 1.0);
        let least = value(text, "suture_scrub_least_seconds");
        least > 100.0 * period && value(text, "suture_scrub_age_seconds") > 2.0 * period
    });
    let log = cluster.path("coordinator.log");
    let late =
        ["a scrub at a rate of 1kB takes at least 2 min", "no scrub has come to its end for"];
    // A status may be one of a moment before.
    let since = Instant::now();
    loop {
        let status = cluster.ok(&["status"]);
        if late.iter().all(|said| status.contains(&format!("warning: {said}"))) {
            break;
        }
        assert!(since.elapsed() < TIMEOUT, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    late.iter().for_each(|said| drop(wait_for_log(&log, said)));
    let scrub = &cluster.json(&["status"])["scrub"];
    assert_eq!(scrub["period_seconds"], 1.0);
    assert!(scrub["least_seconds"].as_f64() > Some(100.0), "{scrub}");
    assert!(scrub["age_seconds"].as_f64() > Some(2.0), "{scrub}");
    let begun = cluster.ok(&["scrub"]);
    assert!(begun.contains(", at least 2 min") && begun.contains(" at its rate"), "{begun}");
    // The log of the next one begins with it.
    cluster.restart_coordinator();
    let text = wait_for_log(&log, late[0]);
    assert_eq!(text.matches(late[0]).count(), 1, "{text}");
}

#[test]
fn an_audit_log_that_takes_no_line_is_in_the_metrics_and_the_status() {
    let cluster = monitored_with(0, "audit = '/dev/full'\n", "");
    let coordinator = coordinator_of(&cluster);
    assert_eq!(value(&scrape(coordinator), "suture_audit_unwritable"), 0.0);
    let refused = cluster.run(&["repair", "pause"]);
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("nothing was changed: the audit log"), "{}", refused.stderr);
    let is_known = |text: &str| value(text, "suture_audit_unwritable") == 1.0;
    let text = scrape_until(coordinator, "the audit log is known to be full", is_known);
    assert_eq!(value(&text, "suture_refusals_total{reason=\"audit\"}"), 1.0);
    let status = cluster.ok(&["status"]);
    let warning = "warning: changes are refused, since the audit log cannot be written: \
                   '/dev/full': No space left on device";
    assert!(status.contains(warning), "{status}");
}

/// What was asked a moment ago is answered again, so the newest is waited for.
fn scrape_until(address: SocketAddr, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let began = std::time::Instant::now();
    loop {
        let text = scrape(address);
        if is_so(&text) {
            return text;
        }
        assert!(began.elapsed() < daemons::TIMEOUT, "not within a minute: {what}: {text}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn check_with_promtool(texts: &[String]) {
    let Some(promtool) = promtool() else { return };
    for text in texts {
        let mut check = Command::new(&promtool);
        check.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut child = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn rules_are_rules_and_raise_the_alerts_that_they_are_for() {
    let runbooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks.md");
    let runbooks = fs::read_to_string(runbooks).unwrap();
    let rules = deploy("prometheus/suture-rules.yml");
    // Each test of an alert that is raised ends with its runbook.
    let raised = deploy("prometheus/suture-rules.test.yml").replace('\'', "");
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 15, "{alerts:?}");
    for alert in alerts {
        assert!(runbooks.contains(&format!("\n## {alert}\n")), "{alert} has no runbook");
        let link = format!("docs/runbooks.md#{}'", alert.to_lowercase());
        assert!(rules.contains(&link), "{alert} does not name its runbook");
        let is_raised = raised.contains(&format!("#{}\n", alert.to_lowercase()));
        assert!(is_raised, "no test raises {alert}");
    }
    let Some(promtool) = promtool() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    for arguments in [
        &["check", "rules", "suture-rules.yml"][..],
        &["check", "config", "prometheus.yml"],
        &["test", "rules", "suture-rules.test.yml"],
    ] {
        let output = Command::new(&promtool).args(arguments).current_dir(&folder).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn strangers_who_say_nothing_or_nonsense_keep_nobody_from_the_metrics() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let cluster = monitored(0);
    let address = coordinator_of(&cluster);
    let memory = || value(&scrape(address), "process_resident_memory_bytes");
    let before = memory();
    let mut silent = Vec::new();
    for number in 0..STRANGERS {
        let mut stream = TcpStream::connect(address).unwrap();
        // Some have begun a request.
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ");
        }
        silent.push(stream);
    }
    let grown = memory() - before;
    assert!(grown < 32e6, "{grown} bytes for {STRANGERS} connections");
    // The first of them were ended to make way.
    let mut byte = [0];
    silent[0].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(!matches!(silent[0].read(&mut byte), Ok(1)), "it has said nothing");

    let long = "a".repeat(100_000);
    let many: String = (0..1000).map(|n| format!("X-{n}: y\r\n")).collect();
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_string(), "200"),
        ("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "200"),
        ("GET /metrics HTTP/1.0\r\n\r\n".into(), "200"),
        ("GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "200"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "404"),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n".into(), "200"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:9\r\n\r\n".into(), "200"),
        ("GET /metrics HTTP/1.1\r\nHost: LocalHost:9\r\n\r\n".into(), "200"),
        ("GET /metrics HTTP/1.0\r\n\r\n".into(), "200"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(), "421"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n".into(), "421"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n".into(), "421"),
        ("GET /metrics HTTP/1.1\r\nHost: \r\n\r\n".into(), "421"),
        ("GET /metrics/../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "404"),
        (
            "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".into(),
            "405",
        ),
        ("BREW /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "405"),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), "4"),
        (format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"), "431"),
        (format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), "431"),
        ("nonsense\r\n\r\n".into(), "400"),
        ("GET /metrics HTTP/9.9\r\n\r\n".into(), "400"),
        ("\r\n\r\n\r\n".into(), ""),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}".into(), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), ""),
    ] {
        let shown: String = request.chars().take(60).collect();
        let answer = exchange(address, request.as_bytes());
        let line = answer.lines().next().unwrap_or_default();
        let is_so = line.is_empty()
            || line.starts_with(&format!("HTTP/1.1 {status}"))
            || line.starts_with(&format!("HTTP/1.0 {status}"));
        assert!(is_so && (status.is_empty() || !line.is_empty()), "{shown:?}: {line:?}");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let is_head = request.starts_with("HEAD");
        assert!(line.is_empty() || is_head || !body.trim().is_empty(), "{shown:?}: {answer:?}");
    }
    let open = get(address, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    drop(silent);
    let status = cluster.json(&["status"]);
    assert_eq!(status["state"], "healthy", "the coordinator goes on");
}
