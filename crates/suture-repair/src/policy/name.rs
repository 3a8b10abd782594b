//! Policies as text: the names of their parts, reading and writing, and what is wrong with a text.
//!
//! Place: before `[plan]`, when a policy is typed. A name that is unknown is answered with the one
//! that is spelled most like it.

use std::fmt;
use std::str::FromStr;

use suture_code::code::edit_distance;

use super::{Balance, Order, PHASE_SECONDS, PHASES, PRESETS, Policy, SLOTS, Schedule, Shape};

/// CAR with as many iterations as change something.
const CAR: Balance = Balance::Car(None);

/// The name of each shape.
pub(super) const SHAPES: &[(&str, Shape)] = &[
    ("star", Shape::Star),
    ("ppr", Shape::Ppr),
    ("chain", Shape::Chain),
    ("ppt", Shape::Ppt),
    ("pivot", Shape::Pivot),
    ("rack", Shape::Rack),
    ("tunable", Shape::Tunable),
    ("split", Shape::Split),
    ("trace", Shape::Trace),
    ("mix", Shape::Mix),
];

/// The name of each balance; `car` may be followed by `:number`.
const BALANCES: &[(&str, Balance)] = &[
    ("random", Balance::Random),
    ("lru", Balance::Lru),
    ("lru:shared", Balance::LruShared),
    ("repairboost", Balance::RepairBoost),
    ("car", CAR),
    ("car:random", Balance::CarRandom),
    ("chameleon", Balance::Chameleon),
    ("chameleon:artifact", Balance::ChameleonArtifact),
    ("chameleon:io", Balance::ChameleonIo),
    ("flow", Balance::Flow),
    ("greedy", Balance::Greedy),
];

/// The names of schedules; `window`, `slots` and `phases` may be followed by `:number`, the last
/// two then by `:order`.
pub(super) const SCHEDULES: &[(&str, Schedule)] = &[
    ("all", Schedule::All),
    ("window", Schedule::Concurrency(None)),
    ("slots", Schedule::Slots(None, Order::Risk)),
    ("adaptive", Schedule::Adaptive),
    ("phases", Schedule::Phases(PHASE_SECONDS, Order::Risk)),
    ("waves", Schedule::Waves),
];

/// The names of orders.
const ORDERS: &[(&str, Order)] =
    &[("by-risk", Order::Risk), ("by-node", Order::Node), ("by-time", Order::Time)];

/// One of the three parts of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyPart {
    /// The part before the first slash.
    Shape,
    /// The part between the slashes.
    Balance,
    /// The part after the second slash.
    Schedule,
    /// What may follow the third.
    Order,
}

