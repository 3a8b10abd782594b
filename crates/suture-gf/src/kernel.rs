//! Kernels: sums of products over buffers, one implementation per instruction set.
//!
//! Place: ... program run -> [the sums, by the best instructions there are] -> bytes ...
//! The work is memory traffic, not arithmetic: one output of k sources touches k + 1 bytes per byte
//! produced. So the outputs are cut into tiles that stay in the first-level cache, and each pass
//! over a tile takes as many sources as the processor can stream at once. One source at a time
//! would rewrite the destination too often; non-temporal stores never helped.
//!
//! | file | instructions | how a byte is mapped |
//! |---|---|---|
//! | `scalar` | none | 8 bytes in a word, a column of the map for each bit |
//! | `ssse3` | SSSE3 | two 16-byte lookups, 16 bytes at a time |
//! | `avx2` | AVX2 | the same, 32 at a time |
//! | `gfni256` | AVX2 + GFNI | one 8x8 bit-matrix product, 32 at a time |
//! | `gfni512` | AVX-512 + GFNI | the same, 64 at a time, any tail by mask |
//! | `neon` | NEON | two 16-byte lookups, 16 bytes at a time |
//!
//! `table` prepares coefficients, `vector` holds the loops over bytes, `planes` those over bit
//! planes; all instruction sets share them.
//!
//! Invariants: a [`Kernel`] value exists only where its instructions do, so its methods are safe to
//! call; every kernel produces the same bytes; any length and any alignment will do.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use table::{Factor, ONES};

