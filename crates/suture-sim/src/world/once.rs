//! What agents do about copies, as an onlooker sees it: nothing is begun that is being done.
//!
//! Place: beside [failure detected] -> ... -> stripe healthy, old copies deleted. A listing, or a
//! read or delete of a copy, is under way from when an agent asks its driver for it until the
//! driver's answer arrives; here that answer waits among the events to come.

use std::cmp::Reverse;

use suture_repair::agent::{AgentInput, AgentOutput};
use suture_repair::id::NodeId;

use super::{Event, World};
use crate::violation::Violation;

/// Whether the input answers the output, of those that are about copies.
fn answers(input: &AgentInput, output: &AgentOutput) -> bool {
    match (output, input) {
        (AgentOutput::List, AgentInput::Listed { .. } | AgentInput::NotListed) => true,
        (AgentOutput::Check(check), AgentInput::Checked { check: read, .. }) => check == read,
        (AgentOutput::Delete(copy), AgentInput::Deleted(gone)) => copy == gone,
        (
            AgentOutput::Fingerprint { request, .. },
            AgentInput::Fingerprinted { request: taken, .. },
        ) => (request.repair, request.copy) == (taken.repair, taken.copy),
        _ => false,
    }
}

impl World {
    /// An agent begins something: it is not under way already.
    pub(crate) fn check_once(&mut self, node: NodeId, output: &AgentOutput) {
        let is_of_copies = matches!(
            output,
            AgentOutput::List
                | AgentOutput::Check(_)
                | AgentOutput::Delete(_)
                | AgentOutput::Fingerprint { .. }
        );
        if !is_of_copies {
            return;
        }
        let started = self.host(node).incarnation;
        let is_running = self.heap.iter().any(|Reverse(timed)| match &timed.event {
            Event::Done { node: of, incarnation, input, .. } => {
                (*of, *incarnation) == (node, started) && answers(input, output)
            }
            _ => false,
        });
        if is_running {
            self.fail(Violation::BegunTwice(node));
        }
    }
}
