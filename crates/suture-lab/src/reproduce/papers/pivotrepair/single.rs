//! PivotRepair's repairs of single chunks: Figures 5 and 6.
//!
//! Place: experiments as data.

use super::{BASE, LINKS, PIVOT, PPT, RP, codes, one_chunk, point, printed, series};
use crate::reproduce::claim::Quantity::{
    Above, Apart, Below, Least, LeastAbove, LeastBelow, Mean, Minus, Most, MostAbove, MostBelow,
};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE, Series,
};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, Start, StartKind, TraceName};

const fn sliced(kib: u64, start: Start) -> FigureSetting {
    let trace = Some((TraceName::TpcH, start));
    FigureSetting { packet_bytes: Some(kib << 10), trace, ..BASE }
}

const fn sized(mib: u64, start: Start) -> FigureSetting {
    FigureSetting { chunk_bytes: mib << 20, trace: Some((TraceName::TpcH, start)), ..BASE }
}

pub const SCHEMES: &[Series] =
    &[series("RP", "rp"), series("PPT", "ppt"), series("PivotRepair", "pivot"), SUTURE];

const DS_CONGESTED: &[PanelPoint] = &codes(TraceName::TpcDs, Start::Congested);
pub const H_CONGESTED: &[PanelPoint] = &codes(TraceName::TpcH, Start::Congested);
const SWIM_CONGESTED: &[PanelPoint] = &codes(TraceName::Swim, Start::Congested);
const DS_RANDOM: &[PanelPoint] = &codes(TraceName::TpcDs, Start::Random);
const H_RANDOM: &[PanelPoint] = &codes(TraceName::TpcH, Start::Random);
const SWIM_RANDOM: &[PanelPoint] = &codes(TraceName::Swim, Start::Random);

const fn panel(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: SCHEMES, printed: &[] }
}

/// The failures whose starts were to be congested.
const STARTS: &[PanelPoint] = &[
    point("TPC-DS (6,4)", one_chunk("rs(4,2)", TraceName::TpcDs, Start::Congested)),
    point("TPC-DS (9,6)", one_chunk("rs(6,3)", TraceName::TpcDs, Start::Congested)),
    point("TPC-DS (12,8)", one_chunk("rs(8,4)", TraceName::TpcDs, Start::Congested)),
    point("TPC-DS (14,10)", one_chunk("rs(10,4)", TraceName::TpcDs, Start::Congested)),
    point("TPC-H (6,4)", one_chunk("rs(4,2)", TraceName::TpcH, Start::Congested)),
    point("TPC-H (9,6)", one_chunk("rs(6,3)", TraceName::TpcH, Start::Congested)),
    point("TPC-H (12,8)", one_chunk("rs(8,4)", TraceName::TpcH, Start::Congested)),
    point("TPC-H (14,10)", one_chunk("rs(10,4)", TraceName::TpcH, Start::Congested)),
    point("SWIM (6,4)", one_chunk("rs(4,2)", TraceName::Swim, Start::Congested)),
    point("SWIM (9,6)", one_chunk("rs(6,3)", TraceName::Swim, Start::Congested)),
    point("SWIM (12,8)", one_chunk("rs(8,4)", TraceName::Swim, Start::Congested)),
    point("SWIM (14,10)", one_chunk("rs(10,4)", TraceName::Swim, Start::Congested)),
];

const fn starts(title: &'static str, kind: StartKind) -> PanelSpec {
    PanelSpec { title, metric: Metric::Starts(kind), points: STARTS, series: LINKS, printed: &[] }
}

const CONGESTED: &[&str] = &["TPC-DS, congested", "TPC-H, congested", "SWIM, congested"];
const RUNNING: &[&str] = &["TPC-DS, running time", "TPC-H, running time", "SWIM, running time"];
const TRANSFER: &[&str] = &["TPC-DS, transfer time", "TPC-H, transfer time", "SWIM, transfer time"];
const SMALL: &[&str] = &["(6,4)", "(9,6)"];
const LARGE: &[&str] = &["(9,6)", "(12,8)", "(14,10)"];

