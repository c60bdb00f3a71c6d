//! What was made ready last.

use std::sync::{Mutex, PoisonError};

use crate::Result;

/// The last `KEPT` values that were made ready, the latest at the end.
#[derive(Debug)]
pub(crate) struct Recent<V, const KEPT: usize>(Mutex<Vec<V>>);

impl<V, const KEPT: usize> Default for Recent<V, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone, const KEPT: usize> Recent<V, KEPT> {
    /// The value that is wanted, made now or before.
    pub(crate) fn get(&self, is_wanted: impl Fn(&V) -> bool, make: impl FnOnce() -> Result<V>) -> Result<V> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It becomes the latest under one lock: who looks for it meanwhile finds it.
        let find = |known: &mut Vec<V>| {
            let place = known.iter().position(&is_wanted)?;
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

    const KEPT: usize = 4;

    #[test]
    fn the_latest_are_kept() {
        let recent = Recent::<_, KEPT>::default();
        let is_made = |wanted: usize| {
            let mut is_made = false;
            let make = || {
                is_made = true;
                Ok(wanted)
            };
            assert_eq!(recent.get(|&known| known == wanted, make).unwrap(), wanted);
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
        let recent = Recent::<_, KEPT>::default();
        recent.get(|&known| known == 3, || Ok(3)).unwrap();
        let (made, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..5000 {
                        let again = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok(3)
                        };
                        recent.get(|&known| known == 3, again).unwrap();
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 0);
    }
}
