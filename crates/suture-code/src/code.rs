//! The codes, as a closed set, and the questions that all other code asks them.
//!
//! Place: ... stripe affected -> [which chunks can help, and what is combined] -> plan ...
//! A code has a name that people write (`rs(6,3)`), sizes, and two answers: how to encode and how
//! to repair, both as a repair DAG. To add a code: one file like `rs.rs` that answers `Describe`,
//! one variant of [`Code`], one line in `FAMILIES`, and one arm in `Code::description`.
//!
//! Invariants: data chunks come first, then parity; names survive a round trip through text; a
//! helper set that `helpers_for` gives is one that `repair_dag` takes.

use crate::butterfly::Butterfly;
use crate::chunk::{ChunkIndex, SUB_CHUNK_ALIGNMENT};
use crate::clay::Clay;
use crate::dag::Dag;
use crate::describe::{Describe, check_repair};
use crate::error::CodeError;
use crate::lrc::Lrc;
use crate::rs::Rs;
use crate::rs_vandermonde::RsVandermonde;
use crate::trace::{self, Scheme, Search};
use std::fmt;
use std::str::FromStr;

/// An erasure code: its family and sizes, from which everything else follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Code {
    /// Reed-Solomon as HDFS and ISA-L write it.
    Rs(Rs),
    /// Reed-Solomon as klauspost/reedsolomon and Backblaze write it.
    RsVandermonde(RsVandermonde),
    /// Locally repairable, as in Azure.
    Lrc(Lrc),
    /// Exclusive or alone, two parities, repair with half the traffic.
    Butterfly(Butterfly),
    /// Coupled layers: any sizes, repair with the least traffic that is possible.
    Clay(Clay),
}

/// A family of codes: what its names look like, and how to build one.
struct Family {
    name: &'static str,
    form: &'static str,
    build: fn(&[usize]) -> Result<Code, CodeError>,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "rs",
        form: "rs(k,m)",
        build: |sizes| Rs::new(sizes[0], sizes[1]).map(Code::Rs),
    },
    Family {
        name: "rs-vandermonde",
        form: "rs-vandermonde(k,m)",
        build: |sizes| RsVandermonde::new(sizes[0], sizes[1]).map(Code::RsVandermonde),
    },
    Family {
        name: "lrc",
        form: "lrc(k,l,m)",
        build: |sizes| Lrc::new(sizes[0], sizes[1], sizes[2]).map(Code::Lrc),
    },
    Family {
        name: "butterfly",
        form: "butterfly(k)",
        build: |sizes| Butterfly::new(sizes[0]).map(Code::Butterfly),
    },
    Family {
        name: "clay",
        form: "clay(k,m,d)",
        build: |sizes| Clay::new(sizes[0], sizes[1], sizes[2]).map(Code::Clay),
    },
];

impl Code {
    fn description(&self) -> &dyn Describe {
        match self {
            Code::Rs(code) => code,
            Code::RsVandermonde(code) => code,
            Code::Lrc(code) => code,
            Code::Butterfly(code) => code,
            Code::Clay(code) => code,
        }
    }

    /// Data chunks of a stripe: k.
    #[must_use]
    pub fn data_chunks(&self) -> usize {
        self.description().data_chunks()
    }

    /// Parity chunks of a stripe: m, all kinds together.
    #[must_use]
    pub fn parity_chunks(&self) -> usize {
        self.description().parity_chunks()
    }

    /// Chunks of a stripe.
    #[must_use]
    pub fn chunk_count(&self) -> usize {
        self.data_chunks() + self.parity_chunks()
    }

