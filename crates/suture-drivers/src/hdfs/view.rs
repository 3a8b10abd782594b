//! How HDFS stands to this coordinator, for status, metrics and the coordinator's task.
//!
//! Place: beside [stripes affected] ... [claim] ... [commit location].
//! The thread of `link.rs` writes it down each time that it has asked, and others read it. While no
//! NameNode answers it is not known what is at risk, which must not look as if nothing were. What
//! was received long ago counts as not known: the thread may hang as well.
//!
//! A claim that the NameNode refuses because of one node is reported to the core as a failure of
//! that node, if it is up, so that the next attempt uses others; a refusal of any other kind has
//! the stripe wait. The core has a place for nodes that fail, and none for placement policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use suture_edge::units::format_seconds;
use suture_repair::event::Input;
use suture_repair::id::{NodeId, RepairId, StripeId};
use suture_repair::message::{Failure, FromAgent};

use super::keeper::RefusedTarget;
use super::lease::NoLease;

/// An answer that is older says nothing of now: a NameNode is asked every second, and has a third
/// of this for each answer.
const ANSWER_LASTS: Duration = Duration::from_secs(60);

/// How HDFS stands to a coordinator, shared by the threads that ask it and those that show it.
#[derive(Debug)]
pub struct HdfsView {
    seen: Mutex<HdfsSeen>,
    /// Claims that were refused because of a node, until they are reported to the core.
    refused: Mutex<BTreeMap<RepairId, RefusedTarget>>,
}

/// That at one moment.
#[derive(Clone, Debug)]
pub struct HdfsSeen {
    /// Nothing is repaired here, whatever is paused: HDFS does that.
    pub observes: bool,
    /// The block pool of the NameNodes, once one has connected.
    pub pool: Option<String>,
    /// NameNodes whose plugins are connected.
    pub namenodes: usize,
    /// Block groups at risk that the NameNode reports.
    pub groups: usize,
    /// Groups that HDFS may rebuild by itself, since they wait here or are not served.
    pub left: usize,
    /// Why HDFS repairs by itself, as it was decided last; none where it does not.
    pub(super) no_lease: Option<NoLease>,
    /// When the lease ends if it is not prolonged.
    pub(super) leased_until: Option<Instant>,
    /// Why the claims of these stripes were refused last.
    pub(super) refusals: BTreeMap<StripeId, String>,
    /// Stripes of repairs whose claims were granted, and are none of the NameNode that is asked
    /// now.
    pub(super) unclaimed: BTreeSet<StripeId>,
    is_answering: bool,
    /// Since when that is so.
    since: Instant,
    answered_at: Option<Instant>,
}

impl HdfsView {
    /// Nothing is known yet. One that `observes` has HDFS repair.
    pub fn new(observes: bool) -> HdfsView {
        let seen = HdfsSeen {
            observes,
            pool: None,
            namenodes: 0,
            groups: 0,
            left: 0,
            no_lease: None,
            leased_until: None,
            refusals: BTreeMap::new(),
            unclaimed: BTreeSet::new(),
            is_answering: false,
            since: Instant::now(),
            answered_at: None,
        };
        HdfsView { seen: Mutex::new(seen), refused: Mutex::default() }
    }

    /// How it stands now.
    pub fn seen(&self) -> HdfsSeen {
        self.lock().clone()
    }

    /// Why a claim on the stripe was refused, if it was and nothing came after that.
    pub fn refusal(&self, stripe: StripeId) -> Option<String> {
        self.lock().refusals.get(&stripe).cloned()
    }

    /// Whether a repair of the stripe goes on without the claim that it had: then HDFS may build
    /// the same blocks.
    pub fn is_unclaimed(&self, stripe: StripeId) -> bool {
        self.lock().unclaimed.contains(&stripe)
    }

    /// Has something else be so from now on.
    pub(super) fn change(&self, change: impl FnOnce(&mut HdfsSeen)) {
        change(&mut self.lock());
    }

    /// These claims are about to be refused because of a node.
    pub(super) fn refuse(&self, refused: Vec<RefusedTarget>) {
        let known = |target: RefusedTarget| (target.repair, target);
        self.refused().extend(refused.into_iter().map(known));
    }

