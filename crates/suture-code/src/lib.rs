//! Erasure codes as data: a code *describes* how to encode and how to repair, and one executor does
//! it.
//!
//! Place: ... helpers known -> [what to combine] -> plan ... slices -> [the bytes computed] ...
//!
//! The tour, in reading order:
//! * [`code`] is the front page: [`Code`] from a name such as `rs(6,3)`, its sizes, which chunks to
//!   ask for help, and the two questions that matter: how to encode ([`Code::encode_dag`]) and how
//!   to repair ([`Code::repair_dag`]).
//! * [`dag`] is the answer's form: what to combine, with no word about where. Planners place it on
//!   nodes.
//! * [`rs`] is a code: Reed-Solomon as HDFS and ISA-L write it. Each code is one file of
//!   mathematics and no loops over data: [`rs_vandermonde`], [`lrc`],
//!   [`butterfly`], [`clay`].
//! * [`trace`] repairs Reed-Solomon data, as it is, from parts of symbols: less traffic than k
//!   chunks. It knows schemes for common sizes, and searches for others.
//! * [`shortened`] answers for stripes of which some chunks are known to be zero.
//! * [`execute`] runs any DAG over buffers; beside it stands the naive executor that defines what
//!   is right.
//! * [`layout`] defines which bytes of a chunk make up the same positions of its sub-chunks, for
//!   all code that reads, moves or writes parts of chunks.
//! * [`fingerprint`] is what a stripe can be checked by without moving it.
//! * [`error`] lists everything that can be refused, with the numbers.
//!
//! ```
//! use suture_code::{ChunkIndex, Code, Program};
//!
//! let code: Code = "rs(2,1)".parse()?;
//! let (a, b, mut parity) = (*b"Suture", *b"mends.", [0; 6]);
//! Program::compile(&code.encode_dag())?.run(&[&a, &b], &mut [&mut parity])?;
//!
//! let lost = [ChunkIndex(0)];
//! let helpers = code.helpers_for(&lost, &[ChunkIndex(1), ChunkIndex(2)])?;
//! let mut rebuilt = [0; 6];
//! Program::compile(&code.repair_dag(&lost, &helpers)?)?.run(&[&b, &parity], &mut [&mut rebuilt])?;
//! assert_eq!(rebuilt, a);
//! # Ok::<(), suture_code::CodeError>(())
//! ```
//!
//! Invariants: no code knows nodes, networks or files; no code touches data except through the
//! executor; the same question always gets the same answer, so answers can be cached by (code,
//! lost, helpers).

#![forbid(unsafe_code)]

// The front page, and the form of answers.
pub mod chunk;
pub mod code;
pub mod dag;
mod describe;
pub mod error;
// The codes.
pub mod butterfly;
pub mod clay;
mod linear;
pub mod lrc;
pub mod rs;
pub mod rs_vandermonde;
// Less traffic, and chunks that are known to be zero.
pub mod shortened;
pub mod trace;
// Answers are carried out over buffers.
pub mod execute;
pub mod fingerprint;
pub mod layout;

pub use butterfly::Butterfly;
pub use chunk::ChunkIndex;
pub use clay::Clay;
pub use code::Code;
pub use dag::{Dag, DagFault, Join, Map, MapWidths, Output, Source, Split, Term, Value, ValueId};
pub use error::CodeError;
pub use execute::{Program, Scratch};
pub use fingerprint::Fingerprint;
pub use lrc::Lrc;
pub use rs::Rs;
pub use rs_vandermonde::RsVandermonde;
pub use shortened::{ChunkSet, Shortened};
pub use trace::{Scheme, Search};