    /// All chunks of a stripe, in order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        (0..self.chunk_count()).map(|chunk| ChunkIndex(chunk as u8))
    }

    /// Sub-chunks of a unit: alpha.
    #[must_use]
    pub fn sub_chunk_count(&self) -> u32 {
        self.description().sub_chunk_count()
    }

    /// Units are multiples of this many bytes: 64 per sub-chunk.
    #[must_use]
    pub fn alignment(&self) -> usize {
        SUB_CHUNK_ALIGNMENT * self.sub_chunk_count() as usize
    }

    /// How many chunks may be lost, whichever they are, without losing data.
    #[must_use]
    pub fn loss_tolerance(&self) -> usize {
        self.description().loss_tolerance()
    }

    /// How many chunks of a new stripe must be durable, whichever they are, before it is reported
    /// to its writer as stored: then it outlives one failure until repair has brought the rest. One
    /// more than it takes to know the data, which is k + 1 where any k chunks do; all of them at
    /// most.
    #[must_use]
    pub fn durable_chunks_min(&self) -> usize {
        (self.chunk_count() - self.loss_tolerance() + 1).min(self.chunk_count())
    }

    /// Whether these chunks are enough to know the whole stripe. Repeated and unknown indices count
    /// for nothing.
    #[must_use]
    pub fn decodable(&self, available: &[ChunkIndex]) -> bool {
        let known: Vec<ChunkIndex> =
            self.chunks().filter(|chunk| available.contains(chunk)).collect();
        self.description().decodable(&known)
    }

    /// The least that the helpers of one lost chunk must send, in sub-chunks; divide by
    /// [`Code::sub_chunk_count`] for chunks. Bounds are computed from it. Traces, which send parts
    /// of symbols, are not considered.
    ///
    /// # Panics
    /// When there is no such chunk.
    #[must_use]
    pub fn least_helper_sub_chunks(&self, lost: ChunkIndex) -> u32 {
        assert!(usize::from(lost.0) < self.chunk_count(), "no chunk {lost} in {self}");
        self.description().least_helper_sub_chunks(lost)
    }

    /// The helpers that send least together for the lost chunks, as few as that takes, preferring
    /// those that come early in `available`; in that order.
    ///
    /// # Errors
    /// When a list names a chunk twice, or one that does not exist, or one that the other names;
    /// when nothing is lost; when the available chunks are not enough.
    pub fn helpers_for(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        check_repair(self.chunk_count(), lost, available)?;
        self.description().helpers_for(lost, available)
    }

    pub(crate) fn in_preference(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Vec<ChunkIndex> {
        self.description().in_preference(lost, available)
    }

    /// How to compute the parity chunks from the data chunks. Sources and outputs stand in the
    /// order of the chunks, each chunk's sub-chunks in ascending order.
    #[must_use]
    pub fn encode_dag(&self) -> Dag {
        self.description().encode_dag()
    }

    /// How to rebuild the lost chunks from exactly these helpers. Sources stand in the order of
    /// `helpers`, outputs in the order of `lost`, each chunk's sub-chunks in ascending order.
    ///
    /// Some codes repair one chunk with less traffic from more than k helpers; from k they decode.
    ///
    /// # Errors
    /// As [`Code::helpers_for`], and when there are more helpers than the repair uses.
    pub fn repair_dag(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Dag, CodeError> {
        check_repair(self.chunk_count(), lost, helpers)?;
        self.description().repair_dag(lost, helpers)
    }

    /// The known schemes for rebuilding one chunk from traces, which takes less traffic than k
    /// chunks; none for codes without any.
    #[must_use]
    pub fn schemes(&self) -> &'static [Scheme] {
        if self.has_traces() {
            trace::known_schemes(self.data_chunks(), self.parity_chunks())
        } else {
            &[]
        }
    }

    /// The known scheme of that [id](Scheme::id).
    #[must_use]
    pub fn scheme(&self, id: u32) -> Option<&'static Scheme> {
        let known = || trace::known_scheme(self.data_chunks(), self.parity_chunks(), id);
        self.has_traces().then(known).flatten()
    }

    /// The known scheme that rebuilds `lost` from all chunks but `missing`; `None` when there is
    /// none, and k whole chunks are needed.
    #[must_use]
    pub fn trace_scheme(
        &self,
        lost: ChunkIndex,
        missing: &[ChunkIndex],
    ) -> Option<&'static Scheme> {
        self.schemes().iter().find(|scheme| scheme.serves(lost, missing))
    }

    /// Begins a search for a scheme that rebuilds `lost` without the `missing` chunks.
    ///
    /// # Errors
    /// [`CodeError::NoTraces`] for codes without traces, and when the chunks do not exist, are
    /// named twice, or leave fewer than k.
    pub fn scheme_search(
        &self,
        lost: ChunkIndex,
        missing: &[ChunkIndex],
        seed: u64,
    ) -> Result<Search, CodeError> {
        if !self.has_traces() {
            return Err(CodeError::NoTraces { code: self.to_string() });
        }
        let chunks: Vec<ChunkIndex> = self.chunks().collect();
        Search::new(self.data_chunks(), &chunks, lost, missing, seed)
    }

    /// How to rebuild a chunk from traces: every helper sends its rank of bits for each byte, and
    /// one decoder has them all. Sources stand in ascending order of the helpers.
    ///
    /// # Errors
    /// When the code has no traces, or the scheme is not for stripes of its size.
    pub fn trace_dag(&self, scheme: &Scheme) -> Result<Dag, CodeError> {
        let multipliers = self.dual_multipliers();
        let multipliers =
            multipliers.ok_or_else(|| CodeError::NoTraces { code: self.to_string() })?;
        trace::repair_dag(&multipliers, self.parity_chunks(), scheme)
    }

    /// Whether chunks can be rebuilt from traces, given a scheme.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        matches!(self, Code::Rs(_) | Code::RsVandermonde(_))
    }

    pub(crate) fn dual_multipliers(&self) -> Option<Vec<u8>> {
        self.description().dual_multipliers()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description().fmt(f)
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Code, CodeError> {
        let (name, parameters) =
            split_name(text).ok_or_else(|| CodeError::MalformedName { name: text.to_string() })?;
        let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
            return Err(CodeError::UnknownFamily { nearest: nearest_family(&name), family: name });
        };
        let found = parameters.len();
        if found != family.form.split(',').count() {
            return Err(CodeError::ParameterCount { form: family.form, found });
        }
        (family.build)(&parameters)
    }
}

/// `" rs( 6, 3 )"` becomes `("rs", [6, 3])`; spaces and capitals are forgiven.
fn split_name(text: &str) -> Option<(String, Vec<usize>)> {
    let (name, rest) = text.trim().split_once('(')?;
    let parameters = rest
        .strip_suffix(')')?
        .split(',')
        .map(|number| number.trim().parse().ok())
        .collect::<Option<_>>()?;
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then_some((name, parameters))
}

fn nearest_family(name: &str) -> &'static str {
    let nearest = FAMILIES.iter().min_by_key(|family| edit_distance(family.name, name));
    nearest.expect("there are families").name
}

/// Levenshtein's distance: insertions, deletions and replacements that turn one word into the
/// other.
pub fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (deleted, from_char) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], deleted + 1);
        for (column, &to_char) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from_char != to_char);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_of_codes_with_dual_multipliers() {
        for name in ["rs(6,3)", "rs-vandermonde(4,2)", "lrc(4,2,2)", "butterfly(4)", "clay(4,2,5)"]
        {
            let code: Code = name.parse().unwrap();
            assert_eq!(code.has_traces(), code.dual_multipliers().is_some(), "{name}");
        }
    }
}
