//! ChameleonEC's phases, and what it does about stragglers (HPCA'25, sections III-A and III-C).
//!
//! Place: ... queue -> plan -> [what belongs to this phase] -> dispatch -> slices flow
//! -> [stragglers] -> ...
//! A phase takes as many repairs as all nodes can finish within its length, by their links as they
//! are reported at its beginning, and with `chameleon:io` by their disks, too. What is not done in
//! time goes on in the next phase and counts there. A repair is late when it has not ended by a
//! tenth of the phase after its expected end. Then, by repair re-tuning, what the straggler would
//! have received goes to the destination; where the straggler receives nothing, by transmission
//! re-ordering, the whole repair rests until its nodes have nothing else to do.
//!
//! Decided here, where the paper leaves it open:
//! - The next phase begins as soon as nothing of this one is left.
//! - A chunk that does not fit waits for the next phase, and those behind it are still tried.
//! - A phase is at least as long as its first chunk takes by itself, and takes at least one repair
//!   when nothing runs.
//! - A late repair is treated once; after two more phases it goes on, whatever else runs.
//! - Re-tuning goes on with what is left of the chunk; section III-C does not say what becomes of
//!   what has come. A decoder that lags hands its work over to the destination, too.
//! - What `chameleon:io` counts of disks beside links counts in phases, too: by links alone nearly
//!   all repairs would be late where disks are the limit.
//! - Chunks are planned in the order of the queue; with `by-time` the plans that take the least by
//!   themselves come first (section III-D, multi-node repair, third option; `by-node` is the first,
//!   and the second, stripes with more lost chunks first, is what the queue does anyway).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::link_load::LinkLoad;
use super::straggler::{find_straggler, relieve};
use super::{ActiveRepair, Directive, PlannedRepair, Snapshot, sorted_by_seconds};
use crate::cluster::{Cluster, Node};
use crate::id::{NodeId, RepairId, StripeId};
use crate::policy;
use crate::time::{Span, Time};

/// A repair is late when it is behind by this part of a phase.
const LATE: f64 = 0.1;

/// After so many more phases a repair that was put aside goes on.
const HELD_PHASES_MAX: u32 = 2;

/// More plans than a phase takes are made, for not all of them are alike.
const SLACK: f64 = 1.25;

#[derive(Debug)]
pub(super) struct Phases {
    length: Span,
    order: policy::Order,
    /// Whether disks count, as links do.
    has_disks: bool,
    number: u32,
    ends: Option<Time>,
    /// What this phase puts on each node.
    load: BTreeMap<NodeId, LinkLoad>,
    expected: BTreeMap<RepairId, Time>,
    /// Repairs that have been treated as late, once.
    treated: BTreeSet<RepairId>,
    /// Repairs at rest, and since which phase.
    held: BTreeMap<RepairId, u32>,
    /// The stripe whose repair replaces one that was treated.
    replaced: BTreeSet<StripeId>,
}

impl Phases {
    pub fn new(seconds: u32, order: policy::Order, has_disks: bool) -> Phases {
        Phases {
            length: Span::from_secs(u64::from(seconds)),
            order,
            has_disks,
            number: 0,
            ends: None,
            load: BTreeMap::new(),
            expected: BTreeMap::new(),
            treated: BTreeSet::new(),
            held: BTreeMap::new(),
            replaced: BTreeSet::new(),
        }
    }

    /// How many stripes to plan: at the beginning of a phase about as many as it can hold,
    /// otherwise none.
    pub fn quota(&mut self, snapshot: &Snapshot<'_>) -> usize {
        let is_idle = snapshot.waiting.is_empty() && snapshot.active.len() == self.held.len();
        let is_over = self.ends.is_none_or(|ends| ends <= snapshot.now) || is_idle;
        if !is_over || snapshot.ready == 0 || !snapshot.waiting.is_empty() {
            return 0;
        }
        // Each plan takes some link for its own time at least, and a node has two.
        let links = 2 * snapshot.nodes.max(1);
        let fastest =
            snapshot.cluster.nodes.iter().map(|n| n.uplink_free().0.max(n.downlink_free().0));
        let bytes = fastest.fold(0.0, f64::max) * self.length.as_secs_f64() * links as f64;
        let chunk = snapshot.sample.map_or(1, |stripe| stripe.chunk_bytes.max(1)) as f64;
        ((bytes / chunk * SLACK) as usize).clamp(links, 8 * links.max(1024))
    }

