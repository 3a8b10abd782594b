//! How a disk is, as a message.
//!
//! Place: beside the whole life of a repair: in heartbeats.

use suture_repair::message::DiskState;

use super::{Malformed, malformed};
use crate::control::proto;

pub(super) fn encode(disk: DiskState) -> proto::Disk {
    match disk {
        DiskState::Good => proto::Disk::Good,
        DiskState::ReadOnly => proto::Disk::ReadOnly,
        DiskState::Failing => proto::Disk::Failing,
        DiskState::Hanging => proto::Disk::Hanging,
    }
}

pub(super) fn decode(disk: i32) -> Result<DiskState, Malformed> {
    let disk = proto::Disk::try_from(disk).map_err(|error| malformed("Heartbeat.disk", error))?;
    Ok(match disk {
        proto::Disk::Good => DiskState::Good,
        proto::Disk::ReadOnly => DiskState::ReadOnly,
        proto::Disk::Failing => DiskState::Failing,
        proto::Disk::Hanging => DiskState::Hanging,
    })
}
