//! Agents under a schedule: gated edges, holds, and attempts that go on where another stopped.
//!
//! The tests send what a coordinator would send, in orders that a good one would not choose, to
//! agents that execute random valid plans on real bytes. `World` compares every chunk that is
//! published with what was lost, and every agent's memory with what it reserved.

use std::collections::BTreeSet;

use crate::common::Case;
use suture_repair::id::{EdgeRef, NodeId, RepairId};
use suture_repair::message::{Task, ToAgent};
use suture_repair::plan::{self, Plan};
use suture_repair::role::Role;
use suture_repair::time::Span;

/// How long the coordinator of these tests looks away between two words.
const STEP: Span = Span::from_millis(1);

/// Longer than an agent waits for what it asked for.
const LONG: Span = Span::from_millis(9000);

/// An edge by lane, sender and receiver. A decoder sends to several; a destination has it from one.
type Edge = (u16, NodeId, NodeId);

/// A schedule of edges as its coordinator sees it.
struct Schedule {
    edges: Vec<Edge>,
    said: BTreeSet<Edge>,
    arrived: BTreeSet<Edge>,
}

impl Schedule {
    fn new(plan: &Plan) -> Schedule {
        let of_lane = |(lane, content): (usize, &plan::Lane)| {
            let edge = move |e: &plan::Edge| (lane as u16, e.child, e.parent);
            content.edges.iter().map(edge).collect::<Vec<_>>()
        };
        let edges = plan.lanes.iter().enumerate().flat_map(of_lane).collect();
        Schedule { edges, said: BTreeSet::new(), arrived: BTreeSet::new() }
    }

    /// Whether everything that the sender of an edge sums has arrived there.
    fn is_ready(&self, (lane, child, _): Edge) -> bool {
        let mut inputs = self.edges.iter().filter(|edge| (edge.0, edge.2) == (lane, child));
        inputs.all(|edge| self.arrived.contains(edge))
    }

    /// Takes in what all agents report as arrived.
    fn listen(&mut self, case: &Case, repair: RepairId) {
        for node in case.world.nodes() {
            for EdgeRef { repair: heard, lane, peer: child } in case.world.status(node).arrived {
                if heard == repair {
                    let edge = (lane, child, node);
                    assert!(self.said.contains(&edge), "seed {}: {edge:?} came", case.seed);
                    self.arrived.insert(edge);
                }
            }
        }
    }

    /// Sends releases of one edge: of one that is ready, now and then of one that is not, or none
    /// at all.
    fn speak(&mut self, case: &mut Case, repair: RepairId) {
        let open = self.edges.iter().filter(|edge| !self.arrived.contains(edge));
        let open: Vec<Edge> = open.copied().collect();
        if open.is_empty() {
            return;
        }
        let edge = *case.random.choose(&open);
        let out_of_turn = case.random.per_mille(30);
        if self.is_ready(edge) || out_of_turn {
            self.said.insert(edge);
            let (lane, child, parent) = edge;
            for _ in 0..case.random.below(3) {
                case.world.notify(parent, ToAgent::Release { repair, lane, child });
            }
        }
    }
}

fn gated(case: &mut Case) -> Task {
    let plan = case.whole_plan();
    Task { gated: true, ..case.task(1, &plan) }
}

/// Releases edge by edge until the chunks are published, or for so many steps.
fn release_all(case: &mut Case, task: &Task, schedule: &mut Schedule, steps: usize) {
    for _ in 0..steps {
        if case.is_published(task) {
            return;
        }
        schedule.speak(case, task.repair);
        case.run(STEP);
        schedule.listen(case, task.repair);
    }
}

#[test]
fn gated_plans_rebuild_what_was_lost_in_whatever_order_their_edges_are_released() {
    for seed in 0..400 {
        let mut case = Case::new(seed);
        let task = gated(&mut case);
        let schedule = &mut Schedule::new(&task.plan);
        // Words that overtake the task.
        (0..case.random.below(4)).for_each(|_| schedule.speak(&mut case, task.repair));
        case.dispatch(&task);
        release_all(&mut case, &task, schedule, 3000);
        assert!(case.is_published(&task), "seed {seed}: {:?}", task.plan);
        case.run(Span::from_millis(200));
        case.assert_swept();
    }
}

