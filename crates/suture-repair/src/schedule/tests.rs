//! Each schedule by tables: what waits and what runs, and what the schedule answers.
//!
//! Links carry a chunk a second, so seconds of a link are chunks through it. A repair is written as
//! the edges of its tree, `(sender, receiver)`, and has its stripe's number for an id.

mod growth;
mod others;
mod phases;
mod slots;
mod waves;

use std::sync::Arc;

use suture_code::Code;

use super::straggler::{find_straggler, leave, relieve};
use super::*;
use crate::cluster::Rate;
use crate::id::{ChunkIndex, NodeId};
use crate::plan::detour::StandIn;
use crate::plan::{Carries, Edge, Lane, Mode, Range, Start};
use crate::planner::Job;
use crate::policy::Policy;

const CHUNK: u64 = 128;
const LINK: f64 = CHUNK as f64;

type Edges<'a> = &'a [(u32, u32)];

fn at(seconds: f64) -> Time {
    Time { ns: (seconds * 1e9).round() as u64 }
}

/// A repair of one chunk. Node 8 holds a chunk that it does without.
fn planned(stripe: u64, edges: Edges<'_>) -> PlannedRepair {
    let mut helpers: Vec<u32> = edges.iter().map(|(child, _)| *child).collect();
    helpers.sort_unstable();
    let is_root = |(_, parent): &&(u32, u32)| !helpers.contains(parent);
    let root = edges.iter().find(is_root).expect("a tree has a root").1;
    let code: Code = format!("rs({},2)", helpers.len()).parse().expect("a code");
    let holders = helpers.iter().chain(&[8]).map(|node| NodeId(*node));
    let job = Job {
        stripe: StripeId(stripe),
        code: code.into(),
        chunk_bytes: CHUNK,
        lost: vec![ChunkIndex(0)],
        survivors: (1..).map(ChunkIndex).zip(holders).collect(),
        idle: Vec::new(),
        excluded: Vec::new(),
        keeper_places: Vec::new(),
        avoid: Vec::new(),
        source: None,
    };
    let range = Range { from: 0, to: CHUNK };
    let edge = |&(child, parent): &(u32, u32)| Edge {
        child: NodeId(child),
        parent: NodeId(parent),
        bytes: CHUNK,
        carries: Carries::Partial,
    };
    let lane = Lane {
        range,
        lost: job.lost.clone(),
        mode: Mode::Streamed,
        decoder: None,
        scheme: None,
        edges: edges.iter().map(edge).collect(),
    };
    let plan = Plan {
        stripe: job.stripe,
        lost: job.lost.clone(),
        destinations: [(ChunkIndex(0), NodeId(root))].into(),
        start: Start::Now,
        range,
        period: None,
        lanes: vec![lane],
    };
    PlannedRepair::new(job, plan)
}

