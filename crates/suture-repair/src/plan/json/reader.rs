//! Reads `suture-plan-1` from a parsed JSON value, with the path of every field at hand.
//!
//! Place: plans as text, on their way in. Each step down (`field`,
//! `each`) remembers where it came from, so that an error can name the field whatever is wrong with
//! it; the path is spelled out only then. An object declares up front which fields it may have.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use suture_code::Code;

use super::{FORMAT, PlannedBatch, mode_word};
use crate::cluster::Cluster;
use crate::id::{ChunkIndex, NodeId, StripeId};
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range, SchemeId, Start};

const DOCUMENT_FIELDS: &[&str] = &[
    "format",
    "policy",
    "code",
    "chunk_bytes",
    "lost_chunks",
    "bound_seconds",
    "own_bound_seconds",
    "max_load_seconds",
    "ratio",
    "planning_seconds",
    "cross_rack_bytes",
    "moved_bytes",
    "load",
    "unrepairable",
    "plans",
];
const PLAN_FIELDS: &[&str] =
    &["stripe", "lost", "destinations", "start", "range", "period", "lanes"];
const LANE_FIELDS: &[&str] = &["from", "to", "lost", "mode", "decoders", "scheme", "edges"];

/// How much of a wrong value an error repeats: enough to find it.
const FOUND_CHARS_MAX: usize = 60;

/// Why a text is not a plan or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum JsonError {
    /// The text is not JSON.
    Syntax(String),
    /// A field that must be there is not.
    Missing { path: String },
    /// A field that means nothing here.
    Unknown { path: String },
    /// A field of the wrong kind or with an impossible value.
    Wrong { path: String, expected: String, found: String },
    /// A node that the cluster does not have.
    NoSuchNode { path: String, name: String },
}

/// A value and the path to it from the root.
#[derive(Clone, Copy)]
struct At<'a> {
    value: &'a Value,
    from: Option<&'a At<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

/// The ids of the cluster's names.
type Names<'a> = BTreeMap<&'a str, NodeId>;

pub(super) fn parse(text: &str) -> Result<Value, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError::Syntax(error.to_string()))
}

pub(super) fn document(value: &Value, cluster: &Cluster) -> Result<PlannedBatch, JsonError> {
    let root = At { value, from: None, step: PathStep::Root };
    root.object(DOCUMENT_FIELDS)?;
    root.field("format", |format| match format.text()? {
        FORMAT => Ok(()),
        _ => Err(format.wrong(format!("\"{FORMAT}\""))),
    })?;
    let names = names(cluster);
    let code = |at: &At<'_>| at.text()?.parse::<Code>().map_err(|error| at.wrong(error));
    Ok(PlannedBatch {
        code: root.field("code", code)?,
        chunk_bytes: root.field("chunk_bytes", number)?,
        plans: root.field("plans", |plans| plans.each(|at| read_plan(at, &names)))?,
    })
}

pub(super) fn plan(value: &Value, cluster: &Cluster) -> Result<Plan, JsonError> {
    read_plan(&At { value, from: None, step: PathStep::Root }, &names(cluster))
}

fn names(cluster: &Cluster) -> Names<'_> {
    cluster.nodes.iter().map(|node| node.name.as_str()).zip(cluster.ids()).collect()
}

fn read_plan(at: &At<'_>, names: &Names<'_>) -> Result<Plan, JsonError> {
    at.object(PLAN_FIELDS)?;
    let lost = at.field("lost", |lost| lost.each(chunk))?;
    Ok(Plan {
        stripe: StripeId(at.field("stripe", number)?),
        destinations: at.field("destinations", |at| destinations(at, names))?,
        start: at.optional("start", start)?.unwrap_or(Start::Now),
        range: at.field("range", range)?,
        period: at.optional("period", number)?,
        lanes: at.field("lanes", |lanes| lanes.each(|at| lane(at, &lost, names)))?,
        lost,
    })
}

