//! The executor: runs any repair DAG over buffers. There is one, for all codes.
//!
//! Place: `failure -> stripes -> plan -> dispatch -> [slices] -> durable -> commit`.
//! A program is compiled once per plan and run once per slice. It walks the window in tiles that
//! stay in the first-level cache: all values of a tile are computed before the next tile is read,
//! so the intermediate values of a deep DAG never travel to memory. A value that is only an output
//! is computed in place; others take scratch tiles, which are reused as soon as their last reader
//! is done.
//!
//! Invariants: sums of GF(2^8) terms go through the fused kernels, `GROUP` at a time; scratch
//! memory is `scratch_bytes`, whatever the window; the bytes are those of [`run_naively`], which is
//! the definition.

use crate::dag::{BYTE_WIDTH, Dag, Map, Origin, Output, Source, Term, ValueId};
use crate::error::{CodeError, Side};
use suture_gf::{BitMatrix, Coefficients, bits};

/// Symbols of one tile: as many bytes as a kernel finishes at a time, and a multiple of the 64
/// symbols of bit planes. Smaller tiles, so that all buffers of an encoding fit the first-level
/// cache, measured no faster: buffers that start at equal places in their pages compete for the
/// same cache sets.
const TILE_SYMBOLS: usize = suture_gf::kernel::TILE_BYTES;

/// Most sources that one call of a kernel combines. It bounds an array on the stack; kernels
/// themselves take any number, four at a time, so splitting a long sum costs nothing.
const GROUP: usize = 16;

/// A repair DAG, ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    sources: Vec<(Source, usize)>,
    outputs: Vec<(Output, usize)>,
    steps: Vec<Step>,
    scratch_tiles: usize,
}

/// Computes one value of a tile.
#[derive(Clone, Debug)]
struct Step {
    target: Target,
    width: usize,
    products: Vec<Products>,
    images: Vec<Image>,
}

/// Where a step writes.
#[derive(Clone, Copy, Debug)]
enum Target {
    Scratch(usize),
    Output(usize),
}

/// Where a step reads: a value's place and its width.
#[derive(Clone, Copy, Debug)]
struct Operand {
    place: Place,
    width: usize,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Source(usize),
    Scratch(usize),
}

/// Up to [`GROUP`] terms that the fused kernel takes at once.
#[derive(Clone, Debug)]
struct Products {
    operands: Vec<Operand>,
    coefficients: Coefficients,
}

/// A term whose map is a bit matrix.
#[derive(Clone, Debug)]
struct Image {
    operand: Operand,
    map: BitMatrix,
}

impl Program {
    /// Prepares a DAG for execution: the order of steps, the tables of all coefficients, the places
    /// of all values.
    ///
    /// # Errors
    /// [`CodeError::InvalidDag`] when the DAG is not valid.
    pub fn compile(dag: &Dag) -> Result<Program, CodeError> {
        dag.validate()?;
        let mut compiler = Compiler::new(dag);
        for (id, value) in dag.values() {
            compiler.compile_value(id, value.width, &value.origin);
        }
        Ok(Program {
            sources: dag.sources().map(|(id, source)| (source, dag.value(id).width)).collect(),
            outputs: dag
                .outputs()
                .iter()
                .map(|output| (*output, dag.value(output.value).width))
                .collect(),
            steps: compiler.steps,
            scratch_tiles: compiler.tiles.len(),
        })
    }

