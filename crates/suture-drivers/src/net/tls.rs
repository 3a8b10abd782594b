//! The bytes of one connection: as they are, or encrypted.
//!
//! Place: under each [`Connection`](super::connection::Connection) of the data plane.
//! A gigabyte a second leaves no time for copies, so the library is given our own buffers: what is
//! received is read in large pieces and decrypted where it lies, and goes to the reader in one
//! copy; what is sent is encrypted into one buffer and leaves in one call. Records have 16 KiB, a
//! piece some of them.
//!
//! Both kinds behave as a non-blocking socket does: whoever would have to wait is told so, waits
//! for the socket and tries again. What was written may still be here: `flush` says whether.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::net::RecvFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;

/// What is received at a time: the records of a slice, each with its header, type and tag.
const RECEIVED_BYTES: usize = 16 * RECORD_BYTES;

/// What may wait of a handshake: messages are as long as certificates are, and may span records.
const HANDSHAKE_BYTES: usize = 4 * RECORD_BYTES;

/// A record with all that belongs to it.
const RECORD_BYTES: usize = (16 << 10) + OVERHEAD_BYTES;

/// What a record adds to its bytes: header, type, tag.
const OVERHEAD_BYTES: usize = 5 + 1 + 16;

/// What is encrypted before it is sent: a slice.
const SENT_BYTES: usize = 16 * (16 << 10);

/// What a change of keys adds to what is encrypted, every some gigabytes.
const KEY_UPDATE_BYTES: usize = 64;

/// The bytes of a connection.
#[derive(Debug)]
pub enum Stream {
    /// They pass as they are.
    Plain(TcpStream),
    /// They pass through TLS, encrypted.
    Tls(Box<TlsStream>),
}

/// A connection whose bytes are encrypted.
#[derive(Debug)]
pub struct TlsStream {
    tcp: TcpStream,
    session: TlsSession,
    /// What was received and not decrypted yet.
    received: Queue,
    /// What was decrypted and not read yet: less than a record.
    plain: Queue,
    /// What was encrypted and not sent yet.
    encrypted: Queue,
    /// The other side sends no more.
    is_closed: bool,
}

/// Bytes that wait, in a buffer that grows as needed.
#[derive(Debug, Default)]
struct Queue {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

/// Buffers that are filled one after the other.
struct Scatter<'a, 'b> {
    parts: &'a mut [IoSliceMut<'b>],
    /// The buffer that is next, and how much of it is filled.
    at: (usize, usize),
    filled: usize,
}

enum TlsSession {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Something was done; there may be more.
    Again,
    /// Nothing, until more is received.
    Receive,
    /// Nothing: the handshake is over, and all that was received is decrypted.
    Idle,
    /// Nothing more will come.
    Closed,
}

impl Stream {
    /// The socket that carries them.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &tls.tcp,
        }
    }

    /// Whether nothing came that was not read.
    pub fn is_idle(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let nothing = rustix::net::recv(self.tcp(), &mut [0; 1], flags);
        let is_empty = match self {
            Stream::Plain(_) => true,
            Stream::Tls(tls) => tls.is_empty(),
        };
        is_empty && matches!(nothing, Err(rustix::io::Errno::WOULDBLOCK))
    }

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Tls(tls) if !tls.plain.is_empty() => Ok(()),
            // Whoever tries to read meets an error of the socket's before nothing is there.
            _ => self.tcp().readable().await,
        }
    }

    /// Waits until something can be sent.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn writable(&self) -> io::Result<()> {
        self.tcp().writable().await
    }

    /// Reads into the buffers, one after the other; 0: the other side sends no more.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; when the connection breaks, or what comes is damaged.
    pub fn try_read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.try_read_vectored(parts),
            Stream::Tls(tls) => tls.try_read_vectored(parts),
        }
    }

    /// Takes of the buffers what can be sent, or will be by `flush`; gives how much.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be taken; when the connection breaks.
    pub fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.try_write_vectored(parts),
            Stream::Tls(tls) => tls.try_write_vectored(parts),
        }
    }

    /// Sends what was taken.
    ///
    /// # Errors
    /// `WouldBlock` when some of it is left; when the connection breaks.
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.try_flush(),
        }
    }

    /// Gives back the memory of buffers that hold nothing: this may wait for long.
    pub fn rest(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.rest();
        }
    }
}

impl TlsStream {
    /// Shakes hands as the side that connected. The other side may still refuse: it says so when
    /// something is read.
    ///
    /// # Errors
    /// When the connection breaks, or the other side does not speak TLS or is not to be believed.
    pub async fn connect(tcp: TcpStream, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
        // Whom a certificate is of is not a name of a host: it is looked at afterwards.
        let nobody = ServerName::try_from("suture").expect("it is a name");
        let session = UnbufferedClientConnection::new(config.clone(), nobody);
        TlsStream::shake(tcp, TlsSession::Client(session.map_err(io::Error::other)?)).await
    }

