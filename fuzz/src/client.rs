//! Messages of clients and operators, and what they are answered: whatever is read keeps its
//! bounds, and what is made of it is written and read back as the same.
//!
//! Place: the control plane, where either side may be anybody. An input is a byte that chooses the
//! message, and its bytes.

use std::fmt::Debug;

use prost::Message;
use suture_drivers::control::convert::{
    Malformed, decode_chunk, decode_code, decode_copy, decode_object, decode_object_stripe,
    decode_peer, encode_chunk, encode_copy, encode_object, encode_object_stripe,
};
use suture_drivers::control::object_name::check_name;
use suture_drivers::control::proto;
use suture_drivers::control::proto::lookup_reply::Part as Looked;
use suture_drivers::control::proto::put_reply::Step as Answered;
use suture_drivers::control::proto::put_request::Step as Asked;
use suture_drivers::metadata::{Object, ObjectStripe};
use suture_repair::id::{ChunkCopy, ChunkIndex, Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe};

/// Inputs to begin with: one of each message.
pub fn valid() -> Vec<Vec<u8>> {
    let message = |kind: u8, bytes: Vec<u8>| [&[kind][..], &bytes].concat();
    let requests = requests().into_iter().map(|step| proto::PutRequest { step: Some(step) });
    let mut inputs: Vec<Vec<u8>> =
        requests.map(|request| message(0, request.encode_to_vec())).collect();
    let parts = parts().into_iter().map(|part| proto::LookupReply { part: Some(part) });
    inputs.extend(parts.map(|reply| message(1, reply.encode_to_vec())));
    let node = proto::Peer { node: 1, name: "n1".into(), address: "[::1]:7401".into() };
    let place = proto::Place { stripe: 5, nodes: vec![node, proto::Peer::default()], stamp: 9 };
    let placed = Answered::Placed(proto::PutPlaced { places: vec![place] });
    let begun = Answered::Begun(proto::PutBegun { cluster: 7, created: 1_790_000_000, put: 3 });
    inputs.extend(
        [placed, begun, Answered::Committed(proto::Done {})]
            .map(|step| message(2, proto::PutReply { step: Some(step) }.encode_to_vec())),
    );
    let object = Some(encode_object(&object()));
    let copy = ChunkCopy { stripe: StripeId(5), chunk: ChunkIndex(255), stamp: Stamp(7) };
    let copy = Some(encode_copy(copy));
    let list = proto::ListReply { objects: object.clone().into_iter().collect() };
    let stat = proto::StatReply { object, stripes: 3, ..Default::default() };
    let command = proto::NodeCommand {
        name: "n1".into(),
        action: 2,
        seconds: 60.0,
        others: vec!["n2".into()],
        ..Default::default()
    };
    let repairs = proto::RepairCommand { action: 4, object: Some("a".into()) };
    inputs.extend([
        message(3, proto::BadCopy { node: 3, copy }.encode_to_vec()),
        message(4, list.encode_to_vec()),
        message(5, stat.encode_to_vec()),
        message(6, command.encode_to_vec()),
        message(7, repairs.encode_to_vec()),
    ]);
    inputs
}

fn object() -> Object {
    Object {
        name: "photos/2026".into(),
        bytes: 1 << 33,
        code: "clay(4,2,5)".parse().expect("it is a code"),
        chunk_bytes: 1 << 20,
        checksum: u64::MAX,
        created: 1_790_000_000,
    }
}

fn record(index: u32) -> ChunkRecord {
    let (node, bytes) = ((index != 1).then_some(NodeId(index)), 4096);
    ChunkRecord { node, stamp: Stamp(u64::MAX), bytes, crc: (index != 2).then_some(index) }
}

fn requests() -> Vec<Asked> {
    let chunks = (0..3).map(|index| encode_chunk(&record(index), 4096)).collect();
    vec![
        Asked::Begin(proto::PutBegin {
            name: "photos/2026".into(),
            code: "rs(2,1)".into(),
            chunk_bytes: 1 << 20,
            overwrite: true,
        }),
        Asked::Place(proto::PutPlace { stripes: 512 }),
        Asked::Stripe(proto::PutStripe {
            stripe: 5,
            data_bytes: 8000,
            chunk_bytes: 4096,
            chunks,
            checksum: 7,
        }),
        Asked::Commit(proto::PutCommit { bytes: 8000, checksum: 7 }),
    ]
}

