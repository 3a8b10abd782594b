//! RepairBoost, USENIX ATC 2021: Table 1 and Figures 9 to 14.
//!
//! Place: experiments as data. 16 nodes of which one fails, links of 1 Gbit/s, disks of 130 MB/s,
//! chunks of 64 MB in packets of 1 MB, 100 lost chunks, five runs (section 5.1).

use crate::reproduce::claim::Quantity::{Above, Below, LeastAbove, Mean, Minus};
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

const fn linked(gbit: f64) -> FigureSetting {
    FigureSetting { link: gbit * GBIT, ..BASE }
}

const fn packed(mib: u64) -> FigureSetting {
    FigureSetting { packet_bytes: Some(mib << 20), ..BASE }
}

const fn failing(failed: usize) -> FigureSetting {
    FigureSetting { failed, ..BASE }
}

const fn planned(nodes: usize, chunks: usize) -> FigureSetting {
    FigureSetting { nodes, lost: Lost::Chunks(chunks), packet_bytes: None, ..BASE }
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

const MODEL: &str = "The simulator: a fluid network whose ports (uplinks, downlinks, disks) are \
    shared max-min fairly; the coordinator plans and schedules as in the daemons. Baselines start \
    as many repairs at a time as there are surviving nodes.";

pub const EXPERIMENTS: &[PaperExperiment] =
    &[TABLE1, FIGURE9, FIGURE10, FIGURE11, FIGURE12, FIGURE13, FIGURE14];

const TABLE1: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "table1",
    title: "Load balancing degrees of random and LRU selection",
    did: "16 nodes, chunks placed at random; the most that a node uploads or downloads over what \
        it would if all did the same; five runs (section 5.1).",
    here: "Plans alone, 100 lost chunks. RC(4,2,5) and RC(5,3,6) are regenerating codes without a \
        construction in the paper; clay(4,2,5) and clay(5,3,6), which read as much, stand in for \
        them. ECPipe and PPR need codes that add up whole chunks, so that they refuse these two.",
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
        ],
        series: &[
            series("CR RAN", "star/random/all"),
            series("CR LRU", "star/lru/all"),
            series("ECPipe RAN", "chain/random/all"),
            series("ECPipe LRU", "chain/lru/all"),
            series("PPR RAN", "ppr/random/all"),
            series("PPR LRU", "ppr/lru/all"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "CR with random selection has a degree of 1.63 to 1.71 over all codes",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["CR RAN"])),
            said: Said::Between(1.63, 1.71),
            apart: "",
        },
        Claim {
            text: "ECPipe with random selection has a degree of 1.14 to 1.34",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["ECPipe RAN"])),
            said: Said::Between(1.14, 1.34),
            apart: "",
        },
        Claim {
            text: "PPR with random selection has a degree of 1.25 to 1.46",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["PPR RAN"])),
            said: Said::Between(1.25, 1.46),
            apart: "",
        },
        Claim {
            text: "CR with LRU selection has a degree of 1.65 to 1.82",
            place: "section 5.1, Table 1",
            quantity: Mean(of(&["CR LRU"])),
            said: Said::Between(1.65, 1.82),
            apart: "The text says what LRU selects, and not how its destinations are chosen while \
                ties last; here they take turns as helpers do, which balances better.",
        },
        Claim {
            text: "random selection is more balanced than LRU in most cases",
            place: "section 5.1",
            quantity: Above(
                of(&["CR LRU", "ECPipe LRU", "PPR LRU"]),
                of(&["CR RAN", "ECPipe RAN", "PPR RAN"]),
            ),
            said: Said::Positive,
            apart: "Stars are more balanced by LRU here, chains and trees are not: the published \
                code breaks all ties by the lowest id, here destinations take turns too.",
        },
    ],
};

/// Why baselines are better or worse.
const CONCURRENT: &str = "What the baselines reach depends on how many repairs they run at a time, \
    which the paper does not say; here as many as there are nodes. In one run at 1 Gb/s RepairBoost \
    gains 86, 72 and 29 % over CR, PPR and ECPipe then, 355, 161 and 86 % if they run four at a time, \
    and 39, 39 and 9 % if all run at once.";

