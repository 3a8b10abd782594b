//! Putting chunks on agents and getting them back, checked from end to end.
//!
//! Place: beside the whole life of a repair: what put and get stand on.
//! A write is durable under its name when `finish` returns, and not visible before. A read gives
//! bytes that passed the block checksums on the agent's disk and the CRC32C of each frame here.
//! Where the agent is known by its number, the one that answers has to be that node: another would
//! store or serve its own chunks in place of those of the node that was meant.
//! One connection serves any number of operations, one after the other; after an error other than
//! `Fault` and `Refused` it is of no more use.

use std::fmt;
use std::io;
use std::time::Duration;

use suture_edge::checksum::crc32c;
use suture_edge::units::format_seconds;
use suture_repair::id::{ChunkCopy, ListedCopy};
use suture_repair::label::{LABEL_BYTES_MAX, Label};
use suture_repair::message::CopyFault;
use suture_repair::plan::Range;
use suture_repair::wire::{Denial, Frame, Payload};

use crate::address::AgentAddress;
use crate::limit::{Moved, Port, Purpose};
use crate::net::connection::{Connection, Traffic};
use crate::net::error::NetError;
use crate::net::local_identity::LocalIdentity;

/// What a write sends at a time.
const WRITE_BYTES: usize = 256 * 1024;

/// The cluster to connect to, the identity to announce, and how long to wait.
#[derive(Clone, Debug)]
pub struct ChunkClient {
    /// The cluster, and the client's own identity; agents of another cluster are refused.
    pub local_identity: LocalIdentity,
    /// For a connection to stand.
    pub connect_timeout: Duration,
    /// For the other side to move at least one byte, or to make a chunk durable.
    pub idle_timeout: Duration,
}

/// A connection to one agent.
#[derive(Debug)]
pub struct ChunkConnection {
    agent: AgentAddress,
    connection: Connection,
    idle_timeout: Duration,
    unlimited: Port,
    /// The number of the credentials that it was made with.
    number: u64,
    /// Something went wrong, or was left, in the middle of an operation.
    broken: bool,
}

impl Drop for ChunkConnection {
    fn drop(&mut self) {
        if self.broken {
            self.connection.end_at_once();
        }
    }
}

/// A chunk that is being written.
#[derive(Debug)]
pub struct ChunkWriter<'a> {
    connection: &'a mut ChunkConnection,
    copy: ChunkCopy,
    bytes: u64,
}

/// So many bytes a second any disk makes durable, however many chunks come at once.
pub(crate) const SLOWEST_DISK: u64 = 2 << 20;

/// So many chunks an agent may have before this one, for each that it makes durable at a time.
const QUEUED_MAX: u32 = 8;

/// What a chunk may take to become durable on the slowest disk, behind others as long. An agent
/// that is gone meanwhile is noticed by its connection.
fn durable_within(bytes: u64) -> Duration {
    QUEUED_MAX * Duration::from_secs_f64(bytes as f64 / SLOWEST_DISK as f64)
}

/// Why a chunk could not be put or got.
#[derive(Debug)]
pub enum ChunkError {
    /// There was no connection, or it broke.
    Unreachable {
        /// The agent that it was.
        agent: AgentAddress,
        /// What the system answered.
        source: io::Error,
    },
    /// Nothing moved for too long.
    Timeout {
        /// The agent that it was.
        agent: AgentAddress,
        /// What was waited for.
        doing: &'static str,
        /// How long nothing moved.
        waited: Duration,
    },
    /// The copy is of no use there.
    Fault {
        /// The copy that was asked for.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
    /// The agent understood and refused it.
    Refused {
        /// The agent that it was.
        agent: AgentAddress,
        /// The reason that it sent.
        why: Denial,
    },
    /// The other side does not speak our frames.
    Protocol {
        /// The agent that it was.
        agent: AgentAddress,
        /// What was expected, and what came.
        detail: String,
    },
}

impl ChunkClient {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// When the agent cannot be reached, another node answers there, it is of another cluster or
    /// speaks another version.
    pub async fn connect(
        &self,
        agent: impl Into<AgentAddress>,
    ) -> Result<ChunkConnection, ChunkError> {
        self.connect_counting(agent, Moved::default()).await
    }

