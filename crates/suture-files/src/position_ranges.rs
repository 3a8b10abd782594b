//! Position ranges: the pieces of chunks that one thread works on at a time.
//!
//! Place: chunks -> [ranges] -> the executor.
//! What a position range is, [`suture_code::layout`] says; here it is decided how long they are.
//! Small units are taken whole, several at a time; of large ones a range is some positions of each
//! sub-chunk.
//!
//! In memory the pieces of a range stand in the order of the file: unit by unit, sub-chunk by
//! sub-chunk, without gaps.
//!
//! Invariant: the ranges of a chunk cover each of its bytes once.

use suture_code::ChunkIndex;
use suture_code::layout::{Layout, Packed, Piece, PositionRange, join_neighbours};
use suture_edge::checksum::BLOCK_BYTES;

/// Kernels are slow on pieces shorter than this.
const POSITIONS_MIN: u64 = 64;

/// A chunk, and the sub-chunks of it that are used, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkInput {
    pub chunk: ChunkIndex,
    pub sub_chunks: Vec<u32>,
}

/// The ranges of a chunk, numbered.
#[derive(Clone, Copy, Debug)]
pub struct PositionRanges {
    layout: Layout,
    /// How many positions they cover together.
    extent: u64,
    /// Positions from one unit, or group of whole units, to the next: no range crosses its end.
    stride: u64,
    /// Positions of a range.
    positions: u64,
}

impl PositionRanges {
    /// The ranges of some `range_bytes` that cover the first `extent_bytes` of a chunk.
    pub fn over(layout: Layout, extent_bytes: u64, range_bytes: usize) -> PositionRanges {
        let (range_bytes, unit_bytes) = (range_bytes as u64, layout.unit_bytes());
        let unit = layout.unit_positions();
        let units = extent_bytes.div_ceil(unit_bytes);
        let extent = if units <= 1 { extent_bytes.min(unit) } else { units * unit };
        if unit_bytes <= range_bytes {
            let fitting = range_bytes / unit_bytes;
            // So many units are whole blocks.
            let step = units_per_period(&layout);
            let group = if fitting > step { fitting - fitting % step } else { fitting };
            return PositionRanges {
                layout,
                extent,
                stride: group * unit,
                positions: group * unit,
            };
        }
        let wanted = range_bytes / u64::from(layout.sub_chunk_count());
        let step = if wanted >= BLOCK_BYTES { BLOCK_BYTES } else { POSITIONS_MIN };
        let positions = (wanted - wanted % step).max(POSITIONS_MIN).min(unit);
        PositionRanges { layout, extent, stride: unit, positions }
    }

    pub fn count(&self) -> u64 {
        let in_stride = self.stride.div_ceil(self.positions);
        let rest = self.extent % self.stride;
        self.extent / self.stride * in_stride + rest.div_ceil(self.positions)
    }

    pub fn get(&self, index: u64) -> PositionRange {
        let in_stride = self.stride.div_ceil(self.positions);
        let start = index / in_stride * self.stride;
        let from = start + index % in_stride * self.positions;
        let to = (from + self.positions).min(start + self.stride).min(self.extent);
        self.layout.position_range(from..to)
    }
}

/// Where these sub-chunks of a range stand in the chunk, in order; neighbours are one piece.
pub fn pieces(range: &PositionRange, sub_chunks: &[u32]) -> impl Iterator<Item = Piece> {
    join_neighbours(range.pieces_by_unit(sub_chunks.iter().copied()))
}

/// The same of the whole range.
pub fn all_pieces(range: &PositionRange) -> impl Iterator<Item = Piece> + use<> {
    join_neighbours(range.pieces_by_unit(range.sub_chunks()))
}

/// The bytes of a range with their places in the chunk.
pub fn placed<'a>(
    range: &PositionRange,
    mut bytes: &'a [u8],
) -> impl Iterator<Item = (Piece, &'a [u8])> {
    all_pieces(range).map(move |piece| {
        let (now, later) = bytes.split_at(piece.bytes);
        bytes = later;
        (piece, now)
    })
}

/// Bytes that a helper reads which is asked for these sub-chunks: whole blocks, since every read is
/// checked.
pub fn read_bytes(layout: &Layout, sub_chunks: &[u32]) -> u64 {
    if sub_chunks.len() == layout.sub_chunk_count() as usize {
        return layout.chunk_bytes();
    }
    let units = layout.chunk_bytes() / layout.unit_bytes();
    let period = units_per_period(layout).min(units);
    let of_units = |units| blocks_bytes(layout, units, sub_chunks);
    of_units(period) * (units / period) + of_units(units % period)
}

