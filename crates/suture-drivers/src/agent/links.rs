//! What links carry: counted as it passes, and probed.
//!
//! Place: beside [slices flow]: what is reported to the coordinator of this node's links.
//! Payload is counted at the ports. What else passes the interface is what its counters say beyond
//! the repairs, the probes, and what segments and acknowledgements add to them; on loopback, which
//! all processes of the machine share, it is what clients of this agent move. A prober asks one
//! peer after the other for a byte now and then, as clients ask, and waits; and while nothing is
//! repaired, rarely, for as much as the links carry for a moment.

use std::collections::VecDeque;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suture_repair::id::NodeId;
use suture_repair::message::{self, LinkReport, PROBED_MAX, RepairLimit};
use suture_repair::time::Span;
use suture_repair::wire::{Frame, Who};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::AgentDriver;
use crate::address::AgentAddress;
use crate::limit::{LinkPorts, Moved, Port, Purpose};
use crate::net::connection::{Connection, Traffic};
use crate::net::error::NetError;
use crate::net::local_identity::LocalIdentity;

/// How often a peer is asked for a byte.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// So many times, before it is the next one's turn.
const ASKED_EACH: usize = 20;

/// After a start, and where a peer shows something else than before, turns are short until so many
/// of them have shown what links carry, or for so many turns: whatever is planned soon is planned
/// by it. As many peers as the coordinator remembers of a direction.
const QUICK_RATES: usize = 16;
const QUICK_TURNS: usize = 48;

/// Something else than before is more than twice, or less than half of it.
const OTHER_FACTOR: u64 = 2;

/// Short turns are repeated no sooner than this.
const QUICK_AGAIN: Duration = Duration::from_secs(20);

/// An agent whose links are both declared probes rates only so often, in turns: that measures the
/// uplink of a peer that declares none, and nothing else.
const DECLARED_TURNS: usize = 12;

/// The wait before the next peer where one cannot be reached.
const RETRY: Duration = Duration::from_secs(1);

/// How long a peer may take to let a prober in, and to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a peer is asked for when links are at rest, and what of it comes before time is taken: a
/// shaped link lets so much pass at once.
const BULK_BYTES: u32 = 1536 << 10;
const BULK_SKIPPED: usize = 512 << 10;

/// Waits that are remembered, of which one may be longer than what is reported.
const LATENCIES_MAX: usize = 100;

/// Links at rest carry less than this in a second, probes aside, or less than such a part of what a
/// peer has shown: nodes that serve applications are hardly ever without any.
const IDLE_RATE: u64 = 1 << 20;
const IDLE_DIVISOR: u64 = 8;

/// Of repairs' payload, what segments' headers add; and what acknowledgements take of the other
/// direction.
const HEADERS_DIVISOR: u64 = 16;
const ACKS_DIVISOR: u64 = 32;

/// What is measured, and how.
#[derive(Clone, Copy, Debug)]
pub struct RateSettings {
    /// The address that others reach it by: its interface is counted.
    pub address: IpAddr,
    /// Whether peers are probed.
    pub probes: bool,
    /// Whether its uplink and its downlink have declared rates.
    pub has_uplink: bool,
    /// The same of its downlink.
    pub has_downlink: bool,
    /// What packets of repair are marked with (DSCP), if with anything.
    pub dscp: Option<u8>,
}

impl Default for RateSettings {
    fn default() -> RateSettings {
        RateSettings {
            address: Ipv4Addr::LOCALHOST.into(),
            probes: false,
            has_uplink: true,
            has_downlink: true,
            dscp: None,
        }
    }
}

/// What the prober has found.
#[derive(Debug, Default)]
pub struct Probes {
    found: Mutex<Found>,
    /// What others take of links in both directions, in bytes per second; more than any link has
    /// while this agent repairs something.
    taken: AtomicU64,
}

#[derive(Debug, Default)]
struct Found {
    /// The last waits, since repair had to slow down.
    latencies: VecDeque<Duration>,
    /// Whether there is one that no report has counted yet.
    has_waited: bool,
    rates: Vec<(NodeId, u64)>,
    /// What so many peers have shown last, the latest last.
    shown: VecDeque<(NodeId, u64)>,
    reached: Vec<NodeId>,
    unreached: Vec<NodeId>,
}

