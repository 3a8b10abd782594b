//! Systematic Reed-Solomon with a Cauchy matrix: `rs(k,m)`, byte for byte what HDFS and ISA-L
//! write.
//!
//! Place: put -> [parity, as HDFS has it]; ... -> [what a repair combines] -> plan ...
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

use crate::chunk::ChunkIndex;
use crate::dag::Dag;
use crate::describe::{ChunkRoles, Describe};
use crate::error::CodeError;
use crate::linear::{check_helper_count, check_sizes, sums_of_whole_chunks};
use crate::rs_vandermonde::product_of_distances;
use std::fmt;
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
        let sizes = check_sizes("rs", data_chunks, parity_chunks)?;
        Ok(Rs { data_chunks: sizes.data, parity_chunks: sizes.parity })
    }

    /// The rows that express each of `chunks` by the data chunks.
    #[must_use]
    pub fn generator_rows(&self, chunks: &[ChunkIndex]) -> Matrix {
        Matrix::from_fn(chunks.len(), self.data_chunks.into(), |row, column| {
            let chunk = chunks[row].0;
            if chunk < self.data_chunks {
                u8::from(usize::from(chunk) == column)
            } else {
                field::inv(chunk ^ column as u8)
            }
        })
    }

    /// The rows that express each of `lost` by exactly k other chunks.
    pub(crate) fn decoding_rows(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Matrix {
        self.generator_rows(helpers)
            .express(&self.generator_rows(lost))
            .expect("any k rows of a systematic Cauchy generator span all others")
    }
}

impl Describe for Rs {
    fn data_chunks(&self) -> usize {
        self.data_chunks.into()
    }

    fn parity_chunks(&self) -> usize {
        self.parity_chunks.into()
    }

    fn encode_dag(&self) -> Dag {
        let ChunkRoles { data, parity } = self.chunk_roles();
        sums_of_whole_chunks(&data, &parity, &self.generator_rows(&parity))
    }

    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError> {
        check_helper_count(self.data_chunks(), helpers)?;
        Ok(sums_of_whole_chunks(helpers, lost, &self.decoding_rows(lost, helpers)))
    }

    /// Chunk i is f(i) / s_i with s_i the product of the distances from i to the other data points,
    /// where f has a degree less than k: multiply out 1 / (i + j) to see it. The rest is as for
    /// `rs-vandermonde`.
    fn dual_multipliers(&self) -> Option<Vec<u8>> {
        let chunk_count = self.data_chunks + self.parity_chunks;
        let multiplier = |i| {
            let scale = product_of_distances(i, 0..self.data_chunks);
            field::div(scale, product_of_distances(i, 0..chunk_count))
        };
        Some((0..chunk_count).map(multiplier).collect())
    }
}

impl fmt::Display for Rs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rs({},{})", self.data_chunks, self.parity_chunks)
    }
}
