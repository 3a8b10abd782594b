//! A policy by name: shape / balance / schedule, as closed sets, and the presets that people type.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! The shape says how helpers are joined to a tree, the balance who helps and who receives, the
//! schedule what runs when. Every published algorithm is one triple, so that they can be crossed.
//!
//! Every triple parses; what does not fit together is refused by `Policy::plannable`, with the reason.
//! Planning ignores the schedule.
//! To add one: a variant, a row of its table, an arm in `planner.rs`.

use std::fmt;
use std::str::FromStr;

use suture_code::code::edit_distance;

/// How a batch of repairs is planned and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How helpers are joined to a tree.
    pub shape: Shape,
    /// Who helps and who receives.
    pub balance: Balance,
    /// What runs when.
    pub schedule: Schedule,
}

/// How helpers are joined to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All helpers send to the destination: conventional repair (CR).
    Star,
    /// Pairwise aggregation in rounds: PPR.
    Ppr,
    /// One after the other: repair pipelining (RP, ECPipe).
    Chain,
    /// PPT's tree.
    Ppt,
    /// PivotRepair's tree.
    Pivot,
    /// CAR: sums within racks, then across.
    Rack,
    /// ChameleonEC's tunable plans.
    Tunable,
    /// Several trees for ranges of one chunk.
    Split,
    /// Trace repair.
    Trace,
    /// The best of what the agents can execute.
    Mix,
}

/// Who helps and who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Anyone, uniformly.
    Random,
    /// Whoever helped least recently.
    Lru,
    /// RepairBoost's Algorithm 1.
    RepairBoost,
    /// CAR's minimal racks.
    Car,
    /// CAR's baseline: its destinations, and anyone's help.
    CarRandom,
    /// ChameleonEC's dispatch rule.
    Chameleon,
    /// ChameleonEC as its published code does it, with a partial sort.
    ChameleonArtifact,
    /// ChameleonEC with disks in the account.
    ChameleonIo,
    /// Exact balancing by augmenting paths.
    Flow,
    /// Least loaded first, repeated until nothing improves.
    Greedy,
}

/// What runs when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Everything at once.
    All,
    /// At most so many repairs at a time; `None` is the number of surviving nodes.
    Window(Option<u32>),
    /// RepairBoost's slots by maximum flow; in subprocesses of so many chunks, if given.
    Slots(Option<u32>, Order),
    /// PivotRepair's adaptive admission.
    Adaptive,
    /// ChameleonEC's phases of so many seconds.
    Phases(u32, Order),
    /// Waves that are balanced in themselves.
    Waves,
}

/// Which of the stripes that several failed nodes hit comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that can lose the fewest more chunks.
    Risk,
    /// All chunks of one failed node, then those of the next.
    Node,
    /// The one whose plan takes the least time by itself.
    Time,
}

/// The name of each shape.
const SHAPES: &[(&str, Shape)] = &[
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

/// The name of each balance.
const BALANCES: &[(&str, Balance)] = &[
    ("random", Balance::Random),
    ("lru", Balance::Lru),
    ("repairboost", Balance::RepairBoost),
    ("car", Balance::Car),
    ("car:random", Balance::CarRandom),
    ("chameleon", Balance::Chameleon),
    ("chameleon:artifact", Balance::ChameleonArtifact),
    ("chameleon:io", Balance::ChameleonIo),
    ("flow", Balance::Flow),
    ("greedy", Balance::Greedy),
];

/// The names of schedules; `window`, `slots` and `phases` may be followed by `:number`, the last two
/// then by `:order`.
const SCHEDULES: &[(&str, Schedule)] = &[
    ("all", Schedule::All),
    ("window", Schedule::Window(None)),
    ("slots", Schedule::Slots(None, Order::Risk)),
    ("adaptive", Schedule::Adaptive),
    ("phases", Schedule::Phases(PHASE_SECONDS, Order::Risk)),
    ("waves", Schedule::Waves),
];

/// The names of orders.
const ORDERS: &[(&str, Order)] =
    &[("by-risk", Order::Risk), ("by-node", Order::Node), ("by-time", Order::Time)];

/// The length of ChameleonEC's phases when none is given: the paper's default.
const PHASE_SECONDS: u32 = 20;

const PHASES: Schedule = Schedule::Phases(PHASE_SECONDS, Order::Risk);
const SLOTS: Schedule = Schedule::Slots(None, Order::Risk);

/// The presets, in the order in which they are shown: published ones first, ours last.
const PRESETS: &[(&str, Policy)] = &[
    ("cr", policy(Shape::Star, Balance::Random, Schedule::Window(None))),
    ("ppr", policy(Shape::Ppr, Balance::Random, Schedule::Window(None))),
    ("rp", policy(Shape::Chain, Balance::Random, Schedule::Window(None))),
    ("ppt", policy(Shape::Ppt, Balance::Random, Schedule::Window(None))),
    ("pivot", policy(Shape::Pivot, Balance::Random, Schedule::Adaptive)),
    ("car", policy(Shape::Rack, Balance::Car, Schedule::Window(None))),
    ("chameleon", policy(Shape::Tunable, Balance::Chameleon, PHASES)),
    ("repairboost+cr", policy(Shape::Star, Balance::RepairBoost, SLOTS)),
    ("repairboost+ppr", policy(Shape::Ppr, Balance::RepairBoost, SLOTS)),
    ("repairboost+rp", policy(Shape::Chain, Balance::RepairBoost, SLOTS)),
    ("flow", policy(Shape::Split, Balance::Flow, Schedule::Waves)),
    ("suture", policy(Shape::Mix, Balance::Flow, Schedule::Waves)),
];

const fn policy(shape: Shape, balance: Balance, schedule: Schedule) -> Policy {
    Policy { shape, balance, schedule }
}

/// One of the three parts of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first.
    Shape,
    /// The second.
    Balance,
    /// The third.
    Schedule,
    /// What may follow the third.
    Order,
}

