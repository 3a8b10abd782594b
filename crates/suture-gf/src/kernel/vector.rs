//! Loops over buffers, written once for all instruction sets.
//!
//! Place: ... kernel chosen -> [its loops over bytes] -> sums ...
//! An instruction set is a [`Vector`]: a register of bytes and what can be done to it. The loops
//! are generic over it and always inlined, so that each becomes part of a function which the
//! compiler builds for that instruction set; `kernel!` makes those functions.
//!
//! A sum into one output knows the number of its sources when compiled, so its tables stay in
//! registers: at 1 KiB that is worth a quarter of the speed. Sums into several outputs are bound by
//! arithmetic; they read each source once for all outputs.
//!
//! Invariants: a whole vector is loaded or stored only inside the range that a job names; the rest
//! goes through `load_some` and `store_some`, which touch no byte past it.

#![expect(clippy::needless_range_loop, reason = "an index names the same vector in several arrays")]

use super::table::Factor;
use super::{Begin, PrefixSums, Products};
use std::ops::Range;

/// A register of bytes, and the arithmetic of one instruction set.
///
/// # Safety
/// Methods may be called only where the processor has the instructions. `load` and `store` access
/// `BYTES` bytes at any alignment; `load_some` and `store_some` access `count`, fewer than `BYTES`.
pub(super) trait Vector: Copy {
    /// Bytes in a register, at most 64.
    const BYTES: usize;
    /// A factor, ready to be applied.
    type Map: Copy;
    /// A register, ready for several maps.
    type Split: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(at: *const u8) -> Self;
    unsafe fn store(self, at: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn map(factor: &Factor) -> Self::Map;
    unsafe fn split(self) -> Self::Split;
    unsafe fn image(split: Self::Split, map: Self::Map) -> Self;

    /// The first bytes of a register; the others are zero.
    #[inline(always)]
    unsafe fn load_some(at: *const u8, count: usize) -> Self {
        let mut bytes = [0; 64];
        // SAFETY: the caller grants `count` bytes; a register holds at most 64.
        unsafe {
            std::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), count);
            Self::load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_some(self, at: *mut u8, count: usize) {
        let mut bytes = [0; 64];
        // SAFETY: the caller grants `count` bytes; a register holds at most 64.
        unsafe {
            self.store(bytes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, count);
        }
    }
}

/// A vector whose every map is the identity: for sums whose coefficients are all one.
#[derive(Clone, Copy)]
pub(super) struct Plain<V>(V);

impl<V: Vector> Vector for Plain<V> {
    const BYTES: usize = V::BYTES;
    type Map = ();
    type Split = Self;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the same contract.
        Plain(unsafe { V::zero() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the same contract.
        Plain(unsafe { V::load(at) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the same contract.
        unsafe { self.0.store(at) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the same contract.
        Plain(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn map(_: &Factor) {}

    #[inline(always)]
    unsafe fn split(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn image(split: Self, (): ()) -> Self {
        split
    }

    #[inline(always)]
    unsafe fn load_some(at: *const u8, count: usize) -> Self {
        // SAFETY: the same contract.
        Plain(unsafe { V::load_some(at, count) })
    }

    #[inline(always)]
    unsafe fn store_some(self, at: *mut u8, count: usize) {
        // SAFETY: the same contract.
        unsafe { self.0.store_some(at, count) }
    }
}

/// What a loop does with some consecutive vectors of all its buffers.
trait Step<V: Vector> {
    /// Works on `UNROLL` vectors from `at` on; on the first `count` bytes of one if not `WHOLE`.
    ///
    /// # Safety
    /// Those bytes must lie inside every buffer, and the processor must have the instructions.
    unsafe fn run<const UNROLL: usize, const WHOLE: bool>(&self, at: usize, count: usize);
}

/// Takes a step through a range: several vectors at a time, then one, then what is left.
#[inline(always)]
unsafe fn walk<V: Vector, const UNROLL: usize>(range: Range<usize>, step: impl Step<V>) {
    let mut at = range.start;
    // SAFETY: the conditions keep every step inside the range; the rest is the caller's contract.
    unsafe {
        while range.end - at >= UNROLL * V::BYTES {
            step.run::<UNROLL, true>(at, 0);
            at += UNROLL * V::BYTES;
        }
        while range.end - at >= V::BYTES {
            step.run::<1, true>(at, 0);
            at += V::BYTES;
        }
        if at < range.end {
            step.run::<1, false>(at, range.end - at);
        }
    }
}

#[inline(always)]
unsafe fn fetch<V: Vector, const WHOLE: bool>(at: *const u8, count: usize) -> V {
    // SAFETY: the same contract.
    unsafe { if WHOLE { V::load(at) } else { V::load_some(at, count) } }
}

#[inline(always)]
unsafe fn put<V: Vector, const WHOLE: bool>(vector: V, at: *mut u8, count: usize) {
    // SAFETY: the same contract.
    unsafe { if WHOLE { vector.store(at) } else { vector.store_some(at, count) } }
}

/// Runs a job: `ONE` vectors at a time into one output, `MANY` into several.
///
/// # Safety
/// The processor must have the instructions, every buffer must reach the end of the range, and
/// every output must have a factor for every source.
#[inline(always)]
pub(super) unsafe fn products<V: Vector, const ONE: usize, const MANY: usize>(
    job: Products<'_, '_>,
) {
    // SAFETY: the same contract; each arm takes the number of outputs and sources that it matched.
    unsafe {
        match (job.outputs.len(), job.sources.len()) {
            (1, 1) => OneOutput::<V, 1>::walk::<ONE>(job),
            (1, 2) => OneOutput::<V, 2>::walk::<ONE>(job),
            (1, 3) => OneOutput::<V, 3>::walk::<ONE>(job),
            (1, 4) => OneOutput::<V, 4>::walk::<ONE>(job),
            (1, 5) => OneOutput::<V, 5>::walk::<ONE>(job),
            (1, 6) => OneOutput::<V, 6>::walk::<ONE>(job),
            (1, 7) => OneOutput::<V, 7>::walk::<ONE>(job),
            (1, 8) => OneOutput::<V, 8>::walk::<ONE>(job),
            (1, 9) => OneOutput::<V, 9>::walk::<ONE>(job),
            (1, 10) => OneOutput::<V, 10>::walk::<ONE>(job),
            (2, _) => ManyOutputs::<2>::walk::<V, MANY>(job),
            (3, _) => ManyOutputs::<3>::walk::<V, MANY>(job),
            (4, _) => ManyOutputs::<4>::walk::<V, MANY>(job),
            (outputs, sources) => unreachable!("{outputs} outputs of {sources} sources in a pass"),
        }
    }
}

struct OneOutput<V: Vector, const SOURCES: usize> {
    output: *mut u8,
    maps: [V::Map; SOURCES],
    sources: [*const u8; SOURCES],
    begin: Begin,
}

impl<V: Vector, const SOURCES: usize> OneOutput<V, SOURCES> {
    #[inline(always)]
    unsafe fn walk<const UNROLL: usize>(job: Products<'_, '_>) {
        let factors = job.factors[0];
        // SAFETY: the caller's contract grants the instructions and the range.
        unsafe {
            let mut maps = [V::map(&factors[0]); SOURCES];
            let mut sources = [job.sources[0].as_ptr(); SOURCES];
            for i in 1..SOURCES {
                maps[i] = V::map(&factors[i]);
                sources[i] = job.sources[i].as_ptr();
            }
            let output = job.outputs[0].as_mut_ptr();
            walk::<V, UNROLL>(job.range, OneOutput { output, maps, sources, begin: job.begin });
        }
    }
}

impl<V: Vector, const SOURCES: usize> Step<V> for OneOutput<V, SOURCES> {
    #[inline(always)]
    unsafe fn run<const UNROLL: usize, const WHOLE: bool>(&self, at: usize, count: usize) {
        // SAFETY: the same contract.
        unsafe {
            let mut sums = [V::zero(); UNROLL];
            if self.begin == Begin::Destination {
                for u in 0..UNROLL {
                    sums[u] = fetch::<V, WHOLE>(self.output.add(at + u * V::BYTES), count);
                }
            }
            for i in 0..SOURCES {
                for u in 0..UNROLL {
                    let source = self.sources[i].add(at + u * V::BYTES);
                    let bytes = fetch::<V, WHOLE>(source, count).split();
                    sums[u] = sums[u].xor(V::image(bytes, self.maps[i]));
                }
            }
            for u in 0..UNROLL {
                put::<V, WHOLE>(sums[u], self.output.add(at + u * V::BYTES), count);
            }
        }
    }
}

struct ManyOutputs<'j, const OUTPUTS: usize> {
    outputs: [*mut u8; OUTPUTS],
    factors: [*const Factor; OUTPUTS],
    sources: &'j [&'j [u8]],
    begin: Begin,
}

impl<'j, const OUTPUTS: usize> ManyOutputs<'j, OUTPUTS> {
    #[inline(always)]
    unsafe fn walk<V: Vector, const UNROLL: usize>(job: Products<'j, '_>) {
        let mut step = ManyOutputs {
            outputs: [std::ptr::null_mut(); OUTPUTS],
            factors: [std::ptr::null(); OUTPUTS],
            sources: job.sources,
            begin: job.begin,
        };
        for o in 0..OUTPUTS {
            step.outputs[o] = job.outputs[o].as_mut_ptr();
            step.factors[o] = job.factors[o].as_ptr();
        }
        // SAFETY: the caller's contract grants the instructions and the range.
        unsafe { walk::<V, UNROLL>(job.range, step) }
    }

    /// Adds the images of some vectors of one source to the sums of all outputs.
    #[inline(always)]
    unsafe fn add<V: Vector, const UNROLL: usize, const WHOLE: bool>(
        &self,
        sums: &mut [[V; UNROLL]; OUTPUTS],
        source: usize,
        place: (usize, usize),
    ) {
        let (at, count) = place;
        // SAFETY: the same contract; `source` is below the number of sources.
        unsafe {
            let start = self.sources.get_unchecked(source).as_ptr().add(at);
            let mut bytes = [V::zero().split(); UNROLL];
            for u in 0..UNROLL {
                bytes[u] = fetch::<V, WHOLE>(start.add(u * V::BYTES), count).split();
            }
            for o in 0..OUTPUTS {
                let map = V::map(&*self.factors[o].add(source));
                for u in 0..UNROLL {
                    sums[o][u] = sums[o][u].xor(V::image(bytes[u], map));
                }
            }
        }
    }
}

impl<V: Vector, const OUTPUTS: usize> Step<V> for ManyOutputs<'_, OUTPUTS> {
    #[inline(always)]
    unsafe fn run<const UNROLL: usize, const WHOLE: bool>(&self, at: usize, count: usize) {
        // SAFETY: the same contract.
        unsafe {
            let mut sums = [[V::zero(); UNROLL]; OUTPUTS];
            if self.begin == Begin::Destination {
                for o in 0..OUTPUTS {
                    for u in 0..UNROLL {
                        let output = self.outputs[o].add(at + u * V::BYTES);
                        sums[o][u] = fetch::<V, WHOLE>(output, count);
                    }
                }
            }
            // Two at a time, so that a three-way exclusive or can add both images.
            let pairs = self.sources.len() / 2;
            for pair in 0..pairs {
                self.add::<V, UNROLL, WHOLE>(&mut sums, 2 * pair, (at, count));
                self.add::<V, UNROLL, WHOLE>(&mut sums, 2 * pair + 1, (at, count));
            }
            if 2 * pairs < self.sources.len() {
                self.add::<V, UNROLL, WHOLE>(&mut sums, 2 * pairs, (at, count));
            }
            for o in 0..OUTPUTS {
                for u in 0..UNROLL {
                    put::<V, WHOLE>(sums[o][u], self.outputs[o].add(at + u * V::BYTES), count);
                }
            }
        }
    }
}

/// Runs a job of prefix sums.
///
/// # Safety
/// The processor must have the instructions, every buffer must reach the end of the range, and the
/// ends must ascend to at most the number of sources, one for each output.
#[inline(always)]
pub(super) unsafe fn prefix_sums<V: Vector, const UNROLL: usize>(job: PrefixSums<'_, '_>) {
    let range = job.range.clone();
    let outputs = job.outputs.as_mut_ptr();
    let step = Prefixes { outputs, ends: job.ends, sources: job.sources };
    // SAFETY: the same contract.
    unsafe { walk::<V, UNROLL>(range, step) }
}

struct Prefixes<'j, 'b> {
    outputs: *mut &'b mut [u8],
    ends: &'j [usize],
    sources: &'j [&'j [u8]],
}

impl<V: Vector> Step<V> for Prefixes<'_, '_> {
    #[inline(always)]
    unsafe fn run<const UNROLL: usize, const WHOLE: bool>(&self, at: usize, count: usize) {
        // SAFETY: the same contract; the ends are at most the number of sources, and there are as
        // many as outputs.
        unsafe {
            let mut sums = [V::zero(); UNROLL];
            let mut next = 0;
            for (o, &end) in self.ends.iter().enumerate() {
                for source in next..end {
                    let source = self.sources.get_unchecked(source).as_ptr().add(at);
                    for u in 0..UNROLL {
                        sums[u] = sums[u].xor(fetch::<V, WHOLE>(source.add(u * V::BYTES), count));
                    }
                }
                next = end;
                let output = (*self.outputs.add(o)).as_mut_ptr().add(at);
                for u in 0..UNROLL {
                    put::<V, WHOLE>(sums[u], output.add(u * V::BYTES), count);
                }
            }
        }
    }
}
