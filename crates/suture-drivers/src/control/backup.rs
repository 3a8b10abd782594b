//! A copy of the metadata on its way between a coordinator and the operator who asked for it.
//!
//! Place: beside the life of a repair. It goes in steps, so neither side holds all of it.

use std::io::{Read, Write};

use anyhow::{Context, Result, ensure};
use suture_edge::checksum::Crc32c;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::client::refusal;
use super::proto;
use crate::metadata::backup::Contents;
use crate::metadata::{Backup, Metadata};

/// Bytes of a message.
const STEP: usize = 256 << 10;

/// Takes a copy of the metadata, for one who asked.
pub(super) async fn take(metadata: &Metadata) -> Result<Backup, Status> {
    let cannot = |error: anyhow::Error| {
        Status::internal(format!("the coordinator cannot copy its metadata: {error:#}"))
    };
    metadata.backup().await.map_err(cannot)
}

/// Sends a copy, until its end or until nobody wants it any more.
pub(super) async fn send(
    backup: Backup,
    replies: mpsc::Sender<Result<proto::BackupReply, Status>>,
) {
    use proto::backup_reply::Part;
    let Backup { mut file, bytes, crc, contents: Contents { epoch, objects, stripes } } = backup;
    let head = proto::BackupHead { bytes, crc, epoch, objects, stripes };
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
            Err(error) => Err(Status::internal(format!("cannot read the copy: {error}"))),
        };
    }
}

/// Receives a copy into a file, which is whole when this returns: its length, and what it holds.
///
/// # Errors
/// When the coordinator fails or goes away, when something else comes than it announced, or the
/// file cannot be written.
pub async fn receive(
    mut replies: Streaming<proto::BackupReply>,
    mut into: impl Write,
) -> Result<(u64, Contents)> {
    use proto::backup_reply::Part;
    let mut head = None;
    let (mut bytes, mut crc) = (0, Crc32c::new());
    while let Some(reply) = replies.message().await.map_err(refusal)? {
        match reply.part {
            Some(Part::Head(first)) => head = Some(first),
            Some(Part::Data(data)) => {
                into.write_all(&data).context("cannot write the copy")?;
                crc.update(&data);
                bytes += data.len() as u64;
            }
            None => {}
        }
    }
    let head = head.context("the coordinator sent no copy")?;
    ensure!(
        (head.bytes, head.crc) == (bytes, crc.value()),
        "the copy did not arrive whole: {bytes} of {} bytes; try again",
        head.bytes
    );
    into.flush().context("cannot write the copy")?;
    let proto::BackupHead { epoch, objects, stripes, .. } = head;
    Ok((bytes, Contents { epoch, objects, stripes }))
}
