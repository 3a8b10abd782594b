//! A backup of the metadata on its way between a coordinator and the caller that asked for it: an
//! operator, or an agent that is to keep one.
//!
//! Place: beside the life of a repair. It goes in steps, so neither side holds all of it.
//! The coordinator's disk can be lost with everything on it; so one agent after the other keeps a
//! backup, each for as long as it takes to come to its turn again.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use suture_edge::checksum::Crc32c;
use suture_repair::wire::ClusterId;
use tempfile::NamedTempFile;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};
use tracing::{info, warn};

use super::client::{self, refusal, stream_ended};
use super::proto;
use super::proto::agent_message::Message as AgentWord;
use crate::identity::credentials::Kept;
use crate::metadata::backup::{Contents, cluster_in};
use crate::metadata::{Backup, Metadata};

/// Bytes of a message.
const STEP: usize = 256 << 10;

/// Takes a backup of the metadata, for a caller.
pub(super) async fn take(metadata: &Metadata) -> Result<Backup, Status> {
    let cannot = |error: anyhow::Error| {
        Status::internal(format!("it cannot back up its metadata: {error:#}"))
    };
    metadata.backup().await.map_err(cannot)
}

/// Sends a backup, until its end or until the caller has gone.
pub(super) async fn send(
    backup: Backup,
    may_be_older: bool,
    replies: mpsc::Sender<Result<proto::BackupReply, Status>>,
) {
    use proto::backup_reply::Part;
    let Backup { mut file, bytes, crc, contents: Contents { epoch, objects, stripes } } = backup;
    let head = proto::BackupHead { may_be_older, bytes, crc, epoch, objects, stripes };
    let reply = |part| Ok(proto::BackupReply { part: Some(part) });
    let mut next = reply(Part::Head(head));
    loop {
        let is_last = next.is_err();
        if replies.send(next).await.is_err() || is_last {
            return;
        }
        // From the page cache: it was just written.
        let mut data = Vec::with_capacity(STEP);
        next = match Read::take(&mut file, STEP as u64).read_to_end(&mut data) {
            Ok(0) => return,
            Ok(_) => reply(Part::Data(data)),
            Err(error) => Err(Status::internal(format!("cannot read the backup: {error}"))),
        };
    }
}

/// A backup that has come whole.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The length of the backup.
    pub bytes: u64,
    /// What it holds of the cluster.
    pub contents: Contents,
    /// Whether agents hold chunks of stripes of which it knows nothing, or may.
    pub may_be_older: bool,
}

/// Receives a backup into a file, which is whole when this returns.
///
/// # Errors
/// When the coordinator fails or goes away, when something else comes than it announced, or the
/// file cannot be written.
pub async fn receive(
    mut replies: Streaming<proto::BackupReply>,
    mut into: impl Write,
) -> Result<Received> {
    use proto::backup_reply::Part;
    let mut head = None;
    let (mut bytes, mut crc) = (0, Crc32c::new());
    while let Some(reply) = replies.message().await.map_err(stream_ended)? {
        match reply.part {
            Some(Part::Head(first)) => head = Some(first),
            Some(Part::Data(data)) => {
                into.write_all(&data).context("cannot write the backup")?;
                crc.update(&data);
                bytes += data.len() as u64;
            }
            None => {}
        }
    }
    let head = head.context("the coordinator sent no backup")?;
    ensure!(
        (head.bytes, head.crc) == (bytes, crc.value()),
        "the backup did not arrive whole: {bytes} of {} bytes; try again",
        head.bytes
    );
    into.flush().context("cannot write the backup")?;
    let proto::BackupHead { epoch, objects, stripes, may_be_older, .. } = head;
    Ok(Received { bytes, contents: Contents { epoch, objects, stripes }, may_be_older })
}

/// Where an agent keeps its backup of the metadata, in its data_dir.
pub const KEPT_AS: &str = "metadata-backup.db";

/// Where it keeps one of metadata that may be older than what agents hold: the backup before, which
/// may know of that, stays.
pub const OLDER_KEPT_AS: &str = "metadata-backup-older.db";

/// An agent's part in it: one backup at a time, in the place of the one before.
#[derive(Debug)]
pub(super) struct BackupKeeper {
    coordinator: String,
    credentials: Option<Arc<Kept>>,
    data_dir: PathBuf,
    job: Option<JoinHandle<()>>,
}

impl BackupKeeper {
    /// Keeps backups of that coordinator's metadata in a folder.
    pub(super) fn new(
        coordinator: String,
        credentials: Option<Arc<Kept>>,
        data_dir: PathBuf,
    ) -> BackupKeeper {
        BackupKeeper { coordinator, credentials, data_dir, job: None }
    }

    /// Fetches a backup meanwhile, and reports it to the session, which is of that cluster. What
    /// was kept before stays until all of the new one is durable.
    pub(super) fn keep(
        &mut self,
        session: mpsc::Sender<proto::AgentMessage>,
        cluster: Option<ClusterId>,
    ) {
        if self.job.as_ref().is_some_and(|job| !job.is_finished()) {
            return;
        }
        let (coordinator, data_dir) = (self.coordinator.clone(), self.data_dir.clone());
        let credentials = self.credentials.clone();
        // On a thread that may wait for the disk.
        self.job = Some(tokio::task::spawn_blocking(move || {
            let fetched = fetch(&coordinator, credentials, &data_dir, cluster);
            let fetched = Handle::current().block_on(fetched);
            match fetched {
                Ok(contents) => {
                    info!(objects = contents.objects, "keeps a backup of the metadata");
                    let word = AgentWord::BackupKept(proto::Done {});
                    // Where the session has ended, the next backup is reported.
                    let _ = session.blocking_send(proto::AgentMessage { message: Some(word) });
                }
                Err(why) => warn!("cannot keep a backup of the metadata: {why:#}"),
            }
        }));
    }
}

async fn fetch(
    coordinator: &str,
    credentials: Option<Arc<Kept>>,
    data_dir: &Path,
    cluster: Option<ClusterId>,
) -> Result<Contents> {
    let mut client = client::connect(coordinator, credentials).await?;
    let replies = client.backup_metadata(proto::BackupRequest {}).await.map_err(refusal)?;
    let part = NamedTempFile::new_in(data_dir.join("tmp"))?;
    let received = receive(replies.into_inner(), part.as_file()).await?;
    // The session may be with one that has another address by now.
    let found = cluster_in(part.path());
    ensure!(
        cluster.is_none() || found == cluster,
        "{coordinator} sent one of another cluster: what was kept stays"
    );
    part.as_file().sync_all()?;
    let name = if received.may_be_older { OLDER_KEPT_AS } else { KEPT_AS };
    part.persist(data_dir.join(name))?;
    File::open(data_dir)?.sync_all()?;
    if !received.may_be_older {
        // Removed, so that it is not taken for the newer one. That there is none is as good.
        let _ = fs::remove_file(data_dir.join(OLDER_KEPT_AS));
    }
    Ok(received.contents)
}
