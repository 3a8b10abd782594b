//! Encrypted connections of the data plane: whatever the other side sends, before, during and after
//! the handshake, comes out exactly as it was sealed, or is an error.
//!
//! Place: under every connection between agents, of whom one may have been taken over. The other
//! side is `tls_peer.rs`, which seals what no honest one would; both ends are real sockets, in
//! turns.
//!
//! An input is a byte that says which side we are and what is sent, then mistakes in the handshake
//! or steps of the other side, pieces in which the bytes come, and pieces into which they are read.

use std::cell::OnceCell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, KeyLog, ServerConnection};
use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::credentials::Credentials;
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::net::tls::{Stream, TlsStream};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::cursor::{Cursor, piece};
use crate::tls_peer::{ALERT, DATA, End, HANDSHAKE, Heard, PLAIN_BYTES, PeerKeys, hear};

/// All that the other side sends, about.
const SENT_BYTES: usize = 512 << 10;

/// Lengths of pieces, in which bytes come and into which they are read: about headers, records, and
/// the space into which it is worth to decrypt directly.
const SIZES: [usize; 12] = [7, 1, 5, 22, 64, 1000, 16_389, 16_406, 17_000, 33_290, 40_000, 100_000];

/// After so many pieces all that is left comes at once.
const TURNS_MAX: usize = 500;

/// The other side waits for an answer to what cannot be right for no longer.
const PATIENCE: Duration = Duration::from_millis(20);

/// Nothing takes so long.
const HANGS: Duration = Duration::from_secs(20);

/// We are the side that connects.
const CONNECTS: u8 = 1;
/// Bytes instead of a handshake; or one with mistakes; or a right one.
const BYTES: u8 = 0;
const MISTAKES: u8 = 2;
const RIGHT: u8 = 4;
/// With its last message comes what follows.
const AT_ONCE: u8 = 8;

thread_local! {
    static BENCH: OnceCell<Bench> = const { OnceCell::new() };
}

struct Bench {
    runtime: Runtime,
    listener: TcpListener,
    credentials: Credentials,
}

/// The secrets of a connection, as the library tells them.
#[derive(Debug, Default)]
struct Secrets(Mutex<Vec<(String, Vec<u8>)>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        self.0.lock().expect("nobody panics").push((label.to_string(), secret.to_vec()));
    }
}

/// The other side while hands are shaken.
struct Peer {
    tcp: TcpStream,
    session: Connection,
    secrets: Arc<Secrets>,
    /// Bytes of all that it sends that are changed, and how.
    mistakes: Vec<(usize, u8)>,
    sent: usize,
}

/// What the other side sends after the handshake.
#[derive(Default)]
struct Speech {
    wire: Vec<u8>,
    /// All data in it, where nothing else is.
    said: Option<Vec<u8>>,
}

/// What we made of it.
struct Ours {
    stream: Stream,
    sizes: Vec<usize>,
    reads: usize,
    heard: Vec<u8>,
    /// How reading ended.
    end: Option<io::Result<()>>,
    said: Vec<u8>,
    writes: usize,
}

/// Inputs to begin with: one for each thing that the other side does.
pub fn valid() -> Vec<Vec<u8>> {
    let cut = |pieces: &[u8], reads: &[u8]| [piece(pieces), piece(reads)].concat();
    let data = |bytes: u16, zeros: u8| [&[0][..], &bytes.to_le_bytes(), &[zeros]].concat();
    let inside = |bytes: &[u8]| [vec![1], piece(bytes)].concat();
    let said = |mode: u8, cut: &[u8], steps: &[Vec<u8>]| {
        [vec![mode | RIGHT], cut.to_vec(), steps.concat()].concat()
    };
    let small = [data(100, 0), data(0, 9), data(5000, 255), vec![2, 0], data(300, 1)];
    let large = [vec![6, 7], data(1, 0), vec![2, 1], vec![6, 3], data(16_384, 200), vec![7]];
    let broken = [data(10, 0), vec![4, 30], piece(b"changed on its way")];
    vec![
        [vec![BYTES], piece(b"\x16\x03\x01\x00\x05"), piece(b"\x01\x00\x00\x01\x00")].concat(),
        [vec![BYTES | CONNECTS], piece(b"\x15\x03\x03\x00\x02\x02\x28")].concat(),
        [MISTAKES, 10, 0, 1].to_vec(),
        [MISTAKES | CONNECTS, 80, 0, 1, 90, 1, 4].to_vec(),
        said(0, &cut(&[0], &[0]), &small),
        said(CONNECTS, &cut(&[3, 8], &[1, 2]), &small),
        said(AT_ONCE, &cut(&[11], &[10, 4]), &small),
        said(0, &cut(&[11, 9], &[11]), &large),
        said(CONNECTS, &cut(&[8, 6, 7], &[10, 5, 9]), &large),
        said(0, &cut(&[5, 3], &[5, 5]), &broken),
        said(0, &cut(&[5], &[5]), &[data(9, 0), inside(b"\x01\x32\x15"), data(9, 0)]),
        said(0, &cut(&[11], &[10]), &[data(9, 0), vec![7], data(9, 0)]),
        said(0, &cut(&[5], &[5]), &[inside(b"\x04\x00\x00\x00\x16"), data(30, 0), vec![5, 20]]),
        said(0, &cut(&[5], &[5]), &[data(30, 0), vec![3], piece(b"\x17\x03\x03\x40\x20")]),
        said(0, &cut(&[11], &[4]), &[vec![2, 1], vec![2, 1], data(30, 0), vec![2, 1]]),
        said(AT_ONCE, &cut(&[3], &[4]), &[data(9, 0), vec![2, 1], data(9, 0), data(90, 0)]),
    ]
}

