//! How fast a one-output sum runs, per kernel, beside what the memory allows.
//!
//! Place: slices flow; this is the only arithmetic in it.
//! Buffers start on cache lines, as the slice pool's do; at odd addresses every vector of 64 bytes
//! straddles two lines and the fast kernels drop to half. Throughput counts source bytes. The roof
//! reads the same sources and writes nothing; the plain sum is exclusive or of the sources, one
//! after the other over the whole slice, which is what a first version would do.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use suture_gf::{Coefficients, Kernel};

const LINE_BYTES: usize = 64;

fn one_output(criterion: &mut Criterion) {
    for source_count in [6, 10] {
        for kib in [64, 1024] {
            let length = kib * 1024;
            let mut memory = vec![vec![1; length + LINE_BYTES]; source_count + 1];
            let mut buffers: Vec<&mut [u8]> =
                memory.iter_mut().map(|buffer| on_line(buffer, length)).collect();
            let dst = buffers.pop().expect("one more than the sources");
            let sources: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
            let coefficients: Vec<u8> = (0..source_count).map(|i| i as u8 * 7 + 3).collect();
            let coefficients = Coefficients::new(&coefficients);

            let mut group = criterion.benchmark_group(format!("dot/k={source_count}/{kib}KiB"));
            group.throughput(Throughput::BytesDecimal((source_count * length) as u64));
            group
                .warm_up_time(Duration::from_millis(200))
                .measurement_time(Duration::from_millis(600))
                .sample_size(20);
            group.bench_function("roof: read only", |bench| {
                bench.iter(|| read_only(black_box(&sources)))
            });
            group.bench_function("plain xor", |bench| {
                bench.iter(|| {
                    sources.iter().for_each(|source| suture_gf::xor(black_box(&mut *dst), source))
                });
            });
            for kernel in Kernel::available() {
                group.bench_function(BenchmarkId::from_parameter(kernel.name()), |bench| {
                    bench.iter(|| kernel.dot(black_box(&mut *dst), &coefficients, &sources));
                });
            }
            group.finish();
        }
    }
}

/// The part of a buffer that begins on a cache line.
fn on_line(buffer: &mut [u8], length: usize) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(LINE_BYTES);
    &mut buffer[start..start + length]
}

/// Touches every byte once and writes nothing, with the widest loads that the compiler may choose.
fn read_only(sources: &[&[u8]]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just asked for AVX2.
        return unsafe { read_only_avx2(sources) };
    }
    read_words(sources)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn read_only_avx2(sources: &[&[u8]]) -> u64 {
    read_words(sources)
}

/// As many independent sums as keep the load units busy and still fit in registers.
#[inline(always)]
fn read_words(sources: &[&[u8]]) -> u64 {
    const LANES: usize = 32;
    let mut lanes = [0u64; LANES];
    for source in sources {
        for block in source.as_chunks::<{ 8 * LANES }>().0 {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane |= u64::from_ne_bytes(*word);
            }
        }
    }
    lanes.iter().fold(0, |sum, lane| sum | lane)
}

criterion_group!(benches, one_output);
criterion_main!(benches);
