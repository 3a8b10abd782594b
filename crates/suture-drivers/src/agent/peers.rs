//! The peers of this agent: their addresses, and a connection for each that is being sent to.
//!
//! Place: ... result to be sent -> [which connection it takes] -> queued there ...
//! Tasks and addresses come in any order: frames for a node of which nothing is known yet wait.
//! They are few, because slices are sent when they were asked for and are counted in the pool.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use suture_repair::id::{NodeId, RepairId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::address::AgentAddress;
use crate::limit::Port;
use crate::net::NetEvent;
use crate::net::local_identity::LocalIdentity;
use crate::net::outgoing::{self, Destination, ToPeer};

/// The peers of one agent.
#[derive(Debug)]
pub struct Peers {
    local_identity: LocalIdentity,
    uplink: Arc<Port>,
    /// What packets of repair are marked with, if with anything.
    dscp: Option<u8>,
    events: mpsc::Sender<NetEvent>,
    /// None: out of reach.
    known: HashMap<NodeId, Option<Peer>>,
    /// Frames for nodes of which nothing is known.
    waiting: HashMap<NodeId, Vec<ToPeer>>,
}

#[derive(Debug)]
struct Peer {
    agent: AgentAddress,
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
    /// The peers before any address is known.
    pub fn new(
        local_identity: LocalIdentity,
        uplink: Arc<Port>,
        dscp: Option<u8>,
        events: mpsc::Sender<NetEvent>,
    ) -> Peers {
        Peers {
            local_identity,
            uplink,
            dscp,
            events,
            known: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Takes the present address of each node; none: out of reach. Gives the peers that were being
    /// sent to elsewhere or are waited for in vain.
    pub fn update(&mut self, addresses: Vec<(NodeId, Option<AgentAddress>)>) -> Vec<NodeId> {
        let mut former = std::mem::take(&mut self.known);
        for (id, agent) in addresses {
            let is_same =
                |peer: &Option<Peer>| peer.as_ref().map(|peer| &peer.agent) == agent.as_ref();
            let same = former.get(&id).is_some_and(is_same);
            let new =
                || agent.map(|agent| Peer { agent, failures: Arc::default(), connection: None });
            let peer = if same { former.remove(&id).flatten() } else { new() };
            self.known.insert(id, peer);
        }
        let is_sent_to =
            |peer: &Option<Peer>| peer.as_ref().is_some_and(|p| p.connection.is_some());
        let moved = former.into_iter().filter(|(_, peer)| is_sent_to(peer));
        let mut lost: Vec<NodeId> = moved.map(|(id, _)| id).collect();
        let known = &self.known;
        let answered = self.waiting.extract_if(|id, _| known.contains_key(id));
        for (id, items) in answered.collect::<Vec<_>>() {
            if !items.into_iter().all(|item| self.send(id, item)) {
                lost.push(id);
            }
        }
        lost
    }

    /// Queues a frame, and connects if need be. False when the peer is out of reach.
    pub fn send(&mut self, to: NodeId, item: ToPeer) -> bool {
        let Some(peer) = self.known.get_mut(&to) else {
            self.waiting.entry(to).or_default().push(item);
            return true;
        };
        let Some(peer) = peer else { return false };
        let (local_identity, uplink) = (&self.local_identity, &self.uplink);
        let connection = peer.connection.get_or_insert_with(|| {
            let (inbox, queued) = mpsc::unbounded_channel();
            let (failures, uplink) = (peer.failures.clone(), uplink.clone());
            let (agent, local_identity) = (peer.agent.clone(), local_identity.clone());
            let dscp = self.dscp;
            let to = Destination { peer: to, agent, local_identity, uplink, dscp, failures };
            let task = tokio::spawn(outgoing::run(to, queued, self.events.clone()));
            Sending { inbox, task: task.abort_handle() }
        });
        // A connection that has just ended reports the peer lost itself.
        let _ = connection.inbox.send(item);
        true
    }

    /// Nothing of this repair is to be sent any more.
    pub fn discard(&mut self, repair: RepairId) {
        self.waiting.retain(|_, items| {
            items.retain(|item| item.repair() != repair);
            !items.is_empty()
        });
        let open = self.known.values().flatten().filter_map(|peer| peer.connection.as_ref());
        open.for_each(|connection| {
            let _ = connection.inbox.send(ToPeer::Discard(repair));
        });
    }

    /// The connection is of no more use; the next frame opens another.
    pub fn hang_up(&mut self, peer: NodeId) {
        if let Some(Some(peer)) = self.known.get_mut(&peer) {
            peer.connection = None;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}
