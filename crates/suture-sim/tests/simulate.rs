//! Whole repairs on the fluid network: closed forms, bytes, time-varying links, applications.

use crate::links::{CHUNK, CHUNK_SECONDS, LINK, run, scenario};
use suture_code::Code;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::load::{Load, Port};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start, StripeFacts};
use suture_repair::processor::{Processor, ProcessorCosts};
use suture_repair::random::Random;
use suture_repair::throttle::{Keep, ThrottleConfig};
use suture_sim::bandwidth_trace::BandwidthTrace;
use suture_sim::capacity::{Capacities, Straggler};
use suture_sim::client::{Readers, Served, percentile};
use suture_sim::ports::PortMap;
use suture_sim::scenario::{Foreground, Overheads, Scenario};
use suture_sim::simulate::{GivenUp, Outcome, alone, applications, simulate, timeline_links};
use suture_sim::workload::Access;

/// Nanoseconds that a processor of these tests works in a second, where it is modelled.
const WORK: f64 = 5e5;

fn ycsb(clients: usize) -> Foreground {
    Foreground::new("ycsb-a".parse().unwrap(), clients)
}

fn check_seconds(outcome: &Outcome, seconds: f64) {
    assert!((outcome.seconds / seconds - 1.0).abs() < 5e-4, "{} of {seconds} s", outcome.seconds);
}

#[test]
fn closed_forms_to_three_digits() {
    // One chunk: a star waits for k chunks at its destination, a chain for one link, PPR's tree
    // (three pairs, then two) for its nodes with two children.
    for (policy, chunk_times) in
        [("star/random/all", 6.0), ("chain/random/all", 1.0), ("ppr/random/all", 2.0)]
    {
        let outcome = run(&scenario(policy, 10, 1, "rs(6,3)"));
        check_seconds(&outcome, chunk_times * CHUNK_SECONDS);
    }
    // A node with f chunks: k f / N when loads are even, whatever the shape.
    let full_node = run(&scenario("split/flow/all", 16, 150, "rs(6,3)"));
    check_seconds(&full_node, 6.0 * 150.0 / 15.0 * CHUNK_SECONDS);
}

#[test]
fn overheads_are_paid_by_each_hop_and_slice() {
    let chain = |hop_seconds, slice_seconds| {
        let overheads = Overheads { hop_seconds, slice_seconds };
        run(&Scenario { overheads, ..scenario("chain/random/all", 10, 1, "rs(6,3)") }).seconds
    };
    assert!((chain(0.25, 0.0) - CHUNK_SECONDS - 6.0 * 0.25).abs() < 1e-6);
    // 64 slices of 16 KiB, and five more steps until the last has passed six edges.
    assert!((chain(0.0, 0.01) - CHUNK_SECONDS - 69.0 * 0.01).abs() < 1e-6);
}

