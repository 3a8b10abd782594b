//! AVX2: a map of bytes is the sum of two table lookups, one per half byte; a byte shuffle looks up
//! 32 at a time.
//!
//! Place: slices flow, on x86-64 processors since 2013 that lack GFNI.
//! Maps are linear, so map(byte) = map(low half) + map(high half), and each half has 16 values.
//! Source: Plank, Greenan, Miller, "Screaming Fast Galois Field Arithmetic Using Intel SIMD
//! Instructions", FAST 2013. Bits are transposed by exchanging ever larger blocks: Warren, Hacker's
//! Delight, section 7-3.

use super::planes::{EXCHANGED_BY_7, EXCHANGED_BY_14, EXCHANGED_BY_28, PACKINGS, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;
use std::arch::x86_64::*;

kernel! {
    name: "avx2",
    register: Avx2,
    features: "avx2",
    supported: is_x86_feature_detected!("avx2"),
    vectors: { one: 4, many: 2, prefixes: 8, rebuild: 2, block: 2 },
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

impl Vector for Avx2 {
    const BYTES: usize = 32;
    /// Images of low and high halves.
    type Map = [__m256i; 2];
    /// Low and high halves.
    type Split = [__m256i; 2];

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn zero() -> Self {
        Avx2(_mm256_setzero_si256())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 32 bytes, and the load needs no alignment.
        Avx2(unsafe { _mm256_loadu_si256(at.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller grants 32 bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(at.cast(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn xor(self, other: Self) -> Self {
        Avx2(_mm256_xor_si256(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn map(factor: &Factor) -> [__m256i; 2] {
        // SAFETY: both tables are 16 bytes.
        let [low, high] = unsafe {
            [
                _mm_loadu_si128(factor.low_images.as_ptr().cast()),
                _mm_loadu_si128(factor.high_images.as_ptr().cast()),
            ]
        };
        [_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn split(self) -> [__m256i; 2] {
        let half = _mm256_set1_epi8(0x0f);
        let high = _mm256_srli_epi64::<4>(self.0);
        [_mm256_and_si256(self.0, half), _mm256_and_si256(high, half)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn image([low, high]: [__m256i; 2], map: [__m256i; 2]) -> Self {
        let images = [_mm256_shuffle_epi8(map[0], low), _mm256_shuffle_epi8(map[1], high)];
        Avx2(_mm256_xor_si256(images[0], images[1]))
    }
}

/// Exchanges the bits under the mask with those `DISTANCE` above them.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange<const DISTANCE: i32>(bits: __m256i, mask: u64) -> __m256i {
    let differing = _mm256_xor_si256(bits, _mm256_srli_epi64::<DISTANCE>(bits));
    let differing = _mm256_and_si256(differing, _mm256_set1_epi64x(mask.cast_signed()));
    let both = _mm256_xor_si256(differing, _mm256_slli_epi64::<DISTANCE>(differing));
    _mm256_xor_si256(bits, both)
}

impl Planes for Avx2 {
    const SLACK_SYMBOLS: usize = 128;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: both loads stay within the planes of 32 symbols and the slack, which the caller
        // grants; the indices are 16 bytes.
        unsafe {
            let low = _mm_loadu_si128(at.cast());
            let high = _mm_loadu_si128(at.add(2 * part.width).cast());
            let indices = _mm_loadu_si128(part.natural.as_ptr().cast());
            let indices = _mm256_broadcastsi128_si256(indices);
            let planes = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), indices);
            Avx2(_mm256_or_si256(self.0, planes))
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn to_symbols(self) -> Self {
        let bits = exchange::<7>(self.0, EXCHANGED_BY_7);
        let bits = exchange::<14>(bits, EXCHANGED_BY_14);
        Avx2(exchange::<28>(bits, EXCHANGED_BY_28))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn to_planes(self) -> Self {
        // SAFETY: the same contract; a transposition undoes itself.
        unsafe { self.to_symbols() }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn pack(self, at: *mut u8, width: usize) {
        // SAFETY: the indices are more than 16 bytes; both stores stay within the planes of 32
        // symbols and the slack, which the caller grants.
        unsafe {
            let indices = _mm_loadu_si128(PACKINGS[width].as_ptr().cast());
            let packed = _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(indices));
            _mm_storeu_si128(at.cast(), _mm256_castsi256_si128(packed));
            _mm_storeu_si128(at.add(2 * width).cast(), _mm256_extracti128_si256::<1>(packed));
        }
    }
}
