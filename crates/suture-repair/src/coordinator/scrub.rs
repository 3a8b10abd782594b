//! Scrubbing: unread copies are searched for damage before it is too late.
//!
//! Place: [failure detected] -> stripes affected -> queue -> ...
//! A pass takes every stripe once, oldest first. All chunks of a stripe are asked for their
//! fingerprints, which takes one read of each copy and proves two things: the copy has its
//! checksums, or its node reports that it is bad; and the chunks fit each other, whatever their
//! checksums say. Where they do not and all others agree once one is left out, that one is corrupt,
//! unless it has the checksum that was recorded when it was written: then it was written wrong, no
//! repair can bring back what was not there, and the stripe is reported, as it is where nothing
//! shows which chunk is wrong.
//!
//! A node reads few copies for a pass at a time, none of them while it has others to check, and the
//! next one not before the last one has taken as long as `rate` gives it. A stripe with a chunk on
//! a silent node is put off; a pass ends when nothing is put off any more. For a node that an
//! operator has paused no pass waits: what it holds is left to the next one.
//!
//! Invariants: at most [`READS_MAX`] reads of a pass are in flight at a node, and at most one
//! comparison of a stripe.

mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use suture_code::fingerprint::Fingerprint;

use super::Coordinator;
use crate::event::{Health, Output, PassStatus, Report, ScrubStatus, ScrubStep};
use crate::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, RepairId, StripeId};
use crate::message::{CopyFault, FingerprintRequest, ToAgent};
use crate::mutant::{Mistake, Mutant};
use crate::stripe::Stripe;
use crate::time::{Span, Time};

/// Copies that a node reads for a pass at a time: one, and the next so that its disk need not wait.
const READS_MAX: usize = 2;

/// Stripes among which the next one is looked for: one that has all its nodes free.
const CANDIDATES_MAX: usize = 64;

/// Stripes that may wait for silent nodes; while there are so many the pass waits for them.
const PUT_OFF_MAX: usize = 1024;

/// So often all of the candidates may be begun or left out in one go; then others have their turn.
const REFILLS_MAX: usize = 16;
const GO_ON_AFTER: Span = Span::from_millis(1);

/// How long a stripe waits at most for a node that has other copies to check, before it is looked
/// at again.
const BUSY_RETRY: Span = Span::from_secs(1);

/// How often it is written down how far a pass has come: the first stripe that is not done. A
/// restart repeats what came after it.
const SAVE_EVERY: Span = Span::from_secs(60);

/// How unread copies are searched for damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubConfig {
    /// A pass begins so long after the one before it began; none: only when an operator wants one.
    pub period: Option<Span>,
    /// Bytes per second that passes read of each node's disk at most; none: as fast as it reads.
    pub rate: Option<u64>,
    /// How long before this coordinator's start the last pass began; none: there was none.
    pub begun_before: Option<Span>,
    /// Where that pass has come, if it has not ended: the stripes below this one are done.
    pub next: Option<StripeId>,
}

impl ScrubConfig {
    /// A configuration without passes but those that an operator begins, and without a limit of
    /// their speed.
    pub const OFF: ScrubConfig =
        ScrubConfig { period: None, rate: None, begun_before: None, next: None };
}

/// What passes have done and do.
#[derive(Debug)]
pub(super) struct Scrub {
    config: ScrubConfig,
    pass: Option<Pass>,
    /// When the next pass begins.
    due: Option<Time>,
    /// How many passes have begun.
    passes: u64,
    comparisons: BTreeMap<RepairId, Comparison>,
    reads: BTreeMap<NodeId, Reads>,
    /// Stripes whose chunks do not fit each other, though no copy can be called corrupt.
    inconsistent: BTreeSet<StripeId>,
    /// Copies of no use that passes have found.
    found: u64,
    /// Copies that this pass, or the last one, has not read: their nodes were paused or dead.
    left_out: u64,
    /// Whether something changed that a stripe may have waited for.
    is_due: bool,
    /// Whether a node fell silent or reported again since stripes that wait for one were looked at.
    has_news: bool,
    /// When the first of the candidates has been waited for long enough.
    wake_at: Option<Time>,
    pub mistake: Mistake,
}

