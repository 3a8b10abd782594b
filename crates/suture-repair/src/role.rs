//! What one agent does in one lane: read what, wait for which nodes, send or store where.
//!
//! Place: ... admit -> [dispatch] -> slices flow -> chunk durable ...
//! The coordinator sends each participant the whole plan; each derives its role here, from the code
//! and the helper set alone, so no coefficient ever travels and none can disagree.
//!
//! Three computations serve every code and plan: a partial sum, which any relay adds to; decoding,
//! which needs all rows at one node; and passing on what is at hand, which is what a helper of a
//! decoder does with its rows and a destination with finished bytes. What a slice of each kind
//! computes is in `combine.rs`.

mod combine;

use std::sync::Arc;

use suture_code::layout::{Layout, Piece, PositionRange};
use suture_code::{Dag, Program, Source};
use suture_gf::bits;

use crate::id::{ChunkCopy, ChunkIndex, Digest, NodeId};
use crate::message::{Refusal, Task};
use crate::plan::{Lane, Mode, SliceRanges, StripeFacts};
use crate::slice::lane_slice;

/// One agent's part in one lane.
#[derive(Clone, Debug)]
pub struct Role {
    /// The agent's own contribution, if it is a helper.
    pub own: Option<Own>,
    /// The nodes that send to it, and what.
    pub children: Vec<Child>,
    /// What becomes of it all.
    pub computation: Computation,
    /// Where the results go: a decoder has one for each lost chunk of the lane, in their order;
    /// every other node has one.
    pub sinks: Vec<Sink>,
    /// What it must have all of, on disk, before the first slice goes to a sink.
    pub spools: Spools,
    /// The slices of the lane.
    pub slice_ranges: SliceRanges,
    /// How the stripe's chunks are cut.
    pub layout: Layout,
}

/// A helper's own chunk, what it reads of it, and what it makes of that.
#[derive(Clone, Debug)]
pub struct Own {
    /// The copy to read.
    pub copy: ChunkCopy,
    /// What it must be, or it is corrupt. Past its end the chunk is zeros, which are not read from
    /// a store.
    pub digest: Digest,
    /// Its sub-chunks that are read, in the order in which they are combined.
    pub reads: Vec<u32>,
    /// How the sub-chunks become rows; none when they are the rows.
    pub part: Option<Arc<Program>>,
    /// Which rows it contributes.
    pub rows: Rows,
}

/// A sender and what it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The node that sends.
    pub node: NodeId,
    /// Which rows it sends.
    pub rows: Rows,
}

/// The rows of a slice that travel together, one after the other: bits per symbol of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows(pub Vec<u8>);

/// What waits on disk until all of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spools {
    /// Nothing: each slice goes on as soon as it can.
    Nothing,
    /// The results, where the lane is stored: one write and one read of each.
    Results,
    /// What each child sends, as it is, where the task is gated: children come when the coordinator
    /// releases them, one long before the other, so there is nothing to combine with meanwhile.
    Sources,
}

/// What an agent makes of what it reads and receives.
#[derive(Clone, Debug)]
pub enum Computation {
    /// The own bytes times this, plus what the children send.
    Sum {
        /// The factor of the own chunk, in GF(2^8).
        coefficient: u8,
    },
    /// The lost chunks, from the rows of all helpers; the own ones stand at `own_at` among those of
    /// the children.
    Decode {
        /// From rows to sub-chunks, lost chunk after lost chunk.
        program: Arc<Program>,
        /// How many children come before it.
        own_at: usize,
    },
    /// The only thing at hand, as it is.
    Pass,
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// On to this node.
    Forward(NodeId),
    /// Into the chunk that is being rebuilt here.
    Store,
}

impl Rows {
    /// Rows of whole bytes, `count` of them.
    pub fn bytes_wide(count: usize) -> Rows {
        Rows(vec![8; count])
    }

    /// The length of a slice of so many symbols, all rows together.
    pub fn bytes(&self, symbols: usize) -> usize {
        self.0.iter().map(|&width| bits::buffer_bytes(usize::from(width), symbols)).sum()
    }

    fn of_outputs(dag: &Dag) -> Rows {
        Rows(dag.outputs().iter().map(|output| dag.value(output.value).width as u8).collect())
    }
}

