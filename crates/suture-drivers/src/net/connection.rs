//! One TCP connection that carries frames.
//!
//! Place: ... result computed -> [on the wire] -> slice received by the parent ...
//! Speed comes from system calls saved: a header and its payload leave in one `writev`; a payload
//! and the header after it arrive in one `readv`, the payload straight in its slice's buffer.
//! Every wait for the other side has an end: `timeout` without a single byte moved. A wait for a
//! client has an end even if a byte moves now and then: an operation may fall behind its least rate
//! by so much time and no more (`Allowance`). What counts is only time in which the other side was
//! waited for, not what rate limits, disks and others take.

mod options;
mod queued;
mod shared;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use queued::Queued;
use rustix::net::sockopt;
use suture_repair::wire::{DecodeError, Denial, Frame, HEADER_BYTES, Who};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::allowance::{Allowance, LeastRate};
use super::error::NetError;
use super::fair_places::SharedPlace;
use super::in_place::IN_PLACE_BYTES;
use super::local_identity::LocalIdentity;
use super::places::Holder;
use super::tls::Stream;
use crate::address::AgentAddress;
use crate::identity::Principal;
use crate::identity::credentials::Proven;
use crate::limit::{Port, Purpose};
use crate::sent::SentTally;

/// How long the other side may move nothing, once something was begun.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The system gives an idle connection up after so long without a sign of life.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEPALIVE_COUNT: u32 = 3;

/// What a rate-limited socket buffers, in time. The system's own choice would hold a second of
/// traffic at 50 Mbit/s, and slices of one lane would wait behind it.
const BUFFERED: Duration = Duration::from_millis(20);
const BUFFERED_MIN: u64 = 32 * 1024;

/// Where no header comes for so long, buffers are given back.
const IDLE: Duration = Duration::from_secs(1);

/// What skipped payload is read into.
const SKIP_BYTES: usize = 16 * 1024;

/// A connection, with the header of the next frame as far as it has come.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// The principal at the other end, where it is proven.
    proven: Option<Proven>,
    timeout: Duration,
    header: [u8; HEADER_BYTES],
    filled: usize,
    /// What is left of the last turn, in the direction in which payload moves.
    turn: usize,
    /// Of the operation that runs, if it is one of a client.
    allowance: Option<Allowance>,
    /// Where what is sent for repairs is counted.
    sent: Option<Arc<SentTally>>,
    /// Where what has come and waits to be read is counted.
    queued: Option<Queued>,
}

/// How payload is to be moved: within which limits, on behalf of which traffic class. One
/// connection carries payload in one direction at a time, always for the same port.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// The limits of this direction.
    pub port: &'a Port,
    /// Which of them apply.
    pub purpose: Purpose,
}

/// The socket as it is to be: quick, and ended by the system where its other end is gone.
fn prepared(stream: TcpStream, limits: &Port) -> Result<TcpStream, NetError> {
    stream.set_nodelay(true)?;
    // Where another one is the default: BBR paces every segment by a timer, which on a fast
    // link costs more processor time than the copying. A host that has no cubic keeps what it
    // has.
    let _ = sockopt::set_tcp_congestion(&stream, "cubic");
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_COUNT)?;
    sockopt::set_tcp_user_timeout(&stream, TIMEOUT.as_millis() as u32)?;
    if let Some(rate) = limits.rate() {
        let bytes = (rate * BUFFERED.as_millis() as u64 / 1000).max(BUFFERED_MIN) as usize;
        sockopt::set_socket_send_buffer_size(&stream, bytes)?;
        sockopt::set_socket_recv_buffer_size(&stream, bytes)?;
    }
    Ok(stream)
}

