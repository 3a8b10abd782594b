//! Bit planes: extracting the traces of a chunk, and summing maps of many helpers' traces.
//!
//! Place: ... kernel chosen -> [its loops over bit planes] -> traces and their sums ...
//! A helper of width w holds w planes for every 8 symbols. Mapping them one helper at a time would
//! cost two bit-matrix products each, mostly on empty planes. So a plan packs the planes of all
//! helpers densely into groups of 8, and each group takes one transposition and one 8x8 map: the 50
//! bits of `rs(10,4)` are 7 groups, not 13.
//!
//! Invariants: vectors work on whole groups of 64 symbols; what is left at the end, and the last
//! groups where a vector could reach past a buffer, goes through copies on the stack.

#![expect(clippy::needless_range_loop, reason = "an index names the same vector in several arrays")]

use super::table::Factor;
use super::vector::Vector;
use super::{Begin, Kernel, Products, TILE_BYTES};
use crate::bits::{self, BitMatrix, SYMBOLS_PER_PLANE_GROUP};

/// What the bit-plane loops need of an instruction set beyond [`Vector`]. A register holds symbols,
/// or packed planes: 8 planes of 8 symbols in every 8 bytes.
///
/// # Safety
/// As [`Vector`]. `spread` and `pack` access the planes of `Vector::BYTES` symbols and may go on
/// into those of the next `SLACK_SYMBOLS`, where what `pack` writes has no meaning.
/// `spread_exactly` and `pack_exactly` access only the former.
pub(super) trait Planes: Vector {
    const SLACK_SYMBOLS: usize;

    /// Puts the planes of one part between those of the others, where there were zeros.
    unsafe fn spread(self, at: *const u8, part: &PlaneRun) -> Self;
    /// Writes the first `width` planes of every 8.
    unsafe fn pack(self, at: *mut u8, width: usize);
    /// Packed planes, as `spread` orders them, to symbols.
    unsafe fn to_symbols(self) -> Self;
    /// Symbols to packed planes, the first plane first.
    unsafe fn to_planes(self) -> Self;

    /// The planes of a map of bytes, the first plane first.
    #[inline(always)]
    unsafe fn planes_of(bytes: Self, map: Self::Map) -> Self {
        // SAFETY: the same contract.
        unsafe { Self::image(bytes.split(), map).to_planes() }
    }

    /// `pack` of consecutive vectors.
    #[inline(always)]
    unsafe fn pack_run(vectors: [Self; PACK_RUN], at: *mut u8, width: usize) {
        for u in 0..PACK_RUN {
            // SAFETY: the same contract.
            unsafe { vectors[u].pack(at.add(u * Self::BYTES / 8 * width), width) }
        }
    }

    #[inline(always)]
    unsafe fn spread_exactly(self, at: *const u8, part: &PlaneRun) -> Self {
        let mut copy = [0; COPY_BYTES];
        let planes_bytes = Self::BYTES / 8 * part.width;
        // SAFETY: the caller grants the planes, and the copy has room for the slack.
        unsafe {
            std::ptr::copy_nonoverlapping(at, copy.as_mut_ptr(), planes_bytes);
            self.spread(copy.as_ptr(), part)
        }
    }

    #[inline(always)]
    unsafe fn pack_exactly(self, at: *mut u8, width: usize) {
        let mut copy = [0; COPY_BYTES];
        // SAFETY: the caller grants the planes, and the copy has room for the slack.
        unsafe {
            self.pack(copy.as_mut_ptr(), width);
            std::ptr::copy_nonoverlapping(copy.as_ptr(), at, Self::BYTES / 8 * width);
        }
    }
}

/// Vectors that are packed together: of 64 bytes each, their planes are whole lines at every width.
pub(super) const PACK_RUN: usize = 8;

/// The planes of one vector of at most 64 bytes, and 16 bytes of slack.
const COPY_BYTES: usize = 64 + 16;

/// Transposing 8x8 bits: exchange the off-diagonal bits of every 2x2 square, which lie 7 apart;
/// then the squares of every 4x4, 14 apart; then those of the whole, 28 apart. Of each pair, the
/// lower.
pub(super) const EXCHANGED_BY_7: u64 = 0x00aa_00aa_00aa_00aa;
pub(super) const EXCHANGED_BY_14: u64 = 0x0000_cccc_0000_cccc;
pub(super) const EXCHANGED_BY_28: u64 = 0x0000_0000_f0f0_f0f0;

/// Extracts the planes of a map of bytes.
pub(super) struct Extract<'j> {
    pub planes: &'j mut [u8],
    pub bytes: &'j [u8],
    pub map: &'j Factor,
    pub width: usize,
}

