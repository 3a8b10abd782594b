//! ChameleonEC's Exp#10: Figure 21, degraded reads.
//!
//! Place: experiments as data.

use super::{BASE, CHAMELEON, FAST, OTHERS, panel, percent, percent_from, percent_up_to, point};
use crate::reproduce::claim::Quantity::{Above, LeastAbove, Minus, MostAbove};
use crate::reproduce::claim::{Claim, Pick, Said};
use crate::reproduce::experiment::{Paper, PaperExperiment};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, Lost, To};

/// A client that is no node of the cluster wants one chunk.
const fn degraded(code: &'static str, base: FigureSetting) -> FigureSetting {
    FigureSetting { code, lost: Lost::Chunks(1), to: To::Replacement, ..base }
}

/// Why single chunks compare otherwise.
const DEGRADED: &str = "For one chunk on idle links CR takes k times as long as a chain, and a \
    chain cannot be beaten by one tree: the means are of very different gains. Links and disks are \
    all that limits a repair here, and of these a star leaves the more idle the larger k is.";

const READ: Pick = CHAMELEON.panel(&["throughput"]);

pub const FIGURE21: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig21",
    title: "Exp#10, degraded read",
    did: "A client requests a chunk of a failed node, which is repaired for it, beside YCSB-A, at \
        10 Gb/s.",
    here: "The simulator at 1 Gb/s, by which claims are judged as those of the other figures are, \
        and at 10 Gb/s, with the requests and the monitor of Exp#1: one chunk, rebuilt at a node \
        with a link of its own. A node with one link receives no faster \
        than it; all pipelined schemes reach that on idle links.",
    panels: &[
        panel(
            "throughput",
            Metric::Throughput,
            &[
                point("RS(6,3)", degraded("rs(6,3)", BASE)),
                point("RS(8,3)", degraded("rs(8,3)", BASE)),
                point("RS(10,4)", degraded("rs(10,4)", BASE)),
            ],
        ),
        panel(
            "throughput, 10 Gb/s",
            Metric::Throughput,
            &[
                point("RS(6,3)", degraded("rs(6,3)", FAST)),
                point("RS(8,3)", degraded("rs(8,3)", FAST)),
                point("RS(10,4)", degraded("rs(10,4)", FAST)),
            ],
        ),
    ],
    claims: &[
        percent_from(
            "ChameleonEC improves degraded reads by 20.9 % at least",
            "section V-B, Exp#10",
            LeastAbove(READ, OTHERS),
            20.9,
            DEGRADED,
        ),
        percent_up_to(
            "ChameleonEC improves degraded reads by up to 152.0 %",
            "section V-B, Exp#10",
            MostAbove(READ, OTHERS),
            152.0,
            DEGRADED,
        ),
        percent(
            "ChameleonEC improves degraded reads by 59.1 % on average for RS(6,3)",
            "section V-B, Exp#10",
            Above(READ.at(&["RS(6,3)"]), OTHERS),
            59.1,
            DEGRADED,
        ),
        percent(
            "ChameleonEC improves degraded reads by 35.7 % on average for RS(10,4)",
            "section V-B, Exp#10",
            Above(READ.at(&["RS(10,4)"]), OTHERS),
            35.7,
            DEGRADED,
        ),
        Claim {
            text: "the improvement drops as k grows",
            place: "section V-B, Exp#10",
            quantity: Minus(
                &Above(READ.at(&["RS(6,3)"]), OTHERS),
                &Above(READ.at(&["RS(10,4)"]), OTHERS),
            ),
            said: Said::Positive,
            apart: DEGRADED,
        },
    ],
};
