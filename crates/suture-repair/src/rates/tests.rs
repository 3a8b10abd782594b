//! What counts of links: declared, probed, and measured from transfers.

mod network;

use super::*;
use crate::id::RackId;
use crate::message::{Moved, RepairLimit, SentTo};
use crate::time::Span;

const N: fn(u32) -> NodeId = NodeId;

fn rates(nodes: usize) -> Rates {
    let mut rates = Rates::default();
    (0..nodes).for_each(|i| rates.declare(N(i as u32), Node::new(format!("n{i}"), Rate(1e6))));
    rates
}

fn probed(all: &[(u32, u64)]) -> LinkReport {
    let probed = all.iter().map(|(peer, rate)| (N(*peer), *rate)).collect();
    LinkReport { span: Span::from_secs(1), probed, ..LinkReport::default() }
}

#[test]
fn a_direction_is_the_best_of_what_its_peers_have_shown() {
    let mut rates = rates(3);
    let declares_nothing = probed(&[]);
    (0..3).for_each(|i| drop(rates.report(N(i), &declares_nothing)));
    assert_eq!(rates.node(N(0)).uplink, Rate(1e6), "what it was taken for, until more is known");
    // Uplinks 900, 400, 200; downlinks 300, 800, 700.
    rates.report(N(1), &probed(&[(0, 800), (2, 200)]));
    rates.report(N(2), &probed(&[(0, 700), (1, 400)]));
    rates.report(N(0), &probed(&[(1, 300), (2, 200)]));
    let all = [0, 1, 2].map(|i| (rates.node(N(i)).uplink.0, rates.node(N(i)).downlink.0));
    assert_eq!(all, [(800.0, 300.0), (400.0, 800.0), (200.0, 700.0)]);
}

#[test]
fn a_direction_that_nobody_has_probed_counts_as_most_others_do() {
    let mut rates = rates(5);
    (0..5).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
    let changed = rates.report(N(1), &probed(&[(0, 5_000_000)]));
    assert_eq!(changed, [0, 1, 2, 3, 4].map(N), "all count anew");
    assert_eq!((rates.node(N(4)).uplink, rates.node(N(4)).downlink), (Rate(5e6), Rate(5e6)));
    assert_eq!(rates.status(N(4))[0].uncertainty, None, "it is not known");
    // Of rates of 2, 3 and 5 MB/s the middle one.
    rates.report(N(0), &probed(&[(2, 2_000_000), (3, 3_000_000)]));
    rates.report(N(0), &probed(&[(2, 2_000_000), (3, 3_000_000)]));
    assert_eq!((rates.node(N(4)).uplink, rates.node(N(2)).uplink), (Rate(3e6), Rate(2e6)));
    let declares = LinkReport { has_uplink: true, ..probed(&[]) };
    rates.report(N(4), &declares);
    assert_eq!(rates.node(N(4)).uplink, Rate(1e6), "what is declared counts");
}

#[test]
fn a_declared_rate_counts_whatever_probes_show() {
    let mut rates = rates(2);
    let declares = LinkReport { has_uplink: true, ..probed(&[]) };
    rates.report(N(0), &declares);
    rates.report(N(1), &probed(&[(0, 7_000_000)]));
    assert_eq!(rates.node(N(0)).uplink, Rate(1e6));
    assert_eq!(rates.node(N(1)).downlink, Rate(7e6));
    assert_eq!(rates.status(N(0))[0].uncertainty, None);
    assert!(rates.status(N(0))[0].is_declared && !rates.status(N(1))[1].is_declared);
}

#[test]
fn results_are_averaged_and_how_far_they_scatter_is_kept() {
    let mut rates = rates(2);
    rates.report(N(1), &probed(&[(0, 1000)]));
    assert_eq!(rates.status(N(1))[1].uncertainty, Some(250), "one result says little");
    (0..40).for_each(|_| drop(rates.report(N(1), &probed(&[(0, 1000)]))));
    assert!(rates.status(N(1))[1].uncertainty < Some(20), "the same again and again");
    rates.report(N(1), &probed(&[(0, 400)]));
    assert_eq!(rates.node(N(1)).downlink, Rate(400.0), "another link");
    (0..40).for_each(|_| drop(rates.report(N(1), &probed(&[(0, 500)]))));
    let capacity = rates.node(N(1)).downlink.0;
    assert!((480.0..=500.0).contains(&capacity), "{capacity}");
}

