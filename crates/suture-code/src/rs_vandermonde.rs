//! Systematic Reed-Solomon from a Vandermonde matrix: `rs-vandermonde(k,m)`, byte for byte what the
//! Go library klauspost/reedsolomon writes, and so Backblaze's Java library, MinIO and SeaweedFS.
//!
//! Place: put -> [parity, as Ceph has it]; ... -> [what a repair combines] -> plan ...
//! Those libraries fill a Vandermonde matrix with i^j, for chunk i and power j, and multiply it by
//! the inverse of its top square, so that the data stay as they are. Said with polynomials: chunk i
//! is f(i), where f is the polynomial of degree less than k through the data chunks. Hence any k
//! chunks determine f, and encoding, decoding and repair are one and the same: Lagrange's
//! interpolation. No matrix is inverted here.
//!
//! Source: `buildMatrix` in reedsolomon.go of klauspost/reedsolomon, its default; the options for
//! Cauchy, PAR1 and leopard matrices make other codes.

use crate::chunk::ChunkIndex;
use crate::dag::Dag;
use crate::describe::{ChunkRoles, Describe};
use crate::error::CodeError;
use crate::linear::{check_helper_count, check_sizes, sums_of_whole_chunks};
use std::fmt;
use suture_gf::{Matrix, field};

/// Reed-Solomon over k data and m parity chunks, by interpolation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RsVandermonde {
    data_chunks: u8,
    parity_chunks: u8,
}

impl RsVandermonde {
    /// The code with that many chunks.
    ///
    /// # Errors
    /// [`CodeError::ImpossibleParameters`] when a count is zero or the stripe would have more than
    /// 255 chunks.
    pub fn new(data_chunks: usize, parity_chunks: usize) -> Result<RsVandermonde, CodeError> {
        let sizes = check_sizes("rs-vandermonde", data_chunks, parity_chunks)?;
        Ok(RsVandermonde { data_chunks: sizes.data, parity_chunks: sizes.parity })
    }
}

impl Describe for RsVandermonde {
    fn data_chunks(&self) -> usize {
        self.data_chunks.into()
    }

    fn parity_chunks(&self) -> usize {
        self.parity_chunks.into()
    }

    fn encode_dag(&self) -> Dag {
        let ChunkRoles { data, parity } = self.chunk_roles();
        sums_of_whole_chunks(&data, &parity, &interpolate(&data, &parity))
    }

    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError> {
        check_helper_count(self.data_chunks(), helpers)?;
        Ok(sums_of_whole_chunks(helpers, lost, &interpolate(helpers, lost)))
    }

    /// A polynomial of degree less than n-1 through all n points satisfies one linear relation:
    /// its divided difference is zero. The multipliers are those of the divided difference.
    fn dual_multipliers(&self) -> Option<Vec<u8>> {
        let chunk_count = self.data_chunks + self.parity_chunks;
        Some(
            (0..chunk_count).map(|i| field::inv(product_of_distances(i, 0..chunk_count))).collect(),
        )
    }
}

impl fmt::Display for RsVandermonde {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rs-vandermonde({},{})", self.data_chunks, self.parity_chunks)
    }
}

/// Lagrange's coefficients: f(to) = sum over `from` of f(from) * product of (to - other) / (from -
/// other). Subtraction is exclusive or.
fn interpolate(from: &[ChunkIndex], to: &[ChunkIndex]) -> Matrix {
    let points = || from.iter().map(|chunk| chunk.0);
    let scales: Vec<u8> = points().map(|i| product_of_distances(i, points())).collect();
    let nodal: Vec<u8> = to.iter().map(|chunk| product_of_distances(chunk.0, points())).collect();
    Matrix::from_fn(to.len(), from.len(), |row, column| {
        let distance = to[row].0 ^ from[column].0;
        field::div(nodal[row], field::mul(distance, scales[column]))
    })
}

/// The product of the differences between `point` and all the others.
pub(crate) fn product_of_distances(point: u8, points: impl IntoIterator<Item = u8>) -> u8 {
    let others = points.into_iter().filter(|&other| other != point);
    others.fold(1, |product, other| field::mul(product, point ^ other))
}
