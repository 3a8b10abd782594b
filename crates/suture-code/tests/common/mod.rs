//! What the tests of codes share: data with no pattern, encoding a stripe, and the choice of
//! subsets.
//!
//! Place: every test that loses chunks begins with a stripe from here.

#![allow(dead_code, reason = "each test file uses its own part")]

use suture_code::{ChunkIndex, Code, Dag, Program, Source};
use suture_gf::bits;

/// A small generator (xorshift) whose seeds mean the same for ever.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// The first `count` of a random order of `chunks`.
    pub fn choose(&mut self, chunks: &[ChunkIndex], count: usize) -> Vec<ChunkIndex> {
        let mut chunks = chunks.to_vec();
        for i in (1..chunks.len()).rev() {
            chunks.swap(i, self.below(i + 1));
        }
        chunks.truncate(count);
        chunks
    }
}

pub fn chunks(indices: &[u8]) -> Vec<ChunkIndex> {
    indices.iter().map(|&index| ChunkIndex(index)).collect()
}

/// All chunks of the stripe that are not among `lost`.
pub fn survivors(code: &Code, lost: &[ChunkIndex]) -> Vec<ChunkIndex> {
    code.chunks().filter(|chunk| !lost.contains(chunk)).collect()
}

/// Runs a DAG on freshly made buffers.
pub fn run(dag: &Dag, sources: &[&[u8]], length: usize) -> Vec<Vec<u8>> {
    let program = Program::compile(dag).expect("a code's own DAG is valid");
    let mut outputs: Vec<Vec<u8>> = dag
        .outputs()
        .iter()
        .map(|output| vec![0xee; bits::buffer_bytes(dag.value(output.value).width, length)])
        .collect();
    let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(sources, &mut views).expect("buffers fit");
    outputs
}

/// Runs a DAG on the chunks that it names.
pub fn run_on_stripe(dag: &Dag, stripe: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let sources: Vec<&[u8]> =
        dag.sources().map(|(_, source)| sub_chunk(dag, stripe, source)).collect();
    run(dag, &sources, stripe[0].len() / dag.sub_chunk_count() as usize)
}

/// A chunk holds its sub-chunks one after the other.
pub fn sub_chunk<'a>(dag: &Dag, stripe: &'a [Vec<u8>], source: Source) -> &'a [u8] {
    let chunk = &stripe[usize::from(source.chunk.0)];
    let length = chunk.len() / dag.sub_chunk_count() as usize;
    &chunk[source.sub_chunk as usize * length..][..length]
}

/// A whole stripe, data and parity, of random data, with that many bytes in every sub-chunk.
pub fn stripe(code: &Code, length: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let chunk_bytes = length * code.sub_chunk_count() as usize;
    encode(code, (0..code.data_chunks()).map(|_| rng.bytes(chunk_bytes)).collect())
}

/// The whole stripe of these data chunks.
pub fn encode(code: &Code, mut stripe: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let dag = code.encode_dag();
    let parity = run_on_stripe(&dag, &stripe);
    check_names(&dag, &chunks_from(code.data_chunks(), code.parity_chunks()));
    stripe.extend(parity.chunks(code.sub_chunk_count() as usize).map(<[Vec<u8>]>::concat));
    stripe
}

/// Loses chunks, repairs them from exactly these helpers, and compares.
pub fn check_repair(code: &Code, stripe: &[Vec<u8>], lost: &[ChunkIndex], helpers: &[ChunkIndex]) {
    let dag = code
        .repair_dag(lost, helpers)
        .unwrap_or_else(|error| panic!("{code}, {lost:?} lost, {helpers:?} help: {error}"));
    check_rebuilds(&dag, stripe, lost);
    let mut asked: Vec<ChunkIndex> = dag.sources().map(|(_, source)| source.chunk).collect();
    asked.dedup();
    assert_eq!(asked, helpers, "{code}: sources in the order of the helpers, none without");
}

/// The DAG gives the lost chunks, all of them, in order.
pub fn check_rebuilds(dag: &Dag, stripe: &[Vec<u8>], lost: &[ChunkIndex]) {
    check_names(dag, lost);
    let rebuilt = run_on_stripe(dag, stripe);
    for (chunk, rebuilt) in lost.iter().zip(rebuilt.chunks(dag.sub_chunk_count() as usize)) {
        assert!(rebuilt.concat() == stripe[usize::from(chunk.0)], "chunk {chunk} of {lost:?}");
    }
    assert!(run_in_parts(dag, stripe) == rebuilt, "helpers and decoder give what the whole gives");
}

