//! CAR, IEEE TDSC: Figures 7 to 16.
//!
//! Place: experiments as data; here what all of them have in common and Figures 9 to 14, in
//! `analysis.rs` and `costs.rs` the rest. Racks of a few nodes behind switches of 1 Gbit/s, 100
//! stripes of which no rack holds more than may be lost, one node fails and is replaced in its rack
//! (section 5.2, Table 2).

mod analysis;
mod costs;

use crate::reproduce::claim::Quantity::{Above, Apart, Below, LeastAbove, LeastBelow, Minus};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE, Series,
};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

const CFS1: FigureSetting = FigureSetting {
    code: "rs(4,3)",
    nodes: 10,
    racks: &[4, 3, 3],
    between: Between::Rate(GBIT),
    link: GBIT,
    disk: None,
    chunk_bytes: 4_000_000,
    packet_bytes: None,
    lost: Lost::OfStripes(100),
    failed: 1,
    to: To::Replacement,
    placing: Placing::Random,
    foreground: None,
    trace: None,
    straggler: None,
};

const CFS2: FigureSetting =
    FigureSetting { code: "rs(6,3)", nodes: 13, racks: &[4, 3, 3, 3], ..CFS1 };
const CFS3: FigureSetting =
    FigureSetting { code: "rs(10,4)", nodes: 20, racks: &[6, 4, 5, 3, 2], ..CFS1 };

const fn sized(setting: FigureSetting, megabytes: u64) -> FigureSetting {
    // A multiple of 64 bytes.
    FigureSetting { chunk_bytes: megabytes * 1_000_000, ..setting }
}

/// Racks of three nodes each.
const fn racked(code: &'static str, racks: &'static [usize]) -> FigureSetting {
    FigureSetting { code, racks, nodes: 3 * racks.len(), ..CFS1 }
}

const THREE: &[usize] = &[3, 3, 3];
const FOUR: &[usize] = &[3, 3, 3, 3];
const FIVE: &[usize] = &[3, 3, 3, 3, 3];

/// Racks of so many nodes.
const fn wide(racks: &'static [usize], nodes: usize) -> FigureSetting {
    FigureSetting { racks, nodes, ..CFS1 }
}

const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const RECOVERIES: &[Series] =
    &[series("RR", "star/car:random/window"), series("CAR", "car"), SUTURE];

const RR: Pick = of(&["RR"]);
const CAR: Pick = of(&["CAR"]);
const BOTH: Pick = of(&["RR", "CAR"]);

const DID: &str = "Machines in up to five racks, RS codes of Jerasure, random recovery (RR) and \
    CAR; the failed node itself is the replacement (section 5.2).";
const HERE: &str = "The simulator for times, plans alone for traffic. A spare node in the failed \
    node's rack takes all rebuilt chunks, for every policy; links of nodes and racks carry 1 Gb/s. \
    One random node fails in each repetition.";
const TRAFFIC: &str = "Plans alone, nothing is simulated. A spare node in the failed node's rack \
    takes all rebuilt chunks, for every policy. The bound is the fewest racks that have to help.";

/// What limits times here and there.
const DOWNLINK: &str = "In the simulator the replacement's downlink is the limit of both, and \
    carries k chunks for RR, and a chunk or a sum from each helping rack for CAR. In the paper \
    0.60 s for a chunk of 4 MB are more than a link of 1 Gb/s needs for all six chunks (0.19 s): \
    more than links limits its testbed.";

/// What is not the paper's.
const PLACEMENT: &str = "The saving follows from how many racks a stripe lies in, and placements \
    are drawn anew here: the paper says the rule for them, and not what it drew.";

pub const EXPERIMENTS: &[PaperExperiment] = &[
    analysis::FIGURE7,
    analysis::FIGURE8,
    FIGURE9,
    FIGURE10,
    FIGURE11,
    FIGURE12,
    FIGURE13,
    FIGURE14,
    costs::FIGURE15,
    costs::FIGURE16,
];

const fn cfs(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: RECOVERIES, printed: &[] }
}

const SIZES1: &[PanelPoint] = &[
    point("4 MB", sized(CFS1, 4)),
    point("8 MB", sized(CFS1, 8)),
    point("16 MB", sized(CFS1, 16)),
];
const SIZES2: &[PanelPoint] = &[
    point("4 MB", sized(CFS2, 4)),
    point("8 MB", sized(CFS2, 8)),
    point("16 MB", sized(CFS2, 16)),
];
const SIZES3: &[PanelPoint] = &[
    point("4 MB", sized(CFS3, 4)),
    point("8 MB", sized(CFS3, 8)),
    point("16 MB", sized(CFS3, 16)),
];