/// A lane; without a `lost` of its own it rebuilds all that the plan does.
fn lane(at: &At<'_>, plan_lost: &[ChunkIndex], names: &Names<'_>) -> Result<Lane, JsonError> {
    at.object(LANE_FIELDS)?;
    let lost = at.optional("lost", |lost| lost.each(chunk))?;
    let decoders = |at: &At<'_>| match at.each(|at| node(at, names))?[..] {
        [] => Ok(None),
        [decoder] => Ok(Some(decoder)),
        _ => Err(at.wrong("at most one node")),
    };
    Ok(Lane {
        range: Range { from: at.field("from", number)?, to: at.field("to", number)? },
        lost: lost.unwrap_or_else(|| plan_lost.to_vec()),
        mode: at.field("mode", |at| at.word(&[Mode::Streamed, Mode::Stored], mode_word))?,
        decoder: at.field("decoders", decoders)?,
        scheme: at.optional("scheme", |at| at.small(u32::MAX).map(SchemeId))?,
        edges: at.field("edges", |edges| edges.each(|at| edge(at, names)))?,
    })
}

fn edge(at: &At<'_>, names: &Names<'_>) -> Result<Edge, JsonError> {
    let [child, parent, bytes, carries] = at.tuple("[child, parent, bytes, carries]")?;
    Ok(Edge {
        child: node(&child, names)?,
        parent: node(&parent, names)?,
        bytes: number(&bytes)?,
        carries: carries.word(&Carries::ALL, Carries::word)?,
    })
}

fn destinations(at: &At<'_>, names: &Names<'_>) -> Result<BTreeMap<ChunkIndex, NodeId>, JsonError> {
    let Value::Object(fields) = at.value else {
        return Err(at.wrong("an object: chunk to node"));
    };
    let entry = |(key, value): (&String, &Value)| {
        let at = At { value, from: Some(at), step: PathStep::Field(key) };
        let index = key.parse().map_err(|_| at.wrong("a chunk index as its name"))?;
        Ok((ChunkIndex(index), node(&at, names)?))
    };
    fields.iter().map(entry).collect()
}

fn start(at: &At<'_>) -> Result<Start, JsonError> {
    at.object(&["after", "slot", "wave"])?;
    let after = at.optional("after", |after| after.each(|at| number(at).map(|n| n as usize)))?;
    let slot = at.optional("slot", |at| at.small(u32::MAX))?;
    let wave = at.optional("wave", |at| at.small(u32::MAX))?;
    match (after, slot, wave) {
        (Some(plans), None, None) => Ok(Start::After(plans)),
        (None, Some(slot), None) => Ok(Start::Slot(slot)),
        (None, None, Some(wave)) => Ok(Start::Wave(wave)),
        _ => Err(at.wrong("null, or exactly one of \"after\", \"slot\" and \"wave\"")),
    }
}

fn range(at: &At<'_>) -> Result<Range, JsonError> {
    let [from, to] = at.tuple("[from, to]")?;
    Ok(Range { from: number(&from)?, to: number(&to)? })
}

fn number(at: &At<'_>) -> Result<u64, JsonError> {
    at.value.as_u64().ok_or_else(|| at.wrong("a whole number"))
}

fn chunk(at: &At<'_>) -> Result<ChunkIndex, JsonError> {
    at.small(u8::MAX).map(ChunkIndex)
}

fn node(at: &At<'_>, names: &Names<'_>) -> Result<NodeId, JsonError> {
    let name = at.text()?;
    let missing = || JsonError::NoSuchNode { path: at.path(), name: name.to_string() };
    names.get(name).copied().ok_or_else(missing)
}

impl<'a> At<'a> {
    fn path(&self) -> String {
        let mut path = self.from.map_or_else(String::new, At::path);
        match self.step {
            PathStep::Root => {}
            PathStep::Field(name) if path.is_empty() => path.push_str(name),
            PathStep::Field(name) => path.extend([".", name]),
            PathStep::Index(index) => path.push_str(&format!("[{index}]")),
        }
        path
    }

