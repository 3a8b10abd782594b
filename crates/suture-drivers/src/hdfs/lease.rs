//! Whether HDFS is kept from its own repairs, and if not, why.
//!
//! Place: beside [stripes affected -> queue -> plan -> claim] -> ...: decided anew before each
//! lease, seconds at a time.
//! Only a coordinator that can repair may keep HDFS from it: not one whose task no longer reports
//! how repairs stand, nor one whose claims the NameNode does not answer, nor one that is to leave
//! lost blocks for a while, by a pause or by a window. What is at risk most is repaired outside of
//! a window as well, beside HDFS: a claim keeps the two apart.

use std::fmt;
use std::time::{Duration, Instant};

use suture_repair::event::{Blocked, Health, NodeStatus, Status};
use suture_repair::id::StripeId;
use suture_repair::message::Failure;

use super::keeper::LEFT_MAX;

/// What the coordinator's task reported so long ago counts no more. It reports twice a second, and
/// more rarely where looking takes it long; a batch of plans takes it a second or two.
const CONDITION_LASTS: Duration = Duration::from_secs(60);

/// Claims are answered in the second in which they are asked for. One that has waited for so long
/// is asked for again and again, and fails each time, whatever else the NameNode answers.
const CLAIM_WAITS: Duration = Duration::from_secs(60);

/// Whether repairs can go on, as the coordinator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// When it was so.
    pub at: Instant,
    /// An operator paused them.
    pub paused: bool,
    /// Their window is closed: what has a margin waits until it opens.
    pub window_closed: bool,
    /// Nodes that are up, by their heartbeats.
    pub nodes_up: usize,
    /// Stripes that wait for something: HDFS may try them. It compares what it rebuilds with
    /// nothing, so those are none of them of which some block is known to have wrong bytes.
    pub waiting: Vec<StripeId>,
}

/// What else a lease depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseScene {
    /// Nothing is repaired here.
    pub observes: bool,
    /// DataNodes that are not dead.
    pub live: usize,
    /// Groups that HDFS would have to be left beside it.
    pub left: usize,
    /// For how long a claim has waited for its answer, if any does.
    pub claim_waits: Option<Duration>,
}

/// Why HDFS repairs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// It is configured so.
    Observes,
    /// The coordinator's task does not report how repairs stand.
    Silent,
    /// An operator paused repairs.
    Paused,
    /// The window in which repairs run is closed.
    WindowClosed,
    /// What is left would fall on a part of the cluster.
    FewAgents {
        /// Agents that speak at the moment.
        up: usize,
        /// DataNodes that are not dead.
        of: usize,
    },
    /// The NameNode does not answer claims, without which nothing is repaired here.
    ClaimsWait,
    /// Too many groups wait for something, or are not served here.
    ManyLeft {
        /// How many of them.
        groups: usize,
    },
}

impl Condition {
    /// As a coordinator's status says now.
    pub fn of(status: &Status) -> Condition {
        let is_up = |node: &&NodeStatus| node.health == Health::Up;
        let is_wrong = |why: &Blocked| {
            matches!(
                why,
                Blocked::Disputed { .. } | Blocked::Failing { why: Failure::Inconsistent, .. }
            )
        };
        let waiting = status.blocked.iter().filter(|(_, why)| !is_wrong(why));
        Condition {
            at: Instant::now(),
            paused: status.paused,
            window_closed: status.throttle.closed_for.is_some(),
            nodes_up: status.nodes.iter().filter(is_up).count(),
            waiting: waiting.map(|(stripe, _)| *stripe).collect(),
        }
    }

    /// Whether it counts at that time: who reported it may stand still since.
    pub fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= CONDITION_LASTS
    }
}

impl NoLease {
    /// Why HDFS is to repair by itself now; none where it is to leave that to Suture.
    pub fn of(condition: Option<&Condition>, scene: LeaseScene, now: Instant) -> Option<NoLease> {
        let LeaseScene { observes, live, left, claim_waits } = scene;
        if observes {
            return Some(NoLease::Observes);
        }
        let Some(condition) = condition.filter(|condition| condition.is_fresh(now)) else {
            return Some(NoLease::Silent);
        };
        let up = condition.nodes_up;
        if condition.paused {
            Some(NoLease::Paused)
        } else if condition.window_closed {
            Some(NoLease::WindowClosed)
        } else if 3 * up < 2 * live {
            // Two thirds: with fewer, what is left would fall on a part of the cluster.
            Some(NoLease::FewAgents { up, of: live })
        } else if claim_waits.is_some_and(|time| time > CLAIM_WAITS) {
            Some(NoLease::ClaimsWait)
        } else if left > LEFT_MAX {
            Some(NoLease::ManyLeft { groups: left })
        } else {
            None
        }
    }

