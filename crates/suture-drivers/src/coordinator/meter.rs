//! How fast repairs go, and how long the rest will take.
//!
//! Place: ... dispatch -> [slices flow] -> ... : what progress bars and `suture status` show.
//! The rate is an exponential average over a few seconds, long enough for heartbeats not to make
//! it jump. How long the rest takes is another question, which the core answers (`estimate`).

use suture_repair::estimate::{Amount, Estimate, Estimator};
use suture_repair::event::{Health, Report, Status};
use suture_repair::time::{Span, Time};

use super::history::History;

/// Weight is lost by a factor of e over this time.
const MEMORY_SECONDS: f64 = 5.0;

/// Where nothing runs and nothing has moved for so long there is no rate. Above the longest pause
/// of a healthy repair: a destination that proves and syncs its chunk.
const STALLED_AFTER: Span = Span::from_secs(10);

/// Measures the repairs of one coordinator.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    measured_at: Option<Time>,
    moved_at: Time,
    done: u64,
    rate: f64,
    estimator: Estimator,
    milestones: Milestones,
    history: History,
}

/// When things last happened, and what was planned last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Milestones {
    /// A node was declared failed.
    pub declared_at: Option<Time>,
    /// The first repair since then was dispatched.
    pub started_at: Option<Time>,
    /// A location was committed.
    pub committed_at: Option<Time>,
    /// Chunks of the last batch of plans.
    pub planned_repairs: u64,
    /// What the busiest link or disk needs for it, in seconds.
    pub planned_seconds: f64,
}

impl Meter {
    /// Looks at what is done now.
    pub fn measure(&mut self, now: Time, status: &Status) {
        let (done, is_running) = (done(status), !status.running.is_empty());
        self.estimator.observe(now, done, left(status), is_running);
        self.observe(now, done.bytes, is_running);
        self.history.measure(now, status);
    }

    /// Remembers what a report says of the course of things; `clock` is now in seconds since 1970.
    pub fn note(&mut self, now: Time, clock: u64, report: &Report) {
        self.history.note(now, clock, report);
        match report {
            Report::Node { health: Health::Failed, .. } => {
                self.milestones.declared_at = Some(now);
                self.milestones.started_at = None;
            }
            Report::Started { .. } => {
                self.milestones.started_at.get_or_insert(now);
            }
            Report::Committed { .. } => self.milestones.committed_at = Some(now),
            Report::Planned { repairs, max_load_seconds } => {
                self.milestones.planned_repairs = *repairs as u64;
                self.milestones.planned_seconds = *max_load_seconds;
            }
            _ => {}
        }
    }

    /// When things last happened.
    pub fn milestones(&self) -> Milestones {
        self.milestones
    }

    /// What was repaired since the coordinator began.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Rebuilt bytes per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// How long it takes until all is rebuilt that can be now; none where that cannot be estimated.
    pub fn eta(&self, now: Time, status: &Status) -> Option<Estimate> {
        let may_begin = !status.paused && status.throttle.closed_for.is_none();
        let goes_on = may_begin || !status.running.is_empty();
        self.estimator.estimate(now, left(status)).filter(|_| goes_on)
    }

    fn observe(&mut self, now: Time, done: u64, is_running: bool) {
        let before = self.measured_at.replace(now).unwrap_or(now);
        let seconds = now.since(before).as_secs_f64();
        // An attempt that failed takes its bytes back: no progress, but no debt either.
        let fresh = done.saturating_sub(self.done);
        self.done = done;
        if fresh > 0 {
            self.moved_at = now;
        }
        if seconds > 0.0 {
            let weight = 1.0 - (-seconds / MEMORY_SECONDS).exp();
            let first = self.rate == 0.0 && fresh > 0;
            let weight = if first { 1.0 } else { weight };
            self.rate += weight * (fresh as f64 / seconds - self.rate);
        }
        if !is_running && now.since(self.moved_at) >= STALLED_AFTER {
            self.rate = 0.0;
        }
    }
}

/// What was rebuilt since the start, and what of what is being rebuilt.
fn done(status: &Status) -> Amount {
    let running: u64 = status.running.iter().map(|repair| repair.bytes_done).sum();
    Amount { chunks: status.repaired_chunks, bytes: status.repaired_bytes + running }
}

/// What is lost and not rebuilt yet, but for what cannot be now, and what is to leave its node.
fn left(status: &Status) -> Amount {
    let running: u64 = status.running.iter().map(|repair| repair.bytes_done).sum();
    let lost = status.lost_bytes.saturating_sub(status.stuck_bytes);
    let bytes = (lost + status.leaving_bytes).saturating_sub(running);
    let chunks = status.lost_chunks.saturating_sub(status.stuck_chunks);
    Amount { chunks: chunks + status.leaving_chunks, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn a_steady_repair_has_its_rate() {
        let mut meter = Meter::default();
        (0..60).for_each(|second| meter.observe(at(second), second * 1000, true));
        assert!((meter.rate() - 1000.0).abs() < 1.0, "{}", meter.rate());
    }

    #[test]
    fn the_rest_is_what_is_lost_without_what_is_under_way() {
        let mut meter = Meter::default();
        for second in 0..=10 {
            let lost_bytes = 20_000 - second * 1000;
            let lost_chunks = 20 - second;
            let (repaired_chunks, repaired_bytes) = (second, second * 1000);
            let status = Status {
                lost_chunks,
                lost_bytes,
                repaired_chunks,
                repaired_bytes,
                ..Status::default()
            };
            meter.measure(at(second), &status);
            let eta = meter.eta(at(second), &status);
            assert_eq!(eta.is_some(), second >= 1, "{eta:?}");
            if let Some(eta) = eta {
                assert!((eta.seconds - lost_chunks as f64).abs() < 0.1, "{second}: {eta:?}");
            }
        }
        assert_eq!(meter.eta(at(10), &Status::default()), None, "nothing is lost");
        // Of twenty more nothing can be rebuilt now.
        let (lost_chunks, lost_bytes) = (30, 30_000);
        let (stuck_chunks, stuck_bytes) = (20, 20_000);
        let half =
            Status { lost_chunks, lost_bytes, stuck_chunks, stuck_bytes, ..Status::default() };
        let eta = meter.eta(at(10), &half).expect("the others go on");
        assert!((eta.seconds - 10.0).abs() < 0.1, "{eta:?}");
        let paused = Status { paused: true, ..half.clone() };
        assert_eq!(meter.eta(at(10), &paused), None, "nothing runs");
        let all = Status { stuck_chunks: 30, stuck_bytes: 30_000, ..half };
        assert_eq!(meter.eta(at(10), &all), None, "nothing can be rebuilt");
    }

    #[test]
    fn bytes_of_a_failed_attempt_are_not_counted_twice_nor_held_against_the_rate() {
        let mut meter = Meter::default();
        for (second, done) in [0, 1000, 2000, 500, 1500, 2500].into_iter().enumerate() {
            meter.observe(at(second as u64), done, true);
            assert!(meter.rate() >= 0.0 && meter.rate() <= 1000.0);
        }
    }
}
