//! The core's types as messages, and back again with everything checked.
//!
//! Place: ... admit -> `[dispatch]` -> ... chunk durable -> [commit location] ...
//! Encoding cannot fail. Decoding trusts nothing: a field that is missing, an enum that is
//! unknown, a code that does not parse is a [`Malformed`] that names message and field. Sizes are
//! bounded before anything is allocated for them.

mod command;
mod disk;
mod hello;
mod links;
mod plan;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use suture_code::Code;
use suture_code::layout::Layout;
use suture_edge::error::brief;
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, EdgeRef, Generation, ListedCopy, NodeId, RepairId, Stamp,
    StripeId,
};
use suture_repair::label::{LABEL_BYTES_MAX, Label};
use suture_repair::message::{
    Check, CopyFault, Failure, FingerprintRequest, FromAgent, Heartbeat, Refusal, Task, ToAgent,
};
use suture_repair::stripe::{ChunkRecord, Stripe};

pub use command::intended_repairs;
pub use hello::{decode_processor, encode_processor};

use super::proto;
use super::proto::agent_message::Message as AgentWord;
use super::proto::coordinator_message::Message as CoordinatorWord;
use crate::address::AgentAddress;
use crate::coordinator::outbox::{Outgoing, PeerAddress};
use crate::metadata::{Mark, Object, ObjectStripe};

/// The longest encoded task. A plan of 255 chunks in hundreds of lanes has some 2 MB.
const TASK_BYTES_MAX: usize = 16 << 20;

/// What is said of a fault: an answer has it in its headers, which are short.
const FAULT_CHARS: usize = 512;

/// A message that has an impossible value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// As `Message.field` of `proto/suture.proto`.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: String,
}

fn missing(field: &'static str) -> Malformed {
    Malformed { field, fault: "missing".into() }
}

/// What is wrong may repeat what came, of any length.
fn malformed(field: &'static str, fault: impl fmt::Display) -> Malformed {
    Malformed { field, fault: brief(&fault.to_string(), FAULT_CHARS) }
}

/// What an agent sends, as a message.
pub fn encode_from_agent(message: FromAgent) -> proto::AgentMessage {
    let word = match message {
        FromAgent::Hello(hello) => AgentWord::Hello(hello::encode(hello)),
        FromAgent::Inventory(copies) => {
            let copies = copies.into_iter().map(encode_listed).collect();
            AgentWord::Inventory(proto::Inventory { copies, more: false })
        }
        FromAgent::NotListed => AgentWord::NotListed(proto::NotListed {}),
        FromAgent::Heartbeat(beat) => AgentWord::Heartbeat(encode_heartbeat(beat)),
        FromAgent::Stored { repair, copy } => {
            AgentWord::Stored(proto::Stored { repair: repair.0, copy: Some(encode_copy(copy)) })
        }
        FromAgent::Failed { repair, why } => {
            AgentWord::Failed(proto::Failed { repair: repair.0, why: Some(encode_failure(why)) })
        }
        FromAgent::Verified(check) => AgentWord::Verified(encode_check(check)),
        FromAgent::Fingerprint { repair, copy, sums } => {
            let (copy, sums) = (Some(encode_copy(copy)), sums.to_vec());
            AgentWord::Fingerprint(proto::Fingerprint { repair: repair.0, copy, sums })
        }
        FromAgent::Deleted(copy) => AgentWord::Deleted(encode_copy(copy)),
        FromAgent::Bad { copy, fault } => AgentWord::Bad(proto::Bad {
            copy: Some(encode_copy(copy)),
            fault: encode_fault(fault).into(),
        }),
    };
    proto::AgentMessage { message: Some(word) }
}

