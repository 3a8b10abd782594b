//! How values are spelt in configurations.
//!
//! Place: the first step of a daemon's start.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use suture_edge::error::quoted;
use suture_edge::units::{parse_nonzero_size, parse_rate, parse_size};
use suture_repair::policy::Policy;

/// Reads a duration such as `500ms`, `30s`, `10min`, `2h`, `7d`, `4w`.
///
/// # Errors
/// When the text is no duration above zero, or has no unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let help =
        || format!("'{text}' is not a duration: write it like 500ms, 30s, 10min, 2h, 7d or 4w");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(help)?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 24 * 3_600_000,
        "w" => 7 * 24 * 3_600_000,
        _ => return Err(help()),
    };
    let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ms)).ok_or_else(help)?;
    if ms == 0 {
        return Err(format!("'{text}' is too small: it must be above zero"));
    }
    Ok(Duration::from_millis(ms))
}

/// A time above zero, by [`parse_duration`].
///
/// # Errors
/// When the text is none.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A time above zero, or none for `off`.
///
/// # Errors
/// When the text is none.
pub fn duration_or_off<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(None),
        text => parse_duration(text).map(Some).map_err(D::Error::custom),
    }
}

/// Bytes per second, or none for `off`.
///
/// # Errors
/// When the text is none.
pub fn rate_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(None),
        text => parse_rate(text).map(Some).map_err(D::Error::custom),
    }
}

/// `on` or `off`.
///
/// # Errors
/// When the text is neither.
pub fn on_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        text => Err(D::Error::custom(format!("{} is neither \"on\" nor \"off\"", quoted(text)))),
    }
}

/// A mark of packets (DSCP) by name or number, or none for `off`.
///
/// # Errors
/// When the text is none.
pub fn dscp_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(None),
        "le" => Ok(Some(1)),
        "cs1" => Ok(Some(8)),
        text => match text.parse().ok().filter(|dscp| *dscp < 64) {
            Some(dscp) => Ok(Some(dscp)),
            None => Err(D::Error::custom(format!(
                "{} is not a packet mark: \"cs1\", \"le\", \"0\" to \"63\", or \"off\"",
                quoted(text)
            ))),
        },
    }
}

/// Bytes, above zero.
///
/// # Errors
/// When the text is none.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_nonzero_size(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A number of bytes, which may be zero.
///
/// # Errors
/// When the text is no size.
pub fn size_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let size = parse_size(&String::deserialize(deserializer)?);
    size.map(Some).map_err(D::Error::custom)
}

/// Bytes per second, above zero.
///
/// # Errors
/// When the text is none.
pub fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let rate = parse_rate(&String::deserialize(deserializer)?);
    rate.map(Some).map_err(D::Error::custom)
}

/// An IP address and a port.
///
/// # Errors
/// When the text is none.
pub fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "{} is not an IP address (not a name) and a port, like 127.0.0.1:7401",
            quoted(&text)
        ))
    })
}

/// The same where there may be none.
///
/// # Errors
/// When the text is none.
pub fn some_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

/// How repairs are planned: a preset, or all parts of one.
///
/// # Errors
/// When the text is none.
pub fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let policy: Policy = String::deserialize(deserializer)?.parse().map_err(D::Error::custom)?;
    policy.runnable().map_err(D::Error::custom)?;
    Ok(policy)
}