/// A pass that has not ended.
#[derive(Debug)]
struct Pass {
    /// Stripes from here on have not been looked at.
    next: StripeId,
    /// Looked at and not begun.
    candidates: BTreeSet<StripeId>,
    /// With a chunk on a silent node.
    put_off: BTreeSet<StripeId>,
    stripes_done: u64,
    bytes_done: u64,
    saved: (Time, StripeId),
}

/// One stripe whose fingerprints are asked for.
#[derive(Debug)]
struct Comparison {
    stripe: StripeId,
    seed: u64,
    asked_at: Time,
    wanted: BTreeMap<ChunkIndex, CopyAt>,
    sums: BTreeMap<ChunkIndex, Arc<[u8]>>,
    /// Whether a copy could not be read because its node fell silent.
    is_partial: bool,
    /// Copies that are not asked for, since their nodes are paused or dead.
    left_out: u64,
}

/// What passes read at one node.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    in_flight: usize,
    /// What was read before has taken its time by then.
    free_at: Time,
}

/// Whether the comparison of a stripe can begin.
enum Readiness {
    Now,
    /// Not before this time, as far as the rate goes.
    At(Time),
    /// When something is answered.
    Busy,
    /// When a silent node reports again, or is given up.
    Silent,
    /// There is nothing to read.
    Empty,
}

impl Scrub {
    /// What a coordinator begins with: the pass goes on that the one before had begun.
    pub fn new(now: Time, config: ScrubConfig, stripes: impl Iterator<Item = StripeId>) -> Scrub {
        let age = config.begun_before.map_or(u64::MAX, |age| age.ns);
        let due = config.period.map(|period| now + Span { ns: period.ns.saturating_sub(age) });
        let pass = config.next.map(|next| Pass {
            stripes_done: stripes.take_while(|id| *id < next).count() as u64,
            ..Pass::new(now, next)
        });
        Scrub {
            config,
            passes: u64::from(pass.is_some()),
            pass,
            due,
            comparisons: BTreeMap::new(),
            reads: BTreeMap::new(),
            inconsistent: BTreeSet::new(),
            found: 0,
            left_out: 0,
            is_due: true,
            has_news: true,
            wake_at: None,
            mistake: Mistake::default(),
        }
    }

    /// Whether a pass has not found that the chunks of the stripe do not fit each other.
    pub fn is_consistent(&self, stripe: StripeId) -> bool {
        !self.inconsistent.contains(&stripe)
    }

    /// The stripe is gone.
    pub fn remove(&mut self, stripe: StripeId) {
        self.inconsistent.remove(&stripe);
    }

    /// A node has answered, so a stripe that waits for it may go on.
    pub fn wake(&mut self) {
        self.is_due = true;
    }

    /// A node is up, silent or given up from now on.
    pub fn node_changed(&mut self) {
        (self.is_due, self.has_news) = (true, true);
    }

    pub fn status(&self, now: Time, stripes: u64) -> ScrubStatus {
        let pass = self.pass.as_ref().map(|pass| PassStatus {
            stripes_done: pass.stripes_done.min(stripes),
            stripes,
            bytes_done: pass.bytes_done,
            put_off: pass.put_off.len() as u64,
        });
        ScrubStatus {
            passes: self.passes,
            pass,
            next_in: self.due.map(|due| due.since(now)),
            found: self.found,
            left_out: self.left_out,
            inconsistent: self.inconsistent.iter().copied().collect(),
            ..ScrubStatus::default()
        }
    }

    /// Looks at the candidates again by then.
    fn wake_by(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
    }

    fn max(&self) -> usize {
        READS_MAX + usize::from(self.mistake.is(Mutant::ScrubBeyond))
    }

