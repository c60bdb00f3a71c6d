//! Whether this process is a child of `fork`. A child has none of its parent's threads, and can't use its CUDA context.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks that lie between this process and the one that has loaded the module.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs between a process and its descendants. Unlike the process's own number, it is read without a
/// system call.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Counts the forks from now on.
///
/// # Errors
/// The C library's error, if it has no memory.
pub(crate) fn count() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the function only adds to an atomic number, which is allowed in a child of a process with threads.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if status != 0 {
            return Err(std::io::Error::from_raw_os_error(status));
        }
    }
    Ok(())
}