const FIGURE9: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig9",
    title: "Cross-rack traffic in three settings",
    did: DID,
    here: TRAFFIC,
    panels: &[
        cfs("CFS1", Metric::CrossRack, SIZES1),
        cfs("CFS2", Metric::CrossRack, SIZES2),
        cfs("CFS3", Metric::CrossRack, SIZES3),
    ],
    claims: &[
        Claim {
            text: "CAR moves 52.4 % less between racks than RR in CFS1 with chunks of 4 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS1"]).at(&["4 MB"]), RR),
            said: Said::Between(52.4, 52.4),
            apart: "With three chunks a rack at most RS(4,3) lies on three racks as (3,3,1) or \
                (3,2,2). CAR then needs one other rack, and saves 62.5 or 70 %, or two, and saves \
                50 %, where the lost chunk was alone in its rack. The paper's mean is near the \
                last case, which is one chunk of seven here, and no more than that.",
        },
        Claim {
            text: "CAR moves 66.9 % less between racks than RR in CFS3 with chunks of 16 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS3"]).at(&["16 MB"]), RR),
            said: Said::Between(66.9, 66.9),
            apart: PLACEMENT,
        },
        Claim {
            text: "CAR moves less between racks than RR in all cases",
            place: "section 5.2, Experiment 1",
            quantity: LeastBelow(CAR, RR),
            said: Said::Positive,
            apart: PLACEMENT,
        },
        Claim {
            text: "CAR saves more in CFS3, which has k = 10, than in CFS1 with k = 4",
            place: "section 5.2, Experiment 1",
            quantity: Minus(&Below(CAR.panel(&["CFS3"]), RR), &Below(CAR.panel(&["CFS1"]), RR)),
            said: Said::Positive,
            apart: "CFS3 has five racks and CFS1 three, and more racks have to help where a stripe \
                lies in more.",
        },
    ],
};

const FIGURE10: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig10",
    title: "Recovery time in three settings",
    did: DID,
    here: HERE,
    panels: &[
        cfs("CFS1", Metric::ChunkSeconds, SIZES1),
        cfs("CFS2", Metric::ChunkSeconds, SIZES2),
        cfs("CFS3", Metric::ChunkSeconds, SIZES3),
    ],
    claims: &[
        Claim {
            text: "CAR takes 46.2 % less time than RR in CFS2 with chunks of 8 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS2"]).at(&["8 MB"]), RR),
            said: Said::Between(46.2, 46.2),
            apart: DOWNLINK,
        },
        Claim {
            text: "CAR is faster than RR in every setting",
            place: "section 5.2, Experiment 1",
            quantity: LeastBelow(CAR, RR),
            said: Said::Positive,
            apart: DOWNLINK,
        },
    ],
};

const RACKS: &[PanelPoint] = &[
    point("3 racks", racked("rs(6,3)", THREE)),
    point("4 racks", racked("rs(6,3)", FOUR)),
    point("5 racks", racked("rs(6,3)", FIVE)),
];

