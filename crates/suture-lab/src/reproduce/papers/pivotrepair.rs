//! PivotRepair, IEEE ICDCS 2022: Figure 2, Table I, Figures 5 to 7.
//!
//! Place: experiments as data. 16 nodes whose links of 1 Gbit/s follow what three workloads left of
//! them (section III-A), chunks of 64 MiB (section V-B) in slices of 32 KiB, which the text has in
//! Experiment 5. Each is shown from starts that are drawn at random, and from starts at which every
//! path leads through a congested link: links are idle most of the time, and the paper chose
//! situations with congestion. What links alone show is here, repairs of single chunks are in
//! `single.rs`, those of nodes in `node.rs`.

mod node;
mod single;

use crate::reproduce::claim::Quantity::{Least, Mean};
use crate::reproduce::claim::{Claim, MODELLED, Pick, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, Series,
};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{
    Between, FigureSetting, GBIT, Lost, Placing, Start, To, TraceName,
};

/// One chunk, rebuilt at the node that replaces the failed one.
const BASE: FigureSetting = FigureSetting {
    code: "rs(4,2)",
    nodes: 16,
    racks: &[],
    between: Between::Unlimited,
    link: GBIT,
    disk: None,
    chunk_bytes: 64 << 20,
    packet_bytes: Some(32 << 10),
    lost: Lost::Chunks(1),
    failed: 1,
    to: To::Replacement,
    placing: Placing::Random,
    foreground: None,
    trace: Some((TraceName::TpcH, Start::Congested)),
    straggler: None,
};

const fn one_chunk(code: &'static str, trace: TraceName, start: Start) -> FigureSetting {
    FigureSetting { code, trace: Some((trace, start)), ..BASE }
}

const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const fn printed(label: &'static str, series: &'static str, value: f64) -> PrintedValue {
    PrintedValue { label, series, value }
}

/// The four (n, k) of the paper under one workload, a chunk of each.
const fn codes(trace: TraceName, start: Start) -> [PanelPoint; 4] {
    [
        point("(6,4)", one_chunk("rs(4,2)", trace, start)),
        point("(9,6)", one_chunk("rs(6,3)", trace, start)),
        point("(12,8)", one_chunk("rs(8,4)", trace, start)),
        point("(14,10)", one_chunk("rs(10,4)", trace, start)),
    ]
}

const RP: Pick = of(&["RP"]);
const PPT: Pick = of(&["PPT"]);
const PIVOT: Pick = of(&["PivotRepair"]);
const ALL: Pick = Pick { series: &[], panels: &[], at: &[] };

/// What looks at links has no policy.
const LINKS: &[Series] = &[series("links", "-")];

const TRACES: &[PanelPoint] = &[
    point("TPC-DS", one_chunk("rs(4,2)", TraceName::TpcDs, Start::Random)),
    point("TPC-H", one_chunk("rs(4,2)", TraceName::TpcH, Start::Random)),
    point("SWIM", one_chunk("rs(4,2)", TraceName::Swim, Start::Random)),
];

pub const EXPERIMENTS: &[PaperExperiment] =
    &[FIGURE2, TABLE1, single::FIGURE5, single::FIGURE6, node::FIGURE7];

const fn of_links(title: &'static str, metric: Metric) -> PanelSpec {
    PanelSpec { title, metric, points: TRACES, series: LINKS, printed: &[] }
}

const FIGURE2: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig2",
    title: "Used node bandwidth under applications",
    did: "TPC-DS, TPC-H and SWIM on a Hadoop cluster of 16 machines with 1 Gb/s: the used \
        bandwidth of each node, the larger of both directions, for 6000 s (section III-A).",
    here: "The same from the links' traces, the figure's distribution as what is used at most in \
        so many percent of all seconds of all nodes; there is no repair, so no policy and no \
        bound.",
    panels: &[
        of_links("mean use", Metric::UsedBandwidth),
        of_links("half of the time at most", Metric::UsedQuantile(0.5)),
        of_links("90 % of the time at most", Metric::UsedQuantile(0.9)),
        of_links("99 % of the time at most", Metric::UsedQuantile(0.99)),
        of_links("at most", Metric::UsedQuantile(1.0)),
        of_links("some node congested", Metric::AnyCongested),
        of_links("nodes ever congested", Metric::EverCongested),
        of_links("congested nodes change", Metric::CongestionChanges),
    ],
    claims: &[
        Claim {
            text: "each of the 16 nodes is congested at some time",
            place: "section III-A, Observation 1",
            quantity: Mean(ALL.panel(&["nodes ever congested"])),
            said: Said::AtLeast(16.0),
            apart: MODELLED,
        },
        Claim {
            text: "under each workload the set of congested nodes varies from one second to the \
                next",
            place: "section III-A, Observation 1",
            quantity: Least(ALL.panel(&["congested nodes change"])),
            said: Said::Positive,
            apart: MODELLED,
        },
    ],
};

