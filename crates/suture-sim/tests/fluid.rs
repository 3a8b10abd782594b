//! The fluid network against its definition, closed forms, and the conservation of bytes.

use suture_repair::random::Random;
use suture_sim::fluid::oracle::{self, Arrival, Change};
use suture_sim::fluid::{EXACT_ENTRIES, FlowId, Network, Take, Transfer, Urgency};

/// Ends of all flows by the fast network, and what each port carried.
fn run(
    capacities: &[f64],
    arrivals: &[Arrival],
    changes: &[Change],
    exact_entries: usize,
) -> (Vec<f64>, Vec<f64>) {
    let mut network = Network::new(capacities, exact_entries);
    let mut order: Vec<usize> = (0..arrivals.len()).collect();
    order.sort_by(|&a, &b| arrivals[a].at.total_cmp(&arrivals[b].at));
    let (mut order, mut changes) = (order.into_iter().peekable(), changes.iter().peekable());
    let mut ends = vec![f64::INFINITY; arrivals.len()];
    let mut carried = vec![0.0; capacities.len()];
    let mut names: Vec<usize> = Vec::new();
    let mut ended: Vec<FlowId> = Vec::new();
    loop {
        while let Some(flow) = order.next_if(|&flow| arrivals[flow].at <= network.now()) {
            let id = network.start(arrivals[flow].what, &arrivals[flow].takes, Urgency::Patient);
            names.resize(names.len().max(id.0 as usize + 1), usize::MAX);
            names[id.0 as usize] = flow;
        }
        while let Some(change) = changes.next_if(|change| change.at <= network.now()) {
            network.set_capacity(change.port, change.capacity);
        }
        let mine = network.next_event();
        let arrival = order.peek().map(|&flow| arrivals[flow].at);
        let change = changes.peek().map(|change| change.at);
        let next = [mine, arrival, change].into_iter().flatten().fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return (ends, carried);
        }
        for (port, carried) in carried.iter_mut().enumerate() {
            let used = network.used(port as u32);
            assert!(used <= network.capacity(port as u32) * (1.0 + 1e-9), "port {port}: {used}");
            *carried += used * (next - network.now());
        }
        ended.clear();
        network.advance(next, &mut ended);
        ended.iter().for_each(|id| ends[names[id.0 as usize]] = next);
    }
}

fn arbitrary_case(random: &mut Random) -> (Vec<f64>, Vec<Arrival>, Vec<Change>) {
    let ports = random.between(1, 12) as usize;
    let is_even = random.per_mille(300);
    let capacity = |random: &mut Random| if is_even { 10.0 } else { 1.0 + 20.0 * random.unit() };
    let capacities: Vec<f64> = (0..ports).map(|_| capacity(random)).collect();
    let flow = |random: &mut Random| {
        let mut through: Vec<u32> = (0..ports as u32).collect();
        random.shuffle(&mut through);
        through.truncate(random.between(1, 6.min(ports as u64)) as usize);
        let weight = |random: &mut Random| match random.below(3) {
            0 => 1.0,
            1 => random.between(1, 6) as f64,
            _ => 0.1 + 3.0 * random.unit(),
        };
        let bytes = if is_even { 50.0 } else { 1.0 + 100.0 * random.unit() };
        let what = match random.below(3) {
            0 => Transfer { bytes, share: 0.1 + 9.0 * random.unit() },
            1 => Transfer { bytes, share: 1.0 },
            _ => Transfer::lane(bytes),
        };
        Arrival {
            at: if random.per_mille(500) { 0.0 } else { 30.0 * random.unit() },
            what,
            takes: through.iter().map(|&port| Take { port, weight: weight(random) }).collect(),
        }
    };
    let arrivals = (0..random.between(1, 25)).map(|_| flow(random)).collect();
    let mut changes: Vec<Change> = (0..random.below(12))
        .map(|_| Change {
            at: 40.0 * random.unit(),
            port: random.index(ports) as u32,
            capacity: if random.per_mille(200) { 0.0 } else { capacity(random) },
        })
        .collect();
    changes.sort_by(|a, b| a.at.total_cmp(&b.at));
    (capacities, arrivals, changes)
}

#[test]
fn the_fast_network_agrees_with_the_definition() {
    for seed in 0..3000 {
        let (capacities, arrivals, changes) = arbitrary_case(&mut Random::new(seed));
        let slow = oracle::ends(&capacities, &arrivals, &changes);
        let (fast, _) = run(&capacities, &arrivals, &changes, EXACT_ENTRIES);
        for (slow, fast) in slow.iter().zip(&fast) {
            let is_same = (slow - fast).abs() <= 1e-9 * slow.max(1.0) || slow == fast;
            assert!(is_same, "seed {seed}: ends at {fast}, by definition at {slow}");
        }
    }
}

