//! A line for every block that was rebuilt for HDFS: what it was made of, where, and how it was
//! proven.
//!
//! Place: ... [commit location -> stripe healthy], for later inspection by an operator.
//! JSON lines in `rebuilt.jsonl` of the coordinator's data_dir. HDFS itself cannot distinguish a
//! rebuilt block from one that a client wrote. A file that has become long is kept as
//! `rebuilt.jsonl.old`, in place of the one before. A disk that takes no line is warned of; repairs
//! go on.
//!
//! A block is HDFS's as soon as its DataNode has finalized it, and its line is written when the
//! NameNode has it. Where the coordinator or the agent is killed in between, what comes after finds
//! the group whole, and nothing to write down. So the line is kept in `rebuilt-asked.jsonl` from
//! when an agent is to publish the block, and what a start finds there, and what of a repair
//! that fails, gets into the other file, with `confirmed` false.

mod asked;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use suture_repair::coordinator::Coordinator;
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, StripeId};
use tracing::warn;

use super::group::{block_id, group_id};
use crate::attempt::RebuiltChunk;
use crate::data_dir;
use asked::{AskedLine, AskedLines};

/// What the file is called.
pub const REBUILT_NAME: &str = "rebuilt.jsonl";

/// A file of so many bytes has some hundred thousand lines.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Where the lines go.
#[derive(Debug)]
pub struct RebuiltLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    asked: AskedLines,
}

