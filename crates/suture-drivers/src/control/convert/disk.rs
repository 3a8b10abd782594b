//! How a disk is, as a message.
//!
//! Place: beside the whole life of a repair: in heartbeats.

use suture_repair::message::DiskState;

use crate::control::proto;

pub(super) fn encode(disk: DiskState) -> proto::Disk {
    match disk {
        DiskState::Good => proto::Disk::Good,
        DiskState::ReadOnly => proto::Disk::ReadOnly,
        DiskState::Failing => proto::Disk::Failing,
        DiskState::Hanging => proto::Disk::Hanging,
    }
}

/// What this version does not know is nothing good.
pub(super) fn decode(disk: i32) -> DiskState {
    match proto::Disk::try_from(disk) {
        Ok(proto::Disk::Good) => DiskState::Good,
        Ok(proto::Disk::ReadOnly) => DiskState::ReadOnly,
        Ok(proto::Disk::Hanging) => DiskState::Hanging,
        Ok(proto::Disk::Failing) | Err(_) => DiskState::Failing,
    }
}
