//! Kernels: GF(2^8) sums of products over buffers, one implementation per instruction set.
//!
//! Place: `failure -> stripes -> plan -> dispatch -> [slices] -> durable -> commit`.
//! The work is memory traffic, not arithmetic: one output of k sources touches k + 1 bytes per byte
//! produced. So the destination is cut into tiles that stay in the first-level cache, and each tile
//! takes a few sources at a time. Reading all k streams at once is slower (about 60 % of this shape
//! with k = 10), one at a time rewrites the destination too often, and non-temporal stores never
//! helped.
//!
//! | file | instructions | how a byte is multiplied |
//! |---|---|---|
//! | `scalar` | none | one lookup in a 256-byte row of products |
//! | `ssse3` | SSSE3 | two 16-byte shuffles, 16 bytes at a time |
//! | `avx2` | AVX2 | the same, 32 at a time |
//! | `gfni256` | AVX2 + GFNI | one 8x8 bit-matrix product, 32 at a time |
//! | `gfni512` | AVX-512BW + GFNI | the same, 64 at a time, any tail by mask |
//!
//! Invariants: a [`Kernel`] value exists only where its instructions do, so its methods are safe to
//! call; every kernel produces the bytes of `scalar`; any length and any alignment will do.

use crate::bits::BitMatrix;
use crate::field;
use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni256;
#[cfg(target_arch = "x86_64")]
mod gfni512;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod ssse3;

/// Destination bytes that are finished before the next are begun: small enough that the tile itself
/// stays in a 32 KiB first-level cache beside the sources streaming through, large enough to
/// amortise the loop around it.
pub const TILE_BYTES: usize = 8 * 1024;

/// Sources that one pass over a tile combines: 4 measured 10 % faster than 2, since it rewrites the
/// tile least often.
const GROUP: usize = 4;

/// The environment variable that overrides the choice of [`Kernel::best`].
pub const KERNEL_VARIABLE: &str = "SUTURE_KERNEL";

/// dst = (0 or dst) + sum of factor_i * source_i[at .. at + dst.len()], for at most [`GROUP`]
/// sources.
///
/// # Safety
/// The processor must have the instruction set that the implementation is named for.
type Combine =
    unsafe fn(dst: &mut [u8], factors: &[Factor], sources: &[&[u8]], at: usize, begin: Begin);

/// What a sum begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Zero,
    Destination,
}

/// One way to do the arithmetic: an instruction set that this machine has.
pub struct Kernel {
    name: &'static str,
    supported: fn() -> bool,
    combine: Combine,
}

/// Every kernel of this build, slowest first, whether or not this machine can run it.
static KERNELS: &[Kernel] = &[
    Kernel { name: "scalar", supported: || true, combine: scalar::combine },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "ssse3", supported: ssse3::supported, combine: ssse3::combine },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "avx2", supported: avx2::supported, combine: avx2::combine },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "gfni256", supported: gfni256::supported, combine: gfni256::combine },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "gfni512", supported: gfni512::supported, combine: gfni512::combine },
];

