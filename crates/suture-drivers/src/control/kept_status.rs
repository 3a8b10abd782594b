//! The last status, for clients that take it at once rather than wait until plans are made.
//!
//! Place: beside stripes affected -> queue -> [plan]. A batch of plans takes the coordinator's task
//! a second or two, in which it answers no request. Most clients of `status` are served best by the
//! last one then, with its age.
//!
//! Invariant: what is kept was asked for after the last change that an operator commanded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::proto::StatusReply;

/// A coordinator that is not planning answers sooner than this.
pub(super) const STATUS_TIMEOUT: Duration = Duration::from_millis(50);

/// How often a status is made only to be kept for calls that come while plans are made; and how
/// often where it has so many entries that it is not kept.
pub(super) const KEEP_EVERY: Duration = Duration::from_secs(1);
pub(super) const KEEP_EVERY_LONG: Duration = Duration::from_secs(60);

/// Entries of a status that is kept: some 10 MB.
const ENTRIES_MAX: usize = 1 << 16;

/// The last status, for when no other comes soon.
#[derive(Debug, Default)]
pub(super) struct KeptStatus(Mutex<LastStatus>);

#[derive(Debug, Default)]
struct LastStatus {
    /// Changes that were commanded so far.
    changes: u64,
    /// When it was asked for, and what came.
    kept: Option<(Instant, StatusReply)>,
}

impl KeptStatus {
    /// How many changes were commanded so far.
    pub(super) fn changes(&self) -> u64 {
        self.last().changes
    }

    /// Something is changed: what is kept may be of before.
    pub(super) fn forget(&self) {
        let mut last = self.last();
        last.changes += 1;
        last.kept = None;
    }

    /// Keeps what was asked for then, after so many changes, unless there were others since.
    /// Returns whether it is short enough.
    pub(super) fn keep(&self, changes: u64, asked: Instant, status: &StatusReply) -> bool {
        let inconsistent = status.scrub.as_ref().map_or(0, |scrub| scrub.inconsistent.len());
        let entries = status.running.len() + status.blocked.len() + inconsistent;
        let is_short = entries <= ENTRIES_MAX;
        let mut last = self.last();
        let is_older = last.kept.as_ref().is_some_and(|(kept, _)| *kept > asked);
        if last.changes == changes && !is_older {
            last.kept = is_short.then(|| (asked, status.clone()));
        }
        is_short
    }

    /// What is kept, with its age.
    pub(super) fn get(&self, now: Instant) -> Option<StatusReply> {
        let last = self.last();
        let (asked, status) = last.kept.as_ref()?;
        let age_seconds = now.saturating_duration_since(*asked).as_secs_f64();
        Some(StatusReply { age_seconds: Some(age_seconds), ..status.clone() })
    }

    fn last(&self) -> MutexGuard<'_, LastStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::proto::Running;

    fn status(epoch: u32) -> StatusReply {
        StatusReply { epoch, ..StatusReply::default() }
    }

    #[test]
    fn what_is_kept_is_of_after_the_last_change_and_says_its_age() {
        let (kept, begun) = (KeptStatus::default(), Instant::now());
        let later = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(kept.get(begun), None);
        let changes = kept.changes();
        assert!(kept.keep(changes, later(1), &status(1)));
        let got = kept.get(later(3)).unwrap();
        assert_eq!((got.epoch, got.age_seconds), (1, Some(2.0)));
        kept.keep(changes, later(0), &status(2));
        assert_eq!(kept.get(later(3)).unwrap().epoch, 1, "one that came late is older");
        kept.forget();
        assert_eq!(kept.get(later(3)), None);
        kept.keep(changes, later(2), &status(3));
        assert_eq!(kept.get(later(3)), None, "it was asked for before the change");
        kept.keep(kept.changes(), later(2), &status(4));
        assert_eq!(kept.get(later(3)).unwrap().epoch, 4);
    }

    #[test]
    fn a_status_of_very_many_entries_is_not_kept_nor_any_that_is_older() {
        let (kept, now) = (KeptStatus::default(), Instant::now());
        kept.keep(0, now, &status(1));
        let long = StatusReply { running: vec![Running::default(); ENTRIES_MAX + 1], ..status(2) };
        assert!(!kept.keep(0, now, &long));
        assert_eq!(kept.get(now), None);
    }
}
