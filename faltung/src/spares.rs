//! Things that take long to make, and that one run at a time uses: kept from one run to the next.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those that nobody uses.
#[derive(Debug)]
pub(crate) struct Spares<T>(Mutex<Vec<T>>);

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Spares<T> {
    /// One that nobody else uses: the one that was given back last, or a new one. No lock is held while it is made.
    pub(crate) fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Spare<'_, T>, E> {
        let spare = self.lock().pop();
        Ok(Spare { spares: self, value: Some(spare.map_or_else(make, Ok)?) })
    }

    /// Adds one.
    pub(crate) fn give(&self, value: T) {
        self.lock().push(value);
    }

    /// All that nobody uses.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn drain(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of [`Spares`], lent until this is dropped, by a panic, too.
#[derive(Debug)]
pub(crate) struct Spare<'a, T> {
    spares: &'a Spares<T>,
    /// None once it is given back.
    value: Option<T>,
}

impl<T> Deref for Spare<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is given back last")
    }
}

impl<T> DerefMut for Spare<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is given back last")
    }
}

impl<T> Drop for Spare<'_, T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.spares.give(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_has_one_user() {
        let (spares, mut made) = (Spares::default(), 0);
        let mut take = || {
            let make = || {
                made += 1;
                Ok::<_, ()>(made)
            };
            spares.take(make).unwrap()
        };
        let (first, second) = (take(), take());
        assert_eq!((*first, *second), (1, 2));
        drop(first);
        for _ in 0..2 {
            assert_eq!(*take(), 1, "it was given back");
        }
        drop(second);
        assert_eq!(spares.drain(), [1, 2]);
        assert_eq!(spares.take(|| Err::<i32, _>("refused")).map(|_| ()), Err("refused"));
    }
}
