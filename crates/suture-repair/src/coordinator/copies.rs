//! Which copies count: what is lost, what came back, what is in excess.
//!
//! Place: failure detected -> [stripes affected -> queue] -> plan -> ... -> stripe healthy.
//! The keeper defines where each chunk should be, agents report what they hold; this file compares.
//! A listing shows names and digests, not all bytes: a location that is listed with another digest
//! is corrupt; otherwise no copy is given up or replaced by a listing alone: one that is expected
//! and not listed is asked for (`Check`), one that could be adopted is read in full first, and one
//! in excess goes only after the copy that replaces it was read in full.
//! Invariants: every chunk of a known stripe whose recorded copy is of no use is in `lost`, and
//! only chunks of known stripes are, none of them known to be zero; a copy that was ordered away is
//! not a recorded location.

use std::collections::{BTreeMap, BTreeSet};

use super::Coordinator;
use super::attempt::Rebuild;
use super::work_list::{Deletion, Reading, Resend};
use crate::event::{Blocked, KnownFault, Output, Report};
use crate::id::{ChunkCopy, ChunkIndex, CopyAt, Digest, ListedCopy, NodeId, Stamp, StripeId};
use crate::message::{Check, CopyFault, Hello, ToAgent};
use crate::mutant::Mutant;
use crate::stripe::{ChunkRecord, Stripe};
use crate::time::{Span, Time};

impl Coordinator {
    /// Applies the keeper's state of a stripe; one of an older generation is ignored.
    pub(super) fn apply_stripe(&mut self, stripe: Stripe) {
        let known = self.stripes.get(stripe.id);
        if known.is_some_and(|known| known.generation > stripe.generation) {
            return;
        }
        let same = |chunk: ChunkIndex, record: &ChunkRecord| {
            known.is_some_and(|known| known.chunks[usize::from(chunk.0)] == *record)
        };
        let before = self.lost.get(&stripe.id);
        let still_lost = |chunk: ChunkIndex, record: &ChunkRecord| {
            same(chunk, record) && before.is_some_and(|lost| lost.contains(&chunk))
        };
        let mut lost = BTreeSet::new();
        let recorded = stripe.indices().zip(&stripe.chunks);
        let may_be_lost = |record: &ChunkRecord| {
            !record.is_known_zero() || self.ledger.mistake.is(Mutant::LoseZeros)
        };
        for (chunk, record) in recorded.filter(|(_, record)| may_be_lost(record)) {
            let copy = ChunkCopy { stripe: stripe.id, chunk, stamp: record.stamp };
            let useless = record.node.is_none_or(|node| {
                self.health.is_failed(node) || self.faults.is_bad(copy.at(node))
            });
            if useless || still_lost(chunk, record) {
                lost.insert(chunk);
            }
        }
        self.count_away(&stripe, &mut lost);
        let id = stripe.id;
        let is_whole_again = before.is_some_and(|before| {
            let attempt = self.ledger.repair_of(id).map(|(_, attempt)| attempt);
            attempt.is_some_and(|attempt| before.difference(&lost).any(|c| attempt.serves(*c)))
        });
        self.reserved_below = self.reserved_below.max(StripeId(id.0 + 1));
        self.stripes.put(stripe);
        self.count_crowded(id);
        if is_whole_again {
            self.end_repair_of(id);
        }
        self.set_lost(id, lost);
    }

    /// The keeper no longer has this stripe.
    pub(super) fn remove_stripe(&mut self, id: StripeId) {
        self.end_repair_of(id);
        let removed = self.stripes.remove(id);
        self.count_crowded(id);
        if !self.ledger.mistake.is(Mutant::KeepLost) {
            self.set_lost(id, BTreeSet::new());
        }
        self.found.remove(&id);
        self.scrub.remove(id);
        let Some(stripe) = removed else { return };
        // The stripe was this keeper's, even if others gave its id out: copies left are orphans.
        self.unknown.remove(id);
        for chunk in stripe.indices() {
            if let Some(CopyAt { node, copy }) = stripe.copy(chunk) {
                self.faults.forget(CopyAt { node, copy });
                self.delete(node, copy, None);
            }
        }
    }

    /// The recorded copy of the chunk is of no use.
    pub(super) fn lose(&mut self, stripe: StripeId, chunk: ChunkIndex) {
        let mut lost = self.lost.get(&stripe).cloned().unwrap_or_default();
        if lost.insert(chunk) {
            if let Some(stripe) = self.stripes.get(stripe) {
                self.count_away(stripe, &mut lost);
            }
            self.set_lost(stripe, lost);
        }
    }

