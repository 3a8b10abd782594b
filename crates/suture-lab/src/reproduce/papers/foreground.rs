//! ChameleonEC, IEEE HPCA 2025: Figures 2 and 4 to 6, what repairs and applications do to each
//! other, and what all of its figures have in common.
//!
//! Place: experiments as data. 20 nodes of which one fails, RS(10,4), 200 chunks of 64 MB in slices
//! of 1 MB, phases of 20 s, YCSB-A from four clients (section V-A). Links have 1 Gb/s, the least of
//! Exp#13, where a repair takes as long as the paper's did at 10 Gb/s: phases and what applications
//! do in them are then in proportion. Figures 12 to 15 are in `interference.rs`.

mod interference;

use crate::reproduce::claim::Quantity::{Least, LeastAbove, LeastBelow, Mean, Most, MostAbove};
use crate::reproduce::claim::{Claim, Pick, Quantity, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE, Series,
};
use crate::reproduce::metric::{LinkPlace, Metric};
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

/// Requests of YCSB that each client has under way, of which the paper says nothing. What it says
/// is that its four clients move 195.3 GB in all beside the 125 GB of a repair (section V-A), and
/// that they make repairs up to 91.5 % longer (section II-D); one request at a time does neither.
const REQUESTS: usize = 16;

/// Clients, of YCSB and of the other workloads: these have one request at a time each.
const CLIENTS: usize = 4;

/// Bytes of applications for each byte of a repair: 195.3 GB beside 125 GB (section V-A).
const INTENSITY: f64 = 195.3 / 125.0;

/// The default of section V-A, but for the links.
pub const BASE: FigureSetting = FigureSetting {
    code: "rs(10,4)",
    nodes: 20,
    racks: &[],
    between: Between::Unlimited,
    link: GBIT,
    disk: Some(500e6),
    chunk_bytes: 64 << 20,
    packet_bytes: Some(1 << 20),
    lost: Lost::Chunks(200),
    failed: 1,
    to: To::Anywhere,
    placing: Placing::Random,
    foreground: Some(("ycsb-a", CLIENTS * REQUESTS)),
    trace: None,
    straggler: None,
};

/// The default with the paper's links.
pub const FAST: FigureSetting = FigureSetting { link: 10.0 * GBIT, ..BASE };

const fn under(workload: &'static str) -> FigureSetting {
    FigureSetting { foreground: Some((workload, CLIENTS)), ..BASE }
}

const fn with_clients(count: usize) -> FigureSetting {
    FigureSetting { foreground: Some(("ycsb-a", count * REQUESTS)), ..BASE }
}

pub const ALONE: FigureSetting = FigureSetting { foreground: None, ..BASE };

const fn repairing(throughput: f64) -> FigureSetting {
    FigureSetting { link: throughput * 1e6, ..ALONE }
}

pub const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

pub const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

pub const fn printed(label: &'static str, series: &'static str, value: f64) -> PrintedValue {
    PrintedValue { label, series, value }
}

/// A number of the paper, in percent.
pub const fn percent(
    text: &'static str,
    place: &'static str,
    quantity: Quantity,
    percent: f64,
    apart: &'static str,
) -> Claim {
    Claim { text, place, quantity, said: Said::Between(percent, percent), apart }
}

/// The least of a range, in percent.
pub const fn percent_from(
    text: &'static str,
    place: &'static str,
    quantity: Quantity,
    end: f64,
    apart: &'static str,
) -> Claim {
    Claim { said: Said::From(end), ..percent(text, place, quantity, end, apart) }
}

/// The most of a range, in percent.
pub const fn percent_up_to(
    text: &'static str,
    place: &'static str,
    quantity: Quantity,
    end: f64,
    apart: &'static str,
) -> Claim {
    Claim { said: Said::UpTo(end), ..percent(text, place, quantity, end, apart) }
}

const REPAIRS: &[Series] =
    &[series("CR", "cr"), series("PPR", "ppr"), series("ECPipe", "rp"), SUTURE];

