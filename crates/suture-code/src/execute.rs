//! The executor: runs any repair DAG over buffers. There is one, for all codes.
//!
//! Place: ... sources in memory -> [the bytes computed] -> sent or written ...
//! A program is compiled once per plan and run once per slice. It walks the range in tiles: all
//! values of a tile are computed before the next tile is read, so the intermediate values of a deep
//! DAG stay in the cache. A value that is an output is computed in place, also when others read it;
//! the rest take scratch tiles, which are reused as soon as their last reader is done. Tiles are
//! short where there are many buffers, so that all of them together fit the second-level cache.
//!
//! Invariants: all arithmetic goes through the fused kernels; scratch memory is `scratch_bytes`,
//! whatever the range; the bytes are those of [`run_naively`], which is the definition.

use crate::dag::{BYTE_WIDTH, Dag, Origin, Output, Source, ValueId};
use crate::error::{CodeError, Side};
use suture_gf::Coefficients;
use suture_gf::Maps;
use suture_gf::bits::{self, SYMBOLS_PER_PLANE_GROUP};

mod compile;

/// Most sources and targets of one step. They bound arrays on the stack; kernels take any number, a
/// few at a time, so splitting a long sum costs nothing.
const OPERANDS_MAX: usize = 32;
/// Most steps have fewer, and need not begin with so large an array.
const OPERANDS_FEW: usize = 8;
const TARGETS_MAX: usize = 8;

/// A repair DAG, ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    sources: Vec<(Source, usize)>,
    outputs: Vec<(Output, usize)>,
    steps: Vec<Step>,
    /// What the steps read and write, one step after the other.
    operands: Vec<Operand>,
    targets: Vec<Operand>,
    /// Coefficients, with their tables: steps that combine alike share them.
    tables: Vec<Vec<Coefficients>>,
    scratch_tiles: usize,
    /// Symbols of one tile, a multiple of the 64 of bit planes.
    tile_symbols: usize,
}

/// Memory that runs use beside their buffers, kept from one run to the next.
#[derive(Clone, Default, Debug)]
pub struct Scratch {
    bytes: Vec<u8>,
}

/// Computes a few values of a tile from the same others.
#[derive(Clone, Debug)]
struct Step {
    /// How many of the operands and targets are its own.
    operand_count: u8,
    target_count: u8,
    instruction: Instruction,
}

/// What a step does.
#[derive(Clone, Debug)]
enum Instruction {
    /// Targets become sums of operands times the coefficients of a table.
    Products { table: u32 },
    /// Such sums are added to the targets.
    MoreProducts { table: u32 },
    /// Target i becomes the exclusive or of the first `ends[i]` operands.
    PrefixSums { ends: Vec<usize> },
    /// The target becomes the sum of images of the operands.
    Images { maps: Box<Maps> },
    /// Such a sum is added to the target.
    MoreImages { maps: Box<Maps> },
}

/// A place that a step reads or writes, and the width of the value there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Operand {
    place: Place,
    width: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Source(u32),
    Output(u32),
    Scratch(u32),
}

impl Program {
    /// Prepares a DAG for execution: the order of steps, the tables of all coefficients, the places
    /// of all values.
    ///
    /// # Errors
    /// [`CodeError::InvalidDag`] when the DAG is not valid.
    pub fn compile(dag: &Dag) -> Result<Program, CodeError> {
        dag.validate()?;
        Ok(compile::compile(dag))
    }

