//! SSSE3: a product is the sum of two table lookups, one per half byte; a byte shuffle looks up 16
//! at a time.
//!
//! Place: slices flow, on x86-64 processors since 2006 that lack AVX2.
//! Multiplication is linear, so c * byte = c * (low half) + c * (high half), and each half has 16
//! values. Invariant: reads and writes only inside the slices it is given; the bytes past the last
//! full register are `scalar`'s. Source: Plank, Greenan, Miller, "Screaming Fast Galois Field
//! Arithmetic Using Intel SIMD Instructions", FAST 2013.

use super::{Begin, Factor, scalar};
use std::arch::x86_64::*;

/// Bytes in a register.
const STEP: usize = 16;

pub(super) fn supported() -> bool {
    is_x86_feature_detected!("ssse3")
}

#[target_feature(enable = "ssse3")]
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
#[target_feature(enable = "ssse3")]
fn combine_whole<const N: usize>(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    let sources: [&[u8]; N] = std::array::from_fn(|i| &sources[i][at..at + dst.len()]);
    let low: [_; N] = std::array::from_fn(|i| table(&factors[i].low_products));
    let high: [_; N] = std::array::from_fn(|i| table(&factors[i].high_products));
    let low_half = _mm_set1_epi8(0x0f);
    for offset in (0..dst.len()).step_by(STEP) {
        let place = dst[offset..offset + STEP].as_mut_ptr().cast();
        let mut sum = match begin {
            Begin::Zero => _mm_setzero_si128(),
            // SAFETY: STEP bytes from `place` are inside `dst`; the load needs no alignment.
            Begin::Destination => unsafe { _mm_loadu_si128(place) },
        };
        for i in 0..N {
            // SAFETY: offset + STEP <= dst.len(), which is the length of every source; no alignment
            // needed.
            let bytes: __m128i = unsafe { _mm_loadu_si128(sources[i].as_ptr().add(offset).cast()) };
            let low_product = _mm_shuffle_epi8(low[i], _mm_and_si128(bytes, low_half));
            let high_product =
                _mm_shuffle_epi8(high[i], _mm_and_si128(_mm_srli_epi64::<4>(bytes), low_half));
            sum = _mm_xor_si128(sum, _mm_xor_si128(low_product, high_product));
        }
        // SAFETY: STEP bytes from `place` are inside `dst`; the store needs no alignment.
        unsafe { _mm_storeu_si128(place, sum) };
    }
}

/// The 16 products, ready to be shuffled.
#[inline]
#[target_feature(enable = "ssse3")]
fn table(products: &[u8; 16]) -> __m128i {
    // SAFETY: 16 bytes are readable behind a reference to 16 bytes, and the load needs no
    // alignment.
    unsafe { _mm_loadu_si128(products.as_ptr().cast()) }
}
