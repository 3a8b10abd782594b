//! What links carry and what repair may take of them, as words.
//!
//! Place: beside [slices flow]: what agents report of their links, and what is sent to them.

use crate::id::NodeId;
use crate::message::{LinkReport, Moved, RepairLimit, SentTo};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};

impl Textual for RepairLimit {
    fn write(&self, line: &mut LineWriter) {
        if *self == RepairLimit::default() {
            line.word("none");
        }
        line.option("up", self.up.as_ref()).option("down", self.down.as_ref());
    }

    fn read(line: &mut LineReader<'_>) -> Result<RepairLimit, TextError> {
        line.take("none");
        Ok(RepairLimit { up: line.option("up")?, down: line.option("down")? })
    }
}

impl Textual for Moved {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.repair).field("others", &self.others);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Moved, TextError> {
        Ok(Moved { repair: line.value()?, others: line.field("others")? })
    }
}

/// A peer and how fast it has sent.
struct Probed(NodeId, u64);

impl Textual for Probed {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.0).value(&self.1);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Probed, TextError> {
        Ok(Probed(line.value()?, line.value()?))
    }
}

impl Textual for SentTo {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.peer).value(&self.bytes).field("waited", &self.waited);
    }

    fn read(line: &mut LineReader<'_>) -> Result<SentTo, TextError> {
        Ok(SentTo { peer: line.value()?, bytes: line.value()?, waited: line.field("waited")? })
    }
}

impl Textual for LinkReport {
    fn write(&self, line: &mut LineWriter) {
        line.field("span", &self.span).field("sent", &self.sent);
        line.field("received", &self.received).option("latency", self.latency.as_ref());
        if !self.probed.is_empty() {
            let probed = self.probed.iter().map(|&(peer, rate)| Probed(peer, rate));
            line.word("probed").list(&probed.collect::<Vec<_>>());
        }
        for (word, tried) in [("reached", &self.reached), ("unreached", &self.unreached)] {
            if !tried.is_empty() {
                line.word(word).list(tried);
            }
        }
        line.flag("has-uplink", self.has_uplink).flag("has-downlink", self.has_downlink);
        let limit = Some(&self.limit).filter(|limit| **limit != RepairLimit::default());
        line.option("limit", limit).option("cap", self.cap.as_ref());
        if !self.sent_to.is_empty() {
            line.word("sent-to").list(&self.sent_to);
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<LinkReport, TextError> {
        let (span, sent) = (line.field("span")?, line.field("sent")?);
        let (received, latency) = (line.field("received")?, line.option("latency")?);
        let probed: Vec<Probed> = if line.take("probed") { line.list()? } else { Vec::new() };
        let mut tried = |word| if line.take(word) { line.list() } else { Ok(Vec::new()) };
        let (reached, unreached) = (tried("reached")?, tried("unreached")?);
        let (has_uplink, has_downlink) = (line.take("has-uplink"), line.take("has-downlink"));
        Ok(LinkReport {
            span,
            sent,
            received,
            latency,
            probed: probed.into_iter().map(|Probed(peer, rate)| (peer, rate)).collect(),
            reached,
            unreached,
            has_uplink,
            has_downlink,
            limit: line.option("limit")?.unwrap_or_default(),
            cap: line.option("cap")?,
            sent_to: if line.take("sent-to") { line.list()? } else { Vec::new() },
        })
    }
}
