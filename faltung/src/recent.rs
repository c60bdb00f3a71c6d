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
        let found = {
            let mut known = lock();
            let place = known.iter().position(|ready| ready.problem() == problem);
            place.map(|place| known.remove(place))
        };
        // Without the lock: to compile a kernel takes long. Two threads may do the same once.
        let ready = found.map_or_else(make, Ok)?;
        let oldest = {
            let mut known = lock();
            known.retain(|other| other.problem() != problem);
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
