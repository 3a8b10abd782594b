//! NEON: a map of bytes is the sum of two table lookups, one per half byte; TBL looks up 16 at a
//! time.
//!
//! Place: slices flow, on every 64-bit Arm processor.
//! The arithmetic is that of `ssse3`. Lookups past a table give zero, which `spread` relies on.

use super::planes::{EXCHANGED_BY_7, EXCHANGED_BY_14, EXCHANGED_BY_28, PACKINGS, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;
use std::arch::aarch64::*;

kernel! {
    name: "neon",
    register: Neon,
    features: "neon",
    supported: std::arch::is_aarch64_feature_detected!("neon"),
    vectors: { one: 4, many: 2, prefixes: 8, rebuild: 4, block: 4 },
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

impl Vector for Neon {
    const BYTES: usize = 16;
    /// Images of low and high halves.
    type Map = [uint8x16_t; 2];
    /// Low and high halves.
    type Split = [uint8x16_t; 2];

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn zero() -> Self {
        Neon(vdupq_n_u8(0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 16 bytes, and the load needs no alignment.
        Neon(unsafe { vld1q_u8(at) })
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller grants 16 bytes, and the store needs no alignment.
        unsafe { vst1q_u8(at, self.0) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn xor(self, other: Self) -> Self {
        Neon(veorq_u8(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn map(factor: &Factor) -> [uint8x16_t; 2] {
        // SAFETY: both tables are 16 bytes.
        unsafe { [vld1q_u8(factor.low_images.as_ptr()), vld1q_u8(factor.high_images.as_ptr())] }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn split(self) -> [uint8x16_t; 2] {
        [vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn image([low, high]: [uint8x16_t; 2], map: [uint8x16_t; 2]) -> Self {
        Neon(veorq_u8(vqtbl1q_u8(map[0], low), vqtbl1q_u8(map[1], high)))
    }
}

/// Exchanges the bits under the mask with those `DISTANCE` above them.
#[inline]
#[target_feature(enable = "neon")]
fn exchange<const DISTANCE: i32>(bits: uint64x2_t, mask: u64) -> uint64x2_t {
    let differing = veorq_u64(bits, vshrq_n_u64::<DISTANCE>(bits));
    let differing = vandq_u64(differing, vdupq_n_u64(mask));
    veorq_u64(bits, veorq_u64(differing, vshlq_n_u64::<DISTANCE>(differing)))
}

impl Planes for Neon {
    const SLACK_SYMBOLS: usize = 128;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: the load stays within the planes of 16 symbols and the slack, which the caller
        // grants; the indices are 16 bytes.
        let (planes, indices) = unsafe { (vld1q_u8(at), vld1q_u8(part.natural.as_ptr())) };
        Neon(vorrq_u8(self.0, vqtbl1q_u8(planes, indices)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn to_symbols(self) -> Self {
        let bits = exchange::<7>(vreinterpretq_u64_u8(self.0), EXCHANGED_BY_7);
        let bits = exchange::<28>(exchange::<14>(bits, EXCHANGED_BY_14), EXCHANGED_BY_28);
        Neon(vreinterpretq_u8_u64(bits))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn to_planes(self) -> Self {
        // SAFETY: the same contract; a transposition undoes itself.
        unsafe { self.to_symbols() }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn pack(self, at: *mut u8, width: usize) {
        // SAFETY: the indices are more than 16 bytes; the store stays within the planes of 16
        // symbols and the slack, which the caller grants.
        unsafe { vst1q_u8(at, vqtbl1q_u8(self.0, vld1q_u8(PACKINGS[width].as_ptr()))) }
    }
}
