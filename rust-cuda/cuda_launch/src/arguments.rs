//! The arguments of a launch, as `cuLaunchKernel` takes them.

use std::ffi::c_void;

use cuda_std::launch::{Argument, Kernel};

use crate::Error;

/// One pointer for each argument of a launch.
pub(crate) struct Arguments {
    /// The addresses of the arrays. Some of the pointers point to them.
    _addresses: Box<[u64]>,
    pub(crate) pointers: Vec<*const c_void>,
}

// SAFETY: the threads of the emulator only read through the pointers, and the values that they refer to are borrowed by
// the launch. A kernel's parameters are values without interior references to the host.
unsafe impl Sync for Arguments {}

impl Arguments {
    /// The arguments of a kernel. All its arrays must be on the device with this number.
    pub(crate) fn of<K: Kernel>(kernel: &K, device: u64) -> Result<Self, Error> {
        let mut all = Vec::new();
        kernel.arguments(&mut |argument| all.push(argument));
        let mut addresses = Vec::new();
        for argument in &all {
            if let Argument::Array { name, address, device: owner } = *argument {
                if owner != device {
                    return Err(Error::ForeignArray { what: K::SYMBOL, name: name.to_owned() });
                }
                addresses.push(address);
            }
        }
        let addresses = addresses.into_boxed_slice();
        let mut arrays = addresses.iter();
        let pointers = all.iter().map(|argument| match argument {
            Argument::Array { .. } => (&raw const *arrays.next().expect("one address for each array")).cast(),
            Argument::Value { value, .. } => *value,
        });
        let pointers = pointers.collect();
        Ok(Self { _addresses: addresses, pointers })
    }

    pub(crate) fn as_ptr(&self) -> *const *const c_void {
        self.pointers.as_ptr()
    }
}