/// What the text prints of Figure 5(a), in seconds.
const PRINTED_DS: &[PrintedValue] =
    &[printed("(12,8)", "PPT", 6.83), printed("(14,10)", "PPT", 1.31e4)];

/// What it prints of Figure 5(c).
const PRINTED_SWIM: &[PrintedValue] =
    &[printed("(9,6)", "PivotRepair", 1.67), printed("(9,6)", "PPT", 1.69)];

/// What it prints of Figures 5(d) to 5(f), of all three workloads alike: for PivotRepair from 4.81
/// to 5.30 us.
const PRINTED_RUNNING: &[PrintedValue] =
    &[printed("(14,10)", "RP", 0.01), printed("(14,10)", "PivotRepair", 5.3e-6)];

const fn running(title: &'static str, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { printed: PRINTED_RUNNING, ..panel(title, Metric::PlanSeconds, points) }
}

/// Why seconds of one situation are others.
const SITUATION: &str = "A mean over the starts that were drawn here, where the paper has one \
    situation of each workload.";

/// Why a tree may be no faster than a path.
const CHANGING: &str = "Links change while a chunk is moved: the best tree of the first second is \
    not always the best of all of them. Where a path finds no congested link, it is as fast as any \
    tree.";

/// Why times of planning compare otherwise.
const PLANNED: &str = "RP's best path is sorted for here and not searched, and PPT tries numbers \
    of children and not trees, so that both plan in far less time than the paper's.";

/// Why trees that were equally fast are not.
const EQUAL: &str = "Of equally fast trees of the first second they take different ones, and links \
    change.";

/// Why PPT plans in far less time.
const NUMBERS: &str = "PPT tries numbers of children here, of which there are 1.06 million with \
    (12,8) and 26 million with (14,10), and gives up what cannot be the best. Trees there are 674 \
    billion with (14,10): 11^9 of each ten of 13 helpers.";

