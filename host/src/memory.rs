//! This machine's memory: how much of it may be had, and large pieces of it, of which there may be too little.
//!
//! A process may be held to an address space (`ulimit -v`). Everything that is mapped counts there, used or not: the stacks
//! of threads, and what the C library's allocator sets aside for each of them.

use std::alloc::{Layout, alloc_zeroed};

use crate::{Error, Pixel, Result};

/// Address space that a thread takes: its stack, 2 MiB, and some of what it works with. (The heap of its own, 64 MiB, that the
/// C library would set aside for it is forgone: [`fit_threads`].)
const THREAD: u64 = 4 << 20;

/// Bytes that can be had without swapping and without leaving the address space; None where the system does not say.
pub(crate) fn free() -> Option<u64> {
    [available(), address_space()].into_iter().flatten().min()
}

/// What the machine has left.
fn available() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// What is left of the address space, if that is limited.
pub(crate) fn address_space() -> Option<u64> {
    let limit = address_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)?;
    let mapped = kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmSize")?;
    Some(limit.saturating_sub(mapped))
}

/// The bytes of a line such as `MemAvailable:  123 kB`.
fn kilobytes(listing: &str, key: &str) -> Option<u64> {
    let (_, value) = listing.lines().filter_map(|line| line.split_once(':')).find(|(found, _)| *found == key)?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the address space, if there is one: `Max address space  SOFT  HARD  bytes`.
fn address_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// How many threads may begin: at most `wanted`, at least one, and no more than take a quarter of a limited address space.
pub(crate) fn threads_that_fit(wanted: usize) -> usize {
    let fit = |left: u64| usize::try_from(left / 4 / THREAD).unwrap_or(usize::MAX);
    address_space().map_or(wanted, |left| wanted.min(fit(left))).max(1)
}

/// The bytes that are left for pictures when these threads have begun; None where the system does not say.
pub(crate) fn free_beside(threads: usize) -> Option<u64> {
    let left = address_space().map(|left| left.saturating_sub(threads as u64 * THREAD));
    [available(), left].into_iter().flatten().min()
}

/// Where the address space is limited, makes the threads that compute on the CPU fewer, and lets all threads share one heap:
/// a thread that could not begin would end the program, and heaps that are set aside would leave nothing for pictures. For a
/// program to call first; where the address space is not limited it does nothing.
pub fn fit_threads() {
    if address_space().is_none() {
        return;
    }
    one_heap();
    // As rayon, whose threads they are, counts them.
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok()).filter(|&count| count > 0);
    let wanted = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // An error means that they have begun.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads_that_fit(wanted)).build_global();
}

/// Has the C library keep one heap for all threads.
fn one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        /// As <malloc.h> has it.
        const M_ARENA_MAX: c_int = -8;
        // SAFETY: glibc's, with its own signature; it takes the allocator's lock, and any two numbers. If it refuses, the heaps
        // stay several.
        unsafe { mallopt(M_ARENA_MAX, 1) };
    }
}

/// `length` zeros.
///
/// # Errors
/// [`Error::HostMemory`], with the words of `what`.
pub(crate) fn zeros<T: Pixel>(length: usize, what: &str) -> Result<Vec<T>> {
    let short = || short::<T>(length, what);
    let layout = Layout::array::<T>(length).map_err(|_| short())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        return Err(short());
    }
    // SAFETY: from the global allocator, with the layout of this length, which is the capacity; zero bytes are values of u8,
    // u16 and f32, and Pixel is sealed.
    Ok(unsafe { Vec::from_raw_parts(start, length, length) })
}

/// Makes `values` so long; what is new is 0.
///
/// # Errors
/// As for [`zeros`].
pub(crate) fn resize<T: Pixel>(values: &mut Vec<T>, length: usize, what: &str) -> Result<()> {
    values.try_reserve_exact(length.saturating_sub(values.len())).map_err(|_| short::<T>(length, what))?;
    values.resize(length, T::default());
    Ok(())
}

/// Whether so many bytes can be had now, before others' code asks for them in a way that would end the program.
pub(crate) fn has_room(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

fn short<T>(length: usize, what: &str) -> Error {
    let needed = length as u128 * size_of::<T>() as u128;
    Error::HostMemory { what: what.into(), needed, free: u128::from(free().unwrap_or(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         204800000            unlimited            bytes     \n";
        assert_eq!(address_limit(limits), Some(204_800_000));
        assert_eq!(address_limit(&limits.replace("204800000", "unlimited")), None);
        assert_eq!(kilobytes("VmPeak:\t   9 kB\nVmSize:\t   8 kB\n", "VmSize"), Some(8192));
        assert_eq!(kilobytes("VmSize: many", "VmSize"), None);
    }

    #[test]
    fn too_much_is_an_error() {
        let much = isize::MAX as usize / 4;
        assert!(matches!(zeros::<f32>(much, "for a test"), Err(Error::HostMemory { .. })));
        assert!(matches!(zeros::<f32>(usize::MAX, "for a test"), Err(Error::HostMemory { .. })));
        assert!(matches!(resize::<f32>(&mut Vec::new(), much, "for a test"), Err(Error::HostMemory { .. })));
        assert!(!has_room(u64::MAX / 2) && has_room(1000));
        assert_eq!(zeros::<u16>(3, "for a test").unwrap(), [0; 3]);
        assert!(zeros::<u16>(0, "for a test").unwrap().is_empty());
        let mut values = vec![1.0_f32];
        resize(&mut values, 2, "for a test").unwrap();
        assert_eq!(values, [1.0, 0.0]);
    }
}
