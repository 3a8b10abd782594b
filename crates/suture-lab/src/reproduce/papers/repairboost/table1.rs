//! RepairBoost, Table 1: how evenly random and LRU selection load nodes.
//!
//! Place: experiments as data. The paper prints every cell, so each stands beside what comes out
//! here; claims are about columns, over the codes that a column can be measured for.

use super::{coded, point, series};
use crate::reproduce::claim::Quantity::{Mean, OftenAbove};
use crate::reproduce::claim::{Claim, Said, of};
use crate::reproduce::experiment::{PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE};
use crate::reproduce::metric::Metric;

/// The codes of the table.
const CODES: &[&str] =
    &["RS(6,3)", "RS(10,4)", "LRC(6,2,2)", "LRC(8,2,2)", "RC(4,2,5)", "RC(5,3,6)"];

/// Those of which ECPipe and PPR can be planned here.
const SUMS: &[&str] = &["RS(6,3)", "RS(10,4)", "LRC(6,2,2)", "LRC(8,2,2)"];

const fn cell(label: &'static str, series: &'static str, value: f64) -> PrintedValue {
    PrintedValue { label, series, value }
}

const PRINTED: &[PrintedValue] = &[
    cell("RS(6,3)", "CR RAN", 1.64),
    cell("RS(6,3)", "CR LRU", 1.65),
    cell("RS(6,3)", "ECPipe RAN", 1.25),
    cell("RS(6,3)", "ECPipe LRU", 1.44),
    cell("RS(6,3)", "PPR RAN", 1.30),
    cell("RS(6,3)", "PPR LRU", 1.43),
    cell("RS(10,4)", "CR RAN", 1.67),
    cell("RS(10,4)", "CR LRU", 1.82),
    cell("RS(10,4)", "ECPipe RAN", 1.14),
    cell("RS(10,4)", "ECPipe LRU", 1.41),
    cell("RS(10,4)", "PPR RAN", 1.25),
    cell("RS(10,4)", "PPR LRU", 2.01),
    cell("LRC(6,2,2)", "CR RAN", 1.67),
    cell("LRC(6,2,2)", "CR LRU", 1.68),
    cell("LRC(6,2,2)", "ECPipe RAN", 1.34),
    cell("LRC(6,2,2)", "ECPipe LRU", 1.32),
    cell("LRC(6,2,2)", "PPR RAN", 1.46),
    cell("LRC(6,2,2)", "PPR LRU", 1.37),
    cell("LRC(8,2,2)", "CR RAN", 1.63),
    cell("LRC(8,2,2)", "CR LRU", 1.65),
    cell("LRC(8,2,2)", "ECPipe RAN", 1.25),
    cell("LRC(8,2,2)", "ECPipe LRU", 1.26),
    cell("LRC(8,2,2)", "PPR RAN", 1.33),
    cell("LRC(8,2,2)", "PPR LRU", 1.43),
    cell("RC(4,2,5)", "CR RAN", 1.71),
    cell("RC(4,2,5)", "CR LRU", 1.74),
    cell("RC(4,2,5)", "ECPipe RAN", 1.29),
    cell("RC(4,2,5)", "ECPipe LRU", 1.31),
    cell("RC(4,2,5)", "PPR RAN", 1.37),
    cell("RC(4,2,5)", "PPR LRU", 1.32),
    cell("RC(5,3,6)", "CR RAN", 1.70),
    cell("RC(5,3,6)", "CR LRU", 1.73),
    cell("RC(5,3,6)", "ECPipe RAN", 1.25),
    cell("RC(5,3,6)", "ECPipe LRU", 1.30),
    cell("RC(5,3,6)", "PPR RAN", 1.33),
    cell("RC(5,3,6)", "PPR LRU", 1.35),
];

/// Why degrees of random choices differ.
const CHANCE: &str = "How far the most loaded of 15 nodes is above the mean is chance while a \
    hundred choices are drawn, and placements and draws of the paper are not known.";

/// Why degrees of LRU choices differ.
const PLACED: &str = "LRU draws nothing: its degree follows from where chunks lie and from the \
    order of the stripes, which are drawn anew here. Of a tree of PPR or a chain the paper does \
    not say which of the selected nodes stands where; here they stand in the order of their \
    timestamps.";

