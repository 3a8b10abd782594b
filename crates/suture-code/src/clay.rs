//! Coupled-layer codes: `clay(k,m,d)`, Reed-Solomon stripes tied together so that one chunk is
//! rebuilt from d helpers with the least traffic that any code of its size allows.
//!
//! Place: put -> [parity computed]; ... -> [which sub-chunks a repair reads] -> plan ...
//! Chunks are nodes (x, y) of a grid with q = d - k + 1 columns x and t rows y, filled up with
//! *virtual* nodes that hold zeros. A chunk has alpha = q^t sub-chunks, one in each *plane* z; the
//! digits z_0 .. z_(t-1) of z to the base q say which node of each row is the plane's *dot*. The
//! symbol C of node (x, y) in plane z, when it is not a dot, is paired with the symbol C* of the
//! dot's node (z_y, y) in the plane where z_y is replaced by x. The *uncoupled* symbols
//!
//! ```text
//! U = C + g C*,   U* = C* + g C,   and U = C for dots
//! ```
//!
//! are a codeword of an ordinary Reed-Solomon code in each plane. That is all: to encode, decode
//! and repair are ways of getting from the C that are known to those that are not.
//!
//! * Decoding takes planes in the order of how many dots are lost: the partner of a symbol whose
//!   node is lost has then been uncoupled in an earlier plane.
//! * Repair of node (x0, y0) reads the planes that have it as a dot, alpha / q of them. There the q
//!   nodes of its row are unknown, with the n - 1 - d that do not help; Reed-Solomon gives their U,
//!   and the U of its row's other nodes give the lost symbols of all other planes. Hence those
//!   other nodes must be among the helpers.
//!
//! Invariants: helpers send plain sub-chunks; g is neither 0 nor a root of g^2 = 1, so that any two
//! of C, C*, U, U* give the others.
//!
//! Source: Vajha et al., "Clay Codes: Moulding MDS Codes to Yield an MSR Code", FAST 2018, with our
//! own scale of U, which spares divisions on the way in, and our own g and Reed-Solomon code: the
//! bytes are not Ceph's.

use crate::chunk::ChunkIndex;
use crate::dag::{BYTE_WIDTH, Dag, Join, Source, Term, ValueId};
use crate::describe::{ChunkRoles, Describe};
use crate::error::CodeError;
use crate::linear::{check_helper_count, check_sizes};
use crate::rs::Rs;
use std::fmt;
use suture_gf::{Matrix, field};

/// Sub-chunks of a chunk may not be more, or they become too small to read and the plans too large
/// to make.
pub(crate) const SUB_CHUNK_COUNT_MAX: u32 = 4096;

/// The coefficient that couples two sub-chunks of a pair; neither 0 nor 1.
const G: u8 = field::GENERATOR;
/// 1 + g^2, the determinant of the pairwise coupling.
const DETERMINANT: u8 = 1 ^ field::mul(G, G);

/// A coupled-layer code over k data and m parity chunks, of which d help in a repair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Clay {
    data_chunks: u8,
    parity_chunks: u8,
    helper_count: u8,
}

/// A place in the grid, counted row by row: data, virtual nodes, parity.
type Node = usize;
/// The number of a plane.
type Plane = usize;

impl Clay {
    /// The code with that many chunks, of which `helper_count` help to rebuild one.
    ///
    /// # Errors
    /// [`CodeError::ImpossibleParameters`] and [`CodeError::BreaksRule`] when there is no such
    /// code, [`CodeError::TooManySubChunks`] when chunks would be cut into more than 4096.
    pub fn new(
        data_chunks: usize,
        parity_chunks: usize,
        helper_count: usize,
    ) -> Result<Clay, CodeError> {
        let name = || format!("clay({data_chunks},{parity_chunks},{helper_count})");
        let sizes = check_sizes("clay", data_chunks, parity_chunks)?;
        if helper_count <= data_chunks || helper_count >= data_chunks + parity_chunks {
            let rule = "more than k chunks help, and at most all others: k < d < k + m";
            return Err(CodeError::BreaksRule { name: name(), rule });
        }
        let helper_count = helper_count as u8;
        let clay = Clay { data_chunks: sizes.data, parity_chunks: sizes.parity, helper_count };
        let planes = (clay.width() as u64).saturating_pow(clay.height() as u32);
        if planes > SUB_CHUNK_COUNT_MAX.into() {
            return Err(CodeError::TooManySubChunks {
                name: name(),
                sub_chunk_count: planes,
                sub_chunk_count_max: SUB_CHUNK_COUNT_MAX,
            });
        }
        Ok(clay)
    }

