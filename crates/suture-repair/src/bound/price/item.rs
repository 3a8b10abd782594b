//! A part of a job at some prices: its cheapest repair, what that costs, and where its bytes go.
//!
//! Place: beside `[plan]`, inside of the bound by prices. A search looks at each part hundreds of
//! times, at other prices every time. What does not change is worked out once: for each pattern of
//! lost and available chunks what every helper sends, and what comes to the node where it all meets
//! (`PricedPattern`); for each part which nodes the helpers are (`Item`).
//!
//! Invariant: what is put on the loads costs what the repair is said to cost, at the same prices.

use std::rc::Rc;

use suture_code::lrc::{Check, ChunkPrices};
use suture_code::{ChunkIndex, Scheme};

use crate::bound::Demand;
use crate::bound::price::{Offers, PricedKinds};
use crate::bound::search::Amounts;
use crate::id::NodeId;
use crate::need::{Part, Sender};
use crate::planner::View;

/// What all parts with the same lost and available chunks have in common. Everything is in lengths
/// of a chunk, and by places: those of forced helpers, then those of free ones.
pub(super) struct PricedPattern<'a> {
    part: &'a Part,
    /// The parity checks of which the helpers are one; any helpers do where there are none.
    checks: &'a [Check],
    schemes: Vec<PricedScheme>,
    /// Whether it may be rebuilt from whole chunks.
    may_be_whole: bool,
    /// What each forced helper sends and reads.
    forced: Vec<[f64; 2]>,
    /// The same of a free one.
    free: [f64; 2],
    /// Whole chunks may meet at each helper.
    decoders: Decoders,
    /// What any other node receives and sends because whole chunks meet at it, beside what it
    /// receives as a destination.
    elsewhere: [f64; 2],
}

/// The traces of a scheme, by places.
struct PricedScheme {
    /// What each sends: zero if it does not help.
    sent: Vec<f64>,
    /// What each reads: traces are taken of whole chunks.
    read: Vec<f64>,
    total: f64,
    /// They may be decoded at each that helps.
    decoders: Decoders,
}

/// What each helper receives and sends because it decodes, beside what it sends as a helper, by
/// places; infinite for those that cannot.
struct Decoders {
    received: Vec<f64>,
    sent: Vec<f64>,
}

/// Places are looked at by so many at once: lists by places are filled up to a multiple of it.
const LANES: usize = 4;

/// A part of a job.
pub(super) struct Item<'a> {
    demand: &'a Demand<'a>,
    pattern: Rc<PricedPattern<'a>>,
    holders: Vec<NodeId>,
    /// The same part from more than its cheapest repair takes, where helpers may be replaced.
    around: Option<Box<Item<'a>>>,
}

/// What is sent, and its finish point.
#[derive(Clone, Copy, Debug)]
enum RepairKind {
    /// Whole chunks, or what the code asks for of them, added up or not.
    Whole(FinishPoint),
    /// The traces of a scheme, by its place.
    Traces(usize, FinishPoint),
}

/// The finish point: where what helpers send becomes the chunk.
#[derive(Clone, Copy, Debug)]
enum FinishPoint {
    /// At a destination; there may be none.
    Destination(Option<NodeId>),
    /// At a helper: the one where it is cheapest.
    Helper,
}

/// What a byte costs the helpers of an item, by their places.
#[derive(Default)]
pub(super) struct HelperPrices {
    up: Vec<f64>,
    down: Vec<f64>,
    read: Vec<f64>,
    /// What it costs the free ones to help; the cheapest may have moved to the front.
    helping: Vec<f64>,
    /// The chunks that help by the cheapest parity check.
    chosen: Vec<ChunkIndex>,
}

