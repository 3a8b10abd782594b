//! The data plane's network: framed TCP between agents, and to the clients of their chunks.
//!
//! Place: ... dispatch -> [slices pass from agent to agent] -> chunk durable ...
//! Each ordered pair of agents has one connection, opened by the sender at its first frame and used
//! in that direction only (`outgoing`): a child's slices travel on its own connection, the grants
//! for them on its parent's. What is received (`incoming`) has passed three checks: the header's
//! check, the grant (`grants`: memory for it is reserved), and the payload's checksum.
//!
//! A connection that breaks, stalls or speaks nonsense is given up, and the peer is reported lost:
//! frames may be missing, and only the core knows what that means. The next frame for the peer
//! opens a new connection, after a pause that doubles with each failure.

pub mod allowance;
pub mod connection;
pub mod error;
pub mod fair_places;
pub mod grants;
mod handshake;
mod in_place;
pub mod incoming;
pub mod local_identity;
pub mod outgoing;
pub mod places;
mod queue;
mod records;
pub mod refusals;
pub mod round;
pub mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;
use tokio::net::TcpListener;

use crate::buffer::Buffer;

/// What the network reports to the agent.
#[derive(Debug)]
pub enum NetEvent {
    /// A peer takes slices.
    Granted {
        /// The receiver of the slices.
        from: NodeId,
        /// The repair of the slices.
        repair: RepairId,
        /// The lane of the slices.
        lane: u16,
        /// The first slice that is wanted at all.
        first: u32,
        /// One past the last granted slice.
        below: u32,
    },
    /// A granted slice is in memory, as the peer sent it.
    Arrived {
        /// The sender of the slice.
        from: NodeId,
        /// Its repair, lane and number.
        id: SliceId,
        /// Its bytes, which agree with their checksum.
        slice: Buffer,
    },
    /// A slice was handed to the network, and its memory is free.
    Left(SliceId),
    /// A connection from or to the peer is gone, with whatever was on it.
    Lost(NodeId),
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub enum BindError {
    /// Others than this machine could reach it.
    Exposed(SocketAddr),
    /// The system refused the address.
    Io {
        /// The address that was asked for.
        addr: SocketAddr,
        /// What the system answered.
        source: io::Error,
    },
}

/// Refuses an exposed `addr`, as [`bind`] does, without listening on it.
///
/// # Errors
/// When the address is exposed.
pub fn check_exposure(addr: SocketAddr, is_open: bool) -> Result<(), BindError> {
    if is_open || addr.ip().is_loopback() { Ok(()) } else { Err(BindError::Exposed(addr)) }
}

/// Listens on `addr`. One that is not loopback is refused unless `is_open` says that it may be:
/// peers that connect have to prove who they are, or the operator trusts the network.
///
/// # Errors
/// When the address is exposed, in use or not of this machine.
pub async fn bind(addr: SocketAddr, is_open: bool) -> Result<TcpListener, BindError> {
    check_exposure(addr, is_open)?;
    TcpListener::bind(addr).await.map_err(|source| BindError::Io { addr, source })
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Exposed(addr) => write!(
                f,
                "{addr} can be reached from other machines, and nobody who asks there would have \
                 to prove who it is: set `credentials` (made by `suture cert`), listen on a \
                 loopback address, or set `insecure` if the network is trusted",
            ),
            BindError::Io { addr, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{addr} is in use by another process")
            }
            BindError::Io { addr, source } => write!(f, "cannot listen on {addr}: {source}"),
        }
    }
}

// What it says has its cause in it, so it names none: it would be printed twice.
impl std::error::Error for BindError {}
