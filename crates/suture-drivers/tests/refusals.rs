//! What a coordinator refuses is counted by its reason, over real connections.
//!
//! Place: a call comes -> [its caller may make it, or not] -> it is answered.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::control;
use crate::signed::Signed;
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::audit::Audit;
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto;
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::metadata::{Incomplete, MetadataStore};
use suture_drivers::metrics::coordinator::{CoordinatorMetrics, Seen};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::Code;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A coordinator that authenticates its callers, and counts refusals.
struct Counting {
    _dir: TempDir,
    address: SocketAddr,
    signed: Signed,
    metrics: Arc<CoordinatorMetrics>,
}

impl Counting {
    async fn start(log: &Path, limits: ControlLimits) -> Counting {
        let (dir, signed) = (tempfile::tempdir().unwrap(), Signed::new());
        let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = CoordinatorMetrics::new(None);
        let service = control::coordinator(store).with_audit(Audit::open(log).unwrap());
        let service = service.with_metrics(metrics.clone());
        let credentials = Some(signed.credentials(AccessRole::Coordinator, "c"));
        tokio::spawn(acceptor::serve(listener, service, limits, credentials));
        Counting { _dir: dir, address, signed, metrics }
    }

    async fn client(&self, role: AccessRole, name: &str) -> Client {
        connect(self, &self.signed.credentials(role, name)).await
    }

    /// How many refusals were counted, of each reason that has any.
    fn refusals(&self) -> Vec<(String, u64)> {
        let text = String::from_utf8(self.metrics.write(&Seen::default()).classic.to_vec());
        let text = text.unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("suture_refusals_total{"));
        let counts = lines.map(|line| {
            let (reason, count) = line.split_once("} ").expect("a label and a value");
            (reason.replace("reason=", "").replace('"', ""), count.parse::<u64>().unwrap())
        });
        let mut counts: Vec<(String, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        counts.sort();
        counts
    }
}

async fn connect(to: &Counting, credentials: &Arc<Kept>) -> Client {
    client::connect(&to.address.to_string(), Some(credentials.clone())).await.unwrap()
}

fn counts<const N: usize>(expected: [(&str, u64); N]) -> Vec<(String, u64)> {
    expected.map(|(reason, count)| (reason.to_owned(), count)).into()
}

fn named(name: &str) -> proto::ObjectName {
    proto::ObjectName { name: name.into() }
}

#[tokio::test]
async fn who_may_not_is_counted_and_who_only_errs_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let cluster = Counting::start(&log, ControlLimits::default()).await;
    let mut bob = cluster.client(AccessRole::Client, "bob").await;
    bob.remove(named("bob/x")).await.unwrap_err();
    bob.remove(named(&"bob/".repeat(1000))).await.unwrap_err();
    assert_eq!(cluster.refusals(), counts([]), "there is no such object");
    bob.remove(named("alice/x")).await.unwrap_err();
    bob.status(proto::StatusRequest::default()).await.unwrap_err();
    assert_eq!(cluster.refusals(), counts([("permission", 2)]));
    // No handshake begins so. It is counted before the connection ends.
    let mut stranger = TcpStream::connect(cluster.address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stranger.read_to_end(&mut rest)).await.expect("it hangs up");
    assert_eq!(cluster.refusals(), counts([("permission", 2), ("unproven", 1)]));
}

#[tokio::test]
async fn what_is_over_a_limit_is_counted_by_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let limits = ControlLimits { connections_each: 1, ..ControlLimits::default() };
    let cluster = Counting::start(&log, limits).await;
    let mut bob = cluster.client(AccessRole::Client, "bob").await;
    let mut over = 0;
    for _ in 0..200 {
        let why = bob.remove(named("bob/x")).await.unwrap_err();
        over += u64::from(why.code() == Code::ResourceExhausted);
    }
    assert!(over > 0, "too many changes failed");
    assert_eq!(cluster.refusals(), counts([("failures", over)]));
    let credentials = cluster.signed.credentials(AccessRole::Operator, "alice");
    let mut first = connect(&cluster, &credentials).await;
    first.status(proto::StatusRequest::default()).await.unwrap();
    let mut second = connect(&cluster, &credentials).await;
    second.status(proto::StatusRequest::default()).await.unwrap_err();
    assert_eq!(cluster.refusals(), counts([("connections", 1), ("failures", over)]));
}

#[tokio::test]
async fn changes_that_cannot_be_written_down_are_counted() {
    let cluster = Counting::start(Path::new("/dev/full"), ControlLimits::default()).await;
    let mut alice = cluster.client(AccessRole::Operator, "alice").await;
    let why = alice.start_scrub(proto::ScrubRequest {}).await.unwrap_err();
    assert_eq!(why.code(), Code::Unavailable, "{why}");
    assert_eq!(cluster.refusals(), counts([("audit", 1)]));
}
