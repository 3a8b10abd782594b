//! Names of codes: whatever parses prints back to itself, and describes itself without
//! contradiction.
//!
//! Place: the first thing that an operator, a manifest or a caller in C hands over.

use suture_code::{ChunkIndex, Code};

/// Sub-chunks of a stripe up to which a code is asked for its DAGs: larger ones take seconds.
const SUB_CHUNKS_MAX: usize = 1024;

/// Inputs to begin with.
pub fn valid() -> Vec<Vec<u8>> {
    let names = [
        "rs(6,3)",
        " RS ( 200 , 55 )",
        "rs-vandermonde(10,4)",
        "lrc(12,2,2)",
        "lrc(8,4,5)",
        "butterfly(4)",
        "clay(4,2,5)",
        "clay(10,4,13)",
        "clay(1,64,64)",
        "rs(18446744073709551615,2)",
    ];
    names.map(|name| name.as_bytes().to_vec()).to_vec()
}

/// Gives whether the input was accepted.
///
/// # Panics
/// When a code breaks a promise of suture-code.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let code: Code = match text.parse() {
        Ok(code) => code,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!(code.to_string().parse(), Ok(code), "{text:?}");
    let (k, m) = (code.data_chunks(), code.parity_chunks());
    assert!(k >= 1 && (1..=m).contains(&code.loss_tolerance()), "{code}");
    assert!(code.chunk_count() == k + m && k + m <= 255, "{code}");
    if code.chunk_count() * code.sub_chunk_count() as usize > SUB_CHUNKS_MAX {
        return true;
    }
    code.encode_dag().validate().unwrap_or_else(|fault| panic!("{code} encodes: {fault}"));
    let lost = ChunkIndex((bytes.len() % code.chunk_count()) as u8);
    let others: Vec<ChunkIndex> = code.chunks().filter(|&chunk| chunk != lost).collect();
    let helpers = code.helpers_for(&[lost], &others).expect("every code survives one loss");
    let dag = code.repair_dag(&[lost], &helpers).expect("helpers of its own choice");
    dag.validate().unwrap_or_else(|fault| panic!("{code} repairs chunk {lost}: {fault}"));
    let sent: u32 = dag.sends().iter().map(|(_, rows)| rows).sum();
    assert!(sent >= code.least_helper_sub_chunks(lost), "{code}, chunk {lost}");
    true
}
