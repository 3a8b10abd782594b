//! A failing seed becomes a small trial in a file, and the file shows the same failure again.

use suture_repair::transcript::replay;
use suture_sim::disk::Safeguards;
use suture_sim::fault::{self, Fault, NetworkFaults};
use suture_sim::party::Party;
use suture_sim::shrink::shrink;
use suture_sim::swarm::{Watch, run_trial};
use suture_sim::trial::{Recorded, Trial, one_line};

use suture_repair::random::Random;
use suture_repair::time::Span;

/// Within so many seeds a missing safeguard shows.
const SEEDS: u64 = 200;

fn assert_shrinks(safeguards: Safeguards) {
    let trials = (0..SEEDS).map(|seed| Trial::of(seed, safeguards));
    let failing = trials.filter_map(|trial| {
        let broken = run_trial(&trial, Watch::Rules).violation?;
        Some((trial, broken))
    });
    // One with much in it, so that there is something to leave out.
    let (first, broken) = failing.take(6).max_by_key(|(trial, _)| trial.size()).expect("a failure");
    let small = shrink(first.clone(), broken.clone());
    assert!(small.broken.is_same_rule(&broken), "{} became {}", broken, small.broken);
    let (before, after) = (first.size(), small.trial.size());
    assert!(2 * after <= before, "from {before} to {after} only");
    assert!(small.trial.faults.len() <= first.faults.len() / 2, "{:?}", small.trial.faults);

    let text = small.trial.text(Some(&small.broken), &[broken.to_string()]);
    let read = Recorded::read(&text).unwrap_or_else(|why| panic!("{why}:\n{text}"));
    assert_eq!(read.broken, Some(one_line(&small.broken)), "{text}");
    let again = run_trial(&read.trial, Watch::Machines);
    assert_eq!(again.violation, Some(small.broken.clone()), "{text}");
    // What the machines did is as it was written down.
    let (_, transcript) = again.concerned().expect("someone's doing");
    replay(transcript).unwrap_or_else(|why| panic!("{why}:\n{transcript}"));
}

#[test]
fn a_failure_without_checksums_shrinks_and_shows_again() {
    assert_shrinks(Safeguards { checksums: false, ..Safeguards::ALL });
}

#[test]
fn a_failure_without_compare_and_set_shrinks_and_shows_again() {
    assert_shrinks(Safeguards { compare_and_set: false, ..Safeguards::ALL });
}

#[test]
fn a_failure_without_the_requeue_shrinks_and_shows_again() {
    assert_shrinks(Safeguards { requeue: false, ..Safeguards::ALL });
}

#[test]
fn trials_of_seeds_read_back_as_they_were_written() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let trial = Trial::of(seed, Safeguards { requeue: seed % 2 == 0, ..Safeguards::ALL });
        let text = trial.text(None, &["one\ntwo".to_string()]);
        let read = Recorded::read(&text).unwrap_or_else(|why| panic!("{why}:\n{text}"));
        assert_eq!(format!("{:?}", read.trial), format!("{trial:?}"));
        kinds.extend(trial.faults.iter().map(|(_, fault)| fault_kind(fault)));
    }
    assert_eq!(kinds.len(), 33, "{kinds:?}");
}

/// A new fault has to be counted here.
fn fault_kind(fault: &Fault) -> usize {
    match fault {
        Fault::Crash { .. } => 0,
        Fault::Gone => 1,
        Fault::CoordinatorCrash(_) => 2,
        Fault::Partition(_) => 3,
        Fault::SessionBreak => 4,
        Fault::Flip => 5,
        Fault::Tear => 6,
        Fault::Full(_) => 7,
        Fault::OperatorFail(_) => 8,
        Fault::OperatorPause(_) => 9,
        Fault::Put => 10,
        Fault::Remove => 11,
        Fault::Move(_) => 12,
        Fault::BadMemory(_) => 13,
        Fault::CoordinatorSleep(_) => 14,
        Fault::Replace => 15,
        Fault::Unreadable(_) => 16,
        Fault::Scrub => 17,
        Fault::DiskErrors(_) => 18,
        Fault::NoDescriptors(_) => 19,
        Fault::Backup => 20,
        Fault::Restore(_) => 21,
        Fault::LoseMetadata(_) => 22,
        Fault::Impostor(_) => 23,
        Fault::Hang(_) => 26,
        Fault::Drain(_) => 24,
        Fault::Rest(_) => 25,
        Fault::CutOff(_) => 27,
        Fault::ClockLeap(_) => 28,
        Fault::ClockSet { .. } => 29,
        Fault::Burst(_) => 30,
        Fault::Vanish(_) => 31,
        Fault::DeadLink(_) => 32,
    }
}

#[test]
fn every_machine_of_a_seed_does_again_what_it_did() {
    for seed in [2, 9, 23, 41] {
        let verdict = run_trial(&Trial::of(seed, Safeguards::ALL), Watch::Machines);
        assert_eq!(verdict.violation, None);
        let records = verdict.records.expect("asked for");
        let mut inputs = 0;
        for (party, text) in records.all() {
            let replayed =
                replay(text).unwrap_or_else(|why| panic!("seed {seed} {party:?}: {why}"));
            inputs += replayed.inputs();
        }
        let coordinators = records.all().filter(|(party, _)| *party == Party::Coordinator);
        assert!(coordinators.count() == 1 && inputs > 300, "{inputs} inputs");
    }
}

#[test]
fn what_is_no_trial_is_refused_with_its_line() {
    let mut random = Random::new(1);
    let faults = fault::schedule(&mut random, Span::from_secs(8));
    let trial =
        Trial { network_faults: NetworkFaults::NONE, faults, ..Trial::of(1, Safeguards::ALL) };
    let text = trial.text(None, &[]);
    for (index, line) in text.lines().enumerate() {
        let broken = text.replace(line, &line[..line.len() - 1]);
        let _ = Recorded::read(&broken);
        let odd = text.replace(line, &format!("{line} odd"));
        let why = Recorded::read(&odd).expect_err(line);
        assert!(why.line <= index + 1, "{why} in {odd}");
    }
    assert!(Recorded::read("").is_err());
    assert!(Recorded::read("suture-transcript-2 agent\n").is_err());
}
