//! What testbeds there are on this machine: a file for each, from before its first namespace until
//! after its last.
//!
//! Place: around the testbed's network. Whatever ends the command that made a testbed, the record
//! says what it made, so that `suture testbed down` finds it; a watcher does that at once where the
//! command was killed. What has lost its record is found by its names, and is not taken down unless
//! it is named: others may call a namespace so, too.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::tools;

/// Where records are: gone after a restart of the machine, as namespaces are.
const FOLDER: &str = "/run/suture/testbed";

/// Before the run id in the name of each namespace.
const PREFIX: &str = "suture-";

/// Letters of a run id: short, because the kernel gives the name of a link fifteen.
const ID_LETTERS: usize = 4;
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Every testbed has namespaces of these names.
const ALWAYS: [&str; 2] = ["core", "client"];

/// What processes in a namespace get between the request to end and the end.
const END_GRACE: Duration = Duration::from_millis(300);

/// The watcher waits so long for the last processes to end by themselves.
const WATCH_GRACE: Duration = Duration::from_millis(500);

/// All that a testbed made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The run id, which is in all of its names.
    pub run: String,
    /// What it is for.
    pub title: String,
    /// The process that made it.
    pub process: u32,
    /// When that process began, in ticks of the kernel: numbers of processes are used again.
    pub began: u64,
    /// Whether it is to stay when that process has ended.
    pub stays: bool,
    /// The names of the network namespaces.
    pub namespaces: Vec<String>,
    /// Folders with what processes keep.
    pub folders: Vec<PathBuf>,
}

impl Record {
    /// A record of a run with a new id, of nothing yet; it is written by [`Record::write`].
    ///
    /// # Errors
    /// When the system gives no random bits.
    pub fn new(title: &str, stays: bool) -> Result<Record> {
        let process = std::process::id();
        Ok(Record {
            run: new_id()?,
            title: title.to_string(),
            process,
            began: began(process).unwrap_or_default(),
            stays,
            namespaces: Vec::new(),
            folders: Vec::new(),
        })
    }

    /// The name of a namespace of this run.
    pub fn namespace(&self, name: &str) -> String {
        format!("{PREFIX}{}-{name}", self.run)
    }

    /// Writes the record, in one step.
    ///
    /// # Errors
    /// When the folder of records cannot be written.
    pub fn write(&self) -> Result<()> {
        let cannot = || format!("cannot write the record of the testbed in {FOLDER}");
        fs::create_dir_all(FOLDER).with_context(cannot)?;
        let temporary = Path::new(FOLDER).join(format!("{}.new", self.run));
        fs::write(&temporary, serde_json::to_string_pretty(self)?).with_context(cannot)?;
        fs::rename(&temporary, path(&self.run)).with_context(cannot)
    }

    /// Whether it was found by its names alone.
    pub fn is_lost(&self) -> bool {
        self.process == 0
    }

    /// Whether the process that made it lives.
    pub fn is_live(&self) -> bool {
        began(self.process).is_some_and(|began| began == self.began)
    }

    /// Ends what runs in its namespaces, removes them and its folders, and then the record.
    ///
    /// # Errors
    /// When something of it is left; the record is kept then.
    pub fn take_down(&self) -> Result<()> {
        let existing = namespaces()?;
        let ours = self.namespaces.iter().filter(|name| existing.contains(name));
        let ours: Vec<&str> = ours.map(String::as_str).collect();
        end_processes(&ours)?;
        for name in &ours {
            tools::ip(&["netns", "del", name]).context("cannot remove a network namespace")?;
        }
        for folder in &self.folders {
            absent(fs::remove_dir_all(folder))
                .with_context(|| format!("cannot remove '{}'", folder.display()))?;
        }
        absent(fs::remove_file(path(&self.run))).context("cannot remove the record")
    }
}

/// What is gone already needs no removal.
fn absent(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path(run: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{run}.json"))
}

fn new_id() -> Result<String> {
    let mut bits = [0; ID_LETTERS];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .context("cannot draw a run id")?;
    Ok(bits.iter().map(|bits| char::from(LETTERS[usize::from(*bits) % LETTERS.len()])).collect())
}

/// When a process began, if it lives: one that has ended is still listed until its parent asks.
fn began(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may have spaces and brackets; it ends with the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !has_ended)?.parse().ok()
}

