//! What the nodes that a pump exchanges slices with owe it, one by one.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! A peer that died without notice looks like one that has nothing to do. Which kind a peer is, is
//! known here: a child that was granted slices sends them, and a parent that has all it granted
//! grants more. Whether it is late is judged over all repairs together (`agent/peer_watch.rs`).

use super::stream::Path;
use super::{Pump, Stage};
use crate::id::NodeId;
use crate::role::Sink;

/// How an edge stands, as one of its two nodes sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerProgress {
    /// The node at the other end.
    pub peer: NodeId,
    /// A number that changes with every slice of a child, and every grant of a parent.
    pub moved: u32,
    /// Whether it is the peer's turn: it was granted slices and has not sent them, or was sent
    /// all that it takes, and is to take more.
    pub owes: bool,
}

impl Pump {
    /// How its edges stand, one after the other.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerProgress> + '_ {
        let children = self.role.children.iter().enumerate();
        let children = children.map(move |(place, child)| self.child(place, child.node));
        let sinks = self.role.sinks.iter().enumerate();
        let parents = sinks.filter_map(move |(place, sink)| match sink {
            Sink::Forward(parent) => Some(self.parent(place, *parent)),
            Sink::Store => None,
        });
        children.chain(parents)
    }

    fn child(&self, place: usize, peer: NodeId) -> PeerProgress {
        let (moved, owes) = match &self.stage {
            Stage::Spilling(gates) => (gates[place].arrived(), gates[place].is_awaited()),
            Stage::Streaming(stream) if stream.path() == Path::FromSpool => (self.count(), false),
            Stage::Streaming(stream) => (stream.arrived(place), stream.is_awaited(place)),
        };
        PeerProgress { peer, moved, owes }
    }

    fn parent(&self, place: usize, peer: NodeId) -> PeerProgress {
        let moved = self.credit[place];
        let owes = match &self.stage {
            // Nothing goes there yet.
            Stage::Spilling(_) => false,
            Stage::Streaming(stream) if stream.path() == Path::ToSpool => false,
            Stage::Streaming(stream) => stream.done() >= moved && moved < self.count(),
        };
        PeerProgress { peer, moved, owes: owes && self.is_open }
    }
}
