//! Panics of kernels: each is a defect with its line. Nothing is printed for them.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What the host thread does. It tells whether a fiber has panicked. An access to [`PLACE`] takes longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It runs no fiber.
    Outside,
    InFiber,
    /// It runs a fiber that has panicked.
    Panicked,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Outside) };
    /// The place of the last panic of a fiber: `FILE:LINE:COLUMN`.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic of a fiber.
pub(crate) struct Panic {
    pub(crate) payload: Box<dyn std::any::Any + Send>,
    /// None if the program has replaced the hook, or if nothing called it.
    pub(crate) place: Option<String>,
}

/// Notes the place of a panic. False if the thread runs no fiber.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let in_fiber = STATE.try_with(Cell::get).is_ok_and(|state| state != State::Outside);
    if in_fiber {
        let place = info.location().map(ToString::to_string);
        let _ = PLACE.try_with(|last| *last.borrow_mut() = place);
        let _ = STATE.try_with(|state| state.set(State::Panicked));
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
    // A kernel's closure may launch another kernel, whose blocks run on this host thread.
    let outer = STATE.replace(State::InFiber);
    let result = catch_unwind(AssertUnwindSafe(run));
    let state = STATE.replace(outer);
    result.map_err(|payload| Panic { payload, place: PLACE.take().filter(|_| state == State::Panicked) })
}
