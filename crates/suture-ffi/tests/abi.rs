//! The C ABI against the naive executor, with unaligned buffers and many units, and from many
//! threads at once.
//!
//! Place: beside the programs in C, which show that it can be used; here it is shown to be right.

use std::ffi::CString;
use std::ptr::null_mut;
use suture_code::{Code, Source, execute};
use suture_ffi::abi::{
    Input, Output, Read, SUTURE_PLAIN_READS, suture_close, suture_decode, suture_encode,
    suture_open, suture_repair, suture_repair_reads,
};
use suture_ffi::handle::Handle;
use suture_ffi::status::Status;

const NAMES: [&str; 5] =
    ["rs(6,3)", "rs-vandermonde(4,2)", "lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)"];

struct Open(*mut Handle);

// SAFETY: an open code may be used by any number of threads at once; that is what is tested.
unsafe impl Send for Open {}
// SAFETY: the same.
unsafe impl Sync for Open {}

impl Open {
    fn new(name: &str) -> Open {
        let name = CString::new(name).unwrap();
        let mut handle = null_mut();
        // SAFETY: a text that ends, and a place to write to.
        assert_eq!(unsafe { suture_open(name.as_ptr(), &mut handle) }, Status::Ok);
        Open(handle)
    }

    /// The whole stripe, each chunk at an address that is a multiple of nothing.
    fn encode(&self, data: Vec<Vec<u8>>, parity_count: usize, unit: usize) -> Vec<Vec<u8>> {
        let chunk_bytes = data[0].len();
        let shifted: Vec<Vec<u8>> = data.iter().map(|chunk| [&[0], &chunk[..]].concat()).collect();
        let mut parity = vec![vec![0xee; chunk_bytes + 1]; parity_count];
        let inputs: Vec<*const u8> = shifted.iter().map(|chunk| chunk[1..].as_ptr()).collect();
        let outputs: Vec<*mut u8> =
            parity.iter_mut().map(|chunk| chunk[1..].as_mut_ptr()).collect();
        // SAFETY: k and m buffers of that length.
        let status =
            unsafe { suture_encode(self.0, inputs.as_ptr(), outputs.as_ptr(), chunk_bytes, unit) };
        assert_eq!(status, Status::Ok);
        assert!(parity.iter().all(|chunk| chunk[0] == 0xee), "nothing in front is touched");
        data.into_iter().chain(parity.into_iter().map(|chunk| chunk[1..].to_vec())).collect()
    }

    fn reads(&self, lost: u32, chunk_count: u32, flags: u32) -> Vec<Read> {
        let available: Vec<u32> = (0..chunk_count).filter(|&chunk| chunk != lost).collect();
        let mut reads = vec![Read::default(); 4096];
        let mut count = reads.len();
        // SAFETY: arrays of that many entries.
        let status = unsafe {
            suture_repair_reads(
                self.0,
                &lost,
                1,
                available.as_ptr(),
                available.len(),
                flags,
                reads.as_mut_ptr(),
                &mut count,
            )
        };
        assert_eq!(status, Status::Ok);
        reads.truncate(count);
        reads
    }

    fn rebuild(&self, inputs: &[(u32, Vec<u8>)], lost: u32, bytes: usize, whole: bool) -> Vec<u8> {
        let inputs: Vec<Input> = inputs
            .iter()
            .map(|(chunk, bytes)| Input {
                chunk: *chunk,
                bytes: bytes.as_ptr(),
                length: bytes.len(),
            })
            .collect();
        let mut rebuilt = vec![0xee; bytes];
        let output = Output { chunk: lost, bytes: rebuilt.as_mut_ptr(), length: bytes };
        let call = if whole { suture_decode } else { suture_repair };
        // SAFETY: buffers of those lengths.
        let status = unsafe { call(self.0, inputs.as_ptr(), inputs.len(), &output, 1, bytes / 4) };
        assert_eq!(status, Status::Ok);
        rebuilt
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: it was opened, and no call uses it any more.
        unsafe { suture_close(self.0) };
    }
}

fn noise(length: usize, seed: usize) -> Vec<u8> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn stripe_of(open: &Open, code: &Code) -> Vec<Vec<u8>> {
    let unit = 2 * code.alignment();
    let data = (0..code.data_chunks()).map(|chunk| noise(4 * unit, chunk + 1)).collect();
    open.encode(data, code.parity_chunks(), unit)
}

