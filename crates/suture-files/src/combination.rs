//! A repair DAG at work on files: what it reads of which chunk, and how it runs over a range.
//!
//! Place: helpers -> [ranges flow] -> proven.
//! The executor takes one buffer for each sub-chunk. Here it gets them as slices of the buffers
//! that hold a range of each chunk, so nothing is copied between the file and the kernels.
//!
//! Invariant: outputs stand in the buffers in the order of the file.

use suture_code::layout::{Packed, PositionRange};
use suture_code::{ChunkIndex, CodeError, Dag, Program};

use super::chunk::ChunkFault;
use super::position_ranges::{ChunkInput, pieces};
use super::stripe::Stripe;

/// A program and the chunks that it joins.
pub struct Combination {
    program: Program,
    /// What is read, chunks ascending.
    inputs: Vec<ChunkInput>,
    /// The chunks that it gives, whole.
    outputs: Vec<ChunkIndex>,
    /// For each source of the program its input, and its place among the parts of that.
    places: Vec<(usize, usize)>,
}

/// A thread's buffers: a range of each input, and of each output.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    pub inputs: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
}

impl Combination {
    /// What a DAG does. The chunks of `whole` are read entirely, whatever it needs of them.
    ///
    /// # Errors
    /// When the DAG cannot be compiled.
    pub fn of(dag: &Dag, whole: &[ChunkIndex]) -> Result<Combination, CodeError> {
        let mut inputs: Vec<ChunkInput> = dag
            .reads()
            .into_iter()
            .filter(|(chunk, _)| !whole.contains(chunk))
            .map(|(chunk, sub_chunks)| ChunkInput { chunk, sub_chunks })
            .chain(whole.iter().map(|chunk| ChunkInput::whole(*chunk, dag.sub_chunk_count())))
            .collect();
        inputs.sort_unstable_by_key(|input| input.chunk);
        let place = |chunk: ChunkIndex, sub_chunk: u32| {
            let input = inputs.binary_search_by_key(&chunk, |input| input.chunk);
            let input = input.expect("every source is read");
            let part = inputs[input].sub_chunks.binary_search(&sub_chunk);
            (input, part.expect("every source is read"))
        };
        let places =
            dag.sources().map(|(_, source)| place(source.chunk, source.sub_chunk)).collect();
        let mut outputs: Vec<ChunkIndex> =
            dag.outputs().iter().map(|output| output.chunk).collect();
        outputs.dedup();
        Ok(Combination { program: Program::compile(dag)?, inputs, outputs, places })
    }

    pub fn inputs(&self) -> &[ChunkInput] {
        &self.inputs
    }

    pub fn outputs(&self) -> &[ChunkIndex] {
        &self.outputs
    }

    /// Computes a range of the outputs from the inputs, which have been read.
    pub fn run(
        &self,
        range: &PositionRange,
        inputs: &[impl AsRef<[u8]>],
        outputs: &mut Vec<Vec<u8>>,
    ) {
        let whole = range.packed(range.layout().sub_chunk_count() as usize);
        outputs.resize(self.outputs.len(), Vec::new());
        outputs.iter_mut().for_each(|buffer| buffer.resize(whole.bytes(), 0));
        let packed: Vec<Packed> = self.inputs.iter().map(|input| input.packed(range)).collect();
        for unit in range.units() {
            let source = |&(input, part): &(usize, usize)| {
                &inputs[input].as_ref()[packed[input].sub_chunk(&unit, part)]
            };
            let sources: Vec<&[u8]> = self.places.iter().map(source).collect();
            let written = outputs
                .iter_mut()
                .flat_map(|buffer| buffer[whole.unit(&unit)].chunks_exact_mut(unit.positions()));
            let mut written: Vec<&mut [u8]> = written.collect();
            self.program.run(&sources, &mut written).expect("buffers have the window's length");
        }
    }
}

/// Reads a range of each of these chunks, checked.
///
/// # Errors
/// The first chunk that cannot be used, and why.
pub fn read(
    stripe: &Stripe<'_>,
    inputs: &[ChunkInput],
    range: &PositionRange,
    buffers: &mut Vec<Vec<u8>>,
) -> Result<(), (ChunkIndex, ChunkFault)> {
    buffers.resize(inputs.len(), Vec::new());
    for (input, buffer) in inputs.iter().zip(buffers) {
        buffer.resize(input.packed(range).bytes(), 0);
        let read = stripe.reader(input.chunk).read(pieces(range, &input.sub_chunks), buffer);
        read.map_err(|fault| (input.chunk, fault))?;
    }
    Ok(())
}
