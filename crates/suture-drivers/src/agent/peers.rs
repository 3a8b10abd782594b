//! Whom this agent sends to: addresses, and a connection for each peer that is being sent to.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use suture_repair::id::{NodeId, RepairId};
use suture_repair::wire::ClusterId;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::limit::Port;
use crate::net::NetEvent;
use crate::net::outgoing::{self, Destination, ToPeer};

/// The peers of one agent.
#[derive(Debug)]
pub struct Peers {
    cluster: ClusterId,
    me: NodeId,
    uplink: Arc<Port>,
    events: mpsc::Sender<NetEvent>,
    known: HashMap<NodeId, Peer>,
}

#[derive(Debug)]
struct Peer {
    addr: SocketAddr,
    failures: Arc<AtomicU32>,
    connection: Option<Sending>,
}

/// A running connection; it ends when this is dropped.
#[derive(Debug)]
struct Sending {
    inbox: mpsc::UnboundedSender<ToPeer>,
    task: AbortHandle,
}

impl Peers {
    /// Nobody is known yet.
    pub fn new(
        (cluster, me): (ClusterId, NodeId),
        uplink: Arc<Port>,
        events: mpsc::Sender<NetEvent>,
    ) -> Peers {
        Peers { cluster, me, uplink, events, known: HashMap::new() }
    }

    /// Where everyone is now. Gives the peers that were being sent to elsewhere.
    pub fn update(&mut self, addresses: Vec<(NodeId, SocketAddr)>) -> Vec<NodeId> {
        let addresses: HashMap<NodeId, SocketAddr> = addresses.into_iter().collect();
        let moved = |id: &NodeId, peer: &mut Peer| addresses.get(id) != Some(&peer.addr);
        let gone: Vec<(NodeId, Peer)> = self.known.extract_if(moved).collect();
        for (id, addr) in addresses {
            let new = || Peer { addr, failures: Arc::default(), connection: None };
            self.known.entry(id).or_insert_with(new);
        }
        gone.into_iter().filter(|(_, peer)| peer.connection.is_some()).map(|(id, _)| id).collect()
    }

    /// Queues a frame, and connects if need be. False when nobody knows where the peer is.
    pub fn send(&mut self, to: NodeId, item: ToPeer) -> bool {
        let Some(peer) = self.known.get_mut(&to) else { return false };
        let (cluster, me, uplink) = (self.cluster, self.me, &self.uplink);
        let connection = peer.connection.get_or_insert_with(|| {
            let (inbox, queued) = mpsc::unbounded_channel();
            let (failures, uplink) = (peer.failures.clone(), uplink.clone());
            let to = Destination { peer: to, addr: peer.addr, cluster, me, uplink, failures };
            let task = tokio::spawn(outgoing::run(to, queued, self.events.clone()));
            Sending { inbox, task: task.abort_handle() }
        });
        // A connection that has just ended says so itself: the peer is reported lost.
        let _ = connection.inbox.send(item);
        true
    }

    /// Nothing of this repair is to be sent any more.
    pub fn discard(&self, repair: RepairId) {
        let open = self.known.values().filter_map(|peer| peer.connection.as_ref());
        open.for_each(|connection| {
            let _ = connection.inbox.send(ToPeer::Discard(repair));
        });
    }

    /// The connection is of no more use; the next frame opens another.
    pub fn hang_up(&mut self, peer: NodeId) {
        if let Some(peer) = self.known.get_mut(&peer) {
            peer.connection = None;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}
