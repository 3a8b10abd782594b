//! Work lists: the checks and deletes of each node, few of them under way at a time.
//!
//! Place: [failure detected -> stripes affected] -> queue -> ... -> stripe healthy.
//! One listing can ask for as many checks and deletes as a node has copies, and the next listing
//! asks for them again. Here each stands once, and a node is sent the next one of a kind when it
//! has answered one. A copy that a stripe may lack is read before one that only proves others to be
//! in excess. Whether an entry is still wanted is asked when it is sent (`copies.rs`), since it may
//! have waited for long.
//!
//! Invariants: at most `in_flight_max` of a kind are under way at a node; nothing both waits and is
//! under way. What is under way and not answered is sent again, in each new session and
//! `stall_after` after it was sent, whatever else the node answers meanwhile; agents ignore what
//! they are doing already.

use std::collections::BTreeMap;

use crate::id::{ChunkCopy, CopyAt, NodeId};
use crate::mutant::{Mistake, Mutant};
use crate::time::{Span, Time};

/// So many checks, and so many deletes, are under way at a node unless configured otherwise: enough
/// that an agent need not wait for the next one, and far less than queues hold.
pub const IN_FLIGHT_MAX: usize = 16;

/// Which copy is read in full, and what for. In the order of the list: what proves only that
/// others are in excess comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reading {
    /// A copy elsewhere that is in excess if this one is good.
    pub excess: Option<CopyAt>,
    pub copy: ChunkCopy,
}

/// A copy that is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    pub copy: ChunkCopy,
    /// The location that was read in full and replaces it; none for an orphan.
    pub replaced_by: Option<CopyAt>,
}

/// What is to be sent again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Resend {
    pub checks: Vec<Reading>,
    pub deletes: Vec<Deletion>,
}

/// The checks and deletes of all nodes.
#[derive(Debug)]
pub(super) struct WorkLists {
    in_flight_max: usize,
    nodes: BTreeMap<NodeId, WorkList>,
    /// Deletes that were listed since they were last asserted.
    fresh: Vec<(NodeId, Deletion)>,
    pub mistake: Mistake,
}

/// Those of one node.
#[derive(Debug, Default)]
struct WorkList {
    checks: List<Reading, ()>,
    deletes: List<ChunkCopy, Option<CopyAt>>,
    /// When that was sent which has been under way for longest, if anything is.
    oldest_at: Option<Time>,
}

/// What waits, and what is under way, each since it was last sent.
#[derive(Debug)]
struct List<K, V> {
    waiting: BTreeMap<K, V>,
    in_flight: BTreeMap<K, (V, Time)>,
}

impl WorkLists {
    pub fn new(in_flight_max: usize) -> WorkLists {
        let (nodes, fresh, mistake) = (BTreeMap::new(), Vec::new(), Mistake::default());
        WorkLists { in_flight_max, nodes, fresh, mistake }
    }

    /// Lists a check, unless it is.
    pub fn check(&mut self, node: NodeId, reading: Reading) {
        let is_again = self.mistake.is(Mutant::ListTwice);
        self.nodes.entry(node).or_default().checks.add(reading, (), is_again);
    }

    /// Lists a delete, unless it is.
    pub fn delete(&mut self, node: NodeId, deletion: Deletion) {
        let Deletion { copy, replaced_by } = deletion;
        let is_again = self.mistake.is(Mutant::ListTwice);
        if self.nodes.entry(node).or_default().deletes.add(copy, replaced_by, is_again) {
            self.fresh.push((node, deletion));
        }
    }

    /// The next check that may be sent; it is under way from now on.
    pub fn next_check(&mut self, now: Time, node: NodeId) -> Option<Reading> {
        let max = self.in_flight_max();
        let list = self.nodes.get_mut(&node)?;
        let (reading, ()) = list.checks.next(now, max)?;
        list.oldest_at.get_or_insert(now);
        Some(reading)
    }