    fn wrong(&self, expected: impl fmt::Display) -> JsonError {
        let mut found = self.value.to_string();
        if found.chars().count() > FOUND_CHARS_MAX {
            found = found.chars().take(FOUND_CHARS_MAX).chain("...".chars()).collect();
        }
        JsonError::Wrong { path: self.path(), expected: expected.to_string(), found }
    }

    /// Checks that it is an object with no fields but these.
    fn object(&self, known: &[&str]) -> Result<(), JsonError> {
        let Value::Object(fields) = self.value else {
            return Err(self.wrong("an object"));
        };
        match fields.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, value)) => {
                let at = At { value, from: Some(self), step: PathStep::Field(name) };
                Err(JsonError::Unknown { path: at.path() })
            }
            None => Ok(()),
        }
    }

    /// Reads a field that must be there.
    fn field<T>(
        &self,
        name: &str,
        read: impl FnOnce(&At<'_>) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        let value = self.value.get(name).unwrap_or(&Value::Null);
        let at = At { value, from: Some(self), step: PathStep::Field(name) };
        if self.value.get(name).is_none() {
            return Err(JsonError::Missing { path: at.path() });
        }
        read(&at)
    }

    /// Reads a field that may be absent or null.
    fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&At<'_>) -> Result<T, JsonError>,
    ) -> Result<Option<T>, JsonError> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.field(name, read).map(Some),
        }
    }

    fn each<T>(&self, read: impl Fn(&At<'_>) -> Result<T, JsonError>) -> Result<Vec<T>, JsonError> {
        let Value::Array(items) = self.value else {
            return Err(self.wrong("a list"));
        };
        let items = items.iter().enumerate();
        items
            .map(|(index, value)| {
                read(&At { value, from: Some(self), step: PathStep::Index(index) })
            })
            .collect()
    }

    /// A list of exactly `N` items.
    fn tuple<const N: usize>(&'a self, form: &str) -> Result<[At<'a>; N], JsonError> {
        let items = self.value.as_array().filter(|items| items.len() == N);
        let items = items.ok_or_else(|| self.wrong(form))?;
        let item =
            |index| At { value: &items[index], from: Some(self), step: PathStep::Index(index) };
        Ok(std::array::from_fn(item))
    }

    /// A number of a smaller type, whose greatest value is `max`.
    fn small<T: TryFrom<u64> + fmt::Display>(&self, max: T) -> Result<T, JsonError> {
        let number = self.value.as_u64().and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.wrong(format!("a whole number up to {max}")))
    }

    fn text(&self) -> Result<&'a str, JsonError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    /// One of a closed set of words.
    fn word<T: Copy>(&self, all: &[T], word: fn(T) -> &'static str) -> Result<T, JsonError> {
        let found =
            self.value.as_str().and_then(|text| all.iter().find(|value| word(**value) == text));
        let words = || all.iter().map(|value| word(*value)).collect::<Vec<_>>().join(", ");
        found.copied().ok_or_else(|| self.wrong(format!("one of {}", words())))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Syntax(error) => write!(f, "not JSON: {error}"),
            JsonError::Missing { path } => write!(f, "{path} is missing"),
            JsonError::Unknown { path } => write!(f, "{path} is no field of {FORMAT}"),
            JsonError::Wrong { path, expected, found } if path.is_empty() => {
                write!(f, "expected {expected}, found {found}")
            }
            JsonError::Wrong { path, expected, found } => {
                write!(f, "{path}: expected {expected}, found {found}")
            }
            JsonError::NoSuchNode { path, name } => {
                write!(f, "{path}: the cluster has no node \"{name}\"")
            }
        }
    }
}

impl std::error::Error for JsonError {}
