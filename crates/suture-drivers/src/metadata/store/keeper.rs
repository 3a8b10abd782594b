//! The native metadata as a keeper.
//!
//! Place: ... plan -> [claim] -> dispatch -> ... -> [commit location] -> stripe healthy.
//! Only its coordinator repairs what is kept here, so claims live in memory: what a coordinator
//! asks for is the label that comes with them.

use suture_repair::event::{Claim, Commit, Input};
use suture_repair::id::RepairId;
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::stripe::Stripe;
use suture_repair::time::{Span, Time};

use super::{MetadataError, MetadataStore};

/// A claim that is not prolonged ends after this, as with HDFS's pending reconstructions.
pub(super) const CLAIM_LIFETIME: Span = Span::from_secs(300);

impl Keeper for MetadataStore {
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError> {
        Ok(MetadataStore::stripes(self)?)
    }

    fn changes(&mut self) -> Vec<Input> {
        self.take_changes()
    }

    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError> {
        let repair = claim.repair;
        let stripe = self.stripe(claim.stripe)?;
        let is_current = stripe.as_ref().is_some_and(|s| s.generation == claim.generation);
        let granted = stripe.as_ref().filter(|_| is_current && self.claims.take(now, claim));
        let answer = match granted.map(|stripe| self.label(stripe)).transpose()? {
            Some(label) => Input::Claimed { repair, label },
            None => Input::ClaimRefused { repair, stripe, because_of: None },
        };
        self.changes.push(answer);
        Ok(())
    }

    fn release(&mut self, repair: RepairId) -> Result<(), KeeperError> {
        self.claims.release(repair);
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), KeeperError> {
        Ok(self.commit_location(commit)?)
    }
}

impl From<MetadataError> for KeeperError {
    fn from(error: MetadataError) -> KeeperError {
        KeeperError(error.to_string())
    }
}