/// Why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum PolicyError {
    /// Neither a preset nor a triple.
    UnknownPreset { name: String, nearest: &'static str },
    /// A triple has three parts.
    PartCount { text: String, found: usize },
    /// No such shape, balance or schedule.
    UnknownName { part: PolicyPart, name: String, nearest: &'static str },
    /// What stands behind the colon is no number that the balance or the schedule takes.
    Parameter { name: &'static str, found: String },
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let text = text.trim();
        if !text.contains('/') {
            let preset = PRESETS.iter().find(|(name, _)| *name == text);
            let names = PRESETS.iter().map(|(name, _)| *name);
            return preset.map(|(_, policy)| *policy).ok_or_else(|| PolicyError::UnknownPreset {
                name: text.to_string(),
                nearest: nearest(text, names),
            });
        }
        let parts: Vec<&str> = text.split('/').map(str::trim).collect();
        let [shape, balance, schedule] = parts[..] else {
            return Err(PolicyError::PartCount { text: text.to_string(), found: parts.len() });
        };
        Ok(Policy {
            shape: lookup(SHAPES, PolicyPart::Shape, shape)?.1,
            balance: parse_balance(balance)?,
            schedule: parse_schedule(schedule)?,
        })
    }
}

fn parse_balance(text: &str) -> Result<Balance, PolicyError> {
    let iterations = text.strip_prefix(CAR.name()).and_then(|rest| rest.strip_prefix(':'));
    // What does not begin like a word is to be a number.
    match iterations.filter(|found| !found.starts_with(|c: char| c.is_ascii_alphabetic())) {
        Some(found) => match found.parse::<u32>() {
            Ok(iterations) => Ok(Balance::Car(Some(iterations))),
            Err(_) => Err(PolicyError::Parameter { name: CAR.name(), found: found.to_string() }),
        },
        None => Ok(lookup(BALANCES, PolicyPart::Balance, text)?.1),
    }
}

fn parse_schedule(text: &str) -> Result<Schedule, PolicyError> {
    let Some((name, parameters)) = text.split_once(':') else {
        return Ok(lookup(SCHEDULES, PolicyPart::Schedule, text)?.1);
    };
    let (name, schedule) = lookup(SCHEDULES, PolicyPart::Schedule, name)?;
    let wrong = || PolicyError::Parameter { name, found: parameters.to_string() };
    let (number, order) = match parameters.rsplit_once(':') {
        Some((number, order)) => (Some(number), Some(order)),
        None if parameters.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (None, Some(parameters))
        }
        None => (Some(parameters), None),
    };
    let number =
        number.map(|number| number.parse().ok().filter(|&value| value > 0).ok_or_else(wrong));
    let number: Option<u32> = number.transpose()?;
    let order = order.map(|order| lookup(ORDERS, PolicyPart::Order, order)).transpose()?;
    match (schedule, order) {
        (Schedule::Concurrency(_), None) => Ok(Schedule::Concurrency(number)),
        (Schedule::Slots(_, first), _) => Ok(Schedule::Slots(number, order.map_or(first, |o| o.1))),
        (Schedule::Phases(seconds, first), _) => {
            Ok(Schedule::Phases(number.unwrap_or(seconds), order.map_or(first, |o| o.1)))
        }
        _ => Err(wrong()),
    }
}

fn lookup<T: Copy>(
    table: &[(&'static str, T)],
    part: PolicyPart,
    name: &str,
) -> Result<(&'static str, T), PolicyError> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.copied().ok_or_else(|| PolicyError::UnknownName {
        part,
        name: name.to_string(),
        nearest: nearest(name, table.iter().map(|(known, ..)| *known)),
    })
}

/// The row of a value; every value of the closed sets has one.
pub(super) fn entry<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    let found = table.iter().find(|(_, known)| *known == value);
    found.expect("each value has a row in its table").0
}

fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> &'static str {
    known.min_by_key(|known| edit_distance(known, name)).expect("tables are not empty")
}

impl Balance {
    /// Its name, without a number.
    pub(super) fn name(self) -> &'static str {
        match self {
            Balance::Car(_) => entry(BALANCES, CAR),
            other => entry(BALANCES, other),
        }
    }
}

impl Schedule {
    fn without_parameter(self) -> Schedule {
        match self {
            Schedule::Concurrency(_) => Schedule::Concurrency(None),
            Schedule::Slots(..) => SLOTS,
            Schedule::Phases(..) => PHASES,
            other => other,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(entry(SHAPES, *self))
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balance::Car(Some(iterations)) => write!(f, "{}:{iterations}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = entry(SCHEDULES, self.without_parameter());
        match self {
            Schedule::Concurrency(Some(number)) | Schedule::Slots(Some(number), _) => {
                write!(f, "{name}:{number}")?;
            }
            Schedule::Phases(number, _) => write!(f, "{name}:{number}")?,
            _ => f.write_str(name)?,
        }
        match self.order() {
            Order::Risk => Ok(()),
            order => write!(f, ":{}", entry(ORDERS, order)),
        }
    }
}

/// The preset's name where it is one, otherwise the triple; `{:#}` is always the triple.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PRESETS.iter().find(|(_, policy)| policy == self) {
            Some((name, _)) if !f.alternate() => f.write_str(name),
            _ => write!(f, "{}/{}/{}", self.shape, self.balance, self.schedule),
        }
    }
}

