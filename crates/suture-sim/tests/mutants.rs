//! Proof that the swarm notices mistakes: each mutant breaks one transition of coordinator, agent
//! or driver, and some seed must find it.
//!
//! `cargo test -p suture-sim --features mutants --test mutants`

#![allow(clippy::disallowed_macros, reason = "a test prints what found each mistake")]

use suture_repair::mutant::Mutant;
use suture_sim::disk::Safeguards;
use suture_sim::swarm;

/// Within so many seeds a mistake must show.
const SEEDS: u64 = 300;

#[test]
fn every_mistake_is_noticed_within_some_hundred_seeds() {
    let mut unnoticed = Vec::new();
    for mutant in Mutant::ALL {
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
fn without_a_mistake_the_same_seeds_find_nothing() {
    for seed in 0..SEEDS {
        let violation = swarm::run(seed, Safeguards::ALL, false).violation;
        assert_eq!(violation, None, "seed {seed}");
    }
}
