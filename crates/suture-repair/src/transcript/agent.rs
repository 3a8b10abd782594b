//! An agent's configuration, inputs and outputs as lines.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! An input's line begins with its time. Outputs are written and never read: a replay makes them
//! anew and compares lines. A role is left out of them: it follows from the task.

use crate::agent::{Agent, Config, Input, Output};
use crate::role::Sink;
use crate::time::Time;
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};
use crate::transcript::message::Sums;
use crate::transcript::value::Checksum;

/// What an agent begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentHeader {
    config: Option<Config>,
}

/// The lines before the first input: all that an agent is made from.
pub fn header(config: &Config) -> String {
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

impl Textual for Config {
    fn write(&self, line: &mut LineWriter) {
        line.field("agent", &self.me).field("incarnation", &self.incarnation);
        line.field("pool", &self.pool_bytes).field("can", &self.abilities);
        line.field("heartbeat", &self.heartbeat_every).field("stall", &self.stall_after);
        line.field("inventory", &self.inventory_every);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Config, TextError> {
        Ok(Config {
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

impl Textual for Input {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Input::Connected { epoch } => line.word("connected").field("epoch", epoch),
            Input::Disconnected => line.word("disconnected"),
            Input::Message(message) => line.word("coordinator").value(message),
            Input::Granted { from, repair, lane, upto } => line
                .field("granted by", from)
                .field("repair", repair)
                .field("lane", lane)
                .field("below", upto),
            Input::SliceArrived { from, id } => line.field("arrived", id).field("from", from),
            Input::SliceRead { id, result } => write_result(line.field("read", id), result),
            Input::SliceKept { from, id } => line.field("kept", id).field("from", from),
            Input::SliceLeft(id) => line.field("left", id),
            Input::WriteFailed { repair, why } => {
                line.word("write-failed").field("repair", repair).value(why)
            }
            Input::Prepared { repair, result } => {
                write_result(line.word("prepared").field("repair", repair), result)
            }
            Input::Published { repair, result } => {
                write_result(line.word("published").field("repair", repair), result)
            }
            Input::PeerLost(node) => line.field("peer-lost", node),
            Input::Listed { copies, free_bytes } => {
                line.word("listed").field("free", free_bytes).word("holds").list(copies)
            }
            Input::Checked { check, result } => {
                write_result(line.word("checked").value(check), result)
            }
            Input::Fingerprinted { request, result: Ok(sums) } => {
                line.word("fingerprinted").value(request).word("is").value(&Sums(sums.clone()))
            }
            Input::Fingerprinted { request, result: Err(why) } => {
                line.word("fingerprinted").value(request).value(why)
            }
            Input::Found { copy, fault } => line.word("found").field("chunk", copy).value(fault),
            Input::Tick => line.word("tick"),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Input, TextError> {
        let error = line.error("an input of an agent");
        Ok(match line.word()? {
            "connected" => Input::Connected { epoch: line.field("epoch")? },
            "disconnected" => Input::Disconnected,
            "coordinator" => Input::Message(line.value()?),
            "granted" => Input::Granted {
                from: line.field("by")?,
                repair: line.field("repair")?,
                lane: line.field("lane")?,
                upto: line.field("below")?,
            },
            "arrived" => Input::SliceArrived { id: line.value()?, from: line.field("from")? },
            "read" => Input::SliceRead { id: line.value()?, result: read_result(line)? },
            "kept" => Input::SliceKept { id: line.value()?, from: line.field("from")? },
            "left" => Input::SliceLeft(line.value()?),
            "write-failed" => {
                Input::WriteFailed { repair: line.field("repair")?, why: line.value()? }
            }
            "prepared" => {
                Input::Prepared { repair: line.field("repair")?, result: read_result(line)? }
            }
            "published" => {
                Input::Published { repair: line.field("repair")?, result: read_result(line)? }
            }
            "peer-lost" => Input::PeerLost(line.value()?),
            "listed" => {
                let free_bytes = line.field("free")?;
                line.expect("holds")?;
                Input::Listed { copies: line.list()?, free_bytes }
            }
            "checked" => Input::Checked { check: line.value()?, result: read_result(line)? },
            "fingerprinted" => {
                let request = line.value()?;
                let result = match line.take("is") {
                    true => Ok(line.value::<Sums>()?.0),
                    false => Err(line.value()?),
                };
                Input::Fingerprinted { request, result }
            }
            "found" => Input::Found { copy: line.field("chunk")?, fault: line.value()? },
            "tick" => Input::Tick,
            _ => return Err(error),
        })
    }
}

/// The lines of what one input gave.
pub fn output_lines(outputs: &[Output]) -> Vec<String> {
    outputs.iter().map(output_line).collect()
}

fn output_line(output: &Output) -> String {
    let mut line = LineWriter::default();
    match output {
        Output::Send(message) => line.word("-> coordinator").value(message),
        Output::Grant { to, repair, lane, upto } => {
            line.field("->", to).field("grant repair", repair).field("lane", lane);
            line.field("below", upto)
        }
        Output::Prepare { repair, bytes } => {
            line.field("prepare repair", repair).field("bytes", bytes)
        }
        Output::Continue { repair, from } => {
            line.field("continue repair", repair).field("from", from)
        }
        Output::Read { id, role: _, spool } => line.field("read", id).flag("of the spool", *spool),
        Output::Deliver { id, role } => {
            let sink = |sink: &Sink| match sink {
                Sink::Forward(node) => format!("n{}", node.0),
                Sink::Store => "the chunk".to_string(),
            };
            let sinks: Vec<String> = role.sinks.iter().map(sink).collect();
            line.field("deliver", id).word("to").word(sinks.join(", "))
        }
        Output::Spool { id, role: _ } => line.field("spool", id),
        Output::Keep { id, from, role: _ } => line.field("keep", id).field("from", from),
        Output::Publish { repair, copy, bytes, crc } => {
            line.field("publish repair", repair).field("chunk", copy);
            line.field("bytes", bytes).option("checksum", crc.map(Checksum).as_ref())
        }
        Output::Discard(repair) => line.field("discard repair", repair),
        Output::List => line.word("list"),
        Output::Check(check) => line.word("check").value(check),
        Output::Fingerprint { request, is_written } => {
            line.word("fingerprint").value(request).flag("of what was written", *is_written)
        }
        Output::Delete(copy) => line.field("delete chunk", copy),
    };
    line.finish()
}
