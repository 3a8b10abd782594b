//! The estimate of what is left, against jobs that are simulated to their end.

use suture_repair::estimate::{Amount, Estimator};
use suture_repair::random::Random;
use suture_repair::time::{Span, Time};

/// A job: chunks of these sizes in this order, so many at a time, which share so many bytes a
/// second; each takes so many seconds besides.
struct Job {
    bytes: Vec<u64>,
    slots: usize,
    rate: f64,
    overhead: f64,
}

/// What was so at one moment of it.
struct Moment {
    seconds: f64,
    done: Amount,
    left: Amount,
}

impl Job {
    /// Every half second of it.
    fn run(&self) -> Vec<Moment> {
        const STEP: f64 = 0.01;
        let total: u64 = self.bytes.iter().sum();
        let mut waiting = self.bytes.iter().copied();
        // Bytes and seconds that each still needs, and how long it is.
        let mut running: Vec<(f64, f64, u64)> = Vec::new();
        let (mut moments, mut committed, mut step) = (Vec::new(), Amount::default(), 0u64);
        loop {
            while running.len() < self.slots
                && let Some(bytes) = waiting.next()
            {
                running.push((bytes as f64, self.overhead, bytes));
            }
            let under_way: f64 = running.iter().map(|(rest, _, all)| *all as f64 - rest).sum();
            if step.is_multiple_of(50) {
                let done = Amount { bytes: committed.bytes + under_way as u64, ..committed };
                let left = Amount {
                    chunks: self.bytes.len() as u64 - committed.chunks,
                    bytes: total - done.bytes,
                };
                moments.push(Moment { seconds: step as f64 * STEP, done, left });
            }
            if running.is_empty() {
                return moments;
            }
            let moving = running.iter().filter(|(rest, ..)| *rest > 0.0).count().max(1);
            for (rest, overhead, _) in &mut running {
                if *rest > 0.0 {
                    *rest -= self.rate * STEP / moving as f64
                } else {
                    *overhead -= STEP
                }
                *rest = rest.max(0.0);
            }
            running.retain(|(rest, overhead, bytes)| {
                let is_done = *rest <= 0.0 && *overhead <= 0.0;
                committed.chunks += u64::from(is_done);
                committed.bytes += u64::from(is_done) * bytes;
                !is_done
            });
            step += 1;
        }
    }
}

/// By how much estimates of the second half are wrong at most, and how often the truth lay in their
/// interval; what is said of the last second is left out.
fn errors(name: &str, job: &Job) -> (f64, f64) {
    let moments = job.run();
    let end = moments.last().unwrap().seconds;
    let mut estimator = Estimator::default();
    let (mut worst, mut inside, mut said) = (1.0f64, 0, 0);
    for Moment { seconds, done, left } in moments {
        let now = Time::ZERO + Span { ns: (seconds * 1e9) as u64 };
        estimator.observe(now, done, left, left.chunks > 0);
        let truth = end - seconds;
        if seconds < end / 2.0 || truth <= 1.0 {
            continue;
        }
        let estimate = estimator.estimate(now, left);
        let estimate = estimate.unwrap_or_else(|| panic!("{name}: nothing is said at {seconds}"));
        worst = worst.max(estimate.seconds / truth).max(truth / estimate.seconds);
        inside += u32::from((estimate.low..=estimate.high).contains(&truth));
        said += 1;
    }
    (worst, f64::from(inside) / f64::from(said))
}

fn jobs() -> Vec<(&'static str, Job)> {
    let mib = 1 << 20;
    let mut random = Random::new(7);
    let mut sizes = |count: usize, large: u64, one_in: u64| -> Vec<u64> {
        let size = |random: &mut Random| match random.below(one_in) {
            0 => large,
            _ => 4096 + random.below(16_384),
        };
        (0..count).map(|_| size(&mut random)).collect()
    };
    let job = |bytes, slots, rate, overhead| Job { bytes, slots, rate, overhead };
    vec![
        ("alike", job(vec![8 * mib; 300], 8, 50e6, 0.02)),
        ("alike, all at once", job(vec![2 * mib; 200], 200, 10e6, 0.02)),
        ("tiny", job(vec![4096; 4000], 16, 50e6, 0.05)),
        ("mixed", job(sizes(2000, 8 * mib, 20), 16, 50e6, 0.1)),
        ("rarely large", job(sizes(4000, 64 * mib, 200), 32, 50e6, 0.1)),
        ("often large", job(sizes(600, 32 * mib, 3), 8, 100e6, 0.1)),
    ]
}

#[test]
fn in_the_second_half_of_a_job_the_estimate_is_right_within_a_factor_of_one_and_a_half() {
    for (name, job) in jobs() {
        let (worst, inside) = errors(name, &job);
        assert!(worst <= 1.5, "{name}: wrong by a factor of {worst}");
        assert!(inside >= 0.9, "{name}: in its interval {inside} of the time");
    }
}

#[test]
fn what_nobody_can_say_is_not_said() {
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    let of = |chunks, bytes| Amount { chunks, bytes };
    let mut estimator = Estimator::default();
    assert_eq!(estimator.estimate(at(0), of(5, 500)), None, "nothing was seen");
    estimator.observe(at(0), of(0, 0), of(10, 1000), true);
    estimator.observe(at(2), of(0, 0), of(10, 1000), true);
    assert_eq!(estimator.estimate(at(2), of(10, 1000)), None, "nothing was done");
    estimator.observe(at(4), of(5, 500), of(5, 500), true);
    let estimate = estimator.estimate(at(4), of(5, 500)).unwrap();
    // As fast as the whole so far, or as its second half.
    assert!((2.0..=4.0).contains(&estimate.seconds), "{estimate:?}");
    assert!(estimate.low < 2.0 && estimate.high > 4.0, "{estimate:?}");
    // All bytes are there, and yet no chunk of them is committed.
    estimator.observe(at(5), of(5, 1000), of(5, 0), true);
    let estimate = estimator.estimate(at(5), of(5, 0)).unwrap();
    assert!(estimate.seconds > 0.0, "{estimate:?}");
    // Then nothing comes.
    estimator.observe(at(20), of(5, 1000), of(5, 0), true);
    assert_eq!(estimator.estimate(at(20), of(5, 0)), None, "it has stalled");
    assert_eq!(estimator.estimate(at(20), of(0, 0)), None, "nothing is left");
}

#[test]
fn a_pause_and_the_job_before_count_for_nothing() {
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    let of = |chunks, bytes| Amount { chunks, bytes };
    let mut estimator = Estimator::default();
    // A slow job, and its end.
    estimator.observe(at(0), of(0, 0), of(2, 200), true);
    estimator.observe(at(100), of(1, 100), of(1, 100), true);
    estimator.observe(at(200), of(2, 200), of(0, 0), false);
    // A fast one, with a pause in it.
    estimator.observe(at(1000), of(2, 200), of(20, 2000), false);
    estimator.observe(at(1010), of(12, 1200), of(10, 1000), true);
    estimator.observe(at(2010), of(12, 1200), of(10, 1000), false);
    estimator.observe(at(2011), of(13, 1300), of(9, 900), true);
    let estimate = estimator.estimate(at(2011), of(9, 900)).unwrap();
    assert!((8.0..10.0).contains(&estimate.seconds), "{estimate:?}");
}
