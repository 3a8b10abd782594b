//! Which roles may make which calls of a coordinator: every call of the protocol by every role,
//! over real connections, and against the table.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::signed::{DAY, Signed, open};
use crate::{control, words};
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::access::{Call, TABLE};
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto;
use suture_drivers::control::proto::put_request::Step;
use suture_drivers::control::proto::{NodeAction, RepairAction};
use suture_drivers::control::trust::Trust;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::metadata::{Incomplete, MetadataStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::{Code, Status};

const TIMEOUT: Duration = Duration::from_secs(60);

const PROTOCOL: &str = include_str!("../proto/suture.proto");

async fn start(credentials: Option<Arc<Kept>>) -> (TempDir, SocketAddr) {
    start_limited(credentials, ControlLimits::default()).await
}

async fn start_limited(
    credentials: Option<Arc<Kept>>,
    limits: ControlLimits,
) -> (TempDir, SocketAddr) {
    let dir = tempfile::tempdir().unwrap();
    let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let trust = Trust::new(credentials.clone(), address.ip());
    let service = control::coordinator(store).with_trust(trust);
    tokio::spawn(acceptor::serve(listener, service, limits, credentials));
    (dir, address)
}

/// A coordinator that proves that it is one, and asks the same of others.
async fn start_proven(signed: &Signed) -> (TempDir, SocketAddr) {
    start(Some(signed.credentials(AccessRole::Coordinator, "c"))).await
}

async fn connect(address: SocketAddr, credentials: Option<Arc<Kept>>) -> Result<Client, String> {
    let connected = client::connect(&address.to_string(), credentials).await;
    connected.map_err(|error| format!("{error:#}"))
}

/// What a call that means nothing is answered with, if it is answered at all.
async fn ask(client: &mut Client, call: Call) -> Result<(), Status> {
    let name = || proto::ObjectName { name: "them/x".into() };
    let node = |action: NodeAction| proto::NodeCommand {
        name: "n9".into(),
        action: action.into(),
        ..Default::default()
    };
    let start = proto::RepairCommand { action: RepairAction::Start.into(), ..Default::default() };
    match call {
        Call::Session => {
            let mut said = client.session(tokio_stream::iter([])).await?.into_inner();
            said.message().await.map(drop)
        }
        Call::Put | Call::Overwrite => {
            let overwrite = call == Call::Overwrite;
            let begin = proto::PutBegin { name: "them/x".into(), overwrite, ..Default::default() };
            let step = Some(proto::put_request::Step::Begin(begin));
            let said = tokio_stream::iter([proto::PutRequest { step }]);
            client.put(said).await?.into_inner().message().await.map(drop)
        }
        Call::RenewPut => client.renew_put(proto::PutRenewal { put: 1 }).await.map(drop),
        Call::Lookup => client.lookup(name()).await.map(drop),
        Call::List => client.list(proto::ListRequest { prefix: String::new() }).await.map(drop),
        Call::Stat => client.stat(name()).await.map(drop),
        Call::Remove => client.remove(name()).await.map(drop),
        Call::ReportBad => client.report_bad(proto::BadCopy::default()).await.map(drop),
        Call::Status => client.status(proto::StatusRequest::default()).await.map(drop),
        Call::PreviewRepair => {
            client.preview_repair(proto::PreviewRequest::default()).await.map(drop)
        }
        Call::FailNode => client.command_node(node(NodeAction::Fail)).await.map(drop),
        Call::ReturnNode => client.command_node(node(NodeAction::Return)).await.map(drop),
        Call::DrainNode => client.command_node(node(NodeAction::Drain)).await.map(drop),
        Call::PauseNode => client.command_node(node(NodeAction::Pause)).await.map(drop),
        Call::ReplaceNode => client.command_node(node(NodeAction::Replace)).await.map(drop),
        Call::RemoveNode => client.command_node(node(NodeAction::Remove)).await.map(drop),
        Call::CommandRepair => client.command_repair(start).await.map(drop),
        Call::SetThrottle => client.set_throttle(proto::ThrottleCommand::default()).await.map(drop),
        Call::StartScrub => client.start_scrub(proto::ScrubRequest {}).await.map(drop),
        Call::BackupMetadata => client.backup_metadata(proto::BackupRequest {}).await.map(drop),
    }
}

fn is_refused(answer: &Result<(), Status>) -> bool {
    answer.as_ref().is_err_and(|status| status.code() == Code::PermissionDenied)
}

#[test]
fn every_call_of_the_protocol_has_a_rule() {
    let service = PROTOCOL.split("service Coordinator {").nth(1).unwrap().split("\n}").next();
    let calls = service.unwrap().lines().filter_map(|line| line.trim().strip_prefix("rpc "));
    let mut calls: Vec<&str> = calls.map(|line| line.split('(').next().unwrap()).collect();
    let mut ruled: Vec<&str> = TABLE.iter().map(|rule| rule.rpc).collect();
    calls.sort_unstable();
    ruled.sort_unstable();
    ruled.dedup();
    assert_eq!(calls, ruled);
}

#[tokio::test]
async fn each_role_may_what_the_table_says_and_nothing_else() {
    let signed = Signed::new();
    let (_dir, address) = start_proven(&signed).await;
    for (role, word) in AccessRole::ALL {
        let credentials = match role {
            // A client of another prefix: which names it may use is not tested here.
            AccessRole::Client => {
                let them = Principal::with_prefix(role, word, "them/".into()).unwrap();
                let folder = signed.dir.path().join("them");
                let now = std::time::SystemTime::now();
                signed.authority.issue(&them, DAY, &folder, now).unwrap();
                open(&folder)
            }
            role => signed.credentials(role, word),
        };
        let mut client = connect(address, Some(credentials)).await.unwrap();
        for rule in &TABLE {
            let answer = ask(&mut client, rule.call).await;
            let may = rule.roles.contains(&role);
            assert_eq!(!is_refused(&answer), may, "{word} asks to {}: {answer:?}", rule.to);
            if let (false, Err(status)) = (may, answer) {
                let said = status.message();
                // Whether it overwrites, a put states in its first step.
                let asked = if rule.call == Call::Overwrite { Call::Put } else { rule.call };
                let to = asked.rule().to;
                assert!(said.starts_with(&format!("{word} {word} may not {to}")), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn status_says_whose_certificates_end_soon() {
    let signed = Signed::new();
    let (_dir, address) = start_proven(&signed).await;
    let mut admin =
        connect(address, Some(signed.credentials(AccessRole::Admin, "root"))).await.unwrap();
    let mut warnings =
        async || admin.status(proto::StatusRequest::default()).await.unwrap().into_inner().warnings;
    let folder = signed.dir.path().join("n1");
    let (agent, now) =
        (Principal::new(AccessRole::Agent, "n1").unwrap(), std::time::SystemTime::now());
    // Of four days, the first three and a half are over.
    let begun = now.checked_sub(DAY * 7 / 2).unwrap();
    signed.authority.issue(&agent, DAY * 4, &folder, begun).unwrap();
    let mut client = connect(address, Some(open(&folder))).await.unwrap();
    assert!(warnings().await.is_empty(), "no agent has come");
    let said = tokio_stream::iter([words::join("n1")]);
    client.session(said).await.unwrap();
    assert_eq!(
        warnings().await,
        ["the certificate of agent n1 expires in 11 h: give it a new one"]
    );
    // It gets another one, and comes again for whatever reason.
    let renewed = signed.credentials(AccessRole::Agent, "n1");
    let mut client = connect(address, Some(renewed)).await.unwrap();
    ask(&mut client, Call::BackupMetadata).await.unwrap();
    assert!(warnings().await.is_empty());
}

#[tokio::test]
async fn a_client_names_only_what_begins_with_its_prefix() {
    let signed = Signed::new();
    let (_dir, address) = start_proven(&signed).await;
    let credentials = signed.credentials(AccessRole::Client, "us");
    let mut client = connect(address, Some(credentials)).await.unwrap();
    for call in [Call::Put, Call::Lookup, Call::Stat, Call::Remove] {
        let answer = ask(&mut client, call).await;
        let said = answer.as_ref().unwrap_err().message();
        assert!(is_refused(&answer) && said.contains("'them/x' is not client us's"), "{said}");
    }
    let list = |prefix: &str| proto::ListRequest { prefix: prefix.into() };
    for ours in ["", "us", "us/", "us/2026"] {
        client.list(list(ours)).await.unwrap();
    }
    for theirs in ["them", "them/", "usa"] {
        assert_eq!(client.list(list(theirs)).await.unwrap_err().code(), Code::PermissionDenied);
    }
}

/// The answer to the steps of a put.
async fn put(client: &mut Client, steps: Vec<Step>) -> Status {
    let steps = steps.into_iter().map(|step| proto::PutRequest { step: Some(step) });
    let said = tokio_stream::iter(steps.collect::<Vec<_>>());
    let mut replies = client.put(said).await.unwrap().into_inner();
    loop {
        if let Err(status) = replies.message().await {
            return status;
        }
    }
}

#[tokio::test]
async fn a_text_without_end_is_answered_in_short() {
    let (_dir, address) = start(None).await;
    let mut client = connect(address, None).await.unwrap();
    // As much as a message may have.
    let long = "x".repeat(15 << 10);
    let begin = |name: &str, code: &str| {
        Step::Begin(proto::PutBegin {
            name: name.into(),
            code: code.into(),
            chunk_bytes: 64,
            overwrite: false,
        })
    };
    let (name, action) = (long.clone(), NodeAction::Fail.into());
    let node = proto::NodeCommand { name, action, ..Default::default() };
    let name = || proto::ObjectName { name: long.clone() };
    let mut joining = words::join("n1");
    if let Some(proto::agent_message::Message::Join(join)) = &mut joining.message {
        join.rack = Some("y".repeat(4_000_000));
    }
    let answers = [
        put(&mut client, vec![begin("a", &long)]).await,
        put(&mut client, vec![begin("a", &format!("rs({long})"))]).await,
        put(&mut client, vec![begin("a", &format!("{long}(1,2)"))]).await,
        put(&mut client, vec![begin(&long, "rs(2,1)")]).await,
        client.command_node(node).await.unwrap_err(),
        client.stat(name()).await.unwrap_err(),
        client.remove(name()).await.unwrap_err(),
        client.session(tokio_stream::iter([joining])).await.unwrap_err(),
    ];
    for status in answers {
        assert!(status.message().len() < 1000, "{:.300}", status.message());
        assert!(status.code() != Code::Internal && status.code() != Code::Unknown, "{status}");
    }
}

#[tokio::test]
async fn who_puts_does_not_make_a_coordinator_keep_long_messages() {
    let (_dir, address) = start(None).await;
    let mut client = connect(address, None).await.unwrap();
    let code = "x".repeat(20 << 10);
    let begin = proto::PutBegin { name: "a".into(), code, chunk_bytes: 64, overwrite: false };
    let status = put(&mut client, vec![Step::Begin(begin)]).await;
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
}

#[tokio::test]
async fn an_agent_joins_under_the_name_of_its_certificate() {
    let signed = Signed::new();
    let (_dir, address) = start_proven(&signed).await;
    let credentials = signed.credentials(AccessRole::Agent, "n1");
    let mut client = connect(address, Some(credentials)).await.unwrap();
    let said = tokio_stream::iter([words::join("n2")]);
    let error = client.session(said).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    assert!(error.message().contains("says that it is agent n1, not 'n2'"), "{error}");
}

#[tokio::test]
async fn who_is_not_known_gets_no_answer_and_who_is_no_coordinator_no_question() {
    let (signed, others) = (Signed::new(), Signed::new());
    let (_dir, address) = start_proven(&signed).await;
    let status = async |credentials| match connect(address, credentials).await {
        Ok(mut client) => match client.status(proto::StatusRequest::default()).await {
            Ok(_) => String::new(),
            Err(status) => format!("{:#}", client::refusal(status)),
        },
        Err(error) => error,
    };
    let admin = |of: &Signed| Some(of.credentials(AccessRole::Admin, "root"));
    assert_eq!(status(admin(&signed)).await, "");
    let error = status(admin(&others)).await;
    assert!(error.contains("another authority"), "{error}");
    let error = status(None).await;
    assert!(error.contains("credentials"), "{error}");
    let (_dir, agent) = start(Some(signed.credentials(AccessRole::Agent, "n1"))).await;
    let error = connect(agent, admin(&signed)).await.unwrap_err();
    assert!(error.contains("it is agent n1, and no coordinator"), "{error}");
    let (_dir, plain) = start(None).await;
    let error = connect(plain, admin(&signed)).await.unwrap_err();
    assert!(error.contains("the handshake") || error.contains("credentials"), "{error}");
}

#[tokio::test]
async fn a_caller_whose_certificate_was_revoked_is_answered_no_more() {
    let signed = Signed::new();
    let own = signed.folder(AccessRole::Coordinator, "c");
    let kept = open(&own);
    let (_dir, address) = start(Some(kept.clone())).await;
    let credentials = signed.credentials(AccessRole::Operator, "alice");
    let mut client = connect(address, Some(credentials)).await.unwrap();
    ask(&mut client, Call::Status).await.unwrap();
    let now = std::time::SystemTime::now();
    signed.authority.revoke("operator alice", now).unwrap();
    signed.authority.give(&own).unwrap();
    assert!(kept.reload(now).unwrap());
    let error = ask(&mut client, Call::Status).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(error.message().contains("revoked"), "{error}");
}

#[tokio::test]
async fn viewers_and_clients_have_connections_of_their_own_and_each_its_share() {
    let signed = Signed::new();
    let own = open(&signed.folder(AccessRole::Coordinator, "c"));
    let limits = ControlLimits { connections: 2, guests: 3, guests_each: 2, ..Default::default() };
    let (_dir, address) = start_limited(Some(own), limits).await;
    let mut open = Vec::new();
    let mut is_let_in = async |role, name: &str| {
        let Ok(mut client) = connect(address, Some(signed.credentials(role, name))).await else {
            return false;
        };
        let is_answered = ask(&mut client, Call::Status).await.is_ok();
        open.push(client);
        is_answered
    };
    let (viewer, operator) = (AccessRole::Viewer, AccessRole::Operator);
    assert!(is_let_in(viewer, "a").await && is_let_in(viewer, "a").await);
    assert!(!is_let_in(viewer, "a").await, "it has its share");
    assert!(is_let_in(viewer, "b").await && !is_let_in(viewer, "c").await, "they have theirs");
    assert!(is_let_in(operator, "o").await && is_let_in(operator, "p").await, "these have others");
}

#[tokio::test]
async fn a_connection_ends_once_its_certificate_was_revoked() {
    let signed = Signed::new();
    let own = signed.folder(AccessRole::Coordinator, "c");
    let kept = open(&own);
    let (_dir, address) = start(Some(kept.clone())).await;
    let connect =
        async || connect(address, Some(signed.credentials(AccessRole::Viewer, "v"))).await;
    let mut idle = connect().await.unwrap();
    ask(&mut idle, Call::Status).await.unwrap();
    let now = std::time::SystemTime::now();
    signed.authority.revoke("viewer v", now).unwrap();
    signed.authority.give(&own).unwrap();
    assert!(kept.reload(now).unwrap());
    let ended = async {
        // Calls are refused with the reason for some seconds; then the connection itself ends, and
        // its place is free.
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let error = ask(&mut idle, Call::Status).await.unwrap_err();
            if !error.message().contains("revoked") {
                return;
            }
        }
    };
    timeout(2 * TIMEOUT, ended).await.expect("it ends");
}

async fn hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("it hangs up");
}

#[tokio::test]
async fn connections_that_prove_nothing_give_way_and_end() {
    let signed = Signed::new();
    let credentials = || Some(signed.credentials(AccessRole::Coordinator, "c"));
    let admin = signed.credentials(AccessRole::Admin, "root");
    let answers = async |address| {
        let mut client = connect(address, Some(admin.clone())).await.unwrap();
        ask(&mut client, Call::Status).await.unwrap();
    };
    // Not because they are late.
    let handshake = Duration::from_secs(3600);
    let limits = ControlLimits { newcomers: 4, handshake, ..ControlLimits::default() };
    let (_dir, address) = start_limited(credentials(), limits).await;
    let mut silent = Vec::new();
    for number in 0..12 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Nothing, or a part of what TLS begins with.
        let part = if number % 2 == 0 { &[][..] } else { &[22, 3, 1, 2, 0, 1] };
        stream.write_all(part).await.unwrap();
        silent.push(stream);
    }
    for stream in &mut silent[..8] {
        hung_up(stream).await;
    }
    answers(address).await;

    let limits = ControlLimits { handshake: Duration::from_millis(200), ..Default::default() };
    let (_dir, address) = start_limited(credentials(), limits).await;
    for part in [&[][..], &[22, 3, 1]] {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(part).await.unwrap();
        hung_up(&mut silent).await;
    }
    answers(address).await;
}