fn all_planned(all: &[Edges<'_>]) -> Vec<PlannedRepair> {
    (0..).zip(all).map(|(stripe, edges)| planned(stripe, edges)).collect()
}

/// So many repairs through the same two ports.
fn alike(count: u64) -> Vec<PlannedRepair> {
    (0..count).map(|stripe| planned(stripe, &[(1, 2)])).collect()
}

fn active(edges: Edges<'_>, bytes_done: u64) -> ActiveRepair {
    let cluster = Cluster::uniform(9, Rate(LINK));
    let mut active = ActiveRepair::new(Time::ZERO, Arc::new(planned(0, edges)), &cluster);
    active.progressed(at(1.0), bytes_done);
    active
}

fn edges_of(plan: &Plan) -> Vec<(u32, u32)> {
    plan.lanes[0].edges.iter().map(|edge| (edge.child.0, edge.parent.0)).collect()
}

/// A schedule with what it looks at: nine nodes, and no ledger but these fields.
struct Bench {
    scheduler: Scheduler,
    edges: Option<EdgeSchedule>,
    cluster: Cluster,
    waiting: Waiting,
    active: ActiveRepairs,
    ready: usize,
    urgent: usize,
    shares_caps: bool,
    now: Time,
}

impl Bench {
    fn new(schedule: &str) -> Bench {
        let policy: Policy = format!("chain/greedy/{schedule}").parse().expect("a policy");
        Bench {
            scheduler: Scheduler::new(policy),
            edges: EdgeSchedule::of(policy.schedule),
            cluster: Cluster::uniform(9, Rate(LINK)),
            waiting: Waiting::default(),
            active: ActiveRepairs::new(),
            ready: 0,
            urgent: 0,
            shares_caps: false,
            now: Time::ZERO,
        }
    }

    fn ask<T>(&mut self, what: impl FnOnce(&mut Scheduler, Snapshot<'_>) -> T) -> T {
        let code = "rs(6,3)".parse().expect("a code");
        let snapshot = Snapshot {
            now: self.now,
            cluster: &self.cluster,
            nodes: self.cluster.nodes.len(),
            ready: self.ready,
            urgent: self.urgent,
            attempts: self.active.len(),
            sample: Some(Sample { code, chunk_bytes: CHUNK }),
            shares_caps: self.shares_caps,
            waiting: &self.waiting,
            active: &self.active,
            edges: self.edges.as_ref(),
        };
        what(&mut self.scheduler, snapshot)
    }

    fn quota(&mut self) -> Quota {
        self.ask(|schedule, snapshot| schedule.quota(snapshot))
    }

    /// Plans were made. Returns the stripes that wait, in order.
    fn plan(&mut self, made: Vec<PlannedRepair>) -> Vec<u64> {
        let kept = self.ask(|schedule, snapshot| schedule.arrange(snapshot, made));
        kept.into_iter().for_each(|planned| self.waiting.push(planned, 1));
        self.waiting.iter().map(|planned| planned.plan.stripe.0).collect()
    }

    /// Starts all that the schedule wants. Returns their stripes, in order.
    fn start(&mut self) -> Vec<u64> {
        let mut started = Vec::new();
        while let Some(stripe) = self.ask(|schedule, snapshot| schedule.next(snapshot, &[])) {
            let planned = Arc::new(self.waiting.remove(stripe).expect("it waits"));
            let repair = RepairId(stripe.0);
            self.edges.iter_mut().for_each(|edges| edges.started(repair, &planned.plan));
            self.active.insert(repair, ActiveRepair::new(self.now, planned, &self.cluster));
            self.ask(|schedule, snapshot| schedule.started(snapshot, repair));
            started.push(stripe.0);
        }
        started
    }

    fn end(&mut self, stripe: u64) {
        let was = self.active.remove(&RepairId(stripe)).expect("it is active");
        self.scheduler.ended(RepairId(stripe), &was);
        self.edges.iter_mut().for_each(|edges| edges.ended(RepairId(stripe)));
    }

    fn progress(&mut self, stripe: u64, bytes_done: u64) {
        let active = self.active.get_mut(&RepairId(stripe)).expect("it is active");
        active.progressed(self.now, bytes_done);
    }

    fn uplink(&mut self, node: u32, links: f64) {
        self.cluster.nodes[node as usize].uplink = Rate(links * LINK);
        self.scheduler.links_changed(self.now, &self.cluster);
    }

    fn directives(&mut self) -> Vec<Directive> {
        self.ask(|schedule, snapshot| schedule.directives(snapshot))
    }

    /// The edges of the only replacement that is wanted.
    fn replacement(&mut self) -> (u64, Vec<(u32, u32)>) {
        match &self.directives()[..] {
            [Directive::Replace { repair, plan }] => (repair.0, edges_of(plan)),
            other => panic!("a replacement, not {other:?}"),
        }
    }

    fn deadline(&mut self) -> Option<Time> {
        self.ask(|schedule, snapshot| schedule.next_deadline(snapshot))
    }

    /// What flows from now on, as (repair, sender, receiver).
    fn release(&mut self) -> Vec<(u64, u32, u32)> {
        let edges = self.edges.as_mut().expect("the schedule has slots");
        let released = edges.release(self.now, &self.cluster).into_iter();
        released.map(|edge| (edge.repair.0, edge.child.0, edge.parent.0)).collect()
    }

    fn arrive(&mut self, (repair, child, parent): (u64, u32, u32)) {
        let (child, parent) = (NodeId(child), NodeId(parent));
        let edge = EdgeRelease { repair: RepairId(repair), lane: 0, child, parent };
        let edges = self.edges.as_mut().expect("the schedule has slots");
        assert!(edges.arrived(self.now, edge), "{edge:?} was not released");
    }
}

#[test]
fn all_plans_everything_and_starts_it_in_order() {
    let mut bench = Bench::new("all");
    assert_eq!(bench.quota(), Quota::ALL);
    assert_eq!(bench.plan(all_planned(&[&[(1, 2)], &[(3, 4)], &[(5, 6)]])), [0, 1, 2]);
    let passed_and_next: [(&[u64], Option<u64>); 4] =
        [(&[], Some(0)), (&[0], Some(1)), (&[0, 1], Some(2)), (&[0, 1, 2], None)];
    for (passed, next) in passed_and_next {
        let passed: Vec<StripeId> = passed.iter().copied().map(StripeId).collect();
        let found = bench.ask(|schedule, snapshot| schedule.next(snapshot, &passed));
        assert_eq!(found, next.map(StripeId), "after {passed:?}");
    }
    assert_eq!(
        (bench.start(), bench.directives(), bench.deadline()),
        (vec![0, 1, 2], vec![], None)
    );
}

#[test]
fn a_window_lets_so_many_run_or_as_many_as_there_are_nodes() {
    for (schedule, window) in [("window:2", 2), ("window", 9)] {
        let mut bench = Bench::new(schedule);
        bench.plan(alike(12));
        assert_eq!(bench.start(), (0..window).collect::<Vec<u64>>(), "{schedule}");
        bench.end(1);
        assert_eq!(bench.start(), [window], "{schedule}: one ends, one starts");
    }
}

/// After RepairBoost, section 3.3.
#[test]
fn in_a_slot_each_node_sends_one_chunk_and_receives_one() {
    let mut bench = Bench::new("slots");
    bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(1, 4), (2, 4)]]));
    bench.start();
    let slots = [[(0, 1, 3), (1, 2, 4)], [(0, 2, 3), (1, 1, 4)]];
    for [first, second] in slots {
        assert_eq!(bench.release(), [first, second]);
        bench.arrive(second);
        assert!(
            bench.release().is_empty(),
            "the next slot begins when all of this one has arrived"
        );
        bench.arrive(first);
    }
    assert!(bench.release().is_empty());
}

