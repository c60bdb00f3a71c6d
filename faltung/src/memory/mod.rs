//! This machine's memory: how much of it may be had, and large pieces of it, of which there may be too little.
//!
//! A process may be held to an address space (`ulimit -v`). Everything that is mapped counts there, used or not: the
//! stacks of threads, and what the C library's allocator sets aside for each of them.
//!
//! A container, or another control group, may have less memory than the machine. The kernel grants its processes more
//! than that, and ends them when they touch it. So an allocation that succeeds says nothing: the limits are asked first
//! ([`reserve`]).

mod cgroup;
mod ledger;

use std::alloc::{Layout, alloc_zeroed};
use std::io::Read;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::{Error, Pixel, Result};
use cgroup::Groups;
use ledger::{Ledger, Observation};

pub use ledger::Reservation;

/// Bytes that can be had without swapping, within the control groups and the address space; None where the system does
/// not say.
pub fn free() -> Option<u64> {
    [available(), address_space()].into_iter().flatten().min()
}

/// Bytes of memory that this process has; None where the system does not say.
pub fn resident() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The most bytes of memory that this process had; None where the system does not say.
pub fn peak() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// What the control groups of this process leave it; None where nothing limits it.
#[must_use]
pub fn control_group_free() -> Option<u64> {
    groups().free()
}

/// What the machine and the control groups have left.
pub fn available() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|listing| kilobytes(&listing, "MemAvailable"));
    [machine, groups().free()].into_iter().flatten().min()
}

/// The control groups of this process. It is taken to stay in those in which it began.
fn groups() -> &'static Groups {
    static GROUPS: OnceLock<Groups> = OnceLock::new();
    GROUPS.get_or_init(|| Groups::find(Path::new("/")))
}

/// What can be had at all. The machine may swap; what a control group may swap is not counted.
fn observe() -> Observation {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (machine, own) = (read("/proc/meminfo"), read("/proc/self/status"));
    let swap = kilobytes(&machine, "SwapFree").unwrap_or(0);
    let machine = kilobytes(&machine, "MemAvailable").map(|bytes| bytes.saturating_add(swap));
    let [resident, mapped] = ["VmRSS", "VmSize"].map(|key| kilobytes(&own, key).unwrap_or(0));
    let space = space_left(&read("/proc/self/limits"), mapped);
    Observation { memory: [machine, groups().free()].into_iter().flatten().min(), resident, space, mapped }
}

/// Longer than a picture takes to be written, short enough to wait for in vain.
const PATIENCE: Duration = Duration::from_secs(5);

static LEDGER: Ledger = Ledger::new(observe, PATIENCE);

/// Reserves so many bytes: until the reservation is dropped, nobody else is promised them. None if they can't be had,
/// after a few seconds where others may give some back.
///
/// To be held while the bytes are allocated and first written, best as long as they are used. On a thread that works
/// [under](Reservation::during) a reservation, that one is used up first.
pub fn reserve(bytes: u64) -> Option<Reservation> {
    LEDGER.reserve(bytes).filter(|_| is_granted(bytes))
}

/// [`reserve`] without waiting.
pub fn try_reserve(bytes: u64) -> Option<Reservation> {
    LEDGER.try_reserve(bytes).filter(|_| is_granted(bytes))
}

/// Reserves so many bytes whether they can be had or not, for work that begins because there is nothing to wait for.
pub fn claim(bytes: u64) -> Reservation {
    LEDGER.claim(bytes)
}

/// Whether the allocator gives so many bytes. In a limited address space the ledger has counted them already; a trial
/// would, for a moment, leave nothing for other threads' small allocations. The address space is taken to stay limited,
/// or not, as at the first call.
fn is_granted(bytes: u64) -> bool {
    static IS_LIMITED: OnceLock<bool> = OnceLock::new();
    *IS_LIMITED.get_or_init(|| address_space().is_some())
        || usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Requests below this many bytes are not held against the system's limits: to ask would take longer than to fill them.
const LARGE: u64 = 1 << 20;

/// [`reserve`] for an allocation that this module makes.
fn reserve_large<T>(length: usize, what: &str) -> Result<Option<Reservation>> {
    let bytes = (length as u64).saturating_mul(size_of::<T>() as u64);
    if bytes < LARGE {
        return Ok(None);
    }
    LEDGER.reserve(bytes).map(Some).ok_or_else(|| short::<T>(length, what))
}

/// What is kept of a limited address space for small allocations. They return no error: if one fails, the process ends.
const SPARE: u64 = 4 << 20;

/// What is left of the address space for large allocations, if it is limited.
pub fn address_space() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let mapped = kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmSize")?;
    space_left(&limits, mapped)
}

