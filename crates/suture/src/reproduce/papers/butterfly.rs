//! Butterfly codes, USENIX FAST 2016 (as presented in slides): Figures 5 to 7.
//!
//! Place: experiments as data. 12 servers with seven disks each behind 56 Gb/s, of which one fails;
//! Butterfly and Reed-Solomon codes with k = 5 and k = 7 and two parity chunks, in HDFS and Ceph.

use crate::reproduce::claim::Quantity::{Above, Below, Mean, Minus};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

/// The slides do not say what disks do: 100 MB/s each are assumed.
const DISKS: f64 = 7.0 * 100e6;

const fn stored(code: &'static str) -> FigureSetting {
    FigureSetting {
        code,
        nodes: 12,
        racks: &[],
        between: Between::Unlimited,
        link: 56.0 * GBIT,
        disk: Some(DISKS),
        chunk_bytes: 64 << 20,
        packet_bytes: None,
        lost: Lost::Chunks(200),
        failed: 1,
        to: To::Anywhere,
        placing: Placing::Random,
        foreground: None,
        trace: None,
        straggler: None,
    }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const CODES: &[PanelPoint] = &[
    point("RS, k=5", stored("rs(5,2)")),
    point("Butterfly, k=5", stored("butterfly(5)")),
    point("RS, k=7", stored("rs(7,2)")),
    point("Butterfly, k=7", stored("butterfly(7)")),
];

const SIMULATED: &[Series] = &[Series { name: "conventional", policy: "cr" }, SUTURE];
const PLANNED: &[Series] = &[Series { name: "conventional", policy: "star/random/all" }, SUTURE];

const fn panel(title: &'static str, metric: Metric, series: &'static [Series]) -> PanelSpec {
    PanelSpec { title, metric, points: CODES, series, printed: &[] }
}

const REPAIR: Pick = of(&["conventional"]);

pub const EXPERIMENTS: &[PaperExperiment] = &[THROUGHPUT, CPU, NETWORK, DISK];

const THROUGHPUT: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "throughput",
    title: "Repair throughput of Butterfly and RS",
    did: "20,000 objects of 64 MB in HDFS, one of 12 servers powered off; the repair throughput of \
        all others together (Figure 5).",
    here: "The simulator: 200 lost chunks, disks of 700 MB/s a server (seven of 100 MB/s, which is \
        assumed) and links of 56 Gb/s.",
    panels: &[panel("throughput", Metric::Throughput, SIMULATED)],
    claims: &[
        Claim {
            text: "in HDFS Butterfly is repaired 1.6 times as fast as RS with k = 5 (60 % faster)",
            place: "slide Repair Throughput in HDFS",
            quantity: Above(REPAIR.at(&["Butterfly, k=5"]), REPAIR.at(&["RS, k=5"])),
            said: Said::Between(60.0, 60.0),
            apart: "The paper lays the rest to contention of disks and to copies of buffers, which \
                are not simulated: reads are as fast whatever their size.",
        },
        Claim {
            text: "about twice as fast with k = 7 (100 % faster)",
            place: "slide Repair Throughput in HDFS",
            quantity: Above(REPAIR.at(&["Butterfly, k=7"]), REPAIR.at(&["RS, k=7"])),
            said: Said::Between(100.0, 100.0),
            apart: "Reads fall from seven chunks to four, so that 75 % more is the most where \
                links are the limit; the slides have more than that.",
        },
    ],
};

