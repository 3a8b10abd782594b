//! Parity bytes from outside: what Intel ISA-L and klauspost/reedsolomon write is what we write.
//! See `testdata/README.md`.
//!
//! Place: the promise that chunks of HDFS, of SeaweedFS and of every other user of those libraries
//! can be repaired by us, and ours by them.

use crate::common;
use std::collections::BTreeMap;
use suture_code::Code;

const ISAL_VECTORS: &str = include_str!("../testdata/isal_vectors.txt");
const KLAUSPOST_VECTORS: &str = include_str!("../testdata/klauspost_vectors.txt");

/// The data that the programs in `testdata` make.
fn data(chunk: usize, length: usize) -> Vec<u8> {
    let byte = |index: usize| {
        let seed = 1_000_003_u32.wrapping_mul(chunk as u32).wrapping_add(index as u32 + 1);
        (seed.wrapping_mul(2_654_435_761) >> 24) as u8
    };
    (0..length).map(byte).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn parity_is_what_isal_writes() {
    check_vectors(ISAL_VECTORS, 6);
}

#[test]
fn parity_is_what_klauspost_reedsolomon_writes() {
    check_vectors(KLAUSPOST_VECTORS, 8);
}

fn check_vectors(lines: &str, code_count: usize) {
    let mut vectors: BTreeMap<&str, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
    for line in lines.lines() {
        let [name, chunk, hex] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("malformed: {line}")
        };
        vectors.entry(name).or_default().push((chunk.parse().unwrap(), from_hex(hex)));
    }
    assert_eq!(vectors.len(), code_count);
    for (name, expected) in vectors {
        let code: Code = name.parse().unwrap();
        assert_eq!(expected.len(), code.parity_chunks(), "{name}: a vector for every parity chunk");
        let length = expected[0].1.len();
        let data: Vec<Vec<u8>> = (0..code.data_chunks()).map(|chunk| data(chunk, length)).collect();
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let parity = common::run(&code.encode_dag(), &data, length);
        for (output, (parity, (chunk, expected))) in parity.iter().zip(&expected).enumerate() {
            assert_eq!(*chunk, code.data_chunks() + output, "{name}: vectors in order");
            assert!(parity == expected, "{name}: parity chunk {chunk} differs");
        }
    }
}
