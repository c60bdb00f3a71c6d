//! Functions for a test in the same process, which finds them in the library by their names.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::driver::{Driver, State};
use crate::settings::Settings;
use crate::work::Span;

/// Resets all state, objects included, and sets the settings; see [`crate::settings`].
///
/// Returns 0, or 1 if the settings are wrong.
///
/// # Safety
/// - `settings` is a C string.
/// - No other thread is in a call of this library.
/// - No earlier handle is used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_reset(settings: *const c_char) -> c_int {
    // SAFETY: `settings` is a C string, as required above.
    let text = unsafe { CStr::from_ptr(settings) }.to_string_lossy();
    match Settings::parse(&text) {
        Ok(settings) => {
            let mut driver = Driver::lock();
            *driver = State::new(settings);
            // As in a process that has just begun.
            crate::context::forget_current();
            driver.changed();
            0
        }
        Err(error) => {
            eprintln!("fake_cuda: {error}");
            1
        }
    }
}

/// Declares that the test lends memory to its next library call.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_lend(memory: *const c_void, bytes: usize) {
    Driver::lock().lend(Span { start: memory.addr(), bytes });
}

/// Declares that the call has returned. Later work on the lent memory is reported and dropped.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_returned() {
    Driver::lock().has_returned();
}

/// Declares that lent memory may be used for anything again, because its owner has freed or passed it on.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_forget() {
    Driver::lock().forget_lent();
}

/// Writes the report with a NUL, cut to `room` bytes; see [`crate::counts`]. Returns the size of the whole report.
///
/// # Safety
/// - `text` is valid for writes of `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_report(text: *mut c_char, room: usize) -> usize {
    let report = Driver::lock().report();
    let length = report.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: `text` has `room` bytes, at least `length` and a NUL.
        unsafe {
            text.copy_from_nonoverlapping(report.as_ptr().cast(), length);
            text.add(length).write(0);
        }
    }
    report.len() + 1
}

/// Writes the report to the file of the settings when the process ends or the library is closed.
extern "C" fn write_report() {
    let driver = Driver::lock();
    if let Some(path) = &driver.settings.report
        && let Err(error) = std::fs::write(path, driver.report())
    {
        eprintln!("fake_cuda: {}: {error}", path.display());
    }
}

/// The loader calls this at the end.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = write_report;
