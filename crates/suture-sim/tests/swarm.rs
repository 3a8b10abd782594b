//! The swarm in the tests: a few hundred clusters, and proof that the checkers bite.

use suture_sim::disk::Safeguards;
use suture_sim::fault::{Coverage, Kind};
use suture_sim::swarm;

/// Seeds of the short swarm.
const SEEDS: u64 = 300;

/// Within so many seeds a missing safeguard must show.
const MUTANT_SEEDS: u64 = 200;

#[test]
fn no_seed_breaks_a_rule_and_every_fault_happens() {
    let mut coverage = Coverage::default();
    let mut repaired = 0;
    for seed in 0..SEEDS {
        let verdict = swarm::run(seed, Safeguards::ALL, false);
        if let Some(violation) = verdict.violation {
            panic!("{violation}\nreplay: suture swarm --seeds {seed}..{} --log", seed + 1);
        }
        coverage.add(&verdict.coverage);
        repaired += verdict.repaired;
    }
    let missing: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| coverage.of(*kind) == 0).collect();
    assert!(missing.is_empty(), "these never happened: {missing:?}");
    assert!(repaired > SEEDS, "only {repaired} chunks were rebuilt");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17] {
        let (one, two) =
            (swarm::run(seed, Safeguards::ALL, true), swarm::run(seed, Safeguards::ALL, true));
        assert_eq!(one.log, two.log);
        assert!(!one.log.is_empty());
    }
}

fn first_failure(safeguards: Safeguards) -> u64 {
    let failed = |seed: &u64| swarm::run(*seed, safeguards, false).violation.is_some();
    (0..MUTANT_SEEDS).find(failed).expect("the missing net was not noticed")
}

#[test]
fn without_checksums_the_swarm_fails() {
    first_failure(Safeguards { checksums: false, ..Safeguards::ALL });
}

#[test]
fn without_compare_and_set_the_swarm_fails() {
    first_failure(Safeguards { compare_and_set: false, ..Safeguards::ALL });
}

#[test]
fn without_the_requeue_the_swarm_fails() {
    first_failure(Safeguards { requeue: false, ..Safeguards::ALL });
}