/// Gives whether data came through.
///
/// # Panics
/// When bytes come out that were not sealed so, or a handshake that nobody shook is taken for one.
pub fn check(input: &[u8]) -> bool {
    let Some((&mode, input)) = input.split_first() else { return false };
    BENCH.with(|bench| {
        let bench = bench.get_or_init(Bench::new);
        let run = async { timeout(HANGS, bench.run(mode, Cursor(input))).await };
        bench.runtime.block_on(run).expect("nothing hangs")
    })
}

impl Bench {
    fn new() -> Bench {
        let (dir, now) = (tempfile::tempdir().expect("a folder"), SystemTime::now());
        let authority = Authority::create(&dir.path().join("authority"), "fuzz", now);
        let who = Principal::new(AccessRole::Agent, "n1").expect("a name");
        let (out, day) = (dir.path().join("own"), Duration::from_secs(24 * 3600));
        authority.and_then(|a| a.issue(&who, day, &out, now)).expect("a certificate");
        let credentials = Credentials::read(&out, now).expect("they were just made");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("an address");
        Bench { runtime, listener, credentials }
    }

    /// Our end of a new connection, and the other.
    async fn connection(&self) -> (TcpStream, TcpStream) {
        let address = self.listener.local_addr().expect("it has one");
        let (other, own) = tokio::join!(TcpStream::connect(address), self.listener.accept());
        let (own, other) = (own.expect("a connection").0, other.expect("a connection"));
        for tcp in [&own, &other] {
            // Thousands of them would wait for their ends, and small pieces for their answers.
            tcp.set_zero_linger().expect("a socket");
            tcp.set_nodelay(true).expect("a socket");
        }
        (own, other)
    }

    async fn shake(&self, mode: u8, tcp: TcpStream) -> io::Result<TlsStream> {
        match mode & CONNECTS {
            0 => TlsStream::accept(tcp, &self.credentials.server).await,
            _ => TlsStream::connect(tcp, &self.credentials.client).await,
        }
    }

    fn peer(&self, mode: u8, tcp: TcpStream) -> Peer {
        let secrets = Arc::new(Secrets::default());
        let session = if mode & CONNECTS == 0 {
            let mut config = (*self.credentials.client).clone();
            config.key_log = secrets.clone();
            let name = ServerName::try_from("suture").expect("a name");
            Connection::from(ClientConnection::new(config.into(), name).expect("a session"))
        } else {
            let mut config = (*self.credentials.server).clone();
            config.key_log = secrets.clone();
            Connection::from(ServerConnection::new(config.into()).expect("a session"))
        };
        Peer { tcp, session, secrets, mistakes: Vec::new(), sent: 0 }
    }

    async fn run(&self, mode: u8, cursor: Cursor<'_>) -> bool {
        let (own, other) = self.connection().await;
        match mode & (MISTAKES | RIGHT) {
            BYTES => self.bytes(mode, own, other, cursor).await,
            MISTAKES => self.mistakes(mode, own, other, cursor).await,
            _ => self.right(mode, own, other, cursor).await,
        }
    }

