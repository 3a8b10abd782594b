//! A stripe is known by the label that most nodes' copies fit, whatever came under its number.

use std::collections::BTreeMap;

use crate::agents::{CLUSTER, Cluster, client};
use suture_drivers::label::StripeLabel;
use suture_drivers::limit::Rates;
use suture_drivers::rebuild::read_labels;
use suture_edge::checksum::crc32c;
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, ListedCopy, Stamp, StripeId};

const STRIPE: StripeId = StripeId(5);

fn label(object: &str, chunks: &[&[u8]]) -> StripeLabel {
    StripeLabel {
        object: object.into(),
        code: "rs(2,1)".parse().unwrap(),
        object_chunk_bytes: 64,
        created: 1,
        first: STRIPE,
        ordinal: 0,
        is_last: true,
        chunk_bytes: 64,
        data_bytes: 128,
        checksum: 3,
        crcs: chunks.iter().map(|chunk| crc32c(chunk)).collect(),
    }
}

#[tokio::test]
async fn a_label_that_one_copy_alone_fits_does_not_speak_for_the_stripe() {
    let cluster = Cluster::start(3, Rates::default()).await;
    let (good, bad): ([&[u8]; 3], [&[u8]; 3]) = ([&[1; 64], &[2; 64], &[3; 64]], [&[9; 64]; 3]);
    let (honest, foreign) = (label("victim/photos", &good), label("team/x", &bad));
    let mut copies = Vec::new();
    let mut write = async |node: usize, chunk: u8, stamp, bytes: &[u8], label: &StripeLabel| {
        let copy = ChunkCopy { stripe: STRIPE, chunk: ChunkIndex(chunk), stamp: Stamp(stamp) };
        let node = &cluster.nodes[node];
        let mut connection = client().connect(node.address()).await.unwrap();
        let mut writer = connection.write(copy, 64).await.unwrap();
        writer.push(bytes).await.unwrap();
        writer.finish(crc32c(bytes), &label.encode()).await.unwrap();
        let digest = Digest { bytes: Some(64), crc: Some(crc32c(bytes)) };
        copies.push((node.id, ListedCopy { copy, digest }));
    };
    // What came later stands first in all lists: its stamp is lower. One node has all of it.
    for chunk in 0..3 {
        write(0, chunk, 0, bad[0], &foreign).await;
    }
    for (node, bytes) in good.into_iter().enumerate() {
        write(node, node as u8, 7, bytes, &honest).await;
    }
    let addresses = cluster.nodes.iter().map(|node| (node.id, node.address())).collect();
    let copies = BTreeMap::from([(STRIPE, copies)]);
    let found = read_labels(CLUSTER, &addresses, None, copies, || ()).await;
    assert_eq!(found.stripes[&STRIPE].label.as_ref(), Some(&honest));
}
