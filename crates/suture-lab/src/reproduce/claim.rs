//! What a paper says of a figure, as something that can be checked, and what comes of it here.
//!
//! Place: behind the measuring of an experiment. A claim picks cells of the table, makes one number
//! of them, and compares it with the paper's; nothing here measures. Ratios are compared, because
//! figures print them and links here are not the paper's.
//!
//! Invariant: judging is a function of the claim and the table alone.

use serde::{Deserialize, Serialize};

use super::table::{Cell, Group, PanelTable, Table, mean};
use super::traces::LinkSource;

/// A number of the paper is met within a fifth of it, percentages from ten on within three.
const TOLERANCE: f64 = 0.2;
const POINTS: f64 = 3.0;
const POINTS_FROM: f64 = 10.0;

/// What is below this, in percent, has no direction: repetitions differ by as much.
const NOISE: f64 = 1.0;

/// What is below this is what sums of floating point leave of zero.
const ZERO: f64 = 1e-12;

/// A statement of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// In our words, with the paper's numbers.
    pub text: &'static str,
    /// Where the paper states it.
    pub place: &'static str,
    /// What is made of the table.
    pub quantity: Quantity,
    /// What the paper says of it.
    pub said: Said,
    /// Why it may be different here.
    pub apart: &'static str,
}

/// One number of a table.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// By how many percent the first lie above the second, on average over all pairs.
    Above(Pick, Pick),
    /// The largest of these.
    MostAbove(Pick, Pick),
    /// The smallest of these.
    LeastAbove(Pick, Pick),
    /// By how many percent the first lie below the second, on average over all pairs.
    Below(Pick, Pick),
    /// The largest of these.
    MostBelow(Pick, Pick),
    /// The smallest of these.
    LeastBelow(Pick, Pick),
    /// By how many percent the first lie above or below the second where they do most.
    Apart(Pick, Pick),
    /// Of how many percent of the pairs the first lies above the second.
    OftenAbove(Pick, Pick),
    /// The mean of what is picked.
    Mean(Pick),
    /// The largest of what is picked.
    Most(Pick),
    /// The smallest of what is picked.
    Least(Pick),
    /// The first number less the second.
    Minus(&'static Quantity, &'static Quantity),
}

/// Some cells of a table; an empty list is all of them.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// By their series, in this order.
    pub series: &'static [&'static str],
    /// By the titles of their panels.
    pub panels: &'static [&'static str],
    /// By the labels of their groups.
    pub at: &'static [&'static str],
}

/// What a paper says of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    /// It lies about here.
    Between(f64, f64),
    /// It is no more than this.
    AtMost(f64),
    /// It is no less than this.
    AtLeast(f64),
    /// It is the least of a range that begins about here: what is more does not contradict it.
    From(f64),
    /// It is the most of a range that ends about here: what is more contradicts it.
    UpTo(f64),
    /// It is above zero.
    Positive,
    /// It is zero, or as near as this.
    Near(f64),
    /// It is a degree of balance about here: one is the best, so what is above one counts.
    Degree(f64, f64),
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the paper says, within the tolerance.
    Holds,
    /// In the direction that the paper says, by more or less than it says.
    Direction,
    /// It does not hold at all.
    Fails,
    /// Too little could be measured to decide.
    Unknown,
}

/// A claim with its number and its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim that was judged.
    pub claim: Claim,
    /// What was measured, if anything was.
    pub measured: Option<f64>,
    /// What comes of it.
    pub verdict: Verdict,
}

/// Why numbers of links differ where they are drawn from models.
pub const MODELLED: &str = "The built-in models were fitted to means, congested shares and run \
    lengths of each direction, not to how uneven nodes are among each other: a node outside of an \
    episode uses nothing most of the time, and those in one stay the same until it ends. --traces \
    takes the measurements themselves.";

/// The same where they are not.
const MEASURED: &str = "The links are those of the files of --traces, and this is what these hold.";

impl Judged {
    /// Why it came out otherwise than in the paper, on links from there; nothing where it did not.
    pub fn why(&self, links: LinkSource) -> &'static str {
        match self.verdict {
            Verdict::Holds => "",
            _ if self.claim.apart == MODELLED && links == LinkSource::Measurements => MEASURED,
            _ => self.claim.apart,
        }
    }
}

/// All cells of these series.
pub const fn of(series: &'static [&'static str]) -> Pick {
    Pick { series, panels: &[], at: &[] }
}

