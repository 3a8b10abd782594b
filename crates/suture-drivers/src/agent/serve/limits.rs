//! What clients may hold of an agent, and the places for their operations.
//!
//! Place: beside the whole life of a repair, before a chunk is read or written for a client.

use std::sync::Arc;
use std::time::Duration;

use crate::identity::AccessRole;
use crate::net::allowance::LeastRate;
use crate::net::connection::Connection;
use crate::net::fair_places::{FairPlaces, SharedPlace};
use crate::net::incoming::Admission;
use crate::net::places::{HeldPlace, Newcomers, Places};
use crate::net::refusals::RefusalLog;

/// What clients may hold of an agent, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Connections that may be open at a time: so many of clients, and so many of operators.
    pub connections: usize,
    /// How many of them one holder may have: a proven principal, or else an address.
    pub connections_each: usize,
    /// Connections that have not identified themselves; the oldest give way to more.
    pub newcomers: usize,
    /// How long they may take to do so.
    pub handshake: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// Chunks that are read.
    pub reads: OperationLimits,
    /// Chunks that are written.
    pub writes: OperationLimits,
}

/// How many operations of one kind clients may have under way, and what is asked of each.
#[derive(Clone, Copy, Debug)]
pub struct OperationLimits {
    /// Operations that move bytes at a time; each holds a buffer. More wait.
    pub places: usize,
    /// How many of one may be under way, whether they move bytes or not. More of it wait. One that
    /// moves none holds a file and no buffer, so these are many: clients that are frozen at what
    /// they write must not keep others of their address waiting.
    pub each: usize,
    /// How fast the client has to be.
    pub least: LeastRate,
}

impl Default for ClientLimits {
    /// Nine chunks over an uplink of 1 Mbit/s move 14 kB/s each. A reader takes what comes; a
    /// writer may have to wait for a slower agent, so it may pause for longer, and has places of
    /// its own. Clients open a connection anew where theirs was closed.
    fn default() -> ClientLimits {
        let operations = |grace| OperationLimits {
            places: 16,
            each: 128,
            least: LeastRate { rate: 4096, grace: Duration::from_secs(grace) },
        };
        ClientLimits {
            connections: 1024,
            connections_each: 256,
            newcomers: 256,
            handshake: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            reads: operations(15),
            writes: operations(60),
        }
    }
}

impl ClientLimits {
    /// What of it concerns connections.
    pub fn admission(&self) -> Admission {
        let places = || Places::new(self.connections, self.connections_each);
        Admission {
            clients: places(),
            operators: places(),
            probers: places(),
            newcomers: Newcomers::new(self.newcomers),
            handshake: self.handshake,
            refusals: RefusalLog::default(),
        }
    }
}

/// The places for operations of one kind.
#[derive(Debug)]
pub(super) struct OperationPlaces {
    begun: Places,
    clients: Arc<FairPlaces>,
    /// The places for operators and coordinators.
    operators: Arc<FairPlaces>,
    /// For agents that ask for probes.
    probers: Arc<FairPlaces>,
}

impl OperationPlaces {
    /// Those within these limits, for so many connections.
    pub(super) fn new(limits: OperationLimits, connections: usize) -> OperationPlaces {
        let fair = || FairPlaces::new(limits.places);
        // No connection has two of them under way, so these are never all taken.
        let begun = Places::new(2 * connections, limits.each);
        OperationPlaces { begun, clients: fair(), operators: fair(), probers: fair() }
    }

    /// What an operation is counted by while it is under way, and its place once it moves bytes.
    pub(super) async fn enter(&self, connection: &Connection) -> (HeldPlace, SharedPlace) {
        let role = connection.principal().map(|who| who.role);
        let shared = match role {
            None | Some(AccessRole::Client) => &self.clients,
            Some(AccessRole::Agent) => &self.probers,
            Some(_) => &self.operators,
        };
        let holder = connection.holder();
        (self.begun.take(holder.clone()).await, shared.share(holder))
    }
}
