//! Fingerprints: what a stripe is checked by without moving it.
//!
//! Place: `... -> slices -> [chunk proven and durable] -> commit`; by `coordinator/proof.rs` of
//! suture-repair.
//! A fingerprint is a few random combinations of the blocks of a chunk. Codes are linear and act
//! position by position, so the fingerprints of a stripe's chunks are themselves a stripe of the
//! same code, of chunks of [`Fingerprint::layout`]: what encodes and repairs chunks encodes and
//! repairs fingerprints. If those of helpers repair to that of the rebuilt chunk, the chunk is
//! right, and kilobytes were moved to know it.
//!
//! After Hendricks, Ganger and Reiter, "Verifying distributed erasure-coded data", PODC 2007,
//! section 3 (homomorphic fingerprints). Where they evaluate a polynomial in a field large enough
//! for its degree, this takes [`ROWS`] combinations with coefficients in GF(2^8), which is the
//! field of the codes and of the kernels. A chunk that differs from the right one, wherever and
//! however much, has the same fingerprint for one seed in 256^ROWS = 2^64.
//!
//! The seed must have nothing to do with the bytes. Given the seed, another chunk of the same
//! fingerprint can be made: this is proof against faults, not against forgers.

use suture_gf::{Coefficients, dot_many_add, mul_add};

use crate::chunk::ChunkIndex;
use crate::error::{CodeError, Side};
use crate::execute::Program;
use crate::layout::{Layout, Run};
use crate::shortened::Shortened;

/// Combinations that a fingerprint has of each sub-chunk.
pub const ROWS: usize = 8;

/// Blocks that are combined at a time.
const GROUP: usize = 32;

/// Groups of each sub-chunk whose factors are kept for the next sub-chunk: what it takes to make
/// them is several times the time to use them once on blocks of 64 bytes.
const GROUPS_KEPT: usize = 64;

/// What the blocks of a group are multiplied by, for each row.
type Factors = [Coefficients; ROWS];

/// The fingerprint of a chunk, or of the part of it that was added so far.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    seed: u64,
    chunk: Layout,
    sums: Vec<u8>,
    /// Those of the first groups, which are the same for all sub-chunks.
    kept: Vec<Option<Factors>>,
}

impl Fingerprint {
    /// The fingerprint of a chunk of zeros. Chunks that are compared must have the same seed and
    /// layout; a short one has the layout of the longest of its stripe.
    #[must_use]
    pub fn new(seed: u64, chunk: Layout) -> Fingerprint {
        let bytes = Fingerprint::layout(chunk.sub_chunk_count()).chunk_bytes();
        let kept = if chunk.sub_chunk_count() == 1 { 0 } else { GROUPS_KEPT };
        Fingerprint { seed, chunk, sums: vec![0; bytes as usize], kept: vec![None; kept] }
    }

    /// How the bytes of a fingerprint are cut: 16 KiB of one sub-chunk, down to 512 bytes of each
    /// where there are many.
    #[must_use]
    pub fn layout(sub_chunk_count: u32) -> Layout {
        let sub_chunk = ROWS * block_bytes(sub_chunk_count);
        Layout::cut(sub_chunk as u64 * u64::from(sub_chunk_count), sub_chunk_count)
    }

    /// Adds the bytes of the chunk from `offset` on. They may come in any order, each once.
    ///
    /// # Panics
    /// When the chunk ends before.
    pub fn add(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Run { sub_chunk, position, bytes: run } = self.chunk.run_at(offset);
            let (now, later) = bytes.split_at(bytes.len().min(run as usize));
            self.add_run(sub_chunk, position, now);
            (offset, bytes) = (offset + now.len() as u64, later);
        }
    }

    /// Its bytes: a chunk of [`Fingerprint::layout`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.sums
    }

    /// Adds bytes of one sub-chunk that stand together.
    fn add_run(&mut self, sub_chunk: u32, position: u64, bytes: &[u8]) {
        let block = block_bytes(self.chunk.sub_chunk_count());
        let sums = self.sums.chunks_mut(ROWS * block).nth(sub_chunk as usize);
        let sums = sums.expect("as many as sub-chunks");
        let mut index = position / block as u64;
        let from = (position % block as u64) as usize;
        let head = bytes.len().min((block - from) % block);
        let (head, rest) = bytes.split_at(head);
        if !head.is_empty() {
            let mut rows: Vec<&mut [u8]> = sums.chunks_mut(block).collect();
            add_part(&mut rows, coefficients(self.seed, index), from, head);
            index += 1;
        }
        let whole = rest.chunks_exact(block);
        let tail = whole.remainder();
        let blocks: Vec<&[u8]> = whole.collect();
        let mut blocks = &blocks[..];
        let mut sums: Vec<&mut [u8]> = sums.chunks_mut(block).collect();
        while !blocks.is_empty() {
            // Groups begin at the same blocks whatever the parts.
            let (number, before) = ((index / GROUP as u64) as usize, index as usize % GROUP);
            let (group, later) = blocks.split_at(blocks.len().min(GROUP - before));
            let make = || factors(self.seed, index, group.len());
            match self.kept.get_mut(number).filter(|_| group.len() == GROUP) {
                Some(kept) => dot_many_add(&mut sums, kept.get_or_insert_with(make), group),
                None => dot_many_add(&mut sums, &make(), group),
            }
            index += group.len() as u64;
            blocks = later;
        }
        if !tail.is_empty() {
            add_part(&mut sums, coefficients(self.seed, index), 0, tail);
        }
    }
}

