//! A line for every block that was rebuilt for HDFS: what it was made of, where, and how it was
//! proven.
//!
//! Place: ... [commit location -> stripe healthy], for whoever asks afterwards.
//! JSON lines in `rebuilt.jsonl` of the coordinator's data_dir. HDFS itself cannot tell a rebuilt
//! block from one that a client wrote. A file that has become long is kept as `rebuilt.jsonl.old`,
//! in place of the one before. A disk that takes no line is warned of; repairs go on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use suture_repair::coordinator::Coordinator;
use suture_repair::id::{ChunkIndex, NodeId};
use tracing::warn;

use super::group::{block_id, group_id};
use crate::attempt::RebuiltChunk;
use crate::data_dir;

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
        Ok(RebuiltLog { path, file, bytes })
    }

    /// Takes a chunk that was rebuilt.
    pub fn note(&mut self, rebuilt: &RebuiltChunk, core: &Coordinator) {
        let RebuiltChunk { repair, copy, node, bytes, sources, lanes, edges, .. } = rebuilt;
        let name = |node: &NodeId| core.cluster().node(*node).name.clone();
        let source =
            |(chunk, node): &(ChunkIndex, NodeId)| json!({ "index": chunk.0, "node": name(node) });
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = json!({
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
        });
        if let Err(error) = self.write(&line.to_string()) {
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
