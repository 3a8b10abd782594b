//! AVX2 + GFNI: a product is one 8x8 bit-matrix product, 32 bytes at a time.
//!
//! Place: slices flow, on x86-64 processors with GFNI but without AVX-512 (many client parts since
//! 2021).
//! GFNI's own multiplication is modulo 0x11b; its affine instruction takes any linear map, hence
//! also ours modulo 0x11d. Invariant: reads and writes only inside the slices it is given; the
//! bytes past the last full register are `scalar`'s.

use super::{Begin, Factor, scalar};
use std::arch::x86_64::*;

/// Bytes in a register.
const STEP: usize = 32;

pub(super) fn supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni")
}

#[target_feature(enable = "avx2,gfni")]
pub(super) fn combine(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    let whole = dst.len() - dst.len() % STEP;
    let (body, tail) = dst.split_at_mut(whole);
    match factors.len() {
        4 => combine_whole::<4>(body, factors, sources, at, begin),
        3 => combine_whole::<3>(body, factors, sources, at, begin),
        2 => combine_whole::<2>(body, factors, sources, at, begin),
        1 => combine_whole::<1>(body, factors, sources, at, begin),
        count => unreachable!("{count} sources in a group of 1 to 4"),
    }
    if !tail.is_empty() {
        scalar::combine(tail, factors, sources, at + whole, begin);
    }
}

/// The same for exactly `N` sources and a whole number of registers.
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn combine_whole<const N: usize>(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    let sources: [&[u8]; N] = std::array::from_fn(|i| &sources[i][at..at + dst.len()]);
    let maps: [_; N] = std::array::from_fn(|i| _mm256_set1_epi64x(factors[i].affine.cast_signed()));
    for offset in (0..dst.len()).step_by(STEP) {
        let place = dst[offset..offset + STEP].as_mut_ptr().cast();
        let mut sum = match begin {
            Begin::Zero => _mm256_setzero_si256(),
            // SAFETY: STEP bytes from `place` are inside `dst`; the load needs no alignment.
            Begin::Destination => unsafe { _mm256_loadu_si256(place) },
        };
        for i in 0..N {
            // SAFETY: offset + STEP <= dst.len(), which is the length of every source; no alignment
            // needed.
            let bytes = unsafe { _mm256_loadu_si256(sources[i].as_ptr().add(offset).cast()) };
            sum = _mm256_xor_si256(sum, _mm256_gf2p8affine_epi64_epi8::<0>(bytes, maps[i]));
        }
        // SAFETY: STEP bytes from `place` are inside `dst`; the store needs no alignment.
        unsafe { _mm256_storeu_si256(place, sum) };
    }
}
