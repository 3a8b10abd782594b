//! The way to the DataNode of this machine: a few connections to its plugin, over a unix socket.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! Disk threads ask and wait; each takes a connection of its own, and gives it back. One that fails
//! is dropped, and the question asked once more over a new one, since the DataNode may have
//! restarted. The kernel reports which user is at the other end; a socket of another one's is not
//! spoken to.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use suture_edge::error::quoted;

use super::frame::{Frames, PROTOCOL};
use super::namenode::Refusal;
use crate::chunk_client::SLOWEST_DISK;

/// Connections that may be in use, and that are kept. The plugin closes what is beyond sixteen, and
/// those of an agent that has just ended may be among them.
const CONNECTIONS_MAX: usize = 12;

/// A DataNode whose disk takes longer for an answer is as good as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a block may take to be finished: synced and read back, on the slowest disk that is one.
fn finished_within(bytes: u64) -> Duration {
    ANSWER_TIMEOUT + Duration::from_secs(2 * bytes.div_ceil(SLOWEST_DISK))
}

/// Where the users of a machine are listed.
const USERS: &str = "/etc/passwd";

/// A connection that frames go over.
pub type BlockConnection = Frames<UnixStream>;

/// A question to the DataNode's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum BlockQuestion {
    /// Which DataNode this is, and what it speaks.
    Hello {
        /// What this end speaks.
        protocol: String,
    },
    /// Every finalized internal block, as payloads of 24 bytes each.
    List {
        /// The block pool that it is of.
        pool: String,
    },
    /// Space on its volumes.
    Free,
    /// What there is of a block.
    Locate {
        /// The block pool that it is of.
        pool: String,
        /// The id of the internal block.
        block: i64,
    },
    /// Checked bytes of a block.
    Read {
        /// The block pool that it is of.
        pool: String,
        /// The id of the internal block.
        block: i64,
        /// The first byte that is wanted.
        from: u64,
        /// How many of them.
        count: u64,
    },
    /// A rebuilt block begins; its bytes follow in order.
    Begin(NewBlock),
    /// The next bytes, as payload; not answered.
    Data,
    /// All bytes have come, and sum to this.
    Finish {
        /// CRC32C of the whole block.
        crc: u32,
    },
}

/// A rebuilt block as it is announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewBlock {
    /// The block pool that it is of.
    pub pool: String,
    /// The id of the internal block.
    pub block: i64,
    /// The generation stamp of its group.
    pub stamp: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The storage that it goes to, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// The kind of that storage.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Which DataNode it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNodeHello {
    /// The protocol that it speaks.
    pub protocol: String,
    /// The UUID of the DataNode.
    pub node: String,
    /// `HOST:PORT`, as it registers at the NameNode.
    pub name: String,
    /// The block pools of which it has blocks.
    pub pools: Vec<String>,
}

/// What there is of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedBlock {
    /// The generation stamp of its group.
    pub stamp: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPart {
    /// Whether another part follows this one.
    pub more: bool,
}

/// Space on the volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBytes {
    /// How much of it there is.
    pub bytes: u64,
}

/// What became of a block that was finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// `named`: it is there with these bytes; `taken`: with others.
    pub published: String,
}

/// Why the DataNode does not answer.
#[derive(Debug)]
pub enum DataNodeError {
    /// It was asked and answered why not.
    Refused(Refusal),
    /// It cannot be asked.
    Unreachable(io::Error),
}

/// The socket, the user that is expected there, and what is asked.
#[derive(Debug)]
pub struct DataNodeClient {
    socket: PathBuf,
    /// The user that the DataNode runs as, by number.
    user: u32,
    kept: Mutex<Vec<BlockConnection>>,
    free: FreeConnections,
}

/// Which of them are free: whoever finds none waits.
#[derive(Debug)]
struct FreeConnections {
    count: Mutex<usize>,
    freed: Condvar,
}

impl Default for FreeConnections {
    fn default() -> FreeConnections {
        FreeConnections { count: Mutex::new(CONNECTIONS_MAX), freed: Condvar::new() }
    }
}

impl FreeConnections {
    fn take(&self) -> UsedConnection<'_> {
        let free = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        UsedConnection(self)
    }
}

/// One that is in use until it is dropped.
struct UsedConnection<'a>(&'a FreeConnections);

impl Drop for UsedConnection<'_> {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BlockAnswer<T> {
    Refused(Refusal),
    Given(T),
}

impl DataNodeClient {
    /// A way to the plugin at `socket`, of a DataNode that runs as `user` (as this process does,
    /// where none is named).
    ///
    /// # Errors
    /// When there is no such user.
    pub fn new(socket: &Path, user: Option<&str>) -> Result<DataNodeClient, String> {
        let user = match user {
            Some(name) => number_of(name)?,
            None => rustix::process::geteuid().as_raw(),
        };
        let (socket, kept) = (socket.to_owned(), Mutex::default());
        Ok(DataNodeClient { socket, user, kept, free: FreeConnections::default() })
    }

    /// Which DataNode it is.
    ///
    /// # Errors
    /// When it does not answer, is of another user, or speaks another protocol.
    pub fn hello(&self) -> Result<DataNodeHello, DataNodeError> {
        self.connect().map(|(_, hello)| hello)
    }

