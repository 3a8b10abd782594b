//! What each node sends to each other one at a moment, as its agent would report it, and what a
//! connection between two of them has of a link.
//!
//! Place: beside [slices flow]: what a coordinator is shown of undeclared links, and what requests
//! of applications meet there.
//! A transfer waits for a link that is full, where it is among those that get most of it by their
//! shares: one that gets less waits elsewhere. An agent counts over the time since its last report;
//! here the moment stands for that.

use std::collections::{BTreeMap, BTreeSet};

use suture_repair::id::NodeId;
use suture_repair::message::SentTo;
use suture_repair::time::Span;

use super::repair::{EdgeFlow, Repair};
use crate::client::RequestShares;
use crate::fluid::{Network, PortIndex};
use crate::ports::PortMap;

/// A port of which less than so much is left is full, and levels that differ by less are equal:
/// in a large network rates wait for each other a little.
const TOLERANCE: f64 = 0.01;

/// From one node to another one.
#[derive(Clone, Copy, Debug, Default)]
struct PeerTransfer {
    rate: f64,
    is_waiting: bool,
}

/// What each node sends, for reports over such a span.
pub(super) fn sent_to<'a>(
    repairs: impl Iterator<Item = &'a Repair>,
    network: &Network,
    ports: &PortMap,
    span: Span,
) -> BTreeMap<NodeId, Vec<SentTo>> {
    let mut flows: Vec<EdgeFlow> = Vec::new();
    repairs.for_each(|repair| repair.edges(network, |flow| flows.push(flow)));
    let is_full =
        |port: PortIndex| network.used(port) >= (1.0 - TOLERANCE) * network.capacity(port);
    let mut highest: BTreeMap<PortIndex, f64> = BTreeMap::new();
    for flow in &flows {
        for port in ports.links(flow.child, flow.parent).filter(|port| is_full(*port)) {
            let level = highest.entry(port).or_default();
            *level = level.max(flow.level);
        }
    }
    let mut moving: BTreeMap<NodeId, BTreeMap<NodeId, PeerTransfer>> = BTreeMap::new();
    for EdgeFlow { child, parent, rate, level } in flows {
        let is_highest = |most: &f64| level >= (1.0 - TOLERANCE) * most;
        let mut links = ports.links(child, parent);
        let is_waiting = links.any(|port| highest.get(&port).is_some_and(is_highest));
        let pair = moving.entry(child).or_default().entry(parent).or_default();
        pair.rate += rate;
        pair.is_waiting |= is_waiting;
    }
    let sent_to = |(peer, pair): (NodeId, PeerTransfer)| SentTo {
        peer,
        bytes: (pair.rate * span.as_secs_f64()) as u64,
        waited: if pair.is_waiting { span } else { Span::ZERO },
    };
    let of_node = |(node, peers): (NodeId, BTreeMap<NodeId, PeerTransfer>)| {
        (node, peers.into_iter().map(sent_to).collect())
    };
    moving.into_iter().map(of_node).collect()
}

/// What connections of repairs have of a direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Connections {
    /// The shares of all of their lanes.
    bytes: f64,
    count: u32,
}

impl Connections {
    /// One of them on average; none where there are none.
    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.bytes / f64::from(self.count))
    }
}

/// What a request has at each of so many nodes where it has as much as a connection: lanes between
/// the same two nodes share one, and have their own shares of it.
pub(super) fn request_shares<'a>(
    repairs: impl Iterator<Item = &'a Repair>,
    nodes: usize,
) -> Vec<RequestShares> {
    let mut links = vec![[Connections::default(); 2]; nodes];
    let mut connected = BTreeSet::new();
    for repair in repairs {
        repair.moving(|edge, _, _| {
            if edge.bytes == 0 {
                return;
            }
            let is_new = connected.insert((edge.child, edge.parent));
            for (node, direction) in [(edge.child, 0), (edge.parent, 1)] {
                let link = &mut links[node.index()][direction];
                link.bytes += edge.bytes as f64;
                link.count += u32::from(is_new);
            }
        });
    }
    let shares =
        |[up, down]: [Connections; 2]| RequestShares { read: up.mean(), write: down.mean() };
    links.into_iter().map(shares).collect()
}
