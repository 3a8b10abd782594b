//! Proof that the swarm notices mistakes: each mutant breaks one transition of coordinator, agent
//! or driver, and some seed must find it.
//!
//! `cargo test -p suture-sim --features mutants --test mutants`

#![allow(clippy::disallowed_macros, reason = "a test prints what found each mistake")]

use std::sync::Arc;

use suture_repair::agent::{self, Agent};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{Task, ToAgent};
use suture_repair::mutant::Mutant;
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use suture_repair::planner::Abilities;
use suture_repair::slice::SliceId;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::{Span, Time};
use suture_sim::disk::Safeguards;
use suture_sim::violation::Violation;
use suture_sim::{lone, swarm};

/// Within so many seeds a mistake must show.
const SEEDS: u64 = 300;

/// Repairs of the swarm are done too soon for a schedule to hold one, and for a fault to meet one
/// whose destinations are not equally far.
const ELSEWHERE: [Mutant; 2] = [Mutant::GrantHeld, Mutant::AdmitEarlier];

#[test]
fn every_mistake_is_noticed_within_some_hundred_seeds() {
    let mut unnoticed = Vec::new();
    for mutant in Mutant::ALL.into_iter().filter(|mutant| !ELSEWHERE.contains(mutant)) {
        let found = (0..SEEDS).find_map(|seed| {
            let violation = swarm::run_mutant(seed, mutant).violation?;
            Some(format!("{mutant:?}: seed {seed}: {violation}"))
        });
        match found {
            Some(line) => println!("{line}"),
            None => unnoticed.push(mutant),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}

#[test]
fn what_makes_repairs_stand_still_is_noticed_where_one_machine_is_lost_and_no_more() {
    for mutant in [Mutant::AdmitEarlier, Mutant::ForgetGrant] {
        let broken = |seed| Some((seed, lone::run_mutant(seed, mutant).violation?));
        let found = (0..SEEDS).find_map(broken);
        println!("{mutant:?}: {found:?}");
        assert!(matches!(found, Some((_, Violation::StoodStill(_)))), "{mutant:?}: {found:?}");
    }
}

#[test]
fn without_a_mistake_the_same_seeds_find_nothing() {
    for seed in 0..SEEDS {
        let violation = swarm::run(seed, Safeguards::ALL, false).violation;
        assert_eq!(violation, None, "seed {seed}");
    }
}

const SLICE: u64 = 4096;
const ME: NodeId = NodeId(1);
const HELPER: NodeId = NodeId(0);

/// The copy of a chunk of ten slices, from one helper.
fn copy() -> Task {
    let (repair, range, lost) = (RepairId(1), Range { from: 0, to: 10 * SLICE }, ChunkIndex(1));
    let carries = Carries::Partial;
    let edges = vec![Edge { child: HELPER, parent: ME, bytes: range.to, carries }];
    let (lost, mode) = (vec![lost], Mode::Streamed);
    let lane = Lane { range, lost: lost.clone(), mode, decoder: None, scheme: None, edges };
    let destinations = [(ChunkIndex(1), ME)].into();
    let stripe = StripeId(0);
    let plan = Plan {
        stripe,
        lost,
        destinations,
        start: Start::Now,
        range,
        period: None,
        lanes: vec![lane],
    };
    let bytes = range.to;
    let record = |node| ChunkRecord { node, stamp: Stamp(0), bytes, crc: Some(0) };
    let stripe = Stripe {
        id: stripe,
        code: "rs(1,1)".parse().expect("a code"),
        chunk_bytes: bytes,
        unit_bytes: bytes,
        generation: Generation(1),
        chunks: vec![record(Some(HELPER)), record(None)],
    };
    let slice_bytes = SLICE as u32;
    Task {
        repair,
        stripe,
        plan,
        slice_bytes,
        window: 4,
        gated: false,
        continues: None,
        skips: false,
        label: Label::default(),
    }
}

/// Gives an agent with a mistake a task, holds it, and lets all come that was granted.
fn hold(mutant: Mutant) {
    let mut agent = Agent::new(agent::AgentConfig {
        me: ME,
        incarnation: 1,
        abilities: Abilities::ALL,
        pool_bytes: 1 << 20,
        heartbeat_every: Span::from_secs(1),
        stall_after: Span::from_secs(60),
        inventory_every: Span::from_secs(60),
    });
    agent.mutate(mutant);
    let (task, id) = (copy(), |slice| SliceId { repair: RepairId(1), lane: 0, slice });
    let repair = task.repair;
    let held = ToAgent::Hold { repair, held: true };
    let begin = [
        agent::AgentInput::Connected { epoch: 0 },
        agent::AgentInput::Message(Box::new(ToAgent::Dispatch(Arc::new(task)))),
        agent::AgentInput::Prepared { repair, result: Ok(()) },
        agent::AgentInput::Message(Box::new(held)),
    ];
    let arrive =
        (0..4).map(|slice| agent::AgentInput::SliceArrived { from: HELPER, id: id(slice) });
    let leave = (0..4).map(|slice| agent::AgentInput::SliceLeft(id(slice)));
    for input in begin.into_iter().chain(arrive).chain(leave) {
        agent.handle(Time::ZERO, input);
        agent.assert_all_invariants();
    }
}

#[test]
#[should_panic(expected = "held: ")]
fn an_agent_that_grants_while_it_is_held_is_noticed() {
    hold(Mutant::GrantHeld);
}

#[test]
fn one_that_grants_nothing_is_not() {
    hold(Mutant::TimeBack);
}
