//! Trials: whatever is read as a simulated cluster is written, and is then read again as the same.
//!
//! Place: `suture replay` of a seed of the swarm that failed, which people send each other. What
//! happens in it is the swarm's affair.

use suture_sim::disk::Safeguards;
use suture_sim::trial::{Recorded, Trial};

/// Inputs to begin with: trials of seeds of many kinds.
pub fn valid() -> Vec<Vec<u8>> {
    let seeds = [1, 2, 3, 5, 8, 13, 21, 34];
    let text = |seed| Trial::of(seed, Safeguards::ALL).text(None, &["a story".to_string()]);
    seeds.map(|seed| text(seed).into_bytes()).to_vec()
}

/// Gives whether the input is a trial.
///
/// # Panics
/// When one that was read is not written and read back as the same, or a refusal names no line.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let trial = match Recorded::read(text) {
        Ok(Recorded { trial, .. }) => trial,
        Err(why) => {
            assert!(why.line <= text.lines().count() && !why.error.expected.is_empty(), "{why:?}");
            return false;
        }
    };
    let written = trial.text(None, &[]);
    let again = Recorded::read(&written).unwrap_or_else(|why| panic!("{why:?}:\n{written}"));
    assert_eq!(again.trial.text(None, &[]), written);
    true
}