/// Sums maps of planes into the symbols from `at` on, a multiple of 64.
pub(super) struct Rebuild<'j> {
    pub output: &'j mut [u8],
    pub groups: &'j [Group],
    pub sources: &'j [&'j [u8]],
    pub at: usize,
    pub begin: Begin,
}

/// Up to 8 planes, from any sources, that one map takes at once.
#[derive(Clone, Debug)]
pub(super) struct Group {
    parts: Vec<PlaneRun>,
    map: Factor,
}

/// Consecutive planes of one source, and where a group wants them.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct PlaneRun {
    source: usize,
    /// Planes of the source.
    pub width: usize,
    /// Its planes before those of the part.
    pub skip: usize,
    /// Planes of the part.
    pub count: usize,
    /// Planes of the group before those of the part.
    pub shift: usize,
    /// For each byte of 2 times 8 packed planes, where it comes from; the top bit where it is not
    /// of this part. Shuffles write zero there.
    pub natural: [u8; 16],
    /// The same with the planes of every 8 in reverse, as GF2P8AFFINEQB wants its matrix, for 8
    /// times 8 planes.
    pub reversed: [u8; 64],
    /// The bytes of `reversed` that are of this part.
    pub reversed_mask: u64,
}

impl PlaneRun {
    fn new(source: usize, width: usize, skip: usize, count: usize, shift: usize) -> PlaneRun {
        let mut part = PlaneRun {
            source,
            width,
            skip,
            count,
            shift,
            natural: [0x80; 16],
            reversed: [0x80; 64],
            reversed_mask: 0,
        };
        for eight in 0..8 {
            for plane in 0..count {
                let from = (eight * width + skip + plane) as u8;
                if eight < 2 {
                    part.natural[8 * eight + shift + plane] = from;
                }
                let to = 8 * eight + 7 - (shift + plane);
                part.reversed[to] = from;
                part.reversed_mask |= 1 << to;
            }
        }
        part
    }
}

/// For each width, which byte of the packed planes is byte i of the written ones.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "for byte shuffles")
)]
pub(super) static PACKINGS: [[u8; 64]; 8] = {
    let mut packings = [[0; 64]; 8];
    let mut width = 1;
    while width < 8 {
        let mut byte = 0;
        while byte < 8 * width {
            packings[width][byte] = (byte / width * 8 + byte % width) as u8;
            byte += 1;
        }
        width += 1;
    }
    packings
};

/// A sum of maps, with the tables that the kernels read: what [`Coefficients`](super::Coefficients)
/// is to a sum of products. Made once per plan, used for every slice.
#[derive(Clone, Debug)]
pub struct Maps {
    /// Bits per symbol of each source, and of the sum.
    from: Vec<usize>,
    to: usize,
    /// The sources that are bytes, and their maps.
    bytes: Vec<(usize, Factor)>,
    groups: Vec<Group>,
    /// Gives the planes of a sum that is not bytes.
    identity: Factor,
}

impl Maps {
    /// Prepares the tables of a sum; map i takes the symbols of source i.
    ///
    /// # Panics
    /// When there is no map, or they give symbols of different widths.
    #[must_use]
    pub fn new(maps: &[BitMatrix]) -> Maps {
        let to = maps.first().expect("a sum of at least one map").row_count();
        assert!(maps.iter().all(|map| map.row_count() == to), "maps of a sum give the same width");
        let bytes = maps.iter().enumerate().filter(|(_, map)| map.column_count() == 8);
        Maps {
            from: maps.iter().map(BitMatrix::column_count).collect(),
            to,
            bytes: bytes.map(|(source, map)| (source, Factor::of_map(map))).collect(),
            groups: groups(maps),
            identity: Factor::of_map(&BitMatrix::identity(to)),
        }
    }

    /// How many sources the sum has.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a sum has at least one source")]
    pub fn len(&self) -> usize {
        self.from.len()
    }

    fn check(&self, dst: &[u8], sources: &[&[u8]], symbols: usize) {
        assert_eq!(self.len(), sources.len(), "as many sources as maps");
        let buffers = sources.iter().map(|source| source.len()).zip(self.from.iter().copied());
        for (length, width) in buffers.chain([(dst.len(), self.to)]) {
            let expected = bits::buffer_bytes(width, symbols);
            assert_eq!(length, expected, "bytes of {symbols} symbols of {width} bits");
        }
    }
}

