//! Memory and modules that stay until the device is closed, because nothing tells when the work that uses them is done.

use std::sync::{Arc, Mutex, PoisonError};

use cust::module::Module;

use super::event::Event;
use super::modules::Exclusive;
use super::pool::Block;
use super::{Gpu, driver};

/// What is kept.
#[derive(Default)]
pub(super) struct Kept(Mutex<(Vec<Block>, Vec<Arc<Module>>)>);

impl Gpu {
    /// Gives a block back whose work is done when `pending` has come. Without events it is kept.
    pub(super) fn give_back_or_keep(&self, block: Block, pending: Option<Vec<Event>>) {
        match pending {
            Some(pending) => self.give_back(block, pending),
            None => self.kept.0.lock().unwrap_or_else(PoisonError::into_inner).0.push(block),
        }
    }

    /// As [`give_back_or_keep`](Self::give_back_or_keep), for an instance of a module.
    pub(super) fn give_back_or_keep_module(&self, module: &Exclusive, pending: Option<Vec<Event>>) {
        match pending {
            Some(pending) => self.give_back_module(module, pending),
            None => self.kept.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(Arc::clone(module)),
        }
    }

    /// Gives all that is kept back when the device is closed: then nothing is captured. The memory goes to the pool,
    /// and the modules are unloaded.
    pub(super) fn drop_kept(&self) {
        let (blocks, modules) = std::mem::take(&mut *self.kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        if blocks.is_empty() && modules.is_empty() {
            return;
        }
        let waited = driver::finish(&driver::default_stream(), "run what the default stream was given");
        // Where the wait fails, the device is lost, and its memory with it.
        if waited.is_ok() {
            blocks.into_iter().for_each(|block| self.give_back(block, Vec::new()));
        }
    }
}
