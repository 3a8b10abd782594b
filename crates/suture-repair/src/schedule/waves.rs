//! Waves: everything at once as long as links can distinguish the flows, then wave after wave.
//!
//! Place: ... queue -> plan -> [which wave, in which order] -> dispatch -> slices flow -> [lag] ->
//! ...
//! Ours. A plan whose links are evenly loaded is finished when its fullest link is, if all of it
//! runs at once; running few at a time costs 20 to 100 per cent (docs/schedules.md). So everything
//! is planned and started together while a port has a few hundred flows at most. Beyond that, waves
//! of some stripes a node are planned on top of what the ones before have left, and admitted
//! without a barrier as repairs end. Larger waves are better balanced, smaller ones follow links
//! that change sooner; on recorded links the larger ones won. A wave waits in an order whose every
//! beginning is balanced, so that the part of it that has been started is as good as the whole.
//! The tail needs nothing of its own: the last wave is planned by what is left on every link, and
//! the planner cuts chunks into ranges where whole ones would not come out even.
//!
//! Plans are made for what links had on average of late: what a link has at one moment says little
//! about the minutes that a repair takes. When the average changes, what waits is planned again.
//! Then, and when a repair gets less than half of its fair share, what runs through the straggler
//! goes on without it, for the rest of every lane: with a helper that a lane did without so far, or
//! by gathering enough of the others (`plan/detour.rs`). The last slices of a chunk are hedged:
//! nothing that comes later could make up for them, so they are looked at more often.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::link_load::{LinkLoad, NodeLinks};
use super::straggler::{find_straggler, helpers, leave};
use super::{ActiveRepair, Directive, PlannedRepair, Quota, Snapshot};
use crate::cluster::{Cluster, Node, Rate};
use crate::id::{NodeId, RepairId, StripeId};
use crate::plan::detour::StandIn;
use crate::time::{Span, Time};

/// Flows that a port is shared by when everything runs at once.
const FLOWS_MAX: usize = 256;

/// Stripes of a wave for each node.
const STRIPES_A_NODE: usize = 64;

/// Over how many seconds links are averaged.
const MEMORY_SECONDS: f64 = 20.0;

/// Stripes for each node that are under repair at a time: about as many flows a port as when
/// everything runs at once. More would not be faster and adds bookkeeping.
const ACTIVE_A_NODE: usize = 48;

/// A helper is left when another one is faster by this factor.
const FASTER: f64 = 2.0;

/// A repair lags when it gets less than this part of its fair share.
const LAGGING: f64 = 0.5;

/// Over which time that is measured.
const MEASURE: Span = Span::from_secs(3);

/// What lies closer together says little.
const MEASURE_MIN: Span = Span::from_secs(2);

/// What lacks less than this part of its chunk lacks its last slices.
const LAST: f64 = 1.0 / 8.0;

/// Over which time the last slices are measured.
const MEASURE_LAST: Span = Span::from_secs(1);

/// Words of agents come once a second, about.
const MEASURE_LAST_MIN: Span = Span::from_millis(750);

/// Last slices that lag and are there within so many seconds are left in peace: another plan takes
/// some round trips to begin.
const REST_LAST_SECONDS: f64 = 0.5;

/// The same where whole chunks would take the place of traces, which take up to twice as much.
const LAGGING_TRACES: f64 = 0.25;

/// What has less than this part of its chunk to go keeps a helper that has become slow.
const REST_MIN: f64 = 0.25;

/// What lags and is done within so many seconds all the same is left in peace.
const REST_SECONDS: f64 = 1.0;

/// This part of a chunk may be in flight through a plan, and not have come yet: a few slices of
/// each lane.
const IN_FLIGHT_PART: f64 = 1.0 / 16.0;

/// Which repairs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Examined {
    All,
    /// Those that lack their last slices.
    Last,
}

/// How a repair gets on beside its fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Enough,
    /// It gets less than half of it, and is to be left in peace.
    Late,
    /// It is late, and better without the straggler.
    Lags,
}

/// Why a repair leaves a helper.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// Its link is slower than when it was planned with, and others have at least so much.
    Slower(f64),
    /// The repair gets less than its share.
    Lags,
}

