//! The kernels' modules, compiled by the driver when they are first asked for.
//!
//! A module has its own constant memory. Two convolutions with different masks must not share it: on two streams one
//! would overwrite the mask that the other one's kernels still read. So each convolution that keeps its mask there has
//! an instance of the module for itself, for as long as it lives. Afterwards the next one uses that instance.

use std::ffi::CString;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use cust::error::CudaError;

use cust::module::Module;
use kernels_gpu::ptx;

use super::event::Event;
use super::status::{DriverResultExt, Failure};
use super::{Gpu, driver};
use crate::{Error, Result};

/// The instances of one module.
#[derive(Default)]
pub(super) struct Instances {
    /// The one for all who write no constant memory.
    shared: Mutex<Option<Arc<Module>>>,
    /// Those that nobody uses, each with the events behind the last work that does.
    idle: Mutex<Vec<(Arc<Module>, Vec<Event>)>>,
}

/// An instance of a module that nobody else uses.
pub(super) struct Exclusive {
    module: Arc<Module>,
    index: usize,
}

impl Deref for Exclusive {
    type Target = Arc<Module>;

    fn deref(&self) -> &Arc<Module> {
        &self.module
    }
}

/// The number of the module with this name.
fn index(name: &str) -> usize {
    ptx::MODULES
        .iter()
        .position(|module| module.name == name)
        .unwrap_or_else(|| panic!("the list of entries names the module {name}, which was not built"))
}

impl Gpu {
    /// The instance of a module that all share.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub(super) fn module(&self, name: &str) -> Result<Arc<Module>> {
        let index = index(name);
        let mut shared = self.modules[index].shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*shared {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(self.compile(index)?);
        *shared = Some(Arc::clone(&module));
        Ok(module)
    }

    /// An instance of a module for one convolution, whose constant memory nothing uses any more.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub(super) fn exclusive_module(&self, name: &str) -> Result<Exclusive> {
        let index = index(name);
        // Until the events below are dropped.
        let _entered = self.enter()?;
        let idle = self.modules[index].idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let module = match idle {
            Some((module, pending)) => {
                pending.iter().try_for_each(|event| event.synchronize().context("wait for a kernel"))?;
                module
            }
            None => Arc::new(self.compile(index)?),
        };
        Ok(Exclusive { module, index })
    }

    /// Takes an instance back that is used no more once `pending` is complete.
    pub(super) fn give_back_module(&self, module: &Exclusive, pending: Vec<Event>) {
        let mut idle = self.modules[module.index].idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((Arc::clone(&module.module), pending));
    }

    /// Has the driver compile a module.
    ///
    /// # Errors
    /// [`Error::DriverTooOld`], [`Error::KernelRefused`], [`Error::DeviceLost`], [`Error::Driver`].
    fn compile(&self, index: usize) -> Result<Module> {
        /// The status for PTX of a version that the driver does not know.
        const UNSUPPORTED_PTX_VERSION: u32 = 222;
        /// Those for PTX that can't be compiled: no code for the device, no memory for the compiler, invalid, no
        /// compiler, not supported.
        const REFUSED: [u32; 5] = [200, 209, 218, 221, 801];
        let _entered = self.enter()?;
        let name = ptx::MODULES[index].name;
        let text = CString::new(ptx::MODULES[index].ptx()).expect("PTX is text");
        Module::from_ptx_cstr(&text, &[]).map_err(|error| {
            let failure = match error {
                // `cust` has no names for most of the reasons to refuse PTX.
                CudaError::UnknownError => driver::refusal(&text).unwrap_or(Failure::from(error)),
                error => Failure::from(error),
            };
            let (device, cuda) = (self.info.name.clone(), self.info.driver());
            match failure.0 {
                UNSUPPORTED_PTX_VERSION => {
                    let required = format!("PTX {} of the kernels {name}", version(&text.to_string_lossy()));
                    Error::DriverTooOld { required, found: format!("CUDA {cuda}"), source: Some(failure.describe()) }
                }
                status if REFUSED.contains(&status) => {
                    Error::KernelRefused { kernels: name.to_owned(), device, cuda, source: failure.describe() }
                }
                _ => failure.into_error(format!("compile the kernels of {name} for {device} (driver for CUDA {cuda})")),
            }
        })
    }
}

/// The `.version` of PTX.
fn version(ptx: &str) -> &str {
    ptx.lines().find_map(|line| line.strip_prefix(".version")).map_or("of a newer version", str::trim)
}
