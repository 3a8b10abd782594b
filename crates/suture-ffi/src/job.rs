//! A job: one way of computing chunks from others, compiled, and run over any number of units.
//!
//! Place: `host's chunks -> [compiled once, run over every unit] -> host's buffers`.
//! Encoding, decoding and repair are the same thing here: a program, and for each of its sources
//! the helper that has it and where. A helper's buffer is a sequence of units; in each unit stand
//! either all sub-chunks of the chunk, or, packed, those that the job reads, in ascending order.
//!
//! Invariants: helpers and lost chunks are in ascending order, so that equal questions are equal;
//! a job never changes.

use crate::status::{Fault, Status};
use suture_code::dag::Origin;
use suture_code::layout::Layout;
use suture_code::{ChunkIndex, Code, CodeError, Dag, Join, Program, Scratch, Source};

/// How the helpers' buffers are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// Buffers hold whole chunks.
    Whole,
    /// Only the sub-chunks that the job reads.
    Packed,
}

/// A repair compiled to a program, with the order of its buffers.
#[derive(Debug)]
pub struct Job {
    program: Program,
    sub_chunk_count: u32,
    helpers: Vec<(ChunkIndex, Vec<u32>)>,
    /// Where each source of the program is.
    places: Vec<Place>,
    is_plain: bool,
    weight: usize,
}

/// Where a source of the program is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Which helper has it.
    helper: usize,
    /// Which of the helper's sub-chunks it is.
    sub_chunk: usize,
    /// Which of those that the job reads of the helper.
    rank: usize,
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
        let place = |source: Source| {
            let helper = helpers.iter().position(|(chunk, _)| *chunk == source.chunk);
            let helper = helper.expect("every source is read");
            let rank = helpers[helper].1.binary_search(&source.sub_chunk);
            let rank = rank.expect("every source is read");
            Place { helper, sub_chunk: source.sub_chunk as usize, rank }
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
        let sub_chunk_count = dag.sub_chunk_count();
        Ok(Job { program, sub_chunk_count, helpers, places, is_plain, weight })
    }

    /// What is read of which chunk: sub-chunks in ascending order, chunks in ascending order.
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
        let layout = Layout::cut(chunk_bytes as u64, self.sub_chunk_count);
        let whole = layout.in_units(unit_bytes as u64).whole();
        let packed = |helper: usize| {
            whole.packed(match filling {
                Filling::Whole => self.sub_chunk_count as usize,
                Filling::Packed => self.helpers[helper].1.len(),
            })
        };
        for (index, ((chunk, _), helper)) in self.helpers.iter().zip(helpers).enumerate() {
            let (expected, found) = (packed(index).bytes(), helper.len());
            if expected != found {
                let message = format!("chunk {chunk} comes with {found} bytes, not {expected}");
                return Err(Fault::new(Status::BadLength, message));
            }
        }
        let written = whole.packed(self.sub_chunk_count as usize);
        let mut scratch = Scratch::default();
        for unit in whole.units() {
            let source = |place: &Place| {
                let rank = match filling {
                    Filling::Whole => place.sub_chunk,
                    Filling::Packed => place.rank,
                };
                &helpers[place.helper][packed(place.helper).sub_chunk(&unit, rank)]
            };
            let sources: Vec<&[u8]> = self.places.iter().map(source).collect();
            let mut targets = Vec::with_capacity(outputs.len() * self.sub_chunk_count as usize);
            for output in outputs.iter_mut() {
                targets.extend(output[written.unit(&unit)].chunks_exact_mut(unit.positions()));
            }
            self.program.run_with(&mut scratch, &sources, &mut targets)?;
        }
        Ok(())
    }
}
