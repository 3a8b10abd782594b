//! How fast a slice is encoded and repaired, through the whole executor.
//!
//! Place: slices flow. Buffers start on cache lines, as the slice pool's do; a slice holds the same
//! window of each sub-chunk, one after the other. Throughput counts the bytes read. Planning a
//! repair is timed beside it, since a full-node repair asks for one per stripe.
//!
//! Beside the codes of exclusive or alone stands a plain one that reads the same bytes and writes
//! as many: the least that such a code can cost. Beside Clay stands the decoding that it replaces,
//! rs(10,4) with one loss; both count the bytes that they rebuild, since they read different ones.
//! "Cold" takes turns over more memory than a processor's share of any cache.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use suture_code::dag::BYTE_WIDTH;
use suture_code::fingerprint::ROWS;
use suture_code::layout::Layout;
use suture_code::{ChunkIndex, Code, Dag, Fingerprint, Join, Program, Scratch, Source, ValueId};
use suture_gf::{Coefficients, bits};

const SLICE_BYTES: usize = 64 * 1024;
const LARGE_SLICE_BYTES: usize = 1024 * 1024;
const LINE_BYTES: usize = 64;
const COLD_BYTES: usize = 1 << 30;

fn reed_solomon(criterion: &mut Criterion) {
    for name in ["rs(6,3)", "rs(10,4)"] {
        let code = parse(name);
        let mut group = begin(criterion, name);
        group.bench_function("plan a repair", |bench| {
            bench.iter(|| Program::compile(&repair(&black_box(code), 1)))
        });
        run_slices(&mut group, "encode", &code.encode_dag(), SLICE_BYTES);
        run_slices(&mut group, "repair", &repair(&code, 1), SLICE_BYTES);
    }
    let code = parse("rs(10,4)");
    let mut group = begin(criterion, "rs(10,4)");
    run_slices(&mut group, "repair", &repair(&code, 1), LARGE_SLICE_BYTES);
    let scheme = code.trace_scheme(ChunkIndex(1), &[]).expect("a known scheme");
    let split = code.trace_dag(scheme).expect("a scheme of the code").split_at_helpers();
    run_slices(&mut group, "extract traces", &split.helpers[0].1, SLICE_BYTES);
    run_slices(&mut group, "rebuild from traces", &split.decoder, SLICE_BYTES);
}

fn butterfly(criterion: &mut Criterion) {
    for (name, k) in [("butterfly(4)", 4), ("butterfly(7)", 7)] {
        let code = parse(name);
        let rows = code.sub_chunk_count();
        let mut group = begin(criterion, name);
        group.bench_function("plan a repair", |bench| {
            bench.iter(|| Program::compile(&repair(&black_box(code), 1)))
        });
        run_slices(&mut group, "encode", &code.encode_dag(), SLICE_BYTES);
        run_slices(&mut group, "encode, plain xor", &plain_xor(k, rows, 2, rows), SLICE_BYTES);
        for (what, lost) in [("D0", 0), ("D1", 1), ("D(k-1)", k - 1), ("H", k), ("B", k + 1)] {
            run_slices(&mut group, &format!("repair {what}"), &repair(&code, lost), SLICE_BYTES);
        }
        let plain = plain_xor(k + 1, rows / 2, 2, rows);
        run_slices(&mut group, "repair, plain xor", &plain, SLICE_BYTES);
        let two = [ChunkIndex(1), ChunkIndex(2)];
        let helpers: Vec<ChunkIndex> = code.chunks().filter(|chunk| !two.contains(chunk)).collect();
        let dag = code.repair_dag(&two, &helpers).expect("k helpers");
        run_slices(&mut group, "decode two", &dag, SLICE_BYTES);
    }
}

fn clay(criterion: &mut Criterion) {
    let code = parse("clay(10,4,13)");
    let mut group = begin(criterion, "clay(10,4,13)");
    group.bench_function("plan a repair", |bench| {
        bench.iter(|| Program::compile(&repair(&black_box(code), 1)))
    });
    for slice_bytes in [SLICE_BYTES, LARGE_SLICE_BYTES] {
        run_slices(&mut group, "repair", &repair(&code, 1), slice_bytes);
        run_slices(&mut group, "encode", &code.encode_dag(), slice_bytes);
    }
    drop(group);
    let mut group = begin(criterion, "rebuilt bytes of one loss");
    for name in ["rs(10,4)", "clay(10,4,13)"] {
        let dag = repair(&parse(name), 1);
        for (place, slice_bytes, memory_bytes) in
            [("in cache", SLICE_BYTES, 0), ("cold", LARGE_SLICE_BYTES, COLD_BYTES)]
        {
            group.throughput(Throughput::BytesDecimal(slice_bytes as u64));
            let what = format!("{name}, {place} {} KiB", slice_bytes / 1024);
            Trial { dag: &dag, slice_bytes, memory_bytes }.run(&mut group, &what);
        }
    }
}

fn parse(name: &str) -> Code {
    name.parse().expect("a known code")
}

fn begin<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group
}

/// The cheapest repair of one chunk from whole survivors.
fn repair(code: &Code, lost: u8) -> Dag {
    let lost = [ChunkIndex(lost)];
    let survivors: Vec<ChunkIndex> = code.chunks().filter(|chunk| !lost.contains(chunk)).collect();
    let helpers = code.helpers_for(&lost, &survivors).expect("enough survivors");
    code.repair_dag(&lost, &helpers).expect("a helper set of the code's own choice")
}

