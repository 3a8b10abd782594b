//! Connections to agents: kept while they work, and not tried again where nobody answers.
//!
//! Place: under `[put]` and `[get]`.
//! A dead agent is noticed once and not once for each chunk: waiting for a connection that will
//! not stand is what makes a degraded read slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use suture_repair::wire::{ClusterId, Who};

use crate::address::AgentAddress;
use crate::chunk_client::{ChunkClient, ChunkConnection, ChunkError};
use crate::identity::credentials::Kept;
use crate::net::greeting::Greeting;

/// An agent that is there takes milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A busy disk may take seconds to make a chunk durable.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections to the agents of one cluster.
pub struct ConnectionPool {
    client: ChunkClient,
    idle: Mutex<BTreeMap<AgentAddress, Vec<ChunkConnection>>>,
    silent: Mutex<BTreeSet<AgentAddress>>,
}

impl ConnectionPool {
    /// A pool without connections, for agents of this cluster.
    pub fn new(cluster: ClusterId, credentials: Option<Arc<Kept>>) -> ConnectionPool {
        let greeting = Greeting { cluster, who: Who::Client, credentials };
        let (connect_timeout, idle_timeout) = (CONNECT_TIMEOUT, IDLE_TIMEOUT);
        let client = ChunkClient { greeting, connect_timeout, idle_timeout };
        ConnectionPool { client, idle: Mutex::default(), silent: Mutex::default() }
    }

    /// Whether the agent failed to answer before.
    pub fn is_silent(&self, agent: &AgentAddress) -> bool {
        self.silent.lock().expect("no thread panics here").contains(agent)
    }

    /// A connection to the agent, to be given back with how it went.
    ///
    /// # Errors
    /// When the agent does not answer, or did not a moment ago.
    pub async fn take(&self, agent: &AgentAddress) -> Result<ChunkConnection, ChunkError> {
        match self.idle(agent) {
            Some(connection) => Ok(connection),
            None => {
                let connection = self.client.connect(agent.clone()).await;
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
    /// was made with former credentials: then nothing is wrong with the agent, and another connection
    /// may do.
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
        let is_usable = matches!(
            result,
            Ok(_) | Err(ChunkError::Fault { .. }) | Err(ChunkError::Refused { .. })
        );
        if is_usable {
            let mut idle = self.idle.lock().expect("no thread panics here");
            idle.entry(agent.clone()).or_default().push(connection);
        }
        false
    }

    fn note<T>(&self, agent: &AgentAddress, result: &Result<T, ChunkError>) {
        let is_silent =
            matches!(result, Err(ChunkError::Unreachable { .. }) | Err(ChunkError::Timeout { .. }));
        if is_silent {
            self.silent.lock().expect("no thread panics here").insert(agent.clone());
        }
    }
}
