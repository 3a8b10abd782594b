//! Slots: what goes first, which nodes are busy, what ends early, and what subprocesses observe of
//! it.

use super::*;

fn running(planned: Vec<PlannedRepair>) -> Bench {
    let mut bench = Bench::new("slots");
    bench.plan(planned);
    bench.start();
    bench
}

/// By how much links look faster to the planner than they are, up and down alike.
fn factors(bench: &mut Bench) -> Vec<f64> {
    let nodes = bench.quota().cluster.expect("links look otherwise").nodes;
    assert!(nodes.iter().all(|node| node.uplink == node.downlink), "{nodes:?}");
    nodes.iter().map(|node| node.uplink.0 / LINK).collect()
}

#[test]
fn of_several_receivers_the_one_goes_first_that_becomes_a_leaf() {
    let mut bench = running(all_planned(&[&[(6, 2), (2, 3), (1, 3)], &[(1, 4)]]));
    assert_eq!(bench.release(), [(0, 6, 2), (1, 1, 4)], "node 3 would still wait for node 2");
}

#[test]
fn what_ends_makes_room_for_the_next_slot() {
    let mut bench = running(all_planned(&[&[(1, 3)], &[(1, 3)]]));
    assert_eq!(bench.release(), [(0, 1, 3)]);
    bench.end(0);
    assert_eq!(bench.release(), [(1, 1, 3)]);
}

#[test]
fn links_that_differ_by_next_to_nothing_are_equal() {
    for (more, next) in [(1e-7, vec![]), (1e-5, vec![(2, 1, 5)])] {
        let mut bench = running(all_planned(&[&[(1, 3)], &[(2, 4)], &[(1, 5)]]));
        bench.cluster.nodes[8].uplink = Rate(LINK * (1.0 + more));
        assert_eq!(bench.release(), [(0, 1, 3), (1, 2, 4)]);
        bench.arrive((0, 1, 3));
        assert_eq!(bench.release(), next, "the slot has not ended, where there are any");
    }
}

#[test]
fn on_unequal_links_a_node_moves_one_chunk_each_way_at_a_time() {
    let mut bench = Bench::new("slots");
    bench.cluster.nodes[8].uplink = Rate(2.0 * LINK);
    bench.plan(vec![planned(0, &[(1, 3)])]);
    bench.start();
    assert_eq!(bench.release(), [(0, 1, 3)]);
    bench.plan(vec![planned(1, &[(1, 4)]), planned(2, &[(5, 3)])]);
    bench.start();
    assert!(bench.release().is_empty(), "node 1 sends, and node 3 receives");
    bench.arrive((0, 1, 3));
    assert_eq!(bench.release(), [(1, 1, 4), (2, 5, 3)]);
}

#[test]
fn on_unequal_links_a_fast_link_takes_its_node_less_time() {
    let mut bench = Bench::new("slots");
    bench.cluster.nodes[2].uplink = Rate(2.0 * LINK);
    bench.cluster.nodes[4].downlink = Rate(2.0 * LINK);
    bench.plan(all_planned(&[&[(1, 3)], &[(2, 4)]]));
    bench.start();
    assert_eq!(bench.release(), [(0, 1, 3), (1, 2, 4)]);
    [(0, 1, 3), (1, 2, 4)].into_iter().for_each(|edge| bench.arrive(edge));
    bench.plan(vec![planned(2, &[(1, 3)]), planned(3, &[(2, 3)])]);
    bench.start();
    assert_eq!(bench.release(), [(3, 2, 3)], "node 2 has spent half a second, node 1 one");
}

#[test]
fn a_repair_rests_while_nothing_of_it_flows_and_something_is_left() {
    let mut bench = running(vec![planned(0, &[(1, 3), (2, 3)])]);
    let state = |bench: &Bench| {
        let edges = bench.edges.as_ref().expect("the schedule has slots");
        let to = |node| edges.released_to(NodeId(node)).iter().map(|edge| edge.child.0).collect();
        (edges.is_waiting(RepairId(0)), to(3), to(1))
    };
    for child in [1, 2] {
        assert_eq!(state(&bench), (true, vec![], vec![]));
        assert_eq!(bench.release(), [(0, child, 3)]);
        assert_eq!(state(&bench), (false, vec![child], vec![]));
        bench.arrive((0, child, 3));
    }
    assert_eq!(state(&bench), (false, vec![], vec![]), "everything has arrived");
    bench.end(0);
    assert_eq!(state(&bench), (false, vec![], vec![]), "nobody knows it");
}

#[test]
fn what_arrives_with_the_end_of_its_repair_counts_and_only_for_its_subprocess() {
    for is_released in [false, true] {
        let mut bench = Bench::new("slots:2");
        bench.ready = 4;
        bench.quota();
        bench.plan(all_planned(&[&[(1, 3)], &[(2, 4)]]));
        bench.start();
        bench.release();
        for (stripe, seconds) in [(0, 1.0), (1, 4.0)] {
            bench.now = at(seconds);
            bench.end(stripe);
            if is_released {
                bench.release();
            }
        }
        let (fast, slow) = (1.1, 1.0 / 1.1);
        let expected = [1.0, fast, 1.0, 1.0, slow, 1.0, 1.0, 1.0, 1.0];
        // Otherwise all of them count as ended just now.
        if is_released {
            assert_eq!(factors(&mut bench), expected);
        } else {
            bench.quota();
        }
        bench.plan(vec![planned(2, &[(5, 6)]), planned(3, &[(7, 0)])]);
        bench.start();
        bench.release();
        for (edge, seconds) in [((2, 5, 6), 6.0), ((3, 7, 0), 8.0)] {
            bench.now = at(seconds);
            bench.arrive(edge);
            bench.end(edge.0);
        }
        let later = factors(&mut bench);
        assert_eq!((later[5], later[7], later[2]), (fast, slow, 1.0), "{later:?}");
    }
}
