//! Places that go to the holder of the fewest, and are given up while it waits for its other side.
//!
//! Place: under each operation of a client at an agent.
//! What costs memory and disk at a time is bounded, and slow clients must not have all of it. So a
//! place is for moving bytes: where another operation waits for one, an operation that waits for
//! its other side gives its place up until that side moves again, and the holder of the fewest
//! places is served first. Then slow ones hold nothing, however many they are, and fast ones take
//! turns.
//!
//! Invariant: no operation waits while a place is free.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::places::Holder;

/// Some places, and the operations that wait for one.
#[derive(Debug)]
pub struct FairPlaces {
    state: Mutex<FairState>,
    /// How many wait for one.
    waiting: watch::Sender<usize>,
}

#[derive(Debug)]
struct FairState {
    free: usize,
    /// The holders that have a place or wait for one.
    of: HashMap<Holder, OfHolder>,
    /// How often a place was given.
    given: u64,
}

#[derive(Debug, Default)]
struct OfHolder {
    held: usize,
    /// When it was served last, counted in places that were given.
    served: u64,
    waiting: VecDeque<oneshot::Sender<FairPlace>>,
}

/// One place; dropping it gives it back.
#[derive(Debug)]
struct FairPlace {
    holder: Holder,
    among: Arc<FairPlaces>,
}

/// The place of an operation, which has one only while it moves bytes.
#[derive(Debug)]
pub struct SharedPlace {
    holder: Holder,
    among: Arc<FairPlaces>,
    held: Option<FairPlace>,
}

impl FairPlaces {
    /// So many places, of which none is held.
    pub fn new(places: usize) -> Arc<FairPlaces> {
        let state = FairState { free: places, of: HashMap::new(), given: 0 };
        Arc::new(FairPlaces { state: Mutex::new(state), waiting: watch::Sender::new(0) })
    }

    /// What an operation of that holder has of them: nothing yet.
    pub fn share(self: &Arc<FairPlaces>, holder: Holder) -> SharedPlace {
        SharedPlace { holder, among: self.clone(), held: None }
    }

    async fn take(self: &Arc<FairPlaces>, holder: Holder) -> FairPlace {
        let (sender, place) = oneshot::channel();
        {
            let mut state = self.state();
            // A holder that has just had a place and is back is no older than those that wait for
            // theirs.
            let new = OfHolder { served: state.given, ..OfHolder::default() };
            state.of.entry(holder).or_insert(new).waiting.push_back(sender);
            // Under the lock: a task that gives a place meanwhile counts this one as served.
            self.waiting.send_modify(|waiting| *waiting += 1);
        }
        self.hand_out();
        place.await.expect("whoever waits is not forgotten")
    }

    /// Gives what is free to the holders that wait.
    fn hand_out(self: &Arc<FairPlaces>) {
        // Holders that wait no more give theirs back when the lock is free again.
        let mut unwanted = Vec::new();
        let mut state = self.state();
        while state.free > 0
            && let Some((holder, sender)) = state.next()
        {
            self.waiting.send_modify(|waiting| *waiting -= 1);
            state.free -= 1;
            unwanted.extend(sender.send(FairPlace { holder, among: self.clone() }).err());
        }
        drop(state);
    }

    fn give_back(self: &Arc<FairPlaces>, holder: &Holder) {
        {
            let mut state = self.state();
            state.free += 1;
            let of = state.of.get_mut(holder).expect("it has a place");
            of.held -= 1;
            if of.held == 0 && of.waiting.is_empty() {
                state.of.remove(holder);
            }
        }
        self.hand_out();
    }

    fn state(&self) -> MutexGuard<'_, FairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FairState {
    /// The holder that is to have the next place: of those with the fewest, the one served longest
    /// ago.
    fn next(&mut self) -> Option<(Holder, oneshot::Sender<FairPlace>)> {
        let waiting = self.of.iter_mut().filter(|(_, of)| !of.waiting.is_empty());
        let (holder, of) = waiting.min_by_key(|(_, of)| (of.held, of.served))?;
        self.given += 1;
        (of.held, of.served) = (of.held + 1, self.given);
        let sender = of.waiting.pop_front().expect("somebody waits");
        Some((holder.clone(), sender))
    }
}

impl Drop for FairPlace {
    fn drop(&mut self) {
        self.among.give_back(&self.holder);
    }
}

