//! Every kernel against the field's definition: all coefficients, all small lengths, misaligned
//! buffers, many sources.
//!
//! Place: what stands between a wrong vector instruction and an operator's last good copy.
//! A kernel that this machine lacks is not tested here; the test prints which ones were.

#[path = "common/noise.rs"]
mod noise;

use noise::noise;
use proptest::prelude::*;
use std::ffi::OsString;
use suture_gf::kernel::TILE_BYTES;
use suture_gf::{Coefficients, Kernel, Rows, field};

/// Past four registers of 64 bytes, so that every mix of whole registers and tails occurs.
const LENGTH_MAX: usize = 257;

/// Bytes around every destination that must not change.
const GUARD: [u8; 70] = [0xa5; 70];

/// dst + sum of coefficient * source, by the definition.
fn sum_by_definition(dst: &[u8], coefficients: &[u8], sources: &[&[u8]]) -> Vec<u8> {
    let mut sum = dst.to_vec();
    for (&coefficient, source) in coefficients.iter().zip(sources) {
        for (sum, &byte) in sum.iter_mut().zip(*source) {
            *sum ^= field::mul(coefficient, byte);
        }
    }
    sum
}

/// Runs an operation on a misaligned destination between guards, and checks it and them.
fn check(
    what: &str,
    dst: &[u8],
    misalignment: usize,
    expected: &[u8],
    operation: impl FnOnce(&mut [u8]),
) {
    let mut memory = GUARD.to_vec();
    memory.extend(std::iter::repeat_n(0xa5, misalignment));
    let start = memory.len();
    memory.extend_from_slice(dst);
    memory.extend_from_slice(&GUARD);
    let end = start + dst.len();
    operation(&mut memory[start..end]);
    assert!(
        memory[start..end] == *expected,
        "{what}: wrong bytes, {} long, at {misalignment}",
        dst.len()
    );
    let untouched = memory[..start].iter().chain(&memory[end..]).all(|&byte| byte == 0xa5);
    assert!(untouched, "{what}: wrote outside, {} long, at {misalignment}", dst.len());
}

/// All four operations of a kernel on sources that each start at another misalignment.
fn check_sums(kernel: &Kernel, coefficients: &[u8], length: usize, misalignment: usize) {
    let memory: Vec<Vec<u8>> =
        (0..coefficients.len()).map(|i| noise(i as u64 + 1, length + 64)).collect();
    let sources: Vec<&[u8]> = memory
        .iter()
        .enumerate()
        .map(|(i, bytes)| &bytes[(misalignment * 5 + i * 3) % 64..][..length])
        .collect();
    let before = noise(999, length);
    let prepared = Coefficients::new(coefficients);
    let name = kernel.name();

    let from_zero = sum_by_definition(&vec![0; length], coefficients, &sources);
    check(name, &before, misalignment, &from_zero, |dst| kernel.dot(dst, &prepared, &sources));
    let from_before = sum_by_definition(&before, coefficients, &sources);
    check(name, &before, misalignment, &from_before, |dst| {
        kernel.dot_add(dst, &prepared, &sources)
    });
    if let (&[coefficient], &[source]) = (coefficients, &sources[..]) {
        check(name, &before, misalignment, &from_before, |dst| {
            kernel.mul_add(dst, coefficient, source)
        });
        let added = sum_by_definition(&before, &[1], &[source]);
        check(name, &before, misalignment, &added, |dst| kernel.xor(dst, source));
    }
}

#[test]
fn every_kernel_multiplies_every_byte_by_every_coefficient() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::available() {
        println!("testing kernel {}", kernel.name());
        for coefficient in 0..=255 {
            let mut products = [0; 256];
            kernel.mul_add(&mut products, coefficient, &all_bytes);
            let expected = sum_by_definition(&[0; 256], &[coefficient], &[&all_bytes]);
            assert!(products == *expected, "{} times {coefficient}", kernel.name());
        }
    }
}

#[test]
fn every_kernel_takes_every_coefficient_at_every_length() {
    for kernel in Kernel::available() {
        for coefficient in 0..=255u8 {
            for length in 0..=LENGTH_MAX {
                check_sums(kernel, &[coefficient], length, usize::from(coefficient) % 65);
            }
        }
    }
}

#[test]
fn every_kernel_takes_every_misalignment() {
    for kernel in Kernel::available() {
        for misalignment in 0..64 {
            for length in [1, 15, 16, 63, 64, 65, 128, 200] {
                check_sums(kernel, &[7, 142, 1], length, misalignment);
            }
        }
    }
}

#[test]
fn every_kernel_sums_any_number_of_sources_at_every_length() {
    for kernel in Kernel::available() {
        for count in 0..=13 {
            let coefficients = noise(count as u64 + 77, count);
            for length in 0..=LENGTH_MAX {
                check_sums(kernel, &coefficients, length, count);
            }
        }
        check_sums(kernel, &noise(5, 255), 129, 3);
    }
}

