//! Short chunks behind the interface: what is past their end is zeros, and never stored.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable -> commit ...
//! Slices are cut alike for all chunks of a stripe, so some lie past the end of a short one.
//! Whoever performs an agent's reads and writes does so through these functions, and no store meets
//! a range that is not in its chunk.
//!
//! A copy that was cut short must not pass for a short chunk: [`open_whole`] and [`check`] compare
//! its length with the record. And what was rebuilt must be zeros past the chunk's end, or it is
//! wrong as a whole.

use std::sync::Arc;

use super::{ChunkReader, ChunkStore, ChunkWriter};
use crate::id::ChunkCopy;
use crate::message::{CopyFault, Failure};

/// Opens a copy that must have `bytes`.
///
/// # Errors
/// As [`ChunkStore::open`]; [`CopyFault::Corrupt`] when it has another length.
pub fn open_whole(
    store: &dyn ChunkStore,
    copy: ChunkCopy,
    bytes: u64,
) -> Result<Arc<dyn ChunkReader>, CopyFault> {
    let reader = store.open(copy)?;
    if reader.bytes() == bytes { Ok(reader) } else { Err(CopyFault::Corrupt) }
}

/// Reads a copy in full that must have `bytes`, if anyone says so.
///
/// # Errors
/// As [`ChunkStore::check`]; [`CopyFault::Corrupt`] when it has another length.
pub fn check(store: &dyn ChunkStore, copy: ChunkCopy, bytes: Option<u64>) -> Result<(), CopyFault> {
    bytes.map_or(Ok(()), |bytes| open_whole(store, copy, bytes).map(drop))?;
    store.check(copy)
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