    /// The recorded copy of the chunk can be used again.
    fn regain(&mut self, stripe: StripeId, chunk: ChunkIndex) {
        let Some(mut lost) = self.lost.get(&stripe).cloned() else { return };
        if !lost.remove(&chunk) {
            return;
        }
        if self.ledger.repair_of(stripe).is_some_and(|(_, attempt)| attempt.serves(chunk)) {
            self.end_repair_of(stripe);
        }
        let healthy = lost.is_empty();
        self.set_lost(stripe, lost);
        if healthy {
            self.report(Report::Healthy(stripe));
        }
    }

    /// What is lost changed: the stripe takes its new place in the queue, or leaves it.
    pub(super) fn set_lost(&mut self, stripe: StripeId, lost: BTreeSet<ChunkIndex>) {
        self.touched.push(stripe);
        self.rebalance.forget(stripe);
        self.unplan(stripe);
        if lost.is_empty() {
            self.lost.remove(&stripe);
            self.wanted.remove(&stripe);
            self.queue.take(stripe);
            self.failures.remove(&stripe);
            return self.enqueue(stripe, None);
        }
        let is_news = self.lost.insert(stripe, lost.clone()) != Some(lost);
        if is_news && let Some(history) = self.failures.get_mut(&stripe) {
            history.blocked = None;
        }
        // A helper that is lost now must not be waited for, nor a chunk that is only to move. Both
        // may have been so while a location was being changed, which ends nothing.
        if self.reads_lost(stripe) || self.moves_first(stripe) {
            self.end_repair_of(stripe);
        }
        self.enqueue(stripe, None);
        if is_news {
            let found = self.found.get(&stripe).cloned().unwrap_or_default();
            found.into_iter().for_each(|CopyAt { node, copy }| self.reconcile(node, copy));
        }
    }

    /// Whether the running repair of the stripe reads a chunk that is lost now.
    fn reads_lost(&self, stripe: StripeId) -> bool {
        let attempt = self.ledger.repair_of(stripe).map(|(_, attempt)| attempt);
        let Some(Rebuild { planned, .. }) = attempt.and_then(|attempt| attempt.rebuild()) else {
            return false;
        };
        let facts = planned.job.facts();
        let lanes = &planned.plan.lanes;
        let mut helpers = lanes.iter().flat_map(|lane| {
            if lane.copies(&facts) { lane.lost.clone() } else { lane.helpers(&facts) }
        });
        helpers.any(|helper| self.is_lost(stripe, helper))
    }

    /// Queues a stripe that needs repair and is not being repaired.
    pub(super) fn enqueue(&mut self, id: StripeId, not_before: Option<Time>) {
        self.touched.push(id);
        if self.ledger.has(id) {
            return;
        }
        if let Some(margin) = self.urgency(id) {
            self.queue.put(id, margin, not_before);
        }
    }

    /// An agent listed all that it holds.
    pub(super) fn inventory(&mut self, node: NodeId, copies: &[ListedCopy]) {
        let listed: BTreeMap<ChunkCopy, Digest> =
            copies.iter().map(|listed| (listed.copy, listed.digest)).collect();
        let expected: BTreeSet<ChunkCopy> = self
            .stripes
            .on_node(node)
            .filter_map(|s| Some(s.copy(s.chunk_on(node)?)?.copy))
            .collect();
        let unlisted =
            expected.iter().filter(|&copy| !listed.contains_key(copy)).copied().collect();
        self.unlisted.insert(node, Some(unlisted));
        if !self.health.is_up(node) {
            return;
        }
        self.forget_found(node);
        self.protect(listed.keys());
        self.count_unknown(node, listed.keys());
        // What was ordered away and is gone needs no memory.
        self.deleting.retain(|at| at.node != node || listed.contains_key(&at.copy));
        self.work_lists.keep_deletes(node, |copy| listed.contains_key(copy));
        let is_kept = |copy: &ChunkCopy| listed.contains_key(copy) || expected.contains(copy);
        self.faults.keep_only(node, is_kept);
        for &copy in &expected {
            match listed.get(&copy) {
                None if !self.is_lost(copy.stripe, copy.chunk) => self.check(node, copy, None),
                None => {}
                Some(found) if !self.is_what_it_is_called(copy, *found) => {
                    self.bad_copy(node, copy, CopyFault::Corrupt);
                }
                Some(_) => self.listed_again(node, copy),
            }
        }
        for (&copy, &found) in listed.iter().filter(|(copy, _)| !expected.contains(copy)) {
            if self.is_what_it_is_called(copy, found) {
                if self.stripes.get(copy.stripe).is_some() {
                    self.found.entry(copy.stripe).or_default().insert(CopyAt { node, copy });
                }
                self.reconcile(node, copy);
            } else if self.faults.fault(CopyAt { node, copy }) == Some(CopyFault::Corrupt) {
                // It was the location, was found corrupt there, and is replaced by now.
                self.reconcile(node, copy);
            } else {
                // Bytes of something else under this name: perhaps the last that there are of it.
                self.report(Report::OtherBytes { node, copy });
            }
        }
    }

