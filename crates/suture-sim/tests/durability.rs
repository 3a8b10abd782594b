//! Durability against closed forms: Equation 2, Markov chains, and estimates beside them.

use suture_code::Code;
use suture_repair::id::NodeId;
use suture_repair::random::Random;
use suture_sim::durability::chain::{Chain, State};
use suture_sim::durability::equation::{
    PAPER_LIFETIME_SECONDS, PAPER_NODE_BYTES, loss_probability,
};
use suture_sim::durability::lifetime::Lifetime;
use suture_sim::durability::placement::Placement;
use suture_sim::durability::repair_times::RepairTimes;
use suture_sim::durability::{Effort, Method, Model, Repairs, estimate};

/// A mirrored pair and the like: one stripe on exactly its nodes.
fn one_stripe(code: &str, mttf: f64, repair: RepairTimes, mission: f64) -> Model {
    let code: Code = code.parse().unwrap();
    let on = (0..code.chunk_count() as u32).map(NodeId).collect();
    Model {
        placement: Placement::new(code, code.chunk_count(), on),
        lifetime: Lifetime::exponential(mttf),
        racks: Vec::new(),
        rack_mttf_seconds: f64::INFINITY,
        repair,
        detection_seconds: 0.0,
        repairs: Repairs::ByNode,
        mission_seconds: mission,
    }
}

/// Stripes at random places.
fn many_stripes(code: &str, nodes: u32, stripes: usize, model: Model) -> Model {
    let code: Code = code.parse().unwrap();
    let random = &mut Random::new(11);
    let mut all: Vec<NodeId> = (0..nodes).map(NodeId).collect();
    let mut on = Vec::new();
    for _ in 0..stripes {
        random.shuffle(&mut all);
        on.extend_from_slice(&all[..code.chunk_count()]);
    }
    Model { placement: Placement::new(code, nodes as usize, on), ..model }
}

fn effort(runs: usize, method: Method, seed: u64) -> Effort {
    Effort { runs, outages_per_run: 8, method, seed }
}

fn check_close(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() < tolerance, "{value:e} instead of {expected:e}");
}

#[test]
fn equation_2_is_a_binomial_tail() {
    // Literally, where subtraction from one does no harm.
    let literally = |others: i32, tolerance: i32, fails: f64| {
        let choose = |i: i32| (0..i).fold(1.0, |c, j| c * f64::from(others - j) / f64::from(j + 1));
        let term = |i| choose(i) * fails.powi(i) * (1.0 - fails).powi(others - i);
        1.0 - (0..tolerance).map(term).sum::<f64>()
    };
    for window in [0.05, 0.3, 1.0, 4.0] {
        let fails = 1.0 - f64::exp(-window);
        check_close(loss_probability(13, 4, window, 1.0), literally(13, 4, fails), 1e-9);
        check_close(loss_probability(8, 3, window, 1.0), literally(8, 3, fails), 1e-9);
    }
    // The paper's setting, (10, 4), 96 TB a node, at 1 GB/s: 96,000 s of ten years make
    // f = 3.0416e-4, and C(13, 4) f^4 is 6.12e-12; a tenth of the throughput costs four digits.
    let at = |rate: f64| loss_probability(13, 4, PAPER_NODE_BYTES / rate, PAPER_LIFETIME_SECONDS);
    check_close(at(1e9), 6.10e-12, 5e-3);
    check_close(at(1e8) / at(1e9), 1e4, 0.03);
    assert_eq!(loss_probability(13, 4, 0.0, 1.0), 0.0);
    check_close(loss_probability(13, 4, 1e9, 1.0), 1.0, 1e-12);
}

#[test]
fn the_chain_meets_the_textbooks() {
    // A mirrored pair: (3 l + u) / (2 l^2).
    for (l, u) in [(1.0, 1.0), (0.01, 5.0), (1e-9, 1e-2)] {
        let model = one_stripe("rs(1,1)", 1.0 / l, RepairTimes::serial(1.0 / u), 1.0);
        check_close(Chain::of(&model, 1).mttdl(), (3.0 * l + u) / (2.0 * l * l), 1e-12);
    }
    // RAID 5 of n disks: ((2n - 1) l + u) / (n (n - 1) l^2).
    let (n, l, u) = (8.0, 2e-6, 0.1);
    let model = one_stripe("rs(7,1)", 1.0 / l, RepairTimes::serial(1.0 / u), 1.0);
    let raid5 = ((2.0 * n - 1.0) * l + u) / (n * (n - 1.0) * l * l);
    check_close(Chain::of(&model, 1).mttdl(), raid5, 1e-12);
    // Two parities, nodes repaired side by side, by hand: from the top, h2 = (1 + 2u h1) / (a +
    // 2u), with a, b, c the rates of the third, second and first failure.
    let (n, l, u) = (6.0, 0.03, 1.0);
    let (c, b, a) = (n * l, (n - 1.0) * l, (n - 2.0) * l);
    let h1 = (1.0 + b / (a + 2.0 * u) + u / c) / (b - b * 2.0 * u / (a + 2.0 * u));
    let model = one_stripe("rs(4,2)", 1.0 / l, RepairTimes::parallel(1.0 / u), 1.0);
    check_close(Chain::of(&model, 1).mttdl(), 1.0 / c + h1, 1e-12);
}

