//! A line for every block that was rebuilt for HDFS: what it was made of, where, and how it was
//! proven.
//!
//! Place: ... [commit location -> stripe healthy], for whoever asks afterwards.
//! JSON lines in `rebuilt.jsonl` of the coordinator's data_dir. HDFS itself cannot tell a rebuilt
//! block from one that a client wrote. A file that has become long is kept as `rebuilt.jsonl.old`,
//! in place of the one before. A disk that takes no line is warned of; repairs go on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use suture_repair::coordinator::Coordinator;
use suture_repair::event::Report;
use suture_repair::id::{ChunkIndex, NodeId, RepairId, StripeId};
use suture_repair::plan::Plan;
use suture_repair::time::Time;
use tracing::warn;

use super::group::{block_id, group_id};
use crate::data_dir;

/// What the file is called.
pub const REBUILT_NAME: &str = "rebuilt.jsonl";

/// A file of so many bytes has some hundred thousand lines.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Repairs whose beginnings are remembered; more do not run at a time.
const STARTED_MAX: usize = 1 << 16;

/// Where lines go, and what they will say of the repairs that run.
#[derive(Debug)]
pub struct RebuiltLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    started: BTreeMap<RepairId, BegunRepair>,
}

/// What is known of a repair when it begins.
#[derive(Clone, Debug)]
struct BegunRepair {
    stripe: StripeId,
    at: Time,
    /// The chunks that it reads, and where.
    sources: Vec<(ChunkIndex, NodeId)>,
    lanes: usize,
    edges: usize,
    /// What its edges carry, all together.
    bytes: u64,
    chunks_left: usize,
}

impl RebuiltLog {
    /// The log in a data_dir, which goes on where it ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(data_dir: &Path) -> io::Result<RebuiltLog> {
        let path = data_dir.join(REBUILT_NAME);
        let file = data_dir::new_file().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(RebuiltLog { path, file, bytes, started: BTreeMap::new() })
    }

    /// Takes one report of the core.
    pub fn note(&mut self, now: Time, report: &Report, core: &Coordinator) {
        match report {
            Report::Started { repair, plan } => self.begun(now, *repair, plan, core),
            Report::Failed { repair, .. } => drop(self.started.remove(repair)),
            Report::Replaced { repair, by } => {
                if let Some(begun) = self.started.remove(repair) {
                    self.started.insert(*by, begun);
                }
            }
            Report::Committed { repair, copy, node, bytes } => {
                let Some(begun) = self.started.get_mut(repair) else { return };
                begun.chunks_left = begun.chunks_left.saturating_sub(1);
                let name = |node: &NodeId| core.cluster().node(*node).name.clone();
                let source = |(chunk, node): &(ChunkIndex, NodeId)| json!({ "index": chunk.0, "node": name(node) });
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let line = json!({
                    "time": since_1970.as_secs(),
                    "group": group_id(copy.stripe),
                    "index": copy.chunk.0,
                    "block": block_id(copy.stripe, copy.chunk),
                    "bytes": bytes,
                    "node": name(node),
                    "repair": repair.to_string(),
                    "sources": begun.sources.iter().map(source).collect::<Vec<_>>(),
                    "plan": { "lanes": begun.lanes, "edges": begun.edges, "bytes": begun.bytes },
                    "check": "fingerprint",
                    "seconds": now.since(begun.at).as_secs_f64(),
                });
                if begun.chunks_left == 0 {
                    self.started.remove(repair);
                }
                if let Err(error) = self.write(&line.to_string()) {
                    warn!("{}: a line is lost: {error}", self.path.display());
                }
            }
            _ => {}
        }
    }

    fn begun(&mut self, now: Time, repair: RepairId, plan: &Plan, core: &Coordinator) {
        let Some(stripe) = core.stripes().get(plan.stripe) else { return };
        let edges = || plan.lanes.iter().flat_map(|lane| &lane.edges);
        let senders: Vec<NodeId> = edges().map(|edge| edge.child).collect();
        let located = stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?.0)));
        let is_source = |(chunk, node): &(ChunkIndex, NodeId)| {
            senders.contains(node) && !plan.lost.contains(chunk)
        };
        let begun = BegunRepair {
            stripe: plan.stripe,
            at: now,
            sources: located.filter(is_source).collect(),
            lanes: plan.lanes.len(),
            edges: senders.len(),
            bytes: edges().map(|edge| edge.bytes).sum(),
            chunks_left: plan.lost.len(),
        };
        // One repair of a stripe at a time: what is left of another has ended without a word.
        self.started.retain(|_, other| other.stripe != begun.stripe);
        if self.started.len() < STARTED_MAX {
            self.started.insert(repair, begun);
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes > FILE_BYTES_MAX {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            fs::rename(&self.path, old)?;
            self.file = data_dir::new_file().create(true).append(true).open(&self.path)?;
            self.bytes = 0;
        }
        self.bytes += line.len() as u64 + 1;
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_log_is_for_its_owner_alone_and_so_is_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RebuiltLog::open(dir.path()).unwrap();
        log.bytes = FILE_BYTES_MAX + 1;
        log.write("first").unwrap();
        for name in [REBUILT_NAME.to_owned(), format!("{REBUILT_NAME}.old")] {
            let mode = fs::metadata(dir.path().join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}
