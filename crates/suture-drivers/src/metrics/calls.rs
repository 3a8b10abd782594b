//! Numbers of what is asked of a coordinator: what of it is refused, and what puts take of its
//! memory.
//!
//! Place: around all of failure -> ... -> stripe healthy, where clients, operators and agents ask.
//! Calls that fail for what they are about, such as an object that is not there, are no refusals.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::{Labels, Level, OfDaemon, begin};

/// Why a connection or a call was refused, whatever it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// A connection whose other end did not prove its identity.
    Unproven,
    /// A call on a connection that is one too many.
    Connections,
    /// A call of a principal whose certificate is not valid any more.
    Certificate,
    /// A call that the caller's role or prefix does not permit.
    Permission,
    /// A change refused because too many changes of its caller failed just now.
    Failures,
    /// A change that could not be written down before it was made.
    Audit,
    /// A put, or more stripes of one, for which there is no memory.
    PutMemory,
}

impl RefusalReason {
    /// Each of them, so that each has a series before the first refusal: a rate needs one.
    const ALL: [RefusalReason; 7] = [
        RefusalReason::Unproven,
        RefusalReason::Connections,
        RefusalReason::Certificate,
        RefusalReason::Permission,
        RefusalReason::Failures,
        RefusalReason::Audit,
        RefusalReason::PutMemory,
    ];

    /// The value of the label.
    fn word(self) -> &'static str {
        match self {
            RefusalReason::Unproven => "unproven",
            RefusalReason::Connections => "connections",
            RefusalReason::Certificate => "certificate",
            RefusalReason::Permission => "permission",
            RefusalReason::Failures => "failures",
            RefusalReason::Audit => "audit",
            RefusalReason::PutMemory => "put_memory",
        }
    }
}

/// The memory of a coordinator that is for puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutMemory {
    /// What all puts may take together, in bytes.
    pub limit_bytes: u64,
    /// What those that are under way take, in bytes.
    pub reserved_bytes: u64,
}

/// The numbers of calls.
#[derive(Debug)]
pub(super) struct CallNumbers {
    refusals: Family<Labels, Counter>,
    put_limit: Level,
    put_reserved: Level,
}

impl CallNumbers {
    pub(super) fn new(of: &mut OfDaemon) -> CallNumbers {
        let refusals =
            of.new_one("suture_refusals", "Connections and calls that were refused, by reason");
        begin(&refusals, "reason", &RefusalReason::ALL.map(RefusalReason::word));
        CallNumbers {
            refusals,
            put_limit: of.new_one(
                "suture_put_memory_limit_bytes",
                "Memory that puts which have not ended may take; of it each caller has half",
            ),
            put_reserved: of.new_one(
                "suture_put_memory_reserved_bytes",
                "Memory that puts which have not ended take",
            ),
        }
    }

    /// Counts that something was refused.
    pub(super) fn refused(&self, why: RefusalReason) {
        self.refusals.get_or_create(&vec![("reason", why.word().into())]).inc();
    }

    /// What puts take now.
    pub(super) fn set(&self, puts: PutMemory) {
        self.put_limit.set(puts.limit_bytes as f64);
        self.put_reserved.set(puts.reserved_bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_series_of_its_own_from_the_beginning() {
        let mut of = OfDaemon::new("coordinator");
        let numbers = CallNumbers::new(&mut of);
        let text = |of: &OfDaemon| String::from_utf8(of.write().classic.to_vec()).unwrap();
        let series = |text: &str| {
            let lines = text.lines().filter(|line| line.starts_with("suture_refusals_total{"));
            lines.map(str::to_owned).collect::<Vec<String>>()
        };
        let before = series(&text(&of));
        assert_eq!(before.len(), RefusalReason::ALL.len(), "{before:?}");
        assert!(before.iter().all(|line| line.ends_with("} 0")), "{before:?}");
        for reason in RefusalReason::ALL {
            numbers.refused(reason);
        }
        let after = series(&text(&of));
        assert_eq!(after.len(), before.len());
        assert!(after.iter().all(|line| line.ends_with("} 1")), "{after:?}");
        numbers.set(PutMemory { limit_bytes: 9, reserved_bytes: 7 });
        let text = text(&of);
        for line in ["suture_put_memory_limit_bytes 9.0", "suture_put_memory_reserved_bytes 7.0"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
