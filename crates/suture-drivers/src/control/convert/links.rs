//! What links carry and what repair may have of them, as messages.
//!
//! Place: beside [slices flow]: in heartbeats, and in orders to agents.

use suture_repair::id::NodeId;
use suture_repair::message::{LinkReport, Moved, PROBED_MAX, RepairLimit, SENT_TO_MAX, SentTo};
use suture_repair::time::Span;

use super::{Malformed, malformed};
use crate::control::proto;

pub(super) fn encode_limit(limit: RepairLimit) -> proto::RepairLimit {
    proto::RepairLimit { up: limit.up, down: limit.down }
}

pub(super) fn decode_limit(limit: proto::RepairLimit) -> Result<RepairLimit, Malformed> {
    let proto::RepairLimit { up, down } = limit;
    if up == Some(0) || down == Some(0) {
        return Err(malformed("RepairLimit", "a limit of nothing"));
    }
    Ok(RepairLimit { up, down })
}

pub(super) fn encode_report(report: LinkReport) -> proto::LinkReport {
    let probed = report.probed.into_iter();
    proto::LinkReport {
        span_ns: report.span.ns,
        sent_repair: report.sent.repair,
        sent_others: report.sent.others,
        received_repair: report.received.repair,
        received_others: report.received.others,
        latency_ns: report.latency.map(|latency| latency.ns),
        probed: probed.map(|(node, rate)| proto::ProbedRate { node: node.0, rate }).collect(),
        has_uplink: report.has_uplink,
        has_downlink: report.has_downlink,
        limit: Some(encode_limit(report.limit)),
        reached: report.reached.into_iter().map(|node| node.0).collect(),
        unreached: report.unreached.into_iter().map(|node| node.0).collect(),
        cap: report.cap,
        sent_to: report.sent_to.into_iter().map(encode_sent).collect(),
    }
}

fn encode_sent(SentTo { peer, bytes, waited }: SentTo) -> proto::SentTo {
    proto::SentTo { node: peer.0, bytes, waited_ns: waited.ns }
}

fn decode_sent(sent: proto::SentTo) -> SentTo {
    let proto::SentTo { node, bytes, waited_ns } = sent;
    SentTo { peer: NodeId(node), bytes, waited: Span { ns: waited_ns } }
}

pub(super) fn decode_report(report: proto::LinkReport) -> Result<LinkReport, Malformed> {
    if report.probed.len() > PROBED_MAX {
        return Err(malformed("LinkReport.probed", format!("more than {PROBED_MAX}")));
    }
    if report.reached.len().max(report.unreached.len()) > PROBED_MAX {
        return Err(malformed("LinkReport.reached", format!("more than {PROBED_MAX}")));
    }
    if report.sent_to.len() > SENT_TO_MAX {
        return Err(malformed("LinkReport.sent_to", format!("more than {SENT_TO_MAX}")));
    }
    if report.cap == Some(0) {
        return Err(malformed("LinkReport.cap", "a cap of nothing"));
    }
    let probed = report.probed.into_iter();
    Ok(LinkReport {
        span: Span { ns: report.span_ns },
        sent: Moved { repair: report.sent_repair, others: report.sent_others },
        received: Moved { repair: report.received_repair, others: report.received_others },
        latency: report.latency_ns.map(|ns| Span { ns }),
        probed: probed.map(|probed| (NodeId(probed.node), probed.rate)).collect(),
        reached: report.reached.into_iter().map(NodeId).collect(),
        unreached: report.unreached.into_iter().map(NodeId).collect(),
        has_uplink: report.has_uplink,
        has_downlink: report.has_downlink,
        limit: decode_limit(report.limit.unwrap_or_default())?,
        cap: report.cap,
        sent_to: report.sent_to.into_iter().map(decode_sent).collect(),
    })
}
