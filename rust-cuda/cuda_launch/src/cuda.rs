//! A GPU, through `cust`.
//!
//! All work goes through one stream. It is a blocking stream, so the synchronous copies of the legacy default stream
//! are ordered with it.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_emulator::{Launch, LaunchError, Limits};
use cuda_std::launch::Kernel;
use cust::CudaFlags;
use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::memory::mem_get_info;
use cust::stream::{Stream, StreamFlags};
use cust::sys::{CUdevice, CUdevice_attribute, CUfunction, CUfunction_attribute, CUmodule, CUstream};

use crate::ptx::enclosing;
use crate::{Error, Ptx};

// The driver's functions that `cust` does not offer, with statuses as numbers: `cust` lacks those of newer drivers.
unsafe extern "C" {
    fn cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, device: CUdevice) -> u32;
    fn cuFuncGetAttribute(value: *mut i32, attribute: CUfunction_attribute, function: CUfunction) -> u32;
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) -> u32;
    fn cuGetErrorString(status: u32, text: *mut *const c_char) -> u32;
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: CUstream,
        arguments: *const *const c_void,
        extra: *const *const c_void,
    ) -> u32;
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32;
    fn cuMemFree_v2(address: u64) -> u32;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> u32;
    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) -> u32;
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> u32;
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: CUmodule, name: *const c_char) -> u32;
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: u32,
        options: *const u32,
        values: *const *mut c_void,
    ) -> u32;
    fn cuModuleUnload(module: CUmodule) -> u32;
}

/// The status of an allocation that is too large.
const OUT_OF_MEMORY: u32 = 2;
/// The status of a symbol that a module lacks.
const NOT_FOUND: u32 = 500;
/// The shared memory of a block that needs no permission: dynamic, and of arrays of a fixed length.
const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// An error of the driver, with the driver's description.
fn driver_error(status: u32, action: impl Into<String>) -> Error {
    let mut text = std::ptr::null();
    // SAFETY: the driver writes a pointer to a text that it keeps, or nothing.
    let known = unsafe { cuGetErrorString(status, &raw mut text) } == 0 && !text.is_null();
    let text = if known {
        // SAFETY: the pointer is not null, so the driver has written it.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    } else {
        "unknown".to_owned()
    };
    Error::Driver { action: action.into(), status, text }
}

/// Turns the status of a call into an error that says what was being done.
fn checked(status: u32, action: impl FnOnce() -> String) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(driver_error(status, action())) }
}

/// Turns the error of a call of `cust` into one that says what was being done.
trait DriverResultExt<T> {
    fn context(self, action: &str) -> Result<T, Error>;
}

impl<T> DriverResultExt<T> for CudaResult<T> {
    fn context(self, action: &str) -> Result<T, Error> {
        self.map_err(|error| driver_error(error as u32, action))
    }
}

/// An open GPU.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    /// The loaded modules by the path of the Rust module.
    modules: Mutex<HashMap<&'static str, Module>>,
    queue: Arc<Queue>,
    pub(crate) limits: Limits,
}

/// The stream of a GPU, and its context, which is dropped last.
#[derive(Debug)]
struct Queue {
    stream: Stream,
    context: Context,
}

impl Queue {
    /// Makes the context the current one of this thread.
    fn enter(&self) -> Result<(), Error> {
        CurrentContext::set_current(&self.context).context("switch to the context of the GPU")
    }

    fn wait(&self) -> Result<(), Error> {
        self.enter()?;
        self.stream.synchronize().context("run the kernels that were launched before")
    }
}

/// A loaded module.
#[derive(Debug)]
struct Module {
    path: &'static str,
    handle: CUmodule,
    /// The kernels that were launched, by symbol.
    functions: HashMap<&'static str, Function>,
    queue: Arc<Queue>,
}

// SAFETY: the driver's handles may be used from any thread that has the context, which each use enters.
unsafe impl Send for Module {}

