//! What a schedule costs, counted: it grows as the lost chunks do, and not as their square.

use super::*;
use crate::random::Random;

/// Nodes that chains go through.
const NODES: u32 = 8;

/// Senders and receivers of them.
const PAIRS: usize = 8 * 7;

/// So many chains of three edges.
fn chains(count: u64) -> Vec<PlannedRepair> {
    let (mut random, mut nodes) = (Random::new(5), (0..NODES).collect::<Vec<u32>>());
    let chain = |stripe| {
        random.shuffle(&mut nodes);
        planned(stripe, &[(nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[2], nodes[3])])
    };
    (0..count).map(chain).collect()
}

/// What it took to move so many chains.
struct Slots {
    count: u64,
    /// What all of them chose among.
    candidates: usize,
}

fn move_in_slots(chain_count: u64) -> Slots {
    let mut bench = Bench::new("slots");
    bench.plan(chains(chain_count));
    bench.start();
    let (mut slots, mut moved) = (Slots { count: 0, candidates: 0 }, 0);
    loop {
        let candidates = bench.edges.as_ref().expect("the schedule has slots").candidates();
        assert!(candidates <= PAIRS, "one for each pair of nodes, however much is ready");
        let released = bench.release();
        if released.is_empty() {
            break;
        }
        slots.count += 1;
        slots.candidates += candidates;
        moved += released.len() as u64;
        released.into_iter().for_each(|edge| bench.arrive(edge));
    }
    assert_eq!(moved, 3 * chain_count, "everything has arrived");
    slots
}

/// Where a slot looked at all that is ready, the candidates would be four times as many.
#[test]
fn slots_look_at_twice_as_much_for_twice_as_many_chunks() {
    let (once, twice) = (move_in_slots(400), move_in_slots(800));
    assert!(twice.count * 10 <= once.count * 23, "{} slots, then {}", once.count, twice.count);
    let (once, twice) = (once.candidates, twice.candidates);
    assert!(once >= 400 && twice * 10 <= once * 25, "{once} candidates, then {twice}");
}

/// A start costs no more the more trees wait.
#[test]
fn adaptive_compares_the_oldest_1024_trees_and_no_others() {
    for (before, is_seen) in [(1000, true), (1040, false)] {
        let mut bench = Bench::new("adaptive");
        let mut made = alike(before);
        made.push(planned(before, &[(3, 4)]));
        bench.plan(made);
        assert_eq!(bench.start().contains(&before), is_seen, "behind {before} others");
    }
}