impl Role {
    /// The part of `me` in each lane of the task, in the order of the lanes.
    ///
    /// # Errors
    /// Why this agent cannot take part: the plan is not one of this stripe, or asks for what cannot
    /// be done.
    pub fn of(task: &Task, me: NodeId) -> Result<Vec<(u16, Arc<Role>)>, Refusal> {
        let survivors = task.survivors();
        let facts = task.facts(&survivors);
        let mut roles = Vec::new();
        for (index, lane) in task.plan.lanes.iter().enumerate() {
            let part = Derivation { task, facts: &facts, lane, me };
            let role = match lane.decoder {
                None if lane.copies(&facts) => part.of_copy()?,
                None => part.of_sum()?,
                Some(decoder) => part.of_gather(decoder)?,
            };
            roles.extend(role.map(|role| (index as u16, Arc::new(role))));
        }
        Ok(roles)
    }

    /// How many slice streams flow into this role at a time.
    pub fn inputs(&self) -> usize {
        self.children.len() + usize::from(self.own.is_some())
    }

    /// The nodes that it sends results to.
    pub fn parents(&self) -> impl Iterator<Item = NodeId> {
        self.sinks.iter().filter_map(|sink| match sink {
            Sink::Forward(parent) => Some(*parent),
            Sink::Store => None,
        })
    }

    /// Symbols of a slice: the bytes that it holds of each sub-chunk.
    pub fn symbols(&self, slice: u32) -> usize {
        self.position_range(slice).positions()
    }

    /// The bytes of a slice that are read of the own chunk.
    pub fn own_bytes(&self, slice: u32) -> usize {
        self.own.as_ref().map_or(0, |own| own.reads.len() * self.symbols(slice))
    }

    /// The bytes of a slice that `child` sends; none is expected of strangers.
    pub fn child_bytes(&self, child: NodeId, slice: u32) -> Option<usize> {
        let child = self.children.iter().find(|known| known.node == child)?;
        Some(child.rows.bytes(self.symbols(slice)))
    }

    /// The bytes of each result of a slice.
    pub fn result_bytes(&self, slice: u32) -> usize {
        let symbols = self.symbols(slice);
        match (&self.computation, &self.own, self.children.first()) {
            (Computation::Pass, Some(own), _) => own.rows.bytes(symbols),
            (Computation::Pass, None, Some(child)) => child.rows.bytes(symbols),
            _ => symbols * self.layout.sub_chunk_count() as usize,
        }
    }

    /// Where a slice lies in the own chunk: the sub-chunks that are read, one after the other; some
    /// of it past the end of a short chunk.
    pub fn own_pieces(&self, slice: u32) -> impl Iterator<Item = Piece> {
        let reads = self.own.as_ref().map_or(&[][..], |own| &own.reads);
        self.position_range(slice).pieces_by_sub_chunk(reads.iter().copied())
    }

    /// Where a slice lies in the rebuilt chunk: its sub-chunks, one after the other; some of it
    /// past the end of a chunk that is shorter than another of the plan.
    pub fn chunk_pieces(&self, slice: u32) -> impl Iterator<Item = Piece> {
        let position_range = self.position_range(slice);
        position_range.pieces_by_sub_chunk(position_range.sub_chunks())
    }

    /// Where the results of a slice lie in the spool, which holds one chunk after the other, each
    /// in the order of its slices.
    pub fn spool_pieces(&self, slice: u32) -> impl Iterator<Item = Piece> {
        let (offset, bytes) = (self.slice_ranges.get(slice).offset, self.result_bytes(slice));
        let chunk_bytes = self.layout.chunk_bytes();
        let starts = (0..self.sinks.len() as u64).map(move |result| result * chunk_bytes);
        starts.map(move |start| Piece { offset: start + offset, bytes })
    }

    /// Where a slice of a child lies in the spool, which holds all of one child after all of the
    /// other, each slice in the space of the widest; nowhere when it is no child.
    pub fn spilled_piece(&self, child: NodeId, slice: u32) -> Option<Piece> {
        let mut offset = 0;
        for known in &self.children {
            // The first slice is the widest: only the ends of ranges are cut short.
            let space = known.rows.bytes(self.symbols(0)) as u64;
            if known.node == child {
                let bytes = known.rows.bytes(self.symbols(slice));
                return Some(Piece { offset: offset + u64::from(slice) * space, bytes });
            }
            offset += u64::from(self.slice_ranges.count()) * space;
        }
        None
    }

