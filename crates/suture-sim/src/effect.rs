//! Performs what the agents of the simulated cluster ask for, on real bytes in memory.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! It does what the driver of production does: reads, sums, sends, writes, publishes, and answers
//! each effect as `agent.rs` demands, after the time that a disk or a network takes.

use suture_repair::agent::{self, Agent, SliceId};
use suture_repair::id::NodeId;
use suture_repair::message::{CopyFault, FromAgent};
use suture_repair::role::Role;
use suture_repair::time::Span;

use crate::world::{Event, Party, World};

impl World {
    pub(crate) fn slice(&mut self, from: NodeId, to: NodeId, id: SliceId, bytes: Vec<u8>) {
        let host = &mut self.hosts[to.index()];
        if host.agent.as_ref().is_some_and(|agent| agent.wants(from, id)) {
            host.buffers.insert((id, Some(from)), bytes);
            self.agent_input(to, agent::Input::SliceArrived { from, id });
        }
    }

    pub(crate) fn done(
        &mut self,
        node: NodeId,
        incarnation: u64,
        input: agent::Input,
        read: Option<(SliceId, Vec<u8>)>,
    ) {
        let host = &mut self.hosts[node.index()];
        if host.incarnation != incarnation {
            return;
        }
        if let Some((id, bytes)) = read {
            let status = host.agent.as_ref().map(Agent::status).unwrap_or_default();
            if status.running.iter().any(|(repair, _)| *repair == id.repair) {
                host.buffers.insert((id, None), bytes);
            }
        }
        self.agent_input(node, input);
    }

    /// Answers an effect after the time that a disk takes.
    fn answer(&mut self, node: NodeId, input: agent::Input, read: Option<(SliceId, Vec<u8>)>) {
        let incarnation = self.host(node).incarnation;
        let after = Span { ns: self.random.between(20_000, 300_000) };
        self.later(after, Event::Done { node, incarnation, input, read });
    }

    pub(crate) fn agent_output(&mut self, node: NodeId, output: agent::Output) {
        let nets = self.options.nets;
        match output {
            agent::Output::Send(message) => self.say(node, message),
            agent::Output::Grant { to, repair, lane, upto } => {
                self.send_peer(node, to, || Event::Grant { from: node, to, repair, lane, upto });
            }
            agent::Output::Prepare { repair, bytes } => {
                let result = self.hosts[node.index()].disk.prepare(repair, bytes);
                self.answer(node, agent::Input::Prepared { repair, result }, None);
            }
            agent::Output::Read { id, window, copy } => {
                let disk = &self.host(node).disk;
                let spool = || disk.unspool(id.repair, id.lane, window.offset);
                let read = match copy {
                    Some(copy) => disk.read(copy, window, nets),
                    None => spool().ok_or(CopyFault::Missing),
                };
                let result = read.as_ref().map(|_| ()).map_err(|fault| *fault);
                let bytes = read.ok().map(|bytes| (id, bytes));
                self.answer(node, agent::Input::SliceRead { id, result }, bytes);
            }
            agent::Output::Forward { id, to, role, spooled } => {
                if let Some(bytes) = self.sum(node, id, &role, spooled) {
                    self.send_peer(node, to, || Event::Slice {
                        from: node,
                        to,
                        id,
                        bytes: bytes.clone(),
                    });
                    self.answer(node, agent::Input::SliceLeft(id), None);
                }
            }
            agent::Output::Write { id, window, role, spool } => {
                self.write(node, id, window.offset, &role, spool);
            }
            agent::Output::Publish { repair, copy, crc, .. } => {
                let result = self.hosts[node.index()].disk.publish(repair, copy, crc, nets);
                if result.is_ok() {
                    self.check_published(node, copy);
                }
                self.answer(node, agent::Input::Published { repair, result }, None);
            }
            agent::Output::Discard(repair) => {
                let host = &mut self.hosts[node.index()];
                host.disk.discard(repair);
                host.buffers.retain(|(id, _), _| id.repair != repair);
            }
            agent::Output::List => {
                let disk = &self.host(node).disk;
                let (copies, free_bytes) = (disk.list(), disk.free_bytes());
                self.answer(node, agent::Input::Listed { copies, free_bytes }, None);
            }
            agent::Output::Check(check) => {
                let result = self.host(node).disk.check(check.copy);
                self.answer(node, agent::Input::Checked { check, result }, None);
            }
            agent::Output::Delete(copy) => {
                self.check_delete(node, copy);
                self.hosts[node.index()].disk.delete(copy);
            }
        }
    }

    fn say(&mut self, from: NodeId, message: FromAgent) {
        let (incarnation, epoch) = (self.host(from).incarnation, self.truth.epoch);
        self.note(|| format!("{from} -> coordinator: {message:?}"));
        self.transmit(|| Event::ToCoordinator {
            from,
            incarnation,
            epoch,
            message: message.clone(),
        });
    }

    fn send_peer(&mut self, from: NodeId, to: NodeId, event: impl Fn() -> Event) {
        if !self.hears(Party::Agent(from), Party::Agent(to)) && self.random.per_mille(700) {
            // The connection breaks, and the sender learns of it.
            self.answer(from, agent::Input::PeerLost(to), None);
            return;
        }
        self.transmit(event);
    }

    fn write(&mut self, node: NodeId, id: SliceId, offset: u64, role: &Role, spool: bool) {
        let Some(bytes) = self.sum(node, id, role, false) else { return };
        let disk = &mut self.hosts[node.index()].disk;
        let result = if spool {
            disk.spool(id.repair, id.lane, offset, bytes);
            Ok(())
        } else {
            disk.write(id.repair, offset, &bytes)
        };
        let input = match result {
            Ok(()) => agent::Input::SliceLeft(id),
            Err(why) => agent::Input::WriteFailed { repair: id.repair, why },
        };
        self.answer(node, input, None);
    }

    /// Sums the sources of a slice, which leave memory. `None` if the task was dropped meanwhile.
    fn sum(&mut self, node: NodeId, id: SliceId, role: &Role, spooled: bool) -> Option<Vec<u8>> {
        let buffers = &mut self.hosts[node.index()].buffers;
        if spooled {
            return buffers.remove(&(id, None));
        }
        let mut sum = vec![0; role.windows.get(id.slice).bytes as usize];
        if let Some(own) = role.own {
            let bytes = buffers.remove(&(id, None))?;
            suture_gf::mul_add(&mut sum, own.coefficient, &bytes);
        }
        for child in &role.children {
            let bytes = buffers.remove(&(id, Some(*child)))?;
            suture_gf::xor(&mut sum, &bytes);
        }
        Some(sum)
    }
}
