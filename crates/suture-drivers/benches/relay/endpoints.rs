//! The relay's two neighbours, as thin as they can be: blocking sockets, no store, no runtime.
//!
//! They speak the agents' protocol to the letter, with TLS or without: a connection in each
//! direction, `Hello` on both, a grant for each slice. What the source sends was computed and
//! summed beforehand. The sink knows what must come, from the lost chunk itself: it compares the
//! announced checksum of every slice, and the bytes of one in `VERIFY_EVERY`.

use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use suture_drivers::identity::credentials::Credentials;
use suture_edge::checksum::crc32c;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;
use suture_repair::wire::{ClusterId, Frame, HEADER_BYTES, Payload, Who};

const VERIFY_EVERY: u32 = 8;

/// What is encrypted before it is sent: a slice leaves in one call, as it does plain.
const SENT_BYTES: usize = 1 << 20;

/// A neighbour of the relay.
pub struct Endpoint {
    hello: Frame,
    listener: TcpListener,
    credentials: Option<Arc<Credentials>>,
    /// Where we send.
    out: Wire,
    /// Where the relay sends, once it has connected.
    into: Option<Wire>,
}

/// The bytes of a connection.
enum Wire {
    Plain(TcpStream),
    Client(Box<StreamOwned<ClientConnection, Wide>>),
    Server(Box<StreamOwned<ServerConnection, Wide>>),
}

/// A socket that is read in large pieces: the library would ask for 4 KiB at a time, and the relay
/// would be woken for each of them.
struct Wide {
    reader: BufReader<TcpStream>,
}

impl Wide {
    fn new(tcp: TcpStream) -> Wide {
        Wide { reader: BufReader::with_capacity(256 << 10, tcp) }
    }
}

impl Read for Wide {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl Write for Wide {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reader.get_mut().write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.reader.get_mut().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire {
    fn connect(tcp: TcpStream, credentials: Option<&Credentials>) -> Wire {
        let Some(credentials) = credentials else { return Wire::Plain(tcp) };
        let name = ServerName::try_from("suture").unwrap();
        let mut session = ClientConnection::new(credentials.client.clone(), name).unwrap();
        session.set_buffer_limit(Some(SENT_BYTES));
        Wire::Client(Box::new(StreamOwned::new(session, Wide::new(tcp))))
    }

    fn accept(tcp: TcpStream, credentials: Option<&Credentials>) -> Wire {
        let Some(credentials) = credentials else { return Wire::Plain(tcp) };
        let session = ServerConnection::new(credentials.server.clone()).unwrap();
        Wire::Server(Box::new(StreamOwned::new(session, Wide::new(tcp))))
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Client(stream) => stream.read(buffer),
            Wire::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Client(stream) => stream.write(bytes),
            Wire::Server(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write_vectored(parts),
            Wire::Client(stream) => stream.write_vectored(parts),
            Wire::Server(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Client(stream) => stream.flush(),
            Wire::Server(stream) => stream.flush(),
        }
    }
}

/// What is sent, or expected: the bytes of all slices and their checksums.
pub struct Slices {
    slice_bytes: usize,
    bytes: Vec<u8>,
    crcs: Vec<u32>,
}

/// What the sink got.
pub struct Received {
    /// From the first grant to the last byte.
    pub wall: Duration,
    /// All slices.
    pub slices: u32,
    /// Those whose bytes were compared.
    pub verified: u32,
}

impl Endpoint {
    /// Connects to the relay as node `me`, which listens there.
    pub fn new(
        listener: TcpListener,
        relay: SocketAddr,
        (cluster, me): (ClusterId, NodeId),
        credentials: Option<Arc<Credentials>>,
    ) -> Endpoint {
        let hello = Frame::Hello { cluster, who: Who::Agent(me) };
        let out = TcpStream::connect(relay).unwrap();
        out.set_nodelay(true).unwrap();
        let _ = rustix::net::sockopt::set_tcp_congestion(&out, "cubic");
        let mut out = Wire::connect(out, credentials.as_deref());
        out.write_all(&hello.encode()).unwrap();
        assert!(matches!(read_frame(&mut out), Frame::Hello { .. }));
        Endpoint { hello, listener, credentials, out, into: None }
    }

