//! What an agent's data port makes of strangers: other versions, other clusters, nonsense.

use std::net::SocketAddr;
use std::time::Duration;

use crate::agents::{CLUSTER, Cluster, client};
use suture_drivers::address::AgentAddress;
use suture_drivers::chunk_client::{ChunkClient, ChunkError};
use suture_drivers::limit::Rates;
use suture_drivers::net;
use suture_drivers::store::OpenError;
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp, StripeId};
use suture_repair::plan::Range;
use suture_repair::random::Random;
use suture_repair::slice::{PAYLOAD_BYTES_MAX, SliceId};
use suture_repair::wire::{ClusterId, Denial, Frame, HEADER_BYTES, Payload, Who};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);

fn hello(who: Who) -> [u8; HEADER_BYTES] {
    Frame::Hello { cluster: CLUSTER, who }.encode()
}

/// The header as another version would send it. Its check is that version's affair.
fn in_version(version: u16, mut header: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
    header[4..6].copy_from_slice(&version.to_le_bytes());
    header
}

async fn read_frame(stream: &mut TcpStream) -> Frame {
    let mut header = [0; HEADER_BYTES];
    timeout(TIMEOUT, stream.read_exact(&mut header)).await.expect("an answer").unwrap();
    Frame::decode(&header).unwrap()
}

async fn is_hung_up(stream: &mut TcpStream) -> bool {
    // Whatever it still sends, at the end it closes or resets.
    let mut rest = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.is_ok()
}

/// The agent still does its work.
async fn is_well(cluster: &Cluster) {
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let addr = cluster.nodes[0].addr;
    let crc = suture_edge::checksum::crc32c(b"well");
    client().write_chunk(addr, copy, crc, b"well").await.unwrap();
    let whole = Range { from: 0, to: 4 };
    assert_eq!(client().read_chunk(addr, copy, whole).await.unwrap(), b"well");
}

#[tokio::test]
async fn another_node_than_the_one_that_is_meant_is_not_used() {
    let cluster = Cluster::start(2, Rates::default()).await;
    // As where the second agent announces the address of the first.
    let meant = AgentAddress { addr: cluster.nodes[0].addr, ..cluster.nodes[1].address() };
    let copy = ChunkCopy { stripe: StripeId(7), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let crc = suture_edge::checksum::crc32c(b"well");
    let error = client().write_chunk(meant.clone(), copy, crc, b"well").await.unwrap_err();
    assert!(matches!(error, ChunkError::Unreachable { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("node 0 answers there, not node 1"), "{error}");
    assert!(!cluster.nodes[0].path(copy).exists(), "nothing was stored there");
    let read = client().read_chunk(meant, copy, Range { from: 0, to: 4 }).await;
    assert!(matches!(read, Err(ChunkError::Unreachable { .. })));
    client().write_chunk(cluster.nodes[0].address(), copy, crc, b"well").await.unwrap();
}

#[tokio::test]
async fn another_version_that_calls_is_told_ours() {
    let cluster = Cluster::start(1, Rates::default()).await;
    for version in [0, 2, 999] {
        let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.unwrap();
        stream.write_all(&in_version(version, hello(Who::Client))).await.unwrap();
        let reply = read_frame(&mut stream).await;
        assert_eq!(reply, Frame::Error(Denial::Version { found: version }));
        let text = Denial::Version { found: version }.to_string();
        assert!(text.contains(&format!("version {version} (ours is 1)")), "{text}");
        assert!(is_hung_up(&mut stream).await);
    }
    is_well(&cluster).await;
}

/// A port that answers every handshake with the same bytes.
async fn answering(reply: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut received = [0; HEADER_BYTES];
            stream.read_exact(&mut received).await.unwrap();
            stream.write_all(&reply).await.unwrap();
            let _ = stream.read(&mut received).await;
        }
    });
    addr
}

