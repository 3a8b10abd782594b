//! Numbers of scrubbing: how far the pass is, what was found, and whether passes keep to their
//! period.
//!
//! Place: beside [failure detected] -> ..., for damage that no read has met yet.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use suture_repair::event::ScrubStatus;

use super::{Labels, Level, OfDaemon};

/// What of scrubbing goes up and down.
#[derive(Debug)]
pub(super) struct ScrubLevels {
    running: Level,
    done: Level,
    unread: Level,
    inconsistent: Level,
    found: Level,
    left_out: Level,
    // What is not known has no series.
    period: Family<Labels, Level>,
    least: Family<Labels, Level>,
    age: Family<Labels, Level>,
}

impl ScrubLevels {
    pub(super) fn new(of: &mut OfDaemon) -> ScrubLevels {
        ScrubLevels {
            running: of.new_one("suture_scrub_running", "Whether copies are being scrubbed"),
            done: of.new_one(
                "suture_scrub_progress_ratio",
                "Part of the stripes that the scrub has done",
            ),
            unread: of.new_one("suture_scrub_unread_chunks", "Chunks that cannot be read"),
            inconsistent: of.new_one(
                "suture_scrub_inconsistent_stripes",
                "Stripes whose chunks do not fit each other",
            ),
            found: of.new_one("suture_scrub_bad_chunks", "Bad chunks that scrubs found"),
            left_out: of.new_one(
                "suture_scrub_left_out_chunks",
                "Chunks that the scrub, or the last one, has not read: on paused or failed nodes",
            ),
            period: of.new_one(
                "suture_scrub_period_seconds",
                "How often a scrub begins; absent where only operators begin one",
            ),
            least: of.new_one(
                "suture_scrub_least_seconds",
                "What a scrub takes at least at its rate; absent where it has none, or no period",
            ),
            age: of.new_one(
                "suture_scrub_age_seconds",
                "Since a scrub last came to its end; absent where only operators begin one",
            ),
        }
    }

    /// What the core reports, and the times that are known beside it.
    pub(super) fn set(&self, scrub: &ScrubStatus, [period, least, age]: [Option<Duration>; 3]) {
        self.running.set(f64::from(u8::from(scrub.pass.is_some())));
        let part = scrub.pass.map_or(0.0, |p| p.stripes_done as f64 / p.stripes.max(1) as f64);
        self.done.set(part);
        self.unread.set(scrub.unread as f64);
        self.inconsistent.set(scrub.inconsistent.len() as f64);
        self.found.set(scrub.found as f64);
        self.left_out.set(scrub.left_out as f64);
        for (level, time) in [(&self.period, period), (&self.least, least), (&self.age, age)] {
            level.clear();
            if let Some(time) = time {
                level.get_or_create(&Labels::new()).set(time.as_secs_f64());
            }
        }
    }
}
