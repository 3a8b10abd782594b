//! The codes, as a closed set, and the questions that everyone else asks them.
//!
//! Place: `failure -> stripes -> [plan] -> dispatch -> slices -> durable -> commit`.
//! A code has a name that people write (`rs(6,3)`), sizes, and two answers: how to encode and how
//! to repair, both as a repair DAG. To add a code: one file like `rs.rs`, one variant of [`Code`],
//! one line in `FAMILIES` and one arm in each `match` below; the compiler lists the arms.
//!
//! Invariants: data chunks come first, then parity; names survive a round trip through text; a
//! helper set that `helpers_for` gives is one that `repair_dag` takes.

use crate::dag::Dag;
use crate::error::CodeError;
use crate::rs::Rs;
use std::fmt;
use std::str::FromStr;

/// The most chunks in a stripe: chunk counts travel in one byte.
pub const CHUNK_COUNT_MAX: usize = 255;

/// Bytes of every sub-chunk come in multiples of this: a vector register, and the padding of bit
/// planes.
pub const SUB_CHUNK_ALIGNMENT: usize = 64;

/// Which chunk of its stripe, counted from 0, data first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChunkIndex(pub u8);

/// An erasure code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Code {
    /// Reed-Solomon as HDFS and ISA-L write it.
    Rs(Rs),
}

/// A family of codes: what its names look like, and how to build one.
struct Family {
    name: &'static str,
    form: &'static str,
    build: fn(&[usize]) -> Result<Code, CodeError>,
}

/// Every family, also those whose turn is still to come: their names are taken.
const FAMILIES: &[Family] = &[
    Family { name: "rs", form: "rs(k,m)", build: build_rs },
    Family {
        name: "rs-vandermonde",
        form: "rs-vandermonde(k,m)",
        build: |_| not_built("rs-vandermonde"),
    },
    Family { name: "lrc", form: "lrc(k,l,m)", build: |_| not_built("lrc") },
    Family { name: "butterfly", form: "butterfly(k)", build: |_| not_built("butterfly") },
    Family { name: "clay", form: "clay(k,m,d)", build: |_| not_built("clay") },
];

impl Code {
    /// Data chunks of a stripe: k.
    #[must_use]
    pub fn data_chunks(&self) -> usize {
        match self {
            Code::Rs(rs) => rs.data_chunks(),
        }
    }

    /// Parity chunks of a stripe: m, all kinds together.
    #[must_use]
    pub fn parity_chunks(&self) -> usize {
        match self {
            Code::Rs(rs) => rs.parity_chunks(),
        }
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
        match self {
            Code::Rs(_) => 1,
        }
    }

    /// Units are multiples of this many bytes: 64 per sub-chunk.
    #[must_use]
    pub fn alignment(&self) -> usize {
        SUB_CHUNK_ALIGNMENT * self.sub_chunk_count() as usize
    }

    /// How many chunks may be lost, whichever they are, without losing data.
    #[must_use]
    pub fn loss_tolerance(&self) -> usize {
        match self {
            Code::Rs(rs) => rs.parity_chunks(),
        }
    }

    /// Whether these chunks are enough to know the whole stripe. Repeated and unknown indices count
    /// for nothing.
    #[must_use]
    pub fn decodable(&self, available: &[ChunkIndex]) -> bool {
        match self {
            Code::Rs(rs) => {
                self.chunks().filter(|chunk| available.contains(chunk)).count() >= rs.data_chunks()
            }
        }
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
        match self {
            Code::Rs(rs) => rs.data_chunks() as u32,
        }
    }

    /// A smallest helper set for the lost chunks, preferring those that come early in `available`.
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
        match self {
            Code::Rs(rs) => available.get(..rs.data_chunks()).map(<[ChunkIndex]>::to_vec).ok_or(
                CodeError::NotEnoughChunks { needed: rs.data_chunks(), available: available.len() },
            ),
        }
    }

    /// How to compute the parity chunks from the data chunks.
    #[must_use]
    pub fn encode_dag(&self) -> Dag {
        match self {
            Code::Rs(rs) => rs.encode_dag(),
        }
    }

    /// How to rebuild the lost chunks from exactly these helpers. Sources stand in the order of
    /// `helpers`, outputs in the order of `lost`.
    ///
    /// # Errors
    /// As [`Code::helpers_for`], and when there are more helpers than the repair uses.
    pub fn repair_dag(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Dag, CodeError> {
        match self {
            Code::Rs(rs) => rs.repair_dag(lost, helpers),
        }
    }
}

impl fmt::Display for ChunkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Rs(rs) => write!(f, "rs({},{})", rs.data_chunks(), rs.parity_chunks()),
        }
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

fn build_rs(parameters: &[usize]) -> Result<Code, CodeError> {
    Ok(Code::Rs(Rs::new(parameters[0], parameters[1])?))
}

fn not_built(family: &'static str) -> Result<Code, CodeError> {
    Err(CodeError::NotBuiltYet { family })
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