    /// An agent introduces itself. If it began anew, its store may be another one, and nothing is
    /// counted on there where data must stay readable until it has listed what it holds.
    pub(super) fn await_listing(&mut self, node: NodeId, hello: Hello) {
        let known = self.health.get(node).hello;
        if known.is_none_or(|known| known.incarnation != hello.incarnation) {
            self.unlisted.insert(node, None);
        }
    }

    /// What a node listed before counts no more.
    fn forget_found(&mut self, node: NodeId) {
        self.found.retain(|_, found| {
            found.retain(|at| at.node != node);
            !found.is_empty()
        });
    }

    /// The node could not list its copies, so each expected copy is checked on its own; otherwise a
    /// missing or unreadable directory would count as intact until the next pass.
    pub(super) fn not_listed(&mut self, node: NodeId) {
        self.unlisted.remove(&node);
        let expected =
            self.chunks_on(node).filter(|(stripe, chunk)| !self.is_lost(stripe.id, *chunk));
        let copies = expected.filter_map(|(stripe, chunk)| Some(stripe.copy(chunk)?.copy));
        let copies: Vec<ChunkCopy> = copies.collect();
        copies.into_iter().for_each(|copy| self.suspect(node, copy));
    }

    /// A location is listed as what it should be. What was missing is there again; what was of no
    /// use otherwise is read anew, since nothing else would show that it is good by now.
    fn listed_again(&mut self, node: NodeId, copy: ChunkCopy) {
        match self.faults.fault(CopyAt { node, copy }) {
            None => self.regain(copy.stripe, copy.chunk),
            Some(CopyFault::Missing) => {
                self.faults.forget(CopyAt { node, copy });
                self.regain(copy.stripe, copy.chunk);
            }
            Some(CopyFault::Corrupt | CopyFault::Unreadable) => self.check(node, copy, None),
        }
    }

    /// Has the copies of no use of a stripe that cannot be repaired read once more.
    fn read_condemned(&mut self, stripe: StripeId) {
        let Some(stripe) = self.stripes.get(stripe) else { return };
        let copies = stripe.indices().filter_map(|chunk| stripe.copy(chunk));
        let condemned: Vec<_> = copies.filter(|location| self.faults.is_bad(*location)).collect();
        condemned.into_iter().for_each(|CopyAt { node, copy }| self.suspect(node, copy));
    }

    /// Has copies read in full again that could not be read and may be whole.
    pub(super) fn read_again(&mut self, now: Time) {
        for CopyAt { node, copy } in self.faults.due(now, self.config.timers.stall_after) {
            let stripe = self.stripes.get(copy.stripe);
            if stripe.and_then(|stripe| stripe.copy(copy.chunk)) == Some(CopyAt { node, copy }) {
                self.suspect(node, copy);
            } else {
                // The chunk is somewhere else by now.
                self.faults.forget(CopyAt { node, copy });
            }
        }
    }

    /// Whether a copy is, as far as a listing shows, what its stripe's record says.
    fn is_what_it_is_called(&self, copy: ChunkCopy, found: Digest) -> bool {
        self.recorded_digest(copy).is_none_or(|recorded| recorded.fits(found))
    }

    /// What copies of this name must be; `None` where no such chunk is known.
    fn recorded_digest(&self, copy: ChunkCopy) -> Option<Digest> {
        if self.ledger.mistake.is(Mutant::TrustNames) {
            return None;
        }
        let stripe = self.stripes.get(copy.stripe)?;
        stripe.chunks.get(usize::from(copy.chunk.0)).map(ChunkRecord::digest)
    }

