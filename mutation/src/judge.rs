//! What decides about a mutant: tests, one process for a few of them at a time.
//!
//! A pass without mutants records how long each test takes and which mutants it reaches, so that
//! only those are asked which can notice one: short ones first, seeds of the swarm last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::schemata::{Schemata, write_changed};

/// Files of the simulator's tests that judge; of the core all do.
const SIMULATED: [&str; 3] = ["gated::", "lanes::", "schedules::"];

/// The programs of both crates that are asked.
const TARGETS: [&str; 3] = ["suite", "fuzz", SWARM];

/// Made here: each seed is a test of its own.
const SWARM: &str = "mutation_swarm";
const SEEDS: u64 = 300;

/// A test that takes longer is not asked.
const LONGEST_SECONDS: f64 = 3.0;

/// Tests that take less together share a process.
const BATCH_SECONDS: f64 = 0.4;

/// A mutant has this many times the time that its judge takes without it, and these seconds of
/// processor time at least.
const SLOWER: f64 = 10.0;
const LEAST_SECONDS: f64 = 8.0;

/// One test.
#[derive(Clone, Debug)]
pub struct Judge {
    program: PathBuf,
    folder: PathBuf,
    target: String,
    name: String,
    seconds: f64,
    reached: BTreeSet<u32>,
}

/// What was found about a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Test,
    Swarm,
    Survived,
    Unreached,
}

impl Judge {
    fn process(&self, names: &[&str], seconds: f64) -> Command {
        let limit = (seconds * SLOWER).max(LEAST_SECONDS).ceil();
        let script = format!("ulimit -t {limit}; ulimit -v 4000000; exec \"$@\"");
        let mut process = Command::new("sh");
        process.args(["-c", &script, "sh"]).arg(&self.program).arg("--exact").args(names);
        process.arg("--test-threads=1").current_dir(&self.folder).stdin(Stdio::null());
        process.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("RUST_BACKTRACE", "0");
        process.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        process
    }

    /// Which mutants it reaches, and how long it takes. What was recorded of the same program is
    /// not recorded again.
    fn record(&mut self, records: &Path) -> Result<()> {
        let program = self.program.file_name().context("a program")?.to_string_lossy();
        let folder = records.join(&*program);
        fs::create_dir_all(&folder)?;
        let (reached, took) = (folder.join(&self.name), folder.join(self.name.clone() + ".took"));
        let age = |path: &Path| fs::metadata(path).and_then(|m| m.modified());
        if !age(&took).is_ok_and(|took| age(&self.program).is_ok_and(|made| made <= took)) {
            drop(fs::remove_file(&reached));
            let mut process = self.process(&[&self.name], 60.0);
            process.env("SUTURE_MUTANT", "record").env("SUTURE_REACHED", &reached);
            let start = Instant::now();
            let output = process.output()?;
            ensure!(output.status.success(), "{} fails without mutants: {output:?}", self.name);
            fs::write(&took, start.elapsed().as_secs_f64().to_string())?;
        }
        self.seconds = fs::read_to_string(&took)?.parse()?;
        let bytes = fs::read(&reached).unwrap_or_default();
        self.reached = bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        Ok(())
    }
}

/// Builds all judges and has them recorded.
pub fn prepare(schemata: &Schemata) -> Result<Vec<Judge>> {
    let seeds = (0..SEEDS).map(|seed| format!("#[test]\nfn seed_{seed}() {{ run({seed}) }}\n"));
    let run = "fn run(seed: u64) {\n    let verdict = suture_sim::swarm::run(seed, \
               suture_sim::disk::Safeguards::ALL, false);\n    \
               assert!(verdict.violation.is_none());\n}\n";
    let path = schemata.scratch.join(format!("crates/suture-sim/tests/{SWARM}.rs"));
    write_changed(&path, seeds.chain([run.to_string()]).collect::<String>().as_bytes())?;
    let manifest = schemata.scratch.join("crates/suture-sim/Cargo.toml");
    let target = format!("\n[[test]]\nname = \"{SWARM}\"\n");
    write_changed(&manifest, (fs::read_to_string(&manifest)? + &target).as_bytes())?;
    // In one build, or the core would be compiled for each package anew.
    let mut cargo = schemata.cargo("test");
    cargo.args(["-p", "suture-repair", "-p", "suture-sim", "--no-run", "--lib"]);
    cargo.args(TARGETS.iter().flat_map(|target| ["--test", target]));
    let mut judges = Vec::new();
    for (target, folder, program) in programs(cargo)? {
        let output = Command::new(&program).args(["--list", "--format", "terse"]).output()?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            let is_integration = folder.ends_with("suture-sim") && TARGETS[..2].contains(&&*target);
            if is_integration && !SIMULATED.iter().any(|file| name.starts_with(file)) {
                continue;
            }
            let (target, folder, program) = (target.clone(), folder.clone(), program.clone());
            let (name, reached) = (name.to_string(), BTreeSet::new());
            judges.push(Judge { program, folder, target, name, seconds: 0.0, reached });
        }
    }
    let records = schemata.scratch.join("records");
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    work(|| {
        while let Some(judge) = judges.get(next.fetch_add(1, Relaxed)) {
            let mut judge = judge.clone();
            match judge.record(&records) {
                Ok(()) => done.lock().unwrap().push(judge),
                Err(error) => println!("left out: {}: {error:#}", judge.target),
            }
        }
    });
    let mut judges = done.into_inner().unwrap();
    judges.retain(|judge| judge.seconds <= LONGEST_SECONDS && !judge.reached.is_empty());
    judges.sort_by(|a, b| a.order().partial_cmp(&b.order()).expect("seconds"));
    Ok(judges)
}

