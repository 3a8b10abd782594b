//! Tables: a coefficient or a bit matrix in the forms that the instruction sets want, made once per
//! plan.
//!
//! Place: ... program compiled -> [its coefficients as tables] -> kernels run ...
//! Preparing tables costs more than a sum over a short sub-chunk, so plans keep them.

use crate::bits::BitMatrix;
use std::fmt;

/// The coefficients of a sum, with the tables that the kernels read; made once per plan, used for
/// every slice.
#[derive(Clone)]
pub struct Coefficients {
    factors: Vec<Factor>,
    plain: bool,
}

impl Coefficients {
    /// Prepares the tables: 48 bytes a coefficient, copied so that a sum's tables lie side by side.
    #[must_use]
    pub fn new(coefficients: &[u8]) -> Coefficients {
        Coefficients {
            factors: coefficients.iter().map(|&coefficient| *Factor::of(coefficient)).collect(),
            plain: coefficients.iter().all(|&coefficient| coefficient == 1),
        }
    }

    /// How many coefficients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.factors.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.factors.is_empty()
    }

    /// The coefficients themselves, in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        self.factors.iter().map(|factor| factor.image_of(1))
    }

    /// Whether the sum is exclusive or, since all coefficients are one.
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    pub(super) fn factors(&self) -> &[Factor] {
        &self.factors
    }
}

impl fmt::Debug for Coefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A linear map of bytes, most often multiplication by a coefficient, in the form each instruction
/// set wants.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Factor {
    /// Images of 0..=15: what a shuffle looks the low half of a byte up in.
    pub low_images: [u8; 16],
    /// Images of the multiples of 16: the same for the high half.
    pub high_images: [u8; 16],
    /// The map as an 8x8 bit matrix, in the byte order of GF2P8AFFINEQB.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "an x86-64 instruction"))]
    pub affine: u64,
}

/// The factors of all coefficients.
static FACTORS: [Factor; 256] = factors();

/// The factors of a sum whose coefficients are all one.
pub(super) static ONES: [Factor; 64] = [Factor::of_map(&BitMatrix::of_coefficient(1)); 64];

impl Factor {
    /// Multiplication by a coefficient.
    pub fn of(coefficient: u8) -> &'static Factor {
        &FACTORS[coefficient as usize]
    }

    /// A map of fewer bits ignores the other bits of its argument, and leaves those of its image
    /// zero.
    pub const fn of_map(map: &BitMatrix) -> Factor {
        // Column j of the map is the image of bit j.
        let rows = map.row_masks();
        let mut columns = [0; 8];
        let mut cell = 0;
        while cell < 64 {
            let (row, column) = (cell / 8, cell % 8);
            columns[column] |= (rows[row] >> column & 1) << row;
            cell += 1;
        }
        let mut low_images = [0; 16];
        let mut high_images = [0; 16];
        let mut half = 1;
        while half < 16 {
            // All bits but the lowest were summed before.
            let (bit, rest) = (usize::trailing_zeros(half) as usize, half & (half - 1));
            low_images[half] = low_images[rest] ^ columns[bit];
            high_images[half] = high_images[rest] ^ columns[bit + 4];
            half += 1;
        }
        // The instruction keeps the row of output bit i in byte 7 - i, that is: row 0 first,
        // big-endian.
        Factor { low_images, high_images, affine: u64::from_be_bytes(rows) }
    }

    /// The image of one byte.
    pub const fn image_of(&self, byte: u8) -> u8 {
        self.low_images[(byte & 15) as usize] ^ self.high_images[(byte >> 4) as usize]
    }
}

const fn factors() -> [Factor; 256] {
    let mut factors = [Factor::of_map(&BitMatrix::of_coefficient(0)); 256];
    let mut coefficient = 1;
    while coefficient < 256 {
        factors[coefficient] = Factor::of_map(&BitMatrix::of_coefficient(coefficient as u8));
        coefficient += 1;
    }
    factors
}