pub const FIGURE5: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig5",
    title: "Single-chunk repair: overall time, running time and transfer time",
    did: "Experiments 1 to 3 on EC2, 15 nodes and a master, links replayed with tc, five runs: RP, \
        PPT and PivotRepair for (n, k) = (6,4), (9,6), (12,8), (14,10).",
    here: "The simulator, 16 nodes and a replacement of the failed one, links followed second by \
        second. Overall time is transfer time and the CPU time of planning, running time is the \
        latter alone. PPT does not try trees but numbers of children, of which there are far \
        fewer. The paper \
        chose situations with congestion, and claims are judged by such starts; repairs from \
        random starts, at which most links are idle and need no pivots, are in panels of their \
        own. In how many of five seeds every path of helpers was congested, or links were uneven, \
        the last two panels say; the rest began at any second. suture plans its trees for the \
        links of the first second, too, and the last of several trees ends a repair: where links \
        change meanwhile it may take longer than with one tree.",
    panels: &[
        PanelSpec {
            printed: PRINTED_DS,
            ..panel("TPC-DS, congested", Metric::WholeSeconds, DS_CONGESTED)
        },
        panel("TPC-H, congested", Metric::WholeSeconds, H_CONGESTED),
        PanelSpec {
            printed: PRINTED_SWIM,
            ..panel("SWIM, congested", Metric::WholeSeconds, SWIM_CONGESTED)
        },
        running("TPC-DS, running time", DS_CONGESTED),
        running("TPC-H, running time", H_CONGESTED),
        running("SWIM, running time", SWIM_CONGESTED),
        panel("TPC-DS, transfer time", Metric::Seconds, DS_CONGESTED),
        panel("TPC-H, transfer time", Metric::Seconds, H_CONGESTED),
        panel("SWIM, transfer time", Metric::Seconds, SWIM_CONGESTED),
        panel("TPC-DS, random", Metric::WholeSeconds, DS_RANDOM),
        panel("TPC-H, random", Metric::WholeSeconds, H_RANDOM),
        panel("SWIM, random", Metric::WholeSeconds, SWIM_RANDOM),
        panel("TPC-DS, running time, random", Metric::PlanSeconds, DS_RANDOM),
        panel("TPC-H, running time, random", Metric::PlanSeconds, H_RANDOM),
        panel("SWIM, running time, random", Metric::PlanSeconds, SWIM_RANDOM),
        panel("TPC-DS, transfer time, random", Metric::Seconds, DS_RANDOM),
        panel("TPC-H, transfer time, random", Metric::Seconds, H_RANDOM),
        panel("SWIM, transfer time, random", Metric::Seconds, SWIM_RANDOM),
        starts("congested starts", StartKind::Congested),
        starts("uneven starts", StartKind::Uneven),
    ],
    claims: &[
        Claim {
            text: "PivotRepair is faster than RP in all cases",
            place: "section V-C, Experiment 1",
            quantity: LeastBelow(PIVOT.panel(CONGESTED), RP),
            said: Said::Positive,
            apart: CHANGING,
        },
        Claim {
            text: "PivotRepair gains more over RP for larger k",
            place: "section V-C, Experiment 1",
            quantity: Minus(
                &Below(PIVOT.panel(CONGESTED).at(&["(14,10)"]), RP),
                &Below(PIVOT.panel(CONGESTED).at(&["(6,4)"]), RP),
            ),
            said: Said::Positive,
            apart: SITUATION,
        },
        Claim {
            text: "PivotRepair reduces the overall time by 71.27 % against RP with k = 10 under \
                TPC-H",
            place: "section V-C, Experiment 1",
            quantity: Below(PIVOT.panel(&["TPC-H, congested"]).at(&["(14,10)"]), RP),
            said: Said::Between(71.27, 71.27),
            apart: SITUATION,
        },
        Claim {
            text: "PivotRepair reduces the time of a single chunk by up to 71.27 % over the state \
                of the art (here RP, under all workloads with all codes)",
            place: "abstract",
            quantity: MostBelow(PIVOT.panel(CONGESTED), RP),
            said: Said::UpTo(71.27),
            apart: SITUATION,
        },
        Claim {
            text: "with (6,4) and (9,6) PPT is about as fast as PivotRepair (within 10 %)",
            place: "section V-C, Experiment 1",
            quantity: Apart(PPT.panel(CONGESTED).at(SMALL), PIVOT),
            said: Said::Near(10.0),
            apart: EQUAL,
        },
        Claim {
            text: "PivotRepair takes 1.67 s with (9,6) under SWIM",
            place: "section V-C, Experiment 1",
            quantity: Mean(PIVOT.panel(&["SWIM, congested"]).at(&["(9,6)"])),
            said: Said::Between(1.67, 1.67),
            apart: SITUATION,
        },
        Claim {
            text: "PPT takes 1.69 s with (9,6) under SWIM",
            place: "section V-C, Experiment 1",
            quantity: Mean(PPT.panel(&["SWIM, congested"]).at(&["(9,6)"])),
            said: Said::Between(1.69, 1.69),
            apart: SITUATION,
        },
        Claim {
            text: "PPT's overall time is 6.83 s with (12,8) under TPC-DS",
            place: "section V-C, Experiment 1",
            quantity: Mean(PPT.panel(&["TPC-DS, congested"]).at(&["(12,8)"])),
            said: Said::Between(6.83, 6.83),
            apart: SITUATION,
        },
        Claim {
            text: "PPT's overall time is 13,100 s with (14,10) under TPC-DS",
            place: "section V-C, Experiment 1",
            quantity: Mean(PPT.panel(&["TPC-DS, congested"]).at(&["(14,10)"])),
            said: Said::Between(1.31e4, 1.31e4),
            apart: NUMBERS,
        },
        Claim {
            text: "PPT's overall time with (14,10) is much higher than those of RP and PivotRepair \
                (taken as ten times: 900 % more)",
            place: "section V-C, Experiment 1",
            quantity: LeastAbove(PPT.panel(CONGESTED).at(&["(14,10)"]), of(&["RP", "PivotRepair"])),
            said: Said::AtLeast(900.0),
            apart: NUMBERS,
        },
        Claim {
            text: "PivotRepair plans for longer than RP with (6,4) under each workload",
            place: "section V-C, Experiment 2",
            quantity: LeastAbove(PIVOT.panel(RUNNING).at(&["(6,4)"]), RP),
            said: Said::Positive,
            apart: PLANNED,
        },
        Claim {
            text: "PivotRepair plans for less time than RP with (9,6), (12,8) and (14,10)",
            place: "section V-C, Experiment 2",
            quantity: LeastBelow(PIVOT.panel(RUNNING).at(LARGE), RP),
            said: Said::Positive,
            apart: PLANNED,
        },
        Claim {
            text: "RP plans for about 10 ms with (14,10)",
            place: "section V-C, Experiment 2",
            quantity: Mean(RP.panel(RUNNING).at(&["(14,10)"])),
            said: Said::Between(0.01, 0.01),
            apart: PLANNED,
        },
        Claim {
            text: "PPT plans for hundreds of milliseconds with k = 4",
            place: "section III-B",
            quantity: Mean(PPT.panel(RUNNING).at(&["(6,4)"])),
            said: Said::Between(0.1, 0.9),
            apart: PLANNED,
        },
        Claim {
            text: "PPT's running time grows exponentially with k: from (6,4) to (9,6) by more than \
                k does (50 %)",
            place: "section V-C, Experiment 2",
            quantity: LeastAbove(PPT.panel(RUNNING).at(&["(9,6)"]), PPT.at(&["(6,4)"])),
            said: Said::AtLeast(50.0),
            apart: PLANNED,
        },
        Claim {
            text: "PPT's running time is 2,380 s at least with (14,10) under each workload (the \
                text has 2.38e9 s, which by the 1.31e4 s of Experiment 1 are microseconds)",
            place: "section V-C, Experiment 2",
            quantity: Least(PPT.panel(RUNNING).at(&["(14,10)"])),
            said: Said::AtLeast(2.38e3),
            apart: NUMBERS,
        },
        Claim {
            text: "PivotRepair's running time is at most 5.30 us with (14,10)",
            place: "section V-C, Experiment 2",
            quantity: Most(PIVOT.panel(RUNNING).at(&["(14,10)"])),
            said: Said::AtMost(5.3e-6),
            apart: "Planning here makes a whole plan of the tree, with its edges and bytes, and \
                not the tree alone.",
        },
        Claim {
            text: "PivotRepair's running time grows slowly, as n log n: from (6,4) to (14,10) by \
                no more than 244 %",
            place: "section V-C, Experiment 2",
            quantity: MostAbove(PIVOT.panel(RUNNING).at(&["(14,10)"]), PIVOT.at(&["(6,4)"])),
            said: Said::AtMost(244.0),
            apart: "Times of a few microseconds, of which the least of five counts.",
        },
        Claim {
            text: "PivotRepair always transfers as fast as PPT",
            place: "section V-C, Experiment 3",
            quantity: Apart(PIVOT.panel(TRANSFER), PPT),
            said: Said::Near(1.0),
            apart: EQUAL,
        },
        Claim {
            text: "PivotRepair keeps its gains over RP in transfer time under the three workloads",
            place: "section V-C, Experiment 3",
            quantity: LeastBelow(PIVOT.panel(TRANSFER), RP),
            said: Said::Positive,
            apart: CHANGING,
        },
        Claim {
            text: "PivotRepair reduces the transfer time by 71.2 % against RP with k = 10 under \
                TPC-H",
            place: "section V-C, Experiment 3",
            quantity: Below(PIVOT.panel(&["TPC-H, transfer time"]).at(&["(14,10)"]), RP),
            said: Said::Between(71.2, 71.2),
            apart: SITUATION,
        },
    ],
};

