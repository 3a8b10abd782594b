//! Trace repair: every embedded scheme sends the bits that it is said to send, and rebuilds.
//!
//! Place: data that exists already, in codes that others wrote.

use crate::common::{Rng, check_rebuilds, chunks, stripe};
use std::collections::BTreeMap;
use suture_code::dag::BYTE_WIDTH;
use suture_code::{ChunkIndex, Code, CodeError, Scheme};

const SCHEMES: &str = include_str!("../src/trace/schemes.txt");

/// Sizes with schemes, and how many there are: each lost chunk, and for two sizes each lost chunk
/// with each other one missing.
const SIZES: [(usize, usize, usize); 6] =
    [(3, 2, 5), (6, 3, 9 + 72), (10, 4, 14 + 182), (12, 4, 16), (8, 3, 11), (17, 3, 20)];

fn code(family: &str, k: usize, m: usize) -> Code {
    format!("{family}({k},{m})").parse().unwrap()
}

/// The recorded bits by code and scheme.
fn recorded() -> BTreeMap<(String, String), usize> {
    let parse = |line: &str| {
        let [k, m, bits, scheme] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        ((format!("({k},{m})"), scheme.to_string()), bits.parse().unwrap())
    };
    SCHEMES.lines().map(parse).collect()
}

#[test]
fn every_scheme_rebuilds_with_the_bits_that_are_recorded() {
    let recorded = recorded();
    for family in ["rs", "rs-vandermonde"] {
        for (k, m, scheme_count) in SIZES {
            let code = code(family, k, m);
            let stripe = stripe(&code, 64 + 7, &mut Rng::new(k as u64));
            assert_eq!(code.schemes().len(), scheme_count);
            for scheme in code.schemes() {
                let bits = recorded[&(format!("({k},{m})"), scheme.to_string())];
                check_scheme(&code, scheme, bits, &stripe);
            }
        }
    }
    assert_eq!(recorded.len(), SIZES.iter().map(|(_, _, count)| count).sum::<usize>());
}

/// The ranks are counted again from the masks in the DAG, and must be all that travels.
fn check_scheme(code: &Code, scheme: &Scheme, bits: usize, stripe: &[Vec<u8>]) {
    let dag = code.trace_dag(scheme).unwrap();
    check_rebuilds(&dag, stripe, &[scheme.lost()]);
    let mut sent = Vec::new();
    for (chunk, rows) in dag.sent_values() {
        let [row] = rows[..] else { panic!("one value from each helper") };
        let suture_code::dag::Origin::Sum { terms, .. } = &dag.value(row).origin else {
            panic!("traces are sums")
        };
        let suture_code::Map::Bits(map) = terms[0].map else { panic!("a bit matrix") };
        assert_eq!((map.rank(), map.row_count()), (dag.value(row).width, dag.value(row).width));
        sent.push((chunk, map.rank()));
    }
    assert_eq!(sent, scheme.ranks(code.chunk_count()));
    assert_eq!(sent.iter().map(|(_, rank)| rank).sum::<usize>(), bits);
    assert!(bits < BYTE_WIDTH * code.data_chunks());
    let missing = scheme.missing();
    assert_eq!(sent.len() + missing.len() + 1, code.chunk_count());
    assert!(sent.iter().all(|(chunk, _)| !missing.contains(chunk) && *chunk != scheme.lost()));
    assert_eq!(code.trace_scheme(scheme.lost(), missing), Some(scheme));
}

/// The table of what trace repair saves.
#[test]
fn mean_bits_are_those_that_are_promised() {
    for (k, m, tenths) in
        [(3, 2, 172), (6, 3, 319), (8, 3, 429), (10, 4, 499), (12, 4, 580), (17, 3, 962)]
    {
        let code = code("rs", k, m);
        let n = code.chunk_count();
        let bits = |lost| -> usize {
            let scheme = code.trace_scheme(lost, &[]).expect("a scheme for every chunk");
            scheme.ranks(n).iter().map(|(_, rank)| rank).sum()
        };
        let mean = code.chunks().map(bits).sum::<usize>() as f64 / n as f64;
        assert_eq!((10.0 * mean).round() as usize, tenths, "rs({k},{m})");
    }
}

#[test]
fn ids_name_schemes() {
    for (k, m, _) in SIZES {
        let schemes = code("rs", k, m).schemes();
        let ids: std::collections::BTreeSet<u32> = schemes.iter().map(Scheme::id).collect();
        assert_eq!(ids.len(), schemes.len(), "different schemes of ({k},{m}) have different ids");
        for scheme in schemes {
            assert_eq!(scheme.to_string().parse(), Ok(scheme.clone()));
            assert_eq!(code("rs", k, m).scheme(scheme.id()), Some(scheme));
        }
        assert_eq!(code("rs", k, m).scheme(1), None);
    }
}

