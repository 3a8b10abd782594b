//! Performs what the agents of the simulated cluster ask for, on real bytes in memory.
//!
//! Place: ... output of an agent -> [performed in memory] -> answered as an input ...
//! It does what the driver of production does: reads, sums, sends, writes, publishes, and answers
//! each effect as `agent.rs` demands, after the time that a disk or a network takes.

use std::sync::Arc;

use suture_code::Scratch;
use suture_code::layout::Piece;
use suture_repair::agent::{self, Agent};
use suture_repair::chunk_store::{ChunkStore, ChunkWriter, proof, short};
use suture_repair::id::{ChunkCopy, NodeId, RepairId};
use suture_repair::label::Label;
use suture_repair::message::{Failure, FromAgent, LinkReport};
use suture_repair::role::{Own, Role, Sink, Spools};
use suture_repair::slice::SliceId;
use suture_repair::time::Span;

use crate::fault::Kind;
use crate::party::Party;
use crate::world::{Event, Read, Sources, World};

impl World {
    pub(crate) fn slice(&mut self, from: NodeId, to: NodeId, id: SliceId, bytes: Vec<u8>) {
        let host = &mut self.hosts[to.index()];
        if host.grants.admit(from, id)
            && host.agent.as_ref().is_some_and(|agent| agent.wants(from, id))
        {
            host.buffers.insert((id, Some(from)), bytes);
            self.agent_input(to, agent::AgentInput::SliceArrived { from, id });
        }
    }

    pub(crate) fn done(
        &mut self,
        node: NodeId,
        incarnation: u64,
        input: agent::AgentInput,
        read: Read,
    ) {
        let host = &mut self.hosts[node.index()];
        if host.incarnation != incarnation {
            return;
        }
        if let Some((id, sources)) = read {
            let status = host.agent.as_ref().map(Agent::status).unwrap_or_default();
            if status.running.iter().any(|(repair, _)| *repair == id.repair) {
                let sources = sources.into_iter().map(|(from, bytes)| ((id, from), bytes));
                host.buffers.extend(sources);
            }
        }
        self.agent_input(node, input);
    }

    /// Answers an effect after the time that a disk takes.
    fn answer(&mut self, node: NodeId, input: agent::AgentInput, read: Read) {
        let incarnation = self.host(node).incarnation;
        let soon = Span { ns: self.random.between(20_000, 300_000) };
        let hangs = self.host(node).hangs_until.map_or(Span::ZERO, |until| until.since(self.now));
        let after = Span { ns: hangs.ns + soon.ns };
        self.later(after, Event::Done { node, incarnation, input, read });
    }

    pub(crate) fn agent_output(&mut self, node: NodeId, output: agent::AgentOutput) {
        self.check_once(node, &output);
        match output {
            agent::AgentOutput::Send(message) => self.send_coordinator(node, *message),
            agent::AgentOutput::Grant { to, repair, lane, first, below } => {
                let (from, slices) = (node, (first, below));
                self.hosts[node.index()].grants.grant(repair, lane, to, first..below);
                self.send_peer(node, to, || Event::Grant { from, to, repair, lane, slices });
            }
            agent::AgentOutput::Prepare { repair, bytes } => {
                let host = &mut self.hosts[node.index()];
                let writer = host.disk.begin(bytes);
                let result = writer.map(|writer| drop(host.writers.insert(repair, writer)));
                self.answer(node, agent::AgentInput::Prepared { repair, result }, None);
            }
            agent::AgentOutput::Continue { repair, from } => {
                let host = &mut self.hosts[node.index()];
                let writer = host.writers.remove(&from);
                host.discard(from);
                let result = writer.ok_or_else(|| Failure::Disk("the temporary is gone".into()));
                let result = result.map(|writer| drop(host.writers.insert(repair, writer)));
                self.answer(node, agent::AgentInput::Prepared { repair, result }, None);
            }
            agent::AgentOutput::Read { id, role, spool } => {
                let read = self.read(node, id, &role, spool);
                let result = read.as_ref().map(|_| ()).map_err(Failure::clone);
                let sources = read.ok().map(|sources| (id, sources));
                self.answer(node, agent::AgentInput::SliceRead { id, result }, sources);
            }
            agent::AgentOutput::Deliver { id, role } => self.deliver(node, id, &role),
            agent::AgentOutput::Spool { id, role } => self.spool(node, id, &role),
            agent::AgentOutput::Spill { id, from, role } => self.spill(node, id, from, &role),
            agent::AgentOutput::Publish { repair, copy, crc, label, .. } => {
                let result = self.publish(node, repair, copy, crc, &label);
                self.answer(node, agent::AgentInput::Published { repair, result }, None);
            }
            agent::AgentOutput::Discard(repair) => self.hosts[node.index()].discard(repair),
            agent::AgentOutput::List => {
                let disk = &self.host(node).disk;
                let listed = disk.list().and_then(|copies| Ok((copies, disk.free_bytes()?)));
                let input = match listed {
                    Ok((copies, free_bytes)) => agent::AgentInput::Listed { copies, free_bytes },
                    Err(_) => agent::AgentInput::NotListed,
                };
                self.answer(node, input, None);
            }
            agent::AgentOutput::Check(check) => {
                let result = short::check(&self.host(node).disk, check.copy, check.digest);
                self.answer(node, agent::AgentInput::Checked { check, result }, None);
            }
            agent::AgentOutput::Fingerprint { request, is_written: true } => {
                let written = self.writer(node, request.repair);
                let result = written.and_then(|at| proof::fingerprint_written(&**at, &request));
                self.answer(node, agent::AgentInput::Fingerprinted { request, result }, None);
            }
            agent::AgentOutput::Fingerprint { request, is_written: false } => {
                let copy = request.copy;
                let result = proof::fingerprint_copy(&self.host(node).disk, &request);
                let result = result.map_err(|fault| Failure::Source { copy, fault });
                self.answer(node, agent::AgentInput::Fingerprinted { request, result }, None);
            }
            agent::AgentOutput::Limit(_) => {} // Nothing here is as slow as a limit.
            agent::AgentOutput::Delete(copy) => {
                self.check_delete(node, copy);
                // A copy that cannot be removed shows in the next listing.
                let _ = self.host(node).disk.delete(copy);
                self.answer(node, agent::AgentInput::Deleted(copy), None);
            }
        }
    }

