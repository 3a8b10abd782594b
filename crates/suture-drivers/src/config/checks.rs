//! What values of a configuration can be, and what is said of one that cannot.
//!
//! Place: the first step of a daemon's start.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use suture_edge::error::{is_hidden, quoted};
use suture_edge::units::{format_exact_duration, format_exact_link_rate, format_size};

use super::{CORES_MAX, CORES_MIN, EVERY_MIN, MEMORY_MIN, NAME_BYTES_MAX, RATE_MAX, RATE_MIN};

/// Whether a name can be that of a node or a rack.
///
/// # Errors
/// What names are like.
pub fn check_name(of: &str, name: &str) -> Result<(), String> {
    let is_plain = name.chars().all(|c| !c.is_whitespace() && !c.is_control() && !is_hidden(c));
    if is_plain && (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(format!(
        "{} is not a valid {of} name: 1 to {NAME_BYTES_MAX} bytes without spaces",
        quoted(name)
    ))
}

/// No shell reads a configuration: what it would replace would become a folder of that name.
pub(super) fn check_path(key: &str, path: &Path) -> Result<(), String> {
    let text = path.to_string_lossy();
    if text.contains('\0') {
        return Err(format!("{key}: {} cannot be a path: it has a zero byte", quoted(&text)));
    }
    if text.is_empty() || text.starts_with('~') || text.contains('$') {
        Err(format!(
            "{key}: {} is taken as it stands: write the whole path, like /var/lib/suture",
            quoted(&text)
        ))
    } else {
        Ok(())
    }
}

pub(super) fn check_timer(
    key: &str,
    value: Duration,
    allowed: RangeInclusive<Duration>,
) -> Result<(), String> {
    if allowed.contains(&value) {
        Ok(())
    } else {
        let (min, max) = allowed.into_inner();
        let [min, max, value] = [min, max, value].map(format_exact_duration);
        Err(format!("timers: {key} must be {min} to {max}, not {value}"))
    }
}

pub(super) fn check_every(key: &str, value: Option<Duration>) -> Result<(), String> {
    let Some(value) = value.filter(|value| *value < EVERY_MIN) else { return Ok(()) };
    let [least, value] = [EVERY_MIN, value].map(format_exact_duration);
    Err(format!("{key} must be {least} or more, not {value}"))
}

/// Refuses what is no rate of a link, in bytes per second, that `key` has.
///
/// # Errors
/// What it may be.
pub fn check_rate(key: &str, rate: f64) -> Result<(), String> {
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        return Ok(());
    }
    let [rate, least, most] = [rate, RATE_MIN, RATE_MAX].map(format_exact_link_rate);
    Err(format!("{key}: {rate} is not a link's rate: {least} to {most}"))
}

/// Refuses what is no number of cores for an agent, that `key` has.
///
/// # Errors
/// What it may be.
pub fn check_cores(key: &str, cores: f64) -> Result<(), String> {
    if (CORES_MIN..=CORES_MAX).contains(&cores) {
        return Ok(());
    }
    Err(format!("{key}: {cores} is not from {CORES_MIN} to {CORES_MAX}"))
}

/// Refuses less memory than an agent needs and more than the machine has, that `key` has.
///
/// # Errors
/// What it may be.
pub fn check_memory(key: &str, memory: u64) -> Result<(), String> {
    let machine = rustix::system::sysinfo();
    let total = machine.totalram as u64 * u64::from(machine.mem_unit);
    match memory {
        memory if memory < MEMORY_MIN => {
            Err(format!("{key}: an agent needs at least {}", format_size(MEMORY_MIN)))
        }
        memory if memory > total => Err(format!(
            "{key}: this machine has {}, not {}",
            format_size(total),
            format_size(memory)
        )),
        _ => Ok(()),
    }
}
