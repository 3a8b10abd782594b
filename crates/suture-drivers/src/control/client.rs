//! The way to a coordinator for commands and agents, and its refusals as errors for people.
//!
//! Place: [a connection made] -> put, get or an operator's command.
//! What a call has ended with is said as far as it is known: that nothing listens, that nothing
//! answers, that a certificate is not accepted, that the coordinator ended the connection. Only
//! where none was recognized yet (`recognized.rs`) it may be something else that listens.

mod recognized;

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Waker, Poll};
use std::time::Duration;

use anyhow::{Result, anyhow};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use suture_edge::error::bad_input;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tracing::debug;

use super::proto::coordinator_client::CoordinatorClient;
use super::{KEEPALIVE_EVERY, KEEPALIVE_TIMEOUT, REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::address::parse_address;
use crate::identity::AccessRole;
use crate::identity::certificate::explain;
use crate::identity::credentials::{Kept, Proven};
use recognized::{CoordinatorChannel, EndedCall, PlainConnector, Recognized};

/// What the system says of a port where no process listens.
const REFUSED: &str = "Connection refused";

/// A coordinator that is there answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a coordinator, and the credentials that prove the client's identity, to agents
/// too. Where credentials have changed the next call goes by a new connection, since each shows its
/// certificate once; answers that come by the former one still come.
#[derive(Clone, Debug)]
pub struct Client {
    rpc: CoordinatorClient<CoordinatorChannel>,
    endpoint: Endpoint,
    /// The number of the credentials that the connection was made with.
    number: u64,
    /// None: neither end proves its identity.
    pub credentials: Option<Arc<Kept>>,
    /// The identity that the coordinator has proven, by its newest connection.
    proven: Arc<Mutex<Option<Arc<Proven>>>>,
    /// How further connections are made; none without credentials.
    connector: Option<Connector>,
}

impl Client {
    /// The number of our credentials, after a look at their files; none where there are none.
    pub fn refresh(&self) -> Option<u64> {
        self.credentials.as_ref().map(|kept| kept.refresh())
    }

    /// Whether the coordinator is to be accepted still: certificates end while connections last.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_still(&self) -> Result<()> {
        let proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = proven.as_ref().map_or(Ok(()), |proven| proven.check());
        checked.map_err(|flaw| anyhow!("the certificate of the coordinator: {flaw}"))
    }
}

impl Deref for Client {
    type Target = CoordinatorClient<CoordinatorChannel>;

    fn deref(&self) -> &CoordinatorClient<CoordinatorChannel> {
        &self.rpc
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut CoordinatorClient<CoordinatorChannel> {
        if let Some(connector) = &self.connector {
            let number = connector.kept.current().number;
            if number != self.number {
                self.number = number;
                let channel = self.endpoint.connect_with_connector_lazy(connector.clone());
                self.rpc = rpc(CoordinatorChannel::new(channel, connector.recognized.clone()));
            }
        }
        &mut self.rpc
    }
}

/// Connects to the coordinator at `address`, such as `127.0.0.1:7400`, and has it prove that it is
/// one, if there are credentials.
///
/// # Errors
/// Bad input when `address` is none; a failure when nothing answers there, or anything but a
/// coordinator.
pub async fn connect(address: &str, credentials: Option<Arc<Kept>>) -> Result<Client> {
    let address = parse_address(address).map_err(bad_input)?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| bad_input(format!("'{address}' is not an address like 127.0.0.1:7400")))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    let proven = Arc::<Mutex<Option<Arc<Proven>>>>::default();
    let number = credentials.as_ref().map_or(0, |kept| kept.current().number);
    let (to, recognized): (Arc<str>, _) = (address.clone().into(), Recognized::default());
    let connector = credentials.clone().map(|kept| Connector {
        address: to.clone(),
        kept,
        proven: proven.clone(),
        recognized: recognized.clone(),
    });
    let channel = match connector.clone() {
        None => {
            let plain = PlainConnector { address: to, recognized: recognized.clone() };
            endpoint.connect_with_connector(plain).await
        }
        Some(connector) => endpoint.connect_with_connector(connector).await,
    };
    let channel = channel.map_err(|error| match root_cause(&error) {
        cause if is_distrust(cause) => bad_input(format!("what answers at {address}: {cause}")),
        cause => anyhow!("no coordinator answers at {address}: {cause}"),
    })?;
    debug!(address, "connected to the coordinator");
    let rpc = rpc(CoordinatorChannel::new(channel, recognized));
    Ok(Client { rpc, endpoint, number, credentials, proven, connector })
}

