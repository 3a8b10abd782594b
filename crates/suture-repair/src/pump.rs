//! The pump of one lane at one agent: decides, slice by slice, what to read, pass on and ask for.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! It moves handles, not bytes: a slice in memory is named by (repair, lane, slice, source) and its
//! payload stays with the driver. Slices are consumed strictly in order; up to `window` of them
//! per source may be in memory. Arithmetic: at 10 GB/s and 256 KiB slices there are 40,000 slices a
//! second with about four events each, so an event may cost at most a microsecond of the core.
//!
//! Flow control: a receiver grants each child "all slices below n"; a grant is absolute, so losing
//! one, receiving it twice or late does no harm. n never exceeds what has left memory by more than
//! the window, which is what the task reserved; so a granted slice always finds room. A decoder
//! has several parents: it consumes a slice when all of them take it, and the slice has left when
//! its results have left for all of them.
//!
//! A `stored` relay spools its results to disk first and forwards from there, so that its memory
//! too is bounded by the window: two streams, one after the other (`stream.rs`). In a gated task
//! the receiver spills what each child sends, the child being granted nothing before its release
//! (`gate.rs`); when all of it is there, the pump goes on like a leaf whose sources all lie on its
//! own disk. Stored lanes stay as they are, because a sum takes one write and children take many.
//!
//! Where a destination has the first slices of a lane already, its grants state with which one the
//! lane begins, and a relay begins with the first that any of its parents wants. No node reads or
//! asks for anything before it has received that, so nothing is moved that is there.
//!
//! A pump that is held grants nothing more; what was granted still comes. Its senders stop by
//! themselves when their windows are full; no message is needed.

mod gate;
mod peers;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::{NodeId, RepairId};
use crate::mutant::{Mistake, Mutant};
use crate::plan::Range;
use crate::role::{Role, Sink, Spools};
use gate::Gate;
use stream::{Path, Stream};

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
    Spill(NodeId, u32),
    /// Let this child send all slices below the number.
    Grant(NodeId, u32),
}

/// Slice bookkeeping of one lane at one agent.
#[derive(Clone, Debug)]
pub struct Pump {
    role: Arc<Role>,
    window: u32,
    stage: Stage,
    /// For each sink: the first slice that it wants, once that is known.
    firsts: Vec<Option<u32>>,
    /// For each sink: it takes all slices below this.
    credit: Vec<u32>,
    /// All sinks take the slices below this.
    taken: u32,
    is_open: bool,
    /// What the children had been granted when it was held, if it is.
    held: Option<u64>,
    steps: VecDeque<Step>,
    mistake: Mistake,
}

/// What becomes of slices now.
#[derive(Clone, Debug)]
enum Stage {
    /// They go from each child to the spool, by gates in the order of the children.
    Spilling(Vec<Gate>),
    /// They go through memory in order.
    Streaming(Stream),
}

impl Pump {
    /// A pump for `role`. It does nothing before `open`.
    pub fn new(role: Arc<Role>, window: u32) -> Pump {
        assert!((1..=WINDOW_MAX).contains(&window), "window {window}");
        let stage = match role.spools {
            Spools::Nothing => Stage::Streaming(Stream::new(Path::Direct, &role, window, 0)),
            Spools::Results => Stage::Streaming(Stream::new(Path::ToSpool, &role, window, 0)),
            Spools::Sources => Stage::Spilling(vec![Gate::default(); role.children.len()]),
        };
        let credit: Vec<u32> = role.sinks.iter().map(|sink| sink.takes_at_once(&role)).collect();
        Pump {
            stage,
            window,
            firsts: vec![Some(0); credit.len()],
            taken: least(&credit),
            credit,
            is_open: false,
            held: None,
            steps: VecDeque::new(),
            mistake: Mistake::default(),
            role,
        }
    }

    /// The pump of a lane of which this agent has so many slices, if it keeps them; what others
    /// have, they announce by their grants.
    pub fn skipping(mut self, has: u32) -> Pump {
        let has = has.min(self.count());
        let first = |sink: &Sink| match sink {
            Sink::Store => Some(has),
            Sink::Forward(_) => None,
        };
        self.firsts = self.role.sinks.iter().map(first).collect();
        self.begin();
        self
    }

    /// The pump with a mistake that it commits from now on (tests).
    pub(crate) fn mistaken(self, mistake: Mistake) -> Pump {
        Pump { mistake, ..self }
    }

    /// The agent is ready to take slices (its temporary file exists, where it needs one).
    pub fn open(&mut self) {
        self.is_open = true;
        self.advance();
    }

