//! Estimates of single directions, on traces of what they carry and what is wanted of them.

use super::*;
use crate::random::Random;

/// Between two reports.
const SECOND: Span = Span::from_secs(1);

/// A direction that carries `capacity`, of which `wanted` is wanted.
fn passage(capacity: u64, wanted: u64) -> Passage {
    let pressure = if wanted > capacity { Pressure::Limit } else { Pressure::Spare };
    Passage { rate: wanted.min(capacity), pressure, is_held: false }
}

fn mean(estimate: &LinkEstimate, before: u64) -> u64 {
    estimate.guess().map_or(before, |guess| guess.mean)
}

fn feed_often(estimate: &mut LinkEstimate, times: u32, before: Guess, passage: Passage) {
    for _ in 0..times {
        estimate.feed(before, passage, SECOND);
    }
}

fn seconds(span: Span) -> u32 {
    (span.ns / SECOND.ns) as u32
}

/// The definition, followed step by step over all that was seen: what the direction carried when it
/// was last the limit, or the most that has passed since; what it was taken for before all that.
fn oracle(before: u64, seen: &[Passage]) -> u64 {
    let last = seen.iter().rposition(|passage| passage.pressure == Pressure::Limit);
    let since = last.map_or(seen, |at| &seen[at..]);
    let most = since.iter().map(|passage| passage.rate).max().unwrap_or(0);
    if last.is_some() { most } else { most.max(before) }
}

#[test]
fn an_estimate_is_never_below_what_passed_and_near_what_the_oracle_says() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let before = random.between(1_000, 10_000_000);
        let (mut estimate, mut seen) = (LinkEstimate::default(), Vec::new());
        let mut capacity = random.between(1_000, 1_000_000);
        let mut limits = 0;
        for _ in 0..200 {
            if random.per_mille(50) {
                (capacity, limits) = (random.between(1_000, 1_000_000), 0);
            }
            let wanted = random.between(0, 2 * capacity);
            let passage = passage(capacity, wanted);
            seen.push(passage);
            estimate.feed(Guess::unsure(before), passage, SECOND);
            let (found, expected) = (mean(&estimate, before), oracle(before, &seen));
            assert!(found >= passage.rate, "seed {seed}: {found} of {passage:?}");
            limits += u32::from(passage.pressure == Pressure::Limit);
            // Of a link that has changed one result alone is not taken for all of the truth.
            if passage.pressure == Pressure::Limit && limits > 1 {
                // What is more than twice that is replaced; else it is half of the way nearer.
                let most = expected + expected / 2 + 1;
                let is_near = (expected..=most).contains(&found);
                assert!(is_near, "seed {seed}: {found} instead of {expected}");
            }
        }
    }
}

#[test]
fn nothing_is_known_where_little_is_wanted() {
    let mut estimate = LinkEstimate::default();
    for wanted in [0, 1, 500, 874] {
        assert!(!estimate.feed(Guess::unsure(1000), passage(2000, wanted), SECOND));
        assert_eq!(estimate.guess(), None);
    }
    assert!(
        estimate.feed(Guess::unsure(1000), passage(2000, 876), SECOND),
        "that is about all of it"
    );
}

#[test]
fn ten_times_too_much_is_known_with_the_first_result_and_ten_times_too_little_after_a_few() {
    let mut high = LinkEstimate::default();
    high.feed(Guess::unsure(10_000_000), passage(1_000_000, 10_000_000), SECOND);
    assert_eq!(high.guess(), Some(Guess { mean: 1_000_000, deviation: 250_000 }));
    // Plans ask for as much as is assumed to be there.
    let mut low = LinkEstimate::default();
    let before = 100_000;
    let mut assumed = Vec::new();
    for _ in 0..10 {
        low.feed(Guess::unsure(before), passage(1_000_000, mean(&low, before)), SECOND);
        assumed.push(mean(&low, before));
    }
    assert!(assumed[5] >= 1_000_000, "{assumed:?}");
    assert!((1_000_000..1_100_000).contains(&assumed[9]), "{assumed:?}");
}