    /// Whether an operator should act on it: it was not commanded.
    pub fn is_fault(self) -> bool {
        match self {
            NoLease::Observes | NoLease::Paused | NoLease::WindowClosed => false,
            NoLease::Silent
            | NoLease::FewAgents { .. }
            | NoLease::ClaimsWait
            | NoLease::ManyLeft { .. } => true,
        }
    }
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLease::Observes => write!(f, "this coordinator only observes"),
            NoLease::Silent => write!(f, "the coordinator does not say how repairs stand"),
            NoLease::Paused => write!(f, "repairs are paused"),
            NoLease::WindowClosed => write!(f, "the window for repairs is closed"),
            NoLease::FewAgents { up, of } => write!(f, "agents of {up} of {of} DataNodes speak"),
            NoLease::ClaimsWait => write!(f, "the NameNode does not answer claims"),
            NoLease::ManyLeft { groups } => {
                write!(f, "{groups} groups wait for something, and {LEFT_MAX} can be left out")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::NodeId;
    use suture_repair::time::Span;

    use super::*;

    #[test]
    fn only_who_can_repair_keeps_others_from_it() {
        let now = Instant::now() + 2 * CONDITION_LASTS;
        let ago = |time: Duration| now - time;
        let well = Condition {
            at: now,
            paused: false,
            window_closed: false,
            nodes_up: 8,
            waiting: Vec::new(),
        };
        let scene = LeaseScene { observes: false, live: 12, left: 0, claim_waits: None };
        let refused = |condition: &Condition, scene| NoLease::of(Some(condition), scene, now);
        assert_eq!(refused(&well, scene), None, "agents of two thirds speak");
        assert_eq!(refused(&well, LeaseScene { left: LEFT_MAX, ..scene }), None);
        let groups = LEFT_MAX + 1;
        let many = refused(&well, LeaseScene { left: groups, ..scene });
        assert_eq!(many, Some(NoLease::ManyLeft { groups }));
        let few = refused(&Condition { nodes_up: 7, ..well.clone() }, scene);
        assert_eq!(few, Some(NoLease::FewAgents { up: 7, of: 12 }));
        assert_eq!(few.unwrap().to_string(), "agents of 7 of 12 DataNodes speak");
        // A claim waits for its answer: as ever, and for too long.
        let waits = |time| refused(&well, LeaseScene { claim_waits: Some(time), ..scene });
        assert_eq!(waits(CLAIM_WAITS), None);
        assert_eq!(waits(2 * CLAIM_WAITS), Some(NoLease::ClaimsWait));
        assert!(NoLease::ClaimsWait.is_fault(), "a plugin that fails over every claim");
        let paused = Condition { paused: true, ..well.clone() };
        assert_eq!(refused(&paused, scene), Some(NoLease::Paused));
        let closed = Condition { window_closed: true, ..well.clone() };
        assert_eq!(refused(&closed, scene), Some(NoLease::WindowClosed));
        // A task that hangs reports nothing any more.
        let late = Condition { at: ago(CONDITION_LASTS / 2), ..well.clone() };
        assert_eq!(refused(&late, scene), None);
        assert!(late.is_fresh(now));
        let hung = Condition { at: ago(CONDITION_LASTS * 3 / 2), ..well.clone() };
        assert_eq!(refused(&hung, scene), Some(NoLease::Silent));
        assert!(!hung.is_fresh(now), "claims are not asked for again either");
        assert_eq!(NoLease::of(None, scene, now), Some(NoLease::Silent), "it has said nothing yet");
        let observes = LeaseScene { observes: true, ..scene };
        assert_eq!(refused(&well, observes), Some(NoLease::Observes));
        // What an operator wanted is no fault.
        let wanted = [NoLease::Observes, NoLease::Paused, NoLease::WindowClosed];
        assert!(!wanted.iter().any(|why| why.is_fault()));
        assert!(few.unwrap().is_fault() && many.unwrap().is_fault());
        assert!(NoLease::Silent.is_fault());
    }

    #[test]
    fn a_condition_is_what_the_status_says() {
        let mut status = Status::default();
        assert!(!Condition::of(&status).paused && !Condition::of(&status).window_closed);
        status.paused = true;
        status.throttle.closed_for = Some(Span::from_secs(60));
        let (attempts, node) = (3, None);
        status.blocked = vec![
            (StripeId(7), Blocked::Claimed),
            // HDFS would rebuild these with wrong bytes.
            (StripeId(8), Blocked::Disputed { node: NodeId(1) }),
            (StripeId(9), Blocked::Failing { attempts, node, why: Failure::Inconsistent }),
        ];
        let condition = Condition::of(&status);
        assert!(condition.paused && condition.window_closed);
        assert_eq!((condition.nodes_up, &condition.waiting[..]), (0, &[StripeId(7)][..]));
        assert!(condition.at <= Instant::now());
    }
}
