//! A connection with a NameNode's plugin: what the other end has to prove, and how it is asked.
//!
//! Place: before [stripes affected]: taken by `listener.rs`, asked by `connections.rs`.
//! With credentials both ends prove who they are, by TLS 1.3; the plugin's certificate must have
//! the role `keeper`, since a plugin that is accepted here reports where data lie and what is lost.
//! Its certificate is looked at again with each question.
//!
//! All NameNodes of a coordinator are of one block pool, that of the first: ids of groups and of
//! blocks are unique only within it. The handshake of another one is answered by a refusal and
//! its reason.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};
use suture_repair::keeper::KeeperError;

use super::frame::{Frames, PROTOCOL};
use super::namenode::{NameNode, PluginHandshake, Question, Refusal, StateAnswer, Welcoming, ask};
use crate::identity::AccessRole;
use crate::identity::credentials::{Kept, Proven};

/// A plugin that connects announces its identity at once; all of that takes no longer.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The plugin answers under the NameNode's lock, which others may hold for seconds.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

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

/// A plugin that has identified itself.
#[derive(Debug)]
pub struct PluginConnection {
    frames: Frames<PluginWire>,
    pub(super) from: SocketAddr,
    proof: Option<Proven>,
    /// What it announced of itself.
    pub handshake: PluginHandshake,
}

impl PluginConnection {
    /// Has the other end prove its identity and announce what it speaks, and of which block pool it
    /// is: that of `pool`, or the first there.
    pub(super) fn welcome(
        stream: TcpStream,
        from: SocketAddr,
        credentials: Option<Arc<Kept>>,
        pool: &OnceLock<String>,
    ) -> io::Result<PluginConnection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
        let until = Some(Instant::now() + HANDSHAKE_TIMEOUT);
        let stream = TimedSocket { tcp: stream, until };
        let (wire, proof) = match credentials {
            None => (PluginWire::Plain(stream), None),
            Some(kept) => prove(stream, kept)?,
        };
        let mut frames = Frames::new(wire);
        let handshake: PluginHandshake = frames.receive()?;
        if let Some(why) = refusal(&handshake, pool) {
            frames.send(&Refusal { error: "refused".into(), why: why.clone() })?;
            return Err(io::Error::other(why));
        }
        frames.send(&Welcoming { protocol: PROTOCOL.into() })?;
        let socket = frames.stream_mut().socket();
        socket.until = None;
        socket.tcp.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        socket.tcp.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(PluginConnection { frames, from, proof, handshake })
    }

    /// Whether it is the active NameNode, if it answers within this time.
    pub(super) fn state(&mut self, timeout: Duration) -> Result<StateAnswer, KeeperError> {
        self.wait_at_most(timeout)?;
        let state = ask(self, &Question::State);
        self.wait_at_most(ANSWER_TIMEOUT)?;
        state
    }

    fn wait_at_most(&mut self, timeout: Duration) -> Result<(), KeeperError> {
        let set = self.frames.stream_mut().socket().tcp.set_read_timeout(Some(timeout));
        set.map_err(|error| KeeperError(error.to_string()))
    }
}

impl NameNode for PluginConnection {
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        if let Some(Err(flaw)) = self.proof.as_ref().map(Proven::check) {
            return Err(KeeperError(format!("the certificate of the NameNode: {flaw}")));
        }
        self.frames.ask_json(question)
    }
}

/// Why a plugin with this handshake is not asked anything.
fn refusal(handshake: &PluginHandshake, pool: &OnceLock<String>) -> Option<String> {
    let PluginHandshake { protocol, pool: theirs, .. } = handshake;
    if *protocol != PROTOCOL {
        return Some(format!("the coordinator speaks {PROTOCOL}, the plugin {protocol}"));
    }
    let own = pool.get_or_init(|| theirs.clone());
    let why = || {
        format!(
            "this coordinator serves {own}, not {theirs}: each namespace has a coordinator of its own"
        )
    };
    (own != theirs).then(why)
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
    let who = &proof.statement.principal;
    if who.role != AccessRole::Keeper {
        let role = AccessRole::Keeper;
        return Err(io::Error::other(format!("it is {who}, and the role is {role}")));
    }
    Ok((PluginWire::Tls(Box::new(StreamOwned::new(session, stream))), Some(proof)))
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
        // A timeout of the socket counts as silence, as one of the handshake does.
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
    use std::net::TcpListener;
    use std::thread;

    use super::*;

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

    #[test]
    fn the_first_namenode_says_which_block_pool_all_others_must_have() {
        let handshake = |protocol: &str, pool: &str| PluginHandshake {
            protocol: protocol.into(),
            hadoop: "3.4.2".into(),
            pool: pool.into(),
            condemns: true,
        };
        let pool = OnceLock::new();
        // The pool of a plugin that speaks another protocol does not count.
        let other = refusal(&handshake("suture-hdfs-0", "BP-9"), &pool).unwrap();
        assert!(other.contains(PROTOCOL) && other.contains("suture-hdfs-0"), "{other}");
        assert_eq!(refusal(&handshake(PROTOCOL, "BP-1"), &pool), None);
        assert_eq!(refusal(&handshake(PROTOCOL, "BP-1"), &pool), None, "the other of a pair");
        let other = refusal(&handshake(PROTOCOL, "BP-2"), &pool).unwrap();
        assert!(other.starts_with("this coordinator serves BP-1, not BP-2"), "{other}");
    }
}