    /// `parent` takes the slices from `first` on, below `below`.
    pub fn on_granted(&mut self, parent: NodeId, first: u32, below: u32) {
        let (count, was_known) = (self.count(), self.first().is_some());
        let sinks = self.role.sinks.iter().zip(&mut self.firsts).zip(&mut self.credit);
        for ((sink, known), credit) in sinks {
            if *sink == Sink::Forward(parent) {
                let first = *known.get_or_insert(first.min(count));
                *credit = below.min(count).max(first).max(*credit);
            }
        }
        if !was_known {
            self.begin();
        }
        self.taken = least(&self.credit);
        self.advance();
    }

    /// The first slice that is wanted of it, once every sink has announced its own.
    pub fn first(&self) -> Option<u32> {
        let mut firsts = self.firsts.iter().copied();
        firsts.try_fold(u32::MAX, |least, first| Some(least.min(first?)))
    }

    /// What the slices that have left are of the chunk, where they follow on each other.
    pub fn range_done(&self) -> Range {
        let (slice_ranges, done) = (self.role.slice_ranges, self.slices_done());
        let from = slice_ranges.get(0).offset;
        Range { from, to: from + slice_ranges.bytes_below(done) }
    }

    /// `child` may be granted slices from now on. Where nothing is gated it always might.
    pub fn on_released(&mut self, child: NodeId) {
        if let (Some(child), Stage::Spilling(gates)) = (self.place_of(child), &mut self.stage) {
            gates[child].release();
        }
        self.advance();
    }

    /// Ends the grants to the children, or begins them again.
    pub fn hold(&mut self, held: bool) {
        self.held = held.then(|| self.credit_given());
        self.advance();
    }

    /// Whether a slice from `child` is wanted; one that comes twice or without a grant is not.
    pub fn wants(&self, child: NodeId, slice: u32) -> bool {
        self.place_of(child).is_some_and(|place| self.wants_from(place, slice))
    }

    /// A slice from `child` is in memory. Must be wanted.
    pub fn on_arrived(&mut self, child: NodeId, slice: u32) {
        let place = self.place_of(child).filter(|place| self.wants_from(*place, slice));
        let Some(place) = place else { panic!("slice {slice} from {child} was not granted") };
        match &mut self.stage {
            Stage::Spilling(gates) => {
                gates[place].on_arrived(slice);
                self.steps.push_back(Step::Spill(child, slice));
            }
            Stage::Streaming(stream) => {
                let is_mistaken = self.mistake.is(Mutant::NoteUnasked);
                let noted = if is_mistaken { stream.credit_given() } else { slice };
                stream.on_arrived(place, noted);
                self.consume();
            }
        }
    }

    /// A slice of a child is in the spool.
    pub fn on_spilled(&mut self, child: NodeId, slice: u32) {
        let (place, count) = (self.place_of(child), self.count());
        let (Some(place), Stage::Spilling(gates)) = (place, &mut self.stage) else {
            panic!("slice {slice} from {child} was not to be kept");
        };
        gates[place].on_spilled(slice);
        if gates.iter().all(|gate| gate.is_full(count)) {
            self.drain();
        }
        self.advance();
    }

    /// A read that a step asked for is in memory.
    pub fn on_read(&mut self, slice: u32) {
        self.stream_mut().on_read(slice);
        self.consume();
    }

