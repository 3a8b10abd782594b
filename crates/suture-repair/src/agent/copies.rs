//! What an agent does about copies: it lists, checks and deletes them, each once at a time.
//!
//! Place: beside the tasks: [failure detected] -> ... -> stripe healthy, old copies deleted.
//! A coordinator asks again for what was not answered, and every session begins with a listing. So
//! what is being done already is not begun again: a second request for a listing is answered by one
//! more, however many there are, and a check, delete or fingerprint that is in flight answers all
//! requests for it. The result of a read of a copy that was deleted meanwhile is dropped.
//!
//! Invariant: one listing runs at most, and each check, delete and fingerprint once.

use std::collections::BTreeSet;

use super::{Agent, AgentOutput};
use crate::id::{ChunkCopy, ListedCopy, RepairId};
use crate::message::{Check, CopyFault, FromAgent};
use crate::mutant::Mutant;
use crate::time::Time;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct CopyOperations {
    listing: Listing,
    /// When the listing that runs began.
    listing_since: Option<Time>,
    checks: BTreeSet<Check>,
    /// Reads of copies that were deleted meanwhile: what comes of them counts for nothing.
    outdated: BTreeSet<Check>,
    deletes: BTreeSet<ChunkCopy>,
    /// Copies that went since the listing that runs began, which may show them.
    gone: BTreeSet<ChunkCopy>,
    /// Fingerprints that are being taken.
    pub fingerprints: BTreeSet<(RepairId, ChunkCopy)>,
}

/// Whether copies are being listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listing {
    #[default]
    Idle,
    Running,
    /// It runs, and another was asked for since it began.
    RunningAndWanted,
}

impl CopyOperations {
    /// Whether copies are being listed.
    pub fn is_listing(&self) -> bool {
        self.listing != Listing::Idle
    }

    /// The copy is not there any more, whatever a listing that began before shows.
    fn went(&mut self, copy: ChunkCopy) {
        if self.is_listing() {
            self.gone.insert(copy);
        }
    }
}

impl Agent {
    /// Has all copies listed, now or when the listing that runs is done.
    pub(super) fn list(&mut self) {
        self.copy_operations.listing = match self.copy_operations.listing {
            Listing::Idle => {
                self.copy_operations.listing_since = Some(self.now);
                self.outputs.push_back(AgentOutput::List);
                Listing::Running
            }
            Listing::Running | Listing::RunningAndWanted => Listing::RunningAndWanted,
        };
    }

    pub(super) fn listed(&mut self, now: Time, mut copies: Vec<ListedCopy>, free_bytes: u64) {
        self.free_bytes = free_bytes;
        let gone = std::mem::take(&mut self.copy_operations.gone);
        copies.retain(|listed| !gone.contains(&listed.copy));
        self.send(FromAgent::Inventory(copies));
        // The coordinator gives no chunk to a node before it knows the free space there.
        self.next_beat = now;
        self.listing_ended();
    }

    /// The copies could not be listed: each that is expected here has to be looked at.
    pub(super) fn not_listed(&mut self) {
        self.send(FromAgent::NotListed);
        self.listing_ended();
    }

    /// The listing that ran is over, whatever came of it. Its disk is left alone for as long as it
    /// took, or longer: with very many copies it takes longer than from one to the next.
    fn listing_ended(&mut self) {
        let began = self.copy_operations.listing_since.take().unwrap_or(self.now);
        self.next_inventory = self.next_inventory.max(self.now + self.now.since(began));
        self.copy_operations.gone.clear();
        if std::mem::take(&mut self.copy_operations.listing) == Listing::RunningAndWanted {
            self.list();
        }
    }

    /// Has a copy read in full. One whose delete is in flight is reported as missing, so that it is
    /// not used.
    pub(super) fn check(&mut self, check: Check) {
        if self.copy_operations.deletes.contains(&check.copy) {
            return self.send(FromAgent::Bad { copy: check.copy, fault: CopyFault::Missing });
        }
        let is_new =
            self.copy_operations.checks.insert(check) || self.mistake.is(Mutant::CheckTwice);
        if is_new && !self.copy_operations.outdated.contains(&check) {
            self.outputs.push_back(AgentOutput::Check(Box::new(check)));
        }
    }

    pub(super) fn checked(&mut self, check: Check, result: Result<(), CopyFault>) {
        if self.copy_operations.outdated.remove(&check) {
            if self.copy_operations.checks.contains(&check) {
                self.outputs.push_back(AgentOutput::Check(Box::new(check)));
            }
            return;
        }
        self.copy_operations.checks.remove(&check);
        // One that is being deleted may be read to its end all the same.
        let is_going = self.copy_operations.deletes.contains(&check.copy);
        let result = if is_going { Err(CopyFault::Missing) } else { result };
        if result == Err(CopyFault::Missing) && !is_going {
            self.copy_operations.went(check.copy);
        }
        self.send(match result {
            Ok(()) => FromAgent::Verified(check),
            Err(_) if self.mistake.is(Mutant::MissUnreadable) => {
                FromAgent::Bad { copy: check.copy, fault: CopyFault::Missing }
            }
            Err(fault) => FromAgent::Bad { copy: check.copy, fault },
        });
    }

    /// Has a copy deleted, unless a newer coordinator than that of `epoch` has spoken meanwhile.
    pub(super) fn delete(&mut self, epoch: u32, session: u64, copy: ChunkCopy) {
        let is_current = epoch >= self.epoch && session == self.session;
        if is_current && self.copy_operations.deletes.insert(copy) {
            self.outputs.push_back(AgentOutput::Delete(copy));
        }
    }

    pub(super) fn deleted(&mut self, copy: ChunkCopy) {
        self.copy_operations.deletes.remove(&copy);
        let checks = self.copy_operations.checks.iter().filter(|check| check.copy == copy);
        let checks: Vec<Check> = checks.copied().collect();
        for check in checks {
            self.copy_operations.checks.remove(&check);
            self.copy_operations.outdated.insert(check);
            self.send(FromAgent::Bad { copy, fault: CopyFault::Missing });
        }
        self.send(FromAgent::Deleted(copy));
    }
}