#[test]
fn no_schedule_beats_the_busiest_port_and_every_byte_is_moved() {
    for policy in ["cr", "rp", "suture", "star/greedy/window:3", "flow", "chameleon"] {
        let scenario =
            Scenario { timeline_buckets: Some(64), ..scenario(policy, 16, 60, "rs(6,3)") };
        let outcome = run(&scenario);
        let cluster = scenario.capacities.cluster();
        assert!(outcome.seconds >= outcome.load.max_seconds(cluster) * (1.0 - 1e-9), "{policy}");
        assert_eq!(outcome.rebuilt.len(), 60);
        let timeline = outcome.timeline.as_ref().unwrap();
        for node in cluster.ids() {
            for direction in 0..2 {
                let port = 2 * node.index() + direction;
                let carried: f64 = (0..timeline.len()).map(|b| timeline.get(b, port).carried).sum();
                let load = outcome.load.node(node);
                let asked = [load.up_bytes, load.down_bytes][direction] as f64;
                assert!((carried - asked).abs() <= 1e-6 * asked, "{policy} {node}: {carried}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = Scenario { foreground: Some(ycsb(2)), ..scenario("suture", 12, 20, "rs(4,2)") };
    let (first, second) = (run(&scenario), run(&scenario));
    assert_eq!(first.rebuilt, second.rebuilt);
    assert_eq!(first.foreground, second.foreground);
}

#[test]
fn flows_take_what_the_load_of_their_plan_says() {
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let codes = ["rs(4,2)", "lrc(4,2,2)", "butterfly(4)", "clay(4,2,5)"];
        let code: Code = random.choose(&codes).parse().unwrap();
        let mut cluster = Cluster::uniform(14, Rate(LINK));
        cluster.racks = vec!["r0".into(), "r1".into(), "r2".into()];
        cluster.core = Some(suture_repair::cluster::Core {
            rack_uplink: Rate(LINK),
            rack_downlink: Rate(LINK),
        });
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            node.rack = Some(suture_repair::id::RackId(index as u32 % 3));
            (node.disk_read, node.disk_write) = (Some(Rate(LINK)), Some(Rate(LINK)));
            node.processor = Processor::new(WORK / 1e9, ProcessorCosts::TYPICAL);
        }
        let chunk_bytes = 64 * code.alignment() as u64 * random.between(1, 9);
        let survivors: Vec<(ChunkIndex, NodeId)> =
            code.chunks().skip(1).map(|chunk| (chunk, NodeId(u32::from(chunk.0)))).collect();
        let facts = StripeFacts {
            stripe: StripeId(0),
            code: code.into(),
            chunk_bytes,
            survivors: &survivors,
            source: None,
        };
        let plan = arbitrary_plan(random, &facts, 14);
        let ports = PortMap::new(&cluster, 0);
        let mut through = vec![0.0; ports.len()];
        for step in ports.lanes(&plan, &facts).iter().flat_map(|lane| &lane.steps) {
            for take in &step.takes {
                through[take.port as usize] += take.weight * step.bytes;
            }
        }
        let load = Load::of(&cluster, [(&plan, facts)]);
        for port in load.ports(&cluster) {
            let found = through[ports.index(port.port) as usize];
            let asked = match port.port {
                Port::Processor(_) => port.seconds * WORK,
                _ => port.bytes as f64,
            };
            let is_same = (found - asked).abs() <= 1e-6 * found.max(1.0);
            assert!(is_same, "seed {seed} {:?}: {found} of {asked}", port.port);
        }
    }
}

#[test]
fn lanes_share_processors_as_they_share_links() {
    let slow = |policy: &str, lost: usize, code: &str| {
        let mut scenario = scenario(policy, 16, lost, code);
        let mut cluster = scenario.capacities.cluster().clone();
        for node in &mut cluster.nodes {
            node.processor = Processor::new(0.1 * WORK / 1e9, ProcessorCosts::TYPICAL);
        }
        scenario.capacities = Capacities::new(cluster, None, None, Vec::new());
        scenario
    };
    // One chunk in a star: its destination receives six times as much as it writes.
    let outcome = run(&slow("star/random/all", 1, "rs(6,3)"));
    check_seconds(&outcome, CHUNK as f64 * (6.0 * 0.35 + 0.25) / (0.1 * WORK));
    // A whole node: all that is sent, received, read and written, over all processors.
    let full = run(&slow("split/flow/all", 150, "rs(6,3)"));
    let work = 150.0 * CHUNK as f64 * (6.0 * (0.3 + 0.35 + 0.1) + 0.25);
    let least = work / (15.0 * 0.1 * WORK);
    assert!(full.seconds >= least * (1.0 - 1e-9), "{} of {least}", full.seconds);
    assert!(full.seconds <= 1.05 * least, "{} of {least}", full.seconds);
}

#[test]
fn the_mix_is_never_slower_than_whole_chunks_whatever_processors_there_are() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let mut cluster = Cluster::uniform(16, Rate(LINK));
        let is_unequal = random.per_mille(500);
        for node in &mut cluster.nodes {
            let mut rate = || Rate(LINK * if is_unequal { 1.0 + 4.0 * random.unit() } else { 1.0 });
            (node.uplink, node.downlink) = (rate(), rate());
            let cores = WORK / 1e9 * 10f64.powf(2.0 * random.unit() - 1.0);
            node.processor = Processor::new(cores, ProcessorCosts::TYPICAL);
        }
        let seconds = |policy: &str| {
            let mut scenario = scenario(policy, 16, 60, "rs(6,3)");
            scenario.capacities = Capacities::new(cluster.clone(), None, None, Vec::new());
            run(&scenario).seconds
        };
        let (mixed, whole) = (seconds("suture"), seconds("flow"));
        assert!(mixed <= 1.03 * whole, "seed {seed}: {mixed} {whole}");
    }
}

