//! Sizes, rates and times as people write them: `64MiB`, `4096B`; `200Mbit` (bits) or `25MB`
//! (bytes) a second; `30s`, `12h`, `10y`.
//!
//! Place: the edge, where text becomes numbers and numbers become text again. Parsers are shaped
//! for clap's `value_parser`; inside, a size is a `u64` of bytes and a rate an `f64` of bytes a
//! second.
//!
//! A factor of eight hides in one letter, so nothing is guessed: a bare number is a size in bytes
//! (there is no other reading), but never a rate; `Mb` and `M` are refused rather than interpreted.
//! Sizes are exact: a fraction is fine when it comes to whole bytes (`1.5KiB`), refused otherwise.
//!
//! What people read has one rule: three significant digits, a space, the unit; nothing is `0`.
//! Sizes and how fast data moves have units of 1024, so that the one over the other is the time;
//! links have bits and units of 1000, as they are sold and configured. Durations have two units
//! from a minute on; what is only estimated has one. What is typed again has a form of its own,
//! without the space and exact: `format_exact_*`.

use std::time::Duration;

/// Units of sizes and of byte rates. Case matters, but for the `k` that people write either way.
const BYTE_UNITS: [(&str, u64); 15] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("", 1),
    ("PiB", 1 << 50),
    ("EiB", 1 << 60),
    ("PB", 1_000_000_000_000_000),
    ("EB", 1_000_000_000_000_000_000),
];

/// Units of bit rates.
const BIT_UNITS: [(&str, u64); 6] = [
    ("bit", 1),
    ("kbit", 1_000),
    ("Kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
];

/// The highest rate, in bytes a second: what a typing error exceeds, and no link.
const RATE_MAX: f64 = 1e18;

/// Units of times, in seconds. A year is one of 365.25 days.
const TIME_UNITS: [(&str, f64); 6] =
    [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0), ("y", 31_557_600.0)];

/// Units of what people read, each 1024 times the one before.
const SIZES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Units of links for people, each 1000 times the one before.
const LINK_RATES: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/// Units of durations as they are typed, longest first, in milliseconds.
const DURATIONS: [(&str, u128); 6] = [
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Reads a size such as `64MiB`, `4096B` or `4096` as bytes.
///
/// # Errors
/// When the text is no size, or one of no whole number of bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let help = || format!("'{text}' is not a size: write it like 64MiB, 1.5GB or 4096B");
    let (number, unit) = split_unit(text).ok_or_else(help)?;
    let scale = lookup(&BYTE_UNITS, unit).ok_or_else(help)?;
    let Decimal { digits, fraction_digits } = parse_decimal(number).ok_or_else(help)?;
    let scaled = digits.checked_mul(u128::from(scale)).ok_or_else(help)?;
    let divisor = 10u128.pow(fraction_digits);
    if scaled % divisor != 0 {
        return Err(format!("'{text}' is not a whole number of bytes"));
    }
    u64::try_from(scaled / divisor)
        .map_err(|_| format!("'{text}' is too large: it must be below 16EiB"))
}

/// Reads a size that must not be zero: a chunk, a unit, a buffer.
///
/// # Errors
/// As [`parse_size`], and when it is zero.
pub fn parse_nonzero_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err(format!("'{text}' is too small: it must be at least 1B")),
        size => Ok(size),
    }
}

/// Reads a rate such as `200Mbit` (bits) or `25MB` (bytes), each per second, as bytes a second.
///
/// # Errors
/// When the text is no rate above zero, or does not say bits or bytes.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let help = || {
        format!(
            "'{text}' is not a rate: write it like 200Mbit or 1Gbit (bits per second), or 25MB (bytes per second)"
        )
    };
    let (number, unit) = split_unit(text.strip_suffix("/s").unwrap_or(text)).ok_or_else(help)?;
    if unit.is_empty() {
        return Err(help());
    }
    let bytes_per_unit = match lookup(&BIT_UNITS, unit) {
        Some(bits) => bits as f64 / 8.0,
        None => lookup(&BYTE_UNITS, unit).ok_or_else(help)? as f64,
    };
    let Decimal { digits, fraction_digits } = parse_decimal(number).ok_or_else(help)?;
    let rate = digits as f64 / 10f64.powi(fraction_digits as i32) * bytes_per_unit;
    match rate {
        rate if rate > RATE_MAX => Err(format!("'{text}' is too large: rates go up to 1EB")),
        rate if rate > 0.0 => Ok(rate),
        _ => Err(format!("'{text}' is too small: it must be above zero")),
    }
}

