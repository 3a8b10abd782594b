//! What is asked of the plugin in the NameNode, and what it answers.
//!
//! Place: [stripes affected] ... [claim] ... [commit location].
//! The other end answers in the order in which it is asked. An answer with `error` is a refusal;
//! one that is malformed ends the connection.

use std::fmt::Debug;
use std::io::{Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use suture_repair::keeper::KeeperError;

use super::frame::Frames;
use super::group::Group;

/// A question to the NameNode's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Question {
    /// Whether this NameNode is the active one and knows what is lost.
    State,
    /// Leave lost blocks to Suture for so long, but for these groups.
    Lease {
        /// For how long from now on.
        millis: u64,
        /// What HDFS is to rebuild by itself meanwhile.
        leave: Vec<LeftGroup>,
    },
    /// Which DataNodes there are.
    Nodes,
    /// What has changed of the groups at risk since it was last asked.
    Groups,
    /// Leave these groups to these repairs.
    Claim {
        /// At most [`CLAIMS_MAX`] of them.
        claims: Vec<GroupClaim>,
    },
    /// A repair has ended.
    Release {
        /// The repair whose claim ends.
        repair: u64,
    },
    /// Whether a block has arrived at a node.
    Confirm {
        /// The id of its group.
        group: i64,
        /// The generation stamp that it must have.
        stamp: u64,
        /// Its place in the group.
        index: u8,
        /// The UUID of the DataNode.
        node: String,
    },
    /// A block is wrong by all others of its group, whatever its checksums say: it is to count as
    /// corrupt.
    Condemn {
        /// The id of its group.
        group: i64,
        /// The generation stamp that it must have.
        stamp: u64,
        /// Its place in the group.
        index: u8,
        /// The UUID of the DataNode.
        node: String,
    },
}

/// Claims in one question: the NameNode's lock is held for all of them.
pub const CLAIMS_MAX: usize = 64;

/// Names are as long as those of nodes may be (`config.rs`).
const NAME_BYTES_MAX: usize = 128;

/// A group that HDFS rebuilds by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftGroup {
    /// The id of the group.
    pub group: i64,
}

/// A repair that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupClaim {
    /// The id of the repair.
    pub repair: u64,
    /// The group that it repairs.
    pub group: i64,
    /// The generation stamp that the group must have.
    pub stamp: u64,
    /// What it builds and where.
    pub targets: Vec<ClaimedBlock>,
}

/// An internal block that is about to be built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedBlock {
    /// Its place in the group.
    pub index: u8,
    /// The UUID of the DataNode that gets it.
    pub node: String,
}

/// Whether the NameNode serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateAnswer {
    /// It is the active one and out of safe mode.
    pub active: bool,
}

/// Nothing but that it was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneAnswer {}

/// All DataNodes that the NameNode knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesAnswer {
    /// Also those that are dead.
    pub nodes: Vec<DataNode>,
}

/// A DataNode as the NameNode sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNode {
    /// The UUID of the DataNode.
    pub node: String,
    /// `HOST:PORT` as it registered.
    pub name: String,
    /// Its network location, such as `/rack1`.
    pub rack: String,
    /// How the NameNode sees it.
    pub state: DataNodeState,
}

impl DataNode {
    /// Whether name and rack can be those of a node: for tables, plans and certificates.
    pub fn is_named(&self) -> bool {
        let is_plain = |text: &str| {
            let is_text = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
            is_text && (1..=NAME_BYTES_MAX).contains(&text.len())
        };
        is_plain(&self.name) && is_plain(&self.rack)
    }
}

/// How the NameNode sees a DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataNodeState {
    /// It is in service.
    Up,
    /// Being decommissioned or in maintenance, or decommissioned already.
    Leaving,
    /// Silent for too long.
    Dead,
}

/// Changes among the groups at risk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsAnswer {
    /// Those that are new or changed.
    pub groups: Vec<Group>,
    /// At risk no more, or no more at all.
    pub gone: Vec<i64>,
    /// Whether to ask again at once.
    pub more: bool,
}

/// What became of claims, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimsAnswer {
    /// One for each claim, in order.
    pub claims: Vec<ClaimAnswer>,
}

/// What became of one claim: targets where it was granted, else why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimAnswer {
    /// Where the placement policy puts each block.
    pub targets: Vec<ChosenStorage>,
    /// Why it was refused, for people.
    pub why: Option<String>,
    /// The group as it stands, where it was refused; none: it is gone.
    pub group: Option<Group>,
}

/// The storage that a block goes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenStorage {
    /// The place of the block in its group.
    pub index: u8,
    /// The id of the storage.
    pub storage: String,
    /// Its kind, such as `DISK`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Whether a block has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmAnswer {
    /// Whether the block is there.
    pub live: bool,
    /// The group as it stands; none: it is gone.
    #[serde(default)]
    pub group: Option<Group>,
}

/// What became of a block that was condemned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CondemnAnswer {
    /// The group as it stands; none: it is gone.
    #[serde(default)]
    pub group: Option<Group>,
}

/// The first word of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginHandshake {
    /// The protocol that it speaks.
    pub protocol: String,
    /// The Hadoop that it runs in.
    pub hadoop: String,
    /// The block pool of the NameNode.
    pub pool: String,
    /// Whether it understands that a block is condemned; those before it do not.
    #[serde(default)]
    pub condemns: bool,
}

/// The answer to it, and a refusal of any question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind of refusal it is, in a word.
    pub error: String,
    /// What to do, for people.
    pub why: String,
}

/// The answer to a handshake that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcoming {
    /// What this end speaks.
    pub protocol: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PluginAnswer<T> {
    Refused(Refusal),
    Given(T),
}

/// The NameNode's plugin, wherever it is.
pub trait NameNode: Debug {
    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// When there is no active NameNode, or the connection fails.
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError>;

    /// The block pool of its namespace, where it is known.
    fn pool(&self) -> Option<String> {
        None
    }

    /// Whether it understands that a block is condemned.
    fn condemns(&mut self) -> bool {
        true
    }
}

/// Asks, and reads the answer.
///
/// # Errors
/// As [`NameNode::ask_json`]; when the question is refused or the answer is none.
pub fn ask<T: DeserializeOwned>(
    namenode: &mut dyn NameNode,
    question: &Question,
) -> Result<T, KeeperError> {
    let answer = namenode.ask_json(question)?;
    match serde_json::from_value(answer) {
        Ok(PluginAnswer::Given(answer)) => Ok(answer),
        Ok(PluginAnswer::Refused(Refusal { error, why })) => {
            Err(KeeperError(format!("{error}: {why}")))
        }
        Err(error) => Err(KeeperError(format!("its answer makes no sense: {error}"))),
    }
}

impl<S: Read + Write + Debug> NameNode for Frames<S> {
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        let answer = self.send(question).and_then(|()| self.receive());
        answer.map_err(|error| KeeperError(error.to_string()))
    }
}
