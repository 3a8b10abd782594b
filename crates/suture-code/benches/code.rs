//! How fast a slice is encoded and repaired, through the whole executor.
//!
//! Place: slices flow. Buffers start on cache lines, as the slice pool's do. Throughput counts the
//! bytes read. Planning a repair is timed beside it, since a full-node repair asks for one per
//! stripe.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use suture_code::{ChunkIndex, Code, Dag, Program};

const SLICE_BYTES: usize = 64 * 1024;
const LINE_BYTES: usize = 64;

fn codes(criterion: &mut Criterion) {
    for name in ["rs(6,3)", "rs(10,4)"] {
        let code: Code = name.parse().expect("a known code");
        let lost = [ChunkIndex(1)];
        let survivors: Vec<ChunkIndex> =
            code.chunks().filter(|chunk| !lost.contains(chunk)).collect();
        let repair = || {
            let helpers = code.helpers_for(&lost, &survivors).expect("enough survivors");
            code.repair_dag(&lost, &helpers).expect("a helper set of the code's own choice")
        };

        let mut group = criterion.benchmark_group(name);
        group
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1))
            .sample_size(20);
        group.bench_function("plan a repair", |bench| {
            bench.iter(|| Program::compile(&black_box(&repair)()))
        });
        group.throughput(Throughput::BytesDecimal((code.data_chunks() * SLICE_BYTES) as u64));
        for (what, dag) in [("encode 64 KiB", code.encode_dag()), ("repair 64 KiB", repair())] {
            group.bench_function(what, |bench| run_slices(bench, &dag));
        }
        group.finish();
    }
}

fn run_slices(bench: &mut criterion::Bencher<'_>, dag: &Dag) {
    let program = Program::compile(dag).expect("a code's own DAG is valid");
    let source_count = program.sources().len();
    let mut memory =
        vec![vec![1; SLICE_BYTES + LINE_BYTES]; source_count + program.outputs().len()];
    let mut buffers: Vec<&mut [u8]> = memory.iter_mut().map(|buffer| on_line(buffer)).collect();
    let mut outputs = buffers.split_off(source_count);
    let sources: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
    bench.iter(|| program.run(black_box(&sources), black_box(&mut outputs)).expect("buffers fit"));
}

/// The part of a buffer that begins on a cache line.
fn on_line(buffer: &mut [u8]) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(LINE_BYTES);
    &mut buffer[start..start + SLICE_BYTES]
}

criterion_group!(benches, codes);
criterion_main!(benches);