/// Reads a time above zero, from milliseconds to years, such as `30s`, `90min`, `12h`, `3d`, `10y`,
/// as seconds.
///
/// # Errors
/// When the text is no time above zero, or has no unit.
pub fn parse_time(text: &str) -> Result<f64, String> {
    let help = || format!("'{text}' is not a time: write it like 30s, 90min, 12h, 3d or 10y");
    let (number, unit) = split_unit(text).ok_or_else(help)?;
    let known = TIME_UNITS.iter().find(|(name, _)| *name == unit);
    let &(_, scale) = known.ok_or_else(help)?;
    let Decimal { digits, fraction_digits } = parse_decimal(number).ok_or_else(help)?;
    match digits as f64 / 10f64.powi(fraction_digits as i32) * scale {
        seconds if seconds > 0.0 => Ok(seconds),
        _ => Err(format!("'{text}' is not a time to work with: it must be above zero")),
    }
}

/// A time for people that may be years: `4.56 s`, `2 h 05 min`, `3.5 days`, `12 years`,
/// `6.12e9 years`.
pub fn format_long(seconds: f64) -> String {
    let (days, years) = (seconds / 86400.0, seconds / 31_557_600.0);
    let counted = |count: f64, unit: &str| {
        let digits = three_digits(count);
        let digits = if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.')
        } else {
            &digits
        };
        format!("{digits} {unit}{}", if digits == "1" { "" } else { "s" })
    };
    if days < 1.0 {
        format_seconds(seconds)
    } else if years < 1.0 {
        counted(days, "day")
    } else if years < 99_999.5 {
        counted(years, "year")
    } else {
        format!("{years:.2e} years")
    }
}

/// A chance for people: in percent, or as a power of ten where that would be mostly zeros.
pub fn format_chance(chance: f64) -> String {
    if chance == 0.0 {
        "0".to_string()
    } else if chance < 1e-4 {
        format!("{chance:.2e}")
    } else if chance < 0.01 {
        format!("{:.3} %", chance * 100.0)
    } else {
        format!("{} %", three_digits(chance * 100.0))
    }
}

/// `1 stripe`, `7 stripes`.
pub fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A size for people: `64.0 MiB`, `1.50 GiB`, `517 B`.
pub fn format_size(bytes: u64) -> String {
    if bytes < 1000 { format!("{bytes} B") } else { scaled(bytes as f64, 1024.0, &SIZES) }
}

/// How fast data moves, for people: `23.8 MiB/s`.
pub fn format_rate(bytes_per_sec: f64) -> String {
    format!("{}/s", scaled(bytes_per_sec, 1024.0, &SIZES))
}

/// A rate of a link for people, in bits: `200 Mbit/s`.
pub fn format_link_rate(bytes_per_sec: f64) -> String {
    scaled(bytes_per_sec * 8.0, 1000.0, &LINK_RATES)
}

/// A percentage for people: `12.5 %`, `99.7 %`, `133 %`, `0 %`.
pub fn format_percent(percent: f64) -> String {
    format!("{} %", three_digits(percent))
}

/// A duration for people: `740 us`, `12.3 ms`, `4.56 s`, `1 min 05 s`, `2 h 05 min`, `28 d 00 h`,
/// `0 s`.
pub fn format_seconds(seconds: f64) -> String {
    if seconds < 5e-9 {
        "0 s".to_string()
    } else if seconds < 0.000_999_5 {
        format!("{} us", three_digits(seconds * 1e6))
    } else if seconds < 0.999_5 {
        format!("{} ms", three_digits(seconds * 1e3))
    } else if seconds < 59.95 {
        format!("{} s", three_digits(seconds))
    } else if seconds < 3599.5 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else if seconds < 86_370.0 {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    } else {
        let hours = (seconds / 3600.0).round() as u64;
        format!("{} d {:02} h", hours / 24, hours % 24)
    }
}

/// An estimated duration, with as many digits as mean something: `40 s`, `12 min`, `3 h`, `5 days`;
/// never nothing.
pub fn format_estimate(seconds: f64) -> String {
    let (value, unit) = match seconds {
        seconds if seconds < 90.0 => (seconds.max(1.0), "s"),
        seconds if seconds < 90.0 * 60.0 => (seconds / 60.0, "min"),
        seconds if seconds < 48.0 * 3600.0 => (seconds / 3600.0, "h"),
        seconds => (seconds / 86_400.0, "days"),
    };
    format!("{value:.0} {unit}")
}

