//! Slices on their way through memory, in order: asked for, arrived, consumed, left.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! Sources are counted: the own chunk or the spool first, where there is one, then the children.
//! Where the sinks have the beginning of a lane, all counts begin behind it.
//!
//! The window opens with what leaves: from `OPENING` slices by one with each, to the whole of it.
//! Hundreds of lanes begin at once, and a whole window of each would be read from disks within a
//! moment and then wait for links for seconds, while applications wait for disks and processors.
//!
//! Invariants: slices leave in the order in which they are consumed, `done <= next`; of each source
//! what was asked for lies within the window, `next <= asked <= done + window`; and only what was
//! asked for has arrived.

use std::ops::Range;

use crate::id::RepairId;
use crate::mutant::{Mistake, Mutant};
use crate::role::Role;

use super::WINDOW_MAX;

/// Slices that may be in memory before any has left: one is moved while the other is read.
const OPENING: u32 = 2;

/// Where slices come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// From the sources straight to the sinks.
    Direct,
    /// From the sources to the spool.
    ToSpool,
    /// From the spool to the sinks.
    FromSpool,
}

/// Slice bookkeeping of one path through a lane.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    path: Path,
    /// So many slices of each source may be in memory, once as many have left.
    window: u32,
    /// The slice that it began with.
    first: u32,
    /// How many slices the lane has.
    count: u32,
    /// How many results each slice has.
    results: u16,
    /// Whether the first source is the own chunk or the spool.
    has_local: bool,
    /// For each source: the slices that have arrived, bit i = `next + i`.
    arrived: Vec<u32>,
    /// The next slice to be consumed.
    next: u32,
    /// Reads were issued for all slices below this.
    read: u32,
    /// The children were granted all slices below this.
    credit_given: u32,
    /// Whether the children were granted anything, if only to be notified where the lane begins.
    is_announced: bool,
    /// Slices below this have left memory.
    done: u32,
    /// How many results of each slice from there to `next` have not, at the slice's number modulo
    /// the widest window.
    staying: [u16; WINDOW_MAX as usize],
}

impl Stream {
    /// A stream of which nothing has moved, from the slice `first` on.
    pub fn new(path: Path, role: &Role, window: u32, first: u32) -> Stream {
        let (has_local, children) = match path {
            Path::Direct | Path::ToSpool => (role.own.is_some(), role.children.len()),
            Path::FromSpool => (true, 0),
        };
        Stream {
            path,
            window,
            first,
            count: role.slice_ranges.count(),
            results: if path == Path::ToSpool { 1 } else { role.sinks.len() as u16 },
            has_local,
            arrived: vec![0; children + usize::from(has_local)],
            next: first,
            read: first,
            credit_given: first,
            is_announced: false,
            done: first,
            staying: [0; WINDOW_MAX as usize],
        }
    }

    pub fn path(&self) -> Path {
        self.path
    }

    /// Slices below this have left memory.
    pub fn done(&self) -> u32 {
        self.done
    }

    /// The children were granted all slices below this.
    pub fn credit_given(&self) -> u32 {
        self.credit_given
    }

    /// Whether a child's slice was granted and has not come.
    pub fn wants(&self, child: usize, slice: u32) -> bool {
        (self.next..self.credit_given).contains(&slice)
            && self.arrived[self.source(child)] & self.bit(slice) == 0
    }

    /// Whether slices of a child are still to come.
    pub fn awaits(&self, child: usize) -> bool {
        self.next + self.arrived[self.source(child)].trailing_ones() < self.count
    }

    /// How many slices of a child have come, or were there before.
    pub fn arrived(&self, child: usize) -> u32 {
        self.next + self.arrived[self.source(child)].count_ones()
    }

    /// Whether a child was granted slices that have not come.
    pub fn is_awaited(&self, child: usize) -> bool {
        self.credit_given > self.arrived(child)
    }

    /// A slice of a child is in memory. Must be wanted.
    pub fn on_arrived(&mut self, child: usize, slice: u32) {
        let source = self.source(child);
        self.arrived[source] |= self.bit(slice);
    }

    /// A slice that was to be read is in memory.
    pub fn on_read(&mut self, slice: u32) {
        let was_asked = self.has_local && (self.next..self.read).contains(&slice);
        assert!(was_asked, "read {slice}");
        self.arrived[0] |= self.bit(slice);
    }

    /// A result of a slice has left memory.
    pub fn on_left(&mut self, slice: u32) {
        let was_consumed = (self.done..self.next).contains(&slice);
        assert!(was_consumed, "slice {slice} was not on its way out");
        let staying = &mut self.staying[place(slice)];
        *staying = staying.checked_sub(1).expect("each result leaves once");
        while self.done < self.next && self.staying[place(self.done)] == 0 {
            self.done += 1;
        }
    }