    /// What it reads, in the order of the source buffers.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = Source> {
        self.sources.iter().map(|(source, _)| *source)
    }

    /// What it writes, in the order of the output buffers.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output> {
        self.outputs.iter().map(|(output, _)| *output)
    }

    /// Memory that a run takes beside its buffers: none when every sum is an output or reads only
    /// sources.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_tiles * self.tile_symbols
    }

    /// Computes a slice: the outputs are overwritten, whatever they held.
    ///
    /// All buffers hold the same number of symbols. It is taken from the first buffer of bytes;
    /// where all are bit planes, from the first of them, padding included.
    ///
    /// # Errors
    /// [`CodeError::BufferCount`] and [`CodeError::LengthMismatch`]; then no output has been
    /// touched.
    pub fn run(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), CodeError> {
        self.run_with(&mut Scratch::default(), sources, outputs)
    }

    /// [`Program::run`] with scratch memory that is kept, for callers that run it often.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_with(
        &self,
        scratch: &mut Scratch,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), CodeError> {
        check_count(Side::Source, self.sources.len(), sources.len())?;
        check_count(Side::Output, self.outputs.len(), outputs.len())?;
        let symbols = self.symbol_count(sources, outputs);
        for (index, (&(_, width), source)) in self.sources.iter().zip(sources).enumerate() {
            check_length(Side::Source, index, bits::buffer_bytes(width, symbols), source.len())?;
        }
        for (index, (&(_, width), output)) in self.outputs.iter().zip(&*outputs).enumerate() {
            check_length(Side::Output, index, bits::buffer_bytes(width, symbols), output.len())?;
        }
        let tile_bytes = self.tile_symbols.min(symbols.next_multiple_of(SYMBOLS_PER_PLANE_GROUP));
        let scratch_bytes = self.scratch_tiles * tile_bytes;
        if scratch.bytes.len() < scratch_bytes {
            scratch.bytes.resize(scratch_bytes, 0);
        }
        let scratch = scratch.bytes[..scratch_bytes].chunks_mut(tile_bytes.max(1)).collect();
        let outputs = outputs.iter_mut().map(|output| &mut **output).collect();
        let mut buffers = Buffers { sources, outputs, scratch };
        for at in (0..symbols).step_by(self.tile_symbols) {
            self.run_tile(&Tile::new(at, self.tile_symbols.min(symbols - at)), &mut buffers);
        }
        Ok(())
    }

    fn run_tile(&self, tile: &Tile, buffers: &mut Buffers<'_>) {
        let (mut operands, mut targets) = (&self.operands[..], &self.targets[..]);
        for step in &self.steps {
            let (own, rest) = operands.split_at(step.operand_count.into());
            let (own_targets, rest_targets) = targets.split_at(step.target_count.into());
            if own.len() <= OPERANDS_FEW {
                self.run_step::<OPERANDS_FEW>(step, tile, buffers, own, own_targets)
            } else {
                self.run_step::<OPERANDS_MAX>(step, tile, buffers, own, own_targets)
            }
            (operands, targets) = (rest, rest_targets);
        }
    }

    fn run_step<const OPERANDS: usize>(
        &self,
        step: &Step,
        tile: &Tile,
        buffers: &mut Buffers<'_>,
        operands: &[Operand],
        targets: &[Operand],
    ) {
        // What is written is taken out of the buffers for the time being, so that the rest can be
        // read.
        let mut taken: [&mut [u8]; TARGETS_MAX] = Default::default();
        let taken = &mut taken[..targets.len()];
        for (taken, target) in taken.iter_mut().zip(targets) {
            *taken = std::mem::take(buffers.target(target.place));
        }
        {
            let mut read = [&[][..]; OPERANDS];
            let read = &mut read[..operands.len()];
            for (read, operand) in read.iter_mut().zip(operands) {
                *read = buffers.source(tile, *operand);
            }
            let mut written: [&mut [u8]; TARGETS_MAX] = Default::default();
            let written = &mut written[..targets.len()];
            for ((written, taken), target) in written.iter_mut().zip(&mut *taken).zip(targets) {
                *written = &mut taken[tile.range(*target)];
            }
            match &step.instruction {
                Instruction::Products { table } => {
                    suture_gf::dot_many(written, &self.tables[*table as usize], read)
                }
                Instruction::MoreProducts { table } => {
                    suture_gf::dot_many_add(written, &self.tables[*table as usize], read)
                }
                Instruction::PrefixSums { ends } => suture_gf::xor_prefix_sums(written, ends, read),
                Instruction::Images { maps } => {
                    suture_gf::map_sum(written[0], maps, read, tile.symbols)
                }
                Instruction::MoreImages { maps } => {
                    suture_gf::map_sum_add(written[0], maps, read, tile.symbols)
                }
            }
        }
        for (taken, target) in taken.iter_mut().zip(targets) {
            *buffers.target(target.place) = std::mem::take(taken);
        }
    }

    fn symbol_count(&self, sources: &[&[u8]], outputs: &[&mut [u8]]) -> usize {
        let source_lengths =
            self.sources.iter().zip(sources).map(|(&(_, width), buffer)| (width, buffer.len()));
        let output_lengths =
            self.outputs.iter().zip(outputs).map(|(&(_, width), buffer)| (width, buffer.len()));
        let mut buffers = source_lengths.chain(output_lengths);
        let first = buffers.next().expect("a valid DAG has sources");
        match std::iter::once(first).chain(buffers).find(|&(width, _)| width == BYTE_WIDTH) {
            Some((_, bytes)) => bytes,
            None => first.1.div_ceil(8 * first.0) * SYMBOLS_PER_PLANE_GROUP,
        }
    }
}

