//! Which byte of an object lies where, and the checksum of the whole from those of its parts.
//!
//! Place: `[put]` and `[get]`, pure arithmetic.
//! A stripe holds the next `k * chunk_bytes` bytes of its object, contiguous in each chunk. Short
//! stripes are not padded to full chunks: the last one has chunks as long as its data asks for,
//! rounded up to what the code can work with.

use std::collections::BTreeMap;

use crc_fast::CrcAlgorithm;
use suture_code::Code;

/// Checksum of whole objects. 64 bits, because an object has more bytes than a chunk, and one
/// whose parts can be computed apart and combined.
const OBJECT_CHECKSUM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// The checksum of no bytes.
pub const EMPTY_CHECKSUM: u64 = 0;

/// Length of each chunk of a stripe that holds so many bytes.
pub fn chunk_bytes_for(code: &Code, data_bytes: u64) -> u64 {
    data_bytes.div_ceil(code.data_chunks() as u64).next_multiple_of(code.alignment() as u64)
}

/// The bytes of data in one chunk of a stripe; what follows them is zeros.
pub fn data_in_chunk(chunk: u64, chunk_bytes: u64, data_bytes: u64) -> u64 {
    data_bytes.saturating_sub(chunk * chunk_bytes).min(chunk_bytes)
}

/// Sums up bytes as they come.
pub fn object_digest() -> crc_fast::Digest {
    crc_fast::Digest::new(OBJECT_CHECKSUM)
}

/// The checksum of these bytes.
pub fn object_checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(OBJECT_CHECKSUM, bytes)
}

/// The checksum of `first` followed by `second`, which is so many bytes long.
pub fn join_checksums(first: u64, second: u64, second_bytes: u64) -> u64 {
    multiply(first, zeros(second_bytes)) ^ second
}

/// The polynomial of the checksum: the lowest bit is the coefficient of the highest power.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// What so many zeros behind some bytes multiply their checksum by: x^(8 bytes), modulo the
/// polynomial. Twenty products for a megabyte, where a matrix of the library takes forty times as
/// long: objects have thousands of parts.
fn zeros(bytes: u64) -> u64 {
    let one = 1 << 63;
    let (mut product, mut square) = (one, one >> 8);
    let mut left = bytes;
    while left > 0 {
        if left & 1 == 1 {
            product = multiply(product, square);
        }
        square = multiply(square, square);
        left >>= 1;
    }
    product
}

/// The product of two polynomials, modulo that of the checksum.
fn multiply(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted) = (0, b);
    for bit in (0..64).rev() {
        product ^= shifted & (a >> bit & 1).wrapping_neg();
        shifted = shifted >> 1 ^ (POLYNOMIAL & (shifted & 1).wrapping_neg());
    }
    product
}

/// The bytes from the first on whose checksum is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedPrefix {
    /// How many they are.
    pub bytes: u64,
    /// The checksum of these.
    pub checksum: u64,
}

/// The checksum of an object whose parts come in any order. Holds only what is out of order.
#[derive(Clone, Debug, Default)]
pub struct Checksum {
    bytes: u64,
    sum: u64,
    ahead: BTreeMap<u64, (u64, u64)>,
}

impl Checksum {
    /// A part: where it begins, how long it is, and its checksum.
    pub fn add(&mut self, offset: u64, bytes: u64, sum: u64) {
        self.ahead.insert(offset, (bytes, sum));
        while let Some((bytes, sum)) = self.ahead.remove(&self.bytes) {
            self.sum = join_checksums(self.sum, sum, bytes);
            self.bytes += bytes;
        }
    }

    /// What is summed up so far.
    pub fn so_far(&self) -> SummedPrefix {
        SummedPrefix { bytes: self.bytes, checksum: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stripes_have_short_chunks() {
        let code: Code = "rs(6,3)".parse().unwrap();
        for (data, chunk) in [(1, 64), (384, 64), (385, 128), (6 << 20, 1 << 20)] {
            assert_eq!(chunk_bytes_for(&code, data), chunk);
        }
        let of_chunk = |chunk| data_in_chunk(chunk, 64, 200);
        assert_eq!((0..6).map(of_chunk).collect::<Vec<_>>(), [64, 64, 64, 8, 0, 0]);
    }

    #[test]
    fn checksums_are_joined_as_the_library_joins_them() {
        let mut sum = 1u64;
        for bytes in [0, 1, 7, 64, 4096, 65_536, 1_000_003, 1 << 40, u64::MAX >> 4] {
            for _ in 0..50 {
                let (first, second) = (sum, sum.rotate_left(17) ^ bytes);
                let joined = crc_fast::checksum_combine(OBJECT_CHECKSUM, first, second, bytes);
                assert_eq!(join_checksums(first, second, bytes), joined, "{bytes} bytes");
                sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(bytes | 1);
            }
        }
    }

    #[test]
    fn the_checksum_of_the_whole_follows_from_its_parts_in_any_order() {
        let bytes: Vec<u8> = (0..100_000u64).map(|i| ((i * i) >> 7) as u8).collect();
        let mut parts: Vec<(usize, usize)> = (0..10).map(|i| (i * 9_999, 9_999)).collect();
        parts.push((99_990, 10));
        parts.reverse();
        parts.swap(2, 7);
        let mut checksum = Checksum::default();
        for (at, len) in parts {
            checksum.add(at as u64, len as u64, object_checksum(&bytes[at..at + len]));
        }
        let whole = SummedPrefix { bytes: 100_000, checksum: object_checksum(&bytes) };
        assert_eq!(checksum.so_far(), whole);
        let nothing = SummedPrefix { bytes: 0, checksum: EMPTY_CHECKSUM };
        assert_eq!(Checksum::default().so_far(), nothing);
        assert_eq!(object_checksum(&[]), EMPTY_CHECKSUM);
    }
}
