//! Which roles may make which calls of a coordinator: one table.
//!
//! Place: a call comes -> [its caller may make it] -> it is answered.
//! A certificate names a role, and the table the calls of each role. Where certificates are
//! required, a peer without one is refused before this; where they are not, on loopback or by
//! `insecure`, every caller may make every call, as the machine's own users may. A client's calls
//! are about objects whose names begin with its prefix, and about no others.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use suture_edge::error::quoted;
use tonic::Status;

use super::proto::NodeAction;
use crate::identity::certificate::{Flaw, Statement};
use crate::identity::credentials::Proven;
use crate::identity::{AccessRole, Principal};

/// What may be asked. One call of the protocol may be several of these, by what it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A session of an agent begins.
    Session,
    /// Objects are to be stored.
    Put,
    /// The same in the place of others of their names.
    Overwrite,
    /// The client of a put has a new certificate.
    RenewPut,
    /// Where an object's chunks are, to read them.
    Lookup,
    /// Which objects there are.
    List,
    /// How an object does.
    Stat,
    /// An object is removed.
    Remove,
    /// A copy was found to be bad.
    ReportBad,
    /// How the cluster does.
    Status,
    /// What a repair of all that is lost, or of one object, would do.
    PreviewRepair,
    /// A node counts as lost.
    FailNode,
    /// It counts as lost no more.
    ReturnNode,
    /// Its chunks move elsewhere.
    DrainNode,
    /// It may be silent for a while.
    PauseNode,
    /// Its name is for a new store.
    ReplaceNode,
    /// A node without chunks is forgotten.
    RemoveNode,
    /// Repairs begin, rest, go on or are given up.
    CommandRepair,
    /// What repair may take changes.
    SetThrottle,
    /// Every copy is read.
    StartScrub,
    /// All metadata are copied.
    BackupMetadata,
}

impl Call {
    /// Whether an operator who looks at the status next expects to see what it did. What clients
    /// store and remove, and agents that join, do not count: they come all the time.
    pub fn changes_status(self) -> bool {
        matches!(
            self,
            Call::FailNode
                | Call::ReturnNode
                | Call::DrainNode
                | Call::PauseNode
                | Call::ReplaceNode
                | Call::RemoveNode
                | Call::CommandRepair
                | Call::SetThrottle
                | Call::StartScrub
        )
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What is asked by it.
    pub call: Call,
    /// The call of the protocol.
    pub rpc: &'static str,
    /// In words: to do what.
    pub to: &'static str,
    /// What the audit log has to do with it.
    pub record: Record,
    /// The roles that may ask it.
    pub roles: &'static [AccessRole],
}

/// What the audit log has to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It changes nothing, and is not written down.
    No,
    /// It is written down if that can be done: repairs wait for it.
    IfPossible,
    /// It is not carried out unless it is written down.
    First,
}

const fn rule(
    call: Call,
    rpc: &'static str,
    to: &'static str,
    record: Record,
    roles: &'static [AccessRole],
) -> Rule {
    Rule { call, rpc, to, record, roles }
}

use AccessRole::{Admin, Agent, Client, Operator, Viewer};

