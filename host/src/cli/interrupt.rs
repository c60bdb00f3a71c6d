//! Signals: Ctrl-C, and a file that grows past its limit.

/// Makes Ctrl-C, and a polite request to end, remove the files that are being written before the program ends. `say` may
/// tell the person at the terminal.
pub(super) fn clean_up_when_interrupted(say: impl Fn() + Send + 'static) {
    /// What shells report for a program that Ctrl-C ended: 128 + SIGINT.
    const INTERRUPTED: i32 = 130;
    let end = move || {
        say();
        std::process::exit(INTERRUPTED)
    };
    // Without it, Ctrl-C still ends the program, and the output is still whole or not there.
    let _ = ctrlc::set_handler(move || host::files::remove_unfinished(&end));
}

/// Makes a write past `ulimit -f` fail, as an error of its file, where a signal would end the program.
pub(super) fn let_large_files_fail() {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn signal(number: c_int, handler: usize) -> usize;
        }
        /// As <signal.h> has them.
        const SIGXFSZ: c_int = 25;
        const SIG_IGN: usize = 1;
        // SAFETY: the C library's, with its own signature (a handler is an address or one of a few numbers); to ignore a signal
        // runs no code of ours.
        unsafe { signal(SIGXFSZ, SIG_IGN) };
    }
}
