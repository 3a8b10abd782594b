//! Checksums of a chunk: CRC32C per 4 KiB block, and how they fold into the one of the whole chunk.
//!
//! Place: under every read and every write of a chunk.
//! The manifest holds one checksum per chunk, the `.crc` file beside the chunk one per block.
//! Because CRC32C is linear, the checksum of a chunk follows from those of its blocks without the
//! data: so the manifest vouches for the `.crc` file, and the `.crc` file for each block that is
//! read. A part of a chunk can then be trusted without reading the rest, and a stale `.crc` file is
//! distinguished from a bad chunk.
//!
//! Cost: 4 bytes a block, one thousandth of the data, in memory while a chunk is open.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use suture_edge::checksum::{BLOCK_BYTES, crc32c};

/// The checksum of `first` bytes followed by `second_bytes` bytes, from the checksums of both.
fn combine(first: u32, second: u32, second_bytes: u64) -> u32 {
    let combined =
        crc_fast::checksum_combine(Crc32Iscsi, first.into(), second.into(), second_bytes);
    combined as u32
}

/// The checksums of one chunk's blocks. The last block may be short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChecksums {
    blocks: Vec<u32>,
    chunk_bytes: u64,
}

impl BlockChecksums {
    /// Reads the content of a `.crc` file; `None` when it is not one of a chunk of that size.
    pub fn from_file(content: &[u8], chunk_bytes: u64) -> Option<BlockChecksums> {
        if content.len() as u64 != file_bytes(chunk_bytes) {
            return None;
        }
        let (words, _) = content.as_chunks::<4>();
        let blocks = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Some(BlockChecksums { blocks, chunk_bytes })
    }

    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The content of the `.crc` file: four bytes a block, little endian.
    pub fn to_file(&self) -> Vec<u8> {
        self.blocks.iter().flat_map(|block| block.to_le_bytes()).collect()
    }

    /// The checksum of the whole chunk.
    pub fn of_chunk(&self) -> u32 {
        let whole = (self.chunk_bytes / BLOCK_BYTES) as usize;
        let (whole, short) = self.blocks.split_at(whole);
        let chunk = whole.iter().fold(0, |chunk, block| advance(chunk, BLOCK_BYTES) ^ block);
        let short_bytes = self.chunk_bytes % BLOCK_BYTES;
        short.iter().fold(chunk, |chunk, block| advance(chunk, short_bytes) ^ block)
    }

    /// Where in the chunk the first block lies that is not what was written, if any. `bytes` stand
    /// at `offset`, which is that of a block.
    pub fn first_mismatch(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let first_block = block_index(offset);
        let expected = &self.blocks[first_block..];
        let bad = bytes
            .chunks(BLOCK_BYTES as usize)
            .zip(expected)
            .position(|(block, expected)| crc32c(block) != *expected)?;
        Some((first_block + bad) as u64 * BLOCK_BYTES)
    }

    /// Where the first block lies whose checksum differs, and how many there are.
    pub fn differences(&self, other: &BlockChecksums) -> Option<(u64, usize)> {
        let pairs = || self.blocks.iter().zip(&other.blocks);
        let first = pairs().position(|(a, b)| a != b)?;
        Some((first as u64 * BLOCK_BYTES, pairs().filter(|(a, b)| a != b).count()))
    }
}

/// Collects the checksums of a chunk whose pieces are finished in any order, each once, by any
/// thread.
pub struct ChecksumRecorder {
    blocks: Vec<AtomicU32>,
    chunk_bytes: u64,
}

impl ChecksumRecorder {
    pub fn new(chunk_bytes: u64) -> ChecksumRecorder {
        let count = chunk_bytes.div_ceil(BLOCK_BYTES) as usize;
        ChecksumRecorder { blocks: (0..count).map(|_| AtomicU32::new(0)).collect(), chunk_bytes }
    }

    /// Notes `bytes`, which stand at `offset` of the chunk. They may begin and end within blocks.
    pub fn record(&self, offset: u64, bytes: &[u8]) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let block = offset / BLOCK_BYTES;
            let block_end = ((block + 1) * BLOCK_BYTES).min(self.chunk_bytes);
            let (piece, later) = rest.split_at(rest.len().min((block_end - offset) as usize));
            let behind = block_end - offset - piece.len() as u64;
            // The checksum is linear: that of a block is the sum of those of its pieces, each moved
            // to its place.
            let own = crc32c(piece);
            let moved = advance(own, behind);
            // Relaxed: the threads are joined before the first read.
            self.blocks[block as usize].fetch_xor(moved, Ordering::Relaxed);
            (offset, rest) = (offset + piece.len() as u64, later);
        }
    }

    pub fn finish(self) -> BlockChecksums {
        let blocks = self.blocks.into_iter().map(AtomicU32::into_inner).collect();
        BlockChecksums { blocks, chunk_bytes: self.chunk_bytes }
    }
}