#[test]
fn edges_of_a_stored_lane_wait_for_what_they_send() {
    let mut cluster = Cluster::uniform(4, Rate(LINK));
    cluster.nodes.iter_mut().for_each(|node| node.disk_read = Some(Rate(LINK)));
    cluster.nodes[3].disk_write = Some(Rate(LINK));
    let edge = |child, parent| Edge {
        child: NodeId(child),
        parent: NodeId(parent),
        bytes: CHUNK,
        carries: Carries::Partial,
    };
    let range = Range { from: 0, to: CHUNK };
    let lane = Lane {
        range,
        lost: vec![ChunkIndex(0)],
        mode: Mode::Stored,
        decoder: None,
        scheme: None,
        // The order of edges is free.
        edges: vec![edge(2, 3), edge(1, 2)],
    };
    let plan = Plan {
        stripe: StripeId(0),
        lost: vec![ChunkIndex(0)],
        destinations: [(ChunkIndex(0), NodeId(3))].into(),
        start: Start::Now,
        range,
        period: None,
        lanes: vec![lane],
    };
    let survivors = [(ChunkIndex(1), NodeId(1)), (ChunkIndex(2), NodeId(2))];
    let code: Code = "rs(2,1)".parse().unwrap();
    let facts = StripeFacts {
        stripe: StripeId(0),
        code: code.into(),
        chunk_bytes: CHUNK,
        survivors: &survivors,
        source: None,
    };
    let lanes = PortMap::new(&cluster, 0).lanes(&plan, &facts);
    let after: Vec<&[usize]> = lanes[0].steps.iter().map(|step| &step.after[..]).collect();
    assert_eq!(after, [&[1][..], &[]]);
    // Each also takes its child's disk, and the last one the disk of the destination.
    let takes: Vec<usize> = lanes[0].steps.iter().map(|step| step.takes.len()).collect();
    assert_eq!(takes, [4, 3]);
    assert_eq!(lanes[0].depth, 2);
}

#[test]
fn a_trace_stops_the_repair_while_links_have_nothing() {
    // One second of full links, two of nothing, and again.
    let row = |mbit: f64| vec![mbit.to_string(); 10].join(",");
    let text = [row(8.0), row(0.0), row(0.0)].join("\n");
    let trace = BandwidthTrace::parse(&text, 10).unwrap();
    let base = scenario("chain/random/all", 10, 1, "rs(6,3)");
    let traced = |trace: BandwidthTrace| Scenario {
        capacities: Capacities::new(
            base.capacities.cluster().clone(),
            Some(trace.clone()),
            Some(trace),
            Vec::new(),
        ),
        ..base.clone()
    };
    let outcome = run(&traced(trace));
    assert!((outcome.seconds - (CHUNK_SECONDS + 2.0)).abs() < 1e-6, "{}", outcome.seconds);

    let never = BandwidthTrace::parse(&row(0.0), 10).unwrap();
    assert_eq!(simulate(&traced(never), &mut || 0).given_up, Some(GivenUp::Still));
}