    /// The same; payload that comes or goes is counted there as that of clients while it moves.
    ///
    /// # Errors
    /// As [`ChunkClient::connect`].
    pub async fn connect_counting(
        &self,
        agent: impl Into<AgentAddress>,
        moved: Moved,
    ) -> Result<ChunkConnection, ChunkError> {
        let (agent, unlimited) = (agent.into(), Port::unlimited().counting(moved));
        let number = self.number();
        let opened =
            Connection::open(&agent, &self.local_identity, &unlimited, self.connect_timeout).await;
        let (mut connection, _) = opened.map_err(|error| ChunkError::of(&agent, error))?;
        connection.set_timeout(self.idle_timeout);
        let idle_timeout = self.idle_timeout;
        Ok(ChunkConnection { agent, connection, idle_timeout, unlimited, number, broken: false })
    }

    /// The number of the credentials by which connections are made now.
    fn number(&self) -> u64 {
        self.local_identity.credentials.as_ref().map_or(0, |kept| kept.current().number)
    }

    /// Whether a connection was made with former credentials: its other end may not accept those
    /// any more.
    pub fn is_former(&self, connection: &ChunkConnection) -> bool {
        connection.number != self.number()
    }

    /// The same after a look at the files, for a connection that has ended.
    pub fn has_ended_as_former(&self, connection: &ChunkConnection) -> bool {
        let number = self.local_identity.credentials.as_ref().map_or(0, |kept| kept.refresh());
        connection.number != number
    }

    /// Connects and writes one chunk: durable when it returns.
    ///
    /// # Errors
    /// When the agent cannot be reached, refuses the chunk or cannot keep it.
    pub async fn write_chunk(
        &self,
        agent: impl Into<AgentAddress>,
        copy: ChunkCopy,
        crc: u32,
        data: &[u8],
    ) -> Result<(), ChunkError> {
        let mut connection = self.connect(agent).await?;
        let mut writer = connection.write(copy, data.len() as u64).await?;
        writer.push(data).await?;
        writer.finish(crc, &Label::default()).await
    }

    /// Connects and reads one range of a chunk, which must fit in memory.
    ///
    /// # Errors
    /// When the agent cannot be reached, or the copy is missing or corrupt.
    pub async fn read_chunk(
        &self,
        agent: impl Into<AgentAddress>,
        wanted: impl Into<ListedCopy>,
        range: Range,
    ) -> Result<Vec<u8>, ChunkError> {
        let mut bytes = vec![0; range.bytes() as usize];
        self.connect(agent).await?.read(wanted, range.from, &mut bytes).await?;
        Ok(bytes)
    }
}

impl ChunkConnection {
    /// Whether it can serve again: agents hang up on clients that want nothing for a while.
    pub fn is_usable(&self) -> bool {
        !self.broken && self.connection.is_idle()
    }

    /// Fills `into` with the bytes of the copy from `offset` on, if the copy has this digest.
    ///
    /// # Errors
    /// When the connection breaks, or the copy is missing, corrupt or shorter.
    pub async fn read(
        &mut self,
        wanted: impl Into<ListedCopy>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), ChunkError> {
        self.begin()?;
        let wanted: ListedCopy = wanted.into();
        let copy = wanted.copy;
        let range = Range { from: offset, to: offset + into.len() as u64 };
        let result = self.read_range(wanted, range, into).await;
        self.end(copy, result)
    }