    async fn bytes(&self, mode: u8, own: TcpStream, other: TcpStream, cursor: Cursor<'_>) -> bool {
        let mut cursor = cursor;
        let send = async {
            let mut other = other;
            while let Some(piece) = cursor.piece() {
                if other.write_all(piece).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(other.shutdown().await);
            other
        };
        let (shaken, _) = tokio::join!(self.shake(mode, own), send);
        assert!(shaken.is_err(), "nobody has shaken hands");
        false
    }

    async fn mistakes(
        &self,
        mode: u8,
        own: TcpStream,
        other: TcpStream,
        cursor: Cursor<'_>,
    ) -> bool {
        let mut peer = self.peer(mode, other);
        let mistakes = cursor.0.as_chunks::<3>().0.iter();
        let mistakes =
            mistakes.map(|&[low, high, by]| (u16::from_le_bytes([low, high]).into(), by));
        peer.mistakes = mistakes.collect();
        let talk = async {
            let mut peer = peer;
            let last = timeout(PATIENCE, peer.shake()).await;
            if let Ok(Ok(last)) = last {
                drop(peer.tcp.write_all(&last).await);
            }
        };
        let (shaken, ()) = tokio::join!(self.shake(mode, own), talk);
        shaken.is_ok_and(|tls| {
            assert!(!tls.peer_certificates().is_empty(), "it was proven who is there");
            true
        })
    }

    async fn right(&self, mode: u8, own: TcpStream, other: TcpStream, cursor: Cursor<'_>) -> bool {
        let mut cursor = cursor;
        let pieces = sizes(cursor.piece().unwrap_or_default());
        let reads = sizes(cursor.piece().unwrap_or_default());
        let mut peer = self.peer(mode, other);
        let talk = async {
            let last = peer.shake().await.expect("it makes no mistakes");
            let speech = Speech::of(cursor, &mut peer.keys(mode & CONNECTS == 0));
            // Where a library of another kind reads it, it is to be what everybody takes.
            let is_plain = mode & AT_ONCE != 0 && speech.said.is_some();
            let first = if is_plain { pieces[0].min(speech.wire.len()) } else { 0 };
            let sent = peer.tcp.write_all(&[&last, &speech.wire[..first]].concat()).await;
            sent.expect("our side listens");
            (peer, speech, first)
        };
        let (shaken, (mut peer, speech, first)) = tokio::join!(self.shake(mode, own), talk);
        let stream = Stream::Tls(shaken.expect("hands were shaken").into());
        let mut ours = Ours {
            stream,
            sizes: reads,
            reads: 0,
            heard: Vec::new(),
            end: None,
            said: Vec::new(),
            writes: 0,
        };
        ours.read();
        let (mut at, mut answers) = (first, Vec::new());
        for (turn, size) in pieces.iter().cycle().enumerate() {
            // Pieces of a byte are for the beginning, or it takes seconds.
            let size = if turn < TURNS_MAX { *size } else { SENT_BYTES };
            let end = (at + size).min(speech.wire.len());
            if ours.end.is_some() || at == end {
                break;
            }
            peer.tcp.write_all(&speech.wire[at..end]).await.expect("our side listens");
            at = end;
            ours.stream.readable().await.expect("something came");
            ours.read();
            if ours.end.is_none() && ours.sizes[turn % ours.sizes.len()].is_multiple_of(2) {
                ours.write(turn);
                peer.tcp.readable().await.expect("something came");
                peer.receive(&mut answers);
            }
        }
        if ours.end.is_none() {
            peer.tcp.shutdown().await.expect("our side listens");
            ours.stream.readable().await.expect("the end came");
            ours.read();
        }
        compare(&ours, &speech, hear(peer.keys(mode & CONNECTS == 0), &speech.wire[..at]));
        let answered = hear(peer.keys(mode & CONNECTS != 0), &answers);
        let (heard, said) = (answered.data.len(), ours.said.len());
        assert_eq!((answered.end, heard), (End::Open, said), "what we said arrives");
        assert!(answered.data == ours.said, "what we said arrives");
        // However often it was asked for them.
        let updates = answered.key_updates;
        assert!(updates <= ours.writes, "{updates} words of new keys in {} writes", ours.writes);
        !ours.heard.is_empty()
    }
}

/// Lengths of pieces, as bytes name them; one at least.
fn sizes(named: &[u8]) -> Vec<usize> {
    let named = named.iter().map(|byte| SIZES[usize::from(*byte) % SIZES.len()]);
    let named: Vec<usize> = named.collect();
    if named.is_empty() { vec![SIZES[0]] } else { named }
}

fn noise(bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ 0x5a)
}

/// What came out of our side is what the book says.
fn compare(ours: &Ours, speech: &Speech, right: Heard) {
    match (right.end, ours.end.as_ref().expect("it has ended")) {
        (End::Open | End::Closed, end) => {
            assert!(end.is_ok(), "{end:?}, though all was right");
            assert!(ours.heard == right.data, "{} bytes of {}", ours.heard.len(), right.data.len());
        }
        (End::Broken, end) => {
            assert!(end.is_err(), "what was no record was taken for one");
            assert!(right.data.starts_with(&ours.heard), "bytes that were not sent");
        }
    }
    assert!(speech.said.as_ref().is_none_or(|said| right.data == *said), "the book is wrong");
}

