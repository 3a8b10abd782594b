//! How a DAG contradicts itself.
//!
//! Place: where a DAG was built, before anything is combined by it. No code builds one: it is what
//! `Dag::validate` finds of a defect, or of a plan from elsewhere.

use std::error::Error;
use std::fmt;

use super::{MapWidths, Source, ValueId};
use crate::chunk::ChunkIndex;

/// How a repair DAG contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DagFault {
    /// A value wider than a byte, or of no bits.
    Width {
        /// Id of the value in the DAG.
        value: ValueId,
        /// Its bits per symbol.
        width: usize,
    },
    /// A sum of nothing.
    EmptySum {
        /// Id of the value in the DAG.
        value: ValueId,
    },
    /// A term that is not defined before the sum that uses it, or not at all.
    ForwardReference {
        /// Id of the sum.
        value: ValueId,
        /// Id of the value that the term names.
        term: ValueId,
    },
    /// A map that does not take the term's symbols to the sum's.
    MapShape {
        /// Id of the sum.
        value: ValueId,
        /// Id of the value that the term names.
        term: ValueId,
        /// Bits per symbol that the map should give and take.
        expected: MapWidths,
        /// Bits per symbol that it gives and takes.
        found: MapWidths,
    },
    /// A sum to be formed at a helper whose terms are not all that helper's.
    MixedOwners {
        /// Id of the sum.
        value: ValueId,
    },
    /// The same sub-chunk is a source twice.
    DuplicateSource {
        /// Chunk and sub-chunk that are read.
        source: Source,
    },
    /// The same sub-chunk is an output twice.
    DuplicateOutput {
        /// Chunk of the output.
        chunk: ChunkIndex,
        /// Sub-chunk of the output.
        sub_chunk: u32,
    },
    /// A sub-chunk past the end of a chunk.
    NoSuchSubChunk {
        /// Index of the chunk, counted from 0.
        chunk: ChunkIndex,
        /// Index of the sub-chunk, counted from 0.
        sub_chunk: u32,
        /// Sub-chunks of a chunk.
        sub_chunk_count: u32,
    },
    /// An output of a value that does not exist.
    NoSuchValue {
        /// Id of the value in the DAG.
        value: ValueId,
    },
    /// Nothing is asked of the DAG.
    NoOutputs,
}

impl fmt::Display for DagFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DagFault::Width { value, width } => {
                write!(f, "value {value} is {width} bits wide, not 1 to 8")
            }
            DagFault::EmptySum { value } => write!(f, "value {value} is a sum without terms"),
            DagFault::ForwardReference { value, term } => {
                write!(f, "value {value} uses value {term}, which is not defined before it")
            }
            DagFault::MapShape { value, term, expected, found } => write!(
                f,
                "the map from value {term} into value {value} is {}x{} bits, not {}x{}",
                found.output, found.input, expected.output, expected.input
            ),
            DagFault::MixedOwners { value } => {
                write!(f, "value {value} is summed at a helper, but not of its sub-chunks alone")
            }
            DagFault::DuplicateSource { source } => write!(f, "{source} is a source twice"),
            DagFault::DuplicateOutput { chunk, sub_chunk } => {
                write!(f, "sub-chunk {sub_chunk} of chunk {chunk} is an output twice")
            }
            DagFault::NoSuchSubChunk { chunk, sub_chunk, sub_chunk_count } => {
                write!(
                    f,
                    "chunk {chunk} has no sub-chunk {sub_chunk}: it has {sub_chunk_count}, counted from 0"
                )
            }
            DagFault::NoSuchValue { value } => {
                write!(f, "an output asks for value {value}, which does not exist")
            }
            DagFault::NoOutputs => write!(f, "it has no outputs"),
        }
    }
}

impl Error for DagFault {}