    /// The next delete that may be sent; it is under way from now on.
    pub fn next_delete(&mut self, now: Time, node: NodeId) -> Option<Deletion> {
        let max = self.in_flight_max();
        let list = self.nodes.get_mut(&node)?;
        let (copy, replaced_by) = list.deletes.next(now, max)?;
        list.oldest_at.get_or_insert(now);
        Some(Deletion { copy, replaced_by })
    }

    /// The check was answered, or is not wanted any more.
    pub fn end_check(&mut self, node: NodeId, reading: Reading) {
        if self.mistake.is(Mutant::ForgetAnswer) {
            return;
        }
        self.end(node, |list| list.checks.end(&reading));
    }

    /// Ends all checks of a copy that was found to be of no use.
    pub fn end_checks_of(&mut self, node: NodeId, copy: ChunkCopy) {
        self.end(node, |list| {
            list.checks.in_flight.retain(|reading, _| reading.copy != copy);
        });
    }

    /// The delete was answered, or is not wanted any more.
    pub fn end_delete(&mut self, node: NodeId, copy: ChunkCopy) {
        self.end(node, |list| list.deletes.end(&copy));
    }

    /// What is not there need not be deleted.
    pub fn keep_deletes(&mut self, node: NodeId, is_there: impl Fn(&ChunkCopy) -> bool) {
        self.end(node, |list| {
            list.deletes.waiting.retain(|copy, _| is_there(copy));
            list.deletes.in_flight.retain(|copy, _| is_there(copy));
        });
    }

    /// Whether a node has copies to check.
    pub fn has_checks(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|list| !list.checks.is_empty())
    }

    /// Drops all of a node.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// What has been under way at a node for so long, or longer: it is to be sent again.
    pub fn again(&mut self, now: Time, node: NodeId, after: Span) -> Resend {
        let list = self.nodes.get_mut(&node).filter(|_| !self.mistake.is(Mutant::AskOnce));
        let Some(list) = list else { return Resend::default() };
        let checks = list.checks.again(now, after);
        let deletes = list.deletes.again(now, after);
        list.find_oldest();
        let deletion = |(copy, replaced_by)| Deletion { copy, replaced_by };
        Resend {
            checks: checks.into_iter().map(|(reading, ())| reading).collect(),
            deletes: deletes.into_iter().map(deletion).collect(),
        }
    }

    /// Where something is under way, and when some of it will have been for so long.
    pub fn deadlines(&self, after: Span) -> impl Iterator<Item = (NodeId, Time)> {
        self.nodes.iter().filter_map(move |(node, list)| Some((*node, list.oldest_at? + after)))
    }

    /// The location that was read before this delete, which is under way, was listed; none for an
    /// orphan.
    pub fn replaced_by(&self, node: NodeId, copy: ChunkCopy) -> Option<CopyAt> {
        self.nodes.get(&node)?.deletes.in_flight.get(&copy)?.0
    }

    /// Deletes that were listed since this was last asked.
    pub fn take_fresh(&mut self) -> Vec<(NodeId, Deletion)> {
        std::mem::take(&mut self.fresh)
    }

    /// # Panics
    /// More is under way at a node than may be, or something waits besides; or something waits at a
    /// node that can be used, and need not.
    pub fn assert_invariants(&self, is_up: impl Fn(NodeId) -> bool) {
        for (&node, list) in &self.nodes {
            list.checks.assert_invariants("checks", node, self.in_flight_max, is_up(node));
            list.deletes.assert_invariants("deletes", node, self.in_flight_max, is_up(node));
            let oldest = list.checks.oldest().into_iter().chain(list.deletes.oldest()).min();
            assert_eq!(list.oldest_at, oldest, "work lists: what is oldest at {node}");
        }
    }

    fn end(&mut self, node: NodeId, end: impl FnOnce(&mut WorkList)) {
        let Some(list) = self.nodes.get_mut(&node) else { return };
        end(list);
        list.find_oldest();
        if list.checks.is_empty() && list.deletes.is_empty() {
            self.nodes.remove(&node);
        }
    }

    fn in_flight_max(&self) -> usize {
        self.in_flight_max + usize::from(self.mistake.is(Mutant::AskBeyond))
    }
}

