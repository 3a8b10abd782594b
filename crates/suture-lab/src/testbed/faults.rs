//! What else goes wrong while a repair runs: the faults of a scenario, each at its time.
//!
//! Place: beside the testbed's repair, from the moment in which the failure is declared until
//! nothing is lost any more. What a fault does is done to real processes, links and files.
//! Invariant: a fault that ends is ended before the repair is judged, or with its processes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::Deserialize;
use suture_drivers::config::parse_duration;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::{format_exact_duration, format_seconds};
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;

use super::network::{Network, PortName};
use super::shaping::Feeds;
use crate::demo::processes::{Processes, Setting};
use crate::input::find_nodes;

/// Chunks of a node that a fault changes or deletes: of the last stripes, whose turn is not yet.
const CHUNKS_HIT: usize = 8;

/// How long a coordinator that is started again is away, unless the scenario says otherwise.
const AWAY: Duration = Duration::from_secs(1);

/// A fault as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultToml {
    at: String,
    kind: FaultKind,
    node: Option<String>,
    #[serde(rename = "for")]
    lasts: Option<String>,
}

/// What happens to its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Both directions of a node's link carry nothing for a while.
    LinkDown,
    /// An agent is stopped (SIGSTOP) for a while.
    Stop,
    /// An agent is killed.
    Kill,
    /// The coordinator is killed, and started again after a while.
    Restart,
    /// A byte changes in some chunks of a node.
    Corrupt,
    /// Some chunks of a node are deleted.
    Delete,
    /// The disk of a node gives errors to reads of some of its chunks and to all writes.
    DiskErrors,
}

impl FaultKind {
    /// Whether it ends after a while.
    fn ends(self) -> bool {
        matches!(self, FaultKind::LinkDown | FaultKind::Stop | FaultKind::Restart)
    }
}

/// One fault of a scenario.
#[derive(Clone, Debug)]
pub struct Fault {
    /// When, after the failure is declared.
    at: Duration,
    /// How long the fault lasts.
    lasts: Duration,
    kind: FaultKind,
    /// Of which node; none: of the coordinator.
    node: Option<NodeId>,
}

impl FaultToml {
    /// The fault, if it can happen in this cluster.
    ///
    /// # Errors
    /// Bad input when it cannot.
    pub(super) fn read(&self, cluster: &Cluster) -> Result<Fault> {
        let time = |key: &str, text: &String| {
            parse_duration(text).map_err(|why| bad_input(format!("fault: {key}: {why}")))
        };
        let lasts = match (&self.lasts, self.kind) {
            (Some(_), kind) if !kind.ends() => {
                return Err(bad_input("fault: only link-down, stop and restart have `for`"));
            }
            (Some(lasts), _) => time("for", lasts)?,
            (None, FaultKind::LinkDown | FaultKind::Stop) => {
                return Err(bad_input(
                    "fault: say `for` how long a link is down or an agent stopped",
                ));
            }
            (None, FaultKind::Restart) => AWAY,
            (None, _) => Duration::ZERO,
        };
        let node = match (&self.node, self.kind) {
            (None, FaultKind::Restart) => None,
            (Some(_), FaultKind::Restart) => {
                return Err(bad_input("fault: restart is of the coordinator: leave out `node`"));
            }
            (None, _) => return Err(bad_input("fault: name its `node`")),
            (Some(name), _) => {
                let found = find_nodes(cluster, std::slice::from_ref(name)).map_err(|of| {
                    bad_input(format!("fault: {}: the cluster has {}", quoted(&of.name), of.why))
                })?;
                found.first().copied()
            }
        };
        Ok(Fault { at: time("at", &self.at)?, lasts, kind: self.kind, node })
    }
}

/// Checks that faults can happen as they are written, where `gone` are the nodes that are killed
/// before, and a repair is given up after `timeout`.
///
/// # Errors
/// Bad input when one of them cannot.
pub(super) fn check_together(
    faults: &[Fault],
    cluster: &Cluster,
    gone: &[NodeId],
    timeout: Duration,
) -> Result<()> {
    for (index, fault) in faults.iter().enumerate() {
        let what = fault.describe(cluster);
        if fault.node.is_some_and(|node| gone.contains(&node)) {
            return Err(bad_input(format!("fault: {what}: it has failed by then")));
        }
        if fault.end() >= timeout {
            let timeout = format_exact_duration(timeout);
            return Err(bad_input(format!(
                "fault: {what}: a repair is given up after {timeout} (timeout)"
            )));
        }
        if let Some(other) = faults[..index].iter().find(|other| fault.excludes(other)) {
            let other = other.describe(cluster);
            return Err(bad_input(format!("fault: {what}, and {other}: not both can be")));
        }
    }
    Ok(())
}