#[test]
fn the_chance_within_a_time_meets_small_steps_and_the_mean() {
    let state = |fail_rate, fatal_share, repair_rate| State { fail_rate, fatal_share, repair_rate };
    let states = [state(0.8, 0.0, 0.0), state(0.6, 0.25, 3.0), state(0.5, 1.0, 2.0)];
    let chain = Chain::new(states.to_vec());
    // Runge's midpoint rule in steps of 1e-4.
    let mut p = [1.0, 0.0, 0.0, 0.0];
    let slope = |p: [f64; 4]| {
        let mut d = [0.0; 4];
        for (i, s) in states.iter().enumerate() {
            let fatal = s.fail_rate * s.fatal_share;
            d[3] += p[i] * fatal;
            d[i + 1] += p[i] * (s.fail_rate - fatal);
            d[i] -= p[i] * (s.fail_rate + s.repair_rate);
            d[i.saturating_sub(1)] += p[i] * s.repair_rate;
        }
        d
    };
    for _ in 0..70_000 {
        let half = slope(p);
        let middle = std::array::from_fn(|i| p[i] + 0.5e-4 * half[i]);
        let full = slope(middle);
        p = std::array::from_fn(|i| p[i] + 1e-4 * full[i]);
    }
    check_close(chain.loss_probability(7.0), p[3], 1e-6);
    // Rare: the chance is the time over the mean time.
    let model = one_stripe("rs(10,4)", 3e8, RepairTimes::serial(3600.0), 1.0);
    let rare = Chain::of(&model, 1);
    check_close(rare.loss_probability(3e8), 3e8 / rare.mttdl(), 1e-4);
    assert!(rare.loss_probability(3e8) < 1e-14);
}

/// Of many intervals about 95 % must hold the chain's value, and their mean must meet it.
fn check_intervals(model: &Model, runs: usize, method: Method, name: &str) {
    const SEEDS: u64 = 60;
    let chain = Chain::of(model, 1);
    let (chance, mttdl) = (chain.loss_probability(model.mission_seconds), chain.mttdl());
    let (mut chances, mut means, mut sum, mut half) = (0, 0, 0.0, 0.0);
    for seed in 1..=SEEDS {
        let estimate = estimate(model, &effort(runs, method, seed));
        chances += usize::from(estimate.loss_probability.contains(chance));
        means += usize::from(estimate.mttdl_seconds.contains(mttdl));
        sum += estimate.loss_probability.value;
        half += (estimate.loss_probability.high - estimate.loss_probability.low) / 2.0;
    }
    let found = sum / SEEDS as f64;
    // Of 60 draws at 95 % fewer than 52 hold once in two hundred times.
    assert!(chances >= 52 && means >= 52, "{name}: {chances} and {means} of {SEEDS} hold it");
    // Two intervals of the mean: four standard errors.
    let half = 2.0 * half / SEEDS as f64 / (SEEDS as f64).sqrt();
    assert!((found - chance).abs() < half, "{name}: {found:e} for {chance:e}");
}

#[test]
fn rare_losses_of_one_stripe_are_estimated_within_their_interval() {
    for (code, parallel, ratio) in [
        ("rs(1,1)", false, 1e3),
        ("rs(4,2)", true, 1e4),
        ("rs(6,3)", false, 1e4),
        ("rs(10,4)", true, 1e5),
    ] {
        let seconds = 1.0 / ratio;
        let times =
            if parallel { RepairTimes::parallel(seconds) } else { RepairTimes::serial(seconds) };
        let model = one_stripe(code, 1.0, times, 2.0);
        check_intervals(&model, 1000, Method::Auto, code);
    }
}

#[test]
fn many_stripes_on_many_nodes_meet_the_chain_of_the_cluster() {
    for (code, nodes, stripes) in [("rs(2,1)", 12, 30), ("rs(4,2)", 20, 40), ("lrc(4,2,2)", 14, 20)]
    {
        let model = one_stripe(code, 1.0, RepairTimes::serial(2e-4), 1.0);
        let model = many_stripes(code, nodes, stripes, model);
        check_intervals(&model, 1000, Method::Biasing, &format!("{code} on {nodes}"));
    }
}

#[test]
fn biased_runs_agree_with_counting_where_losses_are_frequent() {
    let by_node = one_stripe("rs(4,2)", 1.0, RepairTimes::parallel(0.02), 2.0);
    check_intervals(&by_node, 1000, Method::Biasing, "biasing");
    check_intervals(&by_node, 3000, Method::Counting, "counting");
    let stripes = many_stripes("rs(4,2)", 15, 60, by_node);
    let by_stripe = Model { repairs: Repairs::ByStripe, detection_seconds: 1e-3, ..stripes };
    let old = Lifetime::weibull(1.0, 1.6);
    let young = Lifetime::weibull(1.0, 0.8);
    let racks: Vec<Vec<NodeId>> =
        (0..5).map(|rack| (0..3).map(|i| NodeId(rack * 3 + i)).collect()).collect();
    for model in [
        by_stripe.clone(),
        Model { lifetime: old, ..by_stripe.clone() },
        Model { lifetime: young, ..by_stripe.clone() },
        Model { racks, rack_mttf_seconds: 50.0, ..by_stripe },
    ] {
        let counted = estimate(&model, &effort(20_000, Method::Counting, 1));
        let biased = estimate(&model, &effort(4000, Method::Biasing, 2));
        let (a, b) = (counted.loss_probability, biased.loss_probability);
        assert!(a.low <= b.high && b.low <= a.high, "{counted:?} {biased:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_estimate() {
    let model = one_stripe("rs(4,2)", 1.0, RepairTimes::serial(1e-3), 1.0);
    let model = Model { repairs: Repairs::ByStripe, ..many_stripes("rs(4,2)", 10, 50, model) };
    let first = estimate(&model, &effort(200, Method::Auto, 7));
    assert_eq!(first, estimate(&model, &effort(200, Method::Auto, 7)));
    assert_ne!(first, estimate(&model, &effort(200, Method::Auto, 8)));
}
