//! The kernel for every machine: one table lookup per byte. The definition that the others are
//! compared against.
//!
//! Place: slices flow, on processors without vector units that we know; and the tails of the
//! vector kernels.
//! Invariant: uses no instruction set and no `unsafe` operation.

use super::{Begin, Factor};
use crate::field::PRODUCTS;

pub(super) fn combine(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    if begin == Begin::Zero {
        dst.fill(0);
    }
    for (factor, source) in factors.iter().zip(sources) {
        let pairs = dst.iter_mut().zip(&source[at..]);
        // Plain sums are common (XOR parities), and the compiler turns this loop into whole words.
        if factor.coefficient == 1 {
            pairs.for_each(|(dst, &byte)| *dst ^= byte);
            continue;
        }
        let products = &PRODUCTS[factor.coefficient as usize];
        pairs.for_each(|(dst, &byte)| *dst ^= products[byte as usize]);
    }
}
