//! What an operator lets repair take, as people write it.
//!
//! Place: beside [slices flow]: from coordinator.toml and `suture repair throttle` to the machine,
//! which decides (`suture_repair::throttle`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use suture_edge::units::parse_rate;
use suture_repair::throttle::{Keep, ThrottleConfig};

use super::{parse_duration, span};
use crate::maintenance_window::{MaintenanceWindow, ThrottleIntent};

/// The least rate that is a limit, in bytes per second: less would stop slices for minutes.
const RATE_MIN: f64 = 1000.0;

/// The most: 100 Tbit/s.
const RATE_MAX: f64 = 12.5e12;

/// The coordinator's table `[throttle]`: what holds until an operator says otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThrottleSettings {
    /// What repair may move at each node in each direction.
    pub cap: String,
    /// What all nodes together may send for repairs.
    pub total: String,
    /// What stays free of each link beside what applications take: a part like 30%, or a rate.
    pub keep: String,
    /// What probes of agents may wait at the most.
    pub p99: String,
    /// What repair has at least while a stripe has no margin left.
    pub floor: String,
    /// When repairs run, as CRON;ZONE; empty: always.
    pub window: String,
    /// Caps of single nodes.
    pub nodes: BTreeMap<String, String>,
    /// Caps of single racks, by name.
    pub racks: BTreeMap<String, String>,
}

impl Default for ThrottleSettings {
    fn default() -> ThrottleSettings {
        let off = || "off".to_string();
        ThrottleSettings {
            cap: off(),
            total: off(),
            keep: off(),
            p99: off(),
            floor: "10%".to_string(),
            window: off(),
            nodes: BTreeMap::new(),
            racks: BTreeMap::new(),
        }
    }
}

impl ThrottleSettings {
    /// What that comes to.
    ///
    /// # Errors
    /// Names the key that has an impossible value.
    pub fn intent(&self) -> Result<ThrottleIntent, String> {
        let key = |key: &'static str| move |why: String| format!("throttle: {key}: {why}");
        let caps = |of: &'static str, all: &BTreeMap<String, String>| {
            let cap = |(name, rate): (&String, &String)| {
                let rate = cap(rate).map_err(|why| format!("throttle: {of}: {name}: {why}"))?;
                Ok((name.clone(), rate))
            };
            all.iter().map(cap).collect::<Result<BTreeMap<String, u64>, String>>()
        };
        Ok(ThrottleIntent {
            config: ThrottleConfig {
                node: or_off(&self.cap, cap).map_err(key("cap"))?,
                nodes: caps("nodes", &self.nodes)?,
                racks: caps("racks", &self.racks)?,
                total: or_off(&self.total, cap).map_err(key("total"))?,
                keep: or_off(&self.keep, keep).map_err(key("keep"))?,
                p99: or_off(&self.p99, p99).map_err(key("p99"))?.map(span),
                floor: floor(&self.floor).map_err(key("floor"))?,
            },
            window: or_off(&self.window, str::parse::<MaintenanceWindow>).map_err(key("window"))?,
        })
    }
}

/// A value, or none for `off`.
///
/// # Errors
/// Why the value cannot be.
pub fn or_off<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == "off" { Ok(None) } else { read(text).map(Some) }
}

/// A rate that can be a limit, in whole bytes per second.
///
/// # Errors
/// When the text is no rate, or no limit.
pub fn cap(text: &str) -> Result<u64, String> {
    let rate = parse_rate(text)?;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(rate as u64)
    } else {
        Err(format!("'{text}' is not a limit of repair: 8kbit to 100Tbit"))
    }
}

/// What is to stay free: a part of each link, or a rate.
///
/// # Errors
/// When the text is neither.
pub fn keep(text: &str) -> Result<Keep, String> {
    let Some(part) = text.strip_suffix('%') else {
        let rate = cap(text);
        return rate.map(Keep::Rate).map_err(|why| format!("{why} (or a part, like 30%)"));
    };
    let part = part.parse().ok().filter(|part| (1..100).contains(part));
    part.map(Keep::Percent).ok_or_else(|| format!("'{text}' is not a part of a link: 1% to 99%"))
}

/// How long probes may wait.
///
/// # Errors
/// When the text is no duration from a millisecond to a minute.
pub fn p99(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text)?;
    if wait <= Duration::from_secs(60) {
        Ok(wait)
    } else {
        Err(format!("'{text}' is longer than any probe waits: 1ms to 1min"))
    }
}

/// What repair has at least: a rate; a tenth of each link is none.
///
/// # Errors
/// When the text is neither.
pub fn floor(text: &str) -> Result<Option<u64>, String> {
    if text == "10%" {
        return Ok(None);
    }
    cap(text).map(Some).map_err(|why| format!("{why} (or 10%, of each link)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_people_write_it_and_errors_name_the_key() {
        let text = "cap = \"200Mbit\"\nkeep = \"30%\"\np99 = \"20ms\"\nfloor = \"10Mbit\"\n\
                    [nodes]\nn3 = \"50Mbit\"";
        let settings: ThrottleSettings = toml::from_str(text).unwrap();
        let intent = settings.intent().unwrap();
        let expected = "node 25000000 nodes [\"n3\" 6250000] keep 30% p99 0.02s floor 1250000";
        assert_eq!(intent.config, expected.parse().unwrap());
        assert_eq!(ThrottleSettings::default().intent(), Ok(ThrottleIntent::default()));
        for (text, word) in [
            ("cap = \"0\"", "cap"),
            ("keep = \"100%\"", "keep"),
            ("keep = \"many\"", "30%"),
            ("p99 = \"2min\"", "p99"),
            ("window = \"always\"", "window"),
            ("[racks]\nr1 = \"1bit\"", "r1"),
        ] {
            let settings: ThrottleSettings = toml::from_str(text).unwrap();
            let error = settings.intent().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