    /// Notes that a copy was read for a comparison, or will not be.
    fn read_ended(&mut self, node: NodeId) {
        self.is_due = true;
        if let Some(reads) = self.reads.get_mut(&node) {
            reads.in_flight = reads.in_flight.saturating_sub(1);
        }
    }

    /// # Panics
    /// More is in flight at a node than may be, or than is noted, or a stripe is compared twice.
    pub fn assert_invariants(&self) {
        let mut in_flight: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut stripes = BTreeSet::new();
        for comparison in self.comparisons.values() {
            let is_first = stripes.insert(comparison.stripe);
            assert!(is_first, "scrub: {} is compared twice at a time", comparison.stripe);
            assert!(!comparison.wanted.is_empty(), "scrub: {} awaits nothing", comparison.stripe);
            comparison.wanted.values().for_each(|at| *in_flight.entry(at.node).or_default() += 1);
        }
        for (node, reads) in &self.reads {
            let count = in_flight.remove(node).unwrap_or(0);
            assert_eq!(reads.in_flight, count, "scrub: reads in flight at {node}, and awaited");
            assert!(count <= READS_MAX, "scrub: {count} reads are in flight at {node}");
        }
        assert!(in_flight.is_empty(), "scrub: reads in flight that are not counted");
    }
}

impl Pass {
    fn new(now: Time, next: StripeId) -> Pass {
        Pass {
            next,
            candidates: BTreeSet::new(),
            put_off: BTreeSet::new(),
            stripes_done: 0,
            bytes_done: 0,
            saved: (now, next),
        }
    }

    /// There is nothing to read of it.
    fn skip(&mut self, id: StripeId) {
        self.candidates.remove(&id);
        self.stripes_done += 1;
    }
}

impl Coordinator {
    /// Begins a pass over everything now; what another has done by now is done again.
    pub(super) fn begin_pass(&mut self, now: Time) {
        let scrub = &mut self.scrub;
        scrub.due = scrub.config.period.map(|period| now + period);
        scrub.pass = Some(Pass::new(now, StripeId(0)));
        scrub.passes += 1;
        scrub.left_out = 0;
        scrub.comparisons.clear();
        scrub.reads.values_mut().for_each(|reads| reads.in_flight = 0);
        scrub.is_due = true;
        self.outputs.push_back(Output::Scrub(ScrubStep::Begun));
        self.report(Report::PassBegun);
    }

    /// Goes on with the pass, as far as anything may be read now.
    pub(super) fn scrub(&mut self, now: Time) {
        if self.scrub.due.is_some_and(|due| due <= now) {
            match self.scrub.pass {
                // It takes longer than a period: the next one follows at once.
                Some(_) => self.scrub.due = Some(now),
                None => self.begin_pass(now),
            }
        }
        self.ask_overdue(now);
        let is_time = self.scrub.wake_at.is_some_and(|at| at <= now);
        if self.scrub.pass.is_none() || !(self.scrub.is_due || is_time) {
            return;
        }
        (self.scrub.is_due, self.scrub.wake_at) = (false, None);
        self.begin_comparisons(now);
        self.end_pass_if_done();
        self.save_pass(now);
    }

    /// Begins all comparisons that can begin.
    fn begin_comparisons(&mut self, now: Time) {
        for _ in 0..REFILLS_MAX {
            self.fill_candidates();
            let candidates: Vec<StripeId> =
                self.scrub.pass.iter().flat_map(|pass| &pass.candidates).copied().collect();
            candidates.iter().for_each(|id| self.compare_if_ready(now, *id));
            let left = self.scrub.pass.as_ref().map_or(0, |pass| pass.candidates.len());
            if left == candidates.len() {
                return;
            }
        }
        self.scrub.wake_by(now + GO_ON_AFTER);
    }

    /// When `scrub` has something to do though nothing happens.
    pub(super) fn next_scrub_deadline(&self) -> Option<Time> {
        let scrub = &self.scrub;
        let after = self.config.timers.stall_after;
        let overdue = scrub.comparisons.values().map(|comparison| comparison.asked_at + after);
        let pass = scrub.pass.as_ref().and(scrub.wake_at);
        let due = scrub.due.filter(|_| scrub.pass.is_none());
        pass.into_iter().chain(due).chain(overdue).min()
    }