/// What an agent sends in a session that it has joined.
///
/// # Errors
/// Names the field that is missing or has an impossible value.
pub fn decode_from_agent(message: proto::AgentMessage) -> Result<FromAgent, Malformed> {
    Ok(match message.message.ok_or(missing("AgentMessage.message"))? {
        AgentWord::Join(_) => return Err(malformed("AgentMessage.join", "sent twice")),
        AgentWord::BackupKept(_) => {
            return Err(malformed("AgentMessage.backup_kept", "is not for the core"));
        }
        AgentWord::Hello(hello) => FromAgent::Hello(hello::decode(hello)),
        AgentWord::Inventory(inventory) => {
            let copies = inventory.copies.into_iter().map(decode_listed);
            FromAgent::Inventory(copies.collect::<Result<_, _>>()?)
        }
        AgentWord::NotListed(proto::NotListed {}) => FromAgent::NotListed,
        AgentWord::Heartbeat(beat) => FromAgent::Heartbeat(decode_heartbeat(beat)?),
        AgentWord::Stored(stored) => {
            FromAgent::Stored { repair: RepairId(stored.repair), copy: decode_copy(stored.copy)? }
        }
        AgentWord::Failed(failed) => FromAgent::Failed {
            repair: RepairId(failed.repair),
            why: decode_failure(failed.why.ok_or(missing("Failed.why"))?)?,
        },
        AgentWord::Verified(check) => FromAgent::Verified(decode_check(check)?),
        AgentWord::Fingerprint(proto::Fingerprint { repair, copy, sums }) => {
            let (repair, copy, sums) = (RepairId(repair), decode_copy(copy)?, sums[..].into());
            FromAgent::Fingerprint { repair, copy, sums }
        }
        AgentWord::Deleted(copy) => FromAgent::Deleted(decode_copy(Some(copy))?),
        AgentWord::Bad(bad) => {
            FromAgent::Bad { copy: decode_copy(bad.copy)?, fault: decode_fault(bad.fault)? }
        }
    })
}

/// What goes to an agent, as a message.
pub fn encode_outgoing(outgoing: Outgoing) -> proto::CoordinatorMessage {
    let word = match outgoing {
        Outgoing::Message(message) => encode_to_agent(message),
        Outgoing::Dispatch(dispatch) => CoordinatorWord::Dispatch(dispatch.encoded(encode_task)),
        Outgoing::Peers(peers) => {
            let peers = peers.iter().map(encode_peer).collect();
            CoordinatorWord::Peers(proto::Peers { peers })
        }
        Outgoing::KeepBackup => CoordinatorWord::KeepBackup(proto::Done {}),
        Outgoing::Committed(puts) => CoordinatorWord::Committed(puts),
        Outgoing::Marked(Mark { number, at }) => CoordinatorWord::Mark(proto::Mark { number, at }),
    };
    proto::CoordinatorMessage { message: Some(word) }
}

/// What the coordinator core sends, as a message.
pub fn encode_to_agent(message: ToAgent) -> CoordinatorWord {
    match message {
        ToAgent::Dispatch(task) => CoordinatorWord::Dispatch(encode_task(&task)),
        ToAgent::Cancel(repair) => CoordinatorWord::Cancel(repair.0),
        ToAgent::Release { repair, lane, child } => CoordinatorWord::Release(proto::Edge {
            repair: repair.0,
            lane: u32::from(lane),
            child: child.0,
        }),
        ToAgent::Hold { repair, held } => {
            CoordinatorWord::Hold(proto::Hold { repair: repair.0, held })
        }
        ToAgent::Forget(repair) => CoordinatorWord::Forget(repair.0),
        ToAgent::Check(check) => CoordinatorWord::Check(encode_check(check)),
        ToAgent::Fingerprint(request) => CoordinatorWord::Fingerprint(encode_request(request)),
        ToAgent::Publish(repair) => CoordinatorWord::Publish(repair.0),
        ToAgent::Delete { epoch, session, copy } => {
            CoordinatorWord::Delete(proto::Delete { epoch, session, copy: Some(encode_copy(copy)) })
        }
        ToAgent::List => CoordinatorWord::List(proto::Done {}),
        ToAgent::Limit(limit) => CoordinatorWord::Limit(links::encode_limit(limit)),
    }
}

/// What the coordinator sends to an agent that it has welcomed.
///
/// # Errors
/// Names the field that is missing or has an impossible value.
pub fn decode_to_agent(word: CoordinatorWord) -> Result<ToAgent, Malformed> {
    Ok(match word {
        CoordinatorWord::Welcome(_) => {
            return Err(malformed("CoordinatorMessage.welcome", "sent twice"));
        }
        // The session takes these itself.
        CoordinatorWord::Peers(_)
        | CoordinatorWord::KeepBackup(_)
        | CoordinatorWord::Committed(_)
        | CoordinatorWord::Mark(_) => {
            return Err(malformed("CoordinatorMessage", "none for the agent's machine"));
        }
        CoordinatorWord::Dispatch(task) => ToAgent::Dispatch(Arc::new(decode_task(task)?)),
        CoordinatorWord::Cancel(repair) => ToAgent::Cancel(RepairId(repair)),
        CoordinatorWord::Release(edge) => {
            let EdgeRef { repair, lane, peer: child } = decode_edge(edge)?;
            ToAgent::Release { repair, lane, child }
        }
        CoordinatorWord::Hold(hold) => {
            ToAgent::Hold { repair: RepairId(hold.repair), held: hold.held }
        }
        CoordinatorWord::Forget(repair) => ToAgent::Forget(RepairId(repair)),
        CoordinatorWord::Check(check) => ToAgent::Check(decode_check(check)?),
        CoordinatorWord::Fingerprint(request) => ToAgent::Fingerprint(decode_request(request)?),
        CoordinatorWord::Publish(repair) => ToAgent::Publish(RepairId(repair)),
        CoordinatorWord::Delete(delete) => {
            let proto::Delete { epoch, session, copy } = delete;
            ToAgent::Delete { epoch, session, copy: decode_copy(copy)? }
        }
        CoordinatorWord::List(proto::Done {}) => ToAgent::List,
        CoordinatorWord::Limit(limit) => ToAgent::Limit(links::decode_limit(limit)?),
    })
}

