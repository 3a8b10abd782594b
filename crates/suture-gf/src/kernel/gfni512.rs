//! AVX-512 + GFNI: a map of bytes is one 8x8 bit-matrix product, 64 bytes at a time, and a mask
//! serves any tail.
//!
//! Place: slices flow, on x86-64 servers since Ice Lake and Zen 4.
//! GFNI's own multiplication is modulo 0x11b; its affine instruction takes any linear map, hence
//! also ours modulo 0x11d. The same instruction transposes 8x8 bits when the data is its matrix.
//! Invariant: a masked-out byte is neither loaded nor stored.

use super::planes::{PACK_RUN, PACKINGS, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;
use std::arch::x86_64::*;

kernel! {
    name: "gfni512",
    register: Gfni512,
    features: "avx512f,avx512bw,avx512vbmi,gfni",
    supported: is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("gfni"),
    vectors: { one: 8, many: 4, prefixes: 8, rebuild: 4, block: 1 },
}

#[derive(Clone, Copy)]
struct Gfni512(__m512i);

/// A mask of the first bytes of a register, fewer than all.
fn first(count: usize) -> u64 {
    (1 << count) - 1
}

/// Byte i has only bit i, in every 8 bytes: the vector that makes the affine instruction transpose.
const DIAGONAL: i64 = 0x8040_2010_0804_0201_u64.cast_signed();

impl Vector for Gfni512 {
    const BYTES: usize = 64;
    type Map = __m512i;
    type Split = Gfni512;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn zero() -> Self {
        Gfni512(_mm512_setzero_si512())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 64 bytes, and the load needs no alignment.
        Gfni512(unsafe { _mm512_loadu_si512(at.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller grants 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(at.cast(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn xor(self, other: Self) -> Self {
        Gfni512(_mm512_xor_si512(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn map(factor: &Factor) -> __m512i {
        _mm512_set1_epi64(factor.affine.cast_signed())
    }

    #[inline(always)]
    unsafe fn split(self) -> Self {
        self
    }

    #[inline]
    #[target_feature(enable = "avx512f,gfni")]
    unsafe fn image(bytes: Self, map: __m512i) -> Self {
        Gfni512(_mm512_gf2p8affine_epi64_epi8::<0>(bytes.0, map))
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    unsafe fn load_some(at: *const u8, count: usize) -> Self {
        // SAFETY: the mask admits only the bytes that the caller grants.
        Gfni512(unsafe { _mm512_maskz_loadu_epi8(first(count), at.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    unsafe fn store_some(self, at: *mut u8, count: usize) {
        // SAFETY: the mask admits only the bytes that the caller grants.
        unsafe { _mm512_mask_storeu_epi8(at.cast(), first(count), self.0) }
    }
}

impl Planes for Gfni512 {
    const SLACK_SYMBOLS: usize = 64;

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: each load begins with the planes of 64 symbols and reaches at most as far as
        // those of the next, which the caller grants.
        let planes = unsafe {
            // The narrowest load that will do: wider ones would straddle more cache lines.
            match part.width {
                1 | 2 => _mm512_castsi128_si512(_mm_loadu_si128(at.cast())),
                3 | 4 => _mm512_castsi256_si512(_mm256_loadu_si256(at.cast())),
                _ => _mm512_loadu_si512(at.cast()),
            }
        };
        self.insert(planes, part)
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    unsafe fn spread_exactly(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: the mask admits the planes of 64 symbols, which the caller grants.
        let planes = unsafe { _mm512_maskz_loadu_epi8(first(8 * part.width), at.cast()) };
        self.insert(planes, part)
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    unsafe fn pack(self, at: *mut u8, width: usize) {
        let packed = self.packed(width);
        // SAFETY: each store begins with the planes of 64 symbols and reaches at most as far as
        // those of the next, which the caller grants; a prefetch may point anywhere.
        unsafe {
            if width <= 2 {
                return _mm_storeu_si128(at.cast(), _mm512_castsi512_si128(packed));
            }
            // Stores that straddle two lines wait for both. With the lines fetched ahead, widths of
            // 5 and more are 1.6 times as fast outside the first-level cache.
            _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(1024).cast());
            _mm256_storeu_si256(at.cast(), _mm512_castsi512_si256(packed));
            if width > 4 {
                let rest = _mm512_extracti64x4_epi64::<1>(packed);
                _mm256_storeu_si256(at.add(32).cast(), rest);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    unsafe fn pack_exactly(self, at: *mut u8, width: usize) {
        // SAFETY: the mask admits the planes of 64 symbols, which the caller grants.
        unsafe { _mm512_mask_storeu_epi8(at.cast(), first(8 * width), self.packed(width)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,gfni")]
    unsafe fn to_symbols(self) -> Self {
        // `spread` put the last plane first, because bit i of a result comes from matrix byte 7-i.
        Gfni512(_mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(DIAGONAL), self.0))
    }

    #[inline]
    #[target_feature(enable = "avx512bw,gfni")]
    unsafe fn to_planes(self) -> Self {
        Gfni512(_mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(DIAGONAL), self.reversed().0))
    }

    /// With the data as the matrix, and the rows of the map where `to_planes` has the diagonal, one
    /// product maps and transposes.
    #[inline]
    #[target_feature(enable = "avx512bw,gfni")]
    unsafe fn planes_of(bytes: Self, map: __m512i) -> Self {
        let rows = Gfni512(map).reversed().0;
        Gfni512(_mm512_gf2p8affine_epi64_epi8::<0>(rows, bytes.reversed().0))
    }

    /// Vectors of planes put together to whole lines: a store that straddles two lines waits for
    /// both.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn pack_run(vectors: [Self; PACK_RUN], at: *mut u8, width: usize) {
        // SAFETY: `width` vectors of 64 bytes are what the caller grants.
        unsafe {
            match width {
                1 => pack_lines::<1>(vectors, at),
                2 => pack_lines::<2>(vectors, at),
                3 => pack_lines::<3>(vectors, at),
                4 => pack_lines::<4>(vectors, at),
                5 => pack_lines::<5>(vectors, at),
                6 => pack_lines::<6>(vectors, at),
                _ => pack_lines::<7>(vectors, at),
            }
        }
    }
}

/// For each width and vector of a run: the packing of `PACKINGS`, rotated to where the vector's
/// planes begin in their line; what does not fit the line is then where the next one wants it.
static ROTATED: [[[u8; 64]; PACK_RUN]; 8] = {
    let mut rotated = [[[0; 64]; PACK_RUN]; 8];
    let mut width = 1;
    while width < 8 {
        let mut vector = 0;
        while vector < PACK_RUN {
            let mut byte = 0;
            while byte < 8 * width {
                let to = (8 * width * vector + byte) % 64;
                rotated[width][vector][to] = PACKINGS[width][byte];
                byte += 1;
            }
            vector += 1;
        }
        width += 1;
    }
    rotated
};

/// # Safety
/// `WIDTH` is 1 to 7, and 64 times as many bytes are writable at `at`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn pack_lines<const WIDTH: usize>(vectors: [Gfni512; PACK_RUN], at: *mut u8) {
    let mut line = _mm512_setzero_si512();
    for (index, vector) in vectors.iter().enumerate() {
        let start = 8 * WIDTH * index;
        // SAFETY: the indices are 64 bytes; a vector that ends in or behind its line completes it,
        // the last one the last of `WIDTH`.
        unsafe {
            let indices = _mm512_loadu_si512(ROTATED[WIDTH][index].as_ptr().cast());
            let planes = _mm512_permutexvar_epi8(indices, vector.0);
            line = _mm512_mask_mov_epi8(line, u64::MAX << (start % 64), planes);
            if start % 64 + 8 * WIDTH >= 64 {
                _mm512_storeu_si512(at.add(start / 64 * 64).cast(), line);
                line = planes;
            }
        }
    }
}

impl Gfni512 {
    /// Every 8 bytes in reverse.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn reversed(self) -> Self {
        let reverse = _mm512_set4_epi32(0x0809_0a0b, 0x0c0d_0e0f, 0x0001_0203, 0x0405_0607);
        Gfni512(_mm512_shuffle_epi8(self.0, reverse))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi")]
    fn insert(self, planes: __m512i, part: &PlaneRun) -> Self {
        // SAFETY: the indices are 64 bytes.
        let indices = unsafe { _mm512_loadu_si512(part.reversed.as_ptr().cast()) };
        Gfni512(_mm512_mask_permutexvar_epi8(self.0, part.reversed_mask, indices, planes))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi")]
    fn packed(self, width: usize) -> __m512i {
        // SAFETY: the indices are 64 bytes.
        let indices = unsafe { _mm512_loadu_si512(PACKINGS[width].as_ptr().cast()) };
        _mm512_permutexvar_epi8(indices, self.0)
    }
}
