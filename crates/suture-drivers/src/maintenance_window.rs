//! When repairs may run: the minutes that a cron expression names, in a time zone.
//!
//! Place: beside [queue -> plan -> admit]: the core is given only until when a window is closed.
//! `* 22-23,0-5 * * *;Europe/Berlin` is open from ten at night to six in the morning; without a
//! zone it is UTC. What has no margin left is repaired at any time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use suture_repair::throttle::ThrottleConfig;

/// A window that opens more rarely than this never does.
const OPENS_WITHIN: Duration = Duration::from_secs(366 * 24 * 3600);

/// What is wanted of repairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThrottleIntent {
    /// What they may take.
    pub config: ThrottleConfig,
    /// When they run; none: always.
    pub window: Option<MaintenanceWindow>,
}

/// The minutes in which repairs run.
#[derive(Clone, Debug)]
pub struct MaintenanceWindow {
    /// As it was written.
    text: String,
    cron: Cron,
    zone: TimeZone,
}

impl PartialEq for MaintenanceWindow {
    fn eq(&self, other: &MaintenanceWindow) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for MaintenanceWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<MaintenanceWindow, String> {
        let help = "write it like '* 22-23,0-5 * * *;Europe/Berlin': minute, hour, day of the month, \
                    month and day of the week, and a time zone";
        let (expression, zone) = text.split_once(';').unwrap_or((text, "UTC"));
        if expression.split_whitespace().count() != 5 {
            return Err(format!("'{text}' is not a window of five fields: {help}"));
        }
        // The library takes an empty list, and looks for its next minute for thousands of years.
        if expression.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
            return Err(format!("'{text}' is not a window: a part of a list is empty; {help}"));
        }
        let cron = expression.trim().parse::<Cron>();
        let cron = cron.map_err(|why| format!("'{text}' is not a window: {why}; {help}"))?;
        let zone = TimeZone::get(zone.trim())
            .map_err(|_| format!("there is no time zone '{}': {help}", zone.trim()))?;
        let window = MaintenanceWindow { text: text.to_string(), cron, zone };
        match window.opens_at(Timestamp::now()) {
            Some(_) => Ok(window),
            None => Err(format!("the window '{text}' never opens: {help}")),
        }
    }
}

impl MaintenanceWindow {
    /// How long it stays closed from now on; none while it is open.
    pub fn closed_for(&self) -> Option<Duration> {
        self.closed_at(Timestamp::now())
    }

    fn closed_at(&self, now: Timestamp) -> Option<Duration> {
        if self.cron.is_time_matching(&self.minute(now)).unwrap_or(true) {
            return None;
        }
        // One that opens no more within that stays closed, and is looked at again.
        let opens = self.opens_at(now);
        let closed = opens.and_then(|opens| Duration::try_from(opens.duration_since(now)).ok());
        Some(closed.unwrap_or(OPENS_WITHIN))
    }

    /// The next moment that the window names. What finds it moves a time of the day that a change
    /// of the clocks skips behind that change, where the window is closed.
    fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let mut from = self.minute(now);
        loop {
            let next = self.cron.find_next_occurrence(&from, true).ok()?;
            let within = Duration::try_from(next.timestamp().duration_since(now));
            if within.is_ok_and(|within| within > OPENS_WITHIN) {
                return None;
            }
            if self.cron.is_time_matching(&next).unwrap_or(false) {
                return Some(next.timestamp());
            }
            from = next.checked_add(Duration::from_secs(60)).ok()?;
        }
    }

    fn minute(&self, now: Timestamp) -> Zoned {
        let now = now.to_zoned(self.zone.clone());
        now.with().second(0).subsec_nanosecond(0).build().unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_for(window: &str, at: &str) -> Option<u64> {
        let window: MaintenanceWindow = window.parse().unwrap();
        window.closed_at(at.parse().unwrap()).map(|span| span.as_secs())
    }

    #[test]
    fn a_window_is_open_in_the_minutes_that_it_names_where_it_is() {
        let night = "* 22-23,0-5 * * *;Europe/Berlin";
        // Ten at night in Berlin is eight in summer and nine in winter.
        assert_eq!(closed_for(night, "2026-07-01T20:00:00Z"), None);
        assert_eq!(closed_for(night, "2026-07-01T19:59:30Z"), Some(30));
        assert_eq!(closed_for(night, "2026-01-01T20:59:00Z"), Some(60));
        assert_eq!(closed_for(night, "2026-07-02T03:59:59Z"), None);
        assert_eq!(closed_for(night, "2026-07-02T04:00:00Z"), Some(16 * 3600));
    }

    #[test]
    fn a_window_in_an_hour_that_a_change_of_the_clocks_skips_is_closed_that_night() {
        // On 29 March 2026 it is three in Berlin after one hour and 59 minutes.
        let two = "0-59 2 * * *;Europe/Berlin";
        let opens = |at: &str| {
            let now: Timestamp = at.parse().unwrap();
            let closed = closed_for(two, at)?;
            Some((now + Duration::from_secs(closed)).to_string())
        };
        assert_eq!(opens("2026-03-28T01:30:00Z"), None, "half past two");
        let next = Some("2026-03-30T00:00:00Z".to_string());
        for at in ["2026-03-28T02:30:00Z", "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"] {
            assert_eq!(opens(at), next, "{at}");
        }
    }

    #[test]
    fn without_a_zone_it_is_utc_and_days_of_the_week_count() {
        let weekend = "* * * * sat,sun";
        assert_eq!(closed_for(weekend, "2026-11-28T00:00:00Z"), None);
        assert_eq!(closed_for(weekend, "2026-11-27T23:00:00Z"), Some(3600));
    }

    #[test]
    fn what_is_no_window_is_refused_with_what_one_looks_like() {
        for (text, word) in [
            ("", "five fields"),
            ("* * * *", "five fields"),
            ("99 * * * *", "Europe/Berlin"),
            ("* * * * *;Mars/Olympus", "Mars/Olympus"),
            ("* * 31 2 *", "never opens"),
            (", * * * *", "a part of a list is empty"),
            ("* 1,,2 * * *", "a part of a list is empty"),
        ] {
            let error = text.parse::<MaintenanceWindow>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