const FIGURE11: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig11",
    title: "Impact of the number of racks",
    did: "Experiment 2: RS(6,3), chunks of 4 MB, three to five racks of three nodes each; each \
        node fails in turn.",
    here: HERE,
    panels: &[
        cfs("traffic", Metric::CrossRack, RACKS),
        PanelSpec {
            printed: &[
                PrintedValue { label: "3 racks", series: "CAR", value: 0.60 },
                PrintedValue { label: "5 racks", series: "CAR", value: 1.04 },
            ],
            ..cfs("time", Metric::ChunkSeconds, RACKS)
        },
    ],
    claims: &[
        Claim {
            text: "CAR moves 55.3 % less than RR between three racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["traffic"]).at(&["3 racks"]), RR),
            said: Said::Between(55.3, 55.3),
            apart: "Three racks of three nodes hold three chunks of each stripe each: CAR then \
                needs two sums, RR about 4.5 chunks.",
        },
        Claim {
            text: "CAR moves 54.9 % less than RR between five racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["traffic"]).at(&["5 racks"]), RR),
            said: Said::Between(54.9, 54.9),
            apart: PLACEMENT,
        },
        Claim {
            text: "CAR's traffic grows with the racks",
            place: "section 5.2, Experiment 2",
            quantity: LeastAbove(
                CAR.panel(&["traffic"]).at(&["4 racks", "5 racks"]),
                CAR.panel(&["traffic"]).at(&["3 racks", "4 racks"]),
            ),
            said: Said::Positive,
            apart: "With three chunks a rack at most RS(6,3) lies on four racks of three as \
                (3,3,3,0), (3,3,2,1) or (3,2,2,2), and two other racks have to help in each, as \
                with three racks: no placement by that rule makes it grow from three racks to \
                four.",
        },
        Claim {
            text: "RR's traffic grows with the racks",
            place: "section 5.2, Experiment 2",
            quantity: LeastAbove(
                RR.panel(&["traffic"]).at(&["4 racks", "5 racks"]),
                RR.panel(&["traffic"]).at(&["3 racks", "4 racks"]),
            ),
            said: Said::Positive,
            apart: PLACEMENT,
        },
        Claim {
            text: "CAR's time grows from 0.60 s to 1.04 s a chunk (73 %) from three racks to five",
            place: "section 5.2, Experiment 2",
            quantity: Above(
                CAR.panel(&["time"]).at(&["5 racks"]),
                CAR.panel(&["time"]).at(&["3 racks"]),
            ),
            said: Said::Between(73.0, 73.0),
            apart: DOWNLINK,
        },
        Claim {
            text: "RR's time grows with the racks, too",
            place: "section 5.2, Experiment 2",
            quantity: Above(
                RR.panel(&["time"]).at(&["5 racks"]),
                RR.panel(&["time"]).at(&["3 racks"]),
            ),
            said: Said::Positive,
            apart: DOWNLINK,
        },
        Claim {
            text: "CAR takes 33.7 % less time than RR with five racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["time"]).at(&["5 racks"]), RR),
            said: Said::Between(33.7, 33.7),
            apart: DOWNLINK,
        },
    ],
};

const DATA: &[PanelPoint] = &[
    point("k=4", racked("rs(4,3)", FOUR)),
    point("k=6", racked("rs(6,3)", FOUR)),
    point("k=8", racked("rs(8,3)", FOUR)),
];

const FIGURE12: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig12",
    title: "Impact of the number of data chunks",
    did: "Experiment 3: four racks of three nodes, chunks of 4 MB, m = 3, k varies.",
    here: "The simulator for times, plans alone for traffic, with a spare node in the failed \
        node's rack and links of 1 Gb/s. The text names k = 4, and 6 as the default; k = 8 is \
        ours.",
    panels: &[cfs("traffic", Metric::CrossRack, DATA), cfs("time", Metric::ChunkSeconds, DATA)],
    claims: &[
        Claim {
            text: "RR and CAR move more between racks as k grows",
            place: "section 5.2, Experiment 3",
            quantity: LeastAbove(
                BOTH.panel(&["traffic"]).at(&["k=6", "k=8"]),
                BOTH.panel(&["traffic"]).at(&["k=4", "k=6"]),
            ),
            said: Said::Positive,
            apart: WHOLE_RACKS,
        },
        Claim {
            text: "CAR's traffic changes less with k than RR's",
            place: "section 5.2, Experiment 3",
            quantity: Minus(
                &Above(RR.panel(&["traffic"]).at(&["k=8"]), RR.panel(&["traffic"]).at(&["k=4"])),
                &Above(CAR.panel(&["traffic"]).at(&["k=8"]), CAR.panel(&["traffic"]).at(&["k=4"])),
            ),
            said: Said::Positive,
            apart: "Changes are compared here in relation to what each moves at k = 4.",
        },
        Claim {
            text: "when the number of racks is fixed, CAR saves more the larger k is",
            place: "section 5.2, Experiment 1",
            quantity: Minus(
                &Below(CAR.panel(&["traffic"]).at(&["k=8"]), RR),
                &Below(CAR.panel(&["traffic"]).at(&["k=4"]), RR),
            ),
            said: Said::Positive,
            apart: WHOLE_RACKS,
        },
        Claim {
            text: "CAR moves less between racks than RR with each k",
            place: "section 5.2, Experiment 3",
            quantity: LeastBelow(CAR.panel(&["traffic"]), RR),
            said: Said::Positive,
            apart: PLACEMENT,
        },
        Claim {
            text: "RR and CAR take longer as k grows",
            place: "section 5.2, Experiment 3",
            quantity: LeastAbove(
                BOTH.panel(&["time"]).at(&["k=6", "k=8"]),
                BOTH.panel(&["time"]).at(&["k=4", "k=6"]),
            ),
            said: Said::Positive,
            apart: WHOLE_RACKS,
        },
        Claim {
            text: "CAR takes less time than RR with each k",
            place: "section 5.2, Experiment 3",
            quantity: LeastBelow(CAR.panel(&["time"]), RR),
            said: Said::Positive,
            apart: DOWNLINK,
        },
        Claim {
            text: "CAR takes 47.9 % less time than RR with k = 4",
            place: "section 5.2, Experiment 3",
            quantity: Below(CAR.panel(&["time"]).at(&["k=4"]), RR),
            said: Said::Between(47.9, 47.9),
            apart: DOWNLINK,
        },
    ],
};