#[test]
fn what_a_direction_was_seen_to_carry_it_can_carry() {
    let mut rates = rates(2);
    rates.report(N(1), &probed(&[(0, 1000)]));
    let received = Moved { repair: 4000, others: 1000 };
    rates.report(N(1), &LinkReport { received, ..probed(&[]) });
    assert_eq!(rates.node(N(1)).downlink, Rate(5000.0));
    let status = rates.status(N(1))[1];
    assert_eq!((status.repair, status.taken), (4000, 1000));
}

#[test]
fn nodes_that_are_gone_leave_no_transfers_behind() {
    let sent_to = |peer| vec![SentTo { peer: N(peer), bytes: 1000, waited: Span::ZERO }];
    for gone in [[0, 1], [1, 0]] {
        let mut rates = rates(3);
        for (node, peer) in [(0, 1), (1, 0), (2, 0), (1, 2)] {
            rates.report(N(node), &LinkReport { sent_to: sent_to(peer), ..probed(&[]) });
        }
        gone.into_iter().for_each(|node| rates.gone(N(node)));
        assert_eq!(rates.transfers, 0, "{gone:?}");
    }
}

#[test]
fn no_more_peers_are_remembered_than_are_of_use() {
    let mut rates = rates(40);
    let declares_nothing = probed(&[]);
    rates.report(N(0), &declares_nothing);
    for peer in 1..40 {
        rates.report(N(0), &probed(&[(peer, 10_000 - u64::from(peer))]));
    }
    assert_eq!(rates.nodes[0].measured[1].samples.len(), PEERS_MAX);
    assert_eq!(rates.node(N(0)).downlink, Rate(9976.0), "the best of the latest sixteen");
}

#[test]
fn what_was_seen_to_pass_fades_until_what_probes_have_shown_is_more() {
    let mut rates = rates(2);
    rates.report(N(1), &probed(&[(0, 1000)]));
    let received = Moved { repair: 4000, others: 0 };
    rates.report(N(1), &LinkReport { received, ..probed(&[]) });
    let mut later = || {
        rates.report(N(1), &probed(&[]));
        rates.node(N(1)).downlink.0
    };
    assert_eq!([later(), later()], [3000.0, 2250.0]);
    assert_eq!((0..20).map(|_| later()).last(), Some(1000.0));
}

#[test]
fn a_link_that_became_slow_is_known_for_that_after_a_few_results() {
    let mut rates = rates(12);
    (0..12).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
    let probe_all = |rates: &mut Rates, of: u64, turns: std::ops::Range<u32>| {
        // Node 0 sends no faster than that, and all others 1000.
        for turn in turns {
            for node in 0..12 {
                let peer = (node + 1 + turn) % 12;
                let rate = if peer == 0 { of } else { 1000 };
                if peer != node {
                    rates.report(N(node), &probed(&[(peer, rate)]));
                }
            }
        }
    };
    probe_all(&mut rates, 1000, 0..11);
    assert_eq!(rates.node(N(0)).uplink, Rate(1000.0));
    probe_all(&mut rates, 100, 0..4);
    assert_eq!(rates.node(N(0)).uplink, Rate(1000.0), "so far others may be slow");
    probe_all(&mut rates, 100, 4..5);
    assert_eq!(rates.node(N(0)).uplink, Rate(100.0));
    // Those that probed it are not slower than they were.
    probe_all(&mut rates, 100, 5..11);
    assert!((1..12).all(|node| rates.node(N(node)).downlink == Rate(1000.0)));
}

