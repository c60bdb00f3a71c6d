//! A CUDA device for the tutorials' kernels: memory, launches and times, with `cust`.
//!
//! # Why a launch is sound
//! [`CudaQueue::launch`] is the only place that launches. It gets a call from [`Launcher`](super::Launcher), after
//! these checks:
//! - Each array is as long as the call's other arguments require, and whole numbers are in range.
//! - Grid, block and shared memory are those of the kernel, within the device's limits.
//! - The arrays belong to the launcher, so they lie in this device's memory.
//!
//! A call borrows its outputs exclusively. An array waits for the stream before its memory is freed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::error::{CudaError, CudaResult};
use cust::event::{Event, EventFlags};
use cust::function::Function;
use cust::memory::{CopyDestination, DeviceBuffer, mem_get_info};
use cust::module::{Module, Symbol};
use cust::stream::{Stream, StreamFlags};
use kernels_gpu::abi::kernel::Kernel;
use kernels_gpu::ptx;

use super::{Element, KernelCall, LaunchShape};
use faltung::{Error, Result};

/// Turns a failure of the driver into an error that says what was being done.
trait DriverResultExt<T> {
    fn context(self, action: &str) -> Result<T>;
}

impl<T> DriverResultExt<T> for CudaResult<T> {
    fn context(self, action: &str) -> Result<T> {
        self.map_err(|error| Error::from_driver_status(error as u32, action))
    }
}

/// A device with the modules that were loaded. Both stay until the process ends, so functions may be `'static`.
struct OpenDevice {
    number: usize,
    context: Context,
    modules: Mutex<HashMap<&'static str, &'static Module>>,
}

impl OpenDevice {
    fn get(number: usize) -> Result<&'static Self> {
        static OPEN: Mutex<Vec<&'static OpenDevice>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.iter().find(|device| device.number == number) {
            return Ok(device);
        }
        // The library has initialised the driver: it has this device open.
        let device = Device::get_device(number as u32).context("open the device")?;
        let context = Context::new(device).context("create a context")?;
        let device: &Self = Box::leak(Box::new(Self { number, context, modules: Mutex::default() }));
        open.push(device);
        Ok(device)
    }

    /// Makes the context this thread's current one. The library restores it after each of its calls.
    fn enter(&self) -> Result<()> {
        CurrentContext::set_current(&self.context).context("switch to the device's context")
    }

    /// The module of this name, compiled by the driver when it is first asked for.
    fn module(&self, name: &'static str) -> Result<&'static Module> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(name) {
            return Ok(module);
        }
        let text = ptx::module(name).expect("each kernel's module is in the program").ptx();
        let text = CString::new(text).expect("PTX holds no NUL");
        let module = Module::from_ptx_cstr(&text, &[]).context(&format!("compile the kernels of {name}"))?;
        Ok(modules.entry(name).or_insert(Box::leak(Box::new(module))))
    }
}

/// An array in device memory.
pub(super) struct CudaArray<T: Element> {
    device: &'static OpenDevice,
    stream: Rc<Stream>,
    pub(super) buffer: DeviceBuffer<T>,
}

impl<T: Element> std::fmt::Debug for CudaArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaArray").field("len", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl<T: Element> Drop for CudaArray<T> {
    fn drop(&mut self) {
        // A kernel may still use the memory, which is freed behind this. A failure here was reported by the call that
        // caused it.
        let _ = self.device.enter();
        let _ = self.stream.synchronize();
    }
}

/// A stream of a device, with the functions that were launched.
pub(super) struct CudaQueue {
    device: &'static OpenDevice,
    stream: Rc<Stream>,
    functions: RefCell<HashMap<&'static str, Function<'static>>>,
}

impl std::fmt::Debug for CudaQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaQueue").field("device", &self.device.number).finish_non_exhaustive()
    }
}

