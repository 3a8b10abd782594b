//! Phases: what still runs counts, what is late is treated once, what rests goes on in time.

use super::*;

const STAR: Edges<'_> = &[(1, 3), (2, 3), (4, 3)];

fn running(schedule: &str, planned: Vec<PlannedRepair>) -> Bench {
    let mut bench = Bench::new(schedule);
    bench.plan(planned);
    bench.start();
    bench
}

fn more(stripes: std::ops::Range<u64>) -> Vec<PlannedRepair> {
    stripes.map(|stripe| planned(stripe, &[(1, 2)])).collect()
}

fn hold(repair: u64, held: bool) -> Vec<Directive> {
    vec![Directive::Hold { repair: RepairId(repair), held }]
}

/// Repair 0 rests, by what node 1 or another of its nodes has to do beside.
fn held_bench() -> Bench {
    let mut bench = running("phases:4", all_planned(&[STAR, &[(1, 5), (3, 5), (4, 5)], &[(6, 5)]]));
    bench.now = at(3.4);
    assert_eq!(bench.directives(), hold(0, true));
    bench
}

#[test]
fn a_phase_counts_what_is_left_of_repairs_that_still_run() {
    let mut bench = running("phases:2", alike(2));
    bench.now = at(2.0);
    [0, 1].into_iter().for_each(|stripe| bench.progress(stripe, CHUNK / 2));
    assert_eq!(bench.plan(more(2..5)), [2], "one second of two is left");
}

#[test]
fn beside_what_runs_nothing_begins_that_does_not_fit() {
    let mut bench = running("phases:1", alike(1));
    bench.now = at(1.0);
    assert!(bench.plan(more(1..2)).is_empty());
}

#[test]
fn what_a_former_phase_had_to_do_does_not_count() {
    let mut bench = running("phases:2", alike(3));
    [0, 1].into_iter().for_each(|stripe| bench.end(stripe));
    bench.now = at(2.0);
    assert_eq!(bench.plan(more(3..6)), [3, 4]);
}

#[test]
fn a_phase_is_as_long_as_its_first_chunk_takes() {
    let mut bench = Bench::new("phases:1");
    assert_eq!(bench.plan(all_planned(&[&[(1, 3), (2, 3)], &[(4, 6), (5, 6)]])), [0, 1]);
}

#[test]
fn what_runs_is_expected_later_when_more_begins_beside_it() {
    let mut bench = running("phases:4", alike(1));
    assert_eq!(bench.deadline(), Some(at(1.4)), "late is 0.4 s behind");
    bench.now = at(1.0);
    bench.plan(more(1..2));
    assert_eq!(bench.deadline(), Some(at(3.4)), "two seconds from now");
    bench.end(0);
    assert_eq!(bench.deadline(), None, "nobody waits for what has ended");
}

#[test]
fn the_next_phase_is_waited_for_where_something_is_ready_and_nothing_planned() {
    let mut bench = Bench::new("phases:2");
    bench.plan(Vec::new());
    assert_eq!(bench.deadline(), None, "nothing is ready");
    bench.ready = 5;
    assert_eq!(bench.deadline(), Some(at(2.0)));
    bench.plan(alike(1));
    assert_eq!(bench.deadline(), None, "a plan waits");
}

#[test]
fn what_replaces_a_late_repair_is_not_treated_again() {
    let mut bench =
        running("phases:4", all_planned(&[&[(1, 2), (2, 3), (4, 3)], &[(1, 5), (3, 5), (4, 5)]]));
    bench.now = at(2.4);
    assert_eq!(bench.replacement().0, 0);
    bench.end(1);
    for (seconds, is_late) in [(10.0, false), (20.0, true)] {
        bench.end(0);
        bench.plan(vec![planned(0, STAR)]);
        bench.start();
        bench.now = at(seconds);
        let expected = if is_late { hold(0, true) } else { Vec::new() };
        assert_eq!(bench.directives(), expected, "what has ended is forgotten");
    }
}

#[test]
fn what_rests_goes_on_when_its_nodes_are_free_although_others_run_elsewhere() {
    let mut bench = held_bench();
    [1, 2].into_iter().for_each(|stripe| bench.end(stripe));
    bench.plan(vec![planned(3, &[(6, 7)])]);
    bench.start();
    assert_eq!(bench.directives(), hold(0, false));
    assert!(bench.directives().is_empty(), "once");
}

#[test]
fn what_rests_goes_on_when_nothing_else_runs_although_a_plan_waits_for_its_nodes() {
    let mut bench = held_bench();
    [1, 2].into_iter().for_each(|stripe| bench.end(stripe));
    bench.plan(vec![planned(3, &[(1, 3)])]);
    assert_eq!(bench.directives(), hold(0, false));
}

#[test]
fn what_rests_goes_on_two_phases_later_whatever_else_runs() {
    let mut bench = held_bench();
    bench.plan(Vec::new());
    assert!(bench.directives().is_empty());
    bench.plan(Vec::new());
    assert_eq!(bench.directives(), hold(0, false));
}

#[test]
fn what_ends_at_rest_rests_no_more() {
    let mut bench = held_bench();
    bench.end(0);
    assert!(bench.directives().is_empty());
}

#[test]
fn who_is_blamed_is_found_without_what_rests() {
    let mut bench = running("phases:4", more(0..1));
    bench.now = at(1.4);
    assert_eq!(bench.directives(), hold(0, true));
    bench.plan(vec![planned(1, &[(1, 4), (4, 5)])]);
    bench.start();
    bench.now = at(3.8);
    // With repair 0, of two repairs through node 1 one would be late.
    assert_eq!(bench.directives(), hold(1, true), "node 1, which receives nothing");
}
