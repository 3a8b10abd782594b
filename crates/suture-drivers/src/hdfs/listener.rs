//! Where NameNodes' plugins connect, and what each has to prove before it is asked anything.
//!
//! Place: before [stripes affected], of the coordinator's start.
//! A plugin connects and the coordinator asks: the NameNode has no port of ours, and both NameNodes
//! of a pair can be connected while one is active. With credentials both ends prove who they are,
//! by TLS 1.3; the plugin's certificate must have the role `keeper`, since whoever is believed here
//! says where data lie and what is lost.
//!
//! Who has not said who it is has one deadline for all of it, however the bytes come, and of such
//! connections only the newest stay: a NameNode says it at once.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};
use suture_repair::keeper::KeeperError;
use tracing::{info, warn};

use super::frame::{Frames, PROTOCOL};
use super::namenode::{NameNode, PluginGreeting, Question, Refusal, StateAnswer, Welcoming, ask};
use crate::identity::AccessRole;
use crate::identity::credentials::{Kept, Proven};
use crate::net::refusals::RefusalLog;

/// Who connects says at once who it is; all of that takes no longer.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections whose other end has not said who it is.
const UNKNOWN_MAX: usize = 16;

/// The plugin answers under the NameNode's lock, which others may hold for seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections that wait to be asked; a pair of NameNodes has two.
const WAITING_MAX: usize = 8;

/// The pause after the system gave no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a NameNode that was not the active one is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The bytes of a plugin's connection: as they are, or encrypted.
enum PluginWire {
    Plain(TimedSocket),
    Tls(Box<StreamOwned<ServerConnection, TimedSocket>>),
}

/// A socket whose reads take so long at most, or end by a deadline.
struct TimedSocket {
    tcp: TcpStream,
    until: Option<Instant>,
}

/// A plugin that has said who it is.
#[derive(Debug)]
pub struct PluginConnection {
    frames: Frames<PluginWire>,
    from: SocketAddr,
    proof: Option<Proven>,
    /// What it said of itself.
    pub greeting: PluginGreeting,
}

/// Takes connections in a thread of its own for as long as the process lives.
pub fn listen(listener: TcpListener, credentials: Option<Arc<Kept>>) -> Connections {
    let (sender, waiting) = sync_channel(WAITING_MAX);
    let unknown = Arc::new(UnknownPlugins::default());
    let accept = move || accept(&listener, credentials.as_ref(), &sender, &unknown);
    let thread = thread::Builder::new().name("hdfs-listener".into());
    thread.spawn(accept).expect("a thread can be started");
    Connections { waiting, known: Vec::new(), changes: 0, pool: None }
}

fn accept(
    listener: &TcpListener,
    credentials: Option<&Arc<Kept>>,
    taken: &SyncSender<PluginConnection>,
    unknown: &Arc<UnknownPlugins>,
) {
    loop {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("no connection of a NameNode can be accepted: {error}");
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let (credentials, taken, among) = (credentials.cloned(), taken.clone(), unknown.clone());
        let number = match unknown.enter(&stream) {
            Ok(number) => number,
            Err(error) => {
                unknown.refused.note(from, error);
                continue;
            }
        };
        let welcome = move || {
            let welcomed = PluginConnection::welcome(stream, from, credentials);
            among.leave(number);
            match welcomed {
                Ok(connection) => drop(taken.try_send(connection)),
                Err(error) => among.refused.note(from, format_args!("as a NameNode: {error}")),
            }
        };
        let thread = thread::Builder::new().name("hdfs-welcome".into());
        if let Err(error) = thread.spawn(welcome) {
            unknown.leave(number);
            warn!("{from} cannot be welcomed: {error}");
        }
    }
}

/// Connections whose other end has not said who it is, the oldest first.
#[derive(Default)]
struct UnknownPlugins {
    waiting: Mutex<(u64, VecDeque<(u64, TcpStream)>)>,
    refused: RefusalLog,
}

