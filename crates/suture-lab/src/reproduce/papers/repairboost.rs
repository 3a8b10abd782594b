//! RepairBoost, USENIX ATC 2021: Table 1 and Figures 9 to 14.
//!
//! Place: experiments as data; here what all of them have in common and Figures 11 to 14, in
//! `table1.rs` and `sensitivity.rs` the rest. 16 nodes of which one fails, links of 1 Gbit/s, disks
//! of 130 MB/s, chunks of 64 MB in packets of 1 MB, 100 lost chunks, five runs (section 5.1).

mod sensitivity;
mod table1;

use crate::reproduce::claim::Quantity::{Above, Below, LeastAbove, Minus};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

/// The default of section 5.1; 64 MB are the 64 MiB of HDFS.
const BASE: FigureSetting = FigureSetting {
    code: "rs(6,3)",
    nodes: 16,
    racks: &[],
    between: Between::Unlimited,
    link: GBIT,
    disk: Some(130e6),
    chunk_bytes: 64 << 20,
    packet_bytes: Some(1 << 20),
    lost: Lost::Chunks(100),
    failed: 1,
    to: To::Anywhere,
    placing: Placing::Random,
    foreground: None,
    trace: None,
    straggler: None,
};

const fn coded(code: &'static str) -> FigureSetting {
    FigureSetting { code, ..BASE }
}

const fn failing(failed: usize) -> FigureSetting {
    FigureSetting { failed, ..BASE }
}

/// The same with disks that are no limit.
const fn diskless(code: &'static str) -> FigureSetting {
    FigureSetting { disk: None, ..coded(code) }
}

/// Four clusters of four nodes, of whose links so little leads out.
const fn clustered(oversubscription: f64) -> FigureSetting {
    FigureSetting {
        racks: &[4, 4, 4, 4],
        between: Between::Oversubscribed(oversubscription),
        packet_bytes: None,
        ..BASE
    }
}

const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const ALGORITHMS: &[Series] = &[
    series("CR", "cr"),
    series("RB+CR", "repairboost+cr"),
    series("PPR", "ppr"),
    series("RB+PPR", "repairboost+ppr"),
    series("ECPipe", "rp"),
    series("RB+ECPipe", "repairboost+rp"),
    SUTURE,
];

/// Conventional repair alone: what codes with sub-chunks have.
const CONVENTIONAL: &[Series] = &[series("CR", "cr"), series("RB+CR", "repairboost+cr"), SUTURE];

const BOOSTED: Pick = of(&["RB+CR", "RB+PPR", "RB+ECPipe"]);
const PLAIN: Pick = of(&["CR", "PPR", "ECPipe"]);

/// The paper's algorithms, each without RepairBoost and with it.
const PUBLISHED: Pick = of(&["CR", "RB+CR", "PPR", "RB+PPR", "ECPipe", "RB+ECPipe"]);

const MODEL: &str = "The simulator: a fluid network whose ports (uplinks, downlinks, disks) are \
    shared max-min fairly; the coordinator plans and schedules as in the daemons. Baselines start \
    as many repairs at a time as there are surviving nodes. Disks read 130 MB/s and write as much \
    at the same time, where the paper has one number for both. The chart without disks is ours.";

/// Why baselines are better or worse.
const CONCURRENT: &str = "What the baselines reach depends on how many repairs they run at a time, \
    which the paper does not say; here as many as there are surviving nodes. The chart \"repairs \
    at a time\" of repairboost/fig9 has them with four, and with all at once.";

pub const EXPERIMENTS: &[PaperExperiment] = &[
    table1::TABLE1,
    sensitivity::FIGURE9,
    sensitivity::FIGURE10,
    FIGURE11,
    FIGURE12,
    FIGURE13,
    FIGURE14,
];

/// What a chain of a fluid network does not have.
const CHAINS: &str = "The paper blames it on the one chunk that a graph of ECPipe can send at a \
    time. In a fluid network a lane is one flow: no slice waits for the one before, and a chain is \
    as fast as its slowest link.";

const SUMS: &[&str] = &["sums"];
const STORED: &[&str] = &["sums", "sub-chunks"];