const fn table_panel(
    title: &'static str,
    usage: f64,
    printed: &'static [PrintedValue],
) -> PanelSpec {
    PanelSpec { title, metric: Metric::Uneven(usage), points: TRACES, series: LINKS, printed }
}

const fn cell(
    text: &'static str,
    panel: &'static [&'static str],
    trace: &'static [&'static str],
    percent: f64,
) -> Claim {
    Claim {
        text,
        place: "section III-A, Table I",
        quantity: Mean(ALL.panel(panel).at(trace)),
        said: Said::Between(percent, percent),
        apart: MODELLED,
    }
}

const TABLE1: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "table1",
    title: "Congested time in which nodes have uneven links",
    did: "Of the seconds in which a node uses more than 90 %, more than 95 % or all of its link, \
        those in which the coefficient of variation of the 16 nodes is above 0.5 (section III-A).",
    here: "The same from the links' traces, by what nodes have left of both directions. The text \
        has the variation of what they use, with which none of its nine values comes out of its \
        own measurements; with what they have left, and without the seconds in which no node has \
        anything, all nine come out to the printed digit. There is no repair, so no policy and no \
        bound.",
    panels: &[
        table_panel(
            ">90%",
            0.9,
            &[
                printed("TPC-DS", "links", 37.1),
                printed("TPC-H", "links", 57.8),
                printed("SWIM", "links", 23.6),
            ],
        ),
        table_panel(
            ">95%",
            0.95,
            &[
                printed("TPC-DS", "links", 37.6),
                printed("TPC-H", "links", 61.2),
                printed("SWIM", "links", 24.4),
            ],
        ),
        table_panel(
            "=100%",
            1.0,
            &[
                printed("TPC-DS", "links", 40.2),
                printed("TPC-H", "links", 67.3),
                printed("SWIM", "links", 29.7),
            ],
        ),
    ],
    claims: &[
        cell(
            "37.1 % of the congested time (>90 %) has uneven links under TPC-DS",
            &[">90%"],
            &["TPC-DS"],
            37.1,
        ),
        cell(
            "57.8 % of the congested time (>90 %) has uneven links under TPC-H",
            &[">90%"],
            &["TPC-H"],
            57.8,
        ),
        cell(
            "23.6 % of the congested time (>90 %) has uneven links under SWIM",
            &[">90%"],
            &["SWIM"],
            23.6,
        ),
        cell(
            "37.6 % of the congested time (>95 %) has uneven links under TPC-DS",
            &[">95%"],
            &["TPC-DS"],
            37.6,
        ),
        cell(
            "61.2 % of the congested time (>95 %) has uneven links under TPC-H",
            &[">95%"],
            &["TPC-H"],
            61.2,
        ),
        cell(
            "24.4 % of the congested time (>95 %) has uneven links under SWIM",
            &[">95%"],
            &["SWIM"],
            24.4,
        ),
        cell(
            "40.2 % of the congested time (=100 %) has uneven links under TPC-DS",
            &["=100%"],
            &["TPC-DS"],
            40.2,
        ),
        cell(
            "67.3 % of the congested time (=100 %) has uneven links under TPC-H",
            &["=100%"],
            &["TPC-H"],
            67.3,
        ),
        cell(
            "29.7 % of the congested time (=100 %) has uneven links under SWIM",
            &["=100%"],
            &["SWIM"],
            29.7,
        ),
    ],
};
