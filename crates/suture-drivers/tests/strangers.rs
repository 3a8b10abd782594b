//! What strangers can hold of an agent: its places for operations and connections, its disk.
//!
//! Real sockets, and limits so small that their ends are near. Nothing here measures time: a
//! connection that holds something for ever fails the test by its timeout.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use crate::agents::{self, CLUSTER, Cluster, client, client_as};
use crate::signed::Signed;
use suture_drivers::agent::serve::{ClientLimits, OperationLimits};
use suture_drivers::identity::credentials::Kept;
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::label::StripeLabel;
use suture_drivers::limit::{Port, Purpose, Rates};
use suture_drivers::net::allowance::LeastRate;
use suture_drivers::net::connection::{Connection, Traffic};
use suture_drivers::net::local_identity::LocalIdentity;
use suture_drivers::object::pool::ConnectionPool;
use suture_edge::checksum::crc32c;
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, NodeId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::plan::Range;
use suture_repair::wire::{ClusterId, Denial, Frame, HEADER_BYTES, Payload, Who};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);

/// How far behind a client may fall here, and how long it may be idle.
const SHORT: Duration = Duration::from_millis(400);

fn copy(stripe: u64) -> ChunkCopy {
    ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(0), stamp: Stamp(0) }
}

/// One operation of a kind at a time, of which a megabyte a second is asked.
fn one_operation() -> ClientLimits {
    let least = LeastRate { rate: 1 << 20, grace: SHORT };
    let one = OperationLimits { places: 1, each: 1, least };
    ClientLimits { reads: one, writes: one, ..ClientLimits::default() }
}

async fn read_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut header = [0; HEADER_BYTES];
    timeout(TIMEOUT, stream.read_exact(&mut header)).await.expect("an answer").ok()?;
    Some(Frame::decode(&header).unwrap())
}

/// A connection that has announced its identity, and what it was answered.
async fn handshake(cluster: &Cluster, who: Who) -> (TcpStream, Option<Frame>) {
    let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.unwrap();
    let hello = Frame::Hello { cluster: CLUSTER, who };
    stream.write_all(&hello.encode()).await.unwrap();
    let answer = read_frame(&mut stream).await;
    (stream, answer)
}

async fn stranger(cluster: &Cluster) -> TcpStream {
    let (stream, answer) = handshake(cluster, Who::Client).await;
    assert!(matches!(answer, Some(Frame::Hello { .. })), "{answer:?}");
    stream
}

/// Waits until the other side has hung up.
async fn hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("it hangs up");
}

/// The agent writes and reads a chunk for another client.
async fn serves(cluster: &Cluster, stripe: u64) {
    let (addr, data) = (cluster.nodes[0].addr, b"well");
    let work = async {
        client().write_chunk(addr, copy(stripe), crc32c(data), data).await.unwrap();
        client().read_chunk(addr, copy(stripe), Range { from: 0, to: 4 }).await.unwrap()
    };
    assert_eq!(timeout(TIMEOUT, work).await.expect("a place is free"), data);
}

#[tokio::test]
async fn a_byte_now_and_then_keeps_no_place() {
    let cluster = Cluster::start_limited(1, Rates::default(), one_operation()).await;
    let large = vec![7; 64 << 20];
    let addr = cluster.nodes[0].addr;
    client().write_chunk(addr, copy(1), crc32c(&large), &large).await.unwrap();

    let mut writer = stranger(&cluster).await;
    let begin = Frame::WriteChunk { copy: copy(2), bytes: 1 << 20 };
    let payload = Payload { bytes: 1 << 16, crc: 0 };
    writer.write_all(&[begin.encode(), Frame::WriteData(payload).encode()].concat()).await.unwrap();
    tokio::spawn(async move {
        while writer.write_all(b".").await.is_ok() {
            sleep(SHORT / 8).await
        }
    });
    serves(&cluster, 3).await;

    // One that sends what it wants byte by byte, and one that takes it so.
    let mut announcing = stranger(&cluster).await;
    announcing.write_all(&begin.encode()).await.unwrap();
    tokio::spawn(async move {
        while announcing.write_all(b"S").await.is_ok() {
            sleep(SHORT).await
        }
    });
    serves(&cluster, 4).await;

    let mut reader = stranger(&cluster).await;
    let range = Range { from: 0, to: large.len() as u64 };
    let wanted = Frame::ReadChunk { copy: copy(1), digest: Digest::default(), range };
    reader.write_all(&wanted.encode()).await.unwrap();
    tokio::spawn(async move {
        while reader.read_u8().await.is_ok() {
            sleep(SHORT / 8).await
        }
    });
    serves(&cluster, 5).await;
}

