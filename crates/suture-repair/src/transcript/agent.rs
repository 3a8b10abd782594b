//! An agent's configuration, inputs and outputs as lines.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! An input's line begins with its time. Outputs are written and never read: a replay makes them
//! anew and compares lines. A role is left out of them: it follows from the task.

use crate::agent::{Agent, AgentConfig, AgentInput, AgentOutput};
use crate::role::Sink;
use crate::time::Time;
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};
use crate::transcript::message::Sums;
use crate::transcript::value::Checksum;

/// What an agent begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentHeader {
    config: Option<AgentConfig>,
}

/// The lines before the first input: all that an agent is made from.
pub fn header(config: &AgentConfig) -> String {
    let mut line = LineWriter::default();
    line.value(config);
    let mut start = LineWriter::default();
    start.field("start", &Time::ZERO);
    let first = super::first_line(super::Kind::Agent);
    format!("{first}\n{}\n{}\n", line.finish(), start.finish())
}

impl AgentHeader {
    /// Takes one line of the header.
    ///
    /// # Errors
    /// When the line is no configuration of an agent; what was expected where.
    pub fn read(&mut self, line: &mut LineReader<'_>) -> Result<(), TextError> {
        self.config = Some(line.value()?);
        Ok(())
    }

    /// The agent; nothing while its configuration is not known.
    pub fn start(self) -> Option<Agent> {
        self.config.map(Agent::new)
    }
}

impl Textual for AgentConfig {
    fn write(&self, line: &mut LineWriter) {
        line.field("agent", &self.me).field("incarnation", &self.incarnation);
        line.field("pool", &self.pool_bytes).field("can", &self.abilities);
        line.field("heartbeat", &self.heartbeat_every).field("stall", &self.stall_after);
        line.field("inventory", &self.inventory_every);
    }

    fn read(line: &mut LineReader<'_>) -> Result<AgentConfig, TextError> {
        Ok(AgentConfig {
            me: line.field("agent")?,
            incarnation: line.field("incarnation")?,
            pool_bytes: line.field("pool")?,
            abilities: line.field("can")?,
            heartbeat_every: line.field("heartbeat")?,
            stall_after: line.field("stall")?,
            inventory_every: line.field("inventory")?,
        })
    }
}

/// `done`, or what went wrong.
fn write_result<'l, E: Textual>(
    line: &'l mut LineWriter,
    result: &Result<(), E>,
) -> &'l mut LineWriter {
    match result {
        Ok(()) => line.word("done"),
        Err(why) => line.value(why),
    }
}

fn read_result<E: Textual>(line: &mut LineReader<'_>) -> Result<Result<(), E>, TextError> {
    if line.take("done") { Ok(Ok(())) } else { line.value().map(Err) }
}

