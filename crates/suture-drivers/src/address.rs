//! Addresses: of coordinators as people write them, of agents as coordinators send them.
//!
//! Place: [arguments and configuration] -> a connection made. An address that cannot be right is
//! refused where it is read, with what is wrong: a resolver or a socket would only fail later.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use suture_edge::error::quoted;
use suture_repair::id::NodeId;

/// Where coordinators listen unless an address says otherwise.
const PORT: u16 = 7400;

/// Where an agent listens, and its identity, which the process that answers there has to prove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentAddress {
    /// The name of its node; empty without credentials, where none is proven.
    pub name: Arc<str>,
    /// The number of its node, which the agent that answers has to announce; none where any agent
    /// may answer.
    pub node: Option<NodeId>,
    /// The address that it listens on.
    pub addr: SocketAddr,
}

impl From<SocketAddr> for AgentAddress {
    fn from(addr: SocketAddr) -> AgentAddress {
        AgentAddress { name: "".into(), node: None, addr }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => self.addr.fmt(f),
            name => write!(f, "{name} at {}", self.addr),
        }
    }
}

/// The address of a coordinator as people write it, with its port.
///
/// # Errors
/// What is wrong with it.
pub fn parse_address(text: &str) -> Result<String, String> {
    let wrong =
        |why: &str| Err(format!("{} is not an address like 127.0.0.1:{PORT}: {why}", quoted(text)));
    if text.is_empty() {
        return wrong("it is empty");
    }
    if text.contains("://") {
        return wrong("leave out what stands before the host");
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]:{PORT}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)),
        None => (text, Some(PORT)),
    };
    let Some(port) = port else { return wrong("ports are numbers from 1 to 65535") };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_v6 = inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    let is_name = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    if !is_v6 && (host.is_empty() || !host.chars().all(is_name)) {
        return wrong("the host is a name or an IP address");
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::parse_address;

    #[test]
    fn an_address_needs_no_port_and_a_wrong_one_is_refused() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:7400"),
            ("storage-1.example:80", "storage-1.example:80"),
            ("::1", "[::1]:7400"),
            ("[::1]", "[::1]:7400"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(parse_address(text).as_deref(), Ok(address));
        }
        for text in [
            "", ":", ":7400", "h:", "h:0", "h:65536", "h:99999", "h:x", "a b", "a/b", "u@h:1",
            "::1:x", "http://h", "[::1", "[h]:1", "h\n",
        ] {
            let error = parse_address(text).unwrap_err();
            assert!(error.contains("is not an address like 127.0.0.1:7400"), "{error}");
        }
    }
}