    /// What the core is given in the place of a change: where a claim is refused because of a node
    /// that is up, that its repair failed there.
    pub fn attribute(&self, change: Input, is_up: impl Fn(NodeId) -> bool) -> Input {
        let Input::ClaimRefused { repair, .. } = &change else { return change };
        let repair = *repair;
        match self.refused().remove(&repair) {
            Some(RefusedTarget { node, why, .. }) if is_up(node) => {
                let why = Failure::Disk(format!("the NameNode says: {why}"));
                Input::Agent { node, message: FromAgent::Failed { repair, why } }
            }
            Some(_) | None => change,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HdfsSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<RepairId, RefusedTarget>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HdfsSeen {
    /// The active NameNode has reported all that is at risk, or has not.
    pub(super) fn asked(&mut self, is_answering: bool, now: Instant) {
        if is_answering != self.is_answering {
            (self.is_answering, self.since) = (is_answering, now);
        }
        if is_answering {
            self.answered_at = Some(now);
        }
    }

    /// Whether an active NameNode answers, so that it is known what is at risk.
    pub fn is_connected(&self, now: Instant) -> bool {
        let is_new = |at: Instant| now.saturating_duration_since(at) <= ANSWER_LASTS;
        self.is_answering && self.answered_at.is_some_and(is_new)
    }

    /// For how long that has been as it is.
    pub fn standing_for(&self, now: Instant) -> Duration {
        let is_silent = self.is_answering && !self.is_connected(now);
        let since = if is_silent { self.answered_at.unwrap_or(self.since) } else { self.since };
        now.saturating_duration_since(since)
    }

    /// Whether HDFS leaves its lost blocks to this coordinator.
    pub fn is_leased(&self, now: Instant) -> bool {
        self.leased_until.is_some_and(|until| until > now)
    }

    /// Why HDFS repairs by itself; none where it does not.
    pub fn no_lease(&self, now: Instant) -> Option<String> {
        if self.is_leased(now) {
            return None;
        }
        Some(match self.no_lease {
            _ if !self.is_connected(now) => "no active NameNode answers".into(),
            Some(why) => why.to_string(),
            None => "it was not told yet to leave its lost blocks".into(),
        })
    }

    /// What an operator should know of it and do something about, in sentences.
    pub fn warnings(&self, now: Instant) -> Vec<String> {
        if !self.is_connected(now) {
            let time = format_seconds(self.standing_for(now).as_secs_f64());
            return vec![format!(
                "no active NameNode answers (for {time}): what is at risk in HDFS is not known, \
                 and HDFS repairs by itself; its log says why, after 'Suture:'"
            )];
        }
        let reason = self.no_lease.filter(|why| why.is_fault() && !self.is_leased(now));
        reason.into_iter().map(|why| format!("HDFS repairs by itself: {why}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::{Cluster, Rate};
    use suture_repair::coordinator::{Config, Coordinator, IN_FLIGHT_MAX, ScrubConfig};
    use suture_repair::event::{Blocked, Claim, Health, Liveness, Output, Timers};
    use suture_repair::id::{ChunkCopy, ChunkIndex, Generation, ListedCopy, Stamp};
    use suture_repair::message::Hello;
    use suture_repair::planner::Abilities;
    use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
    use suture_repair::time::{Span, Time};

    use super::*;
    use crate::config::CoordinatorConfig;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_nobody_has_said_or_not_of_late_is_not_known() {
        let (view, began) = (HdfsView::new(false), Instant::now());
        let at = |seconds: u32| began + seconds * SECOND;
        let warned = |seconds: u32| view.seen().warnings(at(seconds));
        assert!(!view.seen().is_connected(at(1)));
        let [warning] = &warned(180)[..] else { panic!("{:?}", warned(180)) };
        assert!(warning.starts_with("no active NameNode answers (for "), "{warning}");
        assert_eq!(view.seen().no_lease(at(1)).unwrap(), "no active NameNode answers");
        view.change(|seen| seen.asked(true, at(200)));
        assert!(view.seen().is_connected(at(201)) && warned(201).is_empty());
        assert_eq!(view.seen().standing_for(at(207)), 7 * SECOND);
        view.change(|seen| seen.asked(true, at(210)));
        assert_eq!(view.seen().standing_for(at(211)), 11 * SECOND, "it has answered since 200");
        // The thread that asks hangs.
        assert!(!view.seen().is_connected(at(300)));
        assert_eq!(view.seen().standing_for(at(300)), 90 * SECOND);
        assert_eq!(warned(300).len(), 1);
        view.change(|seen| seen.asked(false, at(301)));
        assert!(!view.seen().is_connected(at(301)));
        assert_eq!(view.seen().standing_for(at(302)), SECOND);
    }

    #[test]
    fn a_lease_ends_by_itself_and_why_there_is_none_is_said_where_it_is_a_fault() {
        let (view, began) = (HdfsView::new(false), Instant::now());
        let few = NoLease::FewAgents { up: 5, of: 12 };
        view.change(|seen| {
            seen.asked(true, began);
            seen.leased_until = Some(began + 15 * SECOND);
        });
        let seen = view.seen();
        assert!(seen.is_leased(began) && !seen.is_leased(began + 15 * SECOND));
        assert_eq!(seen.no_lease(began), None);
        for (why, is_fault) in [(few, true), (NoLease::Paused, false)] {
            view.change(|seen| (seen.leased_until, seen.no_lease) = (None, Some(why)));
            let seen = view.seen();
            assert_eq!(seen.no_lease(began), Some(why.to_string()));
            assert_eq!(seen.warnings(began).is_empty(), !is_fault, "{why}");
        }
        view.change(|seen| seen.no_lease = Some(few));
        let said = "HDFS repairs by itself: agents of 5 of 12 DataNodes speak";
        assert_eq!(view.seen().warnings(began), [said]);
    }

    #[test]
    fn a_claim_that_is_refused_because_of_a_node_is_a_failure_of_that_node() {
        let view = HdfsView::new(false);
        let refused = |repair| Input::ClaimRefused { repair: RepairId(repair), stripe: None };
        let of_node = |repair| RefusedTarget {
            repair: RepairId(repair),
            node: NodeId(4),
            why: "no block of it there".into(),
        };
        view.refuse(vec![of_node(1), of_node(2)]);
        let attributed = view.attribute(refused(1), |node| node == NodeId(4));
        let Input::Agent { node, message: FromAgent::Failed { repair, why } } = attributed else {
            panic!("{attributed:?}")
        };
        assert_eq!((node, repair), (NodeId(4), RepairId(1)));
        assert_eq!(why.to_string(), "disk: the NameNode says: no block of it there");
        // Nothing is reported in the name of a node that is silent.
        let attributed = view.attribute(refused(2), |_| false);
        assert!(
            matches!(attributed, Input::ClaimRefused { repair: RepairId(2), .. }),
            "{attributed:?}"
        );
        // Once each; and nothing else is another than it was.
        let attributed = view.attribute(refused(1), |_| true);
        assert!(
            matches!(attributed, Input::ClaimRefused { repair: RepairId(1), .. }),
            "{attributed:?}"
        );
        assert!(matches!(view.attribute(Input::Tick, |_| true), Input::Tick));
    }

    /// A coordinator of HDFS and six nodes that are up. Of its one stripe the second chunk is lost;
    /// the others are on the first node and on the third.
    fn core() -> Coordinator {
        let settings = CoordinatorConfig::default();
        let (hour, day) = (Span::from_secs(3600), Span::from_secs(86_400));
        let config = Config {
            epoch: 1,
            timers: Timers { suspect_after: hour, dead_after: day, ..settings.timers() },
            policy: settings.repair.policy,
            seed: 1,
            paused: false,
            failed: Vec::new(),
            draining: Vec::new(),
            paused_nodes: Vec::new(),
            claims: true,
            liveness: Liveness::Keeper,
            deletes: false,
            in_flight_max: IN_FLIGHT_MAX,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
            gather: Span::ZERO,
        };
        let record = |node: Option<u32>| ChunkRecord {
            node: node.map(NodeId),
            stamp: Stamp(1),
            bytes: 4096,
            crc: None,
        };
        let stripe = Stripe {
            id: StripeId(7),
            code: "rs(2,1)".parse().unwrap(),
            chunk_bytes: 4096,
            unit_bytes: 4096,
            generation: Generation(1),
            chunks: [Some(0), None, Some(2)].map(record).to_vec(),
        };
        let stripes = StripeMap::new([stripe]);
        let mut core =
            Coordinator::new(Time::ZERO, config, Cluster::uniform(6, Rate(1e9)), stripes);
        for node in (0..6).map(NodeId) {
            let hello = Hello {
                incarnation: 1,
                session: 1,
                abilities: Abilities::ALL,
                pool_bytes: 64 << 20,
                free_bytes: 1 << 30,
            };
            let held = core.stripes().on_node(node).map(|stripe| {
                let chunk = stripe.chunk_on(node).expect("it is on the node");
                ListedCopy::from(ChunkCopy { stripe: stripe.id, chunk, stamp: Stamp(1) })
            });
            let held: Vec<ListedCopy> = held.collect();
            for message in [FromAgent::Hello(hello), FromAgent::Inventory(held)] {
                core.handle(Time::ZERO, Input::Agent { node, message });
            }
        }
        core
    }

    /// What the core claims next, within some minutes.
    fn next_claim(core: &mut Coordinator, now: &mut Time) -> Claim {
        for _ in 0..3000 {
            while let Some(output) = core.poll() {
                if let Output::Claim(claim) = output {
                    return claim;
                }
            }
            *now = *now + Span::from_millis(100);
            core.handle(*now, Input::Tick);
        }
        panic!("nothing is claimed");
    }

    #[test]
    fn nodes_that_the_namenode_refuses_are_passed_over_until_all_were_tried() {
        let (view, mut core, mut now) = (HdfsView::new(false), core(), Time::ZERO);
        let mut refused = BTreeSet::new();
        for _ in 0..4 {
            let claim = next_claim(&mut core, &mut now);
            let (&chunk, &node) = claim.destinations.first_key_value().unwrap();
            assert_eq!(chunk, ChunkIndex(1));
            assert!(refused.insert(node), "{node} was refused before");
            let repair = claim.repair;
            view.refuse(vec![RefusedTarget { repair, node, why: "full".into() }]);
            let stripe = core.stripes().get(claim.stripe).cloned();
            let is_up = |node: NodeId| core.health(node) == Health::Up;
            let attributed = view.attribute(Input::ClaimRefused { repair, stripe }, is_up);
            core.handle(now, attributed);
        }
        let without_chunks: BTreeSet<NodeId> = [1, 3, 4, 5].map(NodeId).into();
        assert_eq!(refused, without_chunks);
        // It took seconds, and no stripe waits for a claim of another to end.
        assert!(now.since(Time::ZERO) < Span::from_secs(30), "{now}");
        assert!(core.status().blocked.iter().all(|(_, why)| *why != Blocked::Claimed));
    }
}
