//! ChameleonEC's Exp#7, Exp#12 and Exp#13: Figures 18, 23 and 24, other links and disks.
//!
//! Place: experiments as data.

use super::{
    ALGORITHMS, BASE, CHAMELEON, LENGTHENED, LINKED, OTHERS, PUBLISHED, panel, percent,
    percent_from, percent_up_to, point, printed, series,
};
use crate::reproduce::claim::Quantity::{Above, LeastAbove, Minus, MostAbove};
use crate::reproduce::claim::{Claim, Said, of};
use crate::reproduce::experiment::{PanelSpec, Paper, PaperExperiment, SUTURE};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, GBIT};

const fn alone(gbit: f64) -> FigureSetting {
    FigureSetting { foreground: None, ..linked(gbit) }
}

const fn linked(gbit: f64) -> FigureSetting {
    FigureSetting { link: gbit * GBIT, ..BASE }
}

/// Disks as slow as these beside links of 10 Gb/s.
const fn stored(megabytes: f64) -> FigureSetting {
    FigureSetting { disk: Some(megabytes * 1e6), ..linked(10.0) }
}

/// Why ChameleonEC gains otherwise on links alone.
const IDLE: &str = "Where links are the limit, gains are larger than in the paper, and where disks \
    are, smaller: nothing but links and disks limits a repair here. Whether the paper's range is \
    of means over algorithms it does not say.";

pub const FIGURE18: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig18",
    title: "Exp#7, no foreground traffic",
    did: "Links of 1 to 10 Gb/s, throttled by wondershaper, and no applications.",
    here: "The simulator; disks read and at the same time write 500 MB/s, so that from 4 Gb/s on \
        these are the limit. Links between the first and the last were chosen here. Beside it \
        repairs beside YCSB-A, with the requests and the monitor of Exp#1. The text does not say \
        at which link ECPipe has 199.9 MB/s without applications; the 110.6 MB/s that it is \
        compared with are of 10 Gb/s.",
    panels: &[
        PanelSpec {
            title: "throughput",
            metric: Metric::Throughput,
            points: &[
                point("1 Gb/s", alone(1.0)),
                point("2 Gb/s", alone(2.0)),
                point("5 Gb/s", alone(5.0)),
                point("10 Gb/s", alone(10.0)),
            ],
            series: ALGORITHMS,
            printed: &[printed("10 Gb/s", "ECPipe", 199.9)],
        },
        PanelSpec {
            title: "beside YCSB-A",
            metric: Metric::Throughput,
            points: &[point("1 Gb/s", linked(1.0)), point("10 Gb/s", linked(10.0))],
            series: ALGORITHMS,
            printed: &[printed("10 Gb/s", "ECPipe", 110.6)],
        },
    ],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 35.1 % on average without applications",
            "section V-B, Exp#7",
            Above(CHAMELEON.panel(&["throughput"]), OTHERS),
            35.1,
            IDLE,
        ),
        percent_from(
            "ChameleonEC improves the throughput by 25.0 % at least without applications",
            "section V, findings",
            LeastAbove(CHAMELEON.panel(&["throughput"]), OTHERS),
            25.0,
            IDLE,
        ),
        percent_up_to(
            "ChameleonEC improves the throughput by 41.3 % at most without applications",
            "section V, findings",
            MostAbove(CHAMELEON.panel(&["throughput"]), OTHERS),
            41.3,
            IDLE,
        ),
        Claim {
            text: "each algorithm is faster without applications than beside them",
            place: "section V-B, Exp#7",
            quantity: LeastAbove(
                PUBLISHED.panel(&["throughput"]).at(&["1 Gb/s", "10 Gb/s"]),
                PUBLISHED.panel(&["beside YCSB-A"]).at(&["1 Gb/s", "10 Gb/s"]),
            ),
            said: Said::Positive,
            apart: LENGTHENED,
        },
        percent(
            "ECPipe has 199.9 MB/s without applications and 110.6 MB/s beside them, 80.7 % more, \
                if both are of 10 Gb/s",
            "section V-B, Exp#7",
            Above(
                of(&["ECPipe"]).panel(&["throughput"]).at(&["10 Gb/s"]),
                of(&["ECPipe"]).panel(&["beside YCSB-A"]).at(&["10 Gb/s"]),
            ),
            80.7,
            LENGTHENED,
        ),
    ],
};

/// Why ChameleonEC gains as much where disks are the limit.
const DISKS: &str = "Disks are slower than links of 10 Gb/s, and nothing but both limits a repair \
    here. By these links ChameleonEC takes all 200 chunks into one phase, so that the disk of every \
    node is busy until the last of them; the others have 19 repairs at a time, whose helpers and \
    destinations are drawn, and some disks wait. How slow disks are does not change that.";

