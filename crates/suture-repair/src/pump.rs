//! The pump of one lane at one agent: decides, slice by slice, what to read, pass on and ask for.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! It moves handles, not bytes: a slice in memory is named by (repair, lane, slice, source) and its
//! payload stays with the driver. Slices are consumed strictly in order; up to `window` of them
//! per source may be in memory. Arithmetic: at 10 GB/s and 256 KiB slices there are 40,000 slices a
//! second with about four events each, so an event may cost at most a microsecond of the core.
//!
//! Flow control: a receiver grants each child "all slices below n"; a grant is absolute, so losing
//! one, hearing it twice or late does no harm. n never exceeds what has left memory by more than
//! the window, which is what the task reserved; so a granted slice always finds room. A decoder
//! has several parents: it consumes a slice when all of them take it, and the slice has left when
//! its results have left for all of them.
//!
//! A `stored` relay spools its results to disk first (stage `Spooling`) and forwards from there
//! (`Draining`), so that its memory too is bounded by the window. In a gated task whoever receives
//! keeps what each child sends (`Keeping`), the child being granted nothing before its release
//! (`gate.rs`); when all of it is there, the pump goes on like a leaf whose sources all lie on its
//! own disk. Stored lanes stay as they are, because a sum takes one write and children take many.
//!
//! A pump that is held grants nothing more; what was granted still comes. Whoever feeds it comes
//! to rest with full windows, and needs to be told nothing.

mod gate;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::{NodeId, RepairId};
use crate::role::{Role, Sink, Spools};
use gate::Gate;

/// The widest window: arrivals ahead of the next slice are kept as bits of one word.
pub const WINDOW_MAX: u32 = 32;

/// What the pump wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this slice of the agent's own chunk.
    ReadOwn(u32),
    /// Read this slice of what was spooled: its results, or all of its sources, of which the own
    /// one is read where it lies.
    ReadSpool(u32),
    /// Combine all sources of this slice and hand each result to its sink.
    Deliver(u32),
    /// Combine all sources of this slice and write the results to the spool.
    Spool(u32),
    /// Write this slice of this child to the spool.
    Keep(NodeId, u32),
    /// Let this child send all slices below the number.
    Grant(NodeId, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// From the sources straight to the sink.
    Direct,
    /// From the sources to the spool.
    Spooling,
    /// From each child to the spool.
    Keeping,
    /// From the spool to the sink.
    Draining,
}

/// Slice bookkeeping of one lane at one agent.
#[derive(Clone, Debug)]
pub struct Pump {
    role: Arc<Role>,
    window: u32,
    stage: Stage,
    /// Idle while children are kept; from the spool on it is a new one.
    stream: Stream,
    /// For each sink: it takes all slices below this.
    granted: Vec<u32>,
    /// The children in their order, where each is kept.
    gates: Vec<Gate>,
    is_open: bool,
    is_held: bool,
    steps: VecDeque<Step>,
}

/// Slices on their way through memory, in order: asked for, arrived, consumed, left.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// For each source (own or spool first, then the children): arrived slices, bit i = `next + i`.
    arrived: Vec<u32>,
    has_local: bool,
    /// The next slice to be consumed.
    next: u32,
    /// Reads were issued for all slices below this.
    read: u32,
    /// The children were granted all slices below this.
    promised: u32,
    /// Slices below this have left memory; of those from it to `next`, how many results have not.
    done: u32,
    staying: VecDeque<usize>,
}

impl Pump {
    /// A pump for `role`. It does nothing before `open`.
    pub fn new(role: Arc<Role>, window: u32) -> Pump {
        assert!((1..=WINDOW_MAX).contains(&window), "window {window}");
        let (stage, gate_count) = match role.spools {
            Spools::Nothing => (Stage::Direct, 0),
            Spools::Results => (Stage::Spooling, 0),
            Spools::Sources => (Stage::Keeping, role.children.len()),
        };
        Pump {
            stage,
            window,
            stream: Stream::new(role.own.is_some(), role.children.len()),
            granted: role.sinks.iter().map(|sink| sink.takes_at_once(&role)).collect(),
            gates: vec![Gate::default(); gate_count],
            is_open: false,
            is_held: false,
            steps: VecDeque::new(),
            role,
        }
    }

