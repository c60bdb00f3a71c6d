//! Kernels that a test adds: the driver copies their arguments, and the test runs them.
//!
//! A test in the same process adds a kernel by `fake_cuda_add_kernel` with its parameters and a function. At a launch
//! the driver calls the function with the arguments, and with the host's addresses of the arrays.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::code::Code;
use crate::driver::{Failure, Outcome, State};
use crate::table::Handle;
use crate::work::Access;

/// A parameter of a kernel, as the test passes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    bytes: usize,
    /// 1 for an array, whose argument is its address; 0 for a value.
    is_array: usize,
}

/// An array or a constant array, as the test gets it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Area {
    /// The name of a constant array, or null.
    name: *const c_char,
    /// The first byte, or null for an array without memory.
    start: *mut u8,
    /// The number of bytes up to the end of the allocation.
    bytes: usize,
}

/// A launch, as the test gets it.
#[repr(C)]
struct Running {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// A pointer for each parameter, to its value.
    arguments: *const *const c_void,
    /// One for each parameter that is an array.
    arrays: *const Area,
    constants: *const Area,
    constant_count: usize,
}

/// Runs a launch. Returns the driver's status, 0 if all is well.
type Run = unsafe extern "C" fn(*const Running) -> u32;

/// A kernel that a test has added.
#[derive(Debug)]
struct Kernel {
    symbol: String,
    parameters: Vec<Parameter>,
    run: Run,
}

static KERNELS: Mutex<BTreeMap<String, Arc<Kernel>>> = Mutex::new(BTreeMap::new());

/// A launch with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    kernel: Arc<Kernel>,
    module: Handle,
    shape: ([u32; 3], [u32; 3], u32),
    arguments: Vec<Vec<u8>>,
}

impl Launch {
    /// The launch of a kernel that a test has added. None if there is no such kernel.
    ///
    /// # Safety
    /// - `arguments` points to one pointer for each parameter of the kernel, to a value of its size.
    pub(crate) unsafe fn new(
        symbol: &str,
        module: Handle,
        shape: ([u32; 3], [u32; 3], u32),
        arguments: *const *const c_void,
    ) -> Outcome<Option<Self>> {
        let Some(kernel) = KERNELS.lock().unwrap_or_else(PoisonError::into_inner).get(symbol).cloned() else {
            return Ok(None);
        };
        if arguments.is_null() && !kernel.parameters.is_empty() {
            return Err(Failure::misuse(Code::INVALID_VALUE, "a launch without arguments"));
        }
        let copied = kernel.parameters.iter().enumerate().map(|(index, parameter)| {
            let mut bytes = vec![0_u8; parameter.bytes];
            // SAFETY: `arguments` has one pointer for each parameter, to a value of its size, as required above.
            unsafe {
                let value = arguments.add(index).read();
                value.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), parameter.bytes);
            }
            bytes
        });
        let arguments = copied.collect();
        Ok(Some(Self { kernel, module, shape, arguments }))
    }

    pub(crate) fn symbol(&self) -> &str {
        &self.kernel.symbol
    }

    /// The addresses of the arrays.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        let arrays =
            self.kernel.parameters.iter().zip(&self.arguments).filter(|(parameter, _)| parameter.is_array != 0);
        arrays.map(|(_, bytes)| u64::from_ne_bytes(bytes[..8].try_into().expect("the bytes of an address")))
    }

    /// The accesses of the kernel: the driver does not know which arrays it writes, and how much of them.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        self.addresses().filter(|&start| start != 0).map(|start| Access { start, bytes: 1, writes: true }).collect()
    }
}

impl State {
    /// Runs a launch of a kernel that a test has added.
    pub(crate) fn run_foreign(&mut self, launch: &Launch) -> Result<(), Code> {
        if !self.settings.emulates {
            return Ok(());
        }
        let mut arrays = Vec::new();
        for address in launch.addresses() {
            if address == 0 {
                arrays.push(Area { name: std::ptr::null(), start: std::ptr::null_mut(), bytes: 0 });
                continue;
            }
            let Some((first, block)) = self.memory.block(address) else {
                let symbol = launch.symbol();
                self.counts.report(format!("an array of {symbol} at {address:#x} is no memory of the device"));
                return Err(Code::ILLEGAL_ADDRESS);
            };
            let bytes = block.bytes.len() - (address - first) as usize;
            let start = self.reachable(address, bytes).map_err(|failure| failure.code)?;
            arrays.push(Area { name: std::ptr::null(), start, bytes });
        }
        let declared = self.modules.get(launch.module).map(|module| module.arrays.clone()).unwrap_or_default();
        let (mut names, mut constants) = (Vec::new(), Vec::new());
        for (array, address) in declared.iter().filter(|(array, _)| array.is_constant) {
            let start = self.reachable(*address, array.bytes).map_err(|failure| failure.code)?;
            let name = std::ffi::CString::new(array.name.as_str()).expect("a symbol has no zero byte");
            constants.push(Area { name: name.as_ptr(), start, bytes: array.bytes });
            names.push(name);
        }
        let arguments: Vec<*const c_void> = launch.arguments.iter().map(|bytes| bytes.as_ptr().cast()).collect();
        let (grid, block, shared_bytes) = launch.shape;
        let running = Running {
            grid,
            block,
            shared_bytes,
            arguments: arguments.as_ptr(),
            arrays: arrays.as_ptr(),
            constants: constants.as_ptr(),
            constant_count: constants.len(),
        };
        // SAFETY: the test has added the function for this kernel. The areas exist while the state is locked.
        let status = unsafe { (launch.kernel.run)(&raw const running) };
        drop(names);
        if status == 0 {
            return Ok(());
        }
        self.counts.report(format!("{} failed with {status}", launch.symbol()));
        Err(Code(status))
    }
}

/// Adds a kernel, which launches of this symbol run from then on. It stays until the process ends.
///
/// # Safety
/// - `symbol` is a C string.
/// - `parameters` points to `count` parameters. An array's parameter has 8 bytes.
/// - `run` may be called for each launch of the kernel, from any thread. It calls no function of the driver.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_add_kernel(symbol: *const c_char, parameters: *const Parameter, count: usize, run: Run) {
    // SAFETY: `symbol` is a C string, and there are `count` parameters, as required above.
    let (symbol, parameters) = unsafe { (CStr::from_ptr(symbol), std::slice::from_raw_parts(parameters, count)) };
    let symbol = symbol.to_string_lossy().into_owned();
    let kernel = Arc::new(Kernel { symbol: symbol.clone(), parameters: parameters.to_vec(), run });
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).insert(symbol, kernel);
}
