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

use crate::id::NodeId;
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
    /// For each source (own or spool first, then the children): arrived slices, bit i = `next + i`.
    arrived: Vec<u32>,
    has_local: bool,
    /// The next slice to be consumed.
    next: u32,
    /// Reads were issued for all slices below this.
    read: u32,
    /// Slices below this have left memory; of those from it to `next`, how many results have not.
    done: u32,
    staying: VecDeque<usize>,
    /// For each sink: it takes all slices below this.
    granted: Vec<u32>,
    /// The children were granted all slices below this.
    promised: u32,
    /// The children in their order, where each is kept.
    gates: Vec<Gate>,
    open: bool,
    held: bool,
    steps: VecDeque<Step>,
}

impl Pump {
    /// A pump for `role`. It does nothing before `open`.
    pub fn new(role: Arc<Role>, window: u32) -> Pump {
        assert!((1..=WINDOW_MAX).contains(&window), "window {window}");
        let has_local = role.own.is_some();
        let (stage, gate_count) = match role.spools {
            Spools::Nothing => (Stage::Direct, 0),
            Spools::Results => (Stage::Spooling, 0),
            Spools::Sources => (Stage::Keeping, role.children.len()),
        };
        Pump {
            arrived: vec![0; role.inputs()],
            stage,
            window,
            has_local,
            next: 0,
            read: 0,
            done: 0,
            staying: VecDeque::new(),
            granted: role.sinks.iter().map(|sink| sink.takes_at_once(&role)).collect(),
            promised: 0,
            gates: vec![Gate::default(); gate_count],
            open: false,
            held: false,
            steps: VecDeque::new(),
            role,
        }
    }

    /// The agent is ready to take slices (its temporary file exists, where it needs one).
    pub fn open(&mut self) {
        self.open = true;
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
        self.held = held;
        self.advance();
    }

    /// Whether a slice from `child` is wanted; one that comes twice or without a grant is not.
    pub fn wants(&self, child: NodeId, slice: u32) -> bool {
        if let Some(gate) = self.gate_of(child) {
            return self.gates[gate].wants(slice);
        }
        let Some(source) = self.source_of(child) else { return false };
        slice >= self.next && slice < self.promised && self.arrived[source] & self.bit(slice) == 0
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
        self.arrived[source] |= self.bit(slice);
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
        assert!(self.has_local && slice >= self.next && slice < self.read, "read {slice}");
        self.arrived[0] |= self.bit(slice);
        self.advance();
    }

    /// A result of a slice has left memory: sent, stored or spooled.
    pub fn on_left(&mut self, slice: u32) {
        assert!(slice >= self.done && slice < self.next, "slice {slice} was not on its way out");
        let staying = &mut self.staying[(slice - self.done) as usize];
        *staying = staying.checked_sub(1).expect("each result leaves once");
        while self.staying.front() == Some(&0) {
            self.staying.pop_front();
            self.done += 1;
        }
        if self.stage == Stage::Spooling && self.done == self.count() {
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
        self.next + self.arrived[source].trailing_ones() < self.count()
    }

    /// Whether `node` is a parent and slices are still to go there.
    pub fn feeds(&self, node: NodeId) -> bool {
        self.role.sinks.contains(&Sink::Forward(node)) && !self.is_done()
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
        let asked = |source| if self.has_local && source == 0 { self.read } else { self.promised };
        let mut sources = self.arrived.iter().enumerate();
        !self.staying.is_empty()
            || self.gates.iter().any(Gate::is_owed)
            || sources.any(|(at, bits)| asked(at).saturating_sub(self.next) > bits.count_ones())
    }

    /// Whether every slice has left.
    pub fn is_done(&self) -> bool {
        self.slices_done() == self.count()
    }

    /// Slices that have left for good.
    pub fn slices_done(&self) -> u32 {
        match self.stage {
            Stage::Direct | Stage::Draining => self.done,
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
        u64::from(self.done) + u64::from(spooled) + self.slices_kept()
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

    fn bit(&self, slice: u32) -> u32 {
        1 << (slice - self.next)
    }

    fn source_of(&self, child: NodeId) -> Option<usize> {
        if matches!(self.stage, Stage::Keeping | Stage::Draining) {
            return None;
        }
        let position = self.role.children.iter().position(|c| c.node == child)?;
        Some(position + usize::from(self.has_local))
    }

    fn drain(&mut self) {
        self.stage = Stage::Draining;
        self.has_local = true;
        self.arrived = vec![0];
        (self.next, self.read, self.done) = (0, 0, 0);
    }

    /// Slices below this may be taken into memory.
    fn horizon(&self) -> u32 {
        (self.done + self.window).min(self.count())
    }

    /// Whatever became possible: consume, then grant and read ahead into the room that is left.
    fn advance(&mut self) {
        if !self.open {
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
        while self.next < limit && self.arrived.iter().all(|bits| bits & 1 == 1) {
            let slice = self.next;
            self.steps.push_back(if spools { Step::Spool(slice) } else { Step::Deliver(slice) });
            self.staying.push_back(if spools { 1 } else { self.role.sinks.len() });
            self.arrived.iter_mut().for_each(|bits| *bits >>= 1);
            self.next += 1;
        }
    }

    fn grant(&mut self) {
        let horizon = self.horizon();
        if self.stage == Stage::Draining || self.held || self.promised == horizon {
            return;
        }
        // Half a window at a time: a grant for each slice would double the messages.
        let worth = horizon - self.promised >= self.window.div_ceil(2) || horizon == self.count();
        if worth {
            self.promised = horizon;
            let children = self.role.children.iter();
            self.steps.extend(children.map(|child| Step::Grant(child.node, horizon)));
        }
    }

    /// As the coordinator released them, each by its own window.
    fn grant_each(&mut self) {
        if self.held {
            return;
        }
        let (window, count) = (self.window, self.count());
        for (child, gate) in self.role.children.iter().zip(&mut self.gates) {
            let upto = gate.grant(window, count);
            self.steps.extend(upto.map(|upto| Step::Grant(child.node, upto)));
        }
    }

    fn read_ahead(&mut self) {
        if !self.has_local {
            return;
        }
        // A leaf has nothing to read for before its parent takes it.
        let leaf = self.role.children.is_empty() || self.stage == Stage::Draining;
        let limit = if leaf { self.horizon().min(self.taken()) } else { self.horizon() };
        while self.read < limit {
            let read = self.read;
            let spool = self.stage == Stage::Draining;
            self.steps.push_back(if spool { Step::ReadSpool(read) } else { Step::ReadOwn(read) });
            self.read += 1;
        }
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
