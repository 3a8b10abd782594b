//! From a repair DAG to a program: which sums are computed together, and where each value stands.
//!
//! Place: ... task received -> [its DAG becomes a program] -> slices flow through it ...
//! Memory traffic is the cost, so what reads the same is done at once: neighbouring sums of the
//! same values (all parities of a Reed-Solomon stripe) are one step, which reads each source once;
//! so is a chain of exclusive ors, each the one before and a few more (the prefix sums of a
//! Butterfly code). Neighbours in the order of definition, that is; no other order is tried.
//!
//! Invariants: values that lead to no output are not computed; a scratch tile holds a value until
//! its last reader's step is done.

use super::{Instruction, OPERANDS_MAX, Operand, Place, Program, Step, TARGETS_MAX};
use crate::dag::{Dag, Map, Origin, Term, ValueId};
use std::collections::BTreeMap;
use suture_gf::Maps;
use suture_gf::bits::SYMBOLS_PER_PLANE_GROUP;
use suture_gf::{BitMatrix, Coefficients};

/// Longest tiles: as many bytes as a kernel finishes at a time. Shorter ones, so that all buffers
/// of a shallow DAG fit the first-level cache, measured no faster: buffers that start at equal
/// places in their pages compete for the same cache sets.
const TILE_SYMBOLS_MAX: usize = suture_gf::kernel::TILE_BYTES;
/// Shortest: below, the cost of a call is more than what the cache gives.
const TILE_SYMBOLS_MIN: usize = 1024;
/// Sums are computed together when this fraction of all their operands is shared: multiplying a few
/// by zero costs less than reading the rest again.
const SHARED_FRACTION: (usize, usize) = (3, 4);
/// What the tiles of all buffers of a deep DAG may take of the second-level cache.
const CACHE_BYTES: usize = 1024 * 1024;

/// Prepares a valid DAG for execution.
pub(super) fn compile(dag: &Dag) -> Program {
    let groups = groups(dag);
    let mut compiler = Compiler::new(dag, &groups);
    groups.iter().for_each(|group| compiler.compile_group(group));
    compiler.finish()
}

/// Values that are computed together.
#[derive(Debug)]
struct Group {
    kind: Kind,
    members: Vec<ValueId>,
    /// What they read from outside of the group.
    operands: Vec<ValueId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Sums of much the same values; one alone may be any sum.
    Alike,
    /// Exclusive ors, each the one before and more operands.
    Chain,
}

impl Group {
    fn new(dag: &Dag, id: ValueId) -> Group {
        let mut operands = Vec::new();
        terms(dag, id).iter().for_each(|term| push_new(&mut operands, term.value));
        Group { kind: Kind::Alike, members: vec![id], operands }
    }

    /// Takes in the next value, if the group remains one.
    fn takes(&mut self, dag: &Dag, next: ValueId) -> bool {
        if self.members.len() == TARGETS_MAX {
            return false;
        }
        let next_terms = terms(dag, next);
        if let Some(operands) = self.continued(dag, next_terms) {
            (self.kind, self.operands) = (Kind::Chain, operands);
        } else if self.is_alike(dag, next_terms) {
            next_terms.iter().for_each(|term| push_new(&mut self.operands, term.value));
        } else {
            return false;
        }
        self.members.push(next);
        true
    }

    /// The operands of the chain that the next sum continues, if it does: an exclusive or of the
    /// last member and of others that are none.
    fn continued(&self, dag: &Dag, next: &[Term]) -> Option<Vec<ValueId>> {
        let first = terms(dag, self.members[0]);
        let may_be_chain = self.kind == Kind::Chain || self.members.len() == 1;
        let is_chain = may_be_chain
            && next[0].value == self.members[self.members.len() - 1]
            && !next[1..].iter().any(|term| self.members.contains(&term.value))
            && first.iter().chain(next).all(|term| term.map == Map::Coefficient(1));
        let mut operands: Vec<ValueId> = match self.kind {
            Kind::Chain => self.operands.clone(),
            // A value that is named twice counts twice here.
            Kind::Alike => first.iter().map(|term| term.value).collect(),
        };
        operands.extend(next[1..].iter().map(|term| term.value));
        (is_chain && operands.len() <= OPERANDS_MAX).then_some(operands)
    }

