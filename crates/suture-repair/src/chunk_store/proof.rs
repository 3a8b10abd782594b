//! What proves a rebuilt chunk, behind the interface: its recorded checksum, or fingerprints.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...
//! A rebuilt chunk that has no recorded checksum is proven by the fingerprints of its stripe's
//! chunks (`suture_code::fingerprint`), which the coordinator compares. The drivers and the
//! simulator, which perform what agents ask for, take them, and publish, by these functions.

use std::sync::Arc;

use suture_code::Fingerprint;

use super::{ChunkStore, ChunkWriter, Published, short};
use crate::id::{ChunkCopy, Digest};
use crate::label::Label;
use crate::message::{CopyFault, Failure, FingerprintRequest};

/// The fingerprint of a published copy, which is read in full against all of its checksums.
///
/// # Errors
/// As [`short::check`].
pub fn fingerprint_copy(
    store: &dyn ChunkStore,
    request: &FingerprintRequest,
) -> Result<Arc<[u8]>, CopyFault> {
    let digest = Digest { bytes: Some(request.bytes), crc: request.crc };
    let mut made = Fingerprint::new(request.seed, request.layout);
    let mut offset = 0;
    short::scan(store, request.copy, digest, &mut |part| {
        made.add(offset, part);
        offset += part.len() as u64;
    })?;
    Ok(made.bytes().into())
}

/// The fingerprint of an unpublished chunk, as it is read back from the medium. It may be published
/// afterwards.
///
/// # Errors
/// As [`ChunkWriter::prove`].
pub fn fingerprint_written(
    writer: &dyn ChunkWriter,
    request: &FingerprintRequest,
) -> Result<Arc<[u8]>, Failure> {
    let mut made = Fingerprint::new(request.seed, request.layout);
    let mut offset = 0;
    writer.prove(None, &mut |part| {
        made.add(offset, part);
        offset += part.len() as u64;
    })?;
    Ok(made.bytes().into())
}

/// Proves a chunk and gives it its name: against `recorded`, or, where there is no recorded
/// checksum, as it was read back for its fingerprint.
///
/// # Errors
/// As [`ChunkWriter::prove`] and [`ChunkWriter::publish`]; [`Failure::Disk`] when the name is taken
/// by other bytes.
pub fn publish(
    writer: &dyn ChunkWriter,
    copy: ChunkCopy,
    recorded: Option<u32>,
    label: &Label,
) -> Result<(), Failure> {
    if recorded.is_some() {
        writer.prove(recorded, &mut |_| ())?;
    }
    match writer.publish(copy, label)? {
        Published::Named => Ok(()),
        Published::Taken => Err(Failure::Disk(format!("{copy} exists with other bytes"))),
    }
}
