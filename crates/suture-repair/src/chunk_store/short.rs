//! Short chunks behind the interface: what is past their end is zeros, and never stored.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable -> commit ...
//! Slices are cut alike for all chunks of a stripe, so some lie past the end of a short one.
//! The drivers and the simulator perform an agent's reads and writes through these functions, so no
//! store is given a range that is not in its chunk.
//!
//! A copy that was cut short must not pass for a short chunk, nor one of other bytes for the chunk
//! that it is called: [`open_matching`] and [`check`] compare length and checksum with the record,
//! without reading more. And what was rebuilt must be zeros past the chunk's end, or it is
//! wrong as a whole.

use std::sync::Arc;

use super::{ChunkReader, ChunkStore, ChunkWriter};
use crate::id::{ChunkCopy, Digest};
use crate::message::{CopyFault, Failure};

/// Opens a copy that must be as `recorded`.
///
/// # Errors
/// As [`ChunkStore::open`]; [`CopyFault::Corrupt`] when it has another length or checksum.
pub fn open_matching(
    store: &dyn ChunkStore,
    copy: ChunkCopy,
    digest: Digest,
) -> Result<Arc<dyn ChunkReader>, CopyFault> {
    let reader = store.open(copy)?;
    let found = Digest { bytes: Some(reader.bytes()), crc: reader.crc() };
    if found.fits(digest) { Ok(reader) } else { Err(CopyFault::Corrupt) }
}

/// Reads a copy in full that must be as `recorded`.
///
/// # Errors
/// As [`open_matching`] and [`ChunkStore::check`].
pub fn check(store: &dyn ChunkStore, copy: ChunkCopy, digest: Digest) -> Result<(), CopyFault> {
    open_matching(store, copy, digest)?;
    store.check(copy)
}

/// As [`check`], and shows `each` part of the copy from the first byte to the last.
///
/// # Errors
/// As [`check`].
pub fn scan(
    store: &dyn ChunkStore,
    copy: ChunkCopy,
    digest: Digest,
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), CopyFault> {
    open_matching(store, copy, digest)?;
    store.scan(copy, each)
}

/// Fills `into` from `offset` on, with zeros past the chunk's end.
///
/// # Errors
/// As [`ChunkReader::read`].
pub fn read(reader: &dyn ChunkReader, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
    let stored = before_end(reader.bytes(), offset, into.len());
    let (stored, past_end) = into.split_at_mut(stored);
    past_end.fill(0);
    if stored.is_empty() { Ok(()) } else { reader.read(offset, stored) }
}

/// Writes what lies before the chunk's end, and looks that the rest is zeros.
///
/// # Errors
/// As [`ChunkWriter::write`]; [`Failure::PastEnd`] when the rest is not.
pub fn write(writer: &dyn ChunkWriter, offset: u64, data: &[u8]) -> Result<(), Failure> {
    let stored = before_end(writer.bytes(), offset, data.len());
    if let Some(at) = data[stored..].iter().position(|byte| *byte != 0) {
        return Err(Failure::PastEnd { offset: offset + (stored + at) as u64 });
    }
    if stored == 0 { Ok(()) } else { writer.write(offset, &data[..stored]) }
}

/// How many of so many bytes from `offset` on lie in a chunk of `chunk_bytes`.
fn before_end(chunk_bytes: u64, offset: u64, bytes: usize) -> usize {
    chunk_bytes.saturating_sub(offset).min(bytes as u64) as usize
}
