//! Work that is shared among the threads of the current rayon pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread looks whether the others have ended before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// Does `count` pieces of work on as many threads as the rayon pool has. The calling thread is one of them, so the work
/// begins before another one wakes. Each thread has a state of its own.
///
/// # Errors
/// The last error of `work`. After the first one no further piece begins.
pub(crate) fn share<P, T, E: Send>(
    count: usize,
    pieces: impl Iterator<Item = P> + Send,
    state: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, P) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (pieces, failed) = (Mutex::new(pieces), Mutex::new(None));
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let go_on = || failed.lock().unwrap_or_else(PoisonError::into_inner).is_none();
    let run = || {
        let mut state = state();
        while go_on()
            && let Some(piece) = next()
        {
            if let Err(error) = work(&mut state, piece) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    };
    // Helpers that have begun and not ended.
    let running = AtomicUsize::new(0);
    rayon::in_place_scope(|scope| {
        for _ in 1..rayon::current_num_threads().min(count) {
            scope.spawn(|_| {
                running.fetch_add(1, Ordering::Relaxed);
                run();
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        run();
        // Most helpers end their last piece before a thread that sleeps could wake.
        let begin = Instant::now();
        while running.load(Ordering::Relaxed) > 0 && begin.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pool<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
    }

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
                // From within the pool and from outside.
                in_pool(threads, || share(count, 0..count, state, work)).unwrap();
                share(count, 0..count, state, work).unwrap();
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 2));
                assert!(states.into_inner() <= (threads + rayon::current_num_threads()).max(2));
            }
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let result = in_pool(1, || {
            share(
                100,
                0..100,
                || (),
                |(), i| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    if i == 3 { Err(i) } else { Ok(()) }
                },
            )
        });
        assert_eq!((result, begun.into_inner()), (Err(3), 4));
    }
}
