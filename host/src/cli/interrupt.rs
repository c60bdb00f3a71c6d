//! Ctrl-C.

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