fn parts() -> Vec<Looked> {
    let stripe = Stripe {
        id: StripeId(5),
        code: "rs(2,1)".parse().expect("it is a code"),
        chunk_bytes: 4096,
        unit_bytes: 512,
        generation: Generation(3),
        chunks: (0..3).map(record).collect(),
    };
    let entry = ObjectStripe { stripe, data_bytes: 8000, checksum: Some(7) };
    let node = proto::Peer { node: 1, name: "n1".into(), address: "127.0.0.1:7401".into() };
    let object = Some(encode_object(&object()));
    vec![
        Looked::Head(proto::LookupHead { cluster: 7, object, nodes: vec![node] }),
        Looked::Stripes(proto::LookupStripes { stripes: vec![encode_object_stripe(&entry); 2] }),
    ]
}

/// Gives whether the message is one, with nothing impossible in it.
///
/// # Panics
/// When one that was read is not written and read back as the same, or a refusal names no field.
pub fn check(input: &[u8]) -> bool {
    let Some((&kind, bytes)) = input.split_first() else { return false };
    let result = match kind % 8 {
        0 => message(bytes, check_request),
        1 => message(bytes, check_looked),
        2 => message(bytes, check_answer),
        3 => message(bytes, |bad: proto::BadCopy| {
            let copy = decode_copy(bad.copy)?;
            assert_eq!(decode_copy(Some(encode_copy(copy))), Ok(copy));
            Ok(())
        }),
        4 => message(bytes, |list: proto::ListReply| {
            list.objects.into_iter().try_for_each(|object| check_object(Some(object)))
        }),
        5 => message(bytes, |stat: proto::StatReply| check_object(stat.object)),
        6 => message(bytes, |command: proto::NodeCommand| {
            let _ = command.action();
            Ok(())
        }),
        _ => message(bytes, |command: proto::RepairCommand| {
            let _ = command.action();
            Ok(())
        }),
    };
    result.is_some_and(|result| {
        let named = |why: Malformed| assert!(!why.field.is_empty() && !why.fault.is_empty());
        result.map_err(named).is_ok()
    })
}

/// What `check` says of a message, which itself is written and read back as the same.
fn message<T: Message + Default + PartialEq + Clone + Debug>(
    bytes: &[u8],
    check: impl FnOnce(T) -> Result<(), Malformed>,
) -> Option<Result<(), Malformed>> {
    let message = T::decode(bytes).ok()?;
    let written = message.encode_to_vec();
    let again = T::decode(&written[..]).expect("it was written");
    assert_eq!(again.encode_to_vec(), written);
    Some(check(message))
}

fn check_request(request: proto::PutRequest) -> Result<(), Malformed> {
    match request.step {
        Some(Asked::Begin(begin)) => {
            let code = decode_code("PutBegin.code", &begin.code)?;
            assert_eq!(decode_code("PutBegin.code", &code.to_string()), Ok(code));
            let is_refused = check_name(&begin.name).is_err();
            assert!(is_refused || (1..=1024).contains(&begin.name.len()), "{begin:?}");
        }
        Some(Asked::Stripe(stripe)) => {
            for chunk in stripe.chunks {
                let record = decode_chunk(chunk, stripe.chunk_bytes);
                let again =
                    decode_chunk(encode_chunk(&record, stripe.chunk_bytes), stripe.chunk_bytes);
                assert_eq!(again, record);
            }
        }
        _ => (),
    }
    Ok(())
}

fn check_looked(reply: proto::LookupReply) -> Result<(), Malformed> {
    match reply.part {
        Some(Looked::Head(head)) => {
            head.nodes.iter().try_for_each(check_peer)?;
            check_object(head.object)
        }
        Some(Looked::Stripes(stripes)) => stripes.stripes.into_iter().try_for_each(|entry| {
            let entry = decode_object_stripe(entry)?;
            assert_eq!(entry.stripe.check(), Ok(()));
            // What a reader does first.
            let layout = entry.stripe.layout();
            assert!(layout.chunk_bytes() == entry.stripe.chunk_bytes);
            let again = decode_object_stripe(encode_object_stripe(&entry))?;
            assert_eq!(encode_object_stripe(&again), encode_object_stripe(&entry));
            Ok(())
        }),
        None => Ok(()),
    }
}

fn check_answer(reply: proto::PutReply) -> Result<(), Malformed> {
    match reply.step {
        Some(Answered::Placed(placed)) => {
            placed.places.iter().flat_map(|place| &place.nodes).try_for_each(check_peer)
        }
        _ => Ok(()),
    }
}

fn check_peer(peer: &proto::Peer) -> Result<(), Malformed> {
    let (node, address) = decode_peer(peer)?;
    assert_eq!((node.0, address.is_none()), (peer.node, peer.address.is_empty()));
    Ok(())
}

fn check_object(object: Option<proto::Object>) -> Result<(), Malformed> {
    let object = decode_object(object)?;
    let again = decode_object(Some(encode_object(&object)))?;
    assert_eq!(encode_object(&again), encode_object(&object));
    Ok(())
}
