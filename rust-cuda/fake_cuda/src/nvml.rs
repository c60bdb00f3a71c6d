//! The functions of NVML that programs read clocks with, for tests that link this library as `libnvidia-ml.so.1`.
//!
//! The variable `FAKE_NVML` has the states of the GPU, in their order, between semicolons. A state is five numbers
//! between commas: the clocks of multiprocessors and memory in MHz, the temperature in degrees, the power in
//! milliwatts, and the bits of the throttle reasons. The next state begins when the reasons were read. The last one
//! stays. Without the variable NVML does not start.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Codes of NVML.
const SUCCESS: c_uint = 0;
const UNINITIALIZED: c_uint = 1;
const INVALID_ARGUMENT: c_uint = 2;
const NOT_FOUND: c_uint = 6;

/// The highest clock of the multiprocessors, as the driver of this library says.
const SM_MHZ_MAX: u64 = 1980;

/// How many states have been read.
static READ: AtomicUsize = AtomicUsize::new(0);

/// A number of the present state.
fn now(place: usize) -> Option<u64> {
    let text = std::env::var("FAKE_NVML").ok()?;
    let states: Vec<&str> = text.split(';').collect();
    let state = states[READ.load(Ordering::Relaxed).min(states.len() - 1)];
    state.split(',').nth(place)?.trim().parse().ok()
}

/// Writes a number where the caller wants it.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn put<T: TryFrom<u64>>(value: *mut T, found: Option<u64>) -> c_uint {
    let found = found.and_then(|found| T::try_from(found).ok());
    match found {
        None => UNINITIALIZED,
        Some(_) if value.is_null() => INVALID_ARGUMENT,
        Some(found) => {
            // SAFETY: the pointer is not null, so it is valid, as required above.
            unsafe { value.write(found) };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_uint {
    if now(0).is_some() { SUCCESS } else { UNINITIALIZED }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_uint {
    SUCCESS
}

/// The GPU of the driver's attributes: bus 1, device 0, domain 0.
///
/// # Safety
/// `address` is a C string. `device` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, device: *mut *mut c_void) -> c_uint {
    // SAFETY: a C string, as required above.
    if unsafe { CStr::from_ptr(address) } != c"00000000:01:00.0" {
        return NOT_FOUND;
    }
    if device.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the pointer is not null, so it is valid, as required above. The handle is never used as an address.
    unsafe { device.write(std::ptr::without_provenance_mut(1)) };
    SUCCESS
}

/// Clock 1 is that of the multiprocessors, clock 2 that of the memory.
///
/// # Safety
/// `mhz` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetClockInfo(_device: *mut c_void, clock: c_int, mhz: *mut c_uint) -> c_uint {
    let found = match clock {
        1 => now(0),
        2 => now(1),
        _ => return INVALID_ARGUMENT,
    };
    // SAFETY: as required above.
    unsafe { put(mhz, found) }
}

/// # Safety
/// `mhz` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(_device: *mut c_void, clock: c_int, mhz: *mut c_uint) -> c_uint {
    // SAFETY: as required above.
    if clock == 1 { unsafe { put(mhz, Some(SM_MHZ_MAX)) } } else { INVALID_ARGUMENT }
}

/// # Safety
/// `degrees` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(_device: *mut c_void, _sensor: c_int, degrees: *mut c_uint) -> c_uint {
    // SAFETY: as required above.
    unsafe { put(degrees, now(2)) }
}

/// # Safety
/// `milliwatts` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(_device: *mut c_void, milliwatts: *mut c_uint) -> c_uint {
    // SAFETY: as required above.
    unsafe { put(milliwatts, now(3)) }
}

/// The last number of a state: the next one begins.
///
/// # Safety
/// `reasons` is null or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    _device: *mut c_void,
    reasons: *mut c_ulonglong,
) -> c_uint {
    // SAFETY: as required above.
    let code = unsafe { put(reasons, now(4)) };
    READ.fetch_add(1, Ordering::Relaxed);
    code
}