impl WorkList {
    fn find_oldest(&mut self) {
        self.oldest_at = self.checks.oldest().into_iter().chain(self.deletes.oldest()).min();
    }
}

impl<K, V> Default for List<K, V> {
    fn default() -> List<K, V> {
        List { waiting: BTreeMap::new(), in_flight: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V: Copy> List<K, V> {
    /// Whether it is news.
    fn add(&mut self, key: K, value: V, is_again: bool) -> bool {
        if self.in_flight.contains_key(&key) && !is_again {
            return false;
        }
        self.waiting.insert(key, value).is_none()
    }

    fn next(&mut self, now: Time, max: usize) -> Option<(K, V)> {
        if self.in_flight.len() >= max {
            return None;
        }
        let (key, value) = self.waiting.pop_first()?;
        self.in_flight.insert(key, (value, now));
        Some((key, value))
    }

    /// What was sent so long ago, or longer, and is sent again now.
    fn again(&mut self, now: Time, after: Span) -> Vec<(K, V)> {
        let sent = self.in_flight.iter_mut().filter(|(_, (_, sent_at))| *sent_at + after <= now);
        let again = sent.map(|(key, (value, sent_at))| {
            *sent_at = now;
            (*key, *value)
        });
        again.collect()
    }

    /// When that was sent which has been under way for longest.
    fn oldest(&self) -> Option<Time> {
        self.in_flight.values().map(|(_, sent_at)| *sent_at).min()
    }

    fn end(&mut self, key: &K) {
        self.in_flight.remove(key);
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    fn assert_invariants(&self, what: &str, node: NodeId, max: usize, is_up: bool) {
        let (waiting, in_flight) = (self.waiting.len(), self.in_flight.len());
        assert!(in_flight <= max, "work lists: {in_flight} {what} are under way at {node}");
        let is_listed_once = self.in_flight.keys().all(|key| !self.waiting.contains_key(key));
        assert!(is_listed_once, "work lists: one of the {what} of {node} waits and is under way");
        let is_held_up = is_up && in_flight < max && waiting > 0;
        assert!(!is_held_up, "work lists: {waiting} {what} wait for nothing at {node}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ChunkIndex, Stamp, StripeId};

    const NODE: NodeId = NodeId(1);

    fn copy(stripe: u64) -> ChunkCopy {
        ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(0), stamp: Stamp(0) }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn what_is_not_answered_is_due_whatever_else_is_answered_meanwhile() {
        let after = Span::from_secs(20);
        let mut lists = WorkLists::new(4);
        let deletion = Deletion { copy: copy(0), replaced_by: None };
        lists.delete(NODE, deletion);
        lists.next_delete(at(0), NODE).unwrap();
        for second in 1..20 {
            let reading = Reading { excess: None, copy: copy(second) };
            lists.check(NODE, reading);
            assert_eq!(lists.next_check(at(second), NODE), Some(reading));
            lists.end_check(NODE, reading);
            lists.assert_invariants(|_| true);
        }
        let due = |lists: &WorkLists| lists.deadlines(after).collect::<Vec<_>>();
        assert_eq!(due(&lists), [(NODE, at(20))]);
        assert_eq!(lists.again(at(19), NODE, after), Resend::default());
        let due_again = Resend { checks: vec![], deletes: vec![deletion] };
        assert_eq!(lists.again(at(20), NODE, after), due_again);
        assert_eq!(due(&lists), [(NODE, at(40))]);
        lists.end_delete(NODE, copy(0));
        assert_eq!(due(&lists), []);
    }
}
