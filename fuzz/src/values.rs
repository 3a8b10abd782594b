//! Values of the command line: whatever parses is within its bounds, and what is printed of it
//! parses to the same.
//!
//! Place: arguments, before anything else. Every parser of ours is asked about the same text; those
//! that are one call of the standard library's are not here.

use std::str::FromStr;

use suture_drivers::address::parse_address;
use suture_edge::units::{
    format_exact_size, format_long, format_size, parse_nonzero_size, parse_rate, parse_size,
    parse_time,
};
use suture_repair::policy::Policy;
use suture_sim::workload::Workload;

#[allow(dead_code, reason = "of the command, only what it parses")]
#[path = "../../crates/suture/src/cmd/simulate/foreground.rs"]
mod foreground;
#[allow(dead_code, reason = "of the command, only what it parses")]
#[path = "../../crates/suture-lab/src/input/generated.rs"]
mod generated;
#[allow(dead_code, reason = "of the command, only what it parses")]
#[path = "../../crates/suture/src/cmd/simulate/straggler.rs"]
mod straggler;

use foreground::ForegroundArg;
use generated::Bandwidth;
use straggler::StragglerArg;

/// Inputs to begin with.
pub fn valid() -> Vec<Vec<u8>> {
    let texts = [
        "64MiB",
        "1.5KiB",
        "18446744073709551615",
        "15.999999999EiB",
        "0.000000001GB",
        "200Mbit",
        "25MB/s",
        "1.25Tbit",
        "30s",
        "90min",
        "0.001y",
        "500ms",
        "127.0.0.1",
        "[2001:db8::1]:7",
        "storage-1.example:80",
        "::1",
        "suture",
        "chain/car/phases:7:by-risk",
        "star/greedy/slots:3",
        "mix/flow/window:2",
        "ycsb-a",
        "ycsb-a:4",
        "uniform:80Mbit..1Gbit:same",
        "uniform:100Mbit..1Gbit",
        "n3:0.1:5..60",
        "n3:0",
        "n3:1:7",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Gives whether any parser accepts the text.
///
/// # Panics
/// When what is accepted is out of bounds, is printed as something else, or a refusal says nothing.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let results = [
        refused(parse_size(text).map(check_size)),
        refused(parse_nonzero_size(text).map(|size| assert!(size > 0))),
        refused(parse_rate(text).map(check_rate)),
        refused(parse_time(text).map(check_time)),
        refused(parse_address(text).map(|address| {
            assert_eq!(parse_address(&address).as_ref(), Ok(&address), "{text:?}");
        })),
        refused(text.parse().map(check_policy)),
        refused(text.parse().map(|workload: Workload| {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        })),
        refused(ForegroundArg::from_str(text).map(|arg| assert!(arg.clients > 0))),
        refused(Bandwidth::from_str(text).map(check_bandwidth)),
        refused(StragglerArg::from_str(text).map(drop)),
    ];
    results.contains(&true)
}

/// Whether it is accepted; every refusal says why.
fn refused<E: std::fmt::Display>(result: Result<(), E>) -> bool {
    result.map_err(|why| assert!(!why.to_string().is_empty())).is_ok()
}

fn check_size(size: u64) {
    assert_eq!(parse_size(&format_exact_size(size)), Ok(size));
    assert!(!format_size(size).is_empty());
}

fn check_rate(rate: f64) {
    assert!(rate.is_finite() && rate > 0.0, "{rate}");
}

fn check_time(seconds: f64) {
    assert!(seconds.is_finite() && seconds > 0.0, "{seconds}");
    assert!(!format_long(seconds).is_empty());
}

fn check_policy(policy: Policy) {
    assert_eq!(policy.to_string().parse(), Ok(policy));
    assert_eq!(format!("{policy:#}").parse(), Ok(policy));
    let faults = [policy.plannable().err(), policy.runnable().err()];
    assert!(faults.iter().flatten().all(|fault| !fault.to_string().is_empty()));
}

fn check_bandwidth(bandwidth: Bandwidth) {
    match bandwidth {
        Bandwidth::Equal(rate) => check_rate(rate),
        Bandwidth::Uniform(low, high) | Bandwidth::UniformSame(low, high) => {
            assert!(low <= high, "{bandwidth:?}");
            check_rate(low);
            check_rate(high);
        }
    }
}
