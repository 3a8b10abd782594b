//! How long the rest of the repairs will take, with an interval, or that it is unknown.
//!
//! Place: beside queue -> ... -> stripe healthy; what operators see of its end.
//! A chunk costs time by its bytes, which cross links, and by being one: it is planned, proven,
//! made durable and committed. With chunks of one size either shows how far a job has come; where a
//! few are large and many tiny neither does alone. So both costs are estimated from what was done
//! in stretches of the job, and scaled so that they explain the time that it took so far. What is
//! left counts until it is committed: bytes under way are not a chunk yet. The interval spans what
//! bytes alone and chunks alone would say, by all of the job and by its recent half: where they
//! disagree the interval is wide.

use crate::time::{Span, Time};

/// Pieces into which a job is cut, at most; when there are so many, each two become one.
const STRETCHES_MAX: usize = 32;

/// The shortest stretch, in seconds.
const STRETCH_SECONDS: f64 = 0.5;

/// Without any progress for so long there is no estimate. Above the longest pause of a healthy
/// repair: a destination that proves and syncs its chunk.
const STALLED_AFTER: Span = Span::from_secs(10);

/// A job has no estimate before so much of its time has passed, in seconds.
const SECONDS_LEAST: f64 = 1.0;

/// What the interval is widened by at each end.
const WIDENED: f64 = 1.2;

/// How much there is, or was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Chunks; those that are done are committed.
    pub chunks: u64,
    /// Bytes of chunks; those that are done may be of chunks that are under way.
    pub bytes: u64,
}

/// How long something may take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best guess that there is.
    pub seconds: f64,
    /// The lower end of the interval: it will hardly take less.
    pub low: f64,
    /// The upper end of the interval: it will hardly take more.
    pub high: f64,
}

/// One stretch of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    seconds: f64,
    chunks: f64,
    bytes: f64,
}

/// What a job has done so far, and when.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    observed_at: Option<(Time, Amount)>,
    moved_at: Time,
    stretches: Vec<Stretch>,
    stretch_seconds: f64,
}

impl Estimator {
    /// Notes what was done by now, since whenever, and whether anything runs. Time in which nothing
    /// runs counts for no job; where nothing is left, a job has ended.
    pub fn observe(&mut self, now: Time, done: Amount, left: Amount, is_running: bool) {
        let before = self.observed_at.replace((now, done));
        if left.chunks == 0 {
            self.stretches.clear();
            self.stretch_seconds = 0.0;
            return;
        }
        let Some((at, before)) = before else { return };
        // An attempt that failed takes its bytes back: no progress, but no debt either.
        let chunks = done.chunks.saturating_sub(before.chunks) as f64;
        let bytes = done.bytes.saturating_sub(before.bytes) as f64;
        if chunks + bytes > 0.0 {
            self.moved_at = now;
        }
        if is_running || chunks + bytes > 0.0 {
            self.add(Stretch { seconds: now.since(at).as_secs_f64(), chunks, bytes });
        }
    }

    /// How long the rest will take; none where it is unknown.
    pub fn estimate(&self, now: Time, left: Amount) -> Option<Estimate> {
        let all = Stretch::sum(&self.stretches);
        let moves = now.since(self.moved_at) < STALLED_AFTER;
        if left.chunks == 0 || !moves || all.seconds < SECONDS_LEAST {
            return None;
        }
        let recent = Stretch::sum(&self.stretches[self.stretches.len() / 2..]);
        let both = [all, recent];
        let mut guesses: Vec<f64> = both.iter().filter_map(|done| done.by_bytes(left)).collect();
        guesses.extend(both.iter().filter_map(|done| done.by_chunks(left)));
        let cost = Cost::of(&self.stretches);
        let best: Vec<f64> = both.iter().filter_map(|done| cost.guess(done, left)).collect();
        guesses.extend(&best);
        let product: f64 = best.iter().product();
        let seconds = product.powf(1.0 / best.len().max(1) as f64);
        let low = guesses.iter().copied().fold(seconds, f64::min) / WIDENED;
        let high = guesses.iter().copied().fold(seconds, f64::max) * WIDENED;
        let is_known = !best.is_empty() && seconds > 0.0 && high.is_finite();
        is_known.then_some(Estimate { seconds, low, high })
    }

    fn add(&mut self, more: Stretch) {
        self.stretch_seconds = self.stretch_seconds.max(STRETCH_SECONDS);
        match self.stretches.last_mut().filter(|last| last.seconds < self.stretch_seconds) {
            Some(last) => last.add(more),
            None => self.stretches.push(more),
        }
        if self.stretches.len() >= STRETCHES_MAX {
            self.stretches = self.stretches.chunks(2).map(Stretch::sum).collect();
            self.stretch_seconds *= 2.0;
        }
    }
}

impl Stretch {
    fn sum(stretches: &[Stretch]) -> Stretch {
        let mut sum = Stretch::default();
        stretches.iter().for_each(|stretch| sum.add(*stretch));
        sum
    }

    fn add(&mut self, other: Stretch) {
        self.seconds += other.seconds;
        self.chunks += other.chunks;
        self.bytes += other.bytes;
    }

    fn by_bytes(&self, left: Amount) -> Option<f64> {
        (self.bytes > 0.0 && left.bytes > 0).then(|| left.bytes as f64 * self.seconds / self.bytes)
    }

    fn by_chunks(&self, left: Amount) -> Option<f64> {
        (self.chunks > 0.0).then(|| left.chunks as f64 * self.seconds / self.chunks)
    }
}

/// What a chunk costs against a byte; only their ratio means anything.
#[derive(Clone, Copy, Debug)]
struct Cost {
    chunk: f64,
    byte: f64,
}

impl Cost {
    /// Least squares over stretches of a job, where neither cost is negative.
    fn of(stretches: &[Stretch]) -> Cost {
        let sum = |term: fn(&Stretch) -> f64| stretches.iter().map(term).sum::<f64>();
        let (cc, cb, bb) =
            (sum(|p| p.chunks * p.chunks), sum(|p| p.chunks * p.bytes), sum(|p| p.bytes * p.bytes));
        let (ct, bt) = (sum(|p| p.chunks * p.seconds), sum(|p| p.bytes * p.seconds));
        // What is left after the ridge is for both alike, where the stretches do not distinguish
        // them.
        let (cc, bb) = (cc * 1.01, bb * 1.01);
        let determinant = cc * bb - cb * cb;
        let chunk = (ct * bb - bt * cb) / determinant;
        let byte = (bt * cc - ct * cb) / determinant;
        match determinant > 0.0 {
            true if chunk <= 0.0 => Cost { chunk: 0.0, byte: 1.0 },
            true if byte <= 0.0 => Cost { chunk: 1.0, byte: 0.0 },
            true => Cost { chunk, byte },
            // Nothing was done of one kind.
            false if bb > 0.0 => Cost { chunk: 0.0, byte: 1.0 },
            false => Cost { chunk: 1.0, byte: 0.0 },
        }
    }

    /// What the rest takes if it goes as `done` went.
    fn guess(self, done: &Stretch, left: Amount) -> Option<f64> {
        let of = |chunks: f64, bytes: f64| self.chunk * chunks + self.byte * bytes;
        let (done_cost, left_cost) =
            (of(done.chunks, done.bytes), of(left.chunks as f64, left.bytes as f64));
        (done_cost > 0.0 && left_cost > 0.0).then(|| left_cost * done.seconds / done_cost)
    }
}