impl UnknownPlugins {
    /// One more; the oldest gives way where there are too many.
    fn enter(&self, stream: &TcpStream) -> io::Result<u64> {
        let own = stream.try_clone()?;
        let (next, waiting) = &mut *self.waiting();
        *next += 1;
        waiting.push_back((*next, own));
        if waiting.len() > UNKNOWN_MAX
            && let Some((_, oldest)) = waiting.pop_front()
        {
            // It may be gone by itself.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Ok(*next)
    }

    fn leave(&self, number: u64) {
        self.waiting().1.retain(|(of, _)| *of != number);
    }

    fn waiting(&self) -> MutexGuard<'_, (u64, VecDeque<(u64, TcpStream)>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginConnection {
    fn welcome(
        stream: TcpStream,
        from: SocketAddr,
        credentials: Option<Arc<Kept>>,
    ) -> io::Result<PluginConnection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(GREETING_TIMEOUT))?;
        let until = Some(Instant::now() + GREETING_TIMEOUT);
        let stream = TimedSocket { tcp: stream, until };
        let (wire, proof) = match credentials {
            None => (PluginWire::Plain(stream), None),
            Some(kept) => prove(stream, kept)?,
        };
        let mut frames = Frames::new(wire);
        let greeting: PluginGreeting = frames.receive()?;
        if greeting.protocol != PROTOCOL {
            let theirs = &greeting.protocol;
            let why = format!("the coordinator speaks {PROTOCOL}, the plugin {theirs}");
            let refusal = Refusal { error: "refused".into(), why: why.clone() };
            frames.send(&refusal)?;
            return Err(io::Error::other(why));
        }
        frames.send(&Welcoming { protocol: PROTOCOL.into() })?;
        let socket = frames.stream_mut().socket();
        socket.until = None;
        socket.tcp.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        socket.tcp.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(PluginConnection { frames, from, proof, greeting })
    }

    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        if let Some(Err(flaw)) = self.proof.as_ref().map(Proven::check) {
            return Err(KeeperError(format!("the certificate of the NameNode: {flaw}")));
        }
        self.frames.ask_json(question)
    }
}

/// Shakes hands, and has the other end prove that it is a keeper.
fn prove(mut stream: TimedSocket, kept: Arc<Kept>) -> io::Result<(PluginWire, Option<Proven>)> {
    let credentials = kept.current();
    let mut session =
        ServerConnection::new(credentials.server.clone()).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    let chain = session.peer_certificates().unwrap_or_default().to_vec();
    let proof = Proven::new(&chain, kept, credentials.number)
        .map_err(|flaw| io::Error::other(format!("its certificate: {flaw}")))?;
    let who = &proof.said.principal;
    if who.role != AccessRole::Keeper {
        let role = AccessRole::Keeper;
        return Err(io::Error::other(format!("it is {who}, and the role is {role}")));
    }
    Ok((PluginWire::Tls(Box::new(StreamOwned::new(session, stream))), Some(proof)))
}

/// The plugins that are connected, of which the active NameNode's is asked.
#[derive(Debug)]
pub struct Connections {
    waiting: Receiver<PluginConnection>,
    known: Vec<(PluginConnection, Standing)>,
    changes: u64,
    /// The first block pool that was heard of: other NameNodes must have the same.
    pool: Option<String>,
}

/// How a NameNode has last answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Active,
    /// Asked again from then on.
    Other(Instant),
}

impl Connections {
    /// How often another NameNode, or another connection of one, has come to be asked.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The active one, if any is.
    fn active(&mut self) -> Option<usize> {
        while let Ok(connection) = self.waiting.try_recv() {
            self.take(connection);
        }
        let is_active =
            |(_, standing): &(PluginConnection, Standing)| *standing == Standing::Active;
        if let Some(active) = self.known.iter().position(is_active) {
            return Some(active);
        }
        let now = Instant::now();
        for index in (0..self.known.len()).rev() {
            let (connection, standing) = &mut self.known[index];
            if matches!(standing, Standing::Other(at) if *at > now) {
                continue;
            }
            *standing = Standing::Other(now + ASK_AGAIN);
            let state: Result<StateAnswer, _> = ask(connection, &Question::State);
            match state {
                Ok(StateAnswer { active: true }) => {
                    *standing = Standing::Active;
                    self.changes += 1;
                    info!(at = %connection.from, "the active NameNode is connected");
                    return Some(index);
                }
                Ok(StateAnswer { active: false }) => {}
                Err(why) => {
                    warn!(at = %connection.from, %why, "a NameNode is lost");
                    self.known.remove(index);
                }
            }
        }
        None
    }

