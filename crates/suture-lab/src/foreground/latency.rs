//! How long requests took, and what became of those that failed.
//!
//! Place: behind each request of the foreground. Every latency counts from the moment when its
//! request was to begin, and what was never answered counts with what it had waited by then. What
//! failed has no latency: a store that refuses at once is not fast.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Error;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies are distinguished from a microsecond to an hour, to three digits.
const MICROS_MAX: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

/// Different errors that are named; the others are counted together.
const NAMED_MAX: usize = 10;

/// What a request does, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationKind {
    /// The value of a key is read.
    Read,
    /// The value of a key is written.
    Update,
    /// Asks for a key that is not there.
    Miss,
}

impl OperationKind {
    /// Its name as figures have it.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Update => "update",
            OperationKind::Miss => "miss",
        }
    }
}

/// The latencies of one kind of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// The kind of operation, by its name.
    pub operation: &'static str,
    /// Requests that were answered, failed, or waited to the end.
    pub count: u64,
    /// Of these, those that were not answered; latencies are of all but those that failed, and no
    /// numbers where there are no others.
    pub errors: u64,
    /// Milliseconds that operations took on average.
    pub mean_ms: f64,
    /// Half of the requests took no longer.
    pub p50_ms: f64,
    /// Nine tenths took no longer.
    pub p90_ms: f64,
    /// 99 of a hundred took no longer.
    pub p99_ms: f64,
    /// 999 of a thousand took no longer.
    pub p999_ms: f64,
    /// Milliseconds that the longest took.
    pub max_ms: f64,
}

/// An error and how often it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// What it says, without the names in it.
    pub error: String,
    /// How many operations failed with it.
    pub count: u64,
}

/// What became of the requests of one kind.
struct OfKind {
    /// Of those that were answered, or waited to the end.
    latencies: Histogram<u64>,
    failed: u64,
    unanswered: u64,
}

impl OfKind {
    fn new() -> OfKind {
        let latencies = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS);
        OfKind { latencies: latencies.expect("the bounds are valid"), failed: 0, unanswered: 0 }
    }

    fn record(&mut self, took: Duration) {
        self.latencies.saturating_record((took.as_micros() as u64).max(1));
    }
}

/// All that was counted.
#[derive(Default)]
pub struct Latencies {
    kinds: BTreeMap<OperationKind, OfKind>,
    errors: BTreeMap<String, u64>,
    /// Bytes of values that were read, and written.
    pub bytes: (u64, u64),
}

impl Latencies {
    /// A request is over; `result` is how many bytes it moved.
    pub fn add(&mut self, kind: OperationKind, took: Duration, result: Result<u64, &Error>) {
        let of_kind = self.kinds.entry(kind).or_insert_with(OfKind::new);
        match result {
            Ok(bytes) => {
                of_kind.record(took);
                match kind {
                    OperationKind::Update => self.bytes.1 += bytes,
                    OperationKind::Read | OperationKind::Miss => self.bytes.0 += bytes,
                }
            }
            Err(error) => {
                of_kind.failed += 1;
                self.count_error(without_names(&format!("{error:#}")));
            }
        }
    }

    /// A request was not answered when it ended, after it had waited so long.
    pub fn add_unanswered(&mut self, kind: OperationKind, waited: Duration) {
        let of_kind = self.kinds.entry(kind).or_insert_with(OfKind::new);
        of_kind.record(waited);
        of_kind.unanswered += 1;
        self.count_error("not answered when it ended".to_string());
    }

    fn count_error(&mut self, mut words: String) {
        if self.errors.len() >= NAMED_MAX && !self.errors.contains_key(&words) {
            words = "others".to_string();
        }
        *self.errors.entry(words).or_default() += 1;
    }

    /// Each kind that there was.
    pub fn figures(&self) -> Vec<LatencyFigures> {
        let figures = |(kind, of_kind): (&OperationKind, &OfKind)| {
            let OfKind { latencies, failed, unanswered } = of_kind;
            let known = |ms: f64| if latencies.is_empty() { f64::NAN } else { ms };
            let ms = |quantile: f64| known(latencies.value_at_quantile(quantile) as f64 / 1e3);
            LatencyFigures {
                operation: kind.name(),
                count: latencies.len() + failed,
                errors: failed + unanswered,
                mean_ms: known(latencies.mean() / 1e3),
                p50_ms: ms(0.5),
                p90_ms: ms(0.9),
                p99_ms: ms(0.99),
                p999_ms: ms(0.999),
                max_ms: known(latencies.max() as f64 / 1e3),
            }
        };
        self.kinds.iter().map(figures).collect()
    }

    /// What failed, the most frequent first.
    pub fn errors(&self) -> Vec<ErrorCount> {
        let count =
            |(error, count): (&String, &u64)| ErrorCount { error: error.clone(), count: *count };
        let mut errors: Vec<ErrorCount> = self.errors.iter().map(count).collect();
        errors.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        errors
    }

    /// Requests that were answered.
    pub fn answered(&self) -> u64 {
        self.kinds.values().map(|of_kind| of_kind.latencies.len() - of_kind.unanswered).sum()
    }

    /// Requests that were not answered when it ended.
    pub fn unanswered(&self) -> u64 {
        self.kinds.values().map(|of_kind| of_kind.unanswered).sum()
    }
}

/// Errors of one kind are one error, whatever they are about: what stands in quotes is left out,
/// and so are numbers.
fn without_names(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('\'').enumerate() {
        plain += if index % 2 == 1 { "'..'" } else { part };
    }
    let mut out = String::new();
    for letter in plain.chars() {
        match letter {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn latencies_are_counted_by_kind_and_errors_by_what_they_say() {
        let mut all = Latencies::default();
        for ms in 1..=100 {
            all.add(OperationKind::Read, Duration::from_millis(ms), Ok(10));
        }
        for name in ["a", "b"] {
            let error = anyhow!("there is no object '{name}7' at 10.0.0.{}", name.len());
            all.add(OperationKind::Update, Duration::from_millis(5), Err(&error));
        }
        assert!(all.figures()[1].p99_ms.is_nan() && all.figures()[1].max_ms.is_nan());
        all.add_unanswered(OperationKind::Update, Duration::from_secs(2));
        let figures = all.figures();
        assert_eq!((figures[0].count, figures[0].errors, all.bytes), (100, 0, (1000, 0)));
        assert_eq!((figures[1].count, figures[1].errors), (3, 3));
        assert!((figures[1].p50_ms - 2000.0).abs() < 2.0, "what failed at once is not fast");
        assert_eq!((all.answered(), all.unanswered()), (100, 1));
        assert!((figures[0].p99_ms - 99.0).abs() < 0.2 && (figures[0].max_ms - 100.0).abs() < 0.2);
        let error = "there is no object '..' at #.#.#.#".to_string();
        let unanswered = "not answered when it ended".to_string();
        let expected = [(error, 2), (unanswered, 1)];
        assert_eq!(all.errors(), expected.map(|(error, count)| ErrorCount { error, count }));
    }
}