#[test]
fn a_node_sends_what_it_sums_when_all_of_it_has_arrived() {
    let mut bench = Bench::new("slots");
    bench.plan(all_planned(&[&[(1, 3), (2, 3), (3, 4)]]));
    bench.start();
    for edge in [(0, 1, 3), (0, 2, 3), (0, 3, 4)] {
        assert_eq!(bench.release(), [edge]);
        bench.arrive(edge);
    }
}

#[test]
fn of_a_pair_that_goes_first_which_makes_its_receiver_a_leaf() {
    let mut bench = Bench::new("slots");
    bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(1, 3), (3, 4)]]));
    bench.start();
    assert_eq!(bench.release(), [(1, 1, 3)], "repair 0 would still wait for node 2");
}

/// RepairBoost, section 3.4, polling.
#[test]
fn on_unequal_links_the_node_that_spent_the_least_takes_its_fastest_link() {
    let mut bench = Bench::new("slots");
    bench.cluster.nodes[2].uplink = Rate(2.0 * LINK);
    bench.cluster.nodes[3].downlink = Rate(2.0 * LINK);
    bench.plan(all_planned(&[&[(1, 3)], &[(2, 3)], &[(4, 5)]]));
    bench.start();
    assert_eq!(bench.release(), [(1, 2, 3), (2, 4, 5)], "node 3 receives one at a time");
    bench.arrive((1, 2, 3));
    assert_eq!(bench.release(), [(0, 1, 3)], "without waiting for a slot to end");
}

/// RepairBoost, section 3.4, subprocesses.
#[test]
fn a_subprocess_is_planned_by_who_was_done_first_and_last_in_the_one_before() {
    let mut bench = Bench::new("slots:2");
    bench.ready = 4;
    assert_eq!(bench.quota(), Quota::of(2));
    bench.plan(all_planned(&[&[(1, 3)], &[(2, 4)]]));
    assert_eq!(bench.quota(), Quota::NONE, "plans wait");
    bench.start();
    assert_eq!(bench.quota(), Quota::NONE, "repairs run");
    bench.release();
    for (seconds, edge) in [(1.0, (0, 1, 3)), (4.0, (1, 2, 4))] {
        bench.now = at(seconds);
        bench.arrive(edge);
        bench.end(edge.0);
    }
    let quota = bench.quota();
    let links = quota.cluster.expect("links look otherwise now").nodes;
    let factors: Vec<f64> = links.iter().map(|node| node.uplink.0 / LINK).collect();
    assert_eq!(factors, [1.0, 1.1, 1.0, 1.0, 1.0 / 1.1, 1.0, 1.0, 1.0, 1.0]);
}

