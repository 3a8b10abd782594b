//! Everything that this crate refuses, with the numbers that let the reader see why.
//!
//! Place: at the edges of planning (names, helper sets) and of execution (buffer lengths).
//! Invariant: a variant per cause, never a free text; the message names what was expected and what
//! was found.

use crate::chunk::ChunkIndex;
use crate::dag::DagFault;
use std::error::Error;
use std::fmt;

/// Why a code, a helper set, a DAG or a set of buffers was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeError {
    /// The text is not of the form `family(number,...)`.
    MalformedName {
        /// The text that was given.
        name: String,
    },
    /// No such family of codes.
    UnknownFamily {
        /// The family as it was written.
        family: String,
        /// The known family that is spelled most like it.
        nearest: &'static str,
    },
    /// The family takes another number of parameters.
    ParameterCount {
        /// How the family is written.
        form: &'static str,
        /// How many were given.
        found: usize,
    },
    /// No such code over GF(2^8): the sizes are zero or too large.
    ImpossibleParameters {
        /// The family as codes are written: `rs`, `lrc`.
        family: &'static str,
        /// Data chunks asked for.
        data_chunks: usize,
        /// Parity chunks asked for.
        parity_chunks: usize,
        /// The most chunks that a stripe of the family can have.
        chunk_count_max: usize,
    },
    /// No such code: its parameters break a rule of its family.
    BreaksRule {
        /// The code as it would be written.
        name: String,
        /// The rule in words, to follow "is impossible:".
        rule: &'static str,
    },
    /// The construction would cut chunks into too many sub-chunks to be of use.
    TooManySubChunks {
        /// The code as it would be written.
        name: String,
        /// Sub-chunks per chunk, where they can be counted in 64 bits.
        sub_chunk_count: u64,
        /// The most that are allowed.
        sub_chunk_count_max: u32,
    },
    /// A chunk index past the end of the stripe.
    NoSuchChunk {
        /// The index that was given.
        chunk: ChunkIndex,
        /// Chunks of a stripe.
        chunk_count: usize,
    },
    /// The same chunk was named twice in one list.
    DuplicateChunk {
        /// Index of the chunk, counted from 0.
        chunk: ChunkIndex,
    },
    /// A chunk was named both as lost and as a survivor.
    HelperIsLost {
        /// Index of the chunk, counted from 0.
        chunk: ChunkIndex,
    },
    /// A repair of no chunks.
    NothingLost,
    /// Too few survivors to repair from.
    NotEnoughChunks {
        /// How many the code needs.
        needed: usize,
        /// How many there are.
        available: usize,
    },
    /// The survivors are many enough, but they do not determine what is lost.
    NotDetermined {
        /// How many chunks are lost.
        lost: usize,
        /// Chunks that survive and may be read.
        available: usize,
    },
    /// More helpers than the repair uses; the planner meant to read less.
    TooManyHelpers {
        /// How many the code uses.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// A chunk that is known to be zero was named as lost or as a helper.
    KnownZero {
        /// Index of the chunk, counted from 0.
        chunk: ChunkIndex,
    },
    /// A chunk must be zero because others are known to be.
    ZeroToo {
        /// Index of the chunk, counted from 0.
        chunk: ChunkIndex,
    },
    /// A code with sub-chunks repairs from helper sets of a fixed size, so it takes no known zeros.
    ZeroSubChunks {
        /// The code as it is written: `clay(4,2,5)`.
        code: String,
        /// A chunk that is known to be zero.
        chunk: ChunkIndex,
    },
    /// The code has no traces to repair from: its chunks are no values of a polynomial.
    NoTraces {
        /// The code as it is written: `lrc(6,2,2)`.
        code: String,
    },
    /// A trace scheme for codes with more parity chunks.
    SchemeTooDeep {
        /// Parity chunks that it takes.
        needed: usize,
        /// Parity chunks of the code.
        parity_chunks: usize,
    },
    /// The text is not a trace scheme.
    MalformedScheme {
        /// The line that was given.
        text: String,
    },
    /// Not as many buffers as the program has sources or outputs.
    BufferCount {
        /// Whether sources or outputs are too many or too few.
        side: Side,
        /// How many the program has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A buffer of another length than the range asks for.
    LengthMismatch {
        /// Whether it is a source or an output.
        side: Side,
        /// Its place in the list.
        index: usize,
        /// The bytes it should have.
        expected: usize,
        /// The bytes it has.
        found: usize,
    },
    /// A repair DAG that contradicts itself: a defect of the code that built it.
    InvalidDag(DagFault),
}

/// The two sides of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The buffers that a program reads.
    Source,
    /// The buffers that a program writes.
    Output,
}