    /// A fingerprint; whether it was asked for by a pass.
    pub(super) fn scrubbed(
        &mut self,
        node: NodeId,
        id: RepairId,
        copy: ChunkCopy,
        sums: &Arc<[u8]>,
    ) -> bool {
        let Some(comparison) = self.scrub.comparisons.get_mut(&id) else { return false };
        let is_whole = self.stripes.get(comparison.stripe).is_none_or(|stripe| {
            let layout = Fingerprint::layout(stripe.code.sub_chunk_count());
            sums.len() as u64 == layout.chunk_bytes()
        });
        if is_whole && comparison.wanted.get(&copy.chunk) == Some(&CopyAt { node, copy }) {
            comparison.wanted.remove(&copy.chunk);
            comparison.sums.insert(copy.chunk, sums.clone());
            self.scrub.read_ended(node);
            self.judge_if_complete(id);
        }
        true
    }

    /// A copy is of no use, which answers the pass that has it read.
    pub(super) fn scrub_found(&mut self, node: NodeId, copy: ChunkCopy, fault: CopyFault) {
        self.scrub.is_due = true;
        let mut comparisons = self.scrub.comparisons.iter_mut();
        let Some((id, comparison)) = comparisons.find(|(_, of)| of.stripe == copy.stripe) else {
            return;
        };
        let id = *id;
        if comparison.wanted.get(&copy.chunk) == Some(&CopyAt { node, copy }) {
            comparison.wanted.remove(&copy.chunk);
            self.scrub.found += u64::from(fault != CopyFault::Unreadable);
            self.scrub.read_ended(node);
            self.judge_if_complete(id);
        }
    }

    /// Puts off what a node was to read for a pass: nothing is read there now.
    pub(super) fn scrub_without(&mut self, node: NodeId) {
        let is_failed = self.health.is_failed(node);
        let is_away = self.health.is_away(node);
        let mut hit = Vec::new();
        for (id, comparison) in &mut self.scrub.comparisons {
            let before = comparison.wanted.len();
            comparison.wanted.retain(|_, at| at.node != node);
            if comparison.wanted.len() < before {
                comparison.is_partial |= !is_failed && !is_away;
                comparison.left_out += (before - comparison.wanted.len()) as u64;
                hit.push(*id);
            }
        }
        hit.iter().for_each(|_| self.scrub.read_ended(node));
        hit.into_iter().for_each(|id| self.judge_if_complete(id));
        self.scrub.node_changed();
    }

    /// Asks a node again for what it has not answered; it may never have been asked.
    pub(super) fn ask_fingerprints_again(&mut self, node: NodeId) {
        let comparisons: Vec<RepairId> = self.scrub.comparisons.keys().copied().collect();
        comparisons.into_iter().for_each(|id| self.ask_fingerprints(id, Some(node)));
    }

    /// Looks at the next stripes, and at those that were put off whose nodes are there again.
    fn fill_candidates(&mut self) {
        let (health, stripes) = (&self.health, &self.stripes);
        let Some(pass) = &mut self.scrub.pass else { return };
        let is_awaited = |node: NodeId| !health.is_failed(node) && !health.is_away(node);
        let is_silent = |id: &StripeId| {
            let stripe = stripes.get(*id);
            let nodes = stripe.into_iter().flat_map(|s| s.chunks.iter().filter_map(|c| c.node));
            nodes.into_iter().any(|node| !health.is_up(node) && is_awaited(node))
        };
        if self.scrub.has_news {
            let free = CANDIDATES_MAX.saturating_sub(pass.candidates.len());
            let back = pass.put_off.iter().filter(|id| !is_silent(id)).take(free);
            let back: Vec<StripeId> = back.copied().collect();
            // There may be more of them.
            self.scrub.has_news = back.len() == free;
            for id in back {
                pass.put_off.remove(&id);
                pass.candidates.insert(id);
            }
        }
        while pass.candidates.len() < CANDIDATES_MAX
            && pass.put_off.len() < PUT_OFF_MAX
            && let Some(stripe) = stripes.from(pass.next).next()
        {
            pass.next = StripeId(stripe.id.0 + 1);
            if is_silent(&stripe.id) {
                pass.put_off.insert(stripe.id)
            } else {
                pass.candidates.insert(stripe.id)
            };
        }
    }

