//! Layout: which byte of a chunk belongs to which unit and sub-chunk.
//!
//! Place: ... slice asked for -> [where its bytes are in the chunk] -> read ... written.
//! A chunk is a sequence of units, one for each codeword; a unit is cut into alpha sub-chunks of
//! equal length, which stand one after the other. Codes act position by position, so all work on
//! chunks is on a *position range*: the same positions of every sub-chunk, counted through all
//! units. A range of `[from, to)` with alpha 3 and units of 12 bytes, `from` 1 and `to` 6:
//!
//! ```text
//! unit            |           0           |           1           |
//! sub-chunk       |   0   |   1   |   2   |   0   |   1   |   2   |
//! position        |0 1 2 3|0 1 2 3|0 1 2 3|4 5 6 7|4 5 6 7|4 5 6 7|
//! in the range    |  # # #|  # # #|  # # #|# #    |# #    |# #    |
//! ```
//!
//! The last unit may be shorter than the others; its sub-chunks are shorter in proportion. Where
//! alpha is 1, units make no difference, and a chunk is one unit whatever is said of them.
//!
//! Everything here is arithmetic on a few numbers: nothing is allocated, whatever the chunk. The
//! definition, byte by byte, is in `tests/layout.rs`.
//!
//! Invariant: the pieces of all sub-chunks of a range are disjoint, and those of ranges that
//! cover all positions cover every byte of the chunk.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use crate::clay::SUB_CHUNK_COUNT_MAX;
use crate::code::Code;

/// How chunks are cut into units and sub-chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    chunk_bytes: u64,
    unit_bytes: u64,
    sub_chunk_count: u32,
}

/// The same positions of every sub-chunk of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRange {
    layout: Layout,
    from: u64,
    to: u64,
}

/// Bytes that stand together in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they begin, in bytes of the chunk.
    pub offset: u64,
    /// How many they are.
    pub bytes: usize,
}

/// Bytes of one sub-chunk that stand together in a chunk, from one of them to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The index of the sub-chunk in its unit.
    pub sub_chunk: u32,
    /// The position of the first byte, counted through all units.
    pub position: u64,
    /// How many bytes follow in the same sub-chunk of the same unit, the first included.
    pub bytes: u64,
}

/// Some sub-chunks of a range in a buffer: in the order of the chunk, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    range: PositionRange,
    sub_chunk_count: usize,
}

/// A length that is not a multiple of what it has to be, or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError {
    /// The length that was given.
    pub bytes: u64,
    /// What it has to be a multiple of.
    pub step: u64,
}

impl Layout {
    /// Chunks of a code, each one unit.
    ///
    /// # Panics
    /// When sub-chunks cannot be equally long.
    #[must_use]
    pub fn of(code: &Code, chunk_bytes: u64) -> Layout {
        Layout::cut(chunk_bytes, code.sub_chunk_count())
    }

    /// Chunks that are not cut.
    #[must_use]
    pub fn plain(chunk_bytes: u64) -> Layout {
        Layout::cut(chunk_bytes, 1)
    }

    /// Chunks of one unit, cut into that many sub-chunks.
    ///
    /// # Panics
    /// When sub-chunks cannot be equally long.
    #[must_use]
    pub fn cut(chunk_bytes: u64, sub_chunk_count: u32) -> Layout {
        let alpha = u64::from(sub_chunk_count);
        assert!(chunk_bytes.is_multiple_of(alpha), "{chunk_bytes} bytes in {alpha} sub-chunks");
        Layout { chunk_bytes, unit_bytes: chunk_bytes, sub_chunk_count }
    }

    /// The same chunks in units of so many bytes, of which the last may be shorter.
    ///
    /// # Panics
    /// When there are no bytes in a unit, or its sub-chunks cannot be equally long.
    #[must_use]
    pub fn in_units(self, unit_bytes: u64) -> Layout {
        let alpha = u64::from(self.sub_chunk_count);
        assert!(unit_bytes > 0 && unit_bytes.is_multiple_of(alpha), "units of {unit_bytes} bytes");
        match alpha {
            1 => self,
            _ => Layout { unit_bytes: unit_bytes.min(self.chunk_bytes), ..self },
        }
    }

