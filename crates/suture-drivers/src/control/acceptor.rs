//! Which connections the coordinator takes, and what each may ask for at a time.
//!
//! Place: before anything of the control plane is received.
//! Where there are credentials, a connection is encrypted and its other end has proven its
//! principal before it can make a call; every call sees the caller (`CallerCell`).
//! Any process on the network reaches the listener, and agents need it most. So what can be held is
//! counted: a connection has to begin HTTP/2 at once or gives way to newer ones, each proven
//! principal (or else address) has its share of the connections that have begun, viewers and
//! clients have others than operators and agents, and a connection has so many calls and so much
//! time for each. Streams (sessions, puts) last; keepalive ends those whose other end is gone.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waker, Poll, ready};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use tokio_stream::Stream;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tracing::warn;

use super::access::{Caller, CallerCell};
use super::service::ControlService;
use super::{KEEPALIVE_EVERY, KEEPALIVE_TIMEOUT, rpc};
use crate::identity::certificate::explain;
use crate::identity::credentials::{Kept, Proven};
use crate::metrics::calls::RefusalReason;
use crate::net::places::{HeldPlace, Holder, Newcomer, Newcomers, Places};
use crate::net::refusals::RefusalLog;

/// What HTTP/2 begins with: so many bytes distinguish a client from a peer that only connected.
const PREFACE_BYTES: usize = 24;

/// Headers of a call: a path and a few short ones.
const HEADERS_BYTES_MAX: u32 = 16 << 10;

/// The pause after the system could not give a connection, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection lasts once its certificate is known to be revoked; what comes on it after
/// that ends it, and answers to pings come all the time.
const REVOKED_FOR: Duration = Duration::from_secs(5);

/// What others may hold of a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct ControlLimits {
    /// Connections at a time: one for each agent and each command.
    pub connections: usize,
    /// How many of them one holder may have: a proven principal, or else an address.
    pub connections_each: usize,
    /// Connections of viewers and clients at a time, which take no place of operators or agents.
    pub guests: usize,
    /// How many of them one may have.
    pub guests_each: usize,
    /// Connections that have not begun HTTP/2; the oldest give way to more.
    pub newcomers: usize,
    /// How long they may take to.
    pub handshake: Duration,
    /// Calls of one connection at a time.
    pub calls: u32,
    /// How long a call may take until its answer begins, its request included.
    pub answer: Duration,
}

impl Default for ControlLimits {
    /// A preview plans all that is lost, which may take seconds.
    fn default() -> ControlLimits {
        ControlLimits {
            connections: 8192,
            connections_each: 1024,
            guests: 2048,
            guests_each: 256,
            newcomers: 256,
            handshake: Duration::from_secs(10),
            calls: 128,
            answer: Duration::from_secs(60),
        }
    }
}

/// Serves until it is dropped.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    service: impl Into<Arc<ControlService>>,
    limits: ControlLimits,
    credentials: Option<Arc<Kept>>,
) -> Result<()> {
    let service: Arc<ControlService> = service.into();
    let incoming = Incoming::new(listener, service.clone(), limits, credentials);
    // It ends with this.
    let mut background = JoinSet::new();
    background.spawn(service.clone().keep_status());
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(HEADERS_BYTES_MAX)
        .max_concurrent_streams(limits.calls)
        .timeout(limits.answer)
        .add_service(rpc::server(service))
        .serve_with_incoming(incoming)
        .await
        .context("the control plane's listener failed")
}

/// The connections that come to a coordinator.
struct Incoming {
    listener: TcpListener,
    service: Arc<ControlService>,
    newcomers: Arc<Newcomers>,
    places: Arc<Places>,
    guests: Arc<Places>,
    handshake: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    credentials: Option<Arc<Kept>>,
    refusals: Arc<RefusalLog>,
}

impl Incoming {
    fn new(
        listener: TcpListener,
        service: Arc<ControlService>,
        limits: ControlLimits,
        credentials: Option<Arc<Kept>>,
    ) -> Incoming {
        Incoming {
            listener,
            service,
            credentials,
            newcomers: Newcomers::new(limits.newcomers),
            places: Arc::new(Places::new(limits.connections, limits.connections_each)),
            guests: Arc::new(Places::new(limits.guests, limits.guests_each)),
            handshake: limits.handshake,
            pause: None,
            refusals: Arc::default(),
        }
    }