    /// The agent is ready to take slices (its temporary file exists, where it needs one).
    pub fn open(&mut self) {
        self.is_open = true;
        self.advance();
    }

    /// `parent` takes all slices below `upto`.
    pub fn on_granted(&mut self, parent: NodeId, upto: u32) {
        let upto = upto.min(self.count());
        for (sink, granted) in self.role.sinks.iter().zip(&mut self.granted) {
            if *sink == Sink::Forward(parent) {
                *granted = upto.max(*granted);
            }
        }
        self.advance();
    }

    /// `child` may be granted slices from now on. Where nothing is gated it always might.
    pub fn on_released(&mut self, child: NodeId) {
        if let Some(gate) = self.gate_of(child) {
            self.gates[gate].release();
        }
        self.advance();
    }

    /// From now on the children are granted nothing more, or are again.
    pub fn hold(&mut self, held: bool) {
        self.is_held = held;
        self.advance();
    }

    /// Whether a slice from `child` is wanted; one that comes twice or without a grant is not.
    pub fn wants(&self, child: NodeId, slice: u32) -> bool {
        if let Some(gate) = self.gate_of(child) {
            return self.gates[gate].wants(slice);
        }
        let Some(source) = self.source_of(child) else { return false };
        slice >= self.stream.next
            && slice < self.stream.promised
            && self.stream.arrived[source] & self.stream.bit(slice) == 0
    }

    /// A slice from `child` is in memory. Must be wanted.
    pub fn on_arrived(&mut self, child: NodeId, slice: u32) {
        assert!(self.wants(child, slice), "slice {slice} from {child} was not granted");
        if let Some(gate) = self.gate_of(child) {
            self.gates[gate].on_arrived(slice);
            self.steps.push_back(Step::Keep(child, slice));
            return;
        }
        let source = self.source_of(child).expect("wanted, so it is a child");
        self.stream.arrived[source] |= self.stream.bit(slice);
        self.advance();
    }

    /// A slice of a child is in the spool.
    pub fn on_kept(&mut self, child: NodeId, slice: u32) {
        let gate = self.gate_of(child).expect("only what a gate lets in is kept");
        self.gates[gate].on_kept(slice);
        if self.stage == Stage::Keeping && self.gates.iter().all(|g| g.is_full(self.count())) {
            self.drain();
        }
        self.advance();
    }

    /// A read that a step asked for is in memory.
    pub fn on_read(&mut self, slice: u32) {
        assert!(
            self.stream.has_local && slice >= self.stream.next && slice < self.stream.read,
            "read {slice}"
        );
        self.stream.arrived[0] |= self.stream.bit(slice);
        self.advance();
    }

