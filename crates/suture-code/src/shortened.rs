//! Shortened codes: a code of which some chunks are known to be zero.
//!
//! Place: `failure -> stripes -> [plan] -> dispatch -> slices -> durable -> commit`.
//! A stripe that was not filled has chunks of which nothing is stored: they are known to be zero.
//! Such a chunk helps every repair and supplies nothing, so a repair takes fewer helpers, and no
//! DAG reads it. In the algebra it is divided out: what has to be spanned is the space modulo the
//! rows of the known zeros, which is why they come first wherever chunks are preferred in an order.
//!
//! Invariants: without known zeros every answer is the code's own, unchanged; a helper set that
//! `helpers_for` gives is one that `repair_dag` takes, and contains no known zero.
//!
//! Deliberately absent: known zeros of codes with sub-chunks, whose helper sets are of a fixed
//! size; [`Shortened::check`] refuses them.

use crate::chunk::{CHUNK_COUNT_MAX, ChunkIndex};
use crate::code::Code;
use crate::dag::Dag;
use crate::describe::check_repair;
use crate::error::CodeError;
use crate::linear::sums_of_whole_chunks;
use crate::trace::Scheme;
use std::fmt;
use suture_gf::Matrix;

/// A code and the chunks of a stripe that are known to be zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortened {
    code: Code,
    zeros: ChunkSet,
}

/// A set of chunks of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ChunkSet([u64; CHUNK_COUNT_MAX.div_ceil(64)]);

impl ChunkSet {
    /// Whether it has no chunks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many chunks it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has the chunk.
    #[must_use]
    pub fn contains(&self, chunk: ChunkIndex) -> bool {
        self.0[usize::from(chunk.0) / 64] >> (chunk.0 % 64) & 1 == 1
    }

    /// Its chunks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        let set = *self;
        (0..=u8::MAX).map(ChunkIndex).filter(move |chunk| set.contains(*chunk))
    }
}

impl FromIterator<ChunkIndex> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = ChunkIndex>>(chunks: I) -> ChunkSet {
        chunks.into_iter().fold(ChunkSet::default(), |mut set, ChunkIndex(chunk)| {
            set.0[usize::from(chunk) / 64] |= 1 << (chunk % 64);
            set
        })
    }
}

impl From<Code> for Shortened {
    fn from(code: Code) -> Shortened {
        Shortened { code, zeros: ChunkSet::default() }
    }
}

impl Shortened {
    /// The code, with these chunks known to be zero.
    #[must_use]
    pub fn new(code: Code, zeros: ChunkSet) -> Shortened {
        Shortened { code, zeros }
    }

    /// Whether a stripe can have these known zeros, and its other chunks may be anything.
    ///
    /// # Errors
    /// [`CodeError::NoSuchChunk`]; [`CodeError::ZeroSubChunks`] when the code cuts chunks into
    /// sub-chunks; [`CodeError::ZeroToo`] when another chunk must be zero as well.
    pub fn check(&self) -> Result<(), CodeError> {
        let chunk_count = self.code.chunk_count();
        let Some(chunk) = self.zeros.iter().last() else { return Ok(()) };
        if usize::from(chunk.0) >= chunk_count {
            return Err(CodeError::NoSuchChunk { chunk, chunk_count });
        }
        if self.code.sub_chunk_count() > 1 {
            return Err(CodeError::ZeroSubChunks { code: self.code.to_string(), chunk });
        }
        match self.code.chunks().find(|chunk| !self.is_zero(*chunk) && self.is_zero_too(*chunk)) {
            Some(chunk) => Err(CodeError::ZeroToo { chunk }),
            None => Ok(()),
        }
    }

    /// The code, of which nothing is known.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The chunks that are known to be zero.
    #[must_use]
    pub fn zeros(&self) -> ChunkSet {
        self.zeros
    }

    /// Whether the chunk is known to be zero.
    #[must_use]
    pub fn is_zero(&self, chunk: ChunkIndex) -> bool {
        self.zeros.contains(chunk)
    }

    /// The dimension of what is left: k less the known zeros, where any k chunks decode.
    #[must_use]
    pub fn data_chunks(&self) -> usize {
        let zeros: Vec<ChunkIndex> = self.zeros.iter().collect();
        let divided = if zeros.is_empty() { 0 } else { self.generator_rows(&zeros).rank() };
        self.code.data_chunks() - divided
    }

    /// [`Code::chunk_count`], known zeros included.
    #[must_use]
    pub fn chunk_count(&self) -> usize {
        self.code.chunk_count()
    }

