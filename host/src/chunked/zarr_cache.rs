//! Decoded parts of an array that the halos of several chunks have in common.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::Value;

/// Row and column of a part.
pub(super) type Place = (usize, usize);

/// Parts within a number of bytes. Those that were used last are kept.
#[derive(Default)]
pub(super) struct Cache {
    most: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    parts: HashMap<Place, Kept>,
    bytes: u64,
    /// Counts uses.
    time: u64,
}

/// A part.
struct Kept {
    /// A vector of the array's type.
    values: Arc<dyn Any + Send + Sync>,
    bytes: u64,
    /// The time of its last use.
    used: u64,
}

impl Cache {
    /// Keeps at most so many bytes from now on; at first none.
    pub(super) fn set_most(&self, bytes: u64) {
        self.most.store(bytes, Relaxed);
    }

    /// The most bytes.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// The part at a place, if it is kept.
    pub(super) fn get<T: Value>(&self, place: Place) -> Option<Arc<Vec<T>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.time += 1;
        let now = state.time;
        let kept = state.parts.get_mut(&place)?;
        kept.used = now;
        Arc::clone(&kept.values).downcast().ok()
    }

    /// Keeps a part, in the place of those that were not used for the longest time.
    pub(super) fn keep<T: Value>(&self, place: Place, values: Arc<Vec<T>>) {
        let bytes = size_of_val(&values[..]) as u64;
        if bytes > self.most() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.time += 1;
        let used = state.time;
        let old = state.parts.insert(place, Kept { values, bytes, used });
        state.bytes = state.bytes + bytes - old.map_or(0, |old| old.bytes);
        while state.bytes > self.most() {
            let oldest = state.parts.iter().min_by_key(|(_, kept)| kept.used).map(|(place, _)| *place);
            let Some(old) = oldest.and_then(|place| state.parts.remove(&place)) else { break };
            state.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept() {
        let cache = Cache::default();
        cache.set_most(10);
        let part = |length: usize| Arc::new(vec![length as u8; length]);
        let has = |place: Place| cache.get::<u8>(place).is_some();
        cache.keep((0, 0), part(4));
        cache.keep((0, 1), part(5));
        assert!(has((0, 0)));
        cache.keep((0, 2), part(3));
        assert!(!has((0, 1)) && has((0, 0)) && has((0, 2)));
        // The same place again, and a part that never fits.
        cache.keep((0, 2), part(6));
        cache.keep((1, 1), part(11));
        assert_eq!(cache.get::<u8>((0, 2)).unwrap().len(), 6);
        assert!(has((0, 0)) && !has((1, 1)));
        cache.keep((1, 0), part(10));
        assert!(has((1, 0)) && !has((0, 0)) && !has((0, 2)));
    }
}
