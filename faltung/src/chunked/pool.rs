//! The devices of a run: who is free computes, and who fails is not asked again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Device, Error};

/// Devices that several threads share. Each has a number of users at once.
pub(super) struct Pool<'a> {
    devices: &'a [Device],
    /// The most users of each device.
    most_users: Vec<usize>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The users of each device.
    users: Vec<usize>,
    /// Whether each device has failed.
    has_failed: Vec<bool>,
    lost: Vec<LostDevice>,
}

impl State {
    fn is_any_alive(&self) -> bool {
        self.has_failed.contains(&false)
    }
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
    /// Devices, each with at most so many users at once as `most_users` says, at least one.
    pub(super) fn new(devices: &'a [Device], most_users: impl Fn(&Device) -> usize) -> Self {
        let most_users = devices.iter().map(|device| most_users(device).max(1)).collect();
        let (users, has_failed) = (vec![0; devices.len()], vec![false; devices.len()]);
        let state = State { users, has_failed, lost: Vec::new() };
        Self { devices, most_users, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The state is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a device that takes another user, and takes the one with the fewest; None if no device is left.
    fn take(&self) -> Option<Lease<'_>> {
        let mut state = self.lock();
        loop {
            if !state.is_any_alive() {
                return None;
            }
            let takes_one =
                |&number: &usize| !state.has_failed[number] && state.users[number] < self.most_users[number];
            let number = (0..self.devices.len()).filter(takes_one).min_by_key(|&number| state.users[number]);
            if let Some(number) = number {
                state.users[number] += 1;
                return Some(Lease { pool: self, number });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does some work on a free device. If the device fails, another one does the work.
    ///
    /// # Errors
    /// Those of `work` that are not the device's; [`Error::NoDeviceLeft`].
    pub(super) fn on_free_device<R>(&self, work: impl Fn(&Device) -> crate::Result<R>) -> crate::Result<R> {
        loop {
            let Some(lease) = self.take() else { return Err(Error::NoDeviceLeft) };
            match work(&self.devices[lease.number]) {
                Err(error) if is_of_the_device(&error) => lease.lose(error),
                other => return other,
            }
        }
    }

    /// Whether a device is left.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().is_any_alive()
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

/// A device that a thread uses.
struct Lease<'a> {
    pool: &'a Pool<'a>,
    number: usize,
}

impl Lease<'_> {
    /// Nobody gets this device again. It is named once, whatever the number of its users.
    fn lose(self, error: Error) {
        let mut state = self.pool.lock();
        if !std::mem::replace(&mut state.has_failed[self.number], true) {
            let name = self.pool.devices[self.number].describe();
            state.lost.push(LostDevice { name, error });
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.lock().users[self.number] -= 1;
        // If the device has failed, all who wait may have to know.
        self.pool.changed.notify_all();
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
        let (pool, tried) = (Pool::new(&devices, |_| 1), AtomicUsize::new(0));
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

    /// A device that fails for two users at once is named once.
    #[test]
    fn a_device_with_two_users_is_lost_once() {
        let devices = [Device::emulator(1), Device::emulator(2)];
        let pool = Pool::new(&devices, |_| 2);
        let mut leases: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
        for lease in leases.extract_if(.., |lease| lease.number == 1) {
            lease.lose(broken());
        }
        assert_eq!(leases.len(), 2);
        drop(leases);
        let left = [pool.take().unwrap(), pool.take().unwrap()];
        assert!(left.iter().all(|lease| lease.number == 0));
        drop(left);
        assert_eq!(pool.into_lost().len(), 1);
    }

    /// The device with the fewest users is the next one, and none has more than it takes.
    #[test]
    fn users_are_spread_over_the_devices() {
        let devices = [Device::emulator(1), Device::emulator(2), Device::emulator(3)];
        let pool = Pool::new(&devices, |device| if device.emulator_seed() == Some(3) { 1 } else { 2 });
        let mut leases: Vec<_> = (0..5).map(|_| pool.take().unwrap()).collect();
        assert_eq!(leases.iter().map(|lease| lease.number).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
        assert_eq!(pool.lock().users, [2, 2, 1]);
        // Those without users come first, whoever was given back last. Both leases last to the end of the statement.
        leases.retain(|lease| lease.number == 1);
        assert_eq!([pool.take().unwrap().number, pool.take().unwrap().number], [0, 2]);
        leases.clear();
        assert_eq!(pool.lock().users, [0; 3]);
    }

    /// An error of the work is not the device's. Without a device nobody waits.
    #[test]
    fn without_devices_nobody_waits() {
        let devices = [Device::cpu()];
        let pool = Pool::new(&devices, |_| 1);
        let refused = pool.on_free_device(|_| Err::<(), _>(Error::Cancelled));
        assert_eq!(refused, Err(Error::Cancelled));
        assert!(pool.is_alive());
        for _ in 0..2 {
            let result = pool.on_free_device(|_| Err::<(), _>(broken()));
            assert_eq!(result, Err(Error::NoDeviceLeft));
        }
        assert!(!pool.is_alive());
    }
}
