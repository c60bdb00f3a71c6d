//! Reservations of memory: what one thread was promised, another one is not promised too.
//!
//! The system counts a page when it is first touched, not when it is allocated. So two threads that ask how much is
//! free, and then allocate, may both be told of the same bytes. Here they reserve first. What the process has taken
//! since the first reservation counts as taken by the reservations, so that nothing is counted twice.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the system says at one moment. None where it says nothing, or sets no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observation {
    /// Bytes of memory that can be had.
    pub(super) memory: Option<u64>,
    /// Bytes of memory that this process has.
    pub(super) resident: u64,
    /// Bytes of address space that can be had.
    pub(super) space: Option<u64>,
    /// Bytes of address space that this process has.
    pub(super) mapped: u64,
}

impl Observation {
    /// Bytes that can be had now; None where nothing is known to limit them.
    fn free(&self) -> Option<u64> {
        [self.memory, self.space].into_iter().flatten().min()
    }

    /// Bytes that could be had for reservations if nothing had been taken since `base`.
    fn for_reservations(&self, base: &Self) -> Option<u64> {
        let memory = self.memory.map(|free| free.saturating_add(self.resident.saturating_sub(base.resident)));
        let space = self.space.map(|free| free.saturating_add(self.mapped.saturating_sub(base.mapped)));
        [memory, space].into_iter().flatten().min()
    }
}

/// All reservations of the process, or of a test.
pub(super) struct Ledger {
    observe: fn() -> Observation,
    /// How long a request waits for others to give back.
    patience: Duration,
    state: Mutex<State>,
    given_back: Condvar,
}

struct State {
    /// The sum of all reservations.
    reserved: u64,
    /// The part of it for which nobody waits.
    lasting: u64,
    /// Before the first of them.
    base: Observation,
    /// The last look at the system, and when it was.
    last: Option<(Instant, Observation)>,
}

/// To ask the system takes up to a millisecond. Of a request that is a small part of what was free so shortly before,
/// it need not be asked.
const RECENT: Duration = Duration::from_millis(50);
const SMALL_PART: u64 = 64;

thread_local! {
    /// Bytes of the reservation under which this thread works: [`Reservation::during`].
    static HELD: Cell<u64> = const { Cell::new(0) };
}

impl Ledger {
    pub(super) const fn new(observe: fn() -> Observation, patience: Duration) -> Self {
        let nothing = Observation { memory: None, resident: 0, space: None, mapped: 0 };
        let state = Mutex::new(State { reserved: 0, lasting: 0, base: nothing, last: None });
        Self { observe, patience, state, given_back: Condvar::new() }
    }

    /// The state is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves so many bytes, less those of the reservation under which this thread works; None if they can't be had
    /// now.
    pub(super) fn try_reserve(&'static self, bytes: u64) -> Option<Reservation> {
        self.attempt(&mut self.lock(), bytes)
    }

    /// The same, but waits a while where others hold reservations: what they give back may be enough.
    pub(super) fn reserve(&'static self, bytes: u64) -> Option<Reservation> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let reserved = self.attempt(&mut state, bytes);
            let others_hold = state.reserved - state.lasting > HELD.get();
            if reserved.is_some() || !others_hold || start.elapsed() > self.patience {
                return reserved;
            }
            // Not all that is given back is told here: pages are written to the disk, too.
            let waited = self.given_back.wait_timeout(state, RECENT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reserves so many bytes whether they can be had or not: for work that begins because there is nothing to wait
    /// for.
    pub(super) fn claim(&'static self, bytes: u64) -> Reservation {
        let mut state = self.lock();
        if state.reserved == 0 {
            state.base = (self.observe)();
        }
        let bytes = bytes.min(u64::MAX - state.reserved);
        state.reserved += bytes;
        Reservation { ledger: self, bytes, is_lasting: false }
    }

    /// The reservation, if the system has the bytes and nobody else is promised them.
    fn attempt(&'static self, state: &mut State, bytes: u64) -> Option<Reservation> {
        let recent = state.last.filter(|(then, seen)| {
            let is_small = |free: u64| {
                bytes.saturating_add(state.reserved).checked_mul(SMALL_PART).is_some_and(|part| part < free)
            };
            then.elapsed() < RECENT && seen.free().is_none_or(is_small)
        });
        let now = match recent {
            Some((_, seen)) => seen,
            None => {
                let seen = (self.observe)();
                state.last = Some((Instant::now(), seen));
                seen
            }
        };
        if state.reserved == 0 {
            state.base = now;
        }
        let more = bytes.saturating_sub(HELD.get());
        let sum = state.reserved.checked_add(more)?;
        let is_there = now.free().is_none_or(|free| bytes <= free);
        // What is held already is not refused, even if others have taken some of it since.
        let is_unpromised = more == 0 || now.for_reservations(&state.base).is_none_or(|most| sum <= most);
        if !is_there || !is_unpromised {
            return None;
        }
        state.reserved = sum;
        Some(Reservation { ledger: self, bytes: more, is_lasting: false })
    }

    /// The sum of all reservations.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> u64 {
        self.lock().reserved
    }
}

/// Bytes that nobody else is promised, until it is dropped.
#[must_use = "what is reserved is given back when this is dropped"]
pub struct Reservation {
    ledger: &'static Ledger,
    bytes: u64,
    /// Nobody waits for it.
    is_lasting: bool,
}

impl Reservation {
    /// Does some work under this reservation, and under those that this thread works under already: what the work
    /// reserves on this thread is taken from them, and only the rest again.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores, after a panic too.
        struct Before(u64);
        impl Drop for Before {
            fn drop(&mut self) {
                HELD.set(self.0);
            }
        }
        let before = HELD.get();
        let _before = Before(HELD.replace(before.saturating_add(self.bytes)));
        work()
    }

