//! Allocations of the host that return an error if it has too little memory.

use std::collections::TryReserveError;
use std::sync::OnceLock;

/// Whether the host can allocate `bytes` and 8 MiB more. Nothing is reserved.
///
/// The 8 MiB are for small allocations of the standard library. If one of them fails, the process ends.
pub(crate) fn has_room(bytes: usize) -> bool {
    const KEPT: usize = 8 << 20;
    let bytes = bytes.saturating_add(KEPT);
    if let Some(left) = address_space() {
        // A trial allocation of all that is left would, for a moment, leave nothing for other threads.
        return bytes <= left;
    }
    let mut tried = Vec::<u8>::new();
    let is_granted = tried.try_reserve_exact(bytes).is_ok();
    // The compiler may remove an allocation that nobody uses.
    std::hint::black_box(&mut tried);
    is_granted
}

/// Bytes that are left of the address space (`ulimit -v`). None if it has no limit, or if the system does not tell it.
/// The limit is read once: the function assumes that it does not change.
fn address_space() -> Option<usize> {
    static LIMIT: OnceLock<Option<usize>> = OnceLock::new();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let limit = (*LIMIT.get_or_init(|| number_after(&read("/proc/self/limits"), "Max address space")))?;
    let mapped = number_after(&read("/proc/self/status"), "VmSize:").unwrap_or(usize::MAX);
    Some(limit.saturating_sub(mapped.saturating_mul(1024)))
}

/// The number that follows `key` in a line of a listing.
fn number_after(listing: &str, key: &str) -> Option<usize> {
    listing.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// `length` values, or an error if the host has too little memory.
pub(crate) fn filled<T>(length: usize, value: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(length)?;
    values.resize_with(length, value);
    Ok(values.into())
}
