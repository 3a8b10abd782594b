//! What strangers can hold of a coordinator: connections, calls, memory.
//!
//! Real sockets, and limits so small that their ends are near. Nothing here measures time.

use std::net::SocketAddr;
use std::time::Duration;

use crate::{control, words};
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::{
    PROTOCOL_OLDEST, PROTOCOL_VERSION, REQUEST_BYTES_MAX, SHORT_REQUEST_BYTES_MAX, proto,
};
use suture_drivers::metadata::{Incomplete, MetadataStore};
use suture_repair::stripe::CHUNK_BYTES_MAX;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tonic::Code;

const TIMEOUT: Duration = Duration::from_secs(60);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A coordinator of which others may hold no more than that.
async fn start(limits: ControlLimits) -> (TempDir, SocketAddr) {
    let dir = tempfile::tempdir().unwrap();
    let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(acceptor::serve(listener, control::coordinator(store), limits, None));
    (dir, address)
}

async fn client(address: SocketAddr) -> Client {
    client::connect(&address.to_string(), None).await.unwrap()
}

fn status() -> proto::StatusRequest {
    proto::StatusRequest::default()
}

async fn answers(client: &mut Client) {
    timeout(TIMEOUT, client.status(proto::StatusRequest::default())).await.unwrap().unwrap();
}

async fn hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("it hangs up");
}