    /// Chunks that are cut like this, if they can be; for what comes from outside.
    ///
    /// # Errors
    /// [`SizeError`] when a unit or the chunk is empty or its sub-chunks, or those of the last one,
    /// cannot be equally long, or when no code has so many sub-chunks.
    pub fn checked(
        chunk_bytes: u64,
        unit_bytes: u64,
        sub_chunk_count: u32,
    ) -> Result<Layout, SizeError> {
        let step = u64::from(sub_chunk_count.clamp(1, SUB_CHUNK_COUNT_MAX));
        check_multiple(unit_bytes, step)?;
        if step != u64::from(sub_chunk_count) {
            return Err(SizeError { bytes: chunk_bytes, step });
        }
        // Without a byte it would have no unit either.
        check_multiple(chunk_bytes, step)?;
        Ok(Layout::cut(chunk_bytes, sub_chunk_count).in_units(unit_bytes))
    }

    /// The length of a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The length of a unit; the last may be shorter.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// Sub-chunks of a unit: alpha.
    #[must_use]
    pub fn sub_chunk_count(&self) -> u32 {
        self.sub_chunk_count
    }

    /// Positions of a chunk: the bytes of a sub-chunk, all units together.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.chunk_bytes / u64::from(self.sub_chunk_count)
    }

    /// Positions of a unit: the bytes of a sub-chunk of one unit.
    #[must_use]
    pub fn unit_positions(&self) -> u64 {
        self.unit_bytes / u64::from(self.sub_chunk_count)
    }

    /// Which sub-chunk and position a byte of the chunk belongs to.
    ///
    /// # Panics
    /// When the chunk ends before.
    #[must_use]
    pub fn run_at(&self, offset: u64) -> Run {
        assert!(offset < self.chunk_bytes, "byte {offset} of {}", self.chunk_bytes);
        let unit = offset / self.unit_bytes;
        let start = unit * self.unit_bytes;
        let alpha = u64::from(self.sub_chunk_count);
        let length = self.unit_bytes.min(self.chunk_bytes - start) / alpha;
        let (sub_chunk, within) = ((offset - start) / length, (offset - start) % length);
        let position = unit * self.unit_positions() + within;
        Run { sub_chunk: sub_chunk as u32, position, bytes: length - within }
    }

    /// The range of all positions.
    #[must_use]
    pub fn whole(&self) -> PositionRange {
        PositionRange { layout: *self, from: 0, to: self.positions() }
    }

    /// These positions.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn position_range(&self, positions: Range<u64>) -> PositionRange {
        let Range { start: from, end: to } = positions;
        assert!(from <= to && to <= self.positions(), "{from}..{to} of {}", self.positions());
        PositionRange { layout: *self, from, to }
    }

    /// The range of a slice, which is named by a range of the chunk's bytes: as many positions of
    /// each sub-chunk as make up the slice, in the same place in proportion.
    ///
    /// # Panics
    /// When the chunk ends before.
    #[must_use]
    pub fn slice(&self, bytes: Range<u64>) -> PositionRange {
        let alpha = u64::from(self.sub_chunk_count);
        self.position_range(bytes.start / alpha..bytes.end / alpha)
    }
}

impl PositionRange {
    /// How chunks are cut.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The range's first position.
    #[must_use]
    pub fn from(&self) -> u64 {
        self.from
    }

    /// How many positions it has: its bytes of one sub-chunk.
    #[must_use]
    pub fn positions(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Its parts of `positions` each, in order; the last may be shorter.
    ///
    /// # Panics
    /// When the parts are to have none.
    pub fn parts(self, positions: u64) -> impl Iterator<Item = PositionRange> + Clone {
        let count = (self.to - self.from).div_ceil(positions);
        let starts = (0..count).map(move |part| self.from + part * positions);
        starts.map(move |from| PositionRange { from, to: self.to.min(from + positions), ..self })
    }

    /// Its parts in each unit that it touches, in order.
    pub fn units(self) -> impl Iterator<Item = PositionRange> + Clone {
        // An empty chunk has no positions to divide by, and no units.
        let unit = self.layout.unit_positions().max(1);
        let end = if self.from == self.to { self.from / unit } else { self.to.div_ceil(unit) };
        (self.from / unit..end).map(move |index| PositionRange {
            from: self.from.max(index * unit),
            to: self.to.min((index + 1) * unit),
            ..self
        })
    }

    /// Where these sub-chunks of the range stand, in the order of the chunk: unit after unit, and
    /// in each of them sub-chunk after sub-chunk as they are given.
    pub fn pieces_by_unit<S>(self, sub_chunks: S) -> impl Iterator<Item = Piece>
    where
        S: Iterator<Item = u32> + Clone,
    {
        self.units().flat_map(move |unit| {
            sub_chunks.clone().map(move |sub_chunk| unit.piece_in_unit(sub_chunk))
        })
    }

    /// The same pieces in the order of slices: sub-chunk after sub-chunk, and of each of them unit
    /// after unit.
    pub fn pieces_by_sub_chunk<S>(self, sub_chunks: S) -> impl Iterator<Item = Piece>
    where
        S: Iterator<Item = u32>,
    {
        sub_chunks
            .flat_map(move |sub_chunk| self.units().map(move |unit| unit.piece_in_unit(sub_chunk)))
    }

    /// The numbers of all sub-chunks.
    #[must_use]
    pub fn sub_chunks(&self) -> Range<u32> {
        0..self.layout.sub_chunk_count
    }

    /// A buffer that holds that many sub-chunks of the range.
    #[must_use]
    pub fn packed(self, sub_chunk_count: usize) -> Packed {
        Packed { range: self, sub_chunk_count }
    }

    /// Where a sub-chunk stands of a range within one unit.
    fn piece_in_unit(&self, sub_chunk: u32) -> Piece {
        let Layout { chunk_bytes, unit_bytes, sub_chunk_count } = self.layout;
        let unit = self.from / self.layout.unit_positions();
        let start = unit * unit_bytes;
        let length = unit_bytes.min(chunk_bytes - start) / u64::from(sub_chunk_count);
        let within = self.from - unit * self.layout.unit_positions();
        Piece { offset: start + u64::from(sub_chunk) * length + within, bytes: self.positions() }
    }
}

impl Packed {
    /// The length of the buffer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sub_chunk_count * self.range.positions()
    }