const SLICES: &[PanelPoint] = &[
    point("2 KiB", sliced(2, Start::Congested)),
    point("32 KiB", sliced(32, Start::Congested)),
    point("256 KiB", sliced(256, Start::Congested)),
    point("1024 KiB", sliced(1024, Start::Congested)),
];

const SLICES_RANDOM: &[PanelPoint] = &[
    point("2 KiB", sliced(2, Start::Random)),
    point("32 KiB", sliced(32, Start::Random)),
    point("256 KiB", sliced(256, Start::Random)),
    point("1024 KiB", sliced(1024, Start::Random)),
];

const CHUNKS: &[PanelPoint] = &[
    point("8 MiB", sized(8, Start::Congested)),
    point("32 MiB", sized(32, Start::Congested)),
    point("64 MiB", sized(64, Start::Congested)),
    point("128 MiB", sized(128, Start::Congested)),
];

const CHUNKS_RANDOM: &[PanelPoint] = &[
    point("8 MiB", sized(8, Start::Random)),
    point("32 MiB", sized(32, Start::Random)),
    point("64 MiB", sized(64, Start::Random)),
    point("128 MiB", sized(128, Start::Random)),
];

/// The schemes that the paper shows.
const THREE: Pick = of(&["RP", "PPT", "PivotRepair"]);

