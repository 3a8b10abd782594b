//! Every word of a session survives its journey, and none that is damaged gets through.

use suture_repair::message::Hello;
use suture_repair::message::{DiskState, LinkReport, Moved, RepairLimit, SentTo};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::{Plan, Start, StripeFacts};
use suture_repair::planner::Abilities;
use suture_repair::random::Random;
use suture_repair::time::Span;

use suture_repair::processor::{Processor, ProcessorCosts};

use super::*;

const NODES: usize = 14;

fn digest() -> Digest {
    Digest { bytes: Some(u64::MAX), crc: Some(u32::MAX) }
}

fn copy() -> ChunkCopy {
    ChunkCopy { stripe: StripeId(u64::MAX >> 1), chunk: ChunkIndex(254), stamp: Stamp(u64::MAX) }
}

fn stripe() -> Stripe {
    let code: Code = "rs(6,3)".parse().unwrap();
    let chunk = |index: u32| ChunkRecord {
        node: (index != 4).then_some(NodeId(index)),
        stamp: Stamp(u64::from(index) << 40),
        bytes: if index == 5 { 4000 } else { 4096 },
        crc: (index != 3).then_some(0xffff_fff0 | index),
    };
    let generation = Generation(3);
    Stripe {
        id: StripeId(5),
        code,
        chunk_bytes: 4096,
        unit_bytes: 1024,
        generation,
        chunks: (0..9).map(chunk).collect(),
    }
}

fn task(seed: u64) -> Task {
    let stripe = stripe();
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
    let (slice_bytes, window) = (1024, 4);
    let (gated, continues) =
        (seed.is_multiple_of(2), seed.is_multiple_of(3).then_some(RepairId(seed)));
    let skips = seed.is_multiple_of(5);
    let label = Label::new(&[seed as u8; 5]).unwrap();
    let repair = RepairId::new(7, 9);
    Task { repair, stripe, plan, slice_bytes, window, gated, continues, skips, label }
}

/// Through bytes, as on the wire.
fn carry<T: Message + Default>(message: T) -> T {
    T::decode(message.encode_to_vec().as_slice()).unwrap()
}

fn failures() -> Vec<Failure> {
    let mut failures = vec![
        Failure::Source { copy: copy(), fault: CopyFault::Corrupt },
        Failure::Source { copy: copy(), fault: CopyFault::Missing },
        Failure::PeerLost(NodeId(0)),
        Failure::NoSpace,
        Failure::NoBuffers { needed: u64::MAX, free: 0 },
        Failure::ProofFailed { expected: 0, found: u32::MAX },
        Failure::Inconsistent,
        Failure::PastEnd { offset: u64::MAX },
        Failure::Stalled,
        Failure::Disk("it burns".into()),
    ];
    let refusals = [
        Refusal::Ability,
        Refusal::InvalidPlan,
        Refusal::NotAParticipant,
        Refusal::StaleEpoch,
        Refusal::CannotContinue,
    ];
    failures.extend(refusals.map(Failure::Refused));
    failures
}