#[test]
fn an_estimate_follows_a_link_down_and_up() {
    let mut estimate = LinkEstimate::default();
    let before = Guess::unsure(1_000_000);
    let mut after = |capacity: u64, results: u32| {
        feed_often(&mut estimate, results, before, passage(capacity, u64::MAX));
        estimate.guess().map_or(0, |guess| guess.mean)
    };
    assert_eq!(after(1_000_000, 1), 1_000_000);
    assert_eq!(after(600_000, 1), 800_000, "half of the way");
    assert!(after(600_000, 4) < 615_000);
    assert_eq!(after(900_000, 1), 900_000, "that much passed");
    assert_eq!(after(100_000, 1), 450_000, "it was sure, and one result may be wrong");
    assert_eq!(after(100_000, 1), 100_000, "another link");
    assert_eq!([after(0, 1), after(0, 1)], [50_000, 0]);
    assert_eq!(after(700_000, 1), 700_000);
}

#[test]
fn a_direction_that_was_the_limit_is_tried_for_more_in_small_steps_at_first() {
    let mut estimate = LinkEstimate::default();
    let before = Guess::unsure(640_000);
    estimate.feed(
        before,
        Passage { rate: 640_000, pressure: Pressure::Limit, is_held: false },
        SECOND,
    );
    let mut tried = || {
        let rate = estimate.guess().map_or(0, |guess| guess.mean);
        estimate.feed(before, Passage { rate, pressure: Pressure::Spare, is_held: false }, SECOND);
        estimate.guess().map_or(0, |guess| guess.mean)
    };
    assert_eq!(tried(), 650_000);
    assert_eq!(tried(), 650_000 + 2 * (650_000 / 64));
    let third = tried();
    estimate.feed(
        before,
        Passage { rate: third, pressure: Pressure::Limit, is_held: false },
        SECOND,
    );
    let again = estimate.guess().map_or(0, |guess| guess.mean);
    estimate.feed(
        before,
        Passage { rate: again, pressure: Pressure::Spare, is_held: false },
        SECOND,
    );
    assert_eq!(estimate.guess().map(|guess| guess.mean), Some(again + again / 64));
}

#[test]
fn what_was_only_tried_is_given_up_where_less_is_wanted() {
    let mut estimate = LinkEstimate::default();
    let before = Guess { mean: 640_000, deviation: 6_400 };
    for rate in [600_000, 640_000, 650_000] {
        assert!(estimate.feed(
            before,
            Passage { rate, pressure: Pressure::Spare, is_held: false },
            SECOND
        ));
    }
    let tried = mean(&estimate, 0);
    assert!(tried > 700_000, "{tried}");
    let idle = Passage { rate: 5_000, pressure: Pressure::Spare, is_held: false };
    feed_often(&mut estimate, 60, before, idle);
    let left = mean(&estimate, 0);
    assert!((650_000..651_000).contains(&left), "what has passed is no trial: {left}");
}

#[test]
fn results_that_agree_make_it_sure_and_gaps_make_it_unsure_and_forget_it_in_the_end() {
    let mut estimate = LinkEstimate::default();
    let before = Guess::unsure(10_000);
    let limit = Passage { rate: 1_000_000, pressure: Pressure::Limit, is_held: false };
    feed_often(&mut estimate, 7, before, limit);
    assert!(!estimate.is_settled());
    estimate.feed(before, limit, SECOND);
    assert!(estimate.is_settled());
    let guess = estimate.guess().unwrap();
    assert!(guess.is_sure() && guess.deviation < 50_000, "{guess:?}");
    let idle = Passage { rate: 0, pressure: Pressure::Spare, is_held: false };
    feed_often(&mut estimate, seconds(RESTS_MOST), before, idle);
    let guess = estimate.guess().unwrap();
    assert_eq!(guess.mean, 1_000_000, "it is what was last known");
    assert!(!guess.is_sure(), "{guess:?}");
    assert!(!estimate.feed(before, idle, SECOND));
    assert!(estimate.guess().is_none() && !estimate.is_settled());
}