/// After PivotRepair, Equation 3.
#[test]
fn adaptive_starts_what_competes_least_until_ports_are_shared_by_eight() {
    let mut bench = Bench::new("adaptive");
    bench.plan(all_planned(&[&[(1, 2)], &[(1, 2)], &[(1, 2)], &[(3, 4)]]));
    assert_eq!(bench.start(), [0, 3, 1, 2]);

    let mut bench = Bench::new("adaptive");
    bench.plan(alike(12));
    assert_eq!(bench.start().len(), 9, "r = 1 - n / 8 is below 0 with nine");
    bench.end(0);
    assert_eq!(bench.start().len(), 1);
    assert_eq!(bench.deadline(), Some(at(1.0)), "r may rise without an end");
}

#[test]
fn a_repair_that_is_behind_its_time_counts_more() {
    let mut bench = Bench::new("adaptive");
    bench.plan(vec![planned(0, &[(1, 2)])]);
    bench.start();
    bench.plan(vec![planned(1, &[(1, 2)]), planned(2, &[(1, 4)])]);
    bench.now = at(9.0);
    // Expected after one second, so it weighs as much as nine: r is 1 - 9 / 8, and 1 - 9 / 16.
    assert_eq!(bench.start(), [2]);
    [0, 2].into_iter().for_each(|stripe| bench.end(stripe));
    assert_eq!(bench.start(), [1], "where nothing runs the best starts");
}

#[test]
fn adaptive_plans_what_waits_again_when_links_change_at_most_once_a_second() {
    let mut bench = Bench::new("adaptive");
    bench.plan(vec![planned(0, &[(1, 2)])]);
    let wanted = [(0.0, true), (0.5, false), (1.0, true)];
    for (round, (seconds, wants)) in wanted.into_iter().enumerate() {
        bench.now = at(seconds);
        bench.uplink(1, 0.5 + round as f64);
        let expected = if wants { vec![Directive::PlanAgain] } else { Vec::new() };
        assert_eq!(bench.directives(), expected, "after {seconds} s");
    }
}

/// After ChameleonEC, section III-A.
#[test]
fn a_phase_takes_what_its_nodes_can_finish() {
    let mut bench = Bench::new("phases:2");
    assert_eq!(bench.quota(), Quota::NONE, "nothing is ready");
    bench.ready = 100;
    // 18 links of 2 chunks each, and a quarter more.
    assert_eq!(bench.quota(), Quota::of(45));
    // A third second on node 1's uplink does not fit; what stands behind it does.
    let made = all_planned(&[&[(1, 2)], &[(1, 3)], &[(1, 4)], &[(5, 6)]]);
    assert_eq!(bench.plan(made), [0, 1, 3]);
    assert_eq!(bench.start(), [0, 1, 3]);
    assert_eq!(bench.quota(), Quota::NONE, "the phase is not over");
    assert_eq!(bench.deadline(), Some(at(1.2)), "repair 3 is late a tenth of the phase after 1 s");
    bench.now = at(2.0);
    assert_eq!(bench.quota(), Quota::of(45));
}

/// ChameleonEC, section III-D, storage-bottlenecked scenarios.
#[test]
fn a_phase_by_disks_takes_what_these_can_write() {
    let taken = |balance: &str| {
        let policy: Policy = format!("tunable/{balance}/phases:2").parse().expect("a policy");
        let mut bench = Bench { scheduler: Scheduler::new(policy), ..Bench::new("phases:2") };
        let write = Some(Rate(LINK / 4.0));
        bench.cluster.nodes.iter_mut().for_each(|node| node.disk_write = write);
        bench.ready = 100;
        bench.quota();
        bench.plan(all_planned(&[&[(1, 2)], &[(3, 2)], &[(4, 5)]]))
    };
    assert_eq!(taken("chameleon"), [0, 1, 2], "2 s on the downlink of node 2");
    assert_eq!(taken("chameleon:io"), [0, 2], "8 s on its disk, and one chunk takes 4 s");
}

#[test]
fn the_next_phase_begins_early_when_nothing_is_left_and_may_take_the_shortest_first() {
    let mut bench = Bench::new("phases:4:by-time");
    bench.ready = 100;
    bench.quota();
    assert_eq!(bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(4, 5)]])), [1, 0]);
    bench.start();
    bench.now = at(2.5);
    [0, 1].into_iter().for_each(|stripe| bench.end(stripe));
    assert_ne!(bench.quota(), Quota::NONE);
}