impl Connection {
    /// Connects and shakes hands with the agent of that name and number; gives the identity that
    /// answered.
    ///
    /// # Errors
    /// When nothing answers in time, another agent or principal does, or the answer is a refusal or
    /// no handshake.
    pub async fn open(
        agent: &AgentAddress,
        local_identity: &LocalIdentity,
        limits: &Port,
        connect_timeout: Duration,
    ) -> Result<(Connection, Who), NetError> {
        let LocalIdentity { cluster, who, .. } = *local_identity;
        let attempt = async {
            let stream = prepared(TcpStream::connect(agent.addr).await?, limits)?;
            let (stream, proven) = local_identity.prove_to(stream, &agent.name).await?;
            let mut connection = Connection::new(stream, proven);
            connection.write_frame(Frame::Hello { cluster, who }).await?;
            match connection.read_frame().await? {
                Frame::Hello { cluster: found, .. } if found != cluster => {
                    Err(NetError::Cluster(found))
                }
                Frame::Hello { who, .. } => match agent.node {
                    Some(meant) if who != Who::Agent(meant) => {
                        Err(NetError::OtherNode { found: who, meant })
                    }
                    _ => Ok((connection, who)),
                },
                Frame::Error(denial) => Err(NetError::Denied(denial)),
                frame => Err(NetError::Unexpected(frame)),
            }
        };
        let stalled = NetError::Stalled { doing: "connecting", waited: connect_timeout };
        timeout(connect_timeout, attempt).await.unwrap_or(Err(stalled))
    }

    /// Answers the handshake of a peer that connected, if `admit` lets it in; gives what `admit`
    /// makes of its address, the identity that it claims, and the one that it has proven. A refusal
    /// is sent, so that both sides know why, but not the id of this cluster, which its members
    /// know.
    ///
    /// # Errors
    /// When the peer's identity is not proven, or its first frame does not come `within` that time,
    /// is no handshake, or of another cluster or version, and when it is not admitted.
    pub async fn welcome<T>(
        stream: TcpStream,
        local_identity: &LocalIdentity,
        limits: &Port,
        within: Duration,
        admit: impl AsyncFnOnce(IpAddr, Who, Option<Principal>) -> Result<T, Denial>,
    ) -> Result<(Connection, T), NetError> {
        let LocalIdentity { cluster, who: me, .. } = *local_identity;
        let stalled = NetError::Stalled { doing: "waiting for its handshake", waited: within };
        let attempt = async {
            let stream = prepared(stream, limits)?;
            let (stream, proven) = local_identity.authenticate(stream).await?;
            let mut connection = Connection::new(stream, proven);
            let first = connection.read_frame().await;
            Ok((connection, first))
        };
        let (mut connection, first) = timeout(within, attempt).await.unwrap_or(Err(stalled))?;
        let (denial, error) = match first {
            Ok(Frame::Hello { cluster: found, who }) if found == cluster => {
                let principal = connection.principal().cloned();
                match admit(connection.address(), who, principal).await {
                    Ok(admitted) => {
                        connection.write_frame(Frame::Hello { cluster, who: me }).await?;
                        return Ok((connection, admitted));
                    }
                    Err(denial) => (denial, NetError::Denied(denial)),
                }
            }
            Ok(Frame::Hello { cluster: found, .. }) => (Denial::Cluster, NetError::Cluster(found)),
            Err(NetError::Decode(error @ DecodeError::Version { found, .. })) => {
                (Denial::Version { found }, NetError::Decode(error))
            }
            Ok(frame) => (Denial::Malformed, NetError::Unexpected(frame)),
            Err(error) => (Denial::Malformed, error),
        };
        // The reason is in `error`; whether the other side receives it is its own affair.
        let _ = connection.write_frame(Frame::Error(denial)).await;
        Err(error)
    }

    fn new(stream: Stream, proven: Option<Proven>) -> Connection {
        Connection {
            stream,
            proven,
            timeout: TIMEOUT,
            header: [0; HEADER_BYTES],
            filled: 0,
            turn: 0,
            allowance: None,
            sent: None,
            queued: None,
        }
    }

    /// The same, with all that is sent counted there, and each wait for the socket.
    pub fn counted(self, sent: Arc<SentTally>) -> Connection {
        Connection { sent: Some(sent), ..self }
    }

