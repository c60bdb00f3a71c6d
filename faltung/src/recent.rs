//! What was made ready last.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last `KEPT` values that were made ready, the latest at the end.
#[derive(Debug)]
pub struct Recent<V, const KEPT: usize>(Mutex<Vec<V>>);

impl<V, const KEPT: usize> Default for Recent<V, KEPT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V, const KEPT: usize> Recent<V, KEPT> {
    /// Nothing is ready.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Clone, const KEPT: usize> Recent<V, KEPT> {
    /// The value that is wanted, if it was made before.
    pub fn find(&self, is_wanted: impl Fn(&V) -> bool) -> Option<V> {
        Self::find_among(&mut self.lock(), is_wanted)
    }

    /// It becomes the latest under one lock: who looks for it meanwhile finds it.
    fn find_among(known: &mut [V], is_wanted: impl Fn(&V) -> bool) -> Option<V> {
        let place = known.iter().position(is_wanted)?;
        known[place..].rotate_left(1);
        known.last().cloned()
    }

    /// The value that is wanted, made now or before.
    ///
    /// # Errors
    /// Those of `make`. Nothing is kept then.
    pub fn get<E>(&self, is_wanted: impl Fn(&V) -> bool, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(ready) = self.find(&is_wanted) {
            return Ok(ready);
        }
        // Without the lock: to compile a kernel takes long. Two threads may do the same once.
        let ready = make()?;
        let oldest = {
            let mut known = self.lock();
            if let Some(others) = Self::find_among(&mut known, is_wanted) {
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
    pub fn clear(&self) {
        let known = std::mem::take(&mut *self.lock());
        drop(known);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const KEPT: usize = 4;

    fn ready(value: usize) -> crate::Result<usize> {
        Ok(value)
    }

    #[test]
    fn the_latest_are_kept() {
        let recent = Recent::<_, KEPT>::default();
        let is_made = |wanted: usize| {
            let mut is_made = false;
            let make = || {
                is_made = true;
                ready(wanted)
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
        recent.get(|&known| known == 3, || ready(3)).unwrap();
        let (made, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..5000 {
                        let again = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            ready(3)
                        };
                        recent.get(|&known| known == 3, again).unwrap();
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 0);
    }
}