impl<'a> PricedPattern<'a> {
    /// The pattern of a part of this demand.
    pub fn new(
        demand: &Demand<'_>,
        part: &'a Part,
        view: &View<'_>,
        kinds: PricedKinds,
    ) -> PricedPattern<'a> {
        let alpha = f64::from(demand.job.code.sub_chunk_count());
        let lengths =
            |sender: &Sender| [f64::from(sender.sent) / alpha, f64::from(sender.read) / alpha];
        let may_trace = view.abilities.traces && view.abilities.finished;
        let may_trace = may_trace && kinds != PricedKinds::Chunks;
        let schemes = if may_trace { priced_schemes(demand, part) } else { Vec::new() };
        let forced: Vec<[f64; 2]> = part.forced.iter().map(lengths).collect();
        let free = [f64::from(part.free_sent) / alpha, f64::from(part.free_read) / alpha];
        let (sent, lost) = (part.sent() as f64 / alpha, part.lost.len() as f64);
        // A sum is sent in place of the own chunk.
        let at_helper = |own: f64| [(sent - own).max(0.0), lost - own];
        let own = forced.iter().chain(std::iter::repeat_n(&free, part.free.len()));
        PricedPattern {
            checks: &part.checks,
            may_be_whole: kinds != PricedKinds::TracesFirst || schemes.is_empty(),
            schemes,
            decoders: Decoders::new(own.map(|[sent, _]| at_helper(*sent))),
            elsewhere: [(sent - 1.0).max(0.0), part.forwards() as f64],
            part,
            forced,
            free,
        }
    }

    /// The same pattern, served by any so many helpers.
    pub fn without_checks(self) -> PricedPattern<'a> {
        PricedPattern { checks: &[], ..self }
    }

    /// Chunks that come to where a tree meets.
    fn sums(&self) -> f64 {
        (self.forced.len() + self.part.count) as f64
    }

    /// Lengths of a chunk that may come to a node that keeps it.
    pub fn lengths(&self) -> impl Iterator<Item = f64> {
        self.schemes.iter().map(|scheme| scheme.total).chain([self.sums()])
    }

    /// How many helpers are looked at for the cheapest repair.
    pub fn visits(&self) -> usize {
        (self.forced.len() + self.part.free.len()) * (1 + self.schemes.len() + self.checks.len())
    }
}

/// The schemes that serve a part.
fn priced_schemes(demand: &Demand<'_>, part: &Part) -> Vec<PricedScheme> {
    let code = demand.job.code;
    let (&[lost], true) = (&part.lost[..], part.is_sum) else { return Vec::new() };
    let places: Vec<ChunkIndex> = places(part).collect();
    let schemes = code.schemes().iter().filter(|scheme| scheme.lost() == lost);
    let priced = |scheme: &Scheme| {
        let ranks = scheme.ranks(code.chunk_count()).into_iter();
        let ranks = ranks.filter(|(chunk, rank)| *rank > 0 && !code.is_zero(*chunk));
        let mut sent = vec![0.0; places.len()];
        for (chunk, rank) in ranks {
            sent[places.iter().position(|place| *place == chunk)?] = rank as f64 / 8.0;
        }
        Some(PricedScheme::new(sent))
    };
    schemes.filter_map(priced).collect()
}

/// The chunks of helpers by their places.
fn places(part: &Part) -> impl Iterator<Item = ChunkIndex> {
    part.forced.iter().map(|sender| sender.chunk).chain(part.free.iter().copied())
}

impl PricedScheme {
    fn new(sent: Vec<f64>) -> PricedScheme {
        let total: f64 = sent.iter().sum();
        let decoding =
            |sent: &f64| if *sent > 0.0 { [total - sent, 1.0 - sent] } else { [f64::INFINITY; 2] };
        let decoders = Decoders::new(sent.iter().map(decoding));
        let read = sent.iter().map(|sent| if *sent > 0.0 { 1.0 } else { 0.0 });
        PricedScheme {
            read: filled(read, 0.0),
            sent: filled(sent.iter().copied(), 0.0),
            total,
            decoders,
        }
    }

    /// What it costs that helpers send.
    fn sending(&self, prices: &HelperPrices) -> f64 {
        let mut costs = [0.0; LANES];
        let sending = lanes(&self.sent).zip(lanes(&self.read));
        let prices = lanes(&prices.up).zip(lanes(&prices.read));
        for ((sent, read), (up, read_price)) in sending.zip(prices) {
            for lane in 0..LANES {
                costs[lane] += sent[lane] * up[lane] + read[lane] * read_price[lane];
            }
        }
        costs.into_iter().sum()
    }
}

impl Decoders {
    /// From what is received and sent, by places.
    fn new(places: impl Iterator<Item = [f64; 2]>) -> Decoders {
        let (received, sent): (Vec<f64>, Vec<f64>) = places.map(|[a, b]| (a, b)).unzip();
        let filled = |amounts: Vec<f64>| filled(amounts.into_iter(), f64::INFINITY);
        Decoders { received: filled(received), sent: filled(sent) }
    }