#[test]
fn whatever_an_agent_says_arrives_as_it_was_said() {
    let repair = RepairId::new(3, 4);
    let abilities =
        Abilities { partial: true, combined: false, traces: true, finished: false, skips: true };
    let hello = Hello { incarnation: 1, session: 4, abilities, pool_bytes: 2, free_bytes: 3 };
    let running = vec![(repair, 17), (RepairId(0), 0)];
    let edge = |repair, lane, peer| EdgeRef { repair, lane, peer };
    let arrived = vec![edge(repair, 3, NodeId(4)), edge(RepairId(0), u16::MAX, NodeId(0))];
    let mut words = vec![
        FromAgent::Hello(hello),
        FromAgent::Inventory(vec![copy().into(), ListedCopy { copy: copy(), digest: digest() }]),
        FromAgent::Inventory(vec![]),
        FromAgent::NotListed,
        FromAgent::Heartbeat(Heartbeat {
            incarnation: 9,
            free_bytes: 8,
            disk: DiskState::Hanging,
            running,
            arrived,
            written: vec![repair, RepairId(0)],
            waits: vec![edge(RepairId(1), 0, NodeId(u32::MAX))],
            links: Some(Box::new(LinkReport {
                span: Span::from_secs(1),
                sent: Moved { repair: 7, others: u64::MAX },
                received: Moved { repair: 0, others: 3 },
                latency: Some(Span::from_millis(2)),
                probed: vec![(NodeId(3), 9), (NodeId(u32::MAX), 0)],
                reached: vec![NodeId(3), NodeId(4)],
                unreached: vec![NodeId(u32::MAX)],
                has_uplink: true,
                has_downlink: false,
                limit: RepairLimit { up: Some(1), down: None },
                cap: Some(5),
                sent_to: vec![SentTo {
                    peer: NodeId(4),
                    bytes: u64::MAX,
                    waited: Span::from_millis(3),
                }],
            })),
        }),
        FromAgent::Heartbeat(Heartbeat::default()),
        FromAgent::Fingerprint { repair, copy: copy(), sums: [0, 255, 7].into() },
        FromAgent::Stored { repair, copy: copy() },
        FromAgent::Verified(Check { copy: copy(), digest: Digest::default(), excess: None }),
        FromAgent::Verified(Check {
            copy: copy(),
            digest: Digest { bytes: Some(0), crc: Some(0) },
            excess: Some(copy().at(NodeId(0))),
        }),
        FromAgent::Deleted(copy()),
        FromAgent::Bad { copy: copy(), fault: CopyFault::Missing },
    ];
    words.extend(failures().into_iter().map(|why| FromAgent::Failed { repair, why }));
    for word in words {
        let arrived = decode_from_agent(carry(encode_from_agent(word.clone())));
        assert_eq!(arrived, Ok(word));
    }
}

#[test]
fn whatever_the_coordinator_says_arrives_as_it_was_said() {
    let mut words = vec![
        ToAgent::Cancel(RepairId(0)),
        ToAgent::Forget(RepairId(u64::MAX)),
        ToAgent::Check(Check {
            copy: copy(),
            digest: digest(),
            excess: Some(copy().at(NodeId(3))),
        }),
        ToAgent::Delete { epoch: u32::MAX, session: u64::MAX, copy: copy() },
        ToAgent::List,
        ToAgent::Limit(RepairLimit { up: Some(u64::MAX), down: Some(1) }),
        ToAgent::Limit(RepairLimit::default()),
        ToAgent::Release { repair: RepairId(3), lane: u16::MAX, child: NodeId(2) },
        ToAgent::Hold { repair: RepairId(3), held: true },
    ];
    let layouts = [
        Layout::plain(1),
        Layout::plain(u64::MAX),
        Layout::cut(8192, 8),
        Layout::cut(12_288, 4).in_units(8192),
    ];
    words.extend(layouts.map(|layout| {
        let (repair, copy, bytes, seed) = (RepairId(7), copy(), layout.chunk_bytes(), u64::MAX);
        let crc = (bytes % 2 == 0).then_some(u32::MAX);
        ToAgent::Fingerprint(FingerprintRequest { repair, copy, bytes, crc, seed, layout })
    }));
    words.push(ToAgent::Publish(RepairId(u64::MAX)));
    words.extend((0..200).map(|seed| ToAgent::Dispatch(Arc::new(task(seed)))));
    for word in words {
        let message = proto::CoordinatorMessage { message: Some(encode_to_agent(word.clone())) };
        assert_eq!(decode_to_agent(carry(message).message.unwrap()), Ok(word));
    }
}

#[test]
fn whatever_is_a_plan_arrives_as_it_was_made() {
    for seed in 0..2000 {
        let plan = Plan { start: start(seed), ..task(seed).plan };
        assert_eq!(plan::decode_plan(carry(plan::encode_plan(&plan))), Ok(plan), "seed {seed}");
    }
}

fn start(seed: u64) -> Start {
    match seed % 4 {
        0 => Start::Now,
        1 => Start::After(vec![0, seed as usize]),
        2 => Start::Slot(seed as u32),
        _ => Start::Wave(u32::MAX - seed as u32),
    }
}

#[test]
fn a_plan_of_a_kind_that_does_not_exist_is_refused_by_field() {
    let plan = || plan::encode_plan(&task(1).plan);
    let mut mode = plan();
    mode.lanes[0].mode = 0;
    let mut carries = plan();
    carries.lanes[0].transfers[0].carries = 9;
    let mut chunk = plan();
    chunk.destinations[0].chunk = 256;
    for (plan, field) in
        [(mode, "Lane.mode"), (carries, "Transfer.carries"), (chunk, "Destination.chunk")]
    {
        assert_eq!(plan::decode_plan(plan).unwrap_err().field, field);
    }
}

