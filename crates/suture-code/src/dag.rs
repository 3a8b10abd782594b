//! The repair DAG: what to combine into what, with no word about where.
//!
//! Place: ... helpers known -> [what to combine into what] -> plan places it on nodes ...
//! A code answers every question (encode, decode, repair) with a DAG; a planner places its sums on
//! nodes, and the executor runs it, or a node's part of it, over slices.
//!
//! A value holds one symbol of 1 to 8 bits for every byte position of a sub-chunk: 8 bits are
//! bytes, fewer are traces. A value is a source, or a sum of terms (value, linear map).
//! Multiplication by a constant of GF(2^8) is the map of nearly all codes; any other GF(2) map is a
//! bit matrix.
//!
//! Invariants (checked by [`Dag::validate`]): a sum uses only values defined before it, so there
//! are no cycles and the order of definition is an order of execution; maps fit the widths; sums
//! formed at a helper are of its own sub-chunks; sources and outputs are named once. Codes act
//! position by position: the DAG is the same for every slice, and slices are independent.

use crate::chunk::ChunkIndex;
use std::collections::BTreeSet;
use std::fmt;
use suture_gf::{BitMatrix, Matrix, field};

mod fault;
mod split;

pub use fault::DagFault;
pub use split::Split;

/// Bits per symbol of plain bytes.
pub const BYTE_WIDTH: usize = 8;

/// What to combine, in order of definition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dag {
    sub_chunk_count: u32,
    values: Vec<Value>,
    outputs: Vec<Output>,
}

/// Names a value of one DAG by its place in the order of definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueId(u32);

/// One value: its width and where it comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Bits per symbol, 1 to 8.
    pub width: usize,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// It is read from a helper's chunk.
    Source(Source),
    /// It is the sum of terms, each mapped to its width.
    Sum {
        /// Where partial sums may be formed.
        join: Join,
        /// What is added up.
        terms: Vec<Term>,
    },
}

/// A sub-chunk that survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source {
    /// Index of the chunk in its stripe, counted from 0.
    pub chunk: ChunkIndex,
    /// The sub-chunk within it.
    pub sub_chunk: u32,
}

/// One summand: a value seen through a linear map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    /// The value that the map is applied to, or that the output takes.
    pub value: ValueId,
    /// From the term's symbols to those of the sum.
    pub map: Map,
}

/// A linear map of symbols.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Map {
    /// Bytes to bytes: multiplication by a constant of GF(2^8).
    Coefficient(u8),
    /// Any widths: a matrix over GF(2).
    Bits(BitMatrix),
}

/// Where partial sums of a value may be formed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Join {
    /// At any relay, in any order: what travels upwards is never larger than the value itself.
    Anywhere,
    /// At one decoder that has all terms: they are narrower than the value, or serve several values
    /// at once.
    AtDecoder,
    /// At the helper that owns all its terms: what travels is this value, in place of them.
    AtHelper,
}

/// A sub-chunk to be produced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Output {
    /// Index of the chunk in its stripe, counted from 0.
    pub chunk: ChunkIndex,
    /// The sub-chunk within it.
    pub sub_chunk: u32,
    /// The value that it is.
    pub value: ValueId,
}

/// A DAG of coefficients alone, multiplied out: `outputs = matrix * sources`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flat {
    /// What each column of the matrix is multiplied with, in order.
    pub sources: Vec<Source>,
    /// What each row of the matrix gives, in order.
    pub outputs: Vec<Output>,
    /// Coefficients over GF(2^8): a row for each output, a column for each source.
    pub matrix: Matrix,
}

impl Dag {
    /// An empty DAG for chunks of that many sub-chunks.
    #[must_use]
    pub fn new(sub_chunk_count: u32) -> Dag {
        Dag { sub_chunk_count, values: Vec::new(), outputs: Vec::new() }
    }

    /// Defines a value that is read. Plain chunks have [`BYTE_WIDTH`]; a narrower source is traces
    /// that arrive.
    pub fn add_source(&mut self, source: Source, width: usize) -> ValueId {
        self.define(Value { width, origin: Origin::Source(source) })
    }

    /// Defines a value that is computed.
    pub fn add_sum(&mut self, width: usize, join: Join, terms: Vec<Term>) -> ValueId {
        self.define(Value { width, origin: Origin::Sum { join, terms } })
    }

    /// Defines a value that is the sum of others as they are: their exclusive or.
    pub fn add_xor(&mut self, join: Join, values: &[ValueId]) -> ValueId {
        let terms = values.iter().map(|&value| Term::times(1, value)).collect();
        self.add_sum(BYTE_WIDTH, join, terms)
    }

