//! A job: one way of computing chunks from others, compiled, and run over any number of units.
//!
//! Place: `failure -> stripes -> plan -> dispatch -> [slices] -> durable -> commit`.
//! Encoding, decoding and repair are the same thing here: a program, and for each of its sources
//! the helper that has it and where. A helper's buffer is a sequence of units; in each unit stand
//! either all sub-chunks of the chunk, or, packed, those that the job reads, in ascending order.
//!
//! Invariants: helpers and lost chunks are in ascending order, so that equal questions are equal;
//! a job never changes.

use crate::status::{Fault, Status};
use suture_code::{ChunkIndex, Code, CodeError, Dag, Join, Program, Scratch, dag::Origin};

/// How the helpers' buffers are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// Whole chunks.
    Whole,
    /// Only the sub-chunks that the job reads.
    Packed,
}

/// A compiled repair.
#[derive(Debug)]
pub struct Job {
    program: Program,
    sub_chunk_count: usize,
    helpers: Vec<(ChunkIndex, Vec<u32>)>,
    /// For each source of the program: which helper, which of its sub-chunks, and that one's place
    /// among those that are read.
    places: Vec<(usize, usize, usize)>,
    is_plain: bool,
    weight: usize,
}

impl Job {
    /// The parity chunks of a stripe from its data chunks.
    ///
    /// # Errors
    /// Never, unless a code describes itself wrongly.
    pub fn encode(code: &Code) -> Result<Job, CodeError> {
        Job::compile(&code.encode_dag())
    }

    /// The lost chunks from exactly these helpers, both in ascending order.
    ///
    /// # Errors
    /// As [`Code::repair_dag`].
    pub fn repair(
        code: &Code,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Job, CodeError> {
        Job::compile(&code.repair_dag(lost, helpers)?)
    }

    fn compile(dag: &Dag) -> Result<Job, CodeError> {
        let program = Program::compile(dag)?;
        let helpers = dag.reads();
        let place = |source: suture_code::Source| {
            let helper = helpers.iter().position(|(chunk, _)| *chunk == source.chunk);
            let helper = helper.expect("every source is read");
            let rank = helpers[helper].1.binary_search(&source.sub_chunk);
            (helper, source.sub_chunk as usize, rank.expect("every source is read"))
        };
        let places = program.sources().map(place).collect();
        let (mut is_plain, mut weight) = (true, 0);
        for (_, value) in dag.values() {
            weight += 1;
            if let Origin::Sum { join, terms } = &value.origin {
                is_plain &= *join != Join::AtHelper;
                weight += terms.len();
            }
        }
        let sub_chunk_count = dag.sub_chunk_count() as usize;
        Ok(Job { program, sub_chunk_count, helpers, places, is_plain, weight })
    }

    /// What is read of whom: sub-chunks in ascending order, chunks in ascending order.
    #[must_use]
    pub fn reads(&self) -> &[(ChunkIndex, Vec<u32>)] {
        &self.helpers
    }

    /// Whether helpers that only send sub-chunks as they are send no more than they should.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// A measure of the memory that it takes: values and terms of its DAG.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Computes the outputs from the helpers' buffers, in the order of [`Job::reads`]. Units have
    /// been checked: `unit_bytes` is a multiple of the code's alignment and divides the outputs.
    ///
    /// # Errors
    /// [`Status::BadLength`] when a helper's buffer is not as long as its filling takes; then
    /// nothing has been written.
    pub fn run(
        &self,
        filling: Filling,
        helpers: &[&[u8]],
        outputs: &mut [&mut [u8]],
        unit_bytes: usize,
    ) -> Result<(), Fault> {
        let chunk_bytes = outputs.first().map_or(0, |output| output.len());
        // Bytes are independent where chunks are not cut: then any chunk is one unit.
        let unit_bytes = if self.sub_chunk_count == 1 { chunk_bytes } else { unit_bytes };
        let sub_chunk_bytes = unit_bytes / self.sub_chunk_count;
        for ((chunk, sub_chunks), helper) in self.helpers.iter().zip(helpers) {
            let count = match filling {
                Filling::Whole => self.sub_chunk_count,
                Filling::Packed => sub_chunks.len(),
            };
            let (expected, found) = (chunk_bytes / self.sub_chunk_count * count, helper.len());
            if expected != found {
                let message = format!("chunk {chunk} comes with {found} bytes, not {expected}");
                return Err(Fault::new(Status::BadLength, message));
            }
        }
        let mut scratch = Scratch::default();
        for unit in 0..chunk_bytes / unit_bytes {
            let source = |&(helper, sub_chunk, rank): &(usize, usize, usize)| {
                let (count, slot) = match filling {
                    Filling::Whole => (self.sub_chunk_count, sub_chunk),
                    Filling::Packed => (self.helpers[helper].1.len(), rank),
                };
                &helpers[helper][(unit * count + slot) * sub_chunk_bytes..][..sub_chunk_bytes]
            };
            let sources: Vec<&[u8]> = self.places.iter().map(source).collect();
            let units = outputs.iter_mut().map(|output| &mut output[unit * unit_bytes..]);
            let mut targets: Vec<&mut [u8]> = units
                .flat_map(|output| output[..unit_bytes].chunks_exact_mut(sub_chunk_bytes))
                .collect();
            self.program.run_with(&mut scratch, &sources, &mut targets)?;
        }
        Ok(())
    }
}
