//! What coordinator and agents send each other, as words.
//!
//! Place: failure -> stripes -> queue -> plan -> admit -> [dispatch -> slices flow] -> commit.
//! A message is a verb and its fields. A new variant needs its words here, or nothing compiles.

use std::sync::Arc;

use suture_code::layout::Layout;

use crate::id::{CopyAt, Digest, EdgeRef, RepairId};
use crate::message::{
    Check, CopyFault, DiskState, Failure, FingerprintRequest, FromAgent, Heartbeat, Hello, Refusal,
    RepairLimit, ToAgent,
};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};
use crate::transcript::value::{Checksum, YesNo};

impl Textual for ToAgent {
    fn write(&self, line: &mut LineWriter) {
        match self {
            ToAgent::Dispatch(task) => line.word("dispatch").value(&**task),
            ToAgent::Cancel(repair) => line.word("cancel").field("repair", repair),
            ToAgent::Release { repair, lane, child } => line
                .word("release")
                .field("repair", repair)
                .field("lane", lane)
                .field("child", child),
            ToAgent::Hold { repair, held } => {
                line.word("hold").field("repair", repair).value(&YesNo(*held))
            }
            ToAgent::Forget(repair) => line.word("forget").field("repair", repair),
            ToAgent::Check(check) => line.word("check").value(check),
            ToAgent::Fingerprint(request) => line.word("fingerprint").value(request),
            ToAgent::Publish(repair) => line.field("publish repair", repair),
            ToAgent::Delete { epoch, session, copy } => line
                .word("delete")
                .field("chunk", copy)
                .field("epoch", epoch)
                .field("session", session),
            ToAgent::List => line.word("list"),
            ToAgent::Limit(limit) => line.word("limit").value(limit),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<ToAgent, TextError> {
        let error = line.error("a message to an agent");
        Ok(match line.word()? {
            "dispatch" => ToAgent::Dispatch(Arc::new(line.value()?)),
            "cancel" => ToAgent::Cancel(line.field("repair")?),
            "release" => ToAgent::Release {
                repair: line.field("repair")?,
                lane: line.field("lane")?,
                child: line.field("child")?,
            },
            "hold" => {
                let repair = line.field("repair")?;
                let YesNo(held) = line.value()?;
                ToAgent::Hold { repair, held }
            }
            "forget" => ToAgent::Forget(line.field("repair")?),
            "check" => ToAgent::Check(line.value()?),
            "fingerprint" => ToAgent::Fingerprint(line.value()?),
            "publish" => ToAgent::Publish(line.field("repair")?),
            "delete" => {
                let copy = line.field("chunk")?;
                let (epoch, session) = (line.field("epoch")?, line.field("session")?);
                ToAgent::Delete { epoch, session, copy }
            }
            "list" => ToAgent::List,
            "limit" => ToAgent::Limit(line.value::<RepairLimit>()?),
            _ => return Err(error),
        })
    }
}

impl Textual for FromAgent {
    fn write(&self, line: &mut LineWriter) {
        match self {
            FromAgent::Hello(hello) => line.word("hello").value(hello),
            FromAgent::Inventory(copies) => line.word("holds").list(copies),
            FromAgent::NotListed => line.word("not-listed"),
            FromAgent::Heartbeat(beat) => line.word("heartbeat").value(beat),
            FromAgent::Stored { repair, copy } => {
                line.word("stored").field("repair", repair).field("chunk", copy)
            }
            FromAgent::Failed { repair, why } => {
                line.word("failed").field("repair", repair).value(why)
            }
            FromAgent::Verified(check) => line.word("verified").value(check),
            FromAgent::Fingerprint { repair, copy, sums } => {
                line.word("fingerprint").field("repair", repair).field("chunk", copy);
                line.value(&Sums(sums.clone()))
            }
            FromAgent::Deleted(copy) => line.word("deleted").field("chunk", copy),
            FromAgent::Bad { copy, fault } => line.word("bad").field("chunk", copy).value(fault),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<FromAgent, TextError> {
        let error = line.error("a message of an agent");
        Ok(match line.word()? {
            "hello" => FromAgent::Hello(line.value()?),
            "holds" => FromAgent::Inventory(line.list()?),
            "not-listed" => FromAgent::NotListed,
            "heartbeat" => FromAgent::Heartbeat(line.value()?),
            "stored" => {
                FromAgent::Stored { repair: line.field("repair")?, copy: line.field("chunk")? }
            }
            "failed" => FromAgent::Failed { repair: line.field("repair")?, why: line.value()? },
            "verified" => FromAgent::Verified(line.value()?),
            "fingerprint" => {
                let (repair, copy) = (line.field("repair")?, line.field("chunk")?);
                let Sums(sums) = line.value()?;
                FromAgent::Fingerprint { repair, copy, sums }
            }
            "deleted" => FromAgent::Deleted(line.field("chunk")?),
            "bad" => FromAgent::Bad { copy: line.field("chunk")?, fault: line.value()? },
            _ => return Err(error),
        })
    }
}

impl Textual for Hello {
    fn write(&self, line: &mut LineWriter) {
        line.field("incarnation", &self.incarnation).field("session", &self.session);
        line.field("pool", &self.pool_bytes);
        line.field("free", &self.free_bytes).field("can", &self.abilities);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Hello, TextError> {
        Ok(Hello {
            incarnation: line.field("incarnation")?,
            session: line.field("session")?,
            pool_bytes: line.field("pool")?,
            free_bytes: line.field("free")?,
            abilities: line.field("can")?,
        })
    }
}

/// What runs, with its bytes so far: `1.7 bytes 4096`.
struct Progressed(RepairId, u64);

impl Textual for Progressed {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.0).field("bytes", &self.1);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Progressed, TextError> {
        Ok(Progressed(line.value()?, line.field("bytes")?))
    }
}

/// An edge that has arrived: `1.7 lane 0 child n3`.
impl Textual for EdgeRef {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.repair).field("lane", &self.lane).field("child", &self.peer);
    }

    fn read(line: &mut LineReader<'_>) -> Result<EdgeRef, TextError> {
        let repair = line.value()?;
        Ok(EdgeRef { repair, lane: line.field("lane")?, peer: line.field("child")? })
    }
}

/// An edge on which it is the peer's turn: `1.7 lane 0 for n3`.
struct Waited(EdgeRef);

impl Textual for Waited {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.0.repair).field("lane", &self.0.lane).field("for", &self.0.peer);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Waited, TextError> {
        let repair = line.value()?;
        Ok(Waited(EdgeRef { repair, lane: line.field("lane")?, peer: line.field("for")? }))
    }
}

impl Textual for Heartbeat {
    fn write(&self, line: &mut LineWriter) {
        line.field("incarnation", &self.incarnation).field("free", &self.free_bytes);
        line.option("disk", Some(&self.disk).filter(|disk| **disk != DiskState::Good));
        if !self.running.is_empty() {
            let running = self.running.iter().map(|&(repair, bytes)| Progressed(repair, bytes));
            line.word("runs").list(&running.collect::<Vec<_>>());
        }
        if !self.arrived.is_empty() {
            line.word("arrived").list(&self.arrived);
        }
        if !self.written.is_empty() {
            line.word("written").list(&self.written);
        }
        if !self.waits.is_empty() {
            let waits = self.waits.iter().copied().map(Waited);
            line.word("waits").list(&waits.collect::<Vec<_>>());
        }
        line.option("links", self.links.as_deref());
    }