/// A stripe, as a message.
pub fn encode_stripe(stripe: &Stripe) -> proto::Stripe {
    proto::Stripe {
        id: stripe.id.0,
        code: stripe.code.to_string(),
        chunk_bytes: stripe.chunk_bytes,
        generation: stripe.generation.0,
        chunks: stripe.chunks.iter().map(|chunk| encode_chunk(chunk, stripe.chunk_bytes)).collect(),
        unit_bytes: (stripe.unit_bytes != stripe.chunk_bytes).then_some(stripe.unit_bytes),
    }
}

/// A stripe that there can be.
///
/// # Errors
/// Names the field: no stripe, an unknown code, or chunks that [`Stripe::check`] refuses.
pub fn decode_stripe(stripe: Option<proto::Stripe>) -> Result<Stripe, Malformed> {
    let stripe = stripe.ok_or(missing("Stripe"))?;
    let code: Code = decode_code("Stripe.code", &stripe.code)?;
    let chunk_bytes = stripe.chunk_bytes;
    let decode = |chunk| decode_chunk(chunk, chunk_bytes);
    let stripe = Stripe {
        id: StripeId(stripe.id),
        code,
        chunk_bytes,
        unit_bytes: stripe.unit_bytes.unwrap_or(chunk_bytes),
        generation: Generation(stripe.generation),
        chunks: stripe.chunks.into_iter().map(decode).collect(),
    };
    stripe.check().map_err(|fault| malformed("Stripe.chunks", fault))?;
    Ok(stripe)
}

/// One chunk's record, as a message; of a stripe whose longest chunk has `chunk_bytes`.
pub fn encode_chunk(chunk: &ChunkRecord, chunk_bytes: u64) -> proto::Chunk {
    proto::Chunk {
        node: chunk.node.map(|n| n.0),
        stamp: chunk.stamp.0,
        crc: chunk.crc.unwrap_or(0),
        bytes: (chunk.bytes != chunk_bytes).then_some(chunk.bytes),
        without_crc: chunk.crc.is_none(),
    }
}

/// One chunk's record, of a stripe whose longest chunk has `chunk_bytes`; every value is possible.
pub fn decode_chunk(chunk: proto::Chunk, chunk_bytes: u64) -> ChunkRecord {
    ChunkRecord {
        node: chunk.node.map(NodeId),
        stamp: Stamp(chunk.stamp),
        bytes: chunk.bytes.unwrap_or(chunk_bytes),
        crc: (!chunk.without_crc).then_some(chunk.crc),
    }
}

/// A copy, as a message.
pub fn encode_copy(copy: ChunkCopy) -> proto::Copy {
    let ChunkCopy { stripe, chunk, stamp } = copy;
    proto::Copy { stripe: stripe.0, chunk: chunk.0.into(), stamp: stamp.0 }
}

/// A copy whose chunk index is one.
///
/// # Errors
/// When there is none, or its chunk is above 255.
pub fn decode_copy(copy: Option<proto::Copy>) -> Result<ChunkCopy, Malformed> {
    let copy = copy.ok_or(missing("Copy"))?;
    let chunk = u8::try_from(copy.chunk);
    let chunk =
        chunk.map_err(|_| malformed("Copy.chunk", format!("{} is above 255", copy.chunk)))?;
    let (stripe, stamp) = (StripeId(copy.stripe), Stamp(copy.stamp));
    Ok(ChunkCopy { stripe, chunk: ChunkIndex(chunk), stamp })
}

