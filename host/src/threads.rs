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
        give_back_what_is_freed();
    }
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
    /// `M_ARENA_MAX` of <malloc.h>.
    const ARENA_MAX: i32 = -8;
    set_allocator(ARENA_MAX, 1);
}

/// Has the C library return freed pieces of 1 MiB and more to the system. By itself it keeps up to 64 MiB for each
/// heap.
fn give_back_what_is_freed() {
    /// `M_MMAP_THRESHOLD` of <malloc.h>.
    const MMAP_THRESHOLD: i32 = -3;
    set_allocator(MMAP_THRESHOLD, 1 << 20);
}

/// Sets a parameter of the C library's allocator, where that is glibc's.
fn set_allocator(parameter: i32, value: i32) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: glibc's, with its own signature; it takes the allocator's lock, and any two numbers. If it refuses,
        // the allocator stays as it is.
        unsafe { mallopt(parameter, value) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = (parameter, value);
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