#[tokio::test]
async fn calling_something_else_names_it() {
    let agent = Who::Agent(NodeId(0));
    let foreign = Frame::Hello { cluster: ClusterId(0xbad), who: agent }.encode();
    let mut damaged = hello(agent);
    damaged[20] ^= 1;
    for (reply, expected) in [
        (in_version(9, hello(agent)).to_vec(), "speaks frame version 9, this build speaks 1"),
        (foreign.to_vec(), "belongs to cluster 0000000000000bad"),
        (damaged.to_vec(), "damaged on its way"),
        (format!("{:64}", "HTTP/1.1 400 Bad Request").into_bytes(), "begins with HTTP"),
        (Frame::WriteDone.encode().to_vec(), "unexpected frame"),
        (Frame::Error(Denial::Version { found: 1 }).encode().to_vec(), "does not speak"),
        (b"too short".to_vec(), "nothing"),
    ] {
        let addr = answering(reply).await;
        let impatient = suture_drivers::chunk_client::ChunkClient {
            connect_timeout: Duration::from_millis(500),
            ..client()
        };
        let error = impatient.connect(addr).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&addr.to_string()), "{error}");
    }
}

#[tokio::test]
async fn another_cluster_that_calls_is_told_so_and_not_which_it_called() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let mut stranger = client();
    stranger.local_identity.cluster = ClusterId(0xbad);
    let error = stranger.connect(cluster.nodes[0].addr).await.unwrap_err().to_string();
    assert!(error.contains("it belongs to another cluster"), "{error}");
}

#[tokio::test]
async fn nonsense_ends_its_connection_and_nothing_else() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let (peer, addr) = (Who::Agent(NodeId(5)), cluster.nodes[0].addr);
    let mut long = Frame::ReadData(Payload { bytes: 1, crc: 0 }).encode();
    long[7..11].copy_from_slice(&(PAYLOAD_BYTES_MAX + 1).to_le_bytes());
    let mut random = Random::new(8);
    let mut scripts: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(4),
        [hello(peer), hello(peer)].concat(),
        [hello(peer), Frame::WriteDone.encode()].concat(),
        [hello(Who::Client), Frame::WriteEnd { crc: 0 }.encode()].concat(),
        [hello(peer), long].concat(),
        [hello(Who::Client), long].concat(),
    ];
    for _ in 0..50 {
        let mut noise = vec![0; random.between(64, 5000) as usize];
        random.fill(&mut noise);
        scripts.push([&hello(peer)[..], &noise].concat());
        scripts.push([&hello(Who::Client)[..], &noise].concat());
        scripts.push(noise);
    }
    for script in scripts {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        // The agent may hang up before it has received everything.
        let _ = stream.write_all(&script).await;
        assert!(is_hung_up(&mut stream).await);
    }
    is_well(&cluster).await;
}

