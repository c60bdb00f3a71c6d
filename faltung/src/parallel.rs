//! Loops over pieces of work, on the calling thread and those of a rayon pool.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use rayon::ThreadPool;

use crate::{Error, Result};

/// How long the calling thread spins while helpers run. Then it sleeps until they are done.
const PATIENCE: Duration = Duration::from_micros(50);

thread_local! {
    /// The pool that [`with_pool`] has named.
    static POOL: Named<ThreadPool> = const { RefCell::new(None) };

    /// The flag that [`cancellable`] has named.
    static CANCELLED: Named<AtomicBool> = const { RefCell::new(None) };
}

/// What a thread has named until its job ends.
type Named<T> = RefCell<Option<Arc<T>>>;

/// Runs `job` while `value` is named.
fn with_named<T: 'static, R>(name: &'static LocalKey<Named<T>>, value: Option<Arc<T>>, job: impl FnOnce() -> R) -> R {
    /// Names the previous value again when the job returns or panics.
    struct Restore<T: 'static>(&'static LocalKey<Named<T>>, Option<Arc<T>>);
    impl<T> Drop for Restore<T> {
        fn drop(&mut self) {
            self.0.set(self.1.take());
        }
    }
    let _restore = Restore(name, name.replace(value));
    job()
}

/// Runs `job` on the calling thread. Its work on the CPU is shared with the threads of `pool`, in place of the current
/// rayon pool.
///
/// With [`ThreadPool::install`] the calling thread only waits. To wake another thread takes 10 µs or more. That is a
/// large part of the time of a small image.
///
/// ```
/// use std::sync::Arc;
///
/// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
/// let image = faltung::Image::from_fn(512, 512, |x, y| (x ^ y) as u8)?;
/// let cpu = faltung::Device::cpu();
/// let blurred = faltung::with_pool(&pool, || cpu.apply(&faltung::Filter::gaussian(1.0), &image))?;
/// # let _: faltung::Image<u8> = blurred;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_pool<T>(pool: &Arc<ThreadPool>, job: impl FnOnce() -> T) -> T {
    with_named(&POOL, Some(Arc::clone(pool)), job)
}

/// Runs `job` on the calling thread. Once `cancelled` is true, its work on the CPU ends early with
/// [`Error::Cancelled`], unless nearly all of it is done. Some results are then unwritten. A filter of an image ends
/// within some milliseconds.
///
/// This is the work of calls on [`Device::cpu`](crate::Device::cpu), and of the filters in [`nd`](crate::nd). A filter
/// in `nd` of less than 2^19 multiply-adds may ignore the flag. Work that other threads start for the job, and work of
/// the emulator or a GPU, is not ended. [`ChunkedFilter::run`](crate::chunked::ChunkedFilter::run) begins no other
/// chunk, whatever its devices are.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let image = faltung::Image::from_fn(512, 512, |x, y| (x ^ y) as u8)?;
/// let cancelled = Arc::new(AtomicBool::new(false));
/// // Another thread would do this while the job runs.
/// cancelled.store(true, Ordering::Relaxed);
/// let blur = || faltung::Device::cpu().apply::<u8, u8>(&faltung::Filter::gaussian(1.0), &image);
/// assert!(matches!(faltung::cancellable(&cancelled, blur), Err(faltung::Error::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cancellable<T>(cancelled: &Arc<AtomicBool>, job: impl FnOnce() -> T) -> T {
    with_named(&CANCELLED, Some(Arc::clone(cancelled)), job)
}

/// The flag that [`cancellable`] has named in a thread, for all threads that work for it. The default is never set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Option<Arc<AtomicBool>>);

impl Cancel {
    pub(crate) fn of_this_thread() -> Self {
        Self(CANCELLED.with_borrow(Option::clone))
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }

    /// # Errors
    /// [`Error::Cancelled`] if the flag is set.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// What a thread has named, for the threads that work for it.
pub(crate) struct Names {
    pool: Option<Arc<ThreadPool>>,
    cancel: Cancel,
}

impl Names {
    pub(crate) fn of_this_thread() -> Self {
        Self { pool: named_pool(), cancel: Cancel::of_this_thread() }
    }

