//! What a test in the same process calls. It finds the functions in the library by their names.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::driver::{Driver, State};
use crate::settings::Settings;
use crate::work::Span;

/// Forgets everything, objects included, and takes settings; see [`crate::settings`]. Returns 0, or 1 if they are wrong.
///
/// # Safety
/// * `settings` is a C string.
/// * No other thread is in a call of this library, and no handle of before is used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_reset(settings: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(settings) }.to_string_lossy();
    match Settings::parse(&text) {
        Ok(settings) => {
            let mut driver = Driver::lock();
            *driver = State::new(settings);
            driver.changed();
            0
        }
        Err(error) => {
            eprintln!("fake_cuda: {error}");
            1
        }
    }
}

/// Says that memory is lent to the library call that the test is about to make.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_lend(memory: *const c_void, bytes: usize) {
    Driver::lock().lend(Span { start: memory.addr(), bytes });
}

/// Says that the call has returned. Whatever uses the lent memory from now on is reported, and is not done.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_returned() {
    Driver::lock().has_returned();
}

/// Says that memory which was lent may be used for anything again: it is freed, or belongs to somebody else.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_forget() {
    Driver::lock().forget_lent();
}

/// Writes the report, see [`crate::counts`], with a NUL, cut to `room` bytes. Returns the bytes that all of it takes.
///
/// # Safety
/// * `text` is valid for writes of `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_report(text: *mut c_char, room: usize) -> usize {
    let report = Driver::lock().report();
    let length = report.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: the caller has `room` bytes there, at least `length` and a NUL.
        unsafe {
            text.copy_from_nonoverlapping(report.as_ptr().cast(), length);
            text.add(length).write(0);
        }
    }
    report.len() + 1
}

/// Writes the report to the file of the settings, when the process ends or the library is closed.
extern "C" fn write_report() {
    let driver = Driver::lock();
    if let Some(path) = &driver.settings.report
        && let Err(error) = std::fs::write(path, driver.report())
    {
        eprintln!("fake_cuda: {}: {error}", path.display());
    }
}

/// Called by the loader at the end.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = write_report;
