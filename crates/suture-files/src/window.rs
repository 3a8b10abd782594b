//! Windows: the pieces of chunks that one thread works on at a time.
//!
//! Place: chunks -> [windows] -> the executor.
//! A chunk is a sequence of units, and a unit a sequence of sub-chunks: sub-chunk i of a unit begins i
//! sub-chunks after it. Codes act position by position, so a window is the same byte range of every
//! sub-chunk. Small units are taken whole, several at a time; of large ones a window is a comb, one
//! tooth in each sub-chunk. Where chunks are not cut (one sub-chunk), units make no difference, and a
//! window is one piece.
//!
//! In memory the pieces of a window stand in the order of the file: unit by unit, sub-chunk by
//! sub-chunk, without gaps.
//!
//! Invariant: the windows of a chunk cover each of its bytes once.

use suture_code::{ChunkIndex, Code};

use super::checksum::BLOCK_BYTES;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Narrower teeth than this the kernels do not like.
const WIDTH_MIN: u64 = 64;

/// How a chunk is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub chunk_bytes: u64,
    pub unit_bytes: u64,
    pub sub_chunk_count: u64,
}

/// The same bytes of every sub-chunk of some units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub layout: Layout,
    pub first_unit: u64,
    pub units: usize,
    /// Where it begins in every sub-chunk.
    pub from: u64,
    /// Bytes of every sub-chunk.
    pub bytes: usize,
}

/// Bytes that stand together in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub offset: u64,
    pub bytes: usize,
}

/// A chunk, and the sub-chunks of it that are used, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub chunk: ChunkIndex,
    pub sub_chunks: Vec<u32>,
}

impl Layout {
    /// Chunks of a code in units of that size.
    pub fn of(code: Code, chunk_bytes: u64, unit_bytes: u64) -> Layout {
        match code.sub_chunk_count() {
            1 => Layout::plain(chunk_bytes),
            alpha => Layout { chunk_bytes, unit_bytes, sub_chunk_count: alpha.into() },
        }
    }

    /// A chunk in one piece.
    pub fn plain(chunk_bytes: u64) -> Layout {
        Layout { chunk_bytes, unit_bytes: chunk_bytes, sub_chunk_count: 1 }
    }

    fn sub_chunk_bytes(&self) -> u64 {
        self.unit_bytes / self.sub_chunk_count
    }

    /// Bytes that a helper reads which is asked for these sub-chunks: whole blocks, since every read
    /// is checked.
    pub fn read_bytes(&self, sub_chunks: &[u32]) -> u64 {
        if sub_chunks.len() as u64 == self.sub_chunk_count {
            return self.chunk_bytes;
        }
        let units = self.chunk_bytes / self.unit_bytes;
        // Where blocks and units begin together, the count begins again.
        let period = (BLOCK / gcd(BLOCK, self.unit_bytes)).min(units);
        self.blocks_bytes(period, sub_chunks) * (units / period)
            + self.blocks_bytes(units % period, sub_chunks)
    }

    /// Bytes of all blocks that these sub-chunks of the first units touch.
    fn blocks_bytes(&self, units: u64, sub_chunks: &[u32]) -> u64 {
        let all = Window {
            layout: *self,
            first_unit: 0,
            units: units as usize,
            from: 0,
            bytes: self.sub_chunk_bytes() as usize,
        };
        let mut end = 0;
        let mut touched = 0;
        for run in all.runs(sub_chunks) {
            let run = run.in_blocks(self.chunk_bytes);
            let run_end = run.offset + run.bytes as u64;
            touched += run_end - run.offset.max(end);
            end = run_end;
        }
        touched
    }

    /// Bytes of all sub-chunks with the same number: what stands behind a symbol's position.
    pub fn logical_sub_chunk_bytes(&self) -> u64 {
        self.chunk_bytes / self.sub_chunk_count
    }
}

/// The windows of a chunk, numbered.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    layout: Layout,
    units: u64,
    units_per_window: u64,
    /// How far the windows of a unit go into each sub-chunk, all together and each.
    reach: u64,
    width: u64,
}

impl Windows {
    /// The windows of some `window_bytes` that cover the first `extent_bytes` of a chunk.
    pub fn over(layout: Layout, extent_bytes: u64, window_bytes: usize) -> Windows {
        let window_bytes = window_bytes as u64;
        let units = extent_bytes.div_ceil(layout.unit_bytes);
        let sub_chunk = layout.sub_chunk_bytes();
        let reach = if units <= 1 { extent_bytes.min(sub_chunk) } else { sub_chunk };
        if layout.unit_bytes <= window_bytes {
            let fitting = window_bytes / layout.unit_bytes;
            // So many units are whole blocks.
            let step = BLOCK / gcd(BLOCK, layout.unit_bytes);
            let units_per_window = if fitting > step { fitting - fitting % step } else { fitting };
            return Windows { layout, units, units_per_window, reach, width: reach };
        }
        let width = window_bytes / layout.sub_chunk_count;
        let step = if width >= BLOCK { BLOCK } else { WIDTH_MIN };
        let width = (width - width % step).max(WIDTH_MIN).min(reach);
        Windows { layout, units, units_per_window: 1, reach, width }
    }

