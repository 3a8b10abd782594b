//! PivotRepair, IEEE ICDCS 2022: Figure 2, Table I, Figures 5 to 7.
//!
//! Place: experiments as data. 16 nodes whose links of 1 Gbit/s follow what three workloads left of
//! them, chunks of 64 MiB in slices of 32 KiB (section V-B). Each is shown from starts that are
//! drawn at random, and from starts at which some node of the stripe is congested: links are idle
//! most of the time, and the paper chose situations with congestion.

use crate::reproduce::claim::Quantity::{Above, Below, LeastBelow, Mean, Most, MostBelow};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
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

const fn single(code: &'static str, trace: TraceName, start: Start) -> FigureSetting {
    FigureSetting { code, trace: Some((trace, start)), ..BASE }
}

const fn whole(code: &'static str, trace: TraceName, start: Start) -> FigureSetting {
    let trace = Some((trace, start));
    FigureSetting { code, trace, lost: Lost::Chunks(64), to: To::Anywhere, ..BASE }
}

const fn sliced(kib: u64) -> FigureSetting {
    FigureSetting { packet_bytes: Some(kib << 10), ..BASE }
}

const fn sized(mib: u64) -> FigureSetting {
    FigureSetting { chunk_bytes: mib << 20, ..BASE }
}

const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

/// What looks at links has no policy.
const LINKS: &[Series] = &[series("links", "-")];

const TRACES: &[PanelPoint] = &[
    point("TPC-DS", single("rs(4,2)", TraceName::TpcDs, Start::Random)),
    point("TPC-H", single("rs(4,2)", TraceName::TpcH, Start::Random)),
    point("SWIM", single("rs(4,2)", TraceName::Swim, Start::Random)),
];

const SCHEMES: &[Series] =
    &[series("RP", "rp"), series("PPT", "ppt"), series("PivotRepair", "pivot"), SUTURE];

/// The four (n, k) of the paper under one workload.
const fn codes(trace: TraceName, start: Start) -> [PanelPoint; 4] {
    [
        point("(6,4)", single("rs(4,2)", trace, start)),
        point("(9,6)", single("rs(6,3)", trace, start)),
        point("(12,8)", single("rs(8,4)", trace, start)),
        point("(14,10)", single("rs(10,4)", trace, start)),
    ]
}

const DS_CONGESTED: &[PanelPoint] = &codes(TraceName::TpcDs, Start::Congested);
const H_CONGESTED: &[PanelPoint] = &codes(TraceName::TpcH, Start::Congested);
const SWIM_CONGESTED: &[PanelPoint] = &codes(TraceName::Swim, Start::Congested);
const DS_RANDOM: &[PanelPoint] = &codes(TraceName::TpcDs, Start::Random);
const H_RANDOM: &[PanelPoint] = &codes(TraceName::TpcH, Start::Random);
const SWIM_RANDOM: &[PanelPoint] = &codes(TraceName::Swim, Start::Random);

const fn panel(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: SCHEMES, printed: &[] }
}

const RP: Pick = of(&["RP"]);
const PPT: Pick = of(&["PPT"]);
const PIVOT: Pick = of(&["PivotRepair"]);
const CONGESTED: &[&str] = &["TPC-DS, congested", "TPC-H, congested", "SWIM, congested"];
const RANDOM: &[&str] = &["TPC-DS, random", "TPC-H, random", "SWIM, random"];
const SMALL: &[&str] = &["(6,4)", "(9,6)"];

pub const EXPERIMENTS: &[PaperExperiment] = &[FIGURE2, TABLE1, FIGURE5, FIGURE6, FIGURE7];

const FIGURE2: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig2",
    title: "Used node bandwidth under applications",
    did: "TPC-DS, TPC-H and SWIM on a Hadoop cluster of 16 machines with 1 Gb/s: the used \
        bandwidth of each node, the larger of both directions, for 6000 s (section III-A).",
    here: "The same from the links' traces; there is no repair, so no policy and no bound.",
    panels: &[
        PanelSpec {
            title: "mean use",
            metric: Metric::UsedBandwidth,
            points: TRACES,
            series: LINKS,
            printed: &[],
        },
        PanelSpec {
            title: "some node congested",
            metric: Metric::AnyCongested,
            points: TRACES,
            series: LINKS,
            printed: &[],
        },
    ],
    claims: &[Claim {
        text: "congestion is frequent: some node uses more than 90 % of its link",
        place: "section III-A, Observation 1",
        quantity: Mean(Pick { series: &[], panels: &["some node congested"], at: &[] }),
        said: Said::AtLeast(10.0),
        apart: "",
    }],
};

const fn table_panel(title: &'static str, usage: f64) -> PanelSpec {
    PanelSpec { title, metric: Metric::Uneven(usage), points: TRACES, series: LINKS, printed: &[] }
}

