//! Points in time as people read them, in UTC: `2026-11-20 18:30:17`.
//!
//! Place: listings. Log lines have the logger's own; the core has no clock at all.

/// A point in time, given in seconds since 1970, leap seconds not counted.
pub fn format_timestamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day counted from 1970-01-01: Hinnant's `civil_from_days`, in which
/// years begin in March so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_timestamps_read_as_they_should() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_795_199_417, "2026-11-20 18:30:17"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(format_timestamp(seconds), text);
        }
    }
}