/// What the fingerprint of `chunk` must be by those of helpers: the repair of the chunk, run on
/// them.
///
/// # Errors
/// As [`Shortened::repair_dag`]; [`CodeError::LengthMismatch`] when a fingerprint is not as long as
/// [`Fingerprint::layout`] requires.
pub fn repaired(
    code: &Shortened,
    chunk: ChunkIndex,
    helpers: &[(ChunkIndex, &[u8])],
) -> Result<Vec<u8>, CodeError> {
    let indices: Vec<ChunkIndex> = helpers.iter().map(|(helper, _)| *helper).collect();
    let program = Program::compile(&code.repair_dag(&[chunk], &indices)?)?;
    let layout = Fingerprint::layout(code.sub_chunk_count());
    let expected = layout.chunk_bytes() as usize;
    let sub_chunk_bytes = expected / layout.sub_chunk_count() as usize;
    if let Some(index) = helpers.iter().position(|(_, sums)| sums.len() != expected) {
        let (side, found) = (Side::Source, helpers[index].1.len());
        return Err(CodeError::LengthMismatch { side, index, expected, found });
    }
    let sources = program.sources().map(|source| {
        let helper = helpers.iter().find(|(helper, _)| *helper == source.chunk);
        let (_, sums) = helper.expect("repairs read helpers");
        &sums[source.sub_chunk as usize * sub_chunk_bytes..][..sub_chunk_bytes]
    });
    let sources: Vec<&[u8]> = sources.collect();
    let mut repaired = vec![0; expected];
    let mut outputs: Vec<&mut [u8]> = repaired.chunks_mut(sub_chunk_bytes).collect();
    program.run(&sources, &mut outputs)?;
    Ok(repaired)
}

/// Positions of a sub-chunk that are multiplied by the same coefficient.
fn block_bytes(sub_chunk_count: u32) -> usize {
    (4096 / sub_chunk_count as usize).next_power_of_two().clamp(64, 2048)
}

/// Adds a part of a block, `from` bytes after its beginning.
fn add_part(rows: &mut [&mut [u8]], coefficients: [u8; ROWS], from: usize, part: &[u8]) {
    for (row, coefficient) in rows.iter_mut().zip(coefficients) {
        mul_add(&mut row[from..from + part.len()], coefficient, part);
    }
}

/// Those of so many blocks from `first` on.
fn factors(seed: u64, first: u64, count: usize) -> Factors {
    let of: Vec<_> = (first..first + count as u64).map(|block| coefficients(seed, block)).collect();
    std::array::from_fn(|row| Coefficients::new(&of.iter().map(|of| of[row]).collect::<Vec<u8>>()))
}

/// What a block is multiplied by in each row: SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014) at the block's index.
fn coefficients(seed: u64, block: u64) -> [u8; ROWS] {
    let state = seed.wrapping_add((block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_gf::field;

    /// The definition, byte by byte.
    fn slow(seed: u64, layout: Layout, bytes: &[u8]) -> Vec<u8> {
        let block = block_bytes(layout.sub_chunk_count()) as u64;
        let mut sums =
            vec![0; Fingerprint::layout(layout.sub_chunk_count()).chunk_bytes() as usize];
        let whole = layout.whole();
        for sub_chunk in whole.sub_chunks() {
            let pieces = whole.pieces_by_sub_chunk(sub_chunk..sub_chunk + 1);
            let offsets = pieces.flat_map(|piece| piece.offset..piece.offset + piece.bytes as u64);
            for (position, offset) in (0..).zip(offsets) {
                for (row, factor) in coefficients(seed, position / block).into_iter().enumerate() {
                    let row = u64::from(sub_chunk) * ROWS as u64 + row as u64;
                    let sum: &mut u8 = &mut sums[(row * block + position % block) as usize];
                    *sum ^= field::mul(factor, *bytes.get(offset as usize).unwrap_or(&0));
                }
            }
        }
        sums
    }

    fn noise(bytes: usize, seed: u64) -> Vec<u8> {
        (0..bytes as u64).map(|at| coefficients(seed, at)[0]).collect()
    }

    #[test]
    fn fast_is_slow_for_any_layout_and_any_order_of_parts() {
        let layouts = [
            Layout::plain(1),
            Layout::plain(100_000),
            Layout::cut(128 * 1024, 4),
            Layout::cut(24_576, 8).in_units(8192),
            Layout::cut(64 * 300, 64).in_units(64 * 128),
        ];
        for (layout, seed) in layouts.into_iter().zip(1..) {
            let bytes = noise(layout.chunk_bytes() as usize, seed);
            let mut parts: Vec<(u64, &[u8])> = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let [low, high, ..] = coefficients(seed, at as u64);
                let size = usize::from(u16::from_le_bytes([low, high]));
                let end = bytes.len().min(at + 1 + size % 5000);
                parts.push((at as u64, &bytes[at..end]));
                at = end;
            }
            parts.reverse();
            let mut found = Fingerprint::new(seed, layout);
            parts.into_iter().for_each(|(offset, part)| found.add(offset, part));
            assert_eq!(found.bytes(), slow(seed, layout, &bytes), "{layout:?}");
        }
    }

    #[test]
    fn a_short_chunk_is_one_that_ends_in_zeros() {
        let layout = Layout::plain(70_000);
        let mut bytes = noise(30_001, 3);
        let mut short = Fingerprint::new(3, layout);
        short.add(0, &bytes);
        bytes.resize(70_000, 0);
        let mut padded = Fingerprint::new(3, layout);
        padded.add(0, &bytes);
        assert_eq!(short.bytes(), padded.bytes());
    }
}