#[test]
fn slots_may_take_the_shortest_first() {
    let planned = || all_planned(&[&[(1, 3), (2, 3)], &[(4, 5)]]);
    assert_eq!(Bench::new("slots").plan(planned()), [0, 1]);
    assert_eq!(Bench::new("slots:by-time").plan(planned()), [1, 0]);
}

#[test]
fn no_more_trees_wait_than_are_compared_and_as_many_again() {
    let mut bench = Bench::new("adaptive");
    bench.ready = 10_000;
    assert_eq!(bench.quota().stripes, 2048);
    bench.plan((0..1024).map(|stripe| planned(stripe, &[(1, 2)])).collect());
    assert_eq!(bench.quota(), Quota::NONE);
    bench.urgent = 3;
    assert_eq!(bench.quota().stripes, 3, "what is more urgent waits for none of them");
}

/// ChameleonEC, section III-C: what the straggler would have received goes to the destination.
#[test]
fn a_late_repair_is_tuned_around_the_straggler() {
    let mut bench = Bench::new("phases:4");
    // Node 2 is only in the first; 2 s and 3 s on their fullest links.
    bench.plan(all_planned(&[&[(1, 2), (2, 3), (4, 3)], &[(1, 5), (3, 5), (4, 5)]]));
    bench.start();
    bench.now = at(2.3);
    assert!(bench.directives().is_empty(), "late is 0.4 s behind");
    bench.now = at(2.4);
    bench.progress(0, 40);
    let tuned = vec![(1, 3), (2, 3), (4, 3)];
    assert_eq!(bench.replacement(), (0, tuned));
    assert!(bench.directives().is_empty(), "once");
}

/// ChameleonEC, section III-C, transmission re-ordering.
#[test]
fn a_late_repair_whose_straggler_receives_nothing_rests_until_the_others_are_done() {
    let mut bench = Bench::new("phases:4");
    let star = |root| [(1, root), (2, root), (4, root)];
    bench.plan(all_planned(&[&star(3), &[(1, 5), (3, 5), (4, 5)], &[(6, 5)]]));
    bench.start();
    bench.now = at(3.4);
    let hold = |held| vec![Directive::Hold { repair: RepairId(0), held }];
    assert_eq!(bench.directives(), hold(true));
    assert!(bench.directives().is_empty());
    bench.end(1);
    bench.end(2);
    assert_eq!(bench.directives(), hold(false));
}

#[test]
fn waves_plan_everything_while_links_can_tell_flows_apart_and_then_64_stripes_a_node() {
    let mut bench = Bench::new("waves");
    // 256 flows on each of 9 nodes, 6 for each stripe.
    for (ready, quota) in [(384, Quota::ALL), (385, Quota::of(576))] {
        bench.ready = ready;
        assert_eq!(bench.quota(), quota, "{ready} ready");
    }
    bench.plan(alike(500));
    assert_eq!(bench.quota(), Quota::NONE, "more than half of a wave waits");
    bench.urgent = 3;
    assert_eq!(
        bench.quota(),
        Quota::of(3),
        "what can lose less than all of it is not kept waiting"
    );
    bench.urgent = 0;
    assert_eq!(bench.start().len(), 432, "48 a node at a time");
    assert_eq!(bench.quota(), Quota::of(576), "the next wave, on top of what is left");
}

#[test]
fn every_beginning_of_a_wave_is_balanced() {
    let mut bench = Bench::new("waves");
    let made = all_planned(&[&[(1, 2)], &[(1, 3)], &[(1, 4)], &[(5, 6)], &[(7, 6)], &[(7, 0)]]);
    assert_eq!(bench.plan(made), [0, 3, 5, 1, 4, 2]);
}