/// The algorithms of Exp#1 on.
pub const ALGORITHMS: &[Series] = &[
    series("CR", "cr"),
    series("PPR", "ppr"),
    series("ECPipe", "rp"),
    series("ChameleonEC", "chameleon"),
    SUTURE,
];

/// ChameleonEC, and those that it is compared with.
pub const CHAMELEON: Pick = of(&["ChameleonEC"]);
pub const OTHERS: Pick = of(&["CR", "PPR", "ECPipe"]);

/// A chart of the algorithms.
pub const fn panel(
    title: &'static str,
    metric: Metric,
    points: &'static [PanelPoint],
) -> PanelSpec {
    PanelSpec { title, metric, points, series: ALGORITHMS, printed: &[] }
}

const LINKS: &[Series] = &[series("applications", "-")];

const WORKLOADS: &[PanelPoint] = &[
    point("YCSB-A", BASE),
    point("IBM", under("ibm")),
    point("Memcached", under("twitter")),
    point("Facebook", under("etc")),
];

/// The default workload, and no other.
pub const YCSB: &[PanelPoint] = &[point("YCSB-A", BASE)];

/// The same with the paper's links.
pub const YCSB_FAST: &[PanelPoint] = &[point("YCSB-A", FAST)];

pub const EXPERIMENTS: &[PaperExperiment] = &[
    FIGURE2,
    FIGURE4,
    FIGURE5,
    FIGURE6,
    interference::FIGURE12,
    interference::FIGURE13,
    interference::FIGURE14,
    interference::FIGURE15,
];

/// Why gains over the published algorithms are others.
pub const LINKED: &str = "Links and disks are all that limits a repair here, and stars, trees and \
    chains each leave another part of them idle. The paper's own gains grow as links get slower, \
    from 40.1 % at 10 Gb/s to 64.4 % at 1 Gb/s (Exp#13). Its ECPipe alone repairs 199.9 MB/s \
    (Exp#7), which, if that is at 10 Gb/s, is a twelfth of what its links allow and a fifth of \
    what its disks do: other things limit its prototypes.";

/// Why applications fare otherwise.
pub const LATENCY: &str = "A request shares each link with every repair that crosses it, and a \
    phase begins all of its repairs at once: the fewer run at a time, the shorter a request waits, \
    as the panel of repairs at a time of Figure 12 shows. The paper does not say how many chunks \
    its agents move at a time, and its requests wait for HBase too, with a repair and without.";

/// Why applications wait so much longer beside a repair.
const DELAYED: &str = "A request waits here for links and disks alone, and without a repair most \
    find them idle: what a repair takes of a link is most of what a request waits. The paper's \
    requests wait for HBase in any case, so that the same delay is a smaller part.";

const FIGURE2: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig2",
    title: "Data loss probability over repair throughput",
    did: "Analysis by Equation 2: (10, 4), 96 TB a node, a lifetime of 10 years (section II-B).",
    here: "The same equation, and at the throughput of each policy in a simulated repair of Exp#7 \
        at 1 Gb/s. Which throughputs it is computed for was chosen here.",
    panels: &[
        PanelSpec {
            title: "at a throughput",
            metric: Metric::LossAtRate,
            points: &[
                point("50 MB/s", repairing(50.0)),
                point("100 MB/s", repairing(100.0)),
                point("200 MB/s", repairing(200.0)),
                point("400 MB/s", repairing(400.0)),
            ],
            series: &[series("Equation 2", "-")],
            printed: &[],
        },
        panel("of a policy", Metric::Loss, &[point("1 Gb/s", ALONE)]),
    ],
    claims: &[Claim {
        text: "a higher repair throughput has a lower chance of loss",
        place: "section II-B, Figure 2",
        quantity: LeastBelow(
            of(&["Equation 2"]).at(&["100 MB/s", "200 MB/s", "400 MB/s"]),
            of(&["Equation 2"]).at(&["50 MB/s", "100 MB/s", "200 MB/s"]),
        ),
        said: Said::Positive,
        apart: "It follows from the equation.",
    }],
};

const COUNTS: &[PanelPoint] = &[
    point("0 clients", ALONE),
    point("1 client", with_clients(1)),
    point("2 clients", with_clients(2)),
    point("3 clients", with_clients(3)),
    point("4 clients", with_clients(4)),
];