/// The roles that may make each call, a line for each call.
#[rustfmt::skip]
pub const TABLE: [Rule; 21] = [
    rule(Call::Session, "Session", "join as an agent", Record::IfPossible, &[Agent]),
    rule(Call::Put, "Put", "put objects", Record::First, &[Client, Admin]),
    rule(Call::Overwrite, "Put", "overwrite objects", Record::First, &[Client, Admin]),
    rule(Call::RenewPut, "RenewPut", "put objects", Record::No, &[Client, Admin]),
    rule(Call::Lookup, "Lookup", "read objects", Record::No, &[Client, Admin]),
    rule(Call::List, "List", "list objects", Record::No, &[Viewer, Client, Operator, Admin]),
    rule(Call::Stat, "Stat", "look at objects", Record::No, &[Viewer, Client, Operator, Admin]),
    rule(Call::Remove, "Remove", "remove objects", Record::First, &[Client, Admin]),
    rule(Call::ReportBad, "ReportBad", "report bad copies", Record::IfPossible, &[Client, Admin]),
    rule(Call::Status, "Status", "look at the cluster", Record::No, &[Viewer, Operator, Admin]),
    rule(Call::PreviewRepair, "PreviewRepair", "plan repairs", Record::No, &[Viewer, Operator, Admin]),
    rule(Call::FailNode, "CommandNode", "fail nodes", Record::First, &[Operator, Admin]),
    rule(Call::ReturnNode, "CommandNode", "return nodes", Record::First, &[Operator, Admin]),
    rule(Call::DrainNode, "CommandNode", "drain nodes", Record::First, &[Operator, Admin]),
    rule(Call::PauseNode, "CommandNode", "pause nodes", Record::First, &[Operator, Admin]),
    rule(Call::ReplaceNode, "CommandNode", "replace nodes", Record::First, &[Admin]),
    rule(Call::RemoveNode, "CommandNode", "remove nodes", Record::First, &[Admin]),
    rule(Call::CommandRepair, "CommandRepair", "command repairs", Record::First, &[Operator, Admin]),
    rule(Call::SetThrottle, "SetThrottle", "throttle repairs", Record::First, &[Operator, Admin]),
    rule(Call::StartScrub, "StartScrub", "start a scrub", Record::First, &[Operator, Admin]),
    // Agents keep backups of the metadata.
    rule(Call::BackupMetadata, "BackupMetadata", "back up the metadata", Record::IfPossible, &[Agent, Admin]),
];

impl Call {
    /// The line of the table that is about it.
    pub fn rule(self) -> &'static Rule {
        TABLE.iter().find(|rule| rule.call == self).expect("every call has a rule")
    }

    /// Checks that a principal's role permits the call.
    ///
    /// # Errors
    /// That its role may not, and which may.
    pub fn check_role(self, who: &Principal) -> Result<(), String> {
        let rule = self.rule();
        if rule.roles.contains(&who.role) {
            return Ok(());
        }
        let roles: Vec<&str> = rule.roles.iter().map(|role| role.word()).collect();
        Err(format!("{who} may not {}: the role is {}", rule.to, roles.join(" or ")))
    }

    /// What a command for a node is. An unknown action is checked as the most widely permitted one,
    /// so that a caller without any node permission cannot probe which actions exist.
    pub fn of_node(action: NodeAction) -> Call {
        match action {
            NodeAction::Unspecified | NodeAction::Fail => Call::FailNode,
            NodeAction::Return => Call::ReturnNode,
            NodeAction::Drain => Call::DrainNode,
            NodeAction::Pause => Call::PauseNode,
            NodeAction::Replace => Call::ReplaceNode,
            NodeAction::Remove => Call::RemoveNode,
        }
    }
}

/// The caller at the other end of a connection, once it is known: before that no call comes.
#[derive(Clone, Debug, Default)]
pub struct CallerCell(Arc<OnceLock<Caller>>, Arc<AtomicBool>);

impl CallerCell {
    /// The caller, if it is known.
    pub fn get(&self) -> Option<&Caller> {
        self.0.get()
    }

    /// Notes the caller; once for each connection.
    pub fn set(&self, caller: Caller) {
        self.0.set(caller).expect("a connection is believed once");
    }

    /// Notes whether its connection is one too many: gives whether that is new.
    pub fn set_crowded(&self, is_crowded: bool) -> bool {
        self.1.swap(is_crowded, Ordering::Relaxed) != is_crowded
    }

    /// Lets a call of a connection that has a place through.
    ///
    /// # Errors
    /// That there are too many connections.
    pub fn check_place(&self) -> Result<(), Status> {
        if self.1.load(Ordering::Relaxed) {
            Err(Status::resource_exhausted(
                "the coordinator has too many connections, or too many of yours: end some, or try \
                 again later",
            ))
        } else {
            Ok(())
        }
    }
}

