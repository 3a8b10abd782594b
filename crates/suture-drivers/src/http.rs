//! A small HTTP/1.1 server for what monitoring and browsers read.
//!
//! Place: beside the whole life of a repair; nothing of it depends on what is served here.
//! One request to a connection, and everything of it has an end: a client that has not sent all of
//! its request is a newcomer and gives way to newer ones, one that has takes a place until it has
//! read the answer, and a connection lasts at most half a minute. So slow ones, however many, hold
//! a few kilobytes each of a bounded number of connections, and keep no other client waiting. Where
//! there are credentials the connection is TLS, and the client has proven a principal whose role
//! may see the pages. On loopback without them, a request has to name this machine as its host: a
//! foreign page, in a browser on it, can have its own name lead here, and would read what is shown.
//! A browser shows its user's certificate for every page that asks, so a command is taken only from
//! pages that came from here: as JSON, which other origins may not send without being asked first,
//! and never where the browser states that it comes from elsewhere.

mod unparsed;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use self::unparsed::UntilRequest;
use crate::identity::AccessRole;
use crate::identity::certificate::explain;
use crate::identity::credentials::{Kept, Proven};
use crate::net::places::{HeldPlace, Newcomer, Newcomers, Places};
use crate::net::refusals::RefusalLog;

/// The pause after the system could not give a connection, mostly for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What others may hold of the server.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections whose request has not come in full; the oldest give way to more.
    pub newcomers: usize,
    /// Requests that are being answered.
    pub answers: usize,
    /// How many of them one address may have.
    pub answers_each: usize,
    /// How long a request may take to come, a handshake included.
    pub request: Duration,
    /// How long a connection may last.
    pub connection: Duration,
    /// Bytes of a request's line and headers together.
    pub request_bytes: usize,
    /// How many headers it may have.
    pub headers: usize,
    /// Bytes of a command.
    pub command_bytes: usize,
}

impl Default for HttpLimits {
    /// Monitoring asks once in some seconds, and a browser for a few things at a time.
    fn default() -> HttpLimits {
        HttpLimits {
            newcomers: 128,
            answers: 64,
            answers_each: 32,
            request: Duration::from_secs(10),
            connection: Duration::from_secs(30),
            request_bytes: 16 << 10,
            headers: 64,
            command_bytes: 4 << 10,
        }
    }
}

/// The clients that may see the pages.
#[derive(Clone, Debug)]
pub struct HttpAccess {
    /// What proves the principal at each end; none: every client that can connect may see them.
    pub credentials: Option<Arc<Kept>>,
    /// The roles that may.
    pub roles: &'static [AccessRole],
}

/// Whether a `Host` is this machine's own: a name for it, or an address that only it has.
fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}

/// What is answered to a request.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status of the answer.
    pub status: StatusCode,
    /// What the body is.
    pub content_type: &'static str,
    /// The body of the answer.
    pub body: Bytes,
}

impl HttpReply {
    /// An answer with what was asked for.
    pub fn ok(content_type: &'static str, body: impl Into<Bytes>) -> HttpReply {
        HttpReply { status: StatusCode::OK, content_type, body: body.into() }
    }

    /// An answer that says why there is no other.
    pub fn refusal(status: StatusCode, why: impl Into<String>) -> HttpReply {
        let body = format!("{}\n", why.into()).into();
        HttpReply { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// The whole answer as it is sent, of a connection that ends with it.
    fn into_bytes(self) -> Vec<u8> {
        let body = self.body.clone();
        let response = self.into_response();
        let (status, length) = (response.status(), body.len());
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n");
        let mut bytes = head.into_bytes();
        for (name, value) in response.headers() {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        bytes
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        // What is shown is of now, and of this place alone.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'";
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        response
    }
}

/// An answer that is made anew only now and then: a client that asks without a pause costs no more
/// than one that asks once a second.
#[derive(Debug)]
pub struct Cached<T>(tokio::sync::Mutex<Option<(Instant, T)>>);

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(tokio::sync::Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The last answer while it is fresh, or what `make` gives.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn get<E>(&self, make: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut last = self.0.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(answer.clone());
        }
        let answer = make.await?;
        *last = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }
}

/// A request, all of which has come.
#[derive(Debug)]
pub struct HttpRequest {
    /// Its first line and its headers.
    pub parts: Parts,
    /// The principal that asks, where it is proven.
    pub proven: Option<Arc<Proven>>,
    /// Where the connection comes from.
    pub from: SocketAddr,
    /// The JSON of a command (POST); none where something is only looked at (GET and HEAD).
    pub command: Option<Bytes>,
}

impl HttpRequest {
    /// The path that is asked for.
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }
}

/// What answers requests. The server leaves out the body of answers to HEAD.
pub trait HttpPages: Send + Sync + 'static {
    /// Whether commands are taken. Where not, only GET and HEAD come as far as `answer`.
    const COMMANDS: bool;

