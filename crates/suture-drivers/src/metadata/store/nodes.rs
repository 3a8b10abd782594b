//! Nodes: their names, which store has each, and what an operator declares of them.
//!
//! Place: [an agent joins] -> failure detected -> ... : its identity, before anything of it is
//! accepted. A name comes from a configuration, which is easily copied; a store has an id of its
//! own. So a name belongs to the store that first had it, until an operator gives it to the next
//! new one. Invariant: no two stores have one name, and no store loses it without an operator's
//! word.

use std::fmt;

use rusqlite::{Connection, OptionalExtension, params};
use suture_edge::units::counted;
use suture_repair::event::{Command, Input};
use suture_repair::id::NodeId;
use suture_repair::keeper::admission::{Joining, Known, Refused};

use super::{MetadataError, MetadataStore, NewNode, NodeRecord};
use crate::store::StoreId;

/// What is known of a node whose name an agent wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    id: NodeId,
    /// The name that both have.
    pub name: String,
    address: String,
    chunks: u64,
    store: Option<StoreId>,
    is_removed: bool,
    is_replaced: bool,
}

/// What an operator wants of a node, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptIntent {
    /// Nothing, it serves like any other.
    Serving,
    /// Its chunks count as lost.
    Failed,
    /// Its chunks move elsewhere.
    Draining,
    /// It may be silent.
    Paused {
        /// Until then, in seconds since 1970.
        until: u64,
    },
}

impl KnownNode {
    /// What decides whether an agent may have the name, if the node holds so many chunks.
    fn facts(&self, chunks: u64) -> Known {
        Known {
            chunks,
            store: self.store.map(|store| store.0),
            is_removed: self.is_removed,
            is_replaced: self.is_replaced,
        }
    }
}