    /// What has its name is looked at, though publishing it may have failed.
    fn publish(
        &mut self,
        node: NodeId,
        repair: RepairId,
        copy: ChunkCopy,
        crc: Option<u32>,
        label: &Label,
    ) -> Result<(), Failure> {
        let was_there = self.host(node).disk.holds(copy);
        let writer = self.writer(node, repair);
        let result = writer.and_then(|writer| proof::publish(&**writer, copy, crc, label));
        let is_new = !was_there && self.host(node).disk.holds(copy);
        if result.is_ok() || is_new {
            self.check_published(node, copy);
        }
        result
    }

    /// What a repair writes its chunk through.
    fn writer(&self, node: NodeId, repair: RepairId) -> Result<&Arc<dyn ChunkWriter>, Failure> {
        let gone = || Failure::Disk("the temporary is gone".into());
        self.host(node).writers.get(&repair).ok_or_else(gone)
    }

    fn send_coordinator(&mut self, from: NodeId, mut message: FromAgent) {
        if let FromAgent::Heartbeat(beat) = &mut message {
            beat.links = Some(Box::new(self.tried(from)));
        }
        self.watch_outcome(&message);
        let (incarnation, start) = (self.host(from).incarnation, self.starts);
        self.note(|| format!("{from} -> coordinator: {message:?}"));
        self.transmit(|| Event::ToCoordinator {
            from,
            incarnation,
            start,
            message: message.clone(),
        });
    }

    /// Which others a node can reach, and which not.
    fn tried(&self, from: NodeId) -> LinkReport {
        let others = self.nodes().filter(|other| *other != from);
        let (reached, unreached) = others.partition(|to| self.can_reach(from, *to));
        LinkReport { reached, unreached, ..LinkReport::default() }
    }

    fn can_reach(&self, from: NodeId, to: NodeId) -> bool {
        let carries = !self.is_link_dead(from) && !self.is_link_dead(to);
        carries && self.can_receive(Party::Agent(from), Party::Agent(to))
    }

    fn send_peer(&mut self, from: NodeId, to: NodeId, event: impl Fn() -> Event) {
        let is_broken = !self.can_receive(Party::Agent(from), Party::Agent(to));
        if is_broken && !self.host(to).has_vanished && self.random.per_mille(700) {
            // The connection breaks, and the sender is notified.
            self.answer(from, agent::AgentInput::PeerLost(to), None);
            return;
        }
        self.transmit(event);
    }

    fn read(
        &self,
        node: NodeId,
        id: SliceId,
        role: &Role,
        spool: bool,
    ) -> Result<Sources, Failure> {
        match role.spools {
            Spools::Results if spool => Ok(vec![(None, self.read_results(node, id, role)?)]),
            Spools::Sources if spool => {
                let spilled = role.children.iter().map(|child| {
                    let piece = role.spilled_piece(child.node, id.slice).expect("a child");
                    Ok((Some(child.node), self.unspool(node, id, piece)?))
                });
                let own = role.own.iter().map(|_| Ok((None, self.read_own(node, id, role)?)));
                own.chain(spilled).collect()
            }
            _ => Ok(vec![(None, self.read_own(node, id, role)?)]),
        }
    }

    fn read_own(&self, node: NodeId, id: SliceId, role: &Role) -> Result<Vec<u8>, Failure> {
        let Own { copy, digest, .. } = *role.own.as_ref().expect("only helpers read");
        let unusable = |fault| Failure::Source { copy, fault };
        let chunk = short::open_matching(&self.host(node).disk, copy, digest).map_err(unusable)?;
        let mut bytes = vec![0; role.own_bytes(id.slice)];
        let mut rest = &mut bytes[..];
        for piece in role.own_pieces(id.slice) {
            let (now, later) = rest.split_at_mut(piece.bytes);
            short::read(&*chunk, piece.offset, now).map_err(unusable)?;
            rest = later;
        }
        Ok(bytes)
    }