    /// Asks for a value as a sub-chunk of a chunk.
    pub fn add_output(&mut self, chunk: ChunkIndex, sub_chunk: u32, value: ValueId) {
        self.outputs.push(Output { chunk, sub_chunk, value });
    }

    /// Sub-chunks per chunk: alpha.
    #[must_use]
    pub fn sub_chunk_count(&self) -> u32 {
        self.sub_chunk_count
    }

    /// All values with their ids, in order of definition.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(index, value)| (ValueId(index as u32), value))
    }

    /// One value.
    ///
    /// # Panics
    /// When the id is of another, larger DAG.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// What is read, in order of definition: the order in which the executor takes its source
    /// buffers.
    pub fn sources(&self) -> impl Iterator<Item = (ValueId, Source)> {
        self.values().filter_map(|(id, value)| match value.origin {
            Origin::Source(source) => Some((id, source)),
            Origin::Sum { .. } => None,
        })
    }

    /// What is produced: the order in which the executor takes its output buffers.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Checks the invariants of the file head.
    ///
    /// # Errors
    /// The first fault found.
    pub fn validate(&self) -> Result<(), DagFault> {
        let mut sources = BTreeSet::new();
        for (id, value) in self.values() {
            if !(1..=BYTE_WIDTH).contains(&value.width) {
                return Err(DagFault::Width { value: id, width: value.width });
            }
            match &value.origin {
                Origin::Source(source) => {
                    self.validate_sub_chunk(source.chunk, source.sub_chunk)?;
                    if !sources.insert(*source) {
                        return Err(DagFault::DuplicateSource { source: *source });
                    }
                }
                Origin::Sum { join, terms } => {
                    self.validate_sum(id, value.width, terms)?;
                    if *join == Join::AtHelper && self.owner(id).is_none() {
                        return Err(DagFault::MixedOwners { value: id });
                    }
                }
            }
        }
        self.validate_outputs()
    }

    /// Multiplies everything out; `None` when some map is a bit matrix or some value is not plain
    /// bytes.
    ///
    /// # Panics
    /// When the DAG is not valid.
    #[must_use]
    pub fn flatten(&self) -> Option<Flat> {
        if self.values.iter().any(|value| value.width != BYTE_WIDTH) {
            return None;
        }
        let sources: Vec<Source> = self.sources().map(|(_, source)| source).collect();
        let mut rows: Vec<Vec<u8>> = Vec::with_capacity(self.values.len());
        let mut next_source = 0;
        for value in &self.values {
            let mut row = vec![0; sources.len()];
            match &value.origin {
                Origin::Source(_) => {
                    row[next_source] = 1;
                    next_source += 1;
                }
                Origin::Sum { terms, .. } => {
                    for term in terms {
                        let Map::Coefficient(coefficient) = term.map else {
                            return None;
                        };
                        suture_gf::mul_add(&mut row, coefficient, &rows[term.value.index()]);
                    }
                }
            }
            rows.push(row);
        }
        let rows: Vec<&[u8]> =
            self.outputs.iter().map(|output| &rows[output.value.index()][..]).collect();
        Some(Flat { sources, outputs: self.outputs.clone(), matrix: Matrix::from_rows(&rows) })
    }

    /// The same without what is read of chunks that are zero, and without every sum of nothing
    /// else; `None` when an output is such a sum.
    #[must_use]
    pub fn without(&self, is_zero: impl Fn(ChunkIndex) -> bool) -> Option<Dag> {
        let mut dag = Dag::new(self.sub_chunk_count);
        let mut kept: Vec<Option<ValueId>> = Vec::with_capacity(self.values.len());
        for Value { width, origin } in &self.values {
            let value = match origin {
                Origin::Source(source) => {
                    (!is_zero(source.chunk)).then(|| dag.add_source(*source, *width))
                }
                Origin::Sum { join, terms } => {
                    let term = |t: &Term| Some(Term { value: kept[t.value.index()]?, map: t.map });
                    let terms: Vec<Term> = terms.iter().filter_map(term).collect();
                    (!terms.is_empty()).then(|| dag.add_sum(*width, *join, terms))
                }
            };
            kept.push(value);
        }
        for Output { chunk, sub_chunk, value } in &self.outputs {
            dag.add_output(*chunk, *sub_chunk, kept[value.index()]?);
        }
        Some(dag)
    }

    /// The coefficient of each helper, when all that the DAG does is to rebuild the chunk `lost` as
    /// one sum over whole chunks whose partial sums may be formed anywhere. Then, and only then,
    /// trees, chains and stars are all right.
    #[must_use]
    pub fn partial_coefficients(&self, lost: ChunkIndex) -> Option<Vec<(ChunkIndex, u8)>> {
        let [output] = self.outputs[..] else {
            return None;
        };
        if self.sub_chunk_count != 1 || output.chunk != lost {
            return None;
        }
        let Origin::Sum { join: Join::Anywhere, terms } = &self.value(output.value).origin else {
            return None;
        };
        terms.iter().map(|term| self.whole_chunk_term(term)).collect()
    }

    /// What each chunk is asked for: its sub-chunks in ascending order, chunks in ascending order.
    #[must_use]
    pub fn reads(&self) -> Vec<(ChunkIndex, Vec<u32>)> {
        let sources: BTreeSet<Source> = self.sources().map(|(_, source)| source).collect();
        let mut reads: Vec<(ChunkIndex, Vec<u32>)> = Vec::new();
        for source in sources {
            match reads.last_mut() {
                Some((chunk, sub_chunks)) if *chunk == source.chunk => {
                    sub_chunks.push(source.sub_chunk)
                }
                _ => reads.push((source.chunk, vec![source.sub_chunk])),
            }
        }
        reads
    }

    fn define(&mut self, value: Value) -> ValueId {
        let id = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
        self.values.push(value);
        ValueId(id)
    }

    fn whole_chunk_term(&self, term: &Term) -> Option<(ChunkIndex, u8)> {
        match (&self.value(term.value).origin, term.map) {
            (Origin::Source(source), Map::Coefficient(coefficient)) => {
                Some((source.chunk, coefficient))
            }
            _ => None,
        }
    }

    fn validate_sum(&self, id: ValueId, width: usize, terms: &[Term]) -> Result<(), DagFault> {
        if terms.is_empty() {
            return Err(DagFault::EmptySum { value: id });
        }
        for term in terms {
            if term.value >= id {
                return Err(DagFault::ForwardReference { value: id, term: term.value });
            }
            let expected = MapWidths { output: width, input: self.value(term.value).width };
            let found = term.map.widths();
            if found != expected {
                return Err(DagFault::MapShape { value: id, term: term.value, expected, found });
            }
        }
        Ok(())
    }

    fn validate_outputs(&self) -> Result<(), DagFault> {
        if self.outputs.is_empty() {
            return Err(DagFault::NoOutputs);
        }
        let mut named = BTreeSet::new();
        for &Output { chunk, sub_chunk, value } in &self.outputs {
            self.validate_sub_chunk(chunk, sub_chunk)?;
            if value.index() >= self.values.len() {
                return Err(DagFault::NoSuchValue { value });
            }
            if !named.insert((chunk, sub_chunk)) {
                return Err(DagFault::DuplicateOutput { chunk, sub_chunk });
            }
        }
        Ok(())
    }

    fn validate_sub_chunk(&self, chunk: ChunkIndex, sub_chunk: u32) -> Result<(), DagFault> {
        if sub_chunk < self.sub_chunk_count {
            return Ok(());
        }
        Err(DagFault::NoSuchSubChunk { chunk, sub_chunk, sub_chunk_count: self.sub_chunk_count })
    }
}

impl Term {
    /// A value times a constant of GF(2^8).
    #[must_use]
    pub fn times(coefficient: u8, value: ValueId) -> Term {
        Term { value, map: Map::Coefficient(coefficient) }
    }
}

impl ValueId {
    /// The place in the order of definition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bits per symbol of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapWidths {
    /// Those that it gives.
    pub output: usize,
    /// Those that it takes.
    pub input: usize,
}

impl Map {
    /// Bits per symbol that it gives, and that it takes.
    #[must_use]
    pub fn widths(&self) -> MapWidths {
        match self {
            Map::Coefficient(_) => MapWidths { output: BYTE_WIDTH, input: BYTE_WIDTH },
            Map::Bits(matrix) => {
                MapWidths { output: matrix.row_count(), input: matrix.column_count() }
            }
        }
    }

    /// The image of one symbol: the definition of a map.
    #[must_use]
    pub fn apply(&self, symbol: u8) -> u8 {
        match self {
            Map::Coefficient(coefficient) => field::mul(*coefficient, symbol),
            Map::Bits(matrix) => matrix.apply(symbol),
        }
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sub-chunk {} of chunk {}", self.sub_chunk, self.chunk)
    }
}