/// A connection with buffers of a few kilobytes.
async fn narrow(cluster: &Cluster, credentials: &Option<Arc<Kept>>) -> Connection {
    let (agent, limits) = (cluster.nodes[0].address(), Port::new(Some(1000), None));
    let who =
        LocalIdentity { cluster: CLUSTER, who: Who::Client, credentials: credentials.clone() };
    Connection::open(&agent, &who, &limits, TIMEOUT).await.unwrap().0
}

fn label_of(object: &str, bytes: u64) -> Label {
    let label = StripeLabel {
        object: object.into(),
        code: "rs(3,2)".parse().unwrap(),
        object_chunk_bytes: bytes,
        created: 0,
        first: StripeId(1),
        ordinal: 0,
        is_last: true,
        chunk_bytes: bytes,
        data_bytes: 3 * bytes,
        checksum: 0,
        crcs: vec![0; 5],
    };
    label.encode()
}

/// A copy that a put was given to write.
fn told(stripe: u64) -> ChunkCopy {
    ChunkCopy { stamp: agents::put_key().stamp(StripeId(stripe)), ..copy(stripe) }
}

async fn write_whole(
    by: &Option<Arc<Kept>>,
    cluster: &Cluster,
    (stripe, data, label): (u64, &[u8], &Label),
) {
    let agent = cluster.nodes[0].address();
    let write = async {
        let mut connection = client_as(by.clone()).connect(agent).await.unwrap();
        let mut writer = connection.write(told(stripe), data.len() as u64).await.unwrap();
        writer.push(data).await.unwrap();
        writer.finish(crc32c(data), label).await.unwrap();
    };
    timeout(TIMEOUT, write).await.expect("there is a place");
}

/// Slow ones of two principals, more than there are places: they keep no other client waiting, and
/// come to their ends all the same.
async fn slow_ones_give_way(
    cluster: &Cluster,
    slow: [Option<Arc<Kept>>; 2],
    other: Option<Arc<Kept>>,
) {
    let unlimited = Port::unlimited();
    let traffic = Traffic { port: &unlimited, purpose: Purpose::Client };
    let large: Vec<u8> = (0..16 << 20).map(|byte: u32| (byte % 251) as u8).collect();
    let label = label_of("a/x", large.len() as u64);
    write_whole(&other, cluster, (1, &large, &label)).await;
    let range = Range { from: 0, to: large.len() as u64 };
    let wanted = Frame::ReadChunk { copy: told(1), digest: Digest::default(), range };
    let begin = Frame::WriteChunk { copy: told(2), bytes: large.len() as u64 };
    let half = Payload { bytes: 1 << 20, crc: crc32c(&large[..1 << 20]) };
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for credentials in slow.iter().flat_map(|who| [who; 4]) {
        let mut reader = narrow(cluster, credentials).await;
        reader.write_frame(wanted).await.unwrap();
        readers.push(reader);
        let mut writer = narrow(cluster, credentials).await;
        let frames = [begin.encode(), Frame::WriteData(half).encode()].concat();
        writer.write(&frames, &large[..500_000], traffic).await.unwrap();
        writers.push(writer);
    }
    sleep(SHORT).await;
    for stripe in 3..6 {
        write_whole(&other, cluster, (stripe, b"well", &label)).await;
        let client = client_as(other.clone());
        let read =
            client.read_chunk(cluster.nodes[0].address(), told(stripe), Range { from: 0, to: 4 });
        assert_eq!(timeout(TIMEOUT, read).await.expect("a place is free").unwrap(), b"well");
    }
    let whole = async {
        for mut reader in readers.into_iter().take(3) {
            let mut found = Vec::new();
            while found.len() < large.len() {
                let Frame::ReadData(payload) = reader.read_frame().await.unwrap() else { panic!() };
                let from = found.len();
                found.resize(from + payload.bytes as usize, 0);
                reader.read_payload(&mut found[from..], traffic).await.unwrap();
                assert_eq!(crc32c(&found[from..]), payload.crc);
            }
            assert!(found == large, "what comes in parts is what was asked for");
        }
        let mut writer = writers.pop().unwrap();
        writer.write(&[], &large[500_000..1 << 20], traffic).await.unwrap();
        for part in large[1 << 20..].chunks(1 << 20) {
            let payload = Payload { bytes: 1 << 20, crc: crc32c(part) };
            writer.write(&Frame::WriteData(payload).encode(), part, traffic).await.unwrap();
        }
        let sent = Payload { bytes: label.bytes().len() as u32, crc: crc32c(label.bytes()) };
        writer.write(&Frame::WriteLabel(sent).encode(), label.bytes(), traffic).await.unwrap();
        writer.write_frame(Frame::WriteEnd { crc: crc32c(&large) }).await.unwrap();
        assert_eq!(writer.read_frame().await.unwrap(), Frame::WriteDone);
    };
    timeout(TIMEOUT, whole).await.expect("slow ones come to their ends");
}