    /// The least that it costs one of them; infinite where there is none.
    fn least_cost(&self, prices: &HelperPrices) -> f64 {
        let mut least = [f64::INFINITY; LANES];
        let amounts = lanes(&self.received).zip(lanes(&self.sent));
        let prices = lanes(&prices.down).zip(lanes(&prices.up));
        for ((received, sent), (down, up)) in amounts.zip(prices) {
            for lane in 0..LANES {
                let cost = received[lane] * down[lane] + sent[lane] * up[lane];
                // What is infinite at a price of zero is no number, and less than nothing.
                least[lane] = if cost < least[lane] { cost } else { least[lane] };
            }
        }
        least.into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The place of the first that costs so much.
    fn place_of(&self, cost: f64, prices: &HelperPrices) -> usize {
        let amounts = self.received.iter().zip(&self.sent);
        let mut costs = amounts.zip(prices.down.iter().zip(&prices.up));
        let found =
            costs.position(|((received, sent), (down, up))| received * down + sent * up == cost);
        found.expect("one of them costs the least")
    }
}

/// A list by places, filled up.
fn filled(amounts: impl Iterator<Item = f64>, with: f64) -> Vec<f64> {
    let mut amounts: Vec<f64> = amounts.collect();
    amounts.resize(amounts.len().next_multiple_of(LANES), with);
    amounts
}

/// A filled list, so many places at once.
fn lanes(filled: &[f64]) -> impl Iterator<Item = &[f64; LANES]> {
    filled.as_chunks().0.iter()
}

impl HelperPrices {
    fn set(&mut self, holders: &[NodeId], offers: &Offers<'_>) {
        let HelperPrices { up, down, read, .. } = self;
        let length = holders.len().next_multiple_of(LANES);
        let set = |prices: &mut Vec<f64>, price: &dyn Fn(NodeId) -> f64| {
            prices.clear();
            prices.extend(holders.iter().map(|node| price(*node)));
            prices.resize(length, 0.0);
        };
        set(up, &|node| offers.up(node));
        set(down, &|node| offers.down(node));
        set(read, &|node| offers.read(node));
    }

    /// What it costs a helper to send and read so many lengths.
    fn helping(&self, place: usize, [sent, read]: [f64; 2]) -> f64 {
        sent * self.up[place] + read * self.read[place]
    }

    /// What it costs each free helper to help, by places.
    fn each_free(&self, pattern: &PricedPattern<'_>) -> impl Iterator<Item = f64> {
        let first = pattern.forced.len();
        let free = first..first + pattern.part.free.len();
        free.map(|place| self.helping(place, pattern.free))
    }

    /// What it costs that the helpers of the cheapest parity check send whole chunks.
    fn whole_by_checks(&mut self, pattern: &PricedPattern<'_>) -> f64 {
        let each = places(pattern.part).enumerate();
        let each = each.map(|(place, chunk)| (chunk, self.helping(place, pattern.free)));
        let chunks = ChunkPrices::new(each);
        let costs = pattern.checks.iter().map(|check| (check.price(false, &chunks), check));
        let (_, cheapest) = costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are checks");
        self.chosen = cheapest.cheapest(false, &chunks);
        chunks.sum(&self.chosen)
    }

    /// What it costs that the cheapest helpers send whole chunks.
    fn whole(&mut self, pattern: &PricedPattern<'_>) -> f64 {
        if !pattern.checks.is_empty() {
            return self.whole_by_checks(pattern);
        }
        let mut helping = std::mem::take(&mut self.helping);
        helping.clear();
        helping.extend(self.each_free(pattern));
        let count = pattern.part.count;
        if (1..helping.len()).contains(&count) {
            helping.select_nth_unstable_by(count - 1, f64::total_cmp);
        }
        let forced = pattern.forced.iter().enumerate();
        let forced: f64 = forced.map(|(place, lengths)| self.helping(place, *lengths)).sum();
        let free: f64 = helping[..count].iter().sum();
        self.helping = helping;
        forced + free
    }
}

impl<'a> Item<'a> {
    /// The part of the demand that has this pattern.
    pub fn new(demand: &'a Demand<'a>, pattern: Rc<PricedPattern<'a>>) -> Item<'a> {
        let holders = places(pattern.part).map(|chunk| demand.holder(chunk)).collect();
        Item { demand, pattern, holders, around: None }
    }

    /// The item, which may also be rebuilt by this other pattern.
    pub fn or_around(self, pattern: Rc<PricedPattern<'a>>) -> Item<'a> {
        Item { around: Some(Box::new(Item::new(self.demand, pattern))), ..self }
    }

    /// Whether parity checks say who may help.
    pub fn has_checks(&self) -> bool {
        self.patterns().any(|pattern| !pattern.checks.is_empty())
    }

    /// What it has of the patterns of its options.
    pub fn patterns(&self) -> impl Iterator<Item = &PricedPattern<'a>> {
        [Some(self.pattern()), self.around.as_ref().map(|other| other.pattern())]
            .into_iter()
            .flatten()
    }

    /// What it and all others of its pattern have in common.
    pub fn pattern(&self) -> &PricedPattern<'a> {
        &self.pattern
    }

