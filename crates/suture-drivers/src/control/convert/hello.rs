//! How an agent introduces itself, as a message and back.
//!
//! Place: the first words of a session.

use suture_repair::message::Hello;
use suture_repair::planner::Abilities;

use crate::control::proto;

/// What is said of an agent, as a message.
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
