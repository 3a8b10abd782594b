//! The claims that a keeper in this process has given, and when they end by themselves.
//!
//! Place: ... plan -> [claim] -> dispatch -> ... -> [commit location] -> healthy.
//! A keeper elsewhere has a register of its own; HDFS's NameNode counts pending reconstructions.

use std::collections::BTreeMap;

use crate::event::Claim;
use crate::id::{ChunkCopy, ChunkIndex, RepairId, StripeId};
use crate::time::{Span, Time};

/// Which repair works on which stripe.
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
    /// An empty set of claims, each of which will last for `lifetime` unless it is prolonged.
    pub fn new(lifetime: Span) -> Claims {
        Claims { lifetime, held: BTreeMap::new() }
    }

    /// Gives or prolongs a claim. Returns whether no other repair has one on the stripe.
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

    /// Ends the claims that were not prolonged for their lifetime. Returns how many.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, NodeId, Stamp};

    fn claim(repair: u64, stripe: u64) -> Claim {
        let destinations = [(ChunkIndex(0), NodeId(5)), (ChunkIndex(3), NodeId(6))].into();
        let (repair, stripe) = (RepairId(repair), StripeId(stripe));
        Claim { repair, stripe, generation: Generation(1), destinations }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn a_stripe_is_its_repairs_until_that_lets_go_or_is_silent_for_a_lifetime() {
        let mut claims = Claims::new(Span::from_secs(10));
        assert!(claims.take(at(0), &claim(1, 7)) && claims.take(at(0), &claim(2, 8)));
        assert!(!claims.take(at(1), &claim(3, 7)), "repair 1 has it");
        assert!(claims.take(at(5), &claim(1, 7)), "it is prolonged");
        assert_eq!(claims.expire(at(9)), 0);
        assert_eq!(claims.expire(at(10)), 1, "repair 2 did not prolong its own");
        assert!(!claims.take(at(14), &claim(3, 7)));
        assert!(claims.take(at(15), &claim(3, 7)), "nothing was heard of repair 1");
        claims.take(at(15), &claim(4, 8));
        claims.release(RepairId(3));
        assert!(claims.take(at(16), &claim(5, 7)) && !claims.take(at(16), &claim(5, 8)));
    }

    #[test]
    fn a_claim_ends_with_the_last_of_its_chunks() {
        let mut claims = Claims::new(Span::from_secs(10));
        claims.take(at(0), &claim(1, 7));
        claims.take(at(0), &claim(2, 8));
        let mut commit = |stripe, chunk| {
            let (stripe, chunk) = (StripeId(stripe), ChunkIndex(chunk));
            claims.committed(ChunkCopy { stripe, chunk, stamp: Stamp(1) });
            [7, 8].map(|stripe| !claims.clone().take(at(1), &claim(9, stripe)))
        };
        assert_eq!(commit(7, 3), [true, true]);
        assert_eq!(commit(7, 3), [true, true], "the same again");
        assert_eq!(commit(7, 9), [true, true], "none of its own");
        assert_eq!(commit(7, 0), [false, true]);
    }
}
