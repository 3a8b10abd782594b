//! Waves: when one is planned, what counts as a changed link, which node lags, and which stands in.

use super::*;

/// Two repairs that share the downlink of node 3, or one with two helpers.
const PAIR: Edges<'_> = &[(1, 3), (2, 3)];

fn running(planned: Vec<PlannedRepair>) -> Bench {
    let mut bench = Bench::new("waves");
    bench.plan(planned);
    bench.start();
    bench
}

/// The edges of the replacement, if one is wanted.
fn left(bench: &mut Bench) -> Option<(u64, Vec<(u32, u32)>)> {
    match &bench.directives()[..] {
        [] => None,
        [Directive::Replace { repair, plan }] => Some((repair.0, edges_of(plan))),
        other => panic!("one replacement at most, not {other:?}"),
    }
}

#[test]
fn the_next_wave_is_planned_when_less_than_half_of_one_waits() {
    for (waiting, quota) in [(288, Quota::NONE), (287, Quota::of(576))] {
        let mut bench = Bench::new("waves");
        bench.ready = 200;
        bench.plan(alike(waiting));
        assert_eq!(bench.quota(), quota, "{waiting} wait");
    }
}

#[test]
fn a_plan_that_fills_a_link_more_waits_longer() {
    let mut bench = Bench::new("waves");
    assert_eq!(bench.plan(all_planned(&[PAIR, &[(4, 5)]])), [1, 0]);
}

#[test]
fn a_link_has_changed_when_it_differs_by_more_than_a_quarter() {
    for (links, has_changed) in [(1.25, false), (1.26, true), (0.8, false), (0.79, true)] {
        for is_up in [true, false] {
            let mut bench = Bench::new("waves");
            bench.plan(vec![planned(0, &[(4, 5)])]);
            let node = &mut bench.cluster.nodes[1];
            *(if is_up { &mut node.uplink } else { &mut node.downlink }) = Rate(links * LINK);
            bench.scheduler.links_changed(bench.now, &bench.cluster);
            let expected = if has_changed { vec![Directive::PlanAgain] } else { Vec::new() };
            assert_eq!(bench.directives(), expected, "{links}, uplink: {is_up}");
        }
    }
}

#[test]
fn averages_follow_downlinks_as_they_follow_uplinks() {
    let mut bench = Bench::new("waves");
    bench.uplink(1, 1.0);
    bench.now = at(60.0);
    bench.cluster.nodes[2].downlink = Rate(0.2 * LINK);
    bench.uplink(1, 2.0);
    let mut averages = |now: f64| {
        bench.now = at(now);
        let nodes = bench.quota().cluster.expect("averages").nodes;
        (nodes[1].uplink.0 / LINK, nodes[2].downlink.0 / LINK)
    };
    assert_eq!(averages(60.0), (1.0, 1.0), "they have had it for no time");
    let (up, down) = averages(120.0);
    assert!((up - 1.75).abs() < 1e-9 && (down - 0.4).abs() < 1e-9, "{up}, {down}");
    let (up, down) = averages(20_000.0);
    assert!((up - 2.0).abs() < 0.01 && (down - 0.2).abs() < 0.01, "{up}, {down}");
}

#[test]
fn what_is_measured_of_a_link_counts_at_once_and_the_others_are_averaged() {
    let mut bench = Bench::new("waves");
    bench.uplink(1, 1.0);
    bench.now = at(60.0);
    (bench.cluster.nodes[1].uplink, bench.cluster.nodes[2].uplink) =
        (Rate(0.1 * LINK), Rate(0.1 * LINK));
    bench.scheduler.links_measured(bench.now, NodeId(1), &bench.cluster);
    let nodes = bench.quota().cluster.expect("averages").nodes;
    assert_eq!([nodes[1].uplink.0, nodes[2].uplink.0], [0.1 * LINK, LINK]);
}

