//! What the tests of codes share: data with no pattern, encoding a stripe, and the choice of
//! subsets.
//!
//! Place: every test that loses chunks begins with a stripe from here.

#![allow(dead_code, reason = "each test file uses its own part")]

use suture_code::{ChunkIndex, Code, Dag, Program};

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
    let mut outputs = vec![vec![0xee; length]; dag.outputs().len()];
    let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(sources, &mut views).expect("buffers fit");
    outputs
}

/// A whole stripe, data and parity, of random data.
pub fn stripe(code: &Code, length: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut stripe: Vec<Vec<u8>> = (0..code.data_chunks()).map(|_| rng.bytes(length)).collect();
    let data: Vec<&[u8]> = stripe.iter().map(Vec::as_slice).collect();
    let parity = run(&code.encode_dag(), &data, length);
    stripe.extend(parity);
    stripe
}

/// Loses chunks, repairs them from exactly these helpers, and compares.
pub fn check_repair(code: &Code, stripe: &[Vec<u8>], lost: &[ChunkIndex], helpers: &[ChunkIndex]) {
    let dag = code
        .repair_dag(lost, helpers)
        .unwrap_or_else(|error| panic!("{code}, {lost:?} lost: {error}"));
    let sources: Vec<&[u8]> =
        helpers.iter().map(|chunk| &stripe[usize::from(chunk.0)][..]).collect();
    let rebuilt = run(&dag, &sources, stripe[0].len());
    for ((chunk, output), rebuilt) in lost.iter().zip(dag.outputs()).zip(rebuilt) {
        assert_eq!(
            (output.chunk, output.sub_chunk),
            (*chunk, 0),
            "{code}: outputs in the order of the lost chunks"
        );
        assert!(
            rebuilt == stripe[usize::from(chunk.0)],
            "{code}: chunk {chunk} of {lost:?} from {helpers:?}"
        );
    }
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