    /// Begins a phase with as many of the plans as it can hold.
    pub fn arrange(
        &mut self,
        snapshot: &Snapshot<'_>,
        made: Vec<PlannedRepair>,
    ) -> Vec<PlannedRepair> {
        let seconds = |planned: &PlannedRepair| self.seconds_alone(planned, snapshot.cluster);
        let made = match self.order {
            policy::Order::Time => sorted_by_seconds(made, seconds),
            policy::Order::Risk | policy::Order::Node => made,
        };
        self.number += 1;
        let length = self.length_for(snapshot, &made);
        self.ends = Some(snapshot.now + length);
        self.load.clear();
        for repair in snapshot.active.values() {
            let left = repair.fraction_left().max(0.0);
            let loads = self.loads(&repair.planned).into_owned();
            self.put(loads.into_iter().map(|(node, load)| (node, load.part(left))));
        }
        let mut kept = Vec::new();
        for planned in made {
            let loads = self.loads(&planned).into_owned();
            let after = loads.iter().map(|&(node, load)| {
                let mut total = self.load.get(&node).copied().unwrap_or_default();
                total.add(load);
                self.seconds(total, snapshot.cluster.node(node))
            });
            let fits = after.fold(0.0, f64::max) <= length.as_secs_f64();
            if fits || kept.is_empty() && snapshot.active.len() == self.held.len() {
                self.put(loads);
                kept.push(planned);
            }
        }
        self.expect(snapshot);
        kept
    }

    /// As long as was asked for, or as the first chunk takes by itself: where that is longer,
    /// phases would be of one chunk each.
    fn length_for(&self, snapshot: &Snapshot<'_>, made: &[PlannedRepair]) -> Span {
        let first = made.first();
        let first = first.map_or(0.0, |planned| self.seconds_alone(planned, snapshot.cluster));
        self.length.max(Span { ns: (first.min(1e9) * 1e9) as u64 })
    }