#[test]
fn every_byte_that_is_asked_for_is_carried_and_no_other() {
    for seed in 0..500 {
        let (capacities, arrivals, changes) = arbitrary_case(&mut Random::new(seed));
        for exact_entries in [EXACT_ENTRIES, 0] {
            let (ends, carried) = run(&capacities, &arrivals, &changes, exact_entries);
            if ends.iter().any(|end| end.is_infinite()) {
                continue;
            }
            let mut asked = vec![0.0; capacities.len()];
            for (flow, take) in arrivals.iter().flat_map(|f| f.takes.iter().map(move |t| (f, t))) {
                asked[take.port as usize] += flow.what.bytes * take.weight;
            }
            for (port, (asked, carried)) in asked.iter().zip(&carried).enumerate() {
                let is_same = (asked - carried).abs() <= 1e-7 * asked.max(1.0);
                assert!(is_same, "seed {seed} port {port}: {carried} of {asked}");
            }
        }
    }
}

#[test]
fn waiting_with_changes_costs_less_than_half_a_percent() {
    for seed in 0..10 {
        let random = &mut Random::new(seed);
        let capacities: Vec<f64> = (0..60).map(|_| 1.0 + 9.0 * random.unit()).collect();
        let arrival = |random: &mut Random| {
            let mut through: Vec<u32> = (0..60).collect();
            random.shuffle(&mut through);
            let takes = through[..12].iter().map(|&port| Take { port, weight: 1.0 });
            let what = Transfer { bytes: 0.5 + random.unit(), share: 1.0 };
            Arrival { at: 0.0, what, takes: takes.collect() }
        };
        let arrivals: Vec<Arrival> = (0..400).map(|_| arrival(random)).collect();
        let last =
            |exact| run(&capacities, &arrivals, &[], exact).0.into_iter().fold(0.0, f64::max);
        let (exact, coalesced) = (last(usize::MAX), last(0));
        let error = coalesced / exact - 1.0;
        assert!(error.abs() < 0.005, "seed {seed}: {exact} s, coalesced {coalesced} s");
    }
}

#[test]
fn closed_forms() {
    let take = |port, weight| Take { port, weight };
    let arrival = |takes: Vec<Take>| Arrival { at: 0.0, what: Transfer::lane(1.0), takes };
    let last = |capacities: &[f64], arrivals: &[Arrival]| {
        run(capacities, arrivals, &[], EXACT_ENTRIES).0.into_iter().fold(0.0, f64::max)
    };
    // Two flows over one link; one of them goes on over a link that is slower than its share.
    assert_eq!(last(&[1.0], &[arrival(vec![take(0, 1.0)])]), 1.0);
    let pair = [arrival(vec![take(0, 1.0)]), arrival(vec![take(0, 1.0), take(1, 1.0)])];
    let (ends, _) = run(&[1.0, 0.25], &pair, &[], EXACT_ENTRIES);
    assert!((ends[0] - 1.0 / 0.75).abs() < 1e-12 && (ends[1] - 4.0).abs() < 1e-12);
    // A stripe of k = 6: a star is limited by its destination, a chain by nothing but a link.
    let helpers = (1..7).map(|port| take(port, 1.0));
    let star = arrival(helpers.chain([take(0, 6.0)]).collect());
    assert!((last(&[1.0; 7], &[star]) - 6.0).abs() < 1e-12);
    let chain = arrival((0..12).map(|port| take(port, 1.0)).collect());
    assert!((last(&[1.0; 12], &[chain]) - 1.0).abs() < 1e-12);
}

#[test]
fn lanes_of_any_length_that_begin_together_end_when_the_busiest_port_does() {
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let capacities: Vec<f64> = (0..10).map(|_| 1.0 + 9.0 * random.unit()).collect();
        let mut load = [0.0; 10];
        let lane = |random: &mut Random| {
            let mut through: Vec<u32> = (0..10).collect();
            random.shuffle(&mut through);
            through.truncate(random.between(1, 5) as usize);
            let what = Transfer::lane(0.01 + random.unit());
            let take = |port| Take { port, weight: random.between(1, 6) as f64 };
            Arrival { at: 0.0, what, takes: through.into_iter().map(take).collect() }
        };
        let lanes: Vec<Arrival> = (0..40).map(|_| lane(random)).collect();
        for (lane, take) in lanes.iter().flat_map(|lane| lane.takes.iter().map(move |t| (lane, t)))
        {
            load[take.port as usize] += lane.what.bytes * take.weight;
        }
        let busiest = load.iter().zip(&capacities).map(|(load, rate)| load / rate);
        let busiest = busiest.fold(0.0, f64::max);
        let (ends, _) = run(&capacities, &lanes, &[], EXACT_ENTRIES);
        let last = ends.into_iter().fold(0.0, f64::max);
        assert!((last / busiest - 1.0).abs() < 1e-9, "seed {seed}: {last} of {busiest} s");
    }
}
