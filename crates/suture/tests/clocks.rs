//! Clocks that are wrong: years ahead or behind they change dates only, and which peers
//! certificates let in; and one before 1970 is refused by each process that would write it down.
//!
//! Place: around whole processes, whose clock of the day is shifted by a small library that is
//! compiled here and loaded before the C library. Without a compiler the tests say loudly that
//! they skip.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::daemons::{Cluster, Process, count, finish, start_agent, suture};
use crate::secured::Secured;
use serde_json::Value;

/// The clock of the day, so many seconds from where it is; other clocks stay as they are.
const SHIFTED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void) {
    const char *seconds = getenv("CLOCK_SHIFT");
    const char *path = getenv("CLOCK_FILE");
    char said[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (read(file, said, sizeof said - 1) > 0)
            seconds = said;
        close(file);
    }
    return seconds ? atoll(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec at;
    int result = clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (now)
        *now = at.tv_sec;
    return at.tv_sec;
}
"#;

const YEAR: i64 = 31_556_952;

/// Where clocks can be shifted, the library that does.
fn library(folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or("cc".to_string());
    let (source, library) = (folder.join("shifted.c"), folder.join("shifted.so"));
    fs::write(&source, SHIFTED).unwrap();
    let mut compile = Command::new(&compiler);
    compile.args(["-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    let Ok(output) = compile.arg(&library).arg(&source).output() else {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: no clock was shifted: there is no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

/// A command with its clock of the day shifted by so many seconds.
fn shifted(library: &Path, seconds: i64) -> Command {
    let mut command = suture();
    command.env("LD_PRELOAD", library).env("CLOCK_SHIFT", seconds.to_string());
    command
}

/// A coordinator whose clock is shifted by so many years, among agents whose are not; and the date
/// of what it stores.
fn year_of_an_object(years: i64) -> Option<String> {
    let mut cluster = Cluster::of(0);
    let library = library(cluster.folder.path())?;
    cluster.coordinator.stop();
    let log = fs::File::create(cluster.path("shifted.log")).unwrap();
    let mut command = shifted(&library, years * YEAR);
    command.args(["coordinator", "--config"]).arg(cluster.path("coordinator.toml"));
    let (coordinator, line) = Process::start_by(command.stderr(log));
    cluster.address = line.strip_prefix("listening on ").expect("it listens").to_string();
    cluster.coordinator = coordinator;
    let agents = (0..4).map(|i| start_agent(cluster.folder.path(), &cluster.address, i, ""));
    cluster.agents = agents.collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let content = cluster.put("it", 200_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    cluster.agents[0].kill();
    cluster.wait("the lost chunks are rebuilt", |status| {
        count(status, "failed") == 1 && status["state"] == "healthy"
    });
    cluster.assert_reads("it", &content);
    cluster.ok(&["scrub", "--wait"]);
    let log = fs::read_to_string(cluster.path("shifted.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    let listed = cluster.ok(&["ls"]);
    let row = listed.lines().find(|row| row.ends_with(" it")).expect("a row for the object");
    let date = row.split_whitespace().find(|word| word.matches('-').count() == 2);
    Some(date.expect("a date")[..4].to_string())
}

fn this_year() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    1970 + now.as_secs() as i64 / YEAR
}

#[test]
fn a_coordinator_two_years_behind_only_dates_what_it_stores_so() {
    let Some(year) = year_of_an_object(-2) else { return };
    let year: i64 = year.parse().unwrap();
    assert!((year - (this_year() - 2)).abs() <= 1, "{year}");
}

#[test]
fn a_coordinator_three_centuries_ahead_only_dates_what_it_stores_so() {
    let Some(year) = year_of_an_object(317) else { return };
    let year: i64 = year.parse().unwrap();
    assert!((year - (this_year() + 317)).abs() <= 1, "{year}");
}

#[test]
fn a_coordinator_before_1970_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    let config = folder.path().join("c.toml");
    let data = folder.path().join("data");
    let text = format!("listen = '127.0.0.1:0'\ndata_dir = '{}'\n", data.display());
    fs::write(&config, text).unwrap();
    let mut command = shifted(&library, -100 * YEAR);
    let refused = finish(command.args(["coordinator", "--config"]).arg(&config));
    assert_eq!(refused.status, 1, "it may be set soon: {}", refused.stderr);
    assert!(refused.stderr.contains("clock is before 1970: set it"), "{}", refused.stderr);
    assert!(!data.exists(), "it took possession before it looked at its clock");
}

#[test]
fn a_clock_that_is_set_while_a_coordinator_runs_is_told_of_and_changes_nothing_else() {
    let mut cluster = Cluster::of(0);
    let Some(library) = library(cluster.folder.path()) else { return };
    cluster.coordinator.stop();
    let (log, said) = (cluster.path("jumps.log"), cluster.path("shift"));
    fs::write(&said, "0").unwrap();
    let mut command = shifted(&library, 0);
    command.args(["coordinator", "--config"]).arg(cluster.path("coordinator.toml"));
    command.env("CLOCK_FILE", &said).stderr(fs::File::create(&log).unwrap());
    let (coordinator, line) = Process::start_by(&mut command);
    cluster.address = line.strip_prefix("listening on ").expect("it listens").to_string();
    cluster.coordinator = coordinator;
    let agents = (0..4).map(|i| start_agent(cluster.folder.path(), &cluster.address, i, ""));
    cluster.agents = agents.collect();
    cluster.wait("all agents are up", |status| count(status, "up") == 4);
    let content = cluster.put("before", 100_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    for (seconds, words) in [
        (5 * 3600, "went forward by 5"),
        (-5 * 3600, "went back by 10"),
        (-100 * YEAR, "is before 1970: set it"),
    ] {
        fs::write(&said, seconds.to_string()).unwrap();
        let has_warning = |status: &Value| {
            let warnings = status["warnings"].as_array().unwrap().iter();
            warnings.filter_map(Value::as_str).any(|warning| warning.contains(words))
        };
        let status = cluster.wait(words, has_warning);
        assert_eq!(count(&status, "up"), 4, "nobody is silent by it");
        assert!(fs::read_to_string(&log).unwrap().contains(words), "{words}");
        let name = format!("at{seconds}");
        let stored = cluster.put(&name, 100_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
        cluster.assert_reads(&name, &stored);
        cluster.assert_reads("before", &content);
    }
    cluster.agents[0].kill();
    cluster.wait("the lost chunks are rebuilt", |status| {
        count(status, "failed") == 1 && status["state"] == "healthy"
    });
    let log = fs::read_to_string(&log).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_clock_beyond_the_life_of_certificates_lets_nobody_in_until_it_is_right() {
    let mut cluster = Secured::of(3);
    let Some(library) = library(cluster.folder.path()) else { return };
    let content = cluster.put("kept", 200_000);
    cluster.coordinator.stop();
    let (config, said) = (cluster.path("coordinator.toml"), cluster.path("shift"));
    // Agents look for it where it was.
    let text = fs::read_to_string(&config).unwrap();
    let listen = format!("listen = '{}'", cluster.address);
    fs::write(&config, text.replacen("listen = '127.0.0.1:0'", &listen, 1)).unwrap();
    fs::write(&said, "0").unwrap();
    let mut command = shifted(&library, 0);
    command.args(["coordinator", "--config"]).arg(&config).env("CLOCK_FILE", &said);
    let log = fs::File::create(cluster.path("coordinator.log")).unwrap();
    let (coordinator, line) = Process::start_by(command.stderr(log));
    assert_eq!(line, format!("listening on {}", cluster.address));
    cluster.coordinator = coordinator;
    cluster.wait("all agents are up", |status| count(status, "up") == 3);
    for (years, why) in
        [(2, "it has expired"), (-2, "it is not valid yet"), (-100, "it is not valid yet")]
    {
        let before = cluster.log("coordinator").len();
        fs::write(&said, (years * YEAR).to_string()).unwrap();
        for who in ["root", "guest"] {
            let refused = cluster.run_as(who, &["status"]);
            assert_eq!((refused.status, &*refused.stdout), (2, ""), "{years}: {}", refused.stderr);
            let why = "refuses our certificate: expired, or not valid yet by its clock";
            assert!(refused.stderr.contains(why), "{years}: {}", refused.stderr);
        }
        let refusal = format!("refused: its certificate: {why}");
        cluster.wait_for(why, || {
            cluster.log("coordinator")[before..].contains(&refusal).then_some(())
        });
    }
    fs::write(&said, "0").unwrap();
    cluster.wait("all agents are back", |status| {
        status["state"] == "healthy" && count(status, "up") == 3
    });
    cluster.assert_reads("kept", &content);
    assert!(!cluster.log("coordinator").contains("panicked"));
}

#[test]
fn agents_and_commands_with_any_clock_store_and_read() {
    let mut cluster = Cluster::of(2);
    let Some(library) = library(cluster.folder.path()) else { return };
    for (index, years) in [-2, 317, -100].into_iter().enumerate() {
        let index = index + 2;
        // The first makes the configuration, the second has the clock.
        start_agent(cluster.folder.path(), &cluster.address, index, "").stop();
        let mut agent = shifted(&library, years * YEAR);
        agent.args(["agent", "--config"]).arg(cluster.path(&format!("n{index}.toml")));
        let (agent, line) = Process::start_by(agent.stderr(Stdio::null()));
        assert!(line.starts_with("listening on "), "{years} years: {line}");
        cluster.agents.push(agent);
    }
    cluster.wait("all agents are up", |status| count(status, "up") == 5);
    let content = cluster.put("it", 300_000, &["--code", "rs(2,2)", "--chunk-size", "64KiB"]);
    assert_eq!(cluster.json(&["stat", "it"])["missing_chunks"], 0);
    for years in [-2, 317, -100] {
        let back = cluster.path("back");
        let mut get = shifted(&library, years * YEAR);
        get.args(["get", "it", "-o"]).arg(&back).env("SUTURE_COORDINATOR", &cluster.address);
        let got = finish(&mut get);
        assert_eq!(got.status, 0, "{years} years: {}", got.stderr);
        assert!(fs::read(&back).unwrap() == content, "{years} years");
    }
    cluster.agents[0].kill();
    let status = cluster.wait("the lost chunks are rebuilt", |status| {
        count(status, "failed") == 1 && status["state"] == "healthy"
    });
    assert_eq!(status["blocked"], Value::Array(vec![]));
    cluster.assert_reads("it", &content);
}