#[test]
fn a_receiver_that_became_slow_is_known_for_that_after_a_few_results() {
    // Half of what both should carry is no reason to doubt any.
    for (rate, is_replaced) in [(500, false), (499, true)] {
        let mut rates = rates(12);
        (0..12).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
        // All carry 1000, as the one after them has seen.
        (1..12).for_each(|i| drop(rates.report(N(i), &probed(&[(i - 1, 1000)]))));
        // The last of these is just before the doubt.
        (2..10).for_each(|peer| drop(rates.report(N(0), &probed(&[(peer, 1000)]))));
        let mut downlink = |peer: u32| {
            rates.report(N(0), &probed(&[(peer, rate)]));
            rates.node(N(0)).downlink.0
        };
        for peer in [2, 3, 4, 5] {
            assert_eq!(downlink(peer), 1000.0, "so far others may be slow");
        }
        let expected = if is_replaced { 499.0 } else { 1000.0 };
        assert_eq!(downlink(6), expected, "after five results of {rate}");
    }
}

#[test]
fn a_result_about_a_stranger_about_the_node_itself_or_of_nothing_is_none() {
    let mut rates = rates(3);
    (0..3).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
    for result in [(3, 500), (0, 500), (1, 0)] {
        assert_eq!(rates.report(N(0), &probed(&[result])), [N(0)], "{result:?}");
        let all = [0, 1].map(|i| (rates.node(N(i)).uplink.0, rates.node(N(i)).downlink.0));
        assert_eq!(all, [(1e6, 1e6); 2], "{result:?}");
    }
}

#[test]
fn a_report_tells_more_of_those_it_names_and_a_new_median_of_those_that_count_by_it() {
    let mut rates = rates(12);
    (0..11).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
    let declares = LinkReport { has_uplink: true, has_downlink: true, ..probed(&[]) };
    rates.report(N(11), &declares);
    let changed = rates.report(N(1), &probed(&[(0, 5_000_000)]));
    let undeclared: Vec<NodeId> = (0..11).map(N).collect();
    assert_eq!(changed, undeclared, "the first result is also the median");
    let changed = rates.report(N(3), &probed(&[(2, 6_000_000)]));
    assert_eq!(changed, [3, 2].map(N), "the median is not taken anew for each result");
}

#[test]
fn a_result_of_up_to_twice_or_half_the_average_moves_it_and_any_other_replaces_it() {
    let after = |rate: u64| {
        let mut known = rates(2);
        known.report(N(1), &probed(&[(0, 1000)]));
        known.report(N(1), &probed(&[(0, rate)]));
        let status = known.status(N(1))[1];
        (status.capacity, status.uncertainty)
    };
    // By a quarter of the difference; what it may be off by begins with a quarter, 250.
    assert_eq!(after(2000), (1250, Some(250 - 62 + 250)));
    assert_eq!(after(500), (875, Some(250 - 62 + 125)));
    assert_eq!(after(2001), (2001, Some(500)));
    assert_eq!(after(499), (499, Some(124)));
}

/// A node sends so much to each of these, waiting for it or not, and receives so much.
fn moving(sent: &[(u32, u64, bool)], received: u64) -> LinkReport {
    let span = Span::from_secs(1);
    let sent_to = |&(peer, bytes, waits): &(u32, u64, bool)| SentTo {
        peer: N(peer),
        bytes,
        waited: if waits { span } else { Span::ZERO },
    };
    let moved = |repair| Moved { repair, others: 0 };
    LinkReport {
        span,
        sent: moved(sent.iter().map(|(_, bytes, _)| bytes).sum()),
        received: moved(received),
        sent_to: sent.iter().map(sent_to).collect(),
        ..LinkReport::default()
    }
}

fn undeclared(nodes: u32) -> Rates {
    let mut rates = rates(nodes as usize);
    (0..nodes).for_each(|node| drop(rates.report(N(node), &probed(&[]))));
    rates
}

