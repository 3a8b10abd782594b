//! The kernel for every machine: 8 bytes in a word, each bit of them selecting a column of the map.
//!
//! Place: slices flow, on processors without vector units that we know.
//! No tables are looked up, so compilers can put several words into whatever registers there are.
//! Invariant: uses no instruction set.

use super::planes::{EXCHANGED_BY_7, EXCHANGED_BY_14, EXCHANGED_BY_28, PlaneRun, Planes};
use super::table::Factor;
use super::vector::Vector;

kernel! {
    name: "scalar",
    register: Word,
    supported: true,
    vectors: { one: 4, many: 2, prefixes: 8, rebuild: 8, block: 8 },
}

/// The byte at the lowest address is the lowest.
#[derive(Clone, Copy)]
struct Word(u64);

/// One in every byte.
const ONES: u64 = u64::from_ne_bytes([1; 8]);

impl Vector for Word {
    const BYTES: usize = 8;
    /// The images of the 8 bits, each in every byte.
    type Map = [u64; 8];
    type Split = Word;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Word(0)
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller grants 8 bytes; arrays of bytes need no alignment.
        Word(u64::from_le_bytes(unsafe { *at.cast() }))
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller grants 8 bytes; arrays of bytes need no alignment.
        unsafe { *at.cast() = self.0.to_le_bytes() }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Word(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn map(factor: &Factor) -> [u64; 8] {
        std::array::from_fn(|bit| ONES * u64::from(factor.image_of(1 << bit)))
    }

    #[inline(always)]
    unsafe fn split(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn image(bytes: Self, columns: [u64; 8]) -> Self {
        let mut image = 0;
        for (bit, column) in columns.iter().enumerate() {
            let selected = bytes.0 >> bit & ONES;
            // Every selected byte becomes 0xff: the borrow of one is the carry of the next.
            image ^= (selected << 8).wrapping_sub(selected) & column;
        }
        Word(image)
    }
}

impl Planes for Word {
    const SLACK_SYMBOLS: usize = 64;

    #[inline(always)]
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self {
        // SAFETY: 8 bytes are the planes of 8 symbols and slack, which the caller grants.
        let Word(planes) = unsafe { Word::load(at) };
        let planes = planes >> (8 * part.skip) & ((1 << (8 * part.count)) - 1);
        Word(self.0 | planes << (8 * part.shift))
    }

    #[inline(always)]
    unsafe fn to_symbols(self) -> Self {
        let mut bits = self.0;
        for (distance, mask) in [(7, EXCHANGED_BY_7), (14, EXCHANGED_BY_14), (28, EXCHANGED_BY_28)]
        {
            let differing = (bits ^ bits >> distance) & mask;
            bits ^= differing ^ differing << distance;
        }
        Word(bits)
    }

    #[inline(always)]
    unsafe fn to_planes(self) -> Self {
        // SAFETY: the same contract; a transposition undoes itself.
        unsafe { self.to_symbols() }
    }

    #[inline(always)]
    unsafe fn pack(self, at: *mut u8, _: usize) {
        // SAFETY: 8 bytes are the planes of 8 symbols and slack, which the caller grants.
        unsafe { self.store(at) }
    }
}