#[test]
fn a_repair_that_never_ends_is_given_up_and_one_that_waits_is_not() {
    let base = scenario("chain/random/all", 10, 1, "rs(6,3)");
    let given_up = |factor: f64, to: f64| {
        let slow = |node| Straggler { node: NodeId(node), factor, from: 0.0, to };
        let cluster = base.capacities.cluster().clone();
        let stragglers = (1..10).map(slow).collect();
        let capacities = Capacities::new(cluster, None, None, stragglers);
        simulate(&Scenario { capacities, ..base.clone() }, &mut || 0).given_up
    };
    assert_eq!(given_up(0.0, f64::INFINITY), Some(GivenUp::Still));
    assert_eq!(given_up(1e-300, f64::INFINITY), Some(GivenUp::Long));
    assert_eq!(given_up(0.0, f64::MAX), Some(GivenUp::Long));
    assert_eq!(given_up(0.0, 5.0), None);
}

#[test]
fn the_bound_under_a_trace_is_what_links_can_have_carried() {
    let row = |mbit: f64| vec![mbit.to_string(); 4].join(",");
    let trace = BandwidthTrace::parse(&[row(8.0), row(0.0), row(4.0)].join("\n"), 4).unwrap();
    let cluster = Cluster::uniform(4, Rate(LINK));
    let capacities = Capacities::new(cluster, Some(trace), None, Vec::new());
    let uplink = |bytes: f64| move |cluster: &Cluster| bytes / cluster.nodes[0].uplink.0;
    for (bytes, seconds) in [(0.5e6, 0.5), (1e6, 1.0), (1.25e6, 2.5), (2e6, 3.5)] {
        let found = capacities.least_seconds(10.0, uplink(bytes));
        assert!((found - seconds).abs() < 1e-4, "{found} of {seconds} s for {bytes} bytes");
    }
}

#[test]
fn a_straggler_delays_what_passes_through_it() {
    let base = scenario("chain/random/all", 10, 1, "rs(6,3)");
    let fast = run(&base).seconds;
    let slow = |from, to| {
        let all = (1..10).map(|node| Straggler { node: NodeId(node), factor: 0.25, from, to });
        let cluster = base.capacities.cluster().clone();
        let capacities = Capacities::new(cluster, None, None, all.collect());
        run(&Scenario { capacities, ..base.clone() }).seconds
    };
    assert!((slow(0.0, 0.4) - (fast + 0.3)).abs() < 1e-6);
    assert!((slow(0.5, 90.0) - (0.5 + (fast - 0.5) * 4.0)).abs() < 1e-6);
    assert_eq!(slow(50.0, 90.0), fast);
}

#[test]
fn applications_wait_longer_while_a_repair_runs() {
    let scenario = Scenario { foreground: Some(ycsb(4)), ..scenario("cr", 12, 40, "rs(4,2)") };
    let during = run(&scenario).foreground.unwrap();
    let alone = alone(&scenario, &during);
    assert_eq!(during.operations, alone.operations);
    assert!(during.latencies.len() > 50);
    // Alone, a value takes at least its time on a link; the repair takes its share of that.
    let value_seconds = 524_288.0 / LINK;
    assert!(alone.latencies[0] >= value_seconds && alone.latencies[0] < value_seconds * 1.01);
    assert!(percentile(&during.latencies, 0.99) > 1.2 * percentile(&alone.latencies, 0.99));
    assert!(during.client_seconds > alone.client_seconds);
}

/// Links of a gigabit under so many clients, and 60 chunks to be rebuilt in parts of a second.
fn busy(policy: &str, clients: usize) -> Scenario {
    let cluster = Cluster::uniform(12, Rate(125e6));
    Scenario {
        capacities: Capacities::new(cluster, None, None, Vec::new()),
        foreground: Some(ycsb(clients)),
        ..scenario(policy, 12, 60, "rs(4,2)")
    }
}

fn monitored(scenario: Scenario) -> Scenario {
    let is_monitored = |foreground| Foreground { is_monitored: true, ..foreground };
    Scenario { foreground: scenario.foreground.map(is_monitored), ..scenario }
}