    fn chunk_bytes(&self) -> f64 {
        self.demand.job.chunk_bytes as f64
    }

    /// Puts the cheapest repair on `loads`, and returns what it costs.
    pub fn take_cheapest(
        &self,
        offers: &Offers<'_>,
        prices: &mut HelperPrices,
        loads: &mut Amounts,
    ) -> f64 {
        prices.set(&self.holders, offers);
        let (cost, choice) = self.cheapest(offers, prices);
        if let Some(other) = &self.around {
            prices.set(&other.holders, offers);
            if other.cheapest(offers, prices).0 < cost {
                return other.take_cheapest(offers, prices, loads);
            }
            prices.set(&self.holders, offers);
            prices.whole(&self.pattern);
        }
        match choice {
            RepairKind::Whole(finish) => self.charge_whole(finish, offers, prices, loads),
            RepairKind::Traces(at, finish) => {
                self.charge_traces(&self.pattern.schemes[at], finish, offers, prices, loads);
            }
        }
        cost * self.chunk_bytes()
    }

    /// The cheapest repair, and what a byte of a chunk costs: prices are linear, so it is no use to
    /// share anything out.
    fn cheapest(&self, offers: &Offers<'_>, prices: &mut HelperPrices) -> (f64, RepairKind) {
        let first = offers.first(1.0, self.demand);
        let kept = self.kept(first, offers);
        let mut best = (f64::INFINITY, RepairKind::Whole(FinishPoint::Helper));
        let mut offer = |cost: f64, choice: RepairKind| {
            if cost < best.0 {
                best = (cost, choice);
            }
        };
        if self.pattern.may_be_whole {
            let sent = prices.whole(&self.pattern);
            let (root, cost) = self.whole_root(first, kept, offers);
            offer(sent + cost, RepairKind::Whole(FinishPoint::Destination(root)));
            let decoding = self.pattern.decoders.least_cost(prices);
            offer(sent + decoding + kept, RepairKind::Whole(FinishPoint::Helper));
        }
        for (at, scheme) in self.pattern.schemes.iter().enumerate() {
            let (sent, decoding) = (scheme.sending(prices), scheme.decoders.least_cost(prices));
            offer(sent + decoding + kept, RepairKind::Traces(at, FinishPoint::Helper));
            let root = offers.first_again(scheme.total, first, self.demand);
            let cost = root.map_or(0.0, |node| offers.keeping(scheme.total.max(1.0), node));
            offer(sent + cost, RepairKind::Traces(at, FinishPoint::Destination(root)));
        }
        best
    }

    /// What it costs that the cheapest destinations receive and keep the chunks, `first` being the
    /// cheapest of all.
    fn kept(&self, first: Option<NodeId>, offers: &Offers<'_>) -> f64 {
        if let [_] = self.pattern.part.lost[..] {
            return first.map_or(0.0, |node| offers.keeping(1.0, node));
        }
        let mut kept = 0.0;
        offers.each_first(self.pattern.part.lost.len(), self.demand, |node| {
            kept += offers.keeping(1.0, node);
        });
        kept
    }

    /// Where whole chunks meet most cheaply beside helpers, and what that and keeping them costs.
    fn whole_root(
        &self,
        first: Option<NodeId>,
        kept: f64,
        offers: &Offers<'_>,
    ) -> (Option<NodeId>, f64) {
        let [received, sent] = self.pattern.elsewhere;
        let decoding = |node: NodeId| received * offers.down(node) + sent * offers.up(node);
        if !self.pattern.part.is_sum {
            let root = offers.cheapest_of_all(decoding);
            return (root, kept + root.map_or(0.0, decoding));
        }
        let root = offers.first_again(self.pattern.sums(), first, self.demand);
        (root, root.map_or(0.0, |node| decoding(node) + offers.keeping(1.0, node)))
    }