impl Probes {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer answered, or could not be reached.
    fn tried(&self, node: NodeId, answers: bool) {
        let mut found = self.found();
        let found = &mut *found;
        let tried = if answers { &mut found.reached } else { &mut found.unreached };
        // No coordinator takes reports for a while: what is known is enough.
        if tried.len() < PROBED_MAX && !tried.contains(&node) {
            tried.push(node);
        }
    }

    /// Whether so little passes that a peer may be asked for as much as the links carry. Where
    /// nothing is known of them anything is little.
    fn are_links_idle(&self) -> bool {
        let best = self.found().shown.iter().map(|(_, rate)| *rate).max();
        let little = best.map_or(u64::MAX, |best| (best / IDLE_DIVISOR).max(IDLE_RATE));
        self.taken.load(Relaxed) < little
    }

    /// A peer has shown this. Returns what it had shown before.
    fn showed(&self, node: NodeId, rate: u64) -> Option<u64> {
        let mut found = self.found();
        found.rates.push((node, rate));
        let at = found.shown.iter().position(|(known, _)| *known == node);
        let before = at.and_then(|at| found.shown.remove(at));
        found.shown.push_back((node, rate));
        if found.shown.len() > PROBED_MAX {
            found.shown.pop_front();
        }
        before.map(|(_, rate)| rate)
    }

    fn waited(&self, latency: Duration) {
        let mut found = self.found();
        found.has_waited = true;
        found.latencies.push_back(latency);
        if found.latencies.len() > LATENCIES_MAX {
            found.latencies.pop_front();
        }
    }
}

impl Found {
    /// What all waits but one in a hundred, and but one, are not longer than; none where that was
    /// reported already: what lies back counts once.
    fn take_latency(&mut self) -> Option<Duration> {
        if !std::mem::take(&mut self.has_waited) {
            return None;
        }
        let mut latencies: Vec<Duration> = self.latencies.iter().copied().collect();
        latencies.sort_unstable_by(|a, b| b.cmp(a));
        latencies.get((latencies.len() / 100).max(1)).copied()
    }
}

/// Counts what passes the links of this node.
#[derive(Debug)]
pub struct LinkMeter {
    settings: RateSettings,
    uplink: Arc<Port>,
    downlink: Arc<Port>,
    interface: Option<String>,
    probes: Arc<Probes>,
    at: Instant,
    before: [Counters; 2],
    /// What repair may move by order of the coordinator.
    limit: RepairLimit,
    /// The coordinator to which rates were reported.
    epoch: Option<u32>,
}

/// One direction, since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    repair: u64,
    probes: u64,
    clients: u64,
    /// What repairs have received and not read: the interface has counted it.
    queued: u64,
    interface: Option<u64>,
}

impl LinkMeter {
    /// Counts from now on.
    pub fn new(settings: RateSettings, ports: LinkPorts) -> LinkMeter {
        let LinkPorts { uplink, downlink, .. } = ports;
        let table = |name: &str| fs::read_to_string(name).unwrap_or_default();
        let (routes, addresses) = (table("/proc/self/net/route"), table("/proc/self/net/if_inet6"));
        let address = settings.address.to_canonical();
        let interface = interface_of(address, &routes, &addresses);
        if interface.is_none() && !address.is_loopback() {
            warn!(
                "cannot find the interface of {address}: what other programs take of its links is \
                 not seen, and repair does not yield to them"
            );
        }
        let (probes, at) = (Arc::default(), Instant::now());
        let (before, limit, epoch) = Default::default();
        let mut meter =
            LinkMeter { settings, uplink, downlink, interface, probes, at, before, limit, epoch };
        meter.before = meter.counters();
        meter
    }

    /// Probes one peer after the other for as long as it is polled; what it finds is reported here.
    pub fn prober(
        &self,
        local_identity: LocalIdentity,
        peers: watch::Receiver<Vec<(NodeId, AgentAddress)>>,
    ) -> impl Future<Output = ()> + use<> {
        let RateSettings { has_uplink, has_downlink, .. } = self.settings;
        let local_identity = LocalIdentity { who: Who::Prober, ..local_identity };
        let is_declared = has_uplink && has_downlink;
        let (probes, downlink) = (self.probes.clone(), self.downlink.clone());
        Prober { local_identity, is_declared, probes, downlink }.probe(peers)
    }