    /// The answer to a request.
    fn answer(&self, request: HttpRequest) -> impl Future<Output = HttpReply> + Send;
}

/// Serves until it is dropped; then its connections end too.
pub async fn serve(
    listener: TcpListener,
    access: HttpAccess,
    limits: HttpLimits,
    pages: impl HttpPages,
) {
    let is_loopback = listener.local_addr().is_ok_and(|at| at.ip().is_loopback());
    let server = Arc::new(HttpServer {
        is_local_only: is_loopback && access.credentials.is_none(),
        access,
        limits,
        pages,
        newcomers: Newcomers::new(limits.newcomers),
        places: Places::new(limits.answers, limits.answers_each),
        refusals: RefusalLog::default(),
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let newcomer = server.newcomers.enter();
                    connections.spawn(server.clone().connection(stream, from, newcomer));
                }
                Err(error) => {
                    warn!("no connection can be accepted: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

struct HttpServer<P> {
    access: HttpAccess,
    /// Whether only this machine itself may be asked for.
    is_local_only: bool,
    limits: HttpLimits,
    pages: P,
    newcomers: Arc<Newcomers>,
    places: Places,
    refusals: RefusalLog,
}

/// One connection: what its request holds once it has come.
struct Exchange<P> {
    server: Arc<HttpServer<P>>,
    from: SocketAddr,
    came: Mutex<Option<oneshot::Sender<()>>>,
    place: Mutex<Option<HeldPlace>>,
}

impl<P: HttpPages> HttpServer<P> {
    async fn connection(self: Arc<Self>, stream: TcpStream, from: SocketAddr, newcomer: Newcomer) {
        let (came, has_come) = oneshot::channel();
        let limits = self.limits;
        let (came, place) = (Mutex::new(Some(came)), Mutex::default());
        let exchange = Arc::new(Exchange { server: self, from, came, place });
        let ends = tokio::select! {
            served = timeout(limits.connection, exchange.serve(stream)) => served,
            why = too_new(newcomer, has_come, limits.request) => {
                return debug!("a connection from {from} ended: {why}");
            }
        };
        match ends {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!("a connection from {from} ended: {error}"),
            Err(_) => debug!("a connection from {from} ended: it lasted too long"),
        }
    }

    /// Encrypts the connection; gives the principal at its other end.
    async fn authenticate(
        &self,
        stream: TcpStream,
        kept: &Arc<Kept>,
    ) -> Result<(TlsStream<TcpStream>, Proven), String> {
        let credentials = kept.current();
        let accepted = TlsAcceptor::from(credentials.server.clone()).accept(stream).await;
        let stream = accepted.map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
            cause.map_or_else(|| error.to_string(), explain)
        })?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let proven = Proven::new(chain, kept.clone(), credentials.number);
        Ok((stream, proven.map_err(|flaw| format!("its certificate: {flaw}"))?))
    }

    /// The refusal of a principal that may not see the pages, if so.
    fn refuse(&self, proven: Option<&Proven>) -> Option<HttpReply> {
        let who = &proven?.statement.principal;
        let may = self.access.roles.contains(&who.role);
        (!may).then(|| {
            let roles: Vec<String> = self.access.roles.iter().map(ToString::to_string).collect();
            let why = format!("{who} may not look at this: {} may", roles.join(", "));
            HttpReply::refusal(StatusCode::FORBIDDEN, why)
        })
    }
}

/// Ends when a connection is to end although its request has not come in full; gives why.
async fn too_new(
    newcomer: Newcomer,
    has_come: oneshot::Receiver<()>,
    within: Duration,
) -> &'static str {
    let why = tokio::select! {
        biased;
        Ok(()) = has_come => None,
        () = newcomer => Some("newer ones came before its request had"),
        () = sleep(within) => Some("its request did not come in time"),
    };
    match why {
        Some(why) => why,
        None => pending().await,
    }
}

impl<P: HttpPages> Exchange<P> {
    async fn serve(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let Some(kept) = &self.server.access.credentials else {
            return self.serve_over(stream, None).await;
        };
        match self.server.authenticate(stream, kept).await {
            Ok((stream, proven)) => self.serve_over(stream, Some(Arc::new(proven))).await,
            Err(why) => {
                self.server.refusals.note(self.from, why);
                Ok(())
            }
        }
    }

    async fn serve_over(
        self: Arc<Self>,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        proven: Option<Arc<Proven>>,
    ) -> io::Result<()> {
        let limits = self.server.limits;
        let exchange = &self;
        let proven = proven.as_ref();
        let has_request = AtomicBool::new(false);
        let has_request = &has_request;
        let answer = service_fn(move |request: Request<Incoming>| async move {
            has_request.store(true, Ordering::Relaxed);
            let reply = exchange.answer(request, proven).await;
            Ok::<_, Infallible>(reply.into_response())
        });
        let mut until_request = UntilRequest::new(&mut stream, has_request);
        let served = http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(limits.request_bytes)
            .max_headers(limits.headers)
            .timer(TokioTimer::new())
            // A clock that stands before 1970 has no date, and no client needs it.
            .auto_date_header(false)
            .serve_connection(TokioIo::new(&mut until_request), answer)
            .await;
        match served {
            Err(error) if error.is_parse() && !has_request.load(Ordering::Relaxed) => {
                let reply = until_request.refusal(&error, limits);
                self.server.refusals.note_of("request", self.from, error);
                unparsed::explain(&mut stream, reply).await
            }
            served => served.map_err(io::Error::other),
        }
    }

    async fn answer(&self, request: Request<Incoming>, proven: Option<&Arc<Proven>>) -> HttpReply {
        let (parts, body) = request.into_parts();
        // What is refused by its head is not waited for.
        let command = match self.refuse(&parts, proven.map(Arc::as_ref)) {
            Some(refusal) => Err(refusal),
            None if parts.method == Method::POST => self.command(body).await.map(Some),
            None => Ok(None),
        };
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The receiver is gone where the connection ends.
        came.map(|came| came.send(()));
        let Some(place) = self.server.places.try_take(self.from.ip()) else {
            let why = "too many requests are being answered: try again";
            return HttpReply::refusal(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        match command {
            Err(refusal) => refusal,
            Ok(command) => {
                let (proven, from) = (proven.cloned(), self.from);
                self.server.pages.answer(HttpRequest { parts, proven, from, command }).await
            }
        }
    }

    /// The refusal of a request by its first line, its headers and who asks, if so.
    fn refuse(&self, parts: &Parts, proven: Option<&Proven>) -> Option<HttpReply> {
        if let Some(refusal) = self.server.refuse(proven) {
            return Some(refusal);
        }
        // A client that sends none is no browser.
        let hosts = parts.headers.get_all(header::HOST).iter();
        let mut hosts = hosts.map(|host| host.to_str().is_ok_and(is_local));
        if self.server.is_local_only && !hosts.all(|is_local| is_local) {
            let why = "this is answered to localhost, 127.0.0.1 and [::1] only, and another Host \
                       was asked for";
            return Some(HttpReply::refusal(StatusCode::MISDIRECTED_REQUEST, why));
        }
        match &parts.method {
            &Method::GET | &Method::HEAD => None,
            &Method::POST if P::COMMANDS => {
                let why = foreign(&parts.headers)?;
                Some(HttpReply::refusal(StatusCode::FORBIDDEN, why))
            }
            method => {
                let others = if P::COMMANDS { "GET, HEAD and POST" } else { "GET and HEAD" };
                let why = format!("{method} is not answered here: only {others} are");
                Some(HttpReply::refusal(StatusCode::METHOD_NOT_ALLOWED, why))
            }
        }
    }

    /// The whole of a command.
    async fn command(&self, body: Incoming) -> Result<Bytes, HttpReply> {
        let limits = self.server.limits;
        // So there is time to say that it did not come.
        let (most, within) = (limits.command_bytes, limits.request * 4 / 5);
        let refused = |status, why: String| Err(HttpReply::refusal(status, why));
        match timeout(within, Limited::new(body, most).collect()).await {
            Ok(Ok(whole)) => Ok(whole.to_bytes()),
            Ok(Err(why)) if why.is::<LengthLimitError>() => {
                let why = format!("a command has at most {most} bytes");
                refused(StatusCode::PAYLOAD_TOO_LARGE, why)
            }
            Ok(Err(why)) => refused(StatusCode::BAD_REQUEST, format!("the command: {why}")),
            Err(_) => {
                let why = format!("the command did not come within {} s", within.as_secs());
                refused(StatusCode::REQUEST_TIMEOUT, why)
            }
        }
    }
}

/// Why a command is none of a page from here, nor of a program: by the headers in which browsers
/// state where it comes from, which pages cannot change.
fn foreign(headers: &HeaderMap) -> Option<&'static str> {
    const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let content = text(header::CONTENT_TYPE).and_then(|text| text.split(';').next());
    if content.is_none_or(|content| !content.trim().eq_ignore_ascii_case("application/json")) {
        return Some("commands need the header Content-Type: application/json");
    }
    let origin = text(header::ORIGIN).map(|origin| {
        origin.strip_prefix("https://").or(origin.strip_prefix("http://")).unwrap_or(origin)
    });
    let is_elsewhere = origin.is_some() && origin != text(header::HOST);
    let is_foreign = !matches!(text(SEC_FETCH_SITE), None | Some("same-origin"));
    (is_elsewhere || is_foreign).then_some("commands are taken from pages of this address only")
}
