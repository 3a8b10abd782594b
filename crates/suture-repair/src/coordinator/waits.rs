//! Which nodes wait for which in running repairs, and how these go on without a late node.
//!
//! Place: ... slices flow -> [nothing comes of a helper -> by another plan] -> slices flow -> ...
//! A machine that vanishes breaks no connection, and its silence counts only after a while: it may
//! be busy, and to take it for dead costs a repair of all that it holds. To do without it in a
//! repair costs nothing but slices that are under way. So that is decided here, by what its peers
//! report (`agent/peer_watch.rs`) and for the repairs in which it takes part; what becomes of the
//! node is left to `health.rs`.
//!
//! All nodes after a helper in a lane wait with it, and each reports that it waits for the one
//! before it; so the helper to leave is the end of the chain: a node that is waited for, and waits
//! for no other in that lane. Only a receiver's report counts against a helper. A sender that is
//! granted nothing more excuses itself by reporting that: its parent may wait for another of its
//! children.
//! - It has sent nothing for longer than a beat: it is left at once, in all of its repairs, as
//!   after a broken session (`leave_silent` in `failed.rs`).
//! - It speaks, and yet nothing comes of it for several beats, and for longer than its uplink takes
//!   for a slice to each other node, and the downlink of who waits for one from each (where repair
//!   is limited, than the limits of both give all slices that are under way), and it moves nothing
//!   elsewhere: only here. One that is busy with other repairs may wait for a child that is, which
//!   it does not report. Of a chunk that lacks its last slices one beat is enough, whatever else it
//!   moves, since nothing else moves meanwhile that could make up for it.
//!
//! Destinations are not left, since they have what came. Going on without the same node is tried
//! once; a repair that goes on has another id, and does so only so many times
//! (`failure_history.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::Coordinator;
use super::attempt::{Attempt, Rebuild};
use crate::id::{EdgeRef, NodeId, RepairId};
use crate::message::Failure;
use crate::throttle::Direction;
use crate::time::{Span, Time};

/// A node that is waited for has a third of `suspect_after` to speak: three beats are to come
/// within that, and one that is late alone is not to be taken for a node that is gone.
const SILENCE_DIVISOR: u64 = 3;

/// It has so long at least, since a busy machine is late by tenths of a second, but no longer than
/// half of `suspect_after`.
const SILENCE_MIN: Span = Span::from_millis(400);

/// An agent reports that it waits once nothing has come for half a beat, about this part of
/// `suspect_after`.
const QUIET_DIVISOR: u64 = 10;

/// A node that speaks is waited for for so many times as long as one that does not.
const STILL: u64 = 2;

/// What lacks less than this part of its chunk waits for its last slices.
const LAST_DIVISOR: u64 = 8;

/// So many times as long as a slice should take is late.
const LATE: u64 = 4;

/// The most edges of one agent's report that are used; the rest are ignored.
const EDGES_MAX: usize = 4096;

/// Which nodes wait for which, as agents last reported.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// By waiting node: the edges, and since when it reports that.
    edges: BTreeMap<NodeId, BTreeMap<EdgeRef, Time>>,
    /// Nodes without which repairs were to go on, whether they could or not.
    tried: BTreeSet<(RepairId, NodeId)>,
}

impl Waits {
    /// All that a node waits for now.
    fn replace(&mut self, now: Time, waiter: NodeId, edges: &[EdgeRef]) -> Vec<(EdgeRef, Time)> {
        let before = self.edges.remove(&waiter).unwrap_or_default();
        let since = |edge: &EdgeRef| (*edge, before.get(edge).copied().unwrap_or(now));
        let edges: BTreeMap<EdgeRef, Time> = edges.iter().take(EDGES_MAX).map(since).collect();
        let all = edges.iter().map(|(edge, since)| (*edge, *since)).collect();
        if !edges.is_empty() {
            self.edges.insert(waiter, edges);
        }
        all
    }

    /// Whether the peer of an edge waits in the same lane itself, for another node than `waiter`.
    fn is_excused(&self, waiter: NodeId, EdgeRef { repair, lane, peer }: EdgeRef) -> bool {
        let edge = |peer| EdgeRef { repair, lane, peer: NodeId(peer) };
        let edges = self.edges.get(&peer).into_iter();
        let mut edges = edges.flat_map(|edges| edges.range(edge(0)..=edge(u32::MAX)));
        edges.any(|(edge, _)| edge.peer != waiter)
    }

    /// A node has begun anew: what it reported counts no more.
    pub fn forget(&mut self, node: NodeId) {
        self.edges.remove(&node);
    }

    /// The coordinator received nothing for `gap`, which is no standstill of others.
    pub fn slept(&mut self, now: Time, gap: Span) {
        for since in self.edges.values_mut().flat_map(BTreeMap::values_mut) {
            *since = now.min(*since + gap);
        }
    }
}

impl Coordinator {
    /// An agent reports on which edges it is the turn of the node at the other end.
    pub(super) fn waited(&mut self, now: Time, waiter: NodeId, edges: &[EdgeRef]) {
        let edges = self.waits.replace(now, waiter, edges);
        if edges.is_empty() {
            return;
        }
        let ledger = &self.ledger;
        self.waits.tried.retain(|(repair, _)| ledger.get(*repair).is_some());
        for (edge, since) in edges {
            // One of the same repair may have put another in its place.
            let rebuild = self.ledger.get(edge.repair).and_then(Attempt::rebuild);
            let rebuild = rebuild.filter(|rebuild| is_child(rebuild, waiter, edge));
            let Some(rebuild) = rebuild else { continue };
            let is_silent = self.is_silent_for_long(now, edge.peer);
            if is_silent || self.is_late(now, waiter, edge, since, rebuild) {
                self.try_without(now, edge);
            } else {
                self.await_word(now, edge.peer);
            }
        }
    }