/// Why a policy cannot be used, although its name is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// The policy looks at something of nodes that agents do not report yet.
    NotReported {
        /// What needs it: a shape or a balance.
        name: &'static str,
        /// What it is.
        what: &'static str,
    },
    /// The balance does not decide what the shape has to know.
    Apart {
        /// The shape.
        shape: Shape,
        /// The balance.
        balance: Balance,
    },
}

/// Why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// Neither a preset nor a triple.
    UnknownPreset {
        /// What was given.
        name: String,
        /// The preset that is spelled most like it.
        nearest: &'static str,
    },
    /// A triple has three parts.
    PartCount {
        /// What was given.
        text: String,
        /// How many parts it has.
        found: usize,
    },
    /// No such shape, balance or schedule.
    UnknownName {
        /// Which part.
        part: Part,
        /// What was given.
        name: String,
        /// The name that is spelled most like it.
        nearest: &'static str,
    },
    /// The number after the colon is missing, zero or no number, or the schedule takes none.
    Parameter {
        /// The schedule.
        name: &'static str,
        /// What stood after the colon.
        found: String,
    },
}

impl Policy {
    /// All presets with their names, published algorithms first.
    pub fn presets() -> impl Iterator<Item = (&'static str, Policy)> {
        PRESETS.iter().copied()
    }

    /// The same plans under each of the schedules.
    pub fn under_every_schedule(self) -> impl Iterator<Item = Policy> {
        SCHEDULES.iter().map(move |&(_, schedule)| Policy { schedule, ..self })
    }

    /// Whether this version can plan with it, whatever the schedule.
    ///
    /// # Errors
    /// What is missing.
    pub fn plannable(self) -> Result<(), PolicyFault> {
        match self.shape.fits(self.balance) {
            true => Ok(()),
            false => Err(PolicyFault::Apart { shape: self.shape, balance: self.balance }),
        }
    }

    /// Whether this version can plan with what it knows of its agents.
    ///
    /// # Errors
    /// What is missing.
    pub fn runnable(self) -> Result<(), PolicyFault> {
        self.plannable()?;
        match self.needs_disks() {
            Some(name) => Err(PolicyFault::NotReported { name, what: "rates of disks" }),
            None => Ok(()),
        }
    }

    /// The name of the part for which every node has to be in a rack, if there is one.
    pub fn needs_racks(self) -> Option<&'static str> {
        match (self.shape, self.balance) {
            (Shape::Rack, _) => Some(entry(SHAPES, self.shape)),
            (_, Balance::Car | Balance::CarRandom) => Some(entry(BALANCES, self.balance)),
            _ => None,
        }
    }

    /// The name of the part for which every disk's rates have to be known, if there is one.
    pub fn needs_disks(self) -> Option<&'static str> {
        (self.balance == Balance::ChameleonIo).then(|| entry(BALANCES, self.balance))
    }
}

impl Shape {
    /// Whether the balance decides what the shape has to know, and no more than it can follow.
    fn fits(self, balance: Balance) -> bool {
        use Balance::{Chameleon, ChameleonArtifact, ChameleonIo, Flow, RepairBoost};
        match (self, balance) {
            (Shape::Split | Shape::Trace | Shape::Mix, Flow) => true,
            (Shape::Split | Shape::Trace, _) | (_, Flow) => false,
            (Shape::Tunable, Chameleon | ChameleonArtifact | ChameleonIo) => true,
            (Shape::Tunable, _) | (_, Chameleon | ChameleonArtifact | ChameleonIo) => false,
            (Shape::Ppt | Shape::Pivot | Shape::Rack, RepairBoost) => false,
            _ => true,
        }
    }
}