impl CudaQueue {
    pub(super) fn new(number: usize) -> Result<Self> {
        let device = OpenDevice::get(number)?;
        device.enter()?;
        // Synchronous copies go through the legacy default stream. A stream of this kind is ordered with it.
        let stream = Stream::new(StreamFlags::DEFAULT, None).context("create a stream")?;
        Ok(Self { device, stream: Rc::new(stream), functions: RefCell::default() })
    }

    /// Memory for `length` elements, all of whose bits are ones: NaN in `f32`.
    pub(super) fn allocate<T: Element>(&self, length: usize) -> Result<CudaArray<T>> {
        self.device.enter()?;
        // SAFETY: each bit pattern is a value of these types.
        let mut buffer = match unsafe { DeviceBuffer::uninitialized(length) } {
            Err(CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation) => {
                let (free, total) = mem_get_info().context("ask for the free memory")?;
                return Err(Error::DeviceMemory { needed: length.saturating_mul(size_of::<T>()), free, total });
            }
            result => result.context("allocate an array")?,
        };
        if length > 0 {
            buffer.set_8(u8::MAX).context("fill an array")?;
        }
        Ok(CudaArray { device: self.device, stream: Rc::clone(&self.stream), buffer })
    }

    /// Copies all of an array to the device, and waits.
    pub(super) fn write<T: Element>(&self, array: &mut CudaArray<T>, values: &[T]) -> Result<()> {
        self.device.enter()?;
        array.buffer.copy_from(values).context("copy values to the device")
    }

    /// Copies all of an array from the device, behind the kernels that were launched before.
    pub(super) fn read<T: Element>(&self, array: &CudaArray<T>, values: &mut [T]) -> Result<()> {
        self.device.enter()?;
        array.buffer.copy_to(values).context("copy values from the device")
    }

    /// Sets a constant array of the kernel's module.
    ///
    /// # Panics
    /// If it holds more or fewer values.
    pub(super) fn set_constant<const N: usize>(&self, kernel: &Kernel, name: &str, values: &[f32; N]) -> Result<()> {
        self.device.enter()?;
        let name = CString::new(name).expect("a symbol holds no NUL");
        let module = self.device.module(kernel.module)?;
        let mut symbol: Symbol<'_, [f32; N]> = module.get_global(&name).context("find the constant array")?;
        symbol.copy_from(values).context("copy values to constant memory")
    }

    /// Launches a call, without waiting for it.
    ///
    /// # Safety
    /// - `call.check()` has succeeded.
    /// - `shape` is the call's, and its `check` has succeeded.
    /// - The arrays of the call are of this queue.
    pub(super) unsafe fn launch(&self, kernel: &Kernel, call: &dyn KernelCall, shape: LaunchShape) -> Result<()> {
        self.device.enter()?;
        if !self.functions.borrow().contains_key(kernel.symbol) {
            let module = self.device.module(kernel.module)?;
            let function = module.get_function(kernel.symbol).context(&format!("find the kernel {}", kernel.symbol))?;
            self.functions.borrow_mut().insert(kernel.symbol, function);
        }
        let function = &self.functions.borrow()[kernel.symbol];
        // SAFETY: the function is the call's kernel, by its symbol. The caller has checked the rest.
        unsafe { call.launch_on_cuda(function, shape, &self.stream) }.context(&format!("launch {}", kernel.symbol))
    }

    /// Starts a clock on the device.
    pub(super) fn record(&self) -> Result<Event> {
        self.device.enter()?;
        let event = Event::new(EventFlags::DEFAULT).context("create an event")?;
        event.record(&self.stream).context("record an event")?;
        Ok(event)
    }

    /// The device's time since then. Waits for what was launched.
    pub(super) fn since(&self, start: &Event) -> Result<Duration> {
        let end = self.record()?;
        end.synchronize().context("run the kernels")?;
        let milliseconds = end.elapsed_time_f32(start).context("read the timing events")?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }
}