#[test]
fn a_helper_is_left_when_it_has_less_than_half_and_somebody_has_twice_as_much() {
    let cases = [(0.7, 1.0, false), (0.5, 1.0, false), (0.4, 0.7, false), (0.25, 0.5, true)];
    for (slow, spare, is_left) in cases {
        let mut bench = running(vec![planned(0, PAIR)]);
        bench.cluster.nodes[8].uplink = Rate(spare * LINK);
        bench.uplink(1, slow);
        let expected = is_left.then(|| (0, vec![(8, 3), (2, 3)]));
        assert_eq!(left(&mut bench), expected, "{slow}, and {spare} instead");
    }
}

#[test]
fn of_those_who_can_stand_in_the_fastest_does() {
    let mut planned = planned(0, PAIR);
    planned.job.code = "rs(2,3)".parse::<Code>().expect("a code").into();
    planned.job.survivors.push((ChunkIndex(4), NodeId(7)));
    let mut bench = running(vec![planned]);
    bench.cluster.nodes[7].uplink = Rate(2.0 * LINK);
    bench.uplink(1, 0.1);
    assert_eq!(left(&mut bench), Some((0, vec![(7, 3), (2, 3)])));
}

/// Two chunks come through node 3's downlink: 64 bytes a second are fair.
#[test]
fn a_repair_lags_below_half_of_its_share_as_long_as_it_has_a_second_to_go() {
    let cases = [
        ("too early to tell", 1.0, 8, false),
        ("early enough", 2.0, 48, true),
        ("just half of the share", 2.0, 64, false),
        ("what is left takes more than a second", 4.0, 102, true),
        ("it takes less", 4.0, 103, false),
    ];
    for (case, seconds, bytes, lags) in cases {
        let mut bench = running(vec![planned(0, PAIR)]);
        bench.now = at(seconds);
        bench.progress(0, bytes);
        bench.now = at(seconds.max(3.0));
        let expected = lags.then(|| (0, vec![(8, 3), (2, 3)]));
        assert_eq!(left(&mut bench), expected, "{case}");
    }
}

#[test]
fn of_a_repair_of_which_nothing_comes_however_little_is_left_takes_too_long() {
    for (come, is_left) in [(120, true), (CHUNK, false)] {
        let mut bench = running(vec![planned(0, PAIR)]);
        bench.now = at(2.0);
        bench.progress(0, come);
        bench.now = at(3.0);
        assert_eq!(left(&mut bench), None);
        bench.now = at(5.0);
        bench.progress(0, come);
        bench.now = at(6.0);
        let expected = is_left.then(|| (0, vec![(8, 3), (2, 3)]));
        assert_eq!(left(&mut bench), expected, "{come} have come");
    }
}

/// Four chunks come through node 3's downlink: 32 bytes a second are fair.
#[test]
fn a_repair_lags_by_what_has_come_since_it_was_last_looked_at() {
    let mut bench = running(all_planned(&[&[(1, 3)], &[(4, 3)], &[(5, 3)], &[(6, 3)]]));
    bench.now = at(2.0);
    bench.progress(0, 80);
    bench.now = at(3.0);
    assert_eq!(left(&mut bench), None);
    bench.now = at(5.0);
    bench.progress(0, 82);
    bench.now = at(6.0);
    assert_eq!(left(&mut bench), Some((0, vec![(8, 3)])), "on the whole it was fast enough");
}

#[test]
fn the_last_slices_of_a_chunk_are_looked_at_every_second() {
    for (come, is_last) in [(115, true), (64, false)] {
        let mut bench = running(vec![planned(0, PAIR)]);
        bench.now = at(2.0);
        bench.progress(0, come);
        bench.now = at(3.0);
        assert_eq!(left(&mut bench), None, "it had its share");
        bench.progress(0, come + 1);
        bench.now = at(4.0);
        let expected = is_last.then(|| (0, vec![(8, 3), (2, 3)]));
        assert_eq!(left(&mut bench), expected, "{come} had come");
    }
}