impl Kernel {
    /// The kernels that this machine can run, slowest first. The first is always `scalar`.
    pub fn available() -> impl DoubleEndedIterator<Item = &'static Kernel> {
        KERNELS.iter().filter(|kernel| (kernel.supported)())
    }

    /// The kernel of that name, if this machine can run it.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Kernel> {
        Kernel::available().find(|kernel| kernel.name == name)
    }

    /// The kernel that the free functions use: the fastest, or the one named in `SUTURE_KERNEL`.
    /// Chosen once.
    ///
    /// # Panics
    /// When `SUTURE_KERNEL` names no kernel that this machine can run. Falling back would make a
    /// test that forces a kernel pass without having tried it.
    #[must_use]
    pub fn best() -> &'static Kernel {
        static BEST: OnceLock<&'static Kernel> = OnceLock::new();
        BEST.get_or_init(|| match std::env::var_os(KERNEL_VARIABLE) {
            Some(name) => choose(&name.to_string_lossy()),
            None => Kernel::available().next_back().expect("scalar is always available"),
        })
    }

    /// The name, as `SUTURE_KERNEL` spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// dst = sum of coefficient_i * source_i. Without sources: zeros.
    ///
    /// # Panics
    /// When there are not as many sources as coefficients, or a length differs from the
    /// destination's.
    pub fn dot(&self, dst: &mut [u8], coefficients: &Coefficients, sources: &[&[u8]]) {
        if sources.is_empty() {
            dst.fill(0);
        }
        self.sum(dst, &coefficients.factors, sources, Begin::Zero);
    }

    /// dst += sum of coefficient_i * source_i.
    ///
    /// # Panics
    /// As [`Kernel::dot`].
    pub fn dot_add(&self, dst: &mut [u8], coefficients: &Coefficients, sources: &[&[u8]]) {
        self.sum(dst, &coefficients.factors, sources, Begin::Destination);
    }

    /// dst += coefficient * source.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn mul_add(&self, dst: &mut [u8], coefficient: u8, source: &[u8]) {
        self.sum(dst, &FACTORS[coefficient as usize..][..1], &[source], Begin::Destination);
    }

    /// dst += source, which is exclusive or.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn xor(&self, dst: &mut [u8], source: &[u8]) {
        self.mul_add(dst, 1, source);
    }

    fn sum(&self, dst: &mut [u8], factors: &[Factor], sources: &[&[u8]], begin: Begin) {
        assert_eq!(factors.len(), sources.len(), "as many sources as coefficients");
        for source in sources {
            assert_eq!(source.len(), dst.len(), "sources are as long as the destination");
        }
        for (index, tile) in dst.chunks_mut(TILE_BYTES).enumerate() {
            let mut begin = begin;
            for (factors, sources) in factors.chunks(GROUP).zip(sources.chunks(GROUP)) {
                // SAFETY: a `Kernel` is reachable only through `available`, which has asked the
                // processor.
                unsafe { (self.combine)(tile, factors, sources, index * TILE_BYTES, begin) };
                begin = Begin::Destination;
            }
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

fn choose(name: &str) -> &'static Kernel {
    Kernel::named(name).unwrap_or_else(|| {
        let names: Vec<_> = Kernel::available().map(Kernel::name).collect();
        panic!(
            "{KERNEL_VARIABLE}={name:?} names no kernel of this machine; it has {}",
            names.join(", ")
        )
    })
}

/// [`Kernel::dot`] with the best kernel.
///
/// # Panics
/// When there are not as many sources as coefficients, or a length differs from the destination's.
pub fn dot(dst: &mut [u8], coefficients: &Coefficients, sources: &[&[u8]]) {
    Kernel::best().dot(dst, coefficients, sources);
}

/// [`Kernel::dot_add`] with the best kernel.
///
/// # Panics
/// As [`dot`].
pub fn dot_add(dst: &mut [u8], coefficients: &Coefficients, sources: &[&[u8]]) {
    Kernel::best().dot_add(dst, coefficients, sources);
}

/// [`Kernel::mul_add`] with the best kernel.
///
/// # Panics
/// When the lengths differ.
pub fn mul_add(dst: &mut [u8], coefficient: u8, source: &[u8]) {
    Kernel::best().mul_add(dst, coefficient, source);
}

/// [`Kernel::xor`] with the best kernel.
///
/// # Panics
/// When the lengths differ.
pub fn xor(dst: &mut [u8], source: &[u8]) {
    Kernel::best().xor(dst, source);
}

/// The coefficients of a sum, with the tables that the kernels read; made once per plan, used for
/// every slice.
#[derive(Clone)]
pub struct Coefficients {
    factors: Vec<Factor>,
}

impl Coefficients {
    /// Prepares the tables: 48 bytes a coefficient, copied so that a sum's tables lie side by side.
    #[must_use]
    pub fn new(coefficients: &[u8]) -> Coefficients {
        Coefficients {
            factors: coefficients
                .iter()
                .map(|&coefficient| FACTORS[coefficient as usize])
                .collect(),
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
        self.factors.iter().map(|factor| factor.coefficient)
    }
}

impl fmt::Debug for Coefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A coefficient in the form each instruction set wants.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "scalar reads no tables"))]
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Factor {
    /// Products with 0..=15: what a shuffle looks the low half of a byte up in.
    low_products: [u8; 16],
    /// Products with the multiples of 16: the same for the high half.
    high_products: [u8; 16],
    /// The multiplication as an 8x8 bit matrix, in the byte order of GF2P8AFFINEQB.
    affine: u64,
    coefficient: u8,
}

static FACTORS: [Factor; 256] = factor_table();

const fn factor_table() -> [Factor; 256] {
    let mut table = [factor(0); 256];
    let mut coefficient = 1;
    while coefficient < 256 {
        table[coefficient] = factor(coefficient as u8);
        coefficient += 1;
    }
    table
}

const fn factor(coefficient: u8) -> Factor {
    let mut low_products = [0; 16];
    let mut high_products = [0; 16];
    let mut half = 0;
    while half < 16 {
        low_products[half] = field::mul(coefficient, half as u8);
        high_products[half] = field::mul(coefficient, (half as u8) << 4);
        half += 1;
    }
    // The instruction keeps the row of output bit i in byte 7 - i, that is: row 0 first,
    // big-endian.
    let affine = u64::from_be_bytes(BitMatrix::of_coefficient(coefficient).row_masks());
    Factor { low_products, high_products, affine, coefficient }
}
