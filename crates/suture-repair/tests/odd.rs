//! No input is so odd that a planner panics, never ends, or makes a plan that is none.

#[path = "common/odd.rs"]
mod inputs;

use inputs::{fault, odd_world};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

/// The worlds of these seeds, under every policy that these names.
fn check(policies: &[&str], seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let world = odd_world(&mut Random::new(seed));
        for policy in policies {
            assert_eq!(fault(&world, policy, seed), None, "{policy}, seed {seed}");
        }
    }
}

/// The worlds of these seeds, under every preset.
fn check_presets(seeds: std::ops::Range<u64>) {
    let presets: Vec<String> = Policy::presets().map(|(name, _)| name.to_string()).collect();
    let presets: Vec<&str> = presets.iter().map(String::as_str).collect();
    check(&presets, seeds);
}

#[test]
fn the_planners_of_our_own_end_with_valid_plans_whatever_the_world() {
    check(&["flow", "suture"], 0..120);
}

#[test]
#[ignore = "the same in other worlds, for a change of planners or bounds"]
fn the_planners_of_our_own_end_with_valid_plans_in_many_more_worlds() {
    check(&["flow", "suture"], 120..600);
}

#[test]
fn all_presets_end_with_valid_plans_whatever_the_world() {
    check_presets(600..625);
}

#[test]
#[ignore = "the same in other worlds, for a change of planners or bounds"]
fn all_presets_end_with_valid_plans_in_many_more_worlds() {
    check_presets(625..700);
}
