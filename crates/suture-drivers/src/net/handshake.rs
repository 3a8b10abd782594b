//! The handshake of TLS: both ends prove who they are, and get the keys of their records.
//!
//! Place: [a connection is made or taken] -> both ends are proven -> `tls.rs`.
//! The library shakes hands, on buffers of ours; with the last of its messages it gives its keys
//! away, and later ones when they are worn.

use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, ExtractedSecrets, ServerConfig};
use tokio::net::TcpStream;

use super::queue::Queue;
use super::records::{HEADER_BYTES, Keys, RECORD_BYTES};

/// What may wait of a handshake: messages are as long as certificates are, and may span records.
const HANDSHAKE_BYTES: usize = 4 * RECORD_BYTES;

/// Kinds of records, from changes of ciphers to data.
const RECORD_KINDS: RangeInclusive<u8> = 20..=23;

/// What a handshake leaves.
pub struct Shaken {
    /// The certificates that the other side showed, its own first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The keys of what is sent and of what is received.
    pub keys: (Keys, Keys),
    /// Where the next ones come from.
    pub source: KeySource,
    /// What came behind it and is not decrypted.
    pub received: Queue,
    /// What came behind it and is.
    pub plain: Queue,
}

/// Makes the next keys of a connection.
pub enum KeySource {
    /// Of the side that connected.
    Client(KernelConnection<ClientConnectionData>),
    /// Of the side that was connected to.
    Server(KernelConnection<ServerConnectionData>),
}

enum Library {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

struct Shaking {
    session: Library,
    received: Queue,
    /// So much of that is given to the library: whole records, one after the other, for what comes
    /// behind the last message is not its affair. It would reply to such records and discard their
    /// contents.
    given: usize,
    plain: Queue,
    encrypted: Queue,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Something was done; there may be more.
    Again,
    /// Nothing, until more is received.
    Receive,
    /// Nothing: the handshake is over, and all that was received is decrypted.
    Done,
    /// Nothing more will come.
    Closed,
}

/// Shakes hands as the side that connected. The other side may still refuse: it reports that when
/// something is read.
///
/// # Errors
/// When the connection breaks, or the other side does not speak TLS or is not to be accepted.
pub async fn connect(tcp: &TcpStream, config: &Arc<ClientConfig>) -> io::Result<Shaken> {
    // A certificate names a principal and not a host: it is checked afterwards.
    let nobody = ServerName::try_from("suture").expect("it is a name");
    let session = UnbufferedClientConnection::new(config.clone(), nobody);
    shake(tcp, Library::Client(session.map_err(io::Error::other)?)).await
}

/// Shakes hands as the side that was connected to.
///
/// # Errors
/// As [`connect`].
pub async fn accept(tcp: &TcpStream, config: &Arc<ServerConfig>) -> io::Result<Shaken> {
    let session = UnbufferedServerConnection::new(config.clone());
    shake(tcp, Library::Server(session.map_err(io::Error::other)?)).await
}

async fn shake(tcp: &TcpStream, session: Library) -> io::Result<Shaken> {
    let (received, plain, encrypted) = (Queue::default(), Queue::default(), Queue::default());
    let mut shaking = Shaking { session, received, given: 0, plain, encrypted };
    loop {
        let step = shaking.step();
        if step.is_err() {
            // An alert reports why it ends here.
            let _ = shaking.step();
        }
        flush(tcp, &mut shaking.encrypted).await?;
        match step? {
            Step::Again => {}
            Step::Done => return shaking.finish().map_err(io::Error::other),
            Step::Closed => return Err(ErrorKind::UnexpectedEof.into()),
            Step::Receive if shaking.give_next() => {}
            Step::Receive => {
                tcp.readable().await?;
                let spare = shaking.received.spare(HANDSHAKE_BYTES);
                if spare.is_empty() {
                    return Err(io::Error::other("a message is longer than those of TLS are"));
                }
                match tcp.try_read(spare) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(bytes) => shaking.received.fill(bytes),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

async fn flush(tcp: &TcpStream, encrypted: &mut Queue) -> io::Result<()> {
    while !encrypted.is_empty() {
        match tcp.try_write(encrypted.bytes()) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => encrypted.consume(sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => tcp.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Shaking {
    /// Does the next thing: encodes what the handshake needs, or keeps what came behind it.
    fn step(&mut self) -> io::Result<Step> {
        let Shaking { session, received, given, plain, encrypted } = self;
        let bytes = &mut received.bytes_mut()[..*given];
        let (used, step) = match session {
            Library::Client(client) => perform(client.process_tls_records(bytes), plain, encrypted),
            Library::Server(server) => perform(server.process_tls_records(bytes), plain, encrypted),
        };
        received.consume(used);
        *given -= used;
        step.map_err(io::Error::other)
    }

    /// Gives the library another record, if there is one; what is none it is to refuse.
    fn give_next(&mut self) -> bool {
        let rest = &self.received.bytes()[self.given..];
        let Some(&[kind, major, _, high, low]) = rest.first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let record = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        let is_record = RECORD_KINDS.contains(&kind) && major == 3 && record <= RECORD_BYTES;
        let next = if is_record { record } else { rest.len() };
        let is_there = next <= rest.len();
        self.given += if is_there { next } else { 0 };
        is_there
    }

    fn finish(self) -> Result<Shaken, rustls::Error> {
        let Shaking { session, received, plain, .. } = self;
        let own = |certificates: Option<&[CertificateDer<'static>]>| {
            certificates.unwrap_or_default().to_vec()
        };
        let (certificates, ExtractedSecrets { tx, rx }, source) = match session {
            Library::Client(client) => {
                let certificates = own(client.peer_certificates());
                let (secrets, source) = client.dangerous_into_kernel_connection()?;
                (certificates, secrets, KeySource::Client(source))
            }
            Library::Server(server) => {
                let certificates = own(server.peer_certificates());
                let (secrets, source) = server.dangerous_into_kernel_connection()?;
                (certificates, secrets, KeySource::Server(source))
            }
        };
        let keys = (Keys::new(tx)?, Keys::new(rx)?);
        Ok(Shaken { certificates, keys, source, received, plain })
    }
}

/// Does what the library asks for next; gives how much of what was received is used up.
fn perform<Data>(
    UnbufferedStatus { discard, state, .. }: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Queue,
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
                        plain.append(record.payload);
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
        ConnectionState::WriteTraffic(_) => Step::Done,
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::Closed,
        // Neither side sends anything before the handshake is over.
        _ => return (used, Err(rustls::Error::General("an unknown state".into()))),
    };
    (used, Ok(step))
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

impl KeySource {
    /// The next keys of what is sent.
    ///
    /// # Errors
    /// When the library makes none.
    pub fn next_sent(&mut self) -> Result<Keys, rustls::Error> {
        Keys::new(match self {
            KeySource::Client(client) => client.update_tx_secret()?,
            KeySource::Server(server) => server.update_tx_secret()?,
        })
    }

    /// The next keys of what is received.
    ///
    /// # Errors
    /// When the library makes none.
    pub fn next_received(&mut self) -> Result<Keys, rustls::Error> {
        Keys::new(match self {
            KeySource::Client(client) => client.update_rx_secret()?,
            KeySource::Server(server) => server.update_rx_secret()?,
        })
    }
}
