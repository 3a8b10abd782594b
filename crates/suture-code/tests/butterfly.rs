//! Butterfly codes: the columns of the paper, and repair by half of what remains.
//!
//! Place: every k, every loss; the parity is compared with the recursion as it is printed, and with
//! the table of its k = 4.

use crate::common::{
    Rng, check_all_patterns, check_repair, chunks, stripe, subsets, survivors, volume,
};
use std::collections::BTreeSet;
use suture_code::{ChunkIndex, Code, CodeError};
use suture_gf::Matrix;

fn butterfly(k: usize) -> Code {
    format!("butterfly({k})").parse().unwrap()
}

/// A symbol of the data: its column and row.
type Symbol = (usize, usize);
/// A column of sums of symbols.
type Sums = Vec<BTreeSet<Symbol>>;

fn xor(a: &BTreeSet<Symbol>, b: &BTreeSet<Symbol>) -> BTreeSet<Symbol> {
    a.symmetric_difference(b).copied().collect()
}

fn add(a: &[BTreeSet<Symbol>], b: &[BTreeSet<Symbol>]) -> Sums {
    a.iter().zip(b).map(|(a, b)| xor(a, b)).collect()
}

/// P: the vertical flip.
fn flipped(rows: &[BTreeSet<Symbol>]) -> Sums {
    rows.iter().rev().cloned().collect()
}

/// H and B as the paper prints them, for columns given leftmost first.
fn printed_parities(columns: &[Sums]) -> (Sums, Sums) {
    if let [left, right] = columns {
        let [c, d, a, b] = [&left[0], &left[1], &right[0], &right[1]];
        return (vec![xor(c, a), xor(d, b)], vec![xor(d, a), xor(&xor(c, a), b)]);
    }
    let half = columns[0].len() / 2;
    let (a, b) = columns[0].split_at(half);
    let upper: Vec<Sums> = columns[1..].iter().map(|column| column[..half].to_vec()).collect();
    let lower: Vec<Sums> = columns[1..].iter().map(|column| flipped(&column[half..])).collect();
    let ((h_a, b_a), (h_pb, b_pb)) = (printed_parities(&upper), printed_parities(&lower));
    let h = [add(a, &h_a), flipped(&add(&flipped(b), &h_pb))].concat();
    let b = [add(&flipped(b), &b_a), flipped(&add(&add(a, &h_a), &b_pb))].concat();
    (h, b)
}

/// What the code computes: the terms of each row of both parities.
fn computed_parities(k: usize) -> (Sums, Sums) {
    let flat = butterfly(k).encode_dag().flatten().expect("bytes and coefficients");
    let terms = |row: &[u8]| {
        let terms = row.iter().zip(&flat.sources).filter(|(coefficient, _)| **coefficient != 0);
        terms
            .map(|(coefficient, source)| {
                assert_eq!(*coefficient, 1, "exclusive or alone");
                (usize::from(source.chunk.0), source.sub_chunk as usize)
            })
            .collect()
    };
    let rows: Sums = flat.matrix.rows().map(terms).collect();
    let (h, b) = rows.split_at(1 << (k - 1));
    (h.to_vec(), b.to_vec())
}

#[test]
fn parities_are_those_of_the_printed_recursion() {
    for k in 2..=8 {
        let column = |j: usize| (0..1 << (k - 1)).map(|i| BTreeSet::from([(j, i)])).collect();
        let columns: Vec<Sums> = (0..k).rev().map(column).collect();
        assert_eq!(computed_parities(k), printed_parities(&columns), "k = {k}");
    }
}

/// The table of the slides for k = 4, with the slips of its recognition mended: a, b, c, d are D0
/// to D3.
#[test]
fn parities_of_four_columns_are_those_of_the_printed_table() {
    let table = [
        "d7 c3 b1 a0",
        "d6 c2 b0 a0 a1",
        "d5 c1 b1 a1 b3 a3 a2",
        "d4 c0 b0 a0 b2 a3",
        "d3 c3 b3 a3 c7 b7 a7 b5 a4",
        "d2 c2 b2 a2 c6 b6 a6 b4 a4 a5",
        "d1 c1 b1 a1 c5 b7 a7 a6",
        "d0 c0 b0 a0 c4 b6 a7",
    ];
    let symbol = |text: &str| {
        let [column, row] = text.as_bytes() else { panic!("{text}") };
        (usize::from(column - b'a'), usize::from(row - b'0'))
    };
    let expected: Sums = table.iter().map(|row| row.split(' ').map(symbol).collect()).collect();
    let (h, b) = computed_parities(4);
    assert_eq!(b, expected);
    let row_sums: Sums = (0..8).map(|row| (0..4).map(|column| (column, row)).collect()).collect();
    assert_eq!(h, row_sums);
}

