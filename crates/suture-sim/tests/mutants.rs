//! Proof that the swarm notices mistakes: each mutant breaks one transition of coordinator, agent
//! or driver, and some seed must find it.
//!
//! `cargo test -p suture-sim --features mutants --test mutants`

#![allow(clippy::disallowed_macros, reason = "a test prints what found each mistake")]

#[path = "../../suture-repair/tests/common/host.rs"]
mod host;

use host::{CHUNK, Host, OLD, SLICES, star};
use suture_repair::message::ToAgent;
use suture_repair::mutant::Mutant;
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

/// Gives an agent with a mistake a task, holds it, and lets all come that was granted.
fn hold(mutant: Mutant) {
    let mut host = Host::new(1 << 20);
    host.agent.mutate(mutant);
    let begun = host.begin(star(OLD, 0, CHUNK));
    host.tell(ToAgent::Hold { repair: OLD, held: true });
    host.flow(begun, SLICES);
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
