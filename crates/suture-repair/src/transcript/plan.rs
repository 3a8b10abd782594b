//! Stripes, plans and tasks as words, nodes by their ids.
//!
//! Place: beside the whole life of a repair, wherever a machine's inputs and outputs are text.
//! A chunk of a stripe is `n3#0badcafe`: where it lies and its checksum; `n3@1.7#0badcafe` when a
//! repair wrote it, `nowhere#0badcafe` when no node has it, `n3#unknown` when its checksum is not
//! recorded, `n3#0badcafe:640` when it is shorter than the stripe's longest. An edge is `n1>n4
//! partial 4096`.

use std::collections::BTreeMap;

use crate::cluster::{Node, Rate};
use crate::id::{ChunkIndex, NodeId, RackId, Stamp};
use crate::message::Task;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, SchemeId, Start};
use crate::processor::{Processor, ProcessorCosts};
use crate::stripe::{ChunkRecord, Stripe};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};
use crate::transcript::value::{Checksum, split_stamp, stamp_word};

/// A chunk's record; the length is named where it is not that of the stripe's longest.
struct Record {
    node: Option<NodeId>,
    stamp: Stamp,
    crc: Option<u32>,
    short: Option<u64>,
}

impl Textual for Record {
    fn write(&self, line: &mut LineWriter) {
        let node = self.node.map_or("nowhere".to_string(), |node| format!("n{}", node.0));
        let crc = self.crc.map_or("unknown".to_string(), |crc| format!("{crc:08x}"));
        let short = self.short.map_or(String::new(), |bytes| format!(":{bytes}"));
        line.word(format!("{node}{}#{crc}{short}", stamp_word(self.stamp)));
    }

    fn read(line: &mut LineReader<'_>) -> Result<Record, TextError> {
        line.leaf("a chunk like n3#0badcafe", |word| {
            let (place, rest) = word.split_once('#')?;
            let (node, stamp) = split_stamp(place)?;
            let node = match node {
                "nowhere" => None,
                node => Some(LineReader::new(node).value().ok()?),
            };
            let (crc, short) = match rest.split_once(':') {
                Some((crc, bytes)) => (crc, Some(bytes.parse().ok()?)),
                None => (rest, None),
            };
            let crc = match crc {
                "unknown" => None,
                crc => Some(LineReader::new(crc).value::<Checksum>().ok()?.0),
            };
            Some(Record { node, stamp, crc, short })
        })
    }
}

impl Textual for Stripe {
    fn write(&self, line: &mut LineWriter) {
        let Stripe { chunk_bytes, unit_bytes, .. } = *self;
        line.value(&self.id).value(&self.code).field("bytes", &chunk_bytes);
        line.option("unit", (unit_bytes != chunk_bytes).then_some(&unit_bytes));
        let record = |&ChunkRecord { node, stamp, bytes, crc }: &ChunkRecord| Record {
            node,
            stamp,
            crc,
            short: (bytes != chunk_bytes).then_some(bytes),
        };
        let records: Vec<Record> = self.chunks.iter().map(record).collect();
        line.field("generation", &self.generation).word("chunks").list(&records);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Stripe, TextError> {
        let (id, code, chunk_bytes) = (line.value()?, line.value()?, line.field("bytes")?);
        let unit_bytes = line.option("unit")?.unwrap_or(chunk_bytes);
        let generation = line.field("generation")?;
        line.expect("chunks")?;
        let record = |Record { node, stamp, crc, short }| ChunkRecord {
            node,
            stamp,
            bytes: short.unwrap_or(chunk_bytes),
            crc,
        };
        let chunks = line.list::<Record>()?.into_iter().map(record).collect();
        Ok(Stripe { id, code, chunk_bytes, unit_bytes, generation, chunks })
    }
}

impl Textual for Node {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.name).option("rack", self.rack.as_ref());
        line.field("up", &self.uplink).field("down", &self.downlink);
        line.option("read", self.disk_read.as_ref()).option("write", self.disk_write.as_ref());
        if let Some(processor) = &self.processor {
            line.field("cores", &Rate(processor.cores()));
            line.word("costs").list(&processor.costs().all().map(Rate));
        }
        if self.foreground_uplink.0 != 0.0 || self.foreground_downlink.0 != 0.0 {
            line.field("busy-up", &self.foreground_uplink);
            line.field("busy-down", &self.foreground_downlink);
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<Node, TextError> {
        let (name, rack): (String, Option<RackId>) = (line.value()?, line.option("rack")?);
        let (uplink, downlink) = (line.field("up")?, line.field("down")?);
        let mut node = Node { rack, downlink, ..Node::new(name, uplink) };
        (node.disk_read, node.disk_write) = (line.option("read")?, line.option("write")?);
        node.processor = read_processor(line)?;
        if let Some(busy) = line.option("busy-up")? {
            (node.foreground_uplink, node.foreground_downlink) = (busy, line.field("busy-down")?);
        }
        Ok(node)
    }
}

/// Reads how many cores there are and what they cost, if that comes next.
fn read_processor(line: &mut LineReader<'_>) -> Result<Option<Processor>, TextError> {
    let Some(Rate(cores)) = line.option("cores")? else { return Ok(None) };
    line.expect("costs")?;
    let error = line.error("six costs of a processor");
    let costs: Vec<f64> = line.list::<Rate>()?.into_iter().map(|Rate(cost)| cost).collect();
    let costs: Option<[f64; 6]> = costs.try_into().ok();
    let costs = costs.map(ProcessorCosts::from_all);
    costs.and_then(|costs| Processor::new(cores, costs)).map(Some).ok_or(error)
}

impl Textual for Edge {
    fn write(&self, line: &mut LineWriter) {
        line.word(format!("n{}>n{}", self.child.0, self.parent.0));
        line.word(self.carries.word()).value(&self.bytes);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Edge, TextError> {
        let (child, parent): (NodeId, NodeId) = line.leaf("an edge like n1>n4", |word| {
            let (child, parent) = word.split_once('>')?;
            Some((LineReader::new(child).value().ok()?, LineReader::new(parent).value().ok()?))
        })?;
        let carries = line.leaf("partial, combined, traces or finished", |word| {
            Carries::ALL.into_iter().find(|carries| carries.word() == word)
        })?;
        Ok(Edge { child, parent, carries, bytes: line.value()? })
    }
}

impl Textual for Lane {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.range).word("of").list(&self.lost);
        line.word(match self.mode {
            Mode::Streamed => "streamed",
            Mode::Stored => "stored",
        });
        line.option("decoder", self.decoder.as_ref());
        line.option("scheme", self.scheme.map(|SchemeId(id)| id).as_ref()).list(&self.edges);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Lane, TextError> {
        let range = line.value()?;
        line.expect("of")?;
        let lost = line.list()?;
        let mode = line.leaf("streamed or stored", |word| match word {
            "streamed" => Some(Mode::Streamed),
            "stored" => Some(Mode::Stored),
            _ => None,
        })?;
        let decoder = line.option("decoder")?;
        let scheme = line.option("scheme")?.map(SchemeId);
        Ok(Lane { range, lost, mode, decoder, scheme, edges: line.list()? })
    }
}

/// The destination of a rebuilt chunk: `0:n4`.
pub(super) struct Destination(pub ChunkIndex, pub NodeId);

impl Textual for Destination {
    fn write(&self, line: &mut LineWriter) {
        line.word(format!("{}:n{}", self.0.0, self.1.0));
    }

