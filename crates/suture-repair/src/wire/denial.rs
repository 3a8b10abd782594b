//! Words for the kinds of peers that connect, and for the reasons of denials.
//!
//! Place: a frame was refused -> [its reason in words] -> the log, or the error of a command.

use std::fmt;

use super::{Denial, Version, Who};

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Agent(node) => node.fmt(f),
            Who::Client => f.write_str("a client"),
            Who::Prober => f.write_str("a prober"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Version { found } => {
                let ours = Version::CURRENT as u16;
                write!(f, "it does not speak frame version {found} (ours is {ours})")
            }
            Denial::Cluster => write!(f, "it belongs to another cluster"),
            Denial::Malformed => write!(f, "it could not make sense of what was sent"),
            Denial::Fault(fault) => write!(f, "the copy is {fault}"),
            Denial::OutOfRange { bytes } => write!(f, "the copy has only {bytes} bytes"),
            Denial::Exists => write!(f, "another copy of this name is already there"),
            Denial::NoSpace => write!(f, "its disk is full"),
            Denial::ProofFailed { expected, found } => {
                write!(f, "what arrived has checksum {found:08x}, announced was {expected:08x}")
            }
            Denial::Disk => write!(f, "its disk failed"),
            Denial::Busy => write!(f, "it has too many connections"),
            Denial::Unproven => {
                write!(f, "it asks for credentials that say who you are, and that you may do this")
            }
            Denial::NotOwned => {
                write!(
                    f,
                    "the chunk is not of an object whose name begins with your prefix, or no put of yours was given it"
                )
            }
        }
    }
}