#[test]
fn what_others_take_counts_as_what_passes() {
    // A direction of 1000, of which others take 400: what repair gets says nothing by itself.
    let mut estimate = LinkEstimate::default();
    let before = Guess::unsure(5000);
    let (others, repair) = (400, 600);
    let both = Passage { rate: others + repair, pressure: Pressure::Limit, is_held: false };
    feed_often(&mut estimate, 3, before, both);
    assert_eq!(estimate.guess().map(|guess| guess.mean), Some(1000));
}

/// What a throttle that keeps so much free, in percent, lets repair have of a direction that it
/// takes for `mean`.
fn limit(mean: u64, keep: u64) -> u64 {
    (mean - mean * keep / 100).max(125_000)
}

/// Repair that wants all, under that limit, of a direction that carries `capacity`. Returns how many
/// reports found it full.
fn repair_under_limit(
    estimate: &mut LinkEstimate,
    (assumed, capacity): (u64, u64),
    reports: u32,
) -> u32 {
    let mut full = 0;
    for _ in 0..reports {
        let limit = limit(mean(estimate, assumed), 30);
        let rate = limit.min(capacity);
        let is_held = rate >= limit - limit / NEAR_DIVISOR;
        let pressure = if is_held { Pressure::Spare } else { Pressure::Limit };
        let sure = Guess { mean: assumed, deviation: 0 };
        estimate.feed(sure, Passage { rate, pressure, is_held }, SECOND);
        full += u32::from(!is_held);
    }
    full
}

#[test]
fn a_direction_that_was_down_is_found_again_under_a_limit() {
    let mut estimate = LinkEstimate::default();
    let before = Guess { mean: 100_000_000, deviation: 0 };
    let down = Passage { rate: 0, pressure: Pressure::Limit, is_held: false };
    feed_often(&mut estimate, 10, before, down);
    assert!(mean(&estimate, before.mean) < 1_000_000);
    repair_under_limit(&mut estimate, (before.mean, before.mean), seconds(HELD_MOST) + 1);
    assert_eq!(estimate.guess(), None, "it counts as declared again");
}

#[test]
fn a_direction_that_is_slower_than_it_is_taken_for_is_seldom_filled_under_a_limit() {
    let mut estimate = LinkEstimate::default();
    let links = (100_000_000, 30_000_000);
    repair_under_limit(&mut estimate, links, 100);
    let full = repair_under_limit(&mut estimate, links, 3_000);
    assert!((1..90).contains(&full), "{full} of 3000 reports");
    assert!(mean(&estimate, links.0) < 2 * links.1);
}

#[test]
fn what_is_kept_free_stays_free_however_little_it_is() {
    const CAPACITY: u64 = 12_500_000;
    for keep in [1, 5, 10, 30] {
        let mut estimate = LinkEstimate::default();
        let before = Guess::unsure(CAPACITY);
        feed_often(&mut estimate, 3, before, passage(CAPACITY, u64::MAX));
        for report in 0..500 {
            let limit = limit(mean(&estimate, CAPACITY), keep);
            // Reports are of more or less than a second.
            let rate = (limit + limit / 50 * (report % 3)).min(CAPACITY);
            estimate.feed(
                before,
                Passage { rate, pressure: Pressure::Spare, is_held: true },
                SECOND,
            );
            let found = mean(&estimate, CAPACITY);
            assert!(found <= CAPACITY, "{keep} % of {found}");
        }
    }
}

#[test]
fn what_is_known_lasts_as_long_whatever_the_time_between_reports() {
    let before = Guess::unsure(10_000);
    let limit = Passage { rate: 1_000_000, pressure: Pressure::Limit, is_held: false };
    let idle = Passage { rate: 0, pressure: Pressure::Spare, is_held: false };
    for every in [Span::from_millis(250), SECOND, Span::from_secs(10)] {
        let mut estimate = LinkEstimate::default();
        estimate.feed(before, limit, every);
        let mut lasted = Span::ZERO;
        while estimate.guess().is_some() {
            estimate.feed(before, idle, every);
            lasted.ns += every.ns;
        }
        let is_so = lasted > RESTS_MOST && lasted.ns <= RESTS_MOST.ns + every.ns;
        assert!(is_so, "{lasted:?} with reports every {every:?}");
    }
}
