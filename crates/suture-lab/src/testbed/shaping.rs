//! What links carry: a token bucket at each end of each link.
//!
//! Place: between the testbed's network and what moves over it.
//! A class of htb under a queue that is counted in bytes. htb, because a change of its rate leaves
//! the tokens as they are, where tbf gives a full bucket with each change. The bucket holds 256
//! KiB: the kernel hands whole segments of 64 KiB on, and a bucket of little more makes it cut each
//! of them, so that the machine would be what is measured. Stored data comes and goes without
//! limits; only the repair itself meets them.
//!
//! Where marks are distinguished, a link has two classes: what repair has marked is sent when
//! nothing else waits, and otherwise has a hundredth of the link, so that no connection breaks.

use anyhow::{Context, Result};

use super::network::{Network, ShapedDevice};
use super::tools::{self, Feed};

/// What a link may send at once.
pub const BURST_BYTES: u64 = 256 << 10;

/// How long a full queue takes to be sent, where that is more than `QUEUE_BYTES_MIN`.
const QUEUE_SECONDS: f64 = 0.05;

/// Queues are no shorter: a few whole segments.
const QUEUE_BYTES_MIN: u64 = 256 << 10;

/// What a class may send in its turn.
const QUANTUM_BYTES: u32 = 60_000;

/// What repair marks its packets with, by its name in agent.toml, and as the octet of IP's header.
pub const MARK: &str = "cs1";
const MARK_OCTET: &str = "0x20 0xfc";

/// What marked packets have of a link at least.
const MARKED_PART: f64 = 0.01;

/// The classes of a link: the whole of it, what is not marked and what is.
const WHOLE: &str = "1:1";
const UNMARKED: &str = "1:10";
const MARKED: &str = "1:20";

/// Payload of a full segment over what it takes on a link: 1500 bytes at most in a packet, of which
/// 20 are IP's and 32 TCP's with its time stamp, and 14 of Ethernet before it. What agents frame
/// and what the other direction acknowledges is not in it.
pub const GOODPUT: f64 = 1448.0 / 1514.0;

/// Gives all links their rates.
///
/// # Errors
/// When the kernel refuses one.
pub fn limit(network: &Network) -> Result<()> {
    for (namespace, devices) in by_namespace(&network.devices) {
        let lines = devices.iter().map(|device| limit_lines(device, network.has_classes));
        let lines: String = lines.collect();
        tools::batch("tc", namespace, &lines).context("cannot limit a link")?;
    }
    Ok(())
}

/// Takes the limits away.
///
/// # Errors
/// When the kernel refuses that.
pub fn release(network: &Network) -> Result<()> {
    for (namespace, devices) in by_namespace(&network.devices) {
        let lines = devices.iter().map(|device| format!("qdisc del dev {} root\n", device.device));
        tools::batch("tc", namespace, &lines.collect::<String>())
            .context("cannot take the limit of a link away")?;
    }
    Ok(())
}

/// Feeds to all namespaces that have limits, for changes at any time.
pub struct Feeds {
    all: Vec<(String, Feed)>,
    has_classes: bool,
}

impl Feeds {
    /// One for each namespace.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn open(network: &Network) -> Result<Feeds> {
        let open = |(namespace, _): (&str, _)| Ok((namespace.to_string(), Feed::open(namespace)?));
        let all = by_namespace(&network.devices).into_iter().map(open).collect::<Result<_>>()?;
        Ok(Feeds { all, has_classes: network.has_classes })
    }

    /// Changes the rate of some devices, at once.
    ///
    /// # Errors
    /// When the kernel has refused an earlier change.
    pub fn change(&mut self, changes: &[(&ShapedDevice, f64)]) -> Result<()> {
        let has_classes = self.has_classes;
        self.send(changes, |device, rate| class_lines("change", &device.device, *rate, has_classes))
    }

    /// Has some devices drop all that comes, or carry it again, at once, whatever their rates.
    ///
    /// # Errors
    /// When the kernel has refused an earlier change.
    pub fn cut_off(&mut self, changes: &[(&ShapedDevice, bool)]) -> Result<()> {
        let has_classes = self.has_classes;
        self.send(changes, |device, is_cut_off| {
            let limit = if *is_cut_off { 0 } else { queue_bytes(device) };
            queue_lines("change", device, limit, has_classes)
        })
    }

    fn send<T>(
        &mut self,
        changes: &[(&ShapedDevice, T)],
        line: impl Fn(&ShapedDevice, &T) -> String,
    ) -> Result<()> {
        for (namespace, feed) in &mut self.all {
            let ours = changes.iter().filter(|(device, _)| device.namespace == *namespace);
            let lines: String = ours.map(|(device, change)| line(device, change)).collect();
            if !lines.is_empty() {
                feed.send(&lines)?;
            }
        }
        Ok(())
    }
}