/// Packs the columns of all maps of planes into groups of 8.
fn groups(maps: &[BitMatrix]) -> Vec<Group> {
    let planes = maps.iter().enumerate().filter(|(_, map)| map.column_count() < 8);
    let planes: Vec<(usize, usize)> = planes
        .flat_map(|(source, map)| (0..map.column_count()).map(move |plane| (source, plane)))
        .collect();
    let group = |planes: &[(usize, usize)]| {
        let mut rows = [0; 8];
        for (column, &(source, plane)) in planes.iter().enumerate() {
            for (row, mask) in rows.iter_mut().zip(maps[source].row_masks()) {
                *row |= (mask >> plane & 1) << column;
            }
        }
        let mut shift = 0;
        let parts = planes.chunk_by(|(source, _), (next, _)| source == next).map(|planes| {
            let (source, skip) = planes[0];
            let width = maps[source].column_count();
            let part = PlaneRun::new(source, width, skip, planes.len(), shift);
            shift += planes.len();
            part
        });
        Group { parts: parts.collect(), map: Factor::of_map(&BitMatrix::new(&rows, 8)) }
    };
    planes.chunks(8).map(group).collect()
}

impl Kernel {
    /// dst = sum of map_i(source_i) for `symbols` symbols, each buffer in the layout of its width.
    ///
    /// # Panics
    /// When there are not as many sources as maps, or a buffer has not the length that
    /// [`bits::buffer_bytes`] gives.
    pub fn map_sum(&self, dst: &mut [u8], maps: &Maps, sources: &[&[u8]], symbols: usize) {
        maps.check(dst, sources, symbols);
        match &maps.bytes[..] {
            [(0, map)] if maps.to < 8 && maps.len() == 1 => {
                self.extract_planes(dst, sources[0], map, maps.to);
            }
            _ => self.add_maps(dst, maps, sources, symbols, Begin::Zero),
        }
    }

    /// dst += sum of map_i(source_i).
    ///
    /// # Panics
    /// As [`Kernel::map_sum`].
    pub fn map_sum_add(&self, dst: &mut [u8], maps: &Maps, sources: &[&[u8]], symbols: usize) {
        maps.check(dst, sources, symbols);
        self.add_maps(dst, maps, sources, symbols, Begin::Destination);
    }

    fn add_maps(
        &self,
        dst: &mut [u8],
        maps: &Maps,
        sources: &[&[u8]],
        symbols: usize,
        begin: Begin,
    ) {
        if maps.to == 8 {
            for (index, tile) in dst.chunks_mut(TILE_BYTES).enumerate() {
                self.sum_of_maps(tile, maps, sources, index * TILE_BYTES, begin);
            }
            return;
        }
        // A sum that is not bytes is computed as bytes with zeros on top, then cut into planes.
        const SYMBOLS: usize = 1024;
        let mut tile = [0; SYMBOLS];
        let mut planes = [0; SYMBOLS];
        for (index, dst) in dst.chunks_mut(SYMBOLS / 8 * maps.to).enumerate() {
            let at = index * SYMBOLS;
            let tile = &mut tile[..SYMBOLS.min(symbols - at)];
            self.sum_of_maps(tile, maps, sources, at, Begin::Zero);
            let planes = &mut planes[..dst.len()];
            self.extract_planes(planes, tile, &maps.identity, maps.to);
            match begin {
                Begin::Zero => dst.copy_from_slice(planes),
                Begin::Destination => self.xor(dst, planes),
            }
        }
    }

    /// The bytes of a sum from symbol `at` on.
    fn sum_of_maps(
        &self,
        output: &mut [u8],
        maps: &Maps,
        sources: &[&[u8]],
        at: usize,
        mut begin: Begin,
    ) {
        for (source, map) in &maps.bytes {
            let job = Products {
                range: 0..output.len(),
                outputs: &mut [&mut *output],
                factors: &[std::slice::from_ref(map)],
                sources: &[&sources[*source][at..]],
                begin,
            };
            // SAFETY: `available` asked the processor, and `check` compared all lengths.
            unsafe { (self.products)(job) };
            begin = Begin::Destination;
        }
        if !maps.groups.is_empty() {
            let job = Rebuild { output, groups: &maps.groups, sources, at, begin };
            // SAFETY: `available` asked the processor, and `check` compared all lengths.
            unsafe { (self.rebuild)(job) };
        }
    }

    fn extract_planes(&self, planes: &mut [u8], bytes: &[u8], map: &Factor, width: usize) {
        // SAFETY: `available` asked the processor, and `check` compared the lengths.
        unsafe { (self.extract)(Extract { planes, bytes, map, width }) };
    }
}

