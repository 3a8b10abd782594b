//! What requests of applications have of links that are full, on the testbed and in the simulator.
//!
//! Place: beside [slices flow], seen from outside. The kernel shares a full queue by what each
//! connection has in flight, and a fluid network by shares. What comes of either is measured here
//! by the same rule: from what links of nodes carried, step by step, and from when the bytes of
//! requests moved. Deliberately absent: links of racks, and what requests wait without a byte on
//! its way.

use std::collections::BTreeSet;

use suture_sim::client::{MovedRequest, Operation};
use suture_sim::timeline::Bucket;
use suture_sim::workload::Access;

/// From this part on, a link or the processor counts as full.
pub const FULL: f64 = 0.85;

/// Where others carry less than this part of what a link can, a request does not share it.
const SHARED: f64 = 0.05;

/// Fewer requests on full links measure nothing.
const REQUESTS_MIN: usize = 20;

/// What links of nodes carried, in steps that follow each other from zero on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSteps {
    /// When each step ends, in seconds.
    pub ends: Vec<f64>,
    /// Of each node, in their order, what its uplink carried in each step.
    pub up: Vec<Vec<Bucket>>,
    /// The same of its downlink.
    pub down: Vec<Vec<Bucket>>,
}

/// What requests had of full links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FullShare {
    /// What part of its full link a request had while its bytes moved, on average over that time.
    pub part: f64,
    /// In what part of the time in which bytes of requests moved their links were full and shared.
    pub time_part: f64,
    /// What part of all bytes of requests those are that moved on such links.
    pub bytes_part: f64,
    /// So many requests moved on full links.
    pub requests: usize,
}

impl LinkSteps {
    /// Of so many nodes, without any step.
    pub fn of_nodes(nodes: usize) -> LinkSteps {
        let links = vec![Vec::new(); nodes];
        LinkSteps { ends: Vec::new(), up: links.clone(), down: links }
    }

    /// What the first so many operations of each client had of links that were full while their
    /// bytes moved; `None` where there are too few requests of that kind. The average is over time,
    /// as clients wait: a request that has a tenth of a link counts ten times as long as one that
    /// has nine tenths of it. One that has a link to itself is left out, because it shares nothing:
    /// a fluid network fills the link with it, and a connection that begins slowly does not.
    pub fn full_share(&self, requests: &[MovedRequest], counts: &[usize]) -> Option<FullShare> {
        let (mut count, mut bytes, mut possible) = (0, 0.0, 0.0);
        let (mut seconds, mut full_seconds, mut all_bytes) = (0.0, 0.0, 0.0);
        let first = requests.iter().filter(|request| request.operation.is_among_first(counts));
        for request in first.filter(|request| request.bytes > 0.0) {
            let Some(link) = self.carried_beside(request) else { continue };
            seconds += request.to - request.from;
            all_bytes += request.bytes;
            let is_shared = link.carried - request.bytes >= SHARED * link.possible;
            if link.carried >= FULL * link.possible && is_shared {
                full_seconds += request.to - request.from;
                bytes += request.bytes;
                possible += link.possible;
                count += 1;
            }
        }
        (count >= REQUESTS_MIN).then(|| FullShare {
            part: bytes / possible,
            time_part: full_seconds / seconds,
            bytes_part: bytes / all_bytes,
            requests: count,
        })
    }

    /// What part of their links the requests of these operations had while their bytes moved, on
    /// average over that time; `None` where no byte of them did.
    pub fn part_of(
        &self,
        requests: &[MovedRequest],
        operations: &BTreeSet<Operation>,
    ) -> Option<f64> {
        let (mut bytes, mut possible) = (0.0, 0.0);
        for request in requests.iter().filter(|request| operations.contains(&request.operation)) {
            let Some(link) = self.carried_beside(request) else { continue };
            bytes += request.bytes;
            possible += link.possible;
        }
        (bytes > 0.0 && possible > 0.0).then_some(bytes / possible)
    }

