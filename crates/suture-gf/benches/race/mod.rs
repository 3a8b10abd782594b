//! What the benchmarks measure: for each question, the contenders that answer it.
//!
//! Buffers start on cache lines, as the slice pool's do, and hold noise: untouched pages are all
//! the same physical page, and would outrun the memory. The first contender is the roof: it reads
//! the sources and does nothing else.

#[path = "../../tests/common/isal.rs"]
mod isal;
#[path = "../../tests/common/noise.rs"]
mod noise;

use isal::Isal;
use std::hint::black_box;
use suture_gf::Maps;
use suture_gf::bits::{self, BitMatrix};
use suture_gf::{Coefficients, Kernel, Rows};

const KIB: usize = 1024;

/// Contenders that read the same bytes.
pub struct Race {
    pub name: String,
    /// Source bytes of one run.
    pub bytes: usize,
    pub contenders: Vec<Contender>,
}

pub struct Contender {
    pub name: String,
    pub run: Box<dyn FnMut()>,
}

impl Race {
    fn new(name: String, sources: &'static [&'static [u8]]) -> Race {
        let bytes = sources.iter().map(|source| source.len()).sum();
        let mut race = Race { name, bytes, contenders: Vec::new() };
        race.enter("roof: read only", move || {
            black_box(read_only(black_box(sources)));
        });
        race
    }

    fn enter(&mut self, name: &str, run: impl FnMut() + 'static) {
        self.contenders.push(Contender { name: name.to_owned(), run: Box::new(run) });
    }
}

/// All races. Memory is leaked, so that contenders own what they use.
pub fn races() -> Vec<Race> {
    let isal = Isal::load().map(|isal| &*Box::leak(Box::new(isal)));
    let mut races = Vec::new();
    for source_count in [6, 10] {
        for bytes in [512, 4 * KIB, 64 * KIB, 1024 * KIB] {
            races.push(products(isal, source_count, 1, bytes));
        }
    }
    races.push(products(isal, 10, 2, 64 * KIB));
    for bytes in [4 * KIB, 64 * KIB, 1024 * KIB] {
        races.push(products(isal, 10, 4, bytes));
    }
    races.push(short_rows());
    for source_count in [4, 7] {
        races.push(exclusive_ors(source_count, 64 * KIB));
    }
    for width in [3, 4, 5] {
        races.push(extraction(width, 64 * KIB));
    }
    races.push(reconstruction("rs(6,3)", 6, &[4, 4, 4, 5, 5, 4, 3, 3]));
    races.push(reconstruction("rs(10,4)", 10, &[4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3]));
    races
}

/// Sums of products: one output is a decode, several are an encode.
fn products(
    isal: Option<&'static Isal>,
    source_count: usize,
    output_count: usize,
    bytes: usize,
) -> Race {
    let sources = sources(source_count, bytes);
    let name = format!("dot {source_count} to {output_count}, {}", size(bytes));
    let mut race = Race::new(name, sources);
    let rows: Vec<Vec<u8>> =
        (0..output_count).map(|row| noise::noise(70 + row as u64, source_count)).collect();
    let mut dsts = buffers(1, bytes);
    race.enter("roof: xor into one", move || suture_gf::xor_sum(dsts[0], sources));
    if let Some(isal) = isal {
        let mut encoding = isal.prepare(&rows, sources, buffers(output_count, bytes));
        race.enter("ISA-L", move || encoding.run());
    }
    for kernel in Kernel::available() {
        let rows: Vec<_> = rows.iter().map(|row| Coefficients::new(row)).collect();
        let mut dsts = buffers(output_count, bytes);
        race.enter(kernel.name(), move || kernel.dot_many(&mut dsts, &rows, sources));
    }
    race
}

/// What a sub-packetised code does: a sum over the same 512 bytes of every 4 KiB.
fn short_rows() -> Race {
    let rows = Rows { count: 32, bytes: 512, stride: 4 * KIB };
    let memory = sources(6, rows.count * rows.stride);
    let cut = |source: &'static [u8]| source.chunks(rows.stride).map(|row| &row[..rows.bytes]);
    let read: Vec<&[u8]> = memory.iter().flat_map(|source| cut(source)).collect();
    let mut race = Race::new("dot 6 to 1, 32 rows of 512 B every 4 KiB".to_owned(), read.leak());
    for kernel in Kernel::available() {
        let sum = [Coefficients::new(&noise::noise(70, 6))];
        let mut dsts = buffers(1, rows.count * rows.stride);
        race.enter(kernel.name(), move || kernel.dot_rows(&mut dsts, &sum, memory, rows));
    }
    race
}

fn exclusive_ors(source_count: usize, bytes: usize) -> Race {
    let sources = sources(source_count, bytes);
    let mut race = Race::new(format!("xor of {source_count}, {}", size(bytes)), sources);
    let mut dsts = buffers(source_count, bytes);
    race.enter("roof: copy each", move || {
        dsts.iter_mut().zip(sources).for_each(|(dst, source)| dst.copy_from_slice(source));
    });
    for kernel in Kernel::available() {
        let mut dsts = buffers(1, bytes);
        race.enter(&format!("{} into one", kernel.name()), move || {
            kernel.xor_sum(dsts[0], sources)
        });
        let mut dsts = buffers(source_count, bytes);
        let ends: Vec<usize> = (1..=source_count).collect();
        race.enter(&format!("{} prefix sums", kernel.name()), move || {
            kernel.xor_prefix_sums(&mut dsts, &ends, sources);
        });
    }
    race
}