    /// What lies beside a copy for the keeper of the metadata.
    ///
    /// # Errors
    /// When the connection breaks, or the copy is missing or damaged.
    pub async fn read_label(&mut self, copy: ChunkCopy) -> Result<Label, ChunkError> {
        self.begin()?;
        let result = self.receive_label(copy).await;
        let (label, result) = match result {
            Ok(label) => (label, Ok(())),
            Err(error) => (Label::default(), Err(error)),
        };
        self.end(copy, result).map(|()| label)
    }

    async fn receive_label(&mut self, copy: ChunkCopy) -> Result<Label, NetError> {
        self.connection.write_frame(Frame::ReadLabel { copy }).await?;
        let payload = match self.reply("reading a label").await? {
            Frame::ReadData(payload) if payload.bytes as usize <= LABEL_BYTES_MAX => payload,
            frame => return Err(NetError::Unexpected(frame)),
        };
        let mut bytes = vec![0; payload.bytes as usize];
        let traffic = Traffic { port: &self.unlimited, purpose: Purpose::Client };
        self.connection.read_payload(&mut bytes, traffic).await?;
        let is_whole = crc32c(&bytes) == payload.crc;
        Label::new(&bytes).filter(|_| is_whole).ok_or(NetError::Damaged)
    }

    /// Begins to write a copy of `bytes` bytes. Dropping the writer before `finish` abandons it:
    /// nothing of it stays, and the connection is of no more use.
    ///
    /// # Errors
    /// When the connection breaks or the agent refuses the copy.
    pub async fn write(
        &mut self,
        copy: ChunkCopy,
        bytes: u64,
    ) -> Result<ChunkWriter<'_>, ChunkError> {
        self.begin()?;
        let sent = self.connection.write_frame(Frame::WriteChunk { copy, bytes }).await;
        sent.map_err(|error| ChunkError::of(&self.agent, error))?;
        Ok(ChunkWriter { connection: self, copy, bytes })
    }

    async fn read_range(
        &mut self,
        ListedCopy { copy, digest }: ListedCopy,
        range: Range,
        into: &mut [u8],
    ) -> Result<(), NetError> {
        self.connection.write_frame(Frame::ReadChunk { copy, digest, range }).await?;
        let mut rest = into;
        while !rest.is_empty() {
            let payload = match self.reply("reading a chunk").await? {
                Frame::ReadData(payload) if payload.bytes as usize <= rest.len() => payload,
                frame => return Err(NetError::Unexpected(frame)),
            };
            let (now, later) = rest.split_at_mut(payload.bytes as usize);
            let traffic = Traffic { port: &self.unlimited, purpose: Purpose::Client };
            self.connection.read_payload(now, traffic).await?;
            if crc32c(now) != payload.crc {
                return Err(NetError::Damaged);
            }
            rest = later;
        }
        Ok(())
    }

    /// The agent's next frame; what it refuses is an error.
    async fn reply(&mut self, doing: &'static str) -> Result<Frame, NetError> {
        self.reply_within(self.idle_timeout, doing).await
    }

    async fn reply_within(
        &mut self,
        wait: Duration,
        doing: &'static str,
    ) -> Result<Frame, NetError> {
        match self.connection.read_frame_within(wait, doing).await {
            Ok(Frame::Error(denial)) => Err(NetError::Denied(denial)),
            result => result,
        }
    }

    /// From here to `end` the connection is in the middle of something.
    fn begin(&mut self) -> Result<(), ChunkError> {
        if self.broken {
            let source = io::Error::new(io::ErrorKind::BrokenPipe, "the connection has failed");
            return Err(ChunkError::Unreachable { agent: self.agent.clone(), source });
        }
        self.broken = true;
        Ok(())
    }

    fn end(&mut self, copy: ChunkCopy, result: Result<(), NetError>) -> Result<(), ChunkError> {
        // A refusal is an answer: the connection can go on.
        self.broken = !matches!(result, Ok(()) | Err(NetError::Denied(_)));
        result.map_err(|error| match error {
            NetError::Denied(Denial::Fault(fault)) => ChunkError::Fault { copy, fault },
            error => ChunkError::of(&self.agent, error),
        })
    }
}

