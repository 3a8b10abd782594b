//! Agents that join under the name of a node that is not theirs.
//!
//! Place: [an agent joins] -> failure detected -> ...
//! A configuration was copied, or a disk is not mounted: an agent with an empty disk joins under
//! the name of a node that is up, or about to be again. Or a whole disk was copied, and two agents
//! have it. The coordinator refuses them, as in production: by the store that the name belongs to,
//! and by the session that the node's own agent has. Where it does not, the stranger is the node.

use suture_repair::id::NodeId;
use suture_repair::keeper::admission::Joining;
use suture_repair::time::Span;

use crate::disk::Disk;
use crate::fault::Kind;
use crate::party::Party;
use crate::world::{Event, Impostor, Recovery, World};

/// Between two attempts to join.
const AGAIN_AFTER: Span = Span::from_millis(60);

impl World {
    /// An agent begins to join under some node's name.
    pub(super) fn begin_impostor(&mut self, span: Span) {
        let (node, is_copied) = (self.any_node(), self.random.per_mille(300));
        let store = if is_copied { None } else { Some(self.new_store()) };
        self.join_impostor(Impostor { node, store, until: self.now + span });
    }

    /// It joins, or tries to.
    pub(super) fn join_impostor(&mut self, impostor: Impostor) {
        let Impostor { node, store, until } = impostor;
        let is_known = self.coordinator.is_some() && self.metadata.store(node).is_some();
        let has_session = self.host(node).agent.is_some()
            && self.metadata.has_joined(node)
            && self.can_receive(Party::Agent(node), Party::Coordinator);
        match store {
            // The agent that has the store has the name: only a session shows that there are two.
            None if has_session => self.coverage.count(Kind::Impostor),
            Some(store) if is_known => {
                let joining = Joining { store: Some(store), is_new: true, takes_name: false };
                match self.admit(node, joining) {
                    Err(_) => self.coverage.count(Kind::Impostor),
                    Ok(()) => return self.take_place(node, store),
                }
            }
            _ => {}
        }
        if self.now + AGAIN_AFTER <= until {
            self.later(AGAIN_AFTER, Event::Recovery(Recovery::Impostor(impostor)));
        }
    }

    /// The stranger was welcomed: it is the node from now on, with a disk of its own.
    fn take_place(&mut self, node: NodeId, store: u64) {
        self.note(|| format!("an impostor is {node}"));
        let empty = Disk::new(self.options.disk_bytes, self.options.safeguards);
        let host = &mut self.hosts[node.index()];
        host.agent = None;
        let own = std::mem::replace(&mut host.disk, empty);
        host.disk_of_node.get_or_insert(own);
        host.store = store;
        self.start_agent(node);
    }
}
