//! How callers are authenticated, and until when: what an operator has to know of certificates.
//!
//! Place: beside the life of a repair: a certificate that ended unnoticed ends repairs too.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::access::Caller;
use crate::identity::AccessRole;
use crate::identity::certificate::Statement;
use crate::identity::credentials::Kept;

/// What a coordinator authenticates its callers by.
#[derive(Debug)]
pub struct Trust {
    /// The coordinator's own; none where no caller is authenticated.
    credentials: Option<Arc<Kept>>,
    listen: IpAddr,
    /// The certificates that agents showed last, by their names.
    agents: Mutex<BTreeMap<String, Statement>>,
}

/// Under which name and where a node of the cluster is.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeAddress<'a> {
    pub name: &'a str,
    pub address: &'a str,
}

impl Trust {
    /// That of a coordinator with these credentials, if any, which listens there.
    pub fn new(credentials: Option<Arc<Kept>>, listen: IpAddr) -> Trust {
        Trust { credentials, listen, agents: Mutex::default() }
    }

    /// Notes by which certificate an agent was accepted.
    pub(super) fn note(&self, caller: &Caller) {
        let Some(statement) = caller.statement() else { return };
        if statement.principal.role == AccessRole::Agent {
            let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
            agents.insert(statement.principal.name.clone(), statement.clone());
        }
    }

    /// What an operator has to know: that nothing is proven, or what soon will be no more. `nodes`
    /// are those in the cluster.
    pub(super) fn warnings<'a>(
        &self,
        nodes: impl Iterator<Item = NodeAddress<'a>>,
        now: SystemTime,
    ) -> Vec<String> {
        let Some(credentials) = &self.credentials else {
            let exposed = |address: &str| {
                address.parse().is_ok_and(|address: SocketAddr| !address.ip().is_loopback())
            };
            let is_open =
                !self.listen.is_loopback() || nodes.into_iter().any(|node| exposed(node.address));
            return is_open.then(|| INSECURE.to_owned()).into_iter().collect();
        };
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let of_agents = nodes.filter_map(|node| agents.get(node.name)?.warning(now));
        credentials.current().warnings(now).into_iter().chain(of_agents).collect()
    }
}

const INSECURE: &str = "insecure: anyone who can reach this cluster over the network can read, \
                        change and remove everything, since nobody has to prove who they are \
                        ('suture cert' makes credentials for all)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_can_be_reached_from_elsewhere_is_insecure() {
        let of = |listen: &str, node: &str| {
            let trust = Trust::new(None, listen.parse().unwrap());
            let node = NodeAddress { name: "n1", address: node };
            trust.warnings([node].into_iter(), SystemTime::now())
        };
        assert!(of("127.0.0.1", "127.0.0.1:7000").is_empty());
        assert!(of("::1", "").is_empty());
        for (listen, node) in [("0.0.0.0", ""), ("127.0.0.1", "10.0.0.7:7000"), ("::", "[::1]:1")] {
            assert!(of(listen, node)[0].starts_with("insecure: "), "{listen} {node}");
        }
    }
}
