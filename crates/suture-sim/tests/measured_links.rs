//! Undeclared links: repairs show what they carry, and take hardly longer for it.

use crate::links::{LINK, run, scenario};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::random::Random;
use suture_sim::bandwidth_trace::BandwidthTrace;
use suture_sim::capacity::{Capacities, Undeclared};
use suture_sim::scenario::Scenario;

/// Links between `LINK` and five times that, each direction of its own.
fn uneven(nodes: usize, seed: u64) -> Cluster {
    let random = &mut Random::new(seed);
    let mut cluster = Cluster::uniform(nodes, Rate(LINK));
    for node in &mut cluster.nodes {
        node.uplink = Rate(LINK * (1.0 + 4.0 * random.unit()));
        node.downlink = Rate(LINK * (1.0 + 4.0 * random.unit()));
    }
    cluster
}

fn declared(base: Scenario, seed: u64) -> Scenario {
    let nodes = base.capacities.cluster().nodes.len();
    Scenario { capacities: Capacities::new(uneven(nodes, seed), None, None, Vec::new()), ..base }
}

fn undeclared(declared: &Scenario, how: Undeclared) -> Scenario {
    Scenario { capacities: declared.capacities.clone().undeclared(how), ..declared.clone() }
}

#[test]
fn after_probes_at_rest_a_repair_takes_hardly_longer_than_with_declared_links() {
    for seed in 1..4 {
        let declared = declared(scenario("suture", 16, 150, "rs(6,3)"), seed);
        let how = Undeclared { assumed: Rate(100.0 * LINK), is_probed: true };
        let (known, measured) = (run(&declared).seconds, run(&undeclared(&declared, how)).seconds);
        assert!(
            measured <= known / 0.95,
            "seed {seed}: {measured} s, and {known} s where declared"
        );
    }
}

#[test]
fn without_probes_transfers_show_what_links_carry_whatever_they_were_taken_for() {
    // More than is planned and started at once: a sixth begins before anything is known.
    let declared = declared(scenario("flow", 6, 1600, "rs(2,1)"), 1);
    let known = run(&declared).seconds;
    // Ten times what the middle one carries, and a tenth of it.
    for assumed in [30.0 * LINK, 0.3 * LINK] {
        let how = Undeclared { assumed: Rate(assumed), is_probed: false };
        let measured = run(&undeclared(&declared, how)).seconds;
        assert!(measured <= known / 0.75, "{assumed}: {measured} s, and {known} s where declared");
    }
}

#[test]
fn links_that_change_every_few_seconds_are_followed_by_what_transfers_show() {
    let nodes = 8;
    let random = &mut Random::new(5);
    let mut rows = Vec::new();
    for _ in 0..20 {
        // In Mbit/s, as traces have them.
        let row: Vec<String> =
            (0..nodes).map(|_| (8.0 * (1.0 + 4.0 * random.unit())).to_string()).collect();
        rows.extend(std::iter::repeat_n(row.join(","), 5));
    }
    let trace = BandwidthTrace::parse(&rows.join("\n"), nodes).unwrap();
    let base = scenario("flow", nodes, 600, "rs(4,2)");
    let cluster = base.capacities.cluster().clone();
    let capacities = Capacities::new(cluster, Some(trace.clone()), Some(trace), Vec::new());
    let told = Scenario { capacities, ..base };
    let known = run(&told).seconds;
    let how = Undeclared { assumed: Rate(100.0 * LINK), is_probed: false };
    let hidden = undeclared(&told, how);
    let measured = run(&hidden);
    assert!(measured.seconds <= known / 0.75, "{} s, and {known} s where told", measured.seconds);
    assert_eq!(measured.rebuilt, run(&hidden).rebuilt, "the same seed gives the same run");
}

#[test]
fn applications_beside_a_repair_are_no_part_of_what_is_measured() {
    let declared = declared(scenario("flow", 12, 60, "rs(4,2)"), 2);
    let foreground = suture_sim::scenario::Foreground::new("ycsb-a".parse().unwrap(), 2);
    let busy = Scenario { foreground: Some(foreground), ..declared };
    let how = Undeclared { assumed: Rate(100.0 * LINK), is_probed: true };
    let (known, measured) = (run(&busy).seconds, run(&undeclared(&busy, how)).seconds);
    assert!(measured <= known / 0.8, "{measured} s, and {known} s where declared");
}
