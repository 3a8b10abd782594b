//! Bit matrices and bit planes against the symbol-by-symbol definition.
//!
//! Place: what trace repair rests on: its traffic is bit planes, its arithmetic these maps.

use proptest::prelude::*;
use suture_gf::bits::{self, BitMatrix};
use suture_gf::field;
use suture_gf::{Maps, map_sum, map_sum_add};

fn bit_matrix(rows: usize, columns: usize) -> impl Strategy<Value = BitMatrix> {
    let mask = (0xff_u16 >> (8 - columns)) as u8;
    prop::collection::vec(any::<u8>().prop_map(move |row| row & mask), rows)
        .prop_map(move |rows| BitMatrix::new(&rows, columns))
}

fn any_bit_matrix() -> impl Strategy<Value = BitMatrix> {
    (1..=8usize, 1..=8usize).prop_flat_map(|(rows, columns)| bit_matrix(rows, columns))
}

/// Symbols of a width, and a buffer that holds them in its layout.
fn buffer_of(width: usize, noise: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mask = (0xff_u16 >> (8 - width)) as u8;
    let symbols: Vec<u8> = noise.iter().map(|byte| byte & mask).collect();
    let mut buffer = vec![0; bits::buffer_bytes(width, symbols.len())];
    symbols
        .iter()
        .enumerate()
        .for_each(|(index, &symbol)| bits::add_symbol_at(&mut buffer, width, index, symbol));
    (symbols, buffer)
}

/// planes = map(bytes): the traces of a chunk.
fn extract(planes: &mut [u8], map: &BitMatrix, bytes: &[u8]) {
    map_sum(planes, &Maps::new(&[*map]), &[bytes], bytes.len());
}

/// dst += map(src).
fn map_add(dst: &mut [u8], map: &BitMatrix, src: &[u8], symbols: usize) {
    map_sum_add(dst, &Maps::new(&[*map]), &[src], symbols);
}

#[test]
fn a_coefficient_as_a_bit_matrix_multiplies_as_in_the_field() {
    for coefficient in 0..=255 {
        let map = BitMatrix::of_coefficient(coefficient);
        assert!(
            (0..=255).all(|symbol| map.apply(symbol) == field::mul(coefficient, symbol)),
            "{coefficient}"
        );
        assert_eq!(map.rank(), if coefficient == 0 { 0 } else { 8 });
    }
}

#[test]
fn products_and_inverses_of_coefficients_are_those_of_the_field() {
    for a in 1..=255 {
        let map = BitMatrix::of_coefficient(a);
        assert_eq!(map.invert(), Some(BitMatrix::of_coefficient(field::inv(a))));
        for b in [0, 1, 2, 29, 255] {
            assert_eq!(
                map.mul(&BitMatrix::of_coefficient(b)),
                BitMatrix::of_coefficient(field::mul(a, b))
            );
        }
    }
}

#[test]
fn planes_hold_bit_j_of_eight_symbols_in_byte_j() {
    // Symbols 0 and 9 are 0b101, all others 0; three planes per 8 symbols, padded to 64 symbols.
    let mut planes = vec![0; bits::buffer_bytes(3, 10)];
    assert_eq!(planes.len(), 3 * 8);
    bits::add_symbol_at(&mut planes, 3, 0, 0b101);
    bits::add_symbol_at(&mut planes, 3, 9, 0b101);
    let expected = [0b01, 0, 0b01, 0b10, 0, 0b10];
    assert_eq!(planes[..6], expected);
    assert!(planes[6..].iter().all(|&byte| byte == 0));
}

#[test]
fn buffers_are_as_long_as_the_layout_says() {
    assert_eq!(bits::buffer_bytes(8, 100), 100);
    assert_eq!(bits::buffer_bytes(1, 64), 8);
    assert_eq!(bits::buffer_bytes(5, 65), 5 * 16);
    assert_eq!(bits::buffer_bytes(7, 0), 0);
}

#[test]
fn bits_of_the_padding_stay_zero() {
    let map = BitMatrix::new(&[0xff, 0x81], 8);
    for symbols in 0..200 {
        let bytes = vec![0xff; symbols];
        let mut planes = vec![0xee; bits::buffer_bytes(2, symbols)];
        extract(&mut planes, &map, &bytes);
        for index in symbols..symbols.next_multiple_of(64) {
            assert_eq!(bits::symbol_at(&planes, 2, index), 0, "symbol {index} of {symbols}");
        }
    }
}

#[test]
#[should_panic(expected = "bits past")]
fn a_row_wider_than_the_matrix_is_refused() {
    let _ = BitMatrix::new(&[0b1000], 3);
}

#[test]
#[should_panic(expected = "bytes of 64 symbols")]
fn planes_of_another_length_are_refused() {
    extract(&mut [0; 23], &BitMatrix::new(&[1, 2, 4], 8), &[0; 64]);
}

proptest! {
    #[test]
    fn regions_are_mapped_symbol_by_symbol(
        map in any_bit_matrix(),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (symbols, src) = buffer_of(map.column_count(), &noise);
        let other_noise: Vec<u8> = noise.iter().map(|byte| byte.rotate_left(3) ^ 0x5a).collect();
        let (before, mut dst) = buffer_of(map.row_count(), &other_noise);
        map_add(&mut dst, &map, &src, symbols.len());
        for (index, &symbol) in symbols.iter().enumerate() {
            let expected = before[index] ^ map.apply(symbol);
            prop_assert_eq!(bits::symbol_at(&dst, map.row_count(), index), expected);
        }
    }

    #[test]
    fn extracting_and_adding_with_the_inverse_gives_the_bytes_back(
        map in bit_matrix(8, 8).prop_filter("invertible", |map| map.rank() == 8),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        // The 8 output bits travel as two values of 3 and 5 planes and meet again at the decoder.
        let inverse = map.invert().unwrap();
        let mut rebuilt = vec![0; bytes.len()];
        for (first, width) in [(0, 3), (3, 5)] {
            let part = BitMatrix::new(&map.rows()[first..first + width], 8);
            let mut planes = vec![0; bits::buffer_bytes(width, bytes.len())];
            extract(&mut planes, &part, &bytes);
            let mask = (0xff_u16 >> (8 - width)) as u8;
            let back: Vec<u8> = inverse.rows().iter().map(|row| row >> first & mask).collect();
            map_add(&mut rebuilt, &BitMatrix::new(&back, width), &planes, bytes.len());
        }
        prop_assert_eq!(rebuilt, bytes);
    }

    #[test]
    fn products_apply_right_then_left(
        (left, right) in (1..=8usize, 1..=8usize, 1..=8usize)
            .prop_flat_map(|(a, b, c)| (bit_matrix(a, b), bit_matrix(b, c))),
        symbol in any::<u8>(),
    ) {
        let symbol = symbol & (0xff_u16 >> (8 - right.column_count())) as u8;
        prop_assert_eq!(left.mul(&right).apply(symbol), left.apply(right.apply(symbol)));
        prop_assert!(left.mul(&right).rank() <= left.rank().min(right.rank()));
    }

    #[test]
    fn an_inverse_exists_exactly_at_full_rank(
        map in (1..=8usize).prop_flat_map(|width| bit_matrix(width, width)),
    ) {
        let width = map.row_count();
        match map.invert() {
            Some(inverse) => {
                prop_assert_eq!(map.rank(), width);
                prop_assert_eq!(map.mul(&inverse), BitMatrix::identity(width));
            }
            None => prop_assert!(map.rank() < width),
        }
    }
}