const FIGURE11: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig11",
    title: "Generality over erasure codes",
    did: "Experiment 3 on EC2: RS(6,3) and LRC(6,2,2) with all algorithms, Butterfly(4,2) with CR.",
    here: MODEL,
    panels: &[
        PanelSpec {
            title: "sums",
            metric: Metric::Throughput,
            points: &[point("RS(6,3)", coded("rs(6,3)")), point("LRC(6,2,2)", coded("lrc(6,2,2)"))],
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "sub-chunks",
            metric: Metric::Throughput,
            points: &[point("Butterfly(4,2)", coded("butterfly(4)"))],
            series: CONVENTIONAL,
            printed: &[],
        },
        PanelSpec {
            title: "without disks",
            metric: Metric::Throughput,
            points: &[
                point("RS(6,3)", diskless("rs(6,3)")),
                point("LRC(6,2,2)", diskless("lrc(6,2,2)")),
                point("Butterfly(4,2)", diskless("butterfly(4)")),
            ],
            series: CONVENTIONAL,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "RepairBoost improves the throughput by 60.4 % on average over codes",
            place: "section 5.3, Experiment 3",
            quantity: Above(BOOSTED.panel(STORED), PLAIN),
            said: Said::Between(60.4, 60.4),
            apart: CONCURRENT,
        },
        Claim {
            text: "every algorithm is faster with RepairBoost under every code",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(BOOSTED.panel(STORED), PLAIN),
            said: Said::Positive,
            apart: SUB_CHUNKS,
        },
        Claim {
            text: "every algorithm repairs LRC(6,2,2) faster than RS(6,3)",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(
                PUBLISHED.panel(SUMS).at(&["LRC(6,2,2)"]),
                PUBLISHED.panel(SUMS).at(&["RS(6,3)"]),
            ),
            said: Said::Positive,
            apart: "Three chunks repair most chunks of LRC(6,2,2), but six its global parities, as \
                all chunks of RS(6,3).",
        },
        Claim {
            text: "RS(6,3) has the lowest throughput of the three codes, with CR",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(
                of(&["CR", "RB+CR"]).panel(STORED).at(&["LRC(6,2,2)", "Butterfly(4,2)"]),
                of(&["CR", "RB+CR"]).panel(SUMS).at(&["RS(6,3)"]),
            ),
            said: Said::Positive,
            apart: SUB_CHUNKS,
        },
        Claim {
            text: "Butterfly(4,2) has the highest throughput of the three codes, with CR",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(
                of(&["CR", "RB+CR"]).panel(&["sub-chunks"]).at(&["Butterfly(4,2)"]),
                of(&["CR", "RB+CR"]).panel(SUMS).at(&["RS(6,3)", "LRC(6,2,2)"]),
            ),
            said: Said::Positive,
            apart: SUB_CHUNKS,
        },
        Claim {
            text: "ECPipe has the lowest throughput of the algorithms, for RS(6,3) and LRC(6,2,2)",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(of(&["CR", "PPR"]).panel(SUMS), of(&["ECPipe"])),
            said: Said::Positive,
            apart: CHAINS,
        },
        Claim {
            text: "RB+ECPipe has the lowest throughput of the boosted algorithms, for RS(6,3) and \
                LRC(6,2,2)",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(of(&["RB+CR", "RB+PPR"]).panel(SUMS), of(&["RB+ECPipe"])),
            said: Said::Positive,
            apart: CHAINS,
        },
    ],
};

/// What repairs by sub-chunks ask of disks.
const SUB_CHUNKS: &str = "Some helpers of Butterfly read more from their disks than they send; \
    disks are hardly faster than links here, and a slot keeps a link idle while its chunk is read. \
    The chart without disks has what links alone allow.";

const FIGURE12: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig12",
    title: "Breakdown into traffic balancing and transmission scheduling",
    did: "Experiment 4 on EC2, RS(6,3): the baseline, RTB alone, TS alone, and both.",
    here: "The simulator; RTB is RepairBoost's balance with as many repairs at a time as there are \
        nodes, TS is random selection in RepairBoost's slots.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[point("RS(6,3)", BASE)],
        series: &[
            series("CR", "cr"),
            series("CR RTB", "star/repairboost/window"),
            series("CR TS", "star/random/slots"),
            series("RB+CR", "repairboost+cr"),
            series("PPR", "ppr"),
            series("PPR RTB", "ppr/repairboost/window"),
            series("PPR TS", "ppr/random/slots"),
            series("RB+PPR", "repairboost+ppr"),
            series("ECPipe", "rp"),
            series("ECPipe RTB", "chain/repairboost/window"),
            series("ECPipe TS", "chain/random/slots"),
            series("RB+ECPipe", "repairboost+rp"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "RepairBoost is 45.7 % faster than traffic balancing alone",
            place: "section 5.3, Experiment 4",
            quantity: Above(BOOSTED, BALANCED),
            said: Said::Between(45.7, 45.7),
            apart: CONCURRENT,
        },
        Claim {
            text: "RepairBoost is 19.8 % faster than transmission scheduling alone",
            place: "section 5.3, Experiment 4",
            quantity: Above(BOOSTED, SCHEDULED),
            said: Said::Between(19.8, 19.8),
            apart: UNEVEN,
        },
        Claim {
            text: "RepairBoost always has the highest throughput: more than balancing alone",
            place: "section 5.3, Experiment 4",
            quantity: LeastAbove(BOOSTED, BALANCED),
            said: Said::Positive,
            apart: GAPS,
        },
        Claim {
            text: "RepairBoost always has the highest throughput: more than scheduling alone",
            place: "section 5.3, Experiment 4",
            quantity: LeastAbove(BOOSTED, SCHEDULED),
            said: Said::Positive,
            apart: UNEVEN,
        },
        Claim {
            text: "scheduling alone is better than balancing alone for PPR and ECPipe",
            place: "section 5.3, Experiment 4",
            quantity: LeastAbove(of(&["PPR TS", "ECPipe TS"]), of(&["PPR RTB", "ECPipe RTB"])),
            said: Said::Positive,
            apart: GAPS,
        },
        Claim {
            text: "scheduling alone is worse than balancing alone for CR",
            place: "section 5.3, Experiment 4",
            quantity: Below(of(&["CR TS"]), of(&["CR RTB"])),
            said: Said::Positive,
            apart: UNEVEN,
        },
    ],
};