    /// Where the sub-chunks of a unit stand in it, given the range's part in that unit.
    #[must_use]
    pub fn unit(&self, unit: &PositionRange) -> Range<usize> {
        let start = (unit.from - self.range.from) as usize * self.sub_chunk_count;
        start..start + unit.positions() * self.sub_chunk_count
    }

    /// Where one of them stands, by its rank among those that the buffer holds.
    #[must_use]
    pub fn sub_chunk(&self, unit: &PositionRange, rank: usize) -> Range<usize> {
        let start = self.unit(unit).start + rank * unit.positions();
        start..start + unit.positions()
    }
}

impl Piece {
    /// The byte after its last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Where it stands in a buffer that holds the whole chunk.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.offset as usize..self.end() as usize
    }

    /// The blocks of so many bytes that it touches, in a chunk of which the last may be shorter.
    #[must_use]
    pub fn in_blocks(self, block_bytes: u64, layout: &Layout) -> Piece {
        let offset = self.offset - self.offset % block_bytes;
        let end = self.end().next_multiple_of(block_bytes).min(layout.chunk_bytes);
        Piece { offset, bytes: (end - offset) as usize }
    }
}

/// The same bytes in as few pieces as possible: neighbours that follow on each other become one.
pub fn join_neighbours(pieces: impl Iterator<Item = Piece>) -> impl Iterator<Item = Piece> {
    let mut pieces = pieces.peekable();
    std::iter::from_fn(move || {
        let mut piece = pieces.next()?;
        while let Some(next) = pieces.next_if(|next| next.offset == piece.end()) {
            piece.bytes += next.bytes;
        }
        Some(piece)
    })
}

/// Whether the code works with units, or chunks of one unit, of that length.
///
/// # Errors
/// [`SizeError`] when it is zero or no multiple of [`Code::alignment`].
pub fn check_unit(code: &Code, unit_bytes: u64) -> Result<(), SizeError> {
    check_multiple(unit_bytes, code.alignment() as u64)
}

/// Whether a chunk is made of whole units.
///
/// # Errors
/// [`SizeError`] when it is empty or no multiple of the unit.
pub fn check_chunk(chunk_bytes: u64, unit_bytes: u64) -> Result<(), SizeError> {
    check_multiple(chunk_bytes, unit_bytes)
}

fn check_multiple(bytes: u64, step: u64) -> Result<(), SizeError> {
    if bytes > 0 && bytes.is_multiple_of(step) { Ok(()) } else { Err(SizeError { bytes, step }) }
}

impl SizeError {
    /// The nearest lengths that would do: below and above, where there are such.
    pub fn nearest(&self) -> impl Iterator<Item = u64> + use<> {
        let below = self.bytes / self.step * self.step;
        let above = below.checked_add(self.step);
        [Some(below).filter(|below| *below > 0), above].into_iter().flatten()
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SizeError { bytes, step } = self;
        write!(f, "{bytes} bytes are no multiple of {step}; the nearest: ")?;
        for (index, near) in self.nearest().enumerate() {
            write!(f, "{}{near}", if index > 0 { " or " } else { "" })?;
        }
        Ok(())
    }
}

impl Error for SizeError {}