/// Makes `KERNEL` of an instruction set: the loops of `vector` and `planes`, built for it. The
/// numbers of vectors are how many each loop has in flight, as measured; `block` of them hold 64
/// symbols.
macro_rules! kernel {
    (
        name: $name:literal,
        register: $register:ty,
        $(features: $features:literal,)?
        supported: $supported:expr,
        vectors: {
            one: $one:literal,
            many: $many:literal,
            prefixes: $prefixes:literal,
            rebuild: $rebuild:literal,
            block: $block:literal
        },
    ) => {
        pub(super) static KERNEL: super::Kernel = super::Kernel {
            name: $name,
            supported: || $supported,
            products: {
                $(#[target_feature(enable = $features)])?
                unsafe fn products(job: super::Products<'_, '_>) {
                    // SAFETY: the same contract.
                    unsafe { super::vector::products::<$register, $one, $many>(job) }
                }
                products
            },
            plain_sums: {
                $(#[target_feature(enable = $features)])?
                unsafe fn plain_sums(job: super::Products<'_, '_>) {
                    type Plain = super::vector::Plain<$register>;
                    // SAFETY: the same contract.
                    unsafe { super::vector::products::<Plain, 4, 4>(job) }
                }
                plain_sums
            },
            prefix_sums: {
                $(#[target_feature(enable = $features)])?
                unsafe fn prefix_sums(job: super::PrefixSums<'_, '_>) {
                    // SAFETY: the same contract.
                    unsafe { super::vector::prefix_sums::<$register, $prefixes>(job) }
                }
                prefix_sums
            },
            extract: {
                $(#[target_feature(enable = $features)])?
                unsafe fn extract(job: super::planes::Extract<'_>) {
                    // SAFETY: the same contract.
                    unsafe { super::planes::extract::<$register>(job) }
                }
                extract
            },
            rebuild: {
                $(#[target_feature(enable = $features)])?
                unsafe fn rebuild(job: super::planes::Rebuild<'_>) {
                    // SAFETY: the same contract.
                    unsafe { super::planes::rebuild::<$register, $rebuild, $block>(job) }
                }
                rebuild
            },
        };
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni256;
#[cfg(target_arch = "x86_64")]
mod gfni512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod planes;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod table;
mod vector;

pub use planes::Maps;
pub use table::Coefficients;

/// Bytes of each output that are finished before the next are begun: small enough that the tile
/// itself stays in a 32 KiB first-level cache beside the sources streaming through, large enough to
/// amortise the loop around it.
pub const TILE_BYTES: usize = 8 * 1024;

/// Outputs that one pass computes: their sums, times the vectors in flight, must fit the registers.
const OUTPUTS_MAX: usize = 4;

/// Sources that one pass into several outputs takes. It is bound by arithmetic, so this matters
/// only for very wide stripes, whose streams no prefetcher follows.
const SOURCES_MANY: usize = 16;

/// The environment variable that overrides the choice of [`Kernel::best`].
pub const KERNEL_VARIABLE: &str = "SUTURE_KERNEL";

/// Sources that one pass into one output takes. Intel's cores (Granite Rapids) follow ten streams
/// as easily as four and gain from rewriting the tile less often: 5 % at 64 KiB, 20 % at 1 KiB.
/// AMD's (Zen 5) fall from 164 to 108 GB/s when six streams replace passes of four, so four it is
/// elsewhere.
fn sources_one() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        static SOURCES: OnceLock<usize> = OnceLock::new();
        *SOURCES.get_or_init(|| {
            let vendor = std::arch::x86_64::__cpuid(0);
            let intel = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
            if intel.concat() == b"GenuineIntel" { 10 } else { 4 }
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    4
}

/// One pass: outputs = (0 or outputs) + sums of factor * source, in the same range of all buffers.
///
/// The functions that run it are unsafe because the processor must have their instructions, all
/// buffers must reach the end of the range, and the factors must be one per output and source.
struct Products<'j, 'b> {
    outputs: &'j mut [&'b mut [u8]],
    factors: &'j [&'j [Factor]],
    sources: &'j [&'j [u8]],
    range: Range<usize>,
    begin: Begin,
}

/// One pass: output i = sum of the first `ends[i]` sources. Unsafe to run as [`Products`] is; the
/// ends must ascend to at most the number of sources.
struct PrefixSums<'j, 'b> {
    outputs: &'j mut [&'b mut [u8]],
    ends: &'j [usize],
    sources: &'j [&'j [u8]],
    range: Range<usize>,
}

/// A way to run one pass.
type Run = unsafe fn(Products<'_, '_>);

/// What a sum begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Zero,
    Destination,
}

/// The same rows of all buffers of an operation: `count` times `bytes`, every `stride` bytes, from
/// the beginning of each buffer. The sub-chunks of a code lie like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many rows there are.
    pub count: usize,
    /// Bytes of one row.
    pub bytes: usize,
    /// From the beginning of one row to that of the next; at least `bytes`.
    pub stride: usize,
}

impl Rows {
    fn whole(bytes: usize) -> Rows {
        Rows { count: 1, bytes, stride: bytes }
    }

    fn check(self, lengths: impl IntoIterator<Item = usize>) {
        assert!(self.bytes <= self.stride, "rows of {self:?} overlap");
        let end = match self.count {
            0 => 0,
            // Saturating, so that absurd rows are refused and not wrapped into the buffer.
            count => (count - 1).saturating_mul(self.stride).saturating_add(self.bytes),
        };
        for length in lengths {
            assert!(end <= length, "a buffer of {length} bytes ends before {self:?}");
        }
    }

    fn for_each_tile(self, mut act: impl FnMut(Range<usize>)) {
        for row in 0..self.count {
            let (mut at, end) = (row * self.stride, row * self.stride + self.bytes);
            while at < end {
                let tile = at..end.min(at + TILE_BYTES);
                at = tile.end;
                act(tile);
            }
        }
    }
}

/// One way to do the arithmetic: an instruction set that this machine has.
pub struct Kernel {
    name: &'static str,
    supported: fn() -> bool,
    products: Run,
    /// The same for factors that are all one.
    plain_sums: Run,
    prefix_sums: unsafe fn(PrefixSums<'_, '_>),
    extract: unsafe fn(planes::Extract<'_>),
    rebuild: unsafe fn(planes::Rebuild<'_>),
}

/// Every kernel of this build, slowest first, whether or not this machine can run it.
static KERNELS: &[&Kernel] = &[
    &scalar::KERNEL,
    #[cfg(target_arch = "aarch64")]
    &neon::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &ssse3::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &avx2::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &gfni256::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &gfni512::KERNEL,
];

impl Kernel {
    /// The kernels that this machine can run, slowest first. The first is always `scalar`.
    pub fn available() -> impl DoubleEndedIterator<Item = &'static Kernel> {
        KERNELS.iter().copied().filter(|kernel| (kernel.supported)())
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
        self.sum(&mut [dst], std::slice::from_ref(coefficients), sources, Begin::Zero);
    }

    /// dst += sum of coefficient_i * source_i.
    ///
    /// # Panics
    /// As [`Kernel::dot`].
    pub fn dot_add(&self, dst: &mut [u8], coefficients: &Coefficients, sources: &[&[u8]]) {
        self.sum(&mut [dst], std::slice::from_ref(coefficients), sources, Begin::Destination);
    }

    /// dst_i = sum of coefficient_ij * source_j, reading each source once for four outputs.
    ///
    /// # Panics
    /// When the coefficients are not as many as outputs and sources, or lengths differ.
    pub fn dot_many(&self, dsts: &mut [&mut [u8]], rows: &[Coefficients], sources: &[&[u8]]) {
        self.sum(dsts, rows, sources, Begin::Zero);
    }

    /// dst_i += sum of coefficient_ij * source_j.
    ///
    /// # Panics
    /// As [`Kernel::dot_many`].
    pub fn dot_many_add(&self, dsts: &mut [&mut [u8]], rows: &[Coefficients], sources: &[&[u8]]) {
        self.sum(dsts, rows, sources, Begin::Destination);
    }

    /// [`Kernel::dot_many`] on many short rows of longer buffers; the bytes between them are left
    /// alone.
    ///
    /// # Panics
    /// When the coefficients are not as many as outputs and sources, or a buffer ends before the
    /// last row does.
    pub fn dot_rows(
        &self,
        dsts: &mut [&mut [u8]],
        coefficients: &[Coefficients],
        sources: &[&[u8]],
        rows: Rows,
    ) {
        rows.check(dsts.iter().map(|dst| dst.len()).chain(sources.iter().map(|s| s.len())));
        self.sum_rows(dsts, coefficients, sources, rows, Begin::Zero);
    }

    /// dst += coefficient * source.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn mul_add(&self, dst: &mut [u8], coefficient: u8, source: &[u8]) {
        assert_eq!(source.len(), dst.len(), "sources are as long as the destination");
        let factors = std::slice::from_ref(Factor::of(coefficient));
        let run = if coefficient == 1 { self.plain_sums } else { self.products };
        Rows::whole(dst.len()).for_each_tile(|range| {
            passes(run, &mut [dst], &[factors], &[source], range, Begin::Destination);
        });
    }

    /// dst += source, which is exclusive or.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn xor(&self, dst: &mut [u8], source: &[u8]) {
        self.mul_add(dst, 1, source);
    }

    /// dst = sum of the sources, which is exclusive or. Without sources: zeros.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn xor_sum(&self, dst: &mut [u8], sources: &[&[u8]]) {
        let bytes = check_lengths(&[&mut *dst], sources);
        if sources.is_empty() {
            dst.fill(0);
        }
        Rows::whole(bytes).for_each_tile(|range| {
            let mut begin = Begin::Zero;
            for sources in sources.chunks(ONES.len()) {
                let ones = &[&ONES[..sources.len()]];
                passes(self.plain_sums, &mut [dst], ones, sources, range.clone(), begin);
                begin = Begin::Destination;
            }
        });
    }

    /// dst_i = sum of the first `ends[i]` sources: several exclusive ors in one pass over the
    /// sources.
    ///
    /// # Panics
    /// When the ends are not as many as the outputs or descend or pass the last source, or the
    /// lengths differ.
    pub fn xor_prefix_sums(&self, dsts: &mut [&mut [u8]], ends: &[usize], sources: &[&[u8]]) {
        assert_eq!(ends.len(), dsts.len(), "as many ends as outputs");
        assert!(ends.is_sorted(), "prefixes ascend, not {ends:?}");
        assert!(ends.last().is_none_or(|&end| end <= sources.len()), "a prefix has sources");
        let bytes = check_lengths(dsts, sources);
        // SAFETY: `available` asked the processor; lengths and ends were just checked.
        unsafe { (self.prefix_sums)(PrefixSums { outputs: dsts, ends, sources, range: 0..bytes }) };
    }

    fn sum(
        &self,
        dsts: &mut [&mut [u8]],
        coefficients: &[Coefficients],
        sources: &[&[u8]],
        begin: Begin,
    ) {
        let rows = Rows::whole(check_lengths(dsts, sources));
        self.sum_rows(dsts, coefficients, sources, rows, begin);
    }

    /// Sums in rows that all buffers were checked to have.
    fn sum_rows(
        &self,
        dsts: &mut [&mut [u8]],
        coefficients: &[Coefficients],
        sources: &[&[u8]],
        rows: Rows,
        begin: Begin,
    ) {
        assert_eq!(coefficients.len(), dsts.len(), "as many rows of coefficients as outputs");
        for row in coefficients {
            assert_eq!(row.len(), sources.len(), "as many sources as coefficients");
        }
        if let [row] = coefficients {
            let run = if row.is_plain() { self.plain_sums } else { self.products };
            return rows.for_each_tile(|range| {
                passes(run, dsts, &[row.factors()], sources, range, begin);
            });
        }
        rows.for_each_tile(|range| {
            let groups = dsts.chunks_mut(OUTPUTS_MAX).zip(coefficients.chunks(OUTPUTS_MAX));
            for (dsts, coefficients) in groups {
                let mut factors = [&[][..]; OUTPUTS_MAX];
                for (factors, row) in factors.iter_mut().zip(coefficients) {
                    *factors = row.factors();
                }
                let factors = &factors[..dsts.len()];
                passes(self.products, dsts, factors, sources, range.clone(), begin);
            }
        });
    }
}