/// Two operations of a kind that move bytes, and nothing is ever too slow.
fn patient() -> ClientLimits {
    let least = LeastRate { rate: 1, grace: Duration::from_secs(3600) };
    let two = OperationLimits { places: 2, each: 32, least };
    ClientLimits { reads: two, writes: two, ..ClientLimits::default() }
}

#[tokio::test]
async fn slow_clients_keep_no_place_that_others_want() {
    let cluster = Cluster::start_limited(1, Rates::default(), patient()).await;
    slow_ones_give_way(&cluster, [None, None], None).await;
}

#[tokio::test]
async fn slow_keys_keep_no_place_that_other_keys_want() {
    let signed = Signed::new();
    let who = |role, name: &str| Some(signed.credentials(role, name));
    let of_agent = |_| who(AccessRole::Agent, "n0");
    let cluster = Cluster::start_all(1, (Rates::default(), patient()), &of_agent).await;
    let of = |name: &str| {
        let client = Principal::with_prefix(AccessRole::Client, name, "a/".into()).unwrap();
        Some(signed.credentials_of(&client))
    };
    slow_ones_give_way(&cluster, [of("one"), of("two")], of("three")).await;
}

#[tokio::test]
async fn what_the_agent_itself_takes_is_not_held_against_clients() {
    let slow = Rates { uplink: Some(100_000), downlink: Some(100_000), repair: None };
    let cluster = Cluster::start_limited(1, slow, one_operation()).await;
    let data = vec![3; 150_000];
    let addr = cluster.nodes[0].addr;
    client().write_chunk(addr, copy(1), crc32c(&data), &data).await.unwrap();
    let range = Range { from: 0, to: data.len() as u64 };
    assert_eq!(client().read_chunk(addr, copy(1), range).await.unwrap(), data);
}

