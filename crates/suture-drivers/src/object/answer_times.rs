//! How fast agents answer, and which of them lag behind the others.
//!
//! Place: under `[get]` and `[put]`.
//! An agent that is silent is noticed by a timeout; one that is only slow would be waited for as
//! long as it moves a byte now and then. So each is measured against the others: an agent that
//! takes several times as long as they usually do for as many bytes lags, and is asked only when
//! nothing else will do, until it gets another chance. What slows all of them down, as the reader's
//! own link, slows what is usual too, and no agent lags by that. Where there are no others to
//! measure against yet, as at the beginning of a read, an agent of which no byte comes for a second
//! lags all the same: a machine that vanished ends no connection.
//! Knows no sockets and no clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::address::AgentAddress;

/// An agent lags when it takes so many times as long as the others.
pub(super) const LAG: f64 = 3.0;

/// What says nothing of an agent: a busy moment of its disk or of the scheduler.
const GRACE: Duration = Duration::from_millis(30);

/// Less was measured of so few others.
const OTHERS_MIN: usize = 2;

/// How much of what is usual the last answer is.
const NEWS: f64 = 0.3;

/// After so long an agent that lagged is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// One that owes something, and of which no byte has come for so long, is not waited for.
const QUIET: Duration = Duration::from_secs(1);

/// After so long it is asked again: each time the read may stand still.
const AGAIN_AFTER_QUIET: Duration = Duration::from_secs(15);

/// What is known of each agent.
#[derive(Debug)]
pub struct AnswerTimes {
    grace: Duration,
    agents: BTreeMap<AgentAddress, Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What a byte takes, of late.
    seconds_per_byte: f64,
    /// It lagged, and gets another chance then.
    slow_until: Option<Instant>,
    /// Bytes that have come of it, and when that was last seen to have grown.
    received: u64,
    moved_at: Option<Instant>,
}

impl Default for AnswerTimes {
    fn default() -> AnswerTimes {
        AnswerTimes::with_grace(GRACE)
    }
}

impl AnswerTimes {
    /// Nothing is known yet; an agent that takes so much longer than usual does not lag by that
    /// alone.
    pub fn with_grace(grace: Duration) -> AnswerTimes {
        AnswerTimes { grace, agents: BTreeMap::new() }
    }

    /// An agent answered with so many bytes after so long.
    pub fn answered(&mut self, agent: &AgentAddress, bytes: u64, took: Duration, now: Instant) {
        let is_late = self.timeout(agent, bytes).is_some_and(|timeout| took > timeout);
        let per_byte = took.as_secs_f64() / bytes.max(1) as f64;
        let known = self.agents.entry(agent.clone()).or_default();
        let before = match known.seconds_per_byte {
            0.0 => per_byte,
            before => before,
        };
        known.seconds_per_byte = before + NEWS * (per_byte - before);
        known.slow_until = is_late.then(|| now + AGAIN_AFTER);
    }

    /// An agent has not answered for longer than others take.
    pub fn lagged(&mut self, agent: &AgentAddress, now: Instant) {
        self.agents.entry(agent.clone()).or_default().slow_until = Some(now + AGAIN_AFTER);
    }

    /// An agent was asked at `since`, and so many bytes have come of it in all by now: whether
    /// nothing has come for so long that others are to be asked. To be called again and again while
    /// it is waited for.
    pub fn is_quiet(
        &mut self,
        agent: &AgentAddress,
        received: u64,
        since: Instant,
        now: Instant,
    ) -> bool {
        let known = self.agents.entry(agent.clone()).or_default();
        if received != known.received {
            (known.received, known.moved_at) = (received, Some(now));
        }
        let last = known.moved_at.map_or(since, |at| at.max(since));
        let is_quiet = now.saturating_duration_since(last) > QUIET;
        if is_quiet {
            known.slow_until = Some(now + AGAIN_AFTER_QUIET);
        }
        is_quiet
    }

    /// Whether the agent lagged of late.
    pub fn is_slow(&self, agent: &AgentAddress, now: Instant) -> bool {
        let known = self.agents.get(agent);
        known.and_then(|known| known.slow_until).is_some_and(|until| now < until)
    }

    /// How long so many bytes of an agent are waited for before others are asked; `None` while too
    /// little is known of those.
    pub fn timeout(&self, agent: &AgentAddress, bytes: u64) -> Option<Duration> {
        let is_other = |(other, known): &(&AgentAddress, &Known)| {
            *other != agent && known.seconds_per_byte > 0.0 && known.slow_until.is_none()
        };
        let others = self.agents.iter().filter(is_other);
        let mut others: Vec<f64> = others.map(|(_, known)| known.seconds_per_byte).collect();
        if others.len() < OTHERS_MIN {
            return None;
        }
        others.sort_by(f64::total_cmp);
        let usual = others[others.len() / 2] * bytes as f64;
        Some(self.grace + Duration::from_secs_f64((LAG * usual).min(3600.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(port: u16) -> AgentAddress {
        AgentAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)))
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn whoever_takes_several_times_as_long_as_the_others_lags_until_it_gets_another_chance() {
        let (mut times, now) = (AnswerTimes::default(), Instant::now());
        for port in 1..=3 {
            times.answered(&agent(port), MIB, Duration::from_millis(100), now);
        }
        let timeout = times.timeout(&agent(4), MIB).unwrap();
        assert_eq!(timeout, GRACE + Duration::from_millis(300));
        times.lagged(&agent(4), now);
        assert!(times.is_slow(&agent(4), now) && !times.is_slow(&agent(1), now));
        assert!(!times.is_slow(&agent(4), now + AGAIN_AFTER));
        // It answers late again, or in time.
        times.answered(&agent(4), MIB, Duration::from_secs(2), now);
        assert!(times.is_slow(&agent(4), now));
        times.answered(&agent(4), MIB, Duration::from_millis(90), now);
        assert!(!times.is_slow(&agent(4), now));
    }

    #[test]
    fn an_agent_of_which_no_byte_comes_lags_whoever_else_is_known() {
        let (mut times, begun) = (AnswerTimes::default(), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        let one = agent(1);
        assert!(!times.is_quiet(&one, 0, begun, at(1000)));
        assert!(!times.is_quiet(&one, 7, begun, at(1001)), "it has begun");
        assert!(!times.is_quiet(&one, 7, begun, at(2001)));
        assert!(!times.is_quiet(&one, 7, at(2000), at(3000)), "it was not asked until then");
        assert!(times.is_quiet(&one, 7, begun, at(2002)));
        assert!(times.is_slow(&one, at(10_000)), "it is left alone for longer");
        let (bytes, took) = (MIB, Duration::from_millis(5));
        times.answered(&one, bytes, took, at(2003));
        assert!(!times.is_slow(&one, at(2004)), "it has come back");
    }

    #[test]
    fn nobody_lags_where_little_is_known_or_all_are_slow_alike() {
        let (mut times, now) = (AnswerTimes::default(), Instant::now());
        assert_eq!(times.timeout(&agent(1), MIB), None);
        times.answered(&agent(1), MIB, Duration::from_millis(5), now);
        times.answered(&agent(2), MIB, Duration::from_millis(5), now);
        assert_eq!(times.timeout(&agent(2), MIB), None, "one other says nothing");
        for _ in 0..40 {
            for port in 1..=4 {
                times.answered(&agent(port), MIB, Duration::from_secs(3), now);
            }
        }
        let timeout = times.timeout(&agent(1), MIB).unwrap();
        assert!(timeout > Duration::from_secs(8), "{timeout:?}");
    }
}