/// Both processors.
pub fn work(task: impl Fn() + Sync) {
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(&task))));
}

/// The test programs that cargo builds: target, folder of the package, program.
fn programs(mut cargo: Command) -> Result<Vec<(String, PathBuf, PathBuf)>> {
    let output = cargo.arg("--message-format=json").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the judges do not compile");
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if let (Some(program), Some(manifest), Some(target)) = (
            value["executable"].as_str(),
            value["manifest_path"].as_str(),
            value["target"]["name"].as_str(),
        ) {
            let folder = Path::new(manifest).parent().context("a folder")?;
            programs.push((target.to_string(), folder.to_path_buf(), program.into()));
        }
    }
    Ok(programs)
}

impl Judge {
    /// Short tests by their programs, then long ones by their length, then the swarm.
    fn order(&self) -> (bool, f64, &Path, f64) {
        let long = if self.seconds > BATCH_SECONDS / 4.0 { self.seconds } else { 0.0 };
        (self.target == SWARM, long, &self.program, self.seconds)
    }
}

/// Tries one mutant. `lately` names tests that killed others, and is asked first.
pub fn judge(judges: &[Judge], mutant: u32, lately: &mut Vec<String>) -> Result<(Verdict, String)> {
    let reaching: Vec<&Judge> = judges.iter().filter(|j| j.reached.contains(&mutant)).collect();
    if reaching.is_empty() {
        return Ok((Verdict::Unreached, String::new()));
    }
    let first: Vec<&Judge> = lately
        .iter()
        .rev()
        .filter_map(|name| reaching.iter().copied().find(|judge| judge.name == *name))
        .take(3)
        .collect();
    let mut batches: Vec<Vec<&Judge>> = first.iter().map(|judge| vec![*judge]).collect();
    for judge in reaching.into_iter().filter(|j| first.iter().all(|f| f.name != j.name)) {
        let seconds = |batch: &[&Judge]| batch.iter().map(|judge| judge.seconds).sum::<f64>();
        match batches.last_mut() {
            Some(batch)
                if batch[0].program == judge.program
                    && seconds(batch) + judge.seconds < BATCH_SECONDS =>
            {
                batch.push(judge);
            }
            _ => batches.push(vec![judge]),
        }
    }
    for batch in batches {
        let names: Vec<&str> = batch.iter().map(|judge| &*judge.name).collect();
        let seconds = batch.iter().map(|judge| judge.seconds).sum();
        let mut process = batch[0].process(&names, seconds);
        let output = process.env("SUTURE_MUTANT", mutant.to_string()).output()?;
        if !output.status.success() {
            let (is_swarm, by) = (batch[0].target == SWARM, failed(&output));
            if let (false, Some(by)) = (is_swarm, &by) {
                lately.retain(|name| name != by);
                lately.push(by.clone());
            }
            let by = by.unwrap_or_else(|| format!("an end of {}", names[0]));
            let verdict = if is_swarm { Verdict::Swarm } else { Verdict::Test };
            return Ok((verdict, format!("{}: {by}", batch[0].target)));
        }
    }
    Ok((Verdict::Survived, String::new()))
}

/// The first test that failed.
fn failed(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text.lines().find_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED"))?;
    Some(name.to_string())
}

/// How many mutants each target reaches, for those who want to know what judges.
pub fn reach(judges: &[Judge]) -> BTreeMap<&str, (usize, f64, usize)> {
    let mut targets: BTreeMap<&str, (usize, f64, BTreeSet<u32>)> = BTreeMap::new();
    for judge in judges {
        let target = targets.entry(&judge.target).or_default();
        (target.0, target.1) = (target.0 + 1, target.1 + judge.seconds);
        target.2.extend(&judge.reached);
    }
    targets.into_iter().map(|(name, (tests, secs, all))| (name, (tests, secs, all.len()))).collect()
}