    /// A session with the coordinator of this epoch began. To one that was started anew what peers
    /// have shown last is reported again.
    pub fn connected(&mut self, epoch: u32) {
        if self.epoch.replace(epoch).is_some_and(|before| before != epoch) {
            let mut found = self.probes.found();
            found.rates = found.shown.iter().copied().collect();
        }
    }

    /// Repair may move so much from now on. Where that is less than before, what was waited until
    /// now says nothing of the time after.
    fn limited(&mut self, limit: RepairLimit) {
        let before = std::mem::replace(&mut self.limit, limit);
        let falls = |before: Option<u64>, now: Option<u64>| {
            now.is_some_and(|now| before.is_none_or(|before| now < before))
        };
        if falls(before.up, limit.up) || falls(before.down, limit.down) {
            self.probes.found().latencies.clear();
        }
    }

    /// What has passed since it was last asked, while this agent repaired something or not.
    pub fn report(&mut self, repairs: bool) -> LinkReport {
        let now = Instant::now();
        let span = now - std::mem::replace(&mut self.at, now);
        let counters = self.counters();
        let before = std::mem::replace(&mut self.before, counters);
        let [sent, received] = moved(before, counters);
        let others = (sent.others + received.others) as f64 / span.as_secs_f64().max(1e-3);
        self.probes.taken.store(if repairs { u64::MAX } else { others as u64 }, Relaxed);
        let mut found = self.probes.found();
        let latency = found.take_latency();
        LinkReport {
            span: Span { ns: span.as_nanos() as u64 },
            sent,
            received,
            latency: latency.map(|latency| Span { ns: latency.as_nanos() as u64 }),
            probed: std::mem::take(&mut found.rates),
            reached: std::mem::take(&mut found.reached),
            unreached: std::mem::take(&mut found.unreached),
            has_uplink: self.settings.has_uplink,
            has_downlink: self.settings.has_downlink,
            limit: Default::default(),
            cap: self.uplink.repair_cap(),
            sent_to: self.uplink.sent().take(),
        }
    }

    fn counters(&self) -> [Counters; 2] {
        let table = || fs::read_to_string("/proc/self/net/dev").ok();
        let interface = self.interface.as_ref();
        let counted = interface.and_then(|name| interface_bytes(name, &table()?));
        let of = |port: &Port, interface: Option<u64>| {
            let Moved { repair, client, probe } = port.moved();
            let (repair, probes, clients) = (repair.get(), probe.get(), client.get());
            Counters { repair, probes, clients, queued: port.queued(), interface }
        };
        [
            of(&self.uplink, counted.map(|(sent, _)| sent)),
            of(&self.downlink, counted.map(|(_, received)| received)),
        ]
    }
}

impl AgentDriver {
    /// The coordinator lets repair move so much from now on.
    pub(super) fn limit_repair(&mut self, limit: RepairLimit) {
        self.meter.limited(limit);
        self.ports.uplink.limit_repair(limit.up);
        self.ports.downlink.limit_repair(limit.down);
    }

    /// By its configuration repair may move so much in each direction.
    pub(super) fn cap_repair(&self, cap: Option<u64>) {
        self.ports.uplink.cap_repair(cap);
        self.ports.downlink.cap_repair(cap);
    }
}

/// What has passed in each direction between two looks.
fn moved(before: [Counters; 2], after: [Counters; 2]) -> [message::Moved; 2] {
    let passed = |direction: usize| {
        let (before, after) = (before[direction], after[direction]);
        let interface = after.interface.zip(before.interface);
        let interface = interface.map(|(after, before)| after.saturating_sub(before));
        let interface = interface.map(|all| (all + before.queued).saturating_sub(after.queued));
        let repair = after.repair - before.repair;
        let bulk = repair + after.probes - before.probes;
        (repair, bulk, after.clients - before.clients, interface)
    };
    [0, 1].map(|direction| {
        let ((repair, bulk, clients, interface), (_, back, ..)) =
            (passed(direction), passed(1 - direction));
        let ours = bulk + bulk / HEADERS_DIVISOR + back / ACKS_DIVISOR;
        let others = interface.map_or(0, |all| all.saturating_sub(ours));
        message::Moved { repair, others: others.max(clients) }
    })
}