/// What the reads bring, packed by the definition: for each unit, each run.
fn packed(reads: &[Read], stripe: &[Vec<u8>], code: &Code) -> Vec<(u32, Vec<u8>)> {
    let unit = stripe[0].len() / 4;
    let sub_chunk = unit / code.sub_chunk_count() as usize;
    let helpers = reads.chunk_by(|one, next| one.chunk == next.chunk);
    let bytes = |runs: &[Read]| {
        let units = stripe[runs[0].chunk as usize].chunks(unit);
        let run = |unit: &[u8], read: &Read| {
            unit[read.first as usize * sub_chunk..][..read.count as usize * sub_chunk].to_vec()
        };
        units
            .flat_map(|unit| runs.iter().flat_map(|read| run(unit, read)).collect::<Vec<_>>())
            .collect::<Vec<u8>>()
    };
    helpers.map(|runs| (runs[0].chunk, bytes(runs))).collect()
}

#[test]
fn parity_is_that_of_the_naive_executor_unit_by_unit() {
    for name in NAMES {
        let code: Code = name.parse().unwrap();
        let stripe = stripe_of(&Open::new(name), &code);
        let unit = 2 * code.alignment();
        let sub_chunk = unit / code.sub_chunk_count() as usize;
        let dag = code.encode_dag();
        for at in (0..4).map(|index| index * unit) {
            let source = |source: Source| {
                let chunk = &stripe[usize::from(source.chunk.0)];
                &chunk[at + source.sub_chunk as usize * sub_chunk..][..sub_chunk]
            };
            let sources: Vec<&[u8]> = dag.sources().map(|(_, s)| source(s)).collect();
            let expected = execute::run_naively(&dag, &sources, sub_chunk);
            for (output, expected) in dag.outputs().iter().zip(expected) {
                let output = Source { chunk: output.chunk, sub_chunk: output.sub_chunk };
                assert!(source(output) == expected, "{name}, {output}");
            }
        }
    }
}

#[test]
fn plain_reads_are_as_few_as_the_code_allows() {
    for (name, lost, flags, sub_chunks) in [
        ("rs(6,3)", 0, 0, 6),
        ("lrc(6,2,2)", 0, 0, 3),
        ("lrc(6,2,2)", 9, 0, 6),
        ("clay(4,2,5)", 3, SUTURE_PLAIN_READS, 5 * 4),
        ("butterfly(4)", 3, SUTURE_PLAIN_READS, 5 * 4),
        ("butterfly(4)", 4, SUTURE_PLAIN_READS, 5 * 4),
        // B: helpers that may combine read three whole columns and two halves, and send five
        // halves; plain ones are spared the halves of two columns that would save nothing.
        ("butterfly(4)", 5, 0, 3 * 8 + 2 * 4),
        ("butterfly(4)", 5, SUTURE_PLAIN_READS, 4 * 8),
    ] {
        let code: Code = name.parse().unwrap();
        let reads = Open::new(name).reads(lost, code.chunk_count() as u32, flags);
        let total: u32 = reads.iter().map(|read| read.count).sum();
        assert_eq!(total, sub_chunks, "{name}, chunk {lost} lost: {reads:?}");
    }
}

#[test]
fn threads_share_a_code() {
    let code: Code = "clay(4,2,5)".parse().unwrap();
    let open = Open::new("clay(4,2,5)");
    let stripe = stripe_of(&open, &code);
    let (open, stripe, chunk_count) = (&open, &stripe, code.chunk_count() as u32);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..100 {
                    let lost = (thread + round) % chunk_count;
                    let helpers = packed(&open.reads(lost, chunk_count, 0), stripe, &code);
                    let whole: Vec<(u32, Vec<u8>)> = (0..chunk_count)
                        .filter(|&chunk| chunk != lost)
                        .map(|chunk| (chunk, stripe[chunk as usize].clone()))
                        .collect();
                    let expected = &stripe[lost as usize];
                    assert!(open.rebuild(&helpers, lost, expected.len(), false) == *expected);
                    assert!(open.rebuild(&whole, lost, expected.len(), true) == *expected);
                }
            });
        }
    });
}