impl Pick {
    /// Only those of these groups.
    pub const fn at(self, at: &'static [&'static str]) -> Pick {
        Pick { at, ..self }
    }

    /// Only those of these panels.
    pub const fn panel(self, panels: &'static [&'static str]) -> Pick {
        Pick { panels, ..self }
    }

    fn cells<'a>(&self, table: &'a Table) -> Vec<Picked<'a>> {
        let has = |list: &[&str], word: &str| list.is_empty() || list.contains(&word);
        let mut found = Vec::new();
        for panel in table.panels.iter().filter(|panel| has(self.panels, &panel.title)) {
            for group in panel.groups.iter().filter(|group| has(self.at, &group.label)) {
                for cell in &group.cells {
                    let place = self.series.iter().position(|name| *name == cell.series);
                    let place = if self.series.is_empty() { Some(0) } else { place };
                    if let (Some(place), Some(value)) = (place, cell.mean()) {
                        found.push(Picked { panel, group, cell, place, value });
                    }
                }
            }
        }
        found
    }
}

/// A cell that a pick found, and where.
struct Picked<'a> {
    panel: &'a PanelTable,
    group: &'a Group,
    cell: &'a Cell,
    /// Which of the pick's series it is.
    place: usize,
    value: f64,
}

impl Quantity {
    /// The number; `None` where the table lacks what it is made of.
    pub fn of(&self, table: &Table) -> Option<f64> {
        let least = |values: Vec<f64>| values.into_iter().min_by(f64::total_cmp);
        let most = |values: Vec<f64>| values.into_iter().max_by(f64::total_cmp);
        match self {
            Quantity::Above(a, b) => mean(&percents(a, b, table, above)),
            Quantity::MostAbove(a, b) => most(percents(a, b, table, above)),
            Quantity::LeastAbove(a, b) => least(percents(a, b, table, above)),
            Quantity::Below(a, b) => mean(&percents(a, b, table, below)),
            Quantity::MostBelow(a, b) => most(percents(a, b, table, below)),
            Quantity::LeastBelow(a, b) => least(percents(a, b, table, below)),
            Quantity::Apart(a, b) => most(percents(a, b, table, |a, b| above(a, b).abs())),
            Quantity::OftenAbove(a, b) => {
                mean(&percents(a, b, table, |a, b| 100.0 * f64::from(a > b)))
            }
            Quantity::Mean(pick) => mean(&values(pick, table)),
            Quantity::Most(pick) => most(values(pick, table)),
            Quantity::Least(pick) => least(values(pick, table)),
            Quantity::Minus(a, b) => Some(a.of(table)? - b.of(table)?),
        }
    }

    /// Whether it is a value and compares nothing, so that zero is no turning point of it.
    fn is_level(&self) -> bool {
        matches!(self, Quantity::Mean(_) | Quantity::Most(_) | Quantity::Least(_))
    }
}

#[cfg(test)]
impl Quantity {
    /// Every series, panel and group that it names.
    pub fn words(&self) -> Vec<&'static str> {
        let of = |pick: &Pick| [pick.series, pick.panels, pick.at].concat();
        match self {
            Quantity::Minus(a, b) => [a.words(), b.words()].concat(),
            Quantity::Mean(pick) | Quantity::Most(pick) | Quantity::Least(pick) => of(pick),
            Quantity::Above(a, b)
            | Quantity::MostAbove(a, b)
            | Quantity::LeastAbove(a, b)
            | Quantity::Apart(a, b)
            | Quantity::OftenAbove(a, b)
            | Quantity::Below(a, b)
            | Quantity::MostBelow(a, b)
            | Quantity::LeastBelow(a, b) => [of(a), of(b)].concat(),
        }
    }
}

fn above(a: f64, b: f64) -> f64 {
    100.0 * (a / b - 1.0)
}

fn below(a: f64, b: f64) -> f64 {
    100.0 * (1.0 - a / b)
}

fn values(pick: &Pick, table: &Table) -> Vec<f64> {
    pick.cells(table).iter().map(|picked| picked.value).collect()
}

