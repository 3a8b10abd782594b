//! Systematic Reed-Solomon with a Cauchy matrix: `rs(k,m)`, byte for byte what HDFS and ISA-L
//! write.
//!
//! Place: `failure -> stripes -> [plan] -> dispatch -> slices -> durable -> commit`.
//! Chunks 0..k are the data; parity chunk i, for k <= i < k + m, is the sum over the data chunks j
//! of chunk_j / (i + j), where + is exclusive or and / is division in GF(2^8) modulo 0x11d.
//!
//! Why any k chunks suffice: the parity rows 1 / (x_i + y_j), with all x and y distinct, are a
//! Cauchy matrix, of which every square part is invertible. Hence k + m <= 256 points; we stop at
//! 255, because counts travel in a byte. The price: to rebuild one chunk takes k whole helpers.
//! Their sum can be formed anywhere on the way.
//!
//! Source: `gf_gen_cauchy1_matrix` of ISA-L and `RSUtil.genCauchyMatrix` of HDFS (codec "rs"; its
//! "rs-legacy" differs).

use crate::code::{CHUNK_COUNT_MAX, ChunkIndex, check_repair};
use crate::dag::{BYTE_WIDTH, Dag, Join, Map, Source, Term, ValueId};
use crate::error::CodeError;
use suture_gf::{Matrix, field};

/// Reed-Solomon over k data and m parity chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rs {
    data_chunks: u8,
    parity_chunks: u8,
}

impl Rs {
    /// The code with that many chunks.
    ///
    /// # Errors
    /// [`CodeError::ImpossibleParameters`] when a count is zero or the stripe would have more than
    /// 255 chunks.
    pub fn new(data_chunks: usize, parity_chunks: usize) -> Result<Rs, CodeError> {
        let possible = data_chunks >= 1
            && parity_chunks >= 1
            && data_chunks.saturating_add(parity_chunks) <= CHUNK_COUNT_MAX;
        if !possible {
            let chunk_count_max = CHUNK_COUNT_MAX;
            return Err(CodeError::ImpossibleParameters {
                family: "rs",
                data_chunks,
                parity_chunks,
                chunk_count_max,
            });
        }
        Ok(Rs { data_chunks: data_chunks as u8, parity_chunks: parity_chunks as u8 })
    }

    /// k.
    #[must_use]
    pub fn data_chunks(&self) -> usize {
        self.data_chunks as usize
    }

    /// m.
    #[must_use]
    pub fn parity_chunks(&self) -> usize {
        self.parity_chunks as usize
    }

    /// The rows that express each of `chunks` by the data chunks.
    #[must_use]
    pub fn generator_rows(&self, chunks: &[ChunkIndex]) -> Matrix {
        Matrix::from_fn(chunks.len(), self.data_chunks(), |row, column| {
            let chunk = chunks[row].0;
            match chunk < self.data_chunks {
                true => u8::from(usize::from(chunk) == column),
                false => field::inv(chunk ^ column as u8),
            }
        })
    }

    pub(crate) fn encode_dag(&self) -> Dag {
        let data: Vec<ChunkIndex> = (0..self.data_chunks).map(ChunkIndex).collect();
        let parity: Vec<ChunkIndex> =
            (self.data_chunks..self.data_chunks + self.parity_chunks).map(ChunkIndex).collect();
        sums_of_whole_chunks(&data, &parity, &self.generator_rows(&parity))
    }

    pub(crate) fn repair_dag(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Dag, CodeError> {
        check_repair(self.data_chunks() + self.parity_chunks(), lost, helpers)?;
        let (needed, given) = (self.data_chunks(), helpers.len());
        if given < needed {
            return Err(CodeError::NotEnoughChunks { needed, available: given });
        }
        if given > needed {
            return Err(CodeError::TooManyHelpers { needed, given });
        }
        let coefficients = self
            .generator_rows(helpers)
            .express(&self.generator_rows(lost))
            .expect("any k rows of a systematic Cauchy generator span all others");
        Ok(sums_of_whole_chunks(helpers, lost, &coefficients))
    }
}

/// The DAG `outputs = coefficients * sources` over whole chunks.
fn sums_of_whole_chunks(
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
        let terms = values
            .iter()
            .zip(row)
            .map(|(&value, &c)| Term { value, map: Map::Coefficient(c) })
            .collect();
        let sum = dag.add_sum(BYTE_WIDTH, Join::Anywhere, terms);
        dag.add_output(chunk, 0, sum);
    }
    dag
}