/// After so many units blocks and units begin together again.
fn units_per_period(layout: &Layout) -> u64 {
    BLOCK_BYTES / gcd(BLOCK_BYTES, layout.unit_bytes())
}

/// Bytes of all blocks that these sub-chunks of the first units touch.
fn blocks_bytes(layout: &Layout, units: u64, sub_chunks: &[u32]) -> u64 {
    let first = layout.position_range(0..units * layout.unit_positions());
    let (mut end, mut touched) = (0, 0);
    for piece in pieces(&first, sub_chunks) {
        let blocks = piece.in_blocks(BLOCK_BYTES, layout);
        touched += blocks.end() - blocks.offset.max(end);
        end = blocks.end();
    }
    touched
}

impl ChunkInput {
    /// A chunk with all of its sub-chunks.
    pub fn whole(chunk: ChunkIndex, sub_chunk_count: u32) -> ChunkInput {
        ChunkInput { chunk, sub_chunks: (0..sub_chunk_count).collect() }
    }

    /// A buffer that holds a range of them.
    pub fn packed(&self, range: &PositionRange) -> Packed {
        range.packed(self.sub_chunks.len())
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> impl Iterator<Item = Layout> {
        let cut = [(64, 64, 1), (100_032, 100_032, 1), (8192, 1024, 8), (98_304, 32_768, 8)];
        let odd = [(5 * 576, 576, 9), (262_144, 262_144, 4), (40_960 * 3, 40_960 * 3, 8)];
        cut.into_iter().chain(odd).map(|(chunk_bytes, unit_bytes, sub_chunk_count)| {
            Layout::cut(chunk_bytes, sub_chunk_count).in_units(unit_bytes)
        })
    }

    #[test]
    fn ranges_cover_a_chunk_once() {
        for layout in layouts() {
            for range_bytes in [64, 4096, 10_000, 131_072] {
                let mut seen = vec![0; layout.chunk_bytes() as usize];
                let ranges = PositionRanges::over(layout, layout.chunk_bytes(), range_bytes);
                for range in (0..ranges.count()).map(|index| ranges.get(index)) {
                    let all = range.packed(layout.sub_chunk_count() as usize);
                    assert_eq!(
                        all_pieces(&range).map(|piece| piece.bytes).sum::<usize>(),
                        all.bytes()
                    );
                    for piece in all_pieces(&range) {
                        seen[piece.range()].iter_mut().for_each(|n| *n += 1);
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{layout:?} {range_bytes}");
            }
        }
    }

    #[test]
    fn a_short_extent_is_covered_and_not_much_more() {
        let layout = Layout::plain(1 << 20);
        let ranges = PositionRanges::over(layout, 4096, 131_072);
        assert_eq!((ranges.count(), ranges.get(0).positions()), (1, 4096));
        assert_eq!(PositionRanges::over(layout, 0, 4096).count(), 0);
        let cut = Layout::cut(65_536, 8).in_units(8192);
        let ranges = PositionRanges::over(cut, 8193, 8192);
        assert_eq!((ranges.count(), ranges.get(1).from()), (2, 1024));
    }

    #[test]
    fn reads_are_counted_in_blocks() {
        let cut = |chunk_bytes, unit_bytes| Layout::cut(chunk_bytes, 4).in_units(unit_bytes);
        // Sub-chunks are blocks: half of them is half.
        assert_eq!(read_bytes(&cut(32_768, 16_384), &[0, 2]), 16_384);
        // Four sub-chunks to a block: any of them costs the block.
        assert_eq!(read_bytes(&cut(16_384, 4096), &[1]), 16_384);
        // Sub-chunks of 6 KiB; the second touches the blocks from 4096 to 12288.
        assert_eq!(read_bytes(&cut(24_576, 24_576), &[1]), 8192);
        assert_eq!(read_bytes(&cut(24_576, 24_576), &[0, 1, 2, 3]), 24_576);
        // A unit of 6 KiB: two of them are three blocks.
        assert_eq!(read_bytes(&cut(18_432, 6144), &[0]), 4096 + 4096 + 4096);
        assert_eq!(read_bytes(&cut(512, 512), &[3]), 512);
    }
}