    fn compare_if_ready(&mut self, now: Time, id: StripeId) {
        let readiness = match self.stripes.get(id) {
            Some(stripe) => self.readiness(now, stripe),
            None => Readiness::Empty,
        };
        let again_at = match readiness {
            Readiness::At(at) => Some(at),
            Readiness::Busy => Some(now + BUSY_RETRY),
            _ => None,
        };
        again_at.into_iter().for_each(|at| self.scrub.wake_by(at));
        if matches!(readiness, Readiness::Empty) && self.scrub.pass.is_some() {
            self.scrub.left_out += self.stripes.get(id).map_or(0, |stripe| self.left_out(stripe));
        }
        let Some(pass) = &mut self.scrub.pass else { return };
        match readiness {
            Readiness::At(_) | Readiness::Busy => {}
            Readiness::Silent => {
                pass.candidates.remove(&id);
                pass.put_off.insert(id);
            }
            Readiness::Now if self.scrub.mistake.is(Mutant::SkipStripe) => pass.skip(id),
            Readiness::Empty => pass.skip(id),
            Readiness::Now => {
                pass.candidates.remove(&id);
                self.compare(now, id);
                if self.scrub.mistake.is(Mutant::CompareTwice) {
                    self.compare(now, id);
                }
            }
        }
    }

    /// How many copies of a stripe a pass does not wait for: their nodes are paused or dead.
    fn left_out(&self, stripe: &Stripe) -> u64 {
        let nodes = stripe.nodes().filter(|node| !self.health.is_up(*node));
        nodes.count() as u64
    }

    fn readiness(&self, now: Time, stripe: &Stripe) -> Readiness {
        let (mut free_at, mut count) = (now, 0);
        for chunk in stripe.indices() {
            let Some(CopyAt { node, .. }) = stripe.copy(chunk) else { continue };
            let is_awaited = !self.health.is_failed(node) && !self.health.is_away(node);
            if self.is_lost(stripe.id, chunk) || !is_awaited {
                continue;
            }
            if self.health(node) != Health::Up {
                return Readiness::Silent;
            }
            let reads = self.scrub.reads.get(&node).copied().unwrap_or_default();
            if reads.in_flight >= self.scrub.max() || self.work_lists.has_checks(node) {
                return Readiness::Busy;
            }
            free_at = free_at.max(reads.free_at);
            count += 1;
        }
        match count {
            0 => Readiness::Empty,
            _ if free_at > now => Readiness::At(free_at),
            _ => Readiness::Now,
        }
    }