/// 32 chunks come through node 3's downlink: 4 bytes a second are fair, and 8 may be under way.
#[test]
fn a_repair_whose_share_is_small_is_measured_until_that_is_more_than_what_is_under_way() {
    let other: Edges<'_> = &[(4, 3)];
    let mut all: Vec<Edges<'_>> = vec![&[(1, 3)]];
    all.extend([other; 31]);
    let mut bench = running(all_planned(&all));
    bench.now = at(3.0);
    bench.progress(0, 0);
    assert_eq!(left(&mut bench), None, "six bytes, half of its share, may be on their way");
    bench.now = at(6.0);
    bench.progress(0, 0);
    assert_eq!(left(&mut bench), Some((0, vec![(8, 3)])));
}

#[test]
fn what_has_ended_leaves_its_share_to_the_others() {
    for other in [(4, 3), (1, 5)] {
        let mut bench = running(all_planned(&[&[(1, 3)], &[other]]));
        bench.end(1);
        bench.now = at(2.0);
        // Half of 128 a second are fair, half of 64 would have been.
        bench.progress(0, 60);
        bench.now = at(3.0);
        assert_eq!(left(&mut bench), Some((0, vec![(8, 3)])), "beside {other:?}");
    }
}

#[test]
fn a_repair_gets_another_helper_once_and_so_does_what_replaces_it() {
    let mut bench = running(vec![planned(0, PAIR)]);
    let again = |bench: &mut Bench| {
        bench.end(0);
        bench.plan(vec![planned(0, PAIR)]);
        bench.start();
    };
    let lags = |bench: &mut Bench, seconds: f64, bytes: u64| {
        bench.now = at(seconds);
        bench.progress(0, bytes);
        left(bench).is_some()
    };
    assert!(lags(&mut bench, 3.0, 48));
    assert!(!lags(&mut bench, 6.0, 49), "its replacement is on its way");
    again(&mut bench);
    assert!(!lags(&mut bench, 9.0, 10), "it is the replacement");
    again(&mut bench);
    assert!(lags(&mut bench, 12.0, 10), "what has ended is forgotten");
}

#[test]
fn how_far_a_repair_came_is_forgotten_with_it() {
    let mut bench = running(vec![planned(0, PAIR)]);
    bench.now = at(2.0);
    bench.progress(0, 90);
    bench.now = at(3.0);
    assert_eq!(left(&mut bench), None);
    bench.end(0);
    bench.plan(vec![planned(0, PAIR)]);
    bench.start();
    bench.now = at(5.0);
    bench.progress(0, 80);
    bench.now = at(6.0);
    assert_eq!(left(&mut bench), None, "40 bytes a second");
}

#[test]
fn a_node_is_blamed_only_where_the_others_are_late_less_than_half_as_often() {
    let cases: [(Edges<'_>, bool); 3] =
        [(&[], false), (&[(3, 5)], true), (&[(3, 5), (6, 4)], true)];
    for (on_time, is_blamed) in cases {
        let mut all: Vec<Edges<'_>> = vec![&[(1, 2)], &[(3, 4)]];
        all.extend(on_time.chunks(1));
        let mut bench = running(all_planned(&all));
        bench.now = at(3.0);
        bench.progress(0, 8);
        bench.progress(1, 8);
        let expected = is_blamed.then(|| (0, vec![(8, 2)]));
        assert_eq!(left(&mut bench), expected, "beside {on_time:?}");
    }
}

#[test]
fn how_far_averages_have_gone_is_looked_at_every_three_seconds_and_noticed_once() {
    let mut bench = Bench::new("waves");
    bench.plan(vec![planned(0, PAIR)]);
    bench.uplink(1, 1.0);
    bench.now = at(60.0);
    bench.uplink(1, 10.0);
    let noticed: Vec<u32> = (60..=84)
        .filter(|second| {
            bench.now = at(f64::from(*second));
            bench.directives() == [Directive::PlanAgain]
        })
        .collect();
    // Averages of 1, 2.17, 3.08, 3.79, 4.38, 4.86, 5.26, 5.61 and 5.91.
    assert_eq!(noticed, [63, 66, 72, 81]);
}