const BALANCED: Pick = of(&["CR RTB", "PPR RTB", "ECPipe RTB"]);
const SCHEDULED: Pick = of(&["CR TS", "PPR TS", "ECPipe TS"]);

/// What scheduling cannot even out.
const UNEVEN: &str = "Scheduling cannot even out a load: random selection loads some nodes more \
    than others (Table 1), and the rest waits for them.";

/// What balancing leaves to be gained.
const GAPS: &str = "Repairs that run side by side share links fairly here, and fill the gaps that \
    slots are to close.";

/// What else the paper says of this setting.
const SETTINGS: &str = "With one node the setting is that of Figure 9 at 1 Gb/s and of Figure 11, \
    for which the paper has 72.3 % on average over bandwidths and 60.4 % over codes: its own \
    figures are as far apart.";

const FIGURE13: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig13",
    title: "Multi-node repair",
    did: "Experiment 5 on EC2, RS(6,3): one to three nodes fail at a time.",
    here: "The simulator; 100 chunks are lost of each failed node. Stripes that lost several are \
        gathered at one node by every algorithm.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("1 node", failing(1)),
            point("2 nodes", failing(2)),
            point("3 nodes", failing(3)),
        ],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "RepairBoost improves the repair of one node by 39.5 %",
            place: "section 5.4, Experiment 5",
            quantity: Above(BOOSTED.at(&["1 node"]), PLAIN),
            said: Said::Between(39.5, 39.5),
            apart: SETTINGS,
        },
        Claim {
            text: "RepairBoost improves the repair of three nodes by 35.7 %",
            place: "section 5.4, Experiment 5",
            quantity: Above(BOOSTED.at(&["3 nodes"]), PLAIN),
            said: Said::Between(35.7, 35.7),
            apart: "It is as far from the paper's as that of one node, from which it falls by a \
                few points there and here: what is apart is the improvement of one node, see there.",
        },
        Claim {
            text: "the improvement drops slightly when more nodes fail",
            place: "section 5.4, Experiment 5",
            quantity: Minus(
                &Above(BOOSTED.at(&["1 node"]), PLAIN),
                &Above(BOOSTED.at(&["3 nodes"]), PLAIN),
            ),
            said: Said::Positive,
            apart: "What a stripe lost is gathered at one node where it lost several chunks, by \
                every algorithm, with RepairBoost and without.",
        },
    ],
};

/// How clusters differ from the paper's.
const SHARED: &str = "RepairBoost as built here looks at the links of nodes, and those between \
    clusters are the limit; how those count in the links that section 3.4 sorts, it does not say. \
    tc works on instances, so that the paper's limits are those of single nodes, as far as its \
    text goes: evening out nodes, which RepairBoost does, evens out what is scarce. Here four \
    nodes share a link to other clusters, of which one can use what the others leave, so that \
    nodes need not be even. It is another experiment in that.";

const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig14",
    title: "Bandwidth heterogeneity",
    did: "Experiment 6 on EC2, RS(6,3): four clusters of four nodes with 1 Gb/s inside, and 0.1 or \
        0.05 Gb/s between clusters, throttled by tc.",
    here: "The simulator; a cluster is a rack whose uplink and downlink carry what its four nodes \
        may send to other clusters together: 0.4 or 0.2 Gb/s.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[point("0.1 Gb/s", clustered(10.0)), point("0.05 Gb/s", clustered(20.0))],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "RepairBoost improves the throughput by 35.0 % at 0.1 Gb/s",
            place: "section 5.4, Experiment 6",
            quantity: Above(BOOSTED.at(&["0.1 Gb/s"]), PLAIN),
            said: Said::Between(35.0, 35.0),
            apart: SHARED,
        },
        Claim {
            text: "RepairBoost improves the throughput by 36.8 % at 0.05 Gb/s",
            place: "section 5.4, Experiment 6",
            quantity: Above(BOOSTED.at(&["0.05 Gb/s"]), PLAIN),
            said: Said::Between(36.8, 36.8),
            apart: SHARED,
        },
        Claim {
            text: "the improvement grows as bandwidth between clusters gets scarcer",
            place: "section 5.4, Experiment 6",
            quantity: Minus(
                &Above(BOOSTED.at(&["0.05 Gb/s"]), PLAIN),
                &Above(BOOSTED.at(&["0.1 Gb/s"]), PLAIN),
            ),
            said: Said::Positive,
            apart: SHARED,
        },
    ],
};