#[test]
fn when_a_link_becomes_slow_what_waits_is_planned_again_and_what_runs_leaves_it() {
    let mut bench = Bench::new("waves");
    bench.plan(vec![planned(0, &[(1, 3), (2, 3)])]);
    bench.start();
    bench.plan(vec![planned(1, &[(4, 5)])]);
    bench.uplink(1, 0.9);
    assert!(bench.directives().is_empty(), "a tenth is no change");
    bench.now = at(60.0);
    bench.uplink(1, 0.1);
    assert!(bench.directives().is_empty(), "it has had that for no time");
    // No link changes any more, and the average falls little by little.
    let said: Vec<Directive> = (61..=120)
        .flat_map(|second| {
            bench.now = at(f64::from(second));
            bench.directives()
        })
        .collect();
    assert_eq!(said[0], Directive::PlanAgain);
    let plans: Vec<&Plan> = said
        .iter()
        .filter_map(|directive| match directive {
            Directive::Replace { plan, .. } => Some(plan),
            _ => None,
        })
        .collect();
    assert_eq!(plans.len(), 1, "{said:?}");
    assert_eq!(edges_of(plans[0]), [(8, 3), (2, 3)]);
    let quota = bench.quota();
    let uplink = quota.cluster.expect("averages").nodes[1].uplink.0 / LINK;
    assert!((uplink - 0.3).abs() < 1e-9, "three quarters of the way after 60 s: {uplink}");
}

/// Two repairs after three seconds, of which the first got less than half of its share.
fn one_that_lags() -> Bench {
    one_that_got(48)
}

/// The same, of which the first got so many bytes.
fn one_that_got(bytes: u64) -> Bench {
    let mut bench = Bench::new("waves");
    bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(4, 6), (5, 6)]]));
    bench.start();
    bench.now = at(3.0);
    // Two chunks through a downlink: 64 bytes a second are fair.
    bench.progress(0, bytes);
    bench.progress(1, 120);
    bench
}

#[test]
fn what_gets_less_than_half_of_its_share_goes_on_with_another_helper() {
    let mut bench = one_that_lags();
    assert_eq!(bench.replacement(), (0, vec![(8, 3), (2, 3)]));
    assert_eq!(bench.deadline(), Some(at(6.0)));
}

#[test]
fn what_stands_in_takes_over_where_the_next_node_has_the_slower_link() {
    // Node 2 adds up for node 3, and gets less than half of its share.
    for (downlink, expected) in [(0.1, [(1, 8), (8, 3)]), (9.0, [(1, 3), (8, 3)])] {
        let mut bench = Bench::new("waves");
        bench.cluster.nodes[3].downlink = Rate(downlink * LINK);
        bench.cluster.nodes[8].downlink = Rate(LINK / 2.0);
        bench.plan(all_planned(&[&[(1, 2), (2, 3)], &[(4, 6), (5, 6)]]));
        bench.start();
        bench.now = at(3.0);
        bench.progress(0, 1);
        bench.progress(1, 120);
        let lags = bench.active.get_mut(&RepairId(0)).expect("it is active");
        lags.reported = [(NodeId(1), 64), (NodeId(2), 1)].into();
        let replaced = bench.directives();
        let Some(Directive::Replace { plan, .. }) = replaced.first() else {
            panic!("it goes on without node 2: {replaced:?}")
        };
        assert_eq!(edges_of(plan), expected);
    }
}

#[test]
fn where_nodes_share_a_cap_nothing_is_found_to_lag() {
    let mut bench = one_that_got(8);
    bench.shares_caps = true;
    assert_eq!(bench.directives(), []);
    // Nor afterwards, for what it got under the cap.
    bench.shares_caps = false;
    bench.now = at(6.0);
    bench.progress(0, 112);
    bench.progress(1, 128);
    assert_eq!(bench.directives(), []);
}

#[test]
fn what_could_not_go_on_another_way_may_later_and_what_went_on_may_not() {
    for (is_refused, may_later) in [(false, false), (true, false), (true, true)] {
        let mut bench = one_that_lags();
        let (repair, _) = bench.replacement();
        if is_refused {
            bench.scheduler.refused(RepairId(repair), StripeId(0), may_later);
        }
        bench.now = at(6.0);
        bench.progress(0, 48);
        bench.progress(1, 128);
        let again = bench.directives();
        assert_eq!(again.len(), usize::from(may_later), "{again:?}");
    }
}