    /// Asks, and reads an answer without payload.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn ask<T: DeserializeOwned>(&self, question: &BlockQuestion) -> Result<T, DataNodeError> {
        self.with(|connection| {
            connection.send(question).map_err(DataNodeError::Unreachable)?;
            receive(connection)
        })
    }

    /// Does something over a connection of its own, once one may be used; `work` uses no other.
    ///
    /// # Errors
    /// Those of `work`; a connection that is out of order was replaced once by then.
    pub fn with<T>(
        &self,
        mut work: impl FnMut(&mut BlockConnection) -> Result<T, DataNodeError>,
    ) -> Result<T, DataNodeError> {
        let _used = self.free.take();
        let kept = self.kept().pop();
        if let Some(mut connection) = kept {
            match work(&mut connection) {
                Err(DataNodeError::Unreachable(_)) => self.kept().clear(),
                result => {
                    self.keep(connection);
                    return result;
                }
            }
        }
        let (mut connection, _) = self.connect()?;
        let result = work(&mut connection);
        if !matches!(result, Err(DataNodeError::Unreachable(_))) {
            self.keep(connection);
        }
        result
    }

    fn connect(&self) -> Result<(BlockConnection, DataNodeHello), DataNodeError> {
        let connection = self.open().map_err(DataNodeError::Unreachable)?;
        let mut connection = Frames::new(connection);
        let hello = BlockQuestion::Hello { protocol: PROTOCOL.into() };
        connection.send(&hello).map_err(DataNodeError::Unreachable)?;
        let hello = receive(&mut connection)?;
        Ok((connection, hello))
    }

    fn open(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        let found = socket_peercred(&stream)?.uid.as_raw();
        if found != self.user {
            let what = format!(
                "{} is served by user {found}, not {}: correct [hdfs] user",
                self.socket.display(),
                self.user
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(stream)
    }

    fn keep(&self, connection: BlockConnection) {
        let mut kept = self.kept();
        if kept.len() < CONNECTIONS_MAX {
            kept.push(connection);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<BlockConnection>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a block of so many bytes that was sent, whose CRC32C is this, and has as long for the
/// answer as that may take.
///
/// # Errors
/// When the connection breaks, or the answer is a refusal.
pub fn finish(
    connection: &mut BlockConnection,
    bytes: u64,
    crc: u32,
) -> Result<Finished, DataNodeError> {
    let broken = DataNodeError::Unreachable;
    let limit = Some(finished_within(bytes));
    connection.stream_mut().set_read_timeout(limit).map_err(broken)?;
    connection.send(&BlockQuestion::Finish { crc }).map_err(broken)?;
    let finished = receive(connection);
    connection.stream_mut().set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(broken)?;
    finished
}

/// The next answer of a connection.
///
/// # Errors
/// When it breaks, or the answer is a refusal.
pub fn receive<T: DeserializeOwned>(connection: &mut BlockConnection) -> Result<T, DataNodeError> {
    match connection.receive() {
        Ok(BlockAnswer::Given(answer)) => Ok(answer),
        Ok(BlockAnswer::Refused(refusal)) => Err(DataNodeError::Refused(refusal)),
        Err(error) => Err(DataNodeError::Unreachable(error)),
    }
}

/// The number of a user: a number names itself, for users that are kept elsewhere (LDAP).
fn number_of(user: &str) -> Result<u32, String> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let users = fs::read_to_string(USERS).map_err(|error| format!("{USERS}: {error}"))?;
    let mut lines = users.lines().map(|line| line.split(':'));
    let found = lines.find_map(|mut fields| {
        let is_named = fields.next() == Some(user);
        fields.nth(1)?.parse().ok().filter(|_| is_named)
    });
    found.ok_or_else(|| {
        format!(
            "hdfs: there is no user {} in {USERS}: where users are kept elsewhere, set `user` to \
             the number of the DataNode's (id -u)",
            quoted(user)
        )
    })
}

impl fmt::Display for DataNodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataNodeError::Refused(Refusal { why, .. }) => write!(f, "the DataNode says: {why}"),
            DataNodeError::Unreachable(error) => {
                write!(f, "the DataNode's plugin cannot be asked: {error}")
            }
        }
    }
}

impl std::error::Error for DataNodeError {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use serde_json::json;

    use super::*;

    #[test]
    fn no_more_connections_are_in_use_than_the_plugin_has_places_for() {
        let (places, used) = (FreeConnections::default(), AtomicUsize::new(0));
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 * CONNECTIONS_MAX {
                scope.spawn(|| {
                    let _place = places.take();
                    most.fetch_max(used.fetch_add(1, SeqCst) + 1, SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    used.fetch_sub(1, SeqCst);
                });
            }
        });
        assert!(most.into_inner() <= CONNECTIONS_MAX);
        assert_eq!(*places.count.lock().unwrap(), CONNECTIONS_MAX);
    }

    #[test]
    fn a_user_is_named_or_numbered() {
        assert_eq!((number_of("root"), number_of("4711")), (Ok(0), Ok(4711)));
        let none = number_of("no such user").unwrap_err();
        assert!(none.contains("'no such user'") && none.contains("id -u"), "{none}");
    }

    #[test]
    fn a_long_block_has_longer_to_be_finished_than_others_have_for_an_answer() {
        assert_eq!(finished_within(0), ANSWER_TIMEOUT);
        let block = finished_within(128 << 20).as_secs();
        assert!((120..300).contains(&block), "{block}");
        assert!(finished_within(1 << 30).as_secs() > 10 * 60);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut connection, mut plugin) = (Frames::new(ours), Frames::new(theirs));
        plugin.send(&json!({ "published": "named" })).unwrap();
        let finished = finish(&mut connection, 1 << 30, 7).unwrap();
        assert_eq!(finished.published, "named");
        assert_eq!(plugin.receive::<BlockQuestion>().unwrap(), BlockQuestion::Finish { crc: 7 });
        // Whatever is asked next has as long as ever.
        let limit = connection.stream_mut().read_timeout().unwrap();
        assert_eq!(limit, Some(ANSWER_TIMEOUT));
    }
}