#[test]
fn every_kernel_crosses_tiles() {
    for kernel in Kernel::available() {
        for length in [TILE_BYTES - 1, TILE_BYTES, TILE_BYTES + 1, 3 * TILE_BYTES + 65] {
            check_sums(kernel, &[3, 0, 255, 1, 88, 9], length, 1);
        }
    }
}

/// Several outputs at once, each between guards, against one sum each.
fn check_many(kernel: &Kernel, outputs: usize, sources: usize, length: usize, misalignment: usize) {
    let rows: Vec<Vec<u8>> = (0..outputs).map(|row| noise(300 + row as u64, sources)).collect();
    let prepared: Vec<_> = rows.iter().map(|row| Coefficients::new(row)).collect();
    let memory: Vec<Vec<u8>> = (0..sources).map(|i| noise(i as u64 + 1, length + 64)).collect();
    let sources: Vec<&[u8]> = memory
        .iter()
        .enumerate()
        .map(|(i, bytes)| &bytes[(misalignment + i) % 64..][..length])
        .collect();
    let before: Vec<Vec<u8>> = (0..outputs).map(|row| noise(500 + row as u64, length)).collect();
    for add in [false, true] {
        let mut guarded: Vec<Vec<u8>> = before
            .iter()
            .map(|row| [&GUARD[..], &vec![0xa5; misalignment], row, &GUARD].concat())
            .collect();
        let start = GUARD.len() + misalignment;
        let mut dsts: Vec<&mut [u8]> =
            guarded.iter_mut().map(|row| &mut row[start..][..length]).collect();
        if add {
            kernel.dot_many_add(&mut dsts, &prepared, &sources)
        } else {
            kernel.dot_many(&mut dsts, &prepared, &sources)
        }
        for ((guarded, row), before) in guarded.iter().zip(&rows).zip(&before) {
            let begin = if add { before.clone() } else { vec![0; length] };
            let expected = sum_by_definition(&begin, row, &sources);
            let what = format!("{kernel:?}: {outputs} of {}, {length} long", sources.len());
            assert!(guarded[start..][..length] == expected, "{what}: wrong bytes");
            let around = guarded[..start].iter().chain(&guarded[start + length..]);
            assert!(around.copied().all(|byte| byte == 0xa5), "{what}: wrote outside");
        }
    }
}

#[test]
fn every_kernel_computes_many_outputs_at_every_length() {
    for kernel in Kernel::available() {
        for outputs in 1..=4 {
            for length in 0..=LENGTH_MAX {
                check_many(kernel, outputs, 1 + length % 12, length, length % 64);
            }
        }
    }
}

#[test]
fn every_kernel_computes_any_number_of_outputs_of_any_number_of_sources() {
    for kernel in Kernel::available() {
        for outputs in 0..=9 {
            for sources in [0, 1, 2, 3, 10, 11, 16, 17, 33, 60] {
                check_many(kernel, outputs, sources, 300, outputs);
            }
        }
        check_many(kernel, 4, 10, 2 * TILE_BYTES + 77, 5);
        check_many(kernel, 5, 255, 100, 0);
    }
}

