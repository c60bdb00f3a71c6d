//! Memory and modules that stay until the device is closed, because no event tells when the work that uses them is
//! done.

use std::sync::{Arc, Mutex, PoisonError};

use cust::module::Module;

use super::event::{Event, Pending};
use super::modules::Exclusive;
use super::pool::Block;
use super::{Gpu, driver};

/// What is kept, each with the events that there are.
#[derive(Default)]
pub(super) struct Kept {
    blocks: Mutex<Vec<(Block, Vec<Event>)>>,
    modules: Mutex<Vec<(Arc<Module>, Vec<Event>)>>,
}

impl Gpu {
    /// Gives a block back. It is kept if an event is missing.
    pub(super) fn give_back_or_keep(&self, block: Block, pending: Pending) {
        let Pending { events, is_incomplete } = pending;
        if is_incomplete {
            self.kept.blocks.lock().unwrap_or_else(PoisonError::into_inner).push((block, events));
        } else {
            self.give_back(block, events);
        }
    }

    /// As [`give_back_or_keep`](Self::give_back_or_keep), for an instance of a module.
    pub(super) fn give_back_or_keep_module(&self, module: &Exclusive, pending: Pending) {
        let Pending { events, is_incomplete } = pending;
        if is_incomplete {
            self.kept.modules.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(module), events));
        } else {
            self.give_back_module(module, events);
        }
    }

    /// Gives back all that is kept when the device is closed: the memory to the pool, and the modules to the driver. If
    /// a blocking stream is captured even then, both stay for good.
    pub(super) fn drop_kept(&self) {
        let blocks = std::mem::take(&mut *self.kept.blocks.lock().unwrap_or_else(PoisonError::into_inner));
        let modules = std::mem::take(&mut *self.kept.modules.lock().unwrap_or_else(PoisonError::into_inner));
        if blocks.is_empty() && modules.is_empty() {
            return;
        }
        let stream = driver::default_stream();
        let is_done = !driver::is_captured(&stream) && driver::finish(&stream, "run what the stream was given").is_ok();
        let of_modules = modules.iter().flat_map(|(_, events)| events);
        let is_done = is_done && of_modules.map(Event::synchronize).all(|waited| waited.is_ok());
        if is_done {
            blocks.into_iter().for_each(|(block, events)| self.give_back(block, events));
        } else {
            // A block stays allocated when it is dropped.
            std::mem::forget(modules);
        }
    }
}
