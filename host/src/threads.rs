//! Fits threads and heaps to limited memory.

use faltung::memory::{address_space, available, control_group_free};

/// Fits the program to its limits. Call it first.
///
/// - A limited address space (`ulimit -v`) gets fewer threads and one heap for all of them. A thread that can't start
///   would end the program, and a heap for each thread would leave nothing for pictures.
/// - A control group with little memory gets freed memory back at once.
/// - `RAYON_NUM_THREADS` counts up to the number of cores, or to 256 if these are fewer. More threads would only wait.
pub fn fit_threads() {
    const MOST_THREADS: usize = 256;
    /// Below this, the memory that the C library keeps would be missing elsewhere.
    const LITTLE: u64 = 4 << 30;
    if control_group_free().is_some_and(|free| free < LITTLE) {
        allocator::return_freed_memory();
    }
    // The count that rayon would use.
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok()).filter(|&count| count > 0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = cores.max(MOST_THREADS);
    if address_space().is_some() {
        allocator::one_heap();
    } else if asked.is_none_or(|count| count <= most) {
        return;
    }
    let wanted = asked.unwrap_or(cores).min(most);
    // An error means that the threads run already.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads_that_fit(wanted)).build_global();
}

/// Makes the C library return freed memory of 1 MiB and more to the system at once, for a process with a limit.
pub fn return_freed_memory() {
    allocator::return_freed_memory();
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

/// Address space that a thread takes: its stack of 2 MiB, and some of the memory that it works with. The C library
/// would also reserve a heap of 64 MiB for each thread, which [`fit_threads`] prevents.
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