#[tokio::test]
async fn slices_that_nobody_granted_are_read_past() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.unwrap();
    stream.write_all(&hello(Who::Agent(NodeId(3)))).await.unwrap();
    assert_eq!(read_frame(&mut stream).await, {
        Frame::Hello { cluster: CLUSTER, who: Who::Agent(NodeId(0)) }
    });
    let payload = Payload { bytes: PAYLOAD_BYTES_MAX, crc: 0 };
    let bytes = vec![0; PAYLOAD_BYTES_MAX as usize];
    for slice in 0..20 {
        let id = SliceId { repair: RepairId::new(1, 1), lane: 0, slice };
        stream.write_all(&Frame::Slice { id, payload }.encode()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
    // It understood everything up to here: the connection stands, until something is wrong.
    stream.write_all(&Frame::WriteDone.encode()).await.unwrap();
    assert!(is_hung_up(&mut stream).await);
    is_well(&cluster).await;
}

#[tokio::test]
async fn a_payload_damaged_on_its_way_stores_nothing() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let copy = ChunkCopy { stripe: StripeId(7), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.unwrap();
    let crc = suture_edge::checksum::crc32c(b"four") ^ 1;
    for frame in [
        Frame::Hello { cluster: CLUSTER, who: Who::Client },
        Frame::WriteChunk { copy, bytes: 4 },
        Frame::WriteData(Payload { bytes: 4, crc }),
    ] {
        stream.write_all(&frame.encode()).await.unwrap();
    }
    stream.write_all(b"four").await.unwrap();
    assert!(is_hung_up(&mut stream).await);
    assert!(!cluster.nodes[0].path(copy).exists());
    cluster.nodes[0].swept().await;
}

#[tokio::test]
async fn only_loopback_is_listened_on_unless_told_otherwise() {
    let error = net::bind("0.0.0.0:0".parse().unwrap(), false).await.unwrap_err().to_string();
    assert!(error.contains("0.0.0.0:0") && error.contains("insecure"), "{error}");
    net::bind("0.0.0.0:0".parse().unwrap(), true).await.unwrap();
    let taken = net::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let addr = taken.local_addr().unwrap();
    let error = net::bind(addr, false).await.unwrap_err().to_string();
    assert_eq!(error, format!("{addr} is in use by another process"));
}

#[test]
fn a_cause_is_said_once() {
    let addr = "127.0.0.1:1".parse().unwrap();
    let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let errors = [
        anyhow::Error::from(ChunkError::Unreachable {
            agent: AgentAddress::from(addr),
            source: refused(),
        }),
        anyhow::Error::from(net::BindError::Io { addr, source: refused() }),
        anyhow::Error::from(OpenError::Io { path: "/x".into(), source: refused() }),
    ];
    for error in errors {
        let text = format!("{error:#}");
        assert_eq!(text.matches("connection refused").count(), 1, "{text}");
    }
}

/// An agent that takes one chunk, and is done after a while.
async fn takes_its_time(listener: TcpListener, time: Duration) {
    let (mut stream, _) = listener.accept().await.unwrap();
    loop {
        match read_frame(&mut stream).await {
            Frame::Hello { .. } => stream.write_all(&hello(Who::Agent(NodeId(0)))).await.unwrap(),
            Frame::WriteChunk { .. } => {}
            Frame::WriteData(payload) => {
                let mut data = vec![0; payload.bytes as usize];
                stream.read_exact(&mut data).await.map(drop).unwrap();
            }
            Frame::WriteEnd { .. } => break,
            frame => panic!("{frame:?}"),
        }
    }
    tokio::time::sleep(time).await;
    // A client that waits no longer has closed the connection.
    let _ = stream.write_all(&Frame::WriteDone.encode()).await;
}

#[tokio::test]
async fn a_long_chunk_has_the_time_to_become_durable_that_a_slow_disk_takes() {
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let client = ChunkClient { idle_timeout: Duration::from_millis(300), ..client() };
    for (bytes, is_waited_for) in [(1 << 20, true), (1 << 10, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let agent = tokio::spawn(takes_its_time(listener, Duration::from_secs(1)));
        let written = client.write_chunk(addr, copy, 0, &vec![0; bytes]).await;
        match written {
            Ok(()) => assert!(is_waited_for, "{bytes} bytes"),
            Err(ChunkError::Timeout { doing, .. }) => {
                assert!(!is_waited_for && doing == "making a chunk durable", "{bytes}: {doing}");
            }
            Err(error) => panic!("{error}"),
        }
        agent.await.unwrap();
    }
}

#[tokio::test]
async fn what_was_given_up_is_not_sent_any_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (given_up, ended) = tokio::sync::oneshot::channel::<()>();
    // An agent that takes nothing until its client has given up.
    let agent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_frame(&mut stream).await;
        stream.write_all(&hello(Who::Agent(NodeId(0)))).await.unwrap();
        ended.await.unwrap();
        let (mut taken, mut part) = (0, vec![0; 1 << 16]);
        loop {
            match timeout(TIMEOUT, stream.read(&mut part)).await.expect("an end") {
                Ok(0) => return (taken, false),
                Ok(bytes) => taken += bytes,
                Err(_) => return (taken, true),
            }
        }
    });
    let mut connection = client().connect(addr).await.unwrap();
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let (mut pushed, piece) = (0, vec![7; 1 << 16]);
    let mut writer = connection.write(copy, 1 << 30).await.unwrap();
    // As much as the buffers of both sides hold.
    while let Ok(result) = timeout(Duration::from_millis(300), writer.push(&piece)).await {
        result.unwrap();
        pushed += piece.len();
    }
    drop(connection);
    given_up.send(()).unwrap();
    let (taken, is_reset) = agent.await.unwrap();
    assert!(is_reset && taken < pushed, "{taken} of {pushed} bytes came, reset: {is_reset}");
}