/// Why LRU and chance compare otherwise.
const CLOSE: &str = "In the paper's table both are within 2 % of each other in nine of the 18 \
    pairs, which placements of a hundred stripes decide.";

pub const TABLE1: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "table1",
    title: "Load balancing degrees of random and LRU selection",
    did: "16 nodes, chunks placed at random; the most that a node uploads or downloads over what \
        it would if all did the same; five runs (section 5.1).",
    here: "Plans alone, 100 lost chunks. RC(4,2,5) is the paper's Butterfly code [44], RC(5,3,6) \
        an MSR code with d = k + 1 [53]; clay(4,2,5) and clay(5,3,6), which send as much, stand in \
        for them, and Butterfly(4,2) itself is beside them. ECPipe and PPR need codes that add up \
        whole chunks, so that they refuse these three. LRU is that of section 5.1: a node has one \
        timestamp, of when it was last selected to help or to receive, and of equal ones the \
        lowest id comes first.",
    panels: &[PanelSpec {
        title: "degrees",
        metric: Metric::Balance,
        points: &[
            point("RS(6,3)", coded("rs(6,3)")),
            point("RS(10,4)", coded("rs(10,4)")),
            point("LRC(6,2,2)", coded("lrc(6,2,2)")),
            point("LRC(8,2,2)", coded("lrc(8,2,2)")),
            point("RC(4,2,5)", coded("clay(4,2,5)")),
            point("RC(5,3,6)", coded("clay(5,3,6)")),
            point("Butterfly(4,2)", coded("butterfly(4)")),
        ],
        series: &[
            series("CR RAN", "star/random/all"),
            series("CR LRU", "star/lru:shared/all"),
            series("ECPipe RAN", "chain/random/all"),
            series("ECPipe LRU", "chain/lru:shared/all"),
            series("PPR RAN", "ppr/random/all"),
            series("PPR LRU", "ppr/lru:shared/all"),
            SUTURE,
        ],
        printed: PRINTED,
    }],
    claims: &[
        Claim {
            text: "CR with random selection has a degree of 1.67 on average over the six codes \
                (1.63 to 1.71)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["CR RAN"]).at(CODES)),
            said: Said::Degree(1.67, 1.67),
            apart: CHANCE,
        },
        Claim {
            text: "CR with LRU selection has a degree of 1.712 on average over the six codes (1.65 \
                to 1.82)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["CR LRU"]).at(CODES)),
            said: Said::Degree(1.712, 1.712),
            apart: PLACED,
        },
        Claim {
            text: "ECPipe with random selection has a degree of 1.245 on average over RS and LRC \
                (1.14 to 1.34)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["ECPipe RAN"]).at(SUMS)),
            said: Said::Degree(1.245, 1.245),
            apart: CHANCE,
        },
        Claim {
            text: "ECPipe with LRU selection has a degree of 1.358 on average over RS and LRC \
                (1.26 to 1.44)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["ECPipe LRU"]).at(SUMS)),
            said: Said::Degree(1.358, 1.358),
            apart: PLACED,
        },
        Claim {
            text: "PPR with random selection has a degree of 1.335 on average over RS and LRC \
                (1.25 to 1.46)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["PPR RAN"]).at(SUMS)),
            said: Said::Degree(1.335, 1.335),
            apart: CHANCE,
        },
        Claim {
            text: "PPR with LRU selection has a degree of 1.56 on average over RS and LRC (1.37 to \
                2.01)",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["PPR LRU"]).at(SUMS)),
            said: Said::Degree(1.56, 1.56),
            apart: PLACED,
        },
        Claim {
            text: "random selection is more balanced than LRU in most cases (15 of the table's 18 \
                pairs, 83 %; more than half are asked for)",
            place: "section 5.1, Table 1",
            quantity: OftenAbove(
                of(&["CR LRU", "ECPipe LRU", "PPR LRU"]).at(CODES),
                of(&["CR RAN", "ECPipe RAN", "PPR RAN"]).at(CODES),
            ),
            said: Said::AtLeast(51.0),
            apart: CLOSE,
        },
    ],
};