/// Computes one tile of up to `OUTPUTS_MAX` outputs, a few sources at a time. The kernel that `run`
/// is of and the lengths of everything were checked before.
fn passes(
    run: Run,
    outputs: &mut [&mut [u8]],
    factors: &[&[Factor]],
    sources: &[&[u8]],
    range: Range<usize>,
    mut begin: Begin,
) {
    let sources_max = if outputs.len() == 1 { sources_one() } else { SOURCES_MANY };
    if (1..=sources_max).contains(&sources.len()) {
        // SAFETY: `available` asked the processor, and the callers checked lengths and factors.
        return unsafe { run(Products { outputs, factors, sources, range, begin }) };
    }
    if sources.is_empty() && begin == Begin::Zero {
        outputs.iter_mut().for_each(|output| output[range.clone()].fill(0));
    }
    // Passes of equal size: one for a last single source would cost as much as one for several.
    let pass = sources.len().div_ceil(sources.len().div_ceil(sources_max).max(1)).max(1);
    for (index, sources) in sources.chunks(pass).enumerate() {
        let mut rows = [&[][..]; OUTPUTS_MAX];
        for (row, factors) in rows.iter_mut().zip(factors) {
            *row = &factors[index * pass..][..sources.len()];
        }
        let (factors, range) = (&rows[..factors.len()], range.clone());
        // SAFETY: `available` asked the processor, and the callers checked lengths and factors.
        unsafe { run(Products { outputs, factors, sources, range, begin }) };
        begin = Begin::Destination;
    }
}