/// The size of the `.crc` file of a chunk.
pub fn file_bytes(chunk_bytes: u64) -> u64 {
    4 * chunk_bytes.div_ceil(BLOCK_BYTES)
}

fn block_index(offset: u64) -> usize {
    assert!(offset.is_multiple_of(BLOCK_BYTES), "offset {offset} is inside a block");
    (offset / BLOCK_BYTES) as usize
}

/// What some bytes, were they zeros, would do to a checksum: a linear map of 32 bits, as four
/// tables. crc-fast computes the same map anew for each call; at one call a block, or several a
/// block where sub-chunks are small, that would cost more than the data, up to twenty times.
struct Advance {
    tables: [[u32; 256]; 4],
}

/// The maps of 1, 2, 4, .. 4096 bytes: any part of a block is a few of them.
static ADVANCES: LazyLock<[Advance; 13]> = LazyLock::new(|| {
    let mut map = Advance::new(|checksum| combine(checksum, 0, 1));
    std::array::from_fn(|_| {
        let twice = Advance::new(|checksum| map.advance(map.advance(checksum)));
        std::mem::replace(&mut map, twice)
    })
});

/// The checksum of what has this one, followed by so many zeros.
fn advance(checksum: u32, bytes: u64) -> u32 {
    if bytes >> ADVANCES.len() != 0 {
        return combine(checksum, 0, bytes);
    }
    let maps = ADVANCES.iter().enumerate().filter(|(power, _)| bytes >> power & 1 == 1);
    maps.fold(checksum, |checksum, (_, map)| map.advance(checksum))
}

impl Advance {
    fn new(advance: impl Fn(u32) -> u32) -> Advance {
        let of_bit: [u32; 32] = std::array::from_fn(|bit| advance(1 << bit));
        let image = |byte: usize, value: usize| {
            let bits = (0..8).filter(|bit| value >> bit & 1 == 1);
            bits.fold(0, |sum, bit| sum ^ of_bit[8 * byte + bit])
        };
        let table = |byte| std::array::from_fn(|value| image(byte, value));
        Advance { tables: std::array::from_fn(table) }
    }

    fn advance(&self, checksum: u32) -> u32 {
        let bytes = checksum.to_le_bytes();
        self.tables.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn checksums_of(chunk: &[u8]) -> BlockChecksums {
        let recorder = ChecksumRecorder::new(chunk.len() as u64);
        // Backwards: the order of ranges must not matter.
        for (index, range) in chunk.chunks(2 * BLOCK).enumerate().rev() {
            recorder.record((index * 2 * BLOCK) as u64, range);
        }
        recorder.finish()
    }

    #[test]
    fn the_polynomial_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn blocks_fold_into_the_checksum_of_the_chunk() {
        for bytes in [1, 64, 4095, 4096, 4097, 8192, 5 * 4096 + 64, 70_000] {
            let chunk = noise(bytes);
            assert_eq!(checksums_of(&chunk).of_chunk(), crc32c(&chunk), "{bytes} bytes");
        }
    }

    #[test]
    fn pieces_of_blocks_add_up() {
        let chunk = noise(3 * BLOCK + 192);
        for piece in [1, 64, 100, 576, 4032, 4160, 10_000] {
            let recorder = ChecksumRecorder::new(chunk.len() as u64);
            for (index, bytes) in chunk.chunks(piece).enumerate().rev() {
                recorder.record((index * piece) as u64, bytes);
            }
            assert_eq!(recorder.finish(), checksums_of(&chunk), "{piece}");
        }
    }

    #[test]
    fn advancing_is_combining_with_zeros() {
        for bytes in (0..=2 * BLOCK_BYTES + 1).step_by(7).chain([64, 4095, 4096, 1 << 20]) {
            for checksum in [1, 0xe306_9283, u32::MAX] {
                assert_eq!(advance(checksum, bytes), combine(checksum, 0, bytes), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn a_checksum_file_reads_back() {
        let checksums = checksums_of(&noise(10_000));
        let file = checksums.to_file();
        assert_eq!(file.len() as u64, file_bytes(10_000));
        assert_eq!(BlockChecksums::from_file(&file, 10_000), Some(checksums));
        assert_eq!(BlockChecksums::from_file(&file, 3 * 4096 + 1), None);
        assert_eq!(BlockChecksums::from_file(&file[1..], 10_000), None);
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_block() {
        let mut chunk = noise(5 * BLOCK);
        let checksums = checksums_of(&chunk);
        assert_eq!(checksums.first_mismatch(0, &chunk), None);
        chunk[3 * BLOCK + 7] ^= 0x10;
        let offset = BLOCK_BYTES;
        assert_eq!(checksums.first_mismatch(offset, &chunk[BLOCK..]), Some(3 * offset));
        assert_eq!(checksums.first_mismatch(4 * offset, &chunk[4 * BLOCK..]), None);
        assert_eq!(checksums.differences(&checksums_of(&chunk)), Some((3 * offset, 1)));
    }
}
