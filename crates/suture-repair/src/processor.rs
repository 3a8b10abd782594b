//! A node's processor: one more port, whose load is time instead of bytes.
//!
//! Place: beside `[plan]`; the seventh thing of a node that has a capacity, after its links and its
//! disk. Every byte that a node sends, receives, reads or writes costs its processor some time, and
//! a byte of traces more than one of a whole chunk. What plans bring to it is therefore a sum over
//! bytes that are counted anyway (`plan/load.rs`), and nothing else is counted for it. An agent
//! measures what its own costs are when it starts; a cluster file gives cores alone, and typical
//! costs stand for the rest.
//!
//! Four lines of arithmetic: a relay takes some 0.75 ns for each byte that comes and goes on, so a
//! core ends at about 11 Gbit/s each way, and at a third of that with traces. At 1 Gbit/s a core is
//! full to a tenth; where several agents share a machine, or links are faster than 10 Gbit/s, it is
//! what repairs wait for.

/// The most cores, and the dearest byte, in nanoseconds, that is accepted of any node.
const CORES_MAX: f64 = 65_536.0;
const COST_MAX: f64 = 1e6;

/// Nanoseconds in a second.
const NS: f64 = 1e9;

/// Traces are about half of what is read for them, whole chunks all of it.
const READ_PER_SENT: f64 = 2.0;

/// What a byte costs a core, in nanoseconds, by what is done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorCosts {
    /// To multiply a byte of the own chunk, to checksum and to send the result.
    pub sent: f64,
    /// To receive a byte, to check it and to add it to a sum.
    pub received: f64,
    /// What a byte of traces costs beyond that to be made and sent.
    pub traced: f64,
    /// What a byte of traces costs beyond that to be received and decoded.
    pub decoded: f64,
    /// To read a byte from the disk and to check it.
    pub read: f64,
    /// To checksum a rebuilt byte and to write it.
    pub written: f64,
}

impl ProcessorCosts {
    /// What the engine takes on a core of 2023, sockets and checksums included: 0.75 ns for a
    /// relayed byte, 0.6 ns at a destination, and half as much again where stripes are rebuilt from
    /// traces.
    pub const TYPICAL: ProcessorCosts = ProcessorCosts {
        sent: 0.3,
        received: 0.35,
        traced: 0.25,
        decoded: 0.45,
        read: 0.1,
        written: 0.25,
    };

    /// All of them, in the order in which they are declared.
    pub fn all(&self) -> [f64; 6] {
        [self.sent, self.received, self.traced, self.decoded, self.read, self.written]
    }

    /// The costs from a list of all of them, in the same order.
    pub fn from_all(costs: [f64; 6]) -> ProcessorCosts {
        let [sent, received, traced, decoded, read, written] = costs;
        ProcessorCosts { sent, received, traced, decoded, read, written }
    }
}

/// How much of a processor a node has for repair, and what it costs there.
///
/// Invariant: there is more than no core, and no cost is below zero; all of them are numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    cores: f64,
    costs: ProcessorCosts,
}

impl Processor {
    /// So many cores at these costs; `None` for what cannot be.
    pub fn new(cores: f64, costs: ProcessorCosts) -> Option<Processor> {
        let is_cost = |cost: &f64| (0.0..=COST_MAX).contains(cost);
        let is_possible = cores > 0.0 && cores <= CORES_MAX && costs.all().iter().all(is_cost);
        is_possible.then_some(Processor { cores, costs })
    }

    /// How many cores there are; parts of one count.
    pub fn cores(&self) -> f64 {
        self.cores
    }

    /// What a byte costs one of them, in nanoseconds.
    pub fn costs(&self) -> &ProcessorCosts {
        &self.costs
    }

    /// How many nanoseconds of work it does in a second.
    pub fn work_per_second(&self) -> f64 {
        self.cores * NS
    }

    /// Whether links of so many bytes per second, both full of traces and finished chunks, bring it
    /// more work than it does in the same time. Where not, links are full first whatever is sent,
    /// and it is no port that counts.
    pub fn may_be_scarce(&self, uplink: f64, downlink: f64) -> bool {
        let ProcessorCosts { sent, received, traced, decoded, read, written } = self.costs;
        let sending = uplink.max(0.0) * (sent + traced + READ_PER_SENT * read);
        let receiving = downlink.max(0.0) * (received + decoded + written);
        sending + receiving > self.work_per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::{Processor, ProcessorCosts};

    #[test]
    fn what_cannot_be_is_no_processor() {
        let typical = ProcessorCosts::TYPICAL;
        assert!(Processor::new(0.1, typical).is_some());
        for cores in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Processor::new(cores, typical), None, "{cores}");
        }
        for cost in [-0.1, f64::NAN, f64::INFINITY, 1e7] {
            for at in 0..6 {
                let mut costs = typical.all();
                costs[at] = cost;
                assert_eq!(Processor::new(1.0, ProcessorCosts::from_all(costs)), None, "{cost}");
            }
        }
        assert_eq!(ProcessorCosts::from_all(typical.all()), typical);
    }

    #[test]
    fn a_processor_counts_where_links_may_bring_more_than_it_does() {
        let of = |cores| Processor::new(cores, ProcessorCosts::TYPICAL).unwrap();
        let gbit = 125e6;
        assert!(!of(1.0).may_be_scarce(gbit, gbit));
        assert!(of(0.1).may_be_scarce(gbit, gbit));
        let fast = 3.125e9;
        assert!(of(2.0).may_be_scarce(fast, gbit));
        assert!(of(2.0).may_be_scarce(gbit, fast));
    }
}