/// A caller: its principal, and its address.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its principal; none where callers are not authenticated.
    pub principal: Option<Principal>,
    /// Where its connection comes from.
    pub from: SocketAddr,
    proof: Option<Arc<Proven>>,
}

impl Caller {
    /// A caller that has proven its principal.
    pub fn proven(proof: Arc<Proven>, from: SocketAddr) -> Caller {
        Caller { principal: Some(proof.statement.principal.clone()), from, proof: Some(proof) }
    }

    /// A caller without credentials, which has nothing to prove.
    pub fn unproven(from: SocketAddr) -> Caller {
        Caller { principal: None, from, proof: None }
    }

    /// What its certificate says, if it has shown one.
    pub fn statement(&self) -> Option<&Statement> {
        self.proof.as_ref().map(|proof| &proof.statement)
    }

    /// What distinguishes it from others: its principal, or else its address.
    pub fn name(&self) -> String {
        let address = || self.from.ip().to_string();
        self.principal.as_ref().map_or_else(address, ToString::to_string)
    }

    /// Whether it is to be accepted still: certificates end while connections last.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_still(&self) -> Result<(), Status> {
        let still = self.proof.as_ref().map_or(Ok(()), |proof| proof.check());
        still.map_err(|flaw| {
            let remedy = match (&flaw, &self.principal) {
                (Flaw::Expired | Flaw::Authority, Some(who)) => {
                    format!(": take a new one ({}) and begin again", who.command())
                }
                _ => String::new(),
            };
            Status::unauthenticated(format!("your certificate: {flaw}{remedy}"))
        })
    }

    /// Whether its certificate was taken back meanwhile.
    pub fn is_revoked(&self) -> bool {
        self.proof.as_ref().is_some_and(|proof| proof.check() == Err(Flaw::Revoked))
    }

    /// Whether it only looks, or has objects of its own: such callers may be many.
    pub fn is_guest(&self) -> bool {
        let role = self.principal.as_ref().map(|who| who.role);
        matches!(role, Some(AccessRole::Viewer | AccessRole::Client))
    }

    /// Lets it ask that, or not.
    ///
    /// # Errors
    /// That its role may not, and which may.
    pub fn check(&self, call: Call) -> Result<(), Status> {
        let checked = self.principal.as_ref().map_or(Ok(()), |who| call.check_role(who));
        checked.map_err(Status::permission_denied)
    }

    /// Lets it name that object, or names that begin so, or not.
    ///
    /// # Errors
    /// That the name has not its prefix.
    pub fn check_name(&self, name: &str) -> Result<(), Status> {
        match &self.principal {
            Some(who) if !name.starts_with(&who.prefix) => {
                let (name, prefix) = (quoted(name), &who.prefix);
                Err(Status::permission_denied(format!(
                    "{name} is not {who}'s: its objects have names that begin with {prefix}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The names that it lists: those that begin so, but of a client only its own.
    ///
    /// # Errors
    /// That none of its own begin so.
    pub fn listed(&self, prefix: String) -> Result<String, Status> {
        match &self.principal {
            Some(who) if who.prefix.starts_with(&prefix) => Ok(who.prefix.clone()),
            _ => self.check_name(&prefix).map(|()| prefix),
        }
    }

    /// The name that it joins under must be its own.
    ///
    /// # Errors
    /// When it is the name of another node.
    pub fn check_node(&self, name: &str) -> Result<(), Status> {
        match &self.principal {
            Some(who) if who.name != name => Err(Status::permission_denied(format!(
                "the certificate of this agent says that it is {who}, not {}",
                quoted(name)
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.principal {
            Some(who) => write!(f, "{who} at {}", self.from),
            None => write!(f, "{}", self.from),
        }
    }
}