/// A kernel of a loaded module.
#[derive(Clone, Copy, Debug)]
struct Function {
    handle: CUfunction,
    /// The most threads of a block. The registers may leave room for fewer than the device allows.
    threads_per_block: u64,
    /// The shared arrays of a fixed length in bytes.
    fixed_shared_bytes: u64,
}

impl Drop for Module {
    fn drop(&mut self) {
        // A kernel of the module may still run. The next call reports a failure.
        let _ = self.queue.wait();
        // SAFETY: the module was loaded, and nothing uses it any more.
        unsafe { cuModuleUnload(self.handle) };
    }
}

impl Module {
    /// Compiles PTX.
    fn load(ptx: Ptx, queue: &Arc<Queue>) -> Result<Self, Error> {
        const ERROR_LOG_BUFFER: u32 = 5;
        const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
        let Ptx { module: path, text } = ptx;
        let Ok(text) = CString::new(text.into_owned()) else {
            return Err(driver_error(1, format!("compile the PTX of {path}, which has a zero byte")));
        };
        queue.enter()?;
        let mut log = vec![0_u8; 4096];
        let options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
        let values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len() - 1)];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image is PTX with a zero byte at its end. There are two options, and the log has as many bytes as
        // the second one says, and one more.
        let status = unsafe {
            let image = text.as_ptr().cast();
            cuModuleLoadDataEx(&raw mut handle, image, 2, options.as_ptr(), values.as_ptr())
        };
        checked(status, || {
            let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
            let log = log.trim_end();
            let log = if log.is_empty() { String::new() } else { format!(" ({log})") };
            format!("compile the PTX of {path}{log}")
        })?;
        Ok(Self { path, handle, functions: HashMap::new(), queue: Arc::clone(queue) })
    }

    /// The kernel with this symbol. The context is the current one.
    fn function(&mut self, kernel: &'static str) -> Result<Function, Error> {
        if let Some(function) = self.functions.get(kernel) {
            return Ok(*function);
        }
        let name = CString::new(kernel).expect("a symbol has no zero byte");
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver writes a handle; the module is loaded.
        let status = unsafe { cuModuleGetFunction(&raw mut handle, self.handle, name.as_ptr()) };
        if status == NOT_FOUND {
            return Err(Error::NoEntry { kernel, module: self.path });
        }
        checked(status, || format!("find the kernel {kernel}"))?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the handle belongs to a loaded module, and the driver writes one integer.
            let status = unsafe { cuFuncGetAttribute(&raw mut value, attribute, handle) };
            checked(status, || format!("ask for the limits of {kernel}"))?;
            // These attributes are 0 or more.
            Ok::<_, Error>(value as u64)
        };
        let function = Function {
            handle,
            threads_per_block: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            fixed_shared_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        };
        self.functions.insert(kernel, function);
        Ok(function)
    }
}

/// Memory of a GPU.
#[derive(Debug)]
pub(crate) struct Memory {
    address: u64,
    bytes: usize,
    queue: Arc<Queue>,
}

impl Memory {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A kernel may still use the memory. The next call reports a failure.
        let _ = self.queue.wait();
        if self.bytes > 0 {
            // SAFETY: the memory was allocated, and nothing uses it any more.
            unsafe { cuMemFree_v2(self.address) };
        }
    }
}

/// The limits of a launch on a GPU.
fn limits(device: Device) -> Result<Limits, Error> {
    let get = |attribute| {
        let value = device.get_attribute(attribute).context("ask for the limits of the GPU")?;
        Ok::<_, Error>(value as u32)
    };
    let mut shared_bytes = 0;
    let opt_in = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    // SAFETY: the driver writes one integer.
    let status = unsafe { cuDeviceGetAttribute(&raw mut shared_bytes, opt_in, device.as_raw()) };
    checked(status, || "ask for the shared memory of the GPU".to_owned())?;
    Ok(Limits {
        threads_per_block: get(DeviceAttribute::MaxThreadsPerBlock)?,
        block: [
            get(DeviceAttribute::MaxBlockDimX)?,
            get(DeviceAttribute::MaxBlockDimY)?,
            get(DeviceAttribute::MaxBlockDimZ)?,
        ],
        grid: [
            get(DeviceAttribute::MaxGridDimX)?,
            get(DeviceAttribute::MaxGridDimY)?,
            get(DeviceAttribute::MaxGridDimZ)?,
        ],
        shared_bytes: shared_bytes as u32,
    })
}

