//! Adaptive, what all schedules have in common, and how to go on without a straggler.

use super::*;
use crate::schedule::straggler::can_swap;

fn running(links: f64, edges: Edges<'_>) -> Bench {
    let mut bench = Bench::new("adaptive");
    bench.cluster = Cluster::uniform(9, Rate(links * LINK));
    bench.plan(vec![work(0, edges)]);
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
fn a_repair_moves_when_more_has_come_than_before() {
    let mut active = active(&[(1, 2)], 40);
    for (seconds, bytes, moved_at) in [(2.0, 40, 1.0), (3.0, 41, 3.0), (4.0, 40, 3.0)] {
        active.progressed(at(seconds), bytes);
        assert_eq!(active.moved_at, at(moved_at), "{bytes} bytes after {seconds} s");
    }
}

#[test]
fn adaptive_starts_what_is_fast_by_itself() {
    let mut bench = Bench::new("adaptive");
    bench.plan(works(&[&[(1, 3), (2, 3)], &[(4, 5)]]));
    assert_eq!(bench.start(), [1, 0]);
}

#[test]
fn who_sends_does_not_compete_with_who_receives() {
    for edge in [(2, 3), (3, 1)] {
        let mut bench = running(1.0, &[(1, 2)]);
        bench.plan(vec![work(1, &[edge]), work(2, &[(4, 5)])]);
        assert_eq!(bench.start(), [1, 2], "{edge:?} is as free as any other");
    }
}

/// Expected after half a second, it weighs as much as nine after four more.
#[test]
fn a_repair_is_behind_as_a_part_of_its_expected_time() {
    let mut bench = running(2.0, &[(1, 2)]);
    bench.plan(vec![work(1, &[(1, 2)]), work(2, &[(1, 4)])]);
    bench.now = at(4.5);
    assert_eq!(bench.start(), [2]);
}

#[test]
fn only_one_streamed_lane_of_sums_goes_on_in_the_middle_of_its_chunk() {
    type Change = fn(&mut Plan);
    let changes: [(&str, Change, bool); 5] = [
        ("as it is", |_| {}, true),
        ("two lanes", |plan| plan.lanes.push(plan.lanes[0].clone()), false),
        ("stored", |plan| plan.lanes[0].mode = Mode::Stored, false),
        ("no sum", |plan| plan.lanes[0].edges[0].carries = Carries::Finished, false),
        ("periods", |plan| plan.period = Some(64), false),
    ];
    for (name, change, goes_on) in changes {
        let mut active = active(&[(1, 2), (2, 3), (4, 3)], 0);
        let mut work = PlannedRepair::clone(&active.work);
        change(&mut work.plan);
        active.work = Arc::new(work);
        assert_eq!(relieve(&active, NodeId(2)).is_some(), goes_on, "{name}");
        assert_eq!(can_swap(&active, NodeId(1), NodeId(8)), goes_on, "{name}");
    }
}

#[test]
fn a_spare_chunk_stands_in_only_where_the_code_can_do_with_it() {
    // Chunk 0 of lrc(4,2,1) is the sum of chunks 1 and 4; chunk 2 is of the other group.
    for (code, spare, can) in [("rs(2,5)", 5, true), ("rs(2,5)", 1, true), ("lrc(4,2,1)", 2, false)]
    {
        let mut work = work(0, &[(1, 3), (2, 3)]);
        work.job.code = code.parse::<Code>().expect("a code").into();
        let first = if code.starts_with("rs") { 2 } else { 1 };
        let chunks = [first, 4, spare].map(ChunkIndex);
        work.job.survivors = chunks.into_iter().zip([1, 2, 8].map(NodeId)).collect();
        let mut active = active(&[(1, 3), (2, 3)], 0);
        active.work = Arc::new(work);
        assert_eq!(can_swap(&active, NodeId(1), NodeId(8)), can, "{code}, chunk {spare}");
        assert!(!can_swap(&active, NodeId(5), NodeId(8)), "node 5 has none");
        assert!(!can_swap(&active, NodeId(1), NodeId(5)), "node 5 has none");
    }
}
