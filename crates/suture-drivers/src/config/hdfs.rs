//! The tables `[hdfs]`: how a coordinator and an agent are joined to HDFS.
//!
//! Place: the first step of a daemon's start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use suture_edge::units::format_exact_duration;

use super::spelling::{address, duration};
use crate::hdfs::link::LinkSettings;

/// Longer ones keep HDFS from its own repairs after this coordinator is gone; the plugin takes
/// none.
const LEASE_MAX: Duration = Duration::from_secs(60);

/// A lease has to outlive some questions that are lost.
const POLLS_PER_LEASE: u32 = 3;

/// The coordinator's table `[hdfs]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsSettings {
    /// What it does for HDFS.
    pub mode: HdfsMode,
    /// Where the NameNodes' plugins connect.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// For how long HDFS leaves lost blocks alone each time that it is asked to.
    #[serde(deserialize_with = "duration")]
    pub lease: Duration,
    /// How often the NameNode is asked what is new.
    #[serde(deserialize_with = "duration")]
    pub poll: Duration,
}

/// What a coordinator does for HDFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HdfsMode {
    /// Nothing: it keeps objects of its own.
    #[default]
    Off,
    /// It shows what is at risk and what it would do; HDFS repairs.
    Observe,
    /// It repairs what HDFS has lost.
    Repair,
}

/// The agent's table `[hdfs]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsAgentSettings {
    /// The socket of the DataNode's plugin; none: the agent keeps chunks of its own.
    pub socket: Option<PathBuf>,
    /// The user that the DataNode runs as; the agent's own where there is none.
    pub user: Option<String>,
    /// The block pool, where the DataNode has several.
    pub pool: Option<String>,
}

impl HdfsSettings {
    /// # Errors
    /// Which of them makes no sense.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.lease > LEASE_MAX {
            let [most, lease] = [LEASE_MAX, self.lease].map(format_exact_duration);
            return Err(format!("hdfs: lease must be at most {most}, not {lease}"));
        }
        if self.poll * POLLS_PER_LEASE > self.lease {
            let [lease, poll] = [self.lease, self.poll].map(format_exact_duration);
            return Err(format!(
                "hdfs: lease must be at least {POLLS_PER_LEASE} times poll: {lease} is not, for {poll}"
            ));
        }
        Ok(())
    }

    /// As the thread wants them that asks the NameNode.
    pub fn link(&self) -> LinkSettings {
        LinkSettings { observes: self.mode != HdfsMode::Repair, lease: self.lease, poll: self.poll }
    }
}

impl Default for HdfsSettings {
    fn default() -> HdfsSettings {
        HdfsSettings {
            mode: HdfsMode::Off,
            listen: "127.0.0.1:7410".parse().expect("it is an address"),
            lease: Duration::from_secs(15),
            poll: Duration::from_secs(1),
        }
    }
}