impl Schedule {
    /// Which stripes come first.
    pub fn order(self) -> Order {
        match self {
            Schedule::Slots(_, order) | Schedule::Phases(_, order) => order,
            _ => Order::Risk,
        }
    }

    fn without_parameter(self) -> Schedule {
        match self {
            Schedule::Window(_) => Schedule::Window(None),
            Schedule::Slots(..) => SLOTS,
            Schedule::Phases(..) => PHASES,
            other => other,
        }
    }
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
            shape: lookup(SHAPES, Part::Shape, shape)?.1,
            balance: lookup(BALANCES, Part::Balance, balance)?.1,
            schedule: parse_schedule(schedule)?,
        })
    }
}

fn parse_schedule(text: &str) -> Result<Schedule, PolicyError> {
    let Some((name, parameters)) = text.split_once(':') else {
        return Ok(lookup(SCHEDULES, Part::Schedule, text)?.1);
    };
    let (name, schedule) = lookup(SCHEDULES, Part::Schedule, name)?;
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
    let order = order.map(|order| lookup(ORDERS, Part::Order, order)).transpose()?;
    match (schedule, order) {
        (Schedule::Window(_), None) => Ok(Schedule::Window(number)),
        (Schedule::Slots(_, first), _) => Ok(Schedule::Slots(number, order.map_or(first, |o| o.1))),
        (Schedule::Phases(seconds, first), _) => {
            Ok(Schedule::Phases(number.unwrap_or(seconds), order.map_or(first, |o| o.1)))
        }
        _ => Err(wrong()),
    }
}

fn lookup<T: Copy>(
    table: &[(&'static str, T)],
    part: Part,
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
fn entry<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    let found = table.iter().find(|(_, known)| *known == value);
    found.expect("each value has a row in its table").0
}

fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> &'static str {
    known.min_by_key(|known| edit_distance(known, name)).expect("tables are not empty")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(entry(SHAPES, *self))
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(entry(BALANCES, *self))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = entry(SCHEDULES, self.without_parameter());
        match self {
            Schedule::Window(Some(number)) | Schedule::Slots(Some(number), _) => {
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

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Shape => "shape",
            Part::Balance => "balance",
            Part::Schedule => "schedule",
            Part::Order => "order",
        })
    }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyFault::NotReported { name, what } => {
                write!(f, "'{name}' needs {what}, which agents do not report yet in this version")
            }
            PolicyFault::Apart { shape: Shape::Tunable, balance } => write!(
                f,
                "the shape 'tunable' has to be told who receives how often, which the balance \
                 '{balance}' does not decide; use chameleon"
            ),
            PolicyFault::Apart { shape, balance: Balance::Flow } => write!(
                f,
                "the balance 'flow' decides about ranges of chunks, which the shape '{shape}' \
                 cannot follow; use split"
            ),
            PolicyFault::Apart { shape: Shape::Trace, balance } => write!(
                f,
                "the shape 'trace' has to be told who decodes which range of a chunk, which the \
                 balance '{balance}' does not decide; use flow"
            ),
            PolicyFault::Apart { shape: Shape::Split, balance } => write!(
                f,
                "the shape 'split' has to be told who serves which range of a chunk, which the \
                 balance '{balance}' does not decide; use flow"
            ),
            PolicyFault::Apart { shape, balance: Balance::RepairBoost } => write!(
                f,
                "the balance 'repairboost' needs a graph that is known before its nodes, and the \
                 shape '{shape}' has none; use star, ppr or chain"
            ),
            PolicyFault::Apart { shape, balance } => write!(
                f,
                "the balance '{balance}' decides who receives how often, which the shape '{shape}' \
                 cannot follow; use tunable"
            ),
        }
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

impl std::error::Error for PolicyFault {}
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
        for (shape, ..) in SHAPES {
            for (balance, ..) in BALANCES {
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

    #[test]
    fn every_preset_can_be_planned() {
        for (name, preset) in Policy::presets() {
            assert_eq!(preset.plannable(), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_shape_and_a_balance_that_do_not_fit_are_told_why() {
        for (text, reason) in [
            ("tunable/random/all", "which the balance 'random' does not decide; use chameleon"),
            ("trace/random/all", "which the balance 'random' does not decide; use flow"),
            ("star/chameleon/all", "which the shape 'star' cannot follow; use tunable"),
            ("pivot/repairboost/all", "the shape 'pivot' has none; use star, ppr or chain"),
        ] {
            let fault = text.parse::<Policy>().unwrap().plannable().unwrap_err().to_string();
            assert!(fault.ends_with(reason), "{text}: {fault}");
        }
    }
}