const FIGURE9: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig9",
    title: "Impact of network bandwidth and packet size on repair throughput",
    did: "Experiment 1 on EC2: RS(6,3), bandwidth from 0.5 to 5 Gb/s with packets of 1 MB, and \
        packets from 1 to 64 MB at 1 Gb/s.",
    here: "The simulator; a packet costs each hop of a lane its time on a link and on a disk once, \
        for the pipeline to fill. Larger packets keep no port busy for longer. Disks have 130 MB/s, \
        and are the limit from 2 Gb/s on.",
    panels: &[
        PanelSpec {
            title: "bandwidth",
            metric: Metric::Throughput,
            points: &[
                point("0.5 Gb/s", linked(0.5)),
                point("1 Gb/s", linked(1.0)),
                point("2 Gb/s", linked(2.0)),
                point("5 Gb/s", linked(5.0)),
            ],
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "packet size",
            metric: Metric::Throughput,
            points: &[
                point("1 MB", packed(1)),
                point("4 MB", packed(4)),
                point("16 MB", packed(16)),
                point("64 MB", packed(64)),
            ],
            series: ALGORITHMS,
            printed: &[],
        },
    ],
    claims: &[
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
            apart: "Disks of 130 MB/s are the limit there, and the three baselines, which share them \
                fairly, come to within a third of the bound of disks.",
        },
        Claim {
            text: "the improvement shrinks as the bandwidth grows",
            place: "section 5.2, Experiment 1",
            quantity: Minus(
                &Above(BOOSTED.panel(&["bandwidth"]).at(&["0.5 Gb/s"]), PLAIN),
                &Above(BOOSTED.panel(&["bandwidth"]).at(&["5 Gb/s"]), PLAIN),
            ),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "RepairBoost improves the throughput by 97.1 % over packet sizes",
            place: "section 5.2, Experiment 1",
            quantity: Above(BOOSTED.panel(&["packet size"]), PLAIN),
            said: Said::Between(97.1, 97.1),
            apart: CONCURRENT,
        },
        Claim {
            text: "the throughput falls as packets grow",
            place: "section 5.2, Experiment 1",
            quantity: Below(
                Pick { at: &["64 MB"], panels: &["packet size"], series: &[] },
                Pick { at: &["1 MB"], panels: &["packet size"], series: &[] },
            ),
            said: Said::Positive,
            apart: "It falls by less than 1 %: a packet costs the simulator time only while a \
                pipeline fills, and 100 chunks fill theirs side by side.",
        },
    ],
};

