//! Panics of kernels: each is a defect with its line. Nothing is printed for them.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether the host thread runs a fiber.
    static IN_FIBER: Cell<bool> = const { Cell::new(false) };
    /// The place of the last panic of a fiber: `FILE:LINE:COLUMN`.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic of a fiber.
pub(crate) struct Panic {
    pub(crate) payload: Box<dyn std::any::Any + Send>,
    /// None if the program has replaced the hook, or if nothing called it.
    pub(crate) place: Option<String>,
}

/// Notes the place of a panic. False for one of a thread that runs no fiber.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let in_fiber = IN_FIBER.try_with(Cell::get).unwrap_or(false);
    if in_fiber {
        let place = info.location().map(ToString::to_string);
        let _ = PLACE.try_with(|last| *last.borrow_mut() = place);
    }
    in_fiber
}

/// Sets a panic hook, once for the process. For threads without fibers it calls the hook that was set before.
pub(crate) fn set_hook_once() {
    static SET: Once = Once::new();
    // While a thread panics, it can't set a hook.
    if std::thread::panicking() {
        return;
    }
    SET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !note(info) {
                before(info);
            }
        }));
    });
}

/// Runs a fiber, and catches its panic.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    PLACE.set(None);
    IN_FIBER.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IN_FIBER.set(false);
    result.map_err(|payload| Panic { payload, place: PLACE.take() })
}
