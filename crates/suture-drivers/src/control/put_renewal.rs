//! Puts that outlive the certificate with which they began.
//!
//! Place: put begun -> [the client proves its identity anew] -> stripes placed -> object visible.
//! A certificate is shown once for each connection, when it is made, and a put lives as long as its
//! stream. So a client with a put under way and a new certificate announces that on a new
//! connection, by the number of the put, and the put is accepted by that one from then on. It has
//! to be the same principal: a stolen former certificate renews no put.
//!
//! Invariant: a put is accepted by a certificate that its own principal has shown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::Status;

use super::access::Caller;

/// The callers of the puts that are under way.
#[derive(Debug, Default)]
pub struct PutCallers(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// By the number of the put.
    callers: BTreeMap<u64, Caller>,
    last: u64,
}

/// One put, until it is dropped.
#[derive(Debug)]
pub struct RenewablePut {
    /// What it is called; from 1 on.
    pub number: u64,
    puts: Arc<PutCallers>,
}

impl PutCallers {
    /// A put of that caller begins.
    pub fn enter(self: &Arc<PutCallers>, caller: Caller) -> RenewablePut {
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        open.callers.insert(number, caller);
        RenewablePut { number, puts: self.clone() }
    }

    /// A put is accepted by the certificate of this caller from now on.
    ///
    /// # Errors
    /// That the caller has no such put.
    pub fn renew(&self, number: u64, by: &Caller) -> Result<(), Status> {
        let mut open = self.lock();
        match open.callers.get_mut(&number) {
            Some(caller) if caller.principal == by.principal => {
                *caller = by.clone();
                Ok(())
            }
            _ => Err(Status::not_found(format!("no put {number} of yours is under way"))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RenewablePut {
    /// Whether the client of the put is still accepted.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_still(&self) -> Result<(), Status> {
        self.puts.lock().callers[&self.number].check_still()
    }
}

impl Drop for RenewablePut {
    fn drop(&mut self) {
        self.puts.lock().callers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{AccessRole, Principal};

    fn caller(role: AccessRole, name: &str) -> Caller {
        let mut caller = Caller::unproven("127.0.0.1:7".parse().unwrap());
        caller.principal = Some(Principal::new(role, name).unwrap());
        caller
    }

    #[test]
    fn a_put_is_renewed_by_whoever_puts_and_nobody_else() {
        let puts = Arc::<PutCallers>::default();
        let us = || caller(AccessRole::Client, "us");
        let put = puts.enter(us());
        let mut wider = us();
        wider.principal.as_mut().unwrap().prefix = "u".into();
        let admin = caller(AccessRole::Admin, "us");
        for other in [caller(AccessRole::Client, "them"), admin, wider] {
            let refused = puts.renew(put.number, &other).unwrap_err();
            assert!(refused.message().contains("of yours"), "{refused}");
        }
        let port = us().from.port() + 1;
        let mut again = us();
        again.from.set_port(port);
        puts.renew(put.number, &again).unwrap();
        assert_eq!(puts.lock().callers[&put.number].from.port(), port);
        put.check_still().unwrap();
        let number = put.number;
        drop(put);
        assert!(puts.renew(number, &us()).is_err(), "it has ended");
        assert_ne!(puts.enter(us()).number, number, "numbers are given once");
    }
}