/// The percent of every pair of the picks. Cells are paired within a panel and a group, unless both
/// picks name theirs; what both name as many of, groups or series, one by one, otherwise each with
/// each. Where neither names series, a series is paired with itself.
fn percents(a: &Pick, b: &Pick, table: &Table, percent: fn(f64, f64) -> f64) -> Vec<f64> {
    let (any_panel, any_group) =
        (!a.panels.is_empty() && !b.panels.is_empty(), !a.at.is_empty() && !b.at.is_empty());
    let one_by_one = a.series.len() == b.series.len() && a.series.len() > 1;
    let groups_one_by_one = any_group && a.at.len() == b.at.len();
    let any_series = !a.series.is_empty() || !b.series.is_empty();
    let place = |pick: &Pick, label: &str| pick.at.iter().position(|known| *known == label);
    let seconds = b.cells(table);
    let mut found = Vec::new();
    for first in a.cells(table) {
        for second in &seconds {
            let is_pair = (any_panel || first.panel.title == second.panel.title)
                && (any_group || first.group.label == second.group.label)
                && (!groups_one_by_one
                    || place(a, &first.group.label) == place(b, &second.group.label))
                && (any_series || first.cell.series == second.cell.series)
                && (!one_by_one || first.place == second.place)
                && !std::ptr::eq(first.cell, second.cell);
            if is_pair && second.value != 0.0 {
                found.push(percent(first.value, second.value));
            }
        }
    }
    found
}

impl Claim {
    /// What comes of it in this table.
    pub fn judge(&self, table: &Table) -> Judged {
        let measured = self.quantity.of(table).filter(|value| value.is_finite());
        let measured = measured.map(|value| if value.abs() < ZERO { 0.0 } else { value });
        let is_about = matches!(self.said, Said::Between(..) | Said::Degree(..));
        let verdict = match measured.map(|value| self.said.judge(value)) {
            None => Verdict::Unknown,
            Some(Verdict::Direction) if is_about && self.quantity.is_level() => Verdict::Fails,
            Some(verdict) => verdict,
        };
        Judged { claim: *self, measured, verdict }
    }
}

/// How far from a number of the paper it is still met.
fn slack(number: f64) -> f64 {
    match number.abs() {
        size if size < POINTS_FROM => TOLERANCE * size,
        size => POINTS.max(TOLERANCE * size),
    }
}

impl Said {
    /// What comes of a number that the paper says this of.
    pub fn judge(self, measured: f64) -> Verdict {
        let holds = |does: bool| if does { Verdict::Holds } else { Verdict::Fails };
        match self {
            Said::AtMost(limit) => holds(measured <= limit),
            Said::AtLeast(limit) => holds(measured >= limit),
            Said::Positive => holds(measured > NOISE),
            Said::Near(distance) => holds(measured.abs() <= distance),
            Said::Degree(low, high) => {
                let percent = |degree: f64| 100.0 * (degree - 1.0);
                Said::Between(percent(low), percent(high)).judge(percent(measured))
            }
            Said::From(low) if measured >= low - slack(low) => Verdict::Holds,
            Said::From(low) => Said::Between(low, low).judge(measured),
            Said::UpTo(high) if measured > high + slack(high) => Verdict::Fails,
            Said::UpTo(high) => Said::Between(high, high).judge(measured),
            Said::Between(low, high) => {
                let is_met = low - slack(low) <= measured && measured <= high + slack(high);
                let is_above = low + high > 0.0;
                let has_direction = measured.abs() > NOISE.min(low.abs());
                match (is_met, has_direction && (measured > 0.0) == is_above) {
                    (true, _) => Verdict::Holds,
                    (false, true) => Verdict::Direction,
                    (false, false) => Verdict::Fails,
                }
            }
        }
    }

    /// The paper's number, as reports show it.
    pub fn describe(self) -> String {
        use super::table::shown;
        match self {
            Said::Between(low, high) | Said::Degree(low, high) if low == high => shown(low),
            Said::Between(low, high) | Said::Degree(low, high) => {
                format!("{} to {}", shown(low), shown(high))
            }
            Said::AtMost(limit) | Said::UpTo(limit) => format!("at most {}", shown(limit)),
            Said::AtLeast(limit) | Said::From(limit) => format!("at least {}", shown(limit)),
            Said::Positive => "above 0".to_string(),
            Said::Near(distance) => format!("0, give or take {}", shown(distance)),
        }
    }
}

