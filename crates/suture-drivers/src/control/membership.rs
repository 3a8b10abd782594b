//! What an agent keeps of its sessions: which node it was, the newest epoch that it followed, and
//! how many committed puts it knows of.
//!
//! Place: [failure detected] -> ... -> `[dispatch]` -> ... : reported when the agent joins again.
//! Metadata that were restored from a backup begin an epoch that was there before, and may number
//! nodes otherwise. Agents outlive their coordinators, so only they can report that; and they must
//! not forget it with their process. The number of puts parts metadata from older ones that were
//! copied in the middle of an epoch, as by a snapshot of the coordinator's disk. The file
//! `membership` in the data directory is written at each session in which it changes, and when puts
//! were committed, whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use suture_repair::id::NodeId;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;

use crate::data_dir;

/// The version of the file; a change adds one.
const VERSION: u32 = 1;

/// No disk that answers takes longer to keep a line.
const KEPT_WITHIN: Duration = Duration::from_secs(10);

/// What an agent knows of itself in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which node it was when it was last welcomed.
    pub node: NodeId,
    /// The newest epoch of a coordinator that it has followed.
    pub epoch: u32,
    /// The most committed puts that it knows of.
    pub committed: u64,
}

/// Keeps what changes of a membership, off the threads of sessions: a disk that is slow or hangs
/// holds up no session. Of several changes that wait the last one is written.
#[derive(Debug)]
pub(super) struct MembershipFile {
    wanted: watch::Sender<Option<Membership>>,
    /// What was written last, or could not be.
    done: watch::Receiver<Option<Membership>>,
}

impl MembershipFile {
    /// What `known` is not is written in this folder.
    pub(super) fn new(dir: PathBuf, known: Option<Membership>) -> MembershipFile {
        let (wanted, mut changes) = watch::channel(known);
        let (written, done) = watch::channel(known);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let (dir, membership) = (dir.clone(), *changes.borrow_and_update());
                let write = move || membership.map_or(Ok(()), |membership| membership.write(&dir));
                let result = tokio::task::spawn_blocking(write).await;
                if let Err(why) = result.unwrap_or_else(|why| Err(io::Error::other(why))) {
                    // The agent serves all the same: only after a restart these are not known.
                    warn!("cannot keep the number and epoch of this node: {why}");
                }
                written.send_replace(membership);
            }
        });
        MembershipFile { wanted, done }
    }

    /// Has it written, unless it is what was wanted before.
    pub(super) fn keep(&self, membership: Membership) {
        let membership = Some(membership);
        self.wanted.send_if_modified(|known| std::mem::replace(known, membership) != membership);
    }

    /// Waits until what is wanted was written, or could not be, but not for ever.
    pub(super) async fn kept(&mut self) {
        let wanted = *self.wanted.borrow();
        let done = self.done.wait_for(|done| *done == wanted);
        // A disk that takes longer hangs, which the session can report.
        let _ = timeout(KEPT_WITHIN, done).await;
    }
}

impl Membership {
    /// What the last session in this data directory left; nothing before the first one.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of this version.
    pub fn read(dir: &Path) -> io::Result<Option<Membership>> {
        let bytes = match fs::read(dir.join("membership")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        // What is no text is refused below, by the file's name.
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let mut field = |key: &str| lines.next()?.strip_prefix(key)?.parse::<u32>().ok();
        let fields = (field("suture-membership "), field("node "), field("epoch "));
        // The first ones had no fourth line.
        let committed = match lines.next() {
            None => Some(0),
            Some(line) => line.strip_prefix("committed ").and_then(|number| number.parse().ok()),
        };
        match (fields, committed) {
            ((Some(VERSION), Some(node), Some(epoch)), Some(committed)) => {
                Ok(Some(Membership { node: NodeId(node), epoch, committed }))
            }
            _ => {
                let what = "the file 'membership' is not readable, or of another version";
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
    }

    /// Keeps it in the data directory, durably.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        data_dir::create_folder(dir)?;
        let part = dir.join("membership.part");
        let mut file = data_dir::create_file(&part)?;
        let Membership { node, epoch, committed } = self;
        let first = format!("suture-membership {VERSION}\nnode {}\nepoch {epoch}\n", node.0);
        writeln!(file, "{first}committed {committed}")?;
        file.sync_all()?;
        fs::rename(&part, dir.join("membership"))?;
        File::open(dir)?.sync_all()
    }
}