#[test]
fn the_node_is_blamed_of_whose_repairs_the_largest_share_is_late() {
    let cases: [(&[Edges<'_>], &[Edges<'_>], Option<u32>); 4] = [
        (&[], &[&[(1, 2)]], None),
        (&[&[(1, 2)]], &[&[(1, 2)], &[(1, 3)]], Some(2)),
        (&[&[(1, 2)], &[(1, 3)]], &[&[(1, 2)], &[(1, 3)]], Some(1)),
        (&[&[(1, 2)]], &[&[(1, 2)]], Some(1)),
    ];
    for (late, all, blamed) in cases {
        let repairs =
            |of: &[Edges<'_>]| of.iter().map(|edges| active(edges, 0)).collect::<Vec<_>>();
        let (late, all) = (repairs(late), repairs(all));
        assert_eq!(find_straggler(late.iter(), all.iter()), blamed.map(NodeId));
    }
}

/// Of one repair that is late it cannot be said otherwise.
#[test]
fn of_nodes_whose_repairs_are_late_alike_the_one_is_blamed_that_is_furthest_behind() {
    let star: Edges<'_> = &[(1, 3), (2, 3), (4, 3)];
    let chain: Edges<'_> = &[(4, 2), (2, 1), (1, 3)];
    type Case<'a> = (&'a str, Edges<'a>, [(u32, u64); 3], u32);
    let cases: [Case<'_>; 6] = [
        ("the slowest of a star", star, [(1, 80), (2, 64), (4, 80)], 2),
        ("all alike: the lowest", star, [(1, 64), (2, 64), (4, 64)], 1),
        ("the first of a chain, for which all wait", chain, [(4, 64), (2, 63), (1, 62)], 4),
        ("a relay that has what it is sent", chain, [(4, 80), (2, 64), (1, 62)], 2),
        ("the last of a chain", chain, [(4, 96), (2, 80), (1, 64)], 1),
        ("one has not spoken", star, [(2, 64), (4, 80), (4, 80)], 1),
    ];
    for (name, edges, told, blamed) in cases {
        let mut repair = active(edges, 0);
        repair.reported = told.into_iter().map(|(node, bytes)| (NodeId(node), bytes)).collect();
        let one = [repair];
        assert_eq!(find_straggler(one.iter(), one.iter()), Some(NodeId(blamed)), "{name}");
    }
}

#[test]
fn what_goes_on_another_way_keeps_its_range_and_what_has_come_in_full_does_not() {
    let chain = active(&[(1, 2), (2, 3), (4, 3)], 100);
    let relieved = relieve(&chain, NodeId(2)).expect("node 2 receives");
    assert_eq!(edges_of(&relieved), [(1, 3), (2, 3), (4, 3)]);
    assert_eq!(relieved.lanes[0].range, chain.planned.plan.lanes[0].range);
    let left = |repair: &ActiveRepair, straggler: NodeId, stand_in: StandIn| {
        leave(repair, straggler, &[NodeId(8)], stand_in).map(|planned| planned.plan)
    };
    let sends = left(&chain, NodeId(2), StandIn::Sends).expect("node 8 stands in");
    assert_eq!(edges_of(&sends), [(1, 3), (8, 3), (4, 3)]);
    let takes_over = left(&chain, NodeId(2), StandIn::TakesOver).expect("node 8 stands in");
    assert_eq!(edges_of(&takes_over), [(1, 8), (8, 3), (4, 3)]);
    assert_eq!(sends.lanes[0].range, chain.planned.plan.lanes[0].range);
    let whole = active(&[(1, 2), (2, 3)], CHUNK);
    assert_eq!(left(&whole, NodeId(1), StandIn::Sends), None, "nothing is left");
    assert_eq!(relieve(&whole, NodeId(2)), None, "nothing is left");
}

#[test]
fn plans_wait_by_how_much_their_stripes_can_lose_and_then_in_the_order_in_which_they_asked() {
    let mut waiting = Waiting::default();
    [2, 0, 1].into_iter().for_each(|stripe| waiting.push(planned(stripe, &[(1, 2)]), 1));
    let order = |waiting: &Waiting| waiting.iter().map(|w| w.plan.stripe.0).collect::<Vec<_>>();
    assert_eq!(order(&waiting), [2, 0, 1]);
    assert!(waiting.remove(StripeId(0)).is_some() && waiting.remove(StripeId(0)).is_none());
    waiting.push(planned(0, &[(1, 2)]), 1);
    assert_eq!((order(&waiting), waiting.nth(1)), (vec![2, 1, 0], Some(StripeId(1))));
    assert_eq!((waiting.len(), waiting.get(StripeId(7)).is_some()), (3, false));
    waiting.push(planned(7, &[(1, 2)]), 0);
    waiting.push(planned(8, &[(1, 2)]), 2);
    waiting.push(planned(9, &[(1, 2)]), 1);
    assert_eq!((order(&waiting), waiting.first_margin()), (vec![7, 2, 1, 0, 9, 8], Some(0)));
}
