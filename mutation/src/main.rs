//! Mutation testing of the core: which small changes of `suture-repair` does no test notice?
//!
//! All mutants stand in one program, each behind a switch that an environment variable turns; a
//! build for each would take weeks. docs/mutants.md has the commands and what was found.

mod judge;
mod places;
mod schemata;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, bail};

use judge::Verdict;
use schemata::Schemata;

/// What is mutated, what can lose data first. Folders are meant with all that is in them.
const FILES: [&str; 31] = [
    "coordinator/copies.rs",
    "coordinator/commit.rs",
    "coordinator/attempt.rs",
    "coordinator/proof.rs",
    "coordinator/faults.rs",
    "coordinator/restored.rs",
    "coordinator/sleep.rs",
    "coordinator/ledger.rs",
    "coordinator/ledger",
    "agent.rs",
    "agent",
    "coordinator.rs",
    "coordinator/work_list.rs",
    "coordinator/trouble.rs",
    "coordinator",
    "keeper.rs",
    "pump.rs",
    "pump",
    "health.rs",
    "reach.rs",
    "queue.rs",
    "budget.rs",
    "need.rs",
    "placement.rs",
    "keeper",
    "schedule.rs",
    "schedule",
    "throttle.rs",
    "throttle",
    "rates.rs",
    "planner/moving.rs",
];

/// Not the core's behaviour: what asserts, tests, and what only a test calls.
const SKIPPED: [&str; 3] = ["invariants.rs", "tests.rs", "conformance.rs"];

fn files(repository: &Path) -> Result<Vec<String>> {
    let src = repository.join("crates/suture-repair/src");
    let mut found: Vec<String> = Vec::new();
    for name in FILES {
        let mut paths = vec![src.join(name)];
        if src.join(name).is_dir() {
            paths = fs::read_dir(src.join(name))?.flatten().map(|entry| entry.path()).collect();
            paths.sort();
        }
        for path in paths.iter().filter(|path| path.is_file()) {
            let file = path.strip_prefix(&src)?.to_string_lossy().into_owned();
            if !found.contains(&file) && !SKIPPED.iter().any(|skipped| file.ends_with(skipped)) {
                found.push(file);
            }
        }
    }
    Ok(found)
}

/// What is known of each mutant: one line each, the newest last.
fn ledger(path: &Path) -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split('\t').map(str::to_string);
        Some((parts.next()?, (parts.next()?, parts.next()?)))
    };
    text.lines().filter_map(entry).collect()
}

/// Tries the mutants that are asked for, and appends what comes out to the ledger at once.
fn run(schemata: &Schemata, path: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let judges = judge::prepare(schemata)?;
    for (target, (tests, seconds, mutants)) in judge::reach(&judges) {
        println!("{target}: {tests} tests, {seconds:.1} s, reach {mutants} mutants");
    }
    let kept = schemata.sources.iter().flat_map(|source| source.kept());
    let todo: Vec<u32> = kept.filter(|id| wanted(&schemata.names[*id as usize])).collect();
    let ledger = Mutex::new(fs::File::options().append(true).create(true).open(path)?);
    let next = AtomicUsize::new(0);
    judge::work(|| {
        let mut lately = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(&mutant) = todo.get(at) else { break };
            let (verdict, by) = judge::judge(&judges, mutant, &mut lately).expect("a judge runs");
            let word = match verdict {
                Verdict::Test => "test",
                Verdict::Swarm => "swarm",
                Verdict::Survived => "survived",
                Verdict::Unreached => "unreached",
            };
            let line = format!("{}\t{word}\t{by}\n", schemata.names[mutant as usize]);
            ledger.lock().unwrap().write_all(line.as_bytes()).expect("the ledger takes a line");
            print!("{}/{} {line}", at + 1, todo.len());
        }
    });
    Ok(())
}

fn report(schemata: &Schemata, known: &BTreeMap<String, (String, String)>) {
    println!("| file | mutants | killed by tests | killed by the swarm | left | not tried |");
    println!("|---|---|---|---|---|---|");
    let mut left = Vec::new();
    let mut all = [0; 5];
    for source in &schemata.sources {
        let mut counts = [0; 5];
        for name in source.kept().map(|id| &schemata.names[id as usize]) {
            let word = known.get(name).map(|(word, _)| &**word);
            let column = match word {
                Some("test") => 1,
                Some("swarm") => 2,
                Some(_) => 3,
                None => 4,
            };
            (counts[0], counts[column]) = (counts[0] + 1, counts[column] + 1);
            if column == 3 {
                left.push(format!("- {name} ({})", word.unwrap_or_default()));
            }
        }
        let cells: Vec<String> = counts.iter().map(|count| count.to_string()).collect();
        println!("| `{}` | {} |", source.file, cells.join(" | "));
        (0..5).for_each(|at| all[at] += counts[at]);
    }
    println!("| all | {} |\n", all.map(|count| count.to_string()).join(" | "));
    println!("{}", left.join("\n"));
}

fn main() -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let scratch: PathBuf = match std::env::var_os("SUTURE_MUTATION_SCRATCH") {
        Some(scratch) => scratch.into(),
        None => repository.join("mutation/target/scratch"),
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
    let mut schemata = Schemata::of(&repository, &scratch, &files(&repository)?)?;
    let path = scratch.join("ledger");
    schemata.leave_out_refused();
    if let ["run" | "again", ..] = arguments[..] {
        schemata.write(&repository)?;
    }
    let known = ledger(&path);
    let is_left = |name: &str| match known.get(name) {
        Some((word, _)) => word == "survived" || word == "unreached",
        None => false,
    };
    let in_files = |name: &str, parts: &[&str]| {
        let file = name.split(':').next().unwrap_or_default();
        parts.iter().any(|part| file.contains(part))
    };
    match &arguments[..] {
        ["list"] => schemata.names.iter().for_each(|name| println!("{name}")),
        ["run"] => run(&schemata, &path, |name| !known.contains_key(name))?,
        ["run", "--files", parts @ ..] => {
            run(&schemata, &path, |name| in_files(name, parts) && !known.contains_key(name))?;
        }
        ["again"] => run(&schemata, &path, is_left)?,
        ["again", "--files", parts @ ..] => {
            run(&schemata, &path, |name| in_files(name, parts) && is_left(name))?;
        }
        ["report"] => report(&schemata, &known),
        _ => bail!("list | run [--files PART...] | again [--files PART...] | report"),
    }
    Ok(())
}