/// The interface of an address: the one that has it, by the kernel's table of IPv6 addresses, or
/// whose network has it, by its table of routes: that of the most particular one. None for
/// loopback, which carries the traffic of all processes.
fn interface_of(address: IpAddr, routes: &str, addresses: &str) -> Option<String> {
    if address.is_loopback() {
        return None;
    }
    let address = match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", u128::from(address));
            let fields = |line: &str| line.split_whitespace().map(str::to_string).collect();
            let mut lines = addresses.lines().map(fields);
            let line: Vec<String> = lines.find(|line: &Vec<_>| line.first() == Some(&digits))?;
            return line.get(5).cloned();
        }
    };
    // Numbers are in the order of the machine's bytes.
    let bits = u32::from_ne_bytes(address.octets());
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (network, mask) = (number(1)?, number(7)?);
        (bits & mask == network).then(|| (mask.count_ones(), fields[0].to_string()))
    };
    let routes = routes.lines().skip(1).filter_map(route);
    routes.max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

/// Bytes sent and received by an interface, by the kernel's table.
fn interface_bytes(name: &str, table: &str) -> Option<(u64, u64)> {
    let (_, fields) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(n, _)| n.trim() == name)?;
    let numbers: Vec<u64> = fields.split_whitespace().map_while(|f| f.parse().ok()).collect();
    Some((*numbers.get(8)?, *numbers.first()?))
}

/// The peers of a node in the order in which it probes them: from its next one on. So agents that
/// begin together share no links with each other's probes: each is asked by one of them at a time.
pub fn in_turn<T>(me: NodeId, mut peers: Vec<(NodeId, T)>) -> Vec<(NodeId, T)> {
    peers.sort_by_key(|(node, _)| (*node <= me, *node));
    peers
}

/// Asks peers, so as to see what links carry and how long others wait.
struct Prober {
    local_identity: LocalIdentity,
    /// Whether both of our own links have declared rates.
    is_declared: bool,
    probes: Arc<Probes>,
    downlink: Arc<Port>,
}

/// What a peer's link and ours have shown.
struct Shown {
    rate: u64,
    /// When it was this peer's turn before.
    before: Option<u64>,
}

/// What one peer is asked for in its turn.
#[derive(Clone, Copy)]
struct Turn {
    /// How often for a byte.
    times: usize,
    /// Whether for as much as the links carry, too.
    wants_rate: bool,
}

/// Whose turn it is: of those of an agent whose links are declared a part is for rates, and goes
/// around by itself, so that each peer has one of either kind.
#[derive(Debug, Default)]
struct Turns {
    usual: usize,
    of_rates: usize,
}

impl Turns {
    /// The place among so many peers, and whether it is asked for as much as links carry.
    fn next(&mut self, peers: usize, is_declared: bool) -> (usize, bool) {
        let number = self.usual + self.of_rates + 1;
        let is_of_rates = is_declared && number.is_multiple_of(DECLARED_TURNS);
        let turn = if is_of_rates { &mut self.of_rates } else { &mut self.usual };
        let place = *turn % peers;
        *turn += 1;
        (place, is_of_rates || !is_declared)
    }
}

/// How many turns are short.
#[derive(Debug)]
struct Quick {
    rates_left: usize,
    turns_left: usize,
    began: Instant,
}

impl Quick {
    fn begin() -> Quick {
        Quick { rates_left: QUICK_RATES, turns_left: QUICK_TURNS, began: Instant::now() }
    }

    /// Whether the next turn is a short one.
    fn takes_turn(&mut self) -> bool {
        let is_on = self.is_on();
        self.turns_left = self.turns_left.saturating_sub(1);
        is_on
    }

    fn is_on(&self) -> bool {
        self.rates_left > 0 && self.turns_left > 0
    }

    /// A peer has shown this, and that before.
    fn found(&mut self, rate: u64, before: Option<u64>) {
        self.rates_left = self.rates_left.saturating_sub(1);
        let is_other = before.is_some_and(|before| {
            rate > before.saturating_mul(OTHER_FACTOR) || rate.saturating_mul(OTHER_FACTOR) < before
        });
        if is_other && !self.is_on() && self.began.elapsed() >= QUICK_AGAIN {
            *self = Quick::begin();
        }
    }
}

