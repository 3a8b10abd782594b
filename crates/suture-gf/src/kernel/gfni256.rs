//! AVX2 + GFNI: a map of bytes is one 8x8 bit-matrix product, 32 bytes at a time.
//!
//! Place: slices flow, on x86-64 processors with GFNI but without AVX-512 (many client parts since
//! 2021).
//! The arithmetic is that of `gfni512`. Shuffles stay inside 16 bytes, so bit planes are spread and
//! packed for 16 symbols at a time.

use super::planes::{PACKINGS, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;
use std::arch::x86_64::*;

kernel! {
    name: "gfni256",
    register: Gfni256,
    features: "avx2,gfni",
    supported: is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
    vectors: { one: 4, many: 2, prefixes: 8, rebuild: 4, block: 2 },
}

#[derive(Clone, Copy)]
struct Gfni256(__m256i);

/// Byte i has only bit i, in every 8 bytes: the vector that makes the affine instruction transpose.
const DIAGONAL: i64 = 0x8040_2010_0804_0201_u64.cast_signed();

impl Vector for Gfni256 {
    const BYTES: usize = 32;
    type Map = __m256i;
    type Split = Gfni256;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn zero() -> Self {
        Gfni256(_mm256_setzero_si256())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 32 bytes, and the load needs no alignment.
        Gfni256(unsafe { _mm256_loadu_si256(at.cast()) })
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
        Gfni256(_mm256_xor_si256(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn map(factor: &Factor) -> __m256i {
        _mm256_set1_epi64x(factor.affine.cast_signed())
    }

    #[inline(always)]
    unsafe fn split(self) -> Self {
        self
    }

    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    unsafe fn image(bytes: Self, map: __m256i) -> Self {
        Gfni256(_mm256_gf2p8affine_epi64_epi8::<0>(bytes.0, map))
    }
}

impl Planes for Gfni256 {
    const SLACK_SYMBOLS: usize = 128;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: both loads stay within the planes of 32 symbols and the slack, which the caller
        // grants; the indices are more than 16 bytes.
        unsafe {
            let low = _mm_loadu_si128(at.cast());
            let high = _mm_loadu_si128(at.add(2 * part.width).cast());
            let indices = _mm_loadu_si128(part.reversed.as_ptr().cast());
            let indices = _mm256_broadcastsi128_si256(indices);
            let planes = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), indices);
            Gfni256(_mm256_or_si256(self.0, planes))
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    unsafe fn to_symbols(self) -> Self {
        // `spread` put the last plane first, because bit i of a result comes from matrix byte 7-i.
        Gfni256(_mm256_gf2p8affine_epi64_epi8::<0>(_mm256_set1_epi64x(DIAGONAL), self.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    unsafe fn to_planes(self) -> Self {
        Gfni256(_mm256_gf2p8affine_epi64_epi8::<0>(_mm256_set1_epi64x(DIAGONAL), self.reversed().0))
    }

    /// With the data as the matrix, and the rows of the map where `to_planes` has the diagonal, one
    /// product maps and transposes.
    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    unsafe fn planes_of(bytes: Self, map: __m256i) -> Self {
        let rows = Gfni256(map).reversed().0;
        Gfni256(_mm256_gf2p8affine_epi64_epi8::<0>(rows, bytes.reversed().0))
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

impl Gfni256 {
    /// Every 8 bytes in reverse.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn reversed(self) -> Self {
        let reverse = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
        Gfni256(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(reverse)))
    }
}