#[test]
fn kept_slices_never_overlap_in_the_spool() {
    for seed in 0..300 {
        let mut case = Case::new(seed);
        let task = gated(&mut case);
        for node in task.plan.participants() {
            for (_, role) in Role::of(&task, node).expect("a valid task") {
                let mut pieces = Vec::new();
                for child in &role.children {
                    for slice in 0..role.slice_ranges.count() {
                        let piece = role.spilled_piece(child.node, slice).expect("a child");
                        let bytes = role.child_bytes(child.node, slice).expect("a child");
                        assert_eq!(piece.bytes, bytes, "seed {seed}");
                        pieces.push((piece.offset, piece.offset + bytes as u64));
                    }
                }
                pieces.sort_unstable();
                let apart = pieces.windows(2).all(|pair| pair[0].1 <= pair[1].0);
                assert!(apart, "seed {seed}: {pieces:?}");
                assert_eq!(role.spilled_piece(node, 0), None, "nobody sends to itself");
            }
        }
    }
}

#[test]
fn nothing_moves_before_its_release_and_whoever_waits_for_one_does_not_stall() {
    for seed in 0..60 {
        let mut case = Case::new(seed);
        let task = gated(&mut case);
        let schedule = &mut Schedule::new(&task.plan);
        case.dispatch(&task);
        case.run(LONG);
        schedule.listen(&case, task.repair);
        assert!(schedule.arrived.is_empty());
        for node in task.plan.participants() {
            assert_eq!(case.world.status(node).running, [(task.repair, 0)], "seed {seed}");
        }
        release_all(&mut case, &task, schedule, 200);
        let is_stuck = |&edge: &Edge| schedule.said.contains(&edge) && !schedule.is_ready(edge);
        if !schedule.edges.iter().any(is_stuck) {
            case.run(LONG);
        }
        release_all(&mut case, &task, schedule, 3000);
        assert!(case.is_published(&task), "seed {seed}: {:?}", task.plan);
    }
}

#[test]
fn a_destination_never_claims_a_whole_chunk_before_it_has_one() {
    for seed in 0..100 {
        let mut case = Case::new(seed);
        let task = gated(&mut case);
        let schedule = &mut Schedule::new(&task.plan);
        case.dispatch(&task);
        let mut done = std::collections::BTreeMap::new();
        while !case.is_published(&task) {
            release_all(&mut case, &task, schedule, 1);
            for node in case.world.nodes() {
                for (_, bytes) in case.world.status(node).running {
                    let before = done.insert(node, bytes).unwrap_or(0);
                    assert!(bytes >= before, "seed {seed}: {node} did {before}, then {bytes}");
                }
            }
            for (chunk, node) in &task.plan.destinations {
                let brings =
                    |edge: &&Edge| task.plan.lanes[usize::from(edge.0)].lost.contains(chunk);
                let mut edges = schedule.edges.iter().filter(|edge| edge.2 == *node).filter(brings);
                let all_here = edges.all(|edge| schedule.arrived.contains(edge));
                let bytes = done.get(node).copied().unwrap_or(0);
                assert!(bytes < task.stripe.chunk_bytes || all_here, "seed {seed}: {node}");
            }
        }
    }
}

#[test]
fn a_repair_that_is_held_rests_and_then_goes_on() {
    for seed in 0..150 {
        let mut case = Case::new(seed);
        let plan = case.whole_plan();
        let task = case.task(1, &plan);
        let hold = |held| ToAgent::Hold { repair: task.repair, held };
        case.tell_all(&plan, &hold(true));
        case.dispatch(&task);
        let until = case.random.below(4_000_000);
        case.run(Span { ns: until });
        let destinations: Vec<NodeId> = plan.destinations.values().copied().collect();
        destinations.iter().for_each(|&node| case.world.notify(node, hold(true)));
        // Stored relays go on until they have everything.
        case.run(Span::from_millis(500));
        let at_rest: Vec<_> = case.world.nodes().map(|node| case.world.status(node)).collect();
        case.run(LONG);
        for (node, before) in case.world.nodes().zip(at_rest) {
            let now = case.world.status(node);
            assert_eq!(now.running, before.running, "seed {seed}: {node} moved or gave up");
        }
        for held in [true, false, false] {
            destinations.iter().for_each(|&node| case.world.notify(node, hold(held)));
        }
        case.run(Span::from_secs(3));
        assert!(case.is_published(&task), "seed {seed}: {plan:?}");
        case.assert_swept();
    }
}