#[tokio::test]
async fn who_dawdles_over_writes_keeps_no_reader_waiting() {
    let least = LeastRate { rate: 1, grace: Duration::from_secs(3600) };
    let writes = OperationLimits { places: 1, each: 1, least };
    let limits = ClientLimits { writes, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    serves(&cluster, 1).await;
    let mut writer = stranger(&cluster).await;
    writer.write_all(&Frame::WriteChunk { copy: copy(2), bytes: 9 }.encode()).await.unwrap();
    let (client, addr) = (client(), cluster.nodes[0].addr);
    let read = client.read_chunk(addr, copy(1), Range { from: 0, to: 4 });
    assert_eq!(timeout(TIMEOUT, read).await.expect("a place is free").unwrap(), b"well");
}

#[tokio::test]
async fn who_is_slow_and_steady_comes_to_the_end() {
    let grace = Duration::from_secs(2);
    let least = LeastRate { rate: 8 << 10, grace };
    let writes = OperationLimits { least, ..ClientLimits::default().writes };
    let limits = ClientLimits { writes, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    let part = [5; 16 << 10];
    let parts = 20;
    let mut writer = stranger(&cluster).await;
    let bytes = (part.len() * parts) as u64;
    writer.write_all(&Frame::WriteChunk { copy: copy(1), bytes }.encode()).await.unwrap();
    for _ in 0..parts {
        // All pauses together are longer than the grace.
        sleep(grace / 10).await;
        let payload = Payload { bytes: part.len() as u32, crc: crc32c(&part) };
        let frame = [&Frame::WriteData(payload).encode()[..], &part].concat();
        writer.write_all(&frame).await.unwrap();
    }
    let whole = part.repeat(parts);
    writer.write_all(&Frame::WriteEnd { crc: crc32c(&whole) }.encode()).await.unwrap();
    assert_eq!(read_frame(&mut writer).await, Some(Frame::WriteDone));
}

#[tokio::test]
async fn idle_clients_are_hung_up_on_and_peers_have_places_of_their_own() {
    let limits = ClientLimits { connections: 2, idle: SHORT, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    let mut idle = [stranger(&cluster).await, stranger(&cluster).await];
    let (_, answer) = handshake(&cluster, Who::Client).await;
    assert_eq!(answer, Some(Frame::Error(Denial::Busy)));
    let (_peer, answer) = handshake(&cluster, Who::Agent(NodeId(7))).await;
    assert!(matches!(answer, Some(Frame::Hello { .. })), "{answer:?}");
    for stream in &mut idle {
        hung_up(stream).await;
    }
    serves(&cluster, 1).await;
}

#[tokio::test]
async fn one_address_does_not_get_all_places() {
    let limits = ClientLimits { connections: 8, connections_each: 2, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    let _greedy = [stranger(&cluster).await, stranger(&cluster).await];
    let (_, answer) = handshake(&cluster, Who::Client).await;
    assert_eq!(answer, Some(Frame::Error(Denial::Busy)));
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut elsewhere = elsewhere.connect(cluster.nodes[0].addr).await.unwrap();
    let hello = Frame::Hello { cluster: CLUSTER, who: Who::Client };
    elsewhere.write_all(&hello.encode()).await.unwrap();
    assert!(matches!(read_frame(&mut elsewhere).await, Some(Frame::Hello { .. })));
}

#[tokio::test]
async fn connections_that_say_nothing_give_way_to_newer_ones() {
    // Not because they are late.
    let handshake = Duration::from_secs(3600);
    let limits = ClientLimits { newcomers: 4, handshake, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(cluster.nodes[0].addr).await.unwrap());
    }
    for stream in &mut silent[..8] {
        hung_up(stream).await;
    }
    serves(&cluster, 1).await;
}

#[tokio::test]
async fn a_stranger_does_not_learn_the_name_of_the_cluster() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.unwrap();
    let hello = Frame::Hello { cluster: ClusterId(0xbad), who: Who::Client };
    stream.write_all(&hello.encode()).await.unwrap();
    let mut answer = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let header = answer.first_chunk::<HEADER_BYTES>().unwrap();
    assert_eq!(Frame::decode(header).unwrap(), Frame::Error(Denial::Cluster));
    for id in [CLUSTER.0.to_le_bytes(), CLUSTER.0.to_be_bytes()] {
        assert!(!answer.windows(8).any(|window| window == id), "{answer:?}");
    }
}

#[tokio::test]
async fn space_is_taken_as_bytes_come_and_not_as_they_are_announced() {
    let cluster = Cluster::start(1, Rates::default()).await;
    let tmp = cluster.nodes[0].dir.path().join("tmp");
    let mut stream = stranger(&cluster).await;
    let begin = Frame::WriteChunk { copy: copy(1), bytes: 1 << 30 };
    let data = vec![1; 1 << 16];
    let payload = Frame::WriteData(Payload { bytes: 1 << 16, crc: crc32c(&data) });
    stream.write_all(&begin.encode()).await.unwrap();
    stream.write_all(&[&payload.encode()[..], &data].concat()).await.unwrap();
    let taken = || {
        let files = std::fs::read_dir(&tmp).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum::<u64>()
    };
    let arrived = async {
        while taken() < 1 << 16 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, arrived).await.unwrap();
    assert!(taken() < 32 << 20, "{} bytes are taken for {}", taken(), data.len());
    drop(stream);
    cluster.nodes[0].swept().await;

    let mut stream = stranger(&cluster).await;
    let never = [begin.encode(), Frame::WriteEnd { crc: 0 }.encode()].concat();
    stream.write_all(&never).await.unwrap();
    assert_eq!(read_frame(&mut stream).await, Some(Frame::Error(Denial::Malformed)));
}

#[tokio::test]
async fn a_connection_that_was_hung_up_on_is_not_used_again() {
    let limits = ClientLimits { idle: SHORT, ..ClientLimits::default() };
    let cluster = Cluster::start_limited(1, Rates::default(), limits).await;
    let (addr, pool) = (cluster.nodes[0].addr, ConnectionPool::new(CLUSTER, None));
    let agent = addr.into();
    client().write_chunk(addr, copy(1), crc32c(b"well"), b"well").await.unwrap();
    for _ in 0..2 {
        let mut connection = pool.take(&agent).await.unwrap();
        let mut data = [0; 4];
        let result = connection.read(copy(1), 0, &mut data).await;
        assert_eq!((&data, result.is_ok()), (b"well", true), "{result:?}");
        let wait = async {
            while connection.is_usable() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, wait).await.expect("the agent hangs up");
        pool.give(&agent, connection, &result);
    }
}
