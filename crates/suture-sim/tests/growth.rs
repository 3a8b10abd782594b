//! What a repair asks of its coordinator grows as the lost chunks do: counted, and not timed.
//!
//! What each answer costs is counted where it is made (`schedule/tests/growth.rs` of the core), and
//! timed by the bench `schedules`.

use crate::links::scenario;
use suture_sim::simulate::simulate;

/// How often the coordinator is called to repair so many chunks: its clock is read before each
/// call and after it.
fn calls(policy: &str, lost: usize) -> usize {
    let mut read = 0;
    let mut clock = || {
        read += 1;
        0_u64
    };
    let outcome = simulate(&scenario(policy, 20, lost, "rs(6,3)"), &mut clock);
    assert!(outcome.given_up.is_none() && outcome.unrepaired.is_empty(), "{policy}");
    assert_eq!(outcome.rebuilt.len(), lost, "{policy}");
    read / 2
}

#[test]
fn twice_as_many_chunks_take_twice_as_many_calls() {
    for policy in ["chain/repairboost/slots", "chain/random/all", "pivot/random/adaptive"] {
        let (once, twice) = (calls(policy, 250), calls(policy, 500));
        assert!(once > 250, "{policy}: {once} calls are few");
        assert!(twice * 10 <= once * 24, "{policy}: {once} calls, then {twice}");
    }
}
