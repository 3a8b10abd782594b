//! What is reported of scrubbing to operators.
//!
//! Place: [failure detected] -> ...: damage that no read has met yet.

use suture_repair::event::ScrubStatus;
use suture_repair::id::{CopyAt, NodeId, StripeId};

use super::proto;
use crate::coordinator::scrub_watch::ScrubTimes;
use crate::metadata::{Metadata, MetadataError, PassRecord};

/// Adds what the metadata know: the times of passes, and to which objects stripes belong; and what
/// an operator should do about it.
pub(super) async fn complete(
    metadata: &Metadata,
    pass: PassRecord,
    reply: &mut proto::StatusReply,
) -> Result<(), MetadataError> {
    let Some(scrub) = &mut reply.scrub else { return Ok(()) };
    (scrub.begun, scrub.ended) = (pass.begun, pass.ended);
    let inconsistent = scrub.inconsistent.iter().map(|entry| StripeId(entry.stripe));
    let unread = scrub.unread.iter().map(|entry| StripeId(entry.stripe));
    let ids: Vec<StripeId> = inconsistent.chain(unread).collect();
    let names = metadata.query(move |store| store.names_of(&ids)).await?;
    let name = |stripe| names.get(&StripeId(stripe)).cloned().unwrap_or_default();
    for entry in &mut scrub.inconsistent {
        entry.object = name(entry.stripe);
    }
    for entry in &mut scrub.unread {
        entry.object = name(entry.stripe);
    }
    reply.warnings.extend(warnings(scrub));
    Ok(())
}

/// What the core reports of scrubbing, where nodes have only numbers.
pub(super) fn describe(
    status: &ScrubStatus,
    times: Option<ScrubTimes>,
    node_name: impl Fn(NodeId) -> String,
) -> proto::ScrubStatus {
    let inconsistent = status.inconsistent.iter();
    let inconsistent = inconsistent
        .map(|stripe| proto::InconsistentStripe { stripe: stripe.0, object: String::new() });
    let unread = status.unread_first.iter().map(|&CopyAt { node, copy }| proto::UnreadCopy {
        stripe: copy.stripe.0,
        chunk: copy.chunk.0.into(),
        node: node_name(node),
        object: String::new(),
    });
    let pass = status.pass;
    proto::ScrubStatus {
        passes: status.passes,
        running: pass.is_some(),
        stripes_done: pass.map_or(0, |pass| pass.stripes_done),
        stripes: pass.map_or(0, |pass| pass.stripes),
        bytes_done: pass.map_or(0, |pass| pass.bytes_done),
        put_off_stripes: pass.map_or(0, |pass| pass.put_off),
        next_seconds: status.next_in.map(|next_in| next_in.as_secs_f64()),
        found_copies: status.found,
        inconsistent: inconsistent.collect(),
        begun: None,
        ended: None,
        unread_copies: status.unread,
        unread: unread.collect(),
        period_seconds: times.map(|times| times.period.as_secs_f64()),
        least_seconds: times.and_then(|times| times.least).map(|least| least.as_secs_f64()),
        age_seconds: times.map(|times| times.age.as_secs_f64()),
        left_out_copies: status.left_out,
    }
}

fn warnings(scrub: &proto::ScrubStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(first) = scrub.inconsistent.first() {
        let object = &first.object;
        let stripes = match scrub.inconsistent.len() {
            1 => format!("a stripe of '{object}'"),
            count => format!("{count} stripes, the first of them of '{object}',"),
        };
        warnings.push(format!(
            "the chunks of {stripes} do not fit each other though each has its checksum: they \
             were written wrong, and no repair can mend that. Read what has them (suture get) and \
             put again what fails"
        ));
    }
    if let Some(first) = scrub.unread.first() {
        let proto::UnreadCopy { chunk, object, node, .. } = first;
        let copies = match scrub.unread_copies {
            1 => {
                format!("a chunk cannot be read: chunk {chunk} of a stripe of '{object}' on {node}")
            }
            count => format!(
                "{count} chunks cannot be read, the first of them chunk {chunk} of a stripe of \
                 '{object}' on {node}"
            ),
        };
        warnings.push(format!(
            "{copies}. The agent's log says why. It is tried again, and what cannot be read for \
             long is rebuilt elsewhere"
        ));
    }
    // That its rate is too low is reported by itself.
    let is_slow = scrub.least_seconds > scrub.period_seconds;
    if scrub.running && scrub.next_seconds == Some(0.0) && !is_slow {
        warnings.push(
            "scrubbing takes longer than its period: raise rate in [scrub] of the coordinator's \
             configuration, or period"
                .into(),
        );
    }
    warnings
}
