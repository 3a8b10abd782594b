//! Repairs by real agents over loopback: every shape gives the lost bytes, every failure its name.

use std::sync::Arc;
use std::time::Instant;

use crate::agents::{Cluster, Tree, any_tree, chain, client, star, stripe, task};
use suture_code::fingerprint;
use suture_drivers::agent::session::SessionEvent;
use suture_drivers::chunk_client::ChunkError;
use suture_drivers::limit::Rates;
use suture_repair::id::{
    ChunkCopy, ChunkIndex, CopyAt, ListedCopy, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{Check, CopyFault, Failure, FingerprintRequest, FromAgent, ToAgent};
use suture_repair::plan::{Mode, Range};
use suture_repair::random::Random;

const FAST: Rates = Rates { uplink: None, downlink: None, repair: None };

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_rebuilds_the_lost_bytes() {
    let mut cluster = Cluster::start(8, FAST).await;
    let mut random = Random::new(1);
    let helpers = [1, 2, 3, 4];
    let trees: Vec<Vec<Tree>> = vec![
        vec![star(&helpers, 7)],
        vec![chain(&helpers, 7)],
        (0..3).map(|_| any_tree(&helpers, 7, &mut random)).collect(),
        (0..5).map(|_| any_tree(&[5, 2, 4, 3], 7, &mut random)).collect(),
        // Node 6 holds nothing of the stripe and only relays.
        vec![vec![(1, 6), (2, 6), (3, 4), (4, 7), (6, 7)]],
    ];
    let mut sequence = 0;
    for mode in [Mode::Streamed, Mode::Stored] {
        for trees in &trees {
            for bytes in [640, 5000, 1_000_000] {
                sequence += 1;
                let (stripe, chunks) = stripe("rs(4,2)", sequence, bytes);
                let repair = RepairId::new(1, sequence as u32);
                cluster.store(&stripe, &chunks).await;
                cluster.dispatch(&task(repair, &stripe, (trees, mode), 7)).await;
                let copy = cluster.outcome(repair).await.unwrap();
                assert_eq!(cluster.read(NodeId(7), copy, bytes as u64).await, chunks[0]);
            }
        }
    }
    for node in &cluster.nodes {
        node.swept().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_repairs_share_the_same_links() {
    let mut cluster = Cluster::start(8, FAST).await;
    let mut random = Random::new(2);
    let mut expected = Vec::new();
    for sequence in 1..=24u32 {
        let (stripe, chunks) = stripe("rs(4,2)", sequence.into(), 300_000);
        cluster.store(&stripe, &chunks).await;
        let destination = 6 + sequence % 2;
        let trees: Vec<Tree> =
            (0..2).map(|_| any_tree(&[1, 3, 4, 5], destination, &mut random)).collect();
        let repair = RepairId::new(1, sequence);
        expected.push((repair, destination, chunks));
        cluster.dispatch(&task(repair, &stripe, (&trees, Mode::Streamed), destination)).await;
    }
    let mut copies = std::collections::BTreeMap::new();
    while copies.len() < expected.len() {
        match cluster.next().await {
            (_, FromAgent::Stored { repair, copy }) => drop(copies.insert(repair, copy)),
            (node, FromAgent::Failed { repair, why }) => panic!("{repair} at {node}: {why}"),
            _ => {}
        }
    }
    for (repair, destination, chunks) in expected {
        let found = cluster.read(NodeId(destination), copies[&repair], 300_000).await;
        assert_eq!(found, chunks[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_dies_in_the_middle_is_reported_lost() {
    let rates = Rates { uplink: Some(1_000_000), ..FAST };
    let mut cluster = Cluster::start(6, rates).await;
    let (stripe, chunks) = stripe("rs(3,1)", 1, 4_000_000);
    cluster.store(&stripe, &chunks).await;
    let repair = RepairId::new(1, 1);
    cluster.dispatch(&task(repair, &stripe, (&[chain(&[1, 2, 3], 5)], Mode::Streamed), 5)).await;
    loop {
        if let (_, FromAgent::Heartbeat(beat)) = cluster.next().await
            && beat.running.iter().any(|(_, bytes)| *bytes > 100_000)
        {
            break;
        }
    }
    cluster.kill(NodeId(2)).await;
    let mut lost = Vec::new();
    while lost.len() < 2 {
        if let (node, FromAgent::Failed { why: Failure::PeerLost(peer), .. }) = cluster.next().await
        {
            assert_eq!(peer, NodeId(2));
            if !lost.contains(&node) {
                lost.push(node);
            }
        }
    }
    lost.sort_unstable();
    assert_eq!(lost, [NodeId(1), NodeId(3)], "child and parent both notice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_cannot_be_reached_is_reported_lost() {
    let mut cluster = Cluster::start(4, FAST).await;
    let (stripe, chunks) = stripe("rs(2,1)", 1, 10_000);
    cluster.store(&stripe, &chunks).await;
    cluster.kill(NodeId(2)).await;
    let trees = [chain(&[1, 2], 3)];
    for sequence in [1, 2] {
        let repair = RepairId::new(1, sequence);
        let task = Arc::new(task(repair, &stripe, (&trees, Mode::Streamed), 3));
        let message = SessionEvent::Message(ToAgent::Dispatch(task));
        cluster.node(NodeId(3)).tell(message).await;
        let failed = cluster.outcome(repair).await;
        assert_eq!(failed, Err((NodeId(3), Failure::PeerLost(NodeId(2)))));
        // The second time it is known to be out of reach.
        let everyone = (0..4).map(|node| (NodeId(node), None)).collect();
        cluster.node(NodeId(3)).tell(SessionEvent::Peers(everyone)).await;
    }
    cluster.node(NodeId(3)).swept().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_missing_sources_are_never_used() {
    let mut cluster = Cluster::start(5, FAST).await;
    let (stripe, chunks) = stripe("rs(3,1)", 1, 200_000);
    cluster.store(&stripe, &chunks).await;
    let CopyAt { node, copy } = stripe.copy(ChunkIndex(2)).unwrap();
    let path = cluster.node(node).path(copy);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[150_000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let trees = [star(&[1, 2, 3], 4)];
    for (sequence, fault) in [(1, CopyFault::Corrupt), (2, CopyFault::Missing)] {
        let repair = RepairId::new(1, sequence);
        cluster.dispatch(&task(repair, &stripe, (&trees, Mode::Streamed), 4)).await;
        let failed = cluster.outcome(repair).await;
        assert_eq!(failed, Err((node, Failure::Source { copy, fault })));
        let cancel = SessionEvent::Message(ToAgent::Cancel(repair));
        cluster.node(NodeId(4)).tell(cancel).await;
        let _ = std::fs::remove_file(&path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_fails_its_proof_is_not_published() {
    let mut cluster = Cluster::start(4, FAST).await;
    let (mut stripe, chunks) = stripe("rs(2,1)", 1, 50_000);
    cluster.store(&stripe, &chunks).await;
    let found = stripe.chunks[0].crc.replace(7).unwrap();
    let repair = RepairId::new(1, 1);
    cluster.dispatch(&task(repair, &stripe, (&[star(&[1, 2], 3)], Mode::Streamed), 3)).await;
    let failed = cluster.outcome(repair).await;
    assert_eq!(failed, Err((NodeId(3), Failure::ProofFailed { expected: 7, found })));
    cluster.node(NodeId(3)).tell(SessionEvent::Message(ToAgent::List)).await;
    loop {
        if let (NodeId(3), FromAgent::Inventory(copies)) = cluster.next().await {
            assert_eq!(copies, []);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_without_a_recorded_checksum_waits_for_word_that_it_is_proven() {
    let mut cluster = Cluster::start(4, FAST).await;
    let (mut stripe, chunks) = stripe("rs(2,1)", 1, 300_000);
    cluster.store(&stripe, &chunks).await;
    stripe.chunks.iter_mut().for_each(|chunk| chunk.crc = None);
    let repair = RepairId::new(1, 1);
    cluster.dispatch(&task(repair, &stripe, (&[star(&[1, 2], 3)], Mode::Streamed), 3)).await;
    loop {
        if let (NodeId(3), FromAgent::Heartbeat(beat)) = cluster.next().await
            && beat.written == [repair]
        {
            break;
        }
    }
    let made = ChunkCopy { stripe: stripe.id, chunk: ChunkIndex(0), stamp: Stamp::from(repair) };
    let helpers = [1, 2].map(|chunk| stripe.copy(ChunkIndex(chunk)).unwrap());
    let mut sums = Vec::new();
    for CopyAt { node, copy } in [helpers[0], helpers[1], made.at(NodeId(3))] {
        let (bytes, seed, layout) = (stripe.chunk_bytes, 9, stripe.layout());
        let request = FingerprintRequest { repair, copy, bytes, crc: None, seed, layout };
        cluster.node(node).tell(SessionEvent::Message(ToAgent::Fingerprint(request))).await;
        let found = loop {
            match cluster.next().await {
                (_, FromAgent::Fingerprint { copy: of, sums, .. }) if of == copy => break sums,
                (_, FromAgent::Inventory(copies)) => {
                    assert!(copies.iter().all(|held| held.copy != made))
                }
                _ => {}
            }
        };
        sums.push(found);
    }
    let of_helpers = [(ChunkIndex(1), &*sums[0]), (ChunkIndex(2), &*sums[1])];
    let expected = fingerprint::repaired(&stripe.shortened(), ChunkIndex(0), &of_helpers);
    assert!(expected.unwrap() == *sums[2]);
    cluster.node(NodeId(3)).tell(SessionEvent::Message(ToAgent::Publish(repair))).await;
    assert_eq!(cluster.outcome(repair).await, Ok(made));
    assert_eq!(cluster.read(NodeId(3), made, stripe.chunk_bytes).await, chunks[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_keep_to_the_links_rate() {
    let rate = 4_000_000;
    let mut cluster =
        Cluster::start(6, Rates { uplink: Some(rate), downlink: Some(rate), repair: None }).await;
    let (stripe, chunks) = stripe("rs(3,1)", 1, 4_000_000);
    // Chunks are put past the limits of the links, which hold for what comes in over them too.
    cluster.store(&stripe, &chunks).await;
    let repair = RepairId::new(1, 1);
    let start = Instant::now();
    cluster.dispatch(&task(repair, &stripe, (&[chain(&[1, 2, 3], 5)], Mode::Streamed), 5)).await;
    cluster.outcome(repair).await.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds > 0.98, "a second's worth of bytes took {seconds} s");
    assert!(seconds < 3.0, "a second's worth of bytes took {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_knows_its_free_bytes_before_its_first_word() {
    let mut cluster = Cluster::start(1, FAST).await;
    let (_, first) = cluster.next().await;
    assert!(matches!(first, FromAgent::Hello(hello) if hello.free_bytes > 0), "{first:?}");
}

/// A name says nothing of the bytes: two puts may have been given the same one by metadata that
/// were set back.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_copy_of_other_bytes_is_corrupt_to_checks_reads_and_helpers() {
    let mut cluster = Cluster::start(4, FAST).await;
    let (stripe, mut chunks) = stripe("rs(2,1)", 1, 50_000);
    let recorded = stripe.clone();
    chunks[1][777] ^= 1;
    let mut found = stripe;
    found.chunks[1].crc = Some(suture_edge::checksum::crc32c(&chunks[1]));
    cluster.store(&found, &chunks).await;

    let CopyAt { node, copy } = recorded.copy(ChunkIndex(1)).unwrap();
    let digest = recorded.record(ChunkIndex(1)).digest();
    let bad = (node, FromAgent::Bad { copy, fault: CopyFault::Corrupt });
    let check = ToAgent::Check(Check { copy, digest, excess: None });
    cluster.node(node).tell(SessionEvent::Message(check)).await;
    while cluster.next().await != bad {}

    let (addr, range) = (cluster.node(node).addr, Range { from: 0, to: 10 });
    let refused = client().read_chunk(addr, ListedCopy { copy, digest }, range).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, ChunkError::Fault { fault: CopyFault::Corrupt, .. }), "{refused}");
    // What it should contain was the reader's word: the coordinator receives that from the reader.
    cluster.node(node).tell(SessionEvent::Message(ToAgent::List)).await;
    loop {
        let said = cluster.next().await;
        assert_ne!(said, bad);
        if matches!(said.1, FromAgent::Inventory(_)) {
            break;
        }
    }
    assert_eq!(client().read_chunk(addr, copy, range).await.unwrap(), &chunks[1][..10]);

    let repair = RepairId::new(1, 1);
    cluster.dispatch(&task(repair, &recorded, (&[star(&[1, 2], 3)], Mode::Streamed), 3)).await;
    let failed = cluster.outcome(repair).await;
    assert_eq!(failed, Err((node, Failure::Source { copy, fault: CopyFault::Corrupt })));

    cluster.node(node).tell(SessionEvent::Message(ToAgent::List)).await;
    let held = ListedCopy { copy, digest: found.record(ChunkIndex(1)).digest() };
    while cluster.next().await != (node, FromAgent::Inventory(vec![held])) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_say_what_is_free_now() {
    const TAKEN: u64 = 64 << 20;
    let mut cluster = Cluster::start(1, FAST).await;
    let free = |said: FromAgent| match said {
        FromAgent::Hello(hello) => Some(hello.free_bytes),
        FromAgent::Heartbeat(beat) => Some(beat.free_bytes),
        _ => None,
    };
    let before = free(cluster.next().await.1).expect("it says Hello first");
    let copy = ChunkCopy { stripe: StripeId(9), chunk: ChunkIndex(1), stamp: Stamp(0) };
    let taken = cluster.nodes[0].path(copy).with_extension("taken");
    std::fs::write(&taken, vec![1; TAKEN as usize]).unwrap();
    std::fs::File::open(&taken).unwrap().sync_all().unwrap();
    // Others use the disk as well; what they free meanwhile is less.
    while free(cluster.next().await.1).is_none_or(|now| now + TAKEN / 2 > before) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_checked_listed_and_deleted_on_request() {
    let mut cluster = Cluster::start(3, FAST).await;
    let (stripe, chunks) = stripe("rs(2,1)", 1, 10_000);
    cluster.store(&stripe, &chunks).await;
    let CopyAt { node, copy } = stripe.copy(ChunkIndex(1)).unwrap();
    let check = Check { copy, digest: stripe.record(ChunkIndex(1)).digest(), excess: None };
    cluster.node(node).tell(SessionEvent::Message(ToAgent::Check(check))).await;
    while cluster.next().await != (node, FromAgent::Verified(check)) {}
    let delete = ToAgent::Delete { epoch: 1, session: 2, copy };
    cluster.node(node).tell(SessionEvent::Message(delete)).await;
    let bad = FromAgent::Bad { copy, fault: CopyFault::Missing };
    let mut asked = 0;
    loop {
        cluster.node(node).tell(SessionEvent::Message(ToAgent::Check(check))).await;
        asked += 1;
        match cluster.next().await {
            said if said == (node, bad.clone()) => break,
            _ => assert!(asked < 10_000, "the copy does not go away"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_write_once_and_read_what_they_wrote() {
    let mut cluster = Cluster::start(1, FAST).await;
    let addr = cluster.nodes[0].addr;
    let mut data = vec![0; 1_500_000];
    Random::new(4).fill(&mut data);
    let crc = suture_edge::checksum::crc32c(&data);
    let copy = ChunkCopy { stripe: StripeId(9), chunk: ChunkIndex(1), stamp: Stamp(0) };
    let other = ChunkCopy { stamp: Stamp(5), ..copy };

    let mut connection = client().connect(addr).await.unwrap();
    let mut writer = connection.write(copy, data.len() as u64).await.unwrap();
    for part in data.chunks(100_000) {
        writer.push(part).await.unwrap();
    }
    writer.finish(crc, &Label::default()).await.unwrap();
    let mut part = vec![0; 600_000];
    connection.read(copy, 123_456, &mut part).await.unwrap();
    assert_eq!(part, data[123_456..723_456]);

    // Every refusal leaves the connection usable.
    client().write_chunk(addr, copy, crc, &data).await.unwrap();
    let mut writer = connection.write(copy, 10).await.unwrap();
    writer.push(&[1; 10]).await.unwrap();
    let error = writer
        .finish(suture_edge::checksum::crc32c(&[1; 10]), &Label::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("already there"), "{error}");
    let mut writer = connection.write(other, 10).await.unwrap();
    writer.push(&[1; 10]).await.unwrap();
    let error = writer.finish(1, &Label::default()).await.unwrap_err();
    assert!(error.to_string().contains("announced was 00000001"), "{error}");
    let error = connection.read(other, 0, &mut part).await.unwrap_err();
    assert!(matches!(error, ChunkError::Fault { fault: CopyFault::Missing, .. }), "{error}");
    let error = connection.read(copy, 1_000_000, &mut part).await.unwrap_err();
    assert!(error.to_string().contains("only 1500000 bytes"), "{error}");
    connection.read(copy, 0, &mut part).await.unwrap();

    // An abandoned write leaves nothing.
    let mut writer = connection.write(other, 1_000_000).await.unwrap();
    writer.push(&[1; 100_000]).await.unwrap();
    assert!(connection.read(copy, 0, &mut part).await.is_err());
    drop(connection);
    cluster.nodes[0].swept().await;

    // A damaged copy is refused, and reported to the coordinator.
    let path = cluster.nodes[0].path(copy);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[700_000] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let whole = Range { from: 0, to: 1_500_000 };
    let error = client().read_chunk(addr, copy, whole).await.unwrap_err();
    assert!(matches!(error, ChunkError::Fault { fault: CopyFault::Corrupt, .. }), "{error}");
    let bad = FromAgent::Bad { copy, fault: CopyFault::Corrupt };
    while cluster.next().await != (NodeId(0), bad.clone()) {}
}
