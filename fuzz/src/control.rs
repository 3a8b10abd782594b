//! Control messages: whatever is read can be written, and is then read again as the same.
//!
//! Place: the session between coordinator and agents, which reads what came over a socket.

use prost::Message;
use suture_code::layout::Layout;
use suture_drivers::control::listing::Listing;
use suture_drivers::control::proto::agent_message::Message as AgentWord;
use suture_drivers::control::{PROTOCOL_OLDEST, PROTOCOL_VERSION, convert, proto, session};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, EdgeRef, Generation, ListedCopy, NodeId, RepairId, Stamp,
    StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{
    CopyFault, DiskState, Failure, FingerprintRequest, FromAgent, Heartbeat, Task, ToAgent,
};
use suture_repair::plan::StripeFacts;
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::processor::{Processor, ProcessorCosts};
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::wire::ClusterId;

/// Nodes that arbitrary plans may use.
const NODES: usize = 14;
/// Whose agents may join.
const CLUSTER: ClusterId = ClusterId(7);

/// Inputs to begin with: tasks with strange plans, and one of most other messages.
pub fn valid() -> Vec<Vec<u8>> {
    let repair = RepairId::new(3, 4);
    let copy = ChunkCopy { stripe: StripeId(1 << 40), chunk: ChunkIndex(8), stamp: Stamp(7) };
    let listed = ListedCopy { copy, digest: Digest { bytes: Some(1 << 30), crc: Some(7) } };
    let mut inputs: Vec<Vec<u8>> = (0..8).map(|seed| to_agent(task(seed))).collect();
    inputs.extend(
        [
            ToAgent::Cancel(repair),
            ToAgent::Delete { epoch: 3, session: 2, copy },
            ToAgent::Release { repair, lane: 7, child: NodeId(2) },
            ToAgent::Publish(repair),
            ToAgent::Fingerprint(FingerprintRequest {
                repair,
                copy,
                bytes: 6000,
                crc: Some(7),
                seed: 5,
                layout: Layout::cut(8192, 8).in_units(4096),
            }),
            ToAgent::List,
        ]
        .map(to_agent),
    );
    let running = vec![(repair, 1 << 20)];
    let arrived = vec![EdgeRef { repair, lane: 3, peer: NodeId(4) }];
    let written = vec![repair];
    inputs.extend(
        [
            FromAgent::Inventory(vec![copy.into(), listed]),
            FromAgent::Heartbeat(Heartbeat {
                incarnation: 9,
                free_bytes: 8,
                disk: DiskState::Hanging,
                running,
                arrived,
                written,
                waits: Vec::new(),
                links: None,
            }),
            FromAgent::Fingerprint { repair, copy, sums: [1, 2, 3].into() },
            FromAgent::Stored { repair, copy },
            FromAgent::Failed { repair, why: Failure::Source { copy, fault: CopyFault::Corrupt } },
        ]
        .map(|message| convert::encode_from_agent(message).encode_to_vec()),
    );
    let processor = Processor::new(2.0, ProcessorCosts::TYPICAL).expect("it can be");
    let join = proto::Join {
        protocol: PROTOCOL_VERSION,
        oldest_protocol: PROTOCOL_OLDEST,
        name: "n1".into(),
        data_address: "[::1]:7401".into(),
        uplink: 1e8,
        downlink: 1e9,
        cluster: Some(CLUSTER.0),
        rack: Some("r1".into()),
        epoch: 3,
        committed: 17,
        store: Some(9),
        takes_name: false,
        renews: true,
        mark: Some(proto::Mark { number: 5, at: 1 << 40 }),
        heartbeat_ms: Some(1000),
        file_system: Some(11),
        processor: Some(convert::encode_processor(&processor)),
    };
    let join = proto::AgentMessage { message: Some(AgentWord::Join(join)) };
    inputs.push(join.encode_to_vec());
    inputs
}

fn to_agent(message: ToAgent) -> Vec<u8> {
    let message = Some(convert::encode_to_agent(message));
    proto::CoordinatorMessage { message }.encode_to_vec()
}

fn task(seed: u64) -> ToAgent {
    let chunk = |index: u32| ChunkRecord {
        node: (index != 4).then_some(NodeId(index)),
        stamp: Stamp(0),
        bytes: if index == 5 { 100 } else { 4096 },
        crc: (index != 6).then_some(index),
    };
    let stripe = Stripe {
        id: StripeId(5),
        code: "rs(6,3)".parse().expect("it is a code"),
        chunk_bytes: 4096,
        unit_bytes: 512,
        generation: Generation(3),
        chunks: (0..9).map(chunk).collect(),
    };
    let survivors: Vec<(ChunkIndex, NodeId)> =
        stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?.node))).collect();
    let facts = StripeFacts {
        stripe: stripe.id,
        code: stripe.shortened(),
        chunk_bytes: stripe.chunk_bytes,
        survivors: &survivors,
        source: None,
    };
    let plan = arbitrary_plan(&mut Random::new(seed), &facts, NODES);
    let (repair, slice_bytes, window, gated) = (RepairId::new(7, seed as u32), 1024, 4, false);
    let label = Label::new(b"a label").expect("it is short");
    let (continues, skips) = (None, false);
    let task = Task { repair, stripe, plan, slice_bytes, window, gated, continues, skips, label };
    ToAgent::Dispatch(task.into())
}

/// Gives whether either side accepts the input.
///
/// # Panics
/// When a message that was read is not written and read back as the same.
pub fn check(bytes: &[u8]) -> bool {
    let word = proto::CoordinatorMessage::decode(bytes).ok().and_then(|message| message.message);
    let to_agent = word.and_then(|word| convert::decode_to_agent(word).ok());
    if let Some(message) = &to_agent {
        let again = convert::decode_to_agent(convert::encode_to_agent(message.clone()));
        assert_eq!(again.as_ref(), Ok(message));
    }
    let word = proto::AgentMessage::decode(bytes).ok();
    if let Some(proto::AgentMessage { message: Some(AgentWord::Join(join)) }) = &word {
        return check_join(join);
    }
    let from_agent = word.and_then(whole);
    if let Some(message) = &from_agent {
        let again = convert::decode_from_agent(convert::encode_from_agent(message.clone()));
        assert_eq!(again.as_ref(), Ok(message));
    }
    to_agent.is_some() || from_agent.is_some()
}

/// Either half of a session takes listings in parts; what is read of them is one message.
fn whole(word: proto::AgentMessage) -> Option<FromAgent> {
    let whole = Listing::default().whole(word.clone()).expect("one message is not too long");
    if let Some(AgentWord::Inventory(part)) = &word.message {
        assert_eq!(whole.is_none(), part.more);
    }
    let message = convert::decode_from_agent(whole?);
    message.map_err(|why| assert!(!why.field.is_empty() && !why.fault.is_empty())).ok()
}

/// Whatever agent is let in has a name, an address and rates that can be worked with.
fn check_join(join: &proto::Join) -> bool {
    match session::check(CLUSTER, join.clone()) {
        Ok(node) => {
            assert!((1..=128).contains(&node.name.len()) && node.address.contains(':'), "{node:?}");
            assert!(
                [node.uplink, node.downlink].iter().all(|rate| rate.is_finite() && *rate > 0.0)
            );
            true
        }
        Err(status) => {
            assert!(!status.message().is_empty());
            false
        }
    }
}