    /// A copy that the keeper does not point to: an orphan, in excess, or a chunk found again.
    pub(super) fn reconcile(&mut self, node: NodeId, copy: ChunkCopy) {
        let is_ordered_away = self.deleting.contains(&CopyAt { node, copy });
        if is_ordered_away && self.ledger.mistake.is(Mutant::TrustDelete) {
            return;
        }
        let Some(stripe) = self.stripes.get(copy.stripe) else {
            // Copies of stripe ids that these metadata never allocated are not deleted.
            if self.is_gone(copy.stripe) {
                self.delete(node, copy, None);
            }
            return;
        };
        let Some(location) = stripe.chunks.get(usize::from(copy.chunk.0)) else { return };
        if self.is_moving(copy.stripe) {
            return;
        }
        if location.node == Some(node) && location.stamp == copy.stamp {
            return;
        }
        if self.is_lost(copy.stripe, copy.chunk) {
            if self.can_adopt(node, copy) {
                if self.ledger.mistake.is(Mutant::AdoptUnread) {
                    return self.adopt(self.now, node, copy);
                }
                self.check(node, copy, None);
            }
        } else if self.config.deletes
            && !self.is_being_made(node, copy)
            && let Some(current) = stripe.copy(copy.chunk)
            && self.health.is_up(current.node)
        {
            if self.ledger.mistake.is(Mutant::DeleteUnread) {
                return self.delete(node, copy, Some(current));
            }
            self.check(current.node, current.copy, Some(CopyAt { node, copy }));
        }
    }

    /// A copy was read in full and is good: what it was read for may now be done.
    pub(super) fn verified(&mut self, now: Time, node: NodeId, check: Check) {
        self.scrub.wake();
        let reading = Reading { excess: check.excess, copy: check.copy };
        self.work_lists.end_check(node, reading);
        if let Some(Some(unlisted)) = self.unlisted.get_mut(&node) {
            // It was stored after the listing was made, or lies in a folder that is not listed.
            unlisted.remove(&check.copy);
        }
        let Some(stripe) = self.stripes.get(check.copy.stripe) else { return };
        if self.is_moving(stripe.id) {
            return;
        }
        let location = stripe.copy(check.copy.chunk);
        let read = check.copy.at(node);
        let is_location = location == Some(read);
        match check.excess {
            Some(excess) if is_location && self.health.is_up(node) => {
                let CopyAt { node, copy } = excess;
                let same_chunk = (copy.stripe, copy.chunk) == (read.copy.stripe, read.copy.chunk);
                let is_there = node.index() < self.ledger.cluster().nodes.len();
                if same_chunk
                    && excess != read
                    && is_there
                    && !self.is_lost(copy.stripe, copy.chunk)
                {
                    let is_broken = self.ledger.mistake.is(Mutant::DeleteRead);
                    let gone = if is_broken { read } else { excess };
                    self.delete(gone.node, gone.copy, Some(read));
                    self.report(Report::Excess { node, copy });
                }
            }
            None if !is_location && self.can_adopt(node, check.copy) => {
                self.adopt(now, node, check.copy);
            }
            // Of a node that counts as lost, or is away, nothing counts, whatever it has read.
            None if is_location && self.health.is_up(node) && self.faults.read_well(read) => {
                self.regain(check.copy.stripe, check.copy.chunk);
            }
            _ => {}
        }
    }

    /// The other chunks of its stripe show that a copy is wrong, though it has its own checksums.
    pub(super) fn inconsistent_copy(&mut self, node: NodeId, copy: ChunkCopy) {
        self.faults.found_inconsistent(CopyAt { node, copy });
        self.bad_copy(node, copy, CopyFault::Corrupt);
    }

    /// A copy is missing or corrupt, or could not be read.
    pub(super) fn bad_copy(&mut self, node: NodeId, copy: ChunkCopy, fault: CopyFault) {
        let Some(stripe) = self.stripes.get(copy.stripe) else { return };
        if stripe.copy(copy.chunk) != Some(CopyAt { node, copy }) {
            return;
        }
        let retry_first = self.config.timers.retry_first;
        if !self.faults.found(CopyAt { node, copy }, fault, self.now, retry_first) {
            return;
        }
        let is_news = !self.is_lost(copy.stripe, copy.chunk);
        if is_news && !self.ledger.mistake.is(Mutant::TrustBadCopy) {
            self.report(Report::ChunkLost { node, copy, fault });
            self.lose(copy.stripe, copy.chunk);
        }
    }