#[test]
fn a_fingerprint_of_a_chunk_that_there_cannot_be_is_refused() {
    let request = |chunk_bytes, unit_bytes, sub_chunks, bytes| proto::FingerprintRequest {
        repair: 1,
        copy: Some(encode_copy(copy())),
        bytes,
        seed: 1,
        chunk_bytes,
        unit_bytes,
        sub_chunks,
        crc: None,
    };
    for (impossible, field) in [
        (request(100, 100, 0, 1), "FingerprintRequest.chunk_bytes"),
        (request(100, 0, 1, 1), "FingerprintRequest.chunk_bytes"),
        (request(100, 100, 3, 1), "FingerprintRequest.chunk_bytes"),
        (request(100, 7, 4, 1), "FingerprintRequest.chunk_bytes"),
        (request(1 << 40, 1 << 40, 1 << 30, 1), "FingerprintRequest.chunk_bytes"),
        (request(100, 100, 1, 101), "FingerprintRequest.bytes"),
    ] {
        let error = decode_to_agent(CoordinatorWord::Fingerprint(impossible)).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}

#[test]
fn a_task_that_is_too_long_or_none_is_refused_before_it_is_read() {
    let refused = |bytes: Vec<u8>| {
        let error = decode_to_agent(CoordinatorWord::Dispatch(bytes.into())).unwrap_err();
        assert_eq!(error.field, "CoordinatorMessage.dispatch");
        error.fault
    };
    assert!(refused(vec![0; TASK_BYTES_MAX + 1]).contains("at most"));
    refused(vec![0xff; 100]);
}

#[test]
fn what_is_missing_or_impossible_is_refused_by_name() {
    let stored = |copy| AgentWord::Stored(proto::Stored { repair: 1, copy });
    let bad = |fault| AgentWord::Bad(proto::Bad { copy: Some(encode_copy(copy())), fault });
    let far = proto::Copy { chunk: 256, ..encode_copy(copy()) };
    for (word, field) in [
        (None, "AgentMessage.message"),
        (Some(AgentWord::Join(proto::Join::default())), "AgentMessage.join"),
        (Some(stored(None)), "Copy"),
        (Some(stored(Some(far))), "Copy.chunk"),
        (Some(bad(0)), "fault"),
        (Some(bad(99)), "fault"),
        (Some(AgentWord::Failed(proto::Failed { repair: 1, why: None })), "Failed.why"),
    ] {
        let error = decode_from_agent(proto::AgentMessage { message: word }).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
    let mut short = encode_stripe(&stripe());
    short.chunks.pop();
    assert_eq!(decode_stripe(Some(short)).unwrap_err().field, "Stripe.chunks");
    let odd = proto::Stripe { code: "rs(0,0)".into(), ..encode_stripe(&stripe()) };
    assert_eq!(decode_stripe(Some(odd)).unwrap_err().field, "Stripe.code");
    let entry = ObjectStripe { stripe: stripe(), data_bytes: 6 * 4096, checksum: Some(7) };
    assert_eq!(decode_object_stripe(carry(encode_object_stripe(&entry))), Ok(entry.clone()));
    let over = ObjectStripe { data_bytes: 6 * 4096 + 1, ..entry };
    let error = decode_object_stripe(encode_object_stripe(&over)).unwrap_err();
    assert_eq!(error.field, "LookupStripe.data_bytes");
}

#[test]
fn a_processor_comes_as_it_was_said_and_none_that_cannot_be() {
    let processor = Processor::new(0.5, ProcessorCosts::from_all([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let processor = processor.unwrap();
    let encoded = encode_processor(&processor);
    let bytes = encoded.encode_to_vec();
    let decoded = proto::Processor::decode(&bytes[..]).unwrap();
    assert_eq!(decode_processor(decoded).unwrap(), processor);
    for broken in [
        proto::Processor { cores: 0.0, ..encoded },
        proto::Processor { cores: f64::NAN, ..encoded },
        proto::Processor { decoded: -1.0, ..encoded },
        proto::Processor { sent: f64::INFINITY, ..encoded },
    ] {
        assert_eq!(decode_processor(broken).unwrap_err().field, "Join.processor");
    }
}
