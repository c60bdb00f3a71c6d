//! Work without the GIL: in a thread pool of the module, and interrupted by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::ThreadPool;

use crate::forks;

/// Multiply-adds from which on a call looks for Ctrl-C: some 20 ms of one core.
const LONG: usize = 1 << 29;

/// How often a long call looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(30);

/// The pool of this process. A child of `fork` has none of its parent's threads, so it gets a pool of its own.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut kept = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = forks::generation();
    if let Some((owner, pool)) = &*kept
        && *owner == generation
    {
        return Ok(Arc::clone(pool));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|number| format!("faltung {number}"))
        .build()
        .map_err(|error| PyRuntimeError::new_err(format!("the threads can't be started: {error}")))?;
    let pool = Arc::new(pool);
    // The pool of the parent is leaked: its drop would wait for threads that the child does not have.
    std::mem::forget(kept.replace((generation, Arc::clone(&pool))));
    Ok(pool)
}

/// One line about the CPU that computes, with the number of threads of the module's pool. Outside of a pool, rayon
/// would start its global pool.
pub(crate) fn describe_cpu() -> PyResult<String> {
    Ok(faltung::with_pool(&pool()?, || faltung::Device::cpu().describe()))
}

/// Runs `job`, which makes `work` multiply-adds. All but very short jobs run without the GIL.
///
/// A job runs on the calling thread and on those of the pool. A long job runs on those of the pool alone, and ends
/// early when a signal handler raises an exception.
///
/// # Errors
/// Those of the job, and what a signal handler raises.
pub(crate) fn compute(py: Python<'_>, work: usize, job: impl FnOnce() -> faltung::Result<()> + Send) -> PyResult<()> {
    let pool = pool()?;
    if work < faltung::nd::SERIAL {
        // Short jobs need the module's pool, too, because rayon's global pool has no threads in a child of `fork`. For
        // the same reason the loops of a job are those of `faltung::parallel`.
        return faltung::with_pool(&pool, job).map_err(exception);
    }
    if work < LONG {
        return py.detach(|| faltung::with_pool(&pool, job)).map_err(exception);
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = sync_channel::<()>(1);
            let (pool, cancelled) = (&pool, &cancelled);
            let worker = scope.spawn(move || {
                let result = pool.install(|| faltung::cancellable(cancelled, job));
                let _ = done.send(()); // fails if nobody waits any more
                result
            });
            let mut signal = Ok(());
            while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                signal = Python::attach(|py| py.check_signals());
                if signal.is_err() {
                    cancelled.store(true, Ordering::Relaxed);
                    break;
                }
            }
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            signal?;
            result.map_err(exception)
        })
    })
}

/// The exception for an error of the library.
pub(crate) fn exception(error: faltung::Error) -> PyErr {
    use faltung::Error as E;
    let text = error.to_string();
    match error {
        E::DeviceMemory { .. } | E::HostMemory { .. } | E::PageLockedMemory { .. } => PyMemoryError::new_err(text),
        E::NoDevice { .. }
        | E::NoDeviceLeft
        | E::DriverTooOld { .. }
        | E::KernelRefused { .. }
        | E::Driver { .. }
        | E::DeviceLost { .. }
        | E::OtherDevice { .. } => PyRuntimeError::new_err(text),
        E::Cancelled => PyKeyboardInterrupt::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