impl Fault {
    fn end(&self) -> Duration {
        self.at + self.lasts
    }

    /// Whether both are of one process, link or disk, and one is not over when the other begins.
    fn excludes(&self, other: &Fault) -> bool {
        let are_of_disks = [self, other].iter().all(|of| of.kind == FaultKind::DiskErrors);
        let (first, second) = if self.at <= other.at { (self, other) } else { (other, self) };
        let is_killed = first.kind == FaultKind::Kill && second.kind != FaultKind::LinkDown;
        self.node == other.node
            && (is_killed
                || are_of_disks
                || (second.at <= first.end()
                    && (first.kind == second.kind || second.kind == FaultKind::Kill)))
    }

    /// What happens, for a report.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let node = self.node.map_or("the coordinator", |node| &cluster.node(node).name);
        let [at, lasts] = [self.at, self.lasts].map(|span| format_seconds(span.as_secs_f64()));
        let what = match self.kind {
            FaultKind::LinkDown => format!("the link of {node} carries nothing for {lasts}"),
            FaultKind::Stop => format!("the agent of {node} is stopped for {lasts}"),
            FaultKind::Kill => format!("the agent of {node} is killed"),
            FaultKind::Restart => format!("{node} is killed, and started again after {lasts}"),
            FaultKind::Corrupt => format!("a byte changes in {CHUNKS_HIT} chunks of {node}"),
            FaultKind::Delete => format!("{CHUNKS_HIT} chunks of {node} are deleted"),
            FaultKind::DiskErrors => format!(
                "the disk of {node} gives errors for {CHUNKS_HIT} chunks and for all that is \
                 written"
            ),
        };
        format!("{at} after the failure: {what}")
    }

    /// Whether chunks beside those of the failed nodes are lost by it, where a node that is silent
    /// for `dead` counts as failed.
    pub fn loses_more(&self, dead: Duration) -> bool {
        match self.kind {
            FaultKind::Kill | FaultKind::Corrupt | FaultKind::Delete | FaultKind::DiskErrors => {
                true
            }
            FaultKind::Stop | FaultKind::LinkDown | FaultKind::Restart => {
                self.node.is_some() && self.lasts >= dead
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    End,
}

/// The faults of a repair that runs.
pub(super) struct FaultPlay<'a> {
    faults: &'a [Fault],
    cluster: &'a Cluster,
    network: &'a Network,
    setting: &'a Setting,
    feeds: Option<Feeds>,
    began: Instant,
    /// What is still to be done, the next one last.
    steps: Vec<(Duration, usize, Step)>,
    is_away: bool,
}

impl<'a> FaultPlay<'a> {
    /// From now on.
    ///
    /// # Errors
    /// When links cannot be changed.
    pub fn begin(
        faults: &'a [Fault],
        cluster: &'a Cluster,
        network: &'a Network,
        setting: &'a Setting,
    ) -> Result<FaultPlay<'a>> {
        let has_links = faults.iter().any(|fault| fault.kind == FaultKind::LinkDown);
        let mut steps = Vec::new();
        for (index, fault) in faults.iter().enumerate() {
            steps.push((fault.at, index, Step::Begin));
            if fault.kind.ends() {
                steps.push((fault.end(), index, Step::End));
            }
        }
        steps.sort_by_key(|(at, ..)| *at);
        steps.reverse();
        Ok(FaultPlay {
            faults,
            cluster,
            network,
            setting,
            feeds: has_links.then(|| Feeds::open(network)).transpose()?,
            began: Instant::now(),
            steps,
            is_away: false,
        })
    }

    /// Whether the coordinator has been killed and not started again.
    pub fn is_coordinator_away(&self) -> bool {
        self.is_away
    }

    /// Whether the coordinator was started again, so that its clock is another one.
    pub fn restarts(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind == FaultKind::Restart)
    }

    /// Whether everything has happened and has ended.
    pub fn is_over(&self) -> bool {
        self.steps.is_empty()
    }

    /// When the next fault begins, after the failure, if any still does.
    pub fn next_begin(&self) -> Option<Duration> {
        let begins = |&&(_, _, step): &&(Duration, usize, Step)| step == Step::Begin;
        self.steps.iter().rev().find(begins).map(|(at, ..)| *at)
    }

    /// The names of the nodes that are killed.
    pub fn killed(&self) -> impl Iterator<Item = &str> {
        let killed = self.faults.iter().filter(|fault| fault.kind == FaultKind::Kill);
        killed.filter_map(|fault| Some(self.cluster.node(fault.node?).name.as_str()))
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When something of it cannot be done.
    pub async fn advance(&mut self, processes: &mut Processes) -> Result<()> {
        while let Some(&(at, index, step)) = self.steps.last()
            && at <= self.began.elapsed()
        {
            self.steps.pop();
            self.perform(&self.faults[index].clone(), step, processes).await?;
        }
        Ok(())
    }

    async fn perform(
        &mut self,
        fault: &Fault,
        step: Step,
        processes: &mut Processes,
    ) -> Result<()> {
        let name = fault.node.map(|node| self.cluster.node(node).name.as_str()).unwrap_or_default();
        match (fault.kind, step) {
            (FaultKind::LinkDown, _) => self.set_link(fault, step == Step::Begin)?,
            (FaultKind::Stop, Step::Begin) => processes.signal(name, Signal::STOP)?,
            (FaultKind::Stop, Step::End) => processes.signal(name, Signal::CONT)?,
            (FaultKind::Kill, _) => drop(processes.kill(name).await?),
            (FaultKind::Restart, Step::Begin) => {
                processes.kill_coordinator().await?;
                self.is_away = true;
            }
            (FaultKind::Restart, Step::End) => {
                processes.start_coordinator(self.setting).await?;
                self.is_away = false;
            }
            (FaultKind::Corrupt, _) => {
                chunks_in(&processes.data_dir(name))?.iter().try_for_each(|chunk| corrupt(chunk))?
            }
            (FaultKind::Delete, _) => {
                let chunks = chunks_in(&processes.data_dir(name))?;
                chunks.iter().try_for_each(fs::remove_file).context("cannot delete a chunk")?
            }
            (FaultKind::DiskErrors, _) => break_disk(&processes.data_dir(name))?,
        }
        Ok(())
    }

    fn set_link(&mut self, fault: &Fault, is_down: bool) -> Result<()> {
        let node = fault.node.expect("a link is a node's").index();
        let ports = [PortName::NodeUp(node), PortName::NodeDown(node)];
        let devices = self.network.devices.iter().filter(|device| ports.contains(&device.port));
        let changes: Vec<_> = devices.map(|device| (device, is_down)).collect();
        self.feeds.as_mut().expect("opened at the start").cut_off(&changes)
    }
}

