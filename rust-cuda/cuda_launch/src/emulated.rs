//! The memory of the emulator, which a device and its arrays share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_emulator::Memory;
use cuda_std::Scalar;

use crate::ptx::enclosing;

/// The emulator's memory, and the constant arrays of all modules.
#[derive(Debug, Default)]
pub(crate) struct Emulated {
    pub(crate) memory: Memory,
    /// The bytes of constant arrays by module and symbol. A module comes before the modules in it.
    constants: BTreeMap<(String, &'static str), Vec<u8>>,
}

impl Emulated {
    /// Sets the first bytes of a constant array of a module.
    pub(crate) fn set_constant(&mut self, module: &str, symbol: &'static str, bytes: &[u8]) {
        let held = self.constants.entry((module.to_owned(), symbol)).or_default();
        held.resize(held.len().max(bytes.len()), 0);
        held[..bytes.len()].copy_from_slice(bytes);
    }

    /// The memory for a launch, with the constant arrays that a kernel of this module sees.
    pub(crate) fn memory_for(&mut self, module: &str) -> &mut Memory {
        // Two modules around the kernel may have an array of one symbol. The inner module comes later and replaces it.
        for ((outer, symbol), bytes) in &self.constants {
            if enclosing(module).any(|around| around == outer) {
                self.memory.set_constant(symbol, bytes);
            }
        }
        &mut self.memory
    }
}

/// The emulator's memory, which its arrays share.
#[derive(Debug, Default)]
pub(crate) struct EmulatedMemory(Mutex<Emulated>);

impl EmulatedMemory {
    /// Locks the memory. A launch that panicked leaves it usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Emulated> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An array of the emulator.
#[derive(Debug)]
pub(crate) struct EmulatedArray<T: Scalar> {
    /// None while it is dropped.
    buffer: Option<cuda_emulator::Buffer<T>>,
    memory: Arc<EmulatedMemory>,
}

impl<T: Scalar> EmulatedArray<T> {
    pub(crate) fn new(buffer: cuda_emulator::Buffer<T>, memory: Arc<EmulatedMemory>) -> Self {
        Self { buffer: Some(buffer), memory }
    }

    pub(crate) fn buffer(&self) -> &cuda_emulator::Buffer<T> {
        self.buffer.as_ref().expect("it is not dropped yet")
    }
}

impl<T: Scalar> Drop for EmulatedArray<T> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.memory.lock().memory.free(buffer);
        }
    }
}