    /// A result of a slice has left memory: sent, stored or spooled.
    pub fn on_left(&mut self, slice: u32) {
        self.stream_mut().on_left(slice);
        self.drain_full();
        self.refill();
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Whether slices from `child` are still to come.
    pub fn awaits(&self, child: NodeId) -> bool {
        let Some(child) = self.place_of(child) else { return false };
        match &self.stage {
            Stage::Spilling(gates) => gates[child].awaits(self.count()),
            Stage::Streaming(stream) => stream.awaits(child),
        }
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
        self.held.is_some()
    }

    /// The role that it serves.
    pub fn role(&self) -> &Arc<Role> {
        &self.role
    }

    /// The children all of whose slices are spilled.
    pub fn spilled(&self) -> impl Iterator<Item = NodeId> {
        let is_spilled = |place: usize| match &self.stage {
            Stage::Spilling(gates) => gates[place].is_full(self.count()),
            Stage::Streaming(_) => self.keeps_sources(),
        };
        let children = self.role.children.iter().enumerate();
        children.filter(move |(place, _)| is_spilled(*place)).map(|(_, child)| child.node)
    }

    /// Whether something that it asked for has not come: a granted slice, a read, or word that a
    /// result has left. A pump that is owed nothing waits for its parents, or for a release.
    pub fn is_owed(&self) -> bool {
        match &self.stage {
            Stage::Spilling(gates) => gates.iter().any(Gate::is_owed),
            Stage::Streaming(stream) => stream.is_owed(),
        }
    }

    /// Whether every slice has left.
    pub fn is_done(&self) -> bool {
        self.slices_done() == self.count()
    }

    /// Slices that have left for good.
    pub fn slices_done(&self) -> u32 {
        match &self.stage {
            Stage::Streaming(stream) if stream.path() != Path::ToSpool => stream.done(),
            Stage::Streaming(_) | Stage::Spilling(_) => 0,
        }
    }

    /// Bytes of the lane that are done with. Where slices of children are spilled, each of them and
    /// the last combination is an equal part of the way, so that it grows with whatever moves and
    /// reaches the lane's length with the last result.
    pub fn bytes_done(&self) -> u64 {
        let parts = if self.keeps_sources() { self.role.children.len() as u64 + 1 } else { 1 };
        let moved = u64::from(self.slices_done()) + self.slices_spilled();
        self.role.slice_ranges.bytes_below((moved / parts) as u32)
    }

    /// A number that grows with every slice that moves, in whatever stage.
    #[inline]
    pub fn progress(&self) -> u64 {
        match &self.stage {
            Stage::Streaming(stream) if stream.path() != Path::FromSpool => stream.done().into(),
            Stage::Streaming(stream) => {
                u64::from(self.count()) + u64::from(stream.done()) + self.slices_spilled()
            }
            Stage::Spilling(_) => self.slices_spilled(),
        }
    }

    /// Looks at what the event of a slice can break; where slices stream, in constant time.
    ///
    /// # Panics
    /// More slices may be in memory than the window allows, some were consumed that the sinks do
    /// not take, or a child was granted slices while the pump was held.
    #[inline]
    pub fn assert_positions(&self, repair: RepairId, lane: u16) {
        if self.is_held() {
            self.assert_rest(repair, lane);
        }
        match &self.stage {
            Stage::Streaming(stream) => stream.assert_positions(self.taken, repair, lane),
            // Each of their slices is written to disk, beside which a look at each gate is nothing.
            Stage::Spilling(gates) => self.assert_gates(gates, repair, lane),
        }
    }

    /// Looks at everything.
    ///
    /// # Panics
    /// As `assert_positions`, and where what is known of slices in memory disagrees.
    pub fn assert_invariants(&self, repair: RepairId, lane: u16) {
        self.assert_positions(repair, lane);
        assert_eq!(self.taken, least(&self.credit), "taken: {repair} lane {lane}");
        if let Stage::Streaming(stream) = &self.stage {
            stream.assert_arrivals(repair, lane);
        }
    }

    fn assert_rest(&self, repair: RepairId, lane: u16) {
        let credit_given = self.credit_given();
        let grants_nothing = self.held.is_none_or(|held| credit_given <= held);
        assert!(
            grants_nothing,
            "held: {repair} lane {lane}: {credit_given} granted, {:?}",
            self.held
        );
    }

    fn assert_gates(&self, gates: &[Gate], repair: RepairId, lane: u16) {
        let broken = gates.iter().find(|gate| !gate.is_consistent(self.window));
        assert!(broken.is_none(), "gate: {repair} lane {lane}: {broken:?}");
    }

    /// Whether slices of children are spilled before anything is combined.
    fn keeps_sources(&self) -> bool {
        self.role.spools == Spools::Sources
    }

    /// Slices of children that are on disk.
    fn slices_spilled(&self) -> u64 {
        match &self.stage {
            Stage::Spilling(gates) => gates.iter().map(|gate| u64::from(gate.spilled())).sum(),
            Stage::Streaming(_) if self.keeps_sources() => {
                self.role.children.len() as u64 * u64::from(self.count())
            }
            Stage::Streaming(_) => 0,
        }
    }

    /// Slices that children were granted, in total.
    fn credit_given(&self) -> u64 {
        match &self.stage {
            Stage::Spilling(gates) => gates.iter().map(|gate| u64::from(gate.credit_given())).sum(),
            Stage::Streaming(stream) => u64::from(stream.credit_given()),
        }
    }

    fn wants_from(&self, place: usize, slice: u32) -> bool {
        match &self.stage {
            Stage::Spilling(gates) => gates[place].wants(slice),
            Stage::Streaming(stream) => stream.wants(place, slice),
        }
    }

    fn count(&self) -> u32 {
        self.role.slice_ranges.count()
    }

    /// The place of a node among the children that still send.
    fn place_of(&self, child: NodeId) -> Option<usize> {
        match &self.stage {
            Stage::Streaming(stream) if stream.path() == Path::FromSpool => None,
            Stage::Streaming(_) | Stage::Spilling(_) => {
                self.role.children.iter().position(|known| known.node == child)
            }
        }
    }

    /// The stream whose reads and results are reported: a pump that spills has asked for none.
    fn stream_mut(&mut self) -> &mut Stream {
        match &mut self.stage {
            Stage::Streaming(stream) => stream,
            Stage::Spilling(_) => panic!("nothing streams yet"),
        }
    }

    /// Goes on from the spool when all that is to be spooled is there.
    fn drain_full(&mut self) {
        if let Stage::Streaming(stream) = &self.stage
            && stream.path() == Path::ToSpool
            && stream.done() == self.count()
        {
            self.drain();
        }
    }

    fn drain(&mut self) {
        let first = self.first().unwrap_or(0);
        let stream = Stream::new(Path::FromSpool, &self.role, self.window, first);
        self.stage = Stage::Streaming(stream);
    }

    /// Begins where the lane does, once that is known. Nothing has moved before.
    fn begin(&mut self) {
        let (Some(first), Stage::Streaming(stream)) = (self.first(), &self.stage) else { return };
        let stream = Stream::new(stream.path(), &self.role, self.window, first);
        self.stage = Stage::Streaming(stream);
        if self.is_held() {
            self.held = Some(self.credit_given());
        }
    }

    /// Whatever became possible: consume, then grant and read ahead as far as memory allows.
    fn advance(&mut self) {
        if self.is_open && self.first().is_some() {
            self.consume();
            self.refill();
            if !self.is_held() {
                // Where a lane is there in full, nothing will leave for the spool.
                self.drain_full();
            }
        }
    }

    fn taken_by_sinks(&self) -> u32 {
        if self.mistake.is(Mutant::ConsumeEarly) { self.count() } else { self.taken }
    }

    /// Passes on what has arrived. That frees no memory yet, so nothing else becomes possible.
    fn consume(&mut self) {
        let taken = self.taken_by_sinks();
        let Stage::Streaming(stream) = &mut self.stage else { return };
        let path = stream.path();
        for slice in stream.consume(taken) {
            self.steps.push_back(path.pass_on(slice));
        }
    }

    /// Asks for as much as there is memory for.
    fn refill(&mut self) {
        let may_grant = !self.is_held() || self.mistake.is(Mutant::GrantHeld);
        let taken = self.taken_by_sinks();
        let children = self.role.children.iter().map(|child| child.node);
        match &mut self.stage {
            Stage::Spilling(_) if !may_grant => {}
            Stage::Spilling(gates) => {
                // As the coordinator released them, each by its own window.
                for (child, gate) in children.zip(gates) {
                    let below =
                        gate.grant(self.window, self.role.slice_ranges.count(), self.mistake);
                    self.steps.extend(below.map(|below| Step::Grant(child, below)));
                }
            }
            Stage::Streaming(stream) => {
                if may_grant && let Some(below) = stream.grant(self.mistake) {
                    self.steps.extend(children.map(|child| Step::Grant(child, below)));
                }
                let path = stream.path();
                for slice in stream.read_ahead(taken) {
                    self.steps.push_back(path.read(slice));
                }
            }
        }
    }
}

impl Path {
    /// A slice whose sources are all in memory goes on.
    fn pass_on(self, slice: u32) -> Step {
        match self {
            Path::Direct | Path::FromSpool => Step::Deliver(slice),
            Path::ToSpool => Step::Spool(slice),
        }
    }

    /// A slice comes from the own chunk, or from the spool.
    fn read(self, slice: u32) -> Step {
        match self {
            Path::Direct | Path::ToSpool => Step::ReadOwn(slice),
            Path::FromSpool => Step::ReadSpool(slice),
        }
    }
}

/// What all sinks take, each of which takes the slices below its number.
fn least(credit: &[u32]) -> u32 {
    credit.iter().copied().min().unwrap_or(0)
}

impl Sink {
    /// A sink on this node takes everything from the first moment on.
    fn takes_at_once(self, role: &Role) -> u32 {
        match self {
            Sink::Store => role.slice_ranges.count(),
            Sink::Forward(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
