//! What codes of whole chunks have in common: every output is a sum of chunks times constants.
//!
//! Place: put -> [parity computed]; ... -> [coefficients of a repair] -> plan ...; under the codes.
//! Invariant: no term has the coefficient zero, so whatever a sum names is needed.

use crate::chunk::{CHUNK_COUNT_MAX, ChunkIndex};
use crate::dag::{BYTE_WIDTH, Dag, Join, Source, Term, ValueId};
use crate::error::CodeError;
use suture_gf::Matrix;

/// The DAG `outputs = coefficients * sources` over whole chunks.
pub(crate) fn sums_of_whole_chunks(
    sources: &[ChunkIndex],
    outputs: &[ChunkIndex],
    coefficients: &Matrix,
) -> Dag {
    let mut dag = Dag::new(1);
    let values: Vec<ValueId> = sources
        .iter()
        .map(|&chunk| dag.add_source(Source { chunk, sub_chunk: 0 }, BYTE_WIDTH))
        .collect();
    for (&chunk, row) in outputs.iter().zip(coefficients.rows()) {
        let terms = row.iter().zip(&values).filter(|&(&coefficient, _)| coefficient != 0);
        let terms = terms.map(|(&coefficient, &value)| Term::times(coefficient, value)).collect();
        let sum = dag.add_sum(BYTE_WIDTH, Join::Anywhere, terms);
        dag.add_output(chunk, 0, sum);
    }
    dag
}

/// How many chunks of each kind a stripe has.
pub(crate) struct CodeSizes {
    pub data: u8,
    pub parity: u8,
}

/// The sizes of a code as they are stored.
///
/// # Errors
/// [`CodeError::ImpossibleParameters`] when a count is zero or the stripe would have more than 255
/// chunks.
pub(crate) fn check_sizes(
    family: &'static str,
    data_chunks: usize,
    parity_chunks: usize,
) -> Result<CodeSizes, CodeError> {
    let possible = data_chunks >= 1
        && parity_chunks >= 1
        && data_chunks.saturating_add(parity_chunks) <= CHUNK_COUNT_MAX;
    if possible {
        return Ok(CodeSizes { data: data_chunks as u8, parity: parity_chunks as u8 });
    }
    let chunk_count_max = CHUNK_COUNT_MAX;
    Err(CodeError::ImpossibleParameters { family, data_chunks, parity_chunks, chunk_count_max })
}

/// Whether there are exactly `needed` helpers.
pub(crate) fn check_helper_count(needed: usize, helpers: &[ChunkIndex]) -> Result<(), CodeError> {
    match helpers.len() {
        given if given < needed => Err(CodeError::NotEnoughChunks { needed, available: given }),
        given if given > needed => Err(CodeError::TooManyHelpers { needed, given }),
        _ => Ok(()),
    }
}
