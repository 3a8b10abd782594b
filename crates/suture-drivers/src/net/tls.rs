//! The bytes of one connection: as they are, or encrypted.
//!
//! Place: under each [`Connection`](super::connection::Connection) of the data plane.
//! A gigabyte a second leaves no time for copies. A slice that is sent is encrypted where it lies
//! (`in_place.rs`); what has to stay as it is, into a buffer of a size that stays in a cache.
//! Either leaves in one call. Large payload is received where it is wanted: the socket's bytes are
//! read into the reader's own space, and each record is decrypted to where its plaintext belongs, a
//! little before where it came. What is cut off at the end of the space waits for the next call;
//! what is small, such as a header, is decrypted in a buffer.
//!
//! Both kinds behave as a non-blocking socket does: a call that would have to wait returns that,
//! and its caller waits for the socket and tries again. What was written may still be here: `flush`
//! returns whether.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::net::RecvFlags;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;

use super::handshake::{self, KeySource, Shaken};
use super::in_place::Fringe;
use super::queue::Queue;
use super::records::{
    KEY_UPDATE_BYTES, Keys, OVERHEAD_BYTES, Opened, PLAIN_BYTES, RECORD_BYTES, record_bytes,
};

/// What is encrypted before it is sent.
const SENT_BYTES: usize = 8 * PLAIN_BYTES;

/// So many records without data may follow each other: a reader does not wait between them, and
/// could be kept busy for ever.
const EMPTY_RECORDS_MAX: u32 = 32;

/// Space into which it is worth to receive directly.
const DIRECT_BYTES: usize = 2 * RECORD_BYTES;

/// The bytes of a connection.
#[derive(Debug)]
pub enum Stream {
    /// They pass as they are.
    Plain(TcpStream),
    /// They pass through TLS, encrypted.
    Tls(Box<TlsStream>),
}

/// A connection whose bytes are encrypted.
pub struct TlsStream {
    tcp: TcpStream,
    certificates: Vec<CertificateDer<'static>>,
    sealer: Keys,
    opener: Keys,
    source: KeySource,
    /// What was received and not decrypted yet.
    received: Queue,
    /// What was decrypted and not read yet.
    plain: Queue,
    /// What was encrypted and not sent yet.
    encrypted: Queue,
    /// What lies around a payload that was encrypted where it lies.
    fringe: Fringe,
    /// How many records without data came last.
    empty_records: u32,
    /// The other side sends no more.
    is_closed: bool,
}