/// All that a run reads and writes.
struct Buffers<'a> {
    sources: &'a [&'a [u8]],
    outputs: Vec<&'a mut [u8]>,
    scratch: Vec<&'a mut [u8]>,
}

impl<'a> Buffers<'a> {
    fn target(&mut self, place: Place) -> &mut &'a mut [u8] {
        match place {
            Place::Source(_) => unreachable!("sources are not written"),
            Place::Output(index) => &mut self.outputs[index as usize],
            Place::Scratch(index) => &mut self.scratch[index as usize],
        }
    }

    fn source(&self, tile: &Tile, operand: Operand) -> &[u8] {
        let buffer: &[u8] = match operand.place {
            Place::Source(index) => self.sources[index as usize],
            Place::Output(index) => self.outputs[index as usize],
            Place::Scratch(index) => self.scratch[index as usize],
        };
        &buffer[tile.range(operand)]
    }
}

/// The symbols of one tile, and where they lie in buffers of each width.
struct Tile {
    symbols: usize,
    starts: [usize; BYTE_WIDTH + 1],
    bytes: [usize; BYTE_WIDTH + 1],
}

impl Tile {
    fn new(at: usize, symbols: usize) -> Tile {
        let of_each_width = |symbols| {
            std::array::from_fn(|width| match width {
                0 => 0,
                _ => bits::buffer_bytes(width, symbols),
            })
        };
        Tile { symbols, starts: of_each_width(at), bytes: of_each_width(symbols) }
    }

    fn range(&self, operand: Operand) -> std::ops::Range<usize> {
        let start = match operand.place {
            Place::Scratch(_) => 0,
            _ => self.starts[usize::from(operand.width)],
        };
        start..start + self.bytes[usize::from(operand.width)]
    }
}

fn check_count(side: Side, expected: usize, found: usize) -> Result<(), CodeError> {
    if expected == found { Ok(()) } else { Err(CodeError::BufferCount { side, expected, found }) }
}

fn check_length(side: Side, index: usize, expected: usize, found: usize) -> Result<(), CodeError> {
    if expected == found {
        Ok(())
    } else {
        Err(CodeError::LengthMismatch { side, index, expected, found })
    }
}

/// The definition of execution: symbol by symbol, straight from the DAG. Slow; for tests and for
/// doubters.
///
/// # Panics
/// When the DAG is not valid, or a source buffer ends before `symbols` symbols.
#[must_use]
pub fn run_naively(dag: &Dag, sources: &[&[u8]], symbols: usize) -> Vec<Vec<u8>> {
    let width_of = |id: ValueId| dag.value(id).width;
    let mut outputs: Vec<Vec<u8>> = dag
        .outputs()
        .iter()
        .map(|output| vec![0; bits::buffer_bytes(width_of(output.value), symbols)])
        .collect();
    for index in 0..symbols {
        let mut known: Vec<u8> = Vec::new();
        let mut sources = sources.iter();
        for (_, value) in dag.values() {
            known.push(match &value.origin {
                Origin::Source(_) => {
                    let source = sources.next().expect("a buffer for every source");
                    bits::symbol_at(source, value.width, index)
                }
                Origin::Sum { terms, .. } => terms
                    .iter()
                    .fold(0, |sum, term| sum ^ term.map.apply(known[term.value.index()])),
            });
        }
        for (output, buffer) in dag.outputs().iter().zip(&mut outputs) {
            bits::add_symbol_at(buffer, width_of(output.value), index, known[output.value.index()]);
        }
    }
    outputs
}