    /// What the request's link carried in all, and could have, while the request's bytes moved, if
    /// it did so evenly within each step; `None` where that was not watched to its end.
    fn carried_beside(&self, request: &MovedRequest) -> Option<Bucket> {
        let links = match request.access {
            Access::Read => &self.up,
            Access::Write => &self.down,
        };
        let steps = links.get(request.node.index())?;
        let is_watched = self.ends.last().is_some_and(|last| request.to <= *last);
        let first = self.ends.partition_point(|end| *end <= request.from);
        let mut begins = first.checked_sub(1).map_or(0.0, |before| self.ends[before]);
        let mut sum = Bucket::default();
        for (step, ends) in steps.iter().zip(&self.ends).skip(first) {
            if begins >= request.to {
                break;
            }
            let seconds = request.to.min(*ends) - request.from.max(begins);
            if seconds > 0.0 {
                let part = seconds / (ends - begins);
                sum.carried += part * step.carried;
                sum.possible += part * step.possible;
            }
            begins = *ends;
        }
        (is_watched && sum.possible > 0.0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::NodeId;

    use super::*;

    /// Two nodes in steps of half a second, of which each link could carry 100 bytes in each. The
    /// uplink of the first is full for a second, and its downlink hardly used.
    fn steps() -> LinkSteps {
        let link = |carried: [f64; 3]| -> Vec<Bucket> {
            carried.map(|carried| Bucket { carried, possible: 100.0 }).to_vec()
        };
        let (busy, idle) = (link([100.0, 80.0, 20.0]), link([1.0, 0.0, 0.0]));
        LinkSteps {
            ends: vec![0.5, 1.0, 1.5],
            up: vec![busy, idle.clone()],
            down: vec![idle.clone(), idle],
        }
    }

    /// A request that reads from node 0.
    fn read(bytes: f64, from: f64, to: f64) -> MovedRequest {
        let operation = Operation { client: 0, before: 4 };
        MovedRequest { node: NodeId(0), access: Access::Read, bytes, from, to, operation }
    }

    /// What these have of full links, as the fifth operation of a client.
    fn share(links: &LinkSteps, requests: &[MovedRequest]) -> Option<FullShare> {
        assert_eq!(links.full_share(requests, &[4]), None, "the first four");
        links.full_share(requests, &[5])
    }

    #[test]
    fn a_request_has_its_bytes_of_what_its_full_link_could_carry_meanwhile() {
        // Ten have a quarter of the link for a second, and ten four fifths for a quarter of one.
        let mut requests = vec![read(50.0, 0.0, 1.0); 10];
        requests.extend([read(40.0, 0.25, 0.5); 10]);
        let part = 900.0 / 2500.0;
        let expected = FullShare { part, time_part: 1.0, bytes_part: 1.0, requests: 20 };
        assert_eq!(share(&steps(), &requests), Some(expected));
        // Others have all of it, and share it with nothing.
        let alone = [read(50.0, 0.25, 0.5); 10];
        let with_alone: Vec<MovedRequest> = requests.iter().copied().chain(alone).collect();
        let found = share(&steps(), &with_alone).unwrap();
        assert_eq!((found.part, found.requests), (expected.part, 20));
        // Others move where it is not full: later, and in the other direction.
        requests.extend([read(5.0, 1.0, 1.5); 5]);
        let write = MovedRequest { access: Access::Write, ..read(5.0, 0.0, 1.0) };
        requests.extend([write; 10]);
        let found = share(&steps(), &requests).unwrap();
        assert_eq!((found.part, found.requests), (expected.part, 20));
        assert!((found.time_part - 12.5 / 25.0).abs() < 1e-12, "{found:?}");
        assert!((found.bytes_part - 900.0 / 975.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn operations_have_their_bytes_of_what_their_links_could_carry_meanwhile() {
        let (mut requests, operation) = (vec![read(50.0, 0.0, 1.0)], read(0.0, 0.0, 0.0).operation);
        requests.push(read(30.0, 1.0, 1.5));
        let other = Operation { client: 7, ..operation };
        requests.push(MovedRequest { operation: other, ..read(99.0, 0.0, 1.0) });
        let part = steps().part_of(&requests, &[operation].into());
        assert_eq!(part, Some(80.0 / 300.0));
        assert_eq!(steps().part_of(&requests, &BTreeSet::new()), None);
    }

    #[test]
    fn a_link_is_full_by_all_that_it_carried_while_bytes_moved() {
        let of = |from, to| share(&steps(), &[read(9.0, from, to); 20]);
        // By 90 of 100 bytes, and by 83 of 100.
        assert!(of(0.0, 1.0).is_some() && of(0.4, 1.0).is_none());
        assert!(of(0.75, 1.25).is_none());
    }

    #[test]
    fn nothing_is_measured_of_few_requests_nor_of_what_came_at_once_or_was_not_watched() {
        let on_full = read(50.0, 0.0, 0.5);
        assert_eq!(share(&steps(), &[on_full; 19]), None);
        let mut requests = vec![on_full; 20];
        let all = share(&steps(), &requests).unwrap();
        requests.push(read(0.0, 0.0, 0.5));
        requests.push(read(7.0, 0.25, 0.25));
        requests.push(read(50.0, 1.0, 1.75));
        requests.push(MovedRequest { node: NodeId(2), ..on_full });
        assert_eq!(share(&steps(), &requests), Some(all));
        assert_eq!(share(&LinkSteps::default(), &requests), None);
    }
}