    fn read(line: &mut LineReader<'_>) -> Result<Heartbeat, TextError> {
        let (incarnation, free_bytes) = (line.field("incarnation")?, line.field("free")?);
        let disk = line.option("disk")?.unwrap_or_default();
        let running: Vec<Progressed> = if line.take("runs") { line.list()? } else { vec![] };
        let arrived = if line.take("arrived") { line.list()? } else { vec![] };
        let written = if line.take("written") { line.list()? } else { vec![] };
        let waits: Vec<Waited> = if line.take("waits") { line.list()? } else { vec![] };
        let links = line.option("links")?.map(Box::new);
        Ok(Heartbeat {
            links,
            incarnation,
            free_bytes,
            disk,
            written,
            waits: waits.into_iter().map(|Waited(edge)| edge).collect(),
            running: running.into_iter().map(|Progressed(id, bytes)| (id, bytes)).collect(),
            arrived,
        })
    }
}

impl Textual for Check {
    fn write(&self, line: &mut LineWriter) {
        let Digest { bytes, crc } = self.digest;
        line.field("chunk", &self.copy).option("bytes", bytes.as_ref());
        line.option("checksum", crc.map(Checksum).as_ref());
        if let Some(CopyAt { node, copy }) = &self.excess {
            line.field("excess", copy).field("on", node);
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<Check, TextError> {
        let (copy, bytes) = (line.field("chunk")?, line.option("bytes")?);
        let crc: Option<Checksum> = line.option("checksum")?;
        let digest = Digest { bytes, crc: crc.map(|crc| crc.0) };
        let excess = match line.option("excess")? {
            Some(copy) => Some(CopyAt { node: line.field("on")?, copy }),
            None => None,
        };
        Ok(Check { copy, digest, excess })
    }
}

impl Textual for FingerprintRequest {
    fn write(&self, line: &mut LineWriter) {
        line.field("repair", &self.repair).field("chunk", &self.copy).field("bytes", &self.bytes);
        line.option("checksum", self.crc.map(Checksum).as_ref());
        line.field("seed", &self.seed).field("of", &self.layout.chunk_bytes());
        let (unit, alpha) = (self.layout.unit_bytes(), self.layout.sub_chunk_count());
        if alpha > 1 {
            line.field("unit", &unit).field("sub-chunks", &alpha);
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<FingerprintRequest, TextError> {
        let (repair, copy) = (line.field("repair")?, line.field("chunk")?);
        let bytes = line.field("bytes")?;
        let crc: Option<Checksum> = line.option("checksum")?;
        let (crc, seed) = (crc.map(|crc| crc.0), line.field("seed")?);
        let error = line.error("how a chunk is cut");
        let chunk_bytes = line.field("of")?;
        let (unit, alpha) = match line.option("unit")? {
            Some(unit) => (unit, line.field("sub-chunks")?),
            None => (chunk_bytes, 1),
        };
        let layout = Layout::checked(chunk_bytes, unit, alpha).map_err(|_| error)?;
        Ok(FingerprintRequest { repair, copy, bytes, crc, seed, layout })
    }
}

/// A fingerprint, two hexadecimal digits a byte, long runs of one byte by their length:
/// `sums:00ff+00*16382`.
pub(super) struct Sums(pub Arc<[u8]>);

/// Shorter runs are written out.
const RUN_MIN: usize = 8;

impl Textual for Sums {
    fn write(&self, line: &mut LineWriter) {
        let mut text = String::from("sums:");
        let mut is_open = false;
        for run in self.0.chunk_by(|a, b| a == b) {
            let (byte, is_long) = (run[0], run.len() >= RUN_MIN);
            if text.len() > "sums:".len() && (is_long || !is_open) {
                text.push('+');
            }
            if is_long {
                text += &format!("{byte:02x}*{}", run.len())
            } else {
                text += &format!("{byte:02x}").repeat(run.len())
            }
            is_open = !is_long;
        }
        line.word(text);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Sums, TextError> {
        line.leaf("sums: and hexadecimal digits", |word| {
            let mut sums = Vec::new();
            for part in word.strip_prefix("sums:")?.split('+') {
                let (digits, times) = part.split_once('*').unwrap_or((part, "1"));
                let bytes = digits.as_bytes().chunks(2).map(hexadecimal);
                let bytes = bytes.collect::<Option<Vec<u8>>>()?;
                let times: usize = times.parse().ok()?;
                if bytes.len().checked_mul(times)?.checked_add(sums.len())? > SUMS_BYTES_MAX {
                    return None;
                }
                sums.extend(bytes.repeat(times));
            }
            Some(Sums(sums.into()))
        })
    }
}

/// The longest fingerprint, of chunks with the most sub-chunks.
const SUMS_BYTES_MAX: usize = 2 << 20;

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

impl Textual for DiskState {
    fn write(&self, line: &mut LineWriter) {
        line.word(self);
    }

    fn read(line: &mut LineReader<'_>) -> Result<DiskState, TextError> {
        line.leaf("how a disk is", |word| {
            let all =
                [DiskState::Good, DiskState::ReadOnly, DiskState::Failing, DiskState::Hanging];
            all.into_iter().find(|disk| disk.to_string() == word)
        })
    }
}

impl Textual for CopyFault {
    fn write(&self, line: &mut LineWriter) {
        // "missing" or "corrupt".
        line.word(self);
    }

    fn read(line: &mut LineReader<'_>) -> Result<CopyFault, TextError> {
        line.leaf("missing or corrupt", |word| {
            let all = [CopyFault::Missing, CopyFault::Corrupt, CopyFault::Unreadable];
            all.into_iter().find(|f| f.to_string() == word)
        })
    }
}

impl Textual for Failure {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Failure::Source { copy, fault } => line.word("source").value(copy).value(fault),
            Failure::PeerLost(node) => line.word("peer-lost").value(node),
            Failure::NoSpace => line.word("no-space"),
            Failure::NoBuffers { needed, free } => {
                line.word("no-buffers").field("needed", needed).field("free", free)
            }
            Failure::ProofFailed { expected, found } => line
                .word("proof-failed")
                .field("expected", &Checksum(*expected))
                .field("found", &Checksum(*found)),
            Failure::Inconsistent => line.word("inconsistent"),
            Failure::PastEnd { offset } => line.word("past-end").field("offset", offset),
            Failure::Stalled => line.word("stalled"),
            Failure::Refused(refusal) => line.word("refused").word(refusal_word(*refusal)),
            Failure::Disk(detail) => line.word("disk").value(detail),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Failure, TextError> {
        let error = line.error("a failure");
        Ok(match line.word()? {
            "source" => Failure::Source { copy: line.value()?, fault: line.value()? },
            "peer-lost" => Failure::PeerLost(line.value()?),
            "no-space" => Failure::NoSpace,
            "no-buffers" => {
                Failure::NoBuffers { needed: line.field("needed")?, free: line.field("free")? }
            }
            "proof-failed" => {
                let (Checksum(expected), Checksum(found)) =
                    (line.field("expected")?, line.field("found")?);
                Failure::ProofFailed { expected, found }
            }
            "inconsistent" => Failure::Inconsistent,
            "past-end" => Failure::PastEnd { offset: line.field("offset")? },
            "stalled" => Failure::Stalled,
            "refused" => Failure::Refused(line.leaf("the reason of a refusal", |word| {
                REFUSALS.into_iter().find(|refusal| refusal_word(*refusal) == word)
            })?),
            "disk" => Failure::Disk(line.value()?),
            _ => return Err(error),
        })
    }
}

const REFUSALS: [Refusal; 5] = [
    Refusal::Ability,
    Refusal::InvalidPlan,
    Refusal::NotAParticipant,
    Refusal::StaleEpoch,
    Refusal::CannotContinue,
];

fn refusal_word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Ability => "ability",
        Refusal::InvalidPlan => "invalid-plan",
        Refusal::NotAParticipant => "not-a-participant",
        Refusal::StaleEpoch => "stale-epoch",
        Refusal::CannotContinue => "cannot-continue",
    }
}
