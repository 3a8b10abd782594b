//! Whether scrubs keep to their period, in which every copy is to be read once.
//!
//! Place: [failure detected] -> ...: damage that no pass comes to stays unknown.
//! The core begins a pass each period and keeps to the rate. That the rate is too low for what
//! nodes hold, or that no pass comes to its end, is for operators to know: at the start and from
//! then on.

use std::time::Duration;

use suture_edge::units::{format_exact_rate, format_seconds};
use suture_repair::event::ScrubStep;

use crate::metadata::PassRecord;

/// So many periods may lie between the ends of two passes: one begins a period after the other
/// began, and may take a period.
const PERIODS_MAX: u32 = 2;

/// What is known of passes beside the core's status; moments are in seconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrubWatch {
    /// None: no pass begins unasked.
    period: Option<Duration>,
    /// Bytes per second that a pass reads of each node's disk at most.
    rate: Option<f64>,
    pass: PassRecord,
    /// When the coordinator began.
    began: u64,
    was_slow: bool,
    was_overdue: bool,
}

/// How passes keep to their period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScrubTimes {
    /// A pass begins this often.
    pub period: Duration,
    /// Bytes per second that it reads of each node's disk at most.
    pub rate: Option<f64>,
    /// What it takes at least at that rate, by the node that holds most.
    pub least: Option<Duration>,
    /// Since the last one came to its end; where none has, since one, or the coordinator, began.
    pub age: Duration,
}

impl ScrubWatch {
    /// What a coordinator begins with that begins a pass so often, at that rate.
    pub fn new(
        now: u64,
        period: Option<Duration>,
        rate: Option<f64>,
        pass: PassRecord,
    ) -> ScrubWatch {
        ScrubWatch { period, rate, pass, began: now, was_slow: false, was_overdue: false }
    }

    /// A pass has begun, or ended, or is on its way.
    pub fn note(&mut self, now: u64, step: ScrubStep) {
        match step {
            ScrubStep::Begun => self.pass.begun = Some(now),
            ScrubStep::Ended => self.pass.ended = Some(now),
            ScrubStep::Reached(_) | ScrubStep::Inconsistent(_) | ScrubStep::Consistent(_) => {}
        }
    }

    /// How passes keep to their period where no node holds more than so many bytes; none where no
    /// pass begins unasked.
    pub fn times(&self, now: u64, bytes: u64) -> Option<ScrubTimes> {
        let period = self.period?;
        let least = |rate: f64| {
            let seconds = bytes as f64 / rate.max(1.0);
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        };
        let since = self.pass.ended.or(self.pass.begun).unwrap_or(self.began);
        // A clock that was ahead has noted a moment that is still to come.
        let age = Duration::from_secs(now.saturating_sub(since));
        Some(ScrubTimes { period, rate: self.rate, least: self.rate.map(least), age })
    }

    /// What an operator should know of that, as far as it was not so before.
    pub fn news(&mut self, times: &ScrubTimes) -> Vec<String> {
        let (was_slow, was_overdue) = (self.was_slow, self.was_overdue);
        let (slow, overdue) = (times.slow_warning(), times.overdue_warning());
        (self.was_slow, self.was_overdue) = (slow.is_some(), overdue.is_some());
        slow.filter(|_| !was_slow).into_iter().chain(overdue.filter(|_| !was_overdue)).collect()
    }
}

impl ScrubTimes {
    /// What an operator should know, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.slow_warning().into_iter().chain(self.overdue_warning()).collect()
    }

    fn slow_warning(&self) -> Option<String> {
        let least = self.least.filter(|least| *least > self.period)?;
        let [least, period] = [least, self.period].map(|time| format_seconds(time.as_secs_f64()));
        let rate = format_exact_rate(self.rate?);
        Some(format!(
            "a scrub at a rate of {rate} takes at least {least}, longer than its period of {period}: raise \
             rate or period in [scrub] of the coordinator's configuration"
        ))
    }

    fn overdue_warning(&self) -> Option<String> {
        let is_overdue = self.age > self.period.saturating_mul(PERIODS_MAX);
        let [age, period] = [self.age, self.period].map(|time| format_seconds(time.as_secs_f64()));
        is_overdue.then(|| {
            format!(
                "no scrub has come to its end for {age}, though every copy is to be read each \
                 {period}: `suture status` says how far the one that runs is, and what it waits for"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn watch(pass: PassRecord) -> ScrubWatch {
        let period = Duration::from_secs(7 * DAY);
        ScrubWatch::new(100 * DAY, Some(period), Some(32e6), pass)
    }

    #[test]
    fn a_pass_that_cannot_end_within_its_period_is_said_once_and_shown_for_as_long_as_that_is_so() {
        let mut watch = watch(PassRecord { ended: Some(100 * DAY), ..PassRecord::default() });
        // 32 MB/s are 19.35 TB in a week.
        let little = watch.times(100 * DAY, 19_350_000_000_000).unwrap();
        assert_eq!((watch.news(&little), little.warnings()), (vec![], vec![]));
        let much = watch.times(100 * DAY, 38_700_000_000_000).unwrap();
        let said = watch.news(&much);
        let expected = "a scrub at a rate of 32MB takes at least 14 d 00 h, longer than its period of \
                        7 d 00 h: raise rate or period";
        assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
        assert!(watch.news(&much).is_empty());
        assert_eq!(much.warnings(), said);
        assert!(watch.news(&little).is_empty());
        assert_eq!(watch.news(&much), said, "it is so again");
    }

    #[test]
    fn a_scrub_is_overdue_when_none_has_ended_for_two_periods() {
        let mut watch = watch(PassRecord { ended: Some(99 * DAY), ..PassRecord::default() });
        let warnings = |watch: &ScrubWatch, day: u64, second: u64| {
            watch.times(day * DAY + second, 0).unwrap().warnings()
        };
        assert!(warnings(&watch, 113, 0).is_empty());
        let overdue = warnings(&watch, 113, 1);
        assert!(
            overdue[0].starts_with("no scrub has come to its end for 14 d 00 h"),
            "{overdue:?}"
        );
        watch.note(113 * DAY, ScrubStep::Begun);
        assert_eq!(warnings(&watch, 113, 1), overdue, "one that begins is none");
        watch.note(114 * DAY, ScrubStep::Ended);
        assert!(warnings(&watch, 128, 0).is_empty());
        assert!(warnings(&watch, 50, 0).is_empty(), "the clock was set back");
    }

    #[test]
    fn where_none_has_ended_time_counts_from_the_beginning_of_one_or_of_the_coordinator() {
        let age = |pass: PassRecord| watch(pass).times(110 * DAY, 0).unwrap().age;
        assert_eq!(age(PassRecord::default()), Duration::from_secs(10 * DAY));
        let begun = PassRecord { begun: Some(90 * DAY), ..PassRecord::default() };
        assert_eq!(age(begun), Duration::from_secs(20 * DAY));
    }

    #[test]
    fn without_a_period_nothing_is_late_and_without_a_rate_nothing_is_slow() {
        assert_eq!(ScrubWatch::default().times(u64::MAX, u64::MAX), None);
        let times = |rate| {
            let period = Some(Duration::from_secs(1));
            let watch = ScrubWatch::new(0, period, rate, PassRecord::default());
            watch.times(0, u64::MAX).unwrap()
        };
        assert_eq!((times(None).least, times(None).warnings()), (None, vec![]));
        assert_eq!(times(Some(0.1)).warnings().len(), 1);
    }
}