/// Every record, by run id; and beside them, as records, what is there without one.
///
/// # Errors
/// When records or namespaces cannot be listed.
pub fn all() -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    let entries = match fs::read_dir(FOLDER) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    for entry in entries.with_context(|| format!("cannot read {FOLDER}"))? {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        // Half of a record is none; its namespaces are found by their names.
        records.extend(serde_json::from_str::<Record>(&text));
    }
    let names = namespaces()?;
    for name in &names {
        let Some(run) = run_of(name, &names) else { continue };
        let name = name.clone();
        match records.iter_mut().find(|record| record.run == run) {
            Some(record) if record.namespaces.contains(&name) => {}
            Some(record) => record.namespaces.push(name),
            None => records.push(Record {
                run: run.to_string(),
                title: "found by its names".to_string(),
                process: 0,
                began: 0,
                stays: true,
                namespaces: vec![name.clone()],
                folders: Vec::new(),
            }),
        }
    }
    records.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(records)
}

/// The run id in the name of a namespace that is of a testbed by all names that there are.
fn run_of<'a>(name: &'a str, names: &[String]) -> Option<&'a str> {
    let (run, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_id = run.len() == ID_LETTERS && run.bytes().all(|letter| LETTERS.contains(&letter));
    let is_there = |part: &&str| names.contains(&format!("{PREFIX}{run}-{part}"));
    (is_id && ALWAYS.iter().all(is_there)).then_some(run)
}

/// The network namespaces of this machine that have names.
fn namespaces() -> Result<Vec<String>> {
    let listed = tools::ip(&["netns", "list"]).context("cannot list network namespaces")?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_string).collect())
}

/// Ends what runs in these namespaces: asked first, then killed.
fn end_processes(namespaces: &[&str]) -> Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut processes = Vec::new();
        for name in namespaces {
            let listed = tools::ip(&["netns", "pids", name])?;
            processes.extend(listed.split_whitespace().filter_map(|id| id.parse::<i32>().ok()));
        }
        // This process may have threads there.
        let own = std::process::id() as i32;
        processes.retain(|process| *process != own);
        if processes.is_empty() {
            return Ok(());
        }
        for process in processes.into_iter().filter_map(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(process, signal);
        }
        sleep(END_GRACE);
    }
    Ok(())
}

/// A process that takes a testbed down when the one that made it is gone, however it ended.
pub struct Watcher(Child);

impl Watcher {
    /// Starts to watch over a run.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(run: &str) -> Result<Watcher> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let child = Command::new(program)
            .args(["testbed", "down", run, "--when-stdin-closes"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is not for it.
            .process_group(0)
            .spawn()
            .context("cannot start the process that watches over the testbed")?;
        Ok(Watcher(child))
    }

    /// Ends it, because nothing is left to watch over.
    pub fn end(mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the watcher does: waits for the end of standard input, and takes down what is left.
///
/// # Errors
/// When something of the run is left.
pub fn watch(run: &str) -> Result<()> {
    // Nothing writes there; an error means the same as the end.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    sleep(WATCH_GRACE);
    let left = all()?.into_iter().find(|record| record.run == run && !record.is_live());
    left.map_or(Ok(()), |record| record.take_down())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_does_not_live_though_nobody_has_asked_for_its_status() {
        assert!(began(std::process::id()).is_some());
        let mut child = Command::new("true").spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while began(child.id()).is_some() {
            assert!(std::time::Instant::now() < until, "it has ended long since");
            sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
    }

    #[test]
    fn namespaces_of_others_are_of_no_testbed_whatever_they_begin_with() {
        let names = [
            "suture-abcd-core",
            "suture-abcd-client",
            "suture-abcd-n0",
            "suture-prod-a",
            "suture-test-4711",
            "suture-0000-core",
            "suture-0000-client",
            "suture-node",
        ];
        let names = names.map(str::to_string);
        let found: Vec<Option<&str>> = names.iter().map(|name| run_of(name, &names)).collect();
        // Run ids have no zero.
        let (ours, others) = found.split_at(3);
        assert_eq!(ours, [Some("abcd"); 3]);
        assert!(others.iter().all(Option::is_none), "{others:?}");
    }
}