const BUSY: &[PanelPoint] = &[
    point("1 client", with_clients(1)),
    point("2 clients", with_clients(2)),
    point("3 clients", with_clients(3)),
    point("4 clients", with_clients(4)),
];

const BUSY_LABELS: &[&str] = &["1 client", "2 clients", "3 clients", "4 clients"];

const fn repairs(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: REPAIRS, printed: &[] }
}

/// Why a repair is lengthened otherwise.
pub const LENGTHENED: &str = "How many requests the paper's clients have under way, and how long \
    these wait for other things than the network, it does not say; here it is 16 each, that wait \
    for links and disks alone.";

const FIGURE4: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig4",
    title: "Repair time and latency with more and more clients",
    did: "20 instances on EC2 recover 200 chunks while up to four clients replay YCSB-A (section \
        II-D).",
    here: "The simulator; each client has 16 requests under way, and begins another when one is \
        answered. Applications of the paper move 195.3 GB in all, and a repair 125 GB (section \
        V-A): 1.56 bytes for each, if both last as long. What they move here while a repair lasts, \
        the last panel says.",
    panels: &[
        repairs("repair", Metric::Seconds, COUNTS),
        repairs("latency", Metric::P99, BUSY),
        repairs("latency beyond", Metric::Delay, BUSY),
        PanelSpec {
            printed: &[
                printed("4 clients", "CR", INTENSITY),
                printed("4 clients", "PPR", INTENSITY),
                printed("4 clients", "ECPipe", INTENSITY),
            ],
            ..repairs("bytes", Metric::Intensity, BUSY)
        },
    ],
    claims: &[
        percent_from(
            "applications lengthen repairs by 3.6 % at least",
            "section II-D, Figure 4(a)",
            LeastAbove(
                OTHERS.panel(&["repair"]).at(BUSY_LABELS),
                OTHERS.panel(&["repair"]).at(&["0 clients"]),
            ),
            3.6,
            LENGTHENED,
        ),
        percent_up_to(
            "applications lengthen repairs by 91.5 % at most",
            "section II-D, Figure 4(a)",
            MostAbove(
                OTHERS.panel(&["repair"]).at(BUSY_LABELS),
                OTHERS.panel(&["repair"]).at(&["0 clients"]),
            ),
            91.5,
            LENGTHENED,
        ),
        Claim {
            text: "the repair time grows with the clients",
            place: "section II-D, Figure 4(a)",
            quantity: LeastAbove(
                OTHERS.panel(&["repair"]).at(BUSY_LABELS),
                OTHERS.panel(&["repair"]).at(&["0 clients", "1 client", "2 clients", "3 clients"]),
            ),
            said: Said::Positive,
            apart: LENGTHENED,
        },
        Claim {
            text: "CR is faster than PPR and ECPipe, however many clients there are",
            place: "section II-D",
            quantity: LeastBelow(of(&["CR"]).panel(&["repair"]), of(&["PPR", "ECPipe"])),
            said: Said::Positive,
            apart: "The paper blames it on slices that wait for their predecessors when links \
                fluctuate. In a fluid lane no slice waits for another: a tree is only as fast as \
                the busiest of its links.",
        },
        percent_from(
            "a repair lengthens P99 latencies by 4.7 % at least",
            "section II-D, Figure 4(b)",
            Least(OTHERS.panel(&["latency beyond"])),
            4.7,
            DELAYED,
        ),
        percent_up_to(
            "a repair lengthens P99 latencies by 31.5 % at most",
            "section II-D, Figure 4(b)",
            Most(OTHERS.panel(&["latency beyond"])),
            31.5,
            DELAYED,
        ),
    ],
};

const fn changes(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: LINKS, printed: &[] }
}

/// Why applications change otherwise.
const CHANGING: &str = "The clients here wait for links and disks alone, and a popular value \
    fills a link for as long as it is asked for; those of the paper wait for HBase too. The paper \
    does not say over how long its rates are taken, and the longer, the less they change.";