const CPU: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "cpu",
    title: "CPU time of repairing Butterfly and RS",
    did: "Average CPU utilisation per server during the repair, in HDFS (Java) and Ceph (C++) \
        (Figure 6).",
    here: "The codes of all plans run on this machine's processor, one core, with the kernels of \
        agents; CPU time of the code alone for each rebuilt gigabyte.",
    panels: &[panel("computing", Metric::Compute, PLANNED)],
    claims: &[
        Claim {
            text: "in HDFS Butterfly spends 2.1 times the CPU cycles of RS with k = 5 (110 % more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(REPAIR.at(&["Butterfly, k=5"]), REPAIR.at(&["RS, k=5"])),
            said: Said::Between(110.0, 110.0),
            apart: JAVA,
        },
        Claim {
            text: "1.7 times with k = 7 (70 % more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(REPAIR.at(&["Butterfly, k=7"]), REPAIR.at(&["RS, k=7"])),
            said: Said::Between(70.0, 70.0),
            apart: JAVA,
        },
        Claim {
            text: "in Ceph, written with caches in mind, Butterfly costs about as much as RS",
            place: "slide CPU Utilization in Ceph",
            quantity: Above(
                REPAIR.at(&["Butterfly, k=5", "Butterfly, k=7"]),
                REPAIR.at(&["RS, k=5", "RS, k=7"]),
            ),
            said: Said::Near(50.0),
            apart: "Vector instructions for GF(2^8) have become so cheap that a sum costs what its \
                reads cost, while Butterfly's many small sums cost their steps.",
        },
    ],
};

/// Why cycles of Java say little here.
const JAVA: &str = "The slides lay it to Java, which copies buffers for every element; nothing of \
    that is here.";

const NETWORK: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "network",
    title: "Network traffic of repairing Butterfly and RS",
    did: "Aggregate network traffic of the eleven servers, beside the optimum and the optimum with \
        one block more, which HDFS-RAID reads (Figure 7).",
    here: "Plans alone: bytes that nodes send for each lost byte. The bound is the least that \
        helpers of the code must send.",
    panels: &[panel("traffic", Metric::Traffic, PLANNED)],
    claims: &[
        Claim {
            text: "Butterfly's traffic is close to the minimum of half of the remaining data: 3 of 6 \
                chunks with k = 5",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["Butterfly, k=5"])),
            said: Said::Between(3.0, 3.0),
            apart: "",
        },
        Claim {
            text: "4 of 8 chunks with k = 7",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["Butterfly, k=7"])),
            said: Said::Between(4.0, 4.0),
            apart: "",
        },
        Claim {
            text: "MSR codes reduce repair traffic by up to 2x against RS (40 to 43 % with two parity \
                chunks)",
            place: "slide Summary",
            quantity: Below(
                REPAIR.at(&["Butterfly, k=5", "Butterfly, k=7"]),
                REPAIR.at(&["RS, k=5", "RS, k=7"]),
            ),
            said: Said::Between(40.0, 50.0),
            apart: "",
        },
    ],
};

const DISK: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "disk",
    title: "Disk traffic of repairing Butterfly and RS",
    did: "Aggregate reads and writes of the disks of the eleven servers (Figure 7).",
    here: "Plans alone: bytes that disks read and write for each lost byte. Suture's own second \
        read of a rebuilt chunk, for its proof, is not counted.",
    panels: &[
        panel("reads", Metric::DiskReads, PLANNED),
        panel("writes", Metric::DiskWrites, PLANNED),
    ],
    claims: &[
        Claim {
            text: "in HDFS Butterfly's reads are nearly optimal: 3 chunks with k = 5",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["Butterfly, k=5"])),
            said: Said::Between(3.0, 3.0),
            apart: "",
        },
        Claim {
            text: "4 chunks with k = 7",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["Butterfly, k=7"])),
            said: Said::Between(4.0, 4.0),
            apart: "",
        },
        Claim {
            text: "writes exceed the optimum about 2x for both codes",
            place: "slide Storage Traffic - Writes",
            quantity: Mean(REPAIR.panel(&["writes"])),
            said: Said::Between(2.0, 2.0),
            apart: "HDFS wrote an intermediate file and Ceph its journal; Suture writes a chunk \
                once.",
        },
        Claim {
            text: "the codes do not differ in what they write",
            place: "slide Storage Traffic - Writes",
            quantity: Minus(
                &Mean(REPAIR.panel(&["writes"]).at(&["Butterfly, k=5", "Butterfly, k=7"])),
                &Mean(REPAIR.panel(&["writes"]).at(&["RS, k=5", "RS, k=7"])),
            ),
            said: Said::Near(0.05),
            apart: "",
        },
    ],
};