/// A copy that is listed, as a message.
fn encode_listed(ListedCopy { copy, digest }: ListedCopy) -> proto::ListedCopy {
    let proto::Copy { stripe, chunk, stamp } = encode_copy(copy);
    proto::ListedCopy { stripe, chunk, stamp, bytes: digest.bytes, crc: digest.crc }
}

fn decode_listed(listed: proto::ListedCopy) -> Result<ListedCopy, Malformed> {
    let proto::ListedCopy { stripe, chunk, stamp, bytes, crc } = listed;
    let copy = decode_copy(Some(proto::Copy { stripe, chunk, stamp }))?;
    Ok(ListedCopy { copy, digest: Digest { bytes, crc } })
}

/// An object, as a message.
pub fn encode_object(object: &Object) -> proto::Object {
    proto::Object {
        name: object.name.clone(),
        bytes: object.bytes,
        code: object.code.to_string(),
        chunk_bytes: object.chunk_bytes,
        checksum: object.checksum,
        created: object.created,
    }
}

/// An object whose code is one.
///
/// # Errors
/// When there is none, or its code is unknown.
pub fn decode_object(object: Option<proto::Object>) -> Result<Object, Malformed> {
    let object = object.ok_or(missing("Object"))?;
    Ok(Object {
        bytes: object.bytes,
        code: decode_code("Object.code", &object.code)?,
        chunk_bytes: object.chunk_bytes,
        checksum: object.checksum,
        created: object.created,
        name: object.name,
    })
}

/// One stripe of an object, as a message.
pub fn encode_object_stripe(entry: &ObjectStripe) -> proto::LookupStripe {
    let stripe = Some(encode_stripe(&entry.stripe));
    proto::LookupStripe { stripe, data_bytes: entry.data_bytes, checksum: entry.checksum }
}

/// One stripe of an object, with no more data than it can hold.
///
/// # Errors
/// As [`decode_stripe`], and when it claims more data than it can hold.
pub fn decode_object_stripe(entry: proto::LookupStripe) -> Result<ObjectStripe, Malformed> {
    let (stripe, data_bytes) = (decode_stripe(entry.stripe)?, entry.data_bytes);
    let capacity = u128::from(stripe.chunk_bytes) * stripe.code.data_chunks() as u128;
    if u128::from(data_bytes) > capacity {
        let fault = format!("{data_bytes}, the stripe holds {capacity}");
        return Err(malformed("LookupStripe.data_bytes", fault));
    }
    Ok(ObjectStripe { stripe, data_bytes, checksum: entry.checksum })
}

/// A code by its name.
///
/// # Errors
/// When there is no such code; names `field`.
pub fn decode_code(field: &'static str, name: &str) -> Result<Code, Malformed> {
    name.parse().map_err(|error| malformed(field, error))
}

/// A node and where its agent listens, as a message.
pub fn encode_peer(peer: &PeerAddress) -> proto::Peer {
    let address = peer.address.clone().unwrap_or_default();
    proto::Peer { node: peer.node.0, name: peer.name.clone(), address }
}

/// A node and the address of its agent; none when it is out of reach.
///
/// # Errors
/// When the address is none.
pub fn decode_peer(peer: &proto::Peer) -> Result<(NodeId, Option<AgentAddress>), Malformed> {
    let wrong = |error| malformed("Peer.address", format!("'{}': {error}", peer.address));
    let address = (!peer.address.is_empty()).then(|| {
        let addr = peer.address.parse().map_err(wrong)?;
        Ok(AgentAddress { name: peer.name.as_str().into(), node: Some(NodeId(peer.node)), addr })
    });
    Ok((NodeId(peer.node), address.transpose()?))
}

fn encode_heartbeat(beat: Heartbeat) -> proto::Heartbeat {
    let progress =
        |(repair, bytes_done): (RepairId, u64)| proto::Progress { repair: repair.0, bytes_done };
    let edge = |edge: EdgeRef| proto::Edge {
        repair: edge.repair.0,
        lane: u32::from(edge.lane),
        child: edge.peer.0,
    };
    proto::Heartbeat {
        incarnation: beat.incarnation,
        free_bytes: beat.free_bytes,
        running: beat.running.into_iter().map(progress).collect(),
        arrived: beat.arrived.into_iter().map(edge).collect(),
        written: beat.written.into_iter().map(|repair| repair.0).collect(),
        waits: beat.waits.into_iter().map(edge).collect(),
        links: beat.links.map(|report| links::encode_report(*report)),
        disk: disk::encode(beat.disk).into(),
    }
}