/// Each row of `columns` columns added up, as often as there are outputs, in chunks of `alpha`
/// sub-chunks.
fn plain_xor(columns: u8, rows: u32, outputs: u8, alpha: u32) -> Dag {
    let mut dag = Dag::new(alpha);
    let row = |dag: &mut Dag, row: u32| -> Vec<ValueId> {
        let source = |column| Source { chunk: ChunkIndex(column), sub_chunk: row };
        (0..columns).map(|column| dag.add_source(source(column), BYTE_WIDTH)).collect()
    };
    let sources: Vec<Vec<ValueId>> = (0..rows).map(|index| row(&mut dag, index)).collect();
    for output in 0..outputs {
        for (index, row) in sources.iter().enumerate() {
            let sum = dag.add_xor(Join::Anywhere, row);
            dag.add_output(ChunkIndex(columns + output), index as u32, sum);
        }
    }
    dag
}

fn run_slices(group: &mut BenchmarkGroup<'_, WallTime>, what: &str, dag: &Dag, slice_bytes: usize) {
    let trial = Trial { dag, slice_bytes, memory_bytes: 0 };
    group.throughput(Throughput::BytesDecimal(trial.source_bytes() as u64));
    trial.run(group, &format!("{what} {} KiB", slice_bytes / 1024));
}

/// The sources of a run, and its outputs.
type Buffers<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

/// A DAG on slices: the same ones again and again, or on so much memory in turn.
struct Trial<'a> {
    dag: &'a Dag,
    slice_bytes: usize,
    memory_bytes: usize,
}

impl Trial<'_> {
    /// Bytes of each source, then of each output.
    fn lengths(&self) -> Vec<usize> {
        let symbols = self.slice_bytes / self.dag.sub_chunk_count() as usize;
        let outputs = self.dag.outputs().iter().map(|output| output.value);
        let values = self.dag.sources().map(|(id, _)| id).chain(outputs);
        values.map(|id| bits::buffer_bytes(self.dag.value(id).width, symbols)).collect()
    }

    fn source_bytes(&self) -> usize {
        self.lengths()[..self.dag.sources().count()].iter().sum()
    }

    fn run(&self, group: &mut BenchmarkGroup<'_, WallTime>, what: &str) {
        let program = Program::compile(self.dag).expect("a code's own DAG is valid");
        let alpha = self.dag.sub_chunk_count() as usize;
        let lengths = self.lengths();
        let slices = lengths.len().div_ceil(alpha);
        let sets = (self.memory_bytes / (slices * self.slice_bytes)).max(1);
        let mut memory = vec![vec![1; self.slice_bytes + LINE_BYTES]; sets * slices];
        let mut sets: Vec<Buffers<'_>> = memory
            .chunks_mut(slices)
            .map(|slices| {
                let windows = slices.iter_mut().flat_map(|slice| windows(slice, alpha));
                let mut buffers: Vec<&mut [u8]> =
                    windows.zip(&lengths).map(|(window, &length)| &mut window[..length]).collect();
                let outputs = buffers.split_off(program.sources().len());
                (buffers.into_iter().map(|buffer| &*buffer).collect(), outputs)
            })
            .collect();
        let mut scratch = Scratch::default();
        let mut next = 0;
        group.bench_function(what, |bench| {
            bench.iter(|| {
                next = if next + 1 < sets.len() { next + 1 } else { 0 };
                let (sources, outputs) = &mut sets[next];
                program
                    .run_with(&mut scratch, black_box(sources), black_box(outputs))
                    .expect("buffers fit")
            })
        });
    }
}

/// The sub-chunks of a slice that begins on a cache line.
fn windows(buffer: &mut [u8], alpha: usize) -> impl Iterator<Item = &mut [u8]> {
    let start = buffer.as_ptr().align_offset(LINE_BYTES);
    let slice = &mut buffer[start..];
    let length = (slice.len() & !(LINE_BYTES - 1)) / alpha;
    slice.chunks_exact_mut(length).take(alpha)
}

/// Beside it, what one pass over the same bytes with as many outputs costs.
fn fingerprint(criterion: &mut Criterion) {
    let chunk: Vec<u8> = (0..LARGE_SLICE_BYTES).map(|at| (at * at / 128) as u8).collect();
    let mut group = begin(criterion, "fingerprint");
    group.throughput(Throughput::Bytes(chunk.len() as u64));
    for name in ["rs(6,3)", "butterfly(4)", "clay(10,4,13)"] {
        let layout = Layout::of(&parse(name), chunk.len() as u64);
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut made = Fingerprint::new(7, layout);
                made.add(0, black_box(&chunk));
                made
            });
        });
    }
    let rows = vec![Coefficients::new(&[3; 32]); ROWS];
    let sources: Vec<&[u8]> = chunk.chunks(chunk.len() / 32).collect();
    let mut sums = vec![vec![0; chunk.len() / 32]; ROWS];
    group.bench_function("one pass, eight outputs", |bench| {
        let mut sums: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
        bench.iter(|| suture_gf::dot_many(&mut sums, &rows, black_box(&sources)));
    });
}

criterion_group!(benches, reed_solomon, butterfly, clay, fingerprint);
criterion_main!(benches);