    fn accepted(&self, stream: TcpStream, from: SocketAddr) -> Accepted {
        let handshake = Handshake::New {
            newcomer: self.newcomers.enter(),
            deadline: Box::pin(sleep(self.handshake)),
            received: 0,
            places: self.places.clone(),
            guests: self.guests.clone(),
        };
        let caller = CallerCell::default();
        let wire = match &self.credentials {
            None => {
                caller.set(Caller::unproven(from));
                Wire::Plain(stream)
            }
            Some(kept) => Wire::shaking(stream, kept.clone()),
        };
        let (refusals, service) = (self.refusals.clone(), self.service.clone());
        Accepted { wire, from, handshake, caller, revoked_since: None, refusals, service }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Accepted>;

    fn poll_next(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(waker));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(waker)) {
                Ok((stream, from)) => {
                    // Without it small messages wait; a connection that refuses it is gone.
                    let _ = stream.set_nodelay(true);
                    return Poll::Ready(Some(Ok(self.accepted(stream, from))));
                }
                Err(error) => {
                    warn!("no connection can be accepted: {error}");
                    self.pause = Some(Box::pin(sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// A connection, with what it holds.
struct Accepted {
    wire: Wire,
    from: SocketAddr,
    handshake: Handshake,
    caller: CallerCell,
    /// Since when its certificate is known to be taken back.
    revoked_since: Option<Instant>,
    refusals: Arc<RefusalLog>,
    /// Where refusals are counted.
    service: Arc<ControlService>,
}

/// The bytes of a connection.
enum Wire {
    Plain(TcpStream),
    /// A TLS handshake in progress, with those of our credentials that have that number.
    Shaking(Box<Accept<TcpStream>>, Arc<Kept>, u64),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    fn shaking(stream: TcpStream, kept: Arc<Kept>) -> Wire {
        let credentials = kept.current();
        let acceptor = TlsAcceptor::from(credentials.server.clone());
        Wire::Shaking(Box::new(acceptor.accept(stream)), kept, credentials.number)
    }
}

enum Handshake {
    /// Nothing distinguishes it from a peer that only connected.
    New {
        newcomer: Newcomer,
        deadline: Pin<Box<Sleep>>,
        received: usize,
        places: Arc<Places>,
        guests: Arc<Places>,
    },
    /// It has begun HTTP/2.
    Begun { _place: HeldPlace },
}

impl Accepted {
    /// Whether it may go on waiting for the first bytes.
    fn check_new(&mut self, waker: &mut Waker<'_>) -> io::Result<()> {
        let Handshake::New { newcomer, deadline, .. } = &mut self.handshake else { return Ok(()) };
        if Pin::new(newcomer).poll(waker).is_ready() || deadline.as_mut().poll(waker).is_ready() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Goes on with the handshake, if there is one; ready when bytes can pass.
    fn poll_proven(&mut self, waker: &mut Waker<'_>) -> Poll<io::Result<()>> {
        // What is written first goes through here too, so that every handshake has a timeout.
        self.check_new(waker)?;
        let Wire::Shaking(accept, kept, number) = &mut self.wire else {
            return Poll::Ready(Ok(()));
        };
        let refused = |why: String| {
            self.refusals.note(self.from, why);
            self.service.note_refusal(RefusalReason::Unproven);
            Poll::Ready(Err(ErrorKind::ConnectionRefused.into()))
        };
        let stream = match ready!(Pin::new(&mut **accept).poll(waker)) {
            Ok(stream) => stream,
            Err(error) => {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                return refused(cause.map_or_else(|| error.to_string(), explain));
            }
        };
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let proven = match Proven::new(chain, kept.clone(), *number) {
            Ok(proven) => Arc::new(proven),
            Err(flaw) => return refused(format!("its certificate: {flaw}")),
        };
        self.caller.set(Caller::proven(proven, self.from));
        self.wire = Wire::Tls(Box::new(stream));
        Poll::Ready(Ok(()))
    }

    /// Notes that so many bytes came. With the last of the preface it needs a place; where there is
    /// none it stays a newcomer, whose calls are answered with the reason, until its time is over.
    fn note(&mut self, bytes: usize) {
        let Handshake::New { received, places, guests, .. } = &mut self.handshake else { return };
        *received += bytes;
        if *received < PREFACE_BYTES {
            return;
        }
        let caller = self.caller.get();
        let holder = match caller.and_then(|caller| caller.principal.as_ref()) {
            Some(principal) => Holder::Principal(principal.to_string()),
            None => self.from.ip().into(),
        };
        let places = if caller.is_some_and(Caller::is_guest) { guests } else { places };
        let place = places.try_take(holder);
        if self.caller.set_crowded(place.is_none()) && place.is_none() {
            self.refusals.note(self.from, "there are too many");
        }
        if let Some(place) = place {
            self.handshake = Handshake::Begun { _place: place };
        }
    }
}

impl Accepted {
    /// Ends a connection whose certificate was revoked, `REVOKED_FOR` after that was noticed: a
    /// call that comes meanwhile is refused with the reason, and no connection holds a place for
    /// ever.
    fn check_still(&mut self) -> io::Result<()> {
        if !self.caller.get().is_some_and(Caller::is_revoked) {
            return Ok(());
        }
        let since = *self.revoked_since.get_or_insert_with(Instant::now);
        if since.elapsed() < REVOKED_FOR {
            Ok(())
        } else {
            Err(ErrorKind::ConnectionAborted.into())
        }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_new(waker)?;
        ready!(self.poll_proven(waker))?;
        self.check_still()?;
        let before = buffer.filled().len();
        match &mut self.wire {
            Wire::Plain(stream) => ready!(Pin::new(stream).poll_read(waker, buffer))?,
            Wire::Tls(stream) => ready!(Pin::new(stream).poll_read(waker, buffer))?,
            Wire::Shaking(..) => unreachable!("proven above"),
        }
        self.note(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_proven(waker))?;
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(waker, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(waker, bytes),
            Wire::Shaking(..) => unreachable!("proven above"),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_proven(waker))?;
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(waker, parts),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(waker, parts),
            Wire::Shaking(..) => unreachable!("proven above"),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(waker),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(waker),
            Wire::Shaking(..) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(waker),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(waker),
            Wire::Shaking(..) => Poll::Ready(Ok(())),
        }
    }
}

impl Connected for Accepted {
    type ConnectInfo = CallerCell;

    fn connect_info(&self) -> CallerCell {
        self.caller.clone()
    }
}