    fn take(&mut self, connection: PluginConnection) {
        let pool = self.pool.get_or_insert_with(|| connection.greeting.pool.clone());
        if *pool != connection.greeting.pool {
            let (at, theirs) = (connection.from, &connection.greeting.pool);
            return warn!("the NameNode at {at} is of {theirs}, not of {pool}: it is not asked");
        }
        info!(at = %connection.from, hadoop = connection.greeting.hadoop, "a NameNode connected");
        self.known.push((connection, Standing::Other(Instant::now())));
    }
}

impl NameNode for Connections {
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        let none = || KeeperError("no active NameNode is connected".into());
        let active = self.active().ok_or_else(none)?;
        let (connection, standing) = &mut self.known[active];
        match connection.ask_json(question) {
            Ok(answer) if answer.get("error").is_some_and(|error| error == "standby") => {
                *standing = Standing::Other(Instant::now() + ASK_AGAIN);
                Err(none())
            }
            Ok(answer) => Ok(answer),
            Err(why) => {
                warn!(at = %connection.from, %why, "the NameNode is lost");
                self.known.remove(active);
                Err(why)
            }
        }
    }
}

impl NameNode for PluginConnection {
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        PluginConnection::ask_json(self, question)
    }
}

impl PluginWire {
    fn socket(&mut self) -> &mut TimedSocket {
        match self {
            PluginWire::Plain(stream) => stream,
            PluginWire::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for TimedSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(silent());
            }
            self.tcp.set_read_timeout(Some(left))?;
        }
        // A socket's timeout is told as what it would be without one.
        self.tcp.read(into).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => silent(),
            _ => error,
        })
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

fn silent() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not answer")
}

impl Read for PluginWire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            PluginWire::Plain(stream) => stream.read(into),
            PluginWire::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for PluginWire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PluginWire::Plain(stream) => stream.write(bytes),
            PluginWire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            PluginWire::Plain(stream) => stream.flush(),
            PluginWire::Tls(stream) => stream.flush(),
        }
    }
}

impl fmt::Debug for PluginWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PluginWire::Plain(_) => "PluginWire::Plain",
            PluginWire::Tls(_) => "PluginWire::Tls",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> (SocketAddr, Connections) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (listener.local_addr().unwrap(), listen(listener, None))
    }

    #[test]
    fn of_strangers_who_say_nothing_only_the_newest_stay() {
        let (address, connections) = listener();
        let connect = |_| TcpStream::connect(address).unwrap();
        let mut strangers: Vec<TcpStream> = (0..3 * UNKNOWN_MAX).map(connect).collect();
        // Those that gave way are at their end.
        for stranger in &mut strangers[..2 * UNKNOWN_MAX] {
            stranger.set_read_timeout(Some(GREETING_TIMEOUT / 2)).unwrap();
            assert!(
                !matches!(stranger.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
            );
        }
        let mut plugin = Frames::new(connect(0));
        plugin
            .send(&serde_json::json!({
                "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": "BP-1",
            }))
            .unwrap();
        let _: serde_json::Value = plugin.receive().unwrap();
        let taken = connections.waiting.recv_timeout(GREETING_TIMEOUT).unwrap();
        assert_eq!(taken.greeting.pool, "BP-1");
    }

    #[test]
    fn bytes_that_trickle_do_not_move_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (tcp, _) = listener.accept().unwrap();
        let until = Some(Instant::now() + Duration::from_millis(300));
        let trickle = thread::spawn(move || {
            while other.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut socket = TimedSocket { tcp, until };
        let error = socket.read_exact(&mut vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(socket);
        trickle.join().unwrap();
    }
}