/// Some chunks of a node, the last by their names.
fn chunks_in(data_dir: &Path) -> Result<Vec<PathBuf>> {
    let mut open = vec![data_dir.join("chunks")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list '{}'", folder.display()))?;
        for entry in entries {
            let (kind, path) = entry.and_then(|entry| Ok((entry.file_type()?, entry.path())))?;
            if kind.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found.split_off(found.len().saturating_sub(CHUNKS_HIT)))
}

/// Has some chunks of a node and everything that it would write fail with errors of the file
/// system, in place of a disk that is broken: a directory can be opened and not read (EISDIR), and
/// nothing can be created below a file (ENOTDIR).
fn break_disk(data_dir: &Path) -> Result<()> {
    let (written, away) = (data_dir.join("tmp"), data_dir.join("tmp-away"));
    let change = || {
        for chunk in &chunks_in(data_dir)? {
            fs::remove_file(chunk)?;
            fs::create_dir(chunk)?;
        }
        fs::rename(&written, &away)?;
        fs::write(&written, "")?;
        Ok::<_, anyhow::Error>(())
    };
    change().with_context(|| format!("cannot break the disk of '{}'", data_dir.display()))
}

/// Changes the first byte of a chunk.
fn corrupt(chunk: &Path) -> Result<()> {
    let change = || {
        let file = fs::OpenOptions::new().read(true).write(true).open(chunk)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0)?;
        file.write_all_at(&[byte[0] ^ 1], 0)
    };
    change().with_context(|| format!("cannot change '{}'", chunk.display()))
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::Rate;

    use super::*;

    fn read(text: &str) -> Result<Fault, String> {
        let toml: FaultToml = toml::from_str(text).map_err(|why| why.to_string())?;
        toml.read(&Cluster::uniform(4, Rate(1e6))).map_err(|why| why.to_string())
    }

    #[test]
    fn a_fault_has_what_it_needs_and_nothing_else() {
        for good in [
            "at = '2s'\nkind = 'link-down'\nnode = 'n1'\nfor = '10s'",
            "at = '500ms'\nkind = 'stop'\nnode = 'n0'\nfor = '3s'",
            "at = '1s'\nkind = 'kill'\nnode = 'n3'",
            "at = '1s'\nkind = 'restart'",
            "at = '1s'\nkind = 'corrupt'\nnode = 'n3'",
            "at = '1s'\nkind = 'disk-errors'\nnode = 'n3'",
        ] {
            read(good).unwrap_or_else(|why| panic!("{good}: {why}"));
        }
        for (bad, expected) in [
            ("at = '2s'\nkind = 'link-down'\nnode = 'n1'", "say `for` how long"),
            ("at = '2s'\nkind = 'kill'\nnode = 'n1'\nfor = '1s'", "only link-down, stop"),
            ("at = '2s'\nkind = 'kill'", "name its `node`"),
            ("at = '2s'\nkind = 'restart'\nnode = 'n1'", "leave out `node`"),
            ("at = '2s'\nkind = 'kill'\nnode = 'n9'", "the cluster has"),
            ("at = 'soon'\nkind = 'restart'", "fault: at: "),
            ("at = '1s'\nkind = 'flood'", "unknown variant"),
        ] {
            let why = read(bad).expect_err(bad);
            assert!(why.contains(expected), "{bad}: {why}");
        }
    }

    #[test]
    fn a_broken_disk_gives_errors_to_whoever_reads_and_writes() {
        let folder = tempfile::TempDir::new().unwrap();
        let (chunks, written) = (folder.path().join("chunks/0a"), folder.path().join("tmp"));
        fs::create_dir_all(&chunks).unwrap();
        fs::create_dir(&written).unwrap();
        let paths: Vec<PathBuf> = (0..=CHUNKS_HIT).map(|i| chunks.join(format!("{i}"))).collect();
        paths.iter().for_each(|path| fs::write(path, "chunk").unwrap());
        break_disk(folder.path()).unwrap();
        let is_read = |path: &&PathBuf| fs::read(path).is_ok();
        assert_eq!(paths.iter().filter(is_read).count(), 1, "the last ones are broken");
        assert!(fs::write(written.join("1"), "new").is_err());
    }

    #[test]
    fn faults_that_exclude_each_other_are_refused() {
        let cluster = Cluster::uniform(4, Rate(1e6));
        let check = |texts: &[&str], gone: &[NodeId]| {
            let faults: Vec<Fault> = texts.iter().map(|text| read(text).unwrap()).collect();
            let checked = check_together(&faults, &cluster, gone, Duration::from_secs(60));
            checked.map_err(|why| why.to_string())
        };
        let stop = "at = '2s'\nkind = 'stop'\nnode = 'n1'\nfor = '10s'";
        let kill = "at = '4s'\nkind = 'kill'\nnode = 'n1'";
        let other = "at = '4s'\nkind = 'kill'\nnode = 'n2'";
        let late = "at = '59s'\nkind = 'stop'\nnode = 'n1'\nfor = '1s'";
        assert_eq!(check(&[stop, other], &[NodeId(3)]), Ok(()));
        for (faults, gone, expected) in [
            (&[stop, kill][..], &[][..], "not both can be"),
            (&[kill, kill], &[], "not both can be"),
            (&[late], &[], "given up after 1min"),
            (&[other], &[NodeId(2)], "it has failed by then"),
        ] {
            let why = check(faults, gone).expect_err(expected);
            assert!(why.contains(expected), "{faults:?}: {why}");
        }
    }
}