    /// q: nodes of a row.
    fn width(&self) -> usize {
        usize::from(self.helper_count - self.data_chunks) + 1
    }

    /// Rows of the grid of nodes: t in the paper.
    fn height(&self) -> usize {
        usize::from(self.data_chunks + self.parity_chunks).div_ceil(self.width())
    }

    fn planes(&self) -> usize {
        self.width().pow(self.height() as u32)
    }

    fn nodes(&self) -> usize {
        self.width() * self.height()
    }

    fn virtual_nodes(&self) -> std::ops::Range<Node> {
        let first = usize::from(self.data_chunks);
        first..first + self.nodes() - usize::from(self.data_chunks + self.parity_chunks)
    }

    fn node(&self, chunk: ChunkIndex) -> Node {
        let is_data = chunk.0 < self.data_chunks;
        usize::from(chunk.0) + if is_data { 0 } else { self.virtual_nodes().len() }
    }

    /// The digit z_y of a plane in the row of `node`, and what it weighs.
    fn digit(&self, node: Node, plane: Plane) -> (usize, usize) {
        let row = node / self.width();
        let weight = self.width().pow((self.height() - 1 - row) as u32);
        (plane / weight % self.width(), weight)
    }

    fn is_dot(&self, node: Node, plane: Plane) -> bool {
        self.digit(node, plane).0 == node % self.width()
    }

    /// Where the symbol stands that the one of `node` in `plane` is coupled with; dots have
    /// themselves.
    fn partner(&self, node: Node, plane: Plane) -> (Node, Plane) {
        let (digit, weight) = self.digit(node, plane);
        let x = node % self.width();
        (node - x + digit, plane - digit * weight + x * weight)
    }

    /// Planes in the order of how many of these nodes are dots.
    fn planes_by_dots(&self, nodes: &[Node]) -> Vec<Plane> {
        let mut planes: Vec<Plane> = (0..self.planes()).collect();
        planes.sort_by_key(|&plane| nodes.iter().filter(|&&node| self.is_dot(node, plane)).count());
        planes
    }

    /// The chunks in the row of `lost`, which its repair cannot do without.
    fn is_row_mate(&self, lost: ChunkIndex, chunk: ChunkIndex) -> bool {
        self.node(lost) / self.width() == self.node(chunk) / self.width()
    }

    fn can_regenerate(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> bool {
        let &[lost] = lost else {
            return false;
        };
        let ChunkRoles { data, parity } = self.chunk_roles();
        let mut mates = data.iter().chain(&parity).filter(|&&chunk| self.is_row_mate(lost, chunk));
        helpers.len() >= self.helper_count.into()
            && mates.all(|chunk| *chunk == lost || helpers.contains(chunk))
    }

    /// One chunk from the planes that have it as a dot, read from exactly d helpers.
    fn regenerate(&self, lost: ChunkIndex, helpers: &[ChunkIndex]) -> Dag {
        let node = self.node(lost);
        let mut grid = Grid::read(*self, helpers, |plane| self.is_dot(node, plane));
        let idle: Vec<Node> = grid.unknown_nodes().filter(|&other| other != node).collect();
        let row = node - node % self.width();
        let unknown: Vec<Node> = idle.iter().copied().chain(row..row + self.width()).collect();
        let layer = Layer::new(self, &unknown);
        for plane in self.planes_by_dots(&idle) {
            if !self.is_dot(node, plane) {
                continue;
            }
            grid.uncouple(&layer, plane);
            for (&other, coefficients) in layer.unknown.iter().zip(layer.coefficients.rows()) {
                let symbol = grid.combine(&layer, coefficients, plane);
                if other == node {
                    grid.set_coupled(node, plane, symbol);
                } else if idle.contains(&other) {
                    grid.set_uncoupled(other, plane, symbol);
                } else {
                    // U = C + g C*, with C* the lost one.
                    let mut symbol = symbol.times(field::inv(G));
                    symbol.add(field::inv(G), &grid.coupled(other, plane));
                    let (_, plane) = self.partner(other, plane);
                    grid.set_coupled(node, plane, symbol);
                }
            }
        }
        grid.show(&[lost])
    }

    /// Any chunks from k whole others.
    fn decode(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Dag {
        let mut grid = Grid::read(*self, helpers, |_| true);
        let unknown: Vec<Node> = grid.unknown_nodes().collect();
        let layer = Layer::new(self, &unknown);
        for plane in self.planes_by_dots(&unknown) {
            grid.uncouple(&layer, plane);
            for (&node, coefficients) in layer.unknown.iter().zip(layer.coefficients.rows()) {
                let symbol = grid.combine(&layer, coefficients, plane);
                grid.set_uncoupled(node, plane, symbol);
            }
            unknown.iter().for_each(|&node| grid.couple(node, plane));
        }
        grid.show(lost)
    }
}

impl Describe for Clay {
    fn data_chunks(&self) -> usize {
        self.data_chunks.into()
    }

    fn parity_chunks(&self) -> usize {
        self.parity_chunks.into()
    }

    fn sub_chunk_count(&self) -> u32 {
        self.planes() as u32
    }

    fn least_helper_sub_chunks(&self, _lost: ChunkIndex) -> u32 {
        u32::from(self.helper_count) * (self.planes() / self.width()) as u32
    }

    fn helpers_for(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        if self.can_regenerate(lost, available) {
            let (mates, others): (Vec<ChunkIndex>, Vec<ChunkIndex>) =
                available.iter().partition(|chunk| self.is_row_mate(lost[0], **chunk));
            let others = &others[..usize::from(self.helper_count) - mates.len()];
            let helps = |chunk: &ChunkIndex| mates.contains(chunk) || others.contains(chunk);
            return Ok(available.iter().copied().filter(helps).collect());
        }
        let needed = self.data_chunks();
        let first = available.get(..needed).map(<[ChunkIndex]>::to_vec);
        first.ok_or(CodeError::NotEnoughChunks { needed, available: available.len() })
    }

    fn encode_dag(&self) -> Dag {
        let ChunkRoles { data, parity } = self.chunk_roles();
        self.decode(&parity, &data)
    }

    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError> {
        let all = usize::from(self.helper_count);
        if helpers.len() == all && self.can_regenerate(lost, helpers) {
            return Ok(self.regenerate(lost[0], helpers));
        }
        check_helper_count(self.data_chunks(), helpers)?;
        Ok(self.decode(lost, helpers))
    }
}

impl fmt::Display for Clay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clay({},{},{})", self.data_chunks, self.parity_chunks, self.helper_count)
    }
}