impl Peer {
    /// Shakes hands; gives what is still to be sent.
    async fn shake(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let mut out = Vec::new();
            while self.session.wants_write() {
                self.session.write_tls(&mut out)?;
            }
            for (at, by) in &self.mistakes {
                if let Some(byte) = at.checked_sub(self.sent).and_then(|at| out.get_mut(at)) {
                    *byte ^= by;
                }
            }
            self.sent += out.len();
            if !self.session.is_handshaking() {
                return Ok(out);
            }
            self.tcp.write_all(&out).await?;
            self.tcp.readable().await?;
            let mut received = Vec::new();
            if self.receive(&mut received) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut received = &received[..];
            while !received.is_empty() {
                self.session.read_tls(&mut received)?;
                self.session.process_new_packets().map_err(io::Error::other)?;
            }
        }
    }

    /// All that is there; gives whether nothing more will come.
    fn receive(&mut self, to: &mut Vec<u8>) -> bool {
        let mut space = [0; 32 << 10];
        loop {
            match self.tcp.try_read(&mut space) {
                Ok(0) => return true,
                Ok(bytes) => to.extend_from_slice(&space[..bytes]),
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    /// The keys of what a side sends.
    fn keys(&self, of_client: bool) -> PeerKeys {
        let label = if of_client { "CLIENT_TRAFFIC_SECRET_0" } else { "SERVER_TRAFFIC_SECRET_0" };
        let secrets = self.secrets.0.lock().expect("nobody panics");
        let secret = secrets.iter().find(|(name, _)| name == label).expect("hands were shaken");
        PeerKeys::new(&secret.1)
    }
}

impl Speech {
    fn of(mut cursor: Cursor<'_>, keys: &mut PeerKeys) -> Speech {
        let mut speech = Speech { said: Some(Vec::new()), ..Speech::default() };
        while speech.wire.len() < SENT_BYTES && speech.step(&mut cursor, keys).is_some() {}
        speech
    }

    fn say(&mut self, keys: &mut PeerKeys, bytes: usize, zeros: usize) {
        let inside: Vec<u8> = noise(bytes).chain([DATA]).chain((0..zeros).map(|_| 0)).collect();
        self.wire.extend(keys.seal(&inside));
        // More than a record can hold is refused.
        if bytes > PLAIN_BYTES || bytes + zeros >= PLAIN_BYTES + 240 {
            self.said = None;
        } else if let Some(said) = &mut self.said {
            said.extend(noise(bytes));
        }
    }

    fn step(&mut self, cursor: &mut Cursor<'_>, keys: &mut PeerKeys) -> Option<()> {
        match cursor.byte()? % 8 {
            0 => {
                let bytes = u16::from_le_bytes([cursor.byte()?, cursor.byte()?]);
                self.say(keys, usize::from(bytes) % (PLAIN_BYTES + 20), cursor.byte()?.into());
            }
            1 => {
                let inside = cursor.piece()?;
                self.wire.extend(keys.seal(&inside[..inside.len().min(20_000)]));
                self.said = None;
            }
            2 => {
                let requested = cursor.byte()? % 2;
                self.wire.extend(keys.seal(&[24, 0, 0, 1, requested, HANDSHAKE]));
                *keys = keys.next();
            }
            3 => {
                self.wire.extend(cursor.piece()?);
                self.said = None;
            }
            4 => {
                let (at, inside) = (usize::from(cursor.byte()?), cursor.piece()?);
                let mut record = keys.seal(&[&inside[..inside.len().min(200)], &[DATA]].concat());
                let at = at % record.len();
                record[at] ^= 1 << (at % 8);
                self.wire.extend(record);
                self.said = None;
            }
            5 => {
                let left = self.wire.len().saturating_sub(cursor.byte()?.into());
                self.wire.truncate(left);
                self.said = None;
            }
            6 => (0..cursor.byte()? % 8).for_each(|_| self.say(keys, PLAIN_BYTES, 0)),
            _ => {
                self.wire.extend(keys.seal(&[1, 0, ALERT]));
                self.said = None;
            }
        }
        Some(())
    }
}

impl Ours {
    /// Reads all that is there.
    fn read(&mut self) {
        while self.end.is_none() {
            let small = |at: usize| self.sizes[at % self.sizes.len()];
            let size = |at: usize| if at < TURNS_MAX { small(at) } else { SENT_BYTES };
            let mut parts = [vec![0; size(self.reads)], vec![0; size(self.reads + 1)]];
            self.reads += 1;
            let [first, second] = &mut parts;
            let space = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
            match self.stream.try_read_vectored(space) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(bytes) => self.heard.extend(parts.concat().iter().take(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.end = Some(Err(error)),
            }
        }
    }

    /// Says something, of another length each time.
    fn write(&mut self, turn: usize) {
        let bytes: Vec<u8> = noise(1 + turn % 3000).collect();
        let taken = self.stream.try_write_vectored(&[IoSlice::new(&bytes)]);
        let taken = taken.expect("the other side listens");
        self.said.extend(&bytes[..taken]);
        self.stream.try_flush().expect("there is space");
        self.writes += 1;
    }
}
