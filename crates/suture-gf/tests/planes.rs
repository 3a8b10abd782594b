//! Every kernel's bit-plane operations against the symbol-by-symbol definition: all widths, all
//! small lengths, many helpers, misaligned buffers.
//!
//! Place: what stands between a wrong trace and a rebuilt chunk.

#[path = "common/noise.rs"]
mod noise;

use noise::noise;
use suture_gf::bits::{self, BitMatrix};
use suture_gf::{Kernel, Maps, field};

/// The sum by the definition: one symbol after the other.
fn sum_by_definition(dst: &[u8], maps: &[BitMatrix], sources: &[&[u8]], symbols: usize) -> Vec<u8> {
    let mut sum = dst.to_vec();
    for (map, source) in maps.iter().zip(sources) {
        for index in 0..symbols {
            let image = map.apply(bits::symbol_at(source, map.column_count(), index));
            bits::add_symbol_at(&mut sum, map.row_count(), index, image);
        }
    }
    sum
}

fn map_of_noise(seed: u64, rows: usize, columns: usize) -> BitMatrix {
    let mask = (0xff_u16 >> (8 - columns)) as u8;
    let rows: Vec<u8> = noise(seed, rows).iter().map(|row| row & mask).collect();
    BitMatrix::new(&rows, columns)
}

/// Symbols in the layout of their width, with zeros as padding.
fn buffer_of_noise(seed: u64, width: usize, symbols: usize) -> Vec<u8> {
    let mut buffer = vec![0; bits::buffer_bytes(width, symbols)];
    let mask = (0xff_u16 >> (8 - width)) as u8;
    for (index, symbol) in noise(seed, symbols).into_iter().enumerate() {
        bits::add_symbol_at(&mut buffer, width, index, symbol & mask);
    }
    buffer
}

/// Sums of maps from some widths to one, into and onto a destination between guards.
fn check(kernel: &Kernel, to: usize, from: &[usize], symbols: usize, misalignment: usize) {
    let maps: Vec<BitMatrix> =
        from.iter().enumerate().map(|(i, &width)| map_of_noise(i as u64, to, width)).collect();
    let memory: Vec<Vec<u8>> = from
        .iter()
        .enumerate()
        .map(|(i, &width)| {
            let mut memory = vec![0xa5; (misalignment + i) % 64];
            memory.extend(buffer_of_noise(50 + i as u64, width, symbols));
            memory
        })
        .collect();
    let sources: Vec<&[u8]> =
        memory.iter().enumerate().map(|(i, bytes)| &bytes[(misalignment + i) % 64..]).collect();
    let prepared = Maps::new(&maps);
    let before = buffer_of_noise(99, to, symbols);
    let run = |expected: Vec<u8>, operation: &dyn Fn(&mut [u8])| {
        let mut guarded = vec![0xa5; 70 + misalignment];
        let start = guarded.len();
        guarded.extend(&before);
        let end = guarded.len();
        guarded.extend([0xa5; 70]);
        operation(&mut guarded[start..end]);
        let what = format!("{kernel:?}, {symbols} symbols of {from:?} bits to {to}");
        assert!(guarded[start..end] == expected, "{what}: wrong bytes at {misalignment}");
        let untouched = guarded[..start].iter().chain(&guarded[end..]).all(|&byte| byte == 0xa5);
        assert!(untouched, "{what}: wrote outside at {misalignment}");
    };
    let zeros = vec![0; before.len()];
    run(sum_by_definition(&zeros, &maps, &sources, symbols), &|dst| {
        kernel.map_sum(dst, &prepared, &sources, symbols);
    });
    run(sum_by_definition(&before, &maps, &sources, symbols), &|dst| {
        kernel.map_sum_add(dst, &prepared, &sources, symbols);
    });
}

#[test]
fn every_kernel_maps_every_width_to_every_width_at_every_length() {
    for kernel in Kernel::available() {
        for to in 1..=8 {
            for from in 1..=8 {
                for symbols in (0..=257).step_by(if to == 8 || from == 8 { 1 } else { 7 }) {
                    check(kernel, to, &[from], symbols, symbols % 64);
                }
            }
        }
    }
}

#[test]
fn every_kernel_sums_the_traces_of_many_helpers() {
    let one_lost_of_rs_10_4 = [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3];
    let cases: [&[usize]; 7] = [
        &[4, 4, 4, 5, 5, 4, 3, 3],
        &one_lost_of_rs_10_4,
        &[7; 9],
        &[1; 17],
        &[8, 3, 8, 5],
        &[8, 8, 8],
        &[6, 2, 7, 1, 5, 3, 4, 8],
    ];
    for kernel in Kernel::available() {
        for from in cases {
            for symbols in (0..600).step_by(13).chain([64, 128, 192, 256, 512, 1024, 1025]) {
                check(kernel, 8, from, symbols, symbols % 64);
            }
            check(kernel, 5, from, 2000, 1);
            check(kernel, 8, from, 2 * 8192 + 100, 3);
        }
    }
}

#[test]
fn every_kernel_extracts_every_functional_of_every_byte() {
    let bytes: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::available() {
        for mask in 1..=255 {
            let map = BitMatrix::new(&[mask], 8);
            let mut planes = [0; 32];
            kernel.map_sum(&mut planes, &Maps::new(&[map]), &[&bytes], 256);
            for byte in 0..=255u8 {
                let trace = (byte & mask).count_ones() as u8 & 1;
                assert_eq!(planes[byte as usize / 8] >> (byte % 8) & 1, trace, "{kernel:?}");
            }
        }
    }
}

#[test]
fn multiplication_as_a_map_is_multiplication() {
    let bytes = noise(1, 1000);
    for kernel in Kernel::available() {
        for coefficient in [0, 1, 2, 29, 255] {
            let maps = Maps::new(&[BitMatrix::of_coefficient(coefficient)]);
            let mut products = vec![0; 1000];
            kernel.map_sum(&mut products, &maps, &[&bytes], 1000);
            let expected: Vec<u8> =
                bytes.iter().map(|&byte| field::mul(coefficient, byte)).collect();
            assert!(products == expected, "{kernel:?} times {coefficient}");
        }
    }
}

#[test]
#[should_panic(expected = "give the same width")]
fn maps_to_different_widths_are_not_summed() {
    let _ = Maps::new(&[BitMatrix::identity(3), BitMatrix::identity(4)]);
}

#[test]
#[should_panic(expected = "as many sources as maps")]
fn another_number_of_sources_is_refused() {
    suture_gf::map_sum(&mut [0; 8], &Maps::new(&[BitMatrix::identity(8)]), &[], 8);
}

#[test]
#[should_panic(expected = "bytes of 65 symbols of 3 bits")]
fn planes_without_padding_are_refused() {
    suture_gf::map_sum(&mut [0; 65], &Maps::new(&[map_of_noise(1, 8, 3)]), &[&[0; 27]], 65);
}