    /// The coordinator before knew what is wrong with a copy. It is read anew once it is listed.
    pub(super) fn recall_fault(&mut self, node: NodeId, copy: ChunkCopy, fault: KnownFault) {
        let stripe = self.stripes.get(copy.stripe);
        if stripe.and_then(|stripe| stripe.copy(copy.chunk)) == Some(CopyAt { node, copy }) {
            self.faults.recall(CopyAt { node, copy }, fault);
            self.lose(copy.stripe, copy.chunk);
        }
    }

    /// Has the keeper record what has become known of copies.
    pub(super) fn record_faults(&mut self) {
        for (CopyAt { node, copy }, fault) in self.faults.news() {
            self.outputs.push_back(Output::Faulty { node, copy, fault });
        }
    }

    /// Has the holder of a copy read it in full, since a reader could not read it.
    pub(super) fn suspect(&mut self, node: NodeId, copy: ChunkCopy) {
        let Some(stripe) = self.stripes.get(copy.stripe) else { return };
        if stripe.copy(copy.chunk) == Some(CopyAt { node, copy }) && self.health.is_up(node) {
            self.check(node, copy, None);
        }
    }

    /// Has a copy of a known stripe read in full.
    fn check(&mut self, node: NodeId, copy: ChunkCopy, excess: Option<CopyAt>) {
        self.work_lists.check(node, Reading { excess, copy });
        self.send_work(node);
    }

    /// Has a copy deleted: an orphan, or one that is replaced by a location that was read in full.
    fn delete(&mut self, node: NodeId, copy: ChunkCopy, replaced_by: Option<CopyAt>) {
        if self.config.deletes && self.health.is_up(node) {
            self.work_lists.delete(node, Deletion { copy, replaced_by });
            self.send_work(node);
        }
    }

    /// Sends a node what may be under way of its work list.
    pub(super) fn send_work(&mut self, node: NodeId) {
        if !self.health.is_up(node) {
            return;
        }
        while let Some(reading) = self.work_lists.next_check(self.now, node) {
            self.send_check(node, reading);
        }
        while let Some(deletion) = self.work_lists.next_delete(self.now, node) {
            self.send_delete(node, deletion);
        }
    }

    /// Sends a node again all that it has not answered, which it may never have received.
    pub(super) fn send_again(&mut self, node: NodeId) {
        self.send_again_after(node, Span::ZERO);
    }

    /// The same of what was sent so long ago.
    fn send_again_after(&mut self, node: NodeId, after: Span) {
        if !self.health.is_up(node) {
            return;
        }
        let Resend { checks, deletes } = self.work_lists.again(self.now, node, after);
        checks.into_iter().for_each(|reading| self.send_check(node, reading));
        deletes.into_iter().for_each(|deletion| self.send_delete(node, deletion));
    }

    /// Sends what was not answered for so long that the message or the answer may be lost.
    pub(super) fn send_overdue(&mut self, now: Time) {
        let deadlines = self.work_lists.deadlines(self.config.timers.stall_after);
        let overdue = deadlines.filter(|(node, at)| *at <= now && self.health.is_up(*node));
        let overdue: Vec<NodeId> = overdue.map(|(node, _)| node).collect();
        for node in overdue {
            self.send_again_after(node, self.config.timers.stall_after);
            self.send_work(node);
        }
    }

    /// When something of a work list is to be sent again.
    pub(super) fn next_work_deadline(&self) -> Option<Time> {
        let deadlines = self.work_lists.deadlines(self.config.timers.stall_after);
        deadlines.filter(|(node, _)| self.health.is_up(*node)).map(|(_, at)| at).min()
    }

    fn send_check(&mut self, node: NodeId, reading: Reading) {
        let Reading { excess, copy } = reading;
        let location = self.stripes.get(copy.stripe).and_then(|stripe| stripe.copy(copy.chunk));
        let is_location = location == Some(CopyAt { node, copy });
        let is_wanted = match excess {
            Some(_) => is_location && !self.is_lost(copy.stripe, copy.chunk),
            None => is_location || self.can_adopt(node, copy),
        };
        if !is_wanted {
            self.work_lists.end_check(node, reading);
            // What it was read for may be of use by now, or have another replacement.
            return excess.into_iter().for_each(|at| self.reconcile(at.node, at.copy));
        }
        let digest = self.recorded_digest(copy).unwrap_or_default();
        self.send(node, ToAgent::Check(Check { copy, digest, excess }));
    }

