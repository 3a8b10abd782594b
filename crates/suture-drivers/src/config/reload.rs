//! What a configuration that is read anew changes in a daemon that runs.
//!
//! Place: beside the whole life of a repair: an operator edits the file and sends SIGHUP. What can
//! change does so at once; of the rest the daemon logs that it takes a restart.

use super::shown::ShownKey;

/// Keys that were read anew and are not as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// Those that hold from now on.
    pub live: Vec<String>,
    /// Those that hold after a restart.
    pub restart: Vec<String>,
}

impl ChangedKeys {
    /// What differs between a configuration that holds and one that was read, of the same daemon.
    pub fn between(
        running: &[ShownKey],
        read: &[ShownKey],
        is_live: impl Fn(&str) -> bool,
    ) -> ChangedKeys {
        let changed = running.iter().zip(read).filter(|(running, read)| running != read);
        let (live, restart) = changed.map(|(_, read)| read.path()).partition(|path| is_live(path));
        ChangedKeys { live, restart }
    }
}

/// Whether this key of coordinator.toml holds as soon as it is read.
pub fn is_live_in_coordinator(path: &str) -> bool {
    path.starts_with("throttle.") || path == "backup.every"
}

/// Whether this key of agent.toml holds as soon as it is read.
pub fn is_live_in_agent(path: &str) -> bool {
    path == "repair_cap"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AgentConfig, CoordinatorConfig};

    #[test]
    fn what_differs_holds_now_or_after_a_restart() {
        let running = CoordinatorConfig::default();
        let mut read = running.clone();
        let between = |read: &CoordinatorConfig| {
            ChangedKeys::between(&running.shown(), &read.shown(), is_live_in_coordinator)
        };
        assert_eq!(between(&read), ChangedKeys::default());
        read.throttle.cap = "20Mbit".into();
        read.backup.every = None;
        read.timers.dead *= 2;
        let changed = between(&read);
        assert_eq!(changed.live, ["throttle.cap", "backup.every"]);
        assert_eq!(changed.restart, ["timers.dead"]);
    }

    #[test]
    fn keys_that_are_live_are_keys() {
        let live = |keys: Vec<ShownKey>, is_live: fn(&str) -> bool| {
            keys.iter().filter(|key| is_live(&key.path())).count()
        };
        assert_eq!(live(CoordinatorConfig::default().shown(), is_live_in_coordinator), 9);
        assert_eq!(live(AgentConfig::default().shown(), is_live_in_agent), 1);
    }
}