impl Verdict {
    /// Its name as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Direction => "holds in direction",
            Verdict::Fails => "does not hold",
            Verdict::Unknown => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two panels of two groups: CR has 10, 20, 30, 40 and RB 15, 30, 60, 80.
    fn table() -> Table {
        let cell = |series: &str, value: f64| Cell {
            series: series.into(),
            policy: "cr".into(),
            values: vec![value - 1.0, value + 1.0],
            refused: None,
        };
        let group = |label: &str, cr: f64, rb: f64| Group {
            label: label.into(),
            bound: None,
            cells: vec![cell("CR", cr), cell("RB", rb)],
        };
        let panel = |title: &str, groups| PanelTable {
            title: title.into(),
            what: "throughput".into(),
            unit: "MB/s".into(),
            is_logarithmic: false,
            bound_name: None,
            groups,
        };
        let slow = vec![group("1", 10.0, 15.0), group("2", 20.0, 30.0)];
        let fast = vec![group("1", 30.0, 60.0), group("2", 40.0, 80.0)];
        Table { panels: vec![panel("slow", slow), panel("fast", fast)] }
    }

    #[test]
    fn gains_are_means_of_pairs_at_the_same_place() {
        let (rb, cr) = (of(&["RB"]), of(&["CR"]));
        let value = |quantity: Quantity| quantity.of(&table());
        assert_eq!(value(Quantity::Above(rb, cr)), Some(75.0));
        assert_eq!(value(Quantity::MostAbove(rb, cr)), Some(100.0));
        assert_eq!(value(Quantity::LeastAbove(rb, cr)), Some(50.0));
        assert_eq!(value(Quantity::Above(rb.panel(&["slow"]), cr)), Some(50.0));
        assert_eq!(value(Quantity::MostBelow(cr, rb)), Some(50.0));
        assert_eq!(value(Quantity::Mean(cr.at(&["1"]))), Some(20.0));
        assert_eq!(value(Quantity::Most(rb)), Some(80.0));
        assert_eq!(value(Quantity::Least(rb)), Some(15.0));
    }

    #[test]
    fn picks_that_both_name_their_groups_or_panels_are_paired_across_them() {
        let cr = of(&["CR"]);
        let grows = Quantity::Above(cr.at(&["2"]), cr.at(&["1"]));
        assert!((grows.of(&table()).unwrap() - 200.0 / 3.0).abs() < 1e-9);
        let faster = Quantity::Above(cr.panel(&["fast"]), cr.panel(&["slow"]));
        assert_eq!(faster.of(&table()), Some(150.0));
        const GAIN_FAST: Quantity = Quantity::Above(of(&["RB"]).panel(&["fast"]), of(&["CR"]));
        const GAIN_SLOW: Quantity = Quantity::Above(of(&["RB"]).panel(&["slow"]), of(&["CR"]));
        assert_eq!(Quantity::Minus(&GAIN_FAST, &GAIN_SLOW).of(&table()), Some(50.0));
    }

    #[test]
    fn what_is_not_there_gives_no_number() {
        let nobody = of(&["PPT"]);
        assert_eq!(Quantity::Mean(nobody).of(&table()), None);
        let claim = Claim {
            text: "",
            place: "",
            quantity: Quantity::Above(nobody, of(&["CR"])),
            said: Said::Positive,
            apart: "",
        };
        assert_eq!(claim.judge(&table()).verdict, Verdict::Unknown);
    }

    #[test]
    fn a_number_of_the_paper_holds_within_a_fifth_and_otherwise_in_direction_or_not() {
        let said = Said::Between(33.0, 98.0);
        for (measured, verdict) in [
            (60.0, Verdict::Holds),
            (27.0, Verdict::Holds),
            (117.0, Verdict::Holds),
            (25.0, Verdict::Direction),
            (130.0, Verdict::Direction),
            (0.5, Verdict::Fails),
            (-40.0, Verdict::Fails),
        ] {
            assert_eq!(said.judge(measured), verdict, "{measured}");
        }
        // Small ratios: a fifth of 1.25, not five.
        assert_eq!(Said::Between(1.25, 1.25).judge(1.4), Verdict::Holds);
        assert_eq!(Said::Between(1.25, 1.25).judge(2.0), Verdict::Direction);
        assert_eq!(Said::Between(-20.0, -10.0).judge(-14.0), Verdict::Holds);
        assert_eq!(Said::Between(-20.0, -10.0).judge(9.0), Verdict::Fails);
    }

    #[test]
    fn of_ranges_the_least_may_be_more_and_the_most_may_not() {
        for (said, measured, verdict) in [
            (Said::From(25.0), 24.7, Verdict::Holds),
            (Said::From(25.0), 60.0, Verdict::Holds),
            (Said::From(25.0), 12.0, Verdict::Direction),
            (Said::From(25.0), -12.0, Verdict::Fails),
            (Said::UpTo(41.3), 44.0, Verdict::Holds),
            (Said::UpTo(41.3), 12.0, Verdict::Direction),
            (Said::UpTo(41.3), 148.0, Verdict::Fails),
            (Said::UpTo(41.3), -2.0, Verdict::Fails),
        ] {
            assert_eq!(said.judge(measured), verdict, "{said:?} {measured}");
        }
    }

