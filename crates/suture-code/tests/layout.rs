//! Layouts against their definition: a map that says of every byte of a chunk, one by one, which
//! unit, sub-chunk and position it is.
//!
//! Place: under whatever reads, moves or writes a part of a chunk.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use suture_code::Code;
use suture_code::layout::{self, Layout, Packed, Piece, PositionRange, SizeError, join_neighbours};

/// What a byte of a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    unit: u64,
    sub_chunk: u32,
    /// Counted through all units.
    position: u64,
}

/// The definition: unit after unit, sub-chunk after sub-chunk, byte after byte.
fn bytes_of(chunk_bytes: u64, unit_bytes: u64, alpha: u32) -> Vec<Byte> {
    let mut bytes = Vec::new();
    let (mut unit, mut left, mut first_position) = (0, chunk_bytes, 0);
    while left > 0 {
        let sub_chunk_bytes = left.min(unit_bytes) / u64::from(alpha);
        for sub_chunk in 0..alpha {
            for position in first_position..first_position + sub_chunk_bytes {
                bytes.push(Byte { unit, sub_chunk, position });
            }
        }
        unit += 1;
        left -= left.min(unit_bytes);
        first_position += sub_chunk_bytes;
    }
    bytes
}

/// A chunk, how it is cut, and some of it.
#[derive(Clone, Debug)]
struct Case {
    layout: Layout,
    map: Vec<Byte>,
    /// The map the other way round.
    offsets: BTreeMap<(u32, u64), u64>,
    range: PositionRange,
    sub_chunks: Vec<u32>,
}

impl Case {
    /// Where the byte with these coordinates stands.
    fn offset(&self, sub_chunk: u32, position: u64) -> u64 {
        self.offsets[&(sub_chunk, position)]
    }

    fn positions(&self) -> std::ops::Range<u64> {
        self.range.from()..self.range.from() + self.range.positions() as u64
    }

    /// Every byte of the range in the order of slices.
    fn by_sub_chunk(&self) -> Vec<u64> {
        let of = |&s: &u32| self.positions().map(move |position| self.offset(s, position));
        self.sub_chunks.iter().flat_map(of).collect()
    }

    /// The same bytes in the order of the chunk.
    fn by_unit(&self) -> Vec<u64> {
        let mut offsets = self.by_sub_chunk();
        offsets.sort_by_key(|offset| self.map[*offset as usize].unit);
        offsets
    }
}

fn offsets(pieces: impl Iterator<Item = Piece>) -> Vec<u64> {
    pieces.flat_map(|piece| piece.offset..piece.end()).collect()
}

/// Codes of every family, with 1 to 64 sub-chunks.
const CODES: [&str; 7] = [
    "rs(6,3)",
    "rs-vandermonde(4,2)",
    "lrc(6,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
    "clay(6,3,8)",
    "clay(8,4,11)",
];