#[test]
fn codes_without_schemes_say_so() {
    assert!(code("rs", 5, 2).schemes().is_empty());
    assert_eq!(code("rs", 5, 2).trace_scheme(ChunkIndex(0), &[]), None);
    assert_eq!(code("rs", 6, 3).trace_scheme(ChunkIndex(0), &chunks(&[1, 2])), None);
    assert_eq!(code("rs", 3, 2).trace_scheme(ChunkIndex(0), &chunks(&[1])), None);
    let scheme = code("rs", 6, 3).trace_scheme(ChunkIndex(0), &chunks(&[4])).unwrap();
    for name in ["lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)"] {
        let code: Code = name.parse().unwrap();
        assert!(code.schemes().is_empty());
        assert_eq!(code.trace_dag(scheme), Err(CodeError::NoTraces { code: name.into() }));
        let search = code.scheme_search(ChunkIndex(0), &[], 1);
        assert_eq!(search.unwrap_err(), CodeError::NoTraces { code: name.into() });
    }
    assert_eq!(
        code("rs", 6, 2).trace_dag(scheme),
        Err(CodeError::SchemeTooDeep { needed: 3, parity_chunks: 2 })
    );
    assert_eq!(
        code("rs", 2, 2).trace_dag(scheme),
        Err(CodeError::NoSuchChunk { chunk: ChunkIndex(4), chunk_count: 4 })
    );
}

#[test]
fn malformed_schemes_are_refused() {
    for text in [
        "",
        "0",
        "0 -",
        "0 - 1",
        "0 - 0011",
        "0 x 0011223344556677",
        "300 - 0011223344556677",
        "0 - 00112233445566zz",
        "0 - 0011223344556677 1",
    ] {
        let malformed = CodeError::MalformedScheme { text: text.into() };
        assert_eq!(text.parse::<Scheme>(), Err(malformed), "{text:?}");
    }
    let scheme: Scheme = "2 0,1 0011223344556677".parse().unwrap();
    assert_eq!((scheme.lost(), scheme.missing()), (ChunkIndex(2), &chunks(&[0, 1])[..]));
}

/// A scheme cannot be wrong: eight random quotients rebuild as well, only from more bits.
#[test]
fn random_quotients_rebuild() {
    let code = code("rs", 6, 3);
    let mut rng = Rng::new(77);
    let stripe = stripe(&code, 65, &mut rng);
    for lost in code.chunks() {
        let hex: String = rng.bytes(16).iter().map(|byte| format!("{byte:02x}")).collect();
        let scheme: Scheme = format!("{lost} - {hex}").parse().unwrap();
        check_rebuilds(&code.trace_dag(&scheme).unwrap(), &stripe, &[lost]);
    }
    // Without quotients every helper but k sends nothing less than everything it can: 8 bits.
    let naive: Scheme = "0 1,2 -".parse().unwrap();
    check_rebuilds(&code.trace_dag(&naive).unwrap(), &stripe, &chunks(&[0]));
    assert_eq!(naive.to_string().parse(), Ok(naive.clone()));
    assert!(naive.ranks(9).iter().all(|(_, rank)| *rank == 8));
}

#[test]
fn the_search_finds_small_schemes_and_repeats_itself() {
    for (family, k, m, lost, missing, bits_max) in [
        ("rs", 3, 2, 1, &[][..], 18),
        ("rs-vandermonde", 6, 3, 8, &[], 35),
        ("rs", 6, 3, 2, &[5], 38),
        ("rs", 20, 2, 0, &[], 150),
    ] {
        let code = code(family, k, m);
        let missing = chunks(missing);
        let begin = || code.scheme_search(ChunkIndex(lost), &missing, 42).unwrap();
        let (mut search, mut again) = (begin(), begin());
        search.step(300);
        (0..3).for_each(|_| again.step(100));
        assert_eq!(search.best(), again.best(), "the same seed, the same moves");
        search.step(1000);
        let scheme = search.best();
        let bits = search.best_bits();
        assert!(bits <= bits_max, "{code}: {bits}");
        let stripe = stripe(&code, 64, &mut Rng::new(1));
        check_scheme_of_search(&code, &scheme, bits, &stripe);
    }
}

fn check_scheme_of_search(code: &Code, scheme: &Scheme, bits: usize, stripe: &[Vec<u8>]) {
    check_rebuilds(&code.trace_dag(scheme).unwrap(), stripe, &[scheme.lost()]);
    let ranks = scheme.ranks(code.chunk_count());
    assert_eq!(ranks.iter().map(|(_, rank)| rank).sum::<usize>(), bits);
}

#[test]
fn searches_that_make_no_sense_are_refused() {
    let code = code("rs", 6, 3);
    let refused = |lost, missing: &[u8]| {
        code.scheme_search(ChunkIndex(lost), &chunks(missing), 0).unwrap_err()
    };
    assert_eq!(refused(0, &[1, 2, 3]), CodeError::NotEnoughChunks { needed: 6, available: 5 });
    assert_eq!(refused(0, &[0]), CodeError::HelperIsLost { chunk: ChunkIndex(0) });
    assert_eq!(refused(9, &[]), CodeError::NoSuchChunk { chunk: ChunkIndex(9), chunk_count: 9 });
    let mut exact = code.scheme_search(ChunkIndex(0), &chunks(&[1, 2]), 0).unwrap();
    exact.step(3);
    assert_eq!(exact.best_bits(), 48, "k chunks are k chunks");
}