    /// Sends all slices, each as soon as it is granted, and not before its turn at this rate.
    pub fn send(&mut self, repair: RepairId, slices: &Slices, rate: Option<f64>) {
        let (mut granted, start) = (0, Instant::now());
        for slice in 0..slices.count() {
            while granted <= slice {
                match read_frame(self.into()) {
                    Frame::Grant { repair: of, lane: 0, below, .. } if of == repair => {
                        granted = below
                    }
                    frame => panic!("the source got {frame:?}"),
                }
            }
            if let Some(rate) = rate {
                let due = slices.slice_bytes as f64 * f64::from(slice) / rate;
                let due = start + Duration::from_secs_f64(due);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let (bytes, payload) = slices.get(slice);
            let header = Frame::Slice { id: SliceId { repair, lane: 0, slice }, payload }.encode();
            write_both(&mut self.out, &header, bytes);
        }
    }

    /// Takes all slices, and grants another for each; they must be as `expected`.
    pub fn receive(&mut self, repair: RepairId, window: u32, expected: &Slices) -> Received {
        let (start, all) = (Instant::now(), expected.count());
        let (mut buffer, mut seen) = (vec![0; expected.slice_bytes], vec![false; all as usize]);
        let mut verified = 0;
        self.grant(repair, window.min(all));
        for done in 1..=all {
            let Frame::Slice { id, payload } = read_frame(self.into()) else {
                panic!("the sink got no slice")
            };
            assert!(id.repair == repair && !std::mem::replace(&mut seen[id.slice as usize], true));
            assert_eq!(payload, expected.get(id.slice).1, "announced for {id:?}");
            let bytes = &mut buffer[..payload.bytes as usize];
            self.into().read_exact(bytes).unwrap();
            if id.slice.is_multiple_of(VERIFY_EVERY) {
                assert_eq!(crc32c(bytes), payload.crc, "the bytes of {id:?}");
                verified += 1;
            }
            if done + window <= all {
                self.grant(repair, done + window);
            }
        }
        Received { wall: start.elapsed(), slices: all, verified }
    }

    fn grant(&mut self, repair: RepairId, below: u32) {
        let grant = Frame::Grant { repair, lane: 0, first: 0, below };
        self.out.write_all(&grant.encode()).unwrap();
    }

    fn into(&mut self) -> &mut Wire {
        self.into.get_or_insert_with(|| {
            let (into, _) = self.listener.accept().unwrap();
            into.set_nodelay(true).unwrap();
            let mut into = Wire::accept(into, self.credentials.as_deref());
            assert!(matches!(read_frame(&mut into), Frame::Hello { .. }));
            into.write_all(&self.hello.encode()).unwrap();
            into
        })
    }
}

impl Slices {
    /// Cuts the bytes and sums each slice.
    pub fn new(bytes: Vec<u8>, slice_bytes: usize) -> Slices {
        let crcs = bytes.chunks(slice_bytes).map(crc32c).collect();
        Slices { slice_bytes, bytes, crcs }
    }

    fn count(&self) -> u32 {
        self.crcs.len() as u32
    }

    fn get(&self, slice: u32) -> (&[u8], Payload) {
        let from = slice as usize * self.slice_bytes;
        let bytes = &self.bytes[from..self.bytes.len().min(from + self.slice_bytes)];
        (bytes, Payload { bytes: bytes.len() as u32, crc: self.crcs[slice as usize] })
    }
}

fn read_frame(stream: &mut Wire) -> Frame {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    Frame::decode(&header).unwrap()
}

fn write_both(stream: &mut Wire, header: &[u8], payload: &[u8]) {
    let mut parts = &mut [IoSlice::new(header), IoSlice::new(payload)][..];
    while !parts.is_empty() {
        let written = stream.write_vectored(parts).unwrap();
        IoSlice::advance_slices(&mut parts, written);
    }
}
