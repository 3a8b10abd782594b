//! SSSE3: a map of bytes is the sum of two table lookups, one per half byte; a byte shuffle looks
//! up 16 at a time.
//!
//! Place: slices flow, on x86-64 processors since 2006 that lack AVX2.
//! Maps are linear, so map(byte) = map(low half) + map(high half), and each half has 16 values.
//! Source: Plank, Greenan, Miller, "Screaming Fast Galois Field Arithmetic Using Intel SIMD
//! Instructions", FAST 2013. Bits are transposed by exchanging ever larger blocks: Warren, Hacker's
//! Delight, section 7-3.

use super::planes::{EXCHANGED_BY_7, EXCHANGED_BY_14, EXCHANGED_BY_28, PACKINGS, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;
use std::arch::x86_64::*;

kernel! {
    name: "ssse3",
    register: Ssse3,
    features: "ssse3",
    supported: is_x86_feature_detected!("ssse3"),
    vectors: { one: 4, many: 2, prefixes: 8, rebuild: 4, block: 4 },
}

#[derive(Clone, Copy)]
struct Ssse3(__m128i);

impl Vector for Ssse3 {
    const BYTES: usize = 16;
    /// Images of low and high halves.
    type Map = [__m128i; 2];
    /// Low and high halves.
    type Split = [__m128i; 2];

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn zero() -> Self {
        Ssse3(_mm_setzero_si128())
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 16 bytes, and the load needs no alignment.
        Ssse3(unsafe { _mm_loadu_si128(at.cast()) })
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller grants 16 bytes, and the store needs no alignment.
        unsafe { _mm_storeu_si128(at.cast(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn xor(self, other: Self) -> Self {
        Ssse3(_mm_xor_si128(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn map(factor: &Factor) -> [__m128i; 2] {
        // SAFETY: both tables are 16 bytes.
        unsafe {
            [
                _mm_loadu_si128(factor.low_images.as_ptr().cast()),
                _mm_loadu_si128(factor.high_images.as_ptr().cast()),
            ]
        }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn split(self) -> [__m128i; 2] {
        let half = _mm_set1_epi8(0x0f);
        let high = _mm_srli_epi64::<4>(self.0);
        [_mm_and_si128(self.0, half), _mm_and_si128(high, half)]
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn image([low, high]: [__m128i; 2], map: [__m128i; 2]) -> Self {
        let images = [_mm_shuffle_epi8(map[0], low), _mm_shuffle_epi8(map[1], high)];
        Ssse3(_mm_xor_si128(images[0], images[1]))
    }
}

/// Exchanges the bits under the mask with those `DISTANCE` above them.
#[inline]
#[target_feature(enable = "ssse3")]
fn exchange<const DISTANCE: i32>(bits: __m128i, mask: u64) -> __m128i {
    let differing = _mm_xor_si128(bits, _mm_srli_epi64::<DISTANCE>(bits));
    let differing = _mm_and_si128(differing, _mm_set1_epi64x(mask.cast_signed()));
    let both = _mm_xor_si128(differing, _mm_slli_epi64::<DISTANCE>(differing));
    _mm_xor_si128(bits, both)
}

impl Planes for Ssse3 {
    const SLACK_SYMBOLS: usize = 128;

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: the load stays within the planes of 16 symbols and the slack, which the caller
        // grants; the indices are 16 bytes.
        unsafe {
            let planes = _mm_loadu_si128(at.cast());
            let indices = _mm_loadu_si128(part.natural.as_ptr().cast());
            Ssse3(_mm_or_si128(self.0, _mm_shuffle_epi8(planes, indices)))
        }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn to_symbols(self) -> Self {
        let bits = exchange::<7>(self.0, EXCHANGED_BY_7);
        let bits = exchange::<14>(bits, EXCHANGED_BY_14);
        Ssse3(exchange::<28>(bits, EXCHANGED_BY_28))
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn to_planes(self) -> Self {
        // SAFETY: the same contract; a transposition undoes itself.
        unsafe { self.to_symbols() }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn pack(self, at: *mut u8, width: usize) {
        // SAFETY: the indices are more than 16 bytes; the store stays within the planes of 16
        // symbols and the slack, which the caller grants.
        unsafe {
            let indices = _mm_loadu_si128(PACKINGS[width].as_ptr().cast());
            _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(self.0, indices));
        }
    }
}