#[derive(Debug, Default)]
pub(super) struct Waves {
    /// The links for which plans were last made.
    planned_for: Vec<NodeLinks>,
    /// What links had on average until then, from when they first changed, and have had since.
    average: Vec<NodeLinks>,
    averaged_at: Time,
    last: Vec<NodeLinks>,
    have_links_changed: bool,
    /// What running repairs take of each node in all.
    load: BTreeMap<NodeId, LinkLoad>,
    /// How far repairs were when they were last looked at, and when.
    seen: BTreeMap<RepairId, (Time, u64)>,
    /// When all of them were, and when those that lack their last slices.
    measured_at: Time,
    looked_at: Time,
    /// Repairs that got another helper, once.
    treated: BTreeSet<RepairId>,
    replaced: BTreeSet<StripeId>,
}

impl Waves {
    /// Everything, or a wave when the last one has mostly been started; before that what is more
    /// urgent than all that waits.
    pub fn quota(&mut self, snapshot: &Snapshot<'_>) -> Quota {
        let helpers = snapshot.sample.map_or(1, |stripe| stripe.code.data_chunks().max(1));
        let unfinished = snapshot.ready + snapshot.waiting.len() + snapshot.active.len();
        let wave = STRIPES_A_NODE * snapshot.nodes.max(1);
        if unfinished * helpers <= FLOWS_MAX * snapshot.nodes {
            Quota { cluster: self.averaged(snapshot.now, snapshot.cluster), ..Quota::ALL }
        } else if snapshot.waiting.len() < wave.div_ceil(2) {
            Quota { stripes: wave, cluster: self.averaged(snapshot.now, snapshot.cluster) }
        } else if snapshot.urgent > 0 {
            // What has come to be at risk need not wait until the wave has been started.
            Quota {
                stripes: snapshot.urgent,
                cluster: self.averaged(snapshot.now, snapshot.cluster),
            }
        } else {
            Quota::NONE
        }
    }

    /// Orders a wave so that each beginning of it is balanced; what is more at risk stays ahead.
    pub fn arrange(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut made: Vec<PlannedRepair>,
    ) -> Vec<PlannedRepair> {
        self.planned_for = self.links_of_late(snapshot.now, snapshot.cluster);
        let links: Arc<[NodeLinks]> = self.planned_for.clone().into();
        made.iter_mut().for_each(|planned| planned.planned_for = Some(links.clone()));
        let mut arranged = Vec::with_capacity(made.len());
        let mut made: Vec<Option<PlannedRepair>> = made.into_iter().map(Some).collect();
        let risk = |planned: &Option<PlannedRepair>| {
            planned.as_ref().map(|planned| planned.job.lost.len())
        };
        let mut rest = &mut made[..];
        while !rest.is_empty() {
            let alike = rest.iter().take_while(|planned| risk(planned) == risk(&rest[0])).count();
            let (group, others) = rest.split_at_mut(alike);
            let order = balanced_order(group, snapshot.cluster);
            arranged.extend(order.into_iter().filter_map(|index| group[index].take()));
            rest = others;
        }
        arranged
    }

    pub fn started(&mut self, id: RepairId, repair: &ActiveRepair) {
        for &(node, links) in &repair.planned.link_loads {
            self.load.entry(node).or_default().add(links);
        }
        // One that goes on begins with what has come.
        self.seen.insert(id, (repair.since, repair.bytes_done));
        if self.replaced.remove(&repair.planned.plan.stripe) {
            self.treated.insert(id);
        }
    }

    /// A repair is as it was, and may leave a helper when it is looked at again, if it can then.
    pub fn refused(&mut self, id: RepairId, stripe: StripeId, may_later: bool) {
        if may_later {
            self.treated.remove(&id);
        }
        self.replaced.remove(&stripe);
    }

    pub fn ended(&mut self, id: RepairId, repair: &ActiveRepair) {
        for &(node, links) in &repair.planned.link_loads {
            if let Some(load) = self.load.get_mut(&node) {
                load.subtract(links);
            }
        }
        self.seen.remove(&id);
        self.treated.remove(&id);
    }

    /// Records the links of `cluster`, which have changed.
    pub fn links_changed(&mut self, now: Time, cluster: &Cluster) {
        self.have_links_changed = true;
        let links = node_links(cluster);
        if self.last.len() == links.len() {
            self.average = self.averages(now);
        } else {
            self.average.clone_from(&links);
        }
        (self.averaged_at, self.last) = (now, links);
    }