/// Why an account of disks gains nothing.
const STORED: &str = "A helper reads what it sends, and a destination writes what it receives \
    once, so that a balance by links balances disks, too. With an account of disks a phase has as \
    many chunks as these can move in 20 s, and disks that are done wait for the next one; without \
    it all chunks are in one phase.";

pub const FIGURE23: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig23",
    title: "Exp#12, storage-bottlenecked scenarios",
    did: "Disks of 250 to 500 MB/s beside links of 10 Gb/s, and YCSB-A; ChameleonEC-IO dispatches \
        by disks.",
    here: "The simulator at 10 Gb/s. Disks read and at the same time write so much, for \
        applications too, whose values are on disk; 375 MB/s was chosen here. The monitor of Exp#1 \
        notifies of what applications take of links and of disks; ChameleonEC-IO counts both, \
        ChameleonEC links alone.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("250 MB/s", stored(250.0)),
            point("375 MB/s", stored(375.0)),
            point("500 MB/s", stored(500.0)),
        ],
        series: &[
            series("CR", "cr"),
            series("PPR", "ppr"),
            series("ECPipe", "rp"),
            series("ChameleonEC", "chameleon"),
            series("ChameleonEC-IO", "tunable/chameleon:io/phases:20"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 43.8 % with disks of 500 MB/s",
            "section V-B, Exp#12",
            Above(CHAMELEON.at(&["500 MB/s"]), OTHERS),
            43.8,
            DISKS,
        ),
        percent(
            "ChameleonEC improves the throughput by 15.5 % with disks of 250 MB/s",
            "section V-B, Exp#12",
            Above(CHAMELEON.at(&["250 MB/s"]), OTHERS),
            15.5,
            DISKS,
        ),
        Claim {
            text: "slower disks leave less of the improvement",
            place: "section V-B, Exp#12",
            quantity: Minus(
                &Above(CHAMELEON.at(&["500 MB/s"]), OTHERS),
                &Above(CHAMELEON.at(&["250 MB/s"]), OTHERS),
            ),
            said: Said::Positive,
            apart: DISKS,
        },
        percent(
            "ChameleonEC-IO is 35.7 % faster than ChameleonEC when disks are slow",
            "section V-B, Exp#12",
            Above(of(&["ChameleonEC-IO"]).at(&["250 MB/s"]), CHAMELEON),
            35.7,
            STORED,
        ),
        percent_from(
            "ChameleonEC (here ChameleonEC-IO) is 25.4 % faster than the others at least where \
                storage is the bottleneck",
            "abstract",
            LeastAbove(of(&["ChameleonEC-IO"]), OTHERS),
            25.4,
            STORED,
        ),
        percent_up_to(
            "ChameleonEC (here ChameleonEC-IO) is 73.5 % faster than the others at most where \
                storage is the bottleneck",
            "abstract",
            MostAbove(of(&["ChameleonEC-IO"]), OTHERS),
            73.5,
            DISKS,
        ),
    ],
};

pub const FIGURE24: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig24",
    title: "Exp#13, impact of network bandwidth",
    did: "Links of 1 to 10 Gb/s beside YCSB-A.",
    here: "The simulator, with the requests and the monitor of Exp#1; disks read and at the same \
        time write 500 MB/s. Links between the first and the last were chosen here.",
    panels: &[PanelSpec {
        printed: &[printed("10 Gb/s", "ECPipe", 110.6)],
        ..panel(
            "throughput",
            Metric::Throughput,
            &[
                point("1 Gb/s", linked(1.0)),
                point("2 Gb/s", linked(2.0)),
                point("5 Gb/s", linked(5.0)),
                point("10 Gb/s", linked(10.0)),
            ],
        )
    }],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 64.4 % at 1 Gb/s",
            "section V-B, Exp#13",
            Above(CHAMELEON.at(&["1 Gb/s"]), OTHERS),
            64.4,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 40.1 % at 10 Gb/s",
            "section V-B, Exp#13",
            Above(CHAMELEON.at(&["10 Gb/s"]), OTHERS),
            40.1,
            DISKS,
        ),
        Claim {
            text: "the throughput grows with the bandwidth",
            place: "section V-B, Exp#13",
            quantity: LeastAbove(PUBLISHED.at(&["10 Gb/s"]), PUBLISHED.at(&["1 Gb/s"])),
            said: Said::Positive,
            apart: DISKS,
        },
        Claim {
            text: "the improvement decreases as the bandwidth grows",
            place: "section V-B, Exp#13",
            quantity: Minus(
                &Above(CHAMELEON.at(&["1 Gb/s"]), OTHERS),
                &Above(CHAMELEON.at(&["10 Gb/s"]), OTHERS),
            ),
            said: Said::Positive,
            apart: DISKS,
        },
    ],
};