/// The devices of each namespace, in the order in which they come.
fn by_namespace(devices: &[ShapedDevice]) -> Vec<(&str, Vec<&ShapedDevice>)> {
    let mut groups: Vec<(&str, Vec<&ShapedDevice>)> = Vec::new();
    for device in devices {
        match groups.iter_mut().find(|(namespace, _)| *namespace == device.namespace) {
            Some((_, group)) => group.push(device),
            None => groups.push((&device.namespace, vec![device])),
        }
    }
    groups
}

fn limit_lines(device: &ShapedDevice, has_classes: bool) -> String {
    let name = &device.device;
    let default = minor(if has_classes { UNMARKED } else { WHOLE });
    let mut lines = format!("qdisc replace dev {name} root handle 1: htb default {default}\n");
    lines += &class_lines("replace", name, device.rate, has_classes);
    lines += &queue_lines("replace", device, queue_bytes(device), has_classes);
    if has_classes {
        lines += &format!(
            "filter add dev {name} parent 1: protocol ip prio 1 u32 match ip tos {MARK_OCTET} \
             flowid {MARKED}\n"
        );
    }
    lines
}

/// The number of a class within its qdisc.
fn minor(class: &str) -> &str {
    class.split_once(':').map_or(class, |(_, minor)| minor)
}

fn queue_bytes(device: &ShapedDevice) -> u64 {
    ((device.rate * QUEUE_SECONDS) as u64).max(QUEUE_BYTES_MIN)
}

/// The queues of the classes that send.
fn queue_lines(action: &str, device: &ShapedDevice, limit: u64, has_classes: bool) -> String {
    let name = &device.device;
    let classes: &[&str] = if has_classes { &[UNMARKED, MARKED] } else { &[WHOLE] };
    let line = |(index, class): (usize, &&str)| {
        let handle = index + 2;
        format!("qdisc {action} dev {name} parent {class} handle {handle}: bfifo limit {limit}\n")
    };
    classes.iter().enumerate().map(line).collect()
}

fn class_lines(action: &str, device: &str, rate: f64, has_classes: bool) -> String {
    let most = (rate * 8.0).round();
    let line = |parent: &str, class: &str, part: f64, more: &str| {
        let bits = (most * part).round();
        format!(
            "class {action} dev {device} parent {parent} classid {class} htb rate {bits}bit ceil \
             {most}bit burst {BURST_BYTES} cburst {BURST_BYTES} quantum {QUANTUM_BYTES}{more}\n"
        )
    };
    let whole = line("1:", WHOLE, 1.0, "");
    if !has_classes {
        return whole;
    }
    let unmarked = line(WHOLE, UNMARKED, 1.0 - MARKED_PART, " prio 0");
    whole + &unmarked + &line(WHOLE, MARKED, MARKED_PART, " prio 1")
}

#[cfg(test)]
mod tests {
    use super::super::network::PortName;
    use super::*;

    fn device(namespace: &str, device: &str) -> ShapedDevice {
        ShapedDevice {
            port: PortName::NodeUp(0),
            namespace: namespace.into(),
            device: device.into(),
            rate: 6.25e6,
        }
    }

    #[test]
    fn a_link_is_a_bucket_over_a_queue_in_bytes() {
        let lines = limit_lines(&device("a", "eth0"), false);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("rate 50000000bit") && lines[1].contains("burst 262144"));
        assert!(lines[2].ends_with("bfifo limit 312500"), "{}", lines[2]);
    }

    #[test]
    fn what_is_marked_waits_for_all_else() {
        let lines = limit_lines(&device("a", "eth0"), true);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(lines[0].ends_with("htb default 10"), "{}", lines[0]);
        let is = |line: &str, words: &[&str]| words.iter().all(|word| line.contains(word));
        assert!(is(lines[1], &["classid 1:1 ", "rate 50000000bit ceil 50000000bit"]));
        assert!(is(lines[2], &["classid 1:10 ", "rate 49500000bit ceil 50000000bit", "prio 0"]));
        assert!(is(lines[3], &["classid 1:20 ", "rate 500000bit ceil 50000000bit", "prio 1"]));
        assert!(is(lines[4], &["parent 1:10 handle 2:"]) && is(lines[5], &["1:20 handle 3:"]));
        assert!(is(lines[6], &["match ip tos 0x20 0xfc", "flowid 1:20"]), "{}", lines[6]);
    }

    #[test]
    fn a_namespace_is_one_process() {
        let devices = [device("core", "x"), device("a", "eth0"), device("core", "y")];
        let groups = by_namespace(&devices);
        let sizes: Vec<usize> = groups.iter().map(|(_, devices)| devices.len()).collect();
        assert_eq!(sizes, [2, 1]);
    }
}
