//! Writes down what every machine of the simulated cluster is given and gives.
//!
//! Place: beside the whole life of a repair; on only when a failure is shown.
//! One transcript for each machine, from its last start on. An input is written before the machine
//! gets it, so that one on which an assertion fails is the last of its transcript.

use std::collections::BTreeMap;

use suture_repair::agent;
use suture_repair::event;
use suture_repair::time::Time;
use suture_repair::transcript;
use suture_repair::transcript::line::Textual;

use crate::party::Party;

/// The transcripts so far.
#[derive(Clone, Debug, Default)]
pub struct Records {
    texts: BTreeMap<Party, String>,
    /// The machine that has an input and has not answered it.
    busy: Option<Party>,
}

impl Records {
    /// A machine starts: its transcript begins anew with this header.
    pub(crate) fn start(&mut self, party: Party, header: String) {
        self.texts.insert(party, header);
    }

    /// A machine is about to be given an input.
    pub(crate) fn input(&mut self, now: Time, party: Party, input: &impl Textual) {
        let text = self.texts.entry(party).or_default();
        *text += &transcript::input_line(now, input);
        self.busy = Some(party);
    }

    /// The coordinator gave this.
    pub(crate) fn coordinator_outputs(&mut self, outputs: &[event::Output]) {
        self.outputs(&transcript::coordinator::output_lines(outputs));
    }

    /// The agent gave this.
    pub(crate) fn agent_outputs(&mut self, outputs: &[agent::AgentOutput]) {
        self.outputs(&transcript::agent::output_lines(outputs));
    }

    fn outputs(&mut self, lines: &[String]) {
        let text = self.busy.take().and_then(|party| self.texts.get_mut(&party));
        text.into_iter().for_each(|text| *text += &transcript::indented(lines));
    }

    /// Every machine's transcript so far.
    pub fn all(&self) -> impl Iterator<Item = (Party, &str)> {
        self.texts.iter().map(|(party, text)| (*party, text.as_str()))
    }

    /// The machine that was given an input and did not survive it.
    pub fn busy(&self) -> Option<Party> {
        self.busy
    }
}