#[test]
fn a_balance_that_is_told_of_applications_leaves_the_busiest_link_to_them() {
    let base = busy("tunable/chameleon/all", 8);
    // Popular values stay where they are: the uplink that is busiest without a repair.
    let (timeline, _) = applications(&base, 5.0, 32);
    let carried = |node: &NodeId| -> f64 {
        (0..timeline.len()).map(|bucket| timeline.get(bucket, 2 * node.index()).carried).sum()
    };
    let nodes = base.capacities.cluster().ids();
    let busiest = nodes.max_by(|a, b| carried(a).total_cmp(&carried(b))).unwrap();
    let sent = |scenario: &Scenario| run(scenario).load.node(busiest).up_bytes;
    let (blind, told) = (sent(&base), sent(&monitored(base.clone())));
    assert!(told * 10 < blind * 9, "{busiest} sends {told} bytes, and {blind} without a monitor");
}

#[test]
fn a_monitor_changes_nothing_for_a_balance_that_does_not_count_links() {
    for policy in ["cr", "ppr"] {
        let (blind, told) = (run(&busy(policy, 4)), run(&monitored(busy(policy, 4))));
        assert_eq!(blind.rebuilt, told.rebuilt, "{policy}");
        let latencies = |outcome: Outcome| outcome.foreground.map(|served| served.latencies);
        assert_eq!(latencies(blind), latencies(told), "{policy}");
    }
}

#[test]
fn lanes_between_the_same_nodes_leave_a_request_what_one_connection_has() {
    let base = |stripes| Scenario {
        foreground: Some(ycsb(4)),
        ..scenario("star/random/all", 4, stripes, "rs(2,1)")
    };
    let by_connection = |stripes| {
        let scenario = base(stripes);
        let is_by_connection = |of| Foreground { is_by_connection: true, ..of };
        Scenario { foreground: scenario.foreground.map(is_by_connection), ..scenario }
    };
    // Each of two connections has one lane: a whole chunk, as a request counts anyway.
    let (lanes, connections) = (run(&base(1)), run(&by_connection(1)));
    assert_eq!(lanes.rebuilt, connections.rebuilt);
    assert_eq!(lanes.foreground, connections.foreground);
    // A dozen at a time: each node sends to two others, through many lanes.
    let mean = |outcome: &Outcome| {
        let served = outcome.foreground.as_ref().unwrap();
        let counts: Vec<u64> = served.by_client.iter().map(|all| all.len() as u64).collect();
        assert_eq!(counts, served.operations);
        served.latencies.iter().sum::<f64>() / served.latencies.len() as f64
    };
    let (lanes, connections) = (mean(&run(&base(12))), mean(&run(&by_connection(12))));
    assert!(connections < 0.8 * lanes, "{connections} s, and {lanes} s beside as many lanes");
}

#[test]
fn requests_with_a_greater_share_are_answered_sooner_and_their_repair_takes_longer() {
    let shared = |share_factor| {
        let foreground = Foreground { share_factor, is_recorded: true, ..ycsb(4) };
        Scenario { foreground: Some(foreground), ..scenario("star/random/all", 4, 12, "rs(2,1)") }
    };
    let plain = run(&Scenario { foreground: Some(ycsb(4)), ..shared(1.0) });
    let (one, four) = (run(&shared(1.0)), run(&shared(4.0)));
    let served = |outcome: &Outcome| outcome.foreground.clone().unwrap();
    // Neither a factor of 1 changes anything, nor that requests are kept.
    assert_eq!(plain.rebuilt, one.rebuilt);
    assert_eq!(Served { moved: Vec::new(), ..served(&one) }, served(&plain));
    let mean = |outcome: &Outcome| {
        let latencies = served(outcome).latencies;
        latencies.iter().sum::<f64>() / latencies.len() as f64
    };
    assert!(mean(&four) < 0.8 * mean(&one), "{} s, and {} s", mean(&four), mean(&one));
    assert!(four.seconds > one.seconds, "{} s, and {} s", four.seconds, one.seconds);
    // Among themselves requests share as they did.
    let during = served(&one);
    let (one, four) = (alone(&shared(1.0), &during), alone(&shared(4.0), &during));
    assert!((four.client_seconds / one.client_seconds - 1.0).abs() < 1e-6);
}

