//! The fluid network: flows share ports max-min fairly, and time passes from event to event.
//!
//! Place: failure -> ... -> dispatch -> [slices flow] -> chunk durable -> ...; in place of slices.
//! A port is one direction of a link, or a disk's reading or writing, with a capacity. A flow has
//! bytes to move and takes `weight` times its rate of each of its ports: a lane is one flow that
//! takes a whole tree of ports, because slices couple their rates. Rates are max-min fair by share:
//! no flow's rate for each byte of its share can grow without lowering that of a flow for which it
//! is no higher. With the bytes of a lane as its share, that is what round-robin by slice of lane
//! gives at every port, where every lane moves in as many slices: lanes that begin together and
//! share a full port end together.
//!
//! Filling: all levels (rate by share) rise together; when a port is full, its flows stop there and
//! what they take elsewhere is settled. The next port to fill up is found among blocks of ports by
//! the least level that each had when it was last scanned, which may be out of date but is never
//! too high, since levels only rise. One filling costs each flow's ports once.
//!
//! A network of more than `exact_entries` (port, flow) pairs is not filled anew at each event, but
//! once in a `COALESCED`-th part of the time that the average flow has left: what ended flows set
//! free stays idle until then, new flows wait, so rates are never above what ports carry and no
//! byte is lost. Changed capacities and prompt flows are always served at once.
//!
//! Invariants: ports are never overdrawn; events come in order; same calls, same results.
//! `oracle.rs` is the definition, followed step by step. Does not know nodes, plans or time zones.

pub mod oracle;

use std::ops::Range;

/// What one direction of a link or disk is to the network: an index.
pub type PortIndex = u32;

/// Ends closer together than this, in seconds, are one event. Far below a nanosecond, so that no
/// clock shows the difference; far above rounding, so that flows that are equal by symmetry end
/// together.
const SAME_MOMENT: f64 = 1e-10;

/// See the file head: 0.2 % of a flow's life is waited for at both of its ends at most.
const COALESCED: f64 = 1.0 / 500.0;

/// Ports that are scanned together: about as much work as to find the next block of a large
/// network, while all ports of a small one are in one.
const BLOCK_PORTS: usize = 64;

/// Up to here a filling costs about as much as what a coordinator does about the event.
pub const EXACT_ENTRIES: usize = 16_384;

/// A port of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Take {
    /// By its number in the network.
    pub port: PortIndex,
    /// Bytes through it for each byte of the flow; above zero.
    pub weight: f64,
}

/// What a flow moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// So many bytes, above zero.
    pub bytes: f64,
    /// Its part in a full port, in bytes of the flow: one of twice the share goes twice as fast.
    pub share: f64,
}

impl Transfer {
    /// A lane: the more it has to move, the more it gets.
    pub fn lane(bytes: f64) -> Transfer {
        Transfer { bytes, share: bytes }
    }
}

/// Names a flow. After it has ended or was stopped, and time has passed again, the name goes to
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// When a flow needs its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A lane: a little later will do in a large network.
    Patient,
    /// A request, whose latency is measured.
    Prompt,
}

#[derive(Clone, Debug)]
struct Flow {
    /// Bytes of its share; everything else of a flow is counted in shares.
    share: f64,
    row: Row,
    /// What is left at `since`.
    left: f64,
    rate: f64,
    since: f64,
    ends_at: f64,
    /// Its position among the live flows; `None`: this slot is free.
    position: Option<u32>,
}

/// Where the ports of a flow are among those of all flows, and the bytes through each for each
/// share. A slot keeps what is reserved for it when another flow gets it.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    first: u32,
    count: u32,
    reserved: u32,
    /// Of every port; `None`: each has its own.
    weight: Option<f64>,
}

impl Row {
    fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// What a filling asks of every flow once for each of its ports, apart from the rest of the flow:
/// so much fits into a processor's nearest memory.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Grows when a flow ends, so that ports notice flows that are gone.
    life: u32,
    /// The filling that settled its rate.
    settled: u64,
}

#[derive(Clone, Debug, Default)]
struct Port {
    capacity: f64,
    /// What flows take of it now.
    used: f64,
    /// The weights of its flows, and how many they are.
    weight: f64,
    count: u32,
    /// Its flows, and some that are gone: (slot, life).
    flows: Vec<(u32, u32)>,
    /// Its position among the busy ports.
    position: u32,
}

/// A port while rates rise; apart from the rest of it, because a filling touches little else.
#[derive(Clone, Copy, Debug, Default)]
struct Rising {
    /// What is left for the flows that still rise.
    free: f64,
    /// Their weights, and how many they are.
    weight: f64,
    count: u32,
}