#[test]
fn a_slow_uplink_is_known_from_what_it_sends_and_nobody_else_is_blamed() {
    let mut rates = undeclared(4);
    let slow = |rate| moving(&[(1, rate, true), (2, rate, true), (3, rate, true)], 0);
    rates.report(N(0), &slow(33_000));
    assert_eq!(rates.node(N(0)).uplink, Rate(99_000.0));
    assert_eq!(rates.status(N(0))[0].uncertainty, Some(24_750));
    for node in 1..4 {
        rates.report(N(node), &moving(&[], 33_000));
        assert_eq!(rates.node(N(node)).downlink, Rate(1e6));
    }
    rates.report(N(0), &slow(300_000));
    assert_eq!(rates.node(N(0)).uplink, Rate(900_000.0), "another link");
    // Nothing is repaired any more: what is known keeps.
    (0..300).for_each(|_| drop(rates.report(N(0), &moving(&[], 0))));
    assert_eq!(rates.node(N(0)).uplink, Rate(900_000.0));
}

#[test]
fn a_slow_downlink_is_known_though_its_senders_tell_of_it_one_after_the_other() {
    let mut rates = undeclared(5);
    let mut second = || {
        for node in 1..5 {
            let others = (1..5).filter(|other| *other != node).map(|other| (other, 100_000, false));
            let sent: Vec<(u32, u64, bool)> = others.chain([(0, 20_000, true)]).collect();
            rates.report(N(node), &moving(&sent, 300_000));
        }
        rates.report(N(0), &moving(&[], 80_000));
        [rates.node(N(0)).downlink.0, rates.node(N(1)).uplink.0, rates.node(N(4)).uplink.0]
    };
    for _ in 0..20 {
        assert_eq!(second(), [80_000.0, 1e6, 1e6]);
    }
}

#[test]
fn who_is_given_little_because_little_is_thought_of_it_is_known_for_more_in_seconds() {
    let mut rates = undeclared(2);
    rates.report(N(1), &probed(&[(0, 10_000)]));
    assert_eq!(rates.node(N(0)).uplink, Rate(10_000.0));
    // It is given what it is thought to carry, and could carry ten times that.
    for _ in 0..14 {
        let given = rates.node(N(0)).uplink.0 as u64;
        let passes = given.min(100_000);
        rates.report(N(0), &moving(&[(1, passes, given > passes)], 0));
    }
    let found = rates.node(N(0)).uplink.0;
    assert!((100_000.0..150_000.0).contains(&found), "{found}");
}

#[test]
fn a_declared_rate_is_a_ceiling_and_no_promise() {
    let mut rates = rates(3);
    let declares =
        |report: LinkReport| LinkReport { has_uplink: true, has_downlink: true, ..report };
    (0..3).for_each(|node| drop(rates.report(N(node), &declares(probed(&[])))));
    let mut sends = |rate| {
        rates.report(N(0), &declares(moving(&[(1, rate, true), (2, rate, true)], 0)));
        (rates.node(N(0)).uplink.0, rates.status(N(0))[0].uncertainty)
    };
    assert_eq!(sends(300_000), (1e6, None), "headers, and who shares the machine");
    assert_eq!(sends(150_000), (400_000.0, Some(200_000)), "one result may be wrong");
    assert_eq!(sends(150_000), (350_000.0, Some(175_000)), "half of the way");
    assert_eq!(sends(600_000), (1e6, None), "never more than that");
}

#[test]
fn what_waits_because_repair_is_limited_says_nothing_of_links() {
    let mut rates = undeclared(3);
    let limit = RepairLimit { up: Some(100_000), down: None };
    let report = moving(&[(1, 50_000, true), (2, 50_000, true)], 0);
    rates.report(N(0), &LinkReport { limit, ..report.clone() });
    rates.report(N(0), &LinkReport { cap: Some(100_000), ..report.clone() });
    assert_eq!(rates.node(N(0)).uplink, Rate(1e6));
    rates.report(N(0), &report);
    assert_eq!(rates.node(N(0)).uplink, Rate(100_000.0));
}