/// The Reed-Solomon code of every plane, solved for the nodes whose U is unknown.
struct Layer {
    known: Vec<Node>,
    unknown: Vec<Node>,
    /// A row for each unknown, a column for each known.
    coefficients: Matrix,
}

impl Layer {
    fn new(clay: &Clay, unknown: &[Node]) -> Layer {
        let parity = usize::from(clay.parity_chunks);
        let rs =
            Rs::new(clay.nodes() - parity, parity).expect("4096 planes have at most 128 nodes");
        let known: Vec<Node> = (0..clay.nodes()).filter(|node| !unknown.contains(node)).collect();
        let chunks = |nodes: &[Node]| -> Vec<ChunkIndex> {
            nodes.iter().map(|&node| ChunkIndex(node as u8)).collect()
        };
        let coefficients = rs.decoding_rows(&chunks(unknown), &chunks(&known));
        Layer { known, unknown: unknown.to_vec(), coefficients }
    }
}

/// A symbol that is known: a sum of values of the DAG times constants. Zero is the sum of none.
#[derive(Clone, Default)]
struct Symbol(Vec<(u8, ValueId)>);

impl Symbol {
    fn add(&mut self, coefficient: u8, other: &Symbol) {
        self.0.extend(other.0.iter().map(|&(c, value)| (field::mul(coefficient, c), value)));
    }

    fn times(mut self, coefficient: u8) -> Symbol {
        self.0.iter_mut().for_each(|(c, _)| *c = field::mul(*c, coefficient));
        self
    }
}

/// What is known of the symbols of all nodes in all planes, and the DAG that knows it.
struct Grid {
    clay: Clay,
    dag: Dag,
    coupled: Vec<Option<Symbol>>,
    uncoupled: Vec<Option<Symbol>>,
}

impl Grid {
    /// The helpers' sub-chunks in the planes asked for, and the virtual nodes' zeros.
    fn read(clay: Clay, helpers: &[ChunkIndex], is_read: impl Fn(Plane) -> bool) -> Grid {
        let unknown = vec![None; clay.nodes() * clay.planes()];
        let dag = Dag::new(clay.planes() as u32);
        let mut grid = Grid { clay, dag, coupled: unknown.clone(), uncoupled: unknown };
        for node in clay.virtual_nodes() {
            (0..clay.planes()).for_each(|plane| grid.set_coupled(node, plane, Symbol::default()));
        }
        for &chunk in helpers {
            for plane in (0..clay.planes()).filter(|&plane| is_read(plane)) {
                let source = Source { chunk, sub_chunk: plane as u32 };
                let value = grid.dag.add_source(source, BYTE_WIDTH);
                grid.set_coupled(clay.node(chunk), plane, Symbol(vec![(1, value)]));
            }
        }
        grid
    }