    /// [`Code::chunks`], known zeros included.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        self.code.chunks()
    }

    /// As [`Code::sub_chunk_count`] of the code.
    #[must_use]
    pub fn sub_chunk_count(&self) -> u32 {
        self.code.sub_chunk_count()
    }

    /// As [`Code::alignment`] of the code.
    #[must_use]
    pub fn alignment(&self) -> usize {
        self.code.alignment()
    }

    /// [`Code::loss_tolerance`]: of the chunks that are not known to be zero, so many may be lost.
    #[must_use]
    pub fn loss_tolerance(&self) -> usize {
        self.code.loss_tolerance()
    }

    /// [`Code::decodable`], with the known zeros besides.
    #[must_use]
    pub fn decodable(&self, available: &[ChunkIndex]) -> bool {
        self.code.decodable(&[available, &self.zeros.iter().collect::<Vec<_>>()].concat())
    }

    /// [`Code::least_helper_sub_chunks`].
    ///
    /// # Panics
    /// When there is no such chunk, or it is known to be zero.
    #[must_use]
    pub fn least_helper_sub_chunks(&self, lost: ChunkIndex) -> u32 {
        if self.zeros.is_empty() {
            return self.code.least_helper_sub_chunks(lost);
        }
        let others = self.chunks().filter(|chunk| *chunk != lost && !self.is_zero(*chunk));
        let helpers = self.helpers_for(&[lost], &others.collect::<Vec<_>>());
        helpers.expect("all others rebuild a chunk that is not known to be zero").len() as u32
    }

    /// [`Code::helpers_for`]; `available` and the answer are without known zeros.
    ///
    /// # Errors
    /// As [`Code::helpers_for`]; known zeros are neither lost nor helpers.
    pub fn helpers_for(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        if self.zeros.is_empty() {
            return self.code.helpers_for(lost, available);
        }
        self.check_repair(lost, available)?;
        let preferred = self.code.in_preference(lost, available);
        let rows =
            self.express(lost, &preferred).ok_or_else(|| self.not_enough(lost, available))?;
        let used = preferred.iter().zip(self.zeros.len()..);
        let used = used.filter(|(_, column)| rows.rows().any(|row| row[*column] != 0));
        let used: ChunkSet = used.map(|(chunk, _)| *chunk).collect();
        Ok(available.iter().copied().filter(|chunk| used.contains(*chunk)).collect())
    }

    /// [`Code::repair_dag`]: known zeros are no helpers, and the DAG does not read them.
    ///
    /// # Errors
    /// As [`Code::repair_dag`]; known zeros are neither lost nor helpers.
    pub fn repair_dag(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Dag, CodeError> {
        if self.zeros.is_empty() {
            return self.code.repair_dag(lost, helpers);
        }
        self.check_repair(lost, helpers)?;
        let rows = self.express(lost, helpers).ok_or_else(|| self.not_enough(lost, helpers))?;
        let first = self.zeros.len();
        let is_used = |column: usize| rows.rows().any(|row| row[first + column] != 0);
        let needed = (0..helpers.len()).filter(|column| is_used(*column)).count();
        if needed < helpers.len() {
            return Err(CodeError::TooManyHelpers { needed, given: helpers.len() });
        }
        let of_helpers = |row: usize, column: usize| rows.get(row, first + column);
        let rows = Matrix::from_fn(lost.len(), helpers.len(), of_helpers);
        Ok(sums_of_whole_chunks(helpers, lost, &rows))
    }

    /// [`Code::schemes`]. One serves a stripe whose missing helpers are known zeros.
    #[must_use]
    pub fn schemes(&self) -> &'static [Scheme] {
        self.code.schemes()
    }

    /// As [`Code::scheme`] of the code.
    #[must_use]
    pub fn scheme(&self, id: u32) -> Option<&'static Scheme> {
        self.code.scheme(id)
    }

    /// [`Code::trace_dag`]: known zeros send no traces.
    ///
    /// # Errors
    /// As [`Code::trace_dag`]; when all helpers are known zeros.
    pub fn trace_dag(&self, scheme: &Scheme) -> Result<Dag, CodeError> {
        let dag = self.code.trace_dag(scheme)?;
        if self.zeros.is_empty() {
            Ok(dag)
        } else {
            dag.without(|chunk| self.is_zero(chunk))
                .ok_or(CodeError::ZeroToo { chunk: scheme.lost() })
        }
    }

    fn check_repair(&self, lost: &[ChunkIndex], others: &[ChunkIndex]) -> Result<(), CodeError> {
        check_repair(self.chunk_count(), lost, others)?;
        match lost.iter().chain(others).find(|chunk| self.is_zero(**chunk)) {
            Some(&chunk) => Err(CodeError::KnownZero { chunk }),
            None => lost.iter().try_for_each(|&chunk| {
                if self.is_zero_too(chunk) { Err(CodeError::ZeroToo { chunk }) } else { Ok(()) }
            }),
        }
    }

    /// Whether the chunk must be zero because the known zeros are.
    fn is_zero_too(&self, chunk: ChunkIndex) -> bool {
        self.express(&[chunk], &[]).is_some()
    }

    fn not_enough(&self, lost: &[ChunkIndex], available: &[ChunkIndex]) -> CodeError {
        let (needed, available) = (self.data_chunks(), available.len());
        if available < needed {
            CodeError::NotEnoughChunks { needed, available }
        } else {
            CodeError::NotDetermined { lost: lost.len(), available }
        }
    }

    /// The rows that express `lost` by the known zeros and these, preferring those that come first.
    fn express(&self, lost: &[ChunkIndex], by: &[ChunkIndex]) -> Option<Matrix> {
        let by: Vec<ChunkIndex> = self.zeros.iter().chain(by.iter().copied()).collect();
        self.generator_rows(&by).express(&self.generator_rows(lost))
    }

    /// The rows that express each of `chunks` by the data chunks.
    fn generator_rows(&self, chunks: &[ChunkIndex]) -> Matrix {
        let k = self.code.data_chunks();
        let parity = self.code.encode_dag().flatten().expect("codes without sub-chunks are linear");
        Matrix::from_fn(chunks.len(), k, |row, column| match usize::from(chunks[row].0) {
            data if data < k => u8::from(data == column),
            chunk => parity.matrix.get(chunk - k, column),
        })
    }
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)
    }
}
