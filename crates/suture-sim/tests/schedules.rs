//! What each schedule is worth, on fixed seeds, beside the bound and beside what its paper says.

use crate::links::{CHUNK, CHUNK_SECONDS, LINK, run, scenario};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::NodeId;
use suture_repair::random::Random;
use suture_sim::capacity::{Capacities, Straggler};
use suture_sim::scenario::Scenario;
use suture_sim::simulate::simulate;

const HELPERS: usize = 6;

/// Seconds of a repair over what equal links need at least.
fn over_bound(policy: &str, nodes: usize, stripes: usize, seed: u64) -> f64 {
    let outcome = run(&Scenario { seed, ..scenario(policy, nodes, stripes, "rs(6,3)") });
    let bound = (HELPERS * stripes) as f64 * CHUNK_SECONDS / (nodes - 1) as f64;
    outcome.seconds / bound
}

fn mean(policy: &str, nodes: usize, stripes: usize) -> f64 {
    (1..=3).map(|seed| over_bound(policy, nodes, stripes, seed)).sum::<f64>() / 3.0
}

/// Links uniform in 1..10 times the usual, each direction by itself.
fn unequal(scenario: Scenario, seed: u64) -> Scenario {
    let random = &mut Random::new(seed);
    let mut cluster = scenario.capacities.cluster().clone();
    for node in &mut cluster.nodes {
        let mut rate = || Rate(LINK * (1.0 + 9.0 * random.unit()));
        (node.uplink, node.downlink) = (rate(), rate());
    }
    Scenario { capacities: Capacities::new(cluster, None, None, Vec::new()), ..scenario }
}

/// The cases in which theory and others were measured: nodes in all, and lost chunks.
const CASES: [(usize, usize); 3] = [(16, 100), (30, 300), (50, 500)];

#[test]
fn slots_take_what_they_take_elsewhere_or_less() {
    // An independent implementation of RepairBoost's slots took these multiples of the bound. On
    // chains ours takes less, because the matching itself tries first what makes a leaf.
    let elsewhere = [
        ("star", [1.115, 1.091, 1.098]),
        ("ppr", [1.085, 1.065, 1.071]),
        ("chain", [1.235, 1.220, 1.271]),
    ];
    for (shape, known) in elsewhere {
        for ((nodes, lost), known) in CASES.into_iter().zip(known) {
            let found = mean(&format!("{shape}/repairboost/slots"), nodes, lost);
            let least = if shape == "chain" { 0.88 } else { 0.95 };
            assert!(found / known < 1.05, "{shape} {nodes}: {found:.3} of {known}");
            assert!(found / known > least, "{shape} {nodes}: {found:.3} of {known}");
        }
    }
}

#[test]
fn a_window_costs_chameleon_what_it_costs_elsewhere() {
    for ((nodes, lost), known) in CASES.into_iter().zip([1.28, 1.32, 1.36]) {
        let found = mean("tunable/chameleon/window", nodes, lost);
        assert!((found / known - 1.0).abs() < 0.05, "{nodes}: {found:.3} of {known}");
    }
}

#[test]
fn everything_at_once_and_waves_reach_the_bound() {
    for (nodes, lost) in CASES {
        let all = mean("split/flow/all", nodes, lost);
        assert!(all <= 1.02, "all, {nodes} nodes: {all:.3}");
        let waves = mean("flow", nodes, lost);
        assert!(waves <= 1.03, "waves, {nodes} nodes: {waves:.3}");
        let suture = mean("suture", nodes, lost);
        assert!(suture <= 0.76, "suture, {nodes} nodes: {suture:.3}");
    }
}

#[test]
fn waves_stay_near_the_fullest_link_where_links_differ() {
    for (nodes, lost) in CASES {
        for seed in 1..=3 {
            let scenario = unequal(scenario("flow", nodes, lost, "rs(6,3)"), seed);
            let outcome = run(&scenario);
            let fullest = outcome.load.max_seconds(scenario.capacities.cluster());
            let ratio = outcome.seconds / fullest;
            assert!(ratio <= 1.06, "{nodes} nodes, seed {seed}: {ratio:.3}");
        }
    }
}

