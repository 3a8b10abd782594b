//! How busy each port was, over time.
//!
//! Place: what one sees of [slices flow].
//! Time is cut into equal buckets whose width doubles whenever they run out, so that a run of any
//! length ends with between half and all of them.

use crate::fluid::{Network, PortIndex};

/// What one port did in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Bytes that it carried.
    pub carried: f64,
    /// Bytes that it could have carried.
    pub possible: f64,
}

/// What ports carried, in buckets of equal width that double when they are too many.
#[derive(Clone, Debug)]
pub struct Timeline {
    ports: Vec<PortIndex>,
    buckets_max: usize,
    width: f64,
    /// For each bucket, one for each port.
    buckets: Vec<Vec<Bucket>>,
}

/// A first width, in seconds: details below it are of no interest.
const WIDTH_MIN: f64 = 1e-4;

impl Timeline {
    /// Of these ports, in at most so many buckets, at least two.
    pub fn new(ports: Vec<PortIndex>, buckets_max: usize) -> Timeline {
        assert!(buckets_max >= 2, "time has a before and an after");
        Timeline { ports, buckets_max, width: WIDTH_MIN, buckets: Vec::new() }
    }

    /// Seconds of a bucket.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// How many buckets were needed.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no time has passed.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// What the `port`-th of the ports did in a bucket.
    pub fn get(&self, bucket: usize, port: usize) -> Bucket {
        self.buckets[bucket][port]
    }

    /// Between `network.now()` and `until` everything stays as it is.
    pub fn record(&mut self, network: &Network, until: f64) {
        while until > self.width * self.buckets_max as f64 {
            self.widen();
        }
        let first = ((network.now() / self.width) as usize).min(self.buckets_max - 1);
        for bucket in first..self.buckets_max {
            let from = network.now().max(self.width * bucket as f64);
            let to = until.min(self.width * (bucket + 1) as f64);
            if to > from {
                self.add(bucket, network, to - from);
            } else if from >= until {
                break;
            }
        }
    }

    fn add(&mut self, bucket: usize, network: &Network, seconds: f64) {
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, vec![Bucket::default(); self.ports.len()]);
        }
        for (port, bucket) in self.ports.iter().zip(&mut self.buckets[bucket]) {
            bucket.carried += network.used(*port) * seconds;
            bucket.possible += network.capacity(*port) * seconds;
        }
    }

    fn widen(&mut self) {
        self.width *= 2.0;
        let pairs = std::mem::take(&mut self.buckets);
        for (index, bucket) in pairs.into_iter().enumerate() {
            if index % 2 == 0 {
                self.buckets.push(bucket);
                continue;
            }
            for (sum, more) in self.buckets[index / 2].iter_mut().zip(bucket) {
                sum.carried += more.carried;
                sum.possible += more.possible;
            }
        }
    }
}