impl SharedPlace {
    /// Takes a place, as soon as there is one for this holder, unless it has one.
    pub async fn begin(&mut self) {
        if self.held.is_none() {
            self.held = Some(self.among.take(self.holder.clone()).await);
        }
    }

    /// Gives the place back.
    pub fn end(&mut self) {
        self.held = None;
    }

    /// Whether an operation waits for a place.
    pub fn is_wanted(&self) -> bool {
        *self.among.waiting.borrow() > 0
    }

    /// What comes of `moves`; none if another operation wants the place before it has ended.
    pub async fn unless_wanted<T>(&self, moves: impl Future<Output = T>) -> Option<T> {
        let mut waiting = self.among.waiting.subscribe();
        tokio::select! {
            biased;
            result = moves => Some(result),
            Ok(_) = waiting.wait_for(|waiting| *waiting > 0) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    fn holder(name: &str) -> Holder {
        Holder::Principal(name.into())
    }

    async fn held(places: &Arc<FairPlaces>, name: &str) -> SharedPlace {
        let mut place = places.share(holder(name));
        timeout(Duration::from_secs(60), place.begin()).await.expect("there is a place");
        place
    }

    #[tokio::test]
    async fn whoever_has_the_fewest_is_served_first() {
        let places = FairPlaces::new(2);
        let (mut first, mut second) = (held(&places, "many").await, held(&places, "many").await);
        let order = Arc::new(Mutex::new(Vec::new()));
        for name in ["many", "many", "many", "one"] {
            let (places, order) = (places.clone(), order.clone());
            tokio::spawn(async move {
                let _place = held(&places, name).await;
                order.lock().unwrap().push(name);
                yield_now().await;
            });
            yield_now().await;
        }
        assert!(first.is_wanted());
        first.end();
        second.end();
        while order.lock().unwrap().len() < 4 {
            yield_now().await;
        }
        assert_eq!(order.lock().unwrap()[0], "one");
        assert!(!first.is_wanted());
        assert!(places.state().of.len() <= 2, "nobody is remembered for ever");
    }

    /// Each comes back as soon as it has had the place, so that all but one always wait.
    #[tokio::test]
    async fn whoever_comes_back_stands_behind_those_who_wait() {
        let places = FairPlaces::new(1);
        let turns = Arc::new(Mutex::new(std::collections::BTreeMap::<u32, u32>::new()));
        for number in 0..4 {
            let (places, turns) = (places.clone(), turns.clone());
            tokio::spawn(async move {
                loop {
                    let _place = held(&places, &number.to_string()).await;
                    *turns.lock().unwrap().entry(number).or_default() += 1;
                    yield_now().await;
                }
            });
        }
        while turns.lock().unwrap().values().sum::<u32>() < 400 {
            yield_now().await;
        }
        let turns = turns.lock().unwrap().clone();
        assert!(turns.len() == 4 && turns.values().all(|of| (95..=105).contains(of)), "{turns:?}");
    }

    #[tokio::test]
    async fn who_waits_for_others_goes_without_a_place_that_is_wanted() {
        let places = FairPlaces::new(1);
        let slow = held(&places, "slow").await;
        let waits = tokio::spawn(async move {
            let never = slow.unless_wanted(std::future::pending::<()>()).await;
            assert!(never.is_none());
            drop(slow);
        });
        held(&places, "quick").await;
        waits.await.unwrap();
    }

    /// On several threads, places are given back at any moment at which others begin to wait.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn those_who_wait_are_counted_whenever_places_are_given_back() {
        let places = FairPlaces::new(1);
        let takers: Vec<_> = (0..8)
            .map(|number: u32| {
                let places = places.clone();
                tokio::spawn(async move {
                    for _ in 0..5000 {
                        drop(held(&places, &number.to_string()).await);
                    }
                })
            })
            .collect();
        for taker in takers {
            taker.await.unwrap();
        }
        assert_eq!(*places.waiting.borrow(), 0);
        let state = places.state();
        assert_eq!((state.free, state.of.len()), (1, 0));
    }

    #[tokio::test]
    async fn a_place_that_nobody_waits_for_any_more_goes_to_the_next() {
        let places = FairPlaces::new(1);
        let mut first = held(&places, "first").await;
        let mut gone = places.share(holder("gone"));
        assert!(timeout(Duration::ZERO, gone.begin()).await.is_err());
        first.end();
        held(&places, "last").await;
        assert!(!first.is_wanted());
    }
}