    /// What a repair takes of each node, as far as it counts.
    fn loads<'a>(&self, planned: &'a PlannedRepair) -> Cow<'a, [(NodeId, LinkLoad)]> {
        if self.has_disks {
            planned.loads_with_disks().into()
        } else {
            (&planned.link_loads[..]).into()
        }
    }

    /// How long a node takes for so much by itself.
    fn seconds(&self, load: LinkLoad, node: &Node) -> f64 {
        if self.has_disks { load.seconds_with_disk(node) } else { load.seconds(node) }
    }

    /// How long a repair takes when nothing else runs, in seconds.
    fn seconds_alone(&self, planned: &PlannedRepair, cluster: &Cluster) -> f64 {
        let loads = self.loads(planned);
        let seconds = loads.iter().map(|(node, load)| self.seconds(*load, cluster.node(*node)));
        seconds.fold(0.0, f64::max)
    }

    /// When what runs already is to be done, now that there is more beside it.
    fn expect(&mut self, snapshot: &Snapshot<'_>) {
        for (id, repair) in snapshot.active {
            let expected = self.expected_end(snapshot, repair);
            self.expected.insert(*id, expected);
        }
    }

    fn put(&mut self, loads: impl IntoIterator<Item = (NodeId, LinkLoad)>) {
        for (node, load) in loads {
            self.load.entry(node).or_default().add(load);
        }
    }

    /// All repairs of a phase share the links, so one is done when the fullest of its links is.
    fn expected_end(&self, snapshot: &Snapshot<'_>, repair: &ActiveRepair) -> Time {
        let seconds = repair.planned.link_loads.iter().map(|(node, _)| {
            self.load
                .get(node)
                .map_or(0.0, |load| self.seconds(*load, snapshot.cluster.node(*node)))
        });
        let seconds = seconds.fold(0.0, f64::max).min(1e9);
        snapshot.now + Span { ns: (seconds * 1e9) as u64 }
    }

    pub fn started(&mut self, snapshot: &Snapshot<'_>, id: RepairId) {
        let repair = &snapshot.active[&id];
        let expected = self.expected_end(snapshot, repair);
        self.expected.insert(id, expected);
        if self.replaced.remove(&repair.planned.plan.stripe) {
            self.treated.insert(id);
        }
    }

    /// The next repair of the stripe takes no other's place.
    pub fn refused(&mut self, stripe: StripeId) {
        self.replaced.remove(&stripe);
    }

    pub fn ended(&mut self, id: RepairId) {
        self.expected.remove(&id);
        self.treated.remove(&id);
        self.held.remove(&id);
    }

    fn is_held(&self, id: RepairId) -> bool {
        self.held.contains_key(&id)
    }

    /// Wakes what rests where its nodes are free, and treats what is late.
    pub fn directives(&mut self, snapshot: &Snapshot<'_>) -> Vec<Directive> {
        let mut directives = self.wake(snapshot);
        let late: Vec<RepairId> = self.late(snapshot.now).collect();
        let repair = |id: &RepairId| &snapshot.active[id];
        let active = snapshot.active.keys().filter(|id| !self.is_held(**id));
        let Some(straggler) = find_straggler(late.iter().map(repair), active.map(repair)) else {
            return directives;
        };
        for repair in late {
            self.treated.insert(repair);
            if !snapshot.active[&repair].planned.plan.participants().contains(&straggler) {
                continue;
            }
            if let Some(plan) = relieve(&snapshot.active[&repair], straggler) {
                self.replaced.insert(plan.stripe);
                directives.push(Directive::Replace { repair, plan });
            } else {
                self.held.insert(repair, self.number);
                directives.push(Directive::Hold { repair, held: true });
            }
        }
        directives
    }

    fn late(&self, now: Time) -> impl Iterator<Item = RepairId> {
        let expected = self.expected.iter().filter(|(id, _)| !self.treated.contains(id));
        expected.filter(move |(_, end)| **end + self.timeout() <= now).map(|(id, _)| *id)
    }

    fn timeout(&self) -> Span {
        Span { ns: (self.length.ns as f64 * LATE) as u64 }
    }

    /// Lets go on what rests and competes with nothing, or has rested for long enough.
    fn wake(&mut self, snapshot: &Snapshot<'_>) -> Vec<Directive> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let is_active = |id: &RepairId| !self.held.contains_key(id);
        let active = snapshot.active.iter().filter(|(id, _)| is_active(id));
        // What rests keeps its memory: it must not rest while others wait for that.
        let is_alone = snapshot.active.len() == self.held.len();
        let waiting = snapshot.waiting.iter().map(|planned| &planned.plan);
        let plans = active.map(|(_, repair)| &repair.planned.plan).chain(waiting);
        let busy: BTreeSet<NodeId> = plans.flat_map(crate::plan::Plan::participants).collect();
        let may_go = |(id, since): &(&RepairId, &u32)| {
            let participants = snapshot.active[*id].planned.plan.participants();
            is_alone
                || self.number >= **since + HELD_PHASES_MAX
                || participants.iter().all(|node| !busy.contains(node))
        };
        let woken: Vec<RepairId> = self.held.iter().filter(may_go).map(|(id, _)| *id).collect();
        self.held.retain(|id, _| !woken.contains(id));
        woken.into_iter().map(|repair| Directive::Hold { repair, held: false }).collect()
    }

    /// The next phase, where something waits for it, or the next moment at which a repair is late.
    pub fn next_deadline(&self, has_more: bool) -> Option<Time> {
        let next_phase = self.ends.filter(|_| has_more);
        let expected = self.expected.iter().filter(|(id, _)| !self.treated.contains(id));
        let late = expected.map(|(_, end)| *end + self.timeout()).min();
        [next_phase, late].into_iter().flatten().min()
    }
}
