//! The connection to one peer: everything that is sent there.
//!
//! Place: ... result to be sent -> [queued and computed in turn] -> on the wire ...
//! Grants go first: they are small, and the peer waits for them. Slices go in turn, one of each
//! lane. A slice's sum is computed just before it is sent, so that the socket reads it from the
//! cache; its memory is free once the system has it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use suture_edge::checksum::crc32c;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;
use suture_repair::wire::{Frame, Payload, Who};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::NetEvent;
use super::connection::{Connection, Traffic};
use super::error::NetError;
use super::local_identity::LocalIdentity;
use super::round::Round;
use crate::address::AgentAddress;
use crate::combination::Pending;
use crate::limit::{Port, Purpose};

/// For a connection to stand. Agents sit in one data centre.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The pause before the second attempt; it doubles with each failure.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The pause doubles this often at most, to 3.2 s.
const PAUSE_DOUBLINGS: u32 = 6;

/// What is to be sent.
#[derive(Debug)]
pub enum ToPeer {
    /// That slices may come.
    Grant {
        /// The repair of the slices.
        repair: RepairId,
        /// The lane of the slices.
        lane: u16,
        /// The first slice that is wanted at all.
        first: u32,
        /// One past the last granted slice.
        below: u32,
    },
    /// A slice, computed when its turn has come.
    Slice(SliceId, Pending),
    /// Nothing more of this repair.
    Discard(RepairId),
}

impl ToPeer {
    /// The repair that it belongs to.
    pub fn repair(&self) -> RepairId {
        match self {
            ToPeer::Grant { repair, .. } | ToPeer::Discard(repair) => *repair,
            ToPeer::Slice(id, _) => id.repair,
        }
    }
}

/// The node to connect to, the identity to announce, and the limits.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The node that is connected to.
    pub peer: NodeId,
    /// Where that node listens, and its name.
    pub agent: AgentAddress,
    /// The identity that is announced to it.
    pub local_identity: LocalIdentity,
    /// The limits of what is sent.
    pub uplink: Arc<Port>,
    /// What packets to it are marked with, if with anything.
    pub dscp: Option<u8>,
    /// How often in a row the peer was not reached.
    pub failures: Arc<AtomicU32>,
}

/// What waits to be sent.
#[derive(Debug, Default)]
struct SendQueue {
    /// Encoded headers, in the order of their coming.
    grants: Vec<u8>,
    /// In the order of their turns; none is empty.
    lanes: VecDeque<Lane>,
}

#[derive(Debug)]
struct Lane {
    repair: RepairId,
    lane: u16,
    slices: VecDeque<(u32, Pending)>,
}

/// Sends what comes through `inbox` until the connection breaks, then reports that the peer is
/// lost. Ends silently when `inbox` closes.
pub async fn run(
    to: Destination,
    mut inbox: mpsc::UnboundedReceiver<ToPeer>,
    events: mpsc::Sender<NetEvent>,
) {
    let failures = to.failures.load(Ordering::Relaxed);
    if failures > 0 {
        sleep(PAUSE_FIRST * (1 << failures.min(PAUSE_DOUBLINGS))).await;
    }
    let result = match connect(&to).await {
        Ok(mut connection) => {
            to.failures.store(0, Ordering::Relaxed);
            debug!("connected to {} at {}", to.peer, to.agent);
            send_all(&to, &mut connection, &mut inbox, &events).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        to.failures.fetch_add(1, Ordering::Relaxed);
        warn!("{} at {} is lost: {error}", to.peer, to.agent);
        // A closed channel means that the agent is stopping.
        let _ = events.send(NetEvent::Lost(to.peer)).await;
    }
}

async fn connect(to: &Destination) -> Result<Connection, NetError> {
    let opened = Connection::open(&to.agent, &to.local_identity, &to.uplink, CONNECT_TIMEOUT).await;
    let (connection, who) = opened?;
    match who {
        Who::Agent(found) if found == to.peer => {
            if to.dscp.is_some() {
                connection.mark(to.dscp)?;
            }
            Ok(connection.counted(to.uplink.sent().of(to.peer)))
        }
        found => Err(NetError::OtherNode { found, meant: to.peer }),
    }
}

async fn send_all(
    to: &Destination,
    connection: &mut Connection,
    inbox: &mut mpsc::UnboundedReceiver<ToPeer>,
    events: &mpsc::Sender<NetEvent>,
) -> Result<(), NetError> {
    let mut queue = SendQueue::default();
    let mut round = Round::default();
    let mut purpose = Purpose::Repair { round_bytes: 0 };
    loop {
        while let Ok(item) = inbox.try_recv() {
            queue.add(item);
        }
        if queue.is_empty() {
            connection.end_turn(Traffic { port: &to.uplink, purpose });
            tokio::select! {
                item = inbox.recv() => match item {
                    Some(item) => queue.add(item),
                    None => return Ok(()),
                },
                // The peer sends nothing here, unless it hangs up.
                frame = connection.read_frame() => return Err(unexpected(frame)),
            }
            continue;
        }
        let mut headers = std::mem::take(&mut queue.grants);
        match queue.next() {
            None => connection.write(&headers, &[], Traffic { port: &to.uplink, purpose }).await?,
            Some((id, pending)) => {
                let mut slice = pending.compute();
                let payload = Payload { bytes: slice.len() as u32, crc: crc32c(&slice) };
                headers.extend(Frame::Slice { id, payload }.encode());
                let round_bytes = round.note((id.repair, id.lane), slice.len() as u64);
                purpose = Purpose::Repair { round_bytes };
                let traffic = Traffic { port: &to.uplink, purpose };
                connection.write_spent(&headers, &mut slice, traffic).await?;
                drop(slice);
                let _ = events.send(NetEvent::Left(id)).await;
            }
        }
    }
}

fn unexpected(frame: Result<Frame, NetError>) -> NetError {
    match frame {
        Ok(Frame::Error(denial)) => NetError::Denied(denial),
        Ok(frame) => NetError::Unexpected(frame),
        Err(error) => error,
    }
}

impl SendQueue {
    fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.lanes.is_empty()
    }

    fn add(&mut self, item: ToPeer) {
        match item {
            ToPeer::Grant { repair, lane, first, below } => {
                self.grants.extend(Frame::Grant { repair, lane, first, below }.encode());
            }
            ToPeer::Slice(SliceId { repair, lane, slice }, pending) => {
                let is_its = |queued: &&mut Lane| queued.repair == repair && queued.lane == lane;
                match self.lanes.iter_mut().find(is_its) {
                    Some(queued) => queued.slices.push_back((slice, pending)),
                    None => {
                        let slices = VecDeque::from([(slice, pending)]);
                        self.lanes.push_back(Lane { repair, lane, slices });
                    }
                }
            }
            ToPeer::Discard(repair) => self.lanes.retain(|lane| lane.repair != repair),
        }
    }

    /// One slice of the lane that is next in turn.
    fn next(&mut self) -> Option<(SliceId, Pending)> {
        let mut lane = self.lanes.pop_front()?;
        let (slice, pending) = lane.slices.pop_front().expect("no lane is empty");
        let id = SliceId { repair: lane.repair, lane: lane.lane, slice };
        if !lane.slices.is_empty() {
            self.lanes.push_back(lane);
        }
        Some((id, pending))
    }
}
