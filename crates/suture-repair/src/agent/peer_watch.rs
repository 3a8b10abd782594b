//! The peers that this agent waits for: they owe it something and send nothing.
//!
//! Place: ... dispatch -> [slices flow -> nothing comes] -> the rest flows another way -> ...
//! A machine that loses its power, a process that is stopped and a link at zero send nothing, and
//! no connection ends. What is left is that it was a peer's turn, in the one direction or the other
//! (`pump/peers.rs`), and that in half a beat nothing came of it in any repair: of a peer that
//! moves something elsewhere it is known that it lives. Each beat reports which edges wait so; the
//! first report of a peer does not wait for the next beat. What follows is the coordinator's to
//! decide, which receives the reports of all agents and so knows for which node that peer waits
//! itself (`coordinator/waits.rs`).
//!
//! Time in which this agent did not run itself is no standstill of others. Nothing is reported of
//! edges of gated repairs, where a parent may ask for nothing although it is well.

use std::collections::BTreeMap;

use super::Agent;
use super::running::Running;
use crate::id::{EdgeRef, NodeId};
use crate::time::{Span, Time};

/// Edges that a beat names at most: four for each repair that an agent may take part in.
const WAITS_MAX: usize = 4096;

/// So many times in a beat it is looked for such peers.
const INSPECTIONS_A_BEAT: u64 = 4;

/// Nothing has come in so many of these times.
const INSPECTIONS_QUIET: u64 = 2;

/// What is known of peers that owe something.
#[derive(Debug, Default)]
pub(super) struct PeerWatch {
    peers: BTreeMap<NodeId, Quiet>,
    /// The edges that wait, as of the last look.
    waits: Vec<EdgeRef>,
    /// When to look again.
    pub inspect_at: Time,
}

/// A peer that owes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quiet {
    /// What had come of it in all repairs together.
    moved: u64,
    /// Since when that is so, and it owes.
    since: Time,
}

/// What a look finds of one peer.
#[derive(Debug, Default)]
struct Found {
    moved: u64,
    owes: Vec<EdgeRef>,
}

impl PeerWatch {
    /// Takes note of what a look found. Returns whether a peer is waited for that was not before.
    fn note(&mut self, now: Time, quiet_after: Span, found: BTreeMap<NodeId, Found>) -> bool {
        let (before, mut waits) = (std::mem::take(&mut self.peers), Vec::new());
        let mut is_news = false;
        for (peer, Found { moved, owes }) in found {
            if owes.is_empty() {
                continue;
            }
            let known = before.get(&peer).copied().filter(|quiet| quiet.moved == moved);
            let quiet = known.unwrap_or(Quiet { moved, since: now });
            self.peers.insert(peer, quiet);
            if now.since(quiet.since) >= quiet_after {
                is_news |= self.waits.iter().all(|edge| edge.peer != peer);
                waits.extend(owes);
            }
        }
        waits.truncate(WAITS_MAX);
        self.waits = waits;
        is_news
    }
}

impl Agent {
    /// When it is looked for peers that owe something, while anything runs.
    pub(super) fn next_inspection(&self) -> Option<Time> {
        (!self.tasks.is_empty()).then_some(self.peer_watch.inspect_at)
    }

    /// Edges that wait for their peer, as of the last look.
    pub(super) fn waits(&self) -> Vec<EdgeRef> {
        let waits = self.peer_watch.waits.iter().copied();
        waits.filter(|edge| self.tasks.contains_key(&edge.repair)).collect()
    }

    /// Looks for peers that owe something and of which nothing comes.
    #[inline(never)]
    pub(super) fn watch_peers(&mut self, now: Time) {
        let every = Span { ns: self.config.heartbeat_every.ns / INSPECTIONS_A_BEAT };
        let quiet_after = every.times(INSPECTIONS_QUIET);
        let has_slept = now.since(self.peer_watch.inspect_at) > quiet_after;
        self.peer_watch.inspect_at = now + every.max(Span { ns: 1 });
        if has_slept {
            // What came meanwhile waits to be taken.
            self.peer_watch.peers.clear();
        }
        let mut found: BTreeMap<NodeId, Found> = BTreeMap::new();
        for (repair, task) in self.tasks.iter().filter(|(_, task)| is_watched(task)) {
            for (lane, pump) in &task.lanes {
                for progress in pump.peers() {
                    let of_peer = found.entry(progress.peer).or_default();
                    of_peer.moved = of_peer.moved.wrapping_add(u64::from(progress.moved));
                    if progress.owes {
                        let (repair, lane, peer) = (*repair, *lane, progress.peer);
                        of_peer.owes.push(EdgeRef { repair, lane, peer });
                    }
                }
            }
        }
        if self.peer_watch.note(now, quiet_after, found) {
            self.next_beat = self.next_beat.min(now);
        }
    }
}

/// Whether peers of a task are expected to move something.
fn is_watched(task: &Running) -> bool {
    !task.task.gated && task.state.is_transferring()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RepairId;

    const PEER: NodeId = NodeId(1);
    const QUIET: Span = Span::from_millis(500);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn edge(repair: u64) -> EdgeRef {
        EdgeRef { repair: RepairId(repair), lane: 0, peer: PEER }
    }

    fn found(moved: u64, owes: &[EdgeRef]) -> BTreeMap<NodeId, Found> {
        [(PEER, Found { moved, owes: owes.to_vec() })].into()
    }

    #[test]
    fn who_owes_is_waited_for_once_nothing_has_come_for_a_while() {
        let mut watch = PeerWatch::default();
        assert!(!watch.note(at(0), QUIET, found(7, &[edge(1)])));
        assert!(!watch.note(at(250), QUIET, found(7, &[edge(1)])));
        assert!(watch.waits.is_empty());
        assert!(watch.note(at(500), QUIET, found(7, &[edge(1), edge(2)])), "it is news");
        assert_eq!(watch.waits, [edge(1), edge(2)]);
        assert!(!watch.note(at(750), QUIET, found(7, &[edge(2)])), "and is not again");
        assert_eq!(watch.waits, [edge(2)]);
        assert!(!watch.note(at(1000), QUIET, found(8, &[edge(2)])), "something came");
        assert!(watch.waits.is_empty());
    }

    #[test]
    fn time_counts_only_while_something_is_owed() {
        let mut watch = PeerWatch::default();
        watch.note(at(0), QUIET, found(7, &[edge(1)]));
        watch.note(at(250), QUIET, found(7, &[]));
        assert!(!watch.note(at(500), QUIET, found(7, &[edge(1)])));
        assert!(!watch.note(at(750), QUIET, found(7, &[edge(1)])));
        assert!(watch.note(at(1000), QUIET, found(7, &[edge(1)])));
    }
}
