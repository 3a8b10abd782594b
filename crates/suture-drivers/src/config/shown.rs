//! A configuration written out, with every key: what a daemon would really use.
//!
//! Place: beside the first step of a daemon's start. What is written here, read again, means the
//! same; a test keeps that true, and that no key is left out.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use suture_edge::units::{
    format_exact_duration, format_exact_link_rate, format_exact_rate, format_exact_size,
};

use super::hdfs::HdfsMode;
use super::{AgentConfig, CoordinatorConfig};

/// One key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey {
    /// The table that it is in; empty for the first one.
    pub table: &'static str,
    /// What it is called there.
    pub key: &'static str,
    /// Its value; none where it is not set, and there is no value that means so.
    pub value: Option<ShownValue>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum ShownValue {
    /// Yes or no, without quotes.
    Flag(bool),
    /// A number, without quotes.
    Number(String),
    /// Everything else is text.
    Text(String),
    /// Values by the names that they are for.
    Named(BTreeMap<String, String>),
}

impl ShownKey {
    /// Its name with that of its table.
    pub fn path(&self) -> String {
        match self.table {
            "" => self.key.to_string(),
            table => format!("{table}.{}", self.key),
        }
    }
}

/// Writes them as a configuration; keys without a value as comments.
pub fn to_toml(keys: &[ShownKey]) -> String {
    let (mut text, mut table) = (String::new(), "");
    for shown in keys {
        if shown.table != table {
            table = shown.table;
            text += &format!("\n[{table}]\n");
        }
        let key = shown.key;
        text += &match &shown.value {
            None => format!("# {key} is not set\n"),
            Some(ShownValue::Flag(flag)) => format!("{key} = {flag}\n"),
            Some(ShownValue::Number(number)) => format!("{key} = {number}\n"),
            // The text of TOML has the escapes of JSON.
            Some(ShownValue::Text(value)) => format!("{key} = {}\n", serde_json::json!(value)),
            Some(ShownValue::Named(named)) => {
                let spell = |(name, value): (&String, &String)| {
                    format!("{} = {}", serde_json::json!(name), serde_json::json!(value))
                };
                let named: Vec<String> = named.iter().map(spell).collect();
                format!("{key} = {{ {} }}\n", named.join(", "))
            }
        };
    }
    text
}

/// Collects keys, table by table.
struct KeyList {
    table: &'static str,
    keys: Vec<ShownKey>,
}

impl KeyList {
    fn table(&mut self, table: &'static str) {
        self.table = table;
    }

    fn add(&mut self, key: &'static str, value: Option<ShownValue>) {
        self.keys.push(ShownKey { table: self.table, key, value });
    }

    fn text(&mut self, key: &'static str, value: impl Display) {
        self.add(key, Some(ShownValue::Text(value.to_string())));
    }

    fn some(&mut self, key: &'static str, value: Option<impl Display>) {
        self.add(key, value.map(|value| ShownValue::Text(value.to_string())));
    }

    fn number(&mut self, key: &'static str, value: Option<impl Display>) {
        self.add(key, value.map(|value| ShownValue::Number(value.to_string())));
    }

    fn path(&mut self, key: &'static str, value: Option<&Path>) {
        self.some(key, value.map(Path::display));
    }

    fn flag(&mut self, key: &'static str, value: bool) {
        self.add(key, Some(ShownValue::Flag(value)));
    }

    fn named(&mut self, key: &'static str, value: &BTreeMap<String, String>) {
        self.add(key, Some(ShownValue::Named(value.clone())));
    }

    fn duration(&mut self, key: &'static str, value: Duration) {
        self.text(key, format_exact_duration(value));
    }

    fn or_off(&mut self, key: &'static str, value: Option<String>) {
        self.text(key, value.unwrap_or_else(|| "off".into()));
    }
}

