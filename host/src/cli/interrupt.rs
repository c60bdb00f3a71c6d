//! Ctrl-C.

/// Makes Ctrl-C, and a polite request to end, remove the files that are being written before the program ends.
pub(super) fn clean_up_when_interrupted() {
    /// What shells report for a program that Ctrl-C ended: 128 + SIGINT.
    const INTERRUPTED: i32 = 130;
    // Without it, Ctrl-C still ends the program, and the output is still whole or not there.
    let _ = ctrlc::set_handler(|| host::files::remove_unfinished(|| std::process::exit(INTERRUPTED)));
}
