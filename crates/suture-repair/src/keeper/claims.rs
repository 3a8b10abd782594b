//! The claims that a keeper in this process has given, and when they end by themselves.
//!
//! Place: ... plan -> [claim] -> dispatch -> ... -> [commit location] -> healthy.
//! A keeper elsewhere has a register of its own; HDFS's NameNode counts pending reconstructions.

use std::collections::BTreeMap;

use crate::event::Claim;
use crate::id::{ChunkCopy, ChunkIndex, RepairId, StripeId};
use crate::time::{Span, Time};

/// Who works on which stripe.
#[derive(Clone, Debug)]
pub struct Claims {
    lifetime: Span,
    held: BTreeMap<StripeId, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    repair: RepairId,
    until: Time,
    chunks: Vec<ChunkIndex>,
}

impl Claims {
    /// None yet; each lasts for `lifetime` unless it is prolonged.
    pub fn new(lifetime: Span) -> Claims {
        Claims { lifetime, held: BTreeMap::new() }
    }

    /// Gives or prolongs a claim. Returns whether nobody else has one on the stripe.
    pub fn take(&mut self, now: Time, claim: &Claim) -> bool {
        self.expire(now);
        let (repair, until) = (claim.repair, now + self.lifetime);
        let chunks = || claim.destinations.keys().copied().collect();
        let held = self.held.entry(claim.stripe);
        let held = held.or_insert_with(|| Held { repair, until, chunks: chunks() });
        if held.repair == repair {
            held.until = until;
        }
        held.repair == repair
    }

    /// Ends the claims that nobody has prolonged for their lifetime. Returns how many.
    pub fn expire(&mut self, now: Time) -> usize {
        let before = self.held.len();
        self.held.retain(|_, held| held.until > now);
        before - self.held.len()
    }

    /// Ends the claim of a repair, if it has one.
    pub fn release(&mut self, repair: RepairId) {
        self.held.retain(|_, held| held.repair != repair);
    }

    /// A location was committed; a claim of which it was the last ends.
    pub fn committed(&mut self, copy: ChunkCopy) {
        if let Some(held) = self.held.get_mut(&copy.stripe) {
            held.chunks.retain(|chunk| *chunk != copy.chunk);
            if held.chunks.is_empty() {
                self.held.remove(&copy.stripe);
            }
        }
    }
}