    /// Whether a node that is waited for has sent nothing for so long that its repairs go on
    /// without it.
    pub(super) fn is_silent_for_long(&self, now: Time, node: NodeId) -> bool {
        self.health.silence(now, node) >= self.silence_max()
    }

    fn silence_max(&self) -> Span {
        let suspect_after = self.config.timers.suspect_after.ns;
        let part = |divisor: u64| Span { ns: suspect_after / divisor };
        part(SILENCE_DIVISOR).max(SILENCE_MIN.min(part(2)))
    }

    /// A node that is waited for may speak until then.
    fn await_word(&mut self, now: Time, node: NodeId) {
        let silence = self.health.silence(now, node);
        let left = Span { ns: self.silence_max().ns.saturating_sub(silence.ns) };
        let at = self.leave_at.entry(node).or_insert(now + left);
        *at = (*at).min(now + left);
    }

    /// Whether the peer of an edge speaks, and is waited for for too long all the same.
    fn is_late(
        &self,
        now: Time,
        waiter: NodeId,
        edge: EdgeRef,
        since: Time,
        rebuild: &Rebuild,
    ) -> bool {
        if self.waits.is_excused(waiter, edge) {
            return false;
        }
        let before = Span { ns: self.config.timers.suspect_after.ns / QUIET_DIVISOR };
        let bytes = rebuild.planned.plan.range.bytes();
        let left = bytes.saturating_sub(rebuild.bytes_come());
        let is_last = left <= bytes / LAST_DIVISOR;
        // Where repair is limited, slices take their time, and the last ones of one repair share
        // links with others.
        let flight = |node, to| self.ledger.flight(node, to, self.throttle.limits(node));
        let flight = flight(edge.peer, Direction::Up).max(flight(waiter, Direction::Down));
        let is_last = is_last && flight.is_none();
        if !is_last && self.ledger.has_moved(edge.peer, since) {
            return false;
        }
        let still = if is_last { before } else { self.silence_max() };
        let late = self.slice_span(edge.peer, waiter, rebuild).times(LATE);
        let late = late.max(flight.unwrap_or_default());
        now + before >= since + still.times(STILL).max(late)
    }

    /// How long a node's uplink takes for a slice to every other node, or the downlink of `to` for
    /// one from every other, whichever takes longer.
    fn slice_span(&self, node: NodeId, to: NodeId, rebuild: &Rebuild) -> Span {
        let cluster = self.ledger.cluster();
        let (up, down) = (cluster.node(node).uplink_free(), cluster.node(to).downlink_free());
        let rate = up.usable().0.min(down.usable().0);
        let bytes = f64::from(rebuild.slice_bytes) * self.health.up_count() as f64;
        Span { ns: ((bytes / rate).min(1e9) * 1e9) as u64 }
    }

    /// Has a repair go on without the peer of an edge, where it can, and where that is new.
    fn try_without(&mut self, now: Time, edge: EdgeRef) {
        if self.waits.tried.insert((edge.repair, edge.peer)) {
            self.goes_on(now, edge.repair, None, &Failure::PeerLost(edge.peer));
        }
    }
}

/// Whether the peer of an edge sends on it.
fn is_child(rebuild: &Rebuild, waiter: NodeId, edge: EdgeRef) -> bool {
    let lane = rebuild.planned.plan.lanes.get(usize::from(edge.lane));
    let mut edges = lane.into_iter().flat_map(|lane| &lane.edges);
    edges.any(|of_lane| (of_lane.child, of_lane.parent) == (edge.peer, waiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn edge(lane: u16, peer: NodeId) -> EdgeRef {
        EdgeRef { repair: RepairId(7), lane, peer }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn an_edge_waits_since_it_was_first_named_without_a_break() {
        let mut waits = Waits::default();
        assert_eq!(waits.replace(at(1), A, &[edge(0, B)]), [(edge(0, B), at(1))]);
        let both = [(edge(0, B), at(1)), (edge(1, B), at(2))];
        assert_eq!(waits.replace(at(2), A, &[edge(1, B), edge(0, B)]), both);
        assert_eq!(waits.replace(at(3), A, &[]), []);
        assert_eq!(waits.replace(at(4), A, &[edge(0, B)]), [(edge(0, B), at(4))]);
        waits.slept(at(9), Span::from_secs(3));
        assert_eq!(waits.replace(at(9), A, &[edge(0, B)]), [(edge(0, B), at(7))]);
        waits.forget(A);
        assert!(waits.edges.is_empty());
    }

    #[test]
    fn who_waits_for_another_in_the_same_lane_is_excused() {
        let mut waits = Waits::default();
        waits.replace(at(1), B, &[edge(0, C), edge(1, A)]);
        assert!(waits.is_excused(A, edge(0, B)));
        assert!(!waits.is_excused(C, edge(0, B)), "each waits for the other");
        assert!(!waits.is_excused(A, edge(1, B)));
        assert!(!waits.is_excused(A, edge(2, B)) && !waits.is_excused(A, edge(0, C)));
    }
}