    #[test]
    fn a_value_that_compares_nothing_has_no_direction() {
        let judge = |quantity: Quantity, said: Said| {
            Claim { text: "", place: "", quantity, said, apart: "" }.judge(&table())
        };
        let (rb, cr) = (of(&["RB"]), of(&["CR"]));
        let about = Said::Between(20.0, 20.0);
        assert_eq!(judge(Quantity::Most(rb), about).verdict, Verdict::Fails, "80 is not 20");
        assert_eq!(judge(Quantity::Above(rb, cr), about).verdict, Verdict::Direction, "75 %");
        assert_eq!(judge(Quantity::Most(rb), Said::From(300.0)).verdict, Verdict::Direction);
        // 0.1 + 0.2 - 0.3 is not zero for a processor.
        let none = Quantity::Minus(&Quantity::Mean(ALL), &Quantity::Mean(ALL));
        assert_eq!(judge(none, Said::Positive).measured, Some(0.0));
    }

    const ALL: Pick = Pick { series: &[], panels: &[], at: &[] };

    #[test]
    fn links_that_were_measured_are_not_said_to_be_modelled() {
        let claim = Claim {
            text: "",
            place: "",
            quantity: Quantity::Mean(of(&["CR"])),
            said: Said::AtLeast(100.0),
            apart: MODELLED,
        };
        let why = |links| claim.judge(&table()).why(links);
        assert!(why(LinkSource::Models).contains("built-in models"));
        assert!(why(LinkSource::Measurements).starts_with("The links are those of the files"));
    }

    #[test]
    fn groups_that_both_name_are_paired_one_by_one_and_series_with_themselves() {
        let all = Pick { series: &[], panels: &[], at: &[] };
        let slow = all.panel(&["slow"]);
        let both = Quantity::LeastAbove(slow.at(&["2"]), slow.at(&["1"]));
        assert_eq!(both.of(&table()), Some(100.0), "no series is paired with another");
        let (rb, cr) = (of(&["RB"]).panel(&["slow"]), of(&["CR"]).panel(&["slow"]));
        let across = Quantity::Apart(rb.at(&["1", "2"]), cr.at(&["1", "2"]));
        assert_eq!(across.of(&table()), Some(50.0), "the first with the first");
        let crossed = Quantity::Apart(cr.at(&["2", "1"]), rb.at(&["1", "2"]));
        assert_eq!(crossed.of(&table()).map(f64::round), Some(67.0), "10 against 30");
    }

    #[test]
    fn pairs_are_counted_in_which_the_first_lies_above_the_second() {
        let (rb, cr) = (of(&["RB"]), of(&["CR"]));
        assert_eq!(Quantity::OftenAbove(rb, cr).of(&table()), Some(100.0));
        assert_eq!(Quantity::OftenAbove(cr, rb).of(&table()), Some(0.0));
        // 20 lies above 15, and 10 does not lie above 30.
        let some = Quantity::OftenAbove(
            cr.panel(&["slow"]).at(&["2", "1"]),
            rb.panel(&["slow"]).at(&["1", "2"]),
        );
        assert_eq!(some.of(&table()), Some(50.0));
        assert_eq!(Quantity::OftenAbove(of(&["PPT"]), cr).of(&table()), None);
    }

    #[test]
    fn of_a_degree_what_is_above_one_counts() {
        let said = Said::Degree(1.02, 1.02);
        assert_eq!(said.judge(1.023), Verdict::Holds);
        assert_eq!(said.judge(1.05), Verdict::Direction);
        assert_eq!(said.judge(1.0), Verdict::Fails);
        assert_eq!(Said::Degree(1.63, 1.71).judge(1.75), Verdict::Holds);
    }

    #[test]
    fn limits_hold_or_do_not() {
        assert_eq!(Said::AtMost(0.9).judge(0.9), Verdict::Holds);
        assert_eq!(Said::AtMost(0.9).judge(1.0), Verdict::Fails);
        assert_eq!(Said::AtLeast(2.0).judge(1.9), Verdict::Fails);
        assert_eq!(Said::Positive.judge(0.5), Verdict::Fails);
        assert_eq!(Said::Near(10.0).judge(-9.0), Verdict::Holds);
    }
}
