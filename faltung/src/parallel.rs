//! Loops over pieces of work, on the calling thread and those of a rayon pool.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPool};

/// How long the calling thread spins while helpers run. Then it sleeps until they are done.
const PATIENCE: Duration = Duration::from_micros(50);

thread_local! {
    /// The pool that [`with_pool`] has named.
    static POOL: RefCell<Option<Arc<ThreadPool>>> = const { RefCell::new(None) };
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
    /// Names the previous pool again when the job returns or panics.
    struct Restore(Option<Arc<ThreadPool>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            POOL.set(self.0.take());
        }
    }
    let _restore = Restore(POOL.replace(Some(Arc::clone(pool))));
    job()
}

/// The pool that [`with_pool`] has named in this thread.
fn named_pool() -> Option<Arc<ThreadPool>> {
    POOL.with_borrow(Option::clone)
}

/// Runs `job` in a scope of the named pool, or of the current one if none is named.
fn in_scope<'scope>(job: impl FnOnce(&Scope<'scope>)) {
    match named_pool() {
        Some(pool) => pool.in_place_scope(job),
        None => rayon::in_place_scope(job),
    }
}

/// The number of threads that work at once.
#[must_use]
pub(crate) fn threads() -> usize {
    named_pool().map_or_else(rayon::current_num_threads, |pool| pool.current_num_threads())
}

/// Calls `work` for each piece, on [`threads`] threads. The calling thread is one of them, so the work begins before
/// another one wakes. Each thread calls `state` once, and passes the value to its calls of `work`.
///
/// # Errors
/// An error of `work`. No piece begins after it.
pub(crate) fn try_for_each<P, T, E: Send>(
    pieces: impl ExactSizeIterator<Item = P> + Send,
    state: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, P) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let count = pieces.len();
    let left = Mutex::new((pieces, Ok(())));
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let (pieces, result) = &mut *lock();
        if result.is_ok() { pieces.next() } else { None }
    };
    let run = || {
        let mut state = state();
        while let Some(piece) = next() {
            if let Err(error) = work(&mut state, piece) {
                lock().1 = Err(error);
            }
        }
    };
    // The number of running helpers.
    let running = AtomicUsize::new(0);
    in_scope(|scope| {
        for _ in 1..threads().min(count) {
            scope.spawn(|_| {
                running.fetch_add(1, Ordering::Relaxed);
                run();
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        run();
        // A running helper is mostly done before a sleeping thread could wake. Helpers that have not begun don't count.
        let begin = Instant::now();
        while running.load(Ordering::Relaxed) > 0 && begin.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
    });
    left.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// [`try_for_each`] for work that can't fail.
pub(crate) fn for_each<P, T>(
    pieces: impl ExactSizeIterator<Item = P> + Send,
    state: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, P) + Sync,
) {
    let Ok(()) = try_for_each(pieces, state, |state, piece| {
        work(state, piece);
        Ok::<(), Infallible>(())
    });
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

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
                    Ok::<(), String>(())
                };
                // From within the pool, from outside, and with the pool named.
                let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
                pool.install(|| try_for_each(0..count, state, work)).unwrap();
                try_for_each(0..count, state, work).unwrap();
                with_pool(&pool, || try_for_each(0..count, state, work)).unwrap();
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
            if i == 3 { Err(i) } else { Ok(()) }
        };
        let result = with_pool(&pool, || try_for_each(0..100, || (), work));
        assert_eq!((result, begun.into_inner()), (Err(3), 4));
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