    /// Runs `job` while all of this is named.
    pub(crate) fn during<R>(&self, job: impl FnOnce() -> R) -> R {
        with_named(&POOL, self.pool.clone(), || with_named(&CANCELLED, self.cancel.0.clone(), job))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }
}

/// The pool that [`with_pool`] has named in this thread.
fn named_pool() -> Option<Arc<ThreadPool>> {
    POOL.with_borrow(Option::clone)
}

/// The number of threads that work at once.
#[must_use]
pub fn threads() -> usize {
    named_pool().map_or_else(rayon::current_num_threads, |pool| pool.current_num_threads())
}

/// Calls `work` for each piece, on [`threads`] threads. The calling thread is one of them, so the work begins before
/// another one wakes. Each thread calls `state` once, and passes the value to its calls of `work`.
///
/// # Errors
/// An error of `work`; [`Error::Cancelled`] if the flag of [`cancellable`] becomes true. No piece begins after an error.
pub fn for_each<P, T>(
    pieces: impl ExactSizeIterator<Item = P> + Send,
    state: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, P) -> Result<()> + Sync,
) -> Result<()> {
    let count = pieces.len();
    let cancel = Cancel::of_this_thread();
    let left = Mutex::new((pieces, Ok(())));
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let (pieces, result) = &mut *lock();
        let piece = if result.is_ok() { pieces.next()? } else { return None };
        *result = cancel.check();
        result.is_ok().then_some(piece)
    };
    let run = || {
        let mut state = state();
        while let Some(piece) = next() {
            if let Err(error) = work(&mut state, piece) {
                lock().1 = Err(error);
            }
        }
    };
    share(threads().min(count).saturating_sub(1), &run);
    left.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

thread_local! {
    /// The helpers that this thread has asked for and that have not begun.
    static ASKED: Arc<AtomicUsize> = Arc::default();
}

/// The most helpers that a thread asks for and that have not begun, for each one that it may have. Those of earlier
/// calls, which are late, count too: they must not pile up while another call holds the pool.
const MOST_LATE: usize = 8;

