//! What every code answers, and what is checked before it is asked.
//!
//! Place: ... stripe affected -> [which chunks can help, and what is combined] -> plan ...
//! One file for each code answers; `code.rs` passes on what it is asked.

use std::fmt;

use crate::chunk::ChunkIndex;
use crate::dag::Dag;
use crate::error::CodeError;

/// What a code answers about itself. [`Code`] documents the questions; the answers given here are
/// those of codes that any k chunks decode. Chunk lists have been checked: they name chunks of the
/// stripe, none twice, and no helper is lost.
pub(crate) trait Describe: fmt::Display {
    fn data_chunks(&self) -> usize;
    fn parity_chunks(&self) -> usize;

    fn sub_chunk_count(&self) -> u32 {
        1
    }

    fn loss_tolerance(&self) -> usize {
        self.parity_chunks()
    }

    fn decodable(&self, available: &[ChunkIndex]) -> bool {
        available.len() >= self.data_chunks()
    }

    fn least_helper_sub_chunks(&self, _lost: ChunkIndex) -> u32 {
        self.data_chunks() as u32
    }

    fn helpers_for(
        &self,
        _lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        let needed = self.data_chunks();
        let first = available.get(..needed).map(<[ChunkIndex]>::to_vec);
        first.ok_or(CodeError::NotEnoughChunks { needed, available: available.len() })
    }

    /// `available` as helpers are preferred: those first that send least for the lost chunks.
    fn in_preference(&self, _lost: &[ChunkIndex], available: &[ChunkIndex]) -> Vec<ChunkIndex> {
        available.to_vec()
    }

    fn encode_dag(&self) -> Dag;
    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError>;

    /// Where chunk i is a multiple of f(i) with f any polynomial of degree less than k: for each
    /// chunk a number w_i such that the sum of w_i * q(i) * chunk_i is zero for every polynomial q
    /// of degree less than m. Trace repair is built on it.
    fn dual_multipliers(&self) -> Option<Vec<u8>> {
        None
    }

    fn chunk_roles(&self) -> ChunkRoles {
        let chunks = 0..(self.data_chunks() + self.parity_chunks()) as u8;
        let is_data = |chunk: &ChunkIndex| usize::from(chunk.0) < self.data_chunks();
        let (data, parity) = chunks.map(ChunkIndex).partition(is_data);
        ChunkRoles { data, parity }
    }
}

/// Which chunks hold data, and which parity.
pub(crate) struct ChunkRoles {
    pub data: Vec<ChunkIndex>,
    pub parity: Vec<ChunkIndex>,
}

/// The checks that every code makes of a repair: chunks exist, none is named twice, and none is
/// both lost and helping.
pub(crate) fn check_repair(
    chunk_count: usize,
    lost: &[ChunkIndex],
    helpers: &[ChunkIndex],
) -> Result<(), CodeError> {
    if lost.is_empty() {
        return Err(CodeError::NothingLost);
    }
    let mut is_lost = [false; 256];
    let mut is_helper = [false; 256];
    for (chunks, seen) in [(lost, &mut is_lost), (helpers, &mut is_helper)] {
        for &chunk in chunks {
            if usize::from(chunk.0) >= chunk_count {
                return Err(CodeError::NoSuchChunk { chunk, chunk_count });
            }
            if std::mem::replace(&mut seen[usize::from(chunk.0)], true) {
                return Err(CodeError::DuplicateChunk { chunk });
            }
        }
    }
    match helpers.iter().find(|chunk| is_lost[usize::from(chunk.0)]) {
        Some(&chunk) => Err(CodeError::HelperIsLost { chunk }),
        None => Ok(()),
    }
}