impl RebuiltLog {
    /// The log in a data_dir, which goes on where it ended.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn open(data_dir: &Path) -> io::Result<RebuiltLog> {
        let path = data_dir.join(REBUILT_NAME);
        let file = data_dir::new_file().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        let (asked, left) = AskedLines::open(data_dir)?;
        let mut log = RebuiltLog { path, file, bytes, asked };
        for line in left {
            log.write(&line.to_string())?;
        }
        log.asked.clear()?;
        Ok(log)
    }

    /// The chunk is to be published, or its commit is asked for: from now on its line outlives this
    /// process.
    pub fn ask(&mut self, chunk: &RebuiltChunk, is_committing: bool, core: &Coordinator) {
        let (repair, copy, line) = (chunk.repair, chunk.copy, line(chunk, core, false));
        let result = self.asked.add(AskedLine { repair, copy, line, is_committing });
        self.warn_of(result);
    }

    /// Takes a chunk that was rebuilt.
    pub fn note(&mut self, rebuilt: &RebuiltChunk, core: &Coordinator) {
        let line = line(rebuilt, core, true);
        let result = self.write(&line.to_string());
        self.warn_of(result);
    }

    /// The commit was done, and its line written where the attempt was still known (`is_noted`).
    pub fn settle(&mut self, repair: RepairId, copy: ChunkCopy, is_noted: bool) {
        let is_it = |asked: &AskedLine| (asked.repair, asked.copy) == (repair, copy);
        if !is_noted {
            for mut line in self.asked.find(is_it) {
                line["confirmed"] = json!(true);
                let result = self.write(&line.to_string());
                self.warn_of(result);
            }
        }
        let result = self.asked.remove(is_it);
        self.warn_of(result);
    }

    /// The repair has failed, or another one goes on in its place: what it was to publish may be
    /// HDFS's all the same. What it commits is answered.
    pub fn ended(&mut self, repair: RepairId) {
        self.give_up(|asked| asked.repair == repair);
    }

    /// Another repair of the stripe begins: those before it have ended, with a word or without.
    pub fn begun(&mut self, stripe: StripeId, repair: RepairId) {
        self.give_up(|asked| asked.copy.stripe == stripe && asked.repair != repair);
    }

    /// Writes down what is not being committed, since nothing will confirm it.
    fn give_up(&mut self, is_meant: impl Fn(&AskedLine) -> bool) {
        let is_it = |asked: &AskedLine| !asked.is_committing && is_meant(asked);
        for line in self.asked.find(is_it) {
            let result = self.write(&line.to_string());
            self.warn_of(result);
        }
        let result = self.asked.remove(is_it);
        self.warn_of(result);
    }

    /// The commit that a repair has asked for was refused: the block is not HDFS's.
    pub fn refused(&mut self, repair: RepairId) {
        let result = self.asked.remove(|asked| asked.repair == repair);
        self.warn_of(result);
    }

    fn warn_of(&self, result: io::Result<()>) {
        if let Err(error) = result {
            warn!("{}: a line is lost: {error}", self.path.display());
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

/// What is written of a chunk.
fn line(rebuilt: &RebuiltChunk, core: &Coordinator, is_confirmed: bool) -> Value {
    let RebuiltChunk { repair, copy, node, bytes, sources, lanes, edges, .. } = rebuilt;
    let name = |node: &NodeId| core.cluster().node(*node).name.clone();
    let source =
        |(chunk, node): &(ChunkIndex, NodeId)| json!({ "index": chunk.0, "node": name(node) });
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "time": since_1970.as_secs(),
        "group": group_id(copy.stripe),
        "index": copy.chunk.0,
        "block": block_id(copy.stripe, copy.chunk),
        "bytes": bytes,
        "node": name(node),
        "repair": repair.to_string(),
        "sources": sources.iter().map(source).collect::<Vec<_>>(),
        "plan": { "lanes": lanes, "edges": edges, "bytes": rebuilt.moved_bytes },
        "check": rebuilt.proven_by.word(),
        "seconds": rebuilt.seconds,
        "confirmed": is_confirmed,
    })
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
        let names = [REBUILT_NAME.to_owned(), format!("{REBUILT_NAME}.old")];
        for name in names.into_iter().chain([asked::ASKED_NAME.to_owned()]) {
            let mode = fs::metadata(dir.path().join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    fn copy_of(chunk: u8) -> ChunkCopy {
        let stamp = RepairId(u64::from(chunk)).into();
        ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(chunk), stamp }
    }

    #[test]
    fn blocks_whose_commit_a_killed_coordinator_had_asked_for_have_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let lines = || -> Vec<Value> {
            let text = fs::read_to_string(dir.path().join(REBUILT_NAME)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let mut log = RebuiltLog::open(dir.path()).unwrap();
        let asked = |chunk: u8, is_committing| AskedLine {
            repair: RepairId(u64::from(chunk)),
            copy: copy_of(chunk),
            line: json!({ "index": chunk, "confirmed": false }),
            is_committing,
        };
        for chunk in 1..=4u8 {
            log.asked.add(asked(chunk, false)).unwrap();
            // Asked again, as the core does while nothing answers.
            log.asked.add(asked(chunk, true)).unwrap();
            log.asked.add(asked(chunk, true)).unwrap();
        }
        log.settle(RepairId(2), copy_of(2), true);
        log.refused(RepairId(3));
        log.settle(RepairId(9), copy_of(9), false);
        log.ended(RepairId(1));
        log.begun(StripeId(1), RepairId(9));
        assert!(lines().is_empty(), "none is confirmed, and all commits will be answered");
        // An agent may have finalized what it was to publish.
        for (chunk, end) in [
            (5, (|log: &mut RebuiltLog| log.ended(RepairId(5))) as fn(&mut RebuiltLog)),
            (6, |log| log.begun(StripeId(1), RepairId(9))),
            (7, |log| log.settle(RepairId(7), copy_of(7), false)),
        ] {
            log.asked.add(asked(chunk, false)).unwrap();
            end(&mut log);
        }
        let expected = [(5, false), (6, false), (7, true)];
        let ended = expected.map(|(index, is)| json!({ "index": index, "confirmed": is }));
        assert_eq!(lines(), ended);
        // It is killed.
        drop(log);
        drop(RebuiltLog::open(dir.path()).unwrap());
        let killed = [1, 4].map(|chunk| json!({ "index": chunk, "confirmed": false }));
        let expected = [&ended[..], &killed[..]].concat();
        assert_eq!(lines(), expected);
        drop(RebuiltLog::open(dir.path()).unwrap());
        assert_eq!(lines(), expected, "once each");
    }
}