pub const FIGURE6: PaperExperiment = PaperExperiment {
    paper: Paper::PivotRepair,
    id: "fig6",
    title: "Single-chunk repair over slice and chunk sizes",
    did: "Experiments 4 and 5 on EC2, (6,4) with one bandwidth situation: slices from 2 KiB to \
        1024 KiB, chunks from 8 MiB to 128 MiB.",
    here: "The simulator under TPC-H, from congested starts and from random ones. A slice costs \
        each hop of a lane its time on a link once. Which sizes lie between those that the text \
        prints was chosen here.",
    panels: &[
        panel("slice size", Metric::Seconds, SLICES),
        panel("chunk size", Metric::WholeSeconds, CHUNKS),
        panel("slice size, random", Metric::Seconds, SLICES_RANDOM),
        panel("chunk size, random", Metric::WholeSeconds, CHUNKS_RANDOM),
    ],
    claims: &[
        Claim {
            text: "all schemes keep steady over slice sizes (within 10 %)",
            place: "section V-C, Experiment 4",
            quantity: Apart(
                THREE.panel(&["slice size"]).at(&["32 KiB", "256 KiB", "1024 KiB"]),
                THREE.panel(&["slice size"]).at(&["2 KiB"]),
            ),
            said: Said::Near(10.0),
            apart: "A slice of 1 MiB fills a pipeline for longer, which counts the more the fewer \
                slices a chunk has.",
        },
        Claim {
            text: "PivotRepair compares with RP as in Experiment 1: it is faster with each size",
            place: "section V-C, Experiment 4",
            quantity: LeastBelow(PIVOT.panel(&["slice size"]), RP),
            said: Said::Positive,
            apart: SITUATION,
        },
        Claim {
            text: "PivotRepair compares with PPT as in Experiment 1: about as fast with each size \
                (within 10 %)",
            place: "section V-C, Experiment 4",
            quantity: Apart(PPT.panel(&["slice size"]), PIVOT),
            said: Said::Near(10.0),
            apart: EQUAL,
        },
        Claim {
            text: "all times grow linearly with the chunk: from 8 to 128 MiB by 1500 %",
            place: "section V-C, Experiment 5",
            quantity: Above(
                THREE.panel(&["chunk size"]).at(&["128 MiB"]),
                THREE.panel(&["chunk size"]).at(&["8 MiB"]),
            ),
            said: Said::Between(1500.0, 1500.0),
            apart: "Links change from second to second here, where the paper has one situation.",
        },
        Claim {
            text: "PivotRepair keeps its advantage over RP at every chunk size",
            place: "section V-C, Experiment 5",
            quantity: LeastBelow(PIVOT.panel(&["chunk size"]), RP),
            said: Said::Positive,
            apart: SITUATION,
        },
    ],
};