fn extraction(width: usize, bytes: usize) -> Race {
    let sources = sources(1, bytes);
    let mut race = Race::new(format!("extract {width} traces, {}", size(bytes)), sources);
    for kernel in Kernel::available() {
        let maps = Maps::new(&[map(width, 8)]);
        let mut planes = buffers(1, bits::buffer_bytes(width, bytes));
        race.enter(kernel.name(), move || {
            kernel.map_sum(planes[0], &maps, sources, bytes);
        });
    }
    race
}

/// Trace repair beside the decode that it replaces; both count the bytes that the decode reads.
fn reconstruction(code: &str, data_chunks: usize, widths: &'static [usize]) -> Race {
    let bytes = 64 * KIB;
    let chunks = sources(data_chunks, bytes);
    let mut race = Race::new(format!("repair one of {code}, {}", size(bytes)), chunks);
    let traces: Vec<&[u8]> =
        widths.iter().map(|&width| sources(1, bits::buffer_bytes(width, bytes))[0]).collect();
    let traces: &'static [&'static [u8]] = traces.leak();
    for kernel in Kernel::available() {
        let coefficients = Coefficients::new(&noise::noise(70, data_chunks));
        let mut dsts = buffers(1, bytes);
        race.enter(&format!("{} decode", kernel.name()), move || {
            kernel.dot(dsts[0], &coefficients, chunks);
        });
        let maps = Maps::new(&widths.iter().map(|&width| map(8, width)).collect::<Vec<_>>());
        let mut dsts = buffers(1, bytes);
        race.enter(&format!("{} from traces", kernel.name()), move || {
            kernel.map_sum(dsts[0], &maps, traces, bytes);
        });
    }
    race
}

fn map(rows: usize, columns: usize) -> BitMatrix {
    let mask = (0xff_u16 >> (8 - columns)) as u8;
    let rows: Vec<u8> = noise::noise(90, rows).iter().map(|row| row & mask).collect();
    BitMatrix::new(&rows, columns)
}

fn buffers(count: usize, bytes: usize) -> Vec<&'static mut [u8]> {
    const LINE_BYTES: usize = 64;
    let buffer = |seed| {
        let memory = noise::noise(seed, bytes + LINE_BYTES).leak();
        let start = memory.as_ptr().align_offset(LINE_BYTES);
        &mut memory[start..start + bytes]
    };
    (0..count as u64).map(buffer).collect()
}

fn sources(count: usize, bytes: usize) -> &'static [&'static [u8]] {
    let sources: Vec<&[u8]> = buffers(count, bytes).into_iter().map(|buffer| &*buffer).collect();
    sources.leak()
}

fn size(bytes: usize) -> String {
    if bytes < KIB { format!("{bytes} B") } else { format!("{} KiB", bytes / KIB) }
}

/// Touches every byte once and writes nothing, with the widest loads of the machine.
fn read_only(sources: &[&[u8]]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor was just asked for AVX-512.
        return unsafe { read_only_avx512(sources) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just asked for AVX2.
        return unsafe { read_only_avx2(sources) };
    }
    let words = sources.iter().flat_map(|source| source.as_chunks::<8>().0);
    words.fold(0, |sum, word| sum | u64::from_ne_bytes(*word)) != 0
}

/// Independent sums, so that no load waits for another's.
const LANES: usize = 8;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read_only_avx512(sources: &[&[u8]]) -> bool {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_si512(); LANES];
    for source in sources {
        for block in source.as_chunks::<{ 64 * LANES }>().0 {
            for (sum, bytes) in sums.iter_mut().zip(block.as_chunks::<64>().0) {
                // SAFETY: 64 bytes are readable behind a reference to 64 bytes.
                *sum = _mm512_or_si512(*sum, unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) });
            }
        }
    }
    let sum = sums.into_iter().reduce(|a, b| _mm512_or_si512(a, b)).expect("lanes");
    _mm512_reduce_or_epi64(sum) != 0
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn read_only_avx2(sources: &[&[u8]]) -> bool {
    use std::arch::x86_64::*;
    let mut sums = [_mm256_setzero_si256(); LANES];
    for source in sources {
        for block in source.as_chunks::<{ 32 * LANES }>().0 {
            for (sum, bytes) in sums.iter_mut().zip(block.as_chunks::<32>().0) {
                // SAFETY: 32 bytes are readable behind a reference to 32 bytes.
                *sum = _mm256_or_si256(*sum, unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
            }
        }
    }
    let sum = sums.into_iter().reduce(|a, b| _mm256_or_si256(a, b)).expect("lanes");
    _mm256_testz_si256(sum, sum) == 0
}