    /// What it reads, in the order of the source buffers.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = Source> {
        self.sources.iter().map(|(source, _)| *source)
    }

    /// What it writes, in the order of the output buffers.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output> {
        self.outputs.iter().map(|(output, _)| *output)
    }

    /// Memory that a run takes beside its buffers: none when every sum reads only sources.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_tiles * TILE_SYMBOLS
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
        check_count(Side::Source, self.sources.len(), sources.len())?;
        check_count(Side::Output, self.outputs.len(), outputs.len())?;
        let symbols = self.symbol_count(sources, outputs);
        for (index, (&(_, width), source)) in self.sources.iter().zip(sources).enumerate() {
            check_length(Side::Source, index, bits::buffer_bytes(width, symbols), source.len())?;
        }
        for (index, (&(_, width), output)) in self.outputs.iter().zip(&*outputs).enumerate() {
            check_length(Side::Output, index, bits::buffer_bytes(width, symbols), output.len())?;
        }
        let mut scratch = vec![vec![0; TILE_SYMBOLS]; self.scratch_tiles];
        for at in (0..symbols).step_by(TILE_SYMBOLS) {
            let window = Window { at, symbols: TILE_SYMBOLS.min(symbols - at) };
            for step in &self.steps {
                step.run(window, sources, outputs, &mut scratch);
            }
        }
        Ok(())
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
            None => first.1.div_ceil(8 * first.0) * bits::SYMBOLS_PER_PLANE_GROUP,
        }
    }
}

/// The symbols of one tile.
#[derive(Clone, Copy)]
struct Window {
    at: usize,
    symbols: usize,
}

impl Window {
    /// Where the window lies in a whole buffer of that width.
    fn in_buffer(self, width: usize) -> std::ops::Range<usize> {
        let start = bits::buffer_bytes(width, self.at);
        start..start + bits::buffer_bytes(width, self.symbols)
    }
}

/// The scratch tiles without the one being written.
struct Readable<'a> {
    before: &'a [Vec<u8>],
    after: &'a [Vec<u8>],
}

impl Readable<'_> {
    fn tile(&self, index: usize) -> &[u8] {
        match index < self.before.len() {
            true => &self.before[index],
            false => &self.after[index - self.before.len() - 1],
        }
    }
}

impl Step {
    fn run(
        &self,
        window: Window,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        scratch: &mut [Vec<u8>],
    ) {
        match self.target {
            Target::Output(index) => {
                let readable = Readable { before: scratch, after: &[] };
                self.compute(
                    window,
                    sources,
                    &readable,
                    &mut outputs[index][window.in_buffer(self.width)],
                );
            }
            Target::Scratch(index) => {
                let (before, rest) = scratch.split_at_mut(index);
                let (tile, after) = rest.split_first_mut().expect("a tile for every value");
                let target = &mut tile[..bits::buffer_bytes(self.width, window.symbols)];
                self.compute(window, sources, &Readable { before, after }, target);
            }
        }
    }

    fn compute(
        &self,
        window: Window,
        sources: &[&[u8]],
        scratch: &Readable<'_>,
        target: &mut [u8],
    ) {
        let read = |operand: &Operand| match operand.place {
            Place::Source(index) => &sources[index][window.in_buffer(operand.width)],
            Place::Scratch(index) => {
                &scratch.tile(index)[..bits::buffer_bytes(operand.width, window.symbols)]
            }
        };
        if self.products.is_empty() {
            target.fill(0);
        }
        for (index, products) in self.products.iter().enumerate() {
            let mut buffers = [&[][..]; GROUP];
            let buffers = &mut buffers[..products.operands.len()];
            buffers
                .iter_mut()
                .zip(&products.operands)
                .for_each(|(buffer, operand)| *buffer = read(operand));
            match index {
                0 => suture_gf::dot(target, &products.coefficients, buffers),
                _ => suture_gf::dot_add(target, &products.coefficients, buffers),
            }
        }
        for image in &self.images {
            bits::map_add(target, &image.map, read(&image.operand), window.symbols);
        }
    }
}

/// Assigns a place to every value, in order of definition.
struct Compiler<'a> {
    dag: &'a Dag,
    /// For each value, the last one that reads it; itself when it is only an output, `None` when
    /// nobody needs it.
    last_reader: Vec<Option<ValueId>>,
    places: Vec<Option<Place>>,
    /// For each scratch tile, the value that it holds.
    tiles: Vec<Option<ValueId>>,
    source_count: usize,
    steps: Vec<Step>,
}

