//! Principals: a name and a role each, stated by a certificate that an authority signed.
//!
//! Place: before anything of either plane is received.
//! * [`certificate`] reads what a certificate says; [`credentials`] are a daemon's or a command's
//!   own: certificate, key, and trusted authorities; [`authority`] makes and signs them.
//!
//! Addresses prove nothing: nodes move, and names of hosts are under the control of others. So a
//! certificate states `suture://ROLE/NAME` in a URI of its subject's alternative names, and the end
//! that connects compares that with the principal that it expects. Keys of the field's usual kinds,
//! TLS 1.3, and nothing older.

pub mod authority;
pub mod certificate;
pub mod credentials;

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use suture_edge::error::{is_hidden, quoted};

/// What a certificate's URI begins with.
const SCHEME: &str = "suture://";

/// What is not written as it is. A slash is, since prefixes have some; all of the path behind the
/// role is the name.
const CODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@').remove(b'/');

/// Names of nodes and users are for tables and logs.
const NAME_BYTES_MAX: usize = 128;

/// What the holder of a certificate may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRole {
    /// The coordinator, which gives agents their orders.
    Coordinator,
    /// The agent of a node.
    Agent,
    /// The keeper of other people's data, such as an HDFS NameNode: it reports to the coordinator
    /// what lies where and what is lost.
    Keeper,
    /// A user who sees what there is and how it does.
    Viewer,
    /// A user who puts, gets, lists and removes objects of one prefix.
    Client,
    /// A user who runs the cluster: what a viewer may, and repairs, scrubs, failed nodes.
    Operator,
    /// A user who may do everything.
    Admin,
}

/// A principal: as a certificate states it, or unproven where there are no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What it may be.
    pub role: AccessRole,
    /// The node's or the user's name.
    pub name: String,
    /// What the names of its objects begin with, if it is a client.
    pub prefix: String,
}

impl AccessRole {
    /// All of them, with the words that stand for them.
    pub const ALL: [(AccessRole, &str); 7] = [
        (AccessRole::Coordinator, "coordinator"),
        (AccessRole::Agent, "agent"),
        (AccessRole::Keeper, "keeper"),
        (AccessRole::Viewer, "viewer"),
        (AccessRole::Client, "client"),
        (AccessRole::Operator, "operator"),
        (AccessRole::Admin, "admin"),
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        let of = |(role, _): &&(AccessRole, &str)| *role == self;
        AccessRole::ALL.iter().find(of).expect("all roles have words").1
    }
}

impl Principal {
    /// A principal of this role and name; a client has the prefix `NAME/`.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn new(role: AccessRole, name: &str) -> Result<Principal, String> {
        let prefix = match role {
            AccessRole::Client => format!("{name}/"),
            _ => String::new(),
        };
        Principal::with_prefix(role, name, prefix)
    }

    /// A principal of this role and name whose objects begin with `prefix`.
    ///
    /// # Errors
    /// What is wrong with the name or the prefix.
    pub fn with_prefix(role: AccessRole, name: &str, prefix: String) -> Result<Principal, String> {
        let is_seen = |c: char| !c.is_control() && !is_hidden(c);
        let is_text = |text: &str| text.len() <= NAME_BYTES_MAX && text.chars().all(is_seen);
        if name.is_empty() || !is_text(name) {
            return Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes of text on one line"));
        }
        if !is_text(&prefix) {
            return Err(format!("a prefix has at most {NAME_BYTES_MAX} bytes of text on one line"));
        }
        if role != AccessRole::Client && !prefix.is_empty() {
            return Err("only clients have a prefix".into());
        }
        if role == AccessRole::Client && prefix.is_empty() {
            return Err("the role client needs a prefix; for all objects use the role admin".into());
        }
        if role == AccessRole::Client && !prefix.ends_with('/') {
            let prefix = quoted(&prefix);
            return Err(format!("a prefix ends with '/': {prefix} is how other names begin, too"));
        }
        Ok(Principal { role, name: name.to_owned(), prefix })
    }

    /// What a certificate says of it.
    pub fn uri(&self) -> String {
        let Principal { role, name, prefix } = self;
        if *role == AccessRole::Client && *prefix != format!("{name}/") {
            format!("{SCHEME}{}/{}?prefix={}", role.word(), coded(name), coded(prefix))
        } else {
            format!("{SCHEME}{}/{}", role.word(), coded(name))
        }
    }

    /// Reads what a certificate says; none if the URI is not about Suture.
    ///
    /// # Errors
    /// What is wrong with a URI that is.
    pub fn from_uri(uri: &str) -> Option<Result<Principal, String>> {
        let rest = uri.strip_prefix(SCHEME)?;
        Some(Principal::parse(rest).map_err(|why| format!("{uri}: {why}")))
    }

    fn parse(rest: &str) -> Result<Principal, String> {
        let (role, name) = rest.split_once('/').ok_or("it has no name after its role")?;
        let role = role.parse()?;
        match name.split_once("?prefix=") {
            Some((name, prefix)) => Principal::with_prefix(role, &decoded(name)?, decoded(prefix)?),
            None => Principal::new(role, &decoded(name)?),
        }
    }
}