    pub fn count(&self) -> u64 {
        if self.reach == 0 {
            return 0;
        }
        self.units.div_ceil(self.units_per_window) * self.reach.div_ceil(self.width)
    }

    pub fn get(&self, index: u64) -> Window {
        let per_unit = self.reach.div_ceil(self.width);
        let first_unit = index / per_unit * self.units_per_window;
        let from = index % per_unit * self.width;
        Window {
            layout: self.layout,
            first_unit,
            units: (self.units - first_unit).min(self.units_per_window) as usize,
            from,
            bytes: (self.reach - from).min(self.width) as usize,
        }
    }
}

impl Window {
    /// Bytes of a chunk of which so many sub-chunks are used.
    pub fn bytes_of(&self, sub_chunk_count: usize) -> usize {
        self.units * sub_chunk_count * self.bytes
    }

    /// Bytes of a whole chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.bytes_of(self.layout.sub_chunk_count as usize)
    }

    /// Where these sub-chunks stand in the chunk, in order; neighbours are one run.
    pub fn runs(&self, sub_chunks: &[u32]) -> Vec<Run> {
        let sub_chunk_bytes = self.layout.sub_chunk_bytes();
        let mut runs: Vec<Run> = Vec::new();
        for unit in 0..self.units as u64 {
            let unit = (self.first_unit + unit) * self.layout.unit_bytes + self.from;
            for &sub_chunk in sub_chunks {
                let offset = unit + u64::from(sub_chunk) * sub_chunk_bytes;
                match runs.last_mut() {
                    Some(last) if last.offset + last.bytes as u64 == offset => {
                        last.bytes += self.bytes
                    }
                    _ => runs.push(Run { offset, bytes: self.bytes }),
                }
            }
        }
        runs
    }

    /// Where the whole chunk's bytes stand in it.
    pub fn all_runs(&self) -> Vec<Run> {
        let all: Vec<u32> = (0..self.layout.sub_chunk_count as u32).collect();
        self.runs(&all)
    }
}

impl Run {
    /// The blocks that it touches.
    pub fn in_blocks(self, chunk_bytes: u64) -> Run {
        let offset = self.offset - self.offset % BLOCK;
        let end = (self.offset + self.bytes as u64).next_multiple_of(BLOCK).min(chunk_bytes);
        Run { offset, bytes: (end - offset) as usize }
    }
}

impl Parts {
    /// A chunk with all of its sub-chunks.
    pub fn whole(chunk: ChunkIndex, sub_chunk_count: u32) -> Parts {
        Parts { chunk, sub_chunks: (0..sub_chunk_count).collect() }
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
        cut.into_iter().chain(odd).map(|(chunk_bytes, unit_bytes, sub_chunk_count)| Layout {
            chunk_bytes,
            unit_bytes,
            sub_chunk_count,
        })
    }

    #[test]
    fn windows_cover_a_chunk_once() {
        for layout in layouts() {
            for window_bytes in [64, 4096, 10_000, 131_072] {
                let mut seen = vec![0; layout.chunk_bytes as usize];
                let windows = Windows::over(layout, layout.chunk_bytes, window_bytes);
                for window in (0..windows.count()).map(|index| windows.get(index)) {
                    let runs = window.all_runs();
                    assert_eq!(
                        runs.iter().map(|run| run.bytes).sum::<usize>(),
                        window.chunk_bytes()
                    );
                    for run in runs {
                        seen[run.offset as usize..][..run.bytes].iter_mut().for_each(|n| *n += 1);
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{layout:?} {window_bytes}");
            }
        }
    }

    #[test]
    fn a_short_extent_is_covered_and_not_much_more() {
        let layout = Layout::plain(1 << 20);
        let windows = Windows::over(layout, 4096, 131_072);
        assert_eq!((windows.count(), windows.get(0).bytes), (1, 4096));
        assert_eq!(Windows::over(layout, 0, 4096).count(), 0);
        let cut = Layout { chunk_bytes: 65_536, unit_bytes: 8192, sub_chunk_count: 8 };
        let windows = Windows::over(cut, 8193, 8192);
        assert_eq!((windows.count(), windows.get(1).first_unit), (2, 1));
    }

    #[test]
    fn reads_are_counted_in_blocks() {
        let cut = |chunk_bytes, unit_bytes| Layout { chunk_bytes, unit_bytes, sub_chunk_count: 4 };
        // Sub-chunks are blocks: half of them is half.
        assert_eq!(cut(32_768, 16_384).read_bytes(&[0, 2]), 16_384);
        // Four sub-chunks to a block: any of them costs the block.
        assert_eq!(cut(16_384, 4096).read_bytes(&[1]), 16_384);
        // Sub-chunks of 6 KiB; the second touches the blocks from 4096 to 12288.
        assert_eq!(cut(24_576, 24_576).read_bytes(&[1]), 8192);
        assert_eq!(cut(24_576, 24_576).read_bytes(&[0, 1, 2, 3]), 24_576);
        // A unit of 6 KiB: two of them are three blocks.
        assert_eq!(cut(18_432, 6144).read_bytes(&[0]), 4096 + 4096 + 4096);
        assert_eq!(cut(512, 512).read_bytes(&[3]), 512);
    }
}