const FIGURE5: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig5",
    title: "Fluctuation of the bandwidth that applications take",
    did: "The most less the least that YCSB-A takes of a link within windows of 15 s, at 10 Gb/s \
        (section II-D).",
    here: "Applications alone in the simulator, for 60 s at 1 Gb/s, a tenth of the paper's links; \
        means of a second, and of shorter and longer times. There is no repair, so no policy and \
        no bound.",
    panels: &[
        changes("means of 1 s", Metric::Fluctuation(1.0), WORKLOADS),
        changes("means of 0.2 s", Metric::Fluctuation(0.2), YCSB),
        changes("means of 5 s", Metric::Fluctuation(5.0), YCSB),
        changes("largest, means of 1 s", Metric::MostFluctuation(1.0), YCSB),
    ],
    claims: &[
        Claim {
            text: "what applications take of a link changes within 15 s by 1.1 of 10 Gb/s on \
                average, 11 %: 110 of 1000 Mbit/s",
            place: "section II-D, Figure 5",
            quantity: Mean(of(&["applications"]).panel(&["means of 1 s"]).at(&["YCSB-A"])),
            said: Said::Between(110.0, 110.0),
            apart: CHANGING,
        },
        Claim {
            text: "what applications take of a link changes within 15 s by up to 3.6 of 10 Gb/s: \
                360 of 1000 Mbit/s",
            place: "section II-D, Figure 5",
            quantity: Mean(of(&["applications"]).panel(&["largest, means of 1 s"])),
            said: Said::Between(360.0, 360.0),
            apart: CHANGING,
        },
    ],
};

/// Why links are not even.
const DRAWN: &str = "Helpers and values are drawn at random, and chance can make links even.";

const FIGURE6: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig6",
    title: "Most and least loaded links",
    did: "The bandwidth that repair and YCSB-A take together of the most and of the least loaded \
        uplink and downlink (section II-D).",
    here: "The simulator; mean rates over the repair, without the failed node. The paper stacks \
        what repair and applications take; here the second four panels show what of the first four \
        is for applications.",
    panels: &[
        repairs("most loaded uplink", Metric::Link(LinkPlace::MostUp), YCSB),
        repairs("least loaded uplink", Metric::Link(LinkPlace::LeastUp), YCSB),
        repairs("most loaded downlink", Metric::Link(LinkPlace::MostDown), YCSB),
        repairs("least loaded downlink", Metric::Link(LinkPlace::LeastDown), YCSB),
        repairs("applications, most up", Metric::LinkForeground(LinkPlace::MostUp), YCSB),
        repairs("applications, least up", Metric::LinkForeground(LinkPlace::LeastUp), YCSB),
        repairs("applications, most down", Metric::LinkForeground(LinkPlace::MostDown), YCSB),
        repairs("applications, least down", Metric::LinkForeground(LinkPlace::LeastDown), YCSB),
    ],
    claims: &[
        percent(
            "ECPipe's most loaded uplink carries 110.5 % more than its least loaded one",
            "section II-D, Figure 6(a)",
            MostAbove(
                of(&["ECPipe"]).panel(&["most loaded uplink"]),
                of(&["ECPipe"]).panel(&["least loaded uplink"]),
            ),
            110.5,
            "A mean over the whole repair: 200 choices of 10 helpers on 19 nodes make 105 of each, \
                give or take 7, so that what differs is what applications take. The paper does not \
                say over what time its rates are.",
        ),
        Claim {
            text: "uplinks are uneven with each algorithm",
            place: "section II-D, Figure 6(a)",
            quantity: LeastAbove(
                OTHERS.panel(&["most loaded uplink"]),
                OTHERS.panel(&["least loaded uplink"]),
            ),
            said: Said::Positive,
            apart: DRAWN,
        },
        Claim {
            text: "downlinks are uneven, too",
            place: "section II-D, Figure 6(b)",
            quantity: LeastAbove(
                OTHERS.panel(&["most loaded downlink"]),
                OTHERS.panel(&["least loaded downlink"]),
            ),
            said: Said::Positive,
            apart: DRAWN,
        },
    ],
};