#[test]
fn probes_that_are_newer_take_the_place_of_what_transfers_have_shown() {
    let mut rates = undeclared(8);
    let sent: Vec<(u32, u64, bool)> = (1..8).map(|peer| (peer, 10_000, true)).collect();
    rates.report(N(0), &moving(&sent, 0));
    (0..9).for_each(|_| drop(rates.report(N(0), &moving(&[], 0))));
    let rate = |rates: &Rates| rates.node(N(0)).uplink.0;
    assert_eq!(rate(&rates), 70_000.0);
    rates.report(N(1), &probed(&[(0, 50_000)]));
    assert_eq!(rate(&rates), 50_000.0, "there is no other result that could be newer");
}

#[test]
fn what_senders_say_that_are_silent_since_is_forgotten() {
    let mut rates = undeclared(3);
    rates.report(N(1), &moving(&[(0, 10_000, true)], 0));
    rates.report(N(2), &moving(&[(0, 10_000, true)], 0));
    assert_eq!(rates.transfers, 2);
    for _ in 0..6 {
        rates.report(N(2), &moving(&[(0, 10_000, true)], 0));
        rates.report(N(0), &moving(&[], 20_000));
    }
    assert_eq!(rates.transfers, 1);
    assert!(rates.nodes[1].flows.sent.is_empty());
    // Of strangers and of oneself nothing is noted, and what moved nothing is none.
    rates.report(N(2), &moving(&[(2, 5, true), (9, 5, true), (1, 0, false)], 0));
    assert_eq!(rates.transfers, 0);
}

#[test]
fn the_link_of_a_rack_is_known_once_several_of_its_nodes_wait_for_it() {
    let mut rates = rates(6);
    for node in 0..6 {
        let rack = Some(RackId(node / 2));
        rates.declare(N(node), Node { rack, ..Node::new(format!("n{node}"), Rate(1e6)) });
        rates.report(N(node), &probed(&[]));
    }
    let mut second = |rate: u64| {
        // The nodes of the first rack send to the two others, and to each other.
        rates.report(N(0), &moving(&[(1, 400_000, false), (2, rate, true)], 400_000));
        rates.report(N(1), &moving(&[(0, 400_000, false), (4, rate, true)], 400_000));
        for node in 2..6 {
            let received = if node % 2 == 0 { rate } else { 0 };
            rates.report(N(node), &moving(&[], received));
        }
        rates.rack_status(RackId(0))[0].map(|link| link.capacity)
    };
    assert_eq!(second(50_000), None, "nobody has looked at the others yet");
    assert_eq!(second(50_000), Some(100_000));
    assert_eq!(second(200_000), Some(400_000));
    assert_eq!(rates.node(N(0)).uplink, Rate(1e6));
    assert_eq!([1, 2].map(|rack| rates.rack_status(RackId(rack))[1]), [None; 2]);
    assert_eq!(rates.rack_status(RackId(0))[1], None);
    assert_eq!(rates.rack_status(RackId(7)), [None; 2]);
    rates.report(N(2), &probed(&[(1, 900_000)]));
    let known = rates.rack_status(RackId(0))[0].expect("it is known");
    assert_eq!((known.capacity, known.repair), (900_000, 400_000), "a probe has passed it");
}

#[test]
fn a_direction_that_nothing_has_shown_counts_as_most_of_those_that_something_has() {
    let mut rates = undeclared(9);
    let mut slow = |node: u32, rate: u64| {
        let [first, second] = [3 + 2 * node, 4 + 2 * node];
        rates.report(N(node), &moving(&[(first, rate, true), (second, rate, true)], 0))
    };
    let all_from = |first: u32| (first..9).map(N).collect::<Vec<NodeId>>();
    assert_eq!(slow(0, 10_000), all_from(0), "all others count by it");
    assert_eq!(slow(1, 20_000), all_from(1), "the median is another one");
    assert_eq!(slow(2, 30_000), [N(2)], "it is the same");
    let uplinks: Vec<f64> = (0..5).map(|node| rates.node(N(node)).uplink.0).collect();
    assert_eq!(uplinks, [20e3, 40e3, 60e3, 40e3, 40e3]);
    assert_eq!(rates.status(N(3))[0].uncertainty, None, "it is not known");
    assert_eq!(rates.node(N(3)).downlink, Rate(1e6), "of downlinks nothing is known");
}