#[test]
fn requests_are_kept_with_when_their_bytes_moved() {
    let foreground = Foreground { is_recorded: true, ..ycsb(3) };
    let scenario = Scenario { foreground: Some(foreground), ..scenario("cr", 12, 20, "rs(4,2)") };
    let served = run(&scenario).foreground.unwrap();
    // Each operation is one request, and takes a round trip beside its bytes.
    assert_eq!(served.moved.len(), served.latencies.len());
    let moving: f64 = served.moved.iter().map(|request| request.to - request.from).sum();
    let latencies: f64 = served.latencies.iter().sum();
    let round_trips = served.latencies.len() as f64 * 0.000_5;
    assert!((moving + round_trips - latencies).abs() < 1e-6, "{moving} {latencies}");
    let read = served.moved.iter().filter(|request| request.access == Access::Read);
    let read: f64 = read.map(|request| request.bytes).sum();
    // What is still under way at the end was taken too.
    let sent: f64 = served.taken.values().map(|taken| taken.up).sum();
    assert!(read > 0.0 && read <= sent + 1.0 && sent < read + 3.0 * 524_288.0, "{read} {sent}");
}

#[test]
fn clients_with_a_seed_of_their_own_make_the_same_requests_in_every_run() {
    let during = Served { operations: vec![20; 2], ..Served::default() };
    let taken = |seed, own| {
        let foreground = Some(Foreground { seed: own, ..ycsb(2) });
        alone(&Scenario { seed, foreground, ..scenario("cr", 12, 1, "rs(4,2)") }, &during).taken
    };
    assert_eq!(taken(1, Some(7)), taken(2, Some(7)));
    assert_ne!(taken(1, None), taken(2, None));
}

#[test]
fn what_a_coordinator_dispatched_is_counted() {
    let outcome = run(&scenario("star/random/all", 10, 2, "rs(6,3)"));
    let dispatched = outcome.dispatched;
    assert_eq!((dispatched.begun_bytes, dispatched.replaced), (2 * 6 * CHUNK, 0));
    assert_eq!(dispatched.begun_bytes, outcome.load.moved_bytes());
    // Each of seven participants is sent each of two tasks, and each destination answers.
    assert!(dispatched.messages >= 2 * (7 + 1), "{dispatched:?}");
}

#[test]
fn readers_take_of_one_uplink_and_are_no_applications() {
    let from = 3.0;
    let readers = Readers { node: NodeId(3), count: 8, bytes: 1 << 20, from };
    let base = Scenario {
        timeline_buckets: Some(64),
        foreground: Some(ycsb(2)),
        ..scenario("cr", 12, 40, "rs(4,2)")
    };
    let beside = Scenario {
        foreground: Some(Foreground { readers: Some(readers), ..ycsb(2) }),
        ..base.clone()
    };
    let (free, read) = (run(&base), run(&beside));
    assert!(read.seconds > free.seconds);
    let served = read.foreground.unwrap();
    assert_eq!(served.operations.len(), 2);
    assert_eq!(served.latencies.len() as u64, served.operations.iter().sum::<u64>());
    let taken = served.taken[&NodeId(3)];
    let before = free.foreground.unwrap().taken.get(&NodeId(3)).map_or(0.0, |taken| taken.up);
    // They share the uplink with repairs from then on, and find it idle at no time.
    let possible = (read.seconds - from) * LINK;
    assert!(taken.up - before > 0.2 * possible, "{taken:?} of {possible}");
    assert!(taken.disk_read < taken.up - 0.2 * possible, "objects are in memory: {taken:?}");
    // What passed the uplink is what repairs and clients moved, to the byte.
    let timeline = read.timeline.unwrap();
    let port = 2 * readers.node.index();
    let carried: f64 = (0..timeline.len()).map(|b| timeline.get(b, port).carried).sum();
    let moved = read.load.node(readers.node).up_bytes as f64 + taken.up;
    assert!((carried / moved - 1.0).abs() < 1e-3, "{carried} {moved}");
}

