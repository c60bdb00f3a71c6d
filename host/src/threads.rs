//! Threads and heaps of a program whose memory is limited.

use faltung::memory::{address_space, available, control_group_free};

/// Where the address space is limited, makes the threads that compute on the CPU fewer, and lets all threads share one
/// heap: a thread that could not begin would end the program, and heaps that are set aside would leave nothing for
/// pictures. Where a control group leaves little memory, what is freed is given back at once. For a program to call
/// first; where nothing is limited it does nothing.
pub fn fit_threads() {
    /// Below this, what the C library keeps would be missing.
    const LITTLE: u64 = 4 << 30;
    if control_group_free().is_some_and(|free| free < LITTLE) {
        allocator::return_freed_memory();
    }
    if address_space().is_none() {
        return;
    }
    allocator::one_heap();
    // As rayon, whose threads they are, counts them.
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok()).filter(|&count| count > 0);
    let wanted = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // An error means that they have begun.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads_that_fit(wanted)).build_global();
}

/// The parameters of glibc's allocator. Another C library's allocator stays as it is.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator {
    /// Keeps one heap for all threads.
    pub(super) fn one_heap() {
        set(libc::M_ARENA_MAX, 1);
    }

    /// Returns freed memory of 1 MiB and more to the system. By itself glibc keeps up to 64 MiB for each heap.
    pub(super) fn return_freed_memory() {
        set(libc::M_MMAP_THRESHOLD, 1 << 20);
    }

    fn set(parameter: libc::c_int, value: libc::c_int) {
        // SAFETY: `mallopt` takes the allocator's lock, and any two numbers. If it refuses, nothing changes.
        unsafe { libc::mallopt(parameter, value) };
    }
}
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod allocator {
    pub(super) fn one_heap() {}
    pub(super) fn return_freed_memory() {}
}

/// Address space that a thread takes: its stack, 2 MiB, and some of what it works with. (The heap of its own, 64 MiB,
/// that the C library would set aside for it is forgone: [`fit_threads`].)
const THREAD: u64 = 4 << 20;

/// How many threads may begin: at most `wanted`, at least one, and no more than take a quarter of a limited address
/// space.
pub(crate) fn threads_that_fit(wanted: usize) -> usize {
    let fit = |left: u64| usize::try_from(left / 4 / THREAD).unwrap_or(usize::MAX);
    address_space().map_or(wanted, |left| wanted.min(fit(left))).max(1)
}

/// The bytes that are left for pictures when these threads have begun; None where the system does not say.
pub(crate) fn free_beside(threads: usize) -> Option<u64> {
    let left = address_space().map(|left| left.saturating_sub(threads as u64 * THREAD));
    [available(), left].into_iter().flatten().min()
}