    /// Takes all but `bytes` off, as a reservation that lasts: nobody waits until it is given back.
    pub fn split_off_lasting(&mut self, bytes: u64) -> Self {
        let rest = self.bytes.saturating_sub(bytes);
        self.bytes -= rest;
        self.ledger.lock().lasting += rest;
        Self { ledger: self.ledger, bytes: rest, is_lasting: true }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        state.reserved -= self.bytes;
        if self.is_lasting {
            state.lasting -= self.bytes;
        }
        drop(state);
        self.ledger.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    /// A machine of 1000 bytes of which this process and others take some.
    macro_rules! machine {
        ($ours:ident, $others:ident, $ledger:ident) => {
            static $ours: AtomicU64 = AtomicU64::new(0);
            static $others: AtomicU64 = AtomicU64::new(0);
            fn observe() -> Observation {
                let (ours, others) = ($ours.load(SeqCst), $others.load(SeqCst));
                Observation { memory: Some(1000 - ours - others), resident: ours, space: None, mapped: 0 }
            }
            static $ledger: Ledger = Ledger::new(observe, Duration::from_secs(60));
        };
    }

    #[test]
    fn what_is_reserved_is_not_promised_again() {
        machine!(OURS, OTHERS, LEDGER);
        OURS.store(100, SeqCst);
        let first = LEDGER.try_reserve(500).unwrap();
        assert!(LEDGER.try_reserve(401).is_none());
        let second = LEDGER.try_reserve(400).unwrap();
        // What is taken under a reservation does not count twice.
        OURS.store(500, SeqCst);
        drop(second);
        assert!(LEDGER.try_reserve(401).is_none());
        let second = LEDGER.try_reserve(400).unwrap();
        // What others take does count.
        drop(second);
        OTHERS.store(50, SeqCst);
        assert!(LEDGER.try_reserve(351).is_none());
        drop(LEDGER.try_reserve(350).unwrap());
        drop(first);
        assert_eq!(LEDGER.reserved(), 0);
    }

    #[test]
    fn what_is_not_there_is_not_promised() {
        machine!(OURS, OTHERS, LEDGER);
        let held = LEDGER.try_reserve(300).unwrap();
        // More was taken than was reserved.
        OURS.store(900, SeqCst);
        assert!(LEDGER.try_reserve(200).is_none());
        assert!(held.during(|| LEDGER.try_reserve(200)).is_none());
        assert!(held.during(|| LEDGER.reserve(200)).is_none());
        OTHERS.store(10, SeqCst);
        assert!(LEDGER.try_reserve(80).is_some());
    }

    #[test]
    fn work_under_a_reservation_takes_from_it() {
        machine!(OURS, OTHERS, LEDGER);
        let (held, other) = (LEDGER.try_reserve(600).unwrap(), LEDGER.try_reserve(300).unwrap());
        assert!(LEDGER.try_reserve(200).is_none());
        held.during(|| {
            let within = LEDGER.try_reserve(600).unwrap();
            assert_eq!((within.bytes, LEDGER.reserved()), (0, 900));
            assert!(LEDGER.try_reserve(701).is_none());
            assert_eq!(LEDGER.try_reserve(700).unwrap().bytes, 100);
            // Work under both may use both.
            within.during(|| assert_eq!(LEDGER.try_reserve(600).unwrap().bytes, 0));
            let more = LEDGER.try_reserve(650).unwrap();
            more.during(|| assert_eq!(LEDGER.try_reserve(650).unwrap().bytes, 0));
        });
        assert!(LEDGER.try_reserve(200).is_none());
        drop(other);
        let mut held = held;
        let rest = held.split_off_lasting(250);
        assert_eq!((held.bytes, rest.bytes, LEDGER.reserved()), (250, 350, 600));
        drop((held, rest));
        assert_eq!(LEDGER.reserved(), 0);
        OURS.store(1, SeqCst);
        OTHERS.store(1, SeqCst);
    }

    /// A request waits for what others hold, and for nothing else.
    #[test]
    fn a_request_waits_for_others() {
        machine!(OURS, OTHERS, LEDGER);
        OTHERS.store(100, SeqCst);
        assert!(LEDGER.reserve(901).is_none());
        let held = LEDGER.try_reserve(700).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| LEDGER.reserve(900).map(|reserved| reserved.bytes));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.join().unwrap(), Some(900));
        });
        // Neither what lasts nor one's own is waited for.
        let lasting = LEDGER.try_reserve(500).unwrap().split_off_lasting(0);
        assert!(LEDGER.reserve(500).is_none());
        drop(lasting);
        let claimed = LEDGER.claim(5000);
        assert!(claimed.during(|| LEDGER.reserve(901)).is_none());
        assert_eq!(claimed.during(|| LEDGER.reserve(900)).unwrap().bytes, 0);
        assert!(LEDGER.try_reserve(1).is_none());
        OURS.store(0, SeqCst);
    }

    /// Many threads that reserve, take and give back: never is more taken than there is.
    #[test]
    fn threads_are_never_promised_too_much() {
        machine!(OURS, OTHERS, LEDGER);
        OTHERS.store(100, SeqCst);
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let most = &most;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number);
                    for _ in 0..300 {
                        let bytes = random.u64(1..400);
                        let Some(reserved) = LEDGER.try_reserve(bytes) else { continue };
                        // What is reserved is taken only later.
                        std::thread::sleep(Duration::from_micros(50));
                        most.fetch_max(bytes + OURS.fetch_add(bytes, SeqCst), SeqCst);
                        std::thread::yield_now();
                        OURS.fetch_sub(bytes, SeqCst);
                        drop(reserved);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((400..=900).contains(&most), "{most}");
    }
}