/// Runs each helper's part of a DAG, and then the decoder's on what they send.
pub fn run_in_parts(dag: &Dag, stripe: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let length = stripe[0].len() / dag.sub_chunk_count() as usize;
    let split = dag.split_at_helpers();
    let mut rows: Vec<Vec<u8>> = Vec::new();
    for ((chunk, part), (sender, row_count)) in split.helpers.iter().zip(dag.sends()) {
        assert!(part.sources().all(|(_, source)| source.chunk == *chunk), "a helper has one chunk");
        assert_eq!((*chunk, part.outputs().len() as u32), (sender, row_count));
        let sources: Vec<&[u8]> =
            part.sources().map(|(_, source)| sub_chunk(dag, stripe, source)).collect();
        rows.extend(run(part, &sources, length));
    }
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    run(&split.decoder, &rows, length)
}

fn check_names(dag: &Dag, chunks: &[ChunkIndex]) {
    let named = dag.outputs().iter().map(|output| (output.chunk, output.sub_chunk));
    let parts = |&chunk| (0..dag.sub_chunk_count()).map(move |part| (chunk, part));
    assert!(named.eq(chunks.iter().flat_map(parts)), "outputs in the order of the chunks");
}

fn chunks_from(first: usize, count: usize) -> Vec<ChunkIndex> {
    (first..first + count).map(|chunk| ChunkIndex(chunk as u8)).collect()
}

/// Every set of at most `lost_max` chunks that leaves a decodable stripe: repaired by the helpers
/// of the code's choice and, where any k chunks suffice, from every k survivors.
pub fn check_all_patterns(name: &str, lost_max: usize, length: usize) {
    let code: Code = name.parse().unwrap();
    let stripe = stripe(&code, length, &mut Rng::new(1));
    let all: Vec<ChunkIndex> = code.chunks().collect();
    for lost_count in 1..=lost_max {
        for lost in subsets(&all, lost_count) {
            let survivors = survivors(&code, &lost);
            assert!(code.decodable(&survivors) || lost_count > code.loss_tolerance());
            if code.decodable(&survivors) {
                let helpers = code.helpers_for(&lost, &survivors).unwrap();
                check_repair(&code, &stripe, &lost, &helpers);
            }
            if code.loss_tolerance() == code.parity_chunks() {
                for helpers in subsets(&survivors, code.data_chunks()) {
                    check_repair(&code, &stripe, &lost, &helpers);
                }
            }
        }
    }
}

/// The same for random sets of losses and helpers, for codes that any k chunks decode.
pub fn check_sampled_patterns(name: &str, length: usize, samples: usize) {
    let code: Code = name.parse().unwrap();
    let mut rng = Rng::new(7);
    let stripe = stripe(&code, length, &mut rng);
    let all: Vec<ChunkIndex> = code.chunks().collect();
    for _ in 0..samples {
        let lost_count = 1 + rng.below(code.parity_chunks());
        let lost = rng.choose(&all, lost_count);
        let survivors = survivors(&code, &lost);
        let helpers = rng.choose(&survivors, code.data_chunks());
        check_repair(&code, &stripe, &lost, &helpers);
        check_repair(&code, &stripe, &lost, &code.helpers_for(&lost, &survivors).unwrap());
    }
}

/// How many sub-chunks the helpers read and send for one lost chunk, all together, with the
/// helpers of the code's choice.
pub fn volume(code: &Code, lost: ChunkIndex) -> (usize, u32) {
    let helpers = code.helpers_for(&[lost], &survivors(code, &[lost])).unwrap();
    let dag = code.repair_dag(&[lost], &helpers).unwrap();
    (
        dag.reads().iter().map(|(_, parts)| parts.len()).sum(),
        dag.sends().iter().map(|(_, rows)| rows).sum(),
    )
}

/// Every subset of `items` with `count` elements.
pub fn subsets<T: Copy>(items: &[T], count: usize) -> Vec<Vec<T>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, &first) in items.iter().enumerate() {
        for mut rest in subsets(&items[index + 1..], count - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}