    /// Consumes the slices whose sources have all arrived, as far as the sinks take them.
    pub fn consume(&mut self, taken: u32) -> Range<u32> {
        let (first, limit) = (self.next, self.limit(taken));
        while self.next < limit && self.arrived.iter().all(|bits| bits & 1 == 1) {
            self.staying[place(self.next)] = self.results;
            self.arrived.iter_mut().for_each(|bits| *bits >>= 1);
            self.next += 1;
        }
        first..self.next
    }

    /// The slices that the children are to be granted anew, if it is worth a message to each: half
    /// a window at a time, since a grant for each slice would double the messages. The first grant
    /// is always worth it: where nothing is to be sent any more, it announces that.
    pub fn grant(&mut self, mistake: Mistake) -> Option<u32> {
        let ahead = u32::from(mistake.is(Mutant::GrantAhead));
        let horizon = (self.horizon() + ahead).min(self.count);
        let more = horizon - self.credit_given;
        let is_worth = more > 0 && (more >= self.opened().div_ceil(2) || horizon == self.count);
        let may_follow = is_worth && !mistake.is(Mutant::ForgetGrant);
        if self.is_leaf() || (self.is_announced && !may_follow) {
            return None;
        }
        (self.credit_given, self.is_announced) = (horizon, true);
        Some(horizon)
    }

    /// The slices to be read now. A leaf has nothing to read for before its sinks take it.
    pub fn read_ahead(&mut self, taken: u32) -> Range<u32> {
        let first = self.read;
        if self.has_local {
            let horizon = self.horizon();
            let limit = if self.is_leaf() { horizon.min(taken) } else { horizon };
            self.read = self.read.max(limit);
        }
        first..self.read
    }

    /// Whether something that was asked for has not come, or not left.
    pub fn is_owed(&self) -> bool {
        let mut sources = self.arrived.iter().enumerate();
        let is_owed = |(at, bits): (usize, &u32)| self.asked(at) - self.next > bits.count_ones();
        self.done < self.next || sources.any(is_owed)
    }

    /// Looks at how far slices have come, in constant time. Nothing else can be wrong after an
    /// event of a slice, since what was not asked for is refused when it arrives.
    ///
    /// # Panics
    /// They are out of order or outside of the window, or the sinks do not take what was consumed.
    #[inline]
    pub fn assert_positions(&self, taken: u32, repair: RepairId, lane: u16) {
        let (done, next, horizon) = (self.done, self.next, self.horizon());
        let is_within = |asked| next <= asked && asked <= horizon;
        let is_consumed = done <= next && next <= self.limit(taken);
        let is_asked = (!self.has_local || is_within(self.read))
            && (self.is_leaf() || is_within(self.credit_given));
        if !is_consumed || !is_asked {
            self.panic_of_positions(taken, repair, lane);
        }
    }

    #[cold]
    fn panic_of_positions(&self, taken: u32, repair: RepairId, lane: u16) -> ! {
        let (done, next, limit) = (self.done, self.next, self.limit(taken));
        let (read, credit_given, horizon) = (self.read, self.credit_given, self.horizon());
        panic!(
            "window: {repair} lane {lane}: {done} left, {next} out of {limit} that are taken, \
             {read} read, {credit_given} granted, {horizon} allowed"
        );
    }

    /// # Panics
    /// Slices have arrived that were not asked for.
    pub fn assert_arrivals(&self, repair: RepairId, lane: u16) {
        let next = self.next;
        for (source, bits) in self.arrived.iter().enumerate() {
            let asked = self.asked(source);
            let is_asked = u64::from(*bits) >> (asked - next) == 0;
            assert!(is_asked, "slices: {repair} lane {lane}: {bits:b} of {next} to {asked} came");
        }
    }

    fn source(&self, child: usize) -> usize {
        child + usize::from(self.has_local)
    }

    /// Whether no child sends.
    fn is_leaf(&self) -> bool {
        self.arrived.len() == usize::from(self.has_local)
    }

    /// Slices below this may be consumed: the spool takes all of them.
    fn limit(&self, taken: u32) -> u32 {
        if self.path == Path::ToSpool { self.count } else { taken }
    }

    /// Slices below this may be taken into memory.
    fn horizon(&self) -> u32 {
        (self.done + self.opened()).min(self.count)
    }

    /// The window as far as it has opened.
    fn opened(&self) -> u32 {
        self.window.min(OPENING + (self.done - self.first))
    }

    /// A slice among those that have arrived.
    fn bit(&self, slice: u32) -> u32 {
        1 << (slice - self.next)
    }

    /// Slices of a source below this were asked for.
    fn asked(&self, source: usize) -> u32 {
        if self.has_local && source == 0 { self.read } else { self.credit_given }
    }
}

/// Where the results of a slice are counted.
fn place(slice: u32) -> usize {
    (slice % WINDOW_MAX) as usize
}