/// A size that reads back as exactly itself: `64MiB`, `4097B`.
pub fn format_exact_size(bytes: u64) -> String {
    let whole = |&&(_, scale): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(scale);
    match BYTE_UNITS[..5].iter().rev().find(whole) {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => format!("{bytes}B"),
    }
}

/// A rate that reads back as exactly itself, in bytes a second: `32MB`.
pub fn format_exact_rate(bytes_per_sec: f64) -> String {
    exact(bytes_per_sec, [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)], "B")
}

/// A rate of a link that reads back as exactly itself, in bits a second: `200Mbit`.
pub fn format_exact_link_rate(bytes_per_sec: f64) -> String {
    let units = [("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)];
    exact(bytes_per_sec * 8.0, units, "bit")
}

/// A duration of whole milliseconds that reads back as exactly itself: `500ms`, `90s`, `1min`.
pub fn format_exact_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match DURATIONS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => "0s".to_string(),
    }
}

/// A decimal number kept exact: `digits / 10^fraction_digits`.
struct Decimal {
    digits: u128,
    fraction_digits: u32,
}

fn split_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then(|| (number, unit.trim_start()))
}

fn lookup(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

/// At most 18 digits, so that every product with a unit fits in a `u128`.
fn parse_decimal(number: &str) -> Option<Decimal> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let dangling = whole.is_empty() || (fraction.is_empty() && number.contains('.'));
    let joined = format!("{whole}{fraction}");
    if dangling || fraction.contains('.') || fraction.len() > 18 || joined.len() > 20 {
        return None;
    }
    Some(Decimal { digits: joined.parse().ok()?, fraction_digits: fraction.len() as u32 })
}

/// A value in the unit in which it has at most three digits before its point.
fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut index = 0;
    // 1000 KiB would read as four digits: move on before that.
    while value >= 999.5 && index + 1 < units.len() {
        value /= step;
        index += 1;
    }
    format!("{} {}", three_digits(value), units[index])
}

/// A value in the largest unit of which it is a whole number.
fn exact(value: f64, units: [(&str, f64); 4], smallest: &str) -> String {
    match units.iter().find(|(_, scale)| value > 0.0 && value % scale == 0.0) {
        Some((unit, scale)) => format!("{}{unit}", value / scale),
        None => format!("{value}{smallest}"),
    }
}

