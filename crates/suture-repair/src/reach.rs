//! Which nodes speak to the coordinator and cannot be reached by any other node.
//!
//! Place: [failure detected] -> stripes affected -> queue -> plan -> ...
//! Agents ask each other for a byte now and then, and report which they could not reach. Where a
//! node's chunks are served may be cut off while its beats still arrive: then nothing on it can be
//! read or written. One that cannot reach others may be cut off itself, and a busy link may be
//! late: so it takes several nodes that report that, for a while, and none that has reached the
//! node meanwhile.
//!
//! A node that is cut off stays so until an agent reaches it, or no agent is left that reported it.
//! Invariant: a node has no report against it that is older than the last time that an agent
//! reached it.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::NodeId;
use crate::time::{Span, Time};

/// No other node may have reached a node for so many times as long as a node may be silent: a
/// minute where that is 5 seconds.
const CUT_OFF_AFTER: u64 = 12;

/// How many nodes have to report a node unreachable before it counts as cut off: all others where
/// there are fewer, and at least [`TELLERS_LEAST`].
const TELLERS: usize = 3;
const TELLERS_LEAST: usize = 2;

/// Which nodes could not reach which, since one last could.
#[derive(Clone, Debug)]
pub struct Reach {
    cut_off_after: Span,
    unreached: BTreeMap<NodeId, Unreached>,
}

/// A node that another could not reach.
#[derive(Clone, Debug)]
struct Unreached {
    since: Time,
    by: BTreeSet<NodeId>,
    is_cut_off: bool,
}

impl Reach {
    /// A table without reports: no agent has tried another yet.
    pub fn new(suspect_after: Span) -> Reach {
        let cut_off_after = Span { ns: suspect_after.ns.saturating_mul(CUT_OFF_AFTER) };
        Reach { cut_off_after, unreached: BTreeMap::new() }
    }

    /// Ends all reports against a node, since an agent has reached it.
    pub fn reached(&mut self, node: NodeId) {
        self.unreached.remove(&node);
    }

    /// Records that agent `by` could not reach the node.
    pub fn unreached(&mut self, now: Time, node: NodeId, by: NodeId) {
        let none = || Unreached { since: now, by: BTreeSet::new(), is_cut_off: false };
        self.unreached.entry(node).or_insert_with(none).by.insert(by);
    }

    /// What a node has reported counts no more: it is gone, or has begun anew.
    pub fn forget_reports_of(&mut self, node: NodeId) {
        self.unreached.retain(|_, unreached| {
            unreached.by.remove(&node);
            !unreached.by.is_empty()
        });
    }

    /// Whether no other node can reach the node, where there are so many others.
    pub fn is_cut_off(&mut self, now: Time, node: NodeId, others: usize) -> bool {
        let wanted = TELLERS.min(others).max(TELLERS_LEAST);
        let cut_off_after = self.cut_off_after;
        self.unreached.get_mut(&node).is_some_and(|unreached| {
            let is_long = now.since(unreached.since) >= cut_off_after;
            unreached.is_cut_off |= is_long && unreached.by.len() >= wanted;
            unreached.is_cut_off
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    const HERE: NodeId = NodeId(0);

    #[test]
    fn several_have_to_say_so_for_a_while_and_one_that_reaches_it_says_otherwise() {
        let mut reach = Reach::new(Span::from_secs(5));
        reach.unreached(at(0), HERE, NodeId(1));
        reach.unreached(at(90), HERE, NodeId(2));
        assert!(!reach.is_cut_off(at(99), HERE, 5), "three are wanted");
        reach.unreached(at(99), HERE, NodeId(3));
        assert!(!reach.is_cut_off(at(59), HERE, 5), "not for long enough");
        assert!(reach.is_cut_off(at(60), HERE, 5));
        assert!(!reach.is_cut_off(at(99), NodeId(1), 5));
        reach.reached(HERE);
        assert!(!reach.is_cut_off(at(999), HERE, 5));
    }

    #[test]
    fn one_alone_says_nothing_and_who_is_cut_off_stays_so_while_anyone_is_left_who_says_so() {
        let mut reach = Reach::new(Span::from_secs(5));
        (0..9).for_each(|beat| reach.unreached(at(beat * 30), HERE, NodeId(1)));
        assert!(!reach.is_cut_off(at(900), HERE, 1));
        reach.unreached(at(900), HERE, NodeId(2));
        reach.forget_reports_of(NodeId(2));
        assert!(!reach.is_cut_off(at(900), HERE, 2));
        reach.unreached(at(900), HERE, NodeId(2));
        assert!(reach.is_cut_off(at(900), HERE, 2), "there are no more");
        reach.forget_reports_of(NodeId(1));
        assert!(reach.is_cut_off(at(900), HERE, 2), "nobody has reached it");
        reach.forget_reports_of(NodeId(2));
        assert!(!reach.is_cut_off(at(900), HERE, 2), "nobody says so");
    }
}
