//! Locally repairable codes: `lrc(k,l,m)`, in the manner of Azure's.
//!
//! Place: put -> [parity computed]; ... -> [which local group repairs a chunk] -> plan ...
//! The k data chunks stand in l equal groups, one after the other. Each group has a local parity,
//! the exclusive or of its chunks, and the stripe has m global parities. Chunks are ordered data,
//! local parities, global parities. To rebuild one chunk of a group takes the rest of the group:
//! k/l helpers in place of k. The price is that not any k chunks decode.
//!
//! What decodes. Any m + 1 losses, for every code of the family, and no more can be promised of
//! any code of this shape. A pattern can be decoded by *some* coefficients when each group's losses
//! beyond the first, and the lost global parities, are together at most m. For m <= 2, with up to
//! 17 groups of up to 15 chunks, our coefficients decode all those patterns (the code is maximally
//! recoverable). Global parity r is there the sum of a^(2^r) * chunk, r = 0, 1, with this choice of
//! a: GF(256) is cut by the multiples of GF(16) into 17 subspaces that share nothing but zero; each
//! group takes its a from one of them. The hard pattern, two losses in each of two groups, leaves
//! the determinant x y (x + y), with x and y sums of two a's of either group: they lie in different
//! subspaces, so they differ.
//!
//! Other sizes take a Cauchy code of m + 1 parities whose first is scaled to all ones, and cut that
//! first parity into the local ones (a pyramid code): m + 1 losses decode because they do in the
//! code that was cut.
//!
//! Source: Huang et al., "Erasure Coding in Windows Azure Storage", ATC 2012; Huang, Chen and Li,
//! "Pyramid Codes", NCA 2007. Azure's own coefficients are not published in full; ours differ.

mod checks;

pub use checks::{Check, Checks, ChunkPrices, GroupChoice};

use crate::chunk::{CHUNK_COUNT_MAX, ChunkIndex};
use crate::dag::Dag;
use crate::describe::{ChunkRoles, Describe};
use crate::error::CodeError;
use crate::linear::sums_of_whole_chunks;
use std::fmt;
use suture_gf::{Matrix, field};

/// Subspaces of GF(256) that are multiples of GF(16), and their elements but zero.
const SUBSPACES: usize = 17;
const SUBSPACE_ELEMENTS: usize = 15;

/// A locally repairable code over k data chunks, l local and m global parities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lrc {
    data_chunks: u8,
    local_parities: u8,
    global_parities: u8,
}

impl Lrc {
    /// The code with that many chunks.
    ///
    /// # Errors
    /// [`CodeError::BreaksRule`] when a count is zero, the groups cannot be equally large, or the
    /// stripe would have more than 255 chunks.
    pub fn new(
        data_chunks: usize,
        local_parities: usize,
        global_parities: usize,
    ) -> Result<Lrc, CodeError> {
        let breaks = |rule| {
            let name = format!("lrc({data_chunks},{local_parities},{global_parities})");
            Err(CodeError::BreaksRule { name, rule })
        };
        let chunk_count = data_chunks.saturating_add(local_parities);
        if data_chunks == 0 || local_parities == 0 || global_parities == 0 {
            return breaks("it needs at least 1 data chunk, 1 local and 1 global parity");
        }
        if chunk_count.saturating_add(global_parities) > CHUNK_COUNT_MAX {
            return breaks("a stripe has at most 255 chunks");
        }
        if !data_chunks.is_multiple_of(local_parities) {
            return breaks("its l groups are equally large, so l divides k");
        }
        Ok(Lrc {
            data_chunks: data_chunks as u8,
            local_parities: local_parities as u8,
            global_parities: global_parities as u8,
        })
    }

    /// The group that a chunk belongs to; `None` for global parities.
    #[must_use]
    pub fn group(&self, chunk: ChunkIndex) -> Option<usize> {
        let (chunk, k) = (usize::from(chunk.0), self.data_chunks());
        match chunk.checked_sub(k) {
            None => Some(chunk / self.group_size()),
            Some(parity) => (parity < self.local_parities.into()).then_some(parity),
        }
    }

    /// Data chunks of a group.
    fn group_size(&self) -> usize {
        (self.data_chunks / self.local_parities).into()
    }

    /// The rows that express each of `chunks` by the data chunks.
    fn generator_rows(&self, chunks: &[ChunkIndex]) -> Matrix {
        Matrix::from_fn(chunks.len(), self.data_chunks.into(), |row, column| {
            let (chunk, data) = (chunks[row], ChunkIndex(column as u8));
            match self.group(chunk) {
                Some(_) if chunk.0 < self.data_chunks => u8::from(chunk == data),
                Some(group) => u8::from(self.group(data) == Some(group)),
                None => self.global_coefficient(chunk, data),
            }
        })
    }