/// Why CAR may not grow.
const WHOLE_RACKS: &str = "A rack that helps CAR sends one sum, however much of the stripe it \
    holds: what counts is how many racks have to help, which grows in steps.";

const PARITY: &[PanelPoint] = &[
    point("m=2", racked("rs(6,2)", FOUR)),
    point("m=3", racked("rs(6,3)", FOUR)),
    point("m=4", racked("rs(6,4)", FOUR)),
];

const FIGURE13: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig13",
    title: "Impact of the number of parity chunks",
    did: "Experiment 3: four racks of three nodes, chunks of 4 MB, k = 6, m varies.",
    here: "The simulator for times, plans alone for traffic, with a spare node in the failed \
        node's rack and links of 1 Gb/s. The text names m = 3 as the default; 2 and 4 are ours.",
    panels: &[cfs("traffic", Metric::CrossRack, PARITY), cfs("time", Metric::ChunkSeconds, PARITY)],
    claims: &[
        Claim {
            text: "m has no significant impact on the traffic of RR (taken as 15 % at most)",
            place: "section 5.2, Experiment 3",
            quantity: Apart(
                RR.panel(&["traffic"]).at(&["m=3", "m=4"]),
                RR.panel(&["traffic"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: MORE_PARITY,
        },
        Claim {
            text: "m has no significant impact on the traffic of CAR (taken as 15 % at most)",
            place: "section 5.2, Experiment 3",
            quantity: Apart(
                CAR.panel(&["traffic"]).at(&["m=3", "m=4"]),
                CAR.panel(&["traffic"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: MORE_PARITY,
        },
        Claim {
            text: "m has limited influence on the time of RR (taken as 15 % at most)",
            place: "section 5.2, Experiment 3",
            quantity: Apart(
                RR.panel(&["time"]).at(&["m=3", "m=4"]),
                RR.panel(&["time"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: MORE_PARITY,
        },
        Claim {
            text: "m has limited influence on the time of CAR (taken as 15 % at most)",
            place: "section 5.2, Experiment 3",
            quantity: Apart(
                CAR.panel(&["time"]).at(&["m=3", "m=4"]),
                CAR.panel(&["time"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: MORE_PARITY,
        },
    ],
};

/// What more parity chunks change.
const MORE_PARITY: &str = "With more parity chunks a rack may hold more of a stripe (single-rack \
    fault tolerance), so that more of it lies in the failed rack, and fewer other racks have to \
    help.";

const WIDTHS: &[PanelPoint] = &[
    point("3 nodes", wide(THREE, 9)),
    point("4 nodes", wide(&[4, 4, 4], 12)),
    point("5 nodes", wide(&[5, 5, 5], 15)),
];

const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig14",
    title: "Impact of the number of nodes per rack",
    did: "Experiment 4: RS(4,3), chunks of 4 MB, three racks of three to five nodes.",
    here: HERE,
    panels: &[cfs("traffic", Metric::CrossRack, WIDTHS), cfs("time", Metric::ChunkSeconds, WIDTHS)],
    claims: &[
        Claim {
            text: "the traffic of RR and of CAR is not affected (taken as 15 % at most)",
            place: "section 5.2, Experiment 4",
            quantity: Apart(
                BOTH.panel(&["traffic"]).at(&["4 nodes", "5 nodes"]),
                BOTH.panel(&["traffic"]).at(&["3 nodes"]),
            ),
            said: Said::Near(15.0),
            apart: WIDER,
        },
        Claim {
            text: "the time of RR and of CAR is stable (taken as 15 % at most)",
            place: "section 5.2, Experiment 4",
            quantity: Apart(
                BOTH.panel(&["time"]).at(&["4 nodes", "5 nodes"]),
                BOTH.panel(&["time"]).at(&["3 nodes"]),
            ),
            said: Said::Near(15.0),
            apart: WIDER,
        },
    ],
};

/// What wider racks change.
const WIDER: &str = "How seven chunks fall on three racks, none of which may hold more than three, \
    changes a little with the nodes that racks have.";
