//! Why a connection of the data plane is of no more use, and how that reads.
//!
//! Place: beside every connection.

use std::fmt;
use std::io;
use std::time::Duration;

use suture_edge::units::{format_rate, format_seconds};
use suture_repair::id::NodeId;
use suture_repair::wire::{ClusterId, DecodeError, Denial, Frame, Who};

use super::allowance::LeastRate;
use crate::identity::Principal;
use crate::identity::certificate::{Flaw, explain};

/// Why a connection is of no more use.
#[derive(Debug)]
pub enum NetError {
    /// The system returned an error.
    Io(io::Error),
    /// The other side closed it.
    Closed,
    /// Nothing moved for too long.
    Stalled {
        /// What was waited for.
        doing: &'static str,
        /// How long nothing moved.
        waited: Duration,
    },
    /// Less moved than is asked of a client.
    Slow {
        /// What was waited for.
        doing: &'static str,
        /// What was asked of it.
        least: LeastRate,
    },
    /// The other side does not speak our frames.
    Decode(DecodeError),
    /// The other side will not do what was asked.
    Denied(Denial),
    /// The other side belongs to this cluster, not to ours.
    Cluster(ClusterId),
    /// The identity of either end is not proven; in words.
    Tls(String),
    /// The other side has proven another principal than was expected.
    Other {
        /// The principal that it has proven.
        found: Principal,
        /// The principal that was expected.
        expected: String,
    },
    /// The other side claims another identity than was expected: two agents may announce one
    /// address.
    OtherNode {
        /// The identity that it claims.
        found: Who,
        /// Which node it should be.
        meant: NodeId,
    },
    /// A payload was damaged on its way.
    Damaged,
    /// A frame that cannot come at this point.
    Unexpected(Frame),
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> NetError {
        match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(cause) => NetError::Tls(explain(cause)),
            None => NetError::Io(error),
        }
    }
}

impl From<Flaw> for NetError {
    fn from(flaw: Flaw) -> NetError {
        NetError::Tls(format!("its certificate: {flaw}"))
    }
}

impl From<rustix::io::Errno> for NetError {
    fn from(errno: rustix::io::Errno) -> NetError {
        NetError::Io(errno.into())
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::Io(error) => error.fmt(f),
            NetError::Closed => write!(f, "the other side closed the connection"),
            NetError::Stalled { doing, waited } => {
                write!(f, "{doing}: nothing moved for {}", format_seconds(waited.as_secs_f64()))
            }
            NetError::Slow { doing, least: LeastRate { rate, grace } } => {
                let (rate, grace) =
                    (format_rate(*rate as f64), format_seconds(grace.as_secs_f64()));
                write!(f, "{doing}: {grace} behind a rate of {rate}")
            }
            NetError::Decode(error) => error.fmt(f),
            NetError::Denied(denial) => denial.fmt(f),
            NetError::Cluster(found) => write!(f, "it belongs to cluster {found}"),
            NetError::Tls(why) => f.write_str(why),
            NetError::Other { found, expected } => write!(f, "it is {found}, not {expected}"),
            NetError::OtherNode { found, meant } => write!(
                f,
                "{found} answers there, not {meant}: see that no two agents have one address \
                 (listen, advertise)"
            ),
            NetError::Damaged => write!(f, "a payload was damaged on its way"),
            NetError::Unexpected(frame) => {
                write!(f, "unexpected frame {frame:?}")
            }
        }
    }
}

impl std::error::Error for NetError {}
