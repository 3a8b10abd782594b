//! Shortened codes: with chunks known to be zero every repair gives the bytes, from fewer helpers.
//!
//! Place: random known zeros, losses and preferences, for every family without sub-chunks.

use crate::common::{Rng, check_rebuilds, encode, run_on_stripe};
use suture_code::{ChunkIndex, ChunkSet, Code, CodeError, Shortened};

const CODES: [&str; 7] = [
    "rs(6,3)",
    "rs(10,4)",
    "rs(3,2)",
    "rs-vandermonde(6,3)",
    "lrc(6,2,2)",
    "lrc(8,2,3)",
    "lrc(9,3,1)",
];

/// A code with random known zeros among its data, which leave the other chunks free.
fn shortened(rng: &mut Rng, code: Code) -> Shortened {
    let data: Vec<ChunkIndex> = code.chunks().take(code.data_chunks()).collect();
    loop {
        let count = 1 + rng.below(code.data_chunks() - 1);
        let zeros = rng.choose(&data, count).into_iter().collect();
        let shortened = Shortened::new(code, zeros);
        if shortened.check().is_ok() {
            return shortened;
        }
    }
}

/// A stripe of which the known zeros are zero.
fn stripe(rng: &mut Rng, code: &Shortened) -> Vec<Vec<u8>> {
    let data = (0..code.code().data_chunks()).map(|chunk| {
        let bytes = rng.bytes(64);
        if code.is_zero(ChunkIndex(chunk as u8)) { vec![0; 64] } else { bytes }
    });
    encode(&code.code(), data.collect())
}

#[test]
fn known_zeros_help_and_are_not_read() {
    let mut rng = Rng::new(7);
    for name in CODES {
        let code: Code = name.parse().unwrap();
        for _ in 0..200 {
            let code = shortened(&mut rng, code);
            let stripe = stripe(&mut rng, &code);
            let real: Vec<ChunkIndex> = code.chunks().filter(|c| !code.is_zero(*c)).collect();
            let count = 1 + rng.below(code.loss_tolerance().min(real.len() - 1));
            let lost = rng.choose(&real, count);
            let left: Vec<ChunkIndex> = real.into_iter().filter(|c| !lost.contains(c)).collect();
            let order = rng.choose(&left, left.len());
            let helpers = code.helpers_for(&lost, &order).expect("so many may be lost");
            let in_order: Vec<_> = order.iter().filter(|c| helpers.contains(c)).copied().collect();
            assert_eq!(helpers, in_order, "{name}: in the order of preference");
            assert!(helpers.len() <= code.data_chunks(), "{name}: {helpers:?}");
            if code.loss_tolerance() == code.code().parity_chunks() {
                assert_eq!(helpers, order[..code.data_chunks()], "{name}: any so many");
            }
            let dag = code.repair_dag(&lost, &helpers).unwrap();
            let reads: Vec<ChunkIndex> = dag.reads().into_iter().map(|(chunk, _)| chunk).collect();
            assert!(reads.iter().all(|chunk| helpers.contains(chunk)), "{name}: {reads:?}");
            check_rebuilds(&dag, &stripe, &lost);
        }
    }
}

#[test]
fn known_zeros_send_no_traces() {
    let mut rng = Rng::new(3);
    let code: Code = "rs(6,3)".parse().unwrap();
    for scheme in code.schemes() {
        let code = shortened(&mut rng, code);
        if code.is_zero(scheme.lost()) {
            continue;
        }
        let stripe = stripe(&mut rng, &code);
        let dag = code.trace_dag(scheme).unwrap();
        dag.validate().unwrap();
        assert!(dag.reads().iter().all(|(chunk, _)| !code.is_zero(*chunk)));
        assert_eq!(run_on_stripe(&dag, &stripe)[0], stripe[usize::from(scheme.lost().0)]);
    }
}

#[test]
fn what_known_zeros_make_impossible_is_refused() {
    let zeros = |chunks: &[u8]| chunks.iter().copied().map(ChunkIndex).collect::<ChunkSet>();
    let check =
        |name: &str, chunks: &[u8]| Shortened::new(name.parse().unwrap(), zeros(chunks)).check();
    assert_eq!(check("rs(6,3)", &[1, 2, 3, 4, 5]), Ok(()));
    assert_eq!(
        check("rs(6,3)", &[0, 1, 2, 3, 4, 5]),
        Err(CodeError::ZeroToo { chunk: ChunkIndex(6) })
    );
    assert_eq!(check("lrc(6,2,2)", &[3, 4, 5]), Err(CodeError::ZeroToo { chunk: ChunkIndex(7) }));
    assert_eq!(check("lrc(6,2,2)", &[3, 4, 5, 7]), Ok(()));
    let chunk = ChunkIndex(9);
    assert_eq!(check("rs(6,3)", &[9]), Err(CodeError::NoSuchChunk { chunk, chunk_count: 9 }));
    let refused =
        Err(CodeError::ZeroSubChunks { code: "butterfly(4)".into(), chunk: ChunkIndex(1) });
    assert_eq!(check("butterfly(4)", &[1]), refused);

    let code = Shortened::new("rs(3,2)".parse().unwrap(), zeros(&[1]));
    let repair = |lost: u8, helpers: &[u8]| {
        code.repair_dag(&[ChunkIndex(lost)], &zeros(helpers).iter().collect::<Vec<_>>())
    };
    let needed = 2;
    assert_eq!(repair(0, &[2]), Err(CodeError::NotEnoughChunks { needed, available: 1 }));
    assert_eq!(repair(0, &[2, 3, 4]), Err(CodeError::TooManyHelpers { needed, given: 3 }));
    assert_eq!(repair(0, &[1, 2]), Err(CodeError::KnownZero { chunk: ChunkIndex(1) }));
    assert_eq!(repair(1, &[2, 3]), Err(CodeError::KnownZero { chunk: ChunkIndex(1) }));
    assert!(repair(0, &[2, 3]).is_ok());
    assert_eq!((code.data_chunks(), code.least_helper_sub_chunks(ChunkIndex(0))), (2, 2));
    assert!(code.decodable(&[ChunkIndex(0), ChunkIndex(4)]));
    assert!(!code.decodable(&[ChunkIndex(4)]));
}