    /// What was known of the links of `node` was wrong: they are not other than before.
    pub fn links_measured(&mut self, now: Time, node: NodeId, cluster: &Cluster) {
        self.links_changed(now, cluster);
        self.average[node.index()] = self.last[node.index()];
    }

    /// What links had on average of late. What they have now counts by how long they have had it.
    fn averages(&self, now: Time) -> Vec<NodeLinks> {
        let seconds = now.since(self.averaged_at).as_secs_f64();
        let weight = seconds / (MEMORY_SECONDS + seconds);
        let towards = |average: f64, last: f64| average + (last - average) * weight;
        let links = self.average.iter().zip(&self.last);
        links
            .map(|(average, last)| NodeLinks {
                up: towards(average.up, last.up),
                down: towards(average.down, last.down),
            })
            .collect()
    }

    fn links_of_late(&self, now: Time, cluster: &Cluster) -> Vec<NodeLinks> {
        if self.last.len() == cluster.nodes.len() {
            self.averages(now)
        } else {
            node_links(cluster)
        }
    }

    /// The cluster with links as they were on average of late, if they have changed at all.
    fn averaged(&self, now: Time, cluster: &Cluster) -> Option<Cluster> {
        if self.last.len() != cluster.nodes.len() {
            return None;
        }
        let mut averaged = cluster.clone();
        for (node, links) in averaged.nodes.iter_mut().zip(self.averages(now)) {
            // Averages are of what is free.
            (node.uplink, node.downlink) = (Rate(links.up), Rate(links.down));
            (node.foreground_uplink, node.foreground_downlink) = (Rate(0.0), Rate(0.0));
        }
        Some(averaged)
    }

    pub fn directives(&mut self, snapshot: &Snapshot<'_>) -> Vec<Directive> {
        let mut directives = Vec::new();
        // Averages go on towards what links have had since they last changed.
        let is_due = snapshot.now.since(self.measured_at) >= MEASURE;
        if std::mem::take(&mut self.have_links_changed) || (is_due && !self.last.is_empty()) {
            directives = self.follow_links(snapshot);
        }
        if is_due {
            self.measured_at = snapshot.now;
            directives.extend(self.measure(snapshot, Examined::All));
        } else if snapshot.now.since(self.looked_at) >= MEASURE_LAST {
            directives.extend(self.measure(snapshot, Examined::Last));
        }
        directives
    }

    /// Where links are other than when plans were made, what waits is planned again; repairs leave
    /// helpers that have become slow since they were planned.
    fn follow_links(&mut self, snapshot: &Snapshot<'_>) -> Vec<Directive> {
        let now = self.links_of_late(snapshot.now, snapshot.cluster);
        let mut directives = Vec::new();
        let mut pairs = self.planned_for.iter().zip(&now);
        let is_other = pairs.any(|(was, is)| was.differs_from(*is));
        if is_other || self.planned_for.len() != now.len() {
            self.planned_for.clone_from(&now);
            if !snapshot.waiting.is_empty() {
                directives.push(Directive::PlanAgain);
            }
        }
        for (id, repair) in snapshot.active {
            let Some(links) = &repair.planned.planned_for else { continue };
            let is_slower = |node: &NodeId| {
                let (was, is) = (links.get(node.index()), now[node.index()]);
                was.is_some_and(|was| was.up > is.up * FASTER)
            };
            if let Some(straggler) = repair.planned.plan.participants().into_iter().find(is_slower)
            {
                let enough = FASTER * snapshot.cluster.node(straggler).uplink_free().0;
                let cause = Cause::Slower(enough);
                directives.extend(self.leave(snapshot, *id, repair, straggler, cause));
            }
        }
        directives
    }