#[test]
fn rows_are_computed_and_the_bytes_between_them_left_alone() {
    let coefficients = [vec![3, 1, 7], vec![0, 255, 2]];
    let prepared: Vec<_> = coefficients.iter().map(|row| Coefficients::new(row)).collect();
    for kernel in Kernel::available() {
        for (count, bytes, stride) in
            [(0, 5, 9), (1, 7, 7), (5, 64, 100), (3, 0, 10), (9, 33, 33), (2, 9000, 10_000)]
        {
            let length = count * stride;
            let memory: Vec<Vec<u8>> = (0..3).map(|i| noise(i, length)).collect();
            let sources: Vec<&[u8]> = memory.iter().map(|source| &source[..]).collect();
            let before = [noise(8, length), noise(9, length)];
            let mut outputs = before.clone();
            let mut dsts: Vec<&mut [u8]> = outputs.iter_mut().map(|dst| &mut dst[..]).collect();
            kernel.dot_rows(&mut dsts, &prepared, &sources, Rows { count, bytes, stride });
            for ((output, before), row) in outputs.iter().zip(&before).zip(&coefficients) {
                let sum = sum_by_definition(&vec![0; length], row, &sources);
                for at in 0..length {
                    let expected = if at % stride < bytes { sum[at] } else { before[at] };
                    assert_eq!(output[at], expected, "{kernel:?}, byte {at} of {count} rows");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "ends before")]
fn rows_past_the_end_of_a_buffer_are_refused() {
    let rows = Rows { count: 2, bytes: 4, stride: 6 };
    let sum = [Coefficients::new(&[1])];
    suture_gf::dot_rows(&mut [&mut [0; 10]], &sum, &[&[0; 9]], rows);
}

#[test]
fn prefix_sums_are_exclusive_ors_at_every_length() {
    let cases: [&[usize]; 6] = [&[0], &[1], &[7], &[1, 2, 3, 4, 5, 6, 7], &[0, 3, 3, 6], &[2, 7]];
    for kernel in Kernel::available() {
        for length in (0..=LENGTH_MAX).chain([511, 512, 1024, 9000]) {
            let memory: Vec<Vec<u8>> = (0..7).map(|i| noise(i, length + 64)).collect();
            let sources: Vec<&[u8]> =
                memory.iter().enumerate().map(|(i, bytes)| &bytes[i * 9..][..length]).collect();
            for ends in cases {
                let mut outputs = vec![noise(9, length); ends.len()];
                let mut dsts: Vec<&mut [u8]> = outputs.iter_mut().map(|dst| &mut dst[..]).collect();
                kernel.xor_prefix_sums(&mut dsts, ends, &sources);
                for (output, &end) in outputs.iter().zip(ends) {
                    let expected =
                        sum_by_definition(&vec![0; length], &vec![1; end], &sources[..end]);
                    assert!(*output == expected, "{kernel:?}, {end} of {ends:?}, {length}");
                }
            }
            let all = sum_by_definition(&vec![0; length], &[1; 7], &sources);
            check(kernel.name(), &noise(5, length), length % 64, &all, |dst| {
                kernel.xor_sum(dst, &sources);
            });
            check(kernel.name(), &noise(5, length), length % 64, &all, |dst| {
                kernel.dot(dst, &Coefficients::new(&[1; 7]), &sources);
            });
        }
    }
}

#[test]
#[should_panic(expected = "prefixes ascend")]
fn descending_prefixes_are_refused() {
    suture_gf::xor_prefix_sums(&mut [&mut [0], &mut [0]], &[1, 0], &[&[0]]);
}

#[test]
#[should_panic(expected = "a prefix has sources")]
fn prefixes_longer_than_the_sources_are_refused() {
    suture_gf::xor_prefix_sums(&mut [&mut [0]], &[2], &[&[0]]);
}

#[test]
#[should_panic(expected = "as many rows of coefficients as outputs")]
fn another_number_of_outputs_is_refused() {
    suture_gf::dot_many(&mut [&mut [0]], &[], &[&[0]]);
}

#[test]
fn a_sum_of_no_sources_is_zero() {
    for kernel in Kernel::available() {
        let mut dst = noise(1, 100);
        kernel.dot_add(&mut dst, &Coefficients::new(&[]), &[]);
        assert_eq!(dst, noise(1, 100));
        kernel.dot(&mut dst, &Coefficients::new(&[]), &[]);
        assert_eq!(dst, [0; 100]);
    }
}

#[test]
#[should_panic(expected = "as long as the destination")]
fn a_source_of_another_length_is_refused() {
    suture_gf::xor(&mut [0; 8], &[0; 9]);
}

#[test]
#[should_panic(expected = "as many sources as coefficients")]
fn another_number_of_sources_is_refused() {
    suture_gf::dot(&mut [0; 8], &Coefficients::new(&[1, 2]), &[&[0; 8]]);
}

#[test]
fn scalar_is_always_available_and_names_are_unique() {
    let names: Vec<_> = Kernel::available().map(Kernel::name).collect();
    assert_eq!(names[0], "scalar");
    assert!(
        names.iter().all(|name| Kernel::named(name).is_some_and(|kernel| kernel.name() == *name))
    );
    assert!(Kernel::named("abacus").is_none());
}

/// Not a test of its own: `the_environment_chooses_the_kernel` runs it in a child process.
#[test]
#[ignore = "run by the_environment_chooses_the_kernel"]
fn print_the_best_kernel() {
    println!("best={}.", Kernel::best().name());
}

#[test]
fn the_environment_chooses_the_kernel() {
    let run = |kernel: Option<&str>| {
        // Under an emulator, the child needs it too: the same one that cargo ran this test with.
        let emulator = if cfg!(target_arch = "aarch64") {
            std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER")
        } else {
            Err(std::env::VarError::NotPresent)
        };
        let mut words: Vec<OsString> =
            emulator.iter().flat_map(|line| line.split(' ')).map(OsString::from).collect();
        words.push(std::env::current_exe().unwrap().into());
        let mut child = std::process::Command::new(&words[0]);
        child.args(&words[1..]);
        child
            .args(["--exact", "print_the_best_kernel", "--ignored", "--nocapture"])
            .env_remove("SUTURE_KERNEL");
        kernel.map(|name| child.env("SUTURE_KERNEL", name));
        let output = child.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let fastest = Kernel::available().next_back().unwrap().name();
    assert!(run(None).0.contains(&format!("best={fastest}.")));
    for kernel in Kernel::available() {
        assert!(run(Some(kernel.name())).0.contains(&format!("best={}.", kernel.name())));
    }
    let (_, complaint) = run(Some("abacus"));
    assert!(complaint.contains("SUTURE_KERNEL=\"abacus\""), "{complaint}");
    assert!(complaint.contains("scalar"), "{complaint}");
}

proptest! {
    #[test]
    fn kernels_agree_with_the_definition(
        coefficients in prop::collection::vec(any::<u8>(), 0..20),
        length in 0..3 * TILE_BYTES,
        misalignment in 0..64usize,
    ) {
        for kernel in Kernel::available() {
            check_sums(kernel, &coefficients, length, misalignment);
        }
    }
}