/// Calls `run` on the calling thread, and on at most `helpers` threads of the pool: on those that wake before `run`
/// returns on the calling thread. It does not wait for threads that have not begun: to wake a thread may take longer
/// than the work.
fn share(helpers: usize, run: &(dyn Fn() + Sync)) {
    /// Lets nobody in any more, and waits for those within, after a panic too.
    struct Close(Arc<Door>);
    impl Drop for Close {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    if helpers == 0 {
        return run();
    }
    let door = Close(Arc::new(Door::default()));
    let (asked, pool, run_of_helpers) = (ASKED.with(Arc::clone), named_pool(), Run::new(run));
    let late = asked.load(Ordering::Relaxed);
    for _ in 0..helpers.min((MOST_LATE * helpers).saturating_sub(late)) {
        let (door, asked) = (Arc::clone(&door.0), Arc::clone(&asked));
        asked.fetch_add(1, Ordering::Relaxed);
        let help = move || {
            asked.fetch_sub(1, Ordering::Relaxed);
            if door.enter() {
                // SAFETY: `share` does not end before `close`, which waits until this helper leaves.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { run_of_helpers.call() }));
                door.leave(result);
            }
        };
        match &pool {
            Some(pool) => pool.spawn(help),
            None => rayon::spawn(help),
        }
    }
    run();
    let panic = door.0.close();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// The address of the work of a [`share`]. Helpers that come late still have it, but do not use it.
#[derive(Clone, Copy)]
struct Run(*const (dyn Fn() + Sync));

// SAFETY: it points to a function that is `Sync`, and `call` requires that the function still lives.
unsafe impl Send for Run {}

impl Run {
    fn new(run: &(dyn Fn() + Sync)) -> Self {
        // SAFETY: a pointer with another lifetime, which is not used here.
        Self(unsafe { std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(run) })
    }

    /// # Safety
    /// - The function that was given to [`new`](Self::new) still lives.
    unsafe fn call(self) {
        // SAFETY: the pointer is of a reference given to `new`, whose function lives, as required here.
        unsafe { (*self.0)() }
    }
}

/// Counts the helpers that work.
#[derive(Default)]
struct Door {
    /// [`CLOSED`], and the number of helpers within.
    state: AtomicUsize,
    /// What the first helper that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    left: Condvar,
}

/// The bit of a closed door.
const CLOSED: usize = 1 << (usize::BITS - 1);

impl Door {
    /// Whether the door is open. Then the helper is within, until it leaves.
    fn enter(&self) -> bool {
        let enter = |state| (state & CLOSED == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    fn leave(&self, result: Result<(), Box<dyn Any + Send>>) {
        if let Err(panic) = result {
            self.lock().get_or_insert(panic);
        }
        if self.state.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            // With the lock: whoever closes is either before its look at the state or within its wait.
            let _lock = self.lock();
            self.left.notify_all();
        }
    }

    /// Closes the door, waits until nobody is within, and returns what the first helper that panicked said.
    fn close(&self) -> Option<Box<dyn Any + Send>> {
        self.state.fetch_or(CLOSED, Ordering::Relaxed);
        let is_within = || self.state.load(Ordering::Acquire) != CLOSED;
        // A helper is mostly done before a sleeping thread could wake.
        let begin = Instant::now();
        while is_within() && begin.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
        let mut panic = self.lock();
        while is_within() {
            panic = self.left.wait(panic).unwrap_or_else(PoisonError::into_inner);
        }
        panic.take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 100] {
                let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                let states = AtomicUsize::new(0);
                let state = || states.fetch_add(1, Ordering::Relaxed);
                let work = |_: &mut usize, i: usize| {
                    done[i].fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                // From within the pool, from outside, and with the pool named.
                let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
                pool.install(|| for_each(0..count, state, work)).unwrap();
                for_each(0..count, state, work).unwrap();
                with_pool(&pool, || for_each(0..count, state, work)).unwrap();
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 3));
                assert!(states.into_inner() <= 2 * threads + rayon::current_num_threads());
            }
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let work = |(): &mut (), i| {
            begun.fetch_add(1, Ordering::Relaxed);
            if i == 3 { Err(Error::NoDeviceLeft) } else { Ok(()) }
        };
        let result = with_pool(&pool, || for_each(0..100, || (), work));
        assert_eq!((result, begun.into_inner()), (Err(Error::NoDeviceLeft), 4));
    }

    #[test]
    fn a_flag_ends_the_work_on_all_threads() {
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
        let (cancelled, begun) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let work = |(): &mut (), i| {
            begun.fetch_add(1, Ordering::Relaxed);
            cancelled.fetch_or(i == 3, Ordering::Relaxed);
            Ok(())
        };
        let all = || for_each(0..100, || (), work);
        assert_eq!(with_pool(&pool, || cancellable(&cancelled, all)), Err(Error::Cancelled));
        // The flag may be set while the other thread works on a piece.
        assert!((4..100).contains(&begun.swap(0, Ordering::Relaxed)));
        // The flag is named by that job alone.
        assert_eq!((with_pool(&pool, all), begun.into_inner()), (Ok(()), 100));
        // The last piece has begun: all is done.
        cancelled.store(false, Ordering::Relaxed);
        let last = |(): &mut (), i| {
            cancelled.fetch_or(i == 3, Ordering::Relaxed);
            Ok(())
        };
        assert_eq!(cancellable(&cancelled, || for_each(0..4, || (), last)), Ok(()));
    }

    /// A loop that waited for all threads would hang here.
    #[test]
    fn threads_that_have_not_begun_are_not_waited_for() {
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        for _ in 0..3 {
            let blocked = Arc::clone(&blocked);
            pool.spawn(move || assert!(blocked.lock().unwrap().recv().is_err()));
        }
        let done = AtomicUsize::new(0);
        let work = |(): &mut (), _| {
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        with_pool(&pool, || (0..1000).for_each(|_| for_each(0..10, || (), work).unwrap()));
        // The helpers of all these calls are late, and few.
        let asked = ASKED.with(Arc::clone);
        assert_eq!(asked.load(Ordering::Relaxed), MOST_LATE * 2);
        drop(release);
        while asked.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(done.into_inner(), 10_000);
    }

    #[test]
    fn a_closed_door_lets_nobody_in() {
        let door = Door::default();
        assert!(door.enter() && door.enter());
        std::thread::scope(|threads| {
            let closing = threads.spawn(|| door.close());
            std::thread::sleep(4 * PATIENCE);
            while door.enter() {
                door.leave(Ok(()));
            }
            door.leave(Err(Box::new("first")));
            std::thread::sleep(4 * PATIENCE);
            assert!(!closing.is_finished());
            door.leave(Err(Box::new("second")));
            assert_eq!(closing.join().unwrap().unwrap().downcast_ref::<&str>(), Some(&"first"));
        });
        assert!(!door.enter() && door.close().is_none());
    }

    #[test]
    fn a_panic_of_a_helper_is_one_of_the_caller() {
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
        let caller = std::thread::current().id();
        let both = std::sync::Barrier::new(2);
        let work = |(): &mut (), _| {
            both.wait();
            assert_eq!(std::thread::current().id(), caller, "not the caller");
            Ok(())
        };
        let call = || with_pool(&pool, || for_each(0..2, || (), work));
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("not the caller"));
    }

    /// Loops within loops, each with helpers, from more threads than the pool has.
    #[test]
    fn loops_within_loops() {
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap());
        for _ in 0..200 {
            let sum = AtomicUsize::new(0);
            let add = |(): &mut (), i| {
                sum.fetch_add(i, Ordering::Relaxed);
                Ok(())
            };
            let outer = |(): &mut (), _| for_each(0..100, || (), add);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| with_pool(&pool, || for_each(0..7, || (), outer)).unwrap());
                }
                threads.spawn(|| pool.install(|| for_each(0..7, || (), outer)).unwrap());
            });
            assert_eq!(sum.into_inner(), 4 * 7 * 4950);
        }
    }

    #[test]
    fn a_pool_is_named_until_the_job_ends() {
        let pool = |threads| Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
        let (two, three) = (pool(2), pool(3));
        let before = threads();
        with_pool(&three, || {
            assert_eq!(threads(), 3);
            let panic = std::panic::catch_unwind(AssertUnwindSafe(|| with_pool(&two, || assert_eq!(threads(), 3))));
            assert!(panic.is_err());
            assert_eq!(threads(), 3);
        });
        assert_eq!(threads(), before);
    }
}