    /// A result of a slice has left memory: sent, stored or spooled.
    pub fn on_left(&mut self, slice: u32) {
        assert!(
            slice >= self.stream.done && slice < self.stream.next,
            "slice {slice} was not on its way out"
        );
        let staying = &mut self.stream.staying[(slice - self.stream.done) as usize];
        *staying = staying.checked_sub(1).expect("each result leaves once");
        while self.stream.staying.front() == Some(&0) {
            self.stream.staying.pop_front();
            self.stream.done += 1;
        }
        if self.stage == Stage::Spooling && self.stream.done == self.count() {
            self.drain();
        }
        self.advance();
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Whether slices from `child` are still to come.
    pub fn awaits(&self, child: NodeId) -> bool {
        if let Some(gate) = self.gate_of(child) {
            return self.gates[gate].awaits(self.count());
        }
        let Some(source) = self.source_of(child) else { return false };
        self.stream.next + self.stream.arrived[source].trailing_ones() < self.count()
    }

    /// Whether `node` is a parent and slices are still to go there.
    pub fn feeds(&self, node: NodeId) -> bool {
        self.role.sinks.contains(&Sink::Forward(node)) && !self.is_done()
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The role that it serves.
    pub fn role(&self) -> &Arc<Role> {
        &self.role
    }

    /// The children of whom every slice is kept.
    pub fn kept(&self) -> impl Iterator<Item = NodeId> {
        let gates = self.role.children.iter().zip(&self.gates);
        gates.filter(|(_, gate)| gate.is_full(self.count())).map(|(child, _)| child.node)
    }

    /// Whether something that it asked for has not come: a granted slice, a read, or word that a
    /// result has left. A pump that is owed nothing waits for its parents, or for a release.
    pub fn is_owed(&self) -> bool {
        self.stream.is_owed() || self.gates.iter().any(Gate::is_owed)
    }

    /// Whether every slice has left.
    pub fn is_done(&self) -> bool {
        self.slices_done() == self.count()
    }

    /// Slices that have left for good.
    pub fn slices_done(&self) -> u32 {
        match self.stage {
            Stage::Direct | Stage::Draining => self.stream.done,
            Stage::Spooling | Stage::Keeping => 0,
        }
    }

    /// Bytes of the lane that are done with. Where children are kept, each of them and the last
    /// combination is an equal part of the way, so that it grows with whatever moves and reaches
    /// the lane's length with the last result.
    pub fn bytes_done(&self) -> u64 {
        let moved = u64::from(self.slices_done()) + self.slices_kept();
        self.role.windows.bytes_below((moved / (self.gates.len() as u64 + 1)) as u32)
    }

    /// A number that grows with every slice that moves, in whatever stage.
    pub fn progress(&self) -> u64 {
        let spooled = if self.stage == Stage::Draining { self.count() } else { 0 };
        u64::from(self.stream.done) + u64::from(spooled) + self.slices_kept()
    }

    /// # Panics
    /// More slices may be in memory than the window allows, or what is known of them disagrees.
    pub fn assert_invariants(&self, repair: RepairId, lane: u16) {
        let Stream { next, done, .. } = self.stream;
        let (horizon, staying) = (self.horizon(), self.stream.staying.len());
        let is_in_order = done <= next && (next - done) as usize == staying;
        assert!(
            is_in_order,
            "slices: {repair} lane {lane}: {done} left, {next} out, {staying} stay"
        );
        for (source, bits) in self.stream.arrived.iter().enumerate() {
            let asked = self.stream.asked(source);
            let is_within = (next..=horizon).contains(&asked);
            assert!(is_within, "window: {repair} lane {lane}: {next} to {horizon}, asked {asked}");
            let is_asked = u64::from(*bits) >> (asked - next) == 0;
            assert!(is_asked, "slices: {repair} lane {lane}: {bits:b} of {next} to {asked} came");
        }
        for gate in &self.gates {
            assert!(gate.is_consistent(self.window), "gate: {repair} lane {lane}: {gate:?}");
        }
    }

    fn slices_kept(&self) -> u64 {
        self.gates.iter().map(|gate| u64::from(gate.kept())).sum()
    }

    fn gate_of(&self, child: NodeId) -> Option<usize> {
        let gates = self.role.children.iter().zip(&self.gates);
        gates.map(|(known, _)| known.node).position(|known| known == child)
    }

    fn count(&self) -> u32 {
        self.role.windows.count()
    }

    fn source_of(&self, child: NodeId) -> Option<usize> {
        if matches!(self.stage, Stage::Keeping | Stage::Draining) {
            return None;
        }
        let position = self.role.children.iter().position(|c| c.node == child)?;
        Some(position + usize::from(self.stream.has_local))
    }

    fn drain(&mut self) {
        self.stage = Stage::Draining;
        self.stream = Stream::new(true, 0);
    }

    /// Slices below this may be taken into memory.
    fn horizon(&self) -> u32 {
        (self.stream.done + self.window).min(self.count())
    }

    /// Whatever became possible: consume, then grant and read ahead into the room that is left.
    fn advance(&mut self) {
        if !self.is_open {
            return;
        }
        if self.stage == Stage::Keeping {
            return self.grant_each();
        }
        self.consume();
        self.grant();
        self.read_ahead();
    }

    /// All sinks take the slices below this.
    fn taken(&self) -> u32 {
        self.granted.iter().copied().min().unwrap_or(0)
    }

    fn consume(&mut self) {
        let spools = self.stage == Stage::Spooling;
        let limit = if spools { self.count() } else { self.taken() };
        while self.stream.next < limit && self.stream.arrived.iter().all(|bits| bits & 1 == 1) {
            let slice = self.stream.next;
            self.steps.push_back(if spools { Step::Spool(slice) } else { Step::Deliver(slice) });
            self.stream.staying.push_back(if spools { 1 } else { self.role.sinks.len() });
            self.stream.arrived.iter_mut().for_each(|bits| *bits >>= 1);
            self.stream.next += 1;
        }
    }

    fn grant(&mut self) {
        let horizon = self.horizon();
        if self.stage == Stage::Draining || self.is_held || self.stream.promised == horizon {
            return;
        }
        // Half a window at a time: a grant for each slice would double the messages.
        let worth =
            horizon - self.stream.promised >= self.window.div_ceil(2) || horizon == self.count();
        if worth {
            self.stream.promised = horizon;
            let children = self.role.children.iter();
            self.steps.extend(children.map(|child| Step::Grant(child.node, horizon)));
        }
    }

    /// As the coordinator released them, each by its own window.
    fn grant_each(&mut self) {
        if self.is_held {
            return;
        }
        let (window, count) = (self.window, self.count());
        for (child, gate) in self.role.children.iter().zip(&mut self.gates) {
            let upto = gate.grant(window, count);
            self.steps.extend(upto.map(|upto| Step::Grant(child.node, upto)));
        }
    }

    fn read_ahead(&mut self) {
        if !self.stream.has_local {
            return;
        }
        // A leaf has nothing to read for before its parent takes it.
        let leaf = self.role.children.is_empty() || self.stage == Stage::Draining;
        let limit = if leaf { self.horizon().min(self.taken()) } else { self.horizon() };
        while self.stream.read < limit {
            let read = self.stream.read;
            let spool = self.stage == Stage::Draining;
            self.steps.push_back(if spool { Step::ReadSpool(read) } else { Step::ReadOwn(read) });
            self.stream.read += 1;
        }
    }
}

impl Stream {
    fn new(has_local: bool, children: usize) -> Stream {
        let arrived = vec![0; children + usize::from(has_local)];
        Stream { arrived, has_local, ..Stream::default() }
    }

    /// A slice among those that have arrived.
    fn bit(&self, slice: u32) -> u32 {
        1 << (slice - self.next)
    }

    /// Slices of a source below this were asked for.
    fn asked(&self, source: usize) -> u32 {
        if self.has_local && source == 0 { self.read } else { self.promised }
    }

    /// Whether something that was asked for has not come, or not left.
    fn is_owed(&self) -> bool {
        let mut sources = self.arrived.iter().enumerate();
        let is_owed = |(at, bits): (usize, &u32)| self.asked(at) - self.next > bits.count_ones();
        !self.staying.is_empty() || sources.any(is_owed)
    }
}

impl Sink {
    /// A sink on this node takes everything from the first moment on.
    fn takes_at_once(self, role: &Role) -> u32 {
        match self {
            Sink::Store => role.windows.count(),
            Sink::Forward(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