/// The length that all buffers have; zero, whatever the sources, when nothing is to be computed.
fn check_lengths(dsts: &[&mut [u8]], sources: &[&[u8]]) -> usize {
    let Some(bytes) = dsts.first().map(|dst| dst.len()) else { return 0 };
    assert!(dsts.iter().all(|dst| dst.len() == bytes), "outputs are of the same length");
    for source in sources {
        assert_eq!(source.len(), bytes, "sources are as long as the destination");
    }
    bytes
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

/// [`Kernel::dot_many`] with the best kernel.
///
/// # Panics
/// When the coefficients are not as many as outputs and sources, or lengths differ.
pub fn dot_many(dsts: &mut [&mut [u8]], rows: &[Coefficients], sources: &[&[u8]]) {
    Kernel::best().dot_many(dsts, rows, sources);
}

/// [`Kernel::dot_many_add`] with the best kernel.
///
/// # Panics
/// As [`dot_many`].
pub fn dot_many_add(dsts: &mut [&mut [u8]], rows: &[Coefficients], sources: &[&[u8]]) {
    Kernel::best().dot_many_add(dsts, rows, sources);
}

/// [`Kernel::dot_rows`] with the best kernel.
///
/// # Panics
/// When the coefficients are not as many as outputs and sources, or a buffer ends before the last
/// row does.
pub fn dot_rows(
    dsts: &mut [&mut [u8]],
    coefficients: &[Coefficients],
    sources: &[&[u8]],
    rows: Rows,
) {
    Kernel::best().dot_rows(dsts, coefficients, sources, rows);
}

/// [`Kernel::map_sum`] with the best kernel: dst = sum of map_i(source_i).
///
/// # Panics
/// When there are not as many sources as maps, or a buffer has not the length that
/// [`buffer_bytes`](crate::bits::buffer_bytes) gives.
pub fn map_sum(dst: &mut [u8], maps: &Maps, sources: &[&[u8]], symbols: usize) {
    Kernel::best().map_sum(dst, maps, sources, symbols);
}

/// [`Kernel::map_sum_add`] with the best kernel: dst += sum of map_i(source_i).
///
/// # Panics
/// As [`map_sum`].
pub fn map_sum_add(dst: &mut [u8], maps: &Maps, sources: &[&[u8]], symbols: usize) {
    Kernel::best().map_sum_add(dst, maps, sources, symbols);
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

/// [`Kernel::xor_sum`] with the best kernel.
///
/// # Panics
/// When the lengths differ.
pub fn xor_sum(dst: &mut [u8], sources: &[&[u8]]) {
    Kernel::best().xor_sum(dst, sources);
}

/// [`Kernel::xor_prefix_sums`] with the best kernel.
///
/// # Panics
/// When the ends are not as many as the outputs or descend or pass the last source, or the lengths
/// differ.
pub fn xor_prefix_sums(dsts: &mut [&mut [u8]], ends: &[usize], sources: &[&[u8]]) {
    Kernel::best().xor_prefix_sums(dsts, ends, sources);
}