impl Textual for AgentInput {
    fn write(&self, line: &mut LineWriter) {
        match self {
            AgentInput::Connected { epoch } => line.word("connected").field("epoch", epoch),
            AgentInput::Disconnected => line.word("disconnected"),
            AgentInput::Message(message) => line.word("coordinator").value(message),
            AgentInput::Granted { from, repair, lane, first, below } => line
                .field("granted by", from)
                .field("repair", repair)
                .field("lane", lane)
                .option("from", Some(first).filter(|first| **first > 0))
                .field("below", below),
            AgentInput::SliceArrived { from, id } => line.field("arrived", id).field("from", from),
            AgentInput::SliceRead { id, result } => write_result(line.field("read", id), result),
            AgentInput::SliceSpilled { from, id } => line.field("kept", id).field("from", from),
            AgentInput::SliceLeft(id) => line.field("left", id),
            AgentInput::WriteFailed { repair, why } => {
                line.word("write-failed").field("repair", repair).value(why)
            }
            AgentInput::Prepared { repair, result } => {
                write_result(line.word("prepared").field("repair", repair), result)
            }
            AgentInput::Published { repair, result } => {
                write_result(line.word("published").field("repair", repair), result)
            }
            AgentInput::PeerLost(node) => line.field("peer-lost", node),
            AgentInput::FreeBytes(bytes) => line.field("free-bytes", bytes),
            AgentInput::Disk(disk) => line.field("disk", disk),
            AgentInput::Listed { copies, free_bytes } => {
                line.word("listed").field("free", free_bytes).word("holds").list(copies)
            }
            AgentInput::NotListed => line.word("not-listed"),
            AgentInput::Deleted(copy) => line.word("deleted").field("chunk", copy),
            AgentInput::Checked { check, result } => {
                write_result(line.word("checked").value(check), result)
            }
            AgentInput::Fingerprinted { request, result: Ok(sums) } => {
                line.word("fingerprinted").value(request).word("is").value(&Sums(sums.clone()))
            }
            AgentInput::Fingerprinted { request, result: Err(why) } => {
                line.word("fingerprinted").value(request).value(why)
            }
            AgentInput::Found { copy, fault } => {
                line.word("found").field("chunk", copy).value(fault)
            }
            AgentInput::Measured(report) => line.field("measured", &**report),
            AgentInput::Tick => line.word("tick"),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<AgentInput, TextError> {
        let error = line.error("an input of an agent");
        Ok(match line.word()? {
            "connected" => AgentInput::Connected { epoch: line.field("epoch")? },
            "disconnected" => AgentInput::Disconnected,
            "coordinator" => AgentInput::Message(line.value()?),
            "granted" => AgentInput::Granted {
                from: line.field("by")?,
                repair: line.field("repair")?,
                lane: line.field("lane")?,
                first: line.option("from")?.unwrap_or(0),
                below: line.field("below")?,
            },
            "arrived" => AgentInput::SliceArrived { id: line.value()?, from: line.field("from")? },
            "read" => AgentInput::SliceRead { id: line.value()?, result: read_result(line)? },
            "kept" => AgentInput::SliceSpilled { id: line.value()?, from: line.field("from")? },
            "left" => AgentInput::SliceLeft(line.value()?),
            "write-failed" => {
                AgentInput::WriteFailed { repair: line.field("repair")?, why: line.value()? }
            }
            "prepared" => {
                AgentInput::Prepared { repair: line.field("repair")?, result: read_result(line)? }
            }
            "published" => {
                AgentInput::Published { repair: line.field("repair")?, result: read_result(line)? }
            }
            "peer-lost" => AgentInput::PeerLost(line.value()?),
            "free-bytes" => AgentInput::FreeBytes(line.value()?),
            "disk" => AgentInput::Disk(line.value()?),
            "listed" => {
                let free_bytes = line.field("free")?;
                line.expect("holds")?;
                AgentInput::Listed { copies: line.list()?, free_bytes }
            }
            "not-listed" => AgentInput::NotListed,
            "deleted" => AgentInput::Deleted(line.field("chunk")?),
            "checked" => AgentInput::Checked { check: line.value()?, result: read_result(line)? },
            "fingerprinted" => {
                let request = line.value()?;
                let result =
                    if line.take("is") { Ok(line.value::<Sums>()?.0) } else { Err(line.value()?) };
                AgentInput::Fingerprinted { request, result }
            }
            "found" => AgentInput::Found { copy: line.field("chunk")?, fault: line.value()? },
            "measured" => AgentInput::Measured(Box::new(line.value()?)),
            "tick" => AgentInput::Tick,
            _ => return Err(error),
        })
    }
}

/// The lines of what one input gave.
pub fn output_lines(outputs: &[AgentOutput]) -> Vec<String> {
    outputs.iter().map(output_line).collect()
}

fn output_line(output: &AgentOutput) -> String {
    let mut line = LineWriter::default();
    match output {
        AgentOutput::Send(message) => line.word("-> coordinator").value(message),
        AgentOutput::Grant { to, repair, lane, first, below } => {
            line.field("->", to).field("grant repair", repair).field("lane", lane);
            line.option("from", Some(first).filter(|first| **first > 0)).field("below", below)
        }
        AgentOutput::Prepare { repair, bytes } => {
            line.field("prepare repair", repair).field("bytes", bytes)
        }
        AgentOutput::Continue { repair, from } => {
            line.field("continue repair", repair).field("from", from)
        }
        AgentOutput::Read { id, role: _, spool } => {
            line.field("read", id).flag("of the spool", *spool)
        }
        AgentOutput::Deliver { id, role } => {
            let sink = |sink: &Sink| match sink {
                Sink::Forward(node) => format!("n{}", node.0),
                Sink::Store => "the chunk".to_string(),
            };
            let sinks: Vec<String> = role.sinks.iter().map(sink).collect();
            line.field("deliver", id).word("to").word(sinks.join(", "))
        }
        AgentOutput::Spool { id, role: _ } => line.field("spool", id),
        AgentOutput::Spill { id, from, role: _ } => line.field("keep", id).field("from", from),
        AgentOutput::Publish { repair, copy, bytes, crc, label } => {
            line.field("publish repair", repair).field("chunk", copy);
            line.field("bytes", bytes).option("checksum", crc.map(Checksum).as_ref());
            line.option("label", Some(label).filter(|label| !label.is_empty()))
        }
        AgentOutput::Discard(repair) => line.field("discard repair", repair),
        AgentOutput::List => line.word("list"),
        AgentOutput::Check(check) => line.word("check").value(check),
        AgentOutput::Fingerprint { request, is_written } => {
            line.word("fingerprint").value(request).flag("of what was written", *is_written)
        }
        AgentOutput::Delete(copy) => line.field("delete chunk", copy),
        AgentOutput::Limit(limit) => line.field("limit", limit),
    };
    line.finish()
}