impl CudaDevice {
    pub(crate) fn open(number: u32) -> Result<Self, Error> {
        cuda_driver::load()?;
        cust::init(CudaFlags::empty()).context("initialise the driver")?;
        let device = Device::get_device(number).context(&format!("open GPU {number}"))?;
        let context = Context::new(device).context(&format!("create a context on GPU {number}"))?;
        CurrentContext::set_current(&context).context("switch to the context of the GPU")?;
        let stream = Stream::new(StreamFlags::DEFAULT, None).context("create a stream")?;
        let limits = limits(device)?;
        Ok(Self { modules: Mutex::default(), queue: Arc::new(Queue { stream, context }), limits })
    }

    pub(crate) fn load(&self, ptx: Ptx) -> Result<(), Error> {
        let module = Module::load(ptx, &self.queue)?;
        self.modules().insert(module.path, module);
        Ok(())
    }

    fn modules(&self) -> MutexGuard<'_, HashMap<&'static str, Module>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether PTX with the kernels of this Rust module is loaded.
    pub(crate) fn is_loaded(&self, path: &str) -> bool {
        innermost(&mut self.modules(), path).is_some()
    }

    /// Memory for this many bytes.
    pub(crate) fn allocate(&self, bytes: usize, name: &str) -> Result<Memory, Error> {
        self.queue.enter()?;
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: the driver writes an address.
            let status = unsafe { cuMemAlloc_v2(&raw mut address, bytes) };
            if status == OUT_OF_MEMORY {
                let (free, total) = mem_get_info().context("ask for the free memory of the GPU")?;
                return Err(Error::DeviceMemory { name: name.to_owned(), needed: bytes, free, total });
            }
            checked(status, || format!("allocate {bytes} bytes for {name}"))?;
        }
        Ok(Memory { address, bytes, queue: Arc::clone(&self.queue) })
    }

    pub(crate) fn fill(&self, memory: &Memory, byte: u8, name: &str) -> Result<(), Error> {
        self.queue.enter()?;
        if memory.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the memory has as many bytes.
        let status = unsafe { cuMemsetD8_v2(memory.address, byte, memory.bytes) };
        checked(status, || format!("fill {name}"))
    }

    pub(crate) fn write(&self, memory: &Memory, bytes: &[u8], name: &str) -> Result<(), Error> {
        assert!(bytes.len() <= memory.bytes, "more bytes than the array has");
        self.queue.enter()?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the memory has as many bytes, checked above.
        let status = unsafe { cuMemcpyHtoD_v2(memory.address, bytes.as_ptr().cast(), bytes.len()) };
        checked(status, || format!("copy {} bytes to {name}", bytes.len()))?;
        // The copy may read the host's memory and write the device's one after the call has returned.
        self.queue.wait()
    }

    pub(crate) fn read(&self, memory: &Memory, bytes: &mut [u8], name: &str) -> Result<(), Error> {
        assert!(bytes.len() <= memory.bytes, "more bytes than the array has");
        self.queue.wait()?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the memory has as many bytes, checked above, and no kernel uses it: all have run.
        let status = unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory.address, bytes.len()) };
        checked(status, || format!("copy {} bytes from {name}", bytes.len()))
    }

    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.queue.wait()
    }

    /// Sets the first `values.len()` bytes of a constant array of `bytes` bytes.
    pub(crate) fn set_constant(
        &self,
        path: &str,
        symbol: &'static str,
        bytes: usize,
        values: &[u8],
    ) -> Result<(), Error> {
        assert!(values.len() <= bytes, "more bytes than the array has");
        // A kernel that was launched before reads the old values.
        self.queue.wait()?;
        let mut modules = self.modules();
        let module = innermost(&mut modules, path).ok_or_else(|| not_loaded(symbol, path))?;
        let name = CString::new(symbol).expect("a symbol has no zero byte");
        let (mut address, mut found) = (0, 0);
        // SAFETY: the driver writes an address and a size; the module is loaded.
        let status = unsafe { cuModuleGetGlobal_v2(&raw mut address, &raw mut found, module.handle, name.as_ptr()) };
        if status == NOT_FOUND || (status == 0 && found != bytes) {
            return Err(Error::NoConstant { module: module.path, symbol, bytes });
        }
        checked(status, || format!("find the constant array {symbol}"))?;
        // SAFETY: the array has `bytes` bytes, and `values` has no more, checked above.
        let status = unsafe { cuMemcpyHtoD_v2(address, values.as_ptr().cast(), values.len()) };
        checked(status, || format!("set the constant array {symbol}"))?;
        self.queue.wait()
    }

    /// Enqueues the kernel `K`.
    ///
    /// # Safety
    /// - `arguments` has a pointer for each parameter of the kernel, to a value of its size.
    /// - Arrays are addresses in this device's memory.
    /// - The conditions of the kernel hold.
    /// - `launch` is within `limits`.
    pub(crate) unsafe fn launch<K: Kernel>(&self, launch: &Launch, arguments: &[*const c_void]) -> Result<(), Error> {
        let kernel = K::SYMBOL;
        self.queue.enter()?;
        let mut modules = self.modules();
        let module = innermost(&mut modules, K::MODULE).ok_or_else(|| not_loaded(kernel, K::MODULE))?;
        let function = module.function(kernel)?;
        let (found, most) = (launch.threads(), function.threads_per_block);
        if found > most {
            let reason = "its registers leave no room for more; `launch_bounds` limits the registers of a thread";
            return Err(Error::Bounds { kernel, found, most, reason });
        }
        let (dynamic, fixed) = (u64::from(launch.shared_bytes), function.fixed_shared_bytes);
        let most = u64::from(self.limits.shared_bytes);
        if dynamic + fixed > most {
            return Err(Error::Launch { kernel, error: LaunchError::SharedMemory { dynamic, fixed, most } });
        }
        if dynamic + fixed > SHARED_WITHOUT_OPT_IN.into() {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the handle belongs to a loaded module; the driver checks the number.
            let status = unsafe { cuFuncSetAttribute(function.handle, attribute, launch.shared_bytes as i32) };
            checked(status, || format!("give {kernel} {dynamic} bytes of shared memory"))?;
        }
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (stream, extra) = (self.queue.stream.as_inner(), std::ptr::null());
        // SAFETY: the function is the kernel, by its symbol in the PTX of its module. The driver copies the arguments
        // before it returns. The caller guarantees the rest.
        let status = unsafe {
            let arguments = arguments.as_ptr();
            cuLaunchKernel(function.handle, gx, gy, gz, bx, by, bz, launch.shared_bytes, stream, arguments, extra)
        };
        checked(status, || format!("launch {kernel}"))
    }

    /// The time in milliseconds that the GPU takes for what `work` launches.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
        let event = || {
            self.queue.enter()?;
            let event = Event::new(EventFlags::DEFAULT).context("create an event")?;
            event.record(&self.queue.stream).context("record an event")?;
            Ok::<_, Error>(event)
        };
        let start = event()?;
        work()?;
        let end = event()?;
        end.synchronize().context("run the kernels")?;
        let milliseconds = end.elapsed_time_f32(&start).context("read the events")?;
        Ok(f64::from(milliseconds))
    }
}

/// The loaded module of the innermost Rust module around a path.
fn innermost<'a>(modules: &'a mut HashMap<&'static str, Module>, path: &str) -> Option<&'a mut Module> {
    let path = enclosing(path).find(|path| modules.contains_key(path))?;
    modules.get_mut(path)
}

/// The error of a kernel or a constant array of a Rust module without PTX.
fn not_loaded(kernel: &'static str, path: &str) -> Error {
    let crate_name = path.split("::").next().unwrap_or(path).to_owned();
    Error::NotLoaded { kernel, crate_name }
}