impl Rising {
    /// The level at which the port is full. Where weights are far apart, what is left of them may
    /// be rounded to nothing.
    fn level(self) -> f64 {
        self.free.max(0.0) / self.weight.max(f64::MIN_POSITIVE)
    }

    /// A flow of this weight rises no more.
    fn settle(&mut self, weight: f64, level: f64) {
        self.free -= weight * level;
        self.weight -= weight;
        self.count -= 1;
    }
}

/// Ports with flows that still rise, among all such ports of a filling.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The least of their levels when they were last scanned.
    level: f64,
    first: usize,
    count: usize,
}

/// Ports, and the flows through them.
#[derive(Clone, Debug)]
pub struct Network {
    now: f64,
    ports: Vec<Port>,
    /// Of each port; of no meaning between fillings.
    rising: Vec<Rising>,
    /// Ports that flows pass.
    busy: Vec<PortIndex>,
    flows: Vec<Flow>,
    /// Ports of all flows, close together: a filling of a large network does little but wait for
    /// the memory that they are in.
    row_ports: Vec<PortIndex>,
    /// What is taken of each of them, where a flow does not take the same of all.
    row_weights: Vec<f64>,
    /// Of each flow's number.
    marks: Vec<Mark>,
    free_numbers: Vec<u32>,
    /// Numbers of flows that ended in this step, whose names callers still use.
    left_numbers: Vec<u32>,
    live: Vec<u32>,
    entries: usize,
    exact_entries: usize,
    /// Flows that end before the next filling, latest first.
    ending: Vec<(f64, u32, u32)>,
    /// When the rates must be computed anew, if they must.
    fill_at: Option<f64>,
    filled_at: f64,
    /// How long changes may wait for each other.
    coalesce_seconds: f64,
    fillings: u64,
    /// Of no meaning between fillings, as the next.
    blocks: Vec<Block>,
    /// The ports of all blocks.
    block_ports: Vec<PortIndex>,
}

impl Network {
    /// Ports with these capacities in bytes per second, at time zero. With more than
    /// `exact_entries` pairs of a flow and a port, changes wait for each other a little.
    pub fn new(capacities: &[f64], exact_entries: usize) -> Network {
        let port = |capacity: &f64| Port { capacity: *capacity, ..Port::default() };
        Network {
            now: 0.0,
            ports: capacities.iter().map(port).collect(),
            rising: vec![Rising::default(); capacities.len()],
            busy: Vec::new(),
            flows: Vec::new(),
            row_ports: Vec::new(),
            row_weights: Vec::new(),
            marks: Vec::new(),
            free_numbers: Vec::new(),
            left_numbers: Vec::new(),
            live: Vec::new(),
            entries: 0,
            exact_entries,
            ending: Vec::new(),
            fill_at: None,
            filled_at: 0.0,
            coalesce_seconds: 0.0,
            fillings: 0,
            blocks: Vec::new(),
            block_ports: Vec::new(),
        }
    }

    /// The time in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// What the port can carry.
    pub fn capacity(&self, port: PortIndex) -> f64 {
        self.ports[port as usize].capacity
    }

    /// What the port carries until the next event. Rates must be settled: after `next_event`.
    pub fn used(&self, port: PortIndex) -> f64 {
        self.ports[port as usize].used
    }

    /// Ports that flows go through, in any order.
    pub fn busy(&self) -> &[PortIndex] {
        &self.busy
    }

    /// The flow's rate until the next event, in bytes of the flow per second.
    pub fn rate(&self, flow: FlowId) -> f64 {
        let flow = &self.flows[flow.0 as usize];
        flow.rate * flow.share
    }

    /// The bytes that the flow still has to move.
    pub fn left(&self, flow: FlowId) -> f64 {
        let flow = &self.flows[flow.0 as usize];
        (flow.left - flow.rate * (self.now - flow.since)).max(0.0) * flow.share
    }

    /// Gives a port another capacity, from now on.
    pub fn set_capacity(&mut self, port: PortIndex, capacity: f64) {
        let port = &mut self.ports[port as usize];
        if port.capacity != capacity {
            port.capacity = capacity;
            if port.count > 0 {
                self.fill_at = Some(self.now);
            }
        }
    }