const FIGURE10: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig10",
    title: "Computation time of RepairBoost",
    did: "Experiment 2: time to generate solutions on one m5.large instance, for n nodes and so \
        many repaired chunks.",
    here: "CPU time of the coordinator in a simulated repair: balancing and scheduling. Suture \
        plans with linear programs where links are uneven; here they are even. This is measured, \
        and not simulated, so that a testbed has nothing to add.",
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
            quantity: crate::reproduce::claim::Quantity::Most(BOOSTED),
            said: Said::AtMost(0.9),
            apart: "",
        },
        Claim {
            text: "with the same nodes it grows with the chunks",
            place: "section 5.2, Experiment 2",
            quantity: Above(BOOSTED.at(&["n=100 f=1000"]), BOOSTED.at(&["n=100 f=100"])),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "with the same chunks it drops with more nodes",
            place: "section 5.2, Experiment 2",
            quantity: Below(BOOSTED.at(&["n=500 f=1000"]), BOOSTED.at(&["n=100 f=1000"])),
            said: Said::Positive,
            apart: "The time here includes everything that a coordinator does for each agent.",
        },
    ],
};

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
    ],
    claims: &[
        Claim {
            text: "RepairBoost improves the throughput by 60.4 % on average over codes",
            place: "section 5.3, Experiment 3",
            quantity: Above(BOOSTED, PLAIN),
            said: Said::Between(60.4, 60.4),
            apart: CONCURRENT,
        },
        Claim {
            text: "every algorithm is faster with RepairBoost under every code",
            place: "section 5.3, Experiment 3",
            quantity: LeastAbove(BOOSTED, PLAIN),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "LRC(6,2,2) is repaired faster than RS(6,3)",
            place: "section 5.3, Experiment 3",
            quantity: Above(PLAIN.at(&["LRC(6,2,2)"]), PLAIN.at(&["RS(6,3)"])),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "Butterfly(4,2) has the highest throughput of all",
            place: "section 5.3, Experiment 3",
            quantity: Above(
                of(&["RB+CR"]).panel(&["sub-chunks"]).at(&["Butterfly(4,2)"]),
                of(&["RB+CR"]).panel(&["sums"]).at(&["LRC(6,2,2)"]),
            ),
            said: Said::Positive,
            apart: "Some helpers read more from their disks, which are as fast as links here, than they \
                send, and a slot keeps the link idle meanwhile: without disks RepairBoost repairs \
                Butterfly at the bound, and faster than LRC(6,2,2).",
        },
        Claim {
            text: "ECPipe has the lowest throughput of the algorithms",
            place: "section 5.3, Experiment 3",
            quantity: Below(of(&["RB+ECPipe"]), of(&["RB+CR", "RB+PPR"])),
            said: Said::Positive,
            apart: "",
        },
    ],
};

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
            quantity: Above(BOOSTED, of(&["CR RTB", "PPR RTB", "ECPipe RTB"])),
            said: Said::Between(45.7, 45.7),
            apart: CONCURRENT,
        },
        Claim {
            text: "RepairBoost is 19.8 % faster than transmission scheduling alone",
            place: "section 5.3, Experiment 4",
            quantity: Above(BOOSTED, of(&["CR TS", "PPR TS", "ECPipe TS"])),
            said: Said::Between(19.8, 19.8),
            apart: "Scheduling cannot even out a load: random selection loads some node 1.3 to \
                1.7 times as much as the mean (Table 1), and the rest waits for it.",
        },
        Claim {
            text: "scheduling alone is better than balancing alone for PPR and ECPipe",
            place: "section 5.3, Experiment 4",
            quantity: Above(of(&["PPR TS", "ECPipe TS"]), of(&["PPR RTB", "ECPipe RTB"])),
            said: Said::Positive,
            apart: "Balance alone is worth as much here, since repairs that run side by side \
                fill the gaps that slots are to close.",
        },
        Claim {
            text: "scheduling alone is worse than balancing alone for CR",
            place: "section 5.3, Experiment 4",
            quantity: Below(of(&["CR TS"]), of(&["CR RTB"])),
            said: Said::Positive,
            apart: "",
        },
    ],
};

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
            apart: "The setting of Figure 9 at 1 Gb/s and of Figure 11, where the paper has 72.3 \
                and 60.4 % on average: its own figures are as far apart.",
        },
        Claim {
            text: "RepairBoost improves the repair of three nodes by 35.7 %",
            place: "section 5.4, Experiment 5",
            quantity: Above(BOOSTED.at(&["3 nodes"]), PLAIN),
            said: Said::Between(35.7, 35.7),
            apart: "As for one node.",
        },
        Claim {
            text: "the improvement drops slightly when more nodes fail",
            place: "section 5.4, Experiment 5",
            quantity: Minus(
                &Above(BOOSTED.at(&["1 node"]), PLAIN),
                &Above(BOOSTED.at(&["3 nodes"]), PLAIN),
            ),
            said: Said::Positive,
            apart: "",
        },
    ],
};

const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::RepairBoost,
    id: "fig14",
    title: "Bandwidth heterogeneity",
    did: "Experiment 6 on EC2, RS(6,3): four clusters of four nodes with 1 Gb/s inside, and 0.1 or \
        0.05 Gb/s between clusters.",
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
            apart: "RepairBoost knows no links between racks, and those are the limit: balance \
                over nodes moves as much between racks as chance does. With limits of single nodes \
                instead of shared links, as the paper's tc sets them, it helps more.",
        },
        Claim {
            text: "RepairBoost improves the throughput by 36.8 % at 0.05 Gb/s",
            place: "section 5.4, Experiment 6",
            quantity: Above(BOOSTED.at(&["0.05 Gb/s"]), PLAIN),
            said: Said::Between(36.8, 36.8),
            apart: "As at 0.1 Gb/s.",
        },
    ],
};
