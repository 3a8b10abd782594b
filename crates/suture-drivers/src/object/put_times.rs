//! How long a put waits for one agent while the others are ahead of it.
//!
//! Place: source -> [every chunk durable] -> object visible.
//! A stripe is durable with one chunk more than hold its data. What is beyond that is spare: where
//! its agent takes several times as long as the others do, it is given up, and so it is while that
//! agent is known to lag. Another agent gets it, or repair brings it later; one slow node of many
//! does not make a put as slow as itself. Never more than the spare ones are given up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::answer_times::{AnswerTimes, LAG};
use super::pool::Silences;
use crate::address::AgentAddress;

/// What says nothing of an agent that takes bytes: its disk writes back what it was given before.
const PUSH_GRACE: Duration = Duration::from_millis(250);

/// What says nothing of one that makes a chunk durable: disks differ from one moment to the next.
const SYNC_GRACE: Duration = Duration::from_millis(500);

/// Chunks of one stripe that may still be given up.
#[derive(Debug)]
pub struct Spare(AtomicUsize);

impl Spare {
    /// Of a stripe that so many chunks could be stored of, and at least so many have to be.
    pub fn new(chunks: usize, least: usize) -> Spare {
        Spare(AtomicUsize::new(chunks.saturating_sub(least)))
    }

    /// Gives one up, if there is one.
    pub fn take(&self) -> bool {
        let less = |spare: usize| spare.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// One could not be stored.
    pub fn fail(&self) {
        self.take();
    }
}

/// What a put knows of how fast agents are.
#[derive(Debug)]
pub struct PutTimes {
    times: Mutex<AnswerTimes>,
    lags: Mutex<Silences>,
}

impl Default for PutTimes {
    fn default() -> PutTimes {
        let times = AnswerTimes::with_grace(PUSH_GRACE);
        PutTimes { times: times.into(), lags: Mutex::default() }
    }
}

impl PutTimes {
    /// An agent took so many bytes.
    pub fn took(&self, agent: &AgentAddress, bytes: u64, since: Instant) {
        let mut times = self.times.lock().expect("no thread panics here");
        times.answered(agent, bytes, since.elapsed(), Instant::now().into_std());
    }

    /// When an agent that was given so many bytes lags; none while too little is known of others.
    pub fn until(&self, agent: &AgentAddress, bytes: u64, since: Instant) -> Option<Instant> {
        let times = self.times.lock().expect("no thread panics here");
        times.timeout(agent, bytes).map(|span| since + span)
    }

    /// When agents lag that have not made their chunks durable, now that enough others have.
    pub fn until_durable(&self, since: Instant) -> Instant {
        Instant::now() + SYNC_GRACE + since.elapsed().mul_f64(LAG)
    }

    /// An agent lags: it is left alone for a while, ever longer if it does so again.
    pub fn lagged(&self, agent: &AgentAddress) {
        self.lags.lock().expect("no thread panics here").add(agent, Instant::now());
    }

    /// Whether it is left alone.
    pub fn lags(&self, agent: &AgentAddress) -> bool {
        self.lags.lock().expect("no thread panics here").covers(agent, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_given_up_than_are_spare() {
        let spare = Spare::new(9, 7);
        assert_eq!([spare.take(), spare.take(), spare.take()], [true, true, false]);
        assert!(!Spare::new(6, 7).take(), "what is too little already is not made less");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_lags_against_the_others_and_gets_another_chance() {
        let agent = |port| AgentAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        let times = PutTimes::default();
        let since = Instant::now();
        assert_eq!(times.until(&agent(1), 1 << 18, since), None, "nothing is known yet");
        tokio::time::advance(Duration::from_millis(10)).await;
        (1..5).for_each(|port| times.took(&agent(port), 1 << 18, since));
        let until = times.until(&agent(9), 1 << 18, since).unwrap();
        assert_eq!(until - since, PUSH_GRACE + Duration::from_millis(30));
        assert_eq!(times.until_durable(since) - since, SYNC_GRACE + Duration::from_millis(40));
        times.lagged(&agent(9));
        assert!(times.lags(&agent(9)) && !times.lags(&agent(1)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!times.lags(&agent(9)));
    }
}