#[test]
fn every_pattern_is_rebuilt() {
    for k in 2..=8 {
        check_all_patterns(&format!("butterfly({k})"), 2, 3);
    }
}

#[test]
fn one_loss_is_rebuilt_from_half_of_what_remains() {
    for k in 2..=8 {
        let code = butterfly(k);
        let alpha = code.sub_chunk_count();
        let half = alpha * (k as u32 + 1) / 2;
        for lost in code.chunks() {
            let helpers = survivors(&code, &[lost]);
            assert_eq!(code.helpers_for(&[lost], &helpers).unwrap(), helpers);
            assert_eq!(code.least_helper_sub_chunks(lost), half);
            // The helpers of B read all of the columns but the last, and still send half.
            let read =
                if usize::from(lost.0) == k + 1 { (k as u32 - 1) * alpha + alpha } else { half };
            assert_eq!(volume(&code, lost), (read as usize, half), "k = {k}, {lost} lost");
            let dag = code.repair_dag(&[lost], &helpers).unwrap();
            assert_eq!(dag.sends(), helpers.iter().map(|&h| (h, alpha / 2)).collect::<Vec<_>>());
        }
    }
}

/// The sums that rebuild B are needed: what they carry has as many dimensions as there are rows.
#[test]
fn what_helpers_send_is_not_redundant() {
    for k in 2..=6 {
        let code = butterfly(k);
        for lost in code.chunks() {
            let dag = code.repair_dag(&[lost], &survivors(&code, &[lost])).unwrap();
            for (_, part) in dag.split_at_helpers().helpers {
                let matrix: Matrix = part.flatten().unwrap().matrix;
                assert_eq!(matrix.rank(), matrix.row_count());
            }
        }
    }
}

/// Sums over first columns are shared: both parities together take few more than the plain
/// exclusive or of two parities would, 2 (k - 1) in a row.
#[test]
fn shared_sums_keep_encoding_and_repair_cheap() {
    for k in 2..=8 {
        let code = butterfly(k);
        let additions = |dag: &suture_code::Dag| -> usize {
            dag.values()
                .map(|(_, value)| match &value.origin {
                    suture_code::dag::Origin::Sum { terms, .. } => terms.len() - 1,
                    suture_code::dag::Origin::Source(_) => 0,
                })
                .sum()
        };
        let plain = (2 * (k - 1)) << (k - 1);
        assert!(additions(&code.encode_dag()) <= plain, "k = {k}");
        // B is left out: its helpers add up shares, each for itself.
        for lost in code.chunks().take(k + 1) {
            let dag = code.repair_dag(&[lost], &survivors(&code, &[lost])).unwrap();
            let half_columns = (k + 1) << (k - 2);
            let at_most = 2 * half_columns + half_columns / 2;
            assert!(additions(&dag) <= at_most, "k = {k}, {lost}: {}", additions(&dag));
        }
    }
}

#[test]
fn helper_sets_of_other_sizes_are_refused() {
    let code = butterfly(4);
    let stripe = stripe(&code, 5, &mut Rng::new(2));
    for helpers in subsets(&survivors(&code, &chunks(&[1])), 4) {
        assert_eq!(code.helpers_for(&chunks(&[1]), &helpers).unwrap(), helpers);
        check_repair(&code, &stripe, &chunks(&[1]), &helpers);
    }
    assert_eq!(
        code.helpers_for(&chunks(&[1]), &chunks(&[0, 2, 3])),
        Err(CodeError::NotEnoughChunks { needed: 4, available: 3 })
    );
    assert_eq!(
        code.repair_dag(&chunks(&[1]), &chunks(&[0, 2, 3])),
        Err(CodeError::NotEnoughChunks { needed: 4, available: 3 })
    );
    assert_eq!(code.sub_chunk_count(), 8);
    assert_eq!(code.alignment(), 512);
    assert_eq!(
        code.repair_dag(&[ChunkIndex(9)], &[]),
        Err(CodeError::NoSuchChunk { chunk: ChunkIndex(9), chunk_count: 6 })
    );
}
