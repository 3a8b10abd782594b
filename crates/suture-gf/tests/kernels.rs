//! Every kernel against the field's definition: all coefficients, all small lengths, misaligned
//! buffers, many sources.
//!
//! Place: what stands between a wrong vector instruction and an operator's last good copy.
//! A kernel that this machine lacks is not tested here; the test prints which ones were.

use proptest::prelude::*;
use suture_gf::kernel::TILE_BYTES;
use suture_gf::{Coefficients, Kernel, field};

/// Past four registers of 64 bytes, so that every mix of whole registers and tails occurs.
const LENGTH_MAX: usize = 257;

/// Bytes around every destination that must not change.
const GUARD: [u8; 70] = [0xa5; 70];

/// Bytes with no pattern that a kernel could get right by accident.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

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
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
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