async fn connect_from(local: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(local.parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn connections_that_say_nothing_give_way_and_end() {
    // Not because they are late.
    let handshake = Duration::from_secs(3600);
    let limits = ControlLimits { newcomers: 4, handshake, ..ControlLimits::default() };
    let (_dir, address) = start(limits).await;
    let mut silent = Vec::new();
    for _ in 0..12 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A part of what HTTP/2 begins with is not more.
        stream.write_all(&PREFACE[..5]).await.unwrap();
        silent.push(stream);
    }
    for stream in &mut silent[..8] {
        hung_up(stream).await;
    }
    answers(&mut client(address).await).await;

    let handshake = Duration::from_millis(200);
    let (_dir, address) = start(ControlLimits { handshake, ..ControlLimits::default() }).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    hung_up(&mut silent).await;
    answers(&mut client(address).await).await;
}

#[tokio::test]
async fn an_address_has_its_share_of_connections() {
    let limits = ControlLimits { connections_each: 2, ..ControlLimits::default() };
    let (_dir, address) = start(limits).await;
    let (mut first, mut second) = (client(address).await, client(address).await);
    answers(&mut first).await;
    answers(&mut second).await;
    let refused = async {
        let third = client::connect(&address.to_string(), None).await;
        match third {
            Ok(mut third) => client::refusal(third.status(status()).await.unwrap_err()),
            Err(why) => why,
        }
    };
    let why = timeout(TIMEOUT, refused).await.expect("there was a third").to_string();
    assert!(why.contains("too many connections, or too many of yours"), "{why}");

    // Elsewhere there are more, until there are none at all.
    let mut elsewhere = connect_from("127.0.0.2:0", address).await;
    elsewhere.write_all(PREFACE).await.unwrap();
    timeout(TIMEOUT, elsewhere.read_u8()).await.unwrap().unwrap();

    drop(first);
    let again = async {
        loop {
            let third = client::connect(&address.to_string(), None).await;
            if let Ok(mut third) = third
                && third.status(status()).await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, again).await.expect("a place was given back");
}

#[tokio::test]
async fn who_begins_and_does_not_answer_pings_is_given_up() {
    let (_dir, address) = start(ControlLimits::default()).await;
    let mut begun = TcpStream::connect(address).await.unwrap();
    // The preface and empty settings, then nothing.
    begun.write_all(PREFACE).await.unwrap();
    begun.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    hung_up(&mut begun).await;
}

#[tokio::test]
async fn a_session_without_a_join_ends_and_calls_are_counted() {
    let limits =
        ControlLimits { calls: 2, answer: Duration::from_millis(500), ..ControlLimits::default() };
    let (_dir, address) = start(limits).await;
    let mut client = client(address).await;
    let session = client.session(tokio_stream::pending());
    let error = timeout(TIMEOUT, session).await.unwrap().unwrap_err();
    assert!(error.message().to_lowercase().contains("timeout"), "{error}");

    // More calls than a connection may have wait until one ends.
    let mut puts = Vec::new();
    for _ in 0..2 {
        let (steps, requests) = tokio::sync::mpsc::channel(1);
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        puts.push((client.put(requests).await.unwrap(), steps));
    }
    let waiting =
        timeout(Duration::from_secs(1), client.status(proto::StatusRequest::default())).await;
    assert!(waiting.is_err(), "there was a third call");
    puts.pop();
    answers(&mut client).await;
}

#[tokio::test]
async fn no_request_is_longer_than_the_longest_honest_one() {
    let (_dir, address) = start(ControlLimits::default()).await;
    let mut client = client(address).await;
    let mut unbounded = (*client).clone().max_encoding_message_size(usize::MAX);
    let short = SHORT_REQUEST_BYTES_MAX;
    for (bytes, code) in [(short - 100, Code::NotFound), (short + 1, Code::OutOfRange)] {
        let name = "n".repeat(bytes);
        let error = unbounded.remove(proto::ObjectName { name }).await.unwrap_err();
        assert_eq!(error.code(), code, "{bytes}: {:.200}", error.message());
    }
    for (bytes, code) in [(short - 100, Code::InvalidArgument), (short + 1, Code::OutOfRange)] {
        let name = "n".repeat(bytes);
        let begin =
            proto::PutBegin { name, code: "rs(2,1)".into(), chunk_bytes: 64, overwrite: false };
        let step = Some(proto::put_request::Step::Begin(begin));
        let steps = tokio_stream::iter([proto::PutRequest { step }]);
        let mut replies = unbounded.put(steps).await.unwrap().into_inner();
        let error = timeout(TIMEOUT, replies.message()).await.unwrap().unwrap_err();
        assert_eq!(error.code(), code, "{bytes}: {:.200}", error.message());
    }
    // An agent may send more at a time.
    let long = REQUEST_BYTES_MAX;
    for (bytes, code) in [(long - 100, Code::InvalidArgument), (long + 1, Code::OutOfRange)] {
        let join = proto::Join {
            name: "n".repeat(bytes),
            protocol: PROTOCOL_VERSION,
            ..Default::default()
        };
        let message = Some(proto::agent_message::Message::Join(join));
        let said = tokio_stream::iter([proto::AgentMessage { message }]);
        let error = unbounded.session(said).await.unwrap_err();
        assert_eq!(error.code(), code, "{bytes}: {:.200}", error.message());
    }
    answers(&mut client).await;
}

#[tokio::test]
async fn a_put_of_impossible_sizes_is_refused() {
    let (_dir, address) = start(ControlLimits::default()).await;
    let mut client = client(address).await;
    for chunk_bytes in [0, 63, CHUNK_BYTES_MAX + 64, 1 << 62, u64::MAX - 63] {
        let begin = proto::PutBegin {
            name: "it".into(),
            code: "rs(2,1)".into(),
            chunk_bytes,
            overwrite: false,
        };
        let step = Some(proto::put_request::Step::Begin(begin));
        let steps = tokio_stream::iter([proto::PutRequest { step }]);
        let mut replies = client.put(steps).await.unwrap().into_inner();
        let error = timeout(TIMEOUT, replies.message()).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{chunk_bytes}: {error}");
        assert!(error.message().starts_with("PutBegin.chunk_bytes: "), "{error}");
    }
}

/// Both ends of an agent's session.
type Session =
    (tokio::sync::mpsc::Sender<proto::AgentMessage>, tonic::Streaming<proto::CoordinatorMessage>);

/// An agent that announces its identity and sends nothing else, for as long as its session lives.
async fn join(client: &mut Client, name: &str) -> Session {
    use proto::agent_message::Message;

    let hello = proto::Hello { free_bytes: 1 << 40, pool_bytes: 1 << 20, ..Default::default() };
    let words = [Message::Hello(hello), Message::Inventory(proto::Inventory::default())];
    let words = words.map(|word| proto::AgentMessage { message: Some(word) });
    let (say, said) = tokio::sync::mpsc::channel(4);
    for word in std::iter::once(words::join(name)).chain(words) {
        say.send(word).await.unwrap();
    }
    let said = tokio_stream::wrappers::ReceiverStream::new(said);
    let mut session = client.session(said).await.unwrap().into_inner();
    timeout(TIMEOUT, session.message()).await.unwrap().unwrap().expect("a welcome");
    (say, session)
}

#[tokio::test]
async fn a_stripe_of_impossible_sizes_is_refused_by_the_name_of_its_field() {
    use proto::put_request::Step;

    let (_dir, address) = start(ControlLimits::default()).await;
    let mut client = client(address).await;
    let mut agents = Vec::new();
    for name in ["n0", "n1", "n2"] {
        agents.push(join(&mut client, name).await);
    }
    let all_are_up = async {
        loop {
            let status = client.status(proto::StatusRequest::default()).await.unwrap().into_inner();
            if status.nodes.iter().filter(|node| node.health == "up").count() == agents.len() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, all_are_up).await.expect("the agents are up");
    let is_too_long = "chunks have at most 1099511627776 bytes";
    let is_uneven = "chunks of rs(2,1) are multiples of 64 bytes";
    for (chunk_bytes, why) in [
        (0, is_uneven),
        (63, is_uneven),
        (96, is_uneven),
        (CHUNK_BYTES_MAX + 64, is_too_long),
        (1 << 63, is_too_long),
        // A message on a stripe that was not placed, but of a size that there is.
        (64, "stripe 7 was not given to this put"),
    ] {
        let begin = proto::PutBegin {
            name: "it".into(),
            code: "rs(2,1)".into(),
            chunk_bytes: 64,
            overwrite: false,
        };
        let chunks = vec![proto::Chunk { node: Some(0), ..Default::default() }; 3];
        let (stripe, data_bytes, checksum) = (7, 1, 0);
        let stripe = proto::PutStripe { stripe, data_bytes, chunk_bytes, chunks, checksum };
        let steps = [Step::Begin(begin), Step::Stripe(stripe)];
        let steps = steps.map(|step| proto::PutRequest { step: Some(step) });
        let mut replies = client.put(tokio_stream::iter(steps)).await.unwrap().into_inner();
        let begun = timeout(TIMEOUT, replies.message()).await.unwrap().unwrap().unwrap();
        assert!(matches!(begun.step, Some(proto::put_reply::Step::Begun(_))), "{begun:?}");
        let error = timeout(TIMEOUT, replies.message()).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{chunk_bytes}: {error}");
        let field = if chunk_bytes == 64 { "" } else { "PutStripe.chunk_bytes: " };
        let expected = format!("{field}{why}");
        assert!(error.message().starts_with(&expected), "{chunk_bytes}: {error}");
    }
    drop(agents);
}

#[tokio::test]
async fn a_session_is_of_the_newest_version_that_both_sides_speak() {
    use proto::agent_message::Message;
    use proto::coordinator_message::Message as Answer;

    let (_dir, address) = start(ControlLimits::default()).await;
    let mut client = client(address).await;
    let (newest, oldest) = (PROTOCOL_VERSION, PROTOCOL_OLDEST);
    // The release before announces no oldest one.
    for (asked, least, agreed) in [
        (newest, oldest, Ok(newest)),
        (oldest, 0, Ok(oldest)),
        (newest + 1, newest, Ok(newest)),
        (newest + 1, 0, Err(Code::FailedPrecondition)),
        (oldest - 1, 0, Err(Code::FailedPrecondition)),
    ] {
        let mut word = words::join("n0");
        let Some(Message::Join(join)) = &mut word.message else { unreachable!("it is a Join") };
        (join.protocol, join.oldest_protocol) = (asked, least);
        let said = tokio_stream::iter([word]);
        let answer = match client.session(said).await {
            Err(why) => Err(why.code()),
            Ok(session) => match session.into_inner().message().await.unwrap().unwrap().message {
                Some(Answer::Welcome(welcome)) => Ok(welcome.protocol),
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(answer, agreed, "{asked}, {least}");
    }
}

#[tokio::test]
async fn a_listing_of_many_parts_is_taken() {
    use proto::agent_message::Message;
    use tokio_stream::StreamExt;

    let (_dir, address) = start(ControlLimits::default()).await;
    let mut client = client(address).await;
    let copy = proto::ListedCopy { stripe: 1 << 40, stamp: 1 << 60, ..Default::default() };
    let part = proto::Inventory { copies: vec![copy; 60_000], more: true };
    let last = proto::Inventory { more: false, ..part.clone() };
    let words = std::iter::once(Message::Hello(proto::Hello::default()))
        .chain(std::iter::repeat_n(Message::Inventory(part), 20))
        .chain([Message::Inventory(last)]);
    let words = words.map(|word| proto::AgentMessage { message: Some(word) });
    let words = std::iter::once(words::join("n0")).chain(words);
    let words = tokio_stream::iter(words).chain(tokio_stream::pending());
    let mut session = client.session(words).await.unwrap().into_inner();
    timeout(TIMEOUT, session.message()).await.unwrap().unwrap().expect("a welcome");
    // What it holds of unknown stripes is warned of, once all of it was received.
    let warned = async {
        loop {
            let status = client.status(proto::StatusRequest::default()).await.unwrap().into_inner();
            if status.warnings.iter().any(|warning| warning.contains("older than the chunks")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, warned).await.expect("the listing was heard");
}
