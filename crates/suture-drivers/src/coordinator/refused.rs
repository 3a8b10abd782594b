//! Agents that were refused: otherwise only their own logs would show it.
//!
//! Place: [failure detected] -> ...: a node whose agent is not let in is silent, and its operator
//! looks at `status` first. Any holder of an agent certificate can enter the list, so it is bounded
//! and entries expire.

use std::collections::BTreeMap;
use std::time::Duration;

use suture_repair::wire::ClusterId;
use tokio::time::Instant;

/// So many are kept: the last ones.
const KEPT: usize = 64;

/// For how long. An agent that tries again does so every few seconds; one that has ended is looked
/// for by an operator who was alerted.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// An agent that was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAgent {
    /// The name that it gave.
    pub name: String,
    /// The cluster that its chunks are of, where that is another one.
    pub cluster: Option<ClusterId>,
    /// Why it was refused.
    pub why: String,
    /// How long ago that was, when it is asked for: one that tries on is refused again and again.
    pub ago: Duration,
}

/// The agents that were refused of late and not let in since.
#[derive(Debug, Default)]
pub struct RefusedAgents(BTreeMap<String, (Instant, RefusedAgent)>);

impl RefusedAgents {
    /// An agent was refused now.
    pub fn note(&mut self, now: Instant, agent: RefusedAgent) {
        self.0.insert(agent.name.clone(), (now, agent));
        if self.0.len() > KEPT {
            let oldest = self.0.iter().min_by_key(|(_, (at, _))| *at);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.into_iter().for_each(|name| drop(self.0.remove(&name)));
        }
    }

    /// It was let in.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Those that were refused of late, by name.
    pub fn of_late(&self, now: Instant) -> Vec<RefusedAgent> {
        let aged = self.0.values().map(|(at, agent)| {
            let ago = now.saturating_duration_since(*at);
            RefusedAgent { ago, ..agent.clone() }
        });
        aged.filter(|agent| agent.ago < KEPT_FOR).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: String) -> RefusedAgent {
        RefusedAgent { name, cluster: None, why: "of another protocol".into(), ago: Duration::ZERO }
    }

    #[test]
    fn agents_are_kept_until_they_are_let_in_or_it_was_long_ago() {
        let (mut agents, now) = (RefusedAgents::default(), Instant::now());
        ["n1", "n2"].into_iter().for_each(|name| agents.note(now, refused(name.into())));
        agents.note(now + Duration::from_secs(300), refused("n3".into()));
        agents.forget("n1");
        let names = |at: u64| {
            let agents = agents.of_late(now + Duration::from_secs(at));
            agents.into_iter().map(|agent| agent.name).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["n2", "n3"]);
        let ages =
            agents.of_late(now + Duration::from_secs(310)).into_iter().map(|agent| agent.ago);
        assert_eq!(ages.collect::<Vec<_>>(), [310, 10].map(Duration::from_secs));
        assert_eq!(names(600), ["n3"]);
        assert!(names(900).is_empty());
    }

    #[test]
    fn a_thousand_names_take_the_room_of_a_few() {
        let (mut agents, now) = (RefusedAgents::default(), Instant::now());
        for i in 0..1000 {
            agents.note(now + Duration::from_millis(i), refused(format!("n{i:03}")));
        }
        let kept = agents.of_late(now);
        assert_eq!((kept.len(), kept[0].name.as_str()), (KEPT, "n936"));
    }
}
