//! Whether the clock of the day goes on as time does.
//!
//! Place: beside the whole life of a repair, which no clock of the day decides. Dates of objects
//! and of the audit log, windows, pauses that outlast a restart, and the validity of certificates
//! go by it: the operator is warned when it was set.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use suture_edge::units::format_seconds;

/// What a clock is off by that is set by little and often, or read between two other things.
const SAME_TIME: Duration = Duration::from_secs(30);

/// For how long `status` shows it.
const SHOWN_FOR: Duration = Duration::from_secs(3600);

/// Both clocks as they were last read, and what was last wrong with the one of the day.
#[derive(Debug)]
pub(super) struct ClockWatch {
    last: Option<(Instant, SystemTime)>,
    jumped: Option<(Instant, String)>,
    is_before_1970: bool,
}

impl ClockWatch {
    /// One that has read no clock.
    pub fn new() -> ClockWatch {
        ClockWatch { last: None, jumped: None, is_before_1970: false }
    }

    /// Takes what the clocks say now; gives what is wrong, where that is news.
    pub fn read(&mut self, at: Instant, day: SystemTime) -> Option<String> {
        let (before, was_before_1970) = (self.last.replace((at, day)), self.is_before_1970);
        self.is_before_1970 = day < UNIX_EPOCH;
        if let Some((last, expected)) = before {
            let expected = expected + at.saturating_duration_since(last);
            let (by, direction) = match day.duration_since(expected) {
                Ok(ahead) => (ahead, "forward"),
                Err(behind) => (behind.duration(), "back"),
            };
            if by > SAME_TIME {
                let by = format_seconds(by.as_secs_f64());
                let why = format!(
                    "the clock of the coordinator's machine went {direction} by {by}, as when it \
                     was set or the machine slept: dates, windows and certificates go by it"
                );
                self.jumped = Some((at, why));
            }
        }
        let has_jumped = self.jumped.as_ref().is_some_and(|(when, _)| *when == at);
        let is_news = has_jumped || (self.is_before_1970 && !was_before_1970);
        is_news.then(|| self.warning(at)).flatten()
    }

    /// What is wrong with the clock, or was lately.
    pub fn warning(&self, at: Instant) -> Option<String> {
        if self.is_before_1970 {
            return Some(
                "the clock of the coordinator's machine is before 1970: set it; what is stored \
                 until then is dated 1970"
                    .into(),
            );
        }
        let (when, why) = self.jumped.as_ref()?;
        (at.saturating_duration_since(*when) < SHOWN_FOR).then(|| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_of_once_and_shown_for_an_hour() {
        let (mut watch, start) = (ClockWatch::new(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let day = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        assert_eq!(watch.read(at(0), day(0)), None);
        assert_eq!(watch.read(at(1), day(20)), None, "it is set by little");
        assert_eq!(watch.read(at(2), day(21)), None);
        let warned = watch.read(at(3), day(18_022)).expect("five hours");
        assert!(warned.contains("went forward by 5"), "{warned}");
        assert_eq!(watch.read(at(4), day(18_023)), None, "it goes on");
        assert_eq!(watch.warning(at(4)), Some(warned));
        assert_eq!(watch.warning(at(3603)), None);
        let warned = watch.read(at(4000), day(0)).expect("back");
        assert!(warned.contains("went back by"), "{warned}");
    }

    #[test]
    fn a_clock_before_1970_is_told_of_once_and_shown_until_it_is_set() {
        let (mut watch, at) = (ClockWatch::new(), Instant::now());
        let day = UNIX_EPOCH - Duration::from_secs(5_000_000);
        let warned = watch.read(at, day).expect("told");
        assert!(warned.contains("before 1970: set it"), "{warned}");
        let later = Duration::from_secs(7200);
        assert_eq!(watch.read(at + later, day + later), None);
        assert!(watch.warning(at + later).is_some());
    }
}