    /// Where the other side is.
    pub fn address(&self) -> IpAddr {
        // One that is gone has none any more, and will not move a byte either.
        self.stream.tcp().peer_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip())
    }

    /// Whether what came is encrypted, so that it cannot have been changed on the network.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Whether the other side has neither closed nor sent anything since the last frame.
    pub fn is_idle(&self) -> bool {
        self.filled == 0 && self.stream.is_idle()
    }

    /// Begins an operation in which the other side must be as fast as that; nothing ends it.
    pub fn expect(&mut self, least: Option<LeastRate>) {
        self.allowance = least.map(|least| Allowance { least, left: least.grace });
    }

    /// Waits that long for the other side from now on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The next header. Waits as long as it takes: silence between frames is no fault. May be
    /// dropped and called again.
    ///
    /// # Errors
    /// When the connection ends or breaks, or what comes is no header.
    pub async fn read_frame(&mut self) -> Result<Frame, NetError> {
        while self.filled < HEADER_BYTES {
            // A peer that sends without a pause must not keep the thread from others.
            tokio::task::coop::consume_budget().await;
            let rest = &mut [IoSliceMut::new(&mut self.header[self.filled..])];
            match self.stream.try_read_vectored(rest) {
                Ok(0) => return Err(NetError::Closed),
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if timeout(IDLE, self.stream.readable()).await.is_err() {
                        self.stream.rest();
                    }
                    self.stream.readable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.filled = 0;
        self.check_proven()?;
        Frame::decode(&self.header).map_err(NetError::Decode)
    }

    /// The next header, which must come within that time: an operation is in progress.
    ///
    /// # Errors
    /// As [`Connection::read_frame`], and when it does not come in time.
    pub async fn read_frame_within(
        &mut self,
        waited: Duration,
        doing: &'static str,
    ) -> Result<Frame, NetError> {
        let stalled = NetError::Stalled { doing, waited };
        timeout(waited, self.read_frame()).await.unwrap_or(Err(stalled))
    }

    /// The next header of an operation; none if another operation wants its place before the header
    /// is there.
    ///
    /// # Errors
    /// As [`Connection::read_frame`], and when it does not come in the time that the operation has.
    pub async fn read_expected_frame(
        &mut self,
        doing: &'static str,
        place: Option<&SharedPlace>,
    ) -> Result<Option<Frame>, NetError> {
        let Some(mut allowance) = self.allowance else {
            return self.read_frame_within(self.timeout, doing).await.map(Some);
        };
        let Allowance { least, left } = allowance;
        let waiting = allowance.wait();
        let read = timeout(left, self.read_frame());
        let frame = match place {
            None => Some(read.await),
            Some(place) => place.unless_wanted(read).await,
        };
        drop(waiting);
        self.allowance = Some(allowance);
        frame.map(|frame| frame.unwrap_or(Err(NetError::Slow { doing, least }))).transpose()
    }

    /// Fills `into` with the payload of the last frame.
    ///
    /// # Errors
    /// When the connection breaks or stalls.
    pub async fn read_payload(
        &mut self,
        into: &mut [u8],
        traffic: Traffic<'_>,
    ) -> Result<(), NetError> {
        self.read_part(into, 0, traffic, None).await.map(drop)
    }

    /// Fills `into` with payload of the last frame, of which so many bytes are still to follow;
    /// gives how much came.
    async fn read_part(
        &mut self,
        into: &mut [u8],
        following: usize,
        traffic: Traffic<'_>,
        place: Option<&SharedPlace>,
    ) -> Result<usize, NetError> {
        let all = into.len();
        let mut rest = into;
        while !rest.is_empty() {
            // No turn is paid for before there is something to read.
            if self.turn == 0 && !self.wait_readable(place).await? {
                return Ok(all - rest.len());
            }
            self.take_turn(traffic).await;
            let (now, later) = rest.split_at_mut(rest.len().min(self.turn));
            // What follows the payload is the next header, and comes along for nothing.
            let is_last = later.is_empty() && following == 0;
            let next = if is_last { &mut self.header[..] } else { &mut [] };
            let parts = &mut [IoSliceMut::new(now), IoSliceMut::new(next)];
            match self.stream.try_read_vectored(parts) {
                Ok(0) => return Err(NetError::Closed),
                Ok(bytes) => {
                    let payload = bytes.min(now.len());
                    self.turn -= payload;
                    traffic.port.count(traffic.purpose, payload);
                    self.moved(payload);
                    self.filled = bytes - payload;
                    rest = &mut rest[payload..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.end_turn(traffic);
                    if !self.wait_readable(place).await? {
                        return Ok(all - rest.len());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        if following == 0 && self.filled < HEADER_BYTES {
            self.end_turn(traffic);
        }
        Ok(all)
    }

    /// Waits until there may be something to read; ends without, if another operation wants the
    /// place before.
    async fn wait_readable(&mut self, place: Option<&SharedPlace>) -> Result<bool, NetError> {
        let ready = self.stream.readable();
        let ready = wait(self.timeout, &mut self.allowance, "receiving", ready);
        unless_wanted(place, ready).await
    }

    /// Gives back what is left of the turn: there is nothing to be moved for now. To be called
    /// after `write` unless more follows at once.
    pub fn end_turn(&mut self, traffic: Traffic<'_>) {
        traffic.port.give_back(traffic.purpose, std::mem::take(&mut self.turn));
    }

    /// Reads payload that is not needed, and counts it: it crossed the link all the same.
    ///
    /// # Errors
    /// When the connection breaks or stalls.
    pub async fn skip_payload(&mut self, bytes: u32, traffic: Traffic<'_>) -> Result<(), NetError> {
        let mut nowhere = [0; SKIP_BYTES];
        let mut left = bytes as usize;
        while left > 0 {
            let part = left.min(SKIP_BYTES);
            left -= part;
            self.read_part(&mut nowhere[..part], left, traffic, None).await?;
        }
        Ok(())
    }

    /// Sends a header without payload.
    ///
    /// # Errors
    /// When the connection breaks or stalls.
    pub async fn write_frame(&mut self, frame: Frame) -> Result<(), NetError> {
        let nothing = Port::unlimited();
        let traffic = Traffic { port: &nothing, purpose: Purpose::Client };
        self.write(&frame.encode(), &[], traffic).await
    }

    /// Sends headers, and the payload of the last of them.
    ///
    /// # Errors
    /// When the connection breaks or stalls.
    pub async fn write(
        &mut self,
        mut headers: &[u8],
        mut payload: &[u8],
        traffic: Traffic<'_>,
    ) -> Result<(), NetError> {
        self.check_proven()?;
        while !headers.is_empty() || !payload.is_empty() {
            if !payload.is_empty() {
                self.take_turn(traffic).await;
            }
            let now = &payload[..payload.len().min(self.turn)];
            match self.stream.try_write_vectored(&[IoSlice::new(headers), IoSlice::new(now)]) {
                Ok(bytes) => {
                    let (before, after) = (bytes.min(headers.len()), bytes);
                    headers = &headers[before..];
                    payload = &payload[after - before..];
                    self.turn -= after - before;
                    traffic.port.count(traffic.purpose, after - before);
                    self.moved(after - before);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.end_turn(traffic);
                    let _waits = self.sent.as_deref().map(SentTally::wait);
                    let ready = self.stream.writable();
                    wait(self.timeout, &mut self.allowance, "sending", ready).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.flush(traffic).await
    }

    /// Sends headers, and the payload of the last of them, which is of no use afterwards: it may
    /// have been encrypted where it lies.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub async fn write_spent(
        &mut self,
        mut headers: &[u8],
        payload: &mut [u8],
        traffic: Traffic<'_>,
    ) -> Result<(), NetError> {
        self.check_proven()?;
        let mut rest = payload;
        while matches!(self.stream, Stream::Tls(_)) && !rest.is_empty() {
            self.take_turn(traffic).await;
            let Stream::Tls(tls) = &mut self.stream else { break };
            let bytes = rest.len().min(self.turn).min(IN_PLACE_BYTES);
            let (now, later) = rest.split_at_mut(bytes);
            let sealed = tls.seal(std::mem::take(&mut headers), now)?;
            self.turn -= bytes;
            self.send_sealed(now, sealed, traffic, None).await?;
            traffic.port.count(traffic.purpose, bytes);
            rest = later;
        }
        // What is not encrypted is left.
        self.write(headers, rest, traffic).await
    }

    /// Sends what was encrypted where it lies; gives whether all of it left. If another operation
    /// wants the place before, the connection keeps the rest, and `drained` sends it.
    async fn send_sealed(
        &mut self,
        payload: &[u8],
        bytes: usize,
        traffic: Traffic<'_>,
        place: Option<&SharedPlace>,
    ) -> Result<bool, NetError> {
        let mut sent = 0;
        while sent < bytes {
            match self.stream.try_send_sealed(payload, sent) {
                Ok(now) => {
                    sent += now;
                    self.moved(now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.end_turn(traffic);
                    let _waits = self.sent.as_deref().map(SentTally::wait);
                    let ready = self.stream.writable();
                    let ready = wait(self.timeout, &mut self.allowance, "sending", ready);
                    if !unless_wanted(place, ready).await? {
                        let Stream::Tls(tls) = &mut self.stream else { return Ok(false) };
                        tls.keep_sealed(payload, sent);
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Sends what was encrypted and did not leave at once.
    async fn flush(&mut self, traffic: Traffic<'_>) -> Result<(), NetError> {
        loop {
            let before = self.stream.unsent();
            let flushed = self.stream.try_flush();
            self.moved(before - self.stream.unsent());
            match flushed {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.end_turn(traffic);
                    let _waits = self.sent.as_deref().map(SentTally::wait);
                    let ready = self.stream.writable();
                    wait(self.timeout, &mut self.allowance, "sending", ready).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The principal at the other end, where it is proven.
    pub fn principal(&self) -> Option<&Principal> {
        self.proven.as_ref().map(|proven| &proven.statement.principal)
    }

    /// What it is counted by: the principal at the other end, or else its address.
    pub fn holder(&self) -> Holder {
        match self.principal() {
            Some(principal) => Holder::Principal(principal.to_string()),
            None => self.address().into(),
        }
    }

    /// Whether the other end is to be accepted still.
    fn check_proven(&self) -> Result<(), NetError> {
        Ok(self.proven.as_ref().map_or(Ok(()), Proven::check)?)
    }

    fn moved(&mut self, bytes: usize) {
        if let Some(sent) = &self.sent {
            sent.sent(bytes);
        }
        if let Some(allowance) = &mut self.allowance {
            allowance.moved(bytes);
        }
    }
}

/// Whether what is waited for came before another operation wanted the place, where there is one to
/// give.
async fn unless_wanted(
    place: Option<&SharedPlace>,
    ready: impl Future<Output = Result<(), NetError>>,
) -> Result<bool, NetError> {
    match place {
        None => ready.await.map(|()| true),
        Some(place) => match place.unless_wanted(ready).await {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        },
    }
}

/// Waits for the other side, for `within` or what its allowance has left.
async fn wait(
    within: Duration,
    allowance: &mut Option<Allowance>,
    doing: &'static str,
    ready: impl Future<Output = io::Result<()>>,
) -> Result<(), NetError> {
    let stalled = NetError::Stalled { doing, waited: within };
    let Some(Allowance { least, left }) = allowance else {
        return Ok(timeout(within, ready).await.map_err(|_| stalled)??);
    };
    let late = if *left < within { NetError::Slow { doing, least: *least } } else { stalled };
    let within = within.min(*left);
    let _waiting = allowance.as_mut().map(Allowance::wait);
    Ok(timeout(within, ready).await.map_err(|_| late)??)
}
