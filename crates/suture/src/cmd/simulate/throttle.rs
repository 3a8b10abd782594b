//! `--throttle LIMITS|off`: what repair may take of links beside applications.
//!
//! Place: beside `[slices flow]`: the coordinator in the simulator decides by it as a real one
//! does.

use std::str::FromStr;

use suture_drivers::config::throttle::{cap, floor, keep};
use suture_edge::units::format_link_rate;
use suture_repair::throttle::{Keep, ThrottleConfig};

/// What stays free of each link, in percent, where nothing else is said and applications share
/// them.
const KEEP_DEFAULT: u8 = 10;

/// The value of `--throttle`; none is off.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleArg(Option<ThrottleConfig>);

impl FromStr for ThrottleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ThrottleArg, String> {
        if text == "off" {
            return Ok(ThrottleArg(None));
        }
        let mut config = ThrottleConfig::default();
        for part in text.split(',') {
            let help = "write it like keep=30%, or cap=200Mbit,total=1Gbit,floor=10Mbit, or off";
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("'{part}' is not a limit: {help}"))?;
            match key {
                "cap" => config.node = Some(cap(value)?),
                "total" => config.total = Some(cap(value)?),
                "keep" => config.keep = Some(keep(value)?),
                "floor" => config.floor = floor(value)?,
                "p99" => return Err("p99: simulated links are not probed; use keep".into()),
                _ => return Err(format!("there is no limit '{key}': {help}")),
            }
        }
        Ok(ThrottleArg(Some(config)))
    }
}

/// What the coordinator is given; none: repair takes what it gets, and all share alike.
pub fn config(wanted: Option<ThrottleArg>, is_shared: bool) -> Option<ThrottleConfig> {
    match wanted {
        Some(ThrottleArg(config)) => config,
        None => is_shared.then(|| ThrottleConfig {
            keep: Some(Keep::Percent(KEEP_DEFAULT)),
            ..ThrottleConfig::default()
        }),
    }
}
/// What repair takes, for people.
pub fn described(throttle: &ThrottleConfig) -> String {
    let rate = |rate: u64| format_link_rate(rate as f64);
    let mut parts = Vec::new();
    let caps = [
        (throttle.node, "at each node in each direction"),
        (throttle.total, "at all nodes together"),
    ];
    for (cap, place) in caps {
        parts.extend(cap.map(|cap| format!("at most {} {place}", rate(cap))));
    }
    parts.extend(throttle.keep.map(|keep| match keep {
        Keep::Percent(part) => {
            format!("what applications leave of each link, but for {part} % of it")
        }
        Keep::Rate(kept) => format!("what applications leave of each link, but for {}", rate(kept)),
    }));
    if parts.is_empty() {
        parts.push("what links carry".into());
    }
    let floor = |floor| format!("at least {} while a stripe has no margin left", rate(floor));
    parts.extend(throttle.floor.map(floor));
    parts.join("; ")
}