impl MetadataStore {
    /// All nodes, in the order of their ids.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn nodes(&self) -> Result<Vec<NodeRecord>, MetadataError> {
        let mut query = self.database.prepare_cached(
            "SELECT id, name, rack, address, uplink, downlink, store FROM node ORDER BY id",
        )?;
        let nodes = query.query_map([], |row| {
            let id = NodeId(row.get(0)?);
            let (name, rack, address) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let (uplink, downlink) = (row.get(4)?, row.get(5)?);
            let store = row.get::<_, Option<i64>>(6)?.map(|id| StoreId(id.cast_unsigned()));
            let processor = None;
            let node = NewNode { name, rack, address, uplink, downlink, store, processor };
            Ok(NodeRecord { id, node })
        })?;
        let nodes: Vec<NodeRecord> = nodes.collect::<Result<_, _>>()?;
        // They are known by their places in this list.
        match (0..).zip(&nodes).find(|(index, node)| node.id != NodeId(*index)) {
            Some((missing, _)) => {
                Err(MetadataError::Damaged(format!("{} is missing", NodeId(missing))))
            }
            None => Ok(nodes),
        }
    }

    /// Registers a node, or notes what changed of the one with this name. One that was removed is a
    /// node again. Where the name was given away, or taken, and chunks are recorded on the node,
    /// these are not counted on before they are listed.
    ///
    /// # Errors
    /// When the name is that of a node with another store, and no operator gave it away; when the
    /// database fails or what it holds is damaged.
    pub fn join(&mut self, node: &NewNode) -> Result<NodeId, MetadataError> {
        self.check_joining(node, false, false)?;
        let transaction = self.database.transaction()?;
        let returns = transaction.execute(
            "UPDATE node SET removed = 0, failed = 0, draining = 0, paused_until = NULL
             WHERE name = ?1 AND removed",
            [&node.name],
        )?;
        let store = node.store.map(|store| store.0.cast_signed());
        let id = transaction.query_row(
            "INSERT INTO node (id, name, rack, address, uplink, downlink, store, failed)
             VALUES ((SELECT count(*) FROM node), ?1, ?2, ?3, ?4, ?5, ?6, 0)
             ON CONFLICT (name) DO UPDATE
             SET rack = excluded.rack, address = excluded.address, uplink = excluded.uplink,
                 downlink = excluded.downlink, store = excluded.store,
                 replaced = CASE
                     WHEN (node.replaced > 0 OR node.store IS NOT excluded.store)
                         AND EXISTS (SELECT 1 FROM chunk WHERE chunk.node = node.id)
                     THEN 2 ELSE 0 END
             RETURNING id",
            params![node.name, node.rack, node.address, node.uplink, node.downlink, store],
            |row| Ok(NodeId(row.get(0)?)),
        )?;
        transaction.commit()?;
        // Reported as a change, so that receivers that keep nodes by number get them in order.
        let rack = node.rack.clone();
        self.changes.push(Input::NodeAdded { id, node: node.as_planned(), rack });
        if returns > 0 {
            self.changes.push(Input::Operator(Command::ReturnNode(id)));
        }
        Ok(id)
    }

    /// Refuses an agent under the name of a node with another store, and one that begins anew under
    /// the name of a node that holds chunks: the disk with them may only be missing, and to take
    /// the agent in would have all of them rebuilt.
    ///
    /// # Errors
    /// When there is such a node, and no operator gave its name away; when the database fails.
    pub fn check_joining(
        &self,
        node: &NewNode,
        is_new: bool,
        takes_name: bool,
    ) -> Result<(), MetadataError> {
        let Some(known) = self.known(&node.name)? else { return Ok(()) };
        let joining = Joining { store: node.store.map(|store| store.0), is_new, takes_name };
        // Counting reads the records of all chunks, and all agents join at once after a start.
        if known.facts(1).admit(joining).is_ok() {
            return Ok(());
        }
        let known = KnownNode { chunks: chunks_on(&self.database, known.id)?, ..known };
        known.facts(known.chunks).admit(joining).map_err(|refused| match refused {
            Refused::NewStore => MetadataError::NewStore(known),
            Refused::OtherStore => MetadataError::OtherStore(known),
        })
    }

    /// Gives the names of nodes to the next stores that join under them, whichever these are.
    ///
    /// # Errors
    /// When the database fails.
    pub fn replace_nodes(&mut self, nodes: &[NodeId]) -> Result<(), MetadataError> {
        let transaction = self.database.transaction()?;
        for node in nodes {
            transaction.execute("UPDATE node SET replaced = 1 WHERE id = ?1", [node.0])?;
        }
        Ok(transaction.commit()?)
    }

    /// The same by its name, if there is such a node.
    ///
    /// # Errors
    /// When the database fails.
    pub fn give_name_away(&mut self, name: &str) -> Result<(), MetadataError> {
        self.database.execute("UPDATE node SET replaced = 1 WHERE name = ?1", [name])?;
        Ok(())
    }

    /// The store that has the node's name holds all that is recorded there, as it has listed.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note_whole(&mut self, node: NodeId) -> Result<(), MetadataError> {
        let noted = "UPDATE node SET replaced = 0 WHERE id = ?1 AND replaced = 2";
        self.database.execute(noted, [node.0])?;
        Ok(())
    }

    /// Removes nodes that hold nothing, all or none: they count as failed and are no longer shown,
    /// until an agent joins under their name.
    ///
    /// # Errors
    /// When chunks are recorded on one of them, and when the database fails.
    pub fn remove_nodes(&mut self, nodes: &[NodeId]) -> Result<(), MetadataError> {
        let transaction = self.database.transaction()?;
        for &node in nodes {
            let chunks = chunks_on(&transaction, node)?;
            if chunks > 0 {
                return Err(MetadataError::NodeHolds { node, chunks });
            }
            transaction
                .execute("UPDATE node SET removed = 1, failed = 1 WHERE id = ?1", [node.0])?;
        }
        transaction.commit()?;
        self.changes.extend(nodes.iter().map(|n| Input::Operator(Command::FailNode(*n))));
        Ok(())
    }

    /// What the operator wants of the node, in the place of what was wanted before.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn set_node_intent(
        &mut self,
        node: NodeId,
        intent: KeptIntent,
    ) -> Result<(), MetadataError> {
        let until = match intent {
            KeptIntent::Paused { until } => Some(until.cast_signed()),
            KeptIntent::Serving | KeptIntent::Failed | KeptIntent::Draining => None,
        };
        let (failed, draining) = (intent == KeptIntent::Failed, intent == KeptIntent::Draining);
        self.database.execute(
            "UPDATE node SET failed = ?2, draining = ?3, paused_until = ?4 WHERE id = ?1",
            params![node.0, failed, draining, until],
        )?;
        Ok(())
    }

    /// The node of this name, without the count of its chunks.
    fn known(&self, name: &str) -> Result<Option<KnownNode>, MetadataError> {
        let query = "SELECT id, address, store, removed, replaced = 1 FROM node WHERE name = ?1";
        let known = self.database.query_row(query, [name], |row| {
            Ok(KnownNode {
                id: NodeId(row.get(0)?),
                name: name.to_string(),
                address: row.get(1)?,
                chunks: 0,
                store: row.get::<_, Option<i64>>(2)?.map(|id| StoreId(id.cast_unsigned())),
                is_removed: row.get(3)?,
                is_replaced: row.get(4)?,
            })
        });
        Ok(known.optional()?)
    }
}

/// How many chunks are recorded on a node; reads the records of all chunks.
fn chunks_on(database: &Connection, node: NodeId) -> rusqlite::Result<u64> {
    let count = "SELECT count(*) FROM chunk WHERE node = ?1";
    database.query_row(count, [node.0], |row| row.get(0))
}

impl fmt::Display for KnownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = counted(self.chunks, "chunk");
        write!(f, "last at {} and with {chunks} on record", self.address)
    }
}
