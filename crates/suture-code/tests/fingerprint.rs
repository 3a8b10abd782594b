//! Fingerprints of a stripe's chunks are a stripe of the same code, and a wrong byte shows.
//!
//! Place: proof of a rebuilt chunk without a recorded checksum.

use crate::common::{Rng, check_rebuilds, run_on_stripe, stripe, survivors};
use suture_code::fingerprint::repaired;
use suture_code::layout::Layout;
use suture_code::{ChunkIndex, Code, Fingerprint};

const CODES: [&str; 7] = [
    "rs(2,1)",
    "rs(6,3)",
    "rs-vandermonde(4,2)",
    "lrc(8,2,3)",
    "butterfly(4)",
    "clay(4,2,5)",
    "clay(10,4,13)",
];

fn fingerprint(code: &Code, seed: u64, chunk: &[u8]) -> Vec<u8> {
    let mut made = Fingerprint::new(seed, Layout::of(code, chunk.len() as u64));
    made.add(0, chunk);
    made.bytes().to_vec()
}

#[test]
fn fingerprints_are_encoded_and_repaired_like_the_chunks() {
    for (name, seed) in CODES.into_iter().zip(1..) {
        let code: Code = name.parse().unwrap();
        let mut rng = Rng::new(seed);
        let length = [64, 832, 5056][rng.below(3)];
        let chunks = stripe(&code, length, &mut rng);
        let made: Vec<Vec<u8>> = chunks.iter().map(|c| fingerprint(&code, seed, c)).collect();

        let parity = run_on_stripe(&code.encode_dag(), &made);
        let parity: Vec<Vec<u8>> =
            parity.chunks(code.sub_chunk_count() as usize).map(<[_]>::concat).collect();
        assert!(parity == made[code.data_chunks()..], "{name}");

        for lost in code.chunks() {
            let helpers = code.helpers_for(&[lost], &survivors(&code, &[lost])).unwrap();
            let dag = code.repair_dag(&[lost], &helpers).unwrap();
            check_rebuilds(&dag, &made, &[lost]);
            let helpers = helpers.iter().map(|helper| (*helper, &*made[usize::from(helper.0)]));
            let helpers: Vec<(ChunkIndex, &[u8])> = helpers.collect();
            let found = repaired(&code.into(), lost, &helpers).unwrap();
            assert!(found == made[usize::from(lost.0)], "{name}, chunk {lost}");
        }
        if let Some(scheme) = code.trace_scheme(ChunkIndex(1), &[]) {
            check_rebuilds(&code.trace_dag(scheme).unwrap(), &made, &[ChunkIndex(1)]);
        }
    }
}

#[test]
fn a_chunk_with_one_other_byte_has_another_fingerprint() {
    for (name, seed) in CODES.into_iter().zip(1..) {
        let code: Code = name.parse().unwrap();
        let mut rng = Rng::new(seed);
        let mut chunk = rng.bytes(code.sub_chunk_count() as usize * 192);
        let right = fingerprint(&code, seed, &chunk);
        for _ in 0..20 {
            let (at, flip) = (rng.below(chunk.len()), 1 + rng.below(255) as u8);
            chunk[at] ^= flip;
            assert!(fingerprint(&code, seed, &chunk) != right, "{name}, byte {at} by {flip:02x}");
            chunk[at] ^= flip;
        }
    }
}
