//! What is answered to bytes that are no request.
//!
//! Place: beside the whole life of a repair, in the server of `http`. The library that parses
//! requests answers such bytes with a bare status, and gives the reason to its caller alone. So
//! nothing that it writes goes out before there is a request, and the reason is answered here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy, sink};
use tokio::time::timeout;

use super::{HttpLimits, HttpReply};

/// For how long, and of how many bytes, it is waited that a client has sent all that it sends: what
/// comes to a connection that is closed already has the system drop the answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 1 << 20;

/// Bytes of a status line up to its number.
const STATUS_FROM: usize = "HTTP/1.1 ".len();
const STATUS_TO: usize = STATUS_FROM + 3;

/// A stream that is written to only once a request has come.
#[derive(Debug)]
pub(super) struct UntilRequest<'a, S> {
    stream: &'a mut S,
    has_request: &'a AtomicBool,
    /// The beginning of what was to be written before.
    withheld: Vec<u8>,
}

impl<'a, S> UntilRequest<'a, S> {
    pub(super) fn new(stream: &'a mut S, has_request: &'a AtomicBool) -> Self {
        UntilRequest { stream, has_request, withheld: Vec::new() }
    }

    fn is_open(&self) -> bool {
        self.has_request.load(Ordering::Relaxed)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilRequest<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UntilRequest<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_open() {
            return Pin::new(&mut *self.stream).poll_write(context, bytes);
        }
        let more = STATUS_TO.saturating_sub(self.withheld.len()).min(bytes.len());
        self.withheld.extend_from_slice(&bytes[..more]);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_open() {
            return Pin::new(&mut *self.stream).poll_write_vectored(context, parts);
        }
        let first = parts.iter().find(|part| !part.is_empty());
        self.poll_write(context, first.map_or(&[], |part| part))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_open() {
            return Pin::new(&mut *self.stream).poll_shutdown(context);
        }
        Poll::Ready(Ok(()))
    }
}

/// Answers bytes that are no request with what is wrong with them, and waits a moment for the end
/// of what the client sends.
///
/// # Errors
/// Those of the stream.
pub(super) async fn explain<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    reply: HttpReply,
) -> io::Result<()> {
    stream.write_all(&reply.into_bytes()).await?;
    stream.shutdown().await?;
    let rest = &mut stream.take(LINGER_BYTES);
    timeout(LINGER, copy(rest, &mut sink())).await.unwrap_or(Ok(0)).map(drop)
}

impl<S> UntilRequest<'_, S> {
    /// The refusal of what was sent instead of a request.
    pub(super) fn refusal(self, error: &hyper::Error, limits: HttpLimits) -> HttpReply {
        let status = self.withheld.get(STATUS_FROM..STATUS_TO);
        let status = status.and_then(|digits| StatusCode::from_bytes(digits).ok());
        let status = status.unwrap_or(StatusCode::BAD_REQUEST);
        let HttpLimits { request_bytes, headers, .. } = limits;
        let is_too_long = error.is_parse_too_large();
        let why = if is_too_long {
            format!(
                "the request is too long: its line and headers may have {request_bytes} bytes, \
                 and there may be {headers} headers"
            )
        } else {
            format!("this is no request of HTTP/1.1: {error}")
        };
        HttpReply::refusal(status, why)
    }
}