/// Runs an extraction.
///
/// # Safety
/// The processor must have the instructions, and the planes must be as many as the bytes need.
#[inline(always)]
pub(super) unsafe fn extract<V: Planes>(job: Extract<'_>) {
    let Extract { planes, bytes, map, width } = job;
    let whole = bytes.len() - bytes.len() % SYMBOLS_PER_PLANE_GROUP;
    let fast = fast_symbols::<V>(whole, bytes.len().next_multiple_of(SYMBOLS_PER_PLANE_GROUP));
    let (from, to) = (bytes.as_ptr(), planes.as_mut_ptr());
    // SAFETY: every vector's symbols are inside `bytes`, or in a copy; their planes and, as long as
    // `fast` lasts, the slack are inside `planes`.
    unsafe {
        let map = V::map(map);
        let planes_at = |at: usize| V::planes_of(V::load(from.add(at)), map);
        let mut at = 0;
        while fast - at >= PACK_RUN * V::BYTES {
            let mut vectors = [V::zero(); PACK_RUN];
            for u in 0..PACK_RUN {
                vectors[u] = planes_at(at + u * V::BYTES);
            }
            V::pack_run(vectors, to.add(at / 8 * width), width);
            at += PACK_RUN * V::BYTES;
        }
        for at in (at..fast).step_by(V::BYTES) {
            planes_at(at).pack(to.add(at / 8 * width), width);
        }
        for at in (fast..whole).step_by(V::BYTES) {
            planes_at(at).pack_exactly(to.add(at / 8 * width), width);
        }
        if whole < bytes.len() {
            let mut last = [0; SYMBOLS_PER_PLANE_GROUP];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            for at in (0..SYMBOLS_PER_PLANE_GROUP).step_by(V::BYTES) {
                let planes = V::planes_of(V::load(last.as_ptr().add(at)), map);
                planes.pack_exactly(to.add((whole + at) / 8 * width), width);
            }
        }
    }
}

/// Runs a sum of planes, `UNROLL` vectors at a time; `BLOCK` vectors hold 64 symbols.
///
/// # Safety
/// The processor must have the instructions, and every source of a part must hold the planes of the
/// output's symbols, padded to 64.
#[inline(always)]
pub(super) unsafe fn rebuild<V: Planes, const UNROLL: usize, const BLOCK: usize>(job: Rebuild<'_>) {
    let part = &job.groups[0].parts[0];
    let padded = job.sources[part.source].len() / part.width * 8 - job.at;
    let whole = job.output.len() - job.output.len() % SYMBOLS_PER_PLANE_GROUP;
    let fast = fast_symbols::<V>(whole, padded);
    let to = job.output.as_mut_ptr();
    let mut at = 0;
    // SAFETY: every vector's symbols are inside the output, or in a copy; their planes and, as long
    // as `fast` lasts, the slack are inside the sources.
    unsafe {
        while fast - at >= UNROLL * V::BYTES {
            step::<V, UNROLL, false>(&job, to.add(at), at);
            at += UNROLL * V::BYTES;
        }
        while fast - at >= BLOCK * V::BYTES {
            step::<V, BLOCK, false>(&job, to.add(at), at);
            at += BLOCK * V::BYTES;
        }
        while at < whole {
            step::<V, BLOCK, true>(&job, to.add(at), at);
            at += BLOCK * V::BYTES;
        }
        if whole < job.output.len() {
            let mut last = [0; SYMBOLS_PER_PLANE_GROUP];
            let rest = whole..job.output.len();
            last[..rest.len()].copy_from_slice(&job.output[rest.clone()]);
            step::<V, BLOCK, true>(&job, last.as_mut_ptr(), whole);
            job.output[rest.clone()].copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// How many of the whole groups' symbols have planes with slack behind them, in groups of 64.
fn fast_symbols<V: Planes>(whole: usize, padded: usize) -> usize {
    let slack = V::SLACK_SYMBOLS.next_multiple_of(SYMBOLS_PER_PLANE_GROUP);
    whole.min(padded.saturating_sub(slack))
}

/// Rebuilds some vectors of symbols, `at` symbols into the job.
#[inline(always)]
unsafe fn step<V: Planes, const UNROLL: usize, const EXACTLY: bool>(
    job: &Rebuild<'_>,
    to: *mut u8,
    at: usize,
) {
    // SAFETY: the caller grants the symbols at `to` and their planes, with the slack unless
    // `EXACTLY`.
    unsafe {
        let mut sums = [V::zero(); UNROLL];
        if job.begin == Begin::Destination {
            for u in 0..UNROLL {
                sums[u] = V::load(to.add(u * V::BYTES));
            }
        }
        for group in job.groups {
            let mut packed = [V::zero(); UNROLL];
            for part in &group.parts {
                let first = (job.at + at) / 8 * part.width;
                let planes = job.sources[part.source][first..].as_ptr();
                for u in 0..UNROLL {
                    let planes = planes.add(u * V::BYTES / 8 * part.width);
                    packed[u] = if EXACTLY {
                        packed[u].spread_exactly(planes, part)
                    } else {
                        packed[u].spread(planes, part)
                    };
                }
            }
            let map = V::map(&group.map);
            for u in 0..UNROLL {
                sums[u] = sums[u].xor(V::image(packed[u].to_symbols().split(), map));
            }
        }
        for u in 0..UNROLL {
            sums[u].store(to.add(u * V::BYTES));
        }
    }
}