/// As a part of a URI, where other characters than a few have to be said by their bytes.
fn coded(part: &str) -> impl fmt::Display {
    utf8_percent_encode(part, CODED)
}

fn decoded(part: &str) -> Result<String, String> {
    let text = percent_decode_str(part).decode_utf8().map_err(|_| "it is not text")?;
    // One principal, one way to say it.
    if coded(&text).to_string() != part {
        return Err("other characters than A-Z a-z 0-9 - . _ ~ @ are written as %XX".into());
    }
    Ok(text.into_owned())
}

impl FromStr for AccessRole {
    type Err = String;

    fn from_str(text: &str) -> Result<AccessRole, String> {
        let of = |(_, word): &&(AccessRole, &str)| *word == text;
        let found = AccessRole::ALL.iter().find(of).map(|(role, _)| *role);
        let words = || AccessRole::ALL.map(|(_, word)| word).join(", ");
        found.ok_or_else(|| format!("'{text}' is not a role: there are {}", words()))
    }
}

impl fmt::Display for AccessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Principal {
    /// The line that makes credentials for it.
    pub fn command(&self) -> String {
        let name =
            if self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            {
                self.name.clone()
            } else {
                quoted(&self.name)
            };
        match self.role {
            AccessRole::Agent => format!("suture cert node {name}"),
            AccessRole::Coordinator | AccessRole::Keeper => {
                format!("suture cert node {name} --{}", self.role)
            }
            role => format!("suture cert user {name} --role {role}"),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_says_reads_back() {
        for (role, _) in AccessRole::ALL {
            let someone = Principal::new(role, "rack-1.node_2").unwrap();
            assert_eq!(Principal::from_uri(&someone.uri()), Some(Ok(someone)));
        }
        let backups =
            Principal::with_prefix(AccessRole::Client, "nightly", "backups/db/".into()).unwrap();
        assert_eq!(backups.uri(), "suture://client/nightly?prefix=backups/db/");
        assert_eq!(Principal::from_uri(&backups.uri()), Some(Ok(backups)));
        assert_eq!(Principal::from_uri("https://example.org/agent/n1"), None);
    }

    #[test]
    fn names_of_nodes_are_what_configurations_allow() {
        for name in ["rack 1/node:2", "kn\u{f6}ten?prefix=a", "100%"] {
            let someone = Principal::new(AccessRole::Agent, name).unwrap();
            assert!(someone.uri().is_ascii() && !someone.uri().contains(' '), "{}", someone.uri());
            assert_eq!(Principal::from_uri(&someone.uri()), Some(Ok(someone)));
        }
    }

    #[test]
    fn what_is_no_principal_is_refused_with_a_reason() {
        for uri in [
            "suture://",
            "suture://agent",
            "suture://agent/",
            "suture://root/alice",
            "suture://agent/a b",
            "suture://agent/%6e1",
            "suture://agent/%ff",
            "suture://client/team?prefix=team",
            "suture://agent/n1?prefix=x/",
            "suture://client/a?prefix=",
            "suture://client/a?prefix=x?y",
            "suture://admin/alice%E2%80%AE",
            "suture://client/a?prefix=x%E2%80%8B/",
            &format!("suture://agent/{}", "n".repeat(129)),
        ] {
            let error = Principal::from_uri(uri).unwrap().unwrap_err();
            assert!(error.starts_with(uri), "{error}");
        }
    }
}
