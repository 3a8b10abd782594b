//! How an agent measures what its links carry, as it is configured.
//!
//! Place: the first step of a daemon's start.

use serde::Deserialize;

use super::spelling::on_or_off;

/// The agent's table `[rates]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RatesConfig {
    /// Whether it asks peers for a few bytes now and then, and at rest for as many as links carry.
    #[serde(deserialize_with = "on_or_off")]
    pub probe: bool,
}

/// What an agent's links carry as it is configured, or as is assumed where it is not, in bytes per
/// second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedLinks {
    /// What the node sends, at most.
    pub uplink: f64,
    /// What the node receives, at most.
    pub downlink: f64,
}

impl Default for RatesConfig {
    fn default() -> RatesConfig {
        RatesConfig { probe: true }
    }
}