    /// Shakes hands as the side that was connected to.
    ///
    /// # Errors
    /// As [`TlsStream::connect`].
    pub async fn accept(tcp: TcpStream, config: &Arc<ServerConfig>) -> io::Result<TlsStream> {
        let session = UnbufferedServerConnection::new(config.clone());
        TlsStream::shake(tcp, TlsSession::Server(session.map_err(io::Error::other)?)).await
    }

    /// The certificates that the other side showed, its own first.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        let certificates = match &self.session {
            TlsSession::Client(client) => client.peer_certificates(),
            TlsSession::Server(server) => server.peer_certificates(),
        };
        certificates.unwrap_or_default()
    }

    async fn shake(tcp: TcpStream, session: TlsSession) -> io::Result<TlsStream> {
        let mut tls = TlsStream {
            tcp,
            session,
            received: Queue::default(),
            plain: Queue::default(),
            encrypted: Queue::default(),
            is_closed: false,
        };
        loop {
            // What comes right behind the handshake is kept.
            let mut plain = std::mem::take(&mut tls.plain);
            let result = tls.step(&mut |record| plain.append(record));
            tls.plain = plain;
            if result.is_err() {
                // An alert says why it ends here.
                let _ = tls.step(&mut |_| ());
            }
            tls.flush().await?;
            match result? {
                Step::Again => {}
                Step::Idle => return Ok(tls),
                Step::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                Step::Receive => {
                    tls.tcp.readable().await?;
                    match tls.receive(HANDSHAKE_BYTES) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.received.is_empty() && self.plain.is_empty()
    }

    fn try_read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut to = Scatter { parts, at: (0, 0), filled: 0 };
        let mut plain = std::mem::take(&mut self.plain);
        plain.consume(to.fill(plain.bytes()));
        while plain.is_empty() && !to.is_full() {
            let step = self.step(&mut |record| {
                let taken = to.fill(record);
                plain.append(&record[taken..]);
            });
            match step {
                Ok(Step::Again) => {}
                Err(error) => return Err(error),
                Ok(_) if to.filled > 0 || self.is_closed => break,
                Ok(Step::Closed) => self.is_closed = true,
                Ok(Step::Receive | Step::Idle) => {
                    self.is_closed = self.receive(RECEIVED_BYTES)? == 0
                }
            }
        }
        self.plain = plain;
        Ok(to.filled)
    }

    fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_flush()?;
        let mut taken = 0;
        for part in parts {
            let part = &part[..part.len().min(SENT_BYTES - taken)];
            if !part.is_empty() {
                self.encrypt(part)?;
                taken += part.len();
            }
        }
        match self.try_flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        while !self.encrypted.is_empty() {
            match self.tcp.try_write(self.encrypted.bytes())? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => self.encrypted.consume(sent),
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.try_flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.tcp.writable().await?,
                result => return result,
            }
        }
    }

    fn rest(&mut self) {
        for queue in [&mut self.received, &mut self.plain, &mut self.encrypted] {
            if queue.is_empty() {
                *queue = Queue::default();
            }
        }
    }

    /// Reads more of what is encrypted, until so many bytes wait; 0: the other side sends no more.
    fn receive(&mut self, most: usize) -> io::Result<usize> {
        let spare = self.received.spare(most);
        if spare.is_empty() {
            return Err(io::Error::other("a message is longer than those of TLS are"));
        }
        let bytes = self.tcp.try_read(spare)?;
        self.received.fill(bytes);
        Ok(bytes)
    }
}

impl TlsStream {
    /// Does the next thing: decrypts one record for `take`, or encodes what a handshake needs.
    fn step(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<Step> {
        let received = self.received.bytes_mut();
        let (used, step) = match &mut self.session {
            TlsSession::Client(client) => {
                perform(client.process_tls_records(received), take, &mut self.encrypted)
            }
            TlsSession::Server(server) => {
                perform(server.process_tls_records(received), take, &mut self.encrypted)
            }
        };
        self.received.consume(used);
        step.map_err(io::Error::other)
    }

    /// Encrypts bytes behind those that wait to be sent.
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            // What was received comes along: the library remembers how far it has come in it.
            let received = self.received.bytes_mut();
            let to = (&mut self.plain, &mut self.encrypted);
            let (used, result) = match &mut self.session {
                TlsSession::Client(client) => {
                    encrypt(client.process_tls_records(received), bytes, to)
                }
                TlsSession::Server(server) => {
                    encrypt(server.process_tls_records(received), bytes, to)
                }
            };
            self.received.consume(used);
            if result? {
                return Ok(());
            }
        }
    }
}

