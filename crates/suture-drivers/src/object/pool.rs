//! Connections to agents: kept while they work, and tried again ever more rarely where no agent
//! answers.
//!
//! Place: under `[put]` and `[get]`.
//! A dead agent is noticed once and not once for each chunk: waiting for a connection that will
//! not stand is what makes a degraded read slow. One that was only busy is asked again, or all that
//! follows in a long put would lack its chunks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use suture_repair::wire::{ClusterId, Who};
use tokio::time::Instant;

use crate::address::AgentAddress;
use crate::chunk_client::{ChunkClient, ChunkConnection, ChunkError};
use crate::identity::credentials::Kept;
use crate::limit::Moved;
use crate::net::local_identity::LocalIdentity;

/// An agent that is there takes milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A busy disk may take seconds to make a chunk durable.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// For so long an agent that did not answer is not asked again, the first time and at most.
const SILENT_FOR: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(240)];

/// Agents that did not answer when they were last asked.
#[derive(Debug, Default)]
pub(super) struct Silences(BTreeMap<AgentAddress, Silence>);

#[derive(Debug)]
struct Silence {
    /// When the agent may be asked again.
    until: Instant,
    /// How long it was left alone the last time.
    span: Duration,
}

impl Silences {
    pub(super) fn covers(&self, agent: &AgentAddress, now: Instant) -> bool {
        self.0.get(agent).is_some_and(|silence| now < silence.until)
    }

    /// It did not answer. What was under way meanwhile says nothing new.
    pub(super) fn add(&mut self, agent: &AgentAddress, now: Instant) {
        let [first, longest] = SILENT_FOR;
        let span = match self.0.get(agent) {
            None => first,
            Some(known) if now < known.until => return,
            Some(known) => longest.min(2 * known.span),
        };
        self.0.insert(agent.clone(), Silence { until: now + span, span });
    }

    /// It answered: nothing keeps it from being asked at once.
    fn end(&mut self, agent: &AgentAddress) {
        self.0.remove(agent);
    }
}

/// Connections to the agents of one cluster.
pub struct ConnectionPool {
    client: ChunkClient,
    idle: Mutex<BTreeMap<AgentAddress, Vec<ChunkConnection>>>,
    silences: Mutex<Silences>,
    moved: Mutex<BTreeMap<AgentAddress, Moved>>,
}

impl ConnectionPool {
    /// A pool without connections, for agents of this cluster.
    pub fn new(cluster: ClusterId, credentials: Option<Arc<Kept>>) -> ConnectionPool {
        let local_identity = LocalIdentity { cluster, who: Who::Client, credentials };
        let (connect_timeout, idle_timeout) = (CONNECT_TIMEOUT, IDLE_TIMEOUT);
        let client = ChunkClient { local_identity, connect_timeout, idle_timeout };
        let (idle, silences, moved) = Default::default();
        ConnectionPool { client, idle, silences, moved }
    }

    /// Bytes of chunks that have come from the agent so far, or gone to it, on whatever connection.
    pub fn moved(&self, agent: &AgentAddress) -> u64 {
        self.counters(agent).client.get()
    }

    fn counters(&self, agent: &AgentAddress) -> Moved {
        let mut moved = self.moved.lock().expect("no thread panics here");
        moved.entry(agent.clone()).or_default().clone()
    }

    /// Whether the agent failed to answer a while ago, and is not to be asked again yet.
    pub fn is_silent(&self, agent: &AgentAddress) -> bool {
        self.silences.lock().expect("no thread panics here").covers(agent, Instant::now())
    }

    /// A connection to the agent, to be given back with how it went; it is tried even where the
    /// agent is silent ([`Self::is_silent`]).
    ///
    /// # Errors
    /// When the agent does not answer.
    pub async fn take(&self, agent: &AgentAddress) -> Result<ChunkConnection, ChunkError> {
        match self.idle(agent) {
            Some(connection) => Ok(connection),
            None => {
                let counters = self.counters(agent);
                let connection = self.client.connect_counting(agent.clone(), counters).await;
                self.note(agent, &connection);
                connection
            }
        }
    }

    fn idle(&self, agent: &AgentAddress) -> Option<ChunkConnection> {
        let mut idle = self.idle.lock().expect("no thread panics here");
        let connections = idle.get_mut(agent)?;
        let is_usable = |one: &ChunkConnection| one.is_usable() && !self.client.is_former(one);
        std::iter::from_fn(|| connections.pop()).find(is_usable)
    }

    /// Gives a connection back: it serves again unless it broke. Gives whether it ended because it
    /// was made with former credentials: then nothing is wrong with the agent, and another
    /// connection may do.
    pub fn give<T>(
        &self,
        agent: &AgentAddress,
        connection: ChunkConnection,
        result: &Result<T, ChunkError>,
    ) -> bool {
        let has_ended = matches!(
            result,
            Err(ChunkError::Unreachable { .. }) | Err(ChunkError::Protocol { .. })
        );
        if has_ended && self.client.has_ended_as_former(&connection) {
            return true;
        }
        self.note(agent, result);
        if matches!(result, Err(ChunkError::Unreachable { .. } | ChunkError::Timeout { .. })) {
            // What was idle meanwhile is of the same agent, which may have begun anew since.
            self.idle.lock().expect("no thread panics here").remove(agent);
        }
        let is_usable = matches!(
            result,
            Ok(_) | Err(ChunkError::Fault { .. }) | Err(ChunkError::Refused { .. })
        );
        if is_usable && connection.is_usable() {
            let mut idle = self.idle.lock().expect("no thread panics here");
            idle.entry(agent.clone()).or_default().push(connection);
        }
        false
    }

    fn note<T>(&self, agent: &AgentAddress, result: &Result<T, ChunkError>) {
        let mut silences = self.silences.lock().expect("no thread panics here");
        match result {
            Err(ChunkError::Unreachable { .. } | ChunkError::Timeout { .. }) => {
                silences.add(agent, Instant::now());
            }
            _ => silences.end(agent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_did_not_answer_is_asked_again_ever_more_rarely_until_it_does() {
        let addr = "127.0.0.1:1".parse().unwrap();
        let agent = AgentAddress { name: "n1".into(), node: None, addr };
        let (mut silences, mut now) = (Silences::default(), Instant::now());
        let mut spans = Vec::new();
        for _ in 0..6 {
            assert!(!silences.covers(&agent, now));
            silences.add(&agent, now);
            let begun = now;
            while silences.covers(&agent, now) {
                // All that was under way fails too, and makes it no longer.
                silences.add(&agent, now);
                now += Duration::from_secs(5);
            }
            spans.push(now.duration_since(begun).as_secs());
        }
        assert_eq!(spans, [15, 30, 60, 120, 240, 240]);
        silences.end(&agent);
        silences.add(&agent, now);
        assert!(silences.covers(&agent, now) && !silences.covers(&agent, now + SILENT_FOR[0]));
    }
}