impl fmt::Display for PolicyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyPart::Shape => "shape",
            PolicyPart::Balance => "balance",
            PolicyPart::Schedule => "schedule",
            PolicyPart::Order => "order",
        })
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownPreset { name, nearest } => write!(
                f,
                "there is no policy '{name}'; did you mean '{nearest}'? \
                 (a preset, or shape/balance/schedule such as chain/greedy/all)"
            ),
            PolicyError::PartCount { text, found } => {
                write!(f, "'{text}' has {found} parts; a policy is written shape/balance/schedule")
            }
            PolicyError::UnknownName { part, name, nearest } => {
                write!(f, "there is no {part} '{name}'; did you mean '{nearest}'?")
            }
            PolicyError::Parameter { name, found } => match *name {
                "car" => {
                    write!(f, "'{name}:{found}' needs a whole number of iterations, like {name}:50")
                }
                "window" => {
                    write!(f, "'{name}:{found}' needs a whole number above zero, like {name}:20")
                }
                "slots" | "phases" => write!(
                    f,
                    "'{name}:{found}' needs a whole number above zero, an order or both, like \
                     {name}:20 or {name}:20:by-node"
                ),
                _ => write!(f, "the schedule '{name}' takes no number, but ':{found}' was given"),
            },
        }
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_triples_of_the_contract() {
        for (preset, triple) in [
            ("cr", "star/random/window"),
            ("ppr", "ppr/random/window"),
            ("rp", "chain/random/window"),
            ("ppt", "ppt/random/window"),
            ("pivot", "pivot/random/adaptive"),
            ("car", "rack/car/window"),
            ("chameleon", "tunable/chameleon/phases:20"),
            ("repairboost+cr", "star/repairboost/slots"),
            ("repairboost+ppr", "ppr/repairboost/slots"),
            ("repairboost+rp", "chain/repairboost/slots"),
            ("flow", "split/flow/waves"),
            ("suture", "mix/flow/waves"),
        ] {
            let policy: Policy = preset.parse().unwrap();
            assert_eq!(policy, triple.parse().unwrap(), "{preset}");
            assert_eq!((policy.to_string(), format!("{policy:#}")), (preset.into(), triple.into()));
        }
    }

    #[test]
    fn every_triple_survives_a_round_trip_through_text() {
        let schedules = [
            "all",
            "window",
            "window:7",
            "slots",
            "slots:50",
            "slots:by-node",
            "slots:50:by-node",
            "adaptive",
            "phases:9",
            "phases:9:by-time",
            "waves",
        ];
        let balances = BALANCES.iter().map(|(balance, _)| *balance);
        let balances: Vec<&str> = balances.chain(["car:0", "car:50"]).collect();
        for (shape, ..) in SHAPES {
            for balance in &balances {
                for schedule in schedules {
                    let text = format!("{shape}/{balance}/{schedule}");
                    let policy: Policy = text.parse().unwrap();
                    assert_eq!(format!("{policy:#}"), text);
                    assert_eq!(policy.to_string().parse(), Ok(policy));
                }
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        for (text, answer) in [
            ("sutur", "did you mean 'suture'?"),
            ("repairboost+ec", "did you mean 'repairboost+cr'?"),
            ("chian/random/all", "no shape 'chian'; did you mean 'chain'?"),
            ("star/rnd/all", "no balance 'rnd'; did you mean 'random'?"),
            ("rack/car:randm/all", "no balance 'car:randm'; did you mean 'car:random'?"),
            ("rack/car:-1/all", "'car:-1' needs a whole number of iterations, like car:50"),
            ("rack/car:/all", "'car:' needs a whole number of iterations"),
            ("star/lru:5/all", "no balance 'lru:5'; did you mean 'lru'?"),
            ("star/random/windwo", "no schedule 'windwo'; did you mean 'window'?"),
            ("star/random", "has 2 parts"),
            ("star/random/window:0", "above zero"),
            ("star/random/window:", "above zero"),
            ("star/random/all:3", "takes no number"),
            ("star/random/window:3:by-node", "whole number above zero"),
            ("star/random/phases:0", "above zero"),
            ("star/random/phases:by-tim", "no order 'by-tim'; did you mean 'by-time'?"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }
}