/// Buffers that are filled one after the other.
struct Scatter<'a, 'b> {
    parts: &'a mut [IoSliceMut<'b>],
    /// The buffer that is next, and how much of it is filled.
    at: (usize, usize),
    filled: usize,
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
            // A read that is tried meets an error of the socket before it finds nothing there.
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

    /// Sends what [`TlsStream::seal`] has encrypted where it lies, but for the first `sent` bytes
    /// of it; gives how much left.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be sent; when the connection breaks.
    pub fn try_send_sealed(&mut self, payload: &[u8], sent: usize) -> io::Result<usize> {
        match self {
            Stream::Plain(_) => unreachable!("it is not encrypted"),
            Stream::Tls(tls) => tls.try_send_sealed(payload, sent),
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

    /// How much was encrypted and did not leave yet.
    pub fn unsent(&self) -> usize {
        match self {
            Stream::Plain(_) => 0,
            Stream::Tls(tls) => tls.encrypted.len(),
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
    /// Shakes hands as the side that connected. The other side may still refuse: it reports that
    /// when something is read.
    ///
    /// # Errors
    /// When the connection breaks, or the other side does not speak TLS or is not to be accepted.
    pub async fn connect(tcp: TcpStream, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
        let shaken = handshake::connect(&tcp, config).await?;
        Ok(TlsStream::new(tcp, shaken))
    }

    /// Shakes hands as the side that was connected to.
    ///
    /// # Errors
    /// As [`TlsStream::connect`].
    pub async fn accept(tcp: TcpStream, config: &Arc<ServerConfig>) -> io::Result<TlsStream> {
        let shaken = handshake::accept(&tcp, config).await?;
        Ok(TlsStream::new(tcp, shaken))
    }

    fn new(tcp: TcpStream, shaken: Shaken) -> TlsStream {
        let Shaken { certificates, keys: (sealer, opener), source, received, plain } = shaken;
        let (encrypted, fringe, is_closed) = (Queue::default(), Fringe::default(), false);
        TlsStream {
            tcp,
            certificates,
            sealer,
            opener,
            source,
            received,
            plain,
            encrypted,
            fringe,
            empty_records: 0,
            is_closed,
        }
    }

    /// The certificates that the other side showed, its own first.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    fn is_empty(&self) -> bool {
        self.received.is_empty() && self.plain.is_empty()
    }

    fn try_read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut to = Scatter { parts, at: (0, 0), filled: 0 };
        self.plain.consume(to.fill(self.plain.bytes()));
        while self.plain.is_empty() && !to.is_full() && !self.is_closed {
            if let Some(bytes) = record_bytes(self.received.bytes()).map_err(io::Error::other)?
                && bytes <= self.received.len()
            {
                self.open_received(bytes, &mut to)?;
            } else if to.filled > 0 {
                break;
            } else if to.space().len() >= DIRECT_BYTES && self.received.len() < RECORD_BYTES {
                let filled = self.receive_into(to.space())?;
                to.advance(filled);
            } else {
                self.receive()?;
            }
        }
        Ok(to.filled)
    }

    /// Decrypts the next record, of so many bytes, where it waits.
    fn open_received(&mut self, bytes: usize, to: &mut Scatter<'_, '_>) -> io::Result<()> {
        let record = &mut self.received.bytes_mut()[..bytes];
        let opened = self.opener.open(record, 0).map_err(io::Error::other)?;
        if let Opened::Data(length) = opened {
            let taken = to.fill(&record[..length]);
            self.plain.append(&record[taken..length]);
        }
        self.received.consume(bytes);
        self.note(opened)
    }

    /// Receives into the space and decrypts there, as far as whole records come; gives how much of
    /// the space is filled.
    fn receive_into(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let waiting = self.received.len();
        space[..waiting].copy_from_slice(self.received.bytes());
        let (tcp, behind) = (&self.tcp, self.received.behind(RECORD_BYTES, RECORD_BYTES));
        let bytes = tcp.try_read_vectored(&mut [
            IoSliceMut::new(&mut space[waiting..]),
            IoSliceMut::new(behind),
        ])?;
        self.is_closed = bytes == 0;
        let there = space.len().min(waiting + bytes);
        let (mut filled, mut from) = (0, 0);
        // What comes behind its last word is not its own.
        while !self.is_closed
            && let Some(bytes) = record_bytes(&space[from..there]).map_err(io::Error::other)?
            && from + bytes <= there
        {
            let opened = self.opener.open(&mut space[filled..from + bytes], from - filled);
            let opened = opened.map_err(io::Error::other)?;
            from += bytes;
            if let Opened::Data(length) = opened {
                filled += length;
            }
            self.note(opened)?;
        }
        if self.is_closed {
            self.received.consume(waiting);
        } else {
            self.received.put_before(&space[from..there], RECORD_BYTES, waiting + bytes - there);
        }
        Ok(filled)
    }

    /// Receives into the buffer, until it has a record, or what waits in front of one.
    fn receive(&mut self) -> io::Result<()> {
        let bytes = self.tcp.try_read(self.received.spare(RECORD_BYTES))?;
        self.received.fill(bytes);
        self.is_closed = bytes == 0;
        Ok(())
    }

    /// Does what a record asks for besides being read.
    fn note(&mut self, opened: Opened) -> io::Result<()> {
        self.empty_records = match opened {
            Opened::Data(length) if length > 0 => 0,
            _ => self.empty_records + 1,
        };
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(io::Error::other("one record after the other without data"));
        }
        match opened {
            Opened::Data(_) | Opened::Nothing => {}
            Opened::Closed => self.is_closed = true,
            Opened::NewKeys { requested } => {
                self.opener = self.source.next_received().map_err(io::Error::other)?;
                if requested {
                    self.sealer.retire();
                }
            }
        }
        Ok(())
    }

    fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_flush()?;
        let mut taken = 0;
        for piece in parts.iter().flat_map(|part| part.chunks(PLAIN_BYTES)) {
            if taken + piece.len() > SENT_BYTES {
                break;
            }
            if self.sealer.are_worn() {
                self.renew_keys()?;
            }
            let record = piece.len() + OVERHEAD_BYTES;
            let sealed = self.sealer.seal(piece, self.encrypted.more(record));
            sealed.map_err(io::Error::other)?;
            self.encrypted.fill(record);
            taken += piece.len();
        }
        match self.try_flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Encrypts `headers`, and `payload` where it lies, to be sent by [`Stream::try_send_sealed`];
    /// gives how many bytes that is.
    ///
    /// # Errors
    /// When there are no more keys.
    pub fn seal(&mut self, headers: &[u8], payload: &mut [u8]) -> io::Result<usize> {
        if self.sealer.are_worn() {
            self.renew_keys()?;
        }
        self.fringe.seal(&mut self.sealer, headers, payload).map_err(io::Error::other)
    }

    fn try_send_sealed(&mut self, payload: &[u8], sent: usize) -> io::Result<usize> {
        self.try_flush()?;
        match self.tcp.try_write_vectored(&self.fringe.parts(payload, sent))? {
            0 => Err(ErrorKind::WriteZero.into()),
            sent => Ok(sent),
        }
    }

    /// Keeps what is left of a payload that was encrypted where it lies, but for the first `sent`
    /// bytes of it: `flush` sends it, and the payload's own space is free.
    pub fn keep_sealed(&mut self, payload: &[u8], sent: usize) {
        for part in self.fringe.parts(payload, sent) {
            self.encrypted.append(&part);
        }
    }

    /// Encrypts with the next keys from now on, and announces that.
    fn renew_keys(&mut self) -> io::Result<()> {
        let word = self.sealer.seal_key_update(self.encrypted.more(KEY_UPDATE_BYTES));
        word.map_err(io::Error::other)?;
        self.encrypted.fill(KEY_UPDATE_BYTES);
        self.sealer = self.source.next_sent().map_err(io::Error::other)?;
        Ok(())
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

    fn rest(&mut self) {
        for queue in [&mut self.received, &mut self.plain, &mut self.encrypted] {
            if queue.is_empty() {
                *queue = Queue::default();
            }
        }
        self.fringe = Fringe::default();
    }
}

// Nothing of it is for logs: it has keys.
impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl Scatter<'_, '_> {
    fn is_full(&self) -> bool {
        self.parts[self.at.0..].iter().enumerate().all(|(index, part)| {
            let filled = if index == 0 { self.at.1 } else { 0 };
            part.len() == filled
        })
    }

    /// What is to be filled next: all of a buffer, or the rest of it.
    fn space(&mut self) -> &mut [u8] {
        while self.parts.get(self.at.0).is_some_and(|part| part.len() == self.at.1) {
            self.at = (self.at.0 + 1, 0);
        }
        self.parts.get_mut(self.at.0).map_or(&mut [], |part| &mut part[self.at.1..])
    }

    /// So much of the space was filled.
    fn advance(&mut self, bytes: usize) {
        self.at.1 += bytes;
        self.filled += bytes;
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, SystemTime};

    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, StreamOwned};
    use suture_repair::random::Random;
    use tokio::net::TcpListener;

    use super::super::records::RECORDS_MAX;
    use super::*;
    use crate::identity::authority::Authority;
    use crate::identity::credentials::Credentials;
    use crate::identity::{AccessRole, Principal};

    const SIZES: [usize; 8] = [1, 64, 1000, 16 << 10, 17_000, 40_000, 256 << 10, 300_000];

    fn credentials() -> Credentials {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let authority = Authority::create(&dir.path().join("authority"), "tests", now).unwrap();
        let (who, out) = (Principal::new(AccessRole::Agent, "n1").unwrap(), dir.path().join("own"));
        authority.issue(&who, Duration::from_secs(3600), &out, now).unwrap();
        Credentials::read(&out, now).unwrap()
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut noise = vec![0; bytes];
        Random::new(bytes as u64).fill(&mut noise);
        noise
    }

    /// Both ends of a connection.
    async fn pair(credentials: &Credentials) -> (TlsStream, TlsStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = async {
            let tcp = TcpStream::connect(address).await.unwrap();
            TlsStream::connect(tcp, &credentials.client).await.unwrap()
        };
        let server = async {
            let (tcp, _) = listener.accept().await.unwrap();
            TlsStream::accept(tcp, &credentials.server).await.unwrap()
        };
        tokio::join!(client, server)
    }

    /// Sends the bytes, now in large pieces and now in small ones, two at a time, and now and then
    /// encrypts them where they lie.
    async fn send(stream: &mut Stream, mut bytes: &[u8], seed: u64) {
        let mut random = Random::new(seed);
        while !bytes.is_empty() {
            let at = SIZES[random.below(8) as usize].min(bytes.len());
            let end = (at + SIZES[random.below(8) as usize]).min(bytes.len());
            if end > at && random.below(2) == 0 {
                send_in_place(stream, &bytes[..at], bytes[at..end].to_vec()).await;
                bytes = &bytes[end..];
                continue;
            }
            let parts = [IoSlice::new(&bytes[..at]), IoSlice::new(&bytes[at..end])];
            match stream.try_write_vectored(&parts) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stream.writable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        while let Err(error) = stream.try_flush() {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            stream.writable().await.unwrap();
        }
    }

    async fn send_in_place(stream: &mut Stream, headers: &[u8], mut payload: Vec<u8>) {
        let Stream::Tls(tls) = &mut *stream else { unreachable!() };
        let (bytes, mut sent) = (tls.seal(headers, &mut payload).unwrap(), 0);
        while sent < bytes {
            match stream.try_send_sealed(&payload, sent) {
                Ok(now) => sent += now,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stream.writable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Receives so many bytes into pieces of any size.
    async fn receive(stream: &mut Stream, bytes: usize, seed: u64) -> Vec<u8> {
        let (mut random, mut all) = (Random::new(seed), Vec::new());
        while all.len() < bytes {
            let mut sizes = [(); 2].map(|()| SIZES[random.below(8) as usize]);
            sizes[0] = sizes[0].min(bytes - all.len());
            sizes[1] = sizes[1].min(bytes - all.len() - sizes[0]);
            let mut parts = sizes.map(|size| vec![0; size]);
            let [first, second] = &mut parts;
            let parts_of = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
            match stream.try_read_vectored(parts_of) {
                Ok(0) => panic!("it ended after {} bytes", all.len()),
                Ok(got) => all.extend(parts.concat().into_iter().take(got)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stream.readable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    #[tokio::test]
    async fn bytes_come_through_in_pieces_of_any_size_and_by_one_key_after_the_other() {
        let (credentials, bytes) = (credentials(), noise(20 << 20));
        for seed in 0..6 {
            let (mut client, mut server) = pair(&credentials).await;
            assert_eq!(client.peer_certificates(), server.peer_certificates(), "one for both");
            if seed % 2 == 1 {
                client.sealer.skip_to(RECORDS_MAX - 100);
                server.opener.skip_to(RECORDS_MAX - 100);
            }
            let (mut client, mut server) = (Stream::Tls(client.into()), Stream::Tls(server.into()));
            let sent = send(&mut client, &bytes, seed);
            let ((), received) = tokio::join!(sent, receive(&mut server, bytes.len(), seed + 100));
            assert!(received == bytes, "seed {seed}");
        }
    }

    #[tokio::test]
    async fn records_without_data_are_taken_now_and_then_and_not_one_after_the_other() {
        for (empty, is_taken) in [(EMPTY_RECORDS_MAX, true), (EMPTY_RECORDS_MAX + 1, false)] {
            let credentials = credentials();
            let (mut client, mut server) = pair(&credentials).await;
            for _ in 0..2 {
                for _ in 0..empty {
                    client.sealer.seal(&[], client.encrypted.more(OVERHEAD_BYTES)).unwrap();
                    client.encrypted.fill(OVERHEAD_BYTES);
                }
                client.try_write_vectored(&[IoSlice::new(b"x")]).unwrap();
            }
            client.try_flush().unwrap();
            drop(client);
            let mut read: Vec<u8> = Vec::new();
            let ended = loop {
                let space = &mut [0; 8];
                match server.try_read_vectored(&mut [IoSliceMut::new(space)]) {
                    Ok(0) => break Ok(()),
                    Ok(bytes) => read.extend(&space[..bytes]),
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {
                        server.tcp.readable().await.unwrap();
                    }
                    Err(why) => break Err(why),
                }
            };
            assert_eq!((ended.is_ok(), read == b"xx"), (is_taken, is_taken));
        }
    }

    #[tokio::test]
    async fn the_library_at_the_other_end_understands_and_is_understood() {
        let (credentials, bytes) = (credentials(), noise(5 << 20));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (config, sent) = (credentials.client.clone(), bytes.clone());
        let library = std::thread::spawn(move || {
            let tcp = std::net::TcpStream::connect(address).unwrap();
            let name = ServerName::try_from("suture").unwrap();
            let session = ClientConnection::new(config, name).unwrap();
            let mut stream = StreamOwned::new(session, tcp);
            for part in sent.chunks(1 << 20) {
                stream.write_all(part).unwrap();
                stream.conn.refresh_traffic_keys().unwrap();
            }
            let mut back = vec![0; sent.len()];
            stream.read_exact(&mut back).unwrap();
            back == sent
        });
        let (tcp, _) = listener.accept().await.unwrap();
        let mut tls = TlsStream::accept(tcp, &credentials.server).await.unwrap();
        tls.renew_keys().unwrap();
        let mut stream = Stream::Tls(tls.into());
        let received = receive(&mut stream, bytes.len(), 1).await;
        assert!(received == bytes);
        let Stream::Tls(tls) = &mut stream else { unreachable!() };
        tls.renew_keys().unwrap();
        send(&mut stream, &received, 2).await;
        assert!(library.join().unwrap());
    }
}