/// How many bytes from the first on the destinations are known to have: only where one streamed
/// lane brings each of them, because then they come in order.
fn known_prefix(case: &Case, task: &Task) -> Option<u64> {
    let [_] = task.plan.lanes[..] else { return None };
    let done = |node: &NodeId| {
        let running = case.world.status(*node).running;
        running.into_iter().find(|(id, _)| *id == task.repair).map(|(_, bytes)| bytes)
    };
    let alignment = case.stripe.code.alignment() as u64;
    let all: Option<Vec<u64>> = task.plan.destinations.values().map(done).collect();
    all.map(|all| all.into_iter().min().unwrap_or(0) / alignment * alignment)
}

#[test]
fn attempts_go_on_where_another_stopped() {
    let (mut gone_on, mut twice, mut refused) = (0, 0, 0);
    for seed in 0..600 {
        let mut case = Case::new(seed);
        let plan = case.whole_plan();
        let mut task = case.task(1, &plan);
        case.dispatch(&task);
        for sequence in 2..=4 {
            // At least until the temporary file is there.
            let until = case.random.between(500_000, 4_000_000);
            case.run(Span { ns: until });
            if case.is_published(&task) {
                break;
            }
            let prefix = known_prefix(&case, &task).filter(|_| case.random.per_mille(900));
            let alignment = case.stripe.code.alignment() as u64;
            // A guess where nothing is known: agents find out whether it holds.
            let units = case.stripe.chunk_bytes.div_ceil(alignment);
            let from = prefix.unwrap_or_else(|| case.random.below(units) * alignment);
            if from >= case.stripe.chunk_bytes {
                break;
            }
            let rest = case.rest(&plan, from);
            let gated = case.random.per_mille(300);
            let next = Task { continues: Some(task.repair), gated, ..case.task(sequence, &rest) };
            case.dispatch(&next);
            case.tell_all(&task.plan, &ToAgent::Cancel(task.repair));
            let begun = next.plan.destinations.values().all(|&node| {
                let running = case.world.status(node).running;
                running.iter().any(|(id, bytes)| *id == next.repair && *bytes == from)
            });
            assert!(begun || prefix.is_none(), "seed {seed}: {from} of {plan:?}");
            if !begun {
                case.tell_all(&next.plan, &ToAgent::Cancel(next.repair));
                refused += 1;
                break;
            }
            gone_on += usize::from(from > 0);
            twice += usize::from(from > 0 && sequence > 2);
            task = next;
        }
        let alive = case.world.nodes().any(|node| !case.world.status(node).running.is_empty());
        if alive && task.gated {
            release_all(&mut case, &task, &mut Schedule::new(&task.plan), 3000);
        }
        case.run(Span::from_secs(3));
        assert!(!alive || case.is_published(&task), "seed {seed}: {:?}", task.plan);
        case.assert_swept();
    }
    assert!(gone_on >= 50 && twice >= 10 && refused >= 50, "{gone_on} {twice} {refused}");
}

#[test]
fn a_repair_that_is_cancelled_at_any_moment_leaves_nothing() {
    for seed in 0..200 {
        let mut case = Case::new(seed);
        let task = gated(&mut case);
        let schedule = &mut Schedule::new(&task.plan);
        case.dispatch(&task);
        let steps = case.random.below(60) as usize;
        release_all(&mut case, &task, schedule, steps);
        case.tell_all(&task.plan, &ToAgent::Cancel(task.repair));
        schedule.speak(&mut case, task.repair);
        case.dispatch(&task);
        case.run(Span::from_millis(100));
        case.assert_swept();
    }
}
