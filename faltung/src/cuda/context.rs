//! The current context of a thread, which every driver call needs and which belongs to the caller.

use std::marker::PhantomData;

use cust::context::ContextHandle as _;
use cust::sys::CUcontext;

use super::Gpu;
use super::status::{Failure, checked};
use crate::{Error, Result};

unsafe extern "C" {
    fn cuCtxGetCurrent(context: *mut CUcontext) -> u32;
    fn cuCtxSetCurrent(context: CUcontext) -> u32;
}

/// What is being done when a context is made the current one.
const ENTER: &str = "switch to the device's context";

/// A guard of this thread's current context. Its drop restores the context that was current before.
#[must_use]
pub(super) struct Entered {
    /// The context to go back to; None if it is the device's own.
    before: Option<CUcontext>,
    /// The current context is a thread's own.
    not_send: PhantomData<*const ()>,
}

/// The current context of this thread; null if there is none.
fn current() -> Result<CUcontext, Failure> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    checked(unsafe { cuCtxGetCurrent(&raw mut context) })?;
    Ok(context)
}

impl Entered {
    /// The context of this thread, to be restored by whoever changes it.
    pub(super) fn keep() -> Result<Self, Failure> {
        Ok(Self { before: Some(current()?), not_send: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the handle was the current one when this time began. Whoever destroyed it since made it unusable
            // for this thread, too. The driver then answers with a status, and there is nobody to tell.
            let _ = checked(unsafe { cuCtxSetCurrent(before) });
        }
    }
}

impl Gpu {
    /// Makes the device's context the current one of this thread for as long as the answer lives.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the driver fails twice to switch to the context, whatever its status.
    pub(super) fn enter(&self) -> Result<Entered> {
        let own = self.context.get_inner();
        debug_assert!(!own.is_null());
        let enter = || {
            let before = current()?;
            if before == own {
                return Ok(Entered { before: None, not_send: PhantomData });
            }
            // SAFETY: the context is open.
            checked(unsafe { cuCtxSetCurrent(own) })?;
            Ok(Entered { before: Some(before), not_send: PhantomData })
        };
        enter().or_else(|_: Failure| enter()).map_err(|failure: Failure| {
            let source = failure.describe();
            Error::DeviceLost { action: ENTER.to_owned(), source }
        })
    }
}
