//! `suture reproduce` from outside: what it lists, writes and refuses, and that an interruption
//! leaves what was finished. Which claims hold is not asserted: that is what the report is for.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::listed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn reproduce(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
    command.arg("reproduce").args(args).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &TempDir, args: &[&str]) -> Output {
    reproduce(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(folder: &TempDir, name: &str) -> String {
    let path = folder.path().join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Two seconds of links of 16 nodes; `columns` in the file of that name.
fn write_traces(folder: &Path, bad: &str, columns: usize) {
    fs::create_dir_all(folder).unwrap();
    for workload in ["tpcds", "tpch", "swim"] {
        for direction in ["upload", "download"] {
            let name = format!("{workload}_{direction}.csv");
            let columns = if name == bad { columns } else { 16 };
            let busy = vec!["50"; columns].join(",");
            let calm = vec!["900"; columns].join(",");
            fs::write(folder.join(name), format!("{calm}\n{busy}\n")).unwrap();
        }
    }
}

#[test]
fn without_an_argument_every_experiment_is_a_line_with_its_title() {
    let folder = TempDir::new().unwrap();
    let output = run(&folder, &[]);
    assert!(output.status.success());
    let lines = text(&output.stdout);
    for (name, title) in [
        ("repairboost/table1", "Load balancing degrees"),
        ("pivotrepair/fig5", "Single-chunk repair"),
        ("car/fig16", "Computation and transmission time"),
        ("chameleonec/fig24", "Exp#13"),
        ("butterfly/network", "Network traffic"),
    ] {
        let is_it = |line: &&str| line.starts_with(&format!("{name}  ")) && line.contains(title);
        assert!(lines.lines().any(|line| is_it(&line)), "{name} in {lines}");
    }
    let json: Value = serde_json::from_slice(&run(&folder, &["--format", "json"]).stdout).unwrap();
    assert_eq!(json["experiments"].as_array().unwrap().len(), lines.lines().count());
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is written");
}

#[test]
fn an_experiment_becomes_a_report_values_settings_and_claims() {
    let folder = TempDir::new().unwrap();
    let output = run(&folder, &["car/fig9", "--quick", "-o", "out", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    listed::JsonPage::read().check("suture reproduce PAPER", &json);
    let claims = json["claims"].as_array().unwrap();
    assert!(claims.len() >= 3 && claims.iter().all(|claim| claim["measured"].is_number()));
    let csv = read(&folder, "out/car/fig9.csv");
    assert!(
        csv.lines().any(|line| line.starts_with("\"CFS3\",\"16 MB\",\"CAR\",\"car\"")),
        "{csv}"
    );
    let settings: Value = serde_json::from_str(&read(&folder, "out/car/fig9.json")).unwrap();
    assert_eq!(settings["panels"][2]["points"][0]["setting"]["code"], "rs(10,4)");
    assert_eq!(settings["panels"][2]["series"][1]["policy"], "car");
    assert!(settings["panels"][2]["printed"].is_array() && settings["machine"].is_string());
    assert_eq!(settings["configuration"]["seeds"], 1);
    let report = read(&folder, "out/report.md");
    assert!(report.contains("lost chunk, MB; planned, not run"), "it says what it is: {report}");
    assert!(report.contains(". They took ") && report.contains(" on "), "{report}");
    assert!(report.contains("### car/fig9: Cross-rack traffic"), "{report}");
    assert!(report.contains("| 4 MB |") && report.contains("suture | bound |"), "{report}");
    let page = read(&folder, "out/report.html");
    assert_eq!(page.matches("<svg").count(), 3);
    assert_eq!(page.matches(">planned, not run</text>").count(), 3);
    assert!(page.contains("name=\"viewport\"") && !page.contains("src="), "it needs nothing else");
    assert!(read(&folder, "out/claims.md").contains("`car/fig9`"));
    // The same seeds give the same values.
    let again = run(&folder, &["car/fig9", "--quick", "-o", "again"]);
    assert!(again.status.success());
    assert_eq!(read(&folder, "again/car/fig9.csv"), csv);
}

#[test]
fn a_folder_that_holds_something_is_kept_unless_it_may_be_written_over() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out/mine"), "mine").unwrap();
    let args = ["car/fig8", "--quick", "-o", "out"];
    let refused = run(&folder, &args);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("'out' holds something already"));
    assert!(!folder.path().join("out/report.md").exists());
    let forced = run(&folder, &[&args[..], &["--force"]].concat());
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert_eq!(read(&folder, "out/mine"), "mine");
    // What is no reproduction is not gone on with.
    fs::create_dir(folder.path().join("foreign")).unwrap();
    fs::write(folder.path().join("foreign/report.md"), "mine").unwrap();
    let refused = run(&folder, &["car/fig8", "--quick", "-o", "foreign", "--resume"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("'foreign' holds something already and has no conf"));
    assert_eq!(read(&folder, "foreign/report.md"), "mine");
    // What was begun in one way is not gone on with in another.
    let other = run(&folder, &["car/fig8", "-o", "out", "--resume"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("was begun with other options"));
}

#[test]
fn a_report_is_of_all_that_the_folder_has_and_of_nothing_that_was_written_over() {
    let folder = TempDir::new().unwrap();
    let quick = |what: &str, more: &[&str]| {
        let output = run(&folder, &[&[what, "--quick", "-o", "out"][..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    quick("butterfly/network", &[]);
    let added = quick("car/fig8", &["--resume", "--format", "json"]);
    let json: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(json["experiments"], 2);
    let has_both = |report: &str| {
        let places = ["2 of 2 experiments", "### car/fig8", "### butterfly/network"];
        let places: Vec<_> = places.iter().filter_map(|part| report.find(part)).collect();
        places.len() == 3 && places.is_sorted()
    };
    assert!(has_both(&read(&folder, "out/report.md")), "in the order of the papers");
    // A part of what is there leaves the rest in the report.
    let again = quick("butterfly/network", &["--resume"]);
    assert!(text(&again.stderr).contains("butterfly/network: finished before"));
    assert!(has_both(&read(&folder, "out/report.md")));
    // What is written over is not gone on with, in whatever experiment.
    quick("butterfly/disk", &["--force"]);
    assert!(!folder.path().join("out/car/fig8.json").exists());
    let report = read(&folder, "out/report.md");
    assert!(report.contains("1 of 1 experiments") && !report.contains("car/fig8"), "{report}");
    let resumed = quick("butterfly/network", &["--resume"]);
    assert!(!text(&resumed.stderr).contains("finished before"));
    assert!(read(&folder, "out/report.md").contains("2 of 2 experiments"));
}

#[test]
fn traces_are_read_from_files_and_refused_by_the_name_of_the_file() {
    let folder = TempDir::new().unwrap();
    let traces = folder.path().join("traces");
    write_traces(&traces, "", 0);
    let args = ["pivotrepair/fig2", "--quick", "-o", "out", "--traces", "traces"];
    let output = run(&folder, &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = read(&folder, "out/report.md");
    assert!(report.contains("the measurements in traces"), "{report}");
    // In one of the two seconds all nodes are congested.
    assert!(report.contains("| TPC-DS | 50.0 |"), "{report}");
    let args = ["pivotrepair/fig2", "-o", "other", "--traces", "traces"];
    write_traces(&traces, "tpch_download.csv", 15);
    let refused = run(&folder, &args);
    assert_eq!(refused.status.code(), Some(2));
    let why = text(&refused.stderr);
    assert!(why.contains("tpch_download.csv: line 1: 15 columns, but the cluster has 16"), "{why}");
    fs::remove_file(traces.join("swim_upload.csv")).unwrap();
    write_traces(&traces, "", 0);
    fs::remove_file(traces.join("swim_upload.csv")).unwrap();
    let refused = run(&folder, &args);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("swim_upload.csv': No such file"));
    assert!(!folder.path().join("other").exists());
}

#[test]
fn an_interrupted_reproduction_keeps_what_is_finished_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let mut running = reproduce(&folder, &["pivotrepair", "--quick", "-o", "out"]).spawn().unwrap();
    let first = folder.path().join("out/pivotrepair/fig2.json");
    let since = Instant::now();
    while !first.exists() && since.elapsed() < Duration::from_secs(120) {
        sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let status = running.wait().unwrap();
    // It may have been done by then.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    let report = read(&folder, "out/report.md");
    assert!(report.contains("### pivotrepair/fig2"), "{report}");
    let modified = fs::metadata(&first).unwrap().modified().unwrap();
    let resumed = run(&folder, &["pivotrepair", "--quick", "-o", "out", "--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(text(&resumed.stderr).contains("pivotrepair/fig2: finished before"));
    assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), modified);
    let report = read(&folder, "out/report.md");
    assert!(
        report.contains("5 of 5 experiments") && report.contains("### pivotrepair/fig7"),
        "{report}"
    );
}

/// Interrupts it once in the middle of its runs, and again as soon as it says that it stops; gives
/// its exit status.
fn interrupt_twice(folder: &TempDir, out: &str) -> Option<i32> {
    let mut running = reproduce(folder, &["chameleonec", "--quick", "-o", out]).spawn().unwrap();
    let lines = BufReader::new(running.stderr.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let is_first = line.contains("chameleonec/fig2:");
        if is_first || line.contains("stopping; what is finished is kept") {
            kill_process(Pid::from_child(&running), Signal::INT).unwrap();
        }
    }
    running.wait().unwrap().code()
}

#[test]
fn a_second_interruption_ends_it_at_once_and_keeps_what_is_finished() {
    let folder = TempDir::new().unwrap();
    // All runs that go on may end between the two, though they take long; not every time.
    for attempt in 0..5 {
        let out = format!("out{attempt}");
        let status = interrupt_twice(&folder, &out);
        assert!(matches!(status, Some(1 | 130)), "{status:?}");
        let kept = read(&folder, &format!("{out}/chameleonec/fig2.json"));
        assert!(serde_json::from_str::<Value>(&kept).is_ok(), "{kept}");
        let has_report = folder.path().join(out).join("report.md").exists();
        if status == Some(130) && !has_report {
            return;
        }
    }
    panic!("each time it ended by itself between the two signals");
}
