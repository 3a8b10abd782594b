//! What the coordinator needs from the keeper of stripes: the native metadata, simulated ones, or
//! those of a NameNode.
//!
//! Place: failure -> [stripes affected] -> queue -> plan -> [claim] -> dispatch -> slices flow ->
//! chunk durable -> [commit location] -> stripe healthy.
//! The keeper knows which stripes exist, where their chunks lie, and how often that has changed
//! (the generation). The coordinator mirrors it and never assumes a change before the keeper has
//! reported it.
//!
//! The interface is level-triggered: every answer is an [`Input`] that is true by itself, may come
//! late, twice or never, and a coordinator that waits for one asks again. What is asked twice is
//! done once. A stripe's generation grows by each change of it; only one that was removed and is
//! named again may begin anew. `conformance` defines what every keeper must do, as code, and runs
//! against each of them.
//!
//! A keeper may also decide itself which nodes live: HDFS's NameNode does, and has the chunks of a
//! node that it declared dead made elsewhere, however the coordinator's timers stand. Then the
//! coordinator is configured to leave that to it ([`Liveness::Keeper`](crate::event::Liveness)),
//! and declares no node dead by itself.
//!
//! Deliberately absent: how the map is stored, objects and files, which chunks are lost (the
//! coordinator finds that out from agents and their inventories).

pub mod admission;
pub mod claims;
pub mod conformance;

use std::fmt;

use crate::event::{Claim, Commit, Input};
use crate::id::RepairId;
use crate::stripe::Stripe;
use crate::time::Time;

/// The record of where chunks lie, which also decides which of two changes came first.
///
/// What `changes` has given is durable: a keeper that starts again knows it. Claims need not
/// outlive the keeper.
pub trait Keeper {
    /// All stripes as they are now, in any order; asked once, at a coordinator's start. What
    /// changes later shows in `changes`.
    ///
    /// A keeper that decides which nodes live reports all about them anew: the next `changes` has
    /// the state of every node that is not up.
    ///
    /// # Errors
    /// When the stripes cannot be had in full; the coordinator must not start on a part of them.
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError>;

    /// What has changed since it was last asked, and the answers, in the order in which they became
    /// true: `StripeAdded`, `StripeRemoved`, `Committed`, `CommitRefused`, `Claimed`,
    /// `ClaimRefused`, `ClaimLost` where it has a claim no more that it had granted, and
    /// `NodeState` from a keeper that decides which nodes live. What is no answer is given once,
    /// and must reach the coordinator.
    fn changes(&mut self) -> Vec<Input>;

    /// Asks to be left alone with a stripe. Answered by `Claimed`, with the label that is to be
    /// kept beside the chunks (empty where the keeper wants none): until the claim ends, the keeper
    /// repairs the stripe neither itself nor through another repair. Answered by `ClaimRefused`,
    /// with the stripe as it stands (none: it is gone), when its generation is another one, or
    /// another repair, or the keeper itself, is at work on it.
    ///
    /// Asking again for the same repair prolongs the claim. A claim ends when it is released, when
    /// every chunk that it names is committed, and by itself when it has not been prolonged for
    /// long: so claims of a crashed coordinator expire. A claim is advisory: a commit needs none,
    /// and succeeds if and only if its generation matches.
    ///
    /// # Errors
    /// When the keeper could not be asked; then there is no answer.
    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError>;

    /// The repair has ended and has not committed all that it claimed: the stripe may be claimed
    /// again. Not answered. Without a claim of this repair nothing happens.
    ///
    /// # Errors
    /// When the keeper could not be asked; then the claim ends by itself.
    fn release(&mut self, repair: RepairId) -> Result<(), KeeperError>;

    /// Changes the location of one chunk if the stripe's generation is the one named. Answered by
    /// `Committed`, with the stripe as it is now, once that is durable; or by `CommitRefused`, with
    /// the stripe as it stands (none: it is gone), when nothing was changed. A commit that is asked
    /// again after it was done changes nothing; either answer will do, for the stripe in it shows
    /// the chunk where it was to lie.
    ///
    /// # Errors
    /// When the keeper could not be asked, or does not know what it did; then there is no answer.
    fn commit(&mut self, commit: &Commit) -> Result<(), KeeperError>;
}

/// Why a keeper does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperError(pub String);

impl fmt::Display for KeeperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the keeper of the metadata does not answer: {}", self.0)
    }
}

impl std::error::Error for KeeperError {}