// Nothing of it is for logs: it has keys.
impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSession")
    }
}

/// Does what the library asks for next; gives how much of what was received is used up.
fn perform<Data>(
    UnbufferedStatus { discard, state, .. }: UnbufferedStatus<'_, '_, Data>,
    take: &mut dyn FnMut(&[u8]),
    encrypted: &mut Queue,
) -> (usize, Result<Step, rustls::Error>) {
    let state = match state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let mut used = discard;
    let step = match state {
        ConnectionState::ReadTraffic(mut records) => {
            while let Some(record) = records.next_record() {
                match record {
                    Ok(record) => {
                        take(record.payload);
                        used += record.discard;
                    }
                    Err(error) => return (used, Err(error)),
                }
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut message) => {
            encode(&mut message, encrypted);
            Step::Again
        }
        // What was encoded is kept here, in order.
        ConnectionState::TransmitTlsData(message) => {
            message.done();
            Step::Again
        }
        ConnectionState::BlockedHandshake => Step::Receive,
        ConnectionState::WriteTraffic(_) => Step::Idle,
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::Closed,
        // Neither side sends anything before the handshake is over.
        _ => return (used, Err(rustls::Error::General("an unknown state".into()))),
    };
    (used, Ok(step))
}

/// Encrypts the bytes, if nothing comes before them: records that were received, for `plain`, and
/// messages of the library's own. Gives how much of what was received is used up, and whether the
/// bytes are encrypted.
fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    bytes: &[u8],
    (plain, encrypted): (&mut Queue, &mut Queue),
) -> (usize, io::Result<bool>) {
    if let UnbufferedStatus {
        discard, state: Ok(ConnectionState::WriteTraffic(mut traffic)), ..
    } = status
    {
        let records = bytes.len() / (16 << 10) + 1;
        let to = encrypted.more(bytes.len() + records * OVERHEAD_BYTES + KEY_UPDATE_BYTES);
        let written = traffic.encrypt(bytes, to).map_err(io::Error::other);
        encrypted.fill(*written.as_ref().unwrap_or(&0));
        return (discard, written.map(|_| true));
    }
    let (used, step) = perform(status, &mut |record| plain.append(record), encrypted);
    let step = step.map_err(io::Error::other);
    (
        used,
        step.and_then(|step| match step {
            Step::Again => Ok(false),
            Step::Receive | Step::Idle | Step::Closed => Err(ErrorKind::BrokenPipe.into()),
        }),
    )
}

/// Puts a message of the handshake behind what waits to be sent.
fn encode<Data>(message: &mut EncodeTlsData<'_, Data>, encrypted: &mut Queue) {
    let needed = match message.encode(&mut []) {
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Ok(_) | Err(EncodeError::AlreadyEncoded) => return,
    };
    let written = message.encode(encrypted.more(needed)).expect("it asked for so much");
    encrypted.fill(written);
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.from..self.to]
    }

    fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        assert!(self.from <= self.to, "only what is there can be consumed");
    }

    /// Space for all that a buffer of `size` bytes has beside what waits.
    fn spare(&mut self, size: usize) -> &mut [u8] {
        let waiting = self.to - self.from;
        self.more(size.saturating_sub(waiting))
    }

    /// Space for so many bytes more.
    fn more(&mut self, bytes: usize) -> &mut [u8] {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        if self.buffer.len() < self.to + bytes {
            self.buffer.resize(self.to + bytes, 0);
        }
        &mut self.buffer[self.to..self.to + bytes]
    }

    /// So many bytes were put into the space.
    fn fill(&mut self, bytes: usize) {
        self.to += bytes;
        assert!(self.to <= self.buffer.len(), "only into space can be filled");
    }

    fn append(&mut self, bytes: &[u8]) {
        self.more(bytes.len()).copy_from_slice(bytes);
        self.fill(bytes.len());
    }
}

impl Scatter<'_, '_> {
    fn is_full(&self) -> bool {
        self.parts[self.at.0..].iter().enumerate().all(|(index, part)| {
            let filled = if index == 0 { self.at.1 } else { 0 };
            part.len() == filled
        })
    }

    /// Copies what there is place for; gives how much that was.
    fn fill(&mut self, mut bytes: &[u8]) -> usize {
        let before = self.filled;
        while let Some(part) = self.parts.get_mut(self.at.0) {
            let space = &mut part[self.at.1..];
            let now = space.len().min(bytes.len());
            space[..now].copy_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            self.filled += now;
            self.at.1 += now;
            if bytes.is_empty() {
                break;
            }
            self.at = (self.at.0 + 1, 0);
        }
        self.filled - before
    }
}