impl ChunkWriter<'_> {
    /// The next bytes of the chunk.
    ///
    /// # Errors
    /// When the connection breaks or the agent has given up.
    pub async fn push(&mut self, data: &[u8]) -> Result<(), ChunkError> {
        let ChunkConnection { agent, connection, unlimited, .. } = &mut *self.connection;
        let traffic = Traffic { port: unlimited, purpose: Purpose::Client };
        for part in data.chunks(WRITE_BYTES) {
            let payload = Payload { bytes: part.len() as u32, crc: crc32c(part) };
            let sent = connection.write(&Frame::WriteData(payload).encode(), part, traffic).await;
            sent.map_err(|error| ChunkError::of(agent, error))?;
        }
        Ok(())
    }

    /// All bytes are pushed and sum to `crc`: durable, with the label beside them, when it returns.
    ///
    /// # Errors
    /// When the connection breaks, the sum differs, or the agent cannot keep the chunk.
    pub async fn finish(mut self, crc: u32, label: &Label) -> Result<(), ChunkError> {
        if !label.is_empty() {
            self.send_label(label.bytes()).await?;
        }
        let ChunkWriter { connection, copy, bytes } = self;
        let sent = connection.connection.write_frame(Frame::WriteEnd { crc }).await;
        let result = match sent {
            Ok(()) => {
                let wait = connection.idle_timeout.saturating_add(durable_within(bytes));
                connection.reply_within(wait, "making a chunk durable").await
            }
            Err(error) => Err(error),
        };
        let result = result.and_then(|frame| match frame {
            Frame::WriteDone => Ok(()),
            frame => Err(NetError::Unexpected(frame)),
        });
        connection.end(copy, result)
    }

    async fn send_label(&mut self, label: &[u8]) -> Result<(), ChunkError> {
        let ChunkConnection { agent, connection, unlimited, .. } = &mut *self.connection;
        let traffic = Traffic { port: unlimited, purpose: Purpose::Client };
        let payload = Payload { bytes: label.len() as u32, crc: crc32c(label) };
        let sent = connection.write(&Frame::WriteLabel(payload).encode(), label, traffic).await;
        sent.map_err(|error| ChunkError::of(agent, error))
    }
}

impl ChunkError {
    fn of(agent: &AgentAddress, error: NetError) -> ChunkError {
        let agent = agent.clone();
        match error {
            NetError::Io(source) => ChunkError::Unreachable { agent, source },
            NetError::Closed => {
                let source = io::Error::new(io::ErrorKind::ConnectionReset, error.to_string());
                ChunkError::Unreachable { agent, source }
            }
            // The agent that was meant is not there; another one answered.
            NetError::OtherNode { .. } => {
                ChunkError::Unreachable { agent, source: io::Error::other(error.to_string()) }
            }
            NetError::Stalled { doing, waited } => ChunkError::Timeout { agent, doing, waited },
            NetError::Denied(why) => ChunkError::Refused { agent, why },
            error => ChunkError::Protocol { agent, detail: error.to_string() },
        }
    }
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkError::Unreachable { agent, source } => write!(f, "agent {agent}: {source}"),
            ChunkError::Timeout { agent, doing, waited } => {
                let waited = format_seconds(waited.as_secs_f64());
                write!(f, "agent {agent}: {doing}: nothing for {waited}")
            }
            ChunkError::Fault { copy, fault } => write!(f, "{copy} is {fault}"),
            ChunkError::Refused { agent, why } => write!(f, "agent {agent} refused: {why}"),
            ChunkError::Protocol { agent, detail } => write!(f, "agent {agent}: {detail}"),
        }
    }
}

// What it says has its cause in it, so it names none: it would be printed twice.
impl std::error::Error for ChunkError {}
