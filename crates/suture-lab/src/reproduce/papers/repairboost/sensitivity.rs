//! RepairBoost, Figures 9 and 10: bandwidth, packet size, computation time (section 5.2).
//!
//! Place: experiments as data.

use super::{ALGORITHMS, BASE, BOOSTED, CONCURRENT, PLAIN, PUBLISHED, point, series};
use crate::reproduce::claim::Quantity::{Above, Below, LeastAbove, LeastBelow, Minus, Most};
use crate::reproduce::claim::{Claim, Said};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, GBIT, Lost};

const fn linked(gbit: f64) -> FigureSetting {
    FigureSetting { link: gbit * GBIT, ..BASE }
}

const fn packed(mib: u64) -> FigureSetting {
    FigureSetting { packet_bytes: Some(mib << 20), ..BASE }
}

const fn planned(nodes: usize, chunks: usize) -> FigureSetting {
    FigureSetting { nodes, lost: Lost::Chunks(chunks), packet_bytes: None, ..BASE }
}

/// The baselines with four repairs at a time, with as many as there are nodes, and with all.
const WINDOWS: &[Series] = &[
    series("CR, window 4", "star/random/window:4"),
    series("CR", "cr"),
    series("CR, all", "star/random/all"),
    series("RB+CR", "repairboost+cr"),
    series("PPR, window 4", "ppr/random/window:4"),
    series("PPR", "ppr"),
    series("PPR, all", "ppr/random/all"),
    series("RB+PPR", "repairboost+ppr"),
    series("ECPipe, window 4", "chain/random/window:4"),
    series("ECPipe", "rp"),
    series("ECPipe, all", "chain/random/all"),
    series("RB+ECPipe", "repairboost+rp"),
    SUTURE,
];

const BANDWIDTHS: &[PanelPoint] = &[
    point("0.5 Gb/s", linked(0.5)),
    point("1 Gb/s", linked(1.0)),
    point("2 Gb/s", linked(2.0)),
    point("5 Gb/s", linked(5.0)),
];

const PACKETS: &[PanelPoint] = &[
    point("1 MB", packed(1)),
    point("4 MB", packed(4)),
    point("16 MB", packed(16)),
    point("64 MB", packed(64)),
];

/// Where bandwidth does not matter any more.
const DISKS: &str = "Disks of 130 MB/s are slower than links from 2 Gb/s on, and all policies \
    share them fairly here; the chart has what each comes to of the bound, which is that of disks.";

/// What packets cost in the simulator.
const PIPELINE: &str = "A packet costs the simulator time only while a pipeline fills, and 100 \
    chunks fill theirs side by side: disks and links work at the same time whatever the packet. In \
    the paper one packet a chunk leaves nothing to overlap.";

