//! CRC32C, the one checksum of chunks, blocks and slices.
//!
//! Place: at both ends of every disk and socket between `failure` and `stripe healthy`.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a chunk under one checksum; its last block may be shorter. Whatever is read of a chunk
/// on disk is read in whole blocks, since nothing less can be checked.
pub const BLOCK_BYTES: u64 = 4096;

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of bytes that come in parts.
#[derive(Clone, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// The checksum of no bytes.
    #[allow(clippy::new_without_default, reason = "an empty sum is said, not defaulted to")]
    pub fn new() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds the bytes that follow.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}