    /// Whether the next sum reads so much of what the members read that one step does better.
    fn is_alike(&self, dag: &Dag, next: &[Term]) -> bool {
        let is_new = |term: &&Term| !self.operands.contains(&term.value);
        let new = next.iter().filter(is_new).count();
        self.kind == Kind::Alike
            && SHARED_FRACTION.1 * (next.len() - new)
                >= SHARED_FRACTION.0 * (self.operands.len() + new)
            && !next.iter().any(|term| self.members.contains(&term.value))
            && terms(dag, self.members[0]).iter().chain(next).all(is_product)
    }
}

fn push_new(values: &mut Vec<ValueId>, value: ValueId) {
    if !values.contains(&value) {
        values.push(value);
    }
}

fn groups(dag: &Dag) -> Vec<Group> {
    let is_live = dag.live_values();
    let mut groups: Vec<Group> = Vec::new();
    for (id, _) in dag.values().filter(|(id, _)| is_live[id.index()]) {
        let is_source = terms(dag, id).is_empty();
        if !is_source && !groups.last_mut().is_some_and(|group| group.takes(dag, id)) {
            groups.push(Group::new(dag, id));
        }
    }
    groups
}

fn terms(dag: &Dag, id: ValueId) -> &[Term] {
    match &dag.value(id).origin {
        Origin::Source(_) => &[],
        Origin::Sum { terms, .. } => terms,
    }
}

fn is_product(term: &Term) -> bool {
    matches!(term.map, Map::Coefficient(_))
}

/// The constant that a value is multiplied with in a sum; zero where it is not a term.
fn coefficient(dag: &Dag, sum: ValueId, value: ValueId) -> u8 {
    terms(dag, sum).iter().fold(0, |total, term| match term.map {
        Map::Coefficient(coefficient) if term.value == value => total ^ coefficient,
        _ => total,
    })
}

/// Assigns a place to every value, group by group.
struct Compiler<'a> {
    dag: &'a Dag,
    program: Program,
    places: Vec<Option<Place>>,
    /// For each value, how many groups have still to read it.
    readers: Vec<u32>,
    outputs: BTreeMap<ValueId, Vec<u32>>,
    free_tiles: Vec<u32>,
    tables: BTreeMap<Vec<Vec<u8>>, u32>,
}