    /// The nodes of which nothing has been read.
    fn unknown_nodes(&self) -> impl Iterator<Item = Node> + use<'_> {
        let planes = self.clay.planes();
        let nodes = self.coupled.chunks(planes).enumerate();
        nodes.filter(|(_, symbols)| symbols.iter().all(Option::is_none)).map(|(node, _)| node)
    }

    /// U in a plane, of all nodes whose C is known there: by the partner's C, or else by its U,
    /// from an earlier plane. It serves this plane only, so it stays the sum that it is.
    fn uncouple(&mut self, layer: &Layer, plane: Plane) {
        for &node in &layer.known {
            let mut symbol = self.coupled(node, plane);
            let (mate, mate_plane) = self.clay.partner(node, plane);
            if layer.unknown.contains(&mate) {
                symbol = symbol.times(DETERMINANT);
                symbol.add(G, &self.uncoupled(mate, mate_plane));
            } else if mate != node {
                symbol.add(G, &self.coupled(mate, mate_plane));
            }
            let place = self.place(node, plane);
            self.uncoupled[place] = Some(symbol);
        }
    }

    /// U of an unknown node, by its coefficients in the layer.
    fn combine(&self, layer: &Layer, coefficients: &[u8], plane: Plane) -> Symbol {
        let mut sum = Symbol::default();
        for (&node, &coefficient) in layer.known.iter().zip(coefficients) {
            sum.add(coefficient, &self.uncoupled(node, plane));
        }
        sum
    }

    /// C where U has been found, as soon as what else it takes is known; the partner's with it.
    fn couple(&mut self, node: Node, plane: Plane) {
        let mut own = self.uncoupled(node, plane);
        let (mate, mate_plane) = self.clay.partner(node, plane);
        let place = self.place(mate, mate_plane);
        if self.clay.is_dot(node, plane) {
            self.set_coupled(node, plane, own);
        } else if let Some(other) = &self.coupled[place] {
            own.add(G, other);
            self.set_coupled(node, plane, own);
        } else if let Some(other) = &self.uncoupled[place] {
            let [one, g] = [1, G].map(|factor| field::div(factor, DETERMINANT));
            let mut symbol = own.clone().times(one);
            symbol.add(g, other);
            let mut partner = own.times(g);
            partner.add(one, other);
            self.set_coupled(node, plane, symbol);
            self.set_coupled(mate, mate_plane, partner);
        }
    }

    /// Makes a sum of several values a value of its own.
    fn keep(&mut self, symbol: Symbol) -> Symbol {
        match symbol.0.len() {
            0 | 1 => symbol,
            _ => Symbol(vec![(1, self.value(symbol))]),
        }
    }

    fn value(&mut self, symbol: Symbol) -> ValueId {
        match symbol.0[..] {
            [(1, value)] => value,
            _ => {
                let terms = symbol.0.into_iter().map(|(c, value)| Term::times(c, value)).collect();
                self.dag.add_sum(BYTE_WIDTH, Join::AtDecoder, terms)
            }
        }
    }

    fn show(mut self, chunks: &[ChunkIndex]) -> Dag {
        for &chunk in chunks {
            for plane in 0..self.clay.planes() {
                let value = self.value(self.coupled(self.clay.node(chunk), plane));
                self.dag.add_output(chunk, plane as u32, value);
            }
        }
        self.dag
    }

    fn place(&self, node: Node, plane: Plane) -> usize {
        node * self.clay.planes() + plane
    }

    fn coupled(&self, node: Node, plane: Plane) -> Symbol {
        self.coupled[self.place(node, plane)].clone().expect("a symbol that was read or rebuilt")
    }

    fn uncoupled(&self, node: Node, plane: Plane) -> Symbol {
        let known = self.uncoupled[self.place(node, plane)].clone();
        known.expect("planes are solved in the order of their dots")
    }

    fn set_coupled(&mut self, node: Node, plane: Plane, symbol: Symbol) {
        let place = self.place(node, plane);
        self.coupled[place] = Some(self.keep(symbol));
    }

    fn set_uncoupled(&mut self, node: Node, plane: Plane, symbol: Symbol) {
        let place = self.place(node, plane);
        self.uncoupled[place] = Some(self.keep(symbol));
    }
}
