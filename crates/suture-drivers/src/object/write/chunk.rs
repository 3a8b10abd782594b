//! One chunk of a stripe that is put: sent to its agent as its buffers come, or given up.
//!
//! Place: source -> [encoded, every chunk durable] -> object visible: the last step of it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use suture_edge::checksum::Crc32c;
use suture_repair::id::ChunkCopy;
use suture_repair::label::Label;
use suture_repair::wire::Denial;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::trace;

use super::Writer;
use crate::address::AgentAddress;
use crate::chunk_client::{ChunkConnection, ChunkError, ChunkWriter};
use crate::object::put_times::Spare;

/// How long a put waits for a place at an agent: somewhat longer than agents bear with idle
/// clients.
const BUSY_FOR: Duration = Duration::from_secs(75);

/// The wait before it asks again; it doubles up to the longest.
const BUSY_RETRY: Duration = Duration::from_millis(100);
const BUSY_RETRY_MAX: Duration = Duration::from_secs(2);

/// The bytes of one chunk, and what it and its stripe send each other while it is written.
pub(super) struct ChunkFeed {
    pub buffers: mpsc::Receiver<Bytes>,
    /// Of what was taken so far.
    pub crc: Crc32c,
    /// Takes the checksum of all.
    pub sum_sender: Option<oneshot::Sender<u32>>,
    /// What is kept beside the chunk, when the checksums of all chunks are known.
    pub label: watch::Receiver<Label>,
}

/// How a chunk was sent.
enum Sent {
    /// All of it is durable.
    Durable,
    /// Its stripe was given up meanwhile.
    Unwanted,
    /// Its agent lags, and enough others do not.
    Lagging,
}

/// A connection was made with former credentials, and ended.
#[derive(Debug)]
pub(super) struct Interrupted(ChunkError);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Interrupted {}

impl Writer {
    /// Stores one chunk as its buffers come, with the label that follows them. Its checksum is
    /// reported whether or not it is stored, because a chunk without a location is rebuilt against
    /// it.
    pub(super) async fn write_chunk(
        self: Arc<Self>,
        agent: Option<AgentAddress>,
        copy: ChunkCopy,
        bytes: u64,
        mut feed: ChunkFeed,
        spare: &Spare,
    ) -> Result<()> {
        let result = match agent {
            None => Err(anyhow!("no node has enough free bytes for {copy}")),
            Some(agent) if self.pool().is_silent(&agent) => {
                spare.fail();
                Err(anyhow!("agent {agent} does not answer"))
            }
            Some(agent) if self.agents.times.lags(&agent) && spare.take() => {
                Err(lags_behind(&agent))
            }
            Some(agent) => self.send_chunk(&agent, copy, bytes, &mut feed, spare).await,
        };
        feed.drain().await;
        result
    }

    async fn send_chunk(
        &self,
        agent: &AgentAddress,
        copy: ChunkCopy,
        bytes: u64,
        feed: &mut ChunkFeed,
        spare: &Spare,
    ) -> Result<()> {
        let connected = self.connect(agent, spare).await;
        let mut connection = connected.inspect_err(|_| spare.fail())?;
        let send = async {
            let mut writer = connection.write(copy, bytes).await?;
            while let Some(buffer) = feed.next().await {
                if !self.push(&mut writer, agent, &buffer, spare).await? {
                    return Ok(Sent::Lagging);
                }
            }
            let crc = feed.drain().await;
            match feed.label().await {
                Some(label) => writer.finish(crc, &label).await.map(|()| Sent::Durable),
                None => Ok(Sent::Unwanted),
            }
        };
        let result = send.await;
        if let Ok(Sent::Lagging) = result {
            // Its connection ends, and with it what the agent has of the chunk.
            self.agents.times.lagged(agent);
            return Err(lags_behind(agent));
        }
        if result.is_err() {
            spare.fail();
        }
        if self.pool().give(agent, connection, &result)
            && let Err(why) = result
        {
            return Err(Interrupted(why).into());
        }
        ensure!(matches!(result?, Sent::Durable), "the stripe was given up");
        trace!(%copy, %agent, bytes, "chunk is durable");
        Ok(())
    }

    /// A connection to the agent. One that has no place for more clients of this kind is asked
    /// again until it hangs up on those that are idle, unless the chunk may as well go elsewhere.
    async fn connect(
        &self,
        agent: &AgentAddress,
        spare: &Spare,
    ) -> Result<ChunkConnection, ChunkError> {
        let (since, mut wait) = (Instant::now(), BUSY_RETRY);
        loop {
            let connected = self.pool().take(agent).await;
            let is_busy = matches!(&connected, Err(ChunkError::Refused { why: Denial::Busy, .. }));
            if !is_busy || since.elapsed() >= BUSY_FOR || spare.take() {
                return connected;
            }
            sleep(wait).await;
            wait = (2 * wait).min(BUSY_RETRY_MAX);
        }
    }

    /// Sends a buffer; returns whether the agent takes it in time, or is waited for.
    async fn push(
        &self,
        writer: &mut ChunkWriter<'_>,
        agent: &AgentAddress,
        buffer: &[u8],
        spare: &Spare,
    ) -> Result<bool, ChunkError> {
        let (since, bytes) = (Instant::now(), buffer.len() as u64);
        let mut push = std::pin::pin!(writer.push(buffer));
        if let Some(until) = self.agents.times.until(agent, bytes, since) {
            match timeout_at(until, &mut push).await {
                Ok(pushed) => pushed?,
                Err(_) if spare.take() => return Ok(false),
                Err(_) => push.await?,
            }
        } else {
            push.await?;
        }
        self.agents.times.took(agent, bytes, since);
        Ok(true)
    }
}

/// What is said of an agent that lags.
pub(super) fn lags_behind(agent: &AgentAddress) -> anyhow::Error {
    anyhow!("agent {agent} is several times slower than the others")
}

impl ChunkFeed {
    async fn next(&mut self) -> Option<Bytes> {
        let buffer = self.buffers.recv().await?;
        self.crc.update(&buffer);
        Some(buffer)
    }

    /// Takes what is left, and reports the checksum of all, once.
    async fn drain(&mut self) -> u32 {
        while self.next().await.is_some() {}
        let crc = self.crc.value();
        // Where the stripe was given up the receiver is gone.
        self.sum_sender.take().map(|sum_sender| sum_sender.send(crc));
        crc
    }

    /// What is kept beside the chunk; nothing when the stripe was given up.
    async fn label(&mut self) -> Option<Label> {
        self.label.changed().await.ok()?;
        Some(self.label.borrow().clone())
    }
}