fn rpc(channel: CoordinatorChannel) -> CoordinatorClient<CoordinatorChannel> {
    CoordinatorClient::new(channel)
        .max_decoding_message_size(REPLY_BYTES_MAX)
        .max_encoding_message_size(REQUEST_BYTES_MAX)
}

/// Authentication failed on one side: the text says why.
#[derive(Debug)]
struct Distrust(String);

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Distrust {}

fn is_distrust(cause: &(dyn Error + 'static)) -> bool {
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<Distrust>())
}

/// Connects with TLS, each time with the credentials that count then.
#[derive(Clone, Debug)]
struct Connector {
    address: Arc<str>,
    kept: Arc<Kept>,
    proven: Arc<Mutex<Option<Arc<Proven>>>>,
    recognized: Recognized,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<BufReader<TlsStream<TcpStream>>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Waker<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().secure())
    }
}

impl Connector {
    /// An encrypted connection to the process that listens there, if it is a coordinator.
    async fn secure(self) -> io::Result<TokioIo<BufReader<TlsStream<TcpStream>>>> {
        let Connector { address, kept, proven, recognized } = self;
        let tcp = TcpStream::connect(&*address).await?;
        tcp.set_nodelay(true)?;
        // What it is called is in its certificate, and not where it is.
        let nobody = ServerName::try_from("suture").expect("it is a name");
        let credentials = kept.current();
        let stream = TlsConnector::from(credentials.client.clone()).connect(nobody, tcp).await;
        let mut stream = BufReader::new(stream.map_err(explained)?);
        let chain = stream.get_ref().get_ref().1.peer_certificates().unwrap_or_default();
        let found = Proven::new(chain, kept, credentials.number);
        let distrust = |why: String| io::Error::other(Distrust(why));
        let found = found.map_err(|flaw| distrust(format!("its certificate: {flaw}")))?;
        let principal = &found.statement.principal;
        if principal.role != AccessRole::Coordinator {
            return Err(distrust(format!("it is {principal}, and no coordinator")));
        }
        *proven.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(found));
        // The coordinator sends its first bytes once it has accepted our certificate, and else an
        // alert.
        if stream.fill_buf().await.map_err(explained)?.is_empty() {
            return Err(distrust("it ended the connection and did not say why".into()));
        }
        recognized.note();
        Ok(TokioIo::new(stream))
    }
}

/// What an error has to do with the identity of either end, if anything.
fn explained(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    cause.map(|cause| Distrust(explain(cause))).map_or(error, io::Error::other)
}

/// Turns a coordinator's status into an error of the right kind: bad input where it refused the
/// request or did not prove itself, a failure otherwise.
pub fn refusal(status: Status) -> anyhow::Error {
    let is_of_coordinator = EndedCall::is_behind(&status);
    explained_status(status, if is_of_coordinator { gone } else { broken })
}

/// The same of a stream that the coordinator had answered on: what listens there is one.
pub fn stream_ended(status: Status) -> anyhow::Error {
    explained_status(status, gone)
}

fn explained_status(status: Status, broken: fn(&str) -> String) -> anyhow::Error {
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated => bad_input(status.message()),
        // By a connection that was made anew.
        _ if is_distrust(root_cause(&status)) => {
            bad_input(format!("what answers as the coordinator: {}", root_cause(&status)))
        }
        _ if status.source().is_some() => anyhow!(broken(&root_cause(&status).to_string())),
        // It understands, and cannot do it now.
        Code::ResourceExhausted | Code::Unavailable | Code::Aborted => {
            anyhow!("{}", status.message())
        }
        Code::Cancelled | Code::Unknown => {
            anyhow!("the coordinator went away: {}", status.message())
        }
        _ => anyhow!("the coordinator: {}", status.message()),
    }
}

