//! What went wrong with a stripe so far: which nodes its next attempt avoids, how long it waits.
//!
//! Place: ... slices flow -> [an attempt fails -> queue] -> plan -> ...
//! A stripe is never given up: whatever failed, it is tried again, ever more rarely.

use std::collections::BTreeSet;

use crate::event::{Blocked, Timers};
use crate::id::NodeId;
use crate::message::{CopyFault, Failure, Refusal};
use crate::planner::PlanError;
use crate::time::Span;

/// Attempts after which a stripe is shown as blocked; it is still tried, at the longest interval.
const ATTEMPTS_SHOWN: u32 = 5;

/// After so many attempts all nodes that failed before get another chance.
const AVOID_RESET: u32 = 4;

/// What went wrong with a stripe since a chunk of it was last committed.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureHistory {
    pub attempts: u32,
    /// Nodes to be used only where no others suffice.
    pub avoid: BTreeSet<NodeId>,
    /// The usual plan takes more memory than some agent has.
    pub is_single_chunk: bool,
    pub blocked: Option<Blocked>,
}

impl FailureHistory {
    /// Records a failed attempt; `node` is the agent that reported it, if one did.
    pub fn failed(&mut self, node: Option<NodeId>, why: &Failure, participants: &[NodeId]) {
        self.attempts += 1;
        if self.attempts.is_multiple_of(AVOID_RESET) {
            self.avoid.clear();
        }
        match why {
            Failure::PeerLost(peer) => self.avoid.extend([*peer]),
            // Bytes changed unnoticed by checksums, at any of them: try other helpers.
            Failure::ProofFailed { .. } | Failure::Inconsistent | Failure::PastEnd { .. } => {
                self.avoid.extend(participants)
            }
            _ if is_no_fault(why) => {}
            _ => self.avoid.extend(node),
        }
        if self.attempts >= ATTEMPTS_SHOWN {
            let (attempts, why) = (self.attempts, why.clone());
            self.blocked = Some(Blocked::Failing { attempts, node, why });
        }
    }

    /// Whether another attempt may go on at once with what this one has: not for ever, since the
    /// nodes that it loses may be lost again and again.
    pub fn may_go_on(&self) -> bool {
        self.attempts + 1 < AVOID_RESET
    }

    /// Whether space on this node may be all that the stripe waits for: no node could take a chunk,
    /// or the last attempt failed at this one.
    pub fn may_lack_space(&self, node: NodeId) -> bool {
        match &self.blocked {
            Some(Blocked::Plan(why)) => *why == PlanError::NoDestination,
            Some(Blocked::Failing { node: at, .. }) => *at == Some(node),
            Some(
                Blocked::Silent { .. }
                | Blocked::Pool { .. }
                | Blocked::Claimed
                | Blocked::Disputed { .. },
            )
            | None => false,
        }
    }

    /// What it waited for counts no more, unless only returning chunks can help.
    pub fn forget_reason(&mut self) {
        if self.blocked.as_ref().is_some_and(|why| !why.is_unrepairable()) {
            self.blocked = None;
        }
    }

    /// How long the next attempt waits after one that failed like this; `None`: not at all.
    pub fn wait(&self, why: &Failure, timers: &Timers) -> Option<Span> {
        let doublings = self.attempts.saturating_sub(1).min(16);
        let wait = timers.retry_first.times(1 << doublings).min(timers.retry_max);
        (!is_no_fault(why)).then_some(wait)
    }
}

/// Whether an attempt failed by no fault of its nodes: its source is lost, or the attempt that it
/// was to continue had ended before. A node that cannot read its source is avoided, so that case
/// counts as its fault.
fn is_no_fault(why: &Failure) -> bool {
    match why {
        Failure::Source { fault, .. } => *fault != CopyFault::Unreadable,
        Failure::Refused(refusal) => *refusal == Refusal::CannotContinue,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ChunkCopy, ChunkIndex, Stamp, StripeId};

    /// The nodes that a stripe avoids after attempts of nodes 1 and 2 that failed so, as node 1
    /// reported.
    fn avoided(failures: &[Failure]) -> Vec<u32> {
        let mut history = FailureHistory::default();
        for why in failures {
            history.failed(Some(NodeId(1)), why, &[NodeId(1), NodeId(2)]);
        }
        history.avoid.iter().map(|node| node.0).collect()
    }

    #[test]
    fn what_is_shown_names_whose_failure_was_the_last() {
        for (node, text) in [
            (Some(NodeId(3)), "5 attempts failed; last at node 3: the disk is full"),
            (None, "5 attempts failed; last: the disk is full"),
        ] {
            let mut history = FailureHistory::default();
            for _ in 1..ATTEMPTS_SHOWN {
                history.failed(Some(NodeId(1)), &Failure::Stalled, &[]);
            }
            assert_eq!(history.blocked, None);
            history.failed(node, &Failure::NoSpace, &[]);
            assert_eq!(history.blocked.expect("it is shown").to_string(), text);
        }
    }

    fn source(fault: CopyFault) -> Failure {
        let copy = ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(0), stamp: Stamp(0) };
        Failure::Source { copy, fault }
    }

    #[test]
    fn whoever_is_to_blame_is_avoided_and_nobody_where_nobody_is() {
        let cases: [(Failure, &[u32]); 7] = [
            (Failure::PeerLost(NodeId(7)), &[7]),
            (Failure::Inconsistent, &[1, 2]),
            (Failure::Stalled, &[1]),
            (Failure::Refused(Refusal::Ability), &[1]),
            (Failure::Refused(Refusal::CannotContinue), &[]),
            (source(CopyFault::Unreadable), &[1]),
            (source(CopyFault::Missing), &[]),
        ];
        for (why, expected) in cases {
            assert_eq!(avoided(std::slice::from_ref(&why)), expected, "{why:?}");
        }
    }

    #[test]
    fn three_attempts_go_on_at_once_and_then_one_begins_anew() {
        let mut history = FailureHistory::default();
        let went_on = (1..=5).map(|node| {
            let may_go_on = history.may_go_on();
            history.failed(None, &Failure::PeerLost(NodeId(node)), &[]);
            may_go_on
        });
        assert_eq!(went_on.collect::<Vec<_>>(), [true, true, true, false, false]);
    }

    #[test]
    fn with_every_fourth_attempt_all_others_get_another_chance() {
        let lost = |node| Failure::PeerLost(NodeId(node));
        assert_eq!(avoided(&[lost(3), lost(4), lost(5)]), [3, 4, 5]);
        assert_eq!(avoided(&[lost(3), lost(4), lost(5), lost(6)]), [6]);
        assert_eq!(avoided(&[lost(3), lost(4), lost(5), lost(6), lost(7)]), [6, 7]);
    }
}