/// That so many survivors do not suffice for so many lost chunks.
fn not_determined(lost: usize, available: usize) -> String {
    let (chunks, verb) = if available == 1 { ("chunk", "does") } else { ("chunks", "do") };
    let ones = if lost == 1 { "one" } else { "ones" };
    format!("the {available} surviving {chunks} {verb} not determine the {lost} lost {ones}")
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeError::MalformedName { name } => {
                write!(f, "{name:?} is not a code; codes are written like rs(6,3)")
            }
            CodeError::UnknownFamily { family, nearest } => {
                write!(f, "there is no code {family:?}; did you mean {nearest}?")
            }
            CodeError::ParameterCount { form, found } => {
                write!(f, "the code is written {form}, but {found} parameters were given")
            }
            CodeError::ImpossibleParameters {
                family,
                data_chunks,
                parity_chunks,
                chunk_count_max,
            } => impossible(f, family, *data_chunks, *parity_chunks, *chunk_count_max),
            CodeError::BreaksRule { name, rule } => write!(f, "{name} is impossible: {rule}"),
            CodeError::TooManySubChunks { name, sub_chunk_count, sub_chunk_count_max } => {
                too_many_sub_chunks(f, name, *sub_chunk_count, *sub_chunk_count_max)
            }
            CodeError::NoSuchChunk { chunk, chunk_count } => {
                write!(f, "there is no chunk {chunk}: a stripe has {chunk_count}, counted from 0")
            }
            CodeError::DuplicateChunk { chunk } => write!(f, "chunk {chunk} is named twice"),
            CodeError::HelperIsLost { chunk } => write!(f, "chunk {chunk} is lost and cannot help"),
            CodeError::NothingLost => {
                write!(f, "no lost chunk was named, so there is nothing to repair")
            }
            CodeError::NotEnoughChunks { needed, available } => {
                write!(f, "the repair needs {needed} surviving chunks, but has {available}")
            }
            CodeError::NotDetermined { lost, available } => {
                f.write_str(&not_determined(*lost, *available))
            }
            CodeError::TooManyHelpers { needed, given } => {
                write!(f, "the repair uses {needed} helpers, but {given} were given")
            }
            CodeError::KnownZero { chunk } => {
                write!(f, "chunk {chunk} is known to be zero: it is never lost and never read")
            }
            CodeError::ZeroToo { chunk } => write!(
                f,
                "chunk {chunk} must be zero because others are known to be; record it as such"
            ),
            CodeError::ZeroSubChunks { code, chunk } => write!(
                f,
                "chunk {chunk} is absent and known to be zero, but {code} cuts chunks into \
                 sub-chunks and needs it stored; write its zeros"
            ),
            CodeError::NoTraces { code } => {
                write!(f, "{code} cannot be repaired from traces; only Reed-Solomon codes can")
            }
            CodeError::SchemeTooDeep { needed, parity_chunks } => write!(
                f,
                "the trace scheme takes {needed} parity chunks, but the code has {parity_chunks}"
            ),
            CodeError::MalformedScheme { text } => {
                write!(f, "{text:?} is not a trace scheme; one is written: lost missing quotients")
            }
            CodeError::BufferCount { side, expected, found } => {
                write!(f, "the program has {expected} {side}s, but {found} buffers were given")
            }
            CodeError::LengthMismatch { side, index, expected, found } => {
                write!(f, "{side} buffer {index} has {found} bytes, the window needs {expected}")
            }
            CodeError::InvalidDag(fault) => write!(f, "invalid repair DAG: {fault}"),
        }
    }
}

fn impossible(
    f: &mut fmt::Formatter<'_>,
    family: &str,
    data: usize,
    parity: usize,
    chunk_count_max: usize,
) -> fmt::Result {
    write!(
        f,
        "{family}({data},{parity}) is impossible: it needs at least 1 data chunk, at least 1 parity \
         chunk, and at most {chunk_count_max} together, but has {data} data and {parity} parity"
    )
}

fn too_many_sub_chunks(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    count: u64,
    count_max: u32,
) -> fmt::Result {
    let count = match count {
        u64::MAX => "more than 10^19".to_string(),
        count => count.to_string(),
    };
    write!(
        f,
        "{name} would cut every chunk into {count} sub-chunks, more than the {count_max} that are \
         allowed; fewer chunks, or a d further from k, cut fewer"
    )
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "source",
            Side::Output => "output",
        })
    }
}

impl From<DagFault> for CodeError {
    fn from(fault: DagFault) -> CodeError {
        CodeError::InvalidDag(fault)
    }
}

impl Error for CodeError {}
