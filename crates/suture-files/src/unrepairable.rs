//! A stripe that cannot be repaired: what is lost, and why the rest does not suffice.
//!
//! Place: the other end of decode, rebuild and verify. It is reported, never dropped, and stops no
//! other stripe.

use std::fmt;

use suture_code::ChunkIndex;

use super::chunk::ChunkFault;
use super::stripe::Stripe;

/// A stripe that cannot be repaired.
#[derive(Clone, Debug)]
pub struct Unrepairable {
    /// Number of the stripe in the file, counted from 0.
    pub stripe: u64,
    /// What is lost, and in which way.
    pub lost: Vec<(ChunkIndex, ChunkFault)>,
    /// Why the rest does not determine it.
    pub reason: String,
}

impl Unrepairable {
    /// A verdict on a stripe that was scanned.
    pub fn new(stripe: &Stripe<'_>, reason: impl fmt::Display) -> Unrepairable {
        let lost = stripe.faults().map(|(chunk, fault)| (chunk, fault.clone())).collect();
        Unrepairable { stripe: stripe.index, lost, reason: reason.to_string() }
    }

    /// Whether chunks may be good that this process cannot open: then nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.lost.iter().any(|(_, fault)| fault.is_of_process())
    }
}

impl fmt::Display for Unrepairable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unknown() {
            write!(f, "stripe {}: it is not known what is left", self.stripe)?
        } else {
            write!(f, "stripe {} cannot be repaired: {}", self.stripe, self.reason)?
        }
        for (index, (chunk, fault)) in self.lost.iter().enumerate() {
            write!(f, "{}chunk {chunk} {fault}", if index == 0 { " (" } else { ", " })?;
        }
        if self.lost.is_empty() { Ok(()) } else { write!(f, ")") }
    }
}