    fn charge_whole(
        &self,
        finish: FinishPoint,
        offers: &Offers<'_>,
        prices: &HelperPrices,
        loads: &mut Amounts,
    ) {
        let (pattern, bytes) = (&*self.pattern, self.chunk_bytes());
        self.charge_helpers(offers, prices, loads);
        match finish {
            FinishPoint::Helper => self.charge_decoder(&pattern.decoders, offers, prices, loads),
            FinishPoint::Destination(Some(node)) => {
                let ([received, sent], ports) = (pattern.elsewhere, offers.ports);
                loads.add(ports.down(node.0), received * bytes);
                loads.add(ports.up(node.0), sent * bytes);
            }
            FinishPoint::Destination(None) => {}
        }
        self.charge_kept(finish, offers, loads);
    }

    /// What the cheapest helpers send and read.
    fn charge_helpers(&self, offers: &Offers<'_>, prices: &HelperPrices, loads: &mut Amounts) {
        let (pattern, ports, bytes) = (&*self.pattern, offers.ports, self.chunk_bytes());
        let mut charge = |node: NodeId, [sent, read]: [f64; 2]| {
            loads.add(ports.up(node.0), sent * bytes);
            loads.add(ports.read(node.0), read * bytes);
        };
        if !pattern.checks.is_empty() {
            let each = places(pattern.part).zip(&self.holders);
            let helping = each.filter(|(chunk, _)| prices.chosen.contains(chunk));
            return helping.for_each(|(_, node)| charge(*node, pattern.free));
        }
        let (forced, free) = self.holders.split_at(pattern.forced.len());
        forced.iter().zip(&pattern.forced).for_each(|(node, lengths)| charge(*node, *lengths));
        // Those that were moved to the front help: all below the dearest of them, and some like it.
        let helping = &prices.helping[..pattern.part.count];
        let limit = helping.iter().copied().fold(0.0, f64::max);
        let mut at_limit = helping.iter().filter(|cost| **cost == limit).count();
        for (node, cost) in free.iter().zip(prices.each_free(pattern)) {
            if cost < limit || (cost == limit && at_limit > 0) {
                at_limit -= usize::from(cost == limit);
                charge(*node, pattern.free);
            }
        }
    }

    fn charge_traces(
        &self,
        scheme: &PricedScheme,
        finish: FinishPoint,
        offers: &Offers<'_>,
        prices: &HelperPrices,
        loads: &mut Amounts,
    ) {
        let (ports, bytes) = (offers.ports, self.chunk_bytes());
        for (node, (sent, read)) in self.holders.iter().zip(scheme.sent.iter().zip(&scheme.read)) {
            loads.add(ports.up(node.0), sent * bytes);
            loads.add(ports.read(node.0), read * bytes);
        }
        match finish {
            FinishPoint::Helper => self.charge_decoder(&scheme.decoders, offers, prices, loads),
            FinishPoint::Destination(Some(node)) => {
                loads.add(ports.down(node.0), (scheme.total - 1.0).max(0.0) * bytes);
            }
            FinishPoint::Destination(None) => {}
        }
        self.charge_kept(finish, offers, loads);
    }

    /// What comes to the cheapest of the possible decoders.
    fn charge_decoder(
        &self,
        decoders: &Decoders,
        offers: &Offers<'_>,
        prices: &HelperPrices,
        loads: &mut Amounts,
    ) {
        let place = decoders.place_of(decoders.least_cost(prices), prices);
        let (ports, bytes, node) = (offers.ports, self.chunk_bytes(), self.holders[place].0);
        loads.add(ports.down(node), decoders.received[place] * bytes);
        loads.add(ports.up(node), decoders.sent[place] * bytes);
    }

    /// What destinations receive and keep of the chunks themselves.
    fn charge_kept(&self, finish: FinishPoint, offers: &Offers<'_>, loads: &mut Amounts) {
        let (ports, bytes) = (offers.ports, self.chunk_bytes());
        let mut keep = |node: NodeId| {
            loads.add(ports.down(node.0), bytes);
            loads.add(ports.write(node.0), bytes);
        };
        match finish {
            FinishPoint::Destination(Some(node)) if self.pattern.part.is_sum => keep(node),
            _ => offers.each_first(self.pattern.part.lost.len(), self.demand, keep),
        }
    }
}