fn case() -> impl Strategy<Value = Case> {
    // Sub-chunks of a few bytes bring all edges close; a tail that is no multiple of anything but
    // alpha is what the end of a plan's range may be, and a shorter last unit that of a file.
    let sizes = (0..CODES.len(), 1..12u64, 0..40u64, any::<u64>(), any::<u64>());
    (sizes, prop::collection::vec(any::<bool>(), 64)).prop_map(|(sizes, chosen)| {
        let (code, unit, chunk, from, length) = sizes;
        let code: Code = CODES[code].parse().expect("a code");
        let alpha = code.sub_chunk_count();
        let (unit_bytes, chunk_bytes) = (unit * u64::from(alpha), chunk * u64::from(alpha));
        let layout = Layout::of(&code, chunk_bytes).in_units(unit_bytes);
        let from = from % (chunk + 1);
        let to = from + length % (chunk - from + 1);
        let sub_chunks = (0..alpha).filter(|s| chosen[*s as usize % 64]).collect();
        let unit_bytes = if alpha == 1 { chunk_bytes.max(1) } else { unit_bytes };
        let map = bytes_of(chunk_bytes, unit_bytes, alpha);
        let offsets = (0..).zip(&map).map(|(at, byte)| ((byte.sub_chunk, byte.position), at));
        let offsets = offsets.collect();
        Case { layout, map, offsets, range: layout.position_range(from..to), sub_chunks }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_are_the_bytes_of_the_map_in_both_orders(case in case()) {
        let sub_chunks = || case.sub_chunks.iter().copied();
        let by_sub_chunk = offsets(case.range.pieces_by_sub_chunk(sub_chunks()));
        prop_assert_eq!(by_sub_chunk, case.by_sub_chunk());
        let by_unit = offsets(case.range.pieces_by_unit(sub_chunks()));
        prop_assert_eq!(&by_unit, &case.by_unit());
        prop_assert!(by_unit.is_sorted(), "ascending sub-chunks stand in the order of the chunk");
    }

    #[test]
    fn runs_are_the_bytes_of_the_map(case in case()) {
        let mut offset = 0;
        while let Some(first) = case.map.get(offset) {
            let run = case.layout.run_at(offset as u64);
            prop_assert_eq!((run.sub_chunk, run.position), (first.sub_chunk, first.position));
            let same = |b: &&Byte| (b.unit, b.sub_chunk) == (first.unit, first.sub_chunk);
            let left = case.map[offset..].iter().take_while(same).count();
            prop_assert_eq!(run.bytes, left as u64);
            offset += 1 + offset / 7;
        }
    }

    #[test]
    fn joined_pieces_are_the_same_bytes_and_never_touch(case in case()) {
        let pieces = || case.range.pieces_by_unit(case.sub_chunks.iter().copied());
        let joined: Vec<Piece> = join_neighbours(pieces()).collect();
        prop_assert_eq!(offsets(joined.iter().copied()), offsets(pieces()));
        prop_assert!(joined.windows(2).all(|pair| pair[0].end() < pair[1].offset));
    }

    #[test]
    fn parts_and_units_cover_a_range_once(case in case(), step in 1..9u64) {
        let all = |ranges: &mut dyn Iterator<Item = PositionRange>| -> Vec<u64> {
            let positions = ranges.map(|w| w.from()..w.from() + w.positions() as u64);
            positions.flatten().collect()
        };
        let expected: Vec<u64> = case.positions().collect();
        prop_assert_eq!(all(&mut case.range.parts(step)), expected.clone());
        prop_assert_eq!(all(&mut case.range.units()), expected);
        for unit in case.range.units() {
            prop_assert!(unit.positions() > 0);
            let units: BTreeSet<u64> = offsets(unit.pieces_by_unit(unit.sub_chunks()))
                .into_iter()
                .map(|offset| case.map[offset as usize].unit)
                .collect();
            prop_assert_eq!(units.len(), 1);
        }
    }

    #[test]
    fn a_packed_buffer_holds_the_bytes_in_the_order_of_the_chunk(case in case()) {
        let packed: Packed = case.range.packed(case.sub_chunks.len());
        let by_unit = case.by_unit();
        prop_assert_eq!(packed.bytes(), by_unit.len());
        for unit in case.range.units() {
            for (rank, &sub_chunk) in case.sub_chunks.iter().enumerate() {
                let expected: Vec<u64> = (unit.from()..unit.from() + unit.positions() as u64)
                    .map(|position| case.offset(sub_chunk, position))
                    .collect();
                prop_assert_eq!(&by_unit[packed.sub_chunk(&unit, rank)], &expected[..]);
            }
            let here = by_unit[packed.unit(&unit)].iter();
            prop_assert!(here.clone().all(|at| case.map[*at as usize].unit * case.layout.unit_positions() <= unit.from()));
            prop_assert_eq!(here.count(), unit.positions() * case.sub_chunks.len());
        }
    }

    #[test]
    fn slices_that_cover_a_range_cover_its_chunk_once(case in case(), step in 1..9u64) {
        let alpha = u64::from(case.layout.sub_chunk_count());
        let chunk_bytes = case.layout.chunk_bytes();
        let mut seen = vec![0; chunk_bytes as usize];
        for from in (0..chunk_bytes).step_by((step * alpha) as usize) {
            let slice = case.layout.slice(from..chunk_bytes.min(from + step * alpha));
            let all = offsets(slice.pieces_by_sub_chunk(slice.sub_chunks()));
            prop_assert_eq!(all.len() as u64, chunk_bytes.min(from + step * alpha) - from);
            all.into_iter().for_each(|at| seen[at as usize] += 1);
        }
        prop_assert!(seen.iter().all(|count| *count == 1));
    }

    #[test]
    fn blocks_are_those_that_a_piece_touches(offset in 0..5000u64, bytes in 1..3000usize, rest in 0..900u64, block in 1..1000u64) {
        let piece = Piece { offset, bytes };
        let layout = Layout::plain(piece.end() + rest);
        let blocks = piece.in_blocks(block, &layout);
        let touched = |at: &u64| (offset / block..=(piece.end() - 1) / block).contains(&(at / block));
        let expected: Vec<u64> = (0..layout.chunk_bytes()).filter(touched).collect();
        prop_assert_eq!(offsets(std::iter::once(blocks)), expected);
    }

    #[test]
    fn a_size_that_will_not_do_names_the_nearest_that_will(code in 0..CODES.len(), bytes in 0..100_000u64) {
        let code: Code = CODES[code].parse().expect("a code");
        let fits = |bytes: &u64| *bytes > 0 && bytes.is_multiple_of(code.alignment() as u64);
        match layout::check_unit(&code, bytes) {
            Ok(()) => prop_assert!(fits(&bytes)),
            Err(error) => {
                prop_assert!(!fits(&bytes));
                let below = (0..bytes).rev().find(fits);
                let above = (bytes..).find(fits);
                let nearest: Vec<u64> = error.nearest().collect();
                prop_assert_eq!(nearest, below.into_iter().chain(above).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn where_chunks_are_not_cut_units_make_no_difference() {
    assert_eq!(Layout::plain(1000).in_units(64), Layout::plain(1000));
    let whole = Layout::plain(1000).whole();
    assert_eq!(offsets(whole.pieces_by_unit(0..1)), (0..1000).collect::<Vec<u64>>());
    assert_eq!(whole.units().count(), 1);
}

#[test]
fn an_empty_chunk_has_no_pieces() {
    let whole = Layout::cut(0, 8).whole();
    assert_eq!(whole.pieces_by_unit(0..8).count(), 0);
    assert_eq!((whole.units().count(), whole.parts(64).count()), (0, 0));
}

#[test]
fn refusals_say_what_would_do() {
    let code: Code = "rs(4,2)".parse().unwrap();
    assert_eq!(layout::check_unit(&code, 128), Ok(()));
    assert_eq!(layout::check_chunk(256, 128), Ok(()));
    let error = layout::check_unit(&code, 100).unwrap_err();
    assert_eq!(error, SizeError { bytes: 100, step: 64 });
    assert_eq!(error.to_string(), "100 bytes are no multiple of 64; the nearest: 64 or 128");
    let error = layout::check_unit(&code, 0).unwrap_err();
    assert_eq!(error.nearest().collect::<Vec<_>>(), [64]);
    let error = layout::check_chunk(u64::MAX, 128).unwrap_err();
    assert_eq!(error.nearest().collect::<Vec<_>>(), [u64::MAX / 128 * 128]);
}