    fn read(line: &mut LineReader<'_>) -> Result<Destination, TextError> {
        line.leaf("a destination like 0:n4", |word| {
            let (chunk, node) = word.split_once(':')?;
            let chunk = LineReader::new(chunk).value().ok()?;
            Some(Destination(chunk, LineReader::new(node).value().ok()?))
        })
    }
}

impl Textual for Plan {
    fn write(&self, line: &mut LineWriter) {
        let kept = self.destinations.iter().map(|(chunk, node)| Destination(*chunk, *node));
        line.field("stripe", &self.stripe).word("lost").list(&self.lost);
        line.word("to").list(&kept.collect::<Vec<_>>()).field("bytes", &self.range);
        line.option("period", self.period.as_ref());
        match &self.start {
            Start::Now => &mut *line,
            Start::After(plans) => line.word("after").list(plans),
            Start::Slot(slot) => line.field("slot", slot),
            Start::Wave(wave) => line.field("wave", wave),
        };
        line.word("lanes").list(&self.lanes);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Plan, TextError> {
        let stripe = line.field("stripe")?;
        line.expect("lost")?;
        let lost = line.list()?;
        line.expect("to")?;
        let kept: Vec<Destination> = line.list()?;
        let destinations: BTreeMap<ChunkIndex, NodeId> =
            kept.into_iter().map(|Destination(chunk, node)| (chunk, node)).collect();
        let (range, period) = (line.field("bytes")?, line.option("period")?);
        let start = match line.peek() {
            "after" => {
                line.expect("after")?;
                Start::After(line.list()?)
            }
            "slot" => Start::Slot(line.field("slot")?),
            "wave" => Start::Wave(line.field("wave")?),
            _ => Start::Now,
        };
        line.expect("lanes")?;
        let lanes = line.list()?;
        Ok(Plan { stripe, lost, destinations, start, range, period, lanes })
    }
}

impl Textual for Task {
    fn write(&self, line: &mut LineWriter) {
        line.field("repair", &self.repair).field("slice", &self.slice_bytes);
        line.field("window", &self.window).flag("gated", self.gated);
        line.option("continues", self.continues.as_ref()).flag("skips", self.skips);
        line.option("label", Some(&self.label).filter(|label| !label.is_empty()));
        line.field("stripe", &self.stripe).field("plan", &self.plan);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Task, TextError> {
        Ok(Task {
            repair: line.field("repair")?,
            slice_bytes: line.field("slice")?,
            window: line.field("window")?,
            gated: line.take("gated"),
            continues: line.option("continues")?,
            skips: line.take("skips"),
            label: line.option("label")?.unwrap_or_default(),
            stripe: line.field("stripe")?,
            plan: line.field("plan")?,
        })
    }
}