    fn global_coefficient(&self, parity: ChunkIndex, data: ChunkIndex) -> u8 {
        let row = u32::from(parity.0 - self.data_chunks - self.local_parities);
        let (group, place) =
            (usize::from(data.0) / self.group_size(), usize::from(data.0) % self.group_size());
        if self.is_maximally_recoverable() {
            // Powers of the generator's 17th power are GF(16) without zero.
            let element = field::pow(field::GENERATOR, (group + SUBSPACES * place) as u32);
            return field::pow(element, 1 << row);
        }
        // Points of the Cauchy matrix: data chunks first, then the parity that was cut, then ours.
        let cut = data.0 ^ self.data_chunks;
        let ours = data.0 ^ (self.data_chunks + 1 + row as u8);
        field::div(cut, ours)
    }

    /// Whether every pattern decodes that any coefficients could decode.
    #[must_use]
    pub fn is_maximally_recoverable(&self) -> bool {
        self.global_parities <= 2
            && usize::from(self.local_parities) <= SUBSPACES
            && self.group_size() <= SUBSPACE_ELEMENTS
    }

    /// The others of a chunk's group, if all of them are available: no elimination finds better.
    fn rest_of_group(&self, lost: ChunkIndex, available: &[ChunkIndex]) -> Option<Vec<ChunkIndex>> {
        let group = Some(self.group(lost)?);
        let is_of_it = |chunk: &&ChunkIndex| **chunk != lost && self.group(**chunk) == group;
        let rest: Vec<ChunkIndex> = available.iter().filter(is_of_it).copied().collect();
        (rest.len() == self.group_size()).then_some(rest)
    }

    /// The rows that express `lost` by `helpers`, preferring those that come first.
    fn decoding_rows(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Matrix, CodeError> {
        let (lost_count, available) = (lost.len(), helpers.len());
        let express = |helpers: &[ChunkIndex]| {
            self.generator_rows(helpers).express(&self.generator_rows(lost))
        };
        let rows = if helpers.is_empty() { None } else { express(helpers) };
        rows.ok_or(CodeError::NotDetermined { lost: lost_count, available })
    }
}

impl Describe for Lrc {
    fn data_chunks(&self) -> usize {
        self.data_chunks.into()
    }

    fn parity_chunks(&self) -> usize {
        (self.local_parities + self.global_parities).into()
    }

    fn loss_tolerance(&self) -> usize {
        usize::from(self.global_parities) + 1
    }

    fn decodable(&self, available: &[ChunkIndex]) -> bool {
        self.generator_rows(available).rank() == self.data_chunks()
    }

    fn least_helper_sub_chunks(&self, lost: ChunkIndex) -> u32 {
        self.group(lost).map_or(self.data_chunks(), |_| self.group_size()) as u32
    }

    /// The groups of the lost chunks come first, so that what they can repair alone, they do.
    fn in_preference(&self, lost: &[ChunkIndex], available: &[ChunkIndex]) -> Vec<ChunkIndex> {
        let is_near = |chunk: &ChunkIndex| {
            let group = self.group(*chunk);
            group.is_some() && lost.iter().any(|&lost| self.group(lost) == group)
        };
        let (near, far): (Vec<_>, Vec<_>) = available.iter().partition(|chunk| is_near(chunk));
        [near, far].concat()
    }

    fn helpers_for(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        if let [lost] = lost
            && let Some(rest) = self.rest_of_group(*lost, available)
        {
            return Ok(rest);
        }
        let candidates = self.in_preference(lost, available);
        let rows = self.decoding_rows(lost, &candidates)?;
        let is_used = |column: usize| rows.rows().any(|row| row[column] != 0);
        let used = candidates.iter().enumerate().filter(|(column, _)| is_used(*column));
        let used: Vec<ChunkIndex> = used.map(|(_, chunk)| *chunk).collect();
        Ok(available.iter().copied().filter(|chunk| used.contains(chunk)).collect())
    }

    fn encode_dag(&self) -> Dag {
        let ChunkRoles { data, parity } = self.chunk_roles();
        sums_of_whole_chunks(&data, &parity, &self.generator_rows(&parity))
    }

    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError> {
        let rows = self.decoding_rows(lost, helpers)?;
        let needed = (0..helpers.len()).filter(|&i| rows.rows().any(|row| row[i] != 0)).count();
        if needed == helpers.len() {
            Ok(sums_of_whole_chunks(helpers, lost, &rows))
        } else {
            Err(CodeError::TooManyHelpers { needed, given: helpers.len() })
        }
    }
}

impl fmt::Display for Lrc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lrc({},{},{})", self.data_chunks, self.local_parities, self.global_parities)
    }
}
