//! Chunks of a stripe: how they are numbered, and how many there may be.
//!
//! Place: beside every question that is asked of a code.

use std::fmt;

/// The most chunks in a stripe: chunk counts travel in one byte.
pub const CHUNK_COUNT_MAX: usize = 255;

/// Bytes of every sub-chunk come in multiples of this: a vector register, and the padding of bit
/// planes.
pub const SUB_CHUNK_ALIGNMENT: usize = 64;

/// Which chunk of its stripe, counted from 0, data first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChunkIndex(pub u8);

impl fmt::Display for ChunkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
