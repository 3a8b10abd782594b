//! Connections that were refused, in the log: the first ones, then some, and how many others.
//!
//! Place: beside both planes. Refused peers can reconnect without limit, so the log lines about
//! them are rate-limited; otherwise they would fill the disk and hide other lines.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};
use tracing::warn;

/// Lines that may come at once.
const BURST: u32 = 20;

/// After them, one in so long.
const EVERY: Duration = Duration::from_secs(3);

/// What may still be written of refusals.
#[derive(Debug)]
pub struct RefusalLog(Mutex<Allowed>);

#[derive(Debug)]
struct Allowed {
    lines: u32,
    since: Instant,
    /// How many were refused without a line.
    unlogged: u64,
}

impl Default for RefusalLog {
    fn default() -> RefusalLog {
        RefusalLog(Mutex::new(Allowed { lines: BURST, since: Instant::now(), unlogged: 0 }))
    }
}

impl RefusalLog {
    /// Logs that a connection was refused, and why; or counts it.
    pub fn note(&self, from: impl fmt::Display, why: impl fmt::Display) {
        self.note_of("connection", from, why);
    }

    /// As [`RefusalLog::note`], of something that came over a connection.
    pub fn note_of(&self, what: &str, from: impl fmt::Display, why: impl fmt::Display) {
        match self.allow(Instant::now()) {
            None => {}
            Some(0) => warn!("{what} from {from} refused: {why}"),
            Some(unlogged) => {
                warn!("{what} from {from} refused: {why} (and {unlogged} others before it)");
            }
        }
    }

    /// Whether nothing was logged for so long that this log allows as many lines as a new one.
    pub fn is_rested(&self, now: Instant) -> bool {
        let allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = now.duration_since(allowed.since).as_secs() / EVERY.as_secs();
        allowed.unlogged == 0 && u64::from(allowed.lines) + rest >= u64::from(BURST)
    }

    /// Whether there is to be a line now; then how many were refused without one since the last.
    pub fn allow(&self, now: Instant) -> Option<u64> {
        let mut allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let more = now.duration_since(allowed.since).as_secs() / EVERY.as_secs();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(BURST);
            allowed.lines = allowed.lines.saturating_add(more).min(BURST);
            allowed.since = now;
        }
        if allowed.lines == 0 {
            allowed.unlogged += 1;
            return None;
        }
        allowed.lines -= 1;
        Some(std::mem::take(&mut allowed.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_and_a_count() {
        let (refusals, began) = (RefusalLog::default(), Instant::now());
        let at = |ms: u64| refusals.allow(began + Duration::from_millis(ms));
        let said: Vec<u64> = (0..30_000).filter_map(at).collect();
        assert_eq!(said.len() as u64, u64::from(BURST) + 9, "30 seconds");
        assert_eq!(said[..20], [0; 20]);
        let silent: u64 = said.iter().sum();
        assert!(silent > 25_000, "{silent} of 30000 are counted");
        assert_eq!(at(3_000_000), Some(30_000 - 29 - silent), "none is forgotten");
        assert_eq!((1..40).filter_map(|_| at(3_000_000)).sum::<u64>(), 0);
    }
}
