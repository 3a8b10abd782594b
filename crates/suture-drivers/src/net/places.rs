//! Places: how many connections or operations there may be at a time, in all and of one address.
//!
//! Place: before anything of a connection is accepted.
//! Any process on the network reaches a listener, and may connect and then send nothing. So what
//! can be held is counted, and no holder can have all of it: an address has at most its share, and
//! of those that have not identified themselves only the newest stay. Honest ones do so at once, so
//! the oldest is never one of them.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The holder of a place: a proven principal, whatever its address, or else an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// By what its certificate says.
    Principal(String),
    /// By where it is.
    Address(IpAddr),
}

impl From<IpAddr> for Holder {
    fn from(address: IpAddr) -> Holder {
        Holder::Address(group(address))
    }
}

/// Places for all, and at most so many of them for each holder.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    each: usize,
    /// When no more than so many are left, they are for holders that have few.
    last: usize,
    few: usize,
    /// The holders that have a place or wait for one.
    of: Mutex<HashMap<Holder, Arc<Semaphore>>>,
}

/// Such a part of all places is for holders that have few: a handful of greedy ones cannot have
/// all.
const LAST_DIVISOR: usize = 4;

/// Few is less than such a part of what each may have.
const FEW_DIVISOR: usize = 16;

/// One place; dropping it gives it back.
#[derive(Debug)]
pub struct HeldPlace {
    _of_holder: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    /// `all` places, `each` of them at most for one holder.
    pub fn new(all: usize, each: usize) -> Places {
        let (last, few) = (all / LAST_DIVISOR, (each / FEW_DIVISOR).max(1));
        Places { all: Arc::new(Semaphore::new(all)), each, last, few, of: Mutex::default() }
    }

    /// A place, if the holder may have one more and there is one for it.
    pub fn try_take(&self, holder: impl Into<Holder>) -> Option<HeldPlace> {
        let of_holder = self.of(holder.into());
        let has_few = self.each - of_holder.available_permits() < self.few;
        if self.all.available_permits() <= self.last && !has_few {
            return None;
        }
        let of_holder = of_holder.try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(HeldPlace { _of_holder: of_holder, _of_all: of_all })
    }

    /// A place, as soon as there is one for this holder.
    pub async fn take(&self, holder: impl Into<Holder>) -> HeldPlace {
        // In this order: a holder that waits for its own places keeps no other waiting.
        let of_holder = self.of(holder.into()).acquire_owned().await.expect("never closed");
        let of_all = self.all.clone().acquire_owned().await.expect("never closed");
        HeldPlace { _of_holder: of_holder, _of_all: of_all }
    }

    fn of(&self, holder: Holder) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if !of.contains_key(&holder) {
            // Places and those that wait for one keep theirs.
            of.retain(|_, places| Arc::strong_count(places) > 1);
        }
        of.entry(holder).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
    }
}

/// Addresses that one machine may have all of count as one: in IPv6 those of a /64.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Connections whose other end has not identified itself: the newest so many.
#[derive(Debug)]
pub struct Newcomers {
    max: usize,
    waiting: Mutex<NewcomerQueue>,
}

#[derive(Debug, Default)]
struct NewcomerQueue {
    next: u64,
    by_age: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them. As a future it ends when a newer one has taken its place; dropped, it is no
/// newcomer any more.
#[derive(Debug)]
pub struct Newcomer {
    number: u64,
    displaced: oneshot::Receiver<()>,
    among: Arc<Newcomers>,
}

impl Newcomers {
    /// A set of which the newest `max` stay.
    pub fn new(max: usize) -> Arc<Newcomers> {
        Arc::new(Newcomers { max, waiting: Mutex::default() })
    }

    /// One more; the oldest gives way where there are too many.
    pub fn enter(self: &Arc<Newcomers>) -> Newcomer {
        let (sender, displaced) = oneshot::channel();
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_age.insert(number, sender);
        if waiting.by_age.len() > self.max {
            waiting.by_age.pop_first();
        }
        Newcomer { number, displaced, among: self.clone() }
    }

    fn waiting(&self) -> MutexGuard<'_, NewcomerQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Newcomer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.displaced).poll(context).map(drop)
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.among.waiting().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_share_and_no_more() {
        let places = Places::new(3, 2);
        let (greedy, other) = (address("10.0.0.1"), address("::ffff:10.0.0.2"));
        let first = places.try_take(greedy).unwrap();
        let _second = places.try_take(greedy).unwrap();
        assert!(places.try_take(greedy).is_none());
        let _third = places.try_take(other).unwrap();
        assert!(places.try_take(other).is_none(), "all are taken");
        drop(first);
        assert!(places.try_take(address("10.0.0.2")).is_some(), "it is the same address");
        // What is remembered of addresses that have nothing goes.
        for host in 0..100 {
            drop(places.try_take(IpAddr::from([10, 0, 1, host])));
        }
        assert!(places.of.lock().unwrap().len() <= 3);
    }

    #[test]
    fn a_few_holders_do_not_take_all() {
        let places = Places::new(64, 32);
        let of = |name: &str| Holder::Principal(name.into());
        let mut held = Vec::new();
        for name in ["a", "b", "c", "d"].iter().cycle().take(4 * 32) {
            held.extend(places.try_take(of(name)));
        }
        assert_eq!(held.len(), 48, "three quarters");
        for other in 0..8 {
            held.push(places.try_take(of(&format!("other {other}"))).expect("there are some left"));
            held.push(places.try_take(of(&format!("other {other}"))).expect("and one more each"));
        }
        assert!(places.try_take(of("too late")).is_none(), "all are taken");
    }

    #[test]
    fn who_proves_who_it_is_shares_places_with_itself_alone() {
        let places = Places::new(4, 1);
        let principal = |name: &str| Holder::Principal(name.into());
        let _one = places.try_take(principal("user a")).unwrap();
        assert!(places.try_take(principal("user a")).is_none(), "wherever it comes from");
        let _other = places.try_take(principal("user b")).unwrap();
        let _stranger = places.try_take(address("10.0.0.1")).unwrap();
    }

    #[test]
    fn all_addresses_of_a_network_of_ipv6_have_one_share() {
        let places = Places::new(8, 1);
        let _place = places.try_take(address("2001:db8::1")).unwrap();
        assert!(places.try_take(address("2001:db8::2")).is_none());
        assert!(places.try_take(address("2001:db8:0:1::2")).is_some());
    }

    #[tokio::test]
    async fn the_oldest_newcomer_gives_way() {
        let newcomers = Newcomers::new(2);
        let (mut first, mut second) = (newcomers.enter(), newcomers.enter());
        let third = newcomers.enter();
        (&mut first).await;
        drop(third);
        drop(first);
        let _fourth = newcomers.enter();
        assert!(second.displaced.try_recv().is_err(), "there are two");
        assert_eq!(newcomers.waiting().by_age.len(), 2);
    }
}