    /// What gets less than half of its share for no reason that the reported links show.
    fn measure(&mut self, snapshot: &Snapshot<'_>, examined: Examined) -> Vec<Directive> {
        self.looked_at = snapshot.now;
        if snapshot.shares_caps {
            // What links have left is no measure then: parts of a cap change every second. Later it
            // counts from here.
            let come = |(id, repair): (&RepairId, &ActiveRepair)| {
                (*id, (repair.reported_at, repair.bytes_done))
            };
            self.seen.extend(snapshot.active.iter().map(come));
            return Vec::new();
        }
        let (mut late, mut lags) = (Vec::new(), BTreeSet::new());
        let mut compared: Vec<RepairId> = Vec::new();
        for (id, repair) in snapshot.active {
            let is_last = repair.fraction_left() <= LAST;
            let is_looked_at = is_last || examined == Examined::All;
            let standing =
                is_looked_at.then(|| self.standing(snapshot.cluster, *id, repair)).flatten();
            if standing.is_some() || examined == Examined::All {
                compared.push(*id);
            }
            if matches!(standing, Some(Standing::Late | Standing::Lags)) {
                late.push(*id);
            }
            if standing == Some(Standing::Lags) {
                lags.insert(*id);
            }
        }
        let repair = |id: &RepairId| &snapshot.active[id];
        let straggler = find_straggler(late.iter().map(repair), compared.iter().map(repair));
        let Some(straggler) = straggler else { return Vec::new() };
        let takes_part = |id: &RepairId| snapshot.active[id].planned.uses(straggler);
        let (late, others): (Vec<RepairId>, Vec<RepairId>) = late.into_iter().partition(takes_part);
        let its = compared.iter().filter(|id| takes_part(id)).count();
        let part = |late: usize, all: usize| late as f64 / all.max(1) as f64;
        if part(late.len(), its) < 2.0 * part(others.len(), compared.len() - its) {
            // The others are late as well: what slows them down is no single node.
            return Vec::new();
        }
        let late = late.into_iter().filter(|id| lags.contains(id));
        late.filter_map(|id| {
            self.leave(snapshot, id, &snapshot.active[&id], straggler, Cause::Lags)
        })
        .collect()
    }

    /// How a repair gets on, if that can be measured: from one report about it to a later one,
    /// since those are rare in large clusters, and for so long that its share is more than what may
    /// be under way. What has come in full waits for its proof, and for no node.
    fn standing(
        &mut self,
        cluster: &Cluster,
        id: RepairId,
        repair: &ActiveRepair,
    ) -> Option<Standing> {
        let (since, before) = self.seen.get(&id).copied().unwrap_or((repair.since, 0));
        let left = repair.fraction_left();
        let (measure_min, rest_seconds) = if left <= LAST {
            (MEASURE_LAST_MIN, REST_LAST_SECONDS)
        } else {
            (MEASURE_MIN, REST_SECONDS)
        };
        if repair.reported_at < since + measure_min || left <= 0.0 {
            return None;
        }
        let seconds = repair.reported_at.since(since).as_secs_f64();
        let come = repair.bytes_done.saturating_sub(before) as f64;
        let bytes = repair.planned.plan.range.bytes() as f64;
        let fair = self.share(cluster, repair) * seconds;
        let is_below = |part: f64| come + IN_FLIGHT_PART * bytes < part * fair;
        let is_late = is_below(LAGGING);
        if !is_late && LAGGING * fair < 2.0 * IN_FLIGHT_PART * bytes {
            // Too little was due, whatever has come.
            return None;
        }
        self.seen.insert(id, (repair.reported_at, repair.bytes_done));
        if !is_late {
            return Some(Standing::Enough);
        }
        let takes_long = left * bytes > come / seconds * rest_seconds;
        let lags = takes_long && (!has_traces(repair) || is_below(LAGGING_TRACES));
        Some(if lags { Standing::Lags } else { Standing::Late })
    }

    /// The bytes of its chunk that a repair gets in a second at least, if every port serves its
    /// lanes by what they have to move.
    fn share(&self, cluster: &Cluster, repair: &ActiveRepair) -> f64 {
        let seconds = repair.planned.link_loads.iter().map(|(node, _)| {
            self.load.get(node).map_or(0.0, |links| links.seconds(cluster.node(*node)))
        });
        let slowest = seconds.fold(0.0, f64::max);
        if slowest > 0.0 { repair.planned.plan.range.bytes() as f64 / slowest } else { 0.0 }
    }

