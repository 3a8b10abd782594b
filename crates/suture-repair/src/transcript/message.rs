//! What coordinator and agents send each other, as words.
//!
//! Place: failure -> stripes -> queue -> plan -> admit -> [dispatch -> slices flow] -> commit.
//! A message is a verb and its fields. A new variant needs its words here, or nothing compiles.

use std::sync::Arc;

use crate::id::{NodeId, RepairId};
use crate::message::{Check, CopyFault, Failure, FromAgent, Heartbeat, Hello, Refusal, ToAgent};
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
            ToAgent::Delete { epoch, copy } => {
                line.word("delete").field("chunk", copy).field("epoch", epoch)
            }
            ToAgent::List => line.word("list"),
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
            "delete" => {
                let copy = line.field("chunk")?;
                ToAgent::Delete { copy, epoch: line.field("epoch")? }
            }
            "list" => ToAgent::List,
            _ => return Err(error),
        })
    }
}

impl Textual for FromAgent {
    fn write(&self, line: &mut LineWriter) {
        match self {
            FromAgent::Hello(hello) => line.word("hello").value(hello),
            FromAgent::Inventory(copies) => line.word("holds").list(copies),
            FromAgent::Heartbeat(beat) => line.word("heartbeat").value(beat),
            FromAgent::Stored { repair, copy } => {
                line.word("stored").field("repair", repair).field("chunk", copy)
            }
            FromAgent::Failed { repair, why } => {
                line.word("failed").field("repair", repair).value(why)
            }
            FromAgent::Verified(check) => line.word("verified").value(check),
            FromAgent::Bad { copy, fault } => line.word("bad").field("chunk", copy).value(fault),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<FromAgent, TextError> {
        let error = line.error("a message of an agent");
        Ok(match line.word()? {
            "hello" => FromAgent::Hello(line.value()?),
            "holds" => FromAgent::Inventory(line.list()?),
            "heartbeat" => FromAgent::Heartbeat(line.value()?),
            "stored" => {
                FromAgent::Stored { repair: line.field("repair")?, copy: line.field("chunk")? }
            }
            "failed" => FromAgent::Failed { repair: line.field("repair")?, why: line.value()? },
            "verified" => FromAgent::Verified(line.value()?),
            "bad" => FromAgent::Bad { copy: line.field("chunk")?, fault: line.value()? },
            _ => return Err(error),
        })
    }
}

impl Textual for Hello {
    fn write(&self, line: &mut LineWriter) {
        line.field("incarnation", &self.incarnation).field("pool", &self.pool_bytes);
        line.field("free", &self.free_bytes).field("can", &self.abilities);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Hello, TextError> {
        Ok(Hello {
            incarnation: line.field("incarnation")?,
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
struct Arrived(RepairId, u16, NodeId);

impl Textual for Arrived {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.0).field("lane", &self.1).field("child", &self.2);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Arrived, TextError> {
        Ok(Arrived(line.value()?, line.field("lane")?, line.field("child")?))
    }
}

impl Textual for Heartbeat {
    fn write(&self, line: &mut LineWriter) {
        line.field("incarnation", &self.incarnation).field("free", &self.free_bytes);
        if !self.running.is_empty() {
            let running = self.running.iter().map(|&(repair, bytes)| Progressed(repair, bytes));
            line.word("runs").list(&running.collect::<Vec<_>>());
        }
        if !self.arrived.is_empty() {
            let arrived = self.arrived.iter().map(|&(id, lane, child)| Arrived(id, lane, child));
            line.word("arrived").list(&arrived.collect::<Vec<_>>());
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<Heartbeat, TextError> {
        let (incarnation, free_bytes) = (line.field("incarnation")?, line.field("free")?);
        let running: Vec<Progressed> = if line.take("runs") { line.list()? } else { vec![] };
        let arrived: Vec<Arrived> = if line.take("arrived") { line.list()? } else { vec![] };
        Ok(Heartbeat {
            incarnation,
            free_bytes,
            running: running.into_iter().map(|Progressed(id, bytes)| (id, bytes)).collect(),
            arrived: arrived
                .into_iter()
                .map(|Arrived(id, lane, child)| (id, lane, child))
                .collect(),
        })
    }
}

impl Textual for Check {
    fn write(&self, line: &mut LineWriter) {
        line.field("chunk", &self.copy).option("bytes", self.bytes.as_ref());
        if let Some((node, copy)) = &self.excess {
            line.field("excess", copy).field("on", node);
        }
    }

    fn read(line: &mut LineReader<'_>) -> Result<Check, TextError> {
        let (copy, bytes) = (line.field("chunk")?, line.option("bytes")?);
        let excess = match line.option("excess")? {
            Some(excess) => Some((line.field("on")?, excess)),
            None => None,
        };
        Ok(Check { copy, bytes, excess })
    }
}

impl Textual for CopyFault {
    fn write(&self, line: &mut LineWriter) {
        // "missing" or "corrupt".
        line.word(self);
    }

    fn read(line: &mut LineReader<'_>) -> Result<CopyFault, TextError> {
        line.leaf("missing or corrupt", |word| {
            [CopyFault::Missing, CopyFault::Corrupt].into_iter().find(|f| f.to_string() == word)
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