fn three_digits(value: f64) -> String {
    if value < 0.005 {
        "0".to_string()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_bytes() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("4096B", 4096),
            ("4096", 4096),
            ("1.5KiB", 1536),
            ("25MB", 25_000_000),
            ("2 GiB", 2 << 30),
            ("1kB", 1000),
            ("1KB", 1000),
            ("3TB", 3_000_000_000_000),
            ("0", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_that_could_mean_two_things_are_refused_by_name() {
        for text in [
            "", "MiB", "64M", "64Mb", "64mib", "-1B", "1..5KiB", "1.KiB", ".5KiB", "1e3", "64MiB!",
            "0x10",
        ] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("64MiB"), "{error}");
        }
        assert!(parse_size("1.3B").unwrap_err().contains("whole number"));
        assert!(parse_size("18446744073709551616").unwrap_err().contains("too large"));
        assert!(parse_size("99999999TiB").unwrap_err().contains("too large"));
        assert!(parse_nonzero_size("0B").unwrap_err().contains("at least 1B"));
    }

    #[test]
    fn rates_read_as_bytes_a_second() {
        for (text, rate) in [
            ("200Mbit", 25e6),
            ("1Gbit", 125e6),
            ("25MB", 25e6),
            ("25MB/s", 25e6),
            ("1MiB", 1048576.0),
            ("0.5Gbit", 62.5e6),
            ("8bit", 1.0),
            ("100 kbit", 12500.0),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
    }

    #[test]
    fn a_rate_without_a_unit_is_refused() {
        for text in ["200", "200M", "200Mb", "200mbps", "", "fast"] {
            let error = parse_rate(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("200Mbit"), "{error}");
        }
        assert!(parse_rate("0Mbit").unwrap_err().contains("above zero"));
    }

    #[test]
    fn times_read_as_seconds_and_need_a_unit() {
        for (text, seconds) in
            [("30s", 30.0), ("1.5h", 5400.0), ("3d", 259_200.0), ("10y", 315_576_000.0)]
        {
            assert_eq!(parse_time(text), Ok(seconds), "{text}");
        }
        for text in ["10", "", "y", "10 years", "-1h", "1e3s", "5m"] {
            let error = parse_time(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("12h"), "{error}");
        }
        assert!(parse_time("0y").unwrap_err().contains("above zero"));
        assert_eq!(format_long(4.561), "4.56 s");
        assert_eq!(format_long(86400.0 * 3.5), "3.5 days");
        assert_eq!(format_long(31_557_600.0), "1 year");
        assert_eq!(format_long(31_557_600.0 * 12.0), "12 years");
        assert_eq!(format_long(31_557_600.0 * 6.123e9), "6.12e9 years");
        for (chance, text) in
            [(0.0, "0"), (1.23e-9, "1.23e-9"), (0.00123, "0.123 %"), (0.0714, "7.14 %")]
        {
            assert_eq!(format_chance(chance), text);
        }
    }

    /// What each formatter makes of numbers at which its rule changes.
    #[test]
    fn people_read_three_digits_a_space_and_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (517, "517 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (3000, "2.93 KiB"),
            (1023 << 10, "1.00 MiB"),
            (8 << 20, "8.00 MiB"),
            (64 << 20, "64.0 MiB"),
            (3 << 29, "1.50 GiB"),
            (700 << 30, "700 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
        for (rate, data, link) in [
            (0.0, "0 B/s", "0 bit/s"),
            (125.0, "125 B/s", "1.00 kbit/s"),
            (1_048_576.0, "1.00 MiB/s", "8.39 Mbit/s"),
            (25e6, "23.8 MiB/s", "200 Mbit/s"),
            (125e6, "119 MiB/s", "1.00 Gbit/s"),
            (12.5e12, "11.4 TiB/s", "100 Tbit/s"),
        ] {
            assert_eq!((&*format_rate(rate), &*format_link_rate(rate)), (data, link));
        }
        for (percent, text) in [
            (0.0, "0 %"),
            (0.004, "0 %"),
            (0.05, "0.05 %"),
            (3.421, "3.42 %"),
            (25.0, "25.0 %"),
            (99.94, "99.9 %"),
            (99.96, "100 %"),
            (133.4, "133 %"),
        ] {
            assert_eq!(format_percent(percent), text);
        }
    }

    #[test]
    fn durations_have_two_units_from_a_minute_on_and_estimates_one() {
        for (seconds, text, estimate) in [
            (0.0, "0 s", "1 s"),
            (1e-12, "0 s", "1 s"),
            (0.000_74, "740 us", "1 s"),
            (0.0123, "12.3 ms", "1 s"),
            (0.999_6, "1.00 s", "1 s"),
            (4.561, "4.56 s", "5 s"),
            (59.94, "59.9 s", "60 s"),
            (59.96, "1 min 00 s", "60 s"),
            (65.2, "1 min 05 s", "65 s"),
            (200.2, "3 min 20 s", "3 min"),
            (3599.4, "59 min 59 s", "60 min"),
            (3599.6, "1 h 00 min", "60 min"),
            (7500.0, "2 h 05 min", "2 h"),
            (86_369.0, "23 h 59 min", "24 h"),
            (86_370.0, "1 d 00 h", "24 h"),
            (28.0 * 86400.0, "28 d 00 h", "28 days"),
        ] {
            assert_eq!((&*format_seconds(seconds), &*format_estimate(seconds)), (text, estimate));
        }
    }

    #[test]
    fn what_is_exact_reads_back_as_itself() {
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (4097, "4097B"),
            (4096, "4KiB"),
            (64 << 20, "64MiB"),
            (3 << 40, "3TiB"),
        ] {
            assert_eq!(format_exact_size(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
        for (rate, data, link) in [
            (0.125, "0.125B", "1bit"),
            (1000.0, "1kB", "8kbit"),
            (32e6, "32MB", "256Mbit"),
            (12.5e6, "12500kB", "100Mbit"),
            (125e6, "125MB", "1Gbit"),
            (1_234_567.0, "1234567B", "9876536bit"),
            (12.5e12, "12500GB", "100Tbit"),
        ] {
            assert_eq!((&*format_exact_rate(rate), &*format_exact_link_rate(rate)), (data, link));
            assert_eq!((parse_rate(data), parse_rate(link)), (Ok(rate), Ok(rate)));
        }
        for (ms, text) in [
            (0, "0s"),
            (500, "500ms"),
            (90_000, "90s"),
            (60_000, "1min"),
            (86_400_000, "1d"),
            (28 * 86_400_000, "4w"),
        ] {
            assert_eq!(format_exact_duration(Duration::from_millis(ms)), text);
        }
    }
}