    /// A plan for the rest of a repair without the straggler, if that is worth it and a node with a
    /// fast enough uplink can stand in.
    fn leave(
        &mut self,
        snapshot: &Snapshot<'_>,
        repair: RepairId,
        active: &ActiveRepair,
        straggler: NodeId,
        cause: Cause,
    ) -> Option<Directive> {
        let (enough, is_worth_it) = match cause {
            Cause::Slower(enough) => {
                (enough, active.fraction_left() > REST_MIN && !has_traces(active))
            }
            Cause::Lags => (0.0, true),
        };
        if !is_worth_it || self.treated.contains(&repair) {
            return None;
        }
        let uplink = |node: NodeId| snapshot.cluster.node(node).uplink_free().0;
        let mut faster = helpers(active);
        faster.retain(|&helper| helper != straggler && uplink(helper) >= enough);
        let bytes = active.planned.plan.range.bytes() as f64;
        let candidate = |stand_in: StandIn| {
            let seconds = |node: NodeId| {
                let load = self.load.get(&node).copied().unwrap_or_default();
                let links = snapshot.cluster.node(node);
                let up = (load.up_bytes + bytes) / links.uplink_free().usable().0;
                let down = (load.down_bytes + bytes) / links.downlink_free().usable().0;
                if stand_in == StandIn::TakesOver { up.max(down) } else { up }
            };
            let mut helpers = faster.clone();
            helpers.sort_by(|&a, &b| seconds(a).total_cmp(&seconds(b)).then(a.cmp(&b)));
            let planned = leave(active, straggler, &helpers, stand_in)?;
            let seconds = planned.link_loads.iter().map(|(node, links)| {
                let mut all = self.load.get(node).copied().unwrap_or_default();
                all.add(*links);
                all.seconds(snapshot.cluster.node(*node))
            });
            Some((seconds.fold(0.0, f64::max), planned.plan))
        };
        let plans = [StandIn::Sends, StandIn::TakesOver].into_iter().filter_map(candidate);
        let (_, plan) = plans.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        self.treated.insert(repair);
        self.replaced.insert(plan.stripe);
        Some(Directive::Replace { repair, plan })
    }

    pub fn next_deadline(&self, runs: bool) -> Option<Time> {
        runs.then(|| self.measured_at + MEASURE)
    }
}

/// How many repairs run at a time.
pub(super) fn active_max(snapshot: &Snapshot<'_>) -> usize {
    ACTIVE_A_NODE * snapshot.nodes.max(1)
}

/// Whether helpers send traces, in the place of which others would send whole chunks.
fn has_traces(repair: &ActiveRepair) -> bool {
    repair.planned.plan.lanes.iter().any(|lane| lane.scheme.is_some())
}

fn node_links(cluster: &Cluster) -> Vec<NodeLinks> {
    let links = |node: &Node| NodeLinks { up: node.uplink_free().0, down: node.downlink_free().0 };
    cluster.nodes.iter().map(links).collect()
}

/// An order in which the fullest link grows as slowly as it can: each time, of all that are left,
/// the plan after which the fullest of its own links is least full. That only ever grows, so a
/// value that is out of date is too small, and a heap finds the least by looking again.
fn balanced_order(planned: &[Option<PlannedRepair>], cluster: &Cluster) -> Vec<usize> {
    let loads = |index: usize| planned[index].iter().flat_map(|planned| &planned.link_loads);
    let mut load = vec![LinkLoad::default(); cluster.nodes.len()];
    let fullest = |load: &[LinkLoad], index: usize| {
        let after = loads(index).map(|&(node, links)| {
            let mut total = load[node.index()];
            total.add(links);
            total.seconds(cluster.node(node))
        });
        after.fold(0.0, f64::max)
    };
    let entry = |load: &[LinkLoad], index| Entry { seconds: fullest(load, index), index };
    let mut heap: BinaryHeap<Entry> = (0..planned.len()).map(|index| entry(&load, index)).collect();
    let mut order = Vec::with_capacity(planned.len());
    while let Some(least) = heap.pop() {
        let now = entry(&load, least.index);
        if heap.peek().is_some_and(|next| now.seconds > next.seconds) {
            heap.push(now);
            continue;
        }
        for &(node, links) in loads(least.index) {
            load[node.index()].add(links);
        }
        order.push(least.index);
    }
    order
}

/// The least is the greatest, as a heap wants it; of equals the first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    seconds: f64,
    index: usize,
}

impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        other.seconds.total_cmp(&self.seconds).then(other.index.cmp(&self.index))
    }
}
