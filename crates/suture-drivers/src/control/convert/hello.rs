//! How an agent introduces itself, as a message and back.
//!
//! Place: the first words of a session.

use suture_repair::message::Hello;
use suture_repair::planner::Abilities;
use suture_repair::processor::{Processor, ProcessorCosts};

use super::{Malformed, malformed};
use crate::control::proto;

/// What an agent reports of itself, as a message.
pub fn encode(hello: Hello) -> proto::Hello {
    let Hello { incarnation, session, abilities, pool_bytes, free_bytes } = hello;
    let Abilities { partial, combined, traces, finished, skips } = abilities;
    proto::Hello {
        incarnation,
        session,
        partial,
        combined,
        traces,
        finished,
        skips,
        pool_bytes,
        free_bytes,
    }
}

/// From a message: all of it may be.
pub fn decode(hello: proto::Hello) -> Hello {
    let proto::Hello { partial, combined, traces, finished, skips, .. } = hello;
    Hello {
        incarnation: hello.incarnation,
        session: hello.session,
        abilities: Abilities { partial, combined, traces, finished, skips },
        pool_bytes: hello.pool_bytes,
        free_bytes: hello.free_bytes,
    }
}

/// What a processor takes, as a message.
pub fn encode_processor(processor: &Processor) -> proto::Processor {
    let ProcessorCosts { sent, received, traced, decoded, read, written } = *processor.costs();
    let cores = processor.cores();
    proto::Processor { cores, sent, received, traced, decoded, read, written }
}

/// From a message.
///
/// # Errors
/// When there can be no such processor.
pub fn decode_processor(processor: proto::Processor) -> Result<Processor, Malformed> {
    let proto::Processor { cores, sent, received, traced, decoded, read, written } = processor;
    let costs = ProcessorCosts { sent, received, traced, decoded, read, written };
    Processor::new(cores, costs)
        .ok_or_else(|| malformed("Join.processor", format!("{processor:?} cannot be")))
}