#[test]
fn many_waves_are_as_good_as_one() {
    // 3000 stripes on 15 nodes are more flows than links can distinguish.
    let ratio = over_bound("flow", 16, 3000, 1);
    assert!(ratio <= 1.03, "{ratio:.3}");
}

#[test]
fn a_phase_takes_what_its_nodes_can_finish() {
    for (policy, worst) in [("tunable/chameleon/phases:20", 1.6), ("chameleon", 1.6)] {
        let outcome = run(&scenario(policy, 30, 300, "rs(6,3)"));
        let mut begins: Vec<f64> = outcome.rebuilt.iter().map(|chunk| chunk.began).collect();
        begins.sort_by(f64::total_cmp);
        begins.dedup();
        let bound = HELPERS as f64 * 300.0 * CHUNK_SECONDS / 29.0;
        assert!(begins.len() >= (bound / 20.0) as usize, "{} phases", begins.len());
        let last = begins.windows(2).all(|pair| pair[1] - pair[0] > 1.0);
        assert!(last, "repairs begin with a phase: {begins:?}");
        assert!(outcome.seconds <= worst * bound, "{policy}: {} of {bound}", outcome.seconds);
    }
}

/// Node 3 slows down to a tenth in the middle of the repair, and no monitor reports it.
fn with_straggler(policy: &str) -> f64 {
    let base = scenario(policy, 20, 120, "rs(6,3)");
    let straggler = Straggler { node: NodeId(3), factor: 0.1, from: 4.0, to: 300.0 };
    let cluster = Cluster::uniform(20, Rate(LINK));
    let capacities = Capacities::new(cluster, None, None, vec![straggler]);
    run(&Scenario { capacities, ..base }).seconds
}

#[test]
fn stragglers_are_left_where_the_schedule_looks_for_them() {
    let blind = with_straggler("tunable/chameleon/all");
    let phases = with_straggler("tunable/chameleon/phases:20");
    assert!(phases < 0.9 * blind, "phases {phases:.1} s, blind {blind:.1} s");
    let (blind, waves) = (with_straggler("chain/greedy/all"), with_straggler("chain/greedy/waves"));
    assert!(waves < 0.8 * blind, "waves {waves:.1} s, blind {blind:.1} s");
}

#[test]
fn every_schedule_repairs_everything_and_moves_no_byte_twice_without_need() {
    let schedules = [
        "all",
        "window",
        "window:3",
        "slots",
        "slots:20",
        "slots:by-node",
        "adaptive",
        "phases:5",
        "phases:5:by-node",
        "phases:5:by-time",
        "waves",
    ];
    for schedule in schedules {
        for code in ["rs(6,3)", "lrc(6,2,2)"] {
            let policy = format!("chain/greedy/{schedule}");
            let mut scenario = scenario(&policy, 16, 60, code);
            scenario.failed.push(NodeId(1));
            let outcome = simulate(&scenario, &mut || 0);
            assert!(outcome.unrepaired.is_empty() && outcome.given_up.is_none(), "{policy} {code}");
            let hit = |node: u32| {
                let on = |stripe: &&suture_repair::stripe::Stripe| {
                    stripe.chunk_on(NodeId(node)).is_some()
                };
                scenario.stripes.iter().filter(on).count()
            };
            assert_eq!(outcome.rebuilt.len(), hit(0) + hit(1), "{policy} {code}");
            let most = (outcome.rebuilt.len() * HELPERS) as u64 * CHUNK;
            let moved = outcome.load.moved_bytes();
            assert!(moved as f64 <= 1.05 * most as f64, "{policy} {code}: {moved} of {most}");
            assert_eq!(simulate(&scenario, &mut || 0).seconds, outcome.seconds, "{policy} {code}");
        }
    }
}