fn decode_heartbeat(beat: proto::Heartbeat) -> Result<Heartbeat, Malformed> {
    let running = beat.running.into_iter().map(|p| (RepairId(p.repair), p.bytes_done));
    Ok(Heartbeat {
        incarnation: beat.incarnation,
        free_bytes: beat.free_bytes,
        running: running.collect(),
        arrived: beat.arrived.into_iter().map(decode_edge).collect::<Result<_, _>>()?,
        written: beat.written.into_iter().map(RepairId).collect(),
        waits: beat.waits.into_iter().map(decode_edge).collect::<Result<_, _>>()?,
        links: beat.links.map(links::decode_report).transpose()?.map(Box::new),
        disk: disk::decode(beat.disk),
    })
}

fn decode_edge(edge: proto::Edge) -> Result<EdgeRef, Malformed> {
    let lane = u16::try_from(edge.lane).map_err(|e| malformed("Edge.lane", e))?;
    Ok(EdgeRef { repair: RepairId(edge.repair), lane, peer: NodeId(edge.child) })
}

fn encode_failure(failure: Failure) -> proto::failed::Why {
    use proto::failed::Why;
    match failure {
        Failure::Source { copy, fault } => Why::Source(proto::BadSource {
            copy: Some(encode_copy(copy)),
            fault: encode_fault(fault).into(),
        }),
        Failure::PeerLost(node) => Why::PeerLost(node.0),
        Failure::NoSpace => Why::NoSpace(proto::Done {}),
        Failure::NoBuffers { needed, free } => Why::NoBuffers(proto::NoBuffers { needed, free }),
        Failure::ProofFailed { expected, found } => {
            Why::ProofFailed(proto::ProofFailed { expected, found })
        }
        Failure::Inconsistent => Why::Inconsistent(proto::Done {}),
        Failure::PastEnd { offset } => Why::PastEnd(offset),
        Failure::Stalled => Why::Stalled(proto::Done {}),
        Failure::Refused(refusal) => Why::Refused(encode_refusal(refusal).into()),
        Failure::Disk(detail) => Why::Disk(detail),
    }
}

fn decode_failure(why: proto::failed::Why) -> Result<Failure, Malformed> {
    use proto::failed::Why;
    Ok(match why {
        Why::Source(source) => {
            Failure::Source { copy: decode_copy(source.copy)?, fault: decode_fault(source.fault)? }
        }
        Why::PeerLost(node) => Failure::PeerLost(NodeId(node)),
        Why::NoSpace(proto::Done {}) => Failure::NoSpace,
        Why::NoBuffers(proto::NoBuffers { needed, free }) => Failure::NoBuffers { needed, free },
        Why::ProofFailed(proto::ProofFailed { expected, found }) => {
            Failure::ProofFailed { expected, found }
        }
        Why::Inconsistent(proto::Done {}) => Failure::Inconsistent,
        Why::PastEnd(offset) => Failure::PastEnd { offset },
        Why::Stalled(proto::Done {}) => Failure::Stalled,
        Why::Refused(refusal) => Failure::Refused(decode_refusal(refusal)?),
        Why::Disk(detail) => Failure::Disk(detail),
    })
}

fn encode_refusal(refusal: Refusal) -> proto::Refusal {
    match refusal {
        Refusal::Ability => proto::Refusal::Ability,
        Refusal::InvalidPlan => proto::Refusal::InvalidPlan,
        Refusal::NotAParticipant => proto::Refusal::NotAParticipant,
        Refusal::StaleEpoch => proto::Refusal::StaleEpoch,
        Refusal::CannotContinue => proto::Refusal::CannotContinue,
    }
}

fn decode_refusal(refusal: i32) -> Result<Refusal, Malformed> {
    match proto::Refusal::try_from(refusal) {
        Ok(proto::Refusal::Ability) => Ok(Refusal::Ability),
        Ok(proto::Refusal::InvalidPlan) => Ok(Refusal::InvalidPlan),
        Ok(proto::Refusal::NotAParticipant) => Ok(Refusal::NotAParticipant),
        Ok(proto::Refusal::StaleEpoch) => Ok(Refusal::StaleEpoch),
        Ok(proto::Refusal::CannotContinue) => Ok(Refusal::CannotContinue),
        Ok(proto::Refusal::Unspecified) | Err(_) => {
            Err(malformed("Failed.refused", format!("unknown value {refusal}")))
        }
    }
}