impl CoordinatorConfig {
    /// Every key with its value, in the order of the commented file.
    pub fn shown(&self) -> Vec<ShownKey> {
        let mut of = KeyList { table: "", keys: Vec::new() };
        of.text("listen", self.listen);
        of.path("data_dir", Some(&self.data_dir));
        of.path("credentials", self.credentials.as_deref());
        of.flag("insecure", self.insecure);
        of.path("audit", Some(&self.audit()));
        of.some("metrics", self.metrics);
        of.some("web", self.web);
        of.table("timers");
        of.duration("suspect", self.timers.suspect);
        of.duration("dead", self.timers.dead);
        of.duration("start_grace", self.timers.start_grace);
        of.duration("stall", self.timers.stall);
        of.duration("retry_first", self.timers.retry_first);
        of.duration("retry_max", self.timers.retry_max);
        of.table("repair");
        of.text("policy", self.repair.policy);
        of.or_off("rebalance_after", self.repair.rebalance_after.map(format_exact_duration));
        of.table("throttle");
        of.text("cap", &self.throttle.cap);
        of.text("total", &self.throttle.total);
        of.text("keep", &self.throttle.keep);
        of.text("p99", &self.throttle.p99);
        of.text("floor", &self.throttle.floor);
        of.text("window", &self.throttle.window);
        of.named("nodes", &self.throttle.nodes);
        of.named("racks", &self.throttle.racks);
        of.table("scrub");
        of.or_off("period", self.scrub.period.map(format_exact_duration));
        of.or_off("rate", self.scrub.rate.map(format_exact_rate));
        of.table("backup");
        of.or_off("every", self.backup.every.map(format_exact_duration));
        of.table("hdfs");
        of.text(
            "mode",
            match self.hdfs.mode {
                HdfsMode::Off => "off",
                HdfsMode::Observe => "observe",
                HdfsMode::Repair => "repair",
            },
        );
        of.text("listen", self.hdfs.listen);
        of.duration("lease", self.hdfs.lease);
        of.duration("poll", self.hdfs.poll);
        of.keys
    }
}

impl AgentConfig {
    /// Every key with its value, in the order of the commented file.
    pub fn shown(&self) -> Vec<ShownKey> {
        let mut of = KeyList { table: "", keys: Vec::new() };
        of.text("name", self.name());
        of.some("rack", self.rack.as_ref());
        of.text("coordinator", &self.coordinator);
        of.text("listen", self.listen);
        of.some("advertise", self.advertise);
        of.path("data_dir", Some(&self.data_dir));
        of.some("keep_free", self.keep_free.map(format_exact_size));
        of.text("memory", format_exact_size(self.memory));
        of.number("threads", self.threads);
        of.number("cores", self.cores);
        of.some("uplink", self.uplink.map(format_exact_link_rate));
        of.some("downlink", self.downlink.map(format_exact_link_rate));
        of.some("repair_cap", self.repair_cap.map(format_exact_link_rate));
        of.path("credentials", self.credentials.as_deref());
        of.flag("insecure", self.insecure);
        of.some("metrics", self.metrics);
        of.or_off("repair_dscp", self.repair_dscp.map(|dscp| dscp.to_string()));
        of.table("rates");
        of.text("probe", if self.rates.probe { "on" } else { "off" });
        of.table("timers");
        of.duration("heartbeat", self.timers.heartbeat);
        of.duration("stall", self.timers.stall);
        of.duration("inventory", self.timers.inventory);
        of.duration("disk_hangs", self.timers.disk_hangs);
        of.table("hdfs");
        of.path("socket", self.hdfs.socket.as_deref());
        of.some("user", self.hdfs.user.as_ref());
        of.some("pool", self.hdfs.pool.as_ref());
        of.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::throttle::ThrottleSettings;

    /// The keys of a commented file, those that are commented out too, with their tables.
    fn keys_of(file: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let (mut table, mut keys) = (String::new(), Vec::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                table = name.trim_end_matches(']').to_string() + ".";
            }
            let line = line.strip_prefix("# ").unwrap_or(line);
            let Some((key, _)) = line.split_once(" = ") else { continue };
            if key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
                keys.push(table.clone() + key);
            }
        }
        keys
    }

    #[test]
    fn every_key_is_shown_and_means_the_same_when_it_is_read_again() {
        let coordinator = CoordinatorConfig {
            metrics: Some("127.0.0.1:9".parse().unwrap()),
            audit: Some("/a \"b\"".into()),
            throttle: ThrottleSettings {
                nodes: [("n \"3\"".into(), "50Mbit".into())].into(),
                ..ThrottleSettings::default()
            },
            ..CoordinatorConfig::default()
        };
        let read: CoordinatorConfig = toml::from_str(&to_toml(&coordinator.shown())).unwrap();
        assert_eq!(read, coordinator);
        let agent = AgentConfig {
            name: Some("n1".into()),
            keep_free: Some(12345),
            threads: Some(3),
            cores: Some(0.5),
            uplink: Some(1_234_567.0),
            ..AgentConfig::default()
        };
        let read: AgentConfig = toml::from_str(&to_toml(&agent.shown())).unwrap();
        assert_eq!(read, agent);
        let paths = |keys: Vec<ShownKey>| keys.iter().map(ShownKey::path).collect::<Vec<_>>();
        assert_eq!(paths(coordinator.shown()), keys_of("coordinator.toml"));
        assert_eq!(paths(agent.shown()), keys_of("agent.toml"));
    }
}