pub const FIGURE9: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig9",
    title: "Impact of network bandwidth and packet size on repair throughput",
    did: "Experiment 1 on EC2: RS(6,3), bandwidth from 0.5 to 5 Gb/s with packets of 1 MB, and \
        packets from 1 to 64 MB at 1 Gb/s.",
    here: "The simulator; a packet costs each hop of a lane its time on a link and on a disk once, \
        for the pipeline to fill. Larger packets keep no port busy for longer. Disks read 130 MB/s \
        and write as much at the same time. Of the points between the ends of the axes the text \
        names 1 Gb/s alone; the others are ours. The third chart shows what the baselines come to \
        with four repairs at a time (window 4), with as many as there are surviving nodes, and \
        with all at once.",
    panels: &[
        PanelSpec {
            title: "bandwidth",
            metric: Metric::Throughput,
            points: BANDWIDTHS,
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "packet size",
            metric: Metric::Throughput,
            points: PACKETS,
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "repairs at a time",
            metric: Metric::Throughput,
            points: &[point("1 Gb/s, 1 MB", BASE)],
            series: WINDOWS,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "the throughput generally grows with the bandwidth",
            place: "section 5.2, Experiment 1",
            quantity: Above(
                PUBLISHED.panel(&["bandwidth"]).at(&["1 Gb/s", "2 Gb/s", "5 Gb/s"]),
                PUBLISHED.panel(&["bandwidth"]).at(&["0.5 Gb/s", "1 Gb/s", "2 Gb/s"]),
            ),
            said: Said::Positive,
            apart: DISKS,
        },
        Claim {
            text: "RepairBoost improves the throughput by 72.3 % on average over bandwidths",
            place: "section 5.2, Experiment 1",
            quantity: Above(BOOSTED.panel(&["bandwidth"]), PLAIN),
            said: Said::Between(72.3, 72.3),
            apart: CONCURRENT,
        },
        Claim {
            text: "the improvement is 96.4 % at 0.5 Gb/s",
            place: "section 5.2, Experiment 1",
            quantity: Above(BOOSTED.panel(&["bandwidth"]).at(&["0.5 Gb/s"]), PLAIN),
            said: Said::Between(96.4, 96.4),
            apart: CONCURRENT,
        },
        Claim {
            text: "the improvement is 53.0 % at 5 Gb/s, where disks dominate",
            place: "section 5.2, Experiment 1",
            quantity: Above(BOOSTED.panel(&["bandwidth"]).at(&["5 Gb/s"]), PLAIN),
            said: Said::Between(53.0, 53.0),
            apart: DISKS,
        },
        Claim {
            text: "the improvement shrinks as the bandwidth grows, from 0.5 to 5 Gb/s",
            place: "section 5.2, Experiment 1",
            quantity: Minus(
                &Above(BOOSTED.panel(&["bandwidth"]).at(&["0.5 Gb/s"]), PLAIN),
                &Above(BOOSTED.panel(&["bandwidth"]).at(&["5 Gb/s"]), PLAIN),
            ),
            said: Said::Positive,
            apart: DISKS,
        },
        Claim {
            text: "RepairBoost improves the throughput by 97.1 % over packet sizes, the most of \
                all experiments (abstract)",
            place: "section 5.2, Experiment 1",
            quantity: Above(BOOSTED.panel(&["packet size"]), PLAIN),
            said: Said::Between(97.1, 97.1),
            apart: CONCURRENT,
        },
        Claim {
            text: "the throughput falls as packets grow, from 1 to 64 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(
                PUBLISHED.panel(&["packet size"]).at(&["64 MB"]),
                PUBLISHED.panel(&["packet size"]).at(&["1 MB"]),
            ),
            said: Said::Positive,
            apart: PIPELINE,
        },
        Claim {
            text: "every algorithm has its lowest throughput with packets of 64 MB, a whole chunk",
            place: "section 5.2, Experiment 1",
            quantity: LeastBelow(
                PUBLISHED.panel(&["packet size"]).at(&["64 MB"]),
                PUBLISHED.panel(&["packet size"]).at(&["1 MB", "4 MB", "16 MB"]),
            ),
            said: Said::Positive,
            apart: PIPELINE,
        },
    ],
};

const TIMES: &str = "Times of a processor, which differ from run to run; those here include \
    everything that a coordinator does for each agent and each chunk, besides solving.";

pub const FIGURE10: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig10",
    title: "Computation time of RepairBoost",
    did: "Experiment 2: time to generate solutions on one m5.large instance, for n nodes and so \
        many repaired chunks.",
    here: "CPU time of the coordinator in a simulated repair: balancing and scheduling, on this \
        machine. Suture plans with linear programs where links are uneven; here they are even. The \
        text prints neither n nor the numbers of chunks: these are ours.",
    panels: &[PanelSpec {
        title: "time",
        metric: Metric::CoordinatorSeconds,
        points: &[
            point("n=100 f=100", planned(100, 100)),
            point("n=100 f=500", planned(100, 500)),
            point("n=100 f=1000", planned(100, 1000)),
            point("n=500 f=100", planned(500, 100)),
            point("n=500 f=500", planned(500, 500)),
            point("n=500 f=1000", planned(500, 1000)),
        ],
        series: &[
            series("RB+CR", "repairboost+cr"),
            series("RB+PPR", "repairboost+ppr"),
            series("RB+ECPipe", "repairboost+rp"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "RepairBoost always needs less than 0.9 s",
            place: "section 5.2, Experiment 2",
            quantity: Most(BOOSTED),
            said: Said::AtMost(0.9),
            apart: TIMES,
        },
        Claim {
            text: "with the same nodes the time grows with the chunks",
            place: "section 5.2, Experiment 2",
            quantity: LeastAbove(
                BOOSTED.at(&["n=100 f=500", "n=100 f=1000", "n=500 f=500", "n=500 f=1000"]),
                BOOSTED.at(&["n=100 f=100", "n=100 f=500", "n=500 f=100", "n=500 f=500"]),
            ),
            said: Said::Positive,
            apart: TIMES,
        },
        Claim {
            text: "with the same chunks the time drops with more nodes",
            place: "section 5.2, Experiment 2",
            quantity: LeastBelow(
                BOOSTED.at(&["n=500 f=100", "n=500 f=500", "n=500 f=1000"]),
                BOOSTED.at(&["n=100 f=100", "n=100 f=500", "n=100 f=1000"]),
            ),
            said: Said::Positive,
            apart: "The paper's time is that of solving. What a coordinator does for each of its \
                agents is counted here, too, and with n=500 there are five times as many of them.",
        },
    ],
};