    /// Asks for the fingerprints of all chunks of a stripe that are not lost, or away.
    fn compare(&mut self, now: Time, id: StripeId) {
        let stripe = self.stripes.get(id).expect("it is ready, so known");
        let copies = stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?)));
        let copies = copies.filter(|(_, at)| !self.health.is_away(at.node));
        let wanted: BTreeMap<_, _> =
            copies.filter(|(chunk, _)| !self.is_lost(id, *chunk)).collect();
        let bytes = wanted.iter().map(|(chunk, at)| (at.node, stripe.record(*chunk).bytes));
        let bytes: Vec<(NodeId, u64)> = bytes.collect();
        let left_out = self.left_out(stripe);
        for &(node, bytes) in &bytes {
            let reads = self.scrub.reads.entry(node).or_default();
            reads.in_flight += 1;
            reads.free_at = reads.free_at.max(now) + span_of(bytes, self.scrub.config.rate);
        }
        if let Some(pass) = &mut self.scrub.pass {
            pass.bytes_done += bytes.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        let comparison = self.ledger.take_id();
        let seed = self.config.seed ^ comparison.0;
        let (sums, is_partial) = (BTreeMap::new(), false);
        let of = Comparison { stripe: id, seed, asked_at: now, wanted, sums, is_partial, left_out };
        self.scrub.comparisons.insert(comparison, of);
        self.ask_fingerprints(comparison, None);
    }

    /// Asks for what a comparison still lacks: all nodes, or one node.
    fn ask_fingerprints(&mut self, id: RepairId, of: Option<NodeId>) {
        let Some(comparison) = self.scrub.comparisons.get(&id) else { return };
        let Some(stripe) = self.stripes.get(comparison.stripe) else { return };
        let wanted = comparison.wanted.values();
        let wanted = wanted.filter(|at| of.is_none_or(|of| of == at.node));
        let request = |&CopyAt { node, copy }: &CopyAt| {
            let record = stripe.record(copy.chunk);
            let (bytes, crc, seed) = (record.bytes, record.crc, comparison.seed);
            let layout = stripe.layout();
            (node, FingerprintRequest { repair: id, copy, bytes, crc, seed, layout })
        };
        let requests: Vec<_> = wanted.map(request).collect();
        for (node, request) in requests {
            self.send(node, ToAgent::Fingerprint(request));
        }
        if let Some(comparison) = self.scrub.comparisons.get_mut(&id).filter(|_| of.is_none()) {
            comparison.asked_at = self.now;
        }
    }

    /// What was not answered for long may have been lost; agents ignore what they are reading.
    fn ask_overdue(&mut self, now: Time) {
        let after = self.config.timers.stall_after;
        let overdue = self.scrub.comparisons.iter().filter(|(_, of)| of.asked_at + after <= now);
        let overdue: Vec<RepairId> = overdue.map(|(id, _)| *id).collect();
        for id in overdue {
            let is_known = self.scrub.comparisons.get(&id).map(|of| of.stripe);
            match is_known.and_then(|stripe| self.stripes.get(stripe)) {
                Some(_) => self.ask_fingerprints(id, None),
                None => self.drop_comparison(id),
            }
        }
    }

    /// Its stripe was removed.
    fn drop_comparison(&mut self, id: RepairId) {
        let Some(comparison) = self.scrub.comparisons.remove(&id) else { return };
        comparison.wanted.values().for_each(|at| self.scrub.read_ended(at.node));
    }

    fn end_pass_if_done(&mut self) {
        let Some(pass) = &self.scrub.pass else { return };
        let is_idle = pass.candidates.is_empty() && self.scrub.comparisons.is_empty();
        if !is_idle || !pass.put_off.is_empty() || self.stripes.from(pass.next).next().is_some() {
            return;
        }
        let (stripes, bytes) = (pass.stripes_done, pass.bytes_done);
        (self.scrub.pass, self.scrub.wake_at) = (None, None);
        self.outputs.push_back(Output::Scrub(ScrubStep::Ended));
        self.report(Report::PassEnded { stripes, bytes });
    }

    /// Has it written down now and then how far the pass has come.
    fn save_pass(&mut self, now: Time) {
        let comparisons = self.scrub.comparisons.values().map(|of| of.stripe);
        let Some(pass) = &mut self.scrub.pass else { return };
        let open = pass.candidates.iter().chain(&pass.put_off).copied().chain(comparisons);
        let below = open.min().unwrap_or(pass.next).min(pass.next);
        let (at, saved) = pass.saved;
        if below > saved && now.since(at) >= SAVE_EVERY {
            pass.saved = (now, below);
            self.outputs.push_back(Output::Scrub(ScrubStep::Reached(below)));
        }
    }
}

/// How long `bytes` take at `rate`.
fn span_of(bytes: u64, rate: Option<u64>) -> Span {
    let Some(rate) = rate else { return Span::ZERO };
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Span { ns: u64::try_from(ns).unwrap_or(u64::MAX) }
}