    /// The positions of a slice.
    fn position_range(&self, slice: u32) -> PositionRange {
        let slice = self.slice_ranges.get(slice);
        self.layout.slice(slice.offset..slice.offset + u64::from(slice.bytes))
    }
}

/// What deriving a role looks at.
struct Derivation<'a> {
    task: &'a Task,
    facts: &'a StripeFacts<'a>,
    lane: &'a Lane,
    me: NodeId,
}

impl Derivation<'_> {
    /// A part in a tree of partial sums.
    fn of_sum(&self) -> Result<Option<Role>, Refusal> {
        let (lane, me) = (self.lane, self.me);
        let &[lost] = lane.lost.as_slice() else { return Err(Refusal::InvalidPlan) };
        let destination = self.task.plan.destinations.get(&lost).ok_or(Refusal::InvalidPlan)?;
        let sink = match lane.parent(me) {
            Some(parent) => Sink::Forward(parent),
            None if *destination == me => Sink::Store,
            None => return Ok(None),
        };
        let rows = Rows::bytes_wide(1);
        let children = lane.children(me).map(|node| Child { node, rows: rows.clone() });
        let children: Vec<Child> = children.collect();
        let (own, coefficient) = match self.own_term(lost)? {
            Some((own, coefficient)) => (Some(own), coefficient),
            None => (None, 1),
        };
        if own.is_none() && children.is_empty() {
            return Err(Refusal::InvalidPlan);
        }
        Ok(Some(self.role(own, children, Computation::Sum { coefficient }, vec![sink])))
    }

    /// A part in a copy: the holder sends all of the chunk's sub-chunks as they are.
    fn of_copy(&self) -> Result<Option<Role>, Refusal> {
        let (&[lost], [edge]) = (&self.lane.lost[..], &self.lane.edges[..]) else {
            return Err(Refusal::InvalidPlan);
        };
        let sub_chunks = self.facts.code.sub_chunk_count();
        let rows = Rows::bytes_wide(sub_chunks as usize);
        if self.me == edge.child {
            let (copy, digest) = self.copy(lost)?;
            let own = Own { copy, digest, reads: (0..sub_chunks).collect(), part: None, rows };
            let sinks = vec![Sink::Forward(edge.parent)];
            return Ok(Some(self.role(Some(own), vec![], Computation::Pass, sinks)));
        }
        let child = Child { node: edge.child, rows };
        let is_here = self.me == edge.parent;
        Ok(is_here.then(|| self.role(None, vec![child], Computation::Pass, vec![Sink::Store])))
    }

    /// The own chunk and its coefficient, where this node is a helper.
    fn own_term(&self, lost: ChunkIndex) -> Result<Option<(Own, u8)>, Refusal> {
        let chunk = self.lane.parent(self.me).and_then(|_| self.facts.chunk_on(self.me));
        let Some(chunk) = chunk else { return Ok(None) };
        let terms = self.dag()?.partial_coefficients(lost).ok_or(Refusal::Ability)?;
        let term = terms.iter().find(|(helper, _)| *helper == chunk);
        let (_, coefficient) = *term.ok_or(Refusal::InvalidPlan)?;
        let (copy, digest) = self.copy(chunk)?;
        let own = Own { copy, digest, reads: vec![0], part: None, rows: Rows::bytes_wide(1) };
        Ok(Some((own, coefficient)))
    }

    /// A part in a gather at a decoder.
    fn of_gather(&self, decoder: NodeId) -> Result<Option<Role>, Refusal> {
        let (lane, me) = (self.lane, self.me);
        if me == decoder {
            return self.of_decoder().map(Some);
        }
        if let Some(chunk) = self.facts.chunk_on(me)
            && lane.edges.iter().any(|edge| edge.child == me && edge.parent == decoder)
        {
            let split = self.dag()?.split_at_helpers();
            let part = split.helpers.iter().find(|(helper, _)| *helper == chunk);
            let (_, part) = part.ok_or(Refusal::InvalidPlan)?;
            let own = self.own(chunk, part)?;
            return Ok(Some(self.role(
                Some(own),
                vec![],
                Computation::Pass,
                vec![Sink::Forward(decoder)],
            )));
        }
        if lane.edges.iter().any(|edge| edge.child == decoder && edge.parent == me) {
            let rows = Rows::bytes_wide(self.facts.code.sub_chunk_count() as usize);
            let child = Child { node: decoder, rows };
            return Ok(Some(self.role(None, vec![child], Computation::Pass, vec![Sink::Store])));
        }
        Ok(None)
    }

    /// The children stand in the order of their chunks, as the decoder's program wants them.
    fn of_decoder(&self) -> Result<Role, Refusal> {
        let (lane, me) = (self.lane, self.me);
        let split = self.dag()?.split_at_helpers();
        let (mut own, mut own_at, mut children) = (None, 0, Vec::new());
        for (chunk, part) in &split.helpers {
            let holder = self.facts.survivors.iter().find(|(survivor, _)| survivor == chunk);
            let (_, node) = *holder.ok_or(Refusal::InvalidPlan)?;
            if node == me {
                own = Some(self.own(*chunk, part)?);
                own_at = children.len();
            } else {
                children.push(Child { node, rows: Rows::of_outputs(part) });
            }
        }
        let sink = |lost: &ChunkIndex| match self.task.plan.destinations.get(lost) {
            Some(&node) if node == me => Ok(Sink::Store),
            Some(&node) => Ok(Sink::Forward(node)),
            None => Err(Refusal::InvalidPlan),
        };
        let sinks = lane.lost.iter().map(sink).collect::<Result<_, _>>()?;
        let program = Program::compile(&split.decoder).map_err(|_| Refusal::InvalidPlan)?;
        let computation = Computation::Decode { program: Arc::new(program), own_at };
        Ok(self.role(own, children, computation, sinks))
    }

    fn own(&self, chunk: ChunkIndex, part: &Dag) -> Result<Own, Refusal> {
        let reads: Vec<u32> = part.sources().map(|(_, source)| source.sub_chunk).collect();
        let part_program = if is_selection(part) {
            None
        } else {
            let program = Program::compile(part).map_err(|_| Refusal::InvalidPlan)?;
            Some(Arc::new(program))
        };
        let (copy, digest) = self.copy(chunk)?;
        Ok(Own { copy, digest, reads, part: part_program, rows: Rows::of_outputs(part) })
    }

    fn role(
        &self,
        own: Option<Own>,
        children: Vec<Child>,
        computation: Computation,
        sinks: Vec<Sink>,
    ) -> Role {
        let forwards = sinks.iter().any(|sink| *sink != Sink::Store);
        let spools = match self.lane.mode {
            _ if children.is_empty() => Spools::Nothing,
            _ if self.task.gated => Spools::Sources,
            Mode::Stored if forwards => Spools::Results,
            Mode::Stored | Mode::Streamed => Spools::Nothing,
        };
        Role {
            spools,
            own,
            children,
            computation,
            sinks,
            slice_ranges: self.slice_ranges(),
            layout: self.task.stripe.layout(),
        }
    }

    fn slice_ranges(&self) -> SliceRanges {
        let (plan, alignment) = (&self.task.plan, self.facts.code.alignment() as u32);
        plan.slice_ranges(self.lane, lane_slice(plan, self.lane, self.task.slice_bytes, alignment))
    }

    /// A copy and the length that it must have.
    fn copy(&self, chunk: ChunkIndex) -> Result<(ChunkCopy, Digest), Refusal> {
        let copy = self.task.stripe.copy(chunk).ok_or(Refusal::InvalidPlan)?.copy;
        Ok((copy, self.task.stripe.record(chunk).digest()))
    }

    fn dag(&self) -> Result<Dag, Refusal> {
        self.lane.dag(self.facts).map_err(|_| Refusal::InvalidPlan)
    }
}

/// Whether a helper sends what it reads, as it is and in the order in which it reads it.
fn is_selection(part: &Dag) -> bool {
    let sources = part.sources().map(|(value, _): (_, Source)| value);
    sources.eq(part.outputs().iter().map(|output| output.value))
}