impl Prober {
    async fn probe(self, mut peers: watch::Receiver<Vec<(NodeId, AgentAddress)>>) {
        let mut turns = Turns::default();
        let mut quick = Quick::begin();
        loop {
            let next = {
                let peers = peers.borrow_and_update();
                let turn = (!peers.is_empty()).then(|| turns.next(peers.len(), self.is_declared));
                turn.map(|(place, wants_rate)| (peers[place].clone(), wants_rate))
            };
            let Some(((node, agent), wants_rate)) = next else {
                if peers.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let is_quick = !self.is_declared && quick.takes_turn();
            let of_turn = Turn { times: if is_quick { 1 } else { ASKED_EACH }, wants_rate };
            match self.probe_one(node, &agent, of_turn).await {
                Ok(None) => {}
                Ok(Some(shown)) => quick.found(shown.rate, shown.before),
                Err(error) => {
                    if let Some(answers) = is_answer(&error) {
                        self.probes.tried(node, answers);
                    }
                    debug!("cannot probe {agent}: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// One peer's turn; gives what its link and ours carry, where it has shown that.
    async fn probe_one(
        &self,
        node: NodeId,
        agent: &AgentAddress,
        Turn { times, wants_rate }: Turn,
    ) -> Result<Option<Shown>, NetError> {
        let (unlimited, local_identity) = (Port::unlimited(), &self.local_identity);
        let (mut connection, _) =
            Connection::open(agent, local_identity, &unlimited, TIMEOUT).await?;
        connection.set_timeout(TIMEOUT);
        let one = Traffic { port: &unlimited, purpose: Purpose::Client };
        let bulk = Traffic { port: &self.downlink, purpose: Purpose::Probe };
        ask(&mut connection, 1, 0, one).await?;
        self.probes.tried(node, true);
        let rate = if wants_rate && self.probes.are_links_idle() {
            ask(&mut connection, BULK_BYTES, BULK_SKIPPED, bulk).await?
        } else {
            None
        };
        let shown = rate.map(|rate| Shown { rate, before: self.probes.showed(node, rate) });
        for _ in 0..times {
            tokio::time::sleep(ASK_EVERY).await;
            let asked = Instant::now();
            let answered = ask(&mut connection, 1, 0, one).await;
            // What does not come at all is waited for, too.
            if matches!(answered, Ok(_) | Err(NetError::Stalled { .. })) {
                self.probes.waited(asked.elapsed());
            }
            answered?;
        }
        Ok(shown)
    }
}

/// Whether the peer is there, and only does not do what was asked; `None` where it may be the fault
/// of either that they do not trust each other.
fn is_answer(error: &NetError) -> Option<bool> {
    match error {
        NetError::Tls(_) => None,
        NetError::Denied(_)
        | NetError::Slow { .. }
        | NetError::Decode(_)
        | NetError::Damaged
        | NetError::Unexpected(_) => Some(true),
        // No agent answers there, or another one.
        NetError::Io(_)
        | NetError::Closed
        | NetError::Stalled { .. }
        | NetError::Cluster(_)
        | NetError::Other { .. }
        | NetError::OtherNode { .. } => Some(false),
    }
}

/// Has a peer send so many bytes; gives how many came per second after those that are skipped,
/// where any did. A process that waits for the processor meanwhile finds the rest in memory: so no
/// more counts than twice what came per second from the first byte on.
async fn ask(
    connection: &mut Connection,
    bytes: u32,
    skipped: usize,
    traffic: Traffic<'_>,
) -> Result<Option<u64>, NetError> {
    let asked = Instant::now();
    connection.write_frame(Frame::Probe { bytes }).await?;
    let (mut came, mut began) = (0, None);
    let mut nowhere = Vec::new();
    while came < bytes as usize {
        let frame = connection.read_frame_within(TIMEOUT, "answering a probe").await?;
        let payload = match frame {
            Frame::ReadData(payload) if payload.bytes > 0 => payload,
            Frame::Error(denial) => return Err(NetError::Denied(denial)),
            frame => return Err(NetError::Unexpected(frame)),
        };
        nowhere.resize(payload.bytes as usize, 0);
        connection.read_payload(&mut nowhere, traffic).await?;
        came += nowhere.len();
        if came >= skipped && began.is_none() {
            began = Some((came, Instant::now()));
        }
    }
    connection.end_turn(traffic);
    let timed = began.filter(|(from, _)| came > *from);
    Ok(timed.map(|(from, began)| {
        let rate =
            |bytes: usize, since: Instant| bytes as f64 / since.elapsed().as_secs_f64().max(1e-6);
        rate(came - from, began).min(2.0 * rate(came, asked)) as u64
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
        eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\n\
        eth1\t0000FD0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";

    const ADDRESSES: &str = "00000000000000000000000000000001 01 80 10 80       lo\n\
        fd000000000000000000000000000007 03 40 00 80     eth1\n\
        fe800000000000000000000000000001 02 40 20 80     eth0\n";

    #[test]
    fn the_interface_of_an_address_is_that_of_its_most_particular_network() {
        let find = |address: &str| interface_of(address.parse().unwrap(), ROUTES, ADDRESSES);
        if cfg!(target_endian = "little") {
            assert_eq!(find("10.253.0.7").as_deref(), Some("eth1"));
            assert_eq!(find("192.0.2.1").as_deref(), Some("eth0"));
        }
        assert_eq!(find("127.0.0.1"), None, "it is everybody's");
        assert_eq!(find("::1"), None);
        assert_eq!(interface_of("10.253.0.7".parse().unwrap(), "", ""), None);
    }

    #[test]
    fn the_interface_of_an_ipv6_address_is_the_one_that_has_it() {
        let find = |address: &str| interface_of(address.parse().unwrap(), ROUTES, ADDRESSES);
        assert_eq!(find("fd00::7").as_deref(), Some("eth1"));
        assert_eq!(find("fe80::1").as_deref(), Some("eth0"));
        assert_eq!(find("fd00::8"), None, "no interface has it");
        assert_eq!(find("::1"), None, "it is everybody's");
    }

    #[test]
    fn of_agents_that_begin_together_no_two_probe_the_same_peer() {
        let order = |me: u32| {
            let others = (0..5).rev().filter(|node| *node != me).map(|node| (NodeId(node), ()));
            in_turn(NodeId(me), others.collect()).into_iter().map(|(node, ())| node.0).collect()
        };
        let orders: Vec<Vec<u32>> = (0..5).map(order).collect();
        assert_eq!(orders[3], [4, 0, 1, 2]);
        for turn in 0..4 {
            let mut asked: Vec<u32> = orders.iter().map(|order| order[turn]).collect();
            asked.sort_unstable();
            assert_eq!(asked, [0, 1, 2, 3, 4], "turn {turn}");
        }
    }

    #[test]
    fn an_interface_has_sent_and_received_what_its_line_says() {
        let table = "Inter-| Receive\n face |bytes packets\n  eth1: 700 1 0 0 0 0 0 0 900 2 0\n";
        assert_eq!(interface_bytes("eth1", table), Some((900, 700)));
        assert_eq!(interface_bytes("eth", table), None);
    }

    #[test]
    fn what_repairs_add_by_headers_and_acknowledgements_is_not_taken_for_others() {
        let zero = Counters::default();
        let counters = |repair, clients, interface| Counters { repair, clients, interface, ..zero };
        let before = [counters(0, 0, Some(0)), counters(0, 0, Some(0))];
        // 16 MB sent for repairs, with 4.6 % of headers; acknowledgements came.
        let (mb, part) = (1_000_000, 0.0456);
        let sent = counters(16 * mb, 0, Some(16 * mb + (16.0 * part * 1e6) as u64));
        let received = counters(0, 0, Some(16 * mb / 44));
        let [sent, received] = moved(before, [sent, received]);
        assert_eq!((sent.repair, sent.others, received.others), (16 * mb, 0, 0));
        // Probes are neither.
        let probed = Counters { probes: mb, ..counters(0, 0, Some(mb + mb / 20)) };
        let [sent, received] = moved(before, [probed, counters(0, 0, Some(mb / 44))]);
        assert_eq!((sent.repair, sent.others, received.others), (0, 0, 0));
        // What has come and waits for a turn was sent by repairs, and is read later.
        let comes = Counters { queued: 2 * mb, ..counters(mb, 0, Some(3 * mb)) };
        let [_, received] = moved(before, [before[0], comes]);
        assert_eq!((received.repair, received.others), (mb, 0));
        let [_, received] = moved([comes; 2], [comes, counters(3 * mb, 0, Some(3 * mb))]);
        assert_eq!((received.repair, received.others), (2 * mb, 0));
        let busy = counters(0, 3 * mb, Some(5 * mb));
        assert_eq!(moved(before, [busy, busy])[0].others, 5 * mb);
        let shared = counters(0, 3 * mb, None);
        assert_eq!(moved(Default::default(), [shared, shared])[1].others, 3 * mb);
    }

    #[test]
    fn one_wait_in_a_hundred_may_be_longer_than_what_is_reported_and_each_counts_once() {
        let probes = Probes::default();
        let report = || probes.found().take_latency().map(|latency| latency.as_millis());
        let wait = |ms: u64| probes.waited(Duration::from_millis(ms));
        assert_eq!(report(), None);
        wait(900);
        assert_eq!(report(), None, "one alone may be longer");
        wait(1);
        assert_eq!(report(), Some(1));
        assert_eq!(report(), None, "nothing is new");
        wait(800);
        assert_eq!(report(), Some(800), "two are too many");
        (0..97).for_each(|_| wait(2));
        assert_eq!(report(), Some(800));
        wait(2);
        assert_eq!(report(), Some(2), "of the last hundred one is longer");
        probes.found().latencies.clear();
        wait(2);
        assert_eq!(report(), None);
    }

    #[test]
    fn each_peer_of_an_agent_with_declared_links_is_asked_for_a_rate_as_often() {
        for peers in [1, 5, 12, 13, 15, 24] {
            let (mut turns, mut asked) = (Turns::default(), vec![(0, 0); peers]);
            for _ in 0..DECLARED_TURNS * peers {
                let (place, wants_rate) = turns.next(peers, true);
                asked[place].0 += usize::from(wants_rate);
                asked[place].1 += usize::from(!wants_rate);
            }
            assert!(asked.iter().all(|(rates, others)| *rates == 1 && *others > 0), "{asked:?}");
        }
        assert_eq!(Turns { usual: 7, of_rates: 0 }.next(4, false), (3, true));
    }

    #[test]
    fn links_are_at_rest_where_little_passes_of_what_they_have_shown() {
        let probes = Probes::default();
        let takes = |taken: u64| {
            probes.taken.store(taken, Relaxed);
            probes.are_links_idle()
        };
        assert!(takes(u64::MAX - 1), "any knowledge is better than none");
        assert!(!takes(u64::MAX), "it repairs");
        assert_eq!(probes.showed(NodeId(1), 1_000_000_000), None);
        assert!(takes(100_000_000) && !takes(125_000_000));
        assert_eq!(probes.showed(NodeId(1), 1_000_000), Some(1_000_000_000));
        assert!(takes(IDLE_RATE - 1) && !takes(IDLE_RATE), "a slow link");
    }

    #[test]
    fn a_new_coordinator_learns_what_peers_have_shown_before_it() {
        let port = || Arc::new(Port::unlimited());
        let ports = LinkPorts { uplink: port(), downlink: port(), dscp: None };
        let mut meter = LinkMeter::new(RateSettings::default(), ports);
        meter.connected(1);
        for node in 0..100 {
            meter.probes.showed(NodeId(node), 1_000);
        }
        assert_eq!(meter.report(false).probed.len(), 100);
        meter.connected(1);
        assert_eq!(meter.report(false).probed, [], "it knows");
        meter.connected(2);
        assert_eq!(meter.report(false).probed.len(), PROBED_MAX);
    }

    #[test]
    fn turns_are_short_until_enough_is_known_and_again_where_a_peer_shows_something_else() {
        let short = |quick: &mut Quick| (0..100).filter(|_| quick.takes_turn()).count();
        let mut silent = Quick::begin();
        assert_eq!(short(&mut silent), QUICK_TURNS, "nobody answers");
        let mut quick = Quick::begin();
        (0..QUICK_RATES).for_each(|_| quick.found(1000, None));
        assert_eq!(short(&mut quick), 0);
        quick.found(100, Some(1000));
        assert_eq!(short(&mut quick), 0, "it began a moment ago");
        for ended in [&mut quick, &mut silent] {
            ended.began = Instant::now().checked_sub(QUICK_AGAIN).expect("the machine is up");
            ended.found(1500, Some(1000));
            assert_eq!(short(ended), 0, "that is no other rate");
            ended.found(400, Some(1000));
            assert_eq!(short(ended), QUICK_TURNS);
        }
    }
}
