//! What nodes are to check and delete, as an onlooker counts it.
//!
//! Place: [failure detected -> stripes affected] -> queue -> ... -> stripe healthy, and old copies
//! deleted. However much a listing names, few checks and few deletes are under way at a node. The
//! coordinator asserts that of its own lists; here what it sends is compared with what it received.
//! What may have ended without notice is not counted, so that there are never fewer than are
//! counted.

use std::collections::BTreeMap;

use suture_repair::event::{Input, Output, Report};
use suture_repair::id::{ChunkCopy, CopyAt, NodeId};
use suture_repair::message::{Check, FromAgent, ToAgent};
use suture_repair::time::Time;

use super::{IN_FLIGHT_MAX, TIMERS, World};
use crate::violation::Violation;

/// Of all nodes, since the coordinator began.
#[derive(Debug, Default)]
pub(crate) struct Asked(BTreeMap<NodeId, Unanswered>);

/// What a node was asked and has not answered, and when each was last sent.
#[derive(Debug, Default)]
struct Unanswered {
    checks: BTreeMap<CopyRead, Time>,
    deletes: BTreeMap<ChunkCopy, Time>,
}

/// A copy that is read, and the one that is in excess if it is good.
type CopyRead = (ChunkCopy, Option<CopyAt>);

fn copy_read(check: &Check) -> CopyRead {
    (check.copy, check.excess)
}

impl Asked {
    /// The coordinator is about to take in a word: what it answers is under way no more.
    pub(crate) fn received(&mut self, input: &Input) {
        let Input::Agent { node, message } = input else { return };
        let Some(unanswered) = self.0.get_mut(node) else { return };
        match message {
            // What is still wanted is sent again in a new session.
            FromAgent::Hello(_) => *unanswered = Unanswered::default(),
            FromAgent::Verified(check) => drop(unanswered.checks.remove(&copy_read(check))),
            FromAgent::Bad { copy, .. } => unanswered.checks.retain(|(read, _), _| read != copy),
            FromAgent::Deleted(copy) => drop(unanswered.deletes.remove(copy)),
            FromAgent::Inventory(listed) => {
                let is_there = |copy: &ChunkCopy| listed.iter().any(|held| held.copy == *copy);
                unanswered.deletes.retain(|copy, _| is_there(copy));
            }
            _ => {}
        }
    }

    /// The coordinator sends something. Gives the rule that it breaks by that.
    fn sent(&mut self, now: Time, output: &Output) -> Option<Violation> {
        let (node, message) = match output {
            Output::Send { to, message } => (*to, message),
            // What a failed node was asked is forgotten.
            Output::Report(Report::Node { node, .. }) => {
                self.0.remove(node);
                return None;
            }
            _ => return None,
        };
        if !matches!(message, ToAgent::Check(_) | ToAgent::Delete { .. }) {
            return None;
        }
        let unanswered = self.0.entry(node).or_default();
        // What was not answered for so long is sent again, but for what is not wanted any more.
        let is_wanted = |sent_at: Time| sent_at + TIMERS.stall_after > now;
        unanswered.checks.retain(|_, sent_at| is_wanted(*sent_at));
        unanswered.deletes.retain(|_, sent_at| is_wanted(*sent_at));
        match message {
            ToAgent::Check(check) => drop(unanswered.checks.insert(copy_read(check), now)),
            ToAgent::Delete { copy, .. } => drop(unanswered.deletes.insert(*copy, now)),
            _ => {}
        }
        let (checks, deletes) = (unanswered.checks.len(), unanswered.deletes.len());
        let is_too_much = checks > IN_FLIGHT_MAX || deletes > IN_FLIGHT_MAX;
        is_too_much.then_some(Violation::AskedTooMuch { node, checks, deletes })
    }
}

impl World {
    /// Few checks and few deletes are under way at a node.
    pub(crate) fn check_asked(&mut self, output: &Output) {
        let now = self.clock();
        let broken = self.asked.sent(now, output);
        broken.into_iter().for_each(|broken| self.fail(broken));
    }
}
