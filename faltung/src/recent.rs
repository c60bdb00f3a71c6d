//! What was made ready for the last few problems.

use std::sync::{Mutex, PoisonError};

use crate::{Prepared, Problem, Result};

/// Problems whose plans, kernels and memory are kept.
const KEPT: usize = 4;

/// The last problems of a device, the latest at the end.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Vec<Prepared>>);

impl Recent {
    /// What was made ready for `problem`, now or before.
    pub(crate) fn get(&self, problem: &Problem, make: impl FnOnce() -> Result<Prepared>) -> Result<Prepared> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It becomes the latest under one lock: who looks for it meanwhile finds it.
        let find = |known: &mut Vec<Prepared>| {
            let place = known.iter().position(|ready| ready.problem() == problem)?;
            known[place..].rotate_left(1);
            known.last().cloned()
        };
        if let Some(ready) = find(&mut lock()) {
            return Ok(ready);
        }
        // Without the lock: to compile a kernel takes long. Two threads may do the same once.
        let ready = make()?;
        let oldest = {
            let mut known = lock();
            if let Some(others) = find(&mut known) {
                return Ok(others);
            }
            known.push(ready.clone());
            (known.len() > KEPT).then(|| known.remove(0))
        };
        // Its memory is given back without the lock, too.
        drop(oldest);
        Ok(ready)
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let known = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(known);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::prepared::Engine;
    use crate::{Filter, Mask};

    /// Problems of other widths.
    fn problem(width: usize) -> Problem {
        Problem::new(width, 10, &Filter::new(Mask::identity())).unwrap()
    }

    fn make(problem: &Problem) -> Result<Prepared> {
        Ok(Prepared::new(problem, Engine::on_cpu(), None))
    }

    #[test]
    fn the_latest_are_kept() {
        let recent = Recent::default();
        let is_made = |width: usize| {
            let (problem, mut is_made) = (problem(width), false);
            recent
                .get(&problem, || {
                    is_made = true;
                    make(&problem)
                })
                .unwrap();
            is_made
        };
        assert!((1..=KEPT).all(is_made) && !(1..=KEPT).any(is_made));
        assert!(!is_made(1) && is_made(9), "1 is the latest, then 9");
        assert!(is_made(2) && !is_made(1), "2 was the oldest");
        recent.clear();
        assert!(is_made(1));
    }

    /// While one thread uses what is ready, another one finds it, too.
    #[test]
    fn several_threads_find_one() {
        const THREADS: usize = 8;
        let (recent, problem) = (Recent::default(), problem(3));
        recent.get(&problem, || make(&problem)).unwrap();
        let (made, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..5000 {
                        let again = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            make(&problem)
                        };
                        recent.get(&problem, again).unwrap();
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 0);
    }
}