impl Compiler<'_> {
    fn new(dag: &Dag) -> Compiler<'_> {
        let value_count = dag.values().count();
        Compiler {
            dag,
            last_reader: last_readers(dag, value_count),
            places: vec![None; value_count],
            tiles: Vec::new(),
            source_count: 0,
            steps: Vec::new(),
        }
    }

    fn compile_value(&mut self, id: ValueId, width: usize, origin: &Origin) {
        let outputs = self.outputs_of(id);
        match origin {
            Origin::Source(_) => {
                self.places[id.index()] = Some(Place::Source(self.source_count));
                self.source_count += 1;
                self.copy_out(id, &outputs);
            }
            Origin::Sum { terms, .. } => match (self.last_reader[id.index()], &outputs[..]) {
                (None, _) => (),
                (Some(reader), &[output]) if reader == id => {
                    self.compile_sum(width, terms, Target::Output(output))
                }
                _ => {
                    let tile = self.take_tile(id);
                    self.compile_sum(width, terms, Target::Scratch(tile));
                    self.places[id.index()] = Some(Place::Scratch(tile));
                    self.copy_out(id, &outputs);
                }
            },
        }
        self.release_tiles_read_last_by(id);
    }

    fn compile_sum(&mut self, width: usize, terms: &[Term], target: Target) {
        let mut operands = Vec::new();
        let mut coefficients = Vec::new();
        let mut images = Vec::new();
        for term in terms {
            let operand = self.operand(term.value);
            match term.map {
                Map::Coefficient(coefficient) => {
                    operands.push(operand);
                    coefficients.push(coefficient);
                }
                Map::Bits(map) => images.push(Image { operand, map }),
            }
        }
        let products = operands
            .chunks(GROUP)
            .zip(coefficients.chunks(GROUP))
            .map(|(operands, coefficients)| Products {
                operands: operands.to_vec(),
                coefficients: Coefficients::new(coefficients),
            })
            .collect();
        self.steps.push(Step { target, width, products, images });
    }

    /// Copies a value to the outputs that show it. A copy is a product with 1, for planes as well
    /// as for bytes.
    fn copy_out(&mut self, id: ValueId, outputs: &[usize]) {
        for &output in outputs {
            let operand = self.operand(id);
            let products =
                Products { operands: vec![operand], coefficients: Coefficients::new(&[1]) };
            let target = Target::Output(output);
            self.steps.push(Step {
                target,
                width: operand.width,
                products: vec![products],
                images: Vec::new(),
            });
        }
    }

    fn operand(&self, id: ValueId) -> Operand {
        let place = self.places[id.index()].expect("a value that is read has a place");
        Operand { place, width: self.dag.value(id).width }
    }

    fn outputs_of(&self, id: ValueId) -> Vec<usize> {
        let outputs = self.dag.outputs().iter().enumerate();
        outputs.filter(|(_, output)| output.value == id).map(|(index, _)| index).collect()
    }

    fn take_tile(&mut self, id: ValueId) -> usize {
        let free = self.tiles.iter().position(Option::is_none).unwrap_or_else(|| {
            self.tiles.push(None);
            self.tiles.len() - 1
        });
        self.tiles[free] = Some(id);
        free
    }

    fn release_tiles_read_last_by(&mut self, id: ValueId) {
        for tile in &mut self.tiles {
            if tile.is_some_and(|value| self.last_reader[value.index()] == Some(id)) {
                *tile = None;
            }
        }
    }
}

/// Walks back from the outputs, so that values which lead to none are never computed.
fn last_readers(dag: &Dag, value_count: usize) -> Vec<Option<ValueId>> {
    let mut last_reader: Vec<Option<ValueId>> = vec![None; value_count];
    for output in dag.outputs() {
        last_reader[output.value.index()] = Some(output.value);
    }
    for (id, value) in dag.values().rev() {
        let Origin::Sum { terms, .. } = &value.origin else {
            continue;
        };
        if last_reader[id.index()].is_none() {
            continue;
        }
        for term in terms {
            let reader = &mut last_reader[term.value.index()];
            *reader = (*reader).max(Some(id));
        }
    }
    last_reader
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