/// What a connection ended with, in words: it may never have been one to a coordinator.
fn broken(cause: &str) -> String {
    if cause.contains(REFUSED) {
        return format!("nothing listens there any more: {cause}");
    }
    if cause.contains("timed out") {
        return "what listens there does not answer: the coordinator hangs, or it is something else".into();
    }
    if cause.contains("frame with invalid size") || cause.contains("PROTOCOL_ERROR") {
        return "what listens there speaks another protocol: a coordinator that asks for \
                credentials (--credentials), or an agent"
            .into();
    }
    format!(
        "what listens there speaks another protocol, asks for credentials (--credentials), or went \
         away: {cause}"
    )
}

/// What a connection to a coordinator ended with, in words.
fn gone(cause: &str) -> String {
    if cause.contains(REFUSED) {
        return format!("the coordinator went away, and nothing listens where it was: {cause}");
    }
    if cause.contains("timed out") {
        return "the coordinator does not answer any more: it hangs, or is out of reach".into();
    }
    format!("the coordinator went away: {cause}")
}

fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::control::proto::StatusRequest;

    #[test]
    fn what_has_answered_as_a_coordinator_is_not_taken_for_something_else() {
        let broken_by =
            |cause: &str| Status::from_error(Box::new(io::Error::other(cause.to_owned())));
        for cause in ["connection reset by peer", "keep-alive timed out", "PROTOCOL_ERROR"] {
            let first = refusal(broken_by(cause)).to_string();
            assert!(first.starts_with("what listens there"), "{first}");
            let later = stream_ended(broken_by(cause)).to_string();
            assert!(later.starts_with("the coordinator "), "{later}");
        }
        let refused = refusal(broken_by("Connection refused (os error 111)")).to_string();
        assert!(refused.starts_with("nothing listens there any more"), "{refused}");
        // What it says itself is said in its words, at any time.
        let said = Status::not_found("there is no object 'x'");
        assert_eq!(stream_ended(said.clone()).to_string(), refusal(said).to_string());
    }

    /// The types and flags of the frames that have come whole, after what HTTP/2 begins with.
    fn frames(bytes: &[u8]) -> Vec<[u8; 2]> {
        const PREFACE: usize = 24;
        let (mut rest, mut frames) = (bytes.get(PREFACE..).unwrap_or_default(), Vec::new());
        while let &[a, b, c, kind, flags, _, _, _, _, ref more @ ..] = rest {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(after) = more.get(length..) else { break };
            frames.push([kind, flags]);
            rest = after;
        }
        frames
    }

    /// What a call is refused with by a listener that takes one connection, sends this, waits until
    /// that is read and the call has come, and ends; and what the next call is refused with.
    async fn refused_by(words: &'static [u8]) -> [String; 2] {
        const HEADERS: u8 = 1;
        const SETTINGS_READ: [u8; 2] = [4, 1];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listens = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            drop(listener);
            stream.write_all(words).await.unwrap();
            let is_over = |frames: &[[u8; 2]]| {
                frames.iter().any(|[kind, _]| *kind == HEADERS)
                    && (words.is_empty() || frames.contains(&SETTINGS_READ))
            };
            let mut received = Vec::new();
            while !is_over(&frames(&received)) {
                assert!(stream.read_buf(&mut received).await.unwrap() > 0);
            }
        });
        let mut client = connect(&address, None).await.unwrap();
        let first = refusal(client.status(StatusRequest::default()).await.unwrap_err()).to_string();
        listens.await.unwrap();
        let mut next = String::new();
        for _ in 0..50 {
            next = refusal(client.status(StatusRequest::default()).await.unwrap_err()).to_string();
            if next.contains(REFUSED) {
                break;
            }
            // The connection that ended is not put away yet.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        [first, next]
    }

    #[tokio::test]
    async fn whoever_has_spoken_as_a_coordinator_went_away_and_is_no_stranger() {
        let [first, next] = refused_by(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
        assert!(first.starts_with("the coordinator went away: "), "{first}");
        assert!(next.starts_with("the coordinator went away, and nothing listens"), "{next}");
        let [first, next] = refused_by(&[]).await;
        assert!(first.starts_with("what listens there speaks another protocol, "), "{first}");
        assert!(next.starts_with("nothing listens there any more: "), "{next}");
    }
}
