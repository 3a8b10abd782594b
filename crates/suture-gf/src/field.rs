//! The field GF(2^8): bytes as polynomials over GF(2), modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d).
//!
//! Place: the definition that every kernel is compared against; codes use it for their matrices.
//! Addition is exclusive or, so subtraction is the same operation. The tables are computed by the
//! compiler from shift-and-reduce alone, and a test repeats the multiplication the long way for all
//! 65,536 pairs.
//!
//! Invariant: 0x11d is primitive with generator 2, hence logarithms exist for every byte but zero.
//! Source: the polynomial is the one of ISA-L, HDFS, Jerasure and most storage systems; others
//! differ in it, and their chunks cannot be mixed with ours.

/// The reduction polynomial, with its x^8 term.
pub const POLYNOMIAL: u16 = 0x11d;

/// A generator of the multiplicative group: its powers are all 255 non-zero bytes.
pub const GENERATOR: u8 = 2;

/// Order of the multiplicative group.
const GROUP_ORDER: usize = 255;

/// Powers of the generator, written out twice so that a sum of two logarithms needs no reduction.
const EXP: [u8; 2 * GROUP_ORDER] = exp_table();
/// Logarithms to the base of the generator; the entry of zero is never read.
const LOG: [u8; 256] = log_table();

/// The product of two field elements.
#[inline]
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The multiplicative inverse.
///
/// # Panics
/// When `a` is zero, which has none.
#[inline]
#[must_use]
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse in GF(2^8)");
    EXP[GROUP_ORDER - LOG[a as usize] as usize]
}

/// The quotient `a / b`.
///
/// # Panics
/// When `b` is zero.
#[inline]
#[must_use]
pub const fn div(a: u8, b: u8) -> u8 {
    mul(a, inv(b))
}

/// The power `a^exponent`, with `0^0 = 1`.
#[must_use]
pub const fn pow(a: u8, exponent: u32) -> u8 {
    if exponent == 0 {
        return 1;
    }
    if a == 0 {
        return 0;
    }
    EXP[(LOG[a as usize] as u64 * exponent as u64 % GROUP_ORDER as u64) as usize]
}

/// One multiplication by x, reduced: the only arithmetic that the tables are built from.
const fn double(a: u8) -> u8 {
    let shifted = (a as u16) << 1;
    (if shifted & 0x100 != 0 { shifted ^ POLYNOMIAL } else { shifted }) as u8
}

const fn exp_table() -> [u8; 2 * GROUP_ORDER] {
    let mut table = [0; 2 * GROUP_ORDER];
    let mut power = 1;
    let mut i = 0;
    while i < table.len() {
        table[i] = power;
        power = double(power);
        i += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < GROUP_ORDER {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as taught: add the shifted multiplicand for each bit, then divide by the
    /// polynomial.
    fn mul_the_long_way(a: u8, b: u8) -> u8 {
        let mut product =
            (0..8).filter(|i| b >> i & 1 == 1).fold(0u16, |sum, i| sum ^ (u16::from(a) << i));
        for degree in (8..15).rev() {
            if product >> degree & 1 == 1 {
                product ^= POLYNOMIAL << (degree - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials_modulo_0x11d() {
        for a in 0..=255 {
            for b in 0..=255 {
                let expected = mul_the_long_way(a, b);
                assert_eq!(mul(a, b), expected, "{a} * {b}");
            }
        }
    }

    #[test]
    fn multiplication_commutes_and_has_a_one() {
        for a in 0..=255 {
            assert_eq!(mul(a, 1), a);
            assert_eq!(mul(a, 0), 0);
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul(b, a));
            }
        }
    }

    #[test]
    fn multiplication_associates_and_distributes_over_addition() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let ab = mul(a, b);
                for c in 0..=255u8 {
                    assert_eq!(mul(ab, c), mul(a, mul(b, c)), "({a} * {b}) * {c}");
                    assert_eq!(mul(a, b ^ c), ab ^ mul(a, c), "{a} * ({b} + {c})");
                }
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse_and_division_undoes_multiplication() {
        for a in 1..=255 {
            assert_eq!(mul(a, inv(a)), 1, "1 / {a}");
            for b in 0..=255 {
                assert_eq!(div(mul(b, a), a), b, "{b} * {a} / {a}");
            }
        }
    }

    #[test]
    fn powers_are_repeated_products() {
        for a in 0..=255 {
            let mut power = 1;
            for exponent in 0..=600 {
                assert_eq!(pow(a, exponent), power, "{a}^{exponent}");
                power = mul(power, a);
            }
        }
        assert_eq!(pow(GENERATOR, u32::MAX), pow(GENERATOR, u32::MAX % 255));
    }

    #[test]
    fn the_generator_reaches_every_element_but_zero() {
        let mut seen = [false; 256];
        (0..255).for_each(|i| seen[pow(GENERATOR, i) as usize] = true);
        assert!(!seen[0] && seen[1..].iter().all(|&seen| seen));
    }

    #[test]
    #[should_panic(expected = "zero has no inverse")]
    fn zero_has_no_inverse() {
        let _ = inv(0);
    }
}