#[test]
fn a_repair_that_yields_leaves_applications_alone_and_keeps_its_caps() {
    let keep = ThrottleConfig { keep: Some(Keep::Percent(10)), ..ThrottleConfig::default() };
    let base = Scenario {
        foreground: Some(ycsb(4)),
        throttle: Some(keep),
        ..scenario("suture", 12, 40, "rs(4,2)")
    };
    let during = run(&base).foreground.unwrap();
    let alone = alone(&base, &during);
    assert!(percentile(&during.latencies, 0.99) <= 1.1 * percentile(&alone.latencies, 0.99));
    // A cap of a tenth of each link makes it ten times as long.
    let quiet = Scenario { foreground: None, ..base };
    let free = run(&Scenario { throttle: None, ..quiet.clone() }).seconds;
    let cap = (LINK / 10.0) as u64;
    let config = ThrottleConfig { node: Some(cap), ..ThrottleConfig::default() };
    let capped = run(&Scenario { throttle: Some(config), ..quiet }).seconds;
    assert!((9.0..13.0).contains(&(capped / free)), "{capped} s, without a cap {free} s");
}

#[test]
#[ignore = "not so yet: it takes 5.5 times as long, and 3.6 times where the repair is long"]
fn a_repair_that_yields_uses_what_is_left_over() {
    let keep = ThrottleConfig { keep: Some(Keep::Percent(10)), ..ThrottleConfig::default() };
    let base = Scenario {
        foreground: Some(ycsb(4)),
        throttle: Some(keep),
        ..scenario("suture", 12, 40, "rs(4,2)")
    };
    let greedy = run(&Scenario { throttle: None, ..base.clone() });
    assert!(run(&base).seconds < 2.0 * greedy.seconds);
}

#[test]
fn applications_alone_put_on_links_what_they_are_answered() {
    let clients = 4;
    let scenario =
        Scenario { foreground: Some(ycsb(clients)), ..scenario("cr", 12, 40, "rs(4,2)") };
    let (timeline, served) = applications(&scenario, 12.0, 32);
    let served = served.unwrap().latencies.len();
    let carried: f64 = (0..timeline.len())
        .flat_map(|bucket| (0..24).map(move |link| (bucket, link)))
        .map(|(bucket, link)| timeline.get(bucket, link).carried)
        .sum();
    let values = carried / 524_288.0;
    assert!(served > 50, "{served}");
    // Those that are under way when time is up are not answered.
    assert!((served as f64..=(served + clients) as f64).contains(&values), "{values} {served}");
    let alone = Scenario { foreground: None, ..scenario };
    let (timeline, nobody) = applications(&alone, 2.0, 32);
    assert!(nobody.is_none() && timeline.get(0, 0).carried == 0.0);
}

#[test]
fn timelines_count_what_links_could_have_carried() {
    let base =
        Scenario { timeline_buckets: Some(10), ..scenario("star/random/all", 10, 1, "rs(6,3)") };
    let outcome = run(&base);
    let timeline = outcome.timeline.unwrap();
    assert!(timeline.len() <= 10 && timeline.len() >= 5);
    for bucket in 0..timeline.len() - 1 {
        let possible = timeline.get(bucket, 0).possible;
        assert!((possible / (timeline.width() * LINK) - 1.0).abs() < 1e-9, "bucket {bucket}");
    }
    let links = timeline_links(&base);
    let (mut full, mut possible) = (0, 0.0);
    for (port, link) in links.iter().enumerate() {
        let sum: f64 = (0..timeline.len()).map(|b| timeline.get(b, port).possible).sum();
        possible += sum / LINK;
        let carried: f64 = (0..timeline.len()).map(|b| timeline.get(b, port).carried).sum();
        full += usize::from(carried > 0.999 * sum);
        assert!(carried < 1e-6 || carried > 0.99 * CHUNK as f64, "{link:?}: {carried}");
        assert!(!matches!(link, Port::DiskRead(_)));
    }
    assert!((possible - 20.0 * outcome.seconds).abs() < 1e-3);
    assert_eq!(full, 1);
}