impl Compiler<'_> {
    fn new<'a>(dag: &'a Dag, groups: &[Group]) -> Compiler<'a> {
        let value_count = dag.values().count();
        let mut readers = vec![0; value_count];
        for group in groups {
            group.operands.iter().for_each(|value| readers[value.index()] += 1);
        }
        let mut outputs: BTreeMap<ValueId, Vec<u32>> = BTreeMap::new();
        for (index, output) in dag.outputs().iter().enumerate() {
            outputs.entry(output.value).or_default().push(index as u32);
        }
        let width_of = |id: ValueId| dag.value(id).width;
        let program = Program {
            sources: dag.sources().map(|(id, source)| (source, width_of(id))).collect(),
            outputs: dag.outputs().iter().map(|o| (*o, width_of(o.value))).collect(),
            steps: Vec::new(),
            operands: Vec::new(),
            targets: Vec::new(),
            tables: Vec::new(),
            scratch_tiles: 0,
            tile_symbols: TILE_SYMBOLS_MAX,
        };
        let mut places = vec![None; value_count];
        for (index, (id, _)) in dag.sources().enumerate() {
            places[id.index()] = Some(Place::Source(index as u32));
        }
        let (free_tiles, tables) = (Vec::new(), BTreeMap::new());
        Compiler { dag, program, places, readers, outputs, free_tiles, tables }
    }

    fn finish(mut self) -> Program {
        for (id, _) in self.dag.sources() {
            self.copy_to_outputs(id, 0);
        }
        let program = &mut self.program;
        if program.steps.len() > 1 {
            let buffers = program.sources.len() + program.outputs.len() + program.scratch_tiles;
            let fitting = (CACHE_BYTES / buffers) & !(SYMBOLS_PER_PLANE_GROUP - 1);
            program.tile_symbols = fitting.clamp(TILE_SYMBOLS_MIN, TILE_SYMBOLS_MAX);
        }
        self.program
    }

    fn compile_group(&mut self, group: &Group) {
        let Group { kind, members, operands } = group;
        members.iter().for_each(|&id| self.take_place(id));
        match kind {
            Kind::Alike => {
                self.compile_products(members, operands);
                self.compile_images(members[0]);
            }
            Kind::Chain => {
                let mut end = 1;
                let own = members.iter().map(|&id| terms(self.dag, id).len() - 1);
                let ends = own.map(|count| {
                    end += count;
                    end
                });
                let ends = ends.collect();
                self.push_step(operands, members, Instruction::PrefixSums { ends });
            }
        }
        members.iter().for_each(|&id| self.copy_to_outputs(id, 1));
        for &value in operands {
            self.readers[value.index()] -= 1;
            self.release(value);
        }
        members.iter().for_each(|&id| self.release(id));
    }

    /// The terms times constants: of one sum, or of several that share them.
    fn compile_products(&mut self, members: &[ValueId], operands: &[ValueId]) {
        let is_factor = |value: &&ValueId| {
            let mut terms = members.iter().flat_map(|&id| terms(self.dag, id));
            terms.any(|term| term.value == **value && is_product(term))
        };
        let factors: Vec<ValueId> = operands.iter().filter(is_factor).copied().collect();
        for (piece, values) in factors.chunks(OPERANDS_MAX).enumerate() {
            let row = |&sum: &ValueId| -> Vec<u8> {
                values.iter().map(|&value| coefficient(self.dag, sum, value)).collect()
            };
            let table = self.table(members.iter().map(row).collect());
            let instruction = match piece {
                0 => Instruction::Products { table },
                _ => Instruction::MoreProducts { table },
            };
            self.push_step(values, members, instruction);
        }
    }

    /// The terms whose maps are bit matrices, which come after the others.
    fn compile_images(&mut self, id: ValueId) {
        let terms = terms(self.dag, id);
        let mut is_begun = terms.iter().any(is_product);
        let images: Vec<(ValueId, BitMatrix)> = terms
            .iter()
            .filter_map(|term| match term.map {
                Map::Bits(map) => Some((term.value, map)),
                Map::Coefficient(_) => None,
            })
            .collect();
        for piece in images.chunks(OPERANDS_MAX) {
            let (operands, maps): (Vec<ValueId>, Vec<BitMatrix>) = piece.iter().copied().unzip();
            let maps = Box::new(Maps::new(&maps));
            let instruction = if is_begun {
                Instruction::MoreImages { maps }
            } else {
                Instruction::Images { maps }
            };
            self.push_step(&operands, &[id], instruction);
            is_begun = true;
        }
    }

    /// Copies a value to the outputs that show it, but for the first few. A copy is a product with
    /// 1, for planes as well as for bytes.
    fn copy_to_outputs(&mut self, id: ValueId, skipped: usize) {
        let outputs = self.outputs.get(&id).cloned().unwrap_or_default();
        for &output in outputs.iter().skip(skipped) {
            let table = self.table(vec![vec![1]]);
            let operand = self.operand(id);
            let target = Operand { place: Place::Output(output), ..operand };
            self.program.operands.push(operand);
            self.program.targets.push(target);
            let instruction = Instruction::Products { table };
            self.program.steps.push(Step { operand_count: 1, target_count: 1, instruction });
        }
    }

    fn push_step(&mut self, operands: &[ValueId], targets: &[ValueId], instruction: Instruction) {
        let (operand_count, target_count) = (operands.len() as u8, targets.len() as u8);
        self.program.steps.push(Step { operand_count, target_count, instruction });
        let places: Vec<Operand> = operands.iter().map(|&id| self.operand(id)).collect();
        self.program.operands.extend(places);
        let places: Vec<Operand> = targets.iter().map(|&id| self.operand(id)).collect();
        self.program.targets.extend(places);
    }

    fn operand(&self, id: ValueId) -> Operand {
        let place = self.places[id.index()].expect("a value that is read has a place");
        Operand { place, width: self.dag.value(id).width as u8 }
    }

    fn table(&mut self, rows: Vec<Vec<u8>>) -> u32 {
        let tables = &mut self.program.tables;
        *self.tables.entry(rows).or_insert_with_key(|rows| {
            tables.push(rows.iter().map(|row| Coefficients::new(row)).collect());
            tables.len() as u32 - 1
        })
    }

    /// An output of its own if there is one, or else a scratch tile.
    fn take_place(&mut self, id: ValueId) {
        let place = match self.outputs.get(&id) {
            Some(outputs) => Place::Output(outputs[0]),
            None => Place::Scratch(self.free_tiles.pop().unwrap_or_else(|| {
                self.program.scratch_tiles += 1;
                self.program.scratch_tiles as u32 - 1
            })),
        };
        self.places[id.index()] = Some(place);
    }

    fn release(&mut self, id: ValueId) {
        if let (Some(Place::Scratch(tile)), 0) = (self.places[id.index()], self.readers[id.index()])
        {
            self.free_tiles.push(tile);
            self.places[id.index()] = None;
        }
    }
}
