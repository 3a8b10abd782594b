//! AVX-512 + GFNI: a product is one 8x8 bit-matrix product, 64 bytes at a time, and a mask serves
//! any tail.
//!
//! Place: slices flow, on x86-64 servers since Ice Lake and Zen 4.
//! GFNI's own multiplication is modulo 0x11b; its affine instruction takes any linear map, hence
//! also ours modulo 0x11d. Invariant: reads and writes only inside the slices it is given: a
//! masked-out byte is neither loaded nor stored.

use super::{Begin, Factor};
use std::arch::x86_64::*;

/// Bytes in a register.
const STEP: usize = 64;

pub(super) fn supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn combine(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    match factors.len() {
        4 => combine_n::<4>(dst, factors, sources, at, begin),
        3 => combine_n::<3>(dst, factors, sources, at, begin),
        2 => combine_n::<2>(dst, factors, sources, at, begin),
        1 => combine_n::<1>(dst, factors, sources, at, begin),
        count => unreachable!("{count} sources in a group of 1 to 4"),
    }
}

/// The same for exactly `N` sources.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_n<const N: usize>(
    dst: &mut [u8],
    factors: &[Factor],
    sources: &[&[u8]],
    at: usize,
    begin: Begin,
) {
    let sources: [&[u8]; N] = std::array::from_fn(|i| &sources[i][at..at + dst.len()]);
    let maps: [_; N] = std::array::from_fn(|i| _mm512_set1_epi64(factors[i].affine.cast_signed()));
    let whole = dst.len() - dst.len() % STEP;
    for offset in (0..whole).step_by(STEP) {
        let place = dst[offset..offset + STEP].as_mut_ptr().cast();
        let mut sum = match begin {
            Begin::Zero => _mm512_setzero_si512(),
            // SAFETY: STEP bytes from `place` are inside `dst`; the load needs no alignment.
            Begin::Destination => unsafe { _mm512_loadu_si512(place) },
        };
        for i in 0..N {
            // SAFETY: offset + STEP <= dst.len(), which is the length of every source; no alignment
            // needed.
            let bytes = unsafe { _mm512_loadu_si512(sources[i].as_ptr().add(offset).cast()) };
            sum = _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(bytes, maps[i]));
        }
        // SAFETY: STEP bytes from `place` are inside `dst`; the store needs no alignment.
        unsafe { _mm512_storeu_si512(place, sum) };
    }
    let tail = &mut dst[whole..];
    if tail.is_empty() {
        return;
    }
    let mask = (1u64 << tail.len()) - 1;
    let place = tail.as_mut_ptr().cast();
    let mut sum = match begin {
        Begin::Zero => _mm512_setzero_si512(),
        // SAFETY: the mask admits only the bytes of `tail`; masked-out bytes are not accessed.
        Begin::Destination => unsafe { _mm512_maskz_loadu_epi8(mask, place) },
    };
    for i in 0..N {
        // SAFETY: the mask admits tail.len() bytes from `whole` on, and every source is as long as
        // `dst`.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, sources[i].as_ptr().add(whole).cast()) };
        sum = _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(bytes, maps[i]));
    }
    // SAFETY: the mask admits only the bytes of `tail`.
    unsafe { _mm512_mask_storeu_epi8(place, mask, sum) };
}