const TABLE1: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "table1",
    title: "Congested time in which nodes use their links unevenly",
    did: "Of the seconds in which a node uses more than 90 %, more than 95 % or all of its link, \
        those in which the used bandwidths' coefficient of variation is above 0.5 (section III-A).",
    here: "The same from the links' traces; there is no repair, so no policy and no bound.",
    panels: &[table_panel(">90%", 0.9), table_panel(">95%", 0.95), table_panel("=100%", 1.0)],
    claims: &[
        Claim {
            text: "37.1 % of the congested time (>90 %) under TPC-DS is uneven",
            place: "section III-A, Table I",
            quantity: Mean(Pick { series: &[], panels: &[">90%"], at: &["TPC-DS"] }),
            said: Said::Between(37.1, 37.1),
            apart: MODELLED,
        },
        Claim {
            text: "57.8 % of it under TPC-H",
            place: "section III-A, Table I",
            quantity: Mean(Pick { series: &[], panels: &[">90%"], at: &["TPC-H"] }),
            said: Said::Between(57.8, 57.8),
            apart: MODELLED,
        },
        Claim {
            text: "23.6 % of it under SWIM",
            place: "section III-A, Table I",
            quantity: Mean(Pick { series: &[], panels: &[">90%"], at: &["SWIM"] }),
            said: Said::Between(23.6, 23.6),
            apart: MODELLED,
        },
        Claim {
            text: "up to 67.3 % of the congested time is uneven",
            place: "section III-A, Observation 2",
            quantity: Most(Pick { series: &[], panels: &[], at: &[] }),
            said: Said::Between(67.3, 67.3),
            apart: MODELLED,
        },
    ],
};

/// Why numbers of links differ.
const MODELLED: &str = "The built-in models were fitted to means, congested shares and run lengths \
    of each direction, not to how uneven nodes are among each other: a calm node uses nothing, so \
    that a congested second is nearly always uneven. --traces has the measurements themselves.";

const FIGURE5: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig5",
    title: "Single-chunk repair: overall time, running time and transfer time",
    did: "Experiments 1 to 3 on EC2, 15 nodes and a master, links replayed with tc, five runs: RP, \
        PPT and PivotRepair for (n, k) = (6,4), (9,6), (12,8), (14,10).",
    here: "The simulator, links followed second by second. Overall time is transfer time and the \
        CPU time of planning, running time is the latter alone. PPT does not try trees but numbers \
        of children, of which there are far fewer, and is refused where even these are too many.",
    panels: &[
        panel("TPC-DS, congested", Metric::WholeSeconds, DS_CONGESTED),
        panel("TPC-H, congested", Metric::WholeSeconds, H_CONGESTED),
        panel("SWIM, congested", Metric::WholeSeconds, SWIM_CONGESTED),
        panel("TPC-DS, random", Metric::WholeSeconds, DS_RANDOM),
        panel("TPC-H, random", Metric::WholeSeconds, H_RANDOM),
        panel("SWIM, random", Metric::WholeSeconds, SWIM_RANDOM),
        panel("TPC-H, running time", Metric::PlanSeconds, H_CONGESTED),
        panel("TPC-H, transfer time", Metric::Seconds, H_CONGESTED),
    ],
    claims: &[
        Claim {
            text: "PivotRepair is faster than RP in all cases",
            place: "section V-C, Experiment 1",
            quantity: LeastBelow(PIVOT.panel(CONGESTED), RP),
            said: Said::AtLeast(-0.5),
            apart: "Links change while a chunk is moved: the best tree of the first second is not \
                always the best of all of them.",
        },
        Claim {
            text: "the overall time is reduced by up to 71.27 % against RP",
            place: "section V-C, Experiment 1",
            quantity: MostBelow(PIVOT.panel(CONGESTED), RP),
            said: Said::Between(71.27, 71.27),
            apart: "RP takes the best path here, as its own paper has it, and not a random one.",
        },
        Claim {
            text: "with (6,4) and (9,6) PPT is about as fast as PivotRepair",
            place: "section V-C, Experiment 1",
            quantity: Above(PPT.panel(CONGESTED).at(SMALL), PIVOT),
            said: Said::Near(10.0),
            apart: "",
        },
        Claim {
            text: "PPT's running time grows exponentially with k",
            place: "section V-C, Experiment 2",
            quantity: Above(
                PPT.panel(&["TPC-H, running time"]).at(&["(9,6)"]),
                PPT.panel(&["TPC-H, running time"]).at(&["(6,4)"]),
            ),
            said: Said::AtLeast(100.0),
            apart: "",
        },
        Claim {
            text: "PivotRepair's running time is at most 5.30 us with (14,10)",
            place: "section V-C, Experiment 2",
            quantity: Most(PIVOT.panel(&["TPC-H, running time"]).at(&["(14,10)"])),
            said: Said::AtMost(5.3e-6),
            apart: "Planning here makes a whole plan of the tree, with its edges and bytes, and not \
                the tree alone.",
        },
        Claim {
            text: "the transfer time is reduced by 71.2 % against RP with k = 10 under TPC-H",
            place: "section V-C, Experiment 3",
            quantity: Below(PIVOT.panel(&["TPC-H, transfer time"]).at(&["(14,10)"]), RP),
            said: Said::Between(71.2, 71.2),
            apart: "The mean over starts, where the paper shows one situation; RP takes the best \
                path.",
        },
        Claim {
            text: "at random starts, which the paper did not choose, there is as large a gain",
            place: "not in the paper: the sampling",
            quantity: MostBelow(PIVOT.panel(RANDOM), RP),
            said: Said::Between(71.27, 71.27),
            apart: "Links are idle most of the time, and idle links need no pivots.",
        },
    ],
};

