//! Signals: SIGINT, SIGTERM and SIGHUP clean up; SIGXFSZ becomes an error of the file.

/// Handles the signals that ask a program to end: INT (Ctrl-C), TERM and HUP. Removes the unfinished files, then ends
/// the program. The exit status is 128 and the signal's number, as shells report it. A signal that was ignored when the
/// program started stays ignored, as `nohup` needs it. `say` may print a message.
///
/// The program ends at once, without its exit handlers: those of the CUDA driver must not run while other threads call
/// it.
pub(super) fn clean_up_when_interrupted(say: impl Fn() + Send + 'static) {
    #[cfg(unix)]
    {
        // Without the thread a signal still ends the program, and output files are still whole or absent.
        let _ = unix::clean_up(say);
    }
    #[cfg(not(unix))]
    let _ = say;
}

#[cfg(unix)]
mod unix {
    use std::ffi::c_int;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::register_conditional_shutdown;
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::exit;

    /// What shells report for a program that a signal ended.
    fn status(signal: c_int) -> c_int {
        128 + signal
    }

    /// Begins a thread that waits for the signals.
    pub(super) fn clean_up(say: impl Fn() + Send + 'static) -> io::Result<()> {
        let wanted: Vec<c_int> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)).collect();
        let is_ending = Arc::new(AtomicBool::new(false));
        for &signal in &wanted {
            // A second signal ends the program at once, because the clean-up may wait for a disk.
            register_conditional_shutdown(signal, status(signal), Arc::clone(&is_ending))?;
        }
        let mut signals = Signals::new(&wanted)?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            is_ending.store(true, Ordering::SeqCst);
            host::files::remove_unfinished(|| {
                say();
                exit(status(signal))
            });
        })?;
        Ok(())
    }

    /// Whether a signal is ignored now.
    fn is_ignored(signal: c_int) -> bool {
        // SAFETY: `sigaction` is plain data, for which zeros are a value. Without a new action the call only writes the
        // old one.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
        }
    }
}

/// Makes a write past `ulimit -f` fail, as an error of its file, where a signal would end the program.
pub(super) fn let_large_files_fail() {
    #[cfg(unix)]
    // SAFETY: SIG_IGN installs no handler, so no code runs in a signal context.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
