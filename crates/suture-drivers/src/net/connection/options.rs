//! What the system is to do with a connection's bytes.
//!
//! Place: ... result computed -> [on the wire] -> slice received by the parent ...
//! Those of repairs are marked, so that others can be let past them. Those of an operation that was
//! given up in its middle are dropped: what waits in the socket's buffers would keep the link of a
//! slow node busy for as long again, with bytes that are of no use.

use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;

use super::Connection;
use crate::net::error::NetError;

/// `TC_PRIO_BULK` of Linux: queues with bands, as `prio` and `pfifo_fast`, send all others first.
const PRIORITY_OF_BULK: u32 = 2;

impl Connection {
    /// Has what is sent from now on marked, so that this machine's queues and others on the way can
    /// distinguish it: with a code point, and as bulk; without one as all else.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn mark(&self, dscp: Option<u8>) -> Result<(), NetError> {
        let (tcp, octet) = (self.stream.tcp(), dscp.unwrap_or(0) << 2);
        let priority = dscp.map_or(0, |_| PRIORITY_OF_BULK);
        if tcp.local_addr()?.is_ipv6() {
            sockopt::set_ipv6_tclass(tcp, octet.into())?
        } else {
            sockopt::set_ip_tos(tcp, octet)?
        }
        // After the code point, which sets a priority of its own.
        Ok(SockRef::from(tcp).set_priority(priority)?)
    }

    /// Has the connection end at once when it is dropped: what the other side has not taken by then
    /// is not sent any more.
    pub fn end_at_once(&self) {
        // Where the system refuses it, the rest is sent, and of no use.
        let _ = SockRef::from(self.stream.tcp()).set_linger(Some(Duration::ZERO));
    }
}
