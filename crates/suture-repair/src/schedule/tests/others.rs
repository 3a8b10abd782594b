//! Adaptive, and what all schedules have in common.

use super::*;

fn running(links: f64, edges: Edges<'_>) -> Bench {
    let mut bench = Bench::new("adaptive");
    bench.cluster = Cluster::uniform(9, Rate(links * LINK));
    bench.plan(vec![planned(0, edges)]);
    bench.start();
    bench
}

#[test]
fn who_looks_at_progress_says_so() {
    let heeds = [
        ("all", false),
        ("window:2", false),
        ("slots", false),
        ("adaptive", true),
        ("phases:4", true),
        ("waves", true),
    ];
    for (schedule, heeds) in heeds {
        assert_eq!(Bench::new(schedule).scheduler.heeds_progress(), heeds, "{schedule}");
    }
}

#[test]
fn a_word_that_nothing_more_has_come_is_a_word_and_what_has_come_stays() {
    let mut active = active(&[(1, 2)], 40);
    for (seconds, bytes, come) in [(2.0, 40, 40), (3.0, 41, 41), (4.0, 40, 41)] {
        active.progressed(at(seconds), bytes);
        assert_eq!((active.bytes_done, active.reported_at), (come, at(seconds)));
    }
}

#[test]
fn adaptive_starts_what_is_fast_by_itself() {
    let mut bench = Bench::new("adaptive");
    bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(4, 5)]]));
    assert_eq!(bench.start(), [1, 0]);
}

#[test]
fn who_sends_does_not_compete_with_who_receives() {
    for edge in [(2, 3), (3, 1)] {
        let mut bench = running(1.0, &[(1, 2)]);
        bench.plan(vec![planned(1, &[edge]), planned(2, &[(4, 5)])]);
        assert_eq!(bench.start(), [1, 2], "{edge:?} is as free as any other");
    }
}

/// Expected after half a second, it weighs as much as nine after four more.
#[test]
fn a_repair_is_behind_as_a_part_of_its_expected_time() {
    let mut bench = running(2.0, &[(1, 2)]);
    bench.plan(vec![planned(1, &[(1, 2)]), planned(2, &[(1, 4)])]);
    bench.now = at(4.5);
    assert_eq!(bench.start(), [2]);
}
