//! What a configuration may say and is hardly meant: said by `suture config check`, and by a
//! coordinator of the agents that join it.
//!
//! Place: the first step of a daemon's start. Keys of the other daemon's configuration are not
//! known here; their default values are assumed.

use std::time::Duration;

use super::{AgentConfig, AgentTimers, CoordinatorConfig, CoordinatorTimers};

/// So many beats are to come in the time after which a silent node is not used: with fewer, one
/// that is late on a busy machine or network takes a node that is well out of use.
const BEATS_MIN: u32 = 3;

/// What to set where an agent that reports so often is near to being taken for silent; nothing
/// where it is not.
pub fn rare_beats(heartbeat: Duration, suspect: Duration) -> Option<String> {
    if heartbeat.saturating_mul(BEATS_MIN) <= suspect {
        return None;
    }
    // In whole milliseconds, as people write them.
    let beats = u128::from(BEATS_MIN);
    let (heartbeat_max, suspect_min) = (suspect.as_millis() / beats, heartbeat.as_millis() * beats);
    Some(format!(
        "set heartbeat in [timers] of the agent to at most {heartbeat_max}ms, or suspect in \
         [timers] of the coordinator to at least {suspect_min}ms"
    ))
}

impl CoordinatorConfig {
    /// What is hardly meant, in sentences.
    pub fn advice(&self) -> Vec<String> {
        let (heartbeat, suspect) = (AgentTimers::default().heartbeat, self.timers.suspect);
        let beats = rare_beats(heartbeat, suspect).map(|remedy| {
            format!(
                "agents report every {heartbeat:?} unless their configuration says otherwise, and \
                 count as silent after {suspect:?}: {remedy}"
            )
        });
        beats.into_iter().collect()
    }
}

impl AgentConfig {
    /// What is hardly meant, in sentences.
    pub fn advice(&self) -> Vec<String> {
        let (heartbeat, suspect) = (self.timers.heartbeat, CoordinatorTimers::default().suspect);
        let beats = rare_beats(heartbeat, suspect).map(|remedy| {
            format!(
                "this agent reports every {heartbeat:?}, and counts as silent after {suspect:?} \
                 unless the coordinator's configuration says otherwise: {remedy}"
            )
        });
        beats.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_beats_are_to_come_in_the_time_of_silence() {
        let [second, three] = [1, 3].map(Duration::from_secs);
        assert_eq!(rare_beats(second, three), None);
        let remedy = rare_beats(Duration::from_secs(10), three).unwrap();
        assert!(remedy.contains("at most 1000ms") && remedy.contains("at least 30000ms"));
        let rare = rare_beats(second, Duration::from_millis(2999)).unwrap();
        assert!(rare.contains("at most 999ms") && rare.contains("at least 3000ms"), "{rare}");
        assert!(rare_beats(Duration::MAX, three).is_some());
    }

    #[test]
    fn the_defaults_go_together_and_what_does_not_is_said() {
        assert!(CoordinatorConfig::default().advice().is_empty());
        assert!(AgentConfig::default().advice().is_empty());
        let mut coordinator = CoordinatorConfig::default();
        coordinator.timers.suspect = Duration::from_secs(2);
        let advice = coordinator.advice();
        assert!(advice[0].starts_with("agents report every 1s unless"), "{advice:?}");
        assert!(advice[0].contains("count as silent after 2s: set heartbeat"), "{advice:?}");
        let mut agent = AgentConfig::default();
        agent.timers.heartbeat = Duration::from_secs(4);
        let advice = agent.advice();
        assert!(advice[0].starts_with("this agent reports every 4s"), "{advice:?}");
        assert!(advice[0].ends_with("to at least 12000ms"), "{advice:?}");
    }
}
