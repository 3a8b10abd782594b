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
//! (`Draining`), so that its memory too is bounded by the window.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::NodeId;
use crate::role::{Role, Sink};

/// The widest window: arrivals ahead of the next slice are kept as bits of one word.
pub const WINDOW_MAX: u32 = 32;

/// What the pump wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this slice of the agent's own chunk.
    ReadOwn(u32),
    /// Read this slice of the spooled results.
    ReadSpool(u32),
    /// Combine all sources of this slice and hand each result to its sink.
    Deliver(u32),
    /// Combine all sources of this slice and write the results to the spool.
    Spool(u32),
    /// Let this child send all slices below the number.
    Grant(NodeId, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// From the sources straight to the sink.
    Direct,
    /// From the sources to the spool.
    Spooling,
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
    open: bool,
    steps: VecDeque<Step>,
}

impl Pump {
    /// A pump for `role`. It does nothing before `open`.
    pub fn new(role: Arc<Role>, window: u32) -> Pump {
        assert!((1..=WINDOW_MAX).contains(&window), "window {window}");
        let has_local = role.own.is_some();
        Pump {
            arrived: vec![0; role.inputs()],
            stage: if role.stored { Stage::Spooling } else { Stage::Direct },
            window,
            has_local,
            next: 0,
            read: 0,
            done: 0,
            staying: VecDeque::new(),
            granted: role.sinks.iter().map(|sink| sink.takes_at_once(&role)).collect(),
            promised: 0,
            open: false,
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

    /// Whether a slice from `child` is wanted; one that comes twice or without a grant is not.
    pub fn wants(&self, child: NodeId, slice: u32) -> bool {
        let Some(source) = self.source_of(child) else { return false };
        slice >= self.next && slice < self.promised && self.arrived[source] & self.bit(slice) == 0
    }

    /// A slice from `child` is in memory. Must be wanted.
    pub fn on_arrived(&mut self, child: NodeId, slice: u32) {
        assert!(self.wants(child, slice), "slice {slice} from {child} was not granted");
        let source = self.source_of(child).expect("wanted, so it is a child");
        self.arrived[source] |= self.bit(slice);
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

    /// Whether every slice has left.
    pub fn is_done(&self) -> bool {
        self.done == self.count() && self.stage != Stage::Spooling
    }

    /// Slices that have left for good.
    pub fn slices_done(&self) -> u32 {
        if self.stage == Stage::Spooling { 0 } else { self.done }
    }

    /// A number that grows with every slice that moves, in whatever stage.
    pub fn progress(&self) -> u64 {
        let spooled = if self.stage == Stage::Draining { self.count() } else { 0 };
        u64::from(self.done) + u64::from(spooled)
    }

    fn count(&self) -> u32 {
        self.role.windows.count()
    }

    fn bit(&self, slice: u32) -> u32 {
        1 << (slice - self.next)
    }

    fn source_of(&self, child: NodeId) -> Option<usize> {
        if self.stage == Stage::Draining {
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
        if self.stage == Stage::Draining || self.promised == horizon {
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
mod tests {
    use super::*;
    use crate::id::{ChunkCopy, ChunkIndex, Stamp, StripeId};
    use crate::plan::{Lane, Mode, Plan, Range, Start};
    use crate::role::{Child, Own, Rows, Work};

    const CHILD: NodeId = NodeId(1);
    const PARENT: NodeId = NodeId(2);

    fn role(own: bool, children: &[NodeId], sinks: &[Sink], stored: bool) -> Arc<Role> {
        let range = Range { from: 0, to: 1000 };
        let lost = vec![ChunkIndex(0)];
        let (decoder, scheme) = (None, None);
        let mode = Mode::Streamed;
        let lane = Lane { range, lost: lost.clone(), mode, decoder, scheme, edges: vec![] };
        let plan = Plan {
            stripe: StripeId(0),
            lost,
            destinations: [].into(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![],
        };
        let copy = ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(1), stamp: Stamp(0) };
        let rows = Rows::bytes_wide(1);
        let child = |&node: &NodeId| Child { node, rows: rows.clone() };
        let children = children.iter().map(child).collect();
        let own = own.then_some(Own { copy, reads: vec![0], part: None, rows });
        Arc::new(Role {
            own,
            children,
            work: Work::Sum { coefficient: 3 },
            sinks: sinks.to_vec(),
            stored,
            // Ten slices of 100 bytes.
            windows: plan.windows(&lane, 100),
            sub_chunk_count: 1,
            chunk_bytes: 1000,
        })
    }

    fn steps(pump: &mut Pump) -> Vec<Step> {
        std::iter::from_fn(|| pump.poll()).collect()
    }

    #[test]
    fn a_leaf_reads_and_sends_only_what_its_parent_takes() {
        let mut pump = Pump::new(role(true, &[], &[Sink::Forward(PARENT)], false), 4);
        pump.open();
        assert_eq!(steps(&mut pump), []);
        pump.on_granted(PARENT, 2);
        assert_eq!(steps(&mut pump), [Step::ReadOwn(0), Step::ReadOwn(1)]);
        pump.on_read(1);
        assert_eq!(steps(&mut pump), [], "in order");
        pump.on_read(0);
        assert_eq!(steps(&mut pump), [Step::Deliver(0), Step::Deliver(1)]);
        pump.on_granted(PARENT, 1);
        pump.on_left(1);
        assert_eq!(steps(&mut pump), [], "an old grant takes nothing back");
    }

    #[test]
    fn a_slice_that_comes_twice_or_ungranted_is_not_wanted() {
        let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Store], false), 4);
        assert!(!pump.wants(CHILD, 0), "not open yet");
        pump.open();
        assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 4)]);
        assert!(!pump.wants(CHILD, 4) && !pump.wants(PARENT, 0));
        pump.on_arrived(CHILD, 1);
        assert!(!pump.wants(CHILD, 1) && pump.wants(CHILD, 0));
        pump.on_arrived(CHILD, 0);
        assert_eq!(steps(&mut pump), [Step::Deliver(0), Step::Deliver(1)]);
        assert!(!pump.wants(CHILD, 0));
    }

    #[test]
    fn memory_never_holds_more_than_a_window_of_each_source() {
        let mut pump = Pump::new(role(true, &[CHILD], &[Sink::Forward(PARENT)], false), 3);
        pump.open();
        pump.on_granted(PARENT, 10);
        let (mut own, mut child, mut granted, mut forwarded) = (0, 0, 0, 0);
        for _ in 0..100 {
            for step in steps(&mut pump) {
                match step {
                    Step::ReadOwn(slice) => {
                        own += 1;
                        assert!(slice < forwarded + 3, "read too far ahead");
                        pump.on_read(slice);
                    }
                    Step::Grant(_, upto) => {
                        assert!(upto <= forwarded + 3, "granted too far ahead");
                        granted = upto;
                    }
                    Step::Deliver(slice) => {
                        assert_eq!(slice, forwarded);
                        pump.on_left(slice);
                        forwarded += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if child < granted {
                pump.on_arrived(CHILD, child);
                child += 1;
            }
        }
        assert_eq!((own, child, forwarded, pump.is_done()), (10, 10, 10, true));
        assert!(!pump.awaits(CHILD) && !pump.feeds(PARENT));
    }

    #[test]
    fn a_stored_relay_spools_all_of_it_before_it_sends_the_first_slice() {
        let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Forward(PARENT)], true), 4);
        pump.open();
        pump.on_granted(PARENT, 10);
        let (mut arrived, mut spooled, mut forwarded) = (0, 0, 0);
        for _ in 0..200 {
            for step in steps(&mut pump) {
                match step {
                    Step::Spool(slice) => {
                        spooled += 1;
                        pump.on_left(slice);
                    }
                    Step::ReadSpool(slice) => {
                        assert_eq!(spooled, 10);
                        pump.on_read(slice);
                    }
                    Step::Deliver(slice) => {
                        forwarded += 1;
                        pump.on_left(slice);
                    }
                    Step::Grant(..) => {}
                    other => panic!("{other:?}"),
                }
            }
            if pump.wants(CHILD, arrived) {
                pump.on_arrived(CHILD, arrived);
                arrived += 1;
            }
        }
        assert_eq!((spooled, forwarded, pump.is_done()), (10, 10, true));
    }

    #[test]
    fn a_decoder_goes_as_fast_as_its_slowest_parent() {
        const OTHER: NodeId = NodeId(3);
        let sinks = [Sink::Store, Sink::Forward(PARENT), Sink::Forward(OTHER)];
        let mut pump = Pump::new(role(false, &[CHILD], &sinks, false), 2);
        pump.open();
        assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 2)]);
        pump.on_arrived(CHILD, 0);
        pump.on_arrived(CHILD, 1);
        pump.on_granted(PARENT, 2);
        assert_eq!(steps(&mut pump), [], "the other one takes nothing yet");
        pump.on_granted(OTHER, 1);
        assert_eq!(steps(&mut pump), [Step::Deliver(0)]);
        assert!(pump.feeds(PARENT) && pump.feeds(OTHER) && !pump.feeds(CHILD));
        pump.on_left(0);
        pump.on_left(0);
        assert_eq!(steps(&mut pump), [], "one result is still here");
        pump.on_left(0);
        assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 3)]);
        assert_eq!(pump.slices_done(), 1);
    }
}