    /// Begins to move something through ports, each named once.
    ///
    /// # Panics
    /// When it takes no port: then nothing would limit it.
    pub fn start(&mut self, what: Transfer, takes: &[Take], urgency: Urgency) -> FlowId {
        assert!(!takes.is_empty(), "a flow goes through at least one port");
        let Transfer { bytes, share } = what;
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            self.marks.push(Mark::default());
            self.flows.push(Flow {
                share,
                row: Row::default(),
                left: 0.0,
                rate: 0.0,
                since: 0.0,
                ends_at: f64::INFINITY,
                position: None,
            });
            self.flows.len() as u32 - 1
        });
        self.put_row(number, share, takes);
        let flow = &mut self.flows[number as usize];
        flow.share = share;
        (flow.left, flow.rate) = (bytes / share, 0.0);
        (flow.since, flow.ends_at) = (self.now, f64::INFINITY);
        flow.position = Some(self.live.len() as u32);
        let life = self.marks[number as usize].life;
        self.live.push(number);
        self.entries += takes.len();
        for take in takes {
            let port = &mut self.ports[take.port as usize];
            if port.count == 0 {
                port.position = self.busy.len() as u32;
                self.busy.push(take.port);
            }
            port.count += 1;
            port.weight += take.weight * share;
            if port.flows.len() > 2 * port.count as usize + 8 {
                port.flows.retain(|(number, life)| self.marks[*number as usize].life == *life);
            }
            port.flows.push((number, life));
        }
        self.change(urgency);
        FlowId(number)
    }

    fn put_row(&mut self, number: u32, share: f64, takes: &[Take]) {
        let row = &mut self.flows[number as usize].row;
        row.count = takes.len() as u32;
        if row.count > row.reserved {
            // What it had is given up: rooms double, so that is less than it gets.
            (row.first, row.reserved) =
                (self.row_ports.len() as u32, row.count.next_power_of_two());
            let end = self.row_ports.len() + row.reserved as usize;
            self.row_ports.resize(end, 0);
            self.row_weights.resize(end, 0.0);
        }
        let is_even = takes.iter().all(|take| take.weight == takes[0].weight);
        row.weight = is_even.then(|| takes[0].weight * share);
        for (index, take) in row.range().zip(takes) {
            self.row_ports[index] = take.port;
            self.row_weights[index] = take.weight * share;
        }
    }

    /// Takes a flow out. Returns the bytes that it had not moved.
    pub fn stop(&mut self, id: FlowId) -> f64 {
        let left = self.left(id);
        let flow = &mut self.flows[id.0 as usize];
        let row = flow.row;
        let rate = std::mem::take(&mut flow.rate);
        let position = flow.position.take().expect("a flow is stopped once") as usize;
        self.marks[id.0 as usize].life += 1;
        self.live.swap_remove(position);
        if let Some(&moved) = self.live.get(position) {
            self.flows[moved as usize].position = Some(position as u32);
        }
        self.left_numbers.push(id.0);
        self.entries -= row.count as usize;
        for index in row.range() {
            let port = &mut self.ports[self.row_ports[index] as usize];
            let weight = self.row_weights[index];
            port.count -= 1;
            port.weight -= weight;
            port.used = (port.used - weight * rate).max(0.0);
            if port.count == 0 {
                // Rounding must not pile up.
                (port.weight, port.used) = (0.0, 0.0);
                port.flows.clear();
                let position = port.position as usize;
                self.busy.swap_remove(position);
                if let Some(&moved) = self.busy.get(position) {
                    self.ports[moved as usize].position = position as u32;
                }
            }
        }
        self.change(Urgency::Patient);
        left
    }

    /// When the network must next be advanced; `None` when nothing will happen by itself.
    pub fn next_event(&mut self) -> Option<f64> {
        if self.fill_at.is_some_and(|at| at <= self.now) {
            self.fill();
        }
        let is_gone =
            |&(_, number, life): &(f64, u32, u32)| self.marks[number as usize].life != life;
        while self.ending.last().is_some_and(is_gone) {
            self.ending.pop();
        }
        let end = self.ending.last().map(|(at, ..)| *at);
        [end, self.fill_at].into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Lets time pass until `to`, which must not lie beyond `next_event`, and takes out the flows
    /// that end there; they are named in `ended`, in order of their slots.
    pub fn advance(&mut self, to: f64, ended: &mut Vec<FlowId>) {
        self.now = self.now.max(to);
        self.free_numbers.append(&mut self.left_numbers);
        let first = ended.len();
        while let Some(&(at, number, life)) = self.ending.last()
            && at <= self.now + SAME_MOMENT
        {
            self.ending.pop();
            if self.marks[number as usize].life == life {
                ended.push(FlowId(number));
            }
        }
        ended[first..].sort_unstable();
        for &flow in &ended[first..] {
            self.stop(flow);
        }
    }

    /// Rates are out of date.
    fn change(&mut self, urgency: Urgency) {
        let at = match urgency {
            Urgency::Patient => self.now.max(self.filled_at + self.coalesce_seconds),
            Urgency::Prompt => self.now,
        };
        self.fill_at = Some(self.fill_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Computes the max-min fair rates of all flows.
    fn fill(&mut self) {
        self.fillings += 1;
        (self.fill_at, self.filled_at) = (None, self.now);
        for &index in &self.busy {
            let port = &self.ports[index as usize];
            let (free, weight, count) = (port.capacity, port.weight, port.count);
            self.rising[index as usize] = Rising { free, weight, count };
        }
        self.block_ports.clone_from(&self.busy);
        let firsts = (0..self.busy.len()).step_by(BLOCK_PORTS);
        let count = |first: usize| BLOCK_PORTS.min(self.busy.len() - first);
        let block = |first| Block { level: 0.0, first, count: count(first) };
        self.blocks.extend(firsts.map(block));
        while let Some(at) = self.next_block() {
            let before = self.blocks[at].level;
            let Some((level, index)) = self.scan(at) else {
                self.blocks.swap_remove(at);
                continue;
            };
            // Never below what is settled, whatever is rounded.
            let level = level.max(before);
            self.blocks[at].level = level;
            if self.blocks.iter().all(|other| level <= other.level) {
                self.settle_port(index, level);
            }
        }
        self.schedule_ends();
    }

    /// The block with the least level.
    fn next_block(&self) -> Option<usize> {
        let levels = self.blocks.iter().map(|block| block.level).enumerate();
        levels.reduce(|least, one| if one.1 < least.1 { one } else { least }).map(|(at, _)| at)
    }

    /// Which port of a block is full first, and at which level; `None`: nothing rises there any
    /// more. Ports where nothing does leave the block.
    fn scan(&mut self, at: usize) -> Option<(f64, PortIndex)> {
        let block = &mut self.blocks[at];
        let ports = &mut self.block_ports[block.first..block.first + block.count];
        let (mut least, mut kept) = (None, 0);
        for at in 0..ports.len() {
            let port = ports[at];
            let rising = self.rising[port as usize];
            if rising.count == 0 {
                continue;
            }
            (ports[kept], kept) = (port, kept + 1);
            let level = rising.level();
            if least.is_none_or(|(lowest, _)| level < lowest) {
                least = Some((level, port));
            }
        }
        block.count = kept;
        least
    }

    /// All flows of the port that still rise stop at `level`.
    fn settle_port(&mut self, index: PortIndex, level: f64) {
        let mut members = std::mem::take(&mut self.ports[index as usize].flows);
        let rising = &mut self.rising;
        members.retain(|&(number, life)| {
            let mark = &mut self.marks[number as usize];
            if mark.life != life {
                return false;
            }
            if mark.settled == self.fillings {
                return true;
            }
            mark.settled = self.fillings;
            let flow = &mut self.flows[number as usize];
            let ports = &self.row_ports[flow.row.range()];
            match flow.row.weight {
                Some(weight) => {
                    ports.iter().for_each(|&port| rising[port as usize].settle(weight, level))
                }
                None => {
                    let weights = &self.row_weights[flow.row.range()];
                    let takes = ports.iter().zip(weights);
                    takes.for_each(|(&port, &weight)| rising[port as usize].settle(weight, level));
                }
            }
            if flow.rate != level {
                flow.left = (flow.left - flow.rate * (self.now - flow.since)).max(0.0);
                (flow.since, flow.rate) = (self.now, level);
                flow.ends_at =
                    if flow.left > 0.0 { self.now + flow.left / level } else { self.now };
            }
            true
        });
        self.ports[index as usize].flows = members;
    }

    /// Finds what ends before the next filling.
    fn schedule_ends(&mut self) {
        for &index in &self.busy {
            let port = &mut self.ports[index as usize];
            let free = self.rising[index as usize].free;
            port.used = (port.capacity - free).clamp(0.0, port.capacity);
        }
        let (mut first, mut left, mut rate) = (f64::INFINITY, 0.0, 0.0);
        for &number in &self.live {
            let flow = &self.flows[number as usize];
            first = first.min(flow.ends_at);
            left += flow.left - flow.rate * (self.now - flow.since);
            rate += flow.rate;
        }
        let is_exact = self.entries <= self.exact_entries || rate <= 0.0;
        self.coalesce_seconds = if is_exact { 0.0 } else { COALESCED * left / rate };
        let until = first.max(self.now + self.coalesce_seconds) + SAME_MOMENT;
        self.ending.clear();
        for &number in &self.live {
            let flow = &self.flows[number as usize];
            if flow.ends_at <= until {
                self.ending.push((flow.ends_at, number, self.marks[number as usize].life));
            }
        }
        self.ending.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    }
}
