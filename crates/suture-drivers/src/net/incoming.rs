//! Everything that comes in: a task for each connection that a peer or client makes.
//!
//! Place: ... slice sent by a child -> [checked and received] -> its result computed ...
//! A peer's slices are read into buffers that its grants reserved, checked and handed to the
//! agent. A client's connection is handed on to the task that serves chunks.
//!
//! Clients have places of their own, so that they never take those of peers or operators, however
//! many they are; so have connections that have not identified themselves.
//!
//! A peer that connects anew has given up its former connection, and maybe its former life: that
//! one is reported lost before anything of the new one is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suture_edge::checksum::crc32c;
use suture_repair::id::NodeId;
use suture_repair::slice::SliceId;
use suture_repair::wire::{Denial, Frame, Payload, Who};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::NetEvent;
use super::connection::{Connection, Traffic};
use super::error::NetError;
use super::grants::Grants;
use super::local_identity::LocalIdentity;
use super::places::{HeldPlace, Holder, Newcomer, Newcomers, Places};
use super::refusals::RefusalLog;
use super::round::Round;
use crate::buffer::{Buffer, Pool};
use crate::identity::{AccessRole, Principal};
use crate::limit::{Port, Purpose};

/// Peers with a connection at a time: more than a cluster has nodes.
const PEERS_MAX: usize = 4096;

/// The pause after the system could not give a connection, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes the connections that come in.
#[derive(Debug)]
pub struct Acceptor {
    /// The identity that this agent announces to peers that connect.
    pub local_identity: LocalIdentity,
    /// The names of the nodes, as far as they are known: a peer has to prove its own.
    pub names: watch::Receiver<NodeNames>,
    /// The limits of what is received.
    pub downlink: Arc<Port>,
    /// Which slices may come.
    pub grants: Arc<Grants>,
    /// Memory for the slices that come.
    pub pool: Arc<Pool>,
    /// Where what comes is reported.
    pub events: mpsc::Sender<NetEvent>,
    /// The one connection from each peer.
    pub peers: Mutex<PeerConnections>,
    /// The limits for others that may connect.
    pub admission: Admission,
}

/// The limits for connections of others than peers.
#[derive(Debug)]
pub struct Admission {
    /// What each connection of a client takes one of.
    pub clients: Places,
    /// The same of operators: an admin, a coordinator.
    pub operators: Places,
    /// The same of agents that ask for probes.
    pub probers: Places,
    /// Connections that have not identified themselves.
    pub newcomers: Arc<Newcomers>,
    /// What is logged of connections that are refused.
    pub refusals: RefusalLog,
    /// How long they may take to do so.
    pub handshake: Duration,
}

/// How long a peer's name is waited for; the peer that connects waits no longer either.
const NAME_TIMEOUT: Duration = Duration::from_secs(3);

/// The name of each node that is known.
pub type NodeNames = HashMap<NodeId, Arc<str>>;

/// The kind of connection that was admitted.
enum Admitted {
    Client(HeldPlace),
    Peer(NodeId),
}

/// A number that distinguishes each peer's connection from a former one, and what ends it when
/// dropped.
type PeerConnections = HashMap<NodeId, (u64, oneshot::Sender<()>)>;

