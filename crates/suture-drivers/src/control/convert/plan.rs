//! Plans as messages, by the numbers of their nodes, and back again with everything checked.
//!
//! Place: ... plan -> admit -> [dispatch] -> slices flow -> ...
//! Whether a plan can be executed is checked by the agent that executes it (`plan/validate.rs`);
//! here only its fields are checked.

use std::collections::BTreeMap;

use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, SchemeId, Start};

use super::{Malformed, malformed};
use crate::control::proto;

/// A plan, as a message.
pub fn encode_plan(plan: &Plan) -> proto::Plan {
    let destination = |(chunk, node): (&ChunkIndex, &NodeId)| proto::Destination {
        chunk: chunk.0.into(),
        node: node.0,
    };
    proto::Plan {
        stripe: plan.stripe.0,
        lost: encode_chunks(&plan.lost),
        destinations: plan.destinations.iter().map(destination).collect(),
        start: encode_start(&plan.start),
        from: plan.range.from,
        to: plan.range.to,
        period: plan.period,
        lanes: plan.lanes.iter().map(encode_lane).collect(),
    }
}

/// A plan whose parts are all of a kind that exists.
///
/// # Errors
/// Names the field that has an impossible value.
pub fn decode_plan(plan: proto::Plan) -> Result<Plan, Malformed> {
    let destinations = plan.destinations.iter().map(decode_destination);
    Ok(Plan {
        stripe: StripeId(plan.stripe),
        lost: decode_chunks(&plan.lost),
        destinations: destinations.collect::<Result<BTreeMap<_, _>, _>>()?,
        start: decode_start(plan.start)?,
        range: Range { from: plan.from, to: plan.to },
        period: plan.period,
        lanes: plan.lanes.into_iter().map(decode_lane).collect::<Result<_, _>>()?,
    })
}

fn decode_destination(entry: &proto::Destination) -> Result<(ChunkIndex, NodeId), Malformed> {
    let chunk = u8::try_from(entry.chunk);
    let chunk = chunk
        .map_err(|_| malformed("Destination.chunk", format!("{} is above 255", entry.chunk)))?;
    Ok((ChunkIndex(chunk), NodeId(entry.node)))
}

fn encode_start(start: &Start) -> Option<proto::plan::Start> {
    use proto::plan::Start as Word;
    match start {
        Start::Now => None,
        Start::After(plans) => {
            let plans = plans.iter().map(|&plan| plan as u64).collect();
            Some(Word::After(proto::Plans { plans }))
        }
        Start::Slot(slot) => Some(Word::Slot(*slot)),
        Start::Wave(wave) => Some(Word::Wave(*wave)),
    }
}

fn decode_start(start: Option<proto::plan::Start>) -> Result<Start, Malformed> {
    use proto::plan::Start as Word;
    Ok(match start {
        None => Start::Now,
        Some(Word::After(proto::Plans { plans })) => {
            let place = |plan: u64| usize::try_from(plan).map_err(|e| malformed("Plan.after", e));
            Start::After(plans.into_iter().map(place).collect::<Result<_, _>>()?)
        }
        Some(Word::Slot(slot)) => Start::Slot(slot),
        Some(Word::Wave(wave)) => Start::Wave(wave),
    })
}

fn encode_lane(lane: &Lane) -> proto::Lane {
    let transfer = |edge: &Edge| proto::Transfer {
        child: edge.child.0,
        parent: edge.parent.0,
        bytes: edge.bytes,
        carries: encode_carries(edge.carries).into(),
    };
    proto::Lane {
        from: lane.range.from,
        to: lane.range.to,
        lost: encode_chunks(&lane.lost),
        mode: encode_mode(lane.mode).into(),
        decoder: lane.decoder.map(|node| node.0),
        scheme: lane.scheme.map(|scheme| scheme.0),
        transfers: lane.edges.iter().map(transfer).collect(),
    }
}

fn decode_lane(lane: proto::Lane) -> Result<Lane, Malformed> {
    Ok(Lane {
        range: Range { from: lane.from, to: lane.to },
        lost: decode_chunks(&lane.lost),
        mode: decode_mode(lane.mode)?,
        decoder: lane.decoder.map(NodeId),
        scheme: lane.scheme.map(SchemeId),
        edges: lane.transfers.into_iter().map(decode_transfer).collect::<Result<_, _>>()?,
    })
}

fn decode_transfer(transfer: proto::Transfer) -> Result<Edge, Malformed> {
    Ok(Edge {
        child: NodeId(transfer.child),
        parent: NodeId(transfer.parent),
        bytes: transfer.bytes,
        carries: decode_carries(transfer.carries)?,
    })
}

fn encode_chunks(chunks: &[ChunkIndex]) -> Vec<u8> {
    chunks.iter().map(|chunk| chunk.0).collect()
}

fn decode_chunks(chunks: &[u8]) -> Vec<ChunkIndex> {
    chunks.iter().copied().map(ChunkIndex).collect()
}

fn encode_mode(mode: Mode) -> proto::Mode {
    match mode {
        Mode::Streamed => proto::Mode::Streamed,
        Mode::Stored => proto::Mode::Stored,
    }
}

fn decode_mode(mode: i32) -> Result<Mode, Malformed> {
    match proto::Mode::try_from(mode) {
        Ok(proto::Mode::Streamed) => Ok(Mode::Streamed),
        Ok(proto::Mode::Stored) => Ok(Mode::Stored),
        Ok(proto::Mode::Unspecified) | Err(_) => {
            Err(malformed("Lane.mode", format!("unknown value {mode}")))
        }
    }
}

fn encode_carries(carries: Carries) -> proto::Carries {
    match carries {
        Carries::Partial => proto::Carries::Partial,
        Carries::Combined => proto::Carries::Combined,
        Carries::Traces => proto::Carries::Traces,
        Carries::Finished => proto::Carries::Finished,
    }
}

fn decode_carries(carries: i32) -> Result<Carries, Malformed> {
    match proto::Carries::try_from(carries) {
        Ok(proto::Carries::Partial) => Ok(Carries::Partial),
        Ok(proto::Carries::Combined) => Ok(Carries::Combined),
        Ok(proto::Carries::Traces) => Ok(Carries::Traces),
        Ok(proto::Carries::Finished) => Ok(Carries::Finished),
        Ok(proto::Carries::Unspecified) | Err(_) => {
            Err(malformed("Transfer.carries", format!("unknown value {carries}")))
        }
    }
}
