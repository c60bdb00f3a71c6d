//! Contexts: the stack of each thread, and the primary context of the device.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, FREES_CONTEXT, Failure, Outcome, PLAIN, State, WAITS_OR_FREES, put};
use crate::table::{Handle, Kind, Table};

thread_local! {
    /// The context stack of this thread, the current one last. 0 is no context.
    ///
    /// It is never destroyed: the destructors of other values of the thread may still call the driver when it ends.
    static STACK: RefCell<ManuallyDrop<Vec<Handle>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// A context. All that it has is in the tables of the state.
pub(crate) struct Context;

/// The contexts, among them the primary one.
pub(crate) struct Contexts {
    table: Table<Context>,
    primary: Option<Handle>,
    /// The reference count of the primary context.
    retained: u32,
}

impl Default for Contexts {
    fn default() -> Self {
        Self { table: Table::new(Kind::Context), primary: None, retained: 0 }
    }
}

impl Contexts {
    /// The contexts that exist.
    pub(crate) fn live(&self) -> usize {
        self.table.iter().count()
    }
}

impl State {
    /// The current context of this thread.
    pub(crate) fn current(&self) -> Outcome<Handle> {
        let top = STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0));
        if top == 0 {
            return Err(Failure::misuse(Code::INVALID_CONTEXT, "no context is current on this thread"));
        }
        if self.contexts.table.get(top).is_err() {
            let text = format!("the current context {top:#x} was destroyed");
            return Err(Failure::misuse(Code::CONTEXT_IS_DESTROYED, text));
        }
        Ok(top)
    }
}

/// Empties the context stack of this thread.
pub(crate) fn forget_current() {
    STACK.with_borrow_mut(|stack| stack.clear());
}

impl Driver {
    /// Ends a context after its work. All objects that it still has are leaks.
    fn destroy(&mut self, context: Handle) -> Outcome {
        // A failure of the work does not matter any more.
        let _ = self.drain(|stream| stream.context == context);
        self.contexts.table.remove(context)?;
        let is_lost = self.lost.is_some();
        let State {
            streams,
            events,
            modules,
            functions,
            graphs,
            graph_nodes,
            graph_execs,
            memory,
            page_locked,
            counts,
            ..
        } = &mut **self;
        // Default streams, and streams that were destroyed before, with work left, are no leaks.
        streams.retain(|stream| stream.is_live() || stream.context != context);
        let leaked = [
            (Kind::Stream.name(), streams.retain(|stream| stream.context != context)),
            (Kind::Event.name(), events.retain(|event| event.context != context)),
            (Kind::Module.name(), modules.retain(|module| module.context != context)),
            (Kind::Graph.name(), graphs.retain(|graph| graph.context != context)),
            (Kind::GraphExec.name(), graph_execs.retain(|graph| graph.context != context)),
            ("device_memory", memory.end_context(context)),
            ("page_locked_memory", page_locked.end_context(context)),
        ];
        graph_nodes.retain(|node| graphs.get(node.graph).is_ok());
        functions.retain(|function| modules.get(function.module).is_ok());
        for (name, count) in leaked {
            // Nothing of a lost device can be freed.
            if count > 0 && !is_lost {
                *counts.leaked.entry(name).or_default() += count;
            }
        }
        // A kernel's failure ends with its context, the loss of a device does not.
        if self.lost.is_some_and(Code::ends_the_context_only) {
            self.lost = None;
        }
        self.changed();
        Ok(())
    }

    /// Releases the primary context. The last release ends it.
    fn release_primary(&mut self) -> Outcome {
        let Some(primary) = self.contexts.primary else {
            return Err(Failure::misuse(Code::INVALID_CONTEXT, "the primary context is not retained"));
        };
        self.contexts.retained -= 1;
        if self.contexts.retained == 0 {
            self.contexts.primary = None;
            self.destroy(primary)?;
        }
        Ok(())
    }
}

/// Replaces the current context of this thread.
fn set_current(context: Handle) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
}

driver_functions! {
    /// A context that is retained already is returned again, as by the real driver.
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) at PLAIN, |driver| {
        driver.device(device)?;
        if let Some(code) = driver.lost {
            return Err(code.into());
        }
        let primary = match driver.contexts.primary {
            Some(primary) => primary,
            None => driver.contexts.table.insert(Context),
        };
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(context, primary) }?;
        driver.contexts.primary = Some(primary);
        driver.contexts.retained += 1;
        Ok(())
    }

    /// The last release ends the context.
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) at FREES_CONTEXT, |driver| {
        driver.device(device)?;
        driver.release_primary()
    }

    /// The flags set how the host waits, which has no effect here.
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) at PLAIN, |driver| {
        driver.device(device)
    }

    /// Whether the primary context is retained.
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) at PLAIN, |driver| {
        driver.device(device)?;
        // SAFETY: each pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe {
            put(flags, 0)?;
            put(active, c_int::from(driver.contexts.primary.is_some()))
        }
    }

    /// Creates a context that is not the primary one, and makes it current.
    fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, device: c_int) at PLAIN, |driver| {
        driver.device(device)?;
        let made = driver.contexts.table.insert(Context);
        STACK.with_borrow_mut(|stack| stack.push(made));
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(context, made) }
    }

    /// Fails for the primary context.
    fn cuCtxDestroy_v2(context: Handle) at FREES_CONTEXT, |driver| {
        if driver.contexts.primary == Some(context) {
            return Err(Failure::misuse(Code::INVALID_CONTEXT, "the primary context is released, not destroyed"));
        }
        if STACK.with_borrow(|stack| stack.last() == Some(&context)) {
            set_current(0);
        }
        driver.destroy(context)
    }

    /// Null makes no context current. It fails once the device is lost; the real driver's may not.
    fn cuCtxSetCurrent(context: Handle) at PLAIN, |driver| {
        if context != 0 {
            driver.contexts.table.get(context)?;
            if let Some(code) = driver.lost {
                return Err(code.into());
            }
        }
        set_current(context);
        Ok(())
    }

    /// Null if there is no current context.
    fn cuCtxGetCurrent(context: *mut Handle) at PLAIN, |_driver| {
        let top = STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0));
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(context, top) }
    }

    /// Pushes a context.
    fn cuCtxPushCurrent_v2(context: Handle) at PLAIN, |driver| {
        driver.contexts.table.get(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    }

    /// Pops the current context.
    fn cuCtxPopCurrent_v2(context: *mut Handle) at PLAIN, |driver| {
        let top = driver.current()?;
        STACK.with_borrow_mut(|stack| stack.pop());
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(context, top) }
    }

    /// There is one device.
    fn cuCtxGetDevice(device: *mut c_int) at CONTEXT, |_driver| {
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(device, 0) }
    }

    /// The API version of the functions.
    fn cuCtxGetApiVersion(_context: *mut c_void, version: *mut c_uint) at PLAIN, |_driver| {
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(version, 3020) }
    }

    /// One priority for all streams.
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) at CONTEXT, |_driver| {
        // SAFETY: each pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe {
            put(least, 0)?;
            put(greatest, 0)
        }
    }

    /// Waits for all streams of the context.
    fn cuCtxSynchronize() at WAITS_OR_FREES, |driver| {
        let context = driver.current()?;
        driver.refuse_to_wait("cuCtxSynchronize", |_, stream| stream.context == context)?;
        driver.drain(|stream| stream.context == context)
    }
}