/// The same for a process that has `mapped` bytes of it.
fn space_left(limits: &str, mapped: u64) -> Option<u64> {
    Some(address_limit(limits)?.saturating_sub(mapped + SPARE))
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

/// `length` zeros.
///
/// # Errors
/// [`Error::HostMemory`], with the words of `what`.
pub fn zeros<T: Pixel>(length: usize, what: &str) -> Result<Vec<T>> {
    let short = || short::<T>(length, what);
    let layout = Layout::array::<T>(length).map_err(|_| short())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    let _reserved = reserve_large::<T>(length, what)?;
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        return Err(short());
    }
    // SAFETY: from the global allocator, with the layout of this length, which is the capacity; zero bytes are values
    // of u8, u16 and f32, and Pixel is sealed.
    let mut values = unsafe { Vec::from_raw_parts(start, length, length) };
    advise_huge_pages(&mut values);
    Ok(values)
}

/// Asks the system for huge pages. Large memory that is then touched for the first time takes one page fault for each
/// 2 MiB in place of 512.
#[cfg(target_os = "linux")]
fn advise_huge_pages<T: Pixel>(values: &mut [T]) {
    const HUGE: usize = 2 << 20;
    let Range { start, end } = values.as_mut_ptr_range();
    // Only whole huge pages within the values.
    let length = (end.addr() & !(HUGE - 1)).saturating_sub(start.addr().next_multiple_of(HUGE));
    if length > 0 {
        let first = start.map_addr(|address| address.next_multiple_of(HUGE)).cast();
        // SAFETY: the range lies within `values`, and this advice changes no byte. If it is refused, pages stay small.
        let _ = unsafe { libc::madvise(first, length, libc::MADV_HUGEPAGE) };
    }
}

/// Does nothing: only Linux is asked for huge pages.
#[cfg(not(target_os = "linux"))]
fn advise_huge_pages<T: Pixel>(_: &mut [T]) {}

/// Makes `values` so long; what is new is 0.
///
/// # Errors
/// As for [`zeros`].
pub fn resize<T: Pixel>(values: &mut Vec<T>, length: usize, what: &str) -> Result<()> {
    let more = length.saturating_sub(values.capacity());
    let _reserved = reserve_large::<T>(more, what)?;
    values.try_reserve_exact(length.saturating_sub(values.len())).map_err(|_| short::<T>(length, what))?;
    values.resize(length, T::default());
    Ok(())
}

/// An empty vector with room for `length` values.
///
/// # Errors
/// [`Error::HostMemory`], with the words of `what`.
pub fn with_capacity<T>(length: usize, what: &str) -> Result<Vec<T>> {
    let _reserved = reserve_large::<T>(length, what)?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| short::<T>(length, what))?;
    Ok(values)
}

/// The values of an iterator, for which there is room before the first is asked for.
///
/// # Errors
/// As for [`with_capacity`].
pub fn collect<T>(values: impl ExactSizeIterator<Item = T>, what: &str) -> Result<Vec<T>> {
    let mut collected = with_capacity(values.len(), what)?;
    collected.extend(values);
    Ok(collected)
}

/// Reads to the end, or until there are `most` bytes, whichever comes first.
///
/// # Errors
/// The reader's, and [`std::io::ErrorKind::OutOfMemory`].
pub fn read_to_end(reader: impl Read, most: u64) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut reader) = (Vec::new(), reader.take(most));
    loop {
        // As much again as is there: the vector doubles.
        let step = LARGE.max(bytes.len() as u64);
        let _reserved = LEDGER.reserve(step.saturating_mul(2)).ok_or(std::io::ErrorKind::OutOfMemory)?;
        if reader.by_ref().take(step).read_to_end(&mut bytes)? < step as usize {
            return Ok(bytes);
        }
    }
}

/// Whether so many bytes can be had, now or after a few seconds where others may give some back: [`reserve`], given
/// back at once. Others may take them before they are used.
pub fn has_room(bytes: u64) -> bool {
    reserve(bytes).is_some()
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