    fn read_results(&self, node: NodeId, id: SliceId, role: &Role) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        for piece in role.spool_pieces(id.slice) {
            bytes.extend(self.unspool(node, id, piece)?);
        }
        Ok(bytes)
    }

    fn unspool(&self, node: NodeId, id: SliceId, piece: Piece) -> Result<Vec<u8>, Failure> {
        let spool = self.host(node).spools.get(&(id.repair, id.lane));
        let spilled = spool.and_then(|spool| spool.get(&piece.offset));
        let spilled = spilled.filter(|spilled| spilled.len() == piece.bytes).cloned();
        spilled.ok_or_else(|| Failure::Disk("the spool cannot be read back".into()))
    }

    fn deliver(&mut self, node: NodeId, id: SliceId, role: &Role) {
        let results = match role.spools {
            Spools::Results => self.spooled(node, id, role),
            Spools::Nothing | Spools::Sources => self.results(node, id, role),
        };
        let Some(results) = results else { return };
        for (sink, bytes) in role.sinks.iter().zip(results) {
            let input = match *sink {
                Sink::Forward(to) => {
                    self.send_peer(node, to, || Event::Slice {
                        from: node,
                        to,
                        id,
                        bytes: bytes.clone(),
                    });
                    agent::AgentInput::SliceLeft(id)
                }
                Sink::Store => self.write(node, id, role, &bytes),
            };
            self.answer(node, input, None);
        }
    }

    fn write(&self, node: NodeId, id: SliceId, role: &Role, bytes: &[u8]) -> agent::AgentInput {
        let gone = || Failure::Disk("the temporary is gone".into());
        let writer = self.host(node).writers.get(&id.repair).ok_or_else(gone);
        let mut rest = bytes;
        let written = writer.and_then(|writer| {
            role.chunk_pieces(id.slice).try_for_each(|piece| {
                let (now, later) = rest.split_at(piece.bytes);
                rest = later;
                short::write(&**writer, piece.offset, now)
            })
        });
        left(id, written)
    }

    fn spool(&mut self, node: NodeId, id: SliceId, role: &Role) {
        let Some(results) = self.results(node, id, role) else { return };
        let host = &mut self.hosts[node.index()];
        let mut pieces = role.spool_pieces(id.slice).zip(results);
        let written = pieces.try_for_each(|(piece, result)| host.spool(id, piece.offset, result));
        self.answer(node, left(id, written), None);
    }

    fn spill(&mut self, node: NodeId, id: SliceId, from: NodeId, role: &Role) {
        let host = &mut self.hosts[node.index()];
        let Some(bytes) = host.buffers.remove(&(id, Some(from))) else { return };
        let piece = role.spilled_piece(from, id.slice).expect("only children are kept");
        let input = match host.spool(id, piece.offset, bytes) {
            Ok(()) => agent::AgentInput::SliceSpilled { from, id },
            Err(why) => agent::AgentInput::WriteFailed { repair: id.repair, why },
        };
        self.answer(node, input, None);
    }

    /// Combines the sources of a slice, which leave memory. `None` if the task was dropped
    /// meanwhile.
    fn results(&mut self, node: NodeId, id: SliceId, role: &Role) -> Option<Vec<Vec<u8>>> {
        let buffers = &mut self.hosts[node.index()].buffers;
        let own = match &role.own {
            Some(_) => Some(buffers.remove(&(id, None))?),
            None => None,
        };
        let children = role.children.iter().map(|child| buffers.remove(&(id, Some(child.node))));
        let children = children.collect::<Option<Vec<Vec<u8>>>>()?;
        let sources: Vec<&[u8]> = children.iter().map(Vec::as_slice).collect();
        let mut results = vec![vec![0; role.result_bytes(id.slice)]; role.sinks.len()];
        let mut into: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        let scratch = &mut Scratch::default();
        let combined = role.combine(scratch, id.slice, own.as_deref(), &sources, &mut into);
        combined.expect("what agents want has the right lengths");
        if self.host(node).has_bad_memory && self.random.per_mille(200) {
            self.coverage.count(Kind::BadMemory);
            let at = self.random.index(results.len());
            let result = &mut results[at];
            let bit = self.random.below(8 * result.len() as u64);
            result[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        Some(results)
    }

    /// The results of a slice that were combined before and have come back from the spool.
    fn spooled(&mut self, node: NodeId, id: SliceId, role: &Role) -> Option<Vec<Vec<u8>>> {
        let spooled = self.hosts[node.index()].buffers.remove(&(id, None))?;
        Some(spooled.chunks(role.result_bytes(id.slice)).map(<[u8]>::to_vec).collect())
    }
}

fn left(id: SliceId, written: Result<(), Failure>) -> agent::AgentInput {
    match written {
        Ok(()) => agent::AgentInput::SliceLeft(id),
        Err(why) => agent::AgentInput::WriteFailed { repair: id.repair, why },
    }
}