fn encode_fault(fault: CopyFault) -> proto::Fault {
    match fault {
        CopyFault::Missing => proto::Fault::Missing,
        CopyFault::Corrupt => proto::Fault::Corrupt,
        CopyFault::Unreadable => proto::Fault::Unreadable,
    }
}

fn decode_fault(fault: i32) -> Result<CopyFault, Malformed> {
    match proto::Fault::try_from(fault) {
        Ok(proto::Fault::Missing) => Ok(CopyFault::Missing),
        Ok(proto::Fault::Corrupt) => Ok(CopyFault::Corrupt),
        Ok(proto::Fault::Unreadable) => Ok(CopyFault::Unreadable),
        Ok(proto::Fault::Unspecified) | Err(_) => {
            Err(malformed("fault", format!("unknown value {fault}")))
        }
    }
}

fn encode_check(check: Check) -> proto::Check {
    proto::Check {
        copy: Some(encode_copy(check.copy)),
        bytes: check.digest.bytes,
        crc: check.digest.crc,
        excess_node: check.excess.map(|at| at.node.0),
        excess: check.excess.map(|at| encode_copy(at.copy)),
    }
}

fn decode_check(check: proto::Check) -> Result<Check, Malformed> {
    let excess = match (check.excess_node, check.excess) {
        (None, None) => None,
        (Some(node), copy) => Some(decode_copy(copy)?.at(NodeId(node))),
        (None, Some(_)) => return Err(missing("Check.excess_node")),
    };
    let digest = Digest { bytes: check.bytes, crc: check.crc };
    Ok(Check { copy: decode_copy(check.copy)?, digest, excess })
}

fn encode_request(request: FingerprintRequest) -> proto::FingerprintRequest {
    let FingerprintRequest { repair, copy, bytes, crc, seed, layout } = request;
    proto::FingerprintRequest {
        repair: repair.0,
        copy: Some(encode_copy(copy)),
        bytes,
        seed,
        chunk_bytes: layout.chunk_bytes(),
        unit_bytes: layout.unit_bytes(),
        sub_chunks: layout.sub_chunk_count(),
        crc,
    }
}

fn decode_request(request: proto::FingerprintRequest) -> Result<FingerprintRequest, Malformed> {
    let proto::FingerprintRequest { repair, copy, bytes, crc, seed, .. } = request;
    let layout = Layout::checked(request.chunk_bytes, request.unit_bytes, request.sub_chunks);
    let layout = layout.map_err(|e| malformed("FingerprintRequest.chunk_bytes", e))?;
    if bytes > layout.chunk_bytes() {
        let fault = format!("{bytes} of {}", layout.chunk_bytes());
        return Err(malformed("FingerprintRequest.bytes", fault));
    }
    Ok(FingerprintRequest {
        repair: RepairId(repair),
        copy: decode_copy(copy)?,
        bytes,
        crc,
        seed,
        layout,
    })
}

fn encode_task(task: &Task) -> Bytes {
    let message = proto::Task {
        repair: task.repair.0,
        stripe: Some(encode_stripe(&task.stripe)),
        plan: Some(plan::encode_plan(&task.plan)),
        slice_bytes: task.slice_bytes,
        window: task.window,
        gated: task.gated,
        continues: task.continues.map(|repair| repair.0),
        skips: task.skips,
        label: task.label.bytes().to_vec(),
    };
    message.encode_to_vec().into()
}

fn decode_task(task: Bytes) -> Result<Task, Malformed> {
    if task.len() > TASK_BYTES_MAX {
        let fault = format!("{} bytes, at most {TASK_BYTES_MAX}", task.len());
        return Err(malformed("CoordinatorMessage.dispatch", fault));
    }
    let task = proto::Task::decode(task);
    let task = task.map_err(|error| malformed("CoordinatorMessage.dispatch", error))?;
    let bytes = task.label.len();
    let label = Label::new(&task.label).ok_or_else(|| {
        malformed("Task.label", format!("{bytes} bytes, at most {LABEL_BYTES_MAX}"))
    })?;
    Ok(Task {
        repair: RepairId(task.repair),
        stripe: decode_stripe(task.stripe)?,
        plan: plan::decode_plan(task.plan.ok_or(missing("Task.plan"))?)?,
        slice_bytes: task.slice_bytes,
        window: task.window,
        gated: task.gated,
        continues: task.continues.map(RepairId),
        skips: task.skips,
        label,
    })
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}: {}", self.field, self.fault)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> tonic::Status {
        tonic::Status::invalid_argument(malformed.to_string())
    }
}

#[cfg(test)]
mod tests;
