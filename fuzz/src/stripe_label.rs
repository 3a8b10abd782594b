//! Labels of stripes: whatever lies beside chunks is a label or refused, and whatever labels say
//! makes objects that there can be, or none.
//!
//! Place: metadata that are made again from chunks alone, by what agents answer. An input is a
//! sequence of stripes: its id in a byte, the node and chunk of two copies in a byte each, and a
//! label.

use std::collections::BTreeMap;

use suture_drivers::label::StripeLabel;
use suture_drivers::rebuild::{FoundStripe, objects_of};
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, ListedCopy, NodeId, Stamp, StripeId};
use suture_repair::label::Label;

use crate::cursor::{Cursor, piece};

/// Inputs to begin with: objects of one stripe and of several, whole and not.
pub fn valid() -> Vec<Vec<u8>> {
    let one = |ordinal: u64, is_last| StripeLabel {
        object: "photos/2026".into(),
        code: "rs(3,2)".parse().expect("it is a code"),
        object_chunk_bytes: 1 << 20,
        created: 1_790_000_000,
        first: StripeId(7),
        ordinal,
        is_last,
        chunk_bytes: if is_last { 4096 } else { 1 << 20 },
        data_bytes: 3 * 4096 - 5,
        checksum: 0x0123_4567_89ab_cdef,
        crcs: vec![1, 2, 3, 4, 5],
    };
    let stripe = |id: u8, label: &StripeLabel| {
        [&[id, 0x12, 0x34][..], &piece(label.encode().bytes())].concat()
    };
    let other = StripeLabel {
        code: "butterfly(4)".parse().expect("it is a code"),
        first: StripeId(1),
        crcs: vec![1; 6],
        ..one(0, true)
    };
    vec![
        stripe(7, &StripeLabel { chunk_bytes: 4096, ..one(0, true) }),
        [stripe(7, &one(0, false)), stripe(8, &one(1, false)), stripe(9, &one(2, true))].concat(),
        [stripe(7, &one(0, false)), stripe(9, &one(2, true))].concat(),
        [stripe(1, &other), stripe(7, &one(0, true))].concat(),
    ]
}

/// Gives whether any label is one.
///
/// # Panics
/// When a label that was read is not written and read back as the same, or labels make an object
/// that cannot be.
pub fn check(input: &[u8]) -> bool {
    let (mut found, mut labels) = (BTreeMap::new(), 0);
    let mut input = Cursor(input);
    while let (Some(id), Some(one), Some(two)) = (input.byte(), input.byte(), input.byte()) {
        let label = input.piece().and_then(read);
        labels += usize::from(label.is_some());
        let copies = [one, two].map(|copy| listed(StripeId(id.into()), copy, label.as_ref()));
        found.insert(
            StripeId(id.into()),
            FoundStripe { copies: copies.to_vec(), label, is_unread: false },
        );
    }
    let stripes = found.len();
    let rebuilt = objects_of(found);
    let mut used = rebuilt.unlabelled as usize;
    for (object, stripes) in &rebuilt.objects {
        used += stripes.len();
        assert_eq!(object.bytes, stripes.iter().map(|stripe| stripe.data_bytes).sum::<u64>());
        for entry in stripes {
            let stripe = &entry.stripe;
            assert_eq!(stripe.check(), Ok(()), "{}", object.name);
            let capacity = stripe.chunk_bytes * stripe.code.data_chunks() as u64;
            assert!((1..=capacity).contains(&entry.data_bytes), "{entry:?}");
            let mut nodes: Vec<NodeId> = stripe.chunks.iter().filter_map(|c| c.node).collect();
            nodes.sort_unstable();
            assert!(nodes.windows(2).all(|pair| pair[0] != pair[1]), "{nodes:?}");
        }
    }
    for object in &rebuilt.incomplete {
        used += object.found as usize;
        assert!(!object.name.is_empty());
    }
    assert_eq!(used, stripes, "each stripe is of one object, or without a label");
    labels > 0
}

fn read(bytes: &[u8]) -> Option<StripeLabel> {
    let label = Label::new(bytes)?;
    match StripeLabel::decode(&label) {
        Ok(label) => {
            assert_eq!(StripeLabel::decode(&label.encode()), Ok(label.clone()));
            Some(label)
        }
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            None
        }
    }
}

/// A copy as it would be listed if it was one of the label's: a node in its high four bits, a chunk
/// in its low ones.
fn listed(stripe: StripeId, copy: u8, label: Option<&StripeLabel>) -> (NodeId, ListedCopy) {
    let chunk = ChunkIndex(copy & 15);
    let crc = label.and_then(|label| label.crcs.get(usize::from(chunk.0)).copied());
    let digest = Digest { bytes: label.map(|label| label.chunk_bytes), crc };
    let name = ChunkCopy { stripe, chunk, stamp: Stamp(copy.into()) };
    (NodeId(u32::from(copy >> 4)), ListedCopy { copy: name, digest })
}