const FIGURE6: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig6",
    title: "Single-chunk repair over slice and chunk sizes",
    did: "Experiments 4 and 5 on EC2, (6,4) with one bandwidth situation: slices from 2 KiB to \
        1024 KiB, chunks from 8 MiB to 128 MiB.",
    here: "The simulator under TPC-H from congested starts. A slice costs each hop of a lane its \
        time on a link once.",
    panels: &[
        PanelSpec {
            title: "slice size",
            metric: Metric::Seconds,
            points: &[
                point("2 KiB", sliced(2)),
                point("32 KiB", sliced(32)),
                point("256 KiB", sliced(256)),
                point("1024 KiB", sliced(1024)),
            ],
            series: SCHEMES,
            printed: &[],
        },
        PanelSpec {
            title: "chunk size",
            metric: Metric::WholeSeconds,
            points: &[
                point("8 MiB", sized(8)),
                point("32 MiB", sized(32)),
                point("64 MiB", sized(64)),
                point("128 MiB", sized(128)),
            ],
            series: SCHEMES,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "all schemes keep steady over slice sizes",
            place: "section V-C, Experiment 4",
            quantity: Above(
                of(&["RP", "PPT", "PivotRepair"]).panel(&["slice size"]).at(&["1024 KiB"]),
                of(&["RP", "PPT", "PivotRepair"]).panel(&["slice size"]).at(&["2 KiB"]),
            ),
            said: Said::Near(10.0),
            apart: "",
        },
        Claim {
            text: "the time grows linearly with the chunk: from 8 to 128 MiB by 1500 %",
            place: "section V-C, Experiment 5",
            quantity: Above(
                PIVOT.panel(&["chunk size"]).at(&["128 MiB"]),
                PIVOT.panel(&["chunk size"]).at(&["8 MiB"]),
            ),
            said: Said::Between(1500.0, 1500.0),
            apart: "Links change from second to second here, where the paper has one situation.",
        },
        Claim {
            text: "PivotRepair keeps its advantage over RP at every chunk size",
            place: "section V-C, Experiment 5",
            quantity: LeastBelow(PIVOT.panel(&["chunk size"]), RP),
            said: Said::AtLeast(-0.5),
            apart: "",
        },
    ],
};

const NODE_SCHEMES: &[Series] = &[
    series("RP", "rp"),
    series("PPT", "ppt"),
    series("PivotRepair, no adaptive", "pivot/random/window"),
    series("PivotRepair", "pivot"),
    SUTURE,
];

const fn node_codes(trace: TraceName, start: Start) -> [PanelPoint; 4] {
    [
        point("(6,4)", whole("rs(4,2)", trace, start)),
        point("(9,6)", whole("rs(6,3)", trace, start)),
        point("(12,8)", whole("rs(8,4)", trace, start)),
        point("(14,10)", whole("rs(10,4)", trace, start)),
    ]
}

const NODE_CONGESTED: &[PanelPoint] = &node_codes(TraceName::TpcH, Start::Congested);
const NODE_RANDOM: &[PanelPoint] = &node_codes(TraceName::TpcH, Start::Random);

const FIGURE7: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig7",
    title: "Node repair",
    did: "Experiment 6 on EC2: 64 lost chunks of one node, links replayed with tc.",
    here: "The simulator under TPC-H; all schemes see links second by second, and plan each stripe \
        when it starts.",
    panels: &[
        PanelSpec {
            title: "congested",
            metric: Metric::Seconds,
            points: NODE_CONGESTED,
            series: NODE_SCHEMES,
            printed: &[],
        },
        PanelSpec {
            title: "random",
            metric: Metric::Seconds,
            points: NODE_RANDOM,
            series: NODE_SCHEMES,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "PivotRepair's adaptive scheduling reduces the time by up to 16.50 % against RP",
            place: "section V-C, Experiment 6",
            quantity: MostBelow(PIVOT, RP),
            said: Said::Between(16.5, 16.5),
            apart: "",
        },
        Claim {
            text: "PivotRepair outperforms RP",
            place: "section V-C, Experiment 6",
            quantity: Below(PIVOT, RP),
            said: Said::Positive,
            apart: "Equation 3 starts few repairs at a time, and all of them end on slow links.",
        },
        Claim {
            text: "adaptive scheduling is faster than PivotRepair without it",
            place: "section V-C, Experiment 6",
            quantity: Below(PIVOT, of(&["PivotRepair, no adaptive"])),
            said: Said::Positive,
            apart: "Equation 3 starts few repairs at a time, and all of them end on slow links.",
        },
        Claim {
            text: "the gain over RP is smaller than that of single chunks (71.27 %)",
            place: "section V-C, Experiment 6",
            quantity: MostBelow(PIVOT, RP),
            said: Said::AtMost(71.27),
            apart: "",
        },
    ],
};
