//! The devices of a run: who is free computes, and who fails is not asked again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Device, Error};

/// Devices that several threads share, each used by one thread at a time.
pub(super) struct Pool<'a> {
    devices: &'a [Device],
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    /// Devices that nobody uses, by number. The last one is taken first.
    free: Vec<usize>,
    /// Devices that have not failed.
    alive: usize,
    lost: Vec<LostDevice>,
}

/// A device that failed during a run.
#[derive(Clone, Debug)]
pub struct LostDevice {
    /// The device: [`Device::describe`].
    pub name: String,
    /// Its error.
    pub error: Error,
}

impl<'a> Pool<'a> {
    pub(super) fn new(devices: &'a [Device]) -> Self {
        let state = State { free: (0..devices.len()).rev().collect(), alive: devices.len(), lost: Vec::new() };
        Self { devices, state: Mutex::new(state), freed: Condvar::new() }
    }

    /// The state is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free device; None if none is left.
    fn take(&self) -> Option<Lease<'_>> {
        let mut state = self.lock();
        loop {
            if state.alive == 0 {
                return None;
            }
            if let Some(number) = state.free.pop() {
                return Some(Lease { pool: self, number });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does some work on a free device. If the device fails, another one does the work.
    ///
    /// # Errors
    /// Those of `work` that are not the device's; [`Error::NoDevice`] if no device is left.
    pub(super) fn on_free_device<R>(&self, work: impl Fn(&Device) -> crate::Result<R>) -> crate::Result<R> {
        loop {
            let Some(lease) = self.take() else {
                let reason = "each one has failed".to_owned();
                return Err(Error::NoDevice { reason, source: None });
            };
            match work(&self.devices[lease.number]) {
                Err(error) if is_of_the_device(&error) => lease.lose(error),
                other => return other,
            }
        }
    }

    /// Whether a device is left.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().alive > 0
    }

    /// The devices that failed.
    pub(super) fn into_lost(self) -> Vec<LostDevice> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).lost
    }
}

/// Whether another device may succeed with the same work.
fn is_of_the_device(error: &Error) -> bool {
    matches!(
        error,
        Error::DeviceLost { .. } | Error::Driver { .. } | Error::DriverTooOld { .. } | Error::KernelRefused { .. }
    )
}

/// A device that one thread uses.
struct Lease<'a> {
    pool: &'a Pool<'a>,
    number: usize,
}

impl Lease<'_> {
    /// Nobody gets this device again.
    fn lose(self, error: Error) {
        let name = self.pool.devices[self.number].describe();
        let mut state = self.pool.lock();
        state.alive -= 1;
        state.lost.push(LostDevice { name, error });
        drop(state);
        self.pool.freed.notify_all();
        std::mem::forget(self);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.lock().free.push(self.number);
        self.pool.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn broken() -> Error {
        let source = crate::DriverError::new(719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure");
        Error::DeviceLost { action: "test".into(), source }
    }

    /// A device that fails once is named once, and never used again. The others do its work.
    #[test]
    fn others_do_the_work_of_a_lost_device() {
        let devices = [Device::emulator(1), Device::emulator(2), Device::emulator(3)];
        let (pool, tried) = (Pool::new(&devices), AtomicUsize::new(0));
        // The second device is the next one. It is used however few threads run at a time.
        let first = pool.take();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let seed = pool.on_free_device(|device| {
                            let seed = device.emulator_seed().unwrap();
                            if seed == 2 {
                                tried.fetch_add(1, SeqCst);
                                return Err(broken());
                            }
                            Ok(seed)
                        });
                        assert_ne!(seed.unwrap(), 2);
                    }
                });
            }
        });
        drop(first);
        assert_eq!(tried.into_inner(), 1);
        assert!(pool.is_alive());
        let [LostDevice { name, error }] = &pool.into_lost()[..] else { panic!("one device is lost") };
        assert_eq!((name, error), (&devices[1].describe(), &broken()));
    }

    /// An error of the work is not the device's. Without a device nobody waits.
    #[test]
    fn without_devices_nobody_waits() {
        let devices = [Device::cpu()];
        let pool = Pool::new(&devices);
        let refused = pool.on_free_device(|_| Err::<(), _>(Error::Cancelled));
        assert_eq!(refused, Err(Error::Cancelled));
        assert!(pool.is_alive());
        for _ in 0..2 {
            let result = pool.on_free_device(|_| Err::<(), _>(broken()));
            assert!(matches!(result, Err(Error::NoDevice { .. })), "{result:?}");
        }
        assert!(!pool.is_alive());
    }
}
