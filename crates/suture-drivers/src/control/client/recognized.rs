//! Whether a coordinator was recognized at the other end, so that it can be said what a call has
//! ended with.
//!
//! Place: [a connection made] -> put, get or an operator's command.
//! Any process may listen on a port, and a connection that ends does not show which one did. A
//! coordinator speaks HTTP/2, which begins with an unrequested frame of settings; a coordinator
//! with credentials has proven itself before. After either the end of a connection is that of a
//! coordinator, and no sign of another protocol.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Waker, Poll, ready};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response, Uri};
use tonic::transport::Channel;

/// The bytes of a frame's header: its length (3), type, flags and stream (4).
const HEADER: usize = 9;

/// The type of a frame of settings.
const SETTINGS: u8 = 4;

/// Whether the process at an address was recognized as a coordinator, by any connection so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Recognized(Arc<AtomicBool>);

impl Recognized {
    /// Notes that it has.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_coordinator(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A channel whose calls end with whether a coordinator was at its other end.
#[derive(Clone, Debug)]
pub struct CoordinatorChannel {
    channel: Channel,
    recognized: Recognized,
}

impl CoordinatorChannel {
    pub(super) fn new(channel: Channel, recognized: Recognized) -> CoordinatorChannel {
        CoordinatorChannel { channel, recognized }
    }
}

impl Service<Request<Body>> for CoordinatorChannel {
    type Response = Response<Body>;
    type Error = EndedCall;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, EndedCall>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Waker<'_>) -> Poll<Result<(), EndedCall>> {
        let recognized = &self.recognized;
        self.channel.poll_ready(cx).map_err(|why| EndedCall::new(why, recognized))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (answer, recognized) = (self.channel.call(request), self.recognized.clone());
        Box::pin(async move { answer.await.map_err(|why| EndedCall::new(why, &recognized)) })
    }
}

/// Why no answer to a call has begun.
#[derive(Debug)]
pub struct EndedCall {
    why: tonic::transport::Error,
    is_of_coordinator: bool,
}

impl EndedCall {
    fn new(why: tonic::transport::Error, recognized: &Recognized) -> EndedCall {
        EndedCall { why, is_of_coordinator: recognized.is_coordinator() }
    }

    /// Whether an error comes from such a call to a coordinator.
    pub(super) fn is_behind(error: &(dyn Error + 'static)) -> bool {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let ended = causes.find_map(|cause| cause.downcast_ref::<EndedCall>());
        ended.is_some_and(|ended| ended.is_of_coordinator)
    }
}

impl fmt::Display for EndedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl Error for EndedCall {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

/// Connects without credentials: the process that listens there proves nothing.
#[derive(Clone, Debug)]
pub(super) struct PlainConnector {
    pub address: Arc<str>,
    pub recognized: Recognized,
}

impl Service<Uri> for PlainConnector {
    type Response = TokioIo<FirstBytes<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Waker<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let PlainConnector { address, recognized } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(FirstBytes { stream, first: Vec::new(), recognized }))
        })
    }
}

/// A stream of which the first bytes that come are looked at.
#[derive(Debug)]
pub(super) struct FirstBytes<S> {
    stream: S,
    /// The header of the first frame, as far as it has come.
    first: Vec<u8>,
    recognized: Recognized,
}

impl<S> FirstBytes<S> {
    fn inspect(&mut self, bytes: &[u8]) {
        let lacking = HEADER - self.first.len();
        if lacking == 0 || bytes.is_empty() {
            return;
        }
        self.first.extend(bytes.iter().take(lacking));
        if matches!(self.first[..], [_, _, _, SETTINGS, _, 0, 0, 0, 0]) {
            self.recognized.note();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Waker<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.inspect(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Waker<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Waker<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Waker<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Waker<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_with_a_frame_of_settings_is_recognized_however_its_bytes_come() {
        let recognized_by = |parts: &[&[u8]]| {
            let recognized = Recognized::default();
            let mut stream =
                FirstBytes { stream: (), first: Vec::new(), recognized: recognized.clone() };
            parts.iter().for_each(|part| stream.inspect(part));
            recognized.is_coordinator()
        };
        let settings = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        assert!(recognized_by(&[&settings]));
        assert!(recognized_by(&[&settings[..3], &[], &settings[3..8], &settings[8..]]));
        assert!(!recognized_by(&[]) && !recognized_by(&[&settings[..8]]));
        // An alert of TLS, an answer of HTTP/1.1, a frame of a stream.
        for other in [
            &[0x15, 3, 3, 0, 2, 2, 10, 0, 0][..],
            b"HTTP/1.1 400 Bad Request",
            &[0, 0, 1, SETTINGS, 0, 0, 0, 0, 1],
        ] {
            assert!(!recognized_by(&[other]), "{other:?}");
            assert!(!recognized_by(&[other, &settings]), "only the first bytes count: {other:?}");
        }
    }
}