    fn send_delete(&mut self, node: NodeId, Deletion { copy, replaced_by }: Deletion) {
        let is_wanted = match self.stripes.get(copy.stripe) {
            None => self.is_gone(copy.stripe),
            Some(stripe) => {
                // A replacement that cannot be read at the moment may never be read again.
                let replaced_by = replaced_by.filter(|at| self.health.is_up(at.node));
                let is_replaced = replaced_by.is_some() && stripe.copy(copy.chunk) == replaced_by;
                // What is being adopted may be listed as ordered away since before it was lost.
                let is_settled = !self.is_moving(copy.stripe);
                is_replaced && is_settled && !self.is_lost(copy.stripe, copy.chunk)
            }
        };
        if !is_wanted {
            self.work_lists.end_delete(node, copy);
            return self.reconcile(node, copy);
        }
        self.deleting.insert(CopyAt { node, copy });
        // A node without a `Hello` so far is asked again after it.
        let session = self.health.get(node).hello.map_or(0, |hello| hello.session);
        self.send(node, ToAgent::Delete { epoch: self.ledger.epoch(), session, copy });
    }

    /// Whether a commit of the stripe has been asked for and not been answered: what the keeper
    /// has recorded by now is not known, so no copy may be judged. The next inventory asks again.
    fn is_moving(&self, stripe: StripeId) -> bool {
        self.ledger.repair_of(stripe).is_some_and(|(_, attempt)| attempt.is_committing())
    }

    /// Whether the copy is what the running repair of its stripe makes there. A listing may show it
    /// before its destination reports that it is stored: it is about to be the location.
    fn is_being_made(&self, node: NodeId, copy: ChunkCopy) -> bool {
        self.ledger.repair_of(copy.stripe).is_some_and(|(id, attempt)| {
            copy.stamp == Stamp::from(id) && attempt.makes(node, copy.chunk)
        })
    }

    /// Whether the chunk's recorded copy is of no use.
    pub fn is_lost(&self, stripe: StripeId, chunk: ChunkIndex) -> bool {
        self.lost.get(&stripe).is_some_and(|lost| lost.contains(&chunk))
    }

    /// Whether a found copy may become the location of its chunk: the chunk needs one, the copy is
    /// not condemned, and the stripe has nothing else on that node nor a repair past its end. A
    /// chunk that is recorded there and missing is not in the way: metadata that are older than the
    /// chunks say so where chunks have changed places since. Where the keeper deletes copies in
    /// excess by itself, as HDFS does, found copies are not adopted.
    fn can_adopt(&self, node: NodeId, copy: ChunkCopy) -> bool {
        let Some(stripe) = self.stripes.get(copy.stripe) else { return false };
        let known = usize::from(copy.chunk.0) < stripe.chunks.len();
        let is_taken = |chunk: ChunkIndex| {
            let fault = stripe.copy(chunk).and_then(|recorded| self.faults.fault(recorded));
            chunk != copy.chunk && fault != Some(CopyFault::Missing)
        };
        let elsewhere = stripe.chunk_on(node).is_some_and(is_taken);
        let at = copy.at(node);
        let condemned = self.faults.is_bad(at) || self.deleting.contains(&at);
        let attempt = self.ledger.repair_of(copy.stripe).map(|(_, attempt)| attempt);
        let busy = attempt.is_some_and(|a| a.is_committing() || !a.serves(copy.chunk));
        known
            && self.config.deletes
            && self.health.is_up(node)
            && self.is_lost(copy.stripe, copy.chunk)
            && !elsewhere
            && !condemned
            && !busy
    }

    fn adopt(&mut self, now: Time, node: NodeId, copy: ChunkCopy) {
        let stripe = self.stripes.get(copy.stripe).expect("adoptable, so known");
        let (commit, stopped) = self.ledger.adopt(now, stripe, node, copy);
        self.queue.take(copy.stripe);
        self.touched.push(copy.stripe);
        stopped.iter().for_each(|stopped| self.cancel(stopped));
        self.outputs.push_back(Output::Commit(commit));
    }

    /// Shows why a stripe waits, and reports it when that is news.
    pub(super) fn block(&mut self, stripe: StripeId, why: Blocked) {
        let history = self.failures.entry(stripe).or_default();
        if history.blocked.as_ref() != Some(&why) {
            history.blocked = Some(why.clone());
            if why.is_unrepairable() {
                self.read_condemned(stripe);
            }
            self.report(Report::Blocked { stripe, why });
        }
    }
}