/// Accepts connections for as long as it is polled; dropping it closes them all. `serve` takes
/// those of clients.
pub async fn run<S, F>(acceptor: Arc<Acceptor>, listener: TcpListener, serve: S)
where
    S: Fn(Connection) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    for number in 0.. {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match stream {
            Ok((stream, _)) => {
                let (acceptor, serve) = (acceptor.clone(), serve.clone());
                let newcomer = acceptor.admission.newcomers.enter();
                connections.spawn(accept(acceptor, stream, number, newcomer, serve));
            }
            Err(error) => {
                warn!("no connection can be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept<S, F>(
    acceptor: Arc<Acceptor>,
    stream: TcpStream,
    number: u64,
    newcomer: Newcomer,
    serve: S,
) where
    S: Fn(Connection) -> F,
    F: Future<Output = ()>,
{
    let from = stream.peer_addr().map_or_else(|_| "someone".to_owned(), |addr| addr.to_string());
    let admit = async |address, who, principal| acceptor.admit(address, who, principal).await;
    let (local_identity, limits) = (&acceptor.local_identity, &*acceptor.downlink);
    let within = acceptor.admission.handshake;
    let welcomed = tokio::select! {
        welcomed = Connection::welcome(stream, local_identity, limits, within, admit) => welcomed,
        () = newcomer => {
            return debug!("connection from {from} closed: newer ones came before its Hello");
        }
    };
    match welcomed {
        Ok((connection, Admitted::Client(_place))) => serve(connection).await,
        Ok((connection, Admitted::Peer(peer))) => {
            receive(&acceptor, connection, peer, number).await;
        }
        Err(error) => acceptor.admission.refusals.note(from, error),
    }
}

async fn receive(acceptor: &Acceptor, connection: Connection, peer: NodeId, number: u64) {
    let mut connection = connection.queued_at(acceptor.downlink.clone());
    let (former_ends, mut replaced) = oneshot::channel();
    let former = acceptor.peers().insert(peer, (number, former_ends));
    if former.is_some() {
        let _ = acceptor.events.send(NetEvent::Lost(peer)).await;
    }
    drop(former);
    let result = tokio::select! {
        result = read_all(acceptor, &mut connection, peer) => result,
        _ = &mut replaced => return,
    };
    {
        let mut peers = acceptor.peers();
        if peers.get(&peer).is_some_and(|(current, _)| *current == number) {
            peers.remove(&peer);
        }
    }
    if let Err(error) = result {
        debug!("connection from {peer} ended: {error}");
        let _ = acceptor.events.send(NetEvent::Lost(peer)).await;
    }
}

/// Reads until the connection breaks or the agent stops.
async fn read_all(
    acceptor: &Acceptor,
    connection: &mut Connection,
    peer: NodeId,
) -> Result<(), NetError> {
    let mut round = Round::default();
    loop {
        let event = match connection.read_frame().await? {
            Frame::Grant { repair, lane, first, below } => {
                NetEvent::Granted { from: peer, repair, lane, first, below }
            }
            Frame::Slice { id, payload } => {
                let round_bytes = round.note((id.repair, id.lane), payload.bytes.into());
                let purpose = Purpose::Repair { round_bytes };
                match read_slice(acceptor, connection, peer, id, payload, purpose).await? {
                    Some(slice) => NetEvent::Arrived { from: peer, id, slice },
                    None => continue,
                }
            }
            frame => return Err(NetError::Unexpected(frame)),
        };
        if acceptor.events.send(event).await.is_err() {
            return Ok(());
        }
    }
}

/// Takes a slice off the wire; gives it if it was granted.
async fn read_slice(
    acceptor: &Acceptor,
    connection: &mut Connection,
    peer: NodeId,
    id: SliceId,
    payload: Payload,
    purpose: Purpose,
) -> Result<Option<Buffer>, NetError> {
    let traffic = Traffic { port: &acceptor.downlink, purpose };
    if !acceptor.grants.admit(peer, id) {
        connection.skip_payload(payload.bytes, traffic).await?;
        return Ok(None);
    }
    let mut slice = acceptor.pool.take(payload.bytes as usize);
    connection.read_payload(&mut slice, traffic).await?;
    // What came encrypted has proven itself, record by record.
    if !connection.is_encrypted() && crc32c(&slice) != payload.crc {
        return Err(NetError::Damaged);
    }
    Ok(Some(slice))
}

impl Acceptor {
    /// Admits a connection whose other end is what it claims to be, if there is a place for one
    /// more of its kind.
    async fn admit(
        &self,
        address: IpAddr,
        who: Who,
        principal: Option<Principal>,
    ) -> Result<Admitted, Denial> {
        if let Some(principal) = &principal
            && !self.is_proven(who, principal).await
        {
            debug!("{principal} says that it is {who}");
            return Err(Denial::Unproven);
        }
        match who {
            Who::Client | Who::Prober => {
                let Admission { clients, operators, probers, .. } = &self.admission;
                let places = match principal.as_ref().map(|who| who.role) {
                    _ if who == Who::Prober => probers,
                    None | Some(AccessRole::Client) => clients,
                    Some(_) => operators,
                };
                let holder = principal.map_or_else(
                    || Holder::from(address),
                    |who| Holder::Principal(who.to_string()),
                );
                places.try_take(holder).map(Admitted::Client)
            }
            Who::Agent(peer) => {
                let peers = self.peers();
                let is_free = peers.len() < PEERS_MAX || peers.contains_key(&peer);
                is_free.then_some(Admitted::Peer(peer))
            }
        }
        .ok_or(Denial::Busy)
    }

    /// Whether a certificate proves it. A peer may know of this node before this node knows of it:
    /// then its name is waited for.
    async fn is_proven(&self, who: Who, principal: &Principal) -> bool {
        let node = match who {
            Who::Agent(node) => node,
            Who::Client => {
                let roles = [AccessRole::Client, AccessRole::Admin, AccessRole::Coordinator];
                return roles.contains(&principal.role);
            }
            // It is served nothing but probes.
            Who::Prober => return principal.role == AccessRole::Agent,
        };
        if principal.role != AccessRole::Agent {
            return false;
        }
        let mut names = self.names.clone();
        let known = names.wait_for(|names| names.contains_key(&node));
        let known = timeout(NAME_TIMEOUT, known).await;
        known.is_ok_and(|known| known.is_ok_and(|names| *names[&node] == *principal.name))
    }

    fn peers(&self) -> MutexGuard<'_, PeerConnections> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
